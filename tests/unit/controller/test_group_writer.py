"""What consumer groups keep: many changes in few entries, on every node alike, and decisions never wait for them."""

import pytest

from quorate.consensus.entry import Entry, decode_entry, encode_entry
from quorate.consensus.ports import Index, StoreOp, Term
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage.store import StoreDamagedError, applied_ops
from quorate.controller import ControllerSettings, GroupWriter, Listener, ReplicatedState, WriteResult
from quorate.metadata.commands import ApplyBrokerId
from quorate.metadata.group_rows import encode_changes
from quorate.metadata.requests import RequestSettings
from quorate.metrics import Metrics
from tests.stand_ins import MemoryStore
from tests.unit.controller.bench import Bench

SETTINGS = ControllerSettings(
    group_changes_max=3, group_entry_bytes_max=200, group_waiting_max=8, group_rows_max=10, group_window_s=0.05
)


class Office:
    """A leading controller with a writer, and what its callers were told."""

    def __init__(self, settings: ControllerSettings = SETTINGS) -> None:
        self.bench = Bench(settings=settings)
        self.writer = GroupWriter(self.bench.controller, self.bench.machine, self.bench.loop, settings)
        self.bench.controller.listeners.add(self.writer)
        self.told: list[tuple[str, WriteResult]] = []
        self.bench.open()
        self.bench.engine.commit()  # Its limits are recorded.

    def put(self, name: str, row: bytes | None = b"row") -> None:
        self.writer.put(name.encode(), row, lambda written: self.told.append((name, written)))

    def entries(self) -> list[Entry]:
        """The groups entries proposed so far."""
        decoded = [decode_entry(entry) for _, entry in self.bench.engine.log if entry]
        return [entry for entry in decoded if entry.kind == "groups"]

    def turn(self, seconds: float = 0.001) -> None:
        """Some time, then everything proposed is committed."""
        self.bench.after(seconds)
        self.bench.engine.commit()
        self.bench.after(0.001)

    def rows(self) -> dict[bytes, bytes]:
        return dict(self.writer.starting_with(b""))


def test_a_lone_change_is_proposed_at_once() -> None:
    """It is told after commit and apply, not before; it is in the store on the same write; it takes no offset."""
    office = Office()
    offset, time_ms = office.bench.machine.offset, office.bench.machine.time_ms
    office.put("a")
    office.bench.after(0.001)
    assert len(office.entries()) == 1
    assert office.told == []
    assert office.rows() == {}
    office.turn()
    assert office.told == [("a", WriteResult.DONE)]
    assert office.rows() == dict(office.bench.store.scan("groups")) == {b"a": b"row"}
    assert (office.bench.machine.offset, office.bench.machine.time_ms) == (offset, time_ms)


def test_what_comes_together_is_one_entry() -> None:
    """Changes wait for the window and for the entry before; of one key the last one wins, and all callers are told."""
    office = Office()
    office.put("a", b"1")
    office.bench.after(0.001)
    office.put("a", b"2")
    office.put("b", b"3")
    office.put("a", b"4")
    office.turn()
    assert office.told == [("a", WriteResult.DONE)]
    office.bench.after(0.02)
    assert len(office.entries()) == 1
    office.turn(0.04)
    assert len(office.entries()) == 2
    assert office.told[1:] == [("a", WriteResult.DONE), ("a", WriteResult.DONE), ("b", WriteResult.DONE)]
    assert office.rows() == {b"a": b"4", b"b": b"3"}
    office.put("a", None)
    office.turn(0.06)
    assert office.rows() == {b"b": b"3"}


def test_at_most_one_entry_is_in_flight_and_each_is_small() -> None:
    """However many changes wait: so many rows, so many bytes an entry, the next one only when this one is applied."""
    office = Office()
    for number in range(7):
        office.put(f"k{number}", b"x" * 10)
    office.bench.after(1.0)
    assert len(office.entries()) == 1
    for _ in range(4):
        office.turn(0.06)
    assert [len(entry.batch) < 250 for entry in office.entries()] == [True] * 3
    assert len(office.told) == 7
    for name in ("big", "bigger"):
        office.put(name, b"x" * 150)
    office.turn(0.06)
    office.turn(0.06)
    assert len(office.entries()) == 5


def test_a_decision_does_not_wait_for_group_entries() -> None:
    """Proposed behind an entry in flight, in the same breath; its offset is the next one, as if there were none."""
    office = Office()
    offset = office.bench.machine.offset
    outcomes = []
    for number in range(3):
        office.put(f"k{number}")
        office.bench.after(0.06)
        command = ApplyBrokerId(cluster="c", broker_set="a", broker_id=number + 1, register_check_code=f"h;{number}")
        outcomes.append(office.bench.submit(command))
    assert len(office.entries()) == 1
    office.bench.engine.commit()
    assert [len(told) for told in outcomes] == [1, 1, 1]
    assert office.bench.machine.offset == offset + 3
    office.turn(0.06)
    assert office.rows().keys() == {b"k0", b"k1", b"k2"}


def test_limits_are_told_and_change_nothing() -> None:
    """Too many waiting: busy. Too many rows, or too long a row: no room; rows that are there may still change."""
    office = Office()
    office.put("long", b"x" * 200)
    assert office.told == [("long", WriteResult.NO_ROOM)]
    for number in range(9):
        office.put(f"k{number}")
    assert office.told[1:] == [("k8", WriteResult.BUSY)]
    for _ in range(4):
        office.turn(0.06)
    for name in ("k8", "k9", "k10"):
        office.put(name)
    assert office.told[-1] == ("k10", WriteResult.NO_ROOM)
    office.turn(0.06)
    office.put("k1", b"new")
    office.turn(0.06)
    assert office.rows()[b"k1"] == b"new"
    assert len(office.writer) == 10
    assert office.writer.waiting == 0


def test_rows_in_flight_take_room() -> None:
    """They are kept soon: what comes meanwhile is refused as if they were there. They themselves may still change."""
    office = Office()
    for number in range(8):
        office.put(f"k{number}")
    for _ in range(4):
        office.turn(0.06)
    for name in ("k8", "k9"):
        office.put(name)
    office.bench.after(0.06)
    assert (len(office.writer), office.writer.waiting) == (8, 2)
    office.put("k10")
    assert office.told[-1] == ("k10", WriteResult.NO_ROOM)
    office.put("k9", b"new")
    for _ in range(2):
        office.turn(0.06)
    assert (len(office.writer), office.rows()[b"k9"]) == (10, b"new")


def test_losing_the_office_ends_every_wait() -> None:
    """Whoever waits, in flight or not, is sent to the next leader; a later term begins afresh."""
    office = Office()
    office.put("a")
    office.bench.after(0.001)
    office.put("b")
    office.bench.engine.lose(leader=2)
    assert office.told == [("a", WriteResult.NOT_LEADER), ("b", WriteResult.NOT_LEADER)]
    office.put("c")
    assert office.told[-1] == ("c", WriteResult.NOT_LEADER)
    office.bench.open(term=2)
    office.put("d")
    office.turn(0.06)
    assert office.told[-1] == ("d", WriteResult.DONE)
    assert office.rows() == {b"a": b"row", b"d": b"row"}, "a was in the log, and the log is the truth"


def test_changes_behind_decisions_in_flight_are_written() -> None:
    """The entry follows what is decided, not what is applied: both are executed."""
    office = Office()
    outcome = office.bench.submit(ApplyBrokerId(cluster="c", broker_set="a", broker_id=1, register_check_code="h;1"))
    office.put("a")
    office.bench.after(0.001)
    assert len(office.entries()) == 1
    office.turn()
    assert (len(outcome), office.told) == (1, [("a", WriteResult.DONE)])


def test_an_entry_that_went_with_its_term_holds_up_nobody() -> None:
    """A leader that lost one, and leads again over a log without it, proposes at once."""
    office = Office()
    office.put("a")
    office.bench.after(0.001)
    engine = office.bench.engine
    engine.lose(leader=2)
    assert engine.log[-1][1]
    engine.log[-1] = (Term(2), b"")  # Another leader's first entry took its place.
    office.bench.open(term=3)
    office.put("b")
    office.turn(0.06)
    assert office.told == [("a", WriteResult.NOT_LEADER), ("b", WriteResult.DONE)]
    assert office.rows() == {b"b": b"row"}


def test_an_entry_of_another_term_in_the_same_place_is_not_ours() -> None:
    """Nobody is told *written* for an entry that came from another leader."""
    office = Office()
    office.put("a")
    office.bench.after(0.001)
    office.bench.listeners.kept(Index(len(office.bench.engine.log)), Term(7))
    office.bench.after(0.001)
    assert office.told == []
    office.turn()
    assert office.told == [("a", WriteResult.DONE)]


def test_a_commit_that_does_not_come_is_told_in_time() -> None:
    """After the deadline of every request: late, not failed, for it may still be written."""
    office = Office()
    office.put("a")
    office.bench.after(1.0)
    office.put("b")
    assert office.writer.pending(b"a")
    office.bench.after(1.6)
    assert office.told == [("a", WriteResult.LATE)]
    office.bench.after(1.0)
    assert office.told == [("a", WriteResult.LATE), ("b", WriteResult.LATE)]
    office.turn(0.06)
    office.turn(0.06)
    assert office.rows() == {b"a": b"row", b"b": b"row"}
    assert len(office.told) == 2
    assert not office.writer.pending(b"a")


class Told(Listener):
    """Keeps where the entries of groups lie."""

    def __init__(self) -> None:
        self.kept_at: list[tuple[int, int]] = []

    def kept(self, index: Index, term: Term) -> None:
        self.kept_at.append((index, term))


def machine(store: MemoryStore, told: Told | None = None) -> ReplicatedState:
    """Another node's."""
    return ReplicatedState(store, EventLog(store), Metrics(), RequestSettings(), listener=told or Listener())


def groups_entry(term: int, base: int, *changes: tuple[bytes, bytes | None]) -> bytes:
    """An entry a leader would propose."""
    payload = encode_changes(changes)
    return encode_entry(Entry(kind="groups", decided_term=Term(term), base_offset=base, time_ms=1, batch=payload))


def test_an_entry_of_another_term_is_not_executed() -> None:
    """Stored under a term it was not decided in, or at another offset, it changes nothing and nobody is told."""
    store, told = MemoryStore(), Told()
    node = machine(store, told)
    for index, term, entry in (
        (1, 2, groups_entry(1, 0, (b"a", b"old"))),
        (2, 2, groups_entry(2, 5, (b"a", b"elsewhere"))),
        (3, 2, groups_entry(2, 0, (b"a", b"new"), (b"b", None))),
    ):
        node.apply(Index(index), Term(term), entry)
        node.applied()
    assert told.kept_at == [(3, 2)]
    assert dict(store.scan("groups")) == {b"a": b"new"}


def test_applying_again_after_a_crash_changes_nothing() -> None:
    """The store may be behind what it was: the same entries again give the same rows, on every node the same."""
    entries = [
        groups_entry(1, 0, (b"a", b"1"), (b"b", b"1")),
        groups_entry(1, 0, (b"a", b"2"), (b"b", None)),
        groups_entry(1, 0, (b"c", b"3")),
    ]
    stores = [MemoryStore(), MemoryStore()]
    for store, sync_after in zip(stores, (0, 2), strict=True):
        node = machine(store)
        for index, entry in enumerate(entries, start=1):
            node.apply(Index(index), Term(1), entry)
            node.applied()
            if index == sync_after:
                store.sync()
        store.crash()
        again = machine(store)
        for index, entry in list(enumerate(entries, start=1))[again.applied_index() :]:
            again.apply(Index(index), Term(1), entry)
            again.applied()
        assert {key: again.groups.get(key) for key in (b"a", b"b", b"c")} == {b"a": b"2", b"b": None, b"c": b"3"}
    assert list(stores[0].scan("groups")) == list(stores[1].scan("groups"))


def test_a_snapshot_brings_the_rows() -> None:
    """What one node has is in its snapshot rows; a node that installs them has the same, and nothing of its own."""
    source, target = MemoryStore(), MemoryStore()
    giver, taker = machine(source), machine(target)
    giver.apply(Index(1), Term(1), groups_entry(1, 0, (b"a", b"1")))
    giver.applied()
    taker.apply(Index(1), Term(1), groups_entry(1, 0, (b"z", b"gone")))
    taker.applied()
    rows = list(giver.snapshot_rows())
    assert ("groups", b"a", b"1") in rows
    replace(target, source)
    taker.install(Index(1), Term(1))
    assert taker.groups.get(b"a") == b"1"
    assert b"z" not in taker.groups
    assert taker.marked == giver.marked


def test_a_row_that_the_store_lost_is_not_sent_as_the_state() -> None:
    """No checksum tells of a write that never reached the disk: who reads a snapshot to its end is told."""
    store = MemoryStore()
    giver = machine(store)
    giver.apply(Index(1), Term(1), groups_entry(1, 0, (b"a", b"1"), (b"b", b"2")))
    giver.applied()
    sound = list(giver.snapshot_rows())
    store.write([StoreOp("groups", b"a", None)])
    with pytest.raises(StoreDamagedError, match="do not add up to what was applied at index 1"):
        list(giver.snapshot_rows())
    assert [row for row in sound if row[0] == "groups"] == [("groups", b"a", b"1"), ("groups", b"b", b"2")]


def replace(target: MemoryStore, source: MemoryStore) -> None:
    """What consensus does when a snapshot is whole: the families of the state are exchanged."""
    for key, _ in list(target.scan("groups")):
        target.write([StoreOp("groups", key, None)])
    target.write([StoreOp("groups", key, value) for key, value in source.scan("groups")])
    target.write(applied_ops(1, 1, 0, 0))


def test_what_is_needed_has_room_where_others_have_none() -> None:
    """The kept clock, without which nothing lapses, is such a row; it is bounded as any other."""
    office = Office()
    for number in range(10):
        office.put(f"k{number}")
        office.turn(0.1)
    office.put("one more")
    assert office.told[-1] == ("one more", WriteResult.NO_ROOM)
    told: list[WriteResult] = []
    office.writer.put(b"clock", b"row", told.append, needed=True)
    office.turn(0.1)
    assert told == [WriteResult.DONE]
    office.writer.put(b"clock", b"x" * 300, told.append, needed=True)
    assert told[-1] == WriteResult.NO_ROOM
