"""The scrub reads what lies on disk, slowly, and raises what is damaged by its name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.consensus.journal.frames import segment_name
from quorate.consensus.journal.journal import Journal, JournalDamagedError
from quorate.consensus.ports import StoreOp, Term
from quorate.consensus.storage.disk import FileDisk
from quorate.consensus.storage.event_log import EventLog
from quorate.consensus.storage.scrub import Scrub
from quorate.consensus.storage.store import StoreDamagedError, applied_ops, offset_key
from quorate.consensus.storage_settings import EventLogSettings, JournalSettings, ScrubSettings
from quorate.errors import StorageError
from tests.stand_ins import InlineWorker, MemoryStore
from tests.unit.consensus.raft_cluster import VirtualTime
from tests.unit.consensus.test_event_log import batch

SETTINGS = ScrubSettings(bytes_per_s=1000, slice_bytes=500, period_s=1000.0)


class Rig:
    """A store of forty batches and some rows, a journal of several segments, and a scrub over them."""

    def __init__(self, folder: Path) -> None:
        self.time, self.folder = VirtualTime(), folder
        self.store = MemoryStore()
        self.log = EventLog(self.store, EventLogSettings(tail_batches=0))
        for number in range(40):
            described = (number, 1, Term(1 + number // 15), batch(number, 1, 1 + number // 15, number))
            rows = [StoreOp("rows", b"%d" % number, b"x" * 100), StoreOp("history", b"%d" % number, b"x" * 100)]
            self.store.write([*self.log.ops_for(*described), *applied_ops(number + 2, 3, number + 1, 0), *rows])
            self.log.publish([described])
        self.disk, worker = FileDisk(str(folder)), InlineWorker()
        journal = JournalSettings(max_entry_bytes=4096, segment_bytes=8 * 1024)
        self.journal = Journal.open(self.disk, worker, journal, self.time)
        for index in range(2, 60):
            self.journal.append(index, 1, b"e" * (3000 if index % 10 == 0 else 200))
            self.journal.flush()
        self.worker = InlineWorker()
        self.scrub = Scrub(self.store, self.log, self.journal, self.disk, self.worker, self.time, SETTINGS)

    def sealed(self) -> Path:
        """A sealed segment in the middle."""
        return self.folder / segment_name(self.journal.sealed_segments()[1])


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """One of each."""
    return Rig(tmp_path)


def test_a_pass_reads_everything_in_slices(rig: Rig) -> None:
    """All batches, rows and sealed frames, and none much longer than a slice allows."""
    slices = list(rig.scrub.slices())
    sealed = len(rig.journal.sealed_segments())
    assert sealed >= 3
    assert sum(slices) > 40 * 100 + 2 * 40 * 100 + (sealed - 1) * 5000
    assert max(slices) <= 3100


def test_a_pass_reads_the_disk_and_not_what_memory_remembers(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store forgets what it read once, before anything is read of it; the kernel each segment, before its head."""
    done: list[str] = []
    forget, peek, scan = rig.store.forget_reads, rig.disk.peek, rig.store.scan

    def noted(call: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        def noting(*args: Any) -> Any:
            done.append(name(*args))
            return call(*args)

        return noting

    monkeypatch.setattr(rig.store, "forget_reads", noted(forget, lambda: "forget the store"))
    monkeypatch.setattr(rig.store, "scan", noted(scan, lambda *_: "scan"))
    monkeypatch.setattr(rig.disk, "forget_reads", noted(rig.disk.forget_reads, lambda name: f"forget {name}"))
    monkeypatch.setattr(rig.disk, "peek", noted(peek, lambda name, *_: f"read {name}"))
    list(rig.scrub.slices())
    segments = [segment_name(number) for number in rig.journal.sealed_segments()]
    assert list(dict.fromkeys(done)) == [
        "forget the store",
        "scan",
        *(did for name in segments for did in (f"forget {name}", f"read {name}")),
    ]
    assert [what for what in done if what.startswith("forget")] == [
        "forget the store",
        *(f"forget {name}" for name in segments),
    ]


def test_a_pass_takes_its_time_and_comes_again(rig: Rig) -> None:
    """At the rate of the settings, and once a period; not after ``stop``."""
    expected = sum(rig.scrub.slices())
    rig.scrub.start()
    rig.time.run(expected / 1000 * 0.5)
    assert 0 < rig.scrub.bytes_read <= expected * 0.6
    assert rig.scrub.passes == 0
    rig.time.run(expected / 1000 * 2)
    assert (rig.scrub.passes, rig.scrub.bytes_read) == (1, expected)
    rig.time.run(1000)
    assert rig.scrub.passes == 2
    rig.scrub.stop()
    rig.time.run(5000)
    assert rig.scrub.passes == 2


def test_nothing_is_read_on_the_loop(rig: Rig) -> None:
    """Every slice is a job of the worker: while that is held nothing is read."""
    rig.worker.held = True
    rig.scrub.start()
    rig.time.run(100)
    assert (rig.scrub.bytes_read, rig.worker.pending()) == (0, 1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda store: store.write([StoreOp("events", offset_key(20), None)]), "offset 20 is missing"),
        (lambda store: store.write([StoreOp("events", offset_key(39), None)]), "offset 39 is missing"),
        (lambda store: store.write([StoreOp("events", offset_key(20), batch(20, 1, 2, 9)[:-1] + b"y")]), "offset 20"),
        (lambda store: store.write([StoreOp("events", offset_key(20), batch(20, 1, 3, 20))]), "term 3"),
        (lambda store: store.write([StoreOp("events", offset_key(20), batch(20, 1, 1, 20))]), "term 1"),
    ],
)
def test_a_batch_that_is_not_what_was_written_is_met(
    rig: Rig, change: Callable[[MemoryStore], None], reason: str
) -> None:
    """Missing, changed, or of another term than its place."""
    change(rig.store)
    with pytest.raises(StoreDamagedError, match=reason):
        list(rig.scrub.slices())


@pytest.mark.parametrize("at", [3, 60, 520, 1030, 1100, 4000, 5000])
def test_a_sealed_segment_that_changed_is_met(rig: Rig, at: int) -> None:
    """In its header, its seal, the header or payload of a frame, a frame larger than a slice: by the segment's name."""
    path = rig.sealed()
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(JournalDamagedError, match=f"{path.name}.*start the node again"):
        list(rig.scrub.slices())


def test_a_cut_segment_is_met_and_one_that_was_removed_is_not(rig: Rig) -> None:
    """Short of what its seal says; gone, as trimming leaves it."""
    path = rig.sealed()
    data = path.read_bytes()
    path.write_bytes(data[:3000])
    with pytest.raises(JournalDamagedError, match=path.name):
        list(rig.scrub.slices())
    path.unlink()
    list(rig.scrub.slices())


def test_an_entry_that_cannot_be_read_back_names_file_and_remedy(tmp_path: Path) -> None:
    """What left memory is checked as it comes back from its segment."""
    disk = FileDisk(str(tmp_path))
    settings = JournalSettings(max_entry_bytes=4096, segment_bytes=8 * 1024, tail_entries=2)
    journal = Journal.open(disk, InlineWorker(), settings, VirtualTime())
    for index in range(2, 20):
        journal.append(index, 1, b"e" * 100)
        journal.flush()
    disk.write(segment_name(1), 1100, b"?")
    with pytest.raises(StorageError, match=r"entry 2 cannot be read back from .*journal: start the node again"):
        journal.entry(2)
