"""Feature kinds: what each pixel type becomes, and what is told of values that a kind can't hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import wire
from oracle.images import Options, assert_export, expected_export
from oracle.rasters import write_raster
from oracle.run import assert_refused, contents, run

import geotfr

if TYPE_CHECKING:
    from pathlib import Path

KINDS = {
    "uint8": bytes,
    "int8": int,
    "uint16": int,
    "int16": int,
    "uint32": int,
    "int32": int,
    "uint64": int,
    "int64": int,
    "float32": float,
    "float64": float,
}


def only_values(folder: Path, key: str = "b1") -> list[object]:
    """The values of one feature of the only record below ``folder``."""
    (path,) = folder.glob("*.tfrecord*")
    (record,) = wire.read_shard(path)
    values = record[key]
    return values if isinstance(values, list) else values.tolist()


@pytest.mark.parametrize(("dtype", "kind"), KINDS.items())
def test_native_writes_each_pixel_type_by_its_kind(dtype: str, kind: type, tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[1, 2], [3, 100]], dtype))
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(source, out / "set", patch_dimensions=2, feature_kinds="native")
    values = only_values(out)
    assert values == ([b"\x01\x02\x03\x64"] if kind is bytes else [1, 2, 3, 100])
    assert all(type(value) is kind for value in values)
    assert_export(out, expected_export([source], Options(patch=(2, 2), native=True), name="set"))


@pytest.mark.parametrize("dtype", KINDS)
def test_float_is_the_default_and_writes_every_type_as_a_float_list(dtype: str, tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[1, 100]], dtype))
    for name, more in (("default", {}), ("asked", {"feature_kinds": "float"})):
        (tmp_path / name).mkdir()
        geotfr.export_image(source, tmp_path / name / "set", patch_dimensions=(2, 1), **more)
        assert only_values(tmp_path / name) == [1.0, 100.0]
    assert contents(tmp_path / "default") == contents(tmp_path / "asked")


@pytest.mark.parametrize(
    ("dtypes", "kind"),
    [
        (("uint8", "uint8"), "bytes"),
        (("uint8", "int8"), "int64"),
        (("int16", "uint64"), "int64"),
        (("int64", "uint32"), "int64"),
        (("uint8", "float32"), "float"),
        (("int64", "float64"), "float"),
    ],
)
def test_an_array_band_takes_the_furthest_kind_of_its_elements(
    dtypes: tuple[str, str], kind: str, tmp_path: Path
) -> None:
    paths = [
        write_raster(tmp_path / f"{place}.tif", np.array([[value]], dtype))
        for place, (dtype, value) in enumerate(zip(dtypes, (7, 100), strict=True))
    ]
    options = Options(patch=(1, 1), native=True, arrays={"t": [(path, 1) for path in paths]}, depths={"t": 2})
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(paths[0], out / "set", **options.keywords())
    values = only_values(out, "t")
    assert values == ([bytes([7, 100])] if kind == "bytes" else [7, 100])
    assert all(type(value) is {"bytes": bytes, "int64": int, "float": float}[kind] for value in values)
    assert_export(out, expected_export(paths[:1], options, name="set"))


def test_large_integers_of_two_types_stay_exact_in_one_array(tmp_path: Path) -> None:
    paths = [
        write_raster(tmp_path / f"{dtype}.tif", np.array([[value]], dtype))
        for dtype, value in (("int64", -(2**63) + 1), ("uint64", 2**63 - 1))
    ]
    geotfr.export_image(
        paths[0],
        tmp_path / "set",
        patch_dimensions=1,
        feature_kinds="native",
        array_bands={"t": f"{paths[0]}:1,{paths[1]}:1"},
        tensor_depths="t=2",
    )
    (record,) = wire.read_shard(tmp_path / "set.tfrecord.gz")
    assert record["t"].tolist() == [-(2**63) + 1, 2**63 - 1]


@pytest.mark.parametrize("dtype", [name for name, kind in KINDS.items() if kind is int])
def test_the_extremes_of_each_integer_type_are_exact_in_native(dtype: str, tmp_path: Path) -> None:
    info = np.iinfo(dtype)
    largest = min(info.max, 2**63 - 1)
    source = write_raster(tmp_path / "scene.tif", np.array([[info.min, largest, 0]], dtype))
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(source, out / "set", patch_dimensions=(3, 1), feature_kinds="native")
    assert only_values(out) == [info.min, largest, 0]


@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(
        st.one_of(
            st.integers(-(2**63), 2**63 - 1),
            # Both sides of each length that a varint can have.
            st.builds(
                lambda groups, off: min(2 ** (7 * groups) + off, 2**63 - 1), st.integers(0, 9), st.integers(-1, 1)
            ),
        ),
        min_size=1,
        max_size=40,
    ),
    limit=st.sampled_from([1, 60, 150, 1 << 30]),
)
def test_int64_lists_are_minimal_varints_and_shards_are_cut_by_their_real_sizes(values: list[int], limit: int) -> None:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = write_raster(folder / "scene.tif", np.array([values], "int64"))
        (folder / "out").mkdir()
        options = Options(patch=(2, 1), native=True, pad=True, max_file_size=limit, compressed=False)
        geotfr.export_image(source, folder / "out" / "set", **options.keywords())
        assert_export(folder / "out", expected_export([source], options, name="set"))


@pytest.mark.parametrize("compressor", ["none", "fast", "ee"])
def test_native_shards_are_the_same_bytes_for_any_number_of_workers(compressor: str, tmp_path: Path) -> None:
    # Values of one to ten bytes, so that the records of a strip have many lengths.
    random = np.random.default_rng(3)
    data = (2.0 ** random.uniform(0, 63, (2, 60, 70))).astype("int64") * random.choice([-1, 1], (2, 60, 70))
    source = write_raster(tmp_path / "scene.tif", data)
    options = Options(patch=(5, 4), kernel=(3, 2), native=True, max_file_size=9000, compressed=compressor != "none")
    more = {} if compressor == "none" else {"compressor": compressor}
    for workers in (1, 2, 3):
        (tmp_path / str(workers)).mkdir()
        geotfr.export_image(source, tmp_path / str(workers) / "set", workers=workers, **options.keywords(), **more)
    assert contents(tmp_path / "1") == contents(tmp_path / "2") == contents(tmp_path / "3")
    assert_export(tmp_path / "1", expected_export([source], options, name="set"), compressor=compressor)


@pytest.mark.parametrize("value", [2**63, 2**64 - 1])
def test_a_uint64_beyond_int64_is_an_error_in_native_that_tells_where(value: int, tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[1, 2], [3, value]], "uint64"))
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "1", "--quiet"),
        *("--feature-kinds", "native"),
    )
    assert_refused(outcome, {10, 13}, "b1", str(value), str(2**63 - 1))
    assert not list(tmp_path.glob("set*"))


def test_a_masked_uint64_beyond_int64_is_no_error(tmp_path: Path) -> None:
    valid = np.array([[True, False]])
    source = write_raster(tmp_path / "scene.tif", np.array([[1, 2**63]], "uint64"), mask=valid)
    out = tmp_path / "out"
    out.mkdir()
    geotfr.export_image(source, out / "set", patch_dimensions=(2, 1), feature_kinds="native", default_value=7)
    assert only_values(out) == [1, 7]


def test_inexact_integers_are_told_once_in_float_and_never_in_native(tmp_path: Path) -> None:
    source = write_raster(
        tmp_path / "scene.tif", np.array([[2**24 + 1, 2**24 + 3], [2**24 + 2, -(2**24) - 1]], "int32")
    )
    for kinds, told in (("float", 1), ("native", 0)):
        (tmp_path / kinds).mkdir()
        outcome = run(
            *("export", source, "--output", tmp_path / kinds / "set", "--patch-dimensions", "1"),
            *("--feature-kinds", kinds),
        )
        assert outcome.code == 0, outcome.told
        warnings = [line for line in outcome.stderr.splitlines() if "warning" in line.lower()]
        assert len(warnings) == told, outcome.stderr
        assert not told or "3" in warnings[0]


def test_a_record_over_the_limit_has_a_shard_of_its_own_and_is_warned_of(tmp_path: Path) -> None:
    # As varints: 2, 20 and 2 bytes of values in records that are else alike.
    source = write_raster(tmp_path / "scene.tif", np.array([[1, 2, -1, -2, 3, 4]], "int64"))
    small = len(wire.frame(wire.example([("b1", wire.int64_feature([1, 2]))])))
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2,1", "--no-compressed"),
        *("--feature-kinds", "native", "--max-file-size", str(small + 5)),
    )
    assert outcome.code == 0, outcome.told
    records = [wire.read_shard(path) for path in sorted(tmp_path.glob("*.tfrecord"))]
    assert [[record["b1"].tolist() for record in shard] for shard in records] == [[[1, 2]], [[-1, -2]], [[3, 4]]]
    warnings = [line for line in outcome.stderr.splitlines() if "warning" in line.lower()]
    assert any(str(small + 5) in line or "limit" in line for line in warnings), outcome.stderr


def test_the_default_value_of_a_native_band_is_exact(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.array([[0, 1]], "int64"), nodata=0)
    out = tmp_path / "out"
    out.mkdir()
    # As a float it would be 2^53 + 2 or 2^53.
    geotfr.export_image(source, out / "set", patch_dimensions=(2, 1), feature_kinds="native", default_value=2**53 + 1)
    assert only_values(out) == [2**53 + 1, 1]


def test_the_manifest_tells_the_kind_of_each_band(tmp_path: Path) -> None:
    import json

    paths = [write_raster(tmp_path / f"{dtype}.tif", np.ones((1, 1), dtype)) for dtype in ("uint8", "int16", "float64")]
    geotfr.export_image(paths, tmp_path / "set", patch_dimensions=1, feature_kinds="native")
    manifest = json.loads((tmp_path / "set-manifest.json").read_text())
    assert [(band["name"], band["kind"]) for band in manifest["bands"]] == [
        ("uint8", "bytes"),
        ("int16", "int64"),
        ("float64", "float"),
    ]


@pytest.mark.parametrize("kinds", ["bytes", "Native"])
def test_another_kind_is_a_usage_error(kinds: str, tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", np.ones((2, 2), "uint8"))
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet"),
        *("--feature-kinds", kinds),
    )
    assert outcome.code == 2, outcome.told
    assert "native" in outcome.stderr
    assert not list(tmp_path.glob("set*"))
