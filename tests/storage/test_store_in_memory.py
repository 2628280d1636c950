"""A store's objects are written once, read as they were listed, locked by one, and every refusal is one clear line.

By a store in memory, whose ETags tell nothing of the bytes; tests/interop/cloud does the same to a server of S3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import google_crc32c
import obstore.store
import pytest
from oracle.run import assert_refused, contents, run
from oracle.store import make_set

import geotfr
from geotfr.errors import InputError, LockedError, MissingInputError, OutputError, UsageError
from geotfr.storage.remote import Store, StoreAddress, StoreLock, lock
from geotfr.storage.remote.digest import digest_of
from geotfr.stores.store_error import store_error


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The store that every address leads to."""
    store = obstore.store.MemoryStore()
    monkeypatch.setattr("obstore.store.from_url", lambda *_, **__: store)
    return store


def objects(memory: Any) -> dict[str, bytes]:
    listed = obstore.list_with_delimiter(memory)["objects"]
    return {each["path"]: bytes(obstore.get(memory, each["path"]).bytes()) for each in listed}


def opened() -> Store:
    return Store(StoreAddress.of_folder("s3://bucket/sets"))


def refusing(monkeypatch: pytest.MonkeyPatch, operation: str, error: Exception, after: int = 0) -> None:
    """Let ``operation`` of the library raise, after it went well so often."""
    inner: Callable[..., Any] = getattr(obstore, operation)
    left = [after]

    def instead(*args: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise error
        return inner(*args, **options)

    monkeypatch.setattr(obstore, operation, instead)


def test_a_set_goes_and_comes_back_and_is_sent_once(memory: Any, tmp_path: Path) -> None:
    scene = make_set(tmp_path / "out", seed=1)
    own = {name: data for name, data in contents(tmp_path / "out").items() if name.startswith("scene")}
    assert len(geotfr.push_set(scene, "s3://bucket/sets").uploaded) == len(own)
    assert objects(memory) == own
    assert geotfr.push_set(scene, "s3://bucket/sets").uploaded == ()
    geotfr.pull_set("s3://bucket/sets/scene", tmp_path / "back")
    assert contents(tmp_path / "back") == own
    other = make_set(tmp_path / "other", seed=2, max_file_size=9000)
    assert_refused(run("push", other, "s3://bucket/sets"), 14, "--overwrite")
    geotfr.push_set(other, "s3://bucket/sets", overwrite=True)
    assert objects(memory) == {
        name: data for name, data in contents(tmp_path / "other").items() if name.startswith("scene")
    }


@pytest.mark.parametrize("operation", ["list_with_delimiter", "head", "put", "get", "delete"])
def test_an_operation_that_fails_is_told_with_the_address(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    store = opened()
    store.upload(path, "a", digest=digest_of([b"abc"]))
    found = store.list()["a"]
    tries: dict[str, tuple[type[Exception], Callable[[], object]]] = {
        "list_with_delimiter": (InputError, store.list),
        "head": (InputError, lambda: store.head("a")),
        "put": (OutputError, lambda: store.upload(path, "a", digest=digest_of([b"abc"]))),
        "get": (InputError, lambda: list(store.read(found))),
        "delete": (OutputError, lambda: store.remove("a")),
    }
    refusing(monkeypatch, operation, RuntimeError("status code: 503 at https://host/a?sig=secret"))
    kind, attempt = tries[operation]
    with pytest.raises(kind, match=r"s3://bucket/sets.*: the store answers 503; run again") as told:
        attempt()
    assert told.value.__cause__ is None
    assert "secret" not in str(told.value)
    if operation == "put":
        with pytest.raises(OutputError, match="503"):
            store.put("b", b"", replacing=None)


def test_a_store_that_cannot_be_made_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ValueError("no such option")

    monkeypatch.setattr("obstore.store.from_url", refuse)
    with pytest.raises(OutputError, match="s3://bucket/sets: the store can't be reached") as told:
        opened()
    assert isinstance(told.value.__cause__, ValueError)


def test_what_is_gone_is_gone_once(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    assert store.head("none") is None
    store.remove("none")
    refusing(monkeypatch, "delete", FileNotFoundError("none"))
    store.remove("none")
    assert objects(memory) == {}


def test_an_object_that_arrives_with_other_bytes_is_removed(memory: Any, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    for planned in (b"abd", b"abcd"):
        with pytest.raises(OutputError, match=r"what arrived differs from .*; was the file changed meanwhile"):
            opened().upload(path, "a", digest=digest_of([planned]))
        assert objects(memory) == {}


def test_an_object_is_read_in_steps_and_not_across_a_change(memory: Any) -> None:
    store = opened()
    assert store.put("a", bytes(range(100)), replacing=None) is not None
    found = store.head("a")
    assert found is not None
    assert [len(part) for part in store.read(found, step=30)] == [30, 30, 30, 10]
    assert b"".join(store.read(found, step=30)) == bytes(range(100))
    assert store.put("a", bytes(100), replacing=found.etag) is not None
    assert store.put("a", bytes(100), replacing=found.etag) is None
    assert store.put("a", bytes(100), replacing=None) is None
    with pytest.raises(InputError, match="another process changed it meanwhile"):
        list(store.read(found))


def test_a_lock_is_held_by_one_renewed_and_given_back(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened()
    with StoreLock(store, tmp_path / "scene") as held:
        (name,) = objects(memory)
        with pytest.raises(LockedError, match=r"process .* is writing this set"):
            StoreLock(store, tmp_path / "scene")
        before = objects(memory)
        held.renew()
        assert objects(memory) == before
        held.renew(at_once=True)
        assert objects(memory) != before
        # An owner that can't be told is another process.
        obstore.put(memory, name, b"[]")
        with pytest.raises(LockedError, match="another process is writing this set"):
            StoreLock(store, tmp_path / "scene")
        with pytest.raises(LockedError, match="took over"):
            held.renew(at_once=True)
    assert list(objects(memory)) == [name]

    class Later(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(seconds=lock.STALE_S + 5)

    monkeypatch.setattr(lock, "datetime", Later)
    with StoreLock(store, tmp_path / "scene"):
        assert objects(memory)[name] != b"[]"
    assert objects(memory) == {}


def test_a_lock_whose_first_answer_was_lost_is_held(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Store.put

    def losing(self: Store, name: str, data: bytes, *, replacing: str | None) -> str | None:
        # The request arrived; its repetition finds the object there.
        put(self, name, data, replacing=replacing)
        return put(self, name, data, replacing=replacing)

    monkeypatch.setattr(Store, "put", losing)
    with StoreLock(opened(), tmp_path / "scene"):
        assert len(objects(memory)) == 1
    assert objects(memory) == {}


@pytest.mark.parametrize("faster", [1, 2])
def test_a_lock_that_goes_before_it_is_looked_at_is_tried_once_more(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faster: int
) -> None:
    put, left = Store.put, [faster]

    def later(self: Store, name: str, data: bytes, *, replacing: str | None) -> str | None:
        # Another writer was faster, and has ended by now.
        left[0] -= 1
        return put(self, name, data, replacing=replacing) if left[0] < 0 else None

    monkeypatch.setattr(Store, "put", later)
    if faster == 1:
        with StoreLock(opened(), tmp_path / "scene"):
            assert len(objects(memory)) == 1
    else:
        with pytest.raises(LockedError, match="another process is writing this set"):
            StoreLock(opened(), tmp_path / "scene")
    assert objects(memory) == {}


def test_an_etag_of_the_bytes_saves_reading_them_and_an_object_without_one_is_read(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened()
    store.put("a", b"abc", replacing=None)
    found = store.head("a")
    assert found is not None
    plain = replace(found, etag="")
    assert b"".join(store.read(plain)) == b"abc"
    assert store.holds(plain, digest_of([b"abc"]))
    refusing(monkeypatch, "get", RuntimeError("nothing is to be read"))
    assert store.holds(replace(found, etag=hashlib.md5(b"abc").hexdigest()), digest_of([b"abc"]))


@pytest.mark.parametrize(
    ("error", "kinds", "words"),
    [
        ("error sending request to http://169.254.169.254/latest/api/token", (OutputError, InputError), "AWS_ACCESS"),
        ("missing access key", (OutputError, InputError), "no credentials"),
        ("status code: 404 <Code>NoSuchBucket</Code>", (OutputError, MissingInputError), "the bucket isn't there"),
        ("status code: 403 <Code>SignatureDoesNotMatch</Code>", (OutputError, InputError), "403 SignatureDoesNotMatch"),
        ("status: 401", (OutputError, InputError), r"the store refuses \(401\)"),
        ("status code: 503 after 7 retries", (OutputError, InputError), "answers 503 after 7 retries"),
        ("status code: 500 after 0 retries", (OutputError, InputError), "answers 500; run again"),
        ("connection closed after 3 retries", (OutputError, InputError), "can't be reached after 3 retries"),
        ("connection refused", (OutputError, InputError), "can't be reached; check the network"),
        (FileNotFoundError("gone"), (OutputError, MissingInputError), "no such object or bucket"),
    ],
    ids=str,
)
def test_a_refusal_becomes_one_line_of_the_side_that_met_it(
    error: str | Exception, kinds: tuple[type[Exception], type[Exception]], words: str
) -> None:
    given = RuntimeError(error) if isinstance(error, str) else error
    for kind, is_writing in zip(kinds, (True, False), strict=True):
        told = store_error("s3://bucket/a", given, is_writing=is_writing)
        assert type(told) is kind
        with pytest.raises(kind, match=f"^s3://bucket/a: .*{words}"):
            raise told


@pytest.mark.parametrize(
    ("parts", "etag"),
    [
        ([], hashlib.md5(b"").hexdigest()),
        ([b"abc"], hashlib.md5(b"abc").hexdigest()),
        ([b"abc", b"d"], hashlib.md5(hashlib.md5(b"abc").digest() + hashlib.md5(b"d").digest()).hexdigest() + "-2"),
    ],
    ids=len,
)
def test_digests_are_those_of_s3(parts: list[bytes], etag: str) -> None:
    digest = digest_of(parts)
    assert (digest.size, digest.crc) == (len(b"".join(parts)), google_crc32c.value(b"".join(parts)))
    assert digest.etag == etag


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("out/there", "s3://"),
        ("https://example.org/x", "s3://"),
        ("s3://", "names no bucket"),
        ("s3://bucket/../x", "names no bucket"),
        ("s3://key:secret@bucket/x", "credentials come from the environment"),
        ("az://container/x?sig=secret", "credentials come from the environment"),
    ],
)
def test_an_address_that_is_none_is_refused_and_keys_are_not_repeated(address: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as told:
        StoreAddress.of_prefix(address)
    assert "secret" not in str(told.value)


def test_a_slash_or_a_bucket_alone_is_a_folder() -> None:
    for address, folder, name in (
        ("s3://bucket", "s3://bucket", ""),
        ("gs://bucket/a/", "gs://bucket/a", ""),
        ("az://bucket/a/b", "az://bucket/a", "b"),
    ):
        found = StoreAddress.of_prefix(address)
        assert (found.folder, found.name, found.scheme) == (folder, name, address[:2])
