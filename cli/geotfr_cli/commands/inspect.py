"""``geotfr inspect``."""

from __future__ import annotations

from typing import Any

import click

from geotfr_cli.options import DAMAGED, common_options, show, warn
from geotfr_cli.record_options import compression_option, max_record_bytes_option


@click.command("inspect", epilog="Example: geotfr inspect patches/ --code tf")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--records", type=click.IntRange(0), default=0, show_default=True, help="Show so many of the first records."
)
@click.option(
    "--code",
    type=click.Choice(["tf", "geotfr", "torch"]),
    help="Print the Python code that reads these files, and nothing else.",
)
@compression_option
@max_record_bytes_option
@common_options
def command(paths: tuple[str, ...], code: str | None, quiet: bool, as_json: bool, **options: Any) -> None:
    """Tell what record files hold: compression, records, and of each feature kind, lengths, range and shape.

    Patch shapes come from a mixer beside the files, or are guessed from square numbers. Damage is told and read around;
    then the exit code is 12.
    """
    from geotfr.integrity.inspect import inspect, parsing_code_of

    result = inspect(paths, **options)
    warn((*result.notes, *result.warnings), quiet=quiet)
    if code is None:
        show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)
    else:
        warn([f"damaged: {fault}" for fault in result.faults[:1]], quiet=quiet)
        text = parsing_code_of(result, code)  # type: ignore[arg-type]  # click has checked the choice
        show(text.rstrip("\n"), {"code": text}, quiet=quiet, as_json=as_json)
    if result.fault_count:
        click.get_current_context().exit(DAMAGED)
