"""A lease lives as long as its holder is heard, on whichever node leads."""

from collections.abc import Callable
from math import ceil
from typing import Any

import pytest
from immutables import Map

from quorate.consensus.ports import Index, LeaderCause, NodeId
from quorate.controller import Answered, Refused
from quorate.controller.lease_keeper import LATE_S, PER_TURN, LeaseKeeper
from quorate.controller.settings import ControllerSettings
from quorate.events import KeyDeleted, LeaseCheckpointed, LeaseEnded, LeaseGranted
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
from quorate.model.ordered import OrderedMap
from quorate.model.state import Lease, State
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


def notes(bench: Bench) -> list[int]:
    """What was written down to be left of leases, so far; 0: a holder was heard."""
    return [event.remaining_s for event in facts(bench, 0) if isinstance(event, LeaseCheckpointed)]


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


def test_a_keep_alive_waits_for_a_lease_that_ends_and_is_granted_anew_in_flight() -> None:
    """The same number with the same time, and none of the keys that the first one had."""
    bench = keeping()
    bench.done(GrantLease(lease=7, ttl_s=2))
    ended, anew = bench.submit(RevokeLease(lease=7)), bench.submit(GrantLease(lease=7, ttl_s=2))
    kept = bench.submit(KeepLease(lease=7))
    bench.engine.confirm()
    assert (ended, anew, kept) == ([], [], [])
    bench.engine.commit()
    assert [outcome.offset for outcome in kept] == [bench.machine.offset]


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
    assert bench.controller.leases.left_ms(7) is None
    bench.open(term=2)
    passing(bench, 2.5)
    assert not ends(bench)
    passing(bench, 1.0)
    assert [ended.lease for ended in ends(bench)] == [7]


def test_what_is_left_is_written_down_so_that_leaders_do_not_begin_anew() -> None:
    """A holder that is gone is not kept alive by one fail-over after the other."""
    bench = keeping(lease_checkpoint_s=2.0, lease_grace_s=0.0)
    bench.done(GrantLease(lease=7, ttl_s=3))
    term = 1
    for _ in range(2):
        passing(bench, 1.3)
        bench.engine.lose(leader=2)
        term += 1
        bench.open(term)
    assert notes(bench) == [2, 1]
    passing(bench, 1.0)
    assert [ended.lease for ended in ends(bench)] == [7]


@pytest.mark.parametrize("reign_s", [0.6, 1.0, 1.7, 4.0, 7.9])
def test_leaders_that_follow_each_other_fast_keep_no_lease_alive(reign_s: float) -> None:
    """Its time, one leadership, the grace, and what a note may be late in each; the period of notes is far longer."""
    bench = keeping(lease_checkpoint_s=60.0, lease_grace_s=1.0)
    bench.done(GrantLease(lease=7, ttl_s=8))
    bench.done(PutKey(key=b"a", lease=7))
    for term in range(2, 2 + ceil((8 + reign_s + 1) * 1.2 / reign_s)):
        passing(bench, reign_s)
        bench.engine.lose(leader=2)
        bench.open(term)
    assert [ended.lease for ended in ends(bench)] == [7]
    assert b"a" not in bench.machine.state.keys


def test_a_lone_node_that_starts_again_and_again_keeps_no_lease_alive() -> None:
    """It does not know how long a note stood while it was another process; a third or more of each life counts."""
    bench = keeping(lease_checkpoint_s=60.0, lease_grace_s=1.0)
    bench.done(GrantLease(lease=7, ttl_s=40))
    for term in range(2, 7):
        passing(bench, 20.0)
        bench.engine.lose(leader=2)
        bench.controller.leases.installed(Index(1))
        bench.open(term)
    assert notes(bench) == [40, 39, 37, 33, 25, 24, 22, 18, 10, 9, 7, 3]
    assert [ended.lease for ended in ends(bench)] == [7]


def test_notes_that_are_renewed_are_written_many_in_an_entry() -> None:
    """Leaders that follow each other fast write for all leases again and again: that must not be an entry each."""
    bench = keeping(lease_checkpoint_s=60.0)
    for lease in range(1, 251):
        bench.done(GrantLease(lease=lease, ttl_s=40))
    for term in range(2, 4):
        bench.engine.lose(leader=2)
        bench.open(term)
        passing(bench, 0.5)
    assert notes(bench) == [40] * 250
    entries = len(bench.engine.log)
    passing(bench, 3.0)
    assert notes(bench)[250:] == [39] * 250 + [37] * 250
    assert len(bench.engine.log) - entries < 50


def test_a_note_that_could_not_be_written_is_written_soon() -> None:
    """Not after another period, in which the leader may change."""
    bench = keeping(in_flight_max=1, lease_checkpoint_s=4.0)
    bench.done(GrantLease(lease=7, ttl_s=100))
    bench.after(1.0)
    bench.submit(PutKey(key=b"a"))
    bench.after(1.5)
    assert notes(bench) == []
    passing(bench, 1.0)
    assert notes(bench) == [97]


@pytest.mark.parametrize("full", [True, False])
def test_what_is_kept_alive_does_not_end_because_a_queue_is_full(full: bool) -> None:
    """A keep-alive writes nothing, and needs no place among those that do."""
    bench = keeping(in_flight_max=1)
    bench.done(GrantLease(lease=7, ttl_s=2))
    if full:
        bench.submit(PutKey(key=b"a"))
    told = []
    for _ in range(8):
        bench.after(0.5)
        told += [bench.submit(KeepLease(lease=7))]
        bench.engine.confirm()
    bench.engine.commit()
    assert [type(outcome) for outcomes in told for outcome in outcomes] == [Answered] * 8
    passing(bench, 0.5)
    assert not ends(bench)


def test_a_node_that_stood_still_ends_no_lease_whose_word_waits() -> None:
    """What was said meanwhile is read after its timers; and a holder that says nothing then is silent indeed."""
    bench = keeping(lease_grace_s=1.0)
    bench.done(GrantLease(lease=7, ttl_s=2))
    bench.loop.pause()
    bench.after(2.0 + LATE_S + 0.5)
    bench.loop.resume()
    passing(bench, 0.8)
    assert not ends(bench)
    passing(bench, 0.6)
    assert [ended.lease for ended in ends(bench)] == [7]


def test_a_lease_whose_grant_is_in_flight_has_all_of_its_time() -> None:
    """Whoever asks behind it is answered when both are applied: that the lease is over is not so."""
    bench = keeping()
    bench.submit(GrantLease(lease=7, ttl_s=60))
    outcomes = bench.submit(AskLease(lease=7))
    bench.engine.commit()
    bench.engine.confirm()
    (outcome,) = outcomes
    assert isinstance(outcome, Answered)
    assert outcome.reply == LeaseIs(lease=7, ttl_s=60, left_s=60)


def test_a_holder_that_is_heard_is_kept_by_leaders_that_follow_each_other_fast() -> None:
    """However often what is left of its lease was written down."""
    bench = keeping(lease_grace_s=0.0)
    bench.done(GrantLease(lease=7, ttl_s=3))
    for term in range(2, 12):
        passing(bench, 1.0)
        bench.engine.lose(leader=2)
        bench.open(term)
        passing(bench, 1.0)
        bench.done(KeepLease(lease=7))
    assert not ends(bench)
    assert notes(bench)[:3] == [3, 0, 3]


@pytest.mark.parametrize("per_turn", [PER_TURN, 100])
def test_a_leader_that_led_for_long_leaves_nothing_to_be_written_down_at_once(
    monkeypatch: pytest.MonkeyPatch, per_turn: int
) -> None:
    """Whoever was not heard under it has a note; after a short one every lease gets one, many in an entry; in however
    many turns they are taken up.
    """
    monkeypatch.setattr("quorate.controller.lease_keeper.PER_TURN", per_turn)
    bench = keeping(lease_checkpoint_s=4.0)
    for lease in range(1, 251):
        bench.done(GrantLease(lease=lease, ttl_s=100))
    for _ in range(3):
        passing(bench, 1.5)
        for lease in range(1, 251):
            bench.done(KeepLease(lease=lease))
    bench.engine.lose(leader=2)
    bench.open(2)
    passing(bench, 0.5)
    assert notes(bench) == []
    bench.engine.lose(leader=2)
    entries = len(bench.engine.log)
    bench.open(3)
    passing(bench, 0.5)
    assert notes(bench) == [100] * 250
    assert len(bench.engine.log) - entries == 5  # The leader, and what comes before him; then 100, 100 and 50.


def test_a_node_that_saw_nothing_of_a_note_takes_nothing_from_it() -> None:
    """After a snapshot nobody here knows how long what was written down stands: it counts from then."""
    bench = keeping(lease_checkpoint_s=2.0, lease_grace_s=0.0)
    bench.done(GrantLease(lease=7, ttl_s=9))
    passing(bench, 4.0)
    bench.engine.lose(leader=2)
    passing(bench, 3.0)
    bench.controller.leases.installed(Index(1))
    passing(bench, 1.0)
    (left_s,) = {notes(bench)[-1]}
    bench.open(2)
    assert left_s - 1.2 <= (bench.controller.leases.left_ms(7) or 0) / 1000 <= left_s - 0.8


def test_the_time_without_a_leader_is_not_taken_from_a_note() -> None:
    """Nobody could be heard in it."""
    bench = keeping(lease_checkpoint_s=2.0, lease_grace_s=0.0)
    bench.done(GrantLease(lease=7, ttl_s=9))
    passing(bench, 2.0)
    left_s = (bench.controller.leases.left_ms(7) or 0) / 1000
    bench.engine.lose(leader=2)
    passing(bench, 5.0)
    bench.engine.lead(2, LeaderCause("silent", NodeId(2), 5_000))
    bench.engine.commit()
    assert left_s - 0.3 <= (bench.controller.leases.left_ms(7) or 0) / 1000 <= left_s + 0.3


def test_a_word_of_its_holder_takes_back_what_was_written_down() -> None:
    """Or the next leader would end it too early."""
    bench = keeping(lease_checkpoint_s=2.0, lease_grace_s=0.0)
    bench.done(GrantLease(lease=7, ttl_s=3))
    passing(bench, 1.3)
    bench.done(KeepLease(lease=7))
    assert notes(bench) == [2, 0]
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


class Turns:
    """A scheduler whose turns a test takes one by one; what is to be done later is not done. And a leader with many
    leases, each of 30 seconds, and a grace of 5.
    """

    def __init__(self, leases: int) -> None:
        self.now, self.waiting = 100.0, list[Callable[[], None]]()
        self.state = State(leases=Map((n, Lease(lease_id=n, ttl_s=30, granted_ms=1)) for n in range(1, leases + 1)))
        scheduler: Any = self
        settings = ControllerSettings(lease_grace_s=5.0)
        self.keeper = LeaseKeeper(lambda: self.state, scheduler, settings, lambda *_: None)

    def monotonic(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        pass

    def turn(self) -> None:
        """The next, a second later."""
        self.now += 1
        self.waiting.pop(0)()

    def unwatched(self, count: int) -> list[int]:
        """So many of those that are not taken up yet."""
        return [number for number in self.state.leases if number not in self.keeper._watched][:count]


def test_the_end_of_a_lease_takes_each_of_its_keys_out_of_one_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have thousands: what it holds goes at once, and not key by key."""
    bench, count = keeping(), 20
    bench.done(GrantLease(lease=7, ttl_s=600))
    for number in range(count):
        bench.done(PutKey(key=b"%d" % number, lease=7))
    deleted = list[bytes]()

    def delete(of: OrderedMap[Any], key: bytes) -> OrderedMap[Any]:
        deleted.append(key)
        return without(of, key)

    without = OrderedMap.delete
    before = bench.machine.state
    monkeypatch.setattr(OrderedMap, "delete", delete)
    bench.done(RevokeLease(lease=7))
    assert len(deleted) == count
    assert (len(before.keys), before.attached_bytes[7] > 0) == (count, True)
    assert not bench.machine.state.keys
    assert not bench.machine.state.attached
    assert not bench.machine.state.attached_bytes


def test_a_leader_takes_up_its_leases_some_a_turn() -> None:
    """Heartbeats come in between; whenever one is taken up, its time is that of the beginning, and so is what whoever
    asks is told of it before.
    """
    turns = Turns(5_000)
    turns.keeper.opened(2)
    watched = [len(turns.keeper._watched)]
    (last,) = turns.unwatched(1)
    assert turns.keeper.left_ms(last) == 35_000
    while turns.waiting:
        turns.turn()
        watched.append(len(turns.keeper._watched))
        assert turns.keeper.left_ms(last) == 35_000 - (turns.now - 100) * 1_000
    assert max(after - before for before, after in zip([0, *watched], watched, strict=False)) == PER_TURN
    assert watched[-1] == 5_000
    assert {lease.ends for lease in turns.keeper._watched.values()} == {135.0}
    assert {lease.heard for lease in turns.keeper._watched.values()} == {100.0}


def test_what_comes_of_leases_before_they_are_taken_up_counts() -> None:
    """One that is heard lives from that word; one that ended is not watched; one that was granted anew has its own
    time, and no grace.
    """
    turns = Turns(2_000)
    turns.keeper.opened(2)
    turns.turn()
    heard, ended, anew, gone = turns.unwatched(4)
    turns.now = 120.0
    turns.keeper.heard(heard)
    turns.state = State(leases=turns.state.leases.delete(ended))
    for number in (ended, anew):
        turns.keeper.committed([(7, LeaseEnded(lease=number, reason="revoked", keys=0, silent_ms=0))])
    turns.keeper.committed([(8, LeaseGranted(lease=anew, ttl_s=30))])
    while turns.waiting:
        turns.turn()
    ends = {number: watched.ends for number, watched in turns.keeper._watched.items()}
    assert (ends[heard], ends[anew], ends[gone]) == (150.0, 150.0, 135.0)
    assert (ended in ends, len(ends)) == (False, 1_999)
    assert turns.keeper.left_ms(ended) is None


def test_a_leader_that_is_none_any_more_takes_nothing_up() -> None:
    """Nor when it leads again: what it began before has ended, and its leases have the time of that."""
    turns = Turns(2_000)
    turns.keeper.opened(2)
    turns.keeper.lost()
    assert turns.keeper.left_ms(1) is None
    turns.turn()
    assert (turns.keeper._watched, turns.waiting) == ({}, [])
    turns.keeper.opened(3)
    turns.keeper.lost()
    turns.now = 200.0
    turns.keeper.opened(4)
    while turns.waiting:
        turns.turn()
    assert {lease.ends for lease in turns.keeper._watched.values()} == {235.0}
