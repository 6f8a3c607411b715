"""The whole log on one line: how much happened when; and which offset belongs to a time."""

from operator import itemgetter

import msgspec

from quorate_spark.dashboard.panels.timeline import LeaderSpan, leaders
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.rows import NOTHING


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which some set had no master; ``t1`` null: still."""

    t0: int
    t1: int | None


class Density(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/density. Lists have one value for each bucket."""

    from_: int | None = msgspec.field(name="from")
    to: int | None
    end_offset: int
    events: list[int]
    elections: list[int]
    failed: list[int]
    ends: list[int]
    gaps: list[Window]
    leaders: list[LeaderSpan]


class Seek(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/seek."""

    offset: int


def density(view: View, buckets: int = 300) -> Density:
    """Equal spans of time between the first event and the view's last."""
    end, spool, index = view.offset, view.log.spool, view.log.index
    if not end:
        return Density(
            from_=None, to=None, end_offset=0, events=[], elections=[], failed=[], ends=[], gaps=[], leaders=[]
        )
    first, last = spool.times[0], spool.times[end - 1]
    ends = [min(end, spool.offset_at(first + (last - first) * (i + 1) // buckets)) for i in range(buckets)]
    ends[-1] = end
    return Density(
        from_=first,
        to=last,
        end_offset=end,
        events=_steps(ends),
        elections=_steps([index.elected.cut(offset) for offset in ends]),
        failed=_steps([index.failed.cut(offset) for offset in ends]),
        ends=ends,
        gaps=_gaps(view, max((last - first) // buckets, 1)),
        leaders=leaders(view),
    )


def _steps(totals: list[int]) -> list[int]:
    return [after - before for before, after in zip([0, *totals], totals, strict=False)]


def _gaps(view: View, grain: int) -> list[Window]:
    """Merged where they overlap or lie within one bucket of each other."""
    table = view.log.index.gaps
    rows = table.rows(0, table.cut(view.offset))
    spans = [(t0, t1 if NOTHING != closed < view.offset else None) for _, t0, closed, t1 in rows]
    spans.sort(key=itemgetter(0))
    merged: list[Window] = []
    for t0, t1 in spans:
        former = merged[-1] if merged else None
        if former is None or (former.t1 is not None and t0 > former.t1 + grain):
            merged.append(Window(t0=t0, t1=t1))
        elif former.t1 is not None and (t1 is None or t1 > former.t1):
            merged[-1] = Window(t0=former.t0, t1=t1)
    return merged


def seek(view: View, time: int) -> Seek:
    """The ``at`` that reflects every event up to a time."""
    return Seek(offset=min(view.offset, view.log.spool.offset_at(time)))
