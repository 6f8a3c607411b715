"""How a node whose journal is gone comes back without voting twice.

Rules (a forgotten vote is never guessed): such a node does not vote, does not campaign, and its acks are part of no
majority, until it (1) heard the term of *every* other voter, each of which remembers its own, (2) got a read index
from a leader that first forgot all acks of this node, and (3) holds the log up to there, committed and durable. Then
it marks every term it learned as voted in (for nobody), durably, so that it votes only in later ones.

Theory. The vote it forgot was given to a candidate that had made that very term durable before it asked; so the highest
term of all others is not below it. (Raft §5.2 needs one vote per term and node.) An ack it forgot counted for an entry
that, if committed, is on all other members of that majority; a leader elected without this node's vote shares a member
with those, so its log has the entry, and so has its read index, taken after it stopped counting the old acks. If two
nodes of three lose their journals they wait for each other for ever: an operator must decide, not a program.
"""

from collections.abc import Iterable
from typing import Final

from quorate.consensus.codec import Message, RejoinAsk, RejoinIndex, RejoinRead, RejoinTerm
from quorate.consensus.ports import Index, NodeId, Term

LONE_JOURNAL_LOST: Final = (
    "the journal of this lone node is missing or damaged, and nobody else holds what it acknowledged: "
    "restore the journal directory from a backup, or remove the whole data directory to start a new cluster"
)
"""What an operator is told who has no other voter to ask."""
LONE_STORE_LOST: Final = (
    "the store of this lone node is damaged or missing, and its journal no longer begins with the first entry: restore "
    "the whole data directory from a backup, or remove it to start a new cluster"
)
"""What an operator is told who has neither the state nor all that led to it."""


LONE_JOURNAL_BEHIND: Final = (
    "the journal of this lone node ends at entry {last}, and its store has applied {applied}: the journal is an older "
    "one, and a lone node applies nothing that is not in its journal. Put back the journal that belongs to this store, "
    "or restore journal and store from the same copy"
)
"""What an operator is told whose store has seen what the journal does not hold."""


class Rejoin:
    """The questions still open. Sans-I/O; ``nonce`` ties answers to this life of the node."""

    def __init__(self, others: Iterable[NodeId], nonce: int) -> None:
        self._others = tuple(others)
        self._nonce = nonce
        self._terms: dict[NodeId, Term] = {}
        self._read_index: Index | None = None

    @property
    def learned_term(self) -> Term:
        """Highest term any voter told."""
        return max(self._terms.values(), default=Term(0))

    @property
    def read_index(self) -> Index | None:
        """What this node must hold before it may vote; None until a leader told it."""
        return self._read_index

    def questions(self, leader: NodeId | None, term: Term) -> list[tuple[NodeId, Message]]:
        """What to ask (again) now, in the order of node ids."""
        open_terms = [peer for peer in self._others if peer not in self._terms]
        if open_terms:
            return [(peer, RejoinAsk(self._nonce)) for peer in open_terms]
        if self._read_index is None and leader in self._others:
            return [(leader, RejoinRead(self._nonce, term))]
        return []

    def on_term(self, peer: NodeId, message: RejoinTerm) -> None:
        """One that lost its own journal knows nothing worth counting."""
        if message.nonce == self._nonce and message.voting:
            self._terms[peer] = max(message.term, self._terms.get(peer, Term(0)))

    def on_index(self, message: RejoinIndex) -> None:
        """The leader's read index; only asked for once every term is known."""
        if message.nonce == self._nonce and len(self._terms) == len(self._others):
            self._read_index = message.index

    def complete(self, commit: Index, durable: Index) -> bool:
        """May the node vote again (in later terms)?"""
        return self._read_index is not None and min(commit, durable) >= self._read_index
