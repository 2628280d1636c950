"""A store in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore.store
import pytest

from geotfr.stores import client


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """The store that every address leads to; outputs are made in ``tmp_path / "scratch"``."""
    store = obstore.store.MemoryStore()
    monkeypatch.setattr("obstore.store.from_url", lambda *_, **__: store)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    client._client.cache_clear()
    yield store
    client._client.cache_clear()
    assert list((tmp_path / "scratch").iterdir()) == []
