"""The source on a real node: rows against another reader of the log, batches, restarts, refusals, idle traffic."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from quorate_spark.source import STAMP, events, register, typed
from tests.clusters import gone, until
from tests.peers import peer
from tests.spark.feed import Feed, feed

KILLS = 3
WAIT_S = 120


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feed]:
    """One node with a little history."""
    with feed(tmp_path_factory.mktemp("source") / "node") as made:
        made.burst(40)
        yield made


class KeyState:
    """What a query wrote, batch by batch, as a sink that is told of a batch again would have it."""

    def __init__(self, frame: DataFrame, checkpoint: Path, **trigger: Any) -> None:
        self.batches: dict[int, list[int]] = {}
        writer = frame.writeStream.foreachBatch(self._write).option("checkpointLocation", str(checkpoint))
        self.query: StreamingQuery = writer.trigger(**trigger).start()

    def _write(self, batch: DataFrame, number: int) -> None:
        self.batches[number] = sorted(row.offset for row in batch.select("offset").collect())

    @property
    def offsets(self) -> list[int]:
        """Of all batches, in their order."""
        return [offset for _, batch in sorted(self.batches.items()) for offset in batch]


def test_every_row_is_what_the_node_says(spark: SparkSession, node: Feed) -> None:
    """Each column of each row equals what the node's HTTP interface tells of that event."""
    rows = sorted(events(spark, node.options(), streaming=False).collect())
    told = node.log()
    assert len(rows) == len(told) > 40
    for row, event in zip(rows, told, strict=True):
        for name in ("offset", "term", "time_ms", "type", "key", "principal", "cause", "request_id"):
            assert row[name] == event[name], name
        assert json.loads(row.event) == {name: value for name, value in event["event"].items() if name != "type"}


def test_the_short_name_is_enough(spark: SparkSession, node: Feed) -> None:
    """``spark.read.format("quorate")`` with options as text."""
    register(spark)
    frame = spark.read.format("quorate").option("nodes", node.kafka).option("endingOffset", 10).load()
    assert frame.count() == 10


def test_an_event_type_becomes_columns(spark: SparkSession, node: Feed) -> None:
    """``typed`` gives the rows of one type, with its fields in their own types."""
    frame = typed(events(spark, node.options(), streaming=False), "TopicCreated")
    assert frame.columns[: len(STAMP)] == list(STAMP)
    found = {row.topic: row for row in frame.collect()}
    assert found["topic-7"].read_queues == 4
    assert found["topic-7"].attributes == {"message.type": "FIFO"}
    assert len(found) == node.topics


def test_batches_are_bounded_and_a_restart_goes_on(spark: SparkSession, node: Feed, tmp_path: Path) -> None:
    """availableNow reads what is there in batches of the limit, the next run what came since, and nothing twice."""
    frame = events(spark, node.options(max_events_per_trigger=15))
    first = KeyState(frame, tmp_path / "checkpoint", availableNow=True)
    assert first.query.awaitTermination(WAIT_S)
    end = node.get("/v1/status")["offset"]
    assert first.offsets == list(range(end))
    assert max(map(len, first.batches.values())) == 15
    new_end = node.burst(20)
    second = KeyState(frame, tmp_path / "checkpoint", availableNow=True)
    assert second.query.awaitTermination(WAIT_S)
    assert second.offsets == list(range(end, new_end))
    assert min(second.batches) == max(first.batches) + 1


def test_a_batch_that_was_not_finished_comes_again_the_same(spark: SparkSession, node: Feed, tmp_path: Path) -> None:
    """A sink that fails is told of the very same rows again after a restart, though there are more events now."""
    told: list[tuple[int, list[int]]] = []

    def write(batch: DataFrame, number: int) -> None:
        told.append((number, sorted(row.offset for row in batch.select("offset").collect())))
        if len(told) == 2:
            raise OSError("the sink is full")

    def run() -> StreamingQuery:
        frame = events(spark, node.options(max_events_per_trigger=10))
        writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(availableNow=True).start()

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        run().awaitTermination(WAIT_S)
    node.burst(5)
    assert run().awaitTermination(WAIT_S)
    assert told[2] == told[1]
    assert [offset for number, batch in dict(told).items() for offset in batch] == list(range(told[-1][1][-1] + 1))


def test_a_checkpoint_of_another_cluster_fails_loudly(spark: SparkSession, node: Feed, tmp_path: Path) -> None:
    """The query ends with a message that names both clusters; no row of the wrong log is written."""
    assert KeyState(events(spark, node.options()), tmp_path / "checkpoint", availableNow=True).query.awaitTermination(
        WAIT_S
    )
    with feed(tmp_path / "other") as other:
        other.burst(60)
        wrong = KeyState(events(spark, other.options()), tmp_path / "checkpoint", availableNow=True)
        with pytest.raises(StreamingQueryException, match=r"checkpoint is of log \w+, and .* serves \w+"):
            wrong.query.awaitTermination(WAIT_S)
        assert wrong.offsets == []


@pytest.mark.parametrize("source", ["quorate", "kafka"])
def test_an_idle_query_asks_five_times_a_second_at_most(
    spark: SparkSession, node: Feed, tmp_path: Path, source: Any
) -> None:
    """Counted at the node: rounds for the log's end while nothing happens; and a new event still comes through."""
    if source == "kafka":
        peer("spark")
        trigger: dict[str, Any] = {"processingTime": "200 milliseconds"}
    else:
        trigger = {"processingTime": "0 seconds"}
    kept = KeyState(events(spark, node.options(), source), tmp_path / "checkpoint", **trigger)
    try:
        until(lambda: kept.offsets[-1:] == [node.get("/v1/status")["offset"] - 1], "all events", WAIT_S)
        before, began = node.requests("list_offsets"), time.monotonic()
        until(lambda: node.requests("list_offsets") - before >= 15, "rounds of an idle query", WAIT_S)
        asked, took = node.requests("list_offsets") - before, time.monotonic() - began
        assert asked <= 5 * took + 2
        end = node.topic()
        until(lambda: kept.offsets[-1:] == [end - 1], "the new event", WAIT_S)
        assert kept.query.exception() is None
    finally:
        kept.query.stop()


@pytest.mark.timeout(600)  # Four starts of Spark, which a busy machine makes a minute each; all waits have bounds.
@pytest.mark.slow  # In make test every reader is held against a replay while Spark's driver is killed (tests/equality).
def test_killed_drivers_write_every_event_once(node: Feed, tmp_path: Path, spark: SparkSession) -> None:
    """kill -9 of the driver, again and again, with events flowing: the sink's committed rows are the log, once each."""
    sink, checkpoint = tmp_path / "sink", tmp_path / "checkpoint"
    command = [sys.executable, "-m", "tests.spark.driver", node.kafka, str(checkpoint), str(sink)]
    for kill in range(KILLS):
        with (tmp_path / f"driver-{kill}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
            assert process.stdout is not None
            for _ in range(1 + kill % 3):
                node.burst(25)
                assert process.stdout.readline(), (tmp_path / f"driver-{kill}.log").read_text()[-2000:]
            node.burst(25)
        family = _family(process.pid)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=WAIT_S)
        for child in family:  # The JVM and its workers are of the driver: they die with it, or by our hand.
            _kill(child)
        until(partial(_all_gone, family), "the end of the driver", WAIT_S)
    end = node.burst(5)
    last = subprocess.run([*command, "--now"], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert last.returncode == 0, last.stderr[-2000:]
    offsets = sorted(row.offset for row in spark.read.parquet(str(sink)).select("offset").collect())
    assert offsets == list(range(end))


def _all_gone(family: list[int]) -> bool:
    return all(map(gone, family))


def _family(pid: int) -> list[int]:
    import psutil

    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def _kill(pid: int) -> None:
    import psutil

    try:
        psutil.Process(pid).kill()
    except psutil.NoSuchProcess:
        return
