"""Simulated brokers: they boot, register, ask for a master, replicate, report, die and come back, as stock ones do.

Rules: the order of requests is the stock broker's (``ReplicasManager``: 1012, 1013, 1003, 904, 1002, then 1004 every
few moments; the master alters its sync state set as replicas come and go). Heartbeats go to every controller. Each
master keeps a data log whose acknowledged end is known to all in its sync state set: whoever is elected must have it.

Theory: that last rule is the whole point of the controller: a message acknowledged by every replica in the sync state
set must survive any election. A replica applies what the master sends it after a moment; the master acknowledges an
offset when all replicas of the set *it believes committed* have it.
"""

from collections.abc import Callable

from quorate.consensus.ports import NodeId
from quorate.controller import DialResult, Heartbeat, RoleChange
from quorate.metadata.commands import AlterSyncStateSet, ApplyBrokerId, Command, ElectMaster, RegisterBroker
from quorate.metadata.state import BrokerSet

from tests.sim.clients import Answer, Done, Nothing, Result, Unknown
from tests.sim.cluster import Cluster, Process
from tests.sim.nodes import CoreNode
from tests.sim.world import ViolationError

PERIOD_S = 0.12


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
        self.fleet = fleet
        self.broker_set = broker_set
        self.number = number
        self.address = f"10.0.0.{number}:{broker_set}"
        self.alive = False
        self.life = 0
        self.broker_id = 0
        self.check_code = f"{self.address};{number}"
        self.registered = False
        self.epoch = 0
        self.master: int | None = None
        self.sync_state_set: tuple[int, ...] = ()
        self.sync_state_set_epoch = 0
        self.offset = 0
        self._connections: dict[NodeId, Connection] = {}
        self._altering = False

    def boot(self) -> None:
        """A process starts."""
        if not self.alive:
            self.alive = True
            self.life += 1
            self.registered = False
            self.master, self.epoch = None, 0
            self._altering = False
            self._beat(self.life)
            self._step(self.life)

    def die(self) -> None:
        """It stops; its connections close, which each controller hears unless it is dead itself."""
        self.alive = False
        for connection in self._connections.values():
            process = connection.process
            if process.alive:
                process.loop.io(lambda p=process, c=connection: _core(p).controller.channel_closed(c))  # type: ignore[misc]
        self._connections.clear()

    # Heartbeats (904), to everybody.

    def _beat(self, life: int) -> None:
        if not self.alive or life != self.life:
            return
        if self.broker_id:
            for process in self.fleet.cluster.processes():
                self._beat_to(process)
        self.fleet.cluster.world.after(PERIOD_S, lambda: self._beat(life))

    def _beat_to(self, process: Process) -> None:
        connection = self._connections.get(process.node_id)
        if connection is None or connection.process is not process:
            connection = self._connections[process.node_id] = Connection(self.address, process)
        beat = Heartbeat(
            self.fleet.cluster_name,
            self.broker_set,
            self.broker_id,
            self.address,
            epoch=self.epoch,
            max_offset=self.offset,
            confirm_offset=self.offset,
            timeout_ms=800,
        )
        process.loop.io(lambda: _core(process).controller.heartbeat(beat, connection))

    # One step of the boot order, or of steady life.

    def _step(self, life: int) -> None:
        if not self.alive or life != self.life:
            return
        self.fleet.cluster.world.after(PERIOD_S * (0.5 + self.fleet.random.random()), lambda: self._step(life))
        known = self.fleet.known(self.broker_set)
        if not self.broker_id:
            next_id = 1 if known is None else known.next_broker_id
            self._send(self._apply(next_id), lambda result, wanted=next_id: self._granted(wanted, result))  # type: ignore[misc]
        elif not self.registered:
            self._send(self._register(), self._registered)
        elif known is None or known.master is None:
            self._send(self._elect())
        else:
            self.believe(known.master, known.master_epoch, known.sync_state_set, known.sync_state_set_epoch)
            if self.master == self.broker_id:
                self._lead()

    def _send(self, command: Command, hear: Callable[[Result], None] = lambda _result: None) -> None:
        life = self.life

        def heard(result: Result) -> None:
            if self.alive and life == self.life:
                hear(result)

        self.fleet.send(command, heard)

    def _apply(self, broker_id: int) -> Command:
        name = self.fleet.cluster_name
        return ApplyBrokerId(
            cluster=name, broker_set=self.broker_set, broker_id=broker_id, register_check_code=self.check_code
        )

    def _granted(self, broker_id: int, result: Result) -> None:
        if isinstance(result, Done) and not self.broker_id:
            self.broker_id = broker_id

    def _register(self) -> Command:
        name = self.fleet.cluster_name
        return RegisterBroker(cluster=name, broker_set=self.broker_set, broker_id=self.broker_id, address=self.address)

    def _registered(self, result: Result) -> None:
        self.registered = self.registered or isinstance(result, Done)

    def _elect(self) -> Command:
        return ElectMaster(broker_set=self.broker_set, cluster=self.fleet.cluster_name, broker_id=self.broker_id)

    # Roles.

    def believe(self, master: int, epoch: int, in_sync: tuple[int, ...], in_sync_epoch: int) -> None:
        """Heard of an election or of a new sync state set; older news is ignored (a stock broker's rule)."""
        if epoch > self.epoch:
            self.epoch, self.master = epoch, master
            self.sync_state_set, self.sync_state_set_epoch = in_sync, in_sync_epoch
            self._altering = False
        elif epoch == self.epoch and in_sync_epoch > self.sync_state_set_epoch:
            self.sync_state_set, self.sync_state_set_epoch = in_sync, in_sync_epoch

    def _lead(self) -> None:
        """Take messages, replicate, acknowledge, and keep the sync state set true."""
        followers = [b for b in self.fleet.sets[self.broker_set] if b.alive and b.master == self.broker_id and b is not self]
        followers = [b for b in followers if b.epoch == self.epoch]
        if not self._altering:
            self._take_messages(followers)
        wanted = tuple(sorted({self.broker_id, *(b.broker_id for b in followers)}))
        if wanted != self.sync_state_set and not self._altering:
            self._alter(wanted, followers)

    def _take_messages(self, followers: list["Broker"]) -> None:
        reached = {self.broker_id} | {b.broker_id for b in followers}
        self.offset += self.fleet.random.randrange(3)
        for follower in followers:
            follower.offset = self.offset
        if reached >= set(self.sync_state_set):
            self.fleet.acknowledge(self)

    def _alter(self, wanted: tuple[int, ...], followers: list["Broker"]) -> None:
        """Nothing is acknowledged while the answer is open: the larger set may or may not be committed."""
        self._altering = True
        command = AlterSyncStateSet(
            broker_set=self.broker_set,
            master=self.broker_id,
            master_epoch=self.epoch,
            sync_state_set=wanted,
            sync_state_set_epoch=self.sync_state_set_epoch,
        )
        self._send(command, lambda result: self._altered(wanted, result))

    def _altered(self, wanted: tuple[int, ...], result: Result) -> None:
        match result:
            case Done():
                self.sync_state_set, self.sync_state_set_epoch = wanted, self.sync_state_set_epoch + 1
                self._altering = False
            case Nothing():
                self._altering = False
            case Unknown():
                pass


def _core(process: Process) -> "Core":
    node = process.node
    assert isinstance(node, CoreNode)
    return node.core
