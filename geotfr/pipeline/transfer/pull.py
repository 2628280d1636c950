"""A set from an object store into a folder: checked on the way, and there whole or not at all."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.errors import DamagedError, LimitError, MissingInputError, OutputError
from geotfr.flags import checks_flags
from geotfr.mixer import is_manifest, manifest_of
from geotfr.mixer.strict_json import parse_json
from geotfr.pipeline.set_files import belongs_to
from geotfr.pipeline.sizes import human_bytes
from geotfr.pipeline.transfer.local_set import (
    files_of_member,
    is_member,
    listed_shards,
    may_be_member,
    may_belong,
    order_of,
    set_names,
)
from geotfr.storage import OutputSet
from geotfr.storage.remote import Store, StoreAddress
from geotfr.storage.remote.digest import digest_of, part_bytes
from geotfr.storage.remote.store import RETRY_S
from geotfr.storage.space import check_space
from geotfr.stores.path import is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from geotfr.mixer import SetNames, ShardInfo
    from geotfr.storage import AtomicFile
    from geotfr.storage.remote import StoredObject

__all__ = ["PullResult", "pull_set"]

_MD5_DIGITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PullResult:
    """What a pull brought.

    Attributes
    ----------
    files
        The files, shards first, the manifest last.
    size_bytes
        Their size.
    seconds
        Time it took.
    """

    files: tuple[Path, ...]
    size_bytes: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {"files": [str(path) for path in self.files], "size_bytes": self.size_bytes, "seconds": self.seconds}

    def to_text(self) -> str:
        """The summary for a person."""
        return (
            f"{self.files[0].parent}: {len(self.files):,} files, {human_bytes(self.size_bytes)}, in"
            f" {self.seconds:.1f} s"
        )


@checks_flags
def pull_set(
    address: str,
    folder: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    retry_seconds: float = RETRY_S,
) -> PullResult:
    """Bring the set at the address of an object store into ``folder``, and tell its files.

    Objects are read 8 MiB at a time. A shard is compared with size and CRC32C in the manifest; where the store's ETag
    is an MD5, every object is compared with that. Nothing has its final name until all are there.

    Parameters
    ----------
    address
        Folder and beginning of the names, as ``s3://bucket/folder/scene``. Credentials come from the environment.
    folder
        Where the files go; it is made if it is missing and its parent is there.
    overwrite
        Replace a set of this name.
    retry_seconds
        How long a request that fails is repeated.

    Raises
    ------
    UsageError
        ``address`` is none, or the extra ``cloud`` isn't installed.
    MissingInputError
        There are no objects of such a set, no bucket, or one that the manifest lists is missing.
    InputError
        The store refuses or can't be reached, or an object was replaced meanwhile.
    DamagedError
        What arrived has other checksums than the store or the manifest tell.
    OutputError
        The files can't be written, or are there already and ``overwrite`` is False.

    Examples
    --------
    >>> geotfr.pull_set("s3://bucket/sets/scene", "patches")  # doctest: +SKIP
    """
    started = time.perf_counter()
    place = StoreAddress.of_prefix(address)
    names = set_names(Path(folder) / place.name if place.name else f"{os.fspath(folder)}/")
    store = Store(place, retry_s=retry_seconds)
    if not is_local(names.folder):
        raise OutputError(f"{names.folder}: a pull goes to a folder of this machine; give one")
    objects, belongs = store.list(), may_belong(names)
    members = _members(store, place, names, objects)
    found = {name: each for name, each in objects.items() if belongs(name) or name in members}
    if not found:
        raise MissingInputError(f"{address}: no objects of a set with this prefix; give the folder and the set's name")
    size = sum(each.size for each in found.values())
    is_own = belongs_to(names)
    outputs = OutputSet(
        names.folder,
        name=names.name,
        belongs=lambda name: name in members or is_own(name),
        overwrite=overwrite,
        make_folder=True,
    )
    with outputs:
        check_space(names.folder, size, what="this set", advice="give another folder")
        # The manifest first: it tells what the others should be.
        files = {name: _fetch(store, found[name], outputs) for name in reversed(order_of(found))}
        listed = _listed(place, files)
        for name in order_of(listed):
            _check_listed(place, listed[name], files.get(name))
        kept = [name for name in files if not listed or name in listed or name.endswith((".json", ".parquet"))]
        ordered = order_of(kept)
        outputs.publish(
            [(name, files[name]) for name in ordered], incomplete_without=[*names.tellers, *order_of(members)]
        )
    return PullResult(
        files=tuple(names.folder / name for name in ordered),
        size_bytes=sum(files[name].size for name in ordered),
        seconds=time.perf_counter() - started,
    )


def _members(store: Store, place: StoreAddress, names: SetNames, objects: Mapping[str, StoredObject]) -> frozenset[str]:
    """The files of the rasters whose records are in the set's shards, for a collection that shares them."""
    found: set[str] = set()
    for name in filter(may_be_member(names), objects):
        try:
            document = parse_json(b"".join(store.read(objects[name])), name=place.object(name), what="manifest")
            is_one = is_member(names, manifest_of(document))
        except (DamagedError, LimitError, KeyError, TypeError, ValueError, AttributeError):
            # Something else that is called so, perhaps of another set.
            continue
        if is_one:
            found |= {each for each in files_of_member(name) if each in objects}
    return frozenset(found)


def _fetch(store: Store, found: StoredObject, outputs: OutputSet) -> AtomicFile:
    """The object as a finished file under a temporary name."""
    file = outputs.create(found.name, expected_bytes=found.size)

    def written(parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in parts:
            file.write(part)
            yield part

    digest = digest_of(written(store.read(found, step=part_bytes(found.size))))
    is_md5 = len(found.etag) == _MD5_DIGITS and store.address.scheme == "s3"
    if digest.size != found.size or (is_md5 and found.etag != digest.etag and not store.holds(found, digest)):
        raise DamagedError(
            f"{store.address.object(found.name)}: {digest.size} bytes with MD5 {digest.etag} arrived, the store tells"
            f" {found.size} and {found.etag}; run again"
        )
    file.finish()
    return file


def _listed(place: StoreAddress, files: dict[str, AtomicFile]) -> dict[str, ShardInfo]:
    """What the manifest among ``files`` tells of each shard."""
    listed: dict[str, ShardInfo] = {}
    for name, file in files.items():
        if not name.endswith(".json") or not is_manifest(file.staged_path):
            continue
        try:
            listed |= listed_shards(file.staged_path)
        except DamagedError as error:
            # The reader spoke of the temporary name.
            told = str(error).replace(str(file.staged_path), place.object(name))
            raise DamagedError(told) from error
    return listed


def _check_listed(place: StoreAddress, shard: ShardInfo, file: AtomicFile | None) -> None:
    where = place.object(shard.name)
    if file is None:
        raise MissingInputError(f"{where}: the manifest lists this shard, and it is not there; push the set again")
    if (file.size, f"{file.crc:08x}") != (shard.bytes, shard.crc32c):
        raise DamagedError(
            f"{where}: {file.size} bytes with CRC32C {file.crc:08x}, the manifest says {shard.bytes} and"
            f" {shard.crc32c}; push the set again"
        )
