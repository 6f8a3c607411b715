"""One entity by itself, for readers that keep entities and no whole state.

Rules: the state's own ``evolve`` and nothing besides. An event touches the entity its key names and looks at no other,
so a state that holds this one alone suffices.
"""

from typing import Final, assert_never

from immutables import Map

from quorate.events import Event, Stamp, key, raw_name
from quorate.model.evolve import evolve, with_bytes, with_key
from quorate.model.evolve_sessions import with_client, with_subscriptions
from quorate.model.ordered import OrderedMap
from quorate.model.rows import Entity, entity_at
from quorate.model.segments import with_segment
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
    Subscriptions,
    Topic,
)

MODEL_VERSION: Final = 1
"""Of entities that readers keep; raised when a ``case`` of ``evolve`` makes something else of an event it knew."""
_UNLEVELLED: Final = Cluster(cluster_id="", voters=(), feature_level=0)
"""Beside it every feature level is one that was raised, and so an entity."""
_EMPTY: Final = State(cluster=_UNLEVELLED)


def entity_after(entity: Entity | None, event: Event, stamp: Stamp) -> Entity | None:
    """What the entity of the event's key is after the event; None: it is not there. Raises InvariantBrokenError."""
    return entity_at(evolve(_alone(entity), event, stamp), key(event))


def _alone(entity: Entity | None) -> State:
    match entity:
        case None | Cluster():  # Made once, by an event that says all of it.
            return _EMPTY
        case BrokerSet():
            return State(cluster=_UNLEVELLED, broker_sets=Map({entity.name: entity}))
        case Topic():
            return State(cluster=_UNLEVELLED, topics=Map({entity.topic: entity}))
        case Config():
            return State(cluster=_UNLEVELLED, configs=Map({entity.scope: entity}))
        case KeyValue():
            name, held = raw_name(entity.key), Map[int, OrderedMap[None]]()
            return State(
                cluster=_UNLEVELLED,
                keys=OrderedMap[KeyValue]().set(name, entity),
                attached=with_key(held, entity.lease, name),
                attached_bytes=with_bytes(Map[int, int](), entity.lease, len(entity.key)),
            )
        case Lease():
            return State(cluster=_UNLEVELLED, leases=Map({entity.lease_id: entity}))
        case Member():
            return State(cluster=_UNLEVELLED, members=Map({entity.name: entity}))
        case Schema():
            return State(cluster=_UNLEVELLED, schemas=Map({entity.schema_id: entity}))
        case Subject():
            return State(cluster=_UNLEVELLED, subjects=Map({entity.subject: entity}))
        case Shard():
            return State(cluster=_UNLEVELLED, shards=Map({entity.name: entity}))
        case Segment():
            return with_segment(_EMPTY, None, entity)
        case Session():
            return State(
                cluster=_UNLEVELLED,
                sessions=Map({entity.client: entity}),
                subscriptions=with_subscriptions(Subscriptions(), entity),
                held=with_client(Map(), entity),
            )
        case SessionOwner():
            return State(cluster=_UNLEVELLED, session_owners=Map({entity.member_epoch: entity}))
        case HandedWill():
            return State(cluster=_UNLEVELLED, wills=Map({entity.session_epoch: entity}))
        case Node():
            return State(cluster=_UNLEVELLED, nodes=Map({entity.node_id: entity}))
        case Leader():
            return State(cluster=_UNLEVELLED, leader=entity)
        case FeatureLevel():
            return State(cluster=_UNLEVELLED, feature_level=entity.level)
        case _:
            assert_never(entity)
