"""Kafka requests as frozen values, and the reader of each within the version window.

Rules: one struct and one function per call; a field that a version does not carry has the protocol's default. What we
never use is read and dropped. Source: Kafka's message definitions, ``clients/.../common/message/*Request.json``.
"""

from collections.abc import Callable, Mapping

import msgspec

from quorate.wire.kafka_primitives import KafkaFormatError, Reader

BY_ID = "\0"
"""What begins the name of a topic that was named by its id (KIP-516); the id follows in hex."""


class ApiVersionsRequest(msgspec.Struct, frozen=True, gc=False):
    """What do you speak? (KIP-35, KIP-511)."""

    software_name: str = ""
    software_version: str = ""


class MetadataRequest(msgspec.Struct, frozen=True, gc=False):
    """Who serves which topic? ``topics`` None: all of them; one may be named by its id (see BY_ID)."""

    topics: tuple[str, ...] | None


class OffsetQuery(msgspec.Struct, frozen=True, gc=False):
    """One partition of ListOffsets; ``timestamp`` in ms, -1 latest, -2 earliest."""

    partition: int
    timestamp: int


class ListOffsetsRequest(msgspec.Struct, frozen=True, gc=False):
    """Offsets by time."""

    isolation_level: int
    topics: tuple[tuple[str, tuple[OffsetQuery, ...]], ...]


class FetchPartition(msgspec.Struct, frozen=True, gc=False):
    """One partition of a Fetch."""

    partition: int
    fetch_offset: int
    max_bytes: int


class FetchRequest(msgspec.Struct, frozen=True, gc=False):
    """Records from an offset; wait up to ``max_wait_ms`` for ``min_bytes`` (limits: KIP-74, sessions: KIP-227)."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    topics: tuple[tuple[str, tuple[FetchPartition, ...]], ...]
    rack: str


class ProduceRequest(msgspec.Struct, frozen=True, gc=False):
    """Append records (not even looked at) to partitions; always refused, not answered at all when ``acks`` is 0."""

    acks: int
    topics: tuple[tuple[str, tuple[int, ...]], ...]


class SaslHandshakeRequest(msgspec.Struct, frozen=True, gc=False):
    """May I sign in by this mechanism? (KIP-43)."""

    mechanism: str


class SaslAuthenticateRequest(msgspec.Struct, frozen=True, gc=False):
    """A step of signing in; what it says is not looked at (KIP-152)."""


class EpochQuery(msgspec.Struct, frozen=True, gc=False):
    """One partition of OffsetForLeaderEpoch."""

    partition: int
    leader_epoch: int


class OffsetForLeaderEpochRequest(msgspec.Struct, frozen=True, gc=False):
    """Where does an epoch end? (KIP-320)."""

    topics: tuple[tuple[str, tuple[EpochQuery, ...]], ...]


class FindCoordinatorRequest(msgspec.Struct, frozen=True, gc=False):
    """Who coordinates these groups (``key_type`` 0) or transactions (1)? One, before version 4."""

    keys: tuple[str, ...]
    key_type: int


class JoinGroupRequest(msgspec.Struct, frozen=True, gc=False):
    """Become, or stay, a member (KIP-62 timeouts, KIP-345 static ids, KIP-394 member id first)."""

    group: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    member_id_required: bool
    """Must an unknown member first be told its id and come again (version 4)?"""


class SyncGroupRequest(msgspec.Struct, frozen=True, gc=False):
    """The leader hands out assignments; everyone asks for its own."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None
    assignments: tuple[tuple[str, bytes], ...]
    protocol_type: str | None = None
    protocol: str | None = None
    """What the member believes was chosen (KIP-559); None: it does not say."""


class HeartbeatRequest(msgspec.Struct, frozen=True, gc=False):
    """I am still here."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None


class LeavingMember(msgspec.Struct, frozen=True, gc=False):
    """Who leaves: by member id, or by instance id when the member id is empty."""

    member_id: str
    instance_id: str | None


class LeaveGroupRequest(msgspec.Struct, frozen=True, gc=False):
    """Members go (one before version 3)."""

    group: str
    members: tuple[LeavingMember, ...]


class OffsetCommitPartition(msgspec.Struct, frozen=True, gc=False):
    """One position to keep."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


class OffsetCommitRequest(msgspec.Struct, frozen=True, gc=False):
    """Keep positions; ``generation`` -1: from outside any membership."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None
    topics: tuple[tuple[str, tuple[OffsetCommitPartition, ...]], ...]


class GroupPositions(msgspec.Struct, frozen=True, gc=False):
    """One group of OffsetFetch; ``topics`` None: all of it."""

    group: str
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None


class OffsetFetchRequest(msgspec.Struct, frozen=True, gc=False):
    """Which positions were kept? Of one group before version 8."""

    groups: tuple[GroupPositions, ...]


class ListGroupsRequest(msgspec.Struct, frozen=True, gc=False):
    """Which groups are there? Only those of these states and types (lower case), when any are named (KIP-518, 848)."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class DescribeGroupsRequest(msgspec.Struct, frozen=True, gc=False):
    """Who is a member of these groups, and reads what?"""

    groups: tuple[str, ...]


class DeleteGroupsRequest(msgspec.Struct, frozen=True, gc=False):
    """Forget what these groups keep."""

    groups: tuple[str, ...]


class ConfigQuery(msgspec.Struct, frozen=True, gc=False):
    """One resource of DescribeConfigs (``ConfigResource.Type``: 2 topic, 4 broker); ``keys`` None: all."""

    kind: int
    name: str
    keys: tuple[str, ...] | None


class DescribeConfigsRequest(msgspec.Struct, frozen=True, gc=False):
    """How is it configured?"""

    resources: tuple[ConfigQuery, ...]


class DescribeClusterRequest(msgspec.Struct, frozen=True, gc=False):
    """Which nodes are there? ``endpoint_type`` 1: as brokers, 2: as controllers (KIP-700, KIP-919)."""

    endpoint_type: int


class DescribeQuorumRequest(msgspec.Struct, frozen=True, gc=False):
    """Who leads the quorum behind a topic, and how far is each voter? (KIP-595, KIP-836, KIP-853)."""

    topics: tuple[tuple[str, tuple[int, ...]], ...]


GroupRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest | OffsetCommitRequest
"""What only the group coordinator answers, and about one group."""

Request = (
    ApiVersionsRequest
    | MetadataRequest
    | ListOffsetsRequest
    | FetchRequest
    | ProduceRequest
    | SaslHandshakeRequest
    | SaslAuthenticateRequest
    | OffsetForLeaderEpochRequest
    | FindCoordinatorRequest
    | ListGroupsRequest
    | DescribeGroupsRequest
    | DeleteGroupsRequest
    | DescribeConfigsRequest
    | DescribeClusterRequest
    | DescribeQuorumRequest
    | OffsetFetchRequest
    | GroupRequest
)


def _api_versions(r: Reader, version: int) -> ApiVersionsRequest:
    if version < 3:
        return ApiVersionsRequest()
    return r.closed(ApiVersionsRequest(r.string(), r.string()))


def _topic_id(r: Reader) -> str:
    return BY_ID + r.raw(16).hex()


def _metadata(r: Reader, version: int) -> MetadataRequest:
    def topic() -> str:
        if version < 10:
            return r.closed(r.string())
        by_id, name = _topic_id(r), r.nullable_string()
        if name is not None and name.startswith(BY_ID):
            raise KafkaFormatError("no topic's name begins with NUL")
        return r.closed(by_id if name is None else name)

    topics = r.nullable_array(topic)
    if version == 0 and not topics:
        return MetadataRequest(None)  # It has no null: an empty list asks for all.
    if version >= 4:
        r.boolean()  # allow_auto_topic_creation: there is one topic, for ever
    if 8 <= version <= 10:
        r.boolean()  # include_cluster_authorized_operations: not known
    if version >= 8:
        r.boolean()  # include_topic_authorized_operations: not known
    return r.closed(MetadataRequest(topics))


def _list_offsets(r: Reader, version: int) -> ListOffsetsRequest:
    r.int32()  # replica_id
    isolation_level = r.int8() if version >= 2 else 0

    def partition() -> OffsetQuery:
        index = r.int32()
        if version >= 4:
            r.int32()  # current_leader_epoch: never fenced
        return r.closed(OffsetQuery(index, r.int64()))

    topics = r.array(lambda: r.closed((r.string(), r.array(partition))))
    return r.closed(ListOffsetsRequest(isolation_level, topics))


def _fetch(r: Reader, version: int) -> FetchRequest:
    if version < 15:
        r.int32()  # replica_id
    max_wait_ms, min_bytes, max_bytes, isolation_level = r.int32(), r.int32(), r.int32(), r.int8()
    session_id = r.int32() if version >= 7 else 0
    if version >= 7:
        r.int32()  # session_epoch: sessions are not kept

    def partition() -> FetchPartition:
        index = r.int32()
        if version >= 9:
            r.int32()  # current_leader_epoch: never fenced
        offset = r.int64()
        if version >= 12:
            r.int32()  # last_fetched_epoch: what was fetched never diverges
        if version >= 5:
            r.int64()  # log_start_offset, of followers only
        return r.closed(FetchPartition(index, offset, r.int32()))

    def name() -> str:
        return _topic_id(r) if version >= 13 else r.string()

    topics = r.array(lambda: r.closed((name(), r.array(partition))))
    if version >= 7:
        r.array(lambda: r.closed((name(), r.array(r.int32))))  # forgotten_topics_data
    rack = r.string() if version >= 11 else ""
    return r.closed(FetchRequest(max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, topics, rack))


def _produce(r: Reader, version: int) -> ProduceRequest:
    if version >= 3:
        r.nullable_string()  # transactional_id
    acks = r.int16()
    r.int32()  # timeout_ms

    def partition() -> int:
        index = r.int32()
        r.nullable_data()
        return r.closed(index)

    return r.closed(ProduceRequest(acks, r.array(lambda: r.closed((r.string(), r.array(partition))))))


def _sasl_handshake(r: Reader, _version: int) -> SaslHandshakeRequest:
    return SaslHandshakeRequest(r.string())


def _sasl_authenticate(r: Reader, _version: int) -> SaslAuthenticateRequest:
    r.data()
    return r.closed(SaslAuthenticateRequest())


def _offset_for_leader_epoch(r: Reader, version: int) -> OffsetForLeaderEpochRequest:
    if version >= 3:
        r.int32()  # replica_id

    def partition() -> EpochQuery:
        index = r.int32()
        r.int32()  # current_leader_epoch: never fenced
        return r.closed(EpochQuery(index, r.int32()))

    return r.closed(OffsetForLeaderEpochRequest(r.array(lambda: r.closed((r.string(), r.array(partition))))))


def _find_coordinator(r: Reader, version: int) -> FindCoordinatorRequest:
    if version >= 4:
        key_type = r.int8()
        return r.closed(FindCoordinatorRequest(r.array(r.string), key_type))
    return r.closed(FindCoordinatorRequest((r.string(),), r.int8() if version >= 1 else 0))


def _join_group(r: Reader, version: int) -> JoinGroupRequest:
    group, session_timeout_ms = r.string(), r.int32()
    rebalance_timeout_ms = r.int32() if version >= 1 else session_timeout_ms
    member_id = r.string()
    instance_id = r.nullable_string() if version >= 5 else None
    protocol_type = r.string()
    protocols = r.array(lambda: r.closed((r.string(), r.data())))
    if version >= 8:
        r.nullable_string()  # reason
    required = version >= 4 and instance_id is None
    return r.closed(
        JoinGroupRequest(
            group, session_timeout_ms, rebalance_timeout_ms, member_id, instance_id, protocol_type, protocols, required
        )
    )


def _sync_group(r: Reader, version: int) -> SyncGroupRequest:
    group, generation, member_id = r.string(), r.int32(), r.string()
    instance_id = r.nullable_string() if version >= 3 else None
    kind, protocol = (r.nullable_string(), r.nullable_string()) if version >= 5 else (None, None)
    assignments = r.array(lambda: r.closed((r.string(), r.data())))
    return r.closed(SyncGroupRequest(group, generation, member_id, instance_id, assignments, kind, protocol))


def _heartbeat(r: Reader, version: int) -> HeartbeatRequest:
    group, generation, member_id = r.string(), r.int32(), r.string()
    return r.closed(HeartbeatRequest(group, generation, member_id, r.nullable_string() if version >= 3 else None))


def _leave_group(r: Reader, version: int) -> LeaveGroupRequest:
    group = r.string()
    if version < 3:
        return LeaveGroupRequest(group, (LeavingMember(r.string(), None),))

    def member() -> LeavingMember:
        leaving = LeavingMember(r.string(), r.nullable_string())
        if version >= 5:
            r.nullable_string()  # reason
        return r.closed(leaving)

    return r.closed(LeaveGroupRequest(group, r.array(member)))


def _offset_commit(r: Reader, version: int) -> OffsetCommitRequest:
    group, generation, member_id = r.string(), r.int32(), r.string()
    instance_id = r.nullable_string() if version >= 7 else None
    if version <= 4:
        r.int64()  # retention_time_ms: ours to decide

    def partition() -> OffsetCommitPartition:
        index, offset = r.int32(), r.int64()
        epoch = r.int32() if version >= 6 else -1
        return r.closed(OffsetCommitPartition(index, offset, epoch, r.nullable_string()))

    topics = r.array(lambda: r.closed((r.string(), r.array(partition))))
    return r.closed(OffsetCommitRequest(group, generation, member_id, instance_id, topics))


def _offset_fetch(r: Reader, version: int) -> OffsetFetchRequest:
    def topic() -> tuple[str, tuple[int, ...]]:
        return r.closed((r.string(), r.array(r.int32)))

    def group() -> GroupPositions:
        name = r.string()
        if version >= 9:
            r.nullable_string()  # member_id, of the protocol we do not list (KIP-848)
            r.int32()  # member_epoch
        asked = GroupPositions(name, r.nullable_array(topic) if version >= 2 else r.array(topic))
        return r.closed(asked) if version >= 8 else asked

    groups = r.array(group) if version >= 8 else (group(),)
    if version >= 7:
        r.boolean()  # require_stable: nothing here is ever part of an open transaction
    return r.closed(OffsetFetchRequest(groups))


def _list_groups(r: Reader, version: int) -> ListGroupsRequest:
    states = r.array(r.string) if version >= 4 else ()
    types = r.array(r.string) if version >= 5 else ()
    return r.closed(ListGroupsRequest(tuple(map(str.lower, states)), tuple(map(str.lower, types))))


def _describe_groups(r: Reader, version: int) -> DescribeGroupsRequest:
    groups = r.array(r.string)
    if version >= 3:
        r.boolean()  # include_authorized_operations: not known
    return r.closed(DescribeGroupsRequest(groups))


def _delete_groups(r: Reader, _version: int) -> DeleteGroupsRequest:
    return r.closed(DeleteGroupsRequest(r.array(r.string)))


def _describe_configs(r: Reader, version: int) -> DescribeConfigsRequest:
    resources = r.array(lambda: r.closed(ConfigQuery(r.int8(), r.string(), r.nullable_array(r.string))))
    r.boolean()  # include_synonyms: there are none
    if version >= 3:
        r.boolean()  # include_documentation: there is none
    return r.closed(DescribeConfigsRequest(resources))


def _describe_cluster(r: Reader, version: int) -> DescribeClusterRequest:
    r.boolean()  # include_cluster_authorized_operations: not known
    endpoint_type = r.int8() if version >= 1 else 1
    if version >= 2:
        r.boolean()  # include_fenced_brokers: no node is fenced
    return r.closed(DescribeClusterRequest(endpoint_type))


def _describe_quorum(r: Reader, _version: int) -> DescribeQuorumRequest:
    def topic() -> tuple[str, tuple[int, ...]]:
        return r.closed((r.string(), r.array(lambda: r.closed(r.int32()))))

    return r.closed(DescribeQuorumRequest(r.array(topic)))


DECODERS: Mapping[int, Callable[[Reader, int], Request]] = {
    0: _produce,
    1: _fetch,
    2: _list_offsets,
    3: _metadata,
    8: _offset_commit,
    9: _offset_fetch,
    10: _find_coordinator,
    11: _join_group,
    12: _heartbeat,
    13: _leave_group,
    14: _sync_group,
    15: _describe_groups,
    16: _list_groups,
    17: _sasl_handshake,
    18: _api_versions,
    23: _offset_for_leader_epoch,
    32: _describe_configs,
    36: _sasl_authenticate,
    42: _delete_groups,
    55: _describe_quorum,
    60: _describe_cluster,
}
"""API key → reader of the request body, for any version of the window."""
