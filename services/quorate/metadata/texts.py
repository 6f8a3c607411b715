"""Checks text before it enters the log: bounded and encodable as UTF-8. Reads numbers from text as Java does."""

import re
from ipaddress import IPv6Address
from typing import Final

LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1

_ADDRESS: Final = re.compile(
    r"(?:(?P<host>[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?)|\[(?P<v6>[0-9A-Fa-f:.]+)\]):(?P<port>[0-9]{1,5})"
)
"""A name (RFC 1123, and the underscores of container networks) or an address, and a port; one of IPv6 has brackets, for
of ``1:2:3:80`` nobody can say where the port begins."""
_LONG: Final = re.compile(r"([+-]?)0*([0-9]{1,19})")


def fits(text: str, length_max: int, *, empty: bool = False) -> bool:
    """At most ``length_max`` characters, not empty unless allowed, no lone surrogates (which UTF-8 cannot carry)."""
    if not text:
        return empty
    if len(text) > length_max:
        return False
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def parse_address(text: str) -> tuple[str, int] | None:
    """Host and port of ``host:port`` or ``[v6]:port``; None for what cannot be an address."""
    parts = _ADDRESS.fullmatch(text)
    if parts is None or not 0 < int(parts["port"]) < 65536:
        return None
    if parts["v6"] is not None:
        try:
            IPv6Address(parts["v6"])
        except ValueError:
            return None
    return parts["host"] or parts["v6"], int(parts["port"])


def java_long(text: str) -> int | None:
    """The number that Java's ``Long.parseLong`` reads; None where that throws."""
    parts = _LONG.fullmatch(text)
    if parts is None:
        return None
    value = int(parts[1] + parts[2])
    return value if LONG_MIN <= value <= LONG_MAX else None
