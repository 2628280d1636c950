"""The records of several shards by one number, read many at a time into arrays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import DamagedError, GeotfrError, InputError, MissingInputError
from geotfr.records.gather import IndexedFeatures
from geotfr.storage.index_files import indexed_records
from geotfr.stores.address import address_scheme
from geotfr.stores.path import any_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from geotfr.datasets.digests import KnownDigests
    from geotfr.datasets.features import FeatureShape
    from geotfr.records.batches import FeatureBatch

    PathLike = str | os.PathLike[str]
    State = tuple[int, int]

__all__ = ["ShardReader", "file_state", "unchanged"]


def file_state(path: PathLike) -> State:
    """Size and time of the last change: what tells that a file is another one now."""
    try:
        if address_scheme(os.fspath(path)):
            # A store's reads are conditional: each is of the object that was opened, or refused.
            return any_path(path).stat().st_size, 0
        found = os.stat(path)  # noqa: PTH116  # twice as fast, and on the way of every read
    except GeotfrError:
        raise
    except FileNotFoundError as error:
        raise MissingInputError(f"{os.fspath(path)}: no such file") from error
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: can't be read: {error.strerror}") from error
    return found.st_size, found.st_mtime_ns


def unchanged(path: PathLike, before: State) -> None:
    """Raise DamagedError where the file at ``path`` isn't any more as it was ``before``."""
    if before[1] == 0 and address_scheme(os.fspath(path)):
        return
    now = file_state(path)
    if now != before:
        size = f"{now[0]} bytes, {before[0]} before" if now[0] != before[0] else f"the same size, {now[0]} bytes"
        raise DamagedError(
            f"{os.fspath(path)}: the file changed since the data set was made ({size}); make the data set again"
        )


class ShardReader:
    """The records of ``shards``, numbered through; may be pickled, forked and used by several threads.

    Parameters
    ----------
    shards
        The files, in order.
    index_folder
        Where their indices are, see :func:`geotfr.storage.index_files.indexed_records`.

    Attributes
    ----------
    starts
        ``(shards + 1,) int64``: the number of each shard's first record, then the number of all records.
    """

    def __init__(self, shards: Sequence[Path], *, index_folder: PathLike | None = None) -> None:
        self.paths = tuple(map(os.fspath, shards))
        self._states = [file_state(path) for path in self.paths]
        records = [indexed_records(path, folder=index_folder) for path in self.paths]
        self.starts = np.cumsum([0, *map(len, records)], dtype=np.int64)
        self._features = [IndexedFeatures(each) for each in records]
        self.digests: KnownDigests | None = None
        """What the records are compared with as they are read, if a table tells it."""

    def __len__(self) -> int:
        return int(self.starts[-1])

    def only(self, names: Sequence[str]) -> None:
        """From now on read the features ``names`` alone."""
        self._features = [IndexedFeatures(each.records, names) for each in self._features]

    def place(self, number: int) -> tuple[str, int]:
        """The shard of record ``number``, and its number there."""
        shard = int(np.searchsorted(self.starts, number, side="right")) - 1
        return self.paths[shard], number - int(self.starts[shard])

    def first(self) -> FeatureBatch:
        """The first record; valid until the next reading.

        Raises InputError if there is none.
        """
        for shard in np.flatnonzero(np.diff(self.starts)):
            return next(self._features[shard].batches(np.zeros(1, np.int64)))
        raise InputError(f"{self.paths[0]}: no records in {len(self.paths)} shards; export again")

    def read(self, numbers: NDArray[np.int64], targets: Mapping[FeatureShape, NDArray[Any]]) -> None:
        """Put the records ``numbers`` ``(n,) int64``, in any order, into ``targets`` ``(n, *shape)``.

        Raises
        ------
        RecordError
            A record is damaged, or not as its feature shapes say.
        DamagedError
            A shard changed since this reader was made.
        """
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        edges = np.searchsorted(ordered, self.starts)
        for shard in np.flatnonzero(np.diff(edges)).tolist():
            part = slice(int(edges[shard]), int(edges[shard + 1]))
            unchanged(self.paths[shard], self._states[shard])
            self._read_shard(shard, ordered[part] - self.starts[shard], order[part], targets)

    def _read_shard(
        self,
        shard: int,
        numbers: NDArray[np.int64],
        rows: NDArray[np.int64],
        targets: Mapping[FeatureShape, NDArray[Any]],
    ) -> None:
        """Put the records ``numbers``, ascending, into the ``rows`` of ``targets``."""
        is_first = np.diff(numbers, prepend=-1) != 0
        firsts, wanted = rows[is_first], numbers[is_first]
        features = self._features[shard]
        if self.digests is not None:
            self.digests.check(features.records, int(self.starts[shard]), wanted)
        is_left = ~features.fill(wanted, firsts, {feature.name: target for feature, target in targets.items()})
        left = firsts[is_left]
        done = 0
        for batch in features.batches(wanted[is_left]):
            some = left[done : done + len(batch)]
            done += len(batch)
            # A run is one copy.
            is_run = len(some) == 1 or bool((np.diff(some) == 1).all())
            place = slice(int(some[0]), int(some[-1]) + 1) if is_run else some
            for feature, target in targets.items():
                target[place] = feature.checked(batch).reshape(-1, *feature.shape)
        if len(firsts) < len(numbers):
            # Asked for more than once.
            sources = firsts[np.cumsum(is_first) - 1]
            for target in targets.values():
                target[rows[~is_first]] = target[sources[~is_first]]
