"""A lease lives as long as its holder is heard, on whichever node leads."""

from typing import Any

from quorate.controller import Answered, Refused
from quorate.controller.settings import ControllerSettings
from quorate.events import KeyDeleted, LeaseCheckpointed, LeaseEnded
from quorate.metadata.commands import (
    AskLease,
    GrantLease,
    KeepLease,
    LeaseIs,
    PutKey,
    RaiseFeatureLevel,
    RecordNodeStart,
    RevokeLease,
)
from tests.unit.controller.bench import ADDRESSES, Bench
from tests.unit.controller.test_liveness import facts


def keeping(**settings: Any) -> Bench:
    """An open term of level 2."""
    bench = Bench(settings=ControllerSettings(**settings))
    bench.open()
    bench.done(RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2))
    bench.done(RaiseFeatureLevel(level=2))
    return bench


def passing(bench: Bench, seconds: float) -> None:
    """Let time pass, with whatever it brings committed."""
    for _ in range(round(seconds * 10)):
        bench.after(0.1)
        bench.engine.commit()
        bench.engine.confirm()


def ends(bench: Bench) -> list[LeaseEnded]:
    """Of leases, so far."""
    return [event for event in facts(bench, 0) if isinstance(event, LeaseEnded)]


def left_s(bench: Bench, lease: int) -> int:
    """As whoever asks is told."""
    outcome = bench.done(AskLease(lease=lease))
    assert isinstance(outcome, Answered)
    assert isinstance(outcome.reply, LeaseIs)
    return outcome.reply.left_s


def test_a_lease_that_is_not_heard_ends_with_its_keys() -> None:
    """Not before its time, and soon after it; the event says how long its holder was silent."""
    bench = keeping()
    bench.done(GrantLease(lease=7, ttl_s=2))
    bench.done(PutKey(key=b"a", lease=7))
    passing(bench, 1.8)
    assert b"a" in bench.machine.state.keys
    passing(bench, 0.8)
    assert b"a" not in bench.machine.state.keys
    (ended,) = ends(bench)
    assert (ended.reason, ended.keys) == ("expired", 1)
    assert 2_000 <= ended.silent_ms <= 2_400
    assert [event.key for event in facts(bench, 0) if isinstance(event, KeyDeleted)] == ["a"]


def test_a_lease_that_is_heard_lives_on() -> None:
    """Its whole time from each word; nothing is written for it."""
    bench = keeping()
    bench.done(GrantLease(lease=7, ttl_s=2))
    end = bench.machine.offset
    for _ in range(5):
        passing(bench, 1.5)
        outcome = bench.done(KeepLease(lease=7))
        assert isinstance(outcome, Answered)
        assert outcome.reply == LeaseIs(lease=7, ttl_s=2)
    assert bench.machine.offset == end
    assert left_s(bench, 7) in (1, 2)
    passing(bench, 2.5)
    assert [ended.lease for ended in ends(bench)] == [7]
    assert isinstance(bench.done(KeepLease(lease=7)), Refused)


def test_a_keep_alive_is_answered_by_who_leads_still() -> None:
    """Not before its leadership is confirmed."""
    bench = keeping()
    bench.done(GrantLease(lease=7, ttl_s=2))
    outcomes = bench.submit(KeepLease(lease=7))
    bench.engine.commit()
    assert not outcomes
    bench.engine.confirm()
    assert len(outcomes) == 1


def test_a_keep_alive_waits_for_writes_about_its_lease_alone() -> None:
    """Others' may be in flight; while its end is, nobody is told that it is kept."""
    bench = keeping()
    bench.done(GrantLease(lease=7, ttl_s=2))
    applied = bench.machine.offset
    written, kept = bench.submit(PutKey(key=b"k", lease=7)), bench.submit(KeepLease(lease=7))
    bench.engine.confirm()
    assert (written, kept) == ([], [Answered(LeaseIs(lease=7, ttl_s=2), applied)])
    revoked, late = bench.submit(RevokeLease(lease=7)), bench.submit(KeepLease(lease=7))
    bench.engine.confirm()
    assert (revoked, late) == ([], [])
    bench.engine.commit()
    assert [type(outcome) for outcome in (*revoked, *late)] == [Answered, Refused]


def test_a_revoked_lease_does_not_expire_too() -> None:
    """One end, and one that is granted anew under its number lives its own time."""
    bench = keeping()
    bench.done(GrantLease(lease=7, ttl_s=2))
    bench.done(RevokeLease(lease=7))
    passing(bench, 1.5)
    bench.done(GrantLease(lease=7, ttl_s=2))
    passing(bench, 1.5)
    assert [ended.reason for ended in ends(bench)] == ["revoked"]
    passing(bench, 1.5)
    assert [ended.reason for ended in ends(bench)] == ["revoked", "expired"]


def test_a_new_leader_gives_a_lease_its_time_and_grace() -> None:
    """Whoever led before expires nothing any more."""
    bench = keeping(lease_grace_s=1.0)
    bench.done(GrantLease(lease=7, ttl_s=2))
    passing(bench, 1.5)
    bench.engine.lose(leader=2)
    passing(bench, 5)
    assert not ends(bench)
    assert bench.controller.leases.left_ms(7) == 0
    bench.open(term=2)
    passing(bench, 2.5)
    assert not ends(bench)
    passing(bench, 1.0)
    assert [ended.lease for ended in ends(bench)] == [7]


def test_what_is_left_is_written_down_so_that_leaders_do_not_begin_anew() -> None:
    """A holder that is gone is not kept alive by one fail-over after the other."""
    bench = keeping(lease_checkpoint_s=1.0, lease_grace_s=0.0)
    bench.done(GrantLease(lease=7, ttl_s=3))
    term = 1
    for _ in range(2):
        passing(bench, 1.3)
        bench.engine.lose(leader=2)
        term += 1
        bench.open(term)
    noted = [event.remaining_s for event in facts(bench, 0) if isinstance(event, LeaseCheckpointed)]
    assert noted == [2, 1]
    passing(bench, 1.3)
    assert [ended.lease for ended in ends(bench)] == [7]


def test_a_word_of_its_holder_takes_back_what_was_written_down() -> None:
    """Or the next leader would end it too early."""
    bench = keeping(lease_checkpoint_s=1.0, lease_grace_s=0.0)
    bench.done(GrantLease(lease=7, ttl_s=3))
    passing(bench, 1.3)
    bench.done(KeepLease(lease=7))
    assert [event.remaining_s for event in facts(bench, 0) if isinstance(event, LeaseCheckpointed)] == [2, 0]
    bench.engine.lose(leader=2)
    bench.open(2)
    assert 2 <= left_s(bench, 7) <= 3


def test_an_end_that_could_not_be_decided_is_tried_again() -> None:
    """A full queue is no reason for a lease to live for ever."""
    bench = keeping(in_flight_max=1)
    bench.done(GrantLease(lease=7, ttl_s=1))
    bench.submit(PutKey(key=b"a"))
    bench.after(1.5)
    assert not ends(bench)
    passing(bench, 1.5)
    assert [ended.lease for ended in ends(bench)] == [7]
