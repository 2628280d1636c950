"""``geotfr finalize``."""

from __future__ import annotations

import click

from geotfr_cli.options import LOSSES, common_options, overwrite_option, show, shows_progress, warn


@click.command("finalize", epilog="Example: geotfr finalize patches/scene")
@click.argument("prefix", metavar="PREFIX")
@click.option(
    "--parts", type=click.IntRange(1), help="How many parts there are.  [default: as many as those staged say]"
)
@click.option(
    "--ignore-source-times", is_flag=True, help="Take parts whose sources have other times of change: copies of a file."
)
@click.option("--verify", is_flag=True, help="Read all staged files and compare their checksums.  [default: sizes]")
@overwrite_option
@common_options
def command(
    prefix: str,
    parts: int | None,
    ignore_source_times: bool,
    verify: bool,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Make one set of the parts that 'geotfr export --split PART/PARTS --output PREFIX' staged.

    Checks that all are there and were made alike, names their shards or puts them together, and writes mixer and
    manifest: the very files of one run. Stopped, it goes on where it was when it is run again.
    """
    from geotfr.pipeline.export.parts.finalize import finalize_export

    result = finalize_export(
        prefix,
        parts=parts,
        overwrite=overwrite,
        ignore_source_times=ignore_source_times,
        verify=verify,
        progress=shows_progress(quiet=quiet),
    )
    warn(result.warnings, quiet=quiet)
    show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)
    if result.pixels_unreadable:
        click.get_current_context().exit(LOSSES)
