"""Outputs appear whole or not at all, and one writer at a time."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from geotfr.errors import LockedError, OutputError, OutputExistsError
from geotfr.records.crc import crc32c
from geotfr.storage import OutputSet, atomic_output, atomic_path
from geotfr.storage.lock import OutputLock, staging_stem
from geotfr.storage.output_set import set_output
from geotfr.storage.staged import StagedParts

HOLD = """
import sys
from pathlib import Path
from geotfr.storage.lock import OutputLock, staging_stem
from geotfr.storage.output_set import set_output
from geotfr.storage.staged import StagedParts
lock = OutputLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_has_its_name_only_when_the_block_ends_well(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    with atomic_output(target) as file:
        file.write(b"abc")
        assert not target.exists()
        file.write(memoryview(b"def"))
        assert (file.size, file.crc) == (6, crc32c(b"abcdef"))
    assert target.read_bytes() == b"abcdef"
    assert names(tmp_path) == ["out.bin"]


def test_a_block_that_raises_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")

    def write_half() -> None:
        with atomic_output(target, overwrite=True) as file:
            file.write(b"new")
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        write_half()
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["out.bin"]


def test_an_existing_file_is_refused_without_overwrite(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    with pytest.raises(OutputExistsError, match="--overwrite"), atomic_output(target):
        pytest.fail("the block must not run")
    with atomic_output(target, overwrite=True) as file:
        file.write(b"new")
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("name", ["x" * 255, "-rf", "a b[1]", "ünï", "line\nbreak", ".hidden"])
def test_odd_names_work(tmp_path: Path, name: str) -> None:
    with atomic_output(tmp_path / name) as file:
        file.write(b"1")
    assert names(tmp_path) == [name]


@pytest.mark.parametrize(
    ("target", "words"),
    [("missing/out.bin", "is missing"), ("x" * 256, "256 bytes"), ("", "is a folder"), ("file/out", "is missing")],
)
def test_a_name_that_cannot_be_written_is_refused_before_the_block(tmp_path: Path, target: str, words: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match=words), atomic_output(tmp_path / target, overwrite=True):
        pytest.fail("the block must not run")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("operation", ["write", "fsync", "close"])
def test_a_failed_operation_is_told_once_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, code: int
) -> None:
    target = tmp_path / "out.bin"
    real = getattr(os, operation)
    opened: list[int] = []
    real_open = os.open

    def recording_open(path: object, *args: object, **more: object) -> int:
        descriptor = real_open(path, *args, **more)  # type: ignore[arg-type]
        if str(path).endswith(".bin"):
            opened.append(descriptor)
        return descriptor

    def failing(descriptor: int, *args: object) -> object:
        if descriptor in opened:
            opened.remove(descriptor)
            if operation == "close":
                real(descriptor)
            raise OSError(code, os.strerror(code))
        return real(descriptor, *args)

    monkeypatch.setattr(os, "open", recording_open)
    monkeypatch.setattr(os, operation, failing)
    with pytest.raises(OutputError, match=r"out\.bin: can't be written") as told, atomic_output(target) as file:
        file.write(b"abc")
    assert os.strerror(code) in str(told.value)
    monkeypatch.undo()
    assert names(tmp_path) == []
    with atomic_output(target) as file:
        file.write(b"again")
    assert target.read_bytes() == b"again"


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data)[:3]))
    with atomic_output(tmp_path / "out.bin") as file:
        file.write(b"0123456789")
    monkeypatch.undo()
    assert (tmp_path / "out.bin").read_bytes() == b"0123456789"


def test_space_is_taken_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with OutputSet(tmp_path, name="set", belongs=lambda _: False, overwrite=False) as outputs:
        with pytest.raises(OutputError, match="free some space"):
            outputs.create(expected_bytes=10)
        assert not [name for name in names(tmp_path) if name.endswith(".tmp")]


def test_a_library_that_writes_by_name_gets_a_temporary_one_and_its_side_files_go(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "out.tif") as temporary:
        temporary.write_bytes(b"raster")
        temporary.with_name(f"{temporary.name}.aux.xml").write_bytes(b"side")
        assert temporary.suffix == ".tif"
    assert names(tmp_path) == ["out.tif"]


def test_a_set_appears_in_order_and_takes_the_old_ones_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("s-0", "s-1", "s-2", "s-mixer", "s-manifest", "other"):
        (tmp_path / name).write_text("old")
    steps: list[tuple[str, str]] = []
    real_replace, real_unlink = Path.replace, Path.unlink

    def replace(self: Path, target: Path) -> Path:
        steps.append(("name", target.name))
        return real_replace(self, target)

    def unlink(self: Path, missing_ok: bool = False) -> None:
        if self.name.startswith("s-"):
            steps.append(("remove", self.name))
        real_unlink(self, missing_ok)

    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr(Path, "unlink", unlink)
    with OutputSet(tmp_path, name="s", belongs=lambda name: name.startswith("s-"), overwrite=True) as outputs:
        files = []
        for name in ("s-0", "s-1", "s-mixer", "s-manifest"):
            file = outputs.create()
            file.write(name.encode())
            file.finish()
            files.append((name, file))
        assert steps == [], "the old set stays whole until the new one is"
        outputs.publish(files, incomplete_without=("s-manifest", "s-mixer"))
    assert steps == [
        ("remove", "s-manifest"),
        ("remove", "s-mixer"),
        ("name", "s-0"),
        ("name", "s-1"),
        ("name", "s-mixer"),
        ("remove", "s-2"),
        ("name", "s-manifest"),
    ]
    assert names(tmp_path) == ["other", "s-0", "s-1", "s-manifest", "s-mixer"]


def test_a_second_writer_of_an_output_stops_before_it_touches_anything(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockedError, match=f"process {holder.pid} on "), atomic_output(target, overwrite=True):
            pytest.fail("the block must not run")
        with atomic_output(tmp_path / "other.bin") as file:
            file.write(b"1")
        holder.stdin.close()
    assert target.read_bytes() == b"old"
    with atomic_output(target, overwrite=True) as file:
        file.write(b"new")
    assert names(tmp_path) == ["other.bin", "out.bin"]


def test_a_killed_writers_lock_is_free_and_its_temporary_files_go(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    code = HOLD.replace("sys.stdin.read()", "import os; from geotfr.storage import AtomicFile\n") + (
        "AtomicFile(Path(sys.argv[1])).write(b'half')\nos.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(target)], check=False, stdout=subprocess.DEVNULL)
    assert len(names(tmp_path)) == 2, "the lock's file and the temporary file are left"
    (tmp_path / ".geotfr-another-1.tmp").write_bytes(b"of another output")
    with atomic_output(target) as file:
        file.write(b"whole")
    assert names(tmp_path) == [".geotfr-another-1.tmp", "out.bin"]


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(tmp_path: Path) -> None:
    first = OutputLock(tmp_path / "out")
    first._path.unlink()
    second = OutputLock(tmp_path / "out")
    first.release()
    with pytest.raises(LockedError):
        OutputLock(tmp_path / "out")
    second.release()


def test_what_parts_of_a_set_left_goes_and_nothing_else(tmp_path: Path) -> None:
    stem = staging_stem(set_output(tmp_path, "scene"))
    left = [f"{stem}.task-1-of-2-journal", f"{stem}.task-2-of-2-00000.tmp"]
    kept = sorted([f"{stem}.part-1-of-2-journal", f"{stem}-journal", "scene.tfrecord"])
    for name in (*left, *kept):
        (tmp_path / name).touch()
    StagedParts(tmp_path, "scene").remove("task", journals=False)
    assert names(tmp_path) == sorted([*kept, left[0]])
    StagedParts(tmp_path, "scene").remove("task", journals=True)
    assert names(tmp_path) == kept
    StagedParts(tmp_path / "none", "scene").remove("task", journals=True)
    with pytest.raises(OutputError, match="none"):
        StagedParts(tmp_path / "none", "scene").find()
