"""Checkpoints: the rows of the state as of some offsets, kept in the store's ``history`` family.

Rules: a checkpoint is written in small slices, from a state that cannot change, beside everything else the node does;
it counts only once its mark is written, after all its rows. It is a shortcut and nothing more: the events before it
say the same, so a node that lacks one (it was installed by a snapshot, its disk lost the last writes) replays more,
and keeps what it passes.

Theory: the store loses only its latest writes, so a mark that is there has its rows. A note is written before the
rows and taken away with the mark: rows whose node died while writing them are found by it, and removed.

Keys: ``n`` + offset, a note; ``m`` + offset, a mark, which holds what the rows add up to; ``r`` + offset + the entity's
key, a row (offset: 64 bits).
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from quorate.clock import Scheduler
from quorate.consensus.ports import Store, StoreOp
from quorate.consensus.storage.store import key_offset, offset_key
from quorate.controller import Listener, ReplicatedState
from quorate.errors import InvariantBrokenError, StorageError
from quorate.history.replay import spacing
from quorate.history.settings import HistorySettings
from quorate.metadata.sums import SUM_BYTES, digest, joined
from quorate.model.rows import ROWS_PER_STEP, rows
from quorate.slices import Steps, in_slices

NOTE, MARK, ROW = b"n", b"m", b"r"
Pair = tuple[bytes, bytes]


class Checkpoints(Listener):
    """Writes one whenever the state has moved far enough, and finds the nearest."""

    def __init__(
        self,
        store: Store,
        machine: ReplicatedState,
        scheduler: Scheduler,
        settings: HistorySettings,
        on_fatal: Callable[[Exception], None],
    ) -> None:
        self._store = store
        self._machine = machine
        self._scheduler = scheduler
        self._settings = settings
        self._on_fatal = on_fatal
        self._remove_torn()
        self.offsets = [key_offset(key) for key, _ in store.scan("history", MARK, bytes((MARK[0] + 1,)))]
        """Where there is one, ascending."""
        self._forgotten: set[int] = set()
        """Of these there are rows, and a note."""
        self._writing = False
        self._stopped = False
        self._due = 0
        self._set_due()

    def stop(self) -> None:
        """Write no more; what is half written is removed at the next start."""
        self._stopped = True

    def _remove_torn(self) -> None:
        """Delete checkpoints that a node left half written when it died."""
        for key, _ in list(self._store.scan("history", NOTE, bytes((NOTE[0] + 1,)))):
            torn = [row for row, _ in self._scan(key_offset(key))]
            self._store.write([StoreOp("history", row, None) for row in [*torn, key]])

    def _set_due(self) -> None:
        last = self.offsets[-1] if self.offsets else 0
        self._due = last + spacing(self._machine.state, self._settings.checkpoint_events)

    def applied(self, end_offset: int) -> None:
        """After each slice of applied entries; one comparison, nearly always."""
        if end_offset >= self._due and not self._writing:
            self.keep(end_offset, rows(self._machine.state), self._machine.sums.rows)

    def keep(self, offset: int, pairs: Iterable[Pair], expected: int | None = None) -> None:
        """Write the rows of the state at ``offset``, unless they are there or another checkpoint is being written. What
        they add up to is ``expected`` (None: whatever it is), or the node stops.
        """
        if self._writing or self._stopped or offset in self.offsets:
            return
        self._writing = True
        writing, rest_s = self._write(offset, iter(pairs), expected), self._settings.checkpoint_rest_s
        in_slices(writing, self._scheduler, lambda made: self._written(offset, made), rest_s=rest_s)

    def _write(self, offset: int, pairs: Iterator[Pair], expected: int | None) -> Steps[bool]:
        place, total = offset_key(offset), 0
        ops = [StoreOp("history", NOTE + place, b"")]
        left_over = self.rows(offset) if offset in self._forgotten else iter(())
        for key, value in chain(((key, None) for key, _ in left_over), pairs):
            total += 0 if value is None else digest("rows", key, value)
            ops.append(StoreOp("history", ROW + place + key, value))
            if len(ops) >= ROWS_PER_STEP:
                self._store.write(ops)
                ops = []
                yield
                if self._stopped:
                    return False
        total = joined(total)
        if expected not in (None, total):
            raise InvariantBrokenError(f"the rows of the state at offset {offset} are not those that were written")
        mark = total.to_bytes(SUM_BYTES, "little")
        ops += [StoreOp("history", MARK + place, mark), StoreOp("history", NOTE + place, None)]
        self._store.write(ops)
        return True

    def _written(self, offset: int, made: Callable[[], bool]) -> None:
        self._writing = False
        try:
            if not made():
                return
        except Exception as error:  # noqa: BLE001 - the store failed, or its rows cannot be explained: fail-stop
            self._on_fatal(error)
            return
        self._forgotten.discard(offset)
        insort(self.offsets, offset)
        self._set_due()

    def at_or_before(self, offset: int) -> int | None:
        """The nearest checkpoint that is not after ``offset``."""
        position = bisect_right(self.offsets, offset)
        return self.offsets[position - 1] if position else None

    def forget(self, offset: int) -> None:
        """Its rows are not those that were written: use it no more. They are removed by the next start, or before it is
        written again.
        """
        if offset not in self.offsets:
            return  # Another replay has met it too.
        self.offsets.remove(offset)
        self._forgotten.add(offset)
        place = offset_key(offset)
        try:
            self._store.write([StoreOp("history", NOTE + place, b""), StoreOp("history", MARK + place, None)])
        except StorageError as error:
            self._on_fatal(error)

    def sum_at(self, offset: int) -> int | None:
        """What the rows of the checkpoint at ``offset`` added up to when they were written; None: not written down."""
        mark = self._store.get("history", MARK + offset_key(offset))
        return int.from_bytes(mark, "little") if mark else None

    def rows(self, offset: int) -> Iterator[Pair]:
        """Key and row of every entity in the checkpoint at ``offset``, as of the call."""
        skip = len(ROW) + 8
        return ((key[skip:], value) for key, value in self._scan(offset))

    def _scan(self, offset: int) -> Iterator[Pair]:
        return self._store.scan("history", ROW + offset_key(offset), ROW + offset_key(offset + 1))
