"""TLS on a port that has none: how it looks, and the protocol's own refusal of it.

A client that is set up for TLS would otherwise wait for its timeout, or try again for ever, and tell nobody why.
Source: RFC 8446, sections 5.1 (record layer) and 6.2 (fatal alerts are understood before any key is agreed on).
"""

from typing import Final

_HANDSHAKE = 22
_MAJOR_VERSION = 3

REFUSAL: Final = bytes((21, 3, 1, 0, 2, 2, 40))
"""A record with one alert: fatal, ``handshake_failure``."""


def is_client_hello(begun: bytes | bytearray) -> bool:
    """Do these first bytes of a connection begin a TLS handshake?

    As a length, which Kafka and remoting begin with, they would be more than 369 million; no HTTP method has them.
    """
    return len(begun) >= 3 and begun[0] == _HANDSHAKE and begun[1] == _MAJOR_VERSION and begun[2] <= 4
