"""``geotfr verify``."""

from __future__ import annotations

from typing import Any

import click

from geotfr_cli.options import DAMAGED, common_options, show, warn
from geotfr_cli.record_options import compression_option, max_record_bytes_option


@click.command("verify", epilog="Example: geotfr verify patches/scene-mixer.json")
@click.argument("paths", metavar="PATH|MANIFEST|MIXER...", nargs=-1, required=True)
@compression_option
@max_record_bytes_option
@common_options
def command(paths: tuple[str, ...], quiet: bool, as_json: bool, **options: Any) -> None:
    """Read record files to their end and tell everything that is wrong; exit 0 if nothing is, else 12.

    Framing, both checksums and decoding of every record; with a mixer or a manifest also counts, lengths and digests.
    A PATH is a file or a folder. A MIXER or MANIFEST alone stands for its shards.
    """
    from geotfr.integrity.verify import verify

    result = verify(paths, **options)
    warn((*result.notes, *result.warnings), quiet=quiet)
    show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)
    if not result.is_good:
        click.get_current_context().exit(DAMAGED)
