"""One stream of HTTP/2 that carries a call: the bytes of its messages in, and those of its answers out.

Rules: a client may send one window of bytes, and beyond it only a message that has room whole: so messages that have
begun can always end. What is held, either way, is taken from the connection's room, and given back when the stream
ends. Answers go out in their order, as the windows of stream and connection allow; their end comes after all of them.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

from quorate.gateway.grpc.heads import ANSWER
from quorate.gateway.grpc.room import Room
from quorate.wire.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_MAX,
    HEADERS,
    WINDOW,
    ErrorCode,
    frame,
    reset,
    window_update,
)

PREFIX: Final = 5
"""Of a message: is it compressed, and its length in 32 bits."""
DRAINED: Final = 64 * 1024
"""An answer that is one of many may be made while less than this waits."""


class Receiver(Protocol):
    """The call on a stream."""

    def more(self) -> None:
        """More came, or the last has come (``ended``)."""

    def closed(self) -> None:
        """The stream is over: answered or not, nobody waits any more."""

    def look(self, now: float) -> None:
        """Look at deadlines: once a second."""


class Carrier(Protocol):
    """The connection of a stream."""

    received: Room
    answers: Room

    def say(self, frames: bytes) -> None:
        """Soon, with whatever else there is to say."""

    def pump(self, stream: "Stream") -> None:
        """It has something to send."""

    def over(self, stream: "Stream") -> None:
        """It has ended, both ways."""


class Stream:
    """``number`` is odd: the client's. ``window_out``: how much the client takes before it says more."""

    def __init__(self, number: int, carrier: Carrier, window_out: int, now: float) -> None:
        self.number, self._carrier = number, carrier
        self.receiver: Receiver | None = None
        self.began = now
        # What comes.
        self.buffer = bytearray()
        self.ended = False
        """The client says nothing more."""
        self.counted = 0
        """All bytes of messages that came."""
        self._window_in = WINDOW
        self._held = 0
        self._promised = 0
        """Of what is held, the bytes of a long message that have not come yet."""
        # What goes.
        self.window_out = window_out
        self.waiting: deque[bytes | memoryview] = deque()
        self._waits = 0
        self._head = ANSWER
        """What the first answer begins with; then it is empty."""
        self._end: bytes | None = None
        self.queued = False
        """It is among those whose pieces go out next."""
        self.blocked_since: float | None = None
        self._drained: asyncio.Future[None] | None = None
        self.gone = False

    # -- what comes

    def data(self, data: bytes, padding: int) -> ErrorCode | None:
        """A piece of a message; answers what is wrong with it."""
        size = len(data) + padding
        if size > self._window_in:
            return ErrorCode.FLOW_CONTROL_ERROR
        self._window_in -= size
        promised = min(self._promised, len(data))
        self._promised -= promised
        if not self.hold(len(data) - promised):
            return ErrorCode.ENHANCE_YOUR_CALM
        self.buffer += data
        self.counted += len(data)
        if padding:
            self._replenish()
        return None

    def hold(self, count: int) -> bool:
        """So many bytes more are held for this call; False: there is no room."""
        if not self._carrier.received.take(count):
            return False
        self._held += count
        return True

    def release(self, count: int) -> None:
        """So many bytes of it are held no longer."""
        self._held -= count
        self._carrier.received.give(count)

    def expect(self, size: int) -> bool:
        """A message has begun whose whole is so long: let the client send it; False: there is no room for it."""
        coming = size - len(self.buffer)
        if coming <= self._window_in or self._promised:
            return True
        if not self.hold(coming):
            return False
        self._promised = coming
        self._replenish()
        return True

    def taken(self, size: int) -> None:
        """So many bytes of the buffer have become a message: the client may send as many more."""
        del self.buffer[:size]
        self._replenish()

    def _replenish(self) -> None:
        """Give back what padding took from a long message; else the window, once half of it is used."""
        if self.ended:
            return
        lacks = self._promised - self._window_in
        room = WINDOW - self._window_in - len(self.buffer)
        if lacks > 0 or room >= WINDOW // 2:
            self._allow(max(lacks, room))

    def _allow(self, more: int) -> None:
        self._window_in += more
        self._carrier.say(window_update(self.number, more))

    # -- what goes

    def send(self, message: bytes) -> bool:
        """An answer, with its prefix; False: too much waits already, and this is not sent."""
        if self.gone:
            return True
        if not self._carrier.answers.take(len(message)):
            return False
        if self._head:
            self._carrier.say(frame(HEADERS, END_HEADERS, self.number, self._head))
            self._head = b""
        self.waiting.append(message)
        self._waits += len(message)
        self._carrier.pump(self)
        return True

    def end(self, fields: bytes) -> None:
        """After what waits, nothing more comes but these fields."""
        if self.gone:
            return
        if self.waiting:
            self._end = fields
        else:
            self._say_end(fields)

    def _say_end(self, fields: bytes) -> None:
        said = frame(HEADERS, END_HEADERS | END_STREAM, self.number, self._head + fields)
        if not self.ended:  # What it still sends is not wanted (RFC 9113, section 8.1).
            said += reset(self.number, ErrorCode.NO_ERROR)
        self._carrier.say(said)
        self._carrier.over(self)

    def end_now(self, fields: bytes) -> None:
        """What waits is not sent any more."""
        if not self.gone:
            self._forget()
            self._say_end(fields)

    def piece(self, most: int) -> bytes:
        """The next frame of what waits, whose payload has at most so many bytes, and no more than a frame may."""
        first = self.waiting[0]
        most = min(most, self.window_out, FRAME_MAX)
        if len(first) <= most:
            payload = self.waiting.popleft()
        else:
            rest = memoryview(first)
            payload = rest[:most]
            self.waiting[0] = rest[most:]
        self.window_out -= len(payload)
        self._waits -= len(payload)
        self._carrier.answers.give(len(payload))
        self.blocked_since = None
        return frame(DATA, 0, self.number, payload)

    def sent(self) -> None:
        """A piece went out: perhaps the last."""
        if self._waits < DRAINED:
            self._wake()
        if not self.waiting and self._end is not None:
            self._say_end(self._end)

    async def drained(self) -> None:
        """Return when little waits."""
        if self._waits >= DRAINED and not self.gone:
            self._drained = asyncio.get_running_loop().create_future()
            try:
                await self._drained
            finally:
                self._drained = None

    # -- the end

    def _forget(self) -> None:
        self.waiting.clear()
        self._carrier.answers.give(self._waits)
        self._waits = 0

    def close(self) -> None:
        """It is over: what it held is free. The second time this does nothing."""
        if self.gone:
            return
        self.gone = True
        self._forget()
        self.release(self._held)
        self._promised = 0
        self.buffer.clear()
        self._wake()

    def _wake(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
