"""Frames of HTTP/2 on one connection (RFC 9113): what is taken, what ends a stream, what ends the connection."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
from hpack import Encoder

from quorate import tls
from quorate.clock import LoopScheduler, Scheduler
from quorate.gateway.grpc.asking import Call
from quorate.gateway.grpc.pb import rpc_pb2 as pb
from quorate.gateway.grpc.sending import Sender
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.wire import http2
from quorate.wire.http2 import Http2Code
from tests.unit.gateway.grpc.peer import GET, PLENTY, WATCH, Peer, Rooms, data, fields_of, half_head, head, message
from tests.unit.gateway.turns import UnreadWire


class Ticking:
    """A scheduler whose clock goes on whenever it is looked at."""

    def __init__(self, scheduler: Scheduler, clock: Callable[[], float]) -> None:
        self._scheduler, self.monotonic = scheduler, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)


KEY = pb.RangeRequest(key=b"abc").SerializeToString()
THREE = message(pb.RangeResponse(count=3).SerializeToString())
TICK = 1.5


def test_a_call_is_answered() -> None:
    """The server's settings come first; then head, answer and code, and nothing is held any more."""
    rooms = Rooms()
    peer = Peer(rooms, greet=False)
    peer.say(http2.PREFACE, http2.settings({}))
    assert [frame.kind for frame in peer.hear()] == [http2.SETTINGS, http2.WINDOW_UPDATE, http2.SETTINGS]
    peer.call(1, KEY)
    begun, answer, ended = peer.hear()
    assert peer.fields(begun) == {b":status": b"200", b"content-type": b"application/grpc"}
    assert answer.payload == THREE
    assert (peer.fields(ended), ended.ends) == ({b"grpc-status": b"0"}, True)
    assert (rooms.held(), len(rooms.calls), peer.connection.busy) == ((0, 0), 0, False)
    assert peer.connection.proven


def test_what_a_turn_says_leaves_at_its_end() -> None:
    """In one piece, and without another turn of the loop."""
    loop, wire = asyncio.new_event_loop(), UnreadWire(high=1024)
    scheduler = LoopScheduler(loop)
    sender = Sender(scheduler)
    sender.begin(cast(asyncio.Transport, wire))

    def both() -> None:
        sender.say(b"one")
        sender.say(b"two")
        assert not wire.unread

    scheduler.take_turn(both)
    assert bytes(wire.unread) == b"onetwo"
    loop.close()


def test_it_does_not_matter_how_bytes_are_cut() -> None:
    """One by one they say what they say together."""
    rooms = Rooms()
    peer = Peer(rooms, greet=False)
    said = http2.PREFACE + http2.settings({}) + head(1) + data(1, message(KEY))
    for at in range(len(said)):
        rooms.settle(lambda at=at: peer.connection.data_received(said[at : at + 1]), turns=1)  # type: ignore[misc]
    rooms.settle()
    assert peer.answers(1) == THREE


def test_heads_share_a_table() -> None:
    """What is indexed is read as what it stands for, also when the same bytes mean something else later."""
    rooms = Rooms()
    peer, encoder = Peer(rooms), Encoder()
    for number, path in enumerate((GET, GET, GET, WATCH, GET, b"/nobody/x", GET)):
        stream = 2 * number + 1
        fields = http2.frame(http2.HEADERS, http2.END_HEADERS, stream, encoder.encode(fields_of(path)))
        peer.say(fields, data(stream, message(KEY if path == GET else b"")))
        if path == GET:
            assert peer.answers(stream) == THREE


def test_a_head_that_is_remembered_is_read_anew_when_the_table_changes() -> None:
    """The same index is another field once others were put before it."""
    rooms = Rooms()
    rooms.watch = rooms.never_again
    peer = Peer(rooms)

    def begun(stream: int, block: bytes) -> None:
        peer.say(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, block))

    usual = http2.literals(one for one in fields_of() if one[0] != b":path")
    pseudo, rest = usual[: usual.index(b"content-type") - 2], usual[usual.index(b"content-type") - 2 :]
    added = [b"\x44" + bytes((len(path),)) + path for path in (GET, WATCH)]  # Literal, and kept (RFC 7541, 6.2.1).
    begun(1, pseudo + added[0] + rest)
    for stream in (3, 5):
        begun(stream, pseudo + b"\xbe" + rest)  # The newest: GET.
        peer.say(data(stream, message(KEY)))
        assert peer.answers(stream) == THREE
    begun(7, pseudo + added[1] + rest)
    begun(9, pseudo + b"\xbe" + rest)  # The newest: WATCH.
    peer.say(data(9, message(KEY), end=False))
    assert peer.answers(9) == b""
    begun(11, pseudo + b"\xbf" + rest)  # The one before.
    peer.say(data(11, message(KEY)))
    assert peer.answers(11) == THREE


def test_the_same_bytes_put_a_field_into_the_table_each_time() -> None:
    """A head that changes the table is read whenever it comes, so that both ends count alike."""
    rooms = Rooms()
    peer = Peer(rooms)
    usual = http2.literals(one for one in fields_of() if one[0] != b":path")
    pseudo, rest = usual[: usual.index(b"content-type") - 2], usual[usual.index(b"content-type") - 2 :]
    adds = pseudo + b"\x44" + bytes((len(GET),)) + GET + rest
    blocks = [adds, adds, adds, pseudo + b"\xc0" + rest]  # The third of the table: the first that was put there.
    for number, block in enumerate(blocks):
        stream = 2 * number + 1
        peer.say(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, block), data(stream, message(KEY)))
        assert peer.answers(stream) == THREE


def test_a_head_in_pieces_with_padding_and_priority_is_one() -> None:
    """HEADERS with everything that it may have, and its rest in CONTINUATION."""
    rooms = Rooms()
    peer = Peer(rooms)
    block = http2.literals(fields_of())
    begun = bytes((3,)) + bytes(4) + b"\x10" + block[:10] + bytes(3)
    flags = http2.PADDED | http2.WITH_PRIORITY
    rest = http2.frame(http2.CONTINUATION, http2.END_HEADERS, 1, block[10:])
    padded = http2.frame(http2.DATA, http2.PADDED | http2.END_STREAM, 1, bytes((2,)) + message(KEY) + bytes(2))
    peer.say(http2.frame(http2.HEADERS, flags, 1, begun), rest, padded)
    assert peer.answers(1) == THREE


def test_what_says_nothing_is_passed_over() -> None:
    """Unknown kinds, priorities, farewells, trailers of a client, settings that are not known; a ping is answered."""
    rooms = Rooms()
    peer = Peer(rooms)
    peer.say(
        http2.frame(77, 255, 3, b"?"),
        http2.frame(http2.PRIORITY, 0, 9, bytes(5)),
        http2.frame(http2.GOAWAY, 0, 0, bytes(8)),
        http2.settings({99: 1, http2.INITIAL_WINDOW_SIZE: PLENTY}),
        http2.frame(http2.PING, 0, 0, b"12345678"),
        head(1),
        data(1, message(KEY), end=False),
        http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 1, http2.literals([(b"x", b"y")])),
    )
    heard = peer.hear()
    assert [frame.payload for frame in heard if frame.kind == http2.PING] == [b"12345678"]
    assert [frame.payload for frame in heard if frame.kind == http2.DATA] == [THREE]


NO_PATH: dict[str, bytes | None] = {":path": None}
STREAM_ERRORS = {
    "DATA behind the end": (head(1, WATCH) + data(1) + data(1), Http2Code.STREAM_CLOSED),
    "a head within that does not end": (head(1, WATCH) + head(1, WATCH), Http2Code.PROTOCOL_ERROR),
    "a window by nothing": (head(1, WATCH) + http2.window_update(1, 0), Http2Code.PROTOCOL_ERROR),
    "upper case": (head(1, Te=b"x"), Http2Code.PROTOCOL_ERROR),
    "no path": (head(1, **NO_PATH), Http2Code.PROTOCOL_ERROR),
    "a field of a connection": (head(1, connection=b"close"), Http2Code.PROTOCOL_ERROR),
    "te": (head(1, te=b"gzip"), Http2Code.PROTOCOL_ERROR),
    "a line within a value": (head(1, x=b"a\r\nb"), Http2Code.PROTOCOL_ERROR),
    "an unknown field with a colon": (head(1, **{":nobody": b"x"}), Http2Code.PROTOCOL_ERROR),
    "a length that is none": (head(1, content_length=b"-1"), Http2Code.PROTOCOL_ERROR),
    "another length": (head(1, content_length=b"9") + data(1, message(KEY)), Http2Code.PROTOCOL_ERROR),
    "more than its length, and no end": (
        head(1, content_length=b"%d" % (len(message(KEY)) - 1)) + data(1, message(KEY), end=False),
        Http2Code.PROTOCOL_ERROR,
    ),
    "more than its window": (
        head(1, WATCH) + data(1, message(bytes(65_531)), end=False) + data(1, b"1", end=False),
        Http2Code.FLOW_CONTROL_ERROR,
    ),
}


@pytest.mark.parametrize("wrong", STREAM_ERRORS)
def test_a_stream_ends_alone(wrong: str) -> None:
    """What is wrong with one ends that one, with its code; the next call is answered."""
    rooms = Rooms()
    rooms.watch = rooms.never_again
    peer = Peer(rooms)
    said, code = STREAM_ERRORS[wrong]
    peer.say(said)
    assert peer.reset_of(1) == code
    peer.call(3, KEY)
    assert peer.answers(3) == THREE
    assert (rooms.held(), len(rooms.calls)) == ((0, 0), 0)


CONNECTION_ERRORS = {
    "an even stream": (head(2), Http2Code.PROTOCOL_ERROR),
    "stream 0": (head(0), Http2Code.PROTOCOL_ERROR),
    "DATA of nothing": (data(1), Http2Code.PROTOCOL_ERROR),
    "DATA of stream 0": (data(0), Http2Code.PROTOCOL_ERROR),
    "a reset of nothing": (http2.reset(5, Http2Code.CANCEL), Http2Code.PROTOCOL_ERROR),
    "a window of nothing": (http2.window_update(5, 1), Http2Code.PROTOCOL_ERROR),
    "the window by nothing": (http2.window_update(0, 0), Http2Code.PROTOCOL_ERROR),
    "too wide a window": (http2.window_update(0, http2.WINDOW_MAX), Http2Code.FLOW_CONTROL_ERROR),
    "too wide a window of a stream": (
        head(1, WATCH) + http2.window_update(1, http2.WINDOW_MAX),
        Http2Code.FLOW_CONTROL_ERROR,
    ),
    "a promise": (http2.frame(http2.PUSH_PROMISE, 0, 1, bytes(8)), Http2Code.PROTOCOL_ERROR),
    "a short ping": (http2.frame(http2.PING, 0, 0, b"1"), Http2Code.FRAME_SIZE_ERROR),
    "a ping of a stream": (http2.frame(http2.PING, 0, 1, bytes(8)), Http2Code.PROTOCOL_ERROR),
    "a short reset": (http2.frame(http2.RST_STREAM, 0, 1, b"1"), Http2Code.FRAME_SIZE_ERROR),
    "a short priority": (http2.frame(http2.PRIORITY, 0, 1, b"1"), Http2Code.FRAME_SIZE_ERROR),
    "a priority of nothing": (http2.frame(http2.PRIORITY, 0, 0, bytes(5)), Http2Code.PROTOCOL_ERROR),
    "a farewell of a stream": (http2.frame(http2.GOAWAY, 0, 1, bytes(8)), Http2Code.PROTOCOL_ERROR),
    "settings that break off": (http2.frame(http2.SETTINGS, 0, 0, b"12345"), Http2Code.FRAME_SIZE_ERROR),
    "settings of a stream": (http2.frame(http2.SETTINGS, 0, 1), Http2Code.PROTOCOL_ERROR),
    "settings that acknowledge": (http2.frame(http2.SETTINGS, 1, 0, bytes(6)), Http2Code.FRAME_SIZE_ERROR),
    "a push of 2": (http2.settings({http2.ENABLE_PUSH: 2}), Http2Code.PROTOCOL_ERROR),
    "a window that begins too wide": (
        http2.settings({http2.INITIAL_WINDOW_SIZE: 1 << 31}),
        Http2Code.FLOW_CONTROL_ERROR,
    ),
    "frames that are too short": (http2.settings({http2.MAX_FRAME_SIZE: 100}), Http2Code.PROTOCOL_ERROR),
    "a frame that is too long": (
        http2.frame(http2.DATA, 0, 1, bytes(http2.FRAME_MAX + 1)),
        Http2Code.FRAME_SIZE_ERROR,
    ),
    "padding alone": (head(1) + http2.frame(http2.DATA, http2.PADDED, 1, b"\x05"), Http2Code.PROTOCOL_ERROR),
    "no padding": (head(1) + http2.frame(http2.DATA, http2.PADDED, 1), Http2Code.PROTOCOL_ERROR),
    "a stream that depends on itself": (
        http2.frame(http2.HEADERS, http2.WITH_PRIORITY | http2.END_HEADERS, 1, b"\x00\x00\x00\x01\x00"),
        Http2Code.PROTOCOL_ERROR,
    ),
    "a head that breaks off": (
        http2.frame(http2.HEADERS, http2.WITH_PRIORITY | http2.END_HEADERS, 1, b"\x00"),
        Http2Code.FRAME_SIZE_ERROR,
    ),
    "a rest of nothing": (http2.frame(http2.CONTINUATION, 4, 1), Http2Code.PROTOCOL_ERROR),
    "a head that does not go on": (half_head(1) + data(1), Http2Code.PROTOCOL_ERROR),
    "another's rest": (half_head(1) + http2.frame(http2.CONTINUATION, 4, 3), Http2Code.PROTOCOL_ERROR),
    "fields that break off": (
        http2.frame(http2.HEADERS, http2.END_HEADERS, 1, b"\x00\x7f"),
        Http2Code.COMPRESSION_ERROR,
    ),
    "an index of nothing": (http2.frame(http2.HEADERS, http2.END_HEADERS, 1, b"\xff\x7f"), Http2Code.COMPRESSION_ERROR),
    "a number without an end": (
        http2.frame(http2.HEADERS, http2.END_HEADERS, 1, b"\xff" * 40),
        Http2Code.COMPRESSION_ERROR,
    ),
    "a table that is too large": (
        http2.frame(http2.HEADERS, http2.END_HEADERS, 1, b"\x3f\xff\xff\x03"),
        Http2Code.COMPRESSION_ERROR,
    ),
    "a table that changes and changes": (
        http2.frame(http2.HEADERS, http2.END_HEADERS, 1, b"\x20" * 16_000),
        Http2Code.COMPRESSION_ERROR,
    ),
    "a long head": (head(1, x=b"x" * 7_900, **dict.fromkeys("abcdefghij", b"y")), Http2Code.ENHANCE_YOUR_CALM),
    "a head without an end": (
        half_head(1) + http2.frame(http2.CONTINUATION, 0, 1, bytes(9_000)) * 2,
        Http2Code.ENHANCE_YOUR_CALM,
    ),
    "rests that say nothing": (
        half_head(1) + http2.frame(http2.CONTINUATION, 0, 1) * 1_100,
        Http2Code.ENHANCE_YOUR_CALM,
    ),
    "many settings": (http2.settings({}) * 60, Http2Code.ENHANCE_YOUR_CALM),
    "many pings": (http2.frame(http2.PING, 0, 0, bytes(8)) * 12, Http2Code.ENHANCE_YOUR_CALM),
    "many frames that say nothing": (head(1, WATCH) + data(1, end=False) * 1_100, Http2Code.ENHANCE_YOUR_CALM),
    "many of nobody's kind": (http2.frame(99, 0, 0) * 1_100, Http2Code.ENHANCE_YOUR_CALM),
    "calls broken off": (
        b"".join(head(2 * at + 1) + http2.reset(2 * at + 1, Http2Code.CANCEL) for at in range(1_200)),
        Http2Code.ENHANCE_YOUR_CALM,
    ),
}


@pytest.mark.parametrize("wrong", CONNECTION_ERRORS)
def test_a_connection_ends_with_its_reason(wrong: str) -> None:
    """GOAWAY with its code; who is on another connection is answered, and nothing of it is held."""
    rooms = Rooms()
    rooms.watch = rooms.never_again
    peer, other = rooms.peers(2)
    said, code = CONNECTION_ERRORS[wrong]
    peer.say(said)
    rooms.settle(turns=200)
    assert peer.farewell()[0] == code
    other.call(1, KEY)
    assert other.answers(1) == THREE
    assert (rooms.held(), len(rooms.calls)) == ((0, 0), 0)
    assert rooms.house.context.metrics.peer_errors["grpc"] == 1


def test_who_speaks_something_else_is_told_in_his_own_words_or_closed() -> None:
    """TLS gets an alert; HTTP/1 and what has no settings after the first words are closed."""
    rooms = Rooms()
    secure, old, mute = (Peer(rooms, greet=False) for _ in range(3))
    secure.say(bytes((22, 3, 1, 2, 0, 1)))
    assert (bytes(secure.wire.taken), secure.wire.closed) == (tls.REFUSAL, True)
    old.say(b"GET / HTTP/1.1\r\n\r\n")
    assert (bytes(old.wire.taken), old.wire.closed) == (b"", True)
    mute.say(http2.PREFACE, head(1))
    assert mute.wire.closed


def test_pings_of_a_client_that_gets_answers_are_answered() -> None:
    """As grpc's servers count them: clients measure the line with them while data flows."""
    rooms = Rooms()
    peer = Peer(rooms)
    for number in range(40):
        peer.call(2 * number + 1, KEY)
        peer.say(http2.frame(http2.PING, 0, 0, bytes(8)))
    assert not peer.wire.closed


def test_one_stream_too_many_is_refused_and_may_be_asked_again() -> None:
    """REFUSED_STREAM says that nothing was done (RFC 9113, section 8.7)."""
    rooms = Rooms(GrpcSettings(streams_per_connection_max=2))
    rooms.range = rooms.never
    peer = Peer(rooms)
    for stream in (1, 3, 5):
        peer.call(stream, KEY)
    assert peer.reset_of(5) == Http2Code.REFUSED_STREAM
    assert len(rooms.asked) == 2
    peer.say(http2.reset(1, Http2Code.CANCEL))
    peer.call(7, KEY)
    assert (len(rooms.asked), rooms.gone) == (3, 1)


def test_the_connection_s_window_is_given_back() -> None:
    """Far more than one window of requests goes through, and no more than it at a time."""
    rooms = Rooms()
    peer = Peer(rooms)
    for number in range(60):
        peer.call(2 * number + 1, pb.RangeRequest(key=bytes(60_000)).SerializeToString())
    assert len(rooms.asked) == 60
    assert sum(http2.number(one.payload) for one in peer.hear() if one.kind == http2.WINDOW_UPDATE) > 2_000_000


def test_an_answer_waits_for_the_window_of_its_stream_and_of_the_connection() -> None:
    """As much as either allows goes out, to the byte; when settings make windows narrower, nothing does."""
    rooms = Rooms()
    rooms.large(100_000)
    peer = Peer(rooms)
    peer.call(1, KEY)
    assert len(peer.answers(1)) == http2.WINDOW
    peer.allow(1_000, 1)
    assert peer.answers(1) == b""
    peer.allow(300)
    assert len(peer.answers(1)) == 300
    peer.say(http2.settings({http2.INITIAL_WINDOW_SIZE: 1}))
    peer.allow(PLENTY)
    assert peer.answers(1) == b""
    assert rooms.held()[1] > 30_000
    peer.allow(PLENTY, 1)
    assert len(peer.hear()) > 2
    assert (rooms.held(), len(rooms.calls)) == ((0, 0), 0)


def test_a_short_answer_does_not_wait_for_a_long_one() -> None:
    """Each that waits gets a frame in its turn."""
    rooms = Rooms()
    peer = Peer(rooms)
    peer.say(http2.settings({http2.INITIAL_WINDOW_SIZE: PLENTY}))
    rooms.large(4_000_000)
    peer.call(1, KEY)
    rooms.range = rooms.echo
    peer.call(3, KEY)
    peer.hear()
    peer.allow(3 * http2.FRAME_MAX)
    streams = [one.stream for one in peer.hear() if one.kind == http2.DATA]
    assert 3 in streams[:2]
    assert streams.count(1) >= 2


def test_who_does_not_read_is_not_heard_and_let_go() -> None:
    """Of a long answer little is made; nothing more is read; the connection ends after ``write_timeout_s``."""
    rooms = Rooms()
    rooms.large(4_000_000)
    peer = Peer(rooms)
    peer.say(http2.settings({http2.INITIAL_WINDOW_SIZE: PLENTY}), http2.window_update(0, PLENTY))
    peer.wire.reads = False
    peer.call(1, KEY)
    assert len(peer.wire.unread) < 600_000
    assert not peer.wire.reading
    asked = len(rooms.asked)
    rooms.range = rooms.echo
    peer.call(3, KEY)
    assert len(rooms.asked) == asked
    rooms.after(rooms.settings.write_timeout_s / 2)
    assert not peer.wire.closed
    rooms.after(rooms.settings.write_timeout_s)
    assert peer.wire.aborted
    assert rooms.held() == (0, 0)


def test_who_reads_again_is_heard_again() -> None:
    """What he asked meanwhile is answered."""
    rooms = Rooms()
    rooms.large(1_000_000)
    peer = Peer(rooms)
    peer.say(http2.settings({http2.INITIAL_WINDOW_SIZE: PLENTY}), http2.window_update(0, PLENTY))
    peer.wire.reads = False
    peer.call(1, KEY)
    rooms.range = rooms.echo
    peer.call(3, KEY)
    peer.wire.reads = True
    for _ in range(20):
        rooms.settle(peer.wire.take)
    assert rooms.asked
    assert (rooms.held(), len(rooms.calls), peer.wire.reading) == ((0, 0), 0, True)


def test_a_stream_that_nobody_takes_ends_and_its_connection_does_not() -> None:
    """A window that stays shut, or opens by a byte at a time, holds an answer for ``write_timeout_s``. The end says
    what etcd's clients take for a server that is gone: a watch goes on elsewhere, and nothing is taken for done.
    """
    rooms = Rooms()
    rooms.large(100_000)
    peer = Peer(rooms)
    for stream in (1, 3):
        peer.call(stream, KEY)
    peer.allow(PLENTY)
    said = peer.hear()
    for _ in range(int(rooms.settings.write_timeout_s) + 3):
        rooms.after(1)
        if 3 in peer.connection.streams:
            peer.allow(1, 3)
        said += peer.hear()
    ends = [one for one in said if one.kind == http2.HEADERS and one.ends]
    assert [one.stream for one in ends] == [1, 3]
    for _ in range(2):  # The heads of both answers came before.
        peer.fields(said[[one.kind for one in said].index(http2.HEADERS)])
    assert peer.fields(ends[0])[b"grpc-status"] == b"14"
    assert (rooms.held(), len(rooms.calls), peer.wire.closed) == ((0, 0), 0, False)


def test_a_client_that_takes_an_answer_slowly_gets_all_of_it() -> None:
    """However long that takes, if it takes some kilobytes a second."""
    rooms = Rooms()
    rooms.large(400_000)
    peer = Peer(rooms)
    peer.call(1, KEY)
    peer.allow(PLENTY)
    got = len(peer.answers(1))
    for _ in range(120):
        rooms.after(1)
        peer.allow(4_000, 1)
        got += len(peer.answers(1))
    assert got > 400_000
    assert len(rooms.calls) == 0


def test_a_client_that_measures_the_line_gets_a_long_answer_whole() -> None:
    """grpc-go pings once a round trip while data comes: of one answer there may be many."""
    rooms = Rooms()
    rooms.large(1_000_000)
    peer = Peer(rooms)
    peer.call(1, KEY)
    got = len(peer.answers(1))
    while got < 1_000_000:
        peer.say(http2.frame(http2.PING, 0, 0, bytes(8)))
        peer.allow(20_000)
        peer.allow(20_000, 1)
        got += len(peer.answers(1))
    assert not peer.wire.closed


def test_what_comes_late_for_calls_that_were_refused_is_no_flood() -> None:
    """Their requests were on the way: those under way on the connection go on."""
    rooms = Rooms(GrpcSettings(calls_max=1))
    rooms.range = rooms.never
    peer = Peer(rooms)
    peer.call(1, KEY)
    for number in range(1, 2_000):
        stream = 2 * number + 1
        peer.connection.data_received(head(stream))
        peer.connection.data_received(data(stream, message(KEY), end=False) + data(stream))
    rooms.settle()
    assert not peer.wire.closed
    assert len(rooms.calls) == 1


def test_calls_that_both_ends_give_up_are_no_flood() -> None:
    """At a deadline each end says so, and neither knows of the other's word."""
    rooms = Rooms()
    rooms.range = rooms.never
    peer = Peer(rooms)
    for turn in range(8):
        streams = [2 * (500 * turn + at) + 1 for at in range(500)]
        peer.say(*(head(stream, grpc_timeout=b"1S") + data(stream, message(KEY)) for stream in streams))
        rooms.settle(turns=100)
        rooms.after(4)
        assert len(rooms.calls) == 0
        peer.say(*(http2.reset(stream, Http2Code.CANCEL) for stream in streams))
    assert not peer.wire.closed


def test_a_stream_that_is_over_is_kept_by_nobody() -> None:
    """Also when the connection's window is shut, and stays so."""
    rooms = Rooms()
    rooms.large(1_000)
    peer = Peer(rooms)
    for number in range(300):
        peer.call(2 * number + 1, KEY)
        peer.say(http2.reset(2 * number + 1, Http2Code.CANCEL))
    assert len(peer.connection._sender._sending) <= 1
    assert rooms.held() == (0, 0)


def test_those_that_are_behind_share_a_turn() -> None:
    """However many connections have much to be read, other work gets its turn after a little of it."""
    rooms = Rooms()
    peers = list(rooms.peers(30))
    ticks = iter(at / 5_000 for at in range(1 << 20))
    rooms.door.scheduler = cast(Scheduler, Ticking(rooms.house.context.scheduler, ticks.__next__))
    turns: list[int] = []
    read = rooms.door._read_some

    def counted() -> None:
        before = len(rooms.door._behind)
        read()
        turns.append(before - len(rooms.door._behind))

    rooms.door._read_some = counted  # type: ignore[method-assign]
    for peer in peers:
        peer.connection._now = ticks.__next__

    def flood() -> None:
        for peer in peers:
            peer.connection.data_received(http2.window_update(0, 1) * 50)

    rooms.settle(flood, turns=290)
    assert turns
    assert max(turns) <= 2
    assert not rooms.door._behind


def test_an_error_in_reading_one_keeps_no_other_from_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection ends, and those behind it are read."""
    rooms = Rooms()
    wrong, other = rooms.peers(2)

    def fails() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(wrong.connection, "read_on", fails)

    def flood() -> None:
        for peer in (wrong, other):
            peer.connection._fall_behind()

    with pytest.raises(ZeroDivisionError):
        rooms.settle(flood)
    assert wrong.wire.aborted
    rooms.settle()
    assert not other.connection._behind
    assert not rooms.door._behind
    other.call(1, b"")
    assert other.answers(1)


def test_our_first_fields_say_that_there_is_no_table() -> None:
    """A client that sets a table smaller than usual must hear so (RFC 9113, section 4.3.1), and hears it once."""
    rooms = Rooms()
    peer = Peer(rooms)
    peer.call(1, KEY)
    peer.call(3, KEY)
    heads = [one.payload for one in peer.hear() if one.kind == http2.HEADERS]
    assert [one.startswith(http2.NO_TABLE) for one in heads] == [True, False, False, False]


def test_a_ping_that_is_not_acknowledged_ends_no_deadline() -> None:
    """Whatever else is heard says that the client lives; what it begins must still become whole."""
    rooms = Rooms()
    peer = Peer(rooms)
    rooms.after(rooms.settings.keepalive_time_s + 2)
    assert any(one.kind == http2.PING for one in peer.hear())
    peer.say(http2.window_update(0, 1), b"\x00\x00")
    rooms.after(rooms.settings.request_timeout_s - 2)
    assert not peer.wire.closed
    rooms.after(5)
    assert peer.wire.closed


def test_who_has_to_go_for_another_goes_at_once() -> None:
    """Its descriptor and its calls are free, whatever it has not read yet."""
    rooms = Rooms(GrpcSettings(connections_max=2, connections_reserved=1))
    rooms.range = rooms.never
    first, second = rooms.peers(2)
    for peer in (first, second):
        peer.call(1, KEY)
    Peer(rooms)
    assert (first.wire.aborted, second.wire.closed, rooms.gone) == (True, False, 1)


def test_who_is_hung_up_on_and_takes_nothing_is_let_go() -> None:
    """What was said last has a second to go out; its calls have ended before."""
    rooms = Rooms()
    rooms.range = rooms.never
    peer = Peer(rooms)
    peer.call(1, KEY)
    peer.wire.close = lambda: None  # type: ignore[method-assign]  # It waits for the client to read.
    rooms.settle(peer.connection.close)
    assert (rooms.gone, len(rooms.calls)) == (1, 0)
    assert not peer.wire.aborted
    rooms.after(2)
    assert peer.wire.aborted


def test_many_small_answers_go_out_in_few_frames() -> None:
    """So that a window that opens late costs no turn."""
    rooms = Rooms()

    async def talks(requests: AsyncIterator[pb.WatchRequest], call: Call) -> AsyncIterator[pb.WatchResponse]:
        for number in range(1, 5_000):
            yield pb.WatchResponse(watch_id=number)

    rooms.watch = talks
    peer = Peer(rooms)
    peer.say(http2.settings({http2.INITIAL_WINDOW_SIZE: 0}), head(1, WATCH), data(1))
    peer.allow(PLENTY, 1)
    rooms.settle(turns=290)
    frames = [one for one in peer.hear() if one.kind == http2.DATA]
    assert len(frames) < 100
    assert sum(len(one.payload) for one in frames) > 30_000


DRIBBLES = {
    "nothing": (lambda: b"", "handshake_timeout_s"),
    "half of the first words": (lambda: http2.PREFACE[:9], "handshake_timeout_s"),
    "half a frame": (lambda: http2.PREFACE + http2.settings({}) + b"\x00\x00", "request_timeout_s"),
    "half a head": (lambda: http2.PREFACE + http2.settings({}) + half_head(1), "request_timeout_s"),
    "nothing more": (lambda: http2.PREFACE + http2.settings({}), "keepalive_time_s"),
}


@pytest.mark.parametrize("dribble", DRIBBLES)
def test_who_goes_silent_is_closed_in_time(dribble: str) -> None:
    """Not before, and soon after."""
    said: Callable[[], bytes]
    said, setting = DRIBBLES[dribble]
    rooms = Rooms()
    peer = Peer(rooms, greet=False)
    peer.say(said()) if said() else None
    limit = getattr(rooms.settings, setting)
    if setting == "keepalive_time_s":
        limit += rooms.settings.keepalive_timeout_s
    rooms.after(limit - TICK)
    assert not peer.wire.closed
    rooms.after(2 * TICK + 2)
    assert peer.wire.closed


def test_who_answers_pings_is_kept_until_it_is_idle_for_long() -> None:
    """A client with a call is kept for good; one without is told goodbye after ``idle_timeout_s``."""
    rooms = Rooms(GrpcSettings(idle_timeout_s=200))
    rooms.watch = rooms.never_again
    idle, busy = rooms.peers(2)
    busy.say(head(1, WATCH))
    for _ in range(300):
        rooms.after(1)
        for peer in (idle, busy):
            if not peer.wire.closed and any(one.kind == http2.PING for one in peer.hear()):
                peer.say(http2.frame(http2.PING, http2.ACK, 0, bytes(8)))
    assert (idle.wire.closed, busy.wire.closed) == (True, False)


def test_a_client_that_is_gone_is_forgotten() -> None:
    """Its calls end, and nothing keeps what it was."""
    rooms = Rooms()
    rooms.range = rooms.never
    peer = Peer(rooms)
    peer.call(1, KEY)
    rooms.settle(lambda: peer.connection.connection_lost(None))
    assert (rooms.gone, rooms.held(), len(rooms.calls), rooms.door.connections) == (1, (0, 0), 0, 0)


def test_the_idlest_stranger_goes_when_there_are_too_many() -> None:
    """Not one that has had an answer, and not one with a call."""
    rooms = Rooms(GrpcSettings(connections_max=4, connections_reserved=1))
    known, busy = rooms.peers(2)
    known.call(1, KEY)
    rooms.range = rooms.never
    busy.call(1, KEY)
    strangers = list(rooms.peers(4))
    assert [peer.wire.closed for peer in (known, busy, *strangers)] == [False, False, True, True, False, False]


def test_goodbye_lets_calls_end_and_takes_no_new_ones() -> None:
    """A farewell names no stream as unheard, so that no client repeats what may have been done."""
    rooms = Rooms()
    rooms.range = rooms.never
    peer = Peer(rooms)
    peer.call(1, KEY)
    rooms.settle(rooms.door.leave)
    (farewell,) = (one for one in peer.hear() if one.kind == http2.GOAWAY)
    assert http2.number(farewell.payload[:4]) == http2.STREAM_MAX
    peer.call(3, KEY)
    assert peer.reset_of(3) == Http2Code.REFUSED_STREAM
    rooms.settle(rooms.calls.stop)
    assert peer.end_of(1) == (14, b"etcdserver: server stopped")


def test_reading_many_frames_leaves_turns_to_others() -> None:
    """However many come at once, other work gets its turn between them, and all are done."""
    rooms = Rooms()
    peer = Peer(rooms)
    rooms.range = rooms.never
    others: list[int] = []
    scheduler = rooms.house.context.scheduler
    scheduler.call_soon(lambda: others.append(len(rooms.calls)))
    peer.connection._now = iter(at / 10_000 for at in range(1 << 20)).__next__  # A clock that goes on.
    said = b"".join(head(2 * at + 1) + data(2 * at + 1, message(KEY)) for at in range(400))
    rooms.settle(lambda: peer.connection.data_received(said), turns=200)
    assert len(rooms.calls) == 400
    assert others[0] < 100


def test_allowances_come_back() -> None:
    """Settings now and then are no flood."""
    rooms = Rooms()
    peer = Peer(rooms)
    for _ in range(5):
        peer.say(http2.settings({}) * 10)
        rooms.after(1)
    assert not peer.wire.closed


def test_windows_stay_what_they_are_for_each_stream() -> None:
    """Whatever order windows, settings and answers come in, no more goes out than was allowed."""
    rooms = Rooms()
    rooms.large(30_000)
    peer = Peer(rooms)
    peer.say(http2.settings({http2.INITIAL_WINDOW_SIZE: 0}), http2.window_update(0, PLENTY))
    allowed = [10, 20_000, 1, 9_000, 989, 15]
    peer.call(1, KEY)
    sizes = []
    for more in allowed:
        peer.allow(more, 1)
        sizes.append(len(peer.answers(1)))
    whole = len(message(pb.RangeResponse(kvs=[pb.RangeResponse().kvs.add(value=bytes(30_000))]).SerializeToString()))
    assert sizes[:-1] == allowed[:-1]
    assert sum(sizes) == whole
