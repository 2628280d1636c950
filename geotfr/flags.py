"""Booleans of the public functions: a text or a number that Python takes for true is refused."""

from __future__ import annotations

import functools
import inspect
import numbers
import re
from typing import TYPE_CHECKING, Any, TypeVar

from geotfr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["check_flag", "checked_flags", "checks_flags"]

_Public = TypeVar("_Public", bound="Callable[..., Any]")


def check_flag(name: str, value: Any) -> bool:
    """``value``, a boolean of Python or numpy.

    Raises
    ------
    UsageError
        It is anything else: ``"no"`` and ``"false"`` are true to Python.
    """
    if isinstance(value, bool):
        return value
    # numpy isn't imported for this: nothing else has this type's name and converts without loss.
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise UsageError(f"{name}: found {value!r}; allowed are True and False")


def checks_flags(public: _Public) -> _Public:
    """Have a function, or a class when it is made, refuse what is no boolean where its signature says ``bool``.

    A parameter that takes None, text or an object beside a boolean keeps these; numbers are refused there too.

    Examples
    --------
    >>> @checks_flags
    ... def write(*, overwrite: bool = False) -> bool:
    ...     return overwrite
    >>> write(overwrite="no")
    Traceback (most recent call last):
        ...
    geotfr.errors.UsageError: overwrite: found 'no'; allowed are True and False
    """
    made = public.__init__ if inspect.isclass(public) else public
    parameters = inspect.signature(made).parameters
    others = _others({name: parameter.annotation for name, parameter in parameters.items()})
    places = {name: place for place, name in enumerate(parameters)}

    @functools.wraps(made)
    def checked(*args: Any, **keywords: Any) -> Any:
        for name, more in others.items():
            if name in keywords:
                keywords[name] = _checked(name, keywords[name], more)
            elif places[name] < len(args):
                place = places[name]
                args = (*args[:place], _checked(name, args[place], more), *args[place + 1 :])
        return made(*args, **keywords)

    if inspect.isclass(public):
        setattr(public, "__init__", checked)  # noqa: B010  (mypy knows no assignment to it)
        return public
    return checked  # type: ignore[return-value]  # the same parameters


def checked_flags(keywords: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """``given`` with its booleans checked: those of the TypedDict ``keywords``, as :func:`checks_flags` does."""
    others = _others({name: getattr(each, "__forward_arg__", each) for name, each in keywords.__annotations__.items()})
    return {name: _checked(name, value, others[name]) if name in others else value for name, value in given.items()}


def _others(annotations: Mapping[str, Any]) -> dict[str, set[str]]:
    """What parameters that take a boolean take beside it, as they are annotated."""
    found = {name: set(re.split(r"\s*\|\s*", str(annotation))) for name, annotation in annotations.items()}
    return {name: parts - {"bool"} for name, parts in found.items() if "bool" in parts}


def _checked(name: str, value: Any, more: set[str]) -> Any:
    """``value`` of a parameter that takes what is annotated as ``more`` beside a boolean."""
    if isinstance(value, bool):
        return value
    is_text = isinstance(value, str)
    if (value is None and "None" in more) or (is_text and "str" in more):
        return value
    if more - {"None", "str"} and not is_text and not isinstance(value, numbers.Number):
        return value
    return check_flag(name, value)
