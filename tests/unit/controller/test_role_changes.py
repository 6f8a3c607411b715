"""Every living replica is told of an election until it has heard it, and that is recorded once."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from quorate.controller import Answered, Liveness, RoleChange, RoleChanges, role_changes
from quorate.controller.settings import ControllerSettings
from quorate.events import RoleChangeAcknowledged
from quorate.metadata.commands import (
    AlterSyncStateSet,
    ApplyBrokerId,
    ChangeConfig,
    CleanBrokerData,
    ElectMaster,
    FenceBroker,
    RegisterBroker,
)
from tests.stand_ins import Heartbeat
from tests.unit.controller.bench import Bench, Line
from tests.unit.controller.test_liveness import facts


def pushing(*, acknowledge: bool | None) -> tuple[Bench, RoleChanges]:
    """An open term with role changes pushed to brokers that answer so."""
    bench = Bench()
    liveness = Liveness(bench.controller, bench.loop, bench.brokers, bench.wire, bench.settings)
    pushes = RoleChanges(bench.controller, bench.loop, bench.brokers, bench.settings)
    bench.controller.listeners.add(liveness, pushes)
    bench.brokers.acknowledge = acknowledge
    bench.open()
    return bench, pushes


def test_an_election_is_pushed_to_every_living_replica_and_its_delivery_recorded() -> None:
    """All acknowledge: one RoleChangeAcknowledged naming each with its times."""
    bench, pushes = pushing(acknowledge=True)
    bench.broker_set([Line(), Line()])
    bench.settle()
    assert sorted(address for address, _, _ in bench.brokers.notified) == ["127.0.0.1:30001", "127.0.0.1:30002"]
    assert {change.master_epoch for _, change, _ in bench.brokers.notified} == {1}
    recorded = [event for event in facts(bench, 0) if isinstance(event, RoleChangeAcknowledged)]
    assert [[ack.broker_id for ack in event.acks] for event in recorded] == [[1, 2]]
    assert all(ack.acknowledged_ms for ack in recorded[0].acks)
    assert len(pushes) == 0
    election = bench.machine.state.broker_sets["a"].election
    assert election is not None
    assert election.acknowledged


def test_a_push_that_fails_is_repeated_and_recorded_with_who_is_missing() -> None:
    """No acknowledgement: again with back-off; after the limit the record says who had not answered; still pushed."""
    bench, pushes = pushing(acknowledge=False)
    bench.broker_set([Line()])
    lines = Line()
    for _ in range(8):
        bench.after(1.0)
        bench.beat(lines, 1)
        bench.settle()
    assert 3 <= len(bench.brokers.notified) <= 8
    recorded = [event for event in facts(bench, 0) if isinstance(event, RoleChangeAcknowledged)]
    assert [(ack.broker_id, ack.acknowledged_ms) for ack in recorded[0].acks] == [(1, 0)]
    assert len(recorded) == 1
    bench.brokers.acknowledge = True
    for _ in range(12):
        bench.after(1.0)
        bench.beat(lines, 1)
    assert len(pushes) == 0


def test_a_later_election_supersedes_the_push_of_an_earlier_one() -> None:
    """An acknowledgement of an old epoch completes nothing."""
    bench, pushes = pushing(acknowledge=None)
    bench.broker_set([Line(), Line()])
    bench.in_sync(1, 2)
    old = list(bench.brokers.notified)
    bench.done(ElectMaster(cluster="c", broker_set="a", broker_id=2, designate=True, trigger="admin"))
    bench.settle()
    for _, _, done in old:
        done(True)
    assert len(pushes) == 1


def test_a_new_leader_finishes_what_was_not_recorded() -> None:
    """An election whose delivery is not in the log is pushed again by the next leader."""
    bench, pushes = pushing(acknowledge=None)
    bench.broker_set([Line()])
    bench.engine.lose(2)
    assert len(pushes) == 0
    before = len(bench.brokers.notified)
    bench.open(2)
    assert len(bench.brokers.notified) == before + 1


def test_a_new_leader_pushes_a_few_elections_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it stands still for nobody's heartbeats: the oldest first, and none once it leads no more."""
    monkeypatch.setattr(role_changes, "PER_TURN", 2)
    bench, pushes = pushing(acknowledge=None)
    for name in "cabed":
        bench.broker_set([Line()], name=name)
    bench.engine.lose(2)
    later: list[Callable[[], None]] = []
    monkeypatch.setattr(bench.loop, "call_soon", later.append)
    for term, turns in (2, 1), (3, 4):
        bench.brokers.notified.clear()
        bench.open(term)
        assert list(pushes._pushes) == ["c", "a"]
        for _ in range(turns):
            turn, later[:] = tuple(later), []
            for call in turn:
                call()
        if term == 2:
            assert list(pushes._pushes) == ["c", "a", "b", "e"]
            bench.engine.lose(2)
    assert list(pushes._pushes) == ["c", "a", "b", "e", "d"]
    assert len(bench.brokers.notified) == 5


def test_pushing_can_be_switched_off() -> None:
    """With notifyBrokerRoleChanged=false nobody is called; brokers poll."""
    bench, _ = pushing(acknowledge=True)
    bench.done(ChangeConfig(scope="controller", changes={"notifyBrokerRoleChanged": "false"}))
    bench.broker_set([Line()])
    assert bench.brokers.notified == []


def election(bench: Bench, master: int) -> None:
    """An administrator moves the master of set a."""
    bench.done(ElectMaster(cluster="c", broker_set="a", broker_id=master, designate=True, trigger="admin"))


def test_a_cleaned_replica_ends_its_own_push_only() -> None:
    """The others are still told, and the delivery is still recorded."""
    bench, pushes = pushing(acknowledge=None)
    lines = [Line(), Line(), Line()]
    bench.broker_set(lines)
    bench.in_sync(1, 2, 3)
    bench.brokers.notified.clear()
    election(bench, 2)
    calls = {address: done for address, _, done in bench.brokers.notified}
    bench.controller.channel_closed(lines[2])
    bench.done(CleanBrokerData(cluster="c", broker_set="a", broker_ids="3", clean_living=True))
    calls["127.0.0.1:30003"](False)
    bench.after(0.3)
    calls["127.0.0.1:30001"](True)
    assert len(pushes) == 1
    calls["127.0.0.1:30002"](True)
    bench.settle()
    assert len(pushes) == 0
    recorded = [event for event in facts(bench, 0) if isinstance(event, RoleChangeAcknowledged)]
    assert [ack.broker_id for ack in recorded[-1].acks] == [1, 2]


def test_two_elections_in_one_slice_are_pushed_once() -> None:
    """Only the later one is told: nobody is to follow a master that is none any more."""
    bench, pushes = pushing(acknowledge=None)
    bench.broker_set([Line(), Line()])
    bench.in_sync(1, 2)
    bench.brokers.notified.clear()
    epoch = bench.machine.state.broker_sets["a"].sync_state_set_epoch + 1
    bench.submit(ElectMaster(cluster="c", broker_set="a", broker_id=2, designate=True, trigger="admin"))
    bench.submit(
        AlterSyncStateSet(broker_set="a", master=2, master_epoch=2, sync_state_set=(1, 2), sync_state_set_epoch=epoch)
    )
    bench.submit(ElectMaster(cluster="c", broker_set="a", broker_id=1, designate=True, trigger="admin"))
    bench.engine.commit()
    assert len(pushes) == 1
    assert [(change.master, change.master_epoch) for _, change, _ in bench.brokers.notified] == [(1, 3), (1, 3)]


def test_an_election_committed_after_the_leadership_ended_is_the_next_leaders_to_push() -> None:
    """This node only tells its caller; it calls no broker as a follower."""
    bench, pushes = pushing(acknowledge=None)
    bench.broker_set([Line(), Line()])
    bench.in_sync(1, 2)
    bench.brokers.notified.clear()
    outcomes = bench.submit(ElectMaster(cluster="c", broker_set="a", broker_id=2, designate=True, trigger="admin"))
    bench.engine.lose(2)
    bench.engine.commit()
    assert isinstance(outcomes[0], Answered)
    assert bench.brokers.notified == []
    assert len(pushes) == 0


def test_an_election_nobody_living_can_hear_of_is_recorded_and_leaves_nothing() -> None:
    """No living replica, no push; after the limit the record says so, and nothing is kept."""
    bench, pushes = pushing(acknowledge=None)
    bench.done(ApplyBrokerId(cluster="c", broker_set="a", broker_id=1, register_check_code="h:1;1"))
    bench.done(ElectMaster(cluster="c", broker_set="a", broker_id=1))
    assert bench.brokers.notified == []
    bench.after(5.1)
    bench.settle()
    recorded = [event for event in facts(bench, 0) if isinstance(event, RoleChangeAcknowledged)]
    assert [event.acks for event in recorded] == [()]
    assert len(pushes) == 0


def test_a_heartbeat_with_the_new_epoch_is_as_good_as_an_acknowledgement() -> None:
    """A broker that polled first need not be told again; no request it did not answer is counted as answered."""
    bench, pushes = pushing(acknowledge=False)
    line = Line()
    bench.broker_set([line])
    bench.controller.heartbeat(Heartbeat("c", "a", 1, "127.0.0.1:30001", epoch=1, max_offset=5), line)
    bench.settle()
    bench.after(0.5)
    bench.settle()
    assert len(pushes) == 0
    assert bench.metrics.role_changes_acknowledged == 0
    assert bench.metrics.role_changes_failed == 1


def test_a_push_to_a_broker_that_died_or_was_superseded_ends() -> None:
    """Fenced or silent: not called again. Another epoch: the old push is dropped."""
    bench, pushes = pushing(acknowledge=False)
    line = Line()
    bench.broker_set([line])
    entry = bench.controller.live.get("c", "a", 1)
    assert entry is not None
    bench.controller.live.mark_dead(entry, "connection closed", bench.world.now)
    calls = len(bench.brokers.notified)
    bench.after(1.0)
    bench.settle()
    assert (len(pushes), len(bench.brokers.notified)) == (0, calls)
    bench.beat(line, 1)
    fence = FenceBroker(
        cluster="c", broker_set="a", broker_id=1, evidence="heartbeat expired", last_heartbeat_ms=0, detected_ms=0
    )
    bench.done(fence)
    bench.done(CleanBrokerData(cluster="c", broker_set="a", broker_ids=None, clean_living=True))
    bench.broker_set([line])
    bench.brokers.acknowledge = None
    assert len(pushes) == 1
    bench.done(CleanBrokerData(cluster="c", broker_set="a", broker_ids=None, clean_living=True))
    bench.after(0.5)
    assert len(pushes) == 0


def test_the_waits_between_two_pushes_double_up_to_half_a_minute() -> None:
    """A quarter of a second, then twice the last wait, and never more than 30 s, for as long as it is not heard."""
    bench, _ = pushing(acknowledge=None)
    at: list[float] = []

    def notify(_address: str, _change: RoleChange, done: Callable[[bool], None]) -> None:
        at.append(bench.world.now)
        done(False)

    bench.brokers.notify = notify  # type: ignore[method-assign,assignment]
    line = Line()
    bench.broker_set([line])
    for _ in range(4):
        bench.beat(line, 1, timeout_ms=60_000)
        bench.after(35.0)
    waits = [then - before for before, then in pairwise(at)]
    assert waits == pytest.approx([0.25, 0.5, 1, 2, 4, 8, 16, 30, 30, 30], abs=2 * bench.settings.deadline_sweep_s)


def test_a_broker_that_was_fenced_is_not_called_again() -> None:
    """Though it is heard: its part in the push ends, the others are told on, and the record names only those."""
    bench, pushes = pushing(acknowledge=False)
    lines = [Line(), Line()]
    bench.broker_set(lines)
    bench.done(
        FenceBroker(
            cluster="c", broker_set="a", broker_id=2, evidence="heartbeat expired", last_heartbeat_ms=0, detected_ms=0
        )
    )
    assert bench.controller.live.at(bench.world.now).alive("c", "a", 2)
    bench.brokers.notified.clear()
    bench.after(1.0)
    assert {address for address, _, _ in bench.brokers.notified} == {"127.0.0.1:30001"}
    bench.brokers.acknowledge = True
    bench.after(1.0)
    bench.settle()
    assert len(pushes) == 0
    recorded = [event for event in facts(bench, 0) if isinstance(event, RoleChangeAcknowledged)]
    assert [[ack.broker_id for ack in event.acks] for event in recorded] == [[1]]


def test_a_retry_goes_where_the_broker_serves_now() -> None:
    """A broker that moved between two tries is called at its new address."""
    bench, _ = pushing(acknowledge=False)
    line = Line()
    bench.broker_set([line])
    entry = bench.controller.live.get("c", "a", 1)
    assert entry is not None
    bench.controller.live.forget(entry)
    bench.done(RegisterBroker(cluster="c", broker_set="a", broker_id=1, address="127.0.0.1:31111"))
    bench.beat(line, 1)
    bench.after(0.5)
    assert bench.brokers.notified[-1][0] == "127.0.0.1:31111"


def test_deliveries_of_a_moment_are_one_entry() -> None:
    """Three sets lose their masters together: what their brokers acknowledge is recorded in one decision, or in as few
    as the limit allows.
    """
    for most, entries in ((64, 1), (2, 2)):
        bench = Bench(settings=ControllerSettings(role_push_gather_max=most))
        liveness = Liveness(bench.controller, bench.loop, bench.brokers, bench.wire, bench.settings)
        pushes = RoleChanges(bench.controller, bench.loop, bench.brokers, bench.settings)
        bench.controller.listeners.add(liveness, pushes)
        bench.brokers.acknowledge = None
        bench.open()
        for name in "abc":
            bench.broker_set([Line()], name=name)
        before, offset = len(bench.engine.log), bench.controller.offset
        for _, _, done in bench.brokers.notified:
            done(True)
        bench.after(bench.settings.role_push_gather_s * 0.9)
        assert len(bench.engine.log) == before
        bench.after(1.0)
        bench.settle()
        assert len(bench.engine.log) - before == entries
        recorded = facts(bench, offset)
        assert [event.broker_set for event in recorded if isinstance(event, RoleChangeAcknowledged)] == ["a", "b", "c"]
        assert len(recorded) == 3
        assert len(pushes) == 0
