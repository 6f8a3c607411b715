"""Rows of an arriving snapshot, in a place of their own in the store, and how they become the state.

Rules: nothing here is seen before the switch begins. It begins with one write, a *marker* that names the snapshot; from
then on it is finished, by this life of the node in bounded steps or by the next one before anything is read
(``finish_switch``). It ends with one write: the applied index, and the marker gone. What was dropped is cleared away in
bounded steps. The marker says how many rows were staged and what they add up to: a start that finds others, or a state
that is at the snapshot already, has a store that lost writes, and does not end the switch with them.

Theory: the store recovers to a prefix of its writes. Without the marker the old rows are untouched; with it everything
staged is there too, for it was written before, and every step can be done again: delete each live row that is not
staged, put each staged one. So each prefix is the old state, or can be made the new one.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from struct import Struct as Layout

import msgspec

from quorate.consensus.ports import Store, StoreOp
from quorate.consensus.raft.snapshots import SNAPSHOT_FAMILIES, Row
from quorate.consensus.storage.store import applied_ops, read_applied
from quorate.consensus.transport.codec import SnapshotBegin
from quorate.metadata.sums import SummedFamily, digest, joined, packed

ROWS_PER_STEP = 32
"""Rows of one step: some tens of microseconds."""
_MARKER_KEY = b"consensus/switching"
_ID = Layout(">Q")
_END = b"\xff" * 9
_SUMMED: Mapping[str, SummedFamily] = {"rows": "rows", "requests": "requests", "groups": "groups"}


class _Marker(msgspec.Struct, frozen=True, array_like=True):
    snapshot_id: int
    index: int
    term: int
    next_offset: int
    time_ms: int
    rows: int = 0
    """How many were staged."""
    sums: bytes = b""
    """What they add up to (metadata/sums.py); empty where an earlier build began the switch."""


class StagedSum(msgspec.Struct):
    """How many rows of a snapshot were staged, and what they add up to: entities, and all of them."""

    rows: int = 0
    entities: int = 0
    whole: int = 0

    def add(self, family: SummedFamily, key: bytes, value: bytes) -> None:
        """One more."""
        row_sum = digest(family, key, value)
        self.rows += 1
        self.whole = joined(self.whole, row_sum)
        if family == "rows":
            self.entities = joined(self.entities, row_sum)

    def packed(self) -> bytes:
        """Both sums, as the marker keeps them and the store of who has applied it (``RunningSums.packed``)."""
        return packed(self.entities, self.whole)


def _prefix(snapshot_id: int) -> bytes:
    return _ID.pack(snapshot_id)


def stage(store: Store, snapshot_id: int, rows: list[Row], summed: StagedSum) -> None:
    """Put rows aside, and add them to what was staged. Raises StorageError."""
    prefix = _prefix(snapshot_id)
    places = {family: prefix + bytes([number]) for number, family in enumerate(SNAPSHOT_FAMILIES)}
    store.write([StoreOp("staged", places[family] + key, value) for family, key, value in rows])
    for family, key, value in rows:
        summed.add(_SUMMED[family], key, value)


def begin_switch(store: Store, begin: SnapshotBegin, summed: StagedSum) -> None:
    """All of it is staged: from here on it becomes the state, whatever happens. Raises StorageError."""
    marker = _Marker(
        begin.snapshot_id,
        begin.index,
        begin.index_term,
        begin.next_offset,
        begin.time_ms,
        summed.rows,
        summed.packed(),
    )
    store.write([StoreOp("meta", _MARKER_KEY, msgspec.msgpack.encode(marker))])


def _slices(pairs: Iterator[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    while rows := list(islice(pairs, ROWS_PER_STEP)):
        yield rows


def _marked(store: Store) -> _Marker | None:
    """The switch that has begun and has not ended. Raises StorageError."""
    value = store.get("meta", _MARKER_KEY)
    if value is None:
        return None
    try:
        return msgspec.msgpack.decode(value, type=_Marker)
    except msgspec.DecodeError as error:
        raise store.damaged(f"the marker of a switch cannot be read: {error}") from error


def _check(store: Store, marker: _Marker) -> None:
    """Is the marker of a switch that has not ended, and is all there that was staged? Raises StorageError.

    The applied index is moved to the snapshot's in the write that removes the marker, and nothing is applied between.
    """
    applied = read_applied(store)
    if applied is not None and applied.index >= marker.index:
        raise store.damaged(
            f"there is the marker of a switch to index {marker.index}, "
            f"which has ended: what was applied is at index {applied.index}"
        )
    if not marker.sums:
        return
    total = StagedSum()
    for number, family in enumerate(SNAPSHOT_FAMILIES):
        place = _prefix(marker.snapshot_id) + bytes([number])
        for key, value in store.scan("staged", place, place[:-1] + bytes([number + 1])):
            total.add(_SUMMED[family], key[len(place) :], value)
    if (total.rows, total.packed()) != (marker.rows, marker.sums):
        raise store.damaged(
            f"the rows staged for the switch to index {marker.index} are not those that had arrived: "
            f"{total.rows} are there, {marker.rows} had"
        )


def switching(store: Store) -> Iterator[None]:
    """Make the marked snapshot the state, some rows a step; nothing without a marker. Raises StorageError."""
    marker = _marked(store)
    if marker is None:
        return
    for number, family in enumerate(SNAPSHOT_FAMILIES):
        place = _prefix(marker.snapshot_id) + bytes([number])
        for pairs in _slices(store.scan(family)):
            gone = [key for key, _ in pairs if store.get("staged", place + key) is None]
            if gone:
                store.write([StoreOp(family, key, None) for key in gone])
            yield
        for pairs in _slices(store.scan("staged", place, place[:-1] + bytes([number + 1]))):
            store.write([StoreOp(family, key[len(place) :], row) for key, row in pairs])
            yield
    before = read_applied(store)  # What it says of the journal goes on to hold.
    durable_seq = 0 if before is None else before.durable_seq
    ops = applied_ops(
        marker.index, marker.term, marker.next_offset, marker.time_ms, marker.sums, durable_seq=durable_seq
    )
    store.write([*ops, StoreOp("meta", _MARKER_KEY, None)])


def finish_switch(store: Store) -> bool:
    """At start, before anything else is read: end what the last life began. False: there was nothing to end. Raises
    StorageError, also for a marker or staged rows that are not what was written.
    """
    marker = _marked(store)
    if marker is None:
        return False
    _check(store, marker)
    for _ in switching(store):
        pass
    return True


class Sweeper:
    """Clears away what was staged and is not needed, beginning with what an earlier life left."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._from: bytes | None = b""

    @property
    def done(self) -> bool:
        """There is nothing to clear away."""
        return self._from is None

    def again(self) -> None:
        """Something was dropped, or has become the state."""
        self._from = b""

    def sweep(self, most: int, keep: int | None) -> None:
        """Remove at most so many rows of snapshots other than ``keep``. Raises StorageError."""
        if self._from is None:
            return
        rows = list(islice(self._store.scan("staged", self._from, _END), most))
        kept = None if keep is None else _prefix(keep)
        ops = [StoreOp("staged", key, None) for key, _ in rows if kept is None or not key.startswith(kept)]
        if ops:
            self._store.write(ops)
        self._from = rows[-1][0] + b"\0" if len(rows) == most else None
        if kept is not None and rows and rows[-1][0].startswith(kept):
            self._from = kept + b"\xff"


def run(steps: Iterator[None], most: int, late: Callable[[], bool]) -> bool:
    """Take at most ``most`` steps, or until it is ``late``. True: there is more to do."""
    for _ in range(most):
        if next(steps, run) is run:
            return False
        if late():
            return True
    return True
