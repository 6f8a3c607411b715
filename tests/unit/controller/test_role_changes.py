"""Every living replica is told of an election until it has heard it, and that is recorded once."""

from quorate.controller import Liveness, RoleChanges
from quorate.events import RoleChangeAcknowledged
from quorate.metadata.commands import ChangeConfig
from tests.unit.controller.bench import Bench, Line
from tests.unit.controller.test_liveness import facts


def pushing(*, acknowledge: bool | None) -> tuple[Bench, RoleChanges]:
    """An open term with role changes pushed to brokers that answer so."""
    bench = Bench()
    Liveness(bench.controller, bench.loop, bench.brokers, bench.wire, bench.settings)
    pushes = RoleChanges(bench.controller, bench.loop, bench.brokers, bench.settings)
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
    from quorate.metadata.commands import ElectMaster

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


def test_pushing_can_be_switched_off() -> None:
    """With notifyBrokerRoleChanged=false nobody is called; brokers poll."""
    bench, _ = pushing(acknowledge=True)
    bench.done(ChangeConfig(scope="controller", changes={"notifyBrokerRoleChanged": "false"}))
    bench.broker_set([Line()])
    assert bench.brokers.notified == []
