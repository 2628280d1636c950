"""``geotfr ingest-table``."""

from __future__ import annotations

from typing import Any

import click

from geotfr_cli.options import LOSSES, common_options, overwrite_option, show, shows_progress, warn
from geotfr_cli.table_options import allow_vector_driver_option


@click.command(
    "ingest-table",
    epilog="Example: geotfr ingest-table predictions.tfrecord.gz --output plots.gpkg --join plots-in.gpkg --key id",
)
@click.argument("records", metavar="RECORDS...", nargs=-1, required=True)
@click.option(
    "--output", "-o", metavar="OUT", required=True, help="A .gpkg, .geojson, .fgb, .parquet or .csv file to write."
)
@click.option("--x", metavar="FEATURE", help="Feature with the points' x.  [default: longitude, where it is]")
@click.option("--y", metavar="FEATURE", help="Feature with the points' y.  [default: latitude, where it is]")
@click.option("--geometry-column", metavar="FEATURE", help="Feature with geometries as WKB or GeoJSON.")
@click.option("--crs", help="CRS of the geometries.  [default: the manifest's, or EPSG:4326]")
@click.option(
    "--date-format", metavar="FORMAT", help="As %Y-%m-%d: text columns whose every value has it become timestamps."
)
@click.option("--join", metavar="SOURCE", help="A table that the records' columns are put beside.")
@click.option("--key", metavar="COLUMN", help="Which row of --join a record belongs to.  [default: by order]")
@click.option("--layer", metavar="NAME", help="The layer of --join, where it has several.")
@allow_vector_driver_option
@click.option(
    "--on-bad-record",
    type=click.Choice(["error", "skip", "repair"]),
    default="error",
    show_default=True,
    help="What a damaged record means; rows left out are told (exit 3).",
)
@overwrite_option
@common_options
def command(records: tuple[str, ...], output: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Turn TFRecord files of Examples into a table, one record a row.

    Types, order and geometry come from the manifest that export-table wrote, where it is beside the file.
    """
    from geotfr.pipeline.tables.ingest import ingest_table

    result = ingest_table(records, output, progress=shows_progress(quiet=quiet), **options)
    warn((*result.notes, *result.warnings), quiet=quiet)
    show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)
    if result.records_lost:
        click.get_current_context().exit(LOSSES)
