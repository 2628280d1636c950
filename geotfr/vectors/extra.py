"""The libraries of the extras ``vector`` and ``table``, imported when they are first used."""

from __future__ import annotations

import importlib
from typing import Any

from geotfr.errors import UsageError

__all__ = ["load", "load_arrow"]


def load_arrow(module: str = "pyarrow") -> Any:
    """pyarrow or a ``module`` of it, for patch tables.

    Raises
    ------
    UsageError
        The extra ``table`` isn't installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError("patch tables need pyarrow, which isn't installed; pip install 'geotfr[table]'") from error


def load(module: str) -> Any:
    """The ``module`` of pyarrow, pyogrio or geopandas.

    Raises
    ------
    UsageError
        The extra isn't installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"tables need {module.partition('.')[0]}, which isn't installed; pip install 'geotfr[vector]'"
        ) from error
