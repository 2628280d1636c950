"""The labels of an export: classes of shapes or of a raster, as bands beside those of the rasters."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError, UsageError
from geotfr.grid.export_grid import GridRequest
from geotfr.options.values import nearest
from geotfr.pipeline.export.object_features import object_feature_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geotfr.grid import GeoBox
    from geotfr.options import ExportOptions
    from geotfr.options.labels import LabelOptions
    from geotfr.rasters.labelled import LabelBand, LabelledSource
    from geotfr.rasters.source import RasterSource
    from geotfr.vectors.shapes import Shapes

__all__ = ["LabelShapes", "Labels", "far_warnings", "unplaced_warnings", "with_labels"]

_LIBRARY_BYTES = 112 << 20
"""pyogrio, geopandas and pyarrow loaded, as measured."""

_VERTEX_BYTES, _SHAPE_BYTES = 96, 1024
"""What a vertex and a shape take while they are read, as measured: WKB and GEOS's structures, before and after a
transformation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelShapes:
    """The shapes that are burnt, in the order in which they are.

    Attributes
    ----------
    shapes
        ``(n,) object``: shapely geometries in pixel coordinates of the grid.
    values
        ``(n,) int64``: what each is burnt as.
    numbers
        ``(n,) int64``: its row in the source, from 1.
    """

    shapes: NDArray[np.object_]
    values: NDArray[np.int64]
    numbers: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What the labels of an export are.

    Attributes
    ----------
    band
        Name of the label band.
    classes
        Class -> value, in the order of the values; of a raster empty.
    background, ignore
        See :class:`geotfr.options.labels.LabelOptions`.
    instances
        Name of the band of instances, or None.
    shapes
        What is burnt; None for a raster.
    features
        ``boxes`` or ``polygons`` where records tell them, or None.
    coco
        Whether a COCO file tells them.
    source, source_bytes
        Name and size of the file; None for a frame.
    memory_bytes
        What they take beside their pixels.
    warnings
        What a user should know, one line each.
    """

    band: str
    classes: dict[str, int]
    background: int
    ignore: int | None
    instances: str | None
    shapes: LabelShapes | None
    features: str | None
    coco: bool
    source: str | None
    source_bytes: int | None
    memory_bytes: int
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For the manifest, in JSON types."""
        return {
            "band": self.band,
            "classes": dict(self.classes),
            "background": self.background,
            "ignore": self.ignore,
            "instances": self.instances,
            **({} if self.features is None else {"features": list(object_feature_names(self.features))}),
            "source": None if self.source is None else {"name": self.source, "bytes": self.source_bytes},
        }


def with_labels(rasters: RasterSource, options: ExportOptions) -> tuple[LabelledSource, Labels]:
    """``rasters`` and the labels that ``options`` ask for.

    Raises
    ------
    InputError
        Labels that aren't there, hold no classes, or lie elsewhere.
    UsageError
        Options that don't fit the labels, or names that clash.
    """
    from geotfr.file_kinds import HEAD_BYTES, is_tiff
    from geotfr.rasters.labelled import LabelledSource

    wanted = options.labels
    if wanted is None:
        raise ValueError("no labels are asked for")
    taken = [feature.name for feature in rasters.features]
    for name in (wanted.band, wanted.instances):
        if name in taken:
            raise UsageError(f"labels: a band is called {name!r} too; name the labels with --label-name")
    path = None if wanted.path is None else _file_of(wanted.path)
    is_raster = path is not None and path.is_file() and is_tiff(_head(path, HEAD_BYTES))
    bands, labels = (_of_raster if is_raster else _of_shapes)(rasters, wanted, options)
    fills = [wanted.ignore, 0][: len(bands)]
    source = LabelledSource(rasters, bands, fills=fills, source=labels.source or "labels", warnings=labels.warnings)
    return source, labels


def _file_of(text: str) -> Path:
    from geotfr.rasters.bands import parse_source
    from geotfr.rasters.safe_open import split_page

    # A raster or vector file of this machine: an address isn't fetched.
    return Path(split_page(parse_source(text).path)[0])


def _head(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from error


def _of_raster(rasters: RasterSource, wanted: LabelOptions, options: ExportOptions) -> tuple[list[LabelBand], Labels]:
    """A band of a raster, taken by nearest where its grid is another."""
    from geotfr.rasters.labelled import LabelRaster
    from geotfr.rasters.request import SourceRequest
    from geotfr.rasters.source import open_export_source

    text = wanted.path or ""
    unfit = {
        "--label-field": wanted.field,
        "--label-priority": wanted.priority,
        "--label-all-touched": wanted.all_touched,
        "--label-instances": wanted.instances,
        "--label-layer": wanted.layer,
        "--label-where": wanted.where,
        "--label-crs": wanted.crs,
        "--label-features": wanted.features,
        "--coco": wanted.coco,
    }
    for option, value in unfit.items():
        if value:
            raise UsageError(f"{option}: {text} is a raster, which has pixels and no shapes; leave the option out")
    box = rasters.geobox
    size_xy = box.shape_yx[1], box.shape_yx[0]
    grid = GridRequest(crs=box.crs or None, crs_transform=box.affine, dimensions=size_xy)
    raster = open_export_source(
        [text],
        SourceRequest(
            grid=grid,
            allow_ungeoreferenced=options.allow_ungeoreferenced,
            allow_drivers=("GTiff", *options.allow_drivers),
        ),
    )
    if len(raster.bands) != 1:
        raise UsageError(f"--labels {text}: has {len(raster.bands)} bands; name one, as {text}:1")
    dtype = raster.bands[0].dtype
    if dtype.kind not in "iu":
        raise InputError(f"--labels {text}: holds {dtype}; classes are whole numbers")
    limits = np.iinfo(str(dtype))
    empty = wanted.background if wanted.ignore is None else wanted.ignore
    if not limits.min <= empty <= limits.max:
        raise UsageError(f"--labels {text}: {dtype} doesn't hold {empty}, which pixels without a label get")
    file = raster.sources[0]
    labels = Labels(
        band=wanted.band,
        classes=dict(wanted.classes or ()),
        background=wanted.background,
        ignore=wanted.ignore,
        instances=None,
        shapes=None,
        features=None,
        coco=False,
        source=file.name,
        source_bytes=file.size_bytes,
        memory_bytes=raster.block_bytes,
        warnings=raster.warnings,
    )
    return [LabelRaster(wanted.band, raster, background=empty)], labels


def _of_shapes(rasters: RasterSource, wanted: LabelOptions, options: ExportOptions) -> tuple[list[LabelBand], Labels]:
    """Shapes, burnt."""
    from geotfr.rasters.burn import BurntBand, burnt_dtype, cut_to_reach, in_pixels
    from geotfr.vectors.shapes import read_shapes
    from geotfr.vectors.source import TableRequest

    for option, value in (("--coco", wanted.coco), ("--label-features", wanted.features)):
        if value and options.sequence_data:
            raise UsageError(f"{option}: a record of sequence_data is a pixel, not an image; leave one of them out")
    found = read_shapes(
        wanted.source,
        TableRequest(
            layer=wanted.layer,
            where=wanted.where,
            crs=wanted.crs,
            layer_option="--label-layer",
            allow_drivers=options.allow_drivers,
        ),
        crs=rasters.geobox.crs,
        field=wanted.field,
        crs_option="--label-crs",
    )
    values = _values(found, wanted)
    chosen, warnings = _chosen(found, values, wanted)
    places, is_cut = cut_to_reach(in_pixels(found.shapes[chosen], rasters.geobox), rasters.geobox.shape_yx)
    inside = _on_grid(places, rasters.geobox)
    warnings += far_warnings(found.name, places, is_cut & inside)
    if not inside.any():
        if not wanted.allow_empty:
            has_class = np.array([value is not None for value in (*values, None)])[found.codes].any()
            raise InputError(_nothing_there(found, rasters.geobox) if has_class else _no_class(found, wanted))
        warnings.append(f"{found.name}: none of its shapes lies on the export's grid; all of it is background")
    codes = found.codes[chosen][inside]
    burnt = np.array([wanted.ignore if value is None else value for value in (*values, None)], object)[codes]
    order = np.argsort(_ranks(found, wanted)[codes], kind="stable")
    shapes = LabelShapes(
        shapes=places[inside][order],
        values=burnt[order].astype(np.int64),
        numbers=(np.flatnonzero(chosen)[inside] + 1)[order],
    )
    known = [value for value in (wanted.background, wanted.ignore, *values) if value is not None]
    bands: list[LabelBand] = [
        BurntBand(
            wanted.band,
            shapes.shapes,
            shapes.values,
            background=wanted.background,
            dtype=burnt_dtype(known),
            all_touched=wanted.all_touched,
        )
    ]
    if wanted.instances is not None:
        bands.append(
            BurntBand(
                wanted.instances,
                shapes.shapes,
                shapes.numbers,
                background=0,
                dtype=burnt_dtype([0, len(found)]),
                all_touched=wanted.all_touched,
            )
        )
    pairs = [(class_text(name), value) for name, value in zip(found.distinct, values, strict=True) if value is not None]
    labels = Labels(
        band=wanted.band,
        classes=dict(sorted({**dict(wanted.classes or ()), **dict(pairs)}.items(), key=lambda pair: pair[1])),
        background=wanted.background,
        ignore=wanted.ignore,
        instances=wanted.instances,
        shapes=shapes,
        features=wanted.features,
        coco=wanted.coco,
        source=None if wanted.path is None else PurePath(wanted.path).name,
        source_bytes=None if wanted.path is None else os.stat(wanted.path).st_size,  # noqa: PTH116
        memory_bytes=_memory_bytes(shapes),
        warnings=tuple(warnings),
    )
    return bands, labels


def unplaced_warnings(found: Shapes) -> list[str]:
    """What is told of how shapes are read, and of those that have no place on any grid of the CRS."""
    warnings = list(found.warnings)
    if found.infinite:
        warnings.append(f"{found.name}: {found.infinite:,} shapes have a vertex that isn't a finite number; left out")
    if found.unplaced:
        warnings.append(f"{found.name}: {found.unplaced:,} shapes lie beyond what the grid's CRS can hold; left out")
    return warnings


def far_warnings(name: str, places: NDArray[np.object_], is_cut: NDArray[np.bool_]) -> list[str]:
    """What is told of shapes that reach far beyond the grid, see :func:`geotfr.rasters.burn.cut_to_reach`."""
    import shapely

    from geotfr.rasters.burn import REACH_PX

    found = []
    lost = int(np.count_nonzero(shapely.is_missing(places)))
    if lost:
        found.append(f"{name}: {lost:,} shapes have a vertex too far from the grid to be placed; left out")
    cut = int(np.count_nonzero(is_cut))
    if cut:
        found.append(f"{name}: {cut:,} shapes reach more than {REACH_PX:,} pixels beyond the grid; cut off there")
    return found


def class_text(value: bool | float | str | None) -> str:
    """A class as options name it.

    >>> class_text(3.0), class_text(True), class_text("water"), class_text(None)
    ('3', 'true', 'water', 'label')
    """
    if value is None:
        return "label"
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _values(found: Shapes, wanted: LabelOptions) -> list[int | None]:
    """What each of the distinct classes is burnt as; None for a class that isn't wanted."""
    if wanted.field is None:
        return [1]
    names = [class_text(value) for value in found.distinct]
    for name in wanted.priority:
        if name not in names:
            raise UsageError(
                f"--label-priority: {found.name} has no class {name!r}{nearest(name, names)}; it has {_listed(names)}"
            )
    if wanted.classes is not None:
        table = dict(wanted.classes)
        if not any(name in table for name in names):
            raise UsageError(
                f"--label-classes: {found.name} has none of {_listed(list(table))}; column {wanted.field!r} has"
                f" {_listed(names)}"
            )
        return [table.get(name) for name in names]
    if all(isinstance(value, str) for value in found.distinct):
        numbers = list(range(1, len(names) + 1))
        for option, value in (("--label-background", wanted.background), ("--label-ignore", wanted.ignore)):
            if value in numbers:
                raise UsageError(
                    f"{option} {value}: that is class {names[value - 1]!r}, as classes get 1 to {len(names)}; give"
                    " another, or number them with --label-classes"
                )
        return list(numbers)
    return [_number(value, found, wanted) for value in found.distinct]


def _number(value: Any, found: Shapes, wanted: LabelOptions) -> int:
    if value != int(value) or not -(2**31) <= value < 2**32:
        raise InputError(
            f"{found.name}: column {wanted.field!r} holds {value}; classes are whole numbers of up to 32 bits, or text:"
            " number them with --label-classes"
        )
    return int(value)


def _chosen(found: Shapes, values: Sequence[int | None], wanted: LabelOptions) -> tuple[NDArray[np.bool_], list[str]]:
    """Which shapes are burnt, and what is told of the others."""
    import shapely

    there = ~shapely.is_missing(found.shapes)
    has_value = np.array([value is not None for value in (*values, None)])[found.codes]
    warnings = unplaced_warnings(found)
    missing = int((~there).sum()) - found.unplaced - found.infinite
    if missing:
        warnings.append(f"{found.name}: {missing:,} rows have no geometry; left out")
    unknown = int((there & ~has_value).sum())
    if unknown:
        what = "left out; --label-ignore marks them"
        if wanted.ignore is not None:
            what = f"burnt as {wanted.ignore}" + (", and no objects" if wanted.coco or wanted.features else "")
        warnings.append(f"{found.name}: {unknown:,} shapes have no class, or none that is wanted; {what}")
    return there if wanted.ignore is not None else there & has_value, warnings


def _ranks(found: Shapes, wanted: LabelOptions) -> NDArray[np.int64]:
    """How late each distinct class is burnt; the last place is that of shapes without a class."""
    rank = {name: len(wanted.priority) - place for place, name in enumerate(wanted.priority)}
    return np.array([*(rank.get(class_text(value), 0) for value in found.distinct), 0], np.int64)


def _on_grid(places: NDArray[np.object_], geobox: GeoBox) -> NDArray[np.bool_]:
    import shapely

    if not len(places):
        return np.zeros(0, np.bool_)
    left, top, right, bottom = shapely.bounds(places).T
    rows, cols = geobox.shape_yx
    return np.asarray((right >= 0) & (left <= cols) & (bottom >= 0) & (top <= rows))


def _no_class(found: Shapes, wanted: LabelOptions) -> str:
    return (
        f"{found.name}: none of its {len(found):,} shapes has a class that is wanted"
        + (f" in column {wanted.field!r}" if wanted.field else "")
        + "; check --label-field, --label-classes and --label-where, or take all as background (--label-allow-empty)"
    )


def _nothing_there(found: Shapes, geobox: GeoBox) -> str:
    west, south, east, north = geobox.bounds()
    return (
        f"{found.name}: none of its {len(found):,} shapes lies on the export's grid"
        f" ({west:g} {south:g} to {east:g} {north:g} in {geobox.crs[:40] or 'no CRS'}); check its CRS (--label-crs) and"
        " --label-where, or take it as background (--label-allow-empty)"
    )


def _memory_bytes(shapes: LabelShapes) -> int:
    """What the libraries, the shapes and their indexes take."""
    import shapely

    vertices = int(shapely.get_num_coordinates(shapes.shapes).sum())
    return _LIBRARY_BYTES + vertices * _VERTEX_BYTES + len(shapes.shapes) * _SHAPE_BYTES


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "") if names else "none"
