"""What differs between two states."""

from typing import Any

import pytest
from immutables import Map

from quorate.metadata.commands import CleanBrokerData, DeleteTopic, PutTopic
from quorate.model.diff import Change, changes
from quorate.model.rows import ROWS_PER_STEP
from quorate.model.state import EMPTY, Session, SessionOwner, State
from quorate.slices import finished
from tests.unit.metadata.kit import World, altering, counted


def diff(before: State, after: State) -> list[Change]:
    return finished(changes(before, after)).page


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
    found, turns = counted(changes(EMPTY, world.state))
    assert len(found.page) == found.count == 3 * ROWS_PER_STEP
    assert turns == 3 + 1 + 3, "they are compared, sorted and told"
    assert counted(changes(world.state, world.state))[1] == 3 + 3


def test_only_what_is_on_the_page_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that differ are counted; a change is made for no more than are asked for, and the next page follows."""
    world, made = World(), list[str]()
    before = world.state
    for number in range(5):
        world.do(topic(f"t{number}", 4))
    whole = diff(before, world.state)

    def change(**said: Any) -> Change:
        made.append(said["key"])
        return Change(**said)

    monkeypatch.setattr("quorate.model.diff.Change", change)
    first = finished(changes(before, world.state, limit=2))
    assert (first.count, first.more, made) == (5, True, ["topic/t0", "topic/t1"])
    rest = finished(changes(before, world.state, first.page[-1].key, 3))
    assert (rest.count, rest.more, len(made)) == (5, False, 5)
    assert [*first.page, *rest.page] == whole
    assert not finished(changes(before, world.state, "topic/t4", 3)).page


def test_the_order_is_that_of_keys() -> None:
    """Which the next page begins behind: kinds of which one begins as another does are not apart."""
    sessions = Map({"c": Session(client="c", member="m", member_epoch=1, session_epoch=1, opened_ms=1, expiry_s=9)})
    owners = Map({1: SessionOwner(member="m", member_epoch=1, lost_ms=1, reason="r")})
    found = [change.key for change in diff(EMPTY, State(sessions=sessions, session_owners=owners))]
    assert found == ["session-owner/1", "session/c"]


def test_forwards_and_backwards_are_mirror_images() -> None:
    """What was added one way is removed the other way, with before and after exchanged."""
    world = World()
    world.set_of(1, 2)
    before = world.state
    world.do(CleanBrokerData(cluster="C", broker_set="a", broker_ids=None, clean_living=True))
    forth, back = diff(before, world.state), diff(world.state, before)
    assert [c.change for c in forth] == ["removed"]
    assert [(c.before, c.after) for c in back] == [(c.after, c.before) for c in forth]
