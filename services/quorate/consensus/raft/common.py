"""What an engine stands on, and what its parts have in common.

Rules: ``EnginePorts`` is the world; the node brings a real one, the simulator its own. ``Common`` is what the engine
made of it, once; a part keeps of it what it uses. What changes, each part owns for itself (consensus/raft/engine.py).
"""

import random
from collections.abc import Callable

import msgspec

from quorate.clock import Scheduler
from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import DiskWorker, Machine, Network, NodeId, Store
from quorate.consensus.raft.core import Core
from quorate.consensus.raft.founding import FoundingFacts
from quorate.consensus.raft.outbox import Outbox
from quorate.consensus.raft.turns import Turns
from quorate.consensus.settings import EngineSettings
from quorate.consensus.storage.directory import Directory
from quorate.consensus.storage.event_log import EventLog


class EnginePorts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything outside of an engine that it uses.

    ``store_worker`` syncs the store, which may take long and no acknowledgement waits for; ``reader`` reads what a
    snapshot sends. ``directory`` says whether
    this node may vote. With ``facts``, what the machine knows of the cluster's founding, a cluster is founded by all
    voters only. ``on_fatal`` is called once, when this node must not go on; the engine has stopped by then.
    """

    journal: Journal
    machine: Machine
    store: Store
    event_log: EventLog
    directory: Directory
    network: Network
    worker: DiskWorker
    store_worker: DiskWorker
    reader: DiskWorker
    scheduler: Scheduler
    rng: random.Random
    on_fatal: Callable[[Exception], None]
    facts: FoundingFacts | None = None


class Common(msgspec.Struct, frozen=True, kw_only=True):
    """Shared by the parts of one engine."""

    node_id: NodeId
    voters: tuple[NodeId, ...]
    """Sorted, this node too."""
    others: tuple[NodeId, ...]
    """Without this node."""
    quorum: int
    settings: EngineSettings
    ports: EnginePorts
    core: Core
    outbox: Outbox
    turns: Turns


def unsynced_s(journal: Journal, now: float) -> float:
    """How long the journal's oldest operation has waited for the disk."""
    since = journal.oldest_unsynced_since()
    return 0.0 if since is None else now - since
