"""The journal: shards and how well they are kept; and one shard with its segments, the newest first.

Rules: what is said of a segment follows from the log alone (``quorate.model.storage_health``), so it is said of any
offset. A page of segments costs what is on it; the list of shards looks at all of them, for it counts them.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal

import msgspec
from immutables import Map

from quorate.model.names import following
from quorate.model.segments import fit, last, numbers
from quorate.model.state import Segment, Shard, State
from quorate.model.storage_health import at_risk
from quorate.model.words import plural
from quorate_spark.dashboard.panels.events import EventRow
from quorate_spark.dashboard.panels.events import row as event_row
from quorate_spark.dashboard.panels.view import View

Kept = Literal["red", "yellow", "green", "deleting"]
KEPT: Final[tuple[Kept, ...]] = ("red", "yellow", "green", "deleting")
"""How well a shard is kept, worst first: as its worst segment; one that is to go is at no risk."""
LIMIT_MAX: Final = 500
CHANGES_MAX: Final = 20
NOTHING: Final = Map[int, Segment]()


class ShardRow(msgspec.Struct, frozen=True, kw_only=True):
    """One shard."""

    name: str
    epoch: int
    """The event that created it."""
    level: Kept
    why: str
    """What is at risk; empty: nothing."""
    replication: int
    min_in_sync: int
    spread: str
    require: dict[str, str]
    segments: int
    at_risk: int
    """Of its segments."""
    open: str
    """Its newest segment; empty: it is to go, or that one is gone."""
    leader: str
    """Of the newest segment."""


class Shards(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/shards."""

    shards: list[ShardRow]
    total: int
    """Of those that were asked for."""
    levels: dict[str, int]
    """Of all shards."""
    sentence: str
    segments: int
    """Of all shards."""
    next: str | None
    """``from`` of the next page."""


class CopyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of a segment."""

    member: str
    leads: bool
    in_sync: bool
    there: bool
    """Its member lives and is given work; for one in sync or leading: in the life that counts."""


class SegmentRow(msgspec.Struct, frozen=True, kw_only=True):
    """One segment."""

    name: str
    number: int
    start: int
    end: int | None
    """Null: it is not sealed."""
    level: Kept
    reasons: tuple[str, ...]
    copies: list[CopyRow]
    """In the order of preference."""
    leader: str
    leader_epoch: int
    """The event that made it leader."""
    set_epoch: int
    why: str
    """Why that one leads."""


class ShardDetail(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/shard."""

    name: str
    shard: ShardRow | None
    """Null: it is not there."""
    segments: list[SegmentRow]
    """The newest first."""
    next: int | None
    """``below`` of the next page."""
    changes: list[EventRow]
    """The last events about the shard and about the newest segment on the page, newest first."""


def shards(view: View, q: str, level: str, start: str, limit: int) -> Shards:
    """A page of them."""
    state, words = view.state.model, q.lower().split()
    levels: Counter[str] = Counter()
    found: list[ShardRow] = []
    reasons: Counter[str] = Counter()
    for name in following(state.shard_names):
        row = _shard(state, state.shards[name], reasons)
        levels[row.level] += 1
        if level in ("", row.level) and all(word in _text(row) for word in words):
            found.append(row)
    page = list(islice((row for row in found if row.name >= start), limit + 1))
    return Shards(
        shards=page[:limit],
        total=len(found),
        levels={word: levels[word] for word in KEPT},
        sentence=_sentence(levels, reasons),
        segments=sum(map(len, state.segments.values())),
        next=page[limit].name if len(page) > limit else None,
    )


def _text(row: ShardRow) -> str:
    labels = (f"{name}={value}" for name, value in row.require.items())
    return "\n".join((row.name, row.leader, row.spread, *labels)).lower()


def _shard(state: State, shard: Shard, reasons: Counter[str]) -> ShardRow:
    """A shard; ``reasons`` counts what is the matter with its segments."""
    numbered = state.segments.get(shard.name, NOTHING)  # A decision may not be here to its end yet.
    mine: Counter[str] = Counter()
    level: Kept = "deleting" if shard.deleting else "green"
    risky = 0
    for segment in () if shard.deleting else numbered.values():
        if (risk := at_risk(state, shard, segment)) is not None:
            risky += 1
            mine.update(risk.reasons)
            if level != "red":
                level = risk.level
    reasons.update(mine)
    newest = None if shard.deleting else last(state, shard.name)
    return ShardRow(
        name=shard.name,
        epoch=shard.epoch,
        level=level,
        why=", ".join(f"{reason}: {plural(count, 'segment')}" for reason, count in sorted(mine.items())),
        replication=shard.replication,
        min_in_sync=shard.min_in_sync,
        spread=shard.spread,
        require=shard.require,
        segments=len(numbered),
        at_risk=risky,
        open="" if newest is None else newest.name,
        leader="" if newest is None else newest.leader,
    )


def _sentence(levels: Counter[str], reasons: Counter[str]) -> str:
    """How storage is, in one sentence."""
    if not levels:
        return "There is no shard."
    going = f"; {plural(levels['deleting'], 'shard')} to go" if levels["deleting"] else ""
    if not reasons:
        return f"Every segment has its leader and all its copies in sync{going}."
    told = ", ".join(f"{reason}: {plural(count, 'segment')}" for reason, count in sorted(reasons.items()))
    return f"Storage is {'red' if levels['red'] else 'yellow'}; {told}{going}."


def shard(view: View, name: str, below: int | None, limit: int) -> ShardDetail:
    """One of them, and its segments below a number."""
    state = view.state.model
    found = state.shards.get(name)
    if found is None:
        return ShardDetail(name=name, shard=None, segments=[], next=None, changes=_changes(view, [f"shard/{name}"]))
    page = list(islice(_newest_first(state, found, below), limit + 1))
    rows = [_segment(state, found, state.segments[name][number]) for number in page[:limit]]
    return ShardDetail(
        name=name,
        shard=_shard(state, found, Counter()),
        segments=rows,
        next=page[limit - 1] if len(page) > limit else None,
        changes=_changes(view, [f"shard/{name}", *(f"segment/{row.name}" for row in rows[:1])]),
    )


def _newest_first(state: State, found: Shard, below: int | None) -> Iterator[int]:
    if found.deleting:  # Some are gone.
        left = sorted(numbers(state, found, -1), reverse=True)
        return (number for number in left if below is None or number < below)
    end = len(state.segments.get(found.name, NOTHING))
    return iter(range((end if below is None else min(below, end)) - 1, -1, -1))


def _segment(state: State, of: Shard, segment: Segment) -> SegmentRow:
    risk = None if of.deleting else at_risk(state, of, segment)
    in_sync = {copy.member: copy.member_epoch for copy in segment.in_sync}
    return SegmentRow(
        name=segment.name,
        number=int(segment.name.rpartition("/")[2]),
        start=segment.start_offset,
        end=segment.end_offset,
        level="deleting" if of.deleting else "green" if risk is None else risk.level,
        reasons=() if risk is None else risk.reasons,
        copies=[
            CopyRow(
                member=name,
                leads=name == segment.leader,
                in_sync=name in in_sync,
                there=_there(state, name, in_sync.get(name)),
            )
            for name in segment.copies
        ],
        leader=segment.leader,
        leader_epoch=segment.leader_epoch,
        set_epoch=segment.set_epoch,
        why="" if segment.election is None else segment.election.explanation,
    )


def _there(state: State, name: str, epoch: int | None) -> bool:
    """Is it there, in this life if there is one that counts?"""
    member = state.members.get(name)
    return member is not None and fit(state, name, member.epoch if epoch is None else epoch)


def _changes(view: View, keys: list[str]) -> list[EventRow]:
    spool = view.log.spool
    offsets = sorted({at for key in keys for at in islice(spool.of_key(key, view.offset), CHANGES_MAX)}, reverse=True)
    return [event_row(spool.fact(offset), spool) for offset in offsets[:CHANGES_MAX]]
