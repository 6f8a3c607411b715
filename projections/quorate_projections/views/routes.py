"""The view ``routes``: what a client needs to reach a topic, by topic: queues, permission, addresses per broker set.

Rules: shaped and named as RocketMQ's ``TopicRouteData``: a set's master stands under id 0, slaves under their own ids;
a broker that is fenced, or has not said where it serves, is in no route. A set holds a topic when one of its brokers
announced it; a set that announced no topics at all (stock brokers announce none to a controller) holds every topic.

Theory: a topic and a set are a row each, so that an event changes one row; a route is put together when it is read.
"""

from typing import Any

import msgspec

from quorate.events import Stamp
from quorate.model.state import BrokerSet, Topic
from quorate_projections.views.view import RowLookup, View, row_of, showing

TOPIC, SET = "topic/", "set/"
MASTER_ID = "0"
"""RocketMQ ``MixAll.MASTER_ID``."""


class TopicPart(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="topic"):
    """A topic's part of its route."""

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
    """A broker set's part of routes."""

    broker_set: str = ""
    cluster: str = ""
    master: int | None = None
    brokers: tuple[Endpoint, ...] = ()
    """By broker id."""


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


def show_topic(topic: Topic, before: Part, stamp: Stamp) -> Part:
    """A topic's part."""
    return row_of(TopicPart, topic)


def show_set(broker_set: BrokerSet, before: Part, stamp: Stamp) -> Part:
    """A broker set's part."""
    brokers = tuple(row_of(Endpoint, replica) for replica in broker_set.replicas)
    return SetPart(broker_set=broker_set.name, cluster=broker_set.cluster, master=broker_set.master, brokers=brokers)


def compose(shelf: RowLookup[Part], row: Part) -> Route:
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


VIEW: View[Part, Any] = showing(
    "routes",
    "What a client needs to reach a topic, as RocketMQ's TopicRouteData, by topic.",
    TopicPart(),
    {"topic": (TOPIC, show_topic), "broker-set": (SET, show_set)},
    row=Part,
    prefix=TOPIC,
    compose=compose,
)
