"""Each fact as one sentence for people."""

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
        case BrokerAddressChanged():
            return f"{event.broker_set}: broker {event.broker_id} moved from {event.old_address} to {event.new_address}"
        case BrokerFenced():
            return f"{event.broker_set}: broker {event.broker_id} is fenced: {event.evidence}"
        case BrokerUnfenced():
            return f"{event.broker_set}: broker {event.broker_id} is heard again"
        case BrokerDataCleaned():
            what = "the whole set" if event.whole_set else f"broker {ids(event.broker_ids)}"
            return f"{event.broker_set}: {what} was forgotten"
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
            return f"cluster {event.cluster_id} was created with {len(event.voters)} voters"
        case ControllerLeaderElected():
            return f"node {event.node_id} leads the controllers: {leader_cause(event)}"
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


def leader_cause(event: ControllerLeaderElected) -> str:
    """Why there was an election of controllers."""
    before = "" if event.previous_leader is None else f" of node {event.previous_leader}"
    match event.cause:
        case "connection closed":
            return f"the connections{before} closed"
        case "silent":
            return f"nothing was heard{before} for {event.silent_for_ms} ms"
        case "handed over":
            return f"handed over by node {event.previous_leader}" if before else "handed over"
        case _:
            return event.cause
