"""Whether an export's sources are those of a stopped run: by their digest, or by their size and time of change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.errors import MissingInputError
from geotfr.storage.digest import file_crc32c

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geotfr.rasters.source import SourceFile

__all__ = ["source_identities"]


def source_identities(
    sources: Sequence[SourceFile], others: Sequence[str], *, noted: object, by_digest: bool
) -> list[dict[str, Any]]:
    """What tells each file from its later versions, for the journal.

    Parameters
    ----------
    sources
        Rasters, in order; none of them in memory.
    others
        Paths of other files that decide the bytes.
    noted
        What a stopped run's journal says of its sources; anything else if there was none.
    by_digest
        Read the files whole for their CRC32C. A file whose digest was noted is the same if that is equal, whenever it
        was changed; any other if its size and time are. Of a file that is fetched the server tells the version.

    Returns
    -------
    list of dict
        For a file that is the same, what was noted of it.

    Raises
    ------
    MissingInputError
        A file can't be read.
    """
    then = noted if isinstance(noted, list) and all(isinstance(each, dict) for each in noted) else []
    if len(then) != len(sources) + len(others):
        then = [None] * (len(sources) + len(others))
    rasters, rest = then[: len(sources)], then[len(sources) :]
    return [
        {"name": source.name, "bytes": source.size_bytes, "version": source.remote.version}
        if source.remote is not None
        else _identity(source.path, each, by_digest=by_digest) | ({"page": source.page} if source.page else {})
        for source, each in zip(sources, rasters, strict=True)
    ] + [_identity(path, each, by_digest=by_digest) for path, each in zip(others, rest, strict=True)]


def _identity(path: str, noted: Mapping[str, Any] | None, *, by_digest: bool) -> dict[str, Any]:
    try:
        facts = Path(path).stat()
        found: dict[str, Any] = {
            "name": Path(path).name,
            "bytes": facts.st_size,
            "modified_ns": facts.st_mtime_ns,
        }
        # A run that wasn't asked to resume notes no digest: nothing is there to compare one with.
        if by_digest and (noted is None or "crc32c" in noted):
            found["crc32c"] = f"{file_crc32c(path):08x}"
    except OSError as error:
        raise MissingInputError(f"{path}: can't be read: {error.strerror}") from error
    if noted is None:
        return found
    if "crc32c" not in found and "crc32c" in noted:
        found["crc32c"] = noted["crc32c"]
    deciding = ("name", "bytes", "crc32c") if by_digest and "crc32c" in noted else ("name", "bytes", "modified_ns")
    is_same = all(found[key] == noted.get(key) for key in deciding)
    return dict(noted) if is_same else found
