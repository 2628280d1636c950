"""Two rasters in one page, one over the other, with a line to drag between them."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING, Any

from geotfr.errors import InputError, UsageError
from geotfr.flags import checks_flags
from geotfr.grid.crs import same_crs
from geotfr.patches.stretch import PERCENTILES, checked_percentiles
from geotfr.plain_text import printable
from geotfr.storage import atomic_output
from geotfr.storage.inputs import check_not_input
from geotfr.stores.path import output_path

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from geotfr.options.sources import RasterLike
    from geotfr.rasters.reduced import ReducedRaster

__all__ = ["swipe_page", "write_swipe"]

SIDE = 1600
_TOLERANCE = 0.51
"""How far corners may lie apart, in pixels of the coarser raster."""

# Nothing is fetched: the policy forbids it, whatever the names below say. {…} are filled in by swipe_page.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }}
body {{ margin: 0 auto; padding: 12px; max-width: {width}px; }}
h1 {{ font-size: 1.1rem; margin: 0 0 8px; overflow-wrap: anywhere; }}
#frame {{ position: relative; overflow: hidden; touch-action: none; cursor: ew-resize; user-select: none;
  background: #8884; line-height: 0; }}
#frame img {{ width: 100%; aspect-ratio: {width} / {height}; image-rendering: {rendering}; pointer-events: none; }}
#after {{ position: absolute; inset: 0; clip-path: inset(0 0 0 var(--at)); }}
#frame {{ --at: 50%; }}
#line {{ position: absolute; top: 0; bottom: 0; left: var(--at); width: 2px; margin-left: -1px; background: #fff;
  box-shadow: 0 0 3px #000; }}
#line::after {{ content: "\\2194"; position: absolute; top: 50%; left: 50%; width: 34px; height: 34px;
  margin: -17px 0 0 -17px; border-radius: 50%; background: #fff; color: #000; font: 20px/34px system-ui;
  text-align: center; box-shadow: 0 0 4px #0008; }}
.name {{ position: absolute; top: 8px; padding: 2px 8px; background: #000a; color: #fff; line-height: 1.4;
  max-width: 45%; overflow-wrap: anywhere; border-radius: 3px; }}
#left {{ left: 8px; }} #right {{ right: 8px; }}
input {{ width: 100%; margin: 10px 0 0; }}
p {{ margin: 6px 0 0; opacity: .75; font-size: .9rem; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<h1>{title}</h1>
<div id="frame">
<img id="before" alt="{before}" src="data:image/png;base64,{before_png}">
<img id="after" alt="{after}" src="data:image/png;base64,{after_png}">
<div id="line"></div>
<span class="name" id="left">{before}</span><span class="name" id="right">{after}</span>
</div>
<input id="at" type="range" min="0" max="100" step="0.1" value="50" aria-label="where {before} ends and {after} begins">
<p>{words}</p>
<script>
"use strict";
const frame = document.getElementById("frame"), at = document.getElementById("at");
function move(share) {{
  const kept = Math.min(Math.max(share, 0), 100);
  at.value = kept;
  frame.style.setProperty("--at", kept + "%");
}}
function follow(event) {{
  const box = frame.getBoundingClientRect();
  move(100 * (event.clientX - box.left) / box.width);
}}
frame.addEventListener("pointerdown", event => {{ follow(event); frame.setPointerCapture(event.pointerId); }});
frame.addEventListener("pointermove", event => {{ if (event.buttons & 1) follow(event); }});
at.addEventListener("input", () => move(Number(at.value)));
move(50);
</script>
</body>
</html>
"""


def swipe_page(
    before: RasterLike,
    after: RasterLike,
    *,
    labels: tuple[str, str] | None = None,
    title: str = "before and after",
    bands: Sequence[str | int] | None = None,
    percentiles: tuple[float, float] = PERCENTILES,
    side: int = SIDE,
) -> str:
    """One HTML page that shows two rasters of the same ground, split at a line that can be dragged.

    Everything is in the page, pictures too, and its policy forbids the browser to fetch anything.

    Parameters
    ----------
    before, after
        Paths, or ``(array, transform, crs)``; they may differ in pixel size.
    labels
        What they are called; by default their names.
    title
        The page's.
    bands
        Of both, where both have them: numbers from 1 or names; three make red, green and blue. Colour tables are used.
    percentiles
        Between which each raster's values are stretched.
    side
        Pixels along the longer side of the pictures, 16 to 8192.

    Raises
    ------
    InputError
        Rasters that don't cover the same ground, or that are missing.
    UsageError
        A band that isn't there, or a side out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import geotfr
    >>> place = (10, 0, 0, 0, -10, 0), "EPSG:32633"
    >>> page = geotfr.swipe_page((np.eye(4), *place), (np.eye(4) * 2, *place), labels=("<one>", "two"))
    >>> "&lt;one&gt;" in page, "<one>" in page
    (True, False)
    """
    from geotfr.rasters.reduced import picture_of, read_reduced

    if isinstance(side, bool) or not isinstance(side, int) or not 16 <= side <= 8192:
        raise UsageError(f"side: found {side!r}; allowed are 16 to 8192 pixels")
    limits = checked_percentiles(percentiles)
    rasters: list[ReducedRaster] = [read_reduced(source, bands=bands, side=side) for source in (before, after)]
    _check_ground(*rasters)
    names = labels or (rasters[0].name, rasters[1].name)
    shapes = [raster.valid.shape for raster in rasters]
    height, width = max(shapes, key=lambda shape: shape[0] * shape[1])
    rows, cols = rasters[0].geobox.shape_yx
    shown = [", ".join(raster.names if raster.colours is None else raster.names[:1]) for raster in rasters]
    words = f"{cols} x {rows} pixels, {rasters[0].geobox.crs[:60] or 'no CRS'}"
    words += "".join(f"; {name}: {bands_shown}" for name, bands_shown in zip(names, shown, strict=True))
    return _PAGE.format(
        title=html.escape(printable(title)),
        before=html.escape(printable(names[0])),
        after=html.escape(printable(names[1])),
        words=html.escape(words),
        width=max(width, 480),
        height=round(max(width, 480) * height / width),
        rendering="pixelated" if width < 480 else "auto",
        before_png=_png(picture_of(rasters[0], limits)),
        after_png=_png(picture_of(rasters[1], limits)),
    )


@checks_flags
def write_swipe(
    before: RasterLike,
    after: RasterLike,
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    labels: tuple[str, str] | None = None,
    title: str = "before and after",
    bands: Sequence[str | int] | None = None,
    percentiles: tuple[float, float] = PERCENTILES,
    side: int = SIDE,
) -> None:
    """Write :func:`swipe_page` as the file ``output``; raises as it does.

    Raises
    ------
    OutputError
        It can't be written, or exists and ``overwrite`` is False.
    """
    check_not_input(output_path(output), (before, after))
    page = swipe_page(before, after, labels=labels, title=title, bands=bands, percentiles=percentiles, side=side)
    with atomic_output(output, overwrite=overwrite) as file:
        file.write(page.encode())


def _png(rgb: Any) -> str:
    import numpy as np

    from geotfr.rasters.encoded import encode_picture

    return base64.b64encode(encode_picture(np.moveaxis(rgb, 0, -1))).decode()


def _check_ground(before: ReducedRaster, after: ReducedRaster) -> None:
    """Refuse rasters whose corners lie apart."""
    from geotfr.rasters.describe import grid_words

    one, other = before.geobox, after.geobox
    scale = 0.0
    for box in (one, other):
        a, b, _, d, e, _ = box.affine
        scale = max(scale, (a * a + d * d) ** 0.5, (b * b + e * e) ** 0.5)
    corners = [
        [box.xy(col * box.shape_yx[1], row * box.shape_yx[0]) for col in (0, 1) for row in (0, 1)]
        for box in (one, other)
    ]
    apart = max(max(abs(x - u), abs(y - v)) for (x, y), (u, v) in zip(corners[0], corners[1], strict=True))
    if apart > _TOLERANCE * scale or not same_crs(one.crs, other.crs):
        raise InputError(
            f"{after.name}: {grid_words(other)}, but {before.name}: {grid_words(one)}; a page compares rasters of the"
            " same ground: warp or cut one of them first"
        )
