"""What an image export must hold, one pixel at a time, from rasterio's reads and the contract's words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oracle import wire
from oracle.options import Grid, Options
from oracle.scenes import Band, Element, Scene, read_scene

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "Band",
    "Element",
    "Expected",
    "Grid",
    "Options",
    "Scene",
    "assert_export",
    "block_pixels",
    "exact_fill",
    "expected_export",
    "feature_kind",
    "fill_of",
    "grid_of_patches",
    "masked_share",
    "patch_features",
    "patch_values",
    "pixel_series",
    "read_scene",
]

Number = int | float | np.generic

KINDS = ("bytes", "int64", "float")
"""From the nearest to the furthest: several types in one feature take the furthest of theirs."""


def exact_fill(default_value: float, dtype: np.dtype) -> int | float:
    """The default value in a band of ``dtype``: fraction dropped for integers, then clamped."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return max(int(info.min), min(int(info.max), math.trunc(default_value)))
    limit = float(np.finfo(dtype).max)
    return max(-limit, min(limit, default_value))


def fill_of(default_value: float, dtype: np.dtype) -> np.float32:
    """The default value in a band of ``dtype`` as a float list holds it."""
    with np.errstate(over="ignore"):
        return np.float32(exact_fill(default_value, dtype))


def feature_kind(bands: Sequence[Band], *, native: bool) -> str:
    """The kind of one feature that holds ``bands``: float, or by the types of the pixels."""
    if not native:
        return "float"
    dtypes = [element.pixels.dtype for band in bands for element in band.elements]
    own = ["bytes" if dtype == np.uint8 else "int64" if dtype.kind in "iu" else "float" for dtype in dtypes]
    return max(own, key=KINDS.index)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """All that an export leaves, computed before it is compared."""

    patches_per_row: int
    rows: int
    written: list[int]
    """Numbers of the patches that are written, in the grid's row-major order."""
    shards: dict[str, bytes]
    """Final name -> the stream before compression."""
    mixer: str | None
    mixer_name: str
    manifest_name: str
    scene: Scene = field(repr=False)

    @property
    def names(self) -> set[str]:
        """Every file's final name."""
        return {*self.shards, self.manifest_name, *([self.mixer_name] if self.mixer is not None else [])}


def grid_of_patches(scene: Scene, options: Options) -> tuple[int, int]:
    """(patches in a row, rows of patches)."""
    whole = scene.width // options.patch[0], scene.height // options.patch[1]
    if not options.pad:
        return whole
    return (
        whole[0] + (scene.width % options.patch[0] > 0),
        whole[1] + (scene.height % options.patch[1] > 0),
    )


def block_pixels(scene: Scene, options: Options, number: int) -> Iterator[tuple[int, int]]:
    """(row, column) in the raster of each pixel of a patch with its margin, row-major; may lie outside."""
    per_row, _ = grid_of_patches(scene, options)
    left = (number % per_row) * options.patch[0]
    top = (number // per_row) * options.patch[1]
    margin_x, margin_y = options.margin
    for row in range(top - margin_y, top + options.patch[1] + margin_y):
        for col in range(left - margin_x, left + options.patch[0] + margin_x):
            yield row, col


def pixel_series(scene: Scene, options: Options, band: Band, pixel: tuple[int, int], *, shown: bool) -> list[Number]:
    """The values of ``band`` at ``pixel``, one of a scalar band, as many as its depth of an array band.

    ``shown`` is whether the pixel as a whole is: a masked element of one that is takes the default value too, and
    so does an element that the band doesn't have. A band has one type, the one that holds all its elements.
    """
    dtype = np.result_type(*(element.pixels.dtype for element in band.elements))
    series: list[Number] = []
    for step in range(band.depth or 1):
        element = band.elements[step] if step < len(band.elements) else None
        if element is not None and shown and element.valid[pixel]:
            series.append(element.pixels[pixel])
        else:
            series.append(exact_fill(options.default_value, dtype))
    return series


def _block_series(scene: Scene, options: Options, number: int) -> list[list[list[Number]]]:
    """[pixel of the block][band][step] of patch ``number``."""
    visible = scene.valid if options.mask_mode == "pixel" else scene.shown
    pixels = []
    for row, col in block_pixels(scene, options, number):
        inside = 0 <= row < scene.height and 0 <= col < scene.width
        shown = inside and bool(visible[row, col])
        pixels.append([pixel_series(scene, options, band, (row, col), shown=shown) for band in scene.bands])
    return pixels


def block_validity(scene: Scene, options: Options, number: int) -> list[Number]:
    """1 for each pixel of the block of patch ``number`` that no band masks and that the raster has, else 0."""
    return [
        int(0 <= row < scene.height and 0 <= col < scene.width and bool(scene.valid[row, col]))
        for row, col in block_pixels(scene, options, number)
    ]


def _as_kind(values: Sequence[Number], kind: str) -> list[Number]:
    if kind == "float":
        # A numpy integer is cast in one step; through a Python float it would be rounded twice.
        return [value.astype(np.float32) if isinstance(value, np.generic) else np.float32(value) for value in values]
    return [int(value) for value in values]


def _feature(kind: str, values: Sequence[Number]) -> bytes:
    if kind == "bytes":
        return wire.bytes_feature([bytes(int(value) for value in values)])
    return wire.int64_feature(values) if kind == "int64" else wire.float_feature(values)


def patch_features(scene: Scene, options: Options, number: int) -> dict[str, tuple[str, list[Number]]]:
    """Feature name -> (kind, values) of the Example of patch ``number``, flat [depth, row, column]."""
    with np.errstate(over="ignore"):
        block = _block_series(scene, options, number)
        features = {}
        for place, band in enumerate(scene.bands):
            steps = range(band.depth or 1)
            values = [pixel[place][step] for step in steps for pixel in block]
            features[band.name] = values
        if options.collapse:
            # Collapsing promotes by the types of the pixels, whatever the kinds are else.
            kind = feature_kind(scene.bands, native=True)
            every = [value for values in features.values() for value in values]
            named = {scene.bands[0].name: (kind, _as_kind(every, kind))}
        else:
            kinds = [feature_kind([band], native=options.native) for band in scene.bands]
            named = {
                name: (kind, _as_kind(values, kind))
                for kind, (name, values) in zip(kinds, features.items(), strict=True)
            }
    if options.valid_feature is not None:
        named[options.valid_feature] = ("bytes", block_validity(scene, options, number))
    if options.patch_index is not None:
        named[options.patch_index] = ("int64", [number])
    return named


def patch_values(scene: Scene, options: Options, number: int) -> dict[str, np.ndarray]:
    """Feature name -> the float32 values of patch ``number`` with its margin, flat and row-major."""
    return {name: np.array(values, np.float32) for name, (_, values) in patch_features(scene, options, number).items()}


Series = dict[str, tuple[str, list[Number]]]


def pixel_features(scene: Scene, options: Options, number: int) -> list[tuple[Series, Series]]:
    """(context, feature lists) of each pixel of patch ``number``, as feature name -> (kind, values)."""
    pixels = []
    with np.errstate(over="ignore"):
        for series in _block_series(scene, options, number):
            context: Series = {}
            lists: Series = {}
            if options.collapse:
                kind = feature_kind(scene.bands, native=True)
                every = [value for values in series for value in values]
                lists[scene.bands[0].name] = (kind, _as_kind(every, kind))
            else:
                for band, values in zip(scene.bands, series, strict=True):
                    kind = feature_kind([band], native=options.native)
                    (context if band.depth is None else lists)[band.name] = (kind, _as_kind(values, kind))
            pixels.append((context, lists))
    if options.valid_feature is not None:
        for (context, _), valid in zip(pixels, block_validity(scene, options, number), strict=True):
            context[options.valid_feature] = ("bytes", [valid])
    return pixels


def patch_payloads(scene: Scene, options: Options, number: int) -> list[bytes]:
    """The records of patch ``number``: one Example, or a SequenceExample for each pixel of its block."""
    if not options.sequence:
        features = patch_features(scene, options, number)
        return [wire.example((name, _feature(kind, values)) for name, (kind, values) in features.items())]
    return [
        wire.sequence_example(
            [(name, _feature(kind, values)) for name, (kind, values) in context.items()],
            [(name, [_feature(kind, [value]) for value in values]) for name, (kind, values) in lists.items()],
        )
        for context, lists in pixel_features(scene, options, number)
    ]


def masked_share(scene: Scene, options: Options, number: int) -> float:
    """The share of masked pixels among the patch's own, its margin left out."""
    own = Options(patch=options.patch, pad=options.pad)
    valid = scene.valid
    states = [
        0 <= row < scene.height and 0 <= col < scene.width and bool(valid[row, col])
        for row, col in block_pixels(scene, own, number)
    ]
    return states.count(False) / len(states)


def expected_export(paths: Sequence[Path], options: Options, *, name: str) -> Expected:
    """What exporting ``paths`` to a prefix whose last part is ``name`` ("" for a folder) must leave."""
    scene = read_scene(paths, options)
    per_row, rows = grid_of_patches(scene, options)
    written = [
        number
        for number in range(per_row * rows)
        if not masked_share(scene, options, number) > options.masked_threshold
    ]
    shards: list[bytes] = []
    for number in written:
        for payload in patch_payloads(scene, options, number):
            record = wire.frame(payload)
            if shards and len(shards[-1]) + len(record) <= options.max_file_size:
                shards[-1] += record
            else:
                shards.append(record)
    mixer = None
    if options.masked_threshold == 1:
        mixer = wire.mixer_text(scene.crs, scene.affine, options.patch, per_row, per_row * rows)
    dash = "-" if options.naming == "drive" and name else ""
    ending = ".tfrecord.gz" if options.compressed else ".tfrecord"
    alone = len(shards) == 1 and name != ""
    return Expected(
        patches_per_row=per_row,
        rows=rows,
        written=written,
        shards={
            f"{name}{ending}" if alone else f"{name}{dash}{index:05d}{ending}": stream
            for index, stream in enumerate(shards)
        },
        mixer=mixer,
        mixer_name=f"{name}.json" if alone else f"{name}{dash}mixer.json",
        manifest_name=f"{name}{dash}manifest.json",
        scene=scene,
    )


def assert_export(folder: Path, expected: Expected, *, compressor: str = "fast") -> None:
    """The folder holds exactly what is expected, byte for byte (``fast``: after inflating)."""
    assert {path.name for path in folder.iterdir()} == expected.names
    for shard_name, stream in expected.shards.items():
        content = (folder / shard_name).read_bytes()
        if shard_name.endswith(".gz"):
            assert content[:2] == b"\x1f\x8b"
            if compressor == "ee":
                assert content == wire.gzip_earth_engine(stream)
        assert wire.inflate(content) == stream, f"{shard_name} differs"
    if expected.mixer is not None:
        assert (folder / expected.mixer_name).read_text(encoding="utf-8") == expected.mixer
