"""Entries that left memory are read back by a thread: what is kept of them, and what is thrown away."""

import random
from pathlib import Path

import pytest

from quorate.consensus.journal.frames import segment_name
from quorate.consensus.journal.journal import Journal, JournalDamagedError
from quorate.consensus.storage.disk import FileDisk
from quorate.consensus.storage_settings import JournalSettings
from quorate.errors import InvariantBrokenError, StorageError, UsageError
from tests.stand_ins import InlineWorker, ManualClock

SETTINGS = JournalSettings(
    segment_bytes=16 * 1024,
    max_entry_bytes=6000,
    tail_bytes=0,
    tail_entries=0,
    read_bytes=4096,
    read_back_bytes=16 * 1024,
)
"""Everything durable leaves memory at once; room for four reads."""
Entry = tuple[int, int, bytes]


class Bench:
    """A journal on real files, and a reader that reads when told to."""

    def __init__(self, path: Path) -> None:
        self.path, self.clock = path, ManualClock()
        self.disk, self.reader = FileDisk(str(path)), InlineWorker()
        self.journal = Journal.open(self.disk, InlineWorker(), SETTINGS, self.clock, reader=self.reader)
        self.heard: list[StorageError | None] = []
        self.journal.read_back.on_read = self.heard.append
        self.expected: list[Entry] = []
        self.chance = random.Random(3)

    def append(self, count: int, term: int) -> None:
        """Entries of that term, durable and out of memory."""
        for _ in range(count):
            entry = (int(self.journal.last_index) + 1, term, self.chance.randbytes(self.chance.randrange(500)))
            self.expected.append(entry)
            self.journal.append(*entry)
        self.journal.flush()

    def ask(self, start: int) -> list[Entry] | None:
        """What is at hand from there."""
        found = self.journal.at_hand(start, 1 << 30, 1 << 30)
        return None if found is None else [(int(index), int(term), entry) for index, term, entry in found]

    def rest(self, start: int) -> list[Entry]:
        """All from there on, as often as one must ask."""
        found: list[Entry] = []
        for _ in range(100):
            found += self.ask(start + len(found)) or []
            self.reader.run()
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Of a hundred entries in several segments."""
    bench = Bench(tmp_path / "journal")
    bench.append(60, 1)
    bench.append(40, 3)
    return bench


def test_all_of_a_log_comes_back_block_by_block(bench: Bench) -> None:
    """Each entry as it was appended, with its term, none twice and none left out, whatever limits are asked for."""
    found: list[Entry] = []
    while len(found) < 100:
        start = 2 + len(found)
        block = bench.journal.at_hand(start, bench.chance.randrange(2000), bench.chance.randrange(1, 9))
        if block is None:
            block = bench.journal.at_hand(start, 1 << 30, 1 << 30)
        assert block
        found += [(int(index), int(term), entry) for index, term, entry in block]
    assert found == bench.expected
    assert len(bench.heard) >= 100 * 250 // 4096


def test_one_that_is_larger_than_a_read_comes_back_too(bench: Bench) -> None:
    """Also when it is all there is room for."""
    bench.journal.append(102, 3, b"L" * 5500)
    bench.journal.flush()
    assert bench.ask(102) is None
    assert bench.ask(102) == [(102, 3, b"L" * 5500)]


def test_the_limits_hold(bench: Bench) -> None:
    """At most so many entries and bytes, but one in any case; nothing above the last; nothing that was trimmed."""
    bench.ask(2)
    assert bench.ask(2) == bench.expected[: len(bench.ask(2) or [])]
    assert len(bench.journal.at_hand(2, 0, 5) or []) == 1
    assert len(bench.journal.at_hand(2, 1 << 30, 3) or []) == 3
    assert bench.ask(102) == []
    bench.journal.trim_to(50)
    with pytest.raises(InvariantBrokenError):
        bench.ask(50)


def test_nobody_waits_while_the_disk_does_not_answer(bench: Bench) -> None:
    """Nothing is at hand until the reader is done, then somebody is told; two who ask for the same cause one read."""
    bench.reader.held = True
    assert bench.ask(2) is bench.ask(2) is None
    assert (bench.reader.pending(), bench.heard) == (1, [])
    assert list(bench.journal.read_back.under_way.values()) == [bench.clock.monotonic()]
    bench.reader.run()
    assert bench.heard == [None]
    assert not bench.journal.read_back.under_way
    assert bench.ask(2) == bench.expected[: len(bench.ask(2) or [])] != []


def test_what_is_kept_and_what_is_being_read_has_a_bound(bench: Bench) -> None:
    """Four reads here: a fifth is asked for again later. What was used longest ago makes room for it."""
    bench.reader.held = True
    places = range(2, 100, 20)
    assert [bench.ask(start) for start in places] == [None] * 5
    assert bench.reader.pending() == 4
    bench.reader.run()
    assert all(bench.ask(start) for start in (22, 42, 62, 2))
    assert bench.ask(82) is None
    assert all(bench.ask(start) for start in (42, 62, 2))
    bench.reader.run()
    assert bench.ask(82)
    assert bench.ask(22) is None


def test_entries_that_were_replaced_while_they_were_read_are_not_served(bench: Bench) -> None:
    """A truncation: what the reader brings is of the log as it was."""
    bench.reader.held = True
    assert bench.ask(90) is None
    bench.journal.truncate_from(91)
    del bench.expected[89:]
    bench.append(10, 5)
    bench.reader.run()
    assert bench.heard == [None]
    assert bench.ask(90) is None
    assert bench.rest(90) == bench.expected[88:]


def test_entries_that_were_replaced_after_they_were_read_are_not_served(bench: Bench) -> None:
    """Also of those that are kept."""
    assert bench.rest(90) == bench.expected[88:]
    bench.journal.truncate_from(91)
    del bench.expected[89:]
    bench.append(10, 5)
    assert bench.ask(90) is None
    assert bench.rest(90) == bench.expected[88:]


@pytest.mark.parametrize("how", ["trimmed", "reset"])
def test_a_segment_that_went_while_it_was_read_is_no_damage(bench: Bench, how: str) -> None:
    """A trim or a reset removed it: nobody needs what was asked for."""
    bench.reader.held = True
    assert bench.ask(2) is None
    if how == "trimmed":
        bench.journal.trim_to(100)
    else:
        bench.journal.reset(200, 4)
    bench.journal.flush()
    assert segment_name(1) not in bench.disk.names()
    bench.reader.run()
    assert bench.heard == [None]


def test_a_trim_below_what_is_read_changes_nothing(bench: Bench) -> None:
    """A follower that lags is fed while the log is trimmed behind it."""
    bench.reader.held = True
    assert bench.ask(90) is None
    bench.journal.trim_to(89)
    bench.journal.flush()
    assert bench.rest(90) == bench.expected[88:]


def test_what_is_not_what_was_written_is_told(bench: Bench) -> None:
    """A segment that is gone though it is needed, bytes that changed, a disk that gives an error: typed and named."""
    first = bench.path / segment_name(1)
    content = bytearray(first.read_bytes())
    content[1100] ^= 1
    first.write_bytes(content)
    bench.ask(2)
    first.unlink()
    bench.ask(2)
    first.mkdir()
    bench.ask(2)
    changed, gone, failed = bench.heard
    for error in (changed, gone):
        assert isinstance(error, JournalDamagedError)
        assert f"entry 2 cannot be read back from {first.name}: start the node again" in str(error)
    assert isinstance(failed, StorageError)
    assert not isinstance(failed, JournalDamagedError)
    assert bench.ask(2) is None


def test_without_a_listener_it_is_raised(tmp_path: Path) -> None:
    """A journal that no engine uses hides no damage."""
    disk = FileDisk(str(tmp_path))
    journal = Journal.open(disk, InlineWorker(), SETTINGS, ManualClock())
    journal.append(2, 1, b"x" * 100)
    journal.flush()
    assert journal.at_hand(2, 1, 1) is None
    assert journal.at_hand(2, 1, 1) == [(2, 1, b"x" * 100)]
    journal.append(3, 1, b"y" * 100)
    journal.flush()
    disk.remove(segment_name(1))
    with pytest.raises(JournalDamagedError):
        journal.at_hand(3, 1, 1)


def test_room_for_too_few_reads_is_no_setting() -> None:
    """Followers that lag at different places would push each other out for ever."""
    with pytest.raises(UsageError, match="read_back_bytes"):
        JournalSettings(read_bytes=8192, read_back_bytes=16 * 1024)
