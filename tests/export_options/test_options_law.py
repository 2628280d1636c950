"""The law of the options: whatever they are, and however they meet, the files are the oracle's."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from export_options.worlds import World, worlds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle.images import Grid, assert_export, exact_fill, expected_export, feature_kind
from oracle.run import contents
from rasterio.transform import Affine

import geotfr

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=120, deadline=None, suppress_health_check=SLOW)
@given(world=worlds(), compressor=st.sampled_from(["fast", "ee"]))
def test_the_files_are_the_oracles_for_any_options_together(world: World, compressor: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        paths, options, keywords = world.make(folder)
        before = contents(folder)
        (folder / "out").mkdir()
        more = {"compressor": compressor} if options.compressed else {}
        geotfr.export_image(paths, folder / "out" / "set", workers=1, **keywords, **more)
        assert_export(folder / "out", expected_export(paths, options, name="set"), compressor=compressor)
        assert {key: value for key, value in contents(folder).items() if key in before} == before


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(
    world=worlds(),
    side=st.sampled_from([0.37, 0.61, 1.0, 1.73]),
    shift=st.tuples(st.integers(-150, 80), st.integers(-150, 80)),
    workers=st.sampled_from([1, 2]),
)
def test_on_another_grid_each_pixel_is_the_one_under_its_middle_for_any_options_together(
    world: World, side: float, shift: tuple[int, int], workers: int
) -> None:
    # Every source overlaps, and no middle is on an edge between pixels, where either would be right.
    move = Affine.translation(shift[0] / 101 + 0.0031, shift[1] / 101 + 0.0031)
    grid = Grid(affine=world.transform @ move @ Affine.scale(side, side), width=7, height=6)
    world = replace(world, window=None, hole=None)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        paths, options, keywords = world.make(folder)
        options = replace(options, grid=grid)
        (folder / "out").mkdir()
        place = {"crs_transform": list(grid.affine)[:6], "dimensions": (grid.width, grid.height)}
        geotfr.export_image(paths, folder / "out" / "set", workers=workers, **keywords, **place)
        assert_export(folder / "out", expected_export(paths, options, name="set"))


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(world=worlds())
def test_two_workers_give_the_bytes_of_one_for_any_options_together(world: World) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        paths, _, keywords = world.make(folder)
        for name, workers in (("one", 1), ("elsewhere two", 2)):
            (folder / name).mkdir()
            geotfr.export_image(paths, folder / name / "set", workers=workers, **keywords)
        assert contents(folder / "one") == contents(folder / "elsewhere two")


@settings(max_examples=30, deadline=None, suppress_health_check=SLOW)
@given(world=worlds())
def test_scalar_bands_come_back_in_their_place_for_any_options_together(world: World) -> None:
    import rasterio

    options = replace(
        world.options, depths={}, masked_threshold=1.0, collapse=False, sequence=False, patch_index="number"
    )
    world = replace(world, options=options, arrays={})
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        paths, options, keywords = world.make(folder)
        result = geotfr.export_image(paths, folder / "set", **keywords)
        geotfr.ingest_predictions(result.mixer, result.shards, folder / "back.tif", patch_index="number")
        scene = expected_export(paths, options, name="set").scene
        valid = scene.valid if options.mask_mode == "pixel" else scene.shown
        height, width = scene.height, scene.width
        if not options.pad:
            height, width = height // options.patch[1] * options.patch[1], width // options.patch[0] * options.patch[0]
        with rasterio.open(folder / "back.tif") as back:
            assert list(back.transform)[:6] == list(scene.affine)
            assert list(back.descriptions) == [band.name for band in scene.bands]
            for number, band in enumerate(scene.bands, 1):
                seen = valid & band.elements[0].valid
                got = back.read(number)
                # A float list holds float32, whatever type the raster needs for all bands together.
                kind = feature_kind([band], native=options.native)
                held = {"float": "float32", "int64": "int64", "bytes": "uint8"}[kind]
                with np.errstate(over="ignore", invalid="ignore"):
                    fill = np.array(exact_fill(options.default_value, band.pixels.dtype)).astype(held)
                    kept = np.where(seen, band.pixels.astype(held), fill).astype(got.dtype)
                np.testing.assert_array_equal(got, kept[:height, :width])
