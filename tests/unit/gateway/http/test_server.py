"""The HTTP listener over real sockets: framing, limits and deadlines; the handler here echoes."""

import asyncio
import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pytest
import uvloop

from quorate.clock import LoopScheduler
from quorate.gateway import ending
from quorate.gateway.http import HttpServer, HttpSettings
from quorate.gateway.http.messages import Request, Response
from quorate.gateway.http.server import Respond
from quorate.metrics import Metrics
from tests.clusters import free_ports
from tests.hostile_heads import CHUNKED, GET, HOSTILE, PUT

T = TypeVar("T")


class Served:
    """A listener in a thread; ``parked`` keeps the answers to ``/later``."""

    def __init__(self, settings: HttpSettings, hosts: Sequence[str]) -> None:
        self.port = free_ports(1)
        self.metrics = Metrics()
        self.parked: list[Respond] = []
        self.loop = uvloop.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.server = HttpServer(self.answer, settings, self.metrics, LoopScheduler(self.loop), hosts)

    def answer(self, request: Request, respond: Respond) -> None:
        if request.path == ("later",):
            self.parked.append(respond)
        elif request.path == ("large",):
            respond(Response(200, b"x" * 8_000_000))
        else:
            told: dict[str, object] = {"method": request.method, "path": request.path, "query": dict(request.query)}
            told |= {"body": request.body.decode(), "key": request.headers.get("idempotency-key")}
            respond(Response(200, json.dumps(told).encode()))

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)


@contextlib.contextmanager
def serving(hosts: Sequence[str] = (), **limits: Any) -> Iterator[Served]:
    """A listener for the time of a test."""
    served = Served(HttpSettings(**limits), hosts)
    served.thread.start()
    served.do(served.server.start("127.0.0.1", served.port))
    try:
        yield served
    finally:
        served.do(served.server.stop())
        served.do(asyncio.sleep(0.02))
        served.loop.call_soon_threadsafe(served.loop.stop)
        served.thread.join(5)
        served.loop.close()


@contextlib.contextmanager
def connected(served: Served) -> Iterator[socket.socket]:
    """A bare connection."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as bare:
        yield bare


def everything(bare: socket.socket) -> bytes:
    """All bytes until the server hangs up."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while more := bare.recv(65536):
            data += more
    return data


def status_of(data: bytes) -> int:
    """Of the first answer."""
    return int(data.split()[1])


def test_requests_arrive_whole_and_connections_are_kept() -> None:
    """Path, query, headers and body come through decoded; one connection serves many requests."""
    with serving() as served:
        client = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
        for i in range(3):
            client.request(
                "PUT",
                f"/a%2Fb/c?x={i}&y=%20",
                f"body {i}",
                {"Idempotency-Key": "k", "Content-Type": "application/json"},
            )
            found = json.loads(client.getresponse().read())
            assert found == {
                "method": "PUT",
                "path": ["a/b", "c"],
                "query": {"x": str(i), "y": " "},
                "body": f"body {i}",
                "key": "k",
            }
        client.close()


def test_pipelined_requests_are_answered_in_order() -> None:
    """What was sent in one go is answered one after the other, the last one's close honoured."""
    with serving() as served, connected(served) as bare:
        one = b"GET /%d HTTP/1.1\r\nhost: localhost\r\n\r\n"
        last = b"GET /9 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        bare.sendall(one % 1 + one % 2 + last)
        data = everything(bare)
        assert data.count(b"HTTP/1.1 200 OK") == 3
        assert data.index(b'["1"]') < data.index(b'["2"]') < data.index(b'["9"]')


def test_a_later_answer_holds_back_the_next_request() -> None:
    """One request at a time; nothing is lost while it waits."""
    with serving() as served, connected(served) as bare:
        bare.sendall(
            b"GET /later HTTP/1.1\r\nhost: localhost\r\n\r\n"
            b"GET /2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        )
        while not served.parked:
            served.do(asyncio.sleep(0.01))
        served.loop.call_soon_threadsafe(served.parked[0], Response(200, b"late"))
        data = everything(bare)
        assert data.index(b"late") < data.index(b'["2"]')


def test_bytes_one_by_one_make_the_same_request() -> None:
    """Framing does not depend on how the bytes arrive."""
    with serving() as served, connected(served) as bare:
        for byte in PUT + b"content-length: 2\r\nconnection: close\r\n\r\nok":
            bare.sendall(bytes([byte]))
        assert b'"body": "ok"' in everything(bare)


def test_head_has_no_body() -> None:
    """The length is told, the bytes are not sent."""
    with serving() as served, connected(served) as bare:
        bare.sendall(b"HEAD /a HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        head, _, body = everything(bare).partition(b"\r\n\r\n")
        assert status_of(head) == 200
        assert b"content-length" in head
        assert body == b""


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"HEAD /%ff HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
        (
            b"HEAD / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2000000\r\n\r\n",
            413,
        ),
        (
            CHUNKED.replace(b"PUT", b"HEAD") + b"\r\nno chunk\r\n",
            400,
        ),
    ],
    ids=["path", "length", "chunks"],
)
def test_a_head_that_is_rejected_has_no_body_either(data: bytes, status: int) -> None:
    """The status is told, and what comes after it on the connection is the end."""
    with serving() as served, connected(served) as bare:
        bare.sendall(data)
        head, _, body = everything(bare).partition(b"\r\n\r\n")
        assert (status_of(head), body) == (status, b"")


def test_what_is_wrong_after_a_head_is_told_in_full() -> None:
    """The request before does not matter."""
    with serving() as served, connected(served) as bare:
        bare.sendall(b"HEAD /a HTTP/1.1\r\nhost: localhost\r\n\r\nnonsense\r\n\r\n")
        _, told, rejected = everything(bare).partition(b"HTTP/1.1 400")
        assert told
        assert json.loads(rejected.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid"


def test_a_client_that_waits_for_leave_gets_it() -> None:
    """``Expect: 100-continue`` is answered before the body comes."""
    with serving() as served, connected(served) as bare:
        bare.sendall(PUT + b"expect: 100-continue\r\ncontent-length: 2\r\nconnection: close\r\n\r\n")
        assert status_of(bare.recv(1000)) == 100
        bare.sendall(b"ok")
        assert b'"body": "ok"' in everything(bare)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET /%ff HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
        (b"GET /?a=%ff HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: \xff\r\n\r\n", 400),
        (b"GET /?" + b"&".join(b"a%d=1" % i for i in range(33)) + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 20_000, 431),
        (
            b"PUT / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000001\r\n\r\n",
            413,
        ),
        (
            CHUNKED + b"\r\nfffff\r\n" + b"z" * 600_000,
            413,
        ),
    ],
    ids=[
        "noise",
        "host",
        "path",
        "query",
        "header",
        "fields",
        "length",
        "head size",
        "length size",
        "chunks",
    ],
)
def test_a_bad_request_is_told_so_and_hung_up_on(data: bytes, status: int) -> None:
    """It gets our JSON error if it still can, and no second chance on this connection."""
    with serving(body_bytes_max=500_000) as served:
        with connected(served) as bare:
            with contextlib.suppress(ConnectionError):
                bare.sendall(data)
            answer = everything(bare)
        if answer:  # A client still sending may see a reset instead.
            assert status_of(answer) == status
            assert "error" in json.loads(answer.partition(b"\r\n\r\n")[2])
        with connected(served) as fresh:
            fresh.sendall(b"GET /a HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert status_of(everything(fresh)) == 200


@pytest.mark.parametrize(("data", "status"), HOSTILE)
def test_a_hostile_head_is_refused_and_nothing_after_it_is_served(data: bytes, status: int) -> None:
    """What two readers could take for two requests is none; a bounded head is bounded however it arrives."""
    smuggled = b"GET /smuggled HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    with serving() as served, connected(served) as bare:
        with contextlib.suppress(ConnectionError):
            bare.sendall(data + smuggled)
        answer = everything(bare)
        assert status_of(answer) == status
        assert b"smuggled" not in answer
        assert "error" in json.loads(answer.partition(b"\r\n\r\n")[2])


def test_a_head_of_the_greatest_length_is_taken() -> None:
    """The limit is what it says, whether the head comes in one read or in many."""
    with serving(head_bytes_max=1000) as served:
        for size, status in ((1000, 200), (1001, 431)):
            head = GET + b"connection: close\r\nx: "
            head += b"y" * (size - len(head) - 4) + b"\r\n\r\n"
            assert len(head) == size
            with connected(served) as bare:
                bare.sendall(head)
                assert status_of(everything(bare)) == status
            with connected(served) as bare:
                for byte in head[:-1]:
                    bare.send(bytes([byte]))
                with contextlib.suppress(ConnectionError):
                    bare.send(head[-1:])
                assert status_of(everything(bare)) == status


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", "host: rebound.example:9873", 421),
        ("PUT", "host: rebound.example\r\ncontent-type: application/json", 421),
        ("GET", "host: localhost.rebound.example", 421),
        ("POST", "host: localhost\r\norigin: https://evil.example\r\ncontent-type: text/plain", 403),
        ("POST", "host: localhost\r\norigin: https://evil.example\r\ncontent-type: application/json", 403),
        ("GET", "host: localhost\r\norigin: https://evil.example", 403),
        ("GET", "host: localhost\r\norigin: null", 403),
        ("GET", "host: localhost:1\r\norigin: http://localhost:2", 403),
        ("GET", "host: localhost\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors", 403),
        ("GET", "host: localhost\r\nsec-fetch-site: same-site\r\nsec-fetch-mode: cors", 403),
        (
            "GET",
            "host: localhost\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: iframe",
            403,
        ),
        ("POST", "host: localhost\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: navigate", 403),
        ("DELETE", "host: localhost\r\nsec-fetch-site: cross-site", 403),
        ("POST", "host: localhost\r\ncontent-type: text/plain", 415),
        ("POST", "host: localhost\r\ncontent-type: application/x-www-form-urlencoded", 415),
        ("PUT", "host: localhost", 415),
        ("GET", "host: localhost", 200),
        ("GET", "host: 127.0.0.1:9873", 200),
        ("GET", "host: [::1]:9873", 200),
        ("GET", "host: ALIAS.example.:80", 200),
        ("GET", "host: node-1:9873", 200),
        ("GET", "host: localhost:1\r\norigin: http://localhost:1", 200),
        ("PUT", "host: localhost\r\norigin: https://console.example\r\ncontent-type: application/json", 200),
        ("GET", "host: localhost\r\nsec-fetch-site: same-origin\r\nsec-fetch-mode: cors", 200),
        ("GET", "host: localhost\r\nsec-fetch-site: none\r\nsec-fetch-mode: navigate", 200),
        (
            "GET",
            "host: localhost\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: document",
            200,
        ),
        ("PUT", "host: localhost\r\ncontent-type: application/json; charset=utf-8", 200),
        ("POST", "host: localhost\r\ncontent-type: application/vnd.schemaregistry.v1+json", 200),
        ("DELETE", "host: localhost", 200),
    ],
)
def test_no_foreign_page_may_ask(method: str, headers: str, status: int) -> None:
    """Rebound names, other origins and what needs no leave to be sent are refused; other clients are not hindered."""
    allowed: dict[str, Any] = {"allowed_hosts": ("alias.example",), "allowed_origins": ("https://console.example",)}
    with serving(hosts=("node-1",), **allowed) as served, connected(served) as bare:
        bare.sendall(f"{method} /a HTTP/1.1\r\n{headers}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        answer = everything(bare)
        assert status_of(answer) == status
        head, _, body = answer.partition(b"\r\n\r\n")
        told = json.loads(body)
        code = {200: None, 403: "cross_origin", 415: "not_json", 421: "wrong_host"}[status]
        assert (told["error"]["code"] if "error" in told else None) == code
        for name in (b"content-security-policy: default-src 'none'", b"x-content-type-options: nosniff"):
            assert name in head
        for name in (b"x-frame-options: DENY", b"referrer-policy: no-referrer", b"cross-origin-resource-policy"):
            assert name in head


def test_a_foreign_page_is_refused_before_its_body_is_read() -> None:
    """The head is enough."""
    with serving() as served, connected(served) as bare:
        bare.sendall(PUT + b"origin: https://evil.example\r\ncontent-length: 500000\r\n\r\n")
        assert status_of(everything(bare)) == 403


def test_when_nobody_can_go_the_newest_is_closed_at_once() -> None:
    """A proven connection is not disturbed."""
    with serving(connections_max=1) as served, connected(served) as first:
        first.sendall(b"GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert first.recv(1000)
        with connected(served) as second:
            assert everything(second) == b""


def test_the_silent_and_the_dribbling_make_room() -> None:
    """All places are taken: whoever comes and asks is answered; the proven stay, the silent go, the oldest first."""
    one = b"GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with serving(connections_max=8) as served, contextlib.ExitStack() as stack:
        proven, *others = [stack.enter_context(connected(served)) for _ in range(8)]
        proven.sendall(one)
        assert status_of(proven.recv(1000)) == 200
        for bare in others:
            bare.sendall(b"GET /a HT")
        for _ in range(20):
            with connected(served) as fresh:
                fresh.sendall(one)
                assert status_of(fresh.recv(1000)) == 200
        assert everything(others[0]) == b""
        proven.sendall(one)
        assert status_of(proven.recv(1000)) == 200


def test_first_byte_head_and_body_have_deadlines() -> None:
    """Of a connection that never asked, of a head that does not end, of a body; a kept connection may be idle."""
    one = b"GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n"
    limits: dict[str, Any] = {"sweep_period_s": 0.02, "first_byte_timeout_s": 0.1}
    with serving(**limits) as served, connected(served) as silent, connected(served) as kept:
        kept.sendall(one)
        assert status_of(kept.recv(1000)) == 200
        assert everything(silent) == b""
        kept.sendall(one)
        assert status_of(kept.recv(1000)) == 200
    with serving(sweep_period_s=0.02, head_timeout_s=0.1) as served, connected(served) as dribbling:
        dribbling.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nx:")
        assert everything(dribbling) == b""
    with serving(sweep_period_s=0.02, head_timeout_s=0.1) as served, connected(served) as slow:
        slow.sendall(PUT + b"content-length: 2\r\nconnection: close\r\n\r\n")
        served.do(asyncio.sleep(0.3))
        slow.sendall(b"ok")
        assert status_of(everything(slow)) == 200


def test_idle_dribbling_and_deaf_clients_are_disconnected() -> None:
    """No request, a request that never ends, an answer never read: each has its deadline."""
    with serving(sweep_period_s=0.02, idle_timeout_s=0.1) as served, connected(served) as idle:
        idle.sendall(b"GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert status_of(everything(idle)) == 200
    with serving(sweep_period_s=0.02, request_timeout_s=0.1) as served, connected(served) as dribbling:
        dribbling.sendall(
            b"PUT / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n"
        )
        assert everything(dribbling) == b""
    with serving(sweep_period_s=0.02, write_timeout_s=0.1) as served, connected(served) as deaf:
        deaf.sendall(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n")
        while served.server.connections == 0:
            served.do(asyncio.sleep(0.01))
        while served.server.connections:
            served.do(asyncio.sleep(0.01))


def test_a_client_that_takes_a_long_answer_slowly_is_not_hung_up_on() -> None:
    """The deadline begins again with what it takes, and it gets all of it."""
    with serving(sweep_period_s=0.02, write_timeout_s=0.5) as served, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        slow.settimeout(10)
        slow.connect(("127.0.0.1", served.port))
        slow.sendall(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n")
        taken = b""
        while len(taken) < 8_000_000:
            part = slow.recv(100_000)
            assert part, f"hung up on after {len(taken)} bytes"
            taken += part
            if len(taken) < 4_000_000:
                served.do(asyncio.sleep(0.02))


def test_a_waiting_client_is_not_idle() -> None:
    """An answer that takes longer than the idle time-out still arrives."""
    with serving(sweep_period_s=0.02, idle_timeout_s=0.1, request_timeout_s=0.1) as served, connected(served) as bare:
        bare.sendall(b"GET /later HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        served.do(asyncio.sleep(0.3))
        served.loop.call_soon_threadsafe(served.parked[0], Response(200, b"late"))
        assert everything(bare).endswith(b"late")


def test_an_answer_for_a_client_that_left_is_dropped() -> None:
    """Nothing breaks, and the listener goes on."""
    with serving() as served:
        with connected(served) as bare:
            bare.sendall(b"GET /later HTTP/1.1\r\nhost: localhost\r\n\r\n")
            while not served.parked:
                served.do(asyncio.sleep(0.01))
        served.loop.call_soon_threadsafe(served.parked[0], Response(200, b"late"))
        while served.server.connections:
            served.do(asyncio.sleep(0.01))
        with connected(served) as fresh:
            fresh.sendall(b"GET /a HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert status_of(everything(fresh)) == 200


def test_a_client_that_half_closes_is_still_answered() -> None:
    """The end of what it sends is not the end of what it hears."""
    with serving() as served, connected(served) as bare:
        bare.sendall(b"GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n")
        bare.shutdown(socket.SHUT_WR)
        assert status_of(everything(bare)) == 200


def test_a_tls_client_is_told_at_once() -> None:
    """On a listener without TLS, by an alert of its own protocol, and not by a page it cannot read."""
    with serving() as served, connected(served) as bare:
        with pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure"):
            ssl.create_default_context().wrap_socket(bare, server_hostname="localhost")
        assert served.metrics.peer_errors["http"] == 1


def test_ready_answers_leave_before_a_connection_is_closed() -> None:
    """Requests before a broken one, in the same segment, are answered in full."""
    good = b"GET /now HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving() as served, connected(served) as bare:
        bare.sendall(good * 3 + b"BROKEN\r\n\r\n")
        told = everything(bare)
        assert told.count(b"HTTP/1.1 200") == 3
        assert told.count(b"HTTP/1.1 400") == 1


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /a HTTP/1.1\r\nhost: rebound.example\r\ncontent-length: 4000000\r\n\r\n", 421),
        (PUT + b"content-length: 4000000\r\n\r\n", 413),
        (GET + b"connection: close\r\n\r\n", 200),
        (b"BROKEN\r\n\r\n", 400),
    ],
)
def test_what_is_sent_after_the_last_answer_does_not_cost_it(head: bytes, status: int) -> None:
    """The node closes its side, takes and drops what still comes, and does not reset the connection."""
    with serving() as served, connected(served) as bare:
        bare.sendall(head)
        for _ in range(200):
            bare.sendall(bytes(20_000))
        told = bare.recv(1 << 16)
        assert status_of(told) == status
        while more := bare.recv(1 << 16):
            told += more
        assert told.count(b"HTTP/1.1 ") == 1


def test_who_does_not_go_is_hung_up_on() -> None:
    """A client that keeps its side open after the last answer has as long as for a request."""
    with serving(sweep_period_s=0.02, request_timeout_s=0.1) as served, connected(served) as bare:
        bare.sendall(b"BROKEN\r\n\r\n")
        assert status_of(everything(bare)) == 400
        with contextlib.suppress(ConnectionError):  # Reset: the node is rid of it.
            while served.server.connections:
                bare.sendall(b"still here")
        assert served.server.connections == 0


def test_an_ended_connection_takes_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends on and on is hung up on before its time is over."""
    monkeypatch.setattr(ending, "DROPPED_BYTES_MAX", 1 << 20)
    with serving(request_timeout_s=3_600.0) as served, connected(served) as bare:
        bare.sendall(b"BROKEN\r\n\r\n")
        assert status_of(bare.recv(1 << 16)) == 400
        with pytest.raises(ConnectionError):
            bare.sendall(bytes(100 << 20))
