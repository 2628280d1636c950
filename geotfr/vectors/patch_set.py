"""The sets of shards that a patch table tells of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from geotfr.grid import GeoBox
    from geotfr.patches.rows import PatchRows
    from geotfr.records.places import RecordPlaces

__all__ = ["PatchSet", "TablePart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchSet:
    """One set of shards of one grid, as the table's metadata tell it.

    Attributes
    ----------
    source
        What the patches were cut from: the names of the rasters, joined by ``+``; empty where nobody knows.
    geobox
        The grid.
    patch_yx, margin_yx
        (rows, columns).
    rows, columns
        Patches of the grid.
    shards
        (name, bytes, CRC32C as 8 hex digits or empty) of each shard.
    fills
        Feature -> what its masked values hold; absent where nobody knows.
    first_in_shard
        How many records of other rasters the first shard begins with, where rasters share shards; else None.
    """

    source: str
    geobox: GeoBox
    patch_yx: tuple[int, int]
    margin_yx: tuple[int, int]
    rows: int
    columns: int
    shards: tuple[tuple[str, int, str], ...]
    fills: Mapping[str, float]
    first_in_shard: int | None = None

    @property
    def kernel_yx(self) -> tuple[int, int]:
        """(rows, columns) of a kernel with these margins."""
        return max(2 * self.margin_yx[0], 1), max(2 * self.margin_yx[1], 1)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "source": self.source,
            "grid": {
                "crs": self.geobox.crs,
                "transform": list(self.geobox.affine),
                "height": self.geobox.shape_yx[0],
                "width": self.geobox.shape_yx[1],
            },
            "patch": list(self.patch_yx),
            "margin": list(self.margin_yx),
            "rows": self.rows,
            "columns": self.columns,
            "shards": [list(shard) for shard in self.shards],
            "fills": dict(self.fills),
            **({} if self.first_in_shard is None else {"first_in_shard": self.first_in_shard}),
        }

    @staticmethod
    def from_dict(found: Mapping[str, Any]) -> PatchSet:
        """What :meth:`to_dict` gave."""
        from geotfr.grid import GeoBox

        grid = found["grid"]
        a, b, c, d, e, f = (float(value) for value in grid["transform"])
        height, width = (int(side) for side in found["patch"])
        margin_y, margin_x = (int(side) for side in found["margin"])
        sides = {key: int(found[key]) for key in ("rows", "columns")}
        for key, side in sides.items():
            if not 0 <= side <= 10**7:
                raise ValueError(f"{key} is {side}")
        return PatchSet(
            source=str(found["source"]),
            geobox=GeoBox(
                shape_yx=(int(grid["height"]), int(grid["width"])), affine=(a, b, c, d, e, f), crs=str(grid["crs"])
            ),
            patch_yx=(height, width),
            margin_yx=(margin_y, margin_x),
            **sides,
            shards=tuple((str(name), int(size), str(crc)) for name, size, crc in found["shards"]),
            fills={str(name): float(value) for name, value in found["fills"].items()},
            first_in_shard=None if found.get("first_in_shard") is None else int(found["first_in_shard"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """The rows of one set: what is in its patches, and where their records are."""

    patches: PatchSet
    rows: PatchRows
    places: RecordPlaces
