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
    """A VRT's text of ``bands`` of ``file``, which all have one type.

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
    masks = _masks(file, bands)
    inner = _Source(path, file.geobox.shape_yx, threads)
    indexes = [band.index for band in bands]
    if masks and nodata is not None:
        # First the mask alone, so that nodata doesn't hide it; then masked pixels turn into nodata.
        text = _dataset(
            file.geobox, [_raw(inner, band, number) for number, band in enumerate(bands, 1)], _mask(inner, masks)
        )
        inner = _Source(text, file.geobox.shape_yx, 1)
        indexes = list(range(1, len(bands) + 1))
        masks = []
        folded = "<UseMaskBand>true</UseMaskBand>"
    else:
        folded = ""
    shown = [
        _band(inner, band, number, index, nodata, folded)
        for number, (band, index) in enumerate(zip(bands, indexes, strict=True), 1)
    ]
    return _dataset(file.geobox, shown, _mask(inner, masks))


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

    def masked(self, band: str, rules: str) -> str:
        """Band ``band`` but for the pixels that ``rules`` leave out."""
        return f"<ComplexSource>{self._head}<SourceBand>{band}</SourceBand>{self._tail}{rules}</ComplexSource>"


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


def _raw(source: _Source, band: SourceBand, number: int) -> str:
    return f'<VRTRasterBand dataType="{_type(band)}" band="{number}">{source.simple(str(band.index))}</VRTRasterBand>'


def _band(source: _Source, band: SourceBand, number: int, index: int, nodata: float | None, folded: str) -> str:
    rules = folded
    # A float band's own nodata becomes NaN, which is masked as well.
    if band.file_dtype.kind == "f" and band.nodata:
        rules += f"<NODATA>{band.nodata[0]!r}</NODATA>"
    pixels = source.masked(str(index), rules) if rules else source.simple(str(index))
    value = "" if nodata is None else f"<NoDataValue>{nodata!r}</NoDataValue>"
    return f'<VRTRasterBand dataType="{_type(band)}" band="{number}">{value}{pixels}</VRTRasterBand>'


def _dataset(geobox: GeoBox, bands: Sequence[str], mask: str) -> str:
    rows, cols = geobox.shape_yx
    a, b, c, d, e, f = geobox.affine
    return (
        f'<VRTDataset rasterXSize="{cols}" rasterYSize="{rows}"><SRS>{escape(crs_wkt(geobox.crs))}</SRS>'
        f"<GeoTransform>{c!r},{a!r},{b!r},{f!r},{d!r},{e!r}</GeoTransform>{''.join(bands)}{mask}</VRTDataset>"
    )


def _type(band: SourceBand) -> str:
    return GDAL_TYPES[band.file_dtype.name]
