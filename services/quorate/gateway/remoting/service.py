"""What each request means: one function and one route line per code.

Rules: parse, ask the two hooks, submit or look, answer; no decision is taken here. A one-way request is done and never
answered. Every request is answered within the controller's deadline (2.5 s; Java clients give up after 3).
Source: Java ``ControllerRequestProcessor``; topics: ``AdminBrokerProcessor``.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec

from quorate.controller.live import Beat, Channel, LiveEntry
from quorate.controller.outcomes import Answered, Caller, Outcome, QueryResult
from quorate.controller.views import ReadResult, ReadView, answered
from quorate.errors import PeerError, UsageError
from quorate.gateway.access import Access, NoQuota, OpenAccess, Quota
from quorate.gateway.fresh import Freshness, NotFresh, Seen, asked, is_past
from quorate.gateway.remoting import answers, registration, topics
from quorate.gateway.remoting.exchange import Exchange
from quorate.gateway.remoting.kv import NameServerTexts
from quorate.gateway.remoting.naming import AskTopics, NameServer, no_topics
from quorate.gateway.remoting.node_config import NodeConfig
from quorate.gateway.remoting.server import Connection
from quorate.gateway.remoting.settings import RemotingSettings
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
from quorate.metadata.policy import PolicySettings
from quorate.metrics import Metrics
from quorate.model import queries
from quorate.model.state import BrokerSet, State
from quorate.wire import name_server as names
from quorate.wire import remoting
from quorate.wire.name_server import AnnouncedTopics
from quorate.wire.remoting import (
    AllTopicsRequest,
    AlterSyncStateSetRequest,
    ApplyBrokerIdRequest,
    CleanBrokerDataRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    ElectMasterRequest,
    Frame,
    GetConfigRequest,
    GetTopicRequest,
    HeartbeatRequest,
    Message,
    MetadataRequest,
    NextBrokerIdRequest,
    RegisterBrokerRequest,
    ReplicaInfoRequest,
    Request,
    SyncStateDataRequest,
    UpdateConfigRequest,
    decode_body,
)
from quorate.wire.remoting_headers import (
    ONEWAY_FLAG,
    HeartbeatFields,
    MetadataReplyFields,
    ReadFields,
    RequestCode,
    SyncStateSetBody,
    is_true,
)

_T = TypeVar("_T")
CONFIG_BYTES_MAX: Final = 128 << 10
"""A longer text of settings is answered with code 1: it is read sign by sign, and all that are known are shorter."""
_sync_state_set = msgspec.json.Decoder(SyncStateSetBody)
_names = msgspec.json.Decoder(tuple[str, ...] | None)


class ControllerPort(Protocol):
    """The part of ``quorate.controller.Controller`` that the gateway needs."""

    policy: PolicySettings
    """The node's own, before what the log says."""

    @property
    def leader_id(self) -> int | None:
        """The leader's id, as far as this node knows."""

    @property
    def is_leader(self) -> bool:
        """This node does, and may decide."""

    @property
    def state(self) -> State:
        """The committed state."""

    def submit(
        self, command: Command, caller: Caller, done: Callable[[Outcome], None], *, cause: str, forward: bool
    ) -> None:
        """Have it decided; ``done`` is called once."""

    def read(
        self,
        level: Literal["linearizable", "stale"],
        done: Callable[[ReadResult], None],
        *,
        forward: bool,
        timeout_s: float | None = None,
    ) -> None:
        """Look at this node's state."""

    def heartbeat(self, beat: Beat, channel: Channel) -> None:
        """A broker lives."""

    def channel_closed(self, channel: Channel) -> None:
        """Its connection ended."""


class FreshPort(Protocol):
    """The part of ``quorate.gateway.fresh.FreshReader`` that the gateway needs."""

    def read(self, freshness: Freshness, seen: Seen, *, forward: bool, started: float | None = None) -> None:
        """A state as fresh as asked, or why there is none; ``seen`` is called once. ``started``: since when its time
        has run.
        """


def needed(value: _T | None, name: str) -> _T:
    """A field Java cannot do without either (its handler ends in an exception: code 1). Raises UsageError."""
    if value is None:
        raise UsageError(f"{name} is missing")
    return value


class RemotingService:
    """Serves one node's controller to RocketMQ's brokers and tools.

    ``addresses``: node id → ``host:port`` brokers reach that node's remoting listener at. ``connected``: does this node
    reach that one now? ``facts``: what 1010 shows
    beside Java's defaults. ``group``: the name 1005 answers (Java ``controllerDLegerGroup``). ``ask_topics``: asks a
    broker for its topics.
    """

    def __init__(
        self,
        controller: ControllerPort,
        fresh: FreshPort,
        settings: RemotingSettings,
        *,
        node_id: int,
        group: str,
        addresses: Mapping[int, str],
        now: Callable[[], float],
        connected: Callable[[int], bool] = lambda _node: False,
        facts: Mapping[str, str] | None = None,
        ask_topics: AskTopics = no_topics,
        access: Access | None = None,
        quota: Quota | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._controller = controller
        self._fresh = fresh
        self._settings = settings
        self._node_id = node_id
        self._group = group
        self._addresses = dict(addresses)
        self._connected = connected
        self._peers = "".join(f"n{node}:{addresses[node]};" for node in sorted(addresses))
        self._config = NodeConfig(node_id, {**_facts(node_id, group, addresses, settings), **(facts or {})})
        self._access = access or OpenAccess()
        self._quota = quota or NoQuota()
        self._guarded = access is not None or quota is not None
        self._epochs_required = settings.registration_epochs_required
        self.metrics = metrics or Metrics()
        self._replica_info: dict[str, tuple[BrokerSet, Message]] = {}
        self._all_topics: tuple[State, int, Message] | None = None
        self.now = now
        self.names = NameServer(self, settings, ask_topics) if settings.name_server else None
        self.texts = NameServerTexts(self)
        if self.names is not None:
            _gauges(self.metrics, self.names)

    # -- server.Service

    def heartbeat(self, request: HeartbeatRequest, connection: Connection) -> Message | None:
        """904: into the live table of this node, whoever leads (Java ``handleBrokerHeartbeat``)."""
        fields = request.fields
        if fields.broker_id is None:
            return answers.HEARTBEAT_WITHOUT_ID
        if len(fields.cluster) + len(fields.broker_set) + len(fields.address) > self._settings.names_max:
            return answers.NAMES_TOO_LONG
        if self._guarded and not self._permitted(connection, "Heartbeat", f"broker-set/{fields.broker_set}"):
            return answers.FORBIDDEN
        if fields.registration_epoch is not None or self._epochs_required:
            refusal = self._of_another_life(fields)
            if refusal is not None:
                return refusal
        self._controller.heartbeat(fields, connection)
        if self.names is not None and self.names.announced.impatient:
            self.names.beat(fields.cluster, fields.address)
        return answers.HEARTBEAT_OK

    def _of_another_life(self, fields: HeartbeatFields) -> Message | None:
        """Why it is not heard: as far as this node has applied, the broker registered again since."""
        epoch = fields.registration_epoch
        if epoch is None:
            return answers.EPOCH_NEEDED
        broker_set = self._controller.state.broker_sets.get(fields.broker_set)
        replica = None if broker_set is None else broker_set.replica(fields.broker_id)
        if replica is None or epoch >= replica.registration_epoch:
            return None
        return answers.superseded(replica.registration_epoch)

    def handle(self, request: Request, frame: Frame, connection: Connection) -> None:
        """Everything else."""
        name, route = _KINDS.get(request.__class__, _UNKNOWN)
        oneway = request.flag & ONEWAY_FLAG != 0
        exchange = Exchange(self, connection, frame.header_type, request.opaque, oneway, name, self.now())
        if route is None:
            exchange.reply(answers.not_supported(remoting.code_of(request)))
        elif len(frame.body) > self._body_bytes_max(request):
            exchange.reply(answers.failed(f"a body of {len(frame.body)} bytes is too large"))
        else:
            try:
                route(self, request, frame.body, exchange)
            except (PeerError, UsageError) as error:
                exchange.reply(answers.failed(str(error)))

    def closed(self, connection: Connection) -> None:
        """The channel of some broker, maybe."""
        self._controller.channel_closed(connection)
        if self.names is not None:
            self.names.closed(connection)

    def _body_bytes_max(self, request: Request) -> int:
        if request.__class__ is names.AnnounceRequest:
            return self._settings.announcement_bytes_max
        if request.__class__ in (UpdateConfigRequest, names.UpdateNameServerConfigRequest):
            return min(CONFIG_BYTES_MAX, self._settings.body_bytes_max)
        return self._settings.body_bytes_max

    def knows(self, connection: Connection) -> bool:
        """The broker last heard on it is registered, and was heard on no other connection since."""
        entry = connection.last
        if not isinstance(entry, LiveEntry) or entry.channel is not connection:
            return False
        broker_set = self._controller.state.broker_sets.get(entry.broker_set)
        replica = broker_set.replica(entry.broker_id) if broker_set is not None else None
        return replica is not None and replica.registered and replica.address == entry.address

    # -- naming.Host

    @property
    def state(self) -> State:
        """The committed state."""
        return self._controller.state

    def admitted(self, exchange: Exchange, operation: str, resource: str) -> bool:
        """May it? A refusal is answered."""
        return not self._guarded or self._admitted(exchange, operation, resource)

    def catch_up(self, done: Callable[[bool], None]) -> None:
        """Apply what is committed by now; False: how far that is cannot be known."""
        self._controller.read(
            "linearizable",
            lambda view: done(isinstance(view, ReadView)),
            forward=True,
            timeout_s=self._settings.leader_check_s,
        )

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

    def submit(
        self,
        exchange: Exchange,
        command: Command,
        resource: str,
        done: Callable[[Outcome], None] | None = None,
    ) -> None:
        """Have it decided, and answer what became of it, or have ``done`` do so."""
        if not self._guarded or self._admitted(exchange, command.__class__.__name__, resource):
            self._decide(exchange, command, done)

    def _decide(self, exchange: Exchange, command: Command, done: Callable[[Outcome], None] | None = None) -> None:
        exchange.command = command
        self._controller.submit(
            command,
            exchange.connection.caller,
            done or exchange.decided,
            cause=exchange.name,
            forward=self._settings.forward_to_leader,
        )

    def look(
        self,
        exchange: Exchange,
        fields: ReadFields,
        operation: str,
        resource: str,
        answer: Callable[[ReadView], Message],
        *,
        large: bool = False,
    ) -> None:
        """A read: linearizable and answered as by Java, or as fresh as the request says, and stamped.

        ``large``: the answer grows with the cluster, so it is not made in the turn in which the state is known: that
        of a thousand others may be known in the same one.
        """
        forward = self._settings.forward_to_leader
        if self._guarded and not self._admitted(exchange, operation, resource):
            return
        if fields.level is None and fields.at is None and fields.min_offset is None:

            def seen(view: ReadResult) -> None:
                if not isinstance(view, ReadView):
                    exchange.reply(answers.read_answer(view))
                elif large:
                    exchange.later(lambda: answer(view))
                else:
                    exchange.reply(answer(view))

            self._controller.read("linearizable", seen, forward=forward)
            return

        def found(view: ReadView | NotFresh) -> None:
            if not isinstance(view, ReadView):
                exchange.reply(answers.not_fresh(view))
            elif large:
                exchange.later(lambda: answers.stamped(answer(view), view))
            else:
                exchange.reply(answers.stamped(answer(view), view))

        self._fresh.read(asked(fields.level or "", fields.min_offset or "", fields.at or ""), found, forward=forward)

    def _query(self, exchange: Exchange, fields: ReadFields, query: queries.Query, resource: str) -> None:
        self.look(
            exchange,
            fields,
            query.__class__.__name__,
            resource,
            lambda view: answers.read_answer(answered(query, view)),
        )

    # -- broker ids and registration

    def apply_broker_id(self, request: ApplyBrokerIdRequest, body: bytes, exchange: Exchange) -> None:
        """1013."""
        fields = request.fields
        name = needed(fields.broker_name, "brokerName")
        command = ApplyBrokerId(
            cluster=fields.cluster_name,
            broker_set=name,
            broker_id=fields.applied_broker_id,
            register_check_code=fields.register_check_code,
        )
        self.submit(exchange, command, f"broker-set/{name}")

    def next_broker_id(self, request: NextBrokerIdRequest, body: bytes, exchange: Exchange) -> None:
        """1012."""
        fields = request.fields
        name = needed(fields.broker_name, "brokerName")
        query = queries.NextBrokerId(cluster=fields.cluster_name, broker_set=name)
        self._query(exchange, fields, query, f"broker-set/{name}")

    def register_broker(self, request: RegisterBrokerRequest, body: bytes, exchange: Exchange) -> None:
        """1003; a body tells capabilities and topics, and ``withTopology`` asks for more than Java's answer."""
        fields = request.fields
        if fields.registration_epoch is None and self._epochs_required:
            exchange.reply(answers.EPOCH_NEEDED)
            return
        name = needed(fields.broker_name, "brokerName")
        content = registration.decode_body(body)
        broker_id = needed(fields.broker_id, "brokerId")
        command = RegisterBroker(
            cluster=fields.cluster_name,
            broker_set=name,
            broker_id=broker_id,
            address=fields.broker_address,
            capabilities=content.capabilities,
            topics=content.all_topics,
            registration_epoch=fields.registration_epoch,
        )
        told: Callable[[Outcome], None] = exchange.decided
        if is_true(fields.with_topology):
            told = partial(self._registered, exchange, name, broker_id)
        if content.of_java.topic_config_table:
            told = partial(self._with_topics, told, command, content.of_java)
        self.submit(exchange, command, f"broker-set/{name}", told)

    def _with_topics(
        self, told: Callable[[Outcome], None], command: RegisterBroker, table: AnnouncedTopics, outcome: Outcome
    ) -> None:
        """What Java's body says of topics is taken as if the set's master had been asked (21); the registration holds
        whatever they are.
        """
        known = self._controller.state.known(command.broker_set)
        serves = known is not None and known.master in (None, command.broker_id)
        if known is not None and serves and self.names is not None and isinstance(outcome, Answered):
            with suppress(PeerError):
                self.names.told(known.name, known.cluster, table)
        told(outcome)

    def _registered(self, exchange: Exchange, name: str, broker_id: int, outcome: Outcome) -> None:
        """Answer with what the broker's set looks like, once this node has applied the registration; where it has not
        within the time of the request, without it: the registration holds.
        """
        if not isinstance(outcome, Answered):
            exchange.decided(outcome)
            return

        def seen(view: ReadView | NotFresh) -> None:
            message = answers.command_answer(exchange.command, outcome)
            if isinstance(view, ReadView):
                leader = self._controller.leader_id
                address = None if leader is None else self._addresses.get(leader)
                told = registration.topology(view.state, self._controller.policy, name, broker_id, leader, address)
                message = Message(message.code, {**message.fields, **told}, body=message.body)
            exchange.reply(message)

        applied = Freshness(linearizable=False, min_offset=outcome.offset)
        self._fresh.read(applied, seen, forward=False, started=exchange.started)

    def clean_broker_data(self, request: CleanBrokerDataRequest, body: bytes, exchange: Exchange) -> None:
        """1011."""
        fields = request.fields
        name = needed(fields.broker_name, "brokerName")
        command = CleanBrokerData(
            cluster=fields.cluster_name,
            broker_set=name,
            broker_ids=fields.broker_controller_ids_to_clean,
            clean_living=is_true(fields.is_clean_living_broker),
            registration_epoch=fields.registration_epoch,
        )
        self.submit(exchange, command, f"broker-set/{name}")

    # -- masters and sync state sets

    def elect_master(self, request: ElectMasterRequest, body: bytes, exchange: Exchange) -> None:
        """1002: a broker that asks for itself, or an admin who designates."""
        fields = request.fields
        designate = is_true(fields.designate_elect)
        command = ElectMaster(
            cluster=fields.cluster_name,
            broker_set=fields.broker_name,
            broker_id=None if fields.broker_id == -1 else fields.broker_id,
            designate=designate,
            trigger="admin" if designate else "broker",
        )
        self.submit(exchange, command, f"broker-set/{fields.broker_name}")

    def alter_sync_state_set(self, request: AlterSyncStateSetRequest, body: bytes, exchange: Exchange) -> None:
        """1001; a missing body is for the decision to refuse, an unreadable one is code 1."""
        fields = request.fields
        name = needed(fields.broker_name, "brokerName")
        content = decode_body(body, _sync_state_set) if body else None
        command = AlterSyncStateSet(
            broker_set=name,
            master=fields.master_broker_id,
            master_epoch=-1 if fields.master_epoch is None else fields.master_epoch,
            sync_state_set=None if content is None else content.sync_state_set,
            sync_state_set_epoch=0 if content is None else content.sync_state_set_epoch,
        )
        self.submit(exchange, command, f"broker-set/{name}")

    def replica_info(self, request: ReplicaInfoRequest, body: bytes, exchange: Exchange) -> None:
        """1004, polled by every broker: answered from encoded bytes kept beside the value they encode."""
        fields = request.fields
        name = needed(fields.broker_name, "brokerName")
        self.look(
            exchange, fields, "ReplicaInfo", f"broker-set/{name}", lambda view: self._replica_info_answer(name, view)
        )

    def _replica_info_answer(self, name: str, view: ReadView) -> Message:
        query = queries.ReplicaInfo(broker_set=name)
        if is_past(view):
            return answers.read_answer(answered(query, view))
        broker_set = view.state.known(name)
        kept = self._replica_info.get(name)
        if kept is not None and kept[0] is broker_set:
            return kept[1]
        result = queries.answer(query, view.state, view.live)
        if broker_set is None or isinstance(result, queries.Absent):
            self._replica_info.pop(name, None)
            return answers.NO_SUCH_SET
        message = answers.read_answer(QueryResult(result, view.offset))
        if len(self._replica_info) > len(view.state.broker_sets):
            self._replica_info.clear()
        self._replica_info[name] = (broker_set, message)
        return message

    def sync_state_data(self, request: SyncStateDataRequest, body: bytes, exchange: Exchange) -> None:
        """1006."""
        query = queries.SyncStateData(broker_sets=decode_body(body, _names) if body else None)
        self.look(
            exchange,
            request.fields,
            "SyncStateData",
            "cluster",
            lambda view: answers.read_answer(answered(query, view)),
            large=True,
        )

    # -- the node

    def metadata(self, request: MetadataRequest, body: bytes, exchange: Exchange) -> None:
        """1005, by any node, which names a leader (or whom a broker is sent to) only when a leader has just proved that
        it leads.

        A broker stays with the named leader for 10 s, and a paused or isolated node may still believe in an old one.
        """

        def asked(view: ReadResult) -> None:
            leader = self._controller.leader_id if isinstance(view, ReadView) else None
            named = leader
            if leader is not None and self._settings.spread_brokers:
                named = self._node_for(exchange.connection, leader)
            exchange.reply(self._metadata_answer(leader, named))

        self._controller.read("linearizable", asked, forward=True, timeout_s=self._settings.leader_check_s)

    def _node_for(self, connection: Connection, leader: int) -> int:
        """Which node a broker is sent to: of those that are connected the one of the highest weight, so that a node
        that goes or comes moves its own brokers alone (rendezvous hashing, Thaler and Ravishankar 1996).
        """
        entry = connection.last
        if not isinstance(entry, LiveEntry):
            return leader
        broker = f"{entry.broker_set}/{entry.broker_id}"
        nodes = [node for node in self._addresses if node in (self._node_id, leader) or self._connected(node)]
        return max(nodes, key=lambda node: blake2b(f"{node}/{broker}".encode(), digest_size=8).digest())

    def _metadata_answer(self, leader: int | None, named: int | None) -> Message:
        address = None if named is None else self._addresses.get(named)
        fields = MetadataReplyFields(
            group=self._group,
            controller_leader_id=None if address is None else f"n{named}",
            controller_leader_address=address,
            is_leader=leader == self._node_id,
            peers=self._peers,
        )
        return Message(0, fields)

    def get_config(self, request: GetConfigRequest, body: bytes, exchange: Exchange) -> None:
        """1010."""
        if not self._guarded or self._admitted(exchange, "GetConfig", self._config.scope):
            exchange.reply(Message(0, body=self._config.text(self._controller.state).encode()))

    def update_config(self, request: UpdateConfigRequest, body: bytes, exchange: Exchange) -> None:
        """1009; the text is long in the reading, so it is read for those alone who may change something."""
        if self._guarded and not self._admitted(exchange, ChangeConfig.__name__, self._config.scope):
            return
        try:
            changes = self._config.changes(body.decode(errors="replace"))
        except UsageError:
            exchange.reply(answers.UNREADABLE_CONFIG)
            return
        if changes is None:
            exchange.reply(answers.BLACK_LISTED)
        elif not changes:
            exchange.reply(answers.OK)
        else:
            self._decide(exchange, ChangeConfig(scope=self._config.scope, changes=changes))

    # -- topics

    def create_topic(self, request: CreateTopicRequest, body: bytes, exchange: Exchange) -> None:
        """17."""
        fields = request.fields
        if fields.read_queue_nums is None or fields.write_queue_nums is None or fields.perm is None:
            raise UsageError("readQueueNums, writeQueueNums and perm are needed")
        command = PutTopic(
            topic=fields.topic,
            read_queues=fields.read_queue_nums,
            write_queues=fields.write_queue_nums,
            permission=fields.perm,
            filter_type=fields.topic_filter_type,
            system_flags=fields.topic_sys_flag or 0,
            order=is_true(fields.order),
            attributes=topics.parse_attributes(fields.attributes),
        )
        self.submit(exchange, command, f"topic/{fields.topic}")

    def delete_topic(self, request: DeleteTopicRequest, body: bytes, exchange: Exchange) -> None:
        """215."""
        self.submit(exchange, DeleteTopic(topic=request.fields.topic), f"topic/{request.fields.topic}")

    def get_topic(self, request: GetTopicRequest, body: bytes, exchange: Exchange) -> None:
        """351."""
        fields = request.fields
        self._query(exchange, fields, queries.TopicConfig(topic=fields.topic), f"topic/{fields.topic}")

    def all_topics(self, request: AllTopicsRequest, body: bytes, exchange: Exchange) -> None:
        """21: the encoded answer is kept until something happens."""
        self.look(exchange, request.fields, "TopicList", "cluster", self._all_topics_answer, large=True)

    def _all_topics_answer(self, view: ReadView) -> Message:
        kept = self._all_topics
        if kept is not None and kept[0] is view.state and kept[1] == view.offset:
            return kept[2]
        message = answers.read_answer(answered(queries.TopicList(), view))
        if not is_past(view):
            self._all_topics = (view.state, view.offset, message)
        return message


_Route = Callable[[RemotingService, Any, bytes, Exchange], None]


def _if_name_server(route: Callable[[RemotingService, NameServer, Any, bytes, Exchange], None]) -> _Route:
    """The route of a name server's request; not supported where this node is none (``name_server``)."""

    def answer(service: RemotingService, request: Any, body: bytes, exchange: Exchange) -> None:
        if service.names is None:
            exchange.reply(answers.not_supported(remoting.code_of(request)))
        else:
            route(service, service.names, request, body, exchange)

    return answer


def _named(route: Callable[[NameServer, Any, bytes, Exchange], None]) -> _Route:
    return _if_name_server(lambda _, naming, *asked: route(naming, *asked))


def _kept(route: Callable[[NameServerTexts, Any, bytes, Exchange], None]) -> _Route:
    return _if_name_server(lambda service, _, *asked: route(service.texts, *asked))


_ROUTES: Mapping[type[Request], _Route] = {
    AlterSyncStateSetRequest: RemotingService.alter_sync_state_set,
    ElectMasterRequest: RemotingService.elect_master,
    RegisterBrokerRequest: RemotingService.register_broker,
    ReplicaInfoRequest: RemotingService.replica_info,
    MetadataRequest: RemotingService.metadata,
    SyncStateDataRequest: RemotingService.sync_state_data,
    UpdateConfigRequest: RemotingService.update_config,
    GetConfigRequest: RemotingService.get_config,
    CleanBrokerDataRequest: RemotingService.clean_broker_data,
    NextBrokerIdRequest: RemotingService.next_broker_id,
    ApplyBrokerIdRequest: RemotingService.apply_broker_id,
    CreateTopicRequest: RemotingService.create_topic,
    DeleteTopicRequest: RemotingService.delete_topic,
    GetTopicRequest: RemotingService.get_topic,
    AllTopicsRequest: RemotingService.all_topics,
    names.UpdateNameServerConfigRequest: _if_name_server(lambda service, _, *asked: service.update_config(*asked)),
    names.GetNameServerConfigRequest: _if_name_server(lambda service, _, *asked: service.get_config(*asked)),
    names.PutKvRequest: _kept(NameServerTexts.put_kv),
    names.GetKvRequest: _kept(NameServerTexts.get_kv),
    names.DeleteKvRequest: _kept(NameServerTexts.delete_kv),
    names.KvListRequest: _kept(NameServerTexts.kv_list),
    **{
        kind: _named(route)
        for kind, route in (
            (names.AnnounceRequest, NameServer.announce),
            (names.WithdrawRequest, NameServer.withdraw),
            (names.DataVersionRequest, NameServer.data_version),
            (names.MemberGroupRequest, NameServer.member_group),
            (names.ClusterInfoRequest, NameServer.cluster_info),
            (names.WipeWriteRequest, NameServer.permit),
            (names.AddWriteRequest, NameServer.permit),
            (names.RouteRequest, NameServer.route),
            (names.TopicNamesRequest, NameServer.topic_names),
            (names.ClusterTopicsRequest, NameServer.cluster_topics),
            (names.SystemTopicsRequest, NameServer.system_topics),
            (names.UnitTopicsRequest, NameServer.unit_topics),
            (names.UnitSubTopicsRequest, NameServer.unit_topics),
            (names.UnitSubUnunitTopicsRequest, NameServer.unit_topics),
            (names.AnnounceTopicRequest, NameServer.announce_topic),
            (names.ForgetTopicRequest, NameServer.forget_topic),
        )
    },
}
"""904 is not here: the server takes it before anything else. 1008 goes the other way and is not supported."""

_KINDS: Mapping[type[Request], tuple[str, _Route | None]] = {
    kind: (RequestCode(code).name, _ROUTES.get(kind)) for code, kind in remoting.REQUEST_TYPES.items()
}
"""How each request is counted, and who answers it."""
_UNKNOWN: tuple[str, _Route | None] = ("UNKNOWN", None)


def _gauges(metrics: Metrics, naming: NameServer) -> None:
    """What a name server keeps."""
    metrics.gauge(
        "announced_brokers",
        "Brokers that announced themselves to this node as their name server.",
        lambda: len(naming.announced),
    )
    metrics.gauge(
        "announced_topics",
        "Topics that brokers announced to this node, each counted once for every set that has it.",
        lambda: naming.announced.queues,
    )


def _facts(node_id: int, group: str, addresses: Mapping[int, str], settings: RemotingSettings) -> dict[str, str]:
    """What a Java controller would have in its file for this node to be what it is."""
    return {
        "controllerDLegerGroup": group,
        "controllerDLegerPeers": ";".join(f"n{node}-{addresses[node]}" for node in sorted(addresses)),
        "controllerDLegerSelfId": f"n{node_id}",
        "serverChannelMaxIdleTimeSeconds": str(int(settings.idle_deadline_s)),
        "serverSocketBacklog": str(settings.backlog),
        "listenPort": addresses[node_id].rpartition(":")[2] if node_id in addresses else "",
    }
