"""The follower's side of a snapshot: staged, switched in bounded steps, and only then acknowledged.

Rules: until all of it is here nothing visible changes: batches beyond the high watermark lie in the store unseen, rows
in a place of their own (consensus/raft/staging.py). The switch begins with one write and ends with one (applied index
moved); what lies between is done in bounded steps, some a turn of the loop, while the node goes on to hear its leader,
to vote and to answer. Then the machine reads the rows, in steps too; then the store is synced; then the journal is told
to begin at the snapshot, unless it already holds that very entry; and the acknowledgement waits until *that* is
durable. A crash at any point leaves the old state or the new one, each with a journal that continues it: a switch that
has begun is ended by the next start. While it goes on the node is not ready, and elections do not wait for it: its
journal speaks for it as before (docs/consensus.md has the argument). A new leader, a candidacy of this node's own, a
closed connection or a silent sender before the switch: what was staged is dropped. After that nothing stops it: the
state is committed, whoever leads.

Theory: an installed state is committed data, so entries of the journal up to its index can be forgotten, and those
after it contradict it if the journal does not hold that index with that term (Raft §7).
"""

from collections.abc import Callable, Iterator

from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import DiskWorker, Index, Machine, NodeId, Store, Term
from quorate.consensus.raft.applied_check import check_offered
from quorate.consensus.raft.guard import TWO_HISTORIES
from quorate.consensus.raft.snapshots import BATCHES, SnapshotSender, unpack_batches, unpack_rows
from quorate.consensus.raft.staging import ROWS_PER_STEP, StagedSum, Sweeper, begin_switch, run, stage, switching
from quorate.consensus.settings import SnapshotSettings
from quorate.consensus.storage.event_log import EventLog, parse_batch
from quorate.consensus.storage.store import read_applied
from quorate.consensus.transport.codec import (
    SNAPSHOT_ARRIVING,
    SNAPSHOT_DONE,
    SNAPSHOT_UNKNOWN,
    SnapshotAck,
    SnapshotBegin,
    SnapshotChunk,
)
from quorate.errors import InvariantBrokenError, PeerError, StorageError

Done = Callable[[NodeId, Index, SnapshotAck], None]
ALL_CHUNKS = (1 << 32) - 1
"""More than any snapshot has: all of it has arrived."""


class _Staged:
    """What has arrived of one snapshot."""

    def __init__(self, peer: NodeId, begin: SnapshotBegin, have_offset: int, now: float) -> None:
        self.peer = peer
        self.begin = begin
        self.have_offset = have_offset
        self.offset = have_offset
        self.next_chunk = 0
        self.summed = StagedSum()
        self.bytes = 0
        self.progress_at = now


class Installer:
    """Receives one snapshot at a time; also takes snapshots for the leader's side.

    ``done(peer, index, ack)`` is called on the loop when a snapshot is installed: send ``ack`` once the journal's
    operations so far are durable.
    """

    def __init__(
        self,
        journal: Journal,
        machine: Machine,
        store: Store,
        event_log: EventLog,
        worker: DiskWorker,
        reader: DiskWorker,
        settings: SnapshotSettings,
        done: Done,
    ) -> None:
        self._journal = journal
        self._machine = machine
        self._store = store
        self._log = event_log
        self._worker = worker
        self._reader = reader
        self._settings = settings
        self._done = done
        self._staged: _Staged | None = None
        self._switching: SnapshotBegin | None = None
        self.steps: Iterator[None] | None = None
        """Of the switch under way."""
        self._sweeper = Sweeper(store)
        self._stopped = False

    @property
    def active(self) -> bool:
        """Is a snapshot arriving or being switched to?"""
        return self._staged is not None or self._switching is not None

    @property
    def switching(self) -> bool:
        """Is the store at the snapshot already, and the journal not yet?"""
        return self._switching is not None

    def snapshot(self, term: Term, snapshot_id: int, made: Callable[[], None], now: float) -> SnapshotSender | None:
        """A sender of the state as of now; None when this node has no state to send."""
        if self.active:
            return None
        applied = read_applied(self._store)
        if applied is None or self._journal.term_at(applied.index) is None:
            return None
        begin = SnapshotBegin(term, snapshot_id, applied.index, applied.term, applied.next_offset, applied.time_ms)
        rows, batches = self._machine.snapshot_rows(), self._log.batches_from
        return SnapshotSender(begin, rows, batches, self._reader, made, self._settings, now)

    def stop(self) -> None:
        """Call nobody back any more."""
        self._stopped = True

    def expire(self, now: float) -> None:
        """Drop what was staged when its sender is silent."""
        if self._staged is not None and now - self._staged.progress_at > self._settings.timeout_s:
            self.drop()

    def drop(self) -> None:
        """Forget what was staged; the state is as it was. Nothing happens once the switch is made."""
        if self._staged is not None:
            self._staged = None
            self._sweeper.again()
            self._log.reload()

    @property
    def sweeping(self) -> bool:
        """Are there rows to clear away?"""
        return not self._sweeper.done

    def sweep(self) -> None:
        """Clear away some rows that were staged and are not needed."""
        if self.steps is None:
            staged = self._staged
            self._sweeper.sweep(self._settings.switch_rows, None if staged is None else staged.begin.snapshot_id)

    def go_on(self, late: Callable[[], bool]) -> bool:
        """Some steps of a switch under way. True: there are more."""
        steps = self.steps
        if steps is None:
            return False
        if run(steps, self._settings.switch_rows // ROWS_PER_STEP + 1, late):
            return True
        self.steps = None
        return False

    def drop_unless(self, peer: NodeId, term: Term) -> None:
        """Another leader or term: what was staged comes from a sender that is gone."""
        staged = self._staged
        if staged is not None and (staged.peer, staged.begin.term) != (peer, term):
            self.drop()

    def on_begin(self, peer: NodeId, begin: SnapshotBegin, now: float) -> SnapshotAck | None:
        """The leader offers its state."""
        switched = self._switching
        if switched is not None and switched.snapshot_id == begin.snapshot_id:
            return self._ack(begin, ALL_CHUNKS, 0, SNAPSHOT_ARRIVING)  # It takes a while: have patience.
        if switched is not None:
            return None
        staged = self._staged
        if staged is not None and staged.begin.snapshot_id == begin.snapshot_id:
            return self._ack(begin, staged.next_chunk, staged.have_offset, SNAPSHOT_ARRIVING)
        self.drop()
        base = self._journal.base_index
        lost = self._machine.applied_index() < base and base > 1  # The store was lost, the log was not.
        if lost and begin.index < base:
            return None  # Older than what our log continues.
        if self._covers(begin) and not lost:
            return self._ack(begin, 0, 0, SNAPSHOT_DONE)
        applied_index = self._machine.applied_index()
        if applied_index >= begin.index:
            check_offered(begin.index, begin.index_term, applied_index, self._machine.applied_term(), self._journal)
            self._finish_switch(peer, begin)  # Only the journal is behind.
            return None
        if self._log.end_offset > begin.next_offset:
            raise InvariantBrokenError(
                f"{self._log.end_offset} events before entry {applied_index}, "
                f"but the leader has {begin.next_offset} before entry {begin.index}: {TWO_HISTORIES}"
            )
        have = self._log.tip_offset  # Our newest batch comes again: it must be the leader's.
        self._staged = _Staged(peer, begin, have, now)
        return self._ack(begin, 0, have, SNAPSHOT_ARRIVING)

    def on_chunk(self, peer: NodeId, chunk: SnapshotChunk, now: float) -> SnapshotAck | None:
        """A part of it. Raises PeerError for one that cannot be, and drops what was staged."""
        if self._switching is not None:
            return None
        staged = self._staged
        if staged is None or staged.begin.snapshot_id != chunk.snapshot_id:
            return SnapshotAck(chunk.term, chunk.snapshot_id, 0, 0, SNAPSHOT_UNKNOWN)
        if chunk.number == staged.next_chunk:
            try:
                self._stage(staged, chunk)
            except PeerError:
                self.drop()
                raise
            staged.next_chunk += 1
            staged.progress_at = now
            if chunk.last:
                self._switch(staged)
                return self._ack(staged.begin, ALL_CHUNKS, staged.have_offset, SNAPSHOT_ARRIVING)
        return self._ack(staged.begin, staged.next_chunk, staged.have_offset, SNAPSHOT_ARRIVING)

    def _covers(self, begin: SnapshotBegin) -> bool:
        """Does the journal hold the snapshot's index, or begin after it (an offer that comes late)?"""
        journal = self._journal
        return begin.index < journal.base_index or journal.term_at(begin.index) == begin.index_term

    def _ack(self, begin: SnapshotBegin, next_chunk: int, have_offset: int, status: int) -> SnapshotAck:
        return SnapshotAck(begin.term, begin.snapshot_id, next_chunk, have_offset, status)

    def _stage(self, staged: _Staged, chunk: SnapshotChunk) -> None:
        if chunk.kind == BATCHES:
            self._stage_batches(staged, unpack_batches(chunk.payload))
        else:
            self._stage_rows(staged, chunk.payload)
        if chunk.last and staged.offset != staged.begin.next_offset:
            raise PeerError(f"the snapshot ends at offset {staged.offset}, not {staged.begin.next_offset}")

    def _stage_rows(self, staged: _Staged, payload: bytes) -> None:
        """Aside. One that does not fit would come again and again: it stops the node, which says why."""
        rows = unpack_rows(payload)
        staged.bytes += sum(len(key) + len(value) for _, key, value in rows)
        if staged.bytes > self._settings.staged_bytes_max:
            raise StorageError(
                f"the leader's state is larger than engine.snapshots.staged_bytes_max "
                f"({self._settings.staged_bytes_max} bytes) of this node: raise it and start the node again"
            )
        if rows:
            stage(self._store, staged.begin.snapshot_id, rows, staged.summed)

    def _stage_batches(self, staged: _Staged, batches: list[bytes]) -> None:
        """Straight into the store: beyond the high watermark nobody sees them."""
        parsed = [parse_batch(batch) for batch in batches]
        offset = staged.offset
        for base_offset, count, _, batch in parsed:
            if base_offset != offset:
                raise PeerError(f"snapshot batch at {base_offset} instead of {offset}")
            self._compare(base_offset, batch)
            offset += count
        if offset > staged.begin.next_offset:
            raise PeerError(f"snapshot batches up to {offset}, beyond {staged.begin.next_offset}")
        self._store.write([op for batch in parsed for op in self._log.ops_for(*batch)])
        staged.offset = offset

    def _compare(self, base_offset: int, batch: bytes) -> None:
        """A batch that is here already must be the same: its term speaks for all before it."""
        log = self._log
        if base_offset < log.end_offset and log.read(base_offset, 1)[0] != batch:
            raise InvariantBrokenError(f"the events at offset {base_offset} are not the leader's: {TWO_HISTORIES}")

    def _switch(self, staged: _Staged) -> None:
        """From here on nothing stops it."""
        self._staged, self._switching = None, staged.begin
        begin_switch(self._store, staged.begin, staged.summed)
        self.steps = self._switch_steps(staged.peer, staged.begin)

    def _switch_steps(self, peer: NodeId, begin: SnapshotBegin) -> Iterator[None]:
        """Move the rows, read them, and let everybody see them at once: log and state in the same step."""
        yield from switching(self._store)
        yield from self._machine.prepare()
        self._log.reload()
        self._machine.install(begin.index, begin.index_term)
        self._sweeper.again()
        self._finish_switch(peer, begin)

    def _finish_switch(self, peer: NodeId, begin: SnapshotBegin) -> None:
        """The store holds it: sync the store, then let the journal begin there."""
        self._switching = begin

        def synced() -> None:
            self._switching = None
            if self._stopped:
                return
            if not self._covers(begin):
                self._journal.reset(begin.index, begin.index_term)
            self._done(peer, begin.index, self._ack(begin, 0, 0, SNAPSHOT_DONE))

        self._worker.submit(self._store.sync, synced)
