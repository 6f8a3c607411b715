"""The cluster itself: its creation, its controllers, the feature level they share."""

import re
from typing import Final

from quorate.events import (
    ClusterCreated,
    ControllerLeaderElected,
    FeatureLevelChanged,
    NodeAddresses,
    NodeStarted,
    VoterRebuilt,
)
from quorate.metadata.commands import (
    Accepted,
    CreateCluster,
    RaiseFeatureLevel,
    RebuildVoter,
    RecordLeader,
    RecordNodeStart,
    Refusal,
)
from quorate.metadata.context import Context, Decision
from quorate.metadata.refusals import refuse
from quorate.model.state import State

FEATURE_MIN: Final = 1
FEATURE_MAX: Final = 3
"""The feature levels this code understands. 2: keys, leases, members, shards, sessions of MQTT, schemas of others.
3: one entry forgets a bounded number of remembered requests.
"""
_UUID: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def create_cluster(state: State, command: CreateCluster, context: Context) -> Decision | Refusal:
    """The event at offset 0. Refuses ClusterExists, InvalidVoters, UnsupportedFeatureLevel."""
    if state.cluster is not None:
        return refuse("ClusterExists", f"This is cluster {state.cluster.cluster_id}")
    ids = [voter.id for voter in command.voters]
    if not ids or len(set(ids)) != len(ids) or not command.cluster_id:
        return refuse("InvalidVoters", "A cluster needs an id, and voters with an id of their own each")
    if not FEATURE_MIN <= command.feature_level <= FEATURE_MAX:
        return refuse("UnsupportedFeatureLevel", f"Feature level {command.feature_level} is not known here")
    event = ClusterCreated(
        cluster_id=command.cluster_id,
        voters=tuple(command.voters),
        feature_level=command.feature_level,
        cluster_uuid=command.cluster_uuid,
    )
    return Decision((event,), Accepted())


def record_leader(state: State, command: RecordLeader, context: Context) -> Decision | Refusal:
    """Once per term. Refuses ClusterMissing, UnknownNode."""
    refusal = _not_a_voter(state, command.node_id)
    if refusal is not None:
        return refusal
    if state.leader is not None and state.leader.term == context.term and state.leader.node_id == command.node_id:
        return Decision((), Accepted())
    event = ControllerLeaderElected(
        node_id=command.node_id,
        cause=command.cause,
        previous_leader=command.previous_leader,
        silent_for_ms=command.silent_for_ms,
    )
    return Decision((event,), Accepted())


def record_node_start(state: State, command: RecordNodeStart, context: Context) -> Decision | Refusal:
    """Every start is a fact of its own, of the directory the log names.

    Refuses ClusterMissing, UnknownNode, DirectoryUnknown, UnsupportedFeatureLevel.
    """
    refusal = _not_a_voter(state, command.node_id)
    if refusal is not None:
        return refusal
    directory = directory_of(state, command.node_id)
    if directory and command.dir_uuid != directory:
        return refuse("DirectoryUnknown", f"Node {command.node_id} has directory {directory}, not {command.dir_uuid}")
    if not command.feature_min <= state.feature_level <= command.feature_max:
        return refuse("UnsupportedFeatureLevel", f"Node {command.node_id} does not know level {state.feature_level}")
    event = NodeStarted(
        node_id=command.node_id,
        dir_uuid=command.dir_uuid,
        version=command.version,
        addresses=command.addresses,
        feature_min=command.feature_min,
        feature_max=command.feature_max,
    )
    return Decision((event,), Accepted())


def raise_feature_level(state: State, command: RaiseFeatureLevel, context: Context) -> Decision | Refusal:
    """Only up, and to what every voter said at its start it knows. Refuses ClusterMissing, UnsupportedFeatureLevel."""
    if state.cluster is None:
        return refuse("ClusterMissing", "There is no cluster yet")
    if command.level == state.feature_level:
        return Decision((), Accepted())
    if command.level < state.feature_level:
        return refuse("UnsupportedFeatureLevel", f"The level is {state.feature_level} and never goes down")
    for voter in state.cluster.voters:
        node = state.nodes.get(voter.id)
        if node is None or not node.feature_min <= command.level <= node.feature_max:
            reason = "never started" if node is None else f"knows levels {node.feature_min} to {node.feature_max}"
            return refuse("UnsupportedFeatureLevel", f"Node {voter.id} {reason}, not {command.level}")
    return Decision((FeatureLevelChanged(old=state.feature_level, new=command.level),), Accepted())


def rebuild_voter(state: State, command: RebuildVoter, context: Context) -> Decision | Refusal:
    """The voter has another directory from here on; none it had before comes back, for this one may have voted since.

    Refuses ClusterMissing, UnknownNode, InvalidDirectory, DirectoryTaken.
    """
    refusal = _not_a_voter(state, command.node_id)
    if refusal is not None or state.cluster is None:
        return refusal or refuse("ClusterMissing", "There is no cluster yet")
    new = _uuid(command.dir_uuid)
    if not new:
        return refuse("InvalidDirectory", f"{command.dir_uuid[:80]!r} is no id of a directory: a uuid is")
    old = directory_of(state, command.node_id)
    if new == old:
        return Decision((), Accepted())
    for voter in state.cluster.voters:
        if new in {directory_of(state, voter.id), voter.dir_uuid, *former_directories(state, voter.id)}:
            advice = "was given up before; remove it and start with an empty one"
            what = advice if voter.id == command.node_id else f"is or was the one of node {voter.id}"
            return refuse("DirectoryTaken", f"Directory {new} {what}")
    event = VoterRebuilt(
        node_id=command.node_id,
        old_dir_uuid=old,
        new_dir_uuid=new,
        addresses=_addresses(state, command.node_id),
        asked_by=command.asked_by,
    )
    return Decision((event,), Accepted())


def directory_of(state: State, node_id: int) -> str:
    """The directory a voter has now, as the log names it; empty when it names none."""
    node = state.nodes.get(node_id)
    if node is not None:
        return node.dir_uuid
    voters = state.cluster.voters if state.cluster is not None else ()
    return next((voter.dir_uuid for voter in voters if voter.id == node_id), "")


def former_directories(state: State, node_id: int) -> tuple[str, ...]:
    """Those a voter had before the one it has now, the oldest first."""
    node = state.nodes.get(node_id)
    return () if node is None else node.former


def _addresses(state: State, node_id: int) -> NodeAddresses:
    node = state.nodes.get(node_id)
    voters = state.cluster.voters if state.cluster is not None else ()
    return node.addresses if node is not None else next(voter.addresses for voter in voters if voter.id == node_id)


def _uuid(text: str) -> str:
    """As a directory's id is written; empty if it is none. All zeros and all ones say other things in votes."""
    uuid = text.lower()
    return uuid if _UUID.fullmatch(uuid) and len(set(uuid) - {"-"}) > 1 else ""


def _not_a_voter(state: State, node_id: int) -> Refusal | None:
    if state.cluster is None:
        return refuse("ClusterMissing", "There is no cluster yet")
    if all(voter.id != node_id for voter in state.cluster.voters):
        return refuse("UnknownNode", f"Node {node_id} is not a voter of cluster {state.cluster.cluster_id}")
    return None
