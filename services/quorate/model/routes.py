"""Routes: where a topic's queues are, and who serves them, as RocketMQ's clients want to know it.

Rules: shaped and named as RocketMQ's ``TopicRouteData``. A set's master stands under id 0, slaves under their own ids;
a broker that is fenced, or has not said where it serves, is in no route; nor is a set none of whose brokers is. A set
holds a topic when one of its brokers announced it; a set that announced no topics at all (stock brokers announce none
to a controller) holds every topic.
"""

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

MASTER_ID: Final = 0
"""RocketMQ ``MixAll.MASTER_ID``."""


class Serving(Protocol):
    """A broker of a set: a ``Replica``, or what a view keeps of one."""

    @property
    def broker_id(self) -> int:
        """Its id in the set."""

    @property
    def address(self) -> str:
        """Where it serves."""

    @property
    def registered(self) -> bool:
        """It said so itself."""

    @property
    def fenced(self) -> bool:
        """It was found dead."""


class QueueData(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """RocketMQ ``QueueData``: a topic's queues on the brokers of a set."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int


class BrokerData(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """RocketMQ ``BrokerData``: a broker set."""

    cluster: str
    broker_name: str
    broker_addrs: dict[str, str]
    enable_acting_master: bool = False
    zone_name: str | msgspec.UnsetType = msgspec.UNSET


class TopicRoute(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """RocketMQ ``TopicRouteData``."""

    order_topic_conf: str | None = None
    """``set:queues;…`` of an ordered topic."""
    queue_datas: tuple[QueueData, ...] = ()
    broker_datas: tuple[BrokerData, ...] = ()
    filter_server_table: dict[str, list[str]] = {}


def held(announced: Iterable[Iterable[str]]) -> set[str]:
    """The topics that a set holds whose brokers announced these; none: it holds every topic."""
    return {name for one in announced for name in one}


def addresses(master: int | None, brokers: Iterable[Serving]) -> dict[str, str]:
    """Broker id → address of those who serve; the master under 0. Text, as keys of JSON are."""
    return {
        str(MASTER_ID if broker.broker_id == master else broker.broker_id): broker.address
        for broker in brokers
        if broker.registered and not broker.fenced
    }


def compose(parts: Iterable[tuple[QueueData, BrokerData]]) -> TopicRoute:
    """The route over the sets that hold a topic, by their names; one that nobody of serves is left out."""
    serving = sorted((part for part in parts if part[1].broker_addrs), key=lambda part: part[1].broker_name)
    return TopicRoute(
        queue_datas=tuple(queues for queues, _ in serving), broker_datas=tuple(brokers for _, brokers in serving)
    )
