"""``geotfr pull``."""

from __future__ import annotations

import click

from geotfr_cli.options import common_options, overwrite_option, retry_option, show


@click.command("pull", epilog="Example: geotfr pull s3://bucket/sets/scene patches")
@click.argument("address", metavar="ADDRESS")
@click.argument("folder", metavar="FOLDER")
@retry_option
@overwrite_option
@common_options
def command(address: str, folder: str, retry_seconds: float, overwrite: bool, quiet: bool, as_json: bool) -> None:
    """Bring the set at ADDRESS, a prefix as s3://bucket/folder/scene, into FOLDER (extra cloud).

    Shards are compared with the manifest, objects with the store's checksum; the files appear together. Credentials
    come from the environment.
    """
    from geotfr.pipeline.transfer.pull import pull_set

    result = pull_set(address, folder, overwrite=overwrite, retry_seconds=retry_seconds)
    show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)
