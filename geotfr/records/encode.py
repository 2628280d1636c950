"""Python values as serialized Examples and SequenceExamples.

Features stand in the order given, lists are packed in one chunk: what Earth Engine writes, and the same bytes in every
run. (Protobuf puts map keys in an order that differs from process to process.)
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from geotfr.errors import UsageError
from geotfr.records.kind import Kind
from geotfr.records.varints import pack_varints, varint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    FeatureValue: TypeAlias = (
        "bytes | str | bool | int | float | np.generic | NDArray[Any] | Sequence[bytes | str | int | float] | None"
    )
    """What one feature may be made from; None leaves the feature out."""

    Kinds: TypeAlias = Mapping[str, str]
    """Key -> ``float``, ``int64`` or ``bytes`` (``float32`` and ``string`` too)."""

__all__ = ["FeatureValue", "Kinds", "encode_example", "encode_field", "encode_sequence_example", "encode_varints"]

_KIND_NAMES = {**{kind.value: kind for kind in Kind}, "float32": Kind.FLOAT, "string": Kind.BYTES}
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_UINT64_MAX = 2**64 - 1


def encode_example(features: Mapping[str, FeatureValue], *, kinds: Kinds | None = None) -> bytes:
    """A serialized ``tf.train.Example``.

    Parameters
    ----------
    features
        Key -> value. Text and bytes make a bytes list, whole numbers and booleans an int64 list, floats a float list;
        arrays go by their dtype and are flattened row by row; None is left out.
    kinds
        Key -> kind, where the type shouldn't decide: ``float`` for whole numbers, ``int64`` for whole floats, ``bytes``
        for a uint8 array as one value of raw bytes, any for an empty list.

    Raises
    ------
    UsageError
        A value that no kind can hold, or not exactly.

    >>> encode_example({"ndvi": 0.5}).hex(" ")
    '0a 12 0a 10 0a 04 6e 64 76 69 12 08 12 06 0a 04 00 00 00 3f'
    """
    return encode_field(_features(features, _named(kinds)))


def encode_sequence_example(
    context: Mapping[str, FeatureValue],
    feature_lists: Mapping[str, Sequence[FeatureValue] | NDArray[Any] | None],
    *,
    kinds: Kinds | None = None,
) -> bytes:
    """A serialized ``tf.train.SequenceExample``.

    Parameters
    ----------
    context
        As in :func:`encode_example`.
    feature_lists
        Key -> the steps, each a value as in :func:`encode_example`; of an array, the first axis is the steps.
    kinds
        As in :func:`encode_example`, for the context and the lists.

    Raises
    ------
    UsageError
        As :func:`encode_example`.

    >>> encode_sequence_example({}, {"ndvi": [0.5]}).hex(" ")
    '12 14 0a 12 0a 04 6e 64 76 69 12 0a 0a 08 12 06 0a 04 00 00 00 3f'
    """
    named = _named(kinds)
    entries = _features(context, named)
    lists = []
    for key, steps in feature_lists.items():
        if steps is not None:
            encoded = [
                encode_field(_feature(f"{key}, step {number}", each, named.get(key)))
                for number, each in enumerate(steps)
            ]
            lists.append(_entry(key, b"".join(encoded)))
    # An empty part is left out, as protobuf does.
    return (encode_field(entries) if entries else b"") + (encode_field(b"".join(lists), tag=b"\x12") if lists else b"")


def encode_varints(values: NDArray[np.int64]) -> bytes:
    """``values`` ``(n,)`` as packed varints.

    >>> encode_varints(np.array([1, 300, -1])).hex(" ")
    '01 ac 02 ff ff ff ff ff ff ff ff ff 01'
    """
    return pack_varints(np.ascontiguousarray(values, np.int64).reshape(1, -1))[0].tobytes()


def _named(kinds: Kinds | None) -> dict[str, Kind]:
    for key, name in (kinds or {}).items():
        if name not in _KIND_NAMES:
            raise UsageError(f"kind {name!r} of {key!r} is not known; use float, int64 or bytes")
    return {key: _KIND_NAMES[name] for key, name in (kinds or {}).items()}


def _features(features: Mapping[str, FeatureValue], kinds: Mapping[str, Kind]) -> bytes:
    if not hasattr(features, "items"):
        raise UsageError(f"found a {type(features).__name__}; a mapping of feature names to values is expected")
    return b"".join(
        _entry(key, _feature(key, value, kinds.get(key))) for key, value in features.items() if value is not None
    )


def _feature(key: str, value: FeatureValue, kind: Kind | None) -> bytes:
    """A serialized Feature; of no kind if ``value`` is None."""
    if value is None:
        return b""
    if isinstance(value, bytes | bytearray | memoryview | str):
        return _bytes_feature(key, [value], kind)
    # Single numbers are half of all features in tables; an array for each costs ten times as long.
    if isinstance(value, float) and kind in (None, Kind.FLOAT):
        return _list(Kind.FLOAT, encode_field(_packed_float(key, value)))
    if isinstance(value, int) and kind in (None, Kind.INT64) and _INT64_MIN <= value <= _INT64_MAX:
        return _list(Kind.INT64, encode_field(varint(value & _UINT64_MAX)))
    if isinstance(value, list | tuple) and value and all(isinstance(each, bytes | bytearray | str) for each in value):
        return _bytes_feature(key, value, kind)
    return _array_feature(key, value, kind)


def _array_feature(key: str, value: Any, kind: Kind | None) -> bytes:
    """A Feature of all that numpy makes an array of."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "SU" and not isinstance(value, np.ndarray | np.generic):
            # A list of numbers and text: numpy would make all of it text.
            array = np.asarray(value, object)
    except ValueError as error:
        raise UsageError(f"feature {key!r} is a list of rows of several lengths; flatten it first") from error
    if array.dtype.kind in "SUO":
        return _bytes_feature(key, array.ravel().tolist(), kind)
    if array.size == 0 and kind is None and not isinstance(value, np.ndarray | np.generic):
        raise UsageError(
            f"feature {key!r} is an empty list, which has no type; state its kind: kinds={{{key!r}: 'float'}}"
        )
    if kind is None:
        kind = Kind.INT64 if array.dtype.kind in "biu" else Kind.FLOAT
    if kind is Kind.BYTES:
        if not array.size:
            return _list(kind, b"")
        if array.dtype != np.uint8:
            raise UsageError(f"feature {key!r} is {array.dtype}, raw bytes are made of uint8; pass array.tobytes()")
        return _list(kind, encode_field(array.tobytes()))
    packed = _floats(key, array) if kind is Kind.FLOAT else encode_varints(_integers(key, array))
    return _list(kind, encode_field(packed) if array.size else b"")


def _bytes_feature(key: str, values: Sequence[Any], kind: Kind | None) -> bytes:
    if kind not in (None, Kind.BYTES):
        raise UsageError(f"feature {key!r} holds text or bytes, its kind is stated as {kind}; state bytes or nothing")
    encoded = [_utf8(value, f"feature {key!r}") if isinstance(value, str) else value for value in values]
    if not all(isinstance(value, bytes | bytearray | memoryview) for value in encoded):
        odd = next(value for value in encoded if not isinstance(value, bytes | bytearray | memoryview))
        raise UsageError(
            f"feature {key!r} holds a {type(odd).__name__} that fits no list; use numbers alone or text and bytes alone"
        )
    return _list(Kind.BYTES, b"".join(encode_field(bytes(value)) for value in encoded))


def _packed_float(key: str, value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError as error:
        raise _beyond_float32(key, "float") from error


def _beyond_float32(key: str, what: object) -> UsageError:
    return UsageError(f"feature {key!r} holds {what} values beyond float32 (3.4e38); scale them")


def _floats(key: str, array: NDArray[Any]) -> bytes:
    if array.dtype.kind not in "biuf":
        raise UsageError(f"feature {key!r} is {array.dtype}, which is no number; use float, int64 or bytes")
    with np.errstate(over="ignore"):
        narrow = array.astype("<f4")
    if array.dtype.itemsize > 4 and (np.isinf(narrow) & ~np.isinf(array)).any():
        raise _beyond_float32(key, array.dtype)
    return narrow.tobytes()


def _integers(key: str, array: NDArray[Any]) -> NDArray[np.int64]:
    if array.dtype.kind == "f":
        is_whole = np.isfinite(array) & (np.floor(array) == array) & (np.abs(array) < 2.0**63)
        if not is_whole.all():
            raise UsageError(f"feature {key!r} holds {array[~is_whole][0]}, which is no int64; state float or round it")
    elif array.dtype.kind not in "biu":
        raise UsageError(f"feature {key!r} is {array.dtype}, which is no number; use float, int64 or bytes")
    elif array.dtype == np.uint64 and (array > _INT64_MAX).any():
        raise UsageError(f"feature {key!r} holds {array.max()}, int64 ends at {_INT64_MAX}; state float or shift it")
    return array.astype(np.int64).ravel()


def _list(kind: Kind, values: bytes) -> bytes:
    return encode_field(values, tag=kind.tag)


def _entry(key: str, value: bytes) -> bytes:
    if not isinstance(key, str):
        raise UsageError(f"the key {key!r} is no text; use the feature's name")
    return encode_field(encode_field(_utf8(key, "a key")) + encode_field(value, tag=b"\x12"))


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} holds {text!r}, which is no Unicode text; give bytes, or mend the text") from error


def encode_field(payload: bytes, *, tag: bytes = b"\x0a") -> bytes:
    """A length-delimited field; field 1 unless told."""
    return b"".join((tag, varint(len(payload)), payload))
