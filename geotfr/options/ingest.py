"""The options of an ingest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

import numpy as np

from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.options.scope import BYTES, FILES
from geotfr.options.values import (
    PairXY,
    at_least_one,
    band_list,
    check_nodata,
    checked_choice,
    checked_number,
    nodata_text,
    parse_pair_yx,
    texts,
)
from geotfr.patches.blend import Overlap
from geotfr.patches.pyramid import Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["IngestKeywords", "IngestOptions", "ShardOrder"]

ShardOrder = Literal["natural", "given"]
BadRecords = Literal["error", "skip", "repair"]
PerPatch = Literal["pixel", "fill"]
RasterFormat = Literal["gtiff", "cog"]
Compression = Literal["deflate", "zstd", "lzw", "none"]
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
_LARGEST_FACTOR = 4096


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
    mask_from: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None
    sources: str | os.PathLike[str] | None
    classes: str | os.PathLike[str] | None
    shard_order: str | None
    of_collection: bool
    on_bad_record: str | None
    format: str | None
    compress: str | None
    pyramiding_policy: str | Mapping[str, str] | None
    statistics: bool
    creation_options: Mapping[str, Any] | Iterable[str] | None


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
        Rasters, or ``manifest``: masked pixels of any, or of the export's sources, are masked in the output.
    sources
        The folder where the sources are that the manifest lists; None: beside it.
    classes
        A file of class values, names and colours.
    shard_order
        ``natural``: by the numbers in the names. ``given``: as listed.
    of_collection
        The shards hold predictions of all rasters of a collection with shared shards, in the order of its records.
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

    kernel_yx: tuple[int, int] | None = field(metadata=BYTES)
    channels: str | None = field(metadata=BYTES)
    class_names: tuple[str, ...] | None = field(metadata=BYTES)
    per_patch: PerPatch | None = field(metadata=BYTES)
    coarser: int = field(metadata=BYTES)
    finer: int = field(metadata=BYTES)
    patch_index: str | None = field(metadata=BYTES)
    bands: tuple[str, ...] | None = field(metadata=BYTES)
    overlap: Overlap = field(metadata=BYTES)
    argmax: bool = field(metadata=BYTES)
    confidence: bool = field(metadata=BYTES)
    threshold: float | None = field(metadata=BYTES)
    scale: float | None = field(metadata=BYTES)
    offset: float | None = field(metadata=BYTES)
    dtype: str | None = field(metadata=BYTES)
    nodata: float | None = field(metadata=BYTES)
    mask_from: tuple[str, ...] = field(metadata=FILES)
    sources: str | None = field(metadata=FILES)
    classes: str | None = field(metadata=FILES)
    shard_order: ShardOrder = field(metadata=BYTES)
    of_collection: bool = field(metadata=BYTES)
    on_bad_record: BadRecords = field(metadata=BYTES)
    format: RasterFormat = field(metadata=BYTES)
    compress: Compression | None = field(metadata=BYTES)
    pyramiding: tuple[tuple[str, Policy], ...] = field(metadata=BYTES)
    statistics: bool = field(metadata=BYTES)
    creation_options: tuple[tuple[str, str], ...] = field(metadata=BYTES)

    @staticmethod
    @checks_flags
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
        mask_from: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
        sources: str | os.PathLike[str] | None = None,
        classes: str | os.PathLike[str] | None = None,
        shard_order: str | None = None,
        of_collection: bool = False,
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
            kernel_yx=None if kernel_size is None else at_least_one(parse_pair_yx("kernel_size", kernel_size, least=0)),
            channels=None if channels is None else checked_choice("channels", channels, ("first", "last")),
            class_names=band_list(class_names),
            per_patch=None if per_patch is None else checked_choice("per_patch", per_patch, get_args(PerPatch)),
            coarser=_factor("coarser", coarser),
            finer=_factor("finer", finer),
            patch_index=patch_index or None,
            bands=band_list(bands),
            overlap=checked_choice("overlap", overlap or "crop", get_args(Overlap)),
            argmax=argmax,
            confidence=confidence,
            threshold=None if threshold is None else checked_number("threshold", threshold),
            scale=None if scale is None else checked_number("scale", scale),
            offset=None if offset is None else checked_number("offset", offset),
            dtype=None if dtype is None else checked_choice("dtype", dtype, ("auto", *_OUTPUT_DTYPES)),
            nodata=_ingest_nodata(nodata),
            mask_from=texts(mask_from),
            sources=None if sources is None else os.fspath(sources),
            classes=None if classes is None else os.fspath(classes),
            shard_order=checked_choice("shard_order", shard_order or "natural", get_args(ShardOrder)),
            of_collection=of_collection,
            on_bad_record=checked_choice("on_bad_record", on_bad_record or "error", get_args(BadRecords)),
            format=checked_choice("format", format or "gtiff", get_args(RasterFormat)),
            compress=None if compress is None else checked_choice("compress", compress, get_args(Compression)),
            pyramiding=_pyramiding(pyramiding_policy),
            statistics=statistics,
            creation_options=_creation_options(creation_options),
        )
        options._check_together()
        return options

    @property
    def is_quantised(self) -> bool:
        """Whether pixels hold scaled integers."""
        return self.scale is not None or self.offset is not None

    def check_for_many(self) -> None:
        """Refuse what goes with one set alone.

        Raises
        ------
        UsageError
            It is asked for.
        """
        if self.of_collection:
            raise UsageError("of_collection: tells the records of one mixer's raster; ingest the rasters one by one")

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
            (
                self.of_collection and self.patch_index is not None,
                "of_collection: patches of several rasters have one number; the records' order tells them: leave"
                " patch_index out",
            ),
            (
                self.sources is not None and not {"manifest", "source"} & {*self.mask_from},
                "sources: the folder of the sources that a manifest lists; it goes with --mask-from manifest",
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
        if self.dtype not in (None, "auto"):
            check_nodata(self.nodata, np.dtype(self.dtype))


def _factor(name: str, factor: int | None) -> int:
    if factor is None:
        return 1
    if isinstance(factor, bool) or not isinstance(factor, int) or not 1 <= factor <= _LARGEST_FACTOR:
        raise UsageError(f"{name}: found {factor!r}; allowed is a whole number from 1 to {_LARGEST_FACTOR}")
    return factor


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
    return tuple((band, checked_choice("pyramiding_policy", policy, get_args(Policy))) for band, policy in pairs)


def _ingest_nodata(nodata: float | str | None) -> float | None:
    text = nodata_text(nodata)
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
