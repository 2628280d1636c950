"""An ingest by areas that others make gives the raster of one process, byte for byte."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle.rasters import write_raster
from oracle.run import assert_refused, contents, run
from oracle.sets import write_set

import geotfr
from geotfr.errors import EngineLostError, RecordError, UsageError
from geotfr.pipeline.ingest import mosaic, overlap
from geotfr.pipeline.ingest.parts import distribute

SHAPE = (3, 288, 128)
PATCH = (32, 48)  # (width, height)
TILES: dict[str, Any] = {"creation_options": {"BLOCKYSIZE": "48"}}
"""Of a patch's height: the default is larger than what there would be areas of."""


@pytest.fixture(autouse=True)
def _small_areas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribute, "_AREA_BYTES", 60_000)
    monkeypatch.setattr(distribute, "_AREAS_A_SHARD", 2)


def noise(dtype: str = "float32", shape: tuple[int, int, int] = SHAPE) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 90, shape).astype(dtype)


def prediction_set(folder: Path, bands: np.ndarray, **more: Any) -> tuple[Path, list[Path]]:
    folder.mkdir(exist_ok=True)
    given: dict[str, Any] = {"patch": PATCH, "names": ("a", "b", "c"), "shards": 3, **more}
    return write_set(folder, bands, **given)


def both(tmp_path: Path, mixer: Path, shards: list[Path], **options: Any) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The files of one process and those of areas; what both tell is compared."""
    told, files = [], []
    with ThreadPoolExecutor(3) as pool:
        for name, how in {"one": {"workers": 2}, "areas": {"executor": pool, "workers": 2}}.items():
            out = tmp_path / name
            out.mkdir()
            result = geotfr.ingest_predictions(mixer, shards, out / "map.tif", **how, **options)
            told.append({**result.to_dict(), "seconds": 0, "output": "", "warnings": sorted(result.warnings)})
            files.append(contents(out))
    assert told[0] == told[1]
    return files[0], files[1]


CASES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "zstd": {"compress": "zstd"},
    "lzw": {"compress": "lzw"},
    "plain": {"compress": "none"},
    "other tiles": {"creation_options": {"BLOCKYSIZE": "64", "BLOCKXSIZE": "64"}},
    "rows of patches that don't fill tiles": {"creation_options": {"BLOCKYSIZE": "80", "BLOCKXSIZE": "48"}},
    "an option that isn't known": {"creation_options": {"BLOCKYSIZE": "48", "DISCARD_LSB": "0"}},
    "bands apart": {"creation_options": {"BLOCKYSIZE": "48", "INTERLEAVE": "BAND"}},
    "statistics": {"statistics": True, "creation_options": {"BLOCKYSIZE": "48"}},
    "overviews": {"pyramiding_policy": "max", "creation_options": {"BLOCKYSIZE": "48"}},
    "cog": {"format": "cog", "statistics": True},
    "scaled": {"scale": 0.5, "offset": 1.0, "dtype": "uint8", "creation_options": {"BLOCKYSIZE": "80"}},
    "argmax": {"argmax": True, "creation_options": {"BLOCKYSIZE": "48"}},
    "confidence": {"argmax": True, "confidence": True, "creation_options": {"BLOCKYSIZE": "48"}},
    "compared": {"verify": True, "creation_options": {"BLOCKYSIZE": "80"}},
}


@pytest.mark.parametrize("case", CASES)
def test_areas_make_the_bytes_of_one_process(case: str, tmp_path: Path) -> None:
    mixer, shards = prediction_set(tmp_path / "set", noise())
    one, areas = both(tmp_path, mixer, shards, **CASES[case])
    assert areas == one


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32"])
@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_kinds_and_compressions_make_the_bytes_of_one_process(dtype: str, compression: str, tmp_path: Path) -> None:
    more: dict[str, Any] = {"compression": compression} if compression else {}
    mixer, shards = prediction_set(tmp_path / "set", noise(dtype), **more)
    options = {"dtype": "auto"} if dtype == "int64" else {}
    one, areas = both(tmp_path, mixer, shards, creation_options={"BLOCKYSIZE": "48"}, **options)
    assert areas == one


@pytest.mark.parametrize("options", [{}, {"compress": "zstd"}, {"format": "cog"}], ids=str)
def test_statistics_of_tiles_that_gdal_makes_are_those_of_one_process(options: dict[str, str], tmp_path: Path) -> None:
    mixer, shards = prediction_set(tmp_path / "set", noise("uint8"))
    one, areas = both(tmp_path, mixer, shards, statistics=True, **options)
    with rasterio.open(tmp_path / "one" / "map.tif") as first, rasterio.open(tmp_path / "areas" / "map.tif") as other:
        assert all(first.tags(band) == other.tags(band) for band in (1, 2, 3))
        assert "STATISTICS_MEAN" in first.tags(1)
        assert np.array_equal(first.read(), other.read())
    # GDAL writes the directory anew for the metadata; the places of tiles that it leaves behind are zeros or not.
    assert len(one["map.tif"]) == len(areas["map.tif"])
    assert sum(a != b for a, b in zip(one["map.tif"], areas["map.tif"], strict=True)) <= 8 * 3 * 20


@pytest.mark.parametrize("how", ["average", "linear", "cosine", "gaussian", "vote", "max-probability"])
@pytest.mark.parametrize("is_narrow", [False, True])
def test_blends_take_the_rows_around_an_area(
    how: str, is_narrow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_narrow:
        # Several passes over the records, each for some of the columns.
        monkeypatch.setattr(overlap, "BLEND_BUDGET_BYTES", 300_000)
    data = noise()
    data[:, 100:110, 30:50] = np.nan
    mixer, shards = prediction_set(tmp_path / "set", data, margin=(8, 50))
    given = {"kernel_size": (16, 100), "overlap": how, "creation_options": {"BLOCKYSIZE": "48", "BLOCKXSIZE": "32"}}
    one, areas = both(tmp_path, mixer, shards, **given)
    assert areas == one


def test_a_wide_raster_is_made_in_groups_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mosaic.plan_mosaic.__kwdefaults__, "budget", 60_000)
    mixer, shards = prediction_set(tmp_path / "set", noise())
    one, areas = both(tmp_path, mixer, shards, creation_options={"BLOCKYSIZE": "80", "BLOCKXSIZE": "32"})
    assert areas == one


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_a_mask_is_put_back(dtype: str, tmp_path: Path) -> None:
    data = noise(dtype)
    if dtype == "uint8":
        # No value is left for what is masked: a mask inside the file.
        data[:, 0, :2], data[:, 1, :2] = 0, 255
    mixer, shards = prediction_set(tmp_path / "set", data)
    pixels = np.ones(SHAPE[1:], "uint8")
    pixels[100:200, 20:60] = 0
    mask = write_raster(tmp_path / "mask.tif", pixels, nodata=0)
    one, areas = both(tmp_path, mixer, shards, mask_from=mask, creation_options={"BLOCKYSIZE": "80"})
    assert areas == one
    for workers in (1, 3):
        target = tmp_path / f"{workers}.tif"
        geotfr.ingest_predictions(
            mixer, shards, target, workers=workers, mask_from=mask, creation_options={"BLOCKYSIZE": "80"}
        )
        assert target.read_bytes() == one["map.tif"]


def test_patches_that_were_left_out_and_records_that_are_damaged_stay_in_their_places(tmp_path: Path) -> None:
    scene = noise(shape=(1, 288, 128))
    scene[:, :150, :70] = -1
    source = write_raster(tmp_path / "scene.tif", scene, nodata=-1)
    (tmp_path / "set").mkdir()
    geotfr.export_image(
        source,
        tmp_path / "set" / "p",
        patch_dimensions=PATCH,
        masked_threshold=0.5,
        max_file_size=40_000,
        compressed=False,
    )
    shards = sorted((tmp_path / "set").glob("*.tfrecord"))
    one, areas = both(tmp_path, tmp_path / "set" / "p-manifest.json", shards, creation_options={"BLOCKYSIZE": "80"})
    assert areas == one
    data = bytearray(shards[1].read_bytes())
    data[500] ^= 1
    shards[1].write_bytes(data)
    with ThreadPoolExecutor(2) as pool, pytest.raises(RecordError, match=f"{shards[1].name}: record 0 at byte 0"):
        geotfr.ingest_predictions(tmp_path / "set", shards, tmp_path / "x.tif", executor=pool)
    (tmp_path / "damaged").mkdir()
    one, areas = both(
        tmp_path / "damaged",
        tmp_path / "set" / "p-manifest.json",
        shards,
        on_bad_record="skip",
        creation_options={"BLOCKYSIZE": "80"},
    )
    assert areas == one


def test_records_of_pixels_are_shared_out(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", noise(shape=(1, 60, 24)))
    (tmp_path / "set").mkdir()
    geotfr.export_image(source, tmp_path / "set" / "p", patch_dimensions=(6, 4), sequence_data=True, max_file_size=9000)
    shards = sorted((tmp_path / "set").glob("*.gz"))
    one, areas = both(tmp_path, tmp_path / "set", shards, creation_options={"BLOCKYSIZE": "16"})
    assert areas == one


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    patch=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    grid=st.tuples(st.integers(1, 5), st.integers(1, 12)),
    margin=st.integers(0, 50),
    tile=st.tuples(st.sampled_from([16, 32, 48]), st.sampled_from([16, 32, 48])),
    shards=st.integers(1, 4),
    area_bytes=st.integers(1, 30_000),
    how=st.sampled_from(["crop", "linear", "vote"]),
)
def test_the_law_holds_for_any_grid(
    tmp_path_factory: pytest.TempPathFactory,
    patch: tuple[int, int],
    grid: tuple[int, int],
    margin: int,
    tile: tuple[int, int],
    shards: int,
    area_bytes: int,
    how: str,
) -> None:
    folder = tmp_path_factory.mktemp("law")
    margin = min(margin, 3 * min(patch))
    data = noise(shape=(1, grid[1] * patch[1], grid[0] * patch[0]))
    mixer, paths = prediction_set(
        folder / "set", data, patch=patch, margin=(margin, margin), names=("a",), shards=min(shards, grid[0] * grid[1])
    )
    # The last ones may be empty.
    paths = [path for path in paths if path.stat().st_size]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(distribute, "_AREA_BYTES", area_bytes)
        one, areas = both(
            folder,
            mixer,
            paths,
            kernel_size=max(2 * margin, 1),
            overlap=how,
            creation_options={"BLOCKYSIZE": str(tile[0]), "BLOCKXSIZE": str(tile[1])},
        )
    assert areas == one


@pytest.mark.parametrize("wrong", ["too few", "too many"])
def test_counts_that_don_t_fit_are_told_as_one_process_tells_them(wrong: str, tmp_path: Path) -> None:
    mixer, shards = prediction_set(tmp_path / "set", noise())
    shutil.copy(shards[0], tmp_path / "pred-00009.tfrecord")
    given = shards[:-1] if wrong == "too few" else [*shards, tmp_path / "pred-00009.tfrecord"]
    told = []
    with ThreadPoolExecutor(2) as pool:
        for how in ("serial", pool):
            with pytest.raises(RecordError) as found:
                geotfr.ingest_predictions(mixer, given, tmp_path / "map.tif", executor=how)
            told.append(str(found.value))
    assert told[0] == told[1]
    assert not list(tmp_path.glob(".*"))


class Kills(threading.Thread):
    """Kills one process of this one's children, again and again, until it is told that all is done."""

    def __init__(self, chance: random.Random, times: int) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self._chance = chance
        self._left = times

    def run(self) -> None:
        """Kill."""
        while self._left and not self.ended.wait(self._chance.uniform(0.3, 2.0)):
            children = multiprocessing.active_children()
            if children:
                os.kill(self._chance.choice(children).pid or 0, signal.SIGKILL)
                self._left -= 1


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_a_worker_that_is_killed_is_replaced_and_nothing_is_left(seed: int, tmp_path: Path) -> None:
    mixer, shards = prediction_set(tmp_path / "set", noise())
    (tmp_path / "one").mkdir()
    geotfr.ingest_predictions(mixer, shards, tmp_path / "one" / "map.tif", executor="serial", **TILES)
    out = tmp_path / "out"
    out.mkdir()
    killer = Kills(random.Random(seed), times=1 + seed % 3)
    killer.start()
    geotfr.ingest_predictions(mixer, shards, out / "map.tif", executor="processes", workers=2, **TILES)
    killer.ended.set()
    killer.join()
    assert contents(out) == contents(tmp_path / "one")
    assert not multiprocessing.active_children()


class Breaking(Executor):
    """Runs some tasks, then none."""

    def __init__(self, tasks: int) -> None:
        self._left = tasks

    def submit(self, fn: Any, /, *args: Any, **more: Any) -> Future[Any]:
        """Run at once."""
        future: Future[Any] = Future()
        self._left -= 1
        if self._left < 0:
            future.set_exception(BrokenProcessPool("no more"))
        else:
            future.set_result(fn(*args, **more))
        return future


@pytest.mark.parametrize("tasks", [0, 2, 5])
def test_a_lost_engine_leaves_nothing_and_says_that_it_is_to_be_run_again(tasks: int, tmp_path: Path) -> None:
    mixer, shards = prediction_set(tmp_path / "set", noise())
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(EngineLostError, match="nothing of it is kept; run it again") as told:
        geotfr.ingest_predictions(mixer, shards, out / "map.tif", executor=Breaking(tasks), **TILES)
    assert told.value.exit_code == 15
    assert not contents(out)


def test_the_command_tells_what_to_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any, **__: Any) -> Any:
        raise EngineLostError("gone")

    monkeypatch.setattr(distribute.DistributedIngest, "write", lost)
    mixer, shards = prediction_set(tmp_path / "set", noise())
    args = ["ingest-predictions", mixer, *shards, "-o", tmp_path / "a b.tif", "--executor", "processes"]
    assert_refused(
        run(*args), 15, "gone; the command: geotfr ingest-predictions", "'" + str(tmp_path / "a b.tif") + "'"
    )


def test_what_can_not_be_made_by_areas_is_refused(tmp_path: Path) -> None:
    mixer, shards = prediction_set(tmp_path / "set", noise())
    with pytest.raises(UsageError, match="patch_index each process would read all records"):
        geotfr.ingest_predictions(mixer, shards, tmp_path / "m.tif", executor="processes", patch_index="n")
    with pytest.raises(UsageError, match="scheduler: only the executor dask"):
        geotfr.ingest_predictions(mixer, shards, tmp_path / "m.tif", executor="threads", scheduler="tcp://a:1")


def test_the_plan_tells_the_memory_of_all_processes(tmp_path: Path) -> None:
    mixer, shards = prediction_set(tmp_path / "set", noise())
    one = geotfr.plan_ingest(mixer, shards, workers=1)
    many = geotfr.plan_ingest(mixer, shards, workers=3, executor="processes")
    assert many.memory_bytes > 3 * one.memory_bytes
    assert many.workers == 3
