"""What the journal promises while it runs: order, durability reports, trimming, reading back, refusing nonsense."""

import asyncio
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.consensus.journal import frames as journal_frames
from quorate.consensus.journal.journal import FIRST, Journal, JournalDamagedError, erase_journal
from quorate.consensus.ports import NodeId
from quorate.consensus.storage.disk import FileDisk, ThreadWorker
from quorate.consensus.storage_settings import JournalSettings
from quorate.errors import DiskFullError, InvariantBrokenError, StorageError, UsageError
from tests.stand_ins import InlineWorker, ManualClock

SMALL = JournalSettings(segment_bytes=4096, max_entry_bytes=512, read_bytes=4096)


class QuickDisk(FileDisk):
    """Real files without real syncs: these tests stop no machine."""

    def sync(self, name: str) -> None:
        pass


class Bench:
    """A journal on real files, its worker and its clock."""

    def __init__(self, path: Path, settings: JournalSettings = SMALL) -> None:
        self.path, self.settings = path, settings
        self.clock = ManualClock()
        self.open()

    def open(self) -> Journal:
        self.worker = InlineWorker()
        self.disk = QuickDisk(str(self.path))
        self.journal = Journal.open(self.disk, self.worker, self.settings, self.clock)
        return self.journal

    def reopen(self) -> Journal:
        self.disk.close()
        return self.open()

    def fill(self, count: int, term: int = 1, size: int = 100) -> None:
        """Append ``count`` entries and make them durable, one flush each."""
        for _ in range(count):
            index = self.journal.last_index + 1
            self.journal.append(index, term, bytes([index % 256]) * size)
            self.journal.flush()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "journal")


def image(journal: Journal) -> tuple[object, ...]:
    """Everything a journal says."""
    entries = (
        tuple(journal.entries(journal.first_index, 1 << 40, 1 << 40)) if journal.last_index > journal.base_index else ()
    )
    return (
        journal.term,
        journal.voted_for,
        journal.base_index,
        journal.base_term,
        journal.last_index,
        journal.last_term,
        entries,
    )


def test_a_fresh_journal_begins_after_the_entry_every_node_has(bench: Bench) -> None:
    """Entry 1 is the engine's no-op: base index 1, term 0, nothing stored, and the journal says it is new."""
    journal = bench.journal
    assert (journal.state, journal.base_index, journal.base_term, journal.first_index, journal.last_index) == (
        "new",
        1,
        0,
        2,
        1,
    )
    assert (journal.term, journal.voted_for, journal.seq, journal.durable_seq, journal.durable_index) == (
        0,
        None,
        0,
        0,
        1,
    )
    assert bench.reopen().state == "recovered"


def test_everything_said_before_a_restart_is_said_after_it(bench: Bench) -> None:
    """Term, vote, entries, terms and sequence survive a restart that follows a flush."""
    journal = bench.journal
    journal.set_vote(3, NodeId(0))
    bench.fill(5, term=3)
    journal.truncate_from(4)
    journal.append(4, 4, b"")
    journal.set_vote(4, None)
    journal.flush()
    said, seq = image(journal), journal.seq
    again = bench.reopen()
    assert image(again) == said
    assert (again.seq, again.durable_seq, again.durable_index) == (seq, seq, 4)
    assert again.voted_for is None
    assert again.entry(4) == b""


def test_node_zero_is_not_nobody(bench: Bench) -> None:
    """A vote for node id 0 is told from no vote after a restart."""
    bench.journal.set_vote(1, NodeId(0))
    bench.journal.flush()
    assert bench.reopen().voted_for == 0


def test_nothing_is_durable_before_the_worker_says_so(bench: Bench) -> None:
    """``durable_seq`` and ``durable_index`` move only when the worker reports, and then ``on_durable`` is called."""
    journal, calls = bench.journal, []
    journal.on_durable = lambda: calls.append(journal.durable_seq)
    bench.worker.held = True
    journal.append(2, 1, b"a")
    journal.flush()
    journal.append(3, 1, b"b")
    assert (journal.seq, journal.durable_seq, journal.durable_index, calls) == (2, 0, 1, [])
    bench.worker.run()
    assert (journal.durable_seq, journal.durable_index, calls) == (1, 2, [1])
    journal.flush()
    bench.worker.run()
    assert (journal.durable_seq, journal.durable_index, calls) == (2, 3, [1, 2])


def test_one_sync_covers_all_flushes_that_waited(bench: Bench) -> None:
    """Group commit: what is flushed while the worker is busy costs one sync and one report."""
    journal, calls = bench.journal, []
    journal.on_durable = lambda: calls.append(journal.durable_index)
    bench.worker.held = True
    before = journal.syncs
    for index in range(2, 10):
        journal.append(index, 1, b"x")
        journal.flush()
    assert bench.worker.pending() == 1
    bench.worker.run()
    assert (journal.syncs - before, calls) == (1, [9])


def test_a_flush_without_operations_does_nothing(bench: Bench) -> None:
    """No operation, no job, no sync."""
    bench.worker.held = True
    bench.journal.flush()
    assert bench.worker.pending() == 0


def test_a_report_from_before_a_truncation_does_not_count_entries_after_it(bench: Bench) -> None:
    """Entries 2–4 are in flight when 3–4 are cut and 3' follows: the old report must not make 3' or 4 durable."""
    journal = bench.journal
    bench.worker.held = True
    for index in (2, 3, 4):
        journal.append(index, 1, b"old")
    journal.flush()
    journal.truncate_from(3)
    journal.append(3, 2, b"new")
    bench.worker.run()
    assert (journal.durable_seq, journal.durable_index) == (3, 1)
    journal.flush()
    bench.worker.run()
    assert (journal.durable_seq, journal.durable_index) == (5, 3)


def test_truncation_lowers_what_is_durable_at_once(bench: Bench) -> None:
    """The cut entries are on disk still, but no longer this log's: ``durable_index`` falls, ``generation`` rises."""
    bench.fill(4)
    bench.worker.held = True
    generation = bench.journal.generation
    bench.journal.truncate_from(4)
    assert (bench.journal.durable_index, bench.journal.generation) == (3, generation + 1)
    bench.journal.truncate_from(9)
    assert bench.journal.generation == generation + 1


def test_the_watchdog_sees_the_oldest_operation_that_is_not_durable(bench: Bench) -> None:
    """``oldest_unsynced_since`` is the time of the first operation until the disk has it, then the next one's."""
    journal = bench.journal
    bench.worker.held = True
    assert journal.oldest_unsynced_since() is None
    journal.append(2, 1, b"a")
    first = bench.clock.monotonic()
    bench.clock.advance(1.0)
    journal.flush()
    journal.append(3, 1, b"b")
    assert journal.oldest_unsynced_since() == first
    bench.worker.run()
    assert journal.oldest_unsynced_since() == bench.clock.monotonic()
    journal.flush()
    bench.worker.run()
    assert journal.oldest_unsynced_since() is None


def test_terms_are_known_by_index(bench: Bench) -> None:
    """``term_at`` answers for the base and every entry, through truncation and trimming, and None elsewhere."""
    journal = bench.journal
    for index, term in enumerate((1, 1, 3, 3, 7), start=2):
        journal.append(index, term, b"")
    assert [journal.term_at(index) for index in range(8)] == [None, 0, 1, 1, 3, 3, 7, None]
    journal.truncate_from(5)
    journal.append(5, 8, b"")
    journal.flush()
    journal.trim_to(3)
    assert [journal.term_at(index) for index in range(7)] == [None, None, None, 1, 3, 8, None]
    journal.trim_to(4)
    assert (journal.term_at(4), journal.base_term, journal.last_term) == (3, 3, 8)


@pytest.mark.parametrize("tail_bytes", [0, 700, 1 << 20])
def test_entries_are_read_back_from_disk_and_memory_alike(tmp_path: Path, tail_bytes: int) -> None:
    """Whatever part of the log is in memory, ``entry`` and ``entries`` give the bytes appended, within their limits."""
    settings = JournalSettings(segment_bytes=4096, max_entry_bytes=512, tail_bytes=tail_bytes, read_bytes=4096)
    bench = Bench(tmp_path / "journal", settings)
    chance = random.Random(5)
    expected = {}
    for index in range(2, 120):
        expected[index] = (index, 1 + index // 50, chance.randbytes(chance.randrange(300)))
        bench.journal.append(*expected[index])
        bench.journal.set_vote(index, None)
        bench.journal.flush()
    for journal in (bench.journal, bench.reopen()):
        assert journal.entries(2, 1 << 30, 1 << 30) == list(expected.values())
        assert [journal.entry(index) for index in expected] == [entry for _, _, entry in expected.values()]
        for start in (2, 40, 119):
            some = journal.entries(start, 1000, 5)
            assert some == [expected[index] for index in range(start, start + len(some))]
            assert 1 <= len(some) <= 5
            assert sum(len(entry) for _, _, entry in some) <= 1000
        assert len(journal.entries(2, 1, 10)) == 1
        assert journal.entries(120, 1000, 10) == []


def test_memory_keeps_what_the_disk_does_not_have_yet(tmp_path: Path) -> None:
    """With no room for a tail, entries that are not durable are still there to be sent."""
    settings = JournalSettings(segment_bytes=4096, max_entry_bytes=512, tail_bytes=0, tail_entries=0)
    bench = Bench(tmp_path / "journal", settings)
    bench.worker.held = True
    bench.journal.append(2, 1, b"x" * 200)
    bench.journal.flush()
    assert bench.journal.entry(2) == b"x" * 200
    bench.worker.run()
    assert bench.journal.entry(2) == b"x" * 200


def test_segments_are_deleted_whole_once_nobody_needs_them(bench: Bench) -> None:
    """Trimming frees disk, keeps what is above it, and a restart finds the same log."""
    bench.fill(200)
    full = bench.journal.bytes_on_disk()
    assert full == sum(path.stat().st_size for path in bench.path.iterdir())
    bench.journal.trim_to(150)
    bench.journal.flush()
    assert bench.journal.first_index == 151
    assert bench.journal.bytes_on_disk() < full / 2
    assert bench.journal.bytes_on_disk() == sum(path.stat().st_size for path in bench.path.iterdir())
    said = image(bench.journal)
    assert image(bench.reopen()) == said
    with pytest.raises(InvariantBrokenError):
        bench.journal.entry(150)
    with pytest.raises(InvariantBrokenError):
        bench.journal.entries(150, 1000, 10)


def test_no_segment_is_deleted_before_the_record_that_allows_it_is_durable(bench: Bench) -> None:
    """A trim that is only queued leaves every file in place."""
    bench.fill(100)
    files = sorted(bench.path.iterdir())
    bench.worker.held = True
    bench.journal.trim_to(90)
    bench.journal.flush()
    assert sorted(bench.path.iterdir()) == files
    bench.worker.run()
    assert sorted(bench.path.iterdir()) != files


def test_what_is_to_be_durable_waits_for_the_removal_of_one_segment(bench: Bench) -> None:
    """Many segments go one after the other, the oldest first, and whatever comes meanwhile is synced in between; a
    node that dies on the way finds the rest at its next start, and removes them with its next trim.
    """
    bench.fill(200)
    files = sorted(path.name for path in bench.path.iterdir())
    kept = bench.journal.sealed_segments()[-1]
    bench.journal.trim_to(195)
    removed: list[str] = []
    remove = bench.disk.remove
    bench.disk.remove = removed.append  # type: ignore[method-assign, assignment]
    bench.worker.held = True
    bench.journal.flush()
    bench.worker.run(1)  # Durable: the removal begins.
    bench.fill(1)
    seq = bench.journal.seq
    assert bench.journal.durable_seq < seq
    bench.worker.run(1)
    bench.worker.run(1)
    assert bench.journal.durable_seq == seq
    assert removed == files[:1]
    bench.worker.run()
    assert removed == files[: len(removed)]
    assert len(removed) > 3
    assert removed[-1] < journal_frames.segment_name(kept + 1)
    for name in removed[:2]:
        remove(name)
    again = bench.reopen()
    said = image(again)
    again.trim_to(196)
    again.flush()
    assert len(list(bench.path.iterdir())) == len(files) - len(removed)
    assert (said[2], image(bench.reopen())[2]) == (195, 196)


def test_the_bytes_of_entries_are_those_that_a_trim_frees(bench: Bench) -> None:
    """None are there at first; they grow with each, and go with what is trimmed, whatever the segments still take."""
    journal = bench.journal
    assert journal.bytes_of_entries() == 0
    bench.fill(1)
    one = journal.bytes_of_entries()
    assert 100 < one < 200
    bench.fill(1)
    assert journal.bytes_of_entries() == 2 * one
    bench.fill(198)
    everything = journal.bytes_of_entries()
    assert 200 * one <= everything <= journal.bytes_on_disk()
    journal.trim_to(101)
    assert abs(journal.bytes_of_entries() - everything / 2) < SMALL.segment_bytes
    journal.trim_to(201)
    assert journal.bytes_of_entries() == 0


def test_disk_use_is_bounded_by_what_is_kept(bench: Bench) -> None:
    """Many times the kept amount passes through; the files stay few, and votes cast long ago are not forgotten."""
    bench.journal.set_vote(1, NodeId(2))
    for _ in range(40):
        bench.fill(40)
        bench.journal.trim_to(bench.journal.last_index - 10)
        bench.journal.flush()
        assert bench.journal.bytes_on_disk() <= 5 * SMALL.segment_bytes
    assert bench.reopen().voted_for == 2


def test_a_truncation_of_entries_in_a_deleted_segment_is_understood(bench: Bench) -> None:
    """The first segment left begins with a cut into an older, deleted one: the log goes on from there."""
    bench.fill(30)
    journal = bench.journal
    segments = len(list(bench.path.iterdir()))
    while len(list(bench.path.iterdir())) == segments:
        bench.fill(1)
    cut = journal.last_index - 3
    journal.truncate_from(cut)
    for index in range(cut, cut + 60):
        journal.append(index, 2, b"z" * 100)
        journal.flush()
    journal.trim_to(cut + 20)
    journal.flush()
    said = image(journal)
    assert image(bench.reopen()) == said


def test_reset_makes_the_log_go_on_after_a_snapshot(bench: Bench) -> None:
    """Everything before is gone, also longer logs; old segments go; a restart agrees."""
    bench.fill(200)
    journal = bench.journal
    journal.set_vote(5, NodeId(1))
    journal.reset(150, 4)
    assert (journal.base_index, journal.base_term, journal.last_index, journal.last_term) == (150, 4, 150, 4)
    assert journal.durable_index == 150
    journal.flush()
    assert journal.bytes_on_disk() <= 2 * SMALL.segment_bytes
    journal.append(151, 5, b"next")
    journal.flush()
    said = image(journal)
    again = bench.reopen()
    assert image(again) == said
    assert (again.term, again.voted_for, again.entry(151)) == (5, 1, b"next")


def test_no_segment_is_deleted_before_the_reset_is_durable(bench: Bench) -> None:
    """A trim became durable while a reset is still queued: only what the trim allows may go."""
    bench.fill(200)
    bench.worker.held = True
    bench.journal.trim_to(20)
    bench.journal.flush()
    bench.journal.reset(500, 1)
    bench.worker.run()
    said = bench.journal.bytes_on_disk()
    assert said > 4 * SMALL.segment_bytes
    again = bench.reopen()
    assert (again.base_index, again.last_index) == (20, 201)


def test_the_next_segment_is_made_before_it_is_needed(bench: Bench) -> None:
    """Once a segment is half full the next file exists; a restart in between does not mind it."""
    bench.fill(5)
    assert len(list(bench.path.iterdir())) == 1
    bench.fill(5)
    assert len(list(bench.path.iterdir())) == 2
    assert bench.journal.bytes_on_disk() == 2 * SMALL.segment_bytes
    said = image(bench.journal)
    assert image(bench.reopen()) == said


def test_an_early_segment_that_finds_no_room_stops_nobody(tmp_path: Path) -> None:
    """It is made when it is needed, if there is room by then; if not, that is the end."""

    class Full(QuickDisk):
        full = True

        def create(self, name: str, size: int) -> None:
            if self.full and self.names():
                raise DiskFullError("no space left on device")
            super().create(name, size)

    bench = Bench(tmp_path / "journal")
    bench.disk.close()
    disk = bench.disk = Full(str(bench.path))
    bench.journal = Journal.open(disk, bench.worker, SMALL, bench.clock)
    while bench.journal.last_index < 12:
        bench.fill(5)
    assert len(list(bench.path.iterdir())) == 1
    disk.full = False
    bench.fill(20)
    said = image(bench.journal)
    assert image(bench.reopen()) == said


def test_segment_size_may_change_between_starts(bench: Bench) -> None:
    """Old segments are read at their own size."""
    bench.fill(50)
    bench.settings = JournalSettings(segment_bytes=8192, max_entry_bytes=512, read_bytes=4096)
    said = image(bench.journal)
    assert image(bench.reopen()) == said
    bench.fill(100)
    said = image(bench.journal)
    bench.settings = SMALL
    assert image(bench.reopen()) == said


def test_what_cannot_follow_is_refused_and_changes_nothing(bench: Bench) -> None:
    """Gaps, falling terms, cuts at the base, trims above what is durable, entries too large: errors, no operation."""
    journal = bench.journal
    journal.set_vote(3, NodeId(1))
    bench.fill(3, term=3)
    said, seq = image(journal), journal.seq
    for wrong in (
        lambda: journal.append(9, 3, b""),
        lambda: journal.append(4, 3, b""),
        lambda: journal.append(5, 2, b""),
        lambda: journal.truncate_from(1),
        lambda: journal.trim_to(5),
        lambda: journal.set_vote(2, NodeId(1)),
        lambda: journal.set_vote(3, NodeId(2)),
        lambda: journal.set_vote(3, None),
        lambda: journal.entry(1),
        lambda: journal.entry(5),
        lambda: journal.entries(1, 10, 10),
    ):
        with pytest.raises(InvariantBrokenError):
            wrong()
    with pytest.raises(UsageError):
        journal.append(5, 3, bytes(SMALL.max_entry_bytes + 1))
    assert (image(journal), journal.seq) == (said, seq)


def test_the_same_vote_again_costs_nothing(bench: Bench) -> None:
    """Saying the same term and vote twice is one operation."""
    bench.journal.set_vote(1, NodeId(1))
    bench.journal.set_vote(1, NodeId(1))
    assert bench.journal.seq == 1


def test_the_largest_entry_fits_and_is_read_back(tmp_path: Path) -> None:
    """An entry of ``max_entry_bytes`` fits a segment of the smallest size that is allowed."""
    settings = JournalSettings(segment_bytes=102400 + 48 + 1024, max_entry_bytes=102400, tail_bytes=0, read_bytes=4096)
    bench = Bench(tmp_path / "journal", settings)
    for index in (2, 3):
        bench.journal.append(index, 1, bytes([index]) * 102400)
        bench.journal.flush()
    assert [len(entry) for _, _, entry in bench.reopen().entries(2, 1, 1)] == [102400]
    assert bench.journal.entry(3) == b"\3" * 102400


@pytest.mark.parametrize(
    "wrong",
    [
        {"segment_bytes": 4096},
        {"segment_bytes": 8_000_001},
        {"segment_bytes": 1 << 32},
        {"tail_bytes": -1},
        {"read_bytes": 100},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    """A segment must hold an entry; sizes must be possible."""
    with pytest.raises(UsageError):
        JournalSettings(**wrong)


def test_an_erased_journal_is_new(bench: Bench) -> None:
    """``erase_journal`` leaves nothing, so that the next start says ``new``."""
    bench.fill(100)
    erase_journal(bench.disk)
    assert bench.reopen().state == "new"
    assert (bench.journal.base_index, bench.journal.base_term) == (FIRST.index, FIRST.term)


class Threaded:
    """A journal behind a real thread and a real loop."""

    def __init__(self, disk: FileDisk) -> None:
        self.loop = asyncio.new_event_loop()
        self.fatal: list[BaseException] = []
        self.worker = ThreadWorker(self.loop, self.fatal.append)
        self.journal = Journal.open(disk, self.worker, SMALL, ManualClock())

    def turn(self, until: Callable[[], bool]) -> None:
        async def turns() -> None:
            async with asyncio.timeout(60):
                while not until():  # noqa: ASYNC110 - the condition is the test's
                    await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def close(self) -> None:
        self.worker.close(30)
        self.loop.close()


def test_a_thread_and_a_loop_agree_on_what_is_durable(tmp_path: Path) -> None:
    """Many entries and segments, trims between, through the thread: reports never fall, and all arrive."""
    disk = QuickDisk(str(tmp_path / "journal"))
    node = Threaded(disk)
    journal, reports = node.journal, list[int]()
    journal.on_durable = lambda: reports.append(journal.durable_seq)
    for index in range(2, 2002):
        journal.append(index, 1, index.to_bytes(4, "big") * 20)
        if index % 3 == 0:
            journal.flush()
            node.turn(lambda: True)
        if index % 400 == 0 and journal.durable_index > 100:
            journal.trim_to(journal.durable_index - 50)
    journal.flush()
    node.turn(lambda: journal.durable_seq == journal.seq)
    assert (journal.durable_index, journal.oldest_unsynced_since()) == (2001, None)
    assert reports == sorted(set(reports))
    assert node.fatal == []
    said = image(journal)
    node.close()
    again = Journal.open(disk, InlineWorker(), SMALL, ManualClock())
    assert image(again) == said


def test_a_failed_sync_is_fatal_and_nothing_is_durable_after_it(tmp_path: Path) -> None:
    """The disk fails once: the node is told, no report comes any more, also not for what is flushed later."""

    class Failing(FileDisk):
        fail = False

        def sync(self, name: str) -> None:
            if self.fail:
                self.fail = False
                raise StorageError("input/output error")

    disk = Failing(str(tmp_path / "journal"))
    node = Threaded(disk)
    node.journal.append(2, 1, b"a")
    node.journal.flush()
    node.turn(lambda: node.journal.durable_index == 2)
    disk.fail = True
    node.journal.append(3, 1, b"b")
    node.journal.flush()
    node.turn(lambda: bool(node.fatal))
    node.journal.append(4, 1, b"c")
    node.journal.flush()
    node.close()
    assert [str(error) for error in node.fatal] == ["input/output error"]
    assert (node.journal.durable_index, node.journal.durable_seq) == (2, 1)
    assert node.journal.oldest_unsynced_since() is not None


def test_a_journal_that_must_exist_is_not_made_up(bench: Bench) -> None:
    """Without files, or with one in which nothing ever was, a node that had a journal is told that it is damaged."""
    name = "0000000000000001.journal"
    for left in ([], [name]):
        erase_journal(bench.disk)
        for file in left:
            (bench.path / file).touch()
        with pytest.raises(JournalDamagedError, match="missing"):
            Journal.open(bench.disk, bench.worker, SMALL, bench.clock, must_exist=True)
        assert sorted(path.name for path in bench.path.iterdir()) == left
    assert bench.reopen().state == "new"
    assert Journal.open(bench.disk, bench.worker, SMALL, bench.clock, must_exist=True).state == "recovered"


def test_an_entry_that_rotted_is_not_served(tmp_path: Path) -> None:
    """A byte changed under a running node is noticed when the entry is read back: StorageError, not wrong bytes."""
    settings = JournalSettings(segment_bytes=4096, max_entry_bytes=512, tail_bytes=0, tail_entries=0)
    bench = Bench(tmp_path / "journal", settings)
    bench.fill(3)
    assert bench.journal.entry(3) == b"\3" * 100
    content = bench.disk.read("0000000000000001.journal")
    bench.disk.write("0000000000000001.journal", content.index(b"\3" * 100), b"!")
    with pytest.raises(StorageError):
        bench.journal.entry(3)


def test_a_file_that_is_not_ours_is_left_alone(bench: Bench) -> None:
    """Other names in the directory are neither read nor removed."""
    (bench.path / "notes.txt").write_text("hello")
    (bench.path / "zz.journal").write_text("hello")
    bench.fill(3)
    assert bench.reopen().last_index == 4
    erase_journal(bench.disk)
    assert sorted(path.name for path in bench.path.iterdir()) == ["notes.txt", "zz.journal"]


def test_a_newer_format_is_refused_by_name(bench: Bench) -> None:
    """An unknown format version is a StorageError that is not damage: the operator runs the wrong version."""
    data = bytearray(bench.disk.read("0000000000000001.journal"))
    data[8:10] = (journal_frames.FORMAT + 1).to_bytes(2, "little")
    size = journal_frames._HEADER.size
    data[size : size + 4] = zlib.crc32(bytes(data[:size])).to_bytes(4, "little")
    bench.disk.write("0000000000000001.journal", 0, bytes(data))
    with pytest.raises(StorageError, match=f"format {journal_frames.FORMAT + 1}") as caught:
        bench.reopen()
    assert not isinstance(caught.value, JournalDamagedError)


def test_a_sync_from_before_a_reset_proves_nothing_of_the_log_after_it(bench: Bench) -> None:
    """What was being written is on disk, and is this log's no more."""
    journal = bench.journal
    bench.worker.held = True
    for index in range(2, 12):
        journal.append(index, 1, b"old")
    journal.flush()
    journal.reset(5, 2)
    assert journal.durable_index <= 5
    bench.worker.run()
    assert (journal.last_index, journal.durable_index <= 5) == (5, True)
