"""What numbers and places say of the patches, before a pixel is read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import GeotfrError, InputError, UsageError
from geotfr.options.values import nearest
from geotfr.pipeline.export.choose import ClassBand, PatchChoice
from geotfr.pipeline.export.labels import far_warnings, unplaced_warnings
from geotfr.regular_files import open_input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.options import ExportOptions
    from geotfr.options.choice import ChoiceOptions
    from geotfr.patches import PatchLayout
    from geotfr.pipeline.export.labels import Labels
    from geotfr.rasters.stack import SourceFeature

__all__ = ["patch_choice"]

EDGE_PX = 1e-6
"""How far a patch may reach over an edge that it meets: what coordinates lose on their way through a CRS."""

_MOST_TEXT_BYTES = 1 << 28


def patch_choice(
    layout: PatchLayout, options: ExportOptions, features: Sequence[SourceFeature], labels: Labels | None
) -> PatchChoice:
    """Which patches ``options`` want, as far as that is known without pixels.

    Raises
    ------
    MissingInputError, InputError
        A file that isn't there, holds no numbers or places, or numbers of patches that there aren't.
    UsageError
        A band or class that isn't there.
    """
    wanted = options.choice
    given: NDArray[np.bool_] | None = None
    columns: dict[str, NDArray[np.int64]] = {}
    warnings: list[str] = []
    if wanted is not None and wanted.keep is not None:
        given = _kept(layout, wanted, columns, options.allow_drivers, warnings)
    if wanted is not None and wanted.within is not None:
        inside = _lying_in(layout, wanted.within, options.allow_drivers, warnings, option="--within", whole=True)
        given = inside if given is None else given & inside
    return PatchChoice(
        layout,
        options.masked_threshold,
        wanted,
        classes=_class_band(wanted, features, labels),
        given=given,
        columns=columns,
        warnings=tuple(warnings),
    )


def _class_band(
    wanted: ChoiceOptions | None, features: Sequence[SourceFeature], labels: Labels | None
) -> ClassBand | None:
    if wanted is None or (wanted.class_band is None and labels is None):
        return None
    name = wanted.class_band or (labels.band if labels is not None else "")
    by_name = {feature.name: feature for feature in features}
    if name not in by_name:
        raise UsageError(f"--class-band: no band {name!r}{nearest(name, by_name)}; there are {', '.join(by_name)}")
    if by_name[name].is_array:
        raise UsageError(f"--class-band: {name!r} is an array band; classes are values of a scalar band")
    classes = labels.classes if labels is not None and labels.band == name else {}
    return ClassBand(name=name, plane=by_name[name].planes[0], classes=classes)


def _kept(
    layout: PatchLayout,
    wanted: ChoiceOptions,
    columns: dict[str, NDArray[np.int64]],
    allow_drivers: tuple[str, ...],
    warnings: list[str],
) -> NDArray[np.bool_]:
    """What ``keep`` names: numbers, or the patches whose centre lies in a footprint."""
    keep = wanted.keep
    if isinstance(keep, tuple):
        return _numbered(layout, np.array(keep, np.int64), "--keep")
    if isinstance(keep, str | os.PathLike) and Path(keep).suffix.lower() == ".txt":
        return _numbered(layout, _numbers_of_text(Path(keep)), str(keep))
    from geotfr.vectors.patch_numbers import NUMBER, read_patch_numbers
    from geotfr.vectors.source import TableRequest, open_table

    table = open_table(keep, TableRequest(layer_option="", allow_drivers=allow_drivers))
    if NUMBER in table.columns:
        numbers, codes = read_patch_numbers(table, wanted.column)
        found = _numbered(layout, numbers, table.name)
        if codes is not None and wanted.column is not None:
            columns[wanted.column] = np.full(layout.count, -1, np.int64)
            columns[wanted.column][numbers] = codes
        return found
    if table.has_geometry:
        return _lying_in(layout, keep, allow_drivers, warnings, option="--keep", whole=False)
    raise InputError(
        f"{table.name}: has neither a column {NUMBER!r} nor footprints; there are {', '.join(table.columns)}"
    )


def _numbers_of_text(path: Path) -> NDArray[np.int64]:
    try:
        with open_input(path, wanted="numbers of patches") as file:
            found = file.read(_MOST_TEXT_BYTES + 1)
        if len(found) > _MOST_TEXT_BYTES:
            raise InputError(f"{path}: more than {_MOST_TEXT_BYTES:,} bytes are too many for numbers of patches")
        text = found.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, GeotfrError):
            raise
        raise InputError(f"{path}: can't be read as text: {error}") from error
    numbers = []
    for line, words in enumerate(text.splitlines(), start=1):
        for word in re.split(r"[\s,;]+", words.partition("#")[0].strip()):
            if word and not re.fullmatch(r"[0-9]{1,15}", word):
                raise InputError(f"{path}: line {line}: {word[:40]!r} is no patch's number; give whole numbers from 0")
            if word:
                numbers.append(int(word))
    return np.array(numbers, np.int64)


def _numbered(layout: PatchLayout, numbers: NDArray[np.int64], name: str) -> NDArray[np.bool_]:
    beyond = numbers[(numbers < 0) | (numbers >= layout.count)]
    if len(beyond):
        raise InputError(
            f"{name}: there is no patch {int(beyond[0])}: the grid has {layout.count:,}, numbered from 0; give those of"
            " the same grid and patch size"
        )
    found = np.zeros(layout.count, np.bool_)
    found[numbers] = True
    return found


def _lying_in(
    layout: PatchLayout, source: Any, allow_drivers: tuple[str, ...], warnings: list[str], *, option: str, whole: bool
) -> NDArray[np.bool_]:
    """``(patch,) bool``: the patches that lie wholly in the shapes of ``source``, or whose centre does.

    What is told of shapes that are left out is added to ``warnings``.
    """
    import shapely

    from geotfr.rasters.burn import cut_to_reach, in_pixels
    from geotfr.vectors.shapes import read_shapes
    from geotfr.vectors.source import TableRequest

    found = read_shapes(
        source,
        TableRequest(layer_option="", allow_drivers=allow_drivers),
        crs=layout.geobox.crs,
        field=None,
        crs_option="a CRS in the file",
    )
    there = found.shapes[~shapely.is_missing(found.shapes)]
    shapes, is_cut = cut_to_reach(in_pixels(there, layout.geobox), layout.geobox.shape_yx)
    warnings += [*unplaced_warnings(found), *far_warnings(found.name, shapes, is_cut)]
    shapes = shapes[~(shapely.is_missing(shapes) | shapely.is_empty(shapes))]
    if not (shapely.get_dimensions(shapes) == 2).all() or not len(shapes):
        raise InputError(f"{found.name}: {option} needs polygons")
    area = shapely.union_all(shapely.make_valid(shapes))
    shapely.prepare(area)
    height, width = layout.patch_yx
    left, ones = np.arange(layout.columns) * float(width), np.ones(layout.columns)
    inside = np.empty((layout.rows, layout.columns), np.bool_)
    for row in range(layout.rows):
        top = row * height
        if whole:
            low, high = ones * (top + EDGE_PX), ones * (top + height - EDGE_PX)
            inside[row] = shapely.covers(area, shapely.box(left + EDGE_PX, low, left + width - EDGE_PX, high))
        else:
            inside[row] = shapely.intersects(area, shapely.points(left + width / 2, ones * (top + height / 2)))
    return inside.ravel()
