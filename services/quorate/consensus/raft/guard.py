"""What stands between pysyncobj and the world: the rules that make its Raft safe, as values and small objects.

Rules: nothing here sends, sleeps, reads a clock or knows pysyncobj; ``consensus.raft.pysyncobj_engine`` asks and acts.
Each part names the defect it shuts off; docs/consensus.md has the table (defect, guard, test) and the numbering.

Theory. pysyncobj decides elections, counts matches and accepts entries correctly *if* it is never shown a message that
would make it truncate what matches (BUG 3), trust an acknowledgement of another term (BUG 2), take a commit index
beyond what was verified (BUG 1), or bounce between two reset answers for ever (BUG 6). And it knows nothing of
disks: durability is added around it, by holding back whatever vouches for something until that something is on disk.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

import msgspec

from quorate.consensus.ports import Index, LeaderCause, NodeId, Term
from quorate.consensus.raft.pace import Pace
from quorate.consensus.settings import EngineSettings
from quorate.consensus.transport.codec import AppendEntries
from quorate.errors import InvariantBrokenError

TWO_HISTORIES = (
    "the voters hold two histories, as after a restore from a copy or after damage; keep this data directory, for it "
    "may hold acknowledged writes that the others lost; once that is settled, bring this node back with `quorate "
    "member rebuild`, which lets it take the leader's state"
)
"""What an operator is told when what this node applied is not what is committed."""


class LogView(Protocol):
    """The part of a journal that the rules look at."""

    @property
    def last_index(self) -> Index:
        """Of the in-memory image."""

    def term_at(self, index: Index) -> Term | None:
        """Term of the entry there; None outside the log (its base is inside)."""


# ── followers: what an AppendEntries may do ──


class Show(msgspec.Struct, frozen=True, gc=False):
    """Let pysyncobj see this message instead of the one received."""

    prev_index: Index
    prev_term: Term
    entries: tuple[tuple[Index, Term, bytes], ...]
    commit: Index


class Present(msgspec.Struct, frozen=True, gc=False):
    """Everything in it is in our log already: acknowledge, touch nothing."""

    next_index: Index
    commit: Index


def shape_append(message: AppendEntries, log: LogView, commit: Index) -> Show | Present:
    """What to make of an AppendEntries of a term not below ours (Raft §5.3, with the guards of BUG 1, 3 and 6).

    ``commit`` is our own commit index. Entries we have are cut off its front, so that nothing matching is ever
    truncated (BUG 3); its commit index is capped at its own last entry, the only part of our log it verifies (BUG
    1); on a term conflict pysyncobj is shown the first entry of the conflicting term, so that one answer steps over
    all of it (BUG 6). Raises InvariantBrokenError if it contradicts a committed entry.
    """
    prev = message.prev_index
    here = log.term_at(prev)
    entries = message.entries
    verified = Index(prev + len(entries))
    upto = min(message.commit, verified)
    if here is None:
        # Our log ends before prev, or begins after it: the consistency check of Raft §5.3 fails and pysyncobj says so.
        return Show(prev, message.prev_term, entries, upto)
    if here != message.prev_term:
        # A committed entry is in every later leader's log (Leader Completeness, Raft §5.4.3): a conflict here means
        # that one of the two logs is not this cluster's, and truncating would lose what was acknowledged.
        if prev <= commit:
            raise InvariantBrokenError(
                f"leader of term {message.term} contradicts committed entry {prev}: {TWO_HISTORIES}"
            )
        while prev - 1 > commit and log.term_at(Index(prev - 1)) == here:
            prev = Index(prev - 1)
        return Show(prev, message.prev_term, entries, upto)
    # Same index and term: same entry, and the same before it (Log Matching, Raft §5.3). A delayed message that ends
    # before our log does must not cut the rest, which may be acknowledged: only a conflict truncates.
    have = 0
    for index, term, _ in entries:
        if log.term_at(index) != term:
            break
        have += 1
    matched = Index(prev + have)
    if have == len(entries):
        return Present(Index(verified + 1), upto)
    if matched < log.last_index and matched < commit:
        raise InvariantBrokenError(
            f"leader of term {message.term} contradicts committed entry {matched + 1}: {TWO_HISTORIES}"
        )
    matched_term = log.term_at(matched)
    return Show(matched, message.prev_term if matched_term is None else matched_term, entries[have:], upto)


# ── leaders: flow to one follower ──


_SURE_MAX = 64
"""AppendEntries per follower whose answers can prove a loss; an older one's answer proves nothing."""


class PeerFlow:
    """What the leader remembers about the link to one follower in its term: sequence numbers and the window in flight.

    Every AppendEntries has a number, every ack repeats it. A reset answer is believed once per flight: after one,
    answers to anything sent before it are stale (BUG 6). After a follower announced that it lost its journal, none
    of its earlier acks is believed at all.
    """

    def __init__(self) -> None:
        self.last_seq = 0
        self.reset_floor = 0
        self.ack_floor = 0
        self.commit_sent = 0
        self.resend = False
        self.needs_state = False
        """It lost its store but not its log: it gets a snapshot beside the entries."""
        self.bytes_in_flight = 0
        self.lost = False
        """It lost what it had acknowledged: nothing it says counts before it has asked as one that rejoins."""
        self._flight: deque[tuple[int, int]] = deque()
        self._sure: deque[tuple[int, Index]] = deque(maxlen=_SURE_MAX)

    def sent(self, seq: int, last_index: int, size: int, known: Index | None = None) -> None:
        """An AppendEntries left; ``size`` bytes of entries up to ``last_index``. ``known``: it goes on from this
        entry, which the follower had acknowledged before.
        """
        self.last_seq = seq
        if known is not None:
            self._sure.append((seq, known))
        if size:
            self._flight.append((last_index, size))
            self.bytes_in_flight += size

    def confirmed(self, index: int) -> None:
        """The follower has everything up to ``index``."""
        flight = self._flight
        while flight and flight[0][0] <= index:
            self.bytes_in_flight -= flight.popleft()[1]

    def proves_loss(self, seq: int, next_index: int) -> bool:
        """A reset answer to this: the follower does not hold what it acknowledged before it was sent (Raft §5.3). One
        that has trimmed the entry since asks for what comes after it.
        """
        return any(number == seq and next_index <= known for number, known in self._sure)

    def take_reset(self, seq: int) -> bool:
        """May this reset answer be believed? If so, nothing counts as in flight any more."""
        # The follower answered something sent before the last rewind. Believing it would rewind again, for every
        # message that was still in flight, and send the same window over and over.
        if seq <= self.reset_floor:
            return False
        self.reset_floor = self.last_seq
        self.resend = True
        self._flight.clear()
        self.bytes_in_flight = 0
        return True


def commit_ceiling(durable_index: int, matches: Iterable[int], quorum: int) -> Index:
    """Highest index that a majority holds durably: the leader's own copy counts only when it is on its disk."""
    # A ceiling, not the commit index: an entry of an older term commits only below one of the leader's own (Raft
    # §5.4.2), which pysyncobj checks. A leader may send entries before its own write is durable (Raft thesis §10.2.1),
    # because here its copy counts only once it is.
    return Index(sorted([durable_index, *matches], reverse=True)[quorum - 1])


# ── everyone: what must wait for the disk ──


class _Held(msgspec.Struct, frozen=True, gc=False):
    need: int
    term: Term
    peer: NodeId
    frame: bytes
    is_ack: bool


class HeldFrames:
    """Acks, votes and vote requests, each waiting until every journal operation queued before it is durable.

    A frame is complete when it is put here: stamped with the term and sequence of *then*. One of an older term is
    dropped at release. Consecutive acks to one peer that wait for the same operation are one ack.
    """

    def __init__(self) -> None:
        self._frames: deque[_Held] = deque()

    def clear(self) -> None:
        """What waits shall not leave: the node has learned that it must not vouch for anything."""
        self._frames.clear()

    def __len__(self) -> int:
        return len(self._frames)

    def hold(self, need: int, term: Term, peer: NodeId, frame: bytes, *, progress: bool = False) -> None:
        """``need``: the journal's ``seq`` now. ``progress``: a plain success ack, superseded by the next one."""
        frames = self._frames
        if progress and frames:
            last = frames[-1]
            if last.is_ack and last.peer == peer and last.need == need and last.term == term:
                frames.pop()
        frames.append(_Held(need, term, peer, frame, progress))

    def release(self, durable_seq: int, term: Term) -> list[tuple[NodeId, bytes]]:
        """Take out, in order, what may leave."""
        frames = self._frames
        out: list[tuple[NodeId, bytes]] = []
        while frames and frames[0].need <= durable_seq:
            held = frames.popleft()
            # An ack or vote of an older term helps nobody: its receiver has moved on, or will once it hears of ours.
            if held.term == term:
                out.append((held.peer, held.frame))
        return out


# ── elections ──


_DOUBLINGS_MAX = 10
"""Of the time a candidacy gets; it is bounded by the election timeout long before."""


class Election:
    """When to ask for votes, and whom to protect: pre-vote, stickiness, one count per voter (Raft thesis §4.2.3, §9.6).

    pysyncobj has none of it: any request with a higher term deposes a healthy leader, and it counts vote *messages*.
    Its own timer is switched off; an election starts only when a majority said it would vote. Timeouts are those in
    force (consensus/raft/pace.py); silence is counted in time that this node was awake, for a node that slept has its
    leader's heartbeats waiting in its sockets.
    """

    def __init__(
        self,
        node_id: NodeId,
        voters: Sequence[NodeId],
        settings: EngineSettings,
        pace: Pace,
        rng: random.Random,
        now: float,
    ) -> None:
        self._me = node_id
        self._voters = sorted(voters)
        self._quorum = len(voters) // 2 + 1
        self._settings = settings
        self._pace = pace
        self._rng = rng
        self._patience: tuple[float, float] | None = None
        """Of a wait for a silent leader: since when, and which share of the way from the smallest to the largest
        timeout. It ends later if the timeouts in force grow meanwhile."""
        self.heard_at = now
        self.leader_alive = True
        self.ballot = 0
        self.previous_leader: NodeId | None = None
        self._closed = False
        self._campaigns = 0
        self._round = 0
        self._would_vote: set[NodeId] = set()
        self.unanimous = False
        """A founding: every voter must say yes."""
        self.missing: tuple[NodeId, ...] = ()
        """Who did not, when the last round was over."""
        self._voted: tuple[Term, set[NodeId]] = (Term(0), set())
        self.due_at = now if self._quorum == 1 else now + self._timeout()

    def _between(self, share: float) -> float:
        least = self._pace.timeout_min_s
        return least + share * (self._pace.timeout_max_s - least)

    def _timeout(self) -> float:
        return self._between(self._rng.random())

    def _retry(self) -> float:
        return self._pace.timeout_min_s * self._rng.uniform(0.2, 0.5)

    def due(self, now: float) -> bool:
        """Is it time to ask for pre-votes?"""
        if now < self.due_at:
            return False
        if self._patience is not None:
            since, share = self._patience
            self.due_at = max(self.due_at, since + self._between(share))
        return now >= self.due_at

    def slept(self, seconds: float) -> None:
        """This node took no turn for so long: nobody was silent meanwhile."""
        self.heard_at += seconds
        self.due_at += seconds
        if self._patience is not None:
            self._patience = (self._patience[0] + seconds, self._patience[1])

    def heard(self, leader: NodeId, now: float) -> None:
        """A frame of the leader of a term not below ours."""
        if self.leader_alive and leader == self.previous_leader:
            late_s = now - self.heard_at - self._settings.heartbeat_s - self._settings.tick_s
            if late_s > 0.0:
                self._pace.note_heartbeat(late_s, now)
        self.heard_at = now
        self.leader_alive = True
        self.previous_leader = leader
        self._closed = False
        self._campaigns = 0
        self._would_vote = set()
        share = self._rng.random()
        self._patience = (now, share)
        self.due_at = now + self._between(share)

    def connection_closed(self, leader: NodeId, now: float) -> float:
        """The leader's connection closed: no longer protected. Returns when to ask for pre-votes, monotonic.

        All survivors notice at once; each has its own slot, counted from the leader's id, so that they do not split the
        votes.
        """
        self.leader_alive = False
        self._patience = None
        self._closed = True
        rank = (self._voters.index(self._me) - self._voters.index(leader) - 1) % len(self._voters)
        slot = self._settings.close_jitter_s * (rank + self._rng.uniform(0.0, 0.2))
        self.due_at = min(self.due_at, now + slot)
        return self.due_at

    def deposed(self, now: float, leader: NodeId) -> None:
        """This node stopped leading or standing: give the others a full timeout."""
        self.leader_alive = False
        self._patience = None
        self.heard_at = now
        self.previous_leader = leader
        self.due_at = now + self._timeout()

    def postpone(self, now: float, *, voted: bool = False) -> None:
        """Somebody else may win soon: a pre-vote was granted, or a vote, which has to become durable first."""
        wait_s = self._timeout() + self._pace.sync_s if voted else self._retry()
        self.due_at = max(self.due_at, now + wait_s)

    def protects_leader(self, now: float) -> bool:
        """Was a leader heard so recently that nobody else may become one (stickiness)?"""
        return self.leader_alive and now - self.heard_at < self._pace.timeout_min_s

    def ask(self, now: float) -> int:
        """Start a round of pre-votes; returns its number."""
        self._round += 1
        if self._would_vote:
            self.missing = tuple(voter for voter in self._voters if voter not in self._would_vote)
        self._would_vote = {self._me}
        self._patience = None
        self.due_at = now + self._retry()
        return self._round

    def would_win(self, round_: int | None = None, voter: NodeId | None = None) -> bool:
        """Count a granted pre-vote of this round, if given; has a majority now said yes?"""
        if not self._would_vote or (round_ is not None and round_ != self._round):
            return False
        if voter is not None:
            self._would_vote.add(voter)
        return len(self._would_vote) >= (len(self._voters) if self.unanimous else self._quorum)

    def campaign(self, now: float) -> None:
        """The real election begins: a new ballot, no leader to protect.

        A candidacy and the votes for it are synced one after the other: it gets the time that the disk took lately.
        Each one without a leader since gets more than the one before, up to an election timeout: a disk may have become
        slow just now.
        """
        self._would_vote = set()
        self.leader_alive = False
        self._patience = None
        self.ballot = self._rng.getrandbits(61)
        least_s = self._settings.election_timeout_min_s * self._rng.uniform(0.2, 0.5)
        time_s = least_s * 2**self._campaigns + 2 * self._pace.sync_s
        self.due_at = now + min(time_s, self._settings.election_timeout_max_s)
        self._campaigns = min(self._campaigns + 1, _DOUBLINGS_MAX)

    def first_vote_of(self, voter: NodeId, term: Term, ballot: int) -> bool:
        """Is this the voter's first vote for this very candidacy?"""
        if ballot != self.ballot:
            return False
        if self._voted[0] != term:
            self._voted = (term, set())
        if voter in self._voted[1]:
            return False
        self._voted[1].add(voter)
        return True

    def cause(self, now: float, *, handover: bool, first: bool) -> LeaderCause:
        """Why this node campaigns, as far as it can know."""
        kind: Literal["first start", "connection closed", "silent", "handed over"] = "silent"
        if handover:
            kind = "handed over"
        elif first and self.previous_leader is None:
            kind = "first start"
        elif self._closed:
            kind = "connection closed"
        silent_ms = 0 if kind == "first start" else int((now - self.heard_at) * 1000)
        return LeaderCause(kind, self.previous_leader, silent_ms)


# ── linearizable reads ──

ReadDone = Callable[[Index | None], None]


class _Read(msgspec.Struct, frozen=True):
    deadline: float
    done: ReadDone


class _Round(msgspec.Struct):
    number: int
    term: Term
    index: Index
    reads: list[_Read]
    confirmed: set[NodeId]


class ReadRounds:
    """Read index (Raft thesis §6.4), one round per loop turn for everything that waits: probes of the leader, or a
    follower's one question to it.

    A read is answered with the commit index of the leader at a moment after its round began, once a majority knew no
    later term *after* that moment, and once the index is applied here. Everything that cannot be known in time is
    answered None. ``first`` numbers the first round: two lives of a node must not use the same numbers, or an answer
    to the first would be taken for one to the second.
    """

    def __init__(self, node_id: NodeId, quorum: int, limit: int, first: int = 0) -> None:
        self._me = node_id
        self._quorum = quorum
        self._limit = limit
        self._number = first
        self.waiting = 0
        """Reads that were not answered yet."""
        self.queued: list[_Read] = []
        """What waits for a round."""
        self._rounds: dict[int, _Round] = {}
        self._confirmed: deque[tuple[Index, list[_Read]]] = deque()

    def __len__(self) -> int:
        return self.waiting

    def add(self, deadline: float, done: ReadDone) -> bool:
        """Queue a read; False when there are too many."""
        if self.waiting >= self._limit:
            return False
        self.waiting += 1
        self.queued.append(_Read(deadline, done))
        return True

    def begin(self, term: Term, commit: Index) -> int:
        """Start a round for all queued reads; returns its number. The caller sends the probes, then counts itself."""
        self._number += 1
        self._rounds[self._number] = _Round(self._number, term, commit, self.queued, {self._me})
        self.queued = []
        return self._number

    def count(self, number: int, term: Term, voter: NodeId) -> None:
        """A voter (or this node) knew no later term than ``term`` when it answered round ``number``."""
        round_ = self._rounds.get(number)
        if round_ is None or round_.term != term:
            return
        round_.confirmed.add(voter)
        if len(round_.confirmed) >= self._quorum:
            del self._rounds[number]
            self._confirmed.append((round_.index, round_.reads))

    def told(self, number: int, index: Index) -> None:
        """The leader's answer to the question of round ``number``; 0: it has none."""
        round_ = self._rounds.pop(number, None)
        if round_ is not None and index:
            self._confirmed.append((index, round_.reads))
        elif round_ is not None:
            self._refuse(round_.reads)

    def end_rounds(self, but: int = 0) -> None:
        """Nobody will confirm a round of another term than ``but``. What is confirmed stays: it is committed."""
        ended = [number for number, round_ in self._rounds.items() if round_.term != but]
        self._refuse([read for number in ended for read in self._rounds.pop(number).reads])

    def answer(self, applied: Index) -> None:
        """Answer what is confirmed and applied."""
        while self._confirmed and self._confirmed[0][0] <= applied:  # An answer may make ``fail`` empty it.
            index, reads = self._confirmed.popleft()
            self.waiting -= len(reads)
            for read in reads:
                read.done(index)

    def expire(self, now: float) -> None:
        """Answer None to what waited too long. Deadlines are in order of arrival, so only fronts are looked at."""
        overdue: list[_Read] = []
        for number in [n for n, r in self._rounds.items() if r.reads[0].deadline <= now]:
            overdue += self._rounds.pop(number).reads
        while self._confirmed and self._confirmed[0][1][0].deadline <= now:
            overdue += self._confirmed.popleft()[1]
        kept = [read for read in self.queued if read.deadline > now]
        if len(kept) < len(self.queued):
            overdue += [read for read in self.queued if read.deadline <= now]
            self.queued = kept
        self._refuse(overdue)

    def fail(self) -> None:
        """Leadership is lost: answer None to everything."""
        everything = self.queued
        for round_ in self._rounds.values():
            everything += round_.reads
        for _, reads in self._confirmed:
            everything += reads
        self.queued, self._rounds, self._confirmed = [], {}, deque()
        self._refuse(everything)

    def _refuse(self, reads: list[_Read]) -> None:
        self.waiting -= len(reads)
        for read in reads:
            read.done(None)
