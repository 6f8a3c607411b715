"""Laws of segments that hold in any history of shards and their members."""

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.events import SegmentInSyncAltered, SegmentLeaderElected, ShardCreated
from quorate.metadata.commands import ChangeConfig
from quorate.metadata.context import Decision
from quorate.metadata.limits import UNCLEAN_SEGMENT_LEADERS
from quorate.model import rows
from quorate.model.state import State
from tests.segments import of_shard, plausible
from tests.unit.metadata.kit import World
from tests.unit.metadata.test_keys import world


def played(seed: int, steps: int, *, unclean: bool = False) -> World:
    """A history of so many commands; those that are refused write nothing."""
    made, chance = world(), Random(seed)
    if unclean:
        made.do(ChangeConfig(scope="cluster", changes={UNCLEAN_SEGMENT_LEADERS: "true"}))
    for _ in range(steps):
        outcome = made.do(plausible(made.state, chance))
        if isinstance(outcome, Decision):
            check(made.state)
    return made


def check(state: State) -> None:
    """What is so of every state."""
    assert set(state.shards) == set(state.segments)
    for name, shard in state.shards.items():
        segments = of_shard(state, name)
        for one in segments:
            in_sync = [copy.member for copy in one.in_sync]
            assert in_sync == sorted(set(in_sync))
            assert set(in_sync) <= set(one.copies)
            assert len(set(one.copies)) == len(one.copies) > 0
            assert one.leader in in_sync or (shard.deleting and not one.leader)
        if shard.deleting:
            continue
        assert [one.name for one in segments] == [f"{name}/{number}" for number in range(len(segments))]
        assert all(one.end_offset is not None for one in segments[:-1])
        assert segments[0].start_offset == 0
        for before, after in pairwise(segments):
            assert before.end_offset == after.start_offset
        assert all(len(one.copies) == shard.replication for one in segments)


@given(seed=st.integers(0, 2**32), steps=st.integers(50, 300))
@settings(max_examples=40, deadline=None)
def test_every_state_keeps_the_rules(seed: int, steps: int) -> None:
    """One leader that is in sync, segments without gaps, one that is open, all copies; and its rows give it again."""
    made = played(seed, steps)
    assert rows.from_rows(rows.rows(made.state)) == made.state


@given(seed=st.integers(0, 2**32), unclean=st.booleans())
@settings(max_examples=40, deadline=None)
def test_epochs_only_grow_and_nobody_leads_who_was_not_in_sync(seed: int, unclean: bool) -> None:
    """Set epochs rise by one within one segment's life, leader epochs are never given twice, and an election takes
    somebody in sync unless it says that it is unclean.
    """
    made = played(seed, 250, unclean=unclean)
    sets: dict[str, int] = {}
    before: dict[str, tuple[str, ...]] = {}
    for event, _ in made.log:
        if isinstance(event, ShardCreated):
            sets = {name: epoch for name, epoch in sets.items() if not name.startswith(f"{event.shard}/")}
            before = {name: old for name, old in before.items() if not name.startswith(f"{event.shard}/")}
        if isinstance(event, SegmentInSyncAltered | SegmentLeaderElected):
            name = event.segment
            assert event.set_epoch == sets.get(name, 0) + 1
            sets[name] = event.set_epoch
            new = event.new if isinstance(event, SegmentInSyncAltered) else event.in_sync
            if isinstance(event, SegmentLeaderElected):
                assert unclean or not event.unclean
                assert event.unclean or event.leader in before.get(name, (event.leader,))
                assert event.leader in [copy.member for copy in new]
            before[name] = tuple(copy.member for copy in new)
