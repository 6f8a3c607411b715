"""Machines, the processes that live and die on them, and the cluster they make.

Rules: a process is built from production code over the simulated ports and knows nothing of the simulator. What a host
holds (disk, store) outlives its processes. Every touch of a process from outside goes through its loop.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Final, Protocol

import msgspec

from quorate.consensus.journal.journal import Journal, JournalDamagedError
from quorate.consensus.ports import Index, NodeId, RaftEngine, Term
from quorate.consensus.storage.directory import Directory, decode_voter
from quorate.consensus.storage.store import StoreDamagedError, read_applied
from quorate.consensus.transport.codec import APP_TYPE_MIN
from quorate.consensus.transport.hello import Links, Party, PeerHandlers, PeerIdentity
from quorate.errors import StorageError
from quorate.metadata.sums import Mark, RunningSums
from quorate.node.compose import give_up_store
from tests.sim.clients import Answer, Result, Service
from tests.sim.coverage import Coverage
from tests.sim.disk import (
    READ_FACTOR,
    STORE_SYNC_FACTOR,
    InjectedError,
    Loss,
    SimDisk,
    SimStore,
    SimStorePlace,
    SimSyncer,
    SimVoterFile,
    SimWorker,
    Slowness,
)
from tests.sim.network import End, Fabric, SimNetwork
from tests.sim.room import AFTERWARDS_S, FLOOR, PLENTY
from tests.sim.world import Call, Loop, ViolationError, World

CUT: Final = 0.1
"""So many starts are cut short …"""
CUT_WITHIN: Final = 12
"""… after fewer operations than that."""


class Node(Service, Protocol):
    """The application of a process: what the composition root builds around an engine."""

    journal: Journal
    engine: RaftEngine

    def start(self) -> None:
        """Begin."""

    knows: int
    """The feature level of its build."""
    identity: PeerIdentity
    handlers: PeerHandlers
    """What its links to others ask and tell."""
    short: bool
    """Did it measure too little room on its disk?"""

    @property
    def alarms(self) -> tuple[str, ...]:
        """What it says about disks."""

    @property
    def directory(self) -> Directory:
        """What its voter file says."""

    @property
    def incarnation(self) -> str:
        """Id of its directory."""

    @property
    def waits_for(self) -> str:
        """What an operator is told who looks at it."""

    @property
    def cluster_uuid(self) -> str:
        """The founding that it knows; empty when it knows none."""

    def on_directories(self, call: Call) -> None:
        """Whom to tell when the log names other directories of voters."""

    @property
    def sums(self) -> RunningSums:
        """What its rows add up to, as it carries it along."""

    def overdue(self) -> str | None:
        """A request that was not answered by its deadline."""

    @property
    def applied_index(self) -> Index:
        """Of the last entry that its state has."""

    @property
    def marked(self) -> Mark:
        """The same, after its last entry."""

    def plain_sums(self) -> tuple[int, int]:
        """The same, worked out from nothing."""

    def batches(self, offset: int) -> list[tuple[int, int, Term, bytes]]:
        """What a consumer of the event log reads from ``offset`` on: base offset, count, term, bytes."""

    @property
    def offset(self) -> int:
        """Events applied."""

    @property
    def forgot(self) -> bool:
        """Did it lose its journal, and has it not come back?"""

    @property
    def staged_term(self) -> Term | None:
        """Term of the leader whose snapshot is arriving; None when none is."""


class Ports(msgspec.Struct, frozen=True):
    """All that a process is given."""

    node_id: NodeId
    voters: tuple[NodeId, ...]
    loop: Loop
    disk: SimDisk
    worker: SimWorker
    store_worker: SimWorker
    syncer: SimSyncer | None
    """The kernel's, of half of all processes."""
    reader: SimWorker
    store: SimStorePlace
    network: SimNetwork
    seed: int
    voter_file: SimVoterFile
    fatal: Callable[[Exception], None]
    journal_erased: Callable[[], None]
    """The node found its journal damaged and begins another."""
    was_hurt: bool
    """So did, perhaps, a start before this one that was cut short."""


Build = Callable[[Ports], Node]


class Host:
    """One machine; ``process`` is None while nothing runs."""

    def __init__(self, world: World, node_id: NodeId) -> None:
        self.node_id = node_id
        self.disk = SimDisk(world.random)
        self.store = SimStore(self.disk, world.random)
        self.voter_file = SimVoterFile(self.disk)
        self.slowness = Slowness(world.random)
        self.wall_skew_ms = 0
        self.rate = 1.0
        """Seconds its clocks count in a second."""
        self.kept_down = False
        self.store_hurt = False
        """Something was done to its store since it was last opened."""
        self.was_hurt = False
        """Its journal was, when a start was cut short: that one may have begun another."""
        self.incarnations = 0
        self.process: Process | None = None


class Observer(Protocol):
    """Who checks the invariants."""

    def started(self, process: "Process") -> None:
        """Recovered, not yet running."""

    def turn(self, process: "Process") -> None:
        """A turn of it ended."""

    def leaving(self, process: "Process", peer: NodeId, frame: bytes) -> None:
        """A consensus frame leaves it now."""

    def heard(self, end: End) -> None:
        """One of its ends of a line is about to hear the other."""

    def synced(self, host: Host) -> None:
        """A disk job of the host ended."""

    def answering(self, process: "Process", result: Result) -> None:
        """It answers a client now."""

    def dying(self, process: "Process") -> None:
        """It is about to go, perhaps in the middle of a turn."""

    def crashed(self, host: Host, *, journal_lost: bool) -> None:
        """Its process is gone and its disk is what it is."""


class Process:
    """One life of a node: a ``network.Endpoint``."""

    def __init__(self, cluster: "Cluster", host: Host) -> None:
        self.cluster = cluster
        self.host = host
        self.node_id = host.node_id
        self.incarnation = host.incarnations
        self.alive = True
        on_turn = partial(cluster.observer.turn, self)
        self.loop = cluster.loops(cluster.world, f"n{host.node_id}", on_turn, host.wall_skew_ms, host.rate)
        self.node: Node
        self.party: Party
        self.links: Links[End]

    def boot(self) -> None:
        """Recover from the disk and begin. A StorageError is the start refused."""
        host, cluster = self.host, self.cluster
        host.store.on_damage = self._met_damage
        worker = SimWorker(cluster.world, self.loop, host.slowness, host.disk, self.fatal)
        store_worker = SimWorker(cluster.world, self.loop, host.slowness, host.disk, self.fatal, STORE_SYNC_FACTOR)
        kernel = SimWorker(cluster.world, self.loop, host.slowness, host.disk, self.fatal)
        by_kernel = cluster.world.random.random() < 0.5
        reader = SimWorker(cluster.world, self.loop, host.slowness, host.disk, self.fatal, READ_FACTOR)
        ports = Ports(
            node_id=self.node_id,
            voters=cluster.voters,
            loop=self.loop,
            disk=host.disk,
            worker=worker,
            store_worker=store_worker,
            syncer=SimSyncer(kernel, host.disk, cluster.world.random) if by_kernel else None,
            reader=reader,
            store=SimStorePlace(host.store),
            network=SimNetwork(cluster.fabric, self.node_id, self.loop.at_turns_end),
            seed=cluster.world.random.getrandbits(32),
            voter_file=host.voter_file,
            fatal=self.fatal,
            journal_erased=lambda: cluster.journal_damaged(host),
            was_hurt=host.was_hurt,
        )
        try:
            self.node = cluster.build(ports)
        except StoreDamagedError as damage:
            self._give_up_store(damage)
            raise InjectedError(str(damage)) from damage
        host.store_hurt = host.store.hurt
        if host.disk.cut:
            raise ViolationError("a journal that was cut is found", f"n{self.node_id} begins with what is left")
        cluster.observer.started(self)
        self.links = Links()
        self.party = Party(
            identity=self.node.identity,
            peers=frozenset(cluster.voters) - {self.node_id},
            handlers=self.node.handlers,
            nonce=cluster.fabric.nonce,
        )
        self.node.on_directories(lambda: self.links.judge_again(self.party))
        self.node.start()
        cluster.fabric.attach(self.node_id, self)

    def _met_damage(self, error: StorageError) -> None:
        """A read met it, on the loop or beside it (node/running.py)."""
        self.loop.call_soon(lambda: self.fatal(error))

    def _give_up_store(self, damage: StoreDamagedError, directory: Directory | None = None) -> None:
        """The next start makes it anew (the product does so at once). ``directory``: of a node that ran."""
        host, cluster = self.host, self.cluster
        if not host.store_hurt:
            raise ViolationError("no store is given up that is sound", f"n{self.node_id}: {damage}")
        cluster.counts["stores given up" if directory is None else "stores given up: running"] += 1
        give_up_store(
            host.voter_file,
            host.disk,
            damage,
            cluster_id="sim",
            node_id=self.node_id,
            alone=len(cluster.voters) == 1,
            directory=directory,
        )

    def fatal(self, error: Exception) -> None:
        """The process gives up on itself: only for a disk that failed, or for a bug."""
        if isinstance(error, ViolationError):
            raise error  # Raised by the observer in the middle of production code, which handed it on.
        if isinstance(error, StoreDamagedError):
            with suppress(InjectedError):  # Then the next start says what is to be done.
                self._give_up_store(error, self.node.directory)
        elif isinstance(error, JournalDamagedError) and self.host.disk.rotten:
            self.cluster.counts["rotten journals met by who runs"] += 1
        elif not excused(error):
            raise ViolationError("no node stops by itself", f"n{self.node_id}: {type(error).__name__}: {error}")
        self.cluster.counts["fail-stops"] += 1
        self.loop.die()
        self.cluster.world.after(0.0, lambda: self.cluster.crash(self.node_id, "kill", 0.1))

    def io(self, call: Call) -> None:
        """What came over a line, in a turn of its own."""
        self.loop.io(call)


def excused(error: BaseException | None) -> bool:
    """Did the simulator make this error, or the one it comes from?"""
    return error is not None and (isinstance(error, InjectedError) or excused(error.__cause__))


class Cluster:
    """All hosts, and the handles by which faults are injected. ``loops``: of what kind those of processes are."""

    def __init__(self, world: World, size: int, build: Build, observer: Observer, loops: type[Loop] = Loop) -> None:
        self.world, self.loops = world, loops
        self.voters = tuple(NodeId(number) for number in range(1, size + 1))
        self.fabric = Fabric(world, self.voters)
        self.build = build
        self.observer = observer
        self.counts: Counter[str] = Counter()
        self.hosts = {node: Host(world, node) for node in self.voters}
        self.fabric.tap = self._leaving
        self.fabric.heard = observer.heard
        self.client_loss = 0.0
        self.client_delay_s = 0.002
        self.forgetful: set[NodeId] = set()
        self.untold: set[NodeId] = set()
        """Who forgot something, and has not been seen to know it."""
        self.lost_at: dict[NodeId, float] = {}
        """When something durable was last taken from a node."""
        self.cuts_starts = False
        """Does a machine die in the middle of a start now and then?"""
        self.low_until = 0.0
        """When a disk that was low had room again."""
        self.coverage = Coverage(world)
        self.coverage.installing = lambda: any(getattr(p.node.engine, "installing", False) for p in self.processes())
        for host in self.hosts.values():
            host.disk.on_synced = lambda host=host: observer.synced(host)  # type: ignore[misc]

    @property
    def quorum(self) -> int:
        """Nodes of a majority."""
        return len(self.voters) // 2 + 1

    def processes(self) -> list[Process]:
        """Those alive, by node id."""
        return [host.process for host in self.hosts.values() if host.process is not None]

    def leaders(self) -> list[Process]:
        """Those who believe they lead."""
        return [process for process in self.processes() if process.node.engine.is_leader]

    def _leaving(self, a: NodeId, _b: NodeId, frame: bytes) -> None:
        process = self.hosts[a].process
        if process is not None and frame[0] < APP_TYPE_MIN:
            self.observer.leaving(process, _b, frame)

    def founded(self, node: NodeId) -> bool:
        """Has the process there applied the founding of the cluster?"""
        process = self.hosts[node].process
        return process is not None and process.node.offset > 0

    # Life and death.

    def start(self, node: NodeId) -> None:
        """Run a process on the host, unless one runs."""
        host = self.hosts[node]
        if host.process is not None or host.kept_down:
            return
        host.incarnations += 1
        process = host.process = Process(self, host)
        self.counts["starts"] += 1
        self.world.note(f"start n{node}")
        chance, hurt = Random(f"{self.world.seed} n{node} {host.incarnations}"), host.disk.hurt
        host.disk.dies_after = chance.randrange(CUT_WITHIN) if self.cuts_starts and chance.random() < CUT else None
        try:
            process.boot()
            if host.disk.died:  # Whoever passed over that goes no further.
                raise InjectedError("the machine died")
            host.disk.dies_after, host.was_hurt = None, False
        except StorageError as error:
            if not excused(error):
                raise
            if host.disk.died:
                self.counts["starts cut short"] += 1
                self._begin_again(process, chance.choice(("kill", "power")))
                host.disk.hurt = host.disk.hurt or hurt  # It may have been about to find that.
                host.was_hurt = host.was_hurt or hurt
                self.observer.crashed(host, journal_lost=False)
                return
            self.counts["starts refused by a disk"] += 1
            self._begin_again(process, "kill")
            if host.disk.bad:  # So will be the next ones: an operator takes the journal away.
                self.counts["unreadable journals taken away"] += 1
                host.disk.wipe()
                self.journal_lost(host)

    def _begin_again(self, process: Process, loss: Loss) -> None:
        """A start that its disk refused, or in which its machine died; a supervisor tries again."""
        process.alive = False
        process.loop.die()
        process.host.process = None
        self.fabric.detach(process.node_id)
        process.host.disk.crash(loss)
        process.host.store.crash(loss)
        self.world.after(0.15, lambda: self.start(process.node_id))

    def crash(self, node: NodeId, loss: Loss, down_s: float, *, lose_journal: bool = False) -> None:
        """The process dies now; what its storage keeps is up to ``loss``. It comes back after ``down_s``."""
        host = self.hosts[node]
        process = host.process
        if process is None:
            return
        self.world.note(f"crash n{node} {loss} {lose_journal}")
        self.counts[f"crashes: {loss}"] += 1
        self.observer.dying(process)
        process.alive = False
        process.loop.die()
        host.process = None
        self.fabric.detach(node)
        host.disk.crash(loss)
        host.store.crash(loss)
        if lose_journal:
            self.counts["journals lost"] += 1
            host.disk.wipe()
            self.journal_lost(host)
        else:
            self.observer.crashed(host, journal_lost=False)
        self.world.after(down_s, lambda: self.start(node))

    def remembers(self, node: NodeId) -> bool:
        """May it vote as soon as it hears of anybody? Not if its journal was lost, and it has not come back since."""
        if self.votes(node) and node not in self.untold:
            self.forgetful.discard(node)
        return node not in self.forgetful and not self.hosts[node].disk.unsound

    def votes(self, node: NodeId) -> bool:
        """Does it vote, and would it after a crash now? That it is back is on its disk a moment after it votes; and a
        new directory believes that it may until it holds a log that does not list it.
        """
        host = self.hosts[node]
        kept = None if host.disk.small is None else decode_voter(host.disk.small)
        if host.process is None or kept is None or host.disk.unsound or not host.process.node.engine.voting:
            return False
        return kept.admitted and not kept.may_not_vote

    def has_state(self, node: NodeId) -> bool:
        """Is its store as it was written, and not waiting for a leader to fill it?"""
        host = self.hosts[node]
        installing = host.process is not None and host.process.node.engine.installing
        return not host.store_hurt and not installing and read_applied(host.store) is not None

    def journal_damaged(self, host: Host) -> None:
        """Its node found it so, and begins another. Never after a crash alone, whatever that left of what was not
        synced.
        """
        if not host.disk.hurt:
            raise ViolationError("no journal is called lost that is not", f"n{host.node_id}")
        host.disk.hurt = host.disk.cut = host.was_hurt = False
        self.counts["journals found damaged or gone"] += 1
        self.journal_lost(host)

    def journal_lost(self, host: Host) -> None:
        """It is gone, or found damaged."""
        self.forgetful.add(host.node_id)
        self.untold.add(host.node_id)
        self.lost_at[host.node_id] = self.world.now
        self.observer.crashed(host, journal_lost=True)

    def pause(self, node: NodeId, for_s: float) -> None:
        """SIGSTOP, and SIGCONT after ``for_s``."""
        process = self.hosts[node].process
        if process is None or process.loop.paused:
            return
        self.counts["pauses"] += 1
        process.loop.pause()
        self.world.after(for_s, lambda: process.loop.resume() if not process.loop.forsaken else None)

    def fail_disk(self, node: NodeId) -> None:
        """The next sync of the host fails."""
        if self.hosts[node].process is not None:
            self.hosts[node].disk.failing = True

    def set_free(self, nodes: Iterable[NodeId], free: int) -> None:
        """So much is free on their disks from now on."""
        for node in nodes:
            if self.hosts[node].disk.free != PLENTY:
                self.low_until = self.world.now
            self.counts["disks low"] += free < FLOOR
            self.hosts[node].disk.free = free

    @property
    def lacks_room(self) -> bool:
        """Is a disk low, or was one a moment ago?"""
        low = any(host.disk.free != PLENTY for host in self.hosts.values())
        return low or self.world.now < self.low_until + AFTERWARDS_S

    # Clients.

    def ask(self, node: NodeId, call: Callable[[Service, Answer], None], hear: Answer, kind: str = "other") -> None:
        """A request travels to the node, the answer travels back; either may be lost."""
        random, end = self.world.random, self.coverage.begin(kind)
        if random.random() < self.client_loss:
            return

        def heard(result: Result) -> None:
            end()
            hear(result)

        self.world.after(random.random() * self.client_delay_s, lambda: self._ask_now(node, call, heard))

    def _ask_now(self, node: NodeId, call: Callable[[Service, Answer], None], hear: Answer) -> None:
        process = self.hosts[node].process
        if process is None:
            return

        def answer(result: Result) -> None:
            self.observer.answering(process, result)
            random = self.world.random
            if random.random() >= self.client_loss:
                self.world.after(random.random() * self.client_delay_s, lambda: hear(result))

        process.loop.io(lambda: call(process.node, answer))
