"""How much one client gets of a turn: requests, bytes and time are bounded, and what comes meanwhile adds no turn."""

import asyncio
import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from quorate.gateway.access import NoQuota, OpenAccess
from quorate.gateway.kafka import KafkaNode, KafkaServer, KafkaSettings
from quorate.gateway.kafka.connection import KafkaConnection, Server
from quorate.gateway.kafka.describing import GROUPS_PER_STEP
from quorate.gateway.kafka.group_rows import KeptOffset, encode, offset_key
from quorate.metrics import Metrics
from quorate.slices import TURN_S
from quorate.wire.kafka import Api, Request, RequestHeader
from quorate.wire.kafka_primitives import int32
from quorate.wire.kafka_requests import FetchPartition, FetchRequest, ListGroupsRequest
from tests.kafka_tools.fakes import TOPIC, FakeLog, FakeView
from tests.unit.gateway.turns import Turns
from tests.unit.wire.kafka_oracle import decoded, request_frame


class Wire:
    """A transport that takes everything; ``unread`` is what it says that it still has."""

    sent = 0
    unread = 0

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1)

    def write(self, data: bytes) -> None:
        self.sent += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Scene:
    """One connection, and a server that answers ``size`` bytes after ``takes_s``, or later when ``held``."""

    def __init__(self, takes_s: float = 0.0, size: int = 10, **limits: Any) -> None:
        self.settings = KafkaSettings(**limits)
        self.metrics = Metrics()
        self.scheduler = Turns()
        self.served = 0
        self.held = False
        self.wire = Wire()
        self._takes_s, self._size = takes_s, size
        self.connection = KafkaConnection(cast(Server, self))
        self.connection.connection_made(cast(asyncio.Transport, self.wire))

    def opened(self, connection: KafkaConnection, host: str) -> None: ...

    def answered(self, connection: KafkaConnection) -> bool:
        return True

    def serve(self, connection: KafkaConnection, header: RequestHeader, request: Request) -> None:
        self.served += 1
        self.scheduler.advance(self._takes_s)
        if not self.held:
            connection.reply(bytes(self._size))

    def ask(self, count: int) -> None:
        """Requests in one segment."""
        frame = request_frame(Api.METADATA, 1, {"topics": []})
        self.connection.data_received((int32(len(frame)) + frame) * count)


@pytest.mark.parametrize(
    ("how", "a_turn"),
    [({"requests_per_turn": 5}, 5), ({"takes_s": 0.2}, 1), ({"size": 1000, "wake_bytes_per_turn": 3000}, 3)],
    ids=["requests", "time", "bytes"],
)
def test_a_turn_ends_by_requests_time_and_bytes(how: dict[str, Any], a_turn: int) -> None:
    """Whichever comes first; the others of the segment are served in the turns that follow, all of them."""
    scene = Scene(**how)
    scene.ask(12)
    for turns in range(1, 5):
        assert scene.served == min(turns * a_turn, 12)
        scene.scheduler.turn()
    while scene.scheduler.ready:
        scene.scheduler.turn()
    assert scene.served == 12
    assert scene.metrics.kafka_bytes_out == scene.wire.sent


def test_what_arrives_meanwhile_waits_for_the_next_turn() -> None:
    """One turn follows the other, however many segments came between: they add none of their own."""
    scene = Scene(takes_s=0.2)
    for _ in range(10):
        scene.ask(10)
    assert scene.served == 1
    for turns in range(2, 20):
        scene.scheduler.turn()
        assert scene.served == turns


def test_a_request_that_waits_ends_the_turn() -> None:
    """Its answer brings the next one, and leaves at once."""
    scene = Scene(takes_s=0.2)
    scene.held = True
    scene.ask(3)
    assert (scene.served, len(scene.scheduler.ready)) == (1, 0)
    scene.held = False
    scene.connection.reply(bytes(10))
    assert scene.served == 2
    assert scene.wire.sent > 0


def test_a_client_that_takes_a_long_answer_slowly_is_not_hung_up_on() -> None:
    """The deadline begins again with every byte it takes; one that takes none has it, however much it took before."""
    scene = Scene(write_timeout_s=30.0)
    scene.scheduler.advance(0.1)
    scene.ask(1)
    scene.wire.unread = 4 << 20
    scene.connection.pause_writing()
    for _ in range(40):
        scene.scheduler.advance(1.0)
        scene.wire.unread -= 100_000
        assert not scene.connection.overdue(scene.scheduler.monotonic())
    scene.scheduler.advance(29.0)
    assert not scene.connection.overdue(scene.scheduler.monotonic())
    scene.scheduler.advance(2.0)
    assert scene.connection.overdue(scene.scheduler.monotonic())


class Untimed(Turns):
    """No time passes here, so no timer is due."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return cast(asyncio.TimerHandle, Untimer())


class Untimer:
    """The handle of a timer that is never due."""

    def cancel(self) -> None: ...


class Reader:
    """A connection that counts its answers, and has the last."""

    open = True

    def __init__(self) -> None:
        self.answers = 0
        self.answer: bytes | None = None

    def guarded(self, work: Callable[..., Any]) -> Callable[..., Any]:
        return work

    def reply(self, body: bytes | None) -> None:
        self.answers += 1
        self.answer = body


class Polls:
    """A server of long polls and one hundred readers that wait for its first event."""

    def __init__(self) -> None:
        self.view = FakeView(FakeLog(), [KafkaNode(1, "h", 1)])
        self.turns = Untimed()
        self.server = KafkaServer(
            self.view, KafkaSettings(), Metrics(), self.turns, random.Random(1), OpenAccess(), NoQuota()
        )
        self.readers = [Reader() for _ in range(100)]
        for reader in self.readers:
            self.ask(reader, 0)

    def ask(self, reader: Reader, offset: int, min_bytes: int = 1) -> None:
        topics = ((TOPIC, (FetchPartition(0, offset, 1 << 20),)),)
        request = FetchRequest(30_000, min_bytes, 1 << 20, 0, 0, topics, "")
        self.server.serve(cast(KafkaConnection, reader), RequestHeader(Api.FETCH, 11, 1, "x"), request)

    def settle(self) -> None:
        while self.turns.ready:
            self.turns.turn()


def test_an_event_that_comes_while_long_polls_are_woken_wakes_who_waits_for_it() -> None:
    """Who was answered in the first turn of a wake and asks on at once hears of the event that is applied before the
    last: not only of the one after it.
    """
    polls = Polls()
    polls.view.append()
    polls.turns.turn()
    first = next(reader for reader in polls.readers if reader.answers)
    polls.ask(first, 1)
    polls.turns.turn()
    assert not all(reader.answers for reader in polls.readers)
    polls.view.append()
    polls.settle()
    assert (first.answers, {r.answers for r in polls.readers if r is not first}) == (2, {1})


def test_a_long_poll_that_was_put_back_is_looked_at_again() -> None:
    """It wants more bytes than there were when its turn came; they come while others are still woken."""
    polls = Polls()
    polls.view.append()
    size = len(polls.view.log.batches[0])
    patient = Reader()
    polls.ask(patient, 0, size + 1)
    polls.server._waiting.rotate(1)  # It is the first to be looked at.
    polls.turns.turn()
    assert patient.answers == 0
    polls.view.append()
    polls.settle()
    assert patient.answers == 1
    assert all(reader.answers == 1 for reader in polls.readers)


class Slow:
    """Access for everybody, which takes its time, and counts."""

    def __init__(self, clock: Turns) -> None:
        self.asked = 0
        self._clock = clock

    def authorize(self, principal: str, operation: str, resource: str) -> bool:
        self.asked += 1
        self._clock.advance(0.000_01)
        return True


def test_a_long_list_of_groups_is_made_over_many_turns() -> None:
    """As many as are kept by default; every other connection has its turn between two steps of it."""
    view, turns = FakeView(FakeLog(), [KafkaNode(1, "h", 1)]), Untimed()
    names = [f"group-{number:05d}" for number in range(20_000)]
    for name in names:
        view.groups.rows[offset_key(name)] = encode(KeptOffset(1, 1, "", 0))
    access, reader = Slow(turns), Reader()
    server = KafkaServer(view, KafkaSettings(), Metrics(), turns, random.Random(1), access, NoQuota())
    header = RequestHeader(Api.LIST_GROUPS, 5, 1, "x")
    server.serve(cast(KafkaConnection, reader), header, ListGroupsRequest())
    before, most = access.asked, access.asked
    while turns.ready:
        turns.turn()
        before, most = access.asked, max(most, access.asked - before)
    assert reader.answer is not None
    assert [group["group_id"] for group in decoded(Api.LIST_GROUPS, 5, reader.answer)["groups"]] == names
    assert most <= TURN_S / 0.000_01 + GROUPS_PER_STEP
