"""``geotfr index``."""

from __future__ import annotations

import click

from geotfr_cli.options import common_options, overwrite_option, show


@click.command("index", epilog="Example: geotfr index patches/*.tfrecord.gz")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True)
@overwrite_option
@common_options
def command(paths: tuple[str, ...], overwrite: bool, quiet: bool, as_json: bool) -> None:
    """Write FILE.idx beside each record file, for access by record number; gzip files get FILE.members too."""
    from geotfr.integrity.indexing import write_index

    result = write_index(paths, overwrite=overwrite)
    show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)
