"""Clients of etcd's API on every node, who put, read and compare-and-set keys, and watchers of all that they do.

Rules: a register is a key (``k…``), or a pair of keys (``p…``) that transactions alone write, both at once, and read,
both at once: whoever sees two values saw half a transaction. Most comparisons expect what their client saw last, so
some succeed. A watcher has one stream at one node; when that breaks, and now and then when it does not, it goes on at
another one behind the last revision it was told.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Final

from grpc import StatusCode, aio

from quorate.cli.client import Node, NodeError
from quorate.cli.cluster import NodePlace
from quorate.events import Event, KeyDeleted, KeyPut, Stamp
from quorate.gateway.grpc.codes import NO_LEADER, TOO_MANY
from quorate.gateway.grpc.pb import kv_pb2
from quorate.gateway.grpc.pb import rpc_pb2 as pb
from quorate.gateway.http.answers import Done
from quorate.gateway.http.writing import FeatureBody
from tests.linearizability.clients import (
    LOST,
    OPEN_MAX,
    POLL_S,
    POLLER_PATIENCE_S,
    WORKER_PATIENCE_S,
    Clients,
    Registers,
    UnknownError,
)
from tests.linearizability.history import History, Level, Told

LEVEL: Final = 2
WORKERS: Final = 2
FIRST, END = b"k", b"q"
"""All registers, and nothing else, lie between."""
LAST = b"p-last"
"""Put when all is done: whoever watches has then been told everything."""
OUTDATED: Final = 0.15
"""Chance that a comparison expects what its register held before that: how often somebody else is faster depends on the
machine.
"""
WANDERS: Final = 0.02
"""Chance that a watcher leaves a good stream after an answer."""
PATIENCE_S = 60.0
_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),  # Else all clients of a node would share one connection.
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)
_NOTHING: Final = tuple((StatusCode[code.name], text) for code, text in (NO_LEADER, TOO_MANY))
"""Ends that say that nothing happened."""
_BROKEN: Final = (StatusCode.UNAVAILABLE, StatusCode.CANCELLED, StatusCode.DEADLINE_EXCEEDED)
_CORE_FAILED: Final = "Internal error from Core"
"""What grpc's client says, not a node, when a connection ends beneath a message that it is about to send."""


def _broken(error: aio.AioRpcError) -> bool:
    """Did the connection end, of which nothing follows about what was asked?"""
    return error.code() in _BROKEN or (error.code() is StatusCode.INTERNAL and error.details() == _CORE_FAILED)


def _put(key: bytes, value: str) -> pb.RequestOp:
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value.encode()))


def _get(key: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_range=pb.RangeRequest(key=key))


def _names(register: str) -> tuple[bytes, ...]:
    """The keys that it is."""
    name = register.encode()
    return (name + b"/a", name + b"/b") if register.startswith("p") else (name,)


def _value(found: Iterable[Any]) -> str | None:
    """What all of these ranges say."""
    said = [(kv.value, kv.mod_revision) for one in found for kv in (one.kvs or (kv_pb2.KeyValue(),))]
    assert len(set(said)) == 1, f"half a transaction: {said}"
    return said[0][0].decode() if said[0][1] else None


class Keys:
    """One connection to one node, for all calls."""

    name = "grpc"

    def __init__(self, address: str, level: Level = "linearizable") -> None:
        self._channel = aio.insecure_channel(address, options=_OPTIONS)
        self._stale = level == "stale"
        self._calls = {
            name: self._channel.unary_unary(f"/etcdserverpb.KV/{name}", asked.SerializeToString, answered.FromString)
            for name, asked, answered in (
                ("Range", pb.RangeRequest, pb.RangeResponse),
                ("Put", pb.PutRequest, pb.PutResponse),
                ("Txn", pb.TxnRequest, pb.TxnResponse),
            )
        }

    async def _ask(self, name: str, request: Any) -> Any:
        """The answer; None: nothing happened. Raises UnknownError."""
        try:
            return await self._calls[name](request)
        except aio.AioRpcError as error:
            if (error.code(), error.details()) in _NOTHING:
                return None
            if not _broken(error):
                raise
            raise UnknownError from error

    async def put(self, register: str, value: str) -> Told | None:
        """A Put, or a Txn of two."""
        names = _names(register)
        if len(names) == 1:
            answer = await self._ask("Put", pb.PutRequest(key=names[0], value=value.encode()))
        else:
            answer = await self._ask("Txn", pb.TxnRequest(success=[_put(name, value) for name in names]))
        return answer and Told(offset=answer.header.revision + 1)

    async def get(self, register: str) -> Told | None:
        """A Range, or a Txn of two."""
        names = _names(register)
        if len(names) == 1:
            answer = await self._ask("Range", pb.RangeRequest(key=names[0], serializable=self._stale))
            found = [answer]
        else:
            answer = await self._ask("Txn", pb.TxnRequest(success=[_get(name) for name in names]))
            found = answer and [one.response_range for one in answer.responses]
        return answer and Told(_value(found), answer.header.revision + 1)

    async def swap(self, register: str, expected: str | None, value: str) -> Told | None:
        """A Txn: compare, then put, else tell what is there."""
        names = _names(register)
        if expected is None:
            compare = pb.Compare(key=names[0], target=pb.Compare.VERSION, version=0)
        else:
            compare = pb.Compare(key=names[0], target=pb.Compare.VALUE, value=expected.encode())
        request = pb.TxnRequest(
            compare=[compare], success=[_put(name, value) for name in names], failure=[_get(name) for name in names]
        )
        answer = await self._ask("Txn", request)
        if answer is None or answer.succeeded:
            return answer and Told(offset=answer.header.revision + 1)
        found = _value(one.response_range for one in answer.responses)
        assert found != expected, f"it was {found}, and said not to be"
        return Told(found, answer.header.revision + 1, differs=True)

    async def put_last(self) -> bool:
        """Was it?"""
        return await self._ask("Put", pb.PutRequest(key=LAST)) is not None

    async def watch(self, revision: int) -> AsyncIterator[pb.WatchResponse]:
        """Whatever is done to registers from a revision on, until the stream breaks or its reader leaves."""
        call = self._channel.stream_stream(
            "/etcdserverpb.Watch/Watch", pb.WatchRequest.SerializeToString, pb.WatchResponse.FromString
        )()
        create = pb.WatchCreateRequest(key=FIRST, range_end=END, start_revision=revision)
        try:
            await call.write(pb.WatchRequest(create_request=create))
            async for response in call:
                yield response
        except (aio.AioRpcError, asyncio.InvalidStateError) as error:
            if isinstance(error, aio.AioRpcError) and not _broken(error):
                raise
        finally:
            call.cancel()

    async def close(self) -> None:
        """Hang up."""
        await self._channel.close()


Change = tuple[int, bytes, bytes | None]
"""Revision, key, value (None: deleted)."""


class Watcher:
    """What one was told, answer by answer."""

    def __init__(self, places: list[NodePlace], rng: random.Random) -> None:
        self._places, self._rng = places, rng
        self.answers: list[list[Change]] = []
        self.streams = 0

    @property
    def changes(self) -> list[Change]:
        """All of it."""
        return [change for answer in self.answers for change in answer]

    async def run(self) -> None:
        """Until it was told of the last key."""
        while True:
            keys = Keys(self._rng.choice(self._places).grpc)
            self.streams += 1
            try:
                if await self._read(keys):
                    return
            finally:
                await keys.close()
            await asyncio.sleep(POLL_S)

    async def _read(self, keys: Keys) -> bool:
        start = self.answers[-1][-1][0] + 1 if self.answers else 1
        async for response in keys.watch(start):
            assert not response.canceled, response
            if response.events:
                self.answers.append([_change(event) for event in response.events])
                if any(key == LAST for _, key, _ in self.answers[-1]):
                    return True
                if self._rng.random() < WANDERS:
                    return False
        return False


def _change(event: Any) -> Change:
    return event.kv.mod_revision, event.kv.key, None if event.type else event.kv.value


def in_the_log(log: Iterable[tuple[Stamp, Event]]) -> Iterator[Change]:
    """What a watcher must have been told, by the events themselves, to the last key."""
    for stamp, event in log:
        if isinstance(event, KeyPut | KeyDeleted) and FIRST <= event.key.encode() < END:
            value = event.value if isinstance(event, KeyPut) else None
            yield stamp.offset + event.following, event.key.encode(), value
            if event.key.encode() == LAST:
                return


class KeyClients(Clients):
    """For each node workers, a poller, one who reads what may be stale, and a watcher."""

    def __init__(self, places: Mapping[int, NodePlace], history: History, rng: random.Random) -> None:
        super().__init__(places, history, rng)
        self._families = (Registers(rng, "k"), Registers(rng, "p"))
        self._seen: dict[str, str | None] = {}
        """What somebody was told last of a register."""
        self._before: dict[str, str | None] = {}
        """... and what that was before."""
        self._keys: list[Keys] = []
        self.watchers = [Watcher(list(places.values()), rng) for _ in places]
        self._watching: list[asyncio.Task[None]] = []

    def prepare(self) -> None:
        """Raise the level: all voters have to be known for it."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for place in self._places.values():
                try:
                    Node(place.http).send("PUT", "/v1/feature", FeatureBody(level=LEVEL), Done)
                except NodeError:
                    assert time.monotonic() < deadline, "the level was not raised"
                    time.sleep(POLL_S)
                else:
                    return

    async def run(self) -> None:
        """Until cancelled; who watches goes on."""
        self._watching = [asyncio.create_task(watcher.run()) for watcher in self.watchers]
        try:
            async with asyncio.TaskGroup() as group:
                for node, place in self._places.items():
                    made = [Keys(place.grpc) for _ in range(WORKERS + 1)]
                    self._keys += made
                    for keys in made[:WORKERS]:
                        group.create_task(self._write(node, keys))
                    group.create_task(self._poll_keys(node, made[-1]))
                    looker = Keys(place.grpc, "stale")
                    self._keys.append(looker)
                    group.create_task(self._look_at_keys(node, looker))
        finally:
            for keys in self._keys:
                await keys.close()

    async def drained(self) -> None:
        """Put the last key, and wait until all watchers were told of it."""
        keys = Keys(next(iter(self._places.values())).grpc)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    async with asyncio.timeout(WORKER_PATIENCE_S):
                        if await keys.put_last():
                            break
                except LOST:
                    continue
            await asyncio.gather(*self._watching)
        await keys.close()

    def _pick(self) -> str:
        return self._rng.choice(self._families).pick()

    async def _write(self, node: int, keys: Keys) -> None:
        while True:
            kind = self._rng.choice(("get", "put", "swap"))
            value = None if kind == "get" else f"{node}.{self._families[0].value()}"
            await self._call_keys(node, keys, self._pick(), value, WORKER_PATIENCE_S, compares=kind == "swap")
            await asyncio.sleep(self._rng.uniform(0.0, 0.06))

    async def _poll_keys(self, node: int, keys: Keys) -> None:
        waiting: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                if len(waiting) < OPEN_MAX:
                    call = self._call_keys(node, keys, self._pick(), None, POLLER_PATIENCE_S)
                    waiting.add(task := group.create_task(call))
                    task.add_done_callback(waiting.discard)
                await asyncio.sleep(self._rng.uniform(0.5, 1.5) * POLL_S)

    async def _look_at_keys(self, node: int, keys: Keys) -> None:
        while True:
            await self._call_keys(node, keys, self._families[0].look(), None, WORKER_PATIENCE_S, "stale")
            await asyncio.sleep(self._rng.uniform(0.0, 0.06))

    async def _call_keys(
        self,
        node: int,
        keys: Keys,
        register: str,
        value: str | None,
        patience_s: float,
        level: Level = "linearizable",
        *,
        compares: bool = False,
    ) -> None:
        history, known = self._history, self._before if self._rng.random() < OUTDATED else self._seen
        expected = known.get(register) if compares else None
        call = history.begin(register, value, node, keys.name, level, compares=compares, expected=expected)
        try:
            async with asyncio.timeout(patience_s):
                if value is None:
                    told = await keys.get(register)
                else:
                    told = await (keys.swap(register, expected, value) if compares else keys.put(register, value))
        except LOST:
            history.lose(call)
        else:
            history.end(call, told)
            if told is not None and level == "linearizable":
                found = told.value if value is None or told.differs else value
                if found != self._seen.get(register):
                    self._before[register] = self._seen.get(register)
                    self._seen[register] = found
