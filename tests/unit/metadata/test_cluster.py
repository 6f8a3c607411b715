"""The cluster, its controllers and its feature level."""

import re
from pathlib import Path

import msgspec
import pytest

import quorate
from quorate.events import ClusterCreated, ControllerLeaderElected, FeatureLevelChanged, NodeStarted, Voter
from quorate.metadata.commands import RaiseFeatureLevel, RecordLeader, RecordNodeStart
from quorate.metadata.decide import LEVELS
from tests.unit.metadata.kit import ADDRESSES, CREATE, World

SOURCES = [*Path(quorate.__path__[0]).rglob("*.py")]
LEADER = RecordLeader(node_id=1, cause="silent", previous_leader=2, silent_for_ms=700)
START = RecordNodeStart(node_id=1, dir_uuid="u1", version="0.1", addresses=ADDRESSES, feature_min=1, feature_max=3)


def test_the_cluster_is_created_once() -> None:
    """The event at offset 0; a second one is refused."""
    world = World()
    assert world.events(CREATE) == (ClusterCreated(cluster_id="c1", voters=CREATE.voters, feature_level=1),)
    assert world.state.feature_level == 1
    refusal = world.refused(CREATE)
    assert (refusal.code, refusal.remark) == ("ClusterExists", "This is cluster c1")


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"voters": ()}, "InvalidVoters"),
        ({"voters": (CREATE.voters[0], CREATE.voters[0])}, "InvalidVoters"),
        ({"cluster_id": ""}, "InvalidVoters"),
        ({"feature_level": 0}, "UnsupportedFeatureLevel"),
        ({"feature_level": 99}, "UnsupportedFeatureLevel"),
    ],
)
def test_a_cluster_that_could_not_work_is_refused(other: dict[str, object], code: str) -> None:
    """Nobody to vote, two of one id, no name, a level this code does not know."""
    assert World().refused(msgspec.structs.replace(CREATE, **other)).code == code


@pytest.mark.parametrize("command", [LEADER, START, RaiseFeatureLevel(level=2)])
def test_nothing_happens_before_the_cluster_exists(
    command: RecordLeader | RecordNodeStart | RaiseFeatureLevel,
) -> None:
    """Offset 0 is its creation."""
    assert World().refused(command).code == "ClusterMissing"


@pytest.mark.parametrize("command", [LEADER, START])
def test_only_voters_lead_and_start(command: RecordLeader | RecordNodeStart) -> None:
    """A stranger is refused by name."""
    world = World()
    world.do(CREATE)
    refusal = world.refused(msgspec.structs.replace(command, node_id=9))
    assert (refusal.code, refusal.remark) == ("UnknownNode", "Node 9 is not a voter of cluster c1")


def test_a_leader_is_recorded_once_per_term() -> None:
    """With its term and offset from the stamp; in the next term it is a new fact."""
    world = World()
    world.do(CREATE)
    (event,) = world.events(LEADER)
    assert event == ControllerLeaderElected(node_id=1, cause="silent", previous_leader=2, silent_for_ms=700)
    leader = world.state.leader
    assert leader is not None
    assert (leader.node_id, leader.term, leader.offset, leader.since_ms) == (1, 1, 1, 1_000)
    assert world.events(LEADER) == ()
    world.term = 2
    assert len(world.events(LEADER)) == 1


def test_every_start_of_a_node_is_a_fact() -> None:
    """Even one like the last."""
    world = World()
    world.do(CREATE)
    for _ in range(2):
        (event,) = world.events(START)
        assert isinstance(event, NodeStarted)
    assert world.state.nodes[1].started_ms == 1_000


def test_a_node_that_does_not_know_the_level_is_refused() -> None:
    """It could not read the log."""
    world = World()
    world.do(CREATE)
    command = msgspec.structs.replace(START, feature_min=2)
    assert world.refused(command).code == "UnsupportedFeatureLevel"


def test_the_feature_level_rises_when_every_voter_knows_the_next() -> None:
    """Never down, never beyond what a voter said at its start, and the same level is no news."""
    world = World()
    other = Voter(id=2, dir_uuid="u2", addresses=ADDRESSES)
    world.do(msgspec.structs.replace(CREATE, voters=(*CREATE.voters, other)))
    assert world.events(RaiseFeatureLevel(level=1)) == ()
    world.do(START)
    assert world.refused(RaiseFeatureLevel(level=2)).remark == "Node 2 never started, not 2"
    world.do(msgspec.structs.replace(START, node_id=2, feature_max=1))
    assert world.refused(RaiseFeatureLevel(level=2)).remark == "Node 2 knows levels 1 to 1, not 2"
    world.do(msgspec.structs.replace(START, node_id=2, feature_max=2))
    assert world.events(RaiseFeatureLevel(level=2)) == (FeatureLevelChanged(old=1, new=2),)
    assert world.state.feature_level == 2
    assert world.refused(RaiseFeatureLevel(level=1)).code == "UnsupportedFeatureLevel"
    assert world.refused(RaiseFeatureLevel(level=3)).code == "UnsupportedFeatureLevel"


def test_a_command_is_refused_below_the_level_its_events_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the level is raised some voter could not read what it writes; then it is decided as any other."""
    monkeypatch.setitem(LEVELS, RecordLeader, 2)
    world = World()
    world.do(CREATE)
    world.do(START)
    refusal = world.refused(LEADER)
    assert refusal.code == "UnsupportedFeatureLevel"
    assert "RecordLeader needs feature level 2; the cluster's is 1" in refusal.remark
    world.do(RaiseFeatureLevel(level=2))
    assert world.events(LEADER)


def test_the_levels_this_build_knows_are_said_once() -> None:
    """What a node says of itself, in its hello, at its start and when it founds, is what the rules judge by."""
    said = [path for path in SOURCES if re.search(r"^FEATURE_M(AX|IN)\b.*=", path.read_text(), re.MULTILINE)]
    assert [path.name for path in said] == ["cluster.py"]
