"""What a connection says: frames that are due at once, and those of answers, as far as the client takes them.

Rules: what there is to say goes out once a turn, in the order in which it was said. Of several answers that wait each
gets a frame, in turns, so that a short one does not wait for the whole of a long one. Nothing is made for a client that
does not read: neither beyond its window, nor beyond what the transport holds for it.
"""

import asyncio
from typing import Final

from quorate.clock import Scheduler
from quorate.gateway.grpc.stream import GrpcStream
from quorate.wire import http2
from quorate.wire.http2 import Http2Code, Http2Error

SAID_MAX: Final = 64 * 1024
"""Bytes that are made into frames before the client has taken those before."""


class Sender:
    """Of one connection; it says nothing until it has a transport, and nothing once that is gone."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._flushing = False
        self.stuck_since: float | None = None
        """Since when the client does not read."""
        self.pieces = 0
        """Of answers that went out."""
        self._window = http2.WINDOW
        self.window_of_streams = http2.WINDOW
        """What a stream begins with."""
        self._sending: dict[GrpcStream, None] = {}
        """Streams that have something to send, and their client's leave, in the order of their turns."""

    def begin(self, transport: asyncio.Transport) -> None:
        """Here it goes."""
        self._transport = transport

    def end(self) -> None:
        """There is nobody any more."""
        self._transport = None
        self._out.clear()
        self._sending.clear()

    def say(self, frames: bytes) -> None:
        """Soon, with whatever else there is to say."""
        if self._transport is None:
            return
        self._out.append(frames)
        self._out_bytes += len(frames)
        if not self._flushing:
            self._flushing = True
            self._scheduler.at_turns_end(self._flush)

    def _flush(self) -> None:
        """One send for all of it; and then more of what waits."""
        self._flushing = False
        self.say_now()
        self.go_on()

    def say_now(self) -> None:
        """Whatever was said."""
        if self._out and self._transport is not None:
            said = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            self._out.clear()
            self._out_bytes = 0
            self._transport.write(said)

    def pump(self, stream: GrpcStream) -> None:
        """It has something to send."""
        self._queue(stream)
        self.go_on()

    def _queue(self, stream: GrpcStream) -> None:
        if stream.waiting and stream.window_out > 0:
            self._sending.setdefault(stream)

    def forget(self, stream: GrpcStream) -> None:
        """It is over."""
        self._sending.pop(stream, None)

    def go_on(self) -> None:
        """A frame of each that waits, in turns, as far as the client takes them."""
        while self._sending and self._window > 0 and self._out_bytes < SAID_MAX and self.stuck_since is None:
            stream = next(iter(self._sending))
            del self._sending[stream]
            if not stream.waiting or stream.window_out <= 0:
                continue
            piece = stream.piece(self._window)
            self._window -= len(piece) - http2.HEAD_SIZE
            self.pieces += 1
            self.say(piece)
            self._queue(stream)
            stream.sent()

    # -- what the client takes

    def takes(self, more: int, stream: GrpcStream | None = None) -> None:
        """So much more, of all streams or of one. Raises Http2Error."""
        if stream is None:
            self._window = _wider(self._window, more)
        else:
            stream.window_out = _wider(stream.window_out, more)
            self._queue(stream)

    def streams_begin_with(self, window: int) -> int:
        """From now on; answers how much more that is, which those that have begun get too."""
        more, self.window_of_streams = window - self.window_of_streams, window
        return more


def _wider(window: int, more: int) -> int:
    if window + more > http2.WINDOW_MAX:
        raise Http2Error(Http2Code.FLOW_CONTROL_ERROR, "a window that is too large")
    return window + more
