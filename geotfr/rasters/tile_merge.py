"""Tiles of GeoTIFFs put into another one as they are: nothing is decompressed.

A tile's bytes depend on its pixels and on how the file is made (type, bands, tiles, compression), not on its place.
So GDAL lays out a file without tiles, and those of other files, made alike, are appended in their order; the tables of
their places are filled in as for tiles that are made here (:mod:`geotfr.rasters.float_tiles`).
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np

from geotfr.rasters.float_tiles import TileTables, tag_values
from geotfr.rasters.write_error import write_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["TileMerger", "merges_tiles"]

_KNOWN = frozenset(
    {
        "BIGTIFF",
        "BLOCKXSIZE",
        "BLOCKYSIZE",
        "COMPRESS",
        "INTERLEAVE",
        "NUM_THREADS",
        "PREDICTOR",
        "TILED",
        "ZLEVEL",
        "ZSTD_LEVEL",
    }
)
# GDAL keeps plain tiles in its cache, and writes them in the order in which they leave it.
_COMPRESSIONS = ("DEFLATE", "LZW", "ZSTD")
_WIDTH, _LENGTH, _TILE_WIDTH, _TILE_LENGTH, _OFFSETS, _BYTE_COUNTS = 256, 257, 322, 323, 324, 325


def merges_tiles(options: Mapping[str, str]) -> bool:
    """Whether tiles of files by these creation options of GDAL's GTiff driver, all of them, can be put together.

    >>> merges_tiles({"TILED": "YES", "COMPRESS": "DEFLATE"}), merges_tiles({"TILED": "YES", "COMPRESS": "JPEG"})
    (True, False)
    """
    return (
        options.keys() <= _KNOWN
        and options.get("TILED", "").upper() == "YES"
        and options.get("COMPRESS", "").upper() in _COMPRESSIONS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tiles:
    """How a file's tiles lie: shape and tile in pixels, tables of places and sizes; planes one after the other."""

    shape_yx: tuple[int, int]
    tile_yx: tuple[int, int]
    places: NDArray[np.uint64]
    sizes: NDArray[np.uint64]

    @staticmethod
    def of(file: BinaryIO) -> _Tiles:
        found: dict[int, NDArray[np.uint64]] = {}
        for tag in (_WIDTH, _LENGTH, _TILE_WIDTH, _TILE_LENGTH, _OFFSETS, _BYTE_COUNTS):
            found[tag] = tag_values(file, tag)
        return _Tiles(
            shape_yx=(int(found[_LENGTH][0]), int(found[_WIDTH][0])),
            tile_yx=(int(found[_TILE_LENGTH][0]), int(found[_TILE_WIDTH][0])),
            places=found[_OFFSETS],
            sizes=found[_BYTE_COUNTS],
        )

    @property
    def grid_yx(self) -> tuple[int, int]:
        """Tiles down and across."""
        (rows, cols), (height, width) = self.shape_yx, self.tile_yx
        return -(-rows // height), -(-cols // width)

    @property
    def planes(self) -> int:
        """1 where tiles hold all bands."""
        down, across = self.grid_yx
        return len(self.places) // (down * across)


class TileMerger:
    """Puts whole files' tiles into the GeoTIFF at ``path``, which has none yet; a context manager that closes it.

    Raises
    ------
    OutputError
        It can't be opened, or is no such file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        try:
            self._file = Path(path).open("r+b")  # noqa: SIM115  (closed by __exit__)
        except OSError as error:
            raise write_error(self._path, error) from error
        try:
            self._tiles = _Tiles.of(self._file)
            self._tables = TileTables(self._file, len(self._tiles.places))
        except (OSError, ValueError, struct.error) as error:
            self._file.close()
            raise write_error(self._path, error) from error

    def append(self, part: str | os.PathLike[str], row: int, col: int) -> None:
        """Copy all tiles of the GeoTIFF ``part``, whose upper-left pixel is at ``row`` and ``col``.

        Raises
        ------
        OutputError
            It can't be read, isn't whole, or was made otherwise; or what is to be written can't be.
        """
        try:
            with Path(part).open("rb") as file:
                found = _Tiles.of(file)
                whole, (height, width) = self._tiles, self._tiles.tile_yx
                is_alike = found.tile_yx == whole.tile_yx and found.planes == whole.planes
                if not is_alike or row % height or col % width or not found.sizes.all():
                    raise ValueError(f"{os.fspath(part)} isn't whole tiles of {whole.tile_yx}")
                down, across = found.grid_yx
                # As they were written.
                for number in np.argsort(found.places, kind="stable").tolist():
                    plane, place = divmod(number, down * across)
                    y, x = place // across + row // height, place % across + col // width
                    size = int(found.sizes[number])
                    file.seek(int(found.places[number]))
                    tile = file.read(size)
                    if len(tile) != size:
                        raise ValueError(f"{os.fspath(part)} is cut")
                    self._tables.append((plane * whole.grid_yx[0] + y) * whole.grid_yx[1] + x, tile)
        except (OSError, ValueError, struct.error) as error:
            raise write_error(self._path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: Any) -> None:
        try:
            with self._file:
                if kind is None:
                    self._tables.finish()
        except (OSError, ValueError) as error:
            if kind is None:
                raise write_error(self._path, error) from error
