"""What the event log tells of keys from an entry on: for a watcher that begins before what is in memory.

Rules: an event says a key's new value and not its version or its creation, so the state before the first entry is asked
of the past, and the log is folded from there. A few kilobytes at a time, read beside the loop where they are not in
memory. What cannot be had now is asked for again.
"""

from collections.abc import Callable

from quorate.controller import ReadView
from quorate.controller.key_history import KeyChanges
from quorate.events import KeyDeleted, KeyPut, raw_name
from quorate.gateway.fresh import Freshness, NotFresh
from quorate.gateway.grpc.context import GrpcContext
from quorate.model.evolve import evolve
from quorate.model.state import State
from quorate.wire.avro import decode_events

AGAIN_S = 1.0
"""How long after a past that could not be had it is asked for again."""


class LogFold:
    """The changes of each entry from the one that begins at ``offset``. ``woken`` is called when there may be more."""

    def __init__(self, context: GrpcContext, offset: int, woken: Callable[[], None]) -> None:
        self.offset = offset
        """All before it was given out."""
        self._context, self._woken = context, woken
        self._state: State | None = None
        self._closed = False
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
            self._state = view.state
            self._woken()
        else:
            self._context.scheduler.call_later(AGAIN_S, self._begin)

    def read(self) -> list[KeyChanges]:
        """The next of them; none as long as what tells them is not here. Raises StorageError."""
        log, most = self._context.log, self._context.settings.watch_read_bytes
        if self._state is None or not log.ready(self.offset, most, self._woken, self._wanted):
            return []
        changes = []
        for batch in log.read(self.offset, most):
            before, names = self._state.keys, []
            for stamp, event in decode_events(batch):
                self._state = evolve(self._state, event, stamp)
                self.offset = stamp.offset + 1
                if isinstance(event, KeyPut | KeyDeleted):
                    names.append(raw_name(event.key))
            if names:
                change = KeyChanges(self.offset - 1, before, self._state.keys, tuple(names), len(batch))
                changes.append(change)
        return changes

    def _wanted(self) -> bool:
        return not self._closed
