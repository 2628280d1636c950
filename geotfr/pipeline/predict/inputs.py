"""What a model gets: patches with their margins, in batches, wherever they come from.

A source of patches gives *pieces*, some patches that can write themselves into arrays; :func:`batched` puts pieces
together into batches of one size. Where all features go into one array, features are views of it, so that each pixel is
copied once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from geotfr.pipeline.export.fill import LIST_DTYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from geotfr.grid import GeoBox
    from geotfr.mixer import Mixer, SourceInfo

__all__ = ["Batch", "BatchForm", "InputFeature", "PatchInputs", "Piece", "batched"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFeature:
    """A feature that the model gets: its ``name``, its ``depth`` (None: a scalar band), its ``kind``."""

    name: str
    depth: int | None
    kind: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Patches ``numbers``, ascending; ``write`` puts some of them, a slice, into ``(patch, channel, row, col)`` arrays.

    A piece is good until the next one is asked for.
    """

    numbers: NDArray[np.int64]
    write: Callable[[slice, Mapping[str, NDArray[Any]]], None]


@dataclass(frozen=True, slots=True)
class Batch:
    """Patches for one call of the model.

    Attributes
    ----------
    number
        Which batch of this pass, from 0.
    numbers
        The patches' numbers, ascending.
    pixels
        What the model gets: one array, or a mapping of feature to array.
    """

    number: int
    numbers: NDArray[np.int64]
    pixels: NDArray[Any] | dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchForm:
    """How a batch is laid out.

    Attributes
    ----------
    size
        Patches in a batch; the last may have fewer.
    is_stacked
        One array of all channels, of the type that holds all, instead of one array a feature.
    channels_last
        ``(patch, row, col, channel)`` instead of ``(patch, channel, row, col)``.
    """

    size: int
    is_stacked: bool
    channels_last: bool


class PatchInputs(Protocol):
    """Patches for a model.

    Attributes
    ----------
    name
        What they are of, for messages.
    features
        The features, in order.
    block_yx
        (rows, columns) of a patch with its margins.
    mixer, whole
        The patches' grid; and the raster's, where a padded edge reaches beyond it.
    kernel_yx
        The kernel, or None where only ``block_yx`` is known.
    dropped
        Numbers of the patches that are left out, after a whole pass.
    may_drop
        Whether any may be.
    lost
        Patches whose records are lost, after a whole pass.
    sources
        The rasters behind the patches, as far as they are known.
    files
        Files that are read, and so can't be written.
    """

    name: str
    features: tuple[InputFeature, ...]
    block_yx: tuple[int, int]
    mixer: Mixer
    whole: GeoBox
    kernel_yx: tuple[int, int] | None
    may_drop: bool
    sources: tuple[SourceInfo, ...]
    files: tuple[Path, ...]

    @property
    def dropped(self) -> tuple[int, ...]: ...

    @property
    def lost(self) -> int: ...

    def pieces(self, columns: range) -> Iterator[Piece]:
        """The patches of some patch columns, in ascending order."""
        ...


def batched(
    pieces: Iterable[Piece], features: Sequence[InputFeature], block_yx: tuple[int, int], form: BatchForm
) -> Iterator[Batch]:
    """Batches of ``form`` from pieces; each has arrays of its own, which the model may keep."""
    number = filled = 0
    numbers: list[NDArray[np.int64]] = []
    pixels, places = _allocated(features, block_yx, form)
    for piece in pieces:
        start = 0
        while start < len(piece.numbers):
            part = slice(start, min(start + form.size - filled, len(piece.numbers)))
            count = part.stop - part.start
            piece.write(part, {name: place[filled : filled + count] for name, place in places.items()})
            numbers.append(piece.numbers[part])
            filled, start = filled + count, part.stop
            if filled == form.size:
                yield Batch(number, np.concatenate(numbers), pixels)
                number, filled, numbers = number + 1, 0, []
                pixels, places = _allocated(features, block_yx, form)
    if filled:
        cut = {name: each[:filled] for name, each in pixels.items()} if isinstance(pixels, dict) else pixels[:filled]
        yield Batch(number, np.concatenate(numbers), cut)


def _allocated(
    features: Sequence[InputFeature], block_yx: tuple[int, int], form: BatchForm
) -> tuple[NDArray[Any] | dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """What the model gets, and views ``(patch, channel, row, col)`` of it, a feature each."""
    if not form.is_stacked:
        arrays: dict[str, NDArray[Any]] = {}
        places = {}
        for feature in features:
            whole = _empty(form, feature.depth or 1, block_yx, LIST_DTYPE[feature.kind])
            places[feature.name] = _channels_first(whole, form)
            arrays[feature.name] = whole if feature.depth is not None else places[feature.name][:, 0]
        return arrays, places
    depths = [feature.depth or 1 for feature in features]
    kinds = {feature.kind for feature in features}
    dtype = LIST_DTYPE[next(kind for kind in ("float", "int64", "bytes") if kind in kinds)]
    stacked = _empty(form, sum(depths), block_yx, dtype)
    channels = _channels_first(stacked, form)
    stops = np.cumsum(depths).tolist()
    return stacked, {
        feature.name: channels[:, stop - depth : stop]
        for feature, depth, stop in zip(features, depths, stops, strict=True)
    }


def _empty(form: BatchForm, channels: int, block_yx: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    shape = (*block_yx, channels) if form.channels_last else (channels, *block_yx)
    return np.empty((form.size, *shape), dtype)


def _channels_first(array: NDArray[Any], form: BatchForm) -> NDArray[Any]:
    return np.moveaxis(array, -1, 1) if form.channels_last else array
