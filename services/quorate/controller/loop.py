"""The controller: every request enters here and leaves here with one outcome.

Rules: nothing blocks, nothing awaits. A command is decided at once when this node leads and its term is open; else it
is parked until a leader is known, forwarded to it (one hop), or answered NotLeader. A read is answered by the node
that was asked, whoever leads. Every queue is bounded, every request has a deadline, and a timeout says what is known:
*nothing proposed* or *unknown*.

Theory: a term opens when its first decision, ``ControllerLeaderElected`` (before it, in the first term ever,
``ClusterCreated``), is applied: by then every earlier entry is applied too, so the tip starts from all that was ever
committed.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import msgspec

from quorate.clock import Scheduler
from quorate.consensus.ports import Index, LeaderCause, NodeId, RaftEngine, Term
from quorate.controller import messages
from quorate.controller.cluster_clock import ClusterClock
from quorate.controller.deciding import Decider
from quorate.controller.forwarding import Forwarder
from quorate.controller.live import Beat, Channel, LiveEntry, LiveNow, LiveTable
from quorate.controller.machine import Adopted, ReplicatedState
from quorate.controller.outcomes import (
    Answered,
    Busy,
    Caller,
    Found,
    NotFound,
    NotLeader,
    Outcome,
    Refused,
    Unavailable,
    UnknownOutcome,
)
from quorate.controller.pending import AnyPending, Deadlines, Pending, Stage
from quorate.controller.ports import CommandLine, Journalist, PeerLink
from quorate.controller.quorum import QuorumDesk
from quorate.controller.settings import ControllerSettings
from quorate.controller.space import DiskSpace
from quorate.errors import UsageError
from quorate.metadata.commands import Command, CreateCluster, RecordLeader, RecordNodeStart, Refusal
from quorate.metadata.configs import policy_in_force
from quorate.metadata.context import LiveView
from quorate.metadata.policy import PolicySettings
from quorate.metadata.queries import Query, answer
from quorate.metadata.refusals import refuse
from quorate.metadata.state import State
from quorate.metrics import Metrics

Level = Literal["linearizable", "stale"]

RETRY_S = 0.005
"""How often parked requests are tried."""
UNPARKED_PER_TURN = 64
"""How many of them one turn of the loop routes."""


FORWARDED_PER_COMMAND = 2
"""A command on its way to the leader may be this many times ``command_bytes_max``: JSON of the same facts is longer."""


class ReadView(msgspec.Struct, frozen=True):
    """Committed state at one moment, and who is alive then, as this node hears it."""

    state: State
    offset: int
    term: int
    time_ms: int
    live: LiveView


ReadResult = ReadView | NotLeader | Busy | Unavailable
"""How a read ends."""


class Controller:
    """See the module. Built by the composition root, which then sets ``engine``."""

    def __init__(
        self,
        node_id: int,
        machine: ReplicatedState,
        scheduler: Scheduler,
        peers: PeerLink,
        settings: ControllerSettings,
        policy: PolicySettings,
        founding: CreateCluster,
        metrics: Metrics,
        journalist: Journalist | None = None,
    ) -> None:
        self.node_id = node_id
        self.settings = settings
        self.policy = policy
        self.metrics = metrics
        self.engine: RaftEngine
        self._machine = machine
        self._scheduler = scheduler
        self._peers = peers
        self._founding = founding
        self._journalist = journalist
        self.live = _live_table(scheduler.monotonic(), settings)
        self.space = DiskSpace(node_id, self._others, lambda: machine.sums.bytes, scheduler, peers, settings, metrics)
        self.clock = ClusterClock(peers, scheduler, settings)
        self._decider = Decider(
            machine,
            scheduler,
            self.live_now,
            policy,
            self._settle,
            metrics,
            clock=self.clock,
            command_bytes_max=settings.command_bytes_max,
            lacks_room=self.space.lacks_room,
        )
        self._forwarder = Forwarder(
            peers,
            origin=f"node/{node_id}",
            forwarded_max=settings.forwarded_max,
            bytes_max=FORWARDED_PER_COMMAND * settings.command_bytes_max,
            settle=self._settle,
            park=self._park,
            first_id=scheduler.time_ms() << 20,
        )
        self.quorum = QuorumDesk(peers, scheduler, settings)
        self._deadlines = Deadlines()
        self._parked: deque[AnyPending] = deque()
        self._retry_armed = False
        self._open_term = Term(0)
        self._me = Caller(f"node/{node_id}", "")
        self._start: RecordNodeStart | None = None
        self._stopped = False
        self.on_open: list[Callable[[int], None]] = []
        """Called with the term when this node has become the deciding leader."""
        self.on_lost: list[Callable[[], None]] = []
        """Called when it may no longer decide."""
        self.on_suspects: list[Callable[[list[LiveEntry]], None]] = []
        """Called with the brokers whose channel just closed."""
        self.on_witness: list[Callable[[int, messages.BrokersClosed], None]] = []
        """Called with what another controller saw close."""
        self.on_sums: list[Callable[[int, messages.SumsMessage], None]] = []
        """Called with what another controller's state adds up to."""
        self.on_committed = self._decider.on_committed
        """Called, leading, with the events of each entry decided here, once applied."""
        self._measured()
        machine.attach(self)

    def _measured(self) -> None:
        """Gauges, read when scraped."""
        gauge, machine, scheduler = self.metrics.gauge, self._machine, self._scheduler
        gauge("live_brokers", "Brokers in the live table, dead ones too.", self.live.__len__)
        gauge("heartbeats_ignored", "Heartbeats of one broker too many.", lambda: self.live.ignored)
        gauge(
            "clock_behind_log_seconds",
            "How far this node's clock is behind the last event's time.",
            lambda: max(0, machine.time_ms - scheduler.time_ms()) / 1000,
        )

        clock = self.clock
        gauge(
            "clock_ahead_of_majority_seconds",
            "How far this node's clock is ahead of a majority's.",
            lambda: max(0, clock.ahead_ms) / 1000,
        )
        gauge(
            "clock_behind_majority_seconds",
            "How far this node's clock is behind a majority's.",
            lambda: max(0, -clock.ahead_ms) / 1000,
        )
        gauge("clock_jumps", "Jumps of this node's clock since it started.", lambda: clock.jumps)

    def start(self, engine: RaftEngine, node_start: RecordNodeStart | None = None) -> None:
        """Begin; ``node_start`` is recorded once a leader can be reached."""
        self.engine = engine
        self._decider.engine = engine
        self.quorum.engine = engine
        self.clock.start(engine)
        self._start = node_start
        self._scheduler.call_later(self.settings.deadline_sweep_s, self._sweep)
        if node_start is not None:
            self._scheduler.call_later(self.settings.deadline_sweep_s, self._announce)

    def _others(self) -> Iterator[int]:
        return (voter for voter in self.engine.voters if voter != self.node_id)

    def stop(self) -> None:
        """No request is taken any more; those under way end as their deadlines say."""
        self._stopped = True
        self.clock.stop()

    # -- what is true now

    @property
    def state(self) -> State:
        """Committed and applied here."""
        return self._machine.state

    @property
    def offset(self) -> int:
        """The high watermark: events applied here."""
        return self._machine.offset

    @property
    def term(self) -> int:
        """The engine's current term."""
        return self.engine.term

    @property
    def leader_id(self) -> int | None:
        """Who leads, as far as this node knows."""
        return self.engine.leader_id

    @property
    def is_leader(self) -> bool:
        """May this node decide? (Its term is open.)"""
        return self._open_term != 0 and self.engine.decidable_term() == self._open_term

    @property
    def in_flight(self) -> int:
        """Entries proposed and not yet applied."""
        return len(self._decider)

    @property
    def parked(self) -> int:
        """Requests waiting for a leader."""
        return len(self._parked)

    def live_now(self) -> LiveNow:
        """The live table at this moment."""
        return LiveNow(self.live, self._scheduler.monotonic(), self._scheduler.time_ms())

    def policy_for(self, broker_set: str = "") -> PolicySettings:
        """The policy in force for a broker set: the node's own, overruled by what is configured in the log."""
        return policy_in_force(self.state, self.policy, broker_set)

    def view(self) -> ReadView:
        """Committed state now."""
        machine = self._machine
        return ReadView(machine.state, machine.offset, machine.term, machine.time_ms, self.live_now())

    # -- heartbeats

    def heartbeat(self, beat: Beat, channel: Channel) -> None:
        """904; the hottest path: see LiveTable.heard."""
        self.live.heard(beat, channel, self._scheduler.monotonic())

    def channel_closed(self, channel: Channel) -> None:
        """A broker's connection is gone."""
        suspects = self.live.closed(channel, self._scheduler.monotonic())
        if suspects:
            for callback in self.on_suspects:
                callback(suspects)

    # -- commands and reads

    def submit(
        self,
        command: Command,
        caller: Caller,
        done: Callable[[Outcome], None],
        *,
        cause: str = "",
        request_id: str = "",
        forward: bool = True,
        timeout_s: float | None = None,
    ) -> None:
        """Have it decided. ``done`` is called once, within ``timeout_s``; ``forward=False``: only by this node."""
        patience_s = self._patience(timeout_s)
        pending: AnyPending = Pending(
            command,
            done,
            caller=caller,
            cause=cause,
            request_id=request_id,
            forward=forward,
            started=self._scheduler.monotonic(),
            patience_s=patience_s,
        )
        self._deadlines.add(pending, patience_s)
        self._route(pending)

    def _patience(self, timeout_s: float | None) -> float:
        """At most the setting; in tenths of a second, so that few deadline queues exist."""
        most = self.settings.answer_timeout_s
        return most if timeout_s is None or timeout_s >= most else max(int(timeout_s * 10), 1) / 10

    def read(
        self,
        level: Level,
        done: Callable[[ReadResult], None],
        *,
        forward: bool = True,
        timeout_s: float | None = None,
    ) -> None:
        """Look at this node's state. ``stale``: at once, as it is. ``linearizable``: once everything committed before
        this call is applied here; the leader is asked, again and again if it moves, for ``timeout_s`` at most.
        ``forward=False``: only if this node leads, else NotLeader.
        """
        if level == "stale":
            done(self.view())
            return
        patience_s = self._patience(timeout_s)
        pending: AnyPending = Pending(
            None,
            done,
            caller=self._me,
            forward=forward,
            is_read=True,
            started=self._scheduler.monotonic(),
            patience_s=patience_s,
        )
        self._deadlines.add(pending, patience_s)
        self._route(pending)

    # -- routing

    def _route(self, pending: AnyPending) -> None:
        engine = self.engine
        term = engine.decidable_term()
        if self._stopped:
            self._settle(pending, Unavailable("this node is stopping"))
        elif not pending.forward and not engine.is_leader:
            self._settle(pending, NotLeader(engine.leader_id))
        elif pending.is_read and engine.leader_id is not None:
            self._confirm(pending)
        elif term and term == self._open_term:
            self._here(pending, term)
        elif pending.is_read:
            self._park(pending)
        elif self._forwarder.full:
            self._settle(pending, Busy("too many requests are under way to the leader"))
        elif not self._forward(pending):
            self._park(pending)

    def _forward(self, pending: AnyPending) -> bool:
        leader = self.engine.leader_id
        if leader is None or leader == self.node_id or not pending.forward:
            return False
        try:
            sent = self._forwarder.send(leader, pending, self._scheduler.monotonic())
        except UsageError as error:
            self._settle(pending, Refused(refuse("CommandTooLarge", str(error)), self.offset))
            return True
        self.metrics.forwarded += sent
        return sent

    def _park(self, pending: AnyPending) -> None:
        """Wait for a leader."""
        if len(self._parked) >= self.settings.parked_max:
            self._settle(pending, Busy("too many requests wait for a leader"))
            return
        pending.stage = Stage.PARKED
        self._parked.append(pending)
        self._arm_retry()

    def _arm_retry(self) -> None:
        if self._parked and not self._retry_armed:
            self._retry_armed = True
            self._scheduler.call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        """Try the parked again; soon, for a leader is usually found within a few round trips."""
        self._retry_armed = False
        if self._leaderless():
            self._parked = deque(pending for pending in self._parked if pending.stage is Stage.PARKED)
            self._arm_retry()
        else:
            self._unpark()

    def _leaderless(self) -> bool:
        """Nobody decides, as far as this node knows, so that trying is in vain."""
        engine = self.engine
        if self._stopped or self.is_leader:
            return False
        return engine.is_leader or (engine.leader_id is None and all(pending.forward for pending in self._parked))

    def _unpark(self) -> None:
        """A bounded number now, in order; the others in later turns."""
        before = len(self._parked)
        try:
            for _ in range(min(before, UNPARKED_PER_TURN)):
                pending = self._parked.popleft()
                if pending.stage is Stage.PARKED:
                    self._route(pending)
        finally:  # Whatever is the matter with one of them, the others are tried.
            if 0 < len(self._parked) < before and self.is_leader:
                self._scheduler.call_soon(self._unpark)
            else:
                self._arm_retry()

    def _here(self, pending: AnyPending, term: Term) -> None:
        """This node decides."""
        if len(self._decider) >= self.settings.in_flight_max:
            self._settle(pending, Busy("too many commands are in flight"))
        elif not self._decider.decide(pending, term):
            self._park(pending)

    def _confirm(self, pending: AnyPending) -> None:
        """A read: wait until what was committed before it is applied here; what cannot be known is asked again."""
        pending.stage = Stage.CONFIRMING

        def confirmed(index: Index | None) -> None:
            if pending.stage is Stage.ENDED:
                return
            if index is not None:
                self._settle(pending, self.view())
            elif self._stopped:
                self._settle(pending, Unavailable("this node is stopping"))
            else:
                self._park(pending)

        self.engine.read_barrier(confirmed)

    def keep_groups(self, payload: bytes) -> tuple[Index, Term] | None:
        """Propose changes of consumer groups' rows (metadata/group_rows.py); where the entry lies, or None: this node
        may not decide now, and nothing was proposed. See group_writer.py for who waits for it.
        """
        term = self.engine.decidable_term()
        if self._stopped or not term or term != self._open_term:
            return None
        index = self._decider.keep(payload, term)
        return None if index is None else (index, term)

    # -- endings

    def _settle(self, pending: AnyPending, outcome: object) -> None:
        """The one place where a request gets its answer.

        A caller that cannot take it is not the cluster's trouble: it must not stop a node in the middle of an apply,
        and the next leader at the retry.
        """
        if pending.stage is Stage.ENDED:
            return
        done = pending.done
        decided_here = pending.stage is not Stage.FORWARDED
        self._deadlines.ended(pending)
        if isinstance(outcome, UnknownOutcome):
            self.metrics.unknown_outcomes += 1
        elif isinstance(outcome, Refused) and decided_here:
            self.metrics.refusals[outcome.refusal.code] += 1
        relayed = not decided_here and isinstance(outcome, Answered | Refused)  # The leader has written its line.
        if self._journalist is not None and not pending.is_read and not relayed:
            self._journalist(self._line(pending, outcome))
        try:
            done(outcome)
        except Exception as error:  # noqa: BLE001 - the caller's own trouble; raised in its own turn, below
            self._scheduler.call_soon(partial(_raise, error))

    def _line(self, pending: AnyPending, outcome: object) -> CommandLine:
        caller = pending.caller
        detail = getattr(outcome, "reason", "")
        if isinstance(outcome, Refused):
            detail = f"{outcome.refusal.code}: {outcome.refusal.remark}"
        return CommandLine(
            command=pending.request.__class__.__name__,
            principal=caller.principal,
            address=caller.address,
            origin=caller.origin,
            cause=pending.cause,
            request_id=pending.request_id,
            outcome=outcome.__class__.__name__,
            detail=detail,
            term=self.engine.term,
            offset=getattr(outcome, "offset", -1),
            took_us=int((self._scheduler.monotonic() - pending.started) * 1e6),
        )

    def _sweep(self) -> None:
        """End what would be overdue at the next sweep, with the truth about it."""
        for pending in self._deadlines.expired(self._scheduler.monotonic() + self.settings.deadline_sweep_s):
            if pending.stage in (Stage.PROPOSED, Stage.FORWARDED):
                self._settle(pending, UnknownOutcome(f"no answer in time; {pending.stage.value}"))
            else:
                self._settle(pending, Unavailable(f"no answer in time; {pending.stage.value}"))
        self._forwarder.sweep(self.engine.leader_id)
        self._decider.sweep()
        if not self._stopped or self._deadlines:
            self._scheduler.call_later(self.settings.deadline_sweep_s, self._sweep)

    # -- controller.machine.Speculation

    def claimed(self, index: Index, term: Term) -> Adopted | None:
        """See Speculation."""
        return self._decider.claimed(index, term)

    def settled(self, index: Index, term: Term, *, executed: bool) -> None:
        """See Speculation."""
        self._decider.settled(index, term, executed=executed)

    def slice_end(self) -> None:
        """See Speculation."""
        self._decider.slice_end()
        self.metrics.clock_behind_ms = max(0, self._machine.time_ms - self._scheduler.time_ms())

    def installed(self, index: Index) -> None:
        """See Speculation."""
        self._decider.installed(index)

    def leadership(self, term: Term, cause: LeaderCause | None) -> None:
        """See Speculation: open the term with its first decision, or forget the tip."""
        if cause is None:
            self._lose()
            return
        self._decider.opened()
        if self._machine.offset == 0:
            self._decide_first(self._founded_by_all(), term, lambda: self._open(term, cause))
        else:
            self._open(term, cause)

    def _founded_by_all(self) -> CreateCluster:
        """The first command, with the directories whose votes elected this leader."""
        directories = self.engine.founders
        voters = tuple(
            msgspec.structs.replace(voter, dir_uuid=directories.get(NodeId(voter.id), voter.dir_uuid))
            for voter in self._founding.voters
        )
        return msgspec.structs.replace(self._founding, voters=voters)

    def _lose(self) -> None:
        was_open, self._open_term = self._open_term, Term(0)
        self._decider.lost()
        if was_open:
            for callback in self.on_lost:
                callback()

    def _open(self, term: Term, cause: LeaderCause) -> None:
        """Record who leads and why; then the term is open."""
        command = RecordLeader(
            node_id=self.node_id,
            cause=cause.kind,
            previous_leader=cause.previous_leader,
            silent_for_ms=cause.silent_for_ms,
        )
        self._decide_first(command, term, lambda: self._opened(term))

    def _decide_first(self, command: Command, term: Term, then: Callable[[], None]) -> None:
        """One of the decisions that open a term; if it is not executed the engine has moved on, or will retry."""

        def done(outcome: Outcome) -> None:
            if outcome.__class__ is Answered:
                then()
            elif self.engine.decidable_term() == term:
                self.engine.step_down(f"the term could not be opened: {outcome}")

        patience_s = self.settings.answer_timeout_s
        pending: AnyPending = Pending(
            command, done, caller=self._me, started=self._scheduler.monotonic(), patience_s=patience_s
        )
        self._deadlines.add(pending, patience_s)
        if not self._decider.decide(pending, term):
            self._settle(pending, Unavailable("the leadership ended"))

    def _opened(self, term: Term) -> None:
        if self.engine.decidable_term() != term:
            return
        self._open_term = term
        for callback in self.on_open:
            callback(term)
        self._unpark()

    # -- peers

    def receive(self, peer: int, payload: bytes) -> None:
        """A controller message from an authenticated peer. Raises PeerError."""
        message = messages.decode(payload)
        match message:
            case messages.CommandOutcome():
                self._forwarder.answered(message.id, message.outcome)
            case messages.ForwardedCommand():
                self._take(peer, message)
            case messages.QuorumQuestion():
                self.quorum.asked(peer, message)
            case messages.QuorumAnswer():
                self.quorum.answered(message)
            case messages.DiskIsLow():
                self.space.told(peer, message)
            case messages.ClockIs():
                self.clock.heard(peer, message.time_ms)
            case messages.BrokersClosed():
                for callback in self.on_witness:
                    callback(peer, message)
            case messages.SumsAre() | messages.SumsAsked() | messages.SumsOf() | messages.StateIsWrong():
                for told in self.on_sums:
                    told(peer, message)

    def _take(self, peer: int, message: messages.ForwardedCommand) -> None:
        number = message.id
        self.submit(
            message.command,
            message.caller,
            lambda outcome: self._reply(peer, messages.CommandOutcome(number, outcome)),
            cause=message.cause,
            request_id=message.request_id,
            forward=False,
            timeout_s=message.patience_ms / 1000,
        )

    def _reply(self, peer: int, message: messages.Message) -> None:
        self._peers.send(peer, messages.KIND, messages.encode(message))

    def peer_connected(self, peer: int) -> None:
        """A link to a peer opened: it hears our clock before it hears our vote."""
        self.clock.tell(peer)

    def peer_disconnected(self, peer: int) -> None:
        """The link to a peer broke."""
        self._forwarder.disconnected(peer)

    # -- this node's own start

    def _announce(self) -> None:
        """Have this start recorded; again until it is."""
        if self._start is None or self._stopped:
            return

        def done(outcome: Outcome) -> None:
            if outcome.__class__ is Answered or outcome.__class__ is Refused:
                self._start = None
            else:
                self._scheduler.call_later(1.0, self._announce)

        self.submit(self._start, self._me, done, cause="start")


def _live_table(started: float, settings: ControllerSettings) -> LiveTable:
    return LiveTable(
        started=started,
        timeout_s=settings.heartbeat_timeout_s,
        timeout_max_s=settings.heartbeat_timeout_max_s,
        entries_max=settings.live_entries_max,
    )


def answered(query: Query, view: ReadView) -> Found | NotFound:
    """What a view answers to a question."""
    result = answer(query, view.state, view.live)
    return NotFound(result, view.offset) if isinstance(result, Refusal) else Found(result, view.offset)


def _raise(error: Exception) -> None:
    raise error
