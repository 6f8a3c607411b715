"""The events, folded anew, say what the entities add up to: the judge of a state that differs from another node's.

Rules: it begins at a checkpoint not later than the offset both agreed on, whose rows still add up to what they did when
they were written, or at the first event; each batch's checksum is verified. In steps, on the node's own thread: the
same code and the same seed of hashing as the state it judges, so what depends on them is left to the majority.
"""

from collections.abc import Iterator

from quorate.consensus.storage.event_log import EventLog
from quorate.history.checkpoints import Checkpoints
from quorate.metadata.sums import summing
from quorate.model.evolve import evolve
from quorate.model.rows import restoring, rows
from quorate.model.state import EMPTY, State
from quorate.slices import Steps, Waits
from quorate.wire.avro import decode_events

PIECE_BYTES = 16 * 1024
"""Of the log, at a time."""


class Refold:
    """``controller.comparing.Replayed``."""

    def __init__(self, checkpoints: Checkpoints, log: EventLog, events_max: int) -> None:
        self._checkpoints = checkpoints
        self._log = log
        self._events_max = events_max

    def __call__(self, agreed: int, offset: int) -> Steps[int | None]:
        """The sum over the entities at ``offset``; None: the events before it are not here, or too many."""
        at, state = yield from self._beginning(min(agreed, offset))
        if offset - at > self._events_max:
            return None
        while at < offset:
            yield self._there(at)
            batches = self._log.read(at, PIECE_BYTES)
            if not batches:
                return None
            for stamp, event in (fact for batch in batches for fact in decode_events(batch)):
                if at <= stamp.offset < offset:
                    if stamp.offset != at:
                        return None
                    state = evolve(state, event, stamp)
                    at += 1
                yield
        return (yield from summing("rows", rows(state))) if at == offset else None

    def _there(self, at: int) -> Waits:
        return lambda resume: self._log.ready(at, PIECE_BYTES, resume, lambda: True)

    def _beginning(self, agreed: int) -> Steps[tuple[int, State]]:
        """The latest state that can be trusted, and its offset."""
        for offset in self._earlier(agreed):
            kept = self._checkpoints.sum_at(offset)
            if kept is not None and (yield from summing("rows", self._checkpoints.rows(offset))) == kept:
                return offset, (yield from restoring(self._checkpoints.rows(offset)))
        return 0, EMPTY

    def _earlier(self, agreed: int) -> Iterator[int]:
        return (offset for offset in reversed(self._checkpoints.offsets) if offset <= agreed)
