"""A log and a node in memory, and a Kafka listener on them in a thread of its own, for blocking clients."""

import asyncio
import bisect
import itertools
import random
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import uvloop

from quorate.clock import LoopScheduler
from quorate.consensus.ports import MAX_ENTRY_BYTES
from quorate.controller import QuorumIs, VoterIs, WriteResult
from quorate.events import BrokerFenced, Event, Stamp, TopicCreated
from quorate.gateway.access import NoQuota, OpenAccess
from quorate.gateway.kafka import KafkaNode, KafkaServer, KafkaSettings
from quorate.metrics import Metrics
from quorate.wire.avro import encode_events
from tests.clusters import free_ports

T = TypeVar("T")
TOPIC = KafkaSettings().topic
START_MS = 1_700_000_000_000


def sample_event(number: int) -> Event:
    """Some event; the number can be read back from it."""
    if number % 2:
        return TopicCreated(
            topic=f"orders-{number}",
            read_queues=number,
            write_queues=8,
            permission=6,
            filter_type="SINGLE_TAG",
            system_flags=0,
            order=False,
            attributes={"+message.type": "FIFO"},
        )
    return BrokerFenced(
        cluster="c",
        broker_set=f"set-{number}",
        broker_id=number,
        evidence="connection closed",
        last_heartbeat_ms=START_MS,
        detected_ms=START_MS,
        proposed_ms=START_MS,
    )


class FakeLog:
    """The applied events of a node."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.term_starts: list[tuple[int, int]] = []
        self.bases: list[int] = []
        self.batches: list[bytes] = []
        self.times: list[int] = []
        self.in_memory_from = self.times_in_memory_from = 0
        self.asked: list[Callable[[], None]] = []
        """Who waits for what is older."""

    def ready(self, offset: int, max_bytes: int, done: Callable[[], None], wanted: Callable[[], bool]) -> bool:
        cold = self.start_offset <= offset < self.in_memory_from
        if cold:
            self.asked.append(done)
        return not cold

    def append(self, count: int = 1, term: int = 1) -> int:
        """One batch of ``count`` events, a second after the one before; its base offset."""
        base, time_ms = self.end_offset, START_MS + 1000 * len(self.batches)
        if not self.term_starts or self.term_starts[-1][0] != term:
            self.term_starts.append((term, base))
        stamp = Stamp(offset=base, term=term, time_ms=time_ms, principal="test", cause="test", request_id=f"r{base}")
        self.batches.append(encode_events([sample_event(base + i) for i in range(count)], stamp))
        self.bases.append(base)
        self.times.append(time_ms)
        self.end_offset += count
        return base

    def read(self, offset: int, max_bytes: int) -> list[bytes]:
        at = bisect.bisect_right(self.bases, offset) - 1
        found: list[bytes] = []
        for batch in itertools.islice(self.batches, at, None):
            max_bytes -= len(batch)
            if found and max_bytes < 0:
                break
            found.append(batch)
        return found

    @property
    def newest_ms(self) -> int:
        return self.times[-1] if self.times else 0

    def times_ready(self, times_ms: Iterable[int], done: Callable[[], None], wanted: Callable[[], bool]) -> bool:
        cold = any(time_ms < self.times_in_memory_from for time_ms in times_ms)
        if cold:
            self.asked.append(done)
        return not cold

    def first_since(self, time_ms: int) -> tuple[int, int] | None:
        at = bisect.bisect_left(self.times, time_ms)
        return (self.bases[at], self.times[at]) if at < len(self.bases) else None


class FakeLedger:
    """What the cluster keeps for groups: written at once, unless ``held``; ``outcome`` is what a writer is told.
    For rows above ``row_bytes_max`` there is no room.
    """

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.outcome = WriteResult.DONE
        self.held = False
        self.row_bytes_max = 64 * 1024
        self.lifetime_s = 7 * 24 * 3600.0
        self.waiting: list[tuple[bytes, bytes | None, Callable[[WriteResult], None]]] = []

    def __len__(self) -> int:
        return len(self.rows)

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def starting_with(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([(key, row) for key, row in self.rows.items() if key.startswith(prefix)])

    def expiry_s(self) -> float:
        return self.lifetime_s

    def pending(self, key: bytes) -> bool:
        return any(waiting == key for waiting, _, _ in self.waiting)

    def put(self, key: bytes, row: bytes | None, done: Callable[[WriteResult], None], *, needed: bool = False) -> None:
        if len(row or b"") > self.row_bytes_max:
            done(WriteResult.NO_ROOM)
            return
        self.waiting.append((key, row, done))
        if not self.held:
            self.release()

    def release(self) -> None:
        """Everything that waits is written, in order."""
        waiting, self.waiting = self.waiting, []
        for key, row, done in waiting:
            if self.outcome is WriteResult.DONE:
                self.rows.pop(key, None)
                if row is not None:
                    self.rows[key] = row
            done(self.outcome)


class FakeView:
    """A node as the listener sees it."""

    def __init__(self, log: FakeLog, nodes: Sequence[KafkaNode], node_id: int = 1) -> None:
        self.node_id = node_id
        self.cluster_id = "test-cluster"
        self.log = log
        self.groups = FakeLedger()
        self.leader_id: int | None = 1
        self.term = 1
        self.serving = True
        self.open = True
        self.on_applied: list[Callable[[int], None]] = []
        self.known = list(nodes)
        self.confirmable = True
        self.ahead = 0
        """How many more events the leader has than this node."""

    def hear(self, applied: Callable[[int], None]) -> None:
        self.on_applied.append(applied)

    @property
    def coordinates(self) -> bool:
        return self.serving and self.leader_id == self.node_id and self.open

    def nodes(self) -> Sequence[KafkaNode]:
        return self.known

    @property
    def entry_bytes_max(self) -> int:
        return MAX_ENTRY_BYTES

    def quorum(self, done: Callable[[QuorumIs | None], None]) -> None:
        voters = tuple(VoterIs(node.node_id, 90 + node.node_id, 0) for node in self.known)
        leads = self.confirmable and self.leader_id is not None
        done(QuorumIs(self.leader_id or 0, self.term, 92, voters) if leads else None)

    def directories(self) -> Mapping[int, bytes]:
        return {1: bytes(range(16))}

    def confirmed_end(self, done: Callable[[int | None], None]) -> None:
        done(self.log.end_offset + self.ahead if self.confirmable else None)

    def append(self, count: int = 1, term: int = 1) -> None:
        """Apply one batch and tell the listener."""
        self.log.append(count, term)
        for told in self.on_applied:
            told(self.log.end_offset)


class ServedLog:
    """Listeners of one or more nodes over one log, on a loop in a thread; ``do`` runs something on that loop."""

    def __init__(self, nodes: int = 1, settings: KafkaSettings | None = None) -> None:
        self.log = FakeLog()
        first = free_ports(nodes)
        self.ports = list(range(first, first + nodes))
        known = [KafkaNode(i + 1, "127.0.0.1", port) for i, port in enumerate(self.ports)]
        self.views = [FakeView(self.log, known, i + 1) for i in range(nodes)]
        for view in self.views:
            view.groups = self.views[0].groups
        self.metrics = [Metrics() for _ in range(nodes)]
        self.servers: list[KafkaServer] = []
        self._settings = settings or KafkaSettings()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def bootstrap(self) -> str:
        """The first node."""
        return f"127.0.0.1:{self.ports[0]}"

    def __enter__(self) -> Self:
        self._thread.start()
        self.do(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            self.do(server.stop())
        self.do(asyncio.sleep(0.05))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _start(self) -> None:
        scheduler = LoopScheduler(self._loop)
        for view, metrics, port in zip(self.views, self.metrics, self.ports, strict=True):
            server = KafkaServer(
                view, self._settings, metrics, scheduler, random.Random(view.node_id), OpenAccess(), NoQuota()
            )
            await server.start("127.0.0.1", port)
            self.servers.append(server)

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it on the loop's thread; what it makes."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def append(self, batches: int = 1, count: int = 1, term: int = 1) -> None:
        """Apply events on the loop's thread; every node has them at once."""

        async def apply() -> None:
            for _ in range(batches):
                self.log.append(count, term)
            for view in self.views:
                for told in view.on_applied:
                    told(self.log.end_offset)

        self.do(apply())

    def set_leader(self, node_id: int | None, term: int) -> None:
        """Everyone learns of a new leader."""

        async def change() -> None:
            for view in self.views:
                view.leader_id, view.term = node_id, term

        self.do(change())
