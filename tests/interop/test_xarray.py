"""xarray carries patches out and rasters in: values, coordinates, CRS and masks as rasterio and rioxarray have them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import wire
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import NORTH_UP, ROTATED, SOUTH_UP, numbered, read_raster, write_raster
from rasterio.transform import Affine

import geotfr
from geotfr.errors import UsageError

# rioxarray multiplies transforms in a way that affine 3.1 wants written otherwise.
pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")]
xr = pytest.importorskip("xarray")
rioxarray = pytest.importorskip("rioxarray")
dask = pytest.importorskip("dask")


def at(transform: Any, col: float, row: float) -> tuple[float, float]:
    """The place of a pixel's corner."""
    a, b, c, d, e, f = transform[:6]
    return a * col + b * row + c, d * col + e * row + f


GRIDS = {"north-up": NORTH_UP, "south-up": SOUTH_UP, "rotated": ROTATED}


# In: an array as a source.


def exported(source: Any, folder: Path, paths: list[Path], **keywords: Any) -> None:
    """The export of ``source`` is byte for byte that of the files ``paths``."""
    folder.mkdir()
    options = Options(**keywords)
    geotfr.export_image(source, folder / "set", **options.keywords())
    assert_export(folder, expected_export(paths, options, name="set"))


@pytest.mark.parametrize("chunks", [None, {"y": 3, "x": 5}, {"y": 9, "x": 13}], ids=["numpy", "chunks", "one-chunk"])
@pytest.mark.parametrize("grid", GRIDS)
def test_an_array_of_rioxarray_gives_the_bytes_of_its_file(tmp_path: Path, grid: str, chunks: Any) -> None:
    source = write_raster(
        tmp_path / "a.tif", numbered(2, 9, 13, "int16"), transform=GRIDS[grid], nodata=7, descriptions=("red", "nir")
    )
    with rioxarray.open_rasterio(source, chunks=chunks) as array:
        exported(array, tmp_path / "out", [source], patch=(4, 3), kernel=(3, 3), default_value=5)


def test_a_masked_array_masks_where_it_is_nan(tmp_path: Path) -> None:
    data = numbered(1, 6, 8)
    data[0, 2:4, 3] = -9
    source = write_raster(tmp_path / "a.tif", data, nodata=-9)
    with rioxarray.open_rasterio(source, masked=True, chunks={"x": 4}) as array:
        exported(array, tmp_path / "out", [source], patch=(4, 3), default_value=1)


@pytest.mark.parametrize("grid", ["north-up", "south-up"])
def test_what_is_cut_out_lies_where_its_coordinates_say_exactly(tmp_path: Path, grid: str) -> None:
    whole = numbered(1, 20, 30)
    source = write_raster(tmp_path / "a.tif", whole, transform=GRIDS[grid])
    with rioxarray.open_rasterio(source) as array:
        # The transform beside the coordinates stays the whole raster's: the coordinates tell better.
        part = array.isel(y=slice(4, 16), x=slice(7, 25))
        a, b, _, d, e, _ = GRIDS[grid][:6]
        x, y = at(GRIDS[grid], 7, 4)
        moved = Affine(a, b, x, d, e, y)
        cut = write_raster(tmp_path / "cut.tif", whole[:, 4:16, 7:25], transform=moved)
        exported(part, tmp_path / "out", [cut], patch=(6, 4))
        every = array.isel(y=slice(None, None, 2), x=slice(None, None, 3))
        plan = geotfr.plan_export(every, patch_dimensions=2)
    a, _, c, _, e, f = GRIDS[grid][:6]
    np.testing.assert_allclose(plan.layout.geobox.affine, (3 * a, 0, c - a, 0, 2 * e, f - e / 2), rtol=1e-12)


def test_axes_may_have_other_names_and_another_order(tmp_path: Path) -> None:
    data = numbered(2, 6, 8)
    transform = Affine(0.5, 0, 10, 0, -0.5, 50)
    source = write_raster(tmp_path / "a.tif", data, transform=transform, crs="EPSG:4326")
    array = xr.DataArray(
        data.transpose(2, 0, 1),
        dims=("longitude", "time", "latitude"),
        coords={
            "longitude": 10.25 + 0.5 * np.arange(8),
            "latitude": 49.75 - 0.5 * np.arange(6),
            "time": np.array(["2024-01-01", "2024-06-01"], "datetime64[ns]"),
        },
    ).rio.write_crs("EPSG:4326")
    (tmp_path / "out").mkdir()
    geotfr.export_image(array, tmp_path / "out" / "set", patch_dimensions=2)
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=2, bands="2024-01-01=1,2024-06-01=2")
    shard = "set.tfrecord.gz"
    assert (tmp_path / "out" / shard).read_bytes() == (tmp_path / shard).read_bytes()


def test_the_convention_of_odc_is_read_too() -> None:
    """odc-geo isn't installed here: the attributes are those that its documentation and code show."""
    wkt = "EPSG:32633"
    place = xr.DataArray(0, attrs={"spatial_ref": wkt, "crs_wkt": wkt, "GeoTransform": "0 3 4 100 4 -3"})
    pixels = {"units": "pixel", "resolution": 1.0}
    array = xr.DataArray(
        np.zeros((6, 8), "uint8"),
        dims=("y", "x"),
        coords={
            "y": ("y", np.arange(6) + 0.5, pixels),
            "x": ("x", np.arange(8) + 0.5, pixels),
            "spatial_ref": place,
        },
        attrs={"nodata": 3},
    )
    plan = geotfr.plan_export(array[2:, 3:], patch_dimensions=2)
    # (3, 4, 0, 4, -3, 100) moved by 3 columns and 2 rows.
    assert plan.layout.geobox.affine == (3, 4, 17, 4, -3, 106)
    assert plan.layout.geobox.crs == "EPSG:32633"


def test_arrays_are_warped_stacked_predicted_and_drawn_as_files_are(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "a.tif", numbered(1, 24, 24), nodata=5)
    other = write_raster(tmp_path / "b.tif", numbered(1, 24, 24) * 2)
    options: dict[str, Any] = {"patch_dimensions": 4, "scale": 25, "resampling": "bilinear"}
    with rioxarray.open_rasterio(source, chunks={"y": 5, "x": 24}) as array:
        for name, given in (("array", [array, other]), ("file", [source, other])):
            (tmp_path / name).mkdir()
            geotfr.export_image(given, tmp_path / name / "set", bands="x=1,y=2", **options)
        same = "set.tfrecord.gz"
        assert (tmp_path / "array" / same).read_bytes() == (tmp_path / "file" / same).read_bytes()
        geotfr.predict(lambda batch: batch, array, tmp_path / "map.tif", patch_dimensions=8, mask_from="source")
        drawn = geotfr.plot_histograms(array)
    found, wanted = read_raster(tmp_path / "map.tif")[0], numbered(1, 24, 24)
    np.testing.assert_array_equal(found, np.where(wanted == 5, np.nan, wanted))
    assert drawn.axes[0].get_title() == "b1: 1 to 576"


def test_a_lazy_array_is_computed_chunk_by_chunk(tmp_path: Path) -> None:
    seen: list[tuple[int, ...]] = []

    def block(block_info: Any = None) -> np.ndarray:
        seen.append(block_info[None]["chunk-location"])
        return np.ones((1, 64, 64), "uint8")

    chunks, meta = ((1,), (64,) * 6, (64,) * 4), np.empty((0,) * 3, "uint8")
    data = dask.array.map_blocks(block, chunks=chunks, dtype="uint8", meta=meta)
    coords = {"y": -5.0 - 10 * np.arange(384), "x": 5.0 + 10 * np.arange(256)}
    array = xr.DataArray(data, dims=("band", "y", "x"), coords=coords).rio.write_crs("EPSG:32633")
    with dask.config.set(scheduler="synchronous"):
        plan = geotfr.plan_export(array, patch_dimensions=64)
        assert seen == []
        assert plan.strips.read_rows_px == 64
        geotfr.export_image(array, tmp_path / "set", patch_dimensions=64, workers=1)
    assert sorted(seen) == sorted((0, row, col) for row in range(6) for col in range(4))


REFUSED = {
    "dataset": (lambda array: array.to_dataset(name="a"), "a Dataset is several arrays"),
    "axes": (lambda array: array.rename(y="j"), "an array of axes"),
    "four": (lambda array: array.expand_dims(("time", "band")), "stack the"),
    "uneven": (lambda array: array.assign_coords(x=[1.0, 2, 3, 9]), "coordinate x: not even"),
    "nowhere": (lambda array: array.drop_vars(["x", "y"]), "nothing tells its place"),
    "pixel": (lambda array: array.isel(x=[0]), "one pixel tells no size"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_raster_is_refused_in_a_line(case: str) -> None:
    array = xr.DataArray(np.zeros((3, 4)), dims=("y", "x"), coords={"y": [3.0, 2, 1], "x": [1.0, 2, 3, 4]})
    change, words = REFUSED[case]
    with pytest.raises(UsageError, match=words):
        geotfr.plan_export(change(array), patch_dimensions=1)


# Out: patches as arrays.


@pytest.fixture
def sets(tmp_path: Path) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, transform in GRIDS.items():
        source = write_raster(tmp_path / f"{name}.tif", numbered(2, 21, 33), transform=transform)
        (tmp_path / name).mkdir()
        made[name] = geotfr.export_image(
            source, tmp_path / name / "s", patch_dimensions=(8, 5), kernel_size=4, max_file_size=4000
        )
    return made


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
@pytest.mark.parametrize("grid", GRIDS)
def test_a_mosaic_is_the_raster_that_was_exported(sets: dict[str, Any], grid: str, lazy: bool) -> None:
    found = geotfr.to_xarray(sets[grid].mixer, lazy=lazy)
    assert dict(found.sizes) == {"y": 20, "x": 32}
    for number, name in enumerate(("b1", "b2")):
        assert hasattr(found[name].data, "dask") == lazy
        np.testing.assert_array_equal(found[name].to_numpy(), numbered(2, 21, 33)[number, :20, :32])
    assert found["b1"].rio.crs.to_epsg() == 32618
    assert found["b1"].rio.transform(recalc=grid != "rotated").almost_equals(GRIDS[grid], 1e-6)
    if grid == "rotated":
        assert "x" not in found.coords
    else:
        middle = at(GRIDS[grid], 0.5, 0.5)
        assert (float(found.x[0]), float(found.y[0])) == pytest.approx(middle)


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
@pytest.mark.parametrize("grid", GRIDS)
def test_case_4_a_mosaic_of_padded_patches_ends_where_the_raster_ends(grid: str, lazy: bool, tmp_path: Path) -> None:
    source = write_raster(tmp_path / "s.tif", numbered(1, 10, 11), transform=GRIDS[grid])
    made = geotfr.export_image(source, tmp_path / "set", patch_dimensions=4, kernel_size=2, edge="pad")
    found = geotfr.to_xarray(made.mixer, lazy=lazy)
    assert dict(found.sizes) == {"y": 10, "x": 11}
    np.testing.assert_array_equal(found["b1"].to_numpy(), numbered(1, 10, 11)[0])
    assert found["b1"].rio.transform(recalc=grid != "rotated").almost_equals(GRIDS[grid], 1e-6)


def test_a_mosaic_goes_to_a_file_and_back_through_rioxarray(sets: dict[str, Any], tmp_path: Path) -> None:
    geotfr.to_xarray(sets["north-up"])["b2"].rio.to_raster(tmp_path / "b2.tif")
    pixels, profile, _ = read_raster(tmp_path / "b2.tif")
    np.testing.assert_array_equal(pixels[0], numbered(2, 21, 33)[1, :20, :32])
    assert profile["transform"].almost_equals(NORTH_UP)
    assert profile["crs"].to_epsg() == 32618


def test_a_mosaic_is_a_source_again(sets: dict[str, Any], tmp_path: Path) -> None:
    array = geotfr.to_xarray(sets["north-up"], lazy=True).to_dataarray("band")
    geotfr.export_image(array, tmp_path / "again", patch_dimensions=(8, 5))
    records = [record for path in sorted(tmp_path.glob("again*.gz")) for record in wire.read_shard(path)]
    assert [list(record) for record in records] == [["b1", "b2"]] * 16
    np.testing.assert_array_equal(records[5]["b2"], numbered(2, 21, 33)[1, 5:10, 8:16].ravel())


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
def test_patches_lie_along_an_axis_with_their_places(sets: dict[str, Any], lazy: bool) -> None:
    found = geotfr.to_xarray(sets["south-up"].manifest, layout="patches", lazy=lazy)
    assert found["b1"].dims == ("patch", "row", "col")
    assert dict(found.sizes)["patch"] == 16
    around = np.pad(numbered(2, 21, 33), ((0, 0), (2, 2), (2, 2)))
    np.testing.assert_array_equal(found["b2"][6].to_numpy(), around[1, 5:14, 16:28])
    assert [int(found[name][6]) for name in ("number", "patch_row", "patch_column")] == [6, 1, 2]
    left, top = at(SOUTH_UP, 16 - 2, 5 - 2)
    right, bottom = at(SOUTH_UP, 16 + 10, 5 + 7)
    np.testing.assert_allclose(found["transform"][6], [0.5, 0, left, 0, 0.5, top])
    np.testing.assert_allclose(found["bounds"][6], [left, top, right, bottom])
    assert found["b1"].rio.crs.to_epsg() == 32618


def test_lazy_arrays_are_computed_in_other_processes(sets: dict[str, Any]) -> None:
    found = geotfr.to_xarray(sets["north-up"], lazy=True)["b1"]
    again = pickle.loads(pickle.dumps(found))
    with dask.config.set(scheduler="processes", num_workers=2):
        np.testing.assert_array_equal(again.to_numpy(), numbered(2, 21, 33)[0, :20, :32])


def test_gaps_are_nan_or_the_value_that_is_given(tmp_path: Path) -> None:
    pixels = numbered(1, 8, 8, "uint8")
    source = write_raster(tmp_path / "a.tif", pixels, nodata=1)
    result = geotfr.export_image(source, tmp_path / "s", patch_dimensions=4, masked_threshold=0, feature_kinds="native")
    with pytest.raises(UsageError, match="give fill_value"):
        geotfr.to_xarray(result)
    for bad in (256, 0.5, np.nan):
        with pytest.raises(UsageError, match="can't be held by uint8"):
            geotfr.to_xarray(result, fill_value=bad)
    found = geotfr.to_xarray(result, fill_value=255)["b1"]
    wanted = pixels[0].copy()
    wanted[:4, :4] = 255
    np.testing.assert_array_equal(found.to_numpy(), wanted)
    assert found.rio.nodata == 255
    floats = geotfr.export_image(source, tmp_path / "f", patch_dimensions=4, masked_threshold=0)
    assert np.isnan(geotfr.to_xarray(floats)["b1"].to_numpy()[:4, :4]).all()


def test_tensors_stacks_and_subsets(tmp_path: Path) -> None:
    pixels = numbered(3, 8, 12)
    source = write_raster(tmp_path / "a.tif", pixels)
    result = geotfr.export_image(source, tmp_path / "s", patch_dimensions=4, collapse_bands=True)
    found = geotfr.to_xarray(result)["b1"]
    assert found.dims == ("channel", "y", "x")
    np.testing.assert_array_equal(found.to_numpy(), pixels)
    plain = geotfr.export_image(source, tmp_path / "p", patch_dimensions=4)
    stacked = geotfr.to_xarray(geotfr.PatchDataset(plain.mixer, stack=True), lazy=True)["image"]
    np.testing.assert_array_equal(stacked.to_numpy(), pixels)
    part = geotfr.to_xarray(geotfr.PatchDataset(plain.mixer).subset([5, 0]))["b1"].to_numpy()
    np.testing.assert_array_equal(part[4:, 8:], pixels[0, 4:, 8:])
    assert np.isnan(part[4:, :8]).all()
    with pytest.raises(UsageError, match="stands twice"):
        geotfr.to_xarray(geotfr.PatchDataset(plain.mixer).subset([0, 0]))
    with pytest.raises(UsageError, match="layout"):
        geotfr.to_xarray(plain, layout="cube")
