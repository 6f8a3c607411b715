"""Simulated brokers: they boot, register, ask for a master, replicate, report, die and come back, as stock ones do.

Rules: the order of requests is the stock broker's (``ReplicasManager``: 1012, 1013, 1003, 904, 1002, then 1004 every
few moments; the master alters its sync state set as replicas come and go). Heartbeats go to every controller. A master
keeps a log of messages; one is *acknowledged* when every broker of the sync state set has it. Whoever is elected must
hold every acknowledged message of its set: that is what all the rest is for.

Theory: a master cannot know whether a change it asked for was made until it is told. So it acknowledges only what every
member of every set has that may be the committed one: the last it heard of and those it asked for since. A broker that
restarts has forgotten what it asked for, so for ``QUARANTINE_S`` it acknowledges nothing: by then whatever it asked for
has happened or never will.
"""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from quorate.consensus.ports import NodeId
from quorate.controller import DialResult, QueryResult, ReadResult, ReadView, RoleChange
from quorate.controller.views import answered
from quorate.events import MasterElected
from quorate.metadata.commands import (
    AlterSyncStateSet,
    ApplyBrokerId,
    Command,
    DeleteTopic,
    ElectMaster,
    PutTopic,
    RegisterBroker,
)
from quorate.model.queries import NextBrokerId, NextBrokerIdIs, Query, ReplicaInfo, ReplicaInfoIs
from quorate.model.queries import Result as Answer
from tests.sim.clients import Done, History, Result
from tests.sim.cluster import Cluster, Process
from tests.sim.nodes import CoreNode
from tests.sim.world import Loop, ViolationError
from tests.stand_ins import Heartbeat

R = TypeVar("R")

KEPT = "a master has every acknowledged message"
CLUSTER = "c"
PERIOD_S = 0.1
HEARTBEAT_TIMEOUT_MS = 600
QUARANTINE_S = 2.5
"""Longer than any request can be under way: the controllers' answer timeout plus the networks' delays."""
GONE_S = 5.0
"""Long enough for another controller to be elected, and to miss a master that it never heard."""


REQUESTS: dict[type[Command], str] = {
    ApplyBrokerId: "register",
    RegisterBroker: "register",
    AlterSyncStateSet: "alter",
    ElectMaster: "elect",
    PutTopic: "topic",
    DeleteTopic: "topic",
}
"""What the coverage table calls them."""


class Connection:
    """A broker's connection to one process of a controller (``controller.Channel``)."""

    __slots__ = ("address", "last", "process")

    def __init__(self, address: str, process: Process) -> None:
        self.address = address
        self.last: object | None = None
        self.process = process


class Broker:
    """One broker of a set. ``broker_id`` 0 until it has been granted one."""

    def __init__(self, fleet: "Fleet", broker_set: str, number: int) -> None:
        self._fleet = fleet
        self._world = fleet.cluster.world
        self.broker_set = broker_set
        self.address = f"{broker_set}:{number}"
        self._check_code = f"{self.address};1"
        self.alive = False
        self._life = 0
        self.broker_id = 0
        self.log: list[int] = []
        self.log_epoch = -1
        """Epoch of the master this log was last equal to, or was written as (RocketMQ's epoch file)."""
        self._registered = False
        self.epoch = 0
        self.master: int | None = None
        self._in_sync: frozenset[int] = frozenset()
        self._in_sync_epoch = 0
        self._asked_for: set[int] = set()
        self._silent_until = 0.0
        self._busy_until = 0.0
        self.away_until = 0.0
        """It is not started before, whoever meant to."""
        self._asked = 0
        """Requests made; only the answer to the last is heard, as the others were given up on."""
        self._connections: dict[NodeId, Connection] = {}

    def boot(self) -> None:
        """A process starts; it remembers its id, its log, and nothing else."""
        if self.alive or self._world.now < self.away_until:
            return
        self.alive = True
        self._life += 1
        self._registered = False
        self.master, self.epoch, self._in_sync, self._in_sync_epoch = None, 0, frozenset(), 0
        self._asked_for = set()
        self._busy_until = 0.0
        self._silent_until = self._world.now + QUARANTINE_S if self._life > 1 else 0.0
        life = self._life
        self._beat(life)
        self._step(life)

    def die(self) -> None:
        """It stops; its connections close, which each controller hears unless it is dead itself."""
        self.alive = False
        for connection in self._connections.values():
            _on_loop(connection.process, lambda node, c=connection: node.core.controller.channel_closed(c))  # type: ignore[misc]
        self._connections.clear()

    # 904, to everybody.

    def _beat(self, life: int) -> None:
        if not self.alive or life != self._life:
            return
        if self.broker_id:
            for process in self._fleet.cluster.processes():
                if self._world.random.random() >= self._fleet.cluster.client_loss:
                    self._beat_to(process)
        self._world.after(PERIOD_S, lambda: self._beat(life))

    def _beat_to(self, process: Process) -> None:
        connection = self._connections.get(process.node_id)
        if connection is None or connection.process is not process:
            connection = self._connections[process.node_id] = Connection(self.address, process)
        beat = Heartbeat(
            CLUSTER,
            self.broker_set,
            self.broker_id,
            self.address,
            epoch=self.log_epoch,
            max_offset=len(self.log),
            confirm_offset=len(self.log),
            timeout_ms=HEARTBEAT_TIMEOUT_MS,
        )
        channel = connection
        _on_loop(process, lambda node: node.core.controller.heartbeat(beat, channel))

    # The boot order, then steady life: one step at a time, and none while an answer is awaited.

    def _step(self, life: int) -> None:
        if not self.alive or life != self._life:
            return
        self._world.after(PERIOD_S * (0.3 + 0.7 * self._world.random.random()), lambda: self._step(life))
        if self.master == self.broker_id:
            self._lead()
        if self._world.now >= self._busy_until:
            if not self.broker_id:
                self._query(NextBrokerId(cluster=CLUSTER, broker_set=self.broker_set), self._next_id)
            elif not self._registered:
                self._ask(
                    RegisterBroker(
                        cluster=CLUSTER, broker_set=self.broker_set, broker_id=self.broker_id, address=self.address
                    ),
                    self._registration,
                )
            else:
                self._query(ReplicaInfo(broker_set=self.broker_set), self._replica_info)

    def _waiting_still(self, hear: Callable[[R], None]) -> Callable[[R], None]:
        """Begin to wait for an answer; one that comes after death, or after another request was made, is not heard."""
        self._busy_until = self._world.now + 0.5
        self._asked += 1
        life, asked = self._life, self._asked

        def heard(result: R) -> None:
            if self.alive and (life, asked) == (self._life, self._asked):
                self._busy_until = 0.0
                hear(result)

        return heard

    def _ask(self, command: Command, hear: Callable[[Result], None]) -> None:
        self._fleet.ask(command, self._waiting_still(hear))

    def _query(self, query: Query, hear: Callable[[Answer], None]) -> None:
        self._fleet.query(query, self._waiting_still(hear))

    def _next_id(self, found: Answer) -> None:
        assert isinstance(found, NextBrokerIdIs)
        wanted = found.next_broker_id
        command = ApplyBrokerId(
            cluster=CLUSTER, broker_set=self.broker_set, broker_id=wanted, register_check_code=self._check_code
        )

        def granted(result: Result) -> None:
            if isinstance(result, Done):
                self.broker_id = wanted

        self._ask(command, granted)

    def _registration(self, result: Result) -> None:
        self._registered = isinstance(result, Done)

    def _replica_info(self, found: Answer) -> None:
        assert isinstance(found, ReplicaInfoIs)
        if found.master is None:
            command = ElectMaster(broker_set=self.broker_set, cluster=CLUSTER, broker_id=self.broker_id)
            self._ask(command, lambda _result: None)
        else:
            self.believe(found.master, found.master_epoch, found.sync_state_set, found.sync_state_set_epoch)

    # Roles.

    def believe(self, master: int, epoch: int, in_sync: tuple[int, ...], in_sync_epoch: int) -> None:
        """Hear of an election or of a sync state set; older news is ignored (a stock broker's rule)."""
        if epoch > self.epoch:
            self.epoch, self.master = epoch, master
        elif epoch < self.epoch or in_sync_epoch <= self._in_sync_epoch:
            return
        self._in_sync, self._in_sync_epoch = frozenset(in_sync), in_sync_epoch
        self._asked_for.clear()

    def _lead(self) -> None:
        """Take messages, replicate them, acknowledge them, and report who is in sync."""
        followers = [
            broker
            for broker in self._fleet.sets[self.broker_set]
            if broker.alive and broker is not self and (broker.master, broker.epoch) == (self.broker_id, self.epoch)
        ]
        self.log += [self._fleet.new_message() for _ in range(self._world.random.randrange(3))]
        self.log_epoch = self.epoch
        for follower in followers:
            follower.log = list(self.log)
            follower.log_epoch = self.epoch
        reached = {self.broker_id, *(follower.broker_id for follower in followers)}
        if self._world.now >= self._silent_until and reached >= self._in_sync | self._asked_for:
            self._fleet.acknowledge(self.broker_set, self.log)
        if reached != self._in_sync and self._world.now >= self._busy_until:
            self._report(reached)

    def _report(self, reached: set[int]) -> None:
        """1001. Whatever comes of it, the set asked for may be the committed one until a newer is heard of."""
        self._asked_for |= reached
        epoch = self._in_sync_epoch
        command = AlterSyncStateSet(
            broker_set=self.broker_set,
            master=self.broker_id,
            master_epoch=self.epoch,
            sync_state_set=tuple(sorted(reached)),
            sync_state_set_epoch=epoch,
        )

        def altered(result: Result) -> None:
            if isinstance(result, Done) and self._in_sync_epoch == epoch:
                self.believe(self.broker_id, self.epoch, tuple(sorted(reached)), epoch + 1)

        self._ask(command, altered)


class Fleet:
    """All brokers of all sets, and what they acknowledged."""

    def __init__(self, cluster: Cluster, history: History, sets: int, size: int) -> None:
        self.cluster = cluster
        self._history = history
        self.sets = {
            f"b{number}": [Broker(self, f"b{number}", member) for member in range(1, size + 1)]
            for number in range(sets)
        }
        self._by_address = {broker.address: broker for brokers in self.sets.values() for broker in brokers}
        self._acknowledged: dict[str, list[int]] = {name: [] for name in self.sets}
        self._messages = 0
        self._requests = 0
        self._stopped = False
        self._elections: Counter[str] = Counter()

    def start(self) -> None:
        """Boot everybody within a moment, and let fate and the administrator begin."""
        if not self.sets:
            return
        self.cluster.world.after(1.0, self._administer)
        for broker in self._by_address.values():
            self.cluster.world.after(0.2 + self.cluster.world.random.random() * 0.3, broker.boot)
        self.cluster.world.after(1.0, self._fate)

    def stop(self) -> None:
        """No more deaths; the dead come back."""
        self._stopped = True
        for broker in self._by_address.values():
            broker.boot()

    def bereave(self) -> Callable[[], bool]:
        """A master dies for a while. The answer: was one elected in its set since?"""
        brokers = [broker for broker in self._by_address.values() if broker.alive]
        masters = [broker for broker in brokers if broker.broker_id and broker.master == broker.broker_id]
        if not masters:
            return lambda: True
        master = self.cluster.world.random.choice(masters)
        before = self._elections[master.broker_set]
        master.die()
        master.away_until = self.cluster.world.now + GONE_S
        self.cluster.world.after(GONE_S, master.boot)
        return lambda: self._elections[master.broker_set] > before

    def _fate(self) -> None:
        """Somebody dies, masters more often than others, and comes back later."""
        random = self.cluster.world.random
        if self._stopped:
            return
        alive = [broker for broker in self._by_address.values() if broker.alive]
        masters = [broker for broker in alive if broker.master == broker.broker_id]
        if alive:
            victim = random.choice(masters if masters and random.random() < 0.6 else alive)
            self.cluster.counts["brokers killed"] += 1
            victim.die()
            self.cluster.world.after(0.3 + random.random(), victim.boot)
        self.cluster.world.after(0.2 + random.random(), self._fate)

    def _administer(self) -> None:
        """Topics come, change and go; now and then somebody in sync is made master."""
        random = self.cluster.world.random
        if self._stopped:
            return
        topic, name = f"t{random.randrange(3)}", random.choice(sorted(self.sets))
        broker = random.choice(self.sets[name])
        queues = random.randrange(1, 9)
        command = random.choice(
            (
                PutTopic(topic=topic, read_queues=queues, write_queues=queues, permission=6),
                DeleteTopic(topic=topic),
                ElectMaster(
                    broker_set=name,
                    cluster=CLUSTER,
                    broker_id=broker.broker_id or None,
                    designate=True,
                    trigger="admin",
                ),
            )
        )
        self.ask(command, lambda _result: None)
        self.cluster.world.after(random.random() * 0.4, self._administer)

    # Messages.

    def new_message(self) -> int:
        """A message nobody else has."""
        self._messages += 1
        return self._messages

    def acknowledge(self, broker_set: str, log: list[int]) -> None:
        """Every message of ``log`` is acknowledged; none that was may be missing."""
        kept = self._acknowledged[broker_set]
        if log[: len(kept)] != kept:
            raise ViolationError(KEPT, f"{broker_set}: a master acknowledges {len(log)} messages without those before")
        self.cluster.counts["messages acknowledged"] += len(log) - len(self._acknowledged[broker_set])
        self._acknowledged[broker_set] = list(log)

    def elected(self, event: MasterElected) -> None:
        """A committed election: the master must hold what was acknowledged."""
        (master,) = [broker for broker in self.sets[event.broker_set] if broker.broker_id == event.master]
        kept = self._acknowledged[event.broker_set]
        self._elections[event.broker_set] += 1
        self.cluster.counts["masters elected"] += 1
        if master.log[: len(kept)] != kept:
            raise ViolationError(
                KEPT,
                f"{event.broker_set}: {master.broker_id} of epoch {event.master_epoch} ({event.explanation})",
            )

    # Requests, through a random node: it forwards what is not its own.

    def ask(self, command: Command, hear: Callable[[Result], None]) -> None:
        """A command; the answer may never come."""
        self._requests += 1
        tag, floor = f"broker {self._requests}", self._history.floor

        def heard(result: Result) -> None:
            self._history.told(tag, "", result, floor)
            hear(result)

        node = self.cluster.world.random.choice(self.cluster.voters)
        self.cluster.ask(
            node,
            lambda service, done: _core_node(service).submit(command, tag, "", done),
            heard,
            REQUESTS.get(type(command), "other"),
        )

    def query(self, query: Query, hear: Callable[[Answer], None]) -> None:
        """A linearizable query; only found answers are heard."""
        found: list[Answer] = []
        floor = self._history.floor

        def call(service: object, done: Callable[[Result], None]) -> None:
            def seen(view: ReadResult) -> None:
                if isinstance(view, ReadView) and isinstance(outcome := answered(query, view), QueryResult):
                    found.append(outcome.result)
                    done(Done(outcome.offset))

            _core_node(service).core.controller.read("linearizable", seen)

        def heard(result: Result) -> None:
            self._history.told(type(query).__name__, "", result, floor)
            hear(found[0])

        self.cluster.ask(self.cluster.world.random.choice(self.cluster.voters), call, heard, "read")

    # Calls to brokers.

    def find(self, address: str) -> Broker:
        """By address."""
        return self._by_address[address]


class FleetLink:
    """``controller.BrokerLink`` of one process."""

    def __init__(self, fleet: Fleet, loop: Loop) -> None:
        self._fleet = fleet
        self._loop = loop

    def notify(self, address: str, change: RoleChange, done: Callable[[bool], None]) -> None:
        """1008: arrives after a moment, or is lost."""
        broker = self._fleet.find(address)

        def arrive() -> None:
            lost = self._fleet.cluster.world.random.random() < 0.2
            if broker.alive and not lost:
                broker.believe(change.master, change.master_epoch, change.sync_state_set, change.sync_state_set_epoch)
            self._loop.io(lambda: done(broker.alive and not lost))

        self._later(arrive)

    def dial(self, address: str, done: Callable[[DialResult], None]) -> None:
        """Refused by the dead, accepted by the living, unknown now and then."""
        broker = self._fleet.find(address)

        def arrive() -> None:
            result: DialResult = "accepted" if broker.alive else "refused"
            if self._fleet.cluster.world.random.random() < 0.2:
                result = "unknown"
            self._loop.io(lambda: done(result))

        self._later(arrive)

    def _later(self, call: Callable[[], None]) -> None:
        world = self._fleet.cluster.world
        world.after(0.0005 + world.random.random() * 0.01, call)


def _core_node(service: object) -> CoreNode:
    assert isinstance(service, CoreNode)
    return service


def _on_loop(process: Process, call: Callable[[CoreNode], None]) -> None:
    """Run it in a turn of the process, if it lives."""
    process.loop.io(lambda: call(_core_node(process.node)))
