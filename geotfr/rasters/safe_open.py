"""The one place where a raster is opened for reading.

GDAL asks every driver whether it knows a file, and some drivers read, fetch or even create other files that
the file names: a text file called ``x.tif`` opens as a VRT. So the driver is chosen here, by the first bytes,
and given to GDAL as the only one; side files that GDAL opens on its own are checked as well.
"""

from __future__ import annotations

import ctypes
import html
import os
import re
import stat
import threading
import warnings
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import rasterio
import rasterio._base
from rasterio._err import CPLE_BaseError
from rasterio.errors import CRSError, NotGeoreferencedWarning, RasterioError

from geotfr.errors import InputError, MissingInputError, UsageError
from geotfr.file_kinds import HEAD_BYTES, is_tiff, kind_of
from geotfr.grid.crs import check_crs_in_text, check_crs_text
from geotfr.rasters.remote import HTTP_OPTIONS, NO_ADDRESS, ask, fetching, gdal_name, is_readable_address
from geotfr.rasters.tiff_directories import TiffDirectory, read_directories
from geotfr.stores.address import address_scheme
from geotfr.stores.path import is_there

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rasterio.io import DatasetReader

    from geotfr.rasters.remote import RemoteFile

__all__ = [
    "DEFAULT_CACHE_BYTES",
    "GDAL_ERRORS",
    "GDAL_OPTIONS",
    "gdal_words",
    "hush_libtiff",
    "quiet_georeference",
    "raster_env",
    "safe_open",
    "split_page",
    "tiff_directories",
]

GDAL_ERRORS = (RasterioError, CPLE_BaseError, CRSError, OSError)
"""What a call into rasterio raises when GDAL fails; rasterio keeps the second family to itself."""

DEFAULT_CACHE_BYTES = 32 << 20
"""GDAL's block cache: one or two block rows; more is slower and costs memory, see benchmarks/export.py."""

GDAL_OPTIONS: dict[str, str] = {
    # Side files are looked for by name: listing a folder of 100,000 scenes for each of them is slow.
    "GDAL_DISABLE_READDIR_ON_OPEN": "TRUE",
    "GDAL_VRT_ENABLE_PYTHON": "NO",
    "GDAL_TIFF_INTERNAL_MASK": "YES",
    "PROJ_NETWORK": "OFF",
    **HTTP_OPTIONS,
    **NO_ADDRESS,
}
"""GDAL's configuration beside the cache's size. A misspelt name is accepted in silence: a test checks
each."""

SIDE_FILE_SUFFIXES = tuple(
    variant for suffix in (".ovr", ".msk", ".ovr.ovr", ".msk.ovr", ".ovr.msk") for variant in (suffix, suffix.upper())
)
"""Names that GDAL opens beside a raster, with any driver that takes them."""

_CRS_SUFFIXES = (".aux", ".AUX", ".prj", ".PRJ")
"""Other side files that hold a CRS; the first ones are not XML."""

_MOST_SIDE_BYTES = 64 << 20
_PAGE = re.compile(r"GTIFF_DIR:([1-9][0-9]{0,5}):(.+)", re.DOTALL)

# warnings.catch_warnings changes process-wide state.
_warnings_lock = threading.Lock()


@contextmanager
def raster_env(*, cache_bytes: int = DEFAULT_CACHE_BYTES) -> Iterator[None]:
    """A context in which GDAL works with ``cache_bytes`` of block cache and :data:`GDAL_OPTIONS`.

    The cache is one for the process; leaving the context restores its size.
    """
    # rasterio takes GDAL_CACHEMAX in bytes; the environment variable of that name is in MB.
    with rasterio.Env(GDAL_CACHEMAX=cache_bytes, **GDAL_OPTIONS):
        yield


@cache
def hush_libtiff() -> None:
    """Keep libtiff from writing to stderr, for the rest of the process: GDAL's errors say the same.

    GDAL gives each file a handler of its own, but reports a failed read or write of the disk to libtiff's default one,
    which prints. The symbol is looked for in what rasterio has loaded; where GDAL hides it, nothing changes.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(rasterio._base.__file__).TIFFSetErrorHandler(None)


@contextmanager
def quiet_georeference() -> Iterator[None]:
    """A context without rasterio's warning of a missing georeference: whoever opens a raster checks that."""
    with _warnings_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


def safe_open(
    path: str | os.PathLike[str],
    *,
    allow_drivers: Sequence[str] = ("GTiff",),
    allow_network: bool = False,
    threads: int = 1,
) -> DatasetReader:
    """The raster ``path``, open for reading, by a driver of ``allow_drivers`` and no other.

    Parameters
    ----------
    path
        A local file, or ``GTIFF_DIR:2:FILE`` for the second image of a TIFF; an address of a web server or an object
        store, if the network is allowed.
    allow_drivers
        GDAL drivers that may open it. Where the first bytes tell the driver, that one is used if it is
        allowed; where they don't, the allowed ones that have no such mark are tried in turn.
    allow_network
        Fetch what an ``https://``, ``http://``, ``s3://``, ``gs://`` or ``az://`` address names. Nothing beside it is
        looked for. What a file names in turn (a VRT, if that is allowed) is never fetched by ``/vsicurl/`` and its
        kind.
    threads
        Threads that decode blocks; GTiff alone has the option.

    Raises
    ------
    MissingInputError
        If there is no such file.
    InputError
        If it is something else than an allowed raster, or names other files as its overviews or mask.
    """
    hush_libtiff()
    text, page = split_page(os.fspath(path))
    remote = ask(text) if allow_network and address_scheme(text) else None
    head = _head(text) if remote is None else remote.head
    drivers = _drivers(text, head[:HEAD_BYTES], allow_drivers)
    if remote is None:
        _check_side_files(text)
        _check_side_crs(text)
    if is_tiff(head):
        # GDAL interprets GeoTIFF keys when it opens the raster.
        for directory in tiff_directories(text, remote):
            check_crs_text(directory.crs_texts, where=text, is_whole=False)
    elif page:
        raise InputError(f"{text}: {kind_of(head[:HEAD_BYTES]).words}, not a TIFF; it has no pages")
    while True:
        driver = drivers.pop(0)
        options = {"NUM_THREADS": str(threads)} if driver == "GTiff" and threads > 1 else {}
        try:
            return _checked(_open(text, driver, options, page=page, remote=remote), text)
        except InputError:
            if not drivers:
                raise


def gdal_words(error: BaseException) -> str:
    """GDAL's message in one line: rasterio often says 'see previous exception', so the last cause speaks."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    return " ".join(str(cause).split()) or type(cause).__name__


def _head(path: str) -> bytes:
    file = Path(path)
    try:
        mode = file.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(f"{path}: a folder, not a raster")
        if not stat.S_ISREG(mode):  # opening a pipe would wait for its writer
            raise InputError(f"{path}: a pipe or device, not a file; GDAL reads files only")
        with file.open("rb") as opened:
            return opened.read(HEAD_BYTES)
    except FileNotFoundError as error:
        hint = "; to fetch it, pass --allow-network (allow_network=True)" if is_readable_address(path) else ""
        raise MissingInputError(f"{path}: no such file{hint}") from error
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from error


def _drivers(path: str, head: bytes, allowed: Sequence[str]) -> list[str]:
    """The drivers to try: the one that the first bytes tell, or the allowed ones that no first bytes tell."""
    kind = kind_of(head)
    if kind.driver in allowed:
        return [kind.driver]
    unmarked = [name for name in allowed if name != "GTiff"] if not kind.driver else []
    if unmarked:
        return unmarked
    flag = f"--allow-driver {kind.driver}" if kind.driver else "--allow-driver NAME"
    advice = f"if you trust it and GDAL reads it, pass {flag}"
    raise InputError(f"{path}: {kind.words}, not a TIFF; {advice}")


def split_page(text: str) -> tuple[str, int]:
    """The file and the page, from 1, that ``GTIFF_DIR:page:file`` names; page 0 for any other text.

    A file that is called so wins.

    >>> split_page("GTIFF_DIR:2:scan.tif"), split_page("scan.tif")
    (('scan.tif', 2), ('scan.tif', 0))
    """
    match = _PAGE.fullmatch(text)
    if match is None or is_there(text):
        return text, 0
    if address_scheme(match[2]):
        raise InputError(f"{text}: pages are read of local files alone; fetch the file and name it instead")
    return match[2], int(match[1])


def tiff_directories(path: str, remote: RemoteFile | None) -> list[TiffDirectory]:
    """The directories of a TIFF, in the order in which ``GTIFF_DIR:page:file`` counts them; of one that is fetched the
    first alone, which GDAL opens.

    Raises
    ------
    InputError
        Texts of GeoTIFF keys that are too long.
    """
    if remote is not None:
        return read_directories(remote.read_at, where=path, most=1)
    with open(path, "rb") as file:  # noqa: PTH123  (a name as it is given)
        end = os.fstat(file.fileno()).st_size

        def read_at(start: int, size: int) -> bytes:
            # A damaged directory may lead to places that no file has.
            file.seek(min(start, end))
            return file.read(size)

        return read_directories(read_at, where=path)


def _check_side_crs(path: str) -> None:
    """Refuse side files whose CRS names a file: GDAL interprets them when it opens the raster.

    What isn't a CRS is not looked at: all of the file counts as one text.
    """
    stem = os.path.splitext(path)[0]  # noqa: PTH122
    sides = [f"{path}{suffix}.aux.xml" for suffix in ("", *SIDE_FILE_SUFFIXES)]
    sides += [base + suffix for base in dict.fromkeys((path, stem)) for suffix in _CRS_SUFFIXES]
    for side in sides:
        if not os.path.isfile(side):  # noqa: PTH113
            continue
        if os.path.islink(side) and not os.path.islink(path):  # noqa: PTH114
            raise InputError(f"{side}: side file of {Path(path).name}, a link; GDAL would follow it: remove it")
        with open(side, "rb") as file:  # noqa: PTH123
            content = file.read(_MOST_SIDE_BYTES + 1)
        if len(content) > _MOST_SIDE_BYTES:
            raise InputError(f"{side}: side file of {Path(path).name}, more than {_MOST_SIDE_BYTES:,} bytes; remove it")
        check_crs_in_text(html.unescape(content.decode("latin-1")), where=side)


def _check_side_files(path: str) -> None:
    for suffix in SIDE_FILE_SUFFIXES:
        side = path + suffix
        # os.path: a name of 255 bytes has no side files, and Path.is_file raises for one.
        if os.path.isfile(side) and not is_tiff(_head(side)):  # noqa: PTH113
            raise InputError(
                f"{side}: side file of {Path(path).name}, {kind_of(_head(side)).words}, not a TIFF; "
                "GDAL would follow it: remove it"
            )


def _open(path: str, driver: str, options: dict[str, str], *, page: int, remote: RemoteFile | None) -> DatasetReader:
    # An absolute path: 'https://x' and 'GTIFF_RAW:x' are names of files here, not addresses or directives.
    absolute = os.path.abspath(path) if remote is None else gdal_name(remote.address)  # noqa: PTH100  (resolve follows links)
    if page:
        absolute = f"GTIFF_DIR:{page}:{absolute}"
    try:
        with quiet_georeference(), fetching(remote):
            return rasterio.open(absolute, driver=driver, sharing=False, **options)
    except (*GDAL_ERRORS, ValueError) as error:
        if driver not in _known_drivers():
            raise UsageError(f"--allow-driver {driver}: GDAL has no such driver here") from error
        what = f"page {page} of {path}" if page else path
        raise InputError(f"{what}: can't be opened as {driver}: {gdal_words(error)}") from error


def _known_drivers() -> set[str]:
    with rasterio.Env() as env:
        return set(env.drivers())


def _checked(dataset: DatasetReader, path: str) -> DatasetReader:
    """``dataset``, unless its tags send GDAL to another file for its overviews."""
    try:
        elsewhere = dataset.tags(ns="OVERVIEWS").get("OVERVIEW_FILE")
    except UnicodeDecodeError:
        elsewhere = "(not UTF-8)"
    if elsewhere is None:
        return dataset
    dataset.close()
    raise InputError(f"{path}: its tags name another file as its overviews: {elsewhere!r}; remove that tag")
