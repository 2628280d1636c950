"""Batches from GDAL's Arrow streams: checked offsets, null geometries, and times with the zones they have in the file.

GDAL 3.12 has two faults here. Its own stream of FlatGeobuf writes invalid offsets, or an empty value, where a geometry
is null. Its typed times drop the zones of FlatGeobuf, and mark times of a GeoPackage that have no zone as UTC. So
FlatGeobuf is read through the stream that GDAL makes of features, as of formats that have none of their own, and times
are read as text, in which each keeps its zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError
from geotfr.vectors.arrow_arrays import as_numpy
from geotfr.vectors.extra import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["OgrTimes", "check_batch", "time_columns"]

_ZONE = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})$"


def time_columns(schema: Any) -> list[str]:
    """The columns of dates with times, which come as text, as GDAL marks them in the stream's pyarrow ``schema``."""
    return [str(field.name) for field in schema if (field.metadata or {}).get(b"GDAL:OGR:type") == b"DateTime"]


@dataclass(frozen=True, slots=True)
class OgrTimes:
    """The columns of dates with times of a layer.

    Attributes
    ----------
    zoned
        Column -> whether its times are in UTC, because some of them have a zone.
    warnings
        Told where only some values of a column have a zone.
    """

    zoned: Mapping[str, bool]
    warnings: tuple[str, ...] = ()

    @staticmethod
    def of(names: list[str], batches: Iterable[Any], *, table: str) -> OgrTimes:
        """The columns ``names``, after a look at all their values."""
        pc = load("pyarrow.compute")
        counts = {name: [0, 0] for name in names}
        for batch in batches:
            for name, count in counts.items():
                found = pc.match_substring_regex(batch.column(name), _ZONE)
                count[0] += pc.sum(found).as_py() or 0
                count[1] += len(found) - found.null_count
        warnings = [
            f"{table}: column {name!r}: {there - zoned:,} of {there:,} times have no time zone; they are read as UTC"
            for name, (zoned, there) in counts.items()
            if 0 < zoned < there
        ]
        return OgrTimes({name: zoned > 0 for name, (zoned, _) in counts.items()}, tuple(warnings))

    def schema(self, schema: Any) -> Any:
        """The pyarrow ``schema`` with the columns' types, to the millisecond."""
        pa = load("pyarrow")
        for name, zoned in self.zoned.items():
            kind = pa.timestamp("ms", "UTC") if zoned else pa.timestamp("ms")
            schema = schema.set(schema.get_field_index(name), pa.field(name, kind))
        return schema

    def typed(self, batch: Any, schema: Any, *, table: str, first_row: int) -> Any:
        """A pyarrow batch with the times of the ``schema`` that :meth:`schema` made.

        Raises
        ------
        InputError
            A time that no timestamp holds, as one before the year 0.
        """
        pa, pc = load("pyarrow"), load("pyarrow.compute")
        arrays = list(batch.columns)
        for name, zoned in self.zoned.items():
            place = schema.get_field_index(name)
            texts = arrays[place]
            if zoned:
                is_zoned = pc.match_substring_regex(texts, _ZONE)
                texts = pc.if_else(is_zoned, texts, pc.binary_join_element_wise(texts, "Z", ""))
            try:
                arrays[place] = texts.cast(schema.field(place).type)
            except pa.ArrowInvalid as error:
                raise InputError(
                    f"{table}: column {name!r}: a time of the rows from {first_row} on can't be read:"
                    f" {' '.join(str(error).split())}"
                ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def check_batch(batch: Any, *, table: str, first_row: int) -> Any:
    """``batch``, if the offsets and sizes of all its arrays are valid. Whether text is UTF-8 is left open.

    Raises
    ------
    InputError
        An array that would read memory of others, or lose values.
    """
    pa = load("pyarrow")
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        try:
            _check_array(array)
        except (pa.ArrowException, ValueError) as error:
            raise InputError(
                f"{table}: column {name!r}: GDAL gives values that aren't whole in the rows from {first_row} on"
                f" ({' '.join(str(error).split())}); convert the file to GeoPackage or Parquet first"
            ) from error
    return batch


def _check_array(array: Any) -> None:
    pa = load("pyarrow")
    types = pa.types
    if types.is_list(array.type) or types.is_large_list(array.type):
        array.validate()
        if (np.diff(as_numpy(array.offsets)) < 0).any():
            raise ValueError("offsets of lists that decrease")
        _check_array(array.values)
    elif types.is_string(array.type) or types.is_large_string(array.type):
        array.view(pa.binary() if types.is_string(array.type) else pa.large_binary()).validate(full=True)
    else:
        array.validate(full=True)
