"""Tiles of floats, compressed here and put into a GeoTIFF that GDAL has laid out.

GDAL's DEFLATE with the predictor for floats takes four fifths of an ingest's time. The same tiles are made faster by
numpy (the predictor) and zlib-ng (the compression), both outside the interpreter lock. GDAL still makes the file:
all its tags, and the two tables of the tiles' places and sizes, zeros until :class:`TileTables` fills them in.

**Source**: TIFF 6.0, Adobe's TIFF Technical Note 3 (predictor 3), and the BigTIFF proposal.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from zlib_ng import zlib_ng

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["TileScratch", "TileTables", "encoded_tile", "tag_values", "takes_float_tiles"]

_MEMORY = 9
"""Of zlib's memLevel, the most: longer blocks, a fifth faster."""

_KNOWN = frozenset(
    {"BIGTIFF", "BLOCKXSIZE", "BLOCKYSIZE", "COMPRESS", "INTERLEAVE", "NUM_THREADS", "PREDICTOR", "TILED", "ZLEVEL"}
)
_TILE_OFFSETS, _TILE_BYTE_COUNTS = 324, 325
_TYPES = {3: "<u2", 4: "<u4", 16: "<u8"}
"""SHORT, LONG, LONG8."""


def takes_float_tiles(options: Mapping[str, str], dtype: np.dtype[Any]) -> bool:
    """Whether tiles by these creation options of GDAL's GTiff driver, all of them, can be made here.

    >>> takes_float_tiles({"TILED": "YES", "COMPRESS": "DEFLATE", "ZLEVEL": "1", "PREDICTOR": "3"}, np.dtype("f4"))
    True
    """
    wanted = {"TILED": "YES", "COMPRESS": "DEFLATE", "ZLEVEL": "1", "PREDICTOR": "3"}
    return (
        dtype.kind == "f"
        and options.keys() <= _KNOWN
        and all(options.get(name, "").upper() == value for name, value in wanted.items())
        and options.get("INTERLEAVE", "PIXEL").upper() == "PIXEL"
    )


class TileScratch:
    """Memory in which a thread makes tiles of ``bands`` bands, used again for each: new memory costs time.

    Attributes
    ----------
    samples
        The pixels as they are interleaved, ``(row, col, band)`` unsigned.
    planes
        Their bytes, of each row the most significant ones first, ``(row, byte, sample)``.
    differences
        What the predictor makes of a row's bytes, ``(row, byte)``.
    """

    def __init__(self, bands: int, tile_yx: tuple[int, int], itemsize: int) -> None:
        rows, cols = tile_yx
        self.samples = np.zeros((rows, cols, bands), f"u{itemsize}")
        self.planes = np.zeros((rows, itemsize, cols * bands), np.uint8)
        self.differences = np.empty((rows, itemsize * cols * bands), np.uint8)


def encoded_tile(pixels: NDArray[Any], tile_yx: tuple[int, int], scratch: TileScratch | None = None) -> bytes:
    """``pixels`` ``(band, row, col)`` float32 or float64 as a tile: pixel-interleaved, predictor 3, zlib.

    What a tile holds beyond the raster's edge is 0. ``scratch`` is of these bands and this type, and no other thread's.

    >>> import zlib
    >>> zlib.decompress(encoded_tile(np.array([[[1.0, 2.0]]], np.float32), (1, 2))).hex(" ")
    '3f 01 40 80 00 00 00 00'
    """
    bands, rows, cols = pixels.shape
    size = pixels.dtype.itemsize
    words = pixels.view(f"u{size}")
    if scratch is None or (rows, cols) != tile_yx:
        # Zeros where there are no pixels.
        scratch = TileScratch(bands, tile_yx, size)
    for band in range(bands):
        scratch.samples[:rows, :cols, band] = words[band]
    flat = scratch.samples.reshape(tile_yx[0], tile_yx[1] * bands)
    for place in range(size):
        np.right_shift(flat, 8 * (size - 1 - place), out=scratch.planes[:, place], casting="unsafe")
    by_row, differences = scratch.planes.reshape(tile_yx[0], -1), scratch.differences
    differences[:, :bands] = by_row[:, :bands]
    np.subtract(by_row[:, bands:], by_row[:, :-bands], out=differences[:, bands:])
    # The predictor leaves runs, and bytes of which some are rarer than others; searching for longer matches finds none.
    stream = zlib_ng.compressobj(1, zlib_ng.DEFLATED, zlib_ng.MAX_WBITS, _MEMORY, zlib_ng.Z_RLE)
    return stream.compress(differences) + stream.flush()


class TileTables:
    """Where the tiles of a little-endian TIFF's first image stand, filled in as tiles are appended.

    Parameters
    ----------
    file
        Open for reading and writing; GDAL made it, without a tile.
    count
        Tiles of the image.

    Raises
    ------
    ValueError
        The file is laid out in another way than was expected.
    """

    def __init__(self, file: BinaryIO, count: int) -> None:
        self._file = file
        self._places = np.zeros(count, np.uint64)
        self._sizes = np.zeros(count, np.uint64)
        entries = _entries(file)
        self._tables = [_table(entries, tag, count) for tag in (_TILE_OFFSETS, _TILE_BYTE_COUNTS)]
        self._end = file.seek(0, 2)

    def append(self, number: int, tile: bytes) -> None:
        """Write ``tile``, the image's tile ``number``, behind what is there."""
        self._file.write(tile)
        self._places[number], self._sizes[number] = self._end, len(tile)
        self._end += len(tile)

    def finish(self) -> None:
        """Write the tables.

        Raises
        ------
        ValueError
            A place that the file's kind can't tell: a classic TIFF ends at 4 GiB.
        """
        for (position, dtype), values in zip(self._tables, (self._places, self._sizes), strict=True):
            if len(values) and values.max() > np.iinfo(dtype).max:
                raise ValueError(f"{values.max():,} is beyond the file's tables; --creation-option BIGTIFF=YES")
            self._file.seek(position)
            self._file.write(values.astype(dtype).tobytes())


def tag_values(file: BinaryIO, tag: int) -> NDArray[np.uint64]:
    """The whole numbers that the first directory of a little-endian TIFF has for ``tag``, ``(n,)``.

    Raises
    ------
    ValueError
        There are none, or the file isn't as expected.
    """
    kind, count, position = _entries(file).get(tag, (0, 0, 0))
    if kind not in _TYPES:
        raise ValueError(f"tag {tag} isn't there, or holds values of type {kind}")
    file.seek(position)
    return np.frombuffer(file.read(count * np.dtype(_TYPES[kind]).itemsize), _TYPES[kind]).astype(np.uint64)


def _entries(file: BinaryIO) -> dict[int, tuple[int, int, int]]:
    """The first directory's entries: tag to (type, count, position in the file of its value or the value's offset)."""
    file.seek(0)
    head = file.read(16)
    is_big = head[:4] == b"II\x2b\x00"
    if not is_big and head[:4] != b"II\x2a\x00":
        raise ValueError("not a little-endian TIFF")
    directory = struct.unpack_from("<Q", head, 8)[0] if is_big else struct.unpack_from("<I", head, 4)[0]
    count_form, entry_form = ("<Q", "<HHQ8x") if is_big else ("<H", "<HHI4x")
    file.seek(directory)
    start = struct.calcsize(count_form)
    (count,) = struct.unpack(count_form, file.read(start))
    size = struct.calcsize(entry_form)
    found = {}
    for index, (tag, kind, values) in enumerate(struct.iter_unpack(entry_form, file.read(count * size))):
        value_at = directory + start + (index + 1) * size - (8 if is_big else 4)
        width = np.dtype(_TYPES[kind]).itemsize if kind in _TYPES else 0
        if values * width > (8 if is_big else 4):
            file.seek(value_at)
            (value_at,) = struct.unpack("<Q" if is_big else "<I", file.read(8 if is_big else 4))
        found[tag] = (kind, values, value_at)
    return found


def _table(entries: dict[int, tuple[int, int, int]], tag: int, count: int) -> tuple[int, np.dtype[Any]]:
    kind, values, position = entries.get(tag, (0, 0, 0))
    if kind not in _TYPES or values != count:
        raise ValueError(f"tag {tag} holds {values} values of type {kind}; {count} places of tiles are expected")
    return position, np.dtype(_TYPES[kind])
