"""Numbered tasks on an engine: a bounded window, results in order, workers that die replaced.

A task may be run again at any time, also while it still runs elsewhere: it holds a lock, and begins anew what it left.
What goes over the wire is the task's number, and the facts that it returns.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from geotfr.errors import EngineLostError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Engine", "Pending", "run_tasks"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MOST_LOSSES = 5
"""So often workers may die while the same task is waited for."""


_RESUME = "what is finished is kept for --resume (resume=True)"


class Pending(Protocol[T_co]):
    """A task under way."""

    def result(self) -> T_co:
        """What it returned; raises what it raised. Waits for it."""
        ...

    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        ...


class Engine(Protocol):
    """What runs tasks.

    Attributes
    ----------
    name
        What it is called.
    width
        How many tasks it runs at once.
    """

    name: str
    width: int

    def submit(self, fn: Callable[[int], T], number: int, /) -> Pending[T]:
        """Start ``fn(number)``; both can be pickled."""
        ...

    def lost_worker(self, error: BaseException) -> bool:
        """Whether ``error`` says that a worker died, and the tasks under way can be run again after :meth:`renew`."""
        ...

    def lost_engine(self, error: BaseException) -> bool:
        """Whether ``error`` says that nothing can be run any more."""
        ...

    def renew(self) -> None:
        """Replace workers that died."""
        ...


def run_tasks(
    engine: Engine, fn: Callable[[int], T], count: int, commit: Callable[[T], None], *, again: str = _RESUME
) -> None:
    """Commit ``fn(0)`` to ``fn(count - 1)``, in this order; at most four times the engine's width are under way.

    ``again`` tells what to do when the engine is lost.

    Raises
    ------
    EngineLostError
        The engine is gone, or workers die again and again.
    Exception
        What a task raised.
    """
    under_way: deque[tuple[int, Pending[T]]] = deque()
    begun = done = losses = 0
    while done < count:
        try:
            while begun < count and len(under_way) < 4 * engine.width:
                under_way.append((begun, engine.submit(fn, begun)))
                begun += 1
            result = under_way[0][1].result()
        except Exception as error:
            if engine.lost_engine(error):
                raise EngineLostError(
                    f"{engine.name}: the engine is lost at task {done + 1:,} of {count:,} ({_told(error)}); {again}"
                ) from error
            if not engine.lost_worker(error):
                raise
            losses += 1
            if losses > MOST_LOSSES:
                raise EngineLostError(
                    f"{engine.name}: workers died {losses} times during task {done + 1:,} of {count:,}, the last so:"
                    f" {_told(error)}; give fewer --workers, or them more memory; {again}"
                ) from error
            engine.renew()
            # Only what was lost is run again; a queue that is full stays so.
            under_way = deque(
                (number, engine.submit(fn, number) if _is_lost(engine, pending) else pending)
                for number, pending in under_way
            )
            continue
        under_way.popleft()
        done, losses = done + 1, 0
        commit(result)


def _is_lost(engine: Engine, pending: Pending[Any]) -> bool:
    """Whether a task went down with its worker, or was never begun for that."""
    if not pending.done():
        return False
    try:
        pending.result()
    except Exception as error:
        return engine.lost_worker(error) or isinstance(error, CancelledError)
    return False


def _told(error: BaseException) -> str:
    text: Any = str(error).strip()
    return " ".join(text.split()) or type(error).__name__
