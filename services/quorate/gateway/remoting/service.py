"""What each request means: one function and one route line per code.

Rules: parse, ask the two hooks, submit or query, answer; no decision is taken here. A one-way request is done and never
answered. Every request is answered within the controller's deadline (2.5 s; Java clients give up after 3).
Source: Java ``ControllerRequestProcessor``; topics: ``AdminBrokerProcessor``.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from quorate.controller.live import Channel, Heartbeat
from quorate.controller.loop import ReadView
from quorate.controller.messages import Found, NotFound, ReadOutcome
from quorate.controller.outcomes import Answered, Busy, Caller, NotLeader, Outcome, Refused, Unavailable, UnknownOutcome
from quorate.errors import PeerError, UsageError
from quorate.gateway.access import Access, NoQuota, OpenAccess, Quota
from quorate.gateway.remoting import answers, properties, topics
from quorate.gateway.remoting.node_config import NodeConfig
from quorate.gateway.remoting.server import Connection
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.metadata import queries
from quorate.metadata.commands import (
    AlterSyncStateSet,
    ApplyBrokerId,
    ChangeConfig,
    CleanBrokerData,
    Command,
    DeleteTopic,
    ElectMaster,
    PutTopic,
    RegisterBroker,
)
from quorate.metadata.refusals import response
from quorate.metadata.state import BrokerSet, State
from quorate.metrics import Metrics
from quorate.wire import remoting
from quorate.wire.remoting import Frame, HeaderType, HeartbeatRequest, Message, Request, decode_body
from quorate.wire.remoting_headers import (
    Fields,
    MetadataReplyFields,
    NextBrokerIdReplyFields,
    ReplicaBody,
    ReplicaInfoReplyFields,
    ReplicasBody,
    RequestCode,
    SyncStateDataBody,
    SyncStateSetBody,
    TopicListReplyFields,
    is_true,
)

_json = msgspec.json.Encoder().encode
_sync_state_set = msgspec.json.Decoder(SyncStateSetBody)
_names = msgspec.json.Decoder(tuple[str, ...] | None)


class ControllerPort(Protocol):
    """What the gateway needs of ``quorate.controller.Controller``."""

    @property
    def leader_id(self) -> int | None: ...

    @property
    def is_leader(self) -> bool: ...

    @property
    def state(self) -> State: ...

    def submit(
        self, command: Command, caller: Caller, done: Callable[[Outcome], None], *, cause: str, forward: bool
    ) -> None: ...

    def read(self, level: str, done: Callable[[ReadView | NotLeader | Unavailable], None]) -> None: ...

    def forward_read(
        self, query: queries.Query, done: Callable[[ReadOutcome], None], *, forward: bool
    ) -> None: ...

    def heartbeat(self, beat: Heartbeat, channel: Channel) -> None: ...

    def channel_closed(self, channel: Channel) -> None: ...


class RegisterBody(msgspec.Struct, frozen=True, gc=False):
    """What a broker may say of itself with 1003; stock brokers send no body."""

    capabilities: dict[str, str] = {}
    topics: tuple[str, ...] = ()


_register_body = msgspec.json.Decoder(RegisterBody)


class Exchange:
    """One request until it is answered, exactly once."""

    __slots__ = ("_header_type", "_opaque", "_service", "_started", "connection", "name", "oneway")

    def __init__(self, service: "RemotingService", request: Request, header_type: HeaderType, connection: Connection):
        self._service = service
        self._header_type = header_type
        self._opaque = request.opaque
        self._started = service.now()
        self.connection = connection
        self.oneway = request.oneway
        self.name = _NAMES.get(request.__class__, "UNKNOWN")

    def reply(self, message: Message) -> None:
        """Answer and count it."""
        self.connection.answer(self._header_type, self._opaque, None if self.oneway else message)
        self._service.count(self.name, message.code, self._started)


_NAMES: dict[type[Request], str] = {
    kind: RequestCode(code).name for code, kind in remoting.REQUEST_TYPES.items()
}
_Handler = Callable[["RemotingService", Request, bytes, Exchange], None]


class RemotingService:
    """Serves one node's controller to RocketMQ's brokers and tools.

    ``addresses``: node id → ``host:port`` brokers reach that node's remoting listener at. ``facts``: what 1010 shows
    beside Java's defaults. ``group``: the name 1005 answers (Java ``controllerDLegerGroup``).
    """

    def __init__(
        self,
        controller: ControllerPort,
        settings: RemotingSettings,
        *,
        node_id: int,
        group: str,
        addresses: Mapping[int, str],
        now: Callable[[], float],
        facts: Mapping[str, str] | None = None,
        access: Access | None = None,
        quota: Quota | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._controller = controller
        self._settings = settings
        self._node_id = node_id
        self._group = group
        self._addresses = dict(addresses)
        self._peers = "".join(f"n{node}:{addresses[node]};" for node in sorted(addresses))
        self._config = NodeConfig(node_id, {**_facts(node_id, group, addresses), **(facts or {})})
        self._access = access or OpenAccess()
        self._quota = quota or NoQuota()
        self._guard_heartbeats = access is not None or quota is not None
        self._metrics = metrics or Metrics()
        self._replica_info: dict[str, tuple[BrokerSet, Message]] = {}
        self.now = now

    # -- server.Service

    def heartbeat(self, request: HeartbeatRequest, connection: Connection) -> Message | None:
        """904: into the live table of this node, whoever leads (Java ``handleBrokerHeartbeat``)."""
        fields = request.fields
        if fields.broker_id is None:
            return answers.HEARTBEAT_WITHOUT_ID
        if self._guard_heartbeats and not self._permitted(connection, "Heartbeat", f"broker-set/{fields.broker_name}"):
            return answers.FORBIDDEN
        self._controller.heartbeat(
            Heartbeat(
                fields.cluster_name,
                fields.broker_name,
                fields.broker_id,
                fields.broker_addr,
                -1 if fields.epoch is None else fields.epoch,
                -1 if fields.max_offset is None else fields.max_offset,
                -1 if fields.confirm_offset is None else fields.confirm_offset,
                10_000 if fields.heartbeat_timeout_mills is None else fields.heartbeat_timeout_mills,
                0x7FFFFFFF if fields.election_priority is None else fields.election_priority,
            ),
            connection,
        )
        return answers.HEARTBEAT_OK

    def handle(self, request: Request, frame: Frame, connection: Connection) -> None:
        """Everything else."""
        exchange = Exchange(self, request, frame.header_type, connection)
        route = _ROUTES.get(request.__class__)
        if route is None:
            exchange.reply(answers.not_supported(remoting.code_of(request)))
        elif len(frame.body) > self._settings.body_bytes_max:
            exchange.reply(answers.failed(f"a body of {len(frame.body)} bytes is too large"))
        else:
            try:
                route(self, request, frame.body, exchange)
            except (PeerError, UsageError) as error:
                exchange.reply(answers.failed(str(error)))

    def closed(self, connection: Connection) -> None:
        """The channel of some broker, maybe."""
        self._controller.channel_closed(connection)

    # -- counting

    def count(self, name: str, code: int, started: float) -> None:
        """One request ended (RocketMQ ``request_total``, ``request_latency``)."""
        status = "failed" if code in (1, 2) else "success"
        self._metrics.requests[name, status] += 1
        self._metrics.request_us[name].observe(int((self.now() - started) * 1e6))

    # -- the two ways out

    def _permitted(self, connection: Connection, operation: str, resource: str) -> bool:
        return self._access.authorize(connection.caller.principal, operation, resource)

    def _admitted(self, exchange: Exchange, operation: str, resource: str) -> bool:
        """Ask both hooks; a refusal is answered here."""
        if not self._permitted(exchange.connection, operation, resource):
            exchange.reply(answers.FORBIDDEN)
            return False
        if not self._quota.admit(exchange.connection.caller.principal, operation):
            exchange.reply(answers.BUSY)
            return False
        return True

    def _submit(self, exchange: Exchange, command: Command, resource: str) -> None:
        if not self._admitted(exchange, command.__class__.__name__, resource):
            return

        def done(outcome: Outcome) -> None:
            exchange.reply(answers.command_answer(command, outcome))

        self._controller.submit(
            command,
            exchange.connection.caller,
            done,
            cause=exchange.name,
            forward=self._settings.forward_to_leader,
        )
