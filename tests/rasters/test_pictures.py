"""Pictures and the made scenes: what they hold, and nothing beside them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import rasterio

from geotfr.errors import OutputError
from geotfr.rasters.pictures import write_png
from geotfr.rasters.safe_open import quiet_georeference

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    """A script of the project, imported by its path."""
    spec = importlib.util.spec_from_file_location(Path(name).stem, ROOT / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_png_holds_the_pixels_and_has_no_side_file(tmp_path: Path) -> None:
    rgb = np.random.default_rng(0).integers(0, 256, (3, 20, 30), dtype=np.uint8)
    for _ in range(2):  # an existing picture is replaced
        write_png(tmp_path / "x.png", rgb)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    with quiet_georeference(), rasterio.open(tmp_path / "x.png") as dataset:
        np.testing.assert_array_equal(dataset.read(), rgb)
    assert [found.name for found in tmp_path.iterdir()] == ["x.png"]


def test_a_png_that_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file"):
        write_png(tmp_path / "none" / "x.png", np.zeros((3, 2, 2), np.uint8))


def test_the_scene_is_the_same_for_a_seed_and_has_what_it_says(tmp_path: Path) -> None:
    make_scene = script("examples/make_scene.py").make_scene
    one, two, other = (
        make_scene(tmp_path / name, size_xy=(300, 260), seed=seed)
        for name, seed in (("one", 3), ("two", 3), ("other", 4))
    )
    assert one.raster.read_bytes() == two.raster.read_bytes()
    assert one.classes.read_bytes() == two.classes.read_bytes()
    assert one.raster.read_bytes() != other.raster.read_bytes()
    with rasterio.open(one.raster) as scene, rasterio.open(one.classes) as classes:
        assert scene.descriptions == ("B2", "B3", "B4", "B8", "B11", "B12")
        assert scene.crs == rasterio.CRS.from_epsg(32633)
        assert (scene.shape, scene.transform) == (classes.shape, classes.transform)
        pixels = scene.read()
        wedge = (pixels == 0).any(axis=0)
        np.testing.assert_array_equal(wedge, (pixels == 0).all(axis=0))
        assert 0.05 < wedge.mean() < 0.2
        assert 0 < (scene.read_masks(1) == 0).mean() < 0.5
        assert len(np.unique(classes.read(1))) >= 3
        # Bands of one ground belong together: near infrared is dark over water, bright over crops.
        truth = classes.read(1)
        clear = ~wedge & (scene.read_masks(1) != 0)
        assert pixels[3][clear & (truth == 0)].mean() < 0.5 * pixels[3][clear & (truth == 2)].mean()


def test_benchmark_rasters_are_made_once_and_compress_like_scenes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = script("benchmarks/_data.py")
    monkeypatch.setattr(data, "DATA", tmp_path / "data")
    for dtype, top in (("uint16", 10_000), ("float32", 1)):
        path = data.big_raster(size=600, width=700, bands=2, dtype=dtype)
        before = path.stat().st_mtime_ns
        assert data.big_raster(size=600, width=700, bands=2, dtype=dtype) == path
        assert path.stat().st_mtime_ns == before
        with rasterio.open(path) as dataset:
            pixels = dataset.read().astype(float) / top
            assert dataset.block_shapes == [(256, 256)] * 2
            assert dataset.interleaving == rasterio.enums.Interleaving.pixel
        assert pixels.min() >= 0
        assert pixels.std() > 0.03
        neighbours = np.corrcoef(pixels[:, :, 1:].ravel(), pixels[:, :, :-1].ravel())[0, 1]
        assert 0.95 < neighbours < 1
        assert path.stat().st_size < 0.9 * pixels.size * np.dtype(dtype).itemsize
    assert sorted(found.suffix for found in (tmp_path / "data").iterdir()) == [".tif", ".tif"]
