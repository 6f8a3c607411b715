"""A client of the gRPC listener, frame by frame, and a listener without sockets, both in virtual time."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple, cast

from hpack import Decoder

from quorate.gateway.grpc.asking import Call
from quorate.gateway.grpc.calls import Calls
from quorate.gateway.grpc.codes import CallError, StatusCode
from quorate.gateway.grpc.connection import GrpcConnection
from quorate.gateway.grpc.pb import rpc_pb2 as pb
from quorate.gateway.grpc.server import GrpcListener
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.wire import http2
from tests.unit.gateway.grpc.house import House
from tests.unit.gateway.turns import UnreadWire

GET = b"/etcdserverpb.KV/Range"
WATCH = b"/etcdserverpb.Watch/Watch"
PLENTY = 1 << 30


class Frame(NamedTuple):
    """One that the server said."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def ends(self) -> bool:
        return self.kind in (http2.DATA, http2.HEADERS) and bool(self.flags & http2.END_STREAM)


def head(stream: int, path: bytes = GET, /, **fields: bytes | None) -> bytes:
    """HEADERS of a call; ``fields`` are put in the place of a client's, None takes one away (_ for a dash)."""
    return http2.frame(http2.HEADERS, http2.END_HEADERS, stream, http2.literals(fields_of(path, **fields)))


def half_head(stream: int) -> bytes:
    """HEADERS of a call, to which more is to come."""
    return http2.frame(http2.HEADERS, 0, stream, http2.literals(fields_of()))


def fields_of(path: bytes = GET, /, **fields: bytes | None) -> list[tuple[bytes, bytes]]:
    usual: dict[bytes, bytes | None] = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": path,
        b"content-type": b"application/grpc",
        b"te": b"trailers",
    }
    usual |= {name.replace("_", "-").encode(): value for name, value in fields.items()}
    return [(name, value) for name, value in usual.items() if value is not None]


def message(data: bytes = b"", *, compressed: int = 0) -> bytes:
    """With its prefix."""
    return bytes((compressed,)) + len(data).to_bytes(4, "big") + data


def data(stream: int, payload: bytes = b"", *, end: bool = True) -> bytes:
    """As many DATA frames as it takes."""
    parts = [payload[at : at + http2.FRAME_MAX] for at in range(0, len(payload), http2.FRAME_MAX)] or [b""]
    return b"".join(
        http2.frame(http2.DATA, http2.END_STREAM if end and number == len(parts) - 1 else 0, stream, part)
        for number, part in enumerate(parts)
    )


def frames_in(said: bytes, at: int = 0) -> Iterator[Frame]:
    """All that are whole."""
    while len(said) - at >= http2.HEAD_SIZE:
        size, kind, flags, stream = http2.frame_head(said, at)
        end = at + http2.HEAD_SIZE + size
        if len(said) < end:
            return
        yield Frame(kind, flags, stream, said[at + http2.HEAD_SIZE : end])
        at = end


def ended(address: str, path: str, request: bytes = b"", /, **fields: bytes) -> tuple[int, str]:
    """How a call over a socket ends that says all it has to say at once: code and text."""
    host, _, port = address.rpartition(":")
    asked = head(1, path.encode(), **fields) + data(1, message(request))
    with socket.create_connection((host, int(port)), timeout=20) as wire:
        wire.sendall(http2.PREFACE + http2.settings({}) + asked)
        said, decoder, seen = b"", Decoder(), 0
        while part := wire.recv(65_536):
            said += part
            heads = [frame for frame in frames_in(said) if frame.kind == http2.HEADERS]
            for frame in heads[seen:]:
                found = dict(decoder.decode(frame.payload, raw=True))
                if frame.ends:
                    return int(found[b"grpc-status"]), found.get(b"grpc-message", b"").decode()
            seen = len(heads)
    raise AssertionError("it did not end")


class Wire(UnreadWire):
    """A transport: all that is written is heard, unless the client ``reads`` not."""

    def __init__(self) -> None:
        super().__init__(high=64 * 1024)
        self.reads = True
        self.aborted = False

    def write(self, data: bytes) -> None:
        super().write(data)
        if self.reads:
            self.take()

    def close(self) -> None:
        self.closed = True
        cast(asyncio.Protocol, self.connection).connection_lost(None)

    def abort(self) -> None:
        self.aborted = True
        self.close()


class Peer:
    """A client on a connection of its own; ``Rooms`` make them."""

    def __init__(self, rooms: "Rooms", *, greet: bool = True) -> None:
        self.rooms = rooms
        self.wire = Wire()
        self.wire.connection = self.connection = GrpcConnection(rooms.door)
        self.connection.connection_made(cast(asyncio.Transport, self.wire))
        self._read = 0
        self._decoder = Decoder()
        if greet:
            self.say(http2.PREFACE + http2.settings({}), http2.frame(http2.SETTINGS, http2.ACK, 0))
            self.hear()

    def say(self, *frames: bytes) -> None:
        """And let happen what happens."""
        self.rooms.settle(lambda: self.connection.data_received(b"".join(frames)))

    def hear(self) -> list[Frame]:
        """What the server said since the last time."""
        found = list(frames_in(bytes(self.wire.taken), self._read))
        self._read += sum(http2.HEAD_SIZE + len(frame.payload) for frame in found)
        return found

    def fields(self, frame: Frame) -> dict[bytes, bytes]:
        return dict(self._decoder.decode(frame.payload, raw=True))

    def call(self, stream: int, request: bytes = b"", path: bytes = GET, **fields: bytes | None) -> None:
        """A call with one request."""
        self.say(head(stream, path, **fields), data(stream, message(request)))

    def end_of(self, stream: int) -> tuple[int, bytes]:
        """How a call ended: code and text. What was said to others is lost."""
        for frame in self.hear():
            if frame.stream == stream and frame.kind == http2.HEADERS and frame.ends:
                fields = self.fields(frame)
                return int(fields[b"grpc-status"]), fields.get(b"grpc-message", b"")
        raise AssertionError("it goes on")

    def reset_of(self, stream: int) -> http2.Http2Code:
        """Why a stream was reset."""
        found = [frame for frame in self.hear() if (frame.kind, frame.stream) == (http2.RST_STREAM, stream)]
        return http2.Http2Code(http2.number(found[0].payload))

    def farewell(self) -> tuple[http2.Http2Code, str]:
        """Why the connection was ended."""
        assert self.wire.closed
        (found,) = (frame for frame in self.hear() if frame.kind == http2.GOAWAY)
        return http2.Http2Code(http2.number(found.payload[4:8])), found.payload[8:].decode()

    def answers(self, stream: int) -> bytes:
        """The bytes of a stream's answers since the last time."""
        return b"".join(one.payload for one in self.hear() if (one.kind, one.stream) == (http2.DATA, stream))

    def allow(self, more: int, stream: int = 0) -> None:
        """Take so much more."""
        self.say(http2.window_update(stream, more))


class Rooms:
    """A listener without sockets: ``range`` answers Range, ``watch`` a Watch; as they are, each answers at once."""

    def __init__(self, settings: GrpcSettings | None = None) -> None:
        self.house = House(settings=settings)
        self.settings, self.led = self.house.context.settings, True
        self.calls = Calls(self.settings, self.house.context.scheduler.monotonic, lambda: self.led)
        self.door = GrpcListener(self.house.context, self.calls)
        self.asked: list[Any] = []
        self.gone = 0
        self.range: Callable[[pb.RangeRequest, Call], Any] = self.echo
        self.watch: Callable[[AsyncIterator[pb.WatchRequest], Call], Any] = self.echoes
        etcd = pb.DESCRIPTOR.services_by_name
        self.calls.serve(etcd["KV"], {"Range": self._range})
        self.calls.serve(etcd["Watch"], {"Watch": self._watch})

    async def _range(self, request: pb.RangeRequest, call: Call) -> pb.RangeResponse:
        answer: pb.RangeResponse = await self.range(request, call)
        return answer

    async def _watch(self, requests: AsyncIterator[pb.WatchRequest], call: Call) -> AsyncIterator[pb.WatchResponse]:
        async for answer in self.watch(requests, call):
            yield answer

    async def echo(self, request: pb.RangeRequest, call: Call) -> pb.RangeResponse:
        self.asked.append(request)
        return pb.RangeResponse(count=len(request.key))

    async def echoes(self, requests: AsyncIterator[pb.WatchRequest], call: Call) -> AsyncIterator[pb.WatchResponse]:
        async for request in requests:
            self.asked.append(request)
            yield pb.WatchResponse(watch_id=request.cancel_request.watch_id)

    async def never(self, request: pb.RangeRequest, call: Call) -> pb.RangeResponse:
        """A handler that waits; whom it waits for is told when its caller is gone."""
        self.asked.append(request)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.gone += 1
        raise CallError(StatusCode.INTERNAL, "nobody gets here")

    async def never_again(
        self, requests: AsyncIterator[pb.WatchRequest], call: Call
    ) -> AsyncIterator[pb.WatchResponse]:
        """A handler that takes no request."""
        await self.never(pb.RangeRequest(), call)
        yield pb.WatchResponse()

    def large(self, size: int) -> None:
        """Each Range is answered by so many bytes, and a little more."""

        async def answer(request: pb.RangeRequest, call: Call) -> pb.RangeResponse:
            response = pb.RangeResponse()
            response.kvs.add(value=bytes(size))
            return response

        self.range = answer

    def settle(self, action: Callable[[], object] = lambda: None, turns: int = 12) -> None:
        """Do it, and let happen what happens; some virtual milliseconds pass."""

        async def done() -> None:
            action()
            for _ in range(turns):
                await asyncio.sleep(0)

        self.house.run(done())

    def after(self, seconds: float) -> None:
        """Time passes, second by second, as the listener looks at it."""
        until = self.house.bench.loop.monotonic() + seconds
        while (now := self.house.bench.loop.monotonic()) < until:
            self.settle(self._look, turns=2)
            self.house.bench.after(min(1.0, until - now + 0.001))

    def _look(self) -> None:
        now = self.house.bench.loop.monotonic()
        for connection in tuple(self.door._admission.guests()):
            connection.tick(now)
            if connection.overdue(now):
                connection.close()

    def held(self) -> tuple[int, int]:
        """Bytes of requests and of answers."""
        return self.door.received.taken, self.door.answers.taken

    def peers(self, count: int) -> Iterator[Peer]:
        return (Peer(self) for _ in range(count))
