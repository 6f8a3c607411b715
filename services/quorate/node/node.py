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

from quorate.consensus.storage.event_log import EventLog
from quorate.controller import Answered, Caller, Listener, Outcome, ReadResult, ReadView
from quorate.controller.views import Level
from quorate.errors import QuorateError, UsageError
from quorate.events import Event, NodeAddresses, Stamp
from quorate.gateway.fresh import Freshness, NotFresh
from quorate.metadata.commands import Command
from quorate.node.compose import Core
from quorate.node.logs import logger
from quorate.node.running import Running, addresses_of
from quorate.node.settings import NodeSettings
from quorate.wire.avro import decode_events

READ_BYTES = 64 * 1024
"""Of the log, in one turn."""

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
        Raises NotReadyError, saying what it waits for, or that it stopped or failed.
        """
        running, loop = self.running, asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while (left := until - loop.time()) > 0 and running.alive:
            view = await self.read(timeout_s=left)
            if isinstance(view, ReadView) and view.state.cluster is not None and self._decided:
                return
            await asyncio.sleep(min(0.01, left))
        if running.failed.done():
            raise NotReadyError(f"the node failed: {running.failed.result()}")
        if not running.alive:
            raise NotReadyError("the node was stopped")
        raise NotReadyError(running.core.waits_for or f"no leader was found within {timeout_s:g} s")

    async def submit(
        self, command: Command, *, principal: str = "library", request_id: str = "", timeout_s: float | None = None
    ) -> Outcome:
        """Have it decided, here or by the leader. It may be asked again, if nobody knows, under the same id, and gets
        the first answer; of a very long one only where its events are, if it cannot be made again. What was decided
        by another node is applied here when it is answered, unless that takes longer than ``answer_timeout_s``.
        """
        gateways, caller = self.running.gateways, Caller(principal, "")
        outcome: Outcome = await _told(
            lambda done: gateways.commands.submit(command, caller, done, request_id=request_id, timeout_s=timeout_s)
        )
        if isinstance(outcome, Answered) and self.core.controller.offset < outcome.offset:
            await self._applied(outcome.offset)  # In time or not: it is answered.
        return outcome

    async def _applied(self, offset: int) -> ReadView | NotFresh:
        """What is here once so many events are applied, or that they are not in time."""

        def begin(done: Callable[[ReadView | NotFresh], None]) -> None:
            self.running.gateways.reads.read(Freshness(linearizable=False, min_offset=offset), done)

        return await _told(begin)

    async def read(self, level: Level = "linearizable", *, timeout_s: float | None = None) -> ReadResult:
        """The committed state, as this node has it; ``linearizable``: with all that was committed before the call."""
        controller = self.core.controller
        return await _told(lambda done: controller.read(level, done, timeout_s=timeout_s))

    async def events(self, offset: int = 0) -> AsyncIterator[tuple[Stamp, Event]]:
        """Every committed event from an offset on, and each new one as it comes, until the node stops. Raises
        UsageError for an offset that the log does not have, and what the node failed of, if it did. Other work goes on
        in between, also of who does nothing but take them.
        """
        running, log = self.running, self.core.log
        listeners, listener = self.core.listeners, _News(log)
        listeners.add(listener)
        try:
            while not running.stopping:
                for batch in await listener.read(offset):
                    for stamp, event in decode_events(batch):
                        if stamp.offset == offset:  # A batch may begin before what was asked for.
                            offset += 1
                            yield stamp, event
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
    """Reads the log piece by piece, as it grows."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._news = asyncio.Event()
        self._here: asyncio.Future[list[bytes]] | None = None
        self._stopping = False

    async def read(self, offset: int) -> list[bytes]:
        """The next of it, once there is some, in a turn of its own; none when there will be no more. Raises UsageError,
        StorageError.
        """
        while not self._stopping:
            self._news.clear()
            found = await self._piece(offset)
            if found:
                return found
            if not self._stopping:
                await self._news.wait()
        return []

    async def _piece(self, offset: int) -> list[bytes]:
        """What is not in memory is read beside the loop."""
        here: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        self._here = here

        def at_hand() -> None:
            if not here.done():
                try:
                    here.set_result(self._log.read(offset, READ_BYTES))
                except QuorateError as error:
                    here.set_exception(error)

        if self._log.ready(offset, READ_BYTES, at_hand, lambda: not here.done()):
            at_hand()
            await asyncio.sleep(0)
        return await here

    def applied(self, end_offset: int) -> None:
        """There is more of it."""
        self._news.set()

    def stopping(self) -> None:
        """There will be no more."""
        self._stopping = True
        self._news.set()
        if self._here is not None and not self._here.done():
            self._here.set_result([])  # Nobody reads any more.


async def _told(ask: Callable[[Callable[[T], None]], None]) -> T:
    """The value that a callback is called with."""
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(value: T) -> None:
        if not answer.done():  # The caller may have given up.
            answer.set_result(value)

    ask(done)
    return await answer
