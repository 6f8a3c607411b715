"""1003: a broker says where it serves (reference 2.4)."""

from typing import Any

import msgspec
import pytest

from quorate.events import BrokerAddressChanged, BrokerLifeBegan, BrokerRegistered, Event, MasterElected
from quorate.metadata import commands
from quorate.metadata.row_bounds import SET_BYTES_MAX
from quorate.model.rows import encoded
from tests.policies import JAVA
from tests.unit.metadata.kit import CREATE, World, applying, registering


def test_an_unknown_set_is_refused() -> None:
    """Java's 2010 for the set."""
    refusal = World().refused(registering(1))
    assert refusal.code == "BrokerSetNotRegistered"
    assert refusal.remark == "Broker-set: a hasn't been registered in controller"


def test_an_unallocated_id_is_refused() -> None:
    """Java's 2010 for the id."""
    world = World()
    world.do(applying(1))
    refusal = world.refused(registering(2))
    assert refusal.code == "BrokerNotRegistered"
    assert refusal.remark == "BrokerId: 2 hasn't been registered in broker-set: a"


def test_a_broker_of_another_cluster_is_refused_where_clusters_are_named() -> None:
    """1013 and 1003: of a cluster that is not served, and of one that is but is not the set's. Nothing is written."""
    world = World()
    world.broker(1)
    world.policy = msgspec.structs.replace(world.policy, broker_clusters=("C", "D"))
    for command in (applying(2), registering(1)):
        assert not isinstance(world.decide(command), commands.Refusal)
        for cluster, remark in (
            ("E", "The cluster 'E' is not served here; served: C, D"),
            ("D", "Broker-set: a is of the cluster 'C'"),
        ):
            refusal = world.refused(msgspec.structs.replace(command, cluster=cluster))
            assert (refusal.code, refusal.remark) == ("WrongCluster", remark)
    other = msgspec.structs.replace(applying(1), cluster="D", broker_set="b")
    assert not isinstance(world.decide(other), commands.Refusal)


def test_the_first_registration_is_a_fact_with_all_the_broker_said() -> None:
    """Capabilities and topics are kept, sorted."""
    world = World()
    world.do(applying(1))
    command = registering(1, address="h:9", capabilities={"z": "1", "b": "2"}, topics=["t2", "t1", "t2"])
    (event,) = world.events(command)
    assert event == BrokerRegistered(
        cluster="C",
        broker_set="a",
        broker_id=1,
        address="h:9",
        capabilities={"b": "2", "z": "1"},
        topics=("t1", "t2"),
    )
    replica = world.a.replica(1)
    assert replica is not None
    assert (replica.registered, replica.address, replica.topics) == (True, "h:9", ("t1", "t2"))


def test_registering_the_same_again_writes_nothing() -> None:
    """1003 is polled; only news are facts."""
    world = World()
    world.broker(1)
    assert world.events(registering(1)) == ()


def test_new_capabilities_are_news() -> None:
    """The address stays, so it is a registration."""
    world = World()
    world.broker(1)
    (event,) = world.events(registering(1, capabilities={"k": "v"}))
    assert isinstance(event, BrokerRegistered)


def test_a_changed_address_is_recorded_but_the_answer_shows_the_old_one() -> None:
    """Java computes its response before the update."""
    world = World()
    world.set_of(1)
    world.policy = msgspec.structs.replace(world.policy, living_broker_keeps_address=False)
    outcome = world.decide(registering(1, address="new:1"))
    reply = world.reply(registering(1, address="new:1"), commands.BrokerIsRegistered)
    assert reply.master_address == "10.0.0.1:10911"
    assert world.a.address(1) == "new:1"
    assert not isinstance(outcome, commands.Refusal)
    (event,) = outcome.events
    assert event == BrokerAddressChanged(
        cluster="C", broker_set="a", broker_id=1, old_address="10.0.0.1:10911", new_address="new:1"
    )


def counting(*, level: int = 2) -> World:
    """A cluster of that feature level, whose set has two brokers that count no lives."""
    world = World()
    world.do(msgspec.structs.replace(CREATE, feature_level=level))
    world.set_of(1, 2)
    return world


def lives(world: World, epoch: int, **said: Any) -> int:
    """Broker 2 registers as that life (0: a new one); the epoch it is told."""
    reply = world.reply(registering(2, registration_epoch=epoch, **said), commands.BrokerIsRegistered)
    told = reply.epoch_at(world.offset)
    assert told is not None
    return told


def test_a_new_life_is_told_its_epoch_and_ends_the_one_before() -> None:
    """The epoch is the offset of its event, so it grows. The life before is refused by name, and writes nothing."""
    world = counting()
    first = lives(world, 0)
    assert world.log[first][0] == BrokerLifeBegan(cluster="C", broker_set="a", broker_id=2, replaced_epoch=0)
    second = lives(world, 0)
    assert world.log[second][0] == BrokerLifeBegan(cluster="C", broker_set="a", broker_id=2, replaced_epoch=first)
    assert second > first
    refusal = world.refused(registering(2, registration_epoch=first))
    assert refusal.code == "StaleRegistrationEpoch"
    assert refusal.remark == f"BrokerId: 2 of broker-set: a registered again, in the epoch {second}; {first} is over"
    assert world.refused(registering(2, registration_epoch=-1)).code == "StaleRegistrationEpoch"


def test_the_same_life_keeps_its_epoch() -> None:
    """Registering again, with news or without, or at another address once it was silent."""
    world = counting()
    epoch = lives(world, 0)
    before = world.offset
    assert lives(world, epoch) == epoch
    assert world.offset == before
    assert lives(world, epoch, capabilities={"k": "v"}) == epoch
    world.heard(2, alive=False)
    assert lives(world, epoch, address="h:9") == epoch
    replica = world.a.replica(2)
    assert replica is not None
    assert (replica.registration_epoch, replica.address) == (epoch, "h:9")


def test_a_new_life_may_bring_news() -> None:
    """What it says of itself comes first, then that it began: the offset of the last event is its epoch."""
    world = counting()
    news = world.events(registering(2, registration_epoch=0, capabilities={"k": "v"}))
    assert [type(event) for event in news] == [BrokerRegistered, BrokerLifeBegan]
    world.heard(1, alive=False)
    moved_master = world.events(registering(1, registration_epoch=0, address="h:9"))
    assert [type(event) for event in moved_master] == [BrokerAddressChanged, MasterElected, BrokerLifeBegan]


def test_an_epoch_that_was_forgotten_with_its_id_begins_a_new_life() -> None:
    """Nobody else is that broker now."""
    world = counting()
    epoch = lives(world, 0)
    world.do(commands.CleanBrokerData(cluster="C", broker_set="a", broker_ids="2", clean_living=True))
    world.broker(2)
    assert lives(world, epoch) > epoch


def test_who_counts_no_lives_is_told_none_and_ends_none() -> None:
    """Stock brokers: taken as ever, whichever life was there."""
    world = counting()
    epoch = lives(world, 0)
    reply = world.reply(registering(2), commands.BrokerIsRegistered)
    assert reply.epoch_at(world.offset) is None
    assert lives(world, epoch) == epoch


def test_lives_need_the_feature_level_that_has_them() -> None:
    """Below it the epoch is 0 and nothing is written: some voter could not read it."""
    world = counting(level=1)
    before = world.offset
    assert lives(world, 0) == 0
    assert world.offset == before


def test_a_life_that_is_over_cleans_nothing() -> None:
    """1011 by a broker for itself: its id, and its epoch, which is the newest."""
    world = counting()
    first, second = lives(world, 0), lives(world, 0)
    clean = commands.CleanBrokerData(
        cluster="C", broker_set="a", broker_ids="2", clean_living=True, registration_epoch=first
    )
    assert world.refused(clean).code == "StaleRegistrationEpoch"
    for ids in (None, "1;2"):
        assert world.refused(msgspec.structs.replace(clean, broker_ids=ids)).code == "MissingField"
    unknown = msgspec.structs.replace(clean, broker_set="none")
    assert world.refused(unknown).code == "CleanOfUnknownBrokerSet"
    assert world.events(msgspec.structs.replace(clean, registration_epoch=second))
    assert world.a.replica(2) is None


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.1:0", "http://10.0.0.1:80", "a\x1b[2J:1", "a\r\nb:1", ":1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    """The controller connects to it, and shows it: it is a host and a port, and nothing else."""
    world = World()
    world.do(applying(1))
    assert world.refused(registering(1, address=address)).code == "InvalidAddress"


def moved(world: World, broker_id: int) -> tuple[Event, ...]:
    """What a registration at another address writes, once the broker is not heard any more."""
    world.heard(broker_id, alive=False)
    return world.events(registering(broker_id, address="10.9.9.9:10911"))


def test_a_living_broker_keeps_its_address() -> None:
    """A second address under its id is refused and changes nothing; once it is silent, it may have moved."""
    world = World()
    world.set_of(1, 2)
    refusal = world.refused(registering(2, address="10.9.9.9:10911"))
    assert refusal.code == "BrokerAlreadyServes"
    assert refusal.remark == "BrokerId: 2 of broker-set: a is alive at 10.0.0.2:10911"
    assert world.events(registering(2)) == ()
    (event,) = moved(world, 2)
    assert isinstance(event, BrokerAddressChanged)
    assert world.a.address(2) == "10.9.9.9:10911"


def test_who_the_cluster_does_not_hear_may_move() -> None:
    """Never heard is not alive: after a change of the controllers' leader nobody is held to an address."""
    world = World()
    world.set_of(1, 2)
    world.live.living.clear()
    assert world.events(registering(2, address="10.9.9.9:10911"))


def test_java_takes_the_second_address() -> None:
    """By the setting: the last who registers is the broker, and the master's epoch stays."""
    world = World()
    world.set_of(1, 2)
    world.policy = JAVA
    (event,) = world.events(registering(1, address="10.9.9.9:10911"))
    assert isinstance(event, BrokerAddressChanged)
    assert world.a.master_epoch == 1


def test_a_master_that_moved_leads_in_a_new_epoch() -> None:
    """Its replicas follow a new address only with a higher epoch, so the same decision has both."""
    world = World()
    world.set_of(1, 2, in_sync=(1, 2))
    change, election = moved(world, 1)
    assert isinstance(change, BrokerAddressChanged)
    assert isinstance(election, MasterElected)
    assert (election.old_master, election.master, election.master_address) == (1, 1, "10.9.9.9:10911")
    assert (election.master_epoch, election.sync_state_set, election.sync_state_set_epoch) == (2, (1,), 3)
    assert election.decided_by == "address changed"
    assert election.explanation == (
        "Broker 1 is master of a in epoch 2: it serves at 10.9.9.9:10911 now; "
        "it was the master before, and its replicas follow a new address only in a new epoch."
    )
    assert [one.verdict for one in election.candidates] == ["elected", "out"]
    assert (world.a.master, world.a.master_epoch, world.a.address(1)) == (1, 2, "10.9.9.9:10911")


def test_a_move_that_nobody_must_follow_takes_no_epoch() -> None:
    """Of a replica, of a master that is alone, and of a master whose set has no epoch left."""
    world = World()
    world.set_of(1)
    assert len(moved(world, 1)) == 1
    world = World()
    world.set_of(1, 2)
    assert len(moved(world, 2)) == 1
    world = World()
    world.set_of(1, 2)
    a = msgspec.structs.replace(world.a, master_epoch=2**31 - 1)
    world.state = msgspec.structs.replace(world.state, broker_sets=world.state.broker_sets.set("a", a))
    assert len(moved(world, 1)) == 1


def test_the_master_is_named_only_while_it_is_alive() -> None:
    """Without a living master, or asked with another cluster's name, only the set and its epoch are told."""
    world = World()
    world.set_of(1, 2, in_sync=(1, 2))
    reply = world.reply(registering(2), commands.BrokerIsRegistered)
    assert (reply.master, reply.master_address, reply.master_epoch) == (1, "10.0.0.1:10911", 1)
    assert reply.master_sync_state_set_epoch == reply.sync_state_set_epoch == 2
    world.heard(1, alive=False)
    reply = world.reply(registering(2), commands.BrokerIsRegistered)
    assert (reply.master, reply.master_address, reply.master_epoch) == (None, None, None)
    assert (reply.sync_state_set, reply.sync_state_set_epoch) == ((1, 2), 2)
    world.heard(1)
    other = registering(2, cluster="other")
    assert world.reply(other, commands.BrokerIsRegistered).master is None


@pytest.mark.parametrize(
    "command",
    [
        registering(1, address="h" * 4097),
        registering(1, capabilities={"": "v"}),
        registering(1, capabilities={"k": "v" * 4097}),
        registering(1, topics=[""]),
        registering(1, topics=[str(number) for number in range(10_001)]),
    ],
)
def test_unbounded_text_is_refused(command: commands.RegisterBroker) -> None:
    """What enters the log for ever is bounded."""
    world = World()
    world.do(applying(1))
    assert world.refused(command).code == "InvalidText"


def test_what_all_brokers_of_a_set_say_has_bounded_bytes() -> None:
    """It is one row. Brokers of thousands of topics fit; who would make it longer is refused, an id as well as a
    registration, and who says less or nothing new is not. A row from before there was a bound may shrink.
    """
    world = World()
    for broker_id in range(1, 10):
        world.do(applying(broker_id))
    topics = [f"{number:05d}{'x' * 45}" for number in range(9_999)]
    for broker_id in range(1, 9):
        assert world.events(registering(broker_id, topics=topics))
    assert len(encoded(world.a)) < SET_BYTES_MAX
    refusal = world.refused(registering(9, topics=topics))
    assert refusal.code == "BrokerSetTooLarge"
    assert refusal.remark == (
        "BrokerId: 9 would make broker-set: a larger than 4194304 bytes, with the topics and capabilities of all its "
        "brokers"
    )
    assert world.refused(registering(9, capabilities={str(number): "x" * 4000 for number in range(60)})) == refusal
    assert world.events(registering(9, topics=topics[:500]))
    said = msgspec.structs.replace(world.a.replicas[0], broker_id=10)
    old = msgspec.structs.replace(world.a, replicas=(*world.a.replicas, said))
    world.state = msgspec.structs.replace(world.state, broker_sets=world.state.broker_sets.set("a", old))
    assert world.refused(applying(11)).code == "BrokerSetTooLarge"
    assert world.refused(registering(1, topics=[*topics, "one-more"])).code == "BrokerSetTooLarge"
    assert world.events(registering(1, topics=topics)) == ()
    assert world.events(registering(1, topics=topics[1:]))
    assert len(encoded(world.a)) > SET_BYTES_MAX
