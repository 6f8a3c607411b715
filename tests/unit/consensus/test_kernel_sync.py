"""Syncs by the kernel: durable before anybody hears of it, final when they fail, the thread's when refused or slow."""

import asyncio
import errno
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quorate.consensus.journal.journal import Journal
from quorate.consensus.ports import NodeId
from quorate.consensus.storage.disk import FileDisk
from quorate.consensus.storage.kernel_sync import KernelQueue, KernelSync, kernel_sync
from quorate.consensus.storage_settings import JournalSettings
from quorate.errors import StorageError, UsageError
from quorate.metrics import Metrics
from tests.stand_ins import InlineWorker, ManualClock

SMALL = JournalSettings(segment_bytes=4096, max_entry_bytes=512, read_bytes=4096)


class Syncer:
    """The port: takes what it is given, unless told not to, and is done when told to be."""

    def __init__(self, disk: FileDisk) -> None:
        self.disk = disk
        self.refuses = self.refuses_after = False
        self.waiting: Callable[[], None] | None = None
        self.taken = 0

    def write(self, name: str, offset: int, data: bytes, done: Callable[[], None]) -> bool:
        assert self.waiting is None
        if self.refuses:
            return False
        self.disk.write(name, offset, data)
        if self.refuses_after:
            return False
        self.taken += 1
        self.waiting = done
        return True

    def end(self) -> None:
        done, self.waiting = self.waiting, None
        assert done is not None
        done()


class Bench:
    """A journal whose syncs are ended by hand, on real files."""

    def __init__(self, path: Path) -> None:
        self.disk = FileDisk(str(path))
        self.worker = InlineWorker()
        self.journal = Journal.open(self.disk, self.worker, SMALL, ManualClock())
        self.syncer = Syncer(self.disk)
        self.journal.syncer = self.syncer

    def append(self, size: int = 100) -> None:
        index = self.journal.last_index + 1
        self.journal.append(index, 1, bytes([index % 256]) * size)
        self.journal.flush()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "journal")


def test_what_comes_during_a_sync_waits_for_its_end_and_is_one_sync(bench: Bench) -> None:
    """Nothing is durable before the sync's end, and what was appended meanwhile is written and synced together."""
    journal, told = bench.journal, list[int]()
    journal.on_durable = lambda: told.append(journal.durable_index)
    bench.append()
    bench.append()
    bench.append()
    assert (journal.durable_index, told, bench.syncer.taken) == (1, [], 1)
    bench.syncer.end()
    assert (journal.durable_index, told, bench.syncer.taken) == (2, [2], 2)
    bench.syncer.end()
    assert (journal.durable_index, told, bench.syncer.taken, journal.syncs) == (4, [2, 4], 2, 2)
    assert journal.oldest_unsynced_since() is None


def test_a_new_segment_is_the_workers_and_comes_after_the_sync(bench: Bench) -> None:
    """While a sync is under way the worker gets nothing, and while the worker is at it nor does the syncer."""
    journal = bench.journal
    bench.append()
    while len(journal._segments) == 1:
        bench.append(500)
    bench.worker.held = True
    assert bench.worker.pending() == 0
    bench.syncer.end()
    assert (bench.worker.pending(), bench.syncer.waiting) == (1, None)
    bench.append()
    assert bench.syncer.waiting is None
    bench.worker.held = False
    bench.worker.run()
    assert journal.durable_index == journal.last_index
    bench.append()
    assert bench.syncer.waiting is not None


def test_a_segment_begun_without_an_operation_is_reported_too(bench: Bench) -> None:
    """A start behind a torn write begins a segment and nothing else: nothing counts as unsynced after that."""
    journal = bench.journal
    bench.append()
    bench.syncer.end()
    journal._rotate()
    journal.flush()
    assert (journal.oldest_unsynced_since(), journal.durable_index) == (None, 2)


def test_what_is_truncated_during_a_sync_is_not_called_durable_by_it(bench: Bench) -> None:
    """The sync vouches for its operations, and not for the entries that replaced its own since."""
    journal = bench.journal
    bench.append()
    bench.append()
    bench.syncer.end()
    journal.truncate_from(3)
    journal.append(3, 2, b"other")
    journal.flush()
    bench.syncer.end()
    assert (journal.durable_index, journal.durable_seq) == (2, 2)
    bench.syncer.end()
    assert (journal.durable_index, journal.durable_seq) == (3, 4)


@pytest.mark.parametrize("seed", range(20))
def test_the_log_on_disk_is_the_same_whoever_writes_it(tmp_path: Path, seed: int) -> None:
    """The thread, the kernel, and a kernel that refuses at times, also after the write: what is read back is equal."""
    written: list[object] = []
    for way in ("thread", "kernel"):
        bench, dice, luck = Bench(tmp_path / way), random.Random(seed), random.Random(seed + 1)
        journal = bench.journal
        if way == "thread":
            journal.syncer = None
        for _ in range(60):
            bench.syncer.refuses, bench.syncer.refuses_after = luck.random() < 0.1, luck.random() < 0.1
            if dice.random() < 0.1 and journal.last_index > max(3, journal.first_index):
                journal.truncate_from(journal.last_index - 1)
            journal.append(journal.last_index + 1, journal.last_term + 1, dice.randbytes(dice.randrange(400)))
            if dice.random() < 0.2:
                journal.set_vote(journal.term + 1, NodeId(2))
            if dice.random() < 0.7:
                journal.flush()
            if bench.syncer.waiting is not None and luck.random() < 0.5:
                bench.syncer.end()
        journal.flush()
        while bench.syncer.waiting is not None:
            bench.syncer.end()
        assert (journal.durable_index, journal.durable_seq) == (journal.last_index, journal.seq)
        bench.disk.close()
        read = Bench(tmp_path / way).journal
        assert (read.seq, read.last_index) == (journal.seq, journal.last_index)
        written.append((read.term, read.voted_for, read.entries(read.first_index, 1 << 30, 1 << 30)))
    assert written[0] == written[1]


# ── the kernel itself ──


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


class Rig:
    """A KernelSync on a file, and what it reports."""

    def __init__(self, loop: asyncio.AbstractEventLoop, path: Path, queue: KernelQueue | None = None, **chosen: object):
        self.loop = loop
        self.disk = FileDisk(str(path))
        self.disk.create("file", 4096)
        self.fatal: list[BaseException] = []
        self.done: list[int] = []
        self.metrics = Metrics()
        settings = JournalSettings(**chosen)  # type: ignore[arg-type]
        self.sync = KernelSync(loop, self.disk, "file", settings, self.fatal.append, self.metrics, queue)

    def write(self, number: int) -> bool:
        return self.sync.write("file", number * 8, b"%08d" % number, lambda: self.done.append(number))

    def run(self, until: Callable[[], object]) -> None:
        async def wait() -> None:
            deadline = time.monotonic() + 10
            while not until():
                assert time.monotonic() < deadline
                await asyncio.sleep(0.001)

        self.loop.run_until_complete(wait())


def test_the_kernel_syncs_and_the_loop_hears_of_it(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """One after the other, each reported once, and counted; while one is under way another is not taken."""
    rig = Rig(loop, tmp_path)
    for number in range(20):
        assert rig.write(number)
        assert not rig.write(number)
        assert rig.done == list(range(number))
        rig.run(lambda number=number: len(rig.done) > number)  # type: ignore[misc]
    assert rig.disk.read("file", 19 * 8, 8) == b"%08d" % 19
    assert (rig.metrics.fsyncs, rig.fatal) == (20, [])
    assert rig.sync.close(5.0)


class Scripted(KernelQueue):
    """The kernel's queue, with what it answers."""

    refuses: BaseException | None = None
    outcome = 0

    def submit(self, fd: int) -> None:
        if self.refuses is not None:
            raise self.refuses
        super().submit(fd)

    def result(self) -> int | None:
        return None if super().result() is None else self.outcome


def test_a_failed_sync_stops_the_node_and_nothing_is_reported_after_it(
    loop: asyncio.AbstractEventLoop, tmp_path: Path
) -> None:
    """EIO: told once, by name; what is written later is taken and never reported, for no thread may vouch for it."""
    queue = Scripted()
    rig = Rig(loop, tmp_path, queue)
    queue.outcome = errno.EIO
    assert rig.write(1)
    rig.run(lambda: rig.fatal)
    queue.outcome = 0
    assert rig.write(2)
    loop.run_until_complete(asyncio.sleep(0.05))
    assert rig.done == [] and rig.metrics.fsyncs == 0
    assert [str(error) for error in rig.fatal] == [f"sync file: {os.strerror(errno.EIO)}"]
    assert isinstance(rig.fatal[0], StorageError)


def test_a_report_that_cannot_be_taken_stops_the_node(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """As with the thread: an image that could not take its report is wrong."""
    rig = Rig(loop, tmp_path)

    def refuse() -> None:
        raise ValueError("bad report")

    assert rig.sync.write("file", 0, b"x", refuse)
    rig.run(lambda: rig.fatal)
    assert [str(error) for error in rig.fatal] == ["bad report"]


def test_what_the_kernel_refuses_later_is_the_threads_for_a_while(
    loop: asyncio.AbstractEventLoop, tmp_path: Path
) -> None:
    """A refused ``io_submit`` stops nobody; it is tried again after the time of the setting."""
    queue = Scripted()
    rig = Rig(loop, tmp_path, queue, loop_retry_s=0.05)
    queue.refuses = OSError(errno.EAGAIN, "full")
    assert not rig.write(1) and not rig.sync.active
    queue.refuses = None
    assert not rig.write(1)
    rig.run(lambda: rig.sync.active)
    assert rig.write(1)
    rig.run(lambda: rig.done == [1])
    assert rig.fatal == []


class SlowDisk(FileDisk):
    """Its page cache makes writers wait, as ext4 does while it commits."""

    waits_s = 0.004
    writes = 0

    def write(self, name: str, offset: int, data: bytes) -> None:
        self.writes += 1
        threading.Event().wait(self.waits_s)  # As one that is put to sleep by the kernel.
        super().write(name, offset, data)


@pytest.mark.parametrize(("way", "stays"), [("auto", False), ("kernel", True)])
def test_a_slow_disk_holds_up_the_loop_for_a_few_writes_only(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, way: str, stays: bool
) -> None:
    """At 4 ms a write the thread has them after sixteen at most; unless an operator chose the kernel."""
    rig = Rig(loop, tmp_path, sync=way, loop_retry_s=60.0)
    slow = rig.sync._disk = SlowDisk(str(tmp_path))
    for number in range(30):
        if rig.write(number):
            rig.run(lambda number=number: number in rig.done)  # type: ignore[misc]
    assert (slow.writes == 30) is stays and (stays or slow.writes <= 16)
    assert rig.sync.active is stays


def test_two_long_waits_are_enough(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """A write that held up the loop for 50 ms is looked at again, and the next one is the last there for a while."""
    rig = Rig(loop, tmp_path)
    slow = rig.sync._disk = SlowDisk(str(tmp_path))
    slow.waits_s = 0.05
    assert rig.write(1) and rig.sync.active
    rig.run(lambda: rig.done == [1])
    assert rig.write(2) and not rig.sync.active


def test_a_busy_machine_is_no_slow_disk(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """A write that takes long because others had the processor is not the disk's: the kernel goes on."""

    class BusyDisk(FileDisk):
        def write(self, name: str, offset: int, data: bytes) -> None:
            until = time.perf_counter() + 0.004
            while time.perf_counter() < until:
                pass
            super().write(name, offset, data)

    rig = Rig(loop, tmp_path)
    rig.sync._disk = BusyDisk(str(tmp_path))
    for number in range(30):
        assert rig.write(number)
        rig.run(lambda number=number: number in rig.done)  # type: ignore[misc]
    assert rig.sync.active


def test_closing_waits_for_the_sync_and_reports_nothing(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """A node that stops hears no more of its disk."""
    rig = Rig(loop, tmp_path)
    assert rig.write(1)
    assert rig.sync.close(5.0)
    loop.run_until_complete(asyncio.sleep(0.02))
    assert rig.done == []


def test_an_operator_chooses_and_is_told(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """The thread by choice, or for the kernel's refusal, which is told; with ``kernel`` that refuses the start."""
    told: list[str] = []

    def refuse() -> KernelSync:
        raise OSError(errno.EPERM, "io_setup: not permitted")

    rig = Rig(loop, tmp_path)
    assert kernel_sync(lambda: rig.sync, JournalSettings(sync="thread"), told.append) is None
    assert kernel_sync(lambda: rig.sync, JournalSettings(), told.append) is rig.sync
    assert told == []
    assert kernel_sync(refuse, JournalSettings(), told.append) is None
    assert "io_setup" in told[0]
    with pytest.raises(UsageError, match="refused here"):
        kernel_sync(refuse, JournalSettings(sync="kernel"), told.append)


def test_a_probe_that_cannot_be_opened_is_a_refusal(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """The thread syncs instead, and the queue is given back; with ``kernel`` the start is refused."""
    told: list[str] = []
    disk = FileDisk(str(tmp_path / "journal"))
    queues: list[KernelQueue] = []

    class Queue(KernelQueue):
        def __init__(self) -> None:
            self.eventfd, self.busy = os.eventfd(0), False
            self._call, self._destroy, self._context = (lambda *_: 0), None, None  # type: ignore[assignment]
            queues.append(self)

    def probe() -> KernelSync:
        return KernelSync(loop, disk, "absent", SMALL, told.append, Metrics(), Queue())  # type: ignore[arg-type]

    assert kernel_sync(probe, JournalSettings(), told.append) is None
    assert "absent" in told[0]
    with pytest.raises(UsageError, match="refused here: open absent"):
        kernel_sync(probe, JournalSettings(sync="kernel"), told.append)
    for queue in queues:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(queue.eventfd)


FORBIDDEN = """
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def rule(code, jt, jf, k): return struct.pack("<HBBI", code, jt, jf, k)
setup = {"x86_64": 206, "aarch64": 0}[__import__("platform").machine()]
code = rule(0x20, 0, 0, 0) + rule(0x15, 0, 1, setup) + rule(0x06, 0, 0, 0x00050001) + rule(0x06, 0, 0, 0x7FFF0000)
text = ctypes.create_string_buffer(code)
program = struct.pack("<HxxxxxxQ", 4, ctypes.addressof(text))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0
from quorate.consensus.storage.kernel_sync import KernelQueue
try:
    KernelQueue()
except OSError as error:
    print(error.errno, error)
"""


def test_a_filter_that_forbids_it_is_told_apart() -> None:
    """Under seccomp, as in some containers, the kernel's refusal is an OSError that says so, and the thread is used."""
    ran = subprocess.run([sys.executable, "-c", FORBIDDEN], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.startswith(f"{errno.EPERM} ") and "io_setup" in ran.stdout, ran.stderr


@pytest.mark.parametrize("machine", ["sparc", "x86_64"])
def test_a_machine_whose_numbers_are_not_known_is_refused(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    """No call with a number that may mean something else there."""
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(sys, "platform", "linux" if machine == "sparc" else "plan9")
    with pytest.raises(OSError, match="not known here"):
        KernelQueue()
