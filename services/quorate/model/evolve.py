"""From a state and an event to the next state: on every node, at every replay, the same.

Rules: total over what ``decide`` produced; looks at nothing but its arguments; an event touches exactly the entity its
key names. An event about a broker set that is not there cannot have been decided: InvariantBrokenError, and the node
stops rather than serve from a state it cannot explain.
"""

from collections.abc import Iterable
from typing import Final, assert_never

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
    Candidate,
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
    raw_name,
)
from quorate.model.evolve_sessions import after_owner, after_session, after_will
from quorate.model.names import with_name, without_name
from quorate.model.ordered import OrderedMap
from quorate.model.segments import after_segment, after_shard
from quorate.model.state import (
    BrokerSet,
    Cluster,
    Config,
    Election,
    KeyValue,
    Leader,
    Lease,
    Member,
    Node,
    Replica,
    Schema,
    State,
    Subject,
    SubjectVersion,
    Topic,
)

_replace = msgspec.structs.replace
FORMER_MAX: Final = 1000
"""Directories of one voter that are known as given up. Fixed: every node keeps the same."""


def evolve(state: State, event: Event, stamp: Stamp) -> State:
    """The state after the event. Raises InvariantBrokenError for one that no decision can have produced."""
    match event:  # The frequent one first and on its own: a match costs by the case.
        case SyncStateSetAltered():
            broker_set = _broker_set(state, event.broker_set)
            changed = _replace(broker_set, sync_state_set=event.new, sync_state_set_epoch=event.sync_state_set_epoch)
            return _replace(state, broker_sets=state.broker_sets.set(event.broker_set, changed))
        case KeyPut() | KeyDeleted():
            return _stored(state, event, stamp.offset + event.following)
        case MasterElected() | ElectionFailed() | RoleChangeAcknowledged() | BrokerFenced():
            changed = _judged(_broker_set(state, event.broker_set), event, stamp)
            return _replace(state, broker_sets=state.broker_sets.set(event.broker_set, changed))
        case BrokerUnfenced() | BrokerRegistered() | BrokerAddressChanged():
            changed = _announced(_broker_set(state, event.broker_set), event)
            return _replace(state, broker_sets=state.broker_sets.set(event.broker_set, changed))
        case BrokerIdApplied():
            return _replace(state, broker_sets=state.broker_sets.set(event.broker_set, _applied(state, event)))
        case BrokerLifeBegan():
            changed = _lives(_broker_set(state, event.broker_set), event.broker_id, stamp.offset)
            return _replace(state, broker_sets=state.broker_sets.set(event.broker_set, changed))
        case BrokerDataCleaned():
            return _replace(state, broker_sets=_cleaned(state, event))
        case TopicCreated() | TopicUpdated():
            return _replace(state, topics=state.topics.set(event.topic, _topic(event)))
        case TopicDeleted():
            if event.topic not in state.topics:
                raise InvariantBrokenError(f"a deletion of the topic {event.topic!r}, which is not there")
            return _replace(state, topics=state.topics.delete(event.topic))
        case ConfigChanged():
            return _configured(state, event)
        case ClusterCreated() | FeatureLevelChanged() | ControllerLeaderElected():
            return _governed(state, event, stamp)
        case NodeStarted() | VoterRebuilt():
            node = _node(state.nodes.get(event.node_id), event, stamp)
            return _replace(state, nodes=state.nodes.set(event.node_id, node))
        case LeaseGranted() | LeaseCheckpointed() | LeaseEnded():
            return _replace(state, leases=_leased(state.leases, event, stamp))
        case MemberRegistered():
            members = state.members.set(event.member, _registered(event, stamp))
            return _replace(state, members=members, member_names=with_name(state.member_names, event.member))
        case MemberAmended() | MemberUnfenced() | MemberFenced() | MemberDraining() | MemberGone():
            members = _known(state.members, event, stamp)
            gone = isinstance(event, MemberGone)
            names = without_name(state.member_names, event.member) if gone else state.member_names
            return _replace(state, members=members, member_names=names)
        case SchemaAdded(schema_id=number, schema=text):
            schemas = state.schemas.set(number, Schema(schema_id=number, schema=text))
            return _replace(state, schemas=schemas, schema_ids=state.schema_ids.set(text, number))
        case SchemaRegistered() | SchemaDeleted():
            return _replace(state, subjects=_versions(state.subjects, event))
        case ShardCreated() | ShardDeleting() | ShardGone():
            return after_shard(state, event, stamp)
        case (
            SegmentCreated() | SegmentSealed() | SegmentLeaderElected() | SegmentInSyncAltered() | SegmentCopyDeleted()
        ):
            return after_segment(state, event, stamp)
        case SessionOpened() | SubscriptionsChanged() | SessionDisconnected() | WillDecided() | SessionEnded():
            return after_session(state, event, stamp)
        case SessionOwnerLost() | SessionOwnerSettled():
            return _replace(state, session_owners=after_owner(state.session_owners, event, stamp))
        case WillHandedOver() | WillAcknowledged():
            return _replace(state, wills=after_will(state.wills, event, stamp))
        case _:
            assert_never(event)


def _broker_set(state: State, name: str) -> BrokerSet:
    broker_set = state.broker_sets.get(name)
    if broker_set is None:
        raise InvariantBrokenError(f"an event about the broker set {name!r}, which is not there")
    return broker_set


def _judged(
    broker_set: BrokerSet,
    event: MasterElected | ElectionFailed | RoleChangeAcknowledged | BrokerFenced,
    stamp: Stamp,
) -> BrokerSet:
    """What the controller ruled about a set."""
    match event:
        case MasterElected():
            return _replace(
                broker_set,
                master=event.master,
                master_epoch=event.master_epoch,
                sync_state_set=event.sync_state_set,
                sync_state_set_epoch=event.sync_state_set_epoch,
                election=_election(event, stamp, event.decided_by),
                failed_inputs="",
            )
        case ElectionFailed():
            return _replace(
                broker_set,
                master=None,
                master_epoch=event.master_epoch,
                election=_election(event, stamp, ""),
                failed_inputs=inputs(event.candidates),
            )
        case RoleChangeAcknowledged():
            if broker_set.election is None:
                raise InvariantBrokenError(f"an acknowledged role change of {broker_set.name!r}, which had no election")
            return _replace(broker_set, election=_replace(broker_set.election, acknowledged=True))
        case BrokerFenced():
            return _with_replica(broker_set, _replace(_replica(broker_set, event.broker_id), fenced=True))
        case _:
            assert_never(event)


def inputs(candidates: Iterable[Candidate]) -> str:
    """What could change the end of a failed election: who is there, alive, in sync, a learner. Part of the state."""
    return " ".join(
        f"{one.broker_id}{'a' if one.alive else ''}{'s' if one.in_sync else ''}{'l' if one.learner else ''}"
        for one in candidates
    )


def _announced(broker_set: BrokerSet, event: BrokerUnfenced | BrokerRegistered | BrokerAddressChanged) -> BrokerSet:
    """What a broker said of itself, or by being there again."""
    replica = _replica(broker_set, event.broker_id)
    if isinstance(event, BrokerUnfenced):
        return _with_replica(broker_set, _replace(replica, fenced=False))
    address = event.address if isinstance(event, BrokerRegistered) else event.new_address
    changed = _replace(replica, address=address, registered=True, capabilities=event.capabilities, topics=event.topics)
    return _with_replica(broker_set, changed)


def _lives(broker_set: BrokerSet, broker_id: int, epoch: int) -> BrokerSet:
    """A process began to serve as that broker."""
    return _with_replica(broker_set, _replace(_replica(broker_set, broker_id), registration_epoch=epoch))


def _applied(state: State, event: BrokerIdApplied) -> BrokerSet:
    """A new id, and the counter one further, whatever the id (Java ``BrokerReplicaInfo.addBroker``)."""
    broker_set = state.known(event.broker_set)
    if broker_set is None:
        broker_set = BrokerSet(name=event.broker_set, cluster=event.cluster)
    replica = Replica(broker_id=event.broker_id, address=event.address, register_check_code=event.register_check_code)
    return _replace(_with_replica(broker_set, replica), next_broker_id=broker_set.next_broker_id + 1)


def _cleaned(state: State, event: BrokerDataCleaned) -> Map[str, BrokerSet]:
    """The set goes, or some ids; with ``whole_set`` *and* ids the sync half goes (policy.no_half_known_sets off)."""
    broker_set = _broker_set(state, event.broker_set)
    left = tuple(r for r in broker_set.replicas if r.broker_id not in event.broker_ids)
    if not event.broker_ids or not left:
        return state.broker_sets.delete(broker_set.name)
    if event.whole_set:
        return state.broker_sets.set(broker_set.name, broker_set.halved(left))
    in_sync = tuple(broker_id for broker_id in broker_set.sync_state_set if broker_id not in event.broker_ids)
    return state.broker_sets.set(broker_set.name, _replace(broker_set, replicas=left, sync_state_set=in_sync))


def _configured(state: State, event: ConfigChanged) -> State:
    """A scope without settings is no entity."""
    config = state.configs.get(event.scope)
    values = {} if config is None else dict(config.values)
    for change in event.changes:
        if change.new is None:
            values.pop(change.name, None)
        else:
            values[change.name] = change.new
    if values:
        changed = Config(scope=event.scope, values=dict(sorted(values.items())))
        return _replace(state, configs=state.configs.set(event.scope, changed))
    return state if config is None else _replace(state, configs=state.configs.delete(event.scope))


def _stored(state: State, event: KeyPut | KeyDeleted, revision: int) -> State:
    """The key with its new value, or without any; and under the lease it goes with."""
    name = raw_name(event.key)
    before = state.keys.get(name)
    if isinstance(event, KeyPut):
        put = KeyValue(
            key=event.key,
            value=event.value,
            create_revision=revision if before is None else before.create_revision,
            mod_revision=revision,
            version=1 if before is None else before.version + 1,
            lease=event.lease,
        )
        keys, lease = state.keys.set(name, put), event.lease
    elif before is not None:
        keys, lease = state.keys.delete(name), 0
    else:
        raise _not_there(event)
    was = 0 if before is None else before.lease
    if was == lease:
        return _replace(state, keys=keys)
    attached = with_key(without_key(state.attached, was, name), lease, name)
    taken = len(event.key)
    attached_bytes = with_bytes(with_bytes(state.attached_bytes, was, -taken), lease, taken)
    return _replace(state, keys=keys, attached=attached, attached_bytes=attached_bytes)


def without_keys(state: State, events: Iterable[KeyDeleted]) -> State:
    """What ``evolve`` makes of deletions that follow each other, at a third of the price: what goes with a lease is
    taken off at the end, and at once where nothing is left of it.
    """
    keys, gone = state.keys, dict[int, list[KeyValue]]()
    for event in events:
        name = raw_name(event.key)
        before = keys.get(name)
        if before is None:
            raise _not_there(event)
        keys = keys.delete(name)
        if before.lease:
            gone.setdefault(before.lease, []).append(before)
    attached, attached_bytes = state.attached, state.attached_bytes
    for lease, found in gone.items():
        if len(found) == len(attached[lease]):
            attached = attached.delete(lease)
        else:
            for one in found:
                attached = without_key(attached, lease, raw_name(one.key))
        attached_bytes = with_bytes(attached_bytes, lease, -sum([len(one.key) for one in found]))
    return _replace(state, keys=keys, attached=attached, attached_bytes=attached_bytes)


def _not_there(event: KeyDeleted) -> InvariantBrokenError:
    return InvariantBrokenError(f"a deletion of the key {event.key!r}, which is not there")


def with_key(attached: Map[int, OrderedMap[None]], lease: int, name: bytes) -> Map[int, OrderedMap[None]]:
    """The keys by lease, and one more."""
    return attached.set(lease, attached.get(lease, OrderedMap()).set(name, None)) if lease else attached


def without_key(attached: Map[int, OrderedMap[None]], lease: int, name: bytes) -> Map[int, OrderedMap[None]]:
    """The keys by lease, and one less."""
    if not lease:
        return attached
    left = attached[lease].delete(name)
    return attached.set(lease, left) if left else attached.delete(lease)


def with_bytes(attached: Map[int, int], lease: int, more: int) -> Map[int, int]:
    """The bytes of names by lease, with so many more, or less."""
    if not lease:
        return attached
    left = attached.get(lease, 0) + more
    return attached.set(lease, left) if left else attached.delete(lease)


def _leased(
    leases: Map[int, Lease], event: LeaseGranted | LeaseCheckpointed | LeaseEnded, stamp: Stamp
) -> Map[int, Lease]:
    if isinstance(event, LeaseGranted):
        return leases.set(event.lease, Lease(lease_id=event.lease, ttl_s=event.ttl_s, granted_ms=stamp.time_ms))
    lease = leases.get(event.lease)
    if lease is None:
        raise InvariantBrokenError(f"an event about the lease {event.lease}, which is not there")
    match event:
        case LeaseCheckpointed():
            return leases.set(event.lease, _replace(lease, remaining_s=event.remaining_s))
        case LeaseEnded():
            return leases.delete(event.lease)
        case _:
            assert_never(event)


def _registered(event: MemberRegistered, stamp: Stamp) -> Member:
    return Member(
        name=event.member,
        incarnation=event.incarnation,
        epoch=stamp.offset,
        roles=event.roles,
        addresses=event.addresses,
        labels=event.labels,
        timeout_ms=event.timeout_ms,
        fenced=True,
        changed_ms=stamp.time_ms,
    )


def _known(
    members: Map[str, Member],
    event: MemberAmended | MemberUnfenced | MemberFenced | MemberDraining | MemberGone,
    stamp: Stamp,
) -> Map[str, Member]:
    """What became of a member that is registered."""
    member = members.get(event.member)
    if member is None or member.epoch != event.epoch:
        raise InvariantBrokenError(f"an event about epoch {event.epoch} of the member {event.member!r}, which is none")
    match event:
        case MemberAmended():
            changed = _replace(
                member,
                roles=event.roles,
                addresses=event.addresses,
                labels=event.labels,
                timeout_ms=event.timeout_ms,
            )
        case MemberUnfenced() | MemberFenced():
            changed = _replace(member, fenced=isinstance(event, MemberFenced), changed_ms=stamp.time_ms)
        case MemberDraining():
            changed = _replace(member, draining=True, changed_ms=stamp.time_ms)
        case MemberGone():
            return members.delete(event.member)
        case _:
            assert_never(event)
    return members.set(event.member, changed)


def _versions(subjects: Map[str, Subject], event: SchemaRegistered | SchemaDeleted) -> Map[str, Subject]:
    """A subject without versions is no entity."""
    subject = subjects.get(event.subject)
    if isinstance(event, SchemaRegistered):
        versions = () if subject is None else subject.versions
        added = SubjectVersion(version=event.version, schema_id=event.schema_id)
        return subjects.set(event.subject, Subject(subject=event.subject, versions=(*versions, added)))
    if subject is None:
        raise InvariantBrokenError(f"a deletion in the subject {event.subject!r}, which is not there")
    gone = frozenset(event.versions)
    if event.permanent:
        left = tuple(one for one in subject.versions if one.version not in gone)
    else:
        left = tuple(_replace(one, deleted=True) if one.version in gone else one for one in subject.versions)
    return subjects.set(event.subject, _replace(subject, versions=left)) if left else subjects.delete(event.subject)


def _governed(
    state: State, event: ClusterCreated | FeatureLevelChanged | ControllerLeaderElected, stamp: Stamp
) -> State:
    """What concerns the controllers themselves."""
    match event:
        case ClusterCreated():
            cluster = Cluster(
                cluster_id=event.cluster_id,
                voters=event.voters,
                feature_level=event.feature_level,
                cluster_uuid=event.cluster_uuid,
            )
            return _replace(state, cluster=cluster, feature_level=event.feature_level)
        case FeatureLevelChanged():
            return _replace(state, feature_level=event.new)
        case ControllerLeaderElected():
            leader = Leader(
                node_id=event.node_id,
                term=stamp.term,
                offset=stamp.offset,
                since_ms=stamp.time_ms,
                cause=event.cause,
            )
            return _replace(state, leader=leader)
        case _:
            assert_never(event)


def _node(node: Node | None, event: NodeStarted | VoterRebuilt, stamp: Stamp) -> Node:
    """What founded the cluster stays as it was: a directory that came later is none that voted then."""
    former = () if node is None else node.former
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
                former = (*former, event.old_dir_uuid)[-FORMER_MAX:]
            return Node(
                node_id=event.node_id,
                dir_uuid=event.new_dir_uuid,
                version="" if node is None else node.version,
                addresses=event.addresses,
                feature_min=0 if node is None else node.feature_min,
                feature_max=0 if node is None else node.feature_max,
                started_ms=0 if node is None else node.started_ms,
                former=former,
            )
        case _:
            assert_never(event)


def _topic(event: TopicCreated | TopicUpdated) -> Topic:
    return Topic(
        topic=event.topic,
        read_queues=event.read_queues,
        write_queues=event.write_queues,
        permission=event.permission,
        filter_type=event.filter_type,
        system_flags=event.system_flags,
        order=event.order,
        attributes=event.attributes,
    )


def _election(event: MasterElected | ElectionFailed, stamp: Stamp, decided_by: str) -> Election:
    return Election(
        offset=stamp.offset,
        time_ms=stamp.time_ms,
        trigger=event.trigger,
        explanation=event.explanation,
        decided_by=decided_by,
    )


def _replica(broker_set: BrokerSet, broker_id: int) -> Replica:
    replica = broker_set.replica(broker_id)
    if replica is None:
        raise InvariantBrokenError(f"an event about broker {broker_id} of {broker_set.name!r}, which is not there")
    return replica


def _with_replica(broker_set: BrokerSet, changed: Replica) -> BrokerSet:
    """The set with this replica instead of, or besides, the ones it has; by rising id."""
    others = [replica for replica in broker_set.replicas if replica.broker_id != changed.broker_id]
    return _replace(broker_set, replicas=tuple(sorted([*others, changed], key=_broker_id)))


def _broker_id(replica: Replica) -> int:
    return replica.broker_id
