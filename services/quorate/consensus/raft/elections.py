"""Who asks for votes, who gets them, and for whom.

Rules: nobody raises its term before a majority said that it would vote (pre-vote, dissertation §9.6). A voter that
hears its leader votes for nobody else (§4.2.3), unless that leader asked for it (§3.10). A vote, and the request of
one, leaves when it is durable. A cluster without a founded log elects only by the votes of all (founding.py).
"""

from quorate.consensus.ports import TERM_MAX, Index, LeaderCause, NodeId, Term
from quorate.consensus.raft.applying import Applying
from quorate.consensus.raft.common import Common, unsynced_s
from quorate.consensus.raft.core import Role
from quorate.consensus.raft.election_timing import ElectionTiming
from quorate.consensus.raft.founding import UNFOUNDED
from quorate.consensus.raft.membership import Membership
from quorate.consensus.raft.pace import Pace
from quorate.consensus.transport.codec import (
    PreVote,
    PreVoteAnswer,
    RequestVote,
    TermNotice,
    TimeoutNow,
    VoteGranted,
)
from quorate.errors import InvariantBrokenError


class Elections:
    """Owns when to ask (``timing``), what this node stands for, and which candidacy it is answering."""

    def __init__(self, common: Common, membership: Membership, applying: Applying, pace: Pace) -> None:
        ports = common.ports
        self._me, self._others, self._settings = common.node_id, common.others, common.settings
        self._core, self._journal, self._outbox = common.core, ports.journal, common.outbox
        self._clock = ports.scheduler
        self._membership = membership
        self._applying = applying
        now = ports.scheduler.monotonic()
        self.timing = ElectionTiming(common.node_id, common.voters, common.settings, pace, ports.rng, now)
        self.cause = LeaderCause("silent")
        """Of this node's last candidacy."""
        self._first_start = ports.journal.term == 0 and membership.voting
        self._handover = False
        self._answering_ballot = 0

    @property
    def leader(self) -> NodeId | None:
        """Who this node believes leads; None while unknown. A leader that was silent for longer than any election
        timeout is nobody's any more: whoever asks is told so, also while nobody can be elected instead and the
        connection to it stays open.
        """
        leader = self._core.leader_id
        if leader is None or leader == self._me:
            return leader
        silent_s = self._clock.monotonic() - self.timing.heard_at
        return leader if silent_s <= self._settings.election_timeout_max_s else None

    @property
    def _standing(self) -> bool:
        """May it ask for votes? Not while its store, but not yet its journal, is at a snapshot: it could not win."""
        applying = self._applying
        return self._membership.voting and not applying.installer.switching and not applying.needs_state

    def role_changed(self, old: Role, new: Role) -> None:
        """The timing hears of a leadership that ended; a handover is over with its candidacy."""
        if old is Role.LEADER:
            self.timing.deposed(self._clock.monotonic(), self._me)
        if new is not Role.CANDIDATE:
            self._handover = False

    # ── standing ──

    def ask(self, now: float) -> None:
        """It is time to ask who would vote for this node."""
        core, journal, membership = self._core, self._journal, self._membership
        if core.term >= TERM_MAX:
            raise InvariantBrokenError(
                f"term {TERM_MAX} is the last that a log can hold: nobody can be elected after it"
            )
        membership.counts()
        if membership.founding is not None:
            self.timing.unanimous = not membership.founding.founded
        round_ = self.timing.ask(now)
        waits_since = self._applying.waits_since
        waits_s = 0.0 if waits_since is None else now - waits_since
        busy = max(unsynced_s(journal, now), waits_s) > self._settings.heartbeat_s
        if not self._standing or busy:
            return
        term = Term(core.term + 1)
        for peer in self._others:
            listed = membership.lists(peer)
            self._outbox.send(peer, PreVote(term, round_, journal.last_index, journal.last_term, listed))
        if self.timing.would_win():
            self.campaign(now)

    def campaign(self, now: float, *, handover: bool = False) -> None:
        """Be a candidate at once."""
        founding = self._membership.founding
        self._handover = handover
        if founding is not None:
            founding.stand()
            self.timing.unanimous = not founding.founded
        self.cause = self.timing.cause(now, handover=handover, first=self._first_start)
        self.timing.campaign(now)
        self._core.stand()

    def ask_vote(self, peer: NodeId, term: Term, last_index: Index, last_term: Term) -> None:
        """Send a vote request, when the candidacy, which is a vote for itself, is durable."""
        listed = self._membership.lists(peer)
        self._outbox.hold(peer, RequestVote(term, self.timing.ballot, last_index, last_term, self._handover, listed))

    def on_pre_vote_answer(self, peer: NodeId, message: PreVoteAnswer) -> None:
        """The voter's term is adopted: else a node with an older term and a longer log and one with a newer term and a
        shorter log refuse each other for ever.
        """
        core = self._core
        core.adopt_term(message.term)
        if (
            message.granted
            and core.role is not Role.LEADER
            and self._standing
            and self.timing.would_win(message.round, peer)
        ):
            self.campaign(self._clock.monotonic())

    def on_vote(self, peer: NodeId, message: VoteGranted) -> None:
        """For this candidacy, or for one that is over."""
        core, founding = self._core, self._membership.founding
        if message.term != core.term or not self.timing.first_vote_of(peer, message.term, message.ballot):
            return
        if founding is None or not self.timing.unanimous:
            core.vote_granted(peer, message.term)
        elif founding.voted(peer, message.incarnation):  # It counts a majority: no word before all.
            for voter in self._others:
                core.vote_granted(voter, message.term)

    def on_timeout_now(self, peer: NodeId, message: TimeoutNow) -> None:
        """The leader hands over: stand without asking first."""
        self._membership.counts()
        if message.term == self._core.term and peer == self._core.leader_id and self._standing:
            self.campaign(self._clock.monotonic(), handover=True)

    # ── voting ──

    def on_pre_vote(self, peer: NodeId, message: PreVote) -> None:
        """Would this node vote? It binds nobody, so nothing is written."""
        core, journal, now = self._core, self._journal, self._clock.monotonic()
        granted = (
            self._membership.would_vote(message.listed)
            and core.role is not Role.LEADER
            and not self.timing.protects_leader(now)
            and message.term > core.term
            and (message.last_term, message.last_index) >= (journal.last_term, journal.last_index)
        )
        if granted:
            self.timing.would_vote_for(peer, now)
        self._outbox.send(peer, PreVoteAnswer(core.term, message.round, granted))

    def on_request_vote(self, peer: NodeId, message: RequestVote) -> None:
        """A candidate asks."""
        core = self._core
        protects = core.role is Role.LEADER or self.timing.protects_leader(self._clock.monotonic())
        if not self._membership.would_vote(message.listed) or (protects and not message.handover):
            return
        if message.term < core.term:
            self._outbox.send(peer, TermNotice(core.term))
            return
        self._answering_ballot = message.ballot
        core.request_vote(peer, message.term, message.last_index, message.last_term)

    def grant_vote(self, peer: NodeId, term: Term) -> None:
        """Send a vote, when it is durable: a voter that forgot it could give a second one in the same term."""
        self.timing.votes(self._clock.monotonic())
        founding = self._membership.founding
        mine = UNFOUNDED if founding is None else founding.me
        self._outbox.hold(peer, VoteGranted(term, self._answering_ballot, mine))

    def on_term_notice(self, _: NodeId, message: TermNotice) -> None:
        """Whatever this node said was of a term that is over."""
        self._core.adopt_term(message.term)
