"""Many rasters with grids of their own, exported as one collection: a set and a mixer each, one table of all.

Each raster's set has the prefix ``PREFIX-NAME``; ``PREFIX-patches.parquet`` has the rows of all of them. A raster whose
set is there and whole, made of the same file with the same options, is left as it is: so rasters are added later
without rewriting what is there. Shards are the sets' own, or shared: ``PREFIX-00000…``.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from geotfr.flags import checks_flags
from geotfr.options import ExportOptions, resolve_workers
from geotfr.options.values import checked_choice
from geotfr.pipeline.catalog.collect import TableRequest
from geotfr.pipeline.catalog.members import Members, find_rasters, named
from geotfr.pipeline.catalog.shared_shards import SharedShards, check_shareable
from geotfr.pipeline.export.prepare import Prepared, open_rasters
from geotfr.pipeline.export.run import export_image
from geotfr.pipeline.sizes import human_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from geotfr.options import ExportKeywords, Size
    from geotfr.pipeline.export.run import ExportResult

    PathLike = str | os.PathLike[str]

__all__ = ["CollectionResult", "export_collection"]

_SHARDS = ("separate", "shared")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionResult:
    """What a collection's export wrote.

    Attributes
    ----------
    table
        The patch table of all rasters.
    manifests
        Raster's name -> its manifest, in order.
    exported, kept
        Names of the rasters that were exported now, and of those whose sets were there already.
    patches
        Rows of the table.
    shards
        The shards written now.
    size_bytes
        Their bytes.
    pixels_unreadable
        Pixels that couldn't be read, and were masked by ``on_read_error="mask"``.
    seconds
        Wall time.
    warnings
        What a user should know, one line each.
    """

    table: Path
    manifests: dict[str, Path]
    exported: tuple[str, ...]
    kept: tuple[str, ...]
    patches: int
    shards: tuple[Path, ...]
    size_bytes: int
    pixels_unreadable: int
    seconds: float
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON types."""
        return {
            "table": str(self.table),
            "manifests": {name: str(path) for name, path in self.manifests.items()},
            "exported": list(self.exported),
            "kept": list(self.kept),
            "patches": self.patches,
            "shards": [str(path) for path in self.shards],
            "bytes": self.size_bytes,
            "pixels_unreadable": self.pixels_unreadable,
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """The summary for a person."""
        return "\n".join(
            (
                f"wrote     {len(self.exported):,} rasters to {len(self.shards):,} shards,"
                f" {human_bytes(self.size_bytes)}, in {self.seconds:.1f} s",
                f"kept      {len(self.kept):,} rasters whose sets are there",
                f"table     {self.table}: {self.patches:,} patches of {len(self.manifests):,} rasters",
            )
        )


@checks_flags
def export_collection(
    sources: PathLike | Sequence[PathLike],
    prefix: PathLike,
    *,
    shards: str = "separate",
    overwrite: bool = False,
    on_read_error: str = "error",
    class_bands: str | Sequence[str] = (),
    workers: int | None = None,
    memory_limit: Size | None = None,
    progress: bool = False,
    on_raster: Callable[[str, int, int], None] | None = None,
    **options: Unpack[ExportKeywords],
) -> CollectionResult:
    """Export many rasters, each on its own grid, as sets that share one patch table.

    Parameters
    ----------
    sources
        A folder (its .tif and .tiff files), a pattern with wildcards, or a list of paths.
    prefix
        Folder and beginning of all names; the set of ``a.tif`` is ``PREFIX-a``, that of a prefix that ends in ``/``
        ``a``.
    shards
        ``separate`` (default): each set has shards of its own, the same files as an export alone. ``shared``: the
        records of all rasters fill ``PREFIX-00000…``, one raster behind the other, each up to ``max_file_size``; a
        set's manifest and table tell which are its records. Rasters that are added begin a new shard.
    overwrite
        Export again rasters that changed since, or whose sets were made with other options; with shared shards all
        rasters, which must be named.
    on_raster
        Called with (name, its place from 1, how many) before each raster that is exported.
    on_read_error, class_bands, workers, memory_limit, progress, options
        As in :func:`geotfr.export_image`.

    Raises
    ------
    UsageError
        No raster, or two whose sets would have one name; with shared shards also rasters of different features, a
        raster that isn't named when all are exported again, and ``sequence_data``.
    OutputExistsError
        A set was made of another file or with other options, and ``overwrite`` is False.
    As :func:`geotfr.export_image`; what was exported before the error stays, and a later call goes on behind it.

    Examples
    --------
    >>> export_collection("scenes/", "patches/all", patch_dimensions=256)  # doctest: +SKIP
    """
    started = time.perf_counter()
    checked = ExportOptions.checked(**options)
    request = TableRequest.of_export(checked, patch_table=True, class_bands=class_bands)
    is_shared = checked_choice("shards", shards, _SHARDS) == "shared"
    threads = resolve_workers(workers, os.cpu_count() or 1)
    rasters = find_rasters(sources)
    if is_shared:
        check_shareable(checked, prefix)
    members = Members(prefix, rasters, checked, is_shared=is_shared)
    facts: Mapping[str, Any]
    if is_shared:
        wanted, kept = members.missing_in_shared(overwrite=overwrite)
        common = SharedShards(
            members,
            [name for name in rasters if name in wanted],
            kept,
            checked,
            table=request,
            on_read_error=on_read_error,
            workers=threads,
            memory_limit=memory_limit,
            progress=progress,
        )
        facts = common.write(rasters, overwrite=overwrite, on_raster=on_raster)
    else:
        wanted = members.missing(overwrite=overwrite)
        for name in wanted:
            # None is replaced before all are known to fit.
            with named(rasters[name]), open_rasters(rasters[name], checked, threads) as source:
                Prepared(
                    source,
                    checked,
                    workers=threads,
                    memory_limit=memory_limit,
                    on_read_error=on_read_error,
                    table=request,
                )
        results: dict[str, ExportResult] = {}
        for place, name in enumerate(wanted, 1):
            if on_raster is not None:
                on_raster(name, place, len(wanted))
            with named(rasters[name]):
                results[name] = export_image(
                    rasters[name],
                    members.prefix_of(name),
                    overwrite=overwrite,
                    on_read_error=on_read_error,
                    patch_table=True,
                    class_bands=class_bands,
                    workers=workers,
                    memory_limit=memory_limit,
                    progress=progress,
                    **options,
                )
        facts = {**_facts(results), "patches": members.join()}
    return CollectionResult(
        table=members.table,
        manifests={name: own.folder / own.manifest for name, own in members.sets.items()},
        exported=tuple(wanted),
        kept=tuple(name for name in rasters if name not in wanted),
        seconds=time.perf_counter() - started,
        **facts,
    )


def _facts(results: Mapping[str, ExportResult]) -> dict[str, Any]:
    """What was written for all rasters."""
    return {
        "shards": tuple(path for result in results.values() for path in result.shards),
        "size_bytes": sum(result.size_bytes for result in results.values()),
        "pixels_unreadable": sum(result.pixels_unreadable for result in results.values()),
        "warnings": tuple(f"{name}: {warning}" for name, result in results.items() for warning in result.warnings),
    }
