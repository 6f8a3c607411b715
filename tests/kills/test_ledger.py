"""The ledger can tell: each law has a log that breaks it."""

import pytest

from quorate.events import (
    ControllerLeaderElected,
    Event,
    KeyPut,
    LeaseEnded,
    LeaseGranted,
    SegmentSealed,
    SessionDisconnected,
    SessionEnded,
    SessionOpened,
    ShardDeleting,
    ShardGone,
    SubscriptionsChanged,
)
from tests.kills.cluster import LostError
from tests.kills.ledger import Ledger

GRANTED = LeaseGranted(lease=1, ttl_s=2)
ENDED = LeaseEnded(lease=1, reason="expired", keys=0, silent_ms=2000)
HELD = KeyPut(key="a", value=b"", lease=1, following=0)
GONE = SessionDisconnected(
    client="c", session_epoch=0, member="m", reason="lost", disconnected_ms=0, expiry_s=2, will_waits=False
)
EXPIRED = SessionEnded(client="c", session_epoch=0, member="m", reason="expired", disconnected_ms=0, subscriptions=0)


def opened(member: str) -> SessionOpened:
    return SessionOpened(
        client="c",
        member=member,
        member_epoch=9,
        clean_start=False,
        expiry_s=2,
        will_topic=None,
        will_payload=b"",
        will_qos=0,
        will_retain=False,
        will_delay_s=0,
        taken_over_from="",
        replaced_epoch=0,
        will_cancelled=False,
    )


def led(node: int) -> ControllerLeaderElected:
    return ControllerLeaderElected(node_id=node, cause="silent", previous_leader=None, silent_for_ms=0)


def ledger_of(*events: Event) -> Ledger:
    """One event a second, all in one term."""
    ledger = Ledger()
    for offset, event in enumerate(events):
        ledger.take(offset, 1, 1000 * (offset + 1), event)
    return ledger


@pytest.mark.parametrize(
    ("law", "events"),
    [
        ("one leader in a term", (led(1), led(2))),
        ("a lease begins once", (GRANTED, GRANTED)),
        ("ends, once", (GRANTED, ENDED, ENDED)),
        ("with its keys", (GRANTED, HELD, ENDED)),
        ("that has a key lives", (HELD,)),
        ("is due, not before", (opened("m"), GONE, EXPIRED)),
        (
            "last opening",
            (opened("m"), opened("n"), SubscriptionsChanged(client="c", session_epoch=0, added=(), removed=())),
        ),
        ("is to go", (ShardDeleting(shard="s", epoch=0, segments=1),)),
        ("that is to go", (ShardGone(shard="s", epoch=0),)),
    ],
)
def test_what_may_not_be_is_found(law: str, events: tuple[Event, ...]) -> None:
    """It is named."""
    with pytest.raises(LostError, match=law):
        ledger_of(*events)


def test_a_lease_and_a_session_that_end_in_their_time_are_no_fault() -> None:
    """And it is known when, and what is left."""
    gone = SessionDisconnected(
        client="c", session_epoch=1, member="m", reason="lost", disconnected_ms=3000, expiry_s=1, will_waits=False
    )
    expired = SessionEnded(
        client="c", session_epoch=1, member="m", reason="expired", disconnected_ms=3000, subscriptions=0
    )
    ledger = ledger_of(GRANTED, opened("m"), gone, expired, ENDED)
    assert ledger.ended_ms == {1: 5000}
    assert not ledger.leases
    assert not ledger.sessions
    assert ledger.given == {1: ("c", "m")}


def test_only_who_leads_a_segment_ends_it() -> None:
    """An epoch of before, or of nobody, is found."""
    sealed = SegmentSealed(segment="s/0", end_offset=1, leader="m", leader_epoch=0, reason="full")
    with pytest.raises(LostError, match="the last leader alone"):
        ledger_of(sealed)
