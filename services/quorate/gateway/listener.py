"""Shared by the Kafka, the HTTP and the gRPC server: a listener, admission, and the sweep of overdue connections.

Rules: who is let in is a rule of ``quorate.admission``; no timer per connection, one sweep looks at all deadlines.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from quorate.admission import Admission
from quorate.clock import Scheduler, Timer


class Guest(Protocol):
    """A connection, as its listener sees it."""

    @property
    def busy(self) -> bool:
        """Is a request under way?"""

    def overdue(self, now: float) -> bool:
        """Has it kept the server waiting too long?"""

    def close(self) -> None:
        """Hang up."""


class GuestLimits(Protocol):
    """How many guests a listener has, and how often it looks at their deadlines."""

    @property
    def connections_max(self) -> int:
        """All of them."""

    @property
    def connections_reserved(self) -> int:
        """Of these, how many proven connections leave to others."""

    @property
    def proven_per_address_max(self) -> int:
        """Connections of one address that count as proven."""

    @property
    def sweep_period_s(self) -> float:
        """How often deadlines are looked at."""


G = TypeVar("G", bound=Guest)


class Listener(Generic[G]):
    """Base of a server; ``protocol`` makes the protocol of an accepted socket, which says when it comes and goes."""

    def __init__(self, limits: GuestLimits, scheduler: Scheduler, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self.scheduler = scheduler
        self._protocol = protocol
        self._sweep_period_s = limits.sweep_period_s
        self._admission: Admission[G] = Admission(
            places=limits.connections_max,
            reserved=limits.connections_reserved,
            per_address=limits.proven_per_address_max,
            busy=lambda connection: connection.busy,
        )
        self._listener: asyncio.Server | None = None
        self._sweep: Timer | None = None

    async def start(
        self, host: str, port: int, context: ssl.SSLContext | None = None, *, serving: bool = True
    ) -> asyncio.Server:
        """Listen, or only take the address. Raises OSError when it cannot be had."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._protocol, host, port, ssl=context, backlog=1024, start_serving=serving
        )
        self._sweep = self.scheduler.call_later(self._sweep_period_s, self._swept)
        return self._listener

    async def stop(self) -> None:
        """Stop listening and hang up on everyone."""
        if self._listener:
            self._listener.close()
        if self._sweep:
            self._sweep.cancel()
        for connection in self._admission.guests():
            connection.close()

    @property
    def connections(self) -> int:
        """Clients connected now."""
        return len(self._admission)

    def opened(self, connection: G, host: str) -> None:
        """Let one more in, for which another may have to go, or itself."""
        leaving = self._admission.enter(connection, host)
        if leaving is not None:
            leaving.close()

    def answered(self, connection: G) -> bool:
        """A request of it was answered; answers whether it is proven, so that nothing more need be said of it."""
        return self._admission.answered(connection)

    def closed(self, connection: G) -> None:
        """A client is gone."""
        self._admission.leave(connection)

    def _swept(self) -> None:
        now = self.scheduler.monotonic()
        for connection in [c for c in self._admission.guests() if c.overdue(now)]:
            connection.close()
        self._sweep = self.scheduler.call_later(self._sweep_period_s, self._swept)
