"""``GET /v1/leases``: what is left of leases; of those that are asked for by their numbers, or of all, in pages.

Rules: those that are named cost what was asked for, never all leases. What is left is soft state of the leader
(controller/lease_keeper.py): another node, and the past, say null.
"""

from typing import Final

from quorate.controller import ReadView
from quorate.gateway.fresh import is_past
from quorate.gateway.http.answers import LeaseItem, Leases
from quorate.gateway.http.asking import Asking
from quorate.gateway.http.context import HttpContext
from quorate.gateway.http.messages import HttpError
from quorate.gateway.http.reading import sliced_page
from quorate.gateway.http.routing import Call
from quorate.model.words import lease_number, lease_of
from quorate.slices import Steps

IDS_MAX: Final = 100
"""Leases of one question."""


class LeaseHandlers:
    """The handlers."""

    def __init__(self, context: HttpContext, asking: Asking) -> None:
        self._context = context
        self._asking = asking

    def leases(self, call: Call) -> None:
        """GET /v1/leases; with ``ids=…`` those of them that are there, else a page of all."""
        query, limit = call.request.query, self._asking.limit(call)
        named = _named(query["ids"]) if "ids" in query else None

        def make(view: ReadView) -> Steps[Leases]:
            yield
            names, more = named or [], None
            if named is None:
                numbers = map(lease_number, view.state.leases)
                names, more = yield from sliced_page(numbers, query.get("after", ""), limit)
            items = [item for name in names if (item := self._item(view, name)) is not None]
            return Leases(**self._asking.stamp(view), leases=items, next=more)

        self._asking.answered(call, "ReadLeases", make)

    def _item(self, view: ReadView, name: str) -> LeaseItem | None:
        number = lease_of(name)
        lease = None if number is None else view.state.leases.get(number)
        if number is None or lease is None:
            return None
        knows = self._context.engine.is_leader and not is_past(view)
        return LeaseItem(
            lease=name,
            ttl_s=lease.ttl_s,
            granted_ms=lease.granted_ms,
            remaining_s=lease.remaining_s,
            keys=len(view.state.attached.get(number, ())),
            left_ms=self._context.controller.leases.left_ms(number) if knows else None,
        )


def _named(text: str) -> list[str]:
    """Numbers of leases as they are written. Raises HttpError."""
    texts = [one for one in text.split(",") if one]
    if not 1 <= len(texts) <= IDS_MAX:
        raise HttpError("invalid", f"ids: 1 to {IDS_MAX} numbers of leases, with commas")
    numbers = [number for one in texts if (number := lease_of(one)) is not None]
    if len(numbers) < len(texts):
        raise HttpError("invalid", "ids: the number of a lease is hexadecimal, of 64 bits")
    return [lease_number(number) for number in numbers]
