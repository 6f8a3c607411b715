"""How much one client gets of a turn: requests, bytes and time are bounded, and what comes meanwhile adds no turn."""

import asyncio
from typing import Any, cast

import pytest

from quorate.gateway.kafka import KafkaSettings
from quorate.gateway.kafka.connection import KafkaConnection, Server
from quorate.metrics import Metrics
from quorate.wire.kafka import Api, Request, RequestHeader
from quorate.wire.kafka_primitives import int32
from tests.unit.gateway.turns import Turns
from tests.unit.wire.kafka_oracle import request_frame


class Wire:
    """A transport that takes everything."""

    sent = 0

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1)

    def write(self, data: bytes) -> None:
        self.sent += len(data)

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
