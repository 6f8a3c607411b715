"""Quorate's services for a program that has no stubs of them: a node tells its messages by gRPC's reflection.

Rules: whichever node answers is asked. A call is repeated while there is no answer, so only what may be done twice is
asked here.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

KV, WATCH = "etcdserverpb.KV", "etcdserverpb.Watch"
MEMBERS, MQTT = "quorate.meta.v1.Members", "quorate.meta.v1.Mqtt"
CALL_S, PATIENCE_S, AGAIN_S = 5.0, 30.0, 0.1
TRY_AGAIN = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}


class Quorate:
    """The cluster, at whichever node answers."""

    def __init__(self, nodes: str) -> None:
        target = f"ipv4:{nodes}"
        self._told = grpc.insecure_channel(target)
        self._pool = DescriptorPool(ProtoReflectionDescriptorDatabase(self._told))
        self._channel = grpc.aio.insecure_channel(target)

    def _method(self, service: str, name: str) -> tuple[str, Any, Any]:
        found = self._pool.FindServiceByName(service).methods_by_name[name]
        return f"/{service}/{name}", GetMessageClass(found.input_type), GetMessageClass(found.output_type)

    async def ask(self, service: str, name: str, /, **fields: Any) -> Any:
        """The answer; asked again while there is none: all that is asked here may be done twice. Raises AioRpcError."""
        path, request, response = self._method(service, name)
        call = self._channel.unary_unary(path, request.SerializeToString, response.FromString)
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            try:
                return await call(request(**fields), timeout=CALL_S, wait_for_ready=True)
            except grpc.aio.AioRpcError as error:
                if error.code() not in TRY_AGAIN or asyncio.get_running_loop().time() > end:
                    raise
                await asyncio.sleep(AGAIN_S)

    async def follow(self, service: str, name: str, /, **fields: Any) -> AsyncIterator[Any]:
        """The answers to one request, until the node is gone. Raises AioRpcError."""
        path, request, response = self._method(service, name)
        kind = "stream_stream" if service == WATCH else "unary_stream"
        start = getattr(self._channel, kind)(path, request.SerializeToString, response.FromString)
        if service == WATCH:
            call = start(wait_for_ready=True)
            await call.write(request(**fields))
        else:
            call = start(request(**fields), wait_for_ready=True)
        try:
            while (answer := await call.read()) is not grpc.aio.EOF:
                yield answer
        finally:
            call.cancel()

    async def close(self) -> None:
        """No more."""
        self._told.close()
        await self._channel.close()
