"""Rows: canonical, complete, and refused when they are none of ours."""

import msgspec
import pytest

from quorate.errors import InvariantBrokenError
from quorate.events import key
from quorate.metadata.commands import ChangeConfig, PutTopic, RaiseFeatureLevel, RecordLeader
from quorate.model import rows
from quorate.model.state import (
    EMPTY,
    BrokerSet,
    Cluster,
    Config,
    Election,
    FeatureLevel,
    Leader,
    Node,
    Replica,
    Topic,
)
from tests.unit.metadata.kit import CREATE, World, registering
from tests.unit.metadata.test_cluster import START


def full() -> World:
    """One of every entity, with names that need escaping."""
    world = World()
    world.do(CREATE)
    world.do(START)
    world.do(RecordLeader(node_id=1, cause="first start"))
    world.do(RaiseFeatureLevel(level=2))
    world.set_of(1, 2, in_sync=(1, 2))
    world.broker(1, "b/ü %")
    world.do(PutTopic(topic="%RETRY%g", read_queues=1, write_queues=1, permission=6))
    world.do(ChangeConfig(scope="broker-set/b/ü %", changes={"k": "v"}))
    return world


def test_the_rows_are_the_state() -> None:
    """Read back in any order they make the same value, and each is found under the key of its events."""
    world = full()
    pairs = list(rows.rows(world.state))
    assert rows.from_rows(reversed(pairs)) == world.state
    assert {name for name, _ in pairs} == {key(event) for event, _ in world.log}
    for name, value in pairs:
        assert rows.row(world.state, name) == value
    assert rows.count(world.state) == len(pairs)
    assert rows.from_rows([]) == EMPTY
    assert rows.count(EMPTY) == 0


def test_reading_many_rows_back_takes_steps() -> None:
    """Other work of the loop comes between; the value is the same."""
    world = full()
    for number in range(2 * rows.ROWS_PER_STEP):
        world.do(PutTopic(topic=f"t{number}", read_queues=1, write_queues=1, permission=6))
    steps = rows.restoring(rows.rows(world.state))
    for _ in range(2):
        next(steps)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == world.state


def test_what_is_not_there_has_no_row() -> None:
    """Before the first event, nothing has."""
    for name, _ in rows.rows(full().state):
        assert rows.row(EMPTY, name) is None


def test_equal_entities_have_equal_bytes_whatever_the_order_of_their_making() -> None:
    """Dictionaries are sorted."""
    states = []
    for capabilities in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}):
        world = World()
        world.broker(1)
        world.do(registering(1, capabilities=capabilities))
        states.append(world.state)
    assert rows.row(states[0], b"broker-set/default/a") == rows.row(states[1], b"broker-set/default/a")


def test_defaults_take_no_bytes() -> None:
    """So that a field added later changes no row that does not use it."""
    world = World()
    world.broker(1)
    value = rows.row(world.state, b"broker-set/default/a")
    assert value is not None
    fields = msgspec.msgpack.decode(value[1:])
    assert set(fields) == {"name", "cluster", "next_broker_id", "replicas"}
    assert set(fields["replicas"][0]) == {"broker_id", "address", "register_check_code", "registered"}


@pytest.mark.parametrize("entity", [Replica, Election, BrokerSet, Topic, Leader, Node, Config, Cluster, FeatureLevel])
def test_defaults_are_values_that_have_one_identity(entity: type[msgspec.Struct]) -> None:
    """Left out of a row are fields that *are* their default, so a default must be the same object in every process."""
    for field in msgspec.structs.fields(entity):
        if field.default is not msgspec.NODEFAULT:
            made_elsewhere = msgspec.msgpack.decode(msgspec.msgpack.encode(field.default))
            same = tuple(made_elsewhere) if isinstance(field.default, tuple) else made_elsewhere
            assert same is field.default, field.name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"galaxy/default/x", b"\x01\x80"),
        (b"\xff/default/x", b"\x01\x80"),
        (b"topic/default/x", b"\x02\x80"),
        (b"topic/default/x", b""),
        (b"topic/default/x", b"\x01\x80"),
        (b"topic/default/x", b"\x01\xc1"),
        (b"topic/default/x", b"\x01\x81\xa5topic\xa1\xf4"),
    ],
)
def test_a_row_that_is_none_of_ours_stops_the_node(name: bytes, value: bytes) -> None:
    """Unknown kind, unknown format, damaged body, text that is not UTF-8."""
    with pytest.raises(InvariantBrokenError):
        rows.from_rows([(name, value)])


def test_a_key_of_no_kind_stops_the_node() -> None:
    """No event has such a key."""
    with pytest.raises(InvariantBrokenError):
        rows.row(EMPTY, b"galaxy/default/x")
