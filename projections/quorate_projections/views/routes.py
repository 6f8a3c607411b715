"""The view ``routes``: what a client needs to reach a topic, by topic: queues, permission, addresses per broker set.

Rules: shaped and named as RocketMQ's ``TopicRouteData``: a set's master stands under id 0, slaves under their own ids;
a broker that is fenced, or has not said where it serves, is in no route. A set holds a topic when one of its brokers
announced it; a set that announced no topics at all (stock brokers announce none to a controller) holds every topic.

Theory: a topic and a set are a row each, so that an event changes one row; a route is put together when it is read.
"""

from typing import assert_never

import msgspec

from quorate import events
from quorate.events import (
    BrokerAddressChanged,
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    BrokerRegistered,
    BrokerUnfenced,
    ElectionFailed,
    MasterElected,
    Stamp,
    TopicCreated,
    TopicDeleted,
    TopicUpdated,
)
from quorate_projections.views.view import Rows, Shelf, View

SetEvent = (
    BrokerAddressChanged
    | BrokerDataCleaned
    | BrokerFenced
    | BrokerIdApplied
    | BrokerRegistered
    | BrokerUnfenced
    | ElectionFailed
    | MasterElected
)
Mine = SetEvent | TopicCreated | TopicUpdated | TopicDeleted
_replace = msgspec.structs.replace
TOPIC, SET = "topic/", "set/"
MASTER_ID = "0"
"""RocketMQ ``MixAll.MASTER_ID``."""


class TopicPart(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="topic"):
    """What a topic contributes to its route."""

    topic: str = ""
    read_queues: int = 0
    write_queues: int = 0
    permission: int = 0
    system_flags: int = 0
    order: bool = False


class Endpoint(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A broker of a set."""

    broker_id: int
    address: str
    registered: bool = False
    fenced: bool = False
    topics: tuple[str, ...] = ()


class SetPart(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="set"):
    """What a broker set contributes to routes."""

    broker_set: str = ""
    cluster: str = ""
    master: int | None = None
    brokers: tuple[Endpoint, ...] = ()
    """By broker id."""
    known: bool = True
    """False: only the ids are known (Java's half-known set); the next id applied for starts the set anew."""


Part = TopicPart | SetPart


class QueueData(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """RocketMQ ``QueueData``."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int


class BrokerData(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """RocketMQ ``BrokerData``."""

    cluster: str
    broker_name: str
    broker_addrs: dict[str, str]
    enable_acting_master: bool = False


class Route(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """RocketMQ ``TopicRouteData``, and the topic's name."""

    topic: str
    order_topic_conf: str | None
    """``set:queues;…`` of an ordered topic."""
    queue_datas: tuple[QueueData, ...]
    broker_datas: tuple[BrokerData, ...]
    filter_server_table: dict[str, list[str]] = {}


def fold(rows: Rows[Part], stamp: Stamp, event: Mine) -> None:
    """Change one topic or one set."""
    match event:
        case TopicCreated() | TopicUpdated():
            part = TopicPart(
                topic=event.topic,
                read_queues=event.read_queues,
                write_queues=event.write_queues,
                permission=event.permission,
                system_flags=event.system_flags,
                order=event.order,
            )
            rows.put(TOPIC + event.topic, part)
        case TopicDeleted():
            rows.drop(TOPIC + event.topic)
        case _:
            old = rows.get(SET + event.broker_set)
            part_of_set = old if isinstance(old, SetPart) else SetPart()
            changed = _set(part_of_set, event)
            if changed.brokers:
                rows.put(SET + event.broker_set, changed)
            else:
                rows.drop(SET + event.broker_set)


def _set(part: SetPart, event: SetEvent) -> SetPart:
    part = _replace(part, broker_set=event.broker_set, cluster=part.cluster or event.cluster)
    match event:
        case MasterElected():
            return _replace(part, master=event.master)
        case ElectionFailed():
            return _replace(part, master=None)
        case BrokerIdApplied():
            known = part if part.known else SetPart(broker_set=event.broker_set, cluster=event.cluster)
            return _with(known, Endpoint(broker_id=event.broker_id, address=event.address))
        case BrokerRegistered() | BrokerAddressChanged():
            address = event.address if isinstance(event, BrokerRegistered) else event.new_address
            old = _broker(part, event.broker_id)
            return _with(part, _replace(old, address=address, registered=True, topics=event.topics))
        case BrokerFenced() | BrokerUnfenced():
            return _with(part, _replace(_broker(part, event.broker_id), fenced=isinstance(event, BrokerFenced)))
        case BrokerDataCleaned():
            if not event.broker_ids:
                return _replace(part, brokers=())
            left = tuple(broker for broker in part.brokers if broker.broker_id not in event.broker_ids)
            master = None if event.whole_set else part.master
            return _replace(part, brokers=left, master=master, known=not event.whole_set)
        case _:
            assert_never(event)


def _broker(part: SetPart, broker_id: int) -> Endpoint:
    found = (broker for broker in part.brokers if broker.broker_id == broker_id)
    return next(found, Endpoint(broker_id=broker_id, address=""))


def _with(part: SetPart, changed: Endpoint) -> SetPart:
    others = [broker for broker in part.brokers if broker.broker_id != changed.broker_id]
    return _replace(part, brokers=tuple(sorted([*others, changed], key=lambda broker: broker.broker_id)))


def compose(shelf: Shelf[Part], row: Part) -> Route:
    """The route of a topic over all the sets that hold it; sets nobody of which serves are left out."""
    topic = row if isinstance(row, TopicPart) else TopicPart()
    queues, brokers = [], []
    for _, part in shelf.under(SET):
        addresses = _addresses(part, topic.topic) if isinstance(part, SetPart) else {}
        if isinstance(part, SetPart) and addresses:
            brokers.append(BrokerData(cluster=part.cluster, broker_name=part.broker_set, broker_addrs=addresses))
            queues.append(
                QueueData(
                    broker_name=part.broker_set,
                    read_queue_nums=topic.read_queues,
                    write_queue_nums=topic.write_queues,
                    perm=topic.permission,
                    topic_sys_flag=topic.system_flags,
                )
            )
    order = ";".join(f"{queue.broker_name}:{queue.write_queue_nums}" for queue in queues) if topic.order else None
    return Route(topic=topic.topic, order_topic_conf=order, queue_datas=tuple(queues), broker_datas=tuple(brokers))


def _addresses(part: SetPart, topic: str) -> dict[str, str]:
    """Broker id → address of those who serve the topic; the master under 0."""
    announced = {name for broker in part.brokers for name in broker.topics}
    if announced and topic not in announced:
        return {}
    return {
        MASTER_ID if broker.broker_id == part.master else str(broker.broker_id): broker.address
        for broker in part.brokers
        if broker.registered and not broker.fenced
    }


VIEW: View[Part, Mine] = View(
    name="routes",
    what="What a client needs to reach a topic, as RocketMQ's TopicRouteData, by topic.",
    initial=TopicPart(),
    row=Part,
    fold=fold,
    prefix=TOPIC,
    compose=compose,
    mine=frozenset(
        {
            BrokerAddressChanged,
            BrokerDataCleaned,
            BrokerFenced,
            BrokerIdApplied,
            BrokerRegistered,
            BrokerUnfenced,
            ElectionFailed,
            MasterElected,
            TopicCreated,
            TopicDeleted,
            TopicUpdated,
        }
    ),
    not_mine=frozenset(
        {
            events.ClusterCreated,
            events.ConfigChanged,
            events.ControllerLeaderElected,
            events.FeatureLevelChanged,
            events.NodeStarted,
            events.VoterRebuilt,
            events.RoleChangeAcknowledged,
            events.SyncStateSetAltered,
        }
    ),
)
