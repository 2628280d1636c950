"""The SHA-256 of records as a patch table tells them, compared as records are read.

A record's own checksum tells damage, not that it is another record: a plain shard of the same layout, copied over the
one that the table knows, has its very size. So one record of each shard is compared when the shard is first read, which
tells files that were swapped or exported again, and every record where that is asked for.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from geotfr.stores.path import any_path
from geotfr.vectors.table_beside import changed_shard

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.records.index import IndexedRecords

__all__ = ["KnownDigests"]


class KnownDigests:
    """What a table knows of the records of a data set; may be pickled and used by several threads.

    Parameters
    ----------
    records
        ``(n,) int64``: the records that may be read, numbered through all shards.
    digests
        ``(n, 32) uint8``: of each.
    starts
        ``(shards + 1,) int64``: the number of each shard's first record.
    compares_all
        Whether each record is compared, or one of each shard.
    """

    def __init__(
        self,
        records: NDArray[np.int64],
        digests: NDArray[np.uint8],
        starts: NDArray[np.int64],
        *,
        compares_all: bool,
    ) -> None:
        order = np.argsort(records, kind="stable")
        records, digests = records[order], digests[order]
        if not compares_all:
            edges = np.searchsorted(records, starts)
            firsts = edges[:-1][np.diff(edges) > 0]
            records, digests = records[firsts], digests[firsts]
        self._records, self._digests = records, digests
        self._compares_all = compares_all
        self._seen: set[int] = set()

    def check(self, shard: IndexedRecords, start: int, numbers: NDArray[np.int64]) -> None:
        """Compare what is to be read of a shard whose first record is number ``start``: ``numbers`` in it, ascending.

        Raises
        ------
        DamagedError
            A record is another one than the table knows.
        """
        if self._compares_all:
            wanted = np.unique(numbers)
        elif start in self._seen:
            return
        else:
            stop = start + len(shard)
            some = self._records[np.searchsorted(self._records, start) :][:1]
            wanted = some[some < stop] - start
        for number in wanted.tolist():
            place = int(np.searchsorted(self._records, start + number))
            digest = hashlib.sha256(shard[number]).digest()
            if digest != self._digests[place].tobytes():
                raise changed_shard(
                    any_path(shard.path),
                    f"holds another record {number} than the table knows: its SHA-256 begins with {digest[:4].hex()},"
                    f" in the table with {self._digests[place, :4].tobytes().hex()}",
                )
        self._seen.add(start)
