"""Draw the figures of the explanations, from geotfr's own layout and values.

    python docs/_build/figures.py

writes ``docs/images/*.svg``. They are checked in; a test holds that they are what this draws.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

import geotfr
from geotfr.grid import GeoBox
from geotfr.patches.blend import axis_weights
from geotfr.patches.layout import PatchLayout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

IMAGES = Path(__file__).resolve().parents[1] / "images"
FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"
INK, PALE, RASTER, PATCH, BLOCK, MASKED = "#23302e", "#8a9a97", "#dcebe7", "#0f766e", "#d97706", "#b9c1c0"
FILL = 9
CELL_PX = 30

BoxXY: TypeAlias = tuple[float, float, float, float]
"""x, y, width and height."""


def figures() -> dict[str, str]:
    """File name -> SVG, of all figures."""
    return {"grid.svg": grid(), "margins.svg": margins(), "masks.svg": masks(), "tensors.svg": tensors(), "weights.svg": weights()}


def grid() -> str:
    """600 x 600 pixels in patches of 256: four patches, and what is left out."""
    layout = layout_of(600, 600, patch=256)
    zoom, left, top = 0.42, 24, 44
    parts = [
        text(left, 26, "600 x 600 pixels, --patch-dimensions 256: 2 x 2 patches", size=15),
        rect((left, top, 600 * zoom, 600 * zoom), fill="url(#left-out)", stroke=PALE),
    ]
    for number in range(layout.count):
        x, y = left + number % 2 * 256 * zoom, top + number // 2 * 256 * zoom
        parts += [
            rect((x, y, 256 * zoom, 256 * zoom), fill=RASTER, stroke=PATCH, width=2),
            text(x + 128 * zoom, y + 128 * zoom + 8, str(number), size=22, anchor="middle", fill=PATCH),
        ]
    x = left + 600 * zoom + 24
    rows, cols = layout.left_out_yx
    notes = [
        "Patches tile from the upper-left corner,",
        "numbered row by row from 0.",
        "",
        f"Left out: {cols} columns at the right and",
        f"{rows} rows at the bottom, 27.2% of the pixels.",
        "",
        "--edge pad covers them with 3 x 3 patches,",
        "what lies beyond the raster masked.",
    ]
    parts += [text(x, top + 30 + 20 * line, note) for line, note in enumerate(notes)]
    return svg(620, 320, parts)


def margins() -> str:
    """Two neighbours with their margins: overlap inside, masked pixels outside."""
    layout = layout_of(768, 512, patch=256, kernel=128)
    zoom, left, top = 0.4, 60, 76
    margin, block = layout.margin_yx[0], layout.block_yx[0]
    parts = [
        text(20, 26, "--patch-dimensions 256 --kernel-size 128: margins of 64, blocks of 384 x 384", size=15),
        rect((left, top, 768 * zoom, 512 * zoom), fill=RASTER, stroke=PALE),
        text(left + 768 * zoom - 6, top + 512 * zoom - 8, "raster", anchor="end", fill=PALE),
    ]
    for column, colour in ((0, BLOCK), (1, "#2563eb")):
        x, y = left + (column * 256 - margin) * zoom, top - margin * zoom
        parts.append(rect((x, y, block * zoom, block * zoom), fill=colour, opacity=0.18, stroke=colour, width=2))
    # What of the blocks lies outside the raster: a strip above, and one at the left.
    x, y, side = left - margin * zoom, top - margin * zoom, margin * zoom
    parts += [
        rect((x, y, (block + 256) * zoom, side), fill="url(#left-out)", opacity=0.7),
        rect((x, y + side, side, (block - margin) * zoom), fill="url(#left-out)", opacity=0.7),
    ]
    for column in (0, 1):
        x = left + column * 256 * zoom
        parts += [
            rect((x, top, 256 * zoom, 256 * zoom), fill="none", stroke=PATCH, width=2, dash=True),
            text(x + (92 + 72 * column) * zoom, top + 138 * zoom, f"patch {column}", anchor="middle", fill=PATCH),
        ]
    x = left + 768 * zoom + 30
    notes = [
        (PATCH, "dashed: the patch, what is kept of a prediction"),
        (BLOCK, "orange: the block of patch 0, what its record holds"),
        ("#2563eb", "blue: the block of patch 1"),
        (INK, "Both hold the overlap, with the same real pixels."),
        (INK, "Hatched: outside the raster, masked, --default-value."),
    ]
    parts += [text(x, top + 20 + 24 * line, note, fill=colour) for line, (colour, note) in enumerate(notes)]
    return svg(760, 310, parts)


def masks() -> str:
    """Two bands with masks that differ, exported in both mask modes: the values are read back from the records."""
    data = np.array([[[1, 2, 3], [4, 5, 6]], [[11, 12, 13], [14, 15, 16]]], np.float32)
    source = data.copy()
    source[0, 0, 1] = source[1, 1, 2] = np.nan
    pixel, band = exported(source, "pixel"), exported(source, "band")
    parts = [text(20, 26, "Band A lacks one pixel, band B another; --default-value 9", size=15)]
    columns = (
        ("source", source, "- is masked"),
        ("--mask-mode pixel", pixel, "each masked pixel in all"),
        ("--mask-mode band", band, "each band its own"),
    )
    for column, (title, values, note) in enumerate(columns):
        x = 50 + column * 190
        parts.append(text(x, 60, title, fill=PATCH))
        for number, name in enumerate("AB"):
            y = 76 + number * 80
            parts += [text(x - 20, y + 36, name, fill=PALE), *table(x, y, values[number], marked=FILL)]
        parts.append(text(x, 252, note, fill=PALE, size=12))
    return svg(620, 270, parts)


def tensors() -> str:
    """What the list of a feature holds: a scalar band, an array band, and all bands collapsed."""
    parts = [text(20, 26, "A list is flat; this is its order, from 0", size=15)]
    columns = (
        ("scalar band", "[row, col]", 1),
        ("array band, depth 3", "[depth, row, col]", 3),
        ("collapsed, 2 bands", "[band, row, col]", 2),
    )
    for column, (title, shape, depth) in enumerate(columns):
        x = 40 + column * 210
        parts += [text(x, 58, title, fill=PATCH), text(x, 78, shape, fill=PALE)]
        for plane in reversed(range(depth)):
            values = np.arange(plane * 6, plane * 6 + 6, dtype=np.float32).reshape(2, 3)
            parts += list(table(x + plane * 22, 92 + plane * 70, values))
    return svg(660, 320, parts)


def weights() -> str:
    """What the predictions of three neighbours weigh along a row: patch 64, margins of 16."""
    patch, margin, zoom, high = 64, 16, 3.0, 70
    side = patch + 2 * margin
    parts = [text(20, 26, "Weights along a row: three patches of 64, margins of 16", size=15)]
    for number, overlap in enumerate(("crop", "average", "linear", "cosine", "gaussian")):
        x, y = 130, 60 + number * (high + 24)
        parts.append(text(20, y + high / 2 + 5, overlap, fill=PATCH))
        alone = np.zeros((3, 3 * patch + 2 * margin))
        for block in range(3):
            reach = slice(block * patch + margin, (block + 1) * patch + margin)
            if overlap == "crop":
                alone[block, reach] = 1
            else:
                alone[block, block * patch : block * patch + side] = axis_weights(overlap, patch, margin)
        shares = alone[:, margin:-margin] / alone[:, margin:-margin].sum(axis=0)
        for share, colour in zip(shares, (BLOCK, "#2563eb", PATCH), strict=True):
            points = " ".join(f"{x + (at + 0.5) * zoom:g},{y + high - high * w:.1f}" for at, w in enumerate(share))
            parts.append(f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='2'/>")
        for border in range(4):
            at = x + border * patch * zoom
            parts.append(f"<line x1='{at:g}' x2='{at:g}' y1='{y}' y2='{y + high}' stroke='{MASKED}'/>")
        parts.append(text(x - 8, y + 8, "1", anchor="end", fill=PALE, size=11))
        parts.append(text(x - 8, y + high, "0", anchor="end", fill=PALE, size=11))
    return svg(740, 60 + 5 * (high + 24) + 4, parts)


def layout_of(width: int, height: int, *, patch: int, kernel: int = 1) -> PatchLayout:
    """The layout of a raster of ``width`` x ``height`` pixels."""
    box = GeoBox(shape_yx=(height, width), affine=(10.0, 0.0, 0.0, 0.0, -10.0, 0.0), crs="")
    return PatchLayout(geobox=box, patch_yx=(patch, patch), kernel_yx=(kernel, kernel))


def exported(source: NDArray[np.float32], mask_mode: str) -> NDArray[np.float32]:
    """(band, row, col) as an export writes it."""
    rows, cols = source.shape[1:]
    with tempfile.TemporaryDirectory() as folder:
        done = geotfr.export_image(
            (source, (10.0, 0.0, 0.0, 0.0, -10.0, 0.0), "EPSG:32633"),
            f"{folder}/",
            patch_dimensions=(cols, rows),
            default_value=FILL,
            mask_mode=mask_mode,
        )
        features = geotfr.patch_features(["b1", "b2"], patch_xy=(cols, rows))
        bands = geotfr.parse_single_example(next(iter(geotfr.read_records(done.shards))), features)
        return np.stack([np.asarray(bands["b1"]), np.asarray(bands["b2"])])


def table(x: float, y: float, values: NDArray[np.float32], *, marked: float | None = None) -> Iterator[str]:
    """A cell for each of ``values`` (row, col); NaN as a masked cell, ``marked`` in the colour of blocks."""
    for (row, col), value in np.ndenumerate(values):
        is_masked, is_fill = bool(np.isnan(value)), value == marked
        cell = (x + col * CELL_PX, y + row * CELL_PX, CELL_PX, CELL_PX)
        yield rect(cell, fill=MASKED if is_masked else "#fdecc8" if is_fill else "#ffffff", stroke=PALE)
        shown = "-" if is_masked else f"{value:g}"
        yield text(cell[0] + CELL_PX / 2, cell[1] + 20, shown, anchor="middle")


def rect(
    box: BoxXY, *, fill: str, stroke: str = "none", width: float = 1, opacity: float = 1, dash: bool = False
) -> str:
    """A rectangle."""
    x, y, across, down = box
    dashed = " stroke-dasharray='6 4'" if dash else ""
    return (
        f"<rect x='{x:g}' y='{y:g}' width='{across:g}' height='{down:g}' fill='{fill}' fill-opacity='{opacity:g}'"
        f" stroke='{stroke}' stroke-width='{width:g}'{dashed}/>"
    )


def text(x: float, y: float, words: str, *, size: int = 13, anchor: str = "start", fill: str = INK) -> str:
    """A line of words."""
    return f"<text x='{x:g}' y='{y:g}' font-size='{size}' text-anchor='{anchor}' fill='{fill}' {FONT}>{words}</text>"


def svg(width: int, height: int, parts: Sequence[str]) -> str:
    """The file, on white, so that it reads on dark pages too."""
    hatch = (
        "<defs><pattern id='left-out' width='8' height='8' patternUnits='userSpaceOnUse'"
        " patternTransform='rotate(45)'>"
        f"<rect width='8' height='8' fill='#f4f6f5'/><rect width='3' height='8' fill='{MASKED}'/></pattern></defs>"
    )
    ground = f"<rect width='{width}' height='{height}' rx='6' fill='#ffffff'/>"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}'>"
    return "\n".join([head, hatch, ground, *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    for name, drawn in figures().items():
        (IMAGES / name).write_text(drawn, encoding="utf-8")
