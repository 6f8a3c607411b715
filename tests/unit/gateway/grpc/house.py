"""A controller on its bench with keys, and the gRPC services on it without sockets."""

import asyncio
import atexit
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from quorate.clock import LoopScheduler
from quorate.gateway.fresh import FreshReader
from quorate.gateway.grpc.asking import Asking
from quorate.gateway.grpc.codes import CallError, StatusCode
from quorate.gateway.grpc.context import GrpcContext, Place
from quorate.gateway.grpc.pb import rpc_pb2
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.gateway.grpc.watching import WatchHub, WatchStream
from quorate.metadata.commands import RaiseFeatureLevel, RecordNodeStart
from tests.unit.controller.bench import ADDRESSES, Bench
from tests.unit.history.kit import Times

T = TypeVar("T")
TURNS = 300
_RUNNER = asyncio.Runner()
"""One loop for all: a stream goes on from one look at it to the next."""
atexit.register(_RUNNER.close)


def end_streams() -> None:
    """What still waits for an answer waits no longer: a stream that is let go while it is asked cannot be closed."""

    async def ended() -> None:
        waiting = asyncio.all_tasks() - {asyncio.current_task()}
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    _RUNNER.run(ended())


class Caller:
    """A call: who asks, and how long he waits."""

    def __init__(self, left_s: float | None = None) -> None:
        self.left_s = left_s

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5"

    def time_remaining(self) -> float | None:
        return self.left_s

    def hold(self, count: int) -> None:
        """There is room for all."""


class House:
    """``reason``: why the node is not ready."""

    def __init__(self, *, level: int = 2, settings: GrpcSettings | None = None) -> None:
        self.bench = bench = Bench()
        self.times = Times(bench)
        self.call = Caller()
        self.reason = ""
        self.low: list[str] = []
        self.low_at: list[int] = []
        self.may = self.room = True
        settings = settings or GrpcSettings()
        self.context = GrpcContext(
            node_id=1,
            cluster_id="c1",
            version="1.2.3",
            voters=(Place(node_id=1, rpc="h:1", raft="h:2", kafka="h:3", http="h:4", grpc="h:5", zone="z"),),
            controller=bench.controller,
            machine=bench.machine,
            engine=bench.engine,  # type: ignore[arg-type]
            log=bench.machine._log,
            fresh=FreshReader(
                bench.controller,
                self.times.past,
                bench.listeners,
                bench.loop,
                timeout_s=settings.answer_timeout_s,
                past_timeout_s=settings.past_timeout_s,
                waiting_max=settings.waiting_max,
            ),
            written=FreshReader(
                bench.controller,
                self.times.past,
                bench.listeners,
                bench.loop,
                timeout_s=settings.answer_timeout_s,
                past_timeout_s=settings.past_timeout_s,
                waiting_max=settings.calls_max,
            ),
            scheduler=bench.loop,
            metrics=bench.metrics,
            access=self,
            quota=self,
            chance=random.Random(7),
            connected=lambda _: True,
            unready=lambda: self.reason,
            no_space=lambda: self.low,
            short_of_space=lambda: self.low_at,
            settings=settings,
        )
        self.asking = Asking(self.context)
        self.hub = WatchHub(self.asking)
        bench.open()
        for node in (1,):
            start = RecordNodeStart(
                node_id=node, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2
            )
            bench.done(start)
        if level > 1:
            bench.done(RaiseFeatureLevel(level=level))

    def on_a_loop(self) -> GrpcContext:
        """The same on the loop that runs, for a server with sockets."""
        return replace(self.context, scheduler=LoopScheduler(asyncio.get_running_loop()))

    def authorize(self, principal: str, operation: str, resource: str) -> bool:
        return self.may

    def admit(self, principal: str, operation: str) -> bool:
        return self.room

    @property
    def revision(self) -> int:
        return self.bench.controller.offset - 1

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Let it happen, and all that it waits for."""

        async def driven() -> T:
            task = asyncio.ensure_future(work)
            for _ in range(TURNS):
                await asyncio.sleep(0)
                if task.done():
                    break
                self.bench.settle(1)
            else:
                task.cancel()
            return await task

        return _RUNNER.run(driven())

    def refused(self, work: Coroutine[Any, Any, Any]) -> tuple[StatusCode, str]:
        """How it fails."""
        try:
            self.run(work)
        except CallError as error:
            return error.code, error.text
        raise AssertionError("it was answered")

    def forget_history(self) -> None:
        """Memory holds nothing of before now: neither keys nor what the log keeps at hand."""
        self.bench.machine._log.reload()
        self.bench.machine.key_history.begin(self.bench.machine.offset, self.bench.machine.state.keys)


class Reader:
    """A watch stream whose answers a test takes when it likes."""

    def __init__(self, house: House) -> None:
        self.house = house
        if house.hub._stopped:
            house.hub.start()
        self.stream = WatchStream(house.hub)
        self._responses = self.stream.responses()

    def watch(self, key: bytes, range_end: bytes = b"", start: int = 0, **more: Any) -> None:
        request = rpc_pb2.WatchCreateRequest(key=key, range_end=range_end, start_revision=start, **more)
        self.stream.watch(request)

    async def take(self, enough: Callable[[list[rpc_pb2.WatchResponse]], bool]) -> list[rpc_pb2.WatchResponse]:
        """Answers until there are enough."""
        taken: list[rpc_pb2.WatchResponse] = []
        while not enough(taken):
            taken.append(await anext(self._responses))
        return taken

    def next(self, count: int = 1) -> list[rpc_pb2.WatchResponse]:
        return self.house.run(self.take(lambda taken: len(taken) >= count))

    def events(self, count: int) -> list[tuple[int, str, bytes, bytes]]:
        """The next events: revision, PUT or DELETE, key, value."""

        def number(taken: list[rpc_pb2.WatchResponse]) -> bool:
            return sum(len(response.events) for response in taken) >= count

        return [
            (event.kv.mod_revision, event.EventType.Name(event.type), event.kv.key, event.kv.value)
            for response in self.house.run(self.take(number))
            for event in response.events
        ]
