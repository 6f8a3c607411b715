"""Deciding ahead of the commit: the tip, the entries in flight, and who waits for which.

Rules: a decision is taken on the tip and proposed in the same breath, in the term it was decided in; when the
leadership ends the tip is gone. An answer leaves only after commit and apply. An answer that writes nothing (a refusal,
an unchanged fact) was read from the tip too: it waits for a leadership confirmed *after* it was read, and for the last
entry it was read from. (That entry's commit alone proves nothing about now: the acknowledgements may be older than
another leader, whose commits the tip does not know; a paused leader finds both in its sockets when it wakes up.) A word
that somebody is there waits for no entry where nothing in flight is about him, and what is applied answers as the tip
does: heartbeats are not to take as long as others' writes.

Theory: entries of a lost leadership stay *in doubt*: if one is seen committed after all, its caller still gets the
answer; if another entry takes its index, or a later term of this node opens before it was seen, it provably never
happened (Raft's log matching: behind the first committed entry of a term nothing of an older term is ever committed);
until then nobody knows.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from quorate.consensus.entry import (
    EVENTS,
    FORMAT,
    MAX_REPLY_BYTES,
    WITH_DIGEST,
    Entry,
    encode_entry,
    entry_bytes,
    too_long,
)
from quorate.consensus.ports import Index, Term
from quorate.controller.cluster_clock import ClusterClock
from quorate.controller.in_flight import CommandPending, InFlight
from quorate.controller.lease_keeper import LeaseKeeper
from quorate.controller.listeners import Listener
from quorate.controller.machine import fold, remember
from quorate.controller.member_keeper import MemberKeeper
from quorate.controller.outcomes import Answered, Busy, Outcome, Refused, Unavailable, UnknownOutcome
from quorate.controller.pending import Stage
from quorate.controller.ports import ControllerPorts
from quorate.controller.session_keeper import SessionKeeper
from quorate.controller.settings import ControllerSettings
from quorate.errors import UsageError
from quorate.events import Event, Stamp
from quorate.events import key as event_key
from quorate.metadata.commands import AnsweredBefore, Command, HearMember, KeepLease, Refusal, Reply, Transact
from quorate.metadata.context import Context, Decision
from quorate.metadata.decide import LEVELS, decide
from quorate.metadata.policy import PolicySettings
from quorate.metadata.refusals import refuse
from quorate.metadata.requests import SHORT_STEP_MS, RequestTable, RowChange, command_digest
from quorate.model.live import LiveView
from quorate.model.state import State
from quorate.slices import raises
from quorate.wire.avro import encode_events

Settle = Callable[[CommandPending, Outcome], None]

CONTEXT_S: Final = 0.001
"""Decisions within so long see one time and one live table: that of the first of them."""
BUSY: Final = Busy("too many commands are in flight")

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


class Decider(Listener):
    """Decides, and sees to it that each decision's requests get their answers. It hears the machine before anybody else
    does. ``settle`` is told how each request ended, ``committed`` what was decided here, once applied: offset and
    event, all of a slice together.
    """

    def __init__(
        self,
        ports: ControllerPorts,
        settings: ControllerSettings,
        policy: PolicySettings,
        clock: ClusterClock,
        leases: LeaseKeeper,
        members: MemberKeeper,
        sessions: SessionKeeper,
        *,
        live_now: Callable[[], LiveView],
        settle: Settle,
        committed: Callable[[Sequence[tuple[int, Event]]], None],
        lacks_room: Callable[[Command], str | None],
    ) -> None:
        self._machine = ports.machine
        self._scheduler = ports.scheduler
        self._metrics = ports.metrics
        self.engine = ports.engine
        self._command_bytes_max, self._in_flight_max = settings.command_bytes_max, settings.in_flight_max
        self._policy = policy
        self._clock = clock
        self._leases, self._members, self._sessions = leases, members, sessions
        self._live_now = live_now
        self._settle = settle
        self._committed = committed
        self._lacks_room = lacks_room
        self._tip: Tip | None = None
        self._term = Term(0)
        self._context: Context | None = None
        self._context_until = 0.0
        flights = ports.flights  # The machine's, too: they are emptied and filled, never replaced.
        self._in_flight, self._in_doubt, self._ended = flights.in_flight, flights.in_doubt, flights.ended

    def __len__(self) -> int:
        """Entries in flight."""
        return len(self._in_flight)

    # -- deciding

    def decide(self, pending: CommandPending, term: Term) -> bool:
        """Decide on the tip and propose. False: not the leader of ``term`` any more, nothing was proposed."""
        full = len(self._in_flight) >= self._in_flight_max
        if full and not isinstance(pending.request, HearMember | KeepLease):  # These hardly ever write anything.
            self._settle(pending, BUSY)
            return True
        tip = self._tip
        if tip is None or term != self._term:
            machine = self._machine
            tip = self._tip = Tip(machine.state, machine.requests, machine.offset, machine.time_ms)
            self._term = term
            self._context = None
        context = self._context
        if context is None or self._scheduler.monotonic() >= self._context_until:
            context = self._look(tip, term)
        if pending.request_id:
            outcome = self._known(tip, pending)
            if outcome is not None:
                self._after_tip(pending, outcome)
                return True
        if isinstance(pending.request, Transact):
            context = msgspec.structs.replace(context, next_revision=tip.offset)
        try:
            decision = decide(tip.state, pending.request, context)
        except Exception as error:  # noqa: BLE001  It ends its command alone: a voter's link may have brought that.
            self._scheduler.call_soon(partial(raises, error))  # It is logged once.
            decision = refuse("CallFailed", "This call failed at the leader; its log says why")
        request = pending.request
        if (
            isinstance(decision, Decision)
            and isinstance(request, HearMember)
            and request.applied_revision > tip.offset  # The end itself is what a Kafka client says.
        ):
            decision = refuse("FutureRevision", f"The log ends at revision {tip.offset - 1}")
        if isinstance(decision, Refusal):
            self._after_tip(pending, Refused(decision, tip.offset))
            return True
        if isinstance(pending.request, HearMember):
            self._members.heard(pending.request)
        elif isinstance(pending.request, KeepLease):
            self._leases.heard(pending.request.lease)
        if not decision.events:
            if self._in_flight and self._untouched(tip, pending.request):
                applied = self._machine
                if decide(applied.state, pending.request, context) == decision:
                    pending.stage = Stage.CONFIRMING
                    self._when_confirmed(pending, Answered(decision.reply, applied.offset), None)
                    return True
            self._after_tip(pending, Answered(decision.reply, tip.offset))
            return True
        if full:
            self._settle(pending, BUSY)
            return True
        lack = self._lacks_room(pending.request)
        if lack is not None:
            self._after_tip(pending, Refused(refuse("NoRoom", lack), tip.offset))
            return True
        return self._propose(tip, pending, decision, context)

    def _untouched(self, tip: Tip, request: Command) -> bool:
        """Is nothing in flight about the member or the lease that says it is there? Whatever changes is another object
        then, though it may be equal again: one that is fenced and unfenced in flight must not hear that it never was.
        """
        applied = self._machine.state
        match request:
            case HearMember(name=name):
                return tip.state.members.get(name) is applied.members.get(name)
            case KeepLease(lease=lease):
                return tip.state.leases.get(lease) is applied.leases.get(lease)
            case _:
                return False

    def _look(self, tip: Tip, term: Term) -> Context:
        """What time it is and who lives; the decisions of the next moment see the same."""
        self._context_until = self._scheduler.monotonic() + CONTEXT_S
        now_ms = max(self._clock.now_ms(), tip.time_ms)
        self._context = Context(
            now_ms=now_ms,
            term=term,
            policy=self._policy,
            live=self._live_now(),
            leases=self._leases,
            members=self._members,
            sessions=self._sessions,
        )
        return self._context

    def _known(self, tip: Tip, pending: CommandPending) -> Outcome | None:
        """What an earlier run of this request id was told, if there was or may have been one. The id's time is judged
        by the clock: the log's may be ahead of it for long.
        """
        try:
            digest = command_digest(pending.request)
        except UsageError as error:
            return Refused(refuse("CommandTooLarge", str(error)), tip.offset)
        answer = tip.requests.recall(pending.caller.principal, pending.request_id, self._clock.ids_ms(), digest)
        if answer is None:
            return None
        if isinstance(answer, Refusal):
            return UnknownOutcome(answer.remark) if answer.code == "RequestExpired" else Refused(answer, tip.offset)
        first, count = answer.first_offset, answer.count
        kept = answer.reply
        reply = _reply_decoder.decode(kept) if kept else AnsweredBefore(first_offset=first, count=count)
        return Answered(reply, first + count, repeated=True)

    def _propose(self, tip: Tip, pending: CommandPending, decision: Decision, context: Context) -> bool:
        base, events, reply = tip.offset, decision.events, decision.reply
        now_ms, term = context.now_ms, self._term
        principal, cause, request_id = pending.caller.principal, pending.cause, pending.request_id
        stamp = Stamp(offset=base, term=term, time_ms=now_ms, principal=principal, cause=cause, request_id=request_id)
        count = len(events)
        try:  # A value that its schema cannot hold is refused too: a voter's link may have brought it.
            keys = tuple([event_key(event) for event in events])
            batch = encode_events(events, stamp, keys)
            kept, digest = (_remembered(reply), command_digest(pending.request)) if request_id else (b"", b"")
            form = WITH_DIGEST if digest else FORMAT
            # As encode_entry does, whose Entry only a request id needs: half its time.
            entry = entry_bytes(
                form, EVENTS, count, term, base, now_ms, principal, cause, request_id, kept, batch, digest
            )
            if len(entry) > self._command_bytes_max and pending.request.__class__ not in LEVELS:
                raise too_long(entry, self._command_bytes_max)
            index = self.engine.propose(entry, term)
        except UsageError as error:
            self._after_tip(pending, Refused(refuse("CommandTooLarge", str(error)), base))
            return True
        if index is None:
            return False
        state, requests = fold(tip.state, events, stamp), tip.requests
        rows: tuple[RowChange, ...] = ()
        if request_id or now_ms - tip.time_ms > SHORT_STEP_MS:
            decided = Entry("events", term, base, count, now_ms, principal, cause, request_id, kept, batch, digest)
            requests, rows = remember(requests, decided, state, tip.time_ms)
        tip.state, tip.requests, tip.offset, tip.time_ms = state, requests, base + count, now_ms
        pending.stage = Stage.PROPOSED
        flight = InFlight(
            base, count, now_ms, batch, state, requests, keys, rows,
            index, term, pending, Answered(reply, base + count), events,
        )  # fmt: skip
        self._in_flight.append(flight)
        return True

    def keep(self, payload: bytes, term: Term) -> Index | None:
        """Propose what consumer groups keep, behind everything decided so far: it takes no offset and moves no tip.
        None: not the leader of ``term`` any more, nothing was proposed.
        """
        tip = self._tip if term == self._term else None
        offset, time_ms = (self._machine.offset, self._machine.time_ms) if tip is None else (tip.offset, tip.time_ms)
        now_ms = max(self._clock.now_ms(), time_ms)
        entry = Entry(kind="groups", decided_term=term, base_offset=offset, time_ms=now_ms, batch=payload)
        return self.engine.propose(encode_entry(entry, self._command_bytes_max), term)

    def _after_tip(self, pending: CommandPending, outcome: Outcome) -> None:
        """Answer what writes nothing once what it was read from is certain. A retry was proposed by its first run."""
        repeated = outcome.__class__ is Answered and outcome.repeated
        pending.stage = Stage.PROPOSED if repeated else Stage.CONFIRMING
        self._when_confirmed(pending, outcome, self._in_flight[-1] if self._in_flight else None)

    def _when_confirmed(self, pending: CommandPending, outcome: Outcome, last: InFlight | None) -> None:
        """Answer once the leadership is confirmed, and this entry, if it rests on one, is executed."""

        def confirmed(index: Index | None) -> None:
            if index is None or (last is not None and last.fate is False):
                self._settle(pending, _uncertain(pending, "the leadership could not be confirmed"))
            elif last is None or last.fate:
                self._settle(pending, outcome)
            else:
                last.waiting.append((pending, outcome))

        self.engine.read_index(confirmed)

    # -- as it hears of the machine

    def disowned(self, index: Index) -> None:
        """What was decided since was decided on a tip that never comes to be."""
        self.end_term()
        self._scheduler.call_soon(lambda: self.engine.step_down(f"own entry {index} was not executed"))

    def slice_end(self) -> None:
        """The slice is stored: answer."""
        self._metrics.clock_behind_ms = max(0, self._machine.time_ms - self._scheduler.time_ms())
        if not self._ended:
            return
        ended = self._ended.copy()
        self._ended.clear()
        now = self._scheduler.monotonic()
        committed: list[tuple[int, Event]] = []
        for flight, executed in ended:
            flight.fate = executed
            if not executed:
                self._never(flight)
                continue
            self._metrics.commit_us.observe(int((now - flight.pending.started) * 1e6))
            self._settle(flight.pending, flight.answer)
            for pending, outcome in flight.waiting:
                self._settle(pending, outcome)
            committed += enumerate(flight.events, flight.base_offset)
        if committed:
            self._committed(committed)

    def _never(self, flight: InFlight) -> None:
        """It provably was not and will not be executed."""
        self._settle(flight.pending, Unavailable("the entry was not executed"))
        for pending, _ in flight.waiting:
            self._settle(pending, _uncertain(pending, "the entry it was read from was not executed"))

    def installed(self, index: Index) -> None:
        """A snapshot took the place of every entry up to ``index``: what became of each of them was not seen here.
        Entries in doubt that a snapshot covers may be in it, or not.
        """
        for covered in [i for i in self._in_doubt if i <= index]:
            self._settle(self._in_doubt.pop(covered).pending, UnknownOutcome("a snapshot took the place of its entry"))

    # -- as terms begin and end

    def begin_term(self) -> None:
        """This node leads again. What is in doubt comes after the new term's first entry: it never committed."""
        in_doubt = list(self._in_doubt.values())
        self._in_doubt.clear()
        for flight in in_doubt:
            self._never(flight)

    def end_term(self) -> None:
        """The leadership ended: what is in flight is in doubt, what was only read from the tip never happened."""
        self._tip = None
        self._term = Term(0)
        flights = list(self._in_flight)
        self._in_flight.clear()
        for flight in flights:
            flight.fate = False
            self._in_doubt[flight.index] = flight
        for flight in flights:  # Callers may come back with the next request: nothing above is touched any more.
            waiting, flight.waiting = flight.waiting, []
            for pending, _ in waiting:
                self._settle(pending, _uncertain(pending, "the leadership ended"))

    def sweep(self) -> None:
        """Entries in doubt whose callers were told *unknown* need no place any more."""
        if self._in_doubt:
            for index in [i for i, flight in self._in_doubt.items() if flight.pending.stage is Stage.ENDED]:
                del self._in_doubt[index]


def _uncertain(pending: CommandPending, reason: str) -> Outcome:
    """This attempt wrote nothing; whether an earlier one of the same request did is another question."""
    return UnknownOutcome(reason) if pending.stage is Stage.PROPOSED else Unavailable(reason)


def _remembered(reply: Reply) -> bytes:
    """The reply as a retry will get it; of a very long one nothing: the retry is told where its events are."""
    encoded = _reply_encoder.encode(reply)
    return encoded if len(encoded) <= MAX_REPLY_BYTES else b""
