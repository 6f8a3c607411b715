"""Sync state sets as they shrink and expand: who left, who came, by which event.

Rules: the set before is the one the log added up to, not the one an event says it was.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from quorate.events import BrokerDataCleaned, BrokerIdApplied, MasterElected, SyncStateSetAltered
from quorate_spark.pipelines.facts import Fact
from quorate_spark.pipelines.fold import Fold
from quorate_spark.serving import SyncChange

_replace = msgspec.structs.replace


class InSync(msgspec.Struct, frozen=True, kw_only=True):
    """The sync state set of now."""

    present: tuple[int, ...] = ()
    """Broker ids the set holds; without one it is gone."""
    members: tuple[int, ...] = ()
    epoch: int = 0


def step(before: InSync, fact: Fact) -> tuple[InSync, Iterable[SyncChange]]:
    """The set after the fact, and a row if its members changed."""
    event = fact.event
    match event:
        case SyncStateSetAltered():
            after = _replace(before, members=tuple(sorted(event.new)), epoch=event.sync_state_set_epoch)
        case MasterElected():
            after = _replace(before, members=tuple(sorted(event.sync_state_set)), epoch=event.sync_state_set_epoch)
        case BrokerIdApplied():
            return _replace(before, present=tuple(sorted({*before.present, event.broker_id}))), ()
        case BrokerDataCleaned():
            after = _cleaned(before, event)
        case _:
            return before, ()
    left_set, joined = ({*before.members} - {*after.members}, {*after.members} - {*before.members})
    if not left_set and not joined:
        return after, ()
    row = SyncChange(
        event_offset=fact.stamp.offset,
        time_ms=fact.stamp.time_ms,
        broker_cluster=event.cluster,
        broker_set=event.broker_set,
        direction="replace" if left_set and joined else "shrink" if left_set else "expand",
        by_event=fact.type,
        old_set=_json(before.members),
        new_set=_json(after.members),
        left_set=_json(left_set),
        joined_set=_json(joined),
        sync_state_set_epoch=after.epoch,
    )
    return after, (row,)


def _cleaned(before: InSync, event: BrokerDataCleaned) -> InSync:
    """Without some members; with nothing left, or only ids, the set begins anew."""
    left = tuple(one for one in before.present if one not in event.broker_ids)
    if event.whole_set or not left:
        return InSync()
    members = tuple(one for one in before.members if one not in event.broker_ids)
    return _replace(before, present=left, members=members)


def _json(ids: Iterable[int]) -> str:
    return msgspec.json.encode(sorted(ids)).decode()


SYNC_SETS: Final = Fold(
    "sync sets",
    "1",
    frozenset({BrokerDataCleaned, BrokerIdApplied, MasterElected, SyncStateSetAltered}),
    InSync(),
    step,
)
