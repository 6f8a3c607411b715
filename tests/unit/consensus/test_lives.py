"""A directory that went back to an older copy, or runs twice, is told of the lives it has not lived."""

from collections.abc import Callable

import pytest

from quorate.consensus.ports import NodeId
from quorate.consensus.raft.founding import directory_text
from quorate.consensus.raft.lives import Lives
from quorate.consensus.storage.directory import Directory, Voter, decode_voter
from quorate.consensus.transport.codec import NO_LIFE
from quorate.errors import UsageError
from tests.stand_ins import MemoryVoterFile
from tests.unit.consensus.raft_cluster import Cluster, Node

ONE, TWO = NodeId(1), NodeId(2)
DIRECTORY, LIFE, NEXT, OTHER = (bytes([number]) * 16 for number in range(1, 5))
ACKNOWLEDGED = [b"W1", b"W2", b"W3"]


class Side:
    """A voter's directory and what it was made to forget."""

    def __init__(self, *lived: bytes) -> None:
        self.file = MemoryVoterFile()
        voter = Voter(cluster_id="c", node_id=1, incarnation=directory_text(DIRECTORY))
        self.directory = Directory(self.file, voter)
        for life in lived:
            self.directory.begin(directory_text(life))
        self.forgot: list[str] = []
        self.worker = Held()
        self.lives = Lives(self.directory, self.worker, self._forget)

    def _forget(self, reason: str, done: Callable[[], None]) -> None:
        self.forgot.append(reason)
        self.directory.save_later(self.worker, done, may_not_vote=reason)

    def durable(self) -> Voter:
        """What a crash now would leave."""
        voter = decode_voter(self.file.data or b"")
        assert voter is not None
        return voter


class Held:
    """A DiskWorker that works when it is told."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def submit(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        self.jobs.append((job, done))

    def pending(self) -> int:
        return len(self.jobs)

    def work(self) -> None:
        """All there is."""
        while self.jobs:
            job, done = self.jobs.pop(0)
            job()
            done()


# ── what is said ──


def test_a_life_is_kept_before_it_is_heard() -> None:
    """The link opens when the life is durable; then the next one is told of it, also by a later start."""
    side, opened = Side(OTHER), []
    assert side.lives.met(TWO, DIRECTORY) == NO_LIFE
    assert side.lives.meet(TWO, DIRECTORY, LIFE, NO_LIFE, lambda: opened.append(1))
    assert not opened
    assert not side.durable().met
    side.worker.work()
    assert opened == [1]
    assert side.durable().met[TWO].life == directory_text(LIFE)
    assert side.lives.met(TWO, DIRECTORY) == LIFE
    assert side.lives.met(TWO, OTHER) == NO_LIFE, "another directory of that node: founding.py judges it"


def test_the_same_life_costs_no_write_but_waits_for_the_first() -> None:
    """A link that is opened again is open at once, unless the life is not durable yet."""
    side, opened = Side(OTHER), []
    assert side.lives.meet(TWO, DIRECTORY, LIFE, NO_LIFE, lambda: opened.append(1))
    assert side.lives.meet(TWO, DIRECTORY, LIFE, NO_LIFE, lambda: opened.append(2))
    assert not opened
    side.worker.work()
    assert side.lives.meet(TWO, DIRECTORY, LIFE, LIFE, lambda: opened.append(3))
    assert (opened, side.worker.pending()) == ([1, 2, 3], 0)


def test_of_two_copies_that_greet_at_once_the_second_must_be_told_of_the_first() -> None:
    """Both were told that nobody was met; the later proof is sent back to say hello again."""
    side = Side(OTHER)
    assert side.lives.meet(TWO, DIRECTORY, LIFE, NO_LIFE, lambda: None)
    assert not side.lives.meet(TWO, DIRECTORY, NEXT, NO_LIFE, lambda: None)
    assert side.lives.meet(TWO, DIRECTORY, NEXT, LIFE, lambda: None)


def test_a_life_that_was_not_lived_here_is_forgotten_durably_before_the_node_speaks() -> None:
    """Its own earlier lives and none at all are no news; another one is, and the word waits for the disk."""
    side, spoke = Side(LIFE, NEXT), []
    for told in (NO_LIFE, LIFE, NEXT):
        side.lives.judge(TWO, told, lambda: spoke.append(1))
    assert (len(spoke), side.forgot) == (3, [])
    side.lives.judge(TWO, OTHER, lambda: spoke.append(2))
    assert len(spoke) == 3
    side.worker.work()
    assert spoke[-1] == 2
    assert "node 2 has met this voter in a life that this directory has not lived" in side.durable().may_not_vote


# ── what becomes of a voter that went back ──


def write(cluster: Cluster, node: Node, values: list[bytes]) -> None:
    """Commit them through the node."""
    before = node.machine.offset
    for value in values:
        assert node.propose(value) is not None
    cluster.run_until(lambda: node.machine.offset == before + len(values))


def pair_off(cluster: Cluster, one: Node, two: Node) -> None:
    """These two hear each other; the third hears nobody."""
    cluster.wires.heal()
    (third,) = (node for node in cluster.nodes.values() if node not in {one, two})
    cluster.wires.isolate(third.id)


def acknowledged_by_two(*, lived_since: bool) -> tuple[Cluster, Node, Node, Node, tuple[object, ...]]:
    """A leader, a follower, another one that misses what the two then acknowledge; and a copy of the follower's
    directory, taken before: while it was stopped (another life began since) or while it ran.
    """
    cluster = Cluster(3, lives=True)
    leader = cluster.elect()
    write(cluster, leader, [b"before"])
    cluster.settle()
    follower, other = [node for node in cluster.nodes.values() if node is not leader]
    if lived_since:
        follower.kill()
        copied = follower.copy()
        follower.start()
    else:
        copied = follower.copy()
    cluster.settle()
    pair_off(cluster, leader, follower)
    write(cluster, leader, ACKNOWLEDGED)
    cluster.run_until(lambda: follower.machine.offset == leader.machine.offset)
    return cluster, leader, follower, other, copied


def all_is_there(cluster: Cluster) -> None:
    """Nothing acknowledged is lost, on any node."""
    cluster.settle()
    for node in cluster.nodes.values():
        assert node.machine.values()[:4] == [b"before", *ACKNOWLEDGED]


def test_a_stopped_copy_put_back_loses_no_acknowledged_write() -> None:
    """Block by block, so that nothing on the disk shows it: who meets the voter tells it, and the two that do not hold
    the acknowledged entries elect nobody; once the third is there, all is.
    """
    cluster, leader, follower, other, copied = acknowledged_by_two(lived_since=True)
    follower.kill()
    leader.kill()
    follower.put_back(copied)  # type: ignore[arg-type]
    pair_off(cluster, follower, other)
    follower.start()
    cluster.run(5.0)
    assert not follower.engine.voting
    assert "has not lived" in follower.engine.waits_for
    assert cluster.leader is None, "a majority without what was acknowledged"
    cluster.wires.heal()
    leader.start()
    cluster.run_until(lambda: follower.engine.voting)
    all_is_there(cluster)
    write(cluster, cluster.elect(), [b"after"])
    cluster.settle()


def test_it_stays_told_over_restarts() -> None:
    """What a peer told is durable before the peer forgets the earlier life."""
    cluster, leader, follower, other, copied = acknowledged_by_two(lived_since=True)
    follower.kill()
    leader.kill()
    follower.put_back(copied)  # type: ignore[arg-type]
    pair_off(cluster, follower, other)
    follower.start()
    cluster.run(1.0)
    follower.kill(power_loss=True)
    follower.start()
    assert not follower.engine.voting
    cluster.run(3.0)
    assert cluster.leader is None
    cluster.wires.heal()
    leader.start()
    all_is_there(cluster)


@pytest.mark.parametrize("lived_since", [True, False], ids=["stopped copy", "live copy"])
def test_a_copy_that_says_it_is_one_comes_back_without_a_vote(lived_since: bool) -> None:
    """Put back file by file it stands elsewhere than it was written, taken from a running node or not."""
    cluster, leader, follower, other, copied = acknowledged_by_two(lived_since=lived_since)
    follower.kill()
    leader.kill()
    follower.put_back(copied)  # type: ignore[arg-type]
    follower.voter_file.copied = True
    pair_off(cluster, follower, other)
    follower.start()
    cluster.run(5.0)
    assert cluster.leader is None
    cluster.wires.heal()
    leader.start()
    all_is_there(cluster)


def test_a_peers_copy_is_refused_and_changes_nothing() -> None:
    """Another voter's directory in the place of its own: the start names both, and the copy is as it was."""
    _, leader, follower, _, _ = acknowledged_by_two(lived_since=True)
    follower.kill()
    copied = leader.copy()
    follower.put_back(copied)
    with pytest.raises(UsageError, match=f"belongs to node_id {leader.id}, not {follower.id}"):
        follower.start()
    assert follower.voter_file.data == copied[2].data


def test_an_honest_restart_is_told_nothing() -> None:
    """Lives that a voter lived itself cost it no vote, however often it starts and whoever missed some of them."""
    cluster = Cluster(3, lives=True)
    leader = cluster.elect()
    cluster.settle()
    follower, other = [node for node in cluster.nodes.values() if node is not leader]
    other.kill()
    for _ in range(4):
        follower.kill(power_loss=True)
        follower.start()
        cluster.run(0.5)
        assert follower.engine.voting
    other.start()
    cluster.settle()
    assert all(node.engine.voting for node in cluster.nodes.values())
