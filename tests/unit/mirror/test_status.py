"""A mirror says how it is."""

import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from quorate.errors import UsageError
from quorate.origins import allowed_names
from quorate_projections.mirror.copying import Progress
from quorate_projections.mirror.settings import MirrorSettings
from quorate_projections.mirror.status import StatusServer, line, metrics
from tests.clusters import free_ports, quorate


def test_a_port_in_use_is_named() -> None:
    """Where somebody listens already a mirror does not start; the flag is named, in one sentence."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = quorate("mirror", "--to", "127.0.0.1:1", "--port", str(port))
    assert ended.returncode == 2
    assert ended.stderr == (
        f"quorate: --port: cannot listen on 127.0.0.1:{port}: address already in use; "
        "end what listens there, or give another port\n"
    )


@pytest.mark.parametrize("wrong", [{"read_wait_s": -1.0}, {"deadline_s": 0.0}, {"batch_events_max": 0}])
def test_a_limit_that_lets_nothing_through_is_refused(wrong: dict[str, Any]) -> None:
    """A mirror that could never copy is not started."""
    with pytest.raises(UsageError, match=f"{next(iter(wrong))} must be above 0"):
        MirrorSettings(**wrong)


def test_line_holds_the_lag() -> None:
    """The log line is JSON with the state and the lag."""
    told = json.loads(line(Progress("copying", position=5, end=9)))
    assert told["lag"] == 4
    assert told["mirror"]["state"] == "copying"


def test_metrics_are_one_figure_each() -> None:
    """Each figure is there once; exactly one state is 1."""
    lines = metrics(Progress("failed", position=5, end=9, commits=2, failures=1)).splitlines()
    assert "quorate_mirror_lag 4" in lines
    assert [text for text in lines if text.endswith("} 1")] == ['quorate_mirror_state{state="failed"} 1']


@contextmanager
def serving(state: str = "copying", connections_max: int = 100) -> Iterator[int]:
    """The port of a mirror in this state, which is also called ``mirror-1``."""
    port = free_ports(1)
    progress = Progress(state)  # type: ignore[arg-type]
    allowed, settings = allowed_names(["127.0.0.1", "mirror-1"]), MirrorSettings(connections_max=connections_max)
    server = StatusServer("127.0.0.1", port, lambda: progress, allowed, settings)
    try:
        yield port
    finally:
        server.close()


def said(port: int, request: str) -> bytes:
    """One answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(request.replace("\n", "\r\n").encode())
        heard = b""
        while b"\r\n\r\n" not in heard:
            more = client.recv(1 << 16)
            assert more, heard
            heard += more
    return heard


@pytest.mark.parametrize(("state", "status"), [("copying", 200), ("standing by", 200), ("failed", 503)])
def test_ready_says_no_after_a_failure(state: str, status: int) -> None:
    """``/ready`` is 503 when the copy failed; an unknown path is 404."""
    with serving(state) as port:
        assert _status(port, "/ready") == status
        assert _status(port, "/nothing") == 404
        assert _status(port, "/metrics") == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Host: rebound.example\n", 421),
        ("Host: 127.0.0.1\nOrigin: https://evil.example\n", 403),
        ("Host: 127.0.0.1\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\n", 403),
        ("Host: 127.0.0.1\nContent-Length: 2\nContent-Type: text/plain\nExpect: 100-continue\n", 415),
        ("Host: mirror-1:9\n", 200),
        ("Host: localhost\n", 200),
    ],
)
def test_no_foreign_page_may_ask_a_mirror(headers: str, status: int) -> None:
    """The rule of all our HTTP listeners, for every path; nothing is asked of who is refused."""
    with serving() as port:
        for path in ("/ready", "/metrics"):
            heard = said(port, f"GET {path} HTTP/1.1\n{headers}\n")
            assert heard.startswith(b"HTTP/1.1 %d " % status)
            assert b" 100 " not in heard


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET /ready", 505),
        ("GET /ready HTTP/1.1", 200),
        ("GET /no HTTP/1.1", 404),
        ("POST /ready HTTP/1.1", 415),
        ("GET /ready what", 505),
    ],
)
def test_every_answer_of_a_mirror_has_the_security_headers(line: str, status: int) -> None:
    """aiohttp's own refusals too."""
    with serving() as port:
        heard = said(port, f"{line}\nHost: localhost\n\n")
    assert heard.split(b" ")[1] == b"%d" % status
    assert b"\r\nx-content-type-options: nosniff\r\n" in heard
    assert b"\r\ncontent-security-policy: default-src 'none'; " in heard


def test_silent_connections_keep_nobody_out_of_a_mirror() -> None:
    """Who comes is let in, and the longest silent one goes: more never stand at a time than the setting says."""
    with serving(connections_max=20) as port, ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5)) for _ in range(60)]
        assert _status(port, "/ready") == 200
        ended = [one.recv(1) for one in silent[:40]]
        assert ended == [b""] * 40


def test_a_tls_client_of_a_mirror_is_told_at_once() -> None:
    """It hears an alert that it understands."""
    with (
        serving() as port,
        socket.create_connection(("127.0.0.1", port), timeout=5) as client,
        pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure"),
    ):
        ssl.create_default_context().wrap_socket(client, server_hostname="127.0.0.1")


def _status(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
