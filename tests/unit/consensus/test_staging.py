"""Rows of a snapshot are staged in the store and become the state in bounded steps, whatever dies in between."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from quorate.consensus.ports import Index, Store, StoreOp, Term
from quorate.consensus.raft.snapshots import SNAPSHOT_FAMILIES
from quorate.consensus.raft.staging import (
    ROWS_PER_STEP,
    StagedSum,
    Sweeper,
    begin_switch,
    finish_switch,
    run,
    stage,
    switching,
)
from quorate.consensus.raft.turns import Turns
from quorate.consensus.storage.store import RocksStore, StoreDamagedError, applied_ops, read_applied
from quorate.consensus.transport.codec import SnapshotBegin
from quorate.errors import StorageError
from quorate.metadata.sums import RunningSums
from tests.stand_ins import MemoryStore
from tests.unit.consensus.raft_cluster import Cluster, Node
from tests.unit.consensus.test_snapshots import PATIENT, at_step, behind, creep, same

BEGIN = SnapshotBegin(Term(3), 77, Index(500), Term(2), 400, 1234)
OLD = {("rows", b"gone"): b"1", ("rows", b"kept"): b"2", ("rows", b"new value"): b"3", ("groups", b"g"): b"4"}
NEW = {("rows", b"kept"): b"2", ("rows", b"new value"): b"33", ("requests", b"r"): b"5"} | {
    ("rows", b"row %03d" % number): b"x" * number for number in range(3 * ROWS_PER_STEP)
}
Rows = dict[tuple[str, bytes], bytes]


def rows_of(store: Store) -> Rows:
    """Everything a snapshot replaces."""
    return {(family, key): value for family in SNAPSHOT_FAMILIES for key, value in store.scan(family)}


def old_state(store: Store) -> None:
    """Before the snapshot, durably."""
    store.write([StoreOp(family, key, value) for (family, key), value in OLD.items()])  # type: ignore[arg-type]
    store.write(applied_ops(10, 1, 9, 0))
    store.sync()


def staged(store: Store) -> StagedSum:
    """All of the snapshot has arrived, beside some of another that was dropped."""
    summed = StagedSum()
    stage(store, 76, [("rows", b"of another", b"!")], StagedSum())
    rows = [(family, key, value) for (family, key), value in NEW.items()]
    for start in range(0, len(rows), 20):
        stage(store, BEGIN.snapshot_id, rows[start : start + 20], summed)  # type: ignore[arg-type]
    return summed


def test_whatever_is_lost_of_a_switch_the_next_start_has_the_old_state_or_the_new() -> None:
    """Power is lost after each of its writes in turn: before the marker the old rows and index are there, from it on
    the start makes it the new ones, whole; and ending a switch twice changes nothing.
    """
    seen: set[int] = set()
    kept = 0
    while True:
        store = MemoryStore()
        old_state(store)
        summed = staged(store)
        before_marker = store.unsynced
        begin_switch(store, BEGIN, summed)
        for _ in switching(store):
            pass
        if kept > store.unsynced:
            break
        store.crash(keep=kept)
        assert finish_switch(store) is (before_marker < kept < before_marker + 9)
        applied = read_applied(store)
        assert applied is not None
        seen.add(applied.index)
        assert rows_of(store) == (NEW if applied.index == BEGIN.index else OLD)
        assert (applied.index == BEGIN.index) is (kept > before_marker)
        assert not finish_switch(store)
        kept += 1
    assert seen == {10, 500}


def test_a_crash_while_the_next_start_ends_a_switch_is_ended_by_the_one_after() -> None:
    """Ending it is as safe as the switch itself."""
    store = MemoryStore()
    old_state(store)
    begin_switch(store, BEGIN, staged(store))
    store.sync()
    for taken in range(12):
        steps = switching(store)
        for _ in range(taken):
            next(steps, None)
        store.crash(keep=store.unsynced // 2)
    finish_switch(store)
    assert rows_of(store) == NEW


def test_a_step_moves_a_bounded_number_of_rows() -> None:
    """However many rows there are, no write has more than a few, but for the last, which has none of them."""
    sizes: list[int] = []

    class Watched(MemoryStore):
        def write(self, ops: Sequence[StoreOp]) -> None:
            sizes.append(len(ops))
            super().write(ops)

    store = Watched()
    rows = [("rows", b"%06d" % number, b"v") for number in range(5000)]
    summed = StagedSum()
    for start in range(0, len(rows), 500):
        stage(store, BEGIN.snapshot_id, rows[start : start + 500], summed)  # type: ignore[arg-type]
    begin_switch(store, BEGIN, summed)
    sizes.clear()
    steps, turns = switching(store), 1
    while run(steps, 4, lambda: False):
        turns += 1
    assert max(sizes) <= ROWS_PER_STEP
    assert turns >= 5000 // (4 * ROWS_PER_STEP)
    steps = switching(store)
    assert not run(steps, 4, lambda: False)


def test_a_slice_ends_when_it_is_late() -> None:
    """One step is always taken, so that it comes to an end on the slowest machine."""
    taken = iter(range(3))
    steps = (None for _ in taken)
    assert run(steps, 100, lambda: True)
    assert run(steps, 100, lambda: True)
    assert run(steps, 100, lambda: True)
    assert not run(steps, 100, lambda: True)


def test_what_is_not_needed_is_cleared_away_in_steps() -> None:
    """Rows of snapshots that were dropped go, a few at a time; those of the one that is arriving stay."""
    store = MemoryStore()
    for snapshot_id in (5, 77, 200):
        rows = [("rows", b"%04d" % number, b"v") for number in range(100)]
        stage(store, snapshot_id, rows, StagedSum())  # type: ignore[arg-type]
    sweeper = Sweeper(store)
    before = len(list(store.scan("staged")))
    sweeper.sweep(30, 77)
    assert len(list(store.scan("staged"))) == before - 30
    for _ in range(20):
        sweeper.sweep(30, 77)
    left = [key for key, _ in store.scan("staged")]
    assert len(left) == 100
    assert {int.from_bytes(key[:8], "big") for key in left} == {77}
    sweeper.again()
    for _ in range(5):
        sweeper.sweep(30, None)
    assert list(store.scan("staged")) == []


def test_a_marker_that_cannot_be_read_is_a_damaged_store() -> None:
    """Nothing is guessed."""
    store = MemoryStore()
    store.write([StoreOp("meta", b"consensus/switching", b"\xff\xff")])
    with pytest.raises(StoreDamagedError, match="marker of a switch"):
        finish_switch(store)


MARKER = b"consensus/switching"


def marker_of(store: MemoryStore) -> bytes:
    """The marker as it lies in the store."""
    value = store.get("meta", MARKER)
    assert value is not None
    return value


def ended() -> tuple[MemoryStore, bytes]:
    """A store that has switched to the snapshot, and the marker it had meanwhile."""
    store = MemoryStore()
    old_state(store)
    begin_switch(store, BEGIN, staged(store))
    marker = marker_of(store)
    assert finish_switch(store)
    return store, marker


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize("index", [500, 700])
@pytest.mark.parametrize("fields", [5, 7])
def test_a_marker_whose_removal_was_lost_is_a_damaged_store(swept: bool, index: int, fields: int) -> None:
    """A switch that has ended is not made again, whether its rows are still staged or cleared away, whoever began it
    (earlier builds wrote five fields): the state stays as it is.
    """
    store, marker = ended()
    store.write(applied_ops(index, 2, 400, 1234))
    if swept:
        Sweeper(store).sweep(10_000, None)
    old = msgspec.msgpack.encode(msgspec.msgpack.decode(marker)[:fields])
    store.write([StoreOp("meta", MARKER, old)])
    with pytest.raises(StoreDamagedError, match=r"which has ended.*start the node again"):
        finish_switch(store)
    assert rows_of(store) == NEW


@pytest.mark.parametrize("what", ["one row lost", "one row changed", "one row too many", "all rows lost"])
def test_staged_rows_that_are_not_those_that_arrived_are_a_damaged_store(what: str) -> None:
    """The start does not end a switch with them: the old state stays, and the store is named."""
    store = MemoryStore()
    old_state(store)
    begin_switch(store, BEGIN, staged(store))
    keys = [key for key, _ in store.scan("staged") if key.startswith(BEGIN.snapshot_id.to_bytes(8, "big"))]
    if what == "all rows lost":
        store.write([StoreOp("staged", key, None) for key in keys])
    else:
        key = keys[7] + b"!" if what == "one row too many" else keys[7]
        store.write([StoreOp("staged", key, None if what == "one row lost" else b"another")])
    with pytest.raises(StoreDamagedError, match="are not those that had arrived"):
        finish_switch(store)
    assert rows_of(store) == OLD


def test_a_switch_that_an_earlier_build_began_is_ended() -> None:
    """Its marker has no sum: it is read, and what is staged becomes the state."""
    store = MemoryStore()
    old_state(store)
    begin_switch(store, BEGIN, staged(store))
    store.write([StoreOp("meta", MARKER, msgspec.msgpack.encode(msgspec.msgpack.decode(marker_of(store))[:5]))])
    assert finish_switch(store)
    assert rows_of(store) == NEW


def test_rows_are_those_of_the_moment_they_were_asked_for(tmp_path: Path) -> None:
    """A scan of a real store goes on to show what was there when it was opened, whatever is written meanwhile and
    whichever thread reads it.
    """
    store = RocksStore(str(tmp_path / "store"))
    store.write([StoreOp("rows", b"%04d" % number, b"old") for number in range(1000)])
    begun, opened = store.scan("rows"), store.scan("rows")
    first = next(begun)
    store.write([StoreOp("rows", b"%04d" % number, b"new" if number % 2 else None) for number in range(1000)])
    store.sync()
    with ThreadPoolExecutor() as others:
        read = [others.submit(list, scan).result() for scan in (begun, opened)]
    assert {value for _, value in [first, *read[0], *read[1]]} == {b"old"}
    assert (len(read[0]), len(read[1])) == (999, 1000)
    store.close()


def test_a_state_that_is_too_large_stops_the_node_and_names_the_setting() -> None:
    """It would come again and again: the node says what to raise instead."""
    cluster, leader, lagging = behind(settings=PATIENT)
    most = sum(len(key) + len(value) for _, key, value in leader.machine.snapshot_rows())
    cluster.wires.heal()
    with_at_most(cluster, lagging, most - 1)
    with pytest.raises(StorageError, match=rf"staged_bytes_max \({most - 1} bytes\)"):
        creep(cluster, lambda: bool(lagging.fatal), 5.0)


def with_at_most(cluster: Cluster, node: Node, staged_bytes: int) -> None:
    """It is started again, and stages so much."""
    snapshots = msgspec.structs.replace(PATIENT.snapshots, staged_bytes_max=staged_bytes)
    cluster.settings = msgspec.structs.replace(PATIENT, snapshots=snapshots)
    node.kill()
    node.start()


def test_a_state_as_large_as_is_allowed_is_taken() -> None:
    """Staging counts what the state's size counts, keys and values: to the last byte it fits, whatever carries it."""
    cluster, leader, lagging = behind(settings=PATIENT)
    with_at_most(cluster, lagging, sum(len(key) + len(value) for _, key, value in leader.machine.snapshot_rows()))
    cluster.wires.heal()
    cluster.run_until(lambda: lagging.machine.values() == leader.machine.values())
    same(cluster)


def test_a_long_switch_is_waited_for() -> None:
    """All has arrived and the follower's disk is slow: the leader asks how far it is, and does not begin anew, though
    it takes three times its patience.
    """
    hasty = msgspec.structs.replace(PATIENT, snapshots=msgspec.structs.replace(PATIENT.snapshots, timeout_s=1.0))
    cluster, leader, lagging = behind(settings=hasty)
    cluster.wires.heal()
    creep(cluster, at_step(cluster, lagging, "last chunk"))
    lagging.store_worker.stuck = True
    creep(cluster, at_step(cluster, lagging, "switched"))
    sender = next(iter(leader.engine._replication.senders.values()))
    cluster.run(3.0)
    assert next(iter(leader.engine._replication.senders.values())) is sender
    lagging.store_worker.release()
    same(cluster)
    assert lagging.machine.installs == 1


def test_the_node_votes_and_hears_its_leader_between_the_steps_of_a_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of many rows: heartbeats and reads are handled in the turns between."""
    cluster, leader, lagging = behind(entries=400, settings=SLOW)
    turns: list[bool] = []
    take = Turns.take

    def watched(self: Turns) -> None:
        take(self)
        if self is lagging.engine._turns:
            turns.append(lagging.engine._applying.installer.switching)

    monkeypatch.setattr(Turns, "take", watched)
    cluster.wires.heal()
    creep(cluster, lambda: lagging.machine.installs > 0)
    assert sum(turns) >= 400 // (2 * ROWS_PER_STEP)
    assert leader.up
    same(cluster)


SLOW = msgspec.structs.replace(PATIENT, snapshots=msgspec.structs.replace(PATIENT.snapshots, switch_rows=1))


@pytest.mark.parametrize("loss", ["of the process", "of power"])
@pytest.mark.parametrize("after_turns", [1, 3, 6, 10, 15])
def test_a_crash_in_the_middle_of_a_long_switch(after_turns: int, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node comes back with one state or the other, never a mixture, and catches up."""
    cluster, _, lagging = behind(entries=400, settings=SLOW)
    count = 0
    take = Turns.take

    def watched(self: Turns) -> None:
        nonlocal count
        if self is lagging.engine._turns and count >= after_turns:
            return
        take(self)
        count += self is lagging.engine._turns and lagging.engine._applying.installer.switching

    monkeypatch.setattr(Turns, "take", watched)
    cluster.wires.heal()
    creep(cluster, lambda: count >= after_turns)
    lagging.kill(power_loss=loss == "of power")
    monkeypatch.setattr(Turns, "take", take)
    cluster.run(0.05)
    lagging.start()
    same(cluster)


def test_a_switch_leaves_what_its_rows_add_up_to() -> None:
    """So that a start notices a row that is gone, also before anything was applied after the snapshot."""
    store = MemoryStore()
    old_state(store)
    begin_switch(store, BEGIN, staged(store))
    for _ in switching(store):
        pass
    sums, applied = RunningSums(), read_applied(store)
    for family in SNAPSHOT_FAMILIES:
        assert list(sums.loading(family, store.scan(family))) == list(store.scan(family))  # type: ignore[arg-type]
    assert applied is not None
    assert applied.sums == sums.packed()
