"""``geotfr split``."""

from __future__ import annotations

import click

from geotfr_cli.options import common_options, overwrite_option, show, warn


@click.command(
    "split",
    epilog="Example: geotfr split scene-patches.parquet --by blocks --block-size 5000 --buffer 500"
    " --shares train=0.7,val=0.15,test=0.15",
)
@click.argument("table", metavar="TABLE")
@click.option(
    "--by",
    type=click.Choice(["blocks", "group", "random", "column"]),
    default="blocks",
    show_default=True,
    help="blocks: squares on the ground; group: patches of one value of --column; random: each patch for itself;"
    " column: --column holds the splits' names.",
)
@click.option(
    "--shares",
    metavar="NAME=SHARE,...",
    default="train=0.7,val=0.15,test=0.15",
    show_default=True,
    help="The splits and their shares of the patches, which add up to 1.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same split anywhere.")
@click.option("--column", metavar="NAME", help="The column of --by group and --by column.")
@click.option(
    "--stratify/--no-stratify",
    default=True,
    show_default=True,
    help="Give each split about the same class shares, where the table has some.",
)
@click.option(
    "--block-size", "block_size_m", type=float, metavar="METRES", help="Side of a block.  [default: 8 patches]"
)
@click.option(
    "--buffer",
    "buffer_m",
    type=float,
    metavar="METRES",
    default=0.0,
    show_default=True,
    help="Leave patches out until those of different splits are so far apart, margins included.",
)
@click.option(
    "--distance",
    "distance_m",
    type=float,
    metavar="METRES",
    help="What counts as near in the report.  [default: buffer]",
)
@click.option(
    "--shards",
    "shards_prefix",
    metavar="PREFIX",
    help="Also copy each split's records into shards of its own, PREFIX-SPLIT-00000..., with a table and manifest.",
)
@click.option("--max-file-size", metavar="SIZE", default="1GiB", show_default=True, help="Limit on such a shard.")
@click.option("--output", "-o", metavar="FILE", help="Write the table there.  [default: TABLE itself]")
@click.option("--reassign", is_flag=True, help="Assign all rows anew, also those that have a split.")
@overwrite_option
@common_options
def command(
    table: str,
    output: str | None,
    by: str,
    shares: str,
    seed: int,
    column: str | None,
    stratify: bool,
    block_size_m: float | None,
    buffer_m: float,
    distance_m: float | None,
    shards_prefix: str | None,
    max_file_size: str,
    reassign: bool,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Fill the column split of a patch table, and report leaks: patches of different splits that overlap or are near.

    Rows that have a split keep it; only the others are assigned.

    The table keeps what was found; a split with leaks is written, but not called clean.
    """
    from geotfr.pipeline.catalog.split import split_patches

    result = split_patches(
        table,
        output,
        by=by,
        shares=shares,
        seed=seed,
        column=column,
        stratify=stratify,
        block_size_m=block_size_m,
        buffer_m=buffer_m,
        distance_m=distance_m,
        shards_prefix=shards_prefix,
        max_file_size=max_file_size,
        reassign=reassign,
        overwrite=overwrite,
    )
    warn(result.warnings, quiet=quiet)
    show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)
