"""Requests on their way to an answer (endings.py sees to it that each gets one, once)."""

from collections import deque
from collections.abc import Callable
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
