"""The Raft log, the term and the vote of one node, durable some time after they changed.

Rules: memory changes at once; the disk follows in the order of the operations, by one thread, and always holds a prefix
of them. Nothing on disk is overwritten; a truncation is a record. What may be said to others about this log (an
acknowledgement, a vote) waits until ``durable_seq`` has reached the operation it rests on. The commit index is never
stored. A failed write or sync ends the node.

Theory: every change is one operation with the next ``seq``. ``flush`` hands the queued ones to the worker, with a
report ``(seq, generation, last index)``; the worker writes all it was handed in one go, syncs once, and gives back the
last report. ``durable_seq`` takes its seq. ``durable_index`` takes its last index only if no truncation happened
since it was made (``generation``): entries above the cut may be on disk, but they are no longer this log's.

The log begins at index 2: entry 1 is the engine's own first no-op, the same on every node and never stored; it is the
``base`` (index 1, term 0) of a fresh journal. Segments (``journal_frames``) are planned on the loop and written by the
worker; entries that left memory are read back from them (``read_back``). Old segments are removed whole once a durable
BASE record says that nobody needs their entries.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import msgspec

from quorate.clock import Clock
from quorate.consensus.journal.frames import (
    APPEND,
    BASE,
    FRAME_HEADER_BYTES,
    FRAMES_AT,
    HEADER_BYTES,
    LAG_UNKNOWN,
    RESET,
    SEAL_AT,
    TRUNCATE,
    VOTE,
    Owner,
    Point,
    Seal,
    SegmentHeader,
    encode_frame,
    encode_header,
    encode_seal,
    encode_vote,
    frame_bytes,
    seed_of,
    segment_name,
)
from quorate.consensus.journal.index import LogIndex
from quorate.consensus.journal.read_back import Plan, ReadBack, read_entries
from quorate.consensus.journal.recovery import (
    JournalDamagedError,
    LiveSegment,
    RecoveredJournal,
    erase_journal,
    recover,
)
from quorate.consensus.ports import TERM_MAX, Disk, DiskWorker, Index, NodeId, Syncer, Term
from quorate.consensus.storage_settings import JournalSettings
from quorate.errors import DiskFullError, InvariantBrokenError, UsageError, check

__all__ = ["FIRST", "Journal", "JournalDamagedError", "erase_journal"]

FIRST = Point(Index(1), Term(0))
"""The base of a fresh journal."""


class _Write(msgspec.Struct):
    """Bytes for a segment, from ``offset`` on."""

    name: str
    offset: int
    chunks: list[bytes]


class _Begin(msgspec.Struct):
    """A new segment, and then the seal of the one before."""

    name: str
    header: bytes
    sealed_name: str
    seal: bytes


class _Report(msgspec.Struct, frozen=True, gc=False):
    """What is true on disk once the operations handed over with it are."""

    seq: int
    generation: int
    last_index: int
    segment: int


class _Batch(msgspec.Struct):
    commands: list[_Write | _Begin]
    report: _Report


class _InFlight(msgspec.Struct, frozen=True, gc=False):
    seq: int
    since: float


class _Cut(msgspec.Struct, frozen=True, gc=False):
    """Once operation ``seq`` is durable, entries up to ``index`` and all segments below ``segment`` may go."""

    seq: int
    index: int
    segment: int = 0


class _Tail:
    """The latest entries, in memory: consecutive, ending with the last of the log."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.bytes = 0
        self._entries: list[bytes] = []

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entry: bytes) -> None:
        self._entries.append(entry)
        self.bytes += len(entry)

    def get(self, index: int) -> bytes:
        return self._entries[index - self.first]

    def get_range(self, first: int, last: int) -> list[bytes]:
        return self._entries[first - self.first : last - self.first + 1]

    def truncate_from(self, index: int) -> None:
        kept = max(0, index - self.first)
        self.bytes -= sum(map(len, self._entries[kept:]))
        del self._entries[kept:]
        self.first = min(self.first, index)

    def drop_to(self, index: int) -> None:
        """Forget entries up to ``index``; it may lie beyond the last."""
        gone = index + 1 - self.first
        if gone > 0:
            self.bytes -= sum(map(len, self._entries[:gone]))
            del self._entries[:gone]
            self.first = index + 1


class Journal:
    """One node's log, term and vote. Made by ``open``. Belongs to the loop's thread; the port jobs run on the worker's.

    ``reader`` reads entries back; without one ``worker`` does, and a sync waits behind a read.
    ``state`` is ``new`` if no journal was found: a node that knows it had one must treat its vote as forgotten.
    """

    def __init__(
        self,
        disk: Disk,
        worker: DiskWorker,
        settings: JournalSettings,
        clock: Clock,
        image: RecoveredJournal,
        owner: Owner | None = None,
        reader: DiskWorker | None = None,
    ) -> None:
        self._owner = owner
        self.state: Literal["new", "recovered"] = "recovered"
        self.on_durable: Callable[[], None] = _nothing
        self.term = image.term
        self.voted_for = image.voted_for
        self.seq = image.seq
        self.durable_seq = image.seq
        self.durable_index: int = image.index.last_index
        self.generation = 0
        self.syncs = 0
        self.syncer: Syncer | None = None
        """Syncs what needs no new segment; without one, and for everything else, the worker does. Put in by the data
        directory, which has the loop that it needs.
        """
        self._disk = disk
        self._worker = worker
        self._settings = settings
        self._clock = clock
        self._index = image.index
        self.read_back = ReadBack(disk, reader or worker, settings, clock, self._valid)
        self._tail = _Tail(image.index.last_index + 1)
        self._segments = image.segments
        self._segment_size = image.segments[-1].size
        self._offset = image.end
        self._enter_segment(image.segments[-1].segment)
        # Operations not handed over yet.
        self._commands: list[_Write | _Begin] = []
        self._chunks: list[bytes] | None = None
        self._queued_since = 0.0
        # Operations handed over, and what came back. The deques are shared with the worker's thread.
        self._batches: deque[_Batch] = deque()
        self._job_waits = False
        self._syncing: _Report | None = None
        """What the syncer makes durable now."""
        self._in_flight: deque[_InFlight] = deque()
        self._reports: deque[_Report] = deque()
        self._spare_asked = 0
        self._current = image.segments[-1].segment
        """The segment that the last durable operation is in."""
        self._spares: set[str] = set()
        self._newest = segment_name(image.segments[-1].segment)
        """The newest segment begun on disk; the worker's alone."""
        self._cuts: deque[_Cut] = deque()
        self._dropped: deque[str] = deque()
        """Segments that nobody needs, and whose files are still there."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        worker: DiskWorker,
        settings: JournalSettings,
        clock: Clock,
        *,
        must_exist: bool = False,
        owner: Owner | None = None,
        known_seq: int = 0,
        reader: DiskWorker | None = None,
    ) -> "Journal":
        """The journal on ``disk``, or a fresh one. Reads and syncs: only at start.

        ``must_exist``: this node knows that it had one. ``known_seq``: operations that this node knows were durable, by
        the store beside it; a fresh journal goes on after them. Raises JournalDamagedError if something that may have
        been durable is gone (with ``must_exist``: also all of it), StorageError if the disk fails, UsageError if it is
        not ``owner``'s; then nothing changed.
        """
        image, leftovers = recover(disk, owner)
        if image is None and must_exist:
            raise JournalDamagedError("the journal is missing")
        if image is not None and image.seq < known_seq:
            raise JournalDamagedError(
                f"the journal ends with operation {image.seq} in {segment_name(image.segments[-1].segment)}, and the "
                f"store knows that {known_seq} were durable: it was cut short, or is an older one"
            )
        for name in leftovers:
            disk.remove(name)
        if image is None:
            journal = cls(disk, worker, settings, clock, _create(disk, settings, owner, known_seq), owner, reader)
            journal.state = "new"
            return journal
        _make_durable(disk, image)
        journal = cls(disk, worker, settings, clock, image, owner, reader)
        journal._rotate_if_torn(image)
        return journal

    # ── what is in it ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def base_index(self) -> Index:
        """The last entry that was forgotten."""
        return self._index.base.index

    @property
    def base_term(self) -> Term:
        """Its term."""
        return self._index.base.term

    @property
    def first_index(self) -> Index:
        """The first entry there may be."""
        return Index(self._index.base.index + 1)

    @property
    def last_index(self) -> Index:
        """The last entry, ``base_index`` if there is none."""
        return Index(self._index.last_index)

    @property
    def last_term(self) -> Term:
        """The term of ``last_index``."""
        return Term(self._index.last_term)

    def term_at(self, index: int) -> Term | None:
        """The term of an entry, also of the base; None if it is not there."""
        return self._index.term_at(index)

    def entry(self, index: int) -> bytes:
        """The bytes as appended. Raises InvariantBrokenError if it is not there, StorageError if it cannot be read."""
        check(self._index.base.index < index <= self._index.last_index, f"entry {index} is not in the journal")
        if index >= self._tail.first:
            return self._tail.get(index)
        return read_entries(self._disk, self._plan(index, 1, 1))[0]

    def entries(self, start: int, max_bytes: int, max_count: int) -> list[tuple[Index, Term, bytes]]:
        """Entries from ``start`` on: at most ``max_count``, and as many as fit ``max_bytes``, but one always fits.

        Empty above the last. Waits for the disk: not for the turns of a node (``at_hand``). Raises InvariantBrokenError
        below the first, StorageError.
        """
        check(start > self._index.base.index, f"entry {start} was trimmed")
        entries: list[tuple[Index, Term, bytes]] = []
        room = max_bytes
        end = min(self._index.last_index + 1, start + max_count)
        while (at := start + len(entries)) < end and room >= 0:
            if at >= self._tail.first:
                block = self._tail.get_range(at, end - 1)
            else:
                block = read_entries(self._disk, self._plan(at, min(end, self._tail.first) - at, room))
            room = self._take(entries, at, block, room)
        return entries

    def at_hand(self, start: int, max_bytes: int, max_count: int) -> list[tuple[Index, Term, bytes]] | None:
        """As ``entries``, of what is in memory or was read back; at least one if there is one. None: it is being read,
        or waits until others were, and ``read_back.on_read`` says when to ask again. Raises InvariantBrokenError.
        """
        check(start > self._index.base.index, f"entry {start} was trimmed")
        first = self._tail.first
        end = min(self._index.last_index + 1, start + max_count)
        if start >= first:
            block = self._tail.get_range(start, end - 1)
        elif not (block := self.read_back.find(self.generation, start)[: end - start]):
            self.read_back.ask(self._plan(start, first - start, self._settings.read_bytes))
            return None
        entries: list[tuple[Index, Term, bytes]] = []
        self._take(entries, start, block, max_bytes)
        return entries

    def _take(self, entries: list[tuple[Index, Term, bytes]], start: int, block: list[bytes], room: int) -> int:
        """Add entries from ``start`` on while they fit, the very first in any case. What is left of the room; below 0:
        no more.
        """
        term, run_end = Term(0), 0
        for index, entry in enumerate(block, start):
            room -= len(entry)
            if room < 0 and entries:
                break
            if index > run_end:
                term, run_end = self._index.run_at(index)
            entries.append((Index(index), term, entry))
        return room

    def _plan(self, start: int, count: int, max_bytes: int) -> Plan:
        """A read of up to ``count`` entries that left memory, at least one, within one segment."""
        size = min(max(max_bytes, 4096), self._settings.read_bytes)
        positions = self._index.positions(start, min(count, size // FRAME_HEADER_BYTES + 1))
        end = min(positions[0] + size, ((positions[0] >> 32) + 1) << 32)
        return Plan(self.generation, start, positions[: bisect_left(positions, end)], size)

    def _valid(self, plan: Plan) -> bool:
        """Are the entries of a plan still those of this log, and their segment still there?"""
        return plan.generation == self.generation and plan.start > self._index.base.index

    # ── operations ───────────────────────────────────────────────────────────────────────────────────────────────────

    def append(self, index: int, term: int, entry: bytes) -> None:
        """One more entry. Raises InvariantBrokenError out of order, UsageError if it is too large."""
        log = self._index
        if index != log.last_index + 1 or term < log.last_term:
            raise InvariantBrokenError(
                f"entry {index}, term {term}, cannot follow {log.last_index}, term {log.last_term}"
            )
        if len(entry) > self._settings.max_entry_bytes:
            raise UsageError(f"entry of {len(entry)} bytes exceeds max_entry_bytes")
        position = self._operation(APPEND, index, term, entry)
        self._segments[-1].max_index = index
        log.append(term, position)
        self._tail.append(entry)

    def truncate_from(self, index: int) -> None:
        """Drop ``index`` and all after it. Raises InvariantBrokenError at or below the base."""
        if index > self._index.last_index:
            return
        check(index > self._index.base.index, f"truncation at {index} is not above the base")
        self._operation(TRUNCATE, index, self._index.term_at(index - 1) or 0)
        self._index.truncate_from(index)
        self._tail.truncate_from(index)
        self.generation += 1
        self.durable_index = min(self.durable_index, index - 1)

    def set_vote(self, term: int, voted_for: NodeId | None) -> None:
        """Enter ``term``, or vote in it. Raises InvariantBrokenError for an older term, one that no log can hold, or a
        second vote (Raft §5.2).
        """
        if term == self.term and voted_for == self.voted_for:
            return
        check(term <= TERM_MAX, f"term {term}: the log can hold up to {TERM_MAX}")
        check(
            term > self.term or (term == self.term and self.voted_for is None),
            f"term {self.term}, vote {self.voted_for}: cannot become term {term}, vote {voted_for}",
        )
        self._operation(VOTE, encode_vote(voted_for), term)
        self.term = Term(term)
        self.voted_for = voted_for

    def reset(self, index: int, term: int) -> None:
        """Drop every entry; the log goes on after ``(index, term)``, which the store holds durably."""
        self._operation(RESET, index, term)
        self._index.reset(Point(Index(index), Term(term)))
        self._tail = _Tail(index + 1)
        self.generation += 1
        self.durable_index = min(self.durable_index, index)
        self._cuts.append(_Cut(self.seq, index, self._segments[-1].segment))

    def trim_to(self, index: int) -> None:
        """Forget entries up to ``index``: at once in memory, on disk when a whole segment is not needed any more.

        The store must hold them *synced*. Raises InvariantBrokenError above the last durable entry.
        """
        if index <= self._index.base.index:
            return
        check(index <= min(self._index.last_index, self.durable_index), f"trim to {index} is above what is durable")
        base = Point(Index(index), self._index.term_at(index) or Term(0))
        self._operation(BASE, index, base.term)
        self._index.trim_to(base)
        self._tail.drop_to(index)
        self._cuts.append(_Cut(self.seq, index))

    # ── durability ───────────────────────────────────────────────────────────────────────────────────────────────────

    def flush(self) -> None:
        """Hand over what is queued; one write and one sync for all that waits when the worker comes to it."""
        if not self._commands:
            return
        report = _Report(self.seq, self.generation, self._index.last_index, self._segments[-1].segment)
        self._in_flight.append(_InFlight(self.seq, self._queued_since))
        self._batches.append(_Batch(self._commands, report))
        self._commands = []
        self._chunks = None
        self._hand_over()

    def _hand_over(self) -> None:
        """All that waits, to the syncer or to the worker, and never to one while the other is at it: the disk holds the
        operations in their order.
        """
        if self._syncing is not None or self._job_waits or not self._batches:
            return  # A sync's end comes back here. A job that waits finds this: it looks after taking the flag down.
        if self.syncer is not None and not self._worker.pending() and self._sync_by(self.syncer):
            return
        self._job_waits = True
        self._worker.submit(self._write, self._written)

    def _sync_by(self, syncer: Syncer) -> bool:
        """One write and one sync for all that waits, if it is in one segment that is there."""
        first: _Write | None = None
        chunks: list[bytes] = []
        for batch in self._batches:
            for command in batch.commands:
                if isinstance(command, _Begin):
                    return False
                first = first or command
                chunks += command.chunks
        if first is None or not syncer.write(first.name, first.offset, b"".join(chunks), self._synced):
            return False
        self._syncing = self._batches[-1].report
        self._batches.clear()
        return True

    def _synced(self) -> None:
        """On the loop: what the syncer was handed is durable. The next sync begins before anybody hears of it."""
        report, self._syncing = self._syncing, None
        if report is not None:
            self.syncs += 1
            self._hand_over()
            self._durable(report)

    def oldest_unsynced_since(self) -> float | None:
        """Monotonic time of the oldest operation that is not durable; None when all are."""
        if self._in_flight:
            return self._in_flight[0].since
        return self._queued_since if self._commands else None

    def sealed_segments(self) -> list[int]:
        """Ids of the segments that are written and sealed: nothing in them changes any more."""
        return [live.segment for live in self._segments if live.segment < self._current]

    def bytes_on_disk(self) -> int:
        """Size of all segments."""
        spares = len(self._spares) * self._settings.segment_bytes
        return spares + sum(segment.size for segment in self._segments)

    def bytes_of_entries(self) -> int:
        """From the first entry to the end of what was written: what less would be, were entries trimmed."""
        if self._index.last_index == self._index.base.index:
            return 0
        first = self._index.positions(self.first_index, 1)[0]
        size = sum(live.size for live in self._segments if live.segment >= first >> 32)
        return size - (first & 0xFFFFFFFF) - (self._segment_size - self._offset)

    def _written(self) -> None:
        """On the loop: the worker has synced what it found."""
        report: _Report | None = None
        while self._reports:  # One by one: the worker's thread may add another at any moment.
            report = self._reports.popleft()
        if report is not None:
            self._durable(report)

    def _durable(self, report: _Report) -> None:
        """What was handed over with this report is on disk."""
        if report.seq < self.durable_seq:
            return  # What came after it was quicker to be told. (As new as before: a segment was begun, and no more.)
        self.durable_seq, self._current = report.seq, report.segment
        if report.generation == self.generation:
            self.durable_index = max(self.durable_index, report.last_index)
        while self._in_flight and self._in_flight[0].seq <= report.seq:
            self._in_flight.popleft()
        self._shrink_tail()
        self._ask_for_spare(report.segment)
        self._drop_segments(report.segment)
        self.on_durable()

    def _shrink_tail(self) -> None:
        """Leave to the segments what memory should not keep; only what is durable can be read back."""
        tail, settings = self._tail, self._settings
        if tail.bytes <= settings.tail_bytes and len(tail) <= settings.tail_entries:
            return
        # Down to three quarters, so that this is rare.
        last = min(self.durable_index, tail.first + len(tail) - 1)
        spare_bytes = tail.bytes - settings.tail_bytes * 3 // 4
        spare_count = len(tail) - settings.tail_entries * 3 // 4
        index = tail.first
        while index <= last and (spare_bytes > 0 or spare_count > 0):
            spare_bytes -= len(tail.get(index))
            spare_count -= 1
            index += 1
        tail.drop_to(index - 1)

    def _ask_for_spare(self, current: int) -> None:
        """Let the worker fill the next segment with zeros while this one is still half empty.

        Not before ``current``, the last segment on disk, is the one written to: a spare behind a gap looks like damage.
        """
        following = self._segments[-1].segment + 1
        if following != current + 1 or self._offset * 2 < self._segment_size or self._spare_asked >= following:
            return
        self._spare_asked = following
        name = segment_name(following)

        def make() -> None:
            if name > self._newest:  # Else a job queued before this one was handed the segment's beginning meanwhile.
                with suppress(DiskFullError):  # It is early: there may be room again when it is needed.
                    self._disk.create(name, self._settings.segment_bytes)
                    self._spares.add(name)

        self._worker.submit(make, _nothing)

    def _drop_segments(self, current: int) -> None:
        """Remove segments below ``current``, whose header is durable, that a durable base made dispensable."""
        index = segment = 0
        while self._cuts and self._cuts[0].seq <= self.durable_seq:
            cut = self._cuts.popleft()
            index, segment = cut.index, max(segment, cut.segment)
        gone = 0
        for live in self._segments:
            if live.segment >= current or (live.max_index > index and live.segment >= segment):
                break
            gone += 1
        removing = bool(self._dropped)
        self._dropped += (segment_name(live.segment) for live in self._segments[:gone])
        del self._segments[:gone]
        if not removing:
            self._remove_dropped()

    def _remove_dropped(self) -> None:
        """The oldest first, a job for each and none before the last has ended: a removal syncs the directory, and what
        is to be made durable meanwhile waits for one of them at most.
        """
        if self._dropped:
            name = self._dropped[0]
            self._worker.submit(lambda: self._disk.remove(name), self._removed)

    def _removed(self) -> None:
        self._dropped.popleft()
        self._remove_dropped()

    # ── the plan of bytes (loop) ─────────────────────────────────────────────────────────────────────────────────────

    def _operation(self, kind: int, index: int, term: int, payload: bytes = b"") -> int:
        """Queue one operation; its position. Called before memory changes: a new header tells what was before."""
        offset, size = self._offset, frame_bytes(len(payload))
        if offset + size > self._segment_size:
            self._rotate()
            offset = self._offset
        chunks = self._chunks
        if chunks is None:
            chunks = self._begin_write()
        self.seq = seq = self.seq + 1
        lag = seq - self.durable_seq
        chunks += encode_frame(self._seed, kind, seq, lag if lag < LAG_UNKNOWN else LAG_UNKNOWN, index, term, payload)  # noqa: FURB136 - min() is a call
        self._offset = offset + size
        return self._segment_position | offset

    def _enter_segment(self, segment: int) -> None:
        self._seed = seed_of(segment)
        self._segment_position = segment << 32

    def _begin_write(self) -> list[bytes]:
        """The first operation since the last flush, or in a new segment."""
        if not self._commands:
            self._queued_since = self._clock.monotonic()
        self._chunks = chunks = list[bytes]()
        self._commands.append(_Write(segment_name(self._segments[-1].segment), self._offset, chunks))
        return chunks

    def _rotate_if_torn(self, image: RecoveredJournal) -> None:
        """Never write behind a torn write: a stale frame after it could be taken for the next one."""
        if image.torn:
            self._rotate()
            self.flush()

    def _rotate(self) -> None:
        """Go on in a new segment."""
        if not self._commands:
            self._queued_since = self._clock.monotonic()
        full = self._segments[-1].segment
        header = SegmentHeader(
            segment=full + 1,
            size=self._settings.segment_bytes,
            start_seq=self.seq + 1,
            base=self._index.base,
            last=self._index.last,
            term=self.term,
            voted_for=self.voted_for,
            owner=self._owner,
        )
        seal = encode_seal(full, Seal(full + 1, self._offset, self.seq))
        self._commands.append(_Begin(segment_name(full + 1), encode_header(header), segment_name(full), seal))
        self._segments.append(LiveSegment(full + 1, self._settings.segment_bytes))
        self._enter_segment(full + 1)
        self._segment_size = self._settings.segment_bytes
        self._offset = FRAMES_AT
        self._chunks = None

    # ── bytes to disk (worker) ───────────────────────────────────────────────────────────────────────────────────────

    def _write(self) -> None:
        """Everything handed over so far: one write and one sync per segment it touches."""
        self._job_waits = False
        pending: _Write | None = None
        report: _Report | None = None
        while self._batches:
            batch = self._batches.popleft()
            report = batch.report
            for command in batch.commands:
                if isinstance(command, _Begin):
                    self._put(pending)
                    pending = None
                    self._begin(command)
                elif pending is None:
                    pending = command
                else:
                    pending.chunks += command.chunks
        self._put(pending)
        if report is not None:
            self._reports.append(report)

    def _put(self, write: _Write | None) -> None:
        if write is not None:
            self._disk.write(write.name, write.offset, b"".join(write.chunks))
            self._disk.sync(write.name)
            self.syncs += 1

    def _begin(self, begin: _Begin) -> None:
        """The old segment's frames are durable; make the new one's header so, and only then the old one's seal."""
        self._newest = begin.name
        if begin.name in self._spares:
            self._spares.remove(begin.name)
        else:
            self._disk.create(begin.name, self._settings.segment_bytes)
        self._disk.write(begin.name, 0, begin.header)
        self._disk.sync(begin.name)
        self._disk.write(begin.sealed_name, SEAL_AT, begin.seal)
        self._disk.sync(begin.sealed_name)
        self.syncs += 2


def _create(disk: Disk, settings: JournalSettings, owner: Owner | None, seq: int) -> RecoveredJournal:
    """The first segment of a new journal, whose operations come after ``seq``."""
    header = SegmentHeader(
        segment=1,
        size=settings.segment_bytes,
        start_seq=seq + 1,
        base=FIRST,
        last=FIRST,
        term=Term(0),
        voted_for=None,
        owner=owner,
    )
    disk.create(segment_name(1), settings.segment_bytes)
    disk.write(segment_name(1), 0, encode_header(header))
    disk.sync(segment_name(1))
    return RecoveredJournal(
        index=LogIndex(FIRST),
        term=Term(0),
        voted_for=None,
        seq=seq,
        segments=[LiveSegment(1, settings.segment_bytes)],
        end=FRAMES_AT,
        torn=False,
        suspect=b"",
        unsealed=[],
    )


def _make_durable(disk: Disk, image: RecoveredJournal) -> None:
    """Write what may be only in the page cache once more: after a failed sync the kernel can call lost pages clean."""
    last = segment_name(image.segments[-1].segment)
    disk.write(last, 0, disk.read(last, 0, HEADER_BYTES))  # Else a seal would name a segment that a power loss takes.
    if image.suspect:
        disk.write(last, image.end - len(image.suspect), image.suspect)
    disk.sync(last)
    for sealed, seal in image.unsealed:
        disk.write(segment_name(sealed), SEAL_AT, encode_seal(sealed, seal))
        disk.sync(segment_name(sealed))


def _nothing() -> None:
    """Nobody listens."""
