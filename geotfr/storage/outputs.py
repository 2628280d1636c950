"""Where outputs go: a folder of this machine, or one of a store."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from geotfr.storage.output_set import OutputSet
from geotfr.storage.remote.output_set import StoreOutputSet
from geotfr.storage.remote.staged_set import StagedStoreSet
from geotfr.storage.remote.staging import sent_file
from geotfr.stores.path import StorePath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["local_output", "open_outputs"]


def open_outputs(
    folder: Path,
    *,
    name: str,
    belongs: Callable[[str], bool],
    overwrite: bool,
    make_folder: bool = False,
    resume: bool = False,
    part: str = "",
    shares_set: bool = False,
    adopts: bool = False,
    run: str = "",
) -> OutputSet:
    """The files of one set, which appear together in ``folder``: see :class:`OutputSet`. No folder has to be made in a
    store, for which it is a :class:`StoreOutputSet`, or a :class:`StagedStoreSet` where files are continued with, or
    adopted from parts (``adopts``). ``run`` is the one that a part is made for, where that one holds the set."""
    if isinstance(folder, StorePath):
        if not (part or resume or adopts):
            return StoreOutputSet(folder, name=name, belongs=belongs, overwrite=overwrite)
        return StagedStoreSet(
            folder,
            name=name,
            belongs=belongs,
            overwrite=overwrite,
            resume=resume,
            part=part,
            shares_set=shares_set,
            run=run,
        )
    return OutputSet(
        folder,
        name=name,
        belongs=belongs,
        overwrite=overwrite,
        make_folder=make_folder,
        resume=resume,
        part=part,
        shares_set=shares_set,
    )


@contextlib.contextmanager
def local_output(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """A path of this machine for what is to be at ``target``: itself, or one whose file is sent when the block ends
    well. Who writes there sees to it that it is whole.

    Raises as :func:`geotfr.storage.remote.staging.sent_file`.
    """
    if isinstance(target, StorePath):
        with sent_file(target, overwrite=overwrite) as path:
            yield path
    else:
        yield target
