"""Statistics of a set's bands, masks left out: exact mean and deviation in one pass, percentiles in a second one."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import DamagedError, UsageError
from geotfr.flags import checks_flags
from geotfr.patches.order_statistics import OrderStatistics
from geotfr.patches.statistics import PatchStatistics, statistics_of
from geotfr.pipeline.catalog.chosen import chosen_patches
from geotfr.pipeline.catalog.collect import MOST_CLASSES
from geotfr.pipeline.catalog.reading import validity_warnings
from geotfr.storage import atomic_output
from geotfr.storage.atomic import check_output
from geotfr.storage.inputs import check_not_input
from geotfr.stores.path import output_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.mixer.manifest import LabelChannel
    from geotfr.pipeline.catalog.chosen import ChosenPatches

    PathLike = str | os.PathLike[str]

__all__ = ["PERCENTILES", "StatisticsResult", "compute_statistics"]

PERCENTILES = (1.0, 2.0, 5.0, 25.0, 50.0, 75.0, 95.0, 98.0, 99.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsResult:
    """Statistics of a set.

    Attributes
    ----------
    patches
        Patches looked at.
    split, where
        Which they are; None for all.
    bands
        Feature -> ``count``, ``mean``, ``std``, ``min``, ``max``, ``percentiles`` (percentile -> value) and
        ``histogram`` (``edges``, ``counts``). A feature with a depth has a list of one number a channel for each.
        Labels have none.
    classes
        Class band or labels -> class -> pixels; classes of labels by their names, where they have some.
    output
        The JSON file, if one was written.
    warnings
        What a user should know, one line each.
    """

    patches: int
    split: str | None
    where: str | None
    bands: dict[str, dict[str, Any]]
    classes: dict[str, dict[str, int]]
    output: Path | None
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """What the JSON file holds, and ``PatchDataset(normalize=…)`` takes."""
        return {
            "patches": self.patches,
            "split": self.split,
            "where": self.where,
            "bands": self.bands,
            "classes": self.classes,
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """A line for each channel, for a person."""
        lines = [f"{self.patches:,} patches" + (f" of split {self.split}" if self.split else "")]
        lines.append(f"{'band':16} {'values':>15} {'mean':>12} {'std':>12} {'min':>12} {'max':>12}")
        for name, band in self.bands.items():
            columns = [band[key] for key in ("count", "mean", "std", "min", "max")]
            channels = list(zip(*columns, strict=True)) if isinstance(columns[0], list) else [tuple(columns)]
            for number, channel in enumerate(channels):
                shown = name if len(channels) == 1 else f"{name}[{number}]"
                lines.append(
                    f"{shown:16} {channel[0]:>15,} " + " ".join(f"{_told(value):>12}" for value in channel[1:])
                )
        for name, counts in self.classes.items():
            lines.append(f"{name}: " + ", ".join(f"{value} {count:,}" for value, count in counts.items()))
        return "\n".join(lines)


@checks_flags
def compute_statistics(
    source: PathLike | Sequence[PathLike],
    output: PathLike | None = None,
    *,
    split: str | None = None,
    where: str | None = None,
    percentiles: Sequence[float] = PERCENTILES,
    bins: int = 256,
    class_bands: str | Sequence[str] = (),
    overwrite: bool = False,
) -> StatisticsResult:
    """Statistics of the bands of a set, margins and masked pixels left out.

    Sums are float64, merged pairwise; percentiles are exact (linear between the two nearest values, as numpy's), and
    so are the histogram's counts. Records don't tell which pixels are masked: the patch table does, if there is one
    beside the set. Where it tells that a patch has masked values, as many values that equal the default value are
    left out, whichever they are: the statistics are those of the valid ones. Without a table the ``valid_feature`` of
    an export tells it; that feature is no band here.

    Parameters
    ----------
    source
        A patch table, or a manifest, a mixer, a folder, a mixer and shards.
    output
        A JSON file to write; ``PatchDataset(normalize=…)`` takes it.
    split, where
        Only patches of this split, and for which this condition on the table's columns is true.
    percentiles
        From 0 to 100; none and ``bins=0`` saves the second pass.
    bins
        Of the histogram, of equal width from the least to the greatest value.
    class_bands
        Bands whose values are counted too. Labels are counted without being named, and have no other statistics.
    overwrite
        Replace ``output``.

    Raises
    ------
    UsageError
        A split, condition, percentile or band that means nothing.
    DamagedError
        Damaged shards, or others than the patch table knows.
    OutputError
        ``output`` can't be written, or exists and ``overwrite`` is False.

    Examples
    --------
    >>> found = compute_statistics("patches/scene-patches.parquet", split="train")  # doctest: +SKIP
    >>> dataset = PatchDataset("patches/", normalize=found.to_dict())  # doctest: +SKIP
    """
    for percentile in percentiles:
        if not 0 <= percentile <= 100:
            raise UsageError(f"percentiles: found {percentile!r}; allowed are numbers from 0 to 100")
    if not 0 <= bins <= 1 << 20:
        raise UsageError(f"bins: found {bins}; allowed are 0 to {1 << 20}")
    target = None if output is None else output_path(output)
    if target is not None:
        check_output(target, overwrite=overwrite)
    names = [name.strip() for name in (class_bands.split(",") if isinstance(class_bands, str) else class_bands)]
    chosen, table = chosen_patches(source, split=split, where=where)
    if target is not None:
        shards = (path for part in chosen for path in part.reader.shards)
        check_not_input(target, (None if table is None else table.path, *shards))
    found = _Found([name for name in names if name], percentiles, bins)
    for part in chosen:
        found.first_pass(part)
    if percentiles or bins:
        found.prepare()
        for part in chosen:
            found.second_pass(part)
    result = StatisticsResult(
        patches=found.patches,
        split=split,
        where=where,
        bands=found.bands(),
        classes=found.classes(),
        output=target,
        warnings=tuple(found.notes),
    )
    if target is not None:
        with atomic_output(target, overwrite=overwrite) as file:
            file.write((json.dumps(result.to_dict(), indent=2, ensure_ascii=False) + "\n").encode())
    return result


class _Channel:
    """What is gathered of one channel of one feature."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.parts: list[PatchStatistics] = []
        self.is_wide = False
        self.order = OrderStatistics(dtype)
        self.histogram: NDArray[np.int64] | None = None
        self.edges: NDArray[np.float64] | None = None


class _Found:
    """What is gathered of all patches."""

    def __init__(self, class_bands: Sequence[str], percentiles: Sequence[float], bins: int) -> None:
        self.patches = 0
        self.notes: list[str] = []
        self._class_bands = class_bands
        self._percentiles = list(percentiles)
        self._bins = bins
        self._channels: dict[tuple[str, int], _Channel] = {}
        self._labels: dict[str, LabelChannel] = {}
        self._classes: dict[str, dict[int, int]] = {}
        self._uncounted: set[str] = set()

    def first_pass(self, part: ChosenPatches) -> None:
        """Take counts, sums and ranges."""
        self._tell_masks(part)
        labels = {(label.feature, label.channel): label for label in part.labels}
        for cores, known, records in part.batches():
            self.patches += len(records)
            for name in self._class_bands:
                if name not in cores:
                    raise UsageError(f"class_bands: no band {name!r}; the bands are {', '.join(cores)}")
            for name, number, values, valid, extra in self._channels_of(part, cores, known, records):
                label = labels.get((name, number))
                if label is not None:
                    self._labels.setdefault(label.band, label)
                    self._count_classes(label.band, values.ravel() if valid is None else values[valid], extra)
                    continue
                channel = self._channels.setdefault((name, number), _Channel(values.dtype))
                channel.parts.append(statistics_of([(values, valid)]).total())
                seen = values.ravel() if valid is None else values[valid]
                if self._percentiles:
                    channel.order.count(seen.astype(np.float32) if seen.dtype.kind == "f" else seen)
                if name in self._class_bands:
                    self._count_classes(name, seen, extra)
                if extra is not None:
                    fill, times = extra
                    channel.parts.append(_constant(fill, times))
                    if self._percentiles:
                        channel.order.count(np.array([fill], values.dtype), np.array([times]))

    def prepare(self) -> None:
        """Choose, from the ranges, what the second pass looks at."""
        for channel in self._channels.values():
            total = PatchStatistics.joined(channel.parts).total()
            channel.parts = [total]
            low, high = float(total.lows[0]), float(total.highs[0])
            if math.isfinite(low) and channel.order.beyond(low, high):
                channel.is_wide = True
                self._note(f"whole numbers from {low:.0f} to {high:.0f} don't fit 32 bits: no percentiles of them")
            else:
                channel.order.narrow(self._percentiles)
            if self._bins and math.isfinite(low) and math.isfinite(high):
                channel.edges = np.histogram_bin_edges(np.empty(0), self._bins, (low, high))
                channel.histogram = np.zeros(self._bins, np.int64)

    def second_pass(self, part: ChosenPatches) -> None:
        """Take the histograms, and what the percentiles need."""
        for cores, known, records in part.batches():
            for name, number, values, valid, extra in self._channels_of(part, cores, known, records):
                channel = self._channels.get((name, number))
                if channel is None:
                    continue
                seen = values.ravel() if valid is None else values[valid]
                fill = np.empty(0, values.dtype) if extra is None else np.array([extra[0]], values.dtype)
                times = np.array([0 if extra is None else extra[1]])
                if self._percentiles and not channel.is_wide:
                    channel.order.refine(seen)
                    if extra is not None:
                        channel.order.refine(fill, times)
                if channel.histogram is not None and channel.edges is not None:
                    span = (float(channel.edges[0]), float(channel.edges[-1]))
                    channel.histogram += np.histogram(seen.astype(np.float64), self._bins, span)[0]
                    if extra is not None:
                        channel.histogram += np.histogram(fill.astype(np.float64), self._bins, span)[0] * extra[1]

    def bands(self) -> dict[str, dict[str, Any]]:
        """The statistics in JSON types."""
        made = {}
        for name in dict.fromkeys(name for name, _ in self._channels):
            each = [self._of(channel) for (feature, _), channel in self._channels.items() if feature == name]
            if len(each) == 1:
                made[name] = each[0]
                continue
            made[name] = {key: [one[key] for one in each] for key in each[0] if key not in ("percentiles", "histogram")}
            for key in ("percentiles", "histogram"):
                if key in each[0]:
                    made[name][key] = {inner: [one[key][inner] for one in each] for inner in each[0][key]}
        return made

    def classes(self) -> dict[str, dict[str, int]]:
        """The pixels of each class."""
        found = {}
        for name, counts in self._classes.items():
            label = self._labels.get(name)
            called = str if label is None else label.class_name
            found[name] = {called(value): counts[value] for value in sorted(counts)}
        return found

    def _of(self, channel: _Channel) -> dict[str, Any]:
        total = PatchStatistics.joined(channel.parts).total()
        made: dict[str, Any] = {
            "count": int(total.counts[0]),
            "mean": _json(total.means[0]),
            "std": _json(total.deviations[0]),
            "min": _json(total.lows[0]),
            "max": _json(total.highs[0]),
        }
        if self._percentiles:
            found = channel.order.percentiles() or [math.nan] * len(self._percentiles)
            made["percentiles"] = {
                f"{percentile:g}": _json(value) for percentile, value in zip(self._percentiles, found, strict=True)
            }
        if self._bins:
            edges = [] if channel.edges is None else channel.edges.tolist()
            counts = [] if channel.histogram is None else channel.histogram.tolist()
            made["histogram"] = {"edges": edges, "counts": counts}
        return made

    def _channels_of(
        self,
        part: ChosenPatches,
        cores: dict[str, list[NDArray[Any]]],
        known: NDArray[np.bool_] | None,
        records: NDArray[np.int64],
    ) -> Iterator[tuple[str, int, NDArray[Any], NDArray[np.bool_] | None, tuple[float, int] | None]]:
        """Of each channel its name, number, values and validity, and the fill's valid pixels that this leaves out.

        ``known`` is the validity that the records tell, for bands that no patch table does.
        """
        inside = part.is_inside(records)
        for name, channels in cores.items():
            counts = part.counts.get(name)
            for number, values in enumerate(channels):
                valid, extra = known if counts is None else None, None
                if counts is not None:
                    valid, extra = self._masks(part, name, values, counts[records], len(channels))
                if inside is not None:
                    # What a padded edge adds is no data, whatever it holds.
                    valid = inside if valid is None else valid & inside
                if values.dtype.kind == "f":
                    nan = np.isnan(values)
                    if nan.any():
                        valid = ~nan if valid is None else valid & ~nan
                yield name, number, values, valid, extra

    def _masks(
        self, part: ChosenPatches, name: str, values: NDArray[Any], counts: NDArray[np.int64], channels: int
    ) -> tuple[NDArray[np.bool_] | None, tuple[float, int] | None]:
        pixels = values.shape[1] * values.shape[2]
        is_masked = counts < pixels * channels
        if not is_masked.any():
            return None, None
        if name not in part.fills:
            self._note(f"{name}: nothing tells what its masked values hold: they count as data")
            return None, None
        fill = values.dtype.type(part.fills[name])
        valid = values != fill
        valid[~is_masked] = True
        if channels > 1:
            self._note(f"{name}: in patches with masked values, all that equal {float(fill):g} count as masked")
            return valid, None
        more = int((counts[is_masked] - np.count_nonzero(valid[is_masked], axis=(1, 2))).sum())
        if more < 0:
            raise DamagedError(
                f"{part.reader.shards[0]}: {name!r} has fewer default values than the patch table has masked ones; make"
                " it again with 'geotfr table --overwrite'"
            )
        return valid, (float(fill), more) if more else None

    def _count_classes(self, name: str, seen: NDArray[Any], extra: tuple[float, int] | None) -> None:
        if name in self._uncounted:
            return
        counts = self._classes.setdefault(name, {})
        values, times = np.unique(seen, return_counts=True)
        if extra is not None:
            values, times = np.append(values, extra[0]), np.append(times, extra[1])
        if (values != np.floor(values)).any():
            raise UsageError(f"class_bands: {name!r} holds fractions; classes are whole numbers")
        for value, count in zip(values.astype(np.int64).tolist(), times.tolist(), strict=True):
            counts[value] = counts.get(value, 0) + count
        if len(counts) > MOST_CLASSES and name in self._labels:
            self._note(f"{name}: more than {MOST_CLASSES:,} different values; they aren't counted")
            self._uncounted.add(name)
            del self._classes[name]
        elif len(counts) > MOST_CLASSES:
            raise UsageError(
                f"class_bands: {name!r} has more than {MOST_CLASSES:,} different values, which are no classes"
            )

    def _tell_masks(self, part: ChosenPatches) -> None:
        """Note what isn't known of the masks."""
        name = part.reader.valid_feature
        if part.counts:
            return
        if name is None:
            self._note(
                "nothing tells which pixels are masked: default values count as data; make a patch table of the"
                " set with its rasters ('geotfr table --source') or with --masked-value"
            )
            return
        for warning in validity_warnings(name, part.reader.manifest):
            self._note(warning)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _constant(value: float, times: int) -> PatchStatistics:
    """The statistics of one value that is there several times."""
    only = np.array([value], np.float64)
    return PatchStatistics(counts=np.array([times], np.int64), lows=only, highs=only, means=only, squares=np.zeros(1))


def _json(value: float) -> float | None:
    """JSON knows no NaN and no infinity."""
    return float(value) if math.isfinite(value) else None


def _told(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
