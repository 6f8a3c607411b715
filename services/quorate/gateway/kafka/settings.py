"""Limits and periods of the Kafka listener."""

from typing import Literal

import msgspec

from quorate.bounds import bounded
from quorate.errors import UsageError


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds unless the name says otherwise."""

    topic: str = "quorate.metadata.events"
    """The name the log is read under; one partition, number 0."""
    view: Literal["cluster", "local"] = "cluster"
    """``cluster``: clients see every node and read from the leader, or from the node whose rack they name.
    ``local``: a node names only itself, for clients that must stay with it."""
    connections_max: int = 1000
    """When one more comes, the one that is longest without an answer goes, of those that have proven nothing."""
    connections_reserved: int = 50
    """Of these, how many proven connections leave to others (at most half)."""
    proven_per_address_max: int = 500
    """Connections of one address that count as proven."""
    request_bytes_max: int = 2 * 1024 * 1024
    """Larger frames close their connection."""
    fetch_bytes_max: int = 64 * 1024
    """Records in one Fetch answer, whatever the client would take; one batch is always sent whole. This much history
    is read from disk in about half a millisecond, the longest that other work should wait."""
    fetch_bytes_min: int = 16 * 1024
    """And this much, if there is, however little the client asks for (up to ``fetch_bytes_max``). A client that asks
    for one byte means one batch; here that is one entry, often one event: one a round trip would starve its reader."""
    fetch_wait_max_ms: int = 30_000
    """Longest long poll, whatever the client would wait."""
    wake_bytes_per_turn: int = 256 * 1024
    """Bytes of answers handed to the kernel before other work gets its turn: when many long polls end at once, and of
    what one connection pipelined."""
    wakes_per_turn: int = 32
    """And how many of these answers at most."""
    requests_per_turn: int = 64
    """Pipelined requests of one connection served before other work gets its turn, if no limit of time or of bytes
    ends the turn before."""
    confirm_timeout_s: float = 2.5
    """How long ListOffsets(latest) waits for the leader's word."""
    first_byte_timeout_s: float = 10.0
    """How long a connection may stay without having sent a byte."""
    idle_timeout_s: float = 600.0
    """A connection without a request for this long is closed (Kafka ``connections.max.idle.ms``)."""
    frame_timeout_s: float = 10.0
    """A frame must be whole this long after its first byte."""
    write_timeout_s: float = 30.0
    """A client that takes nothing for this long is disconnected."""
    over_quota_delay_s: float = 1.0
    """How long a request over its quota waits before it is served."""
    sweep_period_s: float = 1.0
    """How often time-outs of connections and group members are looked for."""
    groups_max: int = 1000
    """Consumer groups with members; those of one more cannot join. (How many are kept: controller.group_rows_max.)"""
    group_members_max: int = 1000
    """Members of all groups together."""
    group_member_bytes_max: int = 16 * 1024
    """Subscription of one member, with its names, or its assignment."""
    offset_metadata_bytes_max: int = 4096
    """Metadata of a committed offset (Kafka ``offset.metadata.max.bytes``)."""
    describe_bytes_max: int = 1024 * 1024
    """Members in one DescribeGroups answer; one group is always told whole, of more the client asks again."""
    group_session_timeout_min_ms: int = 1_000
    """Smallest session timeout a member may ask for."""
    group_session_timeout_max_ms: int = 1_800_000
    """Largest session or rebalance timeout (Kafka ``group.max.session.timeout.ms``)."""
    group_initial_delay_s: float = 0.1
    """How long a new group waits for more members before its first assignment."""
    group_expiry_s: float = 7 * 24 * 3600.0
    """A committed offset lapses this long after its commit, unless its group has members then. The log's holds."""
    group_rows_per_sweep: int = 200
    """Committed offsets whose age is looked at in one sweep, in turn."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self, zero=("over_quota_delay_s", "group_initial_delay_s"))
        if self.group_session_timeout_min_ms > self.group_session_timeout_max_ms:
            raise UsageError("group_session_timeout_min_ms must be at most group_session_timeout_max_ms")
