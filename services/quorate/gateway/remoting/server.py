"""The remoting listener: connections, deadlines and limits; what a request means is the service's business.

Rules: a plain ``asyncio.Protocol``: no task and no timer per connection or request; one sweep looks at all deadlines.
Who stays when all places are taken is ``quorate.admission``'s rule.
Answers of one turn leave in one send, at its end. Reading stops, and what was read is kept undecoded, while a
connection has too much in flight or does not read its answers; a turn takes a bounded number of its requests, and makes
large answers for half a millisecond. A peer that breaks the protocol gets what is ready and loses its connection
(``quorate.gateway.ending``), one that misses a deadline is cut off; nothing else changes.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, cast

from quorate import tls
from quorate.admission import Admission
from quorate.controller.outcomes import Caller
from quorate.errors import PeerError
from quorate.gateway.ending import Ending
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.metrics import Metrics
from quorate.slices import TURN_S
from quorate.wire.remoting import Frame, FrameSplitter, HeaderType, HeartbeatRequest, Message, Request, decode_request


class Service(Protocol):
    """What the server hands requests to."""

    def heartbeat(self, request: HeartbeatRequest, connection: "Connection") -> Message | None:
        """The hottest path: every broker, every second."""

    def handle(self, request: Request, frame: Frame, connection: "Connection") -> None:
        """Answer later, or now, through ``connection.answer``; exactly once."""

    def closed(self, connection: "Connection") -> None:
        """The connection is gone."""

    def knows(self, connection: "Connection") -> bool:
        """Is it the channel of a registered broker?"""


class Connection(asyncio.Protocol):
    """One peer. It is the ``Channel`` the live table knows: ``address`` and ``last`` are for it."""

    __slots__ = (
        "_due",
        "_ending",
        "_held",
        "_out",
        "_partial_since",
        "_partial_was",
        "_postponed",
        "_server",
        "_since",
        "_splitter",
        "_stalled_since",
        "_transport",
        "active",
        "address",
        "caller",
        "in_flight",
        "inside",
        "last",
        "proven",
        "seen",
    )

    ANONYMOUS: Final = Caller("anonymous", "")
    """Until somebody proves who they are."""

    def __init__(self, server: "RemotingServer") -> None:
        self._server = server
        self._splitter = FrameSplitter(server.settings.frame_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._held: list[Frame] = []
        """Read, and waiting for a turn, for answers to leave or for the peer to take some."""
        self._due = False
        self._ending: Ending | None = None
        self._postponed: list[Callable[[], None]] = []
        """Large answers that the peer does not take yet."""
        self._partial_since: float | None = None
        self._partial_was = 0
        self._stalled_since: float | None = None
        self._since = 0.0
        self.active = False
        self.inside = False
        """It was let in."""
        self.proven = False
        """It has had an answer, so an unproven connection goes first (``quorate.admission``)."""
        self.seen = 0.0
        self.address = ""
        self.last: object | None = None
        self.in_flight = 0
        self.caller = self.ANONYMOUS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Kept nearly empty: a thousand brokers may reconnect in one turn."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        host = str(peer[0]) if isinstance(peer, tuple) else ""
        self.address = f"{host}:{peer[1]}" if isinstance(peer, tuple) else "local"
        self._since = self.seen = self._server.loop.time()
        if not self._server.admit(self, host):
            return
        self._transport.set_write_buffer_limits(high=self._server.settings.write_buffer_bytes_max)
        self.caller = Caller(self.ANONYMOUS.principal, self.address)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the service once that this channel is gone."""
        self._transport = None
        self._out.clear()
        self._held.clear()
        self._postponed.clear()
        self._server.forget(self, self._partial_was)

    def data_received(self, data: bytes) -> None:
        """Frames in."""
        if self._ending is not None:
            self._ending.drop(data)
            return
        self.active = True
        try:
            frames = self._splitter.feed(data)
            if self._held or self._stalled_since is not None:
                self._held += frames  # They were on their way when reading stopped.
            else:
                self._take(frames)
        except PeerError as error:
            if not self._partial_was and tls.is_client_hello(data):  # Not in the middle of a frame.
                self.send(tls.REFUSAL)
            self.close(error)
            return
        if self._splitter.error is not None and not self._held:
            self.close(self._splitter.error)
            return
        if self._splitter.pending_bytes or self._partial_was:
            self._watch_partial(begun=bool(frames))

    def _take(self, frames: list[Frame]) -> None:
        """Heartbeats are taken here, everything else goes to the service; what is too much for now is held.

        Raises PeerError.
        """
        service, limits = self._server.service, self._server.settings
        if len(frames) > limits.requests_per_turn:
            self._held = frames[limits.requests_per_turn :]
            frames = frames[: limits.requests_per_turn]
        rest = iter(frames)
        for frame in rest:
            request = decode_request(frame)
            if request.__class__ is HeartbeatRequest and not request.flag & 1:
                answer = service.heartbeat(request, self)
                if answer is not None and not request.flag & 2:
                    self.send(answer.frame(frame.header_type, request.opaque))
            elif not request.flag & 1:
                if self.in_flight >= limits.in_flight_max:
                    self._held = [frame, *rest, *self._held]
                    break
                self.in_flight += 1
                service.handle(request, frame, self)
        full = self.in_flight >= limits.in_flight_max
        if (full or self._held) and self._transport is not None:
            self._transport.pause_reading()
            if not full:
                self._resume()

    def _go_on(self) -> None:
        """Take what is held, and read on after the last of it."""
        self._due = False
        full = self.in_flight >= self._server.settings.in_flight_max
        if full or self._stalled_since is not None or self._transport is None or self._transport.is_closing():
            return
        frames, self._held = self._held, []
        try:
            self._take(frames)
        except PeerError as error:
            self.close(error)
            return
        if self._held:
            return
        if self._splitter.error is not None:
            self.close(self._splitter.error)
        elif self.in_flight < self._server.settings.in_flight_max:
            self._resume()

    def answer(self, header_type: HeaderType, opaque: int, message: Message | None) -> None:
        """End one request handed to the service; ``None`` for a one-way one."""
        self.in_flight -= 1
        if not self.proven:
            self.proven = self._server.answered(self)
        if message is not None:
            self.send(message.frame(header_type, opaque))
        if self.in_flight == self._server.settings.in_flight_max // 2:
            self._resume()

    def later(self, make: Callable[[], None]) -> None:
        """Make a large answer in a turn that has time for it, once the peer takes answers; never if it is gone."""
        self._server.later(self, make)

    def offer(self, make: Callable[[], None]) -> None:
        """The turn is here."""
        if self._stalled_since is not None:
            self._postponed.append(make)
        elif self._transport is not None:
            make()

    def send(self, data: bytes) -> None:
        """Queue bytes; all of this turn leave together."""
        if self._transport is None or self._ending is not None:
            return
        if not self._out:
            self._server.at_turns_end(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        if self._transport is not None and self._out and self._ending is None:
            self.active = True
            self._transport.write(b"".join(self._out) if len(self._out) > 1 else self._out[0])
            self._out.clear()

    def pause_writing(self) -> None:
        """The peer does not read what it asked for."""
        self._stalled_since = self._server.loop.time()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """It caught up."""
        self._stalled_since = None
        postponed, self._postponed = self._postponed, []
        for make in postponed:
            self.later(make)
        self._resume()

    def _resume(self) -> None:
        """Go on with what is held, in a turn of its own, or with reading."""
        if self._transport is None or self._stalled_since is not None or self._transport.is_closing():
            return
        if not self._held:
            if self._partial_since is not None:  # It could not come while nothing was read.
                self._partial_since = self._server.loop.time()
            self._transport.resume_reading()
        elif not self._due:
            self._due = True
            self._server.loop.call_soon(self._go_on)

    def _watch_partial(self, *, begun: bool) -> None:
        """An unfinished frame has a deadline, and shares a budget with those of all other connections.

        ``begun``: others ended before it in the same bytes.
        """
        pending = self._splitter.pending_bytes
        budget_kept = self._server.partial(pending - self._partial_was)
        if not pending:
            self._partial_since = None
        elif begun or not self._partial_was:
            self._partial_since = self._server.loop.time()
        self._partial_was = pending
        if not budget_kept:
            self.close(PeerError("too many bytes of unfinished frames"))

    def overdue(self, now: float) -> str | None:
        """The deadline this connection missed, if any. Called once a sweep."""
        settings = self._server.settings
        if self._ending is not None:
            return "not gone in time" if self._ending.overdue(now) else None
        if self.active:
            self.active = False
            self.seen = now
        if self.seen == self._since and now - self._since > settings.first_byte_deadline_s:
            return "nothing sent in time"
        if self._partial_since is not None and now - self._partial_since > settings.partial_deadline_s:
            return "frame not finished in time"
        if self._stalled_since is not None and now - self._stalled_since > settings.slow_reader_deadline_s:
            return "answers not read in time"
        if now - self.seen > settings.idle_deadline_s:
            return "idle"
        return None

    def close(self, error: PeerError | None = None) -> None:
        """Send what is queued, and close: at once, or, of a peer that broke the protocol, when it has taken it."""
        if self._transport is None:
            return
        self._flush()
        if error is None:
            self._transport.close()
        elif self._ending is None:
            self._server.note()
            self._held.clear()
            self._postponed.clear()
            self._server.partial(-self._partial_was)
            self._partial_was = 0
            self._splitter = FrameSplitter(self._server.settings.frame_bytes_max)  # What it holds is nobody's.
            self._ending = Ending(self._transport, self._server.loop.time(), self._server.settings.partial_deadline_s)

    def abort(self) -> None:
        """Close without waiting for the peer."""
        if self._transport is not None:
            self._transport.abort()


class RemotingServer:
    """Listens, and keeps the limits that concern all connections together."""

    def __init__(
        self,
        service: Service,
        settings: RemotingSettings,
        *,
        loop: asyncio.AbstractEventLoop,
        now: Callable[[], float],
        at_turns_end: Callable[[Callable[[], None]], object],
        metrics: Metrics | None = None,
    ) -> None:
        self.service = service
        self.settings = settings
        self.loop = loop
        self.at_turns_end = at_turns_end
        self._now = now
        self._metrics = metrics or Metrics()
        self._large: deque[tuple[Connection, Callable[[], None]]] = deque()
        self._making = False
        self._admission: Admission[Connection] = Admission(
            places=settings.connections_max,
            reserved=settings.connections_reserved,
            per_address=settings.proven_per_address_max,
            busy=lambda connection: connection.in_flight > 0,
            known=service.knows,
        )
        self._partial_bytes = 0
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self.deadlines_missed: dict[str, int] = {}
        self._metrics.gauge("remoting_connections", "Open remoting connections.", lambda: len(self._admission))
        self._metrics.gauge(
            "remoting_connections_refused",
            "Remoting connections closed because all places were taken.",
            lambda: self._admission.evicted,
        )
        self._metrics.gauge(
            "remoting_deadlines_missed",
            "Remoting connections closed for missing a deadline.",
            lambda: sum(self.deadlines_missed.values()),
        )

    async def start(
        self, host: str, port: int, tls: ssl.SSLContext | None = None, *, serving: bool = True
    ) -> asyncio.Server:
        """Listen, or only take the address. Raises OSError when it cannot be had."""
        self._server = await self.loop.create_server(
            lambda: Connection(self),
            host,
            port,
            backlog=self.settings.backlog,
            ssl=tls,
            reuse_address=True,
            start_serving=serving,
        )
        self._sweeper = self.loop.call_later(self.settings.sweep_period_s, self._sweep)
        return self._server

    async def stop(self) -> None:
        """Close the listener and every connection."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        if self._server is not None:
            self._server.close()
            for connection in self._admission.guests():
                connection.close()
        for connection in self._admission.guests():  # A peer that does not read would be waited for.
            connection.abort()
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._admission)

    def admit(self, connection: Connection, host: str) -> bool:
        """Let one more in, for which another may have to go; False: it was closed itself."""
        leaving = self._admission.enter(connection, host)
        if leaving is not None:
            leaving.abort()
        connection.inside = leaving is not connection
        return connection.inside

    def answered(self, connection: Connection) -> bool:
        """A request of it was answered; answers whether it is proven, so that nothing more need be said of it."""
        return self._admission.answered(connection)

    def forget(self, connection: Connection, partial_bytes: int) -> None:
        """A connection ended."""
        self._admission.leave(connection)
        if connection.inside:
            self._partial_bytes -= partial_bytes
            self.service.closed(connection)

    def partial(self, change: int) -> bool:
        """Account bytes of unfinished frames; False = over the budget."""
        self._partial_bytes += change
        return self._partial_bytes <= self.settings.partial_bytes_max or change <= 0

    def later(self, connection: Connection, make: Callable[[], None]) -> None:
        """One more large answer to make; those of all connections share the time that a turn has for them."""
        self._large.append((connection, make))
        if not self._making:
            self._making = True
            self.loop.call_soon(self._make_large)

    def _make_large(self) -> None:
        until = self._now() + TURN_S
        try:
            while self._large:
                connection, make = self._large.popleft()
                connection.offer(make)
                if self._now() >= until:
                    break
        finally:
            self._making = bool(self._large)
            if self._making:
                self.loop.call_soon(self._make_large)

    def note(self) -> None:
        """A peer broke the protocol."""
        self._metrics.peer_errors["remoting"] += 1

    def _sweep(self) -> None:
        """Once a period: end whoever missed a deadline."""
        now = self.loop.time()
        for connection in self._admission.guests():
            missed = connection.overdue(now)
            if missed is not None:
                self.deadlines_missed[missed] = self.deadlines_missed.get(missed, 0) + 1
                connection.abort()
        self._sweeper = self.loop.call_later(self.settings.sweep_period_s, self._sweep)
