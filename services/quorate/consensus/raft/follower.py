"""The follower's side of replication: what a leader's frames do here, and what is answered.

Rules: every AppendEntries is judged before the core sees it (``shape_append``). An answer that vouches for entries
waits until they are durable. A frame of a term that is over changes nothing, and its sender is told.
"""

from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.raft.applied_check import known_committed
from quorate.consensus.raft.applying import Applying
from quorate.consensus.raft.caught_up import CaughtUp
from quorate.consensus.raft.common import Common
from quorate.consensus.raft.core import Role
from quorate.consensus.raft.elections import Elections
from quorate.consensus.raft.guard import Show, shape_append
from quorate.consensus.raft.membership import Membership
from quorate.consensus.transport.codec import (
    Ack,
    Alive,
    AppendEntries,
    SnapshotAck,
    SnapshotBegin,
    SnapshotChunk,
    TermNotice,
)
from quorate.errors import InvariantBrokenError

_NO_ACK = (NodeId(0), Term(0), Index(0), 0.0)


class Follower:
    """Owns what this node said last to its leader."""

    def __init__(
        self,
        common: Common,
        membership: Membership,
        applying: Applying,
        elections: Elections,
        caught_up: CaughtUp,
    ) -> None:
        ports = common.ports
        self._core, self._journal, self._machine = common.core, ports.journal, ports.machine
        self._clock, self._heartbeat_s, self._outbox = ports.scheduler, common.settings.heartbeat_s, common.outbox
        self._membership = membership
        self._applying = applying
        self._elections = elections
        self._installer = applying.installer
        self._caught_up = caught_up
        self._answering_seq = 0
        self._last_ack = _NO_ACK
        self._alive_sent_at = ports.scheduler.monotonic() - self._heartbeat_s

    def _follow(self, peer: NodeId, term: Term) -> bool:
        """A frame only a leader sends. False (and the peer is told) if its term is over."""
        core = self._core
        if term < core.term:
            self._outbox.send(peer, TermNotice(core.term))
            return False
        if term == core.term and core.role is Role.LEADER:
            raise InvariantBrokenError(f"node {peer} and this node both lead term {term}")
        core.adopt_term(term)
        self._elections.timing.heard(peer, self._clock.monotonic())
        self._installer.drop_unless(peer, term)
        return True

    def on_append(self, peer: NodeId, message: AppendEntries) -> None:
        """Entries, news of what is committed, or a heartbeat (Raft §5.3)."""
        if not self._follow(peer, message.term):
            return
        self._say_alive(peer)
        self._caught_up.told(message.term, message.commit)
        self._answering_seq = message.seq
        commit, applied = self._core.commit_index, self._applying.applied
        if commit < applied:
            term = self._machine.applied_term()
            commit = known_committed(applied, term, commit, message.commit, self._journal)
        shaped = shape_append(message, self._journal, commit)
        if isinstance(shaped, Show):
            self._core.append(peer, message.term, shaped)
            return
        self._core.commit_seen(peer, message.term, shaped.commit)
        if message.entries or not self._just_acknowledged(peer, message.term, shaped.next_index):
            self.acknowledge(peer, shaped.next_index, reset=False, success=True)

    def acknowledge(self, peer: NodeId, next_index: Index, *, reset: bool, success: bool) -> None:
        """Answer the AppendEntries being handled, when what it vouches for is durable: the leader counts it towards a
        majority (dissertation §3.5), so it must survive a restart. Stamped with the term and sequence of now, not of
        the moment it leaves: an answer to an earlier leader, or in an earlier term, counts for nothing (BUG 2).
        """
        core = self._core
        ack = Ack(core.term, self._answering_seq, next_index, reset, success, self._membership.counts())
        progress = success and not reset
        self._last_ack = (peer, ack.term, next_index, self._clock.monotonic()) if progress else _NO_ACK
        self._outbox.hold(peer, ack, progress=progress)

    def _just_acknowledged(self, peer: NodeId, term: Term, next_index: Index) -> bool:
        """Was this said a moment ago? Then only heartbeats want to hear it again: check-quorum lives on them."""
        known_peer, known_term, known_index, at = self._last_ack
        return (known_peer, known_term, known_index) == (
            peer,
            term,
            next_index,
        ) and self._clock.monotonic() - at < self._heartbeat_s / 2

    def say_again(self) -> None:
        """A connection was made anew: what was said last may be lost."""
        self._last_ack = _NO_ACK

    def _say_alive(self, peer: NodeId) -> None:
        """An ack that waits for our disk is no sign of life; check-quorum needs one."""
        if not len(self._outbox.held) or not self._membership.voting:
            return
        now = self._clock.monotonic()
        if now - self._alive_sent_at >= self._heartbeat_s:
            self._alive_sent_at = now
            self._outbox.send(peer, Alive(self._core.term))

    # ── snapshots ──

    def on_snapshot_begin(self, peer: NodeId, message: SnapshotBegin) -> None:
        """The leader offers its state."""
        if self._follow(peer, message.term):
            self._answer(peer, self._installer.on_begin(peer, message, self._clock.monotonic()))

    def on_snapshot_chunk(self, peer: NodeId, message: SnapshotChunk) -> None:
        """A part of it."""
        if self._follow(peer, message.term):
            self._answer(peer, self._installer.on_chunk(peer, message, self._clock.monotonic()))

    def _answer(self, peer: NodeId, answer: SnapshotAck | None) -> None:
        if answer is not None:
            self._outbox.hold(peer, answer)
