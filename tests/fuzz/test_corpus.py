"""Whatever the fuzzer has found interesting still keeps the law."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_keeps_the_law(target: str) -> None:
    files = sorted((CORPUS / target).iterdir())
    assert files
    for file in files:
        try:
            TARGETS[target](file.read_bytes())
        except Exception as error:
            error.add_note(f"in {target}/{file.name}")
            raise
