"""Events and their stamps as one record batch, and back: what a commit costs in bytes and microseconds.

Rules: a record's value is ``encode(event)``, its key ``key(event)``, its time the stamp's, its headers the stamp and
the event's type as UTF-8 text, in one fixed order. Offsets in one batch follow each other; everything else in the
stamp is the same for all, for a batch is what one command decided. ``decode_events`` accepts exactly this.

Theory: ``encode_events`` puts bytes together without a Record in between; header names with their lengths are made
once. ``decode_events`` knows most of the headers before it reads them, and compares instead of parsing.
"""

from collections.abc import Sequence

from quorate.errors import UsageError
from quorate.events import DecodeError, Event, Stamp, UnknownSchemaError, decode, encode, key
from quorate.events.varint import SMALL, write_long
from quorate.wire.records import (
    HEADER_BYTES,
    BatchError,
    assemble,
    field,
    frame,
    open_batch,
    open_record,
    read_field,
)

HEADER_NAMES = ("offset", "term", "time_ms", "type", "principal", "cause", "request_id")
"""What every record carries, in this order."""

_COUNT = SMALL[len(HEADER_NAMES)]
_OFFSET, _TERM, _TIME_MS, _TYPE, _PRINCIPAL, _CAUSE, _REQUEST_ID = (field(name.encode()) for name in HEADER_NAMES)
_NO_DELTA_MS = b"\x00\x00"  # Attributes, none; time delta, 0: the events of one command share their time.


def encode_events(events: Sequence[Event], stamp_base: Stamp) -> bytes:
    """One batch, from ``stamp_base.offset``, leader epoch = ``stamp_base.term``; the first event gets that stamp.

    Raises UsageError: no events, or a value that cannot be written.
    """
    if not events:
        raise UsageError("a batch has an event at least")
    stamp = stamp_base
    try:
        where = b"".join((_TERM, _text(stamp.term), _TIME_MS, _text(stamp.time_ms)))
        who = b"".join(
            (
                _PRINCIPAL,
                field(stamp.principal.encode()),
                _CAUSE,
                field(stamp.cause.encode()),
                _REQUEST_ID,
                field(stamp.request_id.encode()),
            )
        )
    except UnicodeEncodeError as error:
        raise UsageError(f"a stamp that is not UTF-8: {error}") from error
    offset, bodies = stamp.offset, []
    for delta, event in enumerate(events):
        parts = (
            _NO_DELTA_MS,
            write_long(delta),
            field(key(event)),
            field(encode(event)),
            _COUNT,
            _OFFSET,
            _text(offset + delta),
            where,
            _TYPE,
            field(_type_name(event)),
            who,
        )
        bodies.append(frame(b"".join(parts)))
    return assemble(bodies, stamp.time_ms, stamp.time_ms, base_offset=offset, leader_epoch=stamp.term)


def decode_events(batch: bytes) -> tuple[tuple[Stamp, Event], ...]:
    """The events of one batch with their stamps.

    Raises BatchError for a batch that ``encode_events`` would not write, UnknownSchemaError for an event this build
    does not know; both are PeerError.
    """
    info, first_ms = open_batch(batch)
    found: list[tuple[Stamp, Event]] = []
    at = HEADER_BYTES
    for delta in range(info.count):
        try:
            delta_ms, name, value, at, end = open_record(batch, at, delta)
            event = decode(value or b"")
            stamp, at = _read_stamp(batch, at, info.base_offset + delta, first_ms + delta_ms, event)
        except UnknownSchemaError:
            raise
        except (IndexError, ValueError, DecodeError) as error:  # ValueError: not a number, or not UTF-8.
            raise BatchError(f"the event at {info.base_offset + delta} is malformed: {error}") from error
        if at != end or name != key(event):
            raise BatchError(f"the event at {info.base_offset + delta} has another's key, or more than its headers")
        found.append((stamp, event))
    if at != len(batch):
        raise BatchError("bytes after the last record")
    return tuple(found)


def _read_stamp(batch: bytes, at: int, offset: int, time_ms: int, event: Event) -> tuple[Stamp, int]:
    """The headers as ``encode_events`` writes them and as the record itself and its event say."""
    term, at = read_field(batch, _past(batch, at, b"".join((_COUNT, _OFFSET, _text(offset), _TERM))))
    kind = field(_type_name(event))
    known = b"".join((_TIME_MS, _text(time_ms), _TYPE, kind, _PRINCIPAL))
    principal, at = read_field(batch, _past(batch, at, known))
    cause, at = read_field(batch, _past(batch, at, _CAUSE))
    request_id, at = read_field(batch, _past(batch, at, _REQUEST_ID))
    if term is None or principal is None or cause is None or request_id is None or term != b"%d" % int(term):
        raise DecodeError("a header that is null, or a number with more than its digits")
    stamp = Stamp(
        offset=offset,
        term=int(term),
        time_ms=time_ms,
        principal=principal.decode(),
        cause=cause.decode(),
        request_id=request_id.decode(),
    )
    return stamp, at


def _past(batch: bytes, at: int, known: bytes) -> int:
    """Where what is known ends."""
    if not batch.startswith(known, at):
        raise DecodeError("headers that are not an event's, or contradict it")
    return at + len(known)


def _type_name(event: Event) -> bytes:
    return type(event).__name__.encode()


def _text(number: int) -> bytes:
    return field(b"%d" % number)
