"""``python -m geotfr_cli``, and the console script ``geotfr``."""

import contextlib
import os
from typing import NoReturn

from geotfr_cli.signals import catch_signals, end_by_signal


def run() -> NoReturn:
    """Run the command line, which a signal can end while it is still being loaded."""
    catch_signals()
    try:
        from geotfr_cli.main import main
    except MemoryError:
        _end_without_memory()
    except BaseException:
        end_by_signal()
        raise
    try:
        main()
    except MemoryError:
        # Even the telling of an error needs memory.
        _end_without_memory()


def _end_without_memory() -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, b"geotfr: out of memory; raise the limit (ulimit -v)\n")
    os._exit(13)


if __name__ == "__main__":
    run()
