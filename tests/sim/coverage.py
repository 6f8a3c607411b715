"""Which faults met which requests: what a run of the simulator can say it has tried.

Rules: it only counts. A request *meets* a fault when it is under way as the fault strikes, or begins while it lasts.

Theory: faults and requests that are frequent each may still never meet (the bugs Jepsen found in TigerBeetle were
missed by a simulator whose workload was too weak, not its faults). So the pairs are counted, and a run that saw too few
of one fails (``minima``).
"""

from collections import Counter
from collections.abc import Callable

from tests.sim.world import World

MOMENT_S = 0.1
"""How long a fault that is over at once still counts."""


class Coverage:
    """Counts of (fault, request)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.met: Counter[tuple[str, str]] = Counter()
        self._open: Counter[str] = Counter()
        self._lasting: dict[str, float] = {}
        self.installing: Callable[[], bool] = lambda: False

    def strike(self, fault: str, for_s: float = 0.0) -> None:
        """A fault strikes, and lasts ``for_s``."""
        self._lasting[fault] = max(self._lasting.get(fault, 0.0), self._world.now + max(for_s, MOMENT_S))
        for kind, count in self._open.items():
            if count:
                self.met[fault, kind] += 1
        if self.installing():
            self.met[fault, "snapshot"] += 1

    def begin(self, kind: str) -> Callable[[], None]:
        """A request begins; call what is returned once it is over."""
        self.note(kind)
        self._open[kind] += 1
        over = False

        def end() -> None:
            nonlocal over
            if not over:
                over = True
                self._open[kind] -= 1

        self._world.after(2.0, end)  # Whoever asked has given up by then.
        return end

    def note(self, kind: str) -> None:
        """Something happened, all at once."""
        now = self._world.now
        for fault, until in list(self._lasting.items()):
            if until >= now:
                self.met[fault, kind] += 1
            else:
                del self._lasting[fault]
