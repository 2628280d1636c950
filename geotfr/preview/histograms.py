"""Histograms of bands: of a raster, or of the patches of a set."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.given import dataset_of
from geotfr.datasets.patch_dataset import PatchDataset
from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.patches.stretch import PERCENTILES, checked_percentiles, limits_of
from geotfr.preview.figures import INK, MARGIN, PATCH, label, need_matplotlib, new_figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from geotfr.options.sources import PathLike, RasterLike
    from geotfr.pipeline.export.run import ExportResult

__all__ = ["plot_histograms"]

_PATCHES = 256
_MOST_BANDS = 64
_MOST_BARS = 40


@dataclass(frozen=True, slots=True)
class _Band:
    """The valid values of a band, and how many pixels were looked at."""

    name: str
    values: NDArray[Any]
    pixels: int


@checks_flags
def plot_histograms(
    source: RasterLike | Sequence[PathLike] | PatchDataset | ExportResult,
    *,
    bands: str | Sequence[str | int] | None = None,
    bins: int = 80,
    percentiles: tuple[float, float] = PERCENTILES,
    masked_value: float | None = None,
    log: bool = False,
) -> Figure:
    """A histogram of each band, with its range, the percentiles of the stretch, and the share that is masked.

    Parameters
    ----------
    source
        A raster or ``(array, transform, crs)``; or a :class:`geotfr.PatchDataset`, or the mixer, manifest or folder of
        a set.
    bands
        Names or, of a raster, numbers from 1; a list, or names between commas. By default all, at most 64.
    bins
        Bars of a band of many values; whole numbers of few values get a bar each.
    percentiles
        Which are marked.
    masked_value
        Of records: a value that means masked; by default what the manifest or the patch table tells of each band.
    log
        Whether counts are drawn on a logarithmic scale.

    Returns
    -------
    matplotlib.figure.Figure
        Of a raster with more than 1024 pixels along a side every n-th pixel is taken, and of a set 256 patches, evenly
        spread; the title says so.

    Raises
    ------
    UsageError
        No matplotlib (extra ``plot``), a band that isn't there, or bins that aren't.
    InputError, DamagedError
        A source that is missing or can't be read.

    Examples
    --------
    >>> import geotfr
    >>> scene = (np.arange(2 * 50.0).reshape(2, 5, 10), (10, 0, 0, 0, -10, 0), "EPSG:32633")
    >>> [axes.get_title() for axes in geotfr.plot_histograms(scene).axes]
    ['b1: 0 to 49', 'b2: 50 to 99']
    """
    need_matplotlib()
    if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= 1000:
        raise UsageError(f"bins: found {bins!r}; allowed are 1 to 1000")
    shares = checked_percentiles(percentiles)
    names = [name.strip() for name in bands.split(",")] if isinstance(bands, str) else bands
    if _is_set(source):
        found, words = _of_patches(dataset_of(source), names, masked_value)
    else:
        found, words = _of_raster(source, names)
    per_row = min(len(found), 3)
    rows = math.ceil(len(found) / per_row)
    figure = new_figure(3.6 * per_row + 0.4, 2.4 * rows + 0.6)
    for place, band in enumerate(found, 1):
        axes = figure.add_subplot(rows, per_row, place)
        _draw(axes, band, bins, shares, log=log)
    figure.suptitle(words, fontsize=11)
    return figure


def _is_set(source: Any) -> bool:
    from geotfr.pipeline.export.run import ExportResult

    if isinstance(source, PatchDataset | ExportResult | list):
        return True
    if not isinstance(source, str | os.PathLike):
        return False
    path = os.fspath(source)
    return os.path.isdir(path) or path.lower().endswith((".json", ".tfrecord", ".tfrecord.gz"))  # noqa: PTH112  (may be no path)


def _of_raster(source: Any, names: Sequence[str | int] | None) -> tuple[list[_Band], str]:
    from geotfr.rasters.reduced import band_names, read_reduced

    chosen = list(names) if names is not None else list(range(1, min(len(band_names(source)), _MOST_BANDS) + 1))
    found = []
    for band in chosen:
        reduced = read_reduced(source, bands=[band])
        found.append(_Band(reduced.names[0], reduced.pixels[0][reduced.valid], reduced.valid.size))
    words = label(reduced.name)
    if not reduced.is_whole:
        words += f": {reduced.valid.size:,} of {reduced.geobox.pixel_count:,} pixels"
    return found, words


def _of_patches(
    dataset: PatchDataset, names: Sequence[str | int] | None, masked_value: float | None
) -> tuple[list[_Band], str]:
    known = [
        name for name, shape in dataset.features.items() if len(shape.shape) >= 1 and name != dataset.valid_feature
    ]
    chosen = known[:_MOST_BANDS] if names is None else [str(name) for name in names]
    for name in chosen:
        if name not in dataset.features:
            raise UsageError(f"bands: no {name!r}; there are {', '.join(list(dataset.features)[:12])}")
    fills = dataset.fills if masked_value is None else dict.fromkeys(dataset.features, masked_value)
    validity = dataset.valid_feature if masked_value is None else None
    count = min(len(dataset), _PATCHES)
    indices = sorted({round(place) for place in np.linspace(0, len(dataset) - 1, count)})
    values: dict[str, list[NDArray[Any]]] = {name: [] for name in chosen}
    pixels = dict.fromkeys(chosen, 0)
    for index in indices:
        patch = dataset[index]
        if "image" in patch and "image" not in dataset.features:
            raise UsageError("source: a data set with stack; give the mixer or folder, or a data set without")
        for name in chosen:
            array = _core(patch[name], dataset.features[name].margin_yx)
            valid = ~np.isnan(array) if array.dtype.kind == "f" else np.ones(array.shape, np.bool_)
            if validity is not None and name != validity:
                valid &= _core(patch[validity], dataset.features[validity].margin_yx) != 0
            elif name in fills:
                valid &= array != array.dtype.type(fills[name])
            values[name].append(array[valid])
            pixels[name] += array.size
    words = (
        f"{len(indices):,} of {len(dataset):,} patches" if len(indices) < len(dataset) else f"{len(dataset):,} patches"
    )
    return [_Band(name, np.concatenate(values[name]), pixels[name]) for name in chosen], words


def _core(array: NDArray[Any], margin_yx: tuple[int, int] | None) -> NDArray[Any]:
    """Without margins: their pixels belong to other patches too."""
    y, x = margin_yx or (0, 0)
    return array[..., y : array.shape[-2] - y, x : array.shape[-1] - x] if y or x else array


def _draw(axes: Axes, band: _Band, bins: int, percentiles: tuple[float, float], *, log: bool) -> None:
    values = band.values[np.isfinite(band.values)] if band.values.dtype.kind == "f" else band.values
    masked = band.pixels - len(values)
    title = label(band.name)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_yticks([])
    if masked:
        axes.set_xlabel(f"masked: {masked / band.pixels:.1%}", fontsize=8)
    if not len(values):
        axes.set_title(f"{title}: no valid pixel", fontsize=9)
        axes.set_xticks([])
        return
    low, high = values.min(), values.max()
    axes.set_title(f"{title}: {low:.6g} to {high:.6g}", fontsize=9)
    if values.dtype.kind in "iu" and int(high) - int(low) < _MOST_BARS:
        places, counts = np.unique(values, return_counts=True)
        axes.bar(places, counts, width=0.8, color=PATCH)
    else:
        counts, edges = np.histogram(values.astype(np.float64), _edges(values, bins))
        axes.stairs(counts, edges, fill=True, color=PATCH)
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_tick_params(which="both", left=False, labelleft=False)
    limits = limits_of(values, None, percentiles)
    for share, limit in zip(percentiles, limits or (), strict=False):
        axes.axvline(limit, color=MARGIN, linewidth=1, linestyle="dashed")
        axes.text(limit, 1.0, f"{share:g}%", transform=axes.get_xaxis_transform(), fontsize=7, color=INK, va="top")


def _edges(values: NDArray[Any], bins: int) -> NDArray[np.float64]:
    """Edges of about ``bins`` bars; those of whole numbers hold equally many values each, or bars would comb."""
    low, high = float(values.min()), float(values.max())
    if values.dtype.kind in "iu":
        step = math.ceil((high - low + 1) / bins)
        return low - 0.5 + step * np.arange(math.ceil((high - low + 1) / step) + 1, dtype=np.float64)
    if high <= low:
        return np.array([low - 0.5, low + 0.5])
    return np.linspace(low, high, bins + 1)
