"""The Raft node: a core that decides, wrapped in everything that makes its decisions safe to act on.

Rules: nothing blocks, nothing awaits. Whatever vouches for something durable (acks, votes, vote requests) waits until
the journal has made it so; AppendEntries leave at once, also before our own write. The loss of leadership is told to
the machine before anything else can be decided. One error that is not a peer's fault stops the node (fail-stop).

Parts. Each owns its state and handles its messages; this module puts them together and orders the turn:
``Membership`` (does this node's word count?), ``Elections``, ``Follower`` and ``Replication`` (a leader's frames here,
and there), ``Applying``, ``CaughtUp``, ``Leadership`` (the term that is open for decisions), ``Reads``, and ``Watch``
(clock and disk). What they share is ``Common``: the core, the ports, and the ``Outbox``, which keeps what has to wait
for the disk.

Theory. One *turn* of the node: tick the core (count matches, check the quorum) → one AppendEntries per follower that
needs one → one round of read probes → hand the journal's new operations to the disk → release what the disk has
covered → apply a bounded slice → answer reads. Turns are asked for by frames, proposals, finished syncs and the
timer, and grouped: many requests, one turn.
"""

from collections.abc import Callable, Mapping
from typing import Any

from quorate.clock import Timer
from quorate.consensus.ports import TERM_MAX, Index, NodeId, Progress, Term
from quorate.consensus.raft.applying import Applying
from quorate.consensus.raft.caught_up import CaughtUp
from quorate.consensus.raft.common import Common, EnginePorts
from quorate.consensus.raft.core import Core, CoreEvents, Role
from quorate.consensus.raft.elections import Elections
from quorate.consensus.raft.follower import Follower
from quorate.consensus.raft.leadership import Leadership
from quorate.consensus.raft.membership import Membership
from quorate.consensus.raft.outbox import Outbox
from quorate.consensus.raft.pace import Pace
from quorate.consensus.raft.reads import Reads
from quorate.consensus.raft.replication import Replication
from quorate.consensus.raft.snapshots import WatchedWorker
from quorate.consensus.raft.turns import Turns
from quorate.consensus.raft.watch import Watch
from quorate.consensus.settings import EngineSettings
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import (
    Ack,
    Alive,
    AppendEntries,
    Message,
    NeedState,
    PreVote,
    PreVoteAnswer,
    ReadAsk,
    ReadIndexIs,
    ReadProbe,
    ReadProbeAnswer,
    RejoinAsk,
    RejoinIndex,
    RejoinRead,
    RejoinTerm,
    RequestVote,
    SnapshotAck,
    SnapshotBegin,
    SnapshotChunk,
    TermNotice,
    TimeoutNow,
    VoteGranted,
    YouLost,
)
from quorate.errors import PeerError, StorageError, UsageError

MakeCore = Callable[[CoreEvents, tuple[NodeId, ...]], Core]
Handler = Callable[[NodeId, Any], None]
TIMER_MIN_S = 0.001
"""A loop's timers may run out so much too early."""
_READING = frozenset({ReadProbe, ReadProbeAnswer, ReadAsk, ReadIndexIs})
"""Answered as they come: they make nothing due."""
TERM_BEYOND_THE_LOG = (
    f"the journal holds a term above {TERM_MAX}, which no log can hold: an earlier build took it from a forged frame. "
    "If the other voters are well, remove this node's journal folder: it comes back as one that lost its journal"
)


class GuardedEngine(CoreEvents):
    """A ``RaftEngine`` (consensus/ports.py says what each method promises) around any ``Core``.

    An empty journal beside a store that has applied something, or a store behind the journal's beginning, is recognised
    here and said in the directory. Raises UsageError for a lone node that forgot (nobody could tell it what it
    acknowledged) and for impossible voters.
    """

    def __init__(
        self, node_id: NodeId, voters: tuple[NodeId, ...], ports: EnginePorts, settings: EngineSettings, core: MakeCore
    ) -> None:
        journal, scheduler = ports.journal, ports.scheduler
        if node_id not in voters or len(set(voters)) != len(voters) or min(voters) < 1:
            raise UsageError(f"node {node_id} of voters {voters}: ids are distinct, from 1, and include the node's own")
        if max(journal.term, journal.last_term) > TERM_MAX:
            raise UsageError(TERM_BEYOND_THE_LOG)
        self.node_id = node_id
        self.voters = tuple(sorted(voters))
        self._ports, self._settings = ports, settings
        self._journal, self._machine, self._scheduler = journal, ports.machine, scheduler
        self._turns = Turns(scheduler, self._turn, self._fatal)
        others = tuple(voter for voter in self.voters if voter != node_id)
        self._core = core(self, others)
        self._outbox = Outbox(journal, ports.network, self._core)
        common = Common(
            node_id=node_id,
            voters=self.voters,
            others=others,
            quorum=len(voters) // 2 + 1,
            settings=settings,
            ports=ports,
            core=self._core,
            outbox=self._outbox,
            turns=self._turns,
        )
        now = scheduler.monotonic()
        syncs = WatchedWorker(ports.store_worker, scheduler)
        self._pace = Pace(settings, now)
        self._membership = Membership(common)
        self._applying = Applying(common, syncs)
        self._elections = Elections(common, self._membership, self._applying, self._pace)
        self._caught_up = CaughtUp(common, self._applying)
        self._follower = Follower(common, self._membership, self._applying, self._elections, self._caught_up)
        self._replication = Replication(common, self._applying)
        self._leadership = Leadership(common, self._applying, self._elections)
        self._reads = Reads(
            common, self._membership, self._applying, self._elections, self._leadership, self._replication
        )
        self._watch = Watch(common, self._applying, self._elections, self._pace, syncs)
        self._timer: Timer | None = None
        self._tick_due = True
        """The quorum and the heartbeats want to be looked at."""
        self._chores_at = now
        self._handlers = self._handler_table()
        journal.on_durable, journal.read_back.on_read = self._on_durable, self._on_read

    def _handler_table(self) -> dict[type[Message], Handler]:
        """Which part hears what."""
        return {
            AppendEntries: self._follower.on_append,
            SnapshotBegin: self._follower.on_snapshot_begin,
            SnapshotChunk: self._follower.on_snapshot_chunk,
            Ack: self._replication.on_ack,
            Alive: self._replication.on_alive,
            SnapshotAck: self._replication.on_snapshot_ack,
            NeedState: self._replication.on_need_state,
            PreVote: self._elections.on_pre_vote,
            PreVoteAnswer: self._elections.on_pre_vote_answer,
            RequestVote: self._elections.on_request_vote,
            VoteGranted: self._elections.on_vote,
            TermNotice: self._elections.on_term_notice,
            TimeoutNow: self._elections.on_timeout_now,
            ReadProbe: self._reads.on_read_probe,
            ReadProbeAnswer: self._reads.on_read_probe_answer,
            ReadAsk: self._reads.on_read_ask,
            ReadIndexIs: self._reads.on_read_index_is,
            RejoinRead: self._reads.on_rejoin_read,
            RejoinAsk: self._membership.on_rejoin_ask,
            RejoinTerm: self._membership.on_rejoin_term,
            RejoinIndex: self._membership.on_rejoin_index,
            YouLost: self._membership.on_you_lost,
        }

    # ── what the controller asks (RaftEngine) ──

    @property
    def term(self) -> Term:
        """The current term."""
        return self._core.term

    @property
    def leader_id(self) -> NodeId | None:
        """Who this node believes leads; None while unknown."""
        return self._elections.leader

    @property
    def is_leader(self) -> bool:
        """Is this node leader in ``term``? (It may have been deposed without knowing.)"""
        return self._core.role is Role.LEADER

    @property
    def commit_index(self) -> Index:
        """Highest index known committed."""
        return self._core.commit_index

    @property
    def applied_index(self) -> Index:
        """Highest index applied here."""
        return self._applying.applied

    @property
    def caught_up(self) -> bool:
        """Has it applied all that is committed, or had it a moment ago?"""
        return self._caught_up.now()

    @property
    def voting(self) -> bool:
        """False while this node may not vote: it lost its journal. An arriving snapshot does not matter."""
        return self._membership.voting

    @property
    def founders(self) -> Mapping[NodeId, str]:
        """Of the leader of a log without facts: the directories whose votes elected it."""
        return self._membership.founders

    @property
    def waits_for(self) -> str:
        """Why this node cannot take part in elections, and what would help; empty when it can."""
        return self._membership.waits_for(self._elections.timing.missing)

    @property
    def followers_that_lost(self) -> int:
        """How often this leader had proof that a follower lost entries which it had acknowledged."""
        return self._replication.followers_that_lost

    @property
    def alarms(self) -> tuple[str, ...]:
        """What an operator must know, in sentences."""
        return self._replication.alarms

    @property
    def installing(self) -> bool:
        """A snapshot is arriving, or must: the node is not ready."""
        return self._applying.installing

    @property
    def election_timeout_s(self) -> float:
        """The smallest election timeout in force here: it follows what the node measures of its own pace."""
        return self._pace.timeout_min_s

    def decidable_term(self) -> Term:
        """``term`` when it is open for decisions and reads, else 0."""
        return self._leadership.term if self._turns.running else Term(0)

    def propose(self, entry: bytes, term: Term) -> Index | None:
        """Append in ``term``. Raises UsageError for an entry of fewer than 2 or more than ``max_entry_bytes`` bytes."""
        if not 2 <= len(entry) <= self._settings.max_entry_bytes:
            raise UsageError(f"an entry of {len(entry)} bytes; 2 to {self._settings.max_entry_bytes} are allowed")
        if term == 0 or term != self._leadership.term or not self._turns.running:
            return None
        index = Index(self._journal.last_index + 1)
        self._journal.append(index, term, entry)
        if not self._turns.asked:
            self._turns.ask()
        return index

    def progress(self) -> tuple[Progress, ...]:
        """Every voter, this node too; empty unless this node leads."""
        return self._replication.progress() if self.is_leader else ()

    def read_index(self, done: Callable[[Index | None], None]) -> None:
        """Linearizable read on the leader; nobody else answers."""
        if self._core.role is Role.LEADER:
            self._reads.barrier(done)
        else:
            done(None)

    def read_barrier(self, done: Callable[[Index | None], None]) -> None:
        """Linearizable read on any node."""
        self._reads.barrier(done)

    def receive(self, peer: NodeId, frame: bytes) -> None:
        """A consensus frame from an authenticated peer. Raises PeerError if malformed (nothing changed)."""
        if peer not in self._replication.flows:
            raise PeerError(f"node {peer} is no voter")
        message, turns = codec.decode(frame), self._turns
        if turns.running:
            kind = message.__class__
            turns.step(self._handlers[kind], peer, message)
            if not turns.asked and kind not in _READING and (kind is not Ack or self._ack_matters(peer)):
                turns.ask()

    def _ack_matters(self, peer: NodeId) -> bool:
        """Is there anything to do now that this peer has answered?"""
        core = self._core
        return core.role is Role.LEADER and (
            self._replication.lacks(peer)
            or self._applying.applied < core.commit_index
            or self._leadership.transfer is not None
        )

    def peer_connected(self, peer: NodeId) -> None:
        """A connection to the peer is up."""
        if self._turns.running and peer in self._replication.flows:
            self._replication.connected(peer)
            self._follower.say_again()
            self._turns.ask()

    def peer_disconnected(self, peer: NodeId) -> None:
        """The last connection to the peer closed; of the leader it hints at an election."""
        if not self._turns.running or peer != self._core.leader_id:
            return
        now = self._scheduler.monotonic()
        self._turns.step(self._applying.installer.drop)
        self._turns.step(self._reads.rounds.end_rounds)
        due_at = self._elections.timing.connection_closed(peer, now)
        self._scheduler.call_later(due_at - now + TIMER_MIN_S, self._turns.ask)

    def transfer_leadership(self, to: NodeId | None = None) -> bool:
        """Ask the most caught-up (or the named) voter to campaign at once; False if not leader or nobody is fit.
        Nothing is decided in this term from here on; if nobody takes over in time, it steps down.
        """
        if not self._turns.running or not self.is_leader:
            return False
        successor = self._replication.successor(to)
        if successor is None:
            return False
        self._leadership.hand_over(successor)
        self._close_term()
        self._turns.ask()
        return True

    def step_down(self, reason: str) -> None:
        """Stop leading now (storage trouble, lost invariants). ``reason`` is the caller's to report."""
        if self._turns.running and self.is_leader:
            self._turns.step(self._core.resign)
            self._turns.ask()

    def forget(self, reason: str, done: Callable[[], None]) -> None:
        """What this node voted and acknowledged before may be more than it knows."""
        self._turns.step(self._membership.forget, reason, done)

    def start(self) -> None:
        """Begin ticking."""
        self._turns.running = True
        self._reads.start()
        self._turns.ask()
        self._tick_in(self._settings.tick_s, self._scheduler.monotonic())

    def stop(self) -> None:
        """Stop ticking; no callback runs afterwards."""
        self._turns.running = False
        if self._timer is not None:
            self._timer.cancel()
        self._replication.stop()
        self._applying.stop()
        self._reads.stop()

    # ── turns ──

    def _fatal(self, error: Exception) -> None:
        self.stop()
        self._ports.on_fatal(error)

    def _tick(self) -> None:
        if not self._turns.running:
            return
        now, delay_s = self._scheduler.monotonic(), self._settings.tick_s
        self._watch.turn(now)
        if self._waits(now):
            self._tick_due = True
            self._scheduler.take_turn(self._turns.take)
        if not self._waits(now):  # At rest: the next is due with what is due next.
            delay_s = min(max(self._due_at() - now, TIMER_MIN_S), self._settings.heartbeat_s)
        if self._turns.running:
            self._tick_in(delay_s, now)

    def _tick_in(self, delay_s: float, now: float) -> None:
        """So long after ``now``, when this tick began: if its turn took longer, the next one is late, and says so."""
        due_at = now + delay_s
        self._timer = self._scheduler.call_later(max(0.0, due_at - self._scheduler.monotonic()), self._tick)
        self._watch.expect(due_at)

    def _due_at(self) -> float:
        """When the next heartbeat must leave, or the next election begin."""
        return self._core.heartbeat_at if self._core.role is Role.LEADER else self._elections.timing.due_at

    def _waits(self, now: float) -> bool:
        """Has the time come for something, or is something under way that a turn moves on?"""
        applying, membership = self._applying, self._membership
        return (
            now >= self._due_at()
            or applying.applied < self._core.commit_index
            or self._journal.oldest_unsynced_since() is not None
            or bool(self._reads.rounds.waiting)
            or applying.installing
            or applying.installer.sweeping
            or membership.rejoin is not None
            or membership.back_seq is not None
            or bool(self._replication.senders)
            or self._leadership.transfer is not None
        )

    def _turn(self) -> None:
        now, rounds = self._scheduler.monotonic(), self._reads.rounds
        self._watch.turn(now)
        chores = now >= self._chores_at
        if chores:
            self._chores_at = now + self._settings.tick_s
            self._watch.look(now)
            self._membership.counts()  # A leader acknowledges nothing, and must be known as a founder all the same.
        if self._core.role is Role.LEADER:
            self._lead(now)
        else:
            if self._elections.timing.due(now):
                self._elections.ask(now)
            if rounds.waiting:
                self._reads.ask()
        membership, applying, installer = self._membership, self._applying, self._applying.installer
        if membership.rejoin is not None:
            leader = self._elections.leader
            membership.go_on(membership.rejoin, leader, now, installing=installer.active)
        if applying.needs_state:
            applying.ask_for_state(self._elections.leader, now)
        self._journal.flush()
        self._outbox.release()
        if membership.back_seq is not None:
            membership.record_return(membership.back_seq)
        committed = applying.take_slice(now)
        if committed is not None:
            self._leadership.open()
            if applying.applied < committed or rounds.queued:
                self._turns.ask()
        if installer.steps is not None:
            slice_s = self._settings.snapshots.switch_slice_s
            if installer.go_on(lambda: self._scheduler.monotonic() - now > slice_s):
                self._turns.ask()
        if rounds.waiting:
            rounds.answer(applying.applied)
        if chores:
            if rounds.waiting:
                rounds.expire(now)
            applying.tidy(self._replication.kept_after(now), now)

    def _lead(self, now: float) -> None:
        if self._tick_due:
            self._tick_due = False
            self._replication.count()
            self._core.tick()
        self._replication.feed_all(now)
        if self._reads.rounds.queued and self._leadership.term:
            self._reads.begin_round()
        if self._leadership.transfer is not None:
            self._leadership.go_on(self._leadership.transfer, now)

    def _on_durable(self) -> None:
        """The journal's durable positions moved: let out what waited, commit what may be."""
        if not self._turns.running:
            return
        if self._turns.under_way:  # The disk is a test's: this turn goes on.
            self._turns.step(self._covered)
            self._turns.ask()
        else:
            self._scheduler.take_turn(self._durable)

    def _durable(self) -> None:
        """The turn that a finished sync makes due is taken at once: nothing else came with it that could share one."""
        self._turns.step(self._covered)
        core, membership = self._core, self._membership
        if (
            (core.role is Role.LEADER and self._applying.applied < core.commit_index)
            or membership.rejoin is not None
            or membership.back_seq
        ):
            self._turns.take()

    def _covered(self) -> None:
        """Let out what the disk has covered, and count it."""
        self._outbox.release()
        if self._membership.back_seq is not None:
            self._membership.record_return(self._membership.back_seq)
        if self._core.role is Role.LEADER:
            self._replication.count()

    def _on_read(self, error: StorageError | None) -> None:
        """Entries that a follower or the machine waits for were read back, or cannot be."""
        if self._turns.running and error is not None:
            self._fatal(error)
        self._turns.ask()

    def _close_term(self) -> None:
        """Nothing is decided or read in it any more; told at once."""
        term = self._leadership.close()
        self._reads.rounds.fail()
        if term:
            self._machine.leadership(term, None)

    # ── what the core says (CoreEvents) ──

    def ask_vote(self, peer: NodeId, term: Term, last_index: Index, last_term: Term) -> None:
        """Send a vote request, when the candidacy is durable."""
        self._elections.ask_vote(peer, term, last_index, last_term)

    def grant_vote(self, peer: NodeId, term: Term) -> None:
        """Send a vote, when it is durable."""
        self._elections.grant_vote(peer, term)

    def acknowledge(self, peer: NodeId, next_index: Index, *, reset: bool, success: bool) -> None:
        """Answer the AppendEntries being handled, when what it vouches for is durable."""
        self._follower.acknowledge(peer, next_index, reset=reset, success=success)

    def heartbeat(self) -> None:
        """Send every follower something."""
        self._replication.heartbeat()

    def role_changed(self, old: Role, new: Role) -> None:
        """Called in the middle of the step that changes it."""
        if old is Role.LEADER:
            self._close_term()
        if Role.LEADER in (old, new):
            self._leadership.reset()
            self._replication.reset()
        self._elections.role_changed(old, new)
        if new is not Role.FOLLOWER:
            self._applying.installer.drop()  # It came from the leader of a term that is over.
        if new is Role.LEADER:
            self._reads.rounds.end_rounds()
