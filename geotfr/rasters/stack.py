"""Rasters as one stack of bands: which files there are, and which of their bands make which features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError, UsageError
from geotfr.grid.crs import crs_text, crs_wkt
from geotfr.rasters.array_bands import MissingFile, parse_array_band
from geotfr.rasters.bands import SourceBand, SourceSpec, band_names, parse_source, select_bands
from geotfr.rasters.describe import IDENTITY, SourceFile, describe_bands, describe_file, describe_memory
from geotfr.rasters.gtiff_crs import gtiff_holds
from geotfr.rasters.masks import nodata_in
from geotfr.rasters.memory import MemoryRaster, is_memory_source, memory_raster
from geotfr.rasters.remote import ask
from geotfr.rasters.safe_open import safe_open, split_page, tiff_directories
from geotfr.stores.address import address_scheme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geotfr.rasters.array_bands import ArrayBandSpec
    from geotfr.rasters.request import SourceRequest

__all__ = ["SourceFeature", "Stack", "gather"]

PARTS: dict[str, np.dtype[np.generic]] = {"complex64": np.dtype("float32"), "complex128": np.dtype("float64")}
"""The type of the parts of a complex number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFeature:
    """A feature of the export: a scalar band, or the elements of an array band.

    Attributes
    ----------
    name
        Unique among the features.
    planes
        Positions of its bands in the stack.
    is_array
        Whether a pixel of it is an array; it may have one element.
    is_label
        Whether it is made of labels, which mask nothing.
    fill
        What masked pixels hold; None: the export's default value.
    """

    name: str
    planes: range
    is_array: bool
    is_label: bool = False
    fill: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Bands of rasters.

    Attributes
    ----------
    files
        All files, the one whose grid counts first.
    bands
        The bands: scalar bands, then the elements of array bands, which have the array band's name.
    features
        What the bands make.
    masks
        For each mask its band, see :class:`geotfr.rasters.request.SourceRequest`.
    warnings
        What a user should know, one line each.
    """

    files: tuple[SourceFile, ...]
    bands: tuple[SourceBand, ...]
    features: tuple[SourceFeature, ...]
    masks: tuple[SourceBand, ...]
    warnings: tuple[str, ...]


def gather(specs: Sequence[SourceSpec | str | Any], request: SourceRequest) -> Stack:
    """The stack of ``specs`` that ``request`` asks for; headers are read, no pixels.

    Raises
    ------
    MissingInputError, InputError
        For a file that isn't there, isn't a raster, has no georeference, or complex pixels.
    UsageError
        For a band that isn't there, names that clash, or a ``nodata`` that isn't a number.
    """
    files = _Files(request)
    stack: list[SourceBand] = []
    default: list[bool] = []
    for spec in specs:
        found = files.bands(spec)
        stack += found
        default += [_is_single(spec) or not band.is_alpha for band in found]
    named = band_names(stack, band_counts=files.band_counts)
    array_specs = [parse_array_band(text) for text in request.array_bands]
    arrays = [(array, _elements(array, named, files)) for array in array_specs]
    if not files.described:
        raise UsageError("no source is given; name at least one raster")
    in_arrays = {(band.source_number, band.index) for _, elements in arrays for band in elements}
    if request.bands is not None:
        scalars = select_bands(named, request.bands)
    else:
        scalars = tuple(
            band
            for band, is_default in zip(named, default, strict=True)
            if is_default and (band.source_number, band.index) not in in_arrays
        )
    if not scalars and not arrays:
        raise InputError(f"{files.described[0].path}: alpha bands only; name them in --bands to take them as data")
    warnings = files.warnings
    warnings += [warning for array in array_specs for warning in array.warnings]
    scalars = _distinct_parts(_converted(scalars, request, files, warnings))
    features = [
        SourceFeature(name=band.name, planes=range(place, place + 1), is_array=False)
        for place, band in enumerate(scalars)
    ]
    bands = list(scalars)
    for array, elements in arrays:
        if array.name in [feature.name for feature in features]:
            raise UsageError(
                f"--array-band {array.name}: another feature has that name; choose another, or rename the band by"
                f" --bands new={array.name}"
            )
        planes = _array(array, _converted(elements, request, files, warnings))
        features.append(
            SourceFeature(name=array.name, planes=range(len(bands), len(bands) + len(planes)), is_array=True)
        )
        bands += planes
    masks = tuple(_mask_band(text, files) for text in request.masks)
    _note_scales(bands, warnings)
    return Stack(
        files=tuple(files.described),
        bands=tuple(bands),
        features=tuple(features),
        masks=masks,
        warnings=tuple(dict.fromkeys(warnings)),
    )


class _Files:
    """The files that are described, each once."""

    def __init__(self, request: SourceRequest) -> None:
        self.described: list[SourceFile] = []
        self.warnings: list[str] = []
        self._stacks: list[tuple[SourceBand, ...]] = []
        self._numbers: dict[object, int] = {}
        self._request = request
        crs = request.grid.crs
        self._assigned = "" if crs is None else crs_text(crs_wkt(crs))

    @property
    def band_counts(self) -> list[int]:
        """Bands of each file."""
        return [len(bands) for bands in self._stacks]

    def bands(self, spec: SourceSpec | str | Any) -> tuple[SourceBand, ...]:
        """The bands that ``spec`` names, without names of their own."""
        if is_memory_source(spec):
            return self._stacks[self._memory(spec)]
        if not isinstance(spec, str | SourceSpec):
            raise UsageError(
                "a source is a path, (array, transform, crs) with a mask if it has one, or an xarray DataArray"
            )
        parsed = parse_source(spec) if isinstance(spec, str) else spec
        bands = self._stacks[self._file(parsed.path)]
        if parsed.band is None:
            return bands
        if parsed.band > len(bands):
            raise UsageError(f"{parsed.path}:{parsed.band}: no band {parsed.band}; the file has {len(bands)}")
        return (bands[parsed.band - 1],)

    def _file(self, text: str) -> int:
        if text not in self._numbers:
            request, number = self._request, len(self.described)
            path, page = split_page(text)
            remote = ask(path) if request.allow_network and address_scheme(path) else None
            with safe_open(text, allow_drivers=request.allow_drivers, allow_network=request.allow_network) as dataset:
                file = describe_file(
                    dataset,
                    path,
                    allow_ungeoreferenced=request.allow_ungeoreferenced,
                    remote=remote,
                    page=page,
                )
                directories = tiff_directories(path, remote) if dataset.driver == "GTiff" else []
                nodata = directories[max(page, 1) - 1].nodata if len(directories) >= max(page, 1) else None
                bands = describe_bands(dataset, path, source_number=number, nodata_text=nodata, warnings=self.warnings)
            pages = [place for place, each in enumerate(directories, 1) if each.is_page and not page]
            if len(pages) > 1:
                self.warnings.append(
                    f"{path}: {len(pages):,} pages, of which the first is read; others are"
                    f" GTIFF_DIR:{pages[1]}:{path}{' and so on' if len(pages) > 2 else ''}"
                )
            self._add(text, file, bands)
        return self._numbers[text]

    def _memory(self, source: Any) -> int:
        if id(source) not in self._numbers:
            number = len(self.described)
            raster: MemoryRaster = memory_raster(source)
            file, bands = describe_memory(raster, f"memory_{number + 1}", source_number=number)
            self._add(id(source), file, bands)
        return self._numbers[id(source)]

    def _add(self, key: object, file: SourceFile, bands: tuple[SourceBand, ...]) -> None:
        if not file.geobox.crs and self._assigned:
            file = replace(file, geobox=replace(file.geobox, crs=self._assigned))
        if not file.geobox.crs and file.geobox.affine != IDENTITY:
            self.warnings.append(f"{file.path}: a transform but no CRS; the mixer's crs is empty")
        if all(file.geobox.crs != other.geobox.crs for other in self.described) and not gtiff_holds(file.geobox.crs):
            self.warnings.append(
                f"{file.path}: a GeoTIFF has no form for its CRS; a raster of predictions keeps it in a file .aux.xml"
            )
        self._numbers[key] = len(self.described)
        self.described.append(file)
        self._stacks.append(bands)


def _is_single(spec: SourceSpec | str | Any) -> bool:
    if not isinstance(spec, str | SourceSpec):
        return False
    return (parse_source(spec) if isinstance(spec, str) else spec).band is not None


def _elements(spec: ArrayBandSpec, named: tuple[SourceBand, ...], files: _Files) -> tuple[SourceBand, ...]:
    """The bands of an array band, by number of the stack or from rasters of their own."""
    found: list[SourceBand] = []
    for element in spec.elements:
        if isinstance(element, MissingFile):
            found += [replace(band, source_number=-1, nodata=()) for band in _data_bands(element.like, files)]
        elif isinstance(element, int):
            if element > len(named):
                raise UsageError(f"--array-band {spec.name}: no band {element}; the sources have {len(named)}")
            found.append(named[element - 1])
        else:
            found += _data_bands(element, files)
    return tuple(found)


def _data_bands(spec: SourceSpec, files: _Files) -> list[SourceBand]:
    return [band for band in files.bands(spec) if spec.band is not None or not band.is_alpha]


def _array(spec: ArrayBandSpec, elements: tuple[SourceBand, ...]) -> tuple[SourceBand, ...]:
    """``elements`` with the array band's name and one type that holds all of theirs."""
    for band in elements:
        if band.part:
            raise UsageError(f"--array-band {spec.name}: {band.source} is complex; array bands are of real numbers")
    dtype = np.result_type(*(band.dtype for band in elements))
    if dtype.kind == "f" and all(band.dtype.kind in "iu" for band in elements):
        # No integer type holds uint64 and a signed one, and float64 would round; each element keeps its own.
        return tuple(replace(band, name=spec.name) for band in elements)
    return tuple(replace(band, name=spec.name, dtype=dtype, stored_dtype=band.file_dtype) for band in elements)


def _converted(
    bands: tuple[SourceBand, ...], request: SourceRequest, files: _Files, warnings: list[str]
) -> tuple[SourceBand, ...]:
    """``bands`` with the user's nodata, complex ones as two, and scaled ones as float32, as ``request`` asks."""
    if request.nodata is not None:
        bands = _with_nodata(bands, request.nodata, warnings)
    result: list[SourceBand] = []
    for band in bands:
        if band.dtype.kind == "c" and not request.complex_parts:
            path = files.described[band.source_number].path
            raise InputError(
                f"{path}: band {band.index} ({band.name or band.source}) is complex;"
                " pass --complex real,imag to take both parts, or leave it out with --bands"
            )
        if band.dtype.kind == "c":
            part = replace(band, dtype=PARTS[band.dtype.name], stored_dtype=band.dtype)
            result += [
                replace(part, name=f"{band.name}_real", part="real"),
                replace(part, name=f"{band.name}_imag", part="imag"),
            ]
        elif request.unscale:
            result.append(replace(band, dtype=np.dtype(np.float32), stored_dtype=band.dtype, is_unscaled=True))
        else:
            result.append(band)
    return tuple(result)


def _distinct_parts(bands: tuple[SourceBand, ...]) -> tuple[SourceBand, ...]:
    """``bands``, unless a part of a complex band has another band's name."""
    names = [band.name for band in bands]
    clash = next((name for name in names if names.count(name) > 1), None)
    if clash is not None:
        raise UsageError(f"--complex: two bands would be named {clash!r}; rename one by --bands new=old")
    return bands


def _with_nodata(bands: tuple[SourceBand, ...], nodata: str | float, warnings: list[str]) -> tuple[SourceBand, ...]:
    if nodata == "none":
        return tuple(replace(band, nodata=()) for band in bands)
    try:
        changed = tuple(
            band if band.dtype.kind == "c" else replace(band, nodata=nodata_in(band.dtype, nodata)) for band in bands
        )
        is_nan = np.isnan(float(nodata))
    except ValueError as error:
        raise UsageError(f"--nodata {nodata!r}: not a number") from error
    unmasked = [band for band in changed if not band.nodata and not is_nan]
    if unmasked:
        names = ", ".join(f"{band.name or band.source} ({band.dtype})" for band in unmasked)
        warnings.append(f"--nodata {nodata} is no value of {names}; it masks nothing there")
    return changed


def _mask_band(text: str, files: _Files) -> SourceBand:
    """The band of ``--mask``; its own nodata doesn't count, only its zeros do."""
    bands = files.bands(text)
    if len(bands) > 1:
        raise UsageError(f"--mask {text}: {len(bands)} bands; say which one masks, as in {text}:1")
    if bands[0].dtype.kind == "c":
        raise InputError(f"--mask {text}: a complex band; a mask has plain numbers")
    return replace(bands[0], nodata=())


def _note_scales(bands: Sequence[SourceBand], warnings: list[str]) -> None:
    raw = [band for band in bands if (band.scale, band.offset) != (1, 0) and not band.is_unscaled and not band.part]
    if raw:
        names = ", ".join(dict.fromkeys(band.name for band in raw))
        warnings.append(f"{names}: stored with scale and offset, exported raw; --unscale gives the physical values")
