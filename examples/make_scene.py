"""Make a small scene as an optical satellite sees it, from a seed: something real enough to try geotfr on.

    python examples/make_scene.py FOLDER

writes ``scene.tif`` (reflectances times 10000 in six named uint16 bands, UTM, nodata 0 beyond the edge of the
swath, clouds in the file's mask band) and ``classes.tif`` (what is on the ground, pixel by pixel: the truth
to compare a prediction with).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import rasterio
from rasterio import Affine

if TYPE_CHECKING:
    from numpy.typing import NDArray

BANDS = ("B2", "B3", "B4", "B8", "B11", "B12")
"""Blue, green, red, near infrared, short-wave infrared 1 and 2, by Sentinel-2's names."""

CLASSES = ("water", "forest", "crops", "soil", "town")
"""What is on the ground; the class number is the position."""

SPECTRA = np.array(
    [
        [0.040, 0.035, 0.025, 0.020, 0.010, 0.008],
        [0.030, 0.050, 0.030, 0.300, 0.140, 0.070],
        [0.050, 0.080, 0.050, 0.400, 0.220, 0.120],
        [0.100, 0.130, 0.170, 0.240, 0.330, 0.280],
        [0.130, 0.140, 0.150, 0.190, 0.220, 0.200],
    ],
    np.float32,
)
"""(class, band): typical reflectances."""

CLOUD = np.array([0.55, 0.54, 0.53, 0.56, 0.38, 0.30], np.float32)
PIXEL_M = 10.0
ORIGIN_XY = (399_960.0, 5_300_040.0)


class Scene(NamedTuple):
    """The files of a scene."""

    raster: Path
    classes: Path


def make_scene(folder: Path, *, size_xy: tuple[int, int] = (1200, 1000), seed: int = 7) -> Scene:
    """Write ``scene.tif`` and ``classes.tif`` of ``size_xy`` (columns, rows) into ``folder``; a seed, the
    same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    shape = (size_xy[1], size_xy[0])
    height = rough_field(random, shape, 2.2)
    classes = ground(random, height)
    clouds = rough_field(random, shape, 2.6) > 1.25
    pixels = reflectances(random, height, classes, clouds)
    pixels[:, beyond_swath(shape)] = 0
    scene = Scene(folder / "scene.tif", folder / "classes.tif")
    grid = {
        "driver": "GTiff",
        "height": shape[0],
        "width": shape[1],
        "crs": "EPSG:32633",
        "transform": Affine(PIXEL_M, 0, ORIGIN_XY[0], 0, -PIXEL_M, ORIGIN_XY[1]),
        "tiled": True,
        "blockxsize": 256,
        "blockysize": 256,
        "compress": "deflate",
    }
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(scene.raster, "w", count=len(BANDS), dtype="uint16", nodata=0, **grid) as raster,
    ):
        raster.write(pixels)
        raster.write_mask(~clouds)
        raster.descriptions = BANDS
    with rasterio.open(scene.classes, "w", count=1, dtype="uint8", **grid) as raster:
        raster.write(classes, 1)
        raster.descriptions = ("class",)
    return scene


def rough_field(random: np.random.Generator, shape: tuple[int, int], roughness: float) -> NDArray[np.float32]:
    """A field (row, column) like terrain: random waves, the longer the higher; mean 0, standard deviation 1.

    The spectrum falls with frequency to the power of ``-roughness``, as measured on hills, fields and clouds.
    """
    rows, cols = np.fft.fftfreq(shape[0])[:, np.newaxis], np.fft.rfftfreq(shape[1])
    frequency = np.hypot(rows, cols)
    frequency[0, 0] = np.inf
    waves = np.fft.rfft2(random.standard_normal(shape)) * frequency ** (-roughness / 2 - 0.5)
    field = np.fft.irfft2(waves, shape)
    return np.asarray((field - field.mean()) / field.std(), np.float32)


def ground(random: np.random.Generator, height: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The class (row, column) of each pixel: water lies low, fields have straight edges, forest covers the
    hills."""
    wet = rough_field(random, height.shape, 1.8)
    people = rough_field(random, height.shape, 2.0)
    parcels = random.random((height.shape[0] // 24 + 2, height.shape[1] // 36 + 2))
    rows, cols = np.indices(height.shape)
    # Parcels are rectangles that lie askew, as fields along a road do.
    is_bare = parcels[(rows + cols // 5) // 24 % parcels.shape[0], (cols + rows // 7) // 36 % parcels.shape[1]] < 0.4
    classes = np.where(is_bare, CLASSES.index("soil"), CLASSES.index("crops")).astype(np.uint8)
    classes[height + 0.4 * wet > 0.5] = CLASSES.index("forest")
    classes[people > 1.7] = CLASSES.index("town")
    classes[height < -1.1] = CLASSES.index("water")
    return classes


def reflectances(
    random: np.random.Generator,
    height: NDArray[np.float32],
    classes: NDArray[np.uint8],
    clouds: NDArray[np.bool_],
) -> NDArray[np.uint16]:
    """(band, row, column) reflectance times 10000, at least 1: sunlit ground, its texture, clouds, sensor
    noise."""
    sunlit = 1 + 0.15 * np.clip((np.gradient(height, axis=1) - np.gradient(height, axis=0)) * 20, -2, 2)
    sunlit[classes == CLASSES.index("water")] = 1
    texture = 1 + 0.06 * random.standard_normal(height.shape, np.float32)
    pixels = np.empty((len(BANDS), *height.shape), np.uint16)
    for band in range(len(BANDS)):
        light = SPECTRA[classes, band] * sunlit * texture
        light = np.where(clouds, CLOUD[band] * texture, light)
        light += 0.0015 * random.standard_normal(height.shape, np.float32)
        pixels[band] = np.clip(np.rint(light * 10_000), 1, 10_000)
    return pixels


def beyond_swath(shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Where (row, column) the sensor saw nothing: a wedge at the left, as its track crosses the grid
    askew."""
    rows, cols = np.indices(shape)
    return np.asarray(cols < 0.16 * shape[1] - 0.22 * rows)


def main() -> None:
    """Read the command line and make the scene."""
    parser = argparse.ArgumentParser(description="make a small satellite scene")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, nargs=2, default=(1200, 1000), metavar=("COLUMNS", "ROWS"))
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    for path in make_scene(given.folder, size_xy=(given.size[0], given.size[1]), seed=given.seed):
        print(path)


if __name__ == "__main__":
    main()
