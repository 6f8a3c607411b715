"""librdkafka's newest lists all topics, and follows those that a pattern names."""

import time

import confluent_kafka
from confluent_kafka.admin import AdminClient

from tests.kafka_tools.fakes import TOPIC, ServedLog


def test_librdkafka_lists_all_topics() -> None:
    """Its Metadata request for all of them leaves bytes behind its end, which Kafka passes over."""
    with ServedLog() as served:
        served.append(5)
        admin = AdminClient({"bootstrap.servers": served.bootstrap, "log_level": 0})
        found = admin.list_topics(timeout=10)
        assert list(found.topics) == [TOPIC]
        assert len(found.brokers) == 1
        assert not served.metrics[0].peer_errors


def test_librdkafka_follows_a_pattern() -> None:
    """A subscription by regular expression lists all topics first."""
    settings = {
        "bootstrap.servers": "",
        "group.id": "pattern",
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }
    with ServedLog() as served:
        served.append(5)
        consumer = confluent_kafka.Consumer(settings | {"bootstrap.servers": served.bootstrap})
        consumer.subscribe(["^quorate.*"])
        try:
            found: list[confluent_kafka.Message] = []
            ends = time.monotonic() + 30
            while len(found) < 5 and time.monotonic() < ends:
                found += [message for message in consumer.consume(10, 0.5) if message.error() is None]
        finally:
            consumer.close()
        assert [message.offset() for message in found] == list(range(5))
