"""Processes that replay, as a node starts and talks to them.

Rules: a process is started off the loop, when there is something to do. What it says is taken in small slices, and it
is not read while much of that waits; what it is told waits while it is slow. A process that ends, or says what cannot
be understood, fails what it was doing and nothing else. It ends with its node: its only socket closes.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import cast

from quorate.clock import Scheduler
from quorate.errors import PeerError
from quorate.history.past import Link, Listener
from quorate.history.replay import FRAME, Order, framed, read_report
from quorate.history.settings import HistorySettings
from quorate.slices import TURN_S

UNREAD_MAX = 64
"""Messages that may wait before the socket is read no further."""
END_S = 5.0
"""How long a killed process may take to be gone."""

Started = tuple["subprocess.Popen[bytes]", socket.socket]


def spawn(nice: int) -> Started:
    """A process, and our end of its socket. Raises OSError. Takes milliseconds: not for the loop."""
    ours, its = socket.socketpair()
    try:
        # -P: nothing is imported from the directory the node runs in, as by the node itself.
        words = [sys.executable, "-P", "-m", "quorate.history.worker", str(nice)]
        process = subprocess.Popen(words, stdin=its.fileno(), stdout=subprocess.DEVNULL)  # noqa: S603 - our own
    except OSError:
        ours.close()
        raise
    finally:
        its.close()
    ours.setblocking(False)
    return process, ours


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kill and reap. Not for the loop."""
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_S)


class ProcessLink(asyncio.Protocol):
    """``Link`` to one process; ``over`` is called when nothing comes from it any more, maybe more than once."""

    def __init__(
        self,
        listener: Listener,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        settings: HistorySettings,
        over: Callable[[], None],
    ) -> None:
        self._listener: Listener | None = listener
        self._over = over
        self._loop = loop
        self._scheduler = scheduler
        self._settings = settings
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._blocked = False
        self._buffer = bytearray()
        self._unread: deque[bytes] = deque()
        self._taking = False
        self._task = loop.create_task(self._run())

    async def _run(self) -> None:
        """From its start to the end of the process."""
        try:
            self._process, ours = await self._loop.run_in_executor(None, spawn, self._settings.worker_nice)
            if self._listener is None:
                ours.close()
            else:
                await self._loop.create_unix_connection(lambda: self, sock=ours)
        except OSError as error:
            self._gone(f"a process could not be started: {error}")

    async def ended(self) -> None:
        """Wait until the process is gone; after ``close``."""
        await self._task
        if self._process is not None:
            await self._loop.run_in_executor(None, end, self._process)

    @property
    def over(self) -> bool:
        """Nothing comes from it any more."""
        return self._listener is None

    # -- Link

    @property
    def full(self) -> bool:
        """Enough is on its way; ``drained`` will be called. Also while the process starts."""
        return self._transport is None or self._blocked

    def send(self, order: Order) -> None:
        """Hand over."""
        if self._transport is not None:
            self._transport.write(framed(order))

    def close(self) -> None:
        """End it; nothing is called any more."""
        self._listener = None
        if self._transport is not None:
            self._transport.abort()
        self._over()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The process can be told things (it may still be importing)."""
        self._transport = cast("asyncio.Transport", transport)
        if self._listener is None:
            self._transport.abort()
        else:
            self._listener.drained()

    def connection_lost(self, exc: Exception | None) -> None:
        """It ended."""
        self._transport = None
        self._gone("the process that replayed ended")

    def pause_writing(self) -> None:
        """It is slow."""
        self._blocked = True

    def resume_writing(self) -> None:
        """It takes more again."""
        self._blocked = False
        if self._listener is not None:
            self._listener.drained()

    def data_received(self, data: bytes) -> None:
        """Cut into messages; they are taken in slices."""
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) >= at + FRAME.size:
            (size,) = FRAME.unpack_from(buffer, at)
            if size > self._settings.frame_bytes_max:
                self._broken(f"a message of {size} bytes")
                return
            if len(buffer) < at + FRAME.size + size:
                break
            at += FRAME.size
            self._unread.append(bytes(buffer[at : at + size]))
            at += size
        del buffer[:at]
        if len(self._unread) > UNREAD_MAX and self._transport is not None:
            self._transport.pause_reading()
        if not self._taking:
            self._take()

    def _take(self) -> None:
        """As many messages as fit a turn."""
        self._taking = False
        until = self._scheduler.monotonic() + TURN_S
        try:
            while self._unread and self._listener is not None:
                self._listener.report(read_report(self._unread.popleft()))
                if self._scheduler.monotonic() >= until:
                    break
        except PeerError as error:
            self._broken(str(error))
            return
        if self._unread:
            self._taking = True
            self._scheduler.call_soon(self._take)
        elif self._transport is not None:
            self._transport.resume_reading()

    def _broken(self, reason: str) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._gone(reason)

    def _gone(self, reason: str) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.gone(reason)
        self._over()


class Processes:
    """Starts them for ``Past``, and knows them all until they are gone."""

    def __init__(self, loop: asyncio.AbstractEventLoop, scheduler: Scheduler, settings: HistorySettings) -> None:
        self._loop = loop
        self._scheduler = scheduler
        self._settings = settings
        self._links: list[ProcessLink] = []
        self._reaping: set[asyncio.Task[None]] = set()

    def start(self, listener: Listener) -> Link:
        """A new process; it is reaped when it has ended."""
        reap = partial(self._scheduler.call_soon, self._reap)
        link = ProcessLink(listener, self._loop, self._scheduler, self._settings, reap)
        self._links.append(link)
        return link

    def _reap(self) -> None:
        for link in [link for link in self._links if link.over]:
            self._links.remove(link)
            task = self._loop.create_task(link.ended())
            self._reaping.add(task)
            task.add_done_callback(self._reaping.discard)

    async def stop(self) -> None:
        """End all of them, and wait until they are gone."""
        links, self._links = self._links, []
        for link in links:
            link.close()
        await asyncio.gather(*(link.ended() for link in links), *self._reaping)
