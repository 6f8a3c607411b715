"""Record batches of whatever records a test wants, and read; the product knows those of events only (``wire.avro``)."""

import struct
from collections.abc import Sequence

import msgspec

from quorate.errors import UsageError
from quorate.events.varint import DecodeError, read_long, write_long
from quorate.wire.records import HEADER_BYTES, BatchError, assemble, field, frame, open_batch, open_record, read_field

_NULL = b"\x01"  # Length -1.
_PATCH = struct.Struct(">q")
_EPOCH = struct.Struct(">i")


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record; ``offset`` is given by ``decode_batch``."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    time_ms: int
    """Epoch milliseconds, UTC."""
    offset: int = 0


def encode_batch(records: Sequence[Record], *, base_offset: int = 0, leader_epoch: int = -1) -> bytes:
    """One batch, its records numbered from ``base_offset``. Raises UsageError: no records, or a number too large."""
    if not records:
        raise UsageError("a batch has a record at least")
    first_ms = records[0].time_ms
    bodies = [_record(record, delta, record.time_ms - first_ms) for delta, record in enumerate(records)]
    last_ms = max(record.time_ms for record in records)
    return assemble(bodies, first_ms, last_ms, base_offset=base_offset, leader_epoch=leader_epoch)


def _record(record: Record, delta: int, delta_ms: int) -> bytes:
    parts = [
        b"\x00",  # Attributes: none are defined.
        write_long(delta_ms),
        write_long(delta),
        _NULL if record.key is None else field(record.key),
        _NULL if record.value is None else field(record.value),
        write_long(len(record.headers)),
    ]
    for name, value in record.headers:
        parts.append(field(name.encode()))
        parts.append(field(value))
    return frame(b"".join(parts))


def patch(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """The same batch at another place in the log; neither number is under the CRC. Raises BatchError, UsageError."""
    if len(batch) < HEADER_BYTES:
        raise BatchError("shorter than a batch's header")
    try:
        return b"".join((_PATCH.pack(base_offset), batch[8:12], _EPOCH.pack(leader_epoch), batch[16:]))
    except struct.error as error:
        raise UsageError(f"not a place in a log: {error}") from error


def decode_batch(batch: bytes) -> tuple[Record, ...]:
    """The records of exactly one batch. Raises BatchError: CRC, sizes, or a kind of batch we do not write."""
    info, first_ms = open_batch(batch)
    records: list[Record] = []
    at = HEADER_BYTES
    try:
        for delta in range(info.count):
            delta_ms, key, value, at, end = open_record(batch, at, delta)
            headers = _read_headers(batch, at, end)
            records.append(Record(key, value, headers, first_ms + delta_ms, info.base_offset + delta))
            at = end
    except (IndexError, DecodeError, UnicodeDecodeError) as error:
        raise BatchError(f"record {len(records)} is malformed: {error}") from error
    if at != len(batch):
        raise BatchError("bytes after the last record")
    return tuple(records)


def _read_headers(data: bytes, at: int, end: int) -> tuple[tuple[str, bytes], ...]:
    """The headers, which fill the record to its end."""
    count, at = read_long(data, at)
    if not 0 <= count <= end - at:
        raise DecodeError("more headers than bytes")
    headers: list[tuple[str, bytes]] = []
    for _ in range(count):
        name, at = read_field(data, at)
        text, at = read_field(data, at)
        if name is None or text is None:
            raise DecodeError("a header that is null")
        headers.append((name.decode(), text))
    if at != end:
        raise DecodeError("its length is not its size")
    return tuple(headers)
