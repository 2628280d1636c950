"""numpy's memory as pyarrow arrays and back, without a copy.

pyarrow's own ways (``array``, ``scalar``, ``to_numpy``) import pandas where it is installed, to know its types: a third
of a second of processor time, and 45 MB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.vectors.extra import load_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "as_numpy",
    "blobs",
    "booleans",
    "constant",
    "numbers",
    "numbers_but_nan",
    "present_rows",
    "repeated_text",
    "texts",
    "texts_by_number",
]

_FEW_RUNS = 256
_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}


def numbers(values: NDArray[Any], *, valid: NDArray[np.bool_] | None = None) -> Any:
    """Integers or floats ``(n,)`` as an array of their type; null where ``valid`` ``(n,) bool`` is False.

    >>> numbers(np.array([1, 2, 3]), valid=np.array([True, False, True])).to_pylist()
    [1, None, 3]
    """
    pa = load_arrow()
    values = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [_bits(valid), pa.py_buffer(values)])


def numbers_but_nan(values: NDArray[np.float64]) -> Any:
    """Floats ``(n,)`` as an array whose NaN are null."""
    missing = np.isnan(values)
    return numbers(values, valid=~missing if missing.any() else None)


def booleans(values: NDArray[np.bool_]) -> Any:
    """``(n,) bool`` as an array."""
    pa = load_arrow()
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def blobs(values: NDArray[np.uint8]) -> Any:
    """``(n, bytes) uint8`` as an array of binaries of that size."""
    pa = load_arrow()
    kind = pa.binary(values.shape[1])
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def texts(values: Sequence[str]) -> Any:
    """Some texts as an array."""
    pa = load_arrow()
    coded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, coded)], dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(coded), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(coded))])


def texts_by_number(places: NDArray[np.int64] | NDArray[np.int32], values: Sequence[str]) -> Any:
    """The texts of ``values`` at ``places`` ``(n,)``; -1 is null.

    >>> texts_by_number(np.array([1, -1, 0]), ["a", "b"]).to_pylist()
    ['b', None, 'a']
    """
    pa = load_arrow()
    starts = np.flatnonzero(np.diff(places, prepend=places[:1] - 1))
    if len(starts) <= _FEW_RUNS:
        return _runs_of_texts(places, starts, values)
    missing = places < 0
    chosen = numbers(np.maximum(places, 0).astype(np.int32), valid=~missing if missing.any() else None)
    return pa.DictionaryArray.from_arrays(chosen, texts(values or [""])).cast(pa.string())


def constant(value: bool | float | str | None, kind: Any = None) -> Any:
    """A pyarrow scalar, of the type ``kind`` or, without one, of its own; None is a null of ``kind``.

    >>> constant(3).type, constant("a").as_py()
    (DataType(int64), 'a')
    """
    if value is None:
        return load_arrow().nulls(1, kind)[0]
    if isinstance(value, str):
        made = texts([value])[0]
    else:
        made = booleans(np.array([value]))[0] if isinstance(value, bool) else numbers(np.array([value]))[0]
    return made if kind is None else made.cast(kind)


def _runs_of_texts(places: NDArray[Any], starts: NDArray[np.int64], values: Sequence[str]) -> Any:
    """Texts that repeat from ``starts`` on, without pyarrow's compute functions: importing them takes 80 ms."""
    pa = load_arrow()
    coded = [b"" if place < 0 else values[place].encode() for place in places[starts].tolist()]
    counts = np.diff(starts, append=len(places))
    ends = np.zeros(len(places) + 1, np.int32)
    np.cumsum(np.repeat([len(text) for text in coded], counts), out=ends[1:])
    data = b"".join(text * count for text, count in zip(coded, counts.tolist(), strict=True))
    missing = places < 0
    valid = _bits(~missing if missing.any() else None)
    return pa.Array.from_buffers(pa.string(), len(places), [valid, pa.py_buffer(ends), pa.py_buffer(data)])


def repeated_text(value: str, count: int) -> Any:
    """``value`` ``count`` times; null where it is empty."""
    return texts_by_number(np.full(count, 0 if value else -1), [value])


def as_numpy(array: Any) -> NDArray[Any]:
    """A pyarrow array as numpy's; numbers that are null are NaN (or -1 where the others are whole), texts None.

    >>> as_numpy(numbers(np.array([1.5, 2.0]), valid=np.array([True, False])))
    array([1.5, nan])
    """
    pa = load_arrow()
    kind = array.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        found: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return found
    if array.null_count:
        missing = constant(-1 if pa.types.is_integer(kind) else np.nan, kind)
        array = load_arrow("pyarrow.compute").fill_null(array, missing)
    dtype = np.dtype(_FLOATS.get(str(kind), str(kind)))
    return np.frombuffer(array.buffers()[1] or b"", dtype)[array.offset : array.offset + len(array)]


def present_rows(array: Any) -> NDArray[np.bool_]:
    """Where a pyarrow array holds a value and no null, ``(n,) bool``.

    >>> present_rows(texts_by_number(np.array([1, -1]), ["a", "b"]))
    array([ True, False])
    """
    count = len(array)
    if array.null_count in (0, count):
        return np.full(count, array.null_count == 0)
    bits = np.frombuffer(array.buffers()[0], np.uint8)
    return np.unpackbits(bits, count=array.offset + count, bitorder="little")[array.offset :].view(np.bool_)


def _bits(values: NDArray[np.bool_] | None) -> Any:
    pa = load_arrow()
    return None if values is None else pa.py_buffer(np.packbits(values, bitorder="little"))
