"""A voter on a directory that this node's log does not name: who hears it, and what of it is heard."""

import msgspec
import pytest

from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.raft.founding import directory_bytes, directory_text
from quorate.consensus.transport.codec import AppendEntries, Message, RequestVote, TermNotice, app_frame, encode
from quorate.node.compose import Core, is_of_a_leader
from tests.sim.nodes import CoreNode
from tests.sim.scripted import Stage
from tests.stand_ins import InlineWorker

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


def named_as(core: Core, peer: NodeId, incarnation: bytes, former: tuple[str, ...] = ()) -> None:
    """The log, as far as it is applied here, names this directory for the peer."""
    state = core.machine.state
    node = msgspec.structs.replace(state.nodes[peer], dir_uuid=directory_text(incarnation), former=former)
    core.machine.state = msgspec.structs.replace(state, nodes=state.nodes.set(peer, node))


def test_a_store_that_is_older_does_not_bring_a_given_up_directory_back(core: Core) -> None:
    """A new directory votes once every voter has heard it, and each hears it once its name is durable. So a node that
    was killed before its store was synced still refuses the old one, whose vote would be a second one, and still
    hears the new one, without which a majority may stand still.
    """
    peer = peer_of(core)
    old = directory_bytes(core.machine.directory_of(peer))
    named_as(core, peer, OTHER, (directory_text(old),))
    core.listeners.applied(0)
    assert core.directory.named(peer) == directory_text(OTHER)
    named_as(core, peer, old)  # As its store says after the kill, and an empty one says nothing.
    assert core.directory_of(peer) == OTHER


def test_a_name_in_the_log_replaces_a_remembered_one(core: Core) -> None:
    """What is remembered may be older too: a node learns of two rebuilds in one snapshot."""
    peer, newest = peer_of(core), b"\x08" * 16
    core.directory.name({int(peer): directory_text(OTHER)}, None, lambda: None)
    named_as(core, peer, newest, (directory_text(OTHER),))
    assert core.directory_of(peer) == newest


def test_a_new_name_is_heard_once_it_is_durable(core: Core) -> None:
    """Else a crash would bring the old directory back after the new one was heard."""
    peer, worker = peer_of(core), InlineWorker()
    worker.held = True
    old = core.machine.directory_of(peer)
    named_as(core, peer, OTHER, (old,))
    meet(core, peer, OTHER)
    core.directory.name({int(peer): directory_text(OTHER)}, worker, lambda: core.on_met(peer))
    core.on_met(peer)
    term = core.engine.term
    core.on_frame(peer, encode(TermNotice(LATER)))
    assert core.engine.term == term
    worker.run()
    core.on_frame(peer, encode(TermNotice(LATER)))
    assert core.engine.term == LATER
