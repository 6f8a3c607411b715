"""A cluster of two builds: one that knows a further event, and one that does not.

The further build is made here: a copy of the package with one more schema, generated, a command that writes it, and the
feature level it needs. The other is the one under test.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from quorate.cli.client import Node, NodeError
from quorate.cli.cluster import NodePlace, found
from quorate.gateway.http.answers import Done, Feature, Status, Topics
from quorate.gateway.http.writing import FeatureBody, TopicBody
from tests.builds import other_build
from tests.clusters import QUORATE, free_ports, until

END_S = 20.0
RETIRED = """{
  "type": "record", "name": "TopicRetired", "namespace": "quorate.events", "doc": "A topic was retired.",
  "quorate.key": "topic/{topic}",
  "fields": [{"name": "topic", "type": "string", "doc": "Name of the topic."}]
}
"""
CHANGES = {
    "metadata/cluster.py": [("FEATURE_MAX: Final = 3", "FEATURE_MAX: Final = 4")],
    "metadata/decide.py": [
        ("\n\ndef decide(", "\nLEVELS[commands.DeleteTopic] = 4\n\n\ndef decide("),
    ],
    "model/evolve.py": [
        ("    TopicDeleted,\n", "    TopicDeleted,\n    TopicRetired,\n"),
        ("case TopicDeleted():", "case TopicDeleted() | TopicRetired():"),
    ],
    "metadata/topics.py": [("TopicDeleted", "TopicRetired")],
}
"""What the further build has besides: its DELETE of a topic writes the new event, from level 4 on."""


class Mixed:
    """Nodes of one cluster, each started by either build."""

    def __init__(self, places: tuple[NodePlace, ...], further: Path, folder: Path) -> None:
        self.places = {place.id: place for place in places}
        self._further, self._folder = further, folder
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, node: int, *, further: bool) -> None:
        environment = dict(os.environ)
        if further:
            environment["PYTHONPATH"] = str(self._further)
        command = [*QUORATE, "serve", "--config", str(self.places[node].config), "--die-with", str(os.getpid())]
        with self.said(node).open("wb") as log:
            self.running[node] = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=log, env=environment, cwd=self._folder
            )

    def stop(self, node: int) -> int:
        process = self.running.pop(node)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        return process.wait(END_S)

    def said(self, node: int) -> Path:
        return self._folder / f"node-{node}.log"

    def http(self, node: int) -> Node:
        return Node(self.places[node].http, 3.0)

    def leader(self, node: int) -> int | None:
        try:
            status = self.http(node).get("/v1/status", Status, level="stale")
        except NodeError:
            return None
        return status.leader if status.ready else None

    def known(self, node: int) -> list[int | None]:
        """What each voter said it knows, as this node has it."""
        try:
            feature = self.http(node).get("/v1/feature", Feature)
        except NodeError:
            return []
        return [levels.feature_max for levels in sorted(feature.nodes, key=lambda levels: levels.id)]


def log_of(place: NodePlace) -> bytes:
    """The events a node has, undecoded: the build under test does not know all of them."""
    connection = HTTPConnection(place.http, timeout=3.0)
    try:
        connection.request("GET", "/v1/log?from=0&limit=1000")
        return connection.getresponse().read()
    finally:
        connection.close()


@contextmanager
def mixed(folder: Path) -> Iterator[Mixed]:
    """A cluster that the build under test founded, stopped; at the end every node of it is."""
    further = other_build(folder / "further", {"TopicRetired": RETIRED}, CHANGES)
    nodes = Mixed(found(folder / "cluster", 3, free_ports(30)), further, folder)
    try:
        for node in nodes.places:
            nodes.start(node, further=False)
        until(lambda: nodes.known(1) == [3, 3, 3], "a cluster of the build under test")
        for node in nodes.places:
            assert nodes.stop(node) == 0
        yield nodes
    finally:
        for node in list(nodes.running):
            nodes.stop(node)


@pytest.mark.integration
def test_a_cluster_of_two_builds_raises_its_level_when_all_know_it(tmp_path: Path) -> None:
    """Below the level the further build's command is refused, and the level is, by the name of the node that could not
    read it; once all know it it is raised, and the new event is written. The other build then meets an event it does
    not know and stops by name; the rest goes on, and the further build reads it all.
    """
    with mixed(tmp_path) as nodes:
        for node in (1, 2):
            nodes.start(node, further=True)
        until(lambda: nodes.leader(1) in (1, 2), "a leader of the further build")
        nodes.start(3, further=False)
        until(lambda: nodes.leader(3) in (1, 2), "node 3 following")
        until(lambda: nodes.known(1) == [4, 4, 3], "every start recorded")
        one = nodes.http(1)
        one.send("PUT", "/v1/topics/t", TopicBody(read_queues=1, write_queues=1), Done)
        with pytest.raises(NodeError, match="needs feature level 4; the cluster's is 1"):
            one.send("DELETE", "/v1/topics/t", None, Done)
        with pytest.raises(NodeError, match="Node 3 knows levels 1 to 3, not 4"):
            one.send("PUT", "/v1/feature", FeatureBody(level=4), Done)

        assert nodes.stop(3) == 0
        nodes.start(3, further=True)
        until(lambda: nodes.known(1) == [4, 4, 4], "node 3's start by the further build")
        one.send("PUT", "/v1/feature", FeatureBody(level=4), Done)
        assert nodes.stop(3) == 0
        until(lambda: nodes.leader(1) in (1, 2), "a leader still")
        one.send("DELETE", "/v1/topics/t", None, Done)

        nodes.start(3, further=False)
        assert nodes.running[3].wait(END_S) == 1
        assert "schema id" in nodes.said(3).read_text()
        assert one.get("/v1/topics", Topics).topics == []
        nodes.stop(3)
        nodes.start(3, further=True)
        until(lambda: nodes.leader(3) in (1, 2, 3), "node 3 again")
        until(lambda: b"TopicRetired" in log_of(nodes.places[3]), "the new event at node 3")
