"""``geotfr export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from geotfr_cli.main import tell
from geotfr_cli.options import (
    LOSSES,
    allow_driver_option,
    allow_network_option,
    common_options,
    executor_options,
    json_option,
    memory_limit_option,
    overwrite_option,
    show,
    shows_progress,
    telling_how_to_go_on,
    warn,
    workers_option,
)
from geotfr_cli.patch_options import choice_options, label_options
from geotfr_cli.stac_items import check_stac_wanted, write_stac
from geotfr_cli.table_choice import date_option, stac_option

if TYPE_CHECKING:
    from geotfr.pipeline.executors.choose import ExecutorKind
    from geotfr.pipeline.export.parts.stage import PartResult
    from geotfr.pipeline.export.plan import ExportPlan
    from geotfr.pipeline.export.run import ExportResult


@click.command(
    "export",
    epilog="Example: geotfr export scene.tif --output patches/scene --patch-dimensions 256 --kernel-size 128",
)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--output",
    "-o",
    "prefix",
    metavar="PREFIX",
    required=True,
    help="Folder and beginning of all names; FOLDER/ for names without beginning. Also at s3://, gs://, az:// (cloud).",
)
@click.option(
    "--patch-dimensions",
    metavar="W[,H]",
    help="Size of a patch in pixels: 256, 256,128 or 256x128. Required, here or in --format-options.",
)
@click.option(
    "--kernel-size", metavar="W[,H]", help="Buffer each patch by floor(kernel / 2) pixels on every side.  [default: 1]"
)
@click.option("--compressed/--no-compressed", default=None, help="Gzip the shards.  [default: compressed]")
@click.option(
    "--compressor",
    type=click.Choice(["fast", "ee"]),
    help="fast: members that inflate in parallel; ee: Earth Engine's very bytes.  [default: fast]",
)
@click.option("--max-file-size", metavar="SIZE", help="Limit on a shard before compression.  [default: 1GiB]")
@click.option("--default-value", metavar="NUMBER", help="Set in every band of a masked pixel.  [default: 0]")
@click.option(
    "--masked-threshold",
    metavar="SHARE",
    help="Largest share of masked pixels a patch may have; other than 1, no mixer is written.  [default: 1]",
)
@click.option(
    "--bands",
    metavar="LIST",
    help="Numbers from 1 through the stack, or names; new=old renames.  [default: all but alpha]",
)
@click.option("--nodata", metavar="NUMBER|none", help="Replace the sources' nodata tags, or ignore them.")
@click.option("--format-options", metavar="JSON|@FILE", help="Earth Engine's formatOptions, in its spelling.")
@click.option(
    "--array-band",
    "array_bands",
    metavar="NAME=ELEMENTS",
    multiple=True,
    help="An array band: evi=3-14 (bands of the source) or evi=stack_*.tif:2 (one element per file); a range keeps the"
    " places of missing files: evi=t_{2020-01..2020-12}.tif. Repeatable.",
)
@click.option("--tensor-depths", metavar="NAME=N,...", help="Depth of the tensor of each array band.")
@click.option(
    "--collapse-bands/--no-collapse-bands", default=None, help="All bands as one tensor, named after the first."
)
@click.option("--sequence-data/--no-sequence-data", default=None, help="One SequenceExample per pixel.")
@click.option(
    "--feature-kinds",
    type=click.Choice(["float", "native"]),
    help="float: all numbers as float lists; native: uint8 as bytes, integers as int64.  [default: float]",
)
@click.option("--mask", "masks", metavar="SOURCE[:BAND]", multiple=True, help="A raster whose zeros mask. Repeatable.")
@click.option(
    "--mask-mode",
    type=click.Choice(["pixel", "band"]),
    help="pixel: a pixel masked in some band is filled in all; band: each band its own.  [default: pixel]",
)
@click.option("--unscale", is_flag=True, help="Apply the bands' scale and offset; values become float32.")
@click.option(
    "--complex", "complex_parts", type=click.Choice(["real,imag"]), help="Complex bands as two features each."
)
@click.option("--patch-index", metavar="NAME", help="Add the patch's number as an int64 feature.")
@click.option(
    "--valid-feature",
    metavar="NAME",
    help="Add a uint8 feature: 1 where a pixel is valid in all bands, 0 where it is masked.",
)
@click.option(
    "--edge",
    type=click.Choice(["drop", "pad"]),
    help="Partial patches: left out, or padded with masked pixels.  [default: drop]",
)
@click.option("--region", metavar="GEOJSON|WKT|FILE|W,S,E,N", help="What to export, lon/lat unless it carries a CRS.")
@click.option("--clip-region/--no-clip-region", default=None, help="Mask what is outside the region's shape.")
@click.option("--crs", help="CRS of the export, as EPSG:32633; for a source without CRS: its CRS.")
@click.option("--crs-transform", metavar="SIX NUMBERS", help="xScale,xShear,xTranslation,yShear,yScale,yTranslation.")
@click.option("--scale", metavar="METRES", help="Pixel size in metres.")
@click.option("--dimensions", metavar="W,H|N", help="Size of the export in pixels, or its longer side.")
@click.option(
    "--resampling",
    type=click.Choice(["nearest", "bilinear", "cubic", "average", "mode"]),
    help="How sources on other grids are warped.  [default: nearest]",
)
@click.option(
    "--naming",
    type=click.Choice(["drive", "cloud-storage"]),
    help="PREFIX-00000.tfrecord or PREFIX00000.tfrecord.  [default: drive]",
)
@click.option("--allow-ungeoreferenced", is_flag=True, help="Take rasters without georeference.")
@allow_driver_option
@allow_network_option
@click.option(
    "--resume",
    is_flag=True,
    help="Continue behind the last whole shard of a stopped run with the same options; keep whole shards if this one is"
    " stopped.",
)
@click.option(
    "--fast-resume",
    is_flag=True,
    help="As --resume, but compare sources by size and time of change: they aren't read whole for a digest.",
)
@click.option(
    "--split",
    metavar="PART/PARTS",
    help="Stage one part only, as 0/16 to 15/16, in any order and anywhere; 'geotfr finalize' makes the set of all.",
)
@click.option(
    "--on-read-error",
    type=click.Choice(["error", "mask"]),
    default="error",
    show_default=True,
    help="Pixels that can't be read: stop, or mask their storage blocks and exit with code 3.",
)
@click.option(
    "--patch-table",
    is_flag=True,
    help="Also write PREFIX-patches.parquet: of each patch its place, digest, footprint and statistics (extra: table).",
)
@click.option(
    "--class-bands", metavar="NAMES", default="", help="Bands whose values are classes: the table gets their shares."
)
@click.option(
    "--collection",
    is_flag=True,
    help="Each SOURCE (a folder, a pattern, files) is a raster of its own: a set and a mixer each, PREFIX-NAME, and one"
    " table of all, PREFIX-patches.parquet. Sets that are there stay (extra: table).",
)
@click.option(
    "--collection-shards",
    type=click.Choice(["separate", "shared"]),
    help="With --collection: each raster has shards of its own, or all fill PREFIX-00000…, in their order; rasters that"
    " are added begin a new shard.  [default: separate]",
)
@label_options
@choice_options
@stac_option
@date_option
@click.option("--dry-run", is_flag=True, help="Print the plan and stop before a pixel is read.")
@workers_option
@executor_options
@memory_limit_option
@overwrite_option
@common_options
def command(
    sources: tuple[str, ...],
    prefix: str,
    format_options: str | None,
    default_value: str | None,
    masked_threshold: str | None,
    scale: str | None,
    complex_parts: str | None,
    dry_run: bool,
    overwrite: bool,
    resume: bool,
    fast_resume: bool,
    executor: ExecutorKind | None,
    scheduler: str | None,
    split: str | None,
    on_read_error: str,
    patch_table: bool,
    class_bands: str,
    collection: bool,
    collection_shards: str | None,
    stac: bool,
    date: str | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Cut GeoTIFFs into TFRecord patches with a mixer, as Earth Engine's Export.image does.

    Several SOURCEs on one grid are stacked as bands; FILE:3 is band 3 of FILE. Masks come from nodata, NaN, mask
    bands and alpha.
    """
    from geotfr.pipeline.export.run import export_image, plan_export

    options |= {
        "format_options": json_option(format_options, "--format-options"),
        "default_value": _number(default_value, "--default-value"),
        "masked_threshold": _number(masked_threshold, "--masked-threshold"),
        "scale": _number(scale, "--scale"),
        "complex_parts": complex_parts is not None,
    }
    check_stac_wanted(stac=stac, date=date)
    if collection_shards and not collection:
        raise click.UsageError("--collection-shards: tells the shards of many rasters; it goes with --collection")
    if collection:
        alone = {"--stac": stac, "--dry-run": dry_run, "--resume": resume or fast_resume, "--split": split}
        alone["--executor"] = executor or scheduler
        _export_collection(
            sources,
            prefix,
            [flag for flag, value in alone.items() if value],
            overwrite=overwrite,
            on_read_error=on_read_error,
            class_bands=class_bands,
            shards=collection_shards or "separate",
            quiet=quiet,
            as_json=as_json,
            **options,
        )
        return
    if dry_run:
        is_staged = resume or fast_resume or split is not None or executor in ("processes", "dask") or bool(scheduler)
        plan = plan_export(sources, prefix=prefix, resume=is_staged, **options)
        warn(plan.warnings, quiet=quiet)
        show(plan.to_text(), plan.to_dict(), quiet=quiet, as_json=as_json)
        return

    def tell_plan(plan: ExportPlan) -> None:
        if not quiet:
            from geotfr.plain_text import printable_report

            tell(printable_report(plan.to_text(), plan.to_dict()), keeps_lines=True)

    options |= {
        "overwrite": overwrite,
        "resume": resume,
        "on_read_error": on_read_error,
        "progress": shows_progress(quiet=quiet),
        "on_plan": tell_plan,
    }
    result: ExportResult | PartResult
    if split is None:
        with telling_how_to_go_on(click.get_current_context(), resumes=True):
            result = export_image(
                sources,
                prefix,
                fast_resume=fast_resume,
                patch_table=patch_table,
                class_bands=class_bands,
                executor=executor,
                scheduler=scheduler,
                **options,
            )
    else:
        from geotfr.pipeline.export.parts.stage import export_part

        if executor not in (None, "serial", "threads") or scheduler:
            raise click.UsageError("--split: a part is run by threads; start the parts side by side instead")
        if stac:
            raise click.UsageError("--stac: a part has no Item; write the set's with geotfr.write_stac_item")
        options["resume"] = resume or fast_resume
        result = export_part(sources, prefix, split=split, patch_table=patch_table, class_bands=class_bands, **options)
    warn(result.warnings, quiet=quiet)
    document = result.to_dict()
    if stac:
        manifest = Path(document["manifest"])
        told = write_stac(manifest, date=date, overwrite=overwrite, quiet=quiet, class_bands=class_bands)
        document["warnings"] = [*document["warnings"], *told]
    show(result.to_text(), document, quiet=quiet, as_json=as_json)
    if result.pixels_unreadable:
        click.get_current_context().exit(LOSSES)


def _export_collection(
    sources: tuple[str, ...], prefix: str, alone: list[str], *, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Export each source as a set of its own; ``alone`` are flags that one raster's export takes only."""
    if alone:
        raise click.UsageError(f"--collection: goes without {', '.join(alone)}; export the rasters one by one for it")
    from geotfr.pipeline.catalog.collection import export_collection

    def tell_member(name: str, place: int, count: int) -> None:
        if not quiet:
            tell(f"{place} of {count}: {name}")

    progress = shows_progress(quiet=quiet)
    result = export_collection(sources, prefix, on_raster=tell_member, progress=progress, **options)
    warn(result.warnings, quiet=quiet)
    show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)
    if result.pixels_unreadable:
        click.get_current_context().exit(LOSSES)


def _number(text: str | None, name: str) -> float | None:
    """Whole numbers stay whole, so that large ones keep their digits."""
    if text is None:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise click.UsageError(f"{name}: found {text!r}; allowed is a number")
