"""Does this node's word count? Not before it is known to be one of the founders, or to have come in since, and not
after it lost what it had promised.

Rules: a node that lost its journal, or is told that it did, says so in every answer and counts for nothing until it has
come back (consensus/raft/rejoin.py has the argument). What it lost is recorded durably before it goes on; that it is
back is recorded once the journal holds the mark against old votes. Whether a directory was there when the cluster was
founded is judged as soon as its log tells (consensus/raft/founding.py).
"""

from collections.abc import Callable, Mapping

from quorate.consensus.ports import Index, NodeId, StoreOp
from quorate.consensus.raft.common import Common
from quorate.consensus.raft.core import Role
from quorate.consensus.raft.founding import NOT_LISTED, UNFOUNDED, Founding
from quorate.consensus.raft.rejoin import (
    LONE_COPY,
    LONE_JOURNAL_BEHIND,
    LONE_JOURNAL_LOST,
    LONE_STORE_LOST,
    LONE_VOTER_FILE_LOST,
    Rejoin,
)
from quorate.consensus.storage.directory import COPIED, DAMAGED, MISSING
from quorate.consensus.transport.codec import RejoinAsk, RejoinIndex, RejoinTerm, YouLost
from quorate.errors import UsageError

_FORGOTTEN_KEY = b"consensus/forgotten"
"""In the store's ``meta`` of a directory without a voter file while its node had not recovered from a lost journal."""
ADOPT = ". If all voters were stopped and copied together, run on each: quorate member adopt --data-dir DIR"
LOST_ACKNOWLEDGED = (
    "node {peer}, which leads, holds an acknowledgement of this node up to entry {index} that its journal does not "
    "bear out: the journal, or the disk below it, went back"
)


def _lone_remedy(reason: str) -> str:
    if reason == COPIED:
        return LONE_COPY
    if reason in (MISSING, DAMAGED):
        return LONE_VOTER_FILE_LOST.format(reason=reason)
    return f"{LONE_JOURNAL_LOST} ({reason})"


class Membership:
    """Owns the founding as this node knows it, and the questions of one that lost its journal. Raises UsageError for a
    lone node that forgot: nobody could tell it what it acknowledged.
    """

    def __init__(self, common: Common) -> None:
        ports = common.ports
        self._ports = ports
        self._core, self._journal, self._outbox = common.core, ports.journal, common.outbox
        self._directory = ports.directory
        self._others, self._settings, self._turns = common.others, common.settings, common.turns
        self.founding: Founding | None = None
        if ports.facts is not None:
            self.founding = Founding(ports.directory, common.voters, ports.journal, ports.facts)
        self.rejoin: Rejoin | None = None
        """While this node may not vote."""
        self.back_seq: int | None = None
        """It may again, once the journal is durable up to there."""
        self._ask_at = ports.scheduler.monotonic()
        reason = self._what_was_lost()
        if reason:
            self._record_loss(reason)
            self.rejoin = self._questions()
        elif self.founding is not None and not self.founding.uncertain and not self._directory.voter.admitted:
            self._is_one()  # The last life ended before it had said so.

    def _questions(self) -> Rejoin:
        return Rejoin(self._others, self._ports.rng.getrandbits(61))

    # ── at start ──

    def _what_was_lost(self) -> str:
        """Why this directory may not vote; empty if it may."""
        journal, founding = self._journal, self.founding
        applied = self._ports.machine.applied_index()
        reason = self._directory.may_not_vote
        if store_was_lost(applied, journal.base_index) and not self._others:
            raise UsageError(LONE_STORE_LOST)
        if journal.state == "new" and applied > 0:
            reason = reason or "the journal is missing"
        if self._ports.store.get("meta", _FORGOTTEN_KEY) is not None:
            reason = reason or "the journal was lost before"
        if not reason and not self._others and applied > journal.last_index:
            raise UsageError(LONE_JOURNAL_BEHIND.format(applied=applied, last=journal.last_index))
        if not reason and founding is not None and founding.judge() is False:
            reason = NOT_LISTED
        if reason and not self._others:
            raise UsageError(_lone_remedy(reason))
        return reason

    def _record_loss(self, reason: str) -> None:
        directory, store = self._directory, self._ports.store
        if reason != directory.may_not_vote:
            directory.forbid_vote(reason)
        if store.get("meta", _FORGOTTEN_KEY) is not None:  # From here on the directory says it.
            store.write([StoreOp("meta", _FORGOTTEN_KEY, None)])
            store.sync()

    # ── what this node's word is worth ──

    @property
    def voting(self) -> bool:
        """May it vote? An arriving snapshot does not matter."""
        return self.rejoin is None

    def counts(self) -> bool:
        """Do its acknowledgements count? Judged anew: a log that came from elsewhere may tell that this directory was
        not there from the beginning.
        """
        founding = self.founding
        if founding is not None and self.rejoin is None and founding.uncertain:
            listed = founding.judge()
            if listed:
                self._is_one()
            elif listed is not None:
                self.forget(NOT_LISTED)
        return self.rejoin is None

    def _is_one(self) -> None:
        """Of the voters, and stays one whatever becomes of its store."""
        self._directory.save_later(self._ports.worker, admitted=True)

    def is_sure(self) -> bool:
        """Does its word count in a read? Not while it is open whether this directory was there from the beginning."""
        founding = self.founding
        if founding is None or not founding.uncertain:
            return self.rejoin is None
        return self.counts() and not founding.uncertain

    def lists(self, peer: NodeId) -> bytes:
        """What a request for the peer's vote says of the peer's directory."""
        return UNFOUNDED if self.founding is None else self.founding.lists(peer)

    def would_vote(self, listed: bytes) -> bool:
        """May this node vote for a candidate that says this of its directory?"""
        self.counts()
        if self.founding is None:
            return self.voting
        # In a founding also a node that lost its journal has a vote: it counts with those of all others only, and each
        # of them holds no founding that this node could have forgotten.
        return self.founding.would_vote(listed) and (self.voting or listed == UNFOUNDED)

    @property
    def founders(self) -> Mapping[NodeId, str]:
        """Whose votes elected this leader of a log without facts, by directory."""
        return {} if self.founding is None else self.founding.votes

    def waits_for(self, missing: tuple[NodeId, ...]) -> str:
        """Why this node cannot take part in elections; empty when it can. ``missing``: who did not agree to found."""
        if self.rejoin is not None:
            reason = self._directory.may_not_vote
            return f"may not vote: {reason}{ADOPT if reason == COPIED else ''}"
        if self.founding is None or self.founding.founded:
            return ""
        nobody = f"none has agreed yet of node {', '.join(map(str, missing))}"
        said = nobody if missing else "the first round of asking is not over"
        return f"not founded: a cluster is founded by all of its voters, and {said}"

    # ── forgetting, and coming back ──

    def forget(self, reason: str, done: Callable[[], None] | None = None) -> None:
        """From here on this node's votes and acknowledgements count for nothing, until it has come back. What it asked
        before is asked again: another copy of this directory may have spoken since.
        """
        self.rejoin = self._questions()
        self._ask_at = self._ports.scheduler.monotonic()
        self.back_seq = None
        self._outbox.held.clear()
        self._directory.save_later(self._ports.worker, done, may_not_vote=reason, admitted=False)
        if self._core.role is not Role.FOLLOWER:
            self._core.resign()
        self._turns.ask()

    def go_on(self, rejoin: Rejoin, leader: NodeId | None, now: float, *, installing: bool) -> None:
        """Ask, or be back."""
        core, journal = self._core, self._journal
        applied = Index(self._ports.machine.applied_index())
        if rejoin.complete(applied, Index(journal.durable_index)) and not installing:
            # One vote per term (Raft §5.2), also of a node that does not know which it gave: every term that somebody
            # remembers counts as voted in, for nobody. The mark is in the journal before ``back_seq``, so no vote
            # leaves, and the directory does not say that it may vote, before that is durable.
            core.adopt_term(rejoin.learned_term)
            core.forbid_vote()
            self.back_seq = journal.seq
            self.rejoin = None
            if self.founding is not None:
                self.founding.settle()
        elif now >= self._ask_at:
            self._ask_at = now + self._settings.rejoin_ask_s
            for peer, question in rejoin.questions(leader, core.term):
                self._outbox.send(peer, question)

    def record_return(self, back_seq: int) -> None:
        """Once the journal is durable up to there."""
        if self._journal.durable_seq >= back_seq:
            self.back_seq = None
            self._directory.save_later(self._ports.worker, may_not_vote="", admitted=True)

    def on_rejoin_ask(self, peer: NodeId, message: RejoinAsk) -> None:
        """A node that lost its journal asks for our term. One that forgot as well has none worth telling.

        Before the founding is applied here nobody is told: this node does not know yet which directories the log names,
        and may hear one that it does not.
        """
        facts = self._ports.facts
        if self.rejoin is None and facts is not None and facts.founders() is None:
            return
        self._outbox.send(peer, RejoinTerm(message.nonce, self._core.term, self.rejoin is None))

    def on_rejoin_term(self, peer: NodeId, message: RejoinTerm) -> None:
        """An answer to that."""
        if self.rejoin is not None:
            self.rejoin.on_term(peer, message)

    def on_rejoin_index(self, _: NodeId, message: RejoinIndex) -> None:
        """The leader's: what to hold before this node may vote."""
        if self.rejoin is not None:
            self.rejoin.on_index(message)

    def on_you_lost(self, peer: NodeId, message: YouLost) -> None:
        """The leader has proof that this node does not hold what it acknowledged. It may have lost votes with it, so it
        comes back like a node that lost its journal.
        """
        if message.term == self._core.term and peer == self._core.leader_id and self.rejoin is None:
            self.forget(LOST_ACKNOWLEDGED.format(peer=peer, index=message.index))


def store_was_lost(applied: Index, base: Index) -> bool:
    """Was the store made anew, or did it lose what it had synced? The journal speaks for all that was acknowledged."""
    return base > 1 and applied < base
