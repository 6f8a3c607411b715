"""Every transport takes an ``ssl`` context: with one, who speaks TLS is answered, and who does not is not.

The contexts here are anonymous, which needs no certificate and proves nobody's name: that TLS is spoken is the point.
"""

import asyncio
import contextlib
import random
import ssl
import struct
import time
from collections.abc import Awaitable, Callable

import pytest

from quorate.clock import LoopScheduler
from quorate.consensus.ports import NodeId
from quorate.consensus.settings import PeerSettings
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import Hello
from quorate.consensus.transport.hello import PeerHandlers, PeerIdentity
from quorate.consensus.transport.peers import Peers
from quorate.controller.ports import RoleChange
from quorate.gateway.access import NoQuota, OpenAccess
from quorate.gateway.http import HttpServer, HttpSettings
from quorate.gateway.http.messages import Request, Response
from quorate.gateway.http.server import Respond
from quorate.gateway.kafka import KafkaServer, KafkaSettings
from quorate.gateway.remoting.pusher import RolePusher
from quorate.gateway.remoting.server import RemotingServer
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.metrics import Metrics
from quorate.wire.kafka import Api
from quorate.wire.remoting import encode_request
from quorate.wire.remoting_headers import HeartbeatFields
from tests.clusters import free_ports
from tests.kafka_tools.fakes import FakeLog, FakeView
from tests.unit.gateway.remoting.test_server import Echo
from tests.unit.wire.kafka_oracle import request_frame

HOST = "127.0.0.1"
CLUSTER = "cluster-of-this-test"
PATIENCE_S = 10.0
HANDSHAKE = 22
"""The first byte of TLS (RFC 5246, ContentType)."""


def anonymous(side: int) -> ssl.SSLContext:
    """A context without certificates."""
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AECDH-AES256-SHA:@SECLEVEL=0")
    return context


SERVER, CLIENT = anonymous(ssl.PROTOCOL_TLS_SERVER), anonymous(ssl.PROTOCOL_TLS_CLIENT)
FRAME = struct.Struct(">I")

Stop = Callable[[], Awaitable[None]]


async def remoting(port: int) -> Stop:
    """A listener that answers heartbeats."""
    loop = asyncio.get_running_loop()
    server = RemotingServer(Echo(), RemotingSettings(), loop=loop, now=time.monotonic, at_turns_end=loop.call_soon)
    await server.start(HOST, port, SERVER)
    return server.stop


async def kafka(port: int) -> Stop:
    """A listener that says which calls it knows."""
    scheduler, view = LoopScheduler(asyncio.get_running_loop()), FakeView(FakeLog(), [])
    server = KafkaServer(view, KafkaSettings(), Metrics(), scheduler, random.Random(1), OpenAccess(), NoQuota())
    await server.start(HOST, port, SERVER)
    return server.stop


async def http(port: int) -> Stop:
    """A listener that answers everything with 200."""

    def answer(_: Request, respond: Respond) -> None:
        respond(Response(200, b"{}"))

    server = HttpServer(answer, HttpSettings(), Metrics(), LoopScheduler(asyncio.get_running_loop()))
    await server.start(HOST, port, SERVER)
    return server.stop


async def peers(port: int) -> Stop:
    """A voter that another calls."""
    links = voter(1, {NodeId(2): (HOST, free_ports(1))}, server=SERVER)
    await links.start(HOST, port)
    return links.stop


def voter(node: int, others: dict[NodeId, tuple[str, int]], **tls: ssl.SSLContext) -> Peers:
    """A node's links: ``server`` and ``client`` contexts."""
    identity = PeerIdentity(cluster_id=CLUSTER, node_id=NodeId(node), dir_uuid=bytes(16), key=b"key")
    handlers = PeerHandlers(
        frame=lambda *_: None,
        connected=lambda _: None,
        disconnected=lambda _: None,
        refused=lambda *_: None,
        directory_of=lambda _: None,
    )
    return Peers(
        identity,
        others,
        PeerSettings(),
        random.Random(node),
        handlers,
        at_turns_end=lambda callback: asyncio.get_running_loop().call_soon(callback),
        ssl_server=tls.get("server"),
        ssl_client=tls.get("client"),
    )


def framed(data: bytes) -> bytes:
    """With its length before it."""
    return FRAME.pack(len(data)) + data


HELLO = Hello(CLUSTER, NodeId(2), NodeId(1), bytes(16), 1, 1, bytes(32))
ASKED: dict[str, tuple[Callable[[int], Awaitable[Stop]], bytes, bytes]] = {
    "remoting": (
        remoting,
        encode_request(904, 7, HeartbeatFields("c", "127.0.0.1:1", "b", 1)),
        b"Heart beat success",
    ),
    "kafka": (kafka, framed(request_frame(Api.API_VERSIONS, 0, {})), FRAME.pack(77)),
    "http": (http, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HTTP/1.1 200 "),
    "peers": (peers, framed(codec.encode_hello(HELLO)), CLUSTER.encode()),
}
"""Transport → how its listener is started, a request, and what is only in an answer."""


async def answer(port: int, request: bytes, wanted: bytes, tls: ssl.SSLContext | None) -> bytes:
    """Everything that comes back until there is what is wanted, or the other side hangs up."""
    reader, writer = await asyncio.open_connection(HOST, port, ssl=tls)
    writer.write(request)
    said = b""
    with contextlib.suppress(ConnectionError):
        while wanted not in said and (more := await reader.read(1 << 16)):
            said += more
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return said


@pytest.mark.parametrize("transport", ASKED)
def test_a_listener_with_a_context_speaks_tls_only(transport: str) -> None:
    """A request over TLS is answered; the same one in the clear is not, and its connection is closed."""
    start, request, wanted = ASKED[transport]

    async def run() -> None:
        stop = await start(port := free_ports(1))
        try:
            async with asyncio.timeout(PATIENCE_S):
                assert wanted in await answer(port, request, wanted, CLIENT)
                assert wanted not in await answer(port, request, wanted, None)
        finally:
            await stop()

    asyncio.run(run())


class Listener:
    """Somebody who is called: what came first, with TLS or without."""

    def __init__(self) -> None:
        self.heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read(1 << 16)
        if not self.heard.done():
            self.heard.set_result(data)
        writer.close()


async def first_words(call: Callable[[int], Awaitable[Stop]], tls: ssl.SSLContext | None) -> bytes:
    """What a caller says first to a listener with this context."""
    listener = Listener()
    server = await asyncio.start_server(listener, HOST, 0, ssl=tls)
    stop = await call(server.sockets[0].getsockname()[1])
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await listener.heard
    finally:
        await stop()
        server.close()


async def push(port: int) -> Stop:
    """A controller that tells a broker its role."""
    pusher = RolePusher(RemotingSettings(), loop=asyncio.get_running_loop(), tls=CLIENT)
    pusher.notify(f"{HOST}:{port}", RoleChange(2, "127.0.0.1:1", 5, (2, 3), 7), lambda _: None)
    return pusher.stop


async def dial(port: int) -> Stop:
    """A voter that calls another."""
    links = voter(1, {NodeId(2): (HOST, port)}, client=CLIENT)
    await links.start(HOST, free_ports(1))
    return links.stop


@pytest.mark.parametrize(("call", "said"), [(push, b"masterBrokerId"), (dial, CLUSTER.encode())])
def test_a_caller_with_a_context_speaks_tls_only(call: Callable[[int], Awaitable[Stop]], said: bytes) -> None:
    """Who takes TLS gets the request; who does not gets the beginning of a handshake, and not a word of it."""
    assert said in asyncio.run(first_words(call, SERVER))
    clear = asyncio.run(first_words(call, None))
    assert clear[0] == HANDSHAKE
    assert said not in clear
