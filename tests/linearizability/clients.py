"""Clients of every node over both wires, who write and read registers: a register is a topic, its value one attribute.

Rules: no value is written twice. A worker has one call open, is impatient, and goes on; a poller asks again and again
without waiting for answers, so that a node that was paused or cut off comes back to reads that were asked at every
moment of its absence. A register takes a bounded number of calls, then a new one takes its place.
"""

import asyncio
import itertools
import random
import re
from collections.abc import Mapping
from typing import Protocol

import msgspec

from quorate.cli.cluster import NodePlace
from quorate.gateway.http.answers import Done, TopicAnswer
from quorate.gateway.http.writing import TopicBody
from quorate.wire.remoting import FrameSplitter, Response, decode_response, encode_request
from quorate.wire.remoting_headers import CreateTopicFields, Fields, GetTopicFields, ResponseCode, TopicConfigBody
from tests.linearizability.history import History, Level, Told

ATTRIBUTE = "reserve.time"
"""A topic attribute that takes any whole number and can be changed."""
CREATE_TOPIC = 17
GET_TOPIC = 351
SLOTS = 3
CALLS_PER_REGISTER = 150
WORKER_PATIENCE_S = 1.0
POLLER_PATIENCE_S = 8.0
POLL_S = 0.1
OPEN_MAX = 60
"""Polls that wait at once: more are not asked."""
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


class UnknownError(Exception):
    """The node said that nobody knows."""


LOST = (OSError, EOFError, UnknownError)
"""Ends of a call that say nothing about it (TimeoutError is an OSError)."""


class Wire(Protocol):
    """One client's way to one node. What is not Told: None = nothing happened; a LOST exception = nobody knows."""

    name: str

    async def put(self, register: str, value: str) -> Told | None:
        """Write."""

    async def get(self, register: str) -> Told | None:
        """Read."""

    def close(self) -> None:
        """Hang up."""


class Http:
    """``/v1``, a connection for each call."""

    def __init__(self, address: str, level: Level = "linearizable") -> None:
        host, _, port = address.rpartition(":")
        self.name = "http"
        self._where = (host, int(port))
        self._level = level

    async def put(self, register: str, value: str) -> Told | None:
        """PUT /v1/topics/{topic}: 503 nothing was proposed, 504 nobody knows."""
        body = TopicBody(read_queues=1, write_queues=1, attributes={f"+{ATTRIBUTE}": value})
        answer = await self._exchange("PUT", f"/v1/topics/{register}", msgspec.json.encode(body))
        if answer is None or answer[0] == 503:
            return None
        if answer[0] == 504:
            raise UnknownError
        assert answer[0] == 200, answer
        return Told(offset=msgspec.json.decode(answer[1], type=Done).offset)

    async def get(self, register: str) -> Told | None:
        """GET /v1/topics/{topic}: 404 is an answer too, 503 is none."""
        answer = await self._exchange("GET", f"/v1/topics/{register}?level={self._level}")
        if answer is None or answer[0] == 503:
            return None
        if answer[0] == 404:
            return Told()
        assert answer[0] == 200, answer
        found = msgspec.json.decode(answer[1], type=TopicAnswer)
        return Told(found.topic.attributes[ATTRIBUTE], found.offset)

    def close(self) -> None:
        """Nothing is kept."""

    async def _exchange(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes] | None:
        """Status and body; None: nobody listens."""
        try:
            reader, writer = await asyncio.open_connection(*self._where)
        except ConnectionRefusedError:
            return None
        try:
            fields = "host: localhost\r\ncontent-type: application/json\r\nconnection: close"
            fields += f"\r\ncontent-length: {len(body)}"
            writer.write(f"{method} {path} HTTP/1.1\r\n{fields}\r\n\r\n".encode() + body)
            told = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(told)
            assert length is not None, told
            return int(told.split(b" ", 2)[1]), await reader.readexactly(int(length[1]))
        finally:
            writer.close()


class _Frames(asyncio.Protocol):
    """A remoting connection; answers find their question by its number, in any order."""

    def __init__(self) -> None:
        self._splitter = FrameSplitter()
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._numbers = itertools.count(1)
        self._transport: asyncio.WriteTransport
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._splitter.feed(data):
            response = decode_response(frame)
            waiting = self._waiting.pop(response.opaque, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the connection ended"))
        self._waiting.clear()

    async def ask(self, code: int, fields: Fields) -> Response:
        number = next(self._numbers)
        waiting: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        self._transport.write(encode_request(code, number, fields))
        return await waiting

    def close(self) -> None:
        self._transport.close()


class Remoting:
    """RocketMQ's protocol, one connection for all calls."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.name = "remoting"
        self._where = (host, int(port))
        self._connecting = asyncio.Lock()
        self._frames: _Frames | None = None

    async def put(self, register: str, value: str) -> Told | None:
        """17: 2007 and 2 say that nothing was proposed, 1 that nobody knows."""
        attributes = f"+{ATTRIBUTE}={value}"
        fields = CreateTopicFields(topic=register, read_queue_nums=1, write_queue_nums=1, perm=6, attributes=attributes)
        answer = await self._ask(CREATE_TOPIC, fields)
        if answer is None or answer.code in (ResponseCode.CONTROLLER_NOT_LEADER, ResponseCode.SYSTEM_BUSY):
            return None
        if answer.code == ResponseCode.SYSTEM_ERROR:
            raise UnknownError
        assert answer.code == ResponseCode.SUCCESS, answer
        return Told()

    async def get(self, register: str) -> Told | None:
        """351: *no such topic* is an answer too, 2007 and 2 are none."""
        answer = await self._ask(GET_TOPIC, GetTopicFields(topic=register))
        if answer is None or answer.code in (ResponseCode.CONTROLLER_NOT_LEADER, ResponseCode.SYSTEM_BUSY):
            return None
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return Told()
        assert answer.code == ResponseCode.SUCCESS, answer
        return Told(msgspec.json.decode(answer.body, type=TopicConfigBody).attributes[ATTRIBUTE])

    def close(self) -> None:
        """Hang up."""
        if self._frames is not None:
            self._frames.close()

    async def _ask(self, code: int, fields: Fields) -> Response | None:
        """The answer; None: nobody listens."""
        async with self._connecting:
            if self._frames is None or self._frames.ended:
                try:
                    _, self._frames = await asyncio.get_running_loop().create_connection(_Frames, *self._where)
                except ConnectionRefusedError:
                    return None
        return await self._frames.ask(code, fields)


class Registers:
    """Those in use, and values never used."""

    def __init__(self, rng: random.Random, prefix: str = "r") -> None:
        self._rng = rng
        self._prefix = prefix
        self._calls = 0
        self._values = itertools.count(1)

    def pick(self) -> str:
        """One for the next call."""
        self._calls += 1
        return self.look()

    def look(self) -> str:
        """One of those in use."""
        return f"{self._prefix}{self._rng.randrange(SLOTS)}-{self._calls // (SLOTS * CALLS_PER_REGISTER)}"

    def value(self) -> str:
        """A new one."""
        return str(next(self._values))


class Clients:
    """All of them: for each node a worker and a poller over each wire, and one who reads what may be stale."""

    def __init__(self, places: Mapping[int, NodePlace], history: History, rng: random.Random) -> None:
        self._places = places
        self._history = history
        self._rng = rng
        self._registers = Registers(rng)
        self._wires: list[Wire] = []

    def prepare(self) -> None:
        """Once, when there is a leader, before anything is asked."""

    async def drained(self) -> None:
        """Afterwards: what was done was also heard of."""

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for node, place in self._places.items():
                    for _ in range(2):
                        self._wires += [Http(place.http), Remoting(place.rpc)]
                    *workers, poller, other = self._wires[-4:]
                    for wire in workers:
                        group.create_task(self._work(node, wire))
                    for wire in (poller, other):
                        group.create_task(self._poll(node, wire))
                    group.create_task(self._look(node, Http(place.http, "stale")))
        finally:
            for wire in self._wires:
                wire.close()

    async def _work(self, node: int, wire: Wire) -> None:
        while True:
            value = self._registers.value() if self._rng.random() < 0.5 else None
            await self._call(node, wire, self._registers.pick(), value, WORKER_PATIENCE_S)
            await asyncio.sleep(self._rng.uniform(0.0, 0.06))

    async def _poll(self, node: int, wire: Wire) -> None:
        waiting: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                if len(waiting) < OPEN_MAX:
                    call = self._call(node, wire, self._registers.pick(), None, POLLER_PATIENCE_S)
                    waiting.add(task := group.create_task(call))
                    task.add_done_callback(waiting.discard)
                await asyncio.sleep(self._rng.uniform(0.5, 1.5) * POLL_S)

    async def _look(self, node: int, wire: Wire) -> None:
        while True:
            await self._call(node, wire, self._registers.look(), None, WORKER_PATIENCE_S, "stale")
            await asyncio.sleep(self._rng.uniform(0.0, 0.06))

    async def _call(
        self, node: int, wire: Wire, register: str, value: str | None, patience_s: float, level: Level = "linearizable"
    ) -> None:
        history = self._history
        call = history.begin(register, value, node, wire.name, level)
        try:
            async with asyncio.timeout(patience_s):
                told = await (wire.get(register) if value is None else wire.put(register, value))
        except LOST:
            history.lose(call)
        else:
            history.end(call, told)
