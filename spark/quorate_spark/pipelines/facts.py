"""One event of the log as the source's columns have it, and as the value the folds read.

Rules: a type this version does not know halts the query, it is never skipped: a fold that misses an event would be
wrong for ever after, and nobody would see it.
"""

from functools import cache
from typing import Final, get_args

import msgspec
from pyspark.sql import Row

from quorate.errors import PeerError
from quorate.events import Event, Stamp
from quorate.model.rows import Entity
from quorate.model.state import BrokerSet

TYPES: Final[dict[str, type[Event]]] = {kind.__name__: kind for kind in get_args(Event)}


class UnknownEventError(PeerError):
    """An event of a type, or of a form, that this version does not know: upgrade it."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """An event and everything beside it."""

    stamp: Stamp
    type: str
    key: str
    schema_id: int
    event: Event
    text: str
    """The event as JSON, as the source gave it."""
    before: Entity | None = None
    """The model's entity under the key before the event; set once a key's facts are in order (``keyed``)."""
    after: Entity | None = None

    @property
    def sets(self) -> tuple[BrokerSet | None, BrokerSet | None]:
        """The broker set before and after; None where it is not there."""
        return (
            self.before if isinstance(self.before, BrokerSet) else None,
            self.after if isinstance(self.after, BrokerSet) else None,
        )


def fact(row: Row) -> Fact:
    """The fact in a row of the source. Raises UnknownEventError."""
    kind = TYPES.get(row.type)
    if kind is None:
        raise UnknownEventError(f"event {row.offset} is a {row.type}, which this version does not know: upgrade it")
    try:
        event = _decoder(kind).decode(row.event)
    except msgspec.DecodeError as error:
        raise UnknownEventError(f"event {row.offset} is no {row.type} this version can read: {error}") from error
    stamp = Stamp(
        offset=row.offset,
        term=row.term,
        time_ms=row.time_ms,
        principal=row.principal or "",
        cause=row.cause or "",
        request_id=row.request_id or "",
    )
    return Fact(stamp=stamp, type=row.type, key=row.key, schema_id=row.schema_id, event=event, text=row.event)


@cache
def _decoder(kind: type[Event]) -> msgspec.json.Decoder[Event]:
    return msgspec.json.Decoder(kind)
