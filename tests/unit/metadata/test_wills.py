"""Wills of MQTT's clients: decided once, handed to a living member, and handed on until it is acknowledged."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from immutables import Map

from quorate.events import (
    Event,
    SessionDisconnected,
    SessionEnded,
    SessionOpened,
    WillAcknowledged,
    WillDecided,
    WillHandedOver,
)
from quorate.metadata import sessions as rules
from quorate.metadata import wills as handing
from quorate.metadata.commands import (
    AcknowledgeWill,
    CloseSession,
    DrainMember,
    HandOverWills,
    OpenSession,
    SessionIs,
    SettleSessions,
    UnregisterMember,
)
from quorate.metadata.context import Decision
from quorate.model.sessions import living, waiting_wills, will_due_ms
from quorate.model.state import HandedWill, State, Will
from quorate.slices import SORTED_PER_STEP, finished
from tests.unit.metadata.test_sessions import STEP, Brokers, happen, kinds

WILL = Will(topic="gone/c", payload=b"bye", qos=1, retain=True)


def delayed(delay_s: int) -> Will:
    """One that waits."""
    return Will(topic="gone/c", payload=b"bye", delay_s=delay_s)


def lost(epoch: int, client: str = "c", **more: Any) -> CloseSession:
    """The connection ended without a word."""
    return CloseSession(client=client, session_epoch=epoch, with_will=True, **more)


def decided(events: tuple[Event, ...]) -> WillDecided:
    """The one that was."""
    (found,) = (event for event in events if isinstance(event, WillDecided))
    return found


def handed(events: tuple[Event, ...]) -> WillHandedOver:
    """The one that was."""
    (found,) = (event for event in events if isinstance(event, WillHandedOver))
    return found


def test_a_client_that_leaves_in_order_has_no_will() -> None:
    """Neither now nor later, even if it is lost a second time."""
    made = Brokers()
    epoch = made.open(will=WILL)
    assert kinds(made.events(CloseSession(client="c", session_epoch=epoch))) == ["SessionDisconnected"]
    assert made.session().will is None
    assert made.events(lost(epoch)) == ()
    epoch = made.open(will=WILL)
    assert kinds(made.events(CloseSession(client="c", session_epoch=epoch, end=True))) == ["SessionEnded"]


def test_a_lost_client_s_will_goes_to_the_member_that_had_it() -> None:
    """At once if nothing delays it; it is the session's no longer."""
    made = Brokers()
    epoch = made.open(will=WILL)
    events = made.events(lost(epoch))
    assert events[:2] == (
        WillDecided(client="c", session_epoch=epoch, reason="lost", due_ms=made.now_ms),
        WillHandedOver(
            session_epoch=epoch,
            client="c",
            topic="gone/c",
            payload=b"bye",
            qos=1,
            retain=True,
            member="a",
            member_epoch=made.epochs["a"],
            taken_from="",
            reason="a had the client",
            candidates=2,
        ),
    )
    assert isinstance(events[2], SessionDisconnected)
    assert made.session().will is None
    assert [one.will.payload for one in finished(waiting_wills(made.state, "a"))] == [b"bye"]
    assert made.events(lost(epoch)) == ()


def test_a_will_waits_for_its_delay_and_is_cancelled_by_a_return_in_time() -> None:
    """A later return comes too late; the will is decided at the time it was due."""
    made = Brokers()
    epoch = made.open(will=delayed(10))
    (gone,) = made.events(lost(epoch))
    assert isinstance(gone, SessionDisconnected)
    assert gone.will_waits
    made.now_ms += 9_999
    assert made.settle() == ()
    (opened,) = made.events(made.opening(will=delayed(10)))
    assert isinstance(opened, SessionOpened)
    assert opened.will_cancelled
    epoch, at_ms = made.offset - 1, made.now_ms
    made.do(lost(epoch))
    made.now_ms += 10_000
    events = made.settle()
    assert decided(events) == WillDecided(client="c", session_epoch=epoch, reason="delay passed", due_ms=at_ms + 10_000)
    assert kinds(events) == ["WillDecided", "WillHandedOver"]
    assert made.settle() == ()
    assert not made.events(made.opening())[0].will_cancelled  # type: ignore[union-attr]


def test_a_will_that_is_due_is_decided_by_whoever_comes_first() -> None:
    """Here the client itself, before the leader looked; the member that has it now publishes it."""
    made = Brokers()
    epoch = made.open(will=delayed(10))
    made.do(lost(epoch))
    made.now_ms += 10_000
    events = made.events(made.opening(member="b"))
    assert kinds(events) == ["WillDecided", "WillHandedOver", "SessionOpened"]
    assert (decided(events).reason, handed(events).member) == ("delay passed", "b")


def test_a_will_is_due_with_the_end_of_its_session_at_the_latest() -> None:
    """Both are one decision; a will outlives its session."""
    made = Brokers()
    epoch = made.open(expiry_s=5, will=delayed(99))
    made.do(lost(epoch))
    assert will_due_ms(made.state, made.session()) == made.now_ms + 5_000
    made.now_ms += 5_000
    events = made.settle()
    assert kinds(events) == ["WillDecided", "WillHandedOver", "SessionEnded"]
    assert decided(events).reason == "session ended"
    assert list(made.state.wills) == [epoch]
    epoch = made.open(will=delayed(99))
    assert decided(made.events(lost(epoch, end=True))).reason == "session ended"


@pytest.mark.parametrize(
    ("delay_s", "clean_start", "reason"), [(0, False, "taken over"), (9, False, ""), (9, True, "session ended")]
)
def test_a_take_over_of_a_connected_client(delay_s: int, reason: str, *, clean_start: bool) -> None:
    """Its will is published, unless it is delayed and the session goes on (section 3.1.3.2.2)."""
    made = Brokers()
    made.open(will=delayed(delay_s))
    events = made.events(made.opening(member="b", clean_start=clean_start))
    if reason:
        assert (decided(events).reason, handed(events).member) == (reason, "b")
    else:
        assert kinds(events) == ["SessionOpened"]


@pytest.mark.parametrize("expiry_s", [0, 60])
def test_a_take_over_ends_a_session_whose_expiry_is_0(expiry_s: int) -> None:
    """As its connection does, and whichever is told first: its will is published, whatever its delay, and the client
    that comes has no session before it (sections 3.1.2.11.2 and 3.1.4).
    """
    made = Brokers()
    made.open()
    epoch = made.open(expiry_s=0, will=delayed(9))
    opening = made.opening(member="b", expiry_s=expiry_s)
    decision = made.decide(opening)
    assert isinstance(decision, Decision)
    assert decision.reply == SessionIs(
        client="c", opened=expiry_s > 0, present=False, taken_over_from="a", replaced_epoch=epoch
    )
    events = made.events(opening)
    assert kinds(events) == ["WillDecided", "WillHandedOver", "SessionEnded", "SessionOpened"][: 4 if expiry_s else 3]
    assert (decided(events).reason, handed(events).member) == ("session ended", "b")
    assert isinstance(events[2], SessionEnded)
    assert (events[2].reason, events[2].session_epoch, events[2].disconnected_ms) == ("closed", epoch, 0)


def test_a_will_of_a_lost_member_goes_to_a_living_one_with_the_role() -> None:
    """To the same for the same clients, spread over all; to one that is to leave only if there is no other."""
    made = Brokers()
    for number in range(40):
        made.open(f"c{number}", will=WILL)
    for name in ("d", "e", "other"):
        made.epochs[name] = made.member(name, roles=("mqtt",) if name != "other" else ("journal",))
    made.do(DrainMember(name="e"))
    made.fence("a")
    events = made.settle()
    told = [event for event in events if isinstance(event, WillHandedOver)]
    assert Counter(event.member for event in told).keys() == {"b", "d"}
    assert told[0].candidates == 2
    assert told[0].reason.startswith("a is lost; ")
    made.fence("b")
    made.fence("d")
    events = made.events(HandOverWills(wills=tuple(made.state.wills)))
    assert {event.member for event in events if isinstance(event, WillHandedOver)} == {"e"}


def test_a_will_is_acknowledged_by_its_member_alone() -> None:
    """In the epoch in which it was given it; then it is no more."""
    made = Brokers()
    epoch = made.open(will=WILL)
    made.do(lost(epoch))
    mine = AcknowledgeWill(will=epoch, member="a", member_epoch=made.epochs["a"])
    assert made.refused(AcknowledgeWill(will=epoch, member="b", member_epoch=made.epochs["b"])).code == "WillIsOthers"
    assert made.refused(AcknowledgeWill(will=epoch, member="a", member_epoch=1)).code == "StaleMemberEpoch"
    assert made.refused(AcknowledgeWill(will=epoch, member="z", member_epoch=1)).code == "UnknownMember"
    assert made.events(mine) == (
        WillAcknowledged(session_epoch=epoch, client="c", member="a", member_epoch=made.epochs["a"]),
    )
    assert made.refused(mine).code == "UnknownWill"
    assert not made.state.wills


def test_a_will_is_handed_on_when_its_member_is_lost() -> None:
    """To the member that has the client's session by then, if one lives; and not while its own lives."""
    made = Brokers()
    epoch = made.open(will=WILL)
    made.do(lost(epoch))
    hand_over = HandOverWills(wills=(epoch, 12345))
    assert made.events(hand_over) == ()
    made.fence("a")
    told = handed(made.events(hand_over))
    assert (told.member, told.taken_from, told.payload) == ("b", "a", b"bye")
    made.hear("a")
    made.open(member="a")
    made.do(UnregisterMember(name="b", force=True))
    told = handed(made.events(hand_over))
    assert (told.member, told.taken_from, told.reason) == ("a", "b", "a has the client's session")


def test_a_will_that_nobody_can_publish_waits() -> None:
    """It is decided, and written no second time until somebody can."""
    made = Brokers()
    epoch = made.open(will=WILL)
    made.fence("b")
    made.fence("a")
    told = handed(made.settle())
    assert (told.member, told.member_epoch, told.candidates) == ("", 0, 0)
    assert [one.session_epoch for one in finished(waiting_wills(made.state, ""))] == [epoch]
    hand_over = HandOverWills(wills=(epoch,))
    assert made.events(hand_over) == ()
    made.hear("b")
    told = handed(made.events(hand_over))
    assert (told.member, told.taken_from) == ("b", "")
    assert told.reason.startswith("nobody could before; ")


@pytest.mark.parametrize("long", ["topic", "payload"])
def test_one_decision_hands_over_a_bounded_number_of_bytes(long: str) -> None:
    """The rest is for the next one; all of it is decided at last."""
    made = Brokers()
    most = rules.WILL_BYTES_MAX
    big = Will(topic="w" * most, payload=b"") if long == "topic" else Will(topic="w", payload=b"x" * most)
    for number in range(12):
        made.open(f"c{number}", will=big)
    made.fence("a")
    counts = []
    while events := made.settle():
        counts.append(len([event for event in events if isinstance(event, WillDecided)]))
    assert sum(counts) == 12
    assert len(counts) > 1
    assert max(counts) * rules.WILL_BYTES_MAX <= rules.SETTLED_BYTES_MAX + 2 * rules.WILL_BYTES_MAX
    made.epochs["d"] = made.member("d", roles=("mqtt",))
    made.fence("b")
    some = made.events(HandOverWills(wills=tuple(made.state.wills)))
    assert 0 < len(some) < 12
    assert len(some) * rules.WILL_BYTES_MAX <= handing.HANDED_BYTES_MAX + 2 * rules.WILL_BYTES_MAX


@given(st.lists(STEP, max_size=40))
def test_a_will_is_decided_once(steps: list[tuple[Any, ...]]) -> None:
    """Each opening's at most once, whatever happens; and it is with a living member, or waits until one lives."""
    made = Brokers()
    for step in steps:
        happen(made, step)
    told = Counter(event.session_epoch for event, _ in made.log if isinstance(event, WillDecided))
    assert not told or max(told.values()) == 1
    first = Counter(event.session_epoch for event, _ in made.log if isinstance(event, WillHandedOver))
    assert first.keys() == told.keys()
    made.do(HandOverWills(wills=tuple(made.state.wills)))
    lives = [name for name, epoch in made.epochs.items() if living(made.state, name, epoch)]
    for one in made.state.wills.values():
        assert living(made.state, one.member, one.member_epoch) is not None or not lives


def test_what_is_settled_is_asked_about_with_its_epoch() -> None:
    """A session that was opened again since is passed over."""
    made = Brokers()
    epoch = made.open(expiry_s=1, will=WILL)
    made.do(lost(epoch))
    made.open(expiry_s=1)
    made.now_ms += 9_000
    assert made.events(SettleSessions(sessions=(("c", epoch), ("nobody", 1)))) == ()
    assert isinstance(made.opening(), OpenSession)


def test_a_member_s_wills_are_found_some_a_step() -> None:
    """However many there are of others, and the oldest first whatever order they are kept in."""
    many = 10 * SORTED_PER_STEP
    kept = {
        epoch: HandedWill(session_epoch=epoch, client="c", will=WILL, member="ab"[epoch % 2], member_epoch=1)
        for epoch in range(many)
    }
    steps = waiting_wills(State(wills=Map(kept)), "a")
    assert sum(1 for _ in steps) == 10
    found = finished(waiting_wills(State(wills=Map(kept)), "a"))
    assert [one.session_epoch for one in found] == list(range(0, many, 2))
