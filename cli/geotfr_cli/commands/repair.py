"""``geotfr repair``."""

from __future__ import annotations

from typing import Any

import click

from geotfr_cli.options import LOSSES, common_options, overwrite_option, show, warn
from geotfr_cli.record_options import compression_option, max_record_bytes_option


@click.command("repair", epilog="Example: geotfr repair scene-00003.tfrecord.gz --output whole.tfrecord.gz")
@click.argument("path", metavar="FILE")
@click.option("--output", "-o", metavar="OUT", required=True, help="The new file; gzip if it ends in .gz.")
@compression_option
@max_record_bytes_option
@overwrite_option
@common_options
def command(path: str, output: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Write the whole records of a damaged FILE into a new one, and tell what is lost (exit 3 if anything is)."""
    from geotfr.integrity.repair import repair

    result = repair(path, output, **options)
    warn((*result.notes, *result.warnings), quiet=quiet)
    show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)
    if result.fault_count:
        click.get_current_context().exit(LOSSES)
