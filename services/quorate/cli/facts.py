"""The log as a node's HTTP interface tells it, turned back into events."""

import datetime as dt
from collections.abc import Iterator

import msgspec

from quorate.cli.client import Node
from quorate.events import Event, Stamp, stamp_of
from quorate.gateway.http.answers import Log, LogEvent

PAGE = 500


def clock(time_ms: int) -> str:
    """Local wall-clock time, to the millisecond."""
    return dt.datetime.fromtimestamp(time_ms / 1000).astimezone().strftime("%H:%M:%S.%f")[:-3]


class Fact(msgspec.Struct, frozen=True):
    """One event with its stamp."""

    stamp: Stamp
    event: Event

    @property
    def clock(self) -> str:
        """When it was decided."""
        return clock(self.stamp.time_ms)


def facts(node: Node, start: int, stop: int | None = None) -> Iterator[Fact]:
    """Facts from offset ``start`` to the end of the log (or before ``stop``). Raises NodeError."""
    while stop is None or start < stop:
        wanted = PAGE if stop is None else min(PAGE, stop - start)
        records = node.get("/v1/log", Log, **{"from": start, "limit": wanted, "level": "stale"}).events
        yield from map(fact, records)
        if not records:
            return
        start = records[-1].offset + 1


def fact(record: LogEvent) -> Fact:
    """A record of ``/v1/log`` with its stamp as a value of its own."""
    return Fact(stamp_of(record), record.event)
