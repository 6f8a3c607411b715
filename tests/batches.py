"""Record batches of whatever records a test wants; the product writes those of events only (``wire.avro``)."""

from collections.abc import Sequence

from quorate.errors import UsageError
from quorate.events.varint import write_long
from quorate.wire.records import Record, assemble, field, frame

_NULL = b"\x01"  # Length -1.


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
