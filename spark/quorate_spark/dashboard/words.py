"""Each event as one sentence for people, and how loud to say it."""

import datetime as dt
from typing import assert_never

from quorate.events import (
    BrokerAddressChanged,
    BrokerDataCleaned,
    BrokerFenced,
    BrokerIdApplied,
    BrokerRegistered,
    BrokerUnfenced,
    ClusterCreated,
    ConfigChange,
    ConfigChanged,
    ControllerLeaderElected,
    ElectionFailed,
    Event,
    FeatureLevelChanged,
    MasterElected,
    NodeStarted,
    RoleChangeAcknowledged,
    SyncStateSetAltered,
    TopicCreated,
    TopicDeleted,
    TopicUpdated,
    VoterRebuilt,
)
from quorate_spark.dashboard.fold import FIRST


def clock(time_ms: int) -> str:
    """``08:35:48 UTC``."""
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).strftime("%H:%M:%S UTC")


def ids(numbers: tuple[int, ...]) -> str:
    """``{1, 2, 3}``."""
    return "{" + ", ".join(map(str, sorted(numbers))) + "}"


def plural(count: int, one: str, many: str = "") -> str:
    """``1 set``, ``2 sets``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def text(event: Event) -> str:
    """What happened; the key says to whom."""
    match event:
        case MasterElected():
            before = "" if event.old_master is None else f"{event.old_master} → "
            return f"broker {before}{event.master}, epoch {event.master_epoch}"
        case ElectionFailed():
            return "no master can be elected"
        case SyncStateSetAltered():
            return f"{ids(event.old)} → {ids(event.new)}"
        case RoleChangeAcknowledged():
            heard = tuple(ack.broker_id for ack in event.acks if ack.acknowledged_ms)
            return f"epoch {event.master_epoch} taken by {ids(heard)}" if heard else "nobody acknowledged"
        case BrokerIdApplied():
            return f"id {event.broker_id} taken by {event.address}"
        case BrokerRegistered():
            return f"broker {event.broker_id} at {event.address}"
        case BrokerAddressChanged():
            moved = event.old_address != event.new_address
            return f"broker {event.broker_id} " + (f"moved to {event.new_address}" if moved else "announced changes")
        case BrokerFenced():
            return f"broker {event.broker_id} fenced, {event.evidence}"
        case BrokerUnfenced():
            return f"broker {event.broker_id} back"
        case BrokerDataCleaned():
            return "forgotten" if not event.broker_ids else f"broker {ids(event.broker_ids)} forgotten"
        case _:
            return _of_the_cluster(event)


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
            return plural(len(event.voters), "voter")
        case ControllerLeaderElected():
            return f"node {event.node_id} leads, {event.cause}"
        case NodeStarted():
            return f"node {event.node_id} started, {event.version}"
        case VoterRebuilt():
            return f"node {event.node_id} rebuilt, directory {event.new_dir_uuid[:8]}"
        case FeatureLevelChanged():
            return f"level {event.old} → {event.new}"
        case ConfigChanged():
            return ", ".join(map(_change, event.changes))
        case TopicCreated() | TopicUpdated():
            return f"{event.read_queues} read, {event.write_queues} write queues"
        case TopicDeleted():
            return "deleted"
        case _:
            assert_never(event)


def _change(change: ConfigChange) -> str:
    return f"{change.name} unset" if change.new is None else f"{change.name} = {change.new}"


def tone(event: Event) -> str:
    """``bad``, ``warn``, ``strong``, or nothing special."""
    match event:
        case ElectionFailed():
            return "bad"
        case MasterElected():
            return "" if event.decided_by == FIRST else "strong"
        case ControllerLeaderElected():
            return "strong"
        case BrokerFenced():
            return "warn"
        case SyncStateSetAltered():
            return "warn" if len(event.new) < len(event.old) else ""
        case _:
            return ""
