"""What is asked about members: selectors, conditions, RocketMQ's brokers among them."""

from collections.abc import Callable
from operator import attrgetter

import msgspec
import pytest

from quorate.errors import InvariantBrokenError
from quorate.events import MemberFenced, Stamp
from quorate.metadata.commands import DrainMember, FenceBroker, FenceMember
from quorate.model import rows
from quorate.model.evolve import evolve
from quorate.model.members import PER_STEP, Selector, broker_of, condition, everyone, named, of_set, selected
from quorate.model.state import Member, State
from quorate.slices import finished
from tests.unit.metadata.kit import World, registering
from tests.unit.metadata.test_keys import world

NAME: Callable[[Member], str] = attrgetter("name")


@pytest.fixture
def made() -> World:
    """Three members, one of them fenced and one to leave, and a broker set of two."""
    made = world()
    made.member("c", roles=("mqtt",), labels={"rack": "1", "zone": ""})
    fenced = made.member("a", roles=("journal", "mqtt"), labels={"rack": "2"})
    made.member("b", roles=("journal",), labels={"rack": "1"})
    made.do(FenceMember(name="a", epoch=fenced, evidence="heartbeat expired", last_heartbeat_ms=1))
    made.do(DrainMember(name="b"))
    made.do(DrainMember(name="a"))
    made.set_of(1, 2)
    return made


def names(state: State, **selector: object) -> list[str]:
    """Who is meant."""
    return finished(selected(state, msgspec.convert(selector, Selector), NAME))


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ({}, ["a", "a:1", "a:2", "b", "c"]),
        ({"roles": ["mqtt"]}, ["a", "c"]),
        ({"roles": ["mqtt", "broker"]}, ["a", "a:1", "a:2", "c"]),
        ({"labels": {"rack": "1"}}, ["b", "c"]),
        ({"labels": {"rack": "1", "zone": ""}}, ["c"]),
        ({"labels": {"rack": ""}}, ["a", "b", "c"]),
        ({"labels": {"broker-set": "a"}}, ["a:1", "a:2"]),
        ({"conditions": ["fenced"]}, ["a"]),
        ({"conditions": ["draining", "active"], "roles": ["journal", "mqtt"]}, ["b", "c"]),
        ({"roles": ["nothing"]}, []),
    ],
)
def test_a_selector_means_those_that_have_all_of_it(made: World, selector: dict[str, object], found: list[str]) -> None:
    """By name, RocketMQ's brokers among them."""
    assert names(made.state, **selector) == found


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6])
def test_pages_are_all_of_them_once(made: World, limit: int) -> None:
    """By name, whatever a page holds; behind the last there is nobody."""
    found: list[str] = []
    while page := finished(selected(made.state, Selector(), NAME, found[-1] if found else "", limit)):
        assert len(page) <= limit
        found += page
    assert found == sorted(member.name for member in everyone(made.state)) == ["a", "a:1", "a:2", "b", "c"]


def test_a_long_list_is_made_in_steps() -> None:
    """Of many members, and of many broker sets: other work has its turn in between, and nothing is left out."""
    made = world()
    for number in range(2 * PER_STEP):
        made.member(f"m{number:03}")
        made.broker(1, f"s{number:03}")
    steps, turns, found = selected(made.state, Selector(), NAME), 0, None
    while found is None:
        try:
            next(steps)
            turns += 1
        except StopIteration as end:
            found = end.value
    assert found == [
        *(f"m{number:03}" for number in range(2 * PER_STEP)),
        *(f"s{number:03}:1" for number in range(2 * PER_STEP)),
    ]
    assert turns == 2 + 4


def test_a_broker_is_shown_as_a_member(made: World) -> None:
    """Made of its set: what the set knows, and no epoch; fenced as the set says."""
    made.do(
        FenceBroker(
            cluster="C", broker_set="a", broker_id=2, evidence="heartbeat expired", last_heartbeat_ms=1, detected_ms=2
        )
    )
    broker = named(made.state, "a:2")
    assert broker is not None
    assert (broker.roles, broker.addresses, broker.epoch) == (("broker",), {"remoting": "10.0.0.2:10911"}, 0)
    assert broker.labels == {"cluster": "C", "broker-set": "a"}
    assert condition(broker) == "fenced"
    assert of_set(made.a)["a:2"] == broker
    assert list(of_set(made.a)) == ["a:1", "a:2"]


def test_a_broker_s_capabilities_are_its_labels(made: World) -> None:
    """Each that it told, beside its cluster and set, which it cannot rename; a selector means it by them, and a broker
    that tells others is told of as changed.
    """
    before = of_set(made.a)
    made.do(registering(2, capabilities={"rack": "r1", "cluster": "lies", "broker-set": "b"}))
    after = of_set(made.a)
    assert after["a:2"].labels == {"rack": "r1", "cluster": "C", "broker-set": "a"}
    assert broker_of(after["a:2"]) == ("C", "a", 2)
    assert names(made.state, labels={"rack": "r1"}) == ["a:2"]
    assert [name for name in before if before[name] != after[name]] == ["a:2"]


@pytest.mark.parametrize("name", ["x", "a:3", "x:1", "a:", "a:x", ":1", "", "a:" + "9" * 5_000, "a:01"])
def test_nobody_has_such_a_name(made: World, name: str) -> None:
    """Neither a member nor a broker."""
    assert named(made.state, name) is None


def test_members_come_back_from_their_rows(made: World) -> None:
    """Whatever they are; and a member is found under its name."""
    assert rows.from_rows(rows.rows(made.state)) == made.state
    assert named(made.state, "b") is made.state.members["b"]


def test_an_event_about_an_epoch_that_is_none_stops_the_node(made: World) -> None:
    """No decision can have produced it."""
    event = MemberFenced(
        member="c", epoch=1, reason="silent", evidence="heartbeat expired", last_heartbeat_ms=0, timeout_ms=1
    )
    with pytest.raises(InvariantBrokenError, match="epoch 1 of the member 'c', which is none"):
        evolve(made.state, event, Stamp(offset=99, term=1, time_ms=1))
