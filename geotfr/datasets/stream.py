"""Streams of records for training: read, shuffled, repeated, mapped and batched."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from geotfr.datasets.features import feature_shapes
from geotfr.datasets.patch_dataset import PatchDataset, check_kernel, kernel_yx_of, names_of, patch_yx_of
from geotfr.datasets.patch_set import GRID_SUFFIX, PatchSet, expanded, find_set
from geotfr.datasets.pixels import PixelView
from geotfr.datasets.streams.batches import Batch, Padding
from geotfr.datasets.streams.files import PayloadFiles, RecordFiles, Turns
from geotfr.datasets.streams.keep import Cache, Prefetch
from geotfr.datasets.streams.node import Pass
from geotfr.datasets.streams.order import Repeat, Shard, Shuffle, Skip, Take
from geotfr.datasets.streams.rows import Rows
from geotfr.datasets.streams.sources import ByNumber, Elements, arrays_by_number
from geotfr.datasets.streams.table_files import BinaryFiles, CsvFiles
from geotfr.datasets.streams.work import Filter, FlatMap, Interleave, Map, Workers
from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.mixer import natural_key
from geotfr.records.reader import read_features

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    from geotfr.datasets.streams.node import Node
    from geotfr.datasets.streams.rows import Element
    from geotfr.datasets.streams.table_files import Default
    from geotfr.options.values import PairXY
    from geotfr.records.stream import Compression

    PathLike = str | os.PathLike[str]
    State = dict[str, Any]

__all__ = ["Stream", "StreamIterator", "stream", "stream_binary", "stream_csv"]

STATE_VERSION = 2
_STATE_KEYS = frozenset({"version", "steps", "epoch", "taken", "is_over", "next_epoch", "part", "parts", "epoch_sizes"})


class Stream:
    """Elements one after the other, and the steps that lead to them; made by :func:`stream`.

    A stream is a plan: each method gives a new one with one step more, and nothing is read before it is iterated. Each
    iteration is an epoch: shuffling is drawn from (seed, epoch), so that it differs from epoch to epoch and is the
    same in every run. Elements are what the source gives, for records ``{feature: array}``; after :meth:`batch` they
    are ``{feature: array with one more axis in front}``.

    An error in a worker or in a thread is raised where the stream is iterated, with its traceback; all threads end
    then, as they do when an iterator is closed or forgotten.

    Examples
    --------
    >>> numbers = stream({"x": np.arange(10)})
    >>> shuffled = numbers.shuffle(10, seed=1).batch(4)
    >>> [batch["x"].tolist() for batch in shuffled] != [batch["x"].tolist() for batch in shuffled]
    True
    >>> [batch["x"].tolist() for batch in numbers.filter(lambda row: row["x"] % 2 == 0).batch(2, drop_remainder=True)]
    [[0, 2], [4, 6]]
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self._epoch = 0
        self._resumed: Progress | None = None
        self._last: Progress | None = None

    def __repr__(self) -> str:
        return ".".join(self.node.names)

    def __iter__(self) -> StreamIterator:
        return self.iterate(part=0, parts=1)

    @checks_flags
    def iterate(self, *, part: int, parts: int, is_alone: bool = True) -> StreamIterator:
        """An iterator over the records of the source whose place is ``part`` modulo ``parts``: the next epoch of them.

        Where it goes on from a state behind the last of them it gives the epoch after that, unless other parts may
        have some left: ``is_alone`` is False for the workers of a loader, which all end before the next epoch.

        Raises UsageError where the state is that of another part.
        """
        progress = self._resumed
        if progress is None:
            progress = Progress(Pass(epoch=self._take_epoch(), part=part, parts=parts))
        elif (progress.at.part, progress.at.parts) != (part, parts):
            raise UsageError(
                f"load_state_dict: the state is that of part {progress.at.part} of {progress.at.parts} of the records,"
                f" this iterator reads part {part} of {parts}; go on with as many ranks and workers, each from its own"
                " state, as torchdata's StatefulDataLoader keeps them"
            )
        self._resumed = None
        # Not the iterator: one that is forgotten ends its threads.
        self._last = progress
        may_begin = is_alone and (parts == 1 or progress.is_over)
        return StreamIterator(self.node, progress, self._take_epoch if may_begin else None)

    def _take_epoch(self) -> int:
        """The number of the next epoch, which begins."""
        self._epoch += 1
        return self._epoch - 1

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}

    def first_pass(self) -> StreamIterator:
        """An iterator over epoch 0 that leaves the stream's own epoch and state as they are."""
        return StreamIterator(self.node, Progress(Pass()))

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be epoch ``epoch``, whole, unless it goes on in this epoch from a state."""
        self._epoch = _at_least("epoch", epoch, 0)
        if self._resumed is not None and self._resumed.at.epoch == self._epoch and not self._resumed.is_over:
            self._epoch += 1
        else:
            self._resumed = None

    @property
    def resumed_epoch(self) -> int | None:
        """The epoch in which the next iteration goes on from a state; None where it begins one."""
        return None if self._resumed is None else self._resumed.at.epoch

    def state_dict(self) -> State:
        """Where the last iterator is, for :meth:`load_state_dict`; JSON takes it.

        Raises UsageError where another run of the stream may give other elements, so that nothing tells where to go on.
        """
        found = self._resumed or self._last or Progress(Pass(epoch=self._epoch))
        reason = next(filter(None, [self.node.unrepeatable, *found.at.unrepeatable]), None)
        if reason is not None:
            raise UsageError(f"state_dict: {reason} gives another order each time; nothing tells where to go on")
        begins = found is not self._resumed and found is not self._last
        return {
            "version": STATE_VERSION,
            "steps": self.node.names,
            "epoch": found.at.epoch,
            "taken": found.taken,
            "is_over": found.is_over,
            "next_epoch": self._epoch + begins,
            "part": found.at.part,
            "parts": found.at.parts,
            # Copies, as threads may fill them meanwhile.
            "epoch_sizes": {
                str(depth): {str(epoch): size for epoch, size in sizes.copy().items()}
                for depth, sizes in found.at.epoch_sizes.copy().items()
            },
        }

    def load_state_dict(self, state: State) -> None:
        """Let the next iteration go on behind the element where ``state`` was saved.

        Where that was the last one, it is the epoch after, whole.
        What comes before it is read again as far as shuffling and filters need it; no map's function is called for it.

        Raises
        ------
        UsageError
            A state of another stream, of another version, or none at all.
        """
        if not isinstance(state, Mapping) or _STATE_KEYS - state.keys() or not isinstance(state["steps"], list):
            found = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            raise UsageError(
                f"load_state_dict: found {found}, which is no state; give what state_dict() of this stream returned,"
                f" with {', '.join(sorted(_STATE_KEYS))}"
            )
        if state["version"] != STATE_VERSION:
            raise UsageError(
                f"load_state_dict: the state has version {state['version']!r}, this geotfr goes on from version"
                f" {STATE_VERSION}; begin the epoch anew"
            )
        if state["steps"] != self.node.names:
            raise UsageError(
                f"load_state_dict: the state is one of {'.'.join(map(str, state['steps']))}, this is {self!r}; make the"
                " same stream that it was saved of"
            )
        try:
            counts = {key: _at_least(key, state[key], 0) for key in ("epoch", "taken", "next_epoch", "part")}
            parts = _at_least("parts", state["parts"], counts["part"] + 1)
            sizes = {
                int(depth): {int(epoch): _at_least("epoch_sizes", size, 0) for epoch, size in each.items()}
                for depth, each in state["epoch_sizes"].items()
            }
        except (UsageError, AttributeError, TypeError, ValueError) as error:
            raise UsageError(f"load_state_dict: the state is damaged: {error}; begin the epoch anew") from error
        at = Pass(epoch=counts["epoch"], part=counts["part"], parts=parts, epoch_sizes=sizes)
        self._resumed = Progress(at, counts["taken"], is_over=state["is_over"] is True)
        self._epoch = counts["next_epoch"]

    # Which elements, in what order.

    def shuffle(self, buffer_size: int, seed: int = 0) -> Stream:
        """In random order, out of a buffer of ``buffer_size`` elements: as TensorFlow's, by (seed, epoch).

        The order is the same on every machine and with every version of numpy. Records that are large, plain and
        read by number are shuffled without being read: then the buffer costs 8 bytes an element.
        """
        return Stream(Shuffle(self.node, _at_least("buffer_size", buffer_size, 1), _at_least("seed", seed, 0)))

    def repeat(self, count: int | None = None) -> Stream:
        """``count`` epochs, one after the other; None is for ever."""
        return Stream(Repeat(self.node, None if count is None else _at_least("count", count, 0)))

    def take(self, count: int) -> Stream:
        """The first ``count`` elements; where ranks and workers share the stream, all of them together give so many."""
        return Stream(Take(self.node, _at_least("count", count, 0)))

    def skip(self, count: int) -> Stream:
        """All but the first ``count`` elements."""
        return Stream(Skip(self.node, _at_least("count", count, 0)))

    def shard(self, rank: int, world: int) -> Stream:
        """The elements of one of ``world`` processes: each element is in exactly one. Put it before a shuffle."""
        if not 0 <= rank < world:
            raise UsageError(f"shard: rank {rank} of {world}; allowed are 0 to {world - 1}")
        return Stream(Shard(self.node, rank, world))

    # What becomes of them.

    @checks_flags
    def map(
        self,
        function: Callable[..., Any],
        *,
        batched: bool = False,
        workers: int = 1,
        ordered: bool = True,
        executor: Executor | None = None,
    ) -> Stream:
        """What ``function`` makes of each element.

        Parameters
        ----------
        batched
            ``function`` gets many records at once, ``{feature: (n, …)}``, and gives as many or another number,
            ``{feature: (m, …)}``: without a call for each record.
        workers
            Threads that work at a time.
        ordered
            Whether results come in the order of their elements; False gives them as they are ready.
        executor
            Where ``function`` runs instead, for instance a ``ProcessPoolExecutor`` (elements and function are pickled
            then).

        Raises
        ------
        WorkerLostError
            While it is iterated: a process of the executor ended before its work did.
        """
        by = Workers(count=_at_least("workers", workers, 1), ordered=ordered, executor=executor)
        return Stream(Map(self.node, function, batched=batched, workers=by))

    @checks_flags
    def filter(self, function: Callable[..., Any], *, batched: bool = False) -> Stream:
        """The elements that ``function`` is true of; batched: it gets ``{feature: (n, …)}`` and gives ``(n,) bool``."""
        return Stream(Filter(self.node, function, batched=batched))

    def flat_map(self, function: Callable[[Any], Iterable[Any] | Stream]) -> Stream:
        """All elements of the iterable or stream that ``function`` makes of each element, one after the other."""
        return Stream(FlatMap(self.node, function))

    def interleave(
        self, function: Callable[[Any], Iterable[Any] | Stream], *, cycle_length: int = 4, block_length: int = 1
    ) -> Stream:
        """As :meth:`flat_map`, ``block_length`` elements of each of ``cycle_length`` iterables or streams in turn."""
        cycle, block = _at_least("cycle_length", cycle_length, 1), _at_least("block_length", block_length, 1)
        return Stream(Interleave(self.node, function, cycle=cycle, block=block))

    @checks_flags
    def batch(self, size: int, *, drop_remainder: bool = False) -> Stream:
        """Every ``size`` elements as one; the last batch may be smaller, unless ``drop_remainder``."""
        size = _at_least("size", size, 1)
        return Stream(Batch(self.node, size, drop_remainder=drop_remainder, collate=Rows.batch, name="batch"))

    @checks_flags
    def padded_batch(
        self,
        size: int,
        *,
        shapes: Mapping[str, Sequence[int | None]] | None = None,
        values: float | Mapping[str, Any] = 0,
        drop_remainder: bool = False,
    ) -> Stream:
        """As :meth:`batch`, of arrays of several shapes: each is filled up at its ends.

        Parameters
        ----------
        shapes
            Feature -> shape to fill up to; None, for a side or a feature left out, is the longest in the batch.
        values
            What to fill with, for all features or by name.
        """
        size = _at_least("size", size, 1)
        padding = Padding(shapes or {}, values)
        return Stream(Batch(self.node, size, drop_remainder=drop_remainder, collate=padding, name="padded_batch"))

    # What is held.

    def cache(self) -> Stream:
        """Held in memory from the first whole epoch on, read-only. Put it before a shuffle, not behind it.

        What is held is epoch 0 of the steps before, and is given in this order in every epoch.
        """
        return Stream(Cache(self.node))

    def prefetch(self, size: int = 2, *, workers: int = 1) -> Stream:
        """Made ready in other threads, ``size`` blocks (behind a batch: batches) ahead, in order."""
        by = Workers(count=_at_least("workers", workers, 1))
        return Stream(Prefetch(self.node, _at_least("size", size, 1), by))


@dataclass(slots=True)
class Progress:
    """Where an iterator is.

    Attributes
    ----------
    at
        The epoch, and what is known of its repeats.
    taken
        Elements given so far, those before a state that was loaded included.
    is_over
        Whether it was found that there are no more.
    """

    at: Pass
    taken: int = 0
    is_over: bool = False


class StreamIterator:
    """One pass over a stream; :meth:`close` ends its threads, and so does forgetting it.

    Where ``progress`` is at the end of an epoch already, ``next_epoch`` tells the one that is given instead.
    """

    def __init__(self, node: Node, progress: Progress, next_epoch: Callable[[], int] | None = None) -> None:
        self._node = node
        self._progress = progress
        self._next_epoch = next_epoch if progress.taken or progress.is_over else None
        self._blocks = iter(()) if progress.is_over else node.run(progress.at, progress.taken)
        self._is_closed = False
        self._ready: list[Element] = []
        self._place = 0

    def __iter__(self) -> StreamIterator:
        return self

    def __next__(self) -> Element:
        while self._place == len(self._ready):
            self._ready = self._next_rows().elements()
            self._place = 0
        element = self._ready[self._place]
        self._place += 1
        self._progress.taken += 1
        return element

    def _next_rows(self) -> Rows:
        if self._is_closed:
            raise StopIteration
        progress = self._progress
        try:
            rows = next(self._blocks, None)
            if rows is None and self._next_epoch is not None:
                at = progress.at
                progress.at = Pass(epoch=self._next_epoch(), part=at.part, parts=at.parts)
                progress.taken, progress.is_over = 0, False
                self._blocks = self._node.run(progress.at)
                rows = next(self._blocks, None)
        except BaseException:
            # Nothing comes behind an error, but the epoch isn't over.
            self._is_closed = True
            raise
        self._next_epoch = None
        if rows is None:
            progress.is_over = True
            raise StopIteration
        return rows

    def close(self) -> None:
        """End the pass and its threads."""
        self._ready, self._place, self._is_closed = [], 0, True
        close = getattr(self._blocks, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> StreamIterator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@checks_flags
def stream(
    source: PathLike
    | Sequence[PathLike]
    | PatchDataset
    | PixelView
    | Stream
    | Mapping[str, Any]
    | Iterable[Any]
    | Callable[[], Iterable[Any]],
    *,
    features: str | Sequence[str] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    patch_dimensions: PairXY | None = None,
    kernel_size: PairXY | None = None,
    payloads: bool = False,
    compression: Compression = "auto",
    shuffle_files: int | None = None,
    cycle_length: int = 1,
    block_length: int = 256,
) -> Stream:
    """A stream of the records of TFRecord files, or of other things at hand.

    Parameters
    ----------
    source
        TFRecord files, a folder, a mixer or a manifest (its shards lie beside it, and features get the shapes of its
        patches); names may hold wildcards, files come in the order of their numbers. Or a ``PatchDataset``, a dict of
        arrays of one length, any iterable, or a function that gives one for each epoch.
    features
        Files: the features wanted, in this order; None is all.
    shapes
        Files: feature -> shape. Features come flat, ``(length,)``, where neither this nor a mixer tells a shape; ``()``
        makes a number of a list of one. Bytes of one value are uint8, of several a tuple of bytes.
    patch_dimensions, kernel_size
        Files: (width, height), as for :class:`PatchDataset`.
    payloads
        Files: give each record's bytes as they are, for ``parse_example``, ``parse_sequence_example`` or others.
    compression
        Files: as for ``read_records``.
    shuffle_files
        Files: a seed; each epoch then has an order of its own.
    cycle_length, block_length
        Files: so many are open at a time, and give so many records in turn.

    Raises
    ------
    UsageError, MissingInputError, InputError, DamagedError
        As for :class:`PatchDataset`; what is damaged is told while the stream is iterated.

    Examples
    --------
    >>> batches = (
    ...     stream("patches/*.tfrecord.gz", shapes={"label": ()})
    ...     .shuffle(2048, seed=7).batch(32).prefetch(2)
    ... )  # doctest: +SKIP
    >>> for batch in batches: ...  # doctest: +SKIP
    """
    if isinstance(source, Stream):
        return Stream(source.node)
    if isinstance(source, PatchDataset | PixelView):
        return Stream(ByNumber(source, repr(source)))
    if isinstance(source, Mapping):
        return Stream(arrays_by_number(source))
    paths = _paths(source)
    if paths is None:
        return Stream(Elements(cast("Iterable[Any] | Callable[[], Iterable[Any]]", source)))
    cycle = _at_least("cycle_length", cycle_length, 1)
    turns = Turns(
        compression=compression,
        shuffle_files=shuffle_files,
        cycle=cycle,
        # One file is read to its end.
        block=_at_least("block_length", block_length, 1) if cycle > 1 else sys.maxsize,
    )
    names = names_of(features)
    files, known = _files(paths, names, shapes or {}, patch_dimensions, kernel_size, is_shaped=not payloads)
    if payloads:
        return Stream(PayloadFiles(files, turns))
    return Stream(RecordFiles(files, turns, features=names, shapes=known))


def _paths(source: Any) -> list[PathLike] | None:
    """The paths that ``source`` is, if it is such."""
    if isinstance(source, str | os.PathLike):
        return [source]
    if isinstance(source, list | tuple) and all(isinstance(each, str | os.PathLike) for each in source):
        return list(source)
    return None


def _files(
    source: Sequence[PathLike],
    names: tuple[str, ...] | None,
    shapes: Mapping[str, Sequence[int]],
    patch_dimensions: PairXY | None,
    kernel_size: PairXY | None,
    *,
    is_shaped: bool,
) -> tuple[Sequence[Path], dict[str, tuple[int, ...]]]:
    """The files in order, and the shapes of their features."""
    given = {name: tuple(shape) for name, shape in shapes.items()}
    paths = expanded(source)
    if any(path.is_dir() or path.suffix == GRID_SUFFIX for path in paths):
        found = find_set(source)
    else:
        # A gap in the numbers is no error: training reads some of the shards.
        found = PatchSet(shards=tuple(sorted(paths, key=natural_key)))
    if found.run is not None:
        raise UsageError(
            f"{found.shards[0]}: holds patches of other rasters of the collection too; read one raster's with"
            " geotfr.PatchDataset, or name the shards to read all"
        )
    patch_yx = patch_yx_of(found, patch_dimensions)
    is_pixels = found.manifest is not None and found.manifest.records != found.manifest.patches_written
    if is_shaped:
        check_kernel(kernel_size, patch_yx)
    if patch_yx is None or is_pixels or not is_shaped:
        return found.shards, given
    kernel_yx = kernel_yx_of(found, kernel_size)
    for path in found.shards:
        for first in read_features(path, batch_bytes=1):
            made = feature_shapes(first, found, names=names, patch_yx=patch_yx, kernel_yx=kernel_yx, shapes=given)
            return found.shards, {name: shape.shape for name, shape in made.items()}
    return found.shards, given


@checks_flags
def stream_csv(
    source: PathLike | Sequence[PathLike],
    columns: Mapping[str, Default],
    *,
    header: bool = True,
    delimiter: str = ",",
    key: str | None = "key",
) -> Stream:
    """A stream of the lines of CSV files, ``{column: number or text}``.

    Parameters
    ----------
    source
        Files, plain or gzip, in UTF-8; names may hold wildcards.
    columns
        The columns wanted, with what an empty cell becomes: ``0.0`` (float32), ``0`` (int64), ``""`` (text), a numpy
        number of another type. A type (``float``, ``int``, ``str``, ``numpy.float64``) is a column that is never empty.
    header
        Whether the first line names the columns; without one they are the first columns, in order.
    key
        Adds ``FILE:RECORD`` (the record's number from 0) under this name; None doesn't.

    Raises
    ------
    InputError, DamagedError
        While it is iterated: a column that isn't there; a cell of another type, or empty without a default.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("lon,lat,kind\\n1.5,,rice\\n2.5,3,\\n")
    ...     file.flush()
    ...     for line in stream_csv(file.name, {"lat": -1.0, "kind": "none"}, key=None): print(line)
    {'lat': np.float32(-1.0), 'kind': 'rice'}
    {'lat': np.float32(3.0), 'kind': 'none'}
    """
    if not columns:
        raise UsageError("columns: none; name those wanted with their defaults, as {'lon': 0.0, 'kind': ''}")
    paths = sorted(expanded(source), key=natural_key)
    return Stream(CsvFiles(paths, columns, header=header, delimiter=delimiter, key=key))


def stream_binary(
    source: PathLike | Sequence[PathLike],
    dtype: Any,
    *,
    header_bytes: int = 0,
    footer_bytes: int = 0,
    key: str | None = "key",
) -> Stream:
    """A stream of the records of files whose records all have one length.

    Parameters
    ----------
    source
        Files, plain or gzip; names may hold wildcards.
    dtype
        What a record is: a numpy dtype, whose fields become the features; or a number of bytes, which come as
        ``record``, ``(bytes,) uint8``.
    header_bytes, footer_bytes
        Bytes to leave out at the start and the end of each file.
    key
        Adds ``FILE:RECORD`` (the record's number from 0) under this name; None doesn't.

    Raises
    ------
    DamagedError
        While it is iterated: a file whose size isn't that of whole records.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile() as file:
    ...     _ = file.write(np.array([(1, 0.5), (2, 1.5)], "<i4, <f4").tobytes())
    ...     file.flush()
    ...     for record in stream_binary(file.name, [("id", "<i4"), ("ndvi", "<f4")], key=None): print(record)
    {'id': np.int32(1), 'ndvi': np.float32(0.5)}
    {'id': np.int32(2), 'ndvi': np.float32(1.5)}
    """
    wanted = np.dtype((np.uint8, (dtype,))) if isinstance(dtype, int) and dtype > 0 else np.dtype(dtype)
    paths = sorted(expanded(source), key=natural_key)
    return Stream(BinaryFiles(paths, wanted, header_bytes=header_bytes, footer_bytes=footer_bytes, key=key))


def _at_least(name: str, number: Any, least: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
        raise UsageError(f"{name}: found {number!r}; allowed is a whole number from {least}")
    return int(number)
