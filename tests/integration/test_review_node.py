"""Whole nodes on one loop: what an adversary's reading of their start and end turned up."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from quorate.cli.cluster import found
from quorate.consensus.raft.pysyncobj_engine import PySyncObjEngine
from quorate.consensus.storage.disk import FileDisk
from quorate.controller.outcomes import Caller
from quorate.errors import UsageError
from quorate.metadata.commands import ChangeConfig
from quorate.node import Node
from quorate.node.settings import read_settings
from tests.clusters import free_ports

PATIENCE_S = 20.0


async def until(condition: Callable[[], object]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - many nodes, no one event
            await asyncio.sleep(0.002)


def nodes(folder: Path, count: int) -> list[Node]:
    """A cluster, not started."""
    places = found(folder, count, free_ports(10 * count))
    return [Node(read_settings(place.config, {}, {})) for place in places]


def test_slow_disks_do_not_prevent_a_handover(tmp_path: Path) -> None:
    """A leader that is told to stop while the others still write what it sent waits for them, within its patience."""
    asyncio.run(_hand_over(tmp_path))


async def _hand_over(tmp_path: Path) -> None:
    cluster = nodes(tmp_path, 3)
    await asyncio.gather(*(node.start() for node in cluster))
    try:
        await until(lambda: any(node.core.controller.is_leader for node in cluster))
        leader = next(node for node in cluster if node.core.controller.is_leader)
        others = [node for node in cluster if node is not leader]
        await until(lambda: all(len(node.core.machine.state.nodes) == 3 for node in cluster))
        for node in others:
            node.running.data.disk.sync = slowly(node.running.data.disk)  # type: ignore[method-assign, assignment]
        change = ChangeConfig("cluster", {"note": "in flight"})
        leader.core.controller.submit(change, Caller("test", "here"), lambda _: None)
        await leader.stop(handover=True)
        await until(lambda: any(node.core.controller.is_leader for node in others))
        successor = next(node for node in others if node.core.controller.is_leader)
        engine = successor.core.engine
        assert isinstance(engine, PySyncObjEngine)
        assert engine._elections.cause.kind == "handed over"
    finally:
        for node in cluster:
            await node.stop(handover=False)


def slowly(disk: FileDisk) -> Callable[[str], None]:
    """Its sync, a tenth of a second later."""
    sync = disk.sync

    def late(name: str) -> None:
        time.sleep(0.1)
        sync(name)

    return late


def test_the_data_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """A node pointed at another cluster's folder refuses it by name; a damaged journal there is not erased."""
    asyncio.run(_somebody_elses(tmp_path))


async def _somebody_elses(tmp_path: Path) -> None:
    theirs, ours = nodes(tmp_path / "theirs", 3)[0], nodes(tmp_path / "ours", 3)[0]
    await theirs.start()
    await theirs.stop(handover=False)
    segment = next((tmp_path / "theirs" / "n1" / "data" / "journal").iterdir())
    segment.write_bytes(b"damaged" + segment.read_bytes()[7:])
    before = segment.read_bytes()
    ours.settings = msgspec.structs.replace(ours.settings, node=theirs.settings.node)
    with pytest.raises(UsageError, match="belongs to cluster_id"):
        await ours.start()
    assert segment.read_bytes() == before
