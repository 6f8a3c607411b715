"""Consumers live through the loss of nodes: stock clients see every event once, in order, whoever leads."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import aiokafka
import confluent_kafka
import pytest

from tests.clusters import Started, until, up
from tests.kafka_tools.conftest import http, put_topic
from tests.kafka_tools.fakes import TOPIC
from tests.kafka_tools.test_admin_tools import rows
from tests.kafka_tools.test_tools import java
from tests.peers import peer


def bootstrap(cluster: Started) -> str:
    """All nodes."""
    return ",".join(node["kafka"] for node in cluster.nodes)


class Reader:
    """A client in a thread; ``seen`` has the offsets in the order they came."""

    def __init__(self, name: str, read: Callable[["Reader"], None]) -> None:
        self.name = name
        self.seen: list[int] = []
        self.stop = threading.Event()
        self.trouble: list[Exception] = []
        self.thread = threading.Thread(target=self._run, args=(read,), daemon=True)
        self.thread.start()

    def reached(self, end: int) -> bool:
        """It has so many, or is in trouble."""
        return len(self.seen) >= end or bool(self.trouble)

    def _run(self, read: Callable[["Reader"], None]) -> None:
        try:
            read(self)
        except Exception as error:  # noqa: BLE001  Reported by the test.
            self.trouble.append(error)


def by_confluent(where: str, *, group: bool, **how: Any) -> Callable[[Reader], None]:
    """confluent-kafka, as member of a group or by itself."""

    def read(reader: Reader) -> None:
        settings = {"bootstrap.servers": where, "group.id": reader.name, "auto.offset.reset": "earliest", **how}
        consumer = confluent_kafka.Consumer(settings)
        if group:
            consumer.subscribe([TOPIC])
        else:
            consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
        while not reader.stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None and (offset := message.offset()) is not None:
                reader.seen.append(offset)
        consumer.close()

    return read


def by_aiokafka(where: str) -> Callable[[Reader], None]:
    """Aiokafka without a group: it keeps its own position."""

    async def follow(reader: Reader) -> None:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=where, auto_offset_reset="earliest")
        await consumer.start()
        partition = aiokafka.TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        while not reader.stop.is_set():
            found = await consumer.getmany(timeout_ms=100)
            reader.seen += [record.offset for records in found.values() for record in records]
        await consumer.stop()

    return lambda reader: asyncio.run(follow(reader))


def by_kafka_python(where: str) -> Callable[[Reader], None]:
    """kafka-python without a group, in a process of its own."""

    def read(reader: Reader) -> None:
        command = [sys.executable, "-m", "tests.kafka_tools.follow", where, TOPIC]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None

            def end() -> None:
                reader.stop.wait()
                process.kill()

            threading.Thread(target=end, daemon=True).start()
            for line in process.stdout:
                reader.seen.append(int(line))

    return read


def leader(cluster: Started, asked: int) -> int | None:
    """Index of the node that leads, as another tells it."""
    with contextlib.suppress(URLError, OSError):
        known = http(cluster, asked, "/v1/quorum")["leader"]
        return next((i for i, node in enumerate(cluster.nodes) if node["id"] == known), None)
    return None


def write(cluster: Started, through: int, name: str) -> int:
    """Make an event, again until it is made (a topic put twice is one event); the next offset."""
    found: list[int] = []

    def attempt() -> bool:
        with contextlib.suppress(HTTPError, URLError, OSError):
            found.append(put_topic(cluster, through, name))
        return bool(found)

    until(attempt, f"a write through node {through}")
    return found[0]


@contextlib.contextmanager
def reading(readers: list[Reader]) -> Iterator[None]:
    """Stop them afterwards, whatever happens; their trouble is the test's."""
    try:
        yield
    finally:
        for reader in readers:
            reader.stop.set()
        for reader in readers:
            reader.thread.join(30)
    assert not [(reader.name, reader.trouble) for reader in readers if reader.trouble]


@pytest.mark.timeout(240)
def test_the_loss_of_the_leader_costs_no_event_and_repeats_none(tmp_path: Path) -> None:
    """SIGKILL of the leader under load: every client goes on; none misses an event, none but a group repeats one."""
    with up(tmp_path / "cluster") as cluster:
        everyone = bootstrap(cluster)
        readers = [
            Reader("confluent-rack", by_confluent(everyone, group=False, **{"client.rack": "node-2"})),
            Reader("aiokafka", by_aiokafka(everyone)),
            Reader("kafka-python", by_kafka_python(everyone)),
        ]
        group = Reader("confluent-group", by_confluent(everyone, group=True, **{"session.timeout.ms": 6000}))
        with reading([*readers, group]):
            for i in range(30):
                write(cluster, i % 3, f"before-{i}")
            until(lambda: all(len(reader.seen) >= 20 for reader in [*readers, group]), "everyone reads")
            led = leader(cluster, 0)
            assert led is not None
            os.kill(cluster.nodes[led]["pid"], signal.SIGKILL)
            survivor = (led + 1) % 3
            last = max(write(cluster, survivor, f"after-{i}") for i in range(30))
            for reader in readers:
                until(partial(reader.reached, last), f"{reader.name} to the end")
            until(lambda: set(range(last)) <= set(group.seen) or group.trouble, "the group to the end")
        # Committed offsets are soft, so a group may read again what it has read; those that keep their own may not.
        assert {reader.name: reader.seen for reader in readers} == {
            reader.name: list(range(len(reader.seen))) for reader in readers
        }


@pytest.mark.timeout(240)
def test_tools_that_ask_every_node_do_without_one_that_is_away(tmp_path: Path) -> None:
    """The leader is killed and stays away: Kafka's tools list and describe the groups that the others know."""
    peer("kafka")
    with up(tmp_path / "cluster") as cluster:
        where = ("--bootstrap-server", bootstrap(cluster))
        position = ("--topic", TOPIC, "--to-offset", str(write(cluster, 0, "before")))
        java("groups", *where, "--group", "kept", "--reset-offsets", *position, "--execute")
        led = leader(cluster, 0)
        assert led is not None
        os.kill(cluster.nodes[led]["pid"], signal.SIGKILL)
        write(cluster, (led + 1) % 3, "after")
        assert java("groups", *where, "--list").split() == ["kept"]
        (told,) = rows(java("groups", *where, "--describe", "--all-groups"))
        assert (told["GROUP"], told["CURRENT-OFFSET"]) == ("kept", position[-1])


@pytest.mark.timeout(120)
def test_a_lone_survivor_still_serves_what_was_committed(tmp_path: Path) -> None:
    """Without a quorum nothing can be written, but the committed log can be read from the node that is left."""
    with up(tmp_path / "cluster") as cluster:
        last = max(write(cluster, i % 3, f"topic-{i}") for i in range(6))
        http(cluster, 0, f"/v1/status?min_offset={last}")
        for node in cluster.nodes[1:]:
            os.kill(node["pid"], signal.SIGKILL)
        reader = Reader("survivor", by_kafka_python(cluster.nodes[0]["kafka"]))
        with reading([reader]):
            until(lambda: len(reader.seen) >= last or reader.trouble, "the whole log from the survivor")
        assert reader.seen == list(range(len(reader.seen)))
        with pytest.raises(HTTPError) as refused:
            put_topic(cluster, 0, "impossible")
        assert refused.value.code in (503, 504)
        refused.value.close()
