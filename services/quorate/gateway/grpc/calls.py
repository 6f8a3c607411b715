"""Calls: a method is found by its path, its requests are read, and its handler's answers sent, until a code ends it.

Rules: a handler gets a message and its call, and answers or raises ``CallError``; nothing else of a failure is told to
a client. A request stays as it came until its handler takes it, and what it is then counts as held for as long as the
handler may need it. A call ends by its handler, by its deadline, or with its stream; then the others end too.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, cast

import structlog
from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from quorate.gateway.grpc import heads
from quorate.gateway.grpc.codes import (
    NO_LEADER,
    PAST_DEADLINE,
    STOPPED,
    TIMED_OUT,
    TOO_LARGE,
    TOO_MANY,
    UNREADABLE,
    CallError,
    StatusCode,
)
from quorate.gateway.grpc.connection import GrpcConnection
from quorate.gateway.grpc.heads import CallHead
from quorate.gateway.grpc.pieces import Pieces
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.gateway.grpc.stream import PREFIX, GrpcStream
from quorate.gateway.grpc.wire_types import is_suspect, refuse_wrong
from quorate.slices import TURN_S
from quorate.wire.http2 import Http2Code

_log = structlog.get_logger(__name__)

Handler = Callable[..., Any]
"""A coroutine of a message and its call, that answers a message or the pieces of one; or, of a method that answers with
a stream, an async iterator of messages.
"""
MESSAGE_OVERHEAD: Final = 1024 * 1024
"""A request this much larger than it may be is still read, to be refused in etcd's words: by default 2 MiB, all that
etcd reads.
"""
BROKEN_OFF: Final = "grpc: the call ended without a whole request"
NO_GZIP: Final = "grpc: failed to decompress the received message"
UNZIPPED_AT_ONCE: Final = 4096
"""Bytes of a compressed request that are looked at before other work gets its turn."""
CROWDED: Final = (StatusCode.RESOURCE_EXHAUSTED, "quorate: too many answers wait to be read")
CROWDED_OUT: Final = (StatusCode.UNAVAILABLE, CROWDED[1])
"""Of a stream: etcd's clients begin a watch again by this code, and by few others."""
FEW: Final = 8
"""Calls that a connection may have also when others have almost all."""
GZIP: Final = 16 + zlib.MAX_WBITS


class Method(NamedTuple):
    """How a method is called."""

    handler: Handler
    asked: type[Message]
    streams_in: bool
    streams_out: bool


class Calls:
    """All calls of a listener."""

    def __init__(self, settings: GrpcSettings, now: Callable[[], float], led: Callable[[], bool]) -> None:
        """``led``: is a leader known?"""
        self.settings, self.now, self.led = settings, now, led
        self._methods: dict[str, Method] = {}
        self._services: set[str] = set()
        self._under_way: set[ServedCall] = set()
        self._none_left = asyncio.Event()

    def __len__(self) -> int:
        return len(self._under_way)

    def serve(self, service: ServiceDescriptor, handlers: Mapping[str, Handler]) -> None:
        """Its methods that have a handler."""
        self._services.add(service.full_name)
        for method in service.methods:
            if method.name in handlers:
                self._methods[f"/{service.full_name}/{method.name}"] = _method(method, handlers[method.name])

    def begin(self, stream: GrpcStream, connection: GrpcConnection, head: CallHead) -> None:
        """A call begins, or is refused."""
        method = self._methods.get(head.path)
        if method is None:
            stream.end(heads.ended(StatusCode.UNIMPLEMENTED, self._unknown(head.path)))
        elif not self._room(connection):
            stream.end(heads.ended(*TOO_MANY))
        elif head.encoding not in (b"identity", b"gzip"):
            encoding = head.encoding[:40].decode(errors="replace")
            text = f"grpc: Decompressor is not installed for grpc-encoding {encoding}"
            stream.end(heads.ENCODINGS + heads.ended(StatusCode.UNIMPLEMENTED, text))
        else:
            call = stream.receiver = ServedCall(self, stream, connection, head, method)
            self._under_way.add(call)
            if stream.ended:
                call.more()

    def _room(self, connection: GrpcConnection) -> bool:
        """Is there room for one more? The last quarter is for connections that have few."""
        most, under_way = self.settings.calls_max, len(self._under_way)
        return under_way < most - most // 4 or (under_way < most and len(connection.streams) <= FEW)

    def _unknown(self, path: str) -> str:
        """As grpc-go says it."""
        service, _, method = path.removeprefix("/").rpartition("/")
        if not path.startswith("/") or not service:
            return f'malformed method name: "{path[:200]}"'
        if service not in self._services:
            return f"unknown service {service[:200]}"
        return f"unknown method {method[:200]} for service {service}"

    def ended(self, call: "ServedCall") -> None:
        """One less."""
        self._under_way.discard(call)
        if not self._under_way:
            self._none_left.set()

    async def none_left(self) -> None:
        """Return when none is under way."""
        self._none_left.clear()
        if self._under_way:
            await self._none_left.wait()

    def stop(self) -> None:
        """End all of them."""
        for call in tuple(self._under_way):
            call.end_now(*STOPPED)


def _method(method: MethodDescriptor, handler: Handler) -> Method:
    return Method(handler, GetMessageClass(method.input_type), method.client_streaming, method.server_streaming)


class ServedCall:
    """One of them: a ``Receiver`` of its stream, and the ``Call`` of its handler."""

    def __init__(
        self, calls: Calls, stream: GrpcStream, connection: GrpcConnection, head: CallHead, method: Method
    ) -> None:
        self._calls, self._stream, self._connection = calls, stream, connection
        self._head, self._method = head, method
        self._deadline = None if head.timeout_s is None else stream.began + head.timeout_s
        self._task: asyncio.Task[None] | None = None
        self._begun = False
        self._wake: asyncio.Future[None] | None = None
        self._partial_since: float | None = stream.began
        """Since when a message is awaited that has to come, or has begun."""
        self._asked = 0
        """Bytes that are held for the request that the handler has."""
        self._led_at = stream.began
        """When a leader was known last."""
        if method.streams_in:  # It may be silent for as long as it likes.
            self._partial_since = None
            self._start()

    # -- what a handler sees

    def peer(self) -> str:
        """Who asks."""
        return self._connection.peer

    def time_remaining(self) -> float | None:
        """Until the caller's deadline, in seconds; None: it has none."""
        return None if self._deadline is None else self._deadline - self._calls.now()

    # -- what its stream tells

    def more(self) -> None:
        """More came, or the last."""
        stream, length = self._stream, self._head.length
        if length is not None and (stream.counted > length or (stream.ended and stream.counted != length)):
            self._connection.refuse(stream, Http2Code.PROTOCOL_ERROR)
            return
        if self._begun and not self._method.streams_in:
            return
        try:
            whole = self._whole()
        except CallError as error:
            self.end_now(error.code, error.text)
            return
        if self._wake is not None and (whole or stream.ended) and not self._wake.done():
            self._wake.set_result(None)
        elif not self._begun and whole:
            self._start()
        elif not self._begun and stream.ended:
            self.end_now(StatusCode.INTERNAL, BROKEN_OFF)

    def closed(self) -> None:
        """The stream is over: answered or not, nobody waits any more."""
        self._calls.ended(self)
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    def look(self, now: float) -> None:
        """End a call whose deadline has passed, or whose request does not come; and a stream that requires a leader,
        when there has been none for a while. As etcd: what one answer is awaited of may be under way, and has a time.
        """
        since = self._partial_since
        if self._method.streams_out and self._head.requires_leader and self._leaderless(now):
            self.end_now(*NO_LEADER)
            return
        if self._late(now) or (since is not None and now - since > self._calls.settings.request_timeout_s):
            self.end_now(*PAST_DEADLINE)

    def _leaderless(self, now: float) -> bool:
        if self._calls.led():
            self._led_at = now
        return now - self._led_at > self._calls.settings.no_leader_grace_s

    def _late(self, now: float) -> bool:
        """Has its caller given up?"""
        return self._deadline is not None and now >= self._deadline

    # -- its requests

    def _size(self) -> int | None:
        """Of the message that has begun, its prefix included. Raises CallError for one that is too large."""
        buffer = self._stream.buffer
        if len(buffer) < PREFIX:
            return None
        size, most = int.from_bytes(buffer[1:PREFIX]), self._largest
        if size > most:
            text = f"grpc: received message larger than max ({size} vs. {most})"
            raise CallError(StatusCode.RESOURCE_EXHAUSTED, text)
        return PREFIX + size

    @property
    def _largest(self) -> int:
        return self._calls.settings.request_bytes_max + MESSAGE_OVERHEAD

    def _whole(self) -> bool:
        """Is there a whole message? One that has begun may come. Raises CallError when there is no room for it."""
        size, buffer = self._size(), self._stream.buffer
        if size is not None and not self._stream.expect(size):
            raise CallError(*TOO_MANY)
        if size is not None and len(buffer) >= size:
            self._partial_since = None
            return True
        if buffer and self._partial_since is None:
            self._partial_since = self._calls.now()
        return False

    def hold(self, count: int) -> None:
        """So many bytes of an answer are being made. Raises CallError when there is no room for them."""
        if not self._stream.make(count):
            raise CallError(*CROWDED)

    async def _take(self) -> Message:
        """The first whole message. Raises CallError; of one that is too large before it is read."""
        stream = self._stream
        size = PREFIX + int.from_bytes(stream.buffer[1:PREFIX])
        compressed, body = stream.buffer[0], bytes(memoryview(stream.buffer)[PREFIX:size])
        stream.taken(size)
        self._asked = size
        if compressed:
            body = await self._plain(body)
        if len(body) > self._calls.settings.request_bytes_max:
            raise CallError(*TOO_LARGE)
        asked = self._method.asked
        try:
            request = asked.FromString(body)
        except DecodeError as error:
            raise CallError(StatusCode.INTERNAL, UNREADABLE + asked.DESCRIPTOR.full_name) from error
        if is_suspect(request, len(body)):
            await self._looked_at(body)
        return request

    async def _looked_at(self, body: bytes) -> None:
        """In turns: they may be many fields. Raises CallError for one that came as another type than its own."""
        now = self._calls.now
        until = now() + TURN_S
        for _ in refuse_wrong(body, cast(Descriptor, self._method.asked.DESCRIPTOR)):
            if now() >= until:
                await asyncio.sleep(0)
                until = now() + TURN_S

    async def _plain(self, body: bytes) -> bytes:
        """In turns: little can stand for much, or for nothing that takes long."""
        if self._head.encoding != b"gzip":
            raise CallError(StatusCode.INTERNAL, "grpc: compressed flag set with identity or empty encoding")
        unzip, plain = zlib.decompressobj(GZIP), bytearray()
        for at in range(0, len(body), UNZIPPED_AT_ONCE):
            piece = body[at : at + UNZIPPED_AT_ONCE]
            try:
                more = unzip.decompress(piece, self._largest + 1 - len(plain))
            except zlib.error as error:
                raise CallError(StatusCode.INTERNAL, NO_GZIP) from error
            if len(plain) + len(more) > self._largest:
                text = f"grpc: received message after decompression larger than max {self._largest}"
                raise CallError(StatusCode.RESOURCE_EXHAUSTED, text)
            if not self._stream.hold(len(more), long=True):
                raise CallError(*TOO_MANY)
            self._asked += len(more)
            plain += more
            if unzip.unused_data or unzip.unconsumed_tail:
                break
            await asyncio.sleep(0)
        if not unzip.eof or unzip.unused_data:
            raise CallError(StatusCode.INTERNAL, NO_GZIP)
        return bytes(plain)

    async def _requests(self) -> AsyncIterator[Message]:
        """Those of a stream, each when the handler asks for it."""
        now = self._calls.now
        until = now() + TURN_S
        while True:
            self._stream.release(self._asked)
            self._asked = 0
            if now() >= until:
                await asyncio.sleep(0)
                until = now() + TURN_S
            while not self._whole():
                if self._stream.ended:
                    if self._stream.buffer:
                        raise CallError(StatusCode.INTERNAL, BROKEN_OFF)
                    return
                self._wake = asyncio.get_running_loop().create_future()
                try:
                    await self._wake
                finally:
                    self._wake = None
            yield await self._take()

    # -- its answers

    def _start(self) -> None:
        self._begun = True
        answering = self._several if self._method.streams_out else self._one
        self._task = asyncio.get_running_loop().create_task(self._run(answering))

    async def _one(self) -> None:
        answer = await self._method.handler(await self._take(), self)
        if not self._sent(answer):
            raise CallError(*TIMED_OUT)  # It is done, and nobody hears what: as unknown as an answer that never came.

    async def _several(self) -> None:
        """For ``TURN_S`` at a time, and no faster than the client takes them."""
        asked = self._requests() if self._method.streams_in else await self._take()
        answers, now = self._method.handler(asked, self), self._calls.now
        until = now() + TURN_S
        try:
            async for answer in answers:
                if not self._sent(answer):
                    raise CallError(*CROWDED_OUT)
                self._connection.answered()
                await self._stream.drained()
                if now() >= until:
                    await asyncio.sleep(0)
                    until = now() + TURN_S
        finally:
            await answers.aclose()

    def _sent(self, answer: Message | Pieces) -> bool:
        """False: too much waits already."""
        pieces = [answer.SerializeToString()] if isinstance(answer, Message) else answer
        self._stream.made()
        return self._stream.send(b"\x00" + sum(map(len, pieces)).to_bytes(4, "big"), *pieces)

    async def _run(self, answering: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """To its end, which the client is told."""
        try:
            if self._late(self._calls.now()):
                raise CallError(*PAST_DEADLINE)  # Nothing is begun, and nothing of its request looked at.
            if self._head.requires_leader and not self._calls.led():
                raise CallError(*NO_LEADER)
            await answering()
            fields = heads.DONE
        except CallError as error:
            fields = heads.ended(error.code, error.text)
        except Exception as error:  # noqa: BLE001  It is logged, and the client told that it is.
            _log.error("a gRPC call failed", error=f"{type(error).__name__}: {error}", exc_info=error)
            fields = heads.ended(StatusCode.INTERNAL, "quorate: this call failed here; the node's log says why")
        self._task = None  # It ends by itself.
        self._connection.answered()
        self._stream.end(fields)

    def end_now(self, code: StatusCode, text: str) -> None:
        """Whatever it does, and whatever waits."""
        self._stream.end_now(heads.ended(code, text))
