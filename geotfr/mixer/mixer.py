"""Earth Engine's mixer: the JSON that tells the grid of a set of patches, read and written exactly.

It holds the CRS, the affine transform of the un-padded grid, the patch size and the counts, and nothing else: no
kernel, no bands, no shards. geotfr adds nothing to it; what more there is to say stands in the manifest.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.errors import DamagedError, InputError
from geotfr.grid import Affine6, GeoBox
from geotfr.mixer.cards import card, grid_sketch, layout_facts
from geotfr.mixer.java_double import java_double
from geotfr.mixer.strict_json import may_be_json, parse_json, read_json

if TYPE_CHECKING:
    from geotfr.patches import PatchLayout

__all__ = ["Mixer", "is_mixer", "mixer_from_text", "read_mixer"]

_MAX_PATCHES_A_SIDE = 10**7
_MAX_PATCH_SIDE = 2**31 - 1

# Two spaces of indentation, the matrix and the dimensions on one line, no newline at the end: as EE writes it.
_TEXT = """{{
  "projection": {{
    "crs": {crs},
    "affine": {{
      "doubleMatrix": [{matrix}]
    }}
  }},
  "patchDimensions": [{patch_width}, {patch_height}],
  "patchesPerRow": {patches_per_row},
  "totalPatches": {total_patches}
}}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixer:
    """The grid of a set of patches.

    Attributes
    ----------
    crs
        ``AUTHORITY:CODE``, WKT, or the empty string.
    affine
        [xScale, xShear, xTranslation, yShear, yScale, yTranslation] of the outer upper-left corner.
    patch_xy
        (width, height) of a patch without the kernel's margins.
    patches_per_row, total_patches
        Counts; the rows are ``total_patches / patches_per_row``.

    Examples
    --------
    >>> mixer = Mixer(
    ...     crs="EPSG:32618", affine=(30.0, 0.0, 5e5, 0.0, -30.0, 4.2e6),
    ...     patch_xy=(256, 256), patches_per_row=3, total_patches=15,
    ... )
    >>> mixer_from_text(mixer.to_text()) == mixer
    True
    """

    crs: str
    affine: Affine6
    patch_xy: tuple[int, int]
    patches_per_row: int
    total_patches: int

    @staticmethod
    def for_layout(layout: PatchLayout) -> Mixer:
        """The mixer of a layout's grid."""
        return Mixer(
            crs=layout.geobox.crs,
            affine=layout.geobox.affine,
            patch_xy=(layout.patch_yx[1], layout.patch_yx[0]),
            patches_per_row=layout.columns,
            total_patches=layout.count,
        )

    @property
    def rows(self) -> int:
        """Patch rows."""
        return self.total_patches // self.patches_per_row

    @property
    def geobox(self) -> GeoBox:
        """The grid that the patches cover, without the edge that they leave out."""
        width, height = self.patch_xy
        return GeoBox(shape_yx=(self.rows * height, self.patches_per_row * width), affine=self.affine, crs=self.crs)

    def _repr_html_(self) -> str:
        patch_yx = self.patch_xy[1], self.patch_xy[0]
        facts = layout_facts(
            crs=self.crs, affine=self.affine, patch_yx=patch_yx, rows=self.rows, columns=self.patches_per_row
        )
        sketch = grid_sketch(
            shape_yx=self.geobox.shape_yx, patch_yx=patch_yx, rows=self.rows, columns=self.patches_per_row
        )
        return card("mixer", facts, sketch)

    def to_text(self) -> str:
        """The mixer's JSON, character for character as Earth Engine writes it."""
        return _TEXT.format(
            crs=json.dumps(self.crs, ensure_ascii=False),
            matrix=", ".join(map(java_double, self.affine)),
            patch_width=self.patch_xy[0],
            patch_height=self.patch_xy[1],
            patches_per_row=self.patches_per_row,
            total_patches=self.total_patches,
        )


def read_mixer(path: str | Path) -> Mixer:
    """The mixer in the file ``path``.

    Raises
    ------
    MissingInputError
        There is no such file.
    DamagedError
        It isn't JSON, lacks a part, or its numbers contradict each other.
    """
    return _from_json(read_json(path, what="mixer"), name=str(path))


def mixer_from_text(text: str, *, name: str = "mixer") -> Mixer:
    """The mixer in ``text``; ``name`` goes into errors."""
    return _from_json(parse_json(text, name=name, what="mixer"), name=name)


def is_mixer(path: str | Path) -> bool:
    """Whether ``path`` holds a mixer, by its content: users rename mixers."""
    try:
        if not may_be_json(path):
            return False
        found = read_json(path, what="mixer")
    except (DamagedError, InputError, OSError, MemoryError):
        return False
    return "patchDimensions" in found and "projection" in found


def _from_json(found: dict[str, Any], *, name: str) -> Mixer:
    def part(*keys: str) -> Any:
        value: Any = found
        for key in keys:
            if not isinstance(value, dict) or key not in value:
                raise DamagedError(
                    f"{name}: not a mixer: {'.'.join(keys)} is missing; found the keys {', '.join(found) or 'none'}"
                )
            value = value[key]
        return value

    def whole(value: Any, key: str, largest: int) -> int:
        # JavaScript clients write whole numbers as 256.0 too.
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            raise DamagedError(f"{name}: mixer: {key} is {value!r}; a whole number is expected")
        if not 1 <= value <= largest:
            raise DamagedError(f"{name}: mixer: {key} is {value}; allowed are 1 to {largest}")
        return int(value)

    crs = part("projection", "crs")
    if not isinstance(crs, str):
        raise DamagedError(f"{name}: mixer: projection.crs is {crs!r}; a text is expected")
    dimensions = part("patchDimensions")
    if not isinstance(dimensions, list) or len(dimensions) != 2:
        raise DamagedError(f"{name}: mixer: patchDimensions is {dimensions!r}; [width, height] is expected")
    width, height = (whole(side, "patchDimensions", _MAX_PATCH_SIDE) for side in dimensions)
    per_row = whole(part("patchesPerRow"), "patchesPerRow", _MAX_PATCHES_A_SIDE)
    total = whole(part("totalPatches"), "totalPatches", _MAX_PATCHES_A_SIDE * per_row)
    if total % per_row:
        raise DamagedError(
            f"{name}: mixer: totalPatches {total} is no multiple of patchesPerRow {per_row}; the rows must be whole"
        )
    return Mixer(
        crs=crs,
        affine=_affine(part("projection", "affine", "doubleMatrix"), name=name),
        patch_xy=(width, height),
        patches_per_row=per_row,
        total_patches=total,
    )


def _affine(matrix: Any, *, name: str) -> Affine6:
    is_numbers = (
        isinstance(matrix, list)
        and len(matrix) == 6
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in matrix)
    )
    if not is_numbers:
        raise DamagedError(f"{name}: mixer: doubleMatrix is {matrix!r}; six numbers are expected")
    try:
        a, b, c, d, e, f = (float(value) for value in matrix)
    except OverflowError as error:
        raise DamagedError(f"{name}: mixer: doubleMatrix holds a number beyond float64") from error
    if not all(map(math.isfinite, (a, b, c, d, e, f))) or a * e - b * d == 0:
        raise DamagedError(
            f"{name}: mixer: doubleMatrix {matrix} maps no grid; six finite numbers with a determinant other than 0"
            " are expected"
        )
    return a, b, c, d, e, f
