"""The output's type and nodata value: given and checked, or chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.options.values import check_nodata
from geotfr.pipeline.ingest.finish import Extremes, reduced_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from geotfr.options import IngestOptions

__all__ = ["PixelType", "choose_pixel_type"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelType:
    """What a pixel is.

    Attributes
    ----------
    dtype
        Of all bands.
    nodata
        The value of pixels without prediction, or None.
    has_mask
        Whether a mask inside the file tells them instead.
    note
        Which was chosen, and why; empty where nothing was.
    """

    dtype: np.dtype[Any]
    nodata: float | None
    has_mask: bool = False
    note: str = ""


def choose_pixel_type(
    natural: np.dtype[Any], bands: int, options: IngestOptions, *, leaves_gaps: bool, scan: Callable[[], Extremes]
) -> PixelType:
    """The type and nodata value of the output.

    Parameters
    ----------
    natural, bands
        The predictions' own type, and how many bands they have.
    leaves_gaps
        Whether pixels will have no prediction: a mask is put back, or patches weren't exported.
    scan
        Reads all predictions; called only where the choice depends on their values.

    Raises
    ------
    UsageError
        A nodata value that the type can't hold.
    """
    dtype = reduced_dtype(natural, bands, options)
    extremes: Extremes | None = None
    if options.argmax or options.threshold is not None:
        extremes = Extremes()
        extremes.low, extremes.high = 0, bands - 1 if options.argmax else 1
    if options.dtype == "auto" and dtype.kind != "f":
        extremes = extremes or scan()
        dtype = extremes.smallest_dtype(options.nodata)
    elif options.dtype not in (None, "auto"):
        dtype = np.dtype(options.dtype)
    if options.nodata is not None or not leaves_gaps:
        check_nodata(options.nodata, dtype)
        # A tag tells the value that pixels have: float32's 0.1 is another float64 than 0.1.
        own = options.nodata if options.nodata is None or dtype.kind != "f" else float(dtype.type(options.nodata))
        return PixelType(dtype=dtype, nodata=own)
    if dtype.kind == "f":
        return PixelType(dtype=dtype, nodata=np.nan, note="pixels without prediction are NaN")
    # Scaled values keep off the end of the range that nodata takes.
    found = Extremes() if options.is_quantised else extremes or scan()
    unused = found.unused(dtype)
    if unused is None:
        end = Extremes().unused(dtype)
        is_one = (
            "is a prediction" if found.are_known else "may be a prediction; a nodata that none is tells them instead"
        )
        note = f"pixels without prediction are masked inside the file: {end}, nodata of {dtype.name}, {is_one}"
        return PixelType(dtype=dtype, nodata=None, has_mask=True, note=note)
    return PixelType(dtype=dtype, nodata=unused, note=f"pixels without prediction are {unused}, which no prediction is")
