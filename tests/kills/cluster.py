"""A cluster whose nodes can be killed, and whose machines can lose power; clients that keep count; a reader."""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka

from quorate.cli.client import Node, NodeError
from quorate.cli.cluster import PORTS_PER_NODE, NodePlace, found
from quorate.consensus.storage.directory import decode_voter
from quorate.consensus.storage.disk import FileVoterFile
from quorate.consensus.storage.store import RocksStore
from quorate.events import TopicCreated
from quorate.gateway.http.answers import StateHash, Status
from quorate.wire.avro import decode_events
from quorate.wire.remoting import FrameSplitter, decode_header, encode_request
from quorate.wire.remoting_headers import CreateTopicFields
from tests.clusters import free_ports, until
from tests.kills import power

TOPIC = "quorate.metadata.events"
CREATE_TOPIC = 17


class LostError(AssertionError):
    """Something that was acknowledged is gone, or nodes disagree."""


PROGRAM = ("-m", "quorate")
"""What the interpreter runs."""


class Cluster:
    """Three node processes. ``library``: the undo library, so that power can be lost, and ``lying`` makes syncs do
    nothing; ``program``: what the interpreter runs.
    """

    def __init__(
        self,
        folder: Path,
        *,
        library: Path | None = None,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.places: dict[int, NodePlace] = {p.id: p for p in found(folder, 3, free_ports(3 * PORTS_PER_NODE))}
        self._library = library
        self._program = program
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, *nodes: int) -> None:
        """Start these nodes (all, if none is named)."""
        for node in nodes or self.places:
            place = self.places[node]
            environment = os.environ.copy()
            if self._library is not None:
                logs, data = self._logs(node), place.folder / "data"
                environment |= power.environment(self._library, logs, data, self._folder / "lie")
            with (place.folder / "node.log").open("ab") as log:
                self._processes[node] = subprocess.Popen(
                    [
                        sys.executable,
                        *self._program,
                        "serve",
                        "--config",
                        str(place.config),
                        "--die-with",
                        str(os.getpid()),
                    ],
                    stdout=log,
                    stderr=log,
                    env=environment,
                )

    def _logs(self, node: int) -> Path:
        return self._folder / f"undo-{node}"

    def kill(self, *nodes: int) -> None:
        """SIGKILL, all at once."""
        for node in nodes:
            self._processes[node].send_signal(signal.SIGKILL)
        for node in nodes:
            self._processes[node].wait(10)

    def refused(self, node: int) -> str:
        """Start a node that must not start: its last words."""
        log = self.places[node].folder / "node.log"
        before = log.stat().st_size
        self.start(node)
        assert self._processes[node].wait(30), f"node {node} ended well"
        return log.read_bytes()[before:].decode()

    def send(self, node: int, number: signal.Signals) -> None:
        """A signal to one node: SIGSTOP and SIGCONT to pause it, SIGTERM to end it in order."""
        self._processes[node].send_signal(number)
        if number is signal.SIGTERM:
            self._processes[node].wait(30)

    @contextmanager
    def lying(self) -> Iterator[None]:
        """As long as this lasts, every node's syncs do nothing, and say that they did. It begins once every directory
        knows itself and the others: whoever lost its voter file may not vote.
        """
        until(lambda: all(map(self._knows_all, self.places.values())), "voter files that name all", 30)
        lie = self._folder / "lie"
        lie.touch()
        try:
            yield
        finally:
            lie.unlink()

    def _knows_all(self, place: NodePlace) -> bool:
        found = FileVoterFile(str(place.folder / "data")).read()
        voter = None if found is None else decode_voter(found.data)
        return voter is not None and voter.admitted and len(voter.named) == len(voter.met) == len(self.places) - 1

    def lose_power(self, *nodes: int) -> int:
        """Take back what these (dead) nodes never synced; returns the bytes."""
        return sum(power.lose_power(self._logs(node)) for node in nodes)

    def revive(self) -> None:
        """Have every paused node go on."""
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """SIGTERM, in order; SIGKILL for one that does not go."""
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self._processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)

    def leader(self) -> int:
        """The node that says it leads, waiting for one that may decide. Raises TimeoutError."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            for node, place in self.places.items():
                status = self.status(place)
                if status is not None and status.leader == node and status.ready:
                    return node
            time.sleep(0.05)
        raise TimeoutError(f"no leader; {[p.poll() for p in self._processes.values()]}")

    @staticmethod
    def status(place: NodePlace) -> Status | None:
        """What a node says of itself, or None."""
        try:
            return Node(place.http, 1.0).get("/v1/status", Status)
        except NodeError:
            return None

    def same_everywhere(self) -> str:
        """Wait until all nodes have applied equally much; their one state hash. Raises LostError."""
        deadline = time.monotonic() + 30
        hashes: dict[int, tuple[int, str]] = {}
        while time.monotonic() < deadline:
            for node, place in self.places.items():
                try:
                    answer = Node(place.http, 2.0).get("/v1/state-hash", StateHash)
                    assert answer.hash is not None, "only the past has none"
                    assert answer.index is not None, "only the past has none"
                    hashes[node] = (answer.index, answer.hash)
                except NodeError:
                    hashes.pop(node, None)
            if len(hashes) == len(self.places) and len({index for index, _ in hashes.values()}) == 1:
                break
            time.sleep(0.1)
        if len(hashes) != len(self.places) or len(set(hashes.values())) != 1:
            raise LostError(f"nodes differ: {hashes}")
        return next(iter(hashes.values()))[1]

    def event_logs(self) -> dict[int, list[tuple[bytes, bytes]]]:
        """The stored batches of each (stopped) node."""
        logs = {}
        for node, place in self.places.items():
            store = RocksStore(str(place.folder / "data" / "store"))
            logs[node] = list(store.scan("events"))
            store.close()
        return logs


class Writers:
    """Clients that create topics, one after the other, at any node that answers, and remember what was acknowledged."""

    def __init__(self, cluster: Cluster, count: int = 8) -> None:
        self._addresses = [place.rpc for place in cluster.places.values()]
        self._stop = threading.Event()
        self.acknowledged: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(k,), daemon=True) for k in range(count)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End, if it has begun; every thread is gone afterwards."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(15)
            assert not thread.is_alive()

    def _run(self, number: int) -> None:
        rng, count = random.Random(number), 0
        while not self._stop.is_set():
            host, _, port = rng.choice(self._addresses).rpartition(":")
            try:
                with socket.create_connection((host, int(port)), 1.0) as connection:
                    connection.settimeout(3.0)
                    while not self._stop.is_set():
                        count += 1
                        if not self._create(connection, f"t-{number}-{count}"):
                            break
            except OSError:
                time.sleep(0.02)

    def _create(self, connection: socket.socket, topic: str) -> bool:
        fields = CreateTopicFields(topic=topic, read_queue_nums=4, write_queue_nums=4, perm=6)
        connection.sendall(encode_request(CREATE_TOPIC, 1, fields))
        splitter = FrameSplitter()
        while True:
            data = connection.recv(65536)
            if not data:
                return False
            for frame in splitter.feed(data):
                if decode_header(frame).code != 0:
                    return False
                self.acknowledged.append(topic)
                return True


class Reader:
    """A stock consumer that reads from the first offset on, through everything; each offset must come exactly once."""

    def __init__(self, cluster: Cluster) -> None:
        bootstrap = ",".join(place.kafka for place in cluster.places.values())
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "kills",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
        self.offsets: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, timeout=0.2):
                if message.error() is None:
                    self.offsets.append(message.offset() or 0)

    def stop(self, end: int) -> None:
        """Wait until everything before ``end`` was read; raise LostError unless each offset came once, in order."""
        deadline = time.monotonic() + 30
        while len(self.offsets) < end and time.monotonic() < deadline:
            time.sleep(0.05)
        self._stop.set()
        self._thread.join(10)
        self._consumer.close()
        seen = len(self.offsets)
        if seen < end or self.offsets != list(range(seen)):
            raise LostError(f"the reader saw {seen} records for {end} offsets, or not each once")


LAST_WORDS = 16
"""Batches that a node may hold beyond another's end: a leadership handed over, requests that were still under way."""


def verify(logs: dict[int, list[tuple[bytes, bytes]]], acknowledged: list[str]) -> int:
    """Equal logs, gapless offsets, nothing acknowledged lost, nothing done twice; the number of events that all hold.

    Nodes end one after the other: one may hold a few batches at its end that others had not applied yet.
    """
    length = min(len(log) for log in logs.values())
    if max(len(log) for log in logs.values()) > length + LAST_WORDS:
        raise LostError(f"event logs of {[len(log) for log in logs.values()]} batches, after all were the same")
    first, *others = [log[:length] for log in logs.values()]
    if any(other != first for other in others):
        raise LostError(f"event logs differ within {length} batches")
    offset, created = 0, []
    for _, batch in first:
        for stamp, event in decode_events(batch):
            if stamp.offset != offset:
                raise LostError(f"offset {stamp.offset} where {offset} was due")
            offset += 1
            if isinstance(event, TopicCreated):
                created.append(event.topic)
    if len(set(created)) != len(created):
        raise LostError("a topic was created twice")
    if lost := set(acknowledged) - set(created):
        raise LostError(f"{len(lost)} of {len(acknowledged)} acknowledged writes are lost: {sorted(lost)[:5]}")
    return offset
