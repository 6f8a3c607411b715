"""Two clusters with one handle: bare pysyncobj and the guarded engine, on a clock and a network that obey the test."""

import random
import shutil
import tempfile
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated
from pysyncobj.node import Node as PeerNode
from pysyncobj.transport import Transport

from quorate.consensus.ports import NodeId
from quorate.consensus.raft import pysyncobj_engine
from quorate.consensus.settings import EngineSettings, SnapshotSettings
from tests.unit.consensus.raft_cluster import Cluster, Wires

Link = tuple[int, int]


class DefectSeenError(AssertionError):
    """The property that the defect breaks does not hold."""


def must(condition: object, property_: str) -> None:
    """The property under test."""
    if not condition:
        raise DefectSeenError(property_)


class Rig(Protocol):
    """What a scenario may do. ``queue``: messages under way per link; ``held`` deliver nothing, ``cut`` lose."""

    nodes: list[int]
    queue: dict[Link, list[Any]]
    held: set[Link]
    cut: set[Link]
    acked: list[str]

    def tick(self, seconds: float = 0.11) -> None:
        """Time passes; every node works; nothing is delivered."""

    def deliver(self, only: Iterable[Link] | None = None) -> None:
        """Everything under way arrives, and what that causes, until nothing is under way."""

    def elect(self, node: int, voters: Iterable[int]) -> None:
        """Make it leader with these voters' votes."""

    def propose(self, node: int, value: str) -> None:
        """A client's write at a node that believes to lead; ``acked`` grows when it is told success."""

    def compact(self, node: int) -> None:
        """Forget the log up to the applied state."""

    def crash_in_compaction(self, node: int) -> None:
        """Kill it between the durable snapshot and the trimmed log, and start it again."""

    def poison(self, value: str) -> None:
        """Executing it raises, on every node; ``attempts`` counts."""

    attempts: int

    def is_leader(self, node: int) -> bool:
        """Does it believe to lead?"""

    def log(self, node: int) -> list[tuple[int, int]]:
        """Index and term of every entry it holds."""

    def values(self, node: int) -> list[str]:
        """What it executed."""

    def close(self) -> None:
        """Remove what it left on disk."""


def run(rig: Rig, rounds: int = 5) -> None:
    """A quiet while in which everything arrives."""
    for _ in range(rounds):
        rig.tick()
        rig.deliver()


def isolate(rig: Rig, node: int) -> None:
    """Cut every wire of one node."""
    rig.cut |= {link for other in rig.nodes if other != node for link in ((node, other), (other, node))}


class _StockTransport(Transport):  # type: ignore[misc]
    def __init__(self, rig: "StockRig", me: int, others: list[PeerNode]) -> None:
        super().__init__(None, None, [])
        self._rig = rig
        self._me = me
        self.others = others

    def send(self, node: PeerNode, message: dict[str, Any]) -> bool:
        if (self._me, node.id) in self._rig.cut:
            return False
        self._rig.queue.setdefault((self._me, node.id), []).append(dict(message))
        self._rig.sent += 1
        return True


class _StockNode(SyncObj):  # type: ignore[misc]
    def __init__(self, rig: "StockRig", *args: Any, **kwargs: Any) -> None:
        self._rig = rig
        super().__init__(*args, **kwargs)
        self.out: list[str] = []

    @replicated  # type: ignore[untyped-decorator]
    def write(self, value: str) -> None:
        self._rig.executing(value)
        self.out.append(value)


class StockRig:
    """pysyncobj as it comes, but for its sockets and its clock."""

    def __init__(self, count: int, *, batch_bytes: int = 65_536, files: bool = False) -> None:
        self.nodes = list(range(1, count + 1))
        self.queue: dict[Link, list[Any]] = {}
        self.held: set[Link] = set()
        self.cut: set[Link] = set()
        self.acked: list[str] = []
        self.attempts = 0
        self.sent = 0
        self._now = 1000.0
        self._poison: str | None = None
        self._batch_bytes = batch_bytes
        self._directory = tempfile.mkdtemp(prefix="stock-") if files else None
        random.seed(1)
        self._use_clock()
        self._transports: dict[int, _StockTransport] = {}
        self._made = {node: self._make(node) for node in self.nodes}

    def _use_clock(self) -> None:
        def read() -> float:
            self._now += 1e-6
            return self._now

        pysyncobj_engine._Clock.read = read

    def _make(self, node: int) -> _StockNode:
        files: dict[str, Any] = {}
        if self._directory is not None:
            path = f"{self._directory}/{node}"
            files = {"journalFile": path + ".journal", "fullDumpFile": path + ".dump", "useFork": False}
        others = [PeerNode(other) for other in self.nodes if other != node]
        transport = self._transports[node] = _StockTransport(self, node, others)
        conf = SyncObjConf(
            autoTick=False, raftMinTimeout=1.0, raftMaxTimeout=1.001, leaderFallbackTimeout=5,
            logCompactionBatchSize=64, logCompactionMinEntries=10**6, logCompactionMinTime=10**6,
            appendEntriesBatchSizeBytes=self._batch_bytes, **files,
        )  # fmt: skip
        made = _StockNode(self, PeerNode(node), others, conf, transport=transport, nodeClass=PeerNode)
        for other in others:
            transport._onNodeConnected(other)
        return made

    def tick(self, seconds: float = 0.11) -> None:
        self._use_clock()
        self._now += seconds
        for made in self._made.values():
            made._onTick(0)

    def deliver(self, only: Iterable[Link] | None = None) -> None:
        self._use_clock()
        for _ in range(1000):
            busy = [link for link, under_way in self.queue.items() if under_way and self._open(link, only)]
            if not busy:
                return
            for link in busy:
                while self.queue[link]:
                    message = self.queue[link].pop(0)
                    if link not in self.cut:
                        self._transports[link[1]]._onMessageReceived(PeerNode(link[0]), message)

    def _open(self, link: Link, only: Iterable[Link] | None) -> bool:
        return link not in self.held and (only is None or link in only)

    def elect(self, node: int, voters: Iterable[int]) -> None:
        self._use_clock()
        self._now += 2
        made = [self._made[voter] for voter in {node, *voters}]
        self._made[node]._SyncObj__raftElectionDeadline = 0
        self._made[node]._onTick(0)
        for _ in range(4):
            self.deliver()
            self._now += 0.11
            for one in made:
                one._onTick(0)
        assert self.is_leader(node)

    def propose(self, node: int, value: str) -> None:
        def told(_: Any, error: int) -> None:
            if error == FAIL_REASON.SUCCESS:
                self.acked.append(value)

        self._made[node].write(value, callback=told)

    def compact(self, node: int) -> None:
        self._made[node].forceLogCompaction()
        run(self, 3)

    def crash_in_compaction(self, node: int) -> None:
        victim = self._made[node]
        victim.forceLogCompaction()
        victim._SyncObj__tryLogCompaction()
        for value in ("late 1", "late 2", "late 3"):
            self.propose(next(n for n in self.nodes if self.is_leader(n)), value)
        for other in self.nodes:
            if other != node:
                self._now += 0.11
                self._made[other]._onTick(0)
        self.deliver()
        victim._SyncObj__raftLog._destroy()
        self._made[node] = self._make(node)
        self._made[node]._onTick(0)

    def executing(self, value: str) -> None:
        if value == self._poison:
            self.attempts += 1
            raise ValueError(value)

    def poison(self, value: str) -> None:
        self._poison = value

    def is_leader(self, node: int) -> bool:
        return bool(self._made[node]._isLeader())

    def log(self, node: int) -> list[tuple[int, int]]:
        return [(entry[1], entry[2]) for entry in self._made[node]._SyncObj__raftLog[:]]

    def values(self, node: int) -> list[str]:
        return list(self._made[node].out)

    def close(self) -> None:
        if self._directory is not None:
            for made in self._made.values():
                made._SyncObj__raftLog._destroy()
            shutil.rmtree(self._directory)


class _QueueWires(Wires):
    """Wires that deliver when the rig says so."""

    def __init__(self, rig: "GuardedRig", time: Any) -> None:
        super().__init__(time)
        self._rig = rig

    def send(self, source: int, target: int, frame: bytes) -> None:
        if (source, target) not in self._rig.cut:
            self._rig.queue.setdefault((source, target), []).append(frame)
            self._rig.sent += 1


class GuardedRig:
    """The engine of this repository."""

    def __init__(self, count: int, *, batch_bytes: int = 65_536, files: bool = False) -> None:
        self.nodes = list(range(1, count + 1))
        self.queue: dict[Link, list[Any]] = {}
        self.held: set[Link] = set()
        self.cut: set[Link] = set()
        self.acked: list[str] = []
        self.attempts = 0
        self.sent = 0
        self._proposed: dict[int, list[tuple[int, int, str]]] = {node: [] for node in self.nodes}
        snapshots = SnapshotSettings(check_period_s=0.05, retain_entries=0, trim_slack_entries=0, chunk_bytes=64)
        lazy = SnapshotSettings(check_period_s=1e6)
        settings = EngineSettings(
            election_timeout_min_s=1.0, election_timeout_max_s=1.001, append_bytes=batch_bytes, snapshots=lazy
        )
        self._snapshots = snapshots
        self.cluster = Cluster(count, settings=settings, start=False)
        self.cluster.wires = wires = _QueueWires(self, self.cluster.time)
        wires.nodes = self.cluster.nodes
        for node in self.cluster.nodes.values():
            node.start()

    def tick(self, seconds: float = 0.11) -> None:
        self.cluster.time.run(seconds)
        for node, made in self.cluster.nodes.items():
            done = {(index, term) for index, term, _ in made.machine.applied_entries}
            for index, term, value in list(self._proposed[node]):
                if (index, term) in done:
                    self._proposed[node].remove((index, term, value))
                    self.acked.append(value)
        self.attempts = sum(len(made.fatal) for made in self.cluster.nodes.values())

    def deliver(self, only: Iterable[Link] | None = None) -> None:
        for _ in range(200):
            busy = [
                link
                for link, under_way in self.queue.items()
                if under_way and link not in self.held and (only is None or link in only)
            ]
            if not busy:
                return
            for link in busy:
                frames, self.queue[link] = self.queue[link], []
                for frame in frames:
                    if link not in self.cut:
                        self.cluster.nodes[link[1]].engine.receive(NodeId(link[0]), frame)
            self.tick(0.002)

    def elect(self, node: int, voters: Iterable[int]) -> None:
        elections = {n: made.engine._elections.timing for n, made in self.cluster.nodes.items()}

        def only_one() -> None:
            for n, election in elections.items():
                if n != node and not self.is_leader(n):
                    election.due_at = self.cluster.time.now + 100

        for _ in range(13):
            only_one()
            elections[node].due_at = self.cluster.time.now + 100
            self.tick(0.1)
            self.queue.clear()
        elections[node].due_at = self.cluster.time.now
        only_one()
        for _ in range(4):
            self.tick(0.02)
            self.deliver()
        assert self.is_leader(node)

    def propose(self, node: int, value: str) -> None:
        engine = self.cluster.nodes[node].engine
        index = engine.propose(value.encode(), engine.decidable_term())
        assert index is not None
        self._proposed[node].append((index, engine.term, value))

    def compact(self, node: int) -> None:
        trimmer = self.cluster.nodes[node].engine._applying.trimmer
        trimmer._settings = self._snapshots
        trimmer._check_at = 0.0
        run(self, 3)
        assert self.cluster.nodes[node].journal.base_index > 1

    def crash_in_compaction(self, node: int) -> None:
        victim = self.cluster.nodes[node]
        victim.store.sync()
        leader = next(n for n in self.nodes if self.is_leader(n))
        for value in ("late 1", "late 2", "late 3"):
            self.propose(leader, value)
        run(self, 2)
        victim.journal.trim_to(victim.engine.applied_index)
        victim.kill(power_loss=True)
        victim.start()
        self.tick(0.01)

    def poison(self, value: str) -> None:
        for made in self.cluster.nodes.values():
            made.machine.fail_on = value.encode()

    def is_leader(self, node: int) -> bool:
        return bool(self.cluster.nodes[node].engine.decidable_term())

    def log(self, node: int) -> list[tuple[int, int]]:
        journal = self.cluster.nodes[node].journal
        terms = [(index, journal.term_at(index)) for index in range(journal.base_index, journal.last_index + 1)]
        return [(index, term) for index, term in terms if term is not None]

    def values(self, node: int) -> list[str]:
        return [value.decode() for value in self.cluster.nodes[node].machine.values()]

    def close(self) -> None:
        """Everything is in memory."""


RIGS: dict[str, Callable[..., Rig]] = {"bare pysyncobj": StockRig, "guarded engine": GuardedRig}
