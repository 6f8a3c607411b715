"""Avro's binary encoding, the primitives: what the generated readers and writers are made of.

Rules: writers return bytes and raise UsageError for what Avro cannot say; readers take the whole frame and a position,
return (value, next position), and raise DecodeError, IndexError or UnicodeDecodeError (``decode`` turns all into
DecodeError). No reader allocates more than the input's own size promises.

Source: Avro 1.12 specification, "Binary encoding"; writers choose what fastavro chooses (one block per array or map).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from quorate.events.varint import SMALL, DecodeError, read_long, write_long

T = TypeVar("T")


class UnknownSchemaError(DecodeError):
    """The frame names a schema id this build does not know: its writer is newer."""


_FALSE, _TRUE = b"\x00", b"\x01"


def write_string(value: str) -> bytes:
    """Length, then UTF-8."""
    raw = value.encode()
    return (SMALL[len(raw)] if len(raw) < 2048 else write_long(len(raw))) + raw


def write_bytes(value: bytes) -> bytes:
    """Length, then the bytes as they are."""
    return write_long(len(value)) + value


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


@lru_cache(maxsize=4096)
def write_longs(values: tuple[int, ...]) -> bytes:
    """An array of longs; the same few sets of ids are written again and again."""
    return write_array(values, write_long)


def write_map(values: dict[str, str]) -> bytes:
    """One block of keys and values in the dictionary's order, then the empty block."""
    if not values:
        return _FALSE
    items = [write_string(key) + write_string(value) for key, value in values.items()]
    return b"".join((write_long(len(values)), *items, _FALSE))


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


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Length, then the bytes as they are."""
    size, at = read_long(data, at)
    if size < 0:
        raise DecodeError("bytes of negative length")
    if size > len(data) - at:
        raise DecodeError("bytes longer than what is left")
    return data[at : at + size], at + size


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


def read_longs(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """An array of longs; ids of brokers are small, and there are few."""
    count = data[at] >> 1
    end = at + count + 1
    items = data[at + 1 : end]
    # One block of one-byte numbers, its own count one byte, not negative; then the empty block.
    if data[at] & 129 == 0 and end < len(data) and data[end] == 0 and items.isascii():
        return (_one_byte_longs(items), end + 1) if count else ((), at + 1)
    return read_array(data, at, read_long)


@lru_cache(maxsize=4096)
def _one_byte_longs(data: bytes) -> tuple[int, ...]:
    return tuple([byte >> 1 ^ -(byte & 1) for byte in data])


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
