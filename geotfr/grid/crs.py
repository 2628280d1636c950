"""The text of a coordinate reference system (CRS): an authority's code where it says all, else WKT.

pyproj does all of it. GDAL's own parser takes URLs and file names as well as definitions, and a mixer is
foreign input: no text from a file reaches it. PROJ in turn opens what a definition names as its grids or its
``+init`` file: a definition that names a path is refused. Heavy, so pyproj is imported when a function needs it.
"""

from __future__ import annotations

import json
import re
import warnings
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyproj
    from numpy.typing import NDArray

__all__ = [
    "EARTH_RADIUS_M",
    "LONLAT",
    "CrsTransform",
    "check_crs_in_text",
    "check_crs_text",
    "crs_projjson",
    "crs_text",
    "crs_wkt",
    "crs_wkt2",
    "is_geographic",
    "metres_per_unit",
    "projection_scale",
    "same_crs",
]

LONLAT = "OGC:CRS84"
"""Longitude and latitude in degrees on WGS 84."""

EARTH_RADIUS_M = 6378137.0
"""The radius by which a metre counts in degrees. **Source**: grids that Earth Engine exported."""

MAX_TEXT_CHARS = 1 << 20
"""Longest definition that is parsed; the longest real ones have some 10,000 characters."""

AUTHORITIES = ("EPSG", "ESRI", "IAU_2015", "OGC")
"""Whose codes are written, the first that fits; a code of another authority means little to another
program."""

_NAME = r"@?\w[\w.-]*"
"""A resource as PROJ looks for it in its own folders alone: without a path, a drive or a scheme."""

_NAMES = rf"{_NAME}(?:\s*,\s*{_NAME})*"
_END = r"""(?=[\s;"\])]|$)(?!\s*,)"""
_VALUES = {
    "grids": re.compile(rf'\s*(?:"{_NAMES}"|{_NAMES}{_END})'),
    "init": re.compile(rf"\s*[\w.-]+\s*:\s*[\w.-]+{_END}"),
    "parameterfile": re.compile(rf'\s*"(?:[^"]|"")*"\s*,\s*"{_NAMES}"'),
    "extension": re.compile(rf'\s*"(?:PROJ4_GRIDS"\s*,\s*"{_NAMES}"|(?!PROJ4_GRIDS")(?:[^"]|"")*")', re.IGNORECASE),
}
_KEYS = re.compile(
    r"""
    (?: (?P<grids>\w*grids|(?<![a-z])(?:file|model|catalog)) | (?P<init>init) ) \s* =
    | (?: (?P<parameterfile>PARAMETERFILE) | (?P<extension>EXTENSION) ) \s* [\[(]
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Parameters of PROJ whose value is a file, in whatever wrapping (a PROJ string, its words within WKT), and nodes of
WKT that name one."""

_ADDRESS = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*://|[/\\~@]|\.{1,2}[/\\])", re.IGNORECASE)
_CRS_WORDS = re.compile(r"(?:proj|init)\s*=|PARAMETERFILE|PROJ4_GRIDS|EXTENSION\s*[\[(]", re.IGNORECASE)
_CODE = re.compile(r"\w+:\w+")
_KNOWN_ADDRESS = re.compile(r"\s*https?://(?:www\.)?opengis\.net/(?:def/crs|gml/srs)/", re.IGNORECASE)
"""Addresses that are names of CRSs; neither PROJ nor GDAL fetches them."""

QUOTE_CHARS = 60
"""How much of a text that can't be parsed an error repeats."""


BODY = 0.01
"""Radii that differ by this share are of two bodies, as PROJ takes them."""

ROUGH = 1e-6
"""Ellipsoids whose radii differ by this share are two; PROJ takes 1e-10 for equal."""


@contextmanager
def _proj_errors(text: str = "") -> Iterator[None]:
    """Errors of PROJ as InputError of the CRS ``text``."""
    from pyproj.exceptions import ProjError  # CRSError is one

    try:
        yield
    except ProjError as error:
        raise InputError(f"CRS: {_quoted(text)} can't be used: {_words(error)}") from error


# A search for a code takes up to 0.5 s, and a stack of scenes asks for the same one again and again.
@lru_cache(maxsize=64)
def crs_text(wkt: str) -> str:
    """The shortest text of ``wkt`` that reads back equal; the empty string for none.

    Parameters
    ----------
    wkt
        WKT of any version, as GDAL gives it for a raster.

    Returns
    -------
    str
        ``AUTHORITY:CODE`` (EPSG, ESRI, IAU and OGC) when the code means the same CRS. The order of the axes
        isn't compared: a raster's x is always its column's coordinate. Else WKT 1 as GDAL writes it, where
        that is complete, else WKT 2.

    Raises
    ------
    InputError
        If ``wkt`` can't be parsed.

    Examples
    --------
    >>> crs_text("")
    ''
    >>> import pyproj
    >>> crs_text(pyproj.CRS.from_epsg(4326).to_wkt())
    'EPSG:4326'
    """
    if not wkt.strip():
        return ""
    crs = _parsed(wkt)
    with _proj_errors(wkt):
        return _code(crs) or _wkt(crs)


@lru_cache(maxsize=64)
def crs_wkt(text: str) -> str:
    """WKT of a CRS given as ``AUTHORITY:CODE``, WKT, PROJ string or PROJJSON; the empty string for none.

    Raises
    ------
    InputError
        If pyproj can't parse ``text``.

    Examples
    --------
    >>> crs_wkt("EPSG:32633").startswith('PROJCS["WGS 84 / UTM zone 33N"')
    True
    """
    if not text.strip():
        return ""
    with _proj_errors(text):
        return _wkt(_parsed(text))


def crs_wkt2(text: str) -> str:
    """WKT 2 (2019) of a CRS that :func:`crs_wkt` takes.

    >>> crs_wkt2("EPSG:4326").startswith('GEOGCRS["WGS 84"')
    True
    """
    with _proj_errors(text):
        return str(_parsed(text).to_wkt())


def crs_projjson(text: str) -> dict[str, Any]:
    """PROJJSON of a CRS that :func:`crs_wkt` takes, in JSON types.

    >>> crs_projjson("EPSG:4326")["name"]
    'WGS 84'
    """
    with _proj_errors(text):
        found: dict[str, Any] = _parsed(text).to_json_dict()
        return found


def check_crs_text(text: str, *, where: str = "CRS", is_whole: bool = True) -> None:
    """Refuse a text for which PROJ or GDAL would open a file or an address.

    A file that holds the text of a CRS passes it through here before GDAL opens the file: GDAL interprets the text at
    once. Grids and definitions named without a folder are PROJ's own resources, and pass.

    Parameters
    ----------
    text
        WKT of any version, PROJ string, PROJJSON, URN or name; or a text that holds such ones, with XML's and JSON's
        escapes resolved.
    where
        What the error begins with: the file that holds the text.
    is_whole
        ``text`` is a CRS and nothing else, so it may be neither a path nor an address.

    Raises
    ------
    InputError
        If ``text`` names a file by its path, or an address.

    Examples
    --------
    >>> check_crs_text("EPSG:4326")
    >>> check_crs_text("+proj=longlat +nadgrids=@null +type=crs")
    >>> check_crs_text("+init=/tmp/x:1")
    Traceback (most recent call last):
    geotfr.errors.InputError: CRS: '+init=/tmp/x:1' names a file or an address, which are not opened; ...
    """
    if is_whole:
        text = _plain_json(text)
    bad = next((key for key in _KEYS.finditer(text) if not _VALUES[str(key.lastgroup)].match(text, key.end())), None)
    if bad or (is_whole and _ADDRESS.match(text) and not _KNOWN_ADDRESS.match(text)):
        shown = text[bad.start() :] if bad and not is_whole else text
        raise InputError(
            f"{where}: {_quoted(shown)} names a file or an address, which are not opened; give AUTHORITY:CODE or WKT"
        )


def check_crs_in_text(text: str, *, where: str) -> None:
    """Refuse a text in which a CRS may stand somewhere, as :func:`check_crs_text` does, if words of a CRS are there.

    >>> check_crs_in_text("model=/a/b", where="x")
    >>> check_crs_in_text("<SRS>+proj=longlat +nadgrids=/a/b</SRS>", where="x")
    Traceback (most recent call last):
    geotfr.errors.InputError: x: 'nadgrids=/a/b</SRS>' names a file or an address, which are not opened; ...
    """
    if _CRS_WORDS.search(text):
        check_crs_text(text, where=where, is_whole=False)


def same_crs(one: str, other: str) -> bool:
    """Whether two texts mean one CRS; the order of axes isn't compared, and no CRS equals only no CRS.

    >>> same_crs("EPSG:4326", "OGC:CRS84"), same_crs("EPSG:4326", "")
    (True, False)
    """
    if one == other:
        return True
    if not one.strip() or not other.strip():
        return False
    return _equal(_parsed(one), _parsed(other))


def is_geographic(text: str) -> bool:
    """Whether coordinates are longitude and latitude; False without a CRS.

    >>> is_geographic("EPSG:4326"), is_geographic("EPSG:32633")
    (True, False)
    """
    return bool(text.strip()) and bool(_parsed(text).is_geographic)


def metres_per_unit(text: str) -> float:
    """Metres in one unit of the CRS's coordinates; a degree has 6378137 * pi / 180. 1 without a CRS.

    >>> round(metres_per_unit("EPSG:4326"), 3), round(metres_per_unit("EPSG:2263"), 4)
    (111319.491, 0.3048)
    """
    if not text.strip():
        return 1.0
    crs = _parsed(text)
    factor = float(crs.axis_info[0].unit_conversion_factor) if crs.axis_info else 1.0
    if not crs.is_geographic:
        return factor
    radius = crs.ellipsoid.semi_major_metre if crs.ellipsoid is not None else EARTH_RADIUS_M
    # An angle's factor is in radians.
    return factor * (EARTH_RADIUS_M if abs(radius / EARTH_RADIUS_M - 1) < BODY else float(radius))


def projection_scale(text: str, x: float, y: float) -> float:
    """Metres of the projection in a metre on the ground, at a place given in the CRS: the root of the scale of areas.

    1 where there is none: no projection, or no place there.

    >>> round(projection_scale("EPSG:3857", 0, 8399737.9), 2)
    2.0
    """
    import pyproj
    from pyproj.exceptions import ProjError

    crs = _parsed(text)
    try:
        lon, lat = pyproj.Transformer.from_crs(crs, crs.geodetic_crs, always_xy=True).transform(x, y)
        scale = float(pyproj.Proj(crs).get_factors(lon, lat).areal_scale) if np.isfinite([lon, lat]).all() else 1.0
    except ProjError:
        return 1.0
    return float(np.sqrt(scale)) if np.isfinite(scale) and scale > 0 else 1.0


class CrsTransform:
    """Coordinates of one CRS in another; x is the coordinate along a raster's columns, whatever the CRS says of axes.

    Parameters
    ----------
    source, target
        Texts that :func:`crs_wkt` takes.
    what
        What is to be placed, for the error: an option, a file.

    Raises
    ------
    InputError
        If there is no way from one to the other: one is of another body, or has no place on the Earth.

    Examples
    --------
    >>> x, y = CrsTransform("EPSG:4326", "EPSG:3857")(np.array([0.0]), np.array([0.0]))
    >>> [round(float(each[0]), 3) + 0 for each in (x, y)]
    [0.0, 0.0]
    """

    def __init__(self, source: str, target: str, *, what: str = "CRS") -> None:
        import pyproj
        from pyproj.exceptions import ProjError

        self._words = f"{what}: no way from {_named(source)} to {_named(target)}"
        ends = _parsed(source), _parsed(target)
        # PROJ passes the coordinates of these on as if they were places.
        for text, crs in zip((source, target), ends, strict=True):
            if crs.is_geocentric or (crs.is_vertical and not crs.is_compound):
                raise InputError(f"{self._words}: {_named(text)} is no CRS of a map")
        try:
            self._transformer = pyproj.Transformer.from_crs(*ends, always_xy=True)
            self(np.zeros(1), np.zeros(1))
        except ProjError as error:
            raise InputError(f"{self._words}: {_words(error)}") from error

    def __call__(
        self, x: NDArray[np.float64], y: NDArray[np.float64], *, is_inverse: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``x`` and ``y`` in the target, or the target's in the source; infinite where there is no place."""
        from pyproj.exceptions import ProjError

        try:
            moved_x, moved_y = self._transformer.transform(x, y, direction="INVERSE" if is_inverse else "FORWARD")
        except ProjError as error:
            raise InputError(f"{self._words}: {_words(error)}") from error
        return np.asarray(moved_x, np.float64), np.asarray(moved_y, np.float64)


@lru_cache(maxsize=64)
def _parsed(text: str) -> pyproj.CRS:
    import pyproj
    from pyproj.exceptions import CRSError

    if len(text) > MAX_TEXT_CHARS:
        raise InputError(f"CRS: a text of {len(text):,} characters, allowed are {MAX_TEXT_CHARS:,}")
    text = _plain_json(text)
    check_crs_text(text)
    try:
        # pyproj tells on stderr that +init will go; what it means is known until then.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return pyproj.CRS.from_user_input(text)
    except CRSError as error:
        raise InputError(
            f"CRS: {_quoted(text)} can't be parsed; give AUTHORITY:CODE (EPSG:32633), WKT or a PROJ string"
        ) from error


def _words(error: Exception) -> str:
    """What PROJ says, without the words that pyproj puts before it."""
    text = " ".join(str(error).split())
    found = re.search(r"\((?:Internal Proj Error: )?(.*)\)$", text)
    if found is None:
        return "PROJ knows none" if text.startswith("Error creating Transformer") else text.rstrip(".")
    return found[1].removeprefix("proj_create_operations: ").partition(". You may override")[0]


def _named(text: str) -> str:
    """The CRS in few words: its code, or the name in its WKT."""
    found = re.match(r'\s*\w+\s*\[\s*"([^"]*)"', text)
    return _quoted(found[1]) if found else text if _CODE.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= QUOTE_CHARS else text[:QUOTE_CHARS] + "…")


def _plain_json(text: str) -> str:
    """PROJJSON without escapes and repeated keys, in which no value is a file; other texts as they are."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(found, dict):
        return text
    parts: list[Any] = [found]
    for part in parts:  # it grows
        if isinstance(part, dict):
            # Words of PROJ, which pyproj makes a PROJ string of; and a grid file of PROJJSON.
            for key, value in part.items():
                words = ",".join(map(str, value)) if isinstance(value, list) else value
                if isinstance(words, str):
                    check_crs_text(f"{'file' if key == 'value' else key}={words}", is_whole=False)
            parts += part.values()
        elif isinstance(part, list):
            parts += part
        elif isinstance(part, str):
            check_crs_text(part, is_whole=False)
    return json.dumps(found)


def _equal(one: pyproj.CRS, other: pyproj.CRS) -> bool:
    """Whether both are one CRS, but for the order of their axes."""
    if _differ_in_size(one, other):
        return False
    if one.equals(other, ignore_axis_order=True):
        return True
    # pyproj ignores the order of geographic axes only; WKT 1 often has no axes, and EPSG:2193 has northing first.
    if sorted(axis.direction for axis in one.axis_info) != sorted(axis.direction for axis in other.axis_info):
        return False
    plain = _without_axes(one), _without_axes(other)
    return None not in plain and bool(plain[0] == plain[1])


def _differ_in_size(one: pyproj.CRS, other: pyproj.CRS) -> bool:
    """Whether the ellipsoids alone tell two CRSs apart: 1000 times cheaper than comparing all, and the codes of the
    planets' maps are hundreds of candidates for any sphere."""
    if one.ellipsoid is None or other.ellipsoid is None:
        return False
    radius, its = one.ellipsoid.semi_major_metre, other.ellipsoid.semi_major_metre
    return bool(abs(radius - its) > ROUGH * max(radius, its))


# A CRS is hashed by its whole WKT, so these two are remembered by text.
@lru_cache(maxsize=64)
def _without_axes(crs: pyproj.CRS) -> pyproj.CRS | None:
    """``crs`` as WKT 1 without axes tells it; None if that has no form for it."""
    import pyproj
    from pyproj.exceptions import CRSError

    try:
        return pyproj.CRS.from_wkt(crs.to_wkt("WKT1_GDAL", output_axis_rule=False))
    except CRSError:
        return None


@lru_cache(maxsize=64)
def _code(crs: pyproj.CRS) -> str:
    """``AUTHORITY:CODE`` whose definition equals ``crs``, its own code first; the empty string if there is
    none."""
    import pyproj
    from pyproj.exceptions import CRSError

    own = crs.to_json_dict().get("id", {})
    candidates = [(str(own["authority"]), str(own["code"]))] if own else []
    for authority in AUTHORITIES:
        # The confidence only ranks candidates, the comparison decides. 20 lets WKT 1, which has no room for a
        # datum's ensemble or a range of use, find its code.
        candidates += [(found.auth_name, found.code) for found in crs.list_authority(authority, min_confidence=20)]
        for name, code in candidates:
            try:
                if name in AUTHORITIES and _equal(pyproj.CRS.from_authority(name, code), crs):
                    return f"{name}:{code}"
            except CRSError:
                continue  # a code that the WKT claims and pyproj's database doesn't know
        candidates = []
    return ""


def _wkt(crs: pyproj.CRS) -> str:
    """WKT 1 as GDAL writes it if that keeps all of ``crs``, its code included, else WKT 2."""
    import pyproj
    from pyproj.enums import WktVersion
    from pyproj.exceptions import CRSError

    try:
        short: str = crs.to_wkt(WktVersion.WKT1_GDAL)
        again = pyproj.CRS.from_wkt(short)
        if again == crs and _code(again) == _code(crs):
            return short
    except CRSError:
        pass  # WKT 1 has no form for it (an engineering CRS of WKT 2, a derived one)
    return str(crs.to_wkt(WktVersion.WKT2_2019))
