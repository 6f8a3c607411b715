"""A worker beside real nodes: the leader is killed while events flow, and every answer still equals the log."""

import os
import random
import signal
from pathlib import Path

import pytest

pytest.importorskip("faust", reason="projections are not installed (make setup-all)")

from confluent_kafka import Consumer, TopicPartition

from quorate.cli.client import Node, NodeError
from quorate.gateway.http.answers import Done, Status
from tests.batches import Record
from tests.clusters import up
from tests.consumed import record_of
from tests.projections.samples import VIEWS, Samples
from tests.projections.worker import Worker, workers

TOPIC = "quorate.metadata.events"
FULL = {"audit", "configs", "controller_terms", "routes", "topics"}
"""Views that something is in without brokers."""


def log_of(bootstrap: str, count: int) -> list[Record]:
    """The first ``count`` records, read by a stock client."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "replay", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[Record] = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None
        assert not message.error()
        found.append(record_of(message))
    consumer.close()
    return found


def write(nodes: list[Node], chance: random.Random, number: int) -> int:
    """One change by whichever node takes it; the offset it is reflected at, 0 if nobody would."""
    settings = {"read_queues": chance.choice((4, 8)), "write_queues": 4, "permission": 6}
    for node in nodes:
        try:
            if number % 3:
                done = node.send("PUT", f"/v1/topics/t{number % 7}", settings, Done)
            else:
                done = node.send("PUT", "/v1/config/cluster", {"changes": {"x": str(number)}, "unread": True}, Done)
        except NodeError:
            continue
        return done.offset
    return 0


def test_a_worker_follows_through_the_death_of_the_leader(tmp_path: Path) -> None:
    """Killed leader, forty writes around it: the worker never answers wrongly and has all of it in the end."""
    with up(tmp_path / "c") as cluster:
        kafka = [node["kafka"] for node in cluster.nodes]
        worker, samples = Worker({"nodes": ",".join(kafka)}, tmp_path / "w"), Samples(random.Random(41))
        nodes = [cluster.node(index) for index in range(3)]
        with workers(worker):
            worker.wait(ready=True)
            reached = 0
            for number in range(40):
                if number == 20:
                    leader = nodes[0].get("/v1/status", Status).leader
                    index = next(at for at, node in enumerate(cluster.nodes) if node["id"] == leader)
                    os.kill(cluster.nodes[index]["pid"], signal.SIGKILL)
                    del nodes[index], kafka[index]
                reached = max(reached, write(nodes, samples.chance, number))
                samples.take(worker)
            answer = worker.ask("/views/topics", min_offset=reached, wait_ms=30_000)
            assert answer[0] == 200
            for view in VIEWS:
                samples.take(worker, view)
            told = worker.wait(ready=True, lag=0)
        full = samples.compare(log_of(kafka[0], told["offset"]))
        assert {view for view in VIEWS if full[view]} == FULL
        assert samples.offsets >= 15
