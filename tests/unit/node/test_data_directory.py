"""A node's data directory: what it needs to open, and when another node may have it."""

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from quorate.cli.cluster import found
from quorate.clock import LoopScheduler
from quorate.consensus.storage import disk
from quorate.consensus.storage.disk import DirectoryLock
from quorate.consensus.storage.kernel_sync import KernelQueue
from quorate.errors import DirectoryInUseError, UsageError
from quorate.metrics import Metrics
from quorate.node.data import DataDirectory, free_bytes
from quorate.node.logs import logger
from quorate.node.settings import NodeSettings, read_settings
from tests.clusters import free_ports
from tests.unit.consensus.test_peers import until

PATIENCE = "quorate.node.data.STOP_PATIENCE_S"


@pytest.fixture
def settings(tmp_path: Path) -> NodeSettings:
    """Of the first of three."""
    place, *_ = found(tmp_path, 3, free_ports(30))
    return read_settings(place.config, {}, {"cluster.id": "c"})


@contextmanager
def opened(settings: NodeSettings) -> Iterator[DataDirectory]:
    """Open on the running loop; closed as a node closes it."""
    with ExitStack() as ends:
        clock = LoopScheduler(asyncio.get_running_loop())
        yield DataDirectory(settings, ends, clock, Metrics(), logger(1), sound=lambda: True, fail=_unexpected)


def _unexpected(error: BaseException) -> None:
    raise error


def in_use(settings: NodeSettings) -> bool:
    """Would another node be refused the directory?"""
    try:
        DirectoryLock(settings.node.data_dir).release()
    except DirectoryInUseError:
        return True
    return False


@pytest.mark.parametrize("of", ["worker", "store_worker", "reader"])
def test_nobody_else_has_the_directory_while_a_thread_waits_for_the_disk(
    settings: NodeSettings, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    """A node that stops while its disk hangs says so and goes; what waits behind the hung job is never written, and
    the lock is given up once that job has ended, not before.
    """
    answers, late = threading.Event(), list[int]()

    async def scenario() -> None:
        with monkeypatch.context() as patched, opened(settings) as data:
            worker = getattr(data, of)
            worker.submit(lambda: answers.wait(30), lambda: None)
            worker.submit(lambda: late.append(1), lambda: None)
            patched.setattr(PATIENCE, 0.01)
        assert in_use(settings)
        answers.set()
        await until(lambda: not in_use(settings), 30.0)

    with capture_logs() as told:
        asyncio.run(scenario())
    assert [line["data_dir"] for line in told if line["log_level"] == "critical"] == [settings.node.data_dir]
    assert not late
    asyncio.run(opened_again(settings))


async def opened_again(settings: NodeSettings) -> None:
    """Another node has it, from its store to its journal."""
    with opened(settings) as data:
        assert data.info().bytes_on_disk > 0
    assert not in_use(settings)


def test_a_journal_on_a_volume_of_its_own_is_opened(settings: NodeSettings) -> None:
    """What a file system keeps there beside the segments is no segment: who syncs the journal does not try it on that,
    whatever it is called.
    """
    for name in ("lost+found", "000-before"):
        (Path(settings.node.data_dir) / "journal" / name).mkdir(parents=True)

    async def scenario() -> None:
        with opened(settings) as data:
            assert data.disk.names()[-1] == "lost+found"
            assert data.journal_sync() == who

    with capture_logs() as told:
        try:
            KernelQueue().close(0.0)
            who = "kernel"
        except OSError:  # Not on this machine.
            who = "thread"
        asyncio.run(scenario())
    assert "lost+found" not in str(told)


@pytest.mark.parametrize("low", ["", "journal", "store"])
def test_the_volume_that_has_least_counts(settings: NodeSettings, monkeypatch: pytest.MonkeyPatch, low: str) -> None:
    """Whichever of the three is full stops the node, so what is free is what the fullest has."""
    data = Path(settings.node.data_dir)

    def volume(place: Path) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=3 if place == data / low else 7, f_frsize=4096)

    monkeypatch.setattr(os, "statvfs", volume)
    assert free_bytes(settings.node.data_dir) == 3 * 4096


def parent_cannot_be_listed(monkeypatch: pytest.MonkeyPatch, parent: Path) -> None:
    """As of a directory that may be entered alone; root is asked for no rights."""
    sync = disk.sync_directory

    def refused(path: str) -> None:
        if Path(path) == parent:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        sync(path)

    monkeypatch.setattr("quorate.node.data.sync_directory", refused)


def test_a_directory_that_is_there_needs_nothing_of_its_parent(
    settings: NodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made for this node, which may enter the parent and not list it. What the node makes itself it makes
    durable, or says why not.
    """
    data = Path(settings.node.data_dir)
    parent_cannot_be_listed(monkeypatch, data.parent)
    with pytest.raises(UsageError, match=r"node.data_dir: .* cannot be made: permission denied"):
        asyncio.run(opened_again(settings))
    assert data.is_dir()
    asyncio.run(opened_again(settings))


def test_a_file_that_goes_while_the_store_is_measured_counts_or_does_not(
    settings: NodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB removes files at any time: before one is looked at, and after."""
    look = Path.stat

    def looked(path: Path, **how: bool) -> os.stat_result:
        if path.name == "before.sst":
            path.unlink(missing_ok=True)
        status = look(path, **how)
        if path.name == "after.sst":
            path.unlink()
        return status

    async def scenario() -> None:
        with opened(settings) as data:
            store = data.path / "store"
            (store / "folder").mkdir()
            without = data.info().bytes_on_disk
            for name in ("before.sst", "after.sst"):
                (store / name).write_bytes(bytes(1000))
            with monkeypatch.context() as patched:
                patched.setattr(Path, "stat", looked)
                assert data.info().bytes_on_disk == without + 1000
            assert data.info().bytes_on_disk == without

    asyncio.run(scenario())
