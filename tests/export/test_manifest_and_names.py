"""The manifest and the names: what is promised about the files beside the shards."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import rasterio
from oracle import wire
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import write_raster
from oracle.run import assert_refused, contents, run, run_apart

import geotfr

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """4 x 6 (w x h) of uint8 with three nodata pixels in its first 2 x 2 patch."""
    data = np.arange(1, 25, dtype="uint8").reshape(6, 4)
    data[0, 0] = data[0, 1] = data[1, 1] = 0
    return write_raster(tmp_path / "scene.tif", data, nodata=0)


def export(source: Path, prefix: str | Path, **options: Any) -> Any:
    return geotfr.export_image(source, prefix, **{"patch_dimensions": 2, **options})


NAMES = [
    ("set", "drive", 1 << 30, ["set-manifest.json", "set.json", "set.tfrecord.gz"]),
    (
        "set",
        "drive",
        150,
        ["set-00000.tfrecord.gz", "set-00001.tfrecord.gz", "set-manifest.json", "set-mixer.json"],
    ),
    ("set", "cloud-storage", 1 << 30, ["set.json", "set.tfrecord.gz", "setmanifest.json"]),
    (
        "set",
        "cloud-storage",
        150,
        ["set00000.tfrecord.gz", "set00001.tfrecord.gz", "setmanifest.json", "setmixer.json"],
    ),
    ("", "drive", 1 << 30, ["00000.tfrecord.gz", "manifest.json", "mixer.json"]),
    ("", "cloud-storage", 1 << 30, ["00000.tfrecord.gz", "manifest.json", "mixer.json"]),
]


@pytest.mark.parametrize(("name", "naming", "limit", "names"), NAMES)
def test_names_follow_the_style_and_the_number_of_shards(
    source: Path, tmp_path: Path, name: str, naming: str, limit: int, names: list[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    export(source, f"{out}/{name}", naming=naming, max_file_size=limit)
    assert sorted(path.name for path in out.iterdir()) == names


def test_a_folder_prefix_is_made_if_its_parent_exists(source: Path, tmp_path: Path) -> None:
    outcome = run("export", source, "--output", f"{tmp_path}/new/", "--patch-dimensions", "2", "--quiet")
    assert outcome.code == 0, outcome.told
    assert_export(tmp_path / "new", expected_export([source], Options(patch=(2, 2)), name=""))


def test_a_threshold_other_than_one_writes_no_mixer_and_drops_patches(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    export(source, out / "set", masked_threshold=0.5)
    expected = expected_export([source], Options(patch=(2, 2), masked_threshold=0.5), name="set")
    assert expected.written == [1, 2, 3, 4, 5]
    assert_export(out, expected)


def test_a_threshold_equal_to_the_masked_share_keeps_the_patch(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    export(source, out / "set", masked_threshold=0.75)
    expected = expected_export([source], Options(patch=(2, 2), masked_threshold=0.75), name="set")
    assert expected.written == [0, 1, 2, 3, 4, 5]
    assert_export(out, expected)


def test_every_patch_over_the_threshold_leaves_a_manifest_alone_and_a_warning(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.zeros((4, 4), "uint8"), nodata=0)
    out = tmp_path / "out"
    out.mkdir()
    outcome = run(*("export", source, "--output", out / "set", "--patch-dimensions", "2", "--masked-threshold", "0.5"))
    assert outcome.code == 0, outcome.told
    assert [path.name for path in out.iterdir()] == ["set-manifest.json"]
    assert "warning" in outcome.stderr.lower()


def test_masked_patches_are_written_with_the_default_value_at_threshold_one(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.zeros((2, 2), "uint8"), nodata=0)
    out = tmp_path / "out"
    out.mkdir()
    export(source, out / "set", default_value=7)
    (record,) = wire.read_shard(out / "set.tfrecord.gz")
    assert np.array_equal(record["b1"], [7, 7, 7, 7])


def test_a_record_larger_than_the_limit_gets_a_shard_of_its_own_with_a_warning(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    outcome = run(*("export", source, "--output", out / "set", "--patch-dimensions", "2", "--max-file-size", "10"))
    assert outcome.code == 0, outcome.told
    assert len(list(out.glob("*.tfrecord.gz"))) == 6
    assert "warning" in outcome.stderr.lower()


def test_the_manifest_tells_the_grid_the_shards_and_that_all_is_there(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    export(source, out / "set", masked_threshold=0.5, max_file_size=200, kernel_size=2, compressed=False)
    text = (out / "set-manifest.json").read_text(encoding="utf-8")
    manifest = json.loads(text)
    assert manifest["complete"] is True
    assert str(tmp_path) not in text
    shards = manifest["shards"]
    assert [shard["name"] for shard in shards] == sorted(path.name for path in out.glob("*.tfrecord"))
    for shard in shards:
        content = (out / shard["name"]).read_bytes()
        assert shard["bytes"] == len(content)
        assert shard["records"] == len(wire.unframe(content))
        assert f"{wire.crc32c(content):08x}" in json.dumps(shard) or wire.crc32c(content) in shard.values()
    assert sum(shard["records"] for shard in shards) == 5
    assert "scene.tif" in text
    keys = set(json.dumps(manifest).split('"'))
    for word in ("crs", "transform", "kernel", "margin", "rows", "columns", "bands", "sources", "compressor"):
        assert word in keys, f"the manifest has no {word!r}"


def test_bytes_do_not_depend_on_folder_zone_locale_or_hash_seed(source: Path, tmp_path: Path) -> None:
    seen = []
    for place, zone, seed in (("one", "UTC", "0"), ("zwei drei", "Pacific/Auckland", "77")):
        out = tmp_path / place
        out.mkdir()
        os.environ |= {"TZ": zone, "PYTHONHASHSEED": seed}
        try:
            outcome = run_apart("export", source, "--output", out / "set", "--patch-dimensions", "2", cwd=out)
        finally:
            del os.environ["TZ"], os.environ["PYTHONHASHSEED"]
        assert outcome.code == 0, outcome.told
        seen.append(contents(out))
    assert seen[0] == seen[1]


def test_overwriting_a_set_removes_the_surplus_shards_of_the_old(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    export(source, out / "set", max_file_size=50)
    assert len(list(out.glob("*.tfrecord.gz"))) == 6
    (out / "set-00009.txt").write_text("not of the set")
    export(source, out / "set", overwrite=True, max_file_size=200)
    (out / "set-00009.txt").unlink()
    assert_export(out, expected_export([source], Options(patch=(2, 2), max_file_size=200), name="set"))
    export(source, out / "set", overwrite=True)
    assert_export(out, expected_export([source], Options(patch=(2, 2)), name="set"))


def test_dry_run_prints_the_plan_and_writes_nothing(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    outcome = run("export", source, "--output", out / "set", "--patch-dimensions", "3", "--dry-run")
    assert outcome.code == 0, outcome.told
    assert "2" in outcome.stdout
    assert list(out.iterdir()) == []


def test_json_on_stdout_is_one_document_and_nothing_else(source: Path, tmp_path: Path) -> None:
    for more in (["--dry-run"], []):
        outcome = run(*("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--json", *more))
        assert outcome.code == 0, outcome.told
        assert isinstance(json.loads(outcome.stdout), dict)


def test_quiet_says_nothing_when_all_is_well(source: Path, tmp_path: Path) -> None:
    outcome = run("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet")
    assert (outcome.code, outcome.stderr) == (0, "")


def test_odd_names_work_on_the_command_line(source: Path, tmp_path: Path) -> None:
    for number, name in enumerate(["with space", "[brackets]", "ünïcode", "-dash", "new\nline", "n" * 200]):
        folder = tmp_path / f"{number} {name[:20]}"
        folder.mkdir()
        outcome = run("export", source, "--output", f"{folder}/{name}", "--patch-dimensions", "2", "--quiet")
        assert outcome.code == 0, (name, outcome.told)
        assert_export(folder, expected_export([source], Options(patch=(2, 2)), name=name))


def test_the_longest_name_that_fits_works_and_a_longer_one_is_refused_at_once(source: Path, tmp_path: Path) -> None:
    longest = "n" * (255 - len("-manifest.json"))
    outcome = run("export", source, "--output", tmp_path / longest, "--patch-dimensions", "2", "--quiet")
    assert outcome.code == 0, outcome.told
    before = contents(tmp_path)
    outcome = run("export", source, "--output", tmp_path / f"{longest}n", "--patch-dimensions", "2", "--quiet")
    assert_refused(outcome, {2, 14})
    assert contents(tmp_path) == before


def test_a_relative_prefix_that_starts_with_a_dash_works(source: Path, tmp_path: Path) -> None:
    outcome = run_apart("export", source, "--output=-set", "--patch-dimensions", "2", cwd=tmp_path)
    assert outcome.code == 0, outcome.told
    assert (tmp_path / "-set.tfrecord.gz").exists()


def test_format_options_take_earth_engines_spelling_as_text_or_file(source: Path, tmp_path: Path) -> None:
    options = {"patchDimensions": [2, 3], "kernelSize": [2, 2], "defaultValue": 5, "maxFileSize": 1e9}
    (tmp_path / "options.json").write_text(json.dumps(options))
    expected = expected_export([source], Options(patch=(2, 3), kernel=(2, 2), default_value=5), name="set")
    for number, given in enumerate([json.dumps(options), f"@{tmp_path}/options.json"]):
        folder = tmp_path / f"out{number}"
        folder.mkdir()
        outcome = run("export", source, "--output", folder / "set", "--format-options", given, "--quiet")
        assert outcome.code == 0, outcome.told
        assert_export(folder, expected)


@pytest.mark.parametrize("pair", ["2,3", "2x3"])
def test_pairs_are_x_then_y(source: Path, tmp_path: Path, pair: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    outcome = run("export", source, "--output", out / "set", "--patch-dimensions", pair, "--quiet")
    assert outcome.code == 0, outcome.told
    assert_export(out, expected_export([source], Options(patch=(2, 3)), name="set"))


@pytest.mark.parametrize(("size", "limit"), [("1KiB", 1024), ("1KB", 1000), ("1e3", 1000), ("1000", 1000)])
def test_sizes_take_units_and_exponents(tmp_path: Path, size: str, limit: int) -> None:
    # A record has 126 bytes: 1024 hold all eight of them, 1000 don't.
    source = write_raster(tmp_path / "scene.tif", np.arange(256, dtype="uint8").reshape(16, 16))
    out = tmp_path / "out"
    out.mkdir()
    outcome = run(
        *("export", source, "--output", out / "set", "--patch-dimensions", "4,6", "--quiet"),
        *("--max-file-size", size),
    )
    assert outcome.code == 0, outcome.told
    expected = expected_export([source], Options(patch=(4, 6), max_file_size=limit), name="set")
    assert len(expected.shards) == (1 if limit == 1024 else 2)
    assert_export(out, expected)


NAMES_OF_86_CHARACTERS = tuple(f"band_{number}_{'x' * (4 if number < 6 else 3)}" for number in range(8))
FILES_OF_SIX = [f"image_2021{number:05d}.tfrecord.gz" for number in range(6)]


def test_a_real_exports_log_tells_how_many_files_there_are(tmp_path: Path) -> None:
    # A real export: 252 patches of 8 float bands, maxFileSize 104857600 before compression.
    assert sum(map(len, NAMES_OF_86_CHARACTERS)) == 86
    profile = {"driver": "GTiff", "width": 256 * 12, "height": 256 * 21, "count": 8, "dtype": "float32"}
    place = {"crs": "EPSG:32618", "transform": rasterio.Affine(10, 0, 0, 0, -10, 0)}
    with rasterio.open(tmp_path / "s.tif", "w", **profile, **place, tiled=True, SPARSE_OK=True) as file:
        for number, name in enumerate(NAMES_OF_86_CHARACTERS):
            file.set_band_description(number + 1, name)
    plan = geotfr.plan_export(tmp_path / "s.tif", patch_dimensions=256, max_file_size=104857600)
    assert (plan.records, plan.record_bytes, plan.records_per_shard, plan.shard_count) == (252, 2_097_403, 49, 6)


@pytest.mark.parametrize("compressed", [True, False])
def test_a_small_export_of_as_many_patches_has_those_files(compressed: bool, tmp_path: Path) -> None:
    values = np.arange(8 * 42 * 24, dtype="float32").reshape(8, 42, 24)
    source = write_raster(tmp_path / "s.tif", values, descriptions=NAMES_OF_86_CHARACTERS)
    record = geotfr.plan_export(source, patch_dimensions=2).record_bytes
    # As there, 49.99 records fit.
    out = tmp_path / "out"
    out.mkdir()
    limit = 50 * record - 1
    export(source, out / "image_2021", naming="cloud-storage", max_file_size=limit, compressed=compressed)
    suffix = ".gz" if compressed else ""
    files = [name.removesuffix(".gz") + suffix for name in FILES_OF_SIX]
    assert sorted(contents(out)) == sorted([*files, "image_2021manifest.json", "image_2021mixer.json"])
    counts = [len(list(geotfr.read_records(out / name))) for name in files]
    assert counts == [49, 49, 49, 49, 49, 7]
