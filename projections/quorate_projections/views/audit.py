"""The view ``audit``: who changed what, when and through which request; every event, by principal and offset."""

from typing import get_args

import msgspec

from quorate.events import Event, Stamp, key
from quorate_projections.views.view import Rows, View, offset_key


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


def fold(rows: Rows[AuditRow], stamp: Stamp, event: Event) -> None:
    """Every event is somebody's doing."""
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
    rows.put(f"{stamp.principal}/{offset_key(stamp.offset)}", row)


VIEW = View(
    name="audit",
    what="Every event with who asked for it, by principal/offset (20 digits).",
    initial=AuditRow(),
    fold=fold,
    led_by="principal",
    mine=frozenset(get_args(Event)),
    not_mine=frozenset(),
)
