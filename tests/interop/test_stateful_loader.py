"""torchdata's StatefulDataLoader goes on exactly where a stream's loader was stopped."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import geotfr
from geotfr.errors import UsageError

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]


def source() -> Any:
    stream = geotfr.stream({"x": np.arange(22)}).shuffle(22, seed=7).cache().map(dict).shuffle(5, seed=1).batch(2)
    return geotfr.to_torch(stream)


def numbers(batches: Any) -> list[list[int]]:
    return [batch["x"].tolist() for batch in batches]


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("taken", [0, 1, 5, None])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_stateful_loader_goes_on(workers: int, taken: int | None, persistent: bool) -> None:
    loaders = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata isn't installed")
    if persistent and not workers:
        pytest.skip("there are no workers to keep")

    def loader() -> Any:
        return loaders.StatefulDataLoader(
            source(), batch_size=None, num_workers=workers, persistent_workers=persistent and workers > 0
        )

    whole = loader()
    epochs = [numbers(whole) for _ in range(3)]
    assert all(sorted(n for batch in epoch for n in batch) == list(range(22)) for epoch in epochs)
    stopped = loader()
    assert numbers(stopped) == epochs[0]
    iterator = iter(stopped)
    got = numbers(islice(iterator, taken))
    assert got == epochs[1][:taken]
    state = stopped.state_dict()
    again = loader()
    again.load_state_dict(state)
    if taken is not None:
        assert numbers(again) == epochs[1][taken:]
    assert numbers(again) == epochs[2]


def parts(states: dict[int, Any] | None = None, taken: int = 3) -> Iterator[tuple[list[Any], Any]]:
    """What each of two workers gives and its state, without torchdata: as a loader asks them."""
    from torch.utils.data._utils import worker as workers

    for number in range(2):
        workers._worker_info = workers.WorkerInfo(id=number, num_workers=2, seed=0, dataset=None)
        try:
            dataset = source()
            if states is not None:
                dataset.load_state_dict(json.loads(json.dumps(states[number])))
            iterator = iter(dataset)
            got = numbers(islice(iterator, taken))
            yield got, dataset.state_dict()
        finally:
            workers._worker_info = None


def test_each_worker_has_a_state_of_its_own() -> None:
    first = dict(enumerate(parts()))
    rest = parts({number: state for number, (_, state) in first.items()}, taken=99)
    whole = parts(taken=99)
    for (got, _), (left, _), (expected, _) in zip(first.values(), rest, whole, strict=True):
        assert got + left == expected


def test_a_state_that_isnt_known_or_fits_not_is_refused() -> None:
    read = source()
    loader = torch.utils.data.DataLoader(read, batch_size=None, num_workers=2)
    assert len(list(loader)) == 12
    with pytest.raises(UsageError, match="StatefulDataLoader"):
        read.state_dict()
    alone = source()
    next(iter(alone))
    state = alone.state_dict()
    again = source()
    again.load_state_dict(state)
    assert len(list(again)) == 10
    again.load_state_dict(state)
    with pytest.raises(UsageError, match="part 0 of 1 of the records"):
        list(torch.utils.data.DataLoader(again, batch_size=None, num_workers=2))
