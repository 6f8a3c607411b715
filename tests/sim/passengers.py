"""A mirror and a projection that follow the log through fail-overs: production's rules over simulated ends.

Rules: ``MirrorCopier`` (one beside each node, as in production) and ``Folding`` over ``RowStore`` are production's.
The other Kafka (``Topic``) takes all of a write or none, has one writer, and may fail to say which; the projection's
database (``Database``) keeps single operations and batches whole, and its process may die between any two. The
projection reads from any node, a mirror from its own.

Theory: each passenger is judged by the log itself: the topic must be the log, record for record; the rows must be those
of a fresh fold. Whoever moves a position without what it speaks of, or believes a position of another life, loses an
event or has one twice.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from quorate.consensus.ports import NodeId
from quorate.errors import StorageError
from quorate_projections import store as row_store
from quorate_projections.folding import Folding, TakeResult
from quorate_projections.mirror.copying import MirrorCopier
from quorate_projections.mirror.ports import Event, FencedError, MirrorError, NodeReport
from quorate_projections.mirror.settings import MirrorSettings
from quorate_projections.store import RowStore
from quorate_projections.views import VIEWS
from tests.batches import decode_batch
from tests.sim.cluster import Cluster, Process
from tests.sim.nodes import CoreNode
from tests.sim.world import ViolationError

MIRRORED = "the mirror is the log, each event once"
PROJECTED = "a projection is the fold of the log"
VIEW_NAMES = ("broker_sets", "topics", "elections")


class Trouble:
    """How often what goes wrong goes wrong, while it may."""

    def __init__(self, random: Random, share: float) -> None:
        self.random = random
        self.share = share

    def strikes(self) -> bool:
        """Now?"""
        return self.random.random() < self.share


def _events(process: Process, start: int) -> Iterator[Event]:
    """Records of the log of a node, from ``start`` on, as a consumer gets them."""
    assert isinstance(process.node, CoreNode)
    if process.host.disk.unreadable or start >= process.node.core.log.end_offset:
        return
    for batch in process.node.served(start, 4000):
        for record in decode_batch(batch):
            if record.offset >= start:
                yield Event(record.offset, record.key, record.value, record.headers, record.time_ms)


# ── the mirror ──


class Topic:
    """The topic in the other Kafka."""

    def __init__(self) -> None:
        self.records: list[Event] = []
        self.epoch = 0


class _Target:
    """One writer's hold on it: fenced by the next."""

    def __init__(self, topic: Topic, trouble: Trouble) -> None:
        self._topic = topic
        self._trouble = trouble
        topic.epoch += 1
        self._epoch = topic.epoch

    def first_and_last(self) -> tuple[Event, Event] | None:
        """Of the other Kafka; None while it holds nothing."""
        records = self._topic.records
        return (records[0], records[-1]) if records else None

    def write(self, events: Sequence[Event]) -> None:
        """All of them, or nothing from a writer that was fenced."""
        if self._epoch != self._topic.epoch:
            raise FencedError("another mirror took over")
        if self._trouble.strikes():
            if self._trouble.random.random() < 0.5:
                self._topic.records += events
            raise MirrorError("nobody says whether it was committed")
        self._topic.records += events

    def close(self) -> None:
        """Nothing to release."""


class _Source:
    """The event topic of one node."""

    def __init__(self, find: Callable[[], Process | None]) -> None:
        self._find = find
        self._next = 0

    def _node(self) -> Process:
        process = self._find()
        if process is None or process.loop.paused:
            raise MirrorError("the node does not answer")
        return process

    def seek(self, offset: int) -> None:
        """Go on from there."""
        self._next = offset

    def read(self, most: int, wait_s: float) -> Sequence[Event]:
        """The next events, without waiting."""
        found = list(_events(self._node(), self._next))[:most]
        self._next += len(found)
        return found

    def at(self, offset: int) -> Event:
        """The event at this offset."""
        for event in _events(self._node(), offset):
            return event
        raise MirrorError(f"event {offset} is not there")

    def end(self) -> int:
        """The offset after the last event."""
        node = self._node().node
        return node.offset

    def close(self) -> None:
        """Nothing to release."""


class _View:
    """The node a mirror stands beside."""

    def __init__(self, find: Callable[[], Process | None]) -> None:
        self._find = find

    def ask(self) -> NodeReport:
        """What the node says of itself and its cluster."""
        process = self._find()
        if process is None or process.loop.paused:
            raise MirrorError("the node does not answer")
        engine = process.node.engine
        return NodeReport(engine.is_leader, "sim", f"n{process.node_id}", engine.term)


class Mirrors:
    """One beside each node; they begin again whenever their process is said to die."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self.trouble = Trouble(cluster.world.random, 0.1)
        self.topic = Topic()
        self._settings = MirrorSettings(leader_check_s=0.2, back_off_s=0.1)
        self._copying = {node: self._begin(node) for node in cluster.voters}

    def _begin(self, node: NodeId) -> MirrorCopier:
        host = self._cluster.hosts[node]
        find = lambda: host.process  # noqa: E731
        return MirrorCopier(
            _View(find),
            lambda _standing: _Source(find),
            lambda _standing: _Target(self.topic, self.trouble),
            self._settings,
            lambda: self._world.now,
        )

    def start(self) -> None:
        """Each works by itself."""
        for node in self._cluster.voters:
            self._world.after(self._world.random.random() * 0.3, lambda node=node: self._step(node))  # type: ignore[misc]

    def _step(self, node: NodeId) -> None:
        if self.trouble.strikes():
            self._copying[node] = self._begin(node)
            self._cluster.counts["mirrors killed"] += 1
        wait_s = self._copying[node].step()
        self._world.after(max(wait_s, 0.1), lambda: self._step(node))

    def check(self, process: Process) -> None:
        """The topic against this node's log."""
        records, log = self.topic.records, list(_events_all(process, 0))
        if records != log:
            at = next((at for at, (mine, its) in enumerate(zip(records, log, strict=False)) if mine != its), len(log))
            raise ViolationError(MIRRORED, f"{len(records)} records of {len(log)}; they differ at {at}")
        self._cluster.counts["events mirrored"] += len(log)


def _events_all(process: Process, start: int) -> Iterator[Event]:
    while True:
        found = list(_events(process, start))
        if not found:
            return
        yield from found
        start = found[-1].offset + 1


# ── the projection ──


class Killed(Exception):  # noqa: N818 - it is no error of the code that runs
    """The projection's process dies here."""


class Disk:
    """What of a projection's database survives its process."""

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble
        self.rows: dict[bytes, bytes] = {}


class _Batch:
    """``rocksdict.WriteBatch``."""

    def __init__(self, raw_mode: bool) -> None:
        assert raw_mode
        self.ops: list[tuple[bytes, bytes | None]] = []

    def put(self, key: bytes, value: bytes) -> None:
        """Of these."""
        self.ops.append((key, value))

    def delete(self, key: bytes) -> None:
        """Of these."""
        self.ops.append((key, None))


class Database:
    """``rocksdict.Rdict`` as far as ``RowStore`` uses it for writing and single reads."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def get(self, key: bytes) -> bytes | None:
        """The value."""
        return self._disk.rows.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """One operation; the process may die before or after it."""
        self._write([(key, value)])

    def write(self, batch: _Batch) -> None:
        """All of them or none."""
        self._write(batch.ops)

    def _write(self, ops: list[tuple[bytes, bytes | None]]) -> None:
        if self._disk.trouble.strikes():
            raise Killed
        for key, value in ops:
            if value is None:
                self._disk.rows.pop(key, None)
            else:
                self._disk.rows[key] = value

    def close(self) -> None:
        """Nothing to release."""


@contextmanager
def _over(disk: Disk) -> Iterator[None]:
    """Production's store writes here, not to RocksDB."""
    module: Any = row_store
    genuine = module.Rdict, module.WriteBatch
    module.Rdict, module.WriteBatch = (lambda _path, _options: Database(disk)), _Batch
    try:
        yield
    finally:
        module.Rdict, module.WriteBatch = genuine


def open_store(disk: Disk) -> RowStore:
    """Production's store over this disk."""
    with _over(disk):
        return RowStore(Path("rows"), [view for view in VIEWS if view.name in VIEW_NAMES])


def save(store: RowStore, disk: Disk) -> None:
    """As it does itself. Raises what its death is told as."""
    with _over(disk):
        store.save()


class Projection:
    """Folds what it reads, saves now and then, dies, and goes on where its rows say."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self.trouble = Trouble(cluster.world.random, 0.15)
        self.disk = Disk(self.trouble)
        self._folding = Folding(open_store(self.disk))

    def start(self) -> None:
        """Begin."""
        self._world.after(0.5, self._step)

    def _step(self) -> None:
        process = self._cluster.hosts[self._world.random.choice(self._cluster.voters)].process
        if process is not None:
            self.follow(process)
        self._world.after(0.15 + self._world.random.random() * 0.3, self._step)

    def follow(self, process: Process) -> None:
        """Take what this node has beyond the position."""
        folding = self._folding
        for event in _events(process, folding.store.position.events):
            if folding.take(event.offset, event.headers, event.value) is not TakeResult.APPLIED:
                raise ViolationError(PROJECTED, f"event {event.offset} at {folding.store.position.events}")
        try:
            save(folding.store, self.disk)
        except (Killed, StorageError):
            self._cluster.counts["projections killed"] += 1
            self._folding = Folding(open_store(self.disk))

    def check(self, process: Process) -> None:
        """All of the log, and the rows of a fresh fold."""
        self.trouble.share = 0.0
        end = process.node.offset
        while self._folding.store.position.events < end:
            self.follow(process)
        fresh = Disk(Trouble(Random(0), 0.0))
        folding = Folding(open_store(fresh))
        for event in _events_all(process, 0):
            folding.take(event.offset, event.headers, event.value)
        save(folding.store, fresh)
        if fresh.rows != self.disk.rows:
            wrong = sorted(set(fresh.rows.items()) ^ set(self.disk.rows.items()))
            raise ViolationError(PROJECTED, f"at {end} these rows differ: {wrong[:3]}")
        self._cluster.counts["projections checked"] += 1
