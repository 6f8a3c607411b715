"""Entries that left memory, read back from their segments while the loop goes on.

Rules: the loop plans a read: which bytes of which segment, and where each entry begins. The reader's thread reads,
decodes and verifies. The loop keeps the result, or throws it away if the log is another one meanwhile: truncated or
reset (``generation``), or trimmed at its beginning. A disk that does not answer holds up who asked, and nobody else.
What is kept has a bound, and what is being read counts as if it were here: so reads cannot pile up either.

Theory: a frame never moves and is never overwritten, so a plan stays true of the bytes for as long as the segment
exists; and a segment goes only when every entry in it was trimmed, or with a reset. So a result that is thrown away
says nothing of damage, whatever was met; any other that is not what was written is damage.
"""

from array import array
from collections.abc import Callable

import msgspec

from quorate.clock import Clock
from quorate.consensus.journal.frames import APPEND, FRAME_HEADER_BYTES, decode_frame, seed_of, segment_name
from quorate.consensus.journal.recovery import JOURNAL_REMEDY, JournalDamagedError
from quorate.consensus.ports import Disk, DiskWorker
from quorate.consensus.storage_settings import JournalSettings
from quorate.errors import StorageError


class Plan(msgspec.Struct, frozen=True, gc=False):
    """Consecutive entries of one segment."""

    generation: int
    """The journal's, when this was planned."""
    start: int
    positions: "array[int]"
    """Of each entry's frame, as in the journal's index."""
    size: int
    """Bytes to read, from the first frame on; the entries may be more than they hold."""


def read_entries(disk: Disk, plan: Plan) -> list[bytes]:
    """As many as one read gives, at least one. Raises StorageError, JournalDamagedError."""
    first = plan.positions[0]
    segment, offset = first >> 32, first & 0xFFFFFFFF
    name, seed = segment_name(segment), seed_of(segment)
    data = disk.peek(name, offset, plan.size) or b""
    entries: list[bytes] = []
    for index, position in enumerate(plan.positions, plan.start):
        at = position - first
        if entries and at + FRAME_HEADER_BYTES > len(data):
            break
        frame = decode_frame(data, at, seed)
        if frame is not None and frame.end > len(data):
            if entries:
                break
            data = disk.peek(name, offset, frame.end) or b""
            frame = decode_frame(data, at, seed)
        if frame is None or not frame.intact or frame.index != index or frame.kind != APPEND:
            raise JournalDamagedError(f"entry {index} cannot be read back from {name}: {JOURNAL_REMEDY}")
        entries.append(data[at + FRAME_HEADER_BYTES : at + FRAME_HEADER_BYTES + frame.length])
    return entries


class ReadBack:
    """What was read back lately, and what is being read. Belongs to the loop's thread.

    ``valid`` says whether the log is still that of a plan. ``on_read`` is called at the end of each read: with None if
    it is worth asking again, or with what is wrong with the disk.
    """

    def __init__(
        self, disk: Disk, reader: DiskWorker, settings: JournalSettings, clock: Clock, valid: Callable[[Plan], bool]
    ) -> None:
        self.on_read: Callable[[StorageError | None], None] = _heard
        self._disk, self._reader, self._clock = disk, reader, clock
        self._settings = settings
        self._valid = valid
        self._blocks: dict[tuple[int, int], list[bytes]] = {}
        """By generation and first index; what was not used longest first."""
        self._bytes = 0
        self.under_way: dict[tuple[int, int], float] = {}
        """Reads under way, and since when; the oldest first."""

    def find(self, generation: int, start: int) -> list[bytes]:
        """Entries from ``start`` on; none if they are not here."""
        for key, entries in self._blocks.items():
            at = start - key[1]
            if key[0] == generation and 0 <= at < len(entries):
                self._blocks[key] = self._blocks.pop(key)
                return entries[at:]
        return []

    def ask(self, plan: Plan) -> None:
        """Read it, unless it is being read, or as much is as may be: whoever needs it asks again after ``on_read``."""
        key = (plan.generation, plan.start)
        if key in self.under_way or self._reserved(1) > self._settings.read_back_bytes:
            return
        self.under_way[key] = self._clock.monotonic()
        self._make_room(0)
        result: list[list[bytes] | StorageError] = []

        def read() -> None:
            try:
                result.append(read_entries(self._disk, plan))
            except StorageError as error:
                result.append(error)

        self._reader.submit(read, lambda: self._take(plan, key, result[0]))

    def _take(self, plan: Plan, key: tuple[int, int], result: list[bytes] | StorageError) -> None:
        del self.under_way[key]
        if not self._valid(plan):
            self.on_read(None)
        elif isinstance(result, StorageError):
            self.on_read(result)
        else:
            self._blocks[key] = result
            self._bytes += sum(map(len, result))
            self._make_room(1)
            self.on_read(None)

    def _reserved(self, more: int = 0) -> int:
        return (len(self.under_way) + more) * self._settings.read_bytes

    def _make_room(self, keep: int) -> None:
        """A single block always fits: an entry may be larger than a read."""
        while len(self._blocks) > keep and self._bytes + self._reserved() > self._settings.read_back_bytes:
            self._bytes -= sum(map(len, self._blocks.pop(next(iter(self._blocks)))))


def _heard(error: StorageError | None) -> None:
    """Nobody else does."""
    if error is not None:
        raise error
