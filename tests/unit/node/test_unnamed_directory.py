"""A voter on a directory that this node's log does not name: who hears it, and what of it is heard."""

import pytest

from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.raft.founding import directory_bytes, directory_text
from quorate.consensus.transport.codec import AppendEntries, Message, RequestVote, TermNotice, app_frame, encode
from quorate.node.compose import Core, is_of_a_leader
from tests.sim.nodes import CoreNode
from tests.sim.scripted import Stage

OTHER = b"\x07" * 16
LATER = Term(1_000)


@pytest.fixture
def core() -> Core:
    """A follower of a settled cluster of three, whose log names the directories of all."""
    stage = Stage(1)
    leader = stage.leader(stage.cluster.voters)
    stage.wait(stage.settled, "equal logs")
    node = stage.process(next(voter for voter in stage.cluster.voters if voter != leader)).node
    assert isinstance(node, CoreNode)
    return node.core


def peer_of(core: Core) -> NodeId:
    """One of the other two."""
    return NodeId(core.node_id % 3 + 1)


def meet(core: Core, peer: NodeId, incarnation: bytes) -> None:
    """The peer proves itself on this directory."""
    core.directory.meet(peer, directory_text(incarnation), directory_text(OTHER), None, lambda: None)
    core.on_met(peer)


def append(term: Term) -> Message:
    """What a leader of that term says when it has nothing new."""
    return AppendEntries(term, 1, Index(10_000), term, Index(0), ())


def test_a_voter_asks_for_the_directory_that_its_log_names(core: Core) -> None:
    """Another directory under a voter's id has forgotten its votes: who may vote has no link with it."""
    peer = peer_of(core)
    named = core.machine.directory_of(peer)
    assert named
    assert core.directory_of(peer) == directory_bytes(named)


def test_who_may_not_vote_hears_any_directory(core: Core) -> None:
    """It counts nobody's word, and its leader may have been rebuilt in entries that only that leader can send."""
    core.forget("a test says so", lambda: None)
    assert core.directory_of(peer_of(core)) is None


def test_of_a_directory_that_is_not_named_only_a_leader_is_heard(core: Core) -> None:
    """Neither its wish for a vote nor its term nor its controller's words change anything; what it appends does."""
    peer = peer_of(core)
    meet(core, peer, OTHER)
    term = core.engine.term
    for frame in (
        encode(RequestVote(LATER, 1, Index(10_000), LATER, handover=True)),
        encode(TermNotice(LATER)),
        app_frame(64, b"\xc1"),  # No controller could read that.
    ):
        core.on_frame(peer, frame)
        assert (core.engine.term, is_of_a_leader(frame)) == (term, False)
    core.on_frame(peer, encode(append(LATER)))
    assert core.engine.term == LATER


def test_a_directory_that_is_named_is_heard_in_all_it_says(core: Core) -> None:
    """Also after another one was there for a while."""
    peer = peer_of(core)
    meet(core, peer, OTHER)
    meet(core, peer, directory_bytes(core.machine.directory_of(peer)))
    core.on_frame(peer, encode(TermNotice(LATER)))
    assert core.engine.term == LATER
