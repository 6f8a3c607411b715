"""Committed state as a caller sees it, and how a read ends."""

from typing import Literal

import msgspec

from quorate.controller.outcomes import Busy, NotFound, NotLeader, QueryResult, Unavailable
from quorate.metadata.refusals import refuse
from quorate.model.live import LiveView
from quorate.model.queries import Absent, Query, answer
from quorate.model.state import State

Level = Literal["linearizable", "stale"]


class ReadView(msgspec.Struct, frozen=True):
    """Committed state at one moment, and who is alive then, as this node hears it."""

    state: State
    offset: int
    term: int
    time_ms: int
    live: LiveView


ReadResult = ReadView | NotLeader | Busy | Unavailable
"""How a read ends."""


def answered(query: Query, view: ReadView) -> QueryResult | NotFound:
    """What a view answers to a question."""
    result = answer(query, view.state, view.live)
    if isinstance(result, Absent):
        return NotFound(refuse(result.code, result.remark), view.offset)
    return QueryResult(result, view.offset)
