"""A raster as GDAL's warper should see it: chosen bands, with masks in a form that the warper honours.

The warper takes a band's nodata value or the raster's mask, never both, NaN only where it is the nodata value, and
alpha as a weight. geotfr masks by all of them, and by alpha only where it is 0. So a VRT in memory shows the raster's
bands with one form of masking: the nodata value where there is one (NaN in float bands), else a mask band.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from geotfr.grid.crs import crs_wkt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geotfr.grid import GeoBox
    from geotfr.rasters.bands import SourceBand
    from geotfr.rasters.describe import SourceFile

__all__ = ["empty_view", "view"]

GDAL_TYPES = {
    "uint8": "Byte",
    "int8": "Int8",
    "uint16": "UInt16",
    "int16": "Int16",
    "uint32": "UInt32",
    "int32": "Int32",
    "uint64": "UInt64",
    "int64": "Int64",
    "float32": "Float32",
    "float64": "Float64",
    "complex64": "CFloat32",
    "complex128": "CFloat64",
}
"""GDAL's names of pixel types, by numpy's."""


def view(file: SourceFile, bands: Sequence[SourceBand], *, path: str, nodata: float | None, threads: int) -> str:
    """A VRT's text of ``bands`` of ``file``, which all have one type and nodata.

    Parameters
    ----------
    path
        Where GDAL finds the file. It is opened by its name: check it first, see
        :func:`geotfr.rasters.safe_open.safe_open`.
    nodata
        The value that masked pixels get; None: a mask band tells them, if the file has one.
    threads
        Threads that decode blocks.
    """
    grid, source = file.geobox, _Source(path, file.geobox.shape_yx, threads)
    indexes = [band.index for band in bands]
    masks = _masks(file, bands)
    if nodata is None:
        return _dataset(grid, _bands(source, bands, indexes), _mask(source, masks))
    if masks:
        # One step at a time: nodata hides a mask band, and a source of a VRT leaves out by one rule.
        shown = _dataset(grid, _bands(source, bands, indexes), _mask(source, masks))
        source, indexes = _Source(shown, grid.shape_yx, 1), list(range(1, len(bands) + 1))
        shown = _dataset(grid, _bands(source, bands, indexes, nodata, "<UseMaskBand>true</UseMaskBand>"), "")
        source = _Source(shown, grid.shape_yx, 1)
    own = bands[0].nodata
    # A float band's own nodata becomes NaN, which is masked as well.
    rule = f"<NODATA>{own[0]!r}</NODATA>" if own and bands[0].file_dtype.kind == "f" else ""
    return _dataset(grid, _bands(source, bands, indexes, nodata, rule), "")


def empty_view(geobox: GeoBox) -> str:
    """A VRT's text of the grid ``geobox`` with a band that holds nothing."""
    return _dataset(geobox, ['<VRTRasterBand dataType="Byte" band="1"/>'], "")


class _Source:
    """What a VRT's bands read from: a file, or another VRT's text."""

    def __init__(self, name: str, shape_yx: tuple[int, int], threads: int) -> None:
        rows, cols = shape_yx
        rectangle = f'xOff="0" yOff="0" xSize="{cols}" ySize="{rows}"'
        options = f'<OpenOptions><OOI key="NUM_THREADS">{threads}</OOI></OpenOptions>' if threads > 1 else ""
        self._head = f'<SourceFilename relativeToVRT="0" shared="0">{escape(name)}</SourceFilename>{options}'
        self._tail = f"<SrcRect {rectangle}/><DstRect {rectangle}/>"

    def simple(self, band: str) -> str:
        """Band ``band`` as it is."""
        return f"<SimpleSource>{self._head}<SourceBand>{band}</SourceBand>{self._tail}</SimpleSource>"

    def masked(self, band: str, rule: str) -> str:
        """Band ``band`` but for the pixels that ``rule`` leaves out."""
        return f"<ComplexSource>{self._head}<SourceBand>{band}</SourceBand>{self._tail}{rule}</ComplexSource>"


def _masks(file: SourceFile, bands: Sequence[SourceBand]) -> list[str]:
    """The bands of the file that mask, as a VRT names them."""
    masks = [str(index) for index in file.alpha_bands]
    if file.mask_band:
        masks.append(f"mask,{file.mask_band}")
    elif file.has_band_masks:
        masks.append(f"mask,{bands[0].index}")
    return masks


def _mask(source: _Source, masks: Sequence[str]) -> str:
    """The mask band that is 0 where one of ``masks`` is; nothing without any."""
    if not masks:
        return ""
    sources = "".join(source.simple(band) for band in masks)
    if len(masks) == 1:
        return f'<MaskBand><VRTRasterBand dataType="Byte">{sources}</VRTRasterBand></MaskBand>'
    product = "<PixelFunctionType>mul</PixelFunctionType><SourceTransferType>Byte</SourceTransferType>"
    return (
        '<MaskBand><VRTRasterBand dataType="Byte" subClass="VRTDerivedRasterBand">'
        f"{product}{sources}</VRTRasterBand></MaskBand>"
    )


def _bands(
    source: _Source, bands: Sequence[SourceBand], indexes: Sequence[int], nodata: float | None = None, rule: str = ""
) -> list[str]:
    """Bands ``indexes`` of ``source``, pixels that ``rule`` leaves out being ``nodata``."""
    value = "" if nodata is None else f"<NoDataValue>{nodata!r}</NoDataValue>"
    kind = GDAL_TYPES[bands[0].file_dtype.name]
    return [
        f'<VRTRasterBand dataType="{kind}" band="{number}">{value}'
        f"{source.masked(str(index), rule) if rule else source.simple(str(index))}</VRTRasterBand>"
        for number, index in enumerate(indexes, 1)
    ]


def _dataset(geobox: GeoBox, bands: Sequence[str], mask: str) -> str:
    rows, cols = geobox.shape_yx
    a, b, c, d, e, f = geobox.affine
    return (
        f'<VRTDataset rasterXSize="{cols}" rasterYSize="{rows}"><SRS>{escape(crs_wkt(geobox.crs))}</SRS>'
        f"<GeoTransform>{c!r},{a!r},{b!r},{f!r},{d!r},{e!r}</GeoTransform>{''.join(bands)}{mask}</VRTDataset>"
    )
