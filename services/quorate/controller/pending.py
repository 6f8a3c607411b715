"""Requests on their way to an answer, and the deadlines that see to it that each gets one.

Rules: ``done`` is called exactly once. No timer per request: deadlines lie in one queue per patience, swept together;
a request that ended leaves its queue as soon as those before it have.
"""

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Generic, TypeVar

import msgspec

from quorate.controller.outcomes import Caller

O = TypeVar("O")  # noqa: E741  # The outcomes of a request.
R = TypeVar("R")


class Stage(Enum):
    """Where a request is; decides what a timeout means."""

    PARKED = "waiting for a leader"
    CONFIRMING = "confirming the leadership"
    PROPOSED = "proposed"
    FORWARDED = "sent to the leader"
    ENDED = "ended"


class Pending(msgspec.Struct, Generic[R, O], eq=False):
    """One request ``R`` that ends in one outcome ``O``. Times are monotonic seconds."""

    request: R
    done: Callable[[O], None]
    caller: Caller
    started: float
    patience_s: float
    cause: str = ""
    request_id: str = ""
    forward: bool = True
    is_read: bool = False
    stage: Stage = Stage.PARKED
    peer: int = 0
    queue: "deque[Pending[Any, Any]] | None" = None

    @property
    def deadline(self) -> float:
        """When it must have its answer."""
        return self.started + self.patience_s


AnyPending = Pending[Any, Any]
"""Where commands and reads go the same way."""


class Deadlines:
    """All requests not yet ended, by deadline."""

    def __init__(self) -> None:
        self._queues: dict[float, deque[AnyPending]] = {}

    def __bool__(self) -> bool:
        """Is there a queue? (An empty one goes with the next sweep.)"""
        return bool(self._queues)

    def add(self, pending: AnyPending, patience_s: float) -> None:
        """Watch it."""
        queue = self._queues.get(patience_s)
        if queue is None:
            queue = self._queues[patience_s] = deque()
        pending.queue = queue
        queue.append(pending)

    def ended(self, pending: AnyPending) -> None:
        """It has its answer."""
        pending.stage = Stage.ENDED
        queue = pending.queue
        pending.queue = None
        while queue and queue[0].stage is Stage.ENDED:
            queue.popleft()

    def expired(self, now: float) -> Iterator[AnyPending]:
        """Those whose time is over; the caller ends each."""
        for patience_s, queue in list(self._queues.items()):
            while queue and queue[0].deadline <= now:
                pending = queue.popleft()
                if pending.stage is not Stage.ENDED:
                    yield pending
            if not queue:
                del self._queues[patience_s]
