"""Time and scheduling as ports, so that the same code runs on a real loop and in virtual time.

Rules: no module below ``node`` reads a clock, sleeps, or starts a task, but those docs/architecture.md names; it asks
the ``Scheduler`` it was given.
Chance is a ``random.Random`` argument, seeded by whoever composes the node.
"""

import asyncio
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Protocol


class Timer(Protocol):
    """A scheduled call that can be called off."""

    def cancel(self) -> None:
        """Call it off; calling off twice, or after it ran, does nothing."""


class Clock(Protocol):
    """What time it is."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never backwards."""

    def time_ms(self) -> int:
        """Wall-clock milliseconds since the Unix epoch, UTC; may jump."""


class Scheduler(Clock, Protocol):
    """A clock that also runs things later, one at a time, on the one thread of the node."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run it after what is already waiting."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Run it once, ``delay_s`` seconds from now."""

    def take_turn(self, action: Callable[[], None]) -> None:
        """Run it now, and then what it put off to the turn's end, whether it raised or not. In a turn: part of it."""

    def at_turns_end(self, callback: Callable[[], None]) -> None:
        """Run it once when the turn under way ends; without one like ``call_soon``. It must not raise."""


class LoopScheduler:
    """The ``Scheduler`` of a running asyncio (uvloop) loop. What it runs sees the context variables of its making,
    whoever asked for it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context = copy_context()
        self.monotonic = time.monotonic
        self._in_turn = False
        self._ending: list[Callable[[], None]] = []

    def time_ms(self) -> int:
        """Wall-clock milliseconds since the Unix epoch, UTC."""
        return time.time_ns() // 1_000_000

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run it after what is already waiting."""
        self._loop.call_soon(callback, context=self._context)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Run it once, ``delay_s`` seconds from now."""
        return self._loop.call_later(delay_s, callback, context=self._context)

    def take_turn(self, action: Callable[[], None]) -> None:
        """Run it now, and then what it put off to the turn's end, whether it raised or not. In a turn: part of it."""
        if self._in_turn:
            action()
            return
        self._in_turn = True
        try:
            action()
        finally:
            self._in_turn = False
            ending, self._ending = self._ending, []
            for callback in ending:
                self._run(callback)

    def at_turns_end(self, callback: Callable[[], None]) -> None:
        """Run it once when the turn under way ends; without one like ``call_soon``. It must not raise."""
        if self._in_turn:
            self._ending.append(callback)
        else:
            self._loop.call_soon(callback, context=self._context)

    def _run(self, callback: Callable[[], None]) -> None:
        """As the loop would: an error is told, and keeps nobody else from running."""
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - whatever it was
            self._loop.call_exception_handler({"message": f"at the end of a turn: {callback!r}", "exception": error})
