"""The invariants: compares what nodes do with what is on their disks and with each other, at every step.

Rules: it only looks. Each invariant has a name (``INVARIANTS``) and is checked where it could first break: when a turn
ends, when a frame leaves, when a disk job ends, when a client is answered.

Theory: end-to-end checks alone miss most planted bugs (a false ack is harmless in all but one run of a thousand), so
the direct statement is checked: what this ack says is on the disk it came from, now. The checker keeps its own log,
made of the entries some majority held durably when they were first seen committed, and its own count of offsets; an
entry counts if its decided term is the term it is stored under and its base is the next offset.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

import msgspec

from quorate.consensus.entry import decode_entry
from quorate.consensus.journal.recovery import JournalDamagedError
from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.raft.founding import directory_bytes
from quorate.consensus.storage.directory import decode_voter
from quorate.consensus.transport.codec import (
    Ack,
    AppendEntries,
    RejoinIndex,
    RequestVote,
    SnapshotChunk,
    VoteGranted,
    YouLost,
    decode,
    encode,
)
from quorate.events import Event, Stamp
from quorate.metadata.sums import RING_MAX, Mark, shown
from quorate.wire.avro import decode_events
from tests.batches import patch
from tests.sim.clients import Done, Nothing, Result
from tests.sim.cluster import Cluster, Host, Process
from tests.sim.levels_seen import KNOWN, LevelsSeen
from tests.sim.network import End
from tests.sim.room import REFUSED, grows
from tests.sim.world import ViolationError

ONE_LEADER = "one leader per term"
ONE_VOTE_DISK = "one vote per (node, term) on disk"
ONE_VOTE_SENT = "one vote per (node, term) sent"
VOTE_DURABLE = "no vote leaves before it is on disk"
LOG_MATCHING = "log matching"
COMPLETE = "leader completeness"
ACK_TRUE = "every ack is true on its own disk"
DURABLE_TRUE = "durable_index is true on its own disk"
MAJORITY = "no commit before a durable majority"
EARLY_ANSWER = "no answer before its commit"
IN_TIME = "a request has its answer by its deadline"
ONE_COMMIT = "one entry per committed index"
ONCE = "executed at most once"
DENIED = "no refused command in the log"
SAME_STATE = "equal state at equal offset"
SAME_WHOLE = "equal state, requests and groups at equal index"
TRUE_SUMS = "the sums carried along are those of the rows"
SAME_LOG = "one event log, byte for byte"
GAPLESS = "offsets gapless"
TIME = "event times never fall"
RECOVERY = "recovery finds what was synced"
RETURN = "a node that forgot a vote comes back in a later term, or with that term used up"
UNCOUNTED = "a leader counts nothing that was forgotten"
STAGED = "what is staged comes from the leader that is followed"
BASE_COMMITTED = "a journal begins at what its node knows to be committed"
HEARD_NAMED = "only the directory that the log names is heard"
LIFE_KEPT = "a life is kept before it is heard"
SILENT = "who forgot neither votes nor acknowledges before it came back"
TRUE_LOSS = "a proof of loss is given only to who lost"
FOUNDED_ONCE = "a cluster is founded once"
HELD_BACK = "nothing grows while the leader's disk is low"
ROOM = "growth is refused only while a disk is low"
"""Names of invariants; those of answers and progress are raised where they are checked."""

MOMENTS = {
    "snapshot installs": "snapshot",
    "snapshots begun": "snapshot",
    "truncations": "truncation",
    "elections": "election",
    "trims": "trim",
}
"""What is counted → what the coverage table and the directed climates call it."""
_APPENDS = encode(AppendEntries(Term(0), 0, Index(0), Term(0), Index(0), ()))[0]
_CHUNK = encode(SnapshotChunk(Term(0), 0, 0, 0, last=True, payload=b""))[0]
_VOUCHES = frozenset(
    encode(message)[0]
    for message in (
        Ack(Term(0), 0, Index(0), reset=False, success=False, counts=False),
        RejoinIndex(0, Index(0)),
        VoteGranted(Term(0), 0),
        RequestVote(Term(0), 0, Index(0), Term(0), handover=False),
        YouLost(Term(0), Index(0)),
    )
)
"""First bytes of the frames that say something which must be on a disk, or be so."""


class Durable(Protocol):
    """What is on a disk, as recovery would find it."""

    term: Term
    voted_for: NodeId | None
    base_index: Index
    last_index: Index

    def term_at(self, index: Index) -> Term | None:
        """Term of the entry at ``index`` (the base's too), None if not there."""


class Reader(Protocol):
    """Keeps a ``Durable`` of a host's disk image up to date."""

    def refresh(self, host: Host) -> Durable:
        """Called after a disk job ended."""

    def reset(self, host: Host) -> Durable:
        """Called when the disk changed in other ways (a crash, a start)."""


class Executed(msgspec.Struct, frozen=True, gc=False):
    """An entry of the checker's log that counts."""

    index: Index
    base: int
    count: int
    tag: str
    request_id: str


OWED_EVERY_S = 0.02
"""How often a node is asked whether it owes an answer."""
ADDED_UP_EVERY = 4
"""Entries after which a node's rows are added up anew: a sum that is wrong once stays wrong."""


class _Seen:
    """How far the checker has looked at one process."""

    __slots__ = (
        "base",
        "committed",
        "generation",
        "index",
        "installing",
        "last",
        "led",
        "mark",
        "offset",
        "owes_at",
        "short",
    )

    def __init__(self, base: Index) -> None:
        self.base = base
        self.mark = (-1, -1, -1, -1)
        self.generation = -1
        self.last = base
        self.committed = Index(0)
        self.led = Term(0)
        self.offset = -1
        self.index = -1
        self.installing = False
        self.owes_at = 0.0
        self.short = False


class Invariants:
    """Implements cluster.Observer. ``cluster`` is set right after both exist."""

    def __init__(self, reader: Reader, levels: LevelsSeen | None = None) -> None:
        self.cluster: Cluster
        self._levels = levels or LevelsSeen(mixed=False)
        self.on_event: Callable[[Event], None] = lambda _event: None
        self.on_entry: Callable[[Sequence[tuple[Stamp, Event]]], None] = lambda _events: None
        self.on_moment: Callable[[str, NodeId], None] = lambda _moment, _node: None
        self._reader = reader
        self.durable: dict[NodeId, Durable] = {}
        self._forgotten: dict[NodeId, list[Durable]] = {}
        self._leaders: dict[Term, tuple[NodeId, int]] = {}
        self._votes_on_disk: dict[tuple[NodeId, Term], NodeId] = {}
        self._votes_sent: dict[tuple[NodeId, Term], NodeId] = {}
        self._entries: dict[tuple[Index, Term], tuple[int, Term | None]] = {}
        self._bytes: dict[tuple[Index, Term], bytes] = {}
        self.committed: dict[Index, Term] = {Index(1): Term(0)}
        self._committed_in: dict[Index, Term] = {Index(1): Term(0)}
        """No later than in this term. A leader of an earlier one, elected by votes that were slow, may lack it."""
        self.last_committed = Index(1)
        self.next_offset = 0
        self.log_ms = 0
        self.grown = 0
        """Events that add what nobody takes away by himself."""
        self.entries: list[tuple[Index, Term, bytes]] = []
        self.log: list[Executed] = []
        self._by_tag: dict[str, Executed] = {}
        self._by_request: dict[str, Executed] = {}
        self.denied: dict[str, str] = {}
        self._batches: dict[int, tuple[int, int]] = {}
        self._sums_at_offset: dict[int, tuple[int, NodeId]] = {}
        self._sums_at_index: dict[int, tuple[int, NodeId]] = {}
        self._seen: dict[int, _Seen] = {}
        self._founding = ""
        self._rejoined_at: dict[tuple[NodeId, Term, NodeId], float] = {}
        self._led_at: dict[Term, float] = {}

    # What the cluster tells it.

    def started(self, process: Process) -> None:
        """A process recovered: it must have found at least what was synced."""
        host, journal = process.host, process.node.journal
        before = self.durable.get(host.node_id)
        durable = self.durable[host.node_id] = self._reader.reset(host)
        self._seen[id(process)] = _Seen(journal.base_index)
        if before is None:
            return
        if (journal.term, journal.voted_for) != (durable.term, durable.voted_for):
            self._fail(
                RECOVERY,
                f"n{host.node_id} found vote {journal.term, journal.voted_for}, not {durable.term, durable.voted_for}",
            )
        if journal.last_index != durable.last_index or journal.base_index != durable.base_index:
            self._fail(RECOVERY, f"n{host.node_id} found {journal.base_index}..{journal.last_index}")
        if durable.term < before.term or (
            durable.term == before.term and before.voted_for not in (None, durable.voted_for)
        ):
            self._fail(RECOVERY, f"n{host.node_id} forgot its vote of term {before.term}")

    def dying(self, process: Process) -> None:
        """What it committed in its last turn may be in its store."""
        self.look_at_commits(process)

    def crashed(self, host: Host, *, journal_lost: bool) -> None:
        """The disk may hold more than the last sync said, or nothing."""
        old = self.durable.pop(host.node_id, None)
        if journal_lost:
            if old is not None:
                self._forgotten.setdefault(host.node_id, []).append(old)
                self._forget_candidacies()
        elif old is not None:
            self.durable[host.node_id] = old

    def _forget_candidacies(self) -> None:
        """A vote that was lost, for a candidate that lost its journal too, in a term that nobody's disk is in, was
        counted by nobody but a life that is gone: the voter may vote in that term again (consensus/raft/rejoin.py: it
        asks for the terms of all that remember).
        """
        highest = max((durable.term for durable in self.durable.values()), default=0)
        for node, lost in self._forgotten.items():
            for old in lost:
                candidate = self._forgotten.get(old.voted_for, ()) if old.voted_for else ()
                if old.term > highest and any(own.term >= old.term for own in candidate):
                    self._votes_on_disk.pop((node, old.term), None)
                    self._votes_sent.pop((node, old.term), None)

    def synced(self, host: Host) -> None:
        """Look at the disk again."""
        durable = self.durable[host.node_id] = self._reader.refresh(host)
        if durable.voted_for:  # 0: voted in for nobody, by a node that forgot its vote.
            voted = self._votes_on_disk.setdefault((host.node_id, durable.term), durable.voted_for)
            if voted != durable.voted_for:
                self._fail(ONE_VOTE_DISK, f"n{host.node_id} in term {durable.term}: {voted} and {durable.voted_for}")

    def turn(self, process: Process) -> None:
        """All that must hold between turns."""
        node = process.node
        seen, journal, engine, untold = self._seen[id(process)], node.journal, node.engine, self.cluster.untold
        mark = (journal.seq, journal.durable_index, engine.commit_index, engine.term)
        if mark != seen.mark:  # Who becomes leader appends an entry; so nothing else can have changed unseen.
            seen.mark = mark
            self._look_at_journal(process, seen)
            self._look_at_leadership(process, seen)
            self._look_at_durable_index(process)
            self.look_at_commits(process)
            if journal.base_index > engine.commit_index:
                self._fail(BASE_COMMITTED, f"n{process.node_id} begins at {journal.base_index}, {engine.commit_index}")
        if untold and not engine.voting and self._says_so(process.node_id):
            untold.discard(process.node_id)
        installing = engine.installing
        if installing != seen.installing:
            seen.installing = installing
            if installing:
                self._moment(process, "snapshots begun")
        if installing:
            self._look_at_what_is_staged(process)
        if node.applied_index != seen.index:
            self._look_at_state(process, seen)
        if self.cluster.world.now >= seen.owes_at:
            seen.owes_at = self.cluster.world.now + OWED_EVERY_S
            if (late := node.overdue()) is not None:
                self._fail(IN_TIME, f"n{process.node_id} owes an answer to {late}")
        seen.short = node.short  # What it measured in this turn counts from the next on.

    def _says_so(self, node: NodeId) -> bool:
        """Does its voter file say that it may not vote? Else a crash makes it forget that it forgot."""
        small = self.cluster.hosts[node].disk.small
        voter = None if small is None else decode_voter(small)
        return voter is not None and bool(voter.may_not_vote)

    def _look_at_what_is_staged(self, process: Process) -> None:
        staged, engine = process.node.staged_term, process.node.engine
        if staged is not None and engine.leader_id is not None and staged != engine.term:
            self._fail(STAGED, f"n{process.node_id} staged of term {staged} in term {engine.term}")

    def leaving(self, process: Process, peer: NodeId, frame: bytes) -> None:
        """What a frame vouches for must be on the disk."""
        kind = frame[0]
        if kind == _CHUNK:
            self.cluster.counts["snapshot chunks"] += 1
            return
        if kind == _APPENDS:
            self._lead(Term(int.from_bytes(frame[1:9])), process)  # Its entries are looked at where they arrive.
            return
        if kind not in _VOUCHES:
            return
        message = decode(frame)
        node = process.node_id
        match message:
            case Ack(success=True, counts=True, term=term, next_index=next_index):
                self._check_ack(process, term, Index(next_index - 1))
                if self.cluster.fabric.connected(node, peer) and _says_something(
                    process, next_index
                ):  # Else it is lost.
                    self._check_told(node, peer, "acknowledges")
                    self._check_return(node)
            case RejoinIndex():
                self._rejoined_at[node, process.node.engine.term, peer] = self.cluster.world.now
                for progress in process.node.engine.progress():
                    if progress.node_id == peer and progress.last_index and self._forgot(peer):
                        self._fail(UNCOUNTED, f"n{node} counts {progress.last_index} on n{peer}")
            case VoteGranted(term=term):
                if self.cluster.founded(peer):
                    self._check_told(node, peer, "votes")
                self._check_vote(process, term, peer)
                self.on_moment("vote", node)
            case RequestVote(term=term):
                self._check_vote(process, term, node)
                self.on_moment("vote", node)
            case YouLost(term=term):
                self._check_loss(node, term, peer)
            case _:
                pass

    def heard(self, end: End) -> None:
        """A process is about to hear another: it must be who the log names, and its life be known from now on."""
        me, peer, theirs = self.cluster.hosts[end.node], end.to, end.other.endpoint
        assert isinstance(end.endpoint, Process)
        known = end.endpoint.node.handlers.directory_of(peer)
        if known is not None and known != theirs.party.identity.dir_uuid:
            self._fail(HEARD_NAMED, f"n{end.node} hears another directory of n{peer}")
        kept = decode_voter(me.disk.small or b"")
        met = None if kept is None else kept.met.get(peer)
        if met is None or directory_bytes(met.life) != theirs.party.handlers.life():
            self._fail(LIFE_KEPT, f"n{end.node} hears n{peer}, and its disk has met {met}")

    def _check_told(self, node: NodeId, peer: NodeId, does: str) -> None:
        if node in self.cluster.untold and self.cluster.fabric.connected(node, peer):
            self._fail(SILENT, f"n{node} {does}, for n{peer}")

    def _check_loss(self, leader: NodeId, term: Term, peer: NodeId) -> None:
        """Was something taken from it since this leader began to count it?"""
        self.cluster.counts["proofs of loss"] += 1
        since = self._rejoined_at.get((leader, term, peer), self._led_at.get(term, 0.0))
        if self.cluster.lost_at.get(peer, -1.0) < since:
            self._fail(TRUE_LOSS, f"n{leader} of term {term} tells n{peer}")

    def answering(self, process: Process, result: Result) -> None:
        """No answer may reflect what is not committed."""
        if result == Nothing(REFUSED):
            self.cluster.counts["growth refused"] += 1
            if not self.cluster.lacks_room:
                self._fail(ROOM, f"n{process.node_id} has no room")
        if isinstance(result, Done):
            self.look_at_commits(process)
            if result.offset > self.next_offset:
                self._fail(
                    EARLY_ANSWER,
                    f"n{process.node_id} answers of offset {result.offset}, {self.next_offset} is committed",
                )

    def deny(self, tag: str, result: Nothing) -> None:
        """A client was told that nothing happened, and nothing will."""
        if tag in self._by_tag:
            self._fail(DENIED, f"{tag} was denied ({result.reason}) and is in the log: {self._by_tag[tag]}")
        self.denied[tag] = result.reason

    # The invariants.

    def _fail(self, name: str, detail: str) -> NoReturn:
        raise ViolationError(name, detail)

    def _look_at_journal(self, process: Process, seen: _Seen) -> None:
        """One entry per (index, term), and one predecessor."""
        journal, engine = process.node.journal, process.node.engine
        if journal.generation != seen.generation:
            installed = journal.base_index > seen.base and journal.base_index > seen.last
            if seen.generation >= 0:
                self._moment(process, "snapshot installs" if installed else "truncations")
            seen.generation = journal.generation
            seen.last = min(seen.last, max(journal.base_index, engine.commit_index))
        elif journal.base_index > seen.base:
            self._moment(process, "trims")
        seen.base = journal.base_index
        seen.last = max(seen.last, journal.base_index)
        if seen.last != journal.last_index:
            with process.host.disk.readable():  # The checker reads what no process could now.
                self._read_journal(process, seen)

    def _read_journal(self, process: Process, seen: _Seen) -> None:
        journal, engine = process.node.journal, process.node.engine
        # Before this turn and at its end: it may have found room in it.
        short = seen.short and process.node.short and engine.is_leader
        for number in range(seen.last + 1, journal.last_index + 1):
            index = Index(number)
            term, previous = journal.term_at(index), journal.term_at(Index(number - 1))
            if term is None:
                self._fail(LOG_MATCHING, f"n{process.node_id} has a hole at {index}")
            try:
                entry = journal.entry(index)
            except JournalDamagedError:
                if not process.host.disk.rotten:
                    raise
                continue  # What rots is sealed: it was looked at when it was written.
            mark = (zlib.crc32(entry), previous)
            if self._entries.setdefault((index, term), mark) != mark and len(self.cluster.voters) > 1:
                self._fail(
                    LOG_MATCHING,
                    f"n{process.node_id} at {index} in term {term}: {self._entries[index, term]} and {mark}",
                )
            self._bytes[index, term] = entry
            if short and term == engine.term and any(map(grows, _events(entry))):
                self._fail(HELD_BACK, f"n{process.node_id} at {index} in term {term}: {_events(entry)}")
        seen.last = journal.last_index

    def _moment(self, process: Process, name: str) -> None:
        """Something rare happened to a node just now."""
        self.cluster.counts[name] += 1
        self.cluster.coverage.note(MOMENTS[name])
        self.on_moment(MOMENTS[name], process.node_id)

    def _lead(self, term: Term, process: Process) -> None:
        """Only one process ever leads in a term."""
        mark = (process.node_id, process.incarnation)
        if self._leaders.setdefault(term, mark) != mark and len(self.cluster.voters) > 1:
            self._fail(ONE_LEADER, f"term {term}: {self._leaders[term]} and {mark}")

    def _look_at_leadership(self, process: Process, seen: _Seen) -> None:
        engine = process.node.engine
        if not engine.is_leader or seen.led == engine.term:
            return
        seen.led = engine.term
        self._led_at[engine.term] = self.cluster.world.now
        self._moment(process, "elections")
        self._lead(engine.term, process)
        journal = process.node.journal
        for number in range(self.last_committed, journal.base_index - 1, -1):
            index = Index(number)
            if self._committed_in[index] < engine.term and journal.term_at(index) != self.committed[index]:
                self._fail(
                    COMPLETE, f"n{process.node_id} leads term {engine.term} without {index}/{self.committed[index]}"
                )

    def _look_at_durable_index(self, process: Process) -> None:
        journal, durable = process.node.journal, self.durable[process.node_id]
        index = Index(journal.durable_index)
        if index > max(durable.base_index, journal.base_index) and durable.term_at(index) != journal.term_at(index):
            self._fail(
                DURABLE_TRUE,
                f"n{process.node_id} claims {index}/{journal.term_at(index)}, disk has {durable.term_at(index)}",
            )

    def _check_ack(self, process: Process, term: Term, index: Index) -> None:
        journal, durable = process.node.journal, self.durable[process.node_id]
        if durable.term < term:
            self._fail(ACK_TRUE, f"n{process.node_id} acks in term {term}, its disk is in {durable.term}")
        if index > max(durable.base_index, journal.base_index) and durable.term_at(index) != journal.term_at(index):
            self._fail(
                ACK_TRUE,
                f"n{process.node_id} acks {index}/{journal.term_at(index)}, its disk has {durable.term_at(index)}",
            )

    def _forgot(self, node: NodeId) -> bool:
        """Has it not come back yet from losing its journal? (Dead: who knows.)"""
        process = self.cluster.hosts[node].process
        return process is not None and process.node.forgot

    def _check_return(self, node: NodeId) -> None:
        """Its acks count again: whatever it voted in before its journal was lost, it cannot vote in any more."""
        durable = self.durable[node]
        for old in self._forgotten.get(node, ()):
            if old.voted_for == node:
                continue  # See _forget_candidacy: had anybody heard of it, the others' terms would tell.
            if durable.term < old.term or (durable.term == old.term and old.voted_for and durable.voted_for is None):
                self._fail(RETURN, f"n{node} voted for {old.voted_for} in {old.term} and may again")

    def _check_vote(self, process: Process, term: Term, candidate: NodeId) -> None:
        node, durable = process.node_id, self.durable[process.node_id]
        if self._votes_sent.setdefault((node, term), candidate) != candidate:
            self._fail(ONE_VOTE_SENT, f"n{node} in term {term}: {self._votes_sent[node, term]} and {candidate}")
        if durable.term < term or (durable.term == term and durable.voted_for != candidate):
            self._fail(
                VOTE_DURABLE,
                f"n{node} votes for {candidate} in {term}, its disk says {durable.voted_for} in {durable.term}",
            )

    def look_at_commits(self, process: Process) -> None:
        """What a node calls committed is committed: on a durable majority, one entry per index."""
        seen, engine, journal = self._seen[id(process)], process.node.engine, process.node.journal
        commit = engine.commit_index
        for number in range(max(seen.committed, journal.base_index) + 1, commit + 1):
            index = Index(number)
            term = journal.term_at(index)
            if term is None:
                self._fail(ONE_COMMIT, f"n{process.node_id} commits {index}, which it does not have")
            if index <= self.last_committed:
                if self.committed[index] != term:
                    self._fail(ONE_COMMIT, f"{index}: {self.committed[index]} and {term} on n{process.node_id}")
            else:
                self._commit(process, index, term)
        seen.committed = max(seen.committed, commit)

    def _commit(self, process: Process, index: Index, term: Term) -> None:
        holders = [node for node in self.cluster.voters if self._held(node, index, term)]
        if len(holders) < self.cluster.quorum:
            self._fail(MAJORITY, f"n{process.node_id} commits {index}/{term}, durable only on {holders}")
        if index != self.last_committed + 1:
            self._fail(ONE_COMMIT, f"{index} committed after {self.last_committed}")
        self._look_at_journal(process, self._seen[id(process)])
        self.committed[index] = term
        self._committed_in[index] = process.node.engine.term
        self.last_committed = index
        entry = self._bytes.pop((index, term))
        self.entries.append((index, term, entry))
        if entry:
            self._execute(index, term, entry)
        if process.node.engine.is_leader and process.node.journal.durable_index < index:
            self.cluster.counts["commits ahead of the leader's disk"] += 1

    def _held(self, node: NodeId, index: Index, term: Term) -> bool:
        """Is it, or was it until the journal was lost, on the disk?"""
        found = [self.durable[node]] if node in self.durable else []
        for durable in found + self._forgotten.get(node, []):
            if durable.base_index >= index or durable.term_at(index) == term:
                return True
        return False

    def _execute(self, index: Index, term: Term, data: bytes) -> None:
        entry = decode_entry(data)
        if entry.decided_term != term or entry.base_offset != self.next_offset:
            self.cluster.counts["entries not executed"] += 1
            return
        if entry.kind == "groups":  # It takes no offset.
            self.cluster.counts["entries of groups"] += 1
            return
        executed = Executed(index, entry.base_offset, entry.count, entry.cause, entry.request_id)
        self.next_offset += entry.count
        self.log.append(executed)
        batch = patch(entry.batch, entry.base_offset, term)
        self._batches[executed.base] = (entry.count, zlib.crc32(batch))
        events = decode_events(batch)
        for stamp, event in events:
            if stamp.time_ms < self.log_ms:
                self._fail(TIME, f"{stamp.time_ms} at offset {stamp.offset}, {self.log_ms} before it")
            self.log_ms = stamp.time_ms
            self._levels.committed(event, stamp.offset)
            self.grown += grows(event)
            self.on_event(event)
        self.on_entry(events)
        if entry.request_id:
            if entry.request_id in self._by_request:
                self._fail(ONCE, f"request {entry.request_id}: {self._by_request[entry.request_id]} and {executed}")
            self._by_request[entry.request_id] = executed
        if entry.cause in self.denied:
            self._fail(DENIED, f"{entry.cause} was denied ({self.denied[entry.cause]}) and is in the log: {executed}")
        if entry.cause:
            self._by_tag[entry.cause] = executed

    def _look_at_state(self, process: Process, seen: _Seen) -> None:
        """Equal sums at equal offset and index; offsets only those that entries end at."""
        node = process.node
        applied = node.applied_index
        for index in range(max(seen.index + 1, applied - RING_MAX + 1), applied + 1):
            mark = node.sums.at(index)
            if mark is not None:
                self._look_at_sums(process, mark)
        before, seen.index = seen.index, applied
        marked, offset = node.marked, node.offset
        if applied // ADDED_UP_EVERY != before // ADDED_UP_EVERY and (marked.rows, marked.whole) != node.plain_sums():
            self._fail(TRUE_SUMS, f"n{process.node_id} at index {seen.index}")
        if offset == seen.offset:
            return
        if offset < seen.offset or offset > self.next_offset:
            self._fail(GAPLESS, f"n{process.node_id} went from offset {seen.offset} to {offset} of {self.next_offset}")
        if self._levels.needed(offset) > node.knows:
            self._fail(KNOWN, f"n{process.node_id} knows {node.knows} and is at offset {offset}")
        if offset and seen.offset <= 0:
            self._founding = self._founding or node.cluster_uuid
            if node.cluster_uuid != self._founding:
                self._fail(FOUNDED_ONCE, f"n{process.node_id} knows {node.cluster_uuid}, others {self._founding}")
        self._read_log(process, max(0, seen.offset), offset)
        seen.offset = offset

    def _look_at_sums(self, process: Process, mark: Mark) -> None:
        """Nobody had another one there."""
        me = process.node_id
        first, node = self._sums_at_offset.setdefault(mark.offset, (mark.rows, me))
        if first != mark.rows:
            self._fail(SAME_STATE, f"n{me} differs from n{node} at offset {mark.offset}")
        first, node = self._sums_at_index.setdefault(mark.index, (mark.whole, me))
        if first != mark.whole:
            self._fail(SAME_WHOLE, f"n{me} differs from n{node} at index {mark.index}")

    def _read_log(self, process: Process, start: int, end: int) -> None:
        """A consumer that reads on finds each offset once, and on every node the bytes that were committed."""
        at = start
        with process.host.store.readable():
            batches = process.node.batches(start)
        for base, count, _, data in batches:
            mark = (count, zlib.crc32(data))
            if base != at or self._batches.get(base) != mark:
                self._fail(SAME_LOG, f"n{process.node_id} at {at}: {base} {mark}, not {self._batches.get(base)}")
            at = base + count
        if at != end:
            self._fail(SAME_LOG, f"n{process.node_id} serves events up to {at}, and applied {end}")

    def batch(self, base: int) -> tuple[int, int]:
        """Count and CRC of the committed batch that begins there; (0, 0): none does."""
        return self._batches.get(base, (0, 0))

    def states(self) -> dict[int, str]:
        """Index → sum over all that must be equal there, where a node was seen."""
        return {index: shown(whole) for index, (whole, _) in self._sums_at_index.items()}

    def check_kept(self, acknowledged: dict[str, int]) -> None:
        """Every answered write (by tag or request id) is in the log, at the offset the answer named."""
        for proof, offset in acknowledged.items():
            executed = self._by_request.get(proof) or self._by_tag.get(proof)
            if executed is None or executed.base + executed.count != offset:
                self._fail("nothing acknowledged is lost", f"{proof}, answered at offset {offset}: {executed}")


def _events(data: bytes) -> list[Event]:
    """Of an entry."""
    entry = decode_entry(data) if data else None
    if entry is None or entry.kind == "groups":
        return []
    return [event for _, event in decode_events(patch(entry.batch, entry.base_offset, entry.decided_term))]


def _says_something(process: Process, next_index: int) -> bool:
    """Is there anything to forget below it? A log that is not founded holds nothing but the empty entries of leaders.
    Who holds such a log may be a new directory and not know it: it votes only in a founding, which needs every voter,
    and so also that candidate for whom the directory before it voted.
    """
    journal = process.node.journal
    if journal.base_index > 1:
        return True
    try:
        with process.host.disk.readable():
            return any(journal.entry(Index(at)) for at in range(2, next_index))
    except JournalDamagedError:  # It rotted in a sealed segment, and a sealed one is full.
        return True
