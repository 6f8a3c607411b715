"""A controller on a bench: real state machine and store, virtual time, and an engine that does what a test says."""

from collections.abc import Callable
from typing import Any

from quorate.consensus.ports import MAX_ENTRY_BYTES, Index, LeaderCause, NodeId, Term
from quorate.consensus.storage.event_log import EventLog
from quorate.controller import (
    Caller,
    CommandLine,
    Controller,
    ControllerPorts,
    ControllerSettings,
    DialResult,
    Flights,
    KeyHistory,
    Listeners,
    ReplicatedState,
    RoleChange,
    SettingsAgreement,
)
from quorate.errors import UsageError
from quorate.events import NodeAddresses, Voter
from quorate.metadata.commands import AlterSyncStateSet, ApplyBrokerId, CreateCluster, ElectMaster, RegisterBroker
from quorate.metadata.limits import GROUP_EXPIRY_S, UNSAID, own_limits
from quorate.metadata.policy import PolicySettings
from quorate.metadata.requests import RequestSettings
from quorate.metrics import Metrics
from tests.sim.world import Loop, World
from tests.stand_ins import Heartbeat, InlineWorker, MemoryStore

ADDRESSES = NodeAddresses(rpc="127.0.0.1:1", raft="127.0.0.1:2", kafka="127.0.0.1:3", http="127.0.0.1:4")
FOUNDING = CreateCluster(cluster_id="bench", voters=(Voter(id=1, dir_uuid="u", addresses=ADDRESSES),), feature_level=1)
CALLER = Caller("tester", "127.0.0.1:9")


class ScriptedEngine:
    """A RaftEngine whose commits, confirmations and leadership happen when the test says so."""

    def __init__(self, machine: ReplicatedState) -> None:
        self.node_id = NodeId(1)
        self.voters = (NodeId(1), NodeId(2), NodeId(3))
        self.machine = machine
        self.term = Term(0)
        self.leader_id: NodeId | None = None
        self.leading = False
        self.log: list[tuple[Term, bytes]] = []
        self.committed = 0
        self.reads: list[Callable[[Index | None], None]] = []
        self.stepped_down: list[str] = []
        self.election_timeout_s = 0.25
        self.entry_bytes_max = MAX_ENTRY_BYTES
        self.founders: dict[NodeId, str] = {}
        self.waits_for = ""
        self.caught_up = True
        self.followers_that_lost = 0
        self.alarms: tuple[str, ...] = ()

    @property
    def is_leader(self) -> bool:
        return self.leading

    def decidable_term(self) -> Term:
        return self.term if self.leading else Term(0)

    def propose(self, entry: bytes, term: Term) -> Index | None:
        if not self.leading or term != self.term:
            return None
        if len(entry) > self.entry_bytes_max:
            raise UsageError("too long")
        self.log.append((term, entry))
        return Index(len(self.log))

    def read_index(self, done: Callable[[Index | None], None]) -> None:
        self.reads.append(done)

    def read_barrier(self, done: Callable[[Index | None], None]) -> None:
        self.reads.append(done)

    def step_down(self, reason: str) -> None:
        self.stepped_down.append(reason)
        self.lose()

    def lead(self, term: int, cause: LeaderCause | None = None) -> None:
        """Become leader; the term's no-op is applied."""
        self.term, self.leading, self.leader_id = Term(term), True, NodeId(1)
        self.log.append((self.term, b""))
        self.commit()
        self.machine.leadership(self.term, cause or LeaderCause("first start"))

    def lose(self, leader: int | None = None) -> None:
        self.leading = False
        self.leader_id = None if leader is None else NodeId(leader)
        self.confirm(ok=False)
        self.machine.leadership(self.term, None)

    def commit(self, upto: int | None = None) -> None:
        """Apply up to ``upto`` (default: everything) as one slice."""
        last = len(self.log) if upto is None else upto
        while self.committed < last:
            self.committed += 1
            term, entry = self.log[self.committed - 1]
            self.machine.apply(Index(self.committed), term, entry)
        self.machine.applied()

    def confirm(self, *, ok: bool = True) -> None:
        """Answer the waiting read-index requests."""
        reads, self.reads = self.reads, []
        for done in reads:
            done(Index(self.committed) if ok else None)


class Wire:
    """PeerLink: keeps what was sent; ``up`` says whether there is a connection."""

    def __init__(self) -> None:
        self.up = True
        self.sent: list[tuple[int, bytes]] = []

    def send(self, peer: int, kind: int, payload: bytes) -> bool:
        if self.up:
            self.sent.append((peer, payload))
        return self.up


class Brokers:
    """BrokerLink: answers as the test says."""

    def __init__(self) -> None:
        self.dial_result: DialResult = "unknown"
        self.dials: list[str] = []
        self.notified: list[tuple[str, RoleChange, Callable[[bool], None]]] = []
        self.acknowledge: bool | None = None

    def dial(self, address: str, done: Callable[[DialResult], None]) -> None:
        self.dials.append(address)
        done(self.dial_result)

    def notify(self, address: str, change: RoleChange, done: Callable[[bool], None]) -> None:
        self.notified.append((address, change, done))
        if self.acknowledge is not None:
            done(self.acknowledge)


class Line:
    """A broker's connection."""

    def __init__(self, address: str = "127.0.0.1:50000") -> None:
        self.address = address
        self.last: object | None = None


class Bench:
    """One controller and its scripted world."""

    def __init__(
        self,
        *,
        settings: ControllerSettings | None = None,
        node_id: int = 1,
        later_ms: int = 0,
        requests: RequestSettings | None = None,
        group_expiry_s: float = UNSAID[GROUP_EXPIRY_S],
    ) -> None:
        self.world = World(1)
        self.loop = Loop(self.world, "bench", lambda: None, later_ms)
        self.store, self.reader = MemoryStore(), InlineWorker()
        self.metrics = Metrics()
        self.settings = settings or ControllerSettings()
        requests, self.flights, self.listeners = requests or RequestSettings(), Flights(), Listeners()
        self.machine = ReplicatedState(
            self.store,
            EventLog(self.store, reader=self.reader),
            self.metrics,
            requests,
            speculation=self.flights,
            listener=self.listeners,
            key_history=KeyHistory(self.settings.key_history_max, self.settings.key_history_bytes_max),
        )
        self.engine = ScriptedEngine(self.machine)
        self.wire = Wire()
        self.brokers = Brokers()
        self.lines: list[CommandLine] = []
        self.controller = Controller(
            node_id,
            ControllerPorts(
                engine=self.engine,  # type: ignore[arg-type]
                machine=self.machine,
                flights=self.flights,
                listeners=self.listeners,
                scheduler=self.loop,
                peers=self.wire,
                metrics=self.metrics,
                command_log=self.lines.append,
            ),
            self.settings,
            PolicySettings(),
            FOUNDING,
        )
        self.agreement = SettingsAgreement(
            self.controller,
            own_limits(requests, self.settings.group_rows_max, group_expiry_s, unclean_segment_leaders=False),
        )
        self.listeners.add(self.agreement)
        self.controller.start()

    def open(self, term: int = 1) -> None:
        """Lead, and open the term."""
        self.engine.lead(term)
        self.engine.commit()  # ClusterCreated, the first time
        self.engine.commit()  # ControllerLeaderElected

    def submit(self, command: Any, **how: Any) -> list[Any]:
        """Submit; the list gets the outcome."""
        outcomes: list[Any] = []
        self.controller.submit(command, CALLER, outcomes.append, **how)
        return outcomes

    def done(self, command: Any) -> Any:
        """Submit, commit, confirm; the outcome."""
        outcomes = self.submit(command)
        self.engine.commit()
        self.engine.confirm()
        assert len(outcomes) == 1
        return outcomes[0]

    def after(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.world.run_until(self.world.now + seconds)

    def settle(self, rounds: int = 6) -> None:
        """Let a few turns pass, committing and confirming what comes up."""
        for _ in range(rounds):
            self.after(0.01)
            self.engine.commit()
            self.engine.confirm()

    def beat(
        self, line: Line, broker_id: int, *, name: str = "a", max_offset: int = 0, timeout_ms: int = 10_000
    ) -> None:
        """A heartbeat."""
        self.controller.heartbeat(
            Heartbeat("c", name, broker_id, f"127.0.0.1:{30000 + broker_id}", 0, max_offset, 0, timeout_ms), line
        )

    def in_sync(self, *members: int, name: str = "a") -> None:
        """The master reports who is in sync."""
        found = self.machine.state.broker_sets[name]
        assert found.master is not None
        self.done(
            AlterSyncStateSet(
                broker_set=name,
                master=found.master,
                master_epoch=found.master_epoch,
                sync_state_set=members,
                sync_state_set_epoch=found.sync_state_set_epoch,
            )
        )

    def broker_set(self, lines: list[Line], *, name: str = "a") -> None:
        """A set with one broker per line, all alive, broker 1 master."""
        for broker_id, line in enumerate(lines, start=1):
            address = f"127.0.0.1:{30000 + broker_id}"
            self.done(
                ApplyBrokerId(cluster="c", broker_set=name, broker_id=broker_id, register_check_code=f"{address};1")
            )
            self.done(RegisterBroker(cluster="c", broker_set=name, broker_id=broker_id, address=address))
            self.beat(line, broker_id, name=name)
        self.done(ElectMaster(cluster="c", broker_set=name, broker_id=1))
