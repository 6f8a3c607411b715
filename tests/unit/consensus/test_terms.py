"""Terms that no log can hold: refused at every door, never stored, and named where they are found."""

import pytest

from quorate.consensus.journal.frames import VOTE, encode_vote
from quorate.consensus.ports import TERM_MAX, NodeId, Term
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import Message, RejoinAsk, TermNotice
from quorate.errors import InvariantBrokenError, PeerError, UsageError
from tests.unit.consensus.raft_cluster import Cluster
from tests.unit.consensus.test_codec import BEYOND


def test_one_frame_does_not_stop_a_cluster() -> None:
    """Each message with a number beyond the log, put between voters (``TermNotice(2^62-1)`` first: nine bytes once
    stopped a cluster for good), is the fault of who sent it: terms, leader and log stay, and commits go on.
    """
    cluster = Cluster(3)
    leader = cluster.elect()
    assert leader.propose(b"before")
    cluster.settle()
    term = leader.engine.term
    frames = [codec.encode(TermNotice(Term((1 << 62) - 1))), *[frame for _, frame in BEYOND]]
    assert len(frames[0]) == 9
    for frame in frames:
        for node in cluster.nodes.values():
            for peer in cluster.voters:
                if peer != node.id:
                    with pytest.raises(PeerError):
                        node.engine.receive(NodeId(peer), frame)
    assert leader.propose(b"after")
    cluster.run(2.0)
    cluster.settle()
    assert cluster.leader is leader
    for node in cluster.nodes.values():
        assert (node.engine.term, node.journal.term, node.machine.values()) == (term, term, [b"before", b"after"])


def test_an_honest_notice_of_a_later_term_is_taken_however_far_it_is() -> None:
    """A voter that was away may be any number of terms behind: up to the last but one the cluster elects above it."""
    cluster = Cluster(3)
    cluster.elect()
    late = Term(TERM_MAX - 1000)
    cluster.nodes[1].engine.receive(NodeId(2), codec.encode(TermNotice(late)))
    cluster.run(3.0)
    leader = cluster.elect()
    assert leader.propose(b"there")
    cluster.settle()
    assert late < leader.engine.term < late + 20


def test_nobody_stands_after_the_last_term_and_says_so() -> None:
    """In the last term there is no election any more: a node that would want one stops by name, and stores nothing."""
    cluster = Cluster(3)
    cluster.elect()
    cluster.nodes[1].engine.receive(NodeId(2), codec.encode(TermNotice(TERM_MAX)))
    with pytest.raises(InvariantBrokenError, match="the last that a log can hold"):
        cluster.run(5.0)
    assert max(node.journal.term for node in cluster.nodes.values()) == TERM_MAX


def test_a_journal_never_stores_a_term_beyond_the_log() -> None:
    """Whoever asks for it."""
    cluster = Cluster(1)
    with pytest.raises(InvariantBrokenError, match=str(TERM_MAX)):
        cluster.nodes[1].journal.set_vote(TERM_MAX + 1, None)


def test_a_journal_that_took_one_earlier_is_refused_with_the_remedy_and_the_remedy_works() -> None:
    """A journal that an earlier build spoilt is named at start; without it the node comes back as one that forgot."""
    cluster = Cluster(3)
    leader = cluster.elect()
    assert leader.propose(b"kept")
    cluster.settle()
    victim = next(node for node in cluster.nodes.values() if node is not leader)
    victim.journal._operation(VOTE, encode_vote(None), (1 << 62) - 1)
    cluster.run(0.1)
    victim.kill()
    with pytest.raises(UsageError, match="remove this node's journal folder"):
        victim.start()
    victim.disk.files.clear()
    victim.disk.synced.clear()
    victim.start()
    cluster.run_until(lambda: victim.engine.voting)
    cluster.settle()
    assert victim.machine.values() == [b"kept"]
    assert victim.engine.term == leader.engine.term


def test_a_question_without_a_term_is_answered_as_ever() -> None:
    """What carries a nonce may carry any below 2^62."""
    asked: Message = RejoinAsk((1 << 62) - 1)
    cluster = Cluster(3)
    cluster.elect()
    cluster.nodes[1].engine.receive(NodeId(2), codec.encode(asked))
