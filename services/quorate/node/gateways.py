"""The listeners of a node: remoting for brokers, Kafka for readers of the log, gRPC for etcd's clients, HTTP for all.

Rules: built whole over a running node, so that each sees the same core; served last, stopped first. Their addresses are
taken before the core starts: a node that cannot have one has decided nothing.
"""

import asyncio
import platform
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Protocol

from quorate.clock import LoopScheduler
from quorate.consensus.ports import MAX_ENTRY_BYTES
from quorate.controller import QuorumIs, ReadResult, ReadView, WhenApplied
from quorate.gateway.access import Access, NoQuota, OpenAccess, Quota
from quorate.gateway.first_answers import FirstAnswers
from quorate.gateway.fresh import FreshReader
from quorate.gateway.grpc.context import GrpcContext, Place
from quorate.gateway.http import HttpContext, HttpServer, NodeInfo, interface
from quorate.gateway.http.context import Announcements
from quorate.gateway.kafka.server import KafkaServer
from quorate.gateway.kafka.view import EventLogReader, GroupLedger, KafkaNode
from quorate.gateway.remoting.properties import parse
from quorate.gateway.remoting.pusher import RolePusher
from quorate.gateway.remoting.server import RemotingServer
from quorate.gateway.remoting.service import RemotingService
from quorate.history.past import Past
from quorate.history.process import Processes
from quorate.listening import address_error
from quorate.metrics import Metrics
from quorate.node.announcements import announcements
from quorate.node.build import interpreter, leaf
from quorate.node.chance import seeded
from quorate.node.compose import Core
from quorate.node.data import DataDirectory
from quorate.node.in_force import in_force
from quorate.node.settings import ListenerName, NodeSettings, VoterSettings, split_address

if TYPE_CHECKING:
    from quorate.gateway.grpc.server import GrpcServer

VERSION = version("quorate")


class Host(Protocol):
    """The node, as its listeners see it."""

    settings: NodeSettings
    sources: Mapping[str, str]
    """Where each setting that was given comes from."""
    metrics: Metrics
    loop: asyncio.AbstractEventLoop
    scheduler: LoopScheduler
    core: Core
    data: DataDirectory
    pusher: RolePusher

    @property
    def serving(self) -> bool:
        """All of its log is here, and it is not stopping."""

    @property
    def alive(self) -> bool:
        """It has started, is not stopping and has not failed."""

    def connected(self, node_id: int) -> bool:
        """Can it reach that voter?"""


class Door(Protocol):
    """An address that is taken."""

    async def start_serving(self) -> None:
        """Let in who comes. Raises OSError."""


class Listener(Protocol):
    """One of them."""

    async def start(self, host: str, port: int, *, serving: bool) -> Door:
        """Listen, or only take the address. Raises OSError."""

    async def stop(self) -> None:
        """Close what is open."""


class ClusterView:
    """This node, as the Kafka listener sees it (gateway.kafka.view.LogView)."""

    def __init__(self, node: Host) -> None:
        self._node = node
        self.node_id = node.settings.node.id
        self.cluster_id = node.settings.cluster.id
        self.log: EventLogReader = node.core.log
        self.groups: GroupLedger = node.core.groups

    def hear(self, applied: Callable[[int], None]) -> None:
        """Have this called with the new end offset after each slice of applied entries."""
        self._node.core.listeners.add(WhenApplied(applied))

    @property
    def coordinates(self) -> bool:
        """Does this node lead, with all that was ever committed applied? Then it coordinates consumer groups."""
        return self._node.serving and self._node.core.controller.is_leader

    @property
    def leader_id(self) -> int | None:
        """The leader's id, as far as this node knows."""
        return self._node.core.engine.leader_id

    @property
    def term(self) -> int:
        """The current term."""
        return self._node.core.engine.term

    @property
    def serving(self) -> bool:
        """False while the event batches are not all here (snapshot install) or the node is stopping."""
        return self._node.serving

    def nodes(self) -> Sequence[KafkaNode]:
        """Every voter, this node too."""
        nodes = []
        for voter in self._node.settings.cluster.voters:
            host, port = split_address(voter.kafka)
            nodes.append(KafkaNode(voter.id, host, port, voter.zone, alive=self._node.connected(voter.id)))
        return nodes

    def confirmed_end(self, done: Callable[[int | None], None]) -> None:
        """Ask the leader (a read index) where the log ends now; None when it cannot be known. Always calls back."""

        def seen(view: ReadResult) -> None:
            done(view.offset if isinstance(view, ReadView) else None)

        self._node.core.controller.read("linearizable", seen)

    def quorum(self, done: Callable[[QuorumIs | None], None]) -> None:
        """Ask the leader how far every voter is; None when it cannot be known. Always calls back."""
        self._node.core.controller.quorum.ask(done)

    def directories(self) -> Mapping[int, bytes]:
        """Node id → UUID of its data directory, of those that are known."""
        nodes = self._node.core.machine.state.nodes
        return {node_id: uuid.UUID(node.dir_uuid).bytes for node_id, node in nodes.items()}

    @property
    def entry_bytes_max(self) -> int:
        """The events of one command are at most this long, encoded."""
        return MAX_ENTRY_BYTES


class Gateways:
    """The listeners of one node."""

    def __init__(self, node: Host) -> None:
        self._node = node
        settings, core, metrics, scheduler = node.settings, node.core, node.metrics, node.scheduler
        access, quota = OpenAccess(), NoQuota()
        self._processes = Processes(node.loop, scheduler, settings.history)
        self._past = Past(
            core.machine,
            core.log,
            core.checkpoints,
            self._processes.start,
            scheduler,
            settings.history,
            metrics,
        )
        reader = self._reader(
            timeout_s=settings.controller.answer_timeout_s,
            past_timeout_s=settings.history.answer_timeout_s,
            waiting_max=settings.history.questions_max,
        )
        self.commands = FirstAnswers(core.controller, reader, core.log, scheduler, settings.policy)
        """Of the program that this node is a part of; ``reads``: what it asks of the state."""
        self.reads = reader
        self._remoting = self._remoting_server()
        self._kafka = KafkaServer(ClusterView(node), settings.kafka, metrics, scheduler, seeded(), access, quota)
        self._http = self._http_server(access, quota)
        self._grpc = self._grpc_server(access, quota)
        self._bound: list[tuple[ListenerName, Listener, Door]] = []

    def _remoting_server(self) -> RemotingServer:
        settings, core, scheduler = self._node.settings, self._node.core, self._node.scheduler
        self._service = service = RemotingService(
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
            now=scheduler.monotonic,
            connected=self._node.connected,
            facts=_java_facts(settings),
            ask_topics=self._node.pusher.ask_topics,
            metrics=self._node.metrics,
        )
        return RemotingServer(
            service,
            settings.remoting,
            loop=self._node.loop,
            now=scheduler.monotonic,
            metrics=self._node.metrics,
            at_turns_end=scheduler.at_turns_end,
        )

    def _announced(self, broker_set: str) -> Announcements | None:
        names = self._service.names
        announced = None if names is None else names.announced
        return announcements(announced, broker_set, self._node.scheduler.monotonic())

    def _http_server(self, access: Access, quota: Quota) -> HttpServer:
        node, settings, core = self._node, self._node.settings, self._node.core
        context = HttpContext(
            node=_info(settings),
            controller=core.controller,
            engine=core.engine,
            log=core.log,
            scheduler=node.scheduler,
            metrics=node.metrics,
            sums=lambda: core.machine.marked,
            fresh=self._reader(
                timeout_s=settings.http.answer_timeout_s,
                past_timeout_s=settings.history.answer_timeout_s,
                waiting_max=settings.http.waiting_max,
            ),
            policy=settings.policy,
            balance=settings.balance,
            announced=self._announced,
            access=access,
            quota=quota,
            connected=node.connected,
            serving=lambda: node.serving,
            waits_for=lambda: core.waits_for,
            alive=lambda: node.alive,
            storage=node.data.info,
            journal_sync=node.data.journal_sync,
            alarms=lambda: (*core.comparison.alarms(), *core.controller.space.alarms(), *core.engine.alarms),
            overruled=core.agreement.overruled,
            in_force=lambda state: in_force(node.settings, node.sources, state),
            agrees=lambda: core.comparison.agrees,
            settings=settings.http,
            info={"version": VERSION, "python": platform.python_version()},
        )
        hosts = (settings.bind("http")[0], split_address(settings.me.http)[0])
        return HttpServer(interface(context), settings.http, node.metrics, node.scheduler, hosts)

    def _grpc_server(self, access: Access, quota: Quota) -> "GrpcServer | None":
        """None: it has no address, and then does not load what only gRPC needs."""
        node, settings, core = self._node, self._node.settings, self._node.core
        if "grpc" not in settings.listening:
            return None
        from quorate.gateway.grpc.server import GrpcServer  # noqa: PLC0415 - as the docstring says

        context = GrpcContext(
            node_id=settings.node.id,
            cluster_id=settings.cluster.id,
            version=VERSION,
            voters=tuple(_place(voter) for voter in settings.cluster.voters),
            controller=core.controller,
            machine=core.machine,
            engine=core.engine,
            log=core.log,
            fresh=self._reader(
                timeout_s=settings.grpc.answer_timeout_s,
                past_timeout_s=settings.grpc.past_timeout_s,
                waiting_max=settings.grpc.waiting_max,
            ),
            written=self._reader(
                timeout_s=settings.grpc.answer_timeout_s,
                past_timeout_s=settings.grpc.past_timeout_s,
                waiting_max=settings.grpc.calls_max,
            ),
            scheduler=node.scheduler,
            metrics=node.metrics,
            access=access,
            quota=quota,
            chance=seeded(),
            connected=node.connected,
            unready=lambda: unready(node),
            no_space=core.controller.space.alarms,
            short_of_space=core.controller.space.nodes,
            corrupt=core.comparison.alarms,
            differing=core.comparison.nodes,
            disk_bytes=lambda: node.data.info().bytes_on_disk,
            settings=settings.grpc,
        )
        return GrpcServer(context)

    def _reader(self, *, timeout_s: float, past_timeout_s: float, waiting_max: int) -> FreshReader:
        """How a gateway reads: each waits in a queue of its own."""
        return FreshReader(
            self._node.core.controller,
            self._past,
            self._node.core.listeners,
            self._node.scheduler,
            timeout_s=timeout_s,
            past_timeout_s=past_timeout_s,
            waiting_max=waiting_max,
        )

    async def bind(self, ends: AsyncExitStack) -> None:
        """Take every address; nobody is served yet. Raises AddressError. ``ends`` gives them back."""
        listeners: list[tuple[ListenerName, Listener]] = [
            ("http", self._http),
            ("kafka", self._kafka),
            ("rpc", self._remoting),
        ]
        if self._grpc is not None:
            listeners.append(("grpc", self._grpc))
        for name, listener in listeners:
            with self._told(name):
                server = await listener.start(*self._node.settings.bind(name), serving=False)
            ends.push_async_callback(listener.stop)
            self._bound.append((name, listener, server))

    async def serve(self, ends: AsyncExitStack) -> None:
        """Let everybody in. Raises AddressError. ``ends`` closes the listeners: once more, before what they rest on."""
        for name, listener, server in self._bound:
            with self._told(name):
                await server.start_serving()
            ends.push_async_callback(listener.stop)

    @contextmanager
    def _told(self, name: ListenerName) -> Iterator[None]:
        """An address that cannot be had is told by its setting."""
        try:
            yield
        except OSError as error:
            raise address_error(f"listeners.{name}", *self._node.settings.bind(name), error) from error

    def stop_answering(self) -> None:
        """Nothing of the past is answered any more."""
        self._past.stop()

    async def stop(self) -> None:
        """The processes that replay the past end."""
        await self._processes.stop()


def unready(node: Host) -> str:
    """Why clients should not come to this node; empty when they should: what ``/readyz`` asks, as a sentence."""
    core = node.core
    controller = core.controller
    if not node.alive or not node.serving:
        return core.waits_for or "this node is not serving"
    if not controller.offset or controller.leader_id is None:
        return core.waits_for or "there is no leader"
    if not core.engine.caught_up:
        return "this node has not caught up with what is committed"
    if not core.comparison.agrees:
        return "this node's state differs from another's"
    return ""


def _place(voter: VoterSettings) -> Place:
    return Place(
        node_id=voter.id,
        rpc=voter.rpc,
        raft=voter.raft,
        kafka=voter.kafka,
        http=voter.http,
        grpc=voter.grpc,
        zone=voter.zone,
    )


def _info(settings: NodeSettings) -> NodeInfo:
    return NodeInfo(
        settings.node.id,
        settings.cluster.id,
        VERSION,
        settings.kafka.topic,
        settings.me.rpc,
        python=interpreter(),
        leaf=leaf(),
        grpc={voter.id: voter.grpc for voter in settings.cluster.voters},
    )


def _java_facts(settings: NodeSettings) -> dict[str, str]:
    """This node's own settings under the names of Java's ``ControllerConfig``, for 1010."""
    controller, policy = settings.controller, settings.policy
    return {
        **parse(settings.remoting.java),
        "enableElectUncleanMaster": str(policy.enable_elect_unclean_master).lower(),
        "notifyBrokerRoleChanged": str(policy.notify_broker_role_changed).lower(),
        "scanNotActiveBrokerInterval": str(int(controller.live_scan_period_s * 1000)),
        "scanInactiveMasterInterval": str(int(controller.inactive_master_scan_period_s * 1000)),
    }
