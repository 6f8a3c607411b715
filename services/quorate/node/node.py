"""A controller node inside another program: start it, ask it, follow its log, stop it.

Rules: one loop, no thread of the caller's. Nothing here decides anything: a command takes the same way as one that
came over a listener, and every call ends within a deadline. Bad settings raise SettingsError; an address that cannot be
had AddressError; a directory that another node has DirectoryInUseError; a disk that fails StorageError. After any of
them nothing is left open.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Self, TypeVar

from structlog.contextvars import bound_contextvars

from quorate.controller import Caller, Listener, Outcome, ReadResult, ReadView
from quorate.controller.views import Level
from quorate.errors import QuorateError, UsageError
from quorate.events import Event, NodeAddresses, Stamp
from quorate.metadata.commands import Command
from quorate.node.compose import Core
from quorate.node.logs import logger
from quorate.node.running import Running, addresses_of
from quorate.node.settings import NodeSettings
from quorate.wire.avro import decode_events

READ_BYTES = 64 * 1024
"""Of the log, at a time: other work goes on in between."""

T = TypeVar("T")


class NotReadyError(QuorateError):
    """The node did not become ready in time."""


class Node:
    """A node in this process and on this loop: ``async with Node(settings) as node``."""

    def __init__(self, settings: NodeSettings, sources: Mapping[str, str] | None = None) -> None:
        """``sources``: where each setting that was given comes from, to be told (``settings.sources``)."""
        self.settings = settings
        self._sources = sources or {}
        self._running: Running | None = None
        self._ending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start it."""
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Stop it, handing the leadership over."""
        await self.stop()

    async def start(self) -> None:
        """Take part; once in the life of this object. Raises UsageError and StorageError, the node being as it was."""
        if self._running is not None:
            raise UsageError("this node was started already: make another Node")
        node_id = self.settings.node.id
        with bound_contextvars(node=node_id):  # Whatever runs from here on, of itself, names it in its log.
            running = Running(self.settings, logger(node_id), self._sources)
            await running.start()
        self._running = running

    async def stop(self, *, handover: bool = True) -> None:
        """Take part no longer; ``handover``: let another lead first. Who calls it again waits for the same end, which
        comes though every caller is called off.
        """
        if self._running is None:
            return
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._running.stop(handover=handover))
        if not self._ending.done():
            await asyncio.shield(self._ending)

    # -- what it is

    @property
    def running(self) -> Running:
        """All its parts. Raises UsageError before it has started."""
        if self._running is None:
            raise UsageError("this node has not started")
        return self._running

    @property
    def core(self) -> Core:
        """Engine, state machine and controller."""
        return self.running.core

    @property
    def addresses(self) -> NodeAddresses:
        """Where it is reached: brokers, the other voters, Kafka clients, HTTP clients."""
        return addresses_of(self.settings.me)

    @property
    def serving(self) -> bool:
        """All of its log is here, and it is not stopping."""
        return self._running is not None and self._running.serving

    @property
    def leads(self) -> bool:
        """It decides."""
        return self.serving and self.core.controller.is_leader

    @property
    def _decided(self) -> bool:
        """Does it serve, and decide if it is to?"""
        return self.serving and (self.leads or not self.core.engine.is_leader)

    # -- what it does

    async def ready(self, timeout_s: float = 30.0) -> None:
        """Return once the cluster is founded, somebody leads, and this node serves; its own term, if it leads, is open.
        Raises NotReadyError, saying what it waits for.
        """
        running, loop = self.running, asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while (left := until - loop.time()) > 0 and running.alive:
            view = await self.read(timeout_s=left)
            if isinstance(view, ReadView) and view.state.cluster is not None and self._decided:
                return
            await asyncio.sleep(min(0.01, left))
        raise NotReadyError(running.core.waits_for or f"no leader was found within {timeout_s:g} s")

    async def submit(
        self, command: Command, *, principal: str = "library", request_id: str = "", timeout_s: float | None = None
    ) -> Outcome:
        """Have it decided, here or by the leader. It may be asked again, if nobody knows, under the same id, and gets
        the first answer; of a very long one only where its events are, if it cannot be made again.
        """
        commands, caller = self.running.gateways.commands, Caller(principal, "")
        return await _told(
            lambda done: commands.submit(command, caller, done, request_id=request_id, timeout_s=timeout_s)
        )

    async def read(self, level: Level = "linearizable", *, timeout_s: float | None = None) -> ReadResult:
        """The committed state, as this node has it; ``linearizable``: with all that was committed before the call."""
        controller = self.core.controller
        return await _told(lambda done: controller.read(level, done, timeout_s=timeout_s))

    async def events(self, offset: int = 0) -> AsyncIterator[tuple[Stamp, Event]]:
        """Every committed event from an offset on, and each new one as it comes, until the node stops. Raises
        UsageError for an offset that the log does not have, and what the node failed of, if it did.
        """
        running, log = self.running, self.core.log
        news = asyncio.Event()
        listeners, listener = self.core.listeners, _News(news)
        listeners.add(listener)
        try:
            while not running.stopping:
                news.clear()
                for batch in log.read(offset, READ_BYTES):
                    for stamp, event in decode_events(batch):
                        if stamp.offset == offset:  # A batch may begin before what was asked for.
                            offset += 1
                            yield stamp, event
                if offset == log.end_offset:
                    await news.wait()
        finally:
            listeners.remove(listener)
        if running.failed.done():
            raise running.failed.result()

    async def wait_failed(self) -> BaseException:
        """Returns when the node must stop, with the reason."""
        return await asyncio.shield(self.running.failed)

    def fail(self, error: BaseException) -> None:
        """Something happened that it must not survive: it serves nothing more; the first reason stays."""
        self.running.fail(error)


class _News(Listener):
    """Wakes who reads the log."""

    def __init__(self, news: asyncio.Event) -> None:
        self._news = news

    def applied(self, end_offset: int) -> None:
        """There is more of it."""
        self._news.set()

    def stopping(self) -> None:
        """There will be no more."""
        self._news.set()


async def _told(ask: Callable[[Callable[[T], None]], None]) -> T:
    """The value that a callback is called with."""
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(value: T) -> None:
        if not answer.done():  # The caller may have given up.
            answer.set_result(value)

    ask(done)
    return await answer
