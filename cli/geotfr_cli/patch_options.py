"""Options of an export's labels and of the choice of its patches, each declared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from geotfr.options.labels import LABEL_FEATURES

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["choice_options", "label_options"]

F = TypeVar("F", bound="Callable[..., Any]")

_LABELS = (
    click.option(
        "--labels",
        metavar="VECTOR|RASTER",
        help="Shapes to burn as a band of classes, or a raster of classes on any grid (nearest).",
    ),
    click.option("--label-field", metavar="COLUMN", help="Column of the classes.  [default: each shape is class 1]"),
    click.option("--label-name", metavar="NAME", help="Name of the label band.  [default: the column's, or label]"),
    click.option(
        "--label-classes",
        metavar="CLASS=N,...",
        help="Values of the classes.  [default: numbers as they are, texts 1, 2, ... in order]",
    ),
    click.option(
        "--label-priority",
        metavar="CLASS,...",
        help="Which class wins where shapes overlap, the first most.  [default: the later shape]",
    ),
    click.option("--label-background", type=int, metavar="N", help="Value where no shape is.  [default: 0]"),
    click.option(
        "--label-ignore",
        type=int,
        metavar="N",
        help="Value of masked pixels, and of shapes without a class that is wanted.  [default: the default value; such"
        " shapes are left out]",
    ),
    click.option(
        "--label-all-touched", is_flag=True, help="Burn all pixels that a shape touches, not only by their centre."
    ),
    click.option(
        "--label-instances", metavar="NAME", help="Add a band with the number of the shape of each pixel, from 1."
    ),
    click.option("--label-layer", metavar="NAME", help="The layer, where the file has several."),
    click.option("--label-where", metavar="CONDITION", help='Shapes to take, as "year = 2024".'),
    click.option("--label-crs", metavar="CRS", help="CRS of the shapes.  [default: the file's]"),
    click.option(
        "--label-allow-empty", is_flag=True, help="Take a raster on which no shape lies: all of it is background."
    ),
    click.option(
        "--label-features",
        type=click.Choice(LABEL_FEATURES),
        help="Also write into each record the shapes in it: boxes and classes, or these and outlines.",
    ),
    click.option(
        "--coco", is_flag=True, help="Also write PREFIX-coco.json: boxes and outlines of the shapes in each patch."
    ),
)
_CHOICE = (
    click.option("--min-valid", metavar="SHARE", help="Least share of pixels that aren't masked."),
    click.option(
        "--min-share",
        metavar="CLASS=SHARE",
        multiple=True,
        help="Least share of a class of the labels in a patch, as water=0.02. Repeatable; all must hold.",
    ),
    click.option("--class-band", metavar="NAME", help="The band of classes, if it is none of --labels."),
    click.option(
        "--keep",
        metavar="FILE",
        help="Patches to take: a .txt of numbers, a table with a column number, or footprints (by their centres).",
    ),
    click.option("--within", metavar="VECTOR", help="Take only patches that lie wholly in these polygons."),
    click.option("--sample", type=int, metavar="N", help="Draw at most N patches at random."),
    click.option(
        "--stratify",
        metavar="COLUMN",
        help="Draw from each stratum its share: valid_share, masked_share, share_CLASS, majority, or one of --keep.",
    ),
    click.option("--balance", metavar="COLUMN", help="Draw the same number from each stratum of a column."),
    click.option("--seed", type=int, metavar="N", help="Of the draw: the same on any machine.  [default: 0]"),
)


def label_options(function: F) -> F:
    """``--labels``, ``--label-…`` and ``--coco``."""
    return _with(function, _LABELS)


def choice_options(function: F) -> F:
    """``--min-valid`` to ``--seed``: which patches are written."""
    return _with(function, _CHOICE)


def _with(function: F, options: tuple[Callable[[F], F], ...]) -> F:
    for option in reversed(options):
        function = option(function)
    return function
