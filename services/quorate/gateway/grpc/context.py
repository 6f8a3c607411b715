"""A node, as the gRPC listener sees it.

Rules: the composition root fills ``GrpcContext``; everything in it lives on the node's loop.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec

from quorate.clock import Scheduler
from quorate.consensus.ports import RaftEngine
from quorate.consensus.storage.event_log import EventLog
from quorate.controller import Controller, ReplicatedState
from quorate.gateway.access import Access, Quota
from quorate.gateway.fresh import FreshReader
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.metrics import Metrics

PRINCIPAL = "anonymous"
"""The principal of every client: there is no authentication on this listener yet."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A voter, and where it is reached (``host:port``; empty: it does not listen)."""

    node_id: int
    rpc: str
    raft: str
    kafka: str
    http: str
    grpc: str
    zone: str = ""


@dataclass(frozen=True)
class GrpcContext:
    """Everything the services work with."""

    node_id: int
    cluster_id: str
    version: str
    voters: Sequence[Place]
    controller: Controller
    machine: ReplicatedState
    engine: RaftEngine
    log: EventLog
    fresh: FreshReader
    """Every read of this listener goes through it."""
    written: FreshReader
    """What was written waits in it until this node has applied it: as many as there are calls."""
    scheduler: Scheduler
    metrics: Metrics
    access: Access
    quota: Quota
    chance: random.Random
    """Draws the numbers of leases whose clients name none."""
    connected: Callable[[int], bool]
    """Can this node reach that voter now? True of itself."""
    unready: Callable[[], str]
    """Why clients should not come to this node; empty when they should."""
    no_space: Callable[[], Sequence[str]] = tuple
    """Why what grows the state is refused, in sentences; ``short_of_space``: at which nodes."""
    short_of_space: Callable[[], Sequence[int]] = tuple
    corrupt: Callable[[], Sequence[str]] = tuple
    """Which nodes' states differ, in sentences; ``differing``: the nodes."""
    differing: Callable[[], Sequence[int]] = tuple
    disk_bytes: Callable[[], int] = int
    """Of the whole data directory."""
    settings: GrpcSettings = field(default_factory=GrpcSettings)


def number_of(cluster_id: str) -> int:
    """The cluster's number, for etcd's headers: 64 bits."""
    return int.from_bytes(sha256(cluster_id.encode()).digest()[:8], "big")
