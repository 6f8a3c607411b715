"""The listener itself: its address, how calls end that nobody answers, and that it gives the address back."""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from quorate.gateway.grpc.pb import rpc_pb2 as pb
from quorate.gateway.grpc.server import GrpcServer
from quorate.gateway.grpc.settings import GrpcSettings
from tests.clusters import free_ports
from tests.fuzz.fuzz_grpc_port import DATA, END_STREAM, PREFACE, SETTINGS, frame, head
from tests.unit.gateway.grpc.house import House
from tests.unit.gateway.grpc.peer import ended

HOST = "127.0.0.1"


def test_an_address_in_use_is_the_system_s_own_error() -> None:
    """So that the node can name the setting and say what to do."""

    async def taken() -> None:
        with socket.socket() as other:
            other.bind((HOST, 0))
            other.listen()
            with pytest.raises(OSError, match="in use") as error:
                await GrpcServer(House().on_a_loop()).start(HOST, other.getsockname()[1], serving=False)
            assert error.value.errno == errno.EADDRINUSE

    asyncio.run(taken())


def test_calls_end_by_a_code() -> None:
    """An answer; a refusal in etcd's words; what is unknown, UNIMPLEMENTED; what nobody foresaw, INTERNAL without its
    reason. Nobody is answered before the server serves, or after it stopped.
    """

    async def called() -> None:
        house = House()
        server = GrpcServer(house.on_a_loop())
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


def test_reflection_answers_by_either_name_and_health_knows_all_that_it_lists() -> None:
    """The bytes are the same, its own two names and health's are among them, each with its file."""

    async def called() -> None:
        house = House()
        house.reason = "not founded"  # So that no answer waits for a quorum.
        server = GrpcServer(house.on_a_loop())
        port = free_ports(1)
        await server.start(HOST, port)
        async with grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:

            async def reflected(version: str, **asked: str) -> bytes:
                path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
                info: Callable[..., Any] = channel.stream_stream(path)
                question = reflection_pb2.ServerReflectionRequest(host="h", **asked).SerializeToString()
                return cast(bytes, await info(iter([question]), timeout=10).read())

            listed = await reflected("v1", list_services="")
            assert listed == await reflected("v1alpha", list_services="")
            answer = reflection_pb2.ServerReflectionResponse.FromString(listed)
            names = [one.name for one in answer.list_services_response.service]
            assert {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} < set(names)
            check: Callable[..., Any] = channel.unary_unary("/grpc.health.v1.Health/Check")
            for name in names:
                found = await reflected("v1", file_containing_symbol=name)
                assert reflection_pb2.ServerReflectionResponse.FromString(found).HasField("file_descriptor_response")
                asked = check(health_pb2.HealthCheckRequest(service=name).SerializeToString(), timeout=10)
                assert await asked.code() is grpc.StatusCode.OK, name
        await server.stop()

    asyncio.run(called())


SERVED = [
    f"/{service.full_name}/{method}"
    for service, handlers in GrpcServer(House().context)._services.items()
    for method in handlers
]


@pytest.mark.parametrize("method", SERVED)
def test_a_call_whose_deadline_has_passed_is_told_so_whatever_it_asks(method: str) -> None:
    """Before its request is looked at: the same of every method that is served, and of bytes that are no request."""

    async def called() -> None:
        server = GrpcServer(House().on_a_loop())
        port = free_ports(1)
        await server.start(HOST, port)
        try:
            for timeout in (b"0n", b"1n", b"1u"):
                for request in (b"", b"\xff"):
                    told = await asyncio.to_thread(ended, f"{HOST}:{port}", method, request, grpc_timeout=timeout)
                    assert told == (4, "context deadline exceeded"), (timeout, request)
        finally:
            await server.stop()

    asyncio.run(called())


def test_who_connects_and_says_nothing_is_closed() -> None:
    """Within ``handshake_timeout_s``: else a few hundred silent connections would keep every client out for minutes."""

    async def silent() -> None:
        server = GrpcServer(House(settings=GrpcSettings(handshake_timeout_s=0.2, sweep_period_s=0.1)).on_a_loop())
        port = free_ports(1)
        await server.start(HOST, port)
        reader, writer = await asyncio.open_connection(HOST, port)
        await asyncio.wait_for(reader.read(), 10)
        writer.close()
        await server.stop()

    asyncio.run(silent())


def test_no_name_of_a_method_ends_the_server() -> None:
    """A path that is no UTF-8 is one that nobody serves, and who asks next is answered, on any connection."""

    async def asked() -> None:
        server = GrpcServer(House().on_a_loop())
        port = free_ports(1)
        await server.start(HOST, port)
        for path in (b"/etcdserverpb.\xf6V/Range", b"/nobody/serves.this"):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(PREFACE + frame(SETTINGS, 0, 0) + head(1, path) + frame(DATA, END_STREAM, 1, bytes(5)))
            said = b""
            while b"unknown service" not in said:
                said += await asyncio.wait_for(reader.read(4096), 10)
            writer.close()
        async with grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:
            method_of: Callable[..., Any] = channel.unary_unary("/etcdserverpb.KV/Range")
            stale = pb.RangeRequest(key=b"a", serializable=True).SerializeToString()
            assert await method_of(stale, timeout=10).code() is grpc.StatusCode.OK
        await server.stop()

    asyncio.run(asked())


def test_one_call_too_many_is_refused() -> None:
    """``calls_max`` are under way, streams too; the next is told so, and taken once one of them has ended."""

    async def crowded() -> None:
        server = GrpcServer(House(settings=GrpcSettings(calls_max=2)).on_a_loop())
        port = free_ports(1)
        await server.start(HOST, port)
        async with grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:
            stream_of: Callable[..., Any] = channel.stream_stream("/etcdserverpb.Watch/Watch")
            method_of: Callable[..., Any] = channel.unary_unary("/etcdserverpb.KV/Range")
            stale = pb.RangeRequest(key=b"a", serializable=True).SerializeToString()
            progress = pb.WatchRequest(create_request=pb.WatchCreateRequest(key=b"a")).SerializeToString()
            watches = [stream_of() for _ in range(2)]
            for watch in watches:
                await watch.write(progress)
                await watch.read()
            assert await method_of(stale, timeout=10).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            watches[0].cancel()
            while await method_of(stale, timeout=10).code() is not grpc.StatusCode.OK:
                pass
            watches[1].cancel()
        await server.stop()

    asyncio.run(asyncio.wait_for(crowded(), 30))
