"""CRC32C as TFRecord uses it: the Castagnoli checksum, masked.

**Source**: TensorFlow's ``crc32c.h``; the mask keeps a checksum of data that holds checksums from being weak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import google_crc32c
import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["crc32c", "mask", "masked_crc32c"]

MASK_DELTA = 0xA282EAD8


def crc32c(data: Buffer, crc: int = 0) -> int:
    """CRC32C of ``data``, continued from ``crc``; the interpreter lock is released meanwhile.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    # google_crc32c takes bytes and ndarrays only.
    return int(google_crc32c.extend(crc, np.frombuffer(data, np.uint8)))


def mask(crc: int) -> int:
    """``crc`` rotated right by 15 bits plus a constant, modulo 2^32: the form that TFRecord stores.

    >>> hex(mask(0xe3069283))
    '0xc78ab0e5'
    """
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def masked_crc32c(data: Buffer) -> int:
    """The masked CRC32C of ``data``, as stored behind a record's length and behind its payload."""
    return mask(crc32c(data))
