"""What Earth Engine's client takes of an asset: its name, times, properties and pyramiding policies.

**Source**: the client (``earthengine-api``), whose rules for flags these are, and Earth Engine's guide to the image
manifest. A test holds them against the client.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from numbers import Integral, Real
from typing import TYPE_CHECKING

from geotfr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PropertyValue", "asset_name", "asset_properties", "asset_time", "check_policy"]

PropertyValue = str | float | None

_PROJECT = r"(?:\w+(?:[\w\-]+\.[\w\-]+)*?\.\w+:)?[a-z][a-z0-9\-]{4,28}[a-z0-9]"
_ASSET = re.compile(rf"projects/{_PROJECT}/assets(/[A-Za-z0-9_-]+)+")
_PROJECT_ALONE = re.compile(rf"projects/(?:{_PROJECT}|[^/]+)/assets/?")
_OLDER_ID = re.compile(r"(users|projects)/[A-Za-z0-9_.:-]+(/[A-Za-z0-9_-]+)+")
_OLDER = "projects/earthengine-legacy/assets/"

_POLICIES = ("mean", "median", "sample", "min", "max", "mode")
_OF_THE_GUIDE = ("mean", "mode", "sample")

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}(:\d{2}(:\d{2}([.,]\d{1,6}0*)?)?)?([Zz]|[+-]\d{2}:?\d{2})?)?")
_DATE_FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f")
_PROPERTY = re.compile(r"(?:\((?P<type>[^)]*)\))?(?P<name>[^=]+)=(?P<value>.*)", re.DOTALL)
_PLAIN_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def asset_name(name: str, warnings: list[str]) -> str:
    """The asset's name as manifests have it; IDs of older assets get the project that the client puts before them.

    Raises
    ------
    UsageError
        ``name`` is no asset's.

    Examples
    --------
    >>> asset_name("users/me/map", [])
    'projects/earthengine-legacy/assets/users/me/map'
    """
    if _ASSET.fullmatch(name):
        return name
    if _PROJECT_ALONE.fullmatch(name) or not _OLDER_ID.fullmatch(name):
        raise UsageError(
            f"name: {name!r} is no asset; allowed is projects/PROJECT/assets/NAME with letters, digits, - and _, where"
            " PROJECT has 6 to 30 small letters, digits and -"
        )
    older = _OLDER + name
    if re.match("projects/[^/]+/assets/", name):
        warnings.append(
            f"name: {name.split('/')[1]!r} is no Cloud project (6 to 30 small letters, digits and -), so Earth Engine's"
            f" client takes {name} for an older asset: {older}"
        )
    return older


def asset_time(option: str, text: str) -> datetime:
    """The time, in UTC, that an ISO date or time tells, which is UTC unless it says otherwise.

    Raises
    ------
    UsageError
        It is none, or is finer than a microsecond.
    """
    try:
        if not _TIME.fullmatch(text):
            raise ValueError
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{option}: found {text!r}; allowed is an ISO date or time with up to 6 decimals, as 2024-06-01T10:30:00.5Z"
        ) from error


def check_policy(policy: object, warnings: list[str]) -> str:
    """The pyramiding policy as manifests have it; one that Earth Engine's guide doesn't list is told.

    Raises
    ------
    UsageError
        The client doesn't know it.
    """
    name = str(policy).strip().lower()
    if name not in _POLICIES:
        raise UsageError(f"pyramiding_policy: found {policy!r}; allowed are {', '.join(_POLICIES)}")
    if name not in _OF_THE_GUIDE:
        _tell_once(
            warnings,
            f"pyramiding_policy: Earth Engine's client takes {name}, its guide to manifests lists"
            f" {', '.join(_OF_THE_GUIDE)} alone",
        )
    return name.upper()


def asset_properties(
    given: Mapping[str, PropertyValue] | Iterable[str], warnings: list[str]
) -> dict[str, PropertyValue]:
    """The properties that values by name are, or texts in the client's form, ``[(string|number|date)]NAME=VALUE``.

    Raises
    ------
    UsageError
        A text of another form, a type or value that properties can't have, or a name given twice.

    Examples
    --------
    >>> asset_properties(["run=7", "(string)tile=007", "(date)made=2024-01-01", "note=null"], [])
    {'run': 7, 'tile': '007', 'made': 1704067200000, 'note': None}
    """
    found: dict[str, PropertyValue] = {}
    if isinstance(given, Mapping):
        for name, value in given.items():
            found[_property_name(name, repr(name))] = _property_value(name, value)
    else:
        for text in given:
            name, value = _property_of_text(text, warnings)
            if name in found:
                raise UsageError(f"property: {name!r} is given twice; give it once")
            found[name] = value
    for name in ("system:time_start", "system:time_end"):
        if name in found:
            flag = f"{name.rpartition('_')[2]}_time"
            warnings.append(
                f"property: {name} is the older form of a time of the asset; give --{flag.replace('_', '-')}"
                f" (in Python {flag})"
            )
    return found


def _property_of_text(text: str, warnings: list[str]) -> tuple[str, PropertyValue]:
    found = _PROPERTY.fullmatch(text)
    if found is None:
        raise UsageError(f"property: {text!r} has no name and value; allowed is NAME=VALUE or (TYPE)NAME=VALUE")
    kind, value = found["type"], found["value"]
    name = _property_name(found["name"], repr(text))
    if kind not in (None, "string", "number", "date"):
        raise UsageError(f"property: {text!r} has the type {kind!r}; allowed are string, number and date")
    if kind == "string":
        return name, value
    if value == "null":
        return name, None
    if kind == "date":
        return name, _milliseconds(name, value)
    try:
        number = float(value)
    except ValueError as error:
        if kind == "number":
            raise UsageError(f"property: {text!r} is no number; give (string){name}=… for a text") from error
        return name, value
    if not math.isfinite(number):
        if kind == "number":
            raise UsageError(f"property: {text!r}: a property can't be {value}; give (string){name}=… for the text")
        warnings.append(f"property: {name} is the text {value!r}, for a property can't be that number")
        return name, value
    whole = int(number) if number.is_integer() and abs(number) < 2**53 else number
    if kind is None and (not _PLAIN_NUMBER.fullmatch(value) or _is_rounded(value, number)):
        warnings.append(
            f"property: {name}={value} is read as the number {whole!r}, as by Earth Engine's client; (string){name}=…"
            " keeps the text"
        )
    return name, whole


def _property_name(name: str, where: str) -> str:
    if not isinstance(name, str) or not name or name.startswith("("):
        raise UsageError(f"property: {where} has no name; allowed is NAME=VALUE or (TYPE)NAME=VALUE")
    return name


def _property_value(name: str, value: object) -> PropertyValue:
    """The value, if properties can have it: text, finite numbers and None."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number) and number == value:
            return int(value) if isinstance(value, Integral) else number
    raise UsageError(
        f"property: {name}: found {value!r}; allowed are texts, None and finite numbers that a double holds exactly"
    )


def _is_rounded(text: str, number: float) -> bool:
    """Whether ``text`` is a whole number that a double can't hold."""
    return text.strip("+-").isdecimal() and int(text) != number


def _milliseconds(name: str, text: str) -> int | str:
    """Milliseconds since 1970 of a date in the client's forms, or of a count of them; an empty text stays one."""
    if not text:
        return text
    try:
        return int(text)
    except ValueError:
        pass
    for form in _DATE_FORMATS:
        try:
            time = datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return int(time.replace(microsecond=0).timestamp()) * 1000 + time.microsecond // 1000
    raise UsageError(
        f"property: (date){name}={text} is no date; allowed are YYYY-MM-DD, YYYY-MM-DDTHH:MM:SS and the same with"
        " decimals, or milliseconds since 1970"
    )


def _tell_once(warnings: list[str], text: str) -> None:
    if text not in warnings:
        warnings.append(text)
