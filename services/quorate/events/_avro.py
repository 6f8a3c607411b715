"""Avro's binary encoding, the primitives: what the generated readers and writers are made of.

Rules: writers return bytes and raise UsageError for what Avro cannot say; readers take the whole frame and a position,
return (value, next position), and raise DecodeError, IndexError or UnicodeDecodeError (``decode`` turns all into
DecodeError). No reader allocates more than the input's own size promises.

Source: Avro 1.12 specification, "Binary encoding"; writers choose what fastavro chooses (one block per array or map).
"""

from collections.abc import Callable
from typing import TypeVar

from quorate.errors import PeerError, UsageError

T = TypeVar("T")


class DecodeError(PeerError):
    """The bytes are not what their schema says: truncated, too long, or out of range."""


class UnknownSchemaError(DecodeError):
    """The frame names a schema id this build does not know: its writer is newer."""


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


_SMALL = tuple(_varint(number * 2) for number in range(2048))
"""The encodings of 0 … 2047: lengths, ids, epochs, counts. A look-up beats the loop six times over."""
_FALSE, _TRUE = b"\x00", b"\x01"


def write_long(value: int) -> bytes:
    """Zigzag varint. Raises UsageError beyond 64 bits."""
    if 0 <= value < 2048:
        return _SMALL[value]
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
        return _SMALL[value]
    if not -0x8000_0000 <= value <= 0x7FFF_FFFF:
        raise UsageError(f"{value} does not fit an int")
    return _varint(value << 1 ^ value >> 31)


def write_string(value: str) -> bytes:
    """Length, then UTF-8."""
    raw = value.encode()
    return (_SMALL[len(raw)] if len(raw) < 2048 else write_long(len(raw))) + raw


def write_boolean(value: bool) -> bytes:
    """One byte."""
    return _TRUE if value else _FALSE


def write_optional(value: T | None, write: Callable[[T], bytes]) -> bytes:
    """The branch (0 = null), then the value."""
    return _FALSE if value is None else b"\x02" + write(value)


def write_array(values: tuple[T, ...], write: Callable[[T], bytes]) -> bytes:
    """One block with its count, then the empty block."""
    if not values:
        return _FALSE
    return b"".join((write_long(len(values)), *map(write, values), _FALSE))


def write_map(values: dict[str, str]) -> bytes:
    """One block of keys and values in the dictionary's order, then the empty block."""
    if not values:
        return _FALSE
    items = [write_string(key) + write_string(value) for key, value in values.items()]
    return b"".join((write_long(len(values)), *items, _FALSE))


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


def read_string(data: bytes, at: int) -> tuple[str, int]:
    """Length, then UTF-8."""
    size = data[at]
    if size < 128 and not size & 1:  # One byte of length, not negative: nearly always.
        at += 1
        end = at + (size >> 1)
    else:
        size, at = read_long(data, at)
        end = at + size
        if size < 0:
            raise DecodeError("text of negative length")
    if end > len(data):
        raise DecodeError("text longer than what is left")
    return data[at:end].decode(), end


def read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    """One byte, 0 or 1."""
    byte = data[at]
    if byte > 1:
        raise DecodeError("neither true nor false")
    return byte == 1, at + 1


def read_optional(data: bytes, at: int, read: Callable[[bytes, int], tuple[T, int]]) -> tuple[T | None, int]:
    """The branch (0 = null), then the value."""
    branch = data[at]
    if branch == 0:
        return None, at + 1
    if branch != 2:
        raise DecodeError("a branch the union does not have")
    return read(data, at + 1)


def _block(data: bytes, at: int) -> tuple[int, int]:
    """The count of the next block and where its items start; a negative count is followed by a size in bytes."""
    count, at = read_long(data, at)
    if count < 0:
        count = -count
        _, at = read_long(data, at)
    if count > len(data) - at:  # Every item of ours takes a byte at least.
        raise DecodeError("more items than bytes left")
    return count, at


def read_array(data: bytes, at: int, read: Callable[[bytes, int], tuple[T, int]]) -> tuple[tuple[T, ...], int]:
    """Blocks of items until the empty one."""
    values: list[T] = []
    count, at = _block(data, at)
    while count:
        for _ in range(count):
            value, at = read(data, at)
            values.append(value)
        count, at = _block(data, at)
    return tuple(values), at


def read_map(data: bytes, at: int) -> tuple[dict[str, str], int]:
    """Blocks of keys and values until the empty one; of equal keys the last one holds."""
    values: dict[str, str] = {}
    count, at = _block(data, at)
    while count:
        for _ in range(count):
            key, at = read_string(data, at)
            values[key], at = read_string(data, at)
        count, at = _block(data, at)
    return values, at
