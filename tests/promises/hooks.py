"""Storage operations that are counted, killed or made to fail, and forked children to do it in."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import signal
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.errors import GeotfrError

if TYPE_CHECKING:
    from collections.abc import Callable

OPERATIONS = ("open", "write", "fsync", "close", "replace", "rename", "unlink", "mkdir", "rmdir", "posix_fallocate")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EMFILE, errno.EINTR)
SHORT_WRITE = 0
# Where GDAL works: its own writes don't pass through os.
GDAL = (("geotfr.rasters.sink", "GeoTiffSink", "write"), ("geotfr.rasters.sink", "GeoTiffSink", "close"))
COPY = ("geotfr.rasters.cog", "copy_raster")
CHILD_S = 120
"""A child that takes longer is ended by the kernel, which counts as a broken promise."""


class Storage:
    """Hooks ``os`` (and GDAL's calls, if ``with_gdal``): lists the operations, and lets ``act`` do something at one."""

    def __init__(
        self, act: Callable[[int, str, Callable[..., Any], tuple[Any, ...]], Any] | None = None, *, with_gdal: bool
    ) -> None:
        self.names: list[str] = []
        self._act = act
        for name in OPERATIONS:
            if hasattr(os, name):
                setattr(os, name, self._hook(name, getattr(os, name)))
        if with_gdal:
            for module, owner, name in GDAL:
                sink = getattr(importlib.import_module(module), owner)
                setattr(sink, name, self._hook(f"gdal {name}", getattr(sink, name)))
            cog = importlib.import_module(COPY[0])
            setattr(cog, COPY[1], self._hook("gdal copy", getattr(cog, COPY[1])))

    def _hook(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **more: Any) -> Any:
            self.names.append(name)
            if self._act is not None:
                done = self._act(len(self.names), name, real, args)
                if done is not None:
                    return done
            return real(*args, **more)

        return operation


def kill_at(point: int) -> Callable[..., None]:
    """Kill the process at operation ``point``; half of a write is done, and a copy has left GDAL's own file."""

    def act(number: int, name: str, real: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if number == point:
            if name == "write":
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
            if name == "gdal copy":
                Path(f"{args[1]}.ovr.tmp").write_bytes(b"left by a killed COG copy")
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def fail_at(point: int, code: int, *, for_ever: bool) -> Callable[..., None]:
    """Let operation ``point``, or all from it on, fail with ``code``; 0 stands for a short write."""

    def act(number: int, name: str, real: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if number == point or (for_ever and number > point):
            if code == SHORT_WRITE:
                return real(args[0], bytes(args[1])[:1]) if name == "write" and len(args[1]) > 1 else None
            if name == "close":
                real(*args)
            raise OSError(code, os.strerror(code))
        return None

    return act


@dataclass
class Ended:
    """How a child ended: the signal or 0, what it returned or the error's class and words."""

    signal: int
    value: Any = None
    error: str = ""
    kind: str = ""
    words: str = field(default="", repr=False)


def in_child(work: Callable[[], Any]) -> Ended:
    """``work`` in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        real_write, leave = os.write, os._exit
        signal.alarm(CHILD_S)
        try:
            answer = {"value": work()}
        except BaseException as error:
            is_told = isinstance(error, GeotfrError)
            answer = {
                "error": type(error).__name__ if is_told else traceback.format_exc(),
                "kind": "told" if is_told else "untold",
                "words": str(error),
            }
        text = memoryview(json.dumps(answer).encode())
        with contextlib.suppress(OSError):
            while text:
                text = text[real_write(writing, text) :]
        leave(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answered = pipe.read()
    _, status = os.waitpid(child, 0)
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    kind = "untold" if killed == signal.SIGALRM else ""
    return Ended(killed, **(json.loads(answered) if answered else {"kind": kind, "error": kind and "hangs"}))
