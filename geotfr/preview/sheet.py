"""A contact sheet: patches side by side, in one stretch, with what is masked in a pattern of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.given import dataset_of
from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.options import nearest
from geotfr.patches.stretch import PERCENTILES, checked_percentiles, limits_of, shades
from geotfr.preview.figures import INK, MARGIN, MASKED, bare, label, need_matplotlib, new_figure

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from geotfr.datasets.patch_dataset import PatchDataset

__all__ = ["plot_patches"]

_COUNT = 24
_MOST = 400
_CELL_PX = 256
"""A cell with more pixels along its side is reduced."""
_WIDTH = 10.0
_HATCH = ((214, 51, 108), (255, 222, 235))
"""The two colours of the pattern of masked pixels: no stretch of grey makes them."""


@dataclass(frozen=True, slots=True)
class _Plane:
    """One picture of each patch: what it is called, and the (feature, channel) pairs that it shows, one or three."""

    name: str
    channels: tuple[tuple[str, int], ...]


@checks_flags
def plot_patches(
    source: PatchDataset | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    bands: str | Sequence[str] | None = None,
    composite: bool | None = None,
    patches: Sequence[int] | None = None,
    count: int = _COUNT,
    columns: int | None = None,
    percentiles: tuple[float, float] = PERCENTILES,
    stretch_each: bool = False,
    masked_value: float | None = None,
) -> Figure:
    """A contact sheet of patches.

    Each cell is a patch with its number; a dashed line tells its margins from the patch. Masked pixels, those that are
    NaN or hold the masked value in every band of the patch, have a checked pattern; where the records tell what is
    valid (``valid_feature`` of the export) and no masked value is given, those that aren't.

    Parameters
    ----------
    source
        A :class:`geotfr.PatchDataset`, or what makes one: a mixer, a manifest, a folder, shards.
    bands
        The features to show, a list or names between commas; a tensor's channel is ``NAME[0]``. By default the first
        three.
    composite
        Whether three bands make red, green and blue of one picture; by default they do. Otherwise each band of a patch
        has a cell.
    patches
        Numbers of items of the data set; by default ``count`` of them, evenly spread.
    count
        How many, if they aren't named; at most 400.
    columns
        Cells in a row; by default what makes the sheet wider than high.
    percentiles
        Between which values are stretched, by default over all patches that are shown.
    stretch_each
        Stretch each patch by itself: more is seen, and patches can't be compared.
    masked_value
        What masked pixels hold; by default what the manifest or the patch table tells of each band.

    Returns
    -------
    matplotlib.figure.Figure
        :func:`geotfr.write_figure` writes it.

    Raises
    ------
    UsageError
        No matplotlib (extra ``plot``), a band or a patch that isn't there, or features that are no pictures.
    InputError, DamagedError
        Files that are missing or damaged.

    Examples
    --------
    >>> import tempfile
    >>> import geotfr
    >>> scene = (np.arange(3 * 32 * 48.0).reshape(3, 32, 48), (10, 0, 0, 0, -10, 0), "EPSG:32633")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = geotfr.export_image(scene, f"{folder}/set", patch_dimensions=16)
    ...     figure = geotfr.plot_patches(result.mixer)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['0', '1', '2', '3', '4', '5']
    """
    need_matplotlib()
    limits = checked_percentiles(percentiles)
    dataset = dataset_of(source)
    numbers = _numbers(len(dataset), patches, count)
    planes = _planes(dataset, bands, composite)
    values = _values(dataset, numbers, planes)
    fills = dataset.fills if masked_value is None else dict.fromkeys(dataset.features, masked_value)
    validity = None if dataset.valid_feature is None else values.pop((dataset.valid_feature, 0), None)
    is_told = validity is not None and masked_value is None
    valid = validity != 0 if validity is not None and is_told else _valid(values, fills)
    cells = np.stack(
        [cell for plane in planes for cell in [_cells(plane, values, valid, limits, each=stretch_each)]], axis=1
    )
    cells = cells.reshape(-1, *cells.shape[2:])
    per_row = columns or _columns(len(numbers), len(planes))
    if len(planes) > 1 and columns is None:
        per_row = max(per_row // len(planes), 1) * len(planes)
    margin_yx = _margin(dataset, planes)
    figure, axes = _drawn(cells, per_row, planes, dataset.numbers[numbers].tolist(), margin_yx)
    axes.set_title(_title(dataset, planes), fontsize=11)
    words = " or ".join(["NaN", *(f"{fill:g}" for fill in sorted(set(fills.values())))]) + " in every band"
    if is_told:
        words = f"0 in {label(dataset.valid_feature or '')}"
    _legend(axes, margin_yx, words, has_masked=not valid.all())
    return figure


def _numbers(length: int, patches: Sequence[int] | None, count: int) -> list[int]:
    if patches is None:
        if not 1 <= count <= _MOST:
            raise UsageError(f"count: found {count}; allowed are 1 to {_MOST}")
        if not length:
            raise UsageError("patches: the set has none")
        return sorted({round(place) for place in np.linspace(0, length - 1, min(count, length))})
    if not 1 <= len(patches) <= _MOST:
        raise UsageError(f"patches: found {len(patches)}; allowed are 1 to {_MOST}")
    for number in patches:
        if not -length <= number < length:
            raise UsageError(f"patches: found {number}; there are 0 to {length - 1}")
    return [int(number) % length for number in patches]


def _channels(dataset: PatchDataset) -> dict[str, tuple[str, int]]:
    """What can be shown: name -> feature and channel."""
    known: dict[str, tuple[str, int]] = {}
    for name, shape in dataset.features.items():
        if name == dataset.valid_feature:
            continue
        if len(shape.shape) == 2:
            known[name] = (name, 0)
        elif len(shape.shape) == 3:
            known |= {f"{name}[{channel}]": (name, channel) for channel in range(shape.shape[0])}
    return known


def _planes(dataset: PatchDataset, bands: str | Sequence[str] | None, composite: bool | None) -> list[_Plane]:
    """The pictures of a patch."""
    known = _channels(dataset)
    if not known:
        raise UsageError(
            f"bands: {', '.join(dataset.features)} have no rows and columns; give PatchDataset patch_dimensions"
        )
    names = [name.strip() for name in bands.split(",")] if isinstance(bands, str) else bands
    chosen = list(known)[:3] if names is None else list(names)
    if names is None and len(chosen) == 2:
        chosen = chosen[:1]
    for name in chosen:
        if name not in known:
            raise UsageError(f"bands: no {name!r}{nearest(name, known)}; there are {', '.join(list(known)[:12])}")
    if composite and len(chosen) != 3:
        raise UsageError(f"composite: takes three bands, red, green and blue; found {len(chosen)}")
    if not chosen:
        raise UsageError("bands: none are given; leave it out for the first ones")
    if composite or (composite is None and len(chosen) == 3):
        planes = [_Plane(", ".join(chosen), tuple(known[name] for name in chosen))]
    else:
        planes = [_Plane(name, (known[name],)) for name in chosen]
    shapes = {dataset.features[feature].shape[-2:] for plane in planes for feature, _ in plane.channels}
    if len(shapes) > 1:
        raise UsageError(f"bands: {', '.join(chosen)} differ in size; show them apart")
    return planes


def _values(dataset: PatchDataset, numbers: list[int], planes: list[_Plane]) -> dict[tuple[str, int], NDArray[Any]]:
    """Each band that decides a picture or its mask, ``(patch, row, col)``."""
    found = dataset[numbers]
    size = next(dataset.features[feature].shape[-2:] for plane in planes for feature, _ in plane.channels)
    step = max(1, math.ceil(max(size) / _CELL_PX))
    values: dict[tuple[str, int], NDArray[Any]] = {}
    if "image" in found and "image" not in dataset.features:
        raise UsageError("source: a data set with stack; give the mixer or folder, or a data set without")
    for name, shape in dataset.features.items():
        if shape.shape[-2:] != size or len(shape.shape) not in (2, 3):
            continue
        array = found[name].reshape(len(numbers), -1, *size)
        for channel in range(array.shape[1]):
            values[name, channel] = array[:, channel, ::step, ::step]
    return values


def _valid(values: dict[tuple[str, int], NDArray[Any]], fills: Mapping[str, float]) -> NDArray[np.bool_]:
    """False where every band is NaN or the value of its masked pixels."""
    valid: NDArray[np.bool_] | None = None
    for (name, _), array in values.items():
        own = ~np.isnan(array) if array.dtype.kind == "f" else np.ones(array.shape, np.bool_)
        if name in fills:
            own &= array != array.dtype.type(fills[name])
        valid = own if valid is None else valid | own
    assert valid is not None
    return valid


def _cells(
    plane: _Plane,
    values: dict[tuple[str, int], NDArray[Any]],
    valid: NDArray[np.bool_],
    percentiles: tuple[float, float],
    *,
    each: bool,
) -> NDArray[np.uint8]:
    """``(patch, row, col, 3)`` RGB."""
    channels = []
    for key in plane.channels:
        array = values[key]
        if each:
            shade = [shades(one, limits_of(one, own, percentiles)) for one, own in zip(array, valid, strict=True)]
            channels.append(np.stack(shade))
        else:
            channels.append(shades(array, limits_of(array, valid, percentiles)))
    rgb = np.stack(channels if len(channels) == 3 else channels * 3, axis=-1)
    rows, cols = np.indices(valid.shape[1:])
    tile = max(1, max(valid.shape[1:]) // 16)
    pattern = np.array(_HATCH, np.uint8)[(rows // tile + cols // tile) % 2]
    masked: NDArray[np.uint8] = np.where(valid[..., np.newaxis], rgb, pattern)
    return masked


def _columns(patches: int, planes: int) -> int:
    cells = patches * planes
    return min(cells, math.ceil(math.sqrt(cells * 1.6)))


def _margin(dataset: PatchDataset, planes: list[_Plane]) -> tuple[float, float]:
    """(rows, columns) of the margin as shares of a cell."""
    shape = dataset.features[planes[0].channels[0][0]]
    margin_y, margin_x = shape.margin_yx or (0, 0)
    return margin_y / shape.shape[-2], margin_x / shape.shape[-1]


def _drawn(
    cells: NDArray[np.uint8],
    per_row: int,
    planes: list[_Plane],
    numbers: list[int],
    margin_yx: tuple[float, float],
) -> tuple[Figure, Axes]:
    count, height, width, _ = cells.shape
    rows = math.ceil(count / per_row)
    aspect = height / width
    side = _WIDTH / per_row
    figure = new_figure(_WIDTH, rows * (side * aspect + 0.24) + 0.9)
    axes = figure.add_subplot()
    gap = 0.06
    # In cells' widths; the numbers stand in what is above a cell.
    above = min(0.26 / side, 0.5)
    for place, cell in enumerate(cells):
        row, col = divmod(place, per_row)
        left, top = col * (1 + gap), row * (aspect + above)
        axes.imshow(cell, extent=(left, left + 1, top + aspect, top), interpolation="nearest")
        _frame(axes, left, top, aspect, margin_yx)
        number = numbers[place // len(planes)]
        words = str(number) if len(planes) == 1 else f"{number}  {label(planes[place % len(planes)].name)}"
        axes.text(left, top - 0.03, words, fontsize=min(8, 90 * side / len(words)), color=INK, va="bottom")
    axes.set_xlim(-gap / 2, per_row * (1 + gap) - gap / 2)
    axes.set_ylim(rows * (aspect + above) - above + gap, -above)
    axes.set_aspect("equal")
    bare(axes)
    return figure, axes


def _frame(axes: Axes, left: float, top: float, aspect: float, margin_yx: tuple[float, float]) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((left, top), 1, aspect, fill=False, edgecolor="#adb5bd", linewidth=0.5))
    y, x = margin_yx
    if x or y:
        axes.add_patch(
            Rectangle(
                (left + x, top + y * aspect),
                1 - 2 * x,
                aspect * (1 - 2 * y),
                fill=False,
                edgecolor=MARGIN,
                linewidth=0.9,
                linestyle="dashed",
            )
        )


def _title(dataset: PatchDataset, planes: list[_Plane]) -> str:
    height, width = dataset.features[planes[0].channels[0][0]].shape[-2:]
    names = label(planes[0].name if len(planes) == 1 else f"{len(planes)} bands")
    return f"{len(dataset):,} patches of {width} x {height}: {names}"


def _legend(axes: Axes, margin_yx: tuple[float, float], masked: str, *, has_masked: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[Any] = []
    if any(margin_yx):
        entries.append(
            Line2D([], [], color=MARGIN, linewidth=1.2, linestyle="dashed", label="patch, within its margins")
        )
    if has_masked:
        entries.append(Patch(facecolor=MASKED, edgecolor="#ffdeeb", label=f"masked: {masked}"))
    if entries:
        axes.figure.legend(handles=entries, loc="outside lower center", ncols=len(entries), frameon=False, fontsize=9)
