"""The grid of patches over the raster: patches, margins, what the edges leave out, what was dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.grid.crs import same_crs
from geotfr.patches.stretch import PERCENTILES, checked_percentiles
from geotfr.preview.figures import INK, MARGIN, MASKED, PATCH, label, need_matplotlib, new_figure
from geotfr.preview.layouts import layout_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from geotfr.mixer import Manifest, Mixer
    from geotfr.options import ExportKeywords, PairXY
    from geotfr.options.sources import RasterLike, RastersLike
    from geotfr.patches import PatchLayout
    from geotfr.pipeline.export.plan import ExportPlan
    from geotfr.pipeline.export.run import ExportResult
    from geotfr.rasters.reduced import ReducedRaster

__all__ = ["plot_grid"]

_LONGER_SIDE = 9.0
_MOST_NUMBERS = 400
_MOST_BLOCKS = 2500
_MOST_LINES = 400


@checks_flags
def plot_grid(
    source: RastersLike | ExportResult | ExportPlan | Manifest | Mixer,
    *,
    raster: RasterLike | None = None,
    patch_dimensions: PairXY | None = None,
    kernel_size: PairXY | None = None,
    source_options: ExportKeywords | None = None,
    bands: Sequence[str | int] | None = None,
    highlight: int | None = None,
    numbers: bool | None = None,
    percentiles: tuple[float, float] = PERCENTILES,
) -> Figure:
    """The patch grid over its raster, in pixels of the export's grid.

    Patches are blue; the blocks that their margins make are orange and dashed, one of them filled to show the overlap;
    what the edges leave out is hatched, and so is what a padded edge adds; patches over the masked threshold are
    crossed out.

    Parameters
    ----------
    source
        A raster, with ``patch_dimensions``; or a plan, the result of an export, a mixer, a manifest, or the path of
        one, or the folder of a set.
    raster
        What is drawn below; by default the source, if it is a raster.
    patch_dimensions, kernel_size, source_options
        As of :func:`geotfr.export_image`: (width, height), and other options that decide the grid.
    bands
        The raster's, numbers from 1 or names; three make red, green and blue.
    highlight
        Number of the patch whose block is filled; by default one in the middle.
    numbers
        Whether patches bear their numbers; by default where there is place for them.
    percentiles
        Between which the raster's values are stretched.

    Returns
    -------
    matplotlib.figure.Figure
        :func:`geotfr.write_figure` writes it.

    Raises
    ------
    UsageError
        No matplotlib (extra ``plot``), no patch, or options that can't be.
    InputError, ReadError
        A source that is missing or can't be read.

    Examples
    --------
    >>> import geotfr
    >>> scene = (np.zeros((60, 90)), (10, 0, 0, 0, -10, 0), "EPSG:32633")
    >>> figure = geotfr.plot_grid(scene, patch_dimensions=16, kernel_size=8)
    >>> figure.axes[0].get_title()
    'raster: 5 x 3 patches of 16 x 16, margin 4 x 4'
    """
    need_matplotlib()
    drawn = layout_of(source, patch_dimensions=patch_dimensions, kernel_size=kernel_size, source_options=source_options)
    layout = drawn.layout
    if not layout.count:
        raise UsageError(f"{drawn.name}: has no patch; make patches smaller")
    chosen = layout.rows // 2 * layout.columns + layout.columns // 2 if highlight is None else highlight
    if not 0 <= chosen < layout.count:
        raise UsageError(f"highlight: found patch {highlight}; there are 0 to {layout.count - 1}")
    below = raster if raster is not None else source if _is_raster(source, drawn.name) else None
    extent = _extent(layout)
    shape = extent[1] - extent[0], extent[2] - extent[3]
    longer = max(shape)
    figure = new_figure(
        max(_LONGER_SIDE * shape[0] / longer, 5.0) + 0.6, max(_LONGER_SIDE * shape[1] / longer, 1.6) + 1.2
    )
    axes = figure.add_subplot()
    is_drawn = below is not None and _draw_raster(axes, below, layout, bands, checked_percentiles(percentiles))
    _draw_edges(axes, layout)
    _draw_patches(axes, layout, chosen, drawn.dropped)
    wants_numbers = layout.count <= _MOST_NUMBERS if numbers is None else numbers
    if wants_numbers:
        _draw_numbers(axes, layout, figure.get_size_inches()[0] / shape[0], on_raster=is_drawn)
    axes.set_xlim(extent[0], extent[1])
    axes.set_ylim(extent[2], extent[3])
    axes.set_aspect("equal")
    axes.set_xlabel("column (pixels)")
    axes.set_ylabel("row (pixels)")
    axes.set_title(label(drawn.name) + ": " + _title(layout), fontsize=11)
    _legend(axes, layout, drawn.dropped)
    return figure


def _title(layout: PatchLayout) -> str:
    (height, width), (margin_y, margin_x) = layout.patch_yx, layout.margin_yx
    return (
        f"{layout.columns} x {layout.rows} patch{'es' if layout.count > 1 else ''} of {width} x {height}, margin"
        f" {margin_x} x {margin_y}"
    )


def _is_raster(source: Any, name: str) -> bool:
    """Whether the layout was made of a raster; those of plans and sets have names of their own."""
    return isinstance(source, tuple) or not (
        name.endswith(".json") or name in ("plan", "manifest", "mixer") or isinstance(source, list)
    )


def _extent(layout: PatchLayout) -> tuple[float, float, float, float]:
    """(left, right, bottom, top) of all that is drawn: the grid, the patches, and their margins."""
    rows, cols = layout.geobox.shape_yx
    (height, width), (margin_y, margin_x) = layout.patch_yx, layout.margin_yx
    bottom, right = max(rows, layout.rows * height + margin_y), max(cols, layout.columns * width + margin_x)
    spare = 0.01 * max(right + margin_x, bottom + margin_y)
    return -margin_x - spare, right + spare, bottom + spare, -margin_y - spare


def _draw_raster(
    axes: Axes,
    raster: Any,
    layout: PatchLayout,
    bands: Sequence[str | int] | None,
    percentiles: tuple[float, float],
) -> bool:
    """The raster where it lies on the grid; not if its CRS is another one."""
    from matplotlib.transforms import Affine2D

    from geotfr.rasters.reduced import picture_of, read_reduced

    reduced: ReducedRaster = read_reduced(raster, bands=bands)
    theirs, own = reduced.geobox, layout.geobox
    if theirs.crs and own.crs and not same_crs(theirs.crs, own.crs):
        return False
    picture = np.moveaxis(picture_of(reduced, percentiles), 0, -1)
    rows, cols = theirs.shape_yx
    to_grid = np.linalg.inv(_matrix(own.affine)) @ _matrix(theirs.affine)
    axes.imshow(
        picture,
        extent=(0, cols, rows, 0),
        transform=Affine2D(to_grid) + axes.transData,
        interpolation="nearest",
        alpha=0.7,
        zorder=0,
    )
    return True


def _matrix(affine: Sequence[float]) -> Any:
    return np.array([affine[:3], affine[3:], (0, 0, 1)], np.float64)


def _draw_edges(axes: Axes, layout: PatchLayout) -> None:
    """Hatched: the pixels that no patch has, and those that a padded edge adds."""
    from matplotlib.patches import Rectangle

    rows, cols = layout.geobox.shape_yx
    height, width = layout.rows * layout.patch_yx[0], layout.columns * layout.patch_yx[1]
    style: dict[str, Any] = {"facecolor": "white", "alpha": 0.55, "edgecolor": INK, "hatch": "////", "linewidth": 0}
    low, high = sorted((rows, height))
    if low < high:
        axes.add_patch(Rectangle((0, low), max(cols, width), high - low, **style))
    left, right = sorted((cols, width))
    if left < right:
        axes.add_patch(Rectangle((left, 0), right - left, low, **style))
    axes.add_patch(Rectangle((0, 0), cols, rows, fill=False, edgecolor=INK, linewidth=1.2))


def _draw_patches(axes: Axes, layout: PatchLayout, chosen: int, dropped: Sequence[int]) -> None:
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.patches import Rectangle

    (height, width), (margin_y, margin_x) = layout.patch_yx, layout.margin_yx
    bottom, right = layout.rows * height, layout.columns * width
    lines = [[(0, row * height), (right, row * height)] for row in _every(layout.rows + 1)]
    lines += [[(col * width, 0), (col * width, bottom)] for col in _every(layout.columns + 1)]
    axes.add_collection(LineCollection(lines, colors=PATCH, linewidths=0.9))

    def block(number: int) -> Rectangle:
        row, col = divmod(number, layout.columns)
        return Rectangle((col * width - margin_x, row * height - margin_y), width + 2 * margin_x, height + 2 * margin_y)

    if (margin_y or margin_x) and layout.count <= _MOST_BLOCKS:
        blocks = PatchCollection(
            [block(number) for number in range(layout.count)],
            facecolors="none",
            edgecolors=MARGIN,
            linewidths=0.6,
            linestyles="dashed",
            alpha=0.7,
        )
        axes.add_collection(blocks)
    if margin_y or margin_x:
        own = block(chosen)
        own.set(facecolor=MARGIN, alpha=0.2, linewidth=0)
        axes.add_patch(own)
        own = block(chosen)
        own.set(fill=False, edgecolor=MARGIN, linewidth=2.0, linestyle="dashed")
        axes.add_patch(own)
        row, col = divmod(chosen, layout.columns)
        axes.add_patch(
            Rectangle((col * width, row * height), width, height, fill=False, edgecolor=PATCH, linewidth=2.5)
        )
    if dropped:
        corners = [(number % layout.columns * width, number // layout.columns * height) for number in dropped]
        crosses = [[(x, y), (x + width, y + height)] for x, y in corners]
        crosses += [[(x + width, y), (x, y + height)] for x, y in corners]
        axes.add_collection(LineCollection(crosses, colors=MASKED, linewidths=1.0))


def _every(count: int) -> range:
    """0 to ``count``; where these are too many to be told apart, every n-th."""
    return range(0, count, max(1, -(-count // _MOST_LINES)))


def _draw_numbers(axes: Axes, layout: PatchLayout, inches_per_pixel: float, *, on_raster: bool) -> None:
    height, width = layout.patch_yx
    digits = len(str(layout.count - 1))
    # A digit is about 0.6 of the type's size wide.
    points = 72 * inches_per_pixel * min(width / (0.6 * digits + 0.8), height / 2)
    if points < 3:
        return
    style: dict[str, Any] = {"ha": "center", "va": "center", "color": INK, "fontsize": min(points, 9)}
    if on_raster:
        style["bbox"] = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.65}
    for number in range(layout.count):
        row, col = divmod(number, layout.columns)
        axes.text((col + 0.5) * width, (row + 0.5) * height, str(number), **style)


def _legend(axes: Axes, layout: PatchLayout, dropped: Sequence[int]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[Any] = [Line2D([], [], color=PATCH, linewidth=1.5, label="patch")]
    if any(layout.margin_yx):
        entries.append(Line2D([], [], color=MARGIN, linewidth=1.5, linestyle="dashed", label="block: with margins"))
    hatched: dict[str, Any] = {"facecolor": "white", "edgecolor": INK, "hatch": "////", "linewidth": 0.5}
    lost_rows, lost_cols = layout.left_out_yx
    if lost_rows or lost_cols:
        words = f"left out: {lost_cols} columns, {lost_rows} rows ({layout.left_out_share:.1%})"
        entries.append(Patch(label=words, **hatched))
    rows, cols = layout.geobox.shape_yx
    if layout.rows * layout.patch_yx[0] > rows or layout.columns * layout.patch_yx[1] > cols:
        entries.append(Patch(label="padded: masked", **hatched))
    if dropped:
        entries.append(Line2D([], [], color=MASKED, marker="x", linestyle="", label=f"dropped: {len(dropped):,}"))
    axes.figure.legend(handles=entries, loc="outside lower center", ncols=len(entries), frameon=False, fontsize=9)
