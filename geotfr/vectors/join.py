"""Predictions beside the rows that they were made for: by order, or by a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError, RecordError
from geotfr.vectors.extra import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from geotfr.vectors.source import Table

__all__ = ["joined_by_key", "joined_by_order"]


def joined_by_order(
    table: Table, records: Iterable[Any], names: Sequence[str], schema: Any, *, where: str
) -> Iterator[Any]:
    """The rows of ``table`` with the columns ``names`` of the batches ``records``, row by row; batches of ``schema``.

    Raises
    ------
    RecordError
        More records or fewer than rows; ``where`` names them.
    """
    pa = load("pyarrow")
    coming = iter(records)
    held: Any = None
    rows = 0
    for batch in table.batches():
        parts, missing = [], batch.num_rows
        while missing:
            if held is None or not held.num_rows:
                held = next(coming, None)
                if held is None:
                    found = rows + batch.num_rows - missing
                    raise RecordError(f"{where}: {found:,} records, {table.name} has more rows; use --key to join some")
            parts.append(held.slice(0, missing))
            held = held.slice(parts[-1].num_rows)
            missing -= parts[-1].num_rows
        rows += batch.num_rows
        if parts:
            found = pa.Table.from_batches(parts).combine_chunks()
            yield _beside(batch, [found[name].combine_chunks() for name in names], schema)
    if (held is not None and held.num_rows) or next(coming, None) is not None:
        raise RecordError(f"{where}: more than {rows:,} records, which is all the rows of {table.name}; use --key")


def joined_by_key(
    table: Table, records: Iterable[Any], names: Sequence[str], schema: Any, *, key: str, where: str
) -> Iterator[Any]:
    """The rows of ``table`` with the columns ``names`` of the record whose ``key`` is the row's; null where none is.

    All records are held in memory.

    Raises
    ------
    RecordError
        Two records with one key, a record without, or one whose key no row has.
    InputError
        Keys of types that can't be compared.
    """
    pa, pc = load("pyarrow"), load("pyarrow.compute")
    found = pa.Table.from_batches(list(records)).combine_chunks()
    keys = found[key].combine_chunks()
    wanted = table.schema.field(key).type
    try:
        keys = keys.cast(wanted)
    except pa.ArrowException as error:
        raise InputError(f"{where}: --key {key} holds {keys.type}, in {table.name} it is {wanted}: {error}") from error
    if keys.null_count:
        raise RecordError(f"{where}: {keys.null_count:,} records lack the key {key!r}; join by order, without --key")
    counts = pc.value_counts(keys)
    twice = pc.greater(counts.field("counts"), 1)
    if pc.any(twice).as_py():
        value = counts.field("values").filter(twice)[0].as_py()
        raise RecordError(f"{where}: several records have the key {key} = {value!r}; keys must differ")
    is_used = np.zeros(len(keys), np.bool_)
    for batch in table.batches():
        places = pc.index_in(batch.column(key), value_set=keys)
        is_used[places.drop_null().to_numpy(zero_copy_only=False)] = True
        yield _beside(batch, [found[name].combine_chunks().take(places) for name in names], schema)
    if not is_used.all():
        value = keys[int(np.argmin(is_used))].as_py()
        lost = int((~is_used).sum())
        raise RecordError(f"{where}: {lost:,} records have no row in {table.name}, the first with {key} = {value!r}")


def _beside(batch: Any, arrays: Sequence[Any], schema: Any) -> Any:
    return load("pyarrow").RecordBatch.from_arrays([*batch.columns, *arrays], schema=schema)
