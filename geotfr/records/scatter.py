"""Records read from a plain file straight into the arrays that their values belong to.

A float list or a bytes value stands in a record as it stands in an array. So the system is asked once for the whole
record, in pieces: what is fixed goes to a scratch, the values go where they are wanted. Nothing is copied after the
page cache. A record is then proven by its fixed bytes, its header's among them, and by its checksum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import google_crc32c
import numpy as np

from geotfr.records.crc import mask
from geotfr.records.kind import Kind
from geotfr.records.layout import FOOTER_BYTES, HEADER_BYTES
from geotfr.records.locate import locate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    Scatter = Callable[[int, Sequence[NDArray[Any]]], int]

__all__ = ["LEAST_BYTES", "ScatterLayout"]

LEAST_BYTES = 64 << 10
"""Records of fewer bytes are read faster many at a time."""

MOST_PIECES = 512
"""Linux takes 1024 pieces at a time."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes ``start`` to ``stop`` of a record; ``key``: whose values they are; ``is_fixed``: they never change."""

    start: int
    stop: int
    key: str | None
    is_fixed: bool


class ScatterLayout:
    """How the records that look like one are taken apart; made by :meth:`learned`."""

    def __init__(self, record: bytes, pieces: Sequence[_Piece], wanted: Mapping[str, np.dtype[Any]]) -> None:
        self._pieces = tuple(pieces)
        self._wanted = dict(wanted)
        self._lengths = {
            piece.key: (piece.stop - piece.start) // wanted[piece.key].itemsize
            for piece in pieces
            if piece.key is not None
        }
        self._fixed = b"".join(record[piece.start : piece.stop] for piece in pieces if piece.is_fixed)
        self._size = len(record)

    @staticmethod
    def learned(record: bytes, names: Collection[str]) -> ScatterLayout | None:
        """The layout of the framed ``record``, with the values of ``names`` apart; None where they can't be."""
        found = locate(record[HEADER_BYTES:-FOOTER_BYTES])
        if found is None or not set(names) <= {key for _, key in found.places}:
            return None
        wanted: dict[str, np.dtype[Any]] = {}
        values: list[_Piece] = []
        for (_, key), (place,) in found.places.items():
            is_wanted = key in names
            if is_wanted:
                # Varints aren't values yet.
                if place.kind in (None, Kind.INT64) or len(place.spans) != 1:
                    return None
                wanted[key] = place.kind.dtype
            spans = [(start + HEADER_BYTES, stop + HEADER_BYTES) for start, stop in place.spans if start < stop]
            values += [_Piece(start, stop, key if is_wanted else None, False) for start, stop in spans]
        pieces: list[_Piece] = []
        done = 0
        for piece in sorted(values, key=lambda each: each.start):
            pieces += [_Piece(done, piece.start, None, True), piece]
            done = piece.stop
        end = len(record) - FOOTER_BYTES
        pieces += [_Piece(done, end, None, True)] if done < end else []
        return ScatterLayout(record, pieces, wanted) if len(pieces) < MOST_PIECES else None

    def takes(self, targets: Mapping[str, NDArray[Any]]) -> bool:
        """Whether the rows of ``targets`` ``(n, …)`` can take the values as they are."""
        return set(targets) == set(self._wanted) and all(
            target.dtype == self._wanted[key]
            and target[:1].flags.c_contiguous
            and len(target) > 0
            and target[0].size == self._lengths.get(key, 0)
            for key, target in targets.items()
        )

    def read(
        self,
        scatter: Scatter,
        offsets: NDArray[np.int64],
        sizes: NDArray[np.int64],
        rows: NDArray[np.int64],
        targets: Mapping[str, NDArray[Any]],
    ) -> NDArray[np.bool_]:
        """Read the records at ``offsets`` into the ``rows`` of ``targets``.

        Returns
        -------
        ``(n,) bool``
            Which records are there. The others look otherwise, or are damaged: what stands in their rows means nothing.
        """
        scratch = np.empty(self._size, np.uint8)
        footer = np.empty(FOOTER_BYTES, np.uint8)
        fixed = [scratch[piece.start : piece.stop] for piece in self._pieces if piece.is_fixed]
        good = np.zeros(len(offsets), np.bool_)
        flat = {key: target.reshape(len(target), -1).view(np.uint8) for key, target in targets.items()}
        for number, (offset, size, row) in enumerate(zip(offsets.tolist(), sizes.tolist(), rows.tolist(), strict=True)):
            if size != self._size:
                continue
            parts = [
                scratch[piece.start : piece.stop] if piece.key is None else flat[piece.key][row]
                for piece in self._pieces
            ]
            if scatter(offset, [*parts, footer]) != size or b"".join(part.data for part in fixed) != self._fixed:
                continue
            crc = google_crc32c.extend(0, parts[0][HEADER_BYTES:])
            for part in parts[1:]:
                crc = google_crc32c.extend(crc, part)
            good[number] = mask(crc) == int.from_bytes(footer.tobytes(), "little")
        return good
