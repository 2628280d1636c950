"""``geotfr export-table``."""

from __future__ import annotations

from typing import Any

import click

from geotfr_cli.options import common_options, overwrite_option, show, shows_progress, warn, workers_option
from geotfr_cli.table_options import (
    allow_vector_driver_option,
    compressor_option,
    feature_kinds_option,
    geometry_option,
    points_options,
)


@click.command(
    "export-table",
    epilog="Example: geotfr export-table plots.gpkg --output training/plots --selectors B4,B5,class",
)
@click.argument("source", metavar="SOURCE")
@click.option(
    "--output",
    "-o",
    "prefix",
    metavar="PREFIX",
    required=True,
    help="Folder and name: PREFIX.tfrecord.gz and PREFIX-manifest.json.",
)
@click.option(
    "--selectors",
    metavar="LIST",
    help="Columns in the order of the features: a,b,new=old.  [default: all]",
)
@points_options
@geometry_option
@feature_kinds_option
@compressor_option
@allow_vector_driver_option
@workers_option
@overwrite_option
@common_options
def command(source: str, prefix: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Export the rows of a table as TFRecord, as Earth Engine's table exports do.

    SOURCE is a GeoPackage, GeoJSON, Shapefile, FlatGeobuf, CSV or Parquet file. One row is one Example; all go to one
    gzip file.
    """
    from geotfr.pipeline.tables.export import export_table

    result = export_table(source, prefix, progress=shows_progress(quiet=quiet), **options)
    warn(result.warnings, quiet=quiet)
    show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)
