"""``geotfr preview``: a group of pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from geotfr_cli.options import common_options, overwrite_option, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from geotfr.options import ExportKeywords

F = TypeVar("F", bound="Callable[..., Any]")

_picture = click.option(
    "--output", "-o", metavar="FILE", required=True, help="The picture: a name that ends in .png, .svg or .pdf."
)
_percentiles = click.option(
    "--percentiles",
    type=(float, float),
    metavar="LOW HIGH",
    default=(2.0, 98.0),
    show_default="2 98",
    help="Values between these are stretched from black to white.",
)
_masked_value = click.option(
    "--masked-value", type=float, metavar="NUMBER", help="Records' value that means masked.  [default: the manifest's]"
)


@click.group("preview", epilog="Example: geotfr preview grid scene.tif --patch-dimensions 256 -o grid.png")
def command() -> None:
    """Draw grids, patches, classes, histograms, and pages that compare two rasters.

    Pictures need the extra plot; swipe needs none.
    """


@command.command("grid", epilog="Example: geotfr preview grid patches/mixer.json --raster scene.tif -o grid.png")
@click.argument("source", metavar="RASTER|MIXER|MANIFEST|FOLDER")
@click.option("--raster", metavar="RASTER", help="What lies below the grid of a mixer or manifest.")
@click.option("--patch-dimensions", metavar="W[,H]", help="Of a raster: the patches.")
@click.option("--kernel-size", metavar="W[,H]", help="Of a raster: the kernel.  [default: 1]")
@click.option("--edge", type=click.Choice(["drop", "pad"]), help="Of a raster: partial patches.  [default: drop]")
@click.option("--bands", metavar="LIST", help="Bands of the raster; three make a composite.  [default: the first]")
@click.option("--highlight", type=int, metavar="N", help="The patch whose block is filled.  [default: in the middle]")
@_percentiles
@_picture
@overwrite_option
@common_options
def grid(
    source: str,
    edge: str | None,
    bands: str | None,
    output: str,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Draw the patch grid over its raster: patches, margins, what the edges leave out, what was dropped."""
    from geotfr.preview.grid import plot_grid

    more: ExportKeywords | None = None if edge is None else {"edge": edge}
    figure = plot_grid(source, source_options=more, bands=_list(bands), **options)
    _write(figure, output, overwrite=overwrite, quiet=quiet, as_json=as_json)


@command.command("patches", epilog="Example: geotfr preview patches patches/ --bands B4,B3,B2 -o sheet.png")
@click.argument("paths", metavar="MIXER|MANIFEST|FOLDER [SHARD...]", nargs=-1, required=True)
@click.option("--bands", metavar="LIST", help="Features to show.  [default: the first three]")
@click.option("--composite/--no-composite", default=None, help="Three bands as one picture.  [default: yes]")
@click.option("--patches", metavar="LIST", help="Numbers of patches of the set.  [default: evenly spread]")
@click.option("--count", type=click.IntRange(1, 400), default=24, show_default=True, help="How many patches.")
@click.option("--columns", type=click.IntRange(1, 400), metavar="N", help="Cells in a row.")
@click.option("--patch-dimensions", metavar="W[,H]", help="Patches of shards without a mixer.")
@click.option("--kernel-size", metavar="W[,H]", help="Kernel, where no manifest tells it.")
@click.option(
    "--first-patch", type=click.IntRange(0), metavar="N", help="The first patch, if the shards are a part of a set."
)
@click.option("--stretch-each", is_flag=True, help="Stretch each patch by itself.")
@_masked_value
@_percentiles
@_picture
@overwrite_option
@common_options
def patches(
    paths: tuple[str, ...],
    patches: str | None,
    patch_dimensions: str | None,
    kernel_size: str | None,
    first_patch: int | None,
    output: str,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Draw a contact sheet of patches, with masked pixels in a pattern of their own."""
    from geotfr.datasets.patch_dataset import PatchDataset
    from geotfr.preview.figures import need_matplotlib
    from geotfr.preview.sheet import plot_patches

    need_matplotlib()
    numbers = None if patches is None else [_number(text) for text in patches.split(",")]
    dataset = PatchDataset(
        paths[0] if len(paths) == 1 else list(paths),
        patch_dimensions=patch_dimensions,
        kernel_size=kernel_size,
        first_patch=first_patch,
    )
    figure = plot_patches(dataset, patches=numbers, **options)
    _write(figure, output, overwrite=overwrite, quiet=quiet, as_json=as_json)


@command.command("classes", epilog="Example: geotfr preview classes map.tif --classes classes.csv -o map.png")
@click.argument("raster")
@click.option("--classes", metavar="FILE", help="CSV of value,name,#rrggbb.")
@click.option("--band", metavar="BAND", default="1", show_default=True, help="Number or name.")
@click.option("--title", metavar="TEXT", help="In place of the raster's name.")
@_picture
@overwrite_option
@common_options
def classes(raster: str, output: str, overwrite: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Draw a map of classes, with the name, colour and share of each."""
    from geotfr.preview.classes import plot_classes

    _write(plot_classes(raster, **options), output, overwrite=overwrite, quiet=quiet, as_json=as_json)


@command.command("histograms", epilog="Example: geotfr preview histograms scene.tif -o histograms.png")
@click.argument("source", metavar="RASTER|MIXER|MANIFEST|FOLDER")
@click.option("--bands", metavar="LIST", help="Names or, of a raster, numbers.  [default: all]")
@click.option("--bins", type=click.IntRange(1, 1000), default=80, show_default=True, help="Bars of a band.")
@click.option("--log", is_flag=True, help="Counts on a logarithmic scale.")
@_masked_value
@_percentiles
@_picture
@overwrite_option
@common_options
def histograms(source: str, output: str, overwrite: bool, quiet: bool, as_json: bool, **options: Any) -> None:
    """Draw a histogram of each band, with its range and the share that is masked."""
    from geotfr.preview.histograms import plot_histograms

    _write(plot_histograms(source, **options), output, overwrite=overwrite, quiet=quiet, as_json=as_json)


@command.command("swipe", epilog="Example: geotfr preview swipe scene.tif map.tif -o compare.html")
@click.argument("before")
@click.argument("after")
@click.option("--labels", type=(str, str), metavar="BEFORE AFTER", help="What they are called.  [default: their names]")
@click.option("--title", metavar="TEXT", default="before and after", show_default=True, help="The page's title.")
@click.option("--bands", metavar="LIST", help="Bands of both; three make a composite.  [default: the first]")
@click.option(
    "--side", type=click.IntRange(16, 8192), default=1600, show_default=True, help="Pixels of the longer side."
)
@_percentiles
@click.option("--output", "-o", metavar="FILE", required=True, help="The page, a file of HTML.")
@overwrite_option
@common_options
def swipe(
    before: str, after: str, bands: str | None, output: str, overwrite: bool, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Write one HTML page that shows two rasters of the same ground, split at a line to drag; it fetches nothing."""
    from geotfr.preview.swipe import write_swipe

    write_swipe(before, after, output, bands=_list(bands), overwrite=overwrite, **options)
    show(f"wrote     {output}", {"output": output}, quiet=quiet, as_json=as_json)


def _write(figure: Figure, output: str, *, overwrite: bool, quiet: bool, as_json: bool) -> None:
    from geotfr.preview.figures import write_figure

    write_figure(figure, output, overwrite=overwrite)
    show(f"wrote     {output}", {"output": output}, quiet=quiet, as_json=as_json)


def _list(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise click.UsageError(f"--patches: found {text!r}; allowed are whole numbers between commas") from error
