"""The law of the options: whatever they are, and however they meet, the files are the oracle's."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from export_options.worlds import World, worlds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle.images import assert_export, expected_export, fill_of
from oracle.run import contents

import geotfr

if TYPE_CHECKING:
    from oracle.images import Options

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

    changes = {"masked_threshold": 1.0, "collapse": False, "sequence": False, "patch_index": "number"}
    world = World(
        world.files,
        world.transform,
        _changed(world.options, depths={}, **changes),
        {},
        world.mask,
        world.window,
        world.hole,
    )
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
                with np.errstate(over="ignore", invalid="ignore"):
                    fill = fill_of(options.default_value, band.pixels.dtype)
                    kept = np.where(seen, band.pixels.astype(got.dtype), fill.astype(got.dtype))
                np.testing.assert_array_equal(got, kept[:height, :width])


def _changed(options: Options, **changes: object) -> Options:
    from dataclasses import replace

    return replace(options, **changes)
