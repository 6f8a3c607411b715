"""What is looked at in a cluster of two builds."""

import pytest

from quorate.events import ClusterCreated, FeatureLevelChanged, NodeAddresses, NodeStarted, TopicDeleted, Voter
from quorate.metadata.decide import LEVELS
from tests.sim.levels import OF_LEVEL, PRODUCTION, in_this_seed
from tests.sim.levels_seen import FURTHER, IN_FORCE, OLD, TOLD, LevelsSeen
from tests.sim.world import ViolationError

PLACE = NodeAddresses(rpc="", raft="", kafka="", http="")


def seen(*known: int) -> LevelsSeen:
    """A cluster of these builds, each started."""
    levels = LevelsSeen(mixed=True)
    voters = tuple(Voter(id=number, dir_uuid="", addresses=PLACE) for number in range(1, len(known) + 1))
    levels.committed(ClusterCreated(cluster_id="c", voters=voters, feature_level=OLD), 0)
    for number, highest in enumerate(known, start=1):
        started = NodeStarted(
            node_id=number, dir_uuid="", version="", addresses=PLACE, feature_min=1, feature_max=highest
        )
        levels.committed(started, number)
    return levels


def test_a_level_that_one_voter_does_not_know_is_a_violation() -> None:
    """The others' word is not enough; all of them are."""
    raised = FeatureLevelChanged(old=OLD, new=FURTHER)
    with pytest.raises(ViolationError, match=TOLD):
        seen(FURTHER, OLD, FURTHER).committed(raised, 9)
    levels = seen(FURTHER, FURTHER, FURTHER)
    levels.committed(raised, 9)
    assert [levels.needed(offset) for offset in (1, 9, 10)] == [OLD, OLD, FURTHER]


def test_an_event_of_a_level_that_is_not_in_force_is_a_violation() -> None:
    """Before the level is raised; afterwards it is none."""
    levels, deleted = seen(FURTHER), TopicDeleted(topic="t")
    with pytest.raises(ViolationError, match=IN_FORCE):
        levels.committed(deleted, 9)
    levels.committed(FeatureLevelChanged(old=OLD, new=FURTHER), 9)
    levels.committed(deleted, 10)


def test_the_table_of_levels_is_that_of_the_seed() -> None:
    """A run of one build after one of two has production's own again."""
    in_this_seed(mixed=True)
    assert LEVELS == PRODUCTION | OF_LEVEL
    in_this_seed(mixed=False)
    assert LEVELS == PRODUCTION
