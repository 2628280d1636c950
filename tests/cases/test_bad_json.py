"""What is no mixer and no JSON of ours is told, with the part that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from geotfr.errors import DamagedError, InputError, LimitError, MissingInputError, UsageError
from geotfr.mixer import SetNames
from geotfr.mixer.mixer import mixer_from_text, read_mixer
from geotfr.mixer.strict_json import parse_json, read_json

GOOD = (
    '{"projection": {"crs": "EPSG:32618", "affine": {"doubleMatrix": [10.0, 0.0, 0.0, 0.0, -10.0, 0.0]}},'
    ' "patchDimensions": [4, 2], "patchesPerRow": 2, "totalPatches": 4}'
)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"crs": "EPSG:32618"', '"crs": 7', "projection.crs is 7; a text is expected"),
        ('"crs": "EPSG:32618", ', "", r"projection\.crs is missing; found the keys projection"),
        ("[4, 2]", "4", r"patchDimensions is 4; \[width, height\] is expected"),
        ("[4, 2]", "[4, 2, 1]", r"patchDimensions is \[4, 2, 1\]"),
        ("[4, 2]", "[4, 2.5]", "patchDimensions is 2.5; a whole number"),
        ("[4, 2]", "[0, 2]", "patchDimensions is 0; allowed are 1 to"),
        ('"patchesPerRow": 2', '"patchesPerRow": true', "patchesPerRow is True; a whole number"),
        ('"patchesPerRow": 2', '"patchesPerRow": "2"', "patchesPerRow is '2'; a whole number"),
        ('"patchesPerRow": 2', '"patchesPerRow": 20000000', "patchesPerRow is 20000000; allowed are 1 to 10000000"),
        ('"totalPatches": 4', '"totalPatches": 5', "totalPatches 5 is no multiple of patchesPerRow 2"),
        ("10.0, 0.0, 0.0, 0.0", "10.0, 0.0, 0.0", "six numbers are expected"),
        ("[10.0", f"[1{'0' * 400}", "a number beyond float64"),
        ("[10.0", "[1e400", "maps no grid"),
        ("-10.0", "0", "maps no grid"),
        ("[10.0", "[NaN", "NaN is not JSON"),
        ('{"projection"', '{"patchesPerRow": 2, "projection"', "'patchesPerRow' stands twice"),
    ],
)
def test_a_mixer_that_is_none_is_told(old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(DamagedError, match=words):
        mixer_from_text(GOOD.replace(old, new, 1))


def test_a_number_of_too_many_digits_is_over_a_limit() -> None:
    with pytest.raises(LimitError, match="digits"):
        mixer_from_text(GOOD.replace("[10.0", f"[1{'0' * 5000}", 1))


def test_whole_numbers_may_be_written_as_floats() -> None:
    text = GOOD.replace("[4, 2]", "[4.0, 2e0]").replace('"totalPatches": 4', '"totalPatches": 4.0')
    assert mixer_from_text(text) == mixer_from_text(GOOD)


def test_files_that_cannot_be_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingInputError, match="no such file; a mixer is expected there"):
        read_mixer(tmp_path / "none.json")
    with pytest.raises(InputError, match="is no regular file"):
        read_mixer(tmp_path)
    (tmp_path / "large.json").write_text(GOOD)
    monkeypatch.setattr("geotfr.mixer.strict_json.MAX_JSON_BYTES", 10)
    with pytest.raises(LimitError, match="too many for a mixer; allowed are 10"):
        read_json(tmp_path / "large.json", what="mixer")


@pytest.mark.parametrize(
    ("text", "words"),
    [(b"[1]", "found list, an object is expected"), (b"\xff", "not a thing"), (b"{", "not a thing")],
)
def test_json_that_is_no_object_is_told(text: bytes, words: str) -> None:
    with pytest.raises(DamagedError, match=words):
        parse_json(text, name="x", what="thing")


@pytest.mark.parametrize(
    ("prefix", "words"), [("", "names no file"), ("a\0b", "names no file"), ("\udcff", "not UTF-8")]
)
def test_a_prefix_that_no_manifest_can_hold_is_refused(prefix: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        SetNames.for_prefix(prefix, naming="drive", compressed_suffix=".gz")
