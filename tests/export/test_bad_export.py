"""Bad input to an export: one line, the right exit code, and nothing left at a final name."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import numpy as np
import pytest
import rasterio
from oracle.rasters import SOUTH_UP, numbered, write_raster
from oracle.run import Outcome, assert_refused, contents, run, run_apart

import geotfr


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """8 x 8 of uint16."""
    return write_raster(tmp_path / "scene.tif", numbered(1, 8, 8, "uint16"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An empty folder for what must stay empty."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def export(source: Path | str, out: Path, *more: str, patch: str | None = "2") -> Outcome:
    given = ("--patch-dimensions", patch) if patch else ()
    return run("export", source, "--output", out / "set", "--quiet", *given, *more)


def test_a_missing_file_is_exit_10(tmp_path: Path, out: Path) -> None:
    assert_refused(export(tmp_path / "none.tif", out), 10, "none.tif")
    assert not list(out.iterdir())


NOT_RASTERS = {
    "text": b"just some text\n",
    "html": b"<!DOCTYPE html><html><body>404</body></html>",
    "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n",
    "empty": b"",
    "tiff magic only": b"II*\x00",
    "zeros": bytes(1000),
    "vrt": b'<VRTDataset rasterXSize="1" rasterYSize="1"></VRTDataset>',
}


@pytest.mark.parametrize("kind", NOT_RASTERS)
def test_a_file_that_is_no_raster_is_exit_10(kind: str, tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.tif"
    path.write_bytes(NOT_RASTERS[kind])
    assert_refused(export(path, out), {10, 12} if kind == "tiff magic only" else 10, "x.tif")
    assert not list(out.iterdir())


def test_a_folder_is_no_raster(tmp_path: Path, out: Path) -> None:
    assert_refused(export(tmp_path, out), 10)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_bands_are_exit_10_with_a_hint(dtype: str, tmp_path: Path, out: Path) -> None:
    path = write_raster(tmp_path / "waves.tif", np.ones((4, 4), dtype))
    assert_refused(export(path, out), 10, "waves.tif", "complex")
    assert not list(out.iterdir())


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("patchDimension", "patchDimensions"),
        ("kernalSize", "kernelSize"),
        ("maxfilesize", "maxFileSize"),
        ("masked_treshold", "maskedThreshold"),
    ],
)
def test_an_unknown_option_key_names_the_nearest(key: str, nearest: str, source: Path, out: Path) -> None:
    given = json.dumps({key: 2})
    assert_refused(export(source, out, "--format-options", given), 2, key, nearest)
    assert not list(out.iterdir())


def test_a_key_in_both_spellings_is_a_usage_error(source: Path, out: Path) -> None:
    given = '{"kernelSize": [2, 2], "kernel_size": [2, 2]}'
    assert_refused(export(source, out, "--format-options", given), 2, "kernelSize", "kernel_size")


def test_a_key_twice_in_the_text_is_a_usage_error(source: Path, out: Path) -> None:
    given = '{"kernelSize": [2, 2], "kernelSize": [4, 4]}'
    assert_refused(export(source, out, "--format-options", given), 2, "kernelSize")


def test_a_key_given_again_as_a_flag_is_a_usage_error(source: Path, out: Path) -> None:
    given = '{"patchDimensions": [2, 2]}'
    assert_refused(export(source, out, "--format-options", given), 2, "patchDimensions", "--patch-dimensions")


def test_the_python_interface_refuses_a_key_given_twice(source: Path, out: Path) -> None:
    with pytest.raises(ValueError, match=r"patchDimensions|patch_dimensions"):
        geotfr.export_image(source, out / "set", patch_dimensions=2, format_options={"patchDimensions": 2})
    with pytest.raises(ValueError, match=r"kernelSize|kernel_size"):
        geotfr.export_image(
            source,
            out / "set",
            patch_dimensions=2,
            format_options={"kernelSize": 2, "kernel_size": 2},
        )


@pytest.mark.parametrize("text", ["{", "[1, 2]", '{"maskedThreshold": NaN}', "nonsense", '"text"', "@none.json"])
def test_format_options_that_are_no_object_are_a_usage_error(text: str, source: Path, out: Path) -> None:
    assert_refused(export(source, out, "--format-options", text), {2, 10} if text[0] == "@" else 2)
    assert not list(out.iterdir())


@pytest.mark.parametrize(
    "options",
    [
        {"patchDimensions": 0},
        {"patchDimensions": [2, -1]},
        {"patchDimensions": [2, 2, 2]},
        {"patchDimensions": []},
        {"patchDimensions": 2.5},
        {"patchDimensions": "two"},
        {"patchDimensions": None},
        {"patchDimensions": True},
        {"patchDimensions": 2, "kernelSize": -1},
        {"patchDimensions": 2, "kernelSize": [1, 1, 1]},
        {"patchDimensions": 2, "maskedThreshold": 1.5},
        {"patchDimensions": 2, "maskedThreshold": -0.1},
        {"patchDimensions": 2, "maxFileSize": 0},
        {"patchDimensions": 2, "maxFileSize": 1000.5},
        {"patchDimensions": 2, "compressed": "yes"},
        {"patchDimensions": 2, "defaultValue": "nothing"},
        {},
    ],
    ids=json.dumps,
)
def test_an_option_value_without_meaning_is_a_usage_error(options: dict[str, object], source: Path, out: Path) -> None:
    outcome = export(source, out, "--format-options", json.dumps(options), patch=None)
    assert_refused(outcome, 2)
    # Named in Earth Engine's spelling or in Python's.
    named = outcome.stderr.replace("_", "").replace("-", "").lower()
    assert [*options, "patchDimensions"][-1 if len(options) < 2 else 1].lower() in named, outcome.stderr
    assert not list(out.iterdir())


@pytest.mark.parametrize(
    "more",
    [
        ("--bands", "9"),
        ("--bands", "0"),
        ("--bands", "nosuch"),
        ("--bands", ""),
        ("--no-compressed", "--compressor", "ee"),
        ("--workers", "0"),
        ("--memory-limit", "some"),
        ("--naming", "gdrive"),
        ("--compressor", "zip"),
        ("--max-file-size", "-1"),
        ("--nodata", "text"),
        ("--no-such-option",),
    ],
    ids=" ".join,
)
def test_a_flag_without_meaning_is_a_usage_error(more: tuple[str, ...], source: Path, out: Path) -> None:
    outcome = export(source, out, *more)
    assert outcome.code == 2, outcome.told
    assert outcome.stderr.strip()
    assert "Traceback" not in outcome.told
    assert not list(out.iterdir())


def test_no_source_and_no_output_are_usage_errors(source: Path) -> None:
    assert run("export", "--output", "x", "--patch-dimensions", "2").code == 2
    assert run("export", source, "--patch-dimensions", "2").code == 2
    assert run("export").code == 2
    assert run("no-such-command").code == 2


def test_sources_that_do_not_meet_are_refused(source: Path, tmp_path: Path, out: Path) -> None:
    far = write_raster(
        tmp_path / "far.tif", np.ones((8, 8), "uint8"), transform=rasterio.Affine(10, 0, 9e5, 0, -10, 1e6)
    )
    outcome = run("export", source, far, "--output", out / "set", "--patch-dimensions", "2", "--quiet")
    assert_refused(outcome, 10, "far.tif")
    assert not list(out.iterdir())


def test_an_existing_output_is_refused_without_overwrite(source: Path, out: Path) -> None:
    assert export(source, out).code == 0
    before = contents(out)
    assert_refused(export(source, out), 14, "--overwrite")
    assert contents(out) == before
    assert export(source, out, "--overwrite").code == 0
    assert contents(out) == before


@pytest.mark.parametrize("name", ["set.tfrecord.gz", "set-manifest.json", "set.json"])
def test_any_existing_file_of_the_set_is_enough_to_refuse(name: str, source: Path, out: Path) -> None:
    (out / name).write_bytes(b"mine")
    assert_refused(export(source, out), 14, name)
    assert contents(out) == {name: b"mine"}


def test_another_set_in_the_folder_is_left_alone(source: Path, out: Path) -> None:
    (out / "settle-00000.tfrecord.gz").write_bytes(b"mine")
    (out / "set-other-00000.tfrecord.gz").write_bytes(b"mine")
    assert export(source, out, "--overwrite").code == 0
    assert (out / "settle-00000.tfrecord.gz").read_bytes() == b"mine"
    assert (out / "set-other-00000.tfrecord.gz").read_bytes() == b"mine"


def test_a_missing_folder_is_exit_14_and_is_not_made(source: Path, tmp_path: Path) -> None:
    for prefix in (tmp_path / "none" / "set", f"{tmp_path}/none/deeper/"):
        outcome = run("export", source, "--output", prefix, "--patch-dimensions", "2", "--quiet")
        assert_refused(outcome, 14, "none")
    assert not (tmp_path / "none").exists()


def test_a_file_where_a_folder_belongs_is_exit_14(source: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    outcome = run("export", source, "--output", tmp_path / "plain" / "set", "--patch-dimensions", "2", "--quiet")
    assert_refused(outcome, 14, "plain")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_exit_14(source: Path, out: Path) -> None:
    out.chmod(0o500)
    try:
        assert_refused(export(source, out), 14, "out")
        assert not list(out.iterdir())
    finally:
        out.chmod(0o700)


def _truncated(path: Path) -> Path:
    random = np.random.default_rng(1)
    write_raster(path, random.integers(0, 60000, (3, 256, 256), "uint16"), compress="deflate", tiled=True)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return path


@pytest.mark.parametrize("workers", ["1", "2"])
def test_case_50_a_truncated_source_is_exit_12_and_leaves_no_mixer(workers: str, tmp_path: Path, out: Path) -> None:
    path = _truncated(tmp_path / "cut.tif")
    outcome = export(path, out, "--workers", workers, "--max-file-size", "200000", patch="64")
    assert_refused(outcome, 12, "cut.tif", "band")
    left = sorted(entry.name for entry in out.iterdir())
    assert not [name for name in left if name.endswith(".json") or "tfrecord.gz" not in name], left


def _limit_file_size() -> None:
    import signal

    # The kernel's default answer to a file that grows too large is to kill the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def test_case_51_a_file_size_limit_is_exit_14_and_leaves_nothing(tmp_path: Path, out: Path) -> None:
    source = write_raster(tmp_path / "noise.tif", np.random.default_rng(0).random((1, 256, 256)))
    outcome = run_apart(
        *("export", source, "--output", out / "set", "--patch-dimensions", "64", "--quiet", "--no-compressed"),
        preexec=_limit_file_size,
    )
    assert_refused(outcome, 14, f"{out}/set.tfrecord: can't be written")
    assert not list(out.iterdir())


def test_a_file_that_can_not_be_written_is_told_by_its_name(tmp_path: Path, out: Path) -> None:
    values = np.zeros((1, 256, 256))
    values[0, 64:] = np.random.default_rng(0).random((192, 256))
    source = write_raster(tmp_path / "noise.tif", values)
    outcome = run_apart(
        *("export", source, "--output", out / "set", "--patch-dimensions", "64", "--quiet", "--max-file-size", "66000"),
        preexec=_limit_file_size,
    )
    # A shard takes four patches; the first row of them is zeros.
    assert_refused(outcome, 14, f"{out}/set-00001.tfrecord.gz: can't be written")
    assert not list(out.iterdir())


def test_case_52_a_record_above_2_gib_is_refused_before_reading(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "wide.tif"
    with rasterio.open(
        *(path, "w"),
        driver="GTiff",
        width=24000,
        height=24000,
        count=1,
        dtype="uint8",
        tiled=True,
        sparse_ok=True,
        transform=SOUTH_UP,
        crs="EPSG:4326",
    ):
        pass
    for more in ((), ("--dry-run",)):
        assert_refused(export(path, out, *more, "--memory-limit", "100GiB", patch="24000"), 13, "2,147,483,647")
    assert not list(out.iterdir())


@pytest.mark.parametrize(("patch", "kernel", "code"), [("100000", "1", 2), ("2147483647", "1", 2), ("2", "100000", 13)])
def test_absurd_sizes_are_refused_before_anything_is_allocated(
    patch: str, kernel: str, code: int, source: Path, out: Path
) -> None:
    assert_refused(export(source, out, "--kernel-size", kernel, patch=patch), code)
    assert not list(out.iterdir())


def test_case_52_a_very_large_record_is_warned_about_in_the_plan(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "wide.tif"
    with rasterio.open(
        *(path, "w"),
        driver="GTiff",
        width=4096,
        height=4096,
        count=10,
        dtype="uint8",
        tiled=True,
        sparse_ok=True,
        transform=SOUTH_UP,
        crs="EPSG:4326",
    ):
        pass
    outcome = run(
        *("export", path, "--output", out / "set", "--patch-dimensions", "4096", "--dry-run"),
        *("--memory-limit", "100GiB"),
    )
    assert outcome.code == 0, outcome.told
    assert "warning" in outcome.stderr.lower()


def test_a_memory_limit_too_small_for_the_plan_is_refused_before_reading(source: Path, out: Path) -> None:
    assert_refused(export(source, out, "--memory-limit", "1KiB"), 13, "--memory-limit")
    assert not list(out.iterdir())


def test_the_python_errors_are_the_built_in_ones_too(tmp_path: Path, source: Path, out: Path) -> None:
    with pytest.raises(FileNotFoundError):
        geotfr.export_image(tmp_path / "none.tif", out / "set", patch_dimensions=2)
    with pytest.raises(ValueError, match="0 patches"):
        geotfr.export_image(source, out / "set", patch_dimensions=100)
    with pytest.raises(OSError, match="none"):
        geotfr.export_image(source, tmp_path / "none" / "set", patch_dimensions=2)
    geotfr.export_image(source, out / "set", patch_dimensions=2)
    with pytest.raises(FileExistsError):
        geotfr.export_image(source, out / "set", patch_dimensions=2)


def test_inputs_are_never_changed(source: Path, tmp_path: Path, out: Path) -> None:
    before = source.read_bytes(), source.stat().st_mtime_ns
    export(source, out)
    assert (source.read_bytes(), source.stat().st_mtime_ns) == before
    assert {path.name for path in tmp_path.iterdir()} == {"scene.tif", "out"}


def test_an_export_over_its_own_source_is_refused(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "set.tfrecord.gz", numbered(1, 4, 4))
    before = path.read_bytes()
    outcome = run(*("export", path, "--output", tmp_path / "set", "--patch-dimensions", "2", "--overwrite", "--quiet"))
    assert outcome.code != 0
    assert path.read_bytes() == before


def test_no_traceback_without_debug_and_one_with_it(tmp_path: Path, out: Path) -> None:
    plain = export(tmp_path / "none.tif", out)
    assert "Traceback" not in plain.told
    debug = export(tmp_path / "none.tif", out, "--debug")
    assert debug.code == plain.code == 10
    assert "Traceback" in debug.stderr


def test_a_refusal_in_a_process_of_its_own_is_one_line_with_its_code(tmp_path: Path) -> None:
    outcome = run_apart("export", tmp_path / "none.tif", "--output", tmp_path / "set", "--patch-dimensions", "2")
    assert_refused(outcome, 10, "none.tif")
