"""Where each entry of the log is on disk, and its term, in eight bytes per entry.

Rules: indexes are consecutive from ``base.index + 1``; terms never fall. ``base`` is the last entry that was forgotten.
"""

from array import array
from bisect import bisect_right

from quorate.consensus.journal.frames import Point
from quorate.consensus.ports import Index, Term


class LogIndex:
    """Positions (segment id << 32 | offset of the frame) by index; terms as runs."""

    def __init__(self, base: Point) -> None:
        self.reset(base)

    def reset(self, base: Point) -> None:
        """Nothing but ``base``."""
        self.base = base
        self.last_index: int = base.index
        self.last_term: int = base.term
        self._positions = array("Q")
        self._run_starts: list[int] = []
        self._run_terms: list[int] = []

    def append(self, term: int, position: int) -> None:
        """One more entry, at ``last_index + 1``."""
        self._positions.append(position)
        self.last_index += 1
        if term != self.last_term or not self._run_starts:
            self._run_starts.append(self.last_index)
            self._run_terms.append(term)
            self.last_term = term

    def positions(self, start: int, count: int) -> "array[int]":
        """Of up to ``count`` entries from ``start`` on; they rise."""
        at = start - self.base.index - 1
        return self._positions[at : at + count]

    def term_at(self, index: int) -> Term | None:
        """Its term, also of the base; None when it is not there."""
        if index > self.last_index or index < self.base.index:
            return None
        if index == self.base.index:
            return self.base.term
        if index >= self._run_starts[-1]:
            return Term(self._run_terms[-1])
        return Term(self._run_terms[bisect_right(self._run_starts, index) - 1])

    def run_at(self, index: int) -> tuple[Term, int]:
        """The term of an entry above the base and at most the last, and the last index of the run of that term."""
        run = len(self._run_starts) - 1
        if index >= self._run_starts[run]:
            return Term(self._run_terms[run]), self.last_index
        run = bisect_right(self._run_starts, index) - 1
        return Term(self._run_terms[run]), self._run_starts[run + 1] - 1

    def truncate_from(self, index: int) -> None:
        """Forget ``index`` and all after it; above the base."""
        del self._positions[index - self.base.index - 1 :]
        while self._run_starts and self._run_starts[-1] >= index:
            self._run_starts.pop()
            self._run_terms.pop()
        self.last_index = index - 1
        self.last_term = self._run_terms[-1] if self._run_terms else self.base.term

    def trim_to(self, base: Point) -> None:
        """Forget everything up to ``base``, which is between the present base and the last entry."""
        del self._positions[: base.index - self.base.index]
        keep = bisect_right(self._run_starts, base.index + 1) - 1
        if keep > 0:
            del self._run_starts[:keep]
            del self._run_terms[:keep]
        if base.index == self.last_index:
            self.reset(base)
        else:
            self._run_starts[0] = max(self._run_starts[0], base.index + 1)
            self.base = base

    @property
    def last(self) -> Point:
        """The last entry, or the base when there is none."""
        return Point(Index(self.last_index), Term(self.last_term))
