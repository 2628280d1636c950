"""What an export sees: every band's pixels on the export's grid, and which of them are masked."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import rasterio
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.transform import Affine

from oracle.options import Grid, Options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Element:
    """One band of one file on the export's grid: its pixels, and which of them its own file shows."""

    pixels: np.ndarray
    valid: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Band:
    """A band of the export: one element and no depth, or the elements of an array band and its depth."""

    name: str
    elements: Sequence[Element]
    depth: int | None = None

    @property
    def pixels(self) -> np.ndarray:
        """The pixels of a scalar band."""
        assert self.depth is None
        return self.elements[0].pixels


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The bands in their order, the pixels that region and mask rasters show, and the place on the ground."""

    bands: list[Band]
    shown: np.ndarray
    affine: tuple[float, ...]
    crs: str

    @property
    def valid(self) -> np.ndarray:
        """Pixels that nothing masks: every scalar band is valid, every array band has a valid element."""
        valid = self.shown.copy()
        for band in self.bands:
            valid &= np.any([element.valid for element in band.elements], axis=0)
        return valid

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.shown.shape[1])

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.shown.shape[0])


@dataclass(frozen=True, kw_only=True)
class _Layer:
    """One band of one file, on the file's own grid."""

    path: Path
    number: int
    name: str
    pixels: np.ndarray
    valid: np.ndarray
    is_alpha: bool
    affine: Affine


def read_scene(paths: Sequence[Path], options: Options) -> Scene:
    """The scene that an export of ``paths`` sees: alpha is a mask unless ``bands`` asks for it."""
    layers = [layer for path in paths for layer in _layers(path, options, stacked=len(paths) > 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with rasterio.open(paths[0]) as source:
            grid = options.grid or Grid(affine=source.transform, width=source.width, height=source.height)
            authority = source.crs.to_authority() if source.crs else None
            crs = ":".join(authority) if authority else source.crs.to_wkt() if source.crs else ""
    used = {element for elements in options.arrays.values() for element in elements}
    if options.bands is None:
        chosen = [layer for layer in layers if not layer.is_alpha and (layer.path, layer.number) not in used]
    else:
        chosen = [layers[number - 1] for number in options.bands]
    if options.complex_parts:
        chosen = [part for layer in chosen for part in _complex_parts(layer)]
    names = _unique([layer.name for layer in chosen])
    bands = [Band(name=name, elements=[_on_grid(layer, grid)]) for name, layer in zip(names, chosen, strict=True)]
    for name, elements in options.arrays.items():
        found = [_layers(path, options, stacked=True)[number - 1] for path, number in elements]
        bands.append(Band(name=name, elements=[_on_grid(layer, grid) for layer in found], depth=options.depths[name]))
    return Scene(bands=bands, shown=_shown(options, grid), affine=tuple(grid.affine)[:6], crs=crs)


def _layers(path: Path, options: Options, *, stacked: bool) -> list[_Layer]:
    """All bands of a file; its alpha and its mask mask each of them, its nodata values theirs."""
    layers = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with rasterio.open(path) as source:
            masked = np.zeros(source.shape, bool)
            for number, kind in enumerate(source.colorinterp, 1):
                if kind == ColorInterp.alpha:
                    masked |= source.read(number) == 0
                flags = source.mask_flag_enums[number - 1]
                if MaskFlags.per_dataset in flags and MaskFlags.alpha not in flags:
                    masked |= source.read_masks(number) == 0
            for number, kind in enumerate(source.colorinterp, 1):
                pixels = source.read(number)
                name = f"b{number}" if not stacked else path.stem if source.count == 1 else f"{path.stem}_b{number}"
                nodata = source.nodatavals[number - 1] if options.nodata is None else options.nodata
                valid = ~(masked | _is_nodata(pixels, nodata))
                if options.unscale:
                    scale, offset = source.scales[number - 1], source.offsets[number - 1]
                    with np.errstate(over="ignore", invalid="ignore"):
                        # A band that has neither keeps its values, -0 too.
                        if (scale, offset) != (1, 0):
                            pixels = pixels.astype("float64") * scale + offset
                        pixels = pixels.astype("float32")
                layers.append(
                    _Layer(
                        path=path,
                        number=number,
                        name=source.descriptions[number - 1] or name,
                        pixels=pixels,
                        valid=valid,
                        is_alpha=kind == ColorInterp.alpha,
                        affine=source.transform,
                    )
                )
    return layers


def _complex_parts(layer: _Layer) -> list[_Layer]:
    if layer.pixels.dtype.kind != "c":
        return [layer]
    return [
        replace(layer, name=f"{layer.name}_real", pixels=layer.pixels.real),
        replace(layer, name=f"{layer.name}_imag", pixels=layer.pixels.imag),
    ]


def _on_grid(layer: _Layer, grid: Grid) -> Element:
    """The layer's pixel under the middle of each pixel of the grid; masked where there is none."""
    if layer.affine == grid.affine and layer.pixels.shape == (grid.height, grid.width):
        return Element(pixels=layer.pixels, valid=layer.valid)
    pixels = np.zeros((grid.height, grid.width), layer.pixels.dtype)
    valid = np.zeros((grid.height, grid.width), bool)
    to_layer = ~layer.affine @ grid.affine
    for row in range(grid.height):
        for col in range(grid.width):
            x, y = to_layer @ (col + 0.5, row + 0.5)
            here = math.floor(y), math.floor(x)
            if 0 <= here[0] < layer.pixels.shape[0] and 0 <= here[1] < layer.pixels.shape[1]:
                pixels[row, col] = layer.pixels[here]
                valid[row, col] = layer.valid[here]
    return Element(pixels=pixels, valid=valid)


def _shown(options: Options, grid: Grid) -> np.ndarray:
    shown = np.ones((grid.height, grid.width), bool)
    for path, number in options.masks:
        shown &= _on_grid(_layers(path, Options(patch=(1, 1)), stacked=True)[number - 1], grid).pixels != 0
    if options.inside is not None:
        for row in range(grid.height):
            for col in range(grid.width):
                shown[row, col] &= options.inside(*(grid.affine @ (col + 0.5, row + 0.5)))
    return shown


def _is_nodata(pixels: np.ndarray, nodata: float | None) -> np.ndarray:
    masked = np.isnan(pixels) if pixels.dtype.kind in "fc" else np.zeros(pixels.shape, bool)
    if nodata is None or math.isnan(nodata):
        return masked
    if pixels.dtype.kind in "fc":
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
