"""The leader's side of a snapshot, and when the journal may be trimmed.

Rules: what travels is the state (every row, request and group offset as of one applied index) and the event batches the
follower lacks, byte for byte; nothing is recomputed. The journal is trimmed only below what the *store* has synced,
which a worker of its own does: nothing that a peer or client waits for is behind it.
While a snapshot is under way the leader keeps every entry after its index, and then for as long as the follower comes
nearer to the journal's end. Chunks are bounded, numbered and acknowledged; lost ones are sent again from the first that
is missing. What waits in a slow link is not lost: it is not sent again behind itself.

Theory: batches travel first and go straight into the follower's store, where nobody sees them; rows travel last and are
staged there until all have come (consensus/raft/staging.py). Both are read as they are sent, by the reader's thread:
rows from iterators opened at the snapshot's index, which go on to show the state of then.
"""

import math
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from quorate.clock import Clock
from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import DiskWorker, Family, Index, Store
from quorate.consensus.settings import SnapshotSettings
from quorate.consensus.storage.event_log import Batch
from quorate.consensus.transport.codec import (
    SNAPSHOT_DONE,
    SNAPSHOT_UNKNOWN,
    Message,
    SnapshotAck,
    SnapshotBegin,
    SnapshotChunk,
)
from quorate.errors import PeerError

ROWS, BATCHES = 0, 1
SNAPSHOT_FAMILIES: tuple[Family, ...] = ("rows", "requests", "groups")
Row = tuple[Family, bytes, bytes]
_ROW = struct.Struct("!BII")
_BATCH = struct.Struct("!I")


def pack_rows(rows: Iterable[Row]) -> bytes:
    """Family number, key length, value length, key, value; one after another."""
    parts: list[bytes] = []
    for family, key, value in rows:
        parts += (_ROW.pack(SNAPSHOT_FAMILIES.index(family), len(key), len(value)), key, value)
    return b"".join(parts)


def unpack_rows(payload: bytes) -> list[Row]:
    """The inverse. Raises PeerError."""
    rows: list[Row] = []
    at, end = 0, len(payload)
    while at < end:
        if at + _ROW.size > end:
            raise PeerError("snapshot row cut short")
        family, key_size, value_size = _ROW.unpack_from(payload, at)
        key_at = at + _ROW.size
        value_at = key_at + key_size
        at = value_at + value_size
        if at > end or family >= len(SNAPSHOT_FAMILIES):
            raise PeerError("snapshot row out of bounds")
        rows.append((SNAPSHOT_FAMILIES[family], payload[key_at:value_at], payload[value_at:at]))
    return rows


def pack_batches(batches: Iterable[bytes]) -> bytes:
    """Length and bytes of each."""
    return b"".join(part for batch in batches for part in (_BATCH.pack(len(batch)), batch))


def unpack_batches(payload: bytes) -> list[bytes]:
    """The inverse. Raises PeerError."""
    batches: list[bytes] = []
    at, end = 0, len(payload)
    while at < end:
        if at + _BATCH.size > end:
            raise PeerError("snapshot batch cut short")
        (size,) = _BATCH.unpack_from(payload, at)
        start = at + _BATCH.size
        at = start + size
        if at > end:
            raise PeerError("snapshot batch out of bounds")
        batches.append(payload[start:at])
    return batches


AHEAD: Final = 4
"""Windows that are made, sent ones included, before the follower asks for more."""

DOUBLINGS: Final = 2
"""How often the time before a repetition grows, each time to twice as much."""


class SnapshotSender:
    """One snapshot on its way to one follower, in one term. Asked for messages, told of acks.

    Chunks are made by the ``reader``, so that the loop waits for no disk; ``made`` is called on the loop when some are.
    """

    def __init__(
        self,
        begin: SnapshotBegin,
        rows: Iterable[Row],
        batches: Callable[[int], Iterator[Batch]],
        reader: DiskWorker,
        made: Callable[[], None],
        settings: SnapshotSettings,
        now: float,
    ) -> None:
        self._begin = begin
        self._rows = rows
        self._batches = batches
        self._reader = reader
        self._on_made = made
        self._settings = settings
        self._chunks: Iterator[SnapshotChunk] | None = None
        self._made: deque[SnapshotChunk] = deque()
        """Ready to be sent."""
        self._making = False
        self._all_made = False
        self._in_flight: deque[SnapshotChunk] = deque()
        self._sent_at: float | None = None
        """When anything was sent last; None if it may be lost."""
        self._repeated = 0
        """How often all in flight was sent again without progress."""
        self._progress_at = now
        self._lost = False

    @property
    def index(self) -> Index:
        """The state it carries is as of here."""
        return self._begin.index

    def stale(self, now: float) -> bool:
        """Has it made no progress for too long, or does the follower not know it any more?"""
        return self._lost or now - self._progress_at > self._settings.timeout_s

    def messages(self, now: float) -> list[Message]:
        """What to send now: new chunks into the window, and everything unacknowledged once in a while."""
        waited = math.inf if self._sent_at is None else now - self._sent_at
        if self._chunks is None or self._all_acknowledged:
            # Also if every chunk was taken: the install may still run, or its ack was lost. The follower answers with
            # how far it is and installs nothing twice.
            if waited < self._settings.resend_s:
                return []
            self._sent_at = now
            return [self._begin]
        messages: list[Message] = []
        if self._in_flight and waited >= self._patience():
            self._repeated += 1
            messages += self._in_flight
        while self._made and self._has_room():
            chunk = self._made.popleft()
            self._in_flight.append(chunk)
            messages.append(chunk)
        if messages:
            self._sent_at = now
        return messages

    def connected(self) -> None:
        """A connection is up: what was under way may be lost with the one before."""
        self._sent_at, self._repeated = None, 0

    def _has_room(self) -> bool:
        """May one more be in flight? Some large ones are a window too, and one always is."""
        settings, sent = self._settings, self._in_flight
        return not sent or (len(sent) < settings.window_chunks and _bytes(sent) < settings.window_bytes)

    def _patience(self) -> float:
        """Without an acknowledgement for so long all in flight is taken for lost: the more bytes, the longer they need,
        and after each repetition twice as long: where it was only late, it now waits in front of what comes next.
        """
        settings = self._settings
        chunks = max(1.0, _bytes(self._in_flight) / settings.chunk_bytes)
        return min(settings.timeout_s, settings.resend_s * chunks * 2.0 ** min(self._repeated, DOUBLINGS))

    def on_ack(self, ack: SnapshotAck, now: float) -> bool:
        """Is the follower done?"""
        if ack.snapshot_id != self._begin.snapshot_id:
            return False
        if ack.status == SNAPSHOT_DONE:
            return True
        if ack.status == SNAPSHOT_UNKNOWN:
            self._lost = True
        elif self._chunks is None:
            # Opened here: the newest batches are in the memory of the loop.
            self._chunks = self._cut(self._batches(min(ack.have_offset, self._begin.next_offset)))
            self._progress_at, self._sent_at = now, None
        while self._in_flight and self._in_flight[0].number < ack.next_chunk:
            self._in_flight.popleft()
            self._progress_at, self._repeated = now, 0
        if self._all_acknowledged:  # All of it has arrived: the follower makes it its state.
            self._progress_at = now
        self._make()
        return False

    @property
    def _all_acknowledged(self) -> bool:
        return self._all_made and not self._made and not self._in_flight

    def _make(self) -> None:
        """Let the reader make what the window lacks, and some windows ahead: nobody waits for each."""
        chunks, settings = self._chunks, self._settings
        lacks = AHEAD * settings.window_chunks - len(self._in_flight) - len(self._made)
        room = AHEAD * settings.window_bytes - _bytes(self._in_flight) - _bytes(self._made)
        if chunks is None or self._making or self._all_made or lacks <= 0 or room <= 0:
            return
        self._making = True
        found: list[SnapshotChunk] = []

        def done() -> None:
            self._making = False
            self._made += found
            self._all_made = found[-1].last
            self._make()  # More may have been acknowledged meanwhile.
            self._on_made()

        self._reader.submit(lambda: found.extend(_some(chunks, lacks, room)), done)

    def _cut(self, batches: Iterator[Batch]) -> Iterator[SnapshotChunk]:
        """Chunks of bounded size, made when they are asked for."""
        begin = self._begin
        number = 0
        for kind, payload in self._payloads(batches):
            yield SnapshotChunk(begin.term, begin.snapshot_id, number, kind, last=False, payload=payload)
            number += 1
        yield SnapshotChunk(begin.term, begin.snapshot_id, number, ROWS, last=True, payload=b"")

    def _payloads(self, batches: Iterator[Batch]) -> Iterator[tuple[int, bytes]]:
        limit = self._settings.chunk_bytes
        wanted: list[bytes] = []
        size = 0
        for base_offset, _, _, batch in batches:
            if base_offset >= self._begin.next_offset:
                break
            wanted.append(batch)
            size += len(batch)
            if size >= limit:
                yield BATCHES, pack_batches(wanted)
                wanted, size = [], 0
        if wanted:
            yield BATCHES, pack_batches(wanted)
        rows: list[Row] = []
        size = 0
        for row in self._rows:
            rows.append(row)
            size += len(row[1]) + len(row[2])
            if size >= limit:
                yield ROWS, pack_rows(rows)
                rows, size = [], 0
        if rows:
            yield ROWS, pack_rows(rows)


def _bytes(chunks: Iterable[SnapshotChunk]) -> int:
    """What they carry."""
    return sum(len(chunk.payload) for chunk in chunks)


def _some(chunks: Iterator[SnapshotChunk], count: int, room: int) -> Iterator[SnapshotChunk]:
    """So many, or fewer: none after the one that fills the room."""
    for chunk in islice(chunks, count):
        yield chunk
        room -= len(chunk.payload)
        if room <= 0:
            return


class WatchedWorker:
    """A ``DiskWorker`` that knows how old its oldest job is."""

    def __init__(self, worker: DiskWorker, clock: Clock) -> None:
        self._worker = worker
        self._clock = clock
        self._since: deque[float] = deque()

    def submit(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Run ``job`` off the loop, then ``done`` on it. If ``job`` raises, the node stops: ``done`` never runs."""

        def ended() -> None:
            self._since.popleft()
            done()

        self._since.append(self._clock.monotonic())
        self._worker.submit(job, ended)

    def pending(self) -> int:
        """Jobs submitted and not yet reported done."""
        return len(self._since)

    def oldest_age(self, now: float) -> float:
        """Seconds that the oldest job has waited or run; 0 without one."""
        return now - self._since[0] if self._since else 0.0


class Trimmer:
    """Forgets journal entries that the store has synced, but for a retained tail."""

    def __init__(
        self, journal: Journal, store: Store, worker: DiskWorker, settings: SnapshotSettings, now: float
    ) -> None:
        self._journal = journal
        self._store = store
        self._worker = worker
        self._settings = settings
        self._check_at = now + settings.check_period_s
        self._busy = False
        self._stopped = False

    def stop(self) -> None:
        """Trim no more; a sync under way changes nothing."""
        self._stopped = True

    def consider(self, applied: Index, keep_after: Iterable[Index], now: float) -> None:
        """Start a trim if it is time and worth it. ``applied``: and known to be committed, as the journal has it.
        ``keep_after``: what comes after these is needed.
        """
        if now < self._check_at or self._busy:
            return
        self._check_at = now + self._settings.check_period_s
        retain = self._retain()
        synced = Index(min(applied, self._journal.durable_index))
        slack = min(self._settings.trim_slack_entries, retain)
        if synced - self._journal.base_index <= retain + slack:
            return
        target = Index(min([synced - retain, *keep_after]))
        self._busy = True
        self._worker.submit(self._store.sync, lambda: self._trim(target))

    def _retain(self) -> int:
        """Entries to keep: when they are large, of those that are there as many as may be kept. A share of
        ``retain_entries`` bounds no bytes: so many large ones are never there.
        """
        entries, size, allowed = (
            self._settings.retain_entries,
            self._journal.bytes_of_entries(),
            self._settings.retain_bytes,
        )
        if size <= allowed:
            return entries
        return min(entries, (self._journal.last_index - self._journal.base_index) * allowed // size)

    def _trim(self, target: Index) -> None:
        self._busy = False
        if not self._stopped and target > self._journal.base_index:
            self._journal.trim_to(min(target, self._journal.durable_index))
