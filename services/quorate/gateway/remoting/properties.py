"""Java properties text: what 1009 carries, and what 1010 and a controller's property file are written in.

Source: Java ``MixAll.string2Properties`` (``java.util.Properties.load``), ``Configuration.getAllConfigsFormatString``.
"""

import re
from collections.abc import Mapping
from typing import cast

from quorate.errors import UsageError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACE = " \t\f"
_KEY = re.compile(r"(?:[^=: \t\f\\]++|\\.)*+\\?", re.DOTALL)
"""All before a sign that is not escaped; a last backslash escapes nothing."""
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def parse(text: str) -> dict[str, str]:
    """Keys and values; comments, continued lines, escapes as in Java. Raises UsageError for a bad unicode escape."""
    pairs: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        pairs[_unescape(key)] = _unescape(value)
    return pairs


def render(pairs: Mapping[str, str]) -> str:
    """``key=value`` lines sorted by key, as Java formats its configuration for 1010 (no escapes)."""
    return "".join(f"{key}={pairs[key]}\n" for key in sorted(pairs))


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    continued = ""
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural.lstrip(_SPACE)
        if not continued and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            continued += line[:-1]
        else:
            lines.append(continued + line)
            continued = ""
    if continued:
        lines.append(continued)
    return lines


def _split(line: str) -> tuple[str, str]:
    """At the first ``=``, ``:`` or white space that is not escaped; white space around the sign goes."""
    at = cast(re.Match[str], _KEY.match(line)).end()
    key, rest = line[:at], line[at:].lstrip(_SPACE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_SPACE)
    return key, rest


def _unescape(text: str) -> str:
    return _ESCAPED.sub(_meant, text) if "\\" in text else text


def _meant(escaped: re.Match[str]) -> str:
    """Raises UsageError."""
    char, digits = escaped[0][1], escaped[1]
    if char != "u":
        return _ESCAPES.get(char, char)
    if digits is None:
        raise UsageError("malformed \\uxxxx encoding")
    return chr(int(digits, 16))
