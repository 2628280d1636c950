"""Maps of classes with a legend: names, colours and shares."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError
from geotfr.pipeline.ingest.classes import ClassInfo, class_colour, read_classes
from geotfr.preview.figures import INK, bare, label, need_matplotlib, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from geotfr.options.sources import RasterLike
    from geotfr.rasters.reduced import ReducedRaster

__all__ = ["plot_classes"]

_LONGER_SIDE = 7.5
_MOST_ENTRIES = 30
_ENTRY_HEIGHT = 0.2
_UNKNOWN = (128, 128, 128)


def plot_classes(
    raster: RasterLike,
    *,
    classes: str | os.PathLike[str] | Mapping[int, str] | None = None,
    band: str | int = 1,
    title: str | None = None,
) -> Figure:
    """A map of classes, with the name, colour and share of each.

    Parameters
    ----------
    raster
        A path, or ``(array, transform, crs)``; whole numbers, or floats that are.
    classes
        The file of ``--classes`` (value, name, colour), or a mapping of value to name. Colours come from there, or from
        the raster's colour table, or are chosen. By default the values name themselves.
    band
        Number or name.
    title
        In place of the raster's name.

    Returns
    -------
    matplotlib.figure.Figure
        Shares are of the valid pixels that are drawn: every n-th one of a raster with more than 1024 along a side.

    Raises
    ------
    UsageError
        No matplotlib (extra ``plot``), or values that are no classes.
    InputError, ReadError
        A raster or a file that is missing or can't be read.

    Examples
    --------
    >>> import geotfr
    >>> field = (np.eye(4, dtype=np.uint8), (10, 0, 0, 0, -10, 0), "EPSG:32633")
    >>> figure = geotfr.plot_classes(field, classes={0: "forest", 1: "water"})
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['0  forest  75.0%', '1  water  25.0%']
    """
    from geotfr.rasters.reduced import read_reduced

    need_matplotlib()
    reduced = read_reduced(raster, bands=[band])
    values = _whole(reduced)
    found, counts = np.unique(values[reduced.valid], return_counts=True)
    known = _known(classes)
    rgb = np.full((*values.shape, 3), 255, np.uint8)
    colours = {int(value): _colour(int(value), place, known, reduced) for place, value in enumerate(found)}
    for value, colour in colours.items():
        rgb[(values == value) & reduced.valid] = colour
    total = max(int(counts.sum()), 1)
    shares = sorted(zip(found.tolist(), counts.tolist(), strict=True), key=lambda each: -each[1])
    shown = sorted(shares[:_MOST_ENTRIES])
    entries = [_entry(value, count / total, colours[value], known) for value, count in shown]
    if len(shares) > _MOST_ENTRIES:
        rest = sum(count for _, count in shares[_MOST_ENTRIES:]) / total
        entries.append(_swatch("none", f"and {len(shares) - _MOST_ENTRIES} more  {rest:.1%}"))
    if not reduced.valid.all():
        entries.append(_swatch("white", "masked"))
    rows, cols = values.shape
    side = _LONGER_SIDE / max(rows, cols)
    height = max(rows * side, 2.0) + 0.5
    columns = math.ceil(len(entries) * _ENTRY_HEIGHT / height)
    figure = new_figure(max(cols * side, 2.0) + 0.6 + 2.4 * columns, height)
    axes = figure.add_subplot()
    axes.imshow(rgb, interpolation="nearest")
    bare(axes)
    axes.set_title(label(reduced.name if title is None else title), fontsize=11)
    figure.legend(handles=entries, loc="outside right upper", ncols=columns, frameon=False, fontsize=9)
    return figure


def _whole(reduced: ReducedRaster) -> NDArray[Any]:
    values: NDArray[Any] = reduced.pixels[0]
    if values.dtype.kind in "iu":
        return values
    chosen = values[reduced.valid]
    if not (np.isfinite(chosen) & (np.rint(chosen) == chosen)).all() or (np.abs(chosen) > 2**53).any():
        raise UsageError(
            f"{reduced.name}: band {reduced.names[0]!r} has values that are no whole numbers; classes are: use"
            " plot_histograms, or ingest with argmax"
        )
    whole: NDArray[np.int64] = np.where(reduced.valid, values, 0).astype(np.int64)
    return whole


def _known(classes: str | os.PathLike[str] | Mapping[int, str] | None) -> dict[int, ClassInfo]:
    if classes is None:
        return {}
    if isinstance(classes, Mapping):
        return {int(value): ClassInfo(value=int(value), name=str(name), rgba=None) for value, name in classes.items()}
    return {each.value: each for each in read_classes(Path(classes))}


def _colour(value: int, place: int, known: Mapping[int, ClassInfo], reduced: ReducedRaster) -> tuple[int, int, int]:
    rgba = known[value].rgba if value in known else None
    if rgba is not None:
        return rgba[:3]
    if reduced.colours is not None and 0 <= value < len(reduced.colours):
        red, green, blue = reduced.colours[value].tolist()
        return red, green, blue
    if known and value not in known:
        return _UNKNOWN
    return class_colour(value, place)


def _entry(value: int, share: float, colour: tuple[int, int, int], known: Mapping[int, ClassInfo]) -> Any:
    name = known[value].name if value in known else "not in classes" if known else ""
    words = f"{value}  {label(name)}  {share:.1%}" if name else f"{value}  {share:.1%}"
    red, green, blue = (part / 255 for part in colour)
    return _swatch((red, green, blue), words)


def _swatch(colour: str | tuple[float, float, float], words: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, edgecolor="none" if colour == "none" else INK, linewidth=0.4, label=words)
