"""The election timeout follows what a node measures: short while everybody keeps time, long while somebody lags."""

import random
import statistics

import msgspec
import pytest

from quorate.consensus.ports import NodeId
from quorate.consensus.raft.election_timing import ElectionTiming
from quorate.consensus.raft.pace import Pace
from quorate.consensus.settings import EngineSettings
from tests.sim.nodes import Limits
from tests.sim.scripted import Stage, StageError
from tests.unit.consensus.raft_cluster import Cluster

SETTINGS = EngineSettings()
LEADER, ME = NodeId(2), NodeId(1)


def election(seed: int = 1, now: float = 0.0) -> tuple[Pace, ElectionTiming]:
    """Of a follower of three."""
    pace = Pace(SETTINGS, now)
    return pace, ElectionTiming(ME, [NodeId(1), NodeId(2), NodeId(3)], SETTINGS, pace, random.Random(seed), now)


def test_the_timeout_is_short_without_lag_and_grows_to_the_largest_set() -> None:
    """A multiple of the lag is added, up to what an operator has set; the two ends keep their proportion."""
    pace = Pace(SETTINGS, 0.0)
    assert (pace.timeout_min_s, pace.timeout_max_s) == (0.25, 0.5)
    pace.note_turn(0.02, 1.0)
    assert pace.timeout_min_s == pytest.approx(0.25 + 4 * 0.01)
    pace.note_heartbeat(0.02, 1.0)
    assert pace.timeout_min_s == pytest.approx(0.25 + 4 * 0.02)
    assert pace.timeout_max_s == pytest.approx(2 * pace.timeout_min_s)
    pace.note_heartbeat(0.3, 2.0)
    assert (pace.timeout_min_s, pace.timeout_max_s) == (0.5, 1.0)


def test_a_lag_is_forgotten_after_the_window() -> None:
    """It counts for half a window at least, and for no more than the whole one."""
    pace = Pace(SETTINGS, 0.0)
    for second in range(200):
        pace.note_turn(0.04 if second == 14 else 0.0, float(second))
        pace.note_sync(0.2 if second == 14 else 0.0, float(second))
        assert (pace._lag.largest > 0) is (14 <= second < 30)
        assert (pace.sync_s > 0) is (14 <= second < 30)
    pace.note_turn(0.04, 200.0)
    pace.note_turn(0.0, 1000.0)
    assert pace._lag.largest == 0.0


def test_a_stop_is_no_measure_of_a_pace() -> None:
    """A node that was stopped for seconds was not slow: its timeouts stay what they were."""
    pace = Pace(SETTINGS, 0.0)
    pace.note_turn(30.0, 1.0)
    pace.note_turn(0.6, 2.0)
    pace.note_heartbeat(1.1, 3.0)
    assert pace.timeout_min_s == 0.25


def test_timeouts_set_equal_do_not_adapt() -> None:
    """An operator who sets the quiet timeout to the smallest has the smallest always; above it, it is that too."""
    for quiet_s in (0.5, 3.0):
        pace = Pace(msgspec.structs.replace(SETTINGS, election_timeout_quiet_s=quiet_s), 0.0)
        assert (pace.timeout_min_s, pace.timeout_max_s) == (0.5, 1.0)


def test_a_wait_that_began_before_the_lag_is_as_long_as_the_lag_asks_for() -> None:
    """The leader was heard, then this node began to lag: it waits by what it knows now, and protects the leader."""
    pace, waiting = election()
    waiting.heard(LEADER, 10.0)
    assert waiting.due_at <= 10.5
    pace.note_heartbeat(0.3, 10.2)
    assert not waiting.due(10.5)
    assert waiting.protects_leader(10.49)
    assert waiting.due(11.0)


def test_late_heartbeats_lengthen_the_timeout_before_one_is_missed() -> None:
    """Each gap that was survived is a reason to wait longer for the next: gaps that grow slowly never depose."""
    pace, follower = election()
    now = 10.0
    for late_ms in range(0, 440, 10):
        follower.heard(LEADER, now)
        now += SETTINGS.heartbeat_s + SETTINGS.tick_s + late_ms / 1000
        assert not follower.due(now)
    assert pace.timeout_min_s == 0.5
    assert follower.protects_leader(now)


def test_a_new_leader_is_not_late() -> None:
    """The silence between two leaders is an election, not a lag."""
    pace, follower = election()
    follower.heard(LEADER, 10.0)
    follower.heard(NodeId(3), 10.4)
    assert pace._lag.largest == 0.0


def test_who_slept_has_heard_no_silence() -> None:
    """A turn that comes 300 ms late moves both ends: the leader is protected, and nothing is due, by as much more."""
    _, follower = election()
    follower.heard(LEADER, 10.0)
    due = follower.due_at
    follower.slept(0.3, 10.35)
    assert follower.due_at == pytest.approx(due + 0.3)
    assert follower.protects_leader(10.54)
    assert not follower.protects_leader(10.56)
    assert follower.due(due + 0.31)


def test_what_was_heard_after_a_sleep_is_not_moved_by_it() -> None:
    """The sockets are read before the timer says how long the sleep was: the leader was heard now, and no later."""
    _, follower = election()
    follower.heard(LEADER, 10.0)
    follower.heard(LEADER, 40.0)
    due = follower.due_at
    follower.slept(30.0, 40.0)
    assert (follower.heard_at, follower.due_at) == (40.0, due)
    assert follower.due(due)
    follower.slept(0.1, 40.02)
    assert follower.heard_at == 40.02
    assert follower.due_at == pytest.approx(due + 0.02)


def test_a_wait_that_began_after_a_sleep_is_no_longer_than_a_timeout() -> None:
    """A vote that was read and given before the timer came: nobody waits for it for as long as the sleep was."""
    pace, follower = election()
    follower.votes(40.0)
    follower.slept(30.0, 40.0)
    assert follower.due_at == 40.0 + pace.timeout_max_s


@pytest.mark.parametrize("sockets_first", [False, True])
def test_a_follower_that_slept_while_its_leader_died_soon_has_another(*, sockets_first: bool) -> None:
    """Whether it reads what that leader said before, or sees first how late it is: it waits for a timeout, not for as
    long as it slept.
    """
    cluster = Cluster(3, seed=7)
    leader = cluster.elect()
    cluster.settle()
    cluster.run(1.0)
    asleep, other = (node for node in cluster.nodes.values() if node is not leader)
    for source in (leader, other):
        cluster.wires.hold(source.id, asleep.id)
    asleep.engine._timer.cancel()  # type: ignore[union-attr]
    cluster.run(0.2)
    waiting = [(source.id, frame) for source in (leader, other) for frame in cluster.wires.held[source.id, asleep.id]]
    assert (leader.id, waiting[0][1]) == waiting[0], "no heartbeat waits"
    cluster.wires.isolate(leader.id)
    cluster.run(29.8)
    waiting += [(other.id, frame) for frame in cluster.wires.held.pop((other.id, asleep.id))]
    if not sockets_first:
        asleep.engine._tick()
    for peer, frame in waiting:
        asleep.engine.receive(NodeId(peer), frame)
    if sockets_first:
        asleep.engine._tick()
    assert asleep.engine._elections.timing.heard_at <= cluster.time.now
    cluster.run_until(lambda: any(node.engine.decidable_term() for node in (asleep, other)), limit=2.0)


@pytest.mark.parametrize("sockets_first", [False, True])
def test_a_leader_that_slept_and_is_cut_off_soon_leads_no_more(*, sockets_first: bool) -> None:
    """Answers that waited in its sockets are of no later than now: it steps down as if it had just got them."""
    cluster = Cluster(3, seed=7)
    leader = cluster.elect()
    cluster.settle()
    cluster.run(1.0)
    others = [node for node in cluster.nodes.values() if node is not leader]
    for other in others:
        cluster.wires.hold(other.id, leader.id)
    cluster.run(0.2)
    leader.engine._timer.cancel()  # type: ignore[union-attr]
    waiting = [(other.id, frame) for other in others for frame in cluster.wires.held.pop((other.id, leader.id))]
    assert waiting
    cluster.wires.isolate(leader.id)
    cluster.run(30.0)
    if not sockets_first:
        leader.engine._tick()
    for peer, frame in waiting:
        leader.engine.receive(NodeId(peer), frame)
    if sockets_first:
        leader.engine._tick()
    cluster.run_until(lambda: not leader.engine.is_leader, limit=1.5)


def hang(seed: int) -> float:
    """Virtual seconds from the moment the leader goes silent, its connections open, until another may decide."""
    cluster = Cluster(3, seed=seed)
    leader = cluster.elect()
    cluster.settle()
    cluster.run(1.0 + seed * 0.007)
    cluster.wires.cut = {(leader.id, other) for other in cluster.nodes if other != leader.id}
    others = [node for node in cluster.nodes.values() if node is not leader]
    return cluster.run_until(lambda: any(node.engine.decidable_term() for node in others))


def test_a_leader_that_hangs_is_replaced_within_half_a_second() -> None:
    """Of 40 clusters that keep time: the median well below 500 ms, and none takes a second."""
    took = [hang(seed) for seed in range(1, 41)]
    assert statistics.median(took) < 0.45
    assert max(took) < 1.0


def production(monkeypatch: pytest.MonkeyPatch, quiet_s: float = SETTINGS.election_timeout_quiet_s) -> None:
    """Simulated nodes with production's timeouts."""
    draw = Limits.draw
    engine = msgspec.structs.replace(SETTINGS, election_timeout_quiet_s=quiet_s)

    def drawn(seeded: random.Random) -> Limits:
        limits = draw(seeded)
        return msgspec.structs.replace(limits, core=msgspec.structs.replace(limits.core, engine=engine))

    monkeypatch.setattr(Limits, "draw", staticmethod(drawn))


def staged(seed: int) -> tuple[Stage, NodeId, int]:
    """Three nodes with equal logs; who leads, and the term."""
    stage = Stage(seed)
    leader = stage.leader(stage.cluster.voters)
    stage.wait(stage.settled, "equal logs", 5.0)
    return stage, leader, stage.process(leader).node.engine.term


def sleep(stage: Stage, nodes: tuple[NodeId, ...], seconds: float) -> None:
    """These take no turns for so long."""
    loops = [stage.process(node).loop for node in nodes]
    for loop in loops:
        loop.pause()
    stage.world.run_until(stage.world.now + seconds)
    for loop in loops:
        loop.resume()


def test_a_machine_that_stalls_as_a_whole_changes_no_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes stall together for longer than the smallest timeout, again and again, and wake in any order: each finds
    its leader's heartbeats in its sockets before it doubts it.
    """
    production(monkeypatch)
    for seed in (1, 2, 3):
        stage, leader, term = staged(seed)
        for _ in range(30):
            sleep(stage, stage.cluster.voters, 0.9)
            stage.world.run_until(stage.world.now + stage.world.random.random())
        assert (stage.leader(stage.cluster.voters), stage.process(leader).node.engine.term) == (leader, term)


def test_a_leader_that_lags_more_and_more_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stalls grow to what the largest timeouts bear: nobody is elected, because the followers have measured it; and
    once it keeps time again, the timeouts are short again.
    """
    production(monkeypatch)
    kept = 0
    for seed in (1, 2, 3):
        try:
            stage, leader, term = staged(seed)
        except StageError:
            continue
        kept += 1
        for stall_ms in (100, 150, 200, 250, 300, 350, 400, 400):
            sleep(stage, (leader,), stall_ms / 1000)
            stage.world.run_until(stage.world.now + 1.0)
        engines = [stage.process(node).node.engine for node in stage.cluster.voters]
        assert {engine.term for engine in engines} == {term}
        assert {engine.election_timeout_s for engine in engines} == {SETTINGS.election_timeout_min_s}
        stage.world.run_until(stage.world.now + 31.0)
        assert all(engine.election_timeout_s < 0.3 for engine in engines)
    assert kept, "no seed could be staged"
