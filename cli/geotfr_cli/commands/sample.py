"""``geotfr sample``."""

from __future__ import annotations

from typing import Any

import click

from geotfr_cli.options import (
    allow_driver_option,
    allow_network_option,
    common_options,
    memory_limit_option,
    overwrite_option,
    show,
    shows_progress,
    warn,
    workers_option,
)
from geotfr_cli.table_options import compressor_option, feature_kinds_option, points_options


@click.command(
    "sample",
    epilog="Example: geotfr sample scene.tif --points plots.gpkg --output training/plots --neighborhood 5",
)
@click.argument("sources", metavar="RASTER...", nargs=-1, required=True)
@click.option("--points", metavar="FILE", required=True, help="A table of points, in any CRS.")
@click.option(
    "--output",
    "-o",
    metavar="OUT|PREFIX",
    required=True,
    help="A .gpkg, .geojson, .fgb, .parquet or .csv file, or the prefix of a TFRecord file.",
)
@click.option(
    "--bands",
    metavar="LIST",
    help="Numbers from 1 through the stack, or names; new=old renames.  [default: all but alpha]",
)
@click.option("--nodata", metavar="NUMBER|none", help="Replace the sources' nodata tags, or ignore them.")
@click.option(
    "--neighborhood",
    type=click.IntRange(1, 4096),
    default=1,
    show_default=True,
    help="Side in pixels of the square around each point that makes an array.",
)
@click.option(
    "--masked",
    type=click.Choice(["drop", "fill"]),
    default="drop",
    show_default=True,
    help="Points on masked pixels or outside: left out, or filled with the default value.",
)
@click.option("--default-value", type=float, default=0, show_default=True, help="Set in masked pixels.")
@click.option("--selectors", metavar="LIST", help="The points' columns to keep: a,b,new=old.  [default: all]")
@click.option(
    "--geometry",
    type=click.Choice(["none", "lonlat", "wkb", "geojson"]),
    help="How records keep the points; a vector file keeps them unless none.  [default: none]",
)
@points_options
@feature_kinds_option
@compressor_option
@allow_driver_option
@allow_network_option
@workers_option
@memory_limit_option
@overwrite_option
@common_options
def command(sources: tuple[str, ...], points: str, output: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Sample rasters at points, as Earth Engine's sampleRegions and neighborhoodToArray do.

    Each point becomes a row: its columns, then each band's value, or the pixels around it. Each block of the rasters
    is read once, whatever the order of the points.
    """
    from geotfr.pipeline.tables.sample import sample_points

    result = sample_points(sources, points, output, progress=shows_progress(quiet=quiet), **options)
    warn(result.warnings, quiet=quiet)
    show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)
