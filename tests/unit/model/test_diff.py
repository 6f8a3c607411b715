"""What differs between two states."""

import pytest

from quorate.metadata.commands import CleanBrokerData, DeleteTopic, PutTopic
from quorate.model.diff import Change, changes
from quorate.model.rows import ROWS_PER_STEP
from quorate.model.state import EMPTY, State
from tests.unit.metadata.kit import World, altering


def diff(before: State, after: State) -> list[Change]:
    steps = changes(before, after)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[Change] = end.value
            return found


def topic(name: str, queues: int) -> PutTopic:
    return PutTopic(topic=name, read_queues=queues, write_queues=queues, permission=6)


def test_equal_states_do_not_differ() -> None:
    """Also when they were made apart from each other."""
    one, other = World(), World()
    for world in (one, other):
        world.set_of(1, 2)
        world.do(topic("t", 4))
    assert diff(one.state, other.state) == []
    assert diff(EMPTY, EMPTY) == []


def test_added_removed_and_changed_entities_are_told_with_their_fields() -> None:
    """Of what changed only the fields that differ, before and after; of the others every field."""
    world = World()
    world.set_of(1, 2)
    world.do(topic("changed", 4))
    world.do(topic("removed", 4))
    before = world.state
    world.do(altering(world.a, 1, 2))
    world.do(topic("changed", 8))
    world.do(topic("added", 1))
    world.do(DeleteTopic(topic="removed"))
    found = {change.key: change for change in diff(before, world.state)}
    assert {key: change.change for key, change in found.items()} == {
        "broker-set/a": "changed",
        "topic/added": "added",
        "topic/changed": "changed",
        "topic/removed": "removed",
    }
    assert found["broker-set/a"].before == {"sync_state_set": (1,), "sync_state_set_epoch": 1}
    assert found["broker-set/a"].after == {"sync_state_set": (1, 2), "sync_state_set_epoch": 2}
    assert found["topic/changed"].after == {"read_queues": 8, "write_queues": 8}
    assert found["topic/added"].before is None
    assert (found["topic/added"].after or {})["order"] is False
    assert found["topic/removed"].after is None
    assert [change.key for change in diff(before, world.state)] == sorted(found)


def test_a_default_inside_a_field_is_told_too() -> None:
    """A replica that was not fenced, and is, was *not fenced* before: a field that is left out would say nothing."""
    world = World()
    world.set_of(1, 2)
    (change,) = diff(EMPTY, world.state)[:1]
    assert change.key == "broker-set/a"
    (first, _) = (change.after or {})["replicas"]
    assert (first["fenced"], first["capabilities"], first["topics"]) == (False, {}, ())


def test_a_long_comparison_takes_steps() -> None:
    """Many entities: other work of the loop comes between, and nothing is left out."""
    world = World()
    for number in range(3 * ROWS_PER_STEP):
        world.do(topic(f"t{number}", 4))
    steps = changes(EMPTY, world.state)
    for _ in range(6):
        next(steps)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert len(end.value.value) == 3 * ROWS_PER_STEP


def test_forwards_and_backwards_are_mirror_images() -> None:
    """What was added one way is removed the other way, with before and after exchanged."""
    world = World()
    world.set_of(1, 2)
    before = world.state
    world.do(CleanBrokerData(cluster="C", broker_set="a", broker_ids=None, clean_living=True))
    forth, back = diff(before, world.state), diff(world.state, before)
    assert [c.change for c in forth] == ["removed"]
    assert [(c.before, c.after) for c in back] == [(c.after, c.before) for c in forth]
