"""HTTP/2's frames and the literals of its heads, as bytes (RFC 9113; RFC 7541, section 6.2.2).

Rules: pure. What a server reads is checked as far as a frame can be by itself; what its sender may say when, only its
connection knows. Heads are written without the table that both ends would have to keep, so nothing of a client decides
how long ours are.
"""

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from quorate.errors import QuorateError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client says first (section 3.4)."""
HEAD_SIZE: Final = 9
FRAME_MAX: Final = 16_384
"""The longest payload that both ends must take, and the longest that is taken or sent here."""
WINDOW: Final = 65_535
"""What each direction of a stream, and of a connection, begins with."""
WINDOW_MAX: Final = (1 << 31) - 1
STREAM_MAX: Final = (1 << 31) - 1

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
"""Kinds of frames (section 6)."""
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
WITH_PRIORITY: Final = 0x20

ENABLE_PUSH: Final = 2
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6

NO_TABLE: Final = b"\x20"
"""Before fields: from here on the table has no room (RFC 7541, section 6.3)."""

_HEAD: Final = struct.Struct(">HBBBI")
_SETTING: Final = struct.Struct(">HI")
_NUMBER: Final = struct.Struct(">I")
_FRAME_SIZE_MAX: Final = (1 << 24) - 1
_SIZES: Final = {PRIORITY: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
"""Payloads that have one length."""


class Http2Code(IntEnum):
    """Why a stream or a connection ends (section 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Http2Error(QuorateError):
    """What came ends the connection."""

    def __init__(self, code: Http2Code, text: str) -> None:
        self.code, self.text = code, text
        super().__init__(text)


def frame_head(buffer: bytes | bytearray, at: int) -> tuple[int, int, int, int]:
    """Length of the payload, kind, flags and stream of the frame that begins there; 9 bytes must be there.

    Raises Http2Error for a length that is not taken, or that its kind does not have (section 4.2).
    """
    high, low, kind, flags, stream = _HEAD.unpack_from(buffer, at)
    size = high << 8 | low
    if size > FRAME_MAX:
        raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "a frame of more than 16,384 bytes")
    if kind in _SIZES and size != _SIZES[kind]:
        raise Http2Error(Http2Code.FRAME_SIZE_ERROR, f"a frame of kind {kind} of {size} bytes")
    return size, kind, flags, stream & STREAM_MAX


def frame(kind: int, flags: int, stream: int, payload: bytes | memoryview = b"") -> bytes:
    """One frame (section 4.1)."""
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def number(payload: bytes) -> int:
    """The payload of RST_STREAM or of WINDOW_UPDATE: 32 bits, or 31 of them."""
    found: int = _NUMBER.unpack(payload)[0]
    return found


def reset(stream: int, code: Http2Code) -> bytes:
    """RST_STREAM (section 6.4)."""
    return frame(RST_STREAM, 0, stream, _NUMBER.pack(code))


def window_update(stream: int, more: int) -> bytes:
    """WINDOW_UPDATE (section 6.9); stream 0 is the connection."""
    return frame(WINDOW_UPDATE, 0, stream, _NUMBER.pack(more))


def goaway(last: int, code: Http2Code, text: str = "") -> bytes:
    """GOAWAY (section 6.8): streams above ``last`` were not looked at."""
    return frame(GOAWAY, 0, 0, _NUMBER.pack(last) + _NUMBER.pack(code) + text.encode())


def settings(values: Mapping[int, int]) -> bytes:
    """SETTINGS (section 6.5)."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*one) for one in values.items()))


def read_settings(payload: bytes) -> dict[int, int]:
    """What the other end sets: of one that is set twice the last. Raises Http2Error (section 6.5.2)."""
    if len(payload) % _SETTING.size:
        raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "settings that break off")
    found = dict(_SETTING.iter_unpack(payload))
    if found.get(ENABLE_PUSH, 0) > 1:
        raise Http2Error(Http2Code.PROTOCOL_ERROR, "ENABLE_PUSH is 0 or 1")
    if found.get(INITIAL_WINDOW_SIZE, 0) > WINDOW_MAX:
        raise Http2Error(Http2Code.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is too large")
    if not FRAME_MAX <= found.get(MAX_FRAME_SIZE, FRAME_MAX) <= _FRAME_SIZE_MAX:
        raise Http2Error(Http2Code.PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of range")
    return found


def unpadded(payload: bytes, flags: int) -> bytes:
    """Of DATA or HEADERS, without its padding. Raises Http2Error (section 6.1)."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error(Http2Code.PROTOCOL_ERROR, "more padding than there is payload")
    return payload[1 : len(payload) - payload[0]]


def fields_of(payload: bytes, flags: int, stream: int) -> bytes:
    """Of HEADERS, the piece of its fields. Raises Http2Error (sections 6.2 and 5.3.1)."""
    piece = unpadded(payload, flags)
    if not flags & WITH_PRIORITY:
        return piece
    if len(piece) < 5:
        raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "HEADERS that break off")
    if number(piece[:4]) & STREAM_MAX == stream:
        raise Http2Error(Http2Code.PROTOCOL_ERROR, "a stream that depends on itself")
    return piece[5:]


def table_sizes(fields: bytes) -> int:
    """How many changes of the table's size the fields begin with, of which two have a meaning (RFC 7541, 4.2)."""
    at = found = 0
    while at < len(fields) and fields[at] & 0xE0 == 0x20:
        found += 1
        long = fields[at] & 0x1F == 0x1F
        at += 1
        while long and at < len(fields):
            long = fields[at] >= 0x80
            at += 1
    return found


def literals(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Fields as literals that no table keeps."""
    return b"".join(b"\x00" + _string(name) + _string(value) for name, value in fields)


def _string(text: bytes) -> bytes:
    """With its length before it, in 7 bits and as many more as it takes (RFC 7541, sections 5.1 and 5.2)."""
    size = len(text)
    if size < 0x7F:
        return bytes((size,)) + text
    head, size = bytearray((0x7F,)), size - 0x7F
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + text
