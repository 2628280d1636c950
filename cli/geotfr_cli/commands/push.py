"""``geotfr push``."""

from __future__ import annotations

import click

from geotfr_cli.options import common_options, overwrite_option, retry_option, show


@click.command("push", epilog="Example: geotfr push patches/scene s3://bucket/sets")
@click.argument("prefix", metavar="PREFIX")
@click.argument("address", metavar="ADDRESS")
@click.option("--dry-run", is_flag=True, help="Compare and tell what would be sent; nothing is written.")
@retry_option
@overwrite_option
@common_options
def command(
    prefix: str, address: str, dry_run: bool, retry_seconds: float, overwrite: bool, quiet: bool, as_json: bool
) -> None:
    """Send the set at PREFIX to the folder ADDRESS of an object store: s3://, gs:// or az:// (extra cloud).

    Objects that are there with the same bytes aren't sent again, so the same command continues a push that broke. What
    arrived is compared by size and checksum; the manifest comes last. Credentials come from the environment.
    """
    from geotfr.pipeline.transfer.push import push_set

    result = push_set(prefix, address, overwrite=overwrite, dry_run=dry_run, retry_seconds=retry_seconds)
    show(result.to_text(), result.to_dict(), quiet=quiet, as_json=as_json)
