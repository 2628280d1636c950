"""Options: Earth Engine's spelling at the edge, snake_case inside, everything checked once.

Pairs are (x, y) outside, as Earth Engine has them, and (row, column) inside; this room is the only one that turns one
into the other.
"""

from __future__ import annotations

from geotfr.options.export import FORMAT_OPTIONS, Compressor, ExportKeywords, ExportOptions
from geotfr.options.ingest import IngestKeywords, IngestOptions, ShardOrder
from geotfr.options.tables import TableKeywords, TableOptions
from geotfr.options.values import PairXY, Size, nearest, parse_pair_yx, parse_size, resolve_workers

__all__ = [
    "FORMAT_OPTIONS",
    "Compressor",
    "ExportKeywords",
    "ExportOptions",
    "IngestKeywords",
    "IngestOptions",
    "PairXY",
    "ShardOrder",
    "Size",
    "TableKeywords",
    "TableOptions",
    "nearest",
    "parse_pair_yx",
    "parse_size",
    "resolve_workers",
]
