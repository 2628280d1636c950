"""The shapes in each patch as a COCO file: boxes and outlines in pixels of the records' blocks.

**Source**: the format of the Common Objects in Context data set: images, annotations and categories.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.mixer.coco_files import COCO_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from geotfr.mixer import Manifest
    from geotfr.patches import PatchLayout
    from geotfr.pipeline.export.labels import Labels, LabelShapes
    from geotfr.storage import AtomicFile, OutputSet

__all__ = ["write_coco"]

PATCHES_AT_ONCE = 1 << 12
DIGITS = 4
"""Of coordinates in pixels."""


def write_coco(outputs: OutputSet, layout: PatchLayout, manifest: Manifest, labels: Labels) -> AtomicFile:
    """A finished COCO file of the set: its images are the patches that ``manifest`` lists, in their order."""
    if labels.shapes is None:
        raise ValueError("labels of a raster have no shapes")
    is_written = np.ones(layout.count, np.bool_)
    is_written[list(manifest.patches_dropped)] = False
    numbers = np.flatnonzero(is_written)
    file = outputs.create()
    head = {"grid": {"crs": layout.geobox.crs, "transform": list(layout.geobox.affine)}}
    file.write(f'{COCO_HEAD}", {json.dumps(head)[1:]},\n'.encode())
    categories = [{"id": value, "name": name} for name, value in labels.classes.items()]
    file.write(f'"categories": {json.dumps(categories, ensure_ascii=False)},\n'.encode())
    _write_list(file, "images", _images(layout, manifest, numbers))
    file.write(b",\n")
    _write_list(file, "annotations", _annotations(layout, numbers, labels.shapes))
    file.write(b"}\n")
    file.finish()
    return file


def _write_list(file: AtomicFile, key: str, items: Iterator[dict[str, Any]]) -> None:
    file.write(f'"{key}": ['.encode())
    separator = "\n"
    for item in items:
        file.write(f"{separator}{json.dumps(item, ensure_ascii=False)}".encode())
        separator = ",\n"
    file.write(b"\n]")


def _images(layout: PatchLayout, manifest: Manifest, numbers: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
    places = ((shard.name, record) for shard in manifest.shards for record in range(shard.records))
    height, width = layout.block_yx
    for number, (name, record) in zip(numbers.tolist(), places, strict=True):
        yield {"id": number, "file_name": name, "record": record, "width": width, "height": height}


def _annotations(layout: PatchLayout, numbers: NDArray[np.int64], shapes: LabelShapes) -> Iterator[dict[str, Any]]:
    import shapely

    whole = shapely.make_valid(shapes.shapes)
    dimensions = shapely.get_dimensions(shapes.shapes)
    tree = shapely.STRtree(whole)
    height, width = layout.block_yx
    count = 0
    for start in range(0, len(numbers), PATCHES_AT_ONCE):
        some = numbers[start : start + PATCHES_AT_ONCE]
        rows, columns = np.divmod(some, layout.columns)
        top = rows * layout.patch_yx[0] - layout.margin_yx[0]
        left = columns * layout.patch_yx[1] - layout.margin_yx[1]
        # Beyond the grid a block holds no picture.
        blocks = shapely.box(
            np.maximum(left, 0.0),
            np.maximum(top, 0.0),
            np.minimum(left + width, float(layout.geobox.shape_yx[1])),
            np.minimum(top + height, float(layout.geobox.shape_yx[0])),
        )
        patch, shape = tree.query(blocks, predicate="intersects")
        order = np.lexsort((shapes.numbers[shape], patch))
        patch, shape = patch[order], shape[order]
        cut = shapely.intersection(whole[shape], blocks[patch])
        # What only touches the block is less than it was: an edge of an area, an end of a line.
        is_there = ~shapely.is_empty(cut) & (shapely.get_dimensions(cut) >= dimensions[shape])
        for place, number, found in zip(patch[is_there].tolist(), shape[is_there].tolist(), cut[is_there], strict=True):
            count += 1
            origin = np.array([left[place], top[place]], np.float64)
            yield {
                "id": count,
                "image_id": int(some[place]),
                "category_id": int(shapes.values[number]),
                "instance": int(shapes.numbers[number]),
                **_outline(found, origin),
                "iscrowd": 0,
            }


def _outline(shape: Any, origin: NDArray[np.float64]) -> dict[str, Any]:
    """Box, outlines and area of a shape; ``origin`` (x, y) becomes (0, 0)."""
    import shapely

    x, y, right, bottom = shapely.bounds(shape).tolist()
    parts = shapely.get_parts(shapely.get_parts(shape))
    areas = parts[shapely.get_type_id(parts) == shapely.GeometryType.POLYGON]
    rings = [shapely.get_coordinates(shapely.get_exterior_ring(part)) - origin for part in areas]
    return {
        "bbox": np.round([x - origin[0], y - origin[1], right - x, bottom - y], DIGITS).tolist(),
        "segmentation": [np.round(ring.ravel(), DIGITS).tolist() for ring in rings],
        "area": round(float(shapely.area(shape)), DIGITS),
    }
