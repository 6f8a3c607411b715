"""The wires between nodes, in the hands of a test: one TCP proxy for each ordered pair of nodes.

Rules: node A dials node B through the proxy A→B and nothing else; what A tells B goes that way only, so holding one
proxy is a partition in one direction. A held proxy is silent: it accepts connections and closes none, passes nothing,
and loses nothing. Released, it delivers late what was said meanwhile, the end of a connection included.
"""

import asyncio
from collections.abc import Iterable, Mapping
from itertools import permutations

CHUNK_BYTES = 1 << 16

Pair = tuple[int, int]
"""(who dials, who is dialed)"""


class Link:
    """The proxy of one ordered pair. ``target``: where the dialed node really listens, ``host:port``."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._passing = asyncio.Event()
        self._passing.set()
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

    def release(self) -> None:
        """Pass what is there and what comes."""
        self._passing.set()

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
        ways = [asyncio.create_task(self._pump(*way)) for way in ((reader, far_writer), (far_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if not self._passing.is_set():
                self.held_bytes += len(data)
                await self._passing.wait()
            writer.write(data)
            await writer.drain()
        await self._passing.wait()


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
