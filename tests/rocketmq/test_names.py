"""Stock brokers, producer, consumer and mqadmin with Quorate as their controller and their name server; no other."""

import re

import pytest

from tests.rocketmq.world import World

pytestmark = pytest.mark.timeout(600)


SENT_TO = 3
"""The node that has the highest weight for both brokers of the set (``spread_brokers``)."""


def lives(world: World) -> set[int]:
    """Two brokers, sent to a node that does not lead; a topic made at the controller, of which the master is told,
    messages.
    """
    if world.cluster.leader() == SENT_TO:
        world.cluster.kill(SENT_TO)
        world.cluster.leader(without=SENT_TO)
        world.cluster.restart(SENT_TO)
    world.start_broker(1)
    world.until_master(1)
    world.start_broker(2)
    world.until_in_sync(1, 2)
    place = world.cluster.nodes[SENT_TO]["rpc"]
    world.until("both turn to the node they are sent to", lambda: {sent_to(world, 1), sent_to(world, 2)} == {place})
    assert world.ask(17, topic="story", readQueueNums=4, writeQueueNums=4, perm=6).code == 0
    master = {"0": f"127.0.0.1:{world.ports[1]}"}

    def told_everywhere() -> bool:
        return all(master.items() <= world.route(at, "story")[1].items() for at in world.cluster.addresses)

    world.until("the topic has a route", told_everywhere)
    world.peer.subscribe()
    return world.peer.send(0, 20)


def sent_to(world: World, number: int) -> str:
    """Which controller a broker turned to last, by its own log."""
    log = world.stock.work / f"broker-{number}/logs/rocketmqlogs/broker.log"
    said = re.findall(r"Update controller leader address to (\S+)", log.read_text(errors="replace"))
    return said[-1] if said else ""


def told(world: World) -> None:
    """What mqadmin asks a name server, asked of this one."""
    brokers = world.peer.admin("clusterList", "-n", world.stock.names)
    assert all(f"127.0.0.1:{port}" in brokers for port in world.ports.values()), brokers
    assert "story" in world.peer.admin("topicList", "-n", world.stock.names)
    route = world.peer.admin("topicRoute", "-n", world.stock.names, "-t", "story")
    assert f"127.0.0.1:{world.ports[1]}" in route, route


def loses_leader_and_master(world: World) -> set[int]:
    """SIGKILL of the leading controller and of the master, at once: messages flow, and both come back."""
    leader = world.cluster.leader()
    world.cluster.kill(leader)
    world.kill_broker(1)
    world.until_master(2, seconds=20)
    acked = world.peer.send(100, 20)
    world.cluster.restart(leader)
    answers = [world.route(address, "story") for address in world.cluster.addresses]
    assert {code for code, _ in answers} == {0}, "the one that has just begun asked the master"
    assert [addresses["0"] for _, addresses in answers] == [f"127.0.0.1:{world.ports[2]}"] * 3
    world.start_broker(1)
    world.until_in_sync(1, 2)
    return acked | world.peer.send(200, 10)


def test_a_producer_and_a_consumer_need_no_name_server(alone: World) -> None:
    """A push consumer receives every acknowledged message, through the death of the leader and of the master."""
    acked = lives(alone)
    told(alone)
    acked |= loses_leader_and_master(alone)
    assert len(acked) == 50
    alone.until("the consumer has all", lambda: acked <= alone.peer.received())
