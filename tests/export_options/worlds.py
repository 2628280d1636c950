"""Made rasters and options of any combination, for the laws of an export."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from oracle.options import Grid, Options
from oracle.rasters import SOUTH_UP, write_raster
from rasterio.transform import Affine

if TYPE_CHECKING:
    from pathlib import Path

NORTH_UP_DEGREES = Affine(0.25, 0, 12.5, 0, -0.25, 41.25)
EXTREMES: dict[str, list[float]] = {
    "uint8": [0, 1, 127, 128, 255],
    "int8": [-128, -1, 0, 127],
    "uint16": [0, 127, 128, 16383, 16384, 65535],
    "int16": [-32768, -1, 0, 32767],
    "int32": [-(2**31), -1, 0, 2**24 + 1, 2**31 - 1],
    "uint32": [0, 2**21, 2**28, 2**32 - 1],
    "int64": [-(2**63), -1, 0, 2**56],
    "uint64": [0, 2**35, 2**42 - 1, 2**62],
    "float32": [0, -9999, 1.5, -0.0, float("nan"), float("inf"), 1e-45],
    "float64": [0, -9999, 0.1, -0.0, float("nan"), float("-inf"), 1e300],
}
MASKS = ["none", "nodata", "internal", "external", "alpha"]


@dataclass(frozen=True)
class File:
    """One raster to make."""

    data: np.ndarray
    masks: str
    valid: np.ndarray
    scaled: bool

    @property
    def count(self) -> int:
        """Bands, the alpha band included."""
        return len(self.data) + (self.masks == "alpha")

    def write(self, path: Path, transform: Affine) -> Path:
        """The raster at ``path``."""
        return write_raster(
            path,
            self.data,
            transform=transform,
            crs="EPSG:4326",
            nodata=0 if self.masks == "nodata" else None,
            mask=self.valid if "ternal" in self.masks else None,
            external_mask=self.masks == "external",
            alpha=self.valid * 255 if self.masks == "alpha" else None,
            scales=[0.5, 1e-4, 3, 10, 1][: self.count] if self.scaled else (),
            offsets=[0, 1000, -7, 0.1, 2][: self.count] if self.scaled else (),
        )


@dataclass(frozen=True)
class World:
    """Rasters of one grid, and options whose files have no paths yet."""

    files: list[File]
    transform: Affine
    options: Options
    arrays: dict[str, list[int]]
    """Array band -> numbers through the stack, from 1."""
    mask: np.ndarray | None
    window: tuple[int, int, int, int] | None
    """(first row, first column, rows, columns) of a region that follows the pixels' edges."""
    hole: tuple[int, int, int, int] | None
    """A pixel-true hole in it, in the raster's pixels."""

    def make(self, folder: Path) -> tuple[list[Path], Options, dict[str, Any]]:
        """(the sources, the oracle's options, the keywords of ``geotfr.export_image``) after writing the rasters."""
        paths = [file.write(folder / f"source{number}.tif", self.transform) for number, file in enumerate(self.files)]
        stack = [(path, number) for path, file in zip(paths, self.files, strict=True) for number in _upto(file.count)]
        options = replace(
            self.options,
            arrays={name: [stack[number - 1] for number in numbers] for name, numbers in self.arrays.items()},
        )
        if self.mask is not None:
            mask = write_raster(folder / "cloud.tif", self.mask, transform=self.transform, crs="EPSG:4326")
            options = replace(options, masks=[(mask, len(self.mask))])
        keywords = options.keywords()
        if self.window is not None:
            row, col, height, width = self.window
            options = replace(
                options,
                grid=Grid(affine=self.transform @ Affine.translation(col, row), width=width, height=height),
                inside=lambda x, y: (
                    _is_in(self.transform, self.window, x, y) and not _is_in(self.transform, self.hole, x, y)
                ),
            )
            rings = [_ring(self.transform, part) for part in (self.window, self.hole) if part is not None]
            keywords["region"] = json.dumps({"type": "Polygon", "coordinates": rings})
        return paths, options, keywords


def _upto(count: int) -> range:
    return range(1, count + 1)


def _is_in(transform: Affine, part: tuple[int, int, int, int] | None, x: float, y: float) -> bool:
    if part is None:
        return False
    col, row = ~transform @ (x, y)
    return part[0] < row < part[0] + part[2] and part[1] < col < part[1] + part[3]


def _ring(transform: Affine, part: tuple[int, int, int, int]) -> list[list[float]]:
    row, col, height, width = part
    corners = [(col, row), (col + width, row), (col + width, row + height), (col, row + height), (col, row)]
    return [list(transform @ corner) for corner in corners]


@st.composite
def files(draw: st.DrawFn, shape: tuple[int, int]) -> File:
    """A raster of ``shape`` with one to four bands."""
    dtype = draw(st.sampled_from(sorted(EXTREMES)))
    masks = draw(st.sampled_from(MASKS))
    if masks == "alpha":
        dtype = draw(st.sampled_from(["uint8", "uint16"]))
    if masks == "nodata" and dtype.endswith("int64"):
        masks = "internal"  # a double can't tell every value of these types
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pool = np.concatenate([np.array(EXTREMES[dtype]).astype(dtype), random.integers(0, 100, 12).astype(dtype)])
    return File(
        data=random.choice(pool, (draw(st.integers(1, 4)), *shape)),
        masks=masks,
        valid=random.random(shape) < draw(st.sampled_from([0.3, 0.7, 0.95])),
        scaled=draw(st.booleans()),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Any rasters and options that go together."""
    shape = height, width = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    made = draw(st.lists(files(shape), min_size=1, max_size=3))
    stack = [
        (number, file.data.dtype, kind)
        for number, (file, kind) in enumerate(
            ((file, place < len(file.data)) for file in made for place in range(file.count)), start=1
        )
    ]
    numbers = [number for number, _, is_data in stack if is_data]
    names = draw(st.sampled_from([[], ["evi"], ["evi", "zeit é"]]))
    arrays = {name: draw(st.lists(st.sampled_from(numbers), min_size=1, max_size=4, unique=True)) for name in names}
    chosen = draw(st.one_of(st.none(), st.lists(st.sampled_from(numbers), min_size=1, max_size=3, unique=True)))
    # The types of an array's elements may differ: then only a default value that is the same in all is agreed on.
    is_mixed = any(len({stack[number - 1][1] for number in elements}) > 1 for elements in arrays.values())
    window = hole = None
    if draw(st.booleans()):
        row, col = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
        window = row, col, draw(st.integers(1, height - row)), draw(st.integers(1, width - col))
        if min(window[2:]) >= 3:
            hole = row + 1, col + 1, window[2] - 2, window[3] - 2
    rows, columns = window[2:] if window else shape
    pads = draw(st.booleans())
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    is_sequence = draw(st.booleans())
    return World(
        files=made,
        transform=draw(st.sampled_from([NORTH_UP_DEGREES, SOUTH_UP])),
        options=Options(
            patch=(
                draw(st.integers(1, 5 if pads else min(columns, 5))),
                draw(st.integers(1, 5 if pads else min(rows, 5))),
            ),
            kernel=(draw(st.integers(1, 4)), draw(st.integers(1, 4))),
            default_value=draw(st.sampled_from([0, 9] if is_mixed else [0, 9, -5, 300.7, -9999])),
            masked_threshold=draw(st.sampled_from([1.0, 1.0, 1.0, 0.5])),
            max_file_size=draw(st.sampled_from([1, 300, 2000, 1 << 30])),
            compressed=draw(st.booleans()),
            bands=chosen,
            depths={name: draw(st.integers(1, 5)) for name in arrays},
            collapse=draw(st.booleans()),
            sequence=is_sequence,
            native=draw(st.booleans()),
            mask_mode=draw(st.sampled_from(["pixel", "band"])),
            unscale=draw(st.booleans()),
            pad=pads,
            patch_index=None if is_sequence else draw(st.sampled_from([None, "number"])),
            valid_feature=draw(st.sampled_from([None, "valid"])),
        ),
        arrays=arrays,
        mask=draw(st.sampled_from([None, random.choice(np.array([0, 1, 255], "uint8"), (2, *shape))])),
        window=window,
        hole=hole,
    )
