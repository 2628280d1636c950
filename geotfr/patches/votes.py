"""The most frequent of some values, pixel by pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["most_frequent"]


def most_frequent(
    values: NDArray[Any], valid: NDArray[np.bool_], preferred: NDArray[np.bool_] | None = None
) -> NDArray[Any]:
    """The most frequent of the valid ``values``, along the first axis, in their dtype.

    Of values equally frequent the ``preferred`` one wins, then the smallest. Where none is valid the result is 0.

    Parameters
    ----------
    values, valid, preferred
        ``(candidate, ...)``; there are few candidates, they are compared in pairs.

    Examples
    --------
    >>> values = np.array([[7, 7], [5, 5], [7, 5]])
    >>> most_frequent(values, np.array([[True, True], [True, True], [True, False]])).tolist()
    [7, 5]
    """
    chosen = np.zeros(values.shape[1:], values.dtype)
    most = np.zeros(values.shape[1:], np.uint16)
    for place, value in enumerate(values):
        count = np.zeros(value.shape, np.uint16)
        for other, is_valid in zip(values, valid, strict=True):
            count += is_valid & (other == value)
        count *= 2
        if preferred is not None:
            # Half a vote more, and so only between equals; for every candidate of the preferred value.
            count += np.logical_or.reduce(preferred & valid & (values == value))
        count[~valid[place]] = 0
        wins = (count > most) | ((count == most) & (count > 0) & (value < chosen))
        np.copyto(chosen, value, where=wins)
        np.copyto(most, count, where=wins)
    return chosen
