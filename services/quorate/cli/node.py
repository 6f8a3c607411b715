"""One node, whole: opens the disk, builds the core, binds the listeners, and takes it all down again.

Rules: the only place where everything meets. Start-up is in the order of dependence (disk, state, peers, then whoever
serves), shutdown in the reverse. A failure that the node must not survive ends ``wait_failed``; from that moment
nothing is served.
"""

import asyncio
import gc
import os
import platform
import random
import secrets
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Self

from structlog.typing import FilteringBoundLogger

from quorate.cli import descriptors
from quorate.cli.compose import Core, CoreSettings, Disks, give_up_store, open_directory, open_mending, open_store
from quorate.cli.private import tightened
from quorate.clock import LoopScheduler
from quorate.consensus.codec import RefusedReason
from quorate.consensus.disk import DirectoryLock, FileDisk, FileVoterFile, StoreFolder, ThreadWorker, sync_directory
from quorate.consensus.event_log import EventLog
from quorate.consensus.lives import Lives
from quorate.consensus.peers import PeerHandlers, PeerIdentity, Peers
from quorate.consensus.ports import NodeId
from quorate.consensus.scrub import Scrub
from quorate.consensus.store import RocksStore, StoreDamagedError
from quorate.controller import QuorumIs, ReadResult, ReadView, StateIsWrongError
from quorate.errors import QuorateError, StorageError, UsageError
from quorate.events import NodeAddresses, Voter
from quorate.gateway.access import NoQuota, OpenAccess
from quorate.gateway.fresh import FreshReader
from quorate.gateway.http import HttpContext, HttpServer, NodeInfo, StorageInfo, interface
from quorate.gateway.kafka.server import KafkaServer
from quorate.gateway.kafka.view import EventLogReader, GroupLedger, KafkaNode
from quorate.gateway.remoting.properties import parse
from quorate.gateway.remoting.pusher import RolePusher
from quorate.gateway.remoting.server import RemotingServer
from quorate.gateway.remoting.service import RemotingService
from quorate.history.past import Past
from quorate.history.process import Processes
from quorate.logs import CommandJournalist, logger
from quorate.metadata.cluster import FEATURE_MAX, FEATURE_MIN
from quorate.metadata.commands import CreateCluster, RecordNodeStart
from quorate.metrics import Metrics
from quorate.settings import ListenerName, NodeSettings, VoterSettings, split_address

VERSION = version("quorate")
HANDOVER_PATIENCE_S = 1.0
"""How long a stopping leader waits for its successor."""
HANDOVER_POLL_S = 0.005
"""How often it looks."""
OVERRULED_AFTER_S = 5.0
"""How long after its start a node warns of settings that the log overrules."""
WAITING_LOOK_S = 2.0
"""How often a node asks itself whether it still waits for something."""
STOP_PATIENCE_S = 5.0
"""How long a stopping node waits for its disk."""


def _addresses(voter: VoterSettings) -> NodeAddresses:
    return NodeAddresses(rpc=voter.rpc, raft=voter.raft, kafka=voter.kafka, http=voter.http)


def _new_id() -> str:
    return str(uuid.UUID(int=secrets.randbits(128), version=4))


def _seeded() -> random.Random:
    """Chance that differs from node to node and from start to start."""
    return random.Random(secrets.randbits(64))


class ClusterView:
    """What the Kafka listener sees of this node (gateway.kafka.view.LogView)."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.node_id = node.settings.node.id
        self.cluster_id = node.settings.cluster.id
        self.log: EventLogReader = node.core.log
        self.on_applied = node.core.machine.on_applied
        self.groups: GroupLedger = node.core.groups

    @property
    def coordinates(self) -> bool:
        """See LogView."""
        return self._node.serving and self._node.core.controller.is_leader

    @property
    def leader_id(self) -> int | None:
        """See LogView."""
        return self._node.core.engine.leader_id

    @property
    def term(self) -> int:
        """See LogView."""
        return self._node.core.engine.term

    @property
    def serving(self) -> bool:
        """See LogView."""
        return self._node.serving

    def nodes(self) -> Sequence[KafkaNode]:
        """See LogView."""
        found = []
        for voter in self._node.settings.cluster.voters:
            host, port = split_address(voter.kafka)
            found.append(KafkaNode(voter.id, host, port, voter.zone, alive=self._node.connected(voter.id)))
        return found

    def confirmed_end(self, done: Callable[[int | None], None]) -> None:
        """See LogView."""

        def seen(view: ReadResult) -> None:
            done(view.offset if isinstance(view, ReadView) else None)

        self._node.core.controller.read("linearizable", seen)

    def quorum(self, done: Callable[[QuorumIs | None], None]) -> None:
        """See LogView."""
        self._node.core.controller.quorum.ask(done)

    def directories(self) -> Mapping[int, bytes]:
        """See LogView."""
        known = self._node.core.machine.state.nodes
        return {node_id: uuid.UUID(node.dir_uuid).bytes for node_id, node in known.items()}

    @property
    def entry_bytes_max(self) -> int:
        """See LogView."""
        return self._node.settings.controller.command_bytes_max


class Node:
    """A controller node in this process and on this loop. ``async with Node(settings)`` embeds one."""

    def __init__(self, settings: NodeSettings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.log: FilteringBoundLogger = logger(settings.node.id)
        self.core: Core
        self._failed: asyncio.Future[BaseException]
        self._stopping = False
        self._started = False
        self._opened: RocksStore | None = None

    async def __aenter__(self) -> Self:
        """Start it."""
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Stop it, handing the leadership over."""
        await self.stop(handover=True)

    @property
    def serving(self) -> bool:
        """All of its log is here, and it is not stopping."""
        engine = self.core.engine
        return self._started and not self._stopping and engine.voting and not engine.installing

    def connected(self, node_id: int) -> bool:
        """Can this node reach that voter? It always reaches itself."""
        return node_id == self.settings.node.id or self._peers.connected(NodeId(node_id))

    # -- start

    async def start(self) -> None:
        """Take part. Raises UsageError and StorageError before anything is served."""
        self._fit()
        self._loop = asyncio.get_running_loop()
        self._failed = self._loop.create_future()
        self._scheduler = LoopScheduler(self._loop)
        self._open_core()
        self._build_gateways()
        await self._peers.start(*self.settings.bind("raft"))
        self.core.start(self._node_start())
        self._scheduler.call_later(OVERRULED_AFTER_S, self._say_overruled)
        await self._listen()
        calm_collector()
        self._scrub.start()
        self._space_watch = self._loop.create_task(self._watch_space())
        self._started = True
        self._tell_what_is_missing("")
        self.log.info("started", cluster=self.settings.cluster.id, offset=self.core.machine.offset)

    def _fit(self) -> None:
        """Whatever may be open at a time has a descriptor. Raises UsageError when they are too few."""
        limit = descriptors.raised(descriptors.wanted(self.settings))
        self.settings, smaller = descriptors.fitted(self.settings, limit)
        if smaller:
            self.log.warning("few descriptors: less at a time than the settings say", limit=limit, **smaller)

    def _open_core(self) -> None:
        """Open what is on disk. A damaged store is put aside, once, where others or the journal have what it held."""

        def attempt() -> None:
            self.metrics = Metrics()
            self._open_storage()
            self._build_core()

        if reason := open_mending(attempt, self._close_storage, self._give_up_store):
            self.log.warning("the store was damaged; it is put aside and made anew", reason=reason)

        def damaged(error: StorageError) -> None:
            """Whoever reads may be a caller who would go on without what is missing, or the scrub's thread."""
            self._loop.call_soon_threadsafe(self.fail, error)

        self._store.on_damage = damaged
        # A thread of its own: a sync must not wait behind a read.
        self._scrub_worker = ThreadWorker(self._loop, self.fail, name="quorate-scrub")
        self._scrub = Scrub(
            self._store,
            self.core.log,
            self._journal,
            self._disk,
            self._scrub_worker,
            self._scheduler,
            self.settings.storage.scrub,
        )
        scrub = self._scrub
        self.metrics.gauge("scrub_passes", "Times that everything on disk was read again.", lambda: scrub.passes)
        self.metrics.gauge("scrub_read_bytes", "Bytes read again to find damage.", lambda: scrub.bytes_read)

    def _give_up_store(self, damage: StoreDamagedError | StateIsWrongError) -> None:
        disk = FileDisk(str(Path(self.settings.node.data_dir) / "journal"))
        try:
            give_up_store(FileVoterFile(self.settings.node.data_dir), disk, damage, alone=self._alone)
        finally:
            disk.close()

    @property
    def _alone(self) -> bool:
        return len(self.settings.cluster.voters) == 1

    def _close_storage(self) -> None:
        """Of a start that came to nothing."""
        self._store_worker.close(STOP_PATIENCE_S)
        self._worker.close(STOP_PATIENCE_S)
        if self._opened is not None:
            with suppress(StorageError):
                self._opened.close()
            self._opened = None
        self._disk.close()
        self._lock.release()

    def _say_overruled(self) -> None:
        """Once; ``status`` tells at any time. By now a first leader has recorded what holds."""
        for sentence in () if self._stopping else self.core.agreeing.overruled():
            self.log.warning("a setting of this node is overruled by the log", what=sentence)

    def _open_storage(self) -> None:
        settings = self.settings
        data = Path(settings.node.data_dir)
        try:
            data.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise UsageError(f"node.data_dir: {data} cannot be made: {error.strerror or error}") from error
        sync_directory(str(data.resolve().parent))
        self._lock = DirectoryLock(str(data))
        closed, still = tightened(data)
        if closed:
            self.log.warning("data was open to other users; it is its owner's alone now", entries=closed)
        if still:
            self.log.warning(
                "data is open to other users, and not ours to close", path=str(still[0]), entries=len(still)
            )
        self._disk = FileDisk(str(data / "journal"), self.metrics)
        self._worker = ThreadWorker(self._loop, self.fail, settings.storage.worker_jobs_max)
        # A thread of its own: a vote or an acknowledgement must not wait behind a sync of the store.
        self._store_worker = ThreadWorker(self._loop, self.fail, name="quorate-store")
        voter_file = FileVoterFile(str(data))
        folder = StoreFolder(str(data), settings.storage.store)
        self._store = self._opened = open_store(folder, voter_file, self._disk, alone=self._alone)
        self._directory, self._journal = open_directory(
            Disks(voter_file=voter_file, store=self._store, disk=self._disk, worker=self._worker),
            cluster_id=settings.cluster.id,
            node_id=NodeId(settings.node.id),
            alone=self._alone,
            journal=settings.storage.journal,
            clock=self._scheduler,
            fresh=_new_id,
        )
        self.dir_uuid = self._directory.incarnation
        if self._directory.may_not_vote:
            self.log.warning("rejoining without a vote", reason=self._directory.may_not_vote)

    def _build_core(self) -> None:
        settings = self.settings
        voters = tuple(NodeId(voter.id) for voter in settings.cluster.voters)
        me = NodeId(settings.node.id)
        self._pusher = RolePusher(settings.remoting, loop=self._loop)
        self.metrics.gauge(
            "broker_addresses_out_of_reach",
            "Connections to brokers that broker_networks did not allow.",
            lambda: self._pusher.out_of_reach,
        )
        self._peers = Peers(
            PeerIdentity(
                cluster_id=settings.cluster.id,
                node_id=me,
                dir_uuid=uuid.UUID(self.dir_uuid).bytes,
                key=settings.cluster_key(),
                feature_min=FEATURE_MIN,
                feature_max=FEATURE_MAX,
            ),
            {NodeId(voter.id): split_address(voter.raft) for voter in settings.cluster.voters if voter.id != me},
            settings.peers,
            _seeded(),
            self._peer_handlers(),
        )
        founding = CreateCluster(
            cluster_id=settings.cluster.id,
            voters=tuple(
                Voter(id=v.id, dir_uuid=self.dir_uuid if v.id == me else "", addresses=_addresses(v))
                for v in settings.cluster.voters
            ),
            feature_level=FEATURE_MAX,
            cluster_uuid=_new_id(),
        )
        self.core = Core(
            node_id=me,
            voters=voters,
            journal=self._journal,
            store=self._store,
            log=EventLog(self._store, settings.storage.event_log),
            network=self._peers,
            brokers=self._pusher,
            scheduler=self._scheduler,
            rng=_seeded(),
            settings=CoreSettings(
                engine=settings.engine,
                controller=settings.controller,
                policy=settings.policy,
                requests=settings.requests,
                history=settings.history,
            ),
            founding=founding,
            metrics=self.metrics,
            on_fatal=self.fail,
            worker=self._worker,
            store_worker=self._store_worker,
            directory=self._directory,
            journalist=CommandJournalist(settings.log, me, self._scheduler.call_soon, self._scheduler.time_ms),
        )
        self.core.controller.clock.on_news.append(
            lambda news: self.log.warning("clock", news=news.text, ahead_ms=news.ahead_ms)
        )

        self.core.on_directories = self._peers.judge_again

    def _peer_handlers(self) -> PeerHandlers:
        lives = Lives(self._directory, self._worker, self._forget)
        return PeerHandlers(
            frame=self._frame,
            connected=self._connected,
            disconnected=self._disconnected,
            turned_away=self._turned_away,
            directory_of=self._directory_of,
            life=lambda: lives.life,
            met=lives.met,
            judge=lives.judge,
            meet=lives.meet,
        )

    def _frame(self, peer: NodeId, frame: bytes) -> None:
        self.core.on_frame(peer, frame)

    def _connected(self, peer: NodeId) -> None:
        self.core.on_connected(peer)

    def _disconnected(self, peer: NodeId) -> None:
        self.core.on_disconnected(peer)

    def _turned_away(self, peer: NodeId, reason: RefusedReason) -> None:
        self.core.on_turned_away(peer, reason)

    def _forget(self, reason: str, done: Callable[[], None]) -> None:
        self.core.engine.forget(reason, done)

    def _directory_of(self, peer: NodeId) -> bytes | None:
        """The data directory a voter is known to have; another one under its id has forgotten its votes."""
        known = self.core.machine.directory_of(peer)
        return uuid.UUID(known).bytes if known else None

    def _build_gateways(self) -> None:
        settings, core = self.settings, self.core
        access, quota = OpenAccess(), NoQuota()
        self._processes = Processes(self._loop, self._scheduler, settings.history)
        self._past = Past(
            core.machine,
            core.log,
            core.checkpoints,
            self._processes.start,
            self._scheduler,
            settings.history,
            self.metrics,
        )
        service = RemotingService(
            core.controller,
            self._reader(
                timeout_s=settings.remoting.read_timeout_s,
                past_timeout_s=settings.remoting.read_timeout_s,
                waiting_max=settings.remoting.waiting_max,
            ),
            settings.remoting,
            node_id=settings.node.id,
            group=settings.cluster.name,
            addresses={voter.id: voter.rpc for voter in settings.cluster.voters},
            now=self._scheduler.monotonic,
            facts=self._java_facts(),
            metrics=self.metrics,
        )
        self._remoting = RemotingServer(
            service, settings.remoting, loop=self._loop, now=self._scheduler.monotonic, metrics=self.metrics
        )
        self._kafka = KafkaServer(
            ClusterView(self), settings.kafka, self.metrics, self._scheduler, _seeded(), access, quota
        )
        context = HttpContext(
            node=NodeInfo(settings.node.id, settings.cluster.id, VERSION, settings.kafka.topic, settings.me.rpc),
            controller=core.controller,
            engine=core.engine,
            log=core.log,
            scheduler=self._scheduler,
            metrics=self.metrics,
            sums=lambda: core.machine.marked,
            fresh=self._reader(
                timeout_s=settings.http.answer_timeout_s,
                past_timeout_s=settings.history.answer_timeout_s,
                waiting_max=settings.http.waiting_max,
            ),
            policy=settings.policy,
            access=access,
            quota=quota,
            connected=self.connected,
            serving=lambda: self.serving,
            waits_for=lambda: self.core.waits_for,
            alive=lambda: self._started and not self._stopping and not self._failed.done(),
            storage=self._storage_info,
            alarms=lambda: (*core.comparison.alarms(), *core.controller.space.alarms(), *core.engine.alarms),
            overruled=core.agreeing.overruled,
            agrees=lambda: core.comparison.agrees,
            settings=settings.http,
            info={"version": VERSION, "python": platform.python_version()},
        )
        hosts = (settings.bind("http")[0], split_address(settings.me.http)[0])
        self._http = HttpServer(interface(context), settings.http, self.metrics, self._scheduler, hosts)

    def _reader(self, *, timeout_s: float, past_timeout_s: float, waiting_max: int) -> FreshReader:
        """How a gateway reads: each waits in a queue of its own."""
        return FreshReader(
            self.core.controller,
            self._past,
            self.core.machine.on_applied,
            self._scheduler,
            timeout_s=timeout_s,
            past_timeout_s=past_timeout_s,
            waiting_max=waiting_max,
        )

    def _java_facts(self) -> dict[str, str]:
        """This node's own settings under the names of Java's ``ControllerConfig``, for 1010."""
        controller, policy = self.settings.controller, self.settings.policy
        return {
            **parse(self.settings.remoting.java),
            "enableElectUncleanMaster": str(policy.enable_elect_unclean_master).lower(),
            "notifyBrokerRoleChanged": str(policy.notify_broker_role_changed).lower(),
            "scanNotActiveBrokerInterval": str(int(controller.live_scan_period_s * 1000)),
            "scanInactiveMasterInterval": str(int(controller.inactive_master_scan_period_s * 1000)),
        }

    def _tell_what_is_missing(self, told: str) -> None:
        """A node that waits says what for, whenever that changes."""
        if self._stopping:
            return
        waits_for = self.core.waits_for
        if waits_for and waits_for != told:
            self.log.warning("waiting", reason=waits_for)
        self._scheduler.call_later(WAITING_LOOK_S, lambda: self._tell_what_is_missing(waits_for))

    def _storage_info(self) -> StorageInfo:
        journal = self._journal
        since = journal.oldest_unsynced_since()
        store = Path(self.settings.node.data_dir) / "store"
        store_bytes = sum(file.stat().st_size for file in store.iterdir() if file.is_file())
        return StorageInfo(
            bytes_on_disk=journal.bytes_on_disk() + store_bytes,
            journal_bytes=journal.bytes_on_disk(),
            unsynced_for_s=0.0 if since is None else self._scheduler.monotonic() - since,
        )

    def _node_start(self) -> RecordNodeStart:
        return RecordNodeStart(
            node_id=self.settings.node.id,
            dir_uuid=self.dir_uuid,
            version=VERSION,
            addresses=_addresses(self.settings.me),
            feature_min=FEATURE_MIN,
            feature_max=FEATURE_MAX,
        )

    async def _watch_space(self) -> None:
        """How much is free, once a period, while the node runs. A disk that hangs holds a thread of its own."""
        data, period_s = self.settings.node.data_dir, self.settings.controller.free_space_period_s
        while True:
            with suppress(OSError):  # Then nothing is known that was not before.
                found = await self._loop.run_in_executor(None, os.statvfs, data)
                self.core.controller.space.measured(found.f_bavail * found.f_frsize)
            await asyncio.sleep(period_s)

    async def _listen(self) -> None:
        listeners: list[tuple[ListenerName, Callable[[str, int], Awaitable[object]]]] = [
            ("rpc", self._remoting.start),
            ("kafka", self._kafka.start),
            ("http", self._http.start),
        ]
        for name, start in listeners:
            host, port = self.settings.bind(name)
            try:
                await start(host, port)
            except OSError as error:
                raise UsageError(f"cannot listen on {host}:{port} ({name}): {error}") from error

    # -- end

    def fail(self, error: BaseException) -> None:
        """Something happened that this node must not survive: say so, once, and serve nothing more."""
        if not self._failed.done():
            self._stopping = True
            self._failed.set_result(error)
            if isinstance(error, StoreDamagedError | StateIsWrongError):
                with suppress(QuorateError):  # Then the next start says what is to be done.
                    self._give_up_store(error)
            self.log.critical("failed", error=f"{type(error).__name__}: {error}")

    async def wait_failed(self) -> BaseException:
        """Returns when the node must stop, with the reason."""
        return await asyncio.shield(self._failed)

    async def stop(self, *, handover: bool) -> None:
        """Take part no longer: hand the leadership over, stop serving, flush, close."""
        self._stopping = True
        if handover:
            await self._hand_over()
        self._space_watch.cancel()
        await self._remoting.stop()
        await self._kafka.stop()
        await self._http.stop()
        self._past.stop()
        self.core.stop()
        await self._processes.stop()
        await self._pusher.stop()
        await self._peers.stop()
        self._scrub.stop()
        self._scrub_worker.close(STOP_PATIENCE_S)
        self._store_worker.close(STOP_PATIENCE_S)
        self._worker.close(STOP_PATIENCE_S)
        failed = self._failed.done()
        try:
            if not failed:
                self._store.sync()
            self._store.close()
        except StorageError as error:
            if not failed:
                self.fail(error)  # What is damaged is made anew at the next start.
                raise
        finally:
            self._disk.close()
            self._lock.release()
            self.log.info("stopped")

    async def _hand_over(self) -> None:
        """Let another lead, if this one does: it must first get all of the log, and it may need this node's vote."""
        engine, deadline = self.core.engine, self._loop.time() + HANDOVER_PATIENCE_S
        if engine.transfer_leadership():
            # No event tells of it: what the controller hears is that nothing is decided any more, at the beginning.
            me = engine.node_id
            while engine.leader_id in (me, None) and not self._failed.done() and self._loop.time() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(HANDOVER_POLL_S)


def calm_collector() -> None:
    """Cycles are sought among what is young: a look at all objects stops a node of 2,000 broker sets for 26-72 ms, and
    finds next to nothing (docs/adr/0041). What survived a first look has its second after two of them, not ten, which
    took 3-7 ms; all others have theirs after seven million objects, as if it were a thousand looks at ten's survivors.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 1, 5000)
