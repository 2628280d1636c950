"""What notebooks show of a plan, a mixer, a manifest or a data set: facts in a small table, and the grid as a sketch.

Names come from files of strangers: every text is escaped.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from geotfr.plain_text import printable, redact

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["card", "grid_sketch", "layout_facts", "listed"]

_LONGEST = 300
_SKETCH_PX = 160
_MOST_LINES = 60
_SHOWN = 12


def card(title: str, facts: Iterable[tuple[str, str]], sketch: str = "") -> str:
    """HTML of a table of (name, value) texts beside ``sketch``, which is HTML already.

    >>> "&lt;b&gt;" in card("mixer", [("name", "<b>")])
    True
    """
    rows = "".join(
        f'<tr><th style="text-align:left;vertical-align:top">{html.escape(name)}</th>'
        f'<td style="text-align:left;overflow-wrap:anywhere">{_escaped(value)}</td></tr>'
        for name, value in facts
    )
    table = f'<table><caption style="text-align:left"><b>{_escaped(title)}</b></caption>{rows}</table>'
    return f'<div style="display:flex;gap:1em;align-items:flex-start;flex-wrap:wrap">{table}{sketch}</div>'


def _escaped(text: str) -> str:
    return html.escape(printable(_short(redact(text))))


def listed(names: Iterable[str]) -> str:
    """The first names, and how many more there are.

    >>> listed(f"b{number}" for number in range(14))
    'b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11 and 2 more'
    """
    found = list(names)
    rest = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + rest


def layout_facts(
    *, crs: str, affine: tuple[float, ...], patch_yx: tuple[int, int], rows: int, columns: int
) -> list[tuple[str, str]]:
    """The facts of a grid of patches."""
    return [
        ("CRS", crs or "none"),
        ("transform", ", ".join(f"{number:.10g}" for number in affine)),
        ("grid", f"{columns:,} x {rows:,} = {rows * columns:,} patches of {patch_yx[1]} x {patch_yx[0]} pixels"),
    ]


def grid_sketch(
    *,
    shape_yx: tuple[int, int],
    patch_yx: tuple[int, int],
    rows: int,
    columns: int,
    margin_yx: tuple[int, int] = (0, 0),
) -> str:
    """A small SVG of a grid: the raster in grey, patches in blue, the block of the middle one in orange.

    >>> grid_sketch(shape_yx=(20, 30), patch_yx=(10, 10), rows=2, columns=3)[:4]
    '<svg'
    """
    (height, width), (patch_height, patch_width), (margin_y, margin_x) = shape_yx, patch_yx, margin_yx
    bottom, right = max(height, rows * patch_height), max(width, columns * patch_width)
    scale = _SKETCH_PX / max(bottom + 2 * margin_y, right + 2 * margin_x)

    def rectangle(x: float, y: float, w: float, h: float, style: str) -> str:
        place = f'x="{x * scale:.2f}" y="{y * scale:.2f}" width="{w * scale:.2f}" height="{h * scale:.2f}"'
        return f"<rect {place} {style}/>"

    parts = [rectangle(0, 0, width, height, 'fill="#8884" stroke="#888"')]
    for count, side, across in ((rows, patch_height, True), (columns, patch_width, False)):
        for place in range(0, count + 1, max(1, -(-count // _MOST_LINES))):
            at, end = place * side * scale, (columns * patch_width if across else rows * patch_height) * scale
            x1, y1, x2, y2 = (0, at, end, at) if across else (at, 0, at, end)
            parts.append(f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" stroke="#0b6bcb"/>')
    if margin_y or margin_x:
        row, column = rows // 2, columns // 2
        parts.append(
            rectangle(
                column * patch_width - margin_x,
                row * patch_height - margin_y,
                patch_width + 2 * margin_x,
                patch_height + 2 * margin_y,
                'fill="#e8590c33" stroke="#e8590c" stroke-dasharray="3 2"',
            )
        )
    left, top = -margin_x * scale - 1, -margin_y * scale - 1
    size = (right + 2 * margin_x) * scale + 2, (bottom + 2 * margin_y) * scale + 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]:.0f}" height="{size[1]:.0f}"'
        f' viewBox="{left:.2f} {top:.2f} {size[0]:.2f} {size[1]:.2f}" role="img" aria-label="grid of patches">'
        f"{''.join(parts)}</svg>"
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
