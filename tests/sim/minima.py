"""What a run of the simulator must have seen, by what runs see on average.

Rules: a run of fewer than ``FROM`` seeds is held to nothing. From there on half of the average is due of everything in
``minima.toml``, less what chance may take away. ``python -m tests.sim --seeds 1..2000 --learn`` writes the file.

Theory: what is counted comes in clumps (a fault that strikes meets all that is under way), so its variance is a
multiple of its average: the *clump*, index of dispersion of a compound Poisson process. With five standard deviations
left to chance, none of some five hundred counts should ever fall short by it alone; the more seeds, the nearer to half.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping
from math import sqrt
from pathlib import Path

PATH = Path(__file__).parent / "minima.toml"
FROM = 50
DEVIATIONS = 5
SEEN_AT_LEAST = 2
"""Of a hundred seeds, on average. What is rarer is left out: chance alone decides whether a run sees it."""


def seen(counts: Mapping[str, int], met: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Counts, and how often a request met a fault, by one kind of name."""
    return dict(counts) | {f"{request} under {fault}": count for (fault, request), count in met.items()}


class Expected:
    """What so many seeds see. ``of`` gives the average of a hundred seeds and the clump."""

    def __init__(self, of: Mapping[str, tuple[float, float]]) -> None:
        self._of = of

    @classmethod
    def read(cls) -> "Expected":
        """What was learned."""
        return cls.parse(PATH.read_text())

    @classmethod
    def parse(cls, text: str) -> "Expected":
        """What a file says. Raises ``ValueError`` where it is none."""
        return cls({name: (average, clump) for name, (average, clump) in tomllib.loads(text).items()})

    def names(self) -> set[str]:
        """All that is asked for."""
        return set(self._of)

    def due(self, name: str, seeds: int) -> int:
        """The least that so many seeds must see of it."""
        per_hundred, clump = self._of[name]
        average = per_hundred * seeds / 100
        return max(int(min(average / 2, average - DEVIATIONS * sqrt(average * clump))), 0)

    def shortfalls(self, counts: Mapping[str, int], seeds: int) -> list[str]:
        """What so many seeds saw too little of, in words."""
        if seeds < FROM:
            return []
        dues = [(name, counts.get(name, 0), self.due(name, seeds)) for name in self._of]
        return [f"{name} {count} < {least}" for name, count, least in dues if count < least]


class Learned:
    """Counts as they come, seed by seed."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._squares: Counter[str] = Counter()
        self._seeds = 0

    def add(self, counts: Mapping[str, int]) -> None:
        """A seed saw this."""
        self._seeds += 1
        self._sums.update(counts)
        self._squares.update({name: count * count for name, count in counts.items()})

    def text(self) -> str:
        """The file."""
        lines = ["# Written by `python -m tests.sim --learn`: the average of a hundred seeds, and the clump."]
        lines += [self._line(name) for name in sorted(self._sums) if self._average(name) * 100 >= SEEN_AT_LEAST]
        return "\n".join(lines) + "\n"

    def _average(self, name: str) -> float:
        return self._sums[name] / self._seeds

    def _line(self, name: str) -> str:
        average = self._average(name)
        clump = (self._squares[name] / self._seeds - average * average) / average
        return f'"{name}" = [{average * 100:.1f}, {max(clump, 1.0):.1f}]'
