"""Which pixels are masked, from their values: nodata and NaN, compared in the band's own type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["keep_nonzero", "keep_valid", "nodata_in"]


def nodata_in(dtype: np.dtype[np.generic], value: str | float) -> tuple[float, ...]:
    """``value`` as one of ``dtype``, alone in a tuple; the empty tuple if no value of the type equals it.

    NaN gives the empty tuple: it masks in every float band without being named, and an integer band has none.

    Parameters
    ----------
    dtype
        An integer or float type.
    value
        A number, or its text (``"-9999"``, ``"nan"``); a text keeps all digits of a 64-bit integer.

    Raises
    ------
    ValueError
        If the text isn't a number.

    Examples
    --------
    >>> nodata_in(np.dtype("float32"), "-3.39999999999999996e+38") == (float(np.float32(-3.4e38)),)
    True
    >>> nodata_in(np.dtype("uint8"), -9999)
    ()
    """
    exact: int | float
    try:
        exact = int(value) if isinstance(value, str) or float(value).is_integer() else float(value)
    except ValueError:
        exact = float(value)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            cast = float(dtype.type(exact))  # a tag's decimals are more than the type's: -3.4e38 in float32
        return () if np.isnan(cast) or (np.isinf(cast) and not np.isinf(float(exact))) else (cast,)
    if isinstance(exact, float):
        if not exact.is_integer():  # NaN, infinity, 0.5
            return ()
        exact = int(exact)
    limits = np.iinfo(dtype.name)
    return (exact,) if limits.min <= exact <= limits.max else ()


def keep_valid(
    pixels: NDArray[np.generic],
    nodata: tuple[float, ...],
    valid: NDArray[np.bool_],
    scratch: NDArray[np.bool_],
) -> None:
    """Clear ``valid`` where ``pixels`` are nodata or NaN; infinity stays valid.

    Parameters
    ----------
    pixels
        (row, column), one band.
    nodata
        Values of the pixels' type.
    valid
        (row, column), True = valid; changed in place, so calls for several bands unite their masks.
    scratch
        (row, column), overwritten.
    """
    for value in nodata:
        np.not_equal(pixels, pixels.dtype.type(value), out=scratch)
        np.logical_and(valid, scratch, out=valid)
    if pixels.dtype.kind in "fc":
        np.equal(pixels, pixels, out=scratch)  # NaN alone differs from itself
        np.logical_and(valid, scratch, out=valid)


def keep_nonzero(mask: NDArray[np.generic], valid: NDArray[np.bool_], scratch: NDArray[np.bool_]) -> None:
    """Clear ``valid`` where ``mask`` (a mask band, or alpha) is 0; arrays as in :func:`keep_valid`."""
    np.not_equal(mask, 0, out=scratch)
    np.logical_and(valid, scratch, out=valid)
