"""One node, whole: its data open, its core and its listeners built; it takes part, and is taken down again.

Rules: the only place where everything meets. Start-up is in the order of dependence (disk, state, every address, peers,
then whoever serves); each part that is up leaves its end on one stack, so shutdown, and a start that comes to nothing,
are the reverse. A failure that the node must not survive ends ``wait_failed``; from that moment nothing is served.
"""

import asyncio
import gc
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack, suppress

from structlog.typing import FilteringBoundLogger

from quorate.clock import LoopScheduler
from quorate.consensus.ports import NodeId
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage.scrub import Scrub
from quorate.consensus.storage.store import StoreDamagedError
from quorate.consensus.transport.hello import PeerIdentity
from quorate.consensus.transport.peers import Peers
from quorate.controller import Listener, MemberNews, StateIsWrongError, TopicPushes
from quorate.descriptors import raised
from quorate.errors import QuorateError, StorageError
from quorate.events import NodeAddresses, Voter
from quorate.gateway.remoting.pusher import RolePusher
from quorate.metadata.cluster import FEATURE_MAX, FEATURE_MIN
from quorate.metadata.commands import CreateCluster, RecordNodeStart
from quorate.metrics import Metrics
from quorate.node import descriptors
from quorate.node.chance import seeded
from quorate.node.compose import Core, CorePorts, CoreSettings, open_mending, peer_handlers
from quorate.node.data import DataDirectory, free_bytes, give_up_damaged, new_id
from quorate.node.gateways import VERSION, Gateways
from quorate.node.logs import CommandLogWriter
from quorate.node.settings import NodeSettings, VoterSettings, split_address

HANDOVER_PATIENCE_S = 1.0
"""How long a stopping leader waits for its successor."""
HANDOVER_POLL_S = 0.005
"""How often it looks."""
OVERRULED_AFTER_S = 5.0
"""How long after its start a node warns of settings that the log overrules."""
WAITING_LOOK_S = 2.0
"""How often a node asks itself whether it still waits for something."""


def addresses_of(voter: VoterSettings) -> NodeAddresses:
    """Where a voter is reached."""
    return NodeAddresses(rpc=voter.rpc, raft=voter.raft, kafka=voter.kafka, http=voter.http)


class _Outward(Listener):
    """What of a core's news goes to the log and to the links."""

    def __init__(self, log: FilteringBoundLogger, peers: Peers) -> None:
        self._log, self._peers = log, peers

    def clock_said(self, text: str, ahead_ms: int) -> None:
        """An operator reads it."""
        self._log.warning("clock", news=text, ahead_ms=ahead_ms)

    def directories_named(self) -> None:
        """Some links may be of directories that count no more."""
        self._peers.judge_again()


class Running:
    """A node that runs. Made on its loop; all its parts are there from the beginning, and ``start`` sets them going.

    Raises UsageError and StorageError, and then nothing is left open.
    """

    def __init__(self, settings: NodeSettings, log: FilteringBoundLogger, sources: Mapping[str, str]) -> None:
        self.log = log
        self.sources = sources
        self.settings = self._fitted(settings)
        self.loop = asyncio.get_running_loop()
        self.scheduler = LoopScheduler(self.loop)
        self.started = self.stopping = False
        self.failed: asyncio.Future[BaseException] = self.loop.create_future()
        opened, self._ends = ExitStack(), AsyncExitStack()
        self._ends.callback(opened.close)
        try:
            self._open(opened)
            self.scrub = self._made_scrub()
            self.gateways = Gateways(self)
        except BaseException:
            opened.close()
            raise

    @property
    def alive(self) -> bool:
        """It has started, is not stopping and has not failed."""
        return self.started and not self.stopping and not self.failed.done()

    @property
    def serving(self) -> bool:
        """All of its log is here, and it is not stopping."""
        engine = self.core.engine
        return self.started and not self.stopping and engine.voting and not engine.installing

    def connected(self, node_id: int) -> bool:
        """Can this node reach that voter? It always reaches itself."""
        return node_id == self.settings.node.id or self.peers.connected(NodeId(node_id))

    # -- what it is made of

    def _fitted(self, settings: NodeSettings) -> NodeSettings:
        """Share out the descriptors among all that may be open at a time. Raises UsageError when there are too few."""
        limit = raised(descriptors.wanted(settings))
        fitted, smaller = descriptors.fitted(settings, limit)
        if smaller:
            self.log.warning("few descriptors: less at a time than the settings say", limit=limit, **smaller)
        return fitted

    def _open(self, ends: ExitStack) -> None:
        """Open what is on disk. A damaged store is put aside, once, where others or the journal have what it held."""

        def attempt() -> None:
            self.metrics = Metrics()
            self.data = DataDirectory(
                self.settings,
                ends,
                self.scheduler,
                self.metrics,
                self.log,
                sound=lambda: self.started and not self.failed.done(),
                fail=self.fail,
            )
            self._build_core()

        def give_up(damage: StoreDamagedError) -> None:
            give_up_damaged(self.settings, damage)

        if reason := open_mending(attempt, ends.close, give_up):
            self.log.warning("the store was damaged; it is put aside and made anew", reason=reason)

        def damaged(error: StorageError) -> None:
            """Stops the node: the reader may be a caller that would go on without the data, or the scrub's thread."""
            self.loop.call_soon_threadsafe(self.fail, error)

        self.data.store.on_damage = damaged

    def _build_core(self) -> None:
        settings, data = self.settings, self.data
        incarnation = data.directory.incarnation
        voters = tuple(NodeId(voter.id) for voter in settings.cluster.voters)
        me = NodeId(settings.node.id)
        self.pusher = pusher = RolePusher(settings.remoting, loop=self.loop)
        self.metrics.gauge(
            "broker_addresses_out_of_reach",
            "Connections to brokers that broker_networks did not allow.",
            lambda: pusher.out_of_reach,
        )
        self.peers = Peers(
            PeerIdentity(
                cluster_id=settings.cluster.id,
                node_id=me,
                dir_uuid=uuid.UUID(incarnation).bytes,
                key=settings.cluster_key(),
                feature_min=FEATURE_MIN,
                feature_max=FEATURE_MAX,
            ),
            {NodeId(voter.id): split_address(voter.raft) for voter in settings.cluster.voters if voter.id != me},
            settings.peers,
            seeded(),
            peer_handlers(data.directory, data.worker, lambda: self.core),
            at_turns_end=self.scheduler.at_turns_end,
        )
        founding = CreateCluster(
            cluster_id=settings.cluster.id,
            voters=tuple(
                Voter(id=v.id, dir_uuid=incarnation if v.id == me else "", addresses=addresses_of(v))
                for v in settings.cluster.voters
            ),
            feature_level=FEATURE_MIN,  # A voter of the build before may be among them; `feature raise` asks all.
            cluster_uuid=new_id(),
        )
        self.core = Core(
            me,
            voters,
            CorePorts(
                journal=data.journal,
                store=data.store,
                log=EventLog(data.store, settings.storage.event_log, data.reader),
                network=self.peers,
                brokers=pusher,
                scheduler=self.scheduler,
                rng=seeded(),
                metrics=self.metrics,
                on_fatal=self.fail,
                worker=data.worker,
                store_worker=data.store_worker,
                reader=data.reader,
                directory=data.directory,
                command_log=CommandLogWriter(settings.log, me, self.scheduler.at_turns_end, self.scheduler.time_ms),
            ),
            CoreSettings(
                engine=settings.engine,
                controller=settings.controller,
                policy=settings.policy,
                requests=settings.requests,
                history=settings.history,
                balance=settings.balance,
                group_expiry_s=settings.kafka.group_expiry_s,
            ),
            founding,
        )
        self.core.listeners.add(_Outward(self.log, self.peers), self._made_topic_pushes(), self._made_member_news())

    def _made_member_news(self) -> MemberNews:
        news = MemberNews(self.core.controller, self.scheduler, self.pusher, self.settings.controller)
        self.metrics.gauge(
            "member_news_waiting", "Brokers that are to be told of another one of their set.", lambda: len(news)
        )
        return news

    def _made_topic_pushes(self) -> TopicPushes:
        pushes = TopicPushes(self.core.controller, self.scheduler, self.pusher, self.settings.controller)
        self.metrics.gauge(
            "topic_pushes_waiting", "Topics and masters that are to be told of each other.", lambda: len(pushes)
        )
        self.metrics.gauge(
            "topics_pushed", "Topics made here that a master acknowledged to this node.", lambda: pushes.pushed
        )
        self.metrics.gauge(
            "topics_differing",
            "Topics that a master has otherwise than they were made here, as far as this leader compared.",
            lambda: pushes.differing,
        )
        return pushes

    def _made_scrub(self) -> Scrub:
        data, settings = self.data, self.settings.storage.scrub
        scrub = Scrub(data.store, self.core.log, data.journal, data.disk, data.reader, self.scheduler, settings)
        self.metrics.gauge("scrub_passes", "Times that everything on disk was read again.", lambda: scrub.passes)
        self.metrics.gauge("scrub_read_bytes", "Bytes read again to find damage.", lambda: scrub.bytes_read)
        return scrub

    # -- start

    async def start(self) -> None:
        """Take part. Raises UsageError and StorageError before anything is served, and then nothing is left open."""
        try:
            await self._start()
        except BaseException:
            self.stopping = True
            await self._ends.aclose()
            raise

    async def _start(self) -> None:
        ends = self._ends
        ends.callback(self.scrub.stop)
        await self.gateways.bind(ends)
        ends.push_async_callback(self.peers.stop)
        await self.peers.start(*self.settings.bind("raft"), begin=lambda: self.data.directory.begin(new_id()))
        ends.push_async_callback(self.pusher.stop)
        ends.push_async_callback(self.gateways.stop)
        self.core.start(self._node_start())
        ends.callback(self.core.stop)
        ends.callback(self.gateways.stop_answering)
        self.scheduler.call_later(OVERRULED_AFTER_S, self._say_overruled)
        await self.gateways.serve(ends)
        self.scrub.start()
        space_watch = self.loop.create_task(self._watch_space())
        ends.callback(space_watch.cancel)
        self.started = True
        self._tell_what_is_missing("")
        listening = {name: "{}:{}".format(*self.settings.bind(name)) for name in self.settings.listening}
        self.log.info("listening", **listening, data_dir=self.settings.node.data_dir)
        self.log.info("started", cluster=self.settings.cluster.id, offset=self.core.machine.offset)

    def _node_start(self) -> RecordNodeStart:
        return RecordNodeStart(
            node_id=self.settings.node.id,
            dir_uuid=self.data.directory.incarnation,
            version=VERSION,
            addresses=addresses_of(self.settings.me),
            feature_min=FEATURE_MIN,
            feature_max=FEATURE_MAX,
        )

    def _say_overruled(self) -> None:
        """Once; ``status`` tells at any time. By now a first leader has recorded what holds."""
        for sentence in () if self.stopping else self.core.agreement.overruled():
            self.log.warning("a setting of this node is overruled by the log", what=sentence)

    def _tell_what_is_missing(self, last_reason: str) -> None:
        """A node that waits says what for, whenever that changes."""
        if self.stopping:
            return
        waits_for = self.core.waits_for
        if waits_for and waits_for != last_reason:
            self.log.warning("waiting", reason=waits_for)
        self.scheduler.call_later(WAITING_LOOK_S, lambda: self._tell_what_is_missing(waits_for))

    async def _watch_space(self) -> None:
        """How much is free, once a period, while the node runs. A disk that hangs holds a thread of its own."""
        data, period_s = self.settings.node.data_dir, self.settings.controller.free_space_period_s
        while True:
            with suppress(OSError):  # Then nothing is known that was not before.
                self.core.controller.space.measured(await self.loop.run_in_executor(None, free_bytes, data))
            await asyncio.sleep(period_s)

    # -- end

    def fail(self, error: BaseException) -> None:
        """Something happened that this node must not survive: say so, once, and serve nothing more."""
        if not self.failed.done():
            self.failed.set_result(error)
            self._end()
            if self.started:
                self.core.stop()  # It leads no more, and decides nothing that other nodes forward.
            if isinstance(error, StoreDamagedError | StateIsWrongError):
                with suppress(QuorateError):  # Then the next start says what is to be done.
                    give_up_damaged(self.settings, error, self.data.directory)
            self.log.critical("failed", error=f"{type(error).__name__}: {error}")

    def _end(self) -> None:
        self.stopping = True
        if self.started:
            self.core.listeners.stopping()

    async def stop(self, *, handover: bool) -> None:
        """Take part no longer: hand the leadership over, stop serving, flush, close. All but the first is done though
        it be called off.
        """
        self._end()
        try:
            if handover:
                await self._hand_over()
        finally:
            try:
                await self._ends.aclose()
            finally:
                self.log.info("stopped")

    async def _hand_over(self) -> None:
        """Let another lead, if this one does: it must first get all of the log, and it may need this node's vote."""
        engine, deadline = self.core.engine, self.loop.time() + HANDOVER_PATIENCE_S
        if engine.transfer_leadership():
            # No event tells of it: what the controller hears is that nothing is decided any more, at the beginning.
            me = engine.node_id
            while engine.leader_id in (me, None) and not self.failed.done() and self.loop.time() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(HANDOVER_POLL_S)


def calm_collector() -> None:
    """Cycles are sought among what is young: a look at all objects stops a node of 2,000 broker sets for 26-72 ms, and
    finds next to nothing (docs/adr/0041). What survived a first look has its second after two of them, not ten, which
    took 3-7 ms; all others have theirs after seven million objects, as if it were a thousand looks at ten's survivors.

    For a process that is nothing but a node: the collector is the whole process's.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 1, 5000)
