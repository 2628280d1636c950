"""From payloads to columns: for each feature one array over many records.

Records that differ in their values only share a :class:`RecordMap`. It is made of the first such record and
proven for the others, so that a column is a strided view. What :mod:`geotfr.records.locate` leaves is decoded by
protobuf, one record at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from geotfr.records.kind import Kind
from geotfr.records.locate import feature_keys
from geotfr.records.varints import unpack_varints

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from geotfr.records.locate import FeaturePlace, RecordMap

    FeatureValues = NDArray[np.float32] | NDArray[np.int64] | NDArray[np.uint8] | list[tuple[bytes, ...]] | None
    Signature = tuple[tuple[str, str, tuple[int, ...]], ...]

__all__ = ["Columns", "DecodingError", "GrowthError", "columns_of", "decode_example", "message_values", "shape_of"]

MOST_ORDERS = 1024
"""Sets of keys whose order is kept."""

PROTOBUF_GROWTH = 28
"""Measured: what a hostile list of empty values grows to in memory for each byte of it, protobuf's array (which
doubles) and Python's values together."""


class DecodingError(Exception):
    """A payload that is no Example; the message says why."""


class GrowthError(Exception):
    """Values that would take more memory than allowed; the message says how much."""

    def __init__(self, wanted: int, allowed: int) -> None:
        super().__init__(f"its values may take {wanted} bytes of memory, the limit is {allowed}")


@dataclass(frozen=True, slots=True)
class Columns:
    """The features of some records that have the same keys, kinds and lengths.

    Attributes
    ----------
    index
        ``(n,) int64``: which of the rows that were given, ascending.
    features
        key -> values, in the records' own order of keys.
    """

    index: NDArray[np.int64]
    features: dict[str, FeatureValues]

    def signature(self) -> Signature:
        """Keys, kinds and lengths: equal for columns that fit below each other."""
        return tuple((key, *shape_of(values)) for key, values in self.features.items())


def shape_of(values: FeatureValues) -> tuple[str, tuple[int, ...]]:
    """Kind and shape of one record's ``values``: ``float``, ``int64``, ``bytes`` (of one value), ``list`` or ``none``.

    The shape is (length,): of a ``list`` of bytes values their number, of ``none`` nothing.
    """
    if values is None:
        return "none", ()
    if isinstance(values, list):
        return "list", (len(values[0]),)
    return Kind.of_dtype(values.dtype).value, values.shape[1:]


def columns_of(
    found: RecordMap,
    rows: NDArray[np.uint8],
    index: NDArray[np.int64],
    names: Collection[str] | None,
    growth_limit: int,
) -> Iterator[Columns]:
    """The features of ``rows`` ``(n, payload bytes) uint8`` that all have the places ``found``.

    One :class:`Columns`, or several where int64 lists of as many bytes hold different counts of values.
    Floats and bytes are views. Raises DecodingError for varints that protobuf would refuse, GrowthError.
    """
    features: dict[str, FeatureValues] = {}
    counts = []
    for (_, key), (place,) in found.places.items():
        if names is not None and key not in names:
            continue
        if place.kind is Kind.INT64 and place.spans:
            ((start, stop),) = place.spans
            chunk = rows[:, start:stop]
            counts.append((chunk < 0x80).sum(axis=1))
            features[key] = None if np.ptp(counts[-1]) else _integers(chunk, counts[-1], growth_limit)
        else:
            features[key] = _values(rows, place)
    if all(np.ptp(count) == 0 for count in counts):
        yield Columns(index, features)
        return
    kinds, kind_of = np.unique(np.stack(counts, axis=1), axis=0, return_inverse=True)
    for kind in range(len(kinds)):
        some = np.flatnonzero(kind_of.reshape(-1) == kind)
        yield from columns_of(found, rows[some], index[some], names, growth_limit)


def _integers(chunk: NDArray[np.uint8], counts: NDArray[np.int64], growth_limit: int) -> NDArray[np.int64]:
    wanted = 8 * int(counts[0])
    if wanted > growth_limit:
        raise GrowthError(wanted, growth_limit)
    if counts[0] == chunk.shape[1]:
        return chunk.astype(np.int64)
    values = unpack_varints(np.ascontiguousarray(chunk).reshape(-1))
    if values is None:
        raise DecodingError("an int64 value has more than ten bytes")
    return values.reshape(len(chunk), -1)


def _values(rows: NDArray[np.uint8], place: FeaturePlace) -> FeatureValues:
    if place.kind is None:
        return None
    if place.kind is Kind.BYTES and len(place.spans) != 1:
        return [tuple(row[start:stop].tobytes() for start, stop in place.spans) for row in rows]
    if not place.spans:
        return np.empty((len(rows), 0), place.kind.dtype)
    ((start, stop),) = place.spans
    chunk = rows[:, start:stop]
    if place.kind is Kind.BYTES:
        return chunk
    return chunk.view(place.kind.wire_dtype)


def decode_example(
    payload: bytes,
    index: NDArray[np.int64],
    names: Collection[str] | None,
    growth_limit: int,
    orders: dict[frozenset[str], list[str]] | None = None,
) -> Columns:
    """The features of any one Example, by protobuf, whose maps have no order.

    ``index`` has one element. ``orders`` keeps the order of keys of the first record that has them, for those to
    come. Raises DecodingError for what is no Example, GrowthError.
    """
    from google.protobuf.message import DecodeError

    from geotfr.records.messages import example_class

    if len(payload) * PROTOBUF_GROWTH > growth_limit:
        raise GrowthError(len(payload) * PROTOBUF_GROWTH, growth_limit)
    try:
        found = cast("Any", example_class().FromString(payload)).features.feature
    except DecodeError as error:
        raise DecodingError("the payload is no tf.train.Example") from error
    keys = frozenset(found)
    orders = {} if orders is None else orders
    if keys not in orders:
        if len(orders) >= MOST_ORDERS:
            orders.clear()
        # protobuf drops an entry that has unknown fields, and reads on behind a group, which feature_keys doesn't.
        ordered = [key for key in feature_keys(payload) if key in keys]
        orders[keys] = ordered + sorted(keys.difference(ordered))
    features: dict[str, FeatureValues] = {}
    for key in orders[keys]:
        if names is not None and key not in names:
            continue
        features[key] = message_values(found[key])
    return Columns(index, features)


def message_values(feature: Any) -> FeatureValues:
    """The values of a protobuf Feature as those of a batch of one record."""
    kind = Kind.of_message(feature)
    if kind is None:
        return None
    values = getattr(feature, kind.oneof).value
    if kind is Kind.BYTES:
        return np.frombuffer(values[0], np.uint8)[None] if len(values) == 1 else [tuple(values)]
    return np.array(values, kind.dtype)[None]
