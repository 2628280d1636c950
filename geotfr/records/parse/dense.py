"""Columns as dense arrays: the same number of values everywhere, or padded to the longest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.records.kind import Kind
from geotfr.records.parse.hints import shapes_that_fit
from geotfr.records.parse.specs import array_dtype, array_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geotfr.records.locate import Section
    from geotfr.records.parse.batch import Batch
    from geotfr.records.parse.columns import Column
    from geotfr.records.parse.specs import FixedLenFeature, FixedLenSequenceFeature

__all__ = ["fixed", "padded_blocks", "padded_steps"]


def fixed(batch: Batch, section: Section, key: str, column: Column, spec: FixedLenFeature) -> NDArray[Any]:
    """``(records, *shape)``.

    Missing features, ones without a kind and empty lists take the default. **Source**: TensorFlow's
    documentation of ``tf.io.parse_example``; TensorFlow 2.21 itself refuses the empty list.
    """
    wanted = math.prod(spec.dims)
    empty = ~column.present if wanted == 0 else column.counts == 0
    wrong = np.flatnonzero((column.counts != wanted) & ~empty)
    if wrong.size:
        number = int(wrong[0])
        found = int(column.counts[number])
        raise batch.error(
            number,
            f"feature {key!r} has {found} values, shape {list(spec.dims)} takes {wanted}; "
            f"{shapes_that_fit(found, spec.dims)}",
        )
    shape = (len(batch.records), *spec.dims)
    if not empty.any():
        return column.values.reshape(shape)
    if spec.default_value is None:
        number = int(np.flatnonzero(empty)[0])
        raise batch.missing(number, key, "feature", section, "give a default_value if it may be missing")
    out = np.empty((len(batch.records), wanted), array_dtype(column.kind))
    out[empty] = _default_values(spec, column.kind)
    out[~empty] = column.values.reshape(int((~empty).sum()), wanted)
    return out.reshape(shape)


def _default_values(spec: FixedLenFeature, kind: Kind) -> NDArray[Any]:
    if kind is not Kind.BYTES:
        return np.asarray(spec.default_value, array_dtype(kind)).reshape(-1)
    values = np.empty(spec.dims, object)
    values[...] = spec.default_value
    return values.reshape(-1)


def _padding(kind: Kind, value: object) -> object:
    if value is not None:
        return value
    return b"" if kind is Kind.BYTES else 0


def padded_blocks(batch: Batch, key: str, column: Column, spec: FixedLenSequenceFeature) -> NDArray[Any]:
    """``(records, longest, *shape)``: lists cut into blocks of ``shape``, padded with the default."""
    block = math.prod(spec.dims)
    wrong = np.flatnonzero(column.counts % block)
    if wrong.size:
        number = int(wrong[0])
        raise batch.error(
            number,
            f"feature {key!r} has {column.counts[number]} values, no multiple of {block} "
            f"(shape {list(spec.dims)}); use a shape that divides it, or VarLenFeature",
        )
    return _padded(column, column.counts // block, block, spec.dims, _padding(column.kind, spec.default_value))


def padded_steps(
    batch: Batch, key: str, column: Column, spec: FixedLenSequenceFeature
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """``(records, most steps, *shape)``, padded with 0 or empty bytes; and the steps per record."""
    block = math.prod(spec.dims)
    if not spec.allow_missing and not column.listed.all():
        number = int(np.flatnonzero(~column.listed)[0])
        raise batch.missing(number, key, "feature list", "feature_lists", "set allow_missing=True if it may be missing")
    wrong = np.flatnonzero(column.counts != block)
    if wrong.size:
        row = int(wrong[0])
        ends = np.cumsum(column.steps)
        number = int(np.searchsorted(ends, row, side="right"))
        step = row - int(ends[number] - column.steps[number])
        raise batch.error(
            number,
            f"feature list {key!r}, step {step} has {column.counts[row]} values, "
            f"shape {list(spec.dims)} takes {block}; use the steps' shape, or VarLenFeature where it varies",
        )
    return _padded(column, column.steps, block, spec.dims, _padding(column.kind, None)), column.steps


def _padded(
    column: Column, blocks: NDArray[np.int64], block: int, dims: tuple[int, ...], padding: object
) -> NDArray[Any]:
    """``column.values``, ``blocks`` per record, at the start of each record's row; the rest is padding."""
    longest = int(blocks.max(initial=0))
    if (blocks == longest).all():
        return column.values.reshape(len(blocks), longest, *dims)
    out = np.empty((len(blocks), longest, block), array_dtype(column.kind))
    out[...] = padding if column.kind is not Kind.BYTES else array_of(Kind.BYTES, [padding])
    out[np.arange(longest) < blocks[:, None]] = column.values.reshape(-1, block)
    return out.reshape(len(blocks), longest, *dims)
