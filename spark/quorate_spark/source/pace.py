"""How often something may be done, and for how long it may be tried: the only reader of clocks in the source."""

import time
from collections.abc import Callable

Seconds = Callable[[], float]
Sleep = Callable[[float], None]


class Pace:
    """At most one turn in each interval; ``interval_ms`` 0 = as often as one likes."""

    def __init__(self, interval_ms: int, now: Seconds = time.monotonic, sleep: Sleep = time.sleep) -> None:
        self._interval_s = interval_ms / 1000
        self._now = now
        self._sleep = sleep
        self._last: float | None = None

    def wait(self) -> None:
        """Take the next turn, waiting for it when it is early."""
        if self._last is not None:
            early = self._last + self._interval_s - self._now()
            if early > 0:
                self._sleep(early)
        self._last = self._now()

    def due(self) -> bool:
        """Take the turn if it is time, without waiting."""
        if self._last is not None and self._now() < self._last + self._interval_s:
            return False
        self._last = self._now()
        return True


class Deadline:
    """A time that runs out unless there is progress."""

    def __init__(self, timeout_ms: int, now: Seconds = time.monotonic) -> None:
        self._timeout_s = timeout_ms / 1000
        self._now = now
        self._end = now() + self._timeout_s

    def progress(self) -> None:
        """Start anew."""
        self._end = self._now() + self._timeout_s

    @property
    def left_s(self) -> float:
        """Seconds left, never negative."""
        return max(self._end - self._now(), 0.0)

    @property
    def over(self) -> bool:
        """Has it run out?"""
        return self._now() >= self._end
