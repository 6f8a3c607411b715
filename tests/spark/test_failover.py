"""Both implementations through what happens to a cluster of three: no loss, no duplicate, no query that ends."""

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import DataFrame, SparkSession

from quorate_spark.source import SourceOptions, events
from tests.clusters import QUORATE, Started, gone, until, up
from tests.peers import peer

WAIT_S = 150.0
SOURCES = ["quorate", "kafka"]


class Trial:
    """A cluster under a query; offsets as the query's sink got them."""

    def __init__(self, cluster: Started, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.pids = {node["id"]: int(node["pid"]) for node in cluster.nodes}
        self.again: list[subprocess.Popen[bytes]] = []
        self.seen: list[int] = []
        self.topics = 0

    @property
    def nodes(self) -> str:
        """All of them, as a user would name them."""
        return ",".join(node["kafka"] for node in self.cluster.nodes)

    def keep(self, batch: DataFrame, _: int) -> None:
        """The sink: whatever comes, in the order it comes."""
        self.seen += sorted(row.offset for row in batch.select("offset").collect())

    def status(self, index: int) -> dict[str, Any]:
        """What a node says of itself."""
        with urllib.request.urlopen(f"http://{self.cluster.nodes[index]['http']}/v1/status", timeout=5) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def leader(self) -> int:
        """Index of the node the others call leader."""
        found: list[int] = []

        def known() -> bool:
            for index in range(3):
                try:
                    said = self.status(index)
                except (OSError, ValueError):
                    continue
                if said.get("leader") is not None:
                    ids = [node["id"] for node in self.cluster.nodes]
                    found.append(ids.index(said["leader"]))
                    return True
            return False

        until(known, "a leader", WAIT_S)
        return found[-1]

    def make(self, count: int, through: int | None = None) -> int:
        """Make events through any node that takes them; an offset they are all before."""
        end = 0
        for _ in range(count):
            self.topics += 1
            made: list[int] = []
            until(partial(self._put, made, through), "a node that takes an event", WAIT_S)
            end = max(end, made[-1])
        return end

    def _put(self, made: list[int], through: int | None) -> bool:
        body = json.dumps({"read_queues": 4, "write_queues": 4}).encode()
        for index in range(3) if through is None else [through]:
            url = f"http://{self.cluster.nodes[index]['http']}/v1/topics/topic-{self.topics}"
            try:
                request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="PUT")
                with urllib.request.urlopen(request, timeout=4) as answer:
                    made.append(json.loads(answer.read())["offset"])
                    return True
            except (OSError, urllib.error.HTTPError, ValueError):
                continue
        return False

    def kill(self, index: int) -> int:
        """SIGKILL a node; its index."""
        pid = self.pids[self.cluster.nodes[index]["id"]]
        psutil.Process(pid).send_signal(signal.SIGKILL)
        until(lambda: gone(pid), "the end of a node")
        return index

    def end(self, index: int) -> int:
        """SIGTERM a node, which hands over what it leads; its index."""
        pid = self.pids[self.cluster.nodes[index]["id"]]
        psutil.Process(pid).terminate()
        until(lambda: gone(pid), "the orderly end of a node")
        return index

    def restart(self, index: int) -> None:
        """Bring back a node that was killed or ended."""
        name = self.cluster.nodes[index]["id"]
        with (self.folder / f"again-{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*QUORATE, "serve", "--config", str(self.cluster.config(index))], stdout=log, stderr=log
            )
        self.again.append(process)
        self.pids[name] = process.pid

    def caught_up(self, end: int, query: Any) -> None:
        """Everything before ``end`` came, each event once and in order."""

        def came() -> bool:
            assert query.exception() is None, str(query.exception())
            return bool(self.seen) and self.seen[-1] >= end - 1

        until(came, f"event {end - 1}", WAIT_S)
        assert self.seen == list(range(len(self.seen)))


@contextmanager
def trial(folder: Path) -> Iterator[Trial]:
    """Three nodes; those that were brought back are ended afterwards."""
    with up(folder / "cluster") as cluster:
        made = Trial(cluster, folder)
        try:
            yield made
        finally:
            for process in made.again:
                process.terminate()
                process.wait(30)


@contextmanager
def reading(spark: SparkSession, made: Trial, source: Any, **options: Any) -> Iterator[Any]:
    """A query over all nodes, with events already read."""
    end = made.make(20)
    frame = events(spark, SourceOptions(nodes=made.nodes, **options), source)
    writer = frame.writeStream.foreachBatch(made.keep).option("checkpointLocation", str(made.folder / "checkpoint"))
    query = writer.trigger(processingTime="200 milliseconds").start()
    try:
        made.caught_up(end, query)
        yield query
    finally:
        query.stop()


@pytest.mark.parametrize("source", SOURCES)
def test_a_killed_leader_costs_nothing(spark: SparkSession, tmp_path: Path, source: str) -> None:
    """kill -9 of the leader under a running query: what the new leader decides comes through, gapless and once."""
    peer("spark")
    with trial(tmp_path) as made, reading(spark, made, source) as query:
        made.kill(made.leader())
        made.caught_up(made.make(20), query)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("source", SOURCES)
def test_moves_lag_and_restarts_cost_nothing(spark: SparkSession, tmp_path: Path, source: str) -> None:
    """Leaders that hand over and come back, a follower that stands still while it is read from, all nodes anew."""
    peer("spark")
    with trial(tmp_path) as made:
        follower = (made.leader() + 1) % 3
        with reading(spark, made, source, rack=f"node-{made.cluster.nodes[follower]['id']}") as query:
            stopped = psutil.Process(made.pids[made.cluster.nodes[follower]["id"]])
            stopped.suspend()
            end = made.make(20, through=made.leader() if made.leader() != follower else None)
            stopped.resume()
            made.caught_up(end, query)
            for _ in range(3):
                ended = made.end(made.leader())
                end = made.make(10)
                made.restart(ended)
                made.caught_up(end, query)
            for index in range(3):
                made.kill(index)
            for index in range(3):
                made.restart(index)
            made.caught_up(made.make(20), query)
