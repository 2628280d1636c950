"""The shapes in each patch as features of its record: boxes, classes, outlines.

Boxes and classes have the names and units that TensorFlow's object detection reads: one value for each object, boxes
as shares of the block's width and height. Outlines are rings in pixels of the block.

**Source**: ``tf_example_decoder.py`` of TensorFlow's Object Detection API, for the names under ``image/``; those of
the outlines are geotfr's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.pipeline.export.block_shapes import BlockShapes
from geotfr.records.kind import Kind
from geotfr.records.varints import pack_varints, varint
from geotfr.records.varying import ListColumn, list_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from geotfr.patches import PatchLayout
    from geotfr.pipeline.export.block_shapes import CutShapes
    from geotfr.pipeline.export.labels import LabelShapes

__all__ = ["ObjectFeatures", "object_feature_names"]

_BOXES = tuple(f"image/object/bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax"))
_LABEL, _TEXT = "image/object/class/label", "image/object/class/text"
_INSTANCE = "image/object/instance"
_SIZES = ("image/height", "image/width")
_XY, _POINTS, _OBJECT, _HOLE = (f"image/object/polygon/{part}" for part in ("xy", "points", "object", "hole"))

_PATCHES_AT_ONCE = 1 << 12
# Four floats, two varints (negative ones take ten bytes); of a vertex x and y, and as much as three small varints.
_OBJECT_BYTES, _VERTEX_BYTES = 4 * 4 + 2 * 10, 2 * 4 + 3 * 3
# An edge is cut at most twice, and a block has four corners.
_VERTICES_OF_VERTEX, _VERTICES_OF_SHAPE = 3, 8
_HEAD_BYTES = 32


def object_feature_names(kind: str) -> tuple[str, ...]:
    """The features of ``boxes`` or ``polygons``, in the order in which records hold them."""
    names = (*_SIZES, *_BOXES, _LABEL, _TEXT, _INSTANCE)
    return (*names, _XY, _POINTS, _OBJECT, _HOLE) if kind == "polygons" else names


class ObjectFeatures:
    """Makes the features of the objects in some patches; safe in several threads.

    Parameters
    ----------
    layout
        The patches.
    shapes
        What lies in them.
    classes
        Class -> value.
    ignore
        Shapes of this value have no class: they are left out.
    kind
        ``boxes`` or ``polygons``.

    Attributes
    ----------
    names
        The features, in order.
    most_bytes
        What they take at most in a record.
    """

    def __init__(
        self, layout: PatchLayout, shapes: LabelShapes, classes: Mapping[str, int], *, ignore: int | None, kind: str
    ) -> None:
        self.names = object_feature_names(kind)
        self._layout = layout
        self._kind = kind
        self._labels, self._numbers = shapes.values, shapes.numbers
        self._is_wanted = np.ones(len(shapes.values), np.bool_) if ignore is None else shapes.values != ignore
        texts: dict[int, bytes] = {}
        for name, value in classes.items():
            text = name.encode()
            texts.setdefault(value, b"\x0a" + varint(len(text)) + text)
        self._texts = texts
        self._blocks = BlockShapes(layout, shapes)
        self.most_bytes = self._most_bytes(shapes)

    def columns(self, numbers: NDArray[np.int64]) -> list[ListColumn]:
        """The features of the records of the patches ``numbers``."""
        found = self._blocks.cut(numbers).only(self._is_wanted)
        height, width = self._layout.block_yx
        count = len(numbers)
        sides = np.clip(found.bounds() / (width, height, width, height), 0.0, 1.0)
        labels = self._labels[found.places]
        sizes = [
            _whole(name, np.full(count, side), np.arange(count), count)
            for name, side in zip(_SIZES, (height, width), strict=True)
        ]
        columns = [
            *sizes,
            *(_floats(name, sides[:, place], found.blocks, count) for place, name in enumerate(_BOXES)),
            _whole(_LABEL, labels, found.blocks, count),
            self._text(labels, found.blocks, count),
            _whole(_INSTANCE, self._numbers[found.places], found.blocks, count),
        ]
        return [*columns, *_outlines(found, count)] if self._kind == "polygons" else columns

    def _text(self, labels: NDArray[np.int64], blocks: NDArray[np.int64], count: int) -> ListColumn:
        """The names of the classes: a list of values, each with its tag and length."""
        values = [self._texts.get(label, b"\x0a\x00") for label in labels.tolist()]
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        data = np.frombuffer(b"".join(values), np.uint8)
        return list_column(_TEXT, Kind.BYTES, data, _summed(lengths, blocks, count), holds_fields=True)

    def _most_bytes(self, shapes: LabelShapes) -> int:
        """Over all patches, the most that the shapes near one can take."""
        import shapely

        each = np.full(len(shapes.shapes), _OBJECT_BYTES + max(map(len, self._texts.values()), default=0), np.int64)
        if self._kind == "polygons":
            vertices = _VERTICES_OF_VERTEX * shapely.get_num_coordinates(shapes.shapes) + _VERTICES_OF_SHAPE
            each += vertices * _VERTEX_BYTES
        most = 0
        for start in range(0, self._layout.count, _PATCHES_AT_ONCE):
            some = np.arange(start, min(start + _PATCHES_AT_ONCE, self._layout.count))
            block, shape = self._blocks.near(some)
            most = max(most, int(_summed(each[shape], block, len(some)).max(initial=0)))
        return most + sum(len(name) + _HEAD_BYTES for name in self.names)


def _outlines(found: CutShapes, count: int) -> list[ListColumn]:
    """The rings of all areas: their points, how many, whose they are, and whether they are holes."""
    import shapely

    # Collections may hold several areas each.
    some, owner = shapely.get_parts(found.shapes, return_index=True)
    parts, inner = shapely.get_parts(some, return_index=True)
    owner = owner[inner]
    is_area = shapely.get_type_id(parts) == shapely.GeometryType.POLYGON
    parts, owner = parts[is_area], owner[is_area]
    rings, part = shapely.get_rings(parts, return_index=True)
    owner = owner[part].astype(np.int64)
    points = shapely.get_num_coordinates(rings).astype(np.int64)
    xy = shapely.get_coordinates(rings) - np.repeat(found.origins[owner], points, axis=0)
    is_hole = np.diff(part, prepend=-1) == 0
    block = found.blocks[owner]
    # Objects are counted from the first one of their block.
    first = np.searchsorted(found.blocks, block)
    return [
        _floats(_XY, xy.reshape(-1), np.repeat(block, 2 * points), count),
        _whole(_POINTS, points, block, count),
        _whole(_OBJECT, owner - first, block, count),
        _whole(_HOLE, is_hole.astype(np.int64), block, count),
    ]


def _floats(name: str, values: NDArray[np.float64], blocks: NDArray[np.int64], count: int) -> ListColumn:
    data = values.astype("<f4").view(np.uint8)
    return list_column(name, Kind.FLOAT, data, 4 * np.bincount(blocks, minlength=count))


def _whole(name: str, values: NDArray[Any], blocks: NDArray[np.int64], count: int) -> ListColumn:
    data, lengths = pack_varints(values.astype(np.int64)[:, np.newaxis])
    return list_column(name, Kind.INT64, data, _summed(lengths, blocks, count))


def _summed(values: NDArray[np.int64], blocks: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The sum of the values of each block; exact below 2^53."""
    return np.bincount(blocks, weights=values, minlength=count).astype(np.int64)
