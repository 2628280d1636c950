"""Labels burnt patch by patch are those that rasterio burns over the whole array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import rasterio
from oracle.patches import block_of, read_manifest, written
from oracle.rasters import NORTH_UP, ROTATED, SOUTH_UP, write_raster
from rasterio.features import rasterize
from rasterio.transform import Affine

import geotfr
from geotfr.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

geopandas = pytest.importorskip("geopandas")
shapely = pytest.importorskip("shapely")

HEIGHT, WIDTH, PATCH, MARGIN = 70, 90, 16, 3
COLUMNS = WIDTH // PATCH
CRS = "EPSG:32618"


def scene(folder: Path, transform: Affine = NORTH_UP, crs: str = CRS, **options: Any) -> Path:
    data = np.arange(HEIGHT * WIDTH, dtype=np.uint16).reshape(HEIGHT, WIDTH)
    return write_raster(folder / "scene.tif", data, transform=transform, crs=crs, **options)


def moved(shape: Any, transform: Affine) -> Any:
    """A shape of pixel coordinates (column, row) in CRS coordinates."""
    a, b, c, d, e, f = transform[:6]

    def on_ground(xy: np.ndarray) -> np.ndarray:
        x, y = xy[:, 0], xy[:, 1]
        return np.stack([a * x + b * y + c, d * x + e * y + f], axis=1)

    return shapely.transform(shape, on_ground)


def polygons(transform: Affine, count: int = 40, seed: int = 1) -> list[Any]:
    """Random shapes in CRS coordinates, some beyond the raster, some with holes, some tiny."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        x, y = random.uniform(-15, WIDTH + 15), random.uniform(-15, HEIGHT + 15)
        size = random.uniform(0.2, 30)
        shape = shapely.Point(x, y).buffer(size, quad_segs=3)
        if number % 3 == 0:
            shape = shapely.affinity.rotate(shapely.box(x, y, x + size, y + size / 3), random.uniform(0, 90))
        if number % 5 == 0:
            shape = shape.difference(shapely.Point(x, y).buffer(size / 2))
        if number % 7 == 0:
            shape = shapely.union(shape, shapely.box(x + 20, y, x + 24, y + 9))
        found.append(moved(shape, transform))
    return found


def frame(transform: Affine = NORTH_UP, crs: str = CRS, **columns: Any) -> Any:
    shapes = polygons(transform)
    classes = [("water", "forest", "road")[number % 3] for number in range(len(shapes))]
    return geopandas.GeoDataFrame(
        {"class": classes, "code": np.arange(len(shapes)) % 5 + 10} | columns, geometry=shapes, crs=crs
    )


def burnt(shapes: Any, values: Any, transform: Affine, *, background: int = 0, all_touched: bool = False) -> np.ndarray:
    pairs = list(zip(shapes, values, strict=True))
    return rasterize(
        pairs, (HEIGHT, WIDTH), fill=background, transform=transform, all_touched=all_touched, dtype="int32"
    )


def assert_labels(folder: Path, name: str, whole: np.ndarray, *, outside: float = 0) -> None:
    patches = written(folder)
    assert len(patches) == COLUMNS * (HEIGHT // PATCH)
    for number, features in patches.items():
        wanted = block_of(whole, number, patch=PATCH, margin=MARGIN, columns=COLUMNS, outside=outside)
        np.testing.assert_array_equal(features[name], wanted, err_msg=f"patch {number}")


def export(source: Path, folder: Path, labels: Any, **options: Any) -> geotfr.ExportResult:
    return geotfr.export_image(
        source, folder / "out", patch_dimensions=PATCH, kernel_size=2 * MARGIN, labels=labels, **options
    )


@pytest.mark.parametrize("all_touched", [False, True], ids=["centre", "all-touched"])
@pytest.mark.parametrize("transform", [NORTH_UP, SOUTH_UP, ROTATED], ids=["north-up", "south-up", "rotated"])
def test_shapes_are_burnt_as_rasterio_burns_them_over_the_whole(
    transform: Affine, all_touched: bool, tmp_path: Path
) -> None:
    labels = frame(transform)
    export(scene(tmp_path, transform), tmp_path, labels, label_field="code", label_all_touched=all_touched)
    assert_labels(tmp_path, "code", burnt(labels.geometry, labels["code"], transform, all_touched=all_touched))


@pytest.mark.parametrize("suffix", ["gpkg", "geojson", "fgb", "parquet", "shp"])
def test_each_format_in_another_crs_is_reprojected(suffix: str, tmp_path: Path) -> None:
    source = scene(tmp_path)
    labels = frame().to_crs("EPSG:4326")
    path = tmp_path / f"labels.{suffix}"
    if suffix == "parquet":
        labels.to_parquet(path)
    else:
        labels.to_file(path, engine="pyogrio", **({"SPATIAL_INDEX": "NO"} if suffix == "fgb" else {}))
    kept = geopandas.read_parquet(path) if suffix == "parquet" else geopandas.read_file(path)
    export(source, tmp_path, path, label_field="code", label_name="label")
    whole = kept.to_crs(CRS)
    assert_labels(tmp_path, "label", burnt(whole.geometry, whole["code"], NORTH_UP))


def test_texts_are_numbered_in_their_order_and_the_manifest_tells_how(tmp_path: Path) -> None:
    labels = frame()
    export(scene(tmp_path), tmp_path, labels, label_field="class")
    names = {"forest": 1, "road": 2, "water": 3}
    assert_labels(tmp_path, "class", burnt(labels.geometry, labels["class"].map(names), NORTH_UP))
    assert read_manifest(tmp_path)["labels"]["classes"] == names


def test_a_priority_decides_where_shapes_overlap(tmp_path: Path) -> None:
    labels = frame()
    export(
        scene(tmp_path),
        tmp_path,
        labels,
        label_field="class",
        label_classes="water=7,forest=8,road=9",
        label_priority="water,road",
    )
    # The most important last: later shapes are burnt over earlier ones.
    ordered = labels.iloc[np.argsort(labels["class"].map({"water": 2, "road": 1, "forest": 0}), kind="stable")]
    values = ordered["class"].map({"water": 7, "forest": 8, "road": 9})
    assert_labels(tmp_path, "class", burnt(ordered.geometry, values, NORTH_UP))


def test_background_ignore_and_masked_pixels(tmp_path: Path) -> None:
    mask = np.ones((HEIGHT, WIDTH), bool)
    mask[20:31, 5:60] = False
    labels = frame()
    labels.loc[labels["class"] == "road", "class"] = None
    result = export(
        scene(tmp_path, mask=mask),
        tmp_path,
        labels,
        label_field="class",
        label_classes={"water": 1, "forest": 2},
        label_background=9,
        label_ignore=255,
        feature_kinds="native",
    )
    values = labels["class"].map({"water": 1, "forest": 2}).fillna(255).astype(int)
    whole = burnt(labels.geometry, values, NORTH_UP, background=9)
    whole[~mask] = 255
    assert_labels(tmp_path, "class", whole, outside=255)
    assert any("13 shapes have no class" in warning and "burnt as 255" in warning for warning in result.warnings)
    (band,) = [band for band in read_manifest(tmp_path)["bands"] if band["name"] == "class"]
    assert (band["dtype"], band["kind"]) == ("uint8", "bytes")


def test_shapes_without_a_wanted_class_are_left_out_and_told(tmp_path: Path) -> None:
    labels = frame()
    labels.loc[3, "geometry"] = None
    result = export(scene(tmp_path), tmp_path, labels, label_field="class", label_classes="water=4")
    some = labels[(labels["class"] == "water") & ~labels.geometry.isna()]
    assert_labels(tmp_path, "class", burnt(some.geometry, [4] * len(some), NORTH_UP))
    assert any("26 shapes have no class, or none that is wanted; left out" in text for text in result.warnings)
    assert any("1 rows have no geometry" in text for text in result.warnings)


def test_instances_are_the_rows_of_the_source(tmp_path: Path) -> None:
    labels = frame()
    export(scene(tmp_path), tmp_path, labels, label_field="code", label_instances="id", label_where="code != 12")
    some = labels[labels["code"] != 12]
    assert_labels(tmp_path, "id", burnt(some.geometry, np.arange(1, len(some) + 1), NORTH_UP))
    assert_labels(tmp_path, "code", burnt(some.geometry, some["code"], NORTH_UP))


def test_lines_points_and_collections_burn_too(tmp_path: Path) -> None:
    shapes = [
        shapely.LineString([(0.5, 0.5), (80.2, 60.7), (3, 66)]),
        shapely.MultiPoint([(5.5, 5.5), (33.1, 40.9)]),
        shapely.GeometryCollection([shapely.Point(20.5, 3.5), shapely.box(40, 2, 55, 17)]),
    ]
    placed = [moved(shape, NORTH_UP) for shape in shapes]
    labels = geopandas.GeoDataFrame({"c": [1, 2, 3]}, geometry=placed, crs=CRS)
    export(scene(tmp_path), tmp_path, labels, label_field="c")
    flat = [(part, value) for shape, value in zip(placed, [1, 2, 3], strict=True) for part in shapely.get_parts(shape)]
    assert_labels(tmp_path, "c", burnt([part for part, _ in flat], [value for _, value in flat], NORTH_UP))


@pytest.mark.parametrize("options", [{"workers": 1}, {"workers": 3}, {"memory_limit": "300MiB", "workers": 1}], ids=str)
def test_bytes_depend_on_neither_workers_nor_memory(options: dict[str, Any], tmp_path: Path) -> None:
    labels, source = frame(), scene(tmp_path)
    for name, given in (("out", {}), ("other", options)):
        geotfr.export_image(source, tmp_path / name, patch_dimensions=PATCH, labels=labels, label_field="code", **given)
    assert (tmp_path / "out.tfrecord.gz").read_bytes() == (tmp_path / "other.tfrecord.gz").read_bytes()


def test_a_raster_on_another_grid_is_taken_by_nearest(tmp_path: Path) -> None:
    coarse = np.random.default_rng(3).integers(1, 200, (12, 15)).astype(np.uint8)
    place = Affine(55, 0, 500043, 0, -55, 3999939)
    path = write_raster(tmp_path / "classes.tif", coarse, transform=place, crs=CRS, nodata=coarse[4, 4])
    export(scene(tmp_path), tmp_path, path, label_name="classes", label_background=3, label_ignore=250)
    x, y = np.meshgrid(500005 + 10 * np.arange(WIDTH), 3999995 - 10 * np.arange(HEIGHT))
    cols, rows = np.floor((x - 500043) / 55).astype(int), np.floor((3999939 - y) / 55).astype(int)
    inside = (cols >= 0) & (cols < 15) & (rows >= 0) & (rows < 12)
    whole = np.full((HEIGHT, WIDTH), 250)
    found = coarse[rows[inside], cols[inside]]
    whole[inside] = np.where(found == coarse[4, 4], 250, found)
    assert_labels(tmp_path, "classes", whole, outside=250)


def test_labels_never_mask_and_images_stay_as_they_are(tmp_path: Path) -> None:
    source = scene(tmp_path)
    export(source, tmp_path, frame(), label_field="code")
    with rasterio.open(source) as dataset:
        assert_labels(tmp_path, "b1", dataset.read(1).astype(np.float64))
    assert read_manifest(tmp_path)["patches_dropped"] == []


def test_the_patch_table_has_the_shares_of_the_labels(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    labels = frame()
    export(scene(tmp_path), tmp_path, labels, label_field="code", patch_table=True)
    table = pq.read_table(tmp_path / "out-patches.parquet")
    whole = burnt(labels.geometry, labels["code"], NORTH_UP)
    for number, share in zip(table["number"].to_pylist(), table["share_12"].to_pylist(), strict=True):
        core = block_of(whole, number, patch=PATCH, margin=0, columns=COLUMNS)
        assert share == (core == 12).mean()


def test_a_stopped_run_goes_on_with_the_same_labels_only(tmp_path: Path) -> None:
    # Several strips, each of several shards.
    source, path = write_raster(tmp_path / "tall.tif", np.zeros((1100, WIDTH), np.uint8)), tmp_path / "labels.gpkg"
    frame().to_file(path)
    options: dict[str, Any] = {"label_field": "code", "max_file_size": 50_000, "workers": 1}
    export(source, tmp_path, path, **options)
    one = {file.name: file.read_bytes() for file in tmp_path.glob("out*")}

    steps: list[int] = []

    def stop(patches: int, _: int) -> None:
        steps.append(patches)
        if sum(steps) > 100:
            steps.clear()
            raise KeyboardInterrupt

    options |= {"resume": True, "overwrite": True}
    with pytest.raises(KeyboardInterrupt):
        export(source, tmp_path, path, progress=stop, **options)
    result = export(source, tmp_path, path, **options)
    assert result.shards_resumed > 0
    assert {file.name: file.read_bytes() for file in tmp_path.glob("out*")} == one
    with pytest.raises(KeyboardInterrupt):
        export(source, tmp_path, path, progress=stop, **options)
    path.unlink()
    frame().iloc[3:].to_file(path)
    with pytest.raises(geotfr.errors.UsageError, match="sources"):
        export(source, tmp_path, path, **options)
    with pytest.raises(geotfr.errors.UsageError, match="a source is in memory"):
        export(source, tmp_path, frame(), **options)


def test_a_table_of_a_collapsed_tensor_has_no_shares_of_its_channels(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    export(scene(tmp_path), tmp_path, frame(), label_field="class", collapse_bands=True, patch_table=True)
    table = geotfr.read_patch_table(tmp_path / "out-patches.parquet")
    assert not [name for name in table.names if name.startswith("share_")]
    assert table.features == ("b1",)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("labels", "2 layers .*name one with --label-layer"),
        ("keep", "2 layers .*give a file of one layer"),
        ("within", "2 layers .*give a file of one layer"),
    ],
)
def test_a_file_of_several_layers_is_refused_with_what_names_one(option: str, words: str, tmp_path: Path) -> None:
    source = scene(tmp_path)
    for layer in ("one", "two"):
        frame().to_file(tmp_path / "two.gpkg", layer=layer)
    options: dict[str, Any] = {option: tmp_path / "two.gpkg"}
    with pytest.raises(UsageError, match=words):
        geotfr.export_image(source, tmp_path / "out", patch_dimensions=PATCH, **options)


@pytest.mark.parametrize("mask_mode", ["band", "pixel"])
@pytest.mark.parametrize("ignore", [255, None])
@pytest.mark.parametrize("kind", ["vector", "raster"])
def test_case_77_a_pixel_that_no_band_holds_is_masked_in_the_labels(
    tmp_path: Path, mask_mode: str, ignore: int | None, kind: str
) -> None:
    pixels = np.ones((2, 4, 4), np.float32)
    pixels[:, 1, 2] = pixels[0, 3, 0] = np.nan
    source = write_raster(tmp_path / "scene.tif", pixels)
    labels: Any = geopandas.GeoDataFrame({"c": [7]}, geometry=[moved(shapely.box(-1, -1, 9, 9), NORTH_UP)], crs=CRS)
    more: dict[str, Any] = {"labels": labels, "label_field": "c"}
    if kind == "raster":
        more = {"labels": write_raster(tmp_path / "classes.tif", np.full((1, 4, 4), 7, np.uint8))}
    if ignore is not None:
        more["label_ignore"] = ignore
    name = "c" if kind == "vector" else "label"
    geotfr.export_image(
        source, tmp_path / "out", patch_dimensions=4, mask_mode=mask_mode, label_name=name, default_value=3, **more
    )
    expected = np.full((4, 4), 7.0)
    expected[1, 2] = 3 if ignore is None else ignore
    if mask_mode == "pixel":
        expected[3, 0] = expected[1, 2]
    patch = written(tmp_path)[0]
    np.testing.assert_array_equal(patch[name], expected)
