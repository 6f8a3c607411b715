"""What an adversary's reading of the consensus room turned up: each schedule here broke something once."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.raft.read_rounds import ReadRounds
from quorate.consensus.settings import EngineSettings, SnapshotSettings
from quorate.consensus.storage.store import applied_ops
from quorate.consensus.storage_settings import JournalSettings
from quorate.consensus.transport.codec import AppendEntries, SnapshotBegin, encode
from quorate.errors import StorageError
from tests.unit.consensus.raft_cluster import Cluster, MemoryDisk, Node, VirtualTime

TRIMMED_CLOSE = EngineSettings(
    snapshots=SnapshotSettings(check_period_s=0.05, retain_entries=0, trim_slack_entries=0, resend_s=0.1, timeout_s=2.0)
)


def follower_of(cluster: Cluster, leader: Node) -> Node:
    """One of the others."""
    return next(node for node in cluster.nodes.values() if node is not leader)


def test_a_snapshot_offer_that_comes_late_takes_nothing_back() -> None:
    """A SnapshotBegin below the beginning of the journal (delayed on an old connection) does not reset it: what was
    acknowledged durable stays in it.
    """
    cluster = Cluster(3, settings=TRIMMED_CLOSE)
    leader = cluster.elect()
    for i in range(30):
        assert leader.propose(b"entry %d" % i) is not None
    cluster.settle()
    follower = follower_of(cluster, leader)
    cluster.run_until(lambda: follower.journal.base_index > 20)
    follower.engine._applying.trimmer.stop()
    for i in range(5):
        assert leader.propose(b"later %d" % i) is not None
    cluster.settle()
    base, last = follower.journal.base_index, follower.journal.last_index
    late = SnapshotBegin(leader.engine.term, 7, Index(10), leader.engine.term, 8, 0)
    follower.engine.receive(NodeId(leader.id), encode(late))
    cluster.run(0.005)
    assert (follower.journal.base_index, follower.journal.last_index) == (base, last)
    assert leader.propose(b"and on") is not None
    cluster.settle()


def test_a_tail_that_nobody_verified_is_not_trimmed() -> None:
    """A kill can leave the store ahead of a truncation that never reached the journal: an entry at or below the applied
    index is then still one that was never committed. The journal must not come to begin at it.
    """
    cluster = Cluster(3, settings=TRIMMED_CLOSE, start=False)
    for node in cluster.nodes.values():
        stale = 1 if node.id == 3 else 2
        journal = Journal.open(node.disk, _Now(), cluster.journal, cluster.time)
        journal.set_vote(2, None)
        for i in range(2, 6):
            journal.append(i, 1 if i < 4 else stale, b"entry %d of %d" % (i, 1 if i < 4 else stale))
        journal.flush()
    survivor = cluster.nodes[3]
    survivor.store.write([*applied_ops(5, 2, 0, 0)])
    survivor.start()
    cluster.run(0.4)
    assert survivor.journal.base_index <= 3
    for node in (cluster.nodes[1], cluster.nodes[2]):
        node.start()
    cluster.run_until(lambda: cluster.leader is not None and survivor.engine.applied_index >= 6)
    assert survivor.journal.term_at(survivor.journal.last_index) == cluster.leader.engine.term  # type: ignore[union-attr]


class _Now:
    """A DiskWorker that does it at once."""

    def submit(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        job()
        done()

    def pending(self) -> int:
        return 0


class _Interleaved:
    """A DiskWorker whose jobs run when told to, and whose reports come later still: a thread, played by hand."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.ended: list[Callable[[], None]] = []

    def submit(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        self.jobs.append((job, done))

    def pending(self) -> int:
        return len(self.jobs) + len(self.ended)

    def work(self) -> None:
        """Finish one job, as the thread may at any moment."""
        if self.jobs:
            job, done = self.jobs.pop(0)
            job()
            self.ended.append(done)

    def report(self) -> None:
        """Run what the loop was told of."""
        while self.ended:
            self.ended.pop(0)()


def test_a_sync_that_ends_while_another_is_reported_is_not_forgotten() -> None:
    """Wherever the disk thread finishes its next write while the loop takes a report, both come to count: nobody waits
    for a sync that has long been done.
    """
    for step in range(8):
        worker = _Interleaved()
        journal = Journal.open(MemoryDisk(), worker, JournalSettings(), VirtualTime())
        for index in (2, 3):
            journal.append(index, 1, b"entry")
            journal.flush()
            if index == 2:
                worker.work()
        _interrupt(Journal._written, step, worker.work, worker.report)
        worker.work()
        worker.report()
        assert journal.durable_seq == journal.seq, f"interrupted before line {step}"
        assert journal.oldest_unsynced_since() is None


def _interrupt(function: Any, step: int, event: Callable[[], None], run: Callable[[], None]) -> None:
    """``run``, with ``event`` happening before the ``step``-th line of the first call of ``function``."""
    lines = 0

    def trace(frame: FrameType, what: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code is not function.__code__:
            return None
        if what == "line":
            if lines == step:
                sys.settrace(None)
                event()
                sys.settrace(trace)
            lines += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)


def test_a_read_is_answered_once_whatever_its_answer_causes() -> None:
    """A caller that makes the node stop leading from within its answer does not get others answered twice."""
    rounds = ReadRounds(NodeId(1), 1, 10)
    answers: list[tuple[str, Index | None]] = []

    def first(index: Index | None) -> None:
        answers.append(("first", index))
        rounds.fail()

    rounds.add(9.0, first)
    rounds.count(rounds.begin(Term(1), Index(5)), Term(1), NodeId(1))
    rounds.add(9.0, lambda index: answers.append(("second", index)))
    rounds.count(rounds.begin(Term(1), Index(6)), Term(1), NodeId(1))
    rounds.answer(Index(6))
    assert answers == [("first", 5), ("second", None)]
    assert len(rounds) == 0


def test_a_store_that_fails_when_the_leader_goes_stops_the_node() -> None:
    """Dropping a half-received snapshot reads the store: its error is as final there as anywhere."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    follower = follower_of(cluster, leader)

    def broken() -> None:
        raise StorageError("store: gone")

    follower.engine._applying.installer.drop = broken  # type: ignore[method-assign]
    follower.engine.peer_disconnected(NodeId(leader.id))
    assert [str(error) for error in follower.fatal] == ["store: gone"]
    follower.fatal.clear()


@pytest.mark.parametrize("sync_s", [0.1, 0.2, 0.3])
def test_slow_disks_elect_a_leader_in_a_few_terms(sync_s: float) -> None:
    """A candidacy and a vote are each one sync; candidates wait for them rather than begin again and again."""
    for seed in range(1, 5):
        cluster = Cluster(3, seed=seed)
        leader = cluster.elect()
        cluster.settle()
        term = leader.engine.term
        for node in cluster.nodes.values():
            node.worker.delay = sync_s
        leader.kill()
        cluster.run_until(lambda cluster=cluster: cluster.leader, limit=3.0)  # type: ignore[misc]
        assert cluster.leader is not None and cluster.leader.engine.term - term <= 4


def test_an_old_message_of_this_term_takes_nothing_back() -> None:
    """An AppendEntries that arrives long after its successors changes neither log nor commit index."""
    cluster = Cluster(3)
    leader = cluster.elect()
    for i in range(10):
        assert leader.propose(b"entry %d" % i) is not None
    cluster.settle()
    follower = follower_of(cluster, leader)
    first = leader.journal.entries(2, 1000, 3)
    last, commit = follower.journal.last_index, follower.engine.commit_index
    late = AppendEntries(leader.engine.term, 1, Index(1), Term(0), Index(2), tuple(first))
    follower.engine.receive(NodeId(leader.id), encode(late))
    cluster.run(0.02)
    assert follower.journal.last_index == last and follower.engine.commit_index >= commit
