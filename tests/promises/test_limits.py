"""The limits that the documentation lists are those of the code."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "limits.md"
LIMITS = {
    "bytes of a record, read": "geotfr.records.framing.MAX_RECORD_BYTES",
    "bytes of a record, written: protobuf's own": "geotfr.pipeline.export.plan.MAX_RECORD_BYTES",
    "bytes of a shard before compression, by default": "geotfr.options.export.DEFAULT_MAX_SHARD_BYTES",
    "bytes of samples in memory, by default": "geotfr.pipeline.tables.sample.DEFAULT_MEMORY_BYTES",
    "bytes of a mixer, a manifest or other JSON": "geotfr.mixer.strict_json.MAX_JSON_BYTES",
    "objects and lists within each other in JSON": "geotfr.mixer.strict_json._MAX_DEPTH",
    "patches in a row, and rows, of a mixer": "geotfr.mixer.mixer._MAX_PATCHES_A_SIDE",
    "pixels along a side of a patch": "geotfr.mixer.mixer._MAX_PATCH_SIDE",
    "pixels along a side of an export's grid": "geotfr.grid.export_grid.MAX_SIDE_PX",
    "values of a picture in an Example": "geotfr.rasters.encoded.MAX_PIXELS",
    "bytes of a region's file": "geotfr.grid.region.MAX_BYTES",
    "characters of a CRS": "geotfr.grid.crs.MAX_TEXT_CHARS",
    "characters of a condition (`--where`)": "geotfr.vectors.expression.MOST_CHARACTERS",
    "bytes of a FlatGeobuf's header": "geotfr.vectors.flatgeobuf.MAX_HEADER_BYTES",
    "rows of a view in a GeoPackage": "geotfr.vectors.sqlite_container.MAX_VIEW_ROWS",
    "bytes of texts and geometries of a view": "geotfr.vectors.sqlite_container.MAX_VIEW_BYTES",
    "bytes of one value of a view": "geotfr.vectors.sqlite_container.MAX_VALUE_BYTES",
    "seconds that a view may take": "geotfr.vectors.sqlite_container.MAX_VIEW_SECONDS",
    "columns of a table of records": "geotfr.vectors.decode.MAX_COLUMNS",
    "steps of a tensor": "geotfr.options.export._MOST_STEPS",
    "parts of an export": "geotfr.pipeline.export.parts.split.MOST_PARTS",
    "bytes of a file's name: the file system's own": "geotfr.storage.atomic._MAX_NAME_BYTES",
}


def rows() -> dict[str, str]:
    cells = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {row[0]: row[1] for row in cells[2:]}


@pytest.mark.parametrize("what", LIMITS)
def test_a_limit_of_the_documentation_is_the_code_s(what: str) -> None:
    module, _, name = LIMITS[what].rpartition(".")
    assert rows()[what] == f"{getattr(importlib.import_module(module), name):,}"


def test_each_limit_that_is_a_number_is_compared() -> None:
    assert {what for what, limit in rows().items() if limit[0].isdecimal()} == set(LIMITS)
