"""The options that the export of tables and the sampling of rasters share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypedDict, get_args

from geotfr.flags import checked_flags
from geotfr.options.export import FeatureKinds
from geotfr.options.scope import BYTES, RIGHT, RUN
from geotfr.options.values import checked_choice, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Unpack

__all__ = ["GeometryMode", "TableCompressor", "TableKeywords", "TableOptions"]

GeometryMode = Literal["none", "lonlat", "wkb", "geojson"]
TableCompressor = Literal["fast", "ee"]


class TableKeywords(TypedDict, total=False):
    """The keywords of :class:`TableOptions`, as functions take them."""

    selectors: str | Sequence[str] | None
    layer: str | None
    where: str | None
    x: str | None
    y: str | None
    crs: str | None
    geometry: str | None
    feature_kinds: str
    compressor: str
    overwrite: bool
    workers: int | None
    allow_drivers: str | Iterable[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Which rows and columns of a table become records, and how.

    Attributes
    ----------
    selectors
        Columns, in the order of the features: ``"a,b,new=old"`` or a list. By default all.
    layer
        The layer, where a file has several.
    where
        A condition on columns, as ``"class in ('water', 'forest') and area > 2"``; OGR's SQL for the formats that
        GDAL reads.
    x, y
        Columns with the points' coordinates, where the table has no geometries.
    crs
        CRS of the geometries, in place of the source's own.
    geometry
        ``none``; ``lonlat``: the features ``longitude`` and ``latitude`` of points; ``wkb`` or ``geojson``: the
        feature ``geometry``. None: what the function takes by default.
    feature_kinds
        ``float``: numbers as float lists. ``native``: whole numbers and booleans as int64 lists.
    compressor
        ``fast``: gzip members that inflate in parallel. ``ee``: the very bytes Earth Engine writes, which are fewer.
    overwrite
        Replace an output that exists.
    workers
        Threads; None: as many as there are cores, up to 4. The bytes don't depend on it.
    allow_drivers
        GDAL drivers that may open vector files beside those of the known formats, as KML; only for files that you
        trust.
    """

    selectors: str | Sequence[str] | None = field(default=None, metadata=BYTES)
    layer: str | None = field(default=None, metadata=BYTES)
    where: str | None = field(default=None, metadata=BYTES)
    x: str | None = field(default=None, metadata=BYTES)
    y: str | None = field(default=None, metadata=BYTES)
    crs: str | None = field(default=None, metadata=BYTES)
    geometry: GeometryMode | None = field(default=None, metadata=BYTES)
    feature_kinds: FeatureKinds = field(default="float", metadata=BYTES)
    compressor: TableCompressor = field(default="fast", metadata=BYTES)
    overwrite: bool = field(default=False, metadata=RIGHT)
    workers: int | None = field(default=None, metadata=RUN)
    allow_drivers: tuple[str, ...] = field(default=(), metadata=RIGHT)

    @staticmethod
    def checked(**given: Unpack[TableKeywords]) -> TableOptions:
        """The options from keywords.

        Raises
        ------
        UsageError
            A choice that there isn't; the nearest one is named.

        >>> TableOptions.checked(where="class = 3").compressor
        'fast'
        """
        overwrite = checked_flags(TableKeywords, given).get("overwrite", False)
        geometry = given.get("geometry")
        return TableOptions(
            selectors=given.get("selectors"),
            layer=given.get("layer"),
            where=given.get("where"),
            x=given.get("x"),
            y=given.get("y"),
            crs=given.get("crs"),
            geometry=None if geometry is None else checked_choice("geometry", geometry, get_args(GeometryMode)),
            feature_kinds=checked_choice("feature_kinds", given.get("feature_kinds", "float"), get_args(FeatureKinds)),
            compressor=checked_choice("compressor", given.get("compressor", "fast"), get_args(TableCompressor)),
            overwrite=overwrite,
            workers=given.get("workers"),
            allow_drivers=texts(given.get("allow_drivers")),
        )
