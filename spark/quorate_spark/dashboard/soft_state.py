"""Soft state: what nodes and heartbeats say now, and no event. Values; ``soft`` asks for them.

Rules: soft state is shown beside facts, never folded into them; in the past there is none.
"""

import msgspec


class NodeSoft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One controller node as it answered just now; only ``reachable`` and ``polled`` when it did not."""

    reachable: bool
    polled: int
    """When it was asked; epoch milliseconds."""
    connected: bool | None = None
    """Has the node that was asked for the quorum a connection to it?"""
    zone: str | None = None
    end: int | None = None
    """Events it has applied."""
    lag: int | None = None
    """Events it is behind the leader."""
    fsync_p99_ms: float | None = None
    """Of the last minute."""
    rtt_ms: float | None = None
    """From this service to the node and back."""


class MemberSoft(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One broker as the nodes hear it; null: never told."""

    alive: bool | None
    max_offset: int | None
    """End of its commit log, bytes."""
    behind: int | None
    """Bytes behind its master (behind the furthest member where there is none)."""
    epoch: int | None
    priority: int | None
    """Null too: it set none."""
    heartbeat_age_ms: int | None


class LeaseSoft(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One lease as the leader measures it."""

    left_ms: int
    """Until it expires, if its holder is not heard."""
    polled: int
    """When the leader was asked."""


class HealthSoft(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How a member says it is, in its heartbeats; 0: it does not say."""

    disk_used_bytes: int = 0
    disk_total_bytes: int = 0
    cpu_percent: int = 0
    memory_percent: int = 0
    io_errors: int = 0


class HeardSoft(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One member as the leader hears it."""

    heard_ms: int
    """When; epoch milliseconds."""
    health: HealthSoft | None = None
    """Null: it never said."""


class Soft(msgspec.Struct, frozen=True, kw_only=True):
    """Everything soft, as of one moment."""

    polled: int
    nodes: dict[int, NodeSoft] = {}
    members: dict[str, dict[int, MemberSoft]] = {}
    leases: dict[int, LeaseSoft] = {}
    """Of the answer that is being made; nobody asks for all of them."""
    heard: dict[str, HeardSoft] = {}
    """Likewise, of members."""
    status: str = ""
    """The sentence of ``/v1/status`` of one node."""
    healthy: bool | None = None
    alarms: tuple[str, ...] = ()
    """Alarms of that node."""
