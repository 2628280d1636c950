"""The libraries of the extras ``vector`` and ``table``, imported when they are first used."""

from __future__ import annotations

from typing import Any

from geotfr.extras import load_extra

__all__ = ["load", "load_arrow"]


def load_arrow(module: str = "pyarrow") -> Any:
    """pyarrow or a ``module`` of it, for patch tables; UsageError where the extra ``table`` isn't installed."""
    return load_extra(module, extra="table", what="patch tables")


def load(module: str) -> Any:
    """The ``module`` of pyarrow, pyogrio or geopandas; UsageError where the extra ``vector`` isn't installed."""
    return load_extra(module, extra="vector", what="tables")
