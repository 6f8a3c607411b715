"""The listener: gRPC on the node's own loop, over HTTP/2 of our own (docs/adr/0100).

Rules: the address is taken at ``start``; calls are served from ``start_serving`` on. Who is let in is a rule of
``quorate.admission``. Methods are found by the descriptors of their services, so what a ``.proto`` names and nobody
handles is answered UNIMPLEMENTED.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health_pb2

from quorate.gateway.grpc import reflection
from quorate.gateway.grpc.asking import Asking
from quorate.gateway.grpc.budgets import ByteBudget
from quorate.gateway.grpc.calls import Calls, Handler
from quorate.gateway.grpc.cluster import ClusterService
from quorate.gateway.grpc.connection import GrpcConnection
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
from quorate.gateway.grpc.watch import WatchService
from quorate.gateway.grpc.watching import WatchHub
from quorate.gateway.listener import Listener
from quorate.slices import TURN_S

_HEALTH: Final = health_pb2.DESCRIPTOR.services_by_name["Health"]
PAUSE_S: Final = 3.0
"""Between two looks at deadlines: who was stopped for so long has not heard what came meanwhile, and looks later."""


class GrpcListener(Listener[GrpcConnection]):
    """The connections, and what all of them may hold."""

    def __init__(self, context: GrpcContext, calls: Calls) -> None:
        self.settings, self.metrics = context.settings, context.metrics
        super().__init__(context.settings, context.scheduler, partial(GrpcConnection, self))
        self.received = ByteBudget(self.settings.received_bytes_max)
        self.answers = ByteBudget(4 * self.settings.answer_bytes_max)
        self.begin = calls.begin
        self._looked = context.scheduler.monotonic()
        self._behind: deque[GrpcConnection] = deque()
        """Those whose frames wait for a later turn."""

    def opened(self, connection: GrpcConnection, host: str) -> None:
        """Let one more in; who has to go for it gives his place back at once."""
        leaving = self._admission.enter(connection, host)
        if leaving is not None:
            leaving.abort()

    @property
    def crowded(self) -> bool:
        """Do connections wait to be read?"""
        return bool(self._behind)

    def read_later(self, connection: GrpcConnection) -> None:
        """``read_on`` is called in a later turn, after those that wait already: all of them share a turn."""
        self._behind.append(connection)
        if len(self._behind) == 1:
            self.scheduler.call_soon(self._read_some)

    def _read_some(self) -> None:
        until = self.scheduler.monotonic() + TURN_S
        try:
            for _ in range(len(self._behind)):
                self._read(self._behind[0])
                if self.scheduler.monotonic() >= until:
                    break
        finally:
            if self._behind:
                self.scheduler.call_soon(self._read_some)

    def _read(self, connection: GrpcConnection) -> None:
        """The first of those that wait; an error ends it, as where bytes come, and keeps no other from its turn."""
        try:
            connection.read_on()
        except BaseException:
            connection.abort()
            raise
        finally:
            self._behind.popleft()

    def leave(self) -> None:
        """Tell every client to begin nothing more here."""
        for connection in self._admission.guests():
            connection.leave()

    def _swept(self) -> None:
        now = self.scheduler.monotonic()
        paused, self._looked = now - self._looked > PAUSE_S + self._sweep_period_s, now
        if paused:
            self._sweep = self.scheduler.call_later(self._sweep_period_s, self._swept)
            return
        for connection in tuple(self._admission.guests()):
            connection.tick(now)
        super()._swept()


class GrpcServer:
    """All services of one node."""

    def __init__(self, context: GrpcContext) -> None:
        self._context = context
        controller = context.controller
        self._calls = calls = Calls(
            context.settings, context.scheduler.monotonic, lambda: controller.leader_id is not None
        )
        self._listener = GrpcListener(context, calls)
        self._listening: asyncio.Server | None = None
        self._serving = False
        self._asking = Asking(context)
        self.hub = WatchHub(self._asking)
        self.member_watches = MemberWatches(self._asking)
        self.journal_watches = JournalWatches(self._asking)
        self.session_watches = SessionWatches(self._asking)
        self._hearing = (self.hub, self.member_watches, self.journal_watches, self.session_watches)
        self._services = self._handled()
        for service, handlers in self._services.items():
            calls.serve(service, handlers)
        gauge = context.metrics.gauge
        gauge("grpc_connections", "Connections of gRPC clients.", lambda: self._listener.connections)
        gauge("grpc_calls", "Calls over gRPC that are under way.", lambda: len(calls))
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
        names = [service.full_name for service in (*services, _HEALTH, *reflection.SERVICES)]
        health = HealthService(self._asking, names)
        services[_HEALTH] = {"Check": health.check, "List": health.listing, "Watch": health.watch}
        told = reflection.ReflectionService(names)
        return services | {service: {"ServerReflectionInfo": told.info} for service in reflection.SERVICES}

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
        self._listening = await self._listener.start(host, port, serving=False)
        if serving:
            await self.start_serving()
        return self

    async def start_serving(self) -> None:
        """Answer calls."""
        if self._listening is None or self._serving:
            return
        self._serving = True
        for hears in self._hearing:
            hears.start()
        await self._listening.start_serving()

    async def stop(self) -> None:
        """End every call and give the address back. Stopping twice does nothing."""
        listening, self._listening = self._listening, None
        if listening is None:
            return
        listening.close()
        if self._serving:
            self._listener.leave()
            await self._calls_end()
            for hears in self._hearing:
                hears.stop()
            self._calls.stop()
            self._serving = False
        await self._listener.stop()

    async def _calls_end(self) -> None:
        """Those under way have a moment; streams do not end by themselves."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._calls.none_left(), self._context.settings.stop_grace_s)
