"""Events with their stamps as one batch: the fast path writes what the plain one would, and reads only that."""

from typing import Any

import google_crc32c
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import PeerError, UsageError
from quorate.events import Event, Stamp, TopicDeleted, UnknownSchemaError, encode, key
from quorate.wire.avro import HEADER_NAMES, decode_events, encode_events, events_of
from quorate.wire.records import HEADER_BYTES, BatchError
from tests.batches import Record, decode_batch, encode_batch, patch
from tests.unit.events.strategies import any_event

TEXT = st.text(max_size=20)
STAMPS = st.builds(
    Stamp,
    offset=st.integers(0, 2**50),
    term=st.integers(0, 2**31 - 1),
    time_ms=st.integers(0, 2**45),
    principal=TEXT,
    cause=TEXT,
    request_id=TEXT,
)
EVENTS = st.lists(any_event(), min_size=1, max_size=3)

STAMP = Stamp(offset=41, term=7, time_ms=1_700_000_000_000, principal="p", cause="DeleteTopic", request_id="r-1")
EVENT = TopicDeleted(topic="orders")


def plain(event: Event, stamp: Stamp) -> Record:
    """The record as the contract says, field by field."""
    texts = {
        "offset": str(stamp.offset),
        "term": str(stamp.term),
        "time_ms": str(stamp.time_ms),
        "type": type(event).__name__,
        "principal": stamp.principal,
        "cause": stamp.cause,
        "request_id": stamp.request_id,
    }
    headers = tuple((name, text.encode()) for name, text in texts.items())
    return Record(key(event), encode(event), headers, stamp.time_ms)


@given(EVENTS, STAMPS)
def test_the_fast_path_writes_the_plain_batch(events: list[Event], stamp: Stamp) -> None:
    """Key, value, time and headers are in the batch as in one built record by record."""
    stamps = [msgspec.structs.replace(stamp, offset=stamp.offset + delta) for delta in range(len(events))]
    records = [plain(event, at) for event, at in zip(events, stamps, strict=True)]
    batch = encode_events(events, stamp)
    assert batch == encode_batch(records, base_offset=stamp.offset, leader_epoch=stamp.term)
    assert decode_events(batch) == tuple(zip(stamps, events, strict=True))


@given(EVENTS, STAMPS)
def test_who_knows_the_stamp_reads_the_same_events(events: list[Event], stamp: Stamp) -> None:
    """Keys and events are those that were written."""
    assert events_of(encode_events(events, stamp), stamp) == [(key(event), event) for event in events]


@pytest.mark.parametrize(
    "other",
    [
        {"offset": 42}, {"term": 8}, {"time_ms": 1_700_000_000_001}, {"principal": "q"}, {"cause": "PutTopic"},
        {"request_id": "r-2"}, {"request_id": ""},
    ],
)  # fmt: skip
def test_a_batch_of_another_stamp_is_refused(other: dict[str, Any]) -> None:
    """Whatever the entry says of a batch, its own headers must say the same."""
    batch = encode_events((EVENT, EVENT), STAMP)
    with pytest.raises(BatchError):
        events_of(batch, msgspec.structs.replace(STAMP, **other))


def test_a_damaged_batch_is_refused_though_its_stamp_is_known() -> None:
    """Cut short, lengthened, with a record's key or headers of another: a BatchError each."""
    batch = encode_events((EVENT,), STAMP)
    record = plain(EVENT, STAMP)
    foreign = [
        msgspec.structs.replace(record, key=b"topic/default/others"),
        msgspec.structs.replace(record, headers=()),
    ]
    bad = [encode_batch([one], base_offset=41, leader_epoch=7) for one in foreign]
    for data in (batch[:-1], batch + b"x", *bad):
        with pytest.raises(BatchError):
            events_of(data, STAMP)


@pytest.mark.parametrize("value", [b"", encode(EVENT)[:-1], encode(EVENT) + b"x"], ids=["none", "cut", "more"])
def test_a_malformed_event_is_refused_though_its_stamp_is_known(value: bytes) -> None:
    """Under a right CRC too, and with its offset."""
    with pytest.raises(BatchError, match="the event at 41 is malformed"):
        events_of(changed(value=value), STAMP)


def test_an_unknown_event_is_told_apart_though_its_stamp_is_known() -> None:
    """As by ``decode_events``: the node stops rather than skip it."""
    with pytest.raises(UnknownSchemaError):
        events_of(changed(value=b"\0\0\0\xff\xff"), STAMP)


def test_patching_the_same_place_changes_nothing() -> None:
    """A batch is proposed at the place it is applied at: then its bytes are final."""
    batch = encode_events((EVENT,), STAMP)
    assert patch(batch, STAMP.offset, STAMP.term) == batch


def test_a_batch_has_an_event() -> None:
    """A command that decided nothing makes no batch."""
    with pytest.raises(UsageError):
        encode_events((), STAMP)


def test_a_stamp_that_is_not_utf8_is_refused() -> None:
    """Text with a lone surrogate is the caller's mistake."""
    with pytest.raises(UsageError):
        encode_events((EVENT,), Stamp(offset=0, term=1, time_ms=1, principal="\ud800"))


def test_a_batch_at_another_offset_is_refused() -> None:
    """The offset in the header is asserted: a batch moved elsewhere is not what was decided."""
    with pytest.raises(BatchError):
        decode_events(patch(encode_events((EVENT,), STAMP), STAMP.offset + 1, STAMP.term))


def changed(**changes: Any) -> bytes:
    """A batch of one record with something else in it."""
    record = plain(EVENT, STAMP)
    headers = dict(record.headers) | changes.pop("headers", {})
    headers = {name: value for name, value in headers.items() if value is not None}
    record = msgspec.structs.replace(record, headers=tuple(headers.items()), **changes)
    return encode_batch((record,), base_offset=STAMP.offset, leader_epoch=STAMP.term)


@pytest.mark.parametrize(
    "changes",
    [
        {"headers": {"cause": None}},
        {"headers": {"more": b"1"}},
        {"headers": {"offset": b"42"}},
        {"headers": {"offset": b"x"}},
        {"headers": {"offset": b""}},
        {"headers": {"offset": b"041"}},
        {"headers": {"term": b"\xff"}},
        {"headers": {"term": b" 7"}},
        {"headers": {"time_ms": b"1"}},
        {"headers": {"type": b"TopicCreated"}},
        {"headers": {"type": b"\xff"}},
        {"headers": {"principal": b"\xff"}},
        {"key": b"topic/default/other"},
        {"key": None},
        {"value": None},
        {"value": encode(EVENT) + b"x"},
        {"value": b""},
        {"time_ms": 5},
    ],
    ids=str,
)
def test_a_record_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    """Headers, key, time and value must tell the same story, and all of it."""
    assert decode_events(changed()) == ((STAMP, EVENT),)
    with pytest.raises(PeerError):
        decode_events(changed(**changes))


@given(EVENTS, STAMPS, st.data())
def test_damage_under_a_right_crc_raises_nothing_else(events: list[Event], stamp: Stamp, data: st.DataObject) -> None:
    """Any byte of the records may be anything, the CRC made right again: the answer is events or a PeerError."""
    batch = bytearray(encode_events(events, stamp))
    for at in data.draw(st.lists(st.integers(HEADER_BYTES, len(batch) - 1), min_size=1, max_size=3)):
        batch[at] = data.draw(st.integers(0, 255))
    batch[17:21] = int(google_crc32c.value(bytes(batch[21:]))).to_bytes(4, "big")
    try:
        decode_events(bytes(batch))
    except PeerError:
        return


def test_bytes_after_the_last_event_are_refused() -> None:
    """What the count leaves over is noticed, under a right CRC too."""
    one = encode_events((EVENT,), STAMP)
    checked = one[21:] + b"\x00"
    crc = int(google_crc32c.value(checked)).to_bytes(4, "big")
    longer = one[:8] + (len(one) - 11).to_bytes(4, "big") + one[12:17] + crc + checked
    with pytest.raises(BatchError, match="after the last"):
        decode_events(longer)
    with pytest.raises(BatchError, match="after the last"):
        events_of(longer, STAMP)


def test_an_unknown_event_is_told_apart() -> None:
    """An event of a newer build is UnknownSchemaError: the node stops rather than skip it."""
    with pytest.raises(UnknownSchemaError):
        decode_events(changed(value=b"\0\0\0\xff\xff"))


def test_the_headers_are_in_the_agreed_order() -> None:
    """Consumers may rely on names and order."""
    (record,) = decode_batch(encode_events((EVENT,), STAMP))
    assert tuple(name for name, _ in record.headers) == HEADER_NAMES
    assert dict(record.headers)["request_id"] == b"r-1"
