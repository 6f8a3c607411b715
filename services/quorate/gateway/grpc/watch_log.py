"""What the event log tells of some kinds of entities from an entry on, entry by entry: for whoever watches them.

Rules: an event says what changed and not what was, so the state before the first entry is asked of the past, and the
log is folded from there; of other kinds nothing is folded, and an entry that cannot be about these is passed over by
its bytes. A few kilobytes at a time, read beside the loop where they are not in memory. What cannot be had now is asked
for again.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from quorate.consensus.storage.event_log import parse_batch
from quorate.controller import ReadView
from quorate.controller.key_history import KeyChanges
from quorate.errors import StorageError
from quorate.events import Event, KeyDeleted, KeyPut, kinds_about, raw_name
from quorate.events.codec import TENANT
from quorate.gateway.fresh import Freshness, NotFresh
from quorate.gateway.grpc.context import GrpcContext
from quorate.model.evolve import evolve
from quorate.model.state import State
from quorate.wire.avro import decode_events

C = TypeVar("C")
AGAIN_S = 1.0
"""How long after a past that could not be had it is asked for again."""


class WatchKinds(msgspec.Struct, Generic[C], frozen=True):
    """What is told of each entry that is about some kinds of entities."""

    kinds: tuple[str, ...]
    part: Callable[[State], State]
    """What of a state they are: the rest is not kept for a watcher's life."""
    change: Callable[[int, State, State, Sequence[Event], int], C]
    """Of its revision, the states before and after, its events about them, and its bytes."""

    @property
    def marks(self) -> tuple[bytes, ...]:
        """One of these is in the bytes of every entry that is about them."""
        return tuple(f"{kind}/{TENANT}/".encode() for kind in self.kinds)


def _key_changes(revision: int, before: State, after: State, events: Sequence[Event], size: int) -> KeyChanges:
    names = tuple(raw_name(event.key) for event in events if isinstance(event, KeyPut | KeyDeleted))
    return KeyChanges(revision, before.keys, after.keys, names, size)


def _keys_part(state: State) -> State:
    return State(keys=state.keys, attached=state.attached, attached_bytes=state.attached_bytes)


KEYS: Final = WatchKinds(("key",), _keys_part, _key_changes)


class LogFold(Generic[C]):
    """What is told of each entry from the one that begins at ``offset``; ``state`` is the one before it, or the past is
    asked. ``woken`` is called when there may be more.
    """

    def __init__(
        self,
        context: GrpcContext,
        told: WatchKinds[C],
        offset: int,
        woken: Callable[[], None],
        state: State | None = None,
    ) -> None:
        self.offset = offset
        """All before it was given out."""
        self._context, self._told, self._woken = context, told, woken
        self._marks, self._types = told.marks, kinds_about(*told.kinds)
        self._state = None if state is None else told.part(state)
        self._asked = self._closed = False
        self.failed = False
        """The state before could not be had; it is asked again."""
        self._found: list[bytes] | StorageError | None = None
        """What was read beside the loop for ``offset``, or why not."""
        if state is None:
            self._begin()

    def close(self) -> None:
        """Nothing is wanted any more."""
        self._closed = True

    def _begin(self) -> None:
        if self._closed:
            return
        if self.offset:
            self._context.fresh.read(Freshness(linearizable=False, at=self.offset), self._begun)
        else:
            self._state = State()

    def _begun(self, view: ReadView | NotFresh) -> None:
        if isinstance(view, ReadView):
            self._state, self.failed = self._told.part(view.state), False
            self._woken()
        else:
            self.failed = True
            self._context.scheduler.call_later(AGAIN_S, self._once_more)

    def _once_more(self) -> None:
        """Who has something better to do than to wait for it may do that."""
        if not self._closed:
            self._woken()
        self._begin()

    def read(self) -> list[C]:
        """The next of them; none as long as what tells them is not here. Raises StorageError."""
        if self._state is None:
            return []
        changes = []
        for batch in self._batches():
            base, count, _, _ = parse_batch(batch)
            self.offset = base + count
            if not any(mark in batch for mark in self._marks):
                continue
            before, events = self._state, []
            for stamp, event in decode_events(batch):
                if type(event) in self._types:
                    self._state = evolve(self._state, event, stamp)
                    events.append(event)
            if events:
                changes.append(self._told.change(self.offset - 1, before, self._state, events, len(batch)))
        return changes

    def _batches(self) -> list[bytes]:
        """The next of the log; none as long as they are read beside the loop. Raises StorageError."""
        log, most = self._context.log, self._context.settings.watch_read_bytes
        if self._found is None and not self._asked:
            self._asked = True
            if log.ready(self.offset, most, self._here, self._wanted):
                self._found = log.read(self.offset, most)
                self._asked = False
        found, self._found = self._found, None
        if isinstance(found, StorageError):
            raise found
        return found or []

    def _here(self) -> None:
        """They are at hand, in this call alone."""
        self._asked = False
        try:
            self._found = self._context.log.read(self.offset, self._context.settings.watch_read_bytes)
        except StorageError as error:
            self._found = error
        self._woken()

    def _wanted(self) -> bool:
        return not self._closed
