"""Many things to do, at once or at their times: heartbeats, reads and writes come between, and there is no timer each.

Rules: of many at once the first is done in the next turn of the loop, each further one after a rest; items that need
nothing after all cost none. A lone item is never late. Timers are eight objects each, which Python's cycle collector
looks at twice: two thousand of them made it stop a node for 5-10 ms.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Final, Generic, TypeVar

from quorate.clock import Scheduler
from quorate.controller.settings import ControllerSettings

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


LOOKS_PER_TURN: Final = 64
"""Items that need nothing which are gone through in one turn."""


class PacedQueue(Generic[K]):
    """A queue in which an item waits once, however often it is added; ``do`` says whether it needed anything done."""

    def __init__(self, scheduler: Scheduler, rest_s: float, do: Callable[[K], bool]) -> None:
        self._scheduler = scheduler
        self._rest_s = rest_s
        self._do = do
        self._items: OrderedDict[K, None] = OrderedDict()
        self._due = False
        """Is a turn asked for? Also after the last item: one that comes soon after it waits for the rest to end."""

    def __len__(self) -> int:
        return len(self._items)

    def add(self, items: Iterable[K]) -> None:
        """Behind those that wait already."""
        self._items.update(dict.fromkeys(items))
        if self._items and not self._due:
            self._due = True
            self._scheduler.call_soon(self._next)

    def clear(self) -> None:
        """Forget what waits."""
        self._items.clear()

    def _next(self) -> None:
        self._due, looks = False, 0
        try:
            while self._items and not self._due and looks < LOOKS_PER_TURN:
                looks += 1
                item, _ = self._items.popitem(last=False)
                if self._do(item):
                    self._due = True
                    self._scheduler.call_later(self._rest_s, self._next)
        finally:  # Whatever is the matter with one of them, or however many they are, the others have their turn.
            self.add(())


class SomeATurn(Generic[T]):
    """Goes once through many items, some in each turn of the loop, until it begins anew or is stopped."""

    def __init__(self, scheduler: Scheduler, do: Callable[[T], object]) -> None:
        self._scheduler = scheduler
        self._do = do
        self._items: Iterator[T] | None = None

    @property
    def under_way(self) -> bool:
        """May there be more?"""
        return self._items is not None

    def begin(self, items: Iterable[T], most: int) -> None:
        """So many at once, and as many in each further turn."""
        self._items = iter(items)
        self._some(self._items, most)

    def stop(self) -> None:
        """Forget the rest."""
        self._items = None

    def _some(self, items: Iterator[T], most: int) -> None:
        if items is not self._items:
            return
        found = tuple(islice(items, most))
        for item in found:
            self._do(item)
        if len(found) == most:
            self._scheduler.call_soon(lambda: self._some(items, most))
        else:
            self._items = None


class Agenda(Generic[T]):
    """What is due at its time, in a queue that its owner bounds; looked at every ``period_s`` while anything waits."""

    def __init__(self, scheduler: Scheduler, period_s: float, do: Callable[[T], None]) -> None:
        self._scheduler = scheduler
        self._period_s = period_s
        self._do = do
        self._items: list[tuple[float, int, T]] = []
        self._count = 0
        self._rings = False

    def add(self, delay_s: float, item: T) -> None:
        """To be done then, or up to one period later."""
        self._count += 1
        heappush(self._items, (self._scheduler.monotonic() + delay_s, self._count, item))
        if not self._rings:
            self._rings = True
            self._scheduler.call_later(self._period_s, self._ring)

    def clear(self) -> None:
        """Forget what waits."""
        self._items.clear()

    def _ring(self) -> None:
        """One that is due; further ones in turns of their own."""
        now = self._scheduler.monotonic()
        try:
            if self._items and self._items[0][0] <= now:
                self._do(heappop(self._items)[2])
        finally:  # Whatever is the matter with one of them, the others have their time.
            self._ring_again(now)

    def _ring_again(self, now: float) -> None:
        self._rings = bool(self._items)
        if self._rings and self._items[0][0] <= now:
            self._scheduler.call_soon(self._ring)
        elif self._rings:
            self._scheduler.call_later(self._period_s, self._ring)


class UntilDone(Generic[K]):
    """Items that are tried, one at a time, until they are done: again with growing pauses, and each waits once.

    ``do`` begins with one; False: it needs nothing after all, and is at its end already or comes again.
    """

    def __init__(self, scheduler: Scheduler, settings: ControllerSettings, do: Callable[[K], bool]) -> None:
        self._settings = settings
        self._waits: dict[K, float] = {}
        """What is not done yet, and how long it waits before it is tried once more."""
        self._queue: PacedQueue[K] = PacedQueue(scheduler, settings.topic_push_rest_s, self._next)
        self._do = do
        self._agenda: Agenda[K] = Agenda(scheduler, settings.deadline_sweep_s, self._due)

    def __len__(self) -> int:
        return len(self._waits)

    def __contains__(self, item: K) -> bool:
        return item in self._waits

    def add(self, items: Iterable[K]) -> None:
        """To be done, whatever became of them before."""
        wanted = dict.fromkeys(items, self._settings.role_push_backoff_s)
        self._waits.update(wanted)
        self._queue.add(wanted)

    def again(self, item: K) -> None:
        """Once more, after its pause."""
        wait_s = self._waits[item]
        self._waits[item] = min(wait_s * 2, self._settings.role_push_backoff_max_s)
        self._agenda.add(wait_s, item)

    def end(self, item: K) -> None:
        """It is done, or nobody needs it."""
        self._waits.pop(item, None)

    def clear(self) -> None:
        """Forget what waits."""
        self._waits.clear()
        self._queue.clear()
        self._agenda.clear()

    def _next(self, item: K) -> bool:
        """One that ended while it stood in the queue is passed over."""
        return item in self._waits and self._do(item)

    def _due(self, item: K) -> None:
        if item in self._waits:
            self._queue.add([item])
