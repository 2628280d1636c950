"""Write the index of record files, for random access by record number."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.storage.index_files import write_index_files

if TYPE_CHECKING:
    PathLike = str | os.PathLike[str]

__all__ = ["IndexResult", "write_index"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexResult:
    """The indexes written: for each file its path, its records, and the index files beside it."""

    files: tuple[tuple[str, int, tuple[str, ...]], ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "files": [{"path": path, "records": records, "index": list(names)} for path, records, names in self.files]
        }

    def to_text(self) -> str:
        """For a person: one line for each file."""
        return "\n".join(f"{path}: {records} records, {', '.join(names)}" for path, records, names in self.files)


@checks_flags
def write_index(paths: PathLike | Sequence[PathLike], *, overwrite: bool = False) -> IndexResult:
    """Write ``FILE.idx`` beside each file, and for gzip files ``FILE.members`` and perhaps ``FILE.gzidx``.

    Every record is checked on the way. A gzip member of more than 32 MiB needs ``indexed_gzip`` (extra ``index``).

    Raises
    ------
    RecordError
        A damaged file; nothing is written for it.
    OutputError
        An index can't be written, or exists and ``overwrite`` is False.
    InputError
        A zlib file, or ``indexed_gzip`` isn't installed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> record = bytes.fromhex("16000000000000004f61be280a140a120a026231120c120a0a080000c03f000000404115a86a")
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.tfrecord"
    ...     _ = path.write_bytes(record * 3)
    ...     write_index(path).files[0][1]
    3
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise UsageError("no files; name TFRecord files to index")
    return IndexResult(files=tuple(_write(os.fspath(path), overwrite=overwrite) for path in given))


def _write(path: str, *, overwrite: bool) -> tuple[str, int, tuple[str, ...]]:
    written = write_index_files(path, overwrite=overwrite)
    return path, len(written.index), tuple(map(str, written.files))
