"""What a long run tells while it works, and to whom."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Progress", "progress_bar"]


class Progress(Protocol):
    """Called after each step with the patches and bytes that it finished."""

    def __call__(self, patches: int, size_bytes: int) -> None:
        """Take note of finished work."""
        ...


def _silent(patches: int, size_bytes: int) -> None:
    del patches, size_bytes


@contextlib.contextmanager
def progress_bar(progress: bool | Progress, *, total_patches: int, what: str) -> Iterator[Progress]:
    """A function to report to: the caller's own, a bar in the terminal or notebook (``True``), or none (``False``).

    The bar shows patches, MB/s and the time left, on stderr.
    """
    if not isinstance(progress, bool):
        yield progress
        return
    if not progress:
        yield _silent
        return
    # Chooses between the terminal's and the notebook's bar.
    from tqdm.auto import tqdm

    from geotfr.plain_text import printable, redact

    with tqdm(total=total_patches, desc=printable(redact(what)), unit=" patches", smoothing=0.1) as bar:
        done_bytes = 0

        def report(patches: int, size_bytes: int) -> None:
            nonlocal done_bytes
            done_bytes += size_bytes
            elapsed = bar.format_dict["elapsed"]
            if elapsed:
                bar.set_postfix_str(f"{done_bytes / elapsed / 1e6:.0f} MB/s", refresh=False)
            bar.update(patches)

        yield report
