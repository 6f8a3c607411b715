"""Answers for administrators' tools and UIs: the cluster, the quorum, configurations, members of groups.

Rules: pure reading; nothing here waits or changes anything, and what may be long is made in steps. Every node tells of
the cluster and of itself; only the coordinator tells of groups, as in Kafka. A config is told only if it is true of
this node or this log.
"""

from collections.abc import Iterable

from quorate.controller import QuorumIs
from quorate.gateway.access import Access
from quorate.gateway.kafka.groups import Group, Groups
from quorate.gateway.kafka.offsets import GroupOffsets
from quorate.gateway.kafka.once import once
from quorate.gateway.kafka.reading import LogReader
from quorate.gateway.kafka.settings import KafkaSettings
from quorate.gateway.kafka.view import LogView
from quorate.slices import Steps, sorting
from quorate.wire import kafka_admin_responses as responses
from quorate.wire.kafka import ErrorCode
from quorate.wire.kafka_admin_responses import (
    DescribedConfig,
    DescribedGroup,
    DescribedMember,
    DescribedQuorum,
    DescribedResource,
    ListedGroup,
    QuorumReplica,
)
from quorate.wire.kafka_requests import (
    ConfigQuery,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeQuorumRequest,
    ListGroupsRequest,
)

METADATA_TOPIC = "__cluster_metadata"
"""What Kafka's quorum replicates; tools ask for it by this name."""
STATES = {"empty": "Empty", "joining": "PreparingRebalance", "syncing": "CompletingRebalance", "stable": "Stable"}
"""A group's state in Kafka's words."""
BROKERS = 1
"""``EndpointType``."""
TOPIC_CONFIG, BROKER_CONFIG = 2, 4
"""``ConfigResource.Type``."""
GROUPS_PER_STEP = 64
"""Of a list of groups."""
_BOOLEAN, _STRING, _INT, _LONG, _LIST = 1, 2, 3, 5, 7
"""``ConfigType``."""


class Describer:
    """Answers one node gives about everything but the log itself."""

    def __init__(
        self,
        view: LogView,
        settings: KafkaSettings,
        access: Access,
        reader: LogReader,
        groups: Groups,
        offsets: GroupOffsets,
    ) -> None:
        self._view = view
        self._settings = settings
        self._access = access
        self._reader = reader
        self._groups = groups
        self._offsets = offsets

    # Groups.

    def list_groups(self, version: int, request: ListGroupsRequest, principal: str) -> Steps[bytes]:
        """Groups with members, and those that only keep a position, as of the first step: there may be very many."""
        groups = {name: ListedGroup(name, g.protocol_type, STATES[g.state]) for name, g in self._groups.all()}
        for count, name in enumerate(self._offsets.of_groups(), 1):
            groups.setdefault(name, ListedGroup(name, "consumer", STATES["empty"]))
            if count % GROUPS_PER_STEP == 0:
                yield
        ordered, listed = (yield from sorting(groups)), list[bytes]()
        for count, name in enumerate(ordered, 1):
            group = groups[name]
            if (
                (not request.states or group.state.lower() in request.states)
                and (not request.types or "classic" in request.types)
                and self._access.authorize(principal, "ReadGroup", f"group/{name}")
            ):
                listed.append(responses.listed_group(version, group))
            if count % GROUPS_PER_STEP == 0:
                yield
        return responses.list_groups(version, listed)

    def describe_groups(self, version: int, request: DescribeGroupsRequest, principal: str, error: ErrorCode) -> bytes:
        """``error``: why this node does not coordinate, if it does not.

        One group is told whole; what goes beyond ``describe_bytes_max`` with those before it is told to be asked for
        again (14), as Java's tools then do, for those alone.
        """
        groups: list[DescribedGroup] = []
        left = self._settings.describe_bytes_max
        for name in dict.fromkeys(request.groups):
            group = self._described(name, principal, error)
            size = sum(map(_size, group.members))
            if groups and size > max(left, 0):
                group, size = DescribedGroup(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, name), 0
            left -= size
            groups.append(group)
        return responses.describe_groups(version, groups)

    def _described(self, name: str, principal: str, error: ErrorCode) -> DescribedGroup:
        if error:
            return DescribedGroup(error, name)
        if not self._access.authorize(principal, "ReadGroup", f"group/{name}"):
            return DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, name)
        group = self._groups.find(name)
        if group is not None:
            members = tuple(_members(group))
            return DescribedGroup(
                ErrorCode.NONE, name, STATES[group.state], group.protocol_type, group.protocol, members
            )
        if self._offsets.kept(name) is not None:
            return DescribedGroup(ErrorCode.NONE, name, STATES["empty"], "consumer")
        return DescribedGroup(ErrorCode.NONE, name)

    # Configurations.

    def describe_configs(self, version: int, request: DescribeConfigsRequest, principal: str) -> bytes:
        """Of the topic, and of this node; looked up once, however often it is asked for other keys."""
        asked = dict.fromkeys(request.resources)
        places = dict.fromkeys((query.kind, query.name) for query in asked)
        found = {place: self._resource(*place, principal) for place in places}
        told = [_picked(found[query.kind, query.name], query) for query in asked]
        return responses.describe_configs(version, told)

    def _resource(self, kind: int, name: str, principal: str) -> DescribedResource:
        own = str(self._view.node_id)
        configs: tuple[DescribedConfig, ...] = ()
        error, message = ErrorCode.NONE, None
        if kind == TOPIC_CONFIG and not self._reader.knows(name, 0):
            error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is one topic, the event log"
        elif kind == TOPIC_CONFIG:
            if self._access.authorize(principal, "ReadLog", f"topic/{name}"):
                configs = self._topic_configs()
            else:
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif kind == BROKER_CONFIG and name in (own, ""):
            if self._access.authorize(principal, "ReadCluster", "cluster"):
                configs = self._node_configs() if name else ()
            else:
                error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        else:
            error, message = ErrorCode.INVALID_REQUEST, f"node {own} knows its own configuration and the topic's"
        return DescribedResource(error, message, kind, name, configs)

    def _topic_configs(self) -> tuple[DescribedConfig, ...]:
        voters = len(self._view.nodes())
        return (
            DescribedConfig("cleanup.policy", "delete", _LIST, default=True),
            DescribedConfig("compression.type", "uncompressed", _STRING),
            DescribedConfig("max.message.bytes", str(self._view.entry_bytes_max), _INT),
            DescribedConfig("message.timestamp.type", "CreateTime", _STRING, default=True),
            DescribedConfig("min.insync.replicas", str(voters // 2 + 1), _INT),
            DescribedConfig("retention.bytes", "-1", _LONG, default=True),
            DescribedConfig("retention.ms", "-1", _LONG),
        )

    def _node_configs(self) -> tuple[DescribedConfig, ...]:
        limits = self._settings
        own = next(node for node in self._view.nodes() if node.node_id == self._view.node_id)
        return (
            DescribedConfig("advertised.listeners", f"PLAINTEXT://{own.host}:{own.port}", _LIST),
            DescribedConfig("auto.create.topics.enable", "false", _BOOLEAN),
            DescribedConfig("broker.rack", own.rack, _STRING),
            DescribedConfig("connections.max.idle.ms", str(int(limits.idle_timeout_s * 1000)), _LONG),
            DescribedConfig("delete.topic.enable", "false", _BOOLEAN),
            DescribedConfig("fetch.max.bytes", str(limits.fetch_bytes_max), _INT),
            DescribedConfig("group.max.session.timeout.ms", str(limits.group_session_timeout_max_ms), _INT),
            DescribedConfig("group.min.session.timeout.ms", str(limits.group_session_timeout_min_ms), _INT),
            DescribedConfig("max.connections", str(limits.connections_max), _INT),
            DescribedConfig("node.id", str(own.node_id), _INT),
            DescribedConfig("offset.metadata.max.bytes", str(limits.offset_metadata_bytes_max), _INT),
            DescribedConfig("offsets.retention.minutes", str(int(self._view.groups.expiry_s() // 60)), _INT),
        )

    # The cluster.

    def describe_cluster(self, version: int, request: DescribeClusterRequest, principal: str) -> bytes:
        """As Metadata tells who asks for nodes alone."""
        brokers, leader = self._reader.brokers(near=True)
        error: tuple[int, str | None] = (0, None)
        if not self._access.authorize(principal, "ReadCluster", "cluster"):
            brokers, error = [], (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
        elif request.endpoint_type != BROKERS:
            brokers, error = [], (ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this listener is for clients")
        return responses.describe_cluster(
            version, brokers, self._view.cluster_id, leader, request.endpoint_type & 0xFF, error
        )

    def describe_quorum(
        self, version: int, request: DescribeQuorumRequest, principal: str, quorum: QuorumIs | None, now_ms: int
    ) -> bytes:
        """``quorum``: the leader's word; None: it could not be had. Offsets are positions in the Raft log."""
        allowed = self._access.authorize(principal, "ReadCluster", "cluster")

        def error(topic: str, partition: int) -> ErrorCode:
            if not allowed:
                return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            if partition != 0 or topic not in (METADATA_TOPIC, self._settings.topic):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return ErrorCode.NONE if quorum is not None else ErrorCode.LEADER_NOT_AVAILABLE

        asked = once(request.topics, int)
        topics = [(name, [(index, error(name, index)) for index in indexes]) for name, indexes in asked]
        brokers, _ = self._reader.brokers()
        return responses.describe_quorum(version, topics, self._quorum(quorum, now_ms), brokers if allowed else [])

    def _quorum(self, quorum: QuorumIs | None, now_ms: int) -> DescribedQuorum:
        if quorum is None:
            return DescribedQuorum(-1, -1, -1, ())
        directories = self._view.directories()
        voters = []
        for voter in quorum.voters:
            heard_ms = now_ms - voter.silent_ms
            caught_up = voter.last_index >= quorum.commit_index
            voters.append(
                QuorumReplica(
                    voter.node_id,
                    voter.last_index + 1,
                    heard_ms,
                    heard_ms if caught_up else -1,
                    directories.get(voter.node_id, bytes(16)),
                )
            )
        return DescribedQuorum(quorum.leader, quorum.term, quorum.commit_index + 1, tuple(voters))


def _picked(found: DescribedResource, query: ConfigQuery) -> DescribedResource:
    """With the keys that were asked for."""
    if query.keys is None:
        return found
    configs = tuple(config for config in found.configs if config.name in query.keys)
    return DescribedResource(found.error, found.message, found.kind, found.name, configs)


def _size(member: DescribedMember) -> int:
    """Bytes of an answer, about."""
    names = len(member.member_id) + len(member.client_id)
    return 100 + names + len(member.subscription) + len(member.assignment)


def _members(group: Group) -> Iterable[DescribedMember]:
    stable = group.state == "stable"
    for member in group.members.values():
        subscription = dict(member.protocols).get(group.protocol, b"") if stable else b""
        assignment = member.assignment if stable else b""
        yield DescribedMember(member.id, member.instance_id, member.client_id, member.host, subscription, assignment)
