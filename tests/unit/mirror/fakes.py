"""A cluster's log, a Kafka topic with transactions and fencing, and a node, all in memory; faults on demand."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from quorate_projections.mirror.ports import Event, FencedError, MirrorError, NodeReport


def event(offset: int, log: str = "a") -> Event:
    """An event no other log has at that offset."""
    return Event(offset, b"key", f"{log}-{offset}".encode(), (("offset", str(offset).encode()),), 1_000 + offset)


@dataclass
class Topic:
    """The target: what is committed, and who may write."""

    committed: list[Event] = field(default_factory=list)
    epoch: int = 0


class FakeTarget:
    """Opened like a transactional producer: from then on the ones before it are fenced."""

    def __init__(self, topic: Topic, trouble: Callable[[], str] = lambda: "") -> None:
        self._topic = topic
        self._trouble = trouble
        topic.epoch += 1
        self._epoch = topic.epoch
        self.closed = False

    def first_and_last(self) -> tuple[Event, Event] | None:
        """The first and the last committed record; None when there is none. Raises MirrorError."""
        if self._trouble() == "unreachable":
            raise MirrorError("the target cannot be read")
        found = self._topic.committed
        return (found[0], found[-1]) if found else None

    def write(self, events: Sequence[Event]) -> None:
        """All or none. Raises FencedError (none), MirrorError (unknown: open again, look again)."""
        trouble = self._trouble()
        if self._epoch != self._topic.epoch:
            raise FencedError("another took over")
        if trouble == "aborted":
            raise MirrorError("the transaction was aborted")
        self._topic.committed += events
        if trouble == "unknown":
            raise MirrorError("the commit was not answered, but it happened")

    def close(self) -> None:
        """Let go."""
        self.closed = True


class FakeSource:
    """The topic of one node, as far as that node has it."""

    def __init__(self, log: Sequence[Event], trouble: Callable[[], str] = lambda: "") -> None:
        self._log = log
        self._trouble = trouble
        self._next = 0
        self.closed = False

    def seek(self, offset: int) -> None:
        """Read from this event on."""
        self._next = offset

    def read(self, most: int, wait_s: float) -> Sequence[Event]:
        """The next events in order, at most ``most``; empty after ``wait_s`` without any. Raises MirrorError."""
        trouble = self._trouble()
        if trouble == "unreachable":
            raise MirrorError("the node is gone")
        found = list(self._log[self._next : self._next + most])
        self._next += len(found)
        if trouble == "hole" and found:
            self._next += 1
            found = [*found[:-1], event(found[-1].offset + 1)]
        return found

    def at(self, offset: int) -> Event:
        """One event. Raises MirrorError when it is not there within the deadline. The next read needs a seek."""
        if offset >= len(self._log):
            raise MirrorError("not there")
        return self._log[offset]

    def end(self) -> int:
        """The high watermark as last heard."""
        return len(self._log)

    def close(self) -> None:
        """Let go."""
        self.closed = True


@dataclass
class FakeNode:
    """It leads, or does not, or is away."""

    leads: bool = True
    away: bool = False
    cluster: str = "cluster"

    def ask(self) -> NodeReport:
        """Does it lead now? Raises MirrorError when it cannot be asked."""
        if self.away:
            raise MirrorError("the node is away")
        return NodeReport(self.leads, self.cluster, "127.0.0.1:1", 7)


def troubles(chance: random.Random, share: float) -> Callable[[], str]:
    """Now and then one of the things that can go wrong."""
    kinds = ["aborted", "unknown", "unreachable", "hole"]
    return lambda: chance.choice(kinds) if chance.random() < share else ""
