"""Trimming and snapshots: a follower too far behind gets the state, whole or not at all, whatever dies meanwhile."""

import random
from collections import deque
from collections.abc import Callable, Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.ports import Index, NodeId, StoreOp, Term
from quorate.consensus.raft.snapshots import (
    AHEAD,
    Row,
    SnapshotSender,
    pack_batches,
    pack_rows,
    unpack_batches,
    unpack_rows,
)
from quorate.consensus.settings import EngineSettings, SnapshotSettings
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import (
    SNAPSHOT_ARRIVING,
    SNAPSHOT_DONE,
    SNAPSHOT_UNKNOWN,
    SnapshotAck,
    SnapshotBegin,
    SnapshotChunk,
)
from quorate.errors import PeerError
from tests.unit.consensus.raft_cluster import JOURNAL, Cluster, Node

SNAPSHOTS = SnapshotSettings(
    check_period_s=0.05, retain_entries=10, trim_slack_entries=5, chunk_bytes=300, window_chunks=2, resend_s=0.1,
    timeout_s=2.0,
)  # fmt: skip
SETTINGS = EngineSettings(snapshots=SNAPSHOTS)
PATIENT = EngineSettings(snapshots=msgspec.structs.replace(SNAPSHOTS, timeout_s=30.0))
FAMILIES = st.sampled_from(["rows", "requests", "groups"])


def write(cluster: Cluster, node: Node, count: int, prefix: bytes = b"value") -> None:
    """Commit ``count`` entries through the node."""
    before = node.machine.offset
    for i in range(count):
        assert node.propose(b"%s %d" % (prefix, i)) is not None
    cluster.run_until(lambda: node.machine.offset == before + count)


def behind(count: int = 3, entries: int = 100, settings: EngineSettings = SETTINGS) -> tuple[Cluster, Node, Node]:
    """A cluster, its leader, and a follower (still cut off) whose next entries are trimmed."""
    cluster = Cluster(count, settings=settings)
    leader = cluster.elect()
    write(cluster, leader, 20, b"early")
    cluster.settle()
    lagging = next(node for node in cluster.nodes.values() if node is not leader)
    cluster.wires.isolate(lagging.id)
    write(cluster, leader, entries)
    cluster.run(0.3)
    assert leader.journal.base_index > lagging.journal.last_index
    return cluster, leader, lagging


def batches(node: Node) -> list[bytes]:
    """The node's whole event log."""
    return [batch for *_, batch in node.log.batches_from(0)]


def same(cluster: Cluster) -> None:
    """All nodes have the same rows and, byte for byte, the same events; nothing is under way."""
    cluster.settle()
    assert len({tuple(batches(node)) for node in cluster.nodes.values()}) == 1
    assert len({tuple(node.machine.values()) for node in cluster.nodes.values()}) == 1
    assert all(node.engine.voting and not node.engine.installing for node in cluster.nodes.values())


def test_the_journal_is_trimmed_below_what_the_store_synced() -> None:
    """Every node keeps the retained tail and no much more; a power loss of all afterwards loses nothing."""
    cluster = Cluster(3, settings=SETTINGS)
    leader = cluster.elect()
    write(cluster, leader, 200)
    cluster.run(0.5)
    for node in cluster.nodes.values():
        assert node.engine.applied_index - node.journal.base_index <= 15
        node.kill(power_loss=True)
        assert node.store.last("rows") is not None
    for node in cluster.nodes.values():
        node.start()
    leader = cluster.elect()
    cluster.run_until(lambda: len(leader.machine.values()) == 200)
    same(cluster)


def test_nothing_is_trimmed_before_the_store_is_synced() -> None:
    """While the store's sync hangs the journal keeps everything."""
    cluster = Cluster(1, settings=SETTINGS)
    leader = cluster.elect()
    syncs: list[int] = []
    leader.store.sync = lambda: syncs.append(leader.journal.base_index)  # type: ignore[method-assign]
    write(cluster, leader, 100)
    cluster.run(0.2)
    assert syncs
    assert syncs[0] == 1
    assert leader.journal.base_index > 1


def test_large_entries_are_retained_in_smaller_number() -> None:
    """The bytes on disk bound what is retained."""
    small = SnapshotSettings(check_period_s=0.05, retain_entries=1000, trim_slack_entries=5, retain_bytes=64 * 1024)
    cluster = Cluster(1, settings=EngineSettings(snapshots=small))
    leader = cluster.elect()
    for _ in range(20):
        write(cluster, leader, 10, b"x" * 2000)
        cluster.run(0.1)
    assert leader.journal.bytes_on_disk() < 200 * 2000
    assert leader.journal.base_index > 1


@pytest.mark.parametrize("size", [300, 1000, 2000, 4000])
def test_the_journal_has_no_more_than_twice_what_is_retained(size: int) -> None:
    """However large the entries, and however many may be retained; and about as much as is said is kept."""
    allowed, segment = 128 * 1024, JOURNAL.segment_bytes
    few = SnapshotSettings(check_period_s=0.05, retain_entries=20_000, trim_slack_entries=20_000, retain_bytes=allowed)
    cluster = Cluster(1, settings=EngineSettings(snapshots=few))
    leader = cluster.elect()
    least = allowed
    for _ in range(4 * allowed // segment):
        write(cluster, leader, segment // size, b"x" * size)
        cluster.run(0.1)
        assert leader.journal.bytes_on_disk() <= 2 * allowed + 4 * segment
        if leader.journal.base_index > 1:
            least = min(least, leader.journal.bytes_of_entries())
    assert leader.journal.base_index > 1
    assert least > allowed - 2 * segment


def test_what_a_segment_has_left_over_counts_for_nothing() -> None:
    """Where less is retained than a segment holds the journal is trimmed to that, and not more with every look."""
    small = SnapshotSettings(check_period_s=0.05, retain_entries=1000, trim_slack_entries=1000, retain_bytes=4096)
    cluster = Cluster(1, settings=EngineSettings(snapshots=small))
    leader = cluster.elect()
    write(cluster, leader, 60, b"x" * 200)
    cluster.run(1.0)
    kept = leader.journal.last_index - leader.journal.base_index
    assert 10 <= kept <= 40


@pytest.mark.parametrize("count", [3, 5])
def test_a_follower_far_behind_gets_rows_and_batches(count: int) -> None:
    """It ends with the same rows and the same event bytes; while they arrive it is not ready, and votes as ever."""
    cluster, _, lagging = behind(count)
    cluster.wires.heal()
    cluster.run_until(lambda: lagging.engine.installing)
    assert lagging.engine.voting
    offset = lagging.log.end_offset
    cluster.run_until(lambda: lagging.machine.installs)
    assert offset == 20
    same(cluster)
    assert lagging.machine.installs == 1


def test_only_the_missing_batches_travel() -> None:
    """Events the follower has are not sent again, but for the newest batch, which is compared."""
    cluster, leader, lagging = behind()
    first: list[int] = []

    def watch(source: int, _: int, frame: bytes) -> None:
        message = codec.decode(frame)
        if source == leader.id and isinstance(message, SnapshotChunk) and message.kind == 1:
            first.extend(int.from_bytes(batch[:8], "big") for batch in unpack_batches(message.payload))

    cluster.wires.watch = watch
    cluster.wires.heal()
    cluster.run_until(lambda: lagging.machine.installs)
    assert first[0] == 19
    assert first == sorted(set(first))


def test_nothing_is_visible_before_all_is_there() -> None:
    """With the last chunk missing, rows and high watermark of the follower are the old ones."""
    cluster, _, lagging = behind()
    before = (lagging.machine.values(), lagging.log.end_offset)
    deliver = cluster.wires.arrive

    def without_last(source: int, target: int, frame: bytes) -> None:
        if frame[0] != 17 or not codec.decode(frame).last:  # type: ignore[attr-defined]
            deliver(source, target, frame)

    cluster.wires.arrive = without_last  # type: ignore[method-assign]
    cluster.wires.heal()
    cluster.run(1.0)
    assert lagging.engine.installing
    assert (lagging.machine.values(), lagging.log.end_offset) == before
    cluster.wires.arrive = deliver  # type: ignore[method-assign]
    same(cluster)


def lossy(cluster: Cluster, loss: float) -> None:
    """Snapshot frames get lost, and some come twice."""
    deliver, rng = cluster.wires.arrive, random.Random(loss)

    def arrive(source: int, target: int, frame: bytes) -> None:
        if frame[0] in {16, 17, 18}:
            if rng.random() < loss:
                return
            if rng.random() < 0.5:
                deliver(source, target, frame)
        deliver(source, target, frame)

    cluster.wires.arrive = arrive  # type: ignore[method-assign]


@pytest.mark.parametrize("loss", [0.1, 0.3, 0.5])
def test_lost_and_repeated_chunks_are_survived(loss: float) -> None:
    """Chunks are sent again until they are acknowledged; one that comes twice is taken once."""
    often = msgspec.structs.replace(SNAPSHOTS, resend_s=0.02, timeout_s=30.0)
    cluster, _, lagging = behind(settings=EngineSettings(snapshots=often))
    lossy(cluster, loss)
    cluster.wires.heal()
    cluster.run_until(lambda: lagging.machine.installs, 60)
    same(cluster)


STEPS = ["begin", "first chunk", "middle", "last chunk", "switched", "done"]


def at_step(cluster: Cluster, lagging: Node, step: str) -> Callable[[], bool]:
    """True once the installation is as far as that."""
    installer = lagging.engine._applying.installer

    def reached() -> bool:
        staged = installer._staged
        return {
            "begin": staged is not None,
            "first chunk": staged is not None and staged.next_chunk >= 1,
            "middle": staged is not None and staged.next_chunk >= 4,
            "last chunk": staged is not None and bool(staged.summed.rows),
            "switched": installer._switching is not None,
            "done": lagging.machine.installs > 0 and not installer.active,
        }[step]

    return reached


def creep(cluster: Cluster, condition: Callable[[], bool], limit: float = 10.0) -> None:
    """As ``run_until``, in tiny steps: installations are short."""
    start = cluster.time.now
    while not condition():
        assert cluster.time.now - start < limit
        cluster.run(0.0001)


@pytest.mark.parametrize("power_loss", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_of_the_follower_restarts_clean(step: str, power_loss: bool) -> None:
    """Killed at any point of an installation, also losing unsynced bytes, the node comes back and catches up."""
    cluster, _, lagging = behind()
    cluster.wires.heal()
    creep(cluster, at_step(cluster, lagging, step))
    lagging.kill(power_loss=power_loss)
    cluster.run(0.05)
    lagging.start()
    same(cluster)


@pytest.mark.parametrize("step", STEPS)
def test_the_leaders_death_drops_or_keeps_all(step: str) -> None:
    """Whatever has arrived when the leader dies, the follower and a new leader agree, and the old one comes back."""
    cluster, leader, lagging = behind()
    cluster.wires.heal()
    creep(cluster, at_step(cluster, lagging, step))
    leader.kill(power_loss=True)
    cluster.run_until(lambda: cluster.leader)
    new = cluster.leader
    assert new is not None
    write(cluster, new, 5, b"under the new leader")
    leader.start()
    same(cluster)


@pytest.mark.parametrize("step", ["begin", "middle", "last chunk"])
def test_an_election_does_not_wait_for_a_snapshot(step: str) -> None:
    """The leader falls silent with its connections open while one of two followers is receiving its state: the other
    is elected as soon as without a snapshot, by this one's vote, long before what was staged times out.
    """
    cluster, leader, lagging = behind(settings=PATIENT)
    cluster.wires.heal()
    creep(cluster, at_step(cluster, lagging, step))
    cluster.wires.isolate(leader.id)
    others = [node for node in cluster.nodes.values() if node is not leader]
    took = cluster.run_until(lambda: any(node.engine.decidable_term() for node in others))
    assert took <= 2 * PATIENT.election_timeout_max_s
    assert not lagging.engine.installing or not lagging.engine.is_leader
    cluster.wires.heal()
    same(cluster)


def test_a_node_that_stands_drops_what_was_staged() -> None:
    """A candidacy ends the leader's term, and the snapshot with it; nothing of it is left to apply from."""
    cluster, leader, lagging = behind(settings=PATIENT)
    cluster.wires.heal()
    creep(cluster, at_step(cluster, lagging, "middle"))
    before = (lagging.journal.last_index, lagging.log.end_offset, lagging.machine.values())
    cluster.wires.isolate(lagging.id)
    lagging.engine._elections.campaign(cluster.time.now)
    assert not lagging.engine.installing
    assert (lagging.journal.last_index, lagging.log.end_offset, lagging.machine.values()) == before
    cluster.wires.heal()
    assert leader.up
    same(cluster)


def test_between_store_and_journal_it_votes_and_does_not_stand() -> None:
    """The store is at the snapshot, the journal not yet: this node grants what others ask, and asks for nothing."""
    cluster, leader, lagging = behind(settings=PATIENT)
    cluster.wires.heal()
    creep(cluster, at_step(cluster, lagging, "last chunk"))
    lagging.store_worker.stuck = True
    creep(cluster, at_step(cluster, lagging, "switched"))
    sent: list[tuple[int, object]] = []
    cluster.wires.watch = lambda source, _, frame: sent.append((source, codec.decode(frame)))
    cluster.wires.isolate(leader.id)
    cluster.run(0.4)
    lagging.engine._elections.timing.leader_alive = False
    cluster.run(1.6)
    asked = {source for source, message in sent if isinstance(message, codec.PreVote)}
    granted = [m for source, m in sent if source == lagging.id and isinstance(m, codec.PreVoteAnswer) and m.granted]
    assert asked - {leader.id}
    assert lagging.id not in asked
    assert granted
    lagging.store_worker.release()
    cluster.wires.heal()
    same(cluster)


def test_a_silent_leader_lets_the_follower_go() -> None:
    """When chunks stop coming and no connection closes, what was staged is dropped."""
    cluster, leader, lagging = behind()
    cluster.wires.heal()
    creep(cluster, at_step(cluster, lagging, "middle"))
    cluster.wires.isolate(leader.id)
    cluster.run_until(lambda: not lagging.engine.installing, 4)
    cluster.run_until(lambda: any(n.engine.decidable_term() for n in cluster.nodes.values() if n is not leader), 4)
    cluster.wires.heal()
    same(cluster)


def test_two_snapshots_in_quick_succession() -> None:
    """A follower cut off again during one snapshot and far behind at the next ends where everybody is."""
    cluster, leader, lagging = behind()
    cluster.wires.heal()
    creep(cluster, at_step(cluster, lagging, "middle"))
    cluster.wires.isolate(lagging.id)
    write(cluster, leader, 100, b"second")
    cluster.run(0.3)
    assert leader.journal.base_index > 120
    cluster.wires.heal()
    cluster.run_until(lambda: lagging.machine.installs)
    cluster.wires.isolate(lagging.id)
    write(cluster, leader, 100, b"third")
    cluster.run(0.3)
    cluster.wires.heal()
    same(cluster)
    assert lagging.machine.installs >= 1


def test_the_entries_after_a_snapshot_are_kept_while_it_travels() -> None:
    """Writes during a long transfer do not make the follower need another snapshot."""
    cluster, leader, lagging = behind(entries=300)
    cluster.wires.heal()
    creep(cluster, at_step(cluster, lagging, "begin"))
    index = leader.engine._replication.senders[NodeId(lagging.id)].index

    def installs() -> int:
        return lagging.machine.installs

    while not installs():
        if leader.propose(b"while it travels") is None:
            break
        cluster.run(0.002)
        assert installs() or leader.journal.base_index <= index
    assert leader.engine.applied_index > index + 15
    same(cluster)
    assert lagging.machine.installs == 1


SLOWLY = msgspec.structs.replace(SETTINGS, append_entries=1, window_bytes=1)
"""One entry after the other, each when the one before it is acknowledged."""


def behind_a_snapshot() -> tuple[Cluster, Node, Node]:
    """A cluster, its leader, and a follower that just took a snapshot, and reads what was written meanwhile slowly."""
    cluster, leader, lagging = behind(entries=300, settings=SLOWLY)
    cluster.wires.heal()
    creep(cluster, at_step(cluster, lagging, "begin"))
    write(cluster, leader, 200, b"while it travels")
    cluster.run_until(lambda: lagging.machine.installs > 0)
    cluster.wires.delay = 0.005
    return cluster, leader, lagging


def test_the_entries_after_a_snapshot_are_kept_until_the_follower_has_them() -> None:
    """Who reads them slower than what is kept for everybody takes needs no second snapshot, nor a third."""
    cluster, leader, lagging = behind_a_snapshot()
    lacks = leader.journal.last_index - lagging.journal.last_index
    assert lacks > 2 * (SNAPSHOTS.retain_entries + SNAPSHOTS.trim_slack_entries)
    cluster.run(2.5 * SNAPSHOTS.check_period_s)
    assert 0 < leader.journal.last_index - lagging.journal.last_index < lacks
    cluster.run_until(lambda: lagging.journal.last_index == leader.journal.last_index)
    same(cluster)
    assert lagging.machine.installs == 1
    cluster.run(1.0)
    assert leader.journal.last_index - leader.journal.base_index <= 15


def test_what_is_kept_for_a_follower_goes_when_it_comes_no_nearer() -> None:
    """It is bounded: a follower that is silent, or slower than the log grows, is owed a snapshot, not a journal without
    end.
    """
    cluster, leader, lagging = behind_a_snapshot()
    cluster.wires.isolate(lagging.id)
    cluster.run(SNAPSHOTS.timeout_s / 2)
    assert leader.journal.base_index <= lagging.journal.last_index
    write(cluster, leader, 1, b"so that there is something to trim")
    cluster.run(SNAPSHOTS.timeout_s)
    assert leader.journal.base_index > lagging.journal.last_index


def test_a_store_ahead_of_the_journal_needs_no_rows() -> None:
    """A node whose store has the state and whose journal ends before it (a kill) only resets the journal."""
    cluster, _, lagging = behind()
    cluster.wires.heal()
    creep(cluster, at_step(cluster, lagging, "switched"))
    lagging.kill()
    lagging.start()
    assert lagging.machine.applied_index() > lagging.journal.last_index
    same(cluster)
    assert lagging.machine.installs == 0


def test_rows_that_are_gone_disappear() -> None:
    """A row the follower has and the snapshot has not is deleted by the switch."""
    cluster, _, lagging = behind()
    lagging.store.write([StoreOp("rows", b"gone", b"x"), StoreOp("requests", b"gone", b"x")])
    cluster.wires.heal()
    same(cluster)
    assert lagging.machine.installs == 1
    assert lagging.store.get("rows", b"gone") is None
    assert lagging.store.get("requests", b"gone") is None


def test_a_log_that_grew_past_the_snapshot_meanwhile_is_kept() -> None:
    """Entries that reach the journal while the store is synced, beyond the snapshot's, are not dropped."""
    cluster, leader, lagging = behind(entries=30)
    term = leader.engine.term
    cluster.wires.heal()
    creep(cluster, at_step(cluster, lagging, "switched"))
    lagging.store_worker.stuck = True
    cluster.wires.isolate(lagging.id)
    index = lagging.machine.applied_index()
    for i in range(lagging.journal.last_index + 1, index + 3):
        lagging.journal.append(i, term, b"entry %d" % i)
    lagging.store_worker.release()
    cluster.run(0.05)
    assert not lagging.engine.installing
    assert lagging.journal.last_index == index + 2


def test_a_follower_that_has_the_entry_keeps_its_log() -> None:
    """A snapshot whose index and term are in the follower's journal is done at once and drops nothing after it."""
    cluster = Cluster(3, settings=EngineSettings())
    leader = cluster.elect()
    write(cluster, leader, 30)
    cluster.settle()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    last = follower.journal.last_index
    index = Index(last - 5)
    term = leader.engine.term
    acks: list[SnapshotAck] = []

    def watch(source: int, _: int, frame: bytes) -> None:
        message = codec.decode(frame)
        if isinstance(message, SnapshotAck):
            acks.append(message)

    cluster.wires.watch = watch
    begin = SnapshotBegin(term, 7, index, follower.journal.term_at(index) or Term(0), 3, 0)
    follower.engine.receive(NodeId(leader.id), codec.encode(begin))
    cluster.run(0.01)
    assert [ack.status for ack in acks] == [SNAPSHOT_DONE]
    assert follower.journal.last_index == last
    assert not follower.engine.installing


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (1, pack_batches([b"too short"])),
        (1, b"\0\0\1\0"),
        (0, b"\x09" + bytes(8)),
        (0, pack_rows([("rows", b"k", b"v")])[:-1]),
    ],
)
def test_a_malformed_chunk_drops_what_was_staged(kind: int, payload: bytes) -> None:
    """PeerError, and the follower is as it was before the snapshot; a proper one then succeeds."""
    cluster, leader, lagging = behind()
    before = (lagging.machine.values(), lagging.log.end_offset)
    term = leader.engine.term
    peer = NodeId(leader.id)
    begin = SnapshotBegin(term, 7, leader.engine.applied_index, term, 120, 0)

    def installing() -> bool:
        return lagging.engine.installing

    lagging.engine.receive(peer, codec.encode(begin))
    assert installing()
    with pytest.raises(PeerError):
        lagging.engine.receive(peer, codec.encode(SnapshotChunk(term, 7, 0, kind, last=False, payload=payload)))
    assert not installing()
    assert (lagging.machine.values(), lagging.log.end_offset) == before
    cluster.wires.heal()
    same(cluster)


def test_batches_with_a_hole_are_refused() -> None:
    """A batch that does not continue the log is a PeerError, and so is an end before the promised offset."""
    _, leader, lagging = behind()
    term, peer = leader.engine.term, NodeId(leader.id)
    begin = SnapshotBegin(term, 7, leader.engine.applied_index, term, 120, 0)
    later = [batch for *_, batch in leader.log.batches_from(30)]
    for chunk in (
        SnapshotChunk(term, 7, 0, 1, last=False, payload=pack_batches(later)),
        SnapshotChunk(term, 7, 0, 0, last=True, payload=b""),
    ):
        lagging.engine.receive(peer, codec.encode(begin))
        with pytest.raises(PeerError):
            lagging.engine.receive(peer, codec.encode(chunk))
    assert lagging.log.end_offset == 20


ROWS = st.lists(st.tuples(FAMILIES, st.binary(max_size=20), st.binary(max_size=50)), max_size=10)


@given(ROWS)
def test_rows_come_back_equal(rows: list[tuple[str, bytes, bytes]]) -> None:
    """Packing and unpacking rows is the identity."""
    assert unpack_rows(pack_rows(rows)) == rows  # type: ignore[arg-type]


@given(st.lists(st.binary(max_size=60), max_size=10))
def test_batches_come_back_equal(packed: list[bytes]) -> None:
    """Packing and unpacking batches is the identity."""
    assert unpack_batches(pack_batches(packed)) == packed


@given(st.binary(max_size=100))
def test_random_payloads_raise_peer_error_only(payload: bytes) -> None:
    """Nothing else comes out of unpacking what a peer sent."""
    for unpack in (unpack_rows, unpack_batches):
        try:
            unpack(payload)
        except PeerError:
            continue


BEGIN = SnapshotBegin(Term(3), 7, Index(50), Term(2), 0, 0)


def make_sender(rows: int = 10) -> SnapshotSender:
    """Of that many rows and no batches, one row per chunk; a window has 0.49 s before it is sent again."""
    settings = SnapshotSettings(chunk_bytes=40, window_chunks=2, resend_s=0.2, timeout_s=2.0)
    read: list[Row] = [("rows", b"%02d" % i, b"v" * 38) for i in range(rows)]
    return SnapshotSender(BEGIN, read, lambda _: iter(()), AtOnce(), lambda: None, settings, 0.0)


class AtOnce:
    """A DiskWorker that has done everything when it is asked to."""

    def submit(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        job()
        done()

    def pending(self) -> int:
        return 0


def ack(chunk: int, status: int = SNAPSHOT_ARRIVING) -> SnapshotAck:
    """The follower's answer."""
    return SnapshotAck(Term(3), 7, chunk, 0, status)


def test_the_window_bounds_what_is_in_flight() -> None:
    """No more than the window is unacknowledged; an ack opens it; silence repeats it, not more."""
    sender = make_sender()
    assert [type(message) for message in sender.messages(0.0)] == [SnapshotBegin]
    assert sender.messages(0.1) == []
    sender.on_ack(ack(0), 0.1)
    first = sender.messages(0.1)
    assert [chunk.number for chunk in first] == [0, 1]  # type: ignore[attr-defined]
    assert sender.messages(0.2) == []
    assert sender.messages(0.7) == first
    sender.on_ack(ack(1), 0.8)
    assert [chunk.number for chunk in sender.messages(0.8)] == [2]  # type: ignore[attr-defined]


def test_the_loop_reads_no_row_and_the_reader_a_bounded_number_at_a_time() -> None:
    """Of 200,000 rows: each is read in a job of the reader's, and no job reads more than a window of chunks holds."""
    settings = SnapshotSettings()
    per_job: list[int] = []

    class Counting(AtOnce):
        def submit(self, job: Callable[[], None], done: Callable[[], None]) -> None:
            per_job.append(0)
            job()
            per_job.append(0)  # What the loop reads until the next job.
            done()

    def rows() -> Iterator[Row]:
        for number in range(200_000):
            per_job[-1] += 1
            yield "rows", b"%010d" % number, bytes(54)

    sender = SnapshotSender(BEGIN, rows(), lambda _: iter(()), Counting(), lambda: None, settings, 0.0)
    sender.messages(0.0)
    acknowledged = 0
    while not sender.on_ack(ack(acknowledged), 0.0):
        chunks = [message for message in sender.messages(0.0) if isinstance(message, SnapshotChunk)]
        if not chunks:
            break
        acknowledged = chunks[-1].number + 1
    assert sum(per_job[::2]) == 200_000
    assert set(per_job[1::2]) == {0}
    assert max(per_job) <= AHEAD * settings.window_chunks * settings.chunk_bytes // 64


class Wire:
    """A connection that loses nothing and carries so many bytes a second, to a follower that takes each chunk once."""

    def __init__(self, sender: SnapshotSender, rate: float) -> None:
        self.sender, self.rate = sender, rate
        self.waiting: deque[list[float]] = deque()
        """Number and size of what has not arrived; the number of a begin is -1."""
        self.next_chunk = 0
        self.sent = self.peak = 0.0

    def step(self, now: float, step_s: float) -> None:
        """So much time passes: what arrives is acknowledged, and what the sender says then is put behind the rest."""
        room = self.rate * step_s
        while self.waiting and room > 0:
            number, left = self.waiting[0]
            self.waiting[0][1] = max(0.0, left - room)
            room -= left
            if room >= 0:
                self.waiting.popleft()
                self.next_chunk += number == self.next_chunk
                self.sender.on_ack(ack(self.next_chunk), now)
        for message in self.sender.messages(now):
            chunk = message if isinstance(message, SnapshotChunk) else None
            size = 100 + len(chunk.payload) if chunk else 100
            self.waiting.append([chunk.number if chunk else -1, size])
            self.sent += size
        self.peak = max(self.peak, sum(size for _, size in self.waiting))


@pytest.mark.parametrize(
    ("row_bytes", "rate"),
    [(128 << 10, 1.25e7), (128 << 10, 2e5), (1_500_000, 2.5e6), (4_000_000, 6e6), (6_000_000, 1.1e7), (6_000_000, 2e6)],
)
def test_what_waits_in_a_slow_link_is_not_sent_again_and_again(row_bytes: int, rate: float) -> None:
    """Nothing is lost, and all of it arrives in little more time than the link needs for it. No more waits to leave
    than two windows (one large row may be one), and no more than that and what is made ahead is in memory.
    """
    settings = SnapshotSettings()
    rows, value = 20, bytes(row_bytes)
    made = 0

    def read() -> Iterator[Row]:
        nonlocal made
        for number in range(rows):
            made += row_bytes
            yield "rows", b"%02d" % number, value

    sender = SnapshotSender(BEGIN, read(), lambda _: iter(()), AtOnce(), lambda: None, settings, 0.0)
    wire = Wire(sender, rate)
    now, step_s = 0.0, 0.01
    while wire.next_chunk <= rows:  # The last one carries nothing.
        assert not sender.stale(now)
        assert now < 1.0 + 1.5 * rows * row_bytes / rate
        wire.step(now, step_s)
        assert made - wire.next_chunk * row_bytes <= AHEAD * settings.window_bytes + 2 * row_bytes
        now += step_s
    assert wire.peak <= 2 * (settings.window_bytes + row_bytes)
    assert wire.sent <= 1.5 * rows * row_bytes


def test_silence_is_waited_for_longer_each_time_and_a_connection_ends_it() -> None:
    """Repetitions are twice as far apart each time; an acknowledgement, or a new connection, begins anew."""
    sender = make_sender()
    sender.messages(0.0)
    sender.on_ack(ack(0), 0.0)
    first = sender.messages(0.0)
    times = [tenth / 10 for tenth in range(1, 20) if sender.messages(tenth / 10)]
    assert times == [0.5, 1.5]
    sender.connected()
    assert sender.messages(2.0) == first
    assert sender.messages(2.4) == []
    sender.on_ack(ack(1), 2.4)
    sender.messages(2.4)


def test_what_a_closed_connection_took_is_sent_again_at_once() -> None:
    """The connection to a follower is replaced while chunks are under way, and nothing closed: no wait goes by."""
    slow = msgspec.structs.replace(SNAPSHOTS, resend_s=5.0, timeout_s=20.0)
    cluster, leader, lagging = behind(settings=EngineSettings(snapshots=slow))
    cluster.wires.heal()
    creep(cluster, at_step(cluster, lagging, "middle"))
    deliver = cluster.wires.arrive
    cluster.wires.arrive = lambda source, target, frame: (  # type: ignore[method-assign]
        None if frame[0] in {16, 17, 18} else deliver(source, target, frame)
    )
    cluster.run(0.1)
    cluster.wires.arrive = deliver  # type: ignore[method-assign]
    cluster.run(0.5)
    assert not lagging.machine.installs
    leader.engine.peer_connected(NodeId(lagging.id))
    cluster.run_until(lambda: lagging.machine.installs, 1.0)
    same(cluster)


def test_a_sender_gives_up_without_progress_or_when_it_is_unknown() -> None:
    """No progress for the timeout, or a follower that does not know the snapshot, makes it stale; done is done."""
    sender = make_sender()
    sender.messages(0.0)
    assert not sender.stale(1.9)
    assert sender.stale(2.1)
    sender.on_ack(ack(0), 2.1)
    assert not sender.stale(2.2)
    sender.on_ack(ack(0, SNAPSHOT_UNKNOWN), 2.2)
    assert sender.stale(2.2)
    assert make_sender().on_ack(ack(0, SNAPSHOT_DONE), 0.0)
    assert not make_sender().on_ack(SnapshotAck(Term(3), 8, 0, 0, SNAPSHOT_DONE), 0.0)
