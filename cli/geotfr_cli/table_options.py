"""Options of the commands that read tables, each declared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "allow_vector_driver_option",
    "compressor_option",
    "feature_kinds_option",
    "geometry_option",
    "points_options",
]

F = TypeVar("F", bound="Callable[..., Any]")


def points_options(function: F) -> F:
    """``--layer``, ``--where``, ``--x``, ``--y`` and ``--crs``: which rows, and where their points are."""
    for option in (
        click.option("--crs", help="CRS of the geometries, as EPSG:32633.  [default: the source's; EPSG:4326 for --x]"),
        click.option("--y", metavar="COLUMN", help="Column with the points' y or latitude."),
        click.option("--x", metavar="COLUMN", help="Column with the points' x or longitude, in a table of columns."),
        click.option(
            "--where", metavar="CONDITION", help="Rows to take, as \"class in ('water', 'road') and id > 9\"."
        ),
        click.option("--layer", metavar="NAME", help="The layer, where the file has several."),
    ):
        function = option(function)
    return function


allow_vector_driver_option = click.option(
    "--allow-driver",
    "allow_drivers",
    metavar="NAME",
    multiple=True,
    help="A GDAL driver that may open the vector file beside those of the known formats, as KML. Repeatable; only for"
    " files you trust.",
)
geometry_option = click.option(
    "--geometry",
    type=click.Choice(["none", "lonlat", "wkb", "geojson"]),
    help="lonlat: features longitude and latitude of points; wkb, geojson: a feature geometry."
    "  [default: lonlat for points, else none]",
)
feature_kinds_option = click.option(
    "--feature-kinds",
    type=click.Choice(["float", "native"]),
    default="float",
    show_default=True,
    help="float: all numbers as float lists; native: whole numbers and booleans as int64.",
)
compressor_option = click.option(
    "--compressor",
    type=click.Choice(["fast", "ee"]),
    default="fast",
    show_default=True,
    help="fast: gzip members that inflate in parallel; ee: Earth Engine's very bytes.",
)
