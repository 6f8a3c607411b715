"""Three nodes in one process and in virtual time, whose work is counted: what an operation costs whatever the weather.

Rules: the same code as in a node, from the bytes that a broker sends to the bytes of the answer: listener, controller,
consensus, state, canonical lines. Ports are the simulator's, with fixed delays: sockets, the frames of the peer links,
disk, RocksDB and threads are not counted, nor is what the simulator itself does. What is counted: calls of Python
functions, calls of built-in functions, and *steps* (bytecodes); and, at the ports, what is asked of the kernel. They
are the same in every run of the same code.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO, TextIOWrapper
from itertools import count
from types import CodeType, FrameType
from typing import Any, TypeVar

import msgspec

from quorate.consensus.ports import NodeId
from quorate.consensus.storage_settings import EventLogSettings, JournalSettings
from quorate.controller import DialResult, RoleChange
from quorate.gateway.fresh import FreshReader
from quorate.gateway.remoting.server import Connection, RemotingServer
from quorate.gateway.remoting.service import RemotingService
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.metadata.policy import PolicySettings
from quorate.node.compose import CoreSettings
from quorate.node.logs import CommandLogWriter
from quorate.node.settings import LogSection
from quorate.wire.remoting import FrameSplitter, Response, decode_response, encode_request
from tests.sim.cluster import Cluster, Host, Ports, Process
from tests.sim.disk import Slowness
from tests.sim.network import End, Fabric, SimNetwork
from tests.sim.nodes import CoreNode, Limits
from tests.sim.world import Event, Loop, World

T = TypeVar("T")

SEED = 1
TURN_S = 20e-6
"""From what wakes a loop to its turn."""
WIRE_S = 50e-6
"""From a client to a node, or back."""
DISK_S = 200e-6
"""Of a job."""
PATIENCE_S = 60.0
"""Virtual: what a cluster, or an answer, may take."""
RATES = (1.0, 1.0031, 0.9973)
"""Of the nodes' clocks: apart enough that a tick of one and a message of another meet as often as by chance."""
CLIENTS = 64
AT_ONCE = 256
"""Sets founded together."""


class Counts(msgspec.Struct):
    """What was counted."""

    python: float = 0
    """Calls of Python functions. Comprehensions do not count: they are calls in some versions and not in others."""
    builtin: float = 0
    """Calls of built-in functions and methods."""
    steps: float = 0
    """Bytecodes executed."""
    turns: float = 0
    """Of the loop: the kernel is asked once in each what is ready."""
    ready: float = 0
    """What was: bytes of a client, a frame of a peer, a disk job that ended."""
    sends: float = 0
    """To a client, or to a peer: what goes to one of them in a turn leaves at once."""
    disk: float = 0
    """Writes and syncs of the journal, writes of the store."""
    timers: float = 0
    """Armed."""

    def plus(self, other: "Counts", times: float = 1) -> "Counts":
        """Both together."""
        return Counts(*(a + b * times for a, b in zip(values(self), values(other), strict=True)))

    def over(self, number: float) -> "Counts":
        """For each of so many."""
        return Counts(*(value / number for value in values(self)))


def values(counts: Counts) -> tuple[float, ...]:
    """Calls, calls of built-ins, steps; and the rest in its order."""
    return msgspec.structs.astuple(counts)


NOT_CALLS = {"<listcomp>", "<setcomp>", "<dictcomp>"}
WATCH = str(__file__).rpartition("/bench/")[0]
"""What lies below is the simulator's, or this module's: not counted."""


class Meter:
    """Counts what runs in a turn of a node, while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.around: Callable[[str, Callable[[], None]], None] | None = None
        """What counts instead, if anything does (``tests.bench.counts``)."""
        self.of: dict[str, Counts] = {}
        """By name of each node that is counted."""
        self._kinds: dict[CodeType, int] = {}
        """0: not counted; 1: its steps are; 2: and so is the call."""

    def kernel(self, name: str, what: str) -> None:
        """A node asks something of the kernel, or hears from it."""
        if self.on and name in self.of:
            counts = self.of[name]
            setattr(counts, what, getattr(counts, what) + 1)

    def turn(self, name: str, work: Callable[[], None]) -> None:
        """Run a turn of a node."""
        self.kernel(name, "turns")
        if not self.on or name not in self.of:
            work()
            return
        if self.around is not None:
            self.around(name, work)
            return
        python = builtin = steps = 0
        kinds = self._kinds

        def step(_frame: FrameType, _event: str, _arg: object) -> Any:
            nonlocal steps
            steps += 1
            return step

        def entered(frame: FrameType, _event: str, _arg: object) -> Any:
            nonlocal python
            code = frame.f_code
            kind = kinds.get(code)
            if kind is None:
                kind = kinds[code] = _kind(code)
            if not kind:
                return None
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
            python += kind == 2
            return step

        def called(frame: FrameType, event: str, _arg: object) -> None:
            nonlocal builtin
            if event == "c_call" and kinds.get(frame.f_code):
                builtin += 1

        sys.settrace(entered)
        sys.setprofile(called)
        try:
            work()
        finally:
            sys.setprofile(None)
            sys.settrace(None)
            self.of[name] = self.of[name].plus(Counts(python, builtin, steps))


def _kind(code: CodeType) -> int:
    if code.co_filename.startswith(WATCH):
        return 0
    return 1 if code.co_name in NOT_CALLS else 2


class CountedLoop(Loop):
    """A loop whose turns come at a fixed pace and are counted; what asyncio calls ``time`` too."""

    meter: Meter

    def time(self) -> float:
        """The loop's clock is the meter's."""
        return self.monotonic()

    def io(self, callback: Callable[[], None]) -> None:
        """The kernel has something."""
        self.meter.kernel(self._name, "ready")
        super().io(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Event:
        """A timer."""
        self.meter.kernel(self._name, "timers")
        return super().call_later(delay_s, callback)

    def counting(self, what: str, call: Callable[..., T]) -> Callable[..., T]:
        """The same call, counted."""

        def counted(*given: Any) -> T:
            self.meter.kernel(self._name, what)
            return call(*given)

        return counted

    def _plan_turn(self) -> None:
        if not self._turn_due and (self._ready or self._ending):
            self._turn_due = True
            self._world.after(TURN_S, self._counted)

    def _counted(self) -> None:
        self.meter.turn(self._name, self._turn)


class Steady(Slowness):
    """A disk that always takes as long."""

    def job_s(self) -> float:
        """The same for every job."""
        return DISK_S


class Unwatched:
    """A ``cluster.Observer`` that looks at nothing."""

    def started(self, process: Process) -> None:
        """Nothing."""

    def turn(self, process: Process) -> None:
        """Nothing."""

    def leaving(self, process: Process, peer: NodeId, frame: bytes) -> None:
        """Nothing."""

    def heard(self, end: End) -> None:
        """Nothing."""

    def synced(self, host: Host) -> None:
        """Nothing."""

    def answering(self, process: Process, result: object) -> None:
        """Nothing."""

    def dying(self, process: Process) -> None:
        """Nothing."""

    def crashed(self, host: Host, *, journal_lost: bool) -> None:
        """Nothing."""


class Brokers:
    """All brokers acknowledge role changes; at the address of one that went, nobody listens."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def notify(self, address: str, change: RoleChange, done: Callable[[bool], None]) -> None:
        """Push a role change; ``done(True)`` when the broker acknowledged it."""
        self._loop.call_later(WIRE_S, lambda: done(True))

    def dial(self, address: str, done: Callable[[DialResult], None]) -> None:
        """Try to connect: ``refused`` proves that nobody listens there; ``unknown`` proves nothing. Only who went is
        dialled.
        """
        self._loop.call_later(WIRE_S, lambda: done("refused"))


class NoPast:
    """Nobody asks for it."""

    def at(self, offset: int, done: Callable[[Any], None], timeout_s: float | None = None) -> None:
        """The state of the first ``offset`` events, of which there must be so many."""
        raise NotImplementedError


class CountedNetwork(SimNetwork):
    """What goes to one peer in a turn is one send."""

    def __init__(self, fabric: Fabric, node: NodeId, loop: CountedLoop) -> None:
        super().__init__(fabric, node, loop.at_turns_end)
        self._loop = loop

    def _flush(self) -> None:
        for _ in {peer for peer, _ in self._waiting}:
            self._loop.meter.kernel(self._loop._name, "sends")
        super()._flush()


class Wire:
    """The transport of one connection: what is written goes to the client."""

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        self._hear = hear

    def get_extra_info(self, _name: str) -> object:
        """A peer on loopback."""
        return ("127.0.0.1", 1)

    def write(self, data: bytes) -> None:
        """The other side hears it at once."""
        self._hear(data)

    def is_closing(self) -> bool:
        """It never closes."""
        return False

    def set_write_buffer_limits(self, high: int) -> None:
        """Never full."""

    def pause_reading(self) -> None:
        """A closed loop sends no more than is taken."""

    def resume_reading(self) -> None:
        """Nothing was paused."""

    def close(self) -> None:
        """Nothing was done that a node would close it for."""
        raise AssertionError("a node closed the connection of a client that did nothing wrong")

    abort = close


class Served(CoreNode):
    """A node with its listener for brokers and its canonical lines, as ``quorate.node`` composes them, on production's
    limits. What is on disk is not read again meanwhile: a node does that once a day, on a thread of its own.
    """

    scrubs = False

    def __init__(self, ports: Ports) -> None:
        loop: Any = ports.loop
        limits = Limits(core=CoreSettings(), journal=JournalSettings(), log=EventLogSettings())
        sink = TextIOWrapper(BytesIO())
        command_log = CommandLogWriter(
            LogSection(format="json"), ports.node_id, loop.at_turns_end, loop.time_ms, stream=sink
        )
        network = CountedNetwork(ports.network._fabric, ports.node_id, loop)
        super().__init__(msgspec.structs.replace(ports, network=network), limits, Brokers(ports.loop), command_log)
        disk: Any = ports.disk
        store: Any = self.core.store
        disk.write, disk.sync = (loop.counting("disk", call) for call in (disk.write, disk.sync))
        store.write = loop.counting("disk", store.write)
        core, settings = self.core, RemotingSettings(connections_max=100_000)
        reader = FreshReader(
            core.controller,
            NoPast(),
            core.listeners,
            loop,
            timeout_s=settings.read_timeout_s,
            past_timeout_s=settings.read_timeout_s,
            waiting_max=settings.waiting_max,
        )
        policy = PolicySettings()
        service = RemotingService(
            core.controller,
            reader,
            settings,
            node_id=ports.node_id,
            group="bench",
            addresses={voter: f"n{voter}:1" for voter in ports.voters},
            now=loop.monotonic,
            facts={"enableElectUncleanMaster": str(policy.enable_elect_unclean_master).lower()},
            metrics=core.metrics,
        )
        self.loop = ports.loop
        self.server = RemotingServer(
            service,
            settings,
            loop=loop,
            now=loop.monotonic,
            metrics=core.metrics,
            at_turns_end=loop.at_turns_end,
        )


class Client:
    """One connection of a broker to one node; one request at a time."""

    def __init__(self, world: World, node: Served) -> None:
        self._world, self._node = world, node
        self._splitter, self._opaque = FrameSplitter(), count(1)
        self._then: Callable[[Response], None]
        self._connection = Connection(node.server)
        loop: Any = node.loop
        wire: Any = Wire(loop.counting("sends", self._written))
        self._connection.connection_made(wire)

    def send(self, data: bytes) -> None:
        """Bytes, and no answer."""
        io = partial(self._node.loop.io, partial(self._connection.data_received, data))
        self._world.after(WIRE_S, io)

    def ask(self, code: int, then: Callable[[Response], None], body: bytes = b"", /, **fields: object) -> None:
        """A request, and what to do with its answer."""
        self._then = then
        self.send(encode_request(code, next(self._opaque), texts(fields), body=body, version=479))

    def hang_up(self) -> None:
        """The broker is gone."""
        self._node.loop.io(partial(self._connection.connection_lost, None))

    def _written(self, data: bytes) -> None:
        self._world.after(WIRE_S, partial(self._heard, data))

    def _heard(self, data: bytes) -> None:
        for frame in self._splitter.feed(data):
            self._then(decode_response(frame))


def texts(fields: dict[str, object]) -> dict[str, str]:
    """As a header has them."""
    return {name: str(value) for name, value in fields.items()}


class BrokerSet:
    """One set and the connection it asks on: founded step by step, then its sync state set changes again and again."""

    def __init__(self, name: str, client: Client, brokers: int) -> None:
        self.name, self.client, self.brokers = name, client, brokers
        self.master = self.master_epoch = self.epoch = 0
        self._wide = True

    def found(self, then: Callable[[], None], step: int = 0) -> None:
        """Take ids, register, elect a first master."""
        broker, more = step % self.brokers + 1, partial(self._founded, then, step)
        named = {"clusterName": "bench", "brokerName": self.name}
        if step < self.brokers:
            check = f"127.0.0.1:1;{broker}"
            self.client.ask(1013, more, **named, appliedBrokerId=broker, registerCheckCode=check)
        elif step < 2 * self.brokers:
            self.client.ask(1003, more, **named, brokerId=broker, brokerAddress="127.0.0.1:1", invokeTime=0)
        else:
            for one in range(1, self.brokers + 1):
                self.client.send(beat(self.name, one))
            self.client.ask(1002, more, **named, brokerId=1, designateElect="false", invokeTime=0)

    def _founded(self, then: Callable[[], None], step: int, answer: Response) -> None:
        assert answer.code == 0, answer
        if step < 2 * self.brokers:
            self.found(then, step + 1)
            return
        self.master, self.master_epoch = int(answer.fields["masterBrokerId"]), int(answer.fields["masterEpoch"])
        self.epoch = int(answer.fields["syncStateSetEpoch"])
        self._wide = False
        then()

    def alter(self, then: Callable[[], None]) -> None:
        """One commit: the sync state set grows or shrinks by one."""
        others = [broker for broker in range(1, self.brokers + 1) if broker != self.master]
        chosen = sorted([self.master, *(others if not self._wide else others[:-1])])
        body = msgspec.json.encode({"syncStateSet": chosen, "syncStateSetEpoch": self.epoch})
        fields = {"brokerName": self.name, "masterBrokerId": self.master, "masterEpoch": self.master_epoch}
        self.client.ask(1001, partial(self._altered, then), body, **fields, invokeTime=0)

    def _altered(self, then: Callable[[], None], answer: Response) -> None:
        assert answer.code == 0, answer
        self.epoch, self._wide = int(answer.fields["newSyncStateSetEpoch"]), not self._wide
        then()

    def read(self, then: Callable[[], None]) -> None:
        """Replica info: a linearizable read."""

        def seen(answer: Response) -> None:
            assert answer.code == 0, answer
            then()

        self.client.ask(1004, seen, brokerName=self.name)


def beat(name: str, broker: int, *, oneway: bool = True) -> bytes:
    """A heartbeat; brokers send them one-way."""
    fields: dict[str, object] = {
        "clusterName": "bench",
        "brokerName": name,
        "brokerId": broker,
        "brokerAddr": "127.0.0.1:1",
        "epoch": 0,
        "maxOffset": 1000,
        "confirmOffset": 1000,
        "heartbeatTimeoutMills": 60000,
        "electionPriority": 2147483647,
    }
    return encode_request(904, 0, texts(fields), oneway=oneway, version=479)


class Counted:
    """A cluster of three that leads, and the questions that can be put to it."""

    def __init__(self) -> None:
        self.world, self.meter = World(SEED), Meter()
        self.served: dict[NodeId, Served] = {}

        def build(ports: Ports) -> Served:
            node = self.served[ports.node_id] = Served(ports)
            return node

        self._loops = type("MeteredLoop", (CountedLoop,), {"meter": self.meter})
        self.cluster = Cluster(self.world, 3, build, Unwatched(), self._loops)
        self.cluster.fabric.weather.delay_max_s = 0.0
        self.cluster.fabric.tap = lambda _a, _b, _frame: None
        for host, rate in zip(self.cluster.hosts.values(), RATES, strict=True):
            host.slowness, host.rate = Steady(self.world.random), rate
            self.cluster.start(host.node_id)
        self.until(lambda: any(node.core.controller.is_leader for node in self.served.values()))
        self.run(2.0)
        self.leader = next(node for node in self.served.values() if node.core.controller.is_leader)
        self.follower = next(node for node in self.served.values() if node is not self.leader)

    def run(self, seconds: float) -> None:
        """Virtual ones."""
        self.world.run_until(self.world.now + seconds)

    def until(self, done: Callable[[], bool]) -> None:
        """Run until something is so."""
        end = self.world.now + PATIENCE_S
        while not done():
            assert self.world.now < end, "it did not happen within a minute"
            self.world.run_until(self.world.now + 100e-6)

    @contextmanager
    def metered(self) -> Iterator[dict[str, Counts]]:
        """What the leader and one of its followers spent meanwhile, once it is over."""
        found: dict[str, Counts] = {}
        spent = self.meter.of = {f"n{node.core.node_id}": Counts() for node in (self.leader, self.follower)}
        self.meter.on = True
        try:
            yield found
        finally:
            self.meter.on = False
        found |= zip(ROLES, spent.values(), strict=True)

    def until_equal(self) -> None:
        """Until the follower has applied what the leader has."""
        self.until(lambda: self.follower.offset == self.leader.offset)

    def client(self, node: Served | None = None) -> Client:
        """A connection; to the leader, if nothing else is said."""
        return Client(self.world, node or self.leader)

    def sets(self, names: list[str], brokers: int = 3) -> list[BrokerSet]:
        """Broker sets, founded, some at a time."""
        made: list[BrokerSet] = []
        for start in range(0, len(names), AT_ONCE):
            some = [BrokerSet(name, self.client(), brokers) for name in names[start : start + AT_ONCE]]
            ready: list[str] = []
            for one in some:
                one.found(partial(ready.append, one.name))
            self.until(lambda ready=ready, some=some: len(ready) == len(some))  # type: ignore[misc]
            made += some
        return made

    def loop(self, ask: "list[Ask]", times: int) -> None:
        """A closed loop: each asks again when it was answered, so many times."""
        left = [times] * len(ask)

        def go(who: int) -> None:
            if left[who]:
                left[who] -= 1
                ask[who](partial(answered, who))

        done: list[int] = []

        def answered(who: int) -> None:
            if left[who]:
                go(who)
            else:
                done.append(who)

        for who in range(len(ask)):
            go(who)
        self.until(lambda: len(done) == len(ask))


Ask = Callable[[Callable[[], None]], None]
"""Asks, and says when it was answered."""
ROLES = ("leader", "follower")
ALONE, AMONG, READS, BEATS = 30, 4, 200, 200
"""Of each kind, while it is counted; commits and reads with 64 clients: of each client."""
LOST, APART_S = 20, 0.137
"""Masters that go, one by one, in no step with any period of a node."""
REST_S = 5.0
"""What a node does at rest it does at least so often: what is compared with rest takes as long."""
Table = dict[str, Counts]


def operations(*, only_alone: bool = False) -> Table:
    """What one commit, read, heartbeat and second at rest cost the leader and a follower; or only a lone commit."""
    cluster, table = Counted(), Table()
    sets = cluster.sets([f"bench-{number}" for number in range(CLIENTS)])
    first, there = sets[0], BrokerSet("bench-0", cluster.client(cluster.follower), 3)
    rest = resting(cluster)

    def take(name: str, ask: list[Ask], times: int, roles: tuple[str, ...] = ROLES) -> None:
        spent = looped(cluster, ask, times, rest)
        table.update({f"{name}: {role}": spent[role] for role in roles})

    take("commit alone", [first.alter], ALONE)
    if only_alone:
        return table
    take(f"commit among {CLIENTS}", [one.alter for one in sets], AMONG)
    take("read alone", [first.read], READS)
    take(f"read among {CLIENTS}", [one.read for one in sets], AMONG)
    take("read alone, asked of a follower", [there.read], READS)
    table |= {f"a second at rest: {role}": rest[role].over(REST_S) for role in ROLES}
    together = b"".join([beat("bench-0", 1 + number % 3) for number in range(100)])
    for role, client in zip(ROLES, (first.client, there.client), strict=True):
        table[f"heartbeat alone: {role}"] = beaten(cluster, client, [beat("bench-0", 1)] * BEATS, rest, role)
        table[f"heartbeat among 100: {role}"] = beaten(cluster, client, [together] * 10, rest, role).over(100)
    return table


def looped(cluster: Counted, ask: list[Ask], times: int, rest: Table) -> Table:
    """What each of a closed loop costs, until the follower has applied the last too, beside what is spent at rest."""
    cluster.loop(ask, 5)
    cluster.until_equal()
    began = cluster.world.now
    with cluster.metered() as found:
        cluster.loop(ask, times)
        cluster.until_equal()
    share = (cluster.world.now - began) / REST_S
    return {role: spent.plus(rest[role], -share).over(times * len(ask)) for role, spent in found.items()}


def resting(cluster: Counted) -> Table:
    """A while in which nobody asks anything."""
    cluster.run(REST_S)
    with cluster.metered() as rest:
        cluster.run(REST_S)
    return rest


def beaten(cluster: Counted, client: Client, pieces: list[bytes], rest: Table, role: str) -> Counts:
    """What each piece costs who hears it, when they come at an even pace, beside what it spends at rest."""
    seconds = 0.1
    with cluster.metered() as found:
        for number, piece in enumerate(pieces):
            cluster.world.after(number * seconds / len(pieces), partial(client.send, piece))
        cluster.run(seconds)
    return found[role].plus(rest[role], -seconds / REST_S).over(len(pieces))


def grown(sets: int) -> Table:
    """What they cost with so many sets of two, each broker with a connection of its own to every node."""
    cluster, table = Counted(), Table()
    made = cluster.sets([f"bench-{number}" for number in range(sets)], brokers=2)
    brokers = [(one.name, broker) for one in made for broker in (1, 2)]
    lines = {who: [cluster.client(node) for node in cluster.served.values()] for who in brokers}
    for number, (who, clients) in enumerate(lines.items()):  # The order of nodes is no broker's secret.
        for client in clients:
            cluster.world.after(number * 0.9 / len(lines), partial(client.send, beat(*who)))
    cluster.run(1.0)
    rest = resting(cluster)
    table[f"{sets} sets, a second at rest: leader"] = rest["leader"].over(REST_S)
    at = list(cluster.served.values()).index(cluster.leader)
    some = brokers[:: max(len(brokers) // BEATS, 1)][:BEATS]
    with cluster.metered() as found:
        for number, who in enumerate(some):
            cluster.world.after(number * 0.1 / len(some), partial(lines[who][at].send, beat(*who)))
        cluster.run(0.1)
    table[f"{sets} sets, heartbeat: leader"] = found["leader"].plus(rest["leader"], -0.1 / REST_S).over(len(some))
    spent = looped(cluster, [made[0].alter], ALONE, rest)
    table |= {f"{sets} sets, commit alone: {role}": spent[role] for role in ROLES}
    lost = made[-LOST:]
    cluster.loop([one.alter for one in lost], 1)
    cluster.run(1.0)
    with cluster.metered() as found:
        for number, one in enumerate(lost):
            for client in lines[one.name, one.master]:
                cluster.world.after(number * APART_S, client.hang_up)
        cluster.run(REST_S)
    known = cluster.leader.core.machine.state.broker_sets
    for one in lost:
        now = known[one.name].master
        assert now not in (None, one.master), f"{one.name} has no new master: {now}"
    for role in ROLES:
        table[f"{sets} sets, election: {role}"] = found[role].plus(rest[role], -1).over(len(lost))
    return table
