"""Following the log of any node, without a group: nothing is committed, nothing is written.

Rules: a session begins with the last event we have, which must be there byte for byte: what comes after it is then the
same log. A node that lags only makes us wait. Another log, another cluster or an event that cannot follow: we stop for
good and say so, and where something happened that nobody foresaw. Any other trouble ends the session, and the next one
begins after a pause.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from quorate.asking import UnreachedError, right_port
from quorate.errors import InvariantBrokenError, PeerError, UsageError
from quorate.events import DecodeError, Event, Stamp, UnknownSchemaError, decode
from quorate.resolving import Resolver, SchemaNeededError, registry
from quorate_spark.dashboard.log import FoldedLog
from quorate_spark.dashboard.settings import Settings
from quorate_spark.dashboard.spool import Fact

log = logging.getLogger(__name__)

BATCH_MAX: Final = 1_000
"""Events folded before anything else gets its turn."""
FETCH_WAIT_MS: Final = 500
STOP_S: Final = 1.0
PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)


class FollowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the following goes."""

    state: str
    """``connecting``, ``catching up``, ``following``, ``refused`` or ``recorded``."""
    message: str = ""
    end_offset: int = 0
    """The farthest end of the log that was seen."""
    newest_at: int = 0
    """When what we have was last known to be all there is; epoch milliseconds, 0 = never."""


def fact(record: ConsumerRecord, decode: Callable[[bytes], Event] = decode) -> Fact:
    """A record of the topic, by this or that decoder. Raises PeerError for one that is not an event with its stamp."""
    try:
        headers = {name: value.decode() for name, value in record.headers}
        stamp = Stamp(
            offset=int(headers["offset"]),
            term=int(headers["term"]),
            time_ms=int(headers["time_ms"]),
            principal=headers.get("principal", ""),
            cause=headers.get("cause", ""),
            request_id=headers.get("request_id", ""),
        )
        frame = bytes(record.value)
        return Fact(stamp, decode(frame), frame)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PeerError(f"record {record.offset} is no event: {error!r}") from error


class Follower:
    """Keeps a folded log up to date. ``took``: called after each batch."""

    def __init__(
        self, settings: Settings, folded: FoldedLog, clock_ms: Callable[[], int], took: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._folded = folded
        self._clock_ms = clock_ms
        self._took = took
        self.following = FollowStatus(state="connecting", message="no node was asked yet")
        self._refused = ""
        self._resolver = Resolver(self._schema)
        self._stopping: set[asyncio.Task[None]] = set()
        self.zones: dict[int, str] = {}
        """Node → its zone, as the nodes' settings say."""
        self.node: int | None = None
        """The node that is read from; None when that is not known."""

    def refuse(self, why: str) -> None:
        """Fold nothing more: what is followed turned out to be something else."""
        self._refused = why

    async def run(self) -> None:
        """Until cancelled, or the log is refused."""
        failures = 0
        while True:
            before = self._folded.tip.offset
            try:
                await self._session()
            except (InvariantBrokenError, UsageError, DecodeError, UnknownSchemaError) as error:
                log.error("the log is refused: %s", error)
                self._tell(state="refused", message=str(error))
                return
            except (KafkaError, PeerError, UnreachedError, OSError, TimeoutError) as error:
                failures = 0 if self._folded.tip.offset > before else failures + 1
                self._tell(state="connecting", message=str(error) or type(error).__name__)
                if failures == 1 and not self._folded.tip.offset:
                    await asyncio.to_thread(self._advise)
            except Exception as error:
                log.exception("the log is followed no further")  # What was folded may be half of what came.
                self._tell(state="refused", message=f"{type(error).__name__}: {error}")
                return
            await asyncio.sleep(PAUSES_S[min(failures, len(PAUSES_S) - 1)])

    def _advise(self) -> None:
        """Nothing was ever read: the addresses may be other ports than Kafka's."""
        nodes = self._settings.nodes
        usual = "quorate up starts a cluster here; --nodes wants kafka addresses (its rpc port + 2), --node http ones"
        advice = next(filter(None, (right_port(node, "--nodes", "kafka") for node in nodes)), usual)
        log.warning("%s: no node answers yet, tried again until one does; %s", ", ".join(nodes), advice)

    def _tell(self, **changes: object) -> None:
        self.following = msgspec.structs.replace(self.following, **changes)

    async def _session(self) -> None:
        """One connection, until it fails."""
        partition = TopicPartition(self._settings.topic, 0)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=list(self._settings.nodes),
            client_id="quorate-dashboard",
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=FETCH_WAIT_MS,
            request_timeout_ms=max(self._settings.node_timeout_ms, 2 * FETCH_WAIT_MS),
            max_partition_fetch_bytes=4 << 20,
            metadata_max_age_ms=30_000,
            client_rack=self._settings.rack or None,
        )
        try:
            await asyncio.wait_for(consumer.start(), self._settings.connect_ms / 1000)
            consumer.assign([partition])
            consumer.seek(partition, max(self._folded.tip.offset - 1, 0))
            await self._follow(consumer, partition)
        finally:
            await self._left_behind(consumer)

    async def _left_behind(self, consumer: AIOKafkaConsumer) -> None:
        """Stop it, but do not wait for requests that nobody answers any more: it ends when they do."""
        stopping = asyncio.create_task(consumer.stop())
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)
        stopping.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # Nobody else asks for it.
        await asyncio.wait({stopping}, timeout=STOP_S)

    async def _follow(self, consumer: AIOKafkaConsumer, partition: TopicPartition) -> None:
        answer_ms, polled = self._clock_ms(), None
        while True:
            batches = await consumer.getmany(partition, timeout_ms=FETCH_WAIT_MS, max_records=BATCH_MAX)
            if self._refused:
                raise UsageError(self._refused)
            if records := batches.get(partition):
                self._take(await self._facts(records))
            latest = consumer.last_poll_timestamp(partition)
            now = self._clock_ms()
            if latest != polled or records:
                answer_ms, polled = now, latest
                self._look(consumer, partition)
                self._heard(consumer.highwater(partition) or 0, now)
            elif now - answer_ms > self._settings.silence_ms:
                # The next node to answer may be another cluster's, on the same ports: a new session asks for proof.
                self._tell(state="connecting", message=f"no node has answered a fetch for {now - answer_ms} ms")
                raise PeerError(self.following.message)
            if records:  # What the client has in memory already it gives without a pause.
                await asyncio.sleep(0)

    async def _facts(self, records: Sequence[ConsumerRecord]) -> list[Fact]:
        """What the records say; a registry is asked on another thread. Raises PeerError, UnreachedError."""
        try:
            return [fact(record, self._resolver.decode_known) for record in records]
        except SchemaNeededError:
            return await asyncio.to_thread(lambda: [fact(record, self._resolver.decode) for record in records])

    def _schema(self, number: int) -> str:
        """A schema that this build does not have, of a node that the log names, or else of those that were said."""
        known = [node.addresses.http for node in self._folded.tip.nodes.values()]
        return registry(",".join(filter(None, [*known, self._settings.registry])))(number)

    def _look(self, consumer: AIOKafkaConsumer, partition: TopicPartition) -> None:
        """The client's view of the nodes, which it has no public name for."""
        cluster = consumer._client.cluster  # noqa: SLF001
        racks = {int(broker.nodeId): broker.rack or "" for broker in cluster.brokers()}
        # A node without a zone has a rack that is its own name.
        self.zones = {number: "" if rack == f"node-{number}" else rack for number, rack in racks.items()}
        self.node = None if self._settings.rack else cluster.leader_for_partition(partition)

    def _take(self, facts: list[Fact]) -> None:
        """Fold what is new; the one event we have already must be the same."""
        folded, end = self._folded, self._folded.tip.offset
        fresh = [one for one in facts if one.stamp.offset >= end]
        for one in facts[: len(facts) - len(fresh)]:
            if folded.spool.fact(one.stamp.offset).frame != one.frame:
                raise InvariantBrokenError(f"event {one.stamp.offset} is not the one that was there: another log")
        if fresh:
            folded.take(fresh)
            self._took()

    def _heard(self, end: int, now: int) -> None:
        offset = self._folded.tip.offset
        state = "following" if offset >= end else "catching up"
        newest = now if offset >= end else self.following.newest_at
        farthest = max(end, offset, self.following.end_offset)
        self.following = FollowStatus(state=state, end_offset=farthest, newest_at=newest)
