"""The rows of a part of a patch table on their way to the whole: columns of numbers in numpy's own file."""

from __future__ import annotations

import io
import math
import zipfile
from typing import IO, TYPE_CHECKING

import numpy as np

from geotfr.errors import DamagedError, GeotfrError
from geotfr.patches.rows import ClassCounts, PatchRows
from geotfr.patches.statistics import PatchStatistics
from geotfr.regular_files import open_own_file
from geotfr.storage.output_error import output_error
from geotfr.stores.path import is_local

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["read_rows", "rows_bytes"]

_STATISTICS = ("counts", "lows", "highs", "means", "squares")


def rows_bytes(rows: PatchRows) -> bytes:
    """``rows``, which know their masked pixels, as the content of a file for :func:`read_rows`."""
    arrays: dict[str, NDArray[np.generic]] = {
        "numbers": rows.numbers,
        "records": np.array(rows.records),
        "lengths": rows.lengths,
        "digests": rows.digests,
        "features": np.array(list(rows.statistics), np.str_),
        "class_bands": np.array(list(rows.classes), np.str_),
    }
    if rows.masked is not None:
        arrays["masked"] = rows.masked
    # Places, not names: these may hold any character.
    for place, found in enumerate(rows.statistics.values()):
        arrays |= {f"{key}-{place}": getattr(found, key) for key in _STATISTICS}
    for place, counted in enumerate(rows.classes.values()):
        arrays |= {f"classes-{place}": counted.classes, f"pixels-{place}": counted.counts}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def read_rows(path: Path) -> PatchRows:
    """The rows that the file holds, which was compared with what was written.

    Raises
    ------
    DamagedError
        It holds something else.
    OutputError
        It can't be read any more.
    """
    try:
        with open_own_file(path) if is_local(path) else path.open("rb") as file:
            rows = _rows_in(file)
    except (KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        if isinstance(error, GeotfrError):
            raise
        raise DamagedError(f"{path}: no rows of a patch table: {error}; run its part again") from error
    except OSError as error:
        raise output_error(path, error) from error
    per_row = [
        rows.lengths,
        rows.digests,
        *(getattr(each, key) for each in rows.statistics.values() for key in _STATISTICS),
    ]
    if {each.shape[:1] for each in per_row} - {rows.numbers.shape}:
        raise DamagedError(f"{path}: columns of a patch table differ in length; run its part again")
    return rows


def _rows_in(file: IO[bytes]) -> PatchRows:
    with zipfile.ZipFile(file) as archive:
        # Arrays are stored as they are: what would unfold, or claims more than is there, isn't read.
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
                raise ValueError(f"{member.filename} is compressed")
            with archive.open(member) as opened:
                major, _ = np.lib.format.read_magic(opened)
                if major != 1:
                    raise ValueError(f"{member.filename} is of another version")
                shape, _, dtype = np.lib.format.read_array_header_1_0(opened)
                if math.prod(shape) * dtype.itemsize != member.file_size - opened.tell():
                    raise ValueError(f"{member.filename} is {shape} of {dtype}, which is another size than it has")
    file.seek(0)
    with np.load(file, allow_pickle=False) as found:
        return PatchRows(
            numbers=found["numbers"],
            records=int(found["records"]),
            lengths=found["lengths"],
            digests=found["digests"],
            masked=found.get("masked"),
            statistics={
                str(name): PatchStatistics(**{key: found[f"{key}-{place}"] for key in _STATISTICS})
                for place, name in enumerate(found["features"])
            },
            classes={
                str(name): ClassCounts(classes=found[f"classes-{place}"], counts=found[f"pixels-{place}"])
                for place, name in enumerate(found["class_bands"])
            },
        )
