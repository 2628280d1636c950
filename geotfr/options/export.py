"""The options of an export, in Earth Engine's spelling at the edge."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, get_args

from geotfr.errors import DamagedError, UsageError
from geotfr.flags import check_flag, checks_flags
from geotfr.grid import Affine6
from geotfr.grid.region import region_file
from geotfr.mixer.names import Naming
from geotfr.options.addresses import name_of
from geotfr.options.choice import ChoiceKeywords, ChoiceOptions, choice_options
from geotfr.options.labels import LabelKeywords, LabelOptions, label_options
from geotfr.options.scope import BYTES, FILES, RIGHT, keys_of
from geotfr.options.values import (
    PairXY,
    Size,
    at_least_one,
    band_list,
    checked_choice,
    checked_number,
    checked_share,
    nearest,
    nodata_text,
    parse_pair_yx,
    parse_size,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

__all__ = ["FORMAT_OPTIONS", "Compressor", "ExportKeywords", "ExportOptions"]

Compressor = Literal["fast", "ee"]
MaskMode = Literal["pixel", "band"]
FeatureKinds = Literal["float", "native"]
Edge = Literal["drop", "pad"]
Resampling = Literal["nearest", "bilinear", "cubic", "average", "mode"]
DEFAULT_MAX_SHARD_BYTES = 2**30
_LARGEST_SCALE = 1e12
# Squares of coordinates are float64 still.
_FARTHEST = 1e30
# Elements of an array band that are bands of the source itself.
_OWN_BANDS = re.compile(r"[^=]*=[\d,\s-]+")
# Earth Engine's formatOptions of a TFRecord image export -> the name here.
FORMAT_OPTIONS: dict[str, str] = {
    "patchDimensions": "patch_dimensions",
    "kernelSize": "kernel_size",
    "compressed": "compressed",
    "maxFileSize": "max_file_size",
    "defaultValue": "default_value",
    "tensorDepths": "tensor_depths",
    "sequenceData": "sequence_data",
    "collapseBands": "collapse_bands",
    "maskedThreshold": "masked_threshold",
}


class PatchKeywords(LabelKeywords, ChoiceKeywords, total=False):
    """The options of labels, and of which patches are written."""


class ExportKeywords(PatchKeywords, total=False):
    """The options of an export as keywords; :func:`geotfr.export_image` tells what each means."""

    format_options: Mapping[str, Any] | None
    patch_dimensions: PairXY | None
    kernel_size: PairXY | None
    compressed: bool | None
    compressor: str | None
    max_file_size: Size | None
    default_value: float | None
    masked_threshold: float | None
    tensor_depths: Mapping[str, int] | str | None
    sequence_data: bool | None
    collapse_bands: bool | None
    bands: str | Sequence[str | int] | None
    array_bands: Mapping[str, str] | Iterable[str] | None
    nodata: float | str | None
    masks: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None
    mask_mode: str | None
    unscale: bool
    complex_parts: bool
    feature_kinds: str | None
    patch_index: str | None
    valid_feature: str | None
    edge: str | None
    region: str | Mapping[str, Any] | tuple[float, float, float, float] | None
    clip_region: bool | None
    crs: str | None
    crs_transform: Sequence[float] | str | None
    scale: float | None
    dimensions: PairXY | None
    resampling: str | None
    naming: str | None
    allow_ungeoreferenced: bool
    allow_drivers: str | Iterable[str] | None
    allow_network: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What decides the bytes of an export; each option has Earth Engine's meaning.

    Attributes
    ----------
    patch_yx, kernel_yx
        (rows, columns), each at least 1.
    compressor
        ``none``, ``fast`` (gzip members that inflate in parallel) or ``ee`` (Earth Engine's bytes).
    max_shard_bytes
        Limit on a shard before compression, framing included.
    default_value
        Set in every band of a masked pixel.
    masked_threshold
        Largest share of masked pixels a patch may have; other than 1, no mixer is written.
    bands
        Selections, or None for all.
    nodata
        A number that replaces the sources' nodata tags, ``none`` to ignore them, or None to use them.
    tensor_depths
        (array band, depth of its tensor) pairs.
    sequence_data
        One SequenceExample per pixel instead of one Example per patch.
    collapse_bands
        All bands as one tensor, named after the first.
    array_bands
        Definitions of array bands, ``NAME=ELEMENTS``.
    masks
        Rasters whose zeros mask.
    mask_mode
        ``pixel``: a pixel masked in some band is filled in all. ``band``: each band has its own mask.
    unscale
        Apply the bands' scale and offset.
    complex_parts
        Take complex bands as two, real and imaginary.
    feature_kinds
        ``float``: all numbers as float lists. ``native``: uint8 as bytes, integers as int64 lists.
    patch_index
        Name of an int64 feature with the patch's number, or None.
    valid_feature
        Name of a uint8 feature that is 1 where a pixel is valid and 0 where it is masked, or None.
    edge
        ``drop`` partial patches, or ``pad`` them with masked pixels.
    region, clip_region, crs, crs_transform, scale, dimensions, resampling
        The export's grid, as ``Export.image`` has them; None where not given.
    naming
        ``drive`` or ``cloud-storage``.
    allow_ungeoreferenced
        Take rasters without georeference.
    allow_drivers
        GDAL drivers that may open sources beside GTiff.
    allow_network
        Fetch sources that are addresses.
    labels
        The labels, or None.
    choice
        Which patches are written, or None for all.
    """

    patch_yx: tuple[int, int] = field(metadata={**BYTES, "key": "patch_dimensions"})
    kernel_yx: tuple[int, int] = field(metadata={**BYTES, "key": "kernel_size"})
    compressor: Literal["none", "fast", "ee"] = field(metadata=BYTES)
    max_shard_bytes: int = field(metadata={**BYTES, "key": "max_file_size"})
    default_value: float = field(metadata=BYTES)
    masked_threshold: float = field(metadata=BYTES)
    tensor_depths: tuple[tuple[str, int], ...] = field(metadata=BYTES)
    sequence_data: bool = field(metadata=BYTES)
    collapse_bands: bool = field(metadata=BYTES)
    bands: tuple[str, ...] | None = field(metadata=BYTES)
    array_bands: tuple[str, ...] = field(metadata=FILES)
    nodata: str | None = field(metadata=BYTES)
    masks: tuple[str, ...] = field(metadata=FILES)
    mask_mode: MaskMode = field(metadata=BYTES)
    unscale: bool = field(metadata=BYTES)
    complex_parts: bool = field(metadata=BYTES)
    feature_kinds: FeatureKinds = field(metadata=BYTES)
    patch_index: str | None = field(metadata=BYTES)
    valid_feature: str | None = field(metadata=BYTES)
    edge: Edge = field(metadata=BYTES)
    region: str | None = field(metadata=FILES)
    clip_region: bool | None = field(metadata=BYTES)
    crs: str | None = field(metadata=BYTES)
    crs_transform: Affine6 | None = field(metadata=BYTES)
    scale: float | None = field(metadata=BYTES)
    dimensions_xy: tuple[int, int] | int | None = field(metadata={**BYTES, "key": "dimensions"})
    resampling: Resampling = field(metadata=BYTES)
    naming: Naming = field(metadata=BYTES)
    allow_ungeoreferenced: bool = field(metadata=BYTES)
    allow_drivers: tuple[str, ...] = field(metadata=RIGHT)
    allow_network: bool = field(metadata=RIGHT)
    labels: LabelOptions | None = field(metadata=FILES)
    choice: ChoiceOptions | None = field(metadata=FILES)

    @staticmethod
    @checks_flags
    def checked(
        *,
        format_options: Mapping[str, Any] | None = None,
        patch_dimensions: PairXY | None = None,
        kernel_size: PairXY | None = None,
        compressed: bool | None = None,
        compressor: str | None = None,
        max_file_size: Size | None = None,
        default_value: float | None = None,
        masked_threshold: float | None = None,
        tensor_depths: Mapping[str, int] | str | None = None,
        sequence_data: bool | None = None,
        collapse_bands: bool | None = None,
        bands: str | Sequence[str | int] | None = None,
        array_bands: Mapping[str, str] | Iterable[str] | None = None,
        nodata: float | str | None = None,
        masks: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
        mask_mode: str | None = None,
        unscale: bool = False,
        complex_parts: bool = False,
        feature_kinds: str | None = None,
        patch_index: str | None = None,
        valid_feature: str | None = None,
        edge: str | None = None,
        region: str | Mapping[str, Any] | tuple[float, float, float, float] | None = None,
        clip_region: bool | None = None,
        crs: str | None = None,
        crs_transform: Sequence[float] | str | None = None,
        scale: float | None = None,
        dimensions: PairXY | None = None,
        resampling: str | None = None,
        naming: str | None = None,
        allow_ungeoreferenced: bool = False,
        allow_drivers: str | Iterable[str] | None = None,
        allow_network: bool = False,
        **more: Unpack[PatchKeywords],
    ) -> ExportOptions:
        """The options, from keywords and a ``format_options`` mapping in Earth Engine's spelling (never changed).

        Raises
        ------
        UsageError
            An unknown key (the nearest one is named), a key given twice, a value out of range, or a contradiction.
        """
        unknown = next((name for name in more if name not in PatchKeywords.__annotations__), None)
        if unknown is not None:
            raise TypeError(f"an export has no option {unknown!r}{nearest(unknown, ExportKeywords.__annotations__)}")
        given = _merged(
            format_options,
            patch_dimensions=patch_dimensions,
            kernel_size=kernel_size,
            compressed=compressed,
            max_file_size=max_file_size,
            default_value=default_value,
            masked_threshold=masked_threshold,
            tensor_depths=tensor_depths,
            sequence_data=sequence_data,
            collapse_bands=collapse_bands,
        )
        if "patch_dimensions" not in given:
            raise UsageError("patch dimensions are missing; give --patch-dimensions 256 (patch_dimensions=256)")
        is_compressed = check_flag("compressed", given.get("compressed", True))
        if compressor is not None and not is_compressed:
            raise UsageError(f"compressor {compressor} contradicts compressed = false; leave one of them out")
        return ExportOptions(
            patch_yx=parse_pair_yx("patch_dimensions", given["patch_dimensions"], least=1),
            # Earth Engine takes a kernel of 0 as 1.
            kernel_yx=at_least_one(parse_pair_yx("kernel_size", given.get("kernel_size", 1), least=0)),
            compressor=checked_choice("compressor", compressor or "fast", get_args(Compressor))
            if is_compressed
            else "none",
            max_shard_bytes=parse_size("max_file_size", given.get("max_file_size", DEFAULT_MAX_SHARD_BYTES)),
            default_value=checked_number("default_value", given.get("default_value", 0)),
            masked_threshold=checked_share("masked_threshold", given.get("masked_threshold", 1)),
            tensor_depths=_tensor_depths(given.get("tensor_depths")),
            sequence_data=check_flag("sequence_data", given.get("sequence_data", False)),
            collapse_bands=check_flag("collapse_bands", given.get("collapse_bands", False)),
            bands=band_list(bands),
            array_bands=_array_bands(array_bands),
            nodata=nodata_text(nodata),
            masks=texts(masks),
            mask_mode=checked_choice("mask_mode", mask_mode or "pixel", get_args(MaskMode)),
            unscale=unscale,
            complex_parts=complex_parts,
            feature_kinds=checked_choice("feature_kinds", feature_kinds or "float", get_args(FeatureKinds)),
            patch_index=_text("patch_index", patch_index) or None,
            valid_feature=_name("valid_feature", valid_feature),
            edge=checked_choice("edge", edge or "drop", get_args(Edge)),
            region=_region(region),
            clip_region=clip_region,
            crs=_text("crs", crs),
            crs_transform=_crs_transform(crs_transform),
            scale=_scale(scale),
            dimensions_xy=_dimensions(dimensions),
            resampling=checked_choice("resampling", resampling or "nearest", get_args(Resampling)),
            naming=checked_choice("naming", naming or "drive", get_args(Naming)),
            allow_ungeoreferenced=allow_ungeoreferenced,
            allow_drivers=texts(allow_drivers),
            allow_network=allow_network,
            labels=label_options(more),
            choice=choice_options(more),
        )

    @staticmethod
    def from_manifest(used: Mapping[str, Any], *, region: str | None = None, keep: Sequence[int] = ()) -> ExportOptions:
        """The options that decide the bytes of a set, from its manifest: no right, and no file that it names.

        Parameters
        ----------
        used
            The manifest's options.
        region
            The region, given again: it is needed where the manifest names its file.
        keep
            Numbers of the set's patches, where some were chosen; how doesn't matter.

        Raises
        ------
        UsageError
            They name other files, which a manifest tells without their folders.
        DamagedError
            A value that no export has.
        """
        again: dict[str, Any] = {} if region is None else {"region": region}
        named: dict[str, list[str]] = {}
        try:
            for key, may_name_files in keys_of(ExportOptions).items():
                value = used.get(key)
                if value is None or key in again:
                    continue
                if key == "choice":
                    again["keep"] = keep
                    continue
                files = _files_named(key, value) if may_name_files else []
                if files:
                    named[key] = files
                else:
                    again[key] = value
            if again.get("compressor") == "none":
                again |= {"compressed": False, "compressor": None}
            options = ExportOptions.checked(**again)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedError(f"the manifest's options are none of an export: {error}") from error
        if set(named) == {"region"}:
            raise UsageError(
                f"the set was cut by a region in a file, {named['region'][0]}, whose folder its manifest doesn't tell;"
                " give it again: --region FILE (region=)"
            )
        if named:
            files = [name for each in named.values() for name in each]
            raise UsageError(
                f"the set was made with more files ({', '.join(files)}); export it again with --patch-table"
            )
        return options

    @property
    def vector_paths(self) -> tuple[str, ...]:
        """Files of shapes and numbers that decide the bytes; not sources whose pixels are read."""
        labels = () if self.labels is None or self.labels.path is None else (self.labels.path,)
        files = (*labels, *(() if self.choice is None else self.choice.paths))
        # A raster of labels with a band's number is among the sources.
        return tuple(path for path in files if os.path.isfile(path))  # noqa: PTH113

    @property
    def has_frames(self) -> bool:
        """Whether a table in memory decides the bytes, which no later run can compare."""
        tables = [] if self.labels is None else [self.labels.source]
        tables += [] if self.choice is None else [self.choice.keep, self.choice.within]
        return any(hasattr(table, "columns") for table in tables)

    @property
    def region_path(self) -> str | None:
        """The file that the region is read from; None where it is none, or a text."""
        return None if self.region is None else region_file(self.region)

    def as_used(self) -> dict[str, Any]:
        """The options for the manifest: snake_case, pairs as (width, height), JSON types."""
        return {
            "patch_dimensions": [self.patch_yx[1], self.patch_yx[0]],
            "kernel_size": [self.kernel_yx[1], self.kernel_yx[0]],
            "compressed": self.compressor != "none",
            "compressor": self.compressor,
            "max_file_size": self.max_shard_bytes,
            "default_value": self.default_value,
            "masked_threshold": self.masked_threshold,
            "tensor_depths": dict(self.tensor_depths),
            "sequence_data": self.sequence_data,
            "collapse_bands": self.collapse_bands,
            "bands": None if self.bands is None else list(self.bands),
            "array_bands": [_without_folders(text) for text in self.array_bands],
            "nodata": self.nodata,
            "masks": [name_of(text) for text in self.masks],
            "mask_mode": self.mask_mode,
            "unscale": self.unscale,
            "complex_parts": self.complex_parts,
            "feature_kinds": self.feature_kinds,
            "patch_index": self.patch_index,
            **({} if self.valid_feature is None else {"valid_feature": self.valid_feature}),
            "edge": self.edge,
            "region": None if self.region is None else _without_folder(self.region),
            "clip_region": self.clip_region,
            "crs": self.crs,
            "crs_transform": None if self.crs_transform is None else list(self.crs_transform),
            "scale": self.scale,
            "dimensions": list(self.dimensions_xy) if isinstance(self.dimensions_xy, tuple) else self.dimensions_xy,
            "resampling": self.resampling,
            "naming": self.naming,
            "allow_ungeoreferenced": self.allow_ungeoreferenced,
            "allow_drivers": list(self.allow_drivers),
            "allow_network": self.allow_network,
            "labels": None if self.labels is None else self.labels.as_used(),
            "choice": None if self.choice is None else self.choice.as_used(),
        }


def _merged(format_options: Mapping[str, Any] | None, **flags: Any) -> dict[str, Any]:
    """One dict in snake_case of what was given either way; a new one, so the caller's stays as it is."""
    given = {name: value for name, value in flags.items() if value is not None}
    if format_options is None:
        return given
    if not isinstance(format_options, Mapping):
        raise UsageError(f"format_options: found {type(format_options).__name__}; a mapping is expected")
    seen: dict[str, str] = {}
    for key, value in format_options.items():
        name = FORMAT_OPTIONS.get(key, key)
        if name not in FORMAT_OPTIONS.values():
            raise UsageError(
                f"format_options: the key {key!r} is not known{nearest(str(key), FORMAT_OPTIONS)}"
                f" (known: {', '.join(FORMAT_OPTIONS)})"
            )
        if name in seen:
            raise UsageError(f"format_options: {seen[name]} and {key} are the same option; give it once")
        if name in given:
            raise UsageError(
                f"{key} stands in format_options and is given as --{name.replace('_', '-')} too; give it once"
            )
        seen[name] = key
        if value is not None:
            given[name] = value
    return given


def _text(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{name}: found {value!r}; allowed is a text")
    if value is not None and not value.isascii() and value != value.encode(errors="ignore").decode():
        raise UsageError(f"{name}: found {value!r}, which is no UTF-8; records and JSON hold nothing else")
    return value


def _name(option: str, value: Any) -> str | None:
    """The name of a feature, or None."""
    if _text(option, value) == "":
        raise UsageError(f"{option}: the name is empty; give the feature one, as valid, or leave the option out")
    return _text(option, value)


def _tensor_depths(depths: Any) -> tuple[tuple[str, int], ...]:
    if depths is None:
        return ()
    pairs: list[tuple[Any, Any]]
    if isinstance(depths, str):
        pairs = [part.partition("=")[::2] for part in depths.split(",")]
    elif isinstance(depths, Mapping):
        pairs = list(depths.items())
    else:
        raise UsageError(f"tensor_depths: found {depths!r}; allowed is a mapping from array band to depth, as evi=12")
    found = []
    for name, depth in pairs:
        text = str(depth).strip()
        # True's text isn't decimal, so it is refused too.
        if not text.isdecimal() or not 1 <= int(text) <= _MOST_STEPS:
            raise UsageError(
                f"tensor_depths: found {depth!r} for {name!r}; allowed are whole numbers from 1 to {_MOST_STEPS}"
            )
        found.append((str(name).strip(), int(text)))
    names = [name for name, _ in found]
    for name in names:
        if not name or names.count(name) > 1:
            raise UsageError(
                f"tensor_depths: band {name!r} is named {'twice' if name else 'not at all'}; name each once"
            )
    return tuple(found)


_MOST_STEPS = 2**20


def _array_bands(bands: Mapping[str, str] | Iterable[str] | None) -> tuple[str, ...]:
    if bands is None:
        return ()
    if isinstance(bands, Mapping):
        return tuple(f"{name}={elements}" for name, elements in bands.items())
    return (bands,) if isinstance(bands, str) else tuple(str(band) for band in bands)


def _region(region: Any) -> str | None:
    """A region as text: GeoJSON, WKT, a bounding box, or a file's path."""
    if region is None:
        return None
    if isinstance(region, str):
        return region
    if isinstance(region, Mapping):
        return json.dumps(region)
    try:
        west, south, east, north = (float(number) for number in region)
    except (TypeError, ValueError) as error:
        raise UsageError(f"region: found {region!r}; allowed are GeoJSON, WKT, or west, south, east, north") from error
    return f"{west!r},{south!r},{east!r},{north!r}"


def _crs_transform(transform: Sequence[float] | str | None) -> Affine6 | None:
    if transform is None:
        return None
    parts: Sequence[Any] = re.split(r"[,\s]+", transform.strip(" []()")) if isinstance(transform, str) else transform
    try:
        a, b, c, d, e, f = (float(part) for part in parts)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"crs_transform: found {transform!r}; allowed are six numbers: xScale, xShear, xTranslation, yShear,"
            " yScale, yTranslation"
        ) from error
    if not all(abs(value) <= _FARTHEST for value in (a, b, c, d, e, f)) or a * e == b * d:
        raise UsageError(f"crs_transform: {transform!r} maps pixels to no area; give another")
    return a, b, c, d, e, f


def _scale(scale: Any) -> float | None:
    if scale is None:
        return None
    number = checked_number("scale", scale)
    if not 0 < number <= _LARGEST_SCALE:
        raise UsageError(f"scale: found {scale!r}; allowed is a number of metres above 0, up to {_LARGEST_SCALE:g}")
    return number


def _dimensions(dimensions: PairXY | None) -> tuple[int, int] | int | None:
    """(width, height), or one number for the longer side."""
    if dimensions is None:
        return None
    height, width = parse_pair_yx("dimensions", dimensions, least=1)
    is_one = isinstance(dimensions, int) or (isinstance(dimensions, str) and dimensions.strip().isdecimal())
    return width if is_one else (width, height)


def _without_folder(region: str) -> str:
    """A region for the manifest: its text, or of a file the name alone."""
    path = region_file(region)
    return region if path is None else PurePath(path).name


def _files_named(key: str, value: Any) -> list[str]:
    """The files that an option names in a manifest."""
    if key == "region":
        return [] if not isinstance(value, str) or region_file(value) is None else [value]
    if key != "labels" and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise TypeError(f"{key}: found {value!r}; a list of texts is expected")
    if key == "array_bands":
        return [text for text in value if not _OWN_BANDS.fullmatch(text)]
    if key == "labels":
        return [str(value["source"] or "labels in memory")]
    return list(value)


def _without_folders(array_band: str) -> str:
    """A definition of an array band for the manifest, which names no folder."""
    name, _, elements = array_band.partition("=")
    return f"{name}={','.join(name_of(element) for element in elements.split(','))}"
