"""The sets of shards that a patch table tells of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from geotfr.mixer.foreign_grid import check_layout, foreign_geobox
from geotfr.mixer.manifest import LabelChannel

if TYPE_CHECKING:
    from geotfr.grid import GeoBox
    from geotfr.patches.rows import PatchRows
    from geotfr.records.places import RecordPlaces

__all__ = ["PatchSet", "TablePart", "common_fills", "common_labels", "common_valid_feature"]


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
    labels
        Channels that hold labels.
    valid_feature
        The feature that tells which pixels are valid, or None.
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
    labels: tuple[LabelChannel, ...] = ()
    valid_feature: str | None = None
    first_in_shard: int | None = None

    @property
    def kernel_yx(self) -> tuple[int, int]:
        """(rows, columns) of a kernel with these margins."""
        return max(2 * self.margin_yx[0], 1), max(2 * self.margin_yx[1], 1)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        labels = [{**asdict(label), "classes": dict(label.classes)} for label in self.labels]
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
            **({"labels": labels} if labels else {}),
            **({} if self.valid_feature is None else {"valid_feature": self.valid_feature}),
            **({} if self.first_in_shard is None else {"first_in_shard": self.first_in_shard}),
        }

    @staticmethod
    def from_dict(found: Mapping[str, Any]) -> PatchSet:
        """What :meth:`to_dict` gave."""
        height, width = (int(side) for side in found["patch"])
        margin_y, margin_x = (int(side) for side in found["margin"])
        rows, columns = int(found["rows"]), int(found["columns"])
        check_layout(patch_yx=(height, width), margin_yx=(margin_y, margin_x), rows=rows, columns=columns)
        return PatchSet(
            source=str(found["source"]),
            geobox=foreign_geobox(found["grid"]),
            patch_yx=(height, width),
            margin_yx=(margin_y, margin_x),
            rows=rows,
            columns=columns,
            shards=tuple((str(name), int(size), str(crc)) for name, size, crc in found["shards"]),
            fills={str(name): float(value) for name, value in found["fills"].items()},
            labels=tuple(map(_label, found.get("labels", ()))),
            valid_feature=None if found.get("valid_feature") is None else str(found["valid_feature"]),
            first_in_shard=None if found.get("first_in_shard") is None else int(found["first_in_shard"]),
        )


def common_fills(sets: Sequence[PatchSet]) -> dict[str, float]:
    """What masked values of each feature hold, where it is the same in all sets."""
    first, *others = (dict(patches.fills) for patches in sets)
    return {name: fill for name, fill in first.items() if all(other.get(name) == fill for other in others)}


def common_labels(sets: Sequence[PatchSet]) -> tuple[LabelChannel, ...]:
    """The channels of some set that hold labels."""
    return tuple(dict.fromkeys(label for patches in sets for label in patches.labels))


def common_valid_feature(sets: Sequence[PatchSet]) -> str | None:
    """The feature that tells which pixels are valid, where it is the same in all sets."""
    names = {patches.valid_feature for patches in sets}
    return names.pop() if len(names) == 1 else None


def _label(found: Mapping[str, Any]) -> LabelChannel:
    return LabelChannel(
        feature=str(found["feature"]),
        channel=int(found["channel"]),
        band=str(found["band"]),
        classes=tuple((str(name), int(value)) for name, value in found["classes"].items()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """The rows of one set: what is in its patches, and where their records are."""

    patches: PatchSet
    rows: PatchRows
    places: RecordPlaces
