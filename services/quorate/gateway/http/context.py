"""A node, as the HTTP interface sees it.

Rules: the composition root fills ``HttpContext``; everything in it lives on the node's thread.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from quorate.clock import Scheduler
from quorate.consensus.ports import RaftEngine
from quorate.controller import Controller
from quorate.gateway.access import Access, Quota
from quorate.gateway.fresh import FreshReader
from quorate.gateway.http.answers import AnnouncedBroker, DataVersion, SettingItem
from quorate.gateway.http.settings import HttpSettings
from quorate.gateway.kafka.view import EventLogReader
from quorate.metadata.balance_settings import BalanceSettings
from quorate.metadata.policy import PolicySettings
from quorate.metadata.sums import Mark
from quorate.metrics import Metrics
from quorate.model.state import State, Topic

PRINCIPAL = "anonymous"
"""The principal of every client: there is no authentication on this listener yet."""


class StorageInfo(msgspec.Struct, frozen=True):
    """How the disk is doing."""

    bytes_on_disk: int
    """Of the whole data directory: journal and store (RocketMQ ``dledger_disk_usage``)."""
    journal_bytes: int
    unsynced_for_s: float
    """How long the oldest unsynced write has waited; 0: nothing waits."""


class Announcements(msgspec.Struct, frozen=True):
    """What the brokers of a set told this node as their name server: soft, and this node's alone."""

    brokers: tuple[AnnouncedBroker, ...] = ()
    version: DataVersion | None = None
    """None: nobody said which topics the set has."""
    topics: Collection[str] = ()
    topic: Callable[[str], Topic] | None = None
    """One of these."""


class NodeInfo(msgspec.Struct, frozen=True):
    """The names of a node."""

    node_id: int
    cluster_id: str
    version: str
    topic: str
    """Kafka name of the log."""
    rpc: str = ""
    """Where brokers reach it, ``host:port``; the label ``address`` of RocketMQ's metrics."""
    python: str = ""
    """What it runs on."""
    leaf: str = ""
    """Native, or pure and why."""
    grpc: Mapping[int, str] = {}
    """Where each voter speaks gRPC, ``host:port``, by this node's settings; empty: nowhere."""


@dataclass(frozen=True)
class HttpContext:
    """Everything the handlers work with."""

    node: NodeInfo
    controller: Controller
    engine: RaftEngine
    log: EventLogReader
    scheduler: Scheduler
    metrics: Metrics
    access: Access
    quota: Quota
    connected: Callable[[int], bool]
    """Can this node reach that voter now? True of itself."""
    serving: Callable[[], bool]
    """Are all event batches here, and is the node not stopping?"""
    alive: Callable[[], bool]
    """False once the node stops, or has failed."""
    storage: Callable[[], StorageInfo]
    sums: Callable[[], Mark]
    """What the rows add up to now (``ReplicatedState.marked``)."""
    fresh: FreshReader
    """Every read of this listener goes through it."""
    policy: PolicySettings
    """This node's own, before what the log says."""
    balance: BalanceSettings = field(default_factory=BalanceSettings)
    announced: Callable[[str], Announcements | None] = lambda _: None
    """Of a set by its name; None: this node is no name server, or was told nothing."""
    alarms: Callable[[], Sequence[str]] = tuple
    """Troubles that no figure shows, in sentences for an operator."""
    overruled: Callable[[], Sequence[str]] = tuple
    """Which of the node's own settings the log overrules, in sentences."""
    in_force: Callable[[State], Sequence[SettingItem]] = lambda _: ()
    """Every setting of this node, and where its value comes from, in this state."""
    agrees: Callable[[], bool] = lambda: True
    """False while this node's state is another than another node's, and nobody knows whose is wrong."""
    settings: HttpSettings = field(default_factory=HttpSettings)
    journal_sync: Callable[[], str] = lambda: "thread"
    """Who syncs the journal now: the kernel, or a thread."""
    waits_for: Callable[[], str] = lambda: ""
    """Why this node cannot take part in elections, and what would help; empty when it can."""
    info: Mapping[str, str] = field(default_factory=dict)
    """More labels of the metric ``quorate_info``."""
