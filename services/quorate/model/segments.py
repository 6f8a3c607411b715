"""Shards and their segments: what an event makes of them, and what is asked of them.

Rules: pure. A segment is named by its shard and its number there (``orders/3``); numbers begin at 0 and have no gap
until the shard is to go. Whoever leads, or is in sync, does so in one life of its member: under another epoch the same
name counts for nothing. Which segments a member holds and leads is kept beside them, made of the segments alone.
"""

from collections.abc import Iterator
from typing import Final, assert_never

import msgspec
from immutables import Map

from quorate.errors import InvariantBrokenError
from quorate.events import (
    InSyncCopy,
    SegmentCopyDeleted,
    SegmentCreated,
    SegmentInSyncAltered,
    SegmentLeaderElected,
    SegmentSealed,
    ShardCreated,
    ShardDeleting,
    ShardGone,
    Stamp,
)
from quorate.model.names import is_number, with_name, without_name
from quorate.model.state import Election, Member, Segment, Shard, State
from quorate.slices import Steps, finished

_replace = msgspec.structs.replace
OfShards = ShardCreated | ShardDeleting | ShardGone
OfSegments = SegmentCreated | SegmentSealed | SegmentLeaderElected | SegmentInSyncAltered | SegmentCopyDeleted
Holdings = Map[str, Map[str, int]]
"""By member: its segments, and the member epoch that is written there (0 where none is)."""
NOBODY: Final = ""
PER_STEP: Final = 64
"""Segments that are looked at in one step."""


# -- what is asked


def name_of(shard: str, number: int) -> str:
    """The name of a segment."""
    return f"{shard}/{number}"


def parsed(name: str) -> tuple[str, int] | None:
    """Shard and number of a segment; None for what is no segment's name."""
    shard, _, number = name.rpartition("/")
    return (shard, int(number)) if shard and is_number(number) else None


def no_name(text: str) -> str:
    """Says so of a text that is none."""
    return f"{text!r} is no segment's name; one is like orders/3"


def segment(state: State, name: str) -> Segment | None:
    """The segment of this name."""
    place = parsed(name)
    return None if place is None else state.segments.get(place[0], _NONE).get(place[1])


def last(state: State, shard: str) -> Segment | None:
    """The newest segment of a shard that is not to go; there all numbers from 0 are taken."""
    numbered = state.segments.get(shard, _NONE)
    return numbered.get(len(numbered) - 1)


def numbers(state: State, shard: Shard, after: int) -> Iterator[int]:
    """The numbers of its segments that are greater, in order."""
    numbered = state.segments.get(shard.name, _NONE)
    if not shard.deleting:  # None is missing: a page costs what is on it.
        return iter(range(max(after + 1, 0), len(numbered)))
    return iter(sorted(number for number in numbered if number > after))


def fit(state: State, member: str, epoch: int) -> bool:
    """Is this life of the member there, and given work?"""
    found = state.members.get(member)
    return found is not None and found.epoch == epoch and not found.fenced


def is_led(state: State, found: Segment) -> bool:
    """Is its leader there, in the life that was elected?"""
    return fit(state, found.leader, found.member_epoch)


def wants_leader(state: State, found: Segment) -> bool:
    """Is its leader not there, or to leave? One that is to go wants none."""
    place = parsed(found.name)
    shard = None if place is None else state.shards.get(place[0])
    if shard is None or shard.deleting:
        return False
    return not is_led(state, found) or state.members[found.leader].draining


def leads_segments(state: State, member: Member) -> bool:
    """Does this life of the member lead any?"""
    return any(epoch == member.epoch for epoch in state.leading.get(member.name, _NO_NAMES).values())


def holds_last_copy(state: State, member: Member) -> bool:
    """Is this life of it in sync with a segment, and nobody else who is there and stays?

    Of several that are to leave one stays: the leader, else the first by name. So each is told the same until it left.
    """
    return finished(looking_for_last_copy(state, member))


def looking_for_last_copy(state: State, member: Member) -> Steps[bool]:
    """``holds_last_copy``, a few segments a step."""
    for count, name in enumerate(state.holding.get(member.name, _NO_NAMES), start=1):
        found = segment(state, name)
        if found is not None and _is_last(state, found, member):
            return True
        if count % PER_STEP == 0:
            yield
    return False


def _is_last(state: State, found: Segment, member: Member) -> bool:
    """It may hold very many: what is so of most is asked first, that another one stays with it."""
    mine = False
    for one in found.in_sync:
        if one.member == member.name:
            mine = one.member_epoch == member.epoch
        elif fit(state, one.member, one.member_epoch) and not _leaves_before(state, found, one.member, member):
            return False
    return mine and not state.shards[(parsed(found.name) or ("", 0))[0]].deleting


def _leaves_before(state: State, found: Segment, other: str, member: Member) -> bool:
    return state.members[other].draining and other != found.leader and other > member.name


_NONE: Final = Map[int, Segment]()
_NO_NAMES: Final = Map[str, int]()


# -- what an event makes of them


def after_shard(state: State, event: OfShards, stamp: Stamp) -> State:
    """The state after an event about a shard."""
    shards, names = state.shards, state.shard_names
    if isinstance(event, ShardCreated):
        made = Shard(
            name=event.shard,
            epoch=stamp.offset,
            replication=event.replication,
            min_in_sync=event.min_in_sync,
            spread=event.spread,
            require=event.require,
        )
        return _replace(state, shards=shards.set(event.shard, made), shard_names=with_name(names, event.shard))
    shard = shards.get(event.shard)
    if shard is None:
        raise InvariantBrokenError(f"an event about the shard {event.shard!r}, which is not there")
    match event:
        case ShardDeleting():
            return _replace(state, shards=shards.set(event.shard, _replace(shard, deleting=True)))
        case ShardGone():
            return _replace(state, shards=shards.delete(event.shard), shard_names=without_name(names, event.shard))
        case _:
            assert_never(event)


def after_segment(state: State, event: OfSegments, stamp: Stamp) -> State:
    """The state after an event about a segment."""
    before = segment(state, event.segment)
    if isinstance(event, SegmentCreated):
        return with_segment(state, before, _created(event, stamp))
    if before is None:
        raise InvariantBrokenError(f"an event about the segment {event.segment!r}, which is not there")
    match event:
        case SegmentInSyncAltered():
            after = _replace(before, in_sync=event.new, set_epoch=event.set_epoch)
        case SegmentSealed():
            after = _replace(before, end_offset=event.end_offset)
        case SegmentLeaderElected():
            after = _replace(
                before,
                leader=event.leader,
                member_epoch=event.member_epoch,
                leader_epoch=stamp.offset,
                in_sync=event.in_sync,
                set_epoch=event.set_epoch,
                election=Election(
                    offset=stamp.offset,
                    time_ms=stamp.time_ms,
                    trigger=event.trigger,
                    explanation=event.explanation,
                    decided_by=event.decided_by,
                ),
            )
        case SegmentCopyDeleted():
            after = _without(before, event.member)
        case _:
            assert_never(event)
    return with_segment(state, before, after if after.copies else None)


def _created(event: SegmentCreated, stamp: Stamp) -> Segment:
    copies = [InSyncCopy(member=copy.member, member_epoch=copy.member_epoch) for copy in event.copies]
    return Segment(
        name=event.segment,
        start_offset=event.start_offset,
        copies=tuple(copy.member for copy in copies),
        leader=copies[0].member,
        member_epoch=copies[0].member_epoch,
        leader_epoch=stamp.offset,
        in_sync=tuple(sorted(copies, key=_member)),
    )


def _without(before: Segment, member: str) -> Segment:
    led = before.leader == member
    return _replace(
        before,
        copies=tuple(one for one in before.copies if one != member),
        in_sync=tuple(one for one in before.in_sync if one.member != member),
        leader=NOBODY if led else before.leader,
        member_epoch=0 if led else before.member_epoch,
    )


def with_segment(state: State, before: Segment | None, after: Segment | None) -> State:
    """The state with a segment as it is after, and whose it is. (None: it is not there.)"""
    one = after or before
    place = None if one is None else parsed(one.name)
    if one is None or place is None:
        raise InvariantBrokenError(f"{one and one.name!r} is no segment's name")
    shard, number = place
    numbered = state.segments.get(shard, _NONE)
    numbered = numbered.delete(number) if after is None else numbered.set(number, after)
    holding, leading = held(state.holding, state.leading, before, after)
    return _replace(
        state,
        segments=state.segments.set(shard, numbered) if numbered else state.segments.delete(shard),
        holding=holding,
        leading=leading,
    )


def held(
    holding: Holdings, leading: Holdings, before: Segment | None, after: Segment | None
) -> tuple[Holdings, Holdings]:
    """Who holds and who leads what, when this segment becomes that one."""
    had, has = () if before is None else before.copies, () if after is None else after.copies
    if had != has:
        for member in had:
            if before is not None and member not in has:
                holding = _dropped(holding, member, before.name)
        for member in has:
            if after is not None and member not in had:
                holding = _added(holding, member, after.name, 0)
    was = None if before is None or not before.leader else (before.leader, before.name, before.member_epoch)
    is_now = None if after is None or not after.leader else (after.leader, after.name, after.member_epoch)
    if was != is_now:
        if was is not None:
            leading = _dropped(leading, was[0], was[1])
        if is_now is not None:
            leading = _added(leading, *is_now)
    return holding, leading


def _added(of: Holdings, member: str, name: str, epoch: int) -> Holdings:
    return of.set(member, of.get(member, _NO_NAMES).set(name, epoch))


def _dropped(of: Holdings, member: str, name: str) -> Holdings:
    left = of[member].delete(name)
    return of.set(member, left) if left else of.delete(member)


def _member(copy: InSyncCopy) -> str:
    return copy.member
