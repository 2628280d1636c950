"""What :func:`geotfr.integrity.inspect.inspect` gathers while the files are read."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.integrity.files import FileSummary, read_examples, read_sequences
from geotfr.integrity.statistics import KeyStatistics
from geotfr.patches.readings import UnreadableLengthError, reading_of
from geotfr.records.columns import message_values

if TYPE_CHECKING:
    from geotfr.records.columns import FeatureValues
    from geotfr.records.faults import ReadReport
    from geotfr.records.reader import FeatureBatch

__all__ = ["ExampleGatherer", "KeyInfo", "SequenceGatherer"]

SHOWN_VALUES = 8
"""Values of a feature that a printed record shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyInfo:
    """One feature over all records.

    Attributes
    ----------
    key
        The map key; features of a list's steps are given once.
    part
        ``features``, or of SequenceExamples ``context`` or ``feature_lists``.
    kind
        ``float``, ``int64``, ``bytes``; several joined by ``|``; ``none`` where no record holds a list.
    records, presence
        Records that have the key, and their share.
    min_length, max_length
        Values in a record (in a step of a list).
    min_bytes, max_bytes
        Size of a bytes value.
    min_steps, max_steps
        Steps in a record, of feature lists.
    low, high
        Range of the numbers, NaN aside; of a bytes feature of one value, of its bytes.
    nan_share
        Share of the numbers that are NaN.
    shape
        What the values of a record make: (row, column) or (band, row, column), guessed from the mixer, or from a
        square number.
    """

    key: str
    part: str = "features"
    kind: str
    records: int
    presence: float
    min_length: int | None = None
    max_length: int | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None
    min_steps: int | None = None
    max_steps: int | None = None
    low: float | int | None = None
    high: float | int | None = None
    nan_share: float | None = None
    shape: tuple[int, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which knows no infinity: such a bound is text."""
        made = asdict(self)
        for bound in ("low", "high"):
            if isinstance(made[bound], float) and not math.isfinite(made[bound]):
                made[bound] = str(made[bound])
        return made


class ExampleGatherer:
    message = "Example"

    def __init__(self, wanted: int) -> None:
        self.samples: list[dict[str, Any]] = []
        self._wanted = wanted
        self._keys: dict[str, KeyStatistics] = {}

    def read(self, path: str, report: ReadReport, **options: Any) -> FileSummary:
        return read_examples(path, report, self._batch, **options)

    def _batch(self, batch: FeatureBatch) -> None:
        for key, values in batch.features.items():
            self._keys.setdefault(key, KeyStatistics()).add(values, len(batch))
        for row in range(min(self._wanted - len(self.samples), len(batch))):
            features = {key: _sample(values, row) for key, values in batch.features.items()}
            self.samples.append(_sample_record(batch.path, int(batch.records[row]), int(batch.offsets[row]), features))

    def keys(self, count: int, patch_xy: tuple[int, int] | None) -> list[KeyInfo]:
        return [_key_info(key, "features", stats, count, patch_xy) for key, stats in self._keys.items()]


class SequenceGatherer:
    message = "SequenceExample"

    def __init__(self, wanted: int) -> None:
        self.samples: list[dict[str, Any]] = []
        self._wanted = wanted
        self._parts: dict[str, dict[str, KeyStatistics]] = {"context": {}, "feature_lists": {}}
        self._steps: dict[str, list[int]] = {}

    def read(self, path: str, report: ReadReport, **options: Any) -> FileSummary:
        self._path, self._record = path, 0
        return read_sequences(path, report, self._add, **options)

    def _add(self, message: Any) -> None:
        features: dict[str, Any] = {}
        for key, feature in sorted(message.context.feature.items()):
            values = message_values(feature)
            self._parts["context"].setdefault(key, KeyStatistics()).add(values, 1)
            features[key] = _sample(values, 0)
        for key, steps in sorted(message.feature_lists.feature_list.items()):
            self._steps.setdefault(key, []).append(len(steps.feature))
            stats = self._parts["feature_lists"].setdefault(key, KeyStatistics())
            samples: list[dict[str, Any]] = []
            for step in steps.feature:
                values = message_values(step)
                stats.add(values, 1)
                if len(samples) < SHOWN_VALUES:
                    samples.append(_sample(values, 0))
            features[key] = {"steps": len(steps.feature), "values": samples}
        if len(self.samples) < self._wanted:
            self.samples.append(_sample_record(self._path, self._record, None, features))
        self._record += 1

    def keys(self, count: int, patch_xy: tuple[int, int] | None) -> list[KeyInfo]:
        del patch_xy  # A record is a pixel here.
        found = []
        for part, keys in self._parts.items():
            for key, stats in sorted(keys.items()):
                steps = self._steps.get(key) if part == "feature_lists" else None
                found.append(_key_info(key, part, stats, count, None, steps))
        return found


def _sample(values: FeatureValues, row: int) -> dict[str, Any]:
    """One record's values: kind, count, and the first of them."""
    if values is None:
        return {"kind": "none", "length": 0, "values": []}
    if isinstance(values, list):
        return {"kind": "bytes", "length": len(values[row]), "values": [_text(v) for v in values[row][:SHOWN_VALUES]]}
    if values.dtype == np.uint8:
        return {"kind": "bytes", "length": 1, "values": [_text(values[row].tobytes())]}
    kind = "float" if values.dtype.kind == "f" else "int64"
    return {"kind": kind, "length": values.shape[1], "values": _json_numbers(values[row, :SHOWN_VALUES].tolist())}


def _json_numbers(values: list[Any]) -> list[Any]:
    """JSON knows no NaN and no infinity: these are text."""
    return [str(value) if isinstance(value, float) and not math.isfinite(value) else value for value in values]


def _text(value: bytes) -> str:
    """Bytes for reading: text where they are, the first of them in hexadecimal where not."""
    text = value.decode("utf-8", "replace")
    if value and (not text.isprintable() or "\ufffd" in text):
        return f"0x{value[:SHOWN_VALUES].hex()}" + (f"... ({len(value)} bytes)" if len(value) > SHOWN_VALUES else "")
    return text if len(text) <= 80 else f"{text[:77]}..."


def _sample_record(path: str, record: int, offset: int | None, features: dict[str, Any]) -> dict[str, Any]:
    return {"path": path, "record": record, "offset": offset, "features": features}


def _key_info(
    key: str,
    part: str,
    stats: KeyStatistics,
    count: int,
    patch_xy: tuple[int, int] | None,
    steps: list[int] | None = None,
) -> KeyInfo:
    records = stats.records if steps is None else len(steps)
    kinds = [kind for kind in stats.kinds if kind != "none"] or ["none"]
    length = None
    if steps is None and len(kinds) == 1 and stats.min_length == stats.max_length:
        same_bytes = stats.max_bytes if stats.min_bytes == stats.max_bytes else None
        length = stats.max_length if kinds[0] != "bytes" else same_bytes if stats.max_length == 1 else None
    return KeyInfo(
        key=key,
        part=part,
        kind="|".join(kinds),
        records=records,
        presence=records / count if count else 0.0,
        min_length=stats.min_length,
        max_length=stats.max_length,
        min_bytes=stats.min_bytes,
        max_bytes=stats.max_bytes,
        min_steps=None if steps is None else min(steps),
        max_steps=None if steps is None else max(steps),
        low=stats.low,
        high=stats.high,
        nan_share=stats.nan_values / stats.values if stats.values and "float" in stats.kinds else None,
        shape=_guessed_shape(length, patch_xy),
    )


def _guessed_shape(length: int | None, patch_xy: tuple[int, int] | None) -> tuple[int, ...] | None:
    """(row, column) or (band, row, column) of ``length`` values; None where nothing tells."""
    if not length or length < 4:
        return None
    if patch_xy is None:
        side = math.isqrt(length)
        return (side, side) if side * side == length else None
    width, height = patch_xy
    if length % (width * height) == 0:
        bands = length // (width * height)
        return (height, width) if bands == 1 else (bands, height, width)
    try:
        return reading_of(length, (height, width), None).block_yx
    except UnreadableLengthError:
        return None
