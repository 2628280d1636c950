"""Conditions on columns, as ``class in ('water', 'forest') and valid_share >= 0.9``: text that is parsed, never run.

    any        := all ("or" all)*
    all        := one ("and" one)*
    one        := "not" one | "(" any ")" | test
    test       := value [comparison value | ["not"] "in" "(" constant ("," constant)* ")"
                  | ["not"] "between" value "and" value | ["not"] ("like" | "ilike") text | "is" ["not"] "null"]
    comparison := "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">="
    value      := constant | column
    constant   := number | 'text' | "true" | "false"
    column     := name | "name with blanks"

Words count in any case, names of columns as they are written. As in SQL, a test of a null is neither true nor false,
and only rows for which the whole is true are taken. :mod:`geotfr.vectors.condition` makes it an expression of pyarrow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from geotfr.errors import LimitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Between",
    "Column",
    "Comparison",
    "Constant",
    "Expression",
    "IsIn",
    "IsLike",
    "IsNull",
    "Node",
    "Not",
    "Several",
    "parse_expression",
]

MOST_CHARACTERS = 1 << 16
MOST_NESTED = 64
"""Parentheses and ``not`` within one another; the parser and pyarrow take a step of the stack for each."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))"
    r"|(?P<text>'(?:[^']|'')*')"
    r'|(?P<quoted>"(?:[^"]|"")+")'
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<sign><=|>=|<>|!=|==|[=<>(),]))"
)
_WORDS = frozenset({"and", "or", "not", "in", "is", "null", "between", "like", "ilike", "true", "false"})
_SIGNS: dict[str, Operator] = {"==": "=", "<>": "!=", "=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}

if TYPE_CHECKING:
    Operator = Literal["=", "!=", "<", "<=", ">", ">="]
    Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column by its name; ``at`` is the place of its first character, from 1, as in all nodes."""

    name: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A number, a text or a boolean."""

    value: Scalar
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two values compared."""

    operator: Operator
    left: Column | Constant
    right: Column | Constant
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsIn:
    """A value that is one of several constants."""

    value: Column | Constant
    allowed: tuple[Constant, ...]
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """A value from ``low`` to ``high``, both included."""

    value: Column | Constant
    low: Column | Constant
    high: Column | Constant
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsLike:
    """Text of a pattern: ``%`` is any text, ``_`` one character; ``\\`` takes the next character as it is."""

    value: Column | Constant
    pattern: str
    ignores_case: bool
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """A value that is missing; NaN is a value."""

    value: Column | Constant
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """The contrary."""

    part: Node
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    """All of the parts, or any of them."""

    join: Literal["and", "or"]
    parts: tuple[Node, ...]
    at: int


if TYPE_CHECKING:
    Node = Column | Constant | Comparison | IsIn | Between | IsLike | IsNull | Not | Several
else:
    Node = object


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A condition that parsed.

    Attributes
    ----------
    text
        As it was written.
    option
        The option that gave it, for errors.
    root
        What it says.
    """

    text: str
    option: str
    root: Node

    def columns(self) -> tuple[str, ...]:
        """Names of the columns that it asks for, each once, in order."""
        return tuple(dict.fromkeys(node.name for node in _walk(self.root) if isinstance(node, Column)))

    def problem(self, what: str, at: int) -> str:
        """The line of an error at character ``at``."""
        return _problem(self.option, self.text, what, at)


def parse_expression(text: str, *, option: str = "--where") -> Expression:
    """The condition ``text``.

    Raises
    ------
    UsageError
        Text that isn't a condition; tells the place.
    LimitError
        A text that is too long.

    Examples
    --------
    >>> parse_expression("valid_share >= 0.9 and class is not null").columns()
    ('valid_share', 'class')
    >>> parse_expression("class = ")
    Traceback (most recent call last):
    geotfr.errors.UsageError: --where 'class =': character 9: a number, a text or a column is missing
    """
    if len(text) > MOST_CHARACTERS:
        raise LimitError(f"{option}: {len(text):,} characters; at most {MOST_CHARACTERS:,} are taken")
    parser = _Parser(text, option)
    root = parser.any(0)
    parser.end()
    return Expression(text=text, option=option, root=root)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """The word in small letters if it is one of the language's, else nothing."""
        folded = self.text.lower()
        return folded if self.kind == "word" and folded in _WORDS else ""


class _Parser:
    """One method for each line of the grammar; ``depth`` counts what is nested."""

    def __init__(self, text: str, option: str) -> None:
        self._text = text
        self._option = option
        self._tokens = list(self._split())
        self._place = 0

    def any(self, depth: int) -> Node:
        return self._joined("or", depth)

    def end(self) -> None:
        if self._next.kind != "end":
            raise self._error(f"{self._next.text!r} is too much; join conditions with and, or", self._next)

    def _split(self) -> Iterator[_Token]:
        place, end = 0, len(self._text.rstrip())
        while place < end:
            found = _TOKEN.match(self._text, place)
            if found is None:
                at = place + len(self._text[place:]) - len(self._text[place:].lstrip())
                raise UsageError(_problem(self._option, self._text, _stray(self._text[at]), at + 1))
            place = found.end()
            kind = str(found.lastgroup)
            yield _Token(kind, found[kind], found.start(kind) + 1)
        yield _Token("end", "", end + 2 if end else 1)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self, *wanted: str) -> _Token | None:
        """The next token if it is one of the words or signs ``wanted``."""
        token = self._next
        if token.word not in wanted and not (token.kind == "sign" and token.text in wanted):
            return None
        self._place += 1
        return token

    def _need(self, wanted: str, why: str) -> _Token:
        token = self._take(wanted)
        if token is None:
            raise self._error(f"{wanted!r} is missing {why}", self._next)
        return token

    def _error(self, what: str, token: _Token) -> UsageError:
        return UsageError(_problem(self._option, self._text, what, token.at))

    def _joined(self, join: Literal["and", "or"], depth: int) -> Node:
        at = self._next.at
        part = self._one if join == "and" else self._all
        parts = [part(depth)]
        while self._take(join):
            parts.append(part(depth))
        return parts[0] if len(parts) == 1 else Several(join=join, parts=tuple(parts), at=at)

    def _all(self, depth: int) -> Node:
        return self._joined("and", depth)

    def _one(self, depth: int) -> Node:
        if depth > MOST_NESTED:
            raise self._error(f"more than {MOST_NESTED} conditions within one another", self._next)
        token = self._take("not", "(")
        if token is None:
            return self._test()
        if token.word == "not":
            return Not(part=self._one(depth + 1), at=token.at)
        inner = self.any(depth + 1)
        self._need(")", f"for the parenthesis at character {token.at}")
        return inner

    def _test(self) -> Node:
        value = self._value()
        token = self._next
        if token.kind == "sign" and token.text in _SIGNS:
            self._place += 1
            return Comparison(operator=_SIGNS[token.text], left=value, right=self._value(), at=token.at)
        if self._take("is"):
            is_not = self._take("not")
            self._need("null", "after is")
            found = IsNull(value=value, at=token.at)
            return Not(part=found, at=token.at) if is_not else found
        is_not = self._take("not")
        test = self._named_test(value)
        if test is None and is_not:
            raise self._error("in, between or like is missing after not", self._next)
        if test is None:
            return value
        return Not(part=test, at=token.at) if is_not else test

    def _named_test(self, value: Column | Constant) -> Node | None:
        token = self._take("in", "between", "like", "ilike")
        if token is None:
            return None
        if token.word == "in":
            self._need("(", "after in")
            allowed = [self._constant()]
            while self._take(","):
                allowed.append(self._constant())
            self._need(")", "at the end of the list")
            return IsIn(value=value, allowed=tuple(allowed), at=token.at)
        if token.word == "between":
            low = self._value()
            self._need("and", "between the two bounds")
            return Between(value=value, low=low, high=self._value(), at=token.at)
        pattern = self._constant()
        if not isinstance(pattern.value, str):
            raise UsageError(_problem(self._option, self._text, f"{token.word} needs a 'text'", pattern.at))
        return IsLike(value=value, pattern=pattern.value, ignores_case=token.word == "ilike", at=token.at)

    def _constant(self) -> Constant:
        value = self._value()
        if isinstance(value, Column):
            raise UsageError(
                _problem(self._option, self._text, f"a 'text' or a number is allowed, found {value.name}", value.at)
            )
        return value

    def _value(self) -> Column | Constant:
        token = self._next
        if token.kind == "end":
            raise self._error("a number, a text or a column is missing", token)
        if token.word in ("true", "false"):
            found: Column | Constant = Constant(value=token.word == "true", at=token.at)
        elif token.word == "null":
            raise self._error("null is tested with is null, is not null", token)
        elif token.word or token.kind == "sign":
            raise self._error(f"a number, a text or a column is missing, found {token.text!r}", token)
        elif token.kind == "number":
            found = Constant(value=_number(token.text), at=token.at)
        elif token.kind == "text":
            found = Constant(value=token.text[1:-1].replace("''", "'"), at=token.at)
        else:
            name = token.text[1:-1].replace('""', '"') if token.kind == "quoted" else token.text
            found = Column(name=name, at=token.at)
        self._place += 1
        return found


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("+-").isdecimal() else float(text)


def _stray(character: str) -> str:
    if character in "'\"":
        return f"the {character} has no end"
    return f"{character!r} is none of the language; text stands in 'quotes', odd names of columns in \"quotes\""


def _problem(option: str, text: str, what: str, at: int) -> str:
    shown = " ".join(text.split())
    return f"{option} {shown if len(shown) <= 80 else shown[:77] + '...'!r}: character {at}: {what}"


def _walk(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Several):
        for part in node.parts:
            yield from _walk(part)
    elif isinstance(node, Not):
        yield from _walk(node.part)
    elif isinstance(node, Comparison):
        yield from (node.left, node.right)
    elif isinstance(node, Between):
        yield from (node.value, node.low, node.high)
    elif isinstance(node, IsIn | IsLike | IsNull):
        yield node.value
