"""The view ``audit``: who changed what, when and through which request; every event, by offset.

Theory: the order of keys is the order of time. What one principal did is found by a second row, so that it is read
without looking at what all the others did.
"""

from typing import get_args

import msgspec

from quorate.events import Event, key
from quorate_projections.views.view import Change, Rows, View, index_key, offset_key

AT = "at/"
"""Prefix of the keys that are shown; those of the second rows lack it."""


class AuditRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One event, without what it says."""

    principal: str = ""
    """Empty: nobody was identified."""
    offset: int = -1
    time_ms: int = 0
    term: int = 0
    type: str = ""
    """Name of the event."""
    entity: str = ""
    """Key of the entity it touched, ``kind/tenant/name``, percent-encoded."""
    cause: str = ""
    """The request, or the controller's own reconciler."""
    request_id: str = ""


def fold(rows: Rows[AuditRow], change: Change[Event]) -> None:
    """Every event is somebody's doing."""
    stamp, event = change.stamp, change.event
    row = AuditRow(
        principal=stamp.principal,
        offset=stamp.offset,
        time_ms=stamp.time_ms,
        term=stamp.term,
        type=type(event).__name__,
        entity=key(event).decode(),
        cause=stamp.cause,
        request_id=stamp.request_id,
    )
    place = offset_key(stamp.offset)
    rows.put(AT + place, row)
    rows.put(index_key(stamp.principal, place), row)


VIEW = View(
    name="audit",
    what="Every event with who asked for it, by offset (20 digits).",
    initial=AuditRow(),
    fold=fold,
    version=2,
    prefix=AT,
    indexed="principal",
    mine=frozenset(get_args(Event)),
)
