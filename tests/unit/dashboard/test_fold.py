"""The page's state against a plain replay, and against what Spark's pipeline tells of outages."""

import json
from typing import Any

import pytest

from quorate.events import Event, Stamp, about
from quorate.model import state as model
from quorate_spark.dashboard import fold
from quorate_spark.dashboard.model import EMPTY, BrokerSet
from quorate_spark.dashboard.panels import sets
from quorate_spark.dashboard.recorded import recorded
from quorate_spark.dashboard.spool import Fact
from quorate_spark.pipelines.elections import ELECTIONS, Watch
from quorate_spark.pipelines.facts import Fact as Told
from tests.dashboard.lives import FLAPPING, RECORDED, folded, life, plain, told, view
from tests.dashboard.replay import Replay
from tests.spark.story import story


def compare(facts: list[Fact], rows: list[dict[str, Any]]) -> None:
    """After every seventh event each set is shown as a replay has it."""
    log, rule = folded(facts), (FLAPPING.elections, FLAPPING.window_ms)
    for offset in range(1, len(facts) + 1, 7):
        seen, replay = view(log, offset), Replay(rows, offset)
        expected = [replay.set_row(name, seen.now, *rule) for name in sorted(replay.sets)]
        assert plain(sets.sets(seen))["sets"] == expected, offset


@pytest.mark.parametrize("seed", range(4))
def test_a_made_up_life_is_folded_as_a_replay_has_it(seed: int) -> None:
    """Half-known sets, cleanings and failed elections are in it."""
    compare(list(life(seed, 1500)), told(seed, 1500))


def test_a_recorded_life_is_folded_as_a_replay_has_it() -> None:
    """Events as a cluster under a demonstration wrote them."""
    compare(list(recorded(RECORDED)), [json.loads(line) for line in RECORDED.read_text().splitlines()])


@pytest.mark.parametrize("seed", range(4))
def test_the_page_and_the_pipeline_tell_of_the_same_outages(seed: int) -> None:
    """After each event a set that had a master is lost on the page if its outage lasts in Spark's tables, since the
    same moment and by the same event; also where the master's id was cleaned, until it registers again.
    """
    for facts in ([(fact.stamp, fact.event) for fact in life(seed, 1500)], story(seed, 800)):
        state, watches = EMPTY, dict[str, Watch]()
        for stamp, event in facts:
            was, state = state.model, fold.evolve(state, event, stamp)
            kind, name = about(event)
            if kind == "broker-set":
                before, after = was.broker_sets.get(name), state.model.broker_sets.get(name)
                watches[name] = watched(watches.get(name, Watch()), stamp, event, before, after)
                agree(state.sets.get(name), watches[name])


def watched(
    watch: Watch, stamp: Stamp, event: Event, before: model.BrokerSet | None, after: model.BrokerSet | None
) -> Watch:
    """What the pipeline knows of a set after an event."""
    if type(event) not in ELECTIONS.reads:
        return watch
    told = Told(
        stamp=stamp, type=type(event).__name__, key="", schema_id=0, event=event, text="", before=before, after=after
    )
    return ELECTIONS.step(watch, told)[0]


def agree(shown: BrokerSet | None, watch: Watch) -> None:
    """The page's row of a set and the pipeline's state."""
    lost = shown is not None and shown.lost_at is not None
    assert lost == (shown is not None and shown.status == "lost")
    if watch.outage is not None:
        assert shown is not None
        assert (shown.lost_at, shown.lost_estimated) == (watch.outage.fault_ms, watch.outage.fault_estimated)
        assert shown.lost_offset == watch.outage.outage_offset
    elif watch.ever:
        assert not lost
