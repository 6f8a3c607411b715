"""Calls of gRPC: heads, messages, deadlines, and what a listener holds for strangers."""

import asyncio
import zlib
from collections.abc import AsyncIterator

import pytest

from quorate.errors import QuorateError
from quorate.gateway.grpc import heads
from quorate.gateway.grpc.asking import Call
from quorate.gateway.grpc.budgets import ByteBudget, RateLimit
from quorate.gateway.grpc.calls import MESSAGE_OVERHEAD
from quorate.gateway.grpc.codes import CallError, StatusCode
from quorate.gateway.grpc.pb import kv_pb2
from quorate.gateway.grpc.pb import rpc_pb2 as pb
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.gateway.grpc.stream import DRAINED
from quorate.wire import http2
from quorate.wire.http2 import Http2Code
from tests.unit.gateway.grpc.peer import GET, PLENTY, WATCH, Peer, Rooms, data, fields_of, head, message

KEY = pb.RangeRequest(key=b"abc").SerializeToString()
THREE = message(pb.RangeResponse(count=3).SerializeToString())
LARGEST = GrpcSettings().request_bytes_max + MESSAGE_OVERHEAD
"""Of a message that is read."""
GZIP = {"grpc_encoding": b"gzip"}


def zipped(plain: bytes) -> bytes:
    zipper = zlib.compressobj(wbits=31)
    return zipper.compress(plain) + zipper.flush()


def asked(number: int) -> bytes:
    """One request of a Watch."""
    request = pb.WatchRequest(cancel_request=pb.WatchCancelRequest(watch_id=number))
    return message(request.SerializeToString())


def told(number: int) -> bytes:
    return message(pb.WatchResponse(watch_id=number).SerializeToString())


REFUSED = {
    "an unknown method": (
        head(1, b"/etcdserverpb.KV/Nothing"),
        12,
        b"unknown method Nothing for service etcdserverpb.KV",
    ),
    "an unknown service": (head(1, b"/nobody/x"), 12, b"unknown service nobody"),
    "no name": (head(1, b"x"), 12, b'malformed method name: "x"'),
    "a name that is no text": (head(1, b"/\xff/x"), 12, b"unknown service \\xff"),
    "a time-out that is none": (head(1, grpc_timeout=b"1x"), 13, b"malformed grpc-timeout: b'1x'"),
    "another compression": (
        head(1, grpc_encoding=b"br"),
        12,
        b"grpc: Decompressor is not installed for grpc-encoding br",
    ),
    "no request": (head(1) + data(1), 13, b"grpc: the call ended without a whole request"),
    "half a request": (head(1) + data(1, message(KEY)[:-1]), 13, b"grpc: the call ended without a whole request"),
    "bytes that are no message": (
        head(1) + data(1, message(b"\xff\xff")),
        13,
        b"grpc: error unmarshalling request: etcdserverpb.RangeRequest",
    ),
    "a field of another wire type": (
        head(1) + data(1, message(KEY + b"\x15abcd")),
        13,
        b"grpc: error unmarshalling request: proto: wrong wireType = 5 for field RangeEnd",
    ),
    "a field of another wire type within": (
        head(1, WATCH) + data(1, message(b"\x0a\x05\x0dabcd")),
        13,
        b"grpc: error unmarshalling request: proto: wrong wireType = 5 for field Key",
    ),
    "too long": (
        head(1) + data(1, b"\x00" + (LARGEST + 1).to_bytes(4, "big"), end=False),
        8,
        b"grpc: received message larger than max (%d vs. %d)" % (LARGEST + 1, LARGEST),
    ),
    "compressed without saying how": (
        head(1) + data(1, message(KEY, compressed=1)),
        13,
        b"grpc: compressed flag set with identity or empty encoding",
    ),
    "no gzip": (
        head(1, **GZIP) + data(1, message(KEY, compressed=1)),
        13,
        b"grpc: failed to decompress the received message",
    ),
    "gzip that breaks off": (
        head(1, **GZIP) + data(1, message(zipped(KEY)[:-1], compressed=1)),
        13,
        b"grpc: failed to decompress the received message",
    ),
    "gzip and more": (
        head(1, **GZIP) + data(1, message(zipped(KEY) + b"1", compressed=1)),
        13,
        b"grpc: failed to decompress the received message",
    ),
    "gzip of very much": (
        head(1, **GZIP) + data(1, message(zipped(bytes(LARGEST + 1)), compressed=1)),
        8,
        b"grpc: received message after decompression larger than max %d" % LARGEST,
    ),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_a_call_ends_by_a_code_and_a_text(wrong: str) -> None:
    """As grpc-go says it; nothing was asked, nothing is held, and the next call is answered."""
    rooms = Rooms()
    peer = Peer(rooms)
    said, code, text = REFUSED[wrong]
    peer.say(said)
    assert peer.end_of(1) == (code, text)
    assert (rooms.asked, rooms.held(), len(rooms.calls)) == ([], (0, 0), 0)
    peer.call(3, KEY)
    assert peer.answers(3) == THREE


def test_what_is_no_call_has_a_status_of_http() -> None:
    """405 and 415, so that who came by mistake sees it."""
    peer = Peer(Rooms())
    for stream, fields, status in (
        (1, {":method": b"GET"}, b"405"),
        (3, {"content_type": b"text/html"}, b"415"),
        (5, {"content_type": None}, b"415"),
    ):
        peer.say(head(stream, **fields))
        (answer,) = peer.hear()
        assert peer.fields(answer)[b":status"] == status
        assert answer.ends


def test_a_compressed_request_is_read() -> None:
    """And one that says it may be, and is not."""
    rooms = Rooms()
    peer = Peer(rooms)
    peer.say(head(1, **GZIP), data(1, message(zipped(KEY), compressed=1)))
    assert peer.answers(1) == THREE
    peer.call(3, KEY, grpc_encoding=b"gzip")
    assert peer.answers(3) == THREE
    assert rooms.held() == (0, 0)


def test_a_request_is_answered_when_it_is_whole() -> None:
    """Whether its client ends the stream with it, later, or not at all; whatever comes behind it is not looked at."""
    rooms = Rooms()
    peer = Peer(rooms)
    peer.say(head(1), data(1, message(KEY), end=False))
    answer = peer.hear()
    assert [one.payload for one in answer if one.kind == http2.DATA] == [THREE]
    assert answer[-1].kind == http2.RST_STREAM
    peer.say(data(1))
    peer.say(head(3), data(3, message(KEY) + b"more"))
    assert peer.answers(3) == THREE
    assert not peer.wire.closed


def test_the_end_of_a_request_that_comes_late_does_not_cost_the_answer() -> None:
    """An answer that waits for its client to take it is kept."""
    rooms = Rooms()
    rooms.large(100_000)
    peer = Peer(rooms)
    peer.say(head(1), data(1, message(KEY), end=False))
    peer.say(data(1))
    peer.allow(PLENTY)
    peer.hear()
    peer.allow(PLENTY, 1)
    assert peer.end_of(1)[0] == 0


def test_a_handler_s_error_is_the_call_s() -> None:
    """A ``CallError`` by its code and text, percent-encoded; what nobody foresaw without its reason."""
    rooms = Rooms()
    peer = Peer(rooms)

    async def refuses(request: pb.RangeRequest, call: Call) -> pb.RangeResponse:
        raise CallError(StatusCode.ABORTED, "100 % ä\n")

    async def breaks(request: pb.RangeRequest, call: Call) -> pb.RangeResponse:
        raise QuorateError("secret")

    rooms.range = refuses
    peer.call(1, KEY)
    assert peer.end_of(1) == (10, b"100 %25 %C3%A4%0A")
    rooms.range = breaks
    peer.call(3, KEY)
    assert peer.end_of(3) == (13, b"quorate: this call failed here; the node's log says why")


def test_a_long_text_is_cut() -> None:
    """Clients take few bytes of fields: at most 1,024 are told, and no half of an escape."""
    for text in ("x" * 5_000, "ä" * 5_000, "x" + "ä" * 5_000, "xy" + "ä" * 5_000):
        said = heads.ended(StatusCode.INTERNAL, text)
        shown = said.partition(b"grpc-message")[2][3:]
        assert 1_000 < len(shown) <= 1_024
        assert shown[-1:] != b"%"
        assert shown[-2:-1] != b"%"


def test_a_call_knows_who_asks_and_how_long_he_waits() -> None:
    """The peer, and what is left of the deadline."""
    rooms = Rooms()
    seen = []

    async def looks(request: pb.RangeRequest, call: Call) -> pb.RangeResponse:
        seen.append((call.peer(), call.time_remaining()))
        return pb.RangeResponse()

    rooms.range = looks
    peer = Peer(rooms)
    peer.call(1, KEY)
    peer.call(3, KEY, grpc_timeout=b"2S")
    assert seen[0] == ("ipv4:127.0.0.1:1", None)
    assert seen[1][0] == "ipv4:127.0.0.1:1"
    left = seen[1][1]
    assert left is not None
    assert 1.8 < left <= 2


def test_whoever_requires_a_leader_is_refused_without_one() -> None:
    """Any call, as by etcd, before its handler is called; who does not say ``true`` is served."""
    rooms = Rooms()
    seen = []

    async def looks(request: pb.RangeRequest, call: Call) -> pb.RangeResponse:
        seen.append(call.peer())
        return pb.RangeResponse()

    rooms.range = looks
    peer = Peer(rooms)
    rooms.led = False
    peer.call(1, KEY, hasleader=b"true")
    assert peer.end_of(1) == (14, b"etcdserver: no leader")
    assert not seen
    peer.call(3, KEY, hasleader=b"false")
    peer.call(5, KEY)
    rooms.led = True
    peer.call(7, KEY, hasleader=b"true")
    assert len(seen) == 3


def test_a_call_that_requires_a_leader_ends_when_there_is_none_for_a_while() -> None:
    """A stream, also one that says nothing; one that does not require it goes on."""
    rooms = Rooms()
    rooms.watch = rooms.never_again
    peer = Peer(rooms)
    peer.say(head(1, WATCH, hasleader=b"true"), head(3, WATCH))
    rooms.led = False
    rooms.after(rooms.settings.no_leader_grace_s - 0.5)
    assert rooms.gone == 0
    rooms.after(2.0)
    assert rooms.gone == 1
    assert peer.end_of(1) == (14, b"etcdserver: no leader")


def test_a_call_of_one_answer_that_has_begun_does_not_end_for_want_of_a_leader() -> None:
    """What it asked for may be on its way, and "no leader" says that nothing was done: it ends by its handler."""
    rooms = Rooms()
    free = asyncio.Event()

    async def waits(request: pb.RangeRequest, call: Call) -> pb.RangeResponse:
        await free.wait()
        return pb.RangeResponse(count=3)

    rooms.range = waits
    peer = Peer(rooms)
    peer.call(1, KEY, hasleader=b"true")
    rooms.led = False
    rooms.after(rooms.settings.no_leader_grace_s + 2.0)
    rooms.settle(free.set)
    assert peer.answers(1) == THREE


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (b"1H", 3600),
        (b"2M", 120),
        (b"3S", 3),
        (b"4m", 0.004),
        (b"5u", 5e-6),
        (b"6n", 6e-9),
        (b"99999999H", 359_999_996_400),
    ],
)
def test_a_timeout_has_a_unit(text: bytes, seconds: float) -> None:
    """gRPC's six."""
    assert heads.read(fields_of(grpc_timeout=text)).timeout_s == pytest.approx(seconds)


def test_a_call_ends_at_its_deadline() -> None:
    """Its handler too, whatever it does; one that has none goes on."""
    rooms = Rooms()
    rooms.range = rooms.never
    peer = Peer(rooms)
    peer.call(1, KEY, grpc_timeout=b"5S")
    peer.call(3, KEY)
    rooms.after(3)
    assert rooms.gone == 0
    rooms.after(4)
    assert (rooms.gone, len(rooms.calls)) == (1, 1)
    assert peer.end_of(1) == (4, b"context deadline exceeded")


@pytest.mark.parametrize("begun", [b"", message(KEY)[:3], message(KEY)[:-1]])
@pytest.mark.parametrize("path", [GET, WATCH])
def test_a_request_that_does_not_come_ends_its_call(begun: bytes, path: bytes) -> None:
    """After ``request_timeout_s``, for a request that is due or has begun; a stream may be silent between requests."""
    rooms = Rooms()
    peer = Peer(rooms)
    peer.say(head(1, path), data(1, begun, end=False))
    rooms.after(rooms.settings.request_timeout_s - 2)
    assert len(rooms.calls) == 1
    rooms.after(4)
    if path == WATCH and not begun:
        assert len(rooms.calls) == 1
    else:
        assert peer.end_of(1)[0] == StatusCode.DEADLINE_EXCEEDED
        assert (rooms.held(), len(rooms.calls)) == ((0, 0), 0)


def test_a_stream_of_requests_is_answered_one_by_one() -> None:
    """In their order, however they are cut, and to the end."""
    rooms = Rooms()
    peer = Peer(rooms)
    peer.say(head(1, WATCH), data(1, asked(1) + asked(2)[:4], end=False))
    assert peer.answers(1) == told(1)
    peer.say(data(1, asked(2)[4:] + asked(3), end=False))
    assert peer.answers(1) == told(2) + told(3)
    peer.say(data(1))
    assert peer.end_of(1) == (0, b"")
    assert rooms.held() == (0, 0)


def test_a_stream_that_breaks_off_within_a_request_says_so() -> None:
    """What was whole is answered."""
    peer = Peer(Rooms())
    peer.say(head(1, WATCH), data(1, asked(1) + asked(2)[:4]))
    assert peer.end_of(1)[0] == StatusCode.INTERNAL


def test_requests_that_nobody_takes_wait_at_the_client() -> None:
    """No more than a window of them; once they are taken the window opens, and all are answered."""
    rooms = Rooms()
    free = asyncio.Event()

    async def waits(requests: AsyncIterator[pb.WatchRequest], call: Call) -> AsyncIterator[pb.WatchResponse]:
        await free.wait()
        async for answer in rooms.echoes(requests, call):
            yield answer

    rooms.watch = waits
    peer = Peer(rooms)
    many = b"".join(asked(number) for number in range(1, 20_000))
    peer.say(head(1, WATCH), data(1, many[: http2.WINDOW], end=False))
    assert rooms.held()[0] == http2.WINDOW
    assert not [one for one in peer.hear() if one.kind == http2.WINDOW_UPDATE and one.stream == 1]
    rooms.settle(free.set, turns=290)
    for _ in range(20):
        rooms.settle(turns=290)
    given = sum(http2.number(one.payload) for one in peer.hear() if (one.kind, one.stream) == (8, 1))
    assert given > http2.WINDOW // 2
    assert len(rooms.asked) > 1_000


def test_answers_are_made_no_faster_than_they_are_taken() -> None:
    """A handler with much to say waits for its client, holding little."""
    rooms = Rooms()
    made = []

    async def talks(requests: AsyncIterator[pb.WatchRequest], call: Call) -> AsyncIterator[pb.WatchResponse]:
        for number in range(1, 1_000):
            made.append(number)
            yield pb.WatchResponse(watch_id=number, cancel_reason="x" * 1_000)

    rooms.watch = talks
    peer = Peer(rooms)
    peer.say(head(1, WATCH), data(1))
    assert len(made) < (http2.WINDOW + DRAINED) / 1_000 + 3
    assert rooms.held()[1] < DRAINED + 2_000
    for _ in range(30):
        peer.allow(50_000)
        peer.allow(50_000, 1)
    assert made[-1] == 999
    assert rooms.held() == (0, 0)


def test_a_client_that_goes_ends_its_handler() -> None:
    """A reset, also of a call that has not begun to run yet."""
    rooms = Rooms()
    rooms.range = rooms.never
    rooms.watch = rooms.never_again
    peer = Peer(rooms)
    peer.call(1, KEY)
    peer.say(head(3, WATCH))
    peer.say(http2.reset(1, Http2Code.CANCEL), http2.reset(3, Http2Code.CANCEL))
    peer.say(head(5), data(5, message(KEY)), http2.reset(5, Http2Code.CANCEL))
    assert (rooms.gone, len(rooms.asked), len(rooms.calls), rooms.held()) == (2, 2, 0, (0, 0))


def test_long_requests_side_by_side_all_become_whole() -> None:
    """None waits for another's bytes: what has begun has room to end."""
    rooms = Rooms()
    peer = Peer(rooms)
    size = 1_000_000
    request = message(pb.RangeRequest(key=bytes(size)).SerializeToString())
    streams = [2 * number + 1 for number in range(8)]
    left = dict.fromkeys(streams, (request, http2.WINDOW))
    peer.say(*(head(stream) for stream in streams))
    while left:
        for stream, (rest, window) in tuple(left.items()):
            part = rest[: min(http2.FRAME_MAX, window)]
            peer.say(data(stream, part, end=len(part) == len(rest)))
            left[stream] = (rest[len(part) :], window - len(part))
            if len(part) == len(rest):
                del left[stream]
        for one in peer.hear():
            if one.kind == http2.WINDOW_UPDATE and one.stream in left:
                rest, window = left[one.stream]
                left[one.stream] = (rest, window + http2.number(one.payload))
    assert [len(one.key) for one in rooms.asked] == [size] * 8
    assert rooms.held() == (0, 0)


def test_padding_does_not_keep_a_long_request_from_its_end() -> None:
    """What padding took of the window is given back."""
    rooms = Rooms()
    peer = Peer(rooms)
    request, window, at = message(pb.RangeRequest(key=bytes(300_000)).SerializeToString()), http2.WINDOW, 0
    peer.say(head(1))
    while at < len(request):
        padded = window > 500  # Who has little left sends it without.
        part = request[at : at + min(200, window)]
        assert part
        at += len(part)
        end = http2.END_STREAM if at == len(request) else 0
        payload = b"\xff" + part + bytes(255) if padded else part
        peer.say(http2.frame(http2.DATA, (http2.PADDED if padded else 0) | end, 1, payload))
        window -= len(payload)
        window += sum(http2.number(one.payload) for one in peer.hear() if (one.kind, one.stream) == (8, 1))
    assert len(rooms.asked) == 1


def test_requests_hold_no_more_than_they_may() -> None:
    """Of one connection a quarter; more of it is refused, and a call on another connection answered."""
    rooms = Rooms(GrpcSettings(received_bytes_max=5_000_000))
    rooms.range = rooms.never
    peer, other = rooms.peers(2)
    request = b"\x00" + (900_000).to_bytes(4, "big") + bytes(50)
    peer.say(head(1), data(1, request, end=False), head(3), data(3, request, end=False))
    assert peer.end_of(3) == (8, b"etcdserver: too many requests")
    assert rooms.held()[0] <= 1_250_000
    rooms.range = rooms.echo
    other.call(1, KEY)
    assert other.answers(1) == THREE
    peer.connection.close()
    assert rooms.held() == (0, 0)


def test_what_compressed_requests_become_counts_too() -> None:
    """A few kilobytes that stand for megabytes are held as megabytes, while their handlers have them."""
    rooms = Rooms(GrpcSettings(received_bytes_max=16_000_000))
    rooms.range = rooms.never
    peer = Peer(rooms)
    bomb = message(zipped(pb.RangeRequest(key=bytes(1_000_000)).SerializeToString()), compressed=1)
    for number in range(4):
        peer.say(head(2 * number + 1, **GZIP), data(2 * number + 1, bomb))
    assert (len(rooms.asked), len(rooms.calls)) == (2, 2)
    assert 2_000_000 < rooms.held()[0] < 3_000_000


def test_a_compressed_request_is_read_in_turns() -> None:
    """What takes long to read, and stands for little, leaves others their turns."""
    rooms = Rooms()
    peer = Peer(rooms)
    nothing = bytes((0, 0, 0, 255, 255))  # A block of no bytes (RFC 1951, section 3.2.4).
    empty = zipped(b"")[:10] + nothing * 12_000 + b"\x01" + nothing[1:] + bytes(8)
    said = head(1, **GZIP) + data(1, message(empty, compressed=1))
    rooms.settle(lambda: peer.connection.data_received(said), turns=4)
    assert len(rooms.calls) == 1, "it is being read yet"
    rooms.settle(turns=290)
    assert [len(one.key) for one in rooms.asked] == [0]


def test_answers_hold_no_more_than_they_may() -> None:
    """One that does not fit is not sent, and nobody can say what was done; what waits already is sent."""
    rooms = Rooms(GrpcSettings(answer_bytes_max=100_000))
    rooms.large(90_000)
    peer = Peer(rooms)
    for number in range(4):
        peer.call(2 * number + 1, KEY)
    ends = [one for one in peer.hear() if one.kind == http2.HEADERS and one.ends]
    assert [one.stream for one in ends] == [5, 7]
    assert peer.fields(ends[0])[b"grpc-status"] == b"14"
    peer.allow(PLENTY)
    for stream in (1, 3):
        peer.allow(PLENTY, stream)
    assert (rooms.held(), len(rooms.calls)) == ((0, 0), 0)


def test_no_connection_has_all_calls() -> None:
    """The last quarter is for those that have few: a crowd on some connections keeps nobody else out."""
    rooms = Rooms(GrpcSettings(calls_max=40))
    rooms.range = rooms.never
    crowd, other = rooms.peers(2)
    for number in range(40):
        crowd.call(2 * number + 1, KEY)
    assert len(rooms.calls) == 30
    rooms.range = rooms.echo
    other.call(1, KEY)
    assert other.answers(1) == THREE


def test_long_requests_leave_room_for_short_ones() -> None:
    """Whoever promises much on many connections keeps nobody else from asking."""
    rooms = Rooms(GrpcSettings(received_bytes_max=8_000_000))
    rooms.range = rooms.never
    request = b"\x00" + (1_000_000).to_bytes(4, "big") + bytes(50)
    for peer in rooms.peers(10):
        peer.say(head(1), data(1, request, end=False), head(3), data(3, request, end=False))
    assert rooms.held()[0] <= 6_000_000
    rooms.range = rooms.echo
    other = Peer(rooms)
    other.call(1, KEY)
    assert other.answers(1) == THREE


def test_short_answers_are_sent_whatever_waits() -> None:
    """A write that is done is told as done, though strangers let large answers wait."""
    rooms = Rooms(GrpcSettings(answer_bytes_max=100_000))
    rooms.large(150_000)
    for peer in rooms.peers(4):
        peer.call(1, KEY)
    assert rooms.held()[1] > 250_000

    async def makes(request: pb.RangeRequest, call: Call) -> list[bytes]:
        for _ in range(60):
            call.hold(1_000)
        return [pb.RangeResponse(count=3).SerializeToString()]

    rooms.range = makes
    other = Peer(rooms)
    other.call(1, KEY)
    assert other.answers(1) == THREE


def test_an_answer_goes_out_in_the_pieces_that_it_was_made_in() -> None:
    """They are one message, and each is out of memory once its last byte has gone."""
    rooms = Rooms()
    pieces = [pb.RangeResponse(kvs=[kv_pb2.KeyValue(value=bytes(30_000))]).SerializeToString() for _ in range(5)]

    async def makes(request: pb.RangeRequest, call: Call) -> list[bytes]:
        return [pb.RangeResponse(count=5).SerializeToString(), b"", *pieces, b""]

    rooms.range = makes
    peer = Peer(rooms)
    peer.call(1, KEY)
    said = peer.answers(1)
    assert rooms.held()[1] == 3 * len(pieces[0])
    peer.allow(PLENTY)
    peer.allow(40_000, 1)
    said += peer.answers(1)
    assert rooms.held()[1] == 2 * len(pieces[0])
    peer.say(http2.window_update(1, PLENTY))
    frames = peer.hear()
    said += b"".join(one.payload for one in frames if one.kind == http2.DATA)
    assert frames[-1].ends
    assert rooms.held() == (0, 0)
    assert int.from_bytes(said[1:5]) == len(said) - 5
    whole = pb.RangeResponse.FromString(said[5:])
    assert ([len(one.value) for one in whole.kvs], whole.count) == ([30_000] * 5, 5)


def test_a_stream_that_has_no_room_for_an_answer_may_be_begun_again() -> None:
    """It ends by the code by which etcd's clients begin a watch again: RESOURCE_EXHAUSTED would end it for good."""
    rooms = Rooms(GrpcSettings(answer_bytes_max=100_000))
    rooms.large(99_000)
    for crowd in rooms.peers(4):
        crowd.call(1, KEY)

    async def talks(requests: AsyncIterator[pb.WatchRequest], call: Call) -> AsyncIterator[pb.WatchResponse]:
        yield pb.WatchResponse(cancel_reason="x" * 70_000)

    rooms.watch = talks
    peer = Peer(rooms)
    peer.say(head(1, WATCH), data(1))
    assert peer.end_of(1) == (14, b"quorate: too many answers wait to be read")


def test_an_answer_that_is_being_made_counts() -> None:
    """Its maker is told when there is no room; what it held is free when the call ends, however that is."""
    rooms = Rooms(GrpcSettings(answer_bytes_max=100_000))

    async def makes(request: pb.RangeRequest, call: Call) -> pb.RangeResponse:
        call.hold(150_000)
        await asyncio.get_running_loop().create_future()
        return pb.RangeResponse()

    rooms.range = makes
    peer = Peer(rooms)
    for stream in (1, 3):
        peer.call(stream, KEY)
    assert peer.end_of(3) == (8, b"quorate: too many answers wait to be read")
    assert rooms.held()[1] == 150_000
    peer.say(http2.reset(1, Http2Code.CANCEL))
    assert rooms.held() == (0, 0)


def test_an_answer_counts_until_its_last_byte_has_gone() -> None:
    """It is in memory for so long."""
    rooms = Rooms()
    rooms.large(100_000)
    peer = Peer(rooms)
    peer.call(1, KEY)
    peer.allow(PLENTY)
    assert rooms.held()[1] > 100_000
    peer.allow(PLENTY, 1)
    assert rooms.held() == (0, 0)


def test_a_stream_that_is_over_gives_nothing_back_twice() -> None:
    """Its handler may go on for a step in a task of its own, as Watch does."""
    rooms = Rooms()
    kept: list[AsyncIterator[pb.WatchRequest]] = []

    async def keeps(requests: AsyncIterator[pb.WatchRequest], call: Call) -> AsyncIterator[pb.WatchResponse]:
        kept.append(requests)
        await anext(requests)
        await asyncio.get_running_loop().create_future()
        yield pb.WatchResponse()

    rooms.watch = keeps
    peer = Peer(rooms)
    peer.say(head(1, WATCH), data(1, asked(1) + asked(2), end=False))
    assert rooms.held()[0] > 0
    peer.say(http2.reset(1, Http2Code.CANCEL))
    rooms.settle(lambda: asyncio.ensure_future(anext(kept[0])))
    assert rooms.held() == (0, 0)


def test_many_small_requests_leave_turns_to_others() -> None:
    """However many came at once."""
    rooms = Rooms()
    clock = iter(at / 10_000 for at in range(1 << 20))
    rooms.calls.now = clock.__next__
    peer = Peer(rooms)
    said = head(1, WATCH) + data(1, b"".join(asked(number) for number in range(1, 2_000)), end=False)
    rooms.settle(lambda: peer.connection.data_received(said), turns=20)
    assert 0 < len(rooms.asked) < 1_000


def test_padding_alone_does_not_shut_a_window() -> None:
    """It is given back."""
    rooms = Rooms()
    peer = Peer(rooms)
    peer.say(head(1))
    for _ in range(400):
        peer.say(http2.frame(http2.DATA, http2.PADDED, 1, b"\xff" + bytes(255)))
    assert sum(http2.number(one.payload) for one in peer.hear() if (one.kind, one.stream) == (8, 1)) > 60_000
    peer.say(data(1, message(KEY)))
    assert peer.answers(1) == THREE


def test_a_request_that_is_too_large_is_not_read() -> None:
    """It is refused in etcd's words by its length, before its parts are looked at."""
    rooms = Rooms()
    peer = Peer(rooms)
    request = pb.RangeRequest(key=bytes(rooms.settings.request_bytes_max)).SerializeToString()
    said = message(request)
    peer.say(head(1))
    peer.say(data(1, said[: http2.WINDOW], end=False))
    peer.say(data(1, said[http2.WINDOW :]))
    assert peer.end_of(1) == (3, b"etcdserver: request is too large")
    assert rooms.asked == []


def test_room_is_shared() -> None:
    """Nothing is taken that does not fit, here or in the whole."""
    whole = ByteBudget(10)
    one, other = ByteBudget(8, whole), ByteBudget(8, whole)
    assert [one.take(8), one.take(1), other.take(3), other.take(2)] == [True, False, False, True]
    one.give(8)
    assert (one.taken, other.taken, whole.taken) == (0, 2, 2)


def test_an_allowance_comes_back() -> None:
    """So many at once, then as many as time gives, and never more than at the beginning."""
    allowance = RateLimit(2, 1)
    assert [allowance.spend(now) for now in (100, 100, 100, 101.5, 101.5)] == [True, True, False, False, False]
    assert [allowance.spend(now) for now in (200, 200, 200)] == [True, True, False]
    allowance.renew()
    assert allowance.spend(200)
    allowance.earn(3)
    assert [allowance.spend(200) for _ in range(5)] == [True, True, True, True, False]


def test_malformed_heads_are_told_from_others() -> None:
    """A field twice, one without its colon's place, and what is whole."""
    with pytest.raises(heads.MalformedError):
        heads.read([(b":method", b"POST"), (b":method", b"POST")])
    with pytest.raises(heads.MalformedError):
        heads.read([(b"te", b"trailers"), *fields_of()])
    whole = heads.read(fields_of(content_length=b"5"))
    assert whole == heads.CallHead("/etcdserverpb.KV/Range", None, b"identity", requires_leader=False, length=5)
