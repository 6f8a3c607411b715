"""1011: forgetting a set, or ids of it (reference 2.11, 3.1)."""

import pytest

from quorate.events import BrokerDataCleaned
from quorate.metadata import commands
from quorate.metadata.commands import CleanBrokerData
from quorate.model.queries import NextBrokerId, NextBrokerIdIs, answer
from tests.policies import JAVA
from tests.unit.metadata.kit import LOST, World, applying, registering


def clean(ids: str | None = None, *, living: bool = False, cluster: str = "C") -> CleanBrokerData:
    """1011 for set ``a``."""
    return CleanBrokerData(cluster=cluster, broker_set="a", broker_ids=ids, clean_living=living)


def world_of_two(*, alive: bool) -> World:
    """Master 1, in sync 1 and 2."""
    world = World()
    world.set_of(1, 2, in_sync=(1, 2))
    for broker_id in (1, 2):
        world.heard(broker_id, alive=alive)
    return world


def test_a_set_with_a_recorded_master_is_not_cleaned_as_a_whole() -> None:
    """Java takes a recorded master for a living one, even a dead one, and blanks for no ids."""
    world = world_of_two(alive=False)
    for ids in (None, "", "  "):
        refusal = world.refused(clean(ids))
        assert (refusal.code, refusal.remark) == ("BrokerStillAlive", "Broker a is still alive, clean up failure")


def test_a_set_without_a_master_goes_as_a_whole_and_starts_anew() -> None:
    """Rows, epochs and counter are gone."""
    world = world_of_two(alive=False)
    world.do(LOST)
    assert world.events(clean()) == (BrokerDataCleaned(cluster="C", broker_set="a", broker_ids=(), whole_set=True),)
    assert "a" not in world.state.broker_sets
    assert world.reply(applying(1), commands.BrokerIdApplied).broker_set == "a"
    assert world.a.master_epoch == 0


def test_cleaning_living_brokers_takes_the_set_master_or_not() -> None:
    """What the operator asked for by name."""
    world = world_of_two(alive=True)
    world.do(clean(living=True))
    assert "a" not in world.state.broker_sets


def test_a_living_listed_broker_stops_it() -> None:
    """With Java's two spaces."""
    world = world_of_two(alive=True)
    refusal = world.refused(clean("2;1"))
    assert (refusal.code, refusal.remark) == ("BrokerStillAlive", "Broker [a,  1] is still alive, clean up failure")


def test_liveness_is_asked_in_the_cluster_of_the_request() -> None:
    """Java's quirk: with a wrong cluster everybody looks dead."""
    world = world_of_two(alive=True)
    (event,) = world.events(clean("2", cluster="other"))
    assert event == BrokerDataCleaned(cluster="C", broker_set="a", broker_ids=(2,), whole_set=False)
    assert [replica.broker_id for replica in world.a.replicas] == [1]
    assert world.a.sync_state_set == (1,)


@pytest.mark.parametrize(
    ("ids", "part"),
    [("x", "x"), ("1;;2", ""), ("1; 2", " 2"), (";1", ""), ("1,2", "1,2"), ("9223372036854775808",) * 2, ("+", "+")],
)
def test_ids_that_are_no_java_longs_are_refused(ids: str, part: str) -> None:
    """With the exception Java prints."""
    world = world_of_two(alive=False)
    refusal = world.refused(clean(ids))
    assert refusal.code == "MalformedIdsToClean"
    assert refusal.remark == (
        "Please set the option <brokerControllerIdsToClean> according to the format, exception: "
        f'java.lang.NumberFormatException: For input string: "{part}"'
    )


def test_a_list_may_end_in_semicolons_and_name_an_id_twice() -> None:
    """As Java's split and its set have it."""
    world = world_of_two(alive=False)
    (event,) = world.events(clean("2;+2;;"))
    assert isinstance(event, BrokerDataCleaned)
    assert event.broker_ids == (2,)


def test_cleaning_every_id_drops_the_set() -> None:
    """Nothing half is left."""
    world = world_of_two(alive=False)
    world.do(clean("1;2"))
    assert "a" not in world.state.broker_sets


def test_cleaning_ids_nobody_has_writes_nothing() -> None:
    """It is so already."""
    world = world_of_two(alive=False)
    assert world.events(clean("7")) == ()
    (event,) = world.events(clean("2;7"))
    assert isinstance(event, BrokerDataCleaned)
    assert event.broker_ids == (2,)


def test_an_unknown_set_is_refused_last() -> None:
    """Java's remark, after the format of the ids was judged."""
    world = World()
    assert world.refused(clean("x")).code == "MalformedIdsToClean"
    refusal = world.refused(clean("1", cluster=""))
    assert (refusal.code, refusal.remark) == (
        "CleanOfUnknownBrokerSet",
        "Broker a is not existed,clean broker data failure.",
    )


def test_living_ids_can_be_cleaned_one_by_one() -> None:
    """Java forgets the whole set although ids were listed."""
    world = world_of_two(alive=True)
    world.do(clean("2", living=True))
    assert [replica.broker_id for replica in world.a.replicas] == [1]
    assert world.refused(clean("x", living=True)).code == "MalformedIdsToClean"
    world.policy = JAVA
    world.do(clean("x", living=True))
    assert "a" not in world.state.broker_sets


def test_cleaning_the_last_in_sync_id_keeps_the_rest_known() -> None:
    """Epochs and counter stay; nobody out of sync may become master by it."""
    world = World()
    world.set_of(1, 2)
    world.heard(1, alive=False)
    world.do(clean("1"))
    assert (world.a.sync_state_set, world.a.master_epoch, world.a.next_broker_id) == ((), 1, 3)
    assert world.events(registering(2)) == ()


def test_java_leaves_a_half_known_set() -> None:
    """1003 does not know it, 1012 and 1013 do, and the next application starts it from scratch."""
    world = World(JAVA)
    world.set_of(1, 2)
    world.heard(1, alive=False)
    (event,) = world.events(clean("1"))
    assert event == BrokerDataCleaned(cluster="C", broker_set="a", broker_ids=(1,), whole_set=True)
    assert world.refused(registering(2)).code == "BrokerSetNotRegistered"
    assert world.refused(clean("7")).code == "CleanOfUnknownBrokerSet"
    next_id = answer(NextBrokerId(cluster="C", broker_set="a"), world.state, world.live)
    assert isinstance(next_id, NextBrokerIdIs)
    assert next_id.next_broker_id == 3
    assert world.refused(applying(2, code="h:9;9")).code == "BrokerIdTaken"
    world.do(applying(2))
    assert [replica.broker_id for replica in world.a.replicas] == [2]
    assert (world.a.next_broker_id, world.a.sync_known, world.a.master) == (2, True, None)


def test_java_makes_a_set_half_known_even_by_cleaning_a_stranger() -> None:
    """Of a set that never had a master nobody is in sync."""
    world = World(JAVA)
    world.do(applying(1))
    world.do(clean("7"))
    assert not world.a.sync_known
