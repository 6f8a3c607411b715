"""A journal that holds less than the store knows was durable: it is noticed at the start, and only then."""

from collections.abc import Iterator
from itertools import count
from random import Random
from uuid import UUID

import pytest

from quorate.consensus.journal.frames import (
    FRAMES_AT,
    SEAL_AT,
    SEAL_BYTES,
    decode_frame,
    decode_header,
    seed_of,
)
from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import Index, NodeId, Term
from quorate.consensus.raft.staging import StagedSum, begin_switch, finish_switch, stage
from quorate.consensus.storage.directory import Directory
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage.store import applied_ops, read_applied
from quorate.consensus.storage_settings import JournalSettings
from quorate.consensus.transport.codec import SnapshotBegin
from quorate.controller import ReplicatedState
from quorate.errors import UsageError
from quorate.metadata.requests import RequestSettings
from quorate.metrics import Metrics
from quorate.node.compose import Disks, open_directory
from tests.stand_ins import InlineWorker, ManualClock, MemoryStore, MemoryVoterFile
from tests.unit.consensus.raft_cluster import MemoryDisk

SMALL = JournalSettings(segment_bytes=4096, max_entry_bytes=512, read_bytes=4096)


class Bench:
    """One data directory in memory, over several lives."""

    def __init__(self) -> None:
        self.disk, self.store, self.file = MemoryDisk(), MemoryStore(), MemoryVoterFile()
        self.fresh = count(1)
        self.worker = InlineWorker()
        self.directory: Directory
        self.journal: Journal

    def start(self, *, alone: bool = False) -> None:
        self.worker = InlineWorker()
        self.directory, self.journal = open_directory(
            Disks(voter_file=self.file, store=self.store, disk=self.disk, worker=self.worker, reader=InlineWorker()),
            cluster_id="c",
            node_id=NodeId(1),
            alone=alone,
            journal=SMALL,
            clock=ManualClock(),
            fresh=lambda: str(UUID(int=next(self.fresh))),
        )
        self.directory.begin(str(UUID(int=next(self.fresh))))

    def run(self, entries: int, term: int = 1) -> None:
        """Vote, append, and apply each entry once it is durable, as a node does."""
        self.journal.set_vote(term, NodeId(1))
        for _ in range(entries):
            self.journal.append(self.journal.last_index + 1, term, b"x" * 100)
            self.journal.flush()
            self.apply()

    def apply(self) -> None:
        journal = self.journal
        self.store.write(applied_ops(journal.last_index, journal.last_term, 0, 0, durable_seq=journal.durable_seq))

    def vote_back(self) -> None:
        """It has come back, and may vote."""
        self.directory.save(may_not_vote="")

    def image(self) -> dict[str, bytearray]:
        return {name: bytearray(data) for name, data in self.disk.files.items()}

    def put(self, files: dict[str, bytearray]) -> None:
        self.disk.files = {name: bytearray(data) for name, data in files.items()}
        self.disk.synced = {name: bytes(data) for name, data in files.items()}


def edges(files: dict[str, bytearray]) -> Iterator[tuple[int, dict[str, bytearray]]]:
    """The journal cut at each record's edge, as a crash leaves one, and the last operation it then holds."""
    names = sorted(name for name, data in files.items() if decode_header(bytes(data)) is not None)
    for position, name in enumerate(names):
        content = files[name]
        header = decode_header(bytes(content))
        assert header is not None
        at, seq = FRAMES_AT, header.start_seq - 1
        while True:
            cut = content[:at] + bytes(len(content) - at)
            cut[SEAL_AT : SEAL_AT + SEAL_BYTES] = bytes(SEAL_BYTES)
            yield seq, {other: files[other] for other in names[:position]} | {name: cut}
            frame = decode_frame(bytes(content), at, seed_of(header.segment))
            if frame is None or frame.seq != seq + 1:
                break
            at, seq = frame.end, frame.seq


def test_every_cut_below_what_was_applied_is_noticed_once() -> None:
    """At each edge of each segment: the node forgot, its journal is new, and goes on after the operations that were
    known; the start after that finds nothing wrong. At the very end nothing is missing.
    """
    bench = Bench()
    bench.start()
    bench.run(100)
    whole, voter, known = bench.image(), bench.file.data, bench.journal.durable_seq
    assert len(whole) >= 3
    noticed = 0
    for seq, cut in edges(whole):
        bench.put(cut)
        bench.file.data = voter
        bench.start()
        if seq == known:
            assert not bench.directory.may_not_vote
            continue
        noticed += 1
        assert f"ends with operation {seq} in" in bench.directory.may_not_vote
        assert f"the store knows that {known} were durable" in bench.directory.may_not_vote
        assert (bench.journal.state, bench.journal.seq, bench.journal.last_index) == ("new", known, 1)
        bench.vote_back()
        bench.start()
        assert (bench.journal.state, bench.journal.seq, bench.directory.may_not_vote) == ("recovered", known, "")
    assert noticed >= 101


def test_an_older_copy_of_the_journal_is_noticed() -> None:
    """Put back beside the newer store and voter.json, whole and sealed as it was."""
    bench = Bench()
    bench.start()
    bench.run(30)
    older = bench.image()
    bench.run(10, term=2)
    bench.put(older)
    bench.start()
    assert "the store knows" in bench.directory.may_not_vote


def test_a_lone_node_touches_nothing() -> None:
    """Nobody else holds what it lost: it refuses to start, names the remedy, and its files are as they were."""
    bench = Bench()
    bench.start(alone=True)
    bench.run(30)
    *_, (_, cut), _ = edges(bench.image())
    bench.put(cut)
    for _ in range(2):
        with pytest.raises(UsageError, match=r"lone node.*restore.*the store knows"):
            bench.start(alone=True)
        assert bench.image() == cut


def test_what_came_after_a_loss_is_watched_as_well() -> None:
    """The new journal's operations go on after the known ones, so a second loss is noticed like the first."""
    bench = Bench()
    bench.start()
    bench.run(20)
    bench.put({})
    bench.start()
    assert bench.directory.may_not_vote == "the journal is missing"
    bench.vote_back()
    bench.run(20, term=2)
    bench.start()
    assert not bench.directory.may_not_vote
    *_, (_, cut), _ = edges(bench.image())
    bench.put(cut)
    bench.start()
    assert "the store knows" in bench.directory.may_not_vote


def test_a_row_of_before_says_nothing() -> None:
    """A store whose row has no number of operations is read, with its sums and without, and accuses no journal."""
    for sums in (b"", bytes(range(64))):
        store = MemoryStore()
        ((op,)) = applied_ops(9, 1, 5, 7, sums, 12)
        assert op.value is not None
        store.write([type(op)(op.family, op.key, op.value[:32] + sums)])
        applied = read_applied(store)
        assert applied is not None
        assert (applied.index, applied.next_offset, applied.sums, applied.durable_seq) == (9, 5, sums, 0)


def test_trims_resets_and_segments_removed_take_nothing_from_the_number() -> None:
    """They are operations themselves: whatever was forgotten on purpose, the next start finds no less than is known."""
    bench = Bench()
    bench.start()
    for term in range(1, 6):
        bench.run(60, term)
        bench.journal.trim_to(bench.journal.last_index - 5)
        bench.journal.truncate_from(bench.journal.last_index - 1)
        bench.journal.flush()
        bench.apply()
        bench.start()
        assert not bench.directory.may_not_vote
        bench.journal.reset(bench.journal.last_index + 100, term)
        bench.journal.flush()
        bench.apply()
        known = bench.journal.durable_seq
        bench.start()
        assert (bench.directory.may_not_vote, bench.journal.seq) == ("", known)
    assert "0000000000000001.journal" not in bench.disk.files


@pytest.mark.parametrize("seed", range(30))
def test_neither_a_kill_nor_a_power_loss_is_called_a_loss(seed: int) -> None:
    """Entries are applied ahead of the node's own disk, too: the row says only what was durable then. (Power that
    takes any subset of the journal's unsynced sectors is the simulator's.)
    """
    chance, bench = Random(seed), Bench()
    for life in range(1, 8):
        bench.start()
        assert not bench.directory.may_not_vote
        bench.journal.set_vote(max(life, bench.journal.term + 1), NodeId(1))
        for _ in range(chance.randrange(120)):
            bench.worker.held = chance.random() < 0.5
            if not bench.worker.held:
                bench.worker.run()
            bench.journal.append(bench.journal.last_index + 1, bench.journal.term, b"y" * chance.randrange(200))
            bench.journal.flush()
            bench.apply()
            if chance.random() < 0.1:
                bench.store.sync()
        if chance.random() < 0.5:
            bench.disk.crash()
            bench.store.crash(keep=chance.randrange(bench.store.unsynced + 1))


def test_a_snapshot_that_becomes_the_state_keeps_the_number() -> None:
    """What the row said of the journal goes on to hold, also where the next start ends the switch."""
    store = MemoryStore()
    store.write(applied_ops(9, 1, 5, 7, b"", 33))
    begin = SnapshotBegin(Term(2), 77, Index(50), Term(2), 40, 8)
    summed = StagedSum()
    stage(store, 77, [("rows", b"k", b"v")], summed)
    begin_switch(store, begin, summed)
    assert finish_switch(store)
    applied = read_applied(store)
    assert applied is not None
    assert (applied.index, applied.durable_seq) == (50, 33)


def test_the_machine_writes_the_journals_number_with_each_slice() -> None:
    """As of that moment, whatever the entry."""
    store, seq = MemoryStore(), [4]
    machine = ReplicatedState(store, EventLog(store), Metrics(), RequestSettings(), lambda: seq[0])
    for index, known in ((2, 4), (3, 9)):
        seq[0] = known
        machine.apply(Index(index), Term(1), b"")
        machine.applied()
        applied = read_applied(store)
        assert applied is not None
        assert (applied.index, applied.durable_seq) == (index, known)
