"""A cluster is founded by all of its voters, or not at all: what wiped and new directories may do."""

import msgspec
import pytest

from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.raft.flow import PeerFlow
from quorate.consensus.raft.founding import UNFOUNDED, UNNAMED, directory_bytes, directory_text
from quorate.consensus.storage.directory import encode_voter
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import PreVote, RejoinAsk, RejoinTerm, RequestVote, VoteGranted
from quorate.errors import UsageError
from tests.stand_ins import MemoryStore
from tests.unit.consensus.raft_cluster import Cluster, Node


def founded(count: int = 3) -> tuple[Cluster, Node]:
    """A founded cluster that has acknowledged something, and its leader."""
    cluster = Cluster(count, founding=True)
    leader = cluster.elect()
    cluster.settle()
    write(cluster, leader, b"acknowledged")
    return cluster, leader


def write(cluster: Cluster, node: Node, value: bytes) -> None:
    """Committed and applied at the node."""
    assert node.propose(value) is not None
    cluster.run_until(lambda: value in node.machine.values())


def others(cluster: Cluster, node: Node) -> list[Node]:
    """All nodes but one, by id."""
    return [other for other in cluster.nodes.values() if other is not node]


def test_fresh_nodes_found_a_cluster_by_themselves() -> None:
    """All voters' directories are listed by what creates it."""
    cluster, leader = founded()
    assert leader.machine.founders_listed() == {node.id: node.incarnation for node in cluster.nodes.values()}
    assert {node.engine.waits_for for node in cluster.nodes.values()} == {""}


@pytest.mark.parametrize("count", [3, 5])
def test_nothing_is_founded_while_one_voter_is_missing(count: int) -> None:
    """However long it takes; the missing one is named, no term is spent on it, and once it is there all goes on."""
    cluster = Cluster(count, founding=True, start=False)
    for node in cluster.nodes.values():
        if node.id != count:
            node.start()
            assert node.engine.waits_for.endswith("by all of its voters, and the first round of asking is not over")
    cluster.run(20.0)
    assert cluster.leader is None
    assert f"of node {count}" in cluster.nodes[1].engine.waits_for
    assert cluster.nodes[1].engine.term == 0
    cluster.nodes[count].start()
    cluster.elect()
    cluster.settle()


@pytest.mark.parametrize("count", [3, 5])
def test_wiped_voters_found_nothing(count: int) -> None:
    """All but one are wiped: the one that holds the facts keeps them, and nobody leads."""
    cluster, leader = founded(count)
    for node in cluster.nodes.values():
        node.kill()
        if node is not leader:
            node.wipe()
    for node in others(cluster, leader):
        node.start()
    cluster.run(5.0)
    leader.start()
    for _ in range(300):
        cluster.run(0.05)
        assert cluster.leader is None
        assert not any(node.machine.values() for node in others(cluster, leader))
    assert b"acknowledged" in leader.machine.values()
    assert f"of node {leader.id}" in others(cluster, leader)[0].engine.waits_for


def test_one_wiped_and_one_that_never_held_an_entry_found_nothing() -> None:
    """With the one that holds the facts behind a partition; when it is back, so is what was acknowledged."""
    cluster = Cluster(3, founding=True)
    cluster.run_until(
        lambda: any(node.engine.is_leader for node in cluster.nodes.values()), step=cluster.wires.delay / 2
    )
    leader = next(node for node in cluster.nodes.values() if node.engine.is_leader)
    second, third = others(cluster, leader)
    cluster.wires.isolate(third.id)
    cluster.run_until(lambda: leader.engine.decidable_term() and leader.machine.offset)
    write(cluster, leader, b"acknowledged")
    assert third.journal.last_index == 1
    cluster.wires.heal()
    cluster.wires.isolate(leader.id)
    second.kill()
    second.wipe()
    second.start()
    cluster.run(20.0)
    assert not second.machine.values()
    assert not third.machine.values()
    cluster.wires.heal()
    cluster.run_until(lambda: b"acknowledged" in third.machine.values())
    assert third.engine.voting
    cluster.run_until(lambda: b"acknowledged" in second.machine.values())


@pytest.mark.parametrize("count", [3, 5])
def test_a_wiped_voter_that_came_back_stays(count: int) -> None:
    """It has come in once: what it acknowledges afterwards does not make it forget again, nor does a restart."""
    cluster, leader = founded(count)
    wiped = others(cluster, leader)[0]
    wiped.kill()
    wiped.wipe()
    wiped.start()
    cluster.run_until(lambda: b"acknowledged" in wiped.machine.values() and not wiped.engine.voting)
    cluster.run_until(lambda: wiped.engine.voting)
    for number in range(20):
        write(cluster, leader, b"later %d" % number)
        cluster.run(0.1)
        assert wiped.engine.voting
    wiped.kill()
    wiped.start()
    cluster.run(1.0)
    assert wiped.engine.voting
    write(cluster, leader, b"last")
    assert wiped.engine.voting


def cut_short() -> tuple[Cluster, Node]:
    """The leader of a founding wrote it and could not send it on; it is down."""
    cluster = Cluster(3, founding=True)
    seen: list[Node] = []

    def led() -> bool:
        seen.extend(node for node in cluster.nodes.values() if node.journal.last_index > 2)
        if seen and not cluster.wires.cut:
            cluster.wires.isolate(seen[0].id)
        return bool(seen)

    while not led():
        cluster.run(0.0005)
    leader = seen[0]
    cluster.run(0.2)
    assert leader.engine._membership.founding is not None
    assert leader.engine._membership.founding.founded
    assert all(
        not node.engine._membership.founding.founded
        for node in others(cluster, leader)
        if node.engine._membership.founding
    )
    leader.kill()
    cluster.wires.heal()
    return cluster, leader


def test_a_founding_that_reached_a_minority_waits_for_it() -> None:
    """The others found nothing anew; with the founder back, its founding is the one that holds."""
    cluster, leader = cut_short()
    cluster.run(10.0)
    assert cluster.leader is None
    leader.start()
    cluster.elect()
    cluster.settle()
    assert all(node.engine.voting for node in cluster.nodes.values())
    assert leader.machine.founders_listed() == {node.id: node.incarnation for node in cluster.nodes.values()}


def test_a_founding_that_was_wiped_away_is_no_obstacle() -> None:
    """Nobody holds a fact: all three found a cluster, with the directories they have now."""
    cluster, leader = cut_short()
    leader.wipe()
    leader.start()
    cluster.elect()
    cluster.settle()
    assert leader.machine.founders_listed() == {node.id: node.incarnation for node in cluster.nodes.values()}


def test_a_journal_lost_before_the_founding_is_in_nobodys_way() -> None:
    """Its node votes in the founding, for that takes all the others, is not counted otherwise, and comes back."""
    cluster = Cluster(3, founding=True, start=False)
    for node in cluster.nodes.values():
        node.start(forgotten=node.id == 2)
    cluster.elect()
    cluster.settle()
    assert not cluster.nodes[2].engine.is_leader
    cluster.run_until(lambda: cluster.nodes[2].engine.voting)


def test_a_wiped_voter_comes_in_without_a_vote() -> None:
    """It may have voted in any term: it takes the log, counts for nothing, and votes once it knows every term."""
    cluster, leader = founded()
    wiped = others(cluster, leader)[0]
    wiped.kill()
    wiped.wipe()
    cluster.wires.hold(others(cluster, leader)[1].id, wiped.id)  # Not every term can be known.
    leader.engine._core.forget_match(NodeId(wiped.id))  # As one elected since: else it proves the loss first.
    leader.engine._replication.flows[NodeId(wiped.id)] = PeerFlow()
    wiped.start()
    cluster.run_until(lambda: b"acknowledged" in wiped.machine.values())
    before = leader.engine._core.match(NodeId(wiped.id))
    write(cluster, leader, b"more")
    cluster.run(2.0)
    assert not wiped.engine.voting
    assert leader.engine._core.match(NodeId(wiped.id)) == before
    assert "took no part in the founding" in wiped.engine.waits_for
    wiped.kill()
    wiped.start()
    assert not wiped.engine.voting
    cluster.wires.release(others(cluster, leader)[1].id, wiped.id)
    cluster.run_until(lambda: wiped.engine.voting)
    cluster.run_until(lambda: wiped.directory.voter.admitted)
    wiped.kill()
    wiped.start()
    assert wiped.engine.voting


def test_an_empty_directory_votes_for_no_candidate_that_does_not_list_it() -> None:
    """Neither in a pre-vote nor in earnest; for one that lists it, and for one without a log, it does."""
    for listed, votes in [(UNNAMED, False), (bytes([9]) * 16, False), (bytes([1]) * 16, True), (UNFOUNDED, True)]:
        cluster = Cluster(3, founding=True, start=False)
        node = cluster.nodes[1]
        node.start()
        said: list[codec.Message] = []
        cluster.wires.watch = lambda _, __, frame, said=said: said.append(codec.decode(frame))
        cluster.run(2.0)
        said.clear()
        entry = (Index(5), Term(3)) if listed != UNFOUNDED else (Index(1), Term(0))
        node.engine.receive(NodeId(2), codec.encode(PreVote(Term(7), 1, *entry, listed)))
        answers = [message.granted for message in said if isinstance(message, codec.PreVoteAnswer)]
        assert answers == [votes]
        node.engine.receive(NodeId(2), codec.encode(RequestVote(Term(7), 5, *entry, handover=False, listed=listed)))
        cluster.run(0.2)
        granted = [message for message in said if isinstance(message, VoteGranted)]
        assert granted == ([VoteGranted(Term(7), 5, directory_bytes(node.incarnation))] if votes else [])


def test_a_founded_voter_gives_no_vote_to_a_candidate_without_a_founding() -> None:
    """Even if its log of nothing but no-ops is of a later term."""
    cluster, leader = founded()
    voter = others(cluster, leader)[0]
    cluster.wires.isolate(voter.id)
    cluster.run(2.0)
    ask = RequestVote(Term(50), 5, Index(90), Term(49), handover=False, listed=UNFOUNDED)
    voter.engine.receive(NodeId(leader.id), codec.encode(ask))
    assert voter.engine.term < 50


def test_ids_of_directories_travel_as_bytes() -> None:
    """There and back; what is none is a UsageError."""
    text = "6a0f2b9e-0d5c-4b9a-8b1e-3f1d2c4b5a69"
    assert directory_text(directory_bytes(text)) == text
    for bad in ("", "x", text[:-1]):
        with pytest.raises(UsageError, match="no id of a directory"):
            directory_bytes(bad)


def test_every_founder_is_known_as_one_whatever_becomes_of_its_store() -> None:
    """The leader too, which acknowledges nothing: once its log no longer holds the founding, its voter file alone tells
    that this directory need not ask before it votes.
    """
    cluster, leader = founded()
    cluster.run(1.0)
    assert leader.engine.is_leader
    assert {node.directory.voter.admitted for node in cluster.nodes.values()} == {True}


def test_a_founder_that_dies_before_its_voter_file_says_so_says_it_in_its_next_life() -> None:
    """Its journal lists it when it starts; later its store may be gone, and the founding trimmed."""
    cluster, leader = founded()
    cluster.run(1.0)
    follower = others(cluster, leader)[0]
    follower.kill()
    follower.voter_file.replace(encode_voter(msgspec.structs.replace(follower.directory.voter, admitted=False)))
    follower.start()
    cluster.run(1.0)
    assert follower.directory.voter.admitted
    assert follower.engine.voting


def test_a_voter_that_has_not_applied_the_founding_tells_no_other_its_term() -> None:
    """It does not know whether the one that asks is the directory the log names; it answers once it does."""
    cluster, leader = founded()
    voter, third = others(cluster, leader)
    for node in cluster.nodes.values():
        node.kill()
    voter.store = MemoryStore()  # The journal holds the founding, and nobody says yet that it is committed.
    voter.start()
    told: list[int] = []

    def watch(_: int, __: int, frame: bytes) -> None:
        message = codec.decode(frame)
        if isinstance(message, RejoinTerm):
            told.append(message.nonce)

    cluster.wires.watch = watch
    assert voter.engine.voting
    voter.engine.receive(NodeId(third.id), codec.encode(RejoinAsk(7)))
    cluster.run(1.0)
    assert told == []
    leader.start()
    cluster.run_until(lambda: b"acknowledged" in voter.machine.values())
    third.start()
    voter.engine.receive(NodeId(third.id), codec.encode(RejoinAsk(8)))
    cluster.run_until(lambda: told == [8])
