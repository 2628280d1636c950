"""Libraries that extras bring, imported when they are first used."""

from __future__ import annotations

import importlib
from typing import Any

from geotfr.errors import UsageError

__all__ = ["load"]


def load(module: str, *, extra: str, what: str) -> Any:
    """``module``, for ``what``.

    Raises
    ------
    UsageError
        The extra isn't installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0]
        raise UsageError(f"{what} needs {name}, which isn't installed; pip install 'geotfr[{extra}]'") from error
