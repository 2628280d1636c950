"""What an image export must hold, one pixel at a time, from rasterio's reads and the contract's words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import rasterio
from rasterio.enums import ColorInterp, MaskFlags

from oracle import wire

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one export; pairs are (x, y)."""

    patch: tuple[int, int]
    kernel: tuple[int, int] = (1, 1)
    default_value: float = 0
    masked_threshold: float = 1
    max_file_size: int = 1 << 30
    compressed: bool = True
    naming: str = "drive"
    bands: Sequence[int] | None = None
    """Numbers from 1 through the stack, in the order wanted."""
    nodata: float | None = None

    @property
    def margin(self) -> tuple[int, int]:
        """(x, y) pixels added on each side."""
        return self.kernel[0] // 2, self.kernel[1] // 2


@dataclass(frozen=True, kw_only=True)
class Band:
    """One band: its feature name and its pixels as the file has them."""

    name: str
    pixels: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Sources of one grid as bands, the pixels that are valid, and the place on the ground."""

    bands: list[Band]
    valid: np.ndarray
    affine: tuple[float, ...]
    crs: str

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.valid.shape[1])

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.valid.shape[0])


def read_scene(paths: Sequence[Path], options: Options) -> Scene:
    """The scene that an export of ``paths`` sees: alpha is a mask unless ``bands`` asks for it."""
    found: list[tuple[str, np.ndarray, float | None, bool]] = []
    sources_of_masking: list[np.ndarray] = []
    for path in paths:
        with rasterio.open(path) as source:
            for number, kind in enumerate(source.colorinterp, 1):
                pixels = source.read(number)
                default_name = f"b{number}"
                if len(paths) > 1:
                    default_name = path.stem if source.count == 1 else f"{path.stem}_b{number}"
                name = source.descriptions[number - 1] or default_name
                nodata = source.nodatavals[number - 1] if options.nodata is None else options.nodata
                found.append((name, pixels, nodata, kind == ColorInterp.alpha))
                if kind == ColorInterp.alpha:
                    sources_of_masking.append(pixels == 0)
                flags = source.mask_flag_enums[number - 1]
                if MaskFlags.per_dataset in flags and MaskFlags.alpha not in flags:
                    sources_of_masking.append(source.read_masks(number) == 0)
            affine = tuple(source.transform)[:6]
            authority = source.crs.to_authority() if source.crs else None
            crs = ":".join(authority) if authority else source.crs.to_wkt() if source.crs else ""
            shape = source.shape
    if options.bands is None:
        chosen = [band for band in found if not band[3]]
    else:
        chosen = [found[number - 1] for number in options.bands]
    masked = np.zeros(shape, bool)
    for source_of_masking in sources_of_masking:
        masked |= source_of_masking
    for _, pixels, nodata, _ in chosen:
        masked |= _is_nodata(pixels, nodata)
    names = _unique([name for name, *_ in chosen])
    bands = [Band(name=name, pixels=pixels) for name, (_, pixels, _, _) in zip(names, chosen, strict=True)]
    return Scene(bands=bands, valid=~masked, affine=affine, crs=crs)


def _is_nodata(pixels: np.ndarray, nodata: float | None) -> np.ndarray:
    masked = np.isnan(pixels) if pixels.dtype.kind == "f" else np.zeros(pixels.shape, bool)
    if nodata is None or math.isnan(nodata):
        return masked
    if pixels.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return masked | (pixels == pixels.dtype.type(nodata))
    info = np.iinfo(pixels.dtype)
    if nodata != int(nodata) or not info.min <= nodata <= info.max:
        return masked
    return masked | (pixels == int(nodata))


def _unique(names: list[str]) -> list[str]:
    used: list[str] = []
    for name in names:
        candidate, count = name, 0
        while candidate in used:
            count += 1
            candidate = f"{name}_{count}"
        used.append(candidate)
    return used


def fill_of(default_value: float, dtype: np.dtype) -> np.float32:
    """The default value in a band of ``dtype``: fraction dropped for integers, then clamped; as float32."""
    with np.errstate(over="ignore"):
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            return np.float32(max(int(info.min), min(int(info.max), math.trunc(default_value))))
        limit = float(np.finfo(dtype).max)
        return np.float32(max(-limit, min(limit, default_value)))


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


def block_pixels(scene: Scene, options: Options, number: int) -> Iterator[tuple[int, int]]:
    """(row, column) in the raster of each pixel of a patch with its margin, row-major; may lie outside."""
    per_row = scene.width // options.patch[0]
    left = (number % per_row) * options.patch[0]
    top = (number // per_row) * options.patch[1]
    margin_x, margin_y = options.margin
    for row in range(top - margin_y, top + options.patch[1] + margin_y):
        for col in range(left - margin_x, left + options.patch[0] + margin_x):
            yield row, col


def patch_values(scene: Scene, options: Options, number: int) -> dict[str, np.ndarray]:
    """Band name -> the float32 values of patch ``number`` with its margin, flat and row-major."""
    values: dict[str, list[np.float32]] = {band.name: [] for band in scene.bands}
    fills = [fill_of(options.default_value, band.pixels.dtype) for band in scene.bands]
    with np.errstate(over="ignore"):
        for row, col in block_pixels(scene, options, number):
            inside = 0 <= row < scene.height and 0 <= col < scene.width
            shown = inside and scene.valid[row, col]
            for band, fill in zip(scene.bands, fills, strict=True):
                values[band.name].append(np.float32(band.pixels[row, col]) if shown else fill)
    return {name: np.array(flat, np.float32) for name, flat in values.items()}


def masked_share(scene: Scene, options: Options, number: int) -> float:
    """The share of masked pixels among the patch's own, its margin left out."""
    own = Options(patch=options.patch)
    states = [bool(scene.valid[row, col]) for row, col in block_pixels(scene, own, number)]
    return states.count(False) / len(states)


def expected_export(paths: Sequence[Path], options: Options, *, name: str) -> Expected:
    """What exporting ``paths`` to a prefix whose last part is ``name`` ("" for a folder) must leave."""
    scene = read_scene(paths, options)
    per_row, rows = scene.width // options.patch[0], scene.height // options.patch[1]
    written = [
        number
        for number in range(per_row * rows)
        if not masked_share(scene, options, number) > options.masked_threshold
    ]
    shards: list[bytes] = []
    for number in written:
        values = patch_values(scene, options, number)
        record = wire.frame(wire.example((key, wire.float_feature(flat)) for key, flat in values.items()))
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
