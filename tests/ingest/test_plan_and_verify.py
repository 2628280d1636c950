"""What an ingest tells before it writes, and what it compares when it has written."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import rasterio
from oracle.memory import PEAK_MIB
from oracle.rasters import numbered, read_raster
from oracle.run import assert_refused, contents, run
from oracle.sets import write_set

import geotfr
from geotfr.errors import OutputError
from geotfr.rasters.sink import GeoTiffSink

if TYPE_CHECKING:
    from pathlib import Path

PICTURE = numbered(2, 12, 16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A mixer and two shards of twelve patches of 4 x 4, two bands."""
    path = tmp_path / "set"
    path.mkdir()
    mixer, _ = write_set(path, PICTURE, patch=(4, 4), names=("a", "b"), shards=2)
    mixer.rename(path / "pred-mixer.json")
    return path


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--format", "cog", "--nodata", "-1"),
        ("--dtype", "int16", "--bands", "b"),
        ("--pyramiding-policy", "max", "--compress", "zstd"),
    ],
    ids=lambda options: " ".join(options) or "defaults",
)
def test_the_plan_is_what_is_then_written(options: tuple[str, ...], folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tif"
    before = contents(tmp_path)
    outcome = run("ingest-predictions", folder, "--output", out, "--dry-run", "--json", *options)
    assert outcome.code == 0, outcome.told
    assert contents(tmp_path) == before
    plan = json.loads(outcome.stdout)
    done = run("ingest-predictions", folder, "--output", out, "--quiet", *options)
    assert done.code == 0, done.told
    with rasterio.open(out) as raster:
        assert (plan["width"], plan["height"]) == (raster.width, raster.height)
        assert plan["transform"] == list(raster.transform)[:6]
        assert plan["bands"] == list(raster.descriptions)
        assert {plan["dtype"]} == set(raster.dtypes)
        assert plan["nodata"] == raster.nodata
        assert plan["creation_options"]["COMPRESS"].lower() == raster.compression.value.lower()
    assert (plan["patches"], plan["records"], plan["shards"]) == (12, 12, 2)


def test_the_plan_for_a_person_names_grid_bands_type_disk_and_memory(folder: Path, tmp_path: Path) -> None:
    outcome = run("ingest-predictions", folder, "--output", tmp_path / "o.tif", "--dry-run", "--format", "cog")
    assert outcome.code == 0, outcome.told
    for words in ("16 x 12 pixels, EPSG:32618", "12 of 4 x 4", "2 shards", "a, b", "float32", "on the way", "memory"):
        assert words in outcome.stdout


def test_the_overviews_of_the_plan_are_those_of_the_file(tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, np.ones((1, 600, 1100), "uint8"), patch=(100, 100))
    options: dict[str, Any] = {"format": "cog"}
    plan = geotfr.plan_ingest(mixer, shards, **options)
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", **options)
    with rasterio.open(tmp_path / "o.tif") as raster:
        sizes = [(-(-raster.height // factor), -(-raster.width // factor)) for factor in raster.overviews(1)]
    assert list(plan.levels_yx) == sizes
    assert plan.staged_bytes == plan.output_bytes == 600 * 1100 + 300 * 550 + 150 * 275


@pytest.mark.parametrize("flag", ["--each", "--mosaic"])
def test_the_plan_of_a_folder_tells_each_set(flag: str, folder: Path, tmp_path: Path) -> None:
    outcome = run("ingest-predictions", folder, "--output", tmp_path / "o", "--dry-run", "--json", flag)
    assert outcome.code == 0, outcome.told
    (plan,) = json.loads(outcome.stdout)["plans"].values()
    assert plan["records"] == 12
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("option", ["BLOCKSIZE=100", "LEVLE=3"])
def test_a_creation_option_of_a_cog_is_checked_before_any_work(option: str, folder: Path, tmp_path: Path) -> None:
    before = contents(tmp_path)
    for more in ((), ("--dry-run",)):
        outcome = run(
            *("ingest-predictions", folder, "--output", tmp_path / "o.tif", "--format", "cog", "--co", option, *more)
        )
        assert_refused(outcome, 2, option.partition("=")[0])
    assert contents(tmp_path) == before


# Compared after writing.


def spoil(monkeypatch: pytest.MonkeyPatch, name: str, row: int, col: int) -> None:
    """Let ``GeoTiffSink.name`` write another value at one pixel of each window that holds it."""
    write = getattr(GeoTiffSink, name)

    def spoilt(self: GeoTiffSink, top: int, left: int, data: np.ndarray) -> None:
        data = data.copy()
        if top <= row < top + data.shape[-2] and left <= col < left + data.shape[-1]:
            data[..., row - top, col - left] = 1 - data[..., row - top, col - left]
        write(self, top, left, data)

    monkeypatch.setattr(GeoTiffSink, name, spoilt)


@pytest.mark.parametrize("output_format", ["gtiff", "cog"])
def test_verify_finds_any_wrong_pixel(output_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mixer, shards = write_set(tmp_path, numbered(1, 600, 600), patch=(300, 300))
    spoil(monkeypatch, "write", 299, 599)
    out = tmp_path / "o.tif"
    options: dict[str, Any] = {"format": output_format}
    geotfr.ingest_predictions(mixer, shards, out, **options)  # no corner that is compared always
    out.unlink()
    with pytest.raises(OutputError, match=r"o\.tif|read back differ"):
        geotfr.ingest_predictions(mixer, shards, out, verify=True, **options)
    assert {path.name for path in tmp_path.iterdir()} == {mixer.name, *(path.name for path in shards)}


def test_verify_finds_a_wrong_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = np.arange(256, dtype="uint8").reshape(1, 16, 16)
    mixer, shards = write_set(tmp_path, picture, patch=(4, 4))
    with rasterio.open(
        tmp_path / "mask.tif",
        "w",
        driver="GTiff",
        width=16,
        height=16,
        count=1,
        dtype="uint8",
        nodata=0,
        crs="EPSG:32618",
        transform=read_raster_transform(mixer),
    ) as raster:
        raster.write((picture != 99).astype("uint8"))
    options: dict[str, Any] = {"mask_from": tmp_path / "mask.tif", "verify": True}
    result = geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", **options)
    assert "masked inside the file" in result.notes[0]
    spoil(monkeypatch, "write_mask", 5, 5)  # not the masked one
    with pytest.raises(OutputError, match="the mask read back differs"):
        geotfr.ingest_predictions(mixer, shards, tmp_path / "p.tif", **options)
    assert not (tmp_path / "p.tif").exists()


def read_raster_transform(mixer: Path) -> rasterio.Affine:
    return rasterio.Affine(*json.loads(mixer.read_text())["projection"]["affine"]["doubleMatrix"])


@pytest.mark.parametrize(
    "options",
    [(), ("--overlap", "gaussian"), ("--format", "cog"), ("--dtype", "int16", "--nodata", "-1"), ("--scale", "2")],
    ids=lambda options: " ".join(options) or "defaults",
)
def test_verify_of_a_right_raster_changes_nothing(options: tuple[str, ...], folder: Path, tmp_path: Path) -> None:
    if "--scale" in options:
        options = (*options, "--dtype", "uint8")
    plain = run("ingest-predictions", folder, "--output", tmp_path / "a.tif", "--quiet", *options)
    checked = run("ingest-predictions", folder, "--output", tmp_path / "b.tif", "--quiet", "--verify", *options)
    assert (plain.code, plain.stderr) == (checked.code, checked.stderr)
    assert (tmp_path / "a.tif").read_bytes() == (tmp_path / "b.tif").read_bytes()


def test_verify_reaches_the_sets_of_a_folder_and_a_mosaic(folder: Path, tmp_path: Path) -> None:
    for flag, out in (("--each", tmp_path / "many"), ("--mosaic", tmp_path / "one.tif")):
        outcome = run("ingest-predictions", folder, "--output", out, "--quiet", "--verify", flag)
        assert outcome.code == 0, outcome.told
    np.testing.assert_array_equal(read_raster(tmp_path / "one.tif")[0], PICTURE)


# The disk, before any work.


class Usage(NamedTuple):
    """As ``shutil.disk_usage`` tells."""

    total: int
    used: int
    free: int


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        (("--compress", "none"), 2 * 12 * 16 * 4),
        (("--compress", "none", "--dtype", "int16"), 2 * 12 * 16 * 2),
    ],
)
def test_a_raster_that_can_not_fit_is_refused_before_any_work(
    options: tuple[str, ...], needed: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**6, 10**6, needed - 1))
    outcome = run("ingest-predictions", folder, "--output", tmp_path / "o.tif", *options)
    assert_refused(outcome, 14, f"{needed:,}", f"{needed - 1:,}")
    assert contents(tmp_path) == before


def test_files_on_the_way_are_counted_in_what_may_not_fit(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = 2 * 12 * 16 * 4
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**6, 10**6, raw))
    for options, told in (((), False), (("--format", "cog"), True)):
        outcome = run("ingest-predictions", folder, "--output", tmp_path / "o.tif", "--overwrite", *options)
        assert outcome.code == 0, outcome.told
        assert (f"{2 * raw:,} bytes with the files on the way" in outcome.stderr) is told


def test_patches_in_any_order_need_room_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oracle.sets import write_blocks

    features = {"a": np.ones((4, 4, 4), "float32"), "n": np.arange(4)[::-1].reshape(4, 1)}
    mixer, shards = write_blocks(tmp_path, features, patch=(4, 4), per_row=2)
    before = contents(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**6, 10**6, 4 * 64 - 1))
    outcome = run("ingest-predictions", mixer, *shards, "--output", tmp_path / "o.tif", "--patch-index", "n")
    assert_refused(outcome, 14, "temporary file", "256", "TMPDIR")
    assert contents(tmp_path) == before


# Memory.

CHILD = f"""{PEAK_MIB}
import json, sys
import geotfr
folder, options = sys.argv[1], json.loads(sys.argv[2])
geotfr.ingest_predictions(f"{{folder}}/set.json", f"{{folder}}/set.tfrecord", f"{{folder}}/out.tif", **options)
print(peak_mib())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"overlap": "gaussian"}, {"overlap": "vote"}, {"overlap": "max-probability"}, {"format": "cog"}],
    ids=lambda options: " ".join(options.values()) or "crop",
)
@pytest.mark.parametrize("shape_yx", [(4096, 2048), (512, 16384)], ids=["high", "wide"])
def test_the_memory_of_an_ingest_keeps_to_its_plan(
    options: dict[str, str], shape_yx: tuple[int, int], tmp_path: Path
) -> None:
    rows, cols = shape_yx
    with rasterio.open(
        tmp_path / "scene.tif",
        "w",
        driver="GTiff",
        width=cols,
        height=rows,
        count=3,
        dtype="float32",
        crs="EPSG:32618",
        transform=rasterio.Affine(10, 0, 0, 0, -10, 0),
        tiled=True,
        sparse_ok=True,
    ):
        pass
    geotfr.export_image(
        tmp_path / "scene.tif", tmp_path / "set", patch_dimensions=256, kernel_size=128, compressed=False
    )
    options = {**options, "workers": 2}  # type: ignore[dict-item]
    planned = geotfr.plan_ingest(tmp_path / "set.json", tmp_path / "set.tfrecord", **options).memory_bytes  # type: ignore[arg-type]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, tmp_path, json.dumps(options)], stdout=subprocess.PIPE, text=True, check=True
    )
    peak = int(done.stdout.splitlines()[-1])
    print(f"planned {planned >> 20} MiB, peak {peak} MiB")
    assert peak <= (planned >> 20) + 64
