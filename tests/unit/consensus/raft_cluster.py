"""A cluster of real engines in one process: a clock that is told to move, wires that can be cut, disks that lose what
was not synced.
"""

import copy
import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import msgspec

from quorate.clock import Timer
from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import Family, Index, LeaderCause, NodeId, StoreOp, Term
from quorate.consensus.raft.common import EnginePorts
from quorate.consensus.raft.founding import directory_bytes, directory_text
from quorate.consensus.raft.lives import Lives
from quorate.consensus.raft.pysyncobj_engine import PySyncObjEngine
from quorate.consensus.raft.staging import finish_switch
from quorate.consensus.settings import EngineSettings
from quorate.consensus.storage.directory import Directory
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage.store import applied_ops, read_applied
from quorate.consensus.storage_settings import JournalSettings
from quorate.wire.records import assemble
from tests.stand_ins import MemoryStore, MemoryVoterFile

JOURNAL = JournalSettings(max_entry_bytes=4096, segment_bytes=16 * 1024, tail_bytes=8192, tail_entries=64)


class VirtualTime:
    """A Scheduler whose clock moves only in ``run``."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.grain_s = 0.0
        """Delays are rounded to so much, if at all; a loop may do that, so that timers run out too early."""
        self._heap: list[tuple[float, int, Callable[[], None], list[bool]]] = []
        self._count = 0
        self._in_turn = False
        self._ending: list[Callable[[], None]] = []

    def monotonic(self) -> float:
        return self.now

    def time_ms(self) -> int:
        return int(self.now * 1000)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.call_later(0.0, callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        self._count += 1
        if self.grain_s and delay_s > self.grain_s:
            delay_s = round(delay_s / self.grain_s) * self.grain_s
        alive = [True]
        heapq.heappush(self._heap, (self.now + delay_s, self._count, callback, alive))

        class Handle:
            def cancel(self) -> None:
                alive[0] = False

        return Handle()

    def take_turn(self, action: Callable[[], None]) -> None:
        if self._in_turn:
            action()
            return
        self._in_turn = True
        action()
        self._in_turn = False
        ending, self._ending = self._ending, []
        for callback in ending:
            callback()

    def at_turns_end(self, callback: Callable[[], None]) -> None:
        if self._in_turn:
            self._ending.append(callback)
        else:
            self.call_soon(callback)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._heap and self._heap[0][0] <= end:
            at, _, callback, alive = heapq.heappop(self._heap)
            self.now = max(self.now, at)
            if alive[0]:
                callback()
        self.now = end


class MemoryDisk:
    """Files; ``crash`` keeps what was synced. While ``hangs`` nobody may wait for a read: it would not end."""

    def __init__(self) -> None:
        self.hangs = False
        self.files: dict[str, bytearray] = {}
        self.synced: dict[str, bytes] = {}

    def names(self) -> list[str]:
        return sorted(self.files)

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        assert not self.hangs, "somebody waits for a disk that hangs"
        data = self.files[name]
        return bytes(data[offset:] if size < 0 else data[offset : offset + size])

    def peek(self, name: str, offset: int, size: int) -> bytes | None:
        return self.read(name, offset, size) if name in self.files else None

    def create(self, name: str, size: int) -> None:
        self.files[name] = bytearray(size)
        self.synced[name] = bytes(size)

    def write(self, name: str, offset: int, data: bytes) -> None:
        self.files[name][offset : offset + len(data)] = data

    def sync(self, name: str) -> None:
        self.synced[name] = bytes(self.files[name])

    def remove(self, name: str) -> None:
        del self.files[name], self.synced[name]

    def crash(self) -> None:
        self.files = {name: bytearray(data) for name, data in self.synced.items()}


class SlowWorker:
    """A DiskWorker that takes ``delay`` virtual seconds per job; ``stuck`` takes for ever, until released."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self._jobs: deque[tuple[Callable[[], None], Callable[[], None]]] = deque()
        self._busy = False
        self.delay = 0.0005
        self.stuck = False
        self.dead = False
        self.slow: dict[Callable[[], None], float] = {}
        """Jobs that take longer, and how long."""

    def submit(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        self._jobs.append((job, done))
        self._next()

    def pending(self) -> int:
        return len(self._jobs)

    def release(self) -> None:
        self.stuck = False
        self._next()

    def _next(self) -> None:
        if self._busy or self.stuck or self.dead or not self._jobs:
            return
        self._busy = True
        job, done = self._jobs.popleft()
        self._time.call_later(self.slow.get(job, self.delay), lambda: self._end(job, done))

    def _end(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        self._busy = False
        if self.stuck:
            self._jobs.appendleft((job, done))
        elif not self.dead:
            job()
            done()
            self._next()


class Wires:
    """Delivers frames after ``delay`` in order; ``cut`` loses them, ``held`` keeps them until released."""

    def __init__(self, time: VirtualTime) -> None:
        self.time = time
        self.delay = 0.001
        self.cut: set[tuple[int, int]] = set()
        self.held: dict[tuple[int, int], list[bytes]] = {}
        self.nodes: dict[int, Node] = {}
        self.open: dict[tuple[int, int], tuple[int, int]] | None = None
        """With lives: the links over which a life may speak, and which lives of both nodes opened it."""
        self.watch: Callable[[int, int, bytes], None] | None = None

    def send(self, source: int, target: int, frame: bytes) -> None:
        if (source, target) in self.cut or not self.linked(source, target):
            return
        if self.watch is not None:
            self.watch(source, target, frame)
        if (source, target) in self.held:
            self.held[source, target].append(frame)
            return
        self.time.call_later(self.delay, lambda: self.arrive(source, target, frame))

    def arrive(self, source: int, target: int, frame: bytes) -> None:
        node = self.nodes.get(target)
        if node is not None and node.up and (source, target) not in self.cut:
            node.engine.receive(NodeId(source), frame)

    def linked(self, source: int, target: int) -> bool:
        """Has the source said its life there?"""
        if self.open is None:
            return True
        return self.open.get((source, target)) == (self.nodes[source].lives, self.nodes[target].lives)

    def dial(self, source: int, target: int) -> None:
        """Say hello as ``peers.py`` does, until it is heard or one of the two is another."""
        assert self.open is not None
        one, two = self.nodes[source], self.nodes[target]
        lives = (one.lives, two.lives)

        def same() -> bool:
            return one.up and two.up and (one.lives, two.lives) == lives

        def again() -> None:
            if same():
                self.time.call_later(0.01, lambda: self.dial(source, target))

        def opened() -> None:
            assert self.open is not None
            if same():
                self.open[source, target] = lives
                one.engine.peer_connected(NodeId(target))

        def judged() -> None:
            incarnation = directory_bytes(one.incarnation)
            if same() and not two.said.meet(NodeId(source), incarnation, one.said.life, told, opened):
                again()

        if not same():
            return
        if {(source, target), (target, source)} & self.cut:
            again()
            return
        told = two.said.met(NodeId(source), directory_bytes(one.incarnation))
        one.said.judge(NodeId(target), told, judged)

    def hold(self, source: int, target: int) -> None:
        self.held[source, target] = []

    def release(self, source: int, target: int) -> None:
        for frame in self.held.pop((source, target)):
            self.send(source, target, frame)

    def isolate(self, node: int) -> None:
        for other in self.nodes:
            if other != node:
                self.cut |= {(node, other), (other, node)}

    def heal(self) -> None:
        self.cut.clear()


class _NodeNetwork:
    def __init__(self, wires: Wires, node_id: int) -> None:
        self._wires = wires
        self._me = node_id

    def send(self, peer: NodeId, frame: bytes) -> None:
        self._wires.send(self._me, peer, frame)

    def connected(self, peer: NodeId) -> bool:
        node = self._wires.nodes.get(peer)
        linked = node is not None and node.up and self._wires.linked(self._me, peer)
        return linked and (self._me, peer) not in self._wires.cut


class ListMachine:
    """Applies entries to a store: one row and one event batch each, so that state and log can be compared."""

    def __init__(self, store: MemoryStore, log: EventLog) -> None:
        self.store = store
        self.log = log
        self.engine: PySyncObjEngine | None = None
        self.applied_entries: list[tuple[int, int, bytes]] = []
        self.terms: list[tuple[int, LeaderCause | None]] = []
        self.fail_on: bytes | None = None
        self.failure: Exception = ValueError("poison")
        self.installs = 0
        self.led: Callable[[], None] = lambda: None
        self._pending: list[tuple[int, int, bytes]] = []
        if finish_switch(store):
            log.reload()
        self._load()

    def _load(self) -> None:
        applied = read_applied(self.store)
        self.index, self.offset = (applied.index, applied.next_offset) if applied else (Index(0), 0)
        self.term = applied.term if applied else Term(0)

    def applied_index(self) -> Index:
        return Index(self.index)

    def applied_term(self) -> Term:
        return self.term

    def apply(self, index: Index, term: Term, entry: bytes) -> None:
        if entry and entry == self.fail_on:
            raise self.failure
        assert index == max(self.index + 1, 2)
        self.index, self.term = index, term
        self._pending.append((index, term, entry))
        self.applied_entries.append((index, term, entry))

    def applied(self) -> None:
        ops: list[StoreOp] = []
        batches = []
        term = 0
        for index, term, entry in self._pending:
            if entry:
                batch = assemble([entry], 0, 0, base_offset=self.offset, leader_epoch=term)
                ops += self.log.ops_for(self.offset, 1, term, batch)
                batches.append((self.offset, 1, Term(term), batch))
                ops.append(StoreOp("rows", b"%06d" % self.offset, entry))
                self.offset += 1
            ops += applied_ops(index, term, self.offset, 0)
        self._pending = []
        self.store.write(ops)
        self.log.publish(batches)

    def leadership(self, term: Term, cause: LeaderCause | None) -> None:
        self.terms.append((term, cause))
        if cause is not None:
            self.led()

    def snapshot_rows(self) -> Iterable[tuple[Family, bytes, bytes]]:
        return (("rows", key, value) for key, value in self.store.scan("rows"))

    def prepare(self) -> Iterator[None]:
        yield

    def install(self, index: Index, term: Term) -> None:
        self.installs += 1
        self._load()
        assert self.index == index

    def founders_listed(self) -> dict[int, str]:
        return msgspec.json.decode(self.values()[0], type=dict[int, str])

    def values(self) -> list[bytes]:
        return [value for _, value in self.store.scan("rows")]


class ListFacts:
    """``FoundingFacts`` of a ``ListMachine``: its first entry names the founders."""

    def __init__(self, machine: ListMachine) -> None:
        self._machine = machine

    def founders(self) -> dict[int, str] | None:
        values = self._machine.values()
        return self.founders_in(values[0]) if values else None

    def founders_in(self, entry: bytes) -> dict[int, str]:
        return msgspec.json.decode(entry, type=dict[int, str])


class Node:
    """One node over several lives; its disk and store outlive them."""

    def __init__(self, cluster: "Cluster", node_id: int) -> None:
        self.cluster = cluster
        self.id = node_id
        self.disk = MemoryDisk()
        self.store = MemoryStore()
        self.voter_file = MemoryVoterFile()
        self.wiped = 0
        self.incarnation = directory_text(bytes([node_id]) * 16)
        self.up = False
        self.lives = 0
        self.fatal: list[Exception] = []

    def start(self, *, forgotten: bool = False) -> None:
        cluster = self.cluster
        self.lives += 1
        self.worker, self.store_worker, self.reader = (SlowWorker(cluster.time) for _ in range(3))
        self.directory = Directory.open(
            self.voter_file, cluster_id="c", node_id=NodeId(self.id), store=None, fresh=self.incarnation
        )
        if forgotten:
            self.directory.forbid_vote("the test says so")
        self.directory.begin(directory_text(bytes([self.id, *self.lives.to_bytes(15, "big")])))
        self.journal = Journal.open(self.disk, self.worker, cluster.journal, cluster.time, reader=self.reader)
        self.log = EventLog(self.store)
        self.machine = ListMachine(self.store, self.log)
        if cluster.founding:
            self.machine.led = self._found
        ports = EnginePorts(
            journal=self.journal,
            machine=self.machine,
            facts=ListFacts(self.machine) if cluster.founding else None,
            store=self.store,
            event_log=self.log,
            directory=self.directory,
            network=_NodeNetwork(cluster.wires, self.id),
            worker=self.worker,
            store_worker=self.store_worker,
            reader=self.reader,
            scheduler=cluster.time,
            rng=random.Random(cluster.seed * 1000 + self.id * 100 + self.lives),
            on_fatal=self.fatal.append,
        )
        self.engine = PySyncObjEngine(NodeId(self.id), cluster.voters, ports, cluster.settings)
        self.said = Lives(self.directory, self.worker, self.engine.forget)
        self.up = True
        self.engine.start()
        for other in cluster.nodes.values():
            if other is not self and other.up and cluster.wires.open is not None:
                cluster.wires.dial(self.id, other.id)
                cluster.wires.dial(other.id, self.id)
            elif other is not self and other.up:
                self.engine.peer_connected(NodeId(other.id))
                other.engine.peer_connected(NodeId(self.id))

    def _found(self) -> None:
        """What the controller does in a term without events before it."""
        if not self.machine.offset:
            self.propose(msgspec.json.encode(dict(self.engine.founders)))

    def wipe(self) -> None:
        """Another directory in the place of this node's; it is down."""
        self.wiped += 1
        self.disk, self.store, self.voter_file = MemoryDisk(), MemoryStore(), MemoryVoterFile()
        self.incarnation = directory_text(bytes([self.id]) * 15 + bytes([128 + self.wiped]))

    def copy(self) -> tuple[MemoryDisk, MemoryStore, MemoryVoterFile]:
        """The whole directory, block by block: what the copy holds stands where it stood."""
        return copy.deepcopy((self.disk, self.store, self.voter_file))

    def put_back(self, copied: tuple[MemoryDisk, MemoryStore, MemoryVoterFile]) -> None:
        """That in the place of what there is; the node is down."""
        self.disk, self.store, self.voter_file = copy.deepcopy(copied)

    def kill(self, *, power_loss: bool = False) -> None:
        self.up = False
        self.engine.stop()
        self.worker.dead = self.store_worker.dead = self.reader.dead = True
        if power_loss:
            self.disk.crash()
            self.store.crash()
        for other in self.cluster.nodes.values():
            if other.up:
                other.engine.peer_disconnected(NodeId(self.id))

    def propose(self, entry: bytes) -> int | None:
        return self.engine.propose(entry, self.engine.decidable_term())


class Cluster:
    """``count`` nodes with ids from 1, all started."""

    def __init__(
        self,
        count: int,
        *,
        settings: EngineSettings | None = None,
        seed: int = 1,
        start: bool = True,
        founding: bool = False,
        lives: bool = False,
    ) -> None:
        self.founding = founding
        self.time = VirtualTime()
        self.wires = Wires(self.time)
        self.wires.open = {} if lives else None
        self.settings = settings or EngineSettings()
        self.journal = JOURNAL
        self.seed = seed
        self.voters = tuple(NodeId(i) for i in range(1, count + 1))
        self.nodes = {int(i): Node(self, i) for i in self.voters}
        self.wires.nodes = self.nodes
        if start:
            for node in self.nodes.values():
                node.start()

    def run(self, seconds: float) -> None:
        self.time.run(seconds)
        for node in self.nodes.values():
            if node.fatal:
                raise node.fatal[0]

    def run_until(self, condition: Callable[[], object], limit: float = 10.0, step: float = 0.005) -> float:
        """Virtual seconds until the condition held, which is looked at every ``step``; fails after ``limit``."""
        start = self.time.now
        while not condition():
            if self.time.now - start >= limit:
                raise AssertionError(f"not within {limit} virtual seconds")
            self.run(step)
        return self.time.now - start

    @property
    def leader(self) -> Node | None:
        """The node that may decide, of the highest term."""
        leaders = [node for node in self.nodes.values() if node.up and node.engine.decidable_term()]
        return max(leaders, key=lambda node: node.engine.term, default=None)

    def elect(self, node_id: int | None = None) -> Node:
        """Wait for a leader; hand over until it is the wanted one."""
        self.run_until(lambda: self.leader)
        leader = self.leader
        assert leader is not None
        if node_id is not None and leader.id != node_id:
            self.run(0.2)
            assert leader.engine.transfer_leadership(NodeId(node_id))
            wanted = self.nodes[node_id]
            self.run_until(wanted.engine.decidable_term)
            return wanted
        return leader

    def settle(self, limit: float = 10.0) -> None:
        """Until every running node applied the same log up to a leader's last entry."""

        def same() -> bool:
            running = [node for node in self.nodes.values() if node.up]
            last = {(node.journal.last_index, node.engine.applied_index) for node in running}
            return self.leader is not None and len(last) == 1 and all(a == b for a, b in last)

        self.run_until(same, limit)
        values = {tuple(node.machine.values()) for node in self.nodes.values() if node.up}
        assert len(values) == 1, "the nodes' states differ"
