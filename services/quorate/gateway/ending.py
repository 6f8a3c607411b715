"""How a connection ends that has answers on their way: they leave, and nothing more is taken.

Rules: this side is closed for writing and what still comes is dropped, for closing over unread bytes would reset the
connection, and cost the client its answers. It closes; or is hung up on when it has sent too much, or has neither gone
nor taken anything for too long.
Source: RFC 9112 9.6.
"""

import asyncio
from typing import Final

DROPPED_BYTES_MAX: Final = 32 << 20
"""Twice the largest request of any listener."""


class Unsent:
    """What waits to be taken by a client: does it still take any?"""

    def __init__(self, transport: asyncio.Transport, now: float) -> None:
        self._transport = transport
        self._since = now
        self._size = transport.get_write_buffer_size()

    def stands_still(self, now: float, for_s: float) -> bool:
        """Has it taken nothing for longer than that? Looked at now and then."""
        before, self._size = self._size, self._transport.get_write_buffer_size()
        if self._size < before:
            self._since = now
        return now - self._since > for_s


class Ending:
    """Of one connection whose last bytes are written. TLS knows no half of a connection: there it is closed at once."""

    def __init__(self, transport: asyncio.Transport, now: float, deadline_s: float) -> None:
        self._transport = transport
        self._deadline_s = deadline_s
        self._unsent = Unsent(transport, now)
        self._dropped = 0
        if transport.is_closing():
            return
        if transport.can_write_eof():
            transport.write_eof()
            transport.resume_reading()
        else:
            transport.close()

    def drop(self, data: bytes) -> None:
        """More came."""
        self._dropped += len(data)
        if self._dropped > DROPPED_BYTES_MAX:
            self._transport.abort()

    def overdue(self, now: float) -> bool:
        """Is it still there, and takes nothing?"""
        return self._unsent.stands_still(now, self._deadline_s)
