"""Kafka responses as bytes, for every version of the window.

Rules: each function returns a response *body*; ``response`` puts length and header before it. ``throttle_time_ms`` is
always 0. What tools ask about groups, configs and the cluster is in kafka_admin_responses.py.
Source: ``clients/src/main/resources/common/message/*Response.json`` of Kafka.
"""

import struct
from collections.abc import Iterable, Mapping

import msgspec

from quorate.wire.kafka_primitives import (
    NO_TAGS,
    array,
    boolean,
    compact_nullable_string,
    data,
    int16,
    int32,
    int32s,
    int64,
    nullable_string,
    string,
)

_NO_THROTTLE = int32(0)
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


def response(correlation_id: int, body: bytes, *, flexible: bool = False) -> bytes:
    """The whole frame: length, header v0 (or v1, with tags), body."""
    if flexible:
        body = NO_TAGS + body
    return _HEADER.pack(len(body) + 4, correlation_id) + body


def _throttled(version: int, since: int) -> bytes:
    return _NO_THROTTLE if version >= since else b""


def api_versions(version: int, window: Mapping[int, tuple[int, int]], error: int = 0) -> bytes:
    """ApiVersions v0-v3; an unsupported version is answered as version 0 with error 35 and the same list (KIP-511)."""
    if version >= 3:
        keys = b"".join(struct.pack(">hhhB", key, *versions, 0) for key, versions in sorted(window.items()))
        return int16(error) + bytes((len(window) + 1,)) + keys + _NO_THROTTLE + b"\x00"
    keys = array(struct.pack(">hhh", key, *versions) for key, versions in sorted(window.items()))
    return int16(error) + keys + _throttled(version, 1)


def metadata(
    version: int, brokers: Iterable[BrokerAddress], cluster_id: str, controller_id: int, topics: Iterable[TopicView]
) -> bytes:
    """Metadata v0-v5."""

    def partition(topic: TopicView) -> bytes:
        in_sync = [replica for replica in topic.replicas if replica not in topic.offline]
        replicas = int32s(topic.replicas) + int32s(in_sync) + (int32s(topic.offline) if version >= 5 else b"")
        return int16(topic.partition_error) + int32(0) + int32(topic.leader_id) + replicas

    def one(topic: TopicView) -> bytes:
        partitions = array([] if topic.error else [partition(topic)])
        return int16(topic.error) + string(topic.name) + (boolean(False) if version >= 1 else b"") + partitions

    def node(broker: BrokerAddress) -> bytes:
        rack = nullable_string(broker.rack) if version >= 1 else b""
        return int32(broker.node_id) + string(broker.host) + int32(broker.port) + rack

    return b"".join(
        (
            _throttled(version, 3),
            array(map(node, brokers)),
            nullable_string(cluster_id) if version >= 2 else b"",
            int32(controller_id) if version >= 1 else b"",
            array(map(one, topics)),
        )
    )


def list_offsets(version: int, topics: Iterable[tuple[str, Iterable[FoundOffset]]]) -> bytes:
    """ListOffsets v1-v5; the leader epoch is always -1 (see wire/kafka.py)."""
    epoch = int32(-1) if version >= 4 else b""

    def one(found: FoundOffset) -> bytes:
        return int32(found.partition) + int16(found.error) + int64(found.timestamp) + int64(found.offset) + epoch

    return _throttled(version, 2) + array(string(name) + array(map(one, parts)) for name, parts in topics)


def fetch(
    version: int, topics: Iterable[tuple[str, Iterable[FetchedPartition]]], isolation_level: int = 0, error: int = 0
) -> bytes:
    """Fetch v4-v11; session id 0: sessions are not kept (KIP-227). Nothing is ever aborted."""
    aborted = int32(0) if isolation_level else int32(-1)

    def one(part: FetchedPartition) -> bytes:
        return b"".join(
            (
                int32(part.partition) + int16(part.error) + int64(part.high_watermark) + int64(part.high_watermark),
                int64(part.log_start) if version >= 5 else b"",
                aborted,
                int32(part.preferred_replica) if version >= 11 else b"",
                data(part.records),
            )
        )

    session = int16(error) + int32(0) if version >= 7 else b""
    return _NO_THROTTLE + session + array(string(name) + array(map(one, parts)) for name, parts in topics)


def produce_refused(version: int, topics: Iterable[tuple[str, Iterable[int]]], error: int, message: str) -> bytes:
    """Produce v0-v8, every partition refused."""

    def one(partition: int) -> bytes:
        return b"".join(
            (
                int32(partition) + int16(error) + int64(-1),
                int64(-1) if version >= 2 else b"",
                int64(-1) if version >= 5 else b"",
                int32(0) + nullable_string(message) if version >= 8 else b"",
            )
        )

    return array(string(name) + array(map(one, parts)) for name, parts in topics) + _throttled(version, 1)


def sasl_handshake_refused(error: int) -> bytes:
    """SaslHandshake v0 and v1: there is no mechanism."""
    return int16(error) + array(())


def sasl_authenticate_refused(version: int, error: int, message: str) -> bytes:
    """SaslAuthenticate v0-v2."""
    if version >= 2:
        return int16(error) + compact_nullable_string(message) + b"\x01" + int64(0) + NO_TAGS
    return int16(error) + nullable_string(message) + data(b"") + (int64(0) if version >= 1 else b"")


def offset_for_leader_epoch(topics: Iterable[tuple[str, Iterable[EpochEnd]]]) -> bytes:
    """OffsetForLeaderEpoch v2 and v3."""

    def one(end: EpochEnd) -> bytes:
        return int16(end.error) + int32(end.partition) + int32(end.leader_epoch) + int64(end.end_offset)

    return _NO_THROTTLE + array(string(name) + array(map(one, parts)) for name, parts in topics)


def find_coordinator(version: int, coordinator: BrokerAddress | None, error: int = 0) -> bytes:
    """FindCoordinator v0-v2; no coordinator is node -1."""
    node = coordinator or BrokerAddress(-1, "", -1)
    message = nullable_string(None) if version >= 1 else b""
    return _throttled(version, 1) + int16(error) + message + int32(node.node_id) + string(node.host) + int32(node.port)


def join_group(version: int, joined: JoinedGroup) -> bytes:
    """JoinGroup v0-v5."""

    def one(member: tuple[str, str | None, bytes]) -> bytes:
        member_id, instance_id, subscription = member
        return string(member_id) + (nullable_string(instance_id) if version >= 5 else b"") + data(subscription)

    return b"".join(
        (
            _throttled(version, 2),
            int16(joined.error) + int32(joined.generation) + string(joined.protocol),
            string(joined.leader) + string(joined.member_id),
            array(map(one, joined.members)),
        )
    )


def sync_group(version: int, error: int, assignment: bytes = b"") -> bytes:
    """SyncGroup v0-v3."""
    return _throttled(version, 1) + int16(error) + data(assignment)


def heartbeat(version: int, error: int) -> bytes:
    """Heartbeat v0-v3."""
    return _throttled(version, 1) + int16(error)


def leave_group(version: int, members: Iterable[tuple[str, str | None, int]], error: int = 0) -> bytes:
    """LeaveGroup v0-v3; ``members``: (id, instance id, error). Before v3 the first member's error is the answer."""
    left = list(members)
    if version < 3:
        return _throttled(version, 1) + int16(error or (left[0][2] if left else 0))
    return _NO_THROTTLE + int16(error) + array(string(m) + nullable_string(i) + int16(e) for m, i, e in left)


def offset_commit(version: int, topics: Iterable[tuple[str, Iterable[tuple[int, int]]]]) -> bytes:
    """OffsetCommit v2-v7; partitions as (index, error)."""
    body = array(string(name) + array(int32(p) + int16(error) for p, error in parts) for name, parts in topics)
    return _throttled(version, 3) + body


def offset_fetch(version: int, topics: Iterable[tuple[str, Iterable[CommittedOffset]]], error: int = 0) -> bytes:
    """OffsetFetch v1-v5; the error is repeated per partition because version 1 has no other place for it."""

    def one(kept: CommittedOffset) -> bytes:
        epoch = int32(kept.leader_epoch) if version >= 5 else b""
        return int32(kept.partition) + int64(kept.offset) + epoch + nullable_string(kept.metadata) + int16(error)

    body = array(string(name) + array(map(one, parts)) for name, parts in topics)
    return _throttled(version, 3) + body + (int16(error) if version >= 2 else b"")
