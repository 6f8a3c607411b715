"""Names that are any bytes, as text for keys: readable, and in the same order.

Rules: bytes from ``&`` to ``}`` stand for themselves (letters, digits, ``/ . - _ : ;`` and others), a lower one is
``%`` and two hexadecimal digits, a higher one ``~`` and two. ``%`` comes before all that stand for themselves, ``~``
after them, so texts and names are in one order, the order of the rows of a store, and the text of a prefix is a prefix
of the text. One name has one text.
"""

import re
from binascii import a2b_qp
from typing import Final

from quorate.events.varint import DecodeError

_ODD: Final = re.compile(rb"[^&-}][^&-}]*")
_SIGNS: Final = bytes(ord("%" if byte < 0x26 else "~") for byte in range(256))
_QUOTED: Final = bytes.maketrans(b"%~", b"==")


def ordered_name(name: bytes) -> str:
    """The text of a name."""
    return _ODD.sub(_escaped, name).decode("ascii")


def raw_name(text: str) -> bytes:
    """The name of a text. Raises DecodeError for what is the text of none."""
    # With another sign it is what C knows as quoted-printable. Read too generously it is not the text of what is read.
    name = a2b_qp(text.encode("ascii", "replace").replace(b"=", b"=3D").translate(_QUOTED))
    if ordered_name(name) != text:
        raise DecodeError(f"{text!r} is the text of no name")
    return name


def _escaped(odd: re.Match[bytes]) -> bytes:
    """Without a step of Python for each byte: a name may have a megabyte of them."""
    run = odd[0]
    digits = run.hex().upper().encode("ascii")
    text = bytearray(3 * len(run))
    text[::3], text[1::3], text[2::3] = run.translate(_SIGNS), digits[::2], digits[1::2]
    return bytes(text)
