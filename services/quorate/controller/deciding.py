"""Deciding ahead of the commit: the tip, the entries in flight, and who waits for which.

Rules: a decision is taken on the tip and proposed in the same breath, in the term it was decided in; when the
leadership ends the tip is gone. An answer leaves only after commit and apply. An answer that writes nothing (a refusal,
an unchanged fact) was read from the tip too: it waits for the last entry in flight, or for a confirmed leadership when
none is.

Theory: entries of a lost leadership stay *in limbo*: if one is seen committed after all, its caller still gets the
answer; if another entry takes its index it provably never happened; until then nobody knows.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from quorate.clock import Scheduler
from quorate.consensus.entry import MAX_REPLY_BYTES, Entry, encode_entry
from quorate.consensus.ports import Index, RaftEngine, Term
from quorate.controller.machine import Adopted, ReplicatedState, remember
from quorate.controller.outcomes import Answered, Outcome, Refused, Unavailable, UnknownOutcome
from quorate.controller.pending import Pending, Stage
from quorate.errors import UsageError, check
from quorate.events import Event, Stamp
from quorate.events import key as event_key
from quorate.metadata.commands import Accepted, Command, Refusal, Reply
from quorate.metadata.context import Context, Decision, LiveView
from quorate.metadata.decide import decide
from quorate.metadata.evolve import evolve
from quorate.metadata.policy import PolicySettings
from quorate.metadata.requests import RequestTable
from quorate.metadata.state import State
from quorate.wire.avro import encode_events

CommandPending = Pending[Command, Outcome]
Settle = Callable[[CommandPending, Outcome], None]

_reply_encoder = msgspec.msgpack.Encoder()
_reply_decoder = msgspec.msgpack.Decoder(Reply)


class Tip:
    """State, requests, next offset and time as they will be once everything in flight is applied."""

    __slots__ = ("offset", "requests", "state", "time_ms")

    def __init__(self, state: State, requests: RequestTable, offset: int, time_ms: int) -> None:
        self.state = state
        self.requests = requests
        self.offset = offset
        self.time_ms = time_ms


class InFlight:
    """One entry proposed here and not yet applied."""

    __slots__ = ("adopted", "answer", "events", "index", "pending", "stamp", "term", "waiting")

    def __init__(
        self,
        index: Index,
        term: Term,
        adopted: Adopted,
        pending: CommandPending,
        answer: Answered,
        events: tuple[Event, ...],
        stamp: Stamp,
    ) -> None:
        self.index = index
        self.term = term
        self.adopted = adopted
        self.pending = pending
        self.answer = answer
        self.events = events
        self.stamp = stamp
        self.waiting: list[tuple[CommandPending, Outcome]] = []
        """Answers that were read from this entry's tip."""


class Decider:
    """The leader's speculation; ``settle`` is told how each request ended."""

    def __init__(
        self,
        machine: ReplicatedState,
        scheduler: Scheduler,
        live_now: Callable[[], LiveView],
        policy: PolicySettings,
        settle: Settle,
        *,
        command_bytes_max: int,
    ) -> None:
        self._machine = machine
        self._scheduler = scheduler
        self._live_now = live_now
        self._policy = policy
        self._settle = settle
        self._command_bytes_max = command_bytes_max
        self.engine: RaftEngine
        self._tip: Tip | None = None
        self._term = Term(0)
        self._in_flight: deque[InFlight] = deque()
        self._limbo: dict[Index, InFlight] = {}
        self._settled: list[tuple[InFlight, bool]] = []
        self.on_committed: list[Callable[[tuple[Event, ...], Stamp], None]] = []
        """Called on the leader with the events of each entry it decided, once applied, and their first stamp."""

    def __len__(self) -> int:
        """Entries in flight."""
        return len(self._in_flight)

    # -- deciding

    def decide(self, pending: CommandPending, term: Term) -> bool:
        """Decide on the tip and propose. False: not the leader of ``term`` any more, nothing was proposed."""
        tip = self._tip
        if tip is None or term != self._term:
            machine = self._machine
            tip = self._tip = Tip(machine.state, machine.requests, machine.offset, machine.time_ms)
            self._term = term
        now_ms = max(self._scheduler.time_ms(), tip.time_ms)
        if pending.request_id:
            known = self._known(tip, pending, now_ms)
            if known is not None:
                self._after_tip(pending, known)
                return True
        context = Context(now_ms=now_ms, term=term, policy=self._policy, live=self._live_now(), next_offset=tip.offset)
        decision = decide(tip.state, pending.request, context)
        if isinstance(decision, Refusal):
            self._after_tip(pending, Refused(decision, tip.offset))
            return True
        if not decision.events:
            self._after_tip(pending, Answered(decision.reply, tip.offset))
            return True
        return self._propose(tip, pending, decision, now_ms, term)

    def _known(self, tip: Tip, pending: CommandPending, now_ms: int) -> Outcome | None:
        """What an earlier run of this request id was told, if there was or may have been one."""
        found = tip.requests.recall(pending.caller.principal, pending.request_id, now_ms)
        if found is None:
            return None
        if isinstance(found, Refusal):
            return UnknownOutcome(found.remark) if found.code == "RequestExpired" else Refused(found, tip.offset)
        reply = _reply_decoder.decode(found.reply) if found.reply else Accepted()
        return Answered(reply, found.first_offset + found.count, repeated=True)

    def _propose(self, tip: Tip, pending: CommandPending, decision: Decision, now_ms: int, term: Term) -> bool:
        caller, base = pending.caller, tip.offset
        stamp = Stamp(
            offset=base,
            term=term,
            time_ms=now_ms,
            principal=caller.principal,
            cause=pending.cause,
            request_id=pending.request_id,
        )
        events = decision.events
        entry = Entry(
            kind="events",
            decided_term=term,
            base_offset=base,
            count=len(events),
            time_ms=now_ms,
            principal=caller.principal,
            cause=pending.cause,
            request_id=pending.request_id,
            reply=_remembered(decision.reply) if pending.request_id else b"",
            batch=encode_events(events, stamp),
        )
        try:
            encoded = encode_entry(entry, self._command_bytes_max)
        except UsageError as error:
            self._after_tip(pending, Refused(Refusal(code="CommandTooLarge", remark=str(error)), base))
            return True
        index = self.engine.propose(encoded, term)
        if index is None:
            return False
        state = _fold(tip.state, events, stamp)
        requests, request_rows = remember(tip.requests, entry)
        adopted = Adopted(entry, state, requests, tuple([event_key(event) for event in events]), request_rows)
        tip.state, tip.requests, tip.offset, tip.time_ms = state, requests, base + len(events), now_ms
        pending.stage = Stage.PROPOSED
        self._in_flight.append(
            InFlight(index, term, adopted, pending, Answered(decision.reply, tip.offset), events, stamp)
        )
        return True

    def _after_tip(self, pending: CommandPending, outcome: Outcome) -> None:
        """Answer what writes nothing once what it was read from is certain."""
        if self._in_flight:
            pending.stage = Stage.CONFIRMING
            self._in_flight[-1].waiting.append((pending, outcome))
            return
        pending.stage = Stage.CONFIRMING

        def confirmed(index: Index | None) -> None:
            self._settle(
                pending, outcome if index is not None else Unavailable("the leadership could not be confirmed")
            )

        self.engine.read_index(confirmed)

    # -- controller.machine.Speculation

    def claimed(self, index: Index, term: Term) -> Adopted | None:
        """See Speculation. The log is the same wherever (index, term) is: these are the bytes that were proposed."""
        flight = self._in_flight
        if flight and flight[0].index == index:
            check(flight[0].term == term, f"entry {index} of term {flight[0].term} came back in term {term}")
            return flight[0].adopted
        return None

    def settled(self, index: Index, term: Term, *, executed: bool) -> None:
        """See Speculation."""
        flight = self._in_flight
        if flight and flight[0].index == index:
            self._settled.append((flight.popleft(), executed))
            if not executed:
                self.lost()
                self._scheduler.call_soon(lambda: self.engine.step_down(f"own entry {index} was not executed"))
        elif self._limbo:
            lost = self._limbo.pop(index, None)
            if lost is not None:
                self._settled.append((lost, executed and lost.term == term))

    def slice_end(self) -> None:
        """The slice is stored: answer."""
        settled, self._settled = self._settled, []
        for flight, executed in settled:
            never = Unavailable("the entry was not executed")
            self._settle(flight.pending, flight.answer if executed else never)
            for pending, outcome in flight.waiting:
                self._settle(pending, outcome if executed else never)
            if executed:
                for callback in self.on_committed:
                    callback(flight.events, flight.stamp)

    def lost(self) -> None:
        """The leadership ended: what is in flight is in limbo, what was only read from the tip never happened."""
        self._tip = None
        self._term = Term(0)
        for flight in self._in_flight:
            for pending, _ in flight.waiting:
                self._settle(pending, Unavailable("the leadership ended"))
            flight.waiting.clear()
            self._limbo[flight.index] = flight
        self._in_flight.clear()

    def sweep(self) -> None:
        """Limbo entries whose callers were told *unknown* need no place any more."""
        if self._limbo:
            for index in [i for i, flight in self._limbo.items() if flight.pending.stage is Stage.ENDED]:
                del self._limbo[index]


def _remembered(reply: Reply) -> bytes:
    """The reply as a retry will get it; a very long one is remembered as ``Accepted`` (no bytes)."""
    encoded = _reply_encoder.encode(reply)
    return encoded if len(encoded) <= MAX_REPLY_BYTES else b""


def _fold(state: State, events: tuple[Event, ...], first: Stamp) -> State:
    """Evolve through the events of one command."""
    if len(events) == 1:
        return evolve(state, events[0], first)
    for position, event in enumerate(events):
        state = evolve(state, event, msgspec.structs.replace(first, offset=first.offset + position))
    return state
