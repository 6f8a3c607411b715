"""kafka-python following the log in a process of its own (it leaves sockets open): one offset a line.

Usage: ``python -m tests.kafka_tools.follow BOOTSTRAP TOPIC``.
"""

import sys

import kafka


def main(bootstrap: str, topic: str) -> None:
    """Until somebody ends it."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    while True:
        for records in consumer.poll(timeout_ms=100).values():
            for record in records:
                print(record.offset, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
