"""The view ``controller_terms``: which controller led in which term, and how it came to, by term."""

import msgspec

from quorate.events import ControllerLeaderElected
from quorate_projections.views.view import Change, Rows, View, offset_key


class TermRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One term of office. Terms in which nobody was elected have no row."""

    term: int = 0
    node_id: int = 0
    cause: str = ""
    """``first start``, ``connection closed``, ``silent`` or ``handed over``."""
    previous_leader: int | None = None
    silent_for_ms: int = 0
    """How long the winner had not heard from the leader before."""
    offset: int = -1
    """First event of the term."""
    since_ms: int = 0


def fold(rows: Rows[TermRow], change: Change[ControllerLeaderElected]) -> None:
    """A term begins."""
    stamp, event = change.stamp, change.event
    row = TermRow(
        term=stamp.term,
        node_id=event.node_id,
        cause=event.cause,
        previous_leader=event.previous_leader,
        silent_for_ms=event.silent_for_ms,
        offset=stamp.offset,
        since_ms=stamp.time_ms,
    )
    rows.put(offset_key(stamp.term), row)


VIEW = View(
    name="controller_terms",
    what="Which controller led in which term and how it came to, by term (20 digits).",
    initial=TermRow(),
    fold=fold,
    mine=frozenset({ControllerLeaderElected}),
)
