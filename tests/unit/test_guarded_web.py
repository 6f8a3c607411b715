"""The door of the page and of the views: who is refused before anything is asked of them, and what every answer has."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from quorate.guarded_web import GuardedRunner
from quorate.listening import ListeningLimits
from quorate.origins import allowed_names
from quorate_projections.app import make_app
from quorate_projections.door import GuardedWeb
from quorate_projections.settings import ProjectionSettings
from quorate_spark.dashboard.service import Service
from quorate_spark.dashboard.settings import Settings
from tests.clusters import free_ports
from tests.dashboard.lives import RECORDED, Page

Stop = Callable[[], Awaitable[None]]
Start = Callable[[Path], Awaitable[tuple[int, Stop]]]


async def page(_: Path) -> tuple[int, Stop]:
    """The page of a recorded log."""
    server = Page(Service(Settings(recorded=RECORDED), lambda: 0))
    await server.start_server()
    assert server.port is not None
    return server.port, server.close


async def views(folder: Path) -> tuple[int, Stop]:
    """A worker's listener, without its worker."""
    port = free_ports(1)
    door = make_app(ProjectionSettings(data_dir=str(folder), port=port)).web
    assert isinstance(door, GuardedWeb)
    await door.start_server()
    return port, door.stop_server


async def broken(_: Path) -> tuple[int, Stop]:
    """An application whose every handler fails."""
    runner = GuardedRunner(web.Application(), allowed_names([]))

    async def fail(_: web.Request) -> web.Response:
        raise RuntimeError("of this test")

    runner.app.router.add_get("/{path:.*}", fail)
    listener = await runner.listen("127.0.0.1", 0, ListeningLimits())
    port: int = listener.sockets[0].getsockname()[1]
    return port, runner.cleanup


DOORS = pytest.mark.parametrize("start", [page, views])


def talk(start: Start, folder: Path, *said: bytes) -> bytes:
    """What one connection hears until it is closed; each part after the first is said when there was an answer."""

    async def run() -> bytes:
        port, stop = await start(folder)
        try:
            async with asyncio.timeout(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                heard = b""
                for part in said:
                    writer.write(part)
                    heard += await reader.read(1 << 16)
                while more := await reader.read(1 << 16):
                    heard += more
                writer.close()
        finally:
            await stop()
        return heard

    return asyncio.run(run())


def head(*lines: str, method: str = "POST", path: str = "/api/whatif") -> bytes:
    """Of a request that waits to be told to go on."""
    fields = ("Expect: 100-continue", "Content-Length: 2", "Connection: close", *lines)
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fields, "", ""]).encode()


JSON = "Content-Type: application/json"


@DOORS
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (head("Host: rebound.example", JSON), 421),
        (head("Host: localhost", "Origin: https://evil.example", JSON), 403),
        (head("Host: localhost", "Sec-Fetch-Site: cross-site", JSON), 403),
        (head("Host: localhost", "Content-Type: text/plain"), 415),
        (head("Host: rebound.example", JSON, path="/nothing"), 421),
    ],
)
def test_nothing_is_asked_of_who_may_not_ask(start: Start, request_: bytes, status: int, tmp_path: Path) -> None:
    """A request that is refused hears why, and no ``100 Continue`` before it: its body is not wanted."""
    heard = talk(start, tmp_path, request_, b"{}")  # It comes all the same, and is dropped.
    assert heard.startswith(b"HTTP/1.1 %d " % status)
    assert b" 100 " not in heard
    assert b'{"error":{"code":"' in heard


@DOORS
def test_who_may_ask_is_told_to_go_on(start: Start, tmp_path: Path) -> None:
    """A request that is not refused gets its ``100 Continue``, and with its body the answer."""
    heard = talk(start, tmp_path, head("Host: localhost", JSON), b"{}")
    assert heard.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 40")


PLAIN = "{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}\r\n"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("start", "request_", "status"),
    [
        (start, PLAIN.format(line, more).encode(), status)
        for start in (page, views)
        for line, more, status in (
            ("GET /no/thing", "", 404),
            ("DELETE /views", "", 405),
            ("GET /views", "Expect: a-miracle\r\n", 417),
            ("GET /views", "no header\r\n", 400),
            ("GET /" + "a" * 10_000, "", 400),
            ("not even HTTP", "", 400),
        )
    ]
    + [(broken, PLAIN.format("GET /", "").encode(), 500)],
)
def test_aiohttp_s_own_answers_have_our_headers(start: Start, request_: bytes, status: int, tmp_path: Path) -> None:
    """What is not found, not allowed, not HTTP or not answered without a fault is guarded like everything else."""
    heard = talk(start, tmp_path, request_)
    assert heard.split(b" ", 2)[1] == b"%d" % status
    fields = heard.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    assert b"x-content-type-options: nosniff" in fields
    assert b"x-frame-options: deny" in fields
    assert any(field.startswith(b"content-security-policy: default-src 'none'") for field in fields)


@DOORS
def test_a_tls_client_is_told_at_once(start: Start, tmp_path: Path) -> None:
    """A client that is set up for TLS hears an alert that it understands, and the connection ends."""

    async def run() -> None:
        port, stop = await start(tmp_path)
        try:
            async with asyncio.timeout(20):
                with pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure"):
                    await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())
        finally:
            await stop()

    asyncio.run(run())
