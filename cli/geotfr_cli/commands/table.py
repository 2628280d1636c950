"""``geotfr table``."""

from __future__ import annotations

import click

from geotfr_cli.options import common_options, overwrite_option, show, warn


@click.command("table", epilog="Example: geotfr table patches/ --source scene.tif")
@click.argument("paths", metavar="MIXER|MANIFEST|FOLDER [SHARD...]", nargs=-1, required=True)
@click.option("--output", "-o", metavar="FILE", help="The table.  [default: PREFIX-patches.parquet beside the set]")
@click.option(
    "--source",
    "sources",
    metavar="RASTER",
    multiple=True,
    help="A raster that was exported: tells masks and true values, and each digest is compared. Repeatable.",
)
@click.option(
    "--region", metavar="REGION", help="The region that --source was cut by, where the export was given it as a file."
)
@click.option(
    "--masked-value", type=float, metavar="NUMBER", help="Values equal to this are masked: the export's defaultValue."
)
@click.option("--class-bands", metavar="NAMES", default="", help="Bands whose values are classes.")
@click.option("--join", metavar="FILE", help="A CSV or Parquet file with a column number, whose columns are added.")
@click.option(
    "--first-patch", type=click.IntRange(0), metavar="N", help="The first patch, if the shards are a part of a set."
)
@click.option("--kernel-size", metavar="W[,H]", help="The kernel, where no manifest and no square patch tells it.")
@overwrite_option
@common_options
def command(
    paths: tuple[str, ...],
    output: str | None,
    sources: tuple[str, ...],
    region: str | None,
    masked_value: float | None,
    class_bands: str,
    join: str | None,
    first_patch: int | None,
    kernel_size: str | None,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Make the patch table of a set that is there already, Earth Engine's own exports included.

    A GeoParquet file with a row for each patch: place in the shards, SHA-256, outline, masked share, statistics of each
    band. Needs the extra table.
    """
    from geotfr.pipeline.catalog.table import make_patch_table

    result = make_patch_table(
        paths,
        output,
        rasters=list(sources) or None,
        region=region,
        masked_value=masked_value,
        class_bands=class_bands,
        join=join,
        first_patch=first_patch,
        kernel_size=kernel_size,
        overwrite=overwrite,
    )
    warn(result.warnings, quiet=quiet)
    show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)
