"""The manifest for Earth Engine's upload, and the checks before it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from oracle.rasters import numbered, write_raster
from oracle.run import Outcome, assert_refused, run
from oracle.sets import write_blocks, write_set

import geotfr
from geotfr.pipeline.ingest.upload_manifest import upload_manifest

if TYPE_CHECKING:
    from pathlib import Path

PLACE = ("--name", "projects/my-project/assets/maps/a-1", "--uri-prefix", "gs://bucket/map/")


@pytest.fixture
def prediction_set(tmp_path: Path) -> tuple[Path, list[Path]]:
    """Mixer and 12 shards of two bands."""
    mixer, shards = write_set(tmp_path, numbered(2, 6, 8), patch=(2, 2), names=("wood", "town"), shards=12)
    renamed = [shard.rename(tmp_path / f"p-{place}.tfrecord") for place, shard in enumerate(shards)]
    return mixer, renamed


def make(prediction_set: tuple[Path, list[Path]], *more: str | Path) -> Outcome:
    mixer, shards = prediction_set
    return run("upload-manifest", mixer, *shards[::-1], *PLACE, *more)


def test_all_uris_are_one_source_predictions_first_and_the_mixer_last(
    prediction_set: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    outcome = make(
        prediction_set,
        *("--pyramiding-policy", "mode", "--missing-data", "-1", "--start-time", "2024-06-01"),
        *("--end-time", "2024-06-01T12:00:00+02:00", "--property", "run=7", "--property", "model=unet"),
    )
    assert outcome.code == 0, outcome.told
    assert outcome.stderr == ""
    assert json.loads(outcome.stdout) == {
        "name": "projects/my-project/assets/maps/a-1",
        "tilesets": [
            {
                "sources": [
                    {
                        "uris": [f"gs://bucket/map/p-{n}.tfrecord" for n in range(12)]
                        + ["gs://bucket/map/scene-mixer.json"]
                    }
                ]
            }
        ],
        "pyramidingPolicy": "MODE",
        "missingData": {"values": [-1.0]},
        "startTime": "2024-06-01T00:00:00Z",
        "endTime": "2024-06-01T10:00:00Z",
        "properties": {"run": 7, "model": "unet"},
    }


def test_a_file_is_written_whole_and_never_over_another(
    prediction_set: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    out = tmp_path / "upload.json"
    assert make(prediction_set, "--output", out).code == 0
    assert json.loads(out.read_text())["pyramidingPolicy"] == "MEAN"
    assert_refused(make(prediction_set, "--output", out), 14, "--overwrite")


NUMBERED = [{"id": "wood", "tilesetBandIndex": 0}, {"id": "town", "tilesetBandIndex": 1}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("wood=mode,town=mean", {"bands": [{"pyramidingPolicy": "MODE"}, {"pyramidingPolicy": "MEAN"}]}),
        ("wood=mode", {"bands": [{"pyramidingPolicy": "MODE"}, {}], "pyramidingPolicy": "MEAN"}),
        ("*=sample,town=mode", {"bands": [{}, {"pyramidingPolicy": "MODE"}], "pyramidingPolicy": "SAMPLE"}),
        ("wood=mode,town=MODE", {"pyramidingPolicy": "MODE"}),
        ("*=mode", {"pyramidingPolicy": "MODE"}),
    ],
)
def test_a_band_without_a_policy_of_its_own_has_the_images(
    given: str, expected: dict[str, Any], prediction_set: tuple[Path, list[Path]]
) -> None:
    outcome = make(prediction_set, "--pyramiding-policy", given)
    found = json.loads(outcome.stdout)
    own = expected.pop("bands", None)
    assert found.get("bands") == (own and [numbered | each for numbered, each in zip(NUMBERED, own, strict=True)])
    assert {key: found[key] for key in ("pyramidingPolicy", "missingData") if key in found} == expected
    assert ("order" in outcome.stderr) == (own is not None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("town=-1", {"bands": [{}, {"missingData": {"values": [-1]}}]}),
        ("*=0,town=-1", {"bands": [{}, {"missingData": {"values": [-1]}}], "missingData": {"values": [0]}}),
        (
            "wood=nan,town=2",
            {"bands": [{"missingData": {"values": ["NaN"]}}, {"missingData": {"values": [2]}}]},
        ),
        ("wood=nan,town=nan", {"missingData": {"values": ["NaN"]}}),
    ],
)
def test_a_band_without_missing_data_of_its_own_has_the_images(
    given: str, expected: dict[str, Any], prediction_set: tuple[Path, list[Path]]
) -> None:
    found = json.loads(make(prediction_set, "--missing-data", given).stdout)
    own = expected.pop("bands", None)
    assert found.get("bands") == (own and [numbered | each for numbered, each in zip(NUMBERED, own, strict=True)])
    assert {key: found[key] for key in ("missingData",) if key in found} == expected
    assert found["pyramidingPolicy"] == "MEAN"


def test_bands_are_listed_when_asked_for_and_what_is_assumed_is_told(
    prediction_set: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    outcome = make(prediction_set, "--list-bands", "--output", tmp_path / "m.json", "--json")
    assert json.loads((tmp_path / "m.json").read_text())["bands"] == NUMBERED
    (told,) = json.loads(outcome.stdout)["warnings"]
    assert outcome.stderr == f"warning: {told}\n"
    assert "bands" not in json.loads(make(prediction_set).stdout)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--pyramiding-policy", "*=mode,x=min"), "'x'"),
        (("--pyramiding-policy", "wood=mode,wood=mean"), "twice"),
        (("--pyramiding-policy", "wood=mode,town"), "'town'"),
        (("--pyramiding-policy", "average"), "median"),
        (("--missing-data", "x=1"), "'x'"),
        (("--missing-data", "wood=one"), "'one'"),
        (("--missing-data", ""), "empty"),
        (("--mask-bands", "town"), "'town'"),
        (("--mask-bands", "wood,wood"), "twice"),
        (("--mask-bands", "all", "--missing-data", "0"), "mask_bands"),
        (("--mask-bands", "wood", "--missing-data", "wood=0"), "mask_bands"),
        (("--crs", "EPSG:0"), "EPSG:0"),
        (("--crs", " "), "crs"),
    ],
    ids=" ".join,
)
def test_bands_that_are_not_there_and_values_that_are_none_are_refused(
    more: tuple[str, ...], words: str, prediction_set: tuple[Path, list[Path]]
) -> None:
    assert_refused(make(prediction_set, *more), 2, words)


@pytest.mark.parametrize(
    "more",
    [
        ("--name", "my map"),
        ("--name", "projects/p/assets/a b"),
        ("--name", "projects/p/assets"),
        ("--uri-prefix", "/bucket/x"),
        ("--uri-prefix", "gs://bucket"),
        ("--start-time", "yesterday"),
        ("--start-time", "2024-02-01", "--end-time", "2024-01-01"),
        ("--start-time", "2024-01-01T12:00:00.123Z", "--end-time", "2024-01-01T12:00:00.122Z"),
        ("--start-time", "2024-01-01T12:00:00.1Z", "--end-time", "2024-01-01T13:00:00+01:00"),
        ("--start-time", "2024-01-01T12:00:00.123456789Z"),
        ("--start-time", "0001-01-01T00:00:00+05:00"),
        ("--start-time", "20240101112"),
        ("--start-time", "1704067200000"),
        ("--property", "x"),
        ("--property", "=1"),
        ("--property", "(string)=1"),
        ("--property", "(text)a=1"),
        ("--property", "()a=1"),
        ("--property", "(number)a=one"),
        ("--property", "(number)a=nan"),
        ("--property", "(date)a=yesterday"),
        ("--property", "a=1", "--property", "a=2"),
        ("--property", "a=1", "--property", "(string)a=1"),
        ("--name", "projects/my-project/assets"),
        ("--name", "projects/my-project/assets/"),
        ("--name", "projects/my-project/assets/a//b"),
        ("--name", "users/me"),
        ("--name", "LANDSAT/x"),
        ("--uri-prefix", "elsewhere=gs://bucket/"),
        ("--uri-prefix", "elsewhere=/bucket/"),
    ],
    ids=" ".join,
)
def test_what_earth_engine_would_refuse_is_exit_2(
    more: tuple[str, ...], prediction_set: tuple[Path, list[Path]]
) -> None:
    assert_refused(make(prediction_set, *more), 2)


def test_a_set_that_is_not_whole_is_refused(prediction_set: tuple[Path, list[Path]]) -> None:
    mixer, shards = prediction_set
    assert_refused(run("upload-manifest", mixer, *shards[:-1], *PLACE), 12, "11 records", "12")


@pytest.mark.parametrize(("name", "words"), [("a.tf", ".tfrecord"), ("a.gz", ".tfrecord")])
def test_a_name_that_earth_engine_does_not_know_is_refused(name: str, words: str, tmp_path: Path) -> None:
    mixer, (shard,) = write_set(tmp_path, numbered(1, 2, 2), patch=(2, 2))
    shard = shard.rename(tmp_path / name)
    assert_refused(run("upload-manifest", mixer, shard, *PLACE), 10, words)


@pytest.mark.parametrize("band", ["a band", "é", "a/b", "a.b"])
def test_a_band_that_is_no_asset_band_is_refused(band: str, tmp_path: Path) -> None:
    mixer, (shard,) = write_set(tmp_path, numbered(1, 2, 2), patch=(2, 2), names=(band,))
    assert_refused(run("upload-manifest", mixer, shard, *PLACE), 10, "letters, digits")


def test_lengths_that_fit_no_patch_are_refused(tmp_path: Path) -> None:
    mixer, (shard,) = write_blocks(tmp_path, {"a": np.zeros((4, 7), "float32")}, patch=(2, 2), per_row=2)
    assert_refused(run("upload-manifest", mixer, shard, *PLACE), 12, "7 values")


def test_records_of_pixels_are_refused(tmp_path: Path) -> None:
    mixer, (shard,) = write_blocks(tmp_path, {"a": np.zeros((16, 1), "float32")}, patch=(2, 2), per_row=2)
    mixer.write_text(mixer.read_text().replace('"totalPatches": 16', '"totalPatches": 4'))
    assert_refused(run("upload-manifest", mixer, shard, *PLACE), 10, "each pixel")


def test_a_set_without_mixer_is_refused(tmp_path: Path) -> None:
    scene = numbered(1, 4, 4)[0]
    scene[:2, :2] = np.nan
    source = write_raster(tmp_path / "scene.tif", scene)
    geotfr.export_image(source, tmp_path / "set", patch_dimensions=2, masked_threshold=0)
    manifest, shard = tmp_path / "set-manifest.json", tmp_path / "set.tfrecord.gz"
    assert_refused(run("upload-manifest", manifest, shard, *PLACE), 10, "no mixer")


@pytest.mark.parametrize("prefix", ["gs://bucket/map", "gs://bucket/map/"])
def test_files_are_named_where_the_copy_puts_them(
    prefix: str, prediction_set: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    mixer, shards = prediction_set
    out = tmp_path / "upload.json"
    told = run("upload-manifest", mixer, *shards, *PLACE[:2], "--uri-prefix", prefix, "--output", out).stdout
    uris = json.loads(out.read_text())["tilesets"][0]["sources"][0]["uris"]
    assert uris == [f"gs://bucket/map/{path.name}" for path in (*shards, mixer)]
    assert f"{mixer} gs://bucket/map/\n" in told


@pytest.mark.parametrize(("number", "expected"), [("nan", "NaN"), ("-inf", "-Infinity"), ("-9999", -9999)])
def test_the_manifest_is_json_whatever_the_numbers(
    number: str, expected: object, prediction_set: tuple[Path, list[Path]]
) -> None:
    def refused(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    text = make(prediction_set, "--missing-data", number, "--property", f"x={number}").stdout
    found = json.loads(text, parse_constant=refused)
    assert found["missingData"] == {"values": [expected]}
    assert found["properties"] == {"x": -9999 if number == "-9999" else number}


@pytest.mark.parametrize(
    ("older", "is_told"),
    [("users/me/a", False), ("projects/p/a", False), ("projects/p/assets/a", True), ("projects/My/assets/a", True)],
)
def test_ids_of_older_assets_get_the_names_that_manifests_want(
    older: str, is_told: bool, prediction_set: tuple[Path, list[Path]]
) -> None:
    outcome = make(prediction_set, "--name", older)
    assert json.loads(outcome.stdout)["name"] == f"projects/earthengine-legacy/assets/{older}"
    assert bool(outcome.stderr) == is_told


@pytest.mark.parametrize("project", ["abcdef", "a" + "b" * 28 + "c", "google.com:my-project"])
def test_projects_that_the_client_knows_stay(project: str, prediction_set: tuple[Path, list[Path]]) -> None:
    name = f"projects/{project}/assets/folder/map"
    outcome = make(prediction_set, "--name", name)
    assert (json.loads(outcome.stdout)["name"], outcome.stderr) == (name, "")


@pytest.mark.parametrize("policy", ["min", "max", "MEDIAN"])
def test_policies_that_only_the_client_knows_are_told(policy: str, prediction_set: tuple[Path, list[Path]]) -> None:
    outcome = make(prediction_set, "--pyramiding-policy", f"wood={policy},town={policy}")
    assert json.loads(outcome.stdout)["pyramidingPolicy"] == policy.upper()
    assert outcome.stderr.count("warning: ") == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2024-01-01T12:00:00.123Z", "2024-01-01T12:00:00.123000Z"),
        ("2024-01-01T12:00:00.000001", "2024-01-01T12:00:00.000001Z"),
        ("2024-01-01T12:00:00.500+01:00", "2024-01-01T11:00:00.500000Z"),
        ("2024-01-01T12:00:00.0Z", "2024-01-01T12:00:00Z"),
        ("2024-01-01", "2024-01-01T00:00:00Z"),
    ],
)
def test_a_time_keeps_its_decimals(given: str, expected: str, prediction_set: tuple[Path, list[Path]]) -> None:
    found = json.loads(make(prediction_set, "--start-time", given, "--end-time", given).stdout)
    assert (found["startTime"], found["endTime"]) == (expected, expected)


@pytest.mark.parametrize(
    ("text", "expected", "is_told"),
    [
        ("(string)c=1", {"c": "1"}, False),
        ("(string)c=null", {"c": "null"}, False),
        ("(number)c=1.5", {"c": 1.5}, False),
        ("(number)c=007", {"c": 7}, False),
        ("(date)c=2024-01-01", {"c": 1704067200000}, False),
        ("(date)c=2024-01-01T00:00:01.5", {"c": 1704067201500}, False),
        ("(date)c=12", {"c": 12}, False),
        ("c=null", {"c": None}, False),
        ("(number)c=null", {"c": None}, False),
        ("c=a=b", {"c": "a=b"}, False),
        ("c=", {"c": ""}, False),
        ("c=two\nlines", {"c": "two\nlines"}, False),
        ("c=-1.50", {"c": -1.5}, False),
        ("c=007", {"c": 7}, True),
        ("c=1_000", {"c": 1000}, True),
        ("c=9007199254740993", {"c": 9007199254740992}, True),
        ("c=nan", {"c": "nan"}, True),
        ("system:time_start=0", {"system:time_start": 0}, True),
    ],
)
def test_properties_are_read_as_earth_engines_client_reads_them(
    text: str, expected: dict[str, Any], is_told: bool, prediction_set: tuple[Path, list[Path]]
) -> None:
    outcome = make(prediction_set, "--property", text)
    found = json.loads(outcome.stdout)["properties"]
    assert found == expected
    assert [type(value) is str for value in found.values()] == [type(value) is str for value in expected.values()]
    assert outcome.stderr.count("warning: ") == is_told


@pytest.mark.parametrize("value", [True, float("nan"), 10**400, 2**53 + 1, ["a"], b"a"], ids=repr)
def test_values_that_no_property_can_have_are_refused(value: object, prediction_set: tuple[Path, list[Path]]) -> None:
    mixer, shards = prediction_set
    with pytest.raises(geotfr.UsageError, match="property"):
        upload_manifest(mixer, shards, name=PLACE[1], uri_prefix=PLACE[3], properties={"a": value})  # type: ignore[dict-item]


@pytest.mark.parametrize("suffix", [".TFRecord", ".TFRecord.gz", ".TFRECORD.GZ"])
def test_a_real_upload_of_mixed_features_with_its_mixer_elsewhere(suffix: str, tmp_path: Path) -> None:
    (tmp_path / "grid").mkdir()
    features = {"class": np.arange(24 * 4).reshape(24, 4), "share": np.zeros((24, 4), "float32")}
    mixer, shards = write_blocks(tmp_path, features, patch=(2, 2), per_row=4, shards=12)
    mixer = mixer.rename(tmp_path / "grid" / "mixer.json")
    shards = [shard.rename(tmp_path / f"prediction_dnn_v1-{place}{suffix}") for place, shard in enumerate(shards)]
    outcome = run("upload-manifest", mixer, *shards[::-1], *PLACE)
    assert (outcome.code, outcome.stderr) == (0, "")
    found = json.loads(outcome.stdout)
    assert "bands" not in found
    names = [uri.rpartition("/")[2] for uri in found["tilesets"][0]["sources"][0]["uris"]]
    assert names == [*(f"prediction_dnn_v1-{place}{suffix}" for place in range(12)), "mixer.json"]
    shards[3].unlink()
    assert_refused(run("upload-manifest", mixer, *shards[:3], *shards[4:], *PLACE), 12, "shard 3 is missing")


def test_files_in_different_folders_have_addresses_of_their_own(
    prediction_set: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    mixer, shards = prediction_set
    for name in ("east", "west"):
        (tmp_path / name).mkdir()
    places = [tmp_path / ("east" if place < 6 else "west") / shard.name for place, shard in enumerate(shards)]
    moved = [shard.rename(place) for shard, place in zip(shards, places, strict=True)]
    where = (
        "--uri-prefix",
        "gs://b/map",
        "--uri-prefix",
        f"{tmp_path}/west/=gs://c",
        "--uri-prefix",
        f"{mixer}=gs://d/e/",
    )
    out = tmp_path / "m.json"
    outcome = run("upload-manifest", mixer, *moved, *PLACE[:2], *where[:2], *where[4:], "--output", out)
    assert outcome.code == 0, outcome.told
    uris = json.loads(out.read_text())["tilesets"][0]["sources"][0]["uris"]
    assert uris == [f"gs://b/map/{shard.name}" for shard in shards] + [f"gs://d/e/{mixer.name}"]
    assert f"{mixer} gs://d/e/\n" in outcome.stdout
    where = (*where[:3], where[3] + "/", *where[4:])
    found = json.loads(run("upload-manifest", mixer, *moved, *PLACE[:2], *where).stdout)
    expected = [f"gs://{'b/map' if place < 6 else 'c'}/{shard.name}" for place, shard in enumerate(shards)]
    assert found["tilesets"][0]["sources"][0]["uris"] == [*expected, f"gs://d/e/{mixer.name}"]


def test_two_files_that_would_get_one_address_are_refused(tmp_path: Path) -> None:
    mixer, (first, second) = write_set(tmp_path, numbered(1, 2, 4), patch=(2, 2), shards=2)
    (tmp_path / "more").mkdir()
    second = second.rename(tmp_path / "more" / first.name)
    given = ("upload-manifest", mixer, first, second, "--shard-order", "given")
    assert_refused(run(*given, *PLACE), 2, "rename")
    assert run(*given, *PLACE, "--uri-prefix", f"{tmp_path}/more=gs://bucket/more/").code == 0
    assert_refused(run(*given, *PLACE[:2]), 2, "--uri-prefix")
    assert_refused(run(*given, *PLACE, "--uri-prefix", "gs://other/"), 2, "two")


def test_short_uris_say_once_what_all_begin_with(prediction_set: tuple[Path, list[Path]]) -> None:
    whole = json.loads(make(prediction_set).stdout)["tilesets"][0]["sources"][0]["uris"]
    found = json.loads(make(prediction_set, "--short-uris").stdout)
    assert found["uriPrefix"] == "gs://bucket/map/"
    assert [found["uriPrefix"] + uri for uri in found["tilesets"][0]["sources"][0]["uris"]] == whole
    other = ("--uri-prefix", f"{prediction_set[0]}=gs://other/")
    assert_refused(make(prediction_set, "--short-uris", *other), 2, "buckets")


def test_the_last_band_can_mask_the_others(tmp_path: Path) -> None:
    bands = np.stack([numbered(1, 4, 4)[0].astype("uint8")] * 3)
    mixer, shards = write_set(tmp_path, bands, patch=(2, 2), names=("wood", "town", "seen"))
    found = [
        json.loads(run("upload-manifest", mixer, *shards, *PLACE, "--mask-bands", which).stdout)
        for which in ("all", "town")
    ]
    (tileset,) = found[0]["tilesets"]
    assert found[0]["bands"] == [{**each, "tilesetId": tileset["id"]} for each in NUMBERED]
    assert [each["maskBands"] for each in found] == [
        [{"tilesetId": tileset["id"]}],
        [{"tilesetId": tileset["id"], "bandIds": ["town"]}],
    ]


@pytest.mark.parametrize(
    ("crs", "expected", "is_told"),
    [("EPSG:32618", "EPSG:32618", False), ("EPSG:32619", "EPSG:32619", True), ("+proj=longlat", None, True)],
)
def test_a_crs_in_place_of_the_mixers_is_told(
    crs: str, expected: str | None, is_told: bool, prediction_set: tuple[Path, list[Path]]
) -> None:
    outcome = make(prediction_set, "--crs", crs)
    (tileset,) = json.loads(outcome.stdout)["tilesets"]
    assert tileset["crs"] == expected if expected else tileset["crs"].startswith("GEOGCS[")
    assert outcome.stderr.count("warning: ") == is_told


def test_a_mixer_without_crs_is_told(prediction_set: tuple[Path, list[Path]]) -> None:
    mixer, _ = prediction_set
    mixer.write_text(mixer.read_text().replace("EPSG:32618", ""))
    assert make(prediction_set).stderr.count("--crs") == 1
    assert make(prediction_set, "--crs", "EPSG:32618").stderr == ""


@pytest.mark.parametrize(
    ("dtype", "missing", "is_told"),
    [
        ("float32", 0.5, False),
        ("float32", 0.1, True),
        ("float32", "nan", False),
        ("uint8", -1, True),
        ("int64", 0.5, True),
    ],
)
def test_missing_data_that_no_pixel_can_be_is_told(
    dtype: str, missing: float | str, is_told: bool, tmp_path: Path
) -> None:
    mixer, shards = write_set(tmp_path, numbered(1, 4, 4).astype(dtype), patch=(2, 2))
    found = upload_manifest(mixer, shards, name=PLACE[1], uri_prefix=PLACE[3], missing_data=missing)
    assert len(found.warnings) == is_told


def test_a_manifest_over_ten_megabytes_is_told(prediction_set: tuple[Path, list[Path]]) -> None:
    mixer, shards = prediction_set
    for length, is_told in ((9_990_000, False), (10_000_000, True)):
        found = upload_manifest(mixer, shards, name=PLACE[1], uri_prefix=PLACE[3], properties={"a": "x" * length})
        assert len(found.warnings) == is_told


def test_each_set_of_a_folder_gets_a_manifest_and_keeps_its_place(tmp_path: Path) -> None:
    top = tmp_path / "sets"
    for name in ("north", "south"):
        (top / name).mkdir(parents=True)
        write_set(top / name, numbered(1, 2, 4), patch=(2, 2), shards=2)
    out = tmp_path / "manifests"
    asset = ("--name", "projects/my-project/assets/maps", "--uri-prefix", "gs://bucket/all/")
    outcome = run("upload-manifest", top, "--each", *asset, "--output", out, "--json")
    assert outcome.code == 0, outcome.told
    for name, document in zip(("north", "south"), json.loads(outcome.stdout)["manifests"], strict=True):
        found = json.loads((out / f"{name}.json").read_text())
        assert document["name"] == found["name"] == f"projects/my-project/assets/maps/{name}"
        assert found["tilesets"][0]["sources"][0]["uris"] == [
            f"gs://bucket/all/{name}/{file}"
            for file in ("pred-00000.tfrecord", "pred-00001.tfrecord", "scene-mixer.json")
        ]
    (out / "north.json").unlink()
    assert_refused(run("upload-manifest", top, "--each", *asset, "--output", out), 14, "south.json")
    assert not (out / "north.json").exists()
    assert_refused(run("upload-manifest", top, "--each", *asset), 2, "--output")
    (top / "south").rename(top / "so uth")
    assert_refused(run("upload-manifest", top, "--each", *asset, "--output", out), 2, "so uth")
