"""A whole node on the test's own loop: what its listeners ask of the kernel, and what strangers leave in it."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from quorate.cli.cluster import found
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import Proof, Welcome
from quorate.consensus.transport.hello import proof
from quorate.consensus.transport.packets import Tags, pack
from quorate.node import Node
from quorate.node.settings import LISTENERS, read_settings
from tests.clusters import free_ports
from tests.unit.consensus.test_peers import HOSTILE, Raw, hello, until


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
    place, *_ = found(folder, voters, free_ports(10 * voters))
    loop = Listening()
    settings = read_settings(place.config, {}, {"cluster.id": "c"})

    async def run() -> None:
        node = Node(settings)
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


def test_a_hostile_hello_leaves_nothing_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is refused by its name, and the node is as it was: no frame reached it, no vote, term or entry is new, no
    byte of the journal changed. A peer that proves itself is heard, so it was not for want of ears.
    """

    async def scenario(node: Node, _: Listening) -> None:
        heard: list[tuple[int, bytes]] = []
        monkeypatch.setattr(node.core, "on_frame", lambda *frame: heard.append(frame))
        port = node.settings.bind("raft")[1]
        await until(lambda: node.running.data.journal.oldest_unsynced_since() is None)
        before = left_by(node)
        for frames, _reason in HOSTILE.values():
            async with Raw(port) as raw:
                raw.send(*frames)
                while await raw.read():
                    pass
        assert node.running.peers.refusals == Counter(reason for _, reason in HOSTILE.values())
        assert (heard, left_by(node)) == ([], before)
        async with Raw(port) as raw:
            raw.send(hello())
            key, answer = node.settings.cluster_key(), await raw.read()
            raw.send(codec.encode_hello(Proof(proof(key, b"D", hello(), answer))))
            assert isinstance(codec.decode_hello(await raw.read()), Proof)
            assert codec.decode_hello(await raw.read()) == Welcome()  # Its life is durable here.
            raw.send_raw(pack(Tags(key, b"D", hello(), answer), [b"sense"], 100))
            await until(lambda: heard)
        assert heard == [(2, b"sense")]

    with_node(tmp_path, monkeypatch, scenario, voters=3)


def left_by(node: Node) -> tuple[object, ...]:
    """What lasts of a node's life so far, and what is about to."""
    journal, core = node.running.data.journal, node.core
    files = sorted((Path(node.settings.node.data_dir) / "journal").iterdir())
    return (
        (journal.term, journal.voted_for, journal.last_index, journal.seq, journal.generation),
        (core.engine.term, core.engine.commit_index, core.machine.offset),
        [(file.name, crc32(file.read_bytes())) for file in files],
    )
