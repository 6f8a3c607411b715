"""pysyncobj 0.3.17 as the Raft of a node, inside its guard: the one module that imports it.

Rules: pysyncobj keeps what it does right (terms, votes, accepting entries) and nothing else; matches are counted in
``replication.py``. It never sees a socket, a clock, a disk or the bytes of an entry: ``_Log`` shows it positions and
terms of the journal, ``_Pipe`` hands its messages to the engine, ``_Core`` replaces its timers, its sending, its
applying and its queue. Its source is pinned by version and hash, because the guard relies on the order of steps inside
``_onTick`` (count, then ``__applyLogEntries``); docs/consensus.md lists each private name and each defect.

Theory. pysyncobj is a set of handlers over a dozen private fields. An election happens when its deadline is put into
the past; entries are accepted when a dict of type ``append_entries`` is delivered; what it wants to say comes out of
``Transport.send``. Its own election timeout is set beyond any node's life.
"""

import _socket
import hashlib
import inspect
import socket
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from math import nextafter
from typing import Any

from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.raft.absent import absent
from quorate.consensus.raft.common import EnginePorts
from quorate.consensus.raft.core import CoreEvents, Role
from quorate.consensus.raft.engine import GuardedEngine
from quorate.consensus.raft.guard import Show
from quorate.consensus.settings import EngineSettings
from quorate.errors import InvariantBrokenError, UsageError

with absent("cryptography"):  # Seven megabytes, for passwords that nobody sets here.
    from pysyncobj import SyncObj, SyncObjConf, syncobj
    from pysyncobj.journal import Journal as PySyncObjJournal
    from pysyncobj.node import Node
    from pysyncobj.transport import Transport

socket.inet_ntop = _socket.inet_ntop
"""pysyncobj puts one in its place that works on Windows alone, for the whole process."""

PYSYNCOBJ_VERSION = "0.3.17"
PYSYNCOBJ_SHA256 = "e8bdf06797085d734df86e24ab4802fe87893dff77268565ec036f7ad4a1cfe4"
"""Of ``inspect.getsource(pysyncobj.syncobj)``."""

_NEVER_S = 1e12
_NO_OP = b"\x01"
"""How pysyncobj spells the entry a new leader appends; the journal and the machine see ``b''``."""
_NOBODY = NodeId(0)
"""Voted for by a node that must not vote in this term (consensus/raft/rejoin.py). Node ids start at 1."""


@cache
def check_pysyncobj() -> None:
    """Raise UsageError unless exactly the pysyncobj that the guard was written against is installed."""
    release = version("pysyncobj")
    digest = hashlib.sha256(inspect.getsource(syncobj).encode()).hexdigest()
    if release != PYSYNCOBJ_VERSION or digest != PYSYNCOBJ_SHA256:
        raise UsageError(
            f"pysyncobj {release} (sha256 {digest}) is installed; the guard is written against "
            f"{PYSYNCOBJ_VERSION} (sha256 {PYSYNCOBJ_SHA256})"
        )


_Read = Callable[[], float]


class _Clock:
    """pysyncobj reads one module-wide clock; every call into it first names whose turn it is."""

    read: Callable[[], float] = staticmethod(lambda: 0.0)


class _NoPoller:
    """pysyncobj polls its sockets; it has none."""

    def subscribe(self, *_: Any) -> None:
        """Nothing to watch."""

    def unsubscribe(self, *_: Any) -> None:
        """Nothing was watched."""

    def poll(self, *_: Any) -> None:
        """Nothing happened."""


def _patch() -> None:
    """Three names of the module: a journal and a poller of ours, and the clock of whose turn it is."""
    original = syncobj.createJournal
    syncobj.createJournal = lambda journal: journal if isinstance(journal, PySyncObjJournal) else original(journal)
    syncobj.createPoller = lambda _: _NoPoller()
    syncobj.monotonicTime = lambda: _Clock.read()  # noqa: PLW0108 - looked up at each call


_patch()


class _Log(PySyncObjJournal):  # type: ignore[misc]
    """The journal as pysyncobj sees it: ``(b'', index, term)`` at position ``index - base_index``, the base included.

    Open-ended slices are two entries long: pysyncobj asks for a whole tail only to see whether there is one.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __len__(self) -> int:
        return self._journal.last_index - self._journal.base_index + 1

    def __getitem__(self, item: int | slice) -> Any:
        journal = self._journal
        if item == -1:
            return (b"", journal.last_index, journal.last_term)
        if item == 0:
            return (b"", journal.base_index, journal.base_term)
        if not isinstance(item, slice):
            raise InvariantBrokenError(f"pysyncobj asks for log position {item}")
        start = journal.base_index + (item.start or 0)
        stop = start + 2 if item.stop is None else journal.base_index + item.stop
        stop = min(stop, journal.last_index + 1)
        return [(b"", index, journal.term_at(Index(index))) for index in range(start, stop)]

    def add(self, command: bytes, index: int, term: int) -> None:
        """Append."""
        self._journal.append(Index(index), Term(term), b"" if command == _NO_OP else command)

    def deleteEntriesFrom(self, position: int) -> None:
        """Truncate from a position on."""
        self._journal.truncate_from(Index(self._journal.base_index + position))

    def clear(self) -> None:
        """Never: snapshots are ours (BUG 4)."""
        raise InvariantBrokenError("pysyncobj clears its journal")

    def deleteEntriesTo(self, position: int) -> None:
        """Never: trimming is ours (BUG 4)."""
        raise InvariantBrokenError(f"pysyncobj trims its journal to position {position}")

    def setRaftCommitIndex(self, index: int) -> None:
        """Never persisted: a commit index may exceed what a crash leaves of the log; it is learned again."""

    def getRaftCommitIndex(self) -> int:
        """What is certainly committed at start."""
        return self._journal.base_index

    def setCurrentTerm(self, term: int, voted_for: int | None) -> None:
        """Term and vote."""
        self._journal.set_vote(Term(term), None if voted_for is None else NodeId(voted_for))

    def getCurrentTerm(self) -> int:
        """As recovered."""
        return self._journal.term

    def getVotedForNodeId(self) -> int | None:
        """As recovered."""
        return self._journal.voted_for

    def onOneSecondTimer(self) -> None:
        """Nothing waits for it."""

    def _destroy(self) -> None:
        """The composition closes the journal."""


class _Pipe(Transport):  # type: ignore[misc]
    """Hands pysyncobj's messages to the engine, and the engine's to pysyncobj."""

    def __init__(self, outgoing: Callable[[NodeId, dict[str, Any]], None]) -> None:
        super().__init__(None, None, [])
        self._outgoing = outgoing

    def send(self, node: Node, message: dict[str, Any]) -> bool:
        """From pysyncobj."""
        self._outgoing(node.id, message)
        return True

    def deliver(self, node: Node, message: dict[str, Any]) -> None:
        """To pysyncobj."""
        self._onMessageReceived(node, message)

    def all_up(self, nodes: list[Node]) -> None:
        """Whether a peer can be reached is the engine's business: pysyncobj believes it always can."""
        for node in nodes:
            self._onNodeConnected(node)


class _Peer(int, Node):  # type: ignore[misc]
    """A voter as a key of pysyncobj's tables; an int, because comparing and hashing nodes is half of what they cost."""

    def __init__(self, node_id: NodeId) -> None:
        Node.__init__(self, node_id)


_ROLES = tuple(Role)


class _Core(SyncObj):  # type: ignore[misc]
    """``consensus.raft.core.Core`` on pysyncobj. Every use of a private name is in this class."""

    def __init__(
        self,
        events: CoreEvents,
        journal: Journal,
        others: tuple[NodeId, ...],
        settings: EngineSettings,
        clock: _Read,
    ) -> None:
        self._events = events
        self._journal = journal
        self._clock = clock
        self._floor = 0
        self.heartbeat_at = 0.0
        """Leader: when the next heartbeat is due; monotonic seconds."""
        self._peers = {other: _Peer(other) for other in others}
        self._pipe = _Pipe(self._outgoing)
        conf = SyncObjConf(
            autoTick=False,
            raftMinTimeout=settings.election_timeout_min_s,
            raftMaxTimeout=settings.election_timeout_max_s,
            appendEntriesPeriod=settings.heartbeat_s,
            leaderFallbackTimeout=settings.election_timeout_max_s,
            connectionTimeout=_NEVER_S,
            appendEntriesUseBatch=True,
            journalFile=_Log(journal),
            logCompactionMinEntries=10**9,
            logCompactionMinTime=10**9,
            onStateChanged=lambda old, new: events.role_changed(Role(old), Role(new)),
        )
        _Clock.read = clock
        super().__init__(_Peer(events.node_id), list(self._peers.values()), conf, nodeClass=_Peer, transport=self._pipe)
        self._pipe.all_up(list(self._peers.values()))

    # -- replaced steps of pysyncobj

    def _onTick(self, timeToWait: float = 0.0) -> None:
        self._floor = self.raftCommitIndex
        super()._onTick(timeToWait)

    def _SyncObj__applyLogEntries(self) -> bool:
        """Runs right after pysyncobj counted matches, before anything reads the commit index: what it counted, which is
        its own copy before that is durable too, goes for nothing (``count``). Do not ask for the role here:
        check-quorum may have changed it in this very tick.
        """
        self._SyncObj__raftCommitIndex = self._floor
        return False

    def _SyncObj__sendAppendEntries(self) -> None:
        """A heartbeat is due, or an election was won."""
        self.heartbeat_at = self._clock() + self.conf.appendEntriesPeriod
        self._SyncObj__newAppendEntriesTime = nextafter(self.heartbeat_at, 0.0)  # It must be past for pysyncobj.
        self._events.heartbeat()

    def _SyncObj__generateRaftTimeout(self) -> float:
        """Its own election timer never runs out."""
        return _NEVER_S

    def _SyncObj__tryLogCompaction(self) -> None:
        """Snapshots and trimming are ours (BUG 4, BUG 7)."""

    def _checkCommandsToApply(self) -> None:
        """There is no queue and no forwarding: a proposal is made by the leader, in the term it was decided in."""

    def _applyCommand(self, *_: Any) -> None:
        raise InvariantBrokenError("pysyncobj's own command queue is used")

    def _outgoing(self, peer: NodeId, message: dict[str, Any]) -> None:
        match message["type"]:
            case "next_node_idx":
                self._events.acknowledge(
                    peer, Index(message["next_node_idx"]), reset=message["reset"], success=message["success"]
                )
            case "request_vote":
                self._events.ask_vote(peer, message["term"], message["last_log_index"], message["last_log_term"])
            case "response_vote":
                self._events.grant_vote(peer, message["term"])
            case other:
                raise InvariantBrokenError(f"pysyncobj sends {other}")

    def _deliver(self, peer: NodeId, message: dict[str, Any]) -> None:
        _Clock.read = self._clock
        self._pipe.deliver(self._peers[peer], message)

    # -- consensus.raft.core.Core

    @property
    def role(self) -> Role:
        """What this node is now."""
        return _ROLES[self._SyncObj__raftState]

    @property
    def term(self) -> Term:
        """The current term."""
        term: Term = self._SyncObj__raftCurrentTerm
        return term

    @property
    def commit_index(self) -> Index:
        """Highest index known committed."""
        return Index(self._SyncObj__raftCommitIndex)

    @property
    def leader_id(self) -> NodeId | None:
        """Whom this node follows; itself when leading."""
        node: Any = self._SyncObj__raftLeader
        return None if node is None else NodeId(node.id)

    @property
    def barrier_index(self) -> Index | None:
        """The first entry this leader appended in its term."""
        index: Index | None = self._SyncObj__noopIDx
        return index

    def tick(self) -> None:
        """Leader: count matches, check the quorum, heartbeat when due."""
        _Clock.read = self._clock
        self._onTick(0.0)

    def count(self, ceiling: Index) -> None:
        """Leader: commit up to there, if that is an entry of its own term."""
        if (
            ceiling > self._SyncObj__raftCommitIndex
            and self._journal.term_at(ceiling) == self._SyncObj__raftCurrentTerm
        ):
            self._SyncObj__raftCommitIndex = ceiling

    def stand(self) -> None:
        """Become a candidate of the next term at once."""
        _Clock.read = self._clock
        self._SyncObj__raftElectionDeadline = -_NEVER_S
        self._onTick(0.0)

    def resign(self) -> None:
        """Be a follower of nobody in the same term."""
        self._SyncObj__raftLeader = None
        self._SyncObj__setState(Role.FOLLOWER)

    def slept(self, seconds: float) -> None:
        """Count this time as silence of nobody: a leader steps down after too much of it. Who answered since then
        answered now.
        """
        now, answered_at = self._clock(), self._SyncObj__lastResponseTime
        for node in answered_at:
            answered_at[node] = min(answered_at[node] + seconds, now)

    def adopt_term(self, term: Term) -> None:
        """Follow into a higher term, without a vote. Does nothing for a term not higher."""
        if int(self.raftCurrentTerm) < term:
            self._SyncObj__setCurrentTerm(term, None)
            self.resign()

    def forbid_vote(self) -> None:
        """Count the current term as voted in, for nobody."""
        if self._SyncObj__votedForNodeId is None:
            self._SyncObj__setCurrentTerm(self.raftCurrentTerm, _NOBODY)

    def request_vote(self, peer: NodeId, term: Term, last_index: Index, last_term: Term) -> None:
        """A candidate asks."""
        self._deliver(
            peer, {"type": "request_vote", "term": term, "last_log_index": last_index, "last_log_term": last_term}
        )

    def vote_granted(self, peer: NodeId, term: Term) -> None:
        """A voter's first vote for this candidacy."""
        self._deliver(peer, {"type": "response_vote", "term": term})

    def append(self, peer: NodeId, term: Term, show: Show) -> None:
        """Entries of the leader of ``term``, as the guard shaped them."""
        self._deliver(
            peer,
            {
                "type": "append_entries",
                "term": term,
                "commit_index": show.commit,
                "prevLogIdx": show.prev_index,
                "prevLogTerm": show.prev_term,
                "entries": [(entry, index, entry_term) for index, entry_term, entry in show.entries],
            },
        )

    def commit_seen(self, peer: NodeId, term: Term, commit: Index) -> None:
        """The leader of ``term`` committed up to there, within what is verified here."""
        self._deliver(peer, {"type": "append_entries", "term": term, "commit_index": commit})

    def acknowledged(self, peer: NodeId, next_index: Index, *, reset: bool, success: bool) -> None:
        """A follower's answer of this very term: what pysyncobj does with one, without its way there."""
        node, match, follows = self._peers[peer], self._SyncObj__raftMatchIndex, self._SyncObj__raftNextIndex
        if reset:
            follows[node] = next_index
        if success and match[node] < next_index - 1:
            match[node] = next_index - 1
            follows[node] = next_index
        self._SyncObj__lastResponseTime[node] = self._clock()

    def note_alive(self, peer: NodeId) -> None:
        """A sign of life of a follower, for check-quorum only."""
        self._SyncObj__lastResponseTime[self._peers[peer]] = self._clock()

    def matches(self) -> list[int]:
        """Durable match index of every other voter."""
        match = self._SyncObj__raftMatchIndex
        return [match[node] for node in self._peers.values()]

    def match(self, peer: NodeId) -> Index:
        """Of one."""
        index: Index = self._SyncObj__raftMatchIndex[self._peers[peer]]
        return index

    def last_response(self, peer: NodeId) -> float:
        """When this leader last heard of it, or began to lead; monotonic seconds."""
        moment: float = self._SyncObj__lastResponseTime[self._peers[peer]]
        return moment

    def forget_match(self, peer: NodeId) -> None:
        """Nothing it acknowledged holds any more."""
        self._SyncObj__raftMatchIndex[self._peers[peer]] = 0

    def next_index(self, peer: NodeId) -> Index:
        """What to send it next."""
        index: Index = self._SyncObj__raftNextIndex[self._peers[peer]]
        return index

    def set_next_index(self, peer: NodeId, index: Index) -> None:
        """Move the pipeline."""
        self._SyncObj__raftNextIndex[self._peers[peer]] = index

    def set_positions(self, *, applied: Index, commit: Index | None = None) -> None:
        """What is applied; the commit index is only ever raised."""
        self._SyncObj__raftLastApplied = applied
        if commit is not None:
            self._SyncObj__raftCommitIndex = max(commit, self.raftCommitIndex)


class PySyncObjEngine(GuardedEngine):
    """The production ``RaftEngine``: the guard (consensus/raft/engine.py) around pysyncobj.

    Raises UsageError for a pysyncobj other than the pinned one, and for what ``GuardedEngine`` refuses.
    """

    def __init__(
        self, node_id: NodeId, voters: tuple[NodeId, ...], ports: EnginePorts, settings: EngineSettings
    ) -> None:
        check_pysyncobj()

        def core(events: CoreEvents, others: tuple[NodeId, ...]) -> _Core:
            return _Core(events, ports.journal, others, settings, ports.scheduler.monotonic)

        super().__init__(node_id, voters, ports, settings, core)
