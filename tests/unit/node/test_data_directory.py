"""A node's data directory: what it needs to open, and when another node may have it."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from quorate.cli.cluster import found
from quorate.clock import LoopScheduler
from quorate.consensus.storage.disk import DirectoryLock
from quorate.errors import DirectoryInUseError
from quorate.metrics import Metrics
from quorate.node.data import DataDirectory
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
