"""What was applied is checked against what is committed; a node whose state follows another history stops by name."""

from collections.abc import Callable
from copy import deepcopy

import pytest

from quorate.consensus.ports import Index, NodeId, StoreOp, Term
from quorate.consensus.raft.applied_check import check_applied, check_offered, known_committed
from quorate.consensus.storage.store import applied_ops, offset_key, read_applied
from quorate.consensus.transport.codec import SnapshotBegin
from quorate.errors import InvariantBrokenError
from quorate.wire.records import assemble
from tests.unit.consensus.raft_cluster import Cluster, Node
from tests.unit.consensus.test_snapshots import behind, same, write


class Terms:
    """A log of these terms, from index 1."""

    def __init__(self, *terms: int) -> None:
        self._terms = terms

    @property
    def last_index(self) -> Index:
        """Of the in-memory image."""
        return Index(len(self._terms))

    def term_at(self, index: Index) -> Term | None:
        """Term of the entry there; None outside the log (its base is inside)."""
        return Term(self._terms[index - 1]) if 1 <= index <= len(self._terms) else None


def stopped(cluster: Cluster, node: Node, within_s: float = 3.0) -> str:
    """Run until the node gave up; its reason."""
    deadline = cluster.time.now + within_s
    while not node.fatal and cluster.time.now < deadline:
        cluster.time.run(0.005)
    assert len(node.fatal) == 1, "it did not stop, or stopped twice"
    assert isinstance(node.fatal[0], InvariantBrokenError)
    return str(node.fatal[0])


def restart(cluster: Cluster, *nodes: Node, while_down: Callable[[], None]) -> None:
    """All of them die, something happens to their disks, and they come back."""
    for node in nodes:
        node.kill()
    while_down()
    for node in nodes:
        node.start()


def test_a_store_ahead_of_a_stale_tail_is_no_contradiction() -> None:
    """After a kill the tail may be stale above what is known to be committed: it says nothing."""
    check_applied(Index(3), Term(2), Index(2), Terms(0, 1, 1))
    check_applied(Index(9), Term(2), Index(9), Terms(0, 1, 1))
    assert known_committed(Index(3), Term(2), Index(2), Index(3), Terms(0, 1, 1)) == 2
    assert known_committed(Index(3), Term(2), Index(2), Index(1), Terms(0, 1, 2)) == 2
    check_offered(Index(2), Term(2), Index(4), Term(2), Terms(0, 1, 1, 1))


def test_another_term_where_it_is_committed_is_one() -> None:
    """Applied in term 2, committed in term 1, or the other way round."""
    for applied, log in ((2, Terms(0, 1, 1)), (1, Terms(0, 1, 2))):
        with pytest.raises(InvariantBrokenError, match=r"applied entry 3 is of term .*member rebuild"):
            check_applied(Index(3), Term(applied), Index(3), log)
    assert known_committed(Index(3), Term(2), Index(1), Index(5), Terms(0, 1, 2)) == 3
    assert known_committed(Index(3), Term(2), Index(1), Index(2), Terms(0, 1, 2)) == 2


def test_a_node_whose_store_followed_another_history_stops() -> None:
    """Its journal is sound, its store applied an entry of another term at the same index."""
    cluster = Cluster(3)
    leader = cluster.elect()
    write(cluster, leader, 5)
    cluster.settle()
    other = next(node for node in cluster.nodes.values() if node is not leader)

    def forge() -> None:
        applied = read_applied(other.store)
        assert applied is not None
        other.store.write(applied_ops(applied.index, applied.term + 5, applied.next_offset, applied.time_ms))

    restart(cluster, other, while_down=forge)
    assert "applied entry" in stopped(cluster, other)


def test_a_leader_that_contradicts_what_was_applied_is_not_followed() -> None:
    """Two voters come back from older copies and write on; the third, restarted, keeps what they lost, and stops."""
    cluster = Cluster(3)
    leader = cluster.elect()
    write(cluster, leader, 5)
    cluster.settle()
    keeper = leader
    others = [node for node in cluster.nodes.values() if node is not keeper]
    copies = [(deepcopy(node.disk), deepcopy(node.store)) for node in others]
    write(cluster, leader, 3, b"acknowledged")
    cluster.settle()
    before = keeper.journal.last_index
    keeper.kill()

    def restore() -> None:
        for node, (disk, store) in zip(others, copies, strict=True):
            node.disk, node.store = disk, store

    restart(cluster, *others, while_down=restore)
    write(cluster, cluster.elect(), 8, b"forged")
    keeper.start()
    assert "contradicts committed entry" in stopped(cluster, keeper)
    assert keeper.journal.last_index == before, "the only copy of what was acknowledged is gone"
    assert keeper.machine.values()[-1] == b"acknowledged 2"


def test_a_snapshot_that_contradicts_what_was_applied_is_not_taken() -> None:
    """At an index that was applied here in another term, and of a log with other events."""
    cluster = Cluster(3)
    leader = cluster.elect()
    write(cluster, leader, 5)
    cluster.settle()
    node = next(node for node in cluster.nodes.values() if node is not leader)
    applied, term = node.engine.applied_index, node.machine.applied_term()
    installer = node.engine._applying.installer
    later = Term(term + 1)
    for index in (applied, Index(applied - 1)):
        with pytest.raises(InvariantBrokenError, match="snapshot there is of term"):
            installer.on_begin(NodeId(leader.id), SnapshotBegin(later, 7, index, later, 5, 0), 0.0)
    with pytest.raises(InvariantBrokenError, match="5 events before entry"):
        installer.on_begin(NodeId(leader.id), SnapshotBegin(later, 8, Index(applied + 9), later, 4, 0), 0.0)


def test_a_snapshot_whose_events_are_not_ours_is_not_taken() -> None:
    """The newest batch of a follower comes again with a snapshot; another one there means another history."""
    cluster, _, lagging = behind()
    key = offset_key(lagging.machine.offset - 1)
    term = lagging.log.stamp_before(lagging.machine.offset)[0]
    forged = assemble([b"forged"], 0, 0, base_offset=lagging.machine.offset - 1, leader_epoch=term)

    def forge() -> None:
        lagging.store.write([StoreOp("events", key, forged)])

    restart(cluster, lagging, while_down=forge)
    cluster.wires.heal()
    assert "are not the leader's" in stopped(cluster, lagging)


def test_a_snapshot_that_continues_ours_is_taken() -> None:
    """The same follower with its own events takes it."""
    cluster, _, lagging = behind()
    restart(cluster, lagging, while_down=lambda: None)
    cluster.wires.heal()
    same(cluster)
    assert lagging.machine.installs == 1
