"""How a node whose journal is gone comes back without voting twice.

Rules (a forgotten vote is never guessed): such a node does not vote, does not campaign, and its acks are part of no
majority, until it (1) heard from *every* other voter: its term, or that it forgot as well, (2) got a read index from a
leader that first forgot all acks of this node, and (3) holds the log up to there, durable and applied. Then it marks
every term it learned as voted in (for nobody), durably, so that it votes only in later ones. Those that forgot, this
node included, must be fewer than a majority, and a term counts only if it was asked for after the last of them said so.

Theory. Raft (§5.2) needs one vote per term and node. Let candidate C hold a vote in term T that this node forgot.
If C remembers, it made T durable before it asked for the vote: its own answer is T or later.
If C forgot, its candidacy ended with its memory, so it can only have won before it said that it forgot. It won with a
majority; one of those remembers, voted before that moment, and answers T or later to whatever is asked after it. (What
it answered before may have been lower: hence the new round.)
An ack this node forgot counted for an entry that, if committed, a majority held. A leader is elected by a majority of
voters none of which forgets; the two share a voter, so the leader's log has the entry, and so does its read index,
taken after it stopped counting the old acks.
If a majority forgets, its nodes wait for each other for ever: an operator must decide, not a program.
"""

from collections.abc import Iterable
from typing import Final

from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.transport.codec import Message, RejoinAsk, RejoinIndex, RejoinRead, RejoinTerm

LONE_JOURNAL_LOST: Final = (
    "the journal of this lone node is missing or damaged, and nobody else holds what it acknowledged: "
    "restore the journal directory from a backup, or remove the whole data directory to start a new cluster"
)
"""What an operator is told who has no other voter to ask."""
LONE_COPY: Final = (
    "the data directory of this lone node is a copy, and nobody else knows what its original acknowledged since. If "
    "the original is gone, and this is its newest copy, run: quorate member adopt --data-dir DIR"
)
"""What an operator is told who copied, moved or restored it: that is what made it wait, and nothing is missing."""
LONE_VOTER_FILE_LOST: Final = (
    "{reason}, and nobody else holds what this lone node acknowledged: restore the whole data directory from a backup "
    "and run quorate member adopt --data-dir DIR, or remove it to start a new cluster"
)
"""What an operator is told whose journal and store are there, and who was told apart by that file alone."""
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
    """The questions still open. Sans-I/O; ``nonce`` ties answers to this life of the node, and to a round of asking."""

    def __init__(self, others: Iterable[NodeId], nonce: int) -> None:
        self._others = tuple(others)
        self._nonce = nonce
        self._terms: dict[NodeId, Term] = {}
        self._forgot: set[NodeId] = set()
        self._learned = Term(0)
        self._read_index: Index | None = None

    @property
    def learned_term(self) -> Term:
        """Highest term any voter that remembers has told."""
        return self._learned

    @property
    def read_index(self) -> Index | None:
        """What this node must hold before it may vote; None until a leader told it."""
        return self._read_index

    @property
    def _heard(self) -> bool:
        """Has every other voter spoken, and do those that remember meet every majority?"""
        # Fewer than a majority forgot, so every majority that may have elected the candidate of a forgotten vote has a
        # voter that remembers: it answers that term or a later one.
        voters = len(self._others) + 1
        return len(self._terms) + len(self._forgot) == voters - 1 and len(self._forgot) + 1 <= (voters - 1) // 2

    def questions(self, leader: NodeId | None, term: Term) -> list[tuple[NodeId, Message]]:
        """What to ask (again) now, in the order of node ids."""
        if not self._heard:
            return [(peer, RejoinAsk(self._nonce)) for peer in self._others if peer not in self._terms]
        if self._read_index is None and leader in self._others:
            return [(leader, RejoinRead(self._nonce, term))]
        return []

    def on_term(self, peer: NodeId, message: RejoinTerm) -> None:
        """A voter that forgot knows no term worth counting; that it forgot begins a new round of asking."""
        if message.nonce != self._nonce:
            return
        if message.voting:
            self._terms[peer] = max(message.term, self._terms.get(peer, Term(0)))
            self._learned = max(self._learned, message.term)
            self._forgot.discard(peer)
        elif peer not in self._forgot:
            # A voter that forgot after it had answered took its word with it: every answer of the round is asked again.
            self._forgot.add(peer)
            self._terms.clear()
            self._nonce += 1

    def on_index(self, message: RejoinIndex) -> None:
        """The leader's read index; only asked for once every other voter was heard."""
        if message.nonce == self._nonce and self._heard:
            self._read_index = message.index

    def complete(self, applied: Index, durable: Index) -> bool:
        """May the node vote again (in later terms)?"""
        # The leader's log holds every entry that this node's forgotten acks helped commit, and it took its read index
        # (Raft §8) after it stopped counting those acks. Holding the log durably up to there makes them true again.
        # Applied: it knows again which directories of other voters were given up, and hears none of them as a voter.
        return self._read_index is not None and min(applied, durable) >= self._read_index
