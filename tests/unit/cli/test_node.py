"""A whole node on the test's own loop: what its listeners ask of the kernel."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.cli.cluster import found
from quorate.cli.node import Node
from quorate.settings import LISTENERS, read_settings
from tests.clusters import free_ports


class Listening(asyncio.SelectorEventLoop):
    """A loop that remembers how many connections each listener lets the kernel hold, by port."""

    def __init__(self) -> None:
        super().__init__()
        self.backlogs: dict[Any, int] = {}

    async def create_server(self, *where: Any, backlog: int = 100, **how: Any) -> asyncio.Server:
        self.backlogs[where[2]] = backlog
        return await super().create_server(*where, backlog=backlog, **how)


def with_node(
    folder: Path, monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Node, Listening], Awaitable[None]], voters: int
) -> None:
    """Run it on the first node of a new cluster; the others do not exist."""
    monkeypatch.setattr("quorate.cli.node.calm_collector", lambda: None)  # This process has other things to do.
    place, *_ = found(folder, voters, free_ports(10 * voters))
    loop = Listening()

    async def run() -> None:
        node = Node(read_settings(place.config, {}, {}))
        await node.start()
        try:
            async with asyncio.timeout(20):
                await scenario(node, loop)
        finally:
            await node.stop(handover=False)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(run())


def test_every_listener_lets_a_thousand_connections_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a thousand brokers or consumers come back at once none is sent into the seconds of a repeated SYN; asyncio's
    own hundred would send most of them.
    """

    async def scenario(node: Node, loop: Listening) -> None:
        ports = {node.settings.bind(listener)[1]: listener for listener in LISTENERS}
        backlogs = {ports[port]: backlog for port, backlog in loop.backlogs.items()}
        assert set(backlogs) == set(LISTENERS)
        assert {listener: backlog for listener, backlog in backlogs.items() if backlog < 1024} == {}

    with_node(tmp_path, monkeypatch, scenario, voters=1)
