"""A Faust transport without a consumer group: partition 0 of each topic, assigned by hand, followed for ever.

Rules: only ApiVersions, Metadata, ListOffsets and Fetch go out. An endpoint that is away is waited for; stored rows are
served meanwhile. What is used of Faust's inside is named in docs/projections.md and gated by tests/projections.

Theory: DirectAssignor calls every changelog a standby, for those Faust follows without ever pausing, and nothing
active, so the worker is ready at once. ``quorate://host:port;host:port`` names the nodes.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Final, cast

from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition
from faust.assignor.partition_assignor import PartitionAssignor
from faust.transport.drivers import TRANSPORTS
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport
from faust.types import TP

from quorate_projections.reader import new_consumer
from quorate_projections.settings import ProjectionSettings

SCHEME: Final = "quorate"
RETRY_FIRST_S: Final = 0.5
RETRY_MAX_S: Final = 5.0
"""Between two looks for an endpoint; each pause is twice the one before."""
STOP_S: Final = 2.0
"""How long the consumer may take to end."""


class DirectAssignor(PartitionAssignor):
    """Our standby: partition 0 of each changelog."""

    def assigned_actives(self) -> set[TP]:
        """Nothing: actives would be paused and resumed."""
        return set()

    def assigned_standbys(self) -> set[TP]:
        """Every changelog."""
        return {TP(topic, 0) for topic in self._table_manager.changelog_topics}


class DirectThread(AIOKafkaConsumerThread):
    """Faust's consumer thread around a consumer that has no group."""

    app: Any
    """The ProjectionApp."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        settings: ProjectionSettings = self.app.projection_settings
        return new_consumer(settings, settings.fetch_wait_ms)

    async def on_start(self) -> None:
        """Wait for an endpoint that is away (the stock thread ends the worker); said once, and once when it is over."""
        pause_s = RETRY_FIRST_S
        while not self.should_stop:
            try:
                await self._stoppable(super().on_start())
            except KafkaError as error:
                if pause_s == RETRY_FIRST_S:
                    self.log.warning("no endpoint yet, tried again until there is one: %s", error)
                await self._end_consumer()
                await self._stoppable(asyncio.sleep(pause_s))
                pause_s = min(2 * pause_s, RETRY_MAX_S)
            else:
                if pause_s > RETRY_FIRST_S and not self.should_stop:
                    self.log.warning("an endpoint answers")
                return

    async def _stoppable(self, work: Awaitable[object]) -> None:
        """Wait for it, or for the end of this thread. Raises what it raises."""
        working = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
        finally:
            working.cancel()
            stopped.cancel()

    async def on_thread_stop(self) -> None:
        """End soon, whatever is gone: the worker waits a minute for a thread that raises here instead of ending."""
        await super(AIOKafkaConsumerThread, self).on_thread_stop()
        await self._end_consumer()

    async def _end_consumer(self) -> None:
        """aiokafka raises the cancellation of its own fetches (``Fetcher.close``), with its connections still open."""
        if self._consumer is None:
            return
        for end in (self._consumer.stop, self._consumer._client.close):  # noqa: SLF001  It is left open else.
            ending = asyncio.ensure_future(end())
            await asyncio.wait({ending}, timeout=STOP_S / 2)
            if not ending.done():
                ending.cancel()
            elif not ending.cancelled() and ending.exception() is not None:
                self.log.info("while stopping: %r", ending.exception())

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Assign partition 0 of each."""
        await self.call_thread(self._assign, {TP(topic, 0) for topic in topics})

    async def _assign(self, partitions: set[TP]) -> None:
        self._ensure_consumer().assign([TopicPartition(*partition) for partition in partitions])
        self.app.on_rebalance_start()
        self.app.consumer_generation_id = 1
        # Not awaited: it waits for subscribe() to return.
        self._assigning = asyncio.ensure_future(self.on_partitions_assigned(partitions, 1))

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Nothing is ever committed."""
        return {}

    def heard(self, partition: TP) -> tuple[int, int] | None:
        """(Kafka offset after the last committed record, Unix ms) of the last Fetch answer; None before the first."""
        consumer = self._consumer
        place = TopicPartition(*partition)
        if consumer is None or place not in consumer.assignment():
            return None
        end, when = consumer.last_stable_offset(place), consumer.last_poll_timestamp(place)
        return None if end is None or when is None else (end, when)

    def connections(self) -> frozenset[object]:
        """The connections there are: another one than before may lead to another cluster."""
        if self._consumer is None:
            return frozenset()
        return frozenset(list(self._consumer._client._conns.values()))  # noqa: SLF001  It has no public name.


class DirectConsumer(Consumer):
    """Faust's consumer on that thread."""

    def _new_consumer_thread(self) -> DirectThread:
        return DirectThread(self, loop=self.loop, beacon=self.beacon)

    def heard(self, partition: TP) -> tuple[int, int] | None:
        """(Kafka offset after the last committed record, Unix ms) of the last Fetch answer; None before the first."""
        return cast("DirectThread", self._thread).heard(partition)

    def connections(self) -> frozenset[object]:
        """The connections to nodes."""
        return cast("DirectThread", self._thread).connections()


class DirectTransport(Transport):
    """Registered under the scheme ``quorate``."""

    Consumer = DirectConsumer


TRANSPORTS.aliases[SCHEME] = f"{__name__}:DirectTransport"
