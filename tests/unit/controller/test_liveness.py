"""Deaths become facts only on evidence, and only the leader acts on them."""

import tracemalloc
from collections.abc import Callable
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from quorate.controller import ControllerSettings, DialResult, Liveness, messages
from quorate.controller import liveness as liveness_rules
from quorate.controller.liveness import LOOKS_PER_SLICE
from quorate.events import BrokerFenced, BrokerUnfenced, Event, MasterElected
from quorate.metadata.commands import ApplyBrokerId, CleanBrokerData
from quorate.wire.avro import decode_events
from tests.stand_ins import Heartbeat
from tests.unit.controller.bench import Bench, Line


def watched(brokers: int = 3, *, scan_round: int = 0) -> tuple[Bench, list[Line], Liveness]:
    """An open term, liveness watching, one broker set whose master is broker 1; nothing is looked at in turn."""
    bench = Bench(settings=ControllerSettings(scan_round=scan_round))
    liveness = Liveness(bench.controller, bench.loop, bench.brokers, bench.wire, bench.settings)
    bench.controller.listeners.add(liveness)
    bench.open()
    liveness.start()
    lines = [Line() for _ in range(brokers)]
    bench.broker_set(lines)
    return bench, lines, liveness


def facts(bench: Bench, since: int) -> list[Event]:
    """Events from an offset on."""
    found: list[Event] = []
    for _, batch in bench.store.scan("events"):
        found += [event for stamp, event in decode_events(batch) if stamp.offset >= since]
    return found


def closed_elsewhere(bench: Bench, *broker_ids: int) -> None:
    """Controller 2 says that its channels to these brokers of the set closed."""
    note = messages.BrokersClosed(tuple(("c", "a", broker_id) for broker_id in broker_ids))
    bench.controller.receive(2, messages.encode(note))


def test_a_heartbeat_of_a_living_broker_is_only_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn of the loop is asked for, no timer set, nothing proposed or read, no line written; and a thousand of them
    keep less than a byte each, so no task, object or row is left of a beat. It is heard all the same.
    """
    bench, (line, *_), _ = watched()
    entry = bench.controller.live.get("c", "a", 1)
    assert entry is not None
    beats = [Heartbeat("c", "a", 1, "127.0.0.1:30001", 0, 1000 + number) for number in range(1000)]
    asked: list[object] = []
    for name in ("call_soon", "call_later"):
        monkeypatch.setattr(bench.loop, name, lambda *call: asked.append(call))
    before = len(bench.engine.log), list(bench.lines)
    bench.world.now += 1.0
    bench.controller.heartbeat(beats[0], line)
    tracemalloc.start(4)
    try:
        with capture_logs() as logged:
            for beat in beats:
                bench.controller.heartbeat(beat, line)
        found = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    assert (asked, logged, bench.engine.reads) == ([], [], [])
    assert (len(bench.engine.log), bench.lines) == before
    ours = tracemalloc.Filter(inclusive=True, filename_pattern="*/quorate/controller/*", all_frames=True)
    assert sum(trace.size for trace in found.filter_traces([ours]).traces) < len(beats)
    assert (entry.seen, entry.max_offset) == (bench.world.now, 1999)


def test_a_close_confirmed_by_a_refused_dial_replaces_the_master() -> None:
    """Master killed: its connection closes, nobody listens at its address: fenced, and another one elected at once."""
    bench, lines, _ = watched()
    bench.in_sync(1, 2, 3)
    before = bench.controller.offset
    bench.brokers.dial_result = "refused"
    bench.controller.channel_closed(lines[0])
    bench.settle()
    fenced, elected = facts(bench, before)
    assert isinstance(fenced, BrokerFenced)
    assert (fenced.broker_id, fenced.evidence) == (1, "connection closed")
    assert isinstance(elected, MasterElected)
    assert elected.master in (2, 3)
    assert {c.broker_id: c.out_by for c in elected.candidates}[1] == "not alive"


def test_an_unconfirmed_close_waits_for_the_timeout() -> None:
    """A close that nothing confirms is no death; silence is, after the timeout."""
    bench, lines, _ = watched()
    before = bench.controller.offset
    bench.brokers.dial_result = "accepted"
    bench.controller.channel_closed(lines[0])
    for _ in range(8):
        bench.after(1.0)
        bench.beat(lines[1], 2)
        bench.beat(lines[2], 3)
        bench.settle()
    assert facts(bench, before) == []
    for _ in range(4):
        bench.after(1.0)
        bench.beat(lines[1], 2)
        bench.beat(lines[2], 3)
        bench.settle()
    (fenced, *_) = facts(bench, before)
    assert isinstance(fenced, BrokerFenced)
    assert (fenced.broker_id, fenced.evidence) == (1, "heartbeat expired")


def test_a_second_controller_whose_channel_closed_too_confirms() -> None:
    """Two independent closes since the last heartbeat are a death, in whichever order they are seen."""
    for other_first in (False, True):
        bench, lines, _ = watched()
        bench.after(0.5)
        before = bench.controller.offset
        if other_first:
            closed_elsewhere(bench, 1)
            bench.controller.channel_closed(lines[0])
        else:
            bench.controller.channel_closed(lines[0])
            closed_elsewhere(bench, 1)
        bench.settle()
        assert isinstance(facts(bench, before)[0], BrokerFenced)


def test_a_close_seen_elsewhere_older_than_the_last_heartbeat_confirms_nothing() -> None:
    """What another controller lost before the broker was last heard here is history."""
    bench, lines, _ = watched()
    bench.after(0.5)
    closed_elsewhere(bench, 1)
    bench.after(0.5)
    bench.beat(lines[0], 1)
    before = bench.controller.offset
    bench.controller.channel_closed(lines[0])
    bench.settle()
    assert facts(bench, before) == []


def test_a_follower_reports_closed_channels_to_the_leader() -> None:
    """A follower that sees a close tells the leader, and decides nothing itself."""
    bench, lines, _ = watched()
    bench.engine.lose(2)
    bench.wire.sent.clear()
    bench.brokers.dial_result = "refused"
    bench.controller.channel_closed(lines[0])
    bench.after(0.01)
    ((peer, payload),) = bench.wire.sent
    assert (peer, messages.decode(payload)) == (2, messages.BrokersClosed((("c", "a", 1),)))
    assert bench.brokers.dials == []


def test_what_closes_in_one_turn_is_told_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rack goes: the leader is not called once for each broker; but a message has a bound."""
    bench, lines, _ = watched(brokers=3)
    bench.engine.lose(2)
    bench.wire.sent.clear()
    monkeypatch.setattr(liveness_rules, "CLOSED_PER_MESSAGE", 2)
    for line in lines:
        bench.controller.channel_closed(line)
    bench.after(0.01)
    told = [(peer, messages.decode(payload)) for peer, payload in bench.wire.sent]
    assert told == [
        (2, messages.BrokersClosed((("c", "a", 1), ("c", "a", 2)))),
        (2, messages.BrokersClosed((("c", "a", 3),))),
    ]


def test_a_new_leader_acts_on_what_it_saw_as_a_follower() -> None:
    """A master that died while nobody led is replaced as soon as somebody does."""
    bench, lines, _ = watched()
    bench.engine.lose(None)
    bench.controller.channel_closed(lines[0])
    bench.brokers.dial_result = "refused"
    before = bench.controller.offset
    bench.open(2)
    bench.settle()
    kinds = [type(event).__name__ for event in facts(bench, before)]
    assert kinds == ["ControllerLeaderElected", "BrokerFenced", "ElectionFailed"]


def test_never_heard_is_neither_candidate_nor_fenced_for_one_timeout() -> None:
    """A fresh leader that has not heard a broker yet does not declare it dead."""
    bench, _, _ = watched()
    bench.engine.lose(None)
    fresh = Bench()
    for term, entry in bench.engine.log:
        fresh.engine.log.append((term, entry))
    fresh.engine.commit()
    liveness = Liveness(fresh.controller, fresh.loop, fresh.brokers, fresh.wire, fresh.settings)
    fresh.controller.listeners.add(liveness)
    fresh.open(5)
    liveness.start()
    before = fresh.controller.offset
    for _ in range(9):
        fresh.after(1.0)
        fresh.settle()
    assert facts(fresh, before) == []
    for _ in range(12):
        fresh.after(1.0)
        fresh.settle()
    assert {type(event).__name__ for event in facts(fresh, before)} >= {"BrokerFenced"}


def third_fenced() -> tuple[Bench, Liveness]:
    """Three brokers of which the third was killed, half a second before the next scan."""
    bench, lines, liveness = watched()
    bench.brokers.dial_result = "refused"
    bench.controller.channel_closed(lines[2])
    bench.settle()
    assert isinstance(facts(bench, 0)[-1], BrokerFenced)
    bench.after(liveness._next_scan - bench.world.now - 0.5)
    return bench, liveness


def test_a_fenced_broker_heard_again_is_unfenced_after_a_while() -> None:
    """Coming back is a fact too, once it has lasted a second; a scan that finds it back for less changes nothing."""
    bench, liveness = third_fenced()
    before, scan = bench.controller.offset, liveness._next_scan
    bench.beat(Line(), 3)
    bench.after(0.6)
    bench.settle()
    assert liveness._next_scan > scan
    assert facts(bench, before) == []
    bench.after(0.9)
    bench.settle()
    (unfenced,) = facts(bench, before)
    assert isinstance(unfenced, BrokerUnfenced)
    assert unfenced.broker_id == 3
    assert bench.settings.unfence_after_s == 1.0


def test_a_broker_that_comes_and_goes_stays_fenced() -> None:
    """Each return counts from its own first heartbeat: those that do not last for a second change nothing, however many
    they are; the one that lasts does.
    """
    bench, _ = third_fenced()
    before = bench.controller.offset
    for _ in range(6):
        line = Line()
        bench.beat(line, 3)
        bench.after(0.6)
        bench.settle()
        bench.controller.channel_closed(line)
        bench.settle()
        assert facts(bench, before) == []
    bench.beat(Line(), 3)
    bench.after(2.1)
    bench.settle()
    assert [type(event) for event in facts(bench, before)] == [BrokerUnfenced]


def test_when_most_brokers_vanish_at_once_the_leader_first_proves_its_quorum() -> None:
    """If it is the leader that fell off the network, nobody is fenced."""
    bench, lines, _ = watched(brokers=5)
    before = bench.controller.offset
    bench.brokers.dial_result = "refused"
    for line in lines:
        bench.controller.channel_closed(line)
    bench.after(0.01)
    assert bench.engine.reads
    bench.engine.confirm(ok=False)
    bench.engine.commit()
    assert facts(bench, before) == []


def quiet(bench: Bench, seconds: float, lines: list[Line]) -> None:
    """Time passes; those with a line are heard each second, commits and confirmations happen."""
    for _ in range(int(seconds)):
        bench.after(1.0)
        for broker_id, line in enumerate(lines, start=1):
            bench.beat(line, broker_id)
        bench.settle()


def test_unproven_after_a_mass_loss_the_scan_fences_nobody_either() -> None:
    """A leader that cannot confirm its leadership proposes nothing about the brokers it lost, however long it lasts."""
    bench, lines, _ = watched(brokers=5)
    before = len(bench.engine.log)
    bench.brokers.dial_result = "refused"
    for line in lines:
        bench.controller.channel_closed(line)
    for _ in range(40):
        bench.after(0.1)
        bench.engine.confirm(ok=False)
    assert len(bench.engine.log) == before
    bench.settle(2)
    bench.after(1.0)
    bench.settle(10)
    assert any(isinstance(event, BrokerFenced) for event in facts(bench, 0))


def test_those_that_died_long_ago_do_not_hide_a_mass_loss() -> None:
    """The share is of the living: all of the rest at once is a mass loss, whatever the graveyard holds."""
    bench, lines, _ = watched(brokers=10)
    bench.brokers.dial_result = "refused"
    for line in lines[5:]:
        bench.controller.channel_closed(line)
        bench.settle(2)
        bench.after(1.1)
        for broker_id, alive in enumerate(lines[:5], start=1):
            bench.beat(alive, broker_id)
    bench.settle(20)
    before = len(bench.engine.log)
    for line in lines[:5]:
        bench.controller.channel_closed(line)
    bench.after(0.01)
    assert bench.engine.reads
    bench.engine.confirm(ok=False)
    assert len(bench.engine.log) == before


def test_a_node_that_slept_listens_before_it_fences() -> None:
    """Paused for longer than the brokers' patience: their heartbeats wait in its sockets, so nobody is dead yet."""
    bench, lines, _ = watched()
    before = bench.controller.offset
    bench.after(0.5)
    bench.loop.pause()
    bench.after(30.0)
    bench.loop.resume()
    bench.after(0.01)
    for broker_id, line in enumerate(lines, start=1):
        bench.beat(line, broker_id)
    quiet(bench, 3, lines)
    assert facts(bench, before) == []
    for _ in range(30):
        bench.after(1.0)
        bench.settle()
    assert any(isinstance(event, BrokerFenced) for event in facts(bench, before))


def test_a_refused_dial_counts_only_for_the_close_it_was_made_for() -> None:
    """The broker came back and its channel closed again: what an old dial found is history."""
    bench, lines, _ = watched()
    waiting: list[Callable[[DialResult], None]] = []
    bench.brokers.dial = lambda _, done: waiting.append(done)  # type: ignore[method-assign,assignment]
    bench.controller.channel_closed(lines[0])
    bench.after(0.1)
    back = Line()
    bench.beat(back, 1)
    bench.after(0.1)
    bench.controller.channel_closed(back)
    before = bench.controller.offset
    waiting[0]("refused")
    bench.settle(3)
    assert facts(bench, before) == []
    waiting[1]("refused")
    bench.settle(3)
    assert isinstance(facts(bench, before)[0], BrokerFenced)


def test_two_closes_far_apart_confirm_nothing() -> None:
    """A second observer outside the window sees another close; inside it, it is the same death."""
    for gap_s, confirmed in ((6.0, False), (3.0, True)):
        bench, lines, _ = watched()
        bench.after(0.5)
        before = bench.controller.offset
        bench.controller.channel_closed(lines[0])
        bench.after(gap_s)
        closed_elsewhere(bench, 1)
        bench.settle(2)
        assert bool(facts(bench, before)) is confirmed


def test_a_close_of_a_broker_nobody_heard_here_is_nothing() -> None:
    """No entry, no death."""
    bench, _, _ = watched()
    bench.controller.receive(2, messages.encode(messages.BrokersClosed((("c", "nobody", 1),))))
    assert bench.controller.live.get("c", "nobody", 1) is None


def test_a_close_seen_while_nobody_leads_is_told_to_nobody() -> None:
    """Without a leader there is nobody to report to; the evidence stays here."""
    bench, lines, _ = watched()
    bench.engine.lose(None)
    bench.wire.sent.clear()
    bench.controller.channel_closed(lines[0])
    assert bench.wire.sent == []
    entry = bench.controller.live.get("c", "a", 1)
    assert entry is not None
    assert entry.suspect


def test_a_follower_keeps_no_list_of_deaths() -> None:
    """However many brokers die while this node follows, nothing grows."""
    bench, _, liveness = watched()
    bench.engine.lose(2)
    for number in range(50):
        bench.controller.heartbeat(Heartbeat("c", f"set{number}", 1, "127.0.0.1:1", timeout_ms=500), Line())
        bench.after(2.0)
    assert len(liveness._recent) <= 2
    assert liveness._dead == []


def test_the_dead_that_no_set_holds_are_forgotten() -> None:
    """Strangers and cleaned ids leave the table, so that it is not full of them and their ids can be given again."""
    bench, lines, _ = watched(scan_round=2)
    bench.controller.heartbeat(Heartbeat("c", "stranger", 1, "127.0.0.1:1", timeout_ms=500), Line())
    bench.controller.heartbeat(Heartbeat("other", "a", 1, "127.0.0.1:1", timeout_ms=500), Line())
    assert len(bench.controller.live) == 5
    quiet(bench, 4, lines)
    assert len(bench.controller.live) == 3
    bench.brokers.dial_result = "refused"
    bench.controller.channel_closed(lines[2])
    bench.settle()
    bench.done(CleanBrokerData(cluster="c", broker_set="a", broker_ids="3"))
    quiet(bench, 3, lines[:2])
    assert bench.controller.live.get("c", "a", 3) is None
    assert bench.controller.live.get("c", "a", 1) is not None


def test_an_id_given_again_after_a_clean_is_not_fenced_for_its_former_holder() -> None:
    """The new holder has one timeout to be heard, as everybody has; then it is missed."""
    bench, lines, _ = watched()
    quiet(bench, 12, lines[:2])
    bench.done(CleanBrokerData(cluster="c", broker_set="a", broker_ids="3"))
    quiet(bench, 3, lines[:2])
    before = bench.controller.offset
    apply = ApplyBrokerId(cluster="c", broker_set="a", broker_id=3, register_check_code="127.0.0.1:39999;1")
    bench.done(apply)
    quiet(bench, 8, lines[:2])
    assert [type(event).__name__ for event in facts(bench, before)] == ["BrokerIdApplied"]
    quiet(bench, 6, lines[:2])
    assert [type(event).__name__ for event in facts(bench, before)] == ["BrokerIdApplied", "BrokerFenced"]
    bench.done(CleanBrokerData(cluster="c", broker_set="a", broker_ids="3"))
    quiet(bench, 2, lines[:2])
    bench.done(apply)
    before = bench.controller.offset
    quiet(bench, 8, lines[:2])
    assert facts(bench, before) == []


def test_a_set_without_a_master_gets_one_when_somebody_is_back() -> None:
    """All dead: one ElectionFailed. The first in sync that is heard again is elected by the scan."""
    bench, lines, _ = watched(brokers=1)
    bench.brokers.dial_result = "refused"
    before = bench.controller.offset
    bench.controller.channel_closed(lines[0])
    quiet(bench, 12, [])
    assert [type(event).__name__ for event in facts(bench, before)] == ["BrokerFenced", "ElectionFailed"]
    quiet(bench, 8, [Line()])
    elected = [event for event in facts(bench, before) if isinstance(event, MasterElected)]
    assert [(event.master, event.trigger) for event in elected] == [(1, "inactive master scan")]


def test_a_stopped_watch_asks_for_nothing() -> None:
    """After stop neither closes nor silence lead to a command."""
    bench, lines, liveness = watched()
    before = len(bench.engine.log)
    liveness.stop()
    bench.brokers.dial_result = "refused"
    bench.controller.channel_closed(lines[0])
    quiet(bench, 15, [])
    assert len(bench.engine.log) == before


def test_many_sets_are_looked_at_in_slices() -> None:
    """More sets than one slice holds: all of them are reconciled, over more than one turn."""
    bench, _, _ = watched()
    number = LOOKS_PER_SLICE + 20
    for one in range(number):
        bench.done(ApplyBrokerId(cluster="c", broker_set=f"s{one}", broker_id=1, register_check_code=f"h{one}:1;1"))
    before = bench.controller.offset
    quiet(bench, 25, [])
    fenced = {event.broker_set for event in facts(bench, before) if isinstance(event, BrokerFenced)}
    assert len(fenced) == number + 1


def test_a_dead_broker_that_came_back_before_anybody_acted_is_left_alone() -> None:
    """Marked dead, and heard again in the same turn: there is no failover."""
    bench, lines, _ = watched()
    before = bench.controller.offset
    bench.brokers.dial_result = "refused"
    bench.controller.channel_closed(lines[0])
    bench.beat(Line(), 1)
    bench.settle(2)
    assert facts(bench, before) == []


def test_of_many_deaths_one_is_acted_on_at_a_time() -> None:
    """However many brokers die together, the loop has time for other work between any two of them."""
    bench, lines, _ = watched(brokers=14)
    rest_s = bench.settings.failover_pause_s
    before = len(bench.engine.log)
    closed_elsewhere(bench, *range(9, 15))
    for line in lines[8:]:
        bench.controller.channel_closed(line)
    seen: list[float] = []
    for _ in range(100):
        bench.after(rest_s / 10)
        assert len(bench.engine.log) - before <= len(seen) + 1
        if len(bench.engine.log) - before > len(seen):
            seen.append(bench.world.now)
    assert len(seen) == 6
    assert all(later - earlier >= rest_s * 0.8 for earlier, later in pairwise(seen))
    assert seen[-1] - seen[0] <= rest_s * 8


def test_deaths_that_wait_for_their_turn_die_with_the_leadership() -> None:
    """Whoever leads next looks at everything itself."""
    bench, lines, _ = watched(brokers=14)
    closed_elsewhere(bench, *range(9, 15))
    for line in lines[8:]:
        bench.controller.channel_closed(line)
    bench.after(bench.settings.failover_pause_s * 0.9)
    bench.engine.lose(2)
    before = len(bench.engine.log)
    bench.after(1.0)
    assert len(bench.engine.log) == before


def test_what_a_second_observer_confirms_meanwhile_is_not_dialled() -> None:
    """A rack goes: one suspect is dialled in a turn, and those whose death is confirmed by then are not."""
    bench, lines, _ = watched(brokers=9)
    bench.brokers.dial_result = "unknown"
    before = bench.controller.offset
    for line in lines[6:]:
        bench.controller.channel_closed(line)
    closed_elsewhere(bench, 7, 8, 9)
    bench.settle(2)
    assert bench.brokers.dials == []
    assert sum(isinstance(event, BrokerFenced) for event in facts(bench, before)) == 3


def test_suspects_nobody_has_confirmed_count_when_a_mass_loss_is_judged() -> None:
    """Most brokers vanish; the first confirmed death is not acted on before the quorum is proven, though the others
    are still being dialled.
    """
    bench, lines, _ = watched(brokers=5)
    before = len(bench.engine.log)
    for line in lines[1:]:
        bench.controller.channel_closed(line)
    closed_elsewhere(bench, 2)
    bench.after(0.01)
    assert bench.engine.reads
    bench.engine.confirm(ok=False)
    bench.after(0.01)
    assert len(bench.engine.log) == before
