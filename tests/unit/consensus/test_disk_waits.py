"""Nothing that a peer or a client waits for is behind a slow disk but the sync it rests on."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from quorate.consensus.journal.frames import segment_name
from quorate.consensus.journal.recovery import JournalDamagedError
from quorate.consensus.ports import Index
from quorate.consensus.settings import EngineSettings, SnapshotSettings
from quorate.errors import StorageError
from tests.unit.consensus.raft_cluster import Cluster, Node
from tests.unit.consensus.test_snapshots import PATIENT, behind

EAGER = EngineSettings(
    snapshots=SnapshotSettings(check_period_s=0.01, retain_entries=4, trim_slack_entries=4), disk_stall_fatal_s=5.0
)
"""Trims as often as it can."""


def slow_store(node: Node, sync_s: float) -> None:
    """From here on a sync of this node's store takes so long, whichever worker does it."""
    node.worker.slow[node.store.sync] = node.store_worker.slow[node.store.sync] = sync_s


def busy_with_the_store(cluster: Cluster) -> bool:
    """Does a sync of the store go on at every node?"""
    syncs = [node.engine._watch._store_syncs for node in cluster.nodes.values()]
    return all(sync.pending() for sync in syncs)


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
        cluster.run(i % 4 * 0.001)  # Not always at the same moment of a sync.
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


# ── linearizable reads while the journal is synced ──


def read_s(cluster: Cluster, node: Node, took: list[float]) -> None:
    """Ask now; how long it took, in virtual seconds, is told when it is answered with an index that is applied."""
    asked, committed = cluster.time.now, max(other.engine.commit_index for other in cluster.nodes.values())

    def answered(index: Index | None) -> None:
        assert index is not None
        assert committed <= index <= node.engine.applied_index
        took.append(cluster.time.now - asked)

    node.engine.read_barrier(answered)


@pytest.mark.parametrize("own_s", [0.004, 0.04])
@pytest.mark.parametrize("size", [3, 5])
def test_a_disk_of_four_milliseconds_stalls_no_read(size: int, own_s: float) -> None:
    """Syncs take 4 ms (of the follower that is read from also ten times that), and one follows the other, for commits
    go on. A read takes the ways of its question and its answer, two (of five voters the question of a follower is no
    majority's, and the leader asks on: four); it waits for no sync.
    """
    cluster = Cluster(size)
    leader = cluster.elect()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    for node in cluster.nodes.values():
        node.worker.delay = own_s if node is follower else 0.004
    took: dict[Node, list[float]] = {leader: [], follower: []}
    began, synced = leader.engine.commit_index, 0
    for i in range(300):
        assert leader.propose(b"entry %d" % i)
        cluster.run(0.0007)  # Not always at the same moment of a sync.
        synced += all(node.journal.oldest_unsynced_since() is not None for node in took)
        for node, times in took.items():
            read_s(cluster, node, times)
    cluster.run(0.1)
    assert leader.engine.commit_index == began + 300
    assert synced > 200
    for node, ways in ((leader, 2), (follower, 2 if size == 3 else 4)):
        assert len(took[node]) == 300
        assert max(took[node]) == pytest.approx(ways * cluster.wires.delay)


# ── reads of entries that left memory ──


def hang(*nodes: Node) -> None:
    """Reads of these nodes' disks do not end from here on; whoever waits for one on the loop fails."""
    for node in nodes:
        node.reader.stuck = node.disk.hangs = True


def answer(nodes: Iterable[Node]) -> None:
    """They do again."""
    for node in nodes:
        node.disk.hangs = False
        node.reader.release()


def with_one_behind(cluster: Cluster) -> tuple[Node, Node]:
    """The leader, and a follower that lacks more than the leader has in memory; they hear each other again."""
    leader = cluster.elect()
    behind = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.wires.isolate(behind.id)
    for i in range(200):
        commit_s(cluster, leader, b"entry %d" % i)
    cluster.wires.heal()
    return leader, behind


def restart_without_stores(cluster: Cluster, *, stuck: bool = False) -> list[Node]:
    """All lose power, and their stores what was never synced: all there is to apply has left memory."""
    nodes = list(cluster.nodes.values())
    for node in nodes:
        node.kill(power_loss=True)
    for node in nodes:
        node.start()
        assert node.engine.applied_index <= 1 < node.journal.last_index
    if stuck:
        hang(*nodes)
    return nodes


def test_a_read_that_hangs_holds_up_only_the_follower_that_lags() -> None:
    """Heartbeats go on and entries are committed with the other follower as fast as ever; then the one that lags gets
    what it lacks.
    """
    cluster = Cluster(3)
    leader, behind = with_one_behind(cluster)
    hang(leader)
    term, lacked = leader.engine.term, behind.journal.last_index
    for i in range(300):
        assert commit_s(cluster, leader, b"later %d" % i) <= 0.006
        cluster.run(0.01)
    assert (leader.engine.is_leader, leader.engine.term, behind.engine.leader_id) == (True, term, leader.id)
    assert (behind.journal.last_index, leader.reader.pending()) == (lacked, 1)
    answer([leader])
    cluster.settle()


def test_a_read_of_the_store_that_hangs_holds_up_only_who_is_sent_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower needs a snapshot, and the leader's store does not answer: heartbeats go on and entries are committed
    with the other follower as fast as ever; then the one that lags gets its state.
    """
    cluster, leader, lagging = behind(settings=PATIENT)
    hang(leader)
    scan = leader.store.scan

    def hanging(*place: Any) -> Iterator[tuple[bytes, bytes]]:
        return map(read, scan(*place))

    def read(pair: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        assert not leader.disk.hangs, "the loop waits for the store"
        return pair

    monkeypatch.setattr(leader.store, "scan", hanging)
    cluster.wires.heal()
    term, had = leader.engine.term, lagging.engine.applied_index
    for i in range(300):
        assert commit_s(cluster, leader, b"later %d" % i) <= 0.006
        cluster.run(0.01)
    assert (leader.engine.is_leader, leader.engine.term, lagging.engine.leader_id) == (True, term, leader.id)
    assert (lagging.engine.applied_index, leader.reader.pending()) == (had, 1)
    answer([leader])
    cluster.settle()
    assert lagging.machine.values() == leader.machine.values()


def test_what_is_applied_late_is_not_waited_for_on_the_loop() -> None:
    """A follower that must read what it applies hears its leader and acknowledges: it is half the majority."""
    cluster = Cluster(3)
    leader = cluster.elect()
    slow, gone = (node for node in cluster.nodes.values() if node is not leader)
    for i in range(200):
        commit_s(cluster, leader, b"entry %d" % i)
    slow.kill(power_loss=True)
    slow.start()
    gone.kill()
    hang(slow)
    cluster.run(0.1)
    for i in range(100):
        assert commit_s(cluster, leader, b"later %d" % i) <= 0.006
    assert slow.engine.commit_index >= leader.engine.commit_index - 1
    assert slow.engine.applied_index <= 1
    answer([slow])
    cluster.settle()


def test_a_leader_that_cannot_read_what_it_must_apply_makes_room() -> None:
    """It could decide nothing. It steps down, and does not stand while its disk keeps it; another opens its term."""
    cluster = Cluster(3)
    leader = cluster.elect()
    for i in range(200):
        commit_s(cluster, leader, b"entry %d" % i)
    nodes = restart_without_stores(cluster, stuck=True)
    cluster.run_until(lambda: any(node.engine.is_leader for node in nodes))
    first = next(node for node in nodes if node.engine.is_leader)
    answer(node for node in nodes if node is not first)
    cluster.run_until(lambda: cluster.leader, limit=4.5)
    assert cluster.leader is not first
    cluster.run(2.0)
    assert cluster.leader is not first
    answer([first])
    cluster.settle()


def test_votes_wait_for_no_read() -> None:
    """Who founded the log decides who votes for whom. A start reads it; from then on it is known."""
    cluster = Cluster(3, founding=True)
    leader = cluster.elect()
    cluster.run_until(lambda: leader.machine.offset)
    for i in range(200):
        commit_s(cluster, leader, b"entry %d" % i)
    nodes = restart_without_stores(cluster, stuck=True)
    cluster.run_until(lambda: any(node.engine.is_leader for node in nodes), limit=2.0)
    answer(nodes)
    cluster.settle()


def test_a_read_that_never_ends_stops_the_node() -> None:
    """Who waits for it would wait for ever: it is said, and the node stops."""
    cluster = Cluster(3, settings=EngineSettings(disk_stall_fatal_s=5.0))
    leader, _ = with_one_behind(cluster)
    hang(leader)
    cluster.run(4.0)
    with pytest.raises(StorageError, match="read of the journal"):
        cluster.run(2.0)


@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_damage_that_a_read_meets_stops_the_node(damage: str) -> None:
    """By the name of the file, and with what to do."""
    cluster = Cluster(3)
    leader, _ = with_one_behind(cluster)
    name = segment_name(1)
    if damage == "changed":
        leader.disk.files[name][1100:1200] = bytes(100)
    else:
        del leader.disk.files[name]
    with pytest.raises(JournalDamagedError, match=f"cannot be read back from {name}: start the node again"):
        cluster.run(1.0)


def test_a_stopped_node_hears_of_no_read() -> None:
    """One that ends after the node has stopped is nobody's."""
    cluster = Cluster(3)
    leader, _ = with_one_behind(cluster)
    hang(leader)
    cluster.run_until(leader.reader.pending)
    leader.engine.stop()
    leader.disk.files.clear()
    answer([leader])
    cluster.run(0.1)
    assert leader.fatal == []
