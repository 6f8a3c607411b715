"""``etcdserverpb.Watch``: the one stream of it, in which a client makes and cancels watchers.

Rules: requests are taken one after the other, and no faster than their answers are; see ``watching`` for what is
promised. A client that requires a leader (``hasleader``, as ``clientv3``'s locks and elections do) hears, by the end of
its stream, that there has been none for a while.
"""

import asyncio
from collections.abc import AsyncIterator

from quorate.gateway.grpc.asking import Asking, Call
from quorate.gateway.grpc.codes import NO_LEADER, CallError
from quorate.gateway.grpc.kv import resource
from quorate.gateway.grpc.pb import rpc_pb2
from quorate.gateway.grpc.watching import WatchHub, WatchStream

LOOK_S = 0.5
"""How often a stream that requires a leader looks for one."""


class WatchService:
    """The handler."""

    def __init__(self, asking: Asking, hub: WatchHub) -> None:
        self._asking, self._hub = asking, hub

    async def watch(
        self, requests: AsyncIterator[rpc_pb2.WatchRequest], call: Call
    ) -> AsyncIterator[rpc_pb2.WatchResponse]:
        """Answers, for as long as the client asks or waits."""
        stream = WatchStream(self._hub)
        tasks = [asyncio.create_task(self._take(requests, stream))]
        if call.requires_leader():
            tasks.append(asyncio.create_task(self._require_leader(stream)))
        try:
            async for response in stream.responses():
                yield response
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            stream.close()
            for task in tasks:
                task.cancel()

    async def _take(self, requests: AsyncIterator[rpc_pb2.WatchRequest], stream: WatchStream) -> None:
        """Do what the client asks. As etcd: one that asks nothing more is told on, until it goes."""
        try:
            async for request in requests:
                await stream.room()
                match request.WhichOneof("request_union"):
                    case "create_request":
                        self._create(request.create_request, stream)
                    case "cancel_request":
                        stream.cancel(request.cancel_request.watch_id)
                    case "progress_request":
                        stream.ask_progress()
                    case _:
                        continue  # As etcd: what is no request is passed over.
        except BaseException:
            stream.close()
            raise

    def _create(self, request: rpc_pb2.WatchCreateRequest, stream: WatchStream) -> None:
        try:
            self._asking.allowed("WatchKeys", resource(request.key))
        except CallError as error:
            stream.refuse(error.text)
        else:
            stream.watch(request)

    async def _require_leader(self, stream: WatchStream) -> None:
        """End the stream when there is no leader for a while. Raises CallError."""
        context = self._asking.context
        seen = context.scheduler.monotonic()
        try:
            while True:
                now = context.scheduler.monotonic()
                if context.controller.leader_id is not None:
                    seen = now
                elif now - seen > context.settings.no_leader_grace_s:
                    raise CallError(*NO_LEADER)
                await asyncio.sleep(LOOK_S)
        finally:
            stream.close()
