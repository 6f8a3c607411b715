"""The source on a copy in a real Kafka: its offsets have holes, the rows are those of the log all the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, Row, SparkSession

from quorate.events import ClusterCreated, Event, encode, key
from quorate_spark.source import SourceOptions, events
from quorate_spark.source.frames import Source
from quorate_spark.source.log import EventLog, WrongLogError
from tests.kafka_broker import KafkaBroker, kafka_broker
from tests.kafka_tools.fakes import START_MS, sample_event
from tests.peers import peer

TOPIC = "copy"
CLUSTER = "c-1"
EVENTS = 60
IN_A_TRANSACTION = 7


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Kafka with a mirror's topic: transactions of seven events, and before each an aborted one."""
    peer("spark")
    with kafka_broker(tmp_path_factory.mktemp("mirror") / "kafka") as made:
        admin = AdminClient({"bootstrap.servers": made.bootstrap})
        for made_topic in admin.create_topics([NewTopic(TOPIC, 1, 1, config={"retention.ms": "-1"})]).values():
            made_topic.result(30)
        producer = Producer({"bootstrap.servers": made.bootstrap, "transactional.id": "mirror"})
        producer.init_transactions(30)
        for base in range(0, EVENTS, IN_A_TRANSACTION):
            producer.begin_transaction()
            send(producer, base, sample_event(base))
            producer.flush(30)  # Else Kafka may know of no transaction when it is aborted, which is an error to it.
            producer.abort_transaction(30)
            producer.begin_transaction()
            for offset in range(base, min(base + IN_A_TRANSACTION, EVENTS)):
                first = ClusterCreated(cluster_id=CLUSTER, voters=(), feature_level=1)
                send(producer, offset, sample_event(offset) if offset else first)
            producer.commit_transaction(30)
        yield made


def send(producer: Producer, offset: int, event: Event) -> None:
    """A record as the mirror writes it."""
    told = {"offset": offset, "term": 1 + offset // 20, "time_ms": START_MS + offset, "type": type(event).__name__}
    headers = {**told, "principal": "p", "cause": "", "request_id": f"r{offset}"}
    producer.produce(
        TOPIC,
        encode(event),
        key(event),
        partition=0,
        timestamp=START_MS + offset,
        headers=[(name, str(value).encode()) for name, value in headers.items()],
    )


def options(broker: KafkaBroker, **more: Any) -> SourceOptions:
    """Where the copy is."""
    return SourceOptions(nodes=broker.bootstrap, topic=TOPIC, mirror=True, **more)


@pytest.mark.parametrize("source", ["quorate", "kafka"])
def test_rows_of_a_mirror_are_those_of_the_log(spark: SparkSession, broker: KafkaBroker, source: Source) -> None:
    """Every event once, numbered by its header; a part by event offsets or times is that part."""
    found: list[Row] = []
    for part, wanted in (
        ({}, range(EVENTS)),
        ({"starting_offset": "13", "ending_offset": "29"}, range(13, 29)),
        ({"starting_offset": "14"}, range(14, EVENTS)),
        ({"starting_time": str(START_MS + 20), "ending_time": str(START_MS + 50)}, range(20, 50)),
    ):
        found = events(spark, options(broker, **part), source, streaming=False).sort("offset").collect()
        assert [row.offset for row in found] == list(wanted)
    for row in found:
        event = sample_event(row.offset)
        assert (row.type, row.key) == (type(event).__name__, key(event).decode())
        assert (row.term, row.time_ms, row.request_id) == (
            1 + row.offset // 20,
            START_MS + row.offset,
            f"r{row.offset}",
        )


@pytest.mark.parametrize("source", ["quorate", "kafka"])
def test_a_stream_of_a_mirror_has_no_holes(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, source: Source
) -> None:
    """Bounded batches, some of which end in a hole of Kafka's offsets: every event once, in order."""
    seen: list[list[int]] = []

    def keep(batch: DataFrame, _: int) -> None:
        seen.append(sorted(row.offset for row in batch.select("offset").collect()))

    frame = events(spark, options(broker, max_events_per_trigger=10, events_per_task=4), source)
    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert [offset for batch in seen for offset in batch] == list(range(EVENTS))
    assert len(seen) > EVENTS // 10


def test_a_mirror_names_its_cluster_and_its_kafka(broker: KafkaBroker) -> None:
    """Positions mean something in that Kafka only, so a checkpoint names both; another cluster is refused."""
    log = EventLog(options(broker))
    cluster, kafka = log.check_cluster().split("@")
    assert cluster == CLUSTER
    assert kafka
    log.close()
    with pytest.raises(WrongLogError, match=f"log of {CLUSTER}@.*, not of other"):
        EventLog(options(broker, cluster="other")).check_cluster()
