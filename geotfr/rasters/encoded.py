"""Pictures as the bytes of a PNG or JPEG file, and back: what the common image datasets keep in a feature.

GDAL's own drivers work in memory; no file is touched. Lower rooms and training code get bytes and arrays.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import rasterio
from rasterio.enums import ColorInterp
from rasterio.io import MemoryFile

from geotfr.errors import DamagedError, LimitError, UsageError
from geotfr.rasters.safe_open import GDAL_ERRORS, gdal_words, quiet_georeference

if TYPE_CHECKING:
    from numpy.typing import NDArray

    PictureFormat = Literal["png", "jpeg"]

__all__ = ["decode_picture", "encode_picture"]

_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
# A chunk is its length, its name, its data and a checksum.
_PNG_CHUNK_FRAME = 12
_JPEG_END = b"\xff\xd9"
_MAGIC = {_PNG_MAGIC: "PNG", b"\xff\xd8\xff": "JPEG"}
_DTYPES = {"PNG": ("uint8", "uint16"), "JPEG": ("uint8",)}
_BANDS = {"PNG": (1, 2, 3, 4), "JPEG": (1, 3)}
MAX_PIXELS = 1 << 28
"""Pixels times bands of a picture that is decoded: a small file may claim a large one."""


def encode_picture(picture: NDArray[Any], *, driver: PictureFormat = "png", quality: int = 95) -> bytes:
    """``picture`` as the bytes of a PNG or JPEG file.

    Parameters
    ----------
    picture
        ``(row, col)`` or ``(row, col, band)``, the axes of ``tf.io.decode_image``: uint8, for PNG uint16 too; 1 or 3
        bands, for PNG 2 or 4 too (the last one alpha).
    driver
        ``png`` keeps every value, ``jpeg`` doesn't.
    quality
        Of JPEG, 1 to 100.

    Raises
    ------
    UsageError
        A shape, dtype or quality that the format doesn't have.

    Examples
    --------
    >>> encode_picture(np.zeros((2, 3), np.uint8))[:4]
    b'\\x89PNG'
    """
    name = driver.upper()
    if name not in _DTYPES:
        raise UsageError(f"picture format {driver!r} is not known; use png or jpeg")
    if not 1 <= quality <= 100:
        raise UsageError(f"quality is {quality}; use 1 to 100")
    bands = picture[None] if picture.ndim == 2 else np.moveaxis(picture, -1, 0)
    if picture.ndim not in (2, 3) or bands.shape[0] not in _BANDS[name] or 0 in picture.shape:
        raise UsageError(
            f"a picture of shape {picture.shape} is no {name}; use (row, col) or (row, col, band) "
            f"with {', '.join(str(count) for count in _BANDS[name])} bands"
        )
    if picture.dtype.name not in _DTYPES[name]:
        raise UsageError(f"a picture of {picture.dtype} is no {name}; use {' or '.join(_DTYPES[name])}")
    options = {"quality": quality} if name == "JPEG" else {}
    count, height, width = bands.shape
    with rasterio.Env(GDAL_PAM_ENABLED="NO"), quiet_georeference(), MemoryFile() as memory:
        with memory.open(driver=name, height=height, width=width, count=count, dtype=picture.dtype, **options) as file:
            file.write(np.ascontiguousarray(bands))
        return bytes(memory.getbuffer())


def decode_picture(data: bytes) -> NDArray[Any]:
    """The picture in the bytes of a PNG or JPEG file: ``(row, col, band)``, uint8 or uint16.

    One band stays an axis of length 1, as in ``tf.io.decode_image``; a palette becomes red, green and blue.

    Raises
    ------
    DamagedError
        Bytes that are neither, or cut.
    LimitError
        A picture of more than 2^28 values.

    Examples
    --------
    >>> decode_picture(encode_picture(np.arange(6, dtype=np.uint8).reshape(2, 3))).shape
    (2, 3, 1)
    """
    driver = next((name for magic, name in _MAGIC.items() if data.startswith(magic)), None)
    if driver is None:
        raise DamagedError(f"{len(data)} bytes that begin with {data[:4].hex(' ')} are neither PNG nor JPEG")
    if not (_png_is_whole(data) if driver == "PNG" else _JPEG_END in data):
        raise DamagedError(f"{len(data)} bytes of {driver} are cut or damaged; write the record again")
    try:
        with (
            rasterio.Env(GDAL_PAM_ENABLED="NO"),
            quiet_georeference(),
            MemoryFile(data) as memory,
            memory.open(driver=driver) as file,
        ):
            if file.width * file.height * file.count > MAX_PIXELS:
                raise LimitError(
                    f"a {driver} of {file.width}x{file.height}x{file.count} passes {MAX_PIXELS} values; "
                    "decode it with another tool"
                )
            bands = file.read()
            if file.colorinterp[0] is ColorInterp.palette:
                colors = file.colormap(1)
                table = np.array([colors.get(index, (0, 0, 0))[:3] for index in range(256)], np.uint8)
                return np.ascontiguousarray(table[bands[0]])
            return np.ascontiguousarray(np.moveaxis(bands, 0, -1))
    except GDAL_ERRORS as error:
        raise DamagedError(f"{len(data)} bytes of {driver} can't be decoded: {gdal_words(error)}") from error


def _png_is_whole(data: bytes) -> bool:
    """Whether all chunks up to the last one are there, with the right checksums; GDAL doesn't tell."""
    position = len(_PNG_MAGIC)
    while position + _PNG_CHUNK_FRAME <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        stop = position + 8 + length
        if data[stop : stop + 4] != zlib.crc32(memoryview(data)[position + 4 : stop]).to_bytes(4, "big"):
            return False
        if kind == b"IEND":
            return True
        position = stop + 4
    return False
