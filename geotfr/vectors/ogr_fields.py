"""Columns as GDAL's vector formats hold them: the nearest type that loses no value, and what is rounded after all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError
from geotfr.vectors.arrow_arrays import as_numpy, booleans
from geotfr.vectors.extra import load
from geotfr.vectors.geometry import finite_shapes, shapes_of_wkb, wkb_axes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OgrColumn", "OgrGeometry"]

_OFFSET = re.compile(r"[+-]\d\d:\d\d")
_JSON = (".geojson", ".json")
# GDAL's dates and times are kept to the millisecond.
_UNITS_A_MS = {"us": 1_000, "ns": 1_000_000}


class OgrColumn:
    """What turns a column of a table into one that GDAL writes as it is, and counts what the format can't hold.

    GDAL knows no uint64, which it would make floats, and no names of time zones, whose times it would write in UTC
    without saying so. It knows no float16 either. SQLite has no NaN, JSON neither that nor infinity: GDAL writes null,
    but inside lists what isn't JSON.

    Parameters
    ----------
    field
        pyarrow field of the table.
    where
        The output, for errors.
    suffix
        The format: ``.gpkg``, ``.fgb``, ``.geojson`` or ``.json``.

    Attributes
    ----------
    field
        pyarrow field of the column that is written.
    """

    def __init__(self, field: Any, *, where: str, suffix: str) -> None:
        self.field = field.with_type(_held(field.type))
        self._where = where
        self._suffix = suffix
        self._is_cast = self.field.type != field.type
        self._rounded = 0
        self._nulls = 0

    def __call__(self, array: Any) -> Any:
        """``array`` as it is written.

        Raises
        ------
        UsageError
            A whole number beyond int64.
        """
        self._rounded += _finer_than_ms(array)
        if self._is_cast:
            try:
                array = array.cast(self.field.type)
            except load("pyarrow").ArrowInvalid as error:
                raise UsageError(
                    f"{self._where}: column {self.field.name!r} holds whole numbers beyond 2^63 - 1, the largest of"
                    " this format; use .parquet or .csv"
                ) from error
        is_lost = _without_place(array, self._suffix)
        if is_lost is None or not is_lost.any():
            return array
        self._nulls += int(np.count_nonzero(is_lost))
        pa = load("pyarrow")
        return load("pyarrow.compute").if_else(booleans(is_lost), pa.scalar(None, array.type), array)

    def warnings(self) -> list[str]:
        """What the format couldn't hold of the arrays so far, one line each."""
        types = load("pyarrow").types
        name, kind, suffix = self.field.name, self.field.type, self._suffix
        found = []
        if self._rounded:
            found.append(
                f"{name}: {self._rounded:,} times are rounded to milliseconds, which is what {suffix} holds; .parquet"
                " and .csv keep them"
            )
        if self._nulls:
            what = "arrays with numbers that aren't finite" if types.is_nested(kind) else "NaN"
            if not types.is_nested(kind) and suffix != ".gpkg":
                what = "numbers that aren't finite"
            found.append(
                f"{name}: {self._nulls:,} {what} are null in the output, as {suffix} has none; .parquet, .fgb and .csv"
                " keep them"
            )
        if types.is_time(kind) and suffix not in _JSON:
            found.append(f"{name}: times of day are written as text, as {suffix} has none; .parquet keeps them")
        if types.is_date(kind) and suffix == ".fgb":
            found.append(f"{name}: dates are written as times at midnight, as .fgb has none; .gpkg and .parquet do")
        return found


class OgrGeometry:
    """The geometries of a table as GDAL writes them; counts what the format can't hold of them.

    GDAL's FlatGeobuf has no empty geometry, and no heights unless all have them, which isn't known before. GeoJSON has
    no empty point and no number that isn't finite. None of the formats gets measures, as GDAL asks for them beforehand.

    Parameters
    ----------
    field
        pyarrow field of WKB.
    where, suffix
        See :class:`OgrColumn`.
    """

    def __init__(self, field: Any, *, where: str, suffix: str) -> None:
        self.field = field
        self._where = where
        self._suffix = suffix
        self._row = 0
        self._heights = self._measures = self._empty = self._infinite = 0

    def __call__(self, array: Any) -> Any:
        """``array`` as it is."""
        has_z, has_m = wkb_axes(array)
        self._heights += int(np.count_nonzero(has_z)) if self._suffix == ".fgb" else 0
        self._measures += int(np.count_nonzero(has_m))
        if self._suffix != ".gpkg":
            self._look_inside(array)
        return array

    def _look_inside(self, array: Any) -> None:
        import shapely

        shapes = shapes_of_wkb(array, where=self._where, first_row=self._row)
        self._row += len(shapes)
        is_empty = shapely.is_empty(shapes)
        if self._suffix == ".fgb":
            self._empty += int(np.count_nonzero(is_empty))
            return
        is_finite, is_high = finite_shapes(shapes), shapely.has_z(shapes)
        is_finite[is_high] &= finite_shapes(shapes[is_high], slice(3))
        self._infinite += int(np.count_nonzero(~is_finite))
        self._empty += int(np.count_nonzero(is_empty & (shapely.get_type_id(shapes) == shapely.GeometryType.POINT)))

    def warnings(self) -> list[str]:
        """What the format couldn't hold of the arrays so far, one line each."""
        told = {
            "have a z, which is left out": (self._heights, ".gpkg, .geojson and .parquet keep it"),
            "have an m, which is left out": (self._measures, ".parquet keeps it"),
            "are empty, and null in the output": (self._empty, ".gpkg and .parquet keep them"),
            "have a coordinate that isn't finite, and are null in the output": (
                self._infinite,
                ".gpkg, .fgb and .parquet keep them",
            ),
        }
        return [
            f"{self.field.name}: {count:,} geometries {what}, as {self._suffix} has none; {instead}"
            for what, (count, instead) in told.items()
            if count
        ]


def _without_place(array: Any, suffix: str) -> NDArray[np.bool_] | None:
    """``(n,) bool``: where a pyarrow array holds what the format of ``suffix`` has no number for; None: nowhere."""
    pa, pc = load("pyarrow"), load("pyarrow.compute")
    types = pa.types
    if types.is_floating(array.type) and suffix != ".fgb":
        lost = pc.is_nan(array) if suffix == ".gpkg" else pc.invert(pc.is_finite(array))
        return np.asarray(pc.fill_null(lost, False).to_numpy(zero_copy_only=False))
    if types.is_list(array.type) and types.is_floating(array.type.value_type) and suffix in _JSON:
        rows = as_numpy(pc.list_parent_indices(array))
        odd = _without_place(array.flatten(), suffix)
        found = np.zeros(len(array), np.bool_)
        found[rows[odd]] = True
        return found
    return None


def _held(arrow: Any) -> Any:
    """The type of GDAL's that holds the values of a pyarrow type."""
    pa = load("pyarrow")
    if pa.types.is_list(arrow):
        return pa.list_(_held(arrow.value_type))
    if pa.types.is_float16(arrow):
        return pa.float32()
    if pa.types.is_uint64(arrow):
        return pa.int64()
    if pa.types.is_timestamp(arrow) and arrow.tz is not None and not _OFFSET.fullmatch(arrow.tz):
        return pa.timestamp(arrow.unit, "UTC")
    return arrow


def _finer_than_ms(array: Any) -> int:
    """How many times of ``array`` are no whole milliseconds."""
    pa = load("pyarrow")
    if not (pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type)):
        return 0
    step = _UNITS_A_MS.get(array.type.unit)
    if step is None:
        return 0
    return int(np.count_nonzero(array.cast(pa.int64()).drop_null().to_numpy(zero_copy_only=False) % step))
