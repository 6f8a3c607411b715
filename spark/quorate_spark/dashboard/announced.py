"""Topics of a broker set as its brokers announced them to a node, their name server: soft state, which no log has."""

from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from quorate_spark.dashboard.asking import ApiError, Query

PARAMETERS: Final = frozenset({"set", "after"})
PAGE: Final = 50


class NodeTopics(msgspec.Struct, frozen=True, kw_only=True):
    """A node's answer (``GET /v1/brokers/{broker_set}/topics``)."""

    offset: int
    time_ms: int
    brokers: msgspec.Raw
    version: msgspec.Raw
    topics: msgspec.Raw
    next: str | None


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """The data of GET /api/announced: the node's, and the set that was asked about."""

    set: str
    brokers: msgspec.Raw
    version: msgspec.Raw
    topics: msgspec.Raw
    next: str | None


def path(query: Query) -> str:
    """What a node is asked. Raises ApiError."""
    name = query.text("set")
    if not name:
        raise ApiError("invalid", "set: which broker set?")
    words = {"limit": str(PAGE), **({"after": query.text("after")} if query.text("after") else {})}
    return f"/v1/brokers/{quote(name, safe='')}/topics?{urlencode(words)}"


def announced(name: str, answer: NodeTopics) -> Announced:
    """The answer in the service's words."""
    return Announced(set=name, brokers=answer.brokers, version=answer.version, topics=answer.topics, next=answer.next)
