"""What lies on disk and is seldom read is read anyway, slowly, so that damage is found while others still hold it
(docs/adr/0093).

Rules: never on the loop, never for long: a job reads some kilobytes on a thread of its own, then the next one waits
until the rate allows it. Nothing is repaired here: damage is raised, and the node stops with what is to be done. What
memory remembers of the disk would hide it: RocksDB's blocks are forgotten as a pass begins, and the kernel's pages of a
file before it is read, so that what a pass finds in memory was read, and verified, since it began.

Theory: a pass goes through the batches of the event log (CRC, size, place, terms), the blocks of all other families
(RocksDB's checksums), and the sealed segments of the journal (frames, up to where the seal says they end).
"""

from collections.abc import Iterator
from typing import Protocol

from quorate.clock import Scheduler, Timer
from quorate.consensus.journal.frames import FRAMES_AT, decode_frame, decode_header, decode_seal, seed_of, segment_name
from quorate.consensus.journal.journal import Journal
from quorate.consensus.journal.recovery import JOURNAL_REMEDY, JournalDamagedError
from quorate.consensus.ports import DiskWorker, Family, Store, Term
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage_settings import ScrubSettings

_BLOCKS: tuple[Family, ...] = ("meta", "rows", "requests", "groups", "history")
"""Families whose values say nothing here: that their blocks can be read is what is checked."""


class ScrubbedStore(Store, Protocol):
    """A store that can be read as it lies on disk. ``consensus.storage.store.RocksStore``."""

    def forget_reads(self) -> None:
        """Whatever is read from here on comes from the disk. From any thread. Raises StorageError."""


class SegmentReader(Protocol):
    """Reads a journal's files as they lie on disk. ``consensus.storage.disk.FileDisk``."""

    def forget_reads(self, name: str) -> None:
        """What is peeked at of a file that is synced comes from the disk next. From any thread. Raises StorageError."""

    def peek(self, name: str, offset: int, size: int) -> bytes | None:
        """Bytes of a file, short at its end; None when there is no such file. From any thread. Raises StorageError."""


class Scrub:
    """Begins a pass at its start and each period. ``worker`` is its own: a sync must not wait behind a read."""

    def __init__(
        self,
        store: ScrubbedStore,
        log: EventLog,
        journal: Journal,
        segments: SegmentReader,
        worker: DiskWorker,
        scheduler: Scheduler,
        settings: ScrubSettings,
    ) -> None:
        self._store, self._log, self._journal, self._segments = store, log, journal, segments
        self._worker, self._scheduler, self._settings = worker, scheduler, settings
        self._slices: Iterator[int] = iter(())
        self._timer: Timer | None = None
        self._began = 0.0
        self.passes = 0
        """Passes ended."""
        self.bytes_read = 0

    def start(self) -> None:
        """Begin a pass."""
        self._began = self._scheduler.monotonic()
        self._slices = self.slices()
        self._wait(0)

    def stop(self) -> None:
        """Read no more."""
        if self._timer is not None:
            self._timer.cancel()

    def slices(self) -> Iterator[int]:
        """One pass: each step reads a slice and gives its bytes. Raises StorageError for what is damaged."""
        self._store.forget_reads()
        yield from self._events()
        for family in _BLOCKS:
            yield from self._family(family)
        for segment in self._journal.sealed_segments():
            yield from self._segment(segment)

    def _wait(self, read: int) -> None:
        self._timer = self._scheduler.call_later(
            max(read, self._settings.slice_bytes) / self._settings.bytes_per_s, self._ask
        )

    def _ask(self) -> None:
        sizes: list[int | None] = []
        self._worker.submit(lambda: sizes.append(next(self._slices, None)), lambda: self._read(sizes[0]))

    def _read(self, read: int | None) -> None:
        if read is not None:
            self.bytes_read += read
            self._wait(read)
            return
        self.passes += 1
        rest = self._began + self._settings.period_s - self._scheduler.monotonic()
        self._timer = self._scheduler.call_later(max(rest, 1.0), self.start)

    def _events(self) -> Iterator[int]:
        """Every batch up to the end as of the pass's beginning."""
        offset, end, term = 0, self._log.end_offset, Term(0)
        while offset < end:
            offset, term, read = self._log.verify(offset, end, term, self._settings.slice_bytes)
            yield read

    def _family(self, family: Family) -> Iterator[int]:
        start: bytes | None = b""
        while start is not None:
            read, following = 0, None
            for key, value in self._store.scan(family, start):
                read += len(key) + len(value)
                if read >= self._settings.slice_bytes:
                    following = key + b"\0"
                    break
            start = following
            yield read

    def _segment(self, segment: int) -> Iterator[int]:
        """The frames of a sealed segment; nothing if it was removed meanwhile."""
        name, seed = segment_name(segment), seed_of(segment)
        self._segments.forget_reads(name)
        head = self._segments.peek(name, 0, FRAMES_AT)
        if head is None:
            return
        seal = decode_seal(head)
        if decode_header(head) is None or seal is None:
            raise JournalDamagedError(f"journal segment {name} has a damaged header or seal: {JOURNAL_REMEDY}")
        at = FRAMES_AT
        size = self._settings.slice_bytes
        while at < seal.end:
            wanted = min(size, seal.end - at)
            data = self._segments.peek(name, at, wanted)
            if data is None:
                return
            done = 0
            while (frame := decode_frame(data, done, seed)) is not None and frame.intact:
                done = frame.end
            if done:
                at, size = at + done, self._settings.slice_bytes
                yield done
            elif frame is not None and len(data) == wanted < frame.end <= seal.end - at:
                size = frame.end  # Larger than a slice: read it whole.
            else:
                raise JournalDamagedError(f"journal segment {name} is damaged at byte {at}: {JOURNAL_REMEDY}")
