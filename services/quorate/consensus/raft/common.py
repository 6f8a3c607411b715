"""What an engine stands on: the world, as its parts reach it."""

import random
from collections.abc import Callable

import msgspec

from quorate.clock import Scheduler
from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import DiskWorker, Machine, Network, Store
from quorate.consensus.raft.founding import FoundingFacts
from quorate.consensus.storage.directory import Directory
from quorate.consensus.storage.event_log import EventLog


class EnginePorts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything outside of an engine that it uses; the simulator brings its own.

    ``store_worker`` syncs the store, which may take long and no acknowledgement waits for. ``directory`` says whether
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
    scheduler: Scheduler
    rng: random.Random
    on_fatal: Callable[[Exception], None]
    facts: FoundingFacts | None = None
