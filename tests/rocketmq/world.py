"""What the tests with stock brokers say and ask: two brokers of one set, seen through the controllers' own protocol."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from confluent_kafka import Consumer, TopicPartition

from quorate.events import Event, decode
from tests.clusters import free_ports
from tests.contract.client import Closed, Remoting, read_json
from tests.contract.cluster import QuorateCluster
from tests.peers import peer
from tests.rocketmq.stock import Peer, Stock

PATIENCE_S = 60.0
TOPIC = "quorate.metadata.events"


def rack(node: int) -> str:
    """The rack that has this node alone: a client that names it is served by that node, not by the leader."""
    return f"node-{node}"


class World:
    """Controllers, brokers ``one`` and ``two`` (ids 1 and 2 of ``broker-a``), and a client."""

    def __init__(self, cluster: QuorateCluster, stock: Stock, peer: Peer) -> None:
        self.cluster = cluster
        self.stock = stock
        self.peer = peer
        base = free_ports(2, spread=20)
        self.ports = {1: base, 2: base + 20}

    def start_broker(self, number: int) -> None:
        """Start a broker; it gets its number as id when they start in order."""
        self.stock.broker(f"broker-{number}", self.ports[number], self.cluster.addresses)

    def kill_broker(self, number: int, how: signal.Signals = signal.SIGKILL) -> None:
        """End a broker."""
        self.stock.kill(f"broker-{number}", how)

    def ask(self, code: int, body: Any = b"", /, **fields: object) -> Any:
        """Ask any node that answers."""
        for address in self.cluster.addresses:
            try:
                with Remoting(address) as client:
                    return client.ask(code, body, **fields)
            except (OSError, Closed):
                continue
        raise AssertionError("no controller answers")

    def replica_info(self) -> tuple[int | None, int, set[int]]:
        """(master, master epoch, sync state set) as 1004 says."""
        answer = self.ask(1004, brokerName="broker-a")
        if answer.code != 0:
            return None, 0, set()
        master = answer.fields.get("masterBrokerId")
        members = set(read_json(answer.body)["syncStateSet"])
        return (int(master) if master else None), int(answer.fields["masterEpoch"]), members

    def metric(self, node: int, name: str) -> float:
        """What a node says of itself in /metrics."""
        with urlopen(f"http://{self.cluster.nodes[node]['http']}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return float(next(line.rpartition(" ")[2] for line in lines if line.partition(" ")[0] == name))

    def route(self, address: str, topic: str) -> tuple[int, dict[str, str]]:
        """105, asked of one node: its code, and of ``broker-a`` id → address."""
        with Remoting(address) as client:
            answer = client.ask(105, topic=topic)
        body = read_json(answer.body) or {"brokerDatas": []}
        return answer.code, {key: at for one in body["brokerDatas"] for key, at in one["brokerAddrs"].items()}

    def until(self, what: str, condition: Callable[[], bool], seconds: float = PATIENCE_S) -> float:
        """Wait for something; how long it took. Fails by name."""
        start = time.monotonic()
        while not condition():
            assert time.monotonic() < start + seconds, f"still not so after {seconds} s: {what} ({self.replica_info()})"
            time.sleep(0.05)
        return time.monotonic() - start

    def until_in_sync(self, *members: int) -> None:
        """Wait for a sync state set."""
        self.until(f"sync state set {members}", lambda: self.replica_info()[2] == set(members))

    def until_master(self, number: int, seconds: float = PATIENCE_S) -> None:
        """Wait for a master."""
        self.until(f"master {number}", lambda: self.replica_info()[0] == number, seconds)

    def kcat(self, program: Path, node: int, count: int) -> list[tuple[int, str]]:
        """(offset, type header) of the first ``count`` events, as kcat prints them from one node."""
        address = self.cluster.nodes[node]["kafka"]
        where = ["-b", address, "-X", f"client.rack={rack(node)}", "-t", TOPIC]
        options = ["-C", "-q", *where, "-o", "beginning", "-c", str(count), "-f", "%o %h\n"]
        said = subprocess.run([str(program), *options], capture_output=True, text=True, timeout=60, check=True).stdout
        lines = (line.split(" ", 1) for line in said.splitlines())
        return [
            (int(offset), dict(pair.split("=", 1) for pair in headers.split(","))["type"]) for offset, headers in lines
        ]

    def events(self, node: int) -> list[Event]:
        """The whole log as stock Kafka clients read it from one node, up to its high watermark."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.nodes[node]["kafka"],
                "client.rack": rack(node),
                "group.id": "story",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20)
            found: list[Event] = []
            deadline = time.monotonic() + PATIENCE_S
            while len(found) < end:
                assert time.monotonic() < deadline, f"{len(found)} of {end} events read from node {node}"
                message = consumer.poll(1.0)
                if message is None:
                    continue
                assert message.error() is None, message.error()
                assert message.offset() == len(found), "offsets are gapless"
                value = message.value()
                assert value is not None
                found.append(decode(value))
            return found
        finally:
            consumer.close()


@contextmanager
def begun(directory: Path, *, name_server: bool, spread: bool = False) -> Iterator[World]:
    """Three controllers, a client and, if wanted, a stock name server; no broker yet. All of it ends afterwards.
    ``spread``: each broker is sent to a node of its own.
    """
    jars = peer("rocketmq") / "lib"
    with ExitStack() as stack:
        stock = Stock(directory / "stock", jars)
        stack.callback(stock.stop)
        cluster = QuorateCluster(directory / "quorate", {"QUORATE_REMOTING__SPREAD_BROKERS": str(spread).lower()})
        stack.callback(cluster.stop)
        if name_server:
            stock.name_server()
        else:
            stock.names = ";".join(cluster.addresses)
        yield World(cluster, stock, Peer(stock))
