"""``GET /v1/shards``: shards of the journal, and of one its segments.

Rules: a page costs what is on it. How well a segment is kept is worked out when somebody asks, of the state alone.
"""

from itertools import islice

from quorate.controller import ReadView
from quorate.gateway.http.answers import SegmentItem, ShardAnswer, ShardItem, Shards
from quorate.gateway.http.asking import Asking
from quorate.gateway.http.reading import filled, named_page, present
from quorate.gateway.http.routing import Call
from quorate.model.segments import numbers
from quorate.model.state import Segment, Shard, State
from quorate.model.storage_health import at_risk
from quorate.slices import Steps


def shard_item(state: State, shard: Shard) -> ShardItem:
    """A shard."""
    return ShardItem(
        shard=shard.name,
        epoch=shard.epoch,
        replication=shard.replication,
        min_in_sync=shard.min_in_sync,
        spread=shard.spread,
        require=shard.require,
        deleting=shard.deleting,
        segments=len(state.segments.get(shard.name, ())),
    )


def segment_item(state: State, shard: Shard, found: Segment) -> SegmentItem:
    """A segment, and how well it is kept."""
    risk = None if shard.deleting else at_risk(state, shard, found)
    return SegmentItem(
        segment=found.name,
        start_offset=found.start_offset,
        end_offset=found.end_offset,
        copies=found.copies,
        leader=found.leader,
        member_epoch=found.member_epoch,
        leader_epoch=found.leader_epoch,
        in_sync={copy.member: copy.member_epoch for copy in found.in_sync},
        set_epoch=found.set_epoch,
        level="green" if risk is None else risk.level,
        reasons=() if risk is None else risk.reasons,
        why="" if found.election is None else found.election.explanation,
    )


class JournalHandlers:
    """The handlers."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def shards(self, call: Call) -> None:
        """GET /v1/shards."""
        limit, query = self._asking.limit(call), call.request.query
        after, prefix = query.get("after", ""), query.get("prefix", "")

        def make(view: ReadView) -> Steps[Shards]:
            state = view.state
            names, more = named_page(state.shard_names, after, prefix, limit)
            items, more = yield from filled(names, more, (shard_item(state, state.shards[name]) for name in names))
            return Shards(**self._asking.stamp(view), shards=items, next=more)

        self._asking.answered(call, "ReadShards", make)

    def shard(self, call: Call) -> None:
        """GET /v1/shards/{shard}, and a page of its segments."""
        limit, after = self._asking.limit(call), call.integer("after", -1, -1)

        def make(view: ReadView) -> Steps[ShardAnswer]:
            state = view.state
            shard = present(state.shards.get(call.found["shard"]), "there is no such shard")
            found = list(islice(numbers(state, shard, after), limit + 1))
            shown, more = found[:limit], found[limit - 1] if len(found) > limit else None
            made = (segment_item(state, shard, state.segments[shard.name][number]) for number in shown)
            items, more = yield from filled(shown, more, made)
            return ShardAnswer(
                **self._asking.stamp(view),
                shard=shard_item(state, shard),
                segments=items,
                next=None if more is None else str(more),
            )

        self._asking.answered(call, "ReadShards", make)
