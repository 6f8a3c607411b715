"""Kafka record batches, magic 2: the form in which events are proposed, stored and fetched.

Rules: a batch is written once and never again: its base offset and leader epoch, which lie outside the CRC, are in it
when it is decided. What we write is neither compressed, transactional nor a control batch, its offsets have no gaps,
and what is otherwise we do not read. Readers check sizes before they slice, and raise BatchError for anything else.

Theory: 61 bytes of header, then the records; numbers in the header are big-endian and fixed, those in a record are
zigzag variable-length. The CRC-32C covers everything from the attributes to the end.

Source: Apache Kafka, "Record Batch" in the protocol guide (KIP-98); Java ``DefaultRecordBatch``, ``DefaultRecord``.
"""

import struct
from collections.abc import Iterator, Sequence

import google_crc32c
import msgspec

from quorate.errors import PeerError, UsageError
from quorate.events.varint import SMALL, DecodeError, read_long, write_long

HEADER_BYTES = 61
_HEADER = struct.Struct(">qiibIhiqqqhii")
_PLACE = struct.Struct(">qiib")  # Base offset, length, leader epoch, magic: before the CRC.
_CHECKED = struct.Struct(">hiqqqhii")  # From the attributes to the record count: what the CRC covers.
_CRC_AT, _CHECKED_AT = 17, 21
_MAGIC = 2
_LENGTH_COUNTS_FROM = 12
_NO_PRODUCER = (-1, -1, -1)  # Producer id, its epoch, base sequence.
_FIRST_MS, _FIRST_MS_AT = struct.Struct(">q"), 27


class BatchError(PeerError):
    """The bytes are not a whole, sound record batch of the kind we write."""


class BatchInfo(msgspec.Struct, frozen=True, gc=False):
    """What a batch's header says; its records were not looked at, its CRC not checked."""

    base_offset: int
    last_offset: int
    size: int
    """Bytes, header and all."""
    leader_epoch: int
    max_time_ms: int
    """Greatest time of its records, epoch milliseconds."""
    count: int


def assemble(
    bodies: Sequence[bytes], first_ms: int, max_ms: int, *, base_offset: int = 0, leader_epoch: int = -1
) -> bytes:
    """A batch of records that ``frame`` made; times are the first and the greatest, in epoch milliseconds.

    Raises UsageError for a number that its field cannot hold.
    """
    count = len(bodies)
    try:
        checked = _CHECKED.pack(0, count - 1, first_ms, max_ms, *_NO_PRODUCER, count) + b"".join(bodies)
        size = _CHECKED_AT + len(checked) - _LENGTH_COUNTS_FROM
        place = _PLACE.pack(base_offset, size, leader_epoch, _MAGIC)
    except struct.error as error:
        raise UsageError(f"not a batch: {error}") from error
    return b"".join((place, google_crc32c.value(checked).to_bytes(4, "big"), checked))


def frame(body: bytes) -> bytes:
    """A record's body behind its length."""
    size = len(body)
    return (SMALL[size] if size < 2048 else write_long(size)) + body


def field(data: bytes) -> bytes:
    """A key, value or header part behind its length."""
    size = len(data)
    return (SMALL[size] if size < 2048 else write_long(size)) + data


def scan(data: bytes) -> Iterator[BatchInfo]:
    """The headers of the batches that lie in ``data`` one after the other, the last one whole. Raises BatchError."""
    at = 0
    while at < len(data):
        info = _info(data, at)
        yield info
        at += info.size


def open_batch(batch: bytes) -> tuple[BatchInfo, int]:
    """What the header of exactly one batch says, and its first time; size and CRC are checked. Raises BatchError."""
    info = _info(batch, 0)
    if info.size != len(batch):
        raise BatchError(f"{len(batch) - info.size} bytes after the batch")
    if int.from_bytes(batch[_CRC_AT:_CHECKED_AT], "big") != google_crc32c.value(batch[_CHECKED_AT:]):
        raise BatchError("the CRC does not fit the bytes")
    return info, _FIRST_MS.unpack_from(batch, _FIRST_MS_AT)[0]


def open_record(data: bytes, at: int, delta: int) -> tuple[int, bytes | None, bytes | None, int, int]:
    """Time delta, key, value, where the headers start and where the record ends; it must be the ``delta``-th.

    Raises DecodeError, IndexError.
    """
    size, at = read_long(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise DecodeError("longer than what is left")
    delta_ms, at = read_long(data, at + 1)
    own_delta, at = read_long(data, at)
    if own_delta != delta:
        raise DecodeError(f"offset delta {own_delta}")
    key, at = read_field(data, at)
    value, at = read_field(data, at)
    return delta_ms, key, value, at, end


def read_field(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Bytes behind their length, None for length -1, and where they end. Raises DecodeError, IndexError."""
    byte = data[at]
    if byte < 128 and not byte & 1:  # One byte of length, not negative: nearly always.
        size, at = byte >> 1, at + 1
    else:
        size, at = read_long(data, at)
        if size == -1:
            return None, at
        if size < 0:
            raise DecodeError("a negative length")
    end = at + size
    if end > len(data):
        raise DecodeError("longer than what is left")
    return data[at:end], end


def _info(data: bytes, at: int) -> BatchInfo:
    """The header at ``at``, the batch lying wholly in ``data``."""
    if len(data) - at < HEADER_BYTES:
        raise BatchError("shorter than a batch's header")
    base_offset, length, epoch, magic, _, attributes, delta, _, max_ms, _, _, _, count = _HEADER.unpack_from(data, at)
    size = length + _LENGTH_COUNTS_FROM
    if magic != _MAGIC:
        raise BatchError(f"magic byte {magic}")
    if not HEADER_BYTES <= size <= len(data) - at:
        raise BatchError(f"a batch of {size} bytes in {len(data) - at}")
    if attributes:
        raise BatchError(f"attributes {attributes:#x}: compressed, transactional or control")
    if count < 1 or delta != count - 1:
        raise BatchError(f"{count} records up to delta {delta}")
    return BatchInfo(base_offset, base_offset + delta, size, epoch, max_ms, count)
