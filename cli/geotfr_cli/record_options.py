"""Options of the commands that read record files, each declared once."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["compression_option", "max_record_bytes_option"]


def _size(ctx: click.Context, param: click.Parameter, value: Any) -> int | None:
    del ctx, param
    if value is None:
        return None
    from geotfr.options import parse_size

    return parse_size("max_record_bytes", value)


compression_option = click.option(
    "--compression",
    type=click.Choice(["auto", "none", "gzip", "zlib"]),
    default="auto",
    show_default=True,
    help="By the content, or what the files must be.",
)
max_record_bytes_option = click.option(
    "--max-record-bytes",
    metavar="SIZE",
    callback=_size,
    help="Largest record to read.  [default: 2GiB; less in small compressed files]",
)
