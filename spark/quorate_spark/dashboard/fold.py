"""From a state and an event to the next state of the page: the controller's own model, and times beside it.

Rules: pure. What is true comes from ``quorate.model``; here is only what it does not keep: since when, why, how often.
So a new kind of event needs nothing here: these folds name the kinds they mean, and let the rest pass. An event that
contradicts the state is an InvariantBrokenError, and the page stands still and says so.
"""

from typing import Final

import msgspec
from immutables import Map

from quorate.events import (
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    BrokerRegistered,
    BrokerUnfenced,
    ClusterCreated,
    ControllerLeaderElected,
    ElectionFailed,
    Event,
    LeaseEnded,
    LeaseGranted,
    MasterElected,
    RoleChangeAcknowledged,
    Stamp,
    SyncStateSetAltered,
    about,
)
from quorate.model import evolve as model
from quorate.model import state as true
from quorate.model.brokers import fault_of
from quorate_spark.dashboard.model import (
    RECENT_MAX,
    AcknowledgedRole,
    BrokerSet,
    Leader,
    Member,
    Node,
    State,
    lease_name,
    settled,
)

FIRST: Final = "first election"
"""The rule that names the first master of a set; nothing was lost before it."""

_replace = msgspec.structs.replace


def evolve(state: State, event: Event, stamp: Stamp) -> State:
    """The state after the event, whose offset must be the state's. Raises InvariantBrokenError."""
    after = model.evolve(state.model, event, stamp)
    kind, name = about(event)
    sets, nodes, leader, leases = state.sets, state.nodes, state.leader, state.leases
    match kind:
        case "broker-set":
            sets = _sets(state, after, name, event, stamp)
        case "leader" if isinstance(event, ControllerLeaderElected):
            leader = _leader(event, stamp)
        case "cluster" if isinstance(event, ClusterCreated):
            nodes = Map({voter.id: Node(id=voter.id, addresses=voter.addresses) for voter in event.voters})
        case "node":
            nodes = _nodes(nodes, after.nodes.get(int(name)))
        case "lease" if isinstance(event, LeaseGranted):
            leases = leases.set(lease_name(event.lease), stamp.offset)
        case "lease" if isinstance(event, LeaseEnded):
            leases = leases.delete(lease_name(event.lease))
        case _:
            pass
    return State(
        offset=stamp.offset + 1,
        time=stamp.time_ms,
        term=stamp.term,
        model=after,
        leader=leader,
        nodes=nodes,
        sets=sets,
        leases=leases,
    )


def _sets(state: State, after: true.State, name: str, event: Event, stamp: Stamp) -> Map[str, BrokerSet]:
    """The set as the model has it now, with its times."""
    model_set, before = after.broker_sets.get(name), state.model.broker_sets.get(name)
    if model_set is None:
        return state.sets.delete(name) if name in state.sets else state.sets
    kept = state.sets.get(name) or BrokerSet(name=name, cluster=model_set.cluster)
    members = {member.id: member for member in kept.members}
    if isinstance(event, BrokerIdApplied):
        members.pop(event.broker_id, None)
    if model_set.is_anew(before):
        kept = BrokerSet(name=name, cluster=model_set.cluster)
    return state.sets.set(name, settled(_dated(_as_is(model_set, kept, members, stamp), event, stamp)))


def _as_is(model_set: true.BrokerSet, kept: BrokerSet, members: dict[int, Member], stamp: Stamp) -> BrokerSet:
    """The set as the model has it, with the times that the page keeps."""
    return _replace(
        kept,
        members=tuple(_member(replica, members.get(replica.broker_id), stamp) for replica in model_set.replicas),
        half=not model_set.sync_known,
        master=model_set.master,
        epoch=model_set.master_epoch,
        sync=model_set.sync_state_set,
        sync_epoch=model_set.sync_state_set_epoch,
        sync_since=kept.sync_since if model_set.sync_state_set == kept.sync else stamp.time_ms,
        touched=stamp.offset,
    )


def _member(replica: true.Replica, before: Member | None, stamp: Stamp) -> Member:
    if before is None:
        before = Member(id=replica.broker_id, addr=replica.address, since=stamp.time_ms)
    is_now, was = (replica.registered, replica.fenced), (before.registered, before.fenced)
    if (is_now, replica.address) == (was, before.addr):
        return before
    return _replace(
        before,
        addr=replica.address,
        registered=replica.registered,
        fenced=replica.fenced,
        since=before.since if is_now == was else stamp.time_ms,
        why="" if is_now == (True, False) else before.why,
    )


def _dated(broker_set: BrokerSet, event: Event, stamp: Stamp) -> BrokerSet:
    """Since when, and why: what the event says of it."""
    match event:
        case SyncStateSetAltered():
            return _replace(broker_set, sync_since=stamp.time_ms)
        case MasterElected():
            return _elected(broker_set, event, stamp)
        case ElectionFailed():
            return _failed(broker_set, event, stamp)
        case RoleChangeAcknowledged():
            return _acknowledged(broker_set, event, stamp)
        case BrokerFenced():
            fenced = _replace(broker_set, members=_fenced(broker_set, event))
            return _lost(fenced, event, stamp) if event.broker_id == broker_set.master else fenced
        case BrokerDataCleaned():
            gone = broker_set.master is not None and broker_set.member(broker_set.master) is None
            return _lost(broker_set, event, stamp) if gone else broker_set
        case BrokerUnfenced() | BrokerRegistered():
            master = broker_set.member(broker_set.master)
            if master is None or master.id != event.broker_id or master.fenced:
                return broker_set
            return _replace(broker_set, lost_at=None, lost_estimated=False, lost_offset=None)
        case _:
            return broker_set


def _fenced(broker_set: BrokerSet, event: BrokerFenced) -> tuple[Member, ...]:
    return tuple(_replace(one, why=event.evidence) if one.id == event.broker_id else one for one in broker_set.members)


def _elected(broker_set: BrokerSet, event: MasterElected, stamp: Stamp) -> BrokerSet:
    first = event.decided_by == FIRST
    return _replace(
        broker_set,
        members=_judged(broker_set, event),
        master_since=stamp.time_ms,
        master_offset=stamp.offset,
        sync_since=stamp.time_ms,
        lost_at=None,
        lost_estimated=False,
        lost_offset=None,
        last_failed=None,
        failure="",
        elections=broker_set.elections + 1,
        recent=broker_set.recent if first else (*broker_set.recent, stamp.time_ms)[-RECENT_MAX:],
    )


def _failed(broker_set: BrokerSet, event: ElectionFailed, stamp: Stamp) -> BrokerSet:
    return _replace(
        _lost(broker_set, event, stamp),
        members=_judged(broker_set, event),
        master_since=None,
        master_offset=None,
        last_failed=stamp.offset,
        failure=event.explanation,
    )


def _lost(broker_set: BrokerSet, event: ElectionFailed | BrokerFenced | BrokerDataCleaned, stamp: Stamp) -> BrokerSet:
    """From here on nobody serves, unless nobody did before; it began when the fault did, or now."""
    if broker_set.lost_at is not None:
        return broker_set
    fault, estimated = fault_of(event)
    began = stamp.time_ms if fault is None else fault
    return _replace(broker_set, lost_at=began, lost_estimated=estimated, lost_offset=stamp.offset)


def _judged(broker_set: BrokerSet, event: MasterElected | ElectionFailed) -> tuple[Member, ...]:
    """The members with the priorities the election saw."""
    seen = {candidate.broker_id: candidate for candidate in event.candidates}
    return tuple(
        _replace(member, priority=seen[member.id].priority) if member.id in seen else member
        for member in broker_set.members
    )


def _acknowledged(broker_set: BrokerSet, event: RoleChangeAcknowledged, stamp: Stamp) -> BrokerSet:
    """Brokers that answered have taken the epoch, even of an election that another has followed already."""
    broker_ids = {ack.broker_id for ack in event.acks if ack.acknowledged_ms > 0}
    master = broker_set.master if event.master_epoch == broker_set.epoch else None
    members = tuple(
        _replace(
            member,
            reported=AcknowledgedRole(
                role="master" if member.id == master else "slave", epoch=event.master_epoch, offset=stamp.offset
            ),
        )
        if member.id in broker_ids
        else member
        for member in broker_set.members
    )
    return _replace(broker_set, members=members)


def _leader(event: ControllerLeaderElected, stamp: Stamp) -> Leader:
    return Leader(
        node_id=event.node_id,
        term=stamp.term,
        offset=stamp.offset,
        since=stamp.time_ms,
        previous=event.previous_leader,
        cause=event.cause,
        silent_for_ms=event.silent_for_ms,
    )


def _nodes(nodes: Map[int, Node], found: true.Node | None) -> Map[int, Node]:
    if found is None:
        return nodes
    node = Node(id=found.node_id, addresses=found.addresses, version=found.version, started=found.started_ms or None)
    return nodes.set(node.id, node)
