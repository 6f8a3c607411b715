"""Both ends of the copy over confluent-kafka (librdkafka): a plain consumer here, a transactional producer there.

Source: KIP-98 (transactions), KIP-447; the client's own classification of errors (fatal, abortable, retriable).
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from quorate_projections.mirror.ports import Event, FencedError, ForeignLogError, MirrorError, NodeReport
from quorate_projections.mirror.settings import MirrorSettings

OFFSET_HEADER = "offset"
LOOK_BACK = 64
"""Records of the target looked at first for the last committed one; eight times as many at each further try."""
_FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})  # noqa: SLF001 - the client's own codes
_KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings that the target topic must have, or Kafka would delete the beginning of the copy."""


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    """The client's exceptions become ours, said with what was tried."""
    try:
        yield
    except KafkaException as error:
        cause = error.args[0] if error.args else error
        if isinstance(cause, KafkaError) and cause.code() in _FENCED:
            raise FencedError(f"{what}: another mirror of this cluster took over") from error
        raise MirrorError(f"{what}: {cause}") from error
    except TimeoutError as error:
        raise MirrorError(f"{what}: no answer in time") from error


def _reader(bootstrap: str, **more: str | int) -> Consumer:
    """A consumer without a group's life: it assigns itself and commits nothing."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "quorate-mirror",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
            **more,
        }
    )


def _event(message: Message) -> Event:
    """A record as an event. Raises ForeignLogError for one without an ``offset`` header."""
    headers = _headers(message)
    number = next((value for name, value in headers if name == OFFSET_HEADER), b"")
    if not number.isdigit():
        raise ForeignLogError(f"record {message.offset()} of {message.topic()} is no event: it has no offset header")
    return Event(int(number), message.key(), message.value(), headers, message.timestamp()[1])


def _headers(message: Message) -> tuple[tuple[str, bytes], ...]:
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return tuple((name, value.encode() if isinstance(value, str) else value or b"") for name, value in pairs)


class EventSource:
    """Implements ports.Source: the topic of one node, which has one only and says how it is called there."""

    def __init__(self, standing: NodeReport, settings: MirrorSettings, now: Callable[[], float]) -> None:
        self._settings = settings
        self._now = now
        with _named("the event topic"):
            self._consumer = _reader(standing.kafka, **{"receive.message.max.bytes": 100_000_000})
        self._topic = ""
        self._end = -1

    def seek(self, offset: int) -> None:
        """Read from this event on."""
        with _named("the event topic"):
            if not self._topic:
                named = self._consumer.list_topics(timeout=self._settings.deadline_s).topics
                self._topic = next(iter(named), self._settings.topic)
            self._consumer.assign([TopicPartition(self._topic, 0, offset)])

    def read(self, most: int, wait_s: float) -> Sequence[Event]:
        """The next events in order, at most ``most``; empty after ``wait_s`` without any. Raises MirrorError."""
        with _named("the event topic"):
            messages = self._consumer.consume(most, wait_s)
        events = []
        for message in messages:
            error = message.error()
            if error is None:
                events.append(self._checked(message))
            elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own code
                raise MirrorError(f"the event topic: {error}")
        with _named("the event topic"):
            _, high = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), cached=True)
        self._end = max(self._end, high)
        return events

    def _checked(self, message: Message) -> Event:
        event = _event(message)
        if event.offset != message.offset():
            raise MirrorError(f"record {message.offset()} of the event topic says it is event {event.offset}")
        return event

    def at(self, offset: int) -> Event:
        """One event. Raises MirrorError when it is not there within the deadline. The next read needs a seek."""
        self.seek(offset)
        deadline = self._now() + self._settings.deadline_s
        while self._now() < deadline:
            for event in self.read(1, self._settings.read_wait_s):
                return event
        raise MirrorError(f"event {offset} is not in the event topic of this node")

    def end(self) -> int:
        """The high watermark as last heard."""
        return self._end

    def close(self) -> None:
        """Let go."""
        self._consumer.close()


class MirrorTopic:
    """Implements ports.Target: made if it is absent, refused unless it keeps everything; opening it fences others."""

    def __init__(
        self, standing: NodeReport, bootstrap: str, settings: MirrorSettings, now: Callable[[], float]
    ) -> None:
        self._now = now
        self._bootstrap = bootstrap
        self._settings = settings
        prepare_topic(bootstrap, settings)
        with _named("opening the target"):
            self._producer = Producer(
                {
                    "bootstrap.servers": bootstrap,
                    "transactional.id": f"{standing.cluster_id}.mirror.{settings.topic}",
                    "transaction.timeout.ms": int(settings.transaction_timeout_s * 1000),
                    "message.max.bytes": settings.message_bytes_max,
                    "linger.ms": 2,
                }
            )
            self._producer.init_transactions(settings.deadline_s)

    def write(self, events: Iterable[Event]) -> None:
        """All or none. Raises FencedError (none), MirrorError (unknown: open again, look again)."""
        producer, deadline_s = self._producer, self._settings.deadline_s
        with _named("writing to the target"):
            producer.begin_transaction()
            for event in events:
                self._produce(event)
            producer.commit_transaction(deadline_s)

    def _produce(self, event: Event) -> None:
        try:
            self._producer.produce(
                self._settings.topic,
                value=event.value,
                key=event.key,
                partition=0,
                headers=list(event.headers),
                timestamp=event.time_ms,
            )
        except BufferError as error:
            raise MirrorError(f"the target does not take what was produced: {error}") from error
        self._producer.poll(0)

    def first_and_last(self) -> tuple[Event, Event] | None:
        """The first and the last committed record; None when there is none. Raises MirrorError. Call it after opening
        only: then no other mirror can add to what is found.
        """
        reader = {"isolation.level": "read_committed"}
        with _named("reading the target"), contextlib.closing(_reader(self._bootstrap, **reader)) as consumer:
            low, high = consumer.get_watermark_offsets(
                TopicPartition(self._settings.topic, 0), timeout=self._settings.deadline_s
            )
            first = next(self._records(consumer, low), None)
            if first is None:
                return None
            back = LOOK_BACK
            while True:
                last = None
                for last in self._records(consumer, max(low, high - back)):  # noqa: B007 - the last one is wanted
                    pass
                if last is not None:
                    return first, last
                back *= 8

    def _records(self, consumer: Consumer, start: int) -> Iterator[Event]:
        """Committed records from a position to the end."""
        deadline = self._now() + self._settings.deadline_s
        consumer.assign([TopicPartition(self._settings.topic, 0, start)])
        while self._now() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                deadline = self._now() + self._settings.deadline_s
                yield _event(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own code
                return
            else:
                raise MirrorError(f"reading the target: {error}")
        raise MirrorError(f"reading the target: nothing for {self._settings.deadline_s:.0f} s")

    def close(self) -> None:
        """Let go. An open transaction is left to be aborted by the next mirror, or by its timeout. A producer that was
        fenced may say so here once more; that is known.
        """
        with contextlib.suppress(KafkaException):
            self._producer.purge()
            self._producer.flush(0)


def prepare_topic(bootstrap: str, settings: MirrorSettings) -> None:
    """Make the target topic, or see that the one that is there can hold a log. Raises MirrorError.

    All topics are asked for: a Kafka that makes topics by itself, as it does by default, would make one that is asked
    for by name, then and there, with an expiry.
    """
    with _named("preparing the target topic"):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topic = admin.list_topics(timeout=settings.deadline_s).topics.get(settings.topic)
        if topic is None:
            _create(admin, settings)
            return
        if topic.error is not None:
            raise KafkaException(topic.error)
        if len(topic.partitions) != 1:
            raise MirrorError(f"{settings.topic} has {len(topic.partitions)} partitions in the target; a log has one")
        resource = ConfigResource(ResourceType.TOPIC, settings.topic)
        future = admin.describe_configs([resource], request_timeout=settings.deadline_s)[resource]
        config = {name: entry.value for name, entry in future.result(settings.deadline_s).items()}
    wrong = [
        f"{name}={config.get(name)} instead of {value}" for name, value in _KEPT.items() if config.get(name) != value
    ]
    if wrong:
        raise MirrorError(f"{settings.topic} would lose events in the target: {', '.join(wrong)}")


def _create(admin: AdminClient, settings: MirrorSettings) -> None:
    config = {
        **_KEPT,
        "message.timestamp.type": "CreateTime",
        "max.message.bytes": str(settings.message_bytes_max),
        "min.insync.replicas": str(settings.min_insync_replicas),
    }
    topic = NewTopic(settings.topic, 1, settings.replication_factor, config=config)
    # That somebody else has made it just now is an error too: it is tried again, and then looked at.
    admin.create_topics([topic], request_timeout=settings.deadline_s)[settings.topic].result(settings.deadline_s)
