"""Reading a journal back after a stop of any kind.

Rules: the answer is a prefix of the operations that were written, holding at least all that were ever durable, or
``JournalDamagedError``. Entries, terms and votes are never made up, and never forgotten silently. Reading changes
nothing on disk.

Theory: segments are read in order of their ids, without gaps. The first bad frame ends the log if it can only be the
end of what reached the disk: it lies in the last segment, no later frame proves that it had been durable, and it looks
like an unfinished write (``journal_frames``). Everything else is damage. What follows a torn write may hold frames
that look valid; so the writer never goes on behind one but begins a new segment, whose header says where the old ends.
"""

from collections.abc import Iterator

import msgspec

from quorate.consensus.journal.frames import (
    FRAME_HEADER_BYTES,
    FRAMES_AT,
    HEADER_BYTES,
    LAG_UNKNOWN,
    SEAL_AT,
    SEAL_BYTES,
    Frame,
    Owner,
    Point,
    Seal,
    SegmentHeader,
    all_zero,
    could_be_torn,
    decode_frame,
    decode_header,
    decode_seal,
    decode_vote,
    later_headers,
    seed_of,
    segment_id,
    segment_name,
)
from quorate.consensus.journal.index import LogIndex
from quorate.consensus.ports import Disk, Index, NodeId, Term
from quorate.errors import StorageError, UsageError

JOURNAL_REMEDY = "start the node again: it rejoins without a vote, and fetches what it lost from the others"
"""What an operator is told when a running node meets damage in its journal."""


class JournalDamagedError(StorageError):
    """The journal lost something that may have been durable: this node may have voted or acknowledged what it forgot.

    It must not vote nor acknowledge on the strength of what is left; see ``erase_journal``.
    """


class LiveSegment(msgspec.Struct):
    """A segment on disk and the highest index appended in it (0: none)."""

    segment: int
    size: int
    max_index: int = 0


class RecoveredJournal(msgspec.Struct, kw_only=True):
    """The image of a journal, and where to go on writing."""

    index: LogIndex
    term: Term
    voted_for: NodeId | None
    seq: int
    segments: list[LiveSegment]
    end: int
    """Offset behind the last good frame of the last segment."""
    torn: bool
    """The bytes behind ``end`` are not all zero: nothing may be appended to this segment."""
    suspect: bytes
    """Last bytes before ``end`` that no later frame proves durable: to be written and synced again."""
    unsealed: list[tuple[int, Seal]]
    """Closed segments without their seal, and the seal each should have: one read after a kill may be lost by power."""


def recover(disk: Disk, owner: Owner | None = None) -> tuple[RecoveredJournal | None, list[str]]:
    """The image in the files (None: there is no journal), and names of files that never began and are to be removed.

    Raises JournalDamagedError, StorageError; UsageError if a segment names another owner than ``owner``.
    """
    if owner is not None:
        check_owner(disk, owner)
    ids = sorted(segment for name in disk.names() if (segment := segment_id(name)) is not None)
    if not ids:
        return None, []
    if ids != list(range(ids[0], ids[0] + len(ids))):
        raise JournalDamagedError(f"segments are missing between {segment_name(ids[0])} and {segment_name(ids[-1])}")
    leftovers: list[str] = []
    if _unborn(disk.read(segment_name(ids[-1]))):
        leftovers.append(segment_name(ids.pop()))
    if ids:
        return _Replay(disk, ids).run(), leftovers
    if leftovers != [segment_name(1)]:
        raise JournalDamagedError(f"{leftovers[0]} is empty and those before it are missing")
    return None, leftovers


def check_owner(disk: Disk, owner: Owner) -> None:
    """Is the journal another's? One segment that says so is enough, whatever became of the others: a journal that is
    found damaged is erased, and another's is not ours to erase. Reads headers only. Raises UsageError, StorageError.
    """
    for name in disk.names():
        header = decode_header(disk.read(name, 0, HEADER_BYTES)) if segment_id(name) is not None else None
        if header is not None and header.owner not in (None, owner):
            whose = f"node {header.owner.node_id}, directory {header.owner.incarnation.hex()}"
            raise UsageError(
                f"{name} is part of the journal of {whose}, and this is node {owner.node_id}, directory "
                f"{owner.incarnation.hex()}: put back the journal that belongs here"
            )


def erase_journal(disk: Disk) -> None:
    """Remove every segment, newest first, so that a crash in between leaves what is known to be damaged.

    Only for a node that has first made durable, elsewhere, that its vote is forgotten. Raises StorageError.
    """
    for name in reversed([name for name in disk.names() if segment_id(name) is not None]):
        disk.remove(name)


class _Segment(msgspec.Struct):
    header: SegmentHeader
    data: bytes
    seal: Seal | None


class _Replay:
    """One pass over the segments ``ids``: consecutive, not empty, the last one begun."""

    def __init__(self, disk: Disk, ids: list[int]) -> None:
        self._disk = disk
        self._ids = ids
        self._live: list[LiveSegment] = []
        self._proven = 0
        segment = self._segment = self._load(ids[0])
        # Entries before the first segment were removed with theirs; a later BASE must say that this was meant.
        self._index = LogIndex(segment.header.last)
        self._base = segment.header.base
        self._term = segment.header.term
        self._voted_for = segment.header.voted_for
        self._seq = segment.header.start_seq - 1

    def run(self) -> RecoveredJournal:
        """The image after the last good operation. Raises JournalDamagedError."""
        unsealed: list[tuple[int, Seal]] = []
        for following in self._ids[1:]:
            header = self._segment.header
            after = self._load(following)
            end = self._read_closed(after.header)
            if self._segment.seal is None:
                unsealed.append((header.segment, Seal(following, end, self._seq)))
            elif self._segment.seal != Seal(following, end, self._seq):
                raise JournalDamagedError(f"{segment_name(header.segment)} is sealed elsewhere than it ends")
            self._segment = after
        end, torn, suspect = self._read_last()
        self._settle_base()
        return RecoveredJournal(
            index=self._index,
            term=self._term,
            voted_for=self._voted_for,
            seq=self._seq,
            segments=self._live,
            end=end,
            torn=torn,
            suspect=suspect,
            unsealed=unsealed,
        )

    def _load(self, segment: int) -> _Segment:
        name = segment_name(segment)
        data = self._disk.read(name)
        header = decode_header(data)
        if header is None or header.segment != segment or header.size != len(data):
            raise JournalDamagedError(f"{name} has no valid header, or not its size")
        return _Segment(header, data, decode_seal(data))

    def _frames(self) -> Iterator[Frame]:
        """Good frames of the present segment, executed as they come; ends before the first that is not the next one."""
        segment = self._segment
        number = segment.header.segment
        live = LiveSegment(number, segment.header.size)
        self._live.append(live)
        seed = seed_of(number)
        view = memoryview(segment.data)
        offset = FRAMES_AT
        while (frame := decode_frame(view, offset, seed)) is not None and frame.intact and frame.seq == self._seq + 1:
            self._execute(frame, number, live)
            self._seq = frame.seq
            if frame.lag != LAG_UNKNOWN:
                self._proven = max(self._proven, frame.seq - frame.lag)
            offset = frame.end
            yield frame

    def _read_closed(self, following: SegmentHeader) -> int:
        """Read up to where the following segment says it begins; the offset behind the last frame."""
        end = FRAMES_AT
        if self._seq + 1 < following.start_seq:
            for frame in self._frames():
                end = frame.end
                if frame.seq + 1 == following.start_seq:
                    break
        else:
            self._live.append(LiveSegment(self._segment.header.segment, self._segment.header.size))
        if (
            self._seq + 1 != following.start_seq
            or self._index.last != following.last
            or (self._base, self._term, self._voted_for) != (following.base, following.term, following.voted_for)
        ):
            name = segment_name(self._segment.header.segment)
            raise JournalDamagedError(f"{name} is bad at byte {end}, and the segment after it proves it was durable")
        return end

    def _read_last(self) -> tuple[int, bool, bytes]:
        """Offset behind the last good frame, whether anything but zeros follows, and the bytes not proven durable."""
        data, name = self._segment.data, segment_name(self._segment.header.segment)
        if not all_zero(data, SEAL_AT, SEAL_AT + SEAL_BYTES) and (
            self._segment.seal is not None or not could_be_torn(data, SEAL_AT, SEAL_AT + SEAL_BYTES)
        ):
            raise JournalDamagedError(f"{name} is sealed, but the segment after it is missing")
        frames = [(frame.start, frame.end, frame.seq) for frame in self._frames()]
        end = frames[-1][1] if frames else FRAMES_AT
        # Intact, but perhaps only in the page cache when the process died: read well now, gone after a power loss. It
        # is written and synced again before anything vouches for it.
        suspect = next((start for start, _, seq in frames if seq > self._proven), end)
        torn = not all_zero(data, end, len(data))
        if torn:
            self._judge(data, end, name)
        return end, torn, data[suspect:end]

    def _judge(self, data: bytes, offset: int, name: str) -> None:
        """Raise JournalDamagedError unless what is at ``offset`` can only be an unfinished write."""
        seed = seed_of(self._segment.header.segment)
        lost = self._seq + 1
        later = later_headers(data, offset, seed)
        # Each frame says how far the journal was durable when it was written (``seq - lag``). A later one that vouches
        # for the lost one proves damage: cutting here would forget a vote or an acknowledged entry. Cutting is safe
        # only for what was never vouched for (compare Protocol-Aware Recovery, FAST '18).
        if any(frame.lag != LAG_UNKNOWN and frame.seq - frame.lag >= lost for frame in later):
            raise JournalDamagedError(f"{name} is bad at byte {offset}, and a later frame proves it was durable")
        frame = decode_frame(data, offset, seed)
        end = frame.end if frame is not None and frame.end <= len(data) else offset + FRAME_HEADER_BYTES
        if (frame is not None and frame.intact) or not could_be_torn(data, offset, min(end, len(data))):
            raise JournalDamagedError(f"{name} is bad at byte {offset}, and no unfinished write looks like this")

    def _execute(self, frame: Frame, segment: int, live: LiveSegment) -> None:
        """Repeat one operation. Raises JournalDamagedError if it cannot have been the next one."""
        index, last = frame.index, self._index.last_index
        match frame.kind:
            case 1 if index == last + 1 and frame.term >= self._index.last_term:
                self._index.append(frame.term, segment << 32 | frame.start)
                live.max_index = max(live.max_index, index)
            case 2 if self._base.index < index <= last:
                if index > self._index.base.index:
                    self._index.truncate_from(index)
                else:
                    self._index.reset(Point(Index(index - 1), Term(frame.term)))
            case 3 if frame.term >= self._term:
                self._term, self._voted_for = Term(frame.term), decode_vote(index)
            case 4:
                self._base = Point(Index(index), Term(frame.term))
                self._index.reset(self._base)
                for older in self._live:
                    older.max_index = 0
            case 5 if self._base.index <= index <= last:
                self._base = Point(Index(index), Term(frame.term))
            case _:
                raise JournalDamagedError(f"operation {frame.seq} contradicts those before it")

    def _settle_base(self) -> None:
        """Forget what was meant to be forgotten. Raises JournalDamagedError if more than that is gone."""
        if self._index.base.index > self._base.index:
            raise JournalDamagedError(f"entries {self._base.index + 1} to {self._index.base.index} are missing")
        if self._index.term_at(self._base.index) != self._base.term:
            raise JournalDamagedError(f"entry {self._base.index} has another term than its base says")
        self._index.trim_to(self._base)


def _unborn(data: bytes) -> bool:
    """Is this a segment whose header never reached the disk, so that nothing behind it can have?"""
    if decode_header(data) is not None:
        return False
    if not all_zero(data, HEADER_BYTES, len(data)):
        return False
    # The header is written into a file that has its size already: a short one holds nothing but zeros.
    return all_zero(data, 0, len(data)) or (len(data) >= FRAMES_AT and could_be_torn(data, 0, HEADER_BYTES))
