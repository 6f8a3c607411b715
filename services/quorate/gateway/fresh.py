"""How fresh an answer must be, and the one way a gateway comes to a state that is (docs/reads.md).

Rules: a read is *linearizable* (it reflects what was committed before it), *at least* some offset (it waits until this
node has applied so much), *stale* (what this node has applied), or of the past (*at* an offset). Waiting is bounded in
time and number; how a read can fail is said in the words of every gateway.
"""

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from quorate.clock import Scheduler
from quorate.controller import Busy, Listener, Listeners, ReadResult, ReadView
from quorate.errors import UsageError
from quorate.history.past import NoAnswer
from quorate.model.live import Silence

Level = Literal["linearizable", "stale"]
LEVELS = ("linearizable", "at_least", "stale")
OFFSET_MAX = (1 << 62) - 1


class Freshness(msgspec.Struct, frozen=True):
    """How fresh an answer must be; or, with ``at``, which past is asked about (the events before that offset)."""

    linearizable: bool = True
    min_offset: int = 0
    at: int | None = None


class NotFresh(msgspec.Struct, frozen=True):
    """Why there is no such state, now: nothing happened."""

    reason: Literal["busy", "throttled", "unavailable", "behind", "beyond_end"]
    message: str
    end_offset: int | None = None
    """``behind`` and ``beyond_end``: how far this node, or the log, is."""
    leader: int | None = None
    """``unavailable``: who led, as far as this node knows."""
    past: bool = False
    """``unavailable``: there may be a leader; it is the past that could not be had."""


Seen = Callable[[ReadView | NotFresh], None]


class Present(Protocol):
    """The part of ``quorate.controller.Controller`` that a reader needs."""

    @property
    def leader_id(self) -> int | None:
        """The leader's id, as far as this node knows."""

    @property
    def offset(self) -> int:
        """End of what is applied here."""

    def view(self) -> ReadView:
        """The state that this node has applied."""

    def read(
        self, level: Level, done: Callable[[ReadResult], None], *, forward: bool, timeout_s: float | None = None
    ) -> None:
        """Look at this node's state."""


class History(Protocol):
    """The part of ``quorate.history.past.Past`` that a reader needs."""

    def at(self, offset: int, done: Callable[[ReadView | NoAnswer], None], timeout_s: float | None = None) -> None:
        """The state after the events before an offset that is applied here."""


def is_past(view: ReadView) -> bool:
    """Is it a state of the past, of which no heartbeat is known?"""
    return isinstance(view.live, Silence)


def asked(level: str, min_offset: str, at: str, default: Level = "linearizable") -> Freshness:
    """The freshness that a request names; each text may be empty. Raises UsageError."""
    if at:
        if level or min_offset:
            raise UsageError("at: the past is what it is; level and min_offset do not go with it")
        return Freshness(linearizable=False, at=_offset("at", at))
    if level and level not in LEVELS:
        raise UsageError(f"level: {level[:40]!r} is none of {', '.join(LEVELS)}")
    if level == "at_least" and not min_offset:
        raise UsageError("level: at_least needs min_offset")
    least = _offset("min_offset", min_offset) if min_offset else 0
    return Freshness(linearizable=(level or default) == "linearizable", min_offset=least)


def _offset(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(f"{name}: {text[:40]!r} is no offset")
    if len(text) > 19 or int(text) > OFFSET_MAX:
        raise UsageError(f"{name}: {text[:40]} is out of range")
    return int(text)


class _Waiting:
    __slots__ = ("deadline", "offset", "seen")

    def __init__(self, offset: int, deadline: float, seen: Seen) -> None:
        self.offset = offset
        self.deadline = deadline
        self.seen = seen


class FreshReader(Listener):
    """Hands out views that are fresh enough, or says why not; one or the other, exactly once.

    ``listeners`` tell it how far the log is applied. A read takes ``timeout_s`` at most, one of the past
    ``past_timeout_s``; ``waiting_max`` reads may wait for an offset.
    """

    def __init__(
        self,
        present: Present,
        history: History,
        listeners: Listeners,
        scheduler: Scheduler,
        *,
        timeout_s: float,
        past_timeout_s: float,
        waiting_max: int,
    ) -> None:
        self._present = present
        self._history = history
        self._scheduler = scheduler
        self._timeout_s = timeout_s
        self._past_timeout_s = past_timeout_s
        self._waiting_max = waiting_max
        self._waiting: list[_Waiting] = []
        self._alarm: float | None = None
        listeners.add(self)

    def read(self, freshness: Freshness, seen: Seen, *, forward: bool = True, started: float | None = None) -> None:
        """``forward=False``: linearizable only if this node leads. ``started``: since when the time of a wait for
        an offset has run, where the request came earlier.
        """
        now = self._scheduler.monotonic() if started is None else started
        if freshness.at is not None:
            self._travel(freshness.at, now + self._past_timeout_s, seen, forward=forward)
        elif freshness.linearizable:
            self._confirmed(freshness.min_offset, now + self._timeout_s, seen, forward=forward)
        else:
            self._wait(freshness.min_offset, now + self._timeout_s, seen)

    def _confirmed(self, offset: int, deadline: float, seen: Seen, *, forward: bool) -> None:
        def confirmed(view: ReadResult) -> None:
            match view:
                case ReadView():
                    self._wait(offset, deadline, seen)
                case Busy(reason):
                    seen(NotFresh("busy", reason))
                case _:
                    message = "the leader could not be asked; a stale read (level=stale, --stale) asks this node alone"
                    seen(NotFresh("unavailable", message, leader=self._present.leader_id))

        self._present.read("linearizable", confirmed, forward=forward, timeout_s=self._timeout_s)

    def _travel(self, at: int, deadline: float, seen: Seen, *, forward: bool) -> None:
        """The state before offset ``at``; where this node has not applied so much, the leader says if it exists."""

        def told(outcome: ReadView | NoAnswer) -> None:
            if isinstance(outcome, ReadView):
                seen(outcome)
            else:
                seen(NotFresh("throttled" if outcome.kind == "crowded" else "unavailable", outcome.reason, past=True))

        def replayed() -> None:
            self._history.at(at, told, max(deadline - self._scheduler.monotonic(), 0.0))

        def confirmed(view: ReadView | NotFresh) -> None:
            if isinstance(view, NotFresh):
                seen(view)
            elif at > view.offset:
                seen(NotFresh("beyond_end", f"the log ends at offset {view.offset}", end_offset=view.offset))
            else:
                replayed()

        if at <= self._present.offset:
            replayed()
        else:
            self._confirmed(0, deadline, confirmed, forward=forward)

    def _wait(self, offset: int, deadline: float, seen: Seen) -> None:
        if self._present.offset >= offset:
            seen(self._present.view())
        elif len(self._waiting) >= self._waiting_max:
            seen(NotFresh("busy", "too many reads wait"))
        else:
            self._waiting.append(_Waiting(offset, deadline, seen))
            self._arm()

    def _arm(self) -> None:
        """Be called when the first of the deadlines passes."""
        first = min((waiting.deadline for waiting in self._waiting), default=None)
        if first is not None and (self._alarm is None or first < self._alarm):
            self._alarm = first
            self._scheduler.call_later(max(first - self._scheduler.monotonic(), 0.0), self._expired)

    def _expired(self) -> None:
        self._alarm = None
        now, end = self._scheduler.monotonic(), self._present.offset
        late = [waiting for waiting in self._waiting if waiting.deadline <= now]
        self._waiting = [waiting for waiting in self._waiting if waiting.deadline > now]
        for waiting in late:
            message = f"this node is at offset {end}, not {waiting.offset}"
            waiting.seen(NotFresh("behind", message, end_offset=end))
        self._arm()

    def applied(self, end_offset: int) -> None:
        """Answer those who waited for it."""
        if self._waiting:
            reached = [waiting for waiting in self._waiting if waiting.offset <= end_offset]
            self._waiting = [waiting for waiting in self._waiting if waiting.offset > end_offset]
            for waiting in reached:
                self._scheduler.call_soon(lambda seen=waiting.seen: seen(self._present.view()))  # type: ignore[misc]
