"""The ports of the copy: a node, a source, a target; and their answers."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from quorate.errors import QuorateError


class MirrorError(QuorateError):
    """The copy cannot go on; the message says what an operator can do. Tried again after a pause."""


class FencedError(MirrorError):
    """Another mirror of this cluster took over."""


class ForeignLogError(MirrorError):
    """The target topic holds another log than the source's. Never tried again: an operator must look."""


class Event(msgspec.Struct, frozen=True):
    """One record of the event topic, as bytes."""

    offset: int
    """The event's, not the record's: in the target the two differ."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    time_ms: int


class NodeReport(msgspec.Struct, frozen=True):
    """A node's role and log, as it tells them."""

    leads: bool
    cluster_id: str
    kafka: str
    """``host:port`` of its Kafka listener."""
    term: int


class NodeView(Protocol):
    """The node the mirror stands beside."""

    def ask(self) -> NodeReport:
        """Does it lead now? Raises MirrorError when it cannot be asked."""


class Source(Protocol):
    """The event topic of that node."""

    def seek(self, offset: int) -> None:
        """Read from this event on."""

    def read(self, most: int, wait_s: float) -> Sequence[Event]:
        """The next events in order, at most ``most``; empty after ``wait_s`` without any. Raises MirrorError."""

    def at(self, offset: int) -> Event:
        """One event. Raises MirrorError when it is not there within the deadline. The next read needs a seek."""

    def end(self) -> int:
        """The high watermark as last heard."""

    def close(self) -> None:
        """Let go."""


class Target(Protocol):
    """The topic in the other Kafka, opened for writing by one mirror at a time."""

    def first_and_last(self) -> tuple[Event, Event] | None:
        """The first and the last committed record; None when there is none. Raises MirrorError."""

    def write(self, events: Sequence[Event]) -> None:
        """All or none. Raises FencedError (none), MirrorError (unknown: open again, look again)."""

    def close(self) -> None:
        """Let go."""
