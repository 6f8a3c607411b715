"""When to ask for votes, and whom to protect; ``Elections`` asks and answers.

Rules: no clock, no timer, nothing sent: whoever calls says what time it is.
"""

import random
from collections.abc import Sequence
from typing import Literal

from quorate.consensus.ports import LeaderCause, NodeId, Term
from quorate.consensus.raft.pace import Pace
from quorate.consensus.settings import EngineSettings

_DOUBLINGS_MAX = 10
"""Of the time a candidacy gets; it is bounded by the election timeout long before."""


class ElectionTiming:
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
        self._waited_for: set[NodeId] = set()
        """Whose pre-votes were granted since a leader was heard or a vote given."""
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

    def slept(self, seconds: float, now: float) -> None:
        """This node took no turn for so long: nobody was silent meanwhile. It may have read its sockets since: what it
        heard then is no later than now.
        """
        self.heard_at = min(self.heard_at + seconds, now)
        if self._patience is not None:
            since, share = self._patience
            seconds = min(seconds, now - since)
            self._patience = (since + seconds, share)
        self.due_at = max(self.due_at, min(self.due_at + seconds, now + self._pace.timeout_max_s))

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
        self._waited_for.clear()
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
        self._waited_for.clear()
        self.heard_at = now
        self.previous_leader = leader
        self.due_at = now + self._timeout()

    def would_vote_for(self, peer: NodeId, now: float) -> None:
        """A pre-vote was granted: the peer may win soon. It is waited for once: one that asks again and again does not
        hear the answers, or has no majority, and would keep all others from standing.
        """
        if peer not in self._waited_for:
            self._waited_for.add(peer)
            self.due_at = max(self.due_at, now + self._retry())

    def votes(self, now: float) -> None:
        """A vote was granted, which has to become durable first."""
        self._waited_for.clear()
        self.due_at = max(self.due_at, now + self._timeout() + self._pace.sync_s)

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
