"""Stock RocketMQ 5.3.3 brokers live, die and return on a three-node Quorate; no acknowledged message is lost."""

import signal

import pytest

from quorate.events import BrokerFenced, BrokerRegistered, MasterElected, SyncStateSetAltered
from tests.peers import peer
from tests.rocketmq.world import World

pytestmark = pytest.mark.timeout(600)


def boot(world: World) -> set[int]:
    """Register, first election, sync state set of two, messages flow."""
    world.start_broker(1)
    world.until_master(1)
    world.start_broker(2)
    world.until_in_sync(1, 2)
    world.until("each broker acknowledged the news of the other", lambda: waiting(world) == 0)
    assert world.replica_info()[:2] == (1, 1)
    for number, port in world.ports.items():  # On both: a slave copies topics from its master only every 10 s.
        said = world.peer.admin("updateTopic", "-n", world.stock.names, "-b", f"127.0.0.1:{port}", "-t", "story")
        assert f"create topic to 127.0.0.1:{port} success" in said, (number, said)
    return world.peer.send(0, 20)


def waiting(world: World) -> int:
    """How many brokers the leader still has to tell of another one."""
    found = world.metric(world.cluster.leader(), "quorate_member_news_waiting")
    return int(found)


def lose_the_master(world: World) -> set[int]:
    """Kill -9: the other is master at once, messages flow; the old one returns as slave."""
    world.kill_broker(1)
    world.until_master(2, seconds=10)
    acked = world.peer.send(100, 20)
    assert world.replica_info()[1:] == (2, {2})
    world.start_broker(1)
    world.until_in_sync(1, 2)
    assert world.replica_info()[0] == 2
    return acked


def lose_controller_and_master(world: World) -> set[int]:
    """The leading controller is killed, then the master while it is down; both return afterwards."""
    leader = world.cluster.leader()
    world.cluster.kill(leader)
    world.kill_broker(2)
    world.until_master(1, seconds=20)
    assert world.cluster.leader(without=leader) != leader
    acked = world.peer.send(200, 20)
    world.cluster.restart(leader)
    world.start_broker(2)
    world.until_in_sync(1, 2)
    return acked


def end_the_master_gently(world: World) -> set[int]:
    """SIGTERM of the master: the other takes over, messages flow."""
    world.kill_broker(1, signal.SIGTERM)
    world.until_master(2)
    acked = world.peer.send(300, 20)
    world.start_broker(1)
    world.until_in_sync(1, 2)
    return acked


def read_back(world: World) -> None:
    """Every step is an event, the same on each node, with the reason of each election."""
    logs = {number: world.events(number) for number in world.cluster.nodes}
    shortest = min(map(len, logs.values()))
    first, *others = (log[:shortest] for log in logs.values())
    assert all(other == first for other in others)
    elections = [event for event in first if isinstance(event, MasterElected)]
    assert [(event.old_master, event.master, event.master_epoch) for event in elections] == [
        (None, 1, 1), (1, 2, 2), (2, 1, 3), (1, 2, 4),
    ]  # fmt: skip
    assert elections[0].trigger == "broker"
    for event in elections[1:]:
        assert event.trigger in ("master lost", "inactive master scan")
        assert {candidate.broker_id: candidate.verdict for candidate in event.candidates} == {
            event.master: "elected", event.old_master: "out",
        }  # fmt: skip
        assert event.explanation
    assert sum(isinstance(event, BrokerRegistered) for event in first) >= 2
    assert sum(isinstance(event, BrokerFenced) for event in first) >= 3
    assert sum(isinstance(event, SyncStateSetAltered) for event in first) >= 4
    kcat = peer("kcat") / "kcat"
    expected = [(offset, type(event).__name__) for offset, event in enumerate(first)]
    for number in world.cluster.nodes:
        assert world.kcat(kcat, number, shortest) == expected


def test_brokers_fail_over_and_nothing_acknowledged_is_lost(world: World) -> None:
    """Boot, kill -9, return, controller and master down at once, SIGTERM; every acknowledged message is read back."""
    acked = boot(world)
    acked |= lose_the_master(world)
    acked |= lose_controller_and_master(world)
    acked |= end_the_master_gently(world)
    assert len(acked) == 80
    assert acked <= world.peer.read()
    read_back(world)
