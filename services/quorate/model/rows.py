"""Entities as rows: canonical bytes under the key of the events that touch them (``sums.py`` adds them up).

Rules: equal entities have equal bytes, on every node and after every restart: members in a fixed order, dictionaries
sorted, defaults omitted, so that a field added later with its default changes no row. The first byte is the row
format, which follows the feature level, so that nodes of two versions agree on every hash while they share a cluster.
"""

from collections.abc import Callable, Iterable, Iterator, Sized
from functools import lru_cache
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, Final

import msgspec
from immutables import Map

from quorate.errors import InvariantBrokenError
from quorate.events import raw_name
from quorate.events.codec import KEPT_NAME_MAX, entity_key, entity_name
from quorate.model.evolve import with_bytes, with_key
from quorate.model.evolve_sessions import Clients, with_client
from quorate.model.names import naming
from quorate.model.ordered import OrderedMap, building
from quorate.model.segments import Holdings, held, parsed, segment
from quorate.model.state import (
    BrokerSet,
    Cluster,
    Config,
    FeatureLevel,
    HandedWill,
    KeyValue,
    Leader,
    Lease,
    Member,
    Node,
    Schema,
    Segment,
    Session,
    SessionOwner,
    Shard,
    State,
    Subject,
    Subscription,
    Subscriptions,
    Topic,
)
from quorate.model.topic_filters import index_name
from quorate.slices import Steps, finished

Entity = (
    Cluster
    | FeatureLevel
    | Leader
    | Node
    | BrokerSet
    | Topic
    | Config
    | KeyValue
    | Lease
    | Member
    | Schema
    | Subject
    | Shard
    | Segment
    | Session
    | SessionOwner
    | HandedWill
)

ROWS_PER_STEP: Final = 32
"""How many rows one step of a long piece of work reads or writes: some tens of microseconds."""

_FORMAT: Final = b"\x01"
"""Of feature levels 1 and 2, which differ in kinds of rows alone."""
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")

_TYPES: Final[dict[str, type[Entity]]] = {
    "cluster": Cluster,
    "feature-level": FeatureLevel,
    "leader": Leader,
    "node": Node,
    "broker-set": BrokerSet,
    "topic": Topic,
    "config": Config,
    "key": KeyValue,
    "lease": Lease,
    "member": Member,
    "schema": Schema,
    "subject": Subject,
    "shard": Shard,
    "segment": Segment,
    "session": Session,
    "session-owner": SessionOwner,
    "will": HandedWill,
}
_NAMES: Final[dict[type[Entity], Callable[[Any], object]]] = {
    Cluster: attrgetter("cluster_id"),
    FeatureLevel: attrgetter("level"),
    Leader: attrgetter("node_id"),
    Node: attrgetter("node_id"),
    BrokerSet: attrgetter("name"),
    Topic: attrgetter("topic"),
    Config: attrgetter("scope"),
    Lease: attrgetter("lease_id"),
    Member: attrgetter("name"),
    Schema: attrgetter("schema_id"),
    Subject: attrgetter("subject"),
    Shard: attrgetter("name"),
    Session: attrgetter("client"),
    SessionOwner: attrgetter("member_epoch"),
    HandedWill: attrgetter("session_epoch"),
}
"""How the state knows an entity; keys and segments it keeps in an order."""
_DECODERS: Final = {kind: msgspec.msgpack.Decoder(entity) for kind, entity in _TYPES.items()}


def row(state: State, key: bytes) -> bytes | None:
    """The row of the entity this key names (``events.key``); None when there is no such entity.

    Raises InvariantBrokenError for a key of no kind of ours.
    """
    find, name = _place(key)
    entity = find(state, name)
    return None if entity is None else _FORMAT + _ENCODER.encode(entity)


def entity_at(state: State, key: bytes) -> Entity | None:
    """The entity this key names. Raises InvariantBrokenError as ``row`` does."""
    find, name = _place(key)
    return find(state, name)


def named(state: State, kind: str, name: str) -> Entity | None:
    """The entity that ``entities`` tells by this kind and name, if there is one."""
    return _FIND[kind](state, name)


def encoded(entity: Entity) -> bytes:
    """The row of an entity."""
    return _FORMAT + _ENCODER.encode(entity)


def _place(key: bytes) -> "tuple[Callable[[State, str], Entity | None], str]":
    """Where to look for the entity of a key, and under which name."""
    return _kept_place(key) if len(key) <= KEPT_NAME_MAX else _place_of(key)


def _place_of(key: bytes) -> "tuple[Callable[[State, str], Entity | None], str]":
    kind, _, name = key.decode().split("/", 2)
    find = _FIND.get(kind)
    if find is None:
        raise InvariantBrokenError(f"no entity has the key {key!r}")
    return find, entity_name(kind, name)


_kept_place = lru_cache(maxsize=16_384)(_place_of)


def rows(state: State) -> Iterator[tuple[bytes, bytes]]:
    """Every entity's key and row; in no particular order. The state is immutable: iterate at leisure."""
    for kind, name, entity in entities(state):
        yield entity_key(kind, name), encoded(entity)


def from_rows(pairs: Iterable[tuple[bytes, bytes]]) -> State:
    """The state whose rows these are, in any order. Raises InvariantBrokenError for a row that is none of ours."""
    return finished(restoring(pairs))


def restoring(pairs: Iterable[tuple[bytes, bytes]]) -> Steps[State]:
    """``from_rows``, a few rows a step."""
    found: dict[type[Entity], Any] = {kind: Map().mutate() for kind in _NAMES}
    keys: list[tuple[bytes, KeyValue]] = []
    segments: list[Segment] = []
    subscriptions: list[tuple[bytes, Subscription]] = []
    schema_ids, held = Map[str, int]().mutate(), Clients()
    for count, (key, value) in enumerate(pairs, start=1):
        entity = decoded(key, value)
        match entity:
            case KeyValue():
                keys.append((raw_name(entity.key), entity))
            case Segment():
                segments.append(entity)
            case _:
                kind = type(entity)
                found[kind][_NAMES[kind](entity)] = entity
        if isinstance(entity, Schema):  # And what is known the other way round.
            schema_ids[entity.schema] = entity.schema_id
        elif isinstance(entity, Session):
            held = with_client(held, entity)
            subscriptions += [(index_name(entity.client, one.filter), one) for one in entity.subscriptions]
        if count % ROWS_PER_STEP == 0:
            yield
    keys.sort(key=itemgetter(0))  # Of rows in the order of a store: they are sorted, and looked through once.
    subscriptions.sort(key=itemgetter(0))
    ordered = yield from building(keys)
    attached, attached_bytes = yield from _attaching(keys)
    numbered, holding, leading = yield from _numbering(segments)
    subscribed: Subscriptions = yield from building(subscriptions)
    all_found = {kind: entities.finish() for kind, entities in found.items()}
    member_names = yield from naming(all_found[Member])
    shard_names = yield from naming(all_found[Shard])
    clients = yield from naming(all_found[Session])
    cluster: Cluster | None = next(iter(all_found[Cluster].values()), None)
    raised: FeatureLevel | None = next(iter(all_found[FeatureLevel].values()), None)
    first_level = cluster.feature_level if cluster is not None else 0
    return State(
        cluster=cluster,
        feature_level=first_level if raised is None else raised.level,
        leader=next(iter(all_found[Leader].values()), None),
        nodes=all_found[Node],
        broker_sets=all_found[BrokerSet],
        topics=all_found[Topic],
        configs=all_found[Config],
        keys=ordered,
        leases=all_found[Lease],
        attached=attached,
        attached_bytes=attached_bytes,
        members=all_found[Member],
        schemas=all_found[Schema],
        subjects=all_found[Subject],
        schema_ids=schema_ids.finish(),
        shards=all_found[Shard],
        segments=numbered,
        holding=holding,
        leading=leading,
        sessions=all_found[Session],
        session_owners=all_found[SessionOwner],
        wills=all_found[HandedWill],
        subscriptions=subscribed,
        held=held,
        member_names=member_names,
        shard_names=shard_names,
        clients=clients,
    )


def _attaching(keys: Iterable[tuple[bytes, KeyValue]]) -> Steps[tuple[Map[int, OrderedMap[None]], Map[int, int]]]:
    """Of each lease its keys, and the bytes of their names."""
    attached, attached_bytes = Map[int, OrderedMap[None]](), Map[int, int]()
    for count, (name, entity) in enumerate(keys, start=1):
        attached = with_key(attached, entity.lease, name)
        attached_bytes = with_bytes(attached_bytes, entity.lease, len(entity.key))
        if count % ROWS_PER_STEP == 0:
            yield
    return attached, attached_bytes


def _numbering(found: Iterable[Segment]) -> Steps[tuple[Map[str, Map[int, Segment]], Holdings, Holdings]]:
    """The segments by shard and number, and by who holds and who leads them."""
    numbered, holding, leading = Map[str, Map[int, Segment]](), Holdings(), Holdings()
    for count, entity in enumerate(found, start=1):
        place = parsed(entity.name)
        if place is None:
            raise InvariantBrokenError(f"the row of {entity.name!r} is no segment's")
        shard, number = place
        numbered = numbered.set(shard, numbered.get(shard, Map[int, Segment]()).set(number, entity))
        holding, leading = held(holding, leading, None, entity)
        if count % ROWS_PER_STEP == 0:
            yield
    return numbered, holding, leading


def decoded(key: bytes, value: bytes) -> Entity:
    """The entity of a row. Raises InvariantBrokenError for a row that is none of ours."""
    kind = key.split(b"/", 1)[0].decode("utf-8", "replace")
    if kind not in _DECODERS or value[:1] != _FORMAT:
        raise InvariantBrokenError(f"the row under {key!r} is of no kind and format known here")
    try:
        return _DECODERS[kind].decode(memoryview(value)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvariantBrokenError(f"the row under {key!r} is damaged: {error}") from error


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
    "key": lambda state, name: state.keys.get(raw_name(name)),
    "lease": lambda state, name: state.leases.get(int(name)),
    "member": lambda state, name: state.members.get(name),
    "schema": lambda state, name: state.schemas.get(int(name)),
    "subject": lambda state, name: state.subjects.get(name),
    "shard": lambda state, name: state.shards.get(name),
    "segment": segment,
    "session": lambda state, name: state.sessions.get(name),
    "session-owner": lambda state, name: state.session_owners.get(int(name)),
    "will": lambda state, name: state.wills.get(int(name)),
}


def entities(state: State) -> Iterator[tuple[str, str, Entity]]:
    """Kind, name and value of everything in the state; in no particular order."""
    yield from _single(state)
    for kind, table in _tables(state):
        for name, entity in table.items():
            yield kind, str(name), entity
    for _, key in state.keys.items():  # noqa: PERF102  No dict.
        yield "key", key.key, key
    for numbered in state.segments.values():
        for found in numbered.values():
            yield "segment", found.name, found


def count(state: State) -> int:
    """How many rows the state has; none is looked at."""
    tables: Iterable[Sized] = (table for _, table in _tables(state))
    others: Iterable[Sized] = (list(_single(state)), state.keys, *state.segments.values())
    return sum(map(len, chain(tables, others)))


def _single(state: State) -> Iterator[tuple[str, str, Entity]]:
    if state.cluster is not None:
        yield "cluster", state.cluster.cluster_id, state.cluster
    raised = _raised(state)
    if raised is not None:
        yield "feature-level", "cluster", raised
    if state.leader is not None:
        yield "leader", "controller", state.leader


def _tables(state: State) -> tuple[tuple[str, Map[Any, Any]], ...]:
    """Kinds that are kept by their names alone."""
    return (
        ("node", state.nodes),
        ("broker-set", state.broker_sets),
        ("topic", state.topics),
        ("config", state.configs),
        ("lease", state.leases),
        ("member", state.members),
        ("schema", state.schemas),
        ("subject", state.subjects),
        ("shard", state.shards),
        ("session", state.sessions),
        ("session-owner", state.session_owners),
        ("will", state.wills),
    )
