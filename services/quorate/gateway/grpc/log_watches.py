"""Watches of some kinds of entities, from any revision of the log: what they have in common.

Rules: a watcher reads the log itself (``watch_log``), whole entries, as fast as its client takes them: nothing is
queued for it, dropped or told twice. What is applied is looked at once for all, by its bytes, and wakes only those whom
it may concern.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, Generic, TypeVar

from quorate.consensus.storage.event_log import parse_batch
from quorate.controller import Listener
from quorate.errors import UsageError
from quorate.gateway.grpc.asking import Asking
from quorate.gateway.grpc.codes import TOO_MANY, CallError
from quorate.gateway.grpc.watch_log import LogFold, WatchKinds

C = TypeVar("C")
READS_PER_TURN: Final = 4
"""Of the log, when what is applied is looked at."""


class LogWatch(Generic[C]):
    """What one watcher is told: ``begins`` after this revision; ``changes`` all there is, and then whatever comes."""

    def __init__(self, fold: LogFold[C], wake: asyncio.Event) -> None:
        self._fold, self.wake = fold, wake
        self.begins = max(fold.offset - 1, 0)

    async def changes(self) -> AsyncIterator[C]:
        """As fast as they are taken."""
        while True:
            self.wake.clear()
            place = self._fold.offset
            for change in self._fold.read():
                yield change
            if self._fold.offset == place:
                await self.wake.wait()
            else:
                await asyncio.sleep(0)

    def close(self) -> None:
        """Nothing is wanted any more."""
        self._fold.close()


class LogWatches(Listener):
    """All watchers of a node that want some kinds of entities."""

    def __init__(self, asking: Asking) -> None:
        self._asking, self._context = asking, asking.context
        self._waiting: dict[asyncio.Event, tuple[bytes, ...]] = {}
        """Who waits, and for what in the bytes of an entry."""
        self._seen = 0
        self._due = False

    def __len__(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        """Hear what is applied."""
        self._context.controller.listeners.add(self)

    def stop(self) -> None:
        """No more."""
        self._context.controller.listeners.remove(self)

    def follow(self, whom: WatchKinds[C], start: int) -> LogWatch[C]:
        """One more watcher, from this revision on (0: from now). Raises CallError."""
        if len(self._waiting) >= self._context.settings.watches_max:
            raise CallError(*TOO_MANY)
        now, wake = self._context.controller.offset, asyncio.Event()
        if 0 < start < now:
            fold = LogFold(self._context, whom, self._asking.entry_start(start), wake.set)
        else:
            fold = LogFold(self._context, whom, now, wake.set, self._context.controller.state)
        if not self._waiting:
            self._seen = now
        self._waiting[wake] = whom.marks
        return LogWatch(fold, wake)

    def leave(self, watch: LogWatch[C]) -> None:
        """One less."""
        watch.close()
        del self._waiting[watch.wake]

    def applied(self, end_offset: int) -> None:
        """Look at it when other work has had its turn."""
        if self._waiting and not self._due:
            self._due = True
            self._context.scheduler.call_soon(self._pass)

    def _pass(self) -> None:
        self._due = False
        log, most, found = self._context.log, self._context.settings.watch_read_bytes, set[asyncio.Event]()
        for _ in range(READS_PER_TURN):
            try:
                batches = log.read(self._seen, most) if log.ready(self._seen, most, _nothing, _never) else None
            except UsageError:  # A snapshot took the place of what was there.
                batches = None
            if not batches:
                break
            base, count, _, _ = parse_batch(batches[-1])
            self._seen = base + count
            piece = b"".join(batches)
            hit = {marks for marks in set(self._waiting.values()) if any(mark in piece for mark in marks)}
            found |= {one for one, marks in self._waiting.items() if marks in hit}
        else:
            self.applied(self._seen)
            batches = []
        if batches is None:  # Too far behind to look: whoever waits looks for himself.
            self._seen, found = self._context.controller.offset, set(self._waiting)
        for one in found:
            one.set()


def _nothing() -> None:
    """Nobody waits for it."""


def _never() -> bool:
    return False
