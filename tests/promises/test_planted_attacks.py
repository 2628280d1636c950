"""Files of geotfr's own names that others have planted: locks, journals, indices, staged files, parts, tables."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.sets import write_set
from promises.attacks import Target, attack, attacks_of, documented_attacks, export, needs_inotify, run_attack

import geotfr
from geotfr.records.index import read_index

pytestmark = needs_inotify

STEM = f".geotfr-{hashlib.blake2b(b'set', digest_size=6).hexdigest()}"
NAMES = ("set.tfrecord.gz", "set.json", "set-manifest.json", "set-patches.parquet", "set-coco.json", "set-stac.json")

Plant = Callable[[Target, Path], None]


def link(target: Target, path: Path) -> None:
    path.symlink_to(target.canary)


def dangling_link(target: Target, path: Path) -> None:
    path.symlink_to(target.folder / "made")


def pipe(_: Target, path: Path) -> None:
    os.mkfifo(path)


def device(_: Target, path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(_: Target, path: Path) -> None:
    path.mkdir()


def text(content: str) -> Plant:
    def plant(_: Target, path: Path) -> None:
        path.write_text(content)

    return plant


KINDS: dict[str, Plant] = {
    "a link": link,
    "a link to nothing": dangling_link,
    "a pipe": pipe,
    "a device": device,
    "a folder": folder,
}


def _plant(name: str, plant: Plant, words: Callable[[Target], list[Any]]) -> Callable[[Target], list[Any]]:
    def made(target: Target) -> list[Any]:
        (target.folder / "out").mkdir(exist_ok=True)
        plant(target, target.folder / "out" / name)
        return words(target)

    return made


def exported(*more: Any) -> Callable[[Target], list[Any]]:
    return lambda target: export(target.raster(), *more)


for _kind, _make in KINDS.items():
    attack(f"a lock that is {_kind}")(_plant(f"{STEM}.lock", _make, exported()))
    attack(f"a journal that is {_kind}")(_plant(f"{STEM}-journal", _make, exported("--resume")))
    attack(f"a journal's next state that is {_kind}")(_plant(f"{STEM}-journal.new", _make, exported("--resume")))
    attack(f"a staged file that is {_kind}")(_plant(f"{STEM}-00000.tmp", _make, exported()))
    attack(f"a staged file that is {_kind}, resumed")(_plant(f"{STEM}-00000.tmp", _make, exported("--resume")))
    attack(f"a part's lock that is {_kind}")(_plant(f"{STEM}.part-0-of-2.lock", _make, exported("--split", "0/2")))
    attack(f"a part's journal that is {_kind}")(
        _plant(f"{STEM}.part-0-of-1-journal", _make, lambda _: ["finalize", "-o", "out/set"])
    )
    for _name in NAMES:
        # Whether a file is the set's own is told by its beginning, through a link too.
        if _kind not in ("a folder", "a link"):
            attack(f"{_name} that is {_kind}, overwritten")(_plant(_name, _make, exported("--overwrite")))

_FILE = {"bytes": 1, "crc32c": "00000000", "facts": {}}
LINES: dict[str, str] = {
    "no JSON": "{}\nno JSON\n",
    "no object": "[]\n",
    "100,000 brackets": "{}\n" + "[" * 100_000 + "\n",
    "NaN": '{}\n{"bytes": NaN, "crc32c": "00000000", "facts": {}}\n',
    "a number of 10,000 digits": '{}\n{"bytes": ' + "9" * 10_000 + ', "crc32c": "00000000", "facts": {}}\n',
    "negative bytes": "{}\n" + json.dumps({**_FILE, "bytes": -1}) + "\n",
    "a checksum as a path": "{}\n" + json.dumps({**_FILE, "crc32c": "../../../x"}) + "\n",
    "facts as a list": "{}\n" + json.dumps({**_FILE, "facts": [1]}) + "\n",
    "names that climb": '{}\n{"publish": ["../x.tif"], "incomplete_without": ["../x.tif", "/etc/hostname"]}\n',
    "names as a number": '{}\n{"publish": 5, "incomplete_without": {}}\n',
    "the whole as a text": '{}\n{"whole": "yes"}\n',
    "a key twice": '{}\n{"whole": {}, "whole": {}}\n',
}
for _name, _text in LINES.items():
    attack(f"a journal that holds {_name}")(_plant(f"{STEM}-journal", text(_text), exported("--resume")))
    attack(f"a part's journal that holds {_name}")(
        _plant(f"{STEM}.part-0-of-1-journal", text(_text), lambda _: ["finalize", "-o", "out/set"])
    )
attack("one part of a thousand million")(
    _plant(f"{STEM}.part-0-of-999999999-journal", text("{}\n"), lambda _: ["finalize", "-o", "out/set"])
)


@attack("a leftover folder that is a link")
def _leftover(target: Target) -> list[Any]:
    out, others = target.folder / "out", target.folder / "others"
    out.mkdir()
    others.mkdir()
    (others / "kept.txt").write_text("kept")
    (out / f"{STEM}-abcdef.tmp").symlink_to(others)
    return export(target.raster())


@attack("a lock that is a second name of another file")
def _hard(target: Target) -> list[Any]:
    (target.folder / "out").mkdir()
    os.link(target.file("notes.txt", "mine"), target.folder / "out" / f"{STEM}.lock")
    return export(target.raster())


# A part that was staged here, and then changed.
def _part(change: Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object]) -> Callable[[Target], list[Any]]:
    def made(target: Target) -> list[Any]:
        out = target.folder / "out"
        out.mkdir()
        geotfr.export_part(target.raster(), out / "set", split=(0, 1), patch_dimensions=8)
        journal = out / f"{STEM}.part-0-of-1-journal"
        head, file, *_, whole = (json.loads(line) for line in journal.read_text().splitlines())
        change(head, file, whole)
        journal.write_text("".join(json.dumps(line) + "\n" for line in (head, file, whole)))
        return ["finalize", "-o", "out/set"]

    return made


PARTS: dict[str, Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object]] = {
    "no manifest": lambda head, _, __: head.pop("manifest"),
    "a manifest as a text": lambda head, _, __: head.update(manifest="x"),
    "a compressor that isn't known": lambda head, _, __: head["options"].update(compressor="../x"),
    "a naming that isn't known": lambda head, _, __: head["options"].update(naming="/"),
    "a limit as a text": lambda head, _, __: head["options"].update(max_file_size="x"),
    "sources as a number": lambda head, _, __: head.update(sources=3),
    "a table as a list": lambda head, _, __: head.update(table=[1]),
    "a block of one side": lambda head, _, __: head.update(block_shape=[1]),
    "facts without records": lambda _, file, __: file["facts"].pop("records"),
    "chunks of two numbers": lambda _, file, __: file["facts"].update(chunks=[[1, 2]]),
    "chunks beyond the file": lambda _, file, __: file["facts"].update(chunks=[[16, 5024, 10**9]]),
    "another checksum": lambda _, file, __: file.update(crc32c="00000000"),
    "more bytes than there are": lambda _, file, __: file.update(bytes=10**12),
    "counts as a list": lambda _, __, whole: whole["whole"].update(counts=[1, 2]),
    "dropped patches as texts": lambda _, __, whole: whole["whole"].update(dropped=["x"]),
    "warnings as a number": lambda _, __, whole: whole["whole"].update(warnings=7),
    "blocks of one number": lambda _, __, whole: whole["whole"].update(unreadable=[[1]]),
}
for _name, _change in PARTS.items():
    attack(f"a part that tells {_name}")(_part(_change))


@attack("a part's file that is a link to one of its size")
def _part_link(target: Target) -> list[Any]:
    words = _part(lambda _, __, ___: None)(target)
    (staged,) = (target.folder / "out").glob(f"{STEM}.part-0-of-1-*.tmp")
    staged.rename(target.folder / "moved")
    staged.symlink_to(target.folder / "moved")
    return words


# Indices beside record files.
def _index(files: dict[str, Plant], *, compressed: bool = False) -> Callable[[Target], list[Any]]:
    def made(target: Target) -> list[Any]:
        mixer, shards = write_set(target.folder, np.ones((1, 32, 32), np.float32), patch=(8, 8))
        name = shards[0]
        if compressed:
            import gzip

            name = name.with_name(f"{name.name}.gz")
            name.write_bytes(gzip.compress(shards[0].read_bytes()))
        for suffix, plant in files.items():
            plant(target, Path(f"{name}{suffix}"))
        return (
            ["verify", "--json", str(name)]
            if "verify" in files
            else ["preview", "patches", mixer, name, "-o", "out/x.png"]
        )

    return made


for _kind, _make in (
    *((kind, make) for kind, make in KINDS.items() if "nothing" not in kind),
    ("text", text("x y\n")),
    ("negative", text("-1 5\n")),
):
    attack(f"an index that is {_kind}")(_index({".idx": _make}))
attack("an index of records beyond the file")(_index({".idx": text("0 999999999999999999\n")}))
attack("an index of numbers without an end")(_index({".idx": text("0 " + "9" * 10_000 + "\n")}))
attack("members that unfold to 10^17 bytes")(
    _index({".idx": text(f"0 {10**17}\n"), ".members": text(f"0 0\n900 {10**17}\n")}, compressed=True)
)


@attack("a manifest that is a pipe")
def _manifest_pipe(target: Target) -> list[Any]:
    os.mkfifo(target.folder / "set-manifest.json")
    return ["verify", target.folder / "set-manifest.json"]


@attack("a mixer that is a device")
def _mixer_device(_: Target) -> list[Any]:
    return ["ingest-predictions", "-o", "out/x.tif", "/dev/zero", "/dev/zero"]


@attack("records that are a pipe")
def _records_pipe(target: Target) -> list[Any]:
    os.mkfifo(target.folder / "x.tfrecord")
    return ["inspect", target.folder / "x.tfrecord"]


def test_a_planted_lock_leaves_another_file_as_it_was(tmp_path: Path) -> None:
    """The very fault: the target of a link was emptied."""
    victim = tmp_path / "victim.txt"
    victim.write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f"{STEM}.lock").symlink_to(victim)
    source = Target(tmp_path, victim, "").raster()
    with pytest.raises(geotfr.DamagedError, match="is a link"):
        geotfr.export_image(source, tmp_path / "out" / "set", patch_dimensions=8)
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("name", [f"{STEM}-journal", "x.tfrecord.idx", "set-manifest.json"])
def test_a_file_of_a_tebibyte_is_refused_before_it_is_read(tmp_path: Path, name: str) -> None:
    geotfr.write_examples(tmp_path / "x.tfrecord", [{"a": 1}])
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, 2**40)
    target = Target(tmp_path, tmp_path / "canary", "")
    if name.endswith(".idx"):
        with pytest.raises(geotfr.DamagedError, match="two numbers"):
            read_index(tmp_path / "x.tfrecord")
    elif name.endswith(".json"):
        with pytest.raises(geotfr.LimitError, match="too many"):
            geotfr.read_manifest(tmp_path / name)
    else:
        with pytest.raises(geotfr.LimitError, match="too many"):
            geotfr.export_image(target.raster(), tmp_path / "set", patch_dimensions=8, resume=True)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", attacks_of(__name__))
def test_a_planted_file_reads_no_other_file_writes_nowhere_else_and_ends_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: Callable[[str, int], None]
) -> None:
    run_attack(name, tmp_path, monkeypatch)
    count("planted files without a read, a write or a connection", 1)


def test_the_attacks_are_listed_in_the_documentation() -> None:
    assert documented_attacks("Planted files") == attacks_of(__name__)
