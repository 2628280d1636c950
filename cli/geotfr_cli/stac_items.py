"""The STAC Item that a command writes after its output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from geotfr_cli.main import tell
from geotfr_cli.options import warn

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check_stac_wanted", "write_stac"]


def check_stac_wanted(*, stac: bool, date: str | None) -> None:
    """Before any work: a date without an Item, or an Item without pystac."""
    if date is not None and not stac:
        raise click.UsageError("--datetime: is the STAC Item's; give --stac too")
    if stac:
        from geotfr.pipeline.catalog.stac import check_stac

        check_stac()


def write_stac(
    source: Path,
    *,
    date: str | None,
    overwrite: bool,
    quiet: bool,
    class_bands: str = "",
    classes: str | None = None,
) -> tuple[str, ...]:
    """Write the Item of a manifest or a raster, and tell where it is; what a user should know of it."""
    from geotfr.pipeline.catalog.stac import write_stac_item

    made = write_stac_item(source, date=date, class_bands=class_bands, classes=classes, overwrite=overwrite)
    warn(made.warnings, quiet=quiet)
    if not quiet:
        tell(f"item      {made.path}")
    return made.warnings
