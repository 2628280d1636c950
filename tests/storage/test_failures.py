"""Each operation of each way to write, failing once: told as one error of the output, and a later run works."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import geotfr.storage.lock
from geotfr.errors import GeotfrError, OutputError
from geotfr.mixer.mixer import mixer_from_text
from geotfr.storage.atomic import AtomicFile, atomic_output, atomic_path, is_whole, sync_folder
from geotfr.storage.lock import OutputLock
from geotfr.storage.mixer_file import write_mixer
from geotfr.storage.output_set import OutputSet
from geotfr.storage.space import check_space

OPERATIONS = ("open", "write", "fsync", "fstat", "close", "replace", "unlink", "mkdir", "posix_fallocate", "ftruncate")
ERRORS = (errno.EIO, errno.EINVAL)


def one(folder: Path) -> None:
    with atomic_output(folder / "out", overwrite=True) as file:
        file.write(b"abc")


def by_name(folder: Path) -> None:
    with atomic_path(folder / "out", overwrite=True) as path:
        # The library's own writes aren't under test.
        _REAL_WRITE(path, b"abc")


def a_set(folder: Path) -> None:
    with OutputSet(
        folder / "made",
        name="",
        belongs=lambda name: not name.startswith("."),
        overwrite=True,
        make_folder=True,
        resume=True,
    ) as outputs:
        found = outputs.begin({"what": 1})
        files = [file for file, _ in found]
        for number in range(len(files), 2):
            file = outputs.create(expected_bytes=4)
            file.write(bytes([number]) * 4)
            file.finish()
            outputs.finished(file, {"number": number})
            files.append(file)
        outputs.publish([(f"{number}", file) for number, file in enumerate(files)], incomplete_without=["1"])


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


_REAL_WRITE = _write_bytes
WAYS: dict[str, Callable[[Path], None]] = {"one file": one, "a library's file": by_name, "a set": a_set}


def shown(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Failing:
    """Lets the operation number ``point`` of this process fail with ``code``; counts them."""

    def __init__(self, patch: pytest.MonkeyPatch, point: int, code: int) -> None:
        self.count = 0
        for name in OPERATIONS:
            if hasattr(os, name):
                patch.setattr(os, name, self._hook(name, getattr(os, name), point, code))

    def _hook(self, name: str, real: Callable[..., Any], point: int, code: int) -> Callable[..., Any]:
        def operation(*args: Any, **more: Any) -> Any:
            self.count += 1
            if self.count == point:
                if name == "close":
                    real(*args)
                raise OSError(code, os.strerror(code))
            return real(*args, **more)

        return operation


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("code", ERRORS)
@pytest.mark.parametrize("way", WAYS)
def test_each_operation_fails_once_and_the_next_run_works(
    way: str, code: int, is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    WAYS[way](whole)
    point, is_reached = 0, True
    while is_reached:
        point += 1
        folder = tmp_path / f"at-{point}"
        folder.mkdir()
        if is_there:
            WAYS[way](folder)
        with monkeypatch.context() as patch:
            failing = Failing(patch, point, code)
            try:
                WAYS[way](folder)
            except GeotfrError as error:
                told: str | None = str(error)
            else:
                told = None
        is_reached = failing.count >= point
        assert told is None or str(folder) in told
        if told is None:
            assert {name: content for name, content in shown(folder).items() if "/.geotfr-" not in f"/{name}"} == shown(
                whole
            )
        WAYS[way](folder)
        assert shown(folder) == shown(whole)
    assert point > 10


def test_a_file_that_is_shorter_on_disk_than_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = AtomicFile(tmp_path / "out")
    file.write(b"abc")
    os.truncate(next(tmp_path.iterdir()), 1)
    with pytest.raises(OutputError, match="1 bytes are on disk, 3 were written; run again"):
        file.finish()
    file.discard()
    assert not list(tmp_path.iterdir())


def test_a_system_without_reservation_writes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    file = AtomicFile(tmp_path / "out", expected_bytes=3)
    file.write(b"abc")
    file.finish()
    file.publish()
    file.discard()
    assert (tmp_path / "out").read_bytes() == b"abc"


def test_a_file_system_without_locks_is_written_unlocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(geotfr.storage.lock.fcntl, "flock", unsupported)
    with OutputLock(tmp_path / "out"):
        one(tmp_path)
    monkeypatch.setattr(geotfr.storage.lock, "fcntl", None)
    one(tmp_path)
    assert shown(tmp_path) == {"out": b"abc"}


def test_a_lock_that_cannot_be_taken_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(geotfr.storage.lock.fcntl, "flock", broken)
    with pytest.raises(OutputError, match="out: can't be written: Input/output error"):
        one(tmp_path)


def test_what_a_killed_writer_left_goes_folders_too(tmp_path: Path) -> None:
    stem = geotfr.storage.lock.staging_stem(tmp_path / "out")
    (tmp_path / f"{stem}-1.tmp").mkdir()
    (tmp_path / f"{stem}-1.tmp" / "base.tif").write_bytes(b"x")
    (tmp_path / f"{stem}-2.tmp").write_bytes(b"x")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"{stem}-3.tmp").symlink_to(tmp_path / "elsewhere")
    (tmp_path / ".geotfr-other-1.tmp").mkdir()
    one(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".geotfr-other-1.tmp", "elsewhere", "out"]


def test_whole_means_the_size_and_the_digest_of_a_file_that_is_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"123456789")
    assert is_whole(path, size=9, crc=0xE3069283)
    assert not is_whole(path, size=9, crc=0)
    assert not is_whole(path, size=8, crc=0xE3069283)
    assert not is_whole(tmp_path / "none", size=9, crc=0xE3069283)
    (tmp_path / "link").symlink_to(path)
    assert not is_whole(tmp_path / "link", size=9, crc=0xE3069283)

    def broken(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "read", broken)
    assert not is_whole(path, size=9, crc=0xE3069283)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP])
def test_a_folder_that_cannot_be_synced_is_left_to_its_file_system(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", unsupported)
    sync_folder(tmp_path)


def test_space_is_looked_for_in_the_folder(tmp_path: Path) -> None:
    check_space(tmp_path, 1, what="this")
    with pytest.raises(OutputError, match=r"this takes at least [\d,]+ bytes; [\d,]+ are free there"):
        check_space(tmp_path, 1 << 62, what="this")
    with pytest.raises(OutputError, match="none: can't be written: No such file"):
        check_space(tmp_path / "none", 1, what="this")


def test_a_mixer_is_written_as_earth_engine_writes_it(tmp_path: Path) -> None:
    text = (
        '{"projection": {"crs": "EPSG:32618", "affine": {"doubleMatrix": [10.0, 0.0, 0.0, 0.0, -10.0, 0.0]}},'
        ' "patchDimensions": [4, 2], "patchesPerRow": 2, "totalPatches": 4}'
    )
    write_mixer(tmp_path / "m.json", mixer_from_text(text))
    assert mixer_from_text((tmp_path / "m.json").read_text()) == mixer_from_text(text)
    with pytest.raises(OutputError, match="--overwrite"):
        write_mixer(tmp_path / "m.json", mixer_from_text(text))
