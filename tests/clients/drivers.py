"""Python clients reading the log: one offset a line, for ever; a line ``error …`` for what a client tells its user.

Usage: ``python -m tests.clients.drivers CLIENT BOOTSTRAP TOPIC RACK [GROUP]`` (RACK may be empty).
"""

import asyncio
import math
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import kafka.errors


def tell(offsets: Iterable[int]) -> None:
    """Print at once."""
    sys.stdout.write("".join(f"{offset}\n" for offset in offsets))
    sys.stdout.flush()


def by_confluent(bootstrap: str, topic: str, rack: str, group: str | None) -> None:
    """confluent-kafka (librdkafka)."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group or "unused",
        "client.rack": rack,
        "auto.offset.reset": "earliest" if group else "error",
        "enable.auto.commit": group is not None,
        "auto.commit.interval.ms": 500,
        "session.timeout.ms": 30_000,
        "reconnect.backoff.max.ms": 1000,
        "log_level": 0,
    }
    consumer = confluent_kafka.Consumer(settings)
    if group:
        consumer.subscribe([topic])
    else:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    while True:
        for message in consumer.consume(500, 0.2):
            if message.error() is None:
                tell([message.offset() or 0])
            else:
                print("error", message.error(), flush=True)


async def _by_aiokafka(bootstrap: str, topic: str, rack: str, group: str | None) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        client_rack=rack or None,
        group_id=group,
        auto_offset_reset="earliest" if group else "none",
        auto_commit_interval_ms=500,
        session_timeout_ms=30_000,
    )
    await consumer.start()
    if group:
        consumer.subscribe([topic])
    else:
        partition = aiokafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
    while True:
        for records in (await consumer.getmany(timeout_ms=200)).values():
            tell(record.offset for record in records)


def by_aiokafka(*arguments: Any) -> None:
    """aiokafka."""
    asyncio.run(_by_aiokafka(*arguments))


def by_kafka_python(bootstrap: str, topic: str, rack: str, group: str | None) -> None:
    """kafka-python."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        client_rack=rack,
        group_id=group,
        auto_offset_reset="earliest" if group else "none",
        auto_commit_interval_ms=500,
        session_timeout_ms=30_000,
    )
    if group:
        consumer.subscribe([topic])
    else:
        partition = kafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
    while True:
        try:
            found = consumer.poll(timeout_ms=math.inf)  # One that ends amid a rebalance misses its outcome.
        except kafka.errors.KafkaConnectionError:  # No node at all can be reached: whoever polls again is served again.
            time.sleep(0.1)
            continue
        for records in found.values():
            tell(record.offset for record in records)


CLIENTS: dict[str, Callable[..., None]] = {
    "confluent": by_confluent,
    "aiokafka": by_aiokafka,
    "kafka-python": by_kafka_python,
}


def main(client: str, bootstrap: str, topic: str, rack: str, group: str | None = None) -> None:
    """Until somebody ends it, or the client gives up."""
    try:
        CLIENTS[client](bootstrap, topic, rack, group)
    except Exception as error:
        print("error", repr(error), flush=True)
        raise


if __name__ == "__main__":
    main(*sys.argv[1:])
