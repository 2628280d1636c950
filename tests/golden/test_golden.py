"""Every file that a command line writes keeps its bytes, from version to version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden.corpus import GOLDEN, digests, make_inputs, versions
from golden.lines import LINES

WANTED = json.loads(GOLDEN.read_text())


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    make_inputs(folder)
    return folder


@pytest.mark.parametrize("name", LINES)
def test_the_files_of_a_command_line_keep_their_bytes(
    name: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {key: (value, versions()[key]) for key, value in WANTED["versions"].items() if value != versions()[key]}
    if others:
        pytest.skip(f"the corpus was made with other libraries: {others}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").symlink_to(inputs)
    assert digests(name, tmp_path) == WANTED["files"][name]


def test_the_corpus_has_all_lines() -> None:
    assert sorted(WANTED["files"]) == sorted(LINES)
