"""Outputs that would take the name of what is read."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from geotfr.errors import UsageError
from geotfr.mixer.manifest import is_manifest
from geotfr.mixer.mixer import is_mixer
from geotfr.stores.path import any_path, is_local, is_there

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["check_not_input"]

_BAND = re.compile(r":\d+$")


def check_not_input(target: Path, inputs: Iterable[object]) -> None:
    """Refuse, whatever ``overwrite`` says, to replace a file that the run reads, or the mixer or manifest of a set.

    Parameters
    ----------
    inputs
        Paths, ``FILE:3`` too. What is no path, as an array, a frame or None, is no file.

    Raises
    ------
    UsageError
        ``target`` is one of them.
    """
    if is_local(target) and not is_there(target):
        return
    if any(_is_same(target, given) for given in inputs if isinstance(given, str | os.PathLike)):
        raise UsageError(f"{target}: the output is one of the inputs; give another path")
    if is_local(target) and target.suffix == ".json" and (is_mixer(target) or is_manifest(target)):
        raise UsageError(f"{target}: is the mixer or manifest of a set; give another path, or remove the set first")


def _is_same(target: Path, given: str | os.PathLike[str]) -> bool:
    text = os.fspath(given)
    return any(_is_file(target, any_path(name)) for name in {text, _BAND.sub("", text)} if name)


def _is_file(target: Path, other: Path) -> bool:
    if not (is_local(target) and is_local(other)):
        return target == other
    return is_there(other) and target.samefile(other)
