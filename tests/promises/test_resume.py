"""A stopped export continues behind its last whole shard, and writes the files of one that nothing stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import NORTH_UP, write_raster
from oracle.run import assert_refused, contents, run

import geotfr
from geotfr.errors import OutputError, OutputExistsError, UsageError

GIVEN: dict[str, Any] = {"patch_dimensions": 8, "kernel_size": 4, "max_file_size": 4000}
KINDS: dict[str, dict[str, Any]] = {
    "float": {},
    "Earth Engine's gzip": {"compressor": "ee"},
    "plain": {"compressed": False},
    "native": {"feature_kinds": "native"},
    "threshold": {"masked_threshold": 0.1},
    "sequence": {"sequence_data": True, "max_file_size": 9000, "patch_dimensions": 16},
    "index": {"patch_index": "number"},
    "valid": {"valid_feature": "valid", "feature_kinds": "native"},
    "one record a shard": {"max_file_size": 10, "feature_kinds": "native", "patch_dimensions": 16},
}


class StopError(Exception):
    """Ends a run."""


class Stopper:
    """A progress function that raises when so many bytes are written."""

    def __init__(self, size: int) -> None:
        self.left = size

    def __call__(self, patches: int, size: int) -> None:
        """Count."""
        del patches
        self.left -= size
        if self.left < 0:
            raise StopError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """66 x 600 of two bands, a fifth of it masked: three strips."""
    noise = np.random.default_rng(5).integers(0, 60, (2, 600, 66)).astype("int16")
    noise[:, :, :12] = 0
    noise[:, 240:290] = 0
    return write_raster(tmp_path / "scene.tif", noise, nodata=0, tiled=True, blockxsize=16, blockysize=16)


def stop_after(size: int, source: Path, out: Path, **options: Any) -> None:
    with pytest.raises(StopError):
        geotfr.export_image(source, out / "set", resume=True, progress=Stopper(size), **{**GIVEN, **options})


@pytest.mark.parametrize(("kind", "workers"), [(kind, 1 + number % 2) for number, kind in enumerate(KINDS)])
def test_a_resumed_export_writes_the_files_and_tells_the_counts_of_an_unbroken_one(
    kind: str, workers: int, source: Path, tmp_path: Path
) -> None:
    options = {**GIVEN, **KINDS[kind]}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    told = [0]
    unbroken = geotfr.export_image(source, whole / "set", progress=lambda _, size: told.append(size), **options)
    # Each run goes on from where the one before it ended.
    for share in (0.3, 0.6, 0.9):
        stop_after(int(share * sum(told)), source, broken, **KINDS[kind], workers=workers)
        assert not [name for name in contents(broken) if not name.startswith(".")]
    resumed = geotfr.export_image(source, broken / "set", resume=True, workers=3 - workers, **options)
    assert contents(broken) == contents(whole)
    assert resumed.shards_resumed > len(resumed.shards) // 4
    assert resumed.patches_dropped == unbroken.patches_dropped
    assert resumed.masked_share == unbroken.masked_share
    assert resumed.warnings == unbroken.warnings


def test_a_resumed_export_may_have_less_memory(tmp_path: Path) -> None:
    wide = np.random.default_rng(1).normal(0, 1, (1, 70, 20000)).astype("float32")
    source = write_raster(tmp_path / "wide.tif", wide, tiled=True, blockxsize=16, blockysize=16)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    options: dict[str, Any] = {"patch_dimensions": 16, "kernel_size": 9, "max_file_size": 300_000, "workers": 1}
    geotfr.export_image(source, whole / "set", **options)
    with pytest.raises(StopError):
        geotfr.export_image(source, broken / "set", resume=True, progress=Stopper(4_000_000), **options)
    least = int(str(_least(source, options)))
    assert geotfr.plan_export(source, memory_limit=least, **options).strips.patch_columns < 1250
    resumed = geotfr.export_image(source, broken / "set", resume=True, memory_limit=least, **options)
    assert resumed.shards_resumed
    assert contents(broken) == contents(whole)


def _least(source: Path, options: dict[str, Any]) -> int:
    """The least memory limit that isn't refused, within 1 MiB."""
    refused, works = 0, geotfr.plan_export(source, **options).memory_bytes
    while works - refused > 2**20:
        middle = (refused + works) // 2
        try:
            geotfr.plan_export(source, memory_limit=middle, **options)
        except MemoryError:
            refused = middle
        else:
            works = middle
    return works


def test_a_run_that_does_not_resume_leaves_nothing_and_removes_what_was_left(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stop_after(20_000, source, out)
    assert contents(out)
    with pytest.raises(StopError):
        geotfr.export_image(source, out / "set", progress=Stopper(20_000), **GIVEN)
    assert contents(out) == {}
    result = geotfr.export_image(source, out / "set", resume=True, **GIVEN)
    assert result.shards_resumed == 0


@pytest.mark.parametrize("damage", ["byte", "cut", "gone", "link"])
def test_a_shard_that_was_damaged_meanwhile_is_written_again_with_those_behind_it(
    damage: str, source: Path, tmp_path: Path
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    whole.mkdir()
    out.mkdir()
    geotfr.export_image(source, whole / "set", **GIVEN)
    stop_after(40_000, source, out)
    staged = sorted(out.glob(".*.tmp"))
    assert len(staged) > 5
    content = staged[3].read_bytes()
    staged[3].unlink()
    if damage == "byte":
        staged[3].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "cut":
        staged[3].write_bytes(content[:-1])
    elif damage == "link":
        (tmp_path / "elsewhere").write_bytes(content)
        staged[3].symlink_to(tmp_path / "elsewhere")
    result = geotfr.export_image(source, out / "set", resume=True, **GIVEN)
    assert result.shards_resumed == 3
    assert contents(out) == contents(whole)


@pytest.mark.parametrize("tail", [b'{"bytes": 1, "crc', b'{"a": 1, "a": 2}\n', b"\xff\n", b"[1]\n"])
def test_a_line_that_was_written_half_is_no_line(tail: bytes, source: Path, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    whole.mkdir()
    out.mkdir()
    geotfr.export_image(source, whole / "set", **GIVEN)
    stop_after(40_000, source, out)
    (journal,) = out.glob(".*-journal")
    journal.write_bytes(journal.read_bytes() + tail)
    assert geotfr.export_image(source, out / "set", resume=True, **GIVEN).shards_resumed > 5
    assert contents(out) == contents(whole)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel_size": 6}, "options.kernel_size.0 was 4, is 6"),
        ({"compressed": False}, "options.compressed was True, is False"),
        ({"default_value": 7}, "options.default_value was 0, is 7"),
        ({"on_read_error": "mask"}, "on_read_error was 'error', is 'mask'"),
    ],
)
def test_other_options_are_refused_and_what_is_finished_stays(
    options: dict[str, Any], words: str, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stop_after(40_000, source, out)
    before = contents(out)
    with pytest.raises(UsageError, match="can't be resumed") as told:
        geotfr.export_image(source, out / "set", resume=True, **{**GIVEN, **options})
    assert words in str(told.value)
    assert contents(out) == before


def touch(path: Path, nanoseconds: int = 1) -> None:
    """Another time of change, and the same content."""
    facts = path.stat()
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + nanoseconds))


def change(path: Path) -> None:
    """Another content, and the same size and time of change."""
    facts = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def test_resume_takes_sources_by_their_digest_whenever_they_were_changed(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stop_after(40_000, source, out)
    before = contents(out)
    change(source)
    with pytest.raises(UsageError, match=r"sources\.0\.crc32c was '[0-9a-f]{8}', is '[0-9a-f]{8}'; repeat"):
        geotfr.export_image(source, out / "set", resume=True, **GIVEN)
    assert contents(out) == before
    change(source)
    touch(source)
    assert geotfr.export_image(source, out / "set", resume=True, **GIVEN).shards_resumed


def test_fast_resume_takes_sources_by_size_and_time_without_reading_them(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stop_after(40_000, source, out)
    with monkeypatch.context() as patch:
        patch.setattr("geotfr.pipeline.export.identity.file_crc32c", lambda _: pytest.fail("a source was read whole"))
        touch(source)
        with pytest.raises(UsageError, match=r"the stopped run can't be resumed: sources\.0\.modified_ns was \d+, is"):
            geotfr.export_image(source, out / "set", fast_resume=True, **GIVEN)
        touch(source, -1)
        # Stopped again, the digest that was noted is kept.
        with pytest.raises(StopError):
            geotfr.export_image(source, out / "set", fast_resume=True, progress=Stopper(60_000), **GIVEN)
    touch(source)
    assert geotfr.export_image(source, out / "set", resume=True, **GIVEN).shards_resumed


def test_a_run_that_was_not_asked_to_resume_notes_times_only(source: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    out.mkdir()
    whole.mkdir()
    geotfr.export_image(source, whole / "set", **GIVEN)
    with pytest.raises(StopError):
        geotfr.export_image(source, out / "set", fast_resume=True, progress=Stopper(40_000), **GIVEN)
    touch(source)
    with pytest.raises(UsageError, match=r"can't be resumed: sources\.0\.modified_ns was \d+, is \d+; repeat"):
        geotfr.export_image(source, out / "set", resume=True, **GIVEN)
    touch(source, -1)
    assert geotfr.export_image(source, out / "set", resume=True, **GIVEN).shards_resumed
    assert contents(out) == contents(whole)


def test_a_source_that_is_gone_and_another_version_are_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stop_after(40_000, source, out)
    with monkeypatch.context() as patch:
        patch.setattr("geotfr.pipeline.export.run.__version__", "0.0.1")
        with pytest.raises(UsageError, match=r"geotfr was '.*', is '0\.0\.1'"):
            geotfr.export_image(source, out / "set", resume=True, **GIVEN)
    other = source.rename(tmp_path / "other.tif")
    with pytest.raises(UsageError, match=r"sources\.0\.name was 'scene\.tif', is 'other\.tif'"):
        geotfr.export_image(other, out / "set", resume=True, **GIVEN)
    assert geotfr.export_image(other.rename(source), out / "set", resume=True, **GIVEN).shards_resumed


def test_a_whole_set_is_not_resumed(source: Path, tmp_path: Path) -> None:
    geotfr.export_image(source, tmp_path / "set", **GIVEN)
    with pytest.raises(OutputExistsError, match="there is nothing to resume"):
        geotfr.export_image(source, tmp_path / "set", resume=True, **GIVEN)


def test_sources_in_memory_are_not_resumed(tmp_path: Path) -> None:
    pixels = np.zeros((20, 20), np.float32)
    with pytest.raises(UsageError, match="in memory"):
        geotfr.export_image((pixels, NORTH_UP, "EPSG:32618"), tmp_path / "set", resume=True, **GIVEN)


def test_the_command_line_resumes(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stop_after(40_000, source, out)
    words = ("--patch-dimensions", "8", "--kernel-size", "4", "--resume", "--json", "--quiet")
    assert_refused(
        run("export", source, "-o", out / "set", "--max-file-size", "4001", *words), 2, "max_file_size", "--resume"
    )
    done = run("export", source, "-o", out / "set", "--max-file-size", "4000", *words)
    assert done.code == 0
    assert '"shards_resumed": 0' not in done.stdout


def test_the_command_line_resumes_fast(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stop_after(40_000, source, out)
    words = ("export", source, "-o", out / "set", "--patch-dimensions", "8", "--kernel-size", "4")
    done = run(*words, "--max-file-size", "4000", "--fast-resume", "--json", "--quiet")
    assert done.code == 0
    assert '"shards_resumed": 0' not in done.stdout


def test_what_cannot_fit_is_refused_before_any_work(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 50_000})())
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(OutputError, match=r"at least [\d,]+ bytes; 50,000 are free"):
        geotfr.export_image(source, out / "set", compressed=False, **GIVEN)
    assert contents(out) == {}
    # How far it compresses isn't known before: the disk tells.
    geotfr.export_image(source, out / "set", **GIVEN)
