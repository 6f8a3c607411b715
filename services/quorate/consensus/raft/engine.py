"""The Raft node: a core that decides, wrapped in everything that makes its decisions safe to act on.

Rules: nothing blocks, nothing awaits. Whatever vouches for something durable (acks, votes, vote requests) waits until
the journal has made it so; AppendEntries leave at once, also before our own write. The loss of leadership is told to
the machine before anything else can be decided. One error that is not a peer's fault stops the node (fail-stop).

Theory. One *turn* of the node: tick the core (count matches, check the quorum) → one AppendEntries per follower that
needs one → one round of read probes → hand the journal's new operations to the disk → release what the disk has
covered → apply a bounded slice → answer reads. Turns are asked for by frames, proposals, finished syncs and the
timer, and grouped: many requests, one turn.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import structlog

from quorate.clock import Timer
from quorate.consensus.ports import (
    TERM_MAX,
    Index,
    LeaderCause,
    NodeId,
    Progress,
    StoreOp,
    Term,
)
from quorate.consensus.raft.applied_check import check_applied, known_committed
from quorate.consensus.raft.common import EnginePorts
from quorate.consensus.raft.core import Core, CoreEvents, Role
from quorate.consensus.raft.founding import NOT_LISTED, UNFOUNDED, Founding
from quorate.consensus.raft.guard import Election, HeldFrames, PeerFlow, ReadRounds, Show, commit_ceiling, shape_append
from quorate.consensus.raft.install import Installer
from quorate.consensus.raft.pace import Pace
from quorate.consensus.raft.rejoin import LONE_JOURNAL_BEHIND, LONE_JOURNAL_LOST, LONE_STORE_LOST, Rejoin
from quorate.consensus.raft.snapshots import SnapshotSender, Trimmer, WatchedWorker
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
from quorate.errors import InvariantBrokenError, PeerError, StorageError, UsageError

_FORGOTTEN_KEY = b"consensus/forgotten"
"""In the store's ``meta`` of a directory without a voter file while its node had not recovered from a lost journal."""
_APPLY_CLOCK_EVERY = 4
"""Entries applied between two looks at the clock."""
_READING = frozenset({ReadProbe, ReadProbeAnswer, ReadAsk, ReadIndexIs})
"""Answered as they come: they make nothing due."""
TERM_BEYOND_THE_LOG = (
    f"the journal holds a term above {TERM_MAX}, which no log can hold: an earlier build took it from a forged frame. "
    "If the other voters are well, remove this node's journal folder: it comes back as one that lost its journal"
)
LOST_ACKNOWLEDGED = (
    "node {peer}, which leads, holds an acknowledgement of this node up to entry {index} that its journal does not "
    "bear out: the journal, or the disk below it, went back"
)
_log = structlog.get_logger(__name__)
_NO_ACK = (NodeId(0), Term(0), Index(0), 0.0)


class _Transfer(msgspec.Struct, frozen=True):
    to: NodeId
    deadline: float


class GuardedEngine(CoreEvents):
    """A ``RaftEngine`` (consensus/ports.py says what each method promises) around any ``Core``.

    An empty journal beside a store that has applied something, or a store behind the journal's beginning, is recognised
    here and said in the directory. Raises UsageError for a lone node that forgot (nobody could tell it what it
    acknowledged) and for impossible voters.
    """

    def __init__(
        self,
        node_id: NodeId,
        voters: tuple[NodeId, ...],
        ports: EnginePorts,
        settings: EngineSettings,
        core: Callable[[CoreEvents, list[NodeId]], Core],
    ) -> None:
        journal, machine, scheduler, rng = ports.journal, ports.machine, ports.scheduler, ports.rng
        if node_id not in voters or len(set(voters)) != len(voters) or min(voters) < 1:
            raise UsageError(f"node {node_id} of voters {voters}: ids are distinct, from 1, and include the node's own")
        if max(journal.term, journal.last_term) > TERM_MAX:
            raise UsageError(TERM_BEYOND_THE_LOG)
        self.node_id = node_id
        self.voters = tuple(sorted(voters))
        self._others = [voter for voter in self.voters if voter != node_id]
        self._quorum = len(voters) // 2 + 1
        self._journal, self._machine, self._network = journal, machine, ports.network
        self._scheduler, self._rng, self._settings = scheduler, rng, settings
        self._on_fatal = ports.on_fatal
        self._store, self._worker = ports.store, ports.worker
        self._directory = ports.directory
        now = scheduler.monotonic()
        self._needs_state = False
        self._founding: Founding | None = None
        if ports.facts is not None:
            self._founding = Founding(self._directory, self.voters, journal, ports.facts)
        self._rejoin = self._start_rejoin()
        self._rejoined_seq: int | None = None
        self._first_start = journal.term == 0 and self._rejoin is None
        self._pace = Pace(settings, now)
        self._election = Election(node_id, self.voters, settings, self._pace, rng, now)
        self._reads = ReadRounds(node_id, self._quorum, settings.reads_max, rng.getrandbits(61))
        self._held = HeldFrames()
        self._announced_term = Term(0)
        self._transfer: _Transfer | None = None
        self._flows: dict[NodeId, PeerFlow] = {}
        self._senders: dict[NodeId, SnapshotSender] = {}
        self._reset_leadership()
        self.followers_that_lost = self._seq = self._answering_seq = self._answering_ballot = 0
        self._handover = self._news_due = False
        self._last_ack = _NO_ACK
        self._news_timer: Timer | None = None
        self._cause = LeaderCause("silent")
        self._alive_sent_at = now - settings.heartbeat_s
        self._rejoin_ask_at = self._state_ask_at = now
        self._blob: tuple[tuple[int, int, int], bytes, int] = ((0, 0, 0), b"", 0)
        self._timer: Timer | None = None
        self._running = self._kicked = self._turning = False
        self._tick_due = True
        """The quorum and the heartbeats want to be looked at."""
        self._apply_waits: float | None = None  # Since when entries that must be applied are being read back.
        self._chores_at = self._disk_watched_at = self._awake_since = self._last_seen_awake = now
        self._core = core(self, self._others)
        self._applied = machine.applied_index() if self._needs_state else Index(max(machine.applied_index(), 1))
        self._core.set_positions(applied=Index(max(self._applied, journal.base_index)))
        self._store_syncs = syncs = WatchedWorker(ports.store_worker, scheduler)
        self._trimmer = Trimmer(journal, ports.store, syncs, settings.snapshots, now)
        self._installer = Installer(
            journal, machine, ports.store, ports.event_log, syncs, settings.snapshots, self._installed
        )
        self._handlers = self._handler_table()
        journal.on_durable, journal.read_back.on_read = self._on_durable, self._on_read

    def _handler_table(self) -> dict[type[Message], Callable[[NodeId, Any], None]]:
        return {
            AppendEntries: self._on_append,
            Ack: self._on_ack,
            RequestVote: self._on_request_vote,
            VoteGranted: self._on_vote,
            PreVote: self._on_pre_vote,
            PreVoteAnswer: self._on_pre_vote_answer,
            TermNotice: lambda _, message: self._core.adopt_term(message.term),
            Alive: self._on_alive,
            ReadProbe: self._on_read_probe,
            ReadProbeAnswer: self._on_read_probe_answer,
            ReadAsk: self._on_read_ask,
            ReadIndexIs: self._on_read_index_is,
            TimeoutNow: self._on_timeout_now,
            RejoinAsk: self._on_rejoin_ask,
            RejoinTerm: self._on_rejoin_term,
            RejoinRead: self._on_rejoin_read,
            RejoinIndex: self._on_rejoin_index,
            SnapshotBegin: self._on_snapshot_begin,
            SnapshotChunk: self._on_snapshot_chunk,
            SnapshotAck: self._on_snapshot_ack,
            NeedState: self._on_need_state,
            YouLost: self._on_you_lost,
        }

    # ── what the controller asks (RaftEngine) ──

    @property
    def term(self) -> Term:
        """The current term."""
        return self._core.term

    @property
    def leader_id(self) -> NodeId | None:
        """Who this node believes leads; None while unknown. A leader that was silent for longer than any election
        timeout is nobody's any more: whoever asks is told so, also while nobody can be elected instead and the
        connection to it stays open.
        """
        leader = self._core.leader_id
        if leader is None or leader == self.node_id:
            return leader
        silent_s = self._scheduler.monotonic() - self._election.heard_at
        return leader if silent_s <= self._settings.election_timeout_max_s else None

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
        return self._applied

    @property
    def voting(self) -> bool:
        """False while this node may not vote: it lost its journal. An arriving snapshot does not matter."""
        return self._rejoin is None

    @property
    def _standing(self) -> bool:
        """May it ask for votes? Not while its store, but not yet its journal, is at a snapshot: it could not win."""
        return self.voting and not self._installer.switching and not self._needs_state

    @property
    def founders(self) -> Mapping[NodeId, str]:
        """Of the leader of a log without facts: the directories whose votes elected it, this node's too. Empty when
        nobody knows.
        """
        return {} if self._founding is None else self._founding.votes

    @property
    def waits_for(self) -> str:
        """Why this node cannot take part in elections, and what would help; empty when it can."""
        if self._rejoin is not None:
            return f"may not vote: {self._directory.may_not_vote}"
        if self._founding is None or self._founding.founded:
            return ""
        missing = ", ".join(map(str, self._election.missing)) or "(not asked yet)"
        return f"not founded: a cluster is founded by all of its voters, and none has agreed yet of node {missing}"

    @property
    def installing(self) -> bool:
        """A snapshot is arriving, or must: the node is not ready."""
        return self._installer.active or self._needs_state

    @property
    def election_timeout_s(self) -> float:
        """The smallest election timeout in force here: it follows what the node measures of its own pace."""
        return self._pace.timeout_min_s

    def decidable_term(self) -> Term:
        """``term`` when leader and its first entry of this term is applied and it is not handing over, else 0: no
        decision, no read before.
        """
        return self._announced_term

    def propose(self, entry: bytes, term: Term) -> Index | None:
        """Append in ``term``; None = ``term`` is not (or no longer) decidable here, *provably nothing was proposed*.
        Raises UsageError for an entry of fewer than 2 or more than ``max_entry_bytes`` bytes.
        """
        if not 2 <= len(entry) <= self._settings.max_entry_bytes:
            raise UsageError(f"an entry of {len(entry)} bytes; 2 to {self._settings.max_entry_bytes} are allowed")
        if term == 0 or term != self._announced_term or not self._running:
            return None
        index = Index(self._journal.last_index + 1)
        self._journal.append(index, term, entry)
        self._kick()
        return index

    def progress(self) -> tuple[Progress, ...]:
        """Every voter, this node too; empty unless this node leads."""
        if not self.is_leader:
            return ()
        now, core = self._scheduler.monotonic(), self._core
        others = [Progress(peer, core.match(peer), max(0.0, now - core.last_response(peer))) for peer in self._others]
        return (Progress(self.node_id, Index(self._journal.last_index), 0.0), *others)

    def read_index(self, done: Callable[[Index | None], None]) -> None:
        """Linearizable read on the leader: ``done(index)`` once a majority confirmed the leadership and ``index`` is
        applied; ``done(None)`` when it cannot be known. Batched per turn; always called, within the election timeout.
        """
        if self.is_leader:
            self.read_barrier(done)
        else:
            done(None)

    def read_barrier(self, done: Callable[[Index | None], None]) -> None:
        """Linearizable read on any node: ``done(index)`` once everything committed before this call is applied *here*.
        The leader is asked, one question per turn; needs no write of any journal. ``done(None)`` as in read_index.
        """
        deadline = self._scheduler.monotonic() + self._settings.read_timeout_s
        if not self._running or not self._reads.add(deadline, done):
            done(None)
            return
        self._kick()

    def receive(self, peer: NodeId, frame: bytes) -> None:
        """A consensus frame from an authenticated peer. Raises PeerError if malformed (nothing changed)."""
        if peer not in self._flows:
            raise PeerError(f"node {peer} is no voter")
        message = codec.decode(frame)
        if self._running:
            kind = message.__class__
            self._step(self._handlers[kind], peer, message)
            if kind not in _READING and (kind is not Ack or self._ack_matters(peer)):
                self._kick()

    def peer_connected(self, peer: NodeId) -> None:
        """A connection to the peer is up. Nothing waits for it: the next heartbeat finds out what the peer lacks."""
        if self._running and peer in self._flows:
            self._flows[peer].resend = True
            self._last_ack = _NO_ACK
            self._kick()

    def peer_disconnected(self, peer: NodeId) -> None:
        """The last connection to the peer closed; of the leader it hints at an election."""
        if not self._running or peer != self._core.leader_id:
            return
        now = self._scheduler.monotonic()
        self._step(self._installer.drop)
        self._step(self._reads.end_rounds)
        self._scheduler.call_later(self._election.connection_closed(peer, now) - now, self._kick)

    def transfer_leadership(self, to: NodeId | None = None) -> bool:
        """Ask the most caught-up (or the named) voter to campaign at once; False if not leader or nobody is fit.
        Nothing is decided in this term from here on; if nobody takes over in time, it steps down.
        """
        if not self._running or not self.is_leader:
            return False
        fit = [
            p
            for p in self._others
            if self._network.connected(p)
            and self._core.match(p) > 0
            and to in (None, p)
            and not self._flows[p].needs_state
        ]
        if not fit:
            return False
        target = max(fit, key=self._core.match)
        deadline = self._scheduler.monotonic() + self._settings.election_timeout_max_s
        self._transfer = _Transfer(target, deadline)
        self._close_term()
        self._kick()
        return True

    def step_down(self, reason: str) -> None:
        """Stop leading now (storage trouble, lost invariants). ``reason`` is the caller's to report."""
        if self._running and self.is_leader:
            self._step(self._core.resign)
            self._kick()

    def forget(self, reason: str, done: Callable[[], None]) -> None:
        """What this node voted and acknowledged before may be more than it knows: from here on it counts for nothing,
        until it has come back like one that lost its journal. ``done`` when that is durable.
        """
        self._step(self._forget, reason, done)

    def start(self) -> None:
        """Begin ticking."""
        self._running = True
        self._last_seen_awake = self._scheduler.monotonic()
        self._tick()

    def stop(self) -> None:
        """Stop ticking; no callback runs afterwards."""
        self._running = False
        for timer in (self._timer, self._news_timer):
            if timer is not None:
                timer.cancel()
        self._installer.stop()
        self._trimmer.stop()
        self._reads.fail()

    # ── turns ──

    def _step(self, action: Callable[..., None], *arguments: object) -> None:
        """Whatever goes wrong inside, but a peer's fault, leaves a state that cannot be explained: stop."""
        try:
            action(*arguments)
        except PeerError:
            raise
        except Exception as error:  # noqa: BLE001 - fail-stop, whatever it was
            self._fatal(error)

    def _fatal(self, error: Exception) -> None:
        self.stop()
        self._on_fatal(error)

    def _tick(self) -> None:
        if self._running:
            self._timer = self._scheduler.call_later(self._settings.tick_s, self._tick)
            self._note_pace(self._scheduler.monotonic())
            self._tick_due = True
            self._kick()

    def _kick(self) -> None:
        """Ask for a turn; many asks, one turn."""
        if not self._kicked and self._running:
            self._kicked = True
            self._scheduler.call_soon(self._turn_asked_for)

    def _turn_asked_for(self) -> None:
        if self._kicked:  # Else a finished sync took it.
            self._scheduler.take_turn(self._take_turn)

    def _take_turn(self) -> None:
        """Nothing in a turn is a peer's fault, also not what cannot be decoded: it is committed."""
        self._kicked = False
        if self._running:
            self._turning = True
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - fail-stop, whatever it was
                self._fatal(error)
            self._turning = False

    def _note_pace(self, now: float) -> None:
        """How late this turn is: one comes at least every tick."""
        late_s = now - self._last_seen_awake - self._settings.tick_s
        self._last_seen_awake = now
        if late_s > 0.0:
            self._pace.note_turn(late_s, now)
            if late_s > self._settings.heartbeat_s:
                self._election.slept(late_s)
                self._core.slept(late_s)

    def _turn(self) -> None:
        now = self._scheduler.monotonic()
        self._note_pace(now)
        chores = now >= self._chores_at
        if chores:
            self._chores_at = now + self._settings.tick_s
            self._watch_disk(now)
        if self._core.role is Role.LEADER:
            if self._tick_due:
                self._tick_due = False
                self._core.count()
                self._core.tick()
            self._lead(now)
        else:
            if self._election.due(now):
                self._ask_for_pre_votes(now)
            self._ask_for_index()
        if self._rejoin is not None:
            self._go_on_rejoining(self._rejoin, now)
        if self._needs_state:
            self._ask_for_state(now)
        self._journal.flush()
        self._release()
        self._apply_slice(now)
        if self._installer.go_on(lambda: self._scheduler.monotonic() - now > self._settings.snapshots.switch_slice_s):
            self._kick()
        self._reads.answer(self._applied)
        if chores:
            self._do_chores(now)

    def _do_chores(self, now: float) -> None:
        """What only the passing of time makes due."""
        self._installer.expire(now)
        self._installer.sweep()
        self._reads.expire(now)
        if not self._installer.active:
            floors = [sender.index for sender in self._senders.values()]
            # The store may be ahead of the journal after a kill: what is applied but not yet known to be committed in
            # this life may be another entry here, and the journal must never begin at that.
            self._trimmer.consider(min(self._applied, self._core.commit_index), floors, now)

    def _lead(self, now: float) -> None:
        for peer in self._others:
            self._feed(peer, now, heartbeat=False)
        self._news_due = False
        if self._reads.queued and self._announced_term:
            self._begin_read_round()
        if self._transfer is not None:
            self._go_on_transferring(self._transfer, now)

    def _watch_disk(self, now: float) -> None:
        """A node that was stopped itself (SIGSTOP, a frozen container) has not seen its disk hang for so long."""
        if now - self._disk_watched_at > self._settings.disk_stall_step_down_s:
            self._awake_since = now
        self._disk_watched_at = now
        age = self._oldest_unsynced_age(now)
        self._pace.note_turn(0.0, now)
        self._pace.note_sync(age, now)
        awake_s, fatal_s = now - self._awake_since, self._settings.disk_stall_fatal_s
        if age > fatal_s and awake_s > fatal_s:
            raise StorageError(f"the disk has not finished a sync for {age:.1f} s")
        store_age = self._store_syncs.oldest_age(now)
        if store_age > fatal_s and awake_s > fatal_s:  # Nobody waits for it, but the journal would grow without end.
            raise StorageError(f"the disk has not finished a sync of the store for {store_age:.1f} s")
        if reads := self._journal.read_back.under_way:
            read_age = now - next(iter(reads.values()))
            if min(read_age, awake_s) > fatal_s:
                raise StorageError(f"the disk has not finished a read of the journal for {read_age:.1f} s")
        if self._apply_waits is not None:
            age = max(age, now - self._apply_waits)
        if age > self._settings.disk_stall_step_down_s and self.is_leader:
            self._core.resign()

    def _oldest_unsynced_age(self, now: float) -> float:
        since = self._journal.oldest_unsynced_since()
        return 0.0 if since is None else now - since

    def _on_durable(self) -> None:
        """The journal's durable positions moved: let out what waited, commit what may be."""
        if not self._running:
            return
        if self._turning:  # The disk is a test's: this turn goes on, and releases.
            self._step(self._count)
            self._kick()
        else:
            self._scheduler.take_turn(self._durable)

    def _durable(self) -> None:
        """The turn that a finished sync makes due is taken at once: nothing else came with it that could share one."""
        self._step(self._release)
        self._step(self._count)
        if (self.is_leader and self._applied < self.commit_index) or self._rejoin is not None or self._rejoined_seq:
            self._take_turn()

    def _count(self) -> None:
        """A match moved, or what is durable here."""
        if self._core.role is Role.LEADER:
            self._core.count()

    def _on_read(self, error: StorageError | None) -> None:
        """Entries that a follower or the machine waits for were read back, or cannot be."""
        if self._running and error is not None:
            self._fatal(error)
        self._kick()

    def _release(self) -> None:
        for peer, frame in self._held.release(self._journal.durable_seq, self._core.term):
            self._network.send(peer, frame)
        if self._rejoined_seq is not None and self._journal.durable_seq >= self._rejoined_seq:
            self._rejoined_seq = None
            self._directory.save_later(self._worker, may_not_vote="", admitted=True)

    def _send(self, peer: NodeId, message: Message) -> None:
        self._network.send(peer, codec.encode(message))

    def _hold(self, peer: NodeId, message: Message, *, progress: bool = False) -> None:
        self._held.hold(self._journal.seq, self._core.term, peer, codec.encode(message), progress=progress)

    # ── applying ──

    def _apply_slice(self, now: float) -> None:
        """A bounded number of committed entries; the rest in the next turn."""
        commit = Index(min(self._core.commit_index, self._journal.last_index))
        waits, self._apply_waits = self._apply_waits, None
        if self._installer.active or self._needs_state:
            return
        check_applied(self._applied, self._machine.applied_term(), commit, self._journal)
        if self._applied >= commit:
            return
        settings = self._settings
        count = min(settings.apply_slice_entries, commit - self._applied)
        deadline = now + settings.apply_slice_s
        done = 0
        entries = self._journal.at_hand(Index(self._applied + 1), settings.append_bytes, count)
        if entries is None:
            self._apply_waits = now if waits is None else waits
            return
        for index, term, entry in entries:
            self._machine.apply(index, term, entry)
            self._applied = index
            done += 1
            if done % _APPLY_CLOCK_EVERY == 0 and self._scheduler.monotonic() > deadline:
                break
        if not done:
            raise InvariantBrokenError(f"committed entry {self._applied + 1} is not in the journal")
        self._core.set_positions(applied=self._applied)
        self._machine.applied()
        self._open_term()
        if self._applied < commit:
            self._kick()

    def _open_term(self) -> None:
        """Once this leader's first entry is applied it may decide."""
        barrier = self._core.barrier_index
        if (
            self._announced_term
            or self._transfer is not None
            or barrier is None
            or not self.is_leader
            or self._applied < barrier
        ):
            return
        if self.term_at(barrier) == self._core.term:
            self._announced_term = self._core.term
            self._machine.leadership(self._core.term, self._cause)

    def _close_term(self) -> None:
        """It may no longer; told at once."""
        term, self._announced_term = self._announced_term, Term(0)
        self._reads.fail()
        if term:
            self._machine.leadership(term, None)

    def _reset_leadership(self) -> None:
        self._announced_term = Term(0)
        self._transfer = None
        self._flows = {other: PeerFlow() for other in self._others}
        self._senders = {}

    # ── what the core asks (CoreEvents) ──

    def commit_ceiling(self) -> Index:
        """Highest index durable on a majority."""
        return commit_ceiling(Index(self._journal.durable_index), self._core.matches(), self._quorum)

    def term_at(self, index: Index) -> Term | None:
        """Of the journal."""
        return self._journal.term_at(index)

    def ask_vote(self, peer: NodeId, term: Term, last_index: Index, last_term: Term) -> None:
        """Send a vote request, when the candidacy is durable."""
        listed = self._lists(peer)
        self._hold(peer, RequestVote(term, self._election.ballot, last_index, last_term, self._handover, listed))

    def grant_vote(self, peer: NodeId, term: Term) -> None:
        """Send a vote, when it is durable."""
        self._election.postpone(self._scheduler.monotonic(), voted=True)
        mine = UNFOUNDED if self._founding is None else self._founding.me
        self._hold(peer, VoteGranted(term, self._answering_ballot, mine))

    def acknowledge(self, peer: NodeId, next_index: Index, *, reset: bool, success: bool) -> None:
        """Answer the AppendEntries being handled, when what it vouches for is durable. Stamped with the term and
        sequence of now, not of the moment it leaves (BUG 2).
        """
        self._judge_membership()
        ack = Ack(self._core.term, self._answering_seq, next_index, reset, success, self._rejoin is None)
        progress = success and not reset
        self._last_ack = (peer, ack.term, next_index, self._scheduler.monotonic()) if progress else _NO_ACK
        self._hold(peer, ack, progress=progress)

    def heartbeat(self) -> None:
        """Send every follower something."""
        now = self._scheduler.monotonic()
        for peer in self._others:
            self._feed(peer, now, heartbeat=True)

    def role_changed(self, old: Role, new: Role) -> None:
        """Called in the middle of the step that changes it."""
        if old is Role.LEADER:
            self._close_term()
            self._reset_leadership()
            self._election.deposed(self._scheduler.monotonic(), self.node_id)
        if new is not Role.FOLLOWER:
            self._installer.drop()  # It came from the leader of a term that is over.
        if new is Role.LEADER:
            self._reset_leadership()
            self._reads.end_rounds()
        if new is not Role.CANDIDATE:
            self._handover = False

    # ── elections ──

    def _ask_for_pre_votes(self, now: float) -> None:
        if self._core.term >= TERM_MAX:
            raise InvariantBrokenError(
                f"term {TERM_MAX} is the last that a log can hold: nobody can be elected after it"
            )
        self._judge_membership()
        if self._founding is not None:
            self._election.unanimous = not self._founding.founded
        round_ = self._election.ask(now)
        waits_s = 0.0 if self._apply_waits is None else now - self._apply_waits
        busy = max(self._oldest_unsynced_age(now), waits_s) > self._settings.heartbeat_s
        if not self._standing or busy:
            return
        journal = self._journal
        term = Term(self._core.term + 1)
        for peer in self._others:
            self._send(peer, PreVote(term, round_, journal.last_index, journal.last_term, self._lists(peer)))
        if self._election.would_win():
            self._campaign(now)

    def _campaign(self, now: float, *, handover: bool = False) -> None:
        self._handover = handover
        if self._founding is not None:
            self._founding.stand()
            self._election.unanimous = not self._founding.founded
        self._cause = self._election.cause(now, handover=handover, first=self._first_start)
        self._election.campaign(now)
        self._core.stand()

    def _on_pre_vote(self, peer: NodeId, message: PreVote) -> None:
        now = self._scheduler.monotonic()
        journal = self._journal
        granted = (
            self._would_vote(message.listed)
            and not self.is_leader
            and not self._election.protects_leader(now)
            and message.term > self._core.term
            and (message.last_term, message.last_index) >= (journal.last_term, journal.last_index)
        )
        if granted:
            self._election.postpone(now)
        self._send(peer, PreVoteAnswer(self._core.term, message.round, granted))

    def _on_pre_vote_answer(self, peer: NodeId, message: PreVoteAnswer) -> None:
        """The voter's term is adopted: else a node with an older term and a longer log and one with a newer term and a
        shorter log refuse each other for ever.
        """
        self._core.adopt_term(message.term)
        if message.granted and not self.is_leader and self._standing and self._election.would_win(message.round, peer):
            self._campaign(self._scheduler.monotonic())

    def _on_request_vote(self, peer: NodeId, message: RequestVote) -> None:
        protects = self.is_leader or self._election.protects_leader(self._scheduler.monotonic())
        if not self._would_vote(message.listed) or (protects and not message.handover):
            return
        if message.term < self._core.term:
            self._send(peer, TermNotice(self._core.term))
            return
        self._answering_ballot = message.ballot
        self._core.request_vote(peer, message.term, message.last_index, message.last_term)

    def _on_vote(self, peer: NodeId, message: VoteGranted) -> None:
        if message.term != self._core.term or not self._election.first_vote_of(peer, message.term, message.ballot):
            return
        if self._founding is None or not self._election.unanimous:
            self._core.vote_granted(peer, message.term)
        elif self._founding.voted(peer, message.incarnation):  # It counts a majority: no word before all.
            for voter in self._others:
                self._core.vote_granted(voter, message.term)

    def _lists(self, peer: NodeId) -> bytes:
        return UNFOUNDED if self._founding is None else self._founding.lists(peer)

    def _would_vote(self, listed: bytes) -> bool:
        self._judge_membership()
        if self._founding is None:
            return self.voting
        # In a founding also a node that lost its journal has a vote: it counts with those of all others only, and each
        # of them holds no founding that this node could have forgotten.
        return self._founding.would_vote(listed) and (self.voting or listed == UNFOUNDED)

    def _on_timeout_now(self, peer: NodeId, message: TimeoutNow) -> None:
        self._judge_membership()
        if message.term == self._core.term and peer == self._core.leader_id and self._standing:
            self._campaign(self._scheduler.monotonic(), handover=True)

    def _go_on_transferring(self, transfer: _Transfer, now: float) -> None:
        if now > transfer.deadline:
            self._core.resign()
        elif self._core.match(transfer.to) == self._journal.last_index:
            self._send(transfer.to, TimeoutNow(self._core.term))

    # ── following ──

    def _follow(self, peer: NodeId, term: Term) -> bool:
        """A frame only a leader sends. False (and the peer is told) if its term is over."""
        if term < self._core.term:
            self._send(peer, TermNotice(self._core.term))
            return False
        if term == self._core.term and self.is_leader:
            raise InvariantBrokenError(f"node {peer} and this node both lead term {term}")
        self._core.adopt_term(term)
        self._election.heard(peer, self._scheduler.monotonic())
        self._installer.drop_unless(peer, term)
        return True

    def _on_append(self, peer: NodeId, message: AppendEntries) -> None:
        if not self._follow(peer, message.term):
            return
        self._say_alive(peer)
        self._answering_seq = message.seq
        commit = self._core.commit_index
        if commit < self._applied:
            term = self._machine.applied_term()
            commit = known_committed(self._applied, term, commit, message.commit, self._journal)
        shaped = shape_append(message, self._journal, commit)
        if isinstance(shaped, Show):
            self._core.append(peer, message.term, shaped)
            return
        self._core.commit_seen(peer, message.term, shaped.commit)
        if message.entries or not self._just_acknowledged(peer, message.term, shaped.next_index):
            self.acknowledge(peer, shaped.next_index, reset=False, success=True)

    def _just_acknowledged(self, peer: NodeId, term: Term, next_index: Index) -> bool:
        """Was this said a moment ago? Then only heartbeats want to hear it again: check-quorum lives on them."""
        known_peer, known_term, known_index, at = self._last_ack
        return (known_peer, known_term, known_index) == (
            peer,
            term,
            next_index,
        ) and self._scheduler.monotonic() - at < self._settings.heartbeat_s / 2

    def _say_alive(self, peer: NodeId) -> None:
        """An ack that waits for our disk is no sign of life; check-quorum needs one."""
        now = self._scheduler.monotonic()
        if len(self._held) and now - self._alive_sent_at >= self._settings.heartbeat_s and self._rejoin is None:
            self._alive_sent_at = now
            self._send(peer, Alive(self._core.term))

    def _on_read_probe(self, peer: NodeId, message: ReadProbe) -> None:
        self._judge_membership()
        uncertain = self._founding is not None and self._founding.uncertain
        ok = self._core.term <= message.term and self._rejoin is None and not uncertain
        self._send(peer, ReadProbeAnswer(message.term, message.round, ok))

    # ── leading ──

    def _feed(self, peer: NodeId, now: float, *, heartbeat: bool) -> None:
        """At most one AppendEntries to one follower."""
        flow, core, journal, settings = self._flows[peer], self._core, self._journal, self._settings
        if flow.needs_state:
            self._offer_snapshot(peer, now)
        last, commit = journal.last_index, core.commit_index
        next_index = min(core.next_index(peer), Index(last + 1))
        if next_index > last and not (heartbeat or flow.resend or (commit > flow.commit_sent and self._tell_commit())):
            return
        entries_end = Index(next_index - 1)
        blob, count = b"", 0
        if next_index <= journal.base_index:
            if not flow.needs_state:
                self._offer_snapshot(peer, now)
            flow.resend = False
            next_index, entries_end = Index(journal.base_index + 1), journal.base_index
        elif next_index <= last and flow.bytes_in_flight < settings.window_bytes:
            blob, count = self._entries_from(next_index)
            if count:  # Else they are being read back: heartbeats go on.
                entries_end = Index(next_index + count - 1)
                core.set_next_index(peer, Index(entries_end + 1))
                if entries_end < last:
                    self._kick()
        news = min(commit, entries_end) > flow.commit_sent
        if not (count or heartbeat or flow.resend or news):
            return
        previous = Index(next_index - 1)
        previous_term = journal.term_at(previous)
        if previous_term is None:
            raise InvariantBrokenError(f"no term for {previous} between {journal.base_index} and {last}")
        self._seq += 1
        flow.sent(self._seq, entries_end, len(blob), previous if previous <= core.match(peer) else None)
        flow.resend = False
        flow.commit_sent = min(commit, entries_end)
        head = AppendEntries(core.term, self._seq, previous, previous_term, commit, ())
        self._network.send(peer, codec.append_frame(head, blob, count))

    def _tell_commit(self) -> bool:
        """Is the commit index worth a frame of its own? It waits a moment: the next entries would carry it along."""
        if not self._news_due and self._news_timer is None:
            self._news_timer = self._scheduler.call_later(self._settings.commit_news_s, self._on_news_timer)
        return self._news_due

    def _on_news_timer(self) -> None:
        self._news_timer = None
        commit = self._core.commit_index
        if any(flow.commit_sent < commit for flow in self._flows.values()):  # Else entries took it along.
            self._news_due = True
            self._kick()

    def _entries_from(self, start: Index) -> tuple[bytes, int]:
        """Encoded once, however many followers are at the same place; anew after a truncation. None yet, if they left
        memory and are not back.
        """
        place = (start, self._journal.last_index, self._journal.generation)
        known, blob, count = self._blob
        if known != place:
            entries = self._journal.at_hand(start, self._settings.append_bytes, self._settings.append_entries)
            if entries is None:
                return b"", 0
            if not entries:
                raise InvariantBrokenError(f"entry {start} is not in the journal")
            blob, count = codec.encode_entries(entries), len(entries)
            self._blob = (place, blob, count)
        return blob, count

    def _on_ack(self, peer: NodeId, message: Ack) -> None:
        flow, core = self._flows[peer], self._core
        if not self.is_leader or message.term != core.term or message.seq <= flow.ack_floor:
            return
        next_index = message.next_index
        if message.success and next_index > self._journal.last_index + 1:
            raise PeerError(f"node {peer} acknowledges {next_index - 1}, which was never sent")
        if flow.lost and message.counts:
            self._send(peer, YouLost(core.term, Index(0)))
        if flow.lost or not message.counts:
            self._move_uncounted(peer, message)
            return
        if message.reset and flow.proves_loss(message.seq, next_index):
            self._lost(peer)
            return
        if message.reset:
            if self._senders.get(peer) or not flow.take_reset(message.seq):
                core.note_alive(peer)
                return
            # It holds what it acknowledged, or its next answer proves that it does not.
            next_index = max(min(next_index, Index(self._journal.last_index + 1)), Index(core.match(peer) + 1))
        before = core.next_index(peer)
        core.acknowledged(peer, next_index, reset=message.reset, success=message.success)
        if message.success:
            core.count()
            self._has_entries(peer, next_index - 1)
            if core.next_index(peer) < before and not message.reset:
                core.set_next_index(peer, before)

    def _lost(self, peer: NodeId) -> None:
        """Its answer to what goes on from its own acknowledgement of this term says that it does not hold that."""
        index = self._core.match(peer)
        self.followers_that_lost += 1
        _log.critical("a follower lost entries that it had acknowledged", follower=int(peer), up_to=int(index))
        flow = self._flows[peer]
        flow.lost = True
        flow.ack_floor = flow.last_seq
        flow.resend = True
        self._core.forget_match(peer)
        self._send(peer, YouLost(self._core.term, index))

    @property
    def alarms(self) -> tuple[str, ...]:
        """What an operator must know, in sentences."""
        lost = ", ".join(str(peer) for peer in self._others if self._flows[peer].lost)
        told = f"node {lost} lost entries that it had acknowledged, and does not count before it has come back"
        return (told,) if lost else ()

    def _on_you_lost(self, peer: NodeId, message: YouLost) -> None:
        if message.term == self._core.term and peer == self._core.leader_id and self._rejoin is None:
            self._forget(LOST_ACKNOWLEDGED.format(peer=peer, index=message.index))

    def _ack_matters(self, peer: NodeId) -> bool:
        """Is there anything to do now that this peer has answered?"""
        return self.is_leader and (
            self._flows[peer].resend
            or self._core.next_index(peer) <= self._journal.last_index
            or self._applied < self._core.commit_index
            or self._transfer is not None
        )

    def _move_uncounted(self, peer: NodeId, message: Ack) -> None:
        """A node that lost its journal: feed it, count on it for nothing."""
        flow, core = self._flows[peer], self._core
        if message.reset and not self._senders.get(peer) and flow.take_reset(message.seq):
            core.set_next_index(peer, min(message.next_index, Index(self._journal.last_index + 1)))
        elif message.success:
            self._has_entries(peer, message.next_index - 1)

    def _has_entries(self, peer: NodeId, index: int) -> None:
        """It needs no snapshot, unless it said so."""
        if not self._flows[peer].needs_state:
            self._senders.pop(peer, None)
        self._flows[peer].confirmed(index)

    def _on_alive(self, peer: NodeId, message: Alive) -> None:
        if self.is_leader and message.term == self._core.term:
            self._core.note_alive(peer)

    def _begin_read_round(self) -> None:
        term = self._core.term
        number = self._reads.begin(term, self._core.commit_index)
        for peer in self._others:
            self._send(peer, ReadProbe(term, number))
        self._reads.count(number, term, self.node_id)

    def _on_read_probe_answer(self, peer: NodeId, message: ReadProbeAnswer) -> None:
        if message.ok and self.is_leader and message.term == self._core.term:
            self._reads.count(message.round, message.term, peer)
            self._reads.answer(self._applied)

    def _ask_for_index(self) -> None:
        """A follower's reads: one question for all of this turn; none of an earlier term will be answered."""
        reads, term, leader = self._reads, self._core.term, self.leader_id
        reads.end_rounds(but=term)
        if not reads.queued:
            return
        number = reads.begin(term, Index(0))
        if leader is None or leader == self.node_id or not self._network.connected(leader):
            reads.told(number, Index(0))
        else:
            self._judge_membership()
            uncertain = self._founding is not None and self._founding.uncertain
            self._send(leader, ReadAsk(term, number, self._rejoin is None and not uncertain))

    def _on_read_ask(self, peer: NodeId, message: ReadAsk) -> None:
        """Of three voters, this one and the asker are a majority: at a moment after its reads began the asker knew no
        later term, so everything committed before is in this log, and the commit index of now covers it.
        """
        if not self._announced_term or message.term != self._core.term:
            self._send(peer, ReadIndexIs(message.term, message.round, Index(0)))
        elif message.counts and self._quorum == 2:
            self._answer_read(peer, message, self._core.commit_index)
        else:
            self.read_index(lambda index: self._answer_read(peer, message, index))

    def _answer_read(self, peer: NodeId, message: ReadAsk, index: Index | None) -> None:
        """With the news of what is committed, which it must apply first and would else hear of a moment later."""
        if self._running:
            leads = self._announced_term == message.term  # A read may be confirmed, and answered after the leadership.
            if leads and index and self._flows[peer].commit_sent < index:
                self._feed(peer, self._scheduler.monotonic(), heartbeat=True)
            self._send(peer, ReadIndexIs(message.term, message.round, index or Index(0)))

    def _on_read_index_is(self, _: NodeId, message: ReadIndexIs) -> None:
        self._reads.told(message.round, message.index)
        self._reads.answer(self._applied)

    # ── snapshots ──

    def _offer_snapshot(self, peer: NodeId, now: float) -> None:
        """The follower needs entries that are trimmed: send it the state instead, if it is there to take it."""
        if not self._network.connected(peer):
            self._senders.pop(peer, None)
            return
        sender = self._senders.get(peer)
        if sender is not None and sender.stale(now):
            sender = None
        if sender is None:
            sender = self._installer.snapshot(self._core.term, self._rng.getrandbits(61), now)
            if sender is None:
                return
            self._senders[peer] = sender
        for message in sender.messages(now):
            self._send(peer, message)

    def _on_snapshot_begin(self, peer: NodeId, message: SnapshotBegin) -> None:
        if self._follow(peer, message.term):
            self._answer_snapshot(peer, self._installer.on_begin(peer, message, self._scheduler.monotonic()))

    def _on_snapshot_chunk(self, peer: NodeId, message: SnapshotChunk) -> None:
        if self._follow(peer, message.term):
            self._answer_snapshot(peer, self._installer.on_chunk(peer, message, self._scheduler.monotonic()))

    def _answer_snapshot(self, peer: NodeId, answer: SnapshotAck | None) -> None:
        if answer is not None:
            self._hold(peer, answer)

    def _installed(self, peer: NodeId, index: Index, ack: SnapshotAck) -> None:
        """The store holds the snapshot and the journal begins at it (or had it)."""
        self._applied = max(self._applied, index)
        self._needs_state = self._needs_state and self._applied < self._journal.base_index
        self._core.set_positions(applied=self._applied, commit=index)
        if ack.term == self._core.term:
            self._hold(peer, ack)
        self._kick()

    def _on_snapshot_ack(self, peer: NodeId, message: SnapshotAck) -> None:
        sender = self._senders.get(peer)
        if sender is None or not self.is_leader or message.term != self._core.term:
            return
        now = self._scheduler.monotonic()
        if sender.on_ack(message, now):
            del self._senders[peer]
            after = Index(sender.index + 1)
            if self._flows[peer].needs_state:  # Its log went on meanwhile.
                self._flows[peer].needs_state = False
                after = max(after, self._core.next_index(peer))
            self._core.set_next_index(peer, after)
            self._flows[peer].resend = True

    def _ask_for_state(self, now: float) -> None:
        """The store was lost, the log was not: the leader would not know that it must send more than entries."""
        leader = self.leader_id
        if now >= self._state_ask_at and leader is not None and not self._installer.active:
            self._state_ask_at = now + self._settings.rejoin_ask_s
            self._send(leader, NeedState(self._core.term, self._journal.base_index))

    def _on_need_state(self, peer: NodeId, message: NeedState) -> None:
        """Once this leader has applied all that the asker's log no longer holds, it can tell it."""
        if self.is_leader and message.term == self._core.term and self._applied >= message.index:
            self._flows[peer].needs_state = True
            self._offer_snapshot(peer, self._scheduler.monotonic())

    # ── coming back without a journal ──

    def _start_rejoin(self) -> Rejoin | None:
        journal, applied, store = self._journal, self._machine.applied_index(), self._store
        reason = self._directory.may_not_vote
        if applied < journal.base_index and journal.base_index > 1:
            # The store was made anew, or lost what it had synced; the journal speaks for all that was acknowledged.
            if not self._others:
                raise UsageError(LONE_STORE_LOST)
            self._needs_state = True
        if journal.state == "new" and applied > 0:
            reason = reason or "the journal is missing"
        old = store.get("meta", _FORGOTTEN_KEY) is not None
        if old:
            reason = reason or "the journal was lost before"
        if not reason and not self._others and applied > journal.last_index:
            raise UsageError(LONE_JOURNAL_BEHIND.format(applied=applied, last=journal.last_index))
        if not reason and self._founding is not None and self._founding.judge() is False:
            reason = NOT_LISTED
        if not reason:
            return None
        if not self._others:
            raise UsageError(f"{LONE_JOURNAL_LOST} ({reason})")
        if reason != self._directory.may_not_vote:
            self._directory.forbid_vote(reason)
        if old:
            store.write([StoreOp("meta", _FORGOTTEN_KEY, None)])
            store.sync()
        return Rejoin(self._others, self._rng.getrandbits(61))

    def _judge_membership(self) -> None:
        """A log that came from elsewhere may tell that this directory was not there from the beginning."""
        founding = self._founding
        if founding is None or self._rejoin is not None or not founding.uncertain:
            return
        listed = founding.judge()
        if listed:
            self._directory.save_later(self._worker, admitted=True)  # Whatever becomes of the store.
        elif listed is not None:
            self._forget(NOT_LISTED)

    def _forget(self, reason: str, done: Callable[[], None] | None = None) -> None:
        """From here on this node's votes and acknowledgements count for nothing, until it has come back. What it asked
        before is asked again: another copy of this directory may have spoken since.
        """
        self._rejoin = Rejoin(self._others, self._rng.getrandbits(61))
        self._rejoin_ask_at = self._scheduler.monotonic()
        self._rejoined_seq = None
        self._held.clear()
        self._directory.save_later(self._worker, done, may_not_vote=reason, admitted=False)
        if self._core.role is not Role.FOLLOWER:
            self._core.resign()
        self._kick()

    def _go_on_rejoining(self, rejoin: Rejoin, now: float) -> None:
        if rejoin.complete(self._core.commit_index, Index(self._journal.durable_index)) and not self._installer.active:
            self._core.adopt_term(rejoin.learned_term)
            self._core.forbid_vote()
            self._rejoined_seq = self._journal.seq
            self._rejoin = None
            if self._founding is not None:
                self._founding.settle()
        elif now >= self._rejoin_ask_at:
            self._rejoin_ask_at = now + self._settings.rejoin_ask_s
            for peer, question in rejoin.questions(self.leader_id, self._core.term):
                self._send(peer, question)

    def _on_rejoin_ask(self, peer: NodeId, message: RejoinAsk) -> None:
        self._send(peer, RejoinTerm(message.nonce, self._core.term, self._rejoin is None))

    def _on_rejoin_term(self, peer: NodeId, message: RejoinTerm) -> None:
        if self._rejoin is not None:
            self._rejoin.on_term(peer, message)

    def _on_rejoin_read(self, peer: NodeId, message: RejoinRead) -> None:
        """Forget its acks first, then read: what was committed with their help is below the answer."""
        if not self.is_leader or message.term != self._core.term:
            return
        self._core.forget_match(peer)
        flow = self._flows[peer]
        flow.ack_floor = flow.last_seq
        flow.lost = False

        def confirmed(index: Index | None) -> None:
            if index is not None and self._running:
                self._send(peer, RejoinIndex(message.nonce, index))

        self.read_index(confirmed)

    def _on_rejoin_index(self, _: NodeId, message: RejoinIndex) -> None:
        if self._rejoin is not None:
            self._rejoin.on_index(message)
