"""SHA-256 of payloads: what tells whether a patch's values changed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from geotfr.records.layout import FOOTER_BYTES, HEADER_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DIGEST_BYTES", "payload_digests"]

DIGEST_BYTES = 32


def payload_digests(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The SHA-256 of each record's payload: ``(n, 32) uint8``.

    Parameters
    ----------
    data
        ``(bytes,) uint8``: framed records, one behind the other.
    ends
        ``(n,) int64``: where each ends.

    >>> record = np.frombuffer(bytes.fromhex("020000000000000078270b34686913d60856"), np.uint8)
    >>> payload_digests(record, np.array([18])).tobytes() == hashlib.sha256(b"hi").digest()
    True
    """
    view = data.data
    found = bytearray()
    start = 0
    # The library takes one message at a time; it lets other threads run while it works on it.
    for end in ends.tolist():
        found += hashlib.sha256(view[start + HEADER_BYTES : end - FOOTER_BYTES]).digest()
        start = end
    return np.frombuffer(bytes(found), np.uint8).reshape(-1, DIGEST_BYTES)
