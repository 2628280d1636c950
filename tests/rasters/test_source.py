"""Stacks of rasters: what they say of themselves, and their pixels and masks, against rasterio."""

from __future__ import annotations

import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from oracle.rasters import NORTH_UP, ROTATED, SOUTH_UP, write_raster
from rasterio.control import GroundControlPoint
from rasterio.enums import ColorInterp
from rasterio.transform import Affine

from geotfr.errors import InputError, MissingInputError, ReadError, UsageError
from geotfr.grid import GeoBox, Window
from geotfr.rasters.safe_open import safe_open
from geotfr.rasters.source import RasterSource, open_sources

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "geotiff"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the folder of real rasters is not there")

# file: (names, masked pixels of all bands' union, CRS text or its start)
REAL: dict[str, tuple[list[str], int, str]] = {
    "RGB.byte.tif": (["b1", "b2", "b3"], 185533, "EPSG:32618"),
    "all-nodata.tif": (["blue", "green", "red", "nir"], 71 * 2475, "EPSG:32628"),
    "au-3577-rotated.tif": (["b1"], 8099, "EPSG:3577"),
    "cog_dateline.tif": (["b1"], 0, "EPSG:32660"),
    "cog_nodata_nan.tif": (["Gamma0_VV"], 154085, "EPSG:32610"),
    "cog_scale.tif": (["b1", "b2"], 6, "PROJCS["),
    "cog_uint8_rgb_mask.tif": (["b1", "b2", "b3"], 64 * 256, "EPSG:4326"),
    "cog_uint8_rgb_nodata.tif": (["b1", "b2", "b3"], 64 * 256, "EPSG:4326"),
    "cog_uint8_rgba.tif": (["b1", "b2", "b3"], 64 * 256, "EPSG:4326"),
    "float_nan.tif": (["b1"], 1, ""),
    "geo-5b.tif": (["b1", "b2", "b3", "b4", "b5"], 0, "EPSG:21897"),
    "inverted_lat.tif": (["b1"], 720 * 360, "EPSG:4326"),
    "lowres.tif": (["b1"], 5011, "EPSG:32617"),
}


def whole(source: RasterSource) -> Window:
    rows, cols = source.geobox.shape_yx
    return Window(row=0, col=0, height=rows, width=cols)


def read(source: RasterSource, window: Window | None = None) -> tuple[list[np.ndarray], np.ndarray]:
    window = window or whole(source)
    out = [np.empty((window.height, window.width), band.dtype) for band in source.bands]
    valid = np.empty((window.height, window.width), bool)
    source.read(window, out, valid)
    return out, valid


def raster(path: Path, **changes: Any) -> Path:
    """A file that rasterio makes with ``changes`` of a 4x3 uint8 profile; all pixels 1."""
    profile = {"driver": "GTiff", "width": 4, "height": 3, "count": 1, "dtype": "uint8", **changes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with rasterio.open(path, "w", **profile) as target:
            target.write(np.ones((profile["count"], 3, 4), profile["dtype"]))
    return path


@needs_data
@pytest.mark.parametrize("name", REAL)
def test_real_files_read_as_rasterio_reads_them(name: str) -> None:
    names, masked, crs = REAL[name]
    with open_sources([str(DATA / name)]) as source, rasterio.open(DATA / name) as oracle:
        assert [band.name for band in source.bands] == names
        assert source.geobox.affine == tuple(oracle.transform)[:6]
        assert source.geobox.shape_yx == oracle.shape
        assert source.geobox.crs == crs if ":" in crs or not crs else source.geobox.crs.startswith(crs)
        assert [band.dtype.name for band in source.bands] == list(oracle.dtypes[: len(names)])
        assert [(band.scale, band.offset) for band in source.bands] == list(
            zip(oracle.scales, oracle.offsets, strict=True)
        )[: len(names)]
        pixels, valid = read(source)
        np.testing.assert_array_equal(pixels, oracle.read()[: len(names)])
        assert np.count_nonzero(~valid) == masked
        assert source.has_mask or not masked
        window = Window(row=1, col=2, height=oracle.height - 1, width=oracle.width - 2)
        part, part_valid = read(source, window)
        np.testing.assert_array_equal(part, np.asarray(pixels)[:, 1:, 2:])
        np.testing.assert_array_equal(part_valid, valid[1:, 2:])


@needs_data
def test_case_21_gcps_alone_are_refused() -> None:
    with pytest.raises(InputError, match="only GCPs: warp it first, or pass --allow-ungeoreferenced") as error:
        open_sources([str(DATA / "au-gcp.tif")])
    assert error.value.exit_code == 10
    source = open_sources([str(DATA / "au-gcp.tif")], allow_ungeoreferenced=True)
    assert source.geobox == GeoBox(shape_yx=(124, 133), affine=(1, 0, 0, 0, 1, 0), crs="")


@needs_data
def test_case_22_a_transform_without_crs_is_told_once() -> None:
    source = open_sources([f"{DATA / 'float_nan.tif'}:1", f"{DATA / 'float_nan.tif'}:1"])
    assert source.warnings == (f"{DATA / 'float_nan.tif'}: a transform but no CRS; the mixer's crs is empty",)


@needs_data
def test_case_29_three_ways_to_mask_are_one() -> None:
    found = []
    for kind in ("mask", "nodata", "a"):
        name = f"cog_uint8_rgb{'a' if kind == 'a' else '_' + kind}.tif"
        with open_sources([str(DATA / name)]) as source:
            pixels, valid = read(source)
            found.append((np.where(valid, pixels, 0), valid))
    for pixels, valid in found[1:]:
        np.testing.assert_array_equal(pixels, found[0][0])
        np.testing.assert_array_equal(valid, found[0][1])


@needs_data
def test_a_selected_alpha_band_is_data_and_still_masks() -> None:
    path = str(DATA / "cog_uint8_rgba.tif")
    with open_sources([path], bands=["1", "2", "3", "4"]) as source:
        pixels, valid = read(source)
        assert [band.name for band in source.bands] == ["b1", "b2", "b3", "b4"]
        np.testing.assert_array_equal(pixels[3] != 0, valid)
    with open_sources([f"{path}:4"]) as alone:
        np.testing.assert_array_equal(read(alone)[0][0], pixels[3])
    with open_sources([f"{path}:2"]) as second:
        np.testing.assert_array_equal(read(second)[1], valid)


@pytest.mark.parametrize("tag", ["Area", "Point"])
def test_case_15_area_or_point_gives_rasterios_transform(tmp_path: Path, tag: str) -> None:
    path = write_raster(tmp_path / "x.tif", np.ones((3, 4), np.uint8))
    with rasterio.open(path, "r+") as dataset:
        dataset.update_tags(AREA_OR_POINT=tag)
    with rasterio.open(path) as dataset:
        assert open_sources([str(path)]).geobox.affine == tuple(dataset.transform)[:6]


@pytest.mark.parametrize("transform", [NORTH_UP, SOUTH_UP, ROTATED])
def test_pixels_come_in_storage_order_whatever_the_transform(tmp_path: Path, transform: Affine) -> None:
    data = np.arange(20, dtype=np.int16).reshape(4, 5)
    source = open_sources([str(write_raster(tmp_path / "x.tif", data, transform=transform))])
    assert source.geobox.affine == tuple(transform)[:6]
    np.testing.assert_array_equal(read(source)[0][0], data)


def test_a_view_of_a_larger_buffer_is_filled_in_place(tmp_path: Path) -> None:
    data = np.arange(3 * 40 * 50, dtype=np.uint16).reshape(3, 40, 50)
    path = write_raster(tmp_path / "x.tif", data, tiled=True, blockxsize=16, blockysize=16)
    window = Window(row=5, col=7, height=20, width=30)
    expected = data[:, 5:25, 7:37]
    with open_sources([str(path)]) as source:
        valid = np.empty((20, 30), bool)
        buffer = np.full((3, 26, 40), 65535, np.uint16)
        source.read(window, buffer[:, 4:24, 6:36], valid)
        np.testing.assert_array_equal(buffer[:, 4:24, 6:36], expected)
        buffer[:, 4:24, 6:36] = 65535
        assert (buffer == 65535).all()  # nothing beside the view was written
        # bands in another order, spaced unevenly, or pixel by pixel
        source.read(window, [buffer[band, 4:24, 6:36] for band in (2, 0, 1)], valid)
        np.testing.assert_array_equal(buffer[[2, 0, 1], 4:24, 6:36], expected)
        pixelwise = np.empty((20, 30, 3), np.uint16)
        source.read(window, pixelwise.transpose(2, 0, 1), valid)
        np.testing.assert_array_equal(pixelwise, expected.transpose(1, 2, 0))
        assert valid.all()


def test_bands_of_several_files_and_types_stack_on_one_grid(tmp_path: Path) -> None:
    one = write_raster(tmp_path / "red.tif", np.full((3, 4), 3, np.uint16), nodata=0)
    two = write_raster(
        tmp_path / "rest.tif", np.stack([np.full((3, 4), 0.5), np.full((3, 4), 0.25)]).astype(np.float32)
    )
    with rasterio.open(two, "r+") as dataset:
        pixels = dataset.read(2)
        pixels[0, 0] = np.nan
        dataset.write(pixels, 2)
    with open_sources([str(one), str(two), f"{one}:1"]) as source:
        assert [band.name for band in source.bands] == ["red", "rest_b1", "rest_b2", "red_1"]
        assert [band.source for band in source.bands] == ["red.tif", "rest.tif", "rest.tif", "red.tif"]
        assert [file.name for file in source.sources] == ["red.tif", "rest.tif"]
        assert [file.size_bytes for file in source.sources] == [one.stat().st_size, two.stat().st_size]
        pixels, valid = read(source)
        assert [float(band[1, 1]) for band in pixels] == [3, 0.5, 0.25, 3]
        assert np.argwhere(~valid).tolist() == [[0, 0]]
    with open_sources([str(one), str(two)], bands=["nir=3", "1"]) as source:
        assert [(band.name, band.source, band.index) for band in source.bands] == [
            ("nir", "rest.tif", 2),
            ("red", "red.tif", 1),
        ]


def test_the_storage_block_is_the_greatest_and_its_bytes_are_told(tmp_path: Path) -> None:
    one = write_raster(
        tmp_path / "a.tif",
        np.ones((2, 64, 64), np.uint16),
        tiled=True,
        blockxsize=32,
        blockysize=16,
        interleave="pixel",
    )
    two = write_raster(tmp_path / "b.tif", np.ones((64, 64), np.uint8), blockysize=64)
    assert open_sources([str(one)]).block_shape_yx == (16, 32)
    assert open_sources([str(one)]).block_bytes == 16 * 32 * 2 * 2
    assert open_sources([str(one), str(two)]).block_shape_yx == (64, 64)


def test_another_grid_is_refused_with_both_named(tmp_path: Path) -> None:
    data = np.ones((3, 4), np.uint8)
    one = write_raster(tmp_path / "one.tif", data)
    others = {
        "size": write_raster(tmp_path / "size.tif", np.ones((3, 5), np.uint8)),
        "shift": write_raster(tmp_path / "shift.tif", data, transform=Affine(10, 0, 500005, 0, -10, 4000000)),
        "crs": write_raster(tmp_path / "crs.tif", data, crs="EPSG:32619"),
    }
    for other in others.values():
        with pytest.raises(InputError, match="one grid") as error:
            open_sources([str(one), str(other)])
        assert other.name in str(error.value)
        assert one.name in str(error.value)


def test_rasters_that_say_nothing_of_their_place_need_the_flag(tmp_path: Path) -> None:
    plain = raster(tmp_path / "plain.tif")
    with pytest.raises(InputError, match="no georeference; pass --allow-ungeoreferenced"):
        open_sources([str(plain)])
    assert open_sources([str(plain)], allow_ungeoreferenced=True).warnings == ()
    points = [GroundControlPoint(row=r, col=c, x=c, y=r) for r, c in ((0, 0), (0, 4), (3, 0))]
    with pytest.raises(InputError, match="only GCPs"):
        open_sources([str(raster(tmp_path / "gcps.tif", gcps=points, crs="EPSG:4326"))])
    rpcs = rasterio.rpc.RPC(0, 1, 0, 1, [1.0] * 20, [1.0] * 20, 0, 1, 0, 1, [1.0] * 20, [1.0] * 20, 0, 1)
    with pytest.raises(InputError, match="only RPCs"):
        open_sources([str(raster(tmp_path / "rpcs.tif", rpcs=rpcs))])


def test_complex_bands_are_refused_unless_left_out(tmp_path: Path) -> None:
    for dtype in ("complex64", "complex128", "complex_int16"):
        path = tmp_path / f"{dtype}.tif"
        profile = {"driver": "GTiff", "width": 4, "height": 3, "count": 1, "dtype": dtype}
        with rasterio.open(path, "w", transform=NORTH_UP, crs="EPSG:32618", **profile):
            pass
        plain = write_raster(tmp_path / "plain.tif", np.ones((3, 4), np.uint8))
        with pytest.raises(InputError, match=r"band 1 .* is complex") as error:
            open_sources([str(path)])
        assert error.value.exit_code == 10
        assert [b.name for b in open_sources([str(path), str(plain)], bands=["2"]).bands] == ["plain"]


def test_a_band_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.ones((3, 4), np.uint8))
    with pytest.raises(UsageError, match="no band 2; the file has 1"):
        open_sources([f"{path}:2"])
    with pytest.raises(MissingInputError):
        open_sources([str(tmp_path / "none.tif"), str(path)])
    with pytest.raises(UsageError, match="no source"):
        open_sources([])


def test_case_26_nodata_is_compared_in_the_bands_type(tmp_path: Path) -> None:
    data = np.array([[-3.4e38, -3.4028235e38, 1]], np.float32)
    path = write_raster(tmp_path / "x.tif", data, nodata=float("-3.39999999999999996e+38"))
    assert read(open_sources([str(path)]))[1].tolist() == [[False, True, True]]


def test_case_25_nan_is_masked_with_and_without_a_tag(tmp_path: Path) -> None:
    data = np.array([[np.nan, -9999, np.inf]], np.float32)
    tagged = write_raster(tmp_path / "tag.tif", data, nodata=-9999)
    plain = write_raster(tmp_path / "plain.tif", data)
    assert read(open_sources([str(tagged)]))[1].tolist() == [[False, False, True]]
    assert read(open_sources([str(plain)]))[1].tolist() == [[False, True, True]]
    assert read(open_sources([str(plain)], nodata="-9999"))[1].tolist() == [[False, False, True]]


def test_nodata_given_by_the_user_replaces_the_files_own(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.array([[0, 1, 2]], np.uint8), nodata=0)
    assert read(open_sources([str(path)], nodata=2))[1].tolist() == [[True, True, False]]
    useless = open_sources([str(path)], nodata="-9999")
    assert useless.warnings == ("--nodata -9999 is no value of b1 (uint8); it masks nothing there",)
    assert not useless.has_mask
    with pytest.raises(UsageError, match="not a number"):
        open_sources([str(path)], nodata="none at all")


def test_large_integers_are_read_exactly(tmp_path: Path) -> None:
    data = np.array([[2**63 - 1, -(2**63), 2**53 + 1]], np.int64)
    path = write_raster(tmp_path / "x.tif", data)
    with open_sources([str(path)], nodata=str(2**53 + 1)) as source:
        pixels, valid = read(source)
        np.testing.assert_array_equal(pixels[0], data)
        assert valid.tolist() == [[True, True, False]]


@pytest.mark.parametrize("external", [False, True])
def test_case_30_mask_band_and_nodata_unite(tmp_path: Path, external: bool) -> None:
    data = np.array([[0, 1, 2], [3, 4, 5]], np.uint8)
    mask = np.array([[True, True, True], [False, True, True]])
    path = write_raster(tmp_path / "x.tif", data, nodata=0, mask=mask, external_mask=external)
    assert (tmp_path / "x.tif.msk").exists() == external
    expected = mask & (data != 0)
    with open_sources([str(path)]) as source:
        assert source.has_mask
        np.testing.assert_array_equal(read(source)[1], expected)
        np.testing.assert_array_equal(read(source, Window(row=1, col=0, height=1, width=2))[1], expected[1:, :2])


def test_case_30_alpha_and_nodata_unite(tmp_path: Path) -> None:
    data = np.array([[[0, 1, 2]], [[1, 1, 0]], [[65535, 0, 300]]], np.uint16)
    path = write_raster(tmp_path / "x.tif", data, nodata=0)
    with rasterio.open(path, "r+") as dataset:
        dataset.colorinterp = [ColorInterp.gray, ColorInterp.undefined, ColorInterp.alpha]
    with open_sources([str(path)]) as source:
        assert [band.name for band in source.bands] == ["b1", "b2"]
        assert read(source)[1].tolist() == [[False, False, False]]
    with open_sources([str(path)], bands=["2"]) as source:
        assert read(source)[1].tolist() == [[True, False, False]]


def test_only_selected_bands_mask(tmp_path: Path) -> None:
    data = np.array([[[0, 1]], [[1, 0]]], np.uint8)
    path = write_raster(tmp_path / "x.tif", data, nodata=0)
    assert read(open_sources([str(path)], bands=["2"]))[1].tolist() == [[True, False]]
    assert read(open_sources([f"{path}:1"]))[1].tolist() == [[False, True]]


def test_a_raster_of_alpha_alone_asks_for_bands(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.ones((3, 4), np.uint8))
    with rasterio.open(path, "r+") as dataset:
        dataset.colorinterp = [ColorInterp.alpha]
    with pytest.raises(InputError, match="alpha bands only"):
        open_sources([str(path)])
    assert len(open_sources([str(path)], bands=["1"]).bands) == 1


def test_case_37_descriptions_name_features(tmp_path: Path) -> None:
    path = write_raster(
        tmp_path / "x.tif", np.ones((3, 2, 2), np.uint8), descriptions=("B4", "B4", None), crs="EPSG:32618"
    )
    assert [band.name for band in open_sources([str(path)]).bands] == ["B4", "B4_1", "b3"]


def test_case_37_descriptions_that_are_not_utf8_are_skipped_with_a_warning(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.ones((2, 2, 2), np.uint8), descriptions=("ABCDEFGH", "größe"))
    assert [band.name for band in open_sources([str(path)]).bands] == ["ABCDEFGH", "größe"]
    path.write_bytes(path.read_bytes().replace(b"ABCDEFGH", b"ABC\xe9\xe8FGH"))
    source = open_sources([str(path)])
    assert [band.name for band in source.bands] == ["b1", "größe"]
    assert source.warnings == (f"{path}: descriptions that are not UTF-8 are skipped: of band 1",)


def test_case_37_every_tag_that_is_not_utf8_is_skipped_and_no_other(tmp_path: Path) -> None:
    names = ("ABCD", "B<&>", "赤", "", "EFGH", "B<&>")
    data = np.arange(24, dtype=np.int64).reshape(6, 2, 2)
    path = write_raster(tmp_path / "x.tif", data, descriptions=names, nodata=3)
    with rasterio.open(path, "r+") as dataset:
        dataset.update_tags(NOTE="NOTE-OF-FILE")
        dataset.update_tags(2, NOTE="NOTE-OF-BAND")
    raw = path.read_bytes()
    for text in (b"ABCD", b"EFGH", b"NOTE-OF-FILE", b"NOTE-OF-BAND"):
        assert text in raw
        raw = raw.replace(text, b"\xe9" * len(text))
    path.write_bytes(raw)
    source = open_sources([str(path)])
    assert [band.name for band in source.bands] == ["b1", "B<&>", "赤", "b4", "b5", "B<&>_1"]
    assert source.warnings == (f"{path}: descriptions that are not UTF-8 are skipped: of band 1, 5",)
    pixels, valid = read(source)
    assert np.array_equal(pixels, data)
    assert valid.tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
@pytest.mark.parametrize("name", ["\ufffe", "a\uffffb", "a]]>b", "&lt;", "x\ty", "\U0001f30d"])
def test_names_that_no_xml_may_hold_are_kept(name: str, dtype: str, tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.ones((1, 2, 2), dtype), descriptions=(name,))
    assert [band.name for band in open_sources([str(path)]).bands] == [name]


def test_a_pickled_source_and_a_reopened_one_read_the_same(tmp_path: Path) -> None:
    data = np.arange(12, dtype=np.uint8).reshape(3, 4)
    source = open_sources([str(write_raster(tmp_path / "x.tif", data, nodata=0))])
    expected = read(source)
    for other in (pickle.loads(pickle.dumps(source)), source.reopen()):
        assert (other.geobox, other.bands, other.sources) == (source.geobox, source.bands, source.sources)
        found: list[tuple[list[np.ndarray], np.ndarray]] = []
        thread = threading.Thread(target=lambda other=other, found=found: found.append(read(other)))
        thread.start()
        thread.join()
        np.testing.assert_array_equal(found[0][0], expected[0])
        np.testing.assert_array_equal(found[0][1], expected[1])
        other.close()
        np.testing.assert_array_equal(read(other)[1], expected[1])  # a closed one opens again
        other.close()
    source.close()


def test_case_49_a_forked_process_reads_through_handles_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []

    def counting(path: Path, **options: Any) -> Any:
        opened.append(path)
        return safe_open(path, **options)

    source = open_sources([str(write_raster(tmp_path / "x.tif", np.ones((3, 4), np.uint8)))])
    monkeypatch.setattr("geotfr.rasters.readers.safe_open", counting)
    for pid, handles in ((1, 1), (1, 1), (2, 2), (2, 2)):
        monkeypatch.setattr("os.getpid", lambda pid=pid: pid)
        read(source)
        assert len(opened) == handles
    source.close()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("compress", ["none", "deflate", "lzw"])
def test_case_50_a_truncated_file_is_told_with_bands_and_window(tmp_path: Path, compress: str, threads: int) -> None:
    data = np.random.default_rng(0).integers(0, 65535, (2, 512, 512)).astype(np.uint16)
    path = write_raster(tmp_path / "x.tif", data, tiled=True, blockxsize=256, blockysize=256, compress=compress)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    with open_sources([str(path)], threads=threads) as source:
        out = np.empty((2, 512, 512), np.uint16)
        with pytest.raises(ReadError) as error:
            source.read(whole(source), out, np.empty((512, 512), bool))
        assert error.value.exit_code == 12
        assert str(error.value).startswith(f"{path}: bands 1, 2, rows 0-511, columns 0-511: can't be read: ")
        assert "see previous" not in str(error.value).lower()


def test_threads_give_the_same_pixels(tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(0, 900, (3, 300, 700)).astype(np.uint16)
    path = write_raster(
        tmp_path / "x.tif", data, tiled=True, blockxsize=256, blockysize=256, compress="deflate", nodata=5
    )
    for threads in (1, 2):
        with open_sources([str(path)], threads=threads) as source:
            pixels, valid = read(source)
            np.testing.assert_array_equal(pixels, data)
            np.testing.assert_array_equal(valid, (data != 5).all(axis=0))


def test_each_bands_own_mask_masks(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.ones((2, 1, 3), np.uint8))
    masks = np.array([[[255, 0, 255]], [[255, 255, 0]]], np.uint8)
    with rasterio.open(
        tmp_path / "x.tif.msk", "w", driver="GTiff", width=3, height=1, count=2, dtype="uint8", transform=NORTH_UP
    ) as dataset:
        dataset.write(masks)
        dataset.update_tags(INTERNAL_MASK_FLAGS_1=0, INTERNAL_MASK_FLAGS_2=0)
    with rasterio.open(path) as dataset:
        np.testing.assert_array_equal(dataset.read_masks(), masks)
    with open_sources([str(path)]) as source:
        assert source.has_mask
        assert read(source)[1].tolist() == [[True, False, False]]
    with open_sources([str(path)], bands=["2"]) as source:
        assert read(source)[1].tolist() == [[True, True, False]]


def test_a_colour_that_means_nodata_masks_where_all_bands_have_it(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.array([[[5, 5, 1]], [[7, 1, 7]]], np.uint8))
    with rasterio.open(path, "r+") as dataset:
        dataset.update_tags(NODATA_VALUES="5 7")
    with open_sources([str(path)]) as source:
        assert read(source)[1].tolist() == [[False, True, True]]


def test_scale_offset_and_description_are_told(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.ones((2, 2, 2), np.int16), descriptions=("a", None), nodata=-1)
    with rasterio.open(path, "r+") as dataset:
        dataset.scales = (0.5, 1)
        dataset.offsets = (0, -3)
    first, second = open_sources([str(path)]).bands
    assert (first.scale, first.offset, first.description, first.nodata) == (0.5, 0, "a", (-1,))
    assert (second.scale, second.offset, second.description, second.name) == (1, -3, "", "b2")


def test_a_nodata_tag_that_the_type_cannot_hold_masks_nothing(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "x.tif", np.ones((2, 2), np.int16), nodata=-12345)
    path.write_bytes(path.read_bytes().replace(b"-12345\x00", b"-99999\x00"))
    source = open_sources([str(path)])
    assert source.bands[0].nodata == ()
    assert read(source)[1].all()
