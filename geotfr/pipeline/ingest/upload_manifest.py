"""The manifest that ``earthengine upload image --manifest`` takes, for predictions and their mixer.

**Source**: Earth Engine's guides to the image manifest and to uploading TFRecord predictions, and its client: one
source names all files, predictions first and the mixer last.
"""

from __future__ import annotations

import json
import math
import os
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from geotfr.errors import InputError, OutputError, UsageError
from geotfr.grid.crs import crs_wkt, same_crs
from geotfr.mixer.sets import find_each, find_predictions
from geotfr.options import IngestOptions
from geotfr.pipeline.ingest.asset import PropertyValue, asset_name, asset_properties, asset_time, check_policy
from geotfr.pipeline.ingest.output_grid import output_grid
from geotfr.pipeline.ingest.predictions import Predictions
from geotfr.records.faults import ReadReport
from geotfr.storage.atomic import atomic_output, check_output
from geotfr.storage.inputs import check_not_input
from geotfr.stores.path import any_path, is_local, output_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from geotfr.mixer.sets import PredictionSet
    from geotfr.options import PairXY
    from geotfr.pipeline.ingest.predictions import PredictionBand

__all__ = ["UploadManifest", "upload_manifest", "upload_manifest_each", "write_each"]

T = TypeVar("T")
UriPrefix = str | Mapping[str, str] | Iterable[str]

_BAND = re.compile(r"[A-Za-z0-9_-]+")
_ASSET_STEP = re.compile(r"[A-Za-z0-9_-]+")
_CODE_OR_WKT = re.compile(r"\s*(\w+:\w+\s*$|\w+\s*\[)")
_SUFFIXES = (".tfrecord", ".tfrecord.gz")
_SCHEME = "gs://"
_TILESET = "predictions"
_MOST_BYTES = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadManifest:
    """The manifest, and what it was made of.

    Attributes
    ----------
    document
        The manifest in JSON types.
    files
        The files that it names, in the order of the uris.
    uris
        Their addresses, in full.
    bands
        The bands that Earth Engine will make.
    warnings
        What was assumed, or may be refused by Earth Engine.
    """

    document: dict[str, Any]
    files: tuple[Path, ...]
    uris: tuple[str, ...]
    bands: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_text(self) -> str:
        """The manifest's JSON."""
        return _text(self.document)

    def copies(self) -> dict[str, list[Path]]:
        """The files that aren't at their addresses yet, by the folder that they go to."""
        found: dict[str, list[Path]] = {}
        for path, uri in zip(self.files, self.uris, strict=True):
            if str(path) != uri:
                found.setdefault(f"{posixpath.dirname(uri)}/", []).append(path)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asset:
    """The options that hold for every set; values by band have ``*`` for the image's own."""

    options: IngestOptions
    folders: tuple[tuple[Path | None, str], ...]
    policies: Mapping[str, str]
    missing: Mapping[str, float]
    mask_bands: tuple[str, ...] | None
    list_bands: bool
    short_uris: bool
    crs: str | None
    times: Mapping[str, datetime]
    properties: Mapping[str, PropertyValue]
    warnings: tuple[str, ...]


def upload_manifest(
    mixer: str | os.PathLike[str],
    shards: Iterable[str | os.PathLike[str]] = (),
    *,
    name: str,
    uri_prefix: UriPrefix | None = None,
    kernel_size: PairXY | None = None,
    pyramiding_policy: str | Mapping[str, str] | None = None,
    missing_data: float | str | Mapping[str, float] | None = None,
    mask_bands: str | Sequence[str] | None = None,
    list_bands: bool = False,
    short_uris: bool = False,
    crs: str | None = None,
    start_time: str | None = None,
    end_time: str | None = None,
    properties: Mapping[str, PropertyValue] | Iterable[str] | None = None,
    shard_order: str | None = None,
) -> UploadManifest:
    """The upload manifest of a set of predictions, after a whole check of the set.

    Parameters
    ----------
    mixer, shards, kernel_size, shard_order
        As :func:`geotfr.ingest_predictions`.
    name
        The asset, as ``projects/PROJECT/assets/NAME``, or an older ID, as ``users/USER/NAME``.
    uri_prefix
        The folder of the files, as ``gs://bucket/folder/``. Files that lie elsewhere have a folder of their own, in a
        mapping from their local folder, or file, to ``gs://…`` (``*`` for all others), or in texts ``FOLDER=gs://…``.
        Files that were read from ``gs://`` stay where they are, without a prefix.
    pyramiding_policy
        ``mean`` (default), ``mode``, ``sample``, ``median``, ``min`` or ``max``, for the image or as a mapping of
        bands; the others have the policy of ``*``, or ``mean``.
    missing_data
        The value of pixels without data, for the image or as a mapping of bands, ``*`` for all others.
    mask_bands
        ``all``, or the bands that the last one masks; it is no band of the asset then.
    list_bands
        List the bands though nothing differs by band. The list gives each an index among the features of the first
        record, as they stand there.
    short_uris
        Write what all addresses begin with once, as the manifest's ``uriPrefix``.
    crs
        A CRS to use in place of the mixer's, as a code or WKT.
    start_time, end_time
        ISO dates or times; UTC unless they say otherwise.
    properties
        Of the asset: texts, numbers or None by name, or texts as the client reads them, ``[(TYPE)]NAME=VALUE``.

    Raises
    ------
    UsageError
        A name, uri, time, policy, band, property or kernel that Earth Engine wouldn't take.
    RecordError
        Records that are too few or too many, differ in their features, or have lengths that fit no patch.
    InputError
        A file without a ``.tfrecord`` suffix, a set without mixer, or features that make no asset band.
    """
    warnings: list[str] = []
    asset = asset_name(name, warnings)
    wanted = _wanted(
        warnings=warnings,
        uri_prefix=uri_prefix,
        kernel_size=kernel_size,
        pyramiding_policy=pyramiding_policy,
        missing_data=missing_data,
        mask_bands=mask_bands,
        list_bands=list_bands,
        short_uris=short_uris,
        crs=crs,
        start_time=start_time,
        end_time=end_time,
        properties=properties,
        shard_order=shard_order,
    )
    found = find_predictions(mixer, shards, shard_order=wanted.options.shard_order)
    _check_folders(wanted.folders, [found])
    return _manifest_of(found, asset, wanted)


def upload_manifest_each(
    folder: str | os.PathLike[str], *, name: str, uri_prefix: UriPrefix | None = None, **options: Any
) -> dict[str, UploadManifest]:
    """The manifests of all sets in ``folder`` and right below it, by the sets' names.

    The asset of each is ``name`` with its set's name behind it. The files are expected below ``uri_prefix`` as they lie
    below ``folder``. Options and errors as :func:`upload_manifest`.
    """
    warnings: list[str] = []
    asset = asset_name(f"{name.removesuffix('/')}/each", warnings).removesuffix("each")
    wanted = _wanted(warnings=warnings, uri_prefix=_below(folder, uri_prefix), **options)
    sets = find_each(folder, shard_order=wanted.options.shard_order)
    _check_folders(wanted.folders, list(sets.values()))
    for each, found in sets.items():
        if not _ASSET_STEP.fullmatch(each):
            raise UsageError(
                f"{found.mixer_path}: the set's name {each!r} can't be an asset's; rename its files or folder, with"
                " letters, digits, - and _"
            )
    return {each: _manifest_of(found, asset + each, wanted) for each, found in sets.items()}


def write_each(
    manifests: Mapping[str, UploadManifest], folder: str | os.PathLike[str], *, overwrite: bool = False
) -> dict[str, Path]:
    """Write ``NAME.json`` for each of ``manifests`` into ``folder``; all names are checked before the first is written.

    Raises
    ------
    OutputError
        A file that is there already, or can't be written.
    """
    target = output_path(folder)
    try:
        # A store has no folders.
        if is_local(target):
            target.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"{target}: the folder for the manifests can't be made: {error.strerror}") from error
    paths = {name: target / f"{name}.json" for name in manifests}
    for name, path in paths.items():
        check_not_input(path, manifests[name].files)
        check_output(path, overwrite=overwrite)
    for name, path in paths.items():
        with atomic_output(path, overwrite=overwrite) as file:
            file.write(manifests[name].to_text().encode())
    return paths


def _wanted(
    *,
    warnings: list[str],
    uri_prefix: UriPrefix | None = None,
    kernel_size: PairXY | None = None,
    pyramiding_policy: str | Mapping[str, str] | None = None,
    missing_data: float | str | Mapping[str, float] | None = None,
    mask_bands: str | Sequence[str] | None = None,
    list_bands: bool = False,
    short_uris: bool = False,
    crs: str | None = None,
    start_time: str | None = None,
    end_time: str | None = None,
    properties: Mapping[str, PropertyValue] | Iterable[str] | None = None,
    shard_order: str | None = None,
) -> _Asset:
    """The options, parsed and checked as far as no set is needed."""
    given = {"startTime": start_time, "endTime": end_time}
    spelled = {"startTime": "start_time", "endTime": "end_time"}
    times = {key: asset_time(spelled[key], text) for key, text in given.items() if text is not None}
    if len(times) == len(given) and times["endTime"] < times["startTime"]:
        raise UsageError(f"end_time: {end_time} is before start_time {start_time}")
    masked = mask_bands.split(",") if isinstance(mask_bands, str) else mask_bands
    return _Asset(
        options=IngestOptions.checked(kernel_size=kernel_size, shard_order=shard_order),
        folders=_folders(uri_prefix),
        policies=_by_band("pyramiding_policy", pyramiding_policy, lambda policy: check_policy(policy, warnings)),
        missing=_by_band("missing_data", missing_data, _missing_value),
        mask_bands=None if masked is None else tuple(masked),
        list_bands=list_bands,
        short_uris=short_uris,
        crs=None if crs is None else _crs(crs),
        times=times,
        properties=asset_properties(properties or {}, warnings),
        warnings=tuple(warnings),
    )


def _manifest_of(found: PredictionSet, asset: str, wanted: _Asset) -> UploadManifest:
    """The manifest of one set."""
    if found.run is not None:
        raise UsageError(
            f"{found.shards[0]}: holds patches of other rasters of the collection too, which Earth Engine can't leave"
            " out; name the predictions of the mixer's raster alone"
        )
    warnings = list(wanted.warnings)
    files = (*found.shards, found.mixer_path)
    uris = _addresses(files, wanted.folders)
    bands = _checked_bands(found, wanted.options)
    tileset: dict[str, Any] = {"sources": [{"uris": list(uris)}]}
    document: dict[str, Any] = {"name": asset, "tilesets": [tileset]}
    if wanted.short_uris:
        document["uriPrefix"] = _common_folder(uris)
        tileset["sources"] = [{"uris": [uri.removeprefix(document["uriPrefix"]) for uri in uris]}]
    if wanted.crs is not None:
        tileset["crs"] = wanted.crs
    warnings += _crs_warnings(found, wanted.crs)
    own = bands if wanted.mask_bands is None else bands[:-1]
    described = _described(own, wanted, warnings)
    if wanted.mask_bands is not None:
        tileset["id"] = _TILESET
        described["bands"] = [{**band, "tilesetId": _TILESET} for band in described["bands"]]
        described["maskBands"] = [_mask(bands, wanted, warnings)]
    document |= described
    document |= {key: f"{time.replace(tzinfo=None).isoformat()}Z" for key, time in wanted.times.items()}
    if wanted.properties:
        document["properties"] = dict(wanted.properties)
    size = len(_text(document).encode())
    if size > _MOST_BYTES:
        warnings.append(
            f"the manifest has {size:,} bytes; Earth Engine takes {_MOST_BYTES:,}: use --short-uris (short_uris=True),"
            " shorter names, or fewer files"
        )
    return UploadManifest(
        document=document,
        files=files,
        uris=uris,
        bands=tuple(band.name for band in own),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


# Addresses.


def _folders(uri_prefix: UriPrefix | None) -> tuple[tuple[Path | None, str], ...]:
    """(local folder or file, folder in the bucket); None for all other files."""
    if uri_prefix is None:
        return ()
    pairs: list[tuple[str, str]]
    if isinstance(uri_prefix, Mapping):
        pairs = [(os.fspath(key), folder) for key, folder in uri_prefix.items()]
    else:
        pairs = [_pair(text) for text in ([uri_prefix] if isinstance(uri_prefix, str) else uri_prefix)]
    folders = [(None if key == "*" else any_path(key), _folder(folder)) for key, folder in pairs]
    keys = [key and _steps(key) for key, _ in folders]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            words = f"{folders[place][0]} has" if key else "all files have"
            raise UsageError(f"uri_prefix: {words} two; give FOLDER=gs://… for files that lie elsewhere")
    return tuple(folders)


def _pair(text: str) -> tuple[str, str]:
    """``FOLDER=gs://…``, or the address alone."""
    key, separator, folder = text.partition(f"={_SCHEME}")
    return (key, _SCHEME + folder) if separator and key and not text.startswith(_SCHEME) else ("*", text)


def _folder(uri_prefix: str) -> str:
    """What the files' names get in front: where a copy of several files to ``uri_prefix`` puts them."""
    if not re.fullmatch(r"gs://[a-z0-9._-]+/(.*/)?[^/]*", uri_prefix):
        raise UsageError(f"uri_prefix: found {uri_prefix!r}; allowed is gs://BUCKET/ and a folder, as gs://bucket/map/")
    return uri_prefix if uri_prefix.endswith("/") else f"{uri_prefix}/"


def _below(folder: str | os.PathLike[str], uri_prefix: UriPrefix | None) -> UriPrefix | None:
    """``uri_prefix`` of all sets in ``folder``: files keep their places below it."""
    if uri_prefix is None:
        return None
    if isinstance(uri_prefix, Mapping):
        return {os.fspath(folder) if key == "*" else key: value for key, value in uri_prefix.items()}
    texts = [uri_prefix] if isinstance(uri_prefix, str) else list(uri_prefix)
    pairs = dict(_pair(text) for text in texts)
    if len(pairs) < len(texts):
        raise UsageError("uri_prefix: two for the same files; give FOLDER=gs://… for files that lie elsewhere")
    return _below(folder, pairs)


def _addresses(files: Sequence[Path], folders: Sequence[tuple[Path | None, str]]) -> tuple[str, ...]:
    """The files' addresses; of the folders that a file lies in the innermost counts."""
    uris = [_address(path, folders) for path in files]
    for place, uri in enumerate(uris):
        if uri in uris[:place]:
            raise UsageError(
                f"shards: {files[uris.index(uri)]} and {files[place]} would both be {uri}; rename one, or give its"
                " folder a prefix of its own"
            )
    return tuple(uris)


def _address(path: Path, folders: Sequence[tuple[Path | None, str]]) -> str:
    steps = _steps(path)
    inner = [(_steps(key), folder) for key, folder in folders if key is not None and _lies_in(path, key)]
    if inner:
        start, folder = max(inner, key=lambda pair: len(pair[0]))
        return folder + ("/".join(steps[len(start) :]) or path.name)
    if not is_local(path) and str(path).startswith(_SCHEME):
        return str(path)
    for key_or_none, folder in folders:
        if key_or_none is None:
            return folder + path.name
    raise UsageError(f"{path}: not at gs://, where Earth Engine reads; give --uri-prefix gs://BUCKET/FOLDER/ for it")


def _steps(path: Path) -> tuple[str, ...]:
    return Path(os.path.abspath(path)).parts if is_local(path) else path.parts  # noqa: PTH100  (.. goes, links stay)


def _lies_in(path: Path, key: Path) -> bool:
    """Whether ``path`` is the file ``key``, or lies in the folder ``key`` or below it."""
    return _steps(path)[: len(_steps(key))] == _steps(key)


def _check_folders(folders: Sequence[tuple[Path | None, str]], sets: Sequence[PredictionSet]) -> None:
    """Refuse a folder or file of its own address that no file of the sets lies in."""
    files = [path for found in sets for path in (*found.shards, found.mixer_path)]
    for key, folder in folders:
        if key is not None and not any(_lies_in(path, key) for path in files):
            raise UsageError(f"uri_prefix: {key}={folder}: no file of the predictions lies in {key}; leave it out")


def _common_folder(uris: Sequence[str]) -> str:
    # Of characters, for paths lose the // of gs://.
    common = os.path.commonprefix(uris).rpartition("/")[0] + "/"  # noqa: RUF071
    if not re.match(r"gs://[^/]+/", common):
        raise UsageError("short_uris: the files lie in several buckets, and have no folder in common; leave it out")
    return common


# Bands.


def _checked_bands(found: PredictionSet, options: IngestOptions) -> tuple[PredictionBand, ...]:
    """The bands, after a pass over all records."""
    for path in found.shards:
        if not path.name.lower().endswith(_SUFFIXES):
            raise InputError(f"{path}: Earth Engine tells TFRecords by their names; rename it to end in .tfrecord")
    if found.dropped:
        raise InputError(
            f"{found.mixer_path}: {len(found.dropped)} patches weren't exported, so there is no mixer; ingest the"
            " predictions and upload the raster, or export with a masked threshold of 1"
        )
    # Earth Engine makes a band of each feature.
    predictions = Predictions(found, options, output_grid(found, options), takes_validity=True)
    first = found.shards[0]
    for band in predictions.bands:
        if band.reading.channels > 1 or band.feature != band.name:
            raise InputError(
                f"{first}: feature {band.feature!r} holds several bands; Earth Engine takes one a feature: write each"
                " as a feature"
            )
        if not _BAND.fullmatch(band.name):
            raise InputError(
                f"{first}: feature {band.name!r} is no name of an asset's band; allowed are letters, digits, - and _"
            )
    if predictions.is_pixelwise:
        raise InputError(f"{first}: a record for each pixel; Earth Engine takes one a patch, so write patches")
    # Counts, features and lengths are checked on the way.
    for _ in predictions.patches(ReadReport()):
        pass
    return tuple(predictions.bands)


def _by_band(option: str, given: object, read: Callable[[Any], T]) -> dict[str, T]:
    """Values by band, ``*`` for the image's, of one value, a mapping, or text as ``BAND=VALUE,…``."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {band: read(value) for band, value in given.items()}
    if not isinstance(given, str) or "=" not in given:
        return {"*": read(given)}
    found: dict[str, T] = {}
    for part in given.split(","):
        band, separator, value = part.partition("=")
        if not separator or not band:
            raise UsageError(f"{option}: found {part!r} in {given!r}; allowed is one value, or BAND=VALUE,…")
        if band in found:
            raise UsageError(f"{option}: band {band!r} is given twice; give it once")
        found[band] = read(value)
    return found


def _described(bands: Sequence[PredictionBand], wanted: _Asset, warnings: list[str]) -> dict[str, Any]:
    """Bands, policies and missing data: for the image where all bands agree, else of those that have their own."""
    names = [band.name for band in bands]
    policy, own_policies = _image_and_own("pyramiding_policy", wanted.policies, names)
    missing, own_missing = _image_and_own("missing_data", wanted.missing, names)
    for band in bands:
        value = own_missing.get(band.name, missing)
        if value is not None and not _can_hold(band.kind, value):
            warnings.append(
                f"missing_data: band {band.name} holds {_HOLDS[band.kind]}, which are never exactly {value!r}"
            )
    document: dict[str, Any] = {}
    if own_policies or own_missing or wanted.list_bands or wanted.mask_bands is not None:
        warnings.append(
            "bands: listed by the features' places in the first record; Earth Engine documents no order of the bands of"
            " a TFRecord, so compare the asset's bands when it is there"
        )
        listed: list[dict[str, Any]] = [{"id": name, "tilesetBandIndex": place} for place, name in enumerate(names)]
        for name, entry in zip(names, listed, strict=True):
            if name in own_policies:
                entry["pyramidingPolicy"] = own_policies[name]
            if name in own_missing:
                entry["missingData"] = {"values": [_json_number(own_missing[name])]}
        document["bands"] = listed
    if len(own_policies) < len(names):
        document["pyramidingPolicy"] = policy or "MEAN"
    if missing is not None and len(own_missing) < len(names):
        document["missingData"] = {"values": [_json_number(missing)]}
    return document


def _image_and_own(option: str, given: Mapping[str, T], names: Sequence[str]) -> tuple[T | None, dict[str, T]]:
    """The image's value, and those of bands that have their own."""
    for band in given:
        if band not in (*names, "*"):
            raise UsageError(f"{option}: no band {band!r}; allowed are {', '.join(names)}, and * for all others")
    own = {band: value for band, value in given.items() if band != "*"}
    values = list(own.values())
    # By their texts: NaN equals itself there.
    if len(own) == len(names) and len({repr(value) for value in values}) == 1:
        return values[0], {}
    return given.get("*"), own


def _mask(bands: Sequence[PredictionBand], wanted: _Asset, warnings: list[str]) -> dict[str, Any]:
    """The last band as a mask of others."""
    names, last = [band.name for band in bands[:-1]], bands[-1]
    masked = names if wanted.mask_bands == ("all",) else list(wanted.mask_bands or ())
    for band in masked:
        if band not in names:
            raise UsageError(
                f"mask_bands: no band {band!r} that {last.name!r}, the last one, could mask; allowed are all,"
                f" {', '.join(names)}"
            )
    if len(set(masked)) < len(masked):
        raise UsageError(f"mask_bands: a band is given twice in {','.join(masked)}; give each once")
    if not masked:
        raise UsageError(f"mask_bands: {last.name!r} is the only band, which can't be a mask of others; leave it out")
    without = [band for band in masked if band in wanted.missing or "*" in wanted.missing]
    if without:
        raise UsageError(f"missing_data, mask_bands: band {without[0]!r} has both; Earth Engine takes one of them")
    if last.kind != "bytes":
        warnings.append(
            f"mask_bands: {last.name}, the last band, holds {_HOLDS[last.kind]}; Earth Engine's guide tells of masks of"
            " bytes alone"
        )
    return {"tilesetId": _TILESET} | ({} if wanted.mask_bands == ("all",) else {"bandIds": masked})


_HOLDS = {"float": "float32", "int64": "whole numbers", "bytes": "bytes"}


def _can_hold(kind: str, value: float) -> bool:
    """Whether values of a feature of ``kind`` may be ``value``."""
    if kind == "float":
        with np.errstate(over="ignore"):
            return not math.isfinite(value) or float(np.float32(value)) == value
    return value.is_integer() and (kind != "bytes" or 0 <= value <= 255)


def _missing_value(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UsageError(f"missing_data: found {value!r}; allowed is a number, or BAND=NUMBER,…")
    try:
        return float(value)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"missing_data: found {value!r}; allowed is a number, or BAND=NUMBER,…") from error


def _json_number(value: float) -> float | str:
    """JSON has no numbers for NaN and infinity; protocol buffers read these texts."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


# The CRS.


def _crs(text: str) -> str:
    """A code or WKT as given; what else tells a CRS as WKT."""
    try:
        wkt = crs_wkt(text)
    except InputError as error:
        raise UsageError(f"crs: {error}") from error
    if not wkt:
        raise UsageError("crs: found an empty text; give AUTHORITY:CODE or WKT")
    return text.strip() if _CODE_OR_WKT.match(text) else wkt


def _crs_warnings(found: PredictionSet, crs: str | None) -> list[str]:
    own = found.mixer.crs
    if crs is None:
        if own.strip():
            return []
        return [f"{found.mixer_path}: the mixer has no CRS, so Earth Engine can't place the pixels; give --crs"]
    if not own.strip() or same_crs(own, crs):
        return []
    return [f"crs: {crs} in place of the mixer's {own}; the pixels' coordinates stay the same numbers"]
