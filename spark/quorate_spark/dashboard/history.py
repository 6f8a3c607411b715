"""The state at any offset: checkpoints of immutable values, and the events after them.

Rules: at most ``checkpoints_max`` checkpoints: when there are more, every second one goes and their distance doubles,
so that memory has a bound and a replay costs one such distance. States asked for are remembered, the latest few: the
next question is mostly about the offset beside the last one. ``append`` on one thread; ``at`` on any one other.
"""

from collections import OrderedDict

from quorate_spark.dashboard.fold import evolve
from quorate_spark.dashboard.model import EMPTY, State
from quorate_spark.dashboard.spool import Fact, Spool

CHECKPOINT_EVENTS = 512
"""Distance of checkpoints to begin with."""
CHECKPOINTS_MAX = 128
REMEMBERED_MAX = 32


class History:
    """States by offset."""

    def __init__(self, spool: Spool, *, every: int = CHECKPOINT_EVENTS, checkpoints_max: int = CHECKPOINTS_MAX) -> None:
        self._spool = spool
        self._every = every
        self._checkpoints_max = checkpoints_max
        self._checkpoints: list[State] = [EMPTY]
        self._remembered: OrderedDict[int, State] = OrderedDict()
        self.tip = EMPTY
        """The newest state."""

    def append(self, fact: Fact) -> None:
        """One more event, which the spool has already. Raises InvariantBrokenError."""
        self.tip = evolve(self.tip, fact.event, fact.stamp)
        if self.tip.offset % self._every == 0:
            self._checkpoints.append(self.tip)
            if len(self._checkpoints) > self._checkpoints_max:
                self._every *= 2
                self._checkpoints = [state for state in self._checkpoints if state.offset % self._every == 0]

    @property
    def distance(self) -> int:
        """Events between checkpoints: what a replay costs at most."""
        return self._every

    def at(self, offset: int) -> State:
        """The state of the first ``offset`` events, of which there must be so many."""
        tip = self.tip
        if offset == tip.offset:
            return tip
        state = self._remembered.get(offset)
        if state is None:
            state = self._nearest(offset)
            for fact in self._spool.facts(state.offset, offset):
                state = evolve(state, fact.event, fact.stamp)
            self._remembered[offset] = state
            if len(self._remembered) > REMEMBERED_MAX:
                self._remembered.popitem(last=False)
        else:
            self._remembered.move_to_end(offset)
        return state

    def _nearest(self, offset: int) -> State:
        best = EMPTY
        for state in (*self._checkpoints, *tuple(self._remembered.values()), self.tip):
            if best.offset < state.offset <= offset:
                best = state
        return best
