"""The in-memory twin keeps the promises of the RaftEngine port."""

import pytest

from quorate.consensus.event_log import EventLog
from quorate.consensus.memory import MemoryEngine
from quorate.consensus.ports import Index, NodeId, RaftEngine, Term
from quorate.consensus.store import MemoryStore
from quorate.errors import PeerError
from tests.unit.consensus.raft_cluster import ListMachine, VirtualTime


def make(**options: float) -> tuple[VirtualTime, ListMachine, MemoryEngine]:
    """A started engine over a fresh store."""
    time, store = VirtualTime(), MemoryStore()
    machine = ListMachine(store, EventLog(store))
    engine = MemoryEngine(NodeId(1), machine, time, voters=(NodeId(1), NodeId(2)), **options)  # type: ignore[arg-type]
    engine.start()
    return time, machine, engine


def test_it_is_a_raft_engine() -> None:
    """It has every member of the port."""
    engine: RaftEngine = make()[2]
    assert engine.is_leader


def test_nothing_is_decidable_before_the_barrier_is_applied() -> None:
    """A leader decides only after the first entry of its term is applied, and then the machine is told."""
    time, machine, engine = make(commit_delay_s=0.1)
    assert engine.decidable_term() == 0
    assert engine.propose(b"early", engine.term) is None
    time.run(0.2)
    assert engine.decidable_term() == 1
    assert [(term, cause is not None) for term, cause in machine.terms] == [(1, True)]


def test_proposals_are_applied_in_order_and_reads_wait_for_them() -> None:
    """Entries come back in the order proposed; a read sees what was committed before it."""
    time, machine, engine = make()
    time.run(0.1)
    indexes = [engine.propose(b"%02d" % i, Term(1)) for i in range(5)]
    assert indexes == [3, 4, 5, 6, 7]
    time.run(0.1)
    answers: list[Index | None] = []
    engine.read_index(answers.append)
    time.run(0.1)
    assert machine.values() == [b"%02d" % i for i in range(5)]
    assert answers == [7]


def test_losing_leadership_is_told_first_and_drops_what_is_uncommitted() -> None:
    """The machine hears of the loss at once, reads fail, an uncommitted entry is replaced by the next leader's."""
    time, machine, engine = make()
    time.run(0.1)
    engine.commit_delay_s = 1.0
    assert engine.propose(b"gone", Term(1)) == 3
    answers: list[Index | None] = []
    engine.read_index(answers.append)
    engine.lose_leadership(NodeId(2), (b"theirs",))
    assert machine.terms[-1] == (1, None)
    assert engine.propose(b"late", Term(1)) is None
    assert answers == [None]
    time.run(2)
    assert machine.values() == [b"theirs"]
    assert engine.leader_id == 2
    engine.win()
    time.run(2)
    assert engine.decidable_term() == 3


def test_transfer_needs_another_voter() -> None:
    """Leadership can be handed to a voter only."""
    time, _, engine = make()
    time.run(0.1)
    assert not engine.transfer_leadership(NodeId(9))
    assert engine.transfer_leadership()
    assert engine.leader_id == 2
    assert not engine.transfer_leadership()


def test_frames_are_refused() -> None:
    """It has no peers."""
    with pytest.raises(PeerError):
        make()[2].receive(NodeId(2), b"x")
