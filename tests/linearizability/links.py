"""The wires between nodes, in the hands of a test: one TCP proxy for each ordered pair of nodes.

Rules: node A dials node B through the proxy A→B and nothing else; what A tells B goes that way only, so holding one
proxy is a partition in one direction. A held proxy is silent: it accepts connections and closes none, passes nothing,
and loses nothing. Released, it delivers late what was said meanwhile, the end of a connection included. A stretched one
passes on as if its time went slower: what was said x seconds after the stretch began arrives x * factor after it.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from itertools import permutations

CHUNK_BYTES = 1 << 16
CHUNKS_MAX = 10_000
"""Kept by a proxy that does not pass them; beyond that the sender's kernel keeps what comes."""

LOOK_S = 0.02

Chunk = tuple[float, bytes]
"""(when it came, what)"""
Pair = tuple[int, int]
"""(who dials, who is dialed)"""


class Link:
    """The proxy of one ordered pair. ``target``: where the dialed node really listens, ``host:port``."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._passing = asyncio.Event()
        self._passing.set()
        self._stretch: tuple[float, float] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self.held_bytes = 0
        """How much came while it was held."""

    async def open(self) -> str:
        """Listen; the address to dial."""
        self._server = await asyncio.start_server(self._accepted, self._target[0], 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def close(self) -> None:
        """End everything at once."""
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    def hold(self) -> None:
        """Fall silent."""
        self._passing.clear()

    def stretch(self, factor: float) -> None:
        """Be late, ever more so."""
        self._stretch = (asyncio.get_running_loop().time(), factor)

    def release(self) -> None:
        """Pass what is there and what comes."""
        self._passing.set()
        self._stretch = None

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._passing.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            try:
                await self._carry(reader, writer, far_reader, far_writer)
            finally:
                far_writer.close()
        except OSError:
            pass  # Nobody listens there, or one side is gone: the other one is told by the end of its connection.
        finally:
            writer.close()
            self._connections.discard(task)

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        """Both ways, until either side ends it."""
        there, back = asyncio.Queue[Chunk](CHUNKS_MAX), asyncio.Queue[Chunk](CHUNKS_MAX)
        ears = [asyncio.create_task(_listen(*way)) for way in ((reader, there), (far_reader, back))]
        mouths = [asyncio.create_task(self._tell(*way)) for way in ((there, far_writer), (back, writer))]
        try:
            await asyncio.wait(mouths, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*ears, *mouths):
                task.cancel()
            await asyncio.gather(*ears, *mouths, return_exceptions=True)

    async def _tell(self, heard: asyncio.Queue[Chunk], writer: asyncio.StreamWriter) -> None:
        while True:
            came, data = await heard.get()
            await self._due(came)
            if not self._passing.is_set():
                self.held_bytes += len(data)
                await self._passing.wait()
            if not data:
                return
            writer.write(data)
            await writer.drain()

    async def _due(self, came: float) -> None:
        """Return when what came then may be told, as far as the stretch goes; its end is seen soon."""
        now = asyncio.get_running_loop().time
        while self._stretch is not None:
            began, factor = self._stretch
            left = began + (came - began) * factor - now()
            if left <= 0:
                return
            await asyncio.sleep(min(left, LOOK_S))


async def _listen(reader: asyncio.StreamReader, heard: asyncio.Queue[Chunk]) -> None:
    """Note what comes and when; nothing is its end."""
    now = asyncio.get_running_loop().time
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            await heard.put((now(), data))
    await heard.put((now(), b""))


class Links:
    """All of them. ``addresses``: node → where it listens for its peers."""

    def __init__(self, addresses: Mapping[int, str]) -> None:
        self._links: dict[Pair, Link] = {
            (source, target): Link(addresses[target]) for source, target in permutations(addresses, 2)
        }

    async def open(self) -> dict[Pair, str]:
        """Listen everywhere; what each node must dial for each other."""
        return {pair: await link.open() for pair, link in self._links.items()}

    async def close(self) -> None:
        """End everything at once."""
        for link in self._links.values():
            await link.close()

    def hold(self, pairs: Iterable[Pair]) -> None:
        """These fall silent."""
        for pair in pairs:
            self._links[pair].hold()

    def stretch(self, pairs: Iterable[Pair], factor: float) -> None:
        """These are late, ever more so."""
        for pair in pairs:
            self._links[pair].stretch(factor)

    def release(self) -> None:
        """All pass again."""
        for link in self._links.values():
            link.release()

    def out_of(self, node: int) -> list[Pair]:
        """What this node tells others."""
        return [pair for pair in self._links if pair[0] == node]

    def into(self, node: int) -> list[Pair]:
        """What others tell this node."""
        return [pair for pair in self._links if pair[1] == node]

    @property
    def held_bytes(self) -> int:
        """How much came while it could not pass."""
        return sum(link.held_bytes for link in self._links.values())
