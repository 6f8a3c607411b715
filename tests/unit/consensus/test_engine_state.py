"""A node that lost its store but not its journal: it votes, it does not lead, and the leader sends it the state."""

import pytest

from quorate.consensus.ports import NodeId
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import NeedState, PreVote, RequestVote
from quorate.errors import UsageError
from tests.stand_ins import MemoryStore
from tests.unit.consensus.raft_cluster import Cluster, Node
from tests.unit.consensus.test_engine_rejoin import sent_by
from tests.unit.consensus.test_snapshots import SETTINGS, same, write


def lose_store(node: Node) -> None:
    """It dies, and what comes back is an empty store beside its journal."""
    node.kill()
    node.store = MemoryStore()


def damaged(count: int = 3, entries: int = 60) -> tuple[Cluster, Node, Node]:
    """A cluster whose journals are trimmed, its leader, and a follower that is down and has lost its store."""
    cluster = Cluster(count, settings=SETTINGS)
    leader = cluster.elect()
    write(cluster, leader, entries)
    cluster.run(0.3)
    cluster.settle()
    node = next(node for node in cluster.nodes.values() if node is not leader)
    assert node.journal.base_index > 1
    lose_store(node)
    return cluster, leader, node


@pytest.mark.parametrize("count", [3, 5])
def test_the_leader_sends_the_state_although_the_logs_match(count: int) -> None:
    """It is not ready before, keeps its journal and its vote, and then has all rows and all events."""
    cluster, leader, node = damaged(count)
    last, term, voted_for = node.journal.last_index, node.journal.term, node.journal.voted_for
    node.start()
    assert node.engine.voting
    assert node.engine.installing
    assert (node.journal.last_index, node.journal.term, node.journal.voted_for) == (last, term, voted_for)
    cluster.run_until(lambda: not node.engine.installing)
    assert node.machine.installs == 1
    write(cluster, leader, 3)
    same(cluster)
    assert not node.directory.may_not_vote


def test_writes_go_on_meanwhile_with_its_acknowledgements() -> None:
    """With the third voter dead, leader and node are the majority; its acknowledgements do not end its snapshot."""
    cluster, leader, node = damaged(entries=300)
    other = next(n for n in cluster.nodes.values() if n not in {leader, node})
    other.kill()
    node.start()
    written = 0
    while node.engine.installing:
        if leader.propose(b"meanwhile") is not None:
            written += 1
        cluster.run(0.003)
    assert written > 3
    cluster.run_until(lambda: leader.machine.offset == 300 + written)
    other.start()
    same(cluster)
    assert node.machine.installs == 1


def test_it_votes_but_never_stands() -> None:
    """Without the leader it helps the third voter to lead, asks for no vote itself, and takes no handover."""
    cluster, leader, node = damaged()
    other = next(n for n in cluster.nodes.values() if n not in {leader, node})
    leader.kill()
    messages = sent_by(cluster, node)
    node.start()
    cluster.run_until(other.engine.decidable_term)
    assert not [message for message in messages if isinstance(message, PreVote | RequestVote)]
    cluster.run_until(lambda: not node.engine.installing)
    assert node.machine.values() == other.machine.values()


def test_it_is_not_handed_the_leadership() -> None:
    """Not while it lacks the state; afterwards it is as good as any."""
    cluster, leader, node = damaged(entries=300)
    node.start()
    cluster.run_until(lambda: leader.engine._replication.flows[NodeId(node.id)].needs_state)
    assert not leader.engine.transfer_leadership(NodeId(node.id))
    same(cluster)
    assert cluster.elect(node.id) is node
    same(cluster)


@pytest.mark.parametrize("after", [0.0, 0.01, 0.03, 0.06, 0.1, 0.2])
@pytest.mark.parametrize("power", [False, True])
def test_a_crash_on_the_way_begins_again(after: float, power: bool) -> None:
    """At any moment of the transfer, by kill or power loss: it ends as if nothing had been."""
    cluster, _, node = damaged(entries=200)
    node.start()
    cluster.run(after)
    node.kill(power_loss=power)
    node.start()
    same(cluster)


def test_a_new_leader_is_asked_anew() -> None:
    """The leader dies in the middle; the next one hears the same question."""
    cluster, leader, node = damaged(entries=300)
    node.start()
    cluster.run_until(lambda: node.engine._applying.installer.active)
    leader.kill()
    cluster.run_until(lambda: cluster.leader)
    leader.start()
    same(cluster)


def test_a_whole_journal_is_replayed_without_asking() -> None:
    """Where the journal still begins with the first entry the state is made from it, also by a lone node."""
    for count in (1, 3):
        cluster = Cluster(count)
        write(cluster, cluster.elect(), 20)
        cluster.settle()
        node = cluster.nodes[1]
        before = node.machine.values()
        lose_store(node)
        messages = sent_by(cluster, node)
        node.start()
        cluster.run_until(lambda node=node: node.engine.applied_index > 20)  # type: ignore[misc]
        assert node.machine.values() == before
        assert node.machine.installs == 0
        assert not [message for message in messages if isinstance(message, NeedState)]


def test_a_lone_node_without_either_refuses_to_start() -> None:
    """Nobody could send it the state; the remedy is in the error, and nothing was changed."""
    cluster = Cluster(1, settings=SETTINGS)
    write(cluster, cluster.elect(), 60)
    cluster.run(0.3)
    node = cluster.nodes[1]
    lose_store(node)
    last = node.journal.last_index
    with pytest.raises(UsageError, match="restore the whole data directory from a backup"):
        node.start()
    assert node.journal.last_index == last


def test_the_question_survives_the_wire() -> None:
    """Encoded and decoded, the same."""
    message = NeedState(7, 1234)  # type: ignore[arg-type]
    assert codec.decode(codec.encode(message)) == message
