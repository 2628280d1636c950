"""Ctrl-C and SIGTERM as exceptions of the main thread that nothing swallows.

Python raises what a signal's handler raises wherever the main thread happens to be. Where that is a callback or a
destructor, it is printed and dropped; where a library is being imported, it may be dropped too (by the compiler when it
folds constants, say) or become an ImportError. So a signal waits until an import is done, is sent again where its
exception was dropped, and the command ends by its code whatever the exception has become.

Imports next to nothing: it is there before anything else is loaded.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["Terminated", "catch_signals", "end_by_signal"]

_ENDINGS = {int(signal.SIGINT): ("interrupted", 130), int(signal.SIGTERM): ("terminated", 143)}
_AGAIN_AFTER_S = 0.01
_MOST_IMPORTING_S = 1.0
# What the process was told, and when first: the command line has this one state, as the process has.
_numbers: list[int] = []
_came: list[float] = []


class Terminated(BaseException):
    """The process was asked to end (SIGTERM); unwinds as KeyboardInterrupt does."""


def catch_signals() -> None:
    """From now on SIGINT and SIGTERM raise in the main thread; a SIGINT that the parent had ignored stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _handle)
    if signal.getsignal(signal.SIGTERM) is not _handle:
        signal.signal(signal.SIGTERM, _handle)
        if sys.platform != "win32":  # has no timers of this kind
            signal.signal(signal.SIGALRM, _handle_again)
            sys.unraisablehook = _sending_again(sys.unraisablehook)


def end_by_signal() -> None:
    """End the process if a signal asked for it: a line on stderr, and the signal's exit code.

    As it stands: all that was open has been closed on the way here. A signal may have stopped rasterio between two of
    its own steps, or left a thread inside GDAL; when Python then takes modules down under them, the process may crash
    and its exit code is lost.
    """
    if not _numbers:
        return
    word, code = _ENDINGS[_numbers[-1]]
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"geotfr: {word}; no file at a final name is half written\n")
        sys.stderr.flush()
    os._exit(code)


def _handle(number: int, frame: FrameType | None) -> None:
    if not _came:
        _came.append(time.monotonic())
    _numbers.append(number)
    waits = sys.platform != "win32" and _is_importing(frame) and time.monotonic() - _came[0] < _MOST_IMPORTING_S
    if waits:
        _send_again()
        return
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _send_again() -> None:
    # No thread: what was interrupted may hold the lock that starting one takes.
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_AFTER_S)


def _handle_again(number: int, frame: FrameType | None) -> None:
    del number
    if _numbers:
        _handle(_numbers[-1], frame)


def _sending_again(hook: Callable[[sys.UnraisableHookArgs], object]) -> Callable[[sys.UnraisableHookArgs], object]:
    """A hook of what is raised where nobody can catch it: a signal is sent again, when that place has been left."""

    def send_again(unraisable: sys.UnraisableHookArgs, /) -> None:
        if not _numbers or not isinstance(unraisable.exc_value, KeyboardInterrupt | Terminated):
            hook(unraisable)
            return
        _send_again()

    return send_again
