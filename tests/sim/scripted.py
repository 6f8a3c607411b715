"""Schedules written by hand, for what chance does not find.

Rules: a script fixes who hears whom, whose disk is stuck, and who dies; the checker watches as ever. Roles are given to
whoever takes them. A script that cannot set its stage says so (``StageError``) and another seed is tried.
"""

from collections.abc import Callable, Iterable

from quorate.consensus.ports import Index, NodeId
from tests.sim.clients import Result
from tests.sim.cluster import Process
from tests.sim.simulation import Plan, Simulation
from tests.sim.world import START_S

SEEDS_MAX = 40


class StageError(Exception):
    """This seed did not come to the situation the script is about."""


class Stage:
    """A cluster of three without clients, brokers or chance faults."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(Plan(seed, size=3, clients=0, broker_sets=0))
        self.cluster = self.simulation.cluster
        self.world = self.simulation.world
        self.simulation.nemesis.stop()
        for node in self.cluster.voters:
            self.cluster.start(node)

    def wait(self, condition: Callable[[], bool], what: str, within_s: float = 3.0) -> None:
        """Until it is so."""
        deadline = self.world.now + within_s
        while not condition():
            if self.world.now > deadline:
                raise StageError(f"no {what} within {within_s} s, {self.world.now - START_S:.1f} s after the start")
            self.world.run_until(self.world.now + 0.0005)

    def settled(self) -> bool:
        """Everybody has opened the term, applied all there is, and holds the same."""
        ends = set()
        for process in self.cluster.processes():
            engine, journal = process.node.engine, process.node.journal
            ends.add((journal.last_index, journal.durable_index, engine.applied_index, engine.term))
        return len(ends) == 1 and len(set(next(iter(ends))[:3])) == 1 and self.simulation.invariants.next_offset >= 5

    def process(self, node: NodeId) -> Process:
        """The one that lives there."""
        process = self.cluster.hosts[node].process
        assert process is not None
        return process

    def leader(self, among: Iterable[NodeId]) -> NodeId:
        """Wait until one of them leads, with the decision that opens its term applied or not."""
        names = set(among)

        def found() -> list[NodeId]:
            return [process.node_id for process in self.cluster.leaders() if process.node_id in names]

        self.wait(lambda: bool(found()), f"leader among {sorted(names)}")
        return found()[0]

    def only(self, *pairs: tuple[NodeId, NodeId]) -> None:
        """These pairs hear each other; nobody else hears anybody."""
        talk = {direction for a, b in pairs for direction in ((a, b), (b, a))}
        nodes = self.cluster.voters
        self.cluster.fabric.cut = {(a, b) for a in nodes for b in nodes if a != b} - talk

    def put(self, node: NodeId, tag: str) -> None:
        """A write at one node, whatever comes of it."""

        def ignore(_result: Result) -> None:
            pass

        self.cluster.ask(node, lambda service, done: service.put("k", tag, tag, "", done), ignore, "config")

    def stick_disk(self, node: NodeId) -> None:
        """No sync ends there any more."""
        self.cluster.hosts[node].slowness.stalled_until = self.world.now + 1000.0


def clip_term(seed: int) -> None:
    """Raft's Figure 8 through the clip: an entry of an old term is on a majority, and must not be called committed.

    L writes an entry alone (term 1). B wins term 2 and writes its own, alone. L wins term 3 by A's vote, sends A all it
    has, and its disk sticks before its first entry of term 3 is durable: on a majority is now only the entry of term 1.
    L loses power, and B, whose log ends in term 2, may win term 4 by L's vote; that entry goes.
    Raises StageError.
    """
    stage = Stage(seed)
    cluster, nodes = stage.cluster, stage.cluster.voters
    old = stage.leader(nodes)
    stage.wait(stage.settled, "equal logs")
    first, second = [node for node in nodes if node != old]

    stage.only((first, second))
    stage.put(old, "alone")
    before = stage.process(old).node.journal.last_index
    rival = stage.leader((first, second))
    stage.only()
    helper = second if rival == first else first
    stage.wait(lambda: stage.process(rival).node.journal.durable_index > before, "rival's own entry on its disk")
    written = stage.process(old).node.journal.durable_index
    if written != before + 1 or stage.process(helper).node.journal.last_index > before:
        raise StageError("the logs are not as the script needs them")

    stage.wait(lambda: not stage.process(old).node.engine.is_leader, "old leader giving up")
    stage.only((old, helper))
    if stage.leader((old, helper)) != old:
        raise StageError("the helper won")
    stage.stick_disk(old)
    if stage.process(old).node.journal.durable_index > written:
        raise StageError("its first entry is durable already")
    stage.wait(lambda: stage.process(helper).node.journal.durable_index > written, "helper's copy")
    stage.world.run_until(stage.world.now + 0.1)

    stage.only((old, rival))
    cluster.crash(old, "power", 0.05)
    cluster.hosts[old].slowness.stalled_until = 0.0
    stage.wait(lambda: cluster.hosts[old].process is not None, "restart")
    if stage.process(old).node.journal.last_index != Index(written):
        raise StageError("the entry of term 3 survived")
    stage.leader((rival,))


def stale_entries(seed: int) -> None:
    """A leader cut off writes three entries, follows another's two, and leads again: its next entry has an index that
    it sent before. Whoever receives it must receive the new one.

    Raises StageError.
    """
    stage = Stage(seed)
    nodes = stage.cluster.voters
    old = stage.leader(nodes)
    stage.wait(stage.settled, "equal logs")
    first, second = [node for node in nodes if node != old]
    before = stage.process(old).node.journal.last_index

    stage.only((first, second))
    for number in (1, 2, 3):
        stage.put(old, f"alone {number}")
        stage.wait(lambda n=number: stage.process(old).node.journal.last_index == before + n, "an entry")  # type: ignore[misc]
        stage.world.run_until(stage.world.now + 0.005)
    rival = stage.leader((first, second))
    helper = second if rival == first else first
    stage.only((first, second), (old, first), (old, second))
    stage.wait(stage.settled, "the old leader following")
    if stage.process(old).node.journal.last_index != before + 2:
        raise StageError("the rival wrote another number of entries")

    stage.only((old, helper))
    if stage.leader((old, helper)) != old:
        raise StageError("the helper won")
    stage.wait(lambda: stage.process(helper).node.journal.last_index > before + 2, "the next entry at the helper")
    stage.world.run_until(stage.world.now + 0.2)


def stale_decision(seed: int) -> None:
    """A leader cut off decides alone, follows another's first entry, and leads again before anything else was decided.

    What it decided alone would fit again by its offset, and must not come back. Raises StageError.
    """
    stage = Stage(seed)
    nodes = stage.cluster.voters
    old = stage.leader(nodes)
    stage.wait(stage.settled, "equal logs")
    first, second = [node for node in nodes if node != old]
    journal = stage.process(old).node.journal
    before, offset = journal.last_index, stage.process(old).node.offset

    stage.only((first, second))
    stage.put(old, "alone")
    stage.wait(lambda: journal.last_index == before + 1, "an entry")
    rival = stage.leader((first, second))
    helper = second if rival == first else first
    stage.only((rival, old))
    term = stage.process(rival).node.engine.term
    stage.wait(lambda: journal.last_term == term, "rival's first entry at the old leader")
    stage.only((old, helper))
    if journal.last_index != before + 1 or stage.process(helper).node.journal.last_index != before:
        raise StageError("the logs are not as the script needs them")
    stage.wait(lambda: not stage.process(old).node.engine.is_leader, "the old leader following")
    stage.leader((old, helper))
    stage.wait(lambda: stage.process(helper).node.offset > offset, "a decision of the new term")
    stage.world.run_until(stage.world.now + 0.1)


def play(script: Callable[[int], None]) -> int:
    """Run it on seeds until one sets the stage; that seed. Raises StageError after ``SEEDS_MAX``, ViolationError."""
    for seed in range(1, SEEDS_MAX + 1):
        try:
            script(seed)
        except StageError:
            continue
        return seed
    raise StageError(f"none of {SEEDS_MAX} seeds sets the stage")
