"""What the log says of sessions, as a stock Kafka client reads it."""

from collections.abc import Iterable

from confluent_kafka import Consumer, TopicPartition

from quorate.events import (
    Event,
    SessionDisconnected,
    SessionEnded,
    SessionOpened,
    SessionOwnerLost,
    SessionOwnerSettled,
    SubscriptionsChanged,
    decode,
)
from tests.clusters import until

TOPIC = "quorate.metadata.events"


def read(bootstrap: str) -> list[Event]:
    """All of it, to the end there is now; the place in the list is the offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "mqtt", "enable.auto.commit": False})
    found = list[Event]()
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20)

        def more() -> bool:
            for message in consumer.consume(500, 0.2):
                assert message.error() is None, message.error()
                assert message.offset() == len(found), "offsets are gapless"
                value = message.value()
                assert value is not None
                found.append(decode(value))
            return len(found) >= end

        until(more, f"{end} events")
    finally:
        consumer.close()
    return found


def owners(events: Iterable[Event]) -> dict[str, list[tuple[int, str]]]:
    """Of each client, the epochs of its session and who had it, in order. Fails if an epoch does not grow, if an
    opening replaces another than the one there is, or if something is done of a session by who does not have it.
    """
    found = dict[str, list[tuple[int, str]]]()
    gone, ended, lost, member_epochs = set[int](), {0}, set[int](), {0: 0}
    for offset, event in enumerate(events):
        match event:
            case SessionOpened():
                epoch, member = found.get(event.client, [(0, "")])[-1]
                assert offset > epoch
                assert event.replaced_epoch == (0 if epoch in ended else epoch), (offset, event)
                connected = epoch not in gone | ended and member_epochs[epoch] not in lost
                assert event.taken_over_from == (member if connected else ""), (offset, event)
                found.setdefault(event.client, []).append((offset, event.member))
                member_epochs[offset] = event.member_epoch
            case SessionDisconnected() | SessionEnded():
                assert (event.session_epoch, event.member) == found[event.client][-1], (offset, event)
                (gone if isinstance(event, SessionDisconnected) else ended).add(event.session_epoch)
            case SubscriptionsChanged():
                assert event.session_epoch == found[event.client][-1][0], (offset, event)
            case SessionOwnerLost():
                lost.add(event.member_epoch)
            case SessionOwnerSettled() if event.sessions:  # It is heard again, and has them.
                lost.discard(event.member_epoch)
            case _:
                pass
    return found
