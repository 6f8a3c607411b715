"""Entities as rows: canonical bytes under the key of the events that touch them, and the hash over all of them.

Rules: equal entities have equal bytes, on every node and after every restart: members in a fixed order, dictionaries
sorted, defaults omitted, so that a field added later with its default changes no row. The first byte is the row
format, which follows the feature level, so that nodes of two versions agree on every hash while they share a cluster.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

import msgspec
from immutables import Map

from quorate.errors import InvariantBrokenError
from quorate.events.codec import entity_key
from quorate.metadata.requests import RequestTable
from quorate.metadata.state import BrokerSet, Cluster, Config, FeatureLevel, Leader, Node, State, Topic

Entity = Cluster | FeatureLevel | Leader | Node | BrokerSet | Topic | Config

_FORMAT: Final = b"\x01"
"""Of feature level 1, the only one so far."""
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")

_TYPES: Final[dict[str, type[Entity]]] = {
    "cluster": Cluster,
    "feature-level": FeatureLevel,
    "leader": Leader,
    "node": Node,
    "broker-set": BrokerSet,
    "topic": Topic,
    "config": Config,
}
_DECODERS: Final = {kind: msgspec.msgpack.Decoder(entity) for kind, entity in _TYPES.items()}


def row(state: State, key: bytes) -> bytes | None:
    """The row of the entity this key names (``events.key``); None when there is no such entity.

    Raises InvariantBrokenError for a key of no kind of ours.
    """
    find, name = _place(key)
    entity = find(state, name)
    return None if entity is None else _FORMAT + _ENCODER.encode(entity)


@lru_cache(maxsize=16_384)
def _place(key: bytes) -> "tuple[Callable[[State, str], Entity | None], str]":
    """Where to look for the entity of a key, and under which name."""
    kind, _, name = key.decode().split("/", 2)
    find = _FIND.get(kind)
    if find is None:
        raise InvariantBrokenError(f"no entity has the key {key!r}")
    return find, unquote(name) if "%" in name else name


def rows(state: State) -> Iterator[tuple[bytes, bytes]]:
    """Every entity's key and row; in no particular order. The state is immutable: iterate at leisure."""
    for kind, name, entity in _entities(state):
        yield entity_key(kind, name), _FORMAT + _ENCODER.encode(entity)


def from_rows(pairs: Iterable[tuple[bytes, bytes]]) -> State:
    """The state whose rows these are, in any order. Raises InvariantBrokenError for a row that is none of ours."""
    found: dict[str, list[Entity]] = {kind: [] for kind in _TYPES}
    for key, value in pairs:
        kind = key.split(b"/", 1)[0].decode("utf-8", "replace")
        if kind not in _DECODERS or value[:1] != _FORMAT:
            raise InvariantBrokenError(f"the row under {key!r} is of no kind and format known here")
        try:
            found[kind].append(_DECODERS[kind].decode(memoryview(value)[1:]))
        except msgspec.DecodeError as error:
            raise InvariantBrokenError(f"the row under {key!r} is damaged: {error}") from error
    return _assembled(found)


def state_hash(state: State, requests: RequestTable) -> str:
    """SHA-256, in hex, over the rows of the state and the request table: equal at equal offset on all nodes."""
    digest = hashlib.sha256(b"quorate state %d\n" % state.feature_level)
    for key, value in [*sorted(rows(state)), *sorted(requests.rows())]:
        digest.update(b"%d %d " % (len(key), len(value)))
        digest.update(key)
        digest.update(value)
    return digest.hexdigest()


def _raised(state: State) -> FeatureLevel | None:
    """The feature level as an entity: only once it differs from the one the cluster began with."""
    if state.cluster is None or state.cluster.feature_level == state.feature_level:
        return None
    return FeatureLevel(level=state.feature_level)


_FIND: Final[dict[str, Callable[[State, str], Entity | None]]] = {
    "cluster": lambda state, _: state.cluster,
    "feature-level": lambda state, _: _raised(state),
    "leader": lambda state, _: state.leader,
    "node": lambda state, name: state.nodes.get(int(name)),
    "broker-set": lambda state, name: state.broker_sets.get(name),
    "topic": lambda state, name: state.topics.get(name),
    "config": lambda state, name: state.configs.get(name),
}


def _entities(state: State) -> Iterator[tuple[str, str, Entity]]:
    if state.cluster is not None:
        yield "cluster", state.cluster.cluster_id, state.cluster
    raised = _raised(state)
    if raised is not None:
        yield "feature-level", "cluster", raised
    if state.leader is not None:
        yield "leader", "controller", state.leader
    for node_id, node in state.nodes.items():
        yield "node", str(node_id), node
    for name, broker_set in state.broker_sets.items():
        yield "broker-set", name, broker_set
    for name, topic in state.topics.items():
        yield "topic", name, topic
    for scope, config in state.configs.items():
        yield "config", scope, config


def _assembled(found: dict[str, list[Entity]]) -> State:
    cluster = next((e for e in found["cluster"] if isinstance(e, Cluster)), None)
    raised = next((e for e in found["feature-level"] if isinstance(e, FeatureLevel)), None)
    level = raised.level if raised is not None else cluster.feature_level if cluster is not None else 0
    return State(
        cluster=cluster,
        feature_level=level,
        leader=next((e for e in found["leader"] if isinstance(e, Leader)), None),
        nodes=Map({e.node_id: e for e in found["node"] if isinstance(e, Node)}),
        broker_sets=Map({e.name: e for e in found["broker-set"] if isinstance(e, BrokerSet)}),
        topics=Map({e.topic: e for e in found["topic"] if isinstance(e, Topic)}),
        configs=Map({e.scope: e for e in found["config"] if isinstance(e, Config)}),
    )
