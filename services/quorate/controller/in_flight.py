"""Entries proposed here and not yet applied, as the machine that applies them sees it: in flight, or in doubt.

Rules: it depends on nothing, so it is there before the machine, and the machine before the engine and whoever decides.
The decider puts entries in and takes out what ended; the machine claims them, or says what became of them.

Theory: (index, term) names one entry wherever it is.
"""

from collections import deque

import msgspec

from quorate.consensus.ports import Index, Term
from quorate.controller.machine import EntryResult
from quorate.controller.outcomes import Answered, Outcome
from quorate.controller.pending import Pending
from quorate.errors import InvariantBrokenError
from quorate.events import Event
from quorate.metadata.commands import Command

CommandPending = Pending[Command, Outcome]


class InFlight(EntryResult, gc=True, eq=False):
    """One entry proposed here and not yet applied."""

    index: Index
    term: Term
    pending: CommandPending
    answer: Answered
    events: tuple[Event, ...]
    fate: bool | None = None
    """True: executed and stored. False: in doubt, or never executed. None: still in flight."""
    waiting: list[tuple[CommandPending, Outcome]] = msgspec.field(default_factory=list)
    """Answers that were read from this entry's tip, the leadership since confirmed."""


class Flights:
    """What one node has proposed (controller.machine.Speculation)."""

    def __init__(self) -> None:
        self.in_flight: deque[InFlight] = deque()
        """In order, all of the term that this node decides in."""
        self.in_doubt: dict[Index, InFlight] = {}
        """Of terms that it lost."""
        self.ended: list[tuple[InFlight, bool]] = []
        """Seen committed in this slice, and whether it was executed."""

    # -- controller.machine.Speculation

    def claimed(self, index: Index, term: Term, offset: int) -> EntryResult | None:
        """The result that was computed when the entry was proposed."""
        flight = self.in_flight
        if not flight or flight[0].index != index:
            return None
        first = flight[0]
        if first.term != term:
            raise InvariantBrokenError(f"entry {index} of term {first.term} came back in term {term}")
        if first.base_offset != offset:
            return None
        self.ended.append((flight.popleft(), True))
        return first

    def settled(self, index: Index, term: Term, *, executed: bool) -> bool:
        """Note the outcome. An entry of ours that is not executed was decided on a tip that never came to be."""
        flight = self.in_flight
        if flight and flight[0].index == index:
            self.ended.append((flight.popleft(), executed))
            return True
        if self.in_doubt:
            lost = self.in_doubt.pop(index, None)
            if lost is not None:
                self.ended.append((lost, executed and lost.term == term))
        return False
