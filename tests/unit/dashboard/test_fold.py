"""The page's state against the fold it had before it rested on the model."""

import pytest

from quorate_spark.dashboard import fold
from quorate_spark.dashboard.model import EMPTY
from quorate_spark.dashboard.recorded import recorded
from quorate_spark.dashboard.spool import Fact
from tests.dashboard import former
from tests.dashboard.lives import RECORDED, life


def compare(facts: list[Fact]) -> None:
    """After each event both say the same of everything."""
    now, then = EMPTY, former.State()
    for fact in facts:
        now, then = fold.evolve(now, fact.event, fact.stamp), former.evolve(then, fact.event, fact.stamp)
        assert (now.offset, now.time, now.term, now.leader) == (then.offset, then.time, then.term, then.leader)
        assert now.nodes == then.nodes
        name = getattr(fact.event, "broker_set", "")
        assert now.sets.get(name) == then.sets.get(name), (fact.stamp.offset, fact.event)
    assert now.sets == then.sets
    assert set(now.model.topics) == set(then.topics)
    assert {scope: config.values for scope, config in now.model.configs.items()} == {
        scope: config.values for scope, config in then.configs.items()
    }
    assert then.cluster is not None
    assert now.model.cluster is not None
    assert now.model.cluster.cluster_id == then.cluster.cluster_id
    assert now.model.feature_level == then.feature_level


@pytest.mark.parametrize("seed", range(6))
def test_a_made_up_life_is_folded_as_before(seed: int) -> None:
    """Half-known sets, cleanings and failed elections are in it."""
    compare(list(life(seed, 1500)))


def test_a_recorded_life_is_folded_as_before() -> None:
    """Events as a cluster under a demonstration wrote them."""
    compare(list(recorded(RECORDED)))
