"""Events of newer builds: read as our own version by the schema they were written with, or refused by name."""

import json
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.asking import UnreachedError
from quorate.errors import UsageError
from quorate.events import EVENT_BYTES_MAX, SCHEMAS, DecodeError, Event, FeatureLevelChanged, TopicDeleted, encode
from quorate.events.varint import write_long
from quorate.resolving import (
    TEXT_MAX,
    IncompatibleSchemaError,
    NewerSchema,
    Resolver,
    SchemaNeededError,
    UnknownKindError,
    UnregisteredSchemaError,
    registry,
    resolver,
)
from tests import newer
from tests.clusters import free_ports
from tests.unit.events.strategies import any_event

GONE = TopicDeleted(topic="orders")


class Asked:
    """The newer build's registry, and how often it was asked for what."""

    def __init__(self) -> None:
        self.times = Counter[int]()

    def __call__(self, number: int) -> str:
        self.times[number] += 1
        text: str = newer.module().SCHEMAS[number]
        return text


def nobody(number: int) -> str:
    """A registry that must not be asked."""
    raise AssertionError(f"asked for {number}")


ALL = Resolver(Asked())


@given(any_event())
def test_events_of_known_schemas_ask_nobody(event: Event) -> None:
    """The generated code reads them, as ever."""
    assert Resolver(nobody).decode(encode(event)) == event


@given(any_event())
def test_a_newer_version_is_read_as_ours(event: Event) -> None:
    """Whatever the event holds, what this build knows of it is there, in its own type; the rest is dropped."""
    found = ALL.decode(newer.frame_of(event))
    assert type(found) is type(event)
    assert found == event


def test_a_registry_is_asked_once_for_a_schema() -> None:
    """However many events it has."""
    asked = Asked()
    own = Resolver(asked)
    for topic in ("a", "b", "c"):
        assert own.decode(newer.frame_of(TopicDeleted(topic=topic))) == TopicDeleted(topic=topic)
    assert list(asked.times.values()) == [1]


def test_only_so_many_schemas_are_kept() -> None:
    """Then the oldest goes, and is asked for again when it is met again."""
    asked = Asked()
    own = Resolver(asked, kept_max=1)
    frames = [newer.frame_of(event) for event in (GONE, FeatureLevelChanged(old=1, new=2), GONE)]
    for frame in frames:
        own.decode(frame)
    assert sorted(asked.times.values()) == [1, 2]


def test_what_would_have_to_be_asked_for_is_said_without_asking() -> None:
    """A reader that must not wait hears which id is needed; once it was learned nobody is asked."""
    asked, frame = Asked(), newer.frame_of(GONE)
    own = Resolver(asked)
    with pytest.raises(SchemaNeededError) as needed:
        own.decode_known(frame)
    assert not asked.times
    assert own.learn(needed.value.number).kind is TopicDeleted
    assert own.decode_known(frame) == GONE


@given(any_event(), st.data())
def test_frames_that_are_cut_or_too_long_are_refused(event: Event, data: st.DataObject) -> None:
    """A frame is one event and nothing after it, whoever wrote it."""
    frame = newer.frame_of(event)
    for bad in (frame[: data.draw(st.integers(0, len(frame) - 1))], frame + data.draw(st.binary(min_size=1))):
        with pytest.raises(DecodeError):
            ALL.decode(bad)


@given(any_event(), st.data())
def test_damaged_frames_raise_nothing_but_decode_errors(event: Event, data: st.DataObject) -> None:
    """Any byte may be anything: the answer is an event that our schema can hold, or a DecodeError."""
    frame = bytearray(newer.frame_of(event))
    for at in data.draw(st.lists(st.integers(5, len(frame) - 1), min_size=1, max_size=4)):
        frame[at] = data.draw(st.integers(0, 255))
    try:
        encode(ALL.decode(bytes(frame)))
    except DecodeError:
        return


@given(st.sampled_from(sorted(newer.module().SCHEMAS.keys() - SCHEMAS.keys())), st.binary(max_size=200))
def test_noise_raises_nothing_but_decode_errors(number: int, noise: bytes) -> None:
    """Random bytes under a newer schema id are an event or a DecodeError."""
    try:
        ALL.decode(b"\0" + number.to_bytes(4, "big") + noise)
    except DecodeError:
        return


def test_a_frame_that_is_none_asks_nobody() -> None:
    """Another magic byte, no id, too many bytes: refused before anything is looked up."""
    for bad in (b"", b"\0\0", b"\1\0\0\xff\xff", b"\0\0\0\xff\xff" + bytes(EVENT_BYTES_MAX)):
        with pytest.raises(DecodeError):
            Resolver(nobody).decode(bad)


def test_an_event_this_build_has_no_version_of_is_named() -> None:
    """Whoever has to upgrade reads which event it is."""
    with pytest.raises(UnknownKindError, match="of TopicRetired, which this build does not know: upgrade it"):
        ALL.decode(newer.retired("orders"))


def field(kind: Any, name: str = "topic", **more: Any) -> dict[str, Any]:
    """A field of a schema."""
    return {"name": name, "type": kind, **more}


def schema(*fields: Any, name: str = "TopicDeleted", **more: Any) -> str:
    """A schema's text."""
    return json.dumps({"type": "record", "name": name, "namespace": "quorate.events", "fields": [*fields], **more})


TOPIC = field("string")
INSIDE = {"type": "record", "name": "Node", "fields": [field({"type": "array", "items": "Node"}, "nodes")]}
TENS = {
    "type": "record",
    "name": "Ten",
    "fields": [field({"type": "record", "name": "One", "fields": []}, "x0")]
    + [field("One", f"x{n}") for n in range(9)],
}
NOTHING = {
    "type": "record",
    "name": "Nothing",
    "fields": [field("null", "x"), field({"type": "fixed", "name": "F", "size": 0}, "y")],
}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="no JSON"),
        pytest.param('["null"]', id="no record"),
        pytest.param('{"type": "record", "name": 7}', id="no name"),
        pytest.param("[" * 100_000, id="no end"),
        pytest.param(schema(doc="x" * TEXT_MAX), id="too long"),
        pytest.param(schema({"name": "topic"}), id="a field without a type"),
        pytest.param(schema(field("str")), id="a type nobody knows"),
        pytest.param(schema(TOPIC, field(7, "x")), id="a type that is none"),
        pytest.param(schema(TOPIC, field(INSIDE, "x")), id="a record in itself"),
        pytest.param(schema(TOPIC, field({"type": "array", "items": "null"}, "x")), id="an array of nothing"),
        pytest.param(
            schema(TOPIC, field({"type": "array", "items": NOTHING}, "x")), id="an array of records of nothing"
        ),
        pytest.param(schema(TOPIC, field(TENS, "x")), id="ten nothings of ten nothings"),
        pytest.param(
            schema(
                TOPIC,
                field({"type": "record", "name": "b.R", "fields": []}, "x"),
                field({"type": "record", "name": "a.R", "fields": [field("long")]}, "y"),
                field({"type": "array", "items": "b.R"}, "z"),
            ),
            id="two types of one name",
        ),
    ],
)
def test_a_schema_without_bounds_is_refused(text: str) -> None:
    """What is no Avro schema, and one by which few bytes could be read for ever."""
    with pytest.raises(IncompatibleSchemaError):
        NewerSchema(99, text)


def test_a_schema_of_somebody_else_is_no_event_of_ours() -> None:
    """The name alone is not enough."""
    with pytest.raises(UnknownKindError, match="TopicDeleted"):
        NewerSchema(99, schema(TOPIC, namespace="others"))


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        pytest.param([field("long")], b"\x02", id="another type"),
        pytest.param([field("string", "name")], b"\x02a", id="without a field that has no default"),
        pytest.param([field({"type": "long", "logicalType": "timestamp-millis"})], b"\x02", id="a time"),
        pytest.param([field(["null", "string"])], b"\x00", id="null where we have none"),
    ],
)
def test_a_schema_ours_cannot_be_read_from_is_refused(fields: list[Any], body: bytes) -> None:
    """Avro resolves what compatibility allows and nothing else; the id and the event are named."""
    with pytest.raises(IncompatibleSchemaError, match="schema id 99 cannot be read as TopicDeleted"):
        NewerSchema(99, schema(*fields)).decode(b"\0\0\0\0\x63" + body)


@pytest.mark.parametrize(
    "kind",
    [
        ["null", "string"],
        {"type": "map", "values": {"type": "array", "items": ["null", "long"]}},
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "fixed", "name": "F", "size": 1},
        {
            "type": "record",
            "name": "R",
            "fields": [field("int", "x"), field({"type": "record", "name": "S", "fields": []}, "y")],
        },
    ],
    ids=str,
)
def test_types_this_build_does_not_use_are_read_past(kind: Any) -> None:
    """A field that nobody here knows may be of any type that has bounds; properties nobody knows are no matter."""
    properties: Any = {"quorate.more": True}
    of = NewerSchema(99, schema(field(kind, "new"), TOPIC, **properties))
    assert of.decode(b"\0\0\0\0\x63" + b"\x00" + encode(GONE)[5:]) == GONE


def test_a_number_that_our_schema_cannot_hold_is_refused() -> None:
    """An int is 32 bits, by whatever schema it came."""
    text = schema(field("int", "new"), field("int", "old"), name="FeatureLevelChanged")
    of, head = NewerSchema(99, text), b"\0\0\0\0\x63"
    assert of.decode(head + write_long(2) + write_long(1)) == FeatureLevelChanged(old=1, new=2)
    with pytest.raises(DecodeError):
        of.decode(head + write_long(2**31) + write_long(1))


def test_a_field_that_is_gone_has_its_default() -> None:
    """A newer version may leave out what has a default here."""
    text = schema(field("string", "cluster"), field("string", "broker_set"), field("long", "broker_id"),
                  field("string", "address"), name="BrokerRegistered")  # fmt: skip
    found: Any = NewerSchema(99, text).decode(b"\0\0\0\0\x63\x02c\x02b\x02\x02a")
    assert (found.cluster, found.broker_id, found.capabilities) == ("c", 1, {})


@pytest.fixture(name="nodes", scope="module")
def _nodes() -> Iterator[tuple[str, str]]:
    """Addresses: of a node of this build, and of a newer one."""
    with newer.served(SCHEMAS) as ours, newer.served(newer.module().SCHEMAS) as theirs:
        yield ours, theirs


def test_nodes_are_asked_until_one_knows(nodes: tuple[str, str]) -> None:
    """In the middle of an upgrade some do not know the id, and some do not answer."""
    ours, theirs = nodes
    away = f"127.0.0.1:{free_ports(1)}"
    own = Resolver(registry(f"{away},{ours},{theirs}"))
    assert own.decode(newer.frame_of(GONE)) == GONE


def test_an_id_nobody_knows_is_refused(nodes: tuple[str, str]) -> None:
    """All were asked and none knows it: no waiting will help."""
    with pytest.raises(UnregisteredSchemaError, match=r"schema id 4711 is not known here, nor to the registry of"):
        Resolver(registry(",".join(nodes))).learn(4711)
    with pytest.raises(UnregisteredSchemaError, match="no registry was named"):
        Resolver(registry("")).learn(4711)


def test_nobody_may_have_answered(nodes: tuple[str, str]) -> None:
    """If one that was not reached may know it, it is no refusal: it can be asked again."""
    away = f"127.0.0.1:{free_ports(1)}"
    with pytest.raises(UnreachedError, match=f"schema id 4711 is new.*{away}"):
        Resolver(registry(f"{away},{nodes[0]}")).learn(4711)


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"]
)
def test_what_is_no_registry_has_not_answered(answer: bytes) -> None:
    """Silence has a deadline; another program's answer is none of a registry's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        import threading

        def answering() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                if answer:
                    connection.sendall(answer)
                    return
                connection.recv(1)  # Until the other side has had enough.

        thread = threading.Thread(target=answering)
        thread.start()
        with pytest.raises(UnreachedError, match=address):
            registry(address, timeout_s=0.2)(99)
        thread.join(5)


def test_a_process_has_one_for_the_same_nodes() -> None:
    """What one reader has learned the others of the process know."""
    assert resolver("h:1,h:2") is resolver("h:1,h:2")
    with pytest.raises(UsageError):
        resolver("h")
