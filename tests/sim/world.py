"""Virtual time and the loops that live in it.

Rules: one heap, one seeded ``Random``; nothing here or above it reads a real clock, an object id, or the order of a
set. What happens is folded into ``trace``: two runs of a seed end with the same number, or the seed is worthless.

Theory: a node's loop is a queue of ready calls. Whatever wakes it (a frame, a timer, a finished disk job) is appended,
and one *turn* later everything that is waiting runs, as in an event loop that polls once per turn. A paused process
(SIGSTOP) takes no turns and then takes everything at once; a dead one never takes another.
"""

import zlib
from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Literal

Call = Callable[[], None]
Kind = Literal["soon", "timer", "io"]

EPOCH_MS = 1_700_000_000_000
START_S = 1000.0
LATEST_TURN_S = 0.0008
NOTES_AT_ONCE = 1000
"""Notes folded into the digest in one go; the digest is the same."""


class ViolationError(Exception):
    """An invariant does not hold: the reason this package exists. ``name`` is the invariant's."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
        self.detail = detail


class Event:
    """Something that will happen; a ``clock.Timer``."""

    __slots__ = ("call",)

    def __init__(self, call: Call | None) -> None:
        self.call = call

    def cancel(self) -> None:
        """Call it off."""
        self.call = None


class _LoopTimer(Event):
    """One that a loop runs in a turn: ``then`` is what, ``call`` puts it in the queue."""

    __slots__ = ("then",)

    def __init__(self, then: Call) -> None:
        super().__init__(None)
        self.then: Call | None = then

    def cancel(self) -> None:
        """Call it off, in the queue or not."""
        self.call = self.then = None


class World:
    """The heap of what will happen, the dice, and the digest of what did."""

    def __init__(self, seed: int) -> None:
        self.now = START_S
        self.seed, self.random = seed, Random(seed)
        self.events = 0
        self.turns = 0
        """Digest of all turns of all loops: who took it when, and how much was ready."""
        self._trace = 0
        self._notes: list[str] = []
        self._heap: list[tuple[float, int, Event]] = []
        self._count = 0

    def after(self, delay_s: float, call: Call) -> Event:
        """Make ``call`` happen ``delay_s`` virtual seconds from now."""
        event = Event(call)
        self._count = count = self._count + 1
        heappush(self._heap, (self.now + delay_s, count, event))
        return event

    def plan(self, delay_s: float, event: Event) -> None:
        """Make what the event calls happen ``delay_s`` virtual seconds from now."""
        self._count = count = self._count + 1
        heappush(self._heap, (self.now + delay_s, count, event))

    def note(self, text: str) -> None:
        """Fold a fact into the digest that two runs of a seed must agree on."""
        notes = self._notes
        notes.append("%.9f %s" % (self.now, text))  # noqa: UP031  # Of all ways the cheapest.
        if len(notes) >= NOTES_AT_ONCE:
            self._fold()

    @property
    def trace(self) -> int:
        """The digest of all that was noted."""
        self._fold()
        return zlib.crc32(str(self.turns).encode(), self._trace)

    def _fold(self) -> None:
        self._trace = zlib.crc32("".join(self._notes).encode(), self._trace)
        self._notes.clear()

    def run_until(self, when_s: float) -> None:
        """Let everything up to ``when_s`` happen, in order."""
        heap = self._heap
        while heap and heap[0][0] <= when_s:
            when, _, event = heappop(heap)
            call = event.call
            if call is not None:
                if when > self.now:  # noqa: PLR1730  # A call for each event.
                    self.now = when
                self.events += 1
                call()
        self.now = max(self.now, when_s)


class Loop:
    """The loop of one process: ``quorate.clock.Scheduler`` in virtual time.

    ``wall_skew_ms`` is added to the wall clock only. ``rate``: seconds this machine counts in a second. ``on_turn`` is
    called after each turn: the place to look.
    """

    def __init__(self, world: World, name: str, on_turn: Call, wall_skew_ms: int = 0, rate: float = 1.0) -> None:
        self._world = world
        self._name = name
        self._number = zlib.crc32(name.encode())
        self._on_turn = on_turn
        self.wall_skew_ms = wall_skew_ms
        self._rate = rate
        self._next_turn = Event(self._turn)
        self._ready: deque[tuple[Kind, Call | _LoopTimer]] = deque()
        self._turn_due = False
        self._in_turn = False
        self._ending: list[Call] = []
        self.alive = True
        self.paused = False
        self.forsaken = False
        """Paused until further notice, whatever was planned before."""
        self.resumed_at = 0.0
        """By ``monotonic``, the last time."""

    def monotonic(self) -> float:
        """Virtual seconds, as this machine counts them."""
        return START_S + (self._world.now - START_S) * self._rate

    def time_ms(self) -> int:
        """Virtual wall clock of this machine, milliseconds."""
        return EPOCH_MS + int(self.monotonic() * 1000) + self.wall_skew_ms

    def call_soon(self, callback: Call) -> None:
        """Run it in the next turn, after what is waiting."""
        self._wake("soon", callback)

    def call_later(self, delay_s: float, callback: Call) -> Event:
        """Run it in the first turn ``delay_s`` from now."""
        timer = _LoopTimer(callback)
        timer.call = partial(self._wake, "timer", timer)
        self._world.plan(delay_s / self._rate, timer)
        return timer

    def take_turn(self, action: Call) -> None:
        """Run it, and then what it put off to the turn's end; a process that died meanwhile does nothing more."""
        if self._in_turn:
            action()
            return
        self._in_turn = True
        action()
        self._in_turn = False
        self._run_ending()

    def at_turns_end(self, callback: Call) -> None:
        """Run it when the turn under way ends, one of this loop's if no other is."""
        self._ending.append(callback)
        self._plan_turn()

    def _run_ending(self) -> None:
        ending, self._ending = self._ending, []
        for callback in ending:
            if self.alive:
                callback()

    def _wake(self, kind: Kind, call: Call | _LoopTimer) -> None:
        """Something is ready; a dead process does not notice."""
        if self.alive:
            self._ready.append((kind, call))
            if not self._turn_due:
                self._plan_turn()

    def io(self, callback: Call) -> None:
        """A frame arrived, or a disk job is done."""
        self._wake("io", callback)

    def die(self) -> None:
        """No further turn, ever."""
        self.alive = False
        self._ready.clear()
        self._ending.clear()

    def pause(self) -> None:
        """SIGSTOP: time passes, turns do not."""
        self.paused = True

    def resume(self) -> None:
        """SIGCONT: what is due and what arrived runs in one turn; which of the two first is the kernel's secret."""
        self.paused, self.resumed_at = False, self.monotonic()
        last = self._world.random.choice(("soon", "timer", "io"))
        waiting = sorted(self._ready, key=lambda entry: entry[0] == last)
        self._ready = deque(waiting)
        self._plan_turn()

    def _plan_turn(self) -> None:
        if not self._turn_due and not self.paused and (self._ready or self._ending):
            self._turn_due = True
            world = self._world
            world.plan(world.random.random() * LATEST_TURN_S, self._next_turn)

    def _turn(self) -> None:
        self._turn_due = False
        if not self.alive or self.paused:
            return
        world, ready = self._world, self._ready
        count = len(ready)
        world.turns = hash((world.turns, world.now, self._number, count))  # Of numbers it is the same in every process.
        for _ in range(count):
            if not ready:  # It died of one of these calls.
                return
            _, waiting = ready.popleft()
            call = waiting.then if isinstance(waiting, _LoopTimer) else waiting
            if call is not None:
                call()
        if self._ending:
            self._run_ending()
        if self.alive:
            self._on_turn()
            if self._ready or self._ending:
                self._plan_turn()
