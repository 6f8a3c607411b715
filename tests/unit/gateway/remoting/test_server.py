"""The listener: what leaves together, and what hostile, slow or silent peers can and cannot do."""

import asyncio
import ssl
import struct
import time
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from quorate.gateway.remoting.server import Connection, RemotingServer
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.wire.remoting import (
    Frame,
    FrameSplitter,
    HeaderType,
    HeartbeatRequest,
    Message,
    MetadataRequest,
    Request,
    Response,
    decode_response,
    encode_request,
)
from quorate.wire.remoting_headers import HeartbeatFields

BEAT = HeartbeatFields("c", "127.0.0.1:1", "b", 1)


class Echo:
    """A service that answers at once, later, or never, as the test says."""

    def __init__(self) -> None:
        self.beats: list[HeartbeatRequest] = []
        self.requests: list[Request] = []
        self.waiting: list[tuple[Connection, HeaderType, int]] = []
        self.gone: list[Connection] = []
        self.registered: set[str] = set()
        self.hold = False
        self.size = 0

    def heartbeat(self, request: HeartbeatRequest, connection: Connection) -> Message | None:
        self.beats.append(request)
        return Message(0, remark="Heart beat success")

    def handle(self, request: Request, frame: Frame, connection: Connection) -> None:
        self.requests.append(request)
        if self.hold:
            self.waiting.append((connection, frame.header_type, request.opaque))
        else:
            message = None if request.oneway else Message(0, body=frame.body + bytes(self.size))
            connection.answer(frame.header_type, request.opaque, message)

    def closed(self, connection: Connection) -> None:
        self.gone.append(connection)

    def knows(self, connection: Connection) -> bool:
        return connection.address in self.registered


def with_server(
    settings: RemotingSettings,
    test: Callable[[Echo, RemotingServer, int], Awaitable[None]],
) -> None:
    """Run a test against a listener on a free port."""

    async def run() -> None:
        service = Echo()
        loop = asyncio.get_running_loop()
        server = RemotingServer(service, settings, loop=loop, now=time.monotonic, at_turns_end=loop.call_soon)
        listening = await server.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(20):
                await test(service, server, listening.sockets[0].getsockname()[1])
        finally:
            await server.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until something is so; the test's own deadline ends it."""
    while not condition():  # noqa: ASYNC110 - the condition has no event of its own
        await asyncio.sleep(0.002)


async def read_responses(reader: asyncio.StreamReader, count: int) -> list[Response]:
    """The next answers on a connection."""
    splitter = FrameSplitter()
    got: list[Response] = []
    while len(got) < count:
        data = await reader.read(1 << 16)
        assert data, "closed"
        got += [decode_response(frame) for frame in splitter.feed(data)]
    return got


def test_pipelined_requests_are_all_answered_in_one_send() -> None:
    """Many requests in one segment: every opaque comes back, joined into one write of the transport."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(encode_request(1005, number) for number in range(50)))
        answers = await read_responses(reader, 50)
        assert sorted(answer.opaque for answer in answers) == list(range(50))
        assert len(service.requests) == 50
        writer.close()

    with_server(RemotingSettings(), body)


def test_answers_come_in_the_header_form_of_the_request() -> None:
    """JSON is answered in JSON, binary in binary, on the same connection."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for header_type in (HeaderType.BINARY, HeaderType.JSON):
            writer.write(encode_request(1005, 7, header_type=header_type))
            head = await reader.readexactly(8)
            total, word = struct.unpack(">II", head)
            assert word >> 24 == header_type
            await reader.readexactly(total - 4)
        writer.close()

    with_server(RemotingSettings(), body)


def test_oneway_requests_and_responses_are_never_answered() -> None:
    """A one-way heartbeat and a stray response are silent; the two-way heartbeat after them is answered."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode_request(904, 1, BEAT, oneway=True))
        writer.write(encode_request(1005, 2, oneway=True))
        writer.write(Message(0, flag=1).frame(HeaderType.JSON, 3))
        writer.write(encode_request(904, 4, BEAT))
        (answer,) = await read_responses(reader, 1)
        assert (answer.opaque, answer.code, answer.remark) == (4, 0, "Heart beat success")
        assert len(service.beats) == 2
        assert service.requests == [MetadataRequest(opaque=2, flag=2)]
        writer.close()

    with_server(RemotingSettings(), body)


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">II", 0x7FFFFFFF, 0),
        struct.pack(">II", 0xFFFFFFFF, 0),
        struct.pack(">II", 20, 100),
        struct.pack(">II", 6, 2) + b"no",
        struct.pack(">II", 6, 0x05000002) + b"{}",
        struct.pack(">II", 6, 0x01000002) + b"{}",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_a_malformed_frame_closes_the_connection_without_an_answer(garbage: bytes) -> None:
    """As in Java: no error response, the connection ends; what came before it was answered, and it is counted."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode_request(1005, 1) + garbage)
        data = await reader.read(-1)
        assert [decode_response(frame).opaque for frame in FrameSplitter().feed(data)] == [1]
        assert server._metrics.peer_errors["remoting"] == 1
        writer.close()
        await until(lambda: not server.connections)
        assert len(service.gone) == 1

    with_server(RemotingSettings(), body)


def test_when_nobody_can_go_the_newest_is_closed_at_once() -> None:
    """The limit holds, and the proven live on."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        first = await asyncio.open_connection("127.0.0.1", port)
        first[1].write(encode_request(1005, 1))
        await read_responses(first[0], 1)
        second = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await second[0].readexactly(1)
        first[1].write(encode_request(1005, 2))
        assert (await read_responses(first[0], 1))[0].opaque == 2
        assert server._admission.evicted == 1
        first[1].close()
        second[1].close()

    with_server(RemotingSettings(connections_max=1), body)


def test_silent_and_heartbeating_strangers_make_room() -> None:
    """All places are taken by the silent and by strangers' heartbeats, which are free: brokers and tools get in."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        tool = await asyncio.open_connection("127.0.0.1", port)
        tool[1].write(encode_request(1005, 1))
        await read_responses(tool[0], 1)
        broker = await asyncio.open_connection("127.0.0.1", port)
        broker[1].write(encode_request(904, 2, BEAT))
        await read_responses(broker[0], 1)
        host, at, *_ = broker[1].get_extra_info("sockname")
        service.registered.add(f"{host}:{at}")
        strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        opened = [tool, broker, *strangers]
        for stranger in strangers[:4]:
            stranger[1].write(encode_request(904, 3, BEAT))
            await read_responses(stranger[0], 1)
        for number in range(12):
            opened.append(fresh := await asyncio.open_connection("127.0.0.1", port))
            fresh[1].write(encode_request(1005, number))
            assert (await read_responses(fresh[0], 1))[0].opaque == number
        for reader, _ in strangers:
            assert await reader.read(1) == b""
        for known in (tool, broker):
            known[1].write(encode_request(1005, 99))
            assert (await read_responses(known[0], 1))[0].opaque == 99
        assert server.connections == 10
        assert server._admission.evicted == 12
        await until(lambda: len(service.gone) == 12)
        for _, writer in opened:
            writer.close()

    with_server(RemotingSettings(connections_max=10, connections_reserved=5, proven_per_address_max=3), body)


def test_a_connection_that_never_sends_a_byte_has_a_deadline() -> None:
    """One that asked once may be silent for longer."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        asked = await asyncio.open_connection("127.0.0.1", port)
        asked[1].write(encode_request(1005, 1))
        silent = await asyncio.open_connection("127.0.0.1", port)
        assert await silent[0].read(1) == b""
        await read_responses(asked[0], 1)
        assert server.connections == 1
        assert server.deadlines_missed == {"nothing sent in time": 1}
        asked[1].close()
        silent[1].close()

    with_server(RemotingSettings(first_byte_deadline_s=0.1, sweep_period_s=0.02), body)


def test_a_silent_peer_is_closed_but_not_one_that_speaks() -> None:
    """Idle means no byte in or out for the whole deadline (Java: 120 s)."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        silent = await asyncio.open_connection("127.0.0.1", port)
        speaking = await asyncio.open_connection("127.0.0.1", port)

        async def speak() -> None:
            while True:
                speaking[1].write(encode_request(904, 1, BEAT, oneway=True))
                await asyncio.sleep(0.05)

        task = asyncio.create_task(speak())
        try:
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await silent[0].readexactly(1)
        finally:
            task.cancel()
        assert server.connections == 1
        assert server.deadlines_missed == {"idle": 1}
        for _, writer in (silent, speaking):
            writer.close()

    with_server(RemotingSettings(idle_deadline_s=0.5, sweep_period_s=0.05), body)


def test_a_frame_has_a_deadline_however_slowly_its_bytes_come() -> None:
    """One byte now and then keeps nobody's connection: the deadline counts from the frame's first byte."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        data = encode_request(1005, 1)

        async def drip() -> None:
            for at in range(len(data)):
                writer.write(data[at : at + 1])
                await asyncio.sleep(0.1)

        task = asyncio.create_task(drip())
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        task.cancel()
        assert server.deadlines_missed == {"frame not finished in time": 1}
        assert service.requests == []
        writer.close()

    with_server(RemotingSettings(partial_deadline_s=0.3, sweep_period_s=0.05), body)


def test_unfinished_frames_share_a_budget() -> None:
    """Many half frames cannot fill the memory: the one beyond the budget loses its connection."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        peers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for _, writer in peers:
            writer.write(struct.pack(">II", 60_000, 0) + bytes(40_000))
            await writer.drain()
        ended = [asyncio.create_task(reader.read(1)) for reader, _ in peers]
        done, _ = await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == [b""]
        assert server._partial_bytes == 80_016
        for task in ended:
            task.cancel()
        for _, writer in peers:
            writer.close()
        await until(lambda: not server.connections)
        assert server._partial_bytes == 0

    with_server(RemotingSettings(partial_bytes_max=100_000), body)


def test_reading_stops_while_too_much_is_in_flight() -> None:
    """Backpressure: what is not answered bounds what is read; answering lets it flow again, and nothing is lost."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        def heard(count: int) -> Callable[[], bool]:
            return lambda: len(service.requests) >= count

        service.hold = True
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(8):
            writer.write(encode_request(1005, number))
            await writer.drain()
            await until(heard(number + 1))
        connection = service.waiting[0][0]
        assert connection._transport is not None
        writer.write(encode_request(1005, 8))
        await writer.drain()
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert len(service.requests) == 8
        service.hold = False
        for held, header_type, opaque in service.waiting:
            held.answer(header_type, opaque, Message(0))
        answers = await read_responses(reader, 9)
        assert [answer.opaque for answer in answers] == list(range(9))
        writer.close()

    with_server(RemotingSettings(in_flight_max=8), body)


def test_a_peer_that_never_reads_its_answers_is_closed() -> None:
    """Answers pile up to the limit, then nothing more is read from it, then the deadline ends it."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        service.size = 1 << 16
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        sent = 0
        while server.connections or not sent:
            if sent < 5000:
                writer.write(encode_request(1005, sent))
                sent += 1
            await asyncio.sleep(0)
            if writer.transport.is_closing():
                break
        await until(lambda: service.gone)
        assert server.deadlines_missed == {"answers not read in time": 1}
        assert len(service.requests) < 5000
        writer.transport.abort()
        del reader

    with_server(RemotingSettings(write_buffer_bytes_max=1 << 18, slow_reader_deadline_s=0.2, sweep_period_s=0.05), body)


def test_an_answer_after_the_peer_left_is_dropped() -> None:
    """The service may answer late; nothing breaks."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        service.hold = True
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode_request(1005, 1))
        await until(lambda: service.waiting)
        writer.transport.abort()
        await until(lambda: service.gone)
        held, header_type, opaque = service.waiting[0]
        held.answer(header_type, opaque, Message(0))
        assert held._out == []

    with_server(RemotingSettings(), body)


def test_stop_closes_every_connection() -> None:
    """Nobody is left hanging."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode_request(1005, 1))
        await read_responses(reader, 1)
        await server.stop()
        assert await reader.read(1) == b""
        assert len(service.gone) == 1
        writer.close()

    with_server(RemotingSettings(), body)


def test_ready_answers_leave_before_a_connection_is_closed() -> None:
    """What was asked in the segments before the broken one, or in the same, is answered; then the end."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        asked = b"".join(encode_request(1005, number) for number in range(20))
        for broken in (struct.pack(">II", 2**31, 0), struct.pack(">II", 8, 3) + b"{}}" + b"x"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(asked + broken)
            assert [answer.opaque for answer in await read_responses(reader, 20)] == list(range(20))
            assert await reader.read(1) == b""
            writer.close()

    with_server(RemotingSettings(), body)


def test_a_piece_of_a_bad_frame_is_no_tls_client() -> None:
    """What looks like a handshake in the middle of a frame is a part of that frame: no refusal of TLS is sent."""
    frame = struct.pack(">II", 18, 14) + b"\x03" + b"\x16\x03\x00" + bytes(10)

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        service.hold = True
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode_request(1005, 1))
        await until(lambda: service.waiting)
        connection = service.waiting[0][0]
        connection.data_received(frame[:9])
        connection.data_received(frame[9:])
        assert await reader.read(-1) == b""
        writer.close()

    with_server(RemotingSettings(), body)


def test_a_tls_client_is_told_at_once() -> None:
    """On a listener without TLS, by an alert of its own protocol."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        with pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure"):
            await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context(), server_hostname="n")

    with_server(RemotingSettings(), body)


BAD = struct.pack(">II", 18, 14) + bytes(14)
"""A frame that is none."""


def test_what_is_sent_after_a_bad_frame_does_not_cost_the_answers() -> None:
    """The node answers what came before it, closes its side, and takes and drops what still comes: no reset."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode_request(1005, 1) + encode_request(904, 2, BEAT) + BAD)
        for _ in range(200):
            writer.write(bytes(20_000))
            await writer.drain()
        told = await read_responses(reader, 2)
        assert {answer.opaque for answer in told} == {1, 2}
        assert await reader.read() == b""
        assert not service.gone
        writer.close()
        await until(lambda: service.gone)

    with_server(RemotingSettings(), body)


def test_who_does_not_go_after_a_bad_frame_is_hung_up_on() -> None:
    """It has as long as for a frame; an answer that was not ready is dropped, and so is what its frames held."""

    async def body(service: Echo, server: RemotingServer, port: int) -> None:
        service.hold = True
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode_request(1005, 1))
        await until(lambda: service.waiting)
        writer.write(BAD + encode_request(1005, 2)[:-1])
        assert await reader.read() == b""
        connection, header_type, opaque = service.waiting[0]
        connection.answer(header_type, opaque, Message(0))
        await until(lambda: service.gone)
        assert server.deadlines_missed == {"not gone in time": 1}
        assert server._partial_bytes == 0
        writer.close()

    with_server(RemotingSettings(sweep_period_s=0.02, partial_deadline_s=0.1), body)
