"""The rows of a part of a patch table on their way to the whole: columns of numbers in numpy's own file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from geotfr.patches.rows import ClassCounts, PatchRows
from geotfr.patches.statistics import PatchStatistics

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
    """The rows that the file holds, which was compared with what was written."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
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
