"""The replicated state machine: committed entries in, state, rows and event log out. The same on every node.

Rules: an entry is executed iff its decided term is the term it is stored under *and* its base offset is the next
offset; otherwise it is "not executed" everywhere. ``evolve`` sees only the event and its stamp. Rows, batch, applied
index and request table are one write. What cannot be explained stops the node. Entries of kind ``groups`` change the
rows of consumer groups in the same way, and nothing else: no event, no offset, no time.

Theory: the leader decided an entry on a *tip* it still holds when the entry comes back committed; it adopts that value
instead of evolving twice. Every other node decodes the batch and evolves.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from quorate.consensus.entry import Entry, decode_entry
from quorate.consensus.ports import Family, Index, LeaderCause, Store, StoreOp, Term
from quorate.consensus.raft.staging import finish_switch
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage.store import Applied, applied_ops, read_applied
from quorate.controller.key_history import KeyHistory
from quorate.controller.listeners import Listener
from quorate.errors import InvariantBrokenError, check
from quorate.events import ClusterCreated, Event, KeyDeleted, Stamp
from quorate.metadata.cluster import directory_of, former_directories
from quorate.metadata.group_rows import GroupRows, decode_changes
from quorate.metadata.limits import limited
from quorate.metadata.requests import (
    FORGOTTEN_LEVEL,
    FORGOTTEN_MAX,
    SHORT_STEP_MS,
    RequestSettings,
    RequestTable,
    RowChange,
)
from quorate.metadata.sums import Mark, RunningSums, SummedFamily, digest, joined
from quorate.metrics import Metrics
from quorate.model.evolve import evolve, without_keys
from quorate.model.rows import ROWS_PER_STEP, restoring, row
from quorate.model.state import State
from quorate.slices import Steps, finished
from quorate.wire.avro import events_of


class Speculation(Protocol):
    """The leader's side of the bargain (in_flight.py)."""

    def claimed(self, index: Index, term: Term, offset: int) -> "EntryResult | None":
        """The entry at ``index`` came back committed, and ``offset`` is the next one: what it was decided to make, if
        this node decided it there, in this very term, and leads still. It is executed then.
        """

    def settled(self, index: Index, term: Term, *, executed: bool) -> bool:
        """An entry that was not claimed came back committed, and this became of it. True: this node decided it and
        leads still, so that what it decided since never comes to be.
        """


class EntryResult(msgspec.Struct, gc=False, eq=False):
    """What an entry is, once executed, and the state after it: what its leader computes before it commits."""

    base_offset: int
    count: int
    time_ms: int
    batch: bytes
    """Its base offset and leader epoch are those it was decided at: else it is not executed."""
    state: State
    requests: RequestTable
    keys: tuple[bytes, ...]
    """Of its events."""
    request_rows: tuple[RowChange, ...]


def _stamp(entry: Entry, term: Term) -> Stamp:
    return Stamp(
        offset=entry.base_offset,
        term=term,
        time_ms=entry.time_ms,
        principal=entry.principal,
        cause=entry.cause,
        request_id=entry.request_id,
    )


class _Loaded(msgspec.Struct, frozen=True, gc=False, eq=False):
    """What the store's rows say."""

    applied: Applied | None
    state: State
    requests: RequestTable
    groups: GroupRows
    sums: RunningSums


_NOBODY = Listener()


def _no_journal() -> int:
    """Nobody says what is durable."""
    return 0


class ReplicatedState:
    """Implements consensus.ports.Machine. ``durable_seq``: the journal's, as of now; it is kept with each slice, and a
    journal that holds less at a start has lost something. ``speculation``: what this node decided; without, it applies,
    as a replay does. ``listener`` hears what became of each slice, and of leadership.
    """

    def __init__(
        self,
        store: Store,
        log: EventLog,
        metrics: Metrics,
        requests: RequestSettings,
        durable_seq: Callable[[], int] = _no_journal,
        speculation: Speculation | None = None,
        listener: Listener = _NOBODY,
        key_history: KeyHistory | None = None,
    ) -> None:
        self._store = store
        self._durable_seq = durable_seq
        self._request_settings = requests
        self._log = log
        self._metrics = metrics
        self._speculation, self._listener = speculation, listener
        if finish_switch(store):
            log.reload()
        self.key_history = key_history or KeyHistory(0, 0)
        self._new: _Loaded | None = None
        """A snapshot's state, read and not yet seen."""
        self._take()

    def prepare(self) -> Steps[None]:
        """Read committed state from the store's rows, at start and after a snapshot: it costs what the state costs.
        Nothing is seen of it yet. Raises StorageError.
        """
        store, sums = self._store, RunningSums()
        applied = read_applied(store)
        try:
            state = yield from restoring(sums.loading("rows", store.scan("rows")))
            kept: list[tuple[bytes, bytes]] = []
            for pair in sums.loading("requests", store.scan("requests")):
                kept.append(pair)
                if len(kept) % ROWS_PER_STEP == 0:
                    yield
            requests = yield from RequestTable.restoring(kept, self._request_settings)
            groups = GroupRows()
            for count, (key, value) in enumerate(sums.loading("groups", store.scan("groups")), start=1):
                groups.put(key, value)
                if count % ROWS_PER_STEP == 0:
                    yield
        except InvariantBrokenError as error:
            raise store.damaged(error) from error
        if applied is None and sums.packed() != RunningSums().packed():
            raise store.damaged("there are rows, but nothing says what was applied")
        if applied is not None and applied.sums not in (b"", sums.packed()):
            raise store.damaged(f"the rows do not add up to what was applied at index {applied.index}")
        self._new = _Loaded(applied, state, requests, groups, sums)

    def _take(self) -> None:
        """What ``prepare`` has read is the state now."""
        if self._new is None:
            finished(self.prepare())
        new, self._new = self._new, None
        if new is not None:
            applied = new.applied
            self._index = applied.index if applied else Index(0)
            self.term = applied.term if applied else Term(0)
            self.offset = applied.next_offset if applied else 0
            self.time_ms = applied.time_ms if applied else 0
            self.state, self.requests, self.groups, self.sums = new.state, new.requests, new.groups, new.sums
            new.sums.mark(self._index, self.term, self.offset)
            self.key_history.begin(self.offset, self.state.keys)
        self._clear()

    def _clear(self) -> None:
        self._ops: list[StoreOp] = []
        self._touched: dict[bytes, bytes | None] = {}
        self._batches: list[tuple[int, int, Term, bytes]] = []
        self._kept: list[tuple[Index, Term]] = []

    # -- consensus.ports.Machine

    def applied_index(self) -> Index:
        """Highest index applied here."""
        return self._index

    def applied_term(self) -> Term:
        """The term of the entry at ``applied_index``. 0 when new."""
        return self.term

    # -- consensus.raft.founding.FoundingFacts

    def founders(self) -> dict[int, str] | None:
        """Incarnation by node id, as the cluster's creation lists them; None before it is applied."""
        cluster = self.state.cluster
        return None if cluster is None else {voter.id: voter.dir_uuid for voter in cluster.voters}

    def founders_in(self, entry: bytes) -> dict[int, str]:
        """The same, out of the first entry that is not empty. Raises EntryFormatError or DecodeError for what must stop
        the node.
        """
        first_entry = decode_entry(entry)
        for _, event in events_of(first_entry.batch, _stamp(first_entry, first_entry.decided_term)):
            if isinstance(event, ClusterCreated):
                return {voter.id: voter.dir_uuid for voter in event.voters}
        return {}

    def directory_of(self, node_id: int) -> str:
        """The directory a voter has now, as the log names it; empty when it names none."""
        return directory_of(self.state, node_id)

    def former_directories(self, node_id: int) -> tuple[str, ...]:
        """Those it had before."""
        return former_directories(self.state, node_id)

    # -- consensus.ports.Machine, going on

    @property
    def marked(self) -> Mark:
        """What the rows add up to, as applied here."""
        mark = self.sums.at(self._index)
        if mark is None:
            raise InvariantBrokenError(f"entry {self._index} was applied and its sums are not known")
        return mark

    def apply(self, index: Index, term: Term, entry: bytes) -> None:
        """Execute one committed entry (``b''`` = a Raft no-op). Raises
        InvariantBrokenError, DecodeError or EntryFormatError only for what must stop the node.
        """
        self._index = index
        self.term = term
        speculation = self._speculation
        adopted = None if speculation is None else speculation.claimed(index, term, self.offset)
        if adopted is not None:
            self._execute(adopted, term)
        else:
            decoded = decode_entry(entry) if entry else None
            executed = decoded is not None and decoded.decided_term == term and decoded.base_offset == self.offset
            if speculation is not None and speculation.settled(index, term, executed=executed):
                self._listener.disowned(index)
            if decoded is None:
                pass
            elif not executed:
                self._metrics.entries_not_executed += 1
            elif decoded.kind == "groups":
                self._keep(decoded, index, term)
            else:
                self._execute(self._evolve(decoded, term), term)
        self.sums.mark(index, term, self.offset)

    def _execute(self, made: EntryResult, term: Term) -> None:
        before, sums, base, count, batch = self.state, self.sums, made.base_offset, made.count, made.batch
        self.state = state = made.state
        if state.leader is not before.leader:
            self._metrics.leader_changes += 1
            self._listener.leader_recorded()
        if state.leases is not before.leases:
            self._listener.leases_touched(made.keys)
        for key in made.keys if count == 1 else dict.fromkeys(made.keys):
            self._touched[key] = written = row(state, key)
            sums.entity(before, key, written)
        if made.request_rows:
            sums.requests(self.requests, made.requests, made.request_rows)
            self._ops += [StoreOp("requests", key, value) for key, value in made.request_rows]
        self.requests = made.requests
        self._batches.append((base, count, term, batch))
        self._ops += self._log.ops_for(base, count, term, batch)
        self.offset = base + count
        self.time_ms = made.time_ms
        if state.keys is not before.keys:
            self.key_history.changed(self.offset, before.keys, state.keys, made.keys, len(batch))

    def _keep(self, entry: Entry, index: Index, term: Term) -> None:
        """What consumer groups keep; the entry takes no offset and does not tell the time."""
        changes = decode_changes(entry.batch)
        for key, value in changes:
            self.sums.group(key, self.groups.get(key), value)
            self.groups.put(key, value)
        self._ops += [StoreOp("groups", key, value) for key, value in changes]
        self._kept.append((index, term))

    def _evolve(self, entry: Entry, term: Term) -> EntryResult:
        """Decode and fold; the stamps in the records must say what the header said."""
        stamp, base, count, time_ms = _stamp(entry, term), entry.base_offset, entry.count, entry.time_ms
        pairs = events_of(entry.batch, stamp)
        if len(pairs) != count:
            raise InvariantBrokenError(f"entry at {base} lies about its count")
        state = fold(self.state, [event for _, event in pairs], stamp)
        requests = self.requests
        request_rows: tuple[RowChange, ...] = ()
        if entry.request_id or time_ms - self.time_ms > SHORT_STEP_MS:
            requests, request_rows = remember(requests, entry, state, self.time_ms)
        keys = tuple([key for key, _ in pairs])
        return EntryResult(base, count, time_ms, entry.batch, state, requests, keys, request_rows)

    def applied(self) -> None:
        """End of a slice of applies: write the store, then answer callers. One store write for the slice, then publish,
        then answer.
        """
        ops = self._ops
        ops += [StoreOp("rows", key, value) for key, value in self._touched.items()]
        ops += applied_ops(self._index, self.term, self.offset, self.time_ms, self.sums.packed(), self._durable_seq())
        self._store.write(ops)
        batches, kept = self._batches, self._kept
        self._clear()
        if batches:
            self._metrics.commits += len(batches)
            self._metrics.events += self.offset - batches[0][0]
            self._log.publish(batches)
        listener = self._listener
        listener.slice_end()
        if batches:
            listener.applied(self.offset)
        for index, term in kept:
            listener.kept(index, term)

    def leadership(self, term: Term, cause: LeaderCause | None) -> None:
        """Leadership began (with its cause) or ended: tell the controller."""
        self._listener.leadership(term, cause)

    def snapshot_rows(self) -> Iterable[tuple[Family, bytes, bytes]]:
        """Every row of ``rows``, ``requests`` and ``groups`` as of ``applied_index`` at the call, read as it is
        iterated; what is applied later is not in it. Read from the store, which holds exactly the rows of
        ``applied_index`` between slices. Raises StorageError at its end if it is not what was written.
        """
        families: tuple[SummedFamily, ...] = ("rows", "requests", "groups")
        scans = [(family, self._store.scan(family)) for family in families]  # All opened now, read as they are sent.
        return self._as_written(scans, self.marked)

    def _as_written(
        self, scans: Sequence[tuple[SummedFamily, Iterator[tuple[bytes, bytes]]]], mark: Mark
    ) -> Iterator[tuple[Family, bytes, bytes]]:
        """A row that the disk lost without a word must not become another node's state."""
        total = 0
        for family, scan in scans:
            for key, value in scan:
                total += digest(family, key, value)
                yield family, key, value
        if joined(total) != mark.whole:
            raise self._store.damaged(f"the rows do not add up to what was applied at index {mark.index}")

    def install(self, index: Index, term: Term) -> None:
        """The store was replaced by a snapshot at ``index``, and ``prepare`` has read it: that is the state now."""
        self._take()
        check((self._index, self.term) == (index, term), f"installed {self._index}/{self.term}, not {index}/{term}")
        self._listener.installed(index)
        self._listener.applied(self.offset)


def fold(state: State, events: Sequence[Event], first: Stamp) -> State:
    """Evolve through the events of one command; ``first`` is the stamp of the first. Many keys may go at its beginning,
    for a range or a lease.
    """
    if len(events) == 1:
        return evolve(state, events[0], first)
    deleted = _deletions(events)
    if deleted:
        state = without_keys(state, deleted)
    for position, event in enumerate(events[len(deleted) :], start=len(deleted)):
        state = evolve(state, event, msgspec.structs.replace(first, offset=first.offset + position))
    return state


def _deletions(events: Sequence[Event]) -> list[KeyDeleted]:
    """Of keys, at the beginning."""
    found: list[KeyDeleted] = []
    for event in events:
        if not isinstance(event, KeyDeleted):
            break
        found.append(event)
    return found


def remember(
    requests: RequestTable, entry: Entry, state: State, before_ms: int
) -> tuple[RequestTable, tuple[RowChange, ...]]:
    """The request table after an executed entry that led to ``state``, and the rows that change. ``before_ms``: the
    log's time until then. One without a request id, a short step after the one before, changes nothing: it need not be
    asked about.
    """
    step_ms, skipped = entry.time_ms - before_ms, tuple[RowChange, ...]()
    if step_ms > SHORT_STEP_MS and entry.stepped and before_ms:
        requests, skipped = limited(requests, state).step(step_ms)
    if not entry.request_id:
        return requests, skipped
    requests, rows = limited(requests, state).remember(
        entry.principal,
        entry.request_id,
        entry.base_offset,
        entry.count,
        entry.reply,
        entry.time_ms,
        entry.digest,
        one_horizon=not entry.stepped,
        forgotten_max=FORGOTTEN_MAX if state.feature_level >= FORGOTTEN_LEVEL else None,
    )
    return requests, (*skipped, *rows)
