"""Data sets and streams for PyTorch: tensors that share the arrays' memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.patch_dataset import PatchDataset
from geotfr.datasets.pixels import PixelView
from geotfr.datasets.stream import Stream
from geotfr.errors import UsageError
from geotfr.extras import load_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

    Ranks = tuple[int, int]

__all__ = ["to_torch"]

MOST_PARTS = 256
"""Up to so many workers over all ranks, loaders with different numbers of them count their epochs apart."""

LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""Where launchers tell a process its rank and their number: torchrun, Open MPI, MPICH, srun.

Not ``SLURM_NTASKS``, which a batch script has too, though it is one process; not ``LOCAL_RANK``, of one machine alone.
"""

TENSOR_KINDS = "biuf"
"""Kinds of dtypes that are tensors in PyTorch."""


def to_torch(source: PatchDataset | PixelView | Stream, *, rank: int | None = None, world: int | None = None) -> Any:
    """A data set for ``torch.utils.data.DataLoader``: elements are tensors, without a copy.

    A data set becomes a map-style one, a stream an iterable one. Both give every element once, whatever the number of
    workers, start method and ranks: a stream's source is split over ranks and workers, record by record. A
    ``PatchDataset`` works in a DataLoader as it is, too; then its arrays are copied when they are put into batches.

    Batches that the stream makes are to be left as they are: ``DataLoader(to_torch(stream), batch_size=None)``. Each
    iteration of the loader is an epoch, in workers too; ``set_epoch(epoch)`` says which one is next. ``state_dict()``
    and ``load_state_dict(state)`` are those of the stream where the loader has no workers; with workers use torchdata's
    ``StatefulDataLoader``, which asks each worker for its own.

    Parameters
    ----------
    source
        What to read.
    rank, world
        This process's number and the number of processes that share the elements. By default, for a stream, those of
        ``torch.distributed`` where it is initialised, in this process or in the one that pickled the data set for its
        worker; else those that a launcher tells in the environment (torchrun's ``RANK`` and ``WORLD_SIZE``, Open MPI's,
        MPICH's, srun's). For a data set none, because PyTorch's ``DistributedSampler`` splits it, which Lightning adds
        by itself.

    Returns
    -------
    torch.utils.data.Dataset
        A map-style or an iterable one. It may be pickled.

    Raises
    ------
    UsageError
        PyTorch isn't installed, or ``rank`` isn't one of ``world``.

    Examples
    --------
    >>> loader = DataLoader(to_torch(dataset), batch_size=32, num_workers=2, shuffle=True)  # doctest: +SKIP
    >>> batches = stream("patches/*.gz").shuffle(512).batch(32)  # doctest: +SKIP
    >>> loader = DataLoader(to_torch(batches), batch_size=None, num_workers=2)  # doctest: +SKIP
    """
    torch = _torch()
    if (rank is None) != (world is None):
        raise UsageError("to_torch: rank and world belong together; give both or none")
    if world is not None and not 0 <= (rank or 0) < world:
        raise UsageError(f"to_torch: rank {rank} of {world}; allowed are 0 to {world - 1}")
    if not isinstance(source, Stream):
        if world is not None and isinstance(source, PixelView):
            raise UsageError("to_torch: pixels are split by their data set; use dataset.shard(rank, world).pixels()")
        part = source.shard(rank or 0, world) if world is not None and isinstance(source, PatchDataset) else source
        return _classes()[0](part)
    # In memory that processes share: the epoch that is next, and how often each worker has begun since it was set.
    epochs = torch.zeros(1 + MOST_PARTS * (MOST_PARTS + 1) // 2, dtype=torch.int64).share_memory_()
    given = None if rank is None or world is None else (rank, world)
    return _classes()[1](source, given, _group(), epochs)


def _torch() -> Any:
    return load_extra("torch", extra="torch", what="tensors")


def tensors(element: Any) -> Any:
    """``element`` with its arrays as tensors; texts and other objects stay as they are."""
    if isinstance(element, Mapping):
        return {key: tensors(value) for key, value in element.items()}
    if isinstance(element, tuple):
        return tuple(map(tensors, element))
    if type(element) is int or (isinstance(element, np.generic) and element.dtype.kind in TENSOR_KINDS):
        return _torch().as_tensor(np.array(element))
    if isinstance(element, np.ndarray) and element.dtype.kind in TENSOR_KINDS:
        # PyTorch has no read-only tensors: what a cache holds is copied. Nor has it other byte orders.
        is_shared = element.flags.writeable and element.dtype.isnative
        return _torch().from_numpy(element if is_shared else element.astype(element.dtype.newbyteorder("=")))
    return element


def _made(kind: int, *parts: Any) -> Any:
    """What a pickled data set is made of again."""
    return _classes()[kind](*parts)


class _Patches:
    """A data set whose items are tensors."""

    def __init__(self, dataset: PatchDataset | PixelView) -> None:
        self.dataset = dataset

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (0, self.dataset)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        return tensors(self.dataset[index])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return [tensors(item) for item in self.dataset.__getitems__(indices)]


class _Streamed:
    """A stream whose elements are tensors, split over ranks and workers."""

    def __init__(self, stream: Stream, given: Ranks | None, found: Ranks | None, epochs: Any) -> None:
        self.stream = stream
        self._given = given
        self._found = found
        self._epochs = epochs

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker that isn't forked knows nothing of the group of the process that pickles this for it.
        return _made, (1, self.stream, self._given, _group() or self._found, self._epochs)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration be epoch ``epoch``, in workers too."""
        self.stream.set_epoch(epoch)
        self._epochs.zero_()
        self._epochs[0] = epoch

    def __iter__(self) -> Iterator[Any]:
        rank, world = self._given or _group() or self._found or _launcher() or (0, 1)
        worker = _torch().utils.data.get_worker_info()
        if worker is None:
            # The stream counts its epochs.
            return map(tensors, self.stream.iterate(part=rank, parts=world))
        part, parts = rank * worker.num_workers + worker.id, world * worker.num_workers
        _count_epoch(self.stream, self._epochs, part, parts)
        return map(tensors, self.stream.iterate(part=part, parts=parts, is_alone=False))

    def state_dict(self) -> dict[str, Any]:
        """Where the last iterator of this process is, see :meth:`geotfr.Stream.state_dict`."""
        if _torch().utils.data.get_worker_info() is None:
            _refuse_read_by_workers(self._epochs)
        return self.stream.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration go on from ``state``, see :meth:`geotfr.Stream.load_state_dict`."""
        self.stream.load_state_dict(state)


@cache
def _classes() -> tuple[Any, Any]:
    """The two classes; their bases are there only where PyTorch is."""
    data = _torch().utils.data
    map_base: Any = data.Dataset
    iterable_base: Any = data.IterableDataset

    class TorchPatches(_Patches, map_base):  # type: ignore[misc]  # the base isn't known without PyTorch
        pass

    class TorchStream(_Streamed, iterable_base):  # type: ignore[misc]  # the base isn't known without PyTorch
        pass

    return TorchPatches, TorchStream


def _group() -> Ranks | None:
    """(rank, world) of the process group of ``torch.distributed``, where this process has one."""
    distributed = _torch().distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return None


def _refuse_read_by_workers(epochs: Any) -> None:
    if bool(epochs[1:].any()):
        raise UsageError(
            "state_dict: workers read the stream, and this process doesn't know where they are; use torchdata's"
            " StatefulDataLoader, which asks them, or num_workers=0"
        )


def _count_epoch(stream: Stream, epochs: Any, part: int, parts: int) -> None:
    """Tell a worker's stream which epoch is next: ``epochs`` counts those that were begun, for each part of each number
    of parts, as ranks and loaders may share this memory."""
    begun = 1 + (parts * (parts - 1) // 2 + part) % (len(epochs) - 1)
    if stream.resumed_epoch is None:
        stream.set_epoch(int(epochs[0] + epochs[begun]))
    else:
        epochs[begun] = stream.resumed_epoch - int(epochs[0])
    epochs[begun] += 1


def _launcher() -> Ranks | None:
    """(rank, world) that a launcher tells in the environment.

    Raises UsageError where they are no rank of a world.
    """
    for names in LAUNCHERS:
        told = [os.environ.get(name, "") for name in names]
        if not all(told):
            continue
        if not all(each.isascii() and each.isdigit() for each in told) or int(told[0]) >= int(told[1]):
            raise UsageError(
                f"to_torch: the environment has {names[0]}={told[0]!r} and {names[1]}={told[1]!r}, which is no rank of"
                " a world; give rank= and world="
            )
        return int(told[0]), int(told[1])
    return None
