"""The event log, read by librdkafka: where it begins and ends, which one it is, and the records of a range.

Rules: a *position* is an offset of the topic; on the nodes it is the event offset, in a mirror it is that of the Kafka
there, which has holes (transaction markers), and the event offset is the record's header. Event offsets within a range
follow one another without gap, or the read fails. What is out of reach is tried again until the deadline; what is gone
(trimmed, another log) fails at once.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar, cast

import msgspec
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from quorate.asking import UnreachedError
from quorate.errors import QuorateError
from quorate.events import ClusterCreated, Event
from quorate.resolving import resolver
from quorate_spark.source.options import SourceOptions, epoch_ms
from quorate_spark.source.pace import Deadline, Pace

T = TypeVar("T")
PARTITION = 0
MESSAGES_AT_ONCE = 5_000
ATTEMPT_S = 5.0
"""One request is given this long before it is tried again."""
LONGEST_WAIT_S = 0.25
RETRY_MS = 250

_READING: dict[str, str | int | bool] = {
    "queued.min.messages": 50_000,
    "queued.max.messages.kbytes": 32_768,
    "fetch.wait.max.ms": 10,  # What a task asks for is there: a longer poll at its end would hold up the next task.
}
_WAITING: dict[str, str | int | bool] = {
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 65_536,  # To hear that there are events, not to have them.
    "fetch.wait.max.ms": 500,
    "fetch.queue.backoff.ms": 5,
}
_AGAIN = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._WAIT_COORD,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)
"""What a node coming back mends, of the client itself (no partition is known to it when every node it reached had only
just started) and of brokers, as far as their errors do not say so by ``retriable``.
"""


class LogError(QuorateError):
    """The log is not what the query was started on, or has not what it needs."""


class LostRangeError(LogError):
    """Events that are asked for are not there (any more)."""


class MissingEventsError(LostRangeError):
    """They are there no more, or never will be: no node coming back mends that."""


class WrongLogError(LogError):
    """It is another cluster's log, or the same events at other positions."""


class LogRecord(NamedTuple):
    """One event with what it carries, as the columns have it (but ``time``, which is ``time_ms`` again)."""

    offset: int
    term: int
    time_ms: int
    type: str
    key: str
    principal: str
    cause: str
    request_id: str
    value: bytes


class EventLog:
    """One topic on some nodes or on the brokers of a mirror; holds connections until it is closed."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._consumer = Consumer(_client(options) | _READING | options.client)
        self._resolver = resolver(options.registry)

    def close(self) -> None:
        """Let the connections go."""
        self._consumer.close()

    def begin(self) -> int:
        """Its first position. Raises LogError when no node answers in time."""
        return self._found("where it begins", OFFSET_BEGINNING)

    def end(self) -> int:
        """The position after its last event now, as the leader says. Raises LogError when no node answers in time."""
        return self._found("where it ends", OFFSET_END)

    def identity(self) -> str:
        """Which log this is: the cluster's id; of a mirror also that of the Kafka it lies in. Raises LogError."""
        metadata = self._patiently("who it is", lambda time_s: self._consumer.list_topics(self._options.topic, time_s))
        trouble = metadata.topics[self._options.topic].error
        if trouble is not None and not _transient(trouble):
            raise LogError(f"{self._options.nodes} has no topic {self._options.topic}: {trouble}")
        if not self._options.mirror:
            return str(metadata.cluster_id)
        return f"{self._first_event()}@{metadata.cluster_id}"

    def check_cluster(self) -> str:
        """``identity``, if it is that of the cluster asked for. Raises WrongLogError when it is another's, LogError."""
        identity = self.identity()
        if self._options.cluster not in ("", identity.split("@")[0]):
            raise WrongLogError(f"{self._options.nodes} serves the log of {identity}, not of {self._options.cluster}")
        return identity

    def position_of(self, offset: int) -> int:
        """The position of an event offset: of the first record with it or a later one; the end when there is none."""
        return self._first(lambda record: record.offset >= offset) if self._options.mirror else offset

    def position_at(self, time: str) -> int:
        """The position of the first event of that time (``epoch_ms`` reads it) or later; the end when there is none."""
        time_ms = epoch_ms(time)
        if self._options.mirror:  # Markers there bear the time of the copying, so the broker's answer may be too early.
            return self._first(lambda record: record.time_ms >= time_ms)
        position = self._found("offsets by time", time_ms)
        return position if position >= 0 else self.end()

    def _first(self, wanted: Callable[[LogRecord], bool]) -> int:
        """The least position from which the next record is wanted, as all later ones are; the end if there is none."""
        low, high = self.begin(), self.end()
        while low < high:
            middle = (low + high) // 2
            record = next(self.records(middle, high), None)
            if record is None or wanted(record):
                high = middle
            else:
                low = middle + 1
        return low

    def records(self, start: int, end: int) -> Iterator[LogRecord]:
        """The events at positions from ``start`` to before ``end``, in order.

        Raises MissingEventsError when one is missing, LostRangeError when the range is not there or a record carries
        no event offset, LogError without progress for ``timeout_ms``.
        """
        following: int | None = None if self._options.mirror else start
        for message in self._messages(start, end):
            record = _record(message)
            if following is not None and record.offset != following:
                raise MissingEventsError(f"event {following} is missing: event {record.offset} came instead")
            following = record.offset + 1
            yield record

    def event(self, record: LogRecord) -> Event:
        """What a record says. Raises DecodeError, LogError when no registry says in time what its schema is."""
        try:
            return self._resolver.decode(record.value)
        except UnreachedError:
            return self._late_event(record)

    def _late_event(self, record: LogRecord) -> Event:
        """The same, once a registry answers again."""
        deadline, retry = Deadline(self._options.timeout_ms), Pace(RETRY_MS)
        while True:
            retry.wait()
            try:
                return self._resolver.decode(record.value)
            except UnreachedError as trouble:
                if deadline.over:
                    raise LogError(f"event {record.offset}: {trouble}") from trouble

    def _messages(self, start: int, end: int) -> Iterator[Message]:
        position, deadline = start, Deadline(self._options.timeout_ms)
        self._consumer.assign([TopicPartition(self._options.topic, PARTITION, start)])
        try:
            while position < end:
                wanted = min(MESSAGES_AT_ONCE, end - position)  # The client waits for as many as it is asked for.
                for message in self._consumer.consume(wanted, min(LONGEST_WAIT_S, deadline.left_s)):
                    error, at = message.error(), message.offset() or 0
                    if error is not None:
                        position = max(position, self._after(error, at, start))
                    elif position <= at < end:
                        position = at + 1
                        deadline.progress()
                        yield message
                    else:  # Behind us (after a reconnection), or the range ends in a hole.
                        position = max(position, at)
                if deadline.over and position < end:
                    raise LogError(f"no event at position {position} within {self._options.timeout_ms} ms")
        finally:
            self._consumer.unassign()

    def _after(self, error: KafkaError, at: int, start: int) -> int:
        """The position an error stands for: a mirror's end, if it ends in a hole. Raises what waiting cannot mend."""
        if error.code() == KafkaError._PARTITION_EOF:
            return at if self._options.mirror else 0
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            if start < self.begin():
                raise MissingEventsError(f"the log has no position {start} any more: {error}")
            raise LostRangeError(f"the log has no position {start} yet, where it is read: {error}")  # It lags.
        if not _transient(error):
            raise LogError(f"reading {self._options.topic}: {error}")
        return 0

    def _first_event(self) -> str:
        first = next(self.records(self.begin(), self.end()), None)
        event = self.event(first) if first is not None else None
        if first is None or first.offset != 0 or not isinstance(event, ClusterCreated):
            raise WrongLogError(f"{self._options.topic} does not begin with the event that created its cluster")
        return event.cluster_id

    def _found(self, what: str, time: int) -> int:
        """One ListOffsets: the client hands the protocol's special times through."""
        asked = TopicPartition(self._options.topic, PARTITION, time)

        def ask(time_s: float) -> list[TopicPartition]:
            try:
                return self._consumer.offsets_for_times([asked], time_s)
            except KafkaException as trouble:
                if trouble.args[0].code() == KafkaError._UNKNOWN_PARTITION:
                    self._consumer.list_topics(self._options.topic, time_s)  # Or it goes by what it knew a moment ago.
                raise

        return int(self._patiently(what, ask)[0].offset)

    def _patiently(self, what: str, ask: Callable[[float], T]) -> T:
        deadline, retry = Deadline(self._options.timeout_ms), Pace(RETRY_MS)
        while True:
            retry.wait()
            try:
                return ask(min(ATTEMPT_S, deadline.left_s + 0.05))
            except KafkaException as trouble:
                error = trouble.args[0]
                if not _transient(error) or deadline.over:
                    raise LogError(f"{self._options.nodes} does not say {what}: {error}") from trouble


class GrowthPoll:
    """Rings when the log grows: a long poll, on connections of its own, for a node answers one request at a time."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._consumer = Consumer(_client(options) | _WAITING | options.client)
        self._next: int | None = None
        """Position of what the client hands out next."""

    def close(self) -> None:
        """Let the connections go."""
        self._consumer.close()

    def rings(self, position: int, timeout_ms: int) -> bool:
        """True as soon as an event is at ``position`` or later; False after the time, whatever the trouble."""
        if self._next != position:
            self._consumer.assign([TopicPartition(self._options.topic, PARTITION, position)])
            self._next = position
        deadline = Deadline(timeout_ms)
        while not deadline.over:
            message = self._consumer.poll(deadline.left_s)
            if message is not None and message.error() is None:
                self._next = (message.offset() or 0) + 1
                return True
        return False


@lru_cache(maxsize=4)
def pooled(options: str) -> EventLog:
    """The log by these options (JSON), connected once in each process: a worker reads many batches one by one."""
    return EventLog(msgspec.json.decode(options, type=SourceOptions))


def boundary(log: EventLog, options: SourceOptions, end: Literal["starting", "ending"]) -> int:
    """The position of the user's start or end. Raises LostRangeError when the log does not hold it, LogError."""
    asked = options.boundary(end)
    if asked is None:
        return log.position_at(getattr(options, f"{end}_time"))
    if isinstance(asked, str):
        return log.begin() if asked == "earliest" else log.end()
    position = log.position_of(asked)
    if position < log.begin():
        raise MissingEventsError(f"{end}Offset {asked} is before the log's first event")
    if position > log.end():
        raise LostRangeError(f"{end}Offset {asked} is beyond the log's end")
    return position


def _transient(error: KafkaError) -> bool:
    return error.code() in _AGAIN or (error.retriable() and not error.fatal())


def _record(message: Message) -> LogRecord:
    headers = dict(cast("list[tuple[str, bytes]]", message.headers() or []))
    try:
        return LogRecord(
            int(headers["offset"]),
            int(headers["term"]),
            int(headers["time_ms"]),
            headers["type"].decode(),
            (message.key() or b"").decode(),
            headers["principal"].decode(),
            headers["cause"].decode(),
            headers["request_id"].decode(),
            message.value() or b"",
        )
    except (KeyError, ValueError) as error:
        raise LostRangeError(f"the record at position {message.offset()} is no event of a log: {error!r}") from error


def _client(options: SourceOptions) -> dict[str, str | int | bool]:
    return {
        "bootstrap.servers": options.nodes,
        "client.id": "quorate-spark",
        "client.rack": options.rack,
        "group.id": "quorate-spark",  # Named because the client insists; never joined, nothing is committed.
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "check.crcs": True,
        "fetch.error.backoff.ms": 50,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1_000,
        "log_level": 2,
    }
