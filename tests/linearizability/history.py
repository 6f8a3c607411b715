"""What clients asked, when, and what they were told: the history a checker judges.

Rules: one clock for all (``time.monotonic`` of this process). A call begins before its first byte leaves and ends
after its last byte came. *Done* and *nothing happened* are believed in full; every other end of a write (a timeout, a
broken connection, *unknown outcome*, the end of the test) leaves it open for ever. A read without an answer says
nothing.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from tests.sim.linearizability import Operation, check, settled

Level = Literal["linearizable", "stale"]


class Told(msgspec.Struct, frozen=True):
    """It happened. ``value``: what a read saw, or a comparison that found something else (``differs``); ``offset``: the
    events before it are reflected, where the wire says.
    """

    value: str | None = None
    offset: int | None = None
    differs: bool = False


class Call(msgspec.Struct, frozen=True, eq=False):
    """One call. ``value``: what is written; None for a read. ``compares``: it is written if ``expected`` is there."""

    register: str
    value: str | None
    node: int
    wire: str
    level: Level
    called: float
    compares: bool = False
    expected: str | None = None

    @property
    def is_put(self) -> bool:
        """A write?"""
        return self.value is not None

    def operation(self, returned: float | None) -> Operation:
        """The write it is."""
        return Operation(self.called, returned, "cas" if self.compares else "put", self.value, self.expected)


class Answer(msgspec.Struct, frozen=True, eq=False):
    """A call that was answered with *done*."""

    call: Call
    returned: float
    told: Told


class History:
    """Of all clients."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        """In the order they came."""
        self._open: set[Call] = set()
        self._lost: list[Call] = []

    def begin(
        self,
        register: str,
        value: str | None,
        node: int,
        wire: str,
        level: Level = "linearizable",
        *,
        compares: bool = False,
        expected: str | None = None,
    ) -> Call:
        """A client asks now."""
        call = Call(register, value, node, wire, level, time.monotonic(), compares, expected)
        self._open.add(call)
        return call

    def end(self, call: Call, told: Told | None) -> None:
        """It was told that it happened; None: that nothing did."""
        self._open.discard(call)
        if told is not None:
            self.answers.append(Answer(call, time.monotonic(), told))

    def lose(self, call: Call) -> None:
        """Nobody knows."""
        self._open.discard(call)
        if call.is_put:
            self._lost.append(call)

    # -- what has happened so far

    def answered(self, since: float, nodes: Collection[int], *, puts: bool, level: Level = "linearizable") -> int:
        """Calls that these nodes answered, begun at ``since`` or later."""
        found = 0
        for answer in reversed(self.answers):
            if answer.returned < since:
                break
            call = answer.call
            found += call.called >= since and call.node in nodes and call.is_put is puts and call.level == level
        return found

    def waiting(self, since: float, node: int) -> int:
        """Linearizable reads begun at ``since`` or later whose answer this node owes."""
        return sum(
            call.called >= since and call.node == node and not call.is_put and call.level == "linearizable"
            for call in self._open
        )

    # -- for the judge

    def registers(self, level: Level = "linearizable") -> dict[str, list[Operation]]:
        """Every write, and every read of this level, by register."""
        found: dict[str, list[Operation]] = {}
        for answer in self.answers:
            call = answer.call
            if call.is_put and not answer.told.differs:
                found.setdefault(call.register, []).append(call.operation(answer.returned))
            elif call.is_put or call.level == level:
                operation = Operation(call.called, answer.returned, "get", answer.told.value)
                found.setdefault(call.register, []).append(operation)
        for call in (*self._lost, *self._open):
            if call.is_put:
                found.setdefault(call.register, []).append(call.operation(None))
        return found

    def followers(self, elections: Sequence[tuple[int, int]]) -> Iterator[Answer]:
        """Linearizable reads answered by a node that did not lead in the state it answered from. ``elections``: (offset
        of the event, who leads from there on), in order.
        """
        for answer in self.answers:
            call, offset = answer.call, answer.told.offset
            if not call.is_put and call.level == "linearizable" and offset is not None:
                leaders = [node for at, node in elections if at < offset]
                if leaders and leaders[-1] != call.node:
                    yield answer


def verdict(operations: Sequence[Operation]) -> bool | None:
    """Does an order explain this register? None: the checker's budget did not do."""
    return check(settled(operations))


def unexplained(history: History) -> dict[str, tuple[bool | None, list[Operation]]]:
    """Registers that no order explains, or that could not be decided."""
    verdicts = {name: (verdict(operations), operations) for name, operations in history.registers().items()}
    return {name: found for name, found in verdicts.items() if found[0] is not True}


def older(operations: Sequence[Operation]) -> list[Operation] | None:
    """The same history, but one read saw a value that had been overwritten before it began; None: there is no such."""
    done = [op for op in operations if op.returned is not None]
    puts = [op for op in done if op.what == "put"]
    for late in sorted(puts, key=lambda op: -op.called):
        early = [op for op in puts if op.returned is not None and op.returned < late.called]
        reads = [op for op in done if op.what == "get" and late.returned is not None and op.called > late.returned]
        if early and reads:
            changed = msgspec.structs.replace(reads[0], value=early[-1].value)
            return [changed if op is reads[0] else op for op in operations]
    return None


def steps_back(answers: Iterable[Answer]) -> list[tuple[Answer, int]]:
    """Linearizable answers that reflect fewer events than an answer that had come before they were asked for."""
    known = [a for a in answers if a.told.offset is not None and a.call.level == "linearizable"]
    by_call = sorted(known, key=lambda answer: answer.call.called)
    by_return = sorted(known, key=lambda answer: answer.returned)
    found, floor, at = [], 0, 0
    for answer in by_call:
        while by_return[at].returned < answer.call.called:
            floor, at = max(floor, by_return[at].told.offset or 0), at + 1
        if (answer.told.offset or 0) < floor:
            found.append((answer, floor))
    return found
