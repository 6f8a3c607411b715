"""What a client may have the listener hold: a request, what was read with it, and one answer it has not taken."""

import asyncio
import re
from typing import cast

import pytest

from quorate.gateway.http import HttpServer, HttpSettings
from quorate.gateway.http.messages import Request, Response
from quorate.gateway.http.routing import Call
from quorate.gateway.http.server import EVENTS_A_TURN, HttpConnection, Respond
from quorate.metrics import Metrics
from tests.unit.gateway.turns import Turns, UnreadWire

ANSWER = 40_000
HIGH = 64 * 1024


class Scene:
    """A listener, one client, and the requests that came through; ``late``: answers wait in ``parked``."""

    def __init__(self, late: bool = False, size: int = ANSWER) -> None:
        self.turns = Turns()
        self.asked: list[Request] = []
        self.parked: list[Respond] = []
        self._late = late
        self._size = size
        self.server = server = HttpServer(self._answer, HttpSettings(), Metrics(), self.turns)
        self.wire = UnreadWire(HIGH)
        self.connection = self.wire.connection = HttpConnection(server)
        self.connection.connection_made(cast("asyncio.Transport", self.wire))

    def _answer(self, request: Request, respond: Respond) -> None:
        self.asked.append(request)
        if self._late:
            self.parked.append(respond)
        else:
            respond(Response(200, b"x" * self._size))

    def say(self, data: bytes) -> None:
        """What a transport does: nothing is handed on while reading is paused."""
        assert self.wire.reading
        self.connection.data_received(data)

    def settle(self) -> None:
        while self.turns.ready:
            self.turns.turn()


def chunked(count: int) -> bytes:
    """A request whose body comes byte by byte."""
    head = b"POST /9 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return head + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * count


def requests(*numbers: int) -> bytes:
    """Asked in one go."""
    return b"".join(b"GET /%d HTTP/1.1\r\nhost: localhost\r\n\r\n" % number for number in numbers)


def test_who_does_not_read_is_served_nothing_more() -> None:
    """However much is pipelined: what waits to be sent stays below the transport's limit and one answer more."""
    scene = Scene()
    scene.say(requests(*range(200)))
    scene.settle()
    assert len(scene.asked) == 2
    assert len(scene.wire.unread) < HIGH + 2 * ANSWER
    assert not scene.wire.reading


def test_who_reads_again_gets_the_rest_in_order() -> None:
    """Nothing of what was pipelined is lost, and reading goes on after it."""
    scene = Scene()
    scene.say(requests(*range(200)))
    scene.settle()
    while scene.wire.unread:
        scene.wire.take()
        scene.settle()
    assert [int(request.path[0]) for request in scene.asked] == list(range(200))
    assert scene.wire.taken.count(b"HTTP/1.1 200 OK") == 200
    assert scene.wire.reading


def test_an_answer_that_came_late_to_a_full_wire_is_the_last_for_now() -> None:
    """It does not matter whether the answer came in the request's turn."""
    scene = Scene(late=True)
    scene.say(requests(1, 2))
    scene.parked.pop()(Response(200, b"x" * 10 * ANSWER))
    scene.settle()
    assert len(scene.asked) == 1
    assert not scene.wire.reading
    scene.wire.take()
    scene.settle()
    assert len(scene.asked) == 2


def test_what_was_pipelined_is_served_one_a_turn() -> None:
    """Others get their turns between; nothing is read meanwhile, so that what is held stays one chunk."""
    scene = Scene(size=2)
    scene.say(requests(*range(5)))
    for served in range(1, 5):
        assert len(scene.asked) == served
        assert not scene.wire.reading
        scene.turns.turn()
    scene.settle()
    assert len(scene.asked) == 5
    assert scene.wire.reading


def test_a_request_that_waited_for_its_client_has_its_whole_time() -> None:
    """The clock of a begun request stands still while answers before it are not taken."""
    scene = Scene()
    scene.say(requests(1, 2, 3) + b"GET /4 HT")
    scene.settle()
    scene.turns.advance(25.0)
    scene.wire.take()
    scene.settle()
    assert len(scene.asked) == 3
    assert not scene.connection.overdue(scene.turns.monotonic() + 4.0)
    assert scene.connection.overdue(scene.turns.monotonic() + 11.0)


def test_a_body_of_many_chunks_takes_many_turns() -> None:
    """However small they are, a read of the socket holds nobody up; nothing more is read meanwhile, nothing is lost."""
    scene = Scene(size=2)
    scene.say(chunked(10_000) + b"0\r\n\r\n" + requests(1))
    turns = 1
    while not scene.asked:
        assert not scene.wire.reading
        assert len(scene.turns.ready) == 1
        scene.turns.turn()
        turns += 1
    assert turns >= 10_000 / EVENTS_A_TURN
    scene.settle()
    assert [request.body for request in scene.asked] == [b"x" * 10_000, b""]
    assert scene.wire.reading


def test_what_comes_while_chunks_wait_is_looked_at_in_their_turn() -> None:
    """A transport may hand on what it had, or the end of what the client says: no second turn comes of it."""
    scene = Scene(size=2)
    scene.say(chunked(200))
    scene.connection.data_received(b"\x31\r\nx\r\n0\r\n\r\n")
    scene.connection.eof_received()
    assert (len(scene.turns.ready), len(scene.asked)) == (1, 0)
    scene.settle()
    assert [request.body for request in scene.asked] == [b"x" * 201]


def test_chunks_that_wait_have_the_deadline_of_their_request() -> None:
    """A turn that is on its way is no excuse; what waits of a connection that was hung up on is left."""
    scene = Scene()
    scene.say(requests(1) + chunked(200))
    scene.turns.turn()
    assert not scene.wire.reading
    assert not scene.connection.overdue(scene.turns.monotonic() + 9.9)
    assert scene.connection.overdue(scene.turns.monotonic() + 10.1)
    scene.connection.close()
    scene.settle()
    assert not scene.wire.reading
    assert len(scene.asked) == 1


@pytest.mark.parametrize("late", [False, True])
def test_a_fault_is_answered_and_told_to_the_log(late: bool) -> None:
    """In the turn of the request or in a later one: its client gets 500, and the next request is served."""
    scene = Scene(late=late)

    def fail() -> Response:
        raise ValueError("for a test")

    def handler(request: Request, respond: Respond) -> None:
        call = Call(request, {}, respond)
        if request.path == ("2",):
            respond(Response(200, b""))
        elif late:
            scene.turns.call_soon(lambda: call.settle(fail))
        else:
            call.settle(fail)

    scene.server.handler = handler
    scene.say(requests(1, 2))
    with pytest.raises(ValueError, match="for a test"):
        scene.settle()
    scene.settle()
    assert re.findall(rb"HTTP/1.1 (\d+)", bytes(scene.wire.unread)) == [b"500", b"200"]
    assert b'"code":"internal"' in scene.wire.unread
