"""The manifest that ``earthengine upload image --manifest`` takes, for predictions and their mixer.

**Source**: Earth Engine's guides to the image manifest and to uploading TFRecord predictions: one source names all
files, predictions first and the mixer last.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from geotfr.errors import InputError, UsageError
from geotfr.mixer.sets import find_predictions
from geotfr.options import IngestOptions
from geotfr.pipeline.ingest.output_grid import output_grid
from geotfr.pipeline.ingest.predictions import Predictions
from geotfr.records.faults import ReadReport

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from pathlib import Path

    from geotfr.mixer.sets import PredictionSet
    from geotfr.options import PairXY

__all__ = ["UploadManifest", "upload_manifest"]

_ASSET = re.compile(r"projects/[a-z0-9.:-]+/assets(/[A-Za-z0-9_-]+)+")
_LEGACY_ID = re.compile(r"(users|projects)(/[A-Za-z0-9_-]+)+")
_LEGACY = "projects/earthengine-legacy/assets/"
_BAND = re.compile(r"[A-Za-z0-9_-]+")
_SUFFIXES = (".tfrecord", ".tfrecord.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadManifest:
    """The manifest, and what it was made of.

    Attributes
    ----------
    document
        The manifest in JSON types.
    files
        The local files to copy to the bucket, in the order of the uris.
    bands
        The bands that Earth Engine will make, in order.
    """

    document: dict[str, Any]
    files: tuple[Path, ...]
    bands: tuple[str, ...]

    def to_text(self) -> str:
        """The manifest's JSON."""
        return json.dumps(self.document, indent=2, ensure_ascii=False) + "\n"


def upload_manifest(
    mixer: str | os.PathLike[str],
    shards: Iterable[str | os.PathLike[str]] = (),
    *,
    name: str,
    uri_prefix: str,
    kernel_size: PairXY | None = None,
    pyramiding_policy: str | Mapping[str, str] | None = None,
    missing_data: float | None = None,
    start_time: str | None = None,
    end_time: str | None = None,
    properties: Mapping[str, str | float] | None = None,
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
        The folder of the files, as ``gs://bucket/folder/``.
    pyramiding_policy
        ``mean`` (default), ``mode``, ``min``, ``max`` or ``sample``, for all bands or as a mapping of every band.
    missing_data
        The value of pixels without data.
    start_time, end_time
        ISO dates or times; UTC unless they say otherwise.
    properties
        Of the asset; texts and numbers.

    Raises
    ------
    UsageError
        A name, uri, time, policy or kernel that Earth Engine wouldn't take.
    RecordError
        Records that are too few or too many, differ in their features, or have lengths that fit no patch.
    InputError
        A file without a ``.tfrecord`` suffix, a set without mixer, or features that make no asset band.
    """
    options = IngestOptions.checked(
        kernel_size=kernel_size, pyramiding_policy=pyramiding_policy, shard_order=shard_order
    )
    asset, folder = _asset(name), _folder(uri_prefix)
    times = {"startTime": _time("start_time", start_time), "endTime": _time("end_time", end_time)}
    if times["startTime"] and times["endTime"] and times["startTime"] > times["endTime"]:
        raise UsageError(f"end_time: {end_time} is before start_time {start_time}")
    found = find_predictions(mixer, shards, shard_order=options.shard_order)
    if found.run is not None:
        raise UsageError(
            f"{found.shards[0]}: holds patches of other rasters of the collection too, which Earth Engine can't leave"
            " out; name the predictions of the mixer's raster alone"
        )
    bands = _checked_bands(found, options)
    files = (*found.shards, found.mixer_path)
    names = [path.name for path in files]
    if len(set(names)) < len(names):
        raise UsageError("shards: two files have one name, and all go to one folder; rename one")
    document: dict[str, Any] = {
        "name": asset,
        "tilesets": [{"sources": [{"uris": [folder + each for each in names]}]}],
        **_policies(bands, options),
    }
    if missing_data is not None:
        document["missingData"] = {"values": [_number(missing_data)]}
    document |= {key: value for key, value in times.items() if value is not None}
    if properties:
        document["properties"] = dict(properties)
    return UploadManifest(document=document, files=files, bands=bands)


def _asset(name: str) -> str:
    """The asset's name as manifests have it; the IDs of older assets lie in a project of their own."""
    if _ASSET.fullmatch(name):
        return name
    if _LEGACY_ID.fullmatch(name) and not re.fullmatch("projects/[^/]+/assets", name):
        return _LEGACY + name
    raise UsageError(
        f"name: {name!r} is no asset; allowed is projects/PROJECT/assets/NAME with letters, digits, - and _"
    )


def _number(value: float) -> float | str:
    """JSON has no numbers for NaN and infinity; protocol buffers read these texts."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _folder(uri_prefix: str) -> str:
    """What the files' names get in front: where a copy of several files to ``uri_prefix`` puts them."""
    if not re.fullmatch(r"gs://[a-z0-9._-]+/(.*/)?[^/]*", uri_prefix):
        raise UsageError(f"uri_prefix: found {uri_prefix!r}; allowed is gs://BUCKET/ and a folder, as gs://bucket/map/")
    return uri_prefix if uri_prefix.endswith("/") else f"{uri_prefix}/"


def _checked_bands(found: PredictionSet, options: IngestOptions) -> tuple[str, ...]:
    """The bands, after a pass over all records."""
    for path in found.shards:
        if not path.name.endswith(_SUFFIXES):
            raise InputError(f"{path}: Earth Engine tells TFRecords by their names; rename it to end in .tfrecord")
    if found.dropped:
        raise InputError(
            f"{found.mixer_path}: {len(found.dropped)} patches weren't exported, so there is no mixer; ingest the"
            " predictions and upload the raster, or export with a masked threshold of 1"
        )
    predictions = Predictions(found, options, output_grid(found, options))
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
    return tuple(band.name for band in predictions.bands)


def _policies(bands: tuple[str, ...], options: IngestOptions) -> dict[str, Any]:
    """One policy for the image, or one for each band."""
    given = dict(options.pyramiding) or {"*": "mean"}
    unknown = [band for band in given if band not in (*bands, "*")]
    missing = [band for band in bands if band not in given and "*" not in given]
    if unknown or missing:
        words = f"no band {unknown[0]!r}" if unknown else f"band {missing[0]!r} has none"
        raise UsageError(f"pyramiding_policy: {words}; give one policy, or one for each of {', '.join(bands)}")
    policies = [given.get(band, given.get("*", "mean")).upper() for band in bands]
    described = [{"id": band, "tilesetBandIndex": place} for place, band in enumerate(bands)]
    if len(set(policies)) == 1:
        return {"bands": described, "pyramidingPolicy": policies[0]}
    return {"bands": [{**band, "pyramidingPolicy": policy} for band, policy in zip(described, policies, strict=True)]}


def _time(option: str, text: str | None) -> str | None:
    """An ISO date or time in the form that the manifest has."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"{option}: found {text!r}; allowed is an ISO date or time, as 2024-06-01T10:30:00Z"
        ) from error
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
