"""The views' listener: foreign pages, silence, and the headers of every answer. Faust's web, without its worker."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from quorate_projections.app import make_app
from quorate_projections.door import GuardedWeb
from quorate_projections.settings import ProjectionSettings
from tests.clusters import free_ports
from tests.dribbling import ENDLESS, dribble


def served(act: Callable[[aiohttp.ClientSession, str], Awaitable[Any]], folder: Path, **more: Any) -> Any:
    """What ``act`` does with a worker's listener."""

    async def run() -> Any:
        port = free_ports(1)
        app = make_app(ProjectionSettings(data_dir=str(folder), port=port, **more))
        web = app.web
        assert isinstance(web, GuardedWeb)
        await web.start_server()
        try:
            async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client, asyncio.timeout(20):
                return await act(client, f"127.0.0.1:{port}")
        finally:
            await web.stop_server()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Host": "rebound.example"}, 421, "wrong_host"),
        ({"Origin": "https://evil.example"}, 403, "cross_origin"),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403, "cross_origin"),
        ({"Host": "views:9951"}, 404, None),
        ({}, 404, None),
    ],
)
def test_no_foreign_page_may_ask_the_views(
    headers: dict[str, str], status: int, code: str | None, tmp_path: Path
) -> None:
    """The rule of all our HTTP listeners, and its headers on every answer, what is not found among them."""

    async def act(client: aiohttp.ClientSession, where: str) -> None:
        async with client.get("/nothing", headers=headers) as answer:
            assert answer.status == status
            if code is not None:
                assert (await answer.json())["error"]["code"] == code
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"

    served(act, tmp_path, names="views,other")


def test_a_body_that_a_form_could_send_is_refused(tmp_path: Path) -> None:
    """A foreign page may send ``text/plain`` without asking anybody, so it is not even looked at; JSON is."""

    async def act(client: aiohttp.ClientSession, where: str) -> None:
        for media_type, status in (("text/plain", 415), ("application/json", 404)):
            async with client.post("/nothing", data=b"{}", headers={"Content-Type": media_type}) as answer:
                assert answer.status == status

    served(act, tmp_path)


def test_the_silent_keep_nobody_from_the_views(tmp_path: Path) -> None:
    """Twice as many silent connections as there are places, and every question is answered."""

    async def act(client: aiohttp.ClientSession, where: str) -> None:
        host, _, port = where.partition(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(40)]
        for _ in range(5):
            async with client.get("/nothing", headers={"Connection": "close"}) as answer:
                assert answer.status == 404
        for one in silent[:20]:
            one.settimeout(5)
            with contextlib.suppress(ConnectionError):
                assert one.recv(1) == b""
        for one in silent:
            one.close()

    served(act, tmp_path, connections_max=20)


def test_a_head_that_does_not_end_has_a_deadline(tmp_path: Path) -> None:
    """Whoever sends it is hung up on."""

    async def act(client: aiohttp.ClientSession, where: str) -> None:
        host, _, port = where.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /nothing HTTP/1.1\r\n")
        assert await reader.read() == b""
        writer.close()

    served(act, tmp_path, head_timeout_s=0.1)


@pytest.mark.parametrize("path", [b"/nothing", b"/ready"])
def test_no_body_is_waited_for(path: bytes, tmp_path: Path) -> None:
    """No question to the views has a body: one that dribbles is refused at its head, by status, and whoever goes on is
    hung up on at the deadline of a head.
    """

    async def act(client: aiohttp.ClientSession, where: str) -> None:
        host, _, port = where.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(ENDLESS % path)
        dribbling = asyncio.create_task(dribble(writer))
        assert (await reader.readuntil(b"\r\n")).startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 405 "))
        async with asyncio.timeout(8):  # aiohttp itself would read on for 10 s.
            with contextlib.suppress(ConnectionError):
                while await reader.read(65536):
                    pass
        dribbling.cancel()
        writer.transport.abort()

    served(act, tmp_path, head_timeout_s=0.1)
