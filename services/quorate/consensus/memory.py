"""The in-memory twin of the Raft engine: one node, no disk, no peers; for tests of whatever sits on a ``RaftEngine``.

Rules: it keeps the promises of the port, in order: a term is decidable only after its first entry is applied, the
loss of leadership is told before anything else can be decided, a proposal of another term is refused. What real life
adds is scripted by the test: how long a commit takes, when leadership is lost and to whom, what another leader wrote
meanwhile.
"""

from collections.abc import Callable, Mapping

from quorate.clock import Scheduler
from quorate.consensus.ports import Index, LeaderCause, Machine, NodeId, Progress, Term
from quorate.errors import PeerError, UsageError


class MemoryEngine:
    """A ``RaftEngine`` that is its own majority. Commits ``commit_delay_s`` after the proposal (0: next turn)."""

    def __init__(
        self,
        node_id: NodeId,
        machine: Machine,
        scheduler: Scheduler,
        *,
        voters: tuple[NodeId, ...] = (),
        commit_delay_s: float = 0.0,
        slice_entries: int = 256,
    ) -> None:
        self.node_id = node_id
        self.voters = voters or (node_id,)
        self.commit_delay_s = commit_delay_s
        """May be changed at any time; entries already proposed keep theirs."""
        self.log: list[tuple[Term, bytes]] = []
        """Entry ``i`` of the log is at position ``i - 2``, as in a journal: index 1 is never stored."""
        self._machine = machine
        self._scheduler = scheduler
        self._slice = slice_entries
        self._term = Term(0)
        self._leader: NodeId | None = None
        self._announced = Term(0)
        self._commit = Index(1)
        self._applied = Index(max(1, machine.applied_index()))
        self._cause = LeaderCause("first start")
        self._reads: list[tuple[Index, Callable[[Index | None], None]]] = []
        self._running = False
        self._turn_asked = False

    # ── the port ──

    @property
    def term(self) -> Term:
        """See port."""
        return self._term

    @property
    def founders(self) -> Mapping[NodeId, str]:
        """See port."""
        return {}

    @property
    def waits_for(self) -> str:
        """See port."""
        return ""

    def forget(self, reason: str, done: Callable[[], None]) -> None:
        """See port. It remembers nothing."""
        done()

    @property
    def followers_that_lost(self) -> int:
        """See port."""
        return 0

    @property
    def alarms(self) -> tuple[str, ...]:
        """See port."""
        return ()

    @property
    def leader_id(self) -> NodeId | None:
        """See port."""
        return self._leader

    @property
    def is_leader(self) -> bool:
        """See port."""
        return self._leader == self.node_id

    @property
    def commit_index(self) -> Index:
        """See port."""
        return self._commit

    @property
    def applied_index(self) -> Index:
        """See port."""
        return self._applied

    @property
    def voting(self) -> bool:
        """See port."""
        return True

    @property
    def installing(self) -> bool:
        """See port."""
        return False

    @property
    def election_timeout_s(self) -> float:
        """See port: nobody is elected here."""
        return 0.0

    def decidable_term(self) -> Term:
        """See port."""
        return self._announced

    def propose(self, entry: bytes, term: Term) -> Index | None:
        """See port."""
        if not entry:
            raise UsageError("an entry is not empty")
        if not self._running or term == 0 or term != self._announced:
            return None
        return self._append(term, entry)

    def progress(self) -> tuple[Progress, ...]:
        """See port; voters that are not there have nothing."""
        if not self.is_leader:
            return ()
        last = {self.node_id: self._commit}
        return tuple(Progress(voter, last.get(voter, Index(0)), 0.0) for voter in self.voters)

    def read_index(self, done: Callable[[Index | None], None]) -> None:
        """See port."""
        if not self._running or not self.is_leader:
            done(None)
            return
        self._reads.append((self._commit, done))
        self._ask_turn()

    def read_barrier(self, done: Callable[[Index | None], None]) -> None:
        """See port; there is no leader to ask but this node."""
        self.read_index(done)

    def receive(self, peer: NodeId, frame: bytes) -> None:
        """Nobody sends: PeerError."""
        raise PeerError(f"a frame of {len(frame)} bytes from node {peer}, to an engine without peers")

    def peer_connected(self, peer: NodeId) -> None:
        """See port; nothing to do."""

    def peer_disconnected(self, peer: NodeId) -> None:
        """See port; nothing to do."""

    def transfer_leadership(self, to: NodeId | None = None) -> bool:
        """To another voter, if there is one."""
        others = [voter for voter in self.voters if voter != self.node_id]
        target = to if to is not None else next(iter(others), None)
        if not self.is_leader or target not in others:
            return False
        self.lose_leadership(target)
        return True

    def step_down(self, reason: str) -> None:
        """See port; leads again, in a new term, only when told to."""
        if self.is_leader:
            self.lose_leadership(None)

    def start(self) -> None:
        """Lead at once."""
        self._running = True
        self.win()

    def stop(self) -> None:
        """See port."""
        self._running = False
        self._fail_reads()

    # ── the script ──

    def win(self, cause: LeaderCause | None = None) -> None:
        """Become leader of the next term; decidable once its first entry is applied."""
        self._cause = cause or self._cause
        self._term = Term(self._term + 1)
        self._leader = self.node_id
        self._append(self._term, b"")

    def lose_leadership(self, to: NodeId | None, written: tuple[bytes, ...] = ()) -> None:
        """Another node leads the next term: what is not committed is gone, and it wrote ``written`` instead."""
        announced, self._announced = self._announced, Term(0)
        self._term = Term(self._term + 1)
        self._leader = to
        if announced:
            self._machine.leadership(announced, None)
        self._fail_reads()
        del self.log[self._commit - 1 :]
        for entry in written:
            self._append(self._term, entry)

    # ── inside ──

    def _append(self, term: Term, entry: bytes) -> Index:
        self.log.append((term, entry))
        index = Index(len(self.log) + 1)
        self._scheduler.call_later(self.commit_delay_s, lambda: self._committed(index, term))
        return index

    def _committed(self, index: Index, term: Term) -> None:
        if index - 2 < len(self.log) and self.log[index - 2][0] == term:
            self._commit = max(self._commit, index)
            self._ask_turn()

    def _ask_turn(self) -> None:
        if not self._turn_asked:
            self._turn_asked = True
            self._scheduler.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_asked = False
        if not self._running:
            return
        end = min(self._commit, Index(self._applied + self._slice))
        if end > self._applied:
            for index in range(self._applied + 1, end + 1):
                term, entry = self.log[index - 2]
                self._machine.apply(Index(index), term, entry)
                self._applied = Index(index)
            self._machine.applied()
        reached = self.log[self._applied - 2][0] if self._applied >= 2 else None
        if self.is_leader and not self._announced and reached == self._term:
            self._announced = self._term
            self._machine.leadership(self._term, self._cause)
        if self._applied < self._commit:
            self._ask_turn()
        ready = [done for index, done in self._reads if index <= self._applied and self._announced]
        self._reads = [(index, done) for index, done in self._reads if index > self._applied or not self._announced]
        for done in ready:
            done(self._applied)

    def _fail_reads(self) -> None:
        reads, self._reads = self._reads, []
        for _, done in reads:
            done(None)
