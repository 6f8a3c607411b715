"""The page's state as it was folded before it rested on the model: a judge."""

from typing import TypeVar, assert_never

import msgspec
from immutables import Map

from quorate.errors import InvariantBrokenError
from quorate.events import (
    BrokerAddressChanged,
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    BrokerLifeBegan,
    BrokerRegistered,
    BrokerUnfenced,
    ClusterCreated,
    ConfigChanged,
    ControllerLeaderElected,
    ElectionFailed,
    Event,
    FeatureLevelChanged,
    KeyDeleted,
    KeyPut,
    LeaseCheckpointed,
    LeaseEnded,
    LeaseGranted,
    MasterElected,
    MemberAmended,
    MemberDraining,
    MemberFenced,
    MemberGone,
    MemberRegistered,
    MemberUnfenced,
    NodeStarted,
    RoleChangeAcknowledged,
    SchemaAdded,
    SchemaDeleted,
    SchemaRegistered,
    SegmentCopyDeleted,
    SegmentCreated,
    SegmentInSyncAltered,
    SegmentLeaderElected,
    SegmentSealed,
    SessionDisconnected,
    SessionEnded,
    SessionOpened,
    SessionOwnerLost,
    SessionOwnerSettled,
    ShardCreated,
    ShardDeleting,
    ShardGone,
    Stamp,
    SubscriptionsChanged,
    SyncStateSetAltered,
    TopicCreated,
    TopicDeleted,
    TopicUpdated,
    VoterRebuilt,
    WillAcknowledged,
    WillDecided,
    WillHandedOver,
)
from quorate.model.brokers import fault_of
from quorate_spark.dashboard.fold import FIRST
from quorate_spark.dashboard.model import RECENT_MAX, AcknowledgedRole, BrokerSet, Leader, Member, Node, settled

_replace = msgspec.structs.replace

_T = TypeVar("_T")


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic's configuration."""

    read_queues: int
    write_queues: int
    permission: int
    filter_type: str
    system_flags: int
    order: bool
    attributes: dict[str, str]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one scope."""

    values: dict[str, str]


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the first ``offset`` events add up to."""

    offset: int = 0
    time: int | None = None
    """Of the last event; None before the first."""
    term: int = 0
    cluster: ClusterCreated | None = None
    feature_level: int = 0
    leader: Leader | None = None
    nodes: Map[int, Node] = Map()
    sets: Map[str, BrokerSet] = Map()
    topics: Map[str, Topic] = Map()
    configs: Map[str, Config] = Map()


def evolve(state: State, event: Event, stamp: Stamp) -> State:
    """The state after the event, whose offset must be the state's. Raises InvariantBrokenError."""
    match event:
        case (
            SyncStateSetAltered()
            | MasterElected()
            | ElectionFailed()
            | RoleChangeAcknowledged()
            | BrokerFenced()
            | BrokerUnfenced()
            | BrokerRegistered()
            | BrokerAddressChanged()
        ):
            found = state.sets.get(event.broker_set)
            if found is None:
                raise InvariantBrokenError(f"event {stamp.offset} is about {event.broker_set!r}, which is not there")
            changed = settled(_set_after(found, event, stamp))
            return _next(state, stamp, sets=state.sets.set(event.broker_set, changed))
        case BrokerLifeBegan():  # Not of its time.
            touched = _replace(state.sets[event.broker_set], touched=stamp.offset)
            return _next(state, stamp, sets=state.sets.set(event.broker_set, touched))
        case BrokerIdApplied():
            return _next(state, stamp, sets=state.sets.set(event.broker_set, _applied(state, event, stamp)))
        case BrokerDataCleaned():
            return _next(state, stamp, sets=_cleaned(state, event, stamp))
        case TopicCreated() | TopicUpdated():
            return _next(state, stamp, topics=state.topics.set(event.topic, _topic(event)))
        case TopicDeleted():
            return _next(state, stamp, topics=_without(state.topics, event.topic))
        case ConfigChanged():
            return _next(state, stamp, configs=_configured(state, event))
        case ClusterCreated() | FeatureLevelChanged() | ControllerLeaderElected() | NodeStarted() | VoterRebuilt():
            return _governed(state, event, stamp)
        case KeyPut() | KeyDeleted() | LeaseGranted() | LeaseCheckpointed() | LeaseEnded():  # Not of its time.
            return _next(state, stamp)
        case (
            MemberRegistered() | MemberAmended() | MemberUnfenced() | MemberFenced() | MemberDraining() | MemberGone()
        ):  # Neither.
            return _next(state, stamp)
        case SchemaAdded() | SchemaRegistered() | SchemaDeleted():  # Neither.
            return _next(state, stamp)
        case ShardCreated() | ShardDeleting() | ShardGone():
            return _next(state, stamp)
        case (
            SegmentCreated() | SegmentSealed() | SegmentLeaderElected() | SegmentInSyncAltered() | SegmentCopyDeleted()
        ):
            return _next(state, stamp)
        case SessionOpened() | SubscriptionsChanged() | SessionDisconnected() | SessionEnded() | WillDecided():
            return _next(state, stamp)
        case SessionOwnerLost() | SessionOwnerSettled() | WillHandedOver() | WillAcknowledged():
            return _next(state, stamp)
        case _:
            raise TypeError(f"{type(event).__name__} came after this fold")


def _next(state: State, stamp: Stamp, **changes: object) -> State:
    return _replace(state, offset=stamp.offset + 1, time=stamp.time_ms, term=stamp.term, **changes)


def _set_after(
    found: BrokerSet,
    event: SyncStateSetAltered
    | MasterElected
    | ElectionFailed
    | RoleChangeAcknowledged
    | BrokerFenced
    | BrokerUnfenced
    | BrokerRegistered
    | BrokerAddressChanged,
    stamp: Stamp,
) -> BrokerSet:
    match event:
        case SyncStateSetAltered():
            return _replace(
                found,
                sync=event.new,
                sync_epoch=event.sync_state_set_epoch,
                sync_since=stamp.time_ms,
                touched=stamp.offset,
            )
        case MasterElected():
            return _elected(found, event, stamp)
        case ElectionFailed():
            return _failed(found, event, stamp)
        case RoleChangeAcknowledged():
            return _acknowledged(found, event, stamp)
        case BrokerFenced():
            member = _replace(_member(found, event.broker_id), fenced=True, why=event.evidence, since=stamp.time_ms)
            fenced = _with(found, member, stamp)
            if event.broker_id != found.master or found.lost_at is not None:
                return fenced
            return _lost(fenced, event, stamp)
        case BrokerUnfenced():
            member = _member(found, event.broker_id)
            why = "" if member.registered else member.why
            back = _with(found, _replace(member, fenced=False, why=why, since=stamp.time_ms), stamp)
            if event.broker_id != found.master:
                return back
            return _replace(back, lost_at=None, lost_estimated=False, lost_offset=None)
        case BrokerRegistered() | BrokerAddressChanged():
            there = _with(found, _announced(_member(found, event.broker_id), event, stamp), stamp)
            member = _member(there, event.broker_id)
            if isinstance(event, BrokerAddressChanged) or event.broker_id != found.master or member.fenced:
                return there
            return _replace(there, lost_at=None, lost_estimated=False, lost_offset=None)
        case _:
            assert_never(event)


def _elected(found: BrokerSet, event: MasterElected, stamp: Stamp) -> BrokerSet:
    first = event.decided_by == FIRST
    return _replace(
        found,
        members=_judged(found, event),
        master=event.master,
        master_since=stamp.time_ms,
        master_offset=stamp.offset,
        epoch=event.master_epoch,
        sync=event.sync_state_set,
        sync_epoch=event.sync_state_set_epoch,
        sync_since=stamp.time_ms,
        lost_at=None,
        lost_estimated=False,
        lost_offset=None,
        last_failed=None,
        failure="",
        elections=found.elections + 1,
        recent=found.recent if first else (*found.recent, stamp.time_ms)[-RECENT_MAX:],
        touched=stamp.offset,
    )


def _failed(found: BrokerSet, event: ElectionFailed, stamp: Stamp) -> BrokerSet:
    return _replace(
        found if found.lost_at is not None else _lost(found, event, stamp),
        members=_judged(found, event),
        master=None,
        master_since=None,
        master_offset=None,
        epoch=event.master_epoch,
        last_failed=stamp.offset,
        failure=event.explanation,
        touched=stamp.offset,
    )


def _lost(found: BrokerSet, event: ElectionFailed | BrokerFenced | BrokerDataCleaned, stamp: Stamp) -> BrokerSet:
    """From here on nobody serves; it began when the fault did, or now."""
    fault, estimated = fault_of(event)
    began = stamp.time_ms if fault is None else fault
    return _replace(found, lost_at=began, lost_estimated=estimated, lost_offset=stamp.offset)


def _judged(found: BrokerSet, event: MasterElected | ElectionFailed) -> tuple[Member, ...]:
    """The members with the priorities the election saw."""
    seen = {candidate.broker_id: candidate for candidate in event.candidates}
    return tuple(
        _replace(member, priority=seen[member.id].priority) if member.id in seen else member for member in found.members
    )


def _acknowledged(found: BrokerSet, event: RoleChangeAcknowledged, stamp: Stamp) -> BrokerSet:
    """Who answered has taken the epoch; a role told for an election that is over already is told all the same."""
    heard = {ack.broker_id for ack in event.acks if ack.acknowledged_ms > 0}
    master = found.master if event.master_epoch == found.epoch else None
    members = tuple(
        _replace(
            member,
            reported=AcknowledgedRole(
                role="master" if member.id == master else "slave", epoch=event.master_epoch, offset=stamp.offset
            ),
        )
        if member.id in heard
        else member
        for member in found.members
    )
    return _replace(found, members=members, touched=stamp.offset)


def _announced(member: Member, event: BrokerRegistered | BrokerAddressChanged, stamp: Stamp) -> Member:
    addr = event.address if isinstance(event, BrokerRegistered) else event.new_address
    if member.registered:
        return _replace(member, addr=addr)
    why = member.why if member.fenced else ""
    return _replace(member, addr=addr, registered=True, why=why, since=stamp.time_ms)


def _applied(state: State, event: BrokerIdApplied, stamp: Stamp) -> BrokerSet:
    found = state.sets.get(event.broker_set)
    if found is None or found.half:
        found = BrokerSet(name=event.broker_set, cluster=event.cluster)
    member = Member(id=event.broker_id, addr=event.address, since=stamp.time_ms)
    return settled(_with(found, member, stamp))


def _cleaned(state: State, event: BrokerDataCleaned, stamp: Stamp) -> Map[str, BrokerSet]:
    """The set goes, or some ids; with ``whole_set`` *and* ids only its sync half goes (as the controller folds it)."""
    found = state.sets.get(event.broker_set)
    if found is None:
        raise InvariantBrokenError(f"event {stamp.offset} is about {event.broker_set!r}, which is not there")
    left = tuple(member for member in found.members if member.id not in event.broker_ids)
    if not event.broker_ids or not left:
        return state.sets.delete(found.name)
    if event.whole_set:
        half = BrokerSet(name=found.name, cluster=found.cluster, members=left, half=True, touched=stamp.offset)
        return state.sets.set(found.name, settled(half))
    sync = tuple(broker_id for broker_id in found.sync if broker_id not in event.broker_ids)
    since = found.sync_since if sync == found.sync else stamp.time_ms
    smaller = _replace(found, members=left, sync=sync, sync_since=since, touched=stamp.offset)
    gone = found.master in event.broker_ids and found.lost_at is None
    return state.sets.set(found.name, settled(_lost(smaller, event, stamp) if gone else smaller))


def _configured(state: State, event: ConfigChanged) -> Map[str, Config]:
    config = state.configs.get(event.scope)
    values = {} if config is None else dict(config.values)
    for change in event.changes:
        if change.new is None:
            values.pop(change.name, None)
        else:
            values[change.name] = change.new
    if values:
        return state.configs.set(event.scope, Config(values=dict(sorted(values.items()))))
    return _without(state.configs, event.scope)


def _governed(
    state: State,
    event: ClusterCreated | FeatureLevelChanged | ControllerLeaderElected | NodeStarted | VoterRebuilt,
    stamp: Stamp,
) -> State:
    match event:
        case ClusterCreated():
            nodes = {voter.id: Node(id=voter.id, addresses=voter.addresses) for voter in event.voters}
            return _next(state, stamp, cluster=event, feature_level=event.feature_level, nodes=Map(nodes))
        case FeatureLevelChanged():
            return _next(state, stamp, feature_level=event.new)
        case ControllerLeaderElected():
            leader = Leader(
                node_id=event.node_id,
                term=stamp.term,
                offset=stamp.offset,
                since=stamp.time_ms,
                previous=event.previous_leader,
                cause=event.cause,
                silent_for_ms=event.silent_for_ms,
            )
            return _next(state, stamp, leader=leader)
        case NodeStarted():
            node = Node(id=event.node_id, addresses=event.addresses, version=event.version, started=stamp.time_ms)
            return _next(state, stamp, nodes=state.nodes.set(event.node_id, node))
        case VoterRebuilt():
            return _next(state, stamp)
        case _:
            assert_never(event)


def _topic(event: TopicCreated | TopicUpdated) -> Topic:
    return Topic(
        read_queues=event.read_queues,
        write_queues=event.write_queues,
        permission=event.permission,
        filter_type=event.filter_type,
        system_flags=event.system_flags,
        order=event.order,
        attributes=event.attributes,
    )


def _member(found: BrokerSet, broker_id: int) -> Member:
    member = found.member(broker_id)
    if member is None:
        raise InvariantBrokenError(f"an event about broker {broker_id} of {found.name!r}, which is not there")
    return member


def _with(found: BrokerSet, changed: Member, stamp: Stamp) -> BrokerSet:
    """The set with this member instead of, or besides, the ones it has; by rising id."""
    others = [member for member in found.members if member.id != changed.id]
    return _replace(found, members=tuple(sorted([*others, changed], key=_id)), touched=stamp.offset)


def _id(member: Member) -> int:
    return member.id


def _without(entities: Map[str, _T], name: str) -> Map[str, _T]:
    return entities.delete(name) if name in entities else entities
