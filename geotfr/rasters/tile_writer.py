"""Whole tiles of floats, compressed by threads and appended to a GeoTIFF in their order."""

from __future__ import annotations

import struct
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.errors import OutputError
from geotfr.rasters.float_tiles import TileScratch, TileTables, encoded_tile
from geotfr.rasters.write_error import write_error

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from concurrent.futures import Future

    from numpy.typing import NDArray

__all__ = ["TILES_PER_THREAD", "FloatTileWriter"]

TILES_PER_THREAD = 2
"""Tiles that wait for each thread, or are compressed by it: enough that none waits for the next pixels."""


class FloatTileWriter:
    """Writes windows of whole tiles into a GeoTIFF that GDAL has laid out and closed.

    The bytes depend on the order of the windows, not on the number of threads.

    Parameters
    ----------
    path
        The GeoTIFF: tiles of ``tile_yx`` (rows, columns), pixel-interleaved, DEFLATE with predictor 3; none written.
    shape_yx
        (rows, columns) of its pixels.
    threads
        Threads that compress.

    Raises
    ------
    OutputError
        If it can't be opened, or isn't laid out as expected.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, shape_yx: tuple[int, int], tile_yx: tuple[int, int], threads: int
    ) -> None:
        self._path = path
        self._shape_yx = shape_yx
        self._tile_yx = tile_yx
        self._across = -(-shape_yx[1] // tile_yx[1])
        try:
            self._file = Path(path).open("r+b")  # noqa: SIM115  (closed by close)
        except OSError as error:
            raise write_error(self._path, error) from error
        try:
            self._tables = TileTables(self._file, -(-shape_yx[0] // tile_yx[0]) * self._across)
        except (OSError, ValueError, struct.error) as error:
            self._file.close()
            raise write_error(self._path, error) from error
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="geotfr-tile") if threads > 1 else None
        self._of_thread = threading.local()
        self._most_pending = TILES_PER_THREAD * threads
        self._pending: deque[tuple[int, Future[bytes]]] = deque()

    def write(self, row: int, col: int, data: NDArray[Any]) -> None:
        """Write ``data`` (band, row, column) with its upper-left pixel at ``row`` and ``col``.

        With threads some tiles are still being compressed when it returns; ``data`` may be overwritten all the same.

        Raises
        ------
        OutputError
            If the file can't be written.
        ValueError
            A window that isn't whole tiles.
        """
        for number, part in self._tiles(row, col, data):
            if self._pool is None:
                self._append(number, self._encoded(part))
                continue
            if len(self._pending) >= self._most_pending:
                self._append_oldest()
            # The caller places the next pixels in the same memory while threads compress these.
            self._pending.append((number, self._pool.submit(self._encoded, part.copy())))

    def close(self) -> None:
        """Write where the tiles are, and close.

        Raises
        ------
        OutputError
            If that fails.
        """
        try:
            with self._file:
                while self._pending:
                    self._append_oldest()
                self._tables.finish()
        except OutputError:
            raise  # of a tile, told already
        except (OSError, ValueError) as error:
            raise write_error(self._path, error) from error
        finally:
            self._stop()

    def abandon(self) -> None:
        """Close a file that will not be used."""
        self._stop()
        try:
            self._file.close()
        except OSError:
            # What was left to write is lost with the rest; another error is on its way.
            return

    def _encoded(self, part: NDArray[Any]) -> bytes:
        scratch = getattr(self._of_thread, "scratch", None)
        if scratch is None:
            scratch = self._of_thread.scratch = TileScratch(len(part), self._tile_yx, part.dtype.itemsize)
        return encoded_tile(part, self._tile_yx, scratch)

    def _append_oldest(self) -> None:
        number, tile = self._pending.popleft()
        self._append(number, tile.result())

    def _append(self, number: int, tile: bytes) -> None:
        try:
            self._tables.append(number, tile)
        except OSError as error:
            raise write_error(self._path, error) from error

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _tiles(self, row: int, col: int, data: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        """(number, pixels) of the tiles of a window, row-major."""
        (height, width), (rows, cols) = self._tile_yx, data.shape[1:]
        ends = (row + rows, height, self._shape_yx[0]), (col + cols, width, self._shape_yx[1])
        if row % height or col % width or any(end % tile and end != edge for end, tile, edge in ends):
            raise ValueError(f"{rows} x {cols} pixels at row {row}, column {col} aren't whole tiles of {self._tile_yx}")
        for top in range(0, rows, height):
            for left in range(0, cols, width):
                number = (row + top) // height * self._across + (col + left) // width
                yield number, data[:, top : top + height, left : left + width]
