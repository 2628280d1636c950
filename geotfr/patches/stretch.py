"""Values to shades: stretched between two percentiles, as pictures of rasters and patches are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PERCENTILES", "checked_percentiles", "limits_of", "shades"]

PERCENTILES = (2.0, 98.0)
_BRIGHTEST = 254


def checked_percentiles(percentiles: tuple[float, float]) -> tuple[float, float]:
    """``percentiles``, two numbers from 0 to 100 that ascend.

    Raises
    ------
    UsageError
        They aren't.
    """
    try:
        low, high = (float(number) for number in percentiles)
    except (TypeError, ValueError) as error:
        raise UsageError(f"percentiles: found {percentiles!r}; allowed are two numbers, as (2, 98)") from error
    if not 0 <= low < high <= 100:
        raise UsageError(f"percentiles: found {percentiles!r}; allowed are two from 0 to 100, the lower first")
    return low, high


def limits_of(
    values: NDArray[Any], valid: NDArray[np.bool_] | None, percentiles: tuple[float, float] = PERCENTILES
) -> tuple[float, float] | None:
    """The percentiles of the finite valid values; None if there are none.

    >>> limits_of(np.arange(101.0), None)
    (2.0, 98.0)
    """
    is_known = np.isfinite(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
    if valid is not None:
        is_known &= valid
    chosen = values[is_known]
    if not chosen.size:
        return None
    low, high = np.percentile(chosen.astype(np.float64), percentiles)
    return float(low), float(high)


def shades(values: NDArray[Any], limits: tuple[float, float] | None) -> NDArray[np.uint8]:
    """``values`` from 0 at the lower limit to 254 at the upper one; NaN is 0, and all are where there are no limits.

    >>> shades(np.array([-5.0, 0.0, 5.0, 10.0, np.inf]), (0.0, 10.0)).tolist()
    [0, 0, 127, 254, 254]
    """
    if limits is None:
        return np.zeros(values.shape, np.uint8)
    low, high = limits
    numbers = np.nan_to_num(values.astype(np.float64), nan=low, posinf=high, neginf=low)
    share = (numbers - low) / (high - low if high > low else 1.0)
    found: NDArray[np.uint8] = (np.clip(share, 0, 1) * _BRIGHTEST).astype(np.uint8)
    return found
