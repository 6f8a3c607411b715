"""The door of the page and of the views: who is refused before anything is asked of them, and what every answer has."""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

from quorate.guarded_web import GuardedRunner
from quorate.listening import ListeningLimits, quiet
from quorate.log_filter import RepeatFilter
from quorate.origins import allowed_names
from quorate_projections.app import make_app
from quorate_projections.door import GuardedWeb
from quorate_projections.settings import ProjectionSettings
from quorate_spark.dashboard.service import Service
from quorate_spark.dashboard.settings import Settings
from tests.clusters import free_ports
from tests.dashboard.lives import RECORDED, Page
from tests.hostile_heads import GET, HOSTILE, PUT

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


def held_by(start: Start, folder: Path, said: bytes) -> bytes:
    """What comes back until the connection ends, or nothing came for a moment."""

    async def run() -> bytes:
        port, stop = await start(folder)
        heard = b""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            with suppress(TimeoutError, ConnectionError):
                while more := await asyncio.wait_for(reader.read(1 << 16), 2):
                    heard += more
            writer.transport.abort()
        finally:
            await stop()
        return heard

    return asyncio.run(run())


async def plain(_: Path) -> tuple[int, Stop]:
    """An application that tells the path it is asked for, and what came with it."""
    runner = GuardedRunner(web.Application(), allowed_names([]))

    async def tell(request: web.Request) -> web.Response:
        return web.Response(text=f"<{request.path} {await request.text()}>")

    runner.app.router.add_route("*", "/{path:.*}", tell)
    listener = await runner.listen("127.0.0.1", 0, ListeningLimits())
    port: int = listener.sockets[0].getsockname()[1]
    return port, runner.cleanup


@pytest.mark.parametrize(("data", "status"), HOSTILE)
def test_a_hostile_head_is_refused_and_nothing_after_it_is_served(data: bytes, status: int, tmp_path: Path) -> None:
    """As nodes refuse it; a body in chunks is refused whatever is in it. What follows is not read as a request."""
    heard = held_by(plain, tmp_path, data + GET.replace(b"/a", b"/smuggled") + b"\r\n")
    assert int(heard.split(b" ", 2)[1]) in (status, 411)
    assert b"smuggled" not in heard
    assert len(re.findall(rb"HTTP/1\.\d \d\d\d ", heard)) == 1


def test_requests_that_come_together_are_answered_one_after_the_other(tmp_path: Path) -> None:
    """A body is not read as a head, nor a head as a body; the one that is hostile is refused in its turn."""
    body = b"GET /smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n"
    put = PUT + b"content-length: %d\r\n\r\n" % len(body) + body
    first, last = GET + b"\r\n", GET.replace(b"/a", b"/z") + b"\r\n"
    heard = held_by(plain, tmp_path, first + put + last + GET + b"host: twice\r\n\r\n" + last)
    answers = [part.partition(b"\r\n\r\n")[2] for part in re.split(rb"HTTP/1\.1 (?=\d)", heard)[1:]]
    assert answers[:3] == [b"</a >", b"</a " + body + b">", b"</z >"]
    assert b"host is told twice" in answers[3]
    assert len(answers) == 4


def test_a_request_may_come_in_any_pieces(tmp_path: Path) -> None:
    """Byte by byte, the same answers."""
    said = PUT + b"content-length: 2\r\n\r\nok" + GET + b"connection: close\r\n\r\n"

    async def run() -> bytes:
        port, stop = await plain(tmp_path)
        try:
            async with asyncio.timeout(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                for at in range(len(said)):
                    writer.write(said[at : at + 1])
                    await writer.drain()
                    await asyncio.sleep(0)
                heard = await reader.read()
                writer.close()
        finally:
            await stop()
        return heard

    heard = asyncio.run(run())
    assert (b"</a ok>" in heard, heard.endswith(b"</a >")) == (True, True)


def test_what_waits_for_its_turn_has_a_bound(tmp_path: Path) -> None:
    """Who sends more than one head's worth behind a request that is under way is cut off."""

    async def run() -> None:
        runner = GuardedRunner(web.Application(), allowed_names([]))

        async def wait(_: web.Request) -> web.Response:
            await asyncio.sleep(3600)
            return web.Response()

        runner.app.router.add_get("/a", wait)
        listener = await runner.listen("127.0.0.1", 0, ListeningLimits())
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        writer.write(GET + b"\r\n" + b"x" * 20_000)
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.transport.abort()
        await runner.cleanup()

    asyncio.run(run())


@pytest.mark.parametrize("bad", [GET + b"x: a\r\n b\r\n\r\n", b"not even HTTP\r\n\r\n", GET + b"no header\r\n\r\n"])
def test_bad_requests_are_counted_and_not_repeated(
    bad: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred of them: a line or two that programs show, and no traceback."""
    monkeypatch.setattr(quiet, "filters", [RepeatFilter()])

    async def run() -> None:
        port, stop = await plain(tmp_path)
        for _ in range(100):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(bad)
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 10)
            writer.transport.abort()
        await stop()

    asyncio.run(run())
    said = [record for record in caplog.records if record.name.startswith(("quorate", "aiohttp"))]
    assert 1 <= len(said) <= 3
    assert {record.levelname for record in said} == {"WARNING"}
    assert not any(record.exc_info for record in said)
