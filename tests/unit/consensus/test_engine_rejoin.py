"""A node that lost its journal: it votes only when it can no longer contradict what it forgot."""

import random

import pytest
from structlog.testing import capture_logs

from quorate.consensus.ports import Index, NodeId, StoreOp, Term
from quorate.consensus.raft.flow import PeerFlow
from quorate.consensus.raft.rejoin import Rejoin
from quorate.consensus.settings import EngineSettings, SnapshotSettings
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import (
    Ack,
    PreVoteAnswer,
    RejoinIndex,
    RejoinTerm,
    RequestVote,
    VoteGranted,
    YouLost,
)
from quorate.errors import UsageError
from tests.unit.consensus.raft_cluster import Cluster, Node

A, B = NodeId(2), NodeId(3)


def write(cluster: Cluster, node: Node, count: int) -> None:
    """Commit ``count`` entries through the node."""
    before = node.machine.offset
    for i in range(count):
        assert node.propose(b"value %d" % i) is not None
    cluster.run_until(lambda: node.machine.offset == before + count)


def lose_journal(node: Node) -> None:
    """The files are gone, the store is not."""
    node.kill()
    node.disk.files.clear()
    node.disk.synced.clear()


def forgetful(count: int = 3, settings: EngineSettings | None = None) -> tuple[Cluster, Node, Node]:
    """A cluster, its leader, and a follower that is down and has lost its journal."""
    cluster = Cluster(count, settings=settings)
    leader = cluster.elect()
    write(cluster, leader, 30)
    cluster.settle()
    node = next(node for node in cluster.nodes.values() if node is not leader)
    lose_journal(node)
    return cluster, leader, node


def sent_by(cluster: Cluster, node: Node) -> list[codec.Message]:
    """What the node sends from here on."""
    messages: list[codec.Message] = []

    def watch(source: int, _: int, frame: bytes) -> None:
        if source == node.id:
            messages.append(codec.decode(frame))

    cluster.wires.watch = watch
    return messages


@pytest.mark.parametrize("count", [3, 5])
def test_it_comes_back_and_votes_again(count: int) -> None:
    """With all others up it learns, catches up, and then takes part in the next election like anybody."""
    cluster, leader, node = forgetful(count)
    node.start()
    assert not node.engine.voting
    cluster.run_until(lambda: node.engine.voting)
    cluster.settle()
    write(cluster, leader, 3)
    cluster.settle()
    assert node.journal.voted_for == 0
    leader.kill()
    cluster.run_until(lambda: cluster.leader)
    cluster.settle()


def test_it_does_not_vote_nor_stand_nor_count_before() -> None:
    """While a voter is missing it answers no candidate, grants no pre-vote, and its acks commit nothing."""
    cluster, leader, node = forgetful()
    other = next(n for n in cluster.nodes.values() if n not in {leader, node})
    other.kill()
    messages = sent_by(cluster, node)
    node.start()
    assert leader.propose(b"two of three, one of them forgetful") is not None
    cluster.run(0.4)
    assert leader.machine.offset == 30
    assert node.journal.last_index == leader.journal.last_index
    cluster.run(10)
    assert not node.engine.voting
    assert cluster.leader is None
    question = RequestVote(Term(50), 1, Index(99), Term(49), handover=True)
    node.engine.receive(NodeId(leader.id), codec.encode(question))
    cluster.run(0.1)
    acks = [message for message in messages if isinstance(message, Ack)]
    assert acks
    assert not any(ack.counts for ack in acks)
    assert not [message for message in messages if isinstance(message, VoteGranted | RequestVote)]
    assert not [m for m in messages if isinstance(m, PreVoteAnswer) and m.granted]
    other.start()
    cluster.run_until(lambda: node.engine.voting and cluster.leader)
    cluster.settle()


def test_the_vote_it_forgot_is_not_given_twice() -> None:
    """Having voted in a term that only the candidate knows, it votes in no term up to that one after the loss."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    voter, candidate = [node for node in cluster.nodes.values() if node is not leader]
    messages = sent_by(cluster, voter)
    cluster.wires.cut.add((voter.id, candidate.id))
    candidate.engine._core.adopt_term(Term(8))
    cluster.run(0.01)
    ask = RequestVote(Term(8), 3, voter.journal.last_index, voter.journal.last_term, handover=True)
    voter.engine.receive(NodeId(candidate.id), codec.encode(ask))
    cluster.run(0.01)
    assert voter.journal.voted_for == candidate.id
    lose_journal(voter)
    cluster.wires.heal()
    voter.start()
    cluster.run_until(lambda: voter.engine.voting)
    assert voter.engine.term >= 8
    term = voter.engine.term
    messages.clear()
    again = RequestVote(term, 4, Index(10**6), term, handover=True)
    voter.engine.receive(NodeId(leader.id), codec.encode(again))
    cluster.run(0.1)
    assert not [message for message in messages if isinstance(message, VoteGranted)]


def test_a_crash_on_the_way_back_forgets_nothing() -> None:
    """Killed before it may vote, it starts as a non-voter again, although it has a journal by then."""
    cluster, leader, node = forgetful()
    other = next(n for n in cluster.nodes.values() if n not in {leader, node})
    cluster.wires.cut.add((other.id, node.id))
    node.start()
    cluster.run(1)
    assert node.journal.last_index > 1
    assert not node.engine.voting
    node.kill(power_loss=True)
    node.start()
    assert node.journal.state == "recovered"
    assert not node.engine.voting
    cluster.wires.heal()
    cluster.run_until(lambda: node.engine.voting)
    node.kill(power_loss=True)
    node.start()
    cluster.settle()
    cluster.run_until(lambda: node.engine.voting)


def test_once_back_it_stays_back() -> None:
    """After it recovered durably, another restart is an ordinary one."""
    cluster, _, node = forgetful()
    node.start()
    cluster.run_until(lambda: node.engine.voting)
    cluster.run(0.5)
    node.store.sync()
    node.kill()
    node.start()
    assert node.engine.voting


def test_it_catches_up_through_a_snapshot() -> None:
    """When the others have trimmed what it needs it gets a snapshot first, and votes after."""
    snapshots = SnapshotSettings(check_period_s=0.05, retain_entries=5, trim_slack_entries=2, chunk_bytes=300)
    cluster, leader, node = forgetful(3, EngineSettings(snapshots=snapshots))
    write(cluster, leader, 50)
    cluster.run(0.5)
    assert leader.journal.base_index > 40
    node.start()
    cluster.run_until(lambda: node.engine.voting)
    cluster.settle()
    assert node.journal.base_index > 40


def test_two_forgetful_nodes_of_three_wait_for_an_operator() -> None:
    """Neither believes the other's term, so nobody votes: unavailable rather than wrong."""
    cluster, leader, node = forgetful()
    other = next(n for n in cluster.nodes.values() if n not in {leader, node})
    lose_journal(other)
    leader.kill()
    node.start()
    other.start()
    leader.start()
    cluster.run(20)
    assert cluster.leader is None
    assert not node.engine.voting
    assert not other.engine.voting


def test_two_forgetful_nodes_of_five_come_back() -> None:
    """The three that remember are in every majority, so their terms are enough; then both vote again."""
    cluster, leader, node = forgetful(5)
    other = next(n for n in cluster.nodes.values() if n not in {leader, node})
    lose_journal(other)
    node.start()
    other.start()
    write(cluster, leader, 10)
    cluster.run_until(lambda: node.engine.voting and other.engine.voting)
    cluster.settle()
    for dead in [n for n in cluster.nodes.values() if n not in {leader, node, other}]:
        dead.kill()
    write(cluster, leader, 3)
    cluster.settle()


def test_three_forgetful_nodes_of_five_wait_for_an_operator() -> None:
    """Two that remember do not meet every majority: none of the three votes, and nothing is decided."""
    cluster, leader, node = forgetful(5)
    lost = [node, *[n for n in cluster.nodes.values() if n not in {leader, node}][:2]]
    for other in lost[1:]:
        lose_journal(other)
    leader.kill()
    for started in (*lost, leader):
        started.start()
    cluster.run(20)
    assert cluster.leader is None
    assert not any(started.engine.voting for started in lost)


def test_a_dead_voter_of_five_is_waited_for() -> None:
    """It may be a candidate that holds the forgotten vote: no number of other answers makes up for its own."""
    cluster, leader, node = forgetful(5)
    dead = next(n for n in cluster.nodes.values() if n not in {leader, node})
    dead.kill()
    node.start()
    write(cluster, leader, 10)
    cluster.run(5)
    assert not node.engine.voting
    dead.start()
    cluster.run_until(lambda: node.engine.voting)


def test_a_lone_node_without_its_journal_refuses_to_start() -> None:
    """Nobody could tell it what it acknowledged; the error names the remedy."""
    cluster = Cluster(1)
    write(cluster, cluster.elect(), 5)
    lose_journal(cluster.nodes[1])
    with pytest.raises(UsageError, match="restore the journal directory from a backup"):
        cluster.nodes[1].start()


def test_a_damaged_journal_is_told_by_the_caller() -> None:
    """``forgotten`` makes a node a non-voter even when its store is as fresh as its journal."""
    cluster = Cluster(3, start=False)
    for node in cluster.nodes.values():
        node.start(forgotten=node.id == 1)
    assert not cluster.nodes[1].engine.voting
    cluster.elect()
    cluster.run_until(lambda: cluster.nodes[1].engine.voting)


def test_the_marker_of_a_version_without_a_voter_file_is_taken_over() -> None:
    """It stood in the store; from then on the voter file says it, and the store no longer."""
    cluster = Cluster(3)
    leader = cluster.elect()
    node = next(node for node in cluster.nodes.values() if node is not leader)
    node.kill()
    node.store.write([StoreOp("meta", b"consensus/forgotten", b"\x01")])
    node.start()
    assert not node.engine.voting
    assert node.directory.may_not_vote
    assert node.store.get("meta", b"consensus/forgotten") is None
    cluster.run_until(lambda: not node.directory.may_not_vote)
    assert node.engine.voting


def test_old_acks_do_not_count_after_the_leader_was_told() -> None:
    """An ack sent before the loss and arriving after is refused: the leader forgot this node's matches."""
    _, leader, node = forgetful()
    peer = NodeId(node.id)
    index = leader.journal.last_index
    assert leader.engine._core.match(peer) == index
    late = Ack(
        leader.engine.term,
        leader.engine._replication.flows[peer].last_seq,
        Index(index + 1),
        reset=False,
        success=True,
        counts=True,
    )
    leader.engine.receive(peer, codec.encode(codec.RejoinRead(1, leader.engine.term)))
    assert leader.engine._core.match(peer) == 0
    leader.engine.receive(peer, codec.encode(late))
    assert leader.engine._core.match(peer) == 0


def test_an_ack_to_a_leader_that_has_restarted_does_nothing() -> None:
    """A follower lets it out once its disk has the entry; the node it is for has not led in this life."""
    cluster = Cluster(3)
    leader = cluster.elect()
    write(cluster, leader, 3)
    cluster.settle()
    leader.kill()
    leader.start()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    leader.engine._replication.flows[
        NodeId(follower.id)
    ].resend = False  # The follower's connection is up, this node's is not yet.
    late = Ack(leader.engine.term, 1, Index(4), reset=False, success=True, counts=True)
    leader.engine.receive(NodeId(follower.id), codec.encode(late))
    cluster.run_until(lambda: cluster.leader)
    cluster.settle()


def test_only_voters_who_remember_are_believed() -> None:
    """Answers of another life or of a non-voter are ignored; the read index is asked for when every term is known."""
    rejoin = Rejoin([A, B], nonce=5)
    assert [peer for peer, _ in rejoin.questions(A, Term(1))] == [A, B]
    rejoin.on_term(A, RejoinTerm(4, Term(9), voting=True))
    rejoin.on_term(B, RejoinTerm(5, Term(7), voting=False))
    rejoin.on_index(RejoinIndex(6, Index(3)))
    assert [peer for peer, _ in rejoin.questions(A, Term(1))] == [A, B]
    rejoin.on_term(A, RejoinTerm(6, Term(3), voting=True))
    assert [peer for peer, _ in rejoin.questions(A, Term(1))] == [B], "one of three that forget is the most"
    rejoin.on_term(B, RejoinTerm(6, Term(6), voting=True))
    assert rejoin.learned_term == 6
    assert rejoin.questions(None, Term(1)) == []
    assert [(peer, type(question).__name__) for peer, question in rejoin.questions(B, Term(6))] == [(B, "RejoinRead")]
    rejoin.on_index(RejoinIndex(5, Index(3)))
    assert rejoin.read_index is None
    rejoin.on_index(RejoinIndex(6, Index(10)))
    assert not rejoin.complete(applied=Index(10), durable=Index(9))
    assert not rejoin.complete(applied=Index(9), durable=Index(10))
    assert rejoin.complete(Index(10), Index(10))


def test_a_term_that_was_asked_for_before_another_forgot_does_not_count() -> None:
    """The voter may have elected the one that forgot since then, with the vote that this node forgot. An answer that
    travelled slowly does not count either.
    """
    rejoin = Rejoin([A, B, NodeId(4), NodeId(5)], nonce=5)
    for peer in (A, B, NodeId(4)):
        rejoin.on_term(peer, RejoinTerm(5, Term(3), voting=True))
    rejoin.on_term(NodeId(5), RejoinTerm(5, Term(1), voting=False))
    asked = dict(rejoin.questions(A, Term(3)))
    assert {A, B, NodeId(4)} <= set(asked)
    rejoin.on_term(A, RejoinTerm(5, Term(3), voting=True))
    rejoin.on_index(RejoinIndex(6, Index(1)))
    assert not rejoin.complete(Index(1), Index(1))
    for peer in (A, B, NodeId(4)):
        rejoin.on_term(peer, RejoinTerm(6, Term(4), voting=True))
    rejoin.on_index(RejoinIndex(6, Index(1)))
    assert rejoin.complete(Index(1), Index(1))
    assert rejoin.learned_term == 4


# ── a leader's proof ──


def went_back() -> tuple[Cluster, Node, Node]:
    """A leader, and a follower whose journal ends below what it acknowledged, by a cut that looks like a crash's: its
    store went back likewise, and its own files tell it nothing.
    """
    cluster = Cluster(3)
    leader = cluster.elect()
    write(cluster, leader, 5)
    cluster.settle()
    node = next(node for node in cluster.nodes.values() if node is not leader)
    copied = node.copy()
    write(cluster, leader, 5)
    cluster.settle()
    node.kill()
    voter_file = node.voter_file
    node.put_back(copied)
    node.voter_file = voter_file
    return cluster, leader, node


def test_a_leader_that_holds_an_acknowledgement_proves_the_loss_of_it() -> None:
    """What the follower does not hold it acknowledged in this very term: the leader says so, tells it, and does not
    count it before it has come back like one that lost its journal.
    """
    cluster, leader, node = went_back()
    other = next(n for n in cluster.nodes.values() if n not in {leader, node})
    cluster.wires.hold(other.id, node.id)  # Not every term can be known.
    acknowledged = leader.engine._core.match(NodeId(node.id))
    with capture_logs() as logged:
        node.start()
        cluster.run_until(lambda: leader.engine.followers_that_lost)
        cluster.run(0.1)
    assert [line for line in logged if line["event"].startswith("a follower lost")] == [
        {
            "event": "a follower lost entries that it had acknowledged",
            "log_level": "critical",
            "follower": node.id,
            "up_to": acknowledged,
        }
    ]
    assert leader.engine._core.match(NodeId(node.id)) == 0
    assert leader.engine.alarms == (
        f"node {node.id} lost entries that it had acknowledged, and does not count before it has come back",
    )
    cluster.run(1.0)
    assert not node.engine.voting
    assert "holds an acknowledgement of this node up to entry 12" in node.engine.waits_for
    assert leader.engine._core.match(NodeId(node.id)) == 0
    cluster.wires.isolate(other.id)
    assert leader.propose(b"of two, one of them forgetful") is not None
    cluster.run(0.3)
    assert leader.machine.offset == 10
    cluster.wires.heal()
    cluster.wires.release(other.id, node.id)
    cluster.run_until(lambda: node.engine.voting)
    cluster.settle()
    assert (leader.engine.followers_that_lost, cluster.elect().engine.alarms) == (1, ())


def test_without_the_word_of_the_leader_it_is_told_again() -> None:
    """A YouLost that the network ate is said again when the follower's acks still say that they count."""
    cluster, _, node = went_back()
    messages: list[codec.Message] = []

    def note(_source: int, _target: int, frame: bytes) -> None:
        message = codec.decode(frame)
        if isinstance(message, YouLost):
            messages.append(message)

    cluster.wires.watch = note
    arrive = cluster.wires.arrive

    def without_the_first(source: int, target: int, frame: bytes) -> None:
        if not isinstance(codec.decode(frame), YouLost) or len(messages) > 1:
            arrive(source, target, frame)

    cluster.wires.arrive = without_the_first  # type: ignore[method-assign]
    node.start()
    cluster.run_until(lambda: not node.engine.voting)
    assert len(messages) > 1
    cluster.run_until(lambda: node.engine.voting)
    cluster.settle()


def test_what_was_sent_before_the_acknowledgement_proves_nothing() -> None:
    """An answer that overtook another, a resend that came late: that is no loss."""
    flow = PeerFlow()
    flow.sent(1, Index(10), 100)
    flow.sent(2, Index(10), 0, Index(10))
    assert not flow.proves_loss(1, 5)
    assert flow.proves_loss(2, 10)
    assert not flow.proves_loss(2, 11), "it has trimmed that entry, and all after it is there"


def test_reordered_and_lost_frames_prove_nothing() -> None:
    """A leader that sends faster than the wires deliver, with cuts in between, accuses nobody."""
    cluster = Cluster(3)
    leader = cluster.elect()
    chance = random.Random(7)
    send = cluster.wires.send

    def late(source: int, target: int, frame: bytes) -> None:
        if chance.random() > 0.1:
            cluster.time.call_later(chance.random() * 0.05, lambda: send(source, target, frame))

    cluster.wires.send = late  # type: ignore[method-assign]
    for _ in range(300):
        leader = cluster.leader or leader
        leader.propose(b"x" * 100)
        cluster.run(chance.random() * 0.02)
    cluster.wires.send = send  # type: ignore[method-assign]
    cluster.settle()
    assert [node.engine.followers_that_lost for node in cluster.nodes.values()] == [0, 0, 0]


def test_what_a_node_that_forgot_holds_is_not_sent_again() -> None:
    """A late answer of its empty log moved the pipeline back to the beginning; its next acknowledgement moves it
    forward. Else the leader offers a snapshot that each acknowledgement calls off, for ever.
    """
    cluster = Cluster(3)
    leader = cluster.elect()
    write(cluster, leader, 30)
    cluster.settle()
    node = next(node for node in cluster.nodes.values() if node is not leader)
    replication, peer, term = leader.engine._replication, NodeId(node.id), leader.engine.term
    last = leader.journal.last_index
    cluster.wires.isolate(node.id)
    cluster.run(EngineSettings().heartbeat_s)
    replication.on_ack(peer, Ack(term, replication.flows[peer].last_seq, Index(2), True, False, False))
    assert leader.engine._core.next_index(peer) == 2
    replication.on_ack(peer, Ack(term, replication.flows[peer].last_seq, Index(last + 1), False, True, False))
    assert leader.engine._core.next_index(peer) == last + 1
