"""What a record carries beside its event: who, when, why, and where in the log."""

import msgspec


class Stamp(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """All known when the event is proposed and asserted when it is applied (docs/architecture.md)."""

    offset: int
    """Events before this one; from 0, gapless."""
    term: int
    """The Raft term it was decided in."""
    time_ms: int
    """When it was decided: epoch milliseconds, UTC; never less than the event's before."""
    principal: str = ""
    """Who asked; empty = nobody was identified."""
    cause: str = ""
    """What led to it: the request, or the controller's own reconciler."""
    request_id: str = ""
    """The caller's id of the request, by which a retry is recognised; empty = none was given."""


def stamp_of(record: object) -> Stamp:
    """The stamp of a record that has these attributes among others. Raises msgspec.ValidationError."""
    return msgspec.convert(record, Stamp, from_attributes=True)
