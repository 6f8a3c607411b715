"""What text may enter the log: bounded, and encodable as UTF-8; and the numbers that Java reads from text."""

import re
from typing import Final

LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1

_LONG: Final = re.compile(r"([+-]?)0*([0-9]{1,19})")


def fits(text: str, length_max: int, *, empty: bool = False) -> bool:
    """At most ``length_max`` characters, not empty unless allowed, no lone surrogates (which UTF-8 cannot carry)."""
    if not text:
        return empty
    if len(text) > length_max:
        return False
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def java_long(text: str) -> int | None:
    """What Java's ``Long.parseLong`` makes of it; None where that throws."""
    parts = _LONG.fullmatch(text)
    if parts is None:
        return None
    value = int(parts[1] + parts[2])
    return value if LONG_MIN <= value <= LONG_MAX else None
