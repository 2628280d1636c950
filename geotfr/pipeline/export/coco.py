"""The shapes in each patch as a COCO file: boxes and outlines in pixels of the records' blocks.

**Source**: the format of the Common Objects in Context data set: images, annotations and categories.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.mixer.coco_files import COCO_HEAD
from geotfr.pipeline.export.block_shapes import BlockShapes

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


def write_coco(outputs: OutputSet, name: str, layout: PatchLayout, manifest: Manifest, labels: Labels) -> AtomicFile:
    """A finished COCO file of the set: its images are the patches that ``manifest`` lists, in their order.

    Shapes that are burnt as the ignore value have no class, and so no category that an annotation could have, not even
    one that ``iscrowd`` excludes: they are left out.
    """
    if labels.shapes is None:
        raise ValueError("labels of a raster have no shapes")
    is_written = np.ones(layout.count, np.bool_)
    is_written[list(manifest.patches_dropped)] = False
    numbers = np.flatnonzero(is_written)
    file = outputs.create(name)
    head = {"grid": {"crs": layout.geobox.crs, "transform": list(layout.geobox.affine)}}
    file.write(f'{COCO_HEAD}", {json.dumps(head)[1:]},\n'.encode())
    categories = [{"id": value, "name": name} for name, value in labels.classes.items() if value != labels.ignore]
    file.write(f'"categories": {json.dumps(categories, ensure_ascii=False)},\n'.encode())
    _write_list(file, "images", _images(layout, manifest, numbers))
    file.write(b",\n")
    _write_list(file, "annotations", _annotations(layout, numbers, labels.shapes, labels.ignore))
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


def _annotations(
    layout: PatchLayout, numbers: NDArray[np.int64], shapes: LabelShapes, ignore: int | None
) -> Iterator[dict[str, Any]]:
    blocks = BlockShapes(layout, shapes)
    has_class = np.ones(len(shapes.values), np.bool_) if ignore is None else shapes.values != ignore
    count = 0
    for start in range(0, len(numbers), PATCHES_AT_ONCE):
        some = numbers[start : start + PATCHES_AT_ONCE]
        found = blocks.cut(some).only(has_class)
        each = zip(found.blocks.tolist(), found.places.tolist(), found.shapes, found.origins, strict=True)
        for block, place, shape, origin in each:
            count += 1
            yield {
                "id": count,
                "image_id": int(some[block]),
                "category_id": int(shapes.values[place]),
                "instance": int(shapes.numbers[place]),
                **_outline(shape, origin),
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
