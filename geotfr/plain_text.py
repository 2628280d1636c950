"""Text that came from files, servers and libraries, made fit to be printed, and kept free of secrets."""

from __future__ import annotations

import os
import re

__all__ = ["printable", "printable_report", "redact", "without_query"]

# Controls (C0, C1), what reorders or hides text, separators of lines, and bytes that were no UTF-8. Joiners stay: names
# in some scripts need them.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
# One slash is left where pathlib took an address for a path.
_USER = re.compile(r"([a-z0-9]{2}:/{1,2})[^/\s@?#'\"<>]+@")
_QUERY = re.compile(r"((?:[a-z0-9]{2}:/{1,2}|/vsi)[^\s?'\"<>]*\?)[^\s'\"<>)\]]+")
_SIGNED = re.compile(
    r"\b((?:sig|signature|x-(?:amz|goog)-[a-z-]+|awsaccesskeyid|googleaccessid|access_token|accountkey"
    r"|sharedaccesssignature|password|passwd|secret|token|api_?key)=)[^\s&;,'\"<>)\]]+",
    re.IGNORECASE,
)
_SECRET_NAMES = re.compile(r"(AWS|AZURE|GOOGLE|GS|GDAL_HTTP)_\w*(SECRET|TOKEN|KEY|PASS|SAS|USERPWD|CONNECTION|BEARER)")
_LEAST_SECRET = 8


def printable(text: str, *, keeps_lines: bool = False, as_json: bool = False) -> str:
    r"""``text`` with every character that a terminal or a reader may take for something else as an escape.

    Parameters
    ----------
    keeps_lines
        Leave line feeds as they are.
    as_json
        Write escapes as JSON does: of the text of a JSON document, the content stays the same. Line feeds are kept.

    Examples
    --------
    >>> printable("band\x1b[31m\n1"), printable("1\n2", keeps_lines=True)
    ('band\\x1b[31m\\n1', '1\n2')
    """

    def escape(found: re.Match[str]) -> str:
        char = found[0]
        if char == "\n" and (keeps_lines or as_json):
            return char
        if as_json:
            units = char.encode("utf-16-be", errors="surrogatepass")
            return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
        code = ord(char)
        if 0xDC80 <= code <= 0xDCFF:
            return f"\\x{code - 0xDC00:02x}"
        return char.encode("unicode_escape", errors="surrogatepass").decode() if code < 0xD800 else f"\\u{code:04x}"

    return _UNPRINTABLE.sub(escape, text)


def printable_report(text: str, document: object) -> str:
    r"""The ``text`` of a report, of which ``document`` is the JSON: line feeds within its names are escapes, too.

    >>> printable_report("band  a\nb\nrows  3", {"bands": ["a\nb"], "rows": 3})
    'band  a\\nb\nrows  3'
    """
    waiting = [document]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            waiting += [*found, *found.values()]
        elif isinstance(found, list | tuple):
            waiting += found
        elif isinstance(found, str) and "\n" in found.strip("\n"):
            text = text.replace(found, printable(found))
    return printable(text, keeps_lines=True)


def redact(text: str) -> str:
    """``text`` without users, passwords and queries of addresses, signatures, and secrets of the environment.

    >>> redact("https://me:pw@example.org/x.tif?sig=abc: can't be fetched")
    "https://***@example.org/x.tif?***: can't be fetched"
    """
    for name, value in os.environ.items():
        if len(value) >= _LEAST_SECRET and value in text and _SECRET_NAMES.fullmatch(name):
            text = text.replace(value, "***")
    if ":/" in text or "/vsi" in text:
        text = _QUERY.sub(_hidden_query, _USER.sub(r"\1***@", text))
    return _SIGNED.sub(r"\1***", text) if "=" in text else text


def _hidden_query(found: re.Match[str]) -> str:
    # The colon or comma behind an address belongs to the sentence.
    rest = found[0][len(found[1]) :]
    return f"{found[1]}***{rest[len(rest.rstrip('.,:;')) :]}"


def without_query(path: str) -> str:
    """An address without user, query and fragment; the name of a file as it is.

    >>> without_query("https://me:pw@example.org/x.tif?sig=abc"), without_query("what?.tif")
    ('https://example.org/x.tif', 'what?.tif')
    """
    if "://" not in path:
        return path
    return re.sub(r"[?#].*", "", re.sub(r"://[^/@]*@", "://", path, count=1), flags=re.DOTALL)
