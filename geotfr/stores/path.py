"""Paths of what lies in an object store or on a web server, to be used as paths of local files are.

An address counts as one where the user gave it as text, with its ``://``: what a file names is joined to that file's
own folder, and a path that ``pathlib`` made has lost a slash. So nothing that a file says leads to another server.
"""

from __future__ import annotations

import errno
import fnmatch
import io
import os
import stat
import urllib.parse
from pathlib import Path, PosixPath
from typing import IO, TYPE_CHECKING, Any, cast

from geotfr.errors import InputError, MissingInputError, OutputError, UsageError
from geotfr.stores.address import STORE_SCHEMES, WEB_SCHEMES, StoreAddress, address_scheme
from geotfr.stores.client import client_of
from geotfr.stores.file import StoreFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geotfr.stores.client import StoreClient, StoredObject

__all__ = ["StorePath", "any_path", "input_path", "is_local", "is_there", "local_text", "output_path"]

_BUFFER_BYTES = 64 << 10
_IS_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EBADF})


def any_path(given: str | os.PathLike[str]) -> Path:
    """The path that a user gave: a :class:`StorePath` for an address, else a local one; nothing is looked up.

    Raises
    ------
    UsageError
        An empty text, or an address with a key, a user or a query, without a bucket or host, or of a kind that can't be
        read.

    Examples
    --------
    >>> any_path("s3://bucket/sets/scene-mixer.json").with_name("scene-00000.tfrecord")
    StorePath('s3://bucket/sets/scene-00000.tfrecord')
    >>> any_path("sets/scene-mixer.json").name
    'scene-mixer.json'
    """
    return given if isinstance(given, Path) else _of_text(os.fspath(given))


def input_path(given: str | os.PathLike[str]) -> Path:
    """As :func:`any_path`, of what is to be read; it need not be there.

    Raises
    ------
    InputError
        What is there can't be known: a folder on the way is closed to this user, or a name is too long.
    UsageError
        As of :func:`any_path`.
    """
    return _reachable(any_path(given), InputError)


def output_path(given: str | os.PathLike[str]) -> Path:
    """As :func:`input_path`, of what is to be written; OutputError in place of InputError."""
    return _reachable(any_path(given), OutputError)


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether a local path leads to something, as far as can be known; ``Path.exists`` raises where it can't.

    >>> is_there("a" * 300)
    False
    """
    return os.path.exists(path)  # noqa: PTH110


def _reachable(path: Path, error: type[InputError | OutputError]) -> Path:
    """``path``, where the system says that something is there, or isn't: ``pathlib`` raises what else it says."""
    if is_local(path):
        try:
            path.stat()
        except OSError as reason:
            if reason.errno not in _IS_ABSENT:
                raise error(
                    f"{path}: can't be reached: {reason.strerror}; give another path, or have it opened to you"
                ) from reason
        except ValueError as reason:
            raise error(f"{str(path)!r}: {reason}; give a path without it") from reason
    return path


def local_text(text: str) -> str:
    """A user's text for a local path, with ``~`` and ``file://`` as a shell and a browser take them; else as it is.

    What is there under the very name, as a folder called ``~``, is that.

    Raises
    ------
    UsageError
        A file of another host.

    >>> local_text("file:///data/a%20b.tif"), local_text("a~.tif"), local_text("s3://bucket/a.tif")
    ('/data/a b.tif', 'a~.tif', 's3://bucket/a.tif')
    """
    if text.startswith("~") and not os.path.lexists(text):
        return os.path.expanduser(text)  # noqa: PTH111
    if text[:7].lower() != "file://" or os.path.lexists(text):
        return text
    host, slash, path = text[7:].partition("/")
    if host not in ("", "localhost") or not slash:
        raise UsageError(f"{text}: a file of another host, or none; give file:///FOLDER/FILE, or the path alone")
    return urllib.parse.unquote("/" + path)


def _of_text(text: str) -> Path:
    if not text:
        raise UsageError("path: found an empty text; give a file, a folder ('.' for this one) or an address")
    scheme = address_scheme(text)
    if not scheme or scheme == "file" or os.path.lexists(text):
        return Path(local_text(text))
    if scheme in STORE_SCHEMES:
        return StorePath(StoreAddress.of_folder(text).folder)
    if scheme not in WEB_SCHEMES:
        raise UsageError(
            f"{scheme}://: an address of a kind that can't be read; allowed are s3://, gs://, az:// and https://"
        )
    parts = urllib.parse.urlsplit(text)
    steps = [step for step in parts.path.split("/") if step]
    if "@" in parts.netloc or parts.query or parts.fragment:
        # It may hold a key: it isn't repeated.
        raise UsageError(
            f"{scheme}:// address with a user, a query or a fragment; give server and path alone, or fetch the file"
        )
    if not parts.netloc or any(step in (".", "..") for step in steps):
        raise UsageError(f"{text}: names no server and file; give {scheme}://HOST/FILE")
    return StorePath("/".join([f"{scheme}://{parts.netloc}", *steps]))


def is_local(path: Path) -> bool:
    """Whether ``path`` is one of this machine's file system."""
    return not isinstance(path, StorePath)


class StorePath(PosixPath):
    """The place of an object in a store, or of a file on a web server. Names are handled as those of local paths.

    Asking for it (``is_file``, ``stat``, ``iterdir``, ``open``, …) sends requests, and raises geotfr's errors where the
    store refuses. Nothing is written through it.
    """

    _found: StoredObject | None = None

    @property
    def _scheme(self) -> str:
        return self.parts[0].rstrip(":")

    @property
    def _server(self) -> str:
        return f"{self._scheme}://{self.parts[1]}"

    @property
    def key(self) -> str:
        """Where it is in its bucket or on its server; empty for the bucket itself."""
        return "/".join(self.parts[2:])

    @property
    def client(self) -> StoreClient:
        """The bucket or server."""
        return client_of(self._server)

    @property
    def is_writable_place(self) -> bool:
        """Whether it is in an object store, not on a web server."""
        return self._scheme in STORE_SCHEMES

    @property
    def address(self) -> StoreAddress:
        """It, as the address of a folder.

        Raises UsageError for one on a web server.
        """
        return StoreAddress.of_folder(str(self))

    def __str__(self) -> str:
        scheme, _, rest = super().__str__().partition(":/")
        return f"{scheme}://{rest}"

    def __repr__(self) -> str:
        return f"StorePath({str(self)!r})"

    def __fspath__(self) -> str:
        return str(self)

    @property
    def parent(self) -> StorePath:  # pathlib says Self
        """Its folder; a bucket is its own."""
        return self if len(self.parts) <= 2 else super().parent

    def with_found(self, found: StoredObject) -> StorePath:
        """The same place, of which a store has told ``found``: it isn't asked again."""
        path = self.with_name(self.name)
        path._found = found
        return path

    def found(self) -> StoredObject:
        """What the store tells of the object; asked for once.

        Raises
        ------
        MissingInputError
            There is none.
        InputError
            The store refuses.
        """
        found = self._look()
        if found is None:
            raise MissingInputError(f"{self}: no such {'object' if self.is_writable_place else 'file'}")
        return found

    def _look(self) -> StoredObject | None:
        if self._found is None and self.key:
            self._found = self.client.head(self.key)
        return self._found

    def is_file(self) -> bool:
        """Whether there is such an object. Raises InputError where the store refuses."""
        return self._look() is not None

    def is_dir(self) -> bool:
        """Whether there are objects below it; never on a web server, which lists nothing."""
        if not self.is_writable_place or self._found is not None:
            return False
        objects, folders = self.client.list_folder(self.key or None)
        return not self.key or bool(objects or folders)

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is such an object, or objects below it."""
        del follow_symlinks
        return self.is_file() or self.is_dir()

    def is_symlink(self) -> bool:
        """No."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Size and time of change, as of a local file."""
        del follow_symlinks
        found = self.found()
        changed = int(found.change.timestamp())
        return os.stat_result((stat.S_IFREG | 0o444, 0, 0, 1, 0, 0, found.size, changed, changed, changed))

    def iterdir(self) -> Iterator[StorePath]:  # type: ignore[override]  # pathlib says Self
        """Objects and folders right in it. Raises InputError on a web server, which lists nothing."""
        if not self.is_writable_place:
            raise InputError(f"{self}: a web server lists no files; name mixer and shards")
        objects, folders = self.client.list_folder(self.key or None)
        for name, found in objects.items():
            path = self / name
            path._found = found
            yield path
        for name in folders:
            yield self / name

    def glob(self, pattern: str, **_: Any) -> Iterator[StorePath]:  # type: ignore[override]
        """Objects right in it whose names match ``pattern``."""
        return (path for path in self.iterdir() if fnmatch.fnmatchcase(path.name, pattern))

    def resolve(self, strict: bool = False) -> StorePath:
        """It: a store has no links."""
        del strict
        return self

    def absolute(self) -> StorePath:
        """It."""
        return self

    def raw(self) -> StoreFile:
        """The object as a file without a buffer."""
        return StoreFile(self.client, self.key, self.found(), path=str(self))

    def open(self, mode: str = "r", *args: Any, **options: Any) -> IO[Any]:  # type: ignore[override]
        """The object as a binary file, ``rb`` alone.

        Raises
        ------
        OSError
            Another ``mode``.
        """
        if mode != "rb" or args or options:
            raise OSError(f"{self}: opened in mode {mode!r}; an object of a store is opened for reading bytes")
        return cast("IO[Any]", io.BufferedReader(self.raw(), _BUFFER_BYTES))

    def read_bytes(self) -> bytes:
        """All of the object."""
        found = self.found()
        return self.client.read_range(self.key, 0, found.size, etag=found.etag) if found.size else b""

    def read_text(self, encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> str:
        """All of the object as text."""
        del newline
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")
