"""What the records under way take: the units that are encoded, packed and written at one time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.pipeline.export.chunks import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geotfr.patches.features import FeatureSpec
    from geotfr.pipeline.export.encode import Encoder

__all__ = ["memory_of_units"]

_LONGEST_VARINT = 10
_VALUE_BYTES = 13
"""Of a value while it becomes a varint: the int64, a narrower copy of it, and its length. Its bytes are there twice."""


def memory_of_units(
    encoder: Encoder,
    features: Sequence[FeatureSpec],
    plane_dtypes: Sequence[np.dtype[Any]],
    pixels: int,
    *,
    workers: int,
    compresses: bool,
) -> int:
    """Bytes of the units under way, at most.

    A unit is about a chunk. Each worker holds one that it encodes and one that it packs, with its packed form; as many
    wait for the writer. What a list of varints can have depends on the type of its pixels.

    Parameters
    ----------
    plane_dtypes, pixels
        The types of the planes, and the pixels of a block.
    """
    under_way = (2 * workers + 3) * (2 if compresses else 1)
    if encoder.records_per_patch > 1:
        return under_way * max(CHUNK_BYTES, encoder.record_bytes) * (1 if encoder.is_even else 3)
    if encoder.is_even:
        # Small records come in larger units than a chunk.
        return under_way * max(CHUNK_BYTES, encoder.unit_patches * encoder.record_bytes)
    record_bytes, list_bytes = encoder.record_bytes, 0
    for feature in features:
        if feature.kind == "int64":
            values = len(feature.planes) * pixels
            longest = _longest_varint(feature, plane_dtypes)
            record_bytes -= values * (_LONGEST_VARINT - longest)
            list_bytes = max(list_bytes, values * (_VALUE_BYTES + longest))
    unit_bytes = max(CHUNK_BYTES, encoder.unit_patches * record_bytes)
    # The lists are made one by one, and then copied into the records.
    encoding_bytes = unit_bytes + encoder.unit_patches * list_bytes
    return under_way * unit_bytes + workers * encoding_bytes


def _longest_varint(feature: FeatureSpec, plane_dtypes: Sequence[np.dtype[Any]]) -> int:
    """Bytes of the longest varint that a feature's pixels, or what stands for masked ones, can become."""
    longest = max(_varint_bytes(int(fill)) for fill in feature.fills)
    for plane in feature.planes:
        if plane is not None:
            dtype = plane_dtypes[plane]
            most = int(np.iinfo(dtype).max) if dtype.kind == "u" else -1
            longest = max(longest, _varint_bytes(most))
    return longest


def _varint_bytes(number: int) -> int:
    """Bytes of the varint of ``number``, ten of a negative one.

    >>> [_varint_bytes(number) for number in (0, 127, 128, 65535, -1)]
    [1, 1, 2, 3, 10]
    """
    return _LONGEST_VARINT if number < 0 else min(max(-(-number.bit_length() // 7), 1), _LONGEST_VARINT)
