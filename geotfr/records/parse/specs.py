"""What a caller asks for: the five feature specs, with the names, the order and the meaning of ``tf.io``'s.

A spec is checked when it is made, so that nothing downstream meets a wrong one. **Source**: TensorFlow 2.21,
``tf.io.FixedLenFeature`` and its siblings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.records.kind import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "Feature",
    "FeatureDType",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "Partition",
    "RaggedFeature",
    "SparseFeature",
    "VarLenFeature",
    "array_of",
]

FeatureDType: TypeAlias = "type | np.dtype[Any] | str"
"""A numpy type, ``bytes``, or a name: ``float32``, ``int64``, ``bytes`` (``string`` too)."""

_KINDS = {"float32": Kind.FLOAT, "int64": Kind.INT64, "bytes": Kind.BYTES}
# What numpy may make of a default: bool, signed, unsigned, float.
_DEFAULT_KINDS = {Kind.FLOAT: "biuf", Kind.INT64: "biu"}


def array_dtype(kind: Kind) -> np.dtype[Any]:
    """The dtype of arrays with values of ``kind``: float32, int64, or object for bytes."""
    return np.dtype(object) if kind is Kind.BYTES else kind.dtype


def dtype_name(kind: Kind) -> str:
    """How specs call values of ``kind``: ``float32``, ``int64`` or ``bytes``."""
    return "bytes" if kind is Kind.BYTES else kind.dtype.name


def array_of(kind: Kind, values: Sequence[object]) -> NDArray[Any]:
    """``values`` as a flat array of the kind's dtype; bytes stay the objects that they are."""
    out = np.empty(len(values), array_dtype(kind))
    out[:] = values
    return out


def _numpy_name(dtype: object) -> str:
    # TensorFlow's dtypes carry a name too, so that its specs can be rewritten without touching them.
    name = getattr(dtype, "name", None)
    if isinstance(name, str):
        return name
    try:
        return np.dtype(dtype).name  # type: ignore[call-overload,no-any-return]
    except TypeError:
        return repr(dtype)


def _dtype_name(dtype: object) -> str:
    if dtype is bytes or (isinstance(dtype, str) and dtype in ("bytes", "string")):
        return "bytes"
    name = _numpy_name(dtype)
    name = {"string": "bytes"}.get(name, name)
    if name not in _KINDS:
        raise UsageError(f"dtype {name} is none that an Example holds; use float32, int64 or bytes")
    return name


def _shape(shape: object, spec: str) -> tuple[int, ...]:
    if shape is None:
        raise UsageError(f"{spec} needs a shape; use () for one value per record")
    if not isinstance(shape, int | np.integer | Iterable):
        raise UsageError(f"{spec} has shape {shape!r}; use a list of sizes")
    sizes = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if any(size is None for size in sizes):
        raise UsageError(f"{spec} of shape {list(sizes)} is not fixed; use FixedLenSequenceFeature")
    if not all(isinstance(size, int | np.integer) and size >= 0 for size in sizes):
        raise UsageError(f"{spec} has shape {list(sizes)}; use whole numbers, 0 or more")
    return tuple(int(size) for size in sizes)


def _default(value: object, dtype: str, shape: tuple[int, ...], spec: str) -> object:
    """``value`` as plain Python values nested like ``shape``, so that specs compare, print and pickle."""
    kind = _KINDS[dtype]
    try:
        # numpy's own bytes type drops zero bytes at the end.
        given = np.asarray(value, object if kind is Kind.BYTES else None)
    except ValueError as error:
        raise UsageError(
            f"{spec} has a default_value of rows of several lengths; use the shape {list(shape)}"
        ) from error
    if kind is Kind.BYTES:
        flat = [item.encode() if isinstance(item, str) else item for item in given.ravel()]
        if not all(isinstance(item, bytes) for item in flat):
            raise UsageError(f"{spec} has default_value {value!r}; a bytes feature takes bytes or text")
        given = array_of(kind, flat)
    elif given.size and (
        given.dtype.kind not in _DEFAULT_KINDS[kind]
        or (given.dtype == np.uint64 and kind is Kind.INT64 and given.max() > np.iinfo(np.int64).max)
    ):
        raise UsageError(f"{spec} has default_value {value!r}, which is not {dtype}")
    if given.size != math.prod(shape):
        raise UsageError(f"{spec} has a default_value of {given.size} values, {list(shape)} takes {math.prod(shape)}")
    with np.errstate(over="ignore"):
        return given.astype(array_dtype(kind)).reshape(shape).tolist()


def _key(key: object, spec: str, what: str) -> None:
    if not isinstance(key, str) or not key:
        raise UsageError(f"{spec} has {what} {key!r}; use the feature's name, a text that is not empty")


@dataclass(frozen=True, slots=True)
class FixedLenFeature:
    """The same number of values in every record: an array ``(batch, *shape)``.

    Parameters
    ----------
    shape
        Shape of one record's values; ``()`` for a single one. An int is a shape of one dimension.
    dtype
        See :data:`FeatureDType`.
    default_value
        Taken by records where the feature is missing, has no kind, or is an empty list; of ``shape``. Without
        it such a record is an error.

    Raises
    ------
    UsageError
        A shape with an open dimension, a dtype that Examples don't hold, a default that doesn't fit both.

    Examples
    --------
    >>> FixedLenFeature([2], np.float32, [0, 0])
    FixedLenFeature(shape=(2,), dtype='float32', default_value=[0.0, 0.0])
    """

    shape: Sequence[int] | int
    dtype: FeatureDType
    default_value: object = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        shape, dtype = _shape(self.shape, name), _dtype_name(self.dtype)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)
        if self.default_value is not None:
            object.__setattr__(self, "default_value", _default(self.default_value, dtype, shape, name))

    @property
    def kind(self) -> Kind:
        """The list that holds such values."""
        return _KINDS[str(self.dtype)]

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape, as a tuple."""
        return (self.shape,) if isinstance(self.shape, int) else tuple(self.shape)


@dataclass(frozen=True, slots=True)
class VarLenFeature:
    """Any number of values per record: a :class:`~geotfr.records.parse.values.SparseValue`.

    >>> VarLenFeature("string")
    VarLenFeature(dtype='bytes')
    """

    dtype: FeatureDType

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _dtype_name(self.dtype))

    @property
    def kind(self) -> Kind:
        """The list that holds such values."""
        return _KINDS[str(self.dtype)]


@checks_flags
@dataclass(frozen=True, slots=True)
class SparseFeature:
    """A sparse array kept in several features: its values, and for each dimension the index of every value.

    Parameters
    ----------
    index_key
        The int64 feature with the indices, or a list of them, one per dimension.
    value_key
        The feature with the values; as many as there are indices.
    dtype
        The values' type, see :data:`FeatureDType`.
    size
        The dense size of one record, a list if and only if ``index_key`` is one. Indices beyond it pass, as
        in TensorFlow.
    already_sorted
        True: the values stay in the record's order; False: they are sorted by index.

    Examples
    --------
    >>> SparseFeature(["ix0", "ix1"], "val", np.float32, [100, 3]).size
    (100, 3)
    """

    index_key: str | Sequence[str]
    value_key: str
    dtype: FeatureDType
    size: int | Sequence[int]
    already_sorted: bool = False

    def __post_init__(self) -> None:
        name = type(self).__name__
        _key(self.value_key, name, "value_key")
        keys = (self.index_key,) if isinstance(self.index_key, str) else tuple(self.index_key)
        if not keys:
            raise UsageError(f"{name} has no index_key; name an int64 feature for each dimension")
        for key in keys:
            _key(key, name, "index_key")
        is_single = isinstance(self.size, int | np.integer)
        if is_single != isinstance(self.index_key, str):
            raise UsageError(
                f"{name} has index_key {self.index_key!r} and size {self.size!r}; use a name and a number, or two lists"
            )
        sizes = (self.size,) if isinstance(self.size, int | np.integer) else tuple(self.size)
        if len(sizes) != len(keys):
            raise UsageError(f"{name} has {len(keys)} index keys and {len(sizes)} sizes; give one size per index key")
        object.__setattr__(self, "dtype", _dtype_name(self.dtype))
        object.__setattr__(self, "size", int(sizes[0]) if is_single else tuple(int(size) for size in sizes))
        if not is_single:
            object.__setattr__(self, "index_key", keys)

    @property
    def kind(self) -> Kind:
        """The list that holds such values."""
        return _KINDS[str(self.dtype)]

    @property
    def index_keys(self) -> tuple[str, ...]:
        """The index features, one per dimension."""
        return (self.index_key,) if isinstance(self.index_key, str) else tuple(self.index_key)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The dense size, one number per dimension."""
        return (self.size,) if isinstance(self.size, int) else tuple(self.size)


@checks_flags
@dataclass(frozen=True, slots=True)
class FixedLenSequenceFeature:
    """Any number of equal blocks per record: an array ``(batch, longest, *shape)``, padded.

    Parameters
    ----------
    shape
        Shape of one block; ``()`` for a list of single values.
    dtype
        See :data:`FeatureDType`.
    allow_missing
        Whether a record may lack the feature (it then has 0 blocks). ``parse_example`` asks for True, as
        TensorFlow does.
    default_value
        The one value that pads shorter records: by default 0, or empty bytes. In the feature lists of a
        SequenceExample the padding is always that default.

    Examples
    --------
    >>> FixedLenSequenceFeature([], np.int64, allow_missing=True).default_value is None
    True
    """

    shape: Sequence[int] | int
    dtype: FeatureDType
    allow_missing: bool = False
    default_value: object = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        shape, dtype = _shape(self.shape, name), _dtype_name(self.dtype)
        # TensorFlow 2.21 divides by the block's size: the process ends.
        if 0 in shape:
            raise UsageError(f"{name} has shape {list(shape)}: a block of 0 values has no count; use sizes from 1")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)
        if self.default_value is not None:
            object.__setattr__(self, "default_value", _default(self.default_value, dtype, (), name))

    @property
    def kind(self) -> Kind:
        """The list that holds such values."""
        return _KINDS[str(self.dtype)]

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape, as a tuple."""
        return (self.shape,) if isinstance(self.shape, int) else tuple(self.shape)


@checks_flags
@dataclass(frozen=True, slots=True)
class RaggedFeature:
    """Nested lists of any length: a :class:`~geotfr.records.parse.values.RaggedValue`.

    Parameters
    ----------
    dtype
        The values' type, see :data:`FeatureDType`.
    value_key
        The feature with the values; by default the key that the spec stands under.
    partitions
        From the outermost to the innermost, how the values are cut into rows:
        ``RaggedFeature.RowSplits(key)``, ``RowLengths``, ``RowStarts``, ``RowLimits``, ``ValueRowIds``, each
        naming an int64 feature, or ``UniformRowLength(length)``.
    row_splits_dtype
        ``int32`` (default) or ``int64``.
    validate
        There for TensorFlow's signature. Partitions are always checked record by record: one that doesn't
        cover its record's values would move values into the next record.

    Examples
    --------
    >>> RaggedFeature(np.int64, "v", [RaggedFeature.RowSplits("s")]).partitions
    (RaggedFeature.RowSplits(key='s'),)
    """

    @dataclass(frozen=True, slots=True)
    class RowSplits:
        """Where rows begin and end: 0, the end of row 0, the end of row 1, ..."""

        key: str

    @dataclass(frozen=True, slots=True)
    class RowLengths:
        """How many values each row has."""

        key: str

    @dataclass(frozen=True, slots=True)
    class RowStarts:
        """Where each row begins; the last one ends with the values."""

        key: str

    @dataclass(frozen=True, slots=True)
    class RowLimits:
        """Where each row ends; the first one begins at 0."""

        key: str

    @dataclass(frozen=True, slots=True)
    class ValueRowIds:
        """The row of each value, in ascending order."""

        key: str

    @dataclass(frozen=True, slots=True)
    class UniformRowLength:
        """Every row has ``length`` values."""

        length: int

    dtype: FeatureDType
    value_key: str | None = None
    partitions: Sequence[Partition] = ()
    row_splits_dtype: FeatureDType = np.int32
    validate: bool = False

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.value_key is not None:
            _key(self.value_key, name, "value_key")
        if not isinstance(self.partitions, list | tuple):
            raise UsageError(f"{name} has partitions {self.partitions!r}; use a list")
        for partition in self.partitions:
            if isinstance(partition, RaggedFeature.UniformRowLength):
                if partition.length < 1:
                    raise UsageError(f"{name} has {partition!r}; a row takes 1 value or more")
            elif isinstance(partition, _KEYED):
                _key(partition.key, name, "partition key")
            else:
                raise UsageError(f"{name} has the partition {partition!r}; use RaggedFeature.RowSplits and its like")
        splits = _numpy_name(self.row_splits_dtype)
        if splits not in ("int32", "int64"):
            raise UsageError(f"{name} has row_splits_dtype {splits}; use int32 or int64")
        object.__setattr__(self, "dtype", _dtype_name(self.dtype))
        object.__setattr__(self, "row_splits_dtype", splits)
        object.__setattr__(self, "partitions", tuple(self.partitions))

    @property
    def kind(self) -> Kind:
        """The list that holds such values."""
        return _KINDS[str(self.dtype)]


_KEYED = (
    RaggedFeature.RowSplits,
    RaggedFeature.RowLengths,
    RaggedFeature.RowStarts,
    RaggedFeature.RowLimits,
    RaggedFeature.ValueRowIds,
)

KeyedPartition: TypeAlias = (
    RaggedFeature.RowSplits
    | RaggedFeature.RowLengths
    | RaggedFeature.RowStarts
    | RaggedFeature.RowLimits
    | RaggedFeature.ValueRowIds
)
"""A partition that is read from a feature of the record."""

Partition: TypeAlias = KeyedPartition | RaggedFeature.UniformRowLength
"""One way of cutting values into rows."""

Feature: TypeAlias = FixedLenFeature | VarLenFeature | SparseFeature | FixedLenSequenceFeature | RaggedFeature
"""Any of the five specs."""
