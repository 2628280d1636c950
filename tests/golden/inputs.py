"""Small inputs of the golden corpus: the same pixels, shapes and rows on any machine."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

import numpy as np
from oracle.rasters import ROTATED, SOUTH_UP, write_raster
from rasterio.errors import NotGeoreferencedWarning
from rasterio.transform import Affine

if TYPE_CHECKING:
    from pathlib import Path

LEFT, TOP, PIXEL = 400000.0, 5000000.0, 10.0
SCENE = Affine(PIXEL, 0, LEFT, 0, -PIXEL, TOP)
CRS = "EPSG:32633"


def make_inputs(folder: Path) -> None:
    """Write all inputs into ``folder``, which is there and empty."""
    scene = _ramp(3, 150, 200, "uint16", 9973)
    scene[:, 40:60, 30:90] = 0
    scene[1, 100:104, 7:31] = 0
    tiles = {"tiled": True, "blockxsize": 64, "blockysize": 64}
    write_raster(
        folder / "scene.tif", scene, transform=SCENE, crs=CRS, nodata=0, descriptions=("B2", "B3", "B4"), **tiles
    )
    shifted = Affine(PIXEL, 0, LEFT + 200 * PIXEL, 0, -PIXEL, TOP)
    east = _ramp(3, 96, 96, "uint16", 7919)
    write_raster(folder / "east.tif", east, transform=shifted, crs=CRS, nodata=0, descriptions=("B2", "B3", "B4"))
    heights = (_ramp(1, 150, 200, "float32", 1009) / 7).astype("float32")
    heights[0, :9, :50] = np.nan
    write_raster(folder / "heights.tif", heights, transform=SCENE, crs=CRS, descriptions=("dem",))
    write_raster(
        folder / "south.tif", (_ramp(2, 64, 80, "float64", 503) - 250) / 3, transform=SOUTH_UP, crs="EPSG:4326"
    )
    write_raster(
        folder / "rotated.tif",
        _ramp(2, 48, 64, "uint8", 251),
        transform=ROTATED,
        crs="EPSG:32618",
        alpha=np.where(_ramp(1, 48, 64, "int64", 17)[0] == 3, 0, 255),
    )
    for month in (1, 2, 3):
        values = _ramp(1, 150, 200, "int16", 400 + month) - 200
        values[0, month : 150 : 3 * month, :20] = -9999
        write_raster(folder / f"evi_2024-{month:02d}.tif", values, transform=SCENE, crs=CRS, nodata=-9999)
    write_raster(folder / "large.tif", _ramp(1, 64, 64, "int32", 2**31 - 1) * 4099, transform=SCENE, crs=CRS)
    scaled = _ramp(2, 64, 64, "int16", 3000) - 5
    write_raster(
        folder / "scaled.tif", scaled, transform=SCENE, crs=CRS, nodata=-5, scales=(1e-4, 1e-3), offsets=(1000, 2000)
    )
    waves = (_ramp(1, 64, 64, "float32", 91) + 1j * _ramp(1, 64, 64, "float32", 89)).astype("complex64")
    write_raster(folder / "waves.tif", waves, transform=SCENE, crs=CRS)
    write_raster(folder / "water.tif", (_ramp(1, 150, 200, "uint8", 5) > 0).astype("uint8"), transform=SCENE, crs=CRS)
    classes = _ramp(1, 75, 100, "uint8", 3)
    write_raster(folder / "cover.tif", classes, transform=Affine(20, 0, LEFT, 0, -20, TOP), crs=CRS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        write_raster(folder / "bare.tif", _ramp(1, 32, 32, "uint8", 200), transform=Affine.identity(), crs=None)
    (folder / "classes.csv").write_text(
        "value,name,color\n0,none,#000000\n1,water,#0000ff\n2,forest,#00aa00\n3,town,#aa0000\n"
    )
    _write_shapes(folder)
    rows = [f"{n},{LEFT + 55.0 + 97 * n},{TOP - 45.0 - 61 * n},{n % 3},name {n}" for n in range(20)]
    (folder / "points.csv").write_text("\n".join(["id,x,y,class,label", *rows]) + "\n")
    (folder / "keep.txt").write_text("0\n2\n3\n7\n")
    (folder / "extra.csv").write_text("number,site\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(24)))


def _ramp(count: int, height: int, width: int, dtype: str, period: int) -> np.ndarray:
    """(count, height, width) whole numbers from 1 to ``period`` without a visible pattern, by arithmetic alone."""
    places = np.arange(count * height * width, dtype=np.uint64)
    mixed = (places * np.uint64(2654435761) + (places >> np.uint64(7)) * np.uint64(40503)) % np.uint64(2**32)
    return (mixed % np.uint64(period) + np.uint64(1)).astype(dtype).reshape(count, height, width)


def _write_shapes(folder: Path) -> None:
    def square(column: float, row: float, side: float) -> list[list[list[float]]]:
        left, top = LEFT + column * PIXEL, TOP - row * PIXEL
        right, bottom = left + side * PIXEL, top - side * PIXEL
        return [[[left, top], [left, bottom], [right, bottom], [right, top], [left, top]]]

    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32633"}}
    features = [
        {
            "type": "Feature",
            "properties": {"class": name, "year": 2020 + number, "weight": number / 4},
            "geometry": {"type": "Polygon", "coordinates": square(*place)},
        }
        for number, (name, place) in enumerate(
            (("water", (5, 5, 40)), ("forest", (60, 20, 55)), ("town", (90, 60, 30)), ("water", (130, 90, 45)))
        )
    ]
    (folder / "shapes.geojson").write_text(json.dumps({"type": "FeatureCollection", "crs": crs, "features": features}))
    region = {"type": "Polygon", "coordinates": square(20, 10, 100), "crs": crs}
    (folder / "region.geojson").write_text(json.dumps(region))
