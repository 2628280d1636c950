"""STAC Items of an export and of a raster: where and when it is, and which files it is made of.

**Source**: STAC 1.1; the extensions projection 2.0, label 1.0.1, classification 2.0 and file 2.1.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError, MissingInputError, UsageError
from geotfr.flags import checks_flags
from geotfr.grid.crs import crs_wkt2
from geotfr.grid.footprints import BEYOND_MAP, Footprints
from geotfr.mixer import is_manifest, is_mixer, read_manifest
from geotfr.mixer.patch_tables import is_patch_table
from geotfr.pipeline.ingest.classes import read_classes
from geotfr.storage import atomic_output
from geotfr.storage.atomic import check_output
from geotfr.storage.inputs import check_not_input

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geotfr.grid import GeoBox
    from geotfr.mixer import Manifest
    from geotfr.mixer.manifest import BandInfo
    from geotfr.pipeline.ingest.classes import ClassInfo

    PathLike = str | os.PathLike[str]

__all__ = ["StacResult", "check_stac", "stac_path", "write_stac_item"]

_PROJECTION = "https://stac-extensions.github.io/projection/v2.0.0/schema.json"
_LABEL = "https://stac-extensions.github.io/label/v1.0.1/schema.json"
_CLASSIFICATION = "https://stac-extensions.github.io/classification/v2.0.0/schema.json"
_FILE = "https://stac-extensions.github.io/file/v2.1.0/schema.json"

_STORED = {"float": "float32", "int64": "int64", "bytes": "uint8"}
"""Kind of a feature -> the type of its numbers in records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StacResult:
    """The Item that was written: its file, the Item in JSON types, and what a user should know, one line each."""

    path: Path
    item: dict[str, Any]
    warnings: tuple[str, ...]


def check_stac() -> Any:
    """pystac.

    Raises
    ------
    UsageError
        The extra ``stac`` isn't installed.
    """
    try:
        return importlib.import_module("pystac")
    except ModuleNotFoundError as error:
        raise UsageError("STAC Items need pystac, which isn't installed; pip install 'geotfr[stac]'") from error


def stac_path(source: PathLike) -> Path:
    """Where the Item of a manifest or a raster goes by default.

    >>> stac_path("out/scene-manifest.json").name, stac_path("map.tif").name
    ('scene-stac.json', 'map.stac.json')
    """
    path = Path(source)
    if path.name.endswith("manifest.json"):
        return path.with_name(f"{path.name.removesuffix('manifest.json')}stac.json")
    return path.with_suffix(".stac.json")


@checks_flags
def write_stac_item(
    source: PathLike,
    output: PathLike | None = None,
    *,
    date: str | None = None,
    class_bands: str | Sequence[str] = (),
    classes: PathLike | None = None,
    overwrite: bool = False,
) -> StacResult:
    """Write the STAC Item of an export (its manifest) or of a GeoTIFF, with relative links to the files beside it.

    Parameters
    ----------
    source
        A manifest, or a GeoTIFF.
    output
        The Item's file; by default ``PREFIX-stac.json``, or ``NAME.stac.json`` beside a raster.
    date
        ISO 8601, ``2024-06-01`` or ``2024-06-01/2024-06-30``. By default the file's time of change, and a warning.
    class_bands
        Bands of an export whose values are labels: the Item has the label extension. The patch table beside the set
        tells their classes.
    classes
        Of a raster whose first band holds classes: the CSV file of its classes, as for
        :func:`geotfr.ingest_predictions`. An export's manifest tells the classes of its labels.
    overwrite
        Replace ``output``.

    Raises
    ------
    UsageError
        A date that is none, or pystac isn't installed.
    InputError
        A file that is neither.
    OutputError
        The Item can't be written, or exists and ``overwrite`` is False.

    Examples
    --------
    >>> write_stac_item("patches/scene-manifest.json", date="2024-06-01").path  # doctest: +SKIP
    PosixPath('patches/scene-stac.json')
    """
    pystac = check_stac()
    path = Path(source)
    if not path.is_file():
        raise MissingInputError(f"{path}: no such file; name a manifest or a GeoTIFF")
    target = stac_path(path) if output is None else Path(output)
    check_output(target, overwrite=overwrite)
    check_not_input(target, (path,))
    warnings = []
    if date is None:
        warnings.append(
            "the Item's date is the file's time of change; --datetime (date=) tells when the pixels are from"
        )
    when = _dates(date, path)
    if path.suffix == ".json":
        if not is_manifest(path):
            raise InputError(f"{path}: no manifest; an Item is made of a manifest or a GeoTIFF")
        if classes is not None:
            raise UsageError("classes: are a raster's; an export's manifest tells the classes of its labels")
        manifest = read_manifest(path)
        geobox, assets = manifest.geobox, _assets_of(path, manifest)
        properties = _labels(path, manifest, class_bands)
        name = path.name.removesuffix("manifest.json").rstrip("-") or path.resolve().parent.name
    else:
        geobox, assets = _raster(path, () if classes is None else read_classes(Path(classes)))
        properties, name = {}, path.stem
    folder = os.path.relpath(path.resolve().parent, target.resolve().parent)
    footprints = Footprints(geobox.crs, geobox.affine, geobox.shape_yx)
    geometry, bounds = footprints.geojson(), footprints.lonlat_bounds(np.zeros(1, np.int64), np.zeros(1, np.int64))[0]
    if geometry is None:
        warnings.append(f"the Item has no geometry: {footprints.missing or BEYOND_MAP}")
    extensions = [_PROJECTION, _FILE, *([_LABEL] if properties else [])]
    if any("classification:classes" in band for asset in assets.values() for band in asset.get("bands", ())):
        extensions.append(_CLASSIFICATION)
    missing = _add_checksums(path.resolve().parent, assets)
    if missing:
        warnings.append(f"{len(missing):,} files of the set aren't beside the manifest, as {missing[0]}: no checksum")
    item = pystac.Item(
        id=name,
        geometry=geometry,
        bbox=None if geometry is None else bounds.tolist(),
        properties={**_projection(geobox), **properties},
        stac_extensions=extensions,
        **when,
    )
    for key, asset in assets.items():
        href = (Path(folder) / asset.pop("file")).as_posix()
        item.add_asset(key, pystac.Asset.from_dict({"href": href if href.startswith("..") else f"./{href}", **asset}))
    document = item.to_dict(include_self_link=False)
    with atomic_output(target, overwrite=overwrite) as file:
        file.write((json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())
    return StacResult(path=target, item=document, warnings=tuple(warnings))


def _dates(date: str | None, path: Path) -> dict[str, Any]:
    """``datetime``, or start and end, as pystac takes them."""
    if date is None:
        changed = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
        return {"datetime": changed}
    found = []
    for text in date.split("/"):
        try:
            when = datetime.fromisoformat(text.strip())
        except ValueError as error:
            raise UsageError(
                f"date: found {date!r}; allowed are ISO 8601 dates, as 2024-06-01 or 2024-06-01/2024-06-30"
            ) from error
        found.append(when if when.tzinfo else when.replace(tzinfo=UTC))
    if len(found) == 1:
        return {"datetime": found[0]}
    if len(found) != 2 or found[0] > found[1]:
        raise UsageError(f"date: found {date!r}; allowed is one date, or a first and a last one")
    return {"datetime": None, "start_datetime": found[0], "end_datetime": found[1]}


def _projection(geobox: GeoBox) -> dict[str, Any]:
    a, b, c, d, e, f = geobox.affine
    made: dict[str, Any] = {"proj:code": None}
    if ":" in geobox.crs and "[" not in geobox.crs:
        made["proj:code"] = geobox.crs
    elif geobox.crs:
        made["proj:wkt2"] = crs_wkt2(geobox.crs)
    return {**made, "proj:shape": list(geobox.shape_yx), "proj:transform": [a, b, c, d, e, f]}


def _assets_of(path: Path, manifest: Manifest) -> dict[str, dict[str, Any]]:
    bands = [_record_band(band, manifest) for band in manifest.data_bands]
    suffix = "" if manifest.compressor == "none" else "+gzip"
    found: dict[str, dict[str, Any]] = {}
    for number, shard in enumerate(manifest.shards):
        found[f"shard-{number:05d}"] = {
            "file": shard.name,
            "type": f"application/x-tfrecord{suffix}",
            "title": f"{shard.records:,} records",
            "roles": ["data"],
            "bands": bands,
            "file:size": shard.bytes,
        }
    prefix = path.name.removesuffix("manifest.json")
    mixers = [path.with_name(f"{prefix}mixer.json"), path.with_name(f"{prefix.rstrip('-')}.json")]
    others = {
        "mixer": next((each for each in mixers if each.is_file() and is_mixer(each)), None),
        "manifest": path,
        "patches": path.with_name(f"{prefix}patches.parquet"),
    }
    for key, file in others.items():
        if file is None or (key == "patches" and not is_patch_table(file)):
            continue
        found[key] = {
            "file": file.name,
            "type": "application/vnd.apache.parquet" if key == "patches" else "application/json",
            "roles": ["metadata"],
            "file:size": file.stat().st_size,
        }
    return found


def _record_band(band: BandInfo, manifest: Manifest) -> dict[str, Any]:
    """A band as the records hold it: their type, and the value of masked pixels."""
    labels = manifest.labels or {}
    stored = np.dtype(_STORED.get(band.kind, band.dtype))
    made: dict[str, Any] = {"name": band.name, "data_type": stored.name}
    fill = manifest.fills.get(band.name)
    if band.name == labels.get("band"):
        ignore = labels.get("ignore")
        known = {str(name): int(value) for name, value in (labels.get("classes") or {}).items()}
        listed = [_class(value, name) for name, value in known.items()]
        if listed:
            background = labels.get("background")
            if background is not None and background not in known.values():
                listed.append(_class(int(background), "background"))
            if ignore is not None and ignore not in known.values() and ignore != background:
                listed.append({**_class(int(ignore), "ignore"), "nodata": True})
            made["classification:classes"] = sorted(listed, key=lambda each: int(each["value"]))
    if fill is not None:
        value = stored.type(fill).item()
        made["nodata"] = value if np.isfinite(value) else str(value)
    return made


def _class(value: int, title: str, colour: tuple[int, ...] | None = None) -> dict[str, Any]:
    """A class as the extension wants it: its name has letters, digits, hyphens and underscores alone."""
    name = re.sub(r"[^0-9A-Za-z_-]+", "-", title).strip("-")
    made: dict[str, Any] = {"value": value, "name": name or f"class-{value}", **({"title": title} if title else {})}
    return made if colour is None else {**made, "color_hint": bytes(colour[:3]).hex().upper()}


def _add_checksums(folder: Path, assets: Mapping[str, dict[str, Any]]) -> list[str]:
    """Add the digests of the files in ``folder`` to ``assets``; the names of those that aren't there.

    **Source**: multihash: the code of SHA-256, the digest's length, and the digest, in hexadecimal digits.
    """
    missing = []
    for asset in assets.values():
        try:
            with (folder / asset["file"]).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256")
        except FileNotFoundError:
            missing.append(asset["file"])
            continue
        except OSError as error:
            raise InputError(f"{folder / asset['file']}: can't be read: {error.strerror}") from error
        asset["file:checksum"] = f"1220{digest.hexdigest()}"
    return missing


def _labels(path: Path, manifest: Manifest, class_bands: str | Sequence[str]) -> dict[str, Any]:
    """The label extension's properties; empty without label bands."""
    names = [name.strip() for name in (class_bands.split(",") if isinstance(class_bands, str) else class_bands)]
    names = [name for name in names if name]
    known = [band.name for band in manifest.data_bands]
    for name in names:
        if name not in known:
            raise UsageError(f"class_bands: no band {name!r}; the bands are {', '.join(known)}")
    if not names:
        return {}
    table = path.with_name(path.name.removesuffix("manifest.json") + "patches.parquet")
    classes = {name: _classes(table, name, len(names)) for name in names}
    # Of rasters the extension wants null for the name, and a list without classes is of no type.
    listed = [{"name": None, "classes": values} for values in classes.values() if values]
    return {
        "label:properties": None,
        **({"label:classes": listed} if listed else {}),
        "label:description": f"classes of {', '.join(names)}",
        "label:type": "raster",
        "label:tasks": ["segmentation"],
    }


def _classes(table: Path, band: str, bands: int) -> list[int]:
    """The classes of a band that a patch table has shares of."""
    if not is_patch_table(table):
        return []
    from geotfr.vectors.patch_table import read_patch_table

    prefix = "share_" if bands == 1 else f"share_{band}_"
    found = [name.removeprefix(prefix) for name in read_patch_table(table).names if name.startswith(prefix)]
    return sorted(int(value) for value in found if value.lstrip("-").isdecimal())


def _raster(path: Path, classes: Sequence[ClassInfo]) -> tuple[GeoBox, dict[str, dict[str, Any]]]:
    from geotfr.rasters.request import SourceRequest
    from geotfr.rasters.source import open_export_source

    with open_export_source([str(path)], SourceRequest(allow_ungeoreferenced=True)) as source:
        geobox = source.geobox
        bands = []
        for feature, number in ((each, number) for each in source.features for number in each.planes):
            band = source.bands[number]
            made: dict[str, Any] = {"name": feature.name, "data_type": np.dtype(band.dtype).name}
            if band.nodata:
                value = np.asarray(band.nodata[0]).item()
                made["nodata"] = value if np.isfinite(value) else str(value)
            bands.append(made)
    if classes:
        bands[0]["classification:classes"] = [_class(each.value, each.name, each.rgba) for each in classes]
    return geobox, {
        "raster": {
            "file": path.name,
            "type": "image/tiff; application=geotiff",
            "roles": ["data"],
            "bands": bands,
            "file:size": path.stat().st_size,
        }
    }
