"""Names that are any bytes, as text for keys: readable, and in the same order.

Rules: bytes from ``&`` to ``}`` stand for themselves (letters, digits, ``/ . - _ : ;`` and others), a lower one is
``%`` and two hexadecimal digits, a higher one ``~`` and two. ``%`` comes before all that stand for themselves, ``~``
after them, so texts and names are in one order, the order of the rows of a store, and the text of a prefix is a prefix
of the text. One name has one text.
"""

import re
from typing import Final

from quorate.events.varint import DecodeError

_ODD: Final = re.compile(rb"[^&-}]")
_ESCAPE: Final = re.compile(rb"[%~]([0-9A-F]{2})")
_ESCAPES: Final = {bytes((byte,)): b"%c%02X" % (b"%" if byte < 0x26 else b"~", byte) for byte in range(256)}
_BYTES: Final = {b"%02X" % byte: bytes((byte,)) for byte in range(256)}


def ordered_name(name: bytes) -> str:
    """The text of a name."""
    return _ODD.sub(lambda odd: _ESCAPES[odd[0]], name).decode("ascii")


def raw_name(text: str) -> bytes:
    """The name of a text. Raises DecodeError for what is the text of none."""
    name = _ESCAPE.sub(lambda escape: _BYTES[escape[1]], text.encode("ascii", "replace"))
    if ordered_name(name) != text:
        raise DecodeError(f"{text!r} is the text of no name")
    return name
