"""Patches that are left out keep their place, and those that are written are the ones that numpy chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.patches import read_manifest, written
from oracle.rasters import NORTH_UP, write_raster
from oracle.run import assert_refused, run

import geotfr
from geotfr.errors import GeotfrError
from geotfr.pipeline.export.draw import draw, strata_of

if TYPE_CHECKING:
    from pathlib import Path

ROWS, COLUMNS, PATCH = 5, 6, 8
COUNT = ROWS * COLUMNS


def scene(folder: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    """Raster of an image and a class band, with a mask; (path, classes, valid)."""
    random = np.random.default_rng(5)
    shape = ROWS * PATCH, COLUMNS * PATCH
    share = np.kron(random.random((ROWS, COLUMNS)), np.ones((PATCH, PATCH)))
    classes = (random.random(shape) < share).astype(np.uint16) * random.integers(1, 4, shape)
    valid = random.random(shape) < np.kron(random.random((ROWS, COLUMNS)), np.ones((PATCH, PATCH)))
    data = np.stack([np.arange(classes.size).reshape(shape), classes]).astype(np.uint16)
    path = write_raster(folder / "scene.tif", data, mask=valid, descriptions=("image", "class"))
    return path, classes, valid


def shares(plane: np.ndarray) -> np.ndarray:
    """Share of True pixels of each patch, ``(patch,)``."""
    return plane.reshape(ROWS, PATCH, COLUMNS, PATCH).mean(axis=(1, 3)).ravel()


def export(source: Path, folder: Path, **options: Any) -> geotfr.ExportResult:
    return geotfr.export_image(source, folder / "out", patch_dimensions=PATCH, overwrite=True, **options)


def assert_written(folder: Path, wanted: np.ndarray, source: Path) -> None:
    """The patches ``wanted`` are written, unchanged; the manifest tells the others; a mixer only if all are there."""
    import rasterio

    with rasterio.open(source) as dataset:
        image, valid = dataset.read(1).astype(np.float32), dataset.dataset_mask() > 0
    image[~valid] = 0
    patches = written(folder)
    assert sorted(patches) == np.flatnonzero(wanted).tolist()
    for number, features in patches.items():
        row, column = divmod(number, COLUMNS)
        core = image[row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH]
        np.testing.assert_array_equal(features["image"], core)
    manifest = read_manifest(folder)
    assert manifest["patches_dropped"] == np.flatnonzero(~wanted).tolist()
    assert manifest["patches_written"] == wanted.sum()
    mixers = [path.name for path in folder.glob("out*.json") if path.name != "out-manifest.json"]
    assert bool(mixers) == bool(wanted.all())


def test_valid_and_class_shares_choose_as_numpy_does(tmp_path: Path) -> None:
    source, classes, valid = scene(tmp_path)
    valid_share, two = shares(valid), shares((classes == 2) & valid)
    export(source, tmp_path, min_valid=0.4)
    assert_written(tmp_path, valid_share >= 0.4, source)
    export(source, tmp_path, min_share="2=0.05", class_band="class")
    assert_written(tmp_path, two >= 0.05, source)
    export(source, tmp_path, min_share={"2": 0.05, "1": 0.03}, min_valid=0.2, class_band="class", workers=1)
    one = shares((classes == 1) & valid)
    assert_written(tmp_path, (two >= 0.05) & (one >= 0.03) & (valid_share >= 0.2), source)


def test_a_share_that_just_meets_the_least_is_kept_and_all_kept_have_a_mixer(tmp_path: Path) -> None:
    source, _, valid = scene(tmp_path)
    least = float(np.sort(shares(valid))[4])
    export(source, tmp_path, min_valid=least)
    assert_written(tmp_path, shares(valid) >= least, source)
    export(source, tmp_path, min_valid=0)
    assert_written(tmp_path, np.ones(COUNT, bool), source)


@pytest.mark.parametrize("form", ["tuple", "txt", "csv", "patch-table"])
def test_numbers_are_kept_in_each_form(form: str, tmp_path: Path) -> None:
    source, _, _ = scene(tmp_path)
    numbers = [3, 4, 5, 17, 29]
    keep: Any = tuple(numbers)
    if form == "txt":
        keep = tmp_path / "keep.txt"
        keep.write_text("# mine\n3 4,5\n\n17; 29\n")
    elif form == "csv":
        keep = tmp_path / "keep.csv"
        keep.write_text("number,name\n" + "".join(f"{number},x\n" for number in numbers))
    elif form == "patch-table":
        keep = tmp_path / "out-patches.parquet"
        export(source, tmp_path, keep=tuple(numbers), patch_table=True)
        keep = keep.rename(tmp_path / "mine.parquet")
    export(source, tmp_path, keep=keep)
    assert_written(tmp_path, np.isin(np.arange(COUNT), numbers), source)


def test_footprints_keep_patches_by_their_centres_and_within_by_their_whole(tmp_path: Path) -> None:
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    source, _, _ = scene(tmp_path)
    a, _, x, _, e, y = NORTH_UP[:6]

    def box(row: float, col: float, rows: float, cols: float) -> Any:
        left, top = x + a * col * PATCH, y + e * row * PATCH
        return shapely.box(left, top + e * rows * PATCH, left + a * cols * PATCH, top)

    # The first two together hold patch (1, 1) whole; the third cuts its patches.
    shapes = [box(1, 1, 0.5, 2), box(1.5, 1, 1.5, 1), box(3.4, 3.4, 1.3, 1.3)]
    frame = geopandas.GeoDataFrame(geometry=shapes, crs="EPSG:32618")
    frame.to_crs("EPSG:4326").to_file(tmp_path / "area.geojson", COORDINATE_PRECISION=15)
    whole, centres = np.zeros((ROWS, COLUMNS), bool), np.zeros((ROWS, COLUMNS), bool)
    for row in range(ROWS):
        for column in range(COLUMNS):
            core = box(row, column, 1, 1)
            whole[row, column] = shapely.union_all(shapes).buffer(1e-3).contains(core)
            centres[row, column] = any(shape.buffer(1e-6).contains(core.centroid) for shape in shapes)
    assert whole.sum() == 2
    assert centres.sum() > 3
    for area in (frame, tmp_path / "area.geojson"):
        export(source, tmp_path, within=area)
        assert_written(tmp_path, whole.ravel(), source)
    export(source, tmp_path, keep=frame)
    assert_written(tmp_path, centres.ravel(), source)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_draw_depends_on_the_seed_alone(workers: int, tmp_path: Path) -> None:
    source, _, _ = scene(tmp_path)
    found = []
    for seed in (0, 0, 1):
        export(source, tmp_path, sample=7, seed=seed, workers=workers)
        wanted = np.isin(np.arange(COUNT), list(written(tmp_path)))
        assert_written(tmp_path, wanted, source)
        found.append(np.flatnonzero(wanted).tolist())
    assert found[0] == found[1] == [0, 2, 9, 11, 17, 20, 21] != found[2]
    assert len(found[2]) == 7


def test_strata_of_pixels_and_of_columns_get_their_share(tmp_path: Path) -> None:
    source, classes, valid = scene(tmp_path)
    export(source, tmp_path, sample=12, stratify="valid_share")
    kept = np.array(sorted(written(tmp_path)))
    strata = np.ceil(shares(valid) * 10)
    for stratum in np.unique(strata):
        exact = 12 * (strata == stratum).sum() / COUNT
        assert abs((strata[kept] == stratum).sum() - exact) < 1
    export(source, tmp_path, balance="share_1", class_band="class", min_valid=0.1)
    kept = np.array(sorted(written(tmp_path)))
    allowed = shares(valid) >= 0.1
    strata = np.ceil(shares((classes == 1) & valid) * 10)
    sizes = [(strata[kept] == stratum).sum() for stratum in np.unique(strata[allowed])]
    assert set(sizes) == {min((strata[allowed] == stratum).sum() for stratum in np.unique(strata[allowed]))}
    assert allowed[kept].all()
    (tmp_path / "keep.csv").write_text(
        "number,region\n" + "".join(f"{number},{'north' if number < 10 else 'south'}\n" for number in range(24))
    )
    export(source, tmp_path, keep=tmp_path / "keep.csv", balance="region", sample=8)
    kept = np.array(sorted(written(tmp_path)))
    assert ((kept < 10).sum(), (kept >= 10).sum(), kept.max() < 24) == (4, 4, True)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(-1, 3)), min_size=1, max_size=60),
    st.one_of(st.none(), st.integers(1, 70)),
    st.integers(0, 2**63 - 1),
)
def test_draws_are_subsets_of_the_wanted_size(places: list[tuple[bool, int]], count: int | None, seed: int) -> None:
    allowed, strata = (np.array(each) for each in zip(*places, strict=True))
    if not allowed.any():
        return
    drawn = draw(allowed, strata, count=count, is_balanced=False, seed=seed)
    assert not (drawn & ~allowed).any()
    assert drawn.sum() == min(count or len(places), allowed.sum())
    for stratum in np.unique(strata[allowed]):
        size = (allowed & (strata == stratum)).sum()
        assert abs((drawn & (strata == stratum)).sum() - drawn.sum() * size / allowed.sum()) < 1
    balanced = draw(allowed, strata, count=None, is_balanced=True, seed=seed)
    assert len({(balanced & (strata == stratum)).sum() for stratum in np.unique(strata[allowed])}) == 1
    # What a place's luck is doesn't depend on which others are allowed.
    one = draw(np.ones(len(places), bool), None, count=3, is_balanced=False, seed=seed)
    two = draw(one, None, count=2, is_balanced=False, seed=seed)
    assert (two & one).sum() == min(2, one.sum())


def test_shares_fall_into_tenths() -> None:
    assert strata_of(np.array([0, 0.05, 0.1, 0.11, 1])).tolist() == [0, 1, 1, 2, 10]


def test_predictions_of_chosen_patches_map_to_their_places(tmp_path: Path) -> None:
    import rasterio

    source, _, _ = scene(tmp_path)
    result = export(source, tmp_path, keep=(0, 7, 13, 29), bands="image")
    geotfr.ingest_predictions(result.manifest, result.shards, tmp_path / "map.tif", nodata=-1)
    with rasterio.open(tmp_path / "map.tif") as dataset:
        found = dataset.read(1)
    for number, features in written(tmp_path).items():
        row, column = divmod(number, COLUMNS)
        np.testing.assert_array_equal(
            found[row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH], features["image"]
        )
    assert (found == -1).sum() == (COUNT - 4) * PATCH * PATCH


@pytest.mark.parametrize(
    ("options", "words", "code"),
    [
        ({"min_share": "1=0.5"}, "--min-share: there are no classes; give --labels", 2),
        ({"min_share": "0.5", "class_band": "class"}, "allowed is CLASS=SHARE", 2),
        ({"min_share": "water=0.5", "class_band": "class"}, "band 'class' has no class 'water'", 2),
        ({"min_share": "1=1.5", "class_band": "class"}, "allowed is a share from 0 to 1", 2),
        ({"min_share": "1=0.5", "class_band": "clas"}, "no band 'clas'; did you mean class", 2),
        ({"min_valid": 2}, "allowed is a share from 0 to 1", 2),
        ({"keep": (30,)}, "there is no patch 30: the grid has 30, numbered from 0", 10),
        ({"keep": (-1,)}, "allowed is a whole number from 0", 2),
        ({"keep": "nix.txt"}, "nix.txt: no such file", 10),
        ({"sample": 0}, "--sample: found 0; allowed is a whole number from 1", 2),
        ({"stratify": "valid_share"}, "give --sample N", 2),
        ({"sample": 3, "stratify": "valid_shar"}, "no column 'valid_shar'; did you mean valid_share", 2),
        ({"sample": 3, "stratify": "masked_share", "balance": "valid_share"}, "leave one of them out", 2),
        ({"sample": 3, "stratify": "majority"}, "there are no classes", 2),
        ({"sample": 3, "stratify": "majority", "class_band": "class"}, "aren't known", 2),
        ({"balance": "valid_share", "sample": 2}, "2 patches can't be shared out evenly to", 2),
        ({"seed": 3}, "--seed: nothing is drawn", 2),
        ({"sample": 3, "min_valid": 1.0}, "no patch meets the conditions", 10),
    ],
    ids=str,
)
def test_choices_that_make_no_sense_are_refused(options: dict[str, Any], words: str, code: int, tmp_path: Path) -> None:
    source, _, _ = scene(tmp_path)
    with pytest.raises(GeotfrError, match=words) as caught:
        export(source, tmp_path, **options)
    assert caught.value.exit_code == code
    assert not (tmp_path / "out-manifest.json").exists()


def test_the_command_tells_what_is_left_out(tmp_path: Path) -> None:
    source, _, _ = scene(tmp_path)
    (tmp_path / "keep.txt").write_text("1 2 x\n")
    args = ["export", source, "-o", tmp_path / "out", "--patch-dimensions", str(PATCH)]
    assert_refused(run(*args, "--keep", tmp_path / "keep.txt"), 10, "line 1: 'x' is no patch's number")
    outcome = run(*args, "--min-share", "1=0.05", "--min-share", "2=0.05", "--class-band", "class", "--sample", "4")
    assert outcome.code == 0
    assert "26 of 30 patches are left out: no mixer is written" in outcome.told
    assert_refused(run(*args, "--min-valid", "none"), 2, "min_valid")


def test_parts_and_processes_write_what_one_run_does(tmp_path: Path) -> None:
    source, _, _ = scene(tmp_path)
    options: dict[str, Any] = {"min_valid": 0.4, "min_share": "1=0.02", "class_band": "class", "max_file_size": 3000}
    export(source, tmp_path, **options)
    one = {path.name: path.read_bytes() for path in tmp_path.glob("out*")}
    assert len(one) > 2
    (tmp_path / "parts").mkdir()
    for number in (2, 0, 1):
        geotfr.export_part(source, tmp_path / "parts" / "out", split=(number, 3), patch_dimensions=PATCH, **options)
    geotfr.finalize_export(tmp_path / "parts" / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "parts").glob("out*")} == one
    with pytest.raises(GeotfrError, match="use the executor threads"):
        export(source, tmp_path, sample=3, executor="processes")
