"""The listener itself: its address, how calls end that nobody answers, and that it gives the address back."""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from quorate.gateway.grpc.pb import rpc_pb2 as pb
from quorate.gateway.grpc.server import GrpcServer
from tests.clusters import free_ports
from tests.unit.gateway.grpc.house import House

HOST = "127.0.0.1"


def test_an_address_in_use_is_the_system_s_own_error() -> None:
    """So that the node can name the setting and say what to do."""

    async def taken() -> None:
        with socket.socket() as other:
            other.bind((HOST, 0))
            other.listen()
            with pytest.raises(OSError, match="in use") as error:
                await GrpcServer(House().context).start(HOST, other.getsockname()[1], serving=False)
            assert error.value.errno == errno.EADDRINUSE

    asyncio.run(taken())


def test_calls_end_by_a_code() -> None:
    """An answer; a refusal in etcd's words; what is unknown, UNIMPLEMENTED; what nobody foresaw, INTERNAL without its
    reason. Nobody is answered before the server serves, or after it stopped.
    """

    async def called() -> None:
        house = House()
        server = GrpcServer(house.context)
        port = free_ports(1)
        await server.start(HOST, port, serving=False)
        await server.start_serving()
        async with grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:

            async def call(method: str, request: bytes = b"") -> tuple[grpc.StatusCode, str | None]:
                method_of: Callable[..., Any] = channel.unary_unary(f"/etcdserverpb.{method}")
                asked = method_of(request, timeout=10)
                return await asked.code(), await asked.details()

            stale = pb.RangeRequest(key=b"a", serializable=True).SerializeToString()
            assert (await call("KV/Range", stale))[0] is grpc.StatusCode.OK
            empty = (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: key is not provided")
            assert await call("KV/Range") == empty
            assert (await call("KV/RangeStream"))[0] is grpc.StatusCode.UNIMPLEMENTED
            house.low = None  # type: ignore[assignment]
            assert (await call("Maintenance/Status"))[0] is grpc.StatusCode.INTERNAL
        await server.stop()
        await server.stop()
        async with grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:
            method_of: Callable[..., Any] = channel.unary_unary("/etcdserverpb.KV/Range")
            assert await method_of(b"", timeout=5).code() is grpc.StatusCode.UNAVAILABLE

    asyncio.run(called())
