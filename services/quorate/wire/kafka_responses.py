"""Kafka responses as bytes, for every version of the window.

Rules: each function returns a response *body*; ``response`` puts length and header before it. ``throttle_time_ms`` is
always 0. What tools ask about groups, configs and the cluster is in kafka_admin_responses.py.
Source: ``clients/src/main/resources/common/message/*Response.json`` of Kafka.
"""

import struct
from collections.abc import Iterable, Mapping

import msgspec

from quorate.wire.kafka_primitives import (
    COMPACT,
    NO_TAGS,
    array,
    boolean,
    form,
    int16,
    int32,
    int64,
)
from quorate.wire.kafka_requests import BY_ID

NO_ID = bytes(16)
"""No topic has it."""
_NO_THROTTLE = int32(0)
_NO_OPERATIONS = int32(-(2**31))
_HEADER = struct.Struct(">ii")


class BrokerAddress(msgspec.Struct, frozen=True, gc=False):
    """A node as Kafka clients see it; ``rack`` is what ``client.rack`` is compared with (KIP-392)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class TopicView(msgspec.Struct, frozen=True, gc=False):
    """One topic of one partition, as Metadata tells it; ``leader_id`` -1: none known."""

    error: int
    name: str
    leader_id: int = -1
    replicas: tuple[int, ...] = ()
    partition_error: int = 0
    offline: tuple[int, ...] = ()
    """Those of the replicas that cannot be reached now; they are not in sync."""
    topic_id: bytes = NO_ID
    """Of a topic that is known; else its name begins with BY_ID when it was asked for by an id."""


class FoundOffset(msgspec.Struct, frozen=True, gc=False):
    """Answer for one partition of ListOffsets; -1 where there is nothing to say."""

    partition: int
    error: int
    timestamp: int = -1
    offset: int = -1


class FetchedPartition(msgspec.Struct, frozen=True, gc=False):
    """Answer for one partition of Fetch; ``records`` are whole batches, one after the other."""

    partition: int
    error: int
    high_watermark: int = -1
    log_start: int = -1
    records: bytes = b""
    preferred_replica: int = -1


class EpochEnd(msgspec.Struct, frozen=True, gc=False):
    """Answer for one partition of OffsetForLeaderEpoch; -1, -1: that epoch is unknown."""

    partition: int
    error: int
    leader_epoch: int = -1
    end_offset: int = -1


class CommittedOffset(msgspec.Struct, frozen=True, gc=False):
    """Answer for one partition of OffsetFetch; offset -1: nothing was kept."""

    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str | None = ""


class JoinedGroup(msgspec.Struct, frozen=True, gc=False):
    """Answer to JoinGroup; ``members`` (member id, instance id, metadata) only for the leader."""

    error: int
    member_id: str
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    protocol_type: str | None = None


def response(correlation_id: int, body: bytes, *, flexible: bool = False) -> bytes:
    """The whole frame: length, header v0 (or v1, with tags), body."""
    if flexible:
        body = NO_TAGS + body
    return _HEADER.pack(len(body) + 4, correlation_id) + body


def _throttled(version: int, since: int) -> bytes:
    return _NO_THROTTLE if version >= since else b""


def api_versions(version: int, window: Mapping[int, tuple[int, int]], error: int = 0) -> bytes:
    """ApiVersions v0-v4; an unsupported version is answered as version 0 with error 35 and the same list (KIP-511)."""
    if version >= 3:
        keys = b"".join(struct.pack(">hhhB", key, *versions, 0) for key, versions in sorted(window.items()))
        return int16(error) + bytes((len(window) + 1,)) + keys + _NO_THROTTLE + b"\x00"
    keys = array(struct.pack(">hhh", key, *versions) for key, versions in sorted(window.items()))
    return int16(error) + keys + _throttled(version, 1)


def metadata(
    version: int, brokers: Iterable[BrokerAddress], cluster_id: str, controller_id: int, topics: Iterable[TopicView]
) -> bytes:
    """Metadata v0-v12; leader epochs are -1 (see wire/kafka.py)."""
    f = form(version, 9)

    def partition(topic: TopicView) -> bytes:
        in_sync = [replica for replica in topic.replicas if replica not in topic.offline]
        replicas = f.int32s(topic.replicas) + f.int32s(in_sync) + (f.int32s(topic.offline) if version >= 5 else b"")
        epoch = int32(-1) if version >= 7 else b""
        return int16(topic.partition_error) + int32(0) + int32(topic.leader_id) + epoch + replicas + f.end

    def one(topic: TopicView) -> bytes:
        partitions = f.array([] if topic.error else [partition(topic)])
        by_id = version >= 10 and topic.name.startswith(BY_ID)
        name = f.string("" if by_id else topic.name)
        if by_id and version >= 12:
            name = f.nullable_string(None)
        topic_id = _id_of(topic.name) if by_id else topic.topic_id
        return b"".join(
            (
                int16(topic.error) + name,
                topic_id if version >= 10 else b"",
                (boolean(False) if version >= 1 else b"") + partitions,
                (_NO_OPERATIONS if version >= 8 else b"") + f.end,
            )
        )

    def node(broker: BrokerAddress) -> bytes:
        rack = f.nullable_string(broker.rack) if version >= 1 else b""
        return int32(broker.node_id) + f.string(broker.host) + int32(broker.port) + rack + f.end

    return b"".join(
        (
            _throttled(version, 3),
            f.array(map(node, brokers)),
            f.nullable_string(cluster_id) if version >= 2 else b"",
            int32(controller_id) if version >= 1 else b"",
            f.array(map(one, topics)),
            (_NO_OPERATIONS if 8 <= version <= 10 else b"") + f.end,
        )
    )


def _id_of(name: str) -> bytes:
    """The id of a topic that was named by it."""
    return bytes.fromhex(name.removeprefix(BY_ID))


def list_offsets(version: int, topics: Iterable[tuple[str, Iterable[FoundOffset]]]) -> bytes:
    """ListOffsets v1-v9; the leader epoch is always -1 (see wire/kafka.py)."""
    f = form(version, 6)
    epoch = int32(-1) if version >= 4 else b""

    def one(entry: FoundOffset) -> bytes:
        head = int32(entry.partition) + int16(entry.error)
        return head + int64(entry.timestamp) + int64(entry.offset) + epoch + f.end

    body = f.array(f.string(name) + f.array(map(one, parts)) + f.end for name, parts in topics)
    return _throttled(version, 2) + body + f.end


def fetch(
    version: int, topics: Iterable[tuple[str, Iterable[FetchedPartition]]], isolation_level: int = 0, error: int = 0
) -> bytes:
    """Fetch v4-v17, topics as they were named; session id 0: sessions are not kept (KIP-227). Nothing was aborted."""
    f = form(version, 12)
    none = b"\x00" if version >= 12 else int32(-1)
    aborted = f.array(()) if isolation_level else none

    def one(part: FetchedPartition) -> bytes:
        return b"".join(
            (
                int32(part.partition) + int16(part.error) + int64(part.high_watermark) + int64(part.high_watermark),
                int64(part.log_start) if version >= 5 else b"",
                aborted,
                int32(part.preferred_replica) if version >= 11 else b"",
                f.data(part.records),
                f.end,
            )
        )

    def named(name: str) -> bytes:
        return _id_of(name) if version >= 13 else f.string(name)

    session = int16(error) + int32(0) if version >= 7 else b""
    body = f.array(named(name) + f.array(map(one, parts)) + f.end for name, parts in topics)
    return _NO_THROTTLE + session + body + f.end


def produce_refused(version: int, topics: Iterable[tuple[str, Iterable[int]]], error: int, message: str) -> bytes:
    """Produce v0-v11, every partition refused."""
    f = form(version, 9)

    def one(partition: int) -> bytes:
        return b"".join(
            (
                int32(partition) + int16(error) + int64(-1),
                int64(-1) if version >= 2 else b"",
                int64(-1) if version >= 5 else b"",
                f.array(()) + f.nullable_string(message) if version >= 8 else b"",
                f.end,
            )
        )

    body = f.array(f.string(name) + f.array(map(one, parts)) + f.end for name, parts in topics)
    return body + _throttled(version, 1) + f.end


def sasl_handshake_refused(error: int) -> bytes:
    """SaslHandshake v0 and v1: there is no mechanism."""
    return int16(error) + array(())


def sasl_authenticate_refused(version: int, error: int, message: str) -> bytes:
    """SaslAuthenticate v0-v2."""
    f = form(version, 2)
    lifetime = int64(0) if version >= 1 else b""
    return int16(error) + f.nullable_string(message) + f.data(b"") + lifetime + f.end


def offset_for_leader_epoch(version: int, topics: Iterable[tuple[str, Iterable[EpochEnd]]]) -> bytes:
    """OffsetForLeaderEpoch v2-v4."""
    f = form(version, 4)

    def one(end: EpochEnd) -> bytes:
        return int16(end.error) + int32(end.partition) + int32(end.leader_epoch) + int64(end.end_offset) + f.end

    body = f.array(f.string(name) + f.array(map(one, parts)) + f.end for name, parts in topics)
    return _NO_THROTTLE + body + f.end


def find_coordinator(version: int, keys: Iterable[str], coordinator: BrokerAddress | None, error: int = 0) -> bytes:
    """FindCoordinator v0-v6, of one key before v4; no coordinator is node -1."""
    f = form(version, 3)
    node = coordinator or BrokerAddress(-1, "", -1)
    where = int32(node.node_id) + f.string(node.host) + int32(node.port)
    if version >= 4:
        why = int16(error) + f.nullable_string(None) + f.end
        return _NO_THROTTLE + f.array(f.string(key) + where + why for key in keys) + f.end
    message = f.nullable_string(None) if version >= 1 else b""
    return _throttled(version, 1) + int16(error) + message + where + f.end


def join_group(version: int, joined: JoinedGroup) -> bytes:
    """JoinGroup v0-v9; nobody is told to skip its assignment."""
    f = form(version, 6)

    def one(member: tuple[str, str | None, bytes]) -> bytes:
        member_id, instance_id, subscription = member
        instance = f.nullable_string(instance_id) if version >= 5 else b""
        return f.string(member_id) + instance + f.data(subscription) + f.end

    return b"".join(
        (
            _throttled(version, 2),
            int16(joined.error) + int32(joined.generation),
            f.nullable_string(joined.protocol_type) if version >= 7 else b"",
            f.string(joined.protocol) + f.string(joined.leader),
            boolean(False) if version >= 9 else b"",
            f.string(joined.member_id) + f.array(map(one, joined.members)) + f.end,
        )
    )


def sync_group(
    version: int, error: int, assignment: bytes = b"", chosen: tuple[str | None, str | None] = (None, None)
) -> bytes:
    """SyncGroup v0-v5; ``chosen``: the group's protocol type and protocol."""
    f = form(version, 4)
    protocol = f.nullable_string(chosen[0]) + f.nullable_string(chosen[1]) if version >= 5 else b""
    return _throttled(version, 1) + int16(error) + protocol + f.data(assignment) + f.end


def heartbeat(version: int, error: int) -> bytes:
    """Heartbeat v0-v4."""
    return _throttled(version, 1) + int16(error) + form(version, 4).end


def leave_group(version: int, members: Iterable[tuple[str, str | None, int]], error: int = 0) -> bytes:
    """LeaveGroup v0-v5; ``members``: (id, instance id, error). Before v3 the first member's error is the answer."""
    f = form(version, 4)
    left = list(members)
    if version < 3:
        return _throttled(version, 1) + int16(error or (left[0][2] if left else 0))
    body = f.array(f.string(m) + f.nullable_string(i) + int16(e) + f.end for m, i, e in left)
    return _NO_THROTTLE + int16(error) + body + f.end


def offset_commit(version: int, topics: Iterable[tuple[str, Iterable[tuple[int, int]]]]) -> bytes:
    """OffsetCommit v2-v9; partitions as (index, error)."""
    f = form(version, 8)
    body = f.array(
        f.string(name) + f.array(int32(p) + int16(error) + f.end for p, error in parts) + f.end
        for name, parts in topics
    )
    return _throttled(version, 3) + body + f.end


KeptGroup = tuple[str, Iterable[tuple[str, Iterable[CommittedOffset]]], int]
"""A group of OffsetFetch: its name, topics, error."""


def offset_fetch(version: int, groups: Iterable[KeptGroup]) -> bytes:
    """OffsetFetch v1-v9, of one group before v8. Its error is repeated per partition: version 1 has no other place."""
    f = form(version, 6)

    def positions(topics: Iterable[tuple[str, Iterable[CommittedOffset]]], error: int) -> bytes:
        def one(kept: CommittedOffset) -> bytes:
            epoch = int32(kept.leader_epoch) if version >= 5 else b""
            head = int32(kept.partition) + int64(kept.offset) + epoch
            return head + f.nullable_string(kept.metadata) + int16(error) + f.end

        return f.array(f.string(name) + f.array(map(one, parts)) + f.end for name, parts in topics)

    if version >= 8:
        body = COMPACT.array(
            f.string(name) + positions(topics, error) + int16(error) + f.end for name, topics, error in groups
        )
        return _NO_THROTTLE + body + f.end
    ((_, topics, error),) = groups
    return _throttled(version, 3) + positions(topics, error) + (int16(error) if version >= 2 else b"") + f.end
