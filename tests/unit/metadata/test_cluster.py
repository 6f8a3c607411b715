"""The cluster, its controllers and its feature level."""

import re
from pathlib import Path

import msgspec
import pytest

import quorate
from quorate.events import (
    ClusterCreated,
    ControllerLeaderElected,
    FeatureLevelChanged,
    NodeStarted,
    Voter,
    VoterRebuilt,
)
from quorate.metadata.cluster import directory_of
from quorate.metadata.commands import RaiseFeatureLevel, RebuildVoter, RecordLeader, RecordNodeStart
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
    world.do(msgspec.structs.replace(START, node_id=2, dir_uuid="u2", feature_max=1))
    assert world.refused(RaiseFeatureLevel(level=2)).remark == "Node 2 knows levels 1 to 1, not 2"
    world.do(msgspec.structs.replace(START, node_id=2, dir_uuid="u2", feature_max=2))
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


ONE, TWO, NEW, NEWER = (f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2, 3, 4))


def two_voters() -> World:
    """Founded by two directories; only node 1 has started since."""
    world = World()
    voters = tuple(Voter(id=i, dir_uuid=uuid, addresses=ADDRESSES) for i, uuid in ((1, ONE), (2, TWO)))
    world.do(msgspec.structs.replace(CREATE, voters=voters))
    world.do(msgspec.structs.replace(START, dir_uuid=ONE))
    return world


def test_a_voter_is_given_another_directory() -> None:
    """The log names it from then on, once, and its start is recorded; who founded the cluster stays as it was."""
    world = two_voters()
    (event,) = world.events(RebuildVoter(node_id=1, dir_uuid=NEW.upper(), asked_by="admin"))
    assert event == VoterRebuilt(node_id=1, old_dir_uuid=ONE, new_dir_uuid=NEW, addresses=ADDRESSES, asked_by="admin")
    assert directory_of(world.state, 1) == NEW
    assert world.events(RebuildVoter(node_id=1, dir_uuid=NEW)) == ()
    node = world.state.nodes[1]
    assert (node.version, node.feature_max, node.started_ms) == ("0.1", 3, 1_000)
    assert world.events(msgspec.structs.replace(START, dir_uuid=NEW))
    assert world.state.nodes[1].former == (ONE,)
    assert world.state.cluster is not None
    assert world.state.cluster.voters[0].dir_uuid == ONE


def test_a_start_from_a_directory_the_log_does_not_name_is_refused() -> None:
    """Of a founder as of one that was rebuilt; a cluster that named none takes what it hears."""
    world = two_voters()
    start = msgspec.structs.replace(START, node_id=2, dir_uuid=NEW)
    refusal = world.refused(start)
    assert (refusal.code, refusal.remark) == ("DirectoryUnknown", f"Node 2 has directory {TWO}, not {NEW}")
    world.do(RebuildVoter(node_id=2, dir_uuid=NEW))
    assert world.refused(msgspec.structs.replace(start, dir_uuid=TWO)).code == "DirectoryUnknown"
    assert world.events(start)
    world = World()
    world.do(msgspec.structs.replace(CREATE, voters=(Voter(id=1, dir_uuid="", addresses=ADDRESSES),)))
    assert world.events(msgspec.structs.replace(START, dir_uuid=ONE))


def test_a_voter_that_never_started_can_be_rebuilt() -> None:
    """It is known by its founding alone; what it supports stays unknown until it starts."""
    world = two_voters()
    (event,) = world.events(RebuildVoter(node_id=2, dir_uuid=NEW))
    assert isinstance(event, VoterRebuilt)
    assert (event.old_dir_uuid, event.addresses) == (TWO, ADDRESSES)
    assert (world.state.nodes[2].version, world.state.nodes[2].feature_max) == ("", 0)
    assert world.refused(RaiseFeatureLevel(level=2)).code == "UnsupportedFeatureLevel"


def test_a_directory_that_was_given_up_never_comes_back() -> None:
    """Neither to its voter nor to another: the one in its place may have voted since."""
    world = two_voters()
    world.do(RebuildVoter(node_id=1, dir_uuid=NEW))
    world.do(RebuildVoter(node_id=1, dir_uuid=NEWER))
    for given_up in (ONE, NEW):
        assert "was given up before" in world.refused(RebuildVoter(node_id=1, dir_uuid=given_up)).remark
    for of_the_first in (ONE, NEW, NEWER):
        refusal = world.refused(RebuildVoter(node_id=2, dir_uuid=of_the_first))
        assert (refusal.code, refusal.remark) == (
            "DirectoryTaken",
            f"Directory {of_the_first} is or was the one of node 1",
        )
    assert world.refused(RebuildVoter(node_id=1, dir_uuid=TWO)).code == "DirectoryTaken"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (RebuildVoter(node_id=9, dir_uuid=NEW), "UnknownNode"),
        (RebuildVoter(node_id=1, dir_uuid="gone"), "InvalidDirectory"),
        (RebuildVoter(node_id=1, dir_uuid=""), "InvalidDirectory"),
        (RebuildVoter(node_id=1, dir_uuid="00000000-0000-0000-0000-000000000000"), "InvalidDirectory"),
        (RebuildVoter(node_id=1, dir_uuid="ffffffff-ffff-ffff-ffff-ffffffffffff"), "InvalidDirectory"),
    ],
)
def test_a_rebuilding_that_names_nothing_is_refused(command: RebuildVoter, code: str) -> None:
    """No such voter, no uuid, or one that a vote uses to say something else; and nothing before the cluster exists."""
    assert two_voters().refused(command).code == code
    assert World().refused(command).code == "ClusterMissing"


def test_the_levels_this_build_knows_are_said_once() -> None:
    """What a node says of itself, in its hello, at its start and when it founds, is what the rules judge by."""
    said = [path for path in SOURCES if re.search(r"^FEATURE_M(AX|IN)\b.*=", path.read_text(), re.MULTILINE)]
    assert [path.name for path in said] == ["cluster.py"]


def test_a_voter_whose_directory_nobody_named_can_be_rebuilt() -> None:
    """Of a cluster of before, whose founding named none: there is no former directory to refuse."""
    world = World()
    world.do(msgspec.structs.replace(CREATE, voters=(Voter(id=1, dir_uuid="", addresses=ADDRESSES),)))
    (event,) = world.events(RebuildVoter(node_id=1, dir_uuid=NEW))
    assert isinstance(event, VoterRebuilt)
    assert event.old_dir_uuid == ""
    assert world.state.nodes[1].former == ()
    assert directory_of(world.state, 1) == NEW
