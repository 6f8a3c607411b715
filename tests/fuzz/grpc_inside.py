"""What ``fuzz_grpc.py`` asks: a node with something of everything, calls of its handlers, and a request of each method.

Rules: no sockets, and the same revisions each time, so that a request may name an epoch. A method that is served and
has no request here is a fault (``tests/unit/gateway/grpc/test_fuzz_requests.py``).
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, Final

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from quorate.controller import Answered
from quorate.gateway.grpc import server as edge
from quorate.gateway.grpc.codes import TIMED_OUT, CallError
from quorate.gateway.grpc.pb import cluster_pb2, journal_pb2, members_pb2, mqtt_pb2, offsets_pb2
from quorate.gateway.grpc.pb import rpc_pb2 as pb
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.metadata.commands import (
    CloseSession,
    CreateShard,
    DeleteShard,
    GrantLease,
    HearMember,
    OpenSession,
    PutKey,
    PutSubscriptions,
    RegisterMember,
)
from quorate.model.state import State, Subscription, Will
from tests.unit.gateway.grpc import house as houses

Samples = dict[str, list[Message]]
"""By the full name of a method."""

SETTINGS: Final = GrpcSettings(request_bytes_max=65_536, answer_bytes_max=1 << 20)
LEASE: Final = 7
TURNS: Final = 60
"""A stream that says nothing for so many turns waits."""
ANSWERS_MAX: Final = 50
FRESH_S: Final = 20.0
"""Less than any lease, member or session lives unheard."""


def methods(server: edge.GrpcServer) -> list[tuple[MethodDescriptor, Any]]:
    """All that is served, with its handler."""
    return [
        (method, handlers[method.name])
        for service, handlers in server._services.items()
        for method in service.methods
        if method.name in handlers
    ]


class Inside:
    """A node with keys, a lease, a position, members (``m4`` is not heard), shards (``old`` is to go),
    sessions (``d`` is not connected, and its will is to be published).
    """

    def __init__(self) -> None:
        self.house = houses.House(settings=SETTINGS)
        self._done(GrantLease(lease=LEASE, ttl_s=60))
        for key in (b"a", b"ab", b"b", b"quorate.offsets/g/s"):
            self._done(PutKey(key=key, value=b"1", lease=LEASE if key == b"a" else 0))
        for name in ("m1", "m2", "m3", "m4"):
            self._done(RegisterMember(name=name, incarnation="1", roles=("journal", "mqtt"), timeout_ms=600_000))
            if name != "m4":
                epoch = self.state.members[name].epoch
                self._done(HearMember(name=name, epoch=epoch, applied_revision=epoch))
        for shard in ("s", "old"):
            self._done(CreateShard(shard=shard, replication=2))
        self._done(DeleteShard(shard="old"))
        for client, member in (("c", "m1"), ("d", "m2")):
            self._done(
                OpenSession(
                    client=client,
                    clean_start=False,
                    expiry_s=600,
                    member=member,
                    member_epoch=self.state.members[member].epoch,
                    will=Will(topic="t/w", payload=b"1"),
                )
            )
            wanted = (Subscription(filter="t/+", qos=1), Subscription(filter="$share/g/t/#", identifier=1))
            epoch = self.state.sessions[client].session_epoch
            self._done(PutSubscriptions(client=client, session_epoch=epoch, added=wanted))
        self._done(CloseSession(client="d", session_epoch=self.state.sessions["d"].session_epoch, with_will=True))
        server = edge.GrpcServer(self.house.context)
        for hears in server._hearing:
            hears.start()
        self.methods = methods(server)
        self._revision, self._until = self.house.revision, self.house.bench.world.now + FRESH_S

    @property
    def fresh(self) -> bool:
        """Is it as a new one is? Reads and refusals leave it so, for a while."""
        return self.house.revision == self._revision and self.house.bench.world.now < self._until

    @property
    def state(self) -> State:
        """As of now."""
        return self.house.bench.machine.state

    def _done(self, command: Any) -> None:
        outcome = self.house.bench.done(command)
        assert isinstance(outcome, Answered), outcome

    def ask(self, data: bytes) -> int:
        """The first byte chooses the method, the rest is its request, or the requests of its stream. How many answers
        came; a refusal is none.
        """
        method, handler = self.methods[data[0] % len(self.methods)]
        try:
            requests = [GetMessageClass(method.input_type).FromString(part) for part in _parts(method, data[1:])]
        except DecodeError:  # No message: its call ends, and no handler hears of it (``fuzz_http2``).
            return 0
        before = self.house.revision
        try:
            return self.house.run(self._answered(method, handler, requests))
        except CallError as error:
            refused = error
        if not method.client_streaming and (refused.code, refused.text) != TIMED_OUT:
            assert self.house.revision == before, (method.full_name, refused)
        return 0

    async def _answered(self, method: MethodDescriptor, handler: Any, requests: list[Any]) -> int:
        asked = _stream(requests) if method.client_streaming else requests[0]
        if method.server_streaming:
            return await self._read_stream(handler(asked, self.house.call))
        _written(method, await handler(asked, self.house.call))
        return 1

    async def _read_stream(self, answers: AsyncIterator[Any]) -> int:
        """How much it says before it waits."""
        task: asyncio.Task[Any] | None = None
        try:
            for said in range(ANSWERS_MAX):
                task = asyncio.ensure_future(anext(answers, None))
                for _ in range(TURNS):
                    if task.done():
                        break
                    self.house.bench.settle(1)
                    await asyncio.sleep(0)
                else:
                    return said
                answer = task.result()
                if answer is None:
                    return said
                assert isinstance(answer.SerializeToString(), bytes)
            return ANSWERS_MAX
        finally:
            if task is not None and not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await answers.aclose()  # type: ignore[attr-defined]


def _parts(method: MethodDescriptor, data: bytes) -> Iterator[bytes]:
    """One request; or several, each behind a byte that says how long it is."""
    if not method.client_streaming:
        yield data
        return
    while data:
        yield data[1 : 1 + data[0]]
        data = data[1 + data[0] :]


async def _stream(requests: list[Any]) -> AsyncIterator[Any]:
    for request in requests:
        yield request


def _written(method: MethodDescriptor, answer: Any) -> None:
    """A message, or a large one in pieces."""
    kind = GetMessageClass(method.output_type)
    made = kind.FromString(b"".join(answer)) if isinstance(answer, list) else answer
    assert isinstance(made, kind), (method.full_name, answer)
    assert kind.FromString(made.SerializeToString()) == made


def seeds() -> Iterator[tuple[str, bytes]]:
    """An input for each request, and a name for it; of a stream, all requests in one."""
    inside = Inside()
    samples = _of_etcd() | _of_members(inside) | _of_the_journal(inside) | _of_mqtt(inside) | _of_others()
    for number, (method, _) in enumerate(inside.methods):
        said = [sample.SerializeToString() for sample in samples[method.full_name]]
        if method.client_streaming:
            said = [b"".join(bytes([len(one)]) + one for one in said)]
        for at, data in enumerate(said):
            yield f"{method.full_name}-{at}", bytes([number]) + data


def _of_etcd() -> Samples:
    put = pb.PutRequest(key=b"a", value=b"2", lease=LEASE, prev_kv=True)
    get = pb.RangeRequest(key=b"a", range_end=b"b", limit=1, sort_order=pb.RangeRequest.DESCEND, revision=5)
    delete = pb.DeleteRangeRequest(key=b"a", range_end=b"\x00", prev_kv=True)
    compare = [
        pb.Compare(key=b"a", target=pb.Compare.VALUE, value=b"1"),
        pb.Compare(key=b"a", range_end=b"c", target=pb.Compare.LEASE, lease=LEASE, result=pb.Compare.LESS),
    ]
    operations = [pb.RequestOp(request_put=put), pb.RequestOp(request_range=get)]
    inner = pb.TxnRequest(compare=compare, success=operations, failure=[pb.RequestOp(request_delete_range=delete)])
    txn = pb.TxnRequest(success=[pb.RequestOp(request_txn=inner)], failure=operations)
    watch = pb.WatchCreateRequest(
        key=b"a", range_end=b"c", start_revision=1, prev_kv=True, fragment=True, progress_notify=True, watch_id=3
    )
    return {
        "etcdserverpb.KV.Range": [get, pb.RangeRequest(key=b"a", keys_only=True, max_mod_revision=9)],
        "etcdserverpb.KV.Put": [put, pb.PutRequest(key=b"a", ignore_value=True)],
        "etcdserverpb.KV.DeleteRange": [delete],
        "etcdserverpb.KV.Txn": [txn, inner],
        "etcdserverpb.KV.Compact": [pb.CompactionRequest(revision=3)],
        "etcdserverpb.Watch.Watch": [
            pb.WatchRequest(create_request=watch),
            pb.WatchRequest(cancel_request=pb.WatchCancelRequest(watch_id=3)),
            pb.WatchRequest(progress_request=pb.WatchProgressRequest()),
        ],
        "etcdserverpb.Lease.LeaseGrant": [pb.LeaseGrantRequest(TTL=9, ID=8)],
        "etcdserverpb.Lease.LeaseRevoke": [pb.LeaseRevokeRequest(ID=LEASE)],
        "etcdserverpb.Lease.LeaseKeepAlive": [pb.LeaseKeepAliveRequest(ID=LEASE), pb.LeaseKeepAliveRequest(ID=8)],
        "etcdserverpb.Lease.LeaseTimeToLive": [pb.LeaseTimeToLiveRequest(ID=LEASE, keys=True)],
        "etcdserverpb.Lease.LeaseLeases": [pb.LeaseLeasesRequest()],
        "etcdserverpb.Maintenance.Status": [pb.StatusRequest()],
        "etcdserverpb.Maintenance.HashKV": [pb.HashKVRequest(revision=5)],
        "etcdserverpb.Maintenance.MoveLeader": [pb.MoveLeaderRequest(targetID=1), pb.MoveLeaderRequest(targetID=2)],
        "etcdserverpb.Maintenance.Alarm": [pb.AlarmRequest(action=pb.AlarmRequest.GET, alarm=pb.NOSPACE)],
        "etcdserverpb.Cluster.MemberList": [pb.MemberListRequest(linearizable=True)],
    }


def _of_members(inside: Inside) -> Samples:
    service, at = "quorate.meta.v1.Members.", {name: one.epoch for name, one in inside.state.members.items()}
    selector = members_pb2.MemberSelector(roles=["mqtt"], states=[members_pb2.MEMBER_STATE_ACTIVE])
    health = members_pb2.MemberHealth(disk_used_bytes=1, disk_total_bytes=2, cpu_percent=3)
    beats: list[Message] = [
        members_pb2.MemberHeartbeatRequest(name="m4", epoch=at["m4"], applied_revision=at["m4"], health=health),
        members_pb2.MemberHeartbeatRequest(name="m1", epoch=at["m1"], want_drain=True),
    ]
    again: dict[str, Any] = {"name": "m1", "incarnation": "1", "roles": ["mqtt"], "timeout_ms": 9_000}
    new: dict[str, Any] = {
        "name": "n",
        "incarnation": "1",
        "addresses": {"mqtt": "h:1"},
        "labels": {"rack": "1"},
        "timeout_ms": 9_000,
    }
    return {
        service + "Register": [members_pb2.RegisterMemberRequest(**one) for one in (new, again)],
        service + "Heartbeat": beats,
        service + "Heartbeats": beats,
        service + "Drain": [members_pb2.DrainMemberRequest(name="m1", epoch=at["m1"])],
        service + "Unregister": [
            members_pb2.UnregisterMemberRequest(name="m1", epoch=at["m1"], force=True),
            members_pb2.UnregisterMemberRequest(name="m4"),
        ],
        service + "List": [members_pb2.ListMembersRequest(selector=selector, after="m1", limit=1)],
        service + "Describe": [members_pb2.DescribeMemberRequest(name="m1")],
        service + "Watch": [members_pb2.WatchMembersRequest(selector=selector, start_revision=1)],
    }


def _of_the_journal(inside: Inside) -> Samples:
    service, state = "quorate.meta.v1.Journal.", inside.state
    segment, old = state.segments["s"][0], state.segments["old"][0].copies[0]
    leader = journal_pb2.SegmentLeader(
        member=segment.leader, leader_epoch=segment.leader_epoch, member_epoch=segment.member_epoch
    )
    alone = [journal_pb2.InSyncCopy(member=segment.leader, member_epoch=segment.member_epoch)]
    return {
        service + "CreateShard": [
            journal_pb2.CreateShardRequest(shard="n", replication=2, min_in_sync=1, spread="rack"),
            journal_pb2.CreateShardRequest(shard="n", replication=1, require={"rack": ""}),
        ],
        service + "NextSegment": [journal_pb2.NextSegmentRequest(shard="s", current=0, end_offset=5, leader=leader)],
        service + "Seal": [journal_pb2.SealRequest(segment="s/0", end_offset=5, leader=leader)],
        service + "AlterInSync": [
            journal_pb2.AlterInSyncRequest(segment="s/0", leader=leader, set_epoch=segment.set_epoch, in_sync=alone)
        ],
        service + "ElectLeader": [journal_pb2.ElectLeaderRequest(segment="s/0", member=segment.copies[1])],
        service + "DeleteShard": [journal_pb2.DeleteShardRequest(shard="s", epoch=state.shards["s"].epoch)],
        service + "AckDeleted": [
            journal_pb2.AckDeletedRequest(
                segment="old/0",
                shard_epoch=state.shards["old"].epoch,
                member=old,
                member_epoch=state.members[old].epoch,
            )
        ],
        service + "Describe": [journal_pb2.DescribeShardRequest(shard="s", after=-1, limit=2)],
        service + "List": [journal_pb2.ListShardsRequest(after="old", limit=1)],
        service + "Health": [journal_pb2.StorageHealthRequest()],
        service + "WhatIf": [journal_pb2.JournalWhatIfRequest(members=["m1", "m2"])],
        service + "Watch": [journal_pb2.WatchJournalRequest(shard="s", member=segment.leader, start_revision=1)],
    }


def _of_mqtt(inside: Inside) -> Samples:
    service, epoch = "quorate.meta.v1.Mqtt.", inside.state.sessions["c"].session_epoch
    m2, (handed,) = inside.state.members["m2"].epoch, inside.state.wills.values()
    will = mqtt_pb2.Will(topic="t/w", payload=b"1", qos=1, delay_s=5)
    opening: dict[str, Any] = {"client": "c", "expiry_s": 60, "will": will, "member": "m2", "member_epoch": m2}
    once = f"{inside.house.bench.loop.time_ms()}-once"
    added = [mqtt_pb2.Subscription(filter="a/#", qos=2, no_local=True, identifier=3)]
    return {
        service + "OpenSession": [
            mqtt_pb2.OpenSessionRequest(**opening, request_id=once),
            mqtt_pb2.OpenSessionRequest(**opening, clean_start=True),
        ],
        service + "CloseSession": [
            mqtt_pb2.CloseSessionRequest(client="c", session_epoch=epoch, with_will=True, expiry_s=9),
            mqtt_pb2.CloseSessionRequest(client="c", end=True, administrator=True),
        ],
        service + "PutSubscriptions": [
            mqtt_pb2.PutSubscriptionsRequest(client="c", session_epoch=epoch, added=added, removed=["t/+"])
        ],
        service + "Match": [mqtt_pb2.MatchRequest(topic="t/1", qos=1)],
        service + "Locate": [mqtt_pb2.LocateRequest(client="c", revision=inside.house.revision)],
        service + "List": [mqtt_pb2.ListSessionsRequest(member="m2", after="c", limit=1)],
        service + "ListWills": [mqtt_pb2.ListWillsRequest(member="m2")],
        service + "AcknowledgeWill": [
            mqtt_pb2.AcknowledgeWillRequest(
                will=handed.session_epoch, member=handed.member, member_epoch=handed.member_epoch
            )
        ],
        service + "Watch": [mqtt_pb2.WatchSessionsRequest(member="m2", start_revision=1)],
    }


def _of_others() -> Samples:
    offsets, health = "quorate.meta.v1.Offsets.", "grpc.health.v1.Health."
    commit = offsets_pb2.CommitOffset(shard="n", offset=3, expected_revision=0)
    kind = reflection_pb2.ExtensionRequest(containing_type="google.protobuf.MethodOptions", extension_number=7)
    asked: list[Message] = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_by_filename="members.proto"),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="etcdserverpb.KV.Range"),
        reflection_pb2.ServerReflectionRequest(file_containing_extension=kind),
        reflection_pb2.ServerReflectionRequest(all_extension_numbers_of_type="google.protobuf.MethodOptions"),
    ]
    return {
        offsets + "Commit": [offsets_pb2.CommitOffsetsRequest(group="g", positions=[commit])],
        offsets + "Fetch": [offsets_pb2.FetchOffsetsRequest(group="g", shards=["s"])],
        offsets + "ListGroups": [offsets_pb2.ListGroupsRequest(after="a", limit=2)],
        offsets + "Delete": [offsets_pb2.DeleteOffsetsRequest(group="g", all=True)],
        "quorate.meta.v1.Cluster.Status": [cluster_pb2.StatusRequest()],
        health + "Check": [health_pb2.HealthCheckRequest(service="quorate.meta.v1.Mqtt")],
        health + "List": [health_pb2.HealthListRequest()],
        health + "Watch": [health_pb2.HealthCheckRequest(service="etcdserverpb.KV")],
        "grpc.reflection.v1.ServerReflection.ServerReflectionInfo": asked,
        "grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo": asked,
    }
