"""``geotfr stats``."""

from __future__ import annotations

import click

from geotfr_cli.options import common_options, overwrite_option, show, warn
from geotfr_cli.table_choice import split_option, where_option


@click.command("stats", epilog="Example: geotfr stats patches/scene-patches.parquet --split train --output stats.json")
@click.argument("paths", metavar="TABLE|MANIFEST|MIXER|FOLDER [SHARD...]", nargs=-1, required=True)
@click.option("--output", "-o", metavar="FILE", help="A JSON file to write, for PatchDataset(normalize=...).")
@split_option
@where_option
@click.option(
    "--percentiles",
    metavar="LIST|none",
    default="1,2,5,25,50,75,95,98,99",
    show_default=True,
    help="Percentiles to tell; none of them and --bins 0 saves the second pass over the records.",
)
@click.option("--bins", type=click.IntRange(0, 1 << 20), default=256, show_default=True, help="Bins of the histograms.")
@click.option("--class-bands", metavar="NAMES", default="", help="Bands whose values are classes, to be counted.")
@overwrite_option
@common_options
def command(
    paths: tuple[str, ...],
    output: str | None,
    split: str | None,
    where: str | None,
    percentiles: str,
    bins: int,
    class_bands: str,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Statistics of the bands of a set, margins and masked pixels left out.

    Which pixels are masked is told by the patch table, beside the set or named. Mean and deviation are exact, and so
    are percentiles and histograms.
    """
    from geotfr.pipeline.catalog.stats import compute_statistics

    result = compute_statistics(
        paths,
        output,
        split=split,
        where=where,
        percentiles=_numbers(percentiles),
        bins=bins,
        class_bands=class_bands,
        overwrite=overwrite,
    )
    warn(result.warnings, quiet=quiet)
    show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)


def _numbers(text: str) -> list[float]:
    if text.strip() in ("", "none"):
        return []
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise click.UsageError(
            f"--percentiles: found {text!r}; allowed are numbers from 0 to 100, as 5,50,95"
        ) from error
