"""Events and their stamps as one record batch, and back: what a commit costs in bytes and microseconds.

Rules: a record's value is ``encode(event)``, its key ``key(event)``, its time the stamp's, its headers the stamp and
the event's type as UTF-8 text, in one fixed order. Offsets in one batch follow each other; everything else in the
stamp is the same for all, for a batch is what one command decided. ``decode_events`` accepts exactly this.

Theory: ``encode_events`` puts bytes together without a Record in between; header names with their lengths are made
once. ``decode_events`` knows most of the headers before it reads them, and compares instead of parsing.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from quorate.errors import UsageError
from quorate.events import DecodeError, Event, Stamp, UnknownSchemaError, decode, encode, key
from quorate.events.varint import SMALL, write_long
from quorate.leaf import native
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
_COUNT_OFFSET = _COUNT + _OFFSET
_NO_DELTA_MS = b"\x00\x00"  # Attributes, none; time delta, 0: the events of one command share their time.


def encode_events(events: Sequence[Event], stamp_base: Stamp, keys: Sequence[bytes] | None = None) -> bytes:
    """One batch, from ``stamp_base.offset``, leader epoch = ``stamp_base.term``; the first event gets that stamp.

    ``keys``: of the events, if they are known already. Raises UsageError: no events, or a value that cannot be written.
    """
    if not events:
        raise UsageError("a batch has an event at least")
    if keys is None:
        keys = [key(event) for event in events]
    stamp = stamp_base
    return stamped_batch(
        stamp.offset,
        stamp.term,
        stamp.time_ms,
        stamp.principal,
        stamp.cause,
        stamp.request_id,
        [event.__class__.__name__ for event in events],
        keys,
        [encode(event) for event in events],
    )


@native
def stamped_batch(
    offset: int,
    term: int,
    time_ms: int,
    principal: str,
    cause: str,
    request_id: str,
    kinds: Sequence[str],
    keys: Sequence[bytes],
    values: Sequence[bytes],
) -> bytes:
    """A batch of records under one stamp, whose offset is that of the first. Raises UsageError."""
    try:
        who = _who(principal, cause, request_id)
    except UnicodeEncodeError as error:
        raise UsageError(f"a stamp that is not UTF-8: {error}") from error
    where, bodies = _where(term, time_ms), []
    for delta, (kind, name, value) in enumerate(zip(kinds, keys, values, strict=True)):
        parts = (
            _NO_DELTA_MS,
            SMALL[delta] if delta < 2048 else write_long(delta),
            field(name),
            field(value),
            _ahead(offset + delta, where),
            field(kind.encode()),
            who,
        )
        bodies.append(frame(b"".join(parts)))
    return assemble(bodies, time_ms, time_ms, base_offset=offset, leader_epoch=term)


def events_of(batch: bytes, stamp_base: Stamp) -> list[tuple[bytes, Event]]:
    """Key and event of each record of a batch that ``encode_events`` made with this stamp.

    Raises BatchError for any other batch, UnknownSchemaError as ``decode_events`` does: it costs a third of that one,
    because a header that must be a certain text needs no parsing.
    """
    stamp = stamp_base
    events: list[tuple[bytes, Event]] = []
    records = stamped_records(
        batch, stamp.offset, stamp.term, stamp.time_ms, stamp.principal, stamp.cause, stamp.request_id
    )
    for name, value, kind in records:
        try:
            event = decode(value)
        except UnknownSchemaError:
            raise
        except DecodeError as error:
            raise BatchError(f"the event at {stamp.offset + len(events)} is malformed: {error}") from error
        if kind != event.__class__.__name__ or name != key(event):
            raise BatchError(f"the event at {stamp.offset + len(events)} is not a {kind}, or has another's key")
        events.append((name, event))
    return events


@native
def stamped_records(
    batch: bytes, offset: int, term: int, time_ms: int, principal: str, cause: str, request_id: str
) -> list[tuple[bytes, bytes, str]]:
    """Key, value and type of each record of a batch under that stamp. Raises BatchError for any other."""
    info, first_ms = open_batch(batch)
    head = (info.base_offset, info.leader_epoch, first_ms, info.max_time_ms)
    if head != (offset, term, time_ms, time_ms):
        raise BatchError(f"a batch of offset, epoch and times {head} is not of {(offset, term, time_ms, time_ms)}")
    who, where = _who(principal, cause, request_id), _where(term, time_ms)
    records: list[tuple[bytes, bytes, str]] = []
    at = HEADER_BYTES
    for delta in range(info.count):
        try:
            delta_ms, name, value, at, end = open_record(batch, at, delta)
            prefix = _ahead(offset + delta, where)
            kind, _ = read_field(batch, _past(batch, at, prefix))
            if delta_ms or name is None or value is None or kind is None:
                raise DecodeError("a time of its own, or no key, value or type")
            if batch[at:end] != prefix + field(kind) + who:
                raise DecodeError("headers of another stamp")
            records.append((name, value, kind.decode()))
        except (IndexError, ValueError, DecodeError) as error:  # ValueError: not UTF-8.
            raise BatchError(f"the event at {offset + delta} is malformed: {error}") from error
        at = end
    if at != len(batch):
        raise BatchError("bytes after the last record")
    return records


@lru_cache(maxsize=1024)
def _who(principal: str, cause: str, request_id: str) -> bytes:
    """The headers that say who asked for what. Raises UnicodeEncodeError."""
    headers = (_PRINCIPAL, principal), (_CAUSE, cause), (_REQUEST_ID, request_id)
    return b"".join([part for name, text in headers for part in (name, field(text.encode()))])


@lru_cache(maxsize=16)
def _where(term: int, time_ms: int) -> bytes:
    """The headers that many commands of one moment share."""
    return b"".join((_TERM, _text(term), _TIME_MS, _text(time_ms)))


def _ahead(offset: int, where: bytes) -> bytes:
    """The count of a record's headers, and those before its type."""
    return b"".join((_COUNT_OFFSET, _text(offset), where, _TYPE))


def decode_events(batch: bytes) -> tuple[tuple[Stamp, Event], ...]:
    """The events of one batch with their stamps.

    Raises BatchError for a batch that ``encode_events`` would not write, UnknownSchemaError for an event this build
    does not know; both are PeerError.
    """
    return tuple(decoding_events(batch))


def decoding_events(batch: bytes) -> Iterator[tuple[Stamp, Event]]:
    """The same, one at a time: a batch may have thousands. What is wrong is raised where it stands."""
    info, first_ms = open_batch(batch)
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
        yield stamp, event
    if at != len(batch):
        raise BatchError("bytes after the last record")


def _read_stamp(batch: bytes, at: int, offset: int, time_ms: int, event: Event) -> tuple[Stamp, int]:
    """The headers as ``encode_events`` writes them and as the record itself and its event say."""
    term, at = read_field(batch, _past(batch, at, b"".join((_COUNT, _OFFSET, _text(offset), _TERM))))
    kind = field(_type_name(event))
    prefix = b"".join((_TIME_MS, _text(time_ms), _TYPE, kind, _PRINCIPAL))
    principal, at = read_field(batch, _past(batch, at, prefix))
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


def _past(batch: bytes, at: int, prefix: bytes) -> int:
    """Where the prefix ends."""
    if not batch.startswith(prefix, at):
        raise DecodeError("headers that are not an event's, or contradict it")
    return at + len(prefix)


def _type_name(event: Event) -> bytes:
    return type(event).__name__.encode()


def _text(number: int) -> bytes:
    return field(b"%d" % number)
