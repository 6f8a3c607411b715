"""The primitive types of the Kafka protocol, read with bounds and written as bytes.

Rules: a reader never looks past its frame, never builds more than ``MAX_ITEMS`` array elements per request, and raises
``KafkaFormatError`` and nothing else. Lengths are checked before anything is built, so that five hostile bytes cannot
ask for gigabytes (they abort the process of a well-known codec). A string is no longer than STRING can say, in whatever
form it comes: what one client sends in the compact form, another is told in the old one.
Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482 for the compact forms.
"""

import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from quorate.errors import PeerError

MAX_ITEMS = 10_000
"""Array elements one request may hold in all its arrays together; a subscriber's largest has a few dozen."""

STRING_BYTES_MAX = 0x7FFF
"""Of a string in either form, as in Kafka."""

_T = TypeVar("_T")
_I8 = struct.Struct(">b")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")


class KafkaFormatError(PeerError):
    """Bytes that are no Kafka request of the version they claim."""


class Reader:
    """A cursor over one request."""

    __slots__ = ("_at", "_data", "_items_left", "flexible")

    def __init__(self, data: bytes) -> None:
        self.flexible = False
        """Are strings, bytes and arrays the compact ones from here on, and has every struct tags (KIP-482)?"""
        self._data = data
        self._at = 0
        self._items_left = MAX_ITEMS

    def _unpack(self, form: struct.Struct) -> int:
        try:
            value: int = form.unpack_from(self._data, self._at)[0]
        except struct.error:
            raise KafkaFormatError(f"the request ends inside a number, at byte {self._at}") from None
        self._at += form.size
        return value

    def int8(self) -> int:
        """INT8."""
        return self._unpack(_I8)

    def int16(self) -> int:
        """INT16."""
        return self._unpack(_I16)

    def int32(self) -> int:
        """INT32."""
        return self._unpack(_I32)

    def int64(self) -> int:
        """INT64."""
        return self._unpack(_I64)

    def boolean(self) -> bool:
        """BOOLEAN: 0 is false, anything else true."""
        return self._unpack(_I8) != 0

    def raw(self, size: int) -> bytes:
        """``size`` bytes as they are."""
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise KafkaFormatError(f"a length of {size} at byte {self._at} does not fit the request")
        value = self._data[self._at : end]
        self._at = end
        return value

    def _text(self, size: int) -> str:
        if size > STRING_BYTES_MAX:
            raise KafkaFormatError(f"a string of {size} bytes at byte {self._at}, above {STRING_BYTES_MAX}")
        try:
            return self.raw(size).decode()
        except UnicodeDecodeError:
            raise KafkaFormatError(f"a string before byte {self._at} is not UTF-8") from None

    def string(self) -> str:
        """STRING."""
        return self.compact_string() if self.flexible else self._text(self.int16())

    def nullable_string(self) -> str | None:
        """NULLABLE_STRING: length -1 is null."""
        if self.flexible:
            return self.compact_nullable_string()
        size = self.int16()
        return None if size == -1 else self._text(size)

    def data(self) -> bytes:
        """BYTES."""
        return self.compact_data() if self.flexible else self.raw(self.int32())

    def nullable_data(self) -> bytes | None:
        """NULLABLE_BYTES: length -1 is null."""
        size = self.uvarint() - 1 if self.flexible else self.int32()
        return None if size == -1 else self.raw(size)

    def array(self, item: Callable[[], _T]) -> tuple[_T, ...]:
        """ARRAY; null is refused."""
        value = self.nullable_array(item)
        if value is None:
            raise KafkaFormatError(f"null where an array must be, before byte {self._at}")
        return value

    def nullable_array(self, item: Callable[[], _T]) -> tuple[_T, ...] | None:
        """ARRAY; length -1 is null."""
        count = self.uvarint() - 1 if self.flexible else self.int32()
        return None if count == -1 else self._items(count, item)

    def _items(self, count: int, item: Callable[[], _T]) -> tuple[_T, ...]:
        if not 0 <= count <= len(self._data) - self._at:
            raise KafkaFormatError(f"an array of {count} before byte {self._at} does not fit the request")
        self._items_left -= count
        if self._items_left < 0:
            raise KafkaFormatError(f"more than {MAX_ITEMS} array elements in one request")
        return tuple([item() for _ in range(count)])

    def uvarint(self) -> int:
        """UNSIGNED_VARINT, at most 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.int8()
            value |= (byte & 0x7F) << shift
            if byte >= 0:
                if value > 0xFFFFFFFF:
                    break
                return value
        raise KafkaFormatError(f"a varint before byte {self._at} has more than 32 bits")

    def compact_string(self) -> str:
        """COMPACT_STRING."""
        return self._text(self.uvarint() - 1)

    def compact_nullable_string(self) -> str | None:
        """COMPACT_NULLABLE_STRING: length 0 is null."""
        size = self.uvarint()
        return None if size == 0 else self._text(size - 1)

    def compact_data(self) -> bytes:
        """COMPACT_BYTES."""
        return self.raw(self.uvarint() - 1)

    def closed(self, value: _T) -> _T:
        """A struct whose fields were read just now: its tags follow, if it has any."""
        if self.flexible:
            self.skip_tags()
        return value

    def skip_tags(self) -> None:
        """TAGGED_FIELDS: none of ours; unknown tags are passed over (KIP-482 demands it)."""
        count = self.uvarint()
        self._items_left -= count
        if self._items_left < 0:
            raise KafkaFormatError(f"more than {MAX_ITEMS} tagged fields in one request")
        for _ in range(count):
            self.uvarint()
            self.raw(self.uvarint())


int16 = _I16.pack
int32 = _I32.pack
int64 = _I64.pack


def boolean(value: bool) -> bytes:
    """BOOLEAN."""
    return b"\x01" if value else b"\x00"


def string(value: str) -> bytes:
    """STRING."""
    data = value.encode()
    return int16(len(data)) + data


def nullable_string(value: str | None) -> bytes:
    """NULLABLE_STRING."""
    return b"\xff\xff" if value is None else string(value)


def data(value: bytes) -> bytes:
    """BYTES."""
    return int32(len(value)) + value


def array(items: Iterable[bytes]) -> bytes:
    """ARRAY of elements that are bytes already."""
    parts = list(items)
    return int32(len(parts)) + b"".join(parts)


def uvarint(value: int) -> bytes:
    """UNSIGNED_VARINT."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def compact_string(value: str) -> bytes:
    """COMPACT_STRING."""
    data = value.encode()
    return uvarint(len(data) + 1) + data


def compact_nullable_string(value: str | None) -> bytes:
    """COMPACT_NULLABLE_STRING."""
    return b"\x00" if value is None else compact_string(value)


def compact_array(items: Iterable[bytes]) -> bytes:
    """COMPACT_ARRAY of elements that are bytes already."""
    parts = list(items)
    return uvarint(len(parts) + 1) + b"".join(parts)


NO_TAGS = b"\x00"
"""TAGGED_FIELDS: we send none."""


def compact_data(value: bytes) -> bytes:
    """COMPACT_BYTES."""
    return uvarint(len(value) + 1) + value


class Form(NamedTuple):
    """How a version writes what has a length, and what ends its structs."""

    string: Callable[[str], bytes]
    nullable_string: Callable[[str | None], bytes]
    data: Callable[[bytes], bytes]
    array: Callable[[Iterable[bytes]], bytes]
    end: bytes

    def int32s(self, values: Iterable[int]) -> bytes:
        """ARRAY of INT32."""
        return self.array(map(int32, values))


PLAIN = Form(string, nullable_string, data, array, b"")
COMPACT = Form(compact_string, compact_nullable_string, compact_data, compact_array, NO_TAGS)


def form(version: int, flexible_from: int) -> Form:
    """That of this version."""
    return COMPACT if version >= flexible_from else PLAIN
