"""A remoting connection as a broker holds it: requests both ways, matched by their opaque, each with a deadline."""

import asyncio
from collections.abc import Callable
from typing import cast

from quorate.errors import PeerError, QuorateError
from quorate.wire import remoting as wire
from quorate.wire.remoting_headers import Fields

REQUEST_TIMEOUT_S = 3.0
"""As a stock broker waits for a controller."""


class CallError(QuorateError):
    """A request failed: refused, or unanswered."""


class Channel(asyncio.Protocol):
    """One connection: requests both ways, matched by their opaque."""

    def __init__(self, answer: "Answer") -> None:
        self._answer = answer
        self._splitter = wire.FrameSplitter()
        self._waiting: dict[int, asyncio.Future[wire.Response]] = {}
        self._opaque = 0
        self._transport: asyncio.Transport | None = None

    @property
    def open(self) -> bool:
        """May it be used?"""
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """End it."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(CallError("the connection closed"))

    def data_received(self, data: bytes) -> None:
        """Bytes arrived from the peer."""
        try:
            for frame in self._splitter.feed(data):
                self._take(frame)
        except PeerError:
            self.close()

    def _take(self, frame: wire.Frame) -> None:
        header = wire.decode_header(frame)
        if header.flag & wire.RESPONSE_FLAG:
            waiting = self._waiting.pop(header.opaque, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(wire.decode_response(frame))
        elif (reply := self._answer(self, header, frame.body)) is not None and self._transport is not None:
            self._transport.write(reply)

    def tell(self, code: int, fields: Fields) -> None:
        """A one-way request."""
        if self._transport is not None and self.open:
            self._transport.write(wire.encode_request(code, self._next(), fields, oneway=True))

    async def ask(self, code: int, fields: Fields | None = None, body: bytes = b"") -> wire.Response:
        """A request and its answer. Raises CallError."""
        if self._transport is None or not self.open:
            raise CallError("not connected")
        opaque = self._next()
        waiting = self._waiting[opaque] = asyncio.get_running_loop().create_future()
        self._transport.write(wire.encode_request(code, opaque, fields, body=body))
        try:
            return await asyncio.wait_for(waiting, REQUEST_TIMEOUT_S)
        except TimeoutError:
            raise CallError(f"no answer to {code} within {REQUEST_TIMEOUT_S} s") from None
        finally:
            self._waiting.pop(opaque, None)

    def _next(self) -> int:
        self._opaque += 1
        return self._opaque


Answer = Callable[[Channel, wire.Header, bytes], bytes | None]
"""What to send back to a request (a frame), or nothing."""


async def connect(address: str, answer: Answer) -> Channel:
    """A connection to ``host:port``. Raises CallError."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            _, channel = await asyncio.get_running_loop().create_connection(lambda: Channel(answer), host, int(port))
    except (OSError, ValueError) as error:
        raise CallError(f"{address}: {error}") from None
    return channel
