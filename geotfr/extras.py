"""Libraries that an extra brings, imported when they are first used."""

from __future__ import annotations

import importlib
from typing import Any

from geotfr.errors import UsageError

__all__ = ["load_extra"]


def load_extra(module: str, *, extra: str, what: str) -> Any:
    """The ``module`` that the extra ``extra`` brings, for ``what``.

    Raises
    ------
    UsageError
        It isn't installed.

    Examples
    --------
    >>> load_extra("json", extra="json", what="this").dumps(1)
    '1'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != library:
            # The library is there, and something that it needs is not: its own words say more.
            raise
        raise UsageError(f"{what} need {library}, which isn't installed; pip install 'geotfr[{extra}]'") from error
