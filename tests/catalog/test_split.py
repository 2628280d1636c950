"""``geotfr split``: every patch in one split, shares kept, no leak, the same on any machine."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalog.tables import table_of_grid
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.rasters import ROTATED, write_raster
from oracle.run import assert_refused, run

import geotfr
from geotfr.errors import GeotfrError
from geotfr.patches.assign import assigned_patches, assigned_units, hashed
from geotfr.patches.nearness import count_pairs, losers, near_offsets
from geotfr.storage import OutputSet

pytest.importorskip("pyarrow")
geopandas = pytest.importorskip("geopandas")
shapely = pytest.importorskip("shapely")

SHARES = "train=0.7,val=0.15,test=0.15"


def leaks_of(frame: Any, margin_m: float, distance: float) -> set[frozenset[int]]:
    """Pairs of patches of different splits whose blocks overlap or are nearer than ``distance``: all pairs tried."""
    kept = frame[frame["split"].notna()]
    blocks = kept.geometry.buffer(margin_m, join_style="mitre").to_numpy()
    splits, numbers = kept["split"].to_numpy(), kept["number"].to_numpy()
    one, other = np.triu_indices(len(kept), 1)
    is_other = splits[one] != splits[other]
    one, other = one[is_other], other[is_other]
    between = shapely.distance(blocks[one], blocks[other])
    near = between < max(distance - 1e-9, 1e-9)
    one, other, between = one[near], other[near], between[near]
    overlaps = shapely.area(shapely.intersection(blocks[one], blocks[other])) > 1e-6
    is_leak = overlaps | (between < distance - 1e-9)
    return {frozenset((int(numbers[a]), int(numbers[b]))) for a, b in zip(one[is_leak], other[is_leak], strict=True)}


@pytest.mark.parametrize("by", ["random", "blocks"])
def test_every_patch_is_in_one_split_or_left_out_and_shares_are_kept(tmp_path: Path, by: str) -> None:
    table = table_of_grid(tmp_path, 12, 15)
    options = {"block_size_m": 60} if by == "blocks" else {}
    result = geotfr.split_patches(table, by=by, shares=SHARES, seed=3, **options)
    frame = geopandas.read_parquet(table)
    assert sum(result.counts.values()) + result.left_out == len(frame) == 180
    assert {name: int((frame["split"] == name).sum()) for name in result.counts} == result.counts
    # A block has up to 9 patches.
    allowed = 0 if by == "random" else 9
    for name, share in result.wanted.items():
        assert abs(result.counts[name] - share * 180) <= allowed + 1e-9


@pytest.mark.parametrize("kernel", [1, 5])
@pytest.mark.parametrize("buffer", [0, 25])
def test_blocks_with_a_buffer_leave_no_leak(tmp_path: Path, kernel: int, buffer: float) -> None:
    table = table_of_grid(tmp_path, 16, 16, kernel=kernel)
    result = geotfr.split_patches(table, by="blocks", shares="a=0.5,b=0.5", block_size_m=160, buffer_m=buffer)
    frame = geopandas.read_parquet(table)
    assert result.leakage.is_clean
    assert leaks_of(frame, kernel // 2 * 10, buffer) == set()
    assert 0 < result.left_out < 200 or (kernel == 1 and not buffer and not result.left_out)
    assert set(frame["split"].dropna()) == {"a", "b"}


def test_only_patches_near_another_split_are_left_out(tmp_path: Path) -> None:
    table = table_of_grid(tmp_path, 8, 8)
    before = geotfr.split_patches(table, tmp_path / "no.parquet", by="blocks", shares="a=0.6,b=0.4", block_size_m=80)
    after = geotfr.split_patches(table, by="blocks", shares="a=0.6,b=0.4", block_size_m=80, buffer_m=1)
    one, other = geopandas.read_parquet(before.table), geopandas.read_parquet(after.table)
    union = one[one["split"] == "b"].geometry.union_all()
    for (_, old), (_, new) in zip(one.iterrows(), other.iterrows(), strict=True):
        is_near = old["split"] == "a" and old["geometry"].distance(union) < 1
        assert (new["split"] == old["split"]) != is_near


@pytest.mark.parametrize(
    ("kernel", "distance", "transform"),
    [(1, 0, None), (1, 1, None), (3, 0, None), (5, 30, None), (1, 45, None), (1, 1, ROTATED), (1, 45, ROTATED)],
)
def test_the_report_counts_the_pairs_that_a_slow_search_finds(
    tmp_path: Path, kernel: int, distance: float, transform: Any
) -> None:
    options = {} if transform is None else {"transform": transform}
    table = table_of_grid(tmp_path, 5, 6, kernel=kernel, **options)
    result = geotfr.split_patches(table, by="random", shares="a=0.5,b=0.3,c=0.2", distance_m=distance)
    frame = geopandas.read_parquet(table)
    slow = leaks_of(frame, kernel // 2 * 10, distance * 0.9996 if distance else 0)
    assert result.leakage.pairs == len(slow)
    assert result.leakage.is_clean == (not slow)
    for pair in result.leakage.examples:
        assert frozenset(each[1] for each in pair) in slow


def test_one_seed_gives_one_split_and_another_another(tmp_path: Path) -> None:
    table = table_of_grid(tmp_path, 6, 6)
    made = [
        geopandas.read_parquet(
            geotfr.split_patches(table, tmp_path / f"{n}.parquet", by="random", shares=SHARES, seed=seed).table
        )["split"].tolist()
        for n, seed in enumerate((1, 1, 2))
    ]
    assert made[0] == made[1] != made[2]


def slow_hash(seed: int, key: int) -> int:
    """SplitMix64's finisher, twice, in Python's whole numbers."""

    def mixed(state: int) -> int:
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
        return state ^ (state >> 31)

    golden = 0x9E3779B97F4A7C15
    return mixed(((mixed((seed + golden) % 2**64) ^ key) + golden) % 2**64)


def test_a_seed_gives_the_split_that_it_gave_before() -> None:
    for seed in (0, 7, 2**63 + 1):
        assert hashed(seed, np.arange(5)).tolist() == [slow_hash(seed, key) for key in range(5)]
    # Written down once: what comes later has to agree.
    assert assigned_patches(hashed(7, np.arange(12)), [0.5, 0.25, 0.25]).tolist() == [
        2,
        0,
        0,
        0,
        1,
        1,
        2,
        0,
        0,
        1,
        0,
        2,
    ]


def test_a_patch_keeps_its_split_when_blocks_elsewhere_are_added(tmp_path: Path) -> None:
    small, large = table_of_grid(tmp_path, 4, 4, name="small"), table_of_grid(tmp_path, 4, 4, name="large")
    for table in (small, large):
        geotfr.split_patches(table, by="blocks", shares="a=0.5,b=0.5", block_size_m=40)
    one, other = (geopandas.read_parquet(table)["split"].tolist() for table in (small, large))
    assert one == other


def test_groups_stay_together(tmp_path: Path) -> None:
    table = table_of_grid(tmp_path, 8, 8)
    result = geotfr.split_patches(table, by="group", column="row", shares="a=0.5,b=0.25,c=0.25")
    frame = geopandas.read_parquet(table)
    assert frame.groupby("row")["split"].nunique().tolist() == [1] * 8
    assert result.counts == {"a": 32, "b": 16, "c": 16}
    assert result.units == 8


def test_a_column_of_the_users_becomes_the_split(tmp_path: Path) -> None:
    table = table_of_grid(tmp_path, 2, 2)
    (tmp_path / "mine.csv").write_text("number,fold\n0,train\n1,train\n3,test\n")
    made = geotfr.make_patch_table(tmp_path / "set-manifest.json", join=tmp_path / "mine.csv", overwrite=True)
    assert made.table == table
    result = geotfr.split_patches(table, by="column", column="fold", distance_m=5)
    assert (result.counts, result.left_out) == ({"test": 1, "train": 2}, 1)
    # Patch 3 touches both others.
    assert result.leakage.near == {("test", "train"): 2}


def test_splits_have_about_the_same_classes(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    classes = (rng.random((60, 60)) < np.linspace(0, 1, 60)).astype("uint8") + 1
    source = write_raster(tmp_path / "scene.tif", classes, descriptions=("kind",))
    result = geotfr.export_image(source, tmp_path / "set", patch_dimensions=2, patch_table=True, class_bands="kind")
    assert result.patch_table is not None
    geotfr.split_patches(result.patch_table, by="random", shares="a=0.8,b=0.2")
    frame = geopandas.read_parquet(result.patch_table)
    means = frame.groupby("split")["share_2"].mean()
    assert abs(means["a"] - means["b"]) < 0.01
    geotfr.split_patches(result.patch_table, by="blocks", shares="a=0.8,b=0.2", block_size_m=60, reassign=True)
    means = geopandas.read_parquet(result.patch_table).groupby("split")["share_2"].mean()
    assert abs(means["a"] - means["b"]) < 0.03


def test_blocks_are_squares_on_the_ground_where_degrees_are_narrow(tmp_path: Path) -> None:
    transform = type(ROTATED)(0.01, 0, 10, 0, -0.01, 60.4)
    pixels = np.arange(80 * 80, dtype="float32").reshape(80, 80)
    table = table_of_grid(tmp_path, 40, 40, transform=transform, crs="EPSG:4326", pixels=pixels)
    geotfr.split_patches(table, by="blocks", shares="a=0.5,b=0.5", block_size_m=20_000)
    frame = geopandas.read_parquet(table)
    # Along a row the split changes at the edges of blocks alone: 20 km are 0.36 degrees at 60 degrees north.
    for _, row in frame.groupby("row"):
        places = row["west"].to_numpy() + 0.01
        edges = places[1:][row["split"].to_numpy()[1:] != row["split"].to_numpy()[:-1]]
        assert all(np.diff(edges) > 0.3)


def test_patches_of_two_rasters_that_overlap_are_leaks(tmp_path: Path) -> None:
    from geotfr.pipeline.catalog.leakage import PlacedPatches, find_leaks, without_leaks

    one = geotfr.read_patch_table(table_of_grid(tmp_path, 3, 3, name="one"))
    shifted = type(ROTATED)(10, 0, 500025, 0, -10, 3999995)
    other = geotfr.read_patch_table(table_of_grid(tmp_path, 3, 3, name="other", transform=shifted))
    sets = [
        PlacedPatches(patches=table.sets[0], numbers=np.arange(9), rows=np.arange(9) + 9 * number)
        for number, table in enumerate((one, other))
    ]
    splits = np.repeat([0, 1], 9)
    outlines = [geopandas.read_parquet(table.path).geometry for table in (one, other)]
    found = find_leaks(sets, splits, ["a", "b"], 0)
    slow = sum(a.intersection(b).area > 1e-6 for a in outlines[0] for b in outlines[1])
    assert found.overlapping == {("a", "b"): slow}
    assert not found.near
    near = find_leaks(sets, splits, ["a", "b"], 12)
    assert near.pairs == sum(a.distance(b) < 12 * 0.9996 for a in outlines[0] for b in outlines[1])
    kept = without_leaks(sets, splits, [0, 1], 12)
    assert (kept[9:] == 1).all()
    assert find_leaks(sets, kept, ["a", "b"], 12).is_clean


def test_rasters_in_two_crs_are_compared_on_the_ground(tmp_path: Path) -> None:
    from geotfr.pipeline.catalog.leakage import PlacedPatches, find_leaks

    one = geotfr.read_patch_table(table_of_grid(tmp_path, 3, 3, name="one"))
    frame = geopandas.read_parquet(one.path).to_crs(4326)
    west, _, _, north = frame.total_bounds
    degrees = type(ROTATED)(1e-4, 0, west, 0, -1e-4, north)
    other = geotfr.read_patch_table(table_of_grid(tmp_path, 3, 3, name="o", transform=degrees, crs="EPSG:4326"))
    sets = [
        PlacedPatches(patches=table.sets[0], numbers=np.arange(9), rows=np.arange(9) + 9 * number)
        for number, table in enumerate((one, other))
    ]
    found = find_leaks(sets, np.repeat([0, 1], 9), ["a", "b"], 0)
    theirs = geopandas.read_parquet(other.path).geometry
    slow = sum(a.intersection(b).area > 1e-14 for a in frame.geometry for b in theirs)
    assert abs(found.pairs - slow) <= 4


def test_equal_records_in_two_splits_are_told(tmp_path: Path) -> None:
    table = table_of_grid(tmp_path, 2, 2, pixels=np.tile(np.arange(4, dtype="float32").reshape(2, 2), (2, 2)))
    result = geotfr.split_patches(table, by="random", shares="a=0.5,b=0.5")
    assert result.leakage.equal == {("a", "b"): 1}
    assert any("equal content" in warning for warning in result.warnings)


def test_the_command_tells_a_split_that_is_not_clean(tmp_path: Path) -> None:
    table = table_of_grid(tmp_path, 4, 4, kernel=3)
    done = run("split", table, "--by", "random", "--shares", "a=0.5,b=0.5")
    assert done.code == 0
    assert "NOT clean" in done.stdout
    assert "not clean" in done.stderr
    told = json.loads(run("split", table, "--by", "random", "--shares", "a=0.5,b=0.5", "--reassign", "--json").stdout)
    assert told["leakage"]["clean"] is False
    assert geotfr.read_patch_table(table).extra["split"]["leakage"]["clean"] is False


def test_a_split_is_not_replaced_unasked(tmp_path: Path) -> None:
    table = table_of_grid(tmp_path, 4, 4)
    assert run("split", table, "--by", "random").code == 0
    before = table.read_bytes()
    assert_refused(run("split", table, "--by", "random"), 14, "has a split already", "--reassign")
    assert table.read_bytes() == before
    assert run("split", table, "--by", "random", "--reassign", "--seed", "1").code == 0
    assert table.read_bytes() != before


@pytest.mark.parametrize("by", ["group", "random", "blocks"])
def test_rows_that_have_a_split_keep_it_and_only_new_ones_are_assigned(tmp_path: Path, by: str) -> None:
    table = table_of_grid(tmp_path, 10, 10)
    frame = geopandas.read_parquet(table)
    frame["scene"] = [f"s{number % 50}" for number in frame["number"]]
    options: dict[str, Any] = {"by": by, "shares": SHARES}
    if by == "group":
        (tmp_path / "scenes.csv").write_text("number,scene\n" + "".join(f"{n},s{n % 50}\n" for n in frame["number"]))
        geotfr.make_patch_table(tmp_path / "set-manifest.json", join=tmp_path / "scenes.csv", overwrite=True)
        options["column"] = "scene"
    if by == "blocks":
        options["block_size_m"] = 40
    geotfr.split_patches(table, **options)
    opened = geotfr.read_patch_table(table)
    old = geopandas.read_parquet(table)["split"]
    # The rows of ten groups, as if their rasters had been added after the split.
    is_new = old.index.to_numpy() % 50 >= 40
    texts = [None if new else text for new, text in zip(is_new, old, strict=True)]
    import pyarrow as pa

    from geotfr.vectors.patch_table import rewrite_patch_table

    with (tmp_path / "added.parquet").open("wb") as file:
        rewrite_patch_table(
            opened, file, {"split": pa.chunked_array([pa.array(texts, pa.string())])}, extra={"split": {}}
        )
    added = tmp_path / "added.parquet"
    result = geotfr.split_patches(added, seed=9, **options)
    again = geopandas.read_parquet(added)["split"]
    assert (again[~is_new] == old[~is_new]).all()
    assert again.notna().all()
    for name, share in result.wanted.items():
        assert abs(result.counts[name] - share * 100) <= 6
    geotfr.split_patches(added, tmp_path / "anew.parquet", seed=9, reassign=True, **options)
    assert (geopandas.read_parquet(tmp_path / "anew.parquet")["split"] != old).any()


def test_kept_splits_that_are_not_asked_for_are_refused(tmp_path: Path) -> None:
    table = table_of_grid(tmp_path, 4, 4)
    geotfr.split_patches(table, by="random", shares="a=0.5,b=0.5")
    done = run("split", table, "--by", "random", "-o", tmp_path / "other.parquet")
    assert_refused(done, 2, "'a'", "--reassign")
    assert not (tmp_path / "other.parquet").exists()


BAD: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    "sum": (("--shares", "train=0.7,test=0.2"), 2, ("add up to 0.9", "1 is wanted")),
    "no share": (("--shares", "train,test=1"), 2, ("train=", "above 0")),
    "twice": (("--shares", "a=0.5,a=0.5"), 2, ("each once",)),
    "few blocks": (("--block-size", "10000"), 2, ("1 block for 3 splits", "smaller --block-size")),
    "no column": (("--by", "group"), 2, ("--column",)),
    "no such column": (("--by", "group", "--column", "site"), 2, ("no column 'site'",)),
    "few groups": (("--by", "group", "--column", "shard"), 2, ("1 group of 'shard' for 3 splits",)),
    "column": (("--by", "random", "--column", "row"), 2, ("uses none",)),
    "buffer": (("--by", "random", "--buffer", "5"), 2, ("leaves no patches out",)),
    "block size": (("--by", "random", "--block-size", "5"), 2, ("has no blocks",)),
    "negative": (("--buffer", "-1"), 2, ("metres from 0",)),
    "null": (("--by", "column", "--column", "split"), 2, ("null everywhere",)),
    "geometry": (("--by", "group", "--column", "geometry"), 2, ("geometry",)),
}


@pytest.mark.parametrize(("options", "code", "words"), BAD.values(), ids=BAD)
def test_what_means_nothing_is_refused(
    tmp_path: Path, options: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    table = table_of_grid(tmp_path, 4, 4)
    before = table.read_bytes()
    assert_refused(run("split", table, *options), code, *words)
    assert table.read_bytes() == before


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 200), st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 2**63))
def test_patches_are_assigned_by_their_shares(count: int, parts: list[int], seed: int) -> None:
    shares = [part / sum(parts) for part in parts]
    splits = assigned_patches(hashed(seed, np.arange(count)), shares)
    counts = np.bincount(splits, minlength=len(parts))
    assert counts.sum() == count
    assert all(abs(n - share * count) < 1 for n, share in zip(counts.tolist(), shares, strict=True))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(1, 9), st.integers(0, 2**32))
def test_units_are_assigned_within_the_largest_unit(sizes: list[int], part: int, seed: int) -> None:
    shares = [part / 10, 1 - part / 10]
    weights = np.array(sizes, float)[:, np.newaxis]
    splits = assigned_units(hashed(seed, np.arange(len(sizes))), weights, shares)
    for number, share in enumerate(shares):
        assert abs(weights[splits == number].sum() - share * weights.sum()) <= max(sizes)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    st.floats(0, 12),
    st.integers(0, 1000),
)
def test_pairs_of_a_grid_are_those_of_a_slow_search(
    rows: int, columns: int, patch: tuple[int, int], margin: tuple[int, int], distance: float, seed: int
) -> None:
    grid = np.random.default_rng(seed).integers(-1, 3, (rows, columns))
    boxes = {
        (r, c): shapely.box(
            c * patch[1] - margin[1],
            r * patch[0] - margin[0],
            (c + 1) * patch[1] + margin[1],
            (r + 1) * patch[0] + margin[0],
        )
        for r in range(rows)
        for c in range(columns)
        if grid[r, c] >= 0
    }
    slow = {
        frozenset((one, other))
        for one, other in combinations(boxes, 2)
        if grid[one] != grid[other]
        and (boxes[one].intersection(boxes[other]).area > 0 or boxes[one].distance(boxes[other]) < distance)
    }
    offsets = near_offsets(patch, margin, (1.0, 1.0), distance, grid_yx=(rows, columns))
    assert int(count_pairs(grid, offsets, 3).sum()) == len(slow)
    gone = losers(grid, offsets, 0, np.array([False, True, True]))
    assert {(int(r), int(c)) for r, c in np.argwhere(gone)} == {
        place for pair in slow for place in pair if grid[place] == 0
    }


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 24),
    st.integers(1, 24),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    st.floats(0, 200),
    st.integers(0, 1000),
)
def test_a_wide_buffer_finds_the_pairs_that_each_offset_alone_finds(
    rows: int, columns: int, patch: tuple[int, int], margin: tuple[int, int], distance: float, seed: int
) -> None:
    grid = np.random.default_rng(seed).integers(-1, 3, (rows, columns))
    offsets = near_offsets(patch, margin, (1.0, 2.5), distance, grid_yx=(rows, columns))
    others = np.array([False, True, True])
    found = []
    with pytest.MonkeyPatch.context() as patched:
        for most in (-1, 10**9):
            patched.setattr("geotfr.patches.nearness._MOST_SHIFTS", most)
            found.append((count_pairs(grid, offsets, 3), losers(grid, offsets, 0, others)))
    for at_once, one_by_one in zip(*found, strict=True):
        assert np.array_equal(at_once, one_by_one)


@pytest.mark.parametrize(
    "options", [{}, {"compressed": False}, {"sequence_data": True}], ids=["gzip", "plain", "pixels"]
)
def test_shards_of_a_split_hold_its_records(tmp_path: Path, options: dict[str, Any]) -> None:
    source = write_raster(tmp_path / "scene.tif", np.arange(144, dtype="float32").reshape(12, 12))
    result = geotfr.export_image(source, tmp_path / "set", patch_dimensions=2, patch_table=True, **options)
    done = run(
        "split",
        result.patch_table or "",
        "--by",
        "random",
        "--shares",
        "a=0.5,b=0.5",
        "--shards",
        tmp_path / "out",
        "--max-file-size",
        "500",
        "--json",
    )
    assert done.code == 0, done.told
    whole = geopandas.read_parquet(result.patch_table)
    payloads = list(geotfr.read_records(result.shards))
    per_patch = len(payloads) // len(whole)
    for split in ("a", "b"):
        numbers = whole.loc[whole["split"] == split, "number"].tolist()
        manifest = geotfr.read_manifest(tmp_path / f"out-{split}-manifest.json")
        shards = [tmp_path / shard.name for shard in manifest.shards]
        assert len(shards) > 1
        assert [str(path) for path in shards] == [p for p in json.loads(done.stdout)["shards"] if f"out-{split}-" in p]
        expected = [payloads[n * per_patch + i] for n in numbers for i in range(per_patch)]
        assert list(geotfr.read_records(shards)) == expected
        assert sorted([*numbers, *manifest.patches_dropped]) == list(range(36))
        assert geotfr.verify(tmp_path / f"out-{split}-manifest.json").is_good
        if per_patch == 1:
            own = geotfr.PatchDataset(tmp_path / f"out-{split}-patches.parquet", columns=["number"])
            other = geotfr.PatchDataset(result.patch_table or "", split=split, columns=["number"])
            for one, two in zip(own, other, strict=True):
                assert one["number"] == two["number"]
                np.testing.assert_array_equal(one["b1"], two["b1"])
    again = run("split", result.patch_table or "", "--by", "random", "--shards", tmp_path / "out", "-q")
    assert_refused(again, 14, "--reassign")


def test_shards_of_a_collections_split_are_shared_by_its_rasters(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for place, name in enumerate(("one", "two")):
        transform = type(ROTATED)(10, 0, 500000 + 1000 * place, 0, -10, 4000000)
        write_raster(tmp_path / "in" / f"{name}.tif", np.arange(64.0).reshape(8, 8) + 100 * place, transform=transform)
    made = geotfr.export_collection(tmp_path / "in", tmp_path / "all", patch_dimensions=2)
    geotfr.split_patches(made.table, by="random", shares="a=0.5,b=0.5", shards_prefix=tmp_path / "all")
    own = geotfr.PatchDataset(tmp_path / "all-a-patches.parquet", columns=["source", "mean_b1"])
    assert len(own) == 16
    assert len(own.shards) == 1
    assert {str(item["source"]) for item in own} == {"one.tif", "two.tif"}
    for item in own:
        assert item["b1"].mean() == item["mean_b1"]


def test_a_table_tells_of_a_split_after_its_shards_are_there(tmp_path: Path) -> None:
    made = table_of_grid(tmp_path, 6, 6)
    before = made.read_bytes()
    shard = sorted(tmp_path.glob("*.tfrecord*"))[0]
    data = shard.read_bytes()
    shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(GeotfrError):
        geotfr.split_patches(made, by="random", shards_prefix=tmp_path / "s")
    assert made.read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("s-")]


def test_old_and_new_shards_never_look_whole_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = table_of_grid(tmp_path, 6, 6)
    shares = "a=0.4,b=0.3,c=0.3"
    geotfr.split_patches(made, by="random", shares=shares, seed=1, shards_prefix=tmp_path / "s")
    before = made.read_bytes()
    publish, done = OutputSet.publish, []

    def stopped(self: OutputSet, *arguments: Any, **options: Any) -> None:
        if len(done) == 1:
            raise KeyboardInterrupt
        publish(self, *arguments, **options)
        done.append(self)

    monkeypatch.setattr(OutputSet, "publish", stopped)
    with pytest.raises(KeyboardInterrupt):
        geotfr.split_patches(
            made, by="random", shares=shares, seed=2, shards_prefix=tmp_path / "s", reassign=True, overwrite=True
        )
    whole = {path.name[:3] for path in tmp_path.iterdir() if path.name.endswith(("json", "parquet")) and path != made}
    assert {name for name in whole if name.startswith("s-")} == {"s-a"}
    assert made.read_bytes() == before


def test_shards_that_changed_are_refused_whatever_their_size(tmp_path: Path) -> None:
    for name, first in (("one", 0), ("other", 1)):
        source = write_raster(tmp_path / f"{name}.tif", np.arange(first, first + 64, dtype="uint16").reshape(8, 8))
        geotfr.export_image(source, tmp_path / name, patch_dimensions=2, patch_table=True, compressed=False)
    table, shard = tmp_path / "one-patches.parquet", tmp_path / "one.tfrecord"
    size = shard.stat().st_size
    shard.write_bytes((tmp_path / "other.tfrecord").read_bytes())
    assert shard.stat().st_size == size
    told = ("one.tfrecord", "CRC32C", "the table knows", "geotfr table")
    assert_refused(run("stats", table, "-q"), 12, *told)
    assert_refused(run("split", table, "--by", "random", "--shards", tmp_path / "s", "-q"), 12, *told)
    # An export that went over them says so in its manifest.
    (tmp_path / "one-manifest.json").write_text(
        (tmp_path / "other-manifest.json").read_text().replace('"other.', '"one.')
    )
    with pytest.raises(GeotfrError, match=r"one\.tfrecord was written again since, as one-manifest\.json tells"):
        geotfr.PatchDataset(table)


def test_a_split_named_like_another_folder_gets_no_shards(tmp_path: Path) -> None:
    made = table_of_grid(tmp_path, 2, 2)
    (tmp_path / "folds.csv").write_text("number,fold\n0,a\n1,/../../x\n2,a\n3,a\n")
    (tmp_path / "s-").mkdir()
    geotfr.make_patch_table(
        tmp_path / "set-manifest.json", tmp_path / "joined-patches.parquet", join=tmp_path / "folds.csv", masked_value=0
    )
    before = sorted(tmp_path.parent.rglob("*"))
    with pytest.raises(geotfr.UsageError, match=r"a split is called '/\.\./\.\./x'.*leave --shards out"):
        geotfr.split_patches(
            tmp_path / "joined-patches.parquet", by="column", column="fold", shards_prefix=tmp_path / "s"
        )
    assert sorted(tmp_path.parent.rglob("*")) == before
    assert made.is_file()


def test_a_buffer_wider_than_the_raster_leaves_one_split(tmp_path: Path) -> None:
    table = table_of_grid(tmp_path, 16, 16)
    result = geotfr.split_patches(table, by="blocks", shares="a=0.5,b=0.5", block_size_m=80, buffer_m=1e12)
    assert result.leakage.is_clean
    assert len(set(geopandas.read_parquet(table)["split"].dropna())) == 1
