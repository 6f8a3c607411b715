"""Nothing that a peer or a client waits for is behind a slow disk but the sync it rests on."""

import pytest

from quorate.consensus.settings import EngineSettings, SnapshotSettings
from quorate.errors import StorageError
from tests.unit.consensus.raft_cluster import Cluster, Node

EAGER = EngineSettings(
    snapshots=SnapshotSettings(check_period_s=0.01, retain_entries=4, trim_slack_entries=4), disk_stall_fatal_s=5.0
)
"""Trims as often as it can."""


def slow_store(node: Node, sync_s: float) -> None:
    """From here on a sync of this node's store takes so long, whichever worker does it."""
    node.worker.slow[node.store.sync] = node.store_worker.slow[node.store.sync] = sync_s


def busy_with_the_store(cluster: Cluster) -> bool:
    """Does a sync of the store go on at every node?"""
    syncs = [node.engine._store_syncs for node in cluster.nodes.values()]
    return all(sync is not None and sync.pending() for sync in syncs)


def commit_s(cluster: Cluster, leader: Node, entry: bytes) -> float:
    """Virtual seconds from a proposal to its commit."""
    index = leader.propose(entry)
    assert index is not None
    return cluster.run_until(lambda: leader.engine.commit_index >= index)


@pytest.mark.parametrize("sync_s", [0.004, 0.4])
def test_a_sync_of_the_store_delays_no_acknowledgement(sync_s: float) -> None:
    """While every node's store is synced, a commit takes as long as ever: two journal syncs and two ways."""
    cluster = Cluster(3, settings=EAGER)
    leader = cluster.elect()
    for node in cluster.nodes.values():
        slow_store(node, sync_s)
    met = 0
    for i in range(300):
        met += busy_with_the_store(cluster)
        assert commit_s(cluster, leader, b"entry %d" % i) <= 0.006
    assert met
    assert all(node.journal.base_index > 1 for node in cluster.nodes.values())
    cluster.settle()


def test_a_sync_of_the_store_delays_no_vote() -> None:
    """The leader dies while the other two sync their stores, for ten seconds: they elect as fast as ever."""
    cluster = Cluster(3, settings=EAGER)
    leader = cluster.elect()
    for node in cluster.nodes.values():
        slow_store(node, 4.0)
    for i in range(100):
        commit_s(cluster, leader, b"entry %d" % i)
    assert busy_with_the_store(cluster)
    leader.kill()
    assert cluster.run_until(lambda: cluster.leader) <= 1.5
    cluster.settle()


def test_a_trim_waits_for_the_store_s_sync() -> None:
    """The journal keeps every entry until the store holds it durably, however long that takes."""
    cluster = Cluster(3, settings=EAGER)
    leader = cluster.elect()
    slow_store(leader, 2.0)
    for i in range(100):
        commit_s(cluster, leader, b"entry %d" % i)
    assert leader.journal.base_index == 1
    assert leader.store.unsynced
    cluster.run(4.0)
    assert leader.journal.base_index > 1


def test_a_sync_of_the_store_that_hangs_stops_the_node() -> None:
    """Nobody waits for it, but the journal would grow without end: it is said, and the node stops."""
    cluster = Cluster(3, settings=EAGER)
    leader = cluster.elect()
    leader.store_worker.stuck = True
    for i in range(100):
        commit_s(cluster, leader, b"entry %d" % i)
    cluster.run(4.0)
    with pytest.raises(StorageError, match="sync of the store"):
        cluster.run(2.0)
