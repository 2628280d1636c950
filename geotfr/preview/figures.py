"""Figures of matplotlib without its global state: made, labelled with any text, shown in notebooks, written whole."""

from __future__ import annotations

import importlib
import io
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.storage import atomic_output

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "FORMATS",
    "INK",
    "MARGIN",
    "MASKED",
    "PATCH",
    "bare",
    "label",
    "need_matplotlib",
    "new_figure",
    "write_figure",
]

INK = "#22272e"
PATCH = "#0b6bcb"
MARGIN = "#e8590c"
MASKED = "#d6336c"
"""Colours that stay apart from each other and from grey, also for readers who confuse red and green."""

FORMATS = (".png", ".svg", ".pdf")
_LONGEST_LABEL = 60
_DPI = 150


def need_matplotlib() -> None:
    """Raise UsageError, with what to install, if there is no matplotlib."""
    try:
        importlib.import_module("matplotlib")
    except ModuleNotFoundError as error:
        raise UsageError("pictures need matplotlib, which isn't installed; pip install 'geotfr[plot]'") from error


@cache
def _figure_class() -> type[Figure]:
    """A Figure that a notebook shows without ``pyplot``, which keeps every figure it made."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            return _written(self, ".png")

    return ShownFigure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of ``width`` x ``height`` inches that lays itself out."""
    return _figure_class()(figsize=(width, height), dpi=_DPI, layout="constrained", facecolor="white")


def label(text: str) -> str:
    """``text`` as a label: in one line, not too long, no formula, and only letters that the font has.

    >>> label("a$b$"), label("two" + chr(10) + "lines")
    ('a\\\\$b\\\\$', 'two lines')
    """
    line = " ".join(text.split())
    if len(line) > _LONGEST_LABEL:
        line = line[: _LONGEST_LABEL - 1] + "…"
    drawn = "".join(letter if ord(letter) in _letters() else "\ufffd" for letter in line)
    return drawn.replace("\\", "\\\\").replace("$", r"\$") if "$" in drawn else drawn


@cache
def _letters() -> frozenset[int]:
    """What the font that comes with matplotlib can draw."""
    from matplotlib import font_manager

    return frozenset(font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap())


@checks_flags
def write_figure(figure: Figure, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write ``figure`` as PNG, SVG or PDF, by the name's end; the same figure gives the same bytes.

    Raises
    ------
    UsageError
        Another end.
    OutputError
        It can't be written, or exists and ``overwrite`` is False.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"{path}: a picture's name ends in {', '.join(FORMATS)}")
    with atomic_output(path, overwrite=overwrite) as file:
        file.write(_written(figure, suffix))


def _written(figure: Figure, suffix: str) -> bytes:
    import matplotlib as mpl

    data = io.BytesIO()
    # Neither versions nor the time are written.
    metadata: dict[str, Any] = {
        ".png": {"Software": None},
        ".svg": {"Date": None},
        ".pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    }[suffix]
    with mpl.rc_context({"svg.hashsalt": "geotfr"}):
        figure.savefig(data, format=suffix[1:], metadata=metadata)
    return data.getvalue()


def bare(axes: Axes) -> None:
    """Leave out ticks and frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
