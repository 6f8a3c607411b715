"""A line that repeats itself is said once, and then counted: a log tells of a thousand refusals in a handful of lines.

Rules: the first of its kind is said at once. Those of the next period are one line at its end, with their count; kinds
are as few as the caller's keys. Time is an argument.
"""

from collections.abc import Callable, Hashable

from quorate.clock import Timer


class LogThrottle:
    """Lines of one source. ``say`` gets a line's fields; of one that stands for many, ``more`` and ``within_s`` too."""

    def __init__(
        self, period_s: float, call_later: Callable[[float, Callable[[], None]], Timer], say: Callable[..., object]
    ) -> None:
        self._period_s = period_s
        self._call_later = call_later
        self._say = say
        self._quiet: dict[Hashable, int] = {}
        """Kind → how many were not said in this period."""
        self._last: dict[Hashable, dict[str, object]] = {}
        self._timer: Timer | None = None

    def tell(self, kind: Hashable, /, **fields: object) -> None:
        """Say it, or count it."""
        if kind in self._quiet:
            self._quiet[kind] += 1
            self._last[kind] = fields
            return
        self._quiet[kind] = 0
        self._say(**fields)
        if self._timer is None:
            self._timer = self._call_later(self._period_s, self._ended)

    def _ended(self) -> None:
        """A period is over: tell of what was counted; who was not heard again is forgotten."""
        counted = {kind: count for kind, count in self._quiet.items() if count}
        self._quiet = dict.fromkeys(counted, 0)
        for kind, count in counted.items():
            self._say(**self._last.pop(kind), more=count, within_s=self._period_s)
        self._timer = self._call_later(self._period_s, self._ended) if counted else None

    def stop(self) -> None:
        """Say nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
