"""How a read comes about: authorised, as fresh as asked or of the past, worked out in slices, stamped.

Rules: one level a read: ``linearizable``, ``at_least`` (with ``min_offset``), ``stale``; or ``at``, which goes with
none of them. What an answer reflects is in its stamp (docs/reads.md).
"""

from collections.abc import Callable
from typing import TypedDict

from quorate.controller import ReadView
from quorate.errors import UsageError
from quorate.gateway.fresh import Freshness, Level, NotFresh, asked, is_past
from quorate.gateway.http.context import PRINCIPAL, HttpContext
from quorate.gateway.http.messages import HttpError, answer
from quorate.gateway.http.routing import Call
from quorate.slices import Steps, in_slices

FRESHNESS = ("level", "min_offset", "at")
PAGING = ("limit", "after")


class StampFields(TypedDict):
    """What every answer says about itself (answers.Stamped)."""

    offset: int
    time_ms: int
    node: int
    past: bool


def freshness(call: Call, default: Level) -> Freshness:
    """The freshness that a request asks for. Raises HttpError ``invalid``."""
    try:
        level, min_offset, at = (call.request.query.get(name, "") for name in FRESHNESS)
        return asked(level, min_offset, at, default)
    except UsageError as error:
        raise HttpError("invalid", str(error)) from None


class Asking:
    """Base of the handlers of reads."""

    def __init__(self, context: HttpContext) -> None:
        self._context = context

    def answered(
        self,
        call: Call,
        operation: str,
        make: Callable[[ReadView], Steps[object]],
        default: Level = "linearizable",
    ) -> None:
        """Answer with what ``make`` makes of the view. ``default``: the level when none is asked for."""
        self.admit(operation)
        self.view(freshness(call, default), call, lambda view: self.made(call, make(view)))

    def view(self, fresh: Freshness, call: Call, done: Callable[[ReadView], None]) -> None:
        """A view, or the call's end."""

        def seen(view: ReadView | NotFresh) -> None:
            if isinstance(view, ReadView):
                done(view)
            else:
                call.fail(HttpError(view.reason, view.message, leader=view.leader, end_offset=view.end_offset))

        self._context.fresh.read(fresh, seen)

    def made(self, call: Call, steps: Steps[object]) -> None:
        """Do the work a slice at a time, then answer."""
        in_slices(steps, self._context.scheduler, lambda made: call.settle(lambda: answer(made())))

    def admit(self, operation: str) -> None:
        """Ask both hooks. Raises HttpError."""
        if not self._context.access.authorize(PRINCIPAL, operation, "cluster"):
            raise HttpError("denied", f"{operation} is not allowed")
        if not self._context.quota.admit(PRINCIPAL, operation):
            raise HttpError("throttled", f"too many {operation}")

    def stamp(self, view: ReadView) -> StampFields:
        """What the answer reflects."""
        return StampFields(
            offset=view.offset, time_ms=view.time_ms, node=self._context.node.node_id, past=is_past(view)
        )

    def limit(self, call: Call) -> int:
        """Items of a page."""
        settings = self._context.settings
        return min(call.integer("limit", settings.page_default, 1), settings.page_max)
