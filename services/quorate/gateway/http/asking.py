"""How a read comes about: authorised, as fresh as asked or of the past, worked out in slices, stamped.

Rules: one level a read: ``linearizable``, ``at_least`` (with ``min_offset``), ``stale``; or ``at``, which goes with
none of them. What an answer reflects is in its stamp (docs/reads.md).
"""

from collections.abc import Callable
from typing import Literal, TypedDict

from quorate.controller import ReadView
from quorate.gateway.http.context import PRINCIPAL, Freshness, HttpContext, Reader
from quorate.gateway.http.messages import HttpError, answer
from quorate.gateway.http.routing import Call
from quorate.metadata.context import Silence
from quorate.slices import Steps, in_slices

LEVELS = ("linearizable", "at_least", "stale")
FRESHNESS = ("level", "min_offset", "at")
PAGING = ("limit", "after")
OFFSET_MAX = (1 << 62) - 1

Level = Literal["linearizable", "stale"]


class StampFields(TypedDict):
    """What every answer says about itself (answers.Stamped)."""

    offset: int
    time_ms: int
    node: int
    past: bool


def is_past(view: ReadView) -> bool:
    """Is it a state of the past, of which no heartbeat is known?"""
    return isinstance(view.live, Silence)


def freshness(call: Call, default: Level) -> Freshness:
    """What a request asks for. Raises HttpError ``invalid``."""
    query = call.request.query
    level = query.get("level", "")
    if query.get("at", ""):
        if level or query.get("min_offset", ""):
            raise HttpError("invalid", "at: the past is what it is; level and min_offset do not go with it")
        return Freshness(linearizable=False, at=call.integer("at", 0, 0, OFFSET_MAX))
    if level and level not in LEVELS:
        raise HttpError("invalid", f"level: {level[:40]!r} is none of {', '.join(LEVELS)}")
    if level == "at_least" and not query.get("min_offset", ""):
        raise HttpError("invalid", "level: at_least needs min_offset")
    min_offset = call.integer("min_offset", 0, 0, OFFSET_MAX)
    return Freshness(linearizable=(level or default) == "linearizable", min_offset=min_offset)


class Asking:
    """What the handlers of reads have in common."""

    def __init__(self, context: HttpContext, reader: Reader) -> None:
        self._context = context
        self._reader = reader

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
        self._reader.read(fresh, done, call.fail)

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
