"""Sends news to browsers: server-sent events.

Rules: a message is made once for all browsers. Facts leave within ``coalesce_ms`` of being folded. Every browser has a
bounded queue; one that is too slow loses what waits and is told to read again. While a long way behind the log nothing
is told but that, now and then.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec

from quorate.events import ConfigChanged
from quorate_spark.dashboard.panels.events import EventRow
from quorate_spark.dashboard.panels.events import row as event_row
from quorate_spark.dashboard.panels.health import Health, health
from quorate_spark.dashboard.panels.quorum import Quorum, quorum
from quorate_spark.dashboard.panels.sets import SetRow, rows, sets
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.settings import Settings
from quorate_spark.dashboard.soft_state import Soft

log = logging.getLogger(__name__)

BEHIND_PAUSE_S: Final = 0.5
"""Between messages while catching up."""
QUIET_S: Final = 2.0
"""After so long without news browsers are told that we are here: those that hear nothing for 6 s hang up."""
HERE: Final = b": here\n\n"
END: Final = b""


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first event of a stream."""

    offset: int
    time: int | None
    end_offset: int
    now: int
    key: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts since the message before."""

    since: int
    """The first of them: they belong on what reflects all before it, and on nothing older."""
    offset: int
    time: int | None
    now: int
    events: list[EventRow]
    sets: list[SetRow]
    removed: list[str]
    health: Health
    quorum: Quorum


class Resync(msgspec.Struct, frozen=True, kw_only=True):
    """Read again what is on screen."""

    offset: int


def message(event: str, data: msgspec.Struct, number: int | None = None) -> bytes:
    """One server-sent event."""
    head = b"" if number is None else b"id: %d\n" % number
    return head + b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(data))


def facts_since(view: View, since: int, soft: Soft | None = None) -> bytes:
    """The facts from ``since`` to the view's offset, as a message; its health rests on ``soft`` too."""
    spool = view.log.spool
    facts = list(spool.facts(since, view.offset))
    changed = sets(view, since=since)
    labels = [one.event.scope.partition("/")[2] for one in facts if isinstance(one.event, ConfigChanged)]
    names = {row.name for row in changed.sets}
    changed_rows = [*changed.sets, *rows(view, [name for name in labels if name not in names])]
    data = Facts(
        since=since,
        offset=view.offset,
        time=view.state.time,
        now=view.now,
        events=[event_row(one, spool) for one in facts],
        sets=changed_rows,
        removed=changed.removed,
        health=health(replace(view, soft=soft)),
        quorum=quorum(view),
    )
    return message("facts", data, view.offset)


class Client:
    """One browser."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting: deque[bytes] = deque()
        self._some = asyncio.Event()

    def put(self, data: bytes, resync: Callable[[], bytes]) -> None:
        """Send this when there is time; when too much waits, ``resync`` instead of all of it."""
        if len(self._waiting) >= self._size:
            self._waiting.clear()
            data = resync()
        self._waiting.append(data)
        self._some.set()

    def end(self) -> None:
        """There is no more."""
        self._waiting.append(END)
        self._some.set()

    async def take(self) -> bytes:
        """All that waits, or a word that we are here; ends with END when there is no more."""
        while not self._waiting:
            self._some.clear()
            try:
                async with asyncio.timeout(QUIET_S):
                    await self._some.wait()
            except TimeoutError:
                return HERE
        data = list(self._waiting)
        self._waiting.clear()
        if END in data:
            self._waiting.append(END)
            data = data[: data.index(END)]
        return b"".join(data)


class Hub:
    """All browsers. ``view``: the newest view, without soft state; ``soft``: the newest of that; ``behind``: events
    known and not folded yet.
    """

    def __init__(
        self,
        settings: Settings,
        view: Callable[[], View],
        soft: Callable[[], Soft | None],
        behind: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._view = view
        self._soft = soft
        self._behind = behind
        self._clients: set[Client] = set()
        self._told = 0
        self._flushed_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._clients)

    def join(self, hello: Hello, since: int | None) -> Client:
        """A browser that has everything before ``since`` (None: that will read everything)."""
        self._flush()
        client = Client(self._settings.client_queue_max)
        client.put(message("hello", hello), self._resync)
        if since is not None:
            client.put(self._missed(since), self._resync)
        self._clients.add(client)
        return client

    def _missed(self, since: int) -> bytes:
        view = self._view()
        if since == view.offset:
            return b": up to date\n\n"
        if since > view.offset or view.offset - since > self._settings.catch_up_max:
            return self._resync()
        return facts_since(view, since, self._soft())

    def leave(self, client: Client) -> None:
        """It is gone."""
        self._clients.discard(client)

    def taken(self) -> None:
        """Something was folded."""
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        far = self._behind() > self._settings.facts_max
        pause = BEHIND_PAUSE_S if far else self._settings.coalesce_ms / 1000
        self._timer = loop.call_at(max(self._flushed_s + pause, loop.time()), self._flush)

    def _flush(self) -> None:
        """Tell everybody what is new."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._flushed_s = asyncio.get_running_loop().time()
        view, since = self._view(), self._told
        self._told = view.offset
        if not self._clients or view.offset == since:
            return
        self._send(self._news(view, since))

    def _news(self, view: View, since: int) -> bytes:
        """The facts, or that browsers must read them: of too many, and where they cannot be told."""
        if view.offset - since > self._settings.facts_max:
            return self._resync()
        try:
            return facts_since(view, since, self._soft())
        except Exception:
            log.exception("the facts from %d to %d could not be told", since, view.offset)
            return self._resync()

    def tell(self, event: str, data: msgspec.Struct) -> None:
        """Something that is no fact."""
        if self._clients:
            self._send(message(event, data))

    def _send(self, data: bytes) -> None:
        for client in self._clients:
            client.put(data, self._resync)

    def _resync(self) -> bytes:
        offset = self._view().offset
        return message("resync", Resync(offset=offset), offset)

    def close(self) -> None:
        """End all streams."""
        for client in self._clients:
            client.end()
