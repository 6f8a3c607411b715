"""One client's connection: HTTP/2's frames in and out (RFC 9113), each call on a stream of its own.

Rules: whatever comes ends at most this connection. What is against the protocol ends it with GOAWAY and a reason, or
its stream with RST_STREAM; so does what is allowed and done too often. Frames are read for ``TURN_S`` at a time, and
none while the client does not read. What there is to say goes out once a turn; what waits of several streams in turns,
a frame of each.
"""

import asyncio
from typing import Final, Protocol, cast

from quorate import tls
from quorate.clock import Scheduler
from quorate.gateway.grpc import heads
from quorate.gateway.grpc.budgets import ByteBudget, RateLimit
from quorate.gateway.grpc.codes import TIMED_OUT, CallError
from quorate.gateway.grpc.fields import FIELDS_MAX, FieldReader
from quorate.gateway.grpc.heads import CallHead, Fields
from quorate.gateway.grpc.sending import Sender
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.gateway.grpc.stream import GrpcStream
from quorate.metrics import Metrics
from quorate.slices import TURN_S
from quorate.wire import http2
from quorate.wire.http2 import Http2Code, Http2Error

WINDOW: Final = 1024 * 1024
"""Of the connection, which is given back at once: what is held is bounded by streams, and by room."""
LAST_WORDS_S: Final = 1.0
"""For what was said before hanging up."""
_SHOWN: Final = 80


class GrpcHost(Protocol):
    """The listener of a connection, as it sees it."""

    settings: GrpcSettings
    scheduler: Scheduler
    metrics: Metrics
    received: ByteBudget
    answers: ByteBudget

    def opened(self, connection: "GrpcConnection", host: str) -> None:
        """It is there, and may have to go at once."""

    def answered(self, connection: "GrpcConnection") -> bool:
        """A call of it was answered; answers whether it is proven."""

    def begin(self, stream: GrpcStream, connection: "GrpcConnection", head: CallHead) -> None:
        """A call begins."""

    def closed(self, connection: "GrpcConnection") -> None:
        """It is gone."""

    @property
    def crowded(self) -> bool:
        """Do others wait to be read?"""

    def read_later(self, connection: "GrpcConnection") -> None:
        """``read_on`` is called in a later turn, after those that wait already."""


class GrpcConnection(asyncio.Protocol):
    """Made by the listener for each accepted socket."""

    def __init__(self, server: GrpcHost) -> None:
        settings = server.settings
        self._server, self._settings, self._now = server, settings, server.scheduler.monotonic
        self._transport: asyncio.Transport | None = None
        self.peer = ""
        self.proven = False
        self.streams: dict[int, GrpcStream] = {}
        self.received = ByteBudget(settings.received_bytes_max // 4, server.received)
        self.answers = ByteBudget(2 * settings.answer_bytes_max, server.answers)
        self._greeted = self._leaving = self._ended = False
        self._last = 0
        self._since = self._heard_at = self._used_at = self._now()
        self._pinged_at: float | None = None
        # What comes.
        self._buffer = bytearray()
        self._behind = False
        """Frames wait for the next turn."""
        self._partial_since: float | None = None
        self._reading = True
        self._head: tuple[int, bool, bytearray] | None = None
        """Fields that go on in the next frame: their stream, whether they end it, and the pieces."""
        self._fields = FieldReader()
        self._window_in = WINDOW
        self._settings_left = RateLimit(16, 16)
        self._pings_left = RateLimit(8, 1 / settings.client_ping_min_s)
        self._pieces_seen = 0
        self._resets_left = RateLimit(settings.streams_per_connection_max, settings.resets_per_s)
        self._idle_left = RateLimit(1000, 100)
        self._sender = Sender(server.scheduler)
        self.say, self.pump = self._sender.say, self._sender.pump
        self._no_table = http2.NO_TABLE

    @property
    def busy(self) -> bool:
        """Is a call under way?"""
        return bool(self.streams)

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the client."""
        self._transport = cast(asyncio.Transport, transport)
        self._sender.begin(self._transport)
        found = transport.get_extra_info("peername")
        host = str(found[0]) if found else ""
        if found:
            self.peer = f"ipv6:[{host}]:{found[1]}" if ":" in host else f"ipv4:{host}:{found[1]}"
        self._server.opened(self, host)

    def data_received(self, data: bytes) -> None:
        """More bytes. Of a connection that is being ended they are dropped."""
        if self._ended:
            return
        self._heard_at = self._now()
        self._pinged_at = None  # Whatever is heard says that the client lives.
        self._buffer += data
        if self._behind or self._sender.stuck_since is not None:
            return
        if self._server.crowded:
            self._fall_behind()
        else:
            self._server.scheduler.take_turn(self._read)

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone; whatever it waited for is no longer worth answering."""
        self._transport = None
        self._ended = True
        for stream in tuple(self.streams.values()):
            self.over(stream)
        self._buffer.clear()
        self._sender.end()
        self._server.closed(self)

    def pause_writing(self) -> None:
        """The client does not read: nothing is made for it, and nothing more heard of it."""
        self._sender.stuck_since = self._now()
        self._regulate()

    def resume_writing(self) -> None:
        """It reads again."""
        self._sender.stuck_since = None
        self._regulate()
        self._sender.go_on()
        if self._buffer and not self._behind and not self._ended:
            self._fall_behind()

    def _regulate(self) -> None:
        reading = self._sender.stuck_since is None and not self._behind
        if self._transport is None or reading == self._reading:
            return
        self._reading = reading
        if reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # -- reading

    def _read(self) -> None:
        """Frames, for one turn."""
        at, until, behind = 0, self._now() + TURN_S, False
        try:
            while (begun := self._frame(at)) and not self._ended:
                at = begun
                if self._sender.stuck_since is not None:
                    break
                if self._now() >= until:
                    behind = len(self._buffer) > at
                    break
        except Http2Error as error:
            self._fail(error)
        if self._ended:
            self._buffer.clear()
        else:
            del self._buffer[:at]
        if self._head is None and (at or not self._buffer):
            self._partial_since = None
        if self._partial_since is None and (self._head is not None or self._buffer):
            self._partial_since = self._now()
        if behind:
            self._fall_behind()

    def _fall_behind(self) -> None:
        self._behind = True
        self._regulate()
        self._server.read_later(self)

    def read_on(self) -> None:
        """What waits, for one turn."""
        self._behind = False
        if not self._ended and self._sender.stuck_since is None:
            self._server.scheduler.take_turn(self._read)
        self._regulate()

    def _frame(self, at: int) -> int:
        """Do what the frame that begins there says; answers where the next begins, 0: it is not whole yet."""
        buffer = self._buffer
        if not self._greeted:
            return self._greet()
        if len(buffer) - at < http2.HEAD_SIZE:
            return 0
        size, kind, flags, number = http2.frame_head(buffer, at)
        end = at + http2.HEAD_SIZE + size
        if len(buffer) < end:
            return 0
        payload = bytes(buffer[at + http2.HEAD_SIZE : end])
        if self._head is not None and (kind != http2.CONTINUATION or number != self._head[0]):
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "a head that does not go on")
        if kind == http2.DATA:
            self._data(number, flags, payload)
        elif kind == http2.HEADERS:
            self._headers(number, flags, payload)
        elif kind == http2.WINDOW_UPDATE:
            self._window(number, payload)
        else:
            self._seldom(kind, number, flags, payload)
        return end

    def _greet(self) -> int:
        """The first words (RFC 9113, section 3.4), and ours. Behind the client's come its settings, perhaps none."""
        begun = bytes(self._buffer[: len(http2.PREFACE)])
        if not http2.PREFACE.startswith(begun):
            if tls.is_client_hello(begun) and self._transport is not None:
                self._transport.write(tls.REFUSAL)
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "this port speaks HTTP/2, in plain text")
        if len(self._buffer) < len(http2.PREFACE) + http2.HEAD_SIZE:
            return 0
        if self._buffer[len(http2.PREFACE) + 3] != http2.SETTINGS:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "a client begins with its settings")
        self._greeted = True
        limits = {
            http2.MAX_CONCURRENT_STREAMS: self._settings.streams_per_connection_max,
            http2.MAX_HEADER_LIST_SIZE: FIELDS_MAX,
        }
        self.say(http2.settings(limits) + http2.window_update(0, WINDOW - http2.WINDOW))
        return len(http2.PREFACE)

    def _seldom(self, kind: int, number: int, flags: int, payload: bytes) -> None:
        if kind == http2.SETTINGS:
            self._client_sets(number, flags, payload)
        elif kind == http2.PING:
            self._ping(number, flags, payload)
        elif kind == http2.RST_STREAM:
            self._reset_by_client(number)
        elif kind == http2.CONTINUATION:
            self._continue(flags, payload)
        elif kind == http2.PUSH_PROMISE:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "a client promises nothing")
        elif kind == http2.GOAWAY and number:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "GOAWAY of a stream")
        elif kind == http2.PRIORITY and not number:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "PRIORITY of no stream")
        else:  # Priorities, farewells and what is not known: as if it had not come.
            self._spend(self._idle_left, "frames that say nothing")

    def _spend(self, allowance: RateLimit, what: str) -> None:
        if not allowance.spend(self._now()):
            raise Http2Error(Http2Code.ENHANCE_YOUR_CALM, what)

    # -- reading: heads

    def _headers(self, number: int, flags: int, payload: bytes) -> None:
        if not number & 1:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "a stream of a number that clients do not have")
        piece = http2.fields_of(payload, flags, number)
        ends = bool(flags & http2.END_STREAM)
        if flags & http2.END_HEADERS:
            self._whole_head(number, ends, piece)
        else:
            self._head = (number, ends, bytearray(piece))

    def _continue(self, flags: int, payload: bytes) -> None:
        if self._head is None:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "the rest of a head that did not begin")
        number, ends, pieces = self._head
        pieces += payload
        if len(pieces) > FIELDS_MAX:
            raise Http2Error(Http2Code.ENHANCE_YOUR_CALM, "a head of more than 8 KiB")
        if not payload:
            self._spend(self._idle_left, "frames that say nothing")
        if flags & http2.END_HEADERS:
            self._head = None
            self._whole_head(number, ends, bytes(pieces))

    def _whole_head(self, number: int, ends: bool, piece: bytes) -> None:
        known = self._fields.known(piece)
        fields = () if known is not None else self._fields.read(piece)
        if number > self._last:
            self._last = number
            stream = self._new(number, ends)
            if stream is not None:
                self._begin(stream, piece, known, fields)
            return
        stream = self.streams.get(number)
        if stream is None or stream.ended:  # A stream that has ended, perhaps without its client's knowledge.
            self._spend(self._idle_left, "frames of streams that have ended")
        elif not ends:
            self.refuse(stream, Http2Code.PROTOCOL_ERROR)
        else:
            self._end_of(stream)

    def _new(self, number: int, ends: bool) -> GrpcStream | None:
        """None: it is refused."""
        if self._leaving or len(self.streams) >= self._settings.streams_per_connection_max:
            self._spend(self._resets_left, "too many streams")
            self.say(http2.reset(number, Http2Code.REFUSED_STREAM))
            return None
        self._used_at = self._heard_at
        stream = self.streams[number] = GrpcStream(number, self, self._sender.window_of_streams, self._heard_at)
        stream.ended = ends
        return stream

    def _begin(self, stream: GrpcStream, piece: bytes, known: CallHead | None, fields: Fields) -> None:
        try:
            head = known or heads.read(fields)
        except heads.MalformedError:
            self.refuse(stream, Http2Code.PROTOCOL_ERROR)
        except heads.NoCallError as error:
            ended = http2.END_HEADERS | http2.END_STREAM
            self.say(http2.frame(http2.HEADERS, ended, stream.number, self.fields(heads.http_status(error.status))))
            self.over(stream)
        except CallError as error:
            stream.end(heads.ended(error.code, error.text))
        else:
            if known is None:
                self._fields.remember(piece, head)
            self._server.begin(stream, self, head)

    # -- reading: the rest

    def _data(self, number: int, flags: int, payload: bytes) -> None:
        if not number or number > self._last:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "DATA of a stream that did not begin")
        self._take_window(len(payload))
        data = http2.unpadded(payload, flags)
        stream = self.streams.get(number)
        ends = flags & http2.END_STREAM
        if not data and not ends:
            self._spend(self._idle_left, "frames that say nothing")
        if stream is None:
            self._spend_late(len(payload))
            return
        if stream.ended:
            self.refuse(stream, Http2Code.STREAM_CLOSED)
            return
        wrong = stream.data(data, len(payload) - len(data))
        if wrong is not None:
            self.refuse(stream, wrong)
        elif ends:
            self._end_of(stream)
        elif payload and stream.receiver is not None:
            stream.receiver.more()

    def _spend_late(self, size: int) -> None:
        """What was on its way when its stream ended: as much as one stream's window at a time, and slowly more."""
        if size < http2.FRAME_MAX // 16:
            self._spend(self._idle_left, "frames of streams that have ended")

    def _take_window(self, size: int) -> None:
        self._window_in -= size
        if self._window_in < 0:
            raise Http2Error(Http2Code.FLOW_CONTROL_ERROR, "more than the connection's window")
        if self._window_in <= WINDOW // 2:
            self.say(http2.window_update(0, WINDOW - self._window_in))
            self._window_in = WINDOW

    def _end_of(self, stream: GrpcStream) -> None:
        stream.ended = True
        if stream.receiver is not None:
            stream.receiver.more()

    def _client_sets(self, number: int, flags: int, payload: bytes) -> None:
        if number:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "SETTINGS of a stream")
        if flags & http2.ACK:
            if payload:
                raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "SETTINGS that acknowledge and say something")
            self._spend(self._idle_left, "frames that say nothing")
            return
        self._spend(self._settings_left, "too many settings")
        found = http2.read_settings(payload)
        if http2.INITIAL_WINDOW_SIZE in found:
            more = self._sender.streams_begin_with(found[http2.INITIAL_WINDOW_SIZE])
            for stream in self.streams.values() if more else ():
                self._sender.takes(more, stream)
        self.say(http2.frame(http2.SETTINGS, http2.ACK, 0))
        self._sender.go_on()

    def _ping(self, number: int, flags: int, payload: bytes) -> None:
        if number:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "PING of a stream")
        if flags & http2.ACK:
            self._spend(self._idle_left, "frames that say nothing")
            return
        if self._sender.pieces != self._pieces_seen:  # Whoever gets answers may measure the line, as grpc-go does.
            self._pieces_seen = self._sender.pieces
            self._pings_left.renew()
        self._spend(self._pings_left, "too_many_pings")  # As grpc's clients know it: then they ask less often.
        self.say(http2.frame(http2.PING, http2.ACK, 0, payload))

    def _reset_by_client(self, number: int) -> None:
        if not number or number > self._last:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "RST_STREAM of a stream that did not begin")
        stream = self.streams.get(number)
        if stream is None:  # Both ended it, as at a deadline.
            self._spend(self._idle_left, "frames of streams that have ended")
            return
        self._spend(self._resets_left, "too many streams that are reset")
        self.over(stream)

    def _window(self, number: int, payload: bytes) -> None:
        more = http2.number(payload) & http2.WINDOW_MAX
        if number > self._last:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "WINDOW_UPDATE of a stream that did not begin")
        if not number and not more:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
        stream = self.streams.get(number) if number else None
        if number and stream is None:
            return
        if stream is not None and not more:
            self.refuse(stream, Http2Code.PROTOCOL_ERROR)
            return
        self._sender.takes(more, stream)
        self._sender.go_on()

    # -- streams that end

    def refuse(self, stream: GrpcStream, code: Http2Code) -> None:
        """What was wrong ends it, without an answer. Raises Http2Error when that comes too often."""
        self._spend(self._resets_left, "too many streams that are reset")
        self.say(http2.reset(stream.number, code))
        self.over(stream)

    def over(self, stream: GrpcStream) -> None:
        """It has ended, both ways."""
        if self.streams.pop(stream.number, None) is not None:
            self._used_at = self._now()
            self._idle_left.earn(2)  # What its client said meanwhile is on its way, and no fault of it.
            self._sender.forget(stream)
            stream.close()
            receiver, stream.receiver = stream.receiver, None  # So that neither keeps the other.
            if receiver is not None:
                receiver.closed()

    def answered(self) -> None:
        """A call was answered: this is somebody who knows us."""
        if not self.proven:
            self.proven = self._server.answered(self)

    def fields(self, fields: bytes) -> bytes:
        """As they are; the first say that no table is kept, which a client that wants a small one waits for."""
        first, self._no_table = self._no_table, b""
        return first + fields

    # -- by the clock

    def tick(self, now: float) -> None:
        """Once a second: deadlines of calls, answers that nobody takes, and is the client there?"""
        if self._ended:
            return
        for stream in tuple(self.streams.values()):
            if stream.receiver is not None:
                stream.receiver.look(now)
            if stream.slow(now, self._settings.write_timeout_s):
                stream.end_now(heads.ended(*TIMED_OUT))
        if self._greeted and self._pinged_at is None and now - self._heard_at > self._settings.keepalive_time_s:
            self._pinged_at = now
            self.say(http2.frame(http2.PING, 0, 0, bytes(8)))

    def overdue(self, now: float) -> bool:
        """Silent, dribbling, stuck, idle or not gone for too long?"""
        settings = self._settings
        if self._ended:
            return True
        if not self._greeted:
            return now - self._since > settings.handshake_timeout_s
        if self._sender.stuck_since is not None:
            return now - self._sender.stuck_since > settings.write_timeout_s
        if self._pinged_at is not None and now - self._pinged_at > settings.keepalive_timeout_s:
            return True
        if self._partial_since is not None and now - self._partial_since > settings.request_timeout_s:
            return True
        return not self.streams and now - self._used_at > settings.idle_timeout_s

    # -- the end

    def _fail(self, error: Http2Error) -> None:
        """What came ends the connection, and says why."""
        self._server.metrics.peer_errors["grpc"] += 1
        self._leave(self._last, error.code, error.text[:_SHOWN])
        self.close()

    def leave(self) -> None:
        """No call begins any more; those under way end. Whoever is refused has lost nothing, and may ask elsewhere."""
        if not self._leaving:
            self._leave(http2.STREAM_MAX, Http2Code.NO_ERROR, "")

    def _leave(self, last: int, code: Http2Code, text: str) -> None:
        self._leaving = True
        if self._greeted:
            self.say(http2.goaway(last, code, text))

    def close(self) -> None:
        """Hang up: what was said goes out, if the client takes it soon."""
        if self._transport is None:
            return
        if self._ended or self._sender.stuck_since is not None:
            self.abort()
            return
        if not self._leaving:
            self._leave(self._last, Http2Code.NO_ERROR, "")
        self._ended = True
        self._sender.say_now()
        self._sender.end()
        for stream in tuple(self.streams.values()):
            self.over(stream)
        self._transport.close()
        self._server.scheduler.call_later(LAST_WORDS_S, self.abort)

    def abort(self) -> None:
        """Hang up at once."""
        self._ended = True
        if self._transport is not None:
            self._transport.abort()
