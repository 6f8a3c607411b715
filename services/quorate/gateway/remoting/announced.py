"""What brokers announced to this node as their name server: their addresses, and which topics they have.

Rules: soft, and this node's alone, as in Java's name server: brokers announce themselves to every one of them, and
again every 30 s. Who ends its connection, withdraws or is silent for two minutes is taken out. Topics count when a
master (id 0) announces them, or the broker of the lowest id; they stay with their set until it is gone, and with them
where which part of a queue is (of static topics; kept by the set that says so, of its own topics alone).
Of a set that the controller knows, what is *decided* is not asked here: its master and who serves (``routes``).
Source: Java ``RouteInfoManager`` of 5.3.3. That a late end of a former connection takes out a broker that has come back
(apache/rocketmq#11045) is not copied.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from quorate.gateway.remoting.topics import topic_of
from quorate.model.routes import MASTER_ID, QueueData
from quorate.model.state import Topic
from quorate.wire.name_server import AnnouncedTopic, AnnouncedTopics, AnnouncedVersion, TopicQueues

SILENT_AFTER_S: Final = 120.0
"""Java ``DEFAULT_BROKER_CHANNEL_EXPIRED_TIME``."""
LOOK_EVERY_S: Final = 5.0
"""Java ``scanNotActiveBrokerInterval``; looked when somebody asks, so nobody wakes for it."""
WRITE: Final = 2
"""Java ``PermName.PERM_WRITE``; 4 reads."""
READ_WRITE: Final = 6
SET_MAX: Final = 1_000
"""Brokers of a set, which is scanned; as many as the controller takes (``replicas_max``)."""
DETAILS_MAX: Final = 64 << 20
"""Characters of topics' names and attributes, and bytes of their mappings, that are kept …"""
ATTRIBUTE_COST: Final = 64
"""… and what each attribute counts beside its text."""

Place = tuple[str, str]
"""Cluster and address: what a broker is known by (Java ``BrokerAddrInfo``)."""


class Broker(msgspec.Struct, kw_only=True, gc=False):
    """A broker as it announced itself (Java ``BrokerLiveInfo``)."""

    cluster: str
    broker_set: str
    broker_id: int
    address: str
    ha_address: str | None
    silent_after_s: float
    version: AnnouncedVersion
    channel: object
    heard: float
    said: bytes = b""
    """Digest of what it said last: said again, it is no news."""
    revision: int = -1
    """Of the set's topics when it said that."""


class Set(msgspec.Struct, kw_only=True, gc=False):
    """The brokers of a set (Java ``BrokerData``), and its topics."""

    cluster: str
    addresses: dict[int, str] = {}
    acting_master: bool = False
    zone: str | None = None
    topics: dict[str, QueueData] = {}
    configs: dict[str, AnnouncedTopic] = {}
    """Of these topics, what a broker said of them beside their queues."""
    version: AnnouncedVersion | None = None
    """Of the table that was told last."""
    told: bool = False
    """Somebody said which topics it has."""
    revision: int = 0
    """Grows with each change of the topics."""


class FullError(Exception):
    """No more is kept. The announcement was not taken."""


class Announced:
    """The table. ``entries_max``: brokers, and topics of sets, each."""

    def __init__(self, entries_max: int) -> None:
        self.sets: dict[str, Set] = {}
        self.topics: dict[str, set[str]] = {}
        """Topic → the sets that have it."""
        self.mappings: dict[str, dict[str, msgspec.Raw]] = {}
        """Of static topics: topic → set → where which part of a queue is."""
        self.filters: dict[Place, tuple[str, ...]] = {}
        self.revision = 0
        """Grows with whatever changes a route."""
        self._brokers: dict[Place, Broker] = {}
        self._by_channel: dict[object, set[Place]] = {}
        self._entries_max = entries_max
        self._queues = 0
        self._details = 0
        """What names, attributes and mappings of topics take, of ``DETAILS_MAX``."""
        self._look_at = 0.0
        self.impatient = 0
        """Brokers that want to be missed sooner, and beat for it (904)."""

    def __len__(self) -> int:
        return len(self._brokers)

    @property
    def queues(self) -> int:
        """Topics of sets."""
        return self._queues

    def broker(self, cluster: str, address: str) -> Broker | None:
        """The broker that announced itself there."""
        return self._brokers.get((cluster, address))

    def brokers_of(self, broker_set: str) -> list[Broker]:
        """Those of a set that announced themselves, by id."""
        known = self.sets.get(broker_set)
        places = [] if known is None else [(known.cluster, address) for _, address in sorted(known.addresses.items())]
        return [self._brokers[place] for place in places if place in self._brokers]

    def heard(self, cluster: str, address: str, now: float) -> Broker | None:
        """It lives."""
        broker = self._brokers.get((cluster, address))
        if broker is not None:
            broker.heard = now
        return broker

    # -- brokers

    def join(
        self, broker: Broker, *, acting_master: bool, zone: str | None, topics: int, stays: Callable[[str], bool]
    ) -> bool | None:
        """Take a broker in: may its topics be others than before? None: another one is there that is of a later epoch.

        Raises FullError, and KeyError for one that begins with a single topic: its first announcement is not whole.
        """
        place = (broker.cluster, broker.address)
        former = self._brokers.get(place)
        if former is None and len(self._brokers) >= self._entries_max:
            raise FullError(f"{self._entries_max} brokers are kept")
        if former is not None and former.broker_set != broker.broker_set:
            self._withdraw([place], stays)  # It has left that set, whose address nobody else would take out.
        known = self.sets.get(broker.broker_set)
        addresses = {} if known is None else known.addresses
        kept = {one: at for one, at in addresses.items() if at != broker.address or one == broker.broker_id}
        at = kept.get(broker.broker_id)
        rival = None if at in (None, broker.address) else self._brokers.get((broker.cluster, str(at)))
        if rival is not None and rival.version.state_version > broker.version.state_version:
            self._withdraw([place], stays)
            return None
        if at is None and topics == 1:
            raise KeyError(broker.address)
        if len(kept) >= SET_MAX and at is None:
            raise FullError(f"{SET_MAX} brokers of a set are kept")
        kept[broker.broker_id] = broker.address
        if known is None:
            known = self.sets[broker.broker_set] = Set(cluster=broker.cluster)
        if (known.addresses, known.acting_master, known.zone) != (kept, acting_master, zone):
            known.addresses, known.acting_master, known.zone = kept, acting_master, zone
            self.revision += 1
        before = self._drop(place)
        self._brokers[place] = broker
        self._by_channel.setdefault(broker.channel, set()).add(place)
        self.impatient += broker.silent_after_s != SILENT_AFTER_S
        return at is None or before is None or before.version != broker.version

    def filtered(self, place: Place, servers: tuple[str, ...]) -> None:
        """Its filter servers; none: it has none."""
        if self.filters.get(place, ()) != servers:
            self.revision += 1
        if servers:
            self.filters[place] = servers
        else:
            self.filters.pop(place, None)

    def withdraw(self, cluster: str, address: str, stays: Callable[[str], bool]) -> None:
        """A broker goes; with the last of a set go its topics, unless the set ``stays``: the controller knows it."""
        self._withdraw([(cluster, address)], stays)

    def _withdraw(self, places: Iterable[Place], stays: Callable[[str], bool]) -> None:
        """All of them go, and then each set is looked at once, however many of it went."""
        left: dict[str, Set] = {}
        for place in places:
            self.filters.pop(place, None)
            broker = self._drop(place)
            known = None if broker is None else self.sets.get(broker.broker_set)
            if broker is None or known is None:
                continue
            self.revision += 1
            if known.addresses.get(broker.broker_id) == broker.address:
                del known.addresses[broker.broker_id]
            left[broker.broker_set] = known
        for name, known in left.items():
            if not known.addresses and not stays(name):
                self.forget(name)
            elif known.acting_master and known.addresses and min(known.addresses) > MASTER_ID:
                self.permit(name, lambda permission: permission & ~WRITE)

    def forget(self, broker_set: str) -> None:
        """A set is gone, and its topics with it."""
        gone = self.sets.pop(broker_set)
        for topic in gone.topics:
            self._unlist(topic, broker_set)
        self._queues -= len(gone.topics)
        self._details -= sum(map(len, gone.topics)) + sum(map(_cost, gone.configs.values()))
        self.revision += 1

    def closed(self, channel: object, stays: Callable[[str], bool]) -> None:
        """The connection ended: whoever announced itself on it last is gone."""
        self._withdraw(tuple(self._by_channel.get(channel, ())), stays)

    def look(self, now: float, stays: Callable[[str], bool]) -> None:
        """Take out who is silent, now and then."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_S
        silent = [place for place, broker in self._brokers.items() if now - broker.heard > broker.silent_after_s]
        self._withdraw(silent, stays)
        for name in [name for name, one in self.sets.items() if not one.addresses and not stays(name)]:
            self.forget(name)

    def _drop(self, place: Place) -> Broker | None:
        broker = self._brokers.pop(place, None)
        if broker is not None:
            places = self._by_channel[broker.channel]
            places.discard(place)
            if not places:
                del self._by_channel[broker.channel]
            self.impatient -= broker.silent_after_s != SILENT_AFTER_S
        return broker

    # -- topics

    def first_of(self, broker: Broker) -> bool:
        """Has it the lowest id of those that announced themselves?"""
        return broker.broker_id == min(self.sets[broker.broker_set].addresses)

    def announce(self, broker_set: str, table: AnnouncedTopics, *, all_new: bool, read_only: bool = False) -> None:
        """The topics of a set. ``all_new``: its table may have changed; else only what is missing is taken.

        Raises FullError.
        """
        known = self.sets[broker_set]
        known.told, known.version = True, table.data_version
        topics, configs = known.topics, known.configs
        for topic in table.topic_config_table.values():
            name = topic.topic_name
            there, before = topics.get(name), configs.get(name)
            if there is not None and not (all_new and _differs(topic, there, before, read_only=read_only)):
                continue  # Most of a long table, whenever it is told again for one topic.
            self._put(name, queues_of(broker_set, topic, read_only=read_only))
            self._detailed(_cost(topic) - _cost(before))
            configs[name] = topic
        for topic_name, mapping in table.topic_queue_mapping_info_map.items():
            if topic_name in known.topics:
                self._map(topic_name, broker_set, mapping)

    def announce_topic(self, topic: str, queues: Iterable[TopicQueues]) -> None:
        """One topic of some sets; of one that nobody knows, and what comes after it, nothing is taken. FullError."""
        for one in queues:
            if one.broker_name not in self.sets:
                return
            data = QueueData(
                broker_name=one.broker_name,
                read_queue_nums=one.read_queue_nums,
                write_queue_nums=one.write_queue_nums,
                perm=one.perm,
                topic_sys_flag=one.topic_sys_flag,
            )
            self._put(topic, data)

    def remove(self, topic: str, cluster: str) -> None:
        """A topic is nowhere any more, or not in that cluster."""
        for name in tuple(self.topics.get(topic, ())):
            if not cluster or self.sets[name].cluster == cluster:
                self._remove(topic, name)

    def permit(self, broker_set: str, change: Callable[[int], int]) -> int:
        """Change the permission of every topic of a set; how many it has."""
        known = self.sets.get(broker_set)
        if known is None:
            return 0
        for topic, queues in known.topics.items():
            known.topics[topic] = msgspec.structs.replace(queues, perm=change(queues.perm))
        known.revision += 1
        self.revision += 1
        return len(known.topics)

    def _put(self, topic: str, queues: QueueData) -> None:
        known = self.sets[queues.broker_name]
        before = known.topics.get(topic)
        if before == queues:
            return
        if before is None:
            if self._queues >= self._entries_max:
                raise FullError(f"{self._entries_max} topics of sets are kept")
            self._detailed(len(topic))
            self._queues += 1
            self.topics.setdefault(topic, set()).add(queues.broker_name)
        known.topics[topic] = queues
        known.revision += 1
        self.revision += 1

    def _detailed(self, change: int) -> None:
        """Count what is kept more of topics, or less. Raises FullError."""
        if change > 0 and self._details + change > DETAILS_MAX:
            raise FullError(f"{DETAILS_MAX} bytes of topics' names, attributes and mappings are kept")
        self._details += change

    def _map(self, topic: str, broker_set: str, mapping: msgspec.Raw) -> None:
        before = self.mappings.get(topic, {}).get(broker_set)
        if before != mapping:
            self._detailed(len(bytes(mapping)) - (0 if before is None else len(bytes(before))))
            self.mappings.setdefault(topic, {})[broker_set] = mapping.copy()  # For it is a view of the whole body.
            self.revision += 1

    def _remove(self, topic: str, broker_set: str) -> None:
        del self.sets[broker_set].topics[topic]
        self._details -= len(topic) + _cost(self.sets[broker_set].configs.pop(topic, None))
        self.sets[broker_set].revision += 1
        self.revision += 1
        self._queues -= 1
        self._unlist(topic, broker_set)

    def _unlist(self, topic: str, broker_set: str) -> None:
        """It is not on that set any more, nor is a mapping of it."""
        holders = self.topics[topic]
        holders.discard(broker_set)
        if not holders:
            del self.topics[topic]
        mapped = self.mappings.get(topic)
        mapping = None if mapped is None else mapped.pop(broker_set, None)
        if mapping is not None:
            self._details -= len(bytes(mapping))
            if not mapped:
                del self.mappings[topic]


def _cost(topic: AnnouncedTopic | None) -> int:
    """What is kept of a topic beside its name and its queues."""
    if topic is None:
        return 0
    cost = len(topic.topic_filter_type or "")
    for name, value in (topic.attributes or {}).items():
        cost += ATTRIBUTE_COST + len(name) + len(value)
    return cost


def _differs(topic: AnnouncedTopic, queues: QueueData, before: AnnouncedTopic | None, *, read_only: bool) -> bool:
    """Is it told otherwise than what is kept? Its queues in a route may have been changed by themselves (205, 217)."""
    return (
        topic.perm & ~WRITE if read_only else topic.perm,
        topic.read_queue_nums,
        topic.write_queue_nums,
        topic.topic_sys_flag,
    ) != (queues.perm, queues.read_queue_nums, queues.write_queue_nums, queues.topic_sys_flag) or topic != before


def queues_of(broker_set: str, topic: AnnouncedTopic, *, read_only: bool = False) -> QueueData:
    """A topic's queues on a set; ``read_only``: its master is gone, and another acts for it."""
    return QueueData(
        broker_name=broker_set,
        read_queue_nums=topic.read_queue_nums,
        write_queue_nums=topic.write_queue_nums,
        perm=topic.perm & ~WRITE if read_only else topic.perm,
        topic_sys_flag=topic.topic_sys_flag,
    )


def topic_told(known: Set, name: str) -> Topic:
    """A topic of a set: its queues as they are in a route, and what a broker said of it beside them."""
    queues = known.topics[name]
    config = msgspec.structs.replace(
        known.configs.get(name, AnnouncedTopic()),
        read_queue_nums=queues.read_queue_nums,
        write_queue_nums=queues.write_queue_nums,
        perm=queues.perm,
        topic_sys_flag=queues.topic_sys_flag,
    )
    return topic_of(name, config)
