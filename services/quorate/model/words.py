"""Each fact as one sentence for people, and how sentences say numbers. Of elections: ``election_words``."""

from math import floor
from typing import assert_never

from quorate.events import (
    BrokerAddressChanged,
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    BrokerLifeBegan,
    BrokerRegistered,
    BrokerUnfenced,
    ClusterCreated,
    ConfigChange,
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


def plural(count: int, one: str, many: str = "") -> str:
    """``1 set``, ``2 sets``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def size(count: int) -> str:
    """Bytes: ``812 B``, ``1.05 MiB``, ``10.5 GiB``."""
    for unit, power in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if abs(count) >= 1 << power:
            places = 2 if count < 10 << power else 1
            # Halves go up, as in a browser.
            return f"{floor(count / (1 << power) * 10**places + 0.5) / 10**places:.{places}f} {unit}"
    return f"{count:,} B"


def span(ms: int) -> str:
    """``17 ms``, ``9.2 s``, ``48 s``, ``3 min 05 s``, ``14 min``, ``2 h 14 min``, ``3 d 4 h``."""
    seconds, tenths = (ms + 500) // 1000, (ms + 50) // 100  # Halves go up, as in a browser.
    minutes, hours = seconds // 60, seconds // 3600
    if ms < 9_950:
        return f"{ms} ms" if ms < 1_000 else f"{tenths / 10:.1f} s"
    if minutes < 10:
        return f"{minutes} min {seconds % 60:02} s" if minutes else f"{seconds} s"
    if hours < 48:
        return f"{hours} h {minutes % 60:02} min" if hours else f"{minutes} min"
    return f"{hours // 24} d {hours % 24} h"


def ids(numbers: tuple[int, ...]) -> str:
    """``1, 2, 3``."""
    return ", ".join(map(str, sorted(numbers))) or "nobody"


def sentence(event: Event) -> str:
    """What happened, in one sentence without its time."""
    match event:
        case MasterElected() | ElectionFailed():
            return event.explanation
        case SyncStateSetAltered():
            return f"{event.broker_set}: in sync are now {ids(event.new)} (before: {ids(event.old)})"
        case RoleChangeAcknowledged():
            acks = [ack for ack in event.acks if ack.acknowledged_ms]
            last = max((ack.acknowledged_ms - event.committed_ms for ack in acks), default=0)
            tally = f"{len(acks)} of {len(event.acks)} brokers acknowledged epoch {event.master_epoch}"
            return f"{event.broker_set}: {tally}" + (f", the last after {last} ms" if acks else "")
        case BrokerIdApplied():
            return f"{event.broker_set}: id {event.broker_id} is taken by {event.address}"
        case BrokerRegistered():
            return f"{event.broker_set}: broker {event.broker_id} registered at {event.address}"
        case BrokerLifeBegan():
            before = f", after the one of epoch {event.replaced_epoch}" if event.replaced_epoch else ""
            return f"{event.broker_set}: broker {event.broker_id} began a new life{before}"
        case BrokerAddressChanged():
            return f"{event.broker_set}: broker {event.broker_id} moved from {event.old_address} to {event.new_address}"
        case BrokerFenced():
            return f"{event.broker_set}: broker {event.broker_id} is fenced: {event.evidence}"
        case BrokerUnfenced():
            return f"{event.broker_set}: broker {event.broker_id} is heard again"
        case BrokerDataCleaned():
            what = "the whole set" if event.whole_set else f"broker {ids(event.broker_ids)}"
            return f"{event.broker_set}: {what} was forgotten"
        case KeyPut() | KeyDeleted() | LeaseGranted() | LeaseCheckpointed() | LeaseEnded():
            return _of_keys(event)
        case MemberRegistered() | MemberAmended() | MemberUnfenced() | MemberFenced() | MemberDraining() | MemberGone():
            return _of_members(event)
        case SchemaAdded() | SchemaRegistered() | SchemaDeleted():
            return _of_schemas(event)
        case ShardCreated() | ShardDeleting() | ShardGone():
            return _of_shards(event)
        case (
            SegmentCreated() | SegmentSealed() | SegmentLeaderElected() | SegmentInSyncAltered() | SegmentCopyDeleted()
        ):
            return _of_segments(event)
        case SessionOpened() | SubscriptionsChanged() | SessionDisconnected() | WillDecided() | SessionEnded():
            return _of_sessions(event)
        case SessionOwnerLost() | SessionOwnerSettled() | WillHandedOver() | WillAcknowledged():
            return _of_wills(event)
        case _:
            return _of_the_cluster(event)


def _of_keys(event: KeyPut | KeyDeleted | LeaseGranted | LeaseCheckpointed | LeaseEnded) -> str:
    match event:
        case KeyPut():
            held = f", under lease {lease_number(event.lease)}" if event.lease else ""
            return f"key {event.key} is now {size(len(event.value))}{held}"
        case KeyDeleted():
            return f"key {event.key} was deleted"
        case LeaseGranted():
            return f"lease {lease_number(event.lease)} was granted for {span(event.ttl_s * 1000)}"
        case LeaseCheckpointed():
            left = f"has {span(event.remaining_s * 1000)} left" if event.remaining_s else "was heard again"
            return f"lease {lease_number(event.lease)} {left}"
        case LeaseEnded():
            why = f"not heard for {span(event.silent_ms)}" if event.reason == "expired" else event.reason
            gone = f"; {plural(event.keys, 'key')} went with it" if event.keys else ""
            return f"lease {lease_number(event.lease)} ended: {why}{gone}"
        case _:
            assert_never(event)


def _of_sessions(
    event: SessionOpened | SubscriptionsChanged | SessionDisconnected | WillDecided | SessionEnded,
) -> str:
    match event:
        case SessionOpened():
            before = f", taken over from {event.taken_over_from}" if event.taken_over_from else ""
            how = "opened again" if event.replaced_epoch else "opened"
            return f"session of {event.client} was {how} at {event.member}{before}"
        case SubscriptionsChanged():
            parts = [
                f"{plural(len(many), 'subscription')} {how}"
                for many, how in ((event.added, "added"), (event.removed, "removed"))
                if many
            ]
            return f"session of {event.client}: {', '.join(parts)}"
        case SessionDisconnected():
            how = "left" if event.reason == "closed" else "lost its connection to"
            return f"client {event.client} {how} {event.member}"
        case WillDecided():
            return f"the will of {event.client} is to be published: {event.reason}"
        case SessionEnded():
            gone = f"; {plural(event.subscriptions, 'subscription')} went with it" if event.subscriptions else ""
            return f"session of {event.client} ended: {event.reason}{gone}"
        case _:
            assert_never(event)


def _of_wills(event: SessionOwnerLost | SessionOwnerSettled | WillHandedOver | WillAcknowledged) -> str:
    match event:
        case SessionOwnerLost():
            return (
                f"the clients of {event.member} are gone, for it is {event.reason}: {plural(event.sessions, 'session')}"
            )
        case SessionOwnerSettled():
            back = f"; it has the clients of {plural(event.sessions, 'session')}" if event.sessions else ""
            return f"the loss of {event.member} is settled: {event.reason}{back}"
        case WillHandedOver():
            who = f"{event.member} publishes" if event.member else "nobody can publish"
            return f"{who} the will of {event.client}: {event.reason}"
        case WillAcknowledged():
            return f"{event.member} has published the will of {event.client}"
        case _:
            assert_never(event)


def _of_members(
    event: MemberRegistered | MemberAmended | MemberUnfenced | MemberFenced | MemberDraining | MemberGone,
) -> str:
    match event:
        case MemberRegistered():
            roles = f" as {', '.join(event.roles)}" if event.roles else ""
            before = f", in place of {event.replaced_incarnation}" if event.replaced_epoch else ""
            return f"member {event.member} registered{roles}, incarnation {event.incarnation}{before}"
        case MemberAmended():
            return f"member {event.member} says something else of itself"
        case MemberUnfenced():
            return f"member {event.member} has caught up and is given work"
        case MemberFenced():
            return f"member {event.member} is fenced: not heard for {span(event.timeout_ms)}"
        case MemberDraining():
            return f"member {event.member} is to leave: {event.reason}"
        case MemberGone():
            return f"member {event.member} is gone: {event.reason}"
        case _:
            assert_never(event)


def _of_schemas(event: SchemaAdded | SchemaRegistered | SchemaDeleted) -> str:
    match event:
        case SchemaAdded():
            return f"a schema of {size(len(event.schema.encode()))} has the id {event.schema_id} ({event.schema_type})"
        case SchemaRegistered():
            checked = "unchecked" if event.compatibility == "NONE" else f"checked as {event.compatibility}"
            return f"subject {event.subject}: version {event.version} is schema {event.schema_id}, {checked}"
        case SchemaDeleted():
            how = "deleted for good" if event.permanent else "deleted"
            one = len(event.versions) == 1
            what = f"version {event.versions[0]} was" if one else f"versions {ids(event.versions)} were"
            return f"subject {event.subject}: {what} {how}"
        case _:
            assert_never(event)


def _of_shards(event: ShardCreated | ShardDeleting | ShardGone) -> str:
    match event:
        case ShardCreated():
            spread = f", spread over {event.spread}" if event.spread else ""
            return f"shard {event.shard} was created with {plural(event.replication, 'copy', 'copies')} each{spread}"
        case ShardDeleting():
            return f"shard {event.shard} is to go, with {plural(event.segments, 'segment')}"
        case ShardGone():
            return f"shard {event.shard} is gone: all its copies are deleted"
        case _:
            assert_never(event)


def _of_segments(
    event: SegmentCreated | SegmentSealed | SegmentLeaderElected | SegmentInSyncAltered | SegmentCopyDeleted,
) -> str:
    match event:
        case SegmentCreated() | SegmentLeaderElected():
            return event.explanation
        case SegmentSealed():
            return f"segment {event.segment} is sealed at {event.end_offset:,} by {event.leader}"
        case SegmentInSyncAltered():
            new = ", ".join(copy.member for copy in event.new)
            return f"segment {event.segment}: in sync are now {new} (before: {', '.join(event.old) or 'nobody'})"
        case SegmentCopyDeleted():
            left = f"{plural(event.left, 'copy', 'copies')} left" if event.left else "it was the last one"
            return f"segment {event.segment}: the copy of {event.member} is gone ({event.reason}); {left}"
        case _:
            assert_never(event)


def lease_number(lease: int) -> str:
    """As ``etcdctl`` prints and takes it: hexadecimal, unsigned."""
    return f"{lease % (1 << 64):016x}"


def lease_of(text: str) -> int | None:
    """The lease of such a number; None for what is none."""
    try:
        number = int(text, 16)
    except ValueError:
        return None
    if not 0 <= number < 1 << 64:
        return None
    return number - (1 << 64) if number >> 63 else number


def _of_the_cluster(
    event: ClusterCreated
    | ControllerLeaderElected
    | NodeStarted
    | VoterRebuilt
    | FeatureLevelChanged
    | ConfigChanged
    | TopicCreated
    | TopicUpdated
    | TopicDeleted,
) -> str:
    match event:
        case ClusterCreated():
            return f"cluster {event.cluster_id} was created with {len(event.voters)} voters"
        case ControllerLeaderElected():
            why = leader_cause(event.cause, event.previous_leader, event.silent_for_ms)
            return f"node {event.node_id} leads the controllers: {why}"
        case NodeStarted():
            return f"node {event.node_id} started (version {event.version})"
        case VoterRebuilt():
            before = event.old_dir_uuid or "one that was not known"
            return f"node {event.node_id} was given another directory: {event.new_dir_uuid} (before: {before})"
        case FeatureLevelChanged():
            return f"the feature level is now {event.new} (before: {event.old})"
        case ConfigChanged():
            return f"settings of {event.scope}: {'; '.join(map(_change, event.changes))}"
        case TopicCreated():
            return (
                f"topic {event.topic} was created with {event.read_queues} read and {event.write_queues} write queues"
            )
        case TopicUpdated():
            return f"topic {event.topic} has now {event.read_queues} read and {event.write_queues} write queues"
        case TopicDeleted():
            return f"topic {event.topic} was deleted"
        case _:
            assert_never(event)


def _change(change: ConfigChange) -> str:
    return f"{change.name} unset" if change.new is None else f"{change.name} = {change.new}"


def leader_cause(cause: str, previous: int | None, silent_ms: int) -> str:
    """Why there was an election of controllers, as its winner saw it."""
    before = "the leader before" if previous is None else f"node {previous}"
    match cause:
        case "first start":
            return "first start of the cluster"
        case "connection closed":
            return f"the connection to {before} closed; {span(silent_ms)} without a word from it"
        case "silent":
            return f"{before} was silent for {span(silent_ms)}"
        case "handed over":
            return f"{before} handed over"
        case _:
            return cause
