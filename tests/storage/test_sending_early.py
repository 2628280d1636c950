"""Shards go to a store while the next are made, where that does no harm; by a store in memory."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import obstore
import pytest
from oracle.run import assert_refused, contents, run
from oracle.store import failing, make_set, objects

import geotfr
from geotfr.errors import OutputError, OutputExistsError
from geotfr.storage.remote import lock

OUT = "s3://bucket/scene"
GIVEN: dict[str, Any] = {"patch_dimensions": 16, "max_file_size": 4000, "compressed": False, "workers": 1}


class StopError(Exception):
    """Ends a run."""


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    return make_set(tmp_path / "out", seed=1)


def own(scene: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(scene.parent).items() if name.startswith("scene")}


def shards(memory: Any) -> list[str]:
    return [name for name in objects(memory) if name.endswith(".tfrecord")]


def test_shards_arrive_while_the_run_goes_on_each_once(
    memory: Any, scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    inner = obstore.put

    def counting(store: Any, name: str, *args: Any, **options: Any) -> Any:
        sent.append(name)
        return inner(store, name, *args, **options)

    monkeypatch.setattr(obstore, "put", counting)
    seen: list[tuple[int, int]] = []

    def look(_: int, size: int) -> None:
        if size:
            seen.append((len(shards(memory)), len(list((tmp_path / "scratch").glob("*/*.tmp")))))

    result = geotfr.export_image(scene.parent / "source.tif", OUT, progress=look, **GIVEN)
    assert objects(memory) == own(scene)
    count = len(result.shards)
    assert count >= 5
    # Of this machine there are no more than three; what is beyond has arrived.
    assert max(local for _, local in seen) <= 3
    assert seen[-1][0] >= count - 3
    assert [name for name in sent if not name.startswith(".")] == [
        *(path.name for path in result.shards),
        "scene-mixer.json",
        "scene-manifest.json",
    ]
    assert result.shards_unchanged == ()


def test_a_run_that_fails_takes_back_what_it_sent(memory: Any, scene: Path) -> None:
    def stop(_: int, size: int) -> None:
        if size and len(shards(memory)) >= 2:
            raise StopError

    with pytest.raises(StopError):
        geotfr.export_image(scene.parent / "source.tif", OUT, progress=stop, **GIVEN)
    assert objects(memory) == {}


def test_a_store_that_fails_keeps_what_arrived_and_the_next_run_sends_the_rest(
    memory: Any, scene: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        failing(broken, "put", lambda name: name == "scene-00002.tfrecord")
        with pytest.raises(OutputError, match=r"scene-00002.tfrecord: .*503"):
            geotfr.export_image(scene.parent / "source.tif", OUT, **GIVEN)
    assert shards(memory) == ["scene-00000.tfrecord", "scene-00001.tfrecord"]
    with pytest.raises(OutputExistsError, match="--overwrite"):
        geotfr.export_image(scene.parent / "source.tif", OUT, **{**GIVEN, "default_value": 3, "bands": ["x=b1"]})
    result = geotfr.export_image(scene.parent / "source.tif", OUT, **GIVEN)
    assert result.shards_unchanged == ("scene-00000.tfrecord", "scene-00001.tfrecord")
    assert objects(memory) == own(scene)


def test_a_whole_set_stays_until_the_new_one_is_made(memory: Any, scene: Path) -> None:
    geotfr.export_image(scene.parent / "source.tif", OUT, **{**GIVEN, "max_file_size": 9000})
    before = objects(memory)

    def look(_: int, size: int) -> None:
        if size:
            assert {name: data for name, data in objects(memory).items() if not name.startswith(".")} == before

    geotfr.export_image(scene.parent / "source.tif", OUT, progress=look, overwrite=True, **GIVEN)
    assert objects(memory) == own(scene)
    # What a broken run left is replaced as it comes.
    for name in ("scene-manifest.json", "scene-mixer.json"):
        obstore.delete(memory, name)
    obstore.put(memory, "scene-00001.tfrecord", b"x" * len(own(scene)["scene-00001.tfrecord"]))
    obstore.put(memory, "scene-00077.tfrecord", b"of another")
    assert_refused(
        run("export", scene.parent / "source.tif", "-o", OUT, "--patch-dimensions", "16", "--quiet"), 14, "--overwrite"
    )
    geotfr.export_image(scene.parent / "source.tif", OUT, overwrite=True, **GIVEN)
    assert objects(memory) == own(scene)


def test_an_export_killed_at_any_request_never_looks_whole_and_the_next_completes(
    memory: Any, scene: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**GIVEN, "max_file_size": 9000}
    folder = scene.parent / "larger"
    folder.mkdir()
    geotfr.export_image(scene.parent / "source.tif", folder / "scene", **given)
    expected = contents(folder)
    monkeypatch.setattr(lock, "is_gone", lambda _: True)
    for operation in range(1, 1000):
        for name in objects(memory):
            obstore.delete(memory, name)
        left = [operation]
        with monkeypatch.context() as patched:
            for each in ("put", "copy", "delete"):
                patched.setattr(obstore, each, _crashing(getattr(obstore, each), left))
            with contextlib.suppress(BaseException):
                geotfr.export_image(scene.parent / "source.tif", OUT, **given)
        there = {name: data for name, data in objects(memory).items() if not name.startswith(".")}
        assert "scene-manifest.json" not in there or there == expected
        if left[0] > 0:
            break
        try:
            geotfr.export_image(scene.parent / "source.tif", OUT, **given)
        except OutputExistsError:
            # A mixer tells that a set is there: Earth Engine's have no manifest.
            assert "scene-mixer.json" in there
            geotfr.export_image(scene.parent / "source.tif", OUT, **given, overwrite=True)
        assert {n: d for n, d in objects(memory).items() if not n.startswith(".")} == expected, operation
    assert operation > 5


def _crashing(inner: Any, left: list[int]) -> Any:
    def instead(*args: Any, **options: Any) -> Any:
        if left[0] <= 0:
            raise StopError
        left[0] -= 1
        return inner(*args, **options)

    return instead
