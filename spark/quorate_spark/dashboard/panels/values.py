"""Keys and values, which are any bytes, as the page may show them.

Rules: what is text is shown as text, without what would rearrange it or be seen as nothing (``quorate.terminal``); what
is not is left to the reader, as hexadecimal or base64. A long value is cut, and says so.
"""

import re
from codecs import utf_8_decode
from typing import Final

import msgspec

from quorate.errors import UsageError
from quorate.events import ordered_name, raw_name
from quorate.events.varint import DecodeError
from quorate.terminal import visible

_NO_TEXT: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Control characters but the tab and what ends a line."""


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A value."""

    size: int
    text: str | None
    """Null: it is no text. A hidden character stands in it as its escape."""
    base64: bytes
    """The same bytes."""
    cut: bool
    """Both hold only how it begins."""


def value(data: bytes, most: int) -> Value:
    """A value, or its first bytes."""
    head = data[:most]
    cut = len(head) < len(data)
    return Value(size=len(data), text=_text(head, cut=cut), base64=head, cut=cut)


def _text(data: bytes, *, cut: bool) -> str | None:
    try:
        text, _ = utf_8_decode(data, "strict", not cut)
    except UnicodeDecodeError:
        return None
    if _NO_TEXT.search(text):
        return None
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in text.split("\n"))


def shown(name: bytes) -> str:
    """A key, or the beginning of keys, for eyes: as UTF-8; what is none as the text that the log has."""
    try:
        return visible(name.decode())
    except UnicodeDecodeError:
        return ordered_name(name)


def named(parameter: str, text: str) -> bytes:
    """The bytes of a text that the log has. Raises UsageError."""
    try:
        return raw_name(text)
    except DecodeError as error:
        raise UsageError(f"{parameter}: {str(error)[:200]}") from None
