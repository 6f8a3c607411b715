"""One seed: a cluster, its clients and its misfortunes; then peace, and the question whether all is well.

Rules: everything follows from the seed. A run ends in a ``Report`` or in a ``ViolationError``; whatever else is raised
by the code under test is a violation too.

Theory: three phases. While the faults last, only safety is asked for. Then a majority is mended and the rest stays
dead, cut off, deaf, mute or asleep (TigerBeetle's VOPR: a *core*): within a bounded virtual time every client must be
answered again. Then all faults end, and within the same time every node must be up and all must be equal.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from quorate.consensus.ports import NodeId
from quorate.consensus.settings import EngineSettings
from quorate.events import Event, MasterElected
from quorate.history.checkpoints import Checkpoints
from quorate.metadata.balance_settings import BalanceSettings
from quorate.model.evolve import evolve
from quorate.model.rows import rows
from quorate.model.state import EMPTY, State
from quorate.wire.avro import decode_events
from tests.sim.brokers import Fleet, FleetLink
from tests.sim.clients import PATIENCES_S, Client, Habits, History
from tests.sim.cluster import Cluster, Node, Ports
from tests.sim.consumers import Circle
from tests.sim.disk_image import DiskImageReader
from tests.sim.faults import Climate, Nemesis
from tests.sim.holders import Holders
from tests.sim.invariants import FOUNDED_ONCE, HELD_BACK, Invariants
from tests.sim.levels import Builds, in_this_seed
from tests.sim.levels_seen import LevelsSeen
from tests.sim.members import Members
from tests.sim.mqtt import Brokers
from tests.sim.nodes import FEW_IN_FLIGHT, IN_PRODUCTION, CoreNode, Limits, own, unhurried
from tests.sim.passengers import Mirrors, Projection
from tests.sim.replay import Retold
from tests.sim.room import LITTLE, PERIOD_S, PLENTY
from tests.sim.stores import Stores
from tests.sim.watches import Watches
from tests.sim.world import START_S, ViolationError, World

PROGRESS = "progress after the faults"
STAYS = "a leader that a majority hears stays"
CHECKPOINTS = "a checkpoint is the fold of the events before it"
ALL_MENDED = 0.2
"""Share of seeds in which no core lives alone first."""
OWN_SETTINGS = 0.3
"""Share of seeds in which each start of a node has settings of its own."""
MIXED_BUILDS = 0.25
"""Share of seeds with nodes of two builds."""
PASSENGERS = 0.35
"""Share of seeds with a mirror; and with a projection."""
LONG_EVERY, LONG = 25, 4
"""Now and then the faults last that much longer."""
ALL_LOST, LOST_S = 0.25, 3.0
"""Share of seeds at whose very end a majority of directories is lost; and how long it is watched then."""
LOW_DISK = 0.15
"""Share of seeds that live with a low disk before the end."""
STORES_EVERY = 3
BALANCE = BalanceSettings(period_s=0.4, rest_s=0.4, moves_max=2)
"""In seeds with stores: masters and leaders of segments are evened out, in small steps."""
"""One seed of so many has members of the journal."""
FAULTS_S = 5.0
PEACE_S = 8.0
SLOW = 10
"""Times as long for what a slow disk reads batch by batch: snapshots of a thousand of them."""
STEP_S = 0.1


class Plan(msgspec.Struct, frozen=True):
    """What to run. ``size`` 0: the seed chooses 1, 3 or 5 nodes. ``faults_s``: virtual seconds of faults."""

    seed: int
    size: int = 0
    faults_s: float = FAULTS_S
    clients: int = 5
    broker_sets: int = 2


class Report(msgspec.Struct, frozen=True):
    """What a run saw. ``trace`` is equal on every run of the plan."""

    seed: int
    size: int
    trace: int
    events: int
    virtual_s: float
    counts: dict[str, int]
    met: dict[tuple[str, str], int]
    """(fault, request) → how often they met (``coverage``)."""


class Simulation:
    """Builds it all from the plan; ``run`` once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan.seed)
        random = self.world.random
        size = plan.size or random.choices((1, 3, 5), (1, 6, 3))[0]
        self.limits = Limits.draw(random)
        if plan.clients and random.random() < IN_PRODUCTION:
            self.limits = unhurried(self.limits)
        stored = bool(plan.clients) and plan.seed % STORES_EVERY == 0
        if stored:
            core = msgspec.structs.replace(self.limits.core, balance=BALANCE)
            self.limits = msgspec.structs.replace(self.limits, core=core)
        self.own_settings = random.random() < OWN_SETTINGS
        mixed = bool(plan.clients) and size > 1 and random.random() < MIXED_BUILDS
        self.invariants = Invariants(DiskImageReader(), LevelsSeen(mixed=mixed))
        self.cluster = Cluster(self.world, size, self._build, self.invariants)
        self.invariants.cluster = self.cluster
        self.builds = Builds(self.cluster, mixed=mixed)
        self.history = History()
        self.history.on_denied = self.invariants.deny
        climate = Climate.draw(random, size)
        self.nemesis = Nemesis(self.cluster, climate)
        self.invariants.on_moment = self.nemesis.moment
        self.fleet = Fleet(self.cluster, self.history, sets=plan.broker_sets, size=3)
        holds = "skew" not in climate.weights and "jump" not in climate.weights
        members = random.choice((0, 1, 2, 2)) if plan.clients else 0
        self.circle = Circle(self.cluster, self.invariants, groups=1, members=members, clocks_hold=holds)
        self.mirrors = Mirrors(self.cluster) if plan.clients and random.random() < PASSENGERS else None
        self.projection = Projection(self.cluster) if plan.clients and random.random() < PASSENGERS else None
        roomy = self.limits.core.controller.in_flight_max > FEW_IN_FLIGHT and not self.own_settings
        self.holders = Holders(self.cluster, random.choice((0, 1, 3)) if plan.clients else 0, in_time=roomy)
        self.members = Members(self.cluster, plan.seed if plan.clients else 0)
        self.stores = Stores(self.cluster, plan.seed, 4 if stored else 0)
        self.mqtt = Brokers(self.cluster, plan.seed if plan.clients else 0, lambda: self.invariants.log_ms)
        self.watches = Watches(self.cluster, plan.seed if plan.clients else 0)
        self.invariants.on_event = self._committed
        self.invariants.on_entry = self.watches.committed
        self.clients = [self._client(number) for number in range(plan.clients)]

    def _build(self, ports: Ports) -> CoreNode:
        limits = own(self.limits, self.world.random) if self.own_settings else self.limits
        link = FleetLink(self.fleet, ports.loop)
        return CoreNode(ports, limits, link, knows=self.builds.of(ports.node_id))

    def _committed(self, event: Event) -> None:
        if isinstance(event, MasterElected):
            self.fleet.elected(event)
        self.holders.committed(event)
        self.members.committed(event)
        self.stores.committed(event)
        self.mqtt.committed(event)

    def _client(self, number: int) -> Client:
        random = self.world.random
        habits = Habits(
            think_s=random.choice((0.002, 0.01, 0.05)),
            patience_s=random.choice(PATIENCES_S),
            reads=random.choice((0.0, 0.4, 0.9)),
            loyal=random.choice((0.0, 0.8, 0.95)),
            lies=random.choice((0.0, 0.0, 0.0, 0.1, 0.5)),
        )
        retries = random.random() < 0.5
        return Client(
            self.world, f"c{number}", self.cluster.voters, self.cluster.ask, self.history, habits, retries=retries
        )

    def run(self) -> Report:
        """Both phases and the last questions. Raises ViolationError."""
        in_this_seed(mixed=self.builds.mixed)
        try:
            return self._run()
        finally:
            in_this_seed(mixed=False)

    def _run(self) -> Report:
        for node in self.cluster.voters:
            self.world.after(self.world.random.random() * 0.02, self._starter(node))
        for client in self.clients:
            client.start()
        self.fleet.start()
        self.circle.start()
        self.holders.start()
        self.members.start()
        self.stores.start()
        self.mqtt.start()
        self.watches.start()
        self.builds.start(self.plan.faults_s)
        for passenger in (self.mirrors, self.projection):
            if passenger is not None:
                passenger.start()
        self.nemesis.start()
        self.cluster.cuts_starts = True
        self.world.run_until(START_S + self.plan.faults_s * (LONG if self.plan.seed % LONG_EVERY == 0 else 1))
        rest = self._rest()
        self.nemesis.stop(but=rest)
        self.cluster.cuts_starts = False
        self.fleet.stop()
        for client in self.clients:
            client.wait_longer()
        if rest:
            answered, kept = [client.answered for client in self.clients], self.circle.commits
            self._wait("with a core alone, a client gets no answer", lambda: self._all_answered(answered))
            self._wait("with a core alone, no position is kept", lambda: self._any_kept(kept))
            self.cluster.counts["lives of a core alone"] += 1
            self.nemesis.relent(rest)
        answered, kept = [client.answered for client in self.clients], self.circle.commits
        self._wait("a client gets no answer", lambda: self._all_answered(answered))
        self._wait("no position is kept", lambda: self._any_kept(kept))
        self._wait("a level that all know is not raised", lambda: self.builds.settled)
        self.builds.stop()
        if self.clients and self.world.random.random() < LOW_DISK:
            self._live_with_a_low_disk()
        self.holders.stop()
        self.members.stop()
        self.stores.stop()
        self._wait("a deletion does not end, or a segment that could be led is not", lambda: self.stores.settled)
        self.mqtt.stop()
        self.watches.stop()
        self._wait("a lease whose holder is silent does not end", lambda: self.holders.settled)
        self._wait("a member that is silent is not fenced", lambda: self.members.settled)
        self._wait("a session whose member is lost does not end", lambda: self.mqtt.settled)
        for client in self.clients:
            client.stop()
        hosts = self.cluster.hosts.values()
        self._wait("what is rotten in a store is not found", lambda: not any(h.store.hurt for h in hosts))
        self._wait("what is rotten in a journal is not found", lambda: not any(h.disk.rotten for h in hosts))
        self._wait("the nodes do not become equal", self._equal, lambda: self.cluster.counts["snapshot chunks"])
        self._wait("a watch is not told everything", lambda: self.watches.settled)
        self._break_links()
        self._set_down()
        self.invariants.check_kept(self.history.acknowledged)
        self.history.check_registers()
        self._check_checkpoints([process.node for process in self.cluster.processes()])
        if len(self.cluster.voters) > 1 and self.world.random.random() < ALL_LOST and not self._carries_passengers:
            self._lose_majority()
        return self._report()

    def _live_with_a_low_disk(self) -> None:
        """One disk has too little: what grows is refused, with an alarm that names it; who led is followed by another,
        a master too; and with room again what grows is taken.
        """
        cluster, random, seen = self.cluster, self.world.random, self.invariants
        everybody = len(cluster.voters)
        # One that is still without the log could not help to elect a leader: it does not know yet whether it may vote.
        self._wait(
            "not everybody votes",
            lambda: everybody == sum(one.node.engine.voting and one.node.offset > 0 for one in cluster.processes()),
            lambda: cluster.counts["snapshot chunks"],
        )
        low, refused = random.choice(cluster.voters), cluster.counts["growth refused"]
        cluster.set_free((low,), LITTLE)
        self._wait("growth is not refused", lambda: cluster.counts["growth refused"] > refused)
        self.world.run_until(self.world.now + 3 * PERIOD_S)
        (leader, *_), grown = cluster.leaders(), seen.grown
        if not any(f"the disk of node {low} has" in alarm for alarm in leader.node.alarms):
            raise ViolationError(HELD_BACK, f"n{leader.node_id} does not say that the disk of n{low} is low")
        leads, down = leader.node.engine.term, [leader.node_id] if leader.node_id != low else []
        for node in down:  # Who comes back has not heard yet.
            cluster.hosts[node].kept_down = True
            cluster.crash(node, "kill", 0.0)
        if not down and len(cluster.voters) > 1:
            leader.loop.io(lambda: leader.node.engine.step_down("a disk is low"))
        # A follower that needs a snapshot may be needed to commit.
        self._wait(
            "nobody decides while a disk is low",
            lambda: everybody == 1 or any(one.node.engine.decidable_term() > leads for one in cluster.leaders()),
            lambda: cluster.counts["snapshot chunks"],
        )
        followed = self.fleet.bereave()
        self._wait("no master is elected while a disk is low", followed)
        if seen.grown > grown:
            raise ViolationError(HELD_BACK, f"{seen.grown - grown} events, and the disk of n{low} is low")
        cluster.counts["lives with a low disk"] += 1
        cluster.set_free(cluster.voters, PLENTY)
        self.nemesis.relent(down)
        self._wait("nothing grows, though there is room", lambda: seen.grown > grown)

    @property
    def _carries_passengers(self) -> bool:
        return self.mirrors is not None or self.projection is not None

    def _lose_majority(self) -> None:
        """Most directories are gone for good: nothing is founded, each that lost its own says what it waits for, and
        who still holds the log keeps it.
        """
        cluster, random = self.cluster, self.world.random
        nodes = list(cluster.voters)
        random.shuffle(nodes)
        lost, left = nodes[: cluster.quorum], nodes[cluster.quorum :]
        committed = self.invariants.last_committed
        had = {node: found.last_index for node, found in self.invariants.durable.items()}
        held = [had[node] for node in lost if node in had]
        for node in lost:
            self.nemesis.directories.wipe(node, random.random() * 0.5)
        for node in left if random.random() < 0.5 else ():
            cluster.crash(node, "power", 0.5 + random.random() * 2.0)
        self.world.run_until(self.world.now + LOST_S)
        cluster.counts["majorities lost"] += 1
        for process in cluster.processes():
            found, gone = process.node, process.node_id in lost
            kept = found.offset == 0 if gone else found.journal.last_index >= had[process.node_id]
            if not kept or found.engine.decidable_term():
                raise ViolationError(FOUNDED_ONCE, f"without the founders: {self._picture()}")
            if gone and not found.waits_for:
                raise ViolationError(FOUNDED_ONCE, f"n{process.node_id} does not say what it waits for")
        # What one of them had on disk, and acknowledged, may be committed by who is left. Nothing else.
        known = max([committed, *held])
        if len(cluster.processes()) < len(nodes) or self.invariants.last_committed > known:
            raise ViolationError(FOUNDED_ONCE, f"{committed} was committed before: {self._picture()}")

    def _set_down(self) -> None:
        """What the passengers made of the log."""
        (leader, *_) = self.cluster.leaders()
        mirrors = self.mirrors
        if mirrors is not None:
            mirrors.trouble.share = 0.0
            self._wait("the mirror does not catch up", lambda: len(mirrors.topic.records) >= leader.node.offset)
            mirrors.check(leader)
        if self.projection is not None:
            self.projection.check(leader)

    def _break_links(self) -> None:
        """One connection of the leader's breaks, and again: it leads on, in the same term."""
        (leader, *_), random = self.cluster.leaders(), self.world.random
        term = leader.node.engine.term
        followers = [node for node in self.cluster.voters if node != leader.node_id]
        for _ in range(2 if followers else 0):
            self.cluster.fabric.reset(leader.node_id, random.choice(followers))
            self.world.run_until(self.world.now + 0.15)
        if not leader.node.engine.is_leader or leader.node.engine.term != term:
            raise ViolationError(STAYS, f"n{leader.node_id} of term {term} lost it: {self._picture()}")

    def retold(self) -> Retold:
        """What a process with another hash seed must make the same state of."""
        return Retold(
            self.plan.seed,
            self.limits.core.requests,
            [(int(index), int(term), entry) for index, term, entry in self.invariants.entries],
            self.invariants.states(),
        )

    def _rest(self) -> list[NodeId]:
        """Who is not mended with the core: a minority, now and then of nobody. A node that lost its journal needs to
        hear of all others (consensus/raft/rejoin.py), so no core counts on one; nor on one that lost its store, which
        votes and cannot lead, and may be the one whose log is longest.
        """
        nodes, random = list(self.cluster.voters), self.world.random
        sure = [node for node in nodes if self.cluster.remembers(node) and self.cluster.has_state(node)]
        if len(sure) < self.cluster.quorum or random.random() < ALL_MENDED:
            return []
        if not any(entry for _, _, entry in self.invariants.entries):  # A founding takes all of them.
            return []
        random.shuffle(sure)
        core = sure[: self.cluster.quorum]
        return [node for node in nodes if node not in core]

    def _check_checkpoints(self, nodes: Sequence[Node]) -> None:
        """Each that a node kept, through crashes and snapshots, is the fold of the events before it: of one node's,
        for all serve the same.
        """
        kept: dict[int, list[Checkpoints]] = {}
        for node in nodes:
            assert isinstance(node, CoreNode)
            for offset in node.core.checkpoints.offsets:
                kept.setdefault(offset, []).append(node.core.checkpoints)
        longest, state = max(nodes, key=lambda node: node.offset), EMPTY
        for *_, batch in longest.batches(0):
            for stamp, event in decode_events(batch):
                self._compare(kept.pop(stamp.offset, ()), state, stamp.offset)
                state = evolve(state, event, stamp)
        self._compare(kept.pop(longest.offset, ()), state, longest.offset)
        if kept:
            raise ViolationError(CHECKPOINTS, f"one at {min(kept)}, beyond the end {longest.offset}")

    def _compare(self, kept: Iterable[Checkpoints], state: State, offset: int) -> None:
        for checkpoints in kept:
            self.cluster.counts["checkpoints"] += 1
            if dict(checkpoints.rows(offset)) != dict(rows(state)):
                raise ViolationError(CHECKPOINTS, f"the one at {offset} is not the state of then")

    def _starter(self, node: NodeId) -> Callable[[], None]:
        return lambda: self.cluster.start(node)

    def _all_answered(self, before: list[int]) -> bool:
        return all(client.answered >= had + 3 for client, had in zip(self.clients, before, strict=True))

    def _any_kept(self, before: int) -> bool:
        return not self.circle.members or self.circle.commits > before

    def _equal(self) -> bool:
        """Everybody up, voting, and at the same offset; the checker has compared their states there."""
        processes = self.cluster.processes()
        if len(processes) < len(self.cluster.voters) or not self.cluster.leaders():
            return False
        ends = {(process.node.offset, process.node.engine.applied_index) for process in processes}
        return len(ends) == 1 and all(process.node.engine.voting for process in processes)

    def _wait(self, complaint: str, done: Callable[[], bool], moves: Callable[[], int] = lambda: 0) -> None:
        """For ``PEACE_S``; and on, ``SLOW`` times as long, while something ``moves`` that is needed first."""
        began, moved = self.world.now, moves()
        deadline, longest = began + PEACE_S, began + PEACE_S * SLOW
        while not done():
            if self.world.now >= deadline and moves() > moved and deadline < longest:
                deadline, moved = deadline + PEACE_S, moves()
            elif self.world.now >= deadline:
                raise ViolationError(PROGRESS, f"{complaint} within {deadline - began:.0f} s: {self._picture()}")
            self.world.run_until(self.world.now + STEP_S)

    def _picture(self) -> str:
        """Who stands where; for the reader of a failure."""
        lines = []
        for process in self.cluster.processes():
            engine, journal = process.node.engine, process.node.journal
            lines.append(
                f"n{process.node_id} term {engine.term} leader {engine.leader_id} voting {engine.voting} "
                f"log {journal.base_index}..{journal.last_index} durable {journal.durable_index} "
                f"commit {engine.commit_index} applied {engine.applied_index} offset {process.node.offset}"
            )
        return "; ".join(lines)

    def _report(self) -> Report:
        hosts = self.cluster.hosts.values()
        counts: Counter[str] = Counter(self.cluster.counts)
        counts.update(self.cluster.fabric.counts)
        counts["dishonest request ids"] = sum(client.lies for client in self.clients)
        counts["faults"] = self.nemesis.faults
        counts["answers"] = len(self.history.acknowledged)
        counts["reads"] = self.history.reads
        counts["reads by followers"] = self.history.follower_reads
        counts["swaps"] = self.history.swaps
        counts["swaps that found another value"] = self.history.swaps_refused
        counts["entries committed"] = self.invariants.last_committed
        counts["unsynced bytes lost"] = sum(host.disk.lost_bytes for host in hosts)
        counts["torn writes"] = sum(host.disk.torn_writes for host in hosts)
        counts["store writes undone"] = sum(host.store.undone for host in hosts)
        counts["sectors lost"] = sum(host.disk.sectors_lost for host in hosts)
        counts["writes lost by a failed sync"] = sum(host.disk.pages_dropped for host in hosts)
        counts["seeds with five nodes"] = int(len(self.cluster.voters) == 5)
        counts["seeds with settings of each node's own"] = int(self.own_settings)
        counts["seeds with the product's timeouts"] = int(
            self.limits.core.engine.heartbeat_s == EngineSettings().heartbeat_s
        )
        return Report(
            seed=self.plan.seed,
            size=len(self.cluster.voters),
            trace=self.world.trace,
            events=self.world.events,
            virtual_s=self.world.now - START_S,
            counts=dict(sorted(counts.items())),
            met=dict(sorted(self.cluster.coverage.met.items())),
        )
