"""Kafka responses that administrators' tools and UIs ask for, as bytes, for every version of the window.

Rules: as in kafka_responses.py. What nobody knows (authorized operations) is the protocol's "not known".
Source: ``clients/src/main/resources/common/message/{ListGroups,DescribeGroups,DescribeConfigs,DescribeCluster,
DescribeQuorum}Response.json`` of Kafka.
"""

from collections.abc import Iterable

import msgspec

from quorate.wire.kafka_primitives import (
    NO_TAGS,
    boolean,
    compact_array,
    compact_nullable_string,
    compact_string,
    form,
    int16,
    int32,
    int64,
)
from quorate.wire.kafka_responses import BrokerAddress

_NO_THROTTLE = int32(0)
_NO_OPERATIONS = int32(-(2**31))
_STATIC_BROKER_CONFIG = b"\x04"
"""``ConfigSource``: it is a setting of the node, or of its build."""
_DEFAULT_CONFIG = b"\x05"


class ListedGroup(msgspec.Struct, frozen=True, gc=False):
    """One group of ListGroups; ``state`` in Kafka's words (``Stable``, ``Empty`` …)."""

    group: str
    protocol_type: str
    state: str


class DescribedMember(msgspec.Struct, frozen=True, gc=False):
    """One member of DescribeGroups; subscription and assignment only while the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    subscription: bytes = b""
    assignment: bytes = b""


class DescribedGroup(msgspec.Struct, frozen=True, gc=False):
    """One group of DescribeGroups."""

    error: int
    group: str
    state: str = "Dead"
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


class DescribedConfig(msgspec.Struct, frozen=True, gc=False):
    """One config; ``kind`` is ``ConfigType`` (1 boolean, 2 string, 3 int, 5 long, 7 list)."""

    name: str
    value: str
    kind: int
    default: bool = False


class DescribedResource(msgspec.Struct, frozen=True, gc=False):
    """Answer for one resource of DescribeConfigs."""

    error: int
    message: str | None
    kind: int
    name: str
    configs: tuple[DescribedConfig, ...] = ()


class QuorumReplica(msgspec.Struct, frozen=True, gc=False):
    """One voter of DescribeQuorum; times in Unix ms, -1 unknown."""

    node_id: int
    log_end: int
    last_fetch_ms: int
    last_caught_up_ms: int
    directory: bytes = bytes(16)
    """The UUID of its data directory."""


class DescribedQuorum(msgspec.Struct, frozen=True, gc=False):
    """Answer for the one partition of the quorum's log."""

    leader_id: int
    term: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]


def listed_group(version: int, group: ListedGroup) -> bytes:
    """One of ``list_groups``."""
    f = form(version, 3)
    state = f.string(group.state) if version >= 4 else b""
    kind = f.string("classic") if version >= 5 else b""
    return f.string(group.group) + f.string(group.protocol_type) + state + kind + f.end


def list_groups(version: int, listed: Iterable[bytes], error: int = 0) -> bytes:
    """ListGroups v0-v5 (flexible from v3); every group is of the classic protocol, and bytes already."""
    f = form(version, 3)
    return (_NO_THROTTLE if version >= 1 else b"") + int16(error) + f.array(listed) + f.end


def describe_groups(version: int, groups: Iterable[DescribedGroup]) -> bytes:
    """DescribeGroups v0-v5."""
    f = form(version, 5)

    def member(entry: DescribedMember) -> bytes:
        instance = f.nullable_string(entry.instance_id) if version >= 4 else b""
        whence = f.string(entry.client_id) + f.string(entry.host)
        parts = f.data(entry.subscription) + f.data(entry.assignment)
        return f.string(entry.member_id) + instance + whence + parts + f.end

    def one(group: DescribedGroup) -> bytes:
        head = int16(group.error) + f.string(group.group) + f.string(group.state) + f.string(group.protocol_type)
        operations = _NO_OPERATIONS if version >= 3 else b""
        return head + f.string(group.protocol) + f.array(map(member, group.members)) + operations + f.end

    return (_NO_THROTTLE if version >= 1 else b"") + f.array(map(one, groups)) + f.end


def delete_groups(version: int, groups: Iterable[tuple[str, int]]) -> bytes:
    """DeleteGroups v0-v2; groups as (name, error)."""
    f = form(version, 2)
    return _NO_THROTTLE + f.array(f.string(name) + int16(error) + f.end for name, error in groups) + f.end


def describe_configs(version: int, resources: Iterable[DescribedResource]) -> bytes:
    """DescribeConfigs v1-v4; everything is read-only and nothing is secret."""
    f = form(version, 4)

    def config(entry: DescribedConfig) -> bytes:
        source = _DEFAULT_CONFIG if entry.default else _STATIC_BROKER_CONFIG
        head = f.string(entry.name) + f.nullable_string(entry.value) + boolean(True) + source
        tail = bytes((entry.kind,)) + f.nullable_string(None) if version >= 3 else b""
        return head + boolean(False) + f.array(()) + tail + f.end

    def one(resource: DescribedResource) -> bytes:
        head = int16(resource.error) + f.nullable_string(resource.message) + bytes((resource.kind & 0xFF,))
        return head + f.string(resource.name) + f.array(map(config, resource.configs)) + f.end

    return _NO_THROTTLE + f.array(map(one, resources)) + f.end


def describe_cluster(
    version: int,
    brokers: Iterable[BrokerAddress],
    cluster_id: str,
    controller_id: int,
    endpoint_type: int = 1,
    error: tuple[int, str | None] = (0, None),
) -> bytes:
    """DescribeCluster v0-v2, all flexible."""

    def one(broker: BrokerAddress) -> bytes:
        where = int32(broker.node_id) + compact_string(broker.host) + int32(broker.port)
        fenced = boolean(False) if version >= 2 else b""
        return where + compact_nullable_string(broker.rack) + fenced + NO_TAGS

    code, message = error
    return b"".join(
        (
            _NO_THROTTLE + int16(code) + compact_nullable_string(message),
            bytes((endpoint_type,)) if version >= 1 else b"",
            compact_string(cluster_id) + int32(controller_id),
            compact_array(map(one, brokers)) + _NO_OPERATIONS + NO_TAGS,
        )
    )


def describe_quorum(
    version: int,
    topics: Iterable[tuple[str, Iterable[tuple[int, int]]]],
    quorum: DescribedQuorum,
    nodes: Iterable[BrokerAddress],
) -> bytes:
    """DescribeQuorum v0-v2, all flexible; partitions as (index, error), all but those in error of the one quorum."""

    def replica(voter: QuorumReplica) -> bytes:
        directory = voter.directory if version >= 2 else b""
        times = int64(voter.last_fetch_ms) + int64(voter.last_caught_up_ms) if version >= 1 else b""
        return int32(voter.node_id) + directory + int64(voter.log_end) + times + NO_TAGS

    def partition(index: int, error: int) -> bytes:
        status = DescribedQuorum(-1, -1, -1, ()) if error else quorum
        message = compact_nullable_string(None) if version >= 2 else b""
        head = int32(status.leader_id) + int32(status.term) + int64(status.high_watermark)
        voters = compact_array(map(replica, status.voters))
        return int32(index) + int16(error) + message + head + voters + compact_array(()) + NO_TAGS

    def node(address: BrokerAddress) -> bytes:
        port = address.port.to_bytes(2, "big")
        listener = compact_string("CONTROLLER") + compact_string(address.host) + port + NO_TAGS
        return int32(address.node_id) + compact_array([listener]) + NO_TAGS

    body = compact_array(
        compact_string(name) + compact_array(partition(*part) for part in parts) + NO_TAGS for name, parts in topics
    )
    head = int16(0) + (compact_nullable_string(None) if version >= 2 else b"")
    return head + body + (compact_array(map(node, nodes)) if version >= 2 else b"") + NO_TAGS
