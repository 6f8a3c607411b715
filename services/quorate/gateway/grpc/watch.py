"""``etcdserverpb.Watch``: the one stream of it, in which a client makes and cancels watchers.

Rules: requests are taken one after the other, and no faster than their answers are; see ``watching`` for what is
promised.
"""

import asyncio
from collections.abc import AsyncIterator

from quorate.gateway.grpc.asking import Asking, Call
from quorate.gateway.grpc.codes import CallError
from quorate.gateway.grpc.kv import resource
from quorate.gateway.grpc.pb import rpc_pb2
from quorate.gateway.grpc.watching import WatchHub, WatchStream


class WatchService:
    """The handler."""

    def __init__(self, asking: Asking, hub: WatchHub) -> None:
        self._asking, self._hub = asking, hub

    async def watch(
        self, requests: AsyncIterator[rpc_pb2.WatchRequest], call: Call
    ) -> AsyncIterator[rpc_pb2.WatchResponse]:
        """Answers, for as long as the client asks or waits."""
        stream = WatchStream(self._hub)
        taking = asyncio.create_task(self._take(requests, stream))
        try:
            async for response in stream.responses():
                yield response
            if taking.done():
                taking.result()
        finally:
            stream.close()
            taking.cancel()

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
