"""Sync state sets as they shrink and expand: who left, who came, by which event.

Rules: the sets before and after are the model's, not what an event says of them; so whatever changes one is told.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from quorate.events import kinds_about
from quorate_spark.pipelines.facts import Fact
from quorate_spark.pipelines.fold import Fold, Nothing
from quorate_spark.serving import SyncChange


def step(nothing: Nothing, fact: Fact) -> tuple[Nothing, Iterable[SyncChange]]:
    """A row if the members changed."""
    before, after = fact.sets
    old, new = (frozenset(() if side is None else side.sync_state_set) for side in (before, after))
    broker_set = after or before
    if broker_set is None or old == new:
        return nothing, ()
    row = SyncChange(
        event_offset=fact.stamp.offset,
        time_ms=fact.stamp.time_ms,
        broker_cluster=broker_set.cluster,
        broker_set=broker_set.name,
        direction="replace" if old - new and new - old else "shrink" if old - new else "expand",
        by_event=fact.type,
        old_set=_json(old),
        new_set=_json(new),
        left_set=_json(old - new),
        joined_set=_json(new - old),
        sync_state_set_epoch=0 if after is None else after.sync_state_set_epoch,
    )
    return nothing, (row,)


def _json(ids: Iterable[int]) -> str:
    return msgspec.json.encode(sorted(ids)).decode()


SYNC_SETS: Final = Fold("sync sets", "2", kinds_about("broker-set"), Nothing(), step)
