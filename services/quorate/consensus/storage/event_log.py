"""The event log as readers see it: record batches by offset, up to the high watermark.

Rules: one partition; offsets count events, from 0, without gaps; what is here is applied, and never taken back. A
batch is the bytes of a Kafka record batch v2 with its base offset and leader epoch patched in. What comes from the
store is checked (CRC, size, place) before anybody sees it: damage is an error, never the end of the log. Writing is
the machine's business (``ops_for`` goes into its one store write, then ``publish``); reading never sees beyond what was
published.

Theory: the newest batches are kept in memory, all of them in the store's ``events``; a reader of older ones that can
wait asks with ``ready``, and they are read beside the loop (cold_reads.py). The first offset of each term
is a row of ``meta``, so that a restart reads a few rows, not the log.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct as Layout

from quorate.consensus.ports import DiskWorker, Store, StoreOp, Term
from quorate.consensus.storage.cold_reads import ColdReads, Found, Times
from quorate.consensus.storage.store import key_offset, offset_key, read_applied
from quorate.consensus.storage_settings import EventLogSettings
from quorate.errors import InvariantBrokenError, PeerError, UsageError
from quorate.wire.records import BatchError, open_batch

_TERM_PREFIX = b"term/"
_TERM_STOP = b"term0"
_HEADER = Layout(">q4xi7xi8xq")
"""Of a record batch v2 (KIP-98): baseOffset, partitionLeaderEpoch, lastOffsetDelta, maxTimestamp; skipped between them
are batchLength, then magic, crc and attributes, then baseTimestamp."""

Batch = tuple[int, int, Term, bytes]
"""Base offset, number of events, term, bytes."""


def parse_batch(data: bytes) -> Batch:
    """What the header of a patched batch says; the rest is not looked at. Raises PeerError if it is wrong."""
    if len(data) < _HEADER.size:
        raise PeerError(f"a record batch of {len(data)} bytes has no header")
    base_offset, term, last_delta, _ = _HEADER.unpack_from(data)
    if base_offset < 0 or last_delta < 0 or term < 0:
        raise PeerError("a record batch with a negative base offset, count or epoch")
    return base_offset, last_delta + 1, Term(term), data


def _fitting(batches: Iterable[bytes], max_bytes: int) -> list[bytes]:
    """The first, and others while all fit."""
    taken: list[bytes] = []
    for batch in batches:
        max_bytes -= len(batch)
        if taken and max_bytes < 0:
            break
        taken.append(batch)
    return taken


class EventLog:
    """Reads and publishes one node's event log. ``end_offset`` is the high watermark. ``reader``: a thread for what is
    not in memory; without one every read is made where it is asked for.
    """

    start_offset = 0
    """The log is never trimmed."""

    def __init__(
        self, store: Store, settings: EventLogSettings | None = None, reader: DiskWorker | None = None
    ) -> None:
        self._store = store
        self._cold = None if reader is None else ColdReads(reader, self._stored, self._searching)
        self._settings = settings or EventLogSettings()
        self.reload()

    def reload(self) -> None:
        """Read the store again: at start, and after a snapshot replaced what was there. Raises StorageError."""
        applied = read_applied(self._store)
        self.end_offset = applied.next_offset if applied else 0
        rows = self._store.scan("meta", _TERM_PREFIX, _TERM_STOP)
        starts = [(Term(key_offset(key)), key_offset(value)) for key, value in rows]
        # Rows beyond the end belong to a snapshot whose installation was cut short.
        self.term_starts: list[tuple[Term, int]] = [start for start in starts if start[1] < self.end_offset]
        self._stored_term = self.term_starts[-1][0] if self.term_starts else Term(0)
        self._bases: list[int] = []
        self._batches: list[bytes] = []
        self._tail_bytes = 0
        self._check_end()

    def _check_end(self) -> None:
        """The newest batch must be there: it, its term and what was applied speak for each other."""
        self._newest_ms = 0
        if self.end_offset:
            term, self._newest_ms = self.stamp_before(self.end_offset)
            starts = [start for number, start in self.term_starts if number == term]
            if not starts or starts[0] >= self.end_offset:
                raise self._store.damaged(f"the beginning of term {term} is missing")

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def ops_for(self, base_offset: int, count: int, term: int, batch: bytes) -> list[StoreOp]:
        """What to write for one batch of ``count`` events; nothing for a batch without events.

        Batches come in the order of their offsets. The caller writes them and publishes, or stops.
        """
        if not count:
            return []
        ops = [StoreOp("events", offset_key(base_offset + count - 1), batch)]
        if term > self._stored_term:
            self._stored_term = Term(term)
            ops.append(StoreOp("meta", _TERM_PREFIX + offset_key(term), offset_key(base_offset)))
        return ops

    def publish(self, batches: Sequence[Batch]) -> None:
        """Let readers see what was written. Raises InvariantBrokenError if it does not begin at the end."""
        end, newest = self.end_offset, self.term_starts[-1][0] if self.term_starts else -1
        for base_offset, count, term, batch in batches:
            if base_offset != end:
                raise InvariantBrokenError(f"batch at {base_offset} does not follow {end}")
            if not count:
                continue
            if term > newest:
                newest = term
                self.term_starts.append((term, base_offset))
            self._bases.append(base_offset)
            self._batches.append(batch)
            self._tail_bytes += len(batch)
            self.end_offset = end = base_offset + count
        self._shrink_tail()

    def _shrink_tail(self) -> None:
        settings = self._settings
        if self._tail_bytes <= settings.tail_bytes and len(self._bases) <= settings.tail_batches:
            return
        # Down to three quarters, so that this is rare.
        spare_bytes = self._tail_bytes - settings.tail_bytes * 3 // 4
        gone = max(0, len(self._bases) - settings.tail_batches * 3 // 4)
        dropped = sum(map(len, self._batches[:gone]))
        while gone < len(self._batches) and dropped < spare_bytes:
            dropped += len(self._batches[gone])
            gone += 1
        if gone:
            self._newest_ms = _latest_ms(self._batches[gone - 1])
        del self._bases[:gone]
        del self._batches[:gone]
        self._tail_bytes -= dropped

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def ready(self, offset: int, max_bytes: int, done: Callable[[], None], wanted: Callable[[], bool]) -> bool:
        """Is what ``read`` would give in memory? If not it is read beside the loop, and ``done`` is called, later, when
        ``read`` has it at hand: in that very call; not if that is not ``wanted`` then. ``done`` must not raise. Outside
        of the log there is nothing to wait for.
        """
        if (
            self._cold is None
            or not self.start_offset <= offset < self._first_here
            or self._cold.find(offset) is not None
        ):
            return True
        self._cold.ask((offset, max_bytes), done, wanted)
        return False

    def read(self, offset: int, max_bytes: int) -> list[bytes]:
        """Whole batches; the first holds ``offset`` and comes whatever its size, others while all fit ``max_bytes``.

        Empty at the end. Raises UsageError outside of the log, StorageError.
        """
        self._check_range(offset)
        found = self._cold.find(offset) if self._cold is not None else None
        return _fitting(self._from(offset) if found is None else found, max_bytes)

    def _stored(self, offset: int, max_bytes: int) -> list[bytes]:
        """The same of what the store holds, from any thread."""
        return _fitting(self._from_store(offset, self.end_offset), max_bytes)

    def batches_from(self, offset: int) -> Iterator[Batch]:
        """Every batch from the one that holds ``offset`` to the end as of now. Raises UsageError, StorageError."""
        self._check_range(offset)
        return map(parse_batch, self._from(offset))

    @property
    def tip_offset(self) -> int:
        """Base offset of the newest batch; 0 when there is none. Raises StorageError."""
        if not self.end_offset:
            return 0
        return int.from_bytes(next(self._from(self.end_offset - 1))[:8], "big")

    def _check_range(self, offset: int) -> None:
        if not self.start_offset <= offset <= self.end_offset:
            raise UsageError(f"offset {offset} is not in {self.start_offset}..{self.end_offset}")

    def _from(self, offset: int) -> Iterator[bytes]:
        if offset >= self.end_offset:
            return iter(())
        if self._bases and offset >= self._bases[0]:
            # A copy: the tail may shrink while somebody still reads.
            return iter(self._batches[bisect_right(self._bases, offset) - 1 :])
        return self._from_store(offset, self.end_offset)

    def _from_store(self, offset: int, end: int) -> Iterator[bytes]:
        for key, batch in self._store.scan("events", offset_key(offset), offset_key(end)):
            if self._checked(key, batch) > offset:
                break
            yield batch
            offset = key_offset(key) + 1
        if offset < end:
            raise self._store.damaged(f"the batch at offset {offset} is missing")

    def _checked(self, key: bytes, batch: bytes) -> int:
        """The base offset of a batch as the store gave it. Raises StorageError unless it is whole, and at its place."""
        last = key_offset(key)
        try:
            info, _ = open_batch(batch)
        except BatchError as error:
            raise self._store.damaged(f"the batch that ends at offset {last}: {error}") from error
        if info.last_offset != last:
            raise self._store.damaged(f"the batch that ends at offset {info.last_offset} lies at {last}")
        return info.base_offset

    def verify(self, offset: int, end: int, term: Term, max_bytes: int) -> tuple[int, Term, int]:
        """Check what the store holds from ``offset``, where a batch begins, up to ``end``: some ``max_bytes`` of it.
        ``term``: of the event before. How far it came, the term there, and the bytes. From any thread. Raises
        StorageError.
        """
        starts = dict(self.term_starts)
        read = 0
        for key, batch in self._store.scan("events", offset_key(offset), offset_key(end)):
            if self._checked(key, batch) != offset:
                break
            _, count, batch_term, _ = parse_batch(batch)
            if batch_term != term and (batch_term < term or starts.get(batch_term) != offset):
                raise self._store.damaged(
                    f"the batch at offset {offset} is of term {batch_term}, which does not begin there"
                )
            offset, term, read = offset + count, batch_term, read + len(batch)
            if read >= max_bytes:
                return offset, term, read
        if offset < end:
            raise self._store.damaged(f"the batch at offset {offset} is missing")
        return offset, term, read

    @property
    def _first_here(self) -> int:
        """From this offset on memory has everything."""
        return self._bases[0] if self._bases else self.end_offset

    # ── terms and times ──────────────────────────────────────────────────────────────────────────────────────────────

    def stamp_before(self, offset: int) -> tuple[Term, int]:
        """Term and time (Unix ms) of the last event before ``offset``; zeros at 0. It takes one batch, read as by
        ``read``. Raises UsageError, StorageError.
        """
        self._check_range(offset)
        if offset == 0:
            return Term(0), 0
        _, term, _, latest_ms = _HEADER.unpack_from(self.read(offset - 1, 1)[0])
        return Term(term), latest_ms

    @property
    def newest(self) -> tuple[Term, int]:
        """The same of the last event of all, which memory has."""
        return self.term_starts[-1][0] if self.term_starts else Term(0), self.newest_ms

    @property
    def newest_ms(self) -> int:
        """Time of the last event, Unix ms; 0 when there is none."""
        return _latest_ms(self._batches[-1]) if self._batches else self._newest_ms

    def times_ready(self, times_ms: Iterable[int], done: Callable[[], None], wanted: Callable[[], bool]) -> bool:
        """Does memory tell ``first_since`` of each of these times? If not they are looked for beside the loop, and
        ``done`` is called as by ``ready``.
        """
        if self._cold is None:
            return True
        cold = frozenset(time for time in times_ms if not self._told_by_memory(time))
        if not cold:
            return True
        self._cold.ask(cold, done, wanted)
        return False

    def first_since(self, time_ms: int) -> tuple[int, int] | None:
        """The first event whose time (Unix ms) is at least this: its offset and time. None: there is none. Raises
        StorageError.

        All events of a batch have one time, its largest timestamp, and time never falls along the log; so this is a
        binary search: some 20 reads of the store for a million events, where memory does not tell.
        """
        if self._cold is not None and time_ms in self._cold.times:
            return self._cold.times[time_ms]
        if not self._told_by_memory(time_ms):
            return self._search(time_ms, self._first_here)
        place = bisect_left(self._batches, time_ms, key=_latest_ms)
        return (self._bases[place], _latest_ms(self._batches[place])) if place < len(self._batches) else None

    def _told_by_memory(self, time_ms: int) -> bool:
        """Is the first event since then in memory, or nowhere?"""
        if not self._batches:
            return self.newest_ms < time_ms
        return self._bases[0] == self.start_offset or _latest_ms(self._batches[0]) < time_ms

    def _searching(self, times_ms: Times) -> Callable[[], Found]:
        """What finds, from any thread, the first events since times that memory does not tell. Raises StorageError."""
        high = self._first_here
        return lambda: {time: self._search(time, high) for time in times_ms}

    def _search(self, time_ms: int, high: int) -> tuple[int, int] | None:
        """Of what the store holds below ``high``, and then the batch there. From any thread. Raises StorageError."""
        end, low, found = self.end_offset, self.start_offset, None
        high = min(high + 1, end)
        while low < high:
            base_offset, _, last_delta, latest_ms = _HEADER.unpack_from(next(self._from_store((low + high) // 2, end)))
            if latest_ms >= time_ms:
                high, found = base_offset, (base_offset, latest_ms)
            else:
                low = base_offset + last_delta + 1
        return found


def _latest_ms(batch: bytes) -> int:
    """``maxTimestamp`` of a record batch v2: all events of one entry share their time."""
    latest_ms: int = _HEADER.unpack_from(batch)[3]
    return latest_ms
