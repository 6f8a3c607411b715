"""A listener of another HTTP server (aiohttp's, of the page and of the views), with our rule of who may stay; and what
every program of ours says of an address that it cannot listen on.

Rules: a ``ProtocolFactory`` makes the protocols of a listener and stands before each: who is let in is a rule of
``quorate.admission``; the first byte, each head and the pause between requests have deadlines, looked at in one sweep.
Of a request it reads the head, strictly (``quorate.heads``), and how long its body is: one request at a time is passed
on, whole heads only. Who begins with TLS is told, in its words, that there is none. The application tells it what was
answered (``answered``), for the server below does not say; a body has the application's own deadline.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, cast

import msgspec

from quorate import tls
from quorate.admission import Admission
from quorate.bounds import bounded
from quorate.descriptors import raised, shared
from quorate.errors import AddressError
from quorate.heads import HeadError, body_bytes, checked
from quorate.log_filter import RepeatFilter
from quorate.origins import SECURITY_HEADERS

log = logging.getLogger(__name__)
quiet = logging.getLogger(f"{__name__}.refused")
quiet.addFilter(RepeatFilter())

PLACES_LEAST: Final = 16
"""Connections that a listener cannot do without."""
_REFUSED: Final[Mapping[str, HTTPStatus]] = {
    "head_too_large": HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "invalid": HTTPStatus.BAD_REQUEST,
    "length_required": HTTPStatus.LENGTH_REQUIRED,
    "unknown_version": HTTPStatus.HTTP_VERSION_NOT_SUPPORTED,
}
_REMEDIES: Mapping[int | None, str] = {
    errno.EADDRINUSE: "end what listens there, or give another port",
    errno.EADDRNOTAVAIL: "give an address of this machine",
    errno.EACCES: "give a port that this user may have",
}


def address_error(setting: str, host: str, port: int, error: OSError) -> AddressError:
    """Says which setting names an address that cannot be had, why, and what to do. asyncio's own text says neither."""
    reason = error.strerror or str(error)
    if error.errno and not isinstance(error, socket.gaierror):  # The resolver has numbers of its own.
        reason = os.strerror(error.errno).lower()
    remedy = _REMEDIES.get(error.errno)
    return AddressError(f"{setting}: cannot listen on {host}:{port}: {reason}" + (f"; {remedy}" if remedy else ""))


class ListeningLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one listener; times in seconds."""

    connections_max: int = 500
    """When one more comes, the one that is longest without an answer goes, of those that have proven nothing."""
    connections_reserved: int = 50
    """Of these, how many proven connections leave to others (at most half)."""
    proven_per_address_max: int = 300
    """Connections of one address that count as proven."""
    first_byte_timeout_s: float = 10.0
    """How long a connection may stay without having sent a byte."""
    head_bytes_max: int = 16 * 1024
    """Request line and headers together; as much of a next request may wait for its turn."""
    head_timeout_s: float = 5.0
    """Request line and headers must be whole this long after their first byte."""
    idle_timeout_s: float = 75.0
    """A connection without a request for this long is closed."""
    sweep_period_s: float = 1.0
    """How often deadlines are looked at."""

    def __post_init__(self) -> None:
        """Raise UsageError for what cannot work."""
        bounded(self)


def fitted(limits: ListeningLimits, beside: int) -> ListeningLimits:
    """The limits as they fit below what this process may open, which is raised as far as it may be; ``beside``: what
    else it opens. Raises UsageError when too little is left to listen at all.
    """
    setting = "connections_max"
    asked = {setting: limits.connections_max}
    limit = raised(beside + limits.connections_max)
    had = shared(asked, {setting: PLACES_LEAST}, limit - beside, limit)
    if had != asked:
        log.warning("few descriptors (%d): %d connections at a time, not %d", limit, had[setting], asked[setting])
    return msgspec.structs.replace(limits, **had)


class _Guest(asyncio.Protocol):
    """One connection, and the protocol that serves it."""

    def __init__(self, keeper: "ProtocolFactory", served_by: asyncio.Protocol) -> None:
        self._keeper = keeper
        self._served_by = served_by
        self._inside = False
        self._held = b""
        """A head that is not whole, or a request whose turn has not come."""
        self._body_left = 0
        """Bytes of the body that are still to come."""
        self._since = keeper.now()
        """Its coming, the first byte of a head, or the last answer."""
        self._asked = False
        self.in_head = False
        self.busy = False
        """A request is under way."""
        self.proven = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let it in, for which another may have to go."""
        self.transport = cast("asyncio.Transport", transport)
        self._inside = self._keeper.admit(self)
        if self._inside:
            self._served_by.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """More bytes of a request, or of the next one."""
        if not self._asked and tls.is_client_hello(data):
            self.transport.write(tls.REFUSAL)
            self.transport.close()
            return
        self._held += data
        self._go_on()

    def _go_on(self) -> None:
        """Pass on what is there of the request under way; or, when there is none, a head that is whole."""
        while self._held and not self.transport.is_closing():
            if self._body_left:
                body, self._held = self._held[: self._body_left], self._held[self._body_left :]
                self._body_left -= len(body)
                self._served_by.data_received(body)
            elif self.busy:
                if len(self._held) > self._keeper.limits.head_bytes_max:
                    self.transport.abort()
                return
            elif not self._begin():
                return

    def _begin(self) -> bool:
        """Pass on the head that is held; False: it is not whole, or was refused."""
        if not self.in_head:
            self.in_head = self._asked = True
            self._since = self._keeper.now()
        try:
            head = checked(self._held, self._keeper.limits.head_bytes_max)
            self._body_left = body_bytes(head) if head else 0
        except HeadError as error:
            self._refuse(error)
            return False
        if not head:
            return False
        self.busy, self.in_head, self._held = True, False, self._held[len(head) :]
        self._served_by.data_received(head)
        return True

    def _refuse(self, error: HeadError) -> None:
        self._keeper.refused_one(error)
        status, self._held = _REFUSED[error.code], b""
        body = msgspec.json.encode({"error": {"code": error.code, "message": str(error)}})
        fields = {**SECURITY_HEADERS, "content-type": "application/json", "content-length": len(body)}
        lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in fields.items())]
        self.transport.write("\r\n".join([*lines, "connection: close", "", ""]).encode() + body)
        self.transport.close()

    def ended(self) -> None:
        """The request was answered."""
        self.busy = False
        self._since = self._keeper.now()
        self._keeper.soon(self._go_on)

    def overdue(self, now: float) -> bool:
        """Has it missed a deadline? One whose request is under way has the application's; what is left of the body of
        an answered one has that of a head.
        """
        limits = self._keeper.limits
        if self.in_head or (self._body_left and not self.busy):
            return now - self._since > limits.head_timeout_s
        return not self.busy and now - self._since > (
            limits.idle_timeout_s if self._asked else limits.first_byte_timeout_s
        )

    def eof_received(self) -> bool | None:
        """The peer sends nothing more."""
        return self._served_by.eof_received()

    def pause_writing(self) -> None:
        """The kernel's buffer is full: write no more."""
        self._served_by.pause_writing()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._served_by.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._keeper.leave(self)
        if self._inside:
            self._served_by.connection_lost(exc)


class ProtocolFactory:
    """Makes the protocols of one listener: what ``loop.create_server`` is given. Made on the loop.

    ``serve``: makes the protocol that a connection is served by.
    """

    def __init__(self, serve: Callable[[], asyncio.Protocol], limits: ListeningLimits) -> None:
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self._guests: dict[asyncio.BaseTransport, _Guest] = {}
        self._admission: Admission[_Guest] = Admission(
            places=limits.connections_max,
            reserved=limits.connections_reserved,
            per_address=limits.proven_per_address_max,
            busy=lambda guest: guest.busy,
        )
        self.limits = limits
        self.now, self.soon = self._loop.time, self._loop.call_soon
        self._refused = 0
        self._sweep = self._loop.call_later(limits.sweep_period_s, self._swept)

    def __call__(self) -> asyncio.Protocol:
        """The protocol of one more connection."""
        return _Guest(self, self._serve())

    def __len__(self) -> int:
        """Connections inside."""
        return len(self._admission)

    def close(self) -> None:
        """Look at no deadline any more; the listener is closed by whoever opened it."""
        self._sweep.cancel()

    def prove(self, transport: asyncio.BaseTransport | None) -> None:
        """A request of this connection is being answered, and perhaps for long."""
        guest = self._guests.get(transport) if transport is not None else None
        if guest is not None and not guest.proven:
            guest.proven = self._admission.answered(guest)

    def answered(self, transport: asyncio.BaseTransport | None) -> None:
        """A request of this connection was answered. Transports that came by another door are nobody's."""
        self.prove(transport)
        guest = self._guests.get(transport) if transport is not None else None
        if guest is not None:
            guest.ended()

    def refused_one(self, reason: object) -> None:
        """A request was no HTTP, or not in one way only: counted, and said ever more seldom."""
        self._refused += 1
        quiet.warning("requests that were no HTTP so far: %d; the last: %s", self._refused, reason)

    # What guests ask.

    def admit(self, guest: _Guest) -> bool:
        """Let one in; False: it was closed itself."""
        peer = guest.transport.get_extra_info("peername")
        leaving = self._admission.enter(guest, str(peer[0]) if isinstance(peer, tuple) else "")
        if leaving is not None:
            leaving.transport.abort()
        if leaving is guest:
            return False
        self._guests[guest.transport] = guest
        return True

    def leave(self, guest: _Guest) -> None:
        """One is gone."""
        self._admission.leave(guest)
        self._guests.pop(guest.transport, None)

    def _swept(self) -> None:
        now = self.now()
        for guest in [guest for guest in self._admission.guests() if guest.overdue(now)]:
            guest.transport.abort()
        self._sweep = self._loop.call_later(self.limits.sweep_period_s, self._swept)
