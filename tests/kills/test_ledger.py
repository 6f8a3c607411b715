"""The ledger can tell: each law has a log that breaks it."""

import pytest

from quorate.events import (
    ControllerLeaderElected,
    Event,
    InSyncCopy,
    KeyPut,
    LeaseEnded,
    LeaseGranted,
    PlacedCopy,
    SegmentCopyDeleted,
    SegmentCreated,
    SegmentInSyncAltered,
    SegmentLeaderElected,
    SegmentSealed,
    SessionDisconnected,
    SessionEnded,
    SessionOpened,
    ShardCreated,
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
COPIES = tuple(PlacedCopy(member=name, member_epoch=9, place="", holds=0, leads=0) for name in "mn")
SHARD: tuple[Event, ...] = (
    ShardCreated(shard="s", replication=2, min_in_sync=1, spread="", require={}),
    SegmentCreated(segment="s/0", start_offset=0, copies=COPIES, explanation=""),
)
"""Epoch 0; m leads in 1."""
SEALED = SegmentSealed(segment="s/0", end_offset=5, leader="m", leader_epoch=1, reason="sealed")
TO_GO = ShardDeleting(shard="s", epoch=0, segments=1)
WENT = ShardGone(shard="s", epoch=0)
ALONE = SegmentInSyncAltered(
    segment="s/0",
    leader="m",
    leader_epoch=1,
    old=("m", "n"),
    new=(InSyncCopy(member="m", member_epoch=9),),
    set_epoch=1,
)


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


def elected(member: str, epoch: int = 9) -> SegmentLeaderElected:
    return SegmentLeaderElected(
        segment="s/0",
        trigger="fenced",
        old_leader="m",
        leader=member,
        member_epoch=epoch,
        in_sync=(InSyncCopy(member=member, member_epoch=epoch),),
        set_epoch=2,
        candidates=(),
        decided_by="",
        explanation="",
        unclean=False,
    )


def deleted(member: str) -> SegmentCopyDeleted:
    return SegmentCopyDeleted(segment="s/0", member=member, member_epoch=9, reason="deleted", left=0)


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
        ("there is to go", (TO_GO,)),
        ("goes that is to go", (WENT,)),
        ("with its last copy", (*SHARD, TO_GO, deleted("m"), WENT)),
        ("deleted, once", (*SHARD, TO_GO, deleted("m"), deleted("m"))),
        ("copy that is to go", (*SHARD, deleted("m"))),
        ("ends once", (*SHARD, SEALED, SEALED)),
        ("alone ends a segment", (*SHARD, elected("n"), SEALED)),
        ("alone says who", (*SHARD, elected("n"), ALONE)),
        ("elected was in sync", (*SHARD, ALONE, elected("n"))),
        ("elected was in sync", (*SHARD, elected("n"), elected("m"))),
        ("elected was in sync", (*SHARD, elected("n", epoch=10))),
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


@pytest.mark.parametrize(("terms", "across"), [((1, 1, 1, 1, 1), 0), ((1, 1, 1, 1, 2), 1), ((1, 1, 1, 2, 2), 1)])
def test_a_deletion_that_another_term_ends_is_counted(terms: tuple[int, ...], across: int) -> None:
    """Each copy that was deleted is known, and where the segment ended."""
    ledger = Ledger()
    events: tuple[Event, ...] = (*SHARD, TO_GO, deleted("m"), deleted("n"), WENT)
    for offset, (term, event) in enumerate(zip((*terms, terms[-1]), events, strict=True)):
        ledger.take(offset, term, 0, event)
    assert (ledger.across, ledger.gone, ledger.deleting) == (across, {("s", 0)}, {})
    assert ledger.copies == {(0, "s/0", "m"), (0, "s/0", "n")}
    assert ledger_of(*SHARD, SEALED).ends == {(0, "s/0"): 5}


def test_only_who_leads_a_segment_ends_it() -> None:
    """An epoch of before, or of nobody, is found."""
    sealed = SegmentSealed(segment="s/0", end_offset=1, leader="m", leader_epoch=0, reason="full")
    with pytest.raises(LostError, match="the last leader alone"):
        ledger_of(sealed)
