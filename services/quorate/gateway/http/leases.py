"""``GET /v1/leases``: what is left of leases that are asked for by their numbers.

Rules: an answer costs what was asked for, never all leases. What is left is soft state of the leader
(controller/lease_keeper.py): another node, and the past, say null.
"""

from typing import Final

from quorate.controller import ReadView
from quorate.gateway.fresh import is_past
from quorate.gateway.http.answers import LeaseItem, Leases
from quorate.gateway.http.asking import Asking
from quorate.gateway.http.context import HttpContext
from quorate.gateway.http.messages import HttpError
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
        """GET /v1/leases?ids=…; those that are not there are left out."""
        texts = [text for text in call.request.query.get("ids", "").split(",") if text]
        if not 1 <= len(texts) <= IDS_MAX:
            raise HttpError("invalid", f"ids: 1 to {IDS_MAX} numbers of leases, with commas")
        numbers = [lease_of(text) for text in texts]
        if None in numbers:
            raise HttpError("invalid", "ids: the number of a lease is hexadecimal, of 64 bits")

        def make(view: ReadView) -> Steps[Leases]:
            yield
            items = [item for number in numbers if number is not None and (item := self._item(view, number))]
            return Leases(**self._asking.stamp(view), leases=items)

        self._asking.answered(call, "ReadLeases", make)

    def _item(self, view: ReadView, number: int) -> LeaseItem | None:
        lease = view.state.leases.get(number)
        if lease is None:
            return None
        knows = self._context.engine.is_leader and not is_past(view)
        return LeaseItem(
            lease=lease_number(number),
            ttl_s=lease.ttl_s,
            granted_ms=lease.granted_ms,
            remaining_s=lease.remaining_s,
            keys=len(view.state.attached.get(number, ())),
            left_ms=self._context.controller.leases.left_ms(number) if knows else None,
        )
