"""The door before another HTTP server: who is let in, and for how long who may say nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from quorate.listening import ListeningLimits, ProtocolFactory

ASK = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"
Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Served(asyncio.Protocol):
    """Answers ``.`` to whatever comes, at once if the test wishes it."""

    def __init__(self, stage: "Stage") -> None:
        self._stage = stage
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._stage.opened += 1

    def data_received(self, data: bytes) -> None:
        if self._stage.answers and data.endswith(b"\r\n\r\n"):
            self.transport.write(b".")
            self._stage.keeper.answered(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stage.lost += 1


class Stage:
    """A listener behind a door."""

    keeper: ProtocolFactory
    open: Open

    def __init__(self) -> None:
        self.answers = True
        self.opened = self.lost = 0


def behind(act: Callable[[Stage], Awaitable[None]], **limits: Any) -> None:
    """Run a test with a listener on a free port."""

    async def run() -> None:
        stage = Stage()
        stage.keeper = ProtocolFactory(lambda: Served(stage), ListeningLimits(**limits))
        listener = await asyncio.get_running_loop().create_server(stage.keeper, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        writers = []

        async def open_() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            return reader, writer

        stage.open = open_
        try:
            async with asyncio.timeout(20):
                await act(stage)
        finally:
            stage.keeper.close()
            listener.close()
            for writer in writers:
                writer.close()
            await asyncio.sleep(0.01)

    asyncio.run(run())


async def gone(reader: asyncio.StreamReader) -> bool:
    """It was hung up on."""
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


def test_whoever_asks_gets_in_and_the_silent_go() -> None:
    """All places are taken: the proven stays, and each one that comes and asks is answered."""

    async def act(stage: Stage) -> None:
        kept, keeps = await stage.open()
        keeps.write(ASK)
        assert await kept.read(1) == b"."
        silent = [await stage.open() for _ in range(5)]
        silent[-1][1].write(ASK[:-1])
        for _ in range(10):
            reader, writer = await stage.open()
            writer.write(ASK)
            assert await reader.read(1) == b"."
        for reader, _ in silent:
            assert await gone(reader)
        keeps.write(ASK)
        assert await kept.read(1) == b"."
        assert len(stage.keeper) <= 6

    behind(act, connections_max=6, connections_reserved=2)


def test_first_byte_head_and_pause_have_deadlines_and_a_request_under_way_has_none() -> None:
    """What dribbles its head goes, however often it says something; who waits for an answer stays."""

    async def act(stage: Stage) -> None:
        silent, _ = await stage.open()
        dribbling, dribbles = await stage.open()
        idle, asks = await stage.open()
        asks.write(ASK)
        assert await idle.read(1) == b"."
        stage.answers = False
        waiting, waits = await stage.open()
        waits.write(ASK[:9])
        await asyncio.sleep(0.01)
        waits.write(ASK[9:])
        for byte in ASK[:-4]:
            dribbles.write(bytes([byte]))
            await asyncio.sleep(0.02)
        for reader in (silent, dribbling, idle):
            assert await gone(reader)
        assert len(stage.keeper) == 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await waiting.read(1)
        assert (stage.opened, stage.lost) == (4, 3)

    behind(act, first_byte_timeout_s=0.2, head_timeout_s=0.2, idle_timeout_s=0.2, sweep_period_s=0.02)


def test_one_that_is_turned_away_is_never_served() -> None:
    """Where nobody can go, the newest does, and the server below never hears of it."""

    async def act(stage: Stage) -> None:
        kept, keeps = await stage.open()
        keeps.write(ASK)
        assert await kept.read(1) == b"."
        late, _ = await stage.open()
        assert await gone(late)
        assert (stage.opened, stage.lost, len(stage.keeper)) == (1, 0, 1)
        stage.keeper.answered(None)

    behind(act, connections_max=1)
