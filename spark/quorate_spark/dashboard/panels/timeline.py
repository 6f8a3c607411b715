"""Lanes over time: who led, who was master, how many were in sync, when nobody was master.

Rules: a window of time is turned into a range of offsets first; a lane tells what falls into it and the one value that
was true when it began. Nothing after the view's offset is told, not even the end of a gap.
"""

import msgspec

from quorate_spark.dashboard.index import MARKS, Lane
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.rows import NOTHING, Rows

MARKS_MAX = 5_000


class LeaderSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A controller led from ``from_`` to ``to`` (null: still)."""

    id: int
    term: int
    from_: int = msgspec.field(name="from")
    to: int | None
    offset: int


class MasterStep(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """From here on this broker was master; null: nobody."""

    id: int | None
    t: int
    offset: int


class SyncStep(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """From here on so many were in sync."""

    n: int
    t: int
    offset: int


class Gap(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Nobody was master; ``t1`` null: still."""

    t0: int
    t1: int | None
    offset: int


class ElectionTick(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An election."""

    t: int
    offset: int
    failed: bool


class LaneRow(msgspec.Struct, frozen=True, kw_only=True):
    """One broker set over the window."""

    set: str
    size: int
    masters: list[MasterStep]
    sync: list[SyncStep]
    gaps: list[Gap]
    elections: list[ElectionTick]


class Mark(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Something else that happened."""

    kind: str
    t: int
    offset: int
    key: str


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/timeline."""

    from_: int | None = msgspec.field(name="from")
    to: int | None
    leaders: list[LeaderSpan]
    lanes: list[LaneRow]
    marks: list[Mark]
    quiet: int
    more: int
    marks_more: int


class _Window(msgspec.Struct, frozen=True):
    """A window of time and the events in it: ``start`` … ``stop`` - 1."""

    from_: int
    to: int
    start: int
    stop: int
    end: int
    """The view's offset."""


def timeline(
    view: View,
    from_: int | None = None,
    to: int | None = None,
    *,
    elections_only: bool = False,
    only: frozenset[str] | None = None,
    limit: int = 200,
) -> Timeline:
    """The window, both times included; everything by default."""
    if view.offset == 0:
        return Timeline(from_=from_, to=to, leaders=[], lanes=[], marks=[], quiet=0, more=0, marks_more=0)
    window = _window(view, from_, to)
    lanes, quiet, more = _lanes(view, window, elections_only, only, limit)
    marks, marks_more = _marks(view, window)
    return Timeline(
        from_=window.from_,
        to=window.to,
        leaders=leaders(view, window.from_, window.to),
        lanes=lanes,
        marks=marks,
        quiet=quiet,
        more=more,
        marks_more=marks_more,
    )


def _window(view: View, from_: int | None, to: int | None) -> _Window:
    spool, end = view.log.spool, view.offset
    first = spool.times[0] if from_ is None else from_
    last = view.now if to is None else to
    start, stop = (min(spool.offset_at(time), end) for time in (first - 1, last))
    return _Window(first, last, start, max(start, stop), end)


def leaders(view: View, from_: int | None = None, to: int | None = None) -> list[LeaderSpan]:
    """The leaders with their times; one ends when the next winner had stopped hearing from it."""
    table, spans = view.log.index.leaders, []
    count = table.cut(view.offset)
    for number, (offset, t, node, term, _, _) in enumerate(table.rows(0, count)):
        ended = None
        if number + 1 < count:
            _, next_t, _, _, _, silent = table.row(number + 1)
            ended = max(t, next_t - silent)
        if (from_ is None or ended is None or ended >= from_) and (to is None or t <= to):
            spans.append(LeaderSpan(id=node, term=term, from_=t, to=ended, offset=offset))
    return spans


def _lanes(
    view: View, window: _Window, elections_only: bool, only: frozenset[str] | None, limit: int
) -> tuple[list[LaneRow], int, int]:
    rows: list[LaneRow] = []
    quiet = more = 0
    lanes = view.log.index.lanes
    for name in sorted(lanes):
        if only is not None and name not in only:
            continue
        lane = lanes[name]
        if not lane.sizes.cut(window.stop):
            continue  # It does not exist yet.
        if only is None and not _changed(lane, window, elections_only):
            quiet += _size(lane, window) > 0
        elif len(rows) < limit:
            rows.append(_lane(name, lane, window))
        else:
            more += 1
    return rows, quiet, more


def _inside(table: Rows, window: _Window) -> tuple[int, int]:
    return table.cut(window.start), table.cut(window.stop)


def _changed(lane: Lane, window: _Window, elections_only: bool) -> bool:
    tables = (lane.masters, lane.elections) if elections_only else (lane.masters, lane.elections, lane.sync, lane.sizes)
    for table in tables:
        first, last = _inside(table, window)
        if first < last:
            return True
    return bool(_gaps(lane, window))


def _size(lane: Lane, window: _Window) -> int:
    count = lane.sizes.cut(window.stop)
    return lane.sizes.get(count - 1, 1) if count else 0


def _gaps(lane: Lane, window: _Window) -> list[Gap]:
    """Those that overlap the window, even if the event that tells of one came after it (silence is noticed late)."""
    gaps = []
    first = max(lane.gaps.cut(window.start) - 1, 0)
    for offset, t0, closed, t1 in lane.gaps.rows(first, lane.gaps.cut(window.end)):
        if t0 > window.to:
            break
        ended = t1 if NOTHING != closed < window.end else None
        if ended is None or ended >= window.from_:
            gaps.append(Gap(t0=t0, t1=ended, offset=offset))
    return gaps


def _lane(name: str, lane: Lane, window: _Window) -> LaneRow:
    masters = lane.masters.rows(*_with_former(lane.masters, window))
    sync = lane.sync.rows(*_with_former(lane.sync, window))
    elections = lane.elections.rows(*_inside(lane.elections, window))
    return LaneRow(
        set=name,
        size=_size(lane, window),
        masters=[MasterStep(id=None if one == NOTHING else one, t=t, offset=offset) for offset, t, one in masters],
        sync=[SyncStep(n=count, t=t, offset=offset) for offset, t, count in sync],
        gaps=_gaps(lane, window),
        elections=[ElectionTick(t=t, offset=offset, failed=bool(failed)) for offset, t, failed in elections],
    )


def _with_former(table: Rows, window: _Window) -> tuple[int, int]:
    first, last = _inside(table, window)
    return max(first - 1, 0), last


def _marks(view: View, window: _Window) -> tuple[list[Mark], int]:
    spool, table = view.log.spool, view.log.index.marks
    first, last = _inside(table, window)
    kept = max(first, last - MARKS_MAX)
    marks = [
        Mark(kind=MARKS[kind], t=spool.times[offset], offset=offset, key=spool.key_names.texts[spool.keys[offset]])
        for offset, kind in table.rows(kept, last)
    ]
    return marks, kept - first
