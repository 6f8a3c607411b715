"""The state of the cluster, one row per entity: what each key's events add up to.

Rules: total over what a controller writes; an event about something that is not there cannot have been decided, and
stops the query: InvariantBrokenError. What is gone stays as a row without a value, so that a replay never revives it.
"""

from collections.abc import Iterable
from typing import Final, assert_never
from urllib.parse import unquote

import msgspec

from quorate.errors import InvariantBrokenError
from quorate.events import (
    BrokerAddressChanged,
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    BrokerRegistered,
    BrokerUnfenced,
    ClusterCreated,
    ConfigChanged,
    ControllerLeaderElected,
    ElectionFailed,
    FeatureLevelChanged,
    MasterElected,
    NodeAddresses,
    NodeStarted,
    RoleChangeAcknowledged,
    Stamp,
    SyncStateSetAltered,
    TopicCreated,
    TopicDeleted,
    TopicUpdated,
    Voter,
    VoterRebuilt,
)
from quorate_spark.pipelines.facts import Fact
from quorate_spark.pipelines.fold import ALL, Fold
from quorate_spark.serving import Entity

_replace = msgspec.structs.replace


class _Value(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Base of what an entity can be."""


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """A broker id of a set."""

    broker_id: int
    address: str
    registered: bool = False
    fenced: bool = False
    capabilities: dict[str, str] = {}
    topics: tuple[str, ...] = ()


class BrokerSet(_Value, frozen=True, kw_only=True, tag="broker-set"):
    """A set: its replicas, its master, who is in sync."""

    name: str
    cluster: str
    replicas: tuple[Replica, ...] = ()
    """By rising broker id."""
    master: int | None = None
    master_epoch: int = 0
    master_offset: int | None = None
    """Offset of the event by which it became master."""
    master_since_ms: int | None = None
    sync_state_set: tuple[int, ...] = ()
    sync_state_set_epoch: int = 0
    sync_known: bool = True
    """False: only the ids are known (a cleaning as Java does it)."""
    election_offset: int | None = None
    """Of the last election, successful or not."""
    election_acknowledged: bool = False


class Topic(_Value, frozen=True, kw_only=True, tag="topic"):
    """A topic's settings."""

    topic: str
    read_queues: int
    write_queues: int
    permission: int
    filter_type: str
    system_flags: int
    order: bool
    attributes: dict[str, str]


class Config(_Value, frozen=True, kw_only=True, tag="config"):
    """The settings of one scope."""

    scope: str
    values: dict[str, str]


class Node(_Value, frozen=True, kw_only=True, tag="node"):
    """A controller node at its last start."""

    node_id: int
    dir_uuid: str
    version: str
    addresses: NodeAddresses
    feature_min: int
    feature_max: int
    started_ms: int
    former: tuple[str, ...] = ()


class Leader(_Value, frozen=True, kw_only=True, tag="leader"):
    """The controller that leads."""

    node_id: int
    term: int
    since_ms: int
    cause: str


class Cluster(_Value, frozen=True, kw_only=True, tag="cluster"):
    """Who we are."""

    cluster_id: str
    voters: tuple[Voter, ...]
    feature_level: int
    cluster_uuid: str = ""


class FeatureLevel(_Value, frozen=True, kw_only=True, tag="feature-level"):
    """What every voter understands."""

    level: int


Value = BrokerSet | Topic | Config | Node | Leader | Cluster | FeatureLevel


class Held(msgspec.Struct, frozen=True):
    """What a key holds; None before its first event and when it is gone."""

    value: Value | None = None


def step(held: Held, fact: Fact) -> tuple[Held, Iterable[Entity]]:
    """The entity after the fact, and its row. Raises InvariantBrokenError."""
    value = _after(held.value, fact)
    kind, _, name = fact.key.split("/", 2)
    row = Entity(
        event_offset=fact.stamp.offset,
        key=fact.key,
        kind=kind,
        name=unquote(name),
        time_ms=fact.stamp.time_ms,
        value=None if value is None else msgspec.json.encode(value).decode(),
    )
    return Held(value), (row,)


def _after(value: Value | None, fact: Fact) -> Value | None:
    event, stamp = fact.event, fact.stamp
    match event:
        case BrokerIdApplied():
            return _applied(value, event)
        case BrokerDataCleaned():
            return _cleaned(_broker_set(value, fact), event)
        case MasterElected() | ElectionFailed() | SyncStateSetAltered() | RoleChangeAcknowledged():
            return _ruled(_broker_set(value, fact), event, stamp)
        case BrokerFenced() | BrokerUnfenced() | BrokerRegistered() | BrokerAddressChanged():
            return _replica_changed(_broker_set(value, fact), event)
        case TopicCreated() | TopicUpdated():
            return msgspec.convert(event, Topic, from_attributes=True)
        case TopicDeleted():
            return None
        case ConfigChanged():
            return _configured(value, event)
        case NodeStarted() | VoterRebuilt():
            return _node(value, event, stamp)
        case ClusterCreated() | ControllerLeaderElected() | FeatureLevelChanged():
            return _governed(event, stamp)
        case _:
            assert_never(event)


def _broker_set(value: Value | None, fact: Fact) -> BrokerSet:
    if not isinstance(value, BrokerSet):
        raise InvariantBrokenError(f"event {fact.stamp.offset}, a {fact.type}, is about {fact.key}, which is not there")
    return value


def _applied(value: Value | None, event: BrokerIdApplied) -> BrokerSet:
    known = isinstance(value, BrokerSet) and value.sync_known
    found = value if isinstance(value, BrokerSet) and known else BrokerSet(name=event.broker_set, cluster=event.cluster)
    return _with(found, Replica(broker_id=event.broker_id, address=event.address))


def _cleaned(found: BrokerSet, event: BrokerDataCleaned) -> BrokerSet | None:
    left = tuple(replica for replica in found.replicas if replica.broker_id not in event.broker_ids)
    if not event.broker_ids or not left:
        return None
    if event.whole_set:
        return BrokerSet(name=found.name, cluster=found.cluster, replicas=left, sync_known=False)
    in_sync = tuple(one for one in found.sync_state_set if one not in event.broker_ids)
    return _replace(found, replicas=left, sync_state_set=in_sync)


def _ruled(
    found: BrokerSet, event: MasterElected | ElectionFailed | SyncStateSetAltered | RoleChangeAcknowledged, stamp: Stamp
) -> BrokerSet:
    match event:
        case MasterElected():
            return _replace(
                found,
                master=event.master,
                master_epoch=event.master_epoch,
                master_offset=stamp.offset,
                master_since_ms=stamp.time_ms,
                sync_state_set=event.sync_state_set,
                sync_state_set_epoch=event.sync_state_set_epoch,
                election_offset=stamp.offset,
                election_acknowledged=False,
            )
        case ElectionFailed():
            return _replace(
                found,
                master=None,
                master_epoch=event.master_epoch,
                master_offset=None,
                master_since_ms=None,
                election_offset=stamp.offset,
                election_acknowledged=False,
            )
        case SyncStateSetAltered():
            return _replace(found, sync_state_set=event.new, sync_state_set_epoch=event.sync_state_set_epoch)
        case RoleChangeAcknowledged():
            return _replace(found, election_acknowledged=True)
        case _:
            assert_never(event)


def _replica_changed(
    found: BrokerSet, event: BrokerFenced | BrokerUnfenced | BrokerRegistered | BrokerAddressChanged
) -> BrokerSet:
    replica = next((one for one in found.replicas if one.broker_id == event.broker_id), None)
    if replica is None:
        raise InvariantBrokenError(f"an event about broker {event.broker_id} of {found.name!r}, which is not there")
    match event:
        case BrokerFenced() | BrokerUnfenced():
            return _with(found, _replace(replica, fenced=isinstance(event, BrokerFenced)))
        case BrokerRegistered() | BrokerAddressChanged():
            address = event.address if isinstance(event, BrokerRegistered) else event.new_address
            there = {"capabilities": event.capabilities, "topics": event.topics}
            return _with(found, _replace(replica, address=address, registered=True, **there))
        case _:
            assert_never(event)


def _with(found: BrokerSet, changed: Replica) -> BrokerSet:
    others = [replica for replica in found.replicas if replica.broker_id != changed.broker_id]
    return _replace(found, replicas=tuple(sorted([*others, changed], key=lambda replica: replica.broker_id)))


def _configured(value: Value | None, event: ConfigChanged) -> Config | None:
    values = dict(value.values) if isinstance(value, Config) else {}
    for change in event.changes:
        if change.new is None:
            values.pop(change.name, None)
        else:
            values[change.name] = change.new
    return Config(scope=event.scope, values=dict(sorted(values.items()))) if values else None


def _node(value: Value | None, event: NodeStarted | VoterRebuilt, stamp: Stamp) -> Node:
    found = value if isinstance(value, Node) else None
    former = () if found is None else found.former
    match event:
        case NodeStarted():
            return Node(
                node_id=event.node_id,
                dir_uuid=event.dir_uuid,
                version=event.version,
                addresses=event.addresses,
                feature_min=event.feature_min,
                feature_max=event.feature_max,
                started_ms=stamp.time_ms,
                former=former,
            )
        case VoterRebuilt():
            if event.old_dir_uuid:
                former = (*former, event.old_dir_uuid)
            return Node(
                node_id=event.node_id,
                dir_uuid=event.new_dir_uuid,
                version="" if found is None else found.version,
                addresses=event.addresses,
                feature_min=0 if found is None else found.feature_min,
                feature_max=0 if found is None else found.feature_max,
                started_ms=0 if found is None else found.started_ms,
                former=former,
            )
        case _:
            assert_never(event)


def _governed(event: ClusterCreated | ControllerLeaderElected | FeatureLevelChanged, stamp: Stamp) -> Value:
    match event:
        case ClusterCreated():
            return Cluster(
                cluster_id=event.cluster_id,
                voters=event.voters,
                feature_level=event.feature_level,
                cluster_uuid=event.cluster_uuid,
            )
        case ControllerLeaderElected():
            return Leader(node_id=event.node_id, term=stamp.term, since_ms=stamp.time_ms, cause=event.cause)
        case FeatureLevelChanged():
            return FeatureLevel(level=event.new)
        case _:
            assert_never(event)


ENTITIES: Final = Fold("entities", "1", ALL, Held(), step)
