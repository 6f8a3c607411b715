"""The controller: every request enters here and leaves here with one outcome.

Rules: nothing blocks, nothing awaits; every request has a deadline, and a timeout says what is known: *nothing
happened* or *unknown*. It is made whole: the engine and the machine are there before it. Who decides what: ``routing``
where a request goes, ``deciding`` what becomes of it, ``terms`` when this node may decide, ``endings`` how it is told.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial

from quorate.consensus.ports import Index, Term
from quorate.controller import messages
from quorate.controller.cluster_clock import ClusterClock
from quorate.controller.deciding import Decider
from quorate.controller.endings import Endings
from quorate.controller.lease_keeper import LeaseKeeper
from quorate.controller.live import Beat, Channel, LiveEntry, LiveNow, LiveTable
from quorate.controller.member_keeper import MemberKeeper
from quorate.controller.outcomes import Answered, Caller, Outcome, Refused, UnknownOutcome
from quorate.controller.pending import AnyPending, Pending
from quorate.controller.ports import ControllerPorts
from quorate.controller.quorum import QuorumQuestions
from quorate.controller.routing import OUTCOME_PER_COMMAND, Router
from quorate.controller.segment_keeper import SegmentKeeper
from quorate.controller.session_keeper import SessionKeeper
from quorate.controller.settings import ControllerSettings
from quorate.controller.space import DiskSpace
from quorate.controller.terms import Terms
from quorate.controller.views import Level, ReadResult, ReadView
from quorate.metadata.commands import Command, CreateCluster, RecordNodeStart
from quorate.metadata.configs import policy_in_force
from quorate.metadata.policy import PolicySettings
from quorate.model.live import disk_percent
from quorate.model.members import CONDITIONS, condition
from quorate.model.state import State


class Controller:
    """Takes commands and reads, and answers each once."""

    def __init__(
        self,
        node_id: int,
        ports: ControllerPorts,
        settings: ControllerSettings,
        policy: PolicySettings,
        founding: CreateCluster,
    ) -> None:
        self.node_id = node_id
        self.settings = settings
        self.policy = policy
        self.metrics = ports.metrics
        self.engine = engine = ports.engine
        self._machine = machine = ports.machine
        self._scheduler = scheduler = ports.scheduler
        self._peers = peers = ports.peers
        self._me = Caller(f"node/{node_id}", "")
        self._start: RecordNodeStart | None = None
        self._stopped = False
        self.listeners = listeners = ports.listeners
        """Who hears of what happens here, in order."""
        self.live = _live_table(scheduler.monotonic(), settings, listeners.revived)
        others = tuple(voter for voter in engine.voters if voter != node_id)
        self.space = DiskSpace(
            node_id, lambda: others, lambda: machine.sums.bytes, scheduler, peers, settings, ports.metrics
        )
        self.clock = ClusterClock(engine, peers, scheduler, settings, listeners.clock_said)
        self.quorum = QuorumQuestions(engine, peers, scheduler, settings)
        self._endings = Endings(ports, settings.deadline_sweep_s, self._swept)
        self.leases = LeaseKeeper(lambda: machine.state, scheduler, settings, partial(self._by_itself, "lease"))
        self.members = MemberKeeper(lambda: machine.state, scheduler, settings, partial(self._by_itself, "member"))
        self.segments = SegmentKeeper(lambda: machine.state, scheduler, settings, partial(self._by_itself, "segment"))
        sessions = SessionKeeper(
            lambda: machine.state,
            lambda: max(self.clock.now_ms(), machine.time_ms),
            scheduler,
            settings,
            partial(self._by_itself, "session"),
        )
        self._decider = Decider(
            ports,
            settings,
            policy,
            self.clock,
            self.leases,
            self.members,
            sessions,
            live_now=self.live_now,
            settle=self._endings.settle,
            committed=listeners.committed,
            lacks_room=self.space.lacks_room,
        )
        self._terms = Terms(
            node_id,
            ports,
            settings,
            founding,
            self._decider,
            self._endings,
            opened=self._opened,
            lost=listeners.lost,
        )
        self._router = Router(node_id, ports, settings, self._decider, self._terms, self._endings, self.view)
        self._members_by: tuple[object, Counter[str]] = None, Counter()
        self._measured()
        listeners.add(self._decider, self._terms, self._router, self.leases, self.members, self.segments, sessions)

    def _measured(self) -> None:
        """Gauges, read when scraped."""
        gauge, machine, scheduler = self.metrics.gauge, self._machine, self._scheduler
        gauge("live_brokers", "Brokers in the live table, dead ones too.", self.live.__len__)
        gauge("keys", "Keys in the state.", lambda: len(machine.state.keys))
        gauge("leases", "Leases in the state.", lambda: len(machine.state.leases))
        for word in CONDITIONS:
            read = partial(self._members_that_are, word)
            gauge("members", "Members in the state; RocketMQ's brokers are not counted.", read, state=word)
        gauge("member_heartbeats", "Heartbeats of members taken here, as leader.", lambda: self.members.beats)
        gauge(
            "member_disk_used_percent_max",
            "The fullest disk of a member that this leader hears; 0: none says.",
            lambda: max(map(disk_percent, self.members.healths()), default=0),
        )
        gauge(
            "member_io_errors",
            "Errors of reading and writing, as the members that this leader hears count them.",
            lambda: sum(health.io_errors for health in self.members.healths()),
        )
        gauge("schemas", "Schemas of other services in the state.", lambda: len(machine.state.schemas))
        gauge("schema_subjects", "Their subjects.", lambda: len(machine.state.subjects))
        gauge("shards", "Shards in the state.", lambda: len(machine.state.shards))
        gauge("segments", "Segments in the state.", lambda: sum(map(len, machine.state.segments.values())))
        gauge(
            "segments_leaderless",
            "Segments that nobody can lead, or nobody but who is to leave, as the leader knows.",
            lambda: len(self.segments.leaderless),
        )
        gauge("mqtt_sessions", "Persistent sessions of MQTT in the state.", lambda: len(machine.state.sessions))
        gauge("mqtt_subscriptions", "Subscriptions of all sessions.", lambda: len(machine.state.subscriptions))
        gauge("mqtt_wills", "Wills that are decided and not acknowledged.", lambda: len(machine.state.wills))
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

    def _members_that_are(self, word: str) -> int:
        members = self._machine.state.members
        if self._members_by[0] is not members:  # All are looked at once, and only when one changed.
            self._members_by = members, Counter(map(condition, members.values()))
        return self._members_by[1][word]

    def start(self, node_start: RecordNodeStart | None = None) -> None:
        """Begin; ``node_start`` is recorded once a leader can be reached."""
        self.clock.start()
        self._start = node_start
        if node_start is not None:
            self._scheduler.call_later(self.settings.deadline_sweep_s, self._announce)

    def stop(self) -> None:
        """No request is taken any more; those under way end as their deadlines say."""
        self._stopped = True
        self._router.stop()
        self.clock.stop()

    def _opened(self, term: Term) -> None:
        """Those who hear of it first, then the requests that waited."""
        self.listeners.opened(term)
        self._router.unpark()

    def _swept(self) -> None:
        """Nobody keeps a place for what ended by its deadline."""
        self._router.forwarder.sweep(self.engine.leader_id)
        self._decider.sweep()

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
        return self._terms.decidable() != 0

    @property
    def in_flight(self) -> int:
        """Entries proposed and not yet applied."""
        return len(self._decider)

    @property
    def parked(self) -> int:
        """Requests waiting for a leader."""
        return self._router.parked

    def live_now(self) -> LiveNow:
        """The live table at this moment."""
        return self.live.at(self._scheduler.monotonic(), self._scheduler.time_ms())

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
            self.listeners.suspected(suspects)

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
        patience_s = self.settings.answer_timeout_s if timeout_s is None else self._patience(timeout_s)
        started = self._scheduler.monotonic()
        pending: AnyPending = Pending(command, done, caller, started, patience_s, cause, request_id, forward)
        self._endings.watch(pending)
        self._router.route(pending)

    def _by_itself(self, cause: str, command: Command, done: Callable[[Outcome], None]) -> None:
        """What this node, as long as it leads, has decided without being asked."""
        self.submit(command, self._me, done, cause=cause, forward=False)

    def _patience(self, timeout_s: float) -> float:
        """At most the setting; in tenths of a second, so that few deadline queues exist."""
        most = self.settings.answer_timeout_s
        return most if timeout_s >= most else max(int(timeout_s * 10), 1) / 10

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
        patience_s = self.settings.answer_timeout_s if timeout_s is None else self._patience(timeout_s)
        started = self._scheduler.monotonic()
        pending: AnyPending = Pending(None, done, self._me, started, patience_s, forward=forward, is_read=True)
        self._endings.watch(pending)
        self._router.route(pending)

    def keep_groups(self, payload: bytes) -> tuple[Index, Term] | None:
        """Propose changes of consumer groups' rows (metadata/group_rows.py); where the entry lies, or None: this node
        may not decide now, and nothing was proposed. See group_writer.py for who waits for it.
        """
        term = self._terms.decidable()
        if self._stopped or not term:
            return None
        index = self._decider.keep(payload, term)
        return None if index is None else (index, term)

    # -- peers

    def receive(self, peer: int, payload: bytes) -> None:
        """A controller message from an authenticated peer. Raises PeerError."""
        message = messages.decode(payload)
        match message:
            case messages.CommandOutcome():
                self._router.forwarder.answered(message.id, message.outcome)
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
                self.listeners.closed_elsewhere(peer, message)
            case messages.SumsAre() | messages.SumsAsked() | messages.SumsOf() | messages.StateIsWrong():
                self.listeners.sums_told(peer, message)

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

    def _reply(self, peer: int, message: messages.CommandOutcome) -> None:
        """One that is too long for a frame would close the link, and consensus is on it too."""
        payload = messages.encode(message)
        if len(payload) > OUTCOME_PER_COMMAND * self.settings.command_bytes_max:
            unknown = UnknownOutcome(f"its answer of {len(payload)} bytes is too long to be sent")
            payload = messages.encode(messages.CommandOutcome(message.id, unknown))
        self._peers.send(peer, messages.KIND, payload)

    def peer_connected(self, peer: int) -> None:
        """A link to a peer opened: it hears our clock before it hears our vote."""
        self.clock.tell(peer)

    def peer_disconnected(self, peer: int) -> None:
        """The link to a peer broke."""
        self._router.forwarder.disconnected(peer)

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


def _live_table(started: float, settings: ControllerSettings, on_alive: Callable[[LiveEntry], None]) -> LiveTable:
    return LiveTable(
        started=started,
        timeout_s=settings.heartbeat_timeout_s,
        timeout_max_s=settings.heartbeat_timeout_max_s,
        entries_max=settings.live_entries_max,
        on_alive=on_alive,
    )
