"""Role changes pushed to brokers and dials: every call ends exactly once, and only a refusal proves a death."""

import asyncio
import gc
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
import uvloop

from quorate.controller.ports import RoleChange
from quorate.errors import UsageError
from quorate.gateway.remoting.pusher import RolePusher
from quorate.gateway.remoting.reach import ANYWHERE, AllowedNetworks
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.metadata.texts import parse_address
from quorate.wire.remoting import (
    FrameSplitter,
    HeaderType,
    Message,
    RoleChangedRequest,
    decode_request,
)
from quorate.wire.remoting_headers import RoleChangedFields

CHANGE = RoleChange(2, "127.0.0.1:30921", 5, (2, 3), 7)


class Broker(asyncio.Protocol):
    """A broker that answers 1008 as told; ``None`` = never."""

    def __init__(self, heard: list[tuple[RoleChangedRequest, bytes]], code: int | None, open_: list["Broker"]) -> None:
        self._heard = heard
        self._code = code
        self._splitter = FrameSplitter()
        self._open = open_
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._open.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.remove(self)

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        for frame in self._splitter.feed(data):
            request = decode_request(frame)
            assert isinstance(request, RoleChangedRequest)
            self._heard.append((request, frame.body))
            if self._code is not None:
                self.transport.write(Message(0, flag=0).frame(HeaderType.JSON, request.opaque))
                self.transport.write(Message(self._code).frame(HeaderType.JSON, 999_999))
                self.transport.write(Message(self._code).frame(HeaderType.JSON, request.opaque))


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until something is so; the test's own deadline ends it."""
    while not condition():  # noqa: ASYNC110 - the condition has no event of its own
        await asyncio.sleep(0.002)


class World:
    """A pusher and one broker."""

    def __init__(self, pusher: RolePusher, address: str) -> None:
        self.pusher = pusher
        self.address = address
        self.heard: list[tuple[RoleChangedRequest, bytes]] = []
        self.open: list[Broker] = []

    async def notify(self, address: str | None = None, change: RoleChange = CHANGE) -> bool:
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.pusher.notify(self.address if address is None else address, change, done.set_result)
        return await done

    async def dial(self, address: str) -> str:
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.pusher.dial(address, done.set_result)
        return await done


def in_world(
    test: Callable[[World], Awaitable[None]], *, code: int | None = 0, settings: RemotingSettings | None = None
) -> None:
    """Run a test with a pusher and a listening broker."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        world = World(RolePusher(settings or RemotingSettings(), loop=loop), "")
        server = await loop.create_server(lambda: Broker(world.heard, code, world.open), "127.0.0.1", 0)
        world.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            async with asyncio.timeout(20):
                await test(world)
        finally:
            await world.pusher.stop()
            server.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def refusing() -> str:
    """An address where nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_member_is_told_who_is_in_its_set() -> None:
    """In one more field of 1008, which Java does not read."""

    async def body(world: World) -> None:
        assert await world.notify(change=RoleChange(2, "127.0.0.1:30921", 5, (2, 3), 7, {2: "h:2", 3: "h:3"}))
        ((request, _),) = world.heard
        assert json.loads(request.fields.members or "") == {"2": "h:2", "3": "h:3"}

    in_world(body)


def test_a_push_is_an_ordinary_request_with_its_body() -> None:
    """Flag 0, Java's header, the body that brokers cannot do without; the code-0 answer is the acknowledgement."""

    async def body(world: World) -> None:
        assert await world.notify()
        ((request, said),) = world.heard
        assert request.flag == 0
        assert request.fields == RoleChangedFields("127.0.0.1:30921", 2, 5, 7)
        assert json.loads(said) == {"syncStateSet": [2, 3], "syncStateSetEpoch": 7}

    in_world(body)


def test_pushes_to_one_broker_share_one_connection() -> None:
    """Before it is open, and after; the answers are told apart by their opaque."""

    async def body(world: World) -> None:
        assert all(await asyncio.gather(*(world.notify() for _ in range(20))))
        assert await world.notify()
        assert len(world.heard) == 21
        assert len(world.open) == 1

    in_world(body)


def test_any_other_code_is_no_acknowledgement() -> None:
    """A broker that failed did not take the role."""

    async def body(world: World) -> None:
        assert not await world.notify()
        assert len(world.heard) == 1

    in_world(body, code=1)


def test_a_silent_broker_ends_the_push_by_its_deadline() -> None:
    """No answer, no acknowledgement; the connection stays for the next try."""

    async def body(world: World) -> None:
        assert not await world.notify()
        assert len(world.heard) == 1
        assert len(world.open) == 1

    in_world(body, code=None, settings=RemotingSettings(push_deadline_s=0.2))


def test_a_broker_that_is_not_there_fails_at_once() -> None:
    """Refused connections and addresses that are none."""

    async def body(world: World) -> None:
        for address in (refusing(), "nonsense", "127.0.0.1:0", "127.0.0.1:99999", ":1", ""):
            assert not await world.notify(address)

    in_world(body)


def test_a_broker_that_hangs_up_fails_what_was_under_way() -> None:
    """And the next push dials again."""

    async def body(world: World) -> None:
        under_way = asyncio.create_task(world.notify())
        await until(lambda: world.heard)
        (broker,) = world.open
        assert broker.transport is not None
        broker.transport.abort()
        assert not await under_way
        again = asyncio.create_task(world.notify())
        await until(lambda: len(world.heard) == 2)
        await world.pusher.stop()
        assert not await again

    in_world(body, code=None)


def test_a_broker_that_breaks_the_protocol_fails_what_was_under_way() -> None:
    """Its connection is dropped; nothing else happens."""

    async def body(world: World) -> None:
        under_way = asyncio.create_task(world.notify())
        await until(lambda: world.heard)
        transport = world.open[0].transport
        assert transport is not None
        transport.write(struct.pack(">II", 0x7FFFFFFF, 0))
        assert not await under_way

    in_world(body, code=None)


def test_pushes_under_way_are_bounded() -> None:
    """One more than the limit fails at once; the reconciler will try again."""

    async def body(world: World) -> None:
        first = asyncio.create_task(world.notify())
        await until(lambda: world.heard)
        assert not await world.notify()
        assert len(world.heard) == 1
        assert not await first

    in_world(body, code=None, settings=RemotingSettings(push_in_flight_max=1, push_deadline_s=0.3))


def test_an_idle_connection_makes_room_for_one_more_and_a_busy_one_does_not() -> None:
    """Connections to brokers are bounded: they share the process's descriptors with the disk's files."""

    async def body(world: World) -> None:
        assert await world.notify()
        with socket.create_server(("127.0.0.1", 0)) as silent:
            other = f"127.0.0.1:{silent.getsockname()[1]}"
            waiting = asyncio.ensure_future(world.notify(other))
            await until(lambda: not world.open)
            assert not await world.notify()
            assert not await waiting

    in_world(body, settings=RemotingSettings(push_connections_max=1, push_deadline_s=0.5))


def test_an_unused_connection_is_closed_and_opened_again() -> None:
    """Brokers are not kept connected for ever."""

    async def body(world: World) -> None:
        assert await world.notify()
        await until(lambda: not world.open)
        assert await world.notify()

    in_world(body, settings=RemotingSettings(push_idle_s=0.1))


def test_a_dial_is_accepted_refused_or_proves_nothing() -> None:
    """Only a refusal counts as a proof of death."""

    async def body(world: World) -> None:
        assert await world.dial(world.address) == "accepted"
        assert await world.dial(refusing()) == "refused"
        for address in ("nonsense", "127.0.0.1:0", ""):
            assert await world.dial(address) == "unknown"
        assert world.heard == []

    in_world(body)


def test_a_dial_that_hangs_proves_nothing() -> None:
    """A listener whose queue is full neither takes nor refuses."""

    async def body(world: World) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            address = listener.getsockname()
            fillers = [socket.socket() for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)
                with pytest.raises(BlockingIOError):
                    filler.connect(address)
            assert await world.dial(f"127.0.0.1:{address[1]}") == "unknown"
            for filler in fillers:
                filler.close()

    in_world(body, settings=RemotingSettings(dial_deadline_s=0.2))


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".c", "\ud800"])
def test_a_host_that_no_name_can_have_is_an_address_nobody_answers(host: str) -> None:
    """A broker may register anything: its push fails, its dial proves nothing, and nothing is left of either."""

    async def body(world: World) -> None:
        raised: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
        for _ in range(2):
            assert not await world.notify(f"{host}:1")
            assert world.pusher._brokers == {}
        assert await world.dial(f"{host}:1") == "unknown"
        gc.collect()
        assert raised == []

    in_world(body, settings=RemotingSettings(push_deadline_s=0.5))


def test_only_named_networks_are_connected_to() -> None:
    """Neither a push nor a dial reaches an address outside of them, by number or by name; nothing is proven by that."""

    async def body(world: World) -> None:
        port = world.address.rpartition(":")[2]
        for address in (world.address, f"localhost:{port}", f"[::ffff:127.0.0.1]:{port}"):
            assert not await world.notify(address)
            assert await world.dial(address) == "unknown"
        assert await world.dial(refusing()) == "unknown"
        assert world.pusher.out_of_reach == 7
        assert world.open == []
        assert world.pusher._brokers == {}

    in_world(body, settings=RemotingSettings(broker_networks=("10.0.0.0/8", "fd00::/8")))


def test_a_named_network_is_connected_to_by_name_too() -> None:
    """The name is resolved, and what it resolves to is judged."""

    async def body(world: World) -> None:
        assert await world.notify(f"localhost:{world.address.rpartition(':')[2]}")

    in_world(body, settings=RemotingSettings(broker_networks=("127.0.0.0/8",)))


@pytest.mark.parametrize(
    "address", ["0.0.0.0", "::", "224.0.0.1", "169.254.169.254", "fe80::1", "::ffff:169.254.1.1", "x"]
)
def test_what_no_broker_serves_at_is_never_connected_to(address: str) -> None:
    """Also where every network is allowed: 0.0.0.0 is this very host, link-local serves the host's own secrets."""
    assert not AllowedNetworks(ANYWHERE).allows(address)
    assert AllowedNetworks(ANYWHERE).allows("10.1.2.3")
    assert AllowedNetworks(ANYWHERE).allows("2001:db8::1")


def test_what_is_no_network_is_told_at_start() -> None:
    """A mistyped setting is no open door."""
    with pytest.raises(UsageError, match=r"broker_networks: .*10\.0\.0\.0/33"):
        RemotingSettings(broker_networks=("10.0.0.0/33",))


def test_stop_ends_everything_under_way() -> None:
    """Unacknowledged, unknown; and what comes later too."""

    async def body(world: World) -> None:
        calls = [asyncio.create_task(world.notify()) for _ in range(3)]
        await until(lambda: world.heard)
        await world.pusher.stop()
        assert [await call for call in calls] == [False, False, False]
        assert not await world.notify()
        assert await world.dial(world.address) == "unknown"

    in_world(body, code=None)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:80", ("::1", 80)),
        ("broker-1.local:65535", ("broker-1.local", 65535)),
        ("x", None),
        ("x:", None),
        (":1", None),
        ("x:65536", None),
        ("x:0", None),
        ("x:１", None),
        ("x:" + "9" * 5000, None),
        ("::1:80", None),
        ("1:2:3:80", None),
        ("[1:2:3]:80", None),
        ("[::1:80", None),
        ("[::ffff:10.0.0.1]:1", ("::ffff:10.0.0.1", 1)),
        ("a_b-1.net:1", ("a_b-1.net", 1)),
        ("a b:1", None),
        ("a\x1b[2J:1", None),
        ("http://a:1", None),
        ("a/b:1", None),
        ("a\n:1", None),
        ("-a:1", None),
        ("a:1\n", None),
    ],
)
def test_addresses_are_parsed_strictly(text: str, parsed: tuple[str, int] | None) -> None:
    """Whatever a broker registered must not raise later."""
    assert parse_address(text) == parsed
