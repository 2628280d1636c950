"""geotfr's own manifest: what Earth Engine's mixer does not tell.

Snake_case JSON, written last, so that its presence means a whole set. It holds no time, no absolute path and no
number of workers: the same input and options give the same bytes. ``docs/reference/manifest.md`` describes the keys.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import DamagedError, InputError
from geotfr.mixer.cards import card, grid_sketch, layout_facts, listed
from geotfr.mixer.foreign_grid import check_layout, foreign_geobox
from geotfr.mixer.strict_json import check_types, may_be_json, read_json, understanding
from geotfr.patches.cut import clamped_fill

if TYPE_CHECKING:
    from geotfr.grid import GeoBox

__all__ = [
    "MANIFEST_FORMAT",
    "BandInfo",
    "CollectionPlace",
    "LabelChannel",
    "Manifest",
    "ShardInfo",
    "SourceInfo",
    "is_manifest",
    "manifest_of",
    "read_manifest",
]

MANIFEST_FORMAT = 1
_DTYPE = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class BandInfo:
    """One feature.

    Attributes
    ----------
    name
        Its key.
    dtype
        The band's pixel type.
    kind
        ``bytes``, ``int64`` or ``float``.
    depth
        Channels of a tensor; None for a scalar band.
    nodata
        The source's nodata value.
    fill
        The value of masked pixels in the records: the default value in the band's type. None where channels differ, and
        in manifests of older versions.
    """

    name: str
    dtype: str
    kind: str
    depth: int | None
    nodata: float | int | str | None
    fill: float | int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelChannel:
    """A channel of a feature that holds labels: class numbers or numbers of shapes, which are counted, never scaled.

    Attributes
    ----------
    feature, channel
        The feature, and the number of its channel: 0 for a scalar band.
    band
        Name of the labels.
    classes
        (name, value) of each class; empty where the values have no names.
    """

    feature: str
    channel: int
    band: str
    classes: tuple[tuple[str, int], ...]

    def class_name(self, value: int) -> str:
        """The name of a class; its number where it has none.

        >>> LabelChannel(feature="cover", channel=0, band="cover", classes=(("water", 2),)).class_name(2)
        'water'
        """
        return next((name for name, number in self.classes if number == value), str(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardInfo:
    """One shard file: ``name`` without folder, ``records``, ``bytes`` on disk and their ``crc32c`` (8 hex digits)."""

    name: str
    records: int
    bytes: int
    crc32c: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceInfo:
    """One source raster: its ``name`` without folder and its size in ``bytes``."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionPlace:
    """Where a raster's records begin in shards that it shares with other rasters of a collection.

    Attributes
    ----------
    first_record
        How many records of the collection come before them: rasters that are added later don't change it.
    first_in_shard
        How many records of the first of the raster's shards come before them.
    """

    first_record: int
    first_in_shard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A set of shards and how it was made.

    Attributes
    ----------
    geotfr_version
        The version that wrote it.
    options
        The options as used, in snake_case.
    geobox
        The whole grid, the edge that patches leave out included.
    patch_yx, kernel_yx, margin_yx
        (rows, columns).
    rows, columns
        Patches of the grid.
    left_out_yx
        Pixel rows and columns along the lower and right edge that no patch holds.
    bands
        The features, in the order in which records hold them.
    patches_written, patches_dropped
        A count, and the numbers of the patches left out: for ``masked_threshold``, or because they weren't chosen.
    shards
        In order.
    sources
        In order.
    compressor, compressor_level, compressor_library
        ``none``, ``fast`` or ``ee``; level and library are None for ``none``.
    pixels_unreadable
        Pixels that couldn't be read from the sources and were masked on request.
    labels
        What the labels are: band, classes, background, ignore value, instances, features of the shapes, source; None
        without.
    collection
        Where the raster's records begin, if ``shards`` are files that it shares with other rasters; else None.
    """

    geotfr_version: str
    options: dict[str, Any]
    geobox: GeoBox
    patch_yx: tuple[int, int]
    kernel_yx: tuple[int, int]
    margin_yx: tuple[int, int]
    rows: int
    columns: int
    left_out_yx: tuple[int, int]
    bands: tuple[BandInfo, ...]
    patches_written: int
    patches_dropped: tuple[int, ...]
    shards: tuple[ShardInfo, ...]
    sources: tuple[SourceInfo, ...]
    compressor: str
    compressor_level: int | None
    compressor_library: str | None
    pixels_unreadable: int = 0
    labels: dict[str, Any] | None = None
    collection: CollectionPlace | None = None

    @property
    def pads_edge(self) -> bool:
        """Whether partial patches reach beyond ``geobox``; a mixer's grid holds them whole."""
        return self.options.get("edge") == "pad"

    @property
    def valid_feature(self) -> str | None:
        """The feature that is 1 where a pixel is valid and 0 where it is masked, if the records have one."""
        return self.options.get("valid_feature")

    @property
    def data_bands(self) -> tuple[BandInfo, ...]:
        """The features that hold pixels of the sources or labels: all bands but the validity."""
        return tuple(band for band in self.bands if band.name != self.valid_feature)

    @property
    def fills(self) -> dict[str, float]:
        """Feature -> value of masked pixels in its records; absent where channels differ."""
        bands = self.data_bands
        if any(band.fill is not None for band in bands):
            return {band.name: band.fill for band in bands if band.fill is not None}
        # Older versions told the default value alone.
        default = self.options.get("default_value", 0)
        return {band.name: clamped_fill(default, np.dtype(band.dtype)) for band in bands if band.depth is None}

    @property
    def label_channels(self) -> tuple[LabelChannel, ...]:
        """The channels that hold labels: features of their own, or the last channels of a collapsed tensor."""
        if self.labels is None:
            return ()
        classes = tuple((str(name), int(value)) for name, value in self.labels["classes"].items())
        bands = [(str(self.labels["band"]), classes)]
        bands += [] if self.labels.get("instances") is None else [(str(self.labels["instances"]), ())]
        if not self.options.get("collapse_bands"):
            return tuple(LabelChannel(feature=band, channel=0, band=band, classes=classes) for band, classes in bands)
        (tensor, *_), depth = self.bands, self.bands[0].depth or 0
        return tuple(
            LabelChannel(feature=tensor.name, channel=depth - len(bands) + place, band=band, classes=classes)
            for place, (band, classes) in enumerate(bands)
        )

    @property
    def object_features(self) -> tuple[str, ...]:
        """Features that tell the shapes in a patch: their lists have another length in each record."""
        return tuple((self.labels or {}).get("features", ()))

    @property
    def records(self) -> int:
        """Records in all shards: one a patch, or with ``sequence_data`` one for each pixel of a patch's block."""
        if not self.options.get("sequence_data"):
            return self.patches_written
        height, width = (side + 2 * margin for side, margin in zip(self.patch_yx, self.margin_yx, strict=True))
        return self.patches_written * height * width

    @property
    def run(self) -> range | None:
        """Which records of its shards are the raster's; None for all."""
        if self.collection is None:
            return None
        return range(self.collection.first_in_shard, self.collection.first_in_shard + self.records)

    def _repr_html_(self) -> str:
        (height, width), (margin_y, margin_x) = self.geobox.shape_yx, self.margin_yx
        size = sum(shard.bytes for shard in self.shards)
        names = listed(source.name for source in self.sources) or "no known raster"
        facts = [
            ("raster", f"{width:,} x {height:,} pixels of {names}"),
            *layout_facts(
                crs=self.geobox.crs,
                affine=self.geobox.affine,
                patch_yx=self.patch_yx,
                rows=self.rows,
                columns=self.columns,
            ),
            ("margin", f"{margin_x} x {margin_y}"),
            ("left out", f"{self.left_out_yx[1]} columns and {self.left_out_yx[0]} rows along the edges"),
            ("written", f"{self.patches_written:,} patches, {len(self.patches_dropped):,} dropped as masked"),
            ("bands", listed(f"{band.name} ({band.kind})" for band in self.bands)),
            ("shards", f"{len(self.shards):,}, {size:,} bytes, {self.compressor}"),
        ]
        sketch = grid_sketch(
            shape_yx=self.geobox.shape_yx,
            patch_yx=self.patch_yx,
            rows=self.rows,
            columns=self.columns,
            margin_yx=self.margin_yx,
        )
        return card("manifest", facts, sketch)

    def to_text(self) -> str:
        """The manifest's JSON, the same characters for the same content."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """The manifest in JSON types."""
        return {
            "format": MANIFEST_FORMAT,
            "geotfr_version": self.geotfr_version,
            "options": self.options,
            "grid": {
                "crs": self.geobox.crs,
                "transform": list(self.geobox.affine),
                "height": self.geobox.shape_yx[0],
                "width": self.geobox.shape_yx[1],
            },
            "patch": _pair(self.patch_yx),
            "kernel": _pair(self.kernel_yx),
            "margin": _pair(self.margin_yx),
            "rows": self.rows,
            "columns": self.columns,
            "left_out": {"rows": self.left_out_yx[0], "columns": self.left_out_yx[1]},
            "bands": [asdict(band) for band in self.bands],
            "patches_written": self.patches_written,
            "patches_dropped": list(self.patches_dropped),
            "pixels_unreadable": self.pixels_unreadable,
            **({} if self.labels is None else {"labels": self.labels}),
            **({} if self.collection is None else {"collection": asdict(self.collection)}),
            "shards": [asdict(shard) for shard in self.shards],
            "sources": [asdict(source) for source in self.sources],
            "compressor": {
                "name": self.compressor,
                "level": self.compressor_level,
                "library": self.compressor_library,
            },
            "complete": True,
        }


def is_manifest(path: str | Path) -> bool:
    """Whether ``path`` holds a manifest, by its content."""
    try:
        if not may_be_json(path):
            return False
        found = read_json(path, what="manifest")
    except (DamagedError, InputError, OSError, MemoryError):
        return False
    return "geotfr_version" in found and "shards" in found


def read_manifest(path: str | Path) -> Manifest:
    """The manifest in the file ``path``.

    Raises
    ------
    MissingInputError
        There is no such file.
    DamagedError
        It isn't a manifest, or of a newer format, or a part is missing or of another type.
    """
    found = read_json(path, what="manifest")
    version = found.get("format")
    if version != MANIFEST_FORMAT:
        raise DamagedError(
            f"{path}: manifest format {version!r} is not known; this geotfr reads format {MANIFEST_FORMAT}"
        )
    with understanding(path, "manifest"):
        return manifest_of(found)


def manifest_of(found: dict[str, Any]) -> Manifest:
    """The manifest of which ``found`` is the JSON; KeyError, TypeError and ValueError tell that it's none."""
    made = Manifest(
        geotfr_version=str(found["geotfr_version"]),
        options=_options(found["options"]),
        geobox=foreign_geobox(found["grid"]),
        patch_yx=_yx(found["patch"]),
        kernel_yx=_yx(found["kernel"]),
        margin_yx=_yx(found["margin"]),
        rows=int(found["rows"]),
        columns=int(found["columns"]),
        left_out_yx=(int(found["left_out"]["rows"]), int(found["left_out"]["columns"])),
        bands=tuple(BandInfo(**band) for band in found["bands"]),
        patches_written=int(found["patches_written"]),
        patches_dropped=tuple(int(number) for number in found["patches_dropped"]),
        shards=tuple(ShardInfo(**shard) for shard in found["shards"]),
        sources=tuple(SourceInfo(**source) for source in found["sources"]),
        compressor=str(found["compressor"]["name"]),
        compressor_level=found["compressor"]["level"],
        compressor_library=found["compressor"]["library"],
        pixels_unreadable=int(found.get("pixels_unreadable", 0)),
        labels=None if found.get("labels") is None else dict(found["labels"]),
        collection=None if found.get("collection") is None else _place(found["collection"]),
    )
    check_layout(patch_yx=made.patch_yx, margin_yx=made.margin_yx, rows=made.rows, columns=made.columns)
    count = made.rows * made.columns
    if any(not 0 <= number < count for number in made.patches_dropped):
        raise ValueError(f"patches_dropped: numbers from 0 to {count - 1} are expected")
    if not 0 <= made.patches_written <= count:
        raise ValueError(f"patches_written is {made.patches_written} of {count}")
    for each in (made, *made.bands, *made.shards, *made.sources):
        check_types(each)
    name = made.valid_feature
    if name is not None and [(band.kind, band.depth) for band in made.bands if band.name == name] != [("bytes", None)]:
        raise ValueError(f"options.valid_feature is {name!r}, and bands has no one feature of bytes by that name")
    for band in made.bands:
        if not _DTYPE.fullmatch(band.dtype) or (band.depth is not None and band.depth < 1):
            raise ValueError(f"band {band.name!r} is of {band.dtype!r}, depth {band.depth}")
    return made


def _options(found: dict[str, Any]) -> dict[str, Any]:
    """The options; those that are read one by one have their types."""
    if not isinstance(found, dict):
        raise TypeError(f"options: found a {type(found).__name__}, an object is expected")
    options = dict(found)
    for names, kinds in _READ_OPTIONS.items():
        for name in names:
            if name in options and type(options[name]) not in kinds:
                raise TypeError(f"options.{name} is {options[name]!r}")
    return options


_READ_OPTIONS: dict[tuple[str, ...], tuple[type, ...]] = {
    ("edge", "naming", "compressor"): (str,),
    ("patch_index", "valid_feature"): (str, type(None)),
    ("sequence_data",): (bool,),
    ("default_value", "masked_threshold", "max_file_size"): (int, float),
}


def _place(found: dict[str, Any]) -> CollectionPlace:
    counts = {key: int(found[key]) for key in ("first_record", "first_in_shard")}
    for key, count in counts.items():
        if count < 0:
            raise ValueError(f"{key} is {count}")
    return CollectionPlace(**counts)


def _pair(pair_yx: tuple[int, int]) -> dict[str, int]:
    return {"height": pair_yx[0], "width": pair_yx[1]}


def _yx(pair: dict[str, Any]) -> tuple[int, int]:
    return int(pair["height"]), int(pair["width"])
