"""What the guarded engine needs of a Raft core, and what the core tells the engine.

Rules: the core knows terms, votes, positions and matches; never bytes, sockets, clocks or disks. ``PySyncObjEngine``
brings the one implementation; a second core would take the same two protocols.
"""

from enum import IntEnum
from typing import Protocol

from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.raft.guard import Show


class Role(IntEnum):
    """What a node is in its term."""

    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2


class Core(Protocol):
    """Elections, acceptance of entries and counting of matches (Raft §5)."""

    @property
    def role(self) -> Role:
        """What this node is now."""

    @property
    def term(self) -> Term:
        """The current term."""

    @property
    def commit_index(self) -> Index:
        """Highest index known committed."""

    @property
    def leader_id(self) -> NodeId | None:
        """Whom this node follows; itself when leading."""

    @property
    def barrier_index(self) -> Index | None:
        """The first entry this leader appended in its term."""

    @property
    def heartbeat_at(self) -> float:
        """Leader: when the next heartbeat is due; monotonic seconds."""

    def tick(self) -> None:
        """Leader: check the quorum, heartbeat when due."""

    def count(self, ceiling: Index) -> None:
        """Leader: commit up to ``ceiling``, which a majority holds durably, if that is an entry of its own term, for
        such a one commits all before it (Raft §5.4.2).
        """

    def stand(self) -> None:
        """Become a candidate of the next term at once."""

    def resign(self) -> None:
        """Be a follower of nobody in the same term."""

    def slept(self, seconds: float) -> None:
        """This node took no turn for so long: the followers' answers wait in its sockets, and none was silent."""

    def adopt_term(self, term: Term) -> None:
        """Follow into a higher term, without a vote. Does nothing for a term not higher."""

    def forbid_vote(self) -> None:
        """Count the current term as voted in, for nobody."""

    def request_vote(self, peer: NodeId, term: Term, last_index: Index, last_term: Term) -> None:
        """A candidate asks."""

    def vote_granted(self, peer: NodeId, term: Term) -> None:
        """A voter's first vote for this candidacy."""

    def append(self, peer: NodeId, term: Term, show: Show) -> None:
        """Entries of the leader of ``term``, as the guard shaped them."""

    def commit_seen(self, peer: NodeId, term: Term, commit: Index) -> None:
        """The leader of ``term`` committed up to there, within what is verified here."""

    def acknowledged(self, peer: NodeId, next_index: Index, *, reset: bool, success: bool) -> None:
        """A follower's answer of this very term."""

    def note_alive(self, peer: NodeId) -> None:
        """A sign of life of a follower, for check-quorum only."""

    def matches(self) -> list[int]:
        """Durable match index of every other voter."""

    def match(self, peer: NodeId) -> Index:
        """Of one."""

    def last_response(self, peer: NodeId) -> float:
        """When this leader last heard of it, or began to lead; monotonic seconds."""

    def forget_match(self, peer: NodeId) -> None:
        """Nothing it acknowledged holds any more."""

    def next_index(self, peer: NodeId) -> Index:
        """What to send it next."""

    def set_next_index(self, peer: NodeId, index: Index) -> None:
        """Move the pipeline."""

    def set_positions(self, *, applied: Index, commit: Index | None = None) -> None:
        """What is applied; the commit index is only ever raised."""


class CoreEvents(Protocol):
    """The engine, as the core sees it. Nothing is called before the engine is whole."""

    node_id: NodeId

    def ask_vote(self, peer: NodeId, term: Term, last_index: Index, last_term: Term) -> None:
        """Send a vote request, when the candidacy is durable."""

    def grant_vote(self, peer: NodeId, term: Term) -> None:
        """Send a vote, when it is durable."""

    def acknowledge(self, peer: NodeId, next_index: Index, *, reset: bool, success: bool) -> None:
        """Answer the AppendEntries being handled, when what it vouches for is durable."""

    def heartbeat(self) -> None:
        """Send every follower something."""

    def role_changed(self, old: Role, new: Role) -> None:
        """Called in the middle of the step that changes it."""
