"""The view ``routes``: what a client needs to reach a topic, by topic: queues, permission, addresses per broker set.

Rules: those of ``quorate.model.routes``, which every node answers clients by too.

Theory: a topic and a set are a row each, so that an event changes one row; a route is put together when it is read, and
the sets are read once for all routes until one changes.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from typing import Any

import msgspec

from quorate.events import Stamp
from quorate.model import routes
from quorate.model.routes import BrokerData, QueueData, TopicRoute
from quorate.model.state import BrokerSet, Topic
from quorate_projections.views.view import RowLookup, View, row_of, showing

TOPIC, SET = "topic/", "set/"


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


class Route(TopicRoute, frozen=True, gc=False, kw_only=True, rename="camel"):
    """RocketMQ ``TopicRouteData``, and the topic's name."""

    topic: str


def show_topic(topic: Topic, before: Part, stamp: Stamp) -> Part:
    """A topic's part."""
    return row_of(TopicPart, topic)


def show_set(broker_set: BrokerSet, before: Part, stamp: Stamp) -> Part:
    """A broker set's part."""
    brokers = tuple(row_of(Endpoint, replica) for replica in broker_set.replicas)
    return SetPart(broker_set=broker_set.name, cluster=broker_set.cluster, master=broker_set.master, brokers=brokers)


def compose(shelf: RowLookup[Part]) -> Callable[[Part], Route]:
    """The route of a topic over all the sets that hold it."""
    by_topic, everywhere = defaultdict[str, list[BrokerData]](list), list[BrokerData]()
    for _, part in shelf.under(SET):
        if isinstance(part, SetPart):
            addresses = routes.addresses(part.master, part.brokers)
            brokers = BrokerData(cluster=part.cluster, broker_name=part.broker_set, broker_addrs=addresses)
            names = routes.held(broker.topics for broker in part.brokers)
            for holders in [by_topic[name] for name in names] or [everywhere]:
                holders.append(brokers)

    def composed(row: Part) -> Route:
        topic = row if isinstance(row, TopicPart) else TopicPart()
        route = routes.compose(
            (
                QueueData(
                    broker_name=brokers.broker_name,
                    read_queue_nums=topic.read_queues,
                    write_queue_nums=topic.write_queues,
                    perm=topic.permission,
                    topic_sys_flag=topic.system_flags,
                ),
                brokers,
            )
            for brokers in chain(by_topic.get(topic.topic, ()), everywhere)
        )
        conf = ";".join(f"{queue.broker_name}:{queue.write_queue_nums}" for queue in route.queue_datas)
        return Route(
            topic=topic.topic,
            order_topic_conf=conf if topic.order else None,
            queue_datas=route.queue_datas,
            broker_datas=route.broker_datas,
        )

    return composed


VIEW: View[Part, Any] = showing(
    "routes",
    "What a client needs to reach a topic, as RocketMQ's TopicRouteData, by topic.",
    TopicPart(),
    {"topic": (TOPIC, show_topic), "broker-set": (SET, show_set)},
    row=Part,
    prefix=TOPIC,
    compose=compose,
)
