"""The deciding half of a node, put together from its ports: what the real node and the simulator have in common.

Rules: no socket, no thread, no file is opened here; whoever calls brings them as ports. Nothing starts by itself.
"""

import gc
import random
from collections.abc import Callable
from zlib import crc32

import msgspec

from quorate.clock import Clock, Scheduler
from quorate.consensus.journal.frames import Owner, segment_id
from quorate.consensus.journal.journal import Journal, JournalDamagedError, erase_journal
from quorate.consensus.journal.recovery import check_owner, recover
from quorate.consensus.ports import Disk, DiskWorker, Network, NodeId, RaftEngine, Store, StorePlace, StoreT_co
from quorate.consensus.raft.common import EnginePorts
from quorate.consensus.raft.founding import directory_bytes
from quorate.consensus.raft.lives import Lives
from quorate.consensus.raft.pysyncobj_engine import PySyncObjEngine
from quorate.consensus.raft.rejoin import LONE_JOURNAL_LOST, LONE_STORE_LOST
from quorate.consensus.settings import EngineSettings
from quorate.consensus.storage.directory import Directory, Voter, VoterFile, check_voter, decode_voter
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage.store import Identity, StoreDamagedError, claim_identity, read_applied, read_identity
from quorate.consensus.storage_settings import JournalSettings
from quorate.consensus.transport import codec
from quorate.consensus.transport.hello import PeerHandlers
from quorate.controller import (
    Balancer,
    BrokerLink,
    CommandLog,
    Comparison,
    Controller,
    ControllerPorts,
    ControllerSettings,
    Flights,
    GroupWriter,
    KeyHistory,
    Listeners,
    Liveness,
    ReplicatedState,
    Reread,
    RoleChanges,
    SettingsAgreement,
    StateIsWrongError,
    WhenApplied,
)
from quorate.errors import PeerError, StorageError, UsageError
from quorate.history.checkpoints import Checkpoints
from quorate.history.refold import Refold
from quorate.history.settings import HistorySettings
from quorate.metadata.balance_settings import BalanceSettings
from quorate.metadata.commands import CreateCluster, RecordNodeStart
from quorate.metadata.limits import GROUP_EXPIRY_S, UNSAID, own_limits
from quorate.metadata.policy import PolicySettings
from quorate.metadata.requests import RequestSettings
from quorate.metrics import Metrics


class CoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Values that the core is told."""

    engine: EngineSettings = EngineSettings()
    controller: ControllerSettings = ControllerSettings()
    policy: PolicySettings = PolicySettings()
    requests: RequestSettings = RequestSettings()
    history: HistorySettings = HistorySettings()
    balance: BalanceSettings = BalanceSettings()
    group_expiry_s: float = UNSAID[GROUP_EXPIRY_S]
    """The one setting of the Kafka endpoint that decides what is kept (metadata/limits.py)."""


class Disks(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one data directory, as ports."""

    voter_file: VoterFile
    store: Store
    disk: Disk
    worker: DiskWorker
    reader: DiskWorker
    """Of the journal's entries that left memory: what ``worker`` syncs must not wait behind a read."""


def open_store(
    place: StorePlace[StoreT_co], voter_file: VoterFile, disk: Disk, *, cluster_id: str, node_id: NodeId, alone: bool
) -> StoreT_co:
    """The store of this data directory: as it was, or an empty one in the place of one found damaged (``give_up_store``
    said so): it is filled from the journal or by the leader. Nothing is done beside another's voter file or journal.
    Only at start. Raises StoreDamagedError, StorageError, UsageError.
    """
    voter = _own_voter(voter_file, disk, cluster_id, node_id)
    if voter is not None and voter.rebuild_store:
        _check_can_rebuild(disk, voter.rebuild_store, alone=alone)
        place.set_aside(f"{crc32(voter.rebuild_store.encode()):08x}")
        return place.open(must_exist=False)
    began = voter is not None and voter.begun
    return place.open(must_exist=began or any(segment_id(name) is not None for name in disk.names()))


def give_up_store(
    voter_file: VoterFile,
    disk: Disk,
    error: StoreDamagedError | StateIsWrongError,
    *,
    cluster_id: str,
    node_id: NodeId,
    alone: bool,
    directory: Directory | None = None,
) -> None:
    """The store is damaged, or holds another state than the log says: make it durable that the next start puts an empty
    one in its place. Nothing is done, and StorageError or UsageError says what an operator must do, where that would
    lose what nobody else has, or where voter file or journal are another's, whose store is sound. ``directory``: of a
    node that ran, which may have changes under way to the file.
    """
    voter = _own_voter(voter_file, disk, cluster_id, node_id)
    if voter is None:
        raise StorageError(
            f"{error}: but voter.json, which says whose journal this is, is missing or damaged too: restore the data "
            "directory, or remove it and have the node rebuilt (quorate member rebuild)"
        )
    _check_can_rebuild(disk, str(error), alone=alone)
    (directory or Directory(voter_file, voter)).want_store(str(error))


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


def _own_voter(voter_file: VoterFile, disk: Disk, cluster_id: str, node_id: NodeId) -> Voter | None:
    """What the voter file says; None if there is none, or it is damaged. Raises UsageError if it or the journal is
    another's.
    """
    content = voter_file.read()
    voter = None if content is None else decode_voter(content.data)
    if voter is not None:
        check_voter(voter, cluster_id, node_id)
        check_owner(disk, Owner(node_id, directory_bytes(voter.incarnation)))
    return voter


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
    """Open the directory's voter file and its journal. Only at start; a *life* begins later (Directory.begin), before
    anything is said to a peer.

    ``fresh`` makes ids. A journal that was lost or damaged, or that holds less than the store knows was durable, is
    replaced by an empty one, once it is durable that this node may not vote; ``alone``, without another voter to ask,
    that is refused. Raises UsageError, StorageError.
    """
    applied = read_applied(disks.store)
    known_seq = 0 if applied is None else applied.durable_seq

    def open_journal(*, must_exist: bool) -> Journal:
        return Journal.open(
            disks.disk,
            disks.worker,
            journal,
            clock,
            must_exist=must_exist,
            owner=owner,
            known_seq=known_seq,
            reader=disks.reader,
        )

    identity = read_identity(disks.store)
    directory = Directory.open(
        disks.voter_file,
        cluster_id=cluster_id,
        node_id=node_id,
        store=identity,
        fresh=fresh(),
        check=lambda incarnation: check_owner(disks.disk, Owner(node_id, directory_bytes(incarnation))),
    )
    owner = Owner(node_id, directory_bytes(directory.incarnation))
    try:
        # That it has begun is written after the journal was made: who has lived must find a journal.
        opened = open_journal(must_exist=directory.voter.begun)
    except JournalDamagedError as error:
        if alone:
            raise UsageError(f"{LONE_JOURNAL_LOST} ({error})") from error  # The operator must save the rest.
        directory.forbid_vote(str(error))
        erase_journal(disks.disk)
        opened = open_journal(must_exist=False)
    if not directory.voter.begun:
        directory.save(begun=True)
    claim_identity(disks.store, Identity(cluster_id=cluster_id, node_id=node_id, dir_uuid=directory.incarnation))
    if directory.rebuild_store:
        directory.save(rebuild_store="")  # From here on the journal's beginning tells that the state is missing.
    return directory, opened


def is_of_a_leader(frame: bytes) -> bool:
    """May it come from a voter whose directory our log does not name? What a leader tells may: a majority that knows
    that directory has elected it. Raises PeerError.
    """
    if codec.is_app_frame(frame):
        return False
    return isinstance(codec.decode(frame), codec.AppendEntries | codec.SnapshotBegin | codec.SnapshotChunk)


def peer_handlers(directory: Directory, worker: DiskWorker, core: Callable[[], "Core"]) -> PeerHandlers:
    """Callbacks of the links to the other voters; they ask for ``core`` once it is there."""
    lives = Lives(directory, worker, lambda reason, done: core().forget(reason, done))

    def meet(peer: NodeId, incarnation: bytes, life: bytes, previous_life: bytes, done: Callable[[], None]) -> bool:
        met = lives.meet(peer, incarnation, life, previous_life, done)
        core().on_met(peer)
        return met

    return PeerHandlers(
        frame=lambda peer, frame: core().on_frame(peer, frame),
        connected=lambda peer: core().on_connected(peer),
        disconnected=lambda peer: core().on_disconnected(peer),
        turned_away=lambda peer, reason: core().on_turned_away(peer, reason),
        directory_of=lambda peer: core().directory_of(peer),
        life=lambda: lives.life,
        met=lives.met,
        judge=lives.judge,
        meet=meet,
    )


class PeerMessages:
    """The controller's side of the peer links (controller.ports.PeerLink) over consensus' network."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def send(self, peer: int, kind: int, payload: bytes) -> bool:
        """Hand over to the link; False = there is no connection, provably nothing was sent."""
        if not self._network.connected(NodeId(peer)):
            return False
        self._network.send(NodeId(peer), codec.app_frame(kind, payload))
        return True


class CorePorts(msgspec.Struct, frozen=True, kw_only=True):
    """Ports through which a core reaches the world: real ones in a node, simulated ones in the simulator."""

    journal: Journal
    store: Store
    log: EventLog
    directory: Directory
    worker: DiskWorker
    store_worker: DiskWorker
    reader: DiskWorker
    network: Network
    brokers: BrokerLink
    scheduler: Scheduler
    rng: random.Random
    metrics: Metrics
    on_fatal: Callable[[Exception], None]
    command_log: CommandLog | None = None


class Core:
    """State machine, engine, controller and its reconcilers of one node; each is whole before the next."""

    def __init__(
        self,
        node_id: NodeId,
        voters: tuple[NodeId, ...],
        ports: CorePorts,
        settings: CoreSettings,
        founding: CreateCluster,
    ) -> None:
        self.node_id = node_id
        self.directory, self.journal = ports.directory, ports.journal
        self.store, self.log = ports.store, ports.log
        self._worker = ports.worker
        self.metrics = ports.metrics
        flights, self.listeners = Flights(), Listeners()
        self.machine = ReplicatedState(
            ports.store,
            ports.log,
            ports.metrics,
            settings.requests,
            lambda: ports.journal.durable_seq,
            flights,
            self.listeners,
            KeyHistory(settings.controller.key_history_max, settings.controller.key_history_bytes_max),
        )
        self.engine = self._made_engine(voters, ports, settings.engine)
        peers = PeerMessages(ports.network)
        self.controller = Controller(
            node_id,
            ControllerPorts(
                engine=self.engine,
                machine=self.machine,
                flights=flights,
                listeners=self.listeners,
                scheduler=ports.scheduler,
                peers=peers,
                metrics=ports.metrics,
                command_log=ports.command_log,
            ),
            settings.controller,
            settings.policy,
            founding,
        )
        self._add_reconcilers(ports, settings, peers)
        self._voters = set(voters)
        self._others = tuple(voter for voter in voters if voter != node_id)
        self._judged = self._judge_voters()
        self._nodes_seen = self.machine.state.nodes
        self._turned_away: set[NodeId] = set()
        self._unnamed: set[NodeId] = set()
        """Peers on another directory than the one of that voter; see ``directory_of``."""

    def _made_engine(self, voters: tuple[NodeId, ...], ports: CorePorts, settings: EngineSettings) -> RaftEngine:
        engine_ports = EnginePorts(
            journal=ports.journal,
            machine=self.machine,
            facts=self.machine,
            store=ports.store,
            event_log=ports.log,
            directory=ports.directory,
            network=ports.network,
            worker=ports.worker,
            store_worker=ports.store_worker,
            reader=ports.reader,
            scheduler=ports.scheduler,
            rng=ports.rng,
            on_fatal=ports.on_fatal,
        )
        return PySyncObjEngine(self.node_id, voters, engine_ports, settings)

    def _add_reconcilers(self, ports: CorePorts, settings: CoreSettings, peers: PeerMessages) -> None:
        """Build the leader's periodic work, and the checks of every node."""
        controller, machine, scheduler = self.controller, self.machine, ports.scheduler
        own = settings.controller
        self.checkpoints = Checkpoints(ports.store, machine, scheduler, settings.history, ports.on_fatal)
        self.groups = GroupWriter(controller, machine, scheduler, own)
        self.liveness = Liveness(controller, scheduler, ports.brokers, peers, own)
        self.agreement = SettingsAgreement(
            controller,
            own_limits(
                settings.requests,
                own.group_rows_max,
                settings.group_expiry_s,
                unclean_segment_leaders=settings.policy.journal_unclean_leaders,
            ),
        )
        self.role_changes = RoleChanges(controller, scheduler, ports.brokers, own)
        balancer = Balancer(controller, scheduler, settings.balance)
        self.comparison = Comparison(
            self.engine,
            machine,
            ports.store,
            scheduler,
            peers,
            own,
            ports.metrics,
            Refold(self.checkpoints, ports.log, own.replay_events_max),
            Reread(machine, ports.journal, own.replay_events_max),
            ports.on_fatal,
        )
        # In this order they hear of what happens, after the controller's own decider and terms.
        self.listeners.add(
            self.checkpoints,
            WhenApplied(self._applied),
            self.groups,
            self.liveness,
            self.agreement,
            self.role_changes,
            balancer,
            self.comparison,
        )

    def start(self, node_start: RecordNodeStart | None = None) -> None:
        """Begin taking part."""
        self._keep_names()
        self.controller.start(node_start)
        self.liveness.start()
        self.comparison.start()
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
            self._keep_names()
            self._judge_met()
            self.listeners.directories_named()

    def _keep_names(self) -> None:
        """Make durable which directories the log names, before one that is new is heard: see ``Directory``."""
        names = {peer: self._name_of(peer) for peer in self._others}
        if any(names[peer] != self.directory.named(peer) for peer in self._others):
            self.directory.name({peer: name for peer, name in names.items() if name}, self._worker, self._judge_met)

    def _judge_met(self) -> None:
        for peer in self._others:
            self.on_met(peer)

    # -- callbacks of the peer links

    def forget(self, reason: str, done: Callable[[], None]) -> None:
        """This directory has not lived all that its peers have met of it."""
        self.engine.forget(reason, done)

    def directory_of(self, peer: NodeId) -> bytes | None:
        """The data directory that a voter must have; another one under its id has forgotten its votes.

        None: any. So it is for a node whose own word counts for nothing: it counts nobody's either, and a voter that
        leads after it was rebuilt may be the only one who can tell this node's log of that. Such a peer is heard as a
        leader and in nothing else (``on_frame``).
        """
        name = self._name_of(peer) if self.engine.voting else ""
        return directory_bytes(name) if name else None

    def _name_of(self, peer: NodeId) -> str:
        """The directory of a voter by the newest entry that was ever applied here. The store may be older than that: it
        is synced seldom, and a damaged one begins empty. Empty: nothing names one.
        """
        applied, kept = self.machine.directory_of(peer), self.directory.named(peer)
        return applied if not kept or kept in self.machine.former_directories(peer) else kept

    def on_met(self, peer: NodeId) -> None:
        """A peer has proven itself on a directory, or the log may name another one for it."""
        name, met = self._name_of(peer), self.directory.met(peer)
        if name and met is not None and (met.incarnation != name or not self.directory.named_durably(peer)):
            self._unnamed.add(peer)
        else:
            self._unnamed.discard(peer)

    def on_frame(self, peer: NodeId, frame: bytes) -> None:
        """A frame of an authenticated peer. Raises PeerError."""
        try:
            if peer in self._unnamed and not is_of_a_leader(frame):
                return
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
