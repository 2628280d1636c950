"""Files that make no set are told one by one, with what to do; those that do are found however they are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from oracle.rasters import numbered
from oracle.sets import write_set
from oracle.store import make_set

import geotfr
from geotfr.errors import DamagedError, GeotfrError, LimitError, MissingInputError, UsageError
from geotfr.mixer.cards import grid_sketch
from geotfr.mixer.manifest import is_manifest, read_manifest
from geotfr.mixer.mixer import read_mixer
from geotfr.mixer.names import is_shard_name, shard_number, shard_pattern
from geotfr.mixer.sets import find_beside, find_each, find_predictions, find_shards
from geotfr.records.gzip import codec


def named(folder: Path, name: str, *, shards: int = 1) -> Path:
    """A set whose files begin with ``name``; its mixer."""
    folder.mkdir(parents=True, exist_ok=True)
    mixer, paths = write_set(folder, numbered(1, 4, 6), patch=(2, 2), shards=shards)
    for number, path in enumerate(paths):
        path.rename(folder / f"{name}-{number}.tfrecord")
    return mixer.rename(folder / f"{name}-mixer.json")


def found_names(folder: Path) -> dict[str, list[str]]:
    return {name: [path.name for path in each.shards] for name, each in find_each(folder).items()}


def test_each_set_of_a_folder_has_its_own_shards_and_other_folders_are_passed_over(tmp_path: Path) -> None:
    named(tmp_path, "a", shards=2)
    named(tmp_path / "b", "x")
    named(tmp_path / ".hidden", "y")
    (tmp_path / "empty").mkdir()
    assert found_names(tmp_path) == {"a": ["a-0.tfrecord", "a-1.tfrecord"], "b": ["x-0.tfrecord"]}


def test_what_is_no_folder_of_sets_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="no such folder"):
        find_each(tmp_path / "none")
    with pytest.raises(MissingInputError, match="no mixer in this folder and right below it"):
        find_each(tmp_path)
    named(tmp_path, "b")
    named(tmp_path / "b", "x")
    with pytest.raises(UsageError, match=r"the set b lies in .* too; give one another name"):
        find_each(tmp_path)
    (tmp_path / "b-0.tfrecord").unlink()
    with pytest.raises(UsageError, match="no shards whose names begin with 'b'; name them alike"):
        find_each(tmp_path)


def test_a_set_that_lacks_a_part_or_has_it_twice_is_told(tmp_path: Path) -> None:
    mixer = named(tmp_path / "in", "a")
    shard = tmp_path / "in" / "a-0.tfrecord"
    cases: list[tuple[type[GeotfrError], str, tuple[Path, list[Path]]]] = [
        (UsageError, "a mixer alone", (mixer, [])),
        (MissingInputError, "is a folder; a shard is expected", (mixer, [tmp_path])),
        (MissingInputError, "no such file; a shard is expected", (mixer, [tmp_path / "none"])),
        (UsageError, "the shard is named twice", (mixer, [shard, shard])),
        (UsageError, "a second mixer", (mixer, [shard, mixer])),
        (MissingInputError, "no mixer in this folder", (tmp_path, [])),
    ]
    for kind, words, (where, shards) in cases:
        with pytest.raises(kind, match=words):
            find_predictions(where, shards)
    assert find_shards([tmp_path / "in"]) == (shard,)
    with pytest.raises(MissingInputError, match="no shards"):
        find_shards([tmp_path])
    named(tmp_path / "in", "b")
    with pytest.raises(UsageError, match="2 mixers"):
        find_predictions(tmp_path / "in")
    with pytest.raises(UsageError, match="2 sets of shards"):
        find_shards([tmp_path / "in"])
    assert find_beside(mixer).shards == (shard,)
    mixer.rename(tmp_path / "in" / "other.json")
    with pytest.raises(UsageError, match="2 sets of shards"):
        find_beside(tmp_path / "in" / "other.json")


def test_a_manifest_of_another_grid_is_not_taken_and_one_of_another_format_is_told(tmp_path: Path) -> None:
    mixer = named(tmp_path, "a")
    manifest = tmp_path / "a-manifest.json"
    for text in ("{}", "[]"):
        manifest.write_text(text)
        assert find_beside(mixer).manifest is None
    manifest.write_text('{"geotfr_version": "1", "shards": [], "format": 99}')
    with pytest.raises(DamagedError, match="manifest format 99 is not known"):
        find_beside(mixer)
    make_set(tmp_path / "own", seed=1)
    make_set(tmp_path / "other", seed=1, patch=32)
    own = tmp_path / "own" / "scene-mixer.json"
    assert find_beside(own).manifest is not None
    (tmp_path / "other" / "scene-manifest.json").replace(tmp_path / "own" / "scene-manifest.json")
    assert find_beside(own).manifest is None
    assert is_manifest(manifest)
    with pytest.raises(DamagedError, match="manifest format 99 is not known"):
        read_manifest(manifest)
    assert not is_manifest(tmp_path / "none")


@pytest.mark.parametrize("text", ["[" * 40 + "]" * 40, '{"a": ' * 40 + "1" + "}" * 40])
def test_nesting_is_refused_before_it_is_parsed_unless_it_is_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a-mixer.json"
    path.write_text(text)
    with pytest.raises(LimitError, match="nested deeper than 32 levels"):
        read_mixer(path)
    path.write_text('{"a": "\\"' + "[" * 100 + '"}')
    with pytest.raises(DamagedError, match=r"a-mixer.json"):
        read_mixer(path)


def test_the_sketch_of_a_grid_has_a_block_only_where_patches_have_margins() -> None:
    def orange(margin: tuple[int, int]) -> int:
        text = grid_sketch(shape_yx=(20, 30), patch_yx=(10, 10), rows=2, columns=3, margin_yx=margin)
        return text.count("<rect") - 1

    assert [orange((0, 0)), orange((2, 0)), orange((0, 2)), orange((1, 1))] == [0, 1, 1, 1]


def test_compressors_have_names() -> None:
    with pytest.raises(UsageError, match="compressor 'xz' is not known; use fast or ee"):
        codec("xz")


@pytest.mark.parametrize("name", ["/etc/passwd", "../other.tfrecord", "https://127.0.0.1:9/x", "s3://bucket/x"])
def test_a_manifest_leads_to_no_file_elsewhere(tmp_path: Path, name: str) -> None:
    made = make_set(tmp_path / "out", seed=1)
    manifest = Path(f"{made}-manifest.json")
    text = manifest.read_text().replace('"scene-00000.tfrecord"', json.dumps(name))
    assert name in text
    manifest.write_text(text)
    with pytest.raises(DamagedError, match="a file name without folder is allowed"):
        find_beside(manifest)
    with pytest.raises(DamagedError, match="a file name without folder is allowed"):
        geotfr.PatchDataset(f"{made}-mixer.json")


@pytest.mark.parametrize("suffix", [".TFRecord", ".TFRecord.gz", ".TFREC", "-00001-of-00002.TFRECORD"])
def test_the_case_of_a_shards_suffix_is_no_matter(suffix: str) -> None:
    name = f"scene{suffix if suffix[0] == '-' else '-00001' + suffix}"
    assert is_shard_name(name)
    assert (shard_number(name), shard_pattern(name)) == (1, shard_pattern(name.lower()))
