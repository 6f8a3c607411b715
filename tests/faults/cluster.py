"""Three composed nodes in virtual time: two in memory, one (the victim) on real files, opened as the product does."""

import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from types import SimpleNamespace
from uuid import UUID

import msgspec

from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import Disk, Family, NodeId, Store
from quorate.consensus.settings import EngineSettings, SnapshotSettings
from quorate.consensus.storage.directory import Directory, VoterFile
from quorate.consensus.storage.disk import FileDisk, FileVoterFile, StoreFolder
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage.scrub import Scrub
from quorate.consensus.storage.store import RocksStore, StoreDamagedError
from quorate.consensus.storage_settings import EventLogSettings, JournalSettings, ScrubSettings, StoreSettings
from quorate.controller import Answered, Caller, ControllerSettings
from quorate.errors import PeerError, StorageError
from quorate.history.settings import HistorySettings
from quorate.metadata.commands import ChangeConfig, RecordNodeStart
from quorate.metadata.requests import RequestSettings
from quorate.metrics import Metrics
from quorate.model.evolve import evolve
from quorate.model.rows import rows
from quorate.model.state import EMPTY
from quorate.node.compose import (
    Core,
    CorePorts,
    CoreSettings,
    Disks,
    give_up_store,
    open_directory,
    open_mending,
    open_store,
)
from quorate.wire.avro import decode_events
from tests.sim.nodes import NoBrokers, addresses, founding
from tests.stand_ins import MemoryStore, MemoryVoterFile
from tests.unit.consensus.raft_cluster import MemoryDisk, SlowWorker, VirtualTime, Wires

VOTERS = (NodeId(1), NodeId(2), NodeId(3))
VICTIM = NodeId(2)
JOURNAL = JournalSettings(
    max_entry_bytes=4096, segment_bytes=12 * 1024, tail_bytes=4096, tail_entries=16, read_bytes=4096
)
LOG = EventLogSettings(tail_bytes=2048, tail_batches=8)
STORE = StoreSettings(write_buffer_bytes=64 * 1024, write_buffers_total_bytes=256 * 1024)
SCRUB = ScrubSettings(slice_bytes=4096)
WRITES = 160


def limits(retain: int) -> CoreSettings:
    """Small ones; ``retain``: entries that a trimmed journal keeps."""
    snapshots = SnapshotSettings(check_period_s=0.1, retain_entries=retain, trim_slack_entries=10, chunk_bytes=4096)
    return CoreSettings(
        engine=EngineSettings(snapshots=snapshots),
        controller=ControllerSettings(),
        requests=RequestSettings(remembered_max=50),
        history=HistorySettings(checkpoint_events=40),
    )


Memory = tuple[MemoryDisk, MemoryStore, bytes]
"""Journal, store and voter file of a member in memory."""


class _Network:
    def __init__(self, wires: Wires, node_id: NodeId) -> None:
        self._wires, self._me = wires, node_id

    def send(self, peer: NodeId, frame: bytes) -> None:
        """Try to deliver; silently dropped without a connection. Leaves with the others of the turn, at its end."""
        self._wires.send(self._me, peer, frame)

    def connected(self, peer: NodeId) -> bool:
        """Is there an open, authenticated connection *to* this peer?"""
        node = self._wires.nodes.get(peer)
        return node is not None and node.up


class Member:
    """One node over several lives."""

    def __init__(self, cluster: "Cluster", node_id: NodeId) -> None:
        self.cluster, self.id = cluster, node_id
        self.up = False
        self.failed: list[BaseException] = []
        self.mended = ""
        """Why the store was put aside at the latest start."""
        self.rejoined = ""
        """Why it might not vote at the latest start."""
        self.engine = SimpleNamespace(receive=self._receive)
        self.disk: Disk
        self.store: Store
        self.file: VoterFile
        self.core: Core
        self.directory: Directory
        self.journal: Journal

    def _receive(self, peer: NodeId, frame: bytes) -> None:
        try:
            self.core.on_frame(peer, frame)
        except PeerError as error:
            self.cluster.peer_errors.append(f"n{self.id} of n{peer}: {error}")

    def open_ports(self) -> None:
        """Disk, store and voter file."""

    def start(self) -> None:
        """A life. Raises what a start raises."""
        self.failed.clear()
        self.mended = open_mending(self._attempt, self.close_ports, self._give_up)
        self._alive()

    def _attempt(self) -> None:
        cluster = self.cluster
        cluster.lives += 1
        chance = Random(cluster.lives)
        self.worker, self.store_worker, self.reader = (SlowWorker(cluster.time) for _ in range(3))
        self.open_ports()
        self.directory, self.journal = open_directory(
            Disks(voter_file=self.file, store=self.store, disk=self.disk, worker=self.worker, reader=self.reader),
            cluster_id="sim",
            node_id=self.id,
            alone=False,
            journal=JOURNAL,
            clock=cluster.time,
            fresh=lambda: str(UUID(int=chance.getrandbits(128), version=4)),
        )
        self.directory.begin(str(UUID(int=chance.getrandbits(128), version=4)))
        self.rejoined = self.directory.may_not_vote
        self.opened = (self.journal.term, self.journal.voted_for, int(self.journal.last_index))
        self.core = Core(
            self.id,
            VOTERS,
            CorePorts(
                journal=self.journal,
                directory=self.directory,
                store=self.store,
                log=EventLog(self.store, LOG),
                network=_Network(cluster.wires, self.id),
                brokers=NoBrokers(),
                scheduler=cluster.time,
                rng=Random(cluster.lives),
                metrics=Metrics(),
                on_fatal=self.fail,
                worker=self.worker,
                store_worker=self.store_worker,
                reader=self.reader,
            ),
            cluster.settings,
            founding(VOTERS),
        )

    def _alive(self) -> None:
        self.up = True
        self.core.start(
            RecordNodeStart(
                node_id=self.id,
                dir_uuid=self.directory.incarnation,
                version="faults",
                addresses=addresses(self.id),
                feature_min=1,
                feature_max=1,
            )
        )
        for other in self.cluster.members.values():
            if other is not self and other.up:
                self.core.on_connected(other.id)
                other.core.on_connected(self.id)

    def _give_up(self, damage: StoreDamagedError) -> None:
        give_up_store(self.file, self.disk, damage, cluster_id="sim", node_id=self.id, alone=False)

    def fail(self, error: BaseException) -> None:
        """As ``node.running.Node.fail`` does."""
        if not self.failed:
            self.failed.append(error)
            if isinstance(error, StoreDamagedError):
                self._give_up(error)

    def stop(self) -> None:
        """The process ends; what it wrote is in the files."""
        if self.up:
            self.up = False
            self.core.stop()
            self.worker.dead = self.store_worker.dead = self.reader.dead = True
            for other in self.cluster.members.values():
                if other.up:
                    other.core.on_disconnected(self.id)
        self.close_ports()

    def close_ports(self) -> None:
        """Let go of the files."""

    @property
    def settled(self) -> bool:
        """Everything is here, and it may vote."""
        engine = self.core.engine
        return engine.voting and not engine.installing and self.core.log.end_offset == self.core.machine.offset


class Kept(Member):
    """A member in memory."""

    def __init__(self, cluster: "Cluster", node_id: NodeId, image: Memory | None) -> None:
        super().__init__(cluster, node_id)
        disk, store, voter = deepcopy(image) if image else (MemoryDisk(), MemoryStore(), None)
        self.disk, self.store, self.file = disk, store, MemoryVoterFile(voter)


class Victim(Member):
    """The member on files."""

    def __init__(self, cluster: "Cluster", node_id: NodeId, folder: Path) -> None:
        super().__init__(cluster, node_id)
        self.folder = folder
        self.rocks: RocksStore | None = None
        self.files: FileDisk | None = None

    def open_ports(self) -> None:
        """As a node does."""
        self.files = self.disk = FileDisk(str(self.folder / "journal"))
        self.file = FileVoterFile(str(self.folder))
        self.rocks = self.store = open_store(
            StoreFolder(str(self.folder), STORE), self.file, self.disk, cluster_id="sim", node_id=self.id, alone=False
        )

    def _alive(self) -> None:
        assert self.rocks is not None
        self.rocks.on_damage = self.fail
        super()._alive()

    def close_ports(self) -> None:
        """Store and journal."""
        rocks, self.rocks = self.rocks, None
        if rocks is not None:
            try:
                rocks.close()
            except StorageError as error:
                self.fail(error)
        if self.files is not None:
            self.files.close()
            self.files = None

    def _give_up(self, damage: StoreDamagedError) -> None:
        disk = FileDisk(str(self.folder / "journal"))
        try:
            give_up_store(FileVoterFile(str(self.folder)), disk, damage, cluster_id="sim", node_id=self.id, alone=False)
        finally:
            disk.close()

    def scrub(self) -> Iterator[int]:
        """One pass over everything that lies there."""
        assert self.files is not None
        assert self.rocks is not None
        log, journal = self.core.log, self.journal
        return Scrub(self.rocks, log, journal, self.files, self.worker, self.cluster.time, SCRUB).slices()


class Cluster:
    """Three members; nobody runs yet."""

    def __init__(
        self, folder: Path, retain: int, images: "dict[NodeId, tuple[MemoryDisk, MemoryStore, bytes]] | None" = None
    ) -> None:
        self.time = VirtualTime()
        self.time.now = 1_700_010_000.0 if images else 1_700_000_000.0
        self.wires = Wires(self.time)
        self.settings = limits(retain)
        self.lives = 1000 if images else 0
        self.peer_errors: list[str] = []
        self.victim = Victim(self, VICTIM, folder)
        self.members: dict[NodeId, Member] = {VICTIM: self.victim}
        for node in VOTERS:
            if node != VICTIM:
                self.members[node] = Kept(self, node, images[node] if images else None)
        self.wires.nodes = self.members  # type: ignore[assignment]

    def run_until(self, condition: Callable[[], object], limit_s: float = 30.0) -> bool:
        """Did it come to be, within so many virtual seconds?"""
        end = self.time.now + limit_s
        while not condition():
            if self.time.now >= end:
                return False
            self.time.run(0.02)
        return True

    @property
    def leader(self) -> Member | None:
        """Who may decide."""
        leaders = [member for member in self.members.values() if member.up and member.core.engine.decidable_term()]
        return max(leaders, key=lambda member: member.core.engine.term, default=None)

    def equal(self) -> bool:
        """Everybody applied the same, and is ready."""
        members = [member for member in self.members.values() if member.up]
        ends = {(int(m.core.engine.applied_index), int(m.journal.last_index), m.core.machine.offset) for m in members}
        return len(ends) == 1 and all(member.settled for member in members) and self.leader is not None

    def write(self, number: int) -> None:
        """Commit one command."""
        self.run_until(lambda: self.leader)
        leader = self.leader
        assert leader is not None
        command = ChangeConfig(scope=f"topic/t{number % 30}", changes={"value": f"{number} " + "x" * 40})
        caller, request = Caller("faults", "x"), f"{self.time.time_ms()}-r{number}"
        done: list[object] = []
        leader.core.controller.submit(command, caller, done.append, cause="test", request_id=request)
        leader.core.groups.put(b"g\0t%d" % (number % 7), b"%d" % number, lambda _: None)
        assert self.run_until(lambda: done), "a write is not answered"
        assert isinstance(done[0], Answered), done


class Image(msgspec.Struct, frozen=True):
    """A stopped cluster: the victim's directory, the others' memory."""

    folder: Path
    retain: int
    others: dict[NodeId, Memory]
    opened: tuple[int, int | None, int]
    """Term, vote and last index of the victim's journal."""
    applied: int

    def again(self, work: Path) -> Cluster:
        """The cluster, its victim in ``work``; nobody runs."""
        if work.exists():
            shutil.rmtree(work)
        shutil.copytree(self.folder, work)
        found = FileVoterFile(str(work)).read()
        assert found is not None
        FileVoterFile(str(work)).replace(found.data)  # It is no copy.
        return Cluster(work, self.retain, self.others)


def prepare(folder: Path, *, retain: int, killed: bool) -> Image:
    """Run a cluster for a while and stop it: the victim ``killed``, so that its store's log holds the last writes, or
    closed.
    """
    cluster = Cluster(folder / "live", retain)
    for member in cluster.members.values():
        member.start()
    for number in range(WRITES):
        cluster.write(number)
        if number in {40, 80, 120}:
            rocks = cluster.victim.rocks
            assert rocks is not None
            for family in ("rows", "events", "groups") if number == 80 else rocks._families:
                rocks._families[family].flush()
    assert cluster.run_until(cluster.equal), "the cluster does not settle"
    cluster.time.run(0.5)
    victim = cluster.victim
    applied = int(victim.core.engine.applied_index)
    opened = (victim.journal.term, victim.journal.voted_for, int(victim.journal.last_index))
    image = folder / "image"
    if killed:
        victim.store.sync()
        shutil.copytree(folder / "live", image)
    for member in cluster.members.values():
        member.stop()
    if not killed:
        shutil.copytree(folder / "live", image)
    others = {}
    for node, member in cluster.members.items():
        if isinstance(member, Kept):
            assert isinstance(member.disk, MemoryDisk)
            assert isinstance(member.store, MemoryStore)
            assert isinstance(member.file, MemoryVoterFile)
            others[node] = (member.disk, member.store, member.file.data or b"")
    return Image(image, retain, others, opened, applied)


def difference(cluster: Cluster) -> str:
    """In what the victim's disk differs from another's; empty: in nothing."""
    victim = cluster.victim
    other = next(member for member in cluster.members.values() if member is not victim and member.up)
    if victim.core.machine.sums.packed() != other.core.machine.sums.packed():
        return "the sums of the state differ"
    families: tuple[Family, ...] = ("rows", "requests", "groups", "events")
    for family in families:
        ours, theirs = dict(victim.store.scan(family)), dict(other.store.scan(family))
        if ours != theirs:
            return f"{family} differ: {len(ours)} and {len(theirs)}"
    if victim.core.log.term_starts != other.core.log.term_starts:
        return "the beginnings of terms differ"
    for index in range(max(victim.journal.base_index, other.journal.base_index) + 1, victim.journal.last_index + 1):
        if (victim.journal.entry(index), victim.journal.term_at(index)) != (
            other.journal.entry(index),
            other.journal.term_at(index),
        ):
            return f"entry {index} differs"
    return _past(victim, other)


def _past(victim: Member, other: Member) -> str:
    wanted = set(victim.core.checkpoints.offsets)
    state, offset = EMPTY, 0
    for *_, batch in other.core.log.batches_from(0):
        for stamp, event in decode_events(batch):
            state = evolve(state, event, stamp)
            offset = stamp.offset + 1
            if offset in wanted and dict(victim.core.checkpoints.rows(offset)) != dict(rows(state)):
                return f"the checkpoint at offset {offset} is not the state there"
    return ""
