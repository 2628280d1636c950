"""Whatever a store does, there is one clear line, nothing half written, and a later run completes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from oracle.run import assert_refused, contents, run
from oracle.store import Shop, make_set

import geotfr
from geotfr.errors import LockedError, OutputError
from geotfr.storage.remote import Store, StoreAddress, StoreLock, lock

pytestmark = pytest.mark.interop

LOCK = ".lock"


def own(scene: Path) -> dict[str, bytes]:
    return {f"a/{name}": data for name, data in contents(scene.parent).items() if name.startswith("scene")}


def is_whole_or_absent(shop: Shop, scene: Path) -> bool:
    expected = own(scene)
    return all(expected[key] == data for key, data in shop.objects().items() if not key.endswith(LOCK))


def assert_completes(shop: Shop, scene: Path) -> None:
    shop.fault = None
    geotfr.push_set(scene, "s3://sets/a")
    assert shop.objects() == own(scene)
    assert shop.unfinished() == 0


def test_without_credentials_one_line_names_the_variables(
    shop: Shop, scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    outcome = run("push", scene, "s3://sets/a", "--retry-seconds", "0.2")
    assert_refused(outcome, 14, "no credentials", "AWS_ACCESS_KEY_ID")
    outcome = run("pull", "s3://sets/a/scene", tmp_path / "back", "--retry-seconds", "0.2")
    assert_refused(outcome, 10, "no credentials", "AWS_ACCESS_KEY_ID")
    assert not (tmp_path / "back").exists()


def test_a_bucket_that_is_not_there(shop: Shop, scene: Path, tmp_path: Path) -> None:
    assert_refused(run("push", scene, "s3://elsewhere/a"), 14, "s3://elsewhere/a", "bucket isn't there")
    outcome = run("pull", "s3://elsewhere/scene", tmp_path / "back")
    assert_refused(outcome, 10, "s3://elsewhere", "bucket isn't there")
    assert_refused(run("pull", "s3://sets/none", tmp_path / "back"), 10, "s3://sets/none", "no objects")


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_tells_no_secret(shop: Shop, scene: Path, status: int) -> None:
    shop.fault = lambda request: status if request else None
    outcome = run("push", scene, "s3://sets/a")
    assert_refused(outcome, 14, "refuses", str(status))
    assert "secretofthetests" not in outcome.told


def test_a_storm_that_ends_is_sat_out(shop: Shop, scene: Path) -> None:
    seen: set[str] = set()

    def first_time_only(request: str) -> int | None:
        is_new = request not in seen
        seen.add(request)
        return 503 if is_new else None

    shop.fault = first_time_only
    geotfr.push_set(scene, "s3://sets/a")
    assert shop.objects() == own(scene)


@pytest.mark.parametrize("after", [0, 1, 2, 4, 6])
def test_a_storm_that_lasts_ends_in_one_line_and_a_later_run_completes(shop: Shop, scene: Path, after: int) -> None:
    shop.fault = lambda request: 503 if request and len(shop.sent()) > after else None
    outcome = run("push", scene, "s3://sets/a", "--retry-seconds", "0.3")
    assert_refused(outcome, 14, "503", "run again")
    assert is_whole_or_absent(shop, scene)
    assert "a/scene-manifest.json" not in shop.objects()
    # The lock couldn't be removed in the storm: it is taken over when it is old, or removed as the error says.
    shop.request("DELETE", f"/sets/{next((key for key in shop.objects() if key.endswith(LOCK)), 'a/none')}")
    assert_completes(shop, scene)


@pytest.mark.parametrize("part", [1, 2])
def test_an_upload_cut_in_the_middle_leaves_nothing_and_a_later_run_completes(
    shop: Shop, tmp_path: Path, part: int
) -> None:
    scene = make_set(tmp_path / "large", seed=3, side=1536, patch=512, max_file_size="1GiB")
    shop.fault = lambda request: "cut" if f"partNumber={part}" in request else None
    outcome = run("push", scene, "s3://sets/a", "--retry-seconds", "0.3")
    assert_refused(outcome, 14, "s3://sets/a/scene.tfrecord", "can't be reached")
    assert shop.objects() == {}
    assert shop.unfinished() == 0
    assert_completes(shop, scene)


def test_an_object_that_changed_on_the_way_is_removed_and_told(shop: Shop, scene: Path) -> None:
    def meddle(request: str) -> None:
        if request == "HEAD /sets/a/scene-00002.tfrecord":
            shop.put("a/scene-00002.tfrecord", b"other")

    shop.fault = meddle
    assert_refused(run("push", scene, "s3://sets/a"), 14, "scene-00002.tfrecord", "differs")
    assert is_whole_or_absent(shop, scene)
    assert "a/scene-00002.tfrecord" not in shop.objects()
    assert_completes(shop, scene)


def test_a_second_push_is_locked_out_and_the_lock_goes_with_its_owner(shop: Shop, scene: Path) -> None:
    store = Store(StoreAddress.of_folder("s3://sets/a"))
    with StoreLock(store, scene):
        assert_refused(run("push", scene, "s3://sets/a"), 11, "process", "is writing this set")
        assert shop.sent() == []
    assert shop.objects() == {}
    assert_completes(shop, scene)


def test_a_dead_writers_lock_is_taken_over_after_an_hour_and_its_owner_finds_out(
    shop: Shop, scene: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(StoreAddress.of_folder("s3://sets/a"))
    dead = StoreLock(store, scene)

    class Later(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(seconds=lock.STALE_S + 5)

    monkeypatch.setattr(lock, "datetime", Later)
    with StoreLock(store, scene):
        with pytest.raises(LockedError, match="took over"):
            dead.renew(at_once=True)
        dead.__exit__()
        assert len(shop.objects()) == 1, "the dead writer must not remove the lock of another"
    assert shop.objects() == {}


@pytest.mark.parametrize("after", [0, 2, 7])
def test_a_push_that_is_killed_leaves_whole_objects_and_a_lock_that_names_it(
    shop: Shop, scene: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def kill(request: str) -> None:
        if request.startswith("PUT") and LOCK not in request and len(shop.sent()) > after:
            started[0].kill()

    shop.fault = kill
    with subprocess.Popen([sys.executable, "-m", "geotfr_cli", "push", str(scene), "s3://sets/a"]) as process:
        started.append(process)
        assert process.wait(60) == -signal.SIGKILL
    shop.fault = None
    assert is_whole_or_absent(shop, scene)
    locks = [key for key in shop.objects() if key.endswith(LOCK)]
    with monkeypatch.context() as elsewhere:
        # Another machine can't know that the process is gone.
        elsewhere.setattr("geotfr.storage.remote.lock.is_gone", lambda _: False)
        outcome = run("push", scene, "s3://sets/a")
    assert_refused(outcome, 11, f"process {process.pid}", locks[0].removeprefix("a/"))
    if after:
        shop.request("DELETE", f"/sets/{locks[0]}")
    assert_completes(shop, scene)


def test_a_lost_connection_of_a_pull_is_one_line_and_leaves_nothing(shop: Shop, scene: Path, tmp_path: Path) -> None:
    geotfr.push_set(scene, "s3://sets/a")
    shop.fault = lambda request: "cut" if "00002" in request else None
    outcome = run("pull", "s3://sets/a/scene", tmp_path / "back", "--retry-seconds", "0.3")
    assert_refused(outcome, 10, "scene-00002.tfrecord", "can't be reached")
    assert not (tmp_path / "back").exists()
    shop.fault = None
    assert geotfr.pull_set("s3://sets/a/scene", tmp_path / "back").files[-1].name == "scene-manifest.json"


def test_the_manifest_of_a_push_holds_no_credentials(shop: Shop, scene: Path) -> None:
    told = json.dumps(geotfr.push_set(scene, "s3://sets/a").to_dict())
    assert "AKIDofthetests" not in told
    assert not any(b"AKIDofthetests" in data or b"secretofthetests" in data for data in shop.objects().values())


def test_a_missing_extra_is_one_line(scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    assert_refused(run("push", scene, "s3://sets/a"), 2, "geotfr[cloud]")
    with pytest.raises(geotfr.GeotfrError):
        geotfr.push_set(scene, "s3://sets/a")
    assert OutputError.exit_code == 14
