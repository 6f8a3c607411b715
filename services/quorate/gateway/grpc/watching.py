"""Watches: every change of the keys of a range, once, in order, whole revisions, from any revision of the log.

Rules: a watcher is *live* (the hub tells it what is applied, in one pass for all) or *behind* (its stream reads for
it: from what is in memory, and below that from the log). A stream holds a bounded number of bytes; a watcher that would
add more falls behind, and reads again, from its own place, once its client has taken them. So does one whose change
alone is larger: what is read is made into answers one at a time, as they are taken. So nothing is dropped and nothing
told twice, however slow a client is; a snapshot that takes the place of entries puts all behind.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import partial
from itertools import accumulate, chain, islice

from quorate.controller import Listener
from quorate.controller.key_history import KeyChanges
from quorate.gateway.grpc import messages
from quorate.gateway.grpc.asking import Asking
from quorate.gateway.grpc.codes import COMPACTED
from quorate.gateway.grpc.pb import rpc_pb2
from quorate.gateway.grpc.watch_log import KEYS, LogFold
from quorate.gateway.grpc.watchers import AnyWatcher, Found, Happened, Watcher, WatcherIndex, watching

ALL = -1
"""The watch id of what is told of all watchers of a stream, or of none."""
FILTERS_MAX = 16
"""Of one watcher; there are two kinds."""
CHANGES_PER_TURN = 100
"""Entries that are read at once."""
LOOK = 0.1
"""What a look at a key costs, as a part of an event that is told."""
NOBODY_READS_S = 0.05
"""How long a stream whose watchers all wait for others' replays waits."""
NOT_TAKEN_S = 1.0
"""A client that took nothing for so long gives its watchers' replays up to others that wait: they begin again later."""


class WatchHub(Listener):
    """All watchers of a node."""

    def __init__(self, asking: Asking) -> None:
        self.asking, self.context = asking, asking.context
        self.live = WatcherIndex()
        self.seen = -1
        """Up to this revision the live ones were told everything."""
        self.count = self.held = 0
        """How many there are, and the bytes of their ranges."""
        self.replaying: dict[AnyWatcher, None] = {}
        """Those that read the log, each with a state of its own."""
        self._streams: dict[WatchStream, None] = {}
        self._due = False
        self._telling: Iterator[float] | None = None
        """What of it is not told yet."""
        self._stopped = True

    def __len__(self) -> int:
        return self.count

    def start(self) -> None:
        """Hear what is applied."""
        self._stopped, self._telling = False, None
        self.seen = self.context.controller.offset - 1
        self.context.controller.listeners.add(self)
        self._later()

    def stop(self) -> None:
        """Tell nobody anything more."""
        self._stopped = True
        self.context.controller.listeners.remove(self)

    def comes(self, stream: "WatchStream") -> None:
        """One more stream."""
        self._streams[stream] = None

    def goes(self, stream: "WatchStream") -> None:
        """One less."""
        self._streams.pop(stream, None)

    def room_to_replay(self) -> bool:
        """May one more read the log? Whose client takes nothing makes room."""
        if len(self.replaying) < self.context.settings.replays_max:
            return True
        stuck = next((watcher for watcher in self.replaying if watcher.group.stuck), None)
        if stuck is None:
            return False
        stuck.group.end_replay(stuck)
        return True

    # -- what is applied

    def applied(self, end_offset: int) -> None:
        """Look at it when other work has had its turn."""
        if not self._due:
            self._due = True
            self.context.scheduler.call_soon(self._pass)

    def _pass(self) -> None:
        """Go on with what is told, for ``watch_turn``."""
        self._due = False
        if self._stopped:
            return
        telling = self._telling = self._telling or self._tell()
        done = 0.0
        for some in telling:
            done += some
            if done >= self.context.settings.watch_turn:
                self.applied(self.context.controller.offset)
                return
        self._telling = None

    def _tell(self) -> Iterator[float]:
        """Tell the live ones all that is new. Yields, between two watchers, what was done for one, counted in events:
        whoever comes, goes or falls behind in between has its own place, and is told nothing twice.
        """
        while len(self.live):
            history = self.context.machine.key_history
            if self.seen < history.floor:
                yield from self._all_fall_behind(self.context.controller.offset - 1)
                continue
            changes = history.since(self.seen + 1, CHANGES_PER_TURN)
            if not changes:
                break
            for change in changes:
                yield from self._tell_of(change)
                self.seen = change.revision
                yield 1
        self.seen = self.context.controller.offset - 1

    def _all_fall_behind(self, now: int) -> Iterator[float]:
        """Those that are live. Whoever becomes it in between has read, or begins, behind this revision."""
        for watcher in self.live:
            if watcher in self.live:
                watcher.group.falls_behind(watcher, self.seen + 1)
            yield 1
        self.seen = now

    def _tell_of(self, change: KeyChanges) -> Iterator[float]:
        found: Found = {}
        names, at_once = change.names, 1 + int(self.context.settings.watch_turn / LOOK) // self.live.looks
        for start in range(0, len(names), at_once):
            some = names[start : start + at_once]
            self.live.find(some, found)
            yield LOOK * len(some) * self.live.looks
        for watcher, mine in watching(found):
            yield self._tell_one(watcher, change, mine)
        for watcher in self.live.others():
            mine = list(filter(watcher.covers, names))
            yield self._tell_one(watcher, change, mine) + LOOK * len(names)

    def _tell_one(self, watcher: AnyWatcher, change: KeyChanges, names: list[bytes]) -> int:
        """Answers how many keys that were."""
        if names and change.revision >= watcher.next and watcher in self.live:
            watcher.group.tell(watcher, change, names)
        return len(names)

    # -- by the clock

    def _later(self) -> None:
        settings = self.context.settings
        self.context.scheduler.call_later(settings.progress_period_s, self._progress)

    def _progress(self) -> None:
        self._tell_progress(chain.from_iterable(stream.telling_progress() for stream in tuple(self._streams)))

    def _tell_progress(self, telling: Iterator[None]) -> None:
        """For ``watch_turn`` watchers; others have their turn then."""
        if self._stopped:
            return
        if sum(1 for _ in islice(telling, self.context.settings.watch_turn)):
            self.context.scheduler.call_soon(partial(self._tell_progress, telling))
        else:
            self._later()


class WatchStream:
    """The watchers of one client's stream, and what waits for it."""

    def __init__(self, hub: WatchHub) -> None:
        self._hub, self._context = hub, hub.context
        self._watchers: dict[int, AnyWatcher] = {}
        self._behind: dict[AnyWatcher, LogFold[KeyChanges] | None] = {}
        self._queue: deque[tuple[rpc_pb2.WatchResponse, int]] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()
        self._next_number = 0
        self._progress_asked = self._closed = False
        self._given_at: float | None = None
        """Since when an answer waits to be taken."""
        hub.comes(self)

    def __len__(self) -> int:
        return len(self._watchers)

    # -- what the client asks

    async def room(self) -> None:
        """Return when little enough waits that one more request may be answered."""
        await self._free.wait()

    def watch(self, request: rpc_pb2.WatchCreateRequest) -> None:
        """One more watcher, or why not."""
        reason = self._refusal(request)
        if reason:
            self.refuse(reason)
            return
        number = request.watch_id or self._number()
        now, filters = self._hub.asking.revision, request.filters
        watcher = Watcher(
            self,
            number,
            request.key,
            request.range_end,
            request.start_revision or now + 1,
            puts=rpc_pb2.WatchCreateRequest.NOPUT not in filters,
            deletes=rpc_pb2.WatchCreateRequest.NODELETE not in filters,
            previous=request.prev_kv,
            progress=request.progress_notify,
            fragment=request.fragment,
        )
        self._watchers[number] = watcher
        self._hub.count += 1
        self._hub.held += watcher.held
        self._say(rpc_pb2.WatchResponse(watch_id=number, created=True))
        if watcher.next <= now:
            self._behind[watcher] = None
        else:
            self._hub.live.add(watcher)

    def refuse(self, reason: str) -> None:
        """A watcher that was asked for is none."""
        self._say(rpc_pb2.WatchResponse(watch_id=ALL, created=True, canceled=True, cancel_reason=reason))

    def _refusal(self, request: rpc_pb2.WatchCreateRequest) -> str:
        settings = self._context.settings
        if request.start_revision < 0:
            return COMPACTED
        if len(request.filters) > FILTERS_MAX:
            return "quorate: too many filters"
        if request.range_end not in (b"", b"\x00") and request.range_end <= (request.key or b"\x00"):
            return "mvcc: watcher range is empty"
        if request.watch_id in self._watchers and request.watch_id:
            return "mvcc: duplicate watch ID provided on the WatchStream"
        if self._hub.count >= settings.watches_max or len(self._watchers) >= settings.watches_per_stream_max:
            return "etcdserver: too many requests"
        if self._hub.held + len(request.key) + len(request.range_end or request.key) > settings.watches_bytes_max:
            return "etcdserver: too many requests"
        return ""

    def _number(self) -> int:
        while self._next_number in self._watchers:
            self._next_number += 1
        self._next_number += 1
        return self._next_number - 1

    def cancel(self, number: int) -> None:
        """A watcher ends; of one that is not here nothing is said."""
        watcher = self._watchers.pop(number, None)
        if watcher is not None:
            self._forget(watcher)
            self._say(rpc_pb2.WatchResponse(watch_id=number, canceled=True))

    def ask_progress(self) -> None:
        """Say how far all of them are, once none is behind."""
        self._progress_asked = True
        self._answer_progress()

    def close(self) -> None:
        """The client is gone."""
        if not self._closed:
            self._closed = True
            for watcher in self._watchers.values():
                self._forget(watcher)
            self._watchers.clear()
            self._hub.goes(self)
            self._wake.set()

    def _forget(self, watcher: AnyWatcher) -> None:
        self._hub.count -= 1
        self._hub.held -= watcher.held
        self._hub.live.remove(watcher)
        self.end_replay(watcher)
        self._behind.pop(watcher, None)

    # -- what it is told

    def _say(self, response: rpc_pb2.WatchResponse, revision: int | None = None) -> None:
        """Let it wait for its turn, with a header."""
        response.header.CopyFrom(self._hub.asking.header(revision))
        size = response.ByteSize()
        self._queue.append((response, size))
        self._bytes += size
        self._wake.set()
        if self._bytes > self._context.settings.watch_buffer_bytes:
            self._free.clear()

    def tell(self, watcher: AnyWatcher, change: KeyChanges, names: Iterable[bytes]) -> None:
        """A live watcher hears of a change, or falls behind."""
        most = self._context.settings.watch_buffer_bytes
        found = watcher.happened(change, names) if self._bytes <= most else []
        if self._bytes > most or sum(one.size for one in found) > most:
            self.falls_behind(watcher, change.revision)
            return
        watcher.next = change.revision + 1
        if found:
            watcher.told = True
            for response in self._answers(watcher, found):
                self._say(response, change.revision)

    def falls_behind(self, watcher: AnyWatcher, revision: int) -> None:
        """What is from this revision on it will read."""
        watcher.next = max(watcher.next, revision)
        self._hub.live.remove(watcher)
        self._behind[watcher] = None
        self._wake.set()

    def telling_progress(self) -> Iterator[None]:
        """Those that want to know, and heard of nothing since the last time. Yields behind each watcher."""
        for watcher in tuple(self._watchers.values()):
            if watcher.progress and not watcher.told and watcher in self._hub.live:
                self._say(rpc_pb2.WatchResponse(watch_id=watcher.number), max(self._hub.seen, 0))
            watcher.told = False
            yield

    def _answer_progress(self) -> None:
        if self._progress_asked and not self._behind:
            self._progress_asked = False
            self._say(rpc_pb2.WatchResponse(watch_id=ALL), max(self._hub.seen, 0))

    def _answers(self, watcher: AnyWatcher, found: Iterable[Happened]) -> Iterator[rpc_pb2.WatchResponse]:
        """One; or as many as keep below the size of a request, for a client that takes fragments, and for any other
        below that of an answer: a larger one could never be sent. A client that puts them together has to hear them
        without anything between.
        """
        settings = self._context.settings
        most = settings.request_bytes_max if watcher.fragment else settings.answer_bytes_max
        response, size = rpc_pb2.WatchResponse(watch_id=watcher.number), 0
        for one in found:
            event = messages.happened(*one)
            takes = event.ByteSize()
            if size and size + takes >= most:
                response.fragment = True
                yield response
                response, size = rpc_pb2.WatchResponse(watch_id=watcher.number), 0
            response.events.append(event)
            size += takes
        yield response

    # -- how it hears of it

    async def responses(self) -> AsyncIterator[rpc_pb2.WatchResponse]:
        """All that there is to say, as fast as it is taken; ends when the stream is closed."""
        while not self._closed:
            while self._queue:
                response, size = self._queue.popleft()
                self._bytes -= size
                if self._bytes <= self._context.settings.watch_buffer_bytes:
                    self._free.set()
                self._given_at = self._context.scheduler.monotonic()
                yield response
                self._given_at = None
            self._wake.clear()
            read = False
            for watcher in tuple(self._behind):
                place = watcher.next
                for response in self._read_for(watcher):
                    self._given_at = self._context.scheduler.monotonic()
                    yield response
                    self._given_at = None
                await asyncio.sleep(0)
                read = read or watcher.next != place or watcher not in self._behind
            self._answer_progress()
            if not read and not self._queue and not self._closed:
                await self._pause()

    async def _pause(self) -> None:
        """Until there is something to do; a watcher that waits for others' replays looks again by itself."""
        waits = any(fold is None for fold in self._behind.values())
        try:
            await asyncio.wait_for(self._wake.wait(), NOBODY_READS_S if waits else None)
        except TimeoutError:
            return

    def _read_for(self, watcher: AnyWatcher) -> Iterator[rpc_pb2.WatchResponse]:
        """The next that a watcher which is behind is told. At the end of what is applied it is live."""
        if watcher not in self._behind:
            return iter(())
        history = self._context.machine.key_history
        if watcher.next <= history.floor:
            changes = self._replayed(watcher)
        else:
            self.end_replay(watcher)
            changes = history.since(watcher.next, CHANGES_PER_TURN)
            if not changes:
                del self._behind[watcher]
                self._hub.live.add(watcher)
            changes = _begin(changes, self._context.settings.watch_turn)
        return self._made(watcher, self._told(watcher, changes))

    def _replayed(self, watcher: AnyWatcher) -> list[KeyChanges]:
        """The next changes that the log tells, if it is this watcher's turn."""
        fold = self._behind[watcher]
        if fold is None:
            if not self._hub.room_to_replay():
                return []
            self._hub.replaying[watcher] = None
            start = self._hub.asking.entry_start(watcher.next)
            fold = self._behind[watcher] = LogFold(self._context, KEYS, start, self._wake.set)
        if fold.failed:  # Others may have their turn; it begins again behind them.
            self.end_replay(watcher)
            return []
        changes = fold.read()
        if not changes:
            watcher.next = max(watcher.next, fold.offset)
        return changes

    @property
    def stuck(self) -> bool:
        """Does its client take nothing?"""
        given_at = self._given_at
        return given_at is not None and self._context.scheduler.monotonic() - given_at > NOT_TAKEN_S

    def end_replay(self, watcher: AnyWatcher) -> None:
        """It reads the log no more; it has its place, and may begin there again."""
        fold = self._behind.get(watcher)
        if fold is not None:
            fold.close()
            self._behind[watcher] = None
            del self._hub.replaying[watcher]

    def _told(self, watcher: AnyWatcher, changes: Iterable[KeyChanges]) -> list[list[Happened]]:
        """What of these changes goes into one answer each, several where they are small; the watcher is past them then.
        The states before and after are not kept until a slow client has taken all.
        """
        most, answers, size = self._context.settings.watch_answer_bytes, list[list[Happened]](), 0
        for change in changes:
            if change.revision < watcher.next:
                continue
            watcher.next = change.revision + 1
            found = watcher.happened(change, filter(watcher.covers, change.names))
            if found:
                watcher.told = True
                takes = sum(one.size for one in found)
                if not answers or size + takes > most:
                    answers.append([])
                    size = 0
                answers[-1] += found
                size += takes
        return answers

    def _made(self, watcher: AnyWatcher, answers: Iterable[list[Happened]]) -> Iterator[rpc_pb2.WatchResponse]:
        """These answers, each when it is asked for, unless the watcher has ended."""
        for found in answers:
            if watcher not in self._behind:
                return
            header = self._hub.asking.header(found[-1].revision)
            for response in self._answers(watcher, found):
                response.header.CopyFrom(header)
                yield response


def _begin(changes: list[KeyChanges], most: int) -> list[KeyChanges]:
    """The first of them, until they are about so many keys."""
    for at, names in enumerate(accumulate(len(change.names) for change in changes), 1):
        if names >= most:
            return changes[:at]
    return changes
