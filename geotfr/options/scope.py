"""What an option decides, told once beside its declaration: bytes, a right, or how a run goes.

Options that decide bytes stand in the manifest and may come back from one; a right is the caller's alone, whatever a
file says; of a run nothing stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Literal

__all__ = ["BYTES", "FILES", "RIGHT", "RUN", "Scope", "keys_of", "scope_of"]

Scope = Literal["bytes", "right", "run"]

BYTES: Mapping[str, Any] = MappingProxyType({"scope": "bytes"})
"""Of an option that decides bytes, as metadata of its dataclass field; a ``key`` is added where its keyword differs."""
FILES: Mapping[str, Any] = MappingProxyType({"scope": "bytes", "may_name_files": True})
"""Of one that decides bytes and may name files: it stands in the manifest without folders, and is given again."""
RIGHT: Mapping[str, Any] = MappingProxyType({"scope": "right"})
"""Of one that grants something: other drivers, the network, files replaced. Never read from a file."""
RUN: Mapping[str, Any] = MappingProxyType({"scope": "run"})
"""Of one that the bytes don't depend on."""


def scope_of(options: type) -> dict[str, Scope]:
    """(field, scope) of each option of a dataclass."""
    return {each.name: each.metadata["scope"] for each in fields(options)}


def keys_of(options: type) -> dict[str, bool]:
    """The options of a dataclass that may come back from a file: name outside, and whether it may name files."""
    found = [each for each in fields(options) if each.metadata["scope"] == "bytes"]
    return {each.metadata.get("key", each.name): "may_name_files" in each.metadata for each in found}
