"""The links between voters, over real sockets: who gets in, who is refused and told why, what is dropped."""

import asyncio
import contextlib
import random
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import Any, Self

import msgspec
import pytest
from structlog.testing import capture_logs

from quorate.consensus.ports import NodeId, Term
from quorate.consensus.settings import PeerSettings
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import NO_LIFE, Hello, Proof, Refused, TermNotice, Welcome
from quorate.consensus.transport.hello import PeerHandlers, PeerIdentity, proof
from quorate.consensus.transport.packets import LENGTH, OVERHEAD_BYTES, Tags, pack, unpack
from quorate.consensus.transport.peers import Peers, _Inbound, _Outbound
from quorate.errors import PeerError, UsageError
from tests.clusters import free_ports

KEY = b"the key of this cluster"
SETTINGS = PeerSettings(hello_timeout_s=0.3, frame_bytes_max=100_000, unproven_max=4)


def ports_of(*nodes: int) -> dict[int, int]:
    """A free port for each."""
    first = free_ports(len(nodes))
    return dict(zip(nodes, range(first, first + len(nodes)), strict=True))


class End:
    """One node's links and what they told."""

    def __init__(
        self, node: int, ports: dict[int, int], *, settings: PeerSettings = SETTINGS, **identity: object
    ) -> None:
        who = {"cluster_id": "c", "node_id": NodeId(node), "dir_uuid": bytes([node]) * 16, "key": KEY} | identity
        self.frames: list[tuple[int, bytes]] = []
        self.ups: list[int] = []
        self.downs: list[int] = []
        self.refused: list[tuple[int | None, str]] = []
        self.directories: dict[int, bytes] = {}
        self.fail = False
        self.port = ports[node]
        self.peers = Peers(
            PeerIdentity(**who),  # type: ignore[arg-type]
            {NodeId(other): ("127.0.0.1", port) for other, port in ports.items() if other != node},
            settings,
            random.Random(node),
            PeerHandlers(
                frame=self._frame,
                connected=self.ups.append,
                disconnected=self.downs.append,
                refused=lambda peer, reason: self.refused.append((peer, reason)),
                directory_of=self.directories.get,
            ),
            at_turns_end=lambda callback: asyncio.get_running_loop().call_soon(callback),
        )

    def _frame(self, peer: NodeId, frame: bytes) -> None:
        if self.fail:
            raise PeerError("not understood")
        self.frames.append((peer, frame))

    async def start(self) -> None:
        await self.peers.start("127.0.0.1", self.port)


async def until(condition: Callable[[], object], limit_s: float = 5.0) -> None:
    """Let the loop run until it holds."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110 - conditions over several objects
            await asyncio.sleep(0.002)


def with_ends(scenario: Callable[..., Awaitable[None]], *ends: End) -> None:
    """Start them, run the scenario, stop them."""

    async def run() -> None:
        for end in ends:
            await end.start()
        try:
            await scenario(*ends)
        finally:
            for end in ends:
                await end.peers.stop()

    asyncio.run(run())


def pair(**second: Any) -> tuple[End, End]:
    """Two nodes; the second's identity can differ."""
    ports = ports_of(1, 2)
    return End(1, ports), End(2, ports, **second)


def test_a_frame_that_is_too_long_is_told_and_not_sent() -> None:
    """It would end the link for all others; those before and after it arrive, and the log tells it once a period."""
    longest = b"x" * SETTINGS.frame_bytes_max

    async def scenario(one: End, two: End) -> None:
        await until(lambda: one.ups and two.ups)
        with capture_logs() as logs:
            for frame in (b"before", longest + b"x", longest + b"x", longest):
                one.peers.send(NodeId(2), frame)
            await until(lambda: len(two.frames) == 2)
        assert two.frames == [(1, b"before"), (1, longest)]
        assert not two.refused
        assert not two.downs
        (told,) = logs
        assert told["event"] == "frame is longer than peers take, and was not sent"
        assert (told["log_level"], told["peer"], told["bytes"]) == ("error", 2, 100_001)

    with_ends(scenario, *pair())


def test_frames_arrive_in_order_both_ways() -> None:
    """What one node sends in several turns the other gets whole, in order and from the right peer."""

    async def scenario(one: End, two: End) -> None:
        await until(lambda: one.ups and two.ups)
        for i in range(50):
            one.peers.send(NodeId(2), b"from one %d" % i)
            if i % 7 == 0:
                await asyncio.sleep(0)
        two.peers.send(NodeId(1), b"x" * 90_000)
        await until(lambda: len(two.frames) == 50 and one.frames)
        assert two.frames == [(1, b"from one %d" % i) for i in range(50)]
        assert one.frames == [(2, b"x" * 90_000)]

    with_ends(scenario, *pair())


def test_a_link_is_whole_before_its_hello() -> None:
    """Whatever is asked of a new connection has an answer: it is not open, and has no keys."""

    async def scenario(one: End) -> None:
        for link in (_Inbound(one.peers), _Outbound(one.peers, NodeId(2))):
            assert (link.open, link.ended, link.incoming, link.outgoing) == (False, False, None, None)
            assert link.incarnation is None

    with_ends(scenario, End(1, ports_of(1)))


def test_a_lost_peer_is_told_once_and_found_again() -> None:
    """When a peer goes both connections close, one disconnect is told, and when it comes back the link is up again."""

    async def scenario(one: End, two: End) -> None:
        await until(lambda: one.ups and two.ups)
        await two.peers.stop()
        await until(lambda: one.downs)
        assert not one.peers.connected(NodeId(2))
        one.peers.send(NodeId(2), b"lost")
        again = End(2, {1: one.port, 2: two.port})
        await again.start()
        try:
            await until(lambda: len(one.ups) == 2)
            one.peers.send(NodeId(2), b"found")
            await until(lambda: again.frames)
            assert again.frames == [(1, b"found")]
            assert one.downs == [2]
        finally:
            await again.peers.stop()

    with_ends(scenario, *pair())


@pytest.mark.parametrize(
    ("reason", "second"),
    [
        ("cluster id", {"cluster_id": "another"}),
        ("cluster key", {"key": b"another key"}),
        ("features", {"feature_min": 7, "feature_max": 9}),
    ],
)
def test_a_mismatch_is_refused_and_named_on_both_sides(reason: str, second: dict[str, object]) -> None:
    """Nodes that do not belong together never connect, and each is told what differs."""

    async def scenario(one: End, two: End) -> None:
        await until(lambda: any(r == reason for _, r in one.refused) and any(r == reason for _, r in two.refused))
        assert not one.ups
        assert not two.ups
        assert not one.peers.connected(NodeId(2))

    with_ends(scenario, *pair(**second))


def test_another_data_directory_is_refused() -> None:
    """A node whose directory is not the one the cluster knows is refused by name."""
    one, two = pair()
    one.directories[2] = b"?" * 16

    async def scenario(one: End, two: End) -> None:
        await until(lambda: (2, "directory") in one.refused and (1, "directory") in two.refused)
        assert not one.frames

    with_ends(scenario, one, two)


def test_an_unknown_node_is_refused() -> None:
    """A node id that is not among the voters is refused by name."""
    ports = ports_of(1, 2, 9)
    one = End(1, {1: ports[1], 2: ports[2]})
    nine = End(9, {1: ports[1], 9: ports[9]})

    async def scenario(one: End, nine: End) -> None:
        await until(lambda: (None, "node id") in one.refused and (1, "node id") in nine.refused)

    with_ends(scenario, one, nine)


class Raw:
    """A hostile client: bytes in, frames out."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    def send(self, *frames: bytes) -> None:
        self._writer.write(b"".join(struct.pack("!I", len(frame)) + frame for frame in frames))

    def send_raw(self, data: bytes) -> None:
        self._writer.write(data)

    async def read(self) -> bytes:
        """The next frame; empty when closed."""
        try:
            async with asyncio.timeout(3):
                (size,) = struct.unpack("!I", await self._reader.readexactly(4))
                return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""


def hello(**changes: object) -> bytes:
    """A good hello of node 2 to node 1, but for the changes."""
    fields = {
        "cluster_id": "c", "node_id": NodeId(2), "to_node_id": NodeId(1), "dir_uuid": bytes(16),
        "feature_min": 1, "feature_max": 1, "nonce": bytes(32),
    } | changes  # fmt: skip
    return codec.encode_hello(Hello(**fields))  # type: ignore[arg-type]


HOSTILE: dict[str, tuple[list[bytes], str]] = {
    "no hello": ([b"\x01what"], "malformed"),
    "consensus frame first": ([codec.encode(codec.Alive(Term(1)))], "malformed"),
    "proof first": ([codec.encode_hello(Proof(bytes(32)))], "malformed"),
    "wrong version": ([b"\x20\x63" + hello()[2:]], "version"),
    "to another node": ([hello(to_node_id=NodeId(3))], "node id"),
    "from the node itself": ([hello(node_id=NodeId(1))], "node id"),
    "unknown node": ([hello(node_id=NodeId(77))], "node id"),
    "wrong cluster": ([hello(cluster_id="d")], "cluster id"),
    "guessed proof": ([hello(), codec.encode_hello(Proof(bytes(32)))], "cluster key"),
    "frame instead of proof": ([hello(), codec.encode(codec.Alive(Term(1)))], "malformed"),
    "welcome instead of proof": ([hello(), codec.encode_hello(Welcome())], "cluster key"),
    "truncated hello": ([hello()[:-1]], "malformed"),
    "above the hello limit": ([b"\x20" * 5000], "malformed"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_hello_is_refused_by_name(case: str) -> None:
    """Whatever an unproven client sends, it is told the reason, is closed, and no frame of it is handled."""
    frames, reason = HOSTILE[case]
    one = End(1, ports_of(1, 2))

    async def scenario(one: End) -> None:
        async with Raw(one.port) as raw:
            raw.send(*frames)
            answers = []
            while answer := await raw.read():
                answers.append(codec.decode_hello(answer))
            assert answers[-1] == Refused(reason)  # type: ignore[arg-type]
        assert not one.frames
        assert one.peers.refusals == {reason: 1}

    with_ends(scenario, one)


def test_the_acceptors_proof_cannot_be_sent_back_to_it() -> None:
    """A client that reflects the acceptor's own proof is refused: the roles are part of what is signed."""
    one = End(1, ports_of(1, 2))

    async def scenario(one: End) -> None:
        async with Raw(one.port) as raw:
            raw.send(hello())
            await raw.read()
            raw.send(await raw.read())
            assert codec.decode_hello(await raw.read()) == Refused("cluster key")

    with_ends(scenario, one)


def test_a_recorded_proof_is_worth_nothing_later() -> None:
    """A proof made for one connection is refused on the next: the acceptor's nonce is new."""
    one = End(1, ports_of(1, 2))

    async def scenario(one: End) -> None:
        async with Raw(one.port) as first:
            first.send(hello())
            recorded = codec.encode_hello(Proof(proof(KEY, b"D", hello(), await first.read())))
            await first.read()
            first.send(recorded)
            assert codec.decode_hello(await first.read()) == Welcome()
        async with Raw(one.port) as second:
            second.send(hello(), recorded)
            await second.read()
            await second.read()
            assert codec.decode_hello(await second.read()) == Refused("cluster key")

    with_ends(scenario, one)


def test_a_silent_client_is_refused_at_the_deadline() -> None:
    """A connection that says nothing is told so and closed when the hello's time is over."""
    one = End(1, ports_of(1, 2))

    async def scenario(one: End) -> None:
        async with Raw(one.port) as raw:
            assert codec.decode_hello(await raw.read()) == Refused("deadline")
            assert await raw.read() == b""

    with_ends(scenario, one)


def test_of_too_many_unproven_connections_the_oldest_is_turned_away() -> None:
    """Beyond the limit the oldest that has proven nothing is refused as busy, so a voter gets in at any time."""
    one = End(1, ports_of(1, 2))

    async def scenario(one: End) -> None:
        waiting = [Raw(one.port) for _ in range(SETTINGS.unproven_max)]
        for raw in waiting:
            await raw.__aenter__()
        await until(lambda: len(one.peers._unproven) == SETTINGS.unproven_max)
        waiting[0].send(hello())
        assert isinstance(codec.decode_hello(await waiting[0].read()), Hello)
        async with Raw(one.port) as late:
            assert codec.decode_hello(await waiting[1].read()) == Refused("busy")
            late.send(hello())
            assert isinstance(codec.decode_hello(await late.read()), Hello)
        for raw in waiting:
            await raw.__aexit__()

    with_ends(scenario, one)


def test_refusals_are_counted_and_not_repeated() -> None:
    """However often one peer is refused for one reason: a line, and a count; another reason has a line of its own."""
    one = End(1, ports_of(1, 2))

    async def scenario(one: End) -> None:
        with capture_logs() as logged:
            for _ in range(10):
                async with Raw(one.port) as raw:
                    raw.send(hello(cluster_id="another"))
                    assert codec.decode_hello(await raw.read()) == Refused("cluster id")
            async with Raw(one.port) as raw:
                assert codec.decode_hello(await raw.read()) == Refused("deadline")
        assert [(line["event"], line["reason"]) for line in logged] == [
            ("peer connection refused", "cluster id"),
            ("peer connection refused", "deadline"),
        ]
        assert one.peers.refusals == {"cluster id": 10, "deadline": 1}

    with_ends(scenario, one)


def test_an_oversized_frame_of_a_proven_peer_drops_its_connection() -> None:
    """A length above the limit ends the connection before anything of that size is kept."""

    async def scenario(one: End, two: End) -> None:
        await until(lambda: one.ups and two.ups)
        link = one.peers._links.outbound[NodeId(2)]
        link.transport.write(struct.pack("!I", SETTINGS.frame_bytes_max + OVERHEAD_BYTES + 1))
        await until(lambda: (1, "malformed") in two.refused)
        await until(lambda: len(one.ups) == 2)
        assert not two.frames

    with_ends(scenario, *pair())


def test_a_frame_that_is_not_understood_drops_the_connection_only() -> None:
    """PeerError from the handler closes that connection; the peer may dial again and be heard."""

    async def scenario(one: End, two: End) -> None:
        await until(lambda: one.ups and two.ups)
        two.fail = True
        one.peers.send(NodeId(2), b"nonsense")
        await until(lambda: len(one.ups) == 2)
        two.fail = False
        one.peers.send(NodeId(2), b"sense")
        await until(lambda: two.frames)
        assert two.frames == [(1, b"sense")]

    with_ends(scenario, *pair())


def test_a_peer_that_does_not_read_is_dropped_not_buffered() -> None:
    """More than the buffer limit waiting for one peer aborts its connection."""
    ports = ports_of(1, 2)
    one = End(1, ports, settings=PeerSettings(buffer_bytes_max=1000))

    async def scenario(one: End, two: End) -> None:
        await until(lambda: one.ups and two.ups)
        one.peers.send(NodeId(2), b"y" * 2000)
        await until(lambda: len(one.ups) == 2)
        assert not two.frames

    with_ends(scenario, one, End(2, ports))


def test_a_taken_port_is_a_usage_error() -> None:
    """A listener that cannot be had is named at start."""
    ports = ports_of(1, 2)

    async def scenario(one: End) -> None:
        with pytest.raises(UsageError, match=str(one.port)):
            await End(1, ports).start()

    with_ends(scenario, End(1, ports))


def test_an_empty_key_is_a_usage_error() -> None:
    """A node without a cluster key cannot be made."""
    with pytest.raises(UsageError, match="key"):
        PeerIdentity(cluster_id="c", node_id=NodeId(1), dir_uuid=bytes(16), key=b"")


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux lets a program say so")
def test_a_link_into_nowhere_is_given_up_soon() -> None:
    """Either end closes what the other's kernel does not acknowledge for ``unanswered_s``: TCP alone would wait up to
    two minutes after the network healed before it tries again, and the cluster would have no leader so long. An idle
    one is probed: a machine that is gone is not taken for a silent one.
    """
    ports = ports_of(1, 2)

    async def scenario(one: End, two: End) -> None:
        await until(lambda: one.ups and two.ups)
        links = [*one.peers._links.outbound.values(), *one.peers._links.inbound.values()]
        assert len(links) == 2
        for link in links:
            kernel = link.transport.get_extra_info("socket")
            assert kernel.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 3000
            assert kernel.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert kernel.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 1

    with_ends(scenario, End(1, ports), End(2, ports))


# ── on the path ──


class OnPath:
    """Somebody between node 1, who dials, and node 2: what node 1 sends passes through ``change``, chunk by chunk."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.change: Callable[[bytes], bytes] = lambda data: data
        self.seen: list[bytes] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(self._carry(reader, back, forth=True), self._carry(there, writer, forth=False))

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, forth: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 20):
                if forth:
                    self.seen.append(data)
                    data = self.change(data)
                sink.write(data)
        sink.close()


def with_somebody_on_the_path(scenario: Callable[[End, End, OnPath], Awaitable[None]], **settings: Any) -> None:
    """Two nodes whose link from 1 to 2 leads through an OnPath; the scenario begins when it is up."""
    ports = ports_of(1, 2)
    limits = PeerSettings(hello_timeout_s=0.3, **settings)
    two = End(2, ports, settings=limits)

    async def run() -> None:
        async with OnPath(ports[2]) as path:
            one = End(1, ports | {2: path.port}, settings=limits)
            for end in (one, two):
                await end.start()
            try:
                await until(lambda: one.ups and two.ups)
                async with asyncio.timeout(10):
                    await scenario(one, two, path)
            finally:
                for end in (one, two):
                    await end.peers.stop()

    asyncio.run(run())


NOTICE = codec.encode(TermNotice(Term((1 << 62) - 1)))
FORGED: dict[str, Callable[[bytes, bytes], bytes]] = {
    "a frame as it was before packets": lambda data, _: LENGTH.pack(len(NOTICE)) + NOTICE + data,
    "a packet of a guessed tag": lambda data, _: (
        LENGTH.pack(OVERHEAD_BYTES + len(NOTICE)) + bytes(16) + LENGTH.pack(len(NOTICE)) + NOTICE + data
    ),
    "a packet sent again": lambda data, earlier: earlier + data,
    "a packet left out": lambda _data, _earlier: b"",
    "a bit of the frame": lambda data, _: data[:-1] + bytes((data[-1] ^ 1,)),
    "a bit of the tag": lambda data, _: data[:5] + bytes((data[5] ^ 128,)) + data[6:],
    "a frame taken off the end": lambda data, _: LENGTH.pack(len(data) - 4 - 6) + data[4:-6],
}


@pytest.mark.parametrize("case", FORGED)
def test_what_is_done_to_a_proven_link_ends_it_and_changes_nothing(case: str) -> None:
    """Somebody on the path who adds, repeats, drops or changes a single packet is heard nowhere: the connection is
    refused by name on both sides, nothing that came with it is handled, and the peers find each other again.
    """
    forge = FORGED[case]

    async def scenario(one: End, two: End, path: OnPath) -> None:
        one.peers.send(NodeId(2), b"first")
        await until(lambda: two.frames == [(1, b"first")])
        earlier = path.seen[-1]

        def once(data: bytes) -> bytes:
            path.change = lambda later: later
            return forge(data, earlier)

        path.change = once
        for frame in (b"second", b"2b"):
            one.peers.send(NodeId(2), frame)
        await until(lambda: path.seen[-1] != earlier)
        if case == "a packet left out":
            one.peers.send(NodeId(2), b"third")
        await until(lambda: two.refused and one.refused)
        reason = "malformed" if "before packets" in case else "frame tag"
        assert (two.refused, one.refused) == ([(1, reason)], [(2, reason)])
        assert two.frames == [(1, b"first")]
        await until(lambda: len(one.ups) == 2)
        one.peers.send(NodeId(2), b"again")
        await until(lambda: two.frames == [(1, b"first"), (1, b"again")])

    with_somebody_on_the_path(scenario)


def test_a_forged_length_does_not_silence_a_link_for_long() -> None:
    """A length is read before its tag can be: when the rest of such a packet does not come, the link is dialed anew."""

    async def scenario(one: End, two: End, path: OnPath) -> None:
        path.change = lambda data: LENGTH.pack(5_000_000) + data
        one.peers.send(NodeId(2), b"swallowed")
        await until(lambda: path.seen[-1].endswith(b"swallowed"))
        path.change = lambda data: data
        await until(lambda: (1, "deadline") in two.refused and (2, "deadline") in one.refused)
        await until(lambda: len(one.ups) == 2)
        one.peers.send(NodeId(2), b"heard")
        await until(lambda: two.frames == [(1, b"heard")])

    with_somebody_on_the_path(scenario, packet_timeout_s=0.2)


def test_the_frames_of_a_turn_are_one_packet_and_long_ones_several() -> None:
    """Frames leave and arrive in order under one tag, up to ``packet_bytes``; a longer frame travels alone."""
    for limit, count in ((1000, 1), (60, 3), (10, 4), (9, 5)):
        frames = [b"a" * 20, b"b", b"c" * 50, b"d", b"e"]
        data = pack(Tags(KEY, b"D", b"x", b"y"), frames, limit)
        tags, found, number = Tags(KEY, b"D", b"x", b"y"), [], 0
        while data:
            size = 4 + int.from_bytes(data[:4])
            found += unpack(tags, data, 4, size)
            data = data[size:]
            number += 1
        assert (found, number) == (frames, count)


@pytest.mark.parametrize("body", [b"\0\0\0\0", b"\0\0\0\2x", b"\0\0\0\1xy", b"\0", b"\xff\xff\xff\xffx"])
def test_a_packet_that_its_frames_do_not_fill_is_no_packet(body: bytes) -> None:
    """Also under a right tag a frame's length stays inside its packet."""
    tag = Tags(KEY, b"D", b"x", b"y").next(body)
    with pytest.raises(PeerError, match="length"):
        unpack(Tags(KEY, b"D", b"x", b"y"), tag + body, 0, len(tag + body))


def test_the_keys_of_a_link_are_its_own() -> None:
    """Another cluster key, direction, hello or place in the sequence makes another tag."""
    made = [
        Tags(KEY, b"D", b"one", b"two"), Tags(KEY, b"A", b"one", b"two"), Tags(b"other", b"D", b"one", b"two"),
        Tags(KEY, b"D", b"onE", b"two"), Tags(KEY, b"D", b"one", b"twO"),
    ]  # fmt: skip
    found = [tags.next(b"frame") for tags in made] + [tags.next(b"frame") for tags in made]
    assert len(set(found)) == 2 * len(made)


def test_a_peer_of_the_first_version_is_refused_by_name() -> None:
    """A node that sends frames without tags says version 1 in its hello, and is told "version"."""
    one = End(1, ports_of(1, 2))

    async def scenario(one: End) -> None:
        async with Raw(one.port) as raw:
            raw.send(b"\x20\x01" + hello()[2:])
            assert codec.decode_hello(await raw.read()) == Refused("version")
        assert one.refused == [(None, "version")]

    with_ends(scenario, one)


# ── lives ──


class Told:
    """The handlers of lives, by hand."""

    def __init__(self, end: End, life: bytes, *, known: bytes = NO_LIFE) -> None:
        self.known = known
        self.told: list[bytes] = []
        self.speak: list[Callable[[], None]] = []
        self.hear: list[Callable[[], None]] = []
        self.at_once = True
        self.refuses = 0
        changes = {"life": lambda: life, "met": self._met, "judge": self._judge, "meet": self._meet}
        end.peers.handlers = msgspec.structs.replace(end.peers.handlers, **changes)

    def _met(self, _peer: NodeId, _incarnation: bytes) -> bytes:
        return self.known

    def _judge(self, _peer: NodeId, told: bytes, done: Callable[[], None]) -> None:
        self.told.append(told)
        self.speak.append(done)
        if self.at_once:
            done()

    def _meet(self, _peer: NodeId, _incarnation: bytes, life: bytes, told: bytes, done: Callable[[], None]) -> bool:
        assert told == self.known
        if self.refuses:
            self.refuses -= 1
            return False
        self.known = life
        self.hear.append(done)
        if self.at_once:
            done()
        return True


ONE_LIVES, TWO_LIVES, ELSEWHERE = (bytes([number]) * 16 for number in (11, 12, 13))


def test_each_side_says_its_life_and_which_it_met() -> None:
    """Who dials is told the life that was met before, and then its own is kept."""
    one, two = pair()
    first, second = Told(one, ONE_LIVES, known=ELSEWHERE), Told(two, TWO_LIVES)

    async def scenario(one: End, two: End) -> None:
        await until(lambda: one.ups and two.ups)
        assert (first.told, second.told) == ([NO_LIFE], [ELSEWHERE])
        assert (first.known, second.known) == (TWO_LIVES, ONE_LIVES)

    with_ends(scenario, one, two)


def test_nothing_is_heard_before_both_sides_have_kept_what_they_learned() -> None:
    """The proof waits for the dialer's disk, the welcome for the other's; whoever is first waits."""
    one, two = pair()
    first, second = Told(one, ONE_LIVES), Told(two, TWO_LIVES)
    first.at_once = second.at_once = False

    async def scenario(one: End, two: End) -> None:
        await until(lambda: first.speak and second.speak)
        await asyncio.sleep(0.1)
        assert not first.hear
        assert not second.hear
        first.speak[0]()
        await until(lambda: second.hear)
        await asyncio.sleep(0.1)
        assert not one.ups
        second.hear[0]()
        await until(lambda: one.ups)
        assert not two.ups

    with_ends(scenario, one, two)


def test_a_dialer_that_refuses_is_refused_for_its_reason_and_not_believed() -> None:
    """It knows another directory here: that is no wrong key. It has proven nothing, so nobody is told."""
    one = End(1, ports_of(1, 2))
    told: list[object] = []
    one.peers.handlers = msgspec.structs.replace(one.peers.handlers, turned_away=lambda *what: told.append(what))

    async def scenario(one: End) -> None:
        async with Raw(one.port) as raw:
            raw.send(hello(), codec.encode_hello(Refused("directory")))
            await until(lambda: one.refused)
        assert one.refused == [(2, "directory")]
        assert not told

    with_ends(scenario, one)


def test_who_must_be_told_of_another_life_first_says_hello_again() -> None:
    """Another copy was met between hello and proof: refused by name, and told at the next try."""
    one, two = pair()
    first, second = Told(one, ONE_LIVES), Told(two, TWO_LIVES)
    first.refuses = 1

    async def scenario(one: End, two: End) -> None:
        await until(lambda: one.refused)
        assert one.refused == [(2, "life")]
        first.known = ELSEWHERE
        await until(lambda: one.ups and two.ups)
        assert second.told[-1] == ELSEWHERE

    with_ends(scenario, one, two)


def test_a_tls_client_is_told_at_once() -> None:
    """On a listener without TLS, by an alert of its own protocol; it is counted as what is malformed."""

    async def scenario(end: End) -> None:
        with pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure"):
            await asyncio.open_connection("127.0.0.1", end.port, ssl=ssl.create_default_context(), server_hostname="n")
        assert end.refused == [(None, "malformed")]

    with_ends(scenario, End(1, ports_of(1)))
