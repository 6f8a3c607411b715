"""Events and their stamps as one record batch, and back: what a commit costs in bytes and microseconds.

Rules: a record's value is ``encode(event)``, its key ``key(event)``, its time the stamp's, its headers the stamp and
the event's type as UTF-8 text, in one fixed order. Offsets in one batch follow each other; everything else in the
stamp is the same for all, for a batch is what one command decided. ``decode_events`` accepts exactly this.

Theory: ``encode_events`` puts bytes together without a Record in between; header names with their lengths, and each
type's header, are made once.
"""

from collections.abc import Sequence

from quorate.errors import UsageError
from quorate.events import Event, Stamp, decode, encode, key
from quorate.events.varint import SMALL, write_long
from quorate.wire.records import BatchError, Record, assemble, decode_batch, field, frame

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

    Raises BatchError for a batch ``encode_events`` would not write, DecodeError for an event that is malformed,
    UnknownSchemaError for one this build does not know; all are PeerError.
    """
    return tuple(_event_of(record) for record in decode_batch(batch))


def _type_name(event: Event) -> bytes:
    return type(event).__name__.encode()


def _text(number: int) -> bytes:
    return field(b"%d" % number)


def _event_of(record: Record) -> tuple[Stamp, Event]:
    if tuple(name for name, _ in record.headers) != HEADER_NAMES:
        raise BatchError(f"record {record.offset} does not carry the headers of an event")
    offset, term, time_ms, kind, principal, cause, request_id = (value for _, value in record.headers)
    event = decode(record.value or b"")
    try:
        stamp = Stamp(
            offset=record.offset,
            term=int(term),
            time_ms=record.time_ms,
            principal=principal.decode(),
            cause=cause.decode(),
            request_id=request_id.decode(),
        )
    except ValueError as error:  # Not a number, or not UTF-8.
        raise BatchError(f"record {record.offset}: {error}") from error
    said = (offset, term, time_ms, kind, record.key)
    if said != (b"%d" % stamp.offset, b"%d" % stamp.term, b"%d" % stamp.time_ms, _type_name(event), key(event)):
        raise BatchError(f"record {record.offset}: its key or headers are not its event's")
    return stamp, event
