"""Options of patch tables and STAC Items that commands share, each declared once."""

from __future__ import annotations

import click

__all__ = ["date_option", "split_option", "stac_option", "where_option"]

stac_option = click.option(
    "--stac", is_flag=True, help="Also write a STAC Item beside the output, with its files as assets (extra: stac)."
)
date_option = click.option(
    "--datetime",
    "date",
    metavar="DATE[/DATE]",
    help="When the pixels are from, for the STAC Item: 2024-06-01.  [default: the file's time of change]",
)

split_option = click.option("--split", metavar="NAME", help="Only patches of this split of the table.")
where_option = click.option(
    "--where", metavar="CONDITION", help="Only patches for which this is true: 'masked_share < 0.1 and share_3 > 0'."
)
