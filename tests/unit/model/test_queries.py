"""1004, 1006, 21, 351 and the operator's questions."""

import pytest

from quorate.metadata.commands import FenceBroker, PutTopic
from quorate.model import queries
from quorate.model.queries import Query, Result
from tests.unit.metadata.kit import World


def ask(world: World, query: Query) -> Result:
    """The answer, which is no refusal."""
    found = queries.answer(query, world.state, world.live)
    assert not isinstance(found, queries.Absent), found
    return found


def refused(world: World, query: Query) -> tuple[str, str]:
    """The refusal's name and remark."""
    found = queries.answer(query, world.state, world.live)
    assert isinstance(found, queries.Absent)
    return found.code, found.remark


def test_replica_info_names_the_recorded_master_dead_or_alive() -> None:
    """As Java: no liveness check, and the epoch is always there."""
    world = World()
    world.set_of(1, 2, in_sync=(1, 2))
    world.heard(1, alive=False)
    assert ask(world, queries.ReplicaInfo(broker_set="a")) == queries.ReplicaInfoIs(
        broker_set="a",
        master=1,
        master_address="10.0.0.1:10911",
        master_epoch=1,
        sync_state_set=(1, 2),
        sync_state_set_epoch=2,
    )


def test_an_unknown_set_has_no_info() -> None:
    """Java's 2008."""
    assert refused(World(), queries.ReplicaInfo(broker_set="x")) == (
        "BrokerSetUnknown",
        "Broker metadata is not existed",
    )


def test_sync_state_data_tells_who_is_in_and_who_is_alive() -> None:
    """Unknown sets are left out, repeated ones come once; never heard is neither alive nor dead."""
    world = World()
    world.set_of(1, 2, 3, in_sync=(1, 2))
    world.heard(2, alive=False)
    del world.live.living["C", "a", 3]
    found = ask(world, queries.SyncStateData(broker_sets=("x", "a", "a")))
    assert isinstance(found, queries.SyncStateDataIs)
    (one,) = found.broker_sets
    assert (one.broker_set, one.master, one.master_address) == ("a", 1, "10.0.0.1:10911")
    assert (one.master_epoch, one.sync_state_set_epoch) == (1, 2)
    assert [(r.broker_id, r.alive) for r in one.in_sync] == [(1, True), (2, False)]
    assert [(r.broker_id, r.alive) for r in one.not_in_sync] == [(3, None)]


def test_a_close_this_node_alone_saw_is_believed_once_the_leader_fenced_the_broker() -> None:
    """A follower proves no close itself: suspect alone is alive, fenced alone may be heard again, both is dead."""
    world = World()
    world.set_of(1, 2, in_sync=(1, 2))
    query = queries.SyncStateData(broker_sets=("a",))

    def alive() -> bool | None:
        found = ask(world, query)
        assert isinstance(found, queries.SyncStateDataIs)
        return found.broker_sets[0].in_sync[1].alive

    world.live.suspects = {("C", "a", 2)}
    assert alive() is True
    why = {"evidence": "connection closed", "last_heartbeat_ms": 1, "detected_ms": 2}
    world.do(FenceBroker(cluster="C", broker_set="a", broker_id=2, **why))  # type: ignore[arg-type]
    assert alive() is False
    world.live.suspects = set()
    assert alive() is True


@pytest.mark.parametrize("broker_sets", [None, ()])
def test_asking_for_no_set_is_an_error(broker_sets: tuple[str, ...] | None) -> None:
    """Java's code 1 with its odd remark."""
    query = queries.SyncStateData(broker_sets=broker_sets)
    assert refused(World(), query) == ("NoBrokerSetsNamed", "not set any response code")


def test_a_topic_is_told_or_refused() -> None:
    """Java's 17 for an unknown one."""
    world = World()
    world.do(PutTopic(topic="T", read_queues=1, write_queues=2, permission=6))
    found = ask(world, queries.TopicConfig(topic="T"))
    assert isinstance(found, queries.TopicConfigIs)
    assert (found.topic.read_queues, found.topic.write_queues) == (1, 2)
    assert refused(world, queries.TopicConfig(topic="U")) == ("UnknownTopic", "No topic in this broker. topic: U")


def test_all_topics_come_in_order_of_their_names() -> None:
    """Every one once."""
    world = World()
    for name in ("c", "a", "b"):
        world.do(PutTopic(topic=name, read_queues=1, write_queues=1, permission=6))
    found = ask(world, queries.TopicList())
    assert isinstance(found, queries.TopicListIs)
    assert [topic.topic for topic in found.topics] == ["a", "b", "c"]
