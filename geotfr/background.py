"""Long calls into libraries that a signal can end."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["run_at_most", "run_in_background"]

T = TypeVar("T")


def run_in_background(call: Callable[[], T]) -> T:
    """What ``call`` returns or raises, run in a daemon thread while this one waits.

    Python sees a signal only between its own instructions, and a COG copy or a request to a store is one call of some
    seconds. A waiting main thread sees it at once; the daemon thread ends with the process.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    is_done = threading.Event()

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)
        finally:
            is_done.set()

    threading.Thread(target=work, name="geotfr-background", daemon=True).start()
    is_done.wait()
    if errors:
        raise errors[0]
    return results[0]


def run_at_most(seconds: float, call: Callable[[], object]) -> None:
    """Run ``call`` in a daemon thread, and wait for it no longer than so; what it raises is dropped."""

    def work() -> None:
        with contextlib.suppress(Exception):
            call()

    thread = threading.Thread(target=work, name="geotfr-background", daemon=True)
    thread.start()
    thread.join(seconds)
