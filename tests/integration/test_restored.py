"""Real nodes, one of which is restored from an older copy of its whole directory: nothing acknowledged is lost."""

import shutil
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from quorate.cli.client import Node, NodeError
from quorate.gateway.http.answers import Done, Status, TopicAnswer
from tests.clusters import Started, until, up
from tests.directories import may_not_vote, put_back
from tests.integration.test_up import serving

TOPIC = {"read_queues": 4, "write_queues": 4, "permission": 6}
ALONE_S = 5.0
"""Many election timeouts."""


def leads(node: Node) -> int | None:
    """Who leads, as it believes; None also when it does not answer."""
    try:
        return node.get("/v1/status", Status, level="stale").leader
    except NodeError:
        return None


def data_of(cluster: Started, index: int) -> Path:
    """A node's directory."""
    return cluster.config(index).parent / "data"


@pytest.mark.slow
def test_a_restored_voter_and_one_that_was_away_lose_no_acknowledged_write(tmp_path: Path) -> None:
    """Three writes are acknowledged by a leader and a follower. The follower goes back to a copy from before, of which
    its disk shows nothing, and is alone with the third: they lead nothing. With the leader back all three are there.
    """
    with up(tmp_path / "c") as cluster:
        cluster.node().send("PUT", "/v1/topics/before", TOPIC, Done)
    nodes = [cluster.node(index) for index in range(3)]
    copies = [tmp_path / f"copy-{index}" for index in range(3)]
    for index, copied in enumerate(copies):
        shutil.copytree(data_of(cluster, index), copied)
    with ExitStack() as first, ExitStack() as second, ExitStack() as third:
        stacks = [first, second, third]
        for index, stack in enumerate(stacks):
            stack.enter_context(serving(cluster.config(index)))
        until(lambda: all(node.serves() for node in nodes), "all nodes")
        led = leads(nodes[0])
        leader = next(index for index in range(3) if cluster.nodes[index]["id"] == led)
        victim, other = (index for index in range(3) if index != leader)
        stacks[other].close()
        for number in (1, 2, 3):
            nodes[leader].send("PUT", f"/v1/topics/acknowledged-{number}", TOPIC, Done)
        offset = nodes[leader].get("/v1/status", Status).offset
        stacks[victim].close()
        stacks[leader].close()

        put_back(data_of(cluster, victim), copies[victim])
        stacks[victim].enter_context(serving(cluster.config(victim)))
        stacks[other].enter_context(serving(cluster.config(other)))
        until(lambda: "has not lived" in may_not_vote(data_of(cluster, victim)), "the word of the other node")
        end = time.monotonic() + ALONE_S
        while time.monotonic() < end:
            assert [leads(nodes[victim]), leads(nodes[other])] == [None, None]
            time.sleep(0.1)

        stacks[leader].enter_context(serving(cluster.config(leader)))
        until(lambda: all(node.serves() for node in nodes), "all nodes")
        for node in nodes:
            assert node.get("/v1/status", Status, min_offset=offset).offset >= offset
            for number in (1, 2, 3):
                node.get(f"/v1/topics/acknowledged-{number}", TopicAnswer)
        until(lambda: not may_not_vote(data_of(cluster, victim)), "its vote")
