"""The engine among others of its kind: elections, commits, reads, handovers, disks that stall, and what it refuses."""

import hashlib
import inspect
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from pysyncobj import syncobj

from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.raft.caught_up import CAUGHT_UP_S
from quorate.consensus.raft.pysyncobj_engine import PYSYNCOBJ_SHA256, check_pysyncobj
from quorate.consensus.settings import EngineSettings
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import Ack, Alive, AppendEntries, PreVote, RequestVote, VoteGranted
from quorate.errors import InvariantBrokenError, PeerError, StorageError, UsageError
from quorate.events import UnknownSchemaError
from tests.unit.consensus.raft_cluster import Cluster, Node

SIZES = pytest.mark.parametrize("count", [1, 3, 5])


def write(cluster: Cluster, node: Node, count: int, prefix: bytes = b"value") -> None:
    """Commit ``count`` entries through the node."""
    before = node.machine.offset
    for i in range(count):
        assert node.propose(b"%s %d" % (prefix, i)) is not None
    cluster.run_until(lambda: node.machine.offset == before + count)


@SIZES
def test_a_cluster_elects_one_leader_and_commits_everywhere(count: int) -> None:
    """One node may decide, in one term; what it proposes is executed on all nodes in order."""
    cluster = Cluster(count)
    leader = cluster.elect()
    write(cluster, leader, 100)
    cluster.settle()
    assert all(node.machine.values() == leader.machine.values() for node in cluster.nodes.values())
    assert {node.engine.leader_id for node in cluster.nodes.values()} == {leader.id}
    assert [(term, cause.kind) for term, cause in leader.machine.terms if cause] == [(1, "first start")]


@SIZES
def test_a_minority_may_die_and_come_back(count: int) -> None:
    """With a majority left the cluster goes on; the dead get what they missed, also after losing unsynced bytes."""
    cluster = Cluster(count)
    leader = cluster.elect()
    write(cluster, leader, 20)
    dead = [node for node in cluster.nodes.values() if node is not leader][: (count - 1) // 2]
    for node in dead:
        node.kill(power_loss=True)
    write(cluster, leader, 20, b"meanwhile")
    for node in dead:
        node.start()
    cluster.settle()
    assert len(leader.machine.values()) == 40


@SIZES
def test_all_nodes_may_lose_power_at_once(count: int) -> None:
    """After a power loss of every node, what was committed is there, and the cluster goes on."""
    cluster = Cluster(count)
    write(cluster, cluster.elect(), 50)
    for node in cluster.nodes.values():
        node.kill(power_loss=True)
    for node in cluster.nodes.values():
        node.start()
    leader = cluster.elect()
    cluster.run_until(lambda: len(leader.machine.values()) == 50)
    write(cluster, leader, 5, b"again")
    cluster.settle()


@pytest.mark.parametrize("seed", range(8))
def test_a_killed_leader_is_replaced_within_100_ms(seed: int) -> None:
    """Closed connections are the hint: another node decides within 100 ms, and says why it does."""
    cluster = Cluster(3, seed=seed)
    leader = cluster.elect()
    cluster.run(0.5)
    leader.kill()
    assert cluster.run_until(lambda: cluster.leader) <= 0.1
    new = cluster.leader
    assert new is not None
    cause = new.machine.terms[-1][1]
    assert cause is not None
    assert (cause.kind, cause.previous_leader) == ("connection closed", leader.id)


def test_a_silent_leader_is_replaced_within_two_timeouts() -> None:
    """A leader cut off without a closed connection is replaced, steps down, and takes no proposal."""
    cluster = Cluster(3)
    old = cluster.elect()
    cluster.run(0.2)
    cluster.wires.isolate(old.id)
    limit = 2 * cluster.settings.election_timeout_max_s
    others = [node for node in cluster.nodes.values() if node is not old]
    assert cluster.run_until(lambda: any(node.engine.decidable_term() for node in others)) <= limit
    new = next(node for node in others if node.engine.decidable_term())
    cause = new.machine.terms[-1][1]
    assert cause is not None
    assert (cause.kind, cause.previous_leader) == ("silent", old.id)
    assert cause.silent_for_ms >= 400
    cluster.run_until(lambda: not old.engine.is_leader, limit)
    assert old.machine.terms[-1] == (1, None)
    assert old.engine.propose(b"too late", Term(1)) is None


def test_a_leader_that_is_silent_is_nobodys_leader() -> None:
    """Cut off with every connection open, a follower says after the longest timeout that it knows no leader, although
    nobody can be elected; it says so until it hears one again.
    """
    cluster = Cluster(3)
    leader = cluster.elect()
    alone = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.run(0.2)
    cluster.wires.isolate(alone.id)
    cluster.run(cluster.settings.election_timeout_max_s - 0.1)
    known = [alone.engine.leader_id]
    for seconds in (0.2, 5):
        cluster.run(seconds)
        known.append(alone.engine.leader_id)
    assert known == [leader.id, None, None]
    assert leader.engine.leader_id == leader.id
    cluster.wires.heal()
    cluster.run_until(lambda: alone.engine.leader_id == leader.id)


def test_leadership_lost_is_told_before_a_proposal_can_be_refused() -> None:
    """At the very frame that deposes it the machine hears of the loss; no proposal of the old term is taken after."""
    cluster = Cluster(3)
    leader = cluster.elect()
    other = next(node for node in cluster.nodes.values() if node is not leader)
    told: list[Index | None] = []

    def leadership(term: Term, cause: object) -> None:
        told.append(leader.engine.propose(b"in the callback", term))

    leader.machine.leadership = leadership  # type: ignore[method-assign]
    notice = codec.encode(codec.TermNotice(Term(7)))
    leader.engine.receive(NodeId(other.id), notice)
    assert told == [None]
    assert leader.engine.term == 7


def test_an_isolated_node_disturbs_nobody_when_it_returns() -> None:
    """Pre-vote: a node that could not hear anybody did not raise its term, so its return deposes no leader."""
    cluster = Cluster(3)
    leader = cluster.elect()
    lonely = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.wires.isolate(lonely.id)
    cluster.run(10)
    assert lonely.engine.term == 1
    cluster.wires.heal()
    cluster.run(3)
    assert leader.engine.decidable_term() == 1


def test_one_broken_link_changes_no_leader() -> None:
    """Stickiness: a follower cut off from the leader alone cannot depose it through the others."""
    cluster = Cluster(3)
    leader = cluster.elect()
    other = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.wires.cut |= {(leader.id, other.id), (other.id, leader.id)}
    cluster.run(20)
    assert leader.engine.decidable_term() == 1


def test_an_idle_cluster_never_changes_its_leader() -> None:
    """Without a fault there is no election."""
    cluster = Cluster(5)
    leader = cluster.elect()
    cluster.run(60)
    assert leader.engine.decidable_term() == 1


def test_a_newer_term_with_a_shorter_log_and_an_older_term_with_a_longer_log_agree() -> None:
    """The pre-vote answer carries the term: two nodes that refuse each other's pre-votes still find a leader."""
    cluster = Cluster(3)
    leader = cluster.elect()
    write(cluster, leader, 3)
    cluster.settle()
    short, long = [node for node in cluster.nodes.values() if node is not leader]
    cluster.wires.cut |= {(leader.id, short.id), (short.id, leader.id)}
    write(cluster, leader, 3, b"only on two")
    leader.kill()
    short.engine.receive(NodeId(long.id), codec.encode(codec.TermNotice(Term(9))))
    cluster.run_until(lambda: cluster.leader, 5)
    assert cluster.leader is long
    assert long.engine.term > 9


def test_reads_are_linearizable_and_only_on_a_leader_with_a_quorum() -> None:
    """A read is answered at or above everything committed before it; a follower and a cut-off leader answer None."""
    cluster = Cluster(3)
    leader = cluster.elect()
    write(cluster, leader, 10)
    answers: list[Index | None] = []
    leader.engine.read_index(answers.append)
    cluster.run(0.05)
    assert answers == [leader.engine.commit_index]
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    follower.engine.read_index(answers.append)
    assert answers[1:] == [None]
    cluster.wires.isolate(leader.id)
    leader.engine.read_index(answers.append)
    assert len(answers) == 2
    cluster.run(cluster.settings.election_timeout_max_s)
    assert answers[2:] == [None]


def test_a_follower_reads_by_asking_the_leader_once_a_turn() -> None:
    """All reads of a turn share one question; each is answered at or above what was committed before, applied here."""
    cluster = Cluster(3)
    leader = cluster.elect()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    write(cluster, leader, 10)
    asked: list[codec.Message] = []

    def watch(source: int, _target: int, frame: bytes) -> None:
        if source == follower.id and isinstance(codec.decode(frame), codec.ReadAsk):
            asked.append(codec.decode(frame))

    cluster.wires.watch = watch
    committed = leader.engine.commit_index
    answers: list[tuple[Index | None, Index]] = []
    for _ in range(5):
        follower.engine.read_barrier(lambda index: answers.append((index, follower.engine.applied_index)))
    cluster.run(0.05)
    assert len(asked) == 1
    assert len(answers) == 5
    assert all(index is not None and committed <= index <= applied for index, applied in answers)


@pytest.mark.parametrize("size", [3, 5])
def test_the_news_a_follower_must_apply_comes_with_the_index(size: int) -> None:
    """Who asks while a commit is not yet told hears of it before the answer, in a frame of the same flush; who lacks
    nothing is sent the answer alone.
    """
    cluster = Cluster(size)
    leader = cluster.elect()
    cluster.settle()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    before = leader.engine.commit_index
    leader.propose(b"new")
    while leader.engine.commit_index == before:
        cluster.run(0.0001)
    told: list[codec.Message] = []
    cluster.wires.watch = lambda source, target, frame: (
        told.append(codec.decode(frame)) if (source, target) == (leader.id, follower.id) else None
    )
    for expected in ([AppendEntries, codec.ReadIndexIs], [codec.ReadIndexIs]):
        told.clear()
        leader.engine.receive(NodeId(follower.id), codec.encode(codec.ReadAsk(leader.engine.term, 1, counts=True)))
        while not any(isinstance(message, codec.ReadIndexIs) for message in told):
            cluster.run(0.0001)
        kinds = [type(message) for message in told if not isinstance(message, codec.ReadProbe)]
        assert kinds == expected
        assert all(
            message.commit == leader.engine.commit_index for message in told if isinstance(message, AppendEntries)
        )


@pytest.mark.parametrize("size", [1, 3, 5])
def test_no_read_waits_for_a_sync(size: int) -> None:
    """While every disk hangs with writes unfinished, leader and followers confirm reads in a few messages' time; what
    they read is what was committed before.
    """
    cluster = Cluster(size)
    leader = cluster.elect()
    write(cluster, leader, 3)
    cluster.settle()
    committed = leader.engine.commit_index
    for node in cluster.nodes.values():
        node.worker.stuck = True
    assert leader.propose(b"unfinished") is not None
    cluster.run(0.02)
    answers: list[Index | None] = []
    leader.engine.read_index(answers.append)
    for node in cluster.nodes.values():
        node.engine.read_barrier(answers.append)
    cluster.run(6 * cluster.wires.delay)
    assert answers == [committed] * (size + 1)
    assert all(node.engine.commit_index == committed and node.worker.pending() for node in cluster.nodes.values())


def test_a_read_confirmed_before_the_leadership_was_lost_sends_no_entries() -> None:
    """The index is good and is told; but a frame of a leader in a term that is not its own would be a second leader."""
    cluster = Cluster(5)
    leader = cluster.elect()
    cluster.settle()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    told: list[codec.Message] = []
    term, index = leader.engine.term, Index(leader.engine.commit_index + 1)
    leader.engine.step_down("test")
    cluster.wires.watch = lambda source, target, frame: (
        told.append(codec.decode(frame)) if (source, target) == (leader.id, follower.id) else None
    )
    leader.engine._reads.answer_read(NodeId(follower.id), codec.ReadAsk(term, 1, counts=False), index)
    assert told == [codec.ReadIndexIs(term, 1, index)]


@pytest.mark.parametrize("size", [3, 5])
def test_a_follower_does_not_read_past_a_leader_it_cannot_reach(size: int) -> None:
    """Cut off, it answers None in time; with the leader deposed behind its back it never answers an old index."""
    cluster = Cluster(size)
    old = cluster.elect()
    write(cluster, old, 3)
    cluster.settle()
    follower = next(node for node in cluster.nodes.values() if node is not old)
    cluster.wires.isolate(follower.id)
    answers: list[Index | None] = []
    follower.engine.read_barrier(answers.append)
    cluster.run(cluster.settings.read_timeout_s + 0.1)
    assert answers == [None]


@pytest.mark.parametrize(("size", "answered"), [(3, True), (5, False)])
def test_the_asker_s_word_is_a_majority_of_three_only(size: int, answered: bool) -> None:
    """Of three, a leader that hears nobody else answers the follower that asks; of five two know nothing."""
    cluster = Cluster(size)
    leader = cluster.elect()
    cluster.settle()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    told: list[Index] = []

    def watch(source: int, _target: int, frame: bytes) -> None:
        if source == leader.id and isinstance(message := codec.decode(frame), codec.ReadIndexIs):
            told.append(message.index)

    cluster.wires.watch = watch
    for other in cluster.nodes:
        cluster.wires.cut.add((other, leader.id))
    leader.engine.receive(NodeId(follower.id), codec.encode(codec.ReadAsk(leader.engine.term, 1, counts=True)))
    cluster.run(cluster.settings.heartbeat_s)
    assert told == ([leader.engine.commit_index] if answered else [])


def test_a_deposed_leader_answers_no_follower() -> None:
    """A question of an earlier or a later term, and one to a node that does not lead, is answered with no index."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    told: list[Index] = []

    def watch(_source: int, _target: int, frame: bytes) -> None:
        if isinstance(message := codec.decode(frame), codec.ReadIndexIs):
            told.append(message.index)

    cluster.wires.watch = watch
    term = leader.engine.term
    for wrong in (term - 1, term + 1):
        leader.engine.receive(NodeId(follower.id), codec.encode(codec.ReadAsk(Term(wrong), 1, counts=True)))
    follower.engine.receive(NodeId(leader.id), codec.encode(codec.ReadAsk(term, 1, counts=True)))
    assert told == [0, 0, 0]
    leader.engine.receive(NodeId(follower.id), codec.encode(codec.ReadAsk(term, 1, counts=True)))
    assert told[3:] == [leader.engine.commit_index]


@pytest.mark.parametrize(("size", "counts", "at_once"), [(3, True, True), (3, False, False), (5, True, False)])
def test_the_word_of_the_asker_counts_only_where_it_makes_a_majority(size: int, counts: bool, at_once: bool) -> None:
    """With three voters the question is the confirmation, unless the asker forgot its votes; with five it is not."""
    cluster = Cluster(size)
    leader = cluster.elect()
    cluster.settle()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    kinds: list[type[codec.Message]] = []
    cluster.wires.watch = lambda source, _target, frame: (
        kinds.append(type(codec.decode(frame))) if source == leader.id else None
    )
    leader.engine.receive(NodeId(follower.id), codec.encode(codec.ReadAsk(leader.engine.term, 1, counts=counts)))
    cluster.run(0.01)
    probes = kinds[: kinds.index(codec.ReadIndexIs)].count(codec.ReadProbe)
    assert (probes == 0) is at_once


def test_a_leader_does_not_read_before_its_barrier() -> None:
    """A new leader answers no read before its own first entry is applied, however much is committed."""
    cluster = Cluster(3)
    old = cluster.elect()
    write(cluster, old, 5)
    cluster.settle()
    for node in cluster.nodes.values():
        node.worker.delay = 0.05
    old.kill()
    cluster.run_until(lambda: any(node.up and node.engine.is_leader for node in cluster.nodes.values()))
    new = next(node for node in cluster.nodes.values() if node.up and node.engine.is_leader)
    new.engine._leadership.open()
    assert new.engine.decidable_term() == 0
    assert new.propose(b"early") is None
    answers: list[Index | None] = []
    new.engine.read_index(answers.append)
    cluster.run_until(lambda: answers)
    assert answers[0] is not None
    assert answers[0] >= 8
    assert new.engine.decidable_term() == 2


def test_leadership_can_be_handed_over() -> None:
    """The named voter leads at once, in the next term, with everything; the cause says so."""
    cluster = Cluster(3)
    leader = cluster.elect()
    target = next(node for node in cluster.nodes.values() if node is not leader)
    for i in range(20):
        leader.propose(b"%02d" % i)
    cluster.run(0.01)
    assert leader.engine.transfer_leadership(NodeId(target.id))
    assert leader.propose(b"after") is None
    assert leader.machine.terms[-1] == (1, None)
    assert cluster.run_until(target.engine.decidable_term) <= 0.1
    assert target.engine.term == 2
    cause = target.machine.terms[-1][1]
    assert cause is not None
    assert (cause.kind, cause.previous_leader) == ("handed over", leader.id)
    cluster.settle()
    assert len(target.machine.values()) == 20


def test_a_handover_that_fails_ends_in_an_ordinary_election() -> None:
    """If the chosen voter never takes over, the leader steps down after a timeout and somebody leads again."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.run(0.2)
    target = next(node for node in cluster.nodes.values() if node is not leader)
    assert leader.engine.transfer_leadership(NodeId(target.id))
    target.up = False
    cluster.run(0.05)
    assert cluster.leader is None
    target.up = True
    cluster.run_until(lambda: cluster.leader, 4)


def test_nobody_fit_means_no_handover() -> None:
    """A lone node, a follower, and a leader without connected voters cannot hand over."""
    alone = Cluster(1)
    assert not alone.elect().engine.transfer_leadership()
    cluster = Cluster(3)
    leader = cluster.elect()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    assert not follower.engine.transfer_leadership()
    assert not leader.engine.transfer_leadership(NodeId(leader.id))
    cluster.wires.isolate(leader.id)
    assert not leader.engine.transfer_leadership()


def test_a_node_that_steps_down_leads_no_more() -> None:
    """Stepping down is told to the machine and leaves the term without this leader."""
    cluster = Cluster(3)
    leader = cluster.elect()
    leader.engine.step_down("test")
    assert not leader.engine.is_leader
    assert leader.machine.terms[-1] == (1, None)
    cluster.run_until(lambda: cluster.leader)
    assert max(node.engine.term for node in cluster.nodes.values()) == 2


def test_a_commit_needs_durable_copies_on_a_majority() -> None:
    """With the followers' disks stuck nothing commits, although every node has the entry in memory."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    followers = [node for node in cluster.nodes.values() if node is not leader]
    for node in followers:
        node.worker.stuck = True
    leader.propose(b"waits")
    cluster.run(0.3)
    assert {node.journal.last_index for node in cluster.nodes.values()} == {leader.journal.last_index}
    assert leader.machine.values() == []
    followers[0].worker.release()
    cluster.run_until(lambda: leader.machine.values() == [b"waits"])


def test_the_leaders_own_copy_counts_only_when_durable() -> None:
    """With its own disk and a follower's stuck a leader of three commits nothing; with only its own it does."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    leader.worker.stuck = follower.worker.stuck = True
    leader.propose(b"waits")
    cluster.run(0.3)
    assert leader.machine.values() == []
    follower.worker.release()
    cluster.run_until(lambda: leader.machine.values() == [b"waits"])
    assert leader.journal.durable_index < leader.engine.commit_index


def test_a_lone_node_commits_only_what_is_durable() -> None:
    """Also a majority of one has to be on disk."""
    cluster = Cluster(1)
    leader = cluster.elect()
    leader.worker.stuck = True
    leader.propose(b"waits")
    cluster.run(0.3)
    assert leader.machine.values() == []
    leader.worker.release()
    cluster.run_until(lambda: leader.machine.values() == [b"waits"])


def test_a_finished_sync_takes_its_turn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone node's commit asks for one turn, that of the proposal: the sync's end commits, applies and answers."""
    cluster = Cluster(1)
    leader = cluster.elect()
    cluster.run(0.005)
    assert leader.engine._timer is not None
    leader.engine._timer.cancel()
    asked: list[object] = []
    soon = cluster.time.call_soon

    def counted(callback: Callable[[], None]) -> None:
        asked.append(callback)
        soon(callback)

    monkeypatch.setattr(cluster.time, "call_soon", counted)
    index = leader.propose(b"alone")
    cluster.run_until(lambda: leader.engine.applied_index == index)
    assert len(asked) == 1


def test_stuck_disks_of_followers_depose_nobody() -> None:
    """Acks that wait for a disk are replaced by signs of life: check-quorum keeps the leader."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    for node in cluster.nodes.values():
        if node is not leader:
            node.worker.stuck = True
    leader.propose(b"held")
    cluster.run(1.9)
    assert leader.engine.decidable_term() == 1


def test_a_vote_leaves_only_when_it_is_durable() -> None:
    """A voter whose disk is stuck does not answer a candidate; when it is released the vote arrives."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    leader.kill()
    voter, candidate = [node for node in cluster.nodes.values() if node.up]
    frames: list[codec.Message] = []
    cluster.wires.watch = lambda source, _, frame: frames.append(codec.decode(frame)) if source == voter.id else None
    cluster.wires.cut.add((candidate.id, voter.id))
    voter.worker.stuck = True
    voter.engine._elections.timing.leader_alive = False
    ask = RequestVote(Term(5), 77, candidate.journal.last_index, candidate.journal.last_term, handover=False)
    voter.engine.receive(NodeId(candidate.id), codec.encode(ask))
    cluster.run(0.2)
    assert voter.engine.term == 5
    assert not [frame for frame in frames if isinstance(frame, VoteGranted)]
    voter.worker.release()
    cluster.run(0.05)
    assert [frame for frame in frames if isinstance(frame, VoteGranted)] == [VoteGranted(Term(5), 77)]


def test_a_node_does_not_stand_while_its_disk_is_stuck() -> None:
    """Its vote for itself could not become durable: it asks for no pre-vote until the disk moves again."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    stuck, other = [node for node in cluster.nodes.values() if node is not leader]
    other.kill()
    stuck.worker.stuck = True
    leader.propose(b"makes it busy")
    cluster.run(0.2)
    asked: list[float] = []

    def watch(source: int, _: int, frame: bytes) -> None:
        if source == stuck.id and isinstance(codec.decode(frame), PreVote):
            asked.append(cluster.time.now)

    cluster.wires.watch = watch
    leader.kill()
    cluster.run(3)
    assert asked == []
    stuck.worker.release()
    other.start()
    cluster.run_until(lambda: asked)
    cluster.run_until(lambda: cluster.leader)


def test_a_leader_with_a_stuck_disk_steps_down_and_then_stops() -> None:
    """The watchdog: after the first limit somebody else leads, after the second the node is stopped."""
    cluster = Cluster(3, settings=EngineSettings(disk_stall_step_down_s=1.0, disk_stall_fatal_s=3.0))
    leader = cluster.elect()
    leader.worker.stuck = True
    leader.propose(b"never synced here")
    cluster.time.run(1.5)
    assert not leader.engine.is_leader
    cluster.time.run(3)
    assert [type(error) for error in leader.fatal] == [StorageError]
    leader.fatal.clear()
    leader.up = False
    cluster.run_until(lambda: cluster.leader)


def test_time_that_a_node_slept_is_not_its_disks() -> None:
    """A node that was stopped for longer than the second limit lives, if its disk answers then; if not, it does not."""
    cluster = Cluster(1, settings=EngineSettings(disk_stall_step_down_s=1.0, disk_stall_fatal_s=3.0))
    node = cluster.elect()
    for answers in (True, False):
        node.worker.stuck = True
        node.propose(b"on its way to the disk")
        cluster.time.run(0.1)
        cluster.time.now += 20
        cluster.time.run(0.1)
        assert node.fatal == []
        if answers:
            node.worker.release()
            cluster.run_until(node.engine.decidable_term)
    cluster.time.run(4)
    assert [type(error) for error in node.fatal] == [StorageError]


def test_slices_are_bounded_and_complete() -> None:
    """A long committed backlog is applied in many slices, in order, with nothing left out."""
    cluster = Cluster(3, settings=EngineSettings(apply_slice_entries=3))
    leader = cluster.elect()
    slices: list[int] = []
    applied = leader.machine.applied

    def counting() -> None:
        slices.append(len(leader.machine._pending))
        applied()

    leader.machine.applied = counting  # type: ignore[method-assign]
    write(cluster, leader, 50)
    assert max(slices) <= 3
    assert sum(slices) == 50


def test_a_lagging_follower_is_fed_in_bounded_messages() -> None:
    """Neither the entries of one message nor the bytes in flight exceed their limits, and the follower catches up."""
    settings = EngineSettings(append_entries=4, append_bytes=400, window_bytes=1000)
    cluster = Cluster(3, settings=settings)
    leader = cluster.elect()
    lagging = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.wires.isolate(lagging.id)
    write(cluster, leader, 100, b"x" * 50)
    sizes: list[int] = []

    def watch(_: int, target: int, frame: bytes) -> None:
        message = codec.decode(frame)
        if target == lagging.id and isinstance(message, AppendEntries):
            sizes.append(len(message.entries))
            assert leader.engine._replication.flows[NodeId(target)].bytes_in_flight <= 1000 + 400

    cluster.wires.watch = watch
    cluster.wires.heal()
    cluster.settle()
    assert max(sizes) == 4
    assert lagging.machine.values() == leader.machine.values()


def moments_behind(cluster: Cluster, node: Node, committed: int) -> int:
    """Let it apply so much; how many times it knew a leader, and said that it had not caught up. It never said it had
    before it was so.
    """
    behind = 0
    while not node.engine.caught_up:
        behind += node.engine.leader_id is not None
        cluster.run(0.001)
        assert node.engine.applied_index >= committed or not node.engine.caught_up
    return behind


@pytest.mark.parametrize("anew", [False, True], ids=["restarted", "cut off for longer than it may lag"])
def test_a_follower_that_is_behind_says_so_until_it_has_applied_what_was_committed(anew: bool) -> None:
    """It knows its leader long before; a leader of the same term, as a restarted node finds it."""
    cluster = Cluster(3, settings=EngineSettings(append_entries=4, append_bytes=400, window_bytes=400))
    leader = cluster.elect()
    write(cluster, leader, 10)
    cluster.settle()
    lagging = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.run_until(lambda: lagging.engine.caught_up)
    if anew:
        cluster.wires.isolate(lagging.id)
        cluster.run(CAUGHT_UP_S + 1)
        write(cluster, leader, 200)
        assert not lagging.engine.caught_up
        cluster.wires.heal()
    else:
        lagging.kill()
        write(cluster, leader, 200)
        lagging.start()
    assert moments_behind(cluster, lagging, leader.engine.commit_index) > 10
    assert lagging.engine.term == leader.engine.term
    assert lagging.machine.values() == leader.machine.values()


def test_a_change_of_leaders_leaves_those_caught_up_who_were() -> None:
    """Neither its followers nor the new leader say otherwise at any moment: nobody who asks sees it come and go."""
    cluster = Cluster(5)
    cluster.elect().kill()
    write(cluster, cluster.elect(), 10)
    cluster.settle()
    rest = [node for node in cluster.nodes.values() if node.up]
    cluster.run_until(lambda: all(node.engine.caught_up for node in rest))
    rest.remove(first := cluster.elect())
    first.kill()
    while cluster.leader is None:
        cluster.run(0.001)
        assert all(node.engine.caught_up for node in rest)
    write(cluster, cluster.elect(), 10)
    assert all(node.engine.caught_up for node in rest)


@SIZES
def test_a_leader_of_restarted_nodes_has_caught_up_when_its_own_entry_is_applied(count: int) -> None:
    """Before, it does not know what is committed; and neither do those who follow it."""
    cluster = Cluster(count)
    write(cluster, cluster.elect(), 10)
    cluster.settle()
    for node in cluster.nodes.values():
        node.kill()
    for node in cluster.nodes.values():
        node.start()
    while cluster.leader is None:
        assert not any(node.engine.caught_up for node in cluster.nodes.values())
        cluster.run(0.0005)
    assert cluster.leader.engine.caught_up
    cluster.run_until(lambda: all(node.engine.caught_up for node in cluster.nodes.values()))


def test_many_proposals_of_one_turn_are_one_message() -> None:
    """What is proposed in one loop turn travels in one AppendEntries per follower."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    counts: list[int] = []

    def watch(_: int, target: int, frame: bytes) -> None:
        message = codec.decode(frame)
        if isinstance(message, AppendEntries) and message.entries:
            counts.append(len(message.entries))

    cluster.wires.watch = watch
    for i in range(64):
        leader.propose(b"%02d" % i)
    cluster.run(0.01)
    assert counts == [64, 64]


def sent_appends(cluster: Cluster) -> list[tuple[int, AppendEntries]]:
    """The AppendEntries that leave from now on, each with the node it goes to."""
    found: list[tuple[int, AppendEntries]] = []

    def watch(_: int, target: int, frame: bytes) -> None:
        message = codec.decode(frame)
        if isinstance(message, AppendEntries):
            found.append((target, message))

    cluster.wires.watch = watch
    return found


def test_a_commit_index_travels_with_the_next_entries() -> None:
    """While entries keep coming no frame is sent for a commit index alone; followers know it with the next entries."""
    cluster = Cluster(3, settings=EngineSettings(commit_news_s=0.02))
    leader = cluster.elect()
    cluster.settle()
    sent = sent_appends(cluster)
    for i in range(4):
        write(cluster, leader, 1, b"%d" % i)
    alone = [message for _, message in sent if not message.entries and message.commit == leader.engine.commit_index]
    assert not alone
    assert [message.commit - message.prev_index for _, message in sent if message.entries] == [0] * 8


def test_no_turn_is_taken_for_news_that_entries_took_along() -> None:
    """The moment a commit index may wait ends, and every follower was sent it with entries: nothing is due."""
    cluster = Cluster(3, settings=EngineSettings(commit_news_s=0.02))
    leader = cluster.elect()
    cluster.settle()
    write(cluster, leader, 1)
    leader.propose(b"takes it along")
    cluster.run(0.0)
    assert leader.engine._replication._news_timer is not None
    leader.engine._replication._on_news_timer()
    assert not leader.engine._turns.asked


def test_a_commit_index_alone_is_told_soon_and_not_acknowledged() -> None:
    """When no entries follow, the commit index goes by itself, before any heartbeat; nobody answers that."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    acks: list[Ack] = []

    def watch(_: int, target: int, frame: bytes) -> None:
        message = codec.decode(frame)
        if isinstance(message, Ack):
            acks.append(message)

    cluster.wires.watch = watch
    start = cluster.time.now
    write(cluster, leader, 1)
    cluster.run_until(lambda: all(node.machine.offset == leader.machine.offset for node in cluster.nodes.values()))
    assert cluster.time.now - start < EngineSettings().heartbeat_s / 2
    cluster.run(0.002)
    assert len(acks) == 2


def test_an_acknowledgement_lost_with_its_link_is_said_again() -> None:
    """Whoever reconnects is answered at once, however lately the same was acknowledged on the old connection."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    follower, other = (node for node in cluster.nodes.values() if node is not leader)
    cluster.wires.isolate(other.id)
    cluster.wires.cut.add((follower.id, leader.id))
    index = leader.propose(b"value")
    cluster.run(0.005)
    assert leader.engine.commit_index < (index or 0)
    cluster.wires.cut.discard((follower.id, leader.id))
    for one, two in ((leader, follower), (follower, leader)):
        one.engine.peer_disconnected(NodeId(two.id))
        one.engine.peer_connected(NodeId(two.id))
    took = cluster.run_until(lambda: leader.engine.commit_index == index)
    assert took < EngineSettings().heartbeat_s / 2


def test_a_failing_machine_stops_the_node() -> None:
    """An error while applying is told once, and the node does nothing more."""
    cluster = Cluster(1)
    leader = cluster.elect()
    leader.machine.fail_on = b"poison"
    leader.propose(b"poison")
    cluster.time.run(1)
    assert [type(error) for error in leader.fatal] == [ValueError]
    assert leader.propose(b"more") is None


def test_what_one_node_cannot_decode_stops_that_node_and_nobody_else() -> None:
    """A committed entry is nobody's malformed frame: the node that cannot read it stops at once, and is not elected."""
    cluster = Cluster(3)
    leader = cluster.elect(1)
    older = cluster.nodes[2]
    older.machine.fail_on, older.machine.failure = b"of a later version", UnknownSchemaError(999)
    leader.propose(b"of a later version")
    cluster.time.run(0.1)
    assert [type(error) for error in older.fatal] == [UnknownSchemaError]
    older.fatal.clear()
    older.up = False
    write(cluster, leader, 3)
    assert not leader.engine.transfer_leadership(NodeId(2))


def test_two_leaders_in_one_term_stop_the_node() -> None:
    """A leader that gets an AppendEntries of its own term cannot explain its state."""
    cluster = Cluster(3)
    leader = cluster.elect()
    other = next(node.id for node in cluster.nodes.values() if node is not leader)
    frame = codec.encode(AppendEntries(leader.engine.term, 1, Index(1), Term(0), Index(1), ()))
    leader.engine.receive(NodeId(other), frame)
    assert [type(error) for error in leader.fatal] == [InvariantBrokenError]


def test_an_ack_of_what_was_never_sent_is_the_peers_fault() -> None:
    """It is a PeerError, and neither the commit index nor the leadership changes."""
    cluster = Cluster(3)
    leader = cluster.elect()
    other = next(node.id for node in cluster.nodes.values() if node is not leader)
    commit = leader.engine.commit_index
    lie = Ack(leader.engine.term, 10**6, Index(10**6), reset=False, success=True, counts=True)
    with pytest.raises(PeerError):
        leader.engine.receive(NodeId(other), codec.encode(lie))
    cluster.run(0.1)
    assert leader.engine.decidable_term() == 1
    assert leader.engine.commit_index == commit


@pytest.mark.parametrize("frame", [b"", b"\x3f", codec.encode(Alive(Term(1)))[:-1], codec.app_frame(64, b"")])
def test_a_malformed_frame_changes_nothing(frame: bytes) -> None:
    """PeerError, and the node goes on."""
    cluster = Cluster(3)
    leader = cluster.elect()
    other = next(node.id for node in cluster.nodes.values() if node is not leader)
    with pytest.raises(PeerError):
        leader.engine.receive(NodeId(other), frame)
    with pytest.raises(PeerError):
        leader.engine.receive(NodeId(9), codec.encode(Alive(Term(1))))
    write(cluster, leader, 3)


def test_frames_of_old_terms_are_answered_with_the_term() -> None:
    """A leader or candidate of a past term learns of the present one and steps down."""
    cluster = Cluster(3)
    first = cluster.elect()
    cluster.run(0.2)
    old, target, follower = first.id, *[node.id for node in cluster.nodes.values() if node is not first]
    leader = cluster.elect(target)
    cluster.settle()
    told: list[codec.Message] = []
    cluster.wires.watch = lambda _, receiver, frame: told.append(codec.decode(frame)) if receiver == old else None
    leader.engine.receive(NodeId(old), codec.encode(AppendEntries(Term(1), 1, Index(1), Term(0), Index(1), ())))
    cluster.nodes[follower].engine._elections.timing.leader_alive = False
    stale = RequestVote(Term(1), 5, Index(99), Term(99), handover=False)
    cluster.nodes[follower].engine.receive(NodeId(old), codec.encode(stale))
    assert told.count(codec.TermNotice(Term(2))) == 2


def test_a_pre_vote_needs_an_up_to_date_log() -> None:
    """A voter says no to a shorter log, to an old term, and while it hears its leader."""
    cluster = Cluster(3)
    leader = cluster.elect()
    write(cluster, leader, 5)
    cluster.settle()
    voter, asker = [node for node in cluster.nodes.values() if node is not leader]
    answers: list[bool] = []

    def watch(source: int, _: int, frame: bytes) -> None:
        message = codec.decode(frame)
        if source == voter.id and isinstance(message, codec.PreVoteAnswer):
            answers.append(message.granted)

    cluster.wires.watch = watch
    last, term = voter.journal.last_index, voter.journal.last_term
    good = PreVote(Term(2), 1, last, term)
    voter.engine.receive(NodeId(asker.id), codec.encode(good))
    voter.engine._elections.timing.leader_alive = False
    for question in (
        good,
        PreVote(Term(2), 1, Index(last - 1), term),
        PreVote(Term(1), 1, last, term),
        PreVote(Term(2), 1, Index(last + 9), Term(0)),
    ):
        voter.engine.receive(NodeId(asker.id), codec.encode(question))
    assert answers == [False, True, False, False, False]


def test_reads_beyond_the_limit_are_refused_at_once() -> None:
    """A full table of reads answers None rather than grow."""
    cluster = Cluster(3, settings=EngineSettings(reads_max=2))
    leader = cluster.elect()
    answers: list[Index | None] = []
    for _ in range(3):
        leader.engine.read_index(answers.append)
    assert answers == [None]
    cluster.run(0.05)
    assert len(answers) == 3


def test_stopping_answers_reads_and_ends_all_calls() -> None:
    """After stop every read is answered, nothing is applied or sent, and no proposal is taken."""
    cluster = Cluster(3)
    leader = cluster.elect()
    answers: list[Index | None] = []
    leader.engine.read_index(answers.append)
    leader.engine.stop()
    assert answers == [None]
    assert leader.engine.propose(b"late", Term(1)) is None
    sent: list[int] = []
    cluster.wires.watch = lambda source, _target, _frame: sent.append(source)
    cluster.time.run(2)
    assert leader.id not in sent


@pytest.mark.parametrize("entry", [b"", b"\x01", b"x" * 1025])
def test_entries_of_a_forbidden_size_are_usage_errors(entry: bytes) -> None:
    """Too large, or so small that it could be taken for a no-op."""
    leader = Cluster(1, settings=EngineSettings(max_entry_bytes=1024)).elect()
    with pytest.raises(UsageError):
        leader.propose(entry)


@pytest.mark.parametrize("voters", [(2, 3), (1, 1), (0, 1)])
def test_impossible_voters_are_usage_errors(voters: tuple[int, ...]) -> None:
    """A node is among distinct voters with ids from 1."""
    cluster = Cluster(1, start=False)
    cluster.voters = tuple(NodeId(v) for v in voters)
    with pytest.raises(UsageError):
        cluster.nodes[1].start()


@pytest.fixture
def unchecked() -> Iterator[None]:
    """pysyncobj is looked at anew, by the test and by whoever comes after it."""
    check_pysyncobj.cache_clear()
    yield
    check_pysyncobj.cache_clear()


@pytest.mark.usefixtures("unchecked")
def test_another_pysyncobj_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the version and hash found and those expected; no engine can be made."""
    check_pysyncobj()
    check_pysyncobj.cache_clear()
    monkeypatch.setattr("quorate.consensus.raft.pysyncobj_engine.version", lambda _: "0.3.18")
    with pytest.raises(UsageError, match=r"0\.3\.18 \(sha256 e8bdf.*0\.3\.17 \(sha256 e8bdf"):
        Cluster(1)


@pytest.mark.usefixtures("unchecked")
def test_a_changed_source_of_the_same_version_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line more, be it a comment, and no engine can be made; the error names the hash found and that expected."""
    source = inspect.getsource(syncobj) + "# patched\n"
    changed = ModuleType("syncobj")
    changed.__file__ = str(tmp_path / "syncobj.py")
    Path(changed.__file__).write_text(source, encoding="utf-8")
    monkeypatch.setattr("quorate.consensus.raft.pysyncobj_engine.syncobj", changed)
    found = hashlib.sha256(source.encode()).hexdigest()
    with pytest.raises(UsageError, match=rf"0\.3\.17 \(sha256 {found}\).*0\.3\.17 \(sha256 {PYSYNCOBJ_SHA256}\)"):
        Cluster(1)


def test_a_leader_never_sends_what_it_truncated() -> None:
    """Entries of a lost leadership are not sent again by a later one that has others at the same positions."""
    cluster = Cluster(3)
    first = cluster.elect()
    write(cluster, first, 3)
    cluster.settle()
    second, third = [node for node in cluster.nodes.values() if node is not first]
    start = first.journal.last_index + 1
    cluster.wires.isolate(first.id)
    first.propose(b"lost 1")
    first.propose(b"lost 2")
    cluster.run(0.01)
    cluster.wires.watch = lambda source, _target, frame: (
        cluster.wires.cut.add((second.id, third.id)) if source == second.id and frame[0] == 1 else None
    )
    third.engine._elections.timing.due_at = cluster.time.now + 100
    cluster.run_until(lambda: second.engine.is_leader, 5)
    cluster.run(0.01)
    assert third.journal.last_index < start
    cluster.wires.watch = None
    cluster.wires.cut -= {(first.id, second.id), (second.id, first.id)}
    cluster.run_until(lambda: first.journal.term_at(start) == second.engine.term, 1)
    second.kill()
    cluster.wires.heal()
    third.engine._elections.timing.due_at = cluster.time.now + 100
    cluster.run_until(first.engine.decidable_term, 5)
    assert first.journal.last_index == start + 1
    cluster.settle()
    assert third.journal.term_at(start) == first.journal.term_at(start) == 2


def test_a_candidacy_leaves_only_when_it_is_durable() -> None:
    """A candidate whose disk gets stuck asks nobody for a vote before its own is on it."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.settle()
    candidate, other = [node for node in cluster.nodes.values() if node is not leader]
    other.engine._elections.timing.due_at = cluster.time.now + 100
    other.engine._elections.timing.leader_alive = False
    asked: list[RequestVote] = []

    def watch(source: int, _: int, frame: bytes) -> None:
        message = codec.decode(frame)
        if source == candidate.id and isinstance(message, RequestVote):
            asked.append(message)

    cluster.wires.watch = watch
    cluster.wires.cut |= {(leader.id, candidate.id), (leader.id, other.id)}
    candidate.worker.stuck = True
    candidate.engine._elections.campaign(cluster.time.now)
    cluster.run(0.1)
    assert candidate.engine.term == 2
    assert asked == []
    candidate.worker.release()
    cluster.run(0.01)
    assert {message.term for message in asked} == {2}


def test_the_clip_never_lands_in_an_older_term() -> None:
    """When a majority holds durably only entries of older terms, the commit index does not move (Raft §5.4.2)."""
    cluster = Cluster(3)
    old = cluster.elect()
    write(cluster, old, 3)
    cluster.settle()
    new, third = [node for node in cluster.nodes.values() if node is not old]
    cluster.wires.cut |= {(new.id, old.id), (third.id, old.id)}
    old.propose(b"of the old term")
    cluster.run(0.01)
    floor = new.engine.commit_index
    assert new.journal.last_index == floor + 1
    old.kill()
    third.engine._elections.timing.due_at = cluster.time.now + 100
    new.worker.delay = 0.05
    cluster.run_until(lambda: new.engine.is_leader)
    new.worker.stuck = True  # The old leader's entry is durable at both, the new one's at the third only.
    cluster.run(0.3)
    assert new.journal.durable_index == floor + 1
    assert new.engine._core.match(NodeId(third.id)) == floor + 2
    assert new.engine.commit_index == floor
    new.worker.release()
    cluster.run_until(new.engine.decidable_term)
    assert new.engine.commit_index == floor + 2


def test_a_timer_that_runs_out_early_keeps_nobody_waiting() -> None:
    """A loop rounds delays to milliseconds. When the leader's connection closes, a survivor asks for votes in its slot
    all the same, and not with the next thing that is due at rest.
    """
    cluster = Cluster(3)
    cluster.time.grain_s = cluster.wires.delay
    slot_s = EngineSettings().close_jitter_s
    took = []
    for _ in range(20):
        leader = cluster.elect()
        cluster.run(1.0)
        asked: list[float] = []

        def watch(_source: int, _target: int, frame: bytes, asked: list[float] = asked) -> None:
            if isinstance(codec.decode(frame), PreVote):
                asked.append(cluster.time.now)

        cluster.wires.watch = watch
        began = cluster.time.now
        leader.kill()
        cluster.run_until(lambda asked=asked: asked, step=cluster.wires.delay)  # type: ignore[misc]
        took.append(asked[0] - began)
        cluster.wires.watch = None
        leader.start()
    took.sort()
    assert took[15] < slot_s / 2, took


def test_importing_the_engine_leaves_addresses_readable() -> None:
    """A program that has a node inside goes on asking the kernel how an address is spelled, its own IPv6 ones too."""
    assert socket.inet_ntop(socket.AF_INET6, bytes(15) + b"\x01") == "::1"
    assert socket.inet_ntop(socket.AF_INET, b"\x7f\0\0\x01") == "127.0.0.1"
