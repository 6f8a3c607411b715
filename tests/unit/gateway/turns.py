"""The turns of a loop, taken one by one, and a client that reads when it is told to."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from tests.stand_ins import ManualClock


class Turns(ManualClock):
    """The turns of a loop, taken one by one, and its clock."""

    def __init__(self) -> None:
        super().__init__()
        self.ready: deque[Callable[[], None]] = deque()
        self.time = self.monotonic  # As asyncio calls it.

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.ready.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        raise NotImplementedError

    def take_turn(self, action: Callable[[], None]) -> None:
        action()

    def at_turns_end(self, callback: Callable[[], None]) -> None:
        self.call_soon(callback)

    def turn(self) -> None:
        for _ in range(len(self.ready)):
            self.ready.popleft()()


class Writer(Protocol):
    """What a transport tells of its buffer."""

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class UnreadWire:
    """A transport whose peer takes nothing until told to."""

    def __init__(self, high: int = 0) -> None:
        self.connection: Writer
        self.unread = bytearray()
        self.taken = bytearray()
        self.reading = True
        self.closed = False
        self.ended = False
        self._high = high
        self._full = False

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1)

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high

    def write(self, data: bytes) -> None:
        self.unread += data
        if len(self.unread) > self._high and not self._full:
            self._full = True
            self.connection.pause_writing()

    def take(self) -> None:
        """The peer reads everything."""
        self.taken += self.unread
        self.unread.clear()
        if self._full:
            self._full = False
            self.connection.resume_writing()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def get_write_buffer_size(self) -> int:
        return len(self.unread)

    def close(self) -> None:
        self.closed = True

    abort = close
