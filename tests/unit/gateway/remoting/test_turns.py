"""What one client may have the listener do in a turn, and have it hold: requests, large answers, unread ones."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from quorate.gateway.remoting.server import Connection, RemotingServer
from quorate.gateway.remoting.settings import RemotingSettings
from quorate.wire.remoting import Frame, FrameSplitter, HeartbeatRequest, Message, Request, decode_response
from quorate.wire.remoting import encode_request as encode
from tests.unit.gateway.turns import Turns, UnreadWire

BROKEN = b"\xff" * 8


class Scene:
    """A listener and one client. Answers are made at once, kept (``held``), or large ones of ``size`` bytes that take
    ``takes_s`` each.
    """

    def __init__(self, *, held: bool = False, size: int = 0, takes_s: float = 0.0, **limits: Any) -> None:
        self.loop = Turns()
        self.taken: list[int] = []
        self.waiting: list[Callable[[], None]] = []
        self.made = 0
        self._held, self._size, self._takes_s = held, size, takes_s
        loop = cast(asyncio.AbstractEventLoop, self.loop)
        self.server = RemotingServer(
            self, RemotingSettings(**limits), loop=loop, now=self.loop.monotonic, at_turns_end=loop.call_soon
        )
        self.wire = UnreadWire()
        self.connection = self.wire.connection = Connection(self.server)
        self.connection.connection_made(cast(asyncio.Transport, self.wire))

    def heartbeat(self, request: HeartbeatRequest, connection: Connection) -> Message | None:
        raise NotImplementedError

    def closed(self, connection: Connection) -> None: ...

    def knows(self, connection: Connection) -> bool:
        return False

    def handle(self, request: Request, frame: Frame, connection: Connection) -> None:
        self.taken.append(request.opaque)

        def answer() -> None:
            self.made += 1
            self.loop.now_s += self._takes_s
            connection.answer(frame.header_type, request.opaque, Message(0, body=bytes(self._size)))

        if self._held:
            self.waiting.append(answer)
        elif self._size:
            connection.later(answer)
        else:
            answer()

    def settle(self) -> None:
        while self.loop.ready:
            self.loop.turn()

    def answered(self) -> list[int]:
        """What the client has heard."""
        self.wire.take()
        return [decode_response(frame).opaque for frame in FrameSplitter().feed(bytes(self.wire.taken))]


def requests(count: int) -> bytes:
    """In one segment."""
    return b"".join(encode(1005, number) for number in range(count))


def test_a_segment_is_not_taken_beyond_what_may_be_in_flight() -> None:
    """What came in the same bytes waits undecoded, reading stops; answers let the rest in, and nothing is lost."""
    scene = Scene(held=True, in_flight_max=8)
    scene.connection.data_received(requests(30))
    scene.settle()
    assert scene.taken == list(range(8))
    assert not scene.wire.reading
    while scene.waiting:
        assert scene.connection.in_flight <= 8
        scene.waiting.pop(0)()
        scene.settle()
    assert scene.taken == scene.answered() == list(range(30))
    assert scene.wire.reading


def test_a_turn_takes_so_many_requests() -> None:
    """Others get their turns between, also when each is answered at once; nothing is read meanwhile."""
    scene = Scene(requests_per_turn=10)
    scene.connection.data_received(requests(35))
    for turns in range(1, 4):
        assert len(scene.taken) == 10 * turns
        assert not scene.wire.reading
        scene.loop.turn()
    scene.settle()
    assert scene.answered() == list(range(35))
    assert scene.wire.reading


def test_what_arrives_after_reading_stopped_waits_too() -> None:
    """Some transports have more at hand: it comes after what is held, in order."""
    scene = Scene(held=True, in_flight_max=4)
    data = requests(10)
    cut = len(data) // 2 + 3
    scene.connection.data_received(data[:cut])
    scene.connection.data_received(data[cut:])
    while scene.waiting:
        scene.waiting.pop(0)()
        scene.settle()
    assert scene.answered() == list(range(10))


def test_bytes_that_are_no_frame_end_the_connection_after_what_came_before() -> None:
    """Also when that is held; and what was no request costs the connection at its turn."""
    scene = Scene(requests_per_turn=4)
    scene.connection.data_received(requests(10) + BROKEN)
    scene.settle()
    assert scene.answered() == list(range(10))
    assert scene.wire.ended
    scene = Scene(requests_per_turn=4)
    scene.connection.data_received(requests(5) + b"\0\0\0\4\0\0\0\0" + requests(1))
    scene.settle()
    assert scene.wire.ended
    assert scene.taken == list(range(5))


def test_large_answers_are_made_a_few_a_turn() -> None:
    """One that takes long is alone in its turn; quick ones share one; all come, in order."""
    scene = Scene(size=10, takes_s=0.02)
    scene.connection.data_received(requests(5))
    for turns in range(1, 6):
        scene.loop.turn()
        assert scene.made == turns
    scene.settle()
    assert scene.answered() == list(range(5))
    quick = Scene(size=10)
    quick.connection.data_received(requests(5))
    quick.loop.turn()
    assert quick.made == 5


def test_no_large_answer_is_made_for_who_does_not_read() -> None:
    """What waits to be sent stays near the limit; the others are made once there is room."""
    scene = Scene(size=1000, takes_s=0.02, write_buffer_bytes_max=3000)
    scene.connection.data_received(requests(20))
    scene.settle()
    assert len(scene.wire.unread) < 6000
    assert scene.made < 6
    while scene.made < 20:
        scene.wire.take()
        scene.settle()
    assert scene.answered() == list(range(20))


def test_no_large_answer_is_made_for_who_is_gone() -> None:
    """And the next client's come all the same."""
    scene = Scene(size=1000, takes_s=0.02)
    scene.connection.data_received(requests(5))
    scene.loop.turn()
    scene.connection.connection_lost(None)
    scene.settle()
    assert scene.made == 1


def test_a_frame_has_its_time_from_its_own_first_byte() -> None:
    """Whoever finishes every frame in time is not cut off, though each segment ends in the middle of the next one."""
    scene = Scene(partial_deadline_s=10.0)
    data = [encode(1005, number) for number in range(30)]
    scene.connection.data_received(data[0] + data[1][:20])
    for number in range(1, 29):
        scene.loop.now_s += 1.0
        assert scene.connection.overdue(scene.loop.now_s) is None
        scene.connection.data_received(data[number][20:] + data[number + 1][:20])
    scene.loop.now_s += 11.0
    assert scene.connection.overdue(scene.loop.now_s) == "frame not finished in time"


def test_the_time_of_a_frame_does_not_run_while_nothing_is_read() -> None:
    """What the listener does not read, no peer can finish; a frame that dribbles has one deadline all the same."""
    scene = Scene(held=True, in_flight_max=1, partial_deadline_s=10.0)
    scene.connection.data_received(encode(1005, 0) + encode(1005, 1)[:20])
    scene.loop.now_s += 9.0
    scene.waiting.pop()()
    scene.settle()
    scene.loop.now_s += 2.0
    assert scene.connection.overdue(scene.loop.now_s) is None
    scene.connection.data_received(encode(1005, 1)[20:21])
    scene.loop.now_s += 9.0
    assert scene.connection.overdue(scene.loop.now_s) == "frame not finished in time"
