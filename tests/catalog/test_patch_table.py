"""The table that an export writes: against numpy over the whole raster, and against the records that it names."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from oracle.rasters import NORTH_UP, ROTATED, SOUTH_UP, numbered, write_raster
from oracle.run import assert_refused, contents, run

import geotfr

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("pyarrow")
geopandas = pytest.importorskip("geopandas")
shapely = pytest.importorskip("shapely")


def table_of(result: geotfr.ExportResult) -> Any:
    assert result.patch_table is not None
    return geopandas.read_parquet(result.patch_table)


def scene(folder: Path, dtype: str = "int16", **options: Any) -> tuple[Path, np.ndarray, np.ndarray]:
    """A raster of 2 bands, 13 x 11 pixels, with nodata here and there: its path, pixels and validity of each band."""
    rng = np.random.default_rng(7)
    pixels = rng.integers(-300, 300, (2, 11, 13)).astype(dtype)
    pixels[0, :4, :5] = -999
    pixels[1, 8, 9] = -999
    path = write_raster(folder / "scene.tif", pixels, nodata=-999, descriptions=("red", "nir"), **options)
    return path, pixels, pixels != -999


def cores(array: np.ndarray, patch: tuple[int, int]) -> list[np.ndarray]:
    """The patches of ``array`` ``(…, row, col)``, partial ones left out, row by row."""
    height, width = patch
    return [
        array[..., row : row + height, col : col + width]
        for row in range(0, array.shape[-2] - height + 1, height)
        for col in range(0, array.shape[-1] - width + 1, width)
    ]


@pytest.mark.parametrize("mask_mode", ["pixel", "band"])
@pytest.mark.parametrize("dtype", ["int16", "int32", "float32", "float64"])
def test_statistics_are_those_of_the_whole_raster_cut_by_numpy(tmp_path: Path, dtype: str, mask_mode: str) -> None:
    path, pixels, valid = scene(tmp_path, dtype)
    result = geotfr.export_image(
        path, tmp_path / "set", patch_dimensions=(4, 3), kernel_size=5, mask_mode=mask_mode, patch_table=True
    )
    table = table_of(result)
    own = np.broadcast_to(valid.all(axis=0), valid.shape) if mask_mode == "pixel" else valid
    assert table["number"].tolist() == list(range(9))
    assert list(zip(table["row"], table["column"], strict=True)) == [(r, c) for r in range(3) for c in range(3)]
    masked = [1 - core.mean() for core in cores(valid.all(axis=0), (3, 4))]
    np.testing.assert_allclose(table["masked_share"], masked, atol=1e-12)
    np.testing.assert_allclose(table["valid_share"], 1 - np.array(masked), atol=1e-12)
    for band, name in enumerate(("red", "nir")):
        for number, (values, seen) in enumerate(
            zip(cores(pixels[band], (3, 4)), cores(own[band], (3, 4)), strict=True)
        ):
            row = table.iloc[number]
            kept = values[seen].astype(float)
            assert row[f"count_{name}"] == len(kept)
            if not len(kept):
                assert row[[f"min_{name}", f"max_{name}", f"mean_{name}", f"std_{name}"]].isna().all()
                continue
            assert (row[f"min_{name}"], row[f"max_{name}"]) == (kept.min(), kept.max())
            assert row[f"mean_{name}"] == pytest.approx(kept.mean(), rel=1e-14, abs=1e-12)
            assert row[f"std_{name}"] == pytest.approx(kept.std(), rel=1e-13, abs=1e-12)


def payload_at(folder: Path, row: Any) -> bytes:
    """The payloads that a row names, with their framing, found from the gzip member on."""
    data = (folder / row["shard"]).read_bytes()
    skip = row["offset"]
    if not np.isnan(row["member"]):
        data = gzip.decompress(data[int(row["member"]) :])
        skip -= row["member_start"]
    return data[int(skip) : int(skip) + int(row["length"])]


KINDS = {
    "gzip": {},
    "ee": {"compressor": "ee"},
    "plain": {"compressed": False},
    "small shards": {"max_file_size": 400},
    "native": {"feature_kinds": "native", "max_file_size": 300},
    "index": {"patch_index": "id", "max_file_size": 500},
    "threshold": {"masked_threshold": 0.5},
    "cloud": {"naming": "cloud-storage", "max_file_size": 400},
}


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_a_row_names_its_record_and_its_digest(tmp_path: Path, options: dict[str, Any]) -> None:
    path, _, _ = scene(tmp_path)
    result = geotfr.export_image(path, tmp_path / "set", patch_dimensions=(3, 2), patch_table=True, **options)
    table = table_of(result)
    payloads = list(geotfr.read_records(result.shards))
    assert len(table) == len(payloads) == result.patches_written
    for payload, (_, row) in zip(payloads, table.iterrows(), strict=True):
        assert row["sha256"] == hashlib.sha256(payload).digest()
        assert payload_at(tmp_path, row)[12:-4] == payload
    counts = table.groupby("shard", sort=False)["record"]
    assert all(numbers.tolist() == list(range(len(numbers))) for _, numbers in counts)
    manifest = json.loads(result.manifest.read_text())
    kept = sorted(set(range(result.plan.layout.count)) - set(manifest["patches_dropped"]))
    assert table["number"].tolist() == kept


@pytest.mark.parametrize("feature_kinds", ["float", "native"])
def test_a_row_of_sequences_stands_for_all_records_of_its_patch(tmp_path: Path, feature_kinds: str) -> None:
    path, _, _ = scene(tmp_path)
    result = geotfr.export_image(
        path,
        tmp_path / "set",
        patch_dimensions=(3, 2),
        kernel_size=3,
        sequence_data=True,
        feature_kinds=feature_kinds,
        max_file_size=2000,
        compressed=False,
        patch_table=True,
    )
    table = table_of(result)
    framed = b"".join(shard.read_bytes() for shard in result.shards)
    before = dict(
        zip([s.name for s in result.shards], np.cumsum([0, *(s.stat().st_size for s in result.shards)]), strict=False)
    )
    assert set(table["records"]) == {20}
    for _, row in table.iterrows():
        start = before[row["shard"]] + row["offset"]
        assert row["sha256"] == hashlib.sha256(framed[start : start + row["length"]]).digest()
    assert table["length"].sum() == len(framed)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_the_other_files_are_the_same_with_and_without_the_table(tmp_path: Path, options: dict[str, Any]) -> None:
    path, _, _ = scene(tmp_path)
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
        geotfr.export_image(
            path, tmp_path / name / "set", patch_dimensions=(3, 2), patch_table=name == "with", **options
        )
    files = contents(tmp_path / "with")
    table = [name for name in files if name.endswith("patches.parquet")]
    assert len(table) == 1
    del files[table[0]]
    assert files == contents(tmp_path / "without")


GRIDS = {
    "utm": (NORTH_UP, "EPSG:32618"),
    "south up": (SOUTH_UP, "EPSG:4326"),
    "rotated": (ROTATED, "EPSG:32618"),
    "no crs": (NORTH_UP, None),
}


@pytest.mark.parametrize(("transform", "crs"), GRIDS.values(), ids=GRIDS)
def test_footprints_are_the_patches_without_margins(tmp_path: Path, transform: Any, crs: str | None) -> None:
    path = write_raster(tmp_path / "scene.tif", numbered(1, 7, 9), transform=transform, crs=crs)
    result = geotfr.export_image(path, tmp_path / "set", patch_dimensions=(3, 2), kernel_size=4, patch_table=True)
    table = table_of(result)
    assert (table.crs is None) == (crs is None)
    assert crs is None or table.crs.to_authority() == tuple(crs.split(":"))
    for _, row in table.iterrows():
        corners = [(row["column"] * 3 + x, row["row"] * 2 + y) for x, y in ((0, 0), (3, 0), (3, 2), (0, 2))]
        expected = shapely.Polygon([transform @ corner for corner in corners])
        assert row["geometry"].equals_exact(expected.normalize(), 1e-6) or row["geometry"].normalize().equals_exact(
            expected.normalize(), 1e-6
        )
        assert row["geometry"].exterior.is_ccw
    if crs is None:
        assert table[["west", "south", "east", "north"]].isna().all(axis=None)


def test_bounds_are_those_of_a_densified_outline(tmp_path: Path) -> None:
    pyproj = pytest.importorskip("pyproj")
    transform = type(NORTH_UP)(100_000, 0, 3_000_000, 0, -100_000, 4_000_000)
    path = write_raster(tmp_path / "scene.tif", numbered(1, 8, 8), transform=transform, crs="EPSG:3035")
    result = geotfr.export_image(path, tmp_path / "set", patch_dimensions=4, patch_table=True)
    to_lonlat = pyproj.Transformer.from_crs("EPSG:3035", "OGC:CRS84", always_xy=True)
    for _, row in table_of(result).iterrows():
        dense = shapely.segmentize(row["geometry"], 1000)
        lon, lat = to_lonlat.transform(*np.array(dense.exterior.coords).T)
        found = row[["west", "south", "east", "north"]].to_numpy(float)
        np.testing.assert_allclose(found, [lon.min(), lat.min(), lon.max(), lat.max()], atol=2e-4)


def test_a_patch_over_the_antimeridian_has_its_west_east_of_its_east(tmp_path: Path) -> None:
    transform = type(NORTH_UP)(1000, 0, 800_000, 0, -1000, 4000)
    path = write_raster(tmp_path / "scene.tif", numbered(1, 4, 80), transform=transform, crs="EPSG:32660")
    table = table_of(geotfr.export_image(path, tmp_path / "set", patch_dimensions=(40, 4), patch_table=True))
    assert 179 < table["west"][0] < 180
    assert -180 < table["east"][0] < -179
    assert -180 < table["west"][1] < table["east"][1] < -179


def test_a_patch_around_a_pole_reaches_to_it(tmp_path: Path) -> None:
    transform = type(NORTH_UP)(100_000, 0, -300_000, 0, -100_000, 300_000)
    path = write_raster(tmp_path / "scene.tif", numbered(1, 6, 6), transform=transform, crs="EPSG:3995")
    row = table_of(geotfr.export_image(path, tmp_path / "set", patch_dimensions=6, patch_table=True)).iloc[0]
    assert (row["west"], row["east"], row["north"]) == (-180, 180, 90)
    assert 85 < row["south"] < 88


def test_class_shares_are_counted_over_all_pixels(tmp_path: Path) -> None:
    classes = np.array([[1, 1, 2, 0], [1, 7, 2, 2]], "uint8")
    path = write_raster(tmp_path / "classes.tif", classes, nodata=0, descriptions=("kind",))
    result = geotfr.export_image(path, tmp_path / "set", patch_dimensions=2, patch_table=True, class_bands="kind")
    table = table_of(result)
    assert [name for name in table.columns if name.startswith("share_")] == ["share_1", "share_2", "share_7"]
    assert table["share_1"].tolist() == [0.75, 0]
    assert table["share_2"].tolist() == [0, 0.75]
    assert table["share_7"].tolist() == [0.25, 0]


def test_statistics_of_array_bands_are_over_all_their_elements(tmp_path: Path) -> None:
    pixels = numbered(3, 2, 2, "uint16")
    path = write_raster(tmp_path / "scene.tif", pixels)
    result = geotfr.export_image(
        path, tmp_path / "set", patch_dimensions=2, array_bands=["evi=1-3"], tensor_depths="evi=4", patch_table=True
    )
    row = table_of(result).iloc[0]
    assert (row["count_evi"], row["min_evi"], row["max_evi"]) == (12, 1, 12)
    assert row["std_evi"] == pytest.approx(pixels.std())


def test_large_patches_are_summed_in_slabs(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 65535, (1, 600, 700)).astype("uint16")
    valid = pixels[0] % 5 > 0
    path = write_raster(tmp_path / "scene.tif", pixels, mask=valid)
    row = table_of(geotfr.export_image(path, tmp_path / "set", patch_dimensions=(700, 600), patch_table=True)).iloc[0]
    kept = pixels[0][valid].astype(float)
    assert row["count_b1"] == len(kept)
    assert row["mean_b1"] == pytest.approx(kept.mean(), rel=1e-14)
    assert row["std_b1"] == pytest.approx(kept.std(), rel=1e-13)


def test_the_table_is_the_same_for_any_number_of_workers_and_strips(tmp_path: Path) -> None:
    path, _, _ = scene(tmp_path, blockxsize=16, blockysize=16, tiled=True)
    for workers in (1, 3):
        (tmp_path / f"{workers}").mkdir()
        prefix = tmp_path / f"{workers}" / "set"
        geotfr.export_image(path, prefix, patch_dimensions=2, kernel_size=3, workers=workers, patch_table=True)
    assert contents(tmp_path / "1") == contents(tmp_path / "3")


def stopped(after_shards: int) -> Callable[[int, int], None]:
    """Progress that stops the run at the first report after so many bytes were written."""
    seen = 0

    def report(patches: int, size: int) -> None:
        nonlocal seen
        seen += bool(size)
        if seen > after_shards:
            raise KeyboardInterrupt

    return report


def test_a_resumed_export_has_the_table_of_one_that_was_not_stopped(tmp_path: Path) -> None:
    path, _, _ = scene(tmp_path)
    options: dict[str, Any] = {
        "patch_dimensions": (3, 2),
        "max_file_size": 400,
        "masked_threshold": 0.6,
        "patch_table": True,
    }
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    geotfr.export_image(path, tmp_path / "whole" / "set", **options)
    with pytest.raises(KeyboardInterrupt):
        geotfr.export_image(path, tmp_path / "stopped" / "set", resume=True, progress=stopped(2), **options)
    again = geotfr.export_image(path, tmp_path / "stopped" / "set", resume=True, **options)
    assert again.shards_resumed > 0
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_an_older_table_of_the_set_goes_with_it(tmp_path: Path) -> None:
    path, _, _ = scene(tmp_path)
    first = geotfr.export_image(path, tmp_path / "set", patch_dimensions=2, patch_table=True)
    assert first.patch_table is not None
    with pytest.raises(geotfr.OutputError, match="exists already"):
        geotfr.export_image(path, tmp_path / "set", patch_dimensions=2, patch_table=True)
    geotfr.export_image(path, tmp_path / "set", patch_dimensions=3, overwrite=True)
    assert not first.patch_table.exists()


def test_a_parquet_file_of_the_users_is_not_replaced(tmp_path: Path) -> None:
    path, _, _ = scene(tmp_path)
    (tmp_path / "set-patches.parquet").write_bytes(b"mine")
    geotfr.export_image(path, tmp_path / "set", patch_dimensions=2)
    with pytest.raises(geotfr.OutputExistsError, match=r"set-patches\.parquet"):
        geotfr.export_image(path, tmp_path / "set", patch_dimensions=2, overwrite=True, patch_table=True)
    assert (tmp_path / "set-patches.parquet").read_bytes() == b"mine"


def test_every_patch_left_out_gives_a_table_without_rows(tmp_path: Path) -> None:
    path = write_raster(tmp_path / "empty.tif", np.zeros((4, 4), "uint8"), nodata=0)
    result = geotfr.export_image(path, tmp_path / "set", patch_dimensions=2, masked_threshold=0.5, patch_table=True)
    table = table_of(result)
    assert len(table) == 0
    assert {"number", "mean_b1", "geometry"} <= set(table.columns)


def test_the_command_writes_the_table_and_tells_where(tmp_path: Path) -> None:
    path, _, _ = scene(tmp_path)
    done = run("export", path, "-o", tmp_path / "set", "--patch-dimensions", "2", "--patch-table", "--json")
    assert done.code == 0, done.told
    assert json.loads(done.stdout)["patch_table"] == str(tmp_path / "set-patches.parquet")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--class-bands", "red"), ("--patch-table",)),
        (("--patch-table", "--class-bands", "blue"), ("no band 'blue'", "red, nir")),
    ],
    ids=["without a table", "no such band"],
)
def test_class_bands_that_mean_nothing_are_refused(
    tmp_path: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    path, _, _ = scene(tmp_path)
    done = run("export", path, "-o", tmp_path / "set", "--patch-dimensions", "2", *options)
    assert_refused(done, 2, *words)
    assert not list(tmp_path.glob("set*"))


def test_float_bands_are_no_classes(tmp_path: Path) -> None:
    path, _, _ = scene(tmp_path, "float32")
    done = run(
        "export", path, "-o", tmp_path / "set", "--patch-dimensions", "2", "--patch-table", "--class-bands", "red", "-q"
    )
    assert_refused(done, 2, "'red' is float32", "whole numbers")


def test_without_pyarrow_one_line_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path, _, _ = scene(tmp_path)
    done = run("export", path, "-o", tmp_path / "set", "--patch-dimensions", "2", "--patch-table", "-q")
    assert_refused(done, 2, "pip install 'geotfr[table]'")
