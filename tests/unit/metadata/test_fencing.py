"""Fenced, back again, and how an election reached the brokers."""

import msgspec
import pytest

from quorate.errors import InvariantBrokenError
from quorate.events import (
    Acknowledgement,
    BrokerFenced,
    BrokerUnfenced,
    Event,
    MasterElected,
    RoleChangeAcknowledged,
    Stamp,
    SyncStateSetAltered,
)
from quorate.metadata import commands
from quorate.metadata.commands import (
    AcknowledgedBy,
    AcknowledgeRoleChanges,
    FenceBroker,
    RoleChangeDelivery,
    UnfenceBroker,
)
from quorate.model.evolve import evolve
from tests.unit.metadata.kit import World

FENCE = FenceBroker(
    cluster="C", broker_set="a", broker_id=1, evidence="heartbeat expired", last_heartbeat_ms=10, detected_ms=20
)
UNFENCE = UnfenceBroker(cluster="C", broker_set="a", broker_id=1, detected_ms=30)


def fenced(world: World) -> bool:
    """Is broker 1 of the set fenced?"""
    replica = world.a.replica(1)
    assert replica is not None
    return replica.fenced


def test_fencing_and_unfencing_are_facts_once() -> None:
    """With the evidence and the times; a second time nothing is written."""
    world = World()
    world.set_of(1)
    assert world.events(FENCE) == (
        BrokerFenced(
            cluster="C",
            broker_set="a",
            broker_id=1,
            evidence="heartbeat expired",
            last_heartbeat_ms=10,
            detected_ms=20,
            proposed_ms=1000,
        ),
    )
    assert fenced(world)
    assert world.events(FENCE) == ()
    assert world.events(UNFENCE) == (
        BrokerUnfenced(cluster="C", broker_set="a", broker_id=1, detected_ms=30, proposed_ms=1000),
    )
    assert not fenced(world)
    assert world.events(UNFENCE) == ()


def test_a_fenced_master_is_replaced_in_the_same_decision() -> None:
    """Both facts are one entry: no reader sees a set whose master is given up and none elected for it."""
    world = World()
    world.set_of(1, 2, in_sync=(1, 2))
    world.heard(1, alive=False)
    given_up, elected = world.events(FENCE)
    assert isinstance(given_up, BrokerFenced)
    assert isinstance(elected, MasterElected)
    assert (elected.master, elected.trigger, elected.evidence) == (2, "master lost", "heartbeat expired")
    assert (elected.last_heartbeat_ms, elected.detected_ms) == (10, 20)
    assert (world.a.master, world.a.master_epoch) == (2, 2)


def test_a_fenced_master_nobody_can_replace_leaves_a_failed_election() -> None:
    """And says so, once."""
    world = World()
    world.set_of(1)
    world.heard(1, alive=False)
    assert [type(event).__name__ for event in world.events(FENCE)] == ["BrokerFenced", "ElectionFailed"]
    assert world.a.master is None


def test_fencing_who_is_no_master_or_is_heard_after_all_elects_nobody() -> None:
    """A slave has no successor; a master that the live table believes alive stays."""
    world = World()
    world.set_of(1, 2)
    assert len(world.events(msgspec.structs.replace(FENCE, broker_id=2))) == 1
    assert len(world.events(FENCE)) == 1
    assert (world.a.master, world.a.master_epoch) == (1, 1)


@pytest.mark.parametrize("command", [FENCE, UNFENCE])
def test_strangers_are_neither_fenced_nor_unfenced(command: FenceBroker | UnfenceBroker) -> None:
    """An unknown set or id: nothing to write."""
    world = World()
    assert world.events(command) == ()
    world.broker(1, "b")
    assert world.events(msgspec.structs.replace(command, broker_set="b", broker_id=9)) == ()


def test_what_is_heard_of_another_cluster_says_nothing_of_this_one() -> None:
    """A broker of the same name and id elsewhere dies, or comes back: nothing to write here."""
    world = World()
    world.set_of(1)
    assert world.events(msgspec.structs.replace(FENCE, cluster="D")) == ()
    world.events(FENCE)
    assert world.events(msgspec.structs.replace(UNFENCE, cluster="D")) == ()
    assert fenced(world)


def delivered(world: World) -> RoleChangeDelivery:
    """What the controller says once every broker answered the last election."""
    assert world.a.election is not None
    return RoleChangeDelivery(
        broker_set="a",
        master_epoch=world.a.master_epoch,
        election_offset=world.a.election.offset,
        committed_ms=40,
        acks=(AcknowledgedBy(2, 50, 0), AcknowledgedBy(1, 50, 60)),
    )


def test_the_delivery_of_an_election_is_recorded_once() -> None:
    """By broker id; a second report writes nothing."""
    world = World()
    world.set_of(1, 2)
    delivery = delivered(world)
    command = AcknowledgeRoleChanges(deliveries=(delivery,))
    (event,) = world.events(command)
    assert event == RoleChangeAcknowledged(
        cluster="C",
        broker_set="a",
        master_epoch=1,
        election_offset=delivery.election_offset,
        committed_ms=40,
        acks=(
            Acknowledgement(broker_id=1, notified_ms=50, acknowledged_ms=60),
            Acknowledgement(broker_id=2, notified_ms=50, acknowledged_ms=0),
        ),
    )
    assert world.a.election is not None
    assert world.a.election.acknowledged
    assert world.events(command) == ()


def test_a_superseded_election_is_not_acknowledged() -> None:
    """Neither by another epoch nor by another offset; the others of the decision are."""
    world = World()
    world.set_of(1, 2)
    right = delivered(world)
    for other in ({"master_epoch": 7}, {"election_offset": 7_000}):
        wrong = msgspec.structs.replace(right, **other)
        assert world.events(AcknowledgeRoleChanges(deliveries=(wrong,))) == ()
    strange = msgspec.structs.replace(right, broker_set="b")
    (event,) = world.events(AcknowledgeRoleChanges(deliveries=(strange, right)))
    assert isinstance(event, RoleChangeAcknowledged)
    assert event.broker_set == "a"


def test_a_delivery_told_twice_in_one_decision_is_recorded_once() -> None:
    """The later word counts."""
    world = World()
    world.set_of(1, 2)
    later = delivered(world)
    earlier = msgspec.structs.replace(later, acks=())
    (event,) = world.events(AcknowledgeRoleChanges(deliveries=(earlier, later)))
    assert isinstance(event, RoleChangeAcknowledged)
    assert [ack.broker_id for ack in event.acks] == [1, 2]


def test_a_set_without_an_election_has_nothing_to_acknowledge() -> None:
    """Unknown set, or a set nobody was elected in."""
    world = World()
    delivery = RoleChangeDelivery(broker_set="a", master_epoch=0, election_offset=0, committed_ms=0, acks=())
    command = AcknowledgeRoleChanges(deliveries=(delivery,))
    assert world.events(command) == ()
    world.broker(1)
    assert world.events(command) == ()


@pytest.mark.parametrize(
    "event",
    [
        SyncStateSetAltered(
            cluster="C", broker_set="x", master=1, master_epoch=1, old=(), new=(1,), sync_state_set_epoch=1
        ),
        BrokerUnfenced(cluster="C", broker_set="a", broker_id=9, detected_ms=0, proposed_ms=0),
        RoleChangeAcknowledged(cluster="C", broker_set="a", master_epoch=0, election_offset=0, committed_ms=0, acks=()),
    ],
)
def test_an_event_no_decision_can_have_written_stops_the_node(event: Event) -> None:
    """An unknown set, an unknown id, an acknowledgement without an election: the state cannot be explained."""
    world = World()
    world.broker(1)
    with pytest.raises(InvariantBrokenError):
        evolve(world.state, event, Stamp(offset=9, term=1, time_ms=0))


def test_registering_does_not_unfence() -> None:
    """Only being heard does."""
    world = World()
    world.set_of(1)
    world.do(FENCE)
    command = commands.RegisterBroker(cluster="C", broker_set="a", broker_id=1, address="new:1")
    assert world.events(command)
    assert fenced(world)
