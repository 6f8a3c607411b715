"""Writes that come while others are under way are begun together, once those have ended.

Rules: whoever comes alone waits for nobody; of many each waits for the end of those before it, at most ``hold_s``.

Theory: grpcio hands over one call at a time. Each write would have a sync and an apply of its own, where those of many
clients of remoting are read in one turn and share them.
"""

from collections.abc import Callable

from quorate.clock import Scheduler, Timer


class Gathering:
    """Of one listener, whose bound on calls bounds what waits."""

    def __init__(self, scheduler: Scheduler, hold_s: float) -> None:
        self._scheduler, self._hold_s = scheduler, hold_s
        self._open = 0
        """Those that wait and those under way."""
        self._waiting: list[Callable[[], None]] = []
        self._timer: Timer | None = None

    def begin(self, write: Callable[[], None]) -> None:
        """Run it now, or soon with others; it must not raise. ``ended`` is called once for each, run or not yet."""
        self._open += 1
        self._waiting.append(write)
        if self._none_before():
            self._release()
        elif self._timer is None:
            self._timer = self._scheduler.call_later(self._hold_s, self._release)

    def ended(self) -> None:
        """One has its answer, or its caller has given up."""
        self._open -= 1
        if self._waiting and self._none_before():
            self._release()

    def _none_before(self) -> bool:
        """Is nothing under way before those that wait?"""
        return self._open <= len(self._waiting)

    def _release(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        waiting, self._waiting = self._waiting, []
        self._scheduler.take_turn(lambda: _run(waiting))


def _run(writes: list[Callable[[], None]]) -> None:
    for write in writes:
        write()
