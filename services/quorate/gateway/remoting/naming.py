"""The name server's requests: each node answers brokers, clients and tools as RocketMQ's name server does.

Rules: any node answers, from what brokers announced to it and from its own committed state, without asking the leader.
Of a set that the controller knows, the state says who is master and who serves, so a route names a new master as soon
as its election is applied; where a topic is, brokers say (``announced``). A node that was told nothing by a set (it has
just begun) asks the set's master before it says that there is no such topic.
Source: Java ``DefaultRequestProcessor``, ``ClientRequestProcessor`` and ``RouteInfoManager`` of 5.3.3.
"""

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from math import inf
from typing import Any, Final

import msgspec

from quorate.errors import PeerError, UsageError
from quorate.gateway.remoting import answers
from quorate.gateway.remoting.announced import READ_WRITE, SILENT_AFTER_S, WRITE, Announced, Broker, FullError, Set
from quorate.gateway.remoting.exchange import Exchange
from quorate.gateway.remoting.kv import KEYS, Host, KeptTable
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.metadata.commands import DeleteTopic
from quorate.metadata.texts import parse_address
from quorate.model.routes import MASTER_ID, BrokerData, TopicRoute, addresses, compose
from quorate.model.state import BrokerSet
from quorate.wire.name_server import (
    CRC_MASK,
    AddWriteReplyFields,
    AddWriteRequest,
    AnnouncedTopics,
    AnnounceFields,
    AnnounceReplyFields,
    AnnounceRequest,
    AnnounceTopicRequest,
    ClusterInfoRequest,
    ClusterTopicsRequest,
    DataVersionReplyFields,
    DataVersionRequest,
    ForgetTopicRequest,
    MemberGroupRequest,
    NamesBody,
    RouteRequest,
    SystemTopicsRequest,
    TopicNamesRequest,
    UnitSubTopicsRequest,
    UnitSubUnunitTopicsRequest,
    UnitTopicsRequest,
    WipeWriteReplyFields,
    WipeWriteRequest,
    WithdrawRequest,
    check_mappings,
    decode_announcement,
    decode_queues,
    decode_topics,
    decode_version,
)
from quorate.wire.remoting import Message
from quorate.wire.remoting_headers import BrokerMemberGroupBody, ResponseCode, is_true

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""Java ``NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG``: topic → ``set:queues;…``."""
SMALL_ROUTE: Final = 64
"""Sets in a route; a larger one is made in a turn that has time for it."""
SMALL_SET: Final = 64
"""Topics of a set; a larger one is gone through in such a turn, too."""
ASK_AGAIN_S: Final = 5.0
ASKED_MAX: Final = 64
"""Masters asked for their topics at a time …"""
WAITING_MAX: Final = 1000
"""… and requests that wait for what they say …"""
WAITED_S: Final = 1.0
"""… for so long, and until another master has answered or failed to (``ask_deadline_s``): a client of Java's closes its
connection after 3 s. Whether the topic is there is not known then: it is told to ask again.
"""
UNIT: Final = 1
UNIT_SUB: Final = 2
"""Java ``TopicSysFlag``."""
_NO_ROUTE: Final = (
    "No topic route info in name server for the topic: {}"
    "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
)
_ORDER: Final = f"{KEYS}{ORDER_NAMESPACE}/".encode()
_json = msgspec.json.Encoder().encode

AskTopics = Callable[[str, Callable[[bytes | None], None]], None]
"""Ask a broker for its topics (21): its address, and whom to give the body of its answer, or None."""


class _Route(TopicRoute, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A route as fastjson writes it, what is null left out; of a static topic, where which part of a queue is."""

    order_topic_conf: str | msgspec.UnsetType = msgspec.UNSET  # type: ignore[assignment]
    topic_queue_mapping_by_broker: dict[str, msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET


def no_topics(address: str, done: Callable[[bytes | None], None]) -> None:
    """Nobody can be asked."""
    done(None)


class NameServer:
    """The name server's part of one node."""

    def __init__(self, host: Host, settings: RemotingSettings, ask_topics: AskTopics = no_topics) -> None:
        self._host = host
        self._settings = settings
        self._ask_topics = ask_topics
        self.announced = Announced(settings.announced_max)
        self._ordered = KeptTable(_ORDER)
        self._routes: dict[str, tuple[str | None, Message]] = {}
        self._routes_of: tuple[int, object] = (0, None)
        """Which announcements and sets the kept routes are made of."""
        self._asked: dict[str, float] = {}
        self._asking = 0
        self._filling = False
        self._round: Iterator[tuple[str, BrokerSet]] = iter(())
        """Those that are not asked yet."""
        self._round_of: object = None
        """The sets of the last round: while they are the same, there is nobody to ask …"""
        self._ask_again_at = 0.0
        """… before this, when the first that told nothing may be asked again."""
        self._current = False
        """Since it began, it has known once how far the log goes."""
        self._waiting: deque[tuple[Exchange, str, float]] = deque()
        """Who, for which topic, since when."""

    def _stays(self, broker_set: str) -> bool:
        return self._host.state.known(broker_set) is not None

    def closed(self, channel: object) -> None:
        """A connection ended."""
        self.announced.closed(channel, self._stays)

    # -- brokers

    def announce(self, request: AnnounceRequest, body: bytes, exchange: Exchange) -> None:
        """103."""
        fields = request.fields
        name, address, broker_id = _who(fields)
        if not self._host.admitted(exchange, "AnnounceBroker", f"broker-set/{name}"):
            return
        if fields.body_crc32 and zlib.crc32(body) & CRC_MASK != fields.body_crc32 & CRC_MASK:
            exchange.reply(answers.failed("crc32 not match"))
            return
        texts = (fields.cluster_name, name, address, fields.ha_server_addr or "", fields.zone_name or "")
        if sum(map(len, texts)) > self._settings.names_max:
            exchange.reply(answers.failed("Registration with names that are too long"))
            return
        if parse_address(address) is None or (fields.ha_server_addr and parse_address(fields.ha_server_addr) is None):
            exchange.reply(answers.NO_ADDRESS)
            return
        self._look()
        said = blake2b(body + msgspec.msgpack.encode(fields), digest_size=16).digest()
        before = self.announced.heard(fields.cluster_name, address, self._host.now())
        known = self.announced.sets.get(name)
        same = before is not None and known is not None and (before.said, before.revision) == (said, known.revision)
        if not (same and before is not None and before.channel is exchange.connection):
            failure = self._joined(fields, (name, address, broker_id), body, said, exchange.connection)
            if failure is not None:
                exchange.reply(failure)
                return
        if self._ordered.small(self._host.state):
            exchange.reply(self._announced(fields.cluster_name, name, address, broker_id))
        else:
            exchange.later(lambda: self._announced(fields.cluster_name, name, address, broker_id))

    def _joined(
        self, fields: AnnounceFields, who: tuple[str, str, int], body: bytes, said: bytes, channel: object
    ) -> Message | None:
        """Take it in; or why not."""
        name, address, broker_id = who
        content = decode_announcement(
            body,
            compressed=is_true(fields.compressed),
            bytes_max=self._settings.announcement_bytes_max,
            items_max=self._settings.announced_max,
        )
        table = content.topic_config_serialize_wrapper
        timeout_ms = fields.heartbeat_timeout_millis
        broker = Broker(
            cluster=fields.cluster_name,
            broker_set=name,
            broker_id=broker_id,
            address=address,
            ha_address=fields.ha_server_addr,
            silent_after_s=SILENT_AFTER_S if timeout_ms is None else timeout_ms / 1000,
            version=table.data_version,
            channel=channel,
            heard=self._host.now(),
        )
        acting = is_true(fields.enable_acting_master)
        try:
            news = self.announced.join(
                broker,
                acting_master=acting,
                zone=fields.zone_name,
                topics=len(table.topic_config_table),
                stays=self._stays,
            )
            if news is None:
                return answers.OK
            first = (
                broker_id != MASTER_ID and fields.enable_acting_master is not None and self.announced.first_of(broker)
            )
            if broker_id == MASTER_ID or first:
                self.announced.announce(name, table, all_new=news, read_only=first and acting)
        except KeyError:
            return answers.failed("register broker failed")
        except FullError as error:
            return answers.failed(str(error))
        self.announced.filtered((fields.cluster_name, address), content.filter_server_list or ())
        broker.said, broker.revision = said, self.announced.sets[name].revision
        return None

    def _announced(self, cluster: str, name: str, address: str, broker_id: int) -> Message:
        """The answer: to a slave its master, to all which topics are ordered."""
        state = self._host.state
        decided = state.known(name)
        said = self.announced.sets.get(name)
        master = None
        if decided is not None:
            master = addresses(decided.master, decided.replicas).get(str(MASTER_ID))
        elif said is not None:
            master = said.addresses.get(MASTER_ID)
        if master == address or (decided is None and broker_id == MASTER_ID):
            master = None
        there = None if master is None else self.announced.broker(cluster, master)
        if there is None and decided is None:
            master = None
        fields = AnnounceReplyFields(ha_server_addr=None if there is None else there.ha_address, master_addr=master)
        return Message(0, fields, body=self._ordered.body(state))

    def withdraw(self, request: WithdrawRequest, body: bytes, exchange: Exchange) -> None:
        """104."""
        name, address, _ = _who(request.fields)
        if self._host.admitted(exchange, "WithdrawBroker", f"broker-set/{name}"):
            self.announced.withdraw(request.fields.cluster_name, address, self._stays)
            exchange.reply(answers.OK)

    def data_version(self, request: DataVersionRequest, body: bytes, exchange: Exchange) -> None:
        """322: must it announce its topics?"""
        fields = request.fields
        name, address, _ = _who(fields)
        if not self._host.admitted(exchange, "AnnounceBroker", f"broker-set/{name}"):
            return
        version = decode_version(body) if body else None
        broker = self.announced.heard(fields.cluster_name, address, self._host.now())
        known = None if broker is None else broker.version
        exchange.reply(
            Message(
                0,
                DataVersionReplyFields(changed=known is None or known != version),
                body=b"" if known is None else _json(known),
            )
        )

    def member_group(self, request: MemberGroupRequest, body: bytes, exchange: Exchange) -> None:
        """901."""
        name = request.fields.broker_name or ""
        if not self._host.admitted(exchange, "MemberGroup", f"broker-set/{name}"):
            return
        brokers = {int(one): address for one, address in self._set(name).broker_addrs.items()}
        group = BrokerMemberGroupBody(brokers, name, request.fields.cluster_name)
        exchange.reply(Message(0, body=_json({"brokerMemberGroup": group})))

    def cluster_info(self, request: ClusterInfoRequest, body: bytes, exchange: Exchange) -> None:
        """106."""
        if self._host.admitted(exchange, "ClusterInfo", "cluster"):
            self._look()
            exchange.later(self._cluster_info)

    def _cluster_info(self) -> Message:
        sets = {one.broker_name: one for one in self._serving()}
        clusters: dict[str, list[str]] = {}
        for name, one in sets.items():
            clusters.setdefault(one.cluster, []).append(name)
        return Message(0, body=_json({"brokerAddrTable": sets, "clusterAddrTable": clusters}))

    def permit(self, request: WipeWriteRequest | AddWriteRequest, body: bytes, exchange: Exchange) -> None:
        """205, 327: of this node, until the set's topics change, as in Java."""
        name = request.fields.broker_name or ""
        if not self._host.admitted(exchange, "PermitWrites", f"broker-set/{name}"):
            return
        known = self.announced.sets.get(name)
        if known is not None and len(known.topics) > SMALL_SET:
            exchange.later(lambda: self._permit(request, name))
        else:
            exchange.reply(self._permit(request, name))

    def _permit(self, request: WipeWriteRequest | AddWriteRequest, name: str) -> Message:
        if isinstance(request, WipeWriteRequest):
            return Message(0, WipeWriteReplyFields(self.announced.permit(name, lambda permission: permission & ~WRITE)))
        return Message(0, AddWriteReplyFields(self.announced.permit(name, lambda _: READ_WRITE)))

    # -- routes

    def route(self, request: RouteRequest, body: bytes, exchange: Exchange) -> None:
        """105."""
        topic = request.fields.topic or ""
        if not self._host.admitted(exchange, "Route", f"topic/{topic}"):
            return
        self._look()
        if topic not in self.announced.topics and self._ask():
            if len(self._waiting) < WAITING_MAX:
                self._waiting.append((exchange, topic, self._host.now()))
            else:
                exchange.reply(answers.BUSY)
        elif len(self.announced.topics.get(topic, ())) > SMALL_ROUTE:
            exchange.later(lambda: self._route(topic))
        else:
            exchange.reply(self._route(topic))

    def _route(self, topic: str) -> Message:
        """The answer, kept until something it is made of changes."""
        state = self._host.state
        made_of = (self.announced.revision, state.broker_sets)
        if self._routes_of[0] != made_of[0] or self._routes_of[1] is not made_of[1]:
            self._routes.clear()
            self._routes_of = made_of
        found = state.keys.get(_ORDER + topic.encode())
        order = None if found is None else found.value.decode(errors="replace")
        kept = self._routes.get(topic)
        if kept is not None and kept[0] == order:
            return kept[1]
        holders = self.announced.topics.get(topic, ())
        route = compose((self.announced.sets[name].topics[topic], self._set(name)) for name in holders)
        if not route.broker_datas:
            return Message(ResponseCode.TOPIC_NOT_EXIST, remark=_NO_ROUTE.format(topic))
        message = Message(0, body=_json(self._whole(topic, route, order)))
        self._routes[topic] = (order, message)
        return message

    def _whole(self, topic: str, route: TopicRoute, order: str | None) -> _Route:
        kept = self.announced.filters
        places = [(one.cluster, at) for one in route.broker_datas for at in one.broker_addrs.values()] if kept else ()
        filters = {place[1]: list(kept[place]) for place in places if place in kept}
        return _Route(
            order_topic_conf=msgspec.UNSET if order is None else order,
            queue_datas=route.queue_datas,
            broker_datas=route.broker_datas,
            filter_server_table=filters,
            topic_queue_mapping_by_broker=self.announced.mappings.get(topic, msgspec.UNSET),
        )

    def _set(self, name: str) -> BrokerData:
        """A set as clients are told of it: who serves is decided, where it is known to the controller."""
        decided, said = self._host.state.known(name), self.announced.sets.get(name)
        if decided is not None:
            serving, cluster = addresses(decided.master, decided.replicas), decided.cluster
        elif said is not None:
            serving, cluster = {str(one): said.addresses[one] for one in sorted(said.addresses)}, said.cluster
        else:
            serving, cluster = {}, ""
        return BrokerData(
            cluster=cluster,
            broker_name=name,
            broker_addrs=serving,
            enable_acting_master=said is not None and said.acting_master,
            zone_name=msgspec.UNSET if said is None or said.zone is None else said.zone,
        )

    def _serving(self) -> list[BrokerData]:
        """Every set that somebody of serves, by name."""
        names = sorted({*self.announced.sets, *self._host.state.broker_sets})
        return [one for one in map(self._set, names) if one.broker_addrs]

    def _look(self) -> None:
        self.announced.look(self._host.now(), self._stays)

    def beat(self, cluster: str, address: str) -> None:
        """904, of a broker that wants to be missed soon."""
        self.announced.heard(cluster, address, self._host.now())

    # -- what nobody has told yet

    def _ask(self) -> bool:
        """Ask those who told nothing; is somebody being asked? What a node knows when it begins may be old, so it has
        the leader tell it first how far the log goes.
        """
        if not self._asking and self._current:
            self._begin_round()
        elif not self._asking:
            self._asking += 1
            self._host.catch_up(self._caught_up)
        return self._asking > 0

    def _caught_up(self, current: bool) -> None:
        self._current = current
        self._begin_round()
        self._one_answered()

    def _begin_round(self) -> None:
        """Every set that told nothing is asked once, some at a time; whoever comes meanwhile waits for the same.

        What is told of a set stays while the controller knows it, so a round that would find nobody is not begun.
        """
        sets = self._host.state.broker_sets
        if sets is self._round_of and self._host.now() < self._ask_again_at:
            return
        self._round_of, self._ask_again_at = sets, inf
        if len(self._asked) > 2 * len(sets) + ASKED_MAX:
            self._asked.clear()
        self._round = iter(sets.items())
        self._ask_masters()

    def _ask_masters(self) -> None:
        """The next of the round. Some may answer, or fail, at once."""
        now, self._filling = self._host.now(), True
        while self._asking < ASKED_MAX and (found := next(self._round, None)) is not None:
            name, broker_set = found
            said = self.announced.sets.get(name)
            if said is not None and said.told:
                continue
            before = self._asked.get(name, -ASK_AGAIN_S)
            if now - before < ASK_AGAIN_S:
                self._ask_again_at = min(self._ask_again_at, before + ASK_AGAIN_S)
                continue
            master = addresses(broker_set.master, broker_set.replicas).get(str(MASTER_ID))
            if master is not None:
                self._asked[name] = now
                self._ask_again_at = min(self._ask_again_at, now + ASK_AGAIN_S)
                self._asking += 1
                self._ask_topics(master, self._taker(broker_set))
        self._filling = False

    def _taker(self, broker_set: BrokerSet) -> Callable[[bytes | None], None]:
        def told(body: bytes | None) -> None:
            if body is not None:
                self._told(broker_set.name, broker_set.cluster, body)
            self._one_answered()

        return told

    def _one_answered(self) -> None:
        """Whoever waited is answered when all have; or in time, if that takes longer."""
        self._asking -= 1
        if self._filling:
            return
        self._ask_masters()
        until = self._host.now() - (WAITED_S if self._asking else 0)
        while self._waiting and self._waiting[0][2] <= until:
            exchange, topic, _ = self._waiting.popleft()
            known = not self._asking or topic in self.announced.topics
            exchange.reply(self._route(topic) if known else answers.BUSY)

    def _told(self, name: str, cluster: str, body: bytes) -> None:
        """A master's topics."""
        with suppress(PeerError):
            self.told(name, cluster, decode_topics(body))

    def told(self, name: str, cluster: str, table: AnnouncedTopics) -> None:
        """A set's topics, not by an announcement (103); what was announced meanwhile is newer. Those that are too many
        are left out. Raises PeerError for a table with a mapping that is none: nothing of it is taken.
        """
        check_mappings(table)
        if not self.announced.sets.setdefault(name, Set(cluster=cluster)).told:
            with suppress(FullError):
                self.announced.announce(name, table, all_new=True)

    # -- topics

    def topic_names(self, request: TopicNamesRequest, body: bytes, exchange: Exchange) -> None:
        """206."""
        self._names(exchange, lambda: self.announced.topics)

    def cluster_topics(self, request: ClusterTopicsRequest, body: bytes, exchange: Exchange) -> None:
        """224."""
        sets, cluster = self.announced.sets, request.fields.cluster
        self._names(exchange, lambda: {name for one in sets.values() if one.cluster == cluster for name in one.topics})

    def system_topics(self, request: SystemTopicsRequest, body: bytes, exchange: Exchange) -> None:
        """304: clusters and sets, and the address of a broker who knows the rest."""
        if not self._host.admitted(exchange, "TopicNames", "cluster"):
            return
        self._look()

        def names() -> Message:
            serving = self._serving()
            found = dict.fromkeys(name for one in serving for name in (one.cluster, one.broker_name))
            address = next(iter(serving[0].broker_addrs.values())) if serving else None
            return Message(0, body=_json(NamesBody(tuple(found), address)))

        exchange.later(names)

    def unit_topics(
        self,
        request: UnitTopicsRequest | UnitSubTopicsRequest | UnitSubUnunitTopicsRequest,
        body: bytes,
        exchange: Exchange,
    ) -> None:
        """311, 312, 313."""
        mask, wanted = _FLAGS[type(request)]
        self._names(
            exchange,
            lambda: (
                topic
                for topic, sets in self.announced.topics.items()
                if self.announced.sets[min(sets)].topics[topic].topic_sys_flag & mask == wanted
            ),
        )

    def _names(self, exchange: Exchange, names: Callable[[], Iterable[str]]) -> None:
        if self._host.admitted(exchange, "TopicNames", "cluster"):
            self._look()
            exchange.later(lambda: Message(0, body=_json(NamesBody(tuple(sorted(names()))))))

    def announce_topic(self, request: AnnounceTopicRequest, body: bytes, exchange: Exchange) -> None:
        """217."""
        topic = _needed(request.fields.topic, "topic")
        if not self._host.admitted(exchange, "AnnounceTopic", f"topic/{topic}"):
            return
        try:
            self.announced.announce_topic(topic, decode_queues(body))
            exchange.reply(answers.OK)
        except FullError as error:
            exchange.reply(answers.failed(str(error)))

    def forget_topic(self, request: ForgetTopicRequest, body: bytes, exchange: Exchange) -> None:
        """216: out of this node's routes, and out of the controller's topics, where it is one of them."""
        topic = _needed(request.fields.topic, "topic")
        cluster = request.fields.cluster_name or ""
        if not self._host.admitted(exchange, "ForgetTopic", f"topic/{topic}"):
            return
        self.announced.remove(topic, cluster)
        if topic in self._host.state.topics and not cluster:
            self._host.submit(exchange, DeleteTopic(topic=topic), f"topic/{topic}")
        else:
            exchange.reply(answers.OK)


_FLAGS: Final[dict[type[Any], tuple[int, int]]] = {
    UnitTopicsRequest: (UNIT, UNIT),
    UnitSubTopicsRequest: (UNIT_SUB, UNIT_SUB),
    UnitSubUnunitTopicsRequest: (UNIT | UNIT_SUB, UNIT_SUB),
}


def _who(fields: AnnounceFields) -> tuple[str, str, int]:
    """Set, address, id. Raises UsageError."""
    return (
        _needed(fields.broker_name, "brokerName"),
        _needed(fields.broker_addr, "brokerAddr"),
        _needed(fields.broker_id, "brokerId"),
    )


def _needed(value: Any, name: str) -> Any:
    if value is None:
        raise UsageError(f"{name} is missing")
    return value
