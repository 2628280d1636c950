"""Which patches an export writes, of those that its grid has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, TypedDict

from geotfr.errors import UsageError
from geotfr.options.scope import BYTES, FILES
from geotfr.options.values import checked_share

__all__ = ["ChoiceKeywords", "ChoiceOptions", "choice_options"]


class ChoiceKeywords(TypedDict, total=False):
    """The keywords that make :class:`ChoiceOptions`."""

    min_valid: float | None
    min_share: Mapping[str, float] | Iterable[str] | str | None
    class_band: str | None
    keep: Any
    within: Any
    sample: int | None
    stratify: str | None
    balance: str | None
    seed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOptions:
    """Which patches are written; each condition leaves out more.

    Attributes
    ----------
    min_valid
        Least share of pixels that aren't masked, margins not counted.
    min_shares
        (class, least share of a patch's pixels) pairs; all must hold.
    class_band
        The band of the sources whose values are the classes; None: the label band.
    keep
        A file of patch numbers or footprints, or the numbers themselves; None: all.
    within
        Shapes that a patch has to lie in, margins not counted; None: anywhere.
    sample
        How many patches at most, drawn at random; None: all.
    stratify
        Draw from each stratum of this column its share of the sample.
    balance
        Draw from each stratum of this column the same number: that of the smallest.
    seed
        Of the draw: the same seed draws the same patches on any machine.
    """

    min_valid: float | None = field(default=None, metadata=BYTES)
    min_shares: tuple[tuple[str, float], ...] = field(default=(), metadata=BYTES)
    class_band: str | None = field(default=None, metadata=BYTES)
    keep: Any = field(default=None, metadata=FILES)
    within: Any = field(default=None, metadata=FILES)
    sample: int | None = field(default=None, metadata=BYTES)
    stratify: str | None = field(default=None, metadata=BYTES)
    balance: str | None = field(default=None, metadata=BYTES)
    seed: int = field(default=0, metadata=BYTES)

    @property
    def draws(self) -> bool:
        """Whether patches are drawn at random."""
        return self.sample is not None or self.balance is not None

    @property
    def column(self) -> str | None:
        """The column whose values make strata."""
        return self.stratify or self.balance

    @property
    def paths(self) -> tuple[str, ...]:
        """Files that decide the choice."""
        return tuple(os.fspath(each) for each in (self.keep, self.within) if isinstance(each, str | os.PathLike))

    def as_used(self) -> dict[str, Any]:
        """The options in JSON types, without folders."""
        return {
            "min_valid": self.min_valid,
            "min_share": dict(self.min_shares),
            "class_band": self.class_band,
            "keep": _told(self.keep),
            "within": _told(self.within),
            "sample": self.sample,
            "stratify": self.stratify,
            "balance": self.balance,
            "seed": self.seed,
        }


def _told(source: Any) -> Any:
    if isinstance(source, str | os.PathLike):
        return PurePath(os.fspath(source)).name
    return list(source) if isinstance(source, tuple) else source if source is None else type(source).__name__


def choice_options(given: Mapping[str, Any]) -> ChoiceOptions | None:
    """The choice that the keywords ``given`` ask for; None for all patches.

    Raises
    ------
    UsageError
        A share or number that is out of range, or options that need another.

    >>> choice_options({"min_share": "water=0.02", "sample": 100}).min_shares
    (('water', 0.02),)
    """
    found = {name: given[name] for name in ChoiceKeywords.__annotations__ if given.get(name) is not None}
    # A repeatable option that isn't given is an empty tuple.
    found = {name: value for name, value in found.items() if not (isinstance(value, tuple | str) and not value)}
    if not found:
        return None
    options = ChoiceOptions(
        min_valid=None if "min_valid" not in found else checked_share("min_valid", found["min_valid"]),
        min_shares=_min_shares(found.get("min_share", ())),
        class_band=found.get("class_band"),
        keep=_keep(found.get("keep")),
        within=found.get("within"),
        sample=None if "sample" not in found else _whole("sample", found["sample"], least=1),
        stratify=found.get("stratify"),
        balance=found.get("balance"),
        seed=_whole("seed", found.get("seed", 0), least=0),
    )
    if options.stratify is not None and options.sample is None:
        raise UsageError("--stratify: how many patches are drawn? give --sample N")
    if options.stratify is not None and options.balance is not None:
        raise UsageError("--stratify and --balance draw in different ways; leave one of them out")
    if "seed" in found and not options.draws:
        raise UsageError("--seed: nothing is drawn; give --sample N or --balance COLUMN")
    return options


def _whole(option: str, value: Any, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
        raise UsageError(f"--{option}: found {value!r}; allowed is a whole number from {least}")
    return value


def _min_shares(given: Any) -> tuple[tuple[str, float], ...]:
    pairs: list[tuple[str, Any]]
    if isinstance(given, Mapping):
        pairs = [(str(name), share) for name, share in given.items()]
    else:
        parts = [given] if isinstance(given, str) else list(given)
        split = [text.rpartition("=") for part in parts for text in part.split(",")]
        pairs = [(name.strip(), share.strip()) for name, _, share in split]
    for name, share in pairs:
        if not name:
            raise UsageError(f"--min-share: found {share!r}; allowed is CLASS=SHARE, as water=0.02")
    return tuple((name, checked_share("min_share", share)) for name, share in pairs)


def _keep(given: Any) -> Any:
    """A path, a frame, or numbers as a tuple."""
    if given is None or isinstance(given, str | os.PathLike) or hasattr(given, "columns"):
        return given
    numbers = tuple(given)
    for number in numbers:
        _whole("keep", number, least=0)
    return tuple(int(number) for number in numbers)
