"""The records of one call, and how an error names one of them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geotfr.errors import RecordError, UsageError
from geotfr.records.messages import example_class, sequence_example_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    RecordBytes = bytes | bytearray | memoryview

__all__ = ["Batch", "near_key"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Serialized messages of one kind.

    Attributes
    ----------
    records
        One serialized message each.
    names
        What errors call the records; None: their number, from 0.
    is_sequence
        Whether they are SequenceExamples.
    """

    records: Sequence[RecordBytes]
    names: Sequence[str | bytes] | None
    is_sequence: bool

    def __post_init__(self) -> None:
        if isinstance(self.records, bytes | bytearray | memoryview | str):
            raise UsageError(
                "a batch is a list of serialized records, found one record; use parse_single_example for it"
            )
        if not hasattr(self.records, "__getitem__"):
            found = type(self.records).__name__
            raise UsageError(f"a batch is a list of serialized records, found a {found}; make a list of it")
        if self.names is not None and len(self.names) != len(self.records):
            raise UsageError(
                f"example_names has {len(self.names)} names for {len(self.records)} records; give one each"
            )

    def where(self, number: int) -> str:
        """The record's number or its name."""
        if self.names is None:
            return f"record {number}"
        name = self.names[number]
        return f"record {name.decode(errors='replace') if isinstance(name, bytes) else name}"

    def error(self, number: int, text: str) -> RecordError:
        """An error about the record with this number."""
        return RecordError(f"{self.where(number)}: {text}")

    def message(self, number: int) -> Any:
        """The record as a protobuf message; a :class:`RecordError` where its bytes are none."""
        from google.protobuf.message import DecodeError
        from google.protobuf.unknown_fields import UnknownFieldSet

        make = sequence_example_class() if self.is_sequence else example_class()
        try:
            message: Any = make.FromString(bytes(self.records[number]))
        except DecodeError as error:
            kind = "SequenceExample" if self.is_sequence else "Example"
            size = len(self.records[number])
            raise self.error(number, f"its {size} bytes are no {kind} ({error}); run 'geotfr verify'") from error
        maps = (message.context, message.feature_lists) if self.is_sequence else (message.features,)
        # An entry with more in it than key and value goes to the unknown fields as a whole: it would be lost.
        unknown: list[Any] = [UnknownFieldSet(each) for each in maps]
        if any(field.field_number == 1 for each in unknown for field in each):
            raise self.error(number, "a feature's entry has more in it than key and value; write the record again")
        return message

    def missing(self, number: int, key: str, what: str, section: str, advice: str) -> RecordError:
        """An error for a key that a record lacks: lists the keys that it has, the nearest first."""
        message = self.message(number)
        if section == "feature_lists":
            found = message.feature_lists.feature_list
        else:
            found = (message.context if self.is_sequence else message.features).feature
        if key in found:
            return self.error(number, f"{what} {key!r} is there without values; {advice}")
        near = near_key(key, found)
        hint = f"did you mean {near!r}? Otherwise {advice}" if near is not None else advice
        keys = ", ".join(repr(each) for each in sorted(found)) or "none"
        return self.error(number, f"no {what} {key!r}; keys there: {keys}; {hint}")


def near_key(key: str, keys: Iterable[str]) -> str | None:
    """The one of ``keys`` that ``key`` was probably meant to be, whatever the case.

    >>> near_key("Landcover", ["B4", "landcover"])
    'landcover'
    """
    folded = {each.casefold(): each for each in keys}
    matches = difflib.get_close_matches(key.casefold(), folded, n=1)
    return folded[matches[0]] if matches else None
