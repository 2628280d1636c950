"""What a raster's header says: its grid, its blocks, its masks, its bands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import rasterio.shutil
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.io import MemoryFile

from geotfr.errors import InputError
from geotfr.grid import GeoBox
from geotfr.grid.crs import crs_text, same_crs
from geotfr.options.addresses import name_of
from geotfr.rasters.bands import SourceBand
from geotfr.rasters.masks import nodata_in
from geotfr.rasters.safe_open import GDAL_ERRORS, gdal_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rasterio.io import DatasetReader

    from geotfr.rasters.memory import MemoryRaster
    from geotfr.rasters.remote import RemoteFile

__all__ = [
    "SourceFile",
    "check_one_grid",
    "describe_bands",
    "describe_file",
    "describe_memory",
    "grid_words",
    "outside",
]

_NOT_UTF8 = "\N{REPLACEMENT CHARACTER}"
"""What bytes decode to that are not UTF-8."""

_NOT_XML = re.compile(r"[^\t\n\r -\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")
"""What GDAL writes and no XML may hold."""

IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
"""The transform that rasterio gives for a raster without one."""

THREADED_BLOCK_BYTES = 64 << 10
"""From this size of a decoded block on threads pay: single-row strips took 1.3 to 2 times as long with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file of the stack.

    Attributes
    ----------
    name, size_bytes
        Its name without the folder, and its size.
    path
        Where it is.
    geobox
        Its grid.
    block_shape_yx
        (rows, columns) of a storage block; the greatest, where bands differ.
    block_bytes
        Decoded bytes of one storage block, of all bands where they are stored together: the least that one
        read costs.
    is_compressed
        Whether blocks are decoded.
    mask_band
        Number of a band whose mask is the file's own mask band (internal or ``.msk``); 0 for none.
    has_band_masks
        Whether each band has its own mask band instead.
    alpha_bands
        Numbers of the alpha bands.
    memory
        The pixels of a source in memory, which has no path; None for a file.
    remote
        What the server tells of a file that is fetched; None for a local one.
    page
        Which image of a TIFF it is, from 1; 0 for the first one.
    """

    name: str
    size_bytes: int
    path: str
    geobox: GeoBox
    block_shape_yx: tuple[int, int]
    block_bytes: int
    is_compressed: bool
    mask_band: int
    has_band_masks: bool
    alpha_bands: tuple[int, ...]
    memory: MemoryRaster | None = None
    remote: RemoteFile | None = None
    page: int = 0

    @property
    def opened_as(self) -> str:
        """The name by which :func:`geotfr.rasters.safe_open.safe_open` opens it."""
        return f"GTIFF_DIR:{self.page}:{self.path}" if self.page else self.path

    @property
    def has_version(self) -> bool:
        """Whether a later run can tell if it is the same: not pixels in memory, nor what a server says nothing of."""
        return self.memory is None and (self.remote is None or self.remote.version != "")

    @property
    def is_worth_threads(self) -> bool:
        """Whether decoding in threads pays: not for plain blocks, where it took 5 times as long, or tiny ones."""
        return self.is_compressed and self.block_bytes >= THREADED_BLOCK_BYTES

    @property
    def has_mask(self) -> bool:
        """Whether a band of masks or alpha can mask its pixels."""
        return bool(self.mask_band or self.has_band_masks or self.alpha_bands)


def describe_file(
    dataset: DatasetReader,
    path: str,
    *,
    allow_ungeoreferenced: bool,
    remote: RemoteFile | None = None,
    page: int = 0,
) -> SourceFile:
    """The facts of an open raster; ``remote`` is what the server tells of one that is fetched.

    Raises
    ------
    InputError
        If its place on the ground is not told, or makes no sense.
    """
    flags = dataset.mask_flag_enums
    together = dataset.interleaving is not None and dataset.interleaving.name == "pixel"
    sizes = [
        rows * cols * _dtype(dtype).itemsize
        for (rows, cols), dtype in zip(dataset.block_shapes, dataset.dtypes, strict=True)
    ]
    rows, cols = zip(*dataset.block_shapes, strict=True)
    # GDAL tells one source of masking per band: a mask band hides nodata, nodata hides alpha. Only mask bands
    # are taken from it; nodata is compared here, and alpha is found by its colour.
    own = [MaskFlags.per_dataset in found and MaskFlags.alpha not in found for found in flags]
    return SourceFile(
        name=name_of(path),
        size_bytes=Path(path).stat().st_size if remote is None else remote.size_bytes,
        remote=remote,
        page=page,
        path=path,
        geobox=_geobox(dataset, path, allow_ungeoreferenced=allow_ungeoreferenced),
        block_shape_yx=(max(rows), max(cols)),
        block_bytes=sum(sizes) if together else max(sizes),
        is_compressed=dataset.compression is not None,
        mask_band=own.index(True) + 1 if any(own) else 0,
        has_band_masks=any(not found for found in flags),
        alpha_bands=tuple(
            index for index, colour in enumerate(dataset.colorinterp, start=1) if colour == ColorInterp.alpha
        ),
    )


def _geobox(dataset: DatasetReader, path: str, *, allow_ungeoreferenced: bool) -> GeoBox:
    a, b, c, d, e, f = (float(number) for number in tuple(dataset.transform)[:6])
    affine = (a, b, c, d, e, f)
    try:
        crs = crs_text(dataset.crs.to_wkt()) if dataset.crs else ""
    except (*GDAL_ERRORS, InputError) as error:
        raise InputError(f"{path}: its CRS can't be understood: {gdal_words(error)}") from error
    if affine == IDENTITY:
        if not allow_ungeoreferenced:
            has_points = bool(dataset.gcps[0]) or dataset.rpcs is not None
            kind = "GCPs" if dataset.gcps[0] else "RPCs"
            raise InputError(
                f"{path}: only {kind}: warp it first, or pass --allow-ungeoreferenced"
                if has_points
                else f"{path}: no georeference; pass --allow-ungeoreferenced to place it at (0, 0)"
            )
    elif not np.isfinite(affine).all() or a * e == b * d:
        raise InputError(f"{path}: its transform {affine} maps pixels to no area; repair its georeference")
    return GeoBox(shape_yx=(dataset.height, dataset.width), affine=affine, crs=crs)


def describe_bands(
    dataset: DatasetReader,
    path: str,
    *,
    source_number: int,
    nodata_text: str | None = None,
    warnings: list[str],
) -> tuple[SourceBand, ...]:
    """All bands of an open raster, without names; what a user should know is added to ``warnings``.

    ``nodata_text`` is the nodata tag of a GeoTIFF, as it is written: GDAL makes a number of any text, and drops numbers
    that the type doesn't hold.
    """
    try:
        descriptions = dataset.descriptions
    except UnicodeDecodeError:
        found = [band.findtext("Description") or "" for band in _told_bands(dataset)]
        descriptions = tuple(None if _NOT_UTF8 in text else text for text in found)
        bad = [str(index) for index, text in enumerate(found, start=1) if _NOT_UTF8 in text]
        warnings.append(f"{path}: descriptions that are not UTF-8 are skipped: of band {', '.join(bad)}")
    bands = []
    tags = _nodata_tags(dataset, nodata_text)
    useless: dict[str, list[str]] = {}
    for index in dataset.indexes:
        dtype, tag = _dtype(dataset.dtypes[index - 1]), tags[index - 1]
        nodata = () if tag is None or dtype.kind == "c" else _nodata_in(dtype, tag)
        if tag is not None and not nodata and not (dtype.kind in "fc" and _is_nan(tag)):
            useless.setdefault(f"{tag!s:.40} in {dataset.dtypes[index - 1]}", []).append(str(index))
        bands.append(
            SourceBand(
                name="",
                dtype=dtype,
                nodata=nodata,
                scale=float(dataset.scales[index - 1]),
                offset=float(dataset.offsets[index - 1]),
                description=descriptions[index - 1] or "",
                source=name_of(path),
                source_number=source_number,
                index=index,
                is_alpha=dataset.colorinterp[index - 1] == ColorInterp.alpha,
            )
        )
    for words, indexes in useless.items():
        many = f"bands {', '.join(indexes[:8])}{' and others' if len(indexes) > 8 else ''}"
        warnings.append(
            f"{path}: {many if len(indexes) > 1 else f'band {indexes[0]}'}: its nodata {words} is no value of the type,"
            " and masks nothing"
        )
    return tuple(bands)


def outside(file: SourceFile, grid: GeoBox) -> InputError:
    """The error of a ``file`` that has no pixel on ``grid``."""
    return InputError(
        f"{file.path}: {grid_words(file.geobox)}: it lies outside the export's grid: {grid_words(grid)};"
        " leave it out, or choose another region"
    )


def describe_memory(
    raster: MemoryRaster, name: str, *, source_number: int
) -> tuple[SourceFile, tuple[SourceBand, ...]]:
    """The facts of a raster in memory, which errors call ``name``, and its bands without names."""
    count, _, cols = raster.pixels.shape
    block = raster.chunk_yx or (1, cols)
    names = raster.names or ("",) * count
    dtype = raster.pixels.dtype
    file = SourceFile(
        name=name,
        size_bytes=raster.pixels.nbytes,
        path=name,
        geobox=raster.geobox,
        block_shape_yx=block,
        # What is in memory already costs nothing more.
        block_bytes=0 if raster.chunk_yx is None else block[0] * block[1] * count * dtype.itemsize,
        is_compressed=False,
        mask_band=0 if raster.mask is None else 1,
        has_band_masks=False,
        alpha_bands=(),
        memory=raster,
    )
    bands = tuple(
        SourceBand(
            name="",
            dtype=dtype,
            nodata=() if raster.nodata is None or dtype.kind == "c" else nodata_in(dtype, raster.nodata),
            scale=1.0,
            offset=0.0,
            description=names[index - 1],
            source=name,
            source_number=source_number,
            index=index,
            is_alpha=False,
        )
        for index in range(1, count + 1)
    )
    return file, bands


def _dtype(name: str) -> np.dtype[np.generic]:
    """numpy's type for rasterio's name; complex integers, which numpy has not, as another complex type."""
    return np.dtype("complex64" if name.startswith("complex_") else name)


def check_one_grid(files: Sequence[SourceFile]) -> None:
    """Raise InputError, with both grids, for the first file that lies on another one than the first."""
    first = files[0]
    for file in files[1:]:
        if not first.geobox.same_grid(file.geobox) or not same_crs(first.geobox.crs, file.geobox.crs):
            raise InputError(
                f"{file.path}: {grid_words(file.geobox)}, but {first.name}: {grid_words(first.geobox)}; "
                "sources are stacked on one grid: warp one onto the other first"
            )


def grid_words(geobox: GeoBox) -> str:
    """``geobox`` as errors tell it."""
    rows, cols = geobox.shape_yx
    crs = geobox.crs if len(geobox.crs) < 40 else geobox.crs[:37] + "…"
    return f"{cols}x{rows}, transform {list(geobox.affine)}, CRS {crs or 'none'}"


def _nodata_in(dtype: np.dtype[np.generic], tag: float | str) -> tuple[float, ...]:
    try:
        return nodata_in(dtype, tag)
    except ValueError:  # a text that is no number
        return ()


def _is_nan(tag: float | str) -> bool:
    try:
        return bool(np.isnan(float(tag)))
    except ValueError:
        return False


def _nodata_tags(dataset: DatasetReader, text: str | None) -> Sequence[float | str | None]:
    """Each band's nodata tag; of 64-bit integers its digits, which rasterio's float64 would round or leave out.

    ``text`` is the tag of a GeoTIFF, of all its bands: it decides where GDAL's number isn't what it says.
    """
    found = _gdal_nodata_tags(dataset)
    words = (text or "").split()
    if not words:
        return found
    return [words[0] if tag is None or _is_misread(words[0], tag) else tag for tag in found]


def _is_misread(text: str, tag: float | str) -> bool:
    """Whether GDAL made the number ``tag`` of a ``text`` that says another: of its first digits, or by wrapping it.

    A number that is neither comes from elsewhere, a side file.
    """
    try:
        if float(text) == float(tag) or (np.isnan(float(text)) and np.isnan(float(tag))):
            return False
    except ValueError:
        if re.match(r"-?1\.#(IND|QNAN|INF)", text):  # what Microsoft's library calls NaN and infinity
            return False
    digits = re.match(r"[+-]?\d+", text)
    decimals = re.match(r"[+-]?\d+(\.\d*)?", text)
    whole = int(digits[0]) if digits else 0
    return float(tag) in (float(whole), float(whole % 2**64), float(decimals[0]) if decimals else 0.0)


def _gdal_nodata_tags(dataset: DatasetReader) -> Sequence[float | str | None]:
    if not any(dtype in ("int64", "uint64") for dtype in dataset.dtypes):
        return list(dataset.nodatavals)
    return [band.findtext("NoDataValue") for band in _told_bands(dataset)]


def _told_bands(dataset: DatasetReader) -> list[ElementTree.Element]:
    """Each band in GDAL's own words."""
    with MemoryFile(ext=".vrt") as memory:
        # A VRT is GDAL's own description in text; nothing of it is opened.
        rasterio.shutil.copy(dataset, memory.name, driver="VRT")
        text = bytes(memory.getbuffer()).decode(errors="replace")
    return ElementTree.fromstring(_NOT_XML.sub(_NOT_UTF8, text)).findall("VRTRasterBand")
