"""The checksums of a file, as a store tells them of the object that it became."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geotfr.records.crc import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PART_BYTES", "ContentDigest", "digest_of", "part_bytes"]

PART_BYTES = 8 << 20
"""Bytes of a part of a multipart upload, and of a read."""

_MAX_PARTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentDigest:
    """Checksums of some bytes.

    Attributes
    ----------
    size
        Their number.
    crc
        Their CRC32C.
    etag
        The ETag that S3 gives them where it doesn't encrypt them by a key of its key service: MD5 as hex digits; of the
        parts' MD5s for what is uploaded in parts.
    """

    size: int
    crc: int
    etag: str


def part_bytes(size: int) -> int:
    """Bytes of the parts in which ``size`` bytes are uploaded: 8 MiB, or what 10,000 parts need, as whole MiB.

    >>> part_bytes(100), part_bytes(200 * 2**30) >> 20
    (8388608, 21)
    """
    return max(PART_BYTES, -(-size // _MAX_PARTS // 2**20) * 2**20)


def digest_of(parts: Iterable[bytes]) -> ContentDigest:
    """The checksums of the bytes that arrive in upload parts: all but the last of one size, see :func:`part_bytes`.

    >>> digest_of([b"hello"])
    ContentDigest(size=5, crc=2591144780, etag='5d41402abc4b2a76b9719d911017c592')
    """
    size = crc = 0
    digests = []
    for part in parts:
        size += len(part)
        crc = crc32c(part, crc)
        digests.append(hashlib.md5(part, usedforsecurity=False).digest())
    if len(digests) == 1:
        return ContentDigest(size=size, crc=crc, etag=digests[0].hex())
    joined = hashlib.md5(b"".join(digests), usedforsecurity=False).hexdigest()
    return ContentDigest(size=size, crc=crc, etag=f"{joined}-{len(digests)}" if digests else joined)
