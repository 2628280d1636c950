"""``geotfr ingest-predictions``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from geotfr_cli.options import (
    LOSSES,
    common_options,
    executor_options,
    overwrite_option,
    show,
    shows_progress,
    telling_how_to_go_on,
    warn,
    workers_option,
)
from geotfr_cli.stac_items import check_stac_wanted, write_stac
from geotfr_cli.table_choice import date_option, stac_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geotfr.pipeline.ingest.result import IngestResult


@click.command(
    "ingest-predictions",
    epilog="Example: geotfr ingest-predictions patches/scene-mixer.json predictions-*.tfrecord.gz --output map.tif",
)
@click.argument("mixer", metavar="MIXER|FOLDER")
@click.argument("shards", metavar="[SHARD...]", nargs=-1)
@click.option(
    "--output",
    "-o",
    metavar="OUT.tif",
    required=True,
    help="The GeoTIFF to write, also at s3://, gs://, az:// (extra cloud).",
)
@click.option(
    "--kernel-size",
    metavar="W[,H]",
    help="Kernel that padded predictions carry.  [default: the manifest's, or inferred]",
)
@click.option(
    "--channels", type=click.Choice(["first", "last"]), help="Features hold several bands, (c, h, w) or (h, w, c)."
)
@click.option("--class-names", metavar="LIST", help="Names of a feature's bands.  [default: NAME_0, NAME_1, …]")
@click.option(
    "--per-patch",
    type=click.Choice(["pixel", "fill"]),
    help="Features hold a value for a patch: a raster of a pixel for each, or filled patches.",
)
@click.option("--coarser", metavar="N", type=int, help="A prediction's pixel is N x N pixels of the patch.")
@click.option("--finer", metavar="N", type=int, help="A pixel of the patch is N x N pixels of predictions.")
@click.option("--patch-index", metavar="NAME", help="The int64 feature with the patch's number; any order of records.")
@click.option(
    "--bands",
    metavar="LIST",
    help="Features to take, in order; new=old renames.  [default: all, in the first record's order]",
)
@click.option(
    "--overlap",
    type=click.Choice(["crop", "average", "linear", "cosine", "gaussian", "vote", "max-probability"]),
    default="crop",
    show_default=True,
    help="Margins: thrown away, as Earth Engine does, or blended. Class ids take vote.",
)
@click.option("--argmax", is_flag=True, help="Reduce the bands to one: the number, from 0, of the greatest.")
@click.option("--confidence", is_flag=True, help="With --argmax: the greatest value as a second band.")
@click.option("--threshold", metavar="T", type=float, help="1 where a value is at least T, else 0.")
@click.option("--scale", metavar="S", type=float, help="Store (value - offset) / S, rounded; needs an integer --dtype.")
@click.option("--offset", metavar="O", type=float, help="See --scale; values outside the type are clamped (exit 3).")
@click.option(
    "--dtype",
    help="As uint8 or float32; auto: the smallest integer that holds all.  [default: the features' own]",
)
@click.option(
    "--nodata", metavar="NUMBER", help="Nodata value of the output.  [default: none; chosen where pixels are masked]"
)
@click.option(
    "--mask-from",
    metavar="RASTER|manifest",
    multiple=True,
    help="Mask where this raster, or a source that the manifest lists, is masked; a raster of 0 and 1: where it is 0."
    " Repeatable.",
)
@click.option("--sources", metavar="FOLDER", help="Where the manifest's sources are.  [default: beside it]")
@click.option(
    "--classes",
    metavar="FILE",
    help="CSV of value,name,#rrggbb: names and colour table; any other value is refused.",
)
@click.option(
    "--shard-order",
    type=click.Choice(["natural", "given"]),
    default="natural",
    show_default=True,
    help="By the numbers in the names, or as listed.",
)
@click.option(
    "--of-collection",
    is_flag=True,
    help="The shards hold predictions of all rasters of a collection with shared shards; take those of MIXER's.",
)
@click.option(
    "--on-bad-record",
    type=click.Choice(["error", "skip", "repair"]),
    default="error",
    show_default=True,
    help="What a damaged record means; lost patches are filled and told (exit 3).",
)
@click.option(
    "--format", type=click.Choice(["gtiff", "cog"]), default="gtiff", show_default=True, help="GeoTIFF, or COG."
)
@click.option(
    "--compress",
    type=click.Choice(["deflate", "zstd", "lzw", "none"]),
    help="Compression.  [default: deflate, level 1]",
)
@click.option(
    "--pyramiding-policy",
    metavar="POLICY|BAND=POLICY,…",
    help="Overviews by mean, mode, min, max or sample; '*=mean' for the other bands."
    "  [default: none; a COG's: mode for whole numbers, else mean]",
)
@click.option("--statistics", is_flag=True, help="Write the bands' statistics into the file.")
@click.option(
    "--each", is_flag=True, help="Every set in FOLDER, and right below it, to NAME.tif in the folder --output."
)
@click.option("--mosaic", is_flag=True, help="The sets in FOLDER, neighbours on one grid, to one raster.")
@click.option("--grid", metavar="RASTER", help="In place of a mixer: the raster that the patches were cut from.")
@click.option("--patch-dimensions", metavar="W[,H]", help="With --grid: the patches, row-major from its corner.")
@click.option(
    "--edge",
    type=click.Choice(["drop", "pad"]),
    help="With --grid: partial patches were left out, or filled up.  [default: drop]",
)
@click.option("--preview", metavar="PNG", help="Write a picture of the result, too.")
@click.option(
    "--creation-option",
    "--co",
    "creation_options",
    metavar="NAME=VALUE",
    multiple=True,
    help="GDAL creation option, over the defaults: tiles, DEFLATE level 1 with predictor.",
)
@stac_option
@date_option
@click.option("--verify", is_flag=True, help="Read the records once more and compare every pixel of the raster.")
@click.option("--dry-run", is_flag=True, help="Print the plan and stop; nothing is written.")
@workers_option
@executor_options
@overwrite_option
@common_options
def command(
    mixer: str,
    shards: tuple[str, ...],
    output: str,
    each: bool,
    mosaic: bool,
    verify: bool,
    stac: bool,
    date: str | None,
    dry_run: bool,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Turn prediction TFRecords into a georeferenced GeoTIFF, as Earth Engine does with a mixer.

    Each record is a patch, in the order of the exported patches; the overlap of padded predictions is trimmed. Each
    feature is a band. A FOLDER holds one mixer and one set of shards.
    """
    if options["grid"] is not None:
        # Without a mixer all arguments are shards.
        shards = (mixer, *shards)
    check_stac_wanted(stac=stac, date=date)
    if each and mosaic:
        raise click.UsageError("--each, --mosaic: give one of them")
    if each or mosaic:
        _check_of_folder(shards, options, mosaic=mosaic)
    if dry_run:
        _show_plan(mixer, shards, options, is_many=each or mosaic, quiet=quiet, as_json=as_json)
        return
    run: dict[str, Any] = {"overwrite": overwrite, "verify": verify, "progress": shows_progress(quiet=quiet)}
    if each or mosaic:
        results = _of_folder(mixer, output, mosaic=mosaic, **run, **options)
    else:
        first = None if options["grid"] is not None else mixer
        results = _of_set(first, shards, output, **run, **options)
    done, documents = [], []
    for result in _told(results):
        warn((*result.notes, *result.warnings), quiet=quiet)
        if not as_json:
            show(result.to_text(), {}, quiet=quiet, as_json=False)
        documents.append(result.to_dict())
        if stac:
            raster, classes = Path(result.output), options.get("classes")
            told = write_stac(raster, date=date, overwrite=overwrite, quiet=quiet, classes=classes)
            documents[-1]["warnings"] = [*documents[-1]["warnings"], *told]
        done.append(result)
    if as_json:
        show("", {"rasters": documents} if each else documents[0], quiet=quiet, as_json=True)
    if any(result.patches_lost or result.values_clamped for result in done):
        click.get_current_context().exit(LOSSES)


def _told(results: Iterator[IngestResult]) -> Iterator[IngestResult]:
    """The results as they come; what a lost engine leaves to do is told."""
    with telling_how_to_go_on(click.get_current_context(), resumes=False):
        yield from results


def _of_set(mixer: str | None, shards: tuple[str, ...], output: str, **options: Any) -> Iterator[IngestResult]:
    from geotfr.pipeline.ingest.run import ingest_predictions

    yield ingest_predictions(mixer, shards, output, **options)


def _check_of_folder(shards: tuple[str, ...], options: dict[str, Any], *, mosaic: bool) -> None:
    """Refuse what one set alone can have; takes it out of ``options``."""
    flag = "--mosaic" if mosaic else "--each"
    for name in ("grid", "patch_dimensions", "edge", "preview"):
        if options.pop(name) is not None:
            raise click.UsageError(f"{flag}: each set has a mixer of its own; not with --{name.replace('_', '-')}")
    if shards:
        raise click.UsageError(f"{flag}: takes one folder, and finds the shards in it")


def _of_folder(folder: str, output: str, *, mosaic: bool, **options: Any) -> Iterator[IngestResult]:
    from geotfr.pipeline.ingest.each import ingest_each
    from geotfr.pipeline.ingest.neighbours import ingest_mosaic

    if mosaic:
        yield ingest_mosaic(folder, output, **options)
    else:
        yield from ingest_each(folder, output, **options)


def _show_plan(
    mixer: str, shards: tuple[str, ...], options: dict[str, Any], *, is_many: bool, quiet: bool, as_json: bool
) -> None:
    """The plan, or one for each set of a folder."""
    from geotfr.pipeline.ingest.each import plan_each
    from geotfr.pipeline.ingest.run import plan_ingest

    if is_many:
        plans = dict(plan_each(mixer, **options))
        text = "\n\n".join(f"{name}\n{plan.to_text()}" for name, plan in plans.items())
        document: dict[str, Any] = {"plans": {name: plan.to_dict() for name, plan in plans.items()}}
    else:
        options = {name: value for name, value in options.items() if name != "preview"}
        plan = plan_ingest(None if options["grid"] is not None else mixer, shards, **options)
        warn(plan.notes, quiet=quiet)
        text, document = plan.to_text(), plan.to_dict()
    show(text, document, quiet=quiet, as_json=as_json)
