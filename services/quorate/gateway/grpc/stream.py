"""One stream of HTTP/2 that carries a call: the bytes of its messages in, and those of its answers out.

Rules: a client may send one window of bytes, and beyond it only a message that has room whole: so messages that have
begun can always end. What is held, either way, is taken from the connection's room, and given back when the stream
ends. Answers go out in their order, as the windows of stream and connection allow; their end comes after all of them.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

from quorate.gateway.grpc.budgets import ByteBudget
from quorate.gateway.grpc.heads import ANSWER
from quorate.wire.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_MAX,
    HEADERS,
    WINDOW,
    Http2Code,
    frame,
    reset,
    window_update,
)

PREFIX: Final = 5
"""Of a message: is it compressed, and its length in 32 bits."""
SHORT: Final = 64 * 1024
"""An answer of no more bytes is always sent: the number of calls bounds how many wait."""
LEAST: Final = 64 * 1024
"""What a client takes, of what waits for it, in the time that it has for it: at least so many bytes, and a sixteenth of
what is in memory for it; or all.
"""
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

    received: ByteBudget
    answers: ByteBudget

    def say(self, frames: bytes) -> None:
        """Soon, with whatever else there is to say."""

    def fields(self, fields: bytes) -> bytes:
        """As the connection says them."""

    def pump(self, stream: "GrpcStream") -> None:
        """It has something to send."""

    def over(self, stream: "GrpcStream") -> None:
        """It has ended, both ways."""


class GrpcStream:
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
        """Bytes of them."""
        self._kept = 0
        """Bytes of answers that are in memory: of each piece the whole until its last byte has gone."""
        self._begun = 0
        """Of the piece that has gone in part, the whole: it is in memory for as long as its rest waits."""
        self._making = 0
        self._head = ANSWER
        """What the first answer begins with; then it is empty."""
        self._end: bytes | None = None
        self.sent_bytes = 0
        self._looked: tuple[float, int] | None = None
        """When it was last looked whether the client takes enough, and what it had taken then."""
        self._drained: asyncio.Future[None] | None = None
        self.gone = False

    # -- what comes

    def data(self, data: bytes, padding: int) -> Http2Code | None:
        """A piece of a message; answers what is wrong with it."""
        size = len(data) + padding
        if size > self._window_in:
            return Http2Code.FLOW_CONTROL_ERROR
        self._window_in -= size
        promised = min(self._promised, len(data))
        self._promised -= promised
        if not self.hold(len(data) - promised):
            return Http2Code.ENHANCE_YOUR_CALM
        self.buffer += data
        self.counted += len(data)
        if padding:
            self._replenish()
        return None

    def hold(self, count: int, *, long: bool = False) -> bool:
        """So many bytes more are held for this call; False: there is no room. ``long``: for a request that may wait."""
        if self.gone or not self._carrier.received.take(count, long=long):
            return False
        self._held += count
        return True

    def release(self, count: int) -> None:
        """So many bytes of it are held no longer. Once it is over it holds nothing."""
        if not self.gone:
            self._held -= count
            self._carrier.received.give(count)

    def expect(self, size: int) -> bool:
        """A message has begun whose whole is so long: let the client send it; False: there is no room for it."""
        coming = size - len(self.buffer)
        if coming <= self._window_in or self._promised:
            return True
        if not self.hold(coming, long=True):
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

    def send(self, *pieces: bytes) -> bool:
        """An answer, with its prefix; False: too much waits already, and this is not sent. A short one always is."""
        if self.gone:
            return True
        size = sum(map(len, pieces))
        if not self._carrier.answers.take(size, force=size <= SHORT):
            return False
        self._kept += size
        if self._head:
            self._carrier.say(frame(HEADERS, END_HEADERS, self.number, self._carrier.fields(self._head)))
            self._head = b""
        self.waiting.extend((b"".join(pieces),) if size <= SHORT else filter(None, pieces))
        self._waits += size
        self._carrier.pump(self)
        return True

    def make(self, count: int) -> bool:
        """So many bytes more of an answer are being made; False: there is no room for them. A short one always has it.
        ``made`` gives them back.
        """
        short = self._making + count <= SHORT
        if not self.gone and not self._carrier.answers.take(count, force=short):
            return False
        self._making += 0 if self.gone else count
        return True

    def made(self) -> None:
        """The answer is whole, and about to be sent."""
        if not self.gone:
            self._carrier.answers.give(self._making)
            self._making = 0

    def end(self, fields: bytes) -> None:
        """After what waits, nothing more comes but these fields."""
        if self.gone:
            return
        if self.waiting:
            self._end = fields
        else:
            self._say_end(fields)

    def _say_end(self, fields: bytes) -> None:
        said = frame(HEADERS, END_HEADERS | END_STREAM, self.number, self._carrier.fields(self._head + fields))
        if not self.ended:  # What it still sends is not wanted (RFC 9113, section 8.1).
            said += reset(self.number, Http2Code.NO_ERROR)
        self._carrier.say(said)
        self._carrier.over(self)

    def end_now(self, fields: bytes) -> None:
        """What waits is not sent any more."""
        if not self.gone:
            self._forget()
            self._say_end(fields)

    def piece(self, most: int) -> bytes:
        """The next frame of what waits: as many pieces, or as much of one, as fit so many bytes and a frame."""
        left = most = min(most, self.window_out, FRAME_MAX)
        parts, waiting = [], self.waiting
        while waiting and left:
            first = waiting[0]
            if len(first) <= left:
                parts.append(waiting.popleft())
                left -= len(first)
                self._free(self._begun or len(first))
                self._begun = 0
            else:
                self._begun = self._begun or len(first)
                rest = memoryview(first)
                parts.append(rest[:left])
                waiting[0] = rest[left:]
                left = 0
        sent = most - left
        self.window_out -= sent
        self._waits -= sent
        self.sent_bytes += sent
        return frame(DATA, 0, self.number, parts[0] if len(parts) == 1 else b"".join(parts))

    def _free(self, count: int) -> None:
        self._kept -= count
        self._carrier.answers.give(count)

    def sent(self) -> None:
        """A piece went out: perhaps the last."""
        if self._waits < DRAINED:
            self._wake()
        if not self.waiting and self._end is not None:
            self._say_end(self._end)

    def slow(self, now: float, within_s: float) -> bool:
        """Does its client take too little of what waits? To be asked once a second."""
        if not self.waiting:
            self._looked = None
            return False
        if self._looked is None or self.sent_bytes - self._looked[1] >= max(LEAST, self._kept // 16):
            self._looked = (now, self.sent_bytes)
        return now - self._looked[0] > within_s

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
        self._carrier.answers.give(self._kept + self._making)
        self._waits = self._kept = self._making = 0

    def close(self) -> None:
        """It is over: what it held is free. The second time this does nothing."""
        if self.gone:
            return
        self._forget()
        self.release(self._held)
        self._promised = 0
        self.gone = True
        self.buffer.clear()
        self._wake()

    def _wake(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
