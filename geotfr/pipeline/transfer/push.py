"""A set to an object store: what it lacks or has otherwise, checked when it has arrived, the manifest last."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import Any

from geotfr.flags import checks_flags
from geotfr.pipeline.sizes import human_bytes
from geotfr.pipeline.transfer.local_set import files_of_set, may_belong, order_of, set_names
from geotfr.storage.output_set import set_output
from geotfr.storage.remote import Store, StoreAddress, StoreLock
from geotfr.storage.remote.sending import Sending
from geotfr.storage.remote.store import RETRY_S

__all__ = ["PushResult", "push_set"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PushResult:
    """What a push did, or would do.

    Attributes
    ----------
    folder
        The address of the folder.
    uploaded, kept, removed
        Names of objects: sent, there already with the same bytes, and of an older set.
    uploaded_bytes
        Size of those that were sent.
    is_dry_run
        Whether nothing was done.
    seconds
        Time it took.
    """

    folder: str
    uploaded: tuple[str, ...]
    kept: tuple[str, ...]
    removed: tuple[str, ...]
    uploaded_bytes: int
    is_dry_run: bool
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {
            "folder": self.folder,
            "uploaded": list(self.uploaded),
            "kept": list(self.kept),
            "removed": list(self.removed),
            "uploaded_bytes": self.uploaded_bytes,
            "is_dry_run": self.is_dry_run,
            "seconds": self.seconds,
        }

    def to_text(self) -> str:
        """The summary for a person."""
        verb = "would send" if self.is_dry_run else "sent"
        return (
            f"{self.folder}: {verb} {len(self.uploaded):,} objects, {human_bytes(self.uploaded_bytes)};"
            f" {len(self.kept):,} are there already, {len(self.removed):,} of an older set"
            f" {'would be ' if self.is_dry_run else ''}removed; {self.seconds:.1f} s"
        )


@checks_flags
def push_set(
    prefix: str | os.PathLike[str],
    address: str,
    *,
    overwrite: bool = False,
    dry_run: bool = False,
    retry_seconds: float = RETRY_S,
) -> PushResult:
    """Bring the set at ``prefix`` into the folder ``address`` of an object store, and tell what was sent.

    Shards go first, then tables, the mixer, the manifest. Each object appears whole, and its size and checksum are
    compared when it has arrived. Objects that are there with the same bytes aren't sent again, so a push that broke is
    continued by the same call.

    Parameters
    ----------
    prefix
        As for :func:`geotfr.export_image`: a folder and what the names begin with.
    address
        A folder, as ``s3://bucket/folder``, ``gs://bucket/folder`` or ``az://container/folder``. Names stay.
        Credentials come from the environment.
    overwrite
        Replace objects of the set that have other bytes, and remove those that the set lacks.
    dry_run
        Only compare; nothing is written.
    retry_seconds
        How long a request that fails is repeated.

    Raises
    ------
    UsageError
        ``address`` is none, or the extra ``cloud`` isn't installed.
    MissingInputError
        There is no set at ``prefix``.
    DamagedError
        A shard is missing, or differs from what the manifest tells of it. It isn't sent.
    OutputExistsError
        The folder has objects of the set with other bytes, and ``overwrite`` is False.
    LockedError
        Another process pushes a set of this name to this folder.
    OutputError
        The store refuses or can't be reached. What arrived stays, without a manifest.

    Examples
    --------
    >>> geotfr.push_set("patches/scene", "s3://bucket/sets")  # doctest: +SKIP
    """
    started = time.perf_counter()
    names = set_names(os.fspath(prefix))
    files, listed = files_of_set(os.fspath(prefix))
    store = Store(StoreAddress.of_folder(address), retry_s=retry_seconds)
    with contextlib.ExitStack() as stack:
        lock = None
        if not dry_run:
            # A bucket that isn't there is told before the lock is tried.
            store.list(is_writing=True)
            lock = stack.enter_context(StoreLock(store, set_output(names.folder, names.name)))
        belongs, own = may_belong(names), {path.name for path in files}
        there = {name: found for name, found in store.list(is_writing=True).items() if belongs(name) or name in own}
        push = Sending(
            store,
            {path.name: path for path in files},
            listed={name: (shard.bytes, shard.crc32c) for name, shard in listed.items()},
            there=there,
            tellers=[name for name in order_of(there) if name.endswith(".json")],
        )
        push.check_differing(overwrite=overwrite)
        if lock is not None:
            push.run(lock)
    return PushResult(
        folder=store.address.folder,
        uploaded=tuple(push.new),
        kept=tuple(push.kept),
        removed=tuple(push.surplus),
        uploaded_bytes=push.new_bytes,
        is_dry_run=dry_run,
        seconds=time.perf_counter() - started,
    )
