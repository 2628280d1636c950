"""Data sets and streams for PyTorch: tensors that share the arrays' memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.patch_dataset import PatchDataset
from geotfr.datasets.pixels import PixelView
from geotfr.datasets.stream import Stream
from geotfr.datasets.streams.node import Pass
from geotfr.errors import UsageError
from geotfr.extras import load_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["to_torch"]

MOST_WORKERS = 1024
"""Workers of a loader that are told apart."""

TENSOR_KINDS = "biuf"
"""Kinds of dtypes that are tensors in PyTorch."""


def to_torch(source: PatchDataset | PixelView | Stream, *, rank: int | None = None, world: int | None = None) -> Any:
    """A data set for ``torch.utils.data.DataLoader``: elements are tensors, without a copy.

    A data set becomes a map-style one, a stream an iterable one. Both give every element once, whatever the number of
    workers, start method and ranks: a stream's source is split over ranks and workers, record by record. A
    ``PatchDataset`` works in a DataLoader as it is, too; then its arrays are copied when they are put into batches.

    Batches that the stream makes are to be left as they are: ``DataLoader(to_torch(stream), batch_size=None)``. Each
    iteration of the loader is an epoch, in workers too; ``set_epoch(epoch)`` says which one is next.

    Parameters
    ----------
    source
        What to read.
    rank, world
        This process's number and the number of processes that share the elements. By default those of
        ``torch.distributed`` for a stream, where it is initialised; for a data set none, because PyTorch's
        ``DistributedSampler`` splits it.

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
    epochs = torch.zeros(1 + MOST_WORKERS, dtype=torch.int64).share_memory_()
    return _classes()[1](source, rank, world, epochs)


def _torch() -> Any:
    return load_extra("torch", extra="torch", what="tensors")


def tensors(element: Any) -> Any:
    """``element`` with its arrays as tensors; texts and other objects stay as they are."""
    if isinstance(element, Mapping):
        return {key: tensors(value) for key, value in element.items()}
    if isinstance(element, tuple):
        return tuple(map(tensors, element))
    if isinstance(element, np.generic) and element.dtype.kind in TENSOR_KINDS:
        return _torch().as_tensor(np.array(element))
    if isinstance(element, np.ndarray) and element.dtype.kind in TENSOR_KINDS:
        # PyTorch has no read-only tensors: what a cache holds is copied. Nor has it other byte orders.
        is_shared = element.flags.writeable and element.dtype.isnative
        return _torch().from_numpy(element if is_shared else element.astype(element.dtype.newbyteorder("=")))
    return element


def _made(kind: int, *parts: Any) -> Any:
    """What a pickled data set is made of again."""
    return _classes()[kind](*parts)


@cache
def _classes() -> tuple[Any, Any]:
    """The two classes; their bases are there only where PyTorch is."""
    data = _torch().utils.data
    map_base: Any = data.Dataset
    iterable_base: Any = data.IterableDataset

    class TorchPatches(map_base):  # type: ignore[misc]  # the base isn't known without PyTorch
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

    class TorchStream(iterable_base):  # type: ignore[misc]  # the base isn't known without PyTorch
        """A stream whose elements are tensors, split over ranks and workers."""

        def __init__(self, stream: Stream, rank: int | None, world: int | None, epochs: Any) -> None:
            self.stream = stream
            self._rank = rank
            self._world = world
            self._epochs = epochs

        def __reduce__(self) -> tuple[Any, ...]:
            return _made, (1, self.stream, self._rank, self._world, self._epochs)

        def set_epoch(self, epoch: int) -> None:
            """Let the next iteration be epoch ``epoch``, in workers too."""
            self._epochs.zero_()
            self._epochs[0] = epoch
            self.stream.set_epoch(epoch)

        def __iter__(self) -> Iterator[Any]:
            rank, world = _rank_and_world(self._rank, self._world)
            worker = data.get_worker_info()
            if worker is None and world == 1:
                # The stream counts its epochs, and knows its state.
                return map(tensors, self.stream)
            workers, number = (1, 0) if worker is None else (worker.num_workers, worker.id)
            begun = 1 + number % MOST_WORKERS
            epoch = int(self._epochs[0] + self._epochs[begun])
            self._epochs[begun] += 1
            at = Pass(epoch=epoch, part=rank * workers + number, parts=world * workers)
            return map(tensors, self.stream.run(at))

    return TorchPatches, TorchStream


def _rank_and_world(rank: int | None, world: int | None) -> tuple[int, int]:
    if rank is not None and world is not None:
        return rank, world
    distributed = _torch().distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
