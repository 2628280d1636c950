"""A library that isn't there is one line that says how to get it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from datasets.scenes import write_scene

import geotfr
from geotfr.errors import UsageError
from geotfr.extras import load_extra

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("function", "library", "extra"), [("to_torch", "torch", "torch"), ("to_tf_dataset", "tensorflow", "tf")]
)
def test_an_adapter_without_its_library_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, library: str, extra: str
) -> None:
    dataset = geotfr.PatchDataset(write_scene(tmp_path).mixer)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=rf"{library}, which isn't installed; pip install 'geotfr\[{extra}\]'$"):
        getattr(geotfr, function)(dataset)


def test_what_a_library_itself_misses_is_told_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "halflib.py").write_text("import otherlib\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="otherlib"):
        load_extra("halflib", extra="half", what="tests")
