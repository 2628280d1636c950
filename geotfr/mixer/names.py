"""What the files of a set are called, and in which order they stand.

**Source**: Earth Engine's exports to Drive and to Cloud Storage; five digits from 00000; a set of one shard is not
numbered.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from geotfr.errors import DamagedError, UsageError
from geotfr.stores.path import any_path

__all__ = [
    "Naming",
    "SetNames",
    "is_shard_name",
    "natural_key",
    "plain_name",
    "shard_number",
    "shard_pattern",
    "shard_stem",
]

Naming = Literal["drive", "cloud-storage"]

_DIGITS = re.compile(r"(\d+)")
_SHARD_NAME = re.compile(
    r"^(?P<stem>.*?)(?:(?P<number>\d+)(?P<total>[-_]of[-_]\d+)?)?(?P<suffix>\.tfrec(?:ords?)?(?:\.gz|\.zlib)?|\.gz)?$",
    re.DOTALL | re.IGNORECASE,
)
"""Of any writer. **Source**: TensorFlow and Beam write ``NAME-00003-of-00012.tfrecord``, TensorFlow Datasets
``NAME.tfrecord-00003-of-00012``, Earth Engine's users ``NAME.TFRecord``."""
_SHARD_ENDING = re.compile(r"\.tfrec(ords?)?(-\d+-of-\d+)?(\.gz|\.zlib)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNames:
    """The names of one set's files, without their folder.

    Attributes
    ----------
    folder
        Where they stand.
    name
        What they begin with; empty for a prefix that ends in ``/``, whose files are always numbered.
    naming
        ``drive``: ``NAME-00000.tfrecord``, ``NAME-mixer.json``. ``cloud-storage``: without the hyphens.
    compressed_suffix
        ``.gz`` or nothing.

    Examples
    --------
    >>> names = SetNames.for_prefix("out/scene", naming="drive", compressed_suffix=".gz")
    >>> names.shard(3, total=12), names.shard(0, total=1), names.mixer(total=1)
    ('scene-00003.tfrecord.gz', 'scene.tfrecord.gz', 'scene.json')
    """

    folder: Path
    name: str
    naming: Naming
    compressed_suffix: str

    @staticmethod
    def for_prefix(prefix: str | os.PathLike[str], *, naming: Naming, compressed_suffix: str) -> SetNames:
        """The names of the set with ``prefix``, a folder and what the names begin with."""
        text = os.fspath(prefix)
        if not text or "\0" in text:
            raise UsageError(
                f"output prefix {text!r} names no file; give a folder and a name, or a folder that ends in /"
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"output prefix {text!r} is not UTF-8, which the manifest is; give another") from error
        path = any_path(text)
        if text.endswith("/") or path.name in ("", "..") or text in (".", "..") or path.parent == path:
            folder, name = path, ""
        else:
            folder, name = path.parent, path.name
        if "\\" in name:
            raise UsageError(
                f"output prefix {text!r}: a name with a backslash is a path on other systems, and no command reads such"
                " a set; give another"
            )
        return SetNames(folder=folder, name=name, naming=naming, compressed_suffix=compressed_suffix)

    @property
    def _stem(self) -> str:
        return f"{self.name}-" if self.name and self.naming == "drive" else self.name

    def shard(self, number: int, *, total: int) -> str:
        """The file name of shard ``number`` of ``total``."""
        suffix = f".tfrecord{self.compressed_suffix}"
        if total == 1 and self.name:
            return self.name + suffix
        return f"{self._stem}{number:05d}{suffix}"

    def mixer(self, *, total: int) -> str:
        """The file name of the mixer of a set of ``total`` shards."""
        if total == 1 and self.name:
            return f"{self.name}.json"
        return f"{self._stem}mixer.json"

    @property
    def manifest(self) -> str:
        """The file name of the manifest."""
        return f"{self._stem}manifest.json"

    @property
    def patch_table(self) -> str:
        """The file name of the patch table."""
        return f"{self._stem}patches.parquet"

    @property
    def patch_tables(self) -> tuple[str, ...]:
        """The names that a patch table of this prefix may have, by either naming."""
        return tuple(dict.fromkeys(replace(self, naming=naming).patch_table for naming in get_args(Naming)))

    @property
    def coco(self) -> str:
        """The file name of the COCO file."""
        return f"{self._stem}coco.json"

    @property
    def coco_files(self) -> tuple[str, ...]:
        """The names that a COCO file of this prefix may have, by either naming."""
        return tuple(dict.fromkeys(replace(self, naming=naming).coco for naming in get_args(Naming)))

    @property
    def stac_items(self) -> tuple[str, ...]:
        """The names that a STAC Item of this prefix may have, by either naming."""
        stems = (replace(self, naming=naming).manifest.removesuffix("manifest.json") for naming in get_args(Naming))
        return tuple(dict.fromkeys(f"{stem}stac.json" for stem in stems))

    @property
    def tellers(self) -> tuple[str, ...]:
        """All names that a manifest or mixer of this prefix may have, by either naming: they tell a set is whole."""
        found = [
            name
            for naming in get_args(Naming)
            for other in [replace(self, naming=naming)]
            for name in (other.manifest, other.mixer(total=2), other.mixer(total=1))
        ]
        return tuple(dict.fromkeys(found))

    def is_of_set(self, file_name: str) -> bool:
        """Whether ``file_name`` is one that a set with this prefix may have, by either naming, compressed or not.

        A set of one shard has the same names by both, so a prefix has one set.
        """
        # Without a hyphen, six digits may be five behind another prefix that ends in one: not this set's.
        numbered = re.escape(self.name) + (r"(-\d{5,}|\d{5})" if self.name else r"\d{5,}") + r"\.tfrecord(\.gz)?"
        single = re.escape(self.name) + r"\.tfrecord(\.gz)?" if self.name else numbered
        return file_name in self.tellers or bool(re.fullmatch(f"{numbered}|{single}", file_name))


def plain_name(name: str, *, where: str | Path, what: str = "shard") -> str:
    """``name``, if it is a file's name without a folder: what a file from elsewhere names can't lie elsewhere.

    Raises
    ------
    DamagedError
        It isn't; ``where`` is the file that names it, ``what`` the kind of file.
    """
    if not isinstance(name, str) or name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
        raise DamagedError(f"{where}: names the {what} {name!r}; a file name without folder is allowed")
    return name


def natural_key(path: str | Path) -> tuple[list[tuple[int, int, str]], str]:
    """A sort key that orders digits by number: ``p-2`` before ``p-10``; the whole text decides ties.

    >>> sorted(["p-10", "p-2", "p-00001"], key=natural_key)
    ['p-00001', 'p-2', 'p-10']
    """
    text = str(path)
    parts = _DIGITS.split(text)
    return [(1, int(part), "") if part.isdecimal() and part.isascii() else (0, 0, part) for part in parts], text


def is_shard_name(name: str) -> bool:
    """Whether a file in a folder is a shard by its name.

    >>> is_shard_name("p-00003.tfrecord.gz"), is_shard_name("p.tfrecord-00003-of-00012"), is_shard_name("p.json")
    (True, True, False)
    """
    return bool(_SHARD_ENDING.search(name))


def shard_pattern(path: str | Path) -> str:
    """A shard's path with ``*`` for its number: equal for the shards of one set, and for no others.

    >>> shard_pattern("p-00003.tfrecord.gz"), shard_pattern("p-00003-of-00012.tfrecord"), shard_pattern("p.tfrecord")
    ('p-*', 'p-*-of-00012', 'p')
    """
    path = any_path(path)
    found = _SHARD_NAME.match(path.name)
    if not found or not found["number"]:
        return shard_stem(path)
    return str(path.with_name(f"{found['stem']}*{found['total'] or ''}"))


def shard_stem(path: str | Path) -> str:
    """A shard's path without number and suffix: equal for the shards of one set.

    >>> shard_stem("out/p-00003.tfrecord.gz"), shard_stem("out/p-3-of-12.tfrecord"), shard_stem("out/p.tfrecord")
    ('out/p-', 'out/p-', 'out/p')
    """
    path = any_path(path)
    found = _SHARD_NAME.match(path.name)
    return str(path.with_name(found["stem"])) if found and found["stem"] else str(path.parent / "")


def shard_number(path: str | Path) -> int | None:
    """The number in a shard's name, or None.

    >>> shard_number("p-00003.tfrecord.gz"), shard_number("p.tfrecord")
    (3, None)
    """
    found = _SHARD_NAME.match(Path(path).name)
    return int(found["number"]) if found and found["number"] else None
