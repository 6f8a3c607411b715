"""The listener: grpcio's asyncio server on the node's own loop (docs/adr/0083).

Rules: the address is taken at ``start``; calls are served from ``start_serving`` on. A handler gets a message and its
call, and answers or raises ``CallError``; nothing else of a failure is told to a client. Methods are found by the
descriptors of their services, so what a ``.proto`` names and nobody handles is answered UNIMPLEMENTED.
"""

import errno
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any, Final

import grpc
import structlog
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc import StatusCode, aio
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha.reflection import SERVICE_NAME as REFLECTION
from grpc_reflection.v1alpha.reflection import enable_server_reflection

from quorate.gateway.grpc.asking import Asking
from quorate.gateway.grpc.cluster import ClusterService
from quorate.gateway.grpc.codes import CallError
from quorate.gateway.grpc.context import GrpcContext
from quorate.gateway.grpc.health import HealthService
from quorate.gateway.grpc.journal import JournalService
from quorate.gateway.grpc.journal_watch import JournalWatches
from quorate.gateway.grpc.kv import KvService
from quorate.gateway.grpc.leases import LeaseService
from quorate.gateway.grpc.member_watch import MemberWatches
from quorate.gateway.grpc.members import MemberService
from quorate.gateway.grpc.mqtt import MqttService
from quorate.gateway.grpc.offsets import OffsetsService
from quorate.gateway.grpc.pb import cluster_pb2, journal_pb2, members_pb2, mqtt_pb2, offsets_pb2, rpc_pb2
from quorate.gateway.grpc.session_watch import SessionWatches
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.gateway.grpc.taking import TakingServer
from quorate.gateway.grpc.watch import WatchService
from quorate.gateway.grpc.watching import WatchHub

_log = structlog.get_logger(__name__)

Handler = Callable[..., Any]
"""A coroutine of a message and its call; or, of a method that answers with a stream, an async iterator of them."""
MESSAGE_OVERHEAD: Final = 1024 * 1024
"""A request this much larger than it may be is still read, to be refused in etcd's words: by default 2 MiB, all that
etcd reads.
"""


class GrpcServer:
    """All services of one node."""

    def __init__(self, context: GrpcContext) -> None:
        self._context = context
        self._server: TakingServer | None = None
        self._held: socket.socket | None = None
        """Has the address until it is served: a server of grpcio that has one and never starts never gives it back."""
        self._asking = Asking(context)
        self.hub = WatchHub(self._asking)
        self.member_watches = MemberWatches(self._asking)
        self.journal_watches = JournalWatches(self._asking)
        self.session_watches = SessionWatches(self._asking)
        self._services = self._handled()
        gauge = context.metrics.gauge
        gauge("grpc_watches", "Watches of all gRPC streams.", lambda: len(self.hub))
        gauge("grpc_member_watches", "Watches of members over gRPC.", lambda: len(self.member_watches))
        gauge("grpc_journal_watches", "Watches of shards over gRPC.", lambda: len(self.journal_watches))
        gauge("grpc_session_watches", "Watches of MQTT's sessions.", lambda: len(self.session_watches))

    def _handled(self) -> dict[ServiceDescriptor, Mapping[str, Handler]]:
        kv, leases, cluster = KvService(self._asking), LeaseService(self._asking), ClusterService(self._asking)
        watch = WatchService(self._asking, self.hub)
        etcd = rpc_pb2.DESCRIPTOR.services_by_name
        services: dict[ServiceDescriptor, Mapping[str, Handler]] = {
            etcd["KV"]: {
                "Range": kv.range,
                "Put": kv.put,
                "DeleteRange": kv.delete_range,
                "Txn": kv.txn,
                "Compact": kv.compact,
            },
            etcd["Watch"]: {"Watch": watch.watch},
            etcd["Lease"]: {
                "LeaseGrant": leases.grant,
                "LeaseRevoke": leases.revoke,
                "LeaseKeepAlive": leases.keep_alive,
                "LeaseTimeToLive": leases.time_to_live,
                "LeaseLeases": leases.leases,
            },
            etcd["Cluster"]: {"MemberList": cluster.member_list},
            etcd["Maintenance"]: {
                "Alarm": cluster.alarm,
                "Status": cluster.status,
                "HashKV": cluster.hash_kv,
                "MoveLeader": cluster.move_leader,
            },
            cluster_pb2.DESCRIPTOR.services_by_name["Cluster"]: {"Status": cluster.meta_status},
            members_pb2.DESCRIPTOR.services_by_name["Members"]: self._of_members(),
            journal_pb2.DESCRIPTOR.services_by_name["Journal"]: self._of_the_journal(),
            mqtt_pb2.DESCRIPTOR.services_by_name["Mqtt"]: self._of_mqtt(),
            offsets_pb2.DESCRIPTOR.services_by_name["Offsets"]: self._of_offsets(),
        }
        health = HealthService(self._asking, [service.full_name for service in services])
        asked: Mapping[str, Handler] = {"Check": health.check, "List": health.listing, "Watch": health.watch}
        return {**services, health_pb2.DESCRIPTOR.services_by_name["Health"]: asked}

    def _of_members(self) -> Mapping[str, Handler]:
        members = MemberService(self._asking)
        return {
            "Register": members.register,
            "Heartbeat": members.heartbeat,
            "Heartbeats": members.heartbeats,
            "Drain": members.drain,
            "Unregister": members.unregister,
            "List": members.listing,
            "Describe": members.describe,
            "Watch": self.member_watches.watch,
        }

    def _of_the_journal(self) -> Mapping[str, Handler]:
        journal = JournalService(self._asking)
        return {
            "CreateShard": journal.create_shard,
            "NextSegment": journal.next_segment,
            "Seal": journal.seal,
            "AlterInSync": journal.alter_in_sync,
            "ElectLeader": journal.elect_leader,
            "DeleteShard": journal.delete_shard,
            "AckDeleted": journal.ack_deleted,
            "Describe": journal.describe,
            "List": journal.listing,
            "Health": journal.health,
            "WhatIf": journal.whatif,
            "Watch": self.journal_watches.watch,
        }

    def _of_mqtt(self) -> Mapping[str, Handler]:
        mqtt = MqttService(self._asking)
        return {
            "OpenSession": mqtt.open,
            "CloseSession": mqtt.close,
            "PutSubscriptions": mqtt.put_subscriptions,
            "Match": mqtt.match,
            "Locate": mqtt.locate,
            "List": mqtt.listing,
            "ListWills": mqtt.wills,
            "AcknowledgeWill": mqtt.acknowledge_will,
            "Watch": self.session_watches.sessions,
        }

    def _of_offsets(self) -> Mapping[str, Handler]:
        offsets = OffsetsService(self._asking)
        return {
            "Commit": offsets.commit,
            "Fetch": offsets.fetch,
            "ListGroups": offsets.groups,
            "Delete": offsets.delete,
        }

    async def start(self, host: str, port: int, *, serving: bool = True) -> "GrpcServer":
        """Take the address, and serve, or only when ``start_serving`` says so. Raises OSError."""
        self._held = _taken(host, port)
        if serving:
            await self.start_serving()
        return self

    async def start_serving(self) -> None:
        """Answer calls. Raises OSError when somebody took the address in the moment in which it changes hands."""
        held, self._held = self._held, None
        if held is None:
            return
        host, port = held.getsockname()[:2]
        held.close()
        server = self._made()
        try:
            server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        except RuntimeError as error:
            raise OSError(errno.EADDRINUSE, "the address was taken") from error
        self._server = server
        self.hub.start()
        self.member_watches.start()
        self.journal_watches.start()
        self.session_watches.start()
        await server.start()

    def _made(self) -> TakingServer:
        settings = self._context.settings
        server = TakingServer(_options(settings), settings.calls_max)
        for service, methods in self._services.items():
            server.add_registered_method_handlers(service.full_name, _handlers(service, methods))
        enable_server_reflection([*(service.full_name for service in self._services), REFLECTION], server)
        return server

    async def stop(self) -> None:
        """End every call and give the address back. Stopping twice does nothing."""
        if self._held is not None:
            self._held.close()
            self._held = None
        server, self._server = self._server, None
        if server is not None:
            self.hub.stop()
            self.member_watches.stop()
            self.journal_watches.stop()
            self.session_watches.stop()
            await server.stop(self._context.settings.stop_grace_s)


def _options(settings: GrpcSettings) -> list[tuple[str, int]]:
    def ms(seconds: float) -> int:
        return int(seconds * 1000)

    return [
        ("grpc.so_reuseport", 0),  # Else two nodes would share a port, each with half of the calls.
        ("grpc.max_allowed_incoming_connections", settings.connections_max),
        ("grpc.server_handshake_timeout_ms", ms(settings.handshake_timeout_s)),
        ("grpc.max_concurrent_streams", settings.streams_per_connection_max),
        ("grpc.max_receive_message_length", settings.request_bytes_max + MESSAGE_OVERHEAD),
        ("grpc.max_send_message_length", 2 * settings.answer_bytes_max),
        ("grpc.keepalive_time_ms", ms(settings.keepalive_time_s)),
        ("grpc.keepalive_timeout_ms", ms(settings.keepalive_timeout_s)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", ms(settings.client_ping_min_s)),
        ("grpc.max_connection_idle_ms", ms(settings.idle_timeout_s)),
    ]


def _taken(host: str, port: int) -> socket.socket:
    """A socket that has the address and does not listen. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    held = socket.socket(family, kind, protocol)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(address)
    except OSError:
        held.close()
        raise
    return held


def _handlers(
    service: ServiceDescriptor, methods: Mapping[str, Handler]
) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
    return {method.name: _method(method, methods[method.name]) for method in service.methods if method.name in methods}


def _method(method: MethodDescriptor, handler: Handler) -> "grpc.RpcMethodHandler[Any, Any]":
    makers = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }
    maker: Callable[..., grpc.RpcMethodHandler[Any, Any]] = makers[method.client_streaming, method.server_streaming]
    asked = _reading(handler, streams=method.client_streaming)
    return maker(
        _streaming(asked) if method.server_streaming else _answering(asked),
        request_deserializer=partial(_read, GetMessageClass(method.input_type)),
        response_serializer=GetMessageClass(method.output_type).SerializeToString,
    )


class _Unreadable:
    """What came instead of a message of this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def error(self) -> CallError:
        """As etcd says it; grpcio would show our reader's exception."""
        return CallError(StatusCode.INTERNAL, f"grpc: error unmarshalling request: {self._name}")


def _read(kind: type[Message], data: bytes) -> "Message | _Unreadable":
    try:
        return kind.FromString(data)
    except DecodeError:
        return _Unreadable(kind.DESCRIPTOR.full_name)


def _reading(handler: Handler, *, streams: bool) -> Handler:
    """A request that could not be read ends its call."""

    async def each(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for request in requests:
            if isinstance(request, _Unreadable):
                raise request.error
            yield request

    def checked(request: Any, call: "aio.ServicerContext[Any, Any]") -> Any:
        if isinstance(request, _Unreadable):
            raise request.error
        return handler(each(request) if streams else request, call)

    return checked


def _answering(handler: Handler) -> Handler:
    async def answer(request: Any, call: "aio.ServicerContext[Any, Any]") -> Any:
        try:
            return await handler(request, call)
        except CallError as error:
            await call.abort(error.code, error.text)
        except Exception as error:  # noqa: BLE001  It is logged, and the client told that it is.
            await _failed(call, error)

    return answer


def _streaming(handler: Handler) -> Handler:
    async def stream(request: Any, call: "aio.ServicerContext[Any, Any]") -> AsyncIterator[Any]:
        try:
            async for response in handler(request, call):
                yield response
        except CallError as error:
            await call.abort(error.code, error.text)
        except Exception as error:  # noqa: BLE001  It is logged, and the client told that it is.
            await _failed(call, error)

    return stream


async def _failed(call: "aio.ServicerContext[Any, Any]", error: Exception) -> None:
    """What nobody foresaw is in the node's log, and not at the client."""
    if not isinstance(error, (grpc.RpcError, aio.AbortError, aio.UsageError, aio.InternalError)):
        _log.error("a gRPC call failed", error=f"{type(error).__name__}: {error}", exc_info=error)
    await call.abort(StatusCode.INTERNAL, "quorate: this call failed here; the node's log says why")
