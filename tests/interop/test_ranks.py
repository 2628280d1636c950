"""Ranks and their workers share the records: each comes once in an epoch, however they are started."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from datasets.scenes import COUNT, write_scene

import geotfr
from geotfr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

torch = pytest.importorskip("torch")
from interop.ranks import begin_spawned, read  # noqa: E402

from geotfr.datasets.torch_adapter import LAUNCHERS  # noqa: E402

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scene")
    write_scene(folder)
    return folder


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    paths = os.pathsep.join([str(HERE), str(HERE.parent), str(HERE.parent.parent)])
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **(env or {})}
    done = subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def assert_each_once(found: Iterable[dict[str, Any]], *ways: str) -> None:
    """Each patch once in an epoch over all ranks, in another order in the next."""
    ranks = list(found)
    for way in ways or ranks[0]:
        epochs = [[n for rank in ranks for n in rank[way][epoch]] for epoch in range(len(ranks[0][way]))]
        assert all(sorted(epoch) == list(range(COUNT)) for epoch in epochs), way
        assert len({tuple(epoch) for epoch in epochs}) == len(epochs), way


def results(folder: Path, world: int) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world)]


@pytest.mark.parametrize(
    ("world", "method"),
    [
        (2, "fork"),
        (2, "spawn"),
        (1, "fork"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((1, "spawn"), (1, "forkserver"), (2, "forkserver"))),
    ],
)
def test_ranks_of_torchrun_give_each_record_once(folder: Path, tmp_path: Path, method: str, world: int) -> None:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)]
    run(*torchrun, HERE / "ranks.py", folder, tmp_path, "group", method)
    assert_each_once(results(tmp_path, world))


@pytest.mark.parametrize(
    "names", [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")]
)
def test_ranks_without_a_group_are_those_of_the_launcher(folder: Path, tmp_path: Path, names: tuple[str, str]) -> None:
    for rank in range(2):
        run(HERE / "ranks.py", folder, tmp_path, "none", "fork", env=dict(zip(names, (str(rank), "2"), strict=True)))
    found = results(tmp_path, 2)
    assert_each_once(found, *(way for way in found[0] if "stream" in way))


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, None),
        ({"RANK": "1", "WORLD_SIZE": "3"}, (1, 3)),
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, None),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "no rank of a world"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "no rank of a world"),
    ],
)
def test_only_a_rank_of_a_world_is_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, env: dict[str, str], expected: Any
) -> None:
    for names in LAUNCHERS:
        for name in names:
            monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    source = geotfr.to_torch(geotfr.stream({"x": np.arange(12)}))
    if isinstance(expected, str):
        with pytest.raises(UsageError, match=expected):
            iter(source)
        return
    rank, world = expected or (0, 1)
    assert [int(item["x"]) for item in source] == list(range(12))[rank::world]


def test_a_source_pickled_for_spawned_ranks_is_split_over_them(folder: Path, tmp_path: Path) -> None:
    source = read("stream", str(folder))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(begin_spawned, (2, port, source, str(tmp_path)), nprocs=2)
    # The source goes on counting its epochs where it is read in turn.
    assert_each_once(results(tmp_path, 2))


def begin_lightning(folder: Path, tmp_path: Path, strategy: str) -> list[dict[str, Any]]:
    pytest.importorskip("pytorch_lightning", reason="pytorch-lightning isn't installed")
    run(HERE / "lightning_ranks.py", folder, tmp_path, strategy)
    return results(tmp_path, 2)


@pytest.mark.parametrize("strategy", ["ddp", pytest.param("ddp_spawn", marks=pytest.mark.slow)])
def test_lightnings_ranks_give_each_record_once(folder: Path, tmp_path: Path, strategy: str) -> None:
    found = begin_lightning(folder, tmp_path, strategy)
    assert set(found[0]) == {"stream 0 None", "stream 1 spawn", "data set 0 None"}
    assert_each_once(found)
