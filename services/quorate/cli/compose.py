"""The deciding half of a node, put together from its ports: what the real node and the simulator have in common.

Rules: no socket, no thread, no file is opened here; whoever calls brings them as ports. Nothing starts by itself.
"""

import gc
import random
from collections.abc import Callable
from zlib import crc32

import msgspec

from quorate.clock import Clock, Scheduler
from quorate.consensus import codec
from quorate.consensus.directory import Directory, Voter, VoterFile, decode_voter
from quorate.consensus.event_log import EventLog
from quorate.consensus.founding import directory_bytes
from quorate.consensus.journal import Journal, JournalDamagedError, erase_journal
from quorate.consensus.journal_frames import Owner, segment_id
from quorate.consensus.journal_recovery import recover
from quorate.consensus.ports import Disk, DiskWorker, Network, NodeId, RaftEngine, Store, StorePlace, StoreT_co
from quorate.consensus.pysyncobj_engine import PySyncObjEngine
from quorate.consensus.rejoin import LONE_JOURNAL_LOST, LONE_STORE_LOST
from quorate.consensus.settings import EngineSettings
from quorate.consensus.storage_settings import JournalSettings
from quorate.consensus.store import Identity, StoreDamagedError, claim_identity, read_applied, read_identity
from quorate.controller import (
    Agreeing,
    BrokerLink,
    Comparison,
    Controller,
    ControllerSettings,
    GroupWriter,
    Journalist,
    Liveness,
    ReplicatedState,
    Reread,
    RoleChanges,
    StateIsWrongError,
)
from quorate.errors import PeerError, StorageError, UsageError
from quorate.history.checkpoints import Checkpoints
from quorate.history.refold import Refold
from quorate.history.settings import HistorySettings
from quorate.metadata.commands import CreateCluster, RecordNodeStart
from quorate.metadata.policy import PolicySettings
from quorate.metadata.requests import RequestSettings
from quorate.metrics import Metrics


class CoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the core needs to be told."""

    engine: EngineSettings = EngineSettings()
    controller: ControllerSettings = ControllerSettings()
    policy: PolicySettings = PolicySettings()
    requests: RequestSettings = RequestSettings()
    history: HistorySettings = HistorySettings()


class Disks(msgspec.Struct, frozen=True, kw_only=True):
    """What one data directory consists of, as ports."""

    voter_file: VoterFile
    store: Store
    disk: Disk
    worker: DiskWorker


def open_store(place: StorePlace[StoreT_co], voter_file: VoterFile, disk: Disk, *, alone: bool) -> StoreT_co:
    """The store of this data directory: as it was, or an empty one in the place of one found damaged (``give_up_store``
    said so): it is filled from the journal or by the leader. Only at start. Raises StoreDamagedError, StorageError,
    UsageError.
    """
    voter = _read_voter(voter_file)
    if voter is not None and voter.rebuild_store:
        _check_can_rebuild(disk, voter.rebuild_store, alone=alone)
        place.set_aside(f"{crc32(voter.rebuild_store.encode()):08x}")
        return place.open(must_exist=False)
    began = voter is not None and voter.begun
    return place.open(must_exist=began or any(segment_id(name) is not None for name in disk.names()))


def give_up_store(
    voter_file: VoterFile, disk: Disk, error: StoreDamagedError | StateIsWrongError, *, alone: bool
) -> None:
    """The store is damaged, or holds another state than the log says: make it durable that the next start puts an empty
    one in its place. Nothing is done, and StorageError or UsageError says what an operator must do, where that would
    lose what nobody else has.
    """
    voter = _read_voter(voter_file)
    if voter is None:
        raise StorageError(
            f"{error}: but voter.json, which says whose journal this is, is missing or damaged too: restore the data "
            "directory, or remove it and have the node rebuilt (quorate member rebuild)"
        )
    _check_can_rebuild(disk, str(error), alone=alone)
    Directory(voter_file, voter).want_store(str(error))


def open_mending(
    attempt: Callable[[], None], undo: Callable[[], None], give_up: Callable[[StoreDamagedError], None]
) -> str:
    """Open what is on disk. Where the store turns out to be damaged: ``undo``, ``give_up``, and once more. Why it was
    given up; empty when it was not.
    """
    try:
        attempt()
    except StoreDamagedError as error:
        damage = StoreDamagedError(*error.args)  # Without the frames, which hold the store open.
    else:
        return ""
    undo()
    gc.collect()
    give_up(damage)
    attempt()
    return str(damage)


def _read_voter(voter_file: VoterFile) -> Voter | None:
    found = voter_file.read()
    return None if found is None else decode_voter(found.data)


def _check_can_rebuild(disk: Disk, reason: str, *, alone: bool) -> None:
    """Other voters have the state; a lone node has it only in a journal that begins with the first entry."""
    if alone:
        image, _ = recover(disk)
        if image is not None and image.index.base.index > 1:
            raise UsageError(f"{LONE_STORE_LOST} ({reason})")


def open_directory(
    disks: Disks,
    *,
    cluster_id: str,
    node_id: NodeId,
    alone: bool,
    journal: JournalSettings,
    clock: Clock,
    fresh: Callable[[], str],
) -> tuple[Directory, Journal]:
    """Who this directory is, and its journal; another *life* has begun when this returns. Only at start.

    ``fresh`` makes ids. A journal that was lost or damaged, or that holds less than the store knows was durable, is
    replaced by an empty one, once it is durable that this node may not vote; ``alone``, without another voter to ask,
    that is refused. Raises UsageError, StorageError.
    """
    applied = read_applied(disks.store)
    known_seq = 0 if applied is None else applied.durable_seq

    def open_journal(*, must_exist: bool) -> Journal:
        return Journal.open(
            disks.disk, disks.worker, journal, clock, must_exist=must_exist, owner=owner, known_seq=known_seq
        )

    known = read_identity(disks.store)
    directory = Directory.open(disks.voter_file, cluster_id=cluster_id, node_id=node_id, store=known, fresh=fresh())
    owner = Owner(node_id, directory_bytes(directory.incarnation))
    try:
        # The first life is written after the journal was made: who has lived must find a journal.
        opened = open_journal(must_exist=directory.voter.begun)
    except JournalDamagedError as error:
        if alone:
            raise UsageError(f"{LONE_JOURNAL_LOST} ({error})") from error  # What is left is the operator's to save.
        directory.forbid_vote(str(error))
        erase_journal(disks.disk)
        opened = open_journal(must_exist=False)
    directory.begin(fresh())
    claim_identity(disks.store, Identity(cluster_id=cluster_id, node_id=node_id, dir_uuid=directory.incarnation))
    if directory.rebuild_store:
        directory.save(rebuild_store="")  # From here on the journal's beginning tells that the state is missing.
    return directory, opened


class PeerMessages:
    """The controller's side of the peer links (controller.ports.PeerLink) over consensus' network."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def send(self, peer: int, kind: int, payload: bytes) -> bool:
        """See PeerLink."""
        if not self._network.connected(NodeId(peer)):
            return False
        self._network.send(NodeId(peer), codec.app_frame(kind, payload))
        return True


class Core:
    """Engine, state machine, controller and its reconcilers of one node."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        voters: tuple[NodeId, ...],
        journal: Journal,
        store: Store,
        log: EventLog,
        network: Network,
        brokers: BrokerLink,
        scheduler: Scheduler,
        rng: random.Random,
        settings: CoreSettings,
        founding: CreateCluster,
        metrics: Metrics,
        on_fatal: Callable[[Exception], None],
        worker: DiskWorker,
        store_worker: DiskWorker,
        directory: Directory,
        journalist: Journalist | None = None,
    ) -> None:
        self.node_id = node_id
        self.directory = directory
        self.journal = journal
        self.store, self.log = store, log
        self.metrics = metrics
        peers = PeerMessages(network)
        self.machine = ReplicatedState(store, log, metrics, settings.requests, lambda: journal.durable_seq)
        self.checkpoints = Checkpoints(store, self.machine, scheduler, settings.history, on_fatal)
        self.controller = Controller(
            node_id,
            self.machine,
            scheduler,
            peers,
            settings.controller,
            settings.policy,
            founding,
            metrics,
            journalist,
        )
        self.engine: RaftEngine = PySyncObjEngine(
            node_id,
            voters,
            journal,
            self.machine,
            network,
            scheduler,
            rng,
            settings.engine,
            store=store,
            event_log=log,
            worker=worker,
            store_worker=store_worker,
            directory=directory,
            facts=self.machine,
            on_fatal=on_fatal,
        )
        self._voters = set(voters)
        self._judged = self._judge_voters()
        self._watch_directories()
        self.groups = GroupWriter(self.controller, self.machine, scheduler, settings.controller)
        self.liveness = Liveness(self.controller, scheduler, brokers, peers, settings.controller)
        self.agreeing = Agreeing(self.controller, settings.requests)
        self.role_changes = RoleChanges(self.controller, scheduler, brokers, settings.controller)
        refold = Refold(self.checkpoints, log, settings.controller.replay_events_max)
        reread = Reread(self.machine, journal, settings.controller.replay_events_max)
        self.comparison = Comparison(
            self.machine, store, scheduler, peers, settings.controller, metrics, refold, reread, on_fatal
        )
        self.controller.on_sums.append(self.comparison.receive)

    def start(self, node_start: RecordNodeStart | None = None) -> None:
        """Begin taking part."""
        self.controller.start(self.engine, node_start)
        self.liveness.start()
        self.comparison.start(self.engine)
        self.engine.start()

    def stop(self) -> None:
        """Take part no longer; nothing is called back afterwards but deadlines."""
        self.checkpoints.stop()
        self.liveness.stop()
        self.comparison.stop()
        self.controller.stop()
        self.engine.stop()

    def _judge_voters(self) -> bool:
        """Are they those of the cluster? False: there is none yet. Voters are fixed when a cluster is created: a node
        that counts others could be a majority by itself, and write another history of the same cluster. Raises
        UsageError.
        """
        cluster = self.machine.state.cluster
        if cluster is None:
            return False
        fixed = {voter.id for voter in cluster.voters}
        if fixed != self._voters:
            named, created = (", ".join(map(str, sorted(ids))) for ids in (self._voters, fixed))
            raise UsageError(
                f"cluster.voters names {named}; this cluster was created with {created}, and its voters are fixed"
            )
        return True

    def _watch_directories(self) -> None:
        self._nodes_seen = self.machine.state.nodes
        self._turned_away: set[NodeId] = set()
        self.on_directories: Callable[[], None] = lambda: None
        """Called when the log may name other directories of voters than before."""
        self.machine.on_applied.append(self._applied)

    @property
    def waits_for(self) -> str:
        """Why this node cannot take part, and what would help; empty when it can."""
        if self._turned_away:
            me = self.directory.incarnation
            by = ", ".join(str(peer) for peer in sorted(self._turned_away))
            return (
                f"node {by} knows another directory as node {self.node_id} than this one ({me}): bring that one back; "
                f"if it is lost for good, run: quorate member rebuild {self.node_id} --directory {me}"
            )
        return self.engine.waits_for

    def _applied(self, _: int) -> None:
        """A node that founds or joins a cluster learns its voters with the first events."""
        if not self._judged:
            self._judged = self._judge_voters()
        nodes = self.machine.state.nodes
        if nodes is not self._nodes_seen:
            self._nodes_seen = nodes
            self.on_directories()

    # -- callbacks of the peer links

    def on_frame(self, peer: NodeId, frame: bytes) -> None:
        """A frame of an authenticated peer. Raises PeerError."""
        try:
            if codec.is_app_frame(frame):
                self.controller.receive(peer, frame[1:])
            else:
                self.engine.receive(peer, frame)
        except PeerError:
            self.metrics.peer_errors["raft"] += 1
            raise

    def on_turned_away(self, peer: NodeId, reason: str) -> None:
        """A peer will have no link with us."""
        if reason == "directory":
            self._turned_away.add(peer)

    def on_connected(self, peer: NodeId) -> None:
        """A link is up."""
        self.controller.peer_connected(peer)
        self._turned_away.discard(peer)
        self.engine.peer_connected(peer)

    def on_disconnected(self, peer: NodeId) -> None:
        """A link is down."""
        self.engine.peer_disconnected(peer)
        self.controller.peer_disconnected(peer)
        self.comparison.disconnected(peer)
