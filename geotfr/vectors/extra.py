"""The libraries of the extra ``vector``, imported when they are first used."""

from __future__ import annotations

import importlib
from typing import Any

from geotfr.errors import UsageError

__all__ = ["load"]


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
