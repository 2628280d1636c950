"""A mixer written to a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geotfr.flags import checks_flags
from geotfr.storage.atomic import atomic_output

if TYPE_CHECKING:
    import os

    from geotfr.mixer import Mixer

__all__ = ["write_mixer"]


@checks_flags
def write_mixer(path: str | os.PathLike[str], mixer: Mixer, *, overwrite: bool = False) -> None:
    """Write to ``path`` the ``mixer``, character for character as Earth Engine would.

    Raises
    ------
    OutputExistsError
        ``path`` exists and ``overwrite`` is False.
    OutputError
        The file can't be written.
    """
    with atomic_output(path, overwrite=overwrite) as file:
        file.write(mixer.to_text().encode())
