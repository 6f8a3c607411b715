"""Real files, the lock, and the thread that waits for the disk."""

import asyncio
import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from quorate.consensus.storage.disk import DirectoryLock, FileDisk, FileVoterFile, StoreFolder, ThreadWorker
from quorate.consensus.storage_settings import StoreSettings
from quorate.errors import DiskFullError, StorageError, UsageError
from tests.stand_ins import InlineWorker


@pytest.fixture
def disk(tmp_path: Path) -> FileDisk:
    return FileDisk(str(tmp_path / "journal"))


def test_a_new_file_is_written_zeros(disk: FileDisk, tmp_path: Path) -> None:
    """Zeros are written, not only promised: the file occupies its blocks."""
    disk.create("a", 300_000)
    assert disk.read("a") == bytes(300_000)
    assert (tmp_path / "journal" / "a").stat().st_blocks * 512 >= 300_000


def test_bytes_come_back(disk: FileDisk) -> None:
    """Reads give what was written, short at the end of the file, empty beyond it."""
    disk.create("a", 100)
    disk.write("a", 90, b"0123456789")
    disk.sync("a")
    assert disk.read("a", 92, 4) == b"2345"
    assert disk.read("a", 95) == b"56789"
    assert disk.read("a", 95, 50) == b"56789"
    assert disk.read("a", 200) == b""


def changes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names that are made, changed and taken away, and syncs of a file or of its directory, from now on, in order."""
    seen = list[str]()
    fsync, opened, rename, unlink = os.fsync, os.open, os.rename, os.unlink

    def on_fsync(fd: int) -> None:
        fsync(fd)
        seen.append("directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")

    def on_open(path: str, flags: int, *mode: int, **more: Any) -> int:
        if flags & os.O_CREAT:
            seen.append("name")
        return opened(path, flags, *mode, **more)

    def on_rename(*paths: Any, **more: Any) -> None:
        rename(*paths, **more)
        seen.append("name")

    def on_unlink(*path: Any, **more: Any) -> None:
        unlink(*path, **more)
        seen.append("name")

    for name, function in (("fsync", on_fsync), ("open", on_open), ("rename", on_rename), ("unlink", on_unlink)):
        monkeypatch.setattr(os, name, function)
    return seen


@pytest.mark.parametrize("what", ["created", "removed", "voter file", "store set aside"])
def test_a_name_is_durable_before_anybody_relies_on_it(
    disk: FileDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A power loss may take the name of a file whose bytes were synced, or bring an older file back: the directory is
    synced after every change of a name, and a new file's bytes before.
    """
    disk.create("old", 10)
    (tmp_path / "store").mkdir()
    seen = changes(monkeypatch)
    match what:
        case "created":
            disk.create("a", 10)
        case "removed":
            disk.remove("old")
        case "voter file":
            FileVoterFile(str(tmp_path)).replace(b"{}")
        case _:
            StoreFolder(str(tmp_path), StoreSettings()).set_aside("1")
    assert "name" in seen
    assert seen[-1] == "directory"
    if what in ("created", "voter file"):
        assert "file" in seen[seen.index("name") :]
    assert seen.count("directory") == 1


def test_a_file_that_finds_no_room_leaves_nothing(disk: FileDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written of it is given back, and the name is free: others need the room more."""

    def full(fd: int, data: bytes, offset: int) -> None:
        if offset:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("quorate.consensus.storage.disk._write_all", full)
        with pytest.raises(DiskFullError, match=r"create a: .*No space left"):
            disk.create("a", 3_000_000)
    assert disk.names() == []
    disk.create("a", 10)
    assert disk.read("a") == bytes(10)


def test_names_are_sorted_and_follow_removal(disk: FileDisk) -> None:
    """``names`` lists what is there; a removed file can be created again."""
    for name in ("b", "a", "c"):
        disk.create(name, 10)
    assert disk.names() == ["a", "b", "c"]
    disk.write("b", 0, b"x")
    disk.remove("b")
    assert disk.names() == ["a", "c"]
    disk.create("b", 5)
    assert disk.read("b") == bytes(5)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda disk: disk.read("absent"),
        lambda disk: disk.write("absent", 0, b"x"),
        lambda disk: disk.sync("absent"),
        lambda disk: disk.remove("absent"),
        lambda disk: disk.create("there", 10),
    ],
)
def test_every_failure_is_a_storage_error(disk: FileDisk, wrong: Callable[[FileDisk], object]) -> None:
    """Whatever the system says, the caller sees StorageError, and what was there stays."""
    disk.create("there", 3)
    disk.write("there", 0, b"abc")
    with pytest.raises(StorageError):
        wrong(disk)
    assert disk.names() == ["there"]
    assert disk.read("there") == b"abc"


@pytest.mark.parametrize(
    "late",
    [
        lambda disk: disk.write("there", 0, b"x"),
        lambda disk: disk.sync("there"),
        lambda disk: disk.descriptor("there"),
        lambda disk: disk.remove("there"),
        lambda disk: disk.create("fresh", 10),
    ],
)
def test_nothing_is_written_after_the_directory_was_closed(
    tmp_path: Path, disk: FileDisk, late: Callable[[FileDisk], object]
) -> None:
    """It may be another node's by then: a file is not opened again by its name."""
    disk.create("there", 3)
    disk.write("there", 0, b"abc")
    disk.close()
    with pytest.raises(StorageError, match="closed"):
        late(disk)
    again = FileDisk(str(tmp_path / "journal"))
    assert again.names() == ["there"]
    assert again.read("there") == b"abc"


def test_a_directory_that_cannot_be_is_a_storage_error(tmp_path: Path) -> None:
    """A file in the way is named."""
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file"):
        FileDisk(str(tmp_path / "file" / "journal"))
    with pytest.raises(StorageError, match="file"):
        DirectoryLock(str(tmp_path / "file"))


def test_two_nodes_cannot_share_a_directory(tmp_path: Path) -> None:
    """The second process is refused and told why; after the first is gone it may."""
    lock = DirectoryLock(str(tmp_path))
    probe = f"from quorate.consensus.storage.disk import DirectoryLock; DirectoryLock({str(tmp_path)!r})"

    def second() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=False)

    refused = second()
    assert refused.returncode != 0
    assert "in use by another node" in refused.stderr
    with pytest.raises(UsageError):
        DirectoryLock(str(tmp_path))
    lock.release()
    lock.release()
    assert second().returncode == 0


class Loop:
    """A loop with a worker; ``run`` turns it until a condition holds."""

    def __init__(self, jobs_max: int = 100) -> None:
        self.loop = asyncio.new_event_loop()
        self.fatal: list[BaseException] = []
        self.worker = ThreadWorker(self.loop, self.fatal.append, jobs_max)

    def run(self, until: Callable[[], bool], timeout_s: float = 30.0) -> None:
        async def turn() -> None:
            async with asyncio.timeout(timeout_s):
                while not until():  # noqa: ASYNC110 - the condition is the test's
                    await asyncio.sleep(0.001)

        self.loop.run_until_complete(turn())

    def close(self) -> None:
        assert self.worker.close(10.0)
        self.loop.close()


def wait_for(gate: threading.Event) -> None:
    assert gate.wait(10)


@pytest.fixture
def node() -> "Loop":
    return Loop()


def test_jobs_run_in_order_on_one_other_thread(node: Loop) -> None:
    """Jobs and their reports keep the order of submission; jobs run on one thread, reports on the loop's."""
    jobs: list[tuple[int, int]] = []
    reports: list[tuple[int, int]] = []
    for number in range(100):
        node.worker.submit(
            lambda n=number: jobs.append((n, threading.get_ident())),  # type: ignore[misc]
            lambda n=number: reports.append((n, threading.get_ident())),  # type: ignore[misc]
        )
    node.run(lambda: len(reports) == 100)
    assert [number for number, _ in jobs] == [number for number, _ in reports] == list(range(100))
    assert len({thread for _, thread in jobs}) == 1
    assert {thread for _, thread in reports} == {threading.get_ident()} != {thread for _, thread in jobs}
    assert node.worker.pending() == 0
    node.close()


def test_jobs_that_end_while_the_loop_is_busy_cost_one_wake_up(node: Loop) -> None:
    """Reports are grouped: one ``call_soon_threadsafe`` for all jobs that ended since the last look."""
    wakes: list[int] = []
    call = node.loop.call_soon_threadsafe

    def counted(callback: Callable[[], None], context: Context) -> asyncio.Handle:
        wakes.append(1)
        return call(callback, context=context)

    node.loop.call_soon_threadsafe = counted  # type: ignore[method-assign, assignment]
    ended = threading.Event()
    done: list[int] = []
    for number in range(50):
        node.worker.submit(lambda: None, lambda n=number: done.append(n))  # type: ignore[misc]
    node.worker.submit(ended.set, lambda: done.append(-1))
    assert ended.wait(10)
    node.run(lambda: len(done) == 51)
    assert len(wakes) <= 2
    node.close()


def test_a_report_runs_in_the_context_of_the_worker_s_maker() -> None:
    """What tells in the log whose line it is outlives the way over the thread, for each of several workers."""
    whose, seen = ContextVar("whose", default=0), list[int]()

    def made(number: int) -> Loop:
        whose.set(number)
        return Loop()

    nodes = [copy_context().run(made, number) for number in (1, 2)]
    for number, node in enumerate(nodes, 1):
        node.worker.submit(lambda: None, lambda: seen.append(whose.get()))
        node.run(partial(lambda number: len(seen) == number, number))
        node.close()
    assert seen == [1, 2]


def test_a_failed_job_stops_everything(node: Loop) -> None:
    """The first job that raises is reported once as fatal; no later job runs, no later report comes."""
    ran: list[str] = []

    def fail() -> None:
        raise StorageError("sync failed")

    node.worker.submit(lambda: ran.append("first"), lambda: ran.append("first reported"))
    node.worker.submit(fail, lambda: ran.append("failure reported"))
    node.worker.submit(lambda: ran.append("later"), lambda: ran.append("later reported"))
    node.run(lambda: bool(node.fatal))
    node.worker.submit(lambda: ran.append("much later"), lambda: None)
    node.close()
    assert ran == ["first", "first reported"]
    assert [str(error) for error in node.fatal] == ["sync failed"]


def test_a_report_that_raises_is_fatal_too(node: Loop) -> None:
    """An image that could not take its report is wrong: the node stops, later reports are not delivered."""
    later: list[int] = []

    def fail() -> None:
        raise ValueError("bad report")

    node.worker.submit(lambda: None, fail)
    node.worker.submit(lambda: None, lambda: later.append(1))
    node.run(lambda: bool(node.fatal))
    node.close()
    assert [str(error) for error in node.fatal] == ["bad report"]
    assert later == []


def test_the_queue_is_bounded() -> None:
    """More jobs than the limit are refused by StorageError while the disk is stuck, and the others still run."""
    node = Loop(jobs_max=3)
    gate, done = threading.Event(), []
    node.worker.submit(lambda: wait_for(gate), lambda: done.append(0))
    node.worker.submit(lambda: None, lambda: done.append(1))
    node.worker.submit(lambda: None, lambda: done.append(2))
    with pytest.raises(StorageError):
        node.worker.submit(lambda: None, lambda: done.append(3))
    assert node.worker.pending() == 3
    gate.set()
    node.run(lambda: len(done) == 3)
    node.close()


def test_close_finishes_what_was_submitted_and_says_if_it_could_not(node: Loop) -> None:
    """A stuck disk cannot keep a stopping node for longer than the given time; then what waits behind it never runs."""
    finished: list[int] = []
    node.worker.submit(lambda: None, lambda: None)
    node.worker.submit(lambda: finished.append(1), lambda: None)
    node.close()
    assert finished == [1]
    node = Loop()
    gate, ran = threading.Event(), []
    node.worker.submit(lambda: wait_for(gate), lambda: None)
    node.worker.submit(lambda: ran.append(1), lambda: None)
    assert not node.worker.close(0.01)
    gate.set()
    node.close()
    assert ran == []


def test_the_inline_worker_keeps_order_even_when_a_report_submits() -> None:
    """A job submitted by a report runs after those that waited before it."""
    worker, ran = InlineWorker(), []
    worker.held = True
    worker.submit(lambda: ran.append("a"), lambda: worker.submit(lambda: ran.append("c"), lambda: None))
    worker.submit(lambda: ran.append("b"), lambda: None)
    assert (ran, worker.pending()) == ([], 2)
    worker.held = False
    worker.run()
    assert ran == ["a", "b", "c"]
