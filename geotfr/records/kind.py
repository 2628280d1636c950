"""The three lists that a Feature can hold, with all that depends on which one it is.

**Source**: TensorFlow's ``feature.proto``: ``oneof kind {BytesList bytes_list = 1; FloatList float_list = 2;
Int64List int64_list = 3}``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np

__all__ = ["Kind"]


class Kind(StrEnum):
    """The list that a Feature holds.

    Examples
    --------
    >>> Kind.of_number(2), Kind("int64").oneof, Kind.BYTES.tag
    (<Kind.FLOAT: 'float'>, 'int64_list', b'\\n')
    """

    BYTES = "bytes"
    FLOAT = "float"
    INT64 = "int64"

    @property
    def number(self) -> int:
        """The field of the oneof."""
        return _NUMBERS[self]

    @property
    def tag(self) -> bytes:
        """The byte in front of the list's length."""
        return bytes((self.number << 3 | 2,))

    @property
    def oneof(self) -> str:
        """The name of the field of the oneof."""
        return f"{self.value}_list"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of values in arrays: uint8 for the bytes of a value, float32, int64."""
        return _DTYPES[self]

    @property
    def wire_dtype(self) -> np.dtype[Any]:
        """Of values in a record: uint8 for the bytes of values and of varints, little-endian float32."""
        return _FLOAT32 if self is Kind.FLOAT else _UINT8

    @staticmethod
    def of_number(number: int) -> Kind | None:
        """The kind of a field of the oneof; None for another field."""
        return _OF_NUMBER.get(number)

    @staticmethod
    def of_message(feature: Any) -> Kind | None:
        """The kind of a protobuf Feature; None for one that holds no list."""
        name = feature.WhichOneof("kind")
        return None if name is None else Kind(name.removesuffix("_list"))

    @staticmethod
    def of_dtype(dtype: np.dtype[Any]) -> Kind:
        """The kind of values of ``dtype``: uint8, float32 or int64, in any byte order."""
        return _OF_DTYPE_KIND[dtype.kind]


_UINT8, _FLOAT32 = np.dtype(np.uint8), np.dtype("<f4")
_NUMBERS = {Kind.BYTES: 1, Kind.FLOAT: 2, Kind.INT64: 3}
_DTYPES: dict[Kind, np.dtype[Any]] = {
    Kind.BYTES: _UINT8,
    Kind.FLOAT: np.dtype(np.float32),
    Kind.INT64: np.dtype(np.int64),
}
_OF_NUMBER = {number: kind for kind, number in _NUMBERS.items()}
_OF_DTYPE_KIND = {dtype.kind: kind for kind, dtype in _DTYPES.items()}
