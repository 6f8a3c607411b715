"""How a submitted command or a question ends: exactly one of these, always.

Rules: *nothing was proposed* (NotLeader, Busy, Unavailable) and *nobody knows* (UnknownOutcome) are never confused.
Outcomes of commands travel between nodes as msgpack.
"""

import msgspec

from quorate.metadata.commands import Refusal, Reply
from quorate.model.queries import Result


class Caller(msgspec.Struct, frozen=True, gc=False):
    """Who asks."""

    principal: str
    address: str
    origin: str = ""
    """The node that forwarded, as ``node/<id>``; empty for a direct caller."""


class Answered(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Committed and applied. ``offset``: the next offset after this command's events."""

    reply: Reply
    offset: int
    repeated: bool = False
    """The reply of an earlier run of the same request id."""


class Refused(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Decided against; true as of ``offset``."""

    refusal: Refusal
    offset: int


class NotLeader(msgspec.Struct, frozen=True, gc=False, tag=True):
    """This node does not lead; provably nothing was proposed."""

    leader_id: int | None


class Busy(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A bounded queue is full; nothing was proposed."""

    reason: str


class Unavailable(msgspec.Struct, frozen=True, gc=False, tag=True):
    """No leader or no quorum in time, or the entry was provably not executed; nothing happened."""

    reason: str


class UnknownOutcome(msgspec.Struct, frozen=True, gc=False, tag=True):
    """It was proposed (or sent to the leader); it may or may not happen."""

    reason: str


Outcome = Answered | Refused | NotLeader | Busy | Unavailable | UnknownOutcome


class QueryResult(msgspec.Struct, frozen=True, gc=False):
    """A query's result, true as of ``offset``."""

    result: Result
    offset: int


class NotFound(msgspec.Struct, frozen=True, gc=False):
    """A query's refusal, true as of ``offset``."""

    refusal: Refusal
    offset: int


ReadOutcome = QueryResult | NotFound | NotLeader | Busy | Unavailable
