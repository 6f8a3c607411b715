"""The bytes of events: equal to fastavro's, read back exactly, and nothing else is accepted."""

import io
import json
from typing import get_args

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate import events
from quorate.errors import UsageError
from quorate.events import (
    SCHEMAS,
    BrokerDataCleaned,
    BrokerFenced,
    ConfigChanged,
    DecodeError,
    Event,
    FeatureLevelChanged,
    TopicCreated,
    TopicDeleted,
    UnknownSchemaError,
    decode,
    encode,
    key,
    schema_id,
)
from tests.unit.events.strategies import CATALOGUE, any_event, plain

PARSED = {number: fastavro.parse_schema(json.loads(text)) for number, text in SCHEMAS.items()}


def oracle(event: Event) -> bytes:
    """The frame as fastavro makes it."""
    number = schema_id(type(event))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, PARSED[number], plain(event), strict=True)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


@given(any_event())
def test_encoding_is_fastavros_byte_for_byte(event: Event) -> None:
    """Whatever the event holds, its frame is what fastavro writes under its schema."""
    assert encode(event) == oracle(event)


@given(any_event())
def test_decoding_undoes_encoding(event: Event) -> None:
    """An event comes back equal, type and all."""
    again = decode(encode(event))
    assert type(again) is type(event)
    assert again == event


@given(any_event())
def test_fastavro_reads_what_we_write(event: Event) -> None:
    """A stock Avro reader finds the same values."""
    found = fastavro.schemaless_reader(io.BytesIO(encode(event)[5:]), PARSED[schema_id(type(event))], None)
    assert found == msgspec.msgpack.decode(msgspec.msgpack.encode(plain(event)))


@given(any_event(), st.data())
def test_truncated_frames_are_refused(event: Event, data: st.DataObject) -> None:
    """A frame cut anywhere is a DecodeError and no other exception."""
    frame = encode(event)
    with pytest.raises(DecodeError):
        decode(frame[: data.draw(st.integers(0, len(frame) - 1))])


@given(any_event(), st.binary(min_size=1, max_size=9))
def test_trailing_bytes_are_refused(event: Event, more: bytes) -> None:
    """A frame is one event and nothing after it."""
    with pytest.raises(DecodeError):
        decode(encode(event) + more)


@given(any_event(), st.data())
def test_damaged_frames_raise_nothing_but_decode_errors(event: Event, data: st.DataObject) -> None:
    """Any byte may be anything: the answer is an event or a DecodeError."""
    frame = bytearray(encode(event))
    for at in data.draw(st.lists(st.integers(0, len(frame) - 1), min_size=1, max_size=4)):
        frame[at] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(frame))
    except DecodeError:
        return


@given(st.sampled_from(sorted(SCHEMAS)), st.binary(max_size=200))
def test_noise_raises_nothing_but_decode_errors(number: int, noise: bytes) -> None:
    """Random bytes under a known schema id are an event or a DecodeError."""
    try:
        decode(b"\0" + number.to_bytes(4, "big") + noise)
    except DecodeError:
        return


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x06ab", id="text longer than the rest"),
        pytest.param(b"\x01", id="text of negative length"),
        pytest.param(b"\x02\xff", id="not UTF-8"),
        pytest.param(b"\x06\xed\xa0\x80", id="a surrogate"),
        pytest.param(b"\xff" * 11, id="an endless number"),
        pytest.param(b"\xff" * 9 + b"\x02", id="a number beyond 64 bits"),
    ],
)
def test_bad_text_is_refused(body: bytes) -> None:
    """Text has a length that fits and is UTF-8."""
    with pytest.raises(DecodeError):
        decode(encode(TopicDeleted(topic=""))[:5] + body)


def test_neither_true_nor_false_is_refused() -> None:
    """A boolean is 0 or 1, though any byte would do as a truth."""
    event = BrokerDataCleaned(cluster="", broker_set="", broker_ids=(), whole_set=True)
    with pytest.raises(DecodeError, match="neither"):
        decode(encode(event)[:-1] + b"\x02")


def test_a_branch_the_union_does_not_have_is_refused() -> None:
    """``null | X`` has the branches 0 and 1."""
    frame = encode(ConfigChanged(scope="", changes=(events.ConfigChange(name=""),)))
    assert frame.endswith(b"\x02\x00\x00\x00\x00")
    with pytest.raises(DecodeError, match="branch"):
        decode(frame[:-3] + b"\x04\x00\x00")


def test_an_int_beyond_32_bits_is_refused() -> None:
    """A varint that is a long where the schema says int is a DecodeError."""
    prefix = encode(FeatureLevelChanged(old=0, new=0))[:5]
    with pytest.raises(DecodeError, match="32 bits"):
        decode(prefix + b"\x80\x80\x80\x80\x10" + b"\x00")


def test_a_promise_of_more_items_than_bytes_is_refused_at_once() -> None:
    """A count of billions allocates nothing."""
    prefix = encode(ConfigChanged(scope="", changes=()))[:5]
    with pytest.raises(DecodeError, match="more items than bytes"):
        decode(prefix + b"\x00" + b"\xfe\xff\xff\xff\x0f" + b"\x00" * 8)


def test_blocks_with_a_byte_size_are_read() -> None:
    """Avro lets a writer send arrays in several blocks, each with its size in bytes: other writers do."""
    event = ConfigChanged(scope="cluster", changes=(events.ConfigChange(name="a"), events.ConfigChange(name="b")))
    item_a, item_b = b"\x02a\x00\x00", b"\x02b\x00\x00"
    blocks = b"\x01\x08" + item_a + b"\x01\x08" + item_b + b"\x00"
    assert decode(encode(event)[:5] + b"\x0ecluster" + blocks) == event


def test_oversize_frames_are_refused() -> None:
    """Beyond the limit nothing is read, and nothing is written."""
    event = TopicDeleted(topic="x" * events.EVENT_BYTES_MAX)
    with pytest.raises(UsageError, match="too large"):
        encode(event)
    with pytest.raises(DecodeError, match="too large"):
        decode(oracle(event))


def test_an_unknown_schema_id_is_named() -> None:
    """A newer writer's event is told apart from damage, and its id is in the message."""
    with pytest.raises(UnknownSchemaError, match="4711"):
        decode(b"\0" + (4711).to_bytes(4, "big"))


def test_another_magic_byte_is_refused() -> None:
    """Only Confluent's frame is read."""
    with pytest.raises(DecodeError, match="magic"):
        decode(b"\1" + encode(TopicDeleted(topic="t"))[1:])


FENCED = BrokerFenced(
    cluster="c", broker_set="b", broker_id=1, evidence="", last_heartbeat_ms=0, detected_ms=0, proposed_ms=0
)


@pytest.mark.parametrize(
    "changes",
    [
        {"broker_id": 2**63},
        {"broker_id": -(2**63) - 1},
        {"cluster": "\ud800"},
        {"cluster": None},
        {"broker_id": "1"},
        {"detected_ms": 1.5},
        {"broker_set": 7},
    ],
    ids=str,
)
def test_what_the_schema_cannot_hold_is_not_written(changes: dict[str, object]) -> None:
    """A value out of range or of another type is a UsageError, not wrong bytes."""
    with pytest.raises(UsageError):
        encode(msgspec.structs.replace(FENCED, **changes))


@pytest.mark.parametrize("level", [2**31, -(2**31) - 1])
def test_an_int_field_holds_32_bits(level: int) -> None:
    """The schema's int is narrower than Python's, and narrower than a long."""
    with pytest.raises(UsageError, match="int"):
        encode(FeatureLevelChanged(old=0, new=level))


def test_no_foreign_value_is_an_event() -> None:
    """Encoding, keys and ids exist for events only."""
    stranger = events.ConfigChange(name="n")
    with pytest.raises(UsageError):
        encode(stranger)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        key(stranger)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        schema_id(events.ConfigChange)  # type: ignore[arg-type]


def test_the_union_is_the_catalogue() -> None:
    """Each schema is a member of ``Event`` under its own name, and nothing else is."""
    assert {kind.__name__ for kind in get_args(Event)} == set(CATALOGUE)
    assert {json.loads(SCHEMAS[schema_id(kind)])["name"] for kind in get_args(Event)} == set(CATALOGUE)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (TopicDeleted(topic="orders"), b"topic/default/orders"),
        (TopicDeleted(topic="%RETRY%a/b"), b"topic/default/%25RETRY%25a%2Fb"),
        (TopicDeleted(topic="größe ~._-"), b"topic/default/gr%C3%B6%C3%9Fe%20~._-"),
        (ConfigChanged(scope="broker-set/b1", changes=()), b"config/default/broker-set%2Fb1"),
        (FeatureLevelChanged(old=1, new=2), b"feature-level/default/cluster"),
        (events.ControllerLeaderElected(node_id=3, cause="silent"), b"leader/default/controller"),
        (FENCED, b"broker-set/default/b"),
    ],
    ids=lambda value: value.decode() if isinstance(value, bytes) else type(value).__name__,
)
def test_the_key_names_the_entity(event: Event, expected: bytes) -> None:
    """Kind, tenant, percent-encoded name; a slash in a name cannot make another entity."""
    assert key(event) == expected


def test_a_key_that_is_not_utf8_is_refused() -> None:
    """A lone surrogate names nothing."""
    with pytest.raises(UsageError):
        key(TopicDeleted(topic="\ud800"))


def test_events_are_values() -> None:
    """Frozen, equal by content, with defaults that are not shared."""
    one = events.BrokerRegistered(cluster="c", broker_set="b", broker_id=1, address="a")
    two = events.BrokerRegistered(cluster="c", broker_set="b", broker_id=1, address="a")
    assert one == two
    assert one.capabilities == {}
    assert one.capabilities is not two.capabilities
    with pytest.raises(AttributeError):
        one.broker_id = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        TopicCreated("t", 1, 1, 6, "", 0, False, {})  # type: ignore[call-arg]
