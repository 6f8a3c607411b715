"""One Kafka client's connection: frames in, answers out, in the order asked.

Rules: one request at a time; what the client pipelines waits in a bounded buffer, and reading stops when that is full.
An answer may come later (a long poll, a join): the connection is then *busy*. Nothing is written for a client that does
not read. A protocol violation closes this connection, after the answers that are ready, and changes nothing else. So
does a fault of ours while an answer is made, in the request's turn or later (``guarded``), as at a broker; the log has
it.
"""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar, cast

import structlog

from quorate import tls
from quorate.clock import Scheduler
from quorate.gateway.ending import Ending, Unsent
from quorate.gateway.kafka.settings import KafkaSettings
from quorate.metrics import Metrics
from quorate.slices import TURN_S
from quorate.wire import kafka_responses as responses
from quorate.wire.kafka import (
    WINDOW,
    Api,
    ErrorCode,
    KafkaFormatError,
    Request,
    RequestHeader,
    UnsupportedRequestError,
    decode_request,
    frame_size,
)

_P = ParamSpec("_P")
_R = TypeVar("_R")
_log = structlog.get_logger(__name__)


class Server(Protocol):
    """The server of a connection, as it sees it."""

    settings: KafkaSettings
    scheduler: Scheduler
    metrics: Metrics

    def opened(self, connection: "KafkaConnection", host: str) -> None:
        """It is there, and may have to go at once."""

    def serve(self, connection: "KafkaConnection", header: RequestHeader, request: Request) -> None:
        """Answer a request by ``connection.reply``, now, or later from what is ``connection.guarded``, exactly once."""

    def answered(self, connection: "KafkaConnection") -> bool:
        """A request of it was answered; answers whether it is proven."""

    def closed(self, connection: "KafkaConnection") -> None:
        """It is gone."""


class KafkaConnection(asyncio.Protocol):
    """Made by the server's factory for each accepted socket."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._header: RequestHeader | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._pumping = False
        """Serving, or about to in the next turn."""
        self._reading = True
        self._unsent: Unsent | None = None
        """None: it takes what it is sent."""
        self._frame_since: float | None = None
        self._ending: Ending | None = None
        self._since = self._used_at = server.scheduler.monotonic()
        self.proven = False
        """It has had an answer, so an unproven connection goes first (``quorate.admission``)."""
        self.host = ""

    @property
    def busy(self) -> bool:
        """Is a request under way?"""
        return self._header is not None

    @property
    def client_id(self) -> str | None:
        """The client id of the request being served."""
        return self._header.client_id if self._header else None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the client."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if peer else ""
        self._server.opened(self, self.host)

    def data_received(self, data: bytes) -> None:
        """More bytes; serve what is whole. Of a connection that is being ended they are dropped."""
        if self._ending is not None:
            self._ending.drop(data)
            return
        if self._frame_since is None:
            self._frame_since = self._server.scheduler.monotonic()
        self._buffer += data
        if self._header is None and not self._pumping:
            self._pump()
        self._regulate()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone; whatever it waited for is no longer worth answering."""
        self._transport = None
        self._buffer.clear()
        self._server.closed(self)

    def pause_writing(self) -> None:
        """The client does not read: serve nothing more until it does."""
        if self._transport is not None:
            self._unsent = Unsent(self._transport, self._server.scheduler.monotonic())

    def resume_writing(self) -> None:
        """It reads again."""
        self._unsent = None
        if self._header is None and not self._pumping and self._ending is None:
            self._pump()

    def _regulate(self) -> None:
        """Read on only while there is room for one whole frame."""
        room = len(self._buffer) <= self._server.settings.request_bytes_max + 4
        if self._transport is None or room == self._reading:
            return
        self._reading = room
        if room:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # Serving.

    @property
    def open(self) -> bool:
        """Is there still someone to answer?"""
        return self._transport is not None

    def close(self) -> None:
        """Hang up."""
        if self._transport:
            self._transport.abort()

    def end(self) -> None:
        """Answers that are ready leave, nothing more is taken."""
        if self._transport is None or self._ending is not None:
            return
        self._header = None
        self._buffer.clear()
        self._flush()
        self._ending = Ending(
            self._transport, self._server.scheduler.monotonic(), self._server.settings.frame_timeout_s
        )

    def guarded(self, work: Callable[_P, _R]) -> Callable[_P, _R | None]:
        """It, without raising: whatever goes wrong in it costs this connection, and not who calls for many of them."""

        def does(*args: _P.args, **kwargs: _P.kwargs) -> _R | None:
            try:
                return work(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - whatever it was
                trouble = f"{type(error).__name__}: {error}"
                _log.error("a request failed", listener="kafka", error=trouble, exc_info=error)
                self.end()
                return None

        return does

    def reply(self, body: bytes | None) -> None:
        """The answer to the request being served; None: the protocol wants none. Called exactly once per request."""
        header, self._header = self._header, None
        if header is None or self._transport is None:
            return
        if not self.proven:
            self.proven = self._server.answered(self)
        self._used_at = self._server.scheduler.monotonic()
        if self._buffer:
            self._frame_since = self._used_at
        if body is not None:
            answer = responses.response(header.correlation_id, body, flexible=header.flexible_response)
            self._out.append(answer)
            self._out_bytes += len(answer)
        if not self._pumping:
            self._flush()
            self._pump()

    def _pump(self) -> None:
        """Serve whole frames until one must wait; a turn is bounded by requests, bytes of answers and time."""
        limits, scheduler = self._server.settings, self._server.scheduler
        left, until = limits.requests_per_turn, scheduler.monotonic() + TURN_S
        self._pumping, again = True, False
        try:
            while self._takes_one() and not again and self._serve_one():
                left -= 1
                over = left <= 0 or self._used_at >= until or self._out_bytes >= limits.wake_bytes_per_turn
                again = over and self._header is None
        except KafkaFormatError:
            self._server.metrics.peer_errors["kafka"] += 1
            if tls.is_client_hello(self._buffer):
                self._out.append(tls.REFUSAL)
            self.end()
        finally:
            self._pumping = again
        self._flush()
        if again:
            scheduler.call_soon(self._pump)

    def _takes_one(self) -> bool:
        """May one more request be served?"""
        return self._header is None and self._unsent is None and self._ending is None

    def _serve_one(self) -> bool:
        """Serve the first frame; False when it is not whole yet."""
        size = frame_size(self._buffer, self._server.settings.request_bytes_max)
        if size is None or len(self._buffer) < size + 4:
            return False
        frame = bytes(memoryview(self._buffer)[4 : size + 4])
        del self._buffer[: size + 4]
        self._frame_since = self._server.scheduler.monotonic() if self._buffer else None
        self._regulate()
        try:
            self._header, request = decode_request(frame)
        except UnsupportedRequestError as unsupported:
            if unsupported.header.api != Api.API_VERSIONS:
                raise
            self._header = unsupported.header
            self.reply(responses.api_versions(0, WINDOW, ErrorCode.UNSUPPORTED_VERSION))
            return True
        self.guarded(self._server.serve)(self, self._header, request)
        return True

    def _flush(self) -> None:
        """One send for all answers of this turn."""
        if self._out and self._transport:
            self._server.metrics.kafka_bytes_out += self._out_bytes
            self._transport.write(self._out[0] if len(self._out) == 1 else b"".join(self._out))
        self._out.clear()
        self._out_bytes = 0

    def overdue(self, now: float) -> bool:
        """Idle, stuck, dribbling or not gone for too long? (Looked at once a second.)"""
        limits = self._server.settings
        if self._ending is not None:
            return self._ending.overdue(now)
        # One batch may take it long, and is never split: only who takes nothing of it is overdue.
        if self._unsent is not None and self._unsent.stands_still(now, limits.write_timeout_s):
            return True
        if self._header is not None:
            return False
        if self._frame_since is not None and now - self._frame_since > limits.frame_timeout_s:
            return True
        silent = self._used_at == self._since and self._frame_since is None
        return now - self._used_at > (limits.first_byte_timeout_s if silent else limits.idle_timeout_s)
