"""The seven defects of pysyncobj 0.3.17, each as one scenario run twice: bare it breaks the property, guarded it holds.

The bare half is a strict xfail that accepts only ``DefectSeenError``: a scenario that fails for another reason, or a
defect that has gone, fails the test.
"""

from collections.abc import Callable

import pytest

from quorate.consensus.ports import StoreOp
from tests.unit.consensus.raft_rigs import RIGS, DefectSeenError, Rig, isolate, must, run

MakeRig = Callable[..., Rig]
both_engines = pytest.mark.parametrize(
    "make",
    [
        pytest.param(RIGS["bare pysyncobj"], id="bare", marks=pytest.mark.xfail(raises=DefectSeenError, strict=True)),
        pytest.param(RIGS["guarded engine"], id="guarded"),
    ],
)


@pytest.fixture
def rigs() -> object:
    """Makes rigs and removes what they leave."""
    made: list[Rig] = []

    def make(factory: MakeRig, *args: object, **kwargs: object) -> Rig:
        rig = factory(*args, **kwargs)
        made.append(rig)
        return rig

    yield make
    for rig in made:
        rig.close()


@both_engines
def test_bug_1_a_snapshot_never_commits_an_unverified_tail(make: MakeRig, rigs: Callable[..., Rig]) -> None:
    """While a snapshot replaces a deposed leader's log, nothing of its uncommitted tail is answered with success."""
    rig = rigs(make, 3)
    rig.elect(1, [2, 3])
    rig.propose(1, "base")
    run(rig)
    assert rig.acked == ["base"]
    isolate(rig, 1)
    for i in range(5):
        rig.propose(1, f"lost {i}")
    rig.tick()
    rig.elect(2, [3])
    for i in range(60):
        rig.propose(2, f"good {i}")
    run(rig)
    rig.compact(2)
    assert rig.log(2)[0][0] > rig.log(1)[-1][0]
    rig.cut.clear()
    for _ in range(60):
        rig.tick()
        while rig.queue.get((2, 1)):
            later = rig.queue[2, 1][1:]
            del rig.queue[2, 1][1:]
            rig.deliver(only={(2, 1)})
            rig.queue[2, 1] = later + rig.queue[2, 1]
            rig.tick(0.001)
        rig.deliver()
    must(not [value for value in rig.acked if value.startswith("lost")], "success for what was never committed")
    must(not [value for value in rig.values(1) if value.startswith("lost")], "an uncommitted entry was executed")
    assert rig.values(1) == rig.values(2)


@both_engines
def test_bug_2_an_ack_counts_only_in_its_own_term(make: MakeRig, rigs: Callable[..., Rig]) -> None:
    """An ack of an earlier leadership, arriving late, does not commit entries that no majority holds."""
    rig = rigs(make, 5)
    rig.elect(1, [2, 3, 4, 5])
    run(rig)
    rig.cut |= {(1, 3), (1, 4), (1, 5)}
    rig.held.add((2, 1))
    for i in range(8):
        rig.propose(1, f"x{i}")
    rig.tick(0.06)
    rig.tick(0.06)
    rig.deliver()
    assert len(rig.log(2)) == len(rig.log(1)) == len(rig.log(3)) + 8
    isolate(rig, 1)
    stale = list(rig.queue[2, 1])
    rig.elect(3, [2, 4, 5])
    run(rig, 3)
    rig.cut.clear()
    rig.held.add((2, 1))
    run(rig, 8)
    rig.cut |= {(1, 2), (3, 1), (1, 3)}
    rig.elect(1, [4, 5])
    rig.cut |= {(1, 3), (1, 5), (3, 1), (5, 1)}
    rig.propose(1, "y1")
    rig.propose(1, "y2")
    rig.tick(0.06)
    rig.tick(0.06)
    rig.deliver()
    holders = [node for node in rig.nodes if len(rig.log(node)) == len(rig.log(1))]
    assert holders == [1, 4]
    assert "y1" not in rig.acked
    rig.queue[2, 1] = stale
    rig.held.clear()
    rig.deliver(only={(2, 1)})
    rig.tick(0.01)
    must("y1" not in rig.acked and "y2" not in rig.acked, "committed on two of five nodes")


@both_engines
def test_bug_3_a_matching_log_is_never_truncated(make: MakeRig, rigs: Callable[..., Rig]) -> None:
    """A repeated AppendEntries takes nothing away from a log that has more: what was acknowledged stays."""
    rig = rigs(make, 3, batch_bytes=100)
    rig.elect(1, [2, 3])
    run(rig)
    rig.cut |= {(1, 3), (3, 1)}
    for i in range(8):
        rig.propose(1, f"v{i} " + "p" * 40)
    for _ in range(8):
        rig.tick(0.01)
    rig.tick()
    first = list(rig.queue[1, 2])
    assert len(first) > 2
    rig.deliver()
    run(rig, 3)
    assert len(rig.acked) == 8
    before = rig.log(2)
    rig.queue[1, 2] = first[:2]
    rig.deliver(only={(1, 2)})
    must(rig.log(2) == before, "a repeated message shortened a log that has acknowledged more")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Bare pysyncobj leaves files open.
@both_engines
def test_bug_4_a_crash_during_compaction_loses_no_entry(make: MakeRig, rigs: Callable[..., Rig]) -> None:
    """A node killed between its durable snapshot and its trimmed log still has every entry it acknowledged."""
    rig = rigs(make, 3, files=True)
    rig.elect(1, [2, 3])
    for i in range(10):
        rig.propose(1, f"v{i}")
    run(rig, 8)
    rig.crash_in_compaction(2)
    acknowledged = rig.log(1)[-1]
    must(rig.log(2)[-1] == acknowledged, "acknowledged entries are gone after the restart")


@both_engines
def test_bug_5_a_failing_entry_is_executed_once(make: MakeRig, rigs: Callable[..., Rig]) -> None:
    """An entry whose execution raises stops the node at once; it is not tried again for ever."""
    rig = rigs(make, 1)
    rig.elect(1, [])
    run(rig)
    rig.poison("poison")
    rig.propose(1, "poison")
    for _ in range(10):
        try:
            rig.tick()
        except ValueError:
            continue
    assert rig.attempts
    must(rig.attempts == 1, "the entry was tried again")


@both_engines
def test_bug_6_a_divergent_follower_converges(make: MakeRig, rigs: Callable[..., Rig]) -> None:
    """A deposed leader with a long tail of its own gets the new leader's log although many batches are in flight."""
    rig = rigs(make, 3, batch_bytes=150)
    rig.elect(1, [2, 3])
    run(rig)
    isolate(rig, 1)
    for i in range(30):
        rig.propose(1, f"own {i}")
    rig.tick(0.01)
    rig.elect(2, [3])
    for i in range(60):
        rig.propose(2, f"good {i} " + "p" * 40)
    run(rig, 30)
    rig.cut.clear()
    run(rig, 100)
    must(rig.log(1) == rig.log(2), "the follower never gets the leader's log")


@both_engines
def test_bug_7_a_snapshot_that_is_not_ready_floods_nobody(make: MakeRig, rigs: Callable[..., Rig]) -> None:
    """A follower that needs a snapshot which cannot be taken now gets a heartbeat, not a flood."""
    rig = rigs(make, 3)
    rig.elect(1, [2, 3])
    run(rig)
    isolate(rig, 3)
    for i in range(20):
        rig.propose(1, f"v{i}")
    run(rig)
    rig.compact(1)
    rig.cut.clear()
    run(rig, 1)
    unready(rig)
    rig.sent = 0  # type: ignore[attr-defined]
    rig.tick(0.11)
    assert rig.sent > 0  # type: ignore[attr-defined]
    must(rig.sent < 50, "one tick sent a flood of messages")  # type: ignore[attr-defined]


def unready(rig: Rig) -> None:
    """No snapshot can be taken now, and follower 3 needs one from leader 1."""
    stock = getattr(rig, "_made", None)
    if stock is not None:
        leader = stock[1]
        leader._SyncObj__raftNextIndex[next(n for n in leader.otherNodes if n.id == 3)] = 1
        leader._SyncObj__serializer._Serializer__pid = 1
        leader._SyncObj__serializer.checkSerializing = lambda: (1, None)
        return
    node = rig.cluster.nodes[1]  # type: ignore[attr-defined]
    engine = node.engine
    engine._replication.senders.clear()
    node.store.write([StoreOp("meta", b"applied", None)])
    engine._core.set_next_index(3, 1)
