"""Sizes for people."""

from __future__ import annotations

__all__ = ["human_bytes"]


def human_bytes(count: float) -> str:
    """``count`` bytes with a binary unit.

    >>> human_bytes(1610612736)
    '1.5 GiB'
    """
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"
