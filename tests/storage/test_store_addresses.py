"""What is an address and what isn't, and one line for those that can't be used; no request is sent."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from oracle.rasters import write_raster
from oracle.run import assert_refused, run

import geotfr
from geotfr.errors import MissingInputError, OutputError, UsageError
from geotfr.mixer.names import SetNames
from geotfr.stores.path import StorePath, any_path


def test_a_path_in_a_store_is_handled_as_others_are() -> None:
    path = any_path("s3://bucket/sets//scene-mixer.json")
    assert str(path) == f"{path}" == "s3://bucket/sets/scene-mixer.json"
    assert isinstance(path, StorePath)
    assert (path.name, path.suffix, path.key) == ("scene-mixer.json", ".json", "sets/scene-mixer.json")
    assert str(path.with_name("x")) == "s3://bucket/sets/x"
    assert str(path.parent.parent / "y") == "s3://bucket/y"
    assert path.parent.parent.parent == path.parent.parent
    assert path.resolve() is path
    copy = pickle.loads(pickle.dumps(path))
    assert (copy, hash(copy)) == (path, hash(path))
    names = SetNames.for_prefix("gs://bucket/sets/", naming="drive", compressed_suffix="")
    assert (str(names.folder), names.name) == ("gs://bucket/sets", "")
    assert str(SetNames.for_prefix("az://b/s", naming="drive", compressed_suffix="").folder) == "az://b"


def test_a_file_of_that_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:" / "bucket").mkdir(parents=True)
    (tmp_path / "s3:" / "bucket" / "a.tfrecord").write_bytes(bytes.fromhex("020000000000000078270b34686913d60856"))
    assert list(geotfr.read_records("s3://bucket/a.tfrecord")) == [b"hi"]


@pytest.mark.parametrize(
    ("address", "word"),
    [
        ("s3://key:secret@bucket/x", "a user"),
        ("s3://bucket/x?X-Amz-Signature=secret", "a query"),
        ("https://user:secret@host/x.tfrecord", "a user"),
        ("https://host/x.tfrecord?token=secret", "a query"),
        ("https:///x", "names no server"),
        ("s3://", "names no bucket"),
        ("s3://bucket/../x", "names no bucket"),
        ("https://host/a/../x", "names no server"),
        ("ftp://host/x.tfrecord", "can't be read"),
    ],
)
def test_an_address_that_is_none_is_refused_without_telling_a_secret(address: str, word: str) -> None:
    with pytest.raises(UsageError, match=word) as found:
        any_path(address)
    assert "secret" not in str(found.value)
    assert_refused(run("verify", address), 2, word)


def test_a_path_that_lost_a_slash_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingInputError, match="as text"):
        geotfr.read_mixer(Path("s3://bucket/scene-mixer.json"))
    raster = write_raster(tmp_path / "source.tif", np.ones((1, 8, 8), np.uint8))
    with pytest.raises(OutputError, match="as text"):
        geotfr.export_image(raster, Path("s3://bucket/scene"), patch_dimensions=8)
    assert [path.name for path in tmp_path.iterdir()] == ["source.tif"]


def test_nothing_is_written_to_a_web_server(tmp_path: Path) -> None:
    raster = write_raster(tmp_path / "source.tif", np.ones((1, 8, 8), np.uint8))
    words = ("export", raster, "--output", "https://127.0.0.1:9/scene", "--patch-dimensions", "8", "--quiet")
    assert_refused(run(*words), 14, "web server", "can't be written to")


def test_a_missing_folder_is_named_as_it_was_given(tmp_path: Path) -> None:
    raster = write_raster(tmp_path / "source.tif", np.ones((1, 8, 8), np.uint8))
    outcome = run("export", raster, "--output", tmp_path / "none" / "scene", "--patch-dimensions", "8", "--quiet")
    assert_refused(outcome, 14, f"{tmp_path}/none: the folder is missing", "make it first")


@pytest.mark.parametrize(
    "args",
    [
        ("verify", ""),
        ("ingest-table", "-o", "x.csv", ""),
        ("push", "", "s3://bucket/a"),
        ("preview", "grid", "", "-o", "p"),
    ],
)
def test_an_empty_argument_is_not_the_folder_one_stands_in(
    args: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(run(*args), 2, f"argument {args.index('')} of {args[0]} is empty")
    with pytest.raises(UsageError, match="empty text"):
        any_path("")
    assert list(tmp_path.iterdir()) == []
