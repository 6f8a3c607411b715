"""``quorate.meta.v1.Members.Watch``: every change of members and of RocketMQ's brokers, from any revision of the log.

Rules: a watcher reads the log itself (``watch_log``), whole entries, as fast as its client takes them: nothing is
queued for it, dropped or told twice. What is applied is looked at once for all, by its bytes, and wakes only those whom
it may concern.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from quorate.consensus.storage.event_log import parse_batch
from quorate.controller import Listener
from quorate.errors import UsageError
from quorate.events import Event
from quorate.events.codec import about
from quorate.gateway.grpc.asking import Asking, Call
from quorate.gateway.grpc.codes import TOO_MANY, CallError
from quorate.gateway.grpc.members import selector, told
from quorate.gateway.grpc.pb import members_pb2
from quorate.gateway.grpc.watch_log import LogFold, Told
from quorate.model.members import BROKER_ROLE, Selector, of_set
from quorate.model.state import Member, State
from quorate.model.words import sentence

Change = tuple[str, Member | None, Member | None, str]
"""Name, before, after, and what happened."""
Changes = tuple[int, list[Change]]
"""A revision, and what it changed."""
READS_PER_TURN: Final = 4
"""Of the log, when what is applied is looked at."""


def _changes(revision: int, before: State, after: State, events: Sequence[Event], size: int) -> Changes:
    """By member: one that several events of an entry are about is told once, with the last of them."""
    found: dict[str, Change] = {}
    for event in events:
        kind, name = about(event)
        what = sentence(event)
        if kind == "member":
            found[name] = (name, before.members.get(name), after.members.get(name), what)
            continue
        was, now = before.broker_sets.get(name), after.broker_sets.get(name)
        old, new = ({} if one is None else of_set(one) for one in (was, now))
        for broker in old.keys() | new.keys():
            if old.get(broker) != new.get(broker):
                found[broker] = (broker, old.get(broker), new.get(broker), what)
    return revision, [found[name] for name in sorted(found)]


MEMBERS: Final = Told(("member",), lambda state: State(members=state.members), _changes)
WITH_BROKERS: Final = Told(
    ("member", "broker-set"),
    lambda state: State(members=state.members, broker_sets=state.broker_sets),
    _changes,
)


class MemberWatches(Listener):
    """All watches of members of a node, and their handler."""

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
            found |= {one for one, marks in self._waiting.items() if any(mark in piece for mark in marks)}
        else:
            self.applied(self._seen)
            batches = []
        if batches is None:  # Too far behind to look: whoever waits looks for himself.
            self._seen, found = self._context.controller.offset, set(self._waiting)
        for one in found:
            one.set()

    async def watch(
        self, request: members_pb2.WatchMembersRequest, call: Call
    ) -> AsyncIterator[members_pb2.WatchMembersResponse]:
        """The first answer says from where on; then one for each revision that concerns the selector."""
        self._asking.allowed("WatchMembers", "member")
        meant = selector(request.selector)
        if len(self._waiting) >= self._context.settings.watches_max:
            raise CallError(*TOO_MANY)
        controller, start = self._context.controller, request.start_revision
        now = controller.offset
        whom = WITH_BROKERS if not meant.roles or BROKER_ROLE in meant.roles else MEMBERS
        wake = asyncio.Event()
        if 0 < start < now:
            fold = LogFold(self._context, whom, self._asking.entry_start(start), wake.set)
        else:
            fold = LogFold(self._context, whom, now, wake.set, controller.state)
        if not self._waiting:
            self._seen = now
        self._waiting[wake] = whom.marks
        try:
            yield members_pb2.WatchMembersResponse(revision=max(fold.offset - 1, 0))
            async for revision, changes in self._told(fold, wake):
                answer = [one for one in (_told_of(change, meant) for change in changes) if one is not None]
                if answer and revision >= start:
                    yield members_pb2.WatchMembersResponse(revision=revision, changes=answer)
        finally:
            fold.close()
            del self._waiting[wake]

    async def _told(self, fold: LogFold[Changes], wake: asyncio.Event) -> AsyncIterator[Changes]:
        """All that there is, and then whatever comes."""
        while True:
            wake.clear()
            place = fold.offset
            for change in fold.read():
                yield change
            if fold.offset == place:
                await wake.wait()
            else:
                await asyncio.sleep(0)


def _told_of(change: Change, meant: Selector) -> members_pb2.MemberChange | None:
    """What a watcher of these is told; None: nothing of them."""
    name, before, after, what = change
    means = after is not None and meant.means(after)
    if not means and (before is None or not meant.means(before)):
        return None
    member = None if after is None else told(after)
    return members_pb2.MemberChange(member=member, name=name, left=not means, what=what)


def _nothing() -> None:
    """Nobody waits for it."""


def _never() -> bool:
    return False
