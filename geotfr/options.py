"""Options: Earth Engine's spelling at the edge, snake_case inside, everything checked once.

Pairs are (x, y) outside, as Earth Engine has them, and (row, column) inside; this module is the only one that
turns one into the other.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from geotfr.errors import UsageError
from geotfr.grid import Affine6
from geotfr.mixer.names import Naming
from geotfr.patches.blend import Overlap
from geotfr.patches.pyramid import Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "FORMAT_OPTIONS",
    "Compressor",
    "ExportKeywords",
    "ExportOptions",
    "IngestKeywords",
    "IngestOptions",
    "PairXY",
    "ShardOrder",
    "Size",
    "parse_pair_yx",
    "parse_size",
    "resolve_workers",
]

Compressor = Literal["fast", "ee"]
ShardOrder = Literal["natural", "given"]
BadRecords = Literal["error", "skip", "repair"]
MaskMode = Literal["pixel", "band"]
FeatureKinds = Literal["float", "native"]
Edge = Literal["drop", "pad"]
PerPatch = Literal["pixel", "fill"]
RasterFormat = Literal["gtiff", "cog"]
Compression = Literal["deflate", "zstd", "lzw", "none"]
Resampling = Literal["nearest", "bilinear", "cubic", "average", "mode"]
PairXY = int | str | tuple[int, int] | list[int]
"""A (width, height) pair: ``256``, ``"256"``, ``"256,128"``, ``"256x128"``, ``(256, 128)``."""
Size = int | float | str
"""A number of bytes: ``104857600``, ``"100MiB"``, ``"100MB"``, ``1e9``."""

DEFAULT_MAX_SHARD_BYTES = 2**30

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

_UNITS = {"": 1, "B": 1} | {
    f"{letter}{suffix}": base**power
    for power, letter in enumerate("KMGT", start=1)
    for suffix, base in (("", 1000), ("B", 1000), ("iB", 1024))
}


class ExportKeywords(TypedDict, total=False):
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


class IngestKeywords(TypedDict, total=False):
    """The options of an ingest as keywords; :func:`geotfr.ingest_predictions` tells what each means."""

    kernel_size: PairXY | None
    channels: str | None
    class_names: str | Sequence[str] | None
    per_patch: str | None
    coarser: int | None
    finer: int | None
    patch_index: str | None
    bands: str | Sequence[str | int] | None
    overlap: str | None
    argmax: bool
    confidence: bool
    threshold: float | None
    scale: float | None
    offset: float | None
    dtype: str | None
    nodata: float | str | None
    mask_from: str | os.PathLike[str] | None
    classes: str | os.PathLike[str] | None
    shard_order: str | None
    on_bad_record: str | None
    format: str | None
    compress: str | None
    pyramiding_policy: str | Mapping[str, str] | None
    statistics: bool
    creation_options: Mapping[str, Any] | Iterable[str] | None


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
    """

    patch_yx: tuple[int, int]
    kernel_yx: tuple[int, int]
    compressor: Literal["none", "fast", "ee"]
    max_shard_bytes: int
    default_value: float
    masked_threshold: float
    tensor_depths: tuple[tuple[str, int], ...]
    sequence_data: bool
    collapse_bands: bool
    bands: tuple[str, ...] | None
    array_bands: tuple[str, ...]
    nodata: str | None
    masks: tuple[str, ...]
    mask_mode: MaskMode
    unscale: bool
    complex_parts: bool
    feature_kinds: FeatureKinds
    patch_index: str | None
    edge: Edge
    region: str | None
    clip_region: bool | None
    crs: str | None
    crs_transform: Affine6 | None
    scale: float | None
    dimensions_xy: tuple[int, int] | int | None
    resampling: Resampling
    naming: Naming
    allow_ungeoreferenced: bool
    allow_drivers: tuple[str, ...]

    @staticmethod
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
    ) -> ExportOptions:
        """The options, from keywords and a ``format_options`` mapping in Earth Engine's spelling (never changed).

        Raises
        ------
        UsageError
            An unknown key (the nearest one is named), a key given twice, a value out of range, or a contradiction.
        """
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
        is_compressed = _flag("compressed", given.get("compressed", True))
        if compressor is not None and not is_compressed:
            raise UsageError(f"compressor {compressor} contradicts compressed = false; leave one of them out")
        return ExportOptions(
            patch_yx=parse_pair_yx("patch_dimensions", given["patch_dimensions"], least=1),
            # Earth Engine takes a kernel of 0 as 1.
            kernel_yx=_at_least_one(parse_pair_yx("kernel_size", given.get("kernel_size", 1), least=0)),
            compressor=_choice("compressor", compressor or "fast", get_args(Compressor)) if is_compressed else "none",
            max_shard_bytes=parse_size("max_file_size", given.get("max_file_size", DEFAULT_MAX_SHARD_BYTES)),
            default_value=_number("default_value", given.get("default_value", 0)),
            masked_threshold=_share("masked_threshold", given.get("masked_threshold", 1)),
            tensor_depths=_tensor_depths(given.get("tensor_depths")),
            sequence_data=_flag("sequence_data", given.get("sequence_data", False)),
            collapse_bands=_flag("collapse_bands", given.get("collapse_bands", False)),
            bands=_band_list(bands),
            array_bands=_array_bands(array_bands),
            nodata=_nodata(nodata),
            masks=_texts(masks),
            mask_mode=_choice("mask_mode", mask_mode or "pixel", get_args(MaskMode)),
            unscale=unscale,
            complex_parts=complex_parts,
            feature_kinds=_choice("feature_kinds", feature_kinds or "float", get_args(FeatureKinds)),
            patch_index=patch_index or None,
            edge=_choice("edge", edge or "drop", get_args(Edge)),
            region=_region(region),
            clip_region=clip_region,
            crs=crs,
            crs_transform=_crs_transform(crs_transform),
            scale=_scale(scale),
            dimensions_xy=_dimensions(dimensions),
            resampling=_choice("resampling", resampling or "nearest", get_args(Resampling)),
            naming=_choice("naming", naming or "drive", get_args(Naming)),
            allow_ungeoreferenced=allow_ungeoreferenced,
            allow_drivers=_texts(allow_drivers),
        )

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
            "masks": [PurePath(text).name for text in self.masks],
            "mask_mode": self.mask_mode,
            "unscale": self.unscale,
            "complex_parts": self.complex_parts,
            "feature_kinds": self.feature_kinds,
            "patch_index": self.patch_index,
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
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """How predictions become a raster.

    Attributes
    ----------
    kernel_yx
        (rows, columns) of the kernel that padded predictions carry, or None: the manifest's, or inferred.
    channels
        ``first`` or ``last`` where features may hold several bands; else None.
    class_names
        Names of a feature's bands, in place of ``NAME_0`` and so on.
    per_patch
        ``pixel`` or ``fill`` where a feature holds one value for a patch (or one a band); else None.
    coarser, finer
        Patch pixels along the side of a prediction's pixel, and the other way round; 1 for one resolution.
    patch_index
        The feature that holds a patch's number, or None: records stand in order.
    bands
        The features to take, in this order, ``new=old`` renaming; None: all, in the first record's order.
    overlap
        ``crop``, or how margins are blended.
    argmax, confidence
        One band with the number of the greatest band; its value as a second one.
    threshold
        1 where a value is at least this, else 0; None for none.
    scale, offset
        Pixels hold ``(value - offset) / scale``, rounded; None without.
    dtype
        numpy name of the output type, ``auto``, or None: the feature's own.
    nodata
        Nodata value of the output, or None for none.
    mask_from
        A raster, or ``manifest``: masked pixels of it, or of the export's sources, are masked in the output.
    classes
        A file of class values, names and colours.
    shard_order
        ``natural``: by the numbers in the names. ``given``: as listed.
    on_bad_record
        ``error``, ``skip`` or ``repair``; see :func:`geotfr.read_records`.
    format
        ``gtiff`` or ``cog``.
    compress
        ``deflate``, ``zstd``, ``lzw`` or ``none``; None for the format's default.
    pyramiding
        (band, policy) pairs, band ``*`` for all others; empty for no overviews of a ``gtiff``.
    statistics
        Write each band's statistics into the file.
    creation_options
        GDAL creation options of the output, over the defaults.
    """

    kernel_yx: tuple[int, int] | None
    channels: str | None
    class_names: tuple[str, ...] | None
    per_patch: PerPatch | None
    coarser: int
    finer: int
    patch_index: str | None
    bands: tuple[str, ...] | None
    overlap: Overlap
    argmax: bool
    confidence: bool
    threshold: float | None
    scale: float | None
    offset: float | None
    dtype: str | None
    nodata: float | None
    mask_from: str | None
    classes: str | None
    shard_order: ShardOrder
    on_bad_record: BadRecords
    format: RasterFormat
    compress: Compression | None
    pyramiding: tuple[tuple[str, Policy], ...]
    statistics: bool
    creation_options: tuple[tuple[str, str], ...]

    @staticmethod
    def checked(
        *,
        kernel_size: PairXY | None = None,
        channels: str | None = None,
        class_names: str | Sequence[str] | None = None,
        per_patch: str | None = None,
        coarser: int | None = None,
        finer: int | None = None,
        patch_index: str | None = None,
        bands: str | Sequence[str | int] | None = None,
        overlap: str | None = None,
        argmax: bool = False,
        confidence: bool = False,
        threshold: float | None = None,
        scale: float | None = None,
        offset: float | None = None,
        dtype: str | None = None,
        nodata: float | str | None = None,
        mask_from: str | os.PathLike[str] | None = None,
        classes: str | os.PathLike[str] | None = None,
        shard_order: str | None = None,
        on_bad_record: str | None = None,
        format: str | None = None,  # noqa: A002  (the flag's name)
        compress: str | None = None,
        pyramiding_policy: str | Mapping[str, str] | None = None,
        statistics: bool = False,
        creation_options: Mapping[str, Any] | Iterable[str] | None = None,
    ) -> IngestOptions:
        """The options, checked.

        Raises
        ------
        UsageError
            A value out of range, a contradiction, or a creation option without ``=``.
        """
        options = IngestOptions(
            kernel_yx=None
            if kernel_size is None
            else _at_least_one(parse_pair_yx("kernel_size", kernel_size, least=0)),
            channels=None if channels is None else _choice("channels", channels, ("first", "last")),
            class_names=_band_list(class_names),
            per_patch=None if per_patch is None else _choice("per_patch", per_patch, get_args(PerPatch)),
            coarser=_factor("coarser", coarser),
            finer=_factor("finer", finer),
            patch_index=patch_index or None,
            bands=_band_list(bands),
            overlap=_choice("overlap", overlap or "crop", get_args(Overlap)),
            argmax=_flag("argmax", argmax),
            confidence=_flag("confidence", confidence),
            threshold=None if threshold is None else _number("threshold", threshold),
            scale=None if scale is None else _number("scale", scale),
            offset=None if offset is None else _number("offset", offset),
            dtype=None if dtype is None else _choice("dtype", dtype, ("auto", *_OUTPUT_DTYPES)),
            nodata=_ingest_nodata(nodata),
            mask_from=None if mask_from is None else os.fspath(mask_from),
            classes=None if classes is None else os.fspath(classes),
            shard_order=_choice("shard_order", shard_order or "natural", get_args(ShardOrder)),
            on_bad_record=_choice("on_bad_record", on_bad_record or "error", get_args(BadRecords)),
            format=_choice("format", format or "gtiff", get_args(RasterFormat)),
            compress=None if compress is None else _choice("compress", compress, get_args(Compression)),
            pyramiding=_pyramiding(pyramiding_policy),
            statistics=_flag("statistics", statistics),
            creation_options=_creation_options(creation_options),
        )
        options._check_together()
        return options

    @property
    def is_quantised(self) -> bool:
        """Whether pixels hold scaled integers."""
        return self.scale is not None or self.offset is not None

    def _check_together(self) -> None:
        """Refuse options that contradict each other."""
        is_integer = (self.dtype or "auto")[0] in "iu"
        refused = [
            (self.confidence and not self.argmax, "confidence: the greatest band's value; it goes with --argmax"),
            (self.argmax and self.threshold is not None, "threshold: makes 0 and 1 of each band; not with --argmax"),
            (
                self.argmax and self.overlap == "vote",
                "overlap vote: counts class ids; for --argmax blend the probabilities, or use max-probability",
            ),
            (
                self.confidence and (self.dtype or "float32") not in ("float32", "float64"),
                f"confidence: a fraction, and bands share one type, found {self.dtype}; allowed is float32 or float64",
            ),
            (self.coarser > 1 and self.finer > 1, "coarser, finer: give one of them"),
            (
                self.per_patch is not None and (self.overlap != "crop" or self.coarser * self.finer > 1),
                "per_patch: a value for a patch has no margin and no resolution; not with overlap, coarser and finer",
            ),
            (self.scale == 0, "scale: found 0; allowed is any other number"),
            (self.is_quantised and not is_integer, "scale, offset: pixels become integers; give a dtype, as int16"),
            (
                self.is_quantised and (self.argmax or self.threshold is not None),
                "scale, offset: classes aren't scaled; not with --argmax and --threshold",
            ),
            (
                self.compress is not None and any(name.upper() == "COMPRESS" for name, _ in self.creation_options),
                "compress: COMPRESS is a creation option too; give one of them",
            ),
        ]
        for is_refused, words in refused:
            if is_refused:
                raise UsageError(words)


def _factor(name: str, factor: int | None) -> int:
    if factor is None:
        return 1
    if isinstance(factor, bool) or not isinstance(factor, int) or not 1 <= factor <= _LARGEST_FACTOR:
        raise UsageError(f"{name}: found {factor!r}; allowed is a whole number from 1 to {_LARGEST_FACTOR}")
    return factor


_LARGEST_FACTOR = 4096


def _pyramiding(policies: str | Mapping[str, str] | None) -> tuple[tuple[str, Policy], ...]:
    """``mean`` for all bands, or ``NAME=mode,*=mean``, or a mapping, as (band, policy) pairs."""
    if policies is None:
        return ()
    pairs: list[tuple[str, str]] = []
    if isinstance(policies, str):
        for part in policies.split(","):
            band, separator, policy = part.strip().rpartition("=")
            pairs.append((band if separator else "*", policy))
    else:
        pairs = list(policies.items())
    if len(dict(pairs)) < len(pairs):
        raise UsageError(f"pyramiding_policy: {policies!r} names a band twice; name each once")
    return tuple((band, _choice("pyramiding_policy", policy, get_args(Policy))) for band, policy in pairs)


_OUTPUT_DTYPES = (
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "float32",
    "float64",
)


def parse_pair_yx(name: str, value: Any, *, least: int) -> tuple[int, int]:
    """``value``, an (x, y) pair in any of the forms users write, as (y, x).

    >>> parse_pair_yx("patch_dimensions", "256x128", least=1)
    (128, 256)
    """
    parts: list[Any]
    if isinstance(value, str):
        parts = [part.strip() for part in re.split(r"[,x]", value.strip().strip("[]()"))]
    elif isinstance(value, Iterable):
        parts = list(value)
    else:
        parts = [value]
    numbers: list[int] = []
    for part in parts:
        try:
            number = float(part) if not isinstance(part, bool) else math.nan
        except (TypeError, ValueError):
            number = math.nan
        if not (math.isfinite(number) and number == int(number) and least <= number <= _LARGEST_SIDE):
            raise UsageError(
                f"{name}: found {value!r}; allowed are one or two whole numbers from {least} to {_LARGEST_SIDE},"
                " (width, height), as 256 or 256,128 or 256x128"
            )
        numbers.append(int(number))
    if len(numbers) not in (1, 2):
        raise UsageError(f"{name}: found {value!r}; allowed are one or two numbers, (width, height)")
    return numbers[-1], numbers[0]


_LARGEST_SIDE = 2**31 - 1


def parse_size(name: str, value: Any) -> int:
    """``value`` as a number of bytes, at least 1.

    >>> parse_size("max_file_size", "100MiB"), parse_size("max_file_size", 1e9)
    (104857600, 1000000000)
    """
    number = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9.]+(?:e[+]?[0-9]+)?)\s*([A-Za-z]*)\s*", value, re.IGNORECASE)
        units = {unit.lower(): factor for unit, factor in _UNITS.items()}
        if found and found[2].lower() in units:
            try:
                number = float(found[1]) if not found[1].isdecimal() else int(found[1])
            except ValueError:
                number = math.nan
            number *= units[found[2].lower()]
    if not (math.isfinite(number) and number == int(number) and 1 <= number < 2**63):
        raise UsageError(
            f"{name}: found {value!r}; allowed is a whole number of bytes, at least 1, as 104857600, 100MiB or 1e9"
        )
    return int(number)


def resolve_workers(workers: int | None, cores: int) -> int:
    """``workers``, or the smaller of ``cores`` and 4 if it is None."""
    if workers is None:
        return max(min(cores, 4), 1)
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= 1024:
        raise UsageError(f"workers: found {workers!r}; allowed is a whole number from 1 to 1024")
    return workers


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean …?`` if one of ``known`` is near ``word``, else nothing; case does not count."""
    by_folded = {name.lower().replace("_", ""): name for name in known}
    found = difflib.get_close_matches(word.lower().replace("_", ""), by_folded, n=1, cutoff=0.6)
    return f"; did you mean {by_folded[found[0]]}?" if found else ""


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


def _texts(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None) -> tuple[str, ...]:
    if paths is None:
        return ()
    if isinstance(paths, str | os.PathLike):
        return (os.fspath(paths),)
    return tuple(os.fspath(path) for path in paths)


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
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"crs_transform: found {transform!r}; allowed are six numbers: xScale, xShear, xTranslation, yShear,"
            " yScale, yTranslation"
        ) from error
    if not all(map(math.isfinite, (a, b, c, d, e, f))) or a * e == b * d:
        raise UsageError(f"crs_transform: {transform!r} maps pixels to no area; give another")
    return a, b, c, d, e, f


def _scale(scale: Any) -> float | None:
    if scale is None:
        return None
    number = _number("scale", scale)
    if number <= 0:
        raise UsageError(f"scale: found {scale!r}; allowed is a number of metres above 0")
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
    path = PurePath(region.removeprefix("@"))
    return path.name if path.suffix.lower() in (".json", ".geojson", ".wkt", ".txt") else region


def _without_folders(array_band: str) -> str:
    """A definition of an array band for the manifest, which names no folder."""
    name, _, elements = array_band.partition("=")
    return f"{name}={','.join(PurePath(element).name for element in elements.split(','))}"


def _at_least_one(pair: tuple[int, int]) -> tuple[int, int]:
    return max(pair[0], 1), max(pair[1], 1)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{name}: found {value!r}; allowed are true and false")
    return value


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        number = int(value) if isinstance(value, int) else float(value)
        is_finite = math.isfinite(number)
    except (TypeError, ValueError, OverflowError):
        is_finite = False
    if not is_finite:
        raise UsageError(f"{name}: found {value!r}; allowed is a finite number")
    return number


def _share(name: str, value: Any) -> float:
    number = _number(name, value)
    if not 0 <= number <= 1:
        raise UsageError(f"{name}: found {value!r}; allowed is a share from 0 to 1")
    return float(number)


def _choice(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed:
        raise UsageError(f"{name}: found {value!r}; allowed are {', '.join(allowed)}{nearest(str(value), allowed)}")
    return value


def _band_list(bands: str | Sequence[str | int] | None) -> tuple[str, ...] | None:
    if bands is None:
        return None
    # A name in a list is taken as it is; around commas blanks don't count.
    names = tuple(part.strip() for part in bands.split(",")) if isinstance(bands, str) else tuple(map(str, bands))
    if not names or not all(names):
        raise UsageError(f"bands: found {bands!r}; allowed are numbers from 1 or names, as 1,2 or B4,B3 or red=B4")
    return names


def _nodata(nodata: float | str | None) -> str | None:
    """The text form, so that a large integer keeps its digits."""
    if nodata is None:
        return None
    text = str(nodata).strip().lower()
    if text == "none":
        return text
    try:
        float(text)
    except ValueError as error:
        raise UsageError(f"nodata: found {nodata!r}; allowed are a number, nan, or none") from error
    return text


def _ingest_nodata(nodata: float | str | None) -> float | None:
    text = _nodata(nodata)
    if text is None or text == "none":
        return None
    try:
        return int(text)
    except ValueError:
        return float(text)


def _creation_options(options: Mapping[str, Any] | Iterable[str] | None) -> tuple[tuple[str, str], ...]:
    if options is None:
        return ()
    if isinstance(options, Mapping):
        return tuple((str(name).upper(), str(value)) for name, value in options.items())
    pairs = []
    for text in options:
        name, separator, value = str(text).partition("=")
        if not separator or not name:
            raise UsageError(f"creation option {text!r}: allowed is NAME=VALUE, as COMPRESS=ZSTD")
        pairs.append((name.upper(), value))
    return tuple(pairs)
