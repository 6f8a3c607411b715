"""The HTTP/1.1 listener on h11: whole requests in, whole responses out.

Rules: no task and no timer per connection or request; one sweep looks at all deadlines. One request at a time and a
turn, and of its chunks a bounded number; reading stops while one is answered, while answers are not taken, and while
what was read is not looked at. Head and body are bounded before they are buffered, and a request of a foreign page is
refused before its body is read (``quorate.origins``). What breaks the protocol is answered if it still can be, and its
connection ends (``quorate.gateway.ending``); nothing else changes.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import parse_qsl, unquote_to_bytes

import h11

from quorate import tls
from quorate.clock import Scheduler
from quorate.gateway.ending import Ending, Unsent
from quorate.gateway.http.messages import UNMADE, HttpError, Request, Response, failure
from quorate.gateway.http.settings import HttpSettings
from quorate.gateway.listener import Listener
from quorate.heads import HeadError, checked
from quorate.metrics import Metrics
from quorate.origins import HEADERS, SECURITY_HEADERS, AllowedNames, allowed_names, judge
from quorate.slices import raises

EVENTS_A_TURN: Final = 50
"""Of h11, each a chunk of a body at the least; it makes one in some ten microseconds."""

Respond = Callable[[Response], None]
Handler = Callable[[Request, Respond], None]
"""Answers exactly once, now or later, within a deadline of its own."""

_JUDGED = tuple((name.encode(), name) for name in HEADERS)
_SECURITY = "".join(f"{name}: {value}\r\n" for name, value in SECURITY_HEADERS.items()).encode()
"""Of every answer; written as they are, for h11 would look at each of them each time."""


def parse_request(head: h11.Request, body: bytes, address: str) -> Request:
    """Raises HttpError ``invalid`` for a target or header that is not text."""
    try:
        path, _, query = head.target.decode("ascii").partition("?")
        segments = tuple(unquote_to_bytes(part).decode() for part in path.split("/") if part)
        asked = dict(parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=32))
        headers = {name.decode("ascii").lower(): value.decode("ascii") for name, value in head.headers.raw_items()}
    except ValueError as error:
        raise HttpError("invalid", f"the request line or a header is not text: {error}") from error
    return Request(head.method.decode("ascii"), segments, asked, headers, body, address)


class HttpConnection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: "HttpServer") -> None:
        self._server = server
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=server.settings.head_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._busy = False
        self._due = False
        """A turn is on its way that looks at what was read."""
        self._unsent: Unsent | None = None
        """None: it takes what it is sent."""
        self._since = server.scheduler.monotonic()
        self._partial = False
        self._asked = False
        """A byte of it ever came."""
        self._proven = False
        self._heard_all = False
        self._ending: Ending | None = None
        self._address = ""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the client."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        host = str(peer[0]) if isinstance(peer, tuple) else ""
        self._address = f"{host}:{peer[1]}" if isinstance(peer, tuple) else "local"
        self._server.opened(self, host)

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone; an answer still under way is dropped."""
        self._transport = None
        self._server.closed(self)

    def data_received(self, data: bytes) -> None:
        """More bytes of a request."""
        if self._ending is not None:
            self._ending.drop(data)
            return
        if not self._partial:
            if tls.is_client_hello(data) and self._transport:
                self._server.metrics.peer_errors["http"] += 1
                self._transport.write(tls.REFUSAL)
                self._end()
                return
            self._partial = self._asked = True
            self._since = self._server.scheduler.monotonic()
        try:
            self._h11.receive_data(data)
        except h11.RemoteProtocolError:
            self.close()
            return
        if not self._due:
            self._advance()

    def eof_received(self) -> bool:
        """The client sends no more; what it asked for is still answered."""
        if self._ending is not None:
            return False
        self._heard_all = True
        self._h11.receive_data(b"")
        if not self._due:
            self._advance()
        return True

    def pause_writing(self) -> None:
        """The client does not read: nothing more is read from it, or served, until it does."""
        if self._transport:
            self._unsent = Unsent(self._transport, self._server.scheduler.monotonic())
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """It reads again."""
        self._unsent = None
        self._since = self._server.scheduler.monotonic()
        if not self._busy:
            self._look_soon()

    # One request after the other.

    def _look_soon(self) -> None:
        if not self._due:
            self._due = True
            self._server.scheduler.call_soon(self._advance)

    def _advance(self) -> None:
        """Look at what was read, as far as one request and one turn go; its answer brings the next turn."""
        self._due = False
        try:
            for _ in range(EVENTS_A_TURN):
                if not self._looks or not self._step():
                    return
            if self._looks and self._transport:
                self._partial = True
                self._transport.pause_reading()
                self._look_soon()
        except HttpError as error:
            self._server.metrics.peer_errors["http"] += 1
            self._reject(error)
        except HeadError as error:
            self._server.metrics.peer_errors["http"] += 1
            self._reject(HttpError(error.code, str(error)))
        except h11.RemoteProtocolError as error:
            self._server.metrics.peer_errors["http"] += 1
            self._reject(HttpError("too_large" if error.error_status_hint == 431 else "invalid", str(error)))

    @property
    def _looks(self) -> bool:
        """Is it time for what was read?"""
        gone = self._transport is None or self._transport.is_closing()
        return not (gone or self._busy or self._unsent is not None)

    def _step(self) -> bool:
        """One event; may another one follow in this turn?"""
        if self._h11.their_state is h11.IDLE:
            checked(self._h11.trailing_data[0], self._server.settings.head_bytes_max)
        event = self._h11.next_event()
        if event is h11.NEED_DATA:
            self._partial = self._h11.their_state is not h11.IDLE or bool(self._h11.trailing_data[0])
            if self._transport:
                self._transport.resume_reading()
            return False
        if event is h11.PAUSED:
            return False
        self._take(cast("h11.Event", event))
        return not isinstance(event, h11.EndOfMessage)

    def _take(self, event: h11.Event) -> None:
        match event:
            case h11.Request():
                self._head = event
                fields = {name.lower(): value for name, value in event.headers.raw_items()}
                length = int(fields.get(b"content-length", 0))
                self._judge(event, fields)
                if length > self._server.settings.body_bytes_max:
                    self._reject(self._too_large())
                elif self._transport and self._h11.they_are_waiting_for_100_continue:
                    go_on = h11.InformationalResponse(status_code=100, headers=[])
                    self._transport.write(self._h11.send(go_on) or b"")
            case h11.Data():
                self._body += event.data
                if len(self._body) > self._server.settings.body_bytes_max:
                    self._reject(self._too_large())
            case h11.EndOfMessage(headers=trailers):
                if trailers:
                    raise HttpError("invalid", "fields after a chunked body are not taken")
                self._serve()
            case h11.ConnectionClosed():
                self._busy = True  # h11 says so again and again; nothing more is to come.
                if self._transport:
                    self._transport.close()
            case _:
                pass

    def _judge(self, head: h11.Request, fields: dict[bytes, bytes]) -> None:
        """Raises HttpError when a foreign page asks, or what is to come is not JSON."""
        headers = {text: fields[name].decode("latin-1") for name, text in _JUDGED if name in fields}
        has_body = b"transfer-encoding" in fields or fields.get(b"content-length", b"0") != b"0"
        refused = judge(head.method.decode(), headers, self._server.allowed_names, has_body=has_body)
        if refused is not None:
            raise HttpError(refused.code, refused.message)

    def _too_large(self) -> HttpError:
        return HttpError("too_large", f"a body may have {self._server.settings.body_bytes_max} bytes")

    def _reject(self, error: HttpError) -> None:
        """Answer, if it is not too late, and hang up."""
        self._busy = True
        without_body = self._head is not None and self._head.method == b"HEAD"
        self._respond(failure(error), without_body=without_body, last=True)

    def _serve(self) -> None:
        head, body = cast("h11.Request", self._head), bytes(self._body)
        self._body.clear()
        self._busy = True
        self._partial = False
        if self._transport:
            self._transport.pause_reading()
        try:
            request = parse_request(head, body, self._address)
        except HttpError as error:
            self._reject(error)
            return
        self._head = None
        respond = partial(self._respond, without_body=request.method == "HEAD")
        try:
            self._server.handler(request, respond)
        except Exception as error:  # noqa: BLE001  Raised in a turn of its own: here it would cost the client its answer.
            respond(UNMADE, last=True)  # Whoever was handed it may answer too: that must not come as the next one's.
            self._server.scheduler.call_soon(partial(raises, error))

    def _respond(self, response: Response, *, without_body: bool = False, last: bool = False) -> None:
        """Write the answer; then the next request, or the end."""
        if self._transport is None or not self._busy:
            return
        if self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [("content-type", response.content_type), ("content-length", str(len(response.body)))]
            headers += [*response.headers, ("connection", "close")] if last else list(response.headers)
            reason = HTTPStatus(response.status).phrase
            head = self._h11.send(h11.Response(status_code=response.status, headers=headers, reason=reason)) or b""
            out = head[:-2] + _SECURITY + b"\r\n"
            out += self._h11.send(h11.Data(data=b"" if without_body else response.body)) or b""
            out += self._h11.send(h11.EndOfMessage()) or b""
            self._transport.write(out)
        if not self._proven and not last:
            self._proven = self._server.answered(self)
        if last or self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            self._end()
            return
        self._h11.start_next_cycle()
        self._busy = False
        self._since = self._server.scheduler.monotonic()
        self._look_soon()

    @property
    def busy(self) -> bool:
        """Is a request under way?"""
        return self._busy and self._ending is None

    def overdue(self, now: float) -> bool:
        """Idle, stuck or dribbling for too long? (Looked at once a second.)"""
        limits = self._server.settings
        if self._ending is not None:
            return self._ending.overdue(now)
        if self._unsent is not None:  # An answer may take it long: only who takes nothing of it is overdue.
            return self._unsent.stands_still(now, limits.write_timeout_s)
        if self._busy:
            return False
        if self._partial:
            allowed = limits.request_timeout_s if self._head is not None else limits.head_timeout_s
        else:
            allowed = limits.idle_timeout_s if self._asked else limits.first_byte_timeout_s
        return now - self._since > allowed

    def _end(self) -> None:
        """The last answer leaves, nothing more is taken."""
        self._busy = True
        if self._transport is None:
            return
        if self._heard_all:
            self._transport.close()
        elif self._ending is None:
            limits = self._server.settings
            self._ending = Ending(self._transport, self._server.scheduler.monotonic(), limits.request_timeout_s)

    def close(self) -> None:
        """Hang up."""
        if self._transport:
            self._transport.abort()


class HttpServer(Listener[HttpConnection]):
    """One node's HTTP listener; ``handler`` answers the requests. ``hosts``: the names it is known by anyway."""

    def __init__(
        self,
        handler: Handler,
        settings: HttpSettings,
        metrics: Metrics,
        scheduler: Scheduler,
        hosts: Iterable[str] = (),
    ) -> None:
        self.allowed_names: AllowedNames = allowed_names(
            [*hosts, *settings.allowed_hosts], settings.allowed_origins, setting="http.allowed_hosts"
        )
        self.handler = handler
        self.settings = settings
        self.metrics = metrics
        super().__init__(settings, scheduler, partial(HttpConnection, self))
