"""A Faust GlobalTable whose changelog is the event topic itself; read-only towards Kafka.

Rules: what is applied is decided in folding.py and nowhere else; whatever Faust does around it can cost time, never
exactness. Faust swallows what ``apply_changelog_batch`` raises, so it raises nothing.

Theory: Recovery follows the changelog of a standby for ever and hands every event here. It drops a record whose Kafka
offset it has seen and discards what it holds when its flow is resumed; both show as a gap, and then the flow is
stopped, the offsets it remembers are set back, and it reads again from our position. Behind a new connection
may be another cluster, on the same ports: what comes is held until the log proves to be ours. A loss at the end shows
no gap: ``_audit`` compares with the end of the log, and asks the log itself before it believes that something is
missing (on a mirror the end may be markers).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final

import faust
from aiokafka.errors import KafkaError
from faust.stores.base import SerializedStore
from faust.types import TP
from mode import Service

from quorate.asking import UnreachedError
from quorate.errors import PeerError, QuorateError, StorageError, UsageError
from quorate_projections.folding import Failure, Folding, TakeResult
from quorate_projections.materialized_views import MaterializedViews
from quorate_projections.reader import LogReader, OtherLogError, prepare
from quorate_projections.store import VersionsDifferError

FLOW_STOP_S: Final = 1.5
"""Faust's drain loop waits up to 1 s in getmany; a seek before it has parked would be undone."""
SETTLE_S: Final = 3.0
"""After reading again, time for what was read to arrive before the audit may doubt it; doubled while nothing does."""
SETTLE_MAX_S: Final = 30.0
RETRY_S: Final = 1.0
HELD_MAX: Final = 500
"""Events that wait for proof; what is more is read again."""
ANNOUNCE_S: Final = 0.05


class EventStore(SerializedStore[str, bytes]):
    """The rows as a Faust store: keys ``<view>/<key>``, values JSON. Written by folding only."""

    table: "EventTable"

    def persisted_offset(self, tp: TP) -> int | None:
        """Kafka offset of the last event reflected."""
        kafka = self.table.materialized_views.store.position.kafka
        return kafka - 1 if kafka else None

    def set_persisted_offset(self, tp: TP, offset: int) -> None:
        """Never: the position moves with the rows."""
        raise TypeError("the position moves only with the rows")

    def reset_state(self) -> None:
        """Never by Faust."""
        raise TypeError("quorate projections rebuild")

    async def backup_partition(self, *args: Any, **options: Any) -> None:
        """Never: rows are rebuilt from the log."""
        raise TypeError("quorate projections rebuild")

    def restore_backup(self, *args: Any, **options: Any) -> None:
        """Never: rows are rebuilt from the log."""
        raise TypeError("quorate projections rebuild")

    def _get(self, key: bytes) -> bytes | None:
        view, _, name = key.decode().partition("/")
        store = self.table.materialized_views.store
        return store.raw(view, name) if view in store.views else None

    def _contains(self, key: bytes) -> bool:
        return self._get(key) is not None

    def _set(self, key: bytes, value: bytes | None) -> None:
        raise TypeError("a read-only table")

    def _del(self, key: bytes) -> None:
        raise TypeError("a read-only table")

    def _clear(self) -> None:
        raise TypeError("a read-only table")

    def _iteritems(self) -> Iterator[tuple[bytes, bytes]]:
        store = self.table.materialized_views.store
        for view in store.views:
            for key, row in store.scan(view):
                yield f"{view}/{key}".encode(), row

    def _iterkeys(self) -> Iterator[bytes]:
        return (key for key, _ in self._iteritems())

    def _itervalues(self) -> Iterator[bytes]:
        return (value for _, value in self._iteritems())

    def _size(self) -> int:
        return sum(1 for _ in self._iteritems())


class EventTable(faust.GlobalTable):
    """All views in one table, for Faust follows a topic with one table only."""

    app: Any
    """The ProjectionApp; Faust's own type does not know what a table may ask of the recovery."""

    def __init__(self, app: Any, *, materialized_views: MaterializedViews | None = None, **options: Any) -> None:
        fixed = {"is_global": True, "partitions": 1, "recovery_buffer_size": 1, "standby_buffer_size": 1}
        super().__init__(app, **{**options, **fixed})
        self._materialized_views = materialized_views
        self._rewinding = False
        self._settle_s = SETTLE_S
        self._settled_at = 0.0
        self._proved: frozenset[object] | None = None
        """The connections behind which the log proved to be ours."""
        self._proving = False
        self._held: list[Any] = []
        self._ignored = ""
        self._closed = False

    @property
    def materialized_views(self) -> MaterializedViews:
        """The rows. Raises UsageError, StorageError when they are opened for the first time and cannot be."""
        if self._closed:
            raise UsageError("the rows are closed")
        if self._materialized_views is None:
            self._materialized_views = self.app.open_rows()
        return self._materialized_views

    def close_rows(self) -> None:
        """Write what is left and let the directory go, for good; nothing is opened for it."""
        self._closed = True
        if self._materialized_views is not None:
            self._materialized_views.close()

    def _new_store_by_url(self, url: Any) -> EventStore:
        return EventStore(
            url, self.app, self, table_name=self.name, key_type=str, key_serializer="raw", value_serializer="raw"
        )

    def _changelog_topic_name(self) -> str:
        """The stock group assignor asks by this name."""
        return str(self.changelog_topic_name)

    @property
    def _partition(self) -> TP:
        return TP(self.changelog_topic_name, 0)

    def send_changelog(self, *args: Any, **options: Any) -> Any:
        """Never."""
        raise TypeError("a read-only table")

    # Following.

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        """Fold what Faust delivers; events that do not fit are read again."""
        materialized_views = self.materialized_views
        if self._rewinding:
            return
        if self._proving or self.app.consumer.connections() != self._proved:
            self._hold(batch)
            return
        for event in batch:
            message = event.message
            taken = materialized_views.take(message.offset, message.headers, message.value)
            if taken in (TakeResult.GAP, TakeResult.UNREAD):
                self._rewind()
                break
        store = materialized_views.store
        try:
            if store.unsaved >= materialized_views.settings.save_every or self.app.tables.changelog_queue.empty():
                store.save()
        except StorageError as error:
            materialized_views.folding.fail(str(error))
            self.add_future(self.crash(error))
        materialized_views.saved()

    async def on_start(self) -> None:
        """Before Faust follows: make sure the log is ours, and catch up in bulk."""
        await super().on_start()
        await self._until(lambda: self._prepare(self.materialized_views.folding), "catching up")

    async def _until(self, attempt: Callable[[], Awaitable[bool]], doing: str) -> bool:
        """Try again and again, and say what is in the way, until it succeeds; False on another's log, or at the end."""
        materialized_views = self.materialized_views
        while not self.should_stop and materialized_views.folding.failed is None:
            try:
                if await attempt():
                    materialized_views.trouble = ""
                    return True
                materialized_views.trouble = f"the log is shorter than our position {materialized_views.offset}"
            except OtherLogError as error:
                materialized_views.folding.fail(str(error))
            except (KafkaError, PeerError, UnreachedError, OSError) as error:
                materialized_views.trouble = f"{doing}: {error}"
            failed: Failure | None = materialized_views.folding.failed
            self.log.warning("%s", failed.reason if failed is not None else materialized_views.trouble)
            await self.sleep(RETRY_S)
        return False

    async def _prepare(self, folding: Folding) -> bool:
        def progress(end: int) -> None:
            self.materialized_views.trouble = f"catching up: {folding.store.position.kafka} of {end}"
            self.materialized_views.saved()

        monotonic = asyncio.get_running_loop().time
        return await prepare(self.materialized_views.settings, folding, monotonic, progress, lambda: self.should_stop)

    # Whose log it is.

    def _hold(self, batch: Iterable[Any]) -> None:
        events = list(batch)
        self._held += events[: HELD_MAX - len(self._held)]
        if events and not self._proving:
            self._proving = True
            self.add_future(self._prove())

    async def _prove(self) -> None:
        """Apply what is held as soon as the log proves to be ours; stand still when it is another."""
        proved = await self._until(self._place, "whose log this is")
        held, self._held = self._held, []
        self._proving = False
        if proved:
            self.apply_changelog_batch(held)

    async def _place(self) -> bool:
        connections = self.app.consumer.connections()
        async with LogReader(self.materialized_views.settings, asyncio.get_running_loop().time) as reader:
            if await reader.place(self.materialized_views.store.position) is None:
                return False
        self._proved = connections
        return True

    # Reading again.

    def _rewind(self) -> None:
        if not self._rewinding:
            self._rewinding = True
            self.materialized_views.rewinds += 1
            self.add_future(self._reread())

    async def _reread(self) -> None:
        consumer, tables = self.app.consumer, self.app.tables
        kafka = self.materialized_views.store.position.kafka
        try:
            consumer.stop_flow()
            await self._learn()
            await self.sleep(FLOW_STOP_S)
            tables.changelog_queue.clear()
            for offsets in (tables.recovery.active_offsets, tables.recovery.standby_offsets):
                if self._partition in offsets:
                    offsets[self._partition] = kafka - 1
            await consumer.seek_wait({self._partition: kafka})
        except Exception as error:  # noqa: BLE001  The audit finds us behind and tries again.
            self.log.warning("reading again from %s: %r", kafka, error)
        finally:
            self._settled_at = asyncio.get_running_loop().time() + self._settle_s
            self._settle_s = min(2 * self._settle_s, SETTLE_MAX_S)
            self._rewinding = False
            consumer.resume_flow()

    async def _learn(self) -> None:
        """Ask for the schema that the next event needs until it is known; while nobody answers, /ready says so."""
        materialized_views = self.materialized_views
        if materialized_views.folding.needed is None:
            return
        while not self.should_stop:
            try:
                await asyncio.to_thread(materialized_views.folding.learn)
                materialized_views.trouble = ""
                return
            except UnreachedError as error:
                materialized_views.trouble = str(error)
                self.log.warning("%s", error)
                await self.sleep(RETRY_S)

    @Service.task
    async def _announce(self) -> None:
        """Say once that the worker is ready."""
        while self.app.on_ready is not None and not self.should_stop:
            if self.materialized_views.health().ready:
                self.app.on_ready(self.materialized_views)
                return
            await self.sleep(ANNOUNCE_S)

    @Service.task
    async def _audit(self) -> None:
        """Look for what nobody reports: a loss at the end, a log that is not ours any more, a rebuild that is done."""
        before = (-1, -1)
        while not self.should_stop:
            await self.sleep(self.app.projection_settings.audit_period_s)
            materialized_views = self.materialized_views
            try:
                await self._follow_rebuild()
                reading, kafka = materialized_views.heard(), materialized_views.store.position.kafka
                now = (kafka, -1 if reading is None else reading[0])
                if kafka != before[0]:
                    self._settle_s = SETTLE_S
                short = reading is not None and reading[0] < kafka
                if reading is not None and (short or before == now) and not self._busy():
                    await self._look(kafka, reading[0])
                before = now
            except OtherLogError as error:
                materialized_views.folding.fail(str(error))
            except (KafkaError, QuorateError, OSError) as error:
                self.log.warning("audit: %s", error)

    def _busy(self) -> bool:
        stopped = self.materialized_views.folding.failed is not None or bool(self.materialized_views.trouble)
        settling = self._rewinding or self._proving or asyncio.get_running_loop().time() < self._settled_at
        return stopped or settling or self.app.rebalancing or not self.app.tables.changelog_queue.empty()

    async def _look(self, kafka: int, end: int) -> None:
        """The log ends before our position, or nothing happened since the last audit although we are not at its end."""
        if end == max(kafka, self.materialized_views.passed):
            return
        async with LogReader(self.materialized_views.settings, asyncio.get_running_loop().time) as reader:
            if end < kafka:
                await reader.place(self.materialized_views.store.position)
            elif await reader.holds_more(kafka):
                self.log.warning("no progress at %s of %s: reading again", kafka, end)
                self._rewind()
            else:
                self.materialized_views.passed = end

    # A rebuild beside us.

    async def _follow_rebuild(self) -> None:
        """Serve the generation that a rebuild made current, as soon as it reflects as much as ours."""
        materialized_views = self.materialized_views
        name = materialized_views.generations.current
        if name in (materialized_views.generation, self._ignored):
            return
        try:
            folding = materialized_views.folding_of(name)
        except VersionsDifferError as error:
            self._ignored = name
            self.log.warning("start this worker again to serve generation %s: %s", name, error)
            return
        try:
            whole = await prepare(
                materialized_views.settings,
                folding,
                asyncio.get_running_loop().time,
                lambda _: None,
                lambda: self.should_stop,
            )
        except OtherLogError as error:  # Of the rows beside ours: those that are served go on.
            folding.store.close()
            self._ignored = name
            self.log.warning("generation %s is not served: %s", name, error)
            return
        except BaseException:
            folding.store.close()
            raise
        if not whole or folding.failed is not None or folding.store.position.events < materialized_views.offset:
            folding.store.close()
            self.log.warning("generation %s is not served yet: %s", name, folding.failed or "it is behind ours")
            return
        materialized_views.switch(name, folding)
        self.log.warning("serving generation %s from offset %s", name, materialized_views.offset)
