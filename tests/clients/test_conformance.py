"""Every stock client through every trouble: nothing missed, nothing twice, no error but its own retries.

One cluster per trouble, all clients on it at once, while events keep coming; each client is judged by itself. Kafka's
describing tools are run beside them, and judged by what was true.
"""

import signal
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.error import HTTPError

import pytest

from quorate.gateway.http.answers import Status
from tests.clients.describing import Judge, Said, Tools, positions
from tests.clients.stock import CLIENTS, Client, Reader
from tests.clusters import until
from tests.kills.cluster import Cluster
from tests.peers import peer, present

WRITE_EVERY_S = 0.05
WARM_UP = 40
"""Events every client must have read before the trouble begins."""
AFTERWARDS = 40
"""Events written after the trouble has ended."""
PATIENCE_S = 120.0
PATIENCE_PER_NODE_S = 1.0
"""A node that does not take an event for so long is passed over."""


class Writer:
    """Creates topics, one after the other, at whichever node takes them."""

    def __init__(self, cluster: Cluster) -> None:
        self._nodes = [place.http for place in cluster.places.values()]
        self._stop = threading.Event()
        self.written = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(WRITE_EVERY_S):
            number += 1
            url = f"http://{self._nodes[number % len(self._nodes)]}/v1/topics/t-{number}"
            body, told = b'{"read_queues": 4, "write_queues": 4}', {"Content-Type": "application/json"}
            request = urllib.request.Request(url, body, told, method="PUT")
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_PER_NODE_S):
                    self.written += 1
            except HTTPError as refused:
                refused.close()
            except OSError:
                continue

    def more(self, count: int) -> None:
        """Wait until so many more are acknowledged."""
        wanted = self.written + count
        until(lambda: self.written >= wanted, f"{count} more events", PATIENCE_S)

    def stop(self) -> None:
        """No event comes afterwards."""
        self._stop.set()
        self._thread.join(10)


def moved(cluster: Cluster, writer: Writer) -> None:
    """The leader ends in order, three times over: each time it hands over, and comes back."""
    for _ in range(3):
        leader = cluster.leader()
        cluster.send(leader, signal.SIGTERM)
        writer.more(10)
        cluster.start(leader)
        until(partial(cluster.status, cluster.places[leader]), "the node that was leader")


def killed(cluster: Cluster, writer: Writer) -> None:
    """SIGKILL of the leader; it comes back later."""
    leader = cluster.leader()
    cluster.kill(leader)
    writer.more(20)
    cluster.start(leader)
    writer.more(10)


def lagging(cluster: Cluster, writer: Writer) -> None:
    """The follower that clients read from stands still, twice, for longer than an election; then it is behind."""
    for _ in range(2):
        cluster.send(NEAR, signal.SIGSTOP)
        time.sleep(4.0)
        writer.more(10)
        cluster.send(NEAR, signal.SIGCONT)
        writer.more(20)


def restarted(cluster: Cluster, writer: Writer) -> None:
    """SIGKILL of all nodes at once; all come back."""
    cluster.kill(*cluster.places)
    time.sleep(1.0)
    cluster.start()
    writer.more(20)


NEAR = 2
"""The node whose rack the clients name."""
TROUBLES: dict[str, Callable[[Cluster, Writer], None]] = {
    "the leader is killed": killed,
    "the leader moves": moved,
    "a follower lags": lagging,
    "all nodes restart": restarted,
}
IN_EVERY_RUN = "the leader is killed"


@dataclass(frozen=True)
class Story:
    """What each client saw while there was trouble, and what tools said."""

    end: int
    readers: dict[str, Reader]
    groups: list[str]
    said: list[Said]


def end_of_log(cluster: Cluster) -> int:
    """How many events there are, on every node."""

    def ends() -> set[int]:
        found = [cluster.status(place) for place in cluster.places.values()]
        return {status.offset if isinstance(status, Status) else -1 for status in found}

    until(lambda: len(ends()) == 1 and -1 not in ends(), "all nodes at the same offset", PATIENCE_S)
    return ends().pop()


def all_read(cluster: Cluster, readers: dict[str, Reader]) -> int:
    """Wait until everybody has read to the end of the log, or given up; the end."""
    end = end_of_log(cluster)
    deadline = time.monotonic() + PATIENCE_S
    while not all(reader.read_to(end) for reader in readers.values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return end


def told(cluster: Cluster, trouble: Callable[[Cluster, Writer], None], folder: Path) -> Story:
    """Start everybody, let it happen, wait until everybody has read everything."""
    bootstrap = ",".join(place.kafka for place in cluster.places.values())
    clients = [client for client in CLIENTS if not client.peer or present(client.peer)]
    cluster.leader()
    if trouble is lagging and cluster.leader() == NEAR:
        cluster.send(NEAR, signal.SIGTERM)
        cluster.start(NEAR)
        cluster.leader()
    rack = f"node-{NEAR}" if trouble is lagging else ""
    writer = Writer(cluster)
    readers = {client.name: Reader(client, bootstrap, rack, folder) for client in clients}
    groups = [client.group for client in clients if client.grouped]
    tools: Tools | None = None
    try:
        writer.more(WARM_UP)
        for reader in readers.values():
            until(partial(reader.read_to, WARM_UP), f"{reader.name} reads", PATIENCE_S)
        tools = Tools(cluster, groups, lambda: writer.written) if present("kafka") else None
        trouble(cluster, writer)
        writer.more(AFTERWARDS)
        writer.stop()
        end = all_read(cluster, readers)
        if tools is not None:
            tools.last_round()
            end = all_read(cluster, readers)
        time.sleep(1.0)  # Whoever repeats itself does it now.
    finally:
        writer.stop()
        for reader in readers.values():
            reader.stop()
        if tools is not None:
            tools.stop()
    return Story(end, readers, groups, tools.said if tools is not None else [])


@pytest.fixture(scope="module")
def tell(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Story]:
    """Each trouble is told once, for all clients, whatever the order of the tests."""
    stories: dict[str, Story] = {}

    def once(name: str) -> Story:
        if name not in stories:
            folder = tmp_path_factory.mktemp("conformance")
            cluster = Cluster(folder / "cluster")
            cluster.start()
            try:
                stories[name] = told(cluster, TROUBLES[name], folder)
            finally:
                cluster.stop()
        return stories[name]

    return once


EACH_TROUBLE = pytest.mark.parametrize(
    "trouble", [pytest.param(name, marks=() if name == IN_EVERY_RUN else pytest.mark.slow) for name in TROUBLES]
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
@EACH_TROUBLE
def test_a_client_misses_nothing_and_repeats_nothing(
    tell: Callable[[str], Story], trouble: str, client: Client
) -> None:
    """Every offset once, in order, to the end of the log; and the client told its user of no error."""
    if client.peer:
        peer(client.peer)
    story = tell(trouble)
    reader = story.readers[client.name]
    assert reader.errors == []
    assert reader.seen == list(range(len(reader.seen)))
    assert len(reader.seen) == story.end


@pytest.mark.timeout(600)
@EACH_TROUBLE
def test_what_tools_describe_is_true(tell: Callable[[str], Story], trouble: str) -> None:
    """Whatever Kafka's tools say meanwhile was so; afterwards they see one leader, all nodes in sync, and groups that
    have read everything.
    """
    peer("kafka")
    story = tell(trouble)
    judge = Judge(story.groups, story.end)
    for said in story.said:
        judge.hear(said)
    last = {said.tool: said for said in story.said}
    assert [said for said in last.values() if said.leader is None or said.errors] == []
    assert "Isr: 1,2,3" in last["topic"].text
    at_the_end = (str(story.end), str(story.end), "0")
    assert positions(last["group"].text) == dict.fromkeys(story.groups, at_the_end)
