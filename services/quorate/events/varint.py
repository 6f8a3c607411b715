"""Zigzag variable-length integers, as Avro and Kafka's record format share them.

Rules: writers raise UsageError beyond their width; readers take the bytes and a position, return (value, next
position), and raise DecodeError, or IndexError at the end of the bytes.

Source: Avro 1.12 specification, "Binary encoding"; Protocol Buffers, "Signed Integers".
"""

from quorate.errors import PeerError, UsageError


class DecodeError(PeerError):
    """The bytes are not what their schema says: truncated, too long, or out of range."""


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


SMALL = tuple(_varint(number * 2) for number in range(2048))
"""The encodings of 0 … 2047: lengths, ids, epochs, counts. A look-up beats the loop six times over."""


def write_long(value: int) -> bytes:
    """Zigzag varint. Raises UsageError beyond 64 bits."""
    if 0 <= value < 2048:
        return SMALL[value]
    if not -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF:
        raise UsageError(f"{value} does not fit a long")
    z = value << 1 ^ value >> 63
    if 0x8_0000_0000 <= z < 0x400_0000_0000:  # Six bytes: epoch milliseconds, the usual large number.
        return bytes(
            (z & 127 | 128, z >> 7 & 127 | 128, z >> 14 & 127 | 128, z >> 21 & 127 | 128, z >> 28 & 127 | 128, z >> 35)
        )
    return _varint(z)


def write_int(value: int) -> bytes:
    """As a long. Raises UsageError beyond 32 bits."""
    if 0 <= value < 2048:
        return SMALL[value]
    if not -0x8000_0000 <= value <= 0x7FFF_FFFF:
        raise UsageError(f"{value} does not fit an int")
    return _varint(value << 1 ^ value >> 31)


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Zigzag varint of at most 64 bits."""
    byte = data[at]
    at += 1
    if byte < 128:
        return byte >> 1 ^ -(byte & 1), at
    number, shift = byte & 127, 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise DecodeError("a number of more than ten bytes")
    if number > 0xFFFF_FFFF_FFFF_FFFF:
        raise DecodeError("a number beyond 64 bits")
    return number >> 1 ^ -(number & 1), at


def read_int(data: bytes, at: int) -> tuple[int, int]:
    """Zigzag varint of at most 32 bits."""
    value, at = read_long(data, at)
    if not -0x8000_0000 <= value <= 0x7FFF_FFFF:
        raise DecodeError("a number beyond 32 bits")
    return value, at
