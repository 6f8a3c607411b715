"""Which broker sets a leader has to look at: those something happened to, those whose time has come, a few in turn.

Rules: a pass costs what changed, never what is silent: ten thousand ids that nobody was ever heard of cost nothing
between the moments that concern them. Each set is here once. What was forgotten here for whatever reason is found by
the round, which looks at a fixed number of sets a pass.
"""

from collections.abc import Collection, Iterator
from heapq import heappop, heappush
from itertools import islice


class Watchlist:
    """Names of broker sets; times are monotonic seconds."""

    def __init__(self, round_sets: int) -> None:
        self._round_sets = round_sets
        self._changed: dict[str, None] = {}
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._round: Iterator[str] = iter(())

    def __len__(self) -> int:
        """Sets that wait, for the next pass or for their time."""
        return len(self._changed.keys() | self._due.keys())

    def clear(self) -> None:
        """Forget all of it."""
        self._changed.clear()
        self._due.clear()
        self._heap.clear()

    def changed(self, broker_set: str) -> None:
        """Look at it in the next pass."""
        self._changed[broker_set] = None

    def at(self, broker_set: str, when: float) -> None:
        """Look at it in the first pass after ``when``; the earliest time asked for holds."""
        due_at = self._due.get(broker_set)
        if due_at is None or when < due_at:
            self._due[broker_set] = when
            heappush(self._heap, (when, broker_set))

    def take(self, sets: Collection[str], now: float) -> list[str]:
        """The sets to look at now. ``sets``: all there are; only as many as the round's share are visited."""
        while self._heap and self._heap[0][0] <= now:
            when, name = heappop(self._heap)
            if self._due.get(name) == when:
                del self._due[name]
                self._changed[name] = None
        taken, self._changed = self._changed, {}
        share = list(islice(self._round, self._round_sets))
        if len(share) < self._round_sets:
            self._round = iter(sorted(sets))  # One round is like the last, whatever the order of the map.
        taken.update(dict.fromkeys(share))
        return list(taken)
