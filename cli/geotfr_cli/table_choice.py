"""Options that choose patches of a patch table, each declared once."""

from __future__ import annotations

import click

__all__ = ["split_option", "where_option"]

split_option = click.option("--split", metavar="NAME", help="Only patches of this split of the table.")
where_option = click.option(
    "--where", metavar="CONDITION", help="Only patches for which this is true: 'masked_share < 0.1 and share_3 > 0'."
)
