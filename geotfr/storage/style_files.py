"""The style file beside a raster of classes, which QGIS reads by its name: ours, or a user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geotfr.errors import OutputExistsError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["STYLE_MARK", "check_style", "is_own_style", "style_path"]

STYLE_MARK = "<!-- made by geotfr -->"
"""Stands in a style that geotfr wrote: another one is a user's work."""
_MOST_HEAD_BYTES = 512


def style_path(raster: Path) -> Path:
    """Where QGIS looks for the style of ``raster``."""
    return raster.with_suffix(".qml")


def is_own_style(path: Path) -> bool:
    """Whether geotfr wrote the style at ``path``."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return STYLE_MARK.encode() in file.read(_MOST_HEAD_BYTES)
    except OSError:
        return False


def check_style(raster: Path, *, overwrite: bool) -> None:
    """Refuse to replace a style that is there already.

    Raises
    ------
    OutputExistsError
        One is there, and ``overwrite`` is False.
    """
    path = style_path(raster)
    if not overwrite and path.is_file() and not is_own_style(path):
        raise OutputExistsError(
            f"{path}: exists already, and would be the style of the classes; --overwrite (overwrite=True) replaces it"
        )
