"""Has this node applied what is committed? A restarted one may be far behind, and yet know its leader.

Rules: judged by time, as Kafka judges its followers: a node is caught up if no longer than ``CAUGHT_UP_S`` ago it had
applied all that was committed then. So a change of leaders and a short lag do not change it, and nobody waits to ask.
A leader's word alone is not enough at the beginning of its term: it does not know then which entries are committed
(Raft §8), and who has applied one of its term has applied all of them.
"""

from quorate.consensus.ports import Index, Term
from quorate.consensus.raft.applying import Applying
from quorate.consensus.raft.common import Common
from quorate.consensus.raft.core import Role

CAUGHT_UP_S = 10.0


class CaughtUp:
    """Owns up to where this node must apply, by its leader's word, and when it was last seen to have done so."""

    def __init__(self, common: Common, applying: Applying) -> None:
        self._core, self._machine, self._clock = common.core, common.ports.machine, common.ports.scheduler
        self._applying = applying
        self._goal: tuple[Term, Index, float] | None = None
        """The leader of that term had committed so much, then."""
        self._at: float | None = None

    def told(self, term: Term, commit: Index) -> None:
        """The leader of the current term says what is committed."""
        if self._goal is None or self._reached(*self._goal):
            self._goal = (term, commit, self._clock.monotonic())

    def _reached(self, term: Term, index: Index, at: float) -> bool:
        if self._applying.applied < index or self._machine.applied_term() < term:
            return False
        self._at = at
        return True

    def now(self) -> bool:
        """Is it?"""
        core, now = self._core, self._clock.monotonic()
        if core.role is Role.LEADER:
            self._reached(core.term, Index(0), now)
        elif self._goal is not None:
            self._reached(*self._goal)
        return self._at is not None and now - self._at <= CAUGHT_UP_S
