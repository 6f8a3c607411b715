"""Reading the event topic past Faust: whose log is it, where does it go on for us, and a long catch-up.

Rules: partition 0, assigned by hand, committed records only; nothing is committed. The end is what a Fetch answer says
(any node may answer it), not ListOffsets, which needs a leader. Every wait has a deadline; trouble with the other side
is ``aiokafka.errors.KafkaError``, another cluster's log is OtherLogError.

Theory: a stored position has the Kafka offset beside it. It is believed only after the record before it proved to be
the last event we reflect (offset, term, time). If it is not, because the same rows now follow a mirror instead of a
node, the place is found by bisection over the records' own headers.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Self

import aiokafka
import msgspec
from aiokafka.errors import KafkaTimeoutError
from aiokafka.structs import TopicPartition

from quorate.errors import PeerError
from quorate.events import ClusterCreated, Event
from quorate.resolving import SchemaNeededError, resolver
from quorate_projections.folding import Folding, TakeResult
from quorate_projections.record import event_offset, read_event, read_stamp
from quorate_projections.settings import ProjectionSettings
from quorate_projections.store import Position

_WAIT_MS: Final = 100
"""Long poll of this reader: it asks where the end is, it does not follow."""

Record = Any
"""aiokafka's ConsumerRecord, which has no types."""


class OtherLogError(PeerError):
    """The log is not the one our rows were made from."""


class GapError(PeerError):
    """The log has no event where there must be one."""


def new_consumer(settings: ProjectionSettings, fetch_wait_ms: int) -> Any:
    """A consumer without a group; must be made on the loop it runs on."""
    return aiokafka.AIOKafkaConsumer(
        client_id="quorate-projections",
        client_rack=settings.client_rack or None,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        bootstrap_servers=settings.bootstrap,
        fetch_max_wait_ms=fetch_wait_ms,
        max_partition_fetch_bytes=settings.fetch_bytes_max,
        request_timeout_ms=int(settings.request_timeout_s * 1000),
        retry_backoff_ms=100,
    )


class LogReader:
    """One consumer of partition 0; use it as ``async with``."""

    def __init__(self, settings: ProjectionSettings, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._consumer: Any = new_consumer(settings, _WAIT_MS)
        self._partition = TopicPartition(settings.topic, 0)
        self._resolver = resolver(settings.node)

    async def __aenter__(self) -> Self:
        """Connect. Raises KafkaConnectionError when no node can be reached."""
        try:
            await self._consumer.start()
        except BaseException:
            await self._consumer.stop()
            raise
        self._consumer.assign([self._partition])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()

    @property
    def end(self) -> int | None:
        """Kafka offset after the last committed record, as the last answer said."""
        offset: int | None = self._consumer.last_stable_offset(self._partition)
        return offset

    async def place(self, position: Position) -> int | None:
        """Kafka offset to read from; None: the log is shorter than what we reflect, ask again later.

        Raises OtherLogError when the log is another cluster's, another history, or begins after our position;
        UnreachedError when its first event has a schema that no registry could be asked for.
        """
        first = await self._at(0)
        if first is None:
            return 0 if position.events == 0 else None
        begins = event_offset(first.headers)
        if begins > position.events:
            raise OtherLogError(f"the log begins at {begins}, after our position {position.events}")
        if begins == 0:
            _check_cluster(await self._event(first), position)
        if position.events == 0:
            return int(first.offset)
        before = await self._find(position, first.offset)
        if before is None:
            return None
        stamp = read_stamp(before.headers)
        if (stamp.term, stamp.time_ms) != (position.term, position.time_ms):
            raise OtherLogError(
                f"event {stamp.offset} is of term {stamp.term} at {stamp.time_ms}, the one our rows reflect of term"
                f" {position.term} at {position.time_ms}: another history"
            )
        return int(before.offset) + 1

    async def _event(self, record: Record) -> Event:
        """What a record says; a registry is asked on another thread. Raises RecordError, UnreachedError."""
        try:
            return read_event(record.value, self._resolver.decode_known)
        except SchemaNeededError:
            return await asyncio.to_thread(read_event, record.value, self._resolver.decode)

    async def _find(self, position: Position, first: int) -> Record | None:
        """The record of the last event we reflect."""
        wanted = position.events - 1
        guess = await self._at(max(position.kafka - 1, first))
        if guess is not None and event_offset(guess.headers) == wanted:
            return guess
        low, high = first, self.end or first
        while low < high:
            middle = (low + high) // 2
            record = await self._at(middle)
            if record is None or event_offset(record.headers) > wanted:
                high = middle
            elif event_offset(record.headers) == wanted:
                return record
            else:
                low = int(record.offset) + 1
        return None

    async def holds_more(self, kafka: int) -> bool:
        """Is there a committed record at or after this Kafka offset? (On a mirror the rest may be markers.)"""
        return await self._at(kafka) is not None

    async def _at(self, kafka: int) -> Record | None:
        """The first record at or after a Kafka offset; None at the end. Raises KafkaTimeoutError."""
        self._consumer.seek(self._partition, kafka)
        deadline = self._monotonic() + self._settings.request_timeout_s
        while True:
            batches = await self._consumer.getmany(self._partition, timeout_ms=2 * _WAIT_MS, max_records=1)
            if records := batches.get(self._partition):
                record: Record = records[0]
                return record
            if await self._at_end():
                return None
            if self._monotonic() > deadline:
                raise KafkaTimeoutError(f"no answer about {self._partition.topic} at {kafka}")

    async def _at_end(self) -> bool:
        return self.end is not None and await self._consumer.position(self._partition) >= self.end

    async def catch_up(self, folding: Folding, saved: Callable[[int], None], stop: Callable[[], bool]) -> None:
        """Fold everything up to the end; ``saved`` is told the end (Kafka offset) after each batch.

        Returns early when folding failed or ``stop`` says so. Raises GapError, KafkaTimeoutError, UnreachedError.
        """
        store = folding.store
        self._consumer.seek(self._partition, store.position.kafka)
        answer_time = self._monotonic()
        while not stop():
            batches = await self._consumer.getmany(
                self._partition, timeout_ms=2 * _WAIT_MS, max_records=self._settings.save_every
            )
            records = batches.get(self._partition, ())
            for record in records:
                taken = folding.take(record.offset, record.headers, record.value)
                if taken is TakeResult.UNREAD:
                    await asyncio.to_thread(folding.learn)
                    taken = folding.take(record.offset, record.headers, record.value)
                if taken is TakeResult.GAP:
                    raise GapError(f"event {store.position.events} is missing before Kafka offset {record.offset}")
            done = folding.failed is not None or await self._at_end()
            if done or store.unsaved >= self._settings.save_every:
                store.save()
            saved(self.end or 0)
            if done:
                return
            if records:
                answer_time = self._monotonic()
            elif self._monotonic() > answer_time + self._settings.request_timeout_s:
                raise KafkaTimeoutError(f"no answer about {self._partition.topic}")


def _check_cluster(event: Event, position: Position) -> None:
    if not isinstance(event, ClusterCreated):
        raise OtherLogError(f"offset 0 holds {type(event).__name__} and not ClusterCreated")
    if position.cluster_id and event.cluster_id != position.cluster_id:
        raise OtherLogError(
            f"this is the log of cluster {event.cluster_id}; our rows were made from that of {position.cluster_id}"
        )


async def prepare(
    settings: ProjectionSettings,
    folding: Folding,
    monotonic: Callable[[], float],
    saved: Callable[[int], None],
    stop: Callable[[], bool],
) -> bool:
    """Make sure the log is ours, find our place, catch up; False: the log is still shorter than our position."""
    async with LogReader(settings, monotonic) as reader:
        store = folding.store
        kafka = await reader.place(store.position)
        if kafka is None:
            return False
        if kafka != store.position.kafka:
            store.position = msgspec.structs.replace(store.position, kafka=kafka)
        await reader.catch_up(folding, saved, stop)
        return True
