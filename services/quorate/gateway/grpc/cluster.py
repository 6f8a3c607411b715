"""What a client asks of the cluster itself: ``Cluster.MemberList``, ``Maintenance``, and ``quorate.meta.v1.Cluster``.

Rules: a member's number is its node's id. ``Status.version`` is the version of etcd's API that is spoken here, and
behind the plus who speaks it: clients compare its first two numbers with what they need (``clientv3`` refuses an old
3.x), so the number is a promise about the API and not the name of a build.
"""

import asyncio
from collections.abc import Iterable
from itertools import islice
from zlib import crc32

from quorate.consensus.ports import NodeId
from quorate.gateway.grpc.asking import Asking, Call
from quorate.gateway.grpc.codes import BAD_TRANSFEREE, NO_LEADER, NOT_LEADER, TIMED_OUT, CallError, StatusCode
from quorate.gateway.grpc.pb import cluster_pb2, rpc_pb2
from quorate.model.state import KeyValue

API_VERSION = "3.5.0"
LOOK_S = 0.02
"""How often a node that hands over looks whether another leads."""
OF_NO_KEYS = crc32(b"key")
"""Not 0, as etcd's never is: JSON of protobuf leaves a 0 out, and a tool would miss it."""


class ClusterService:
    """The handlers of all three."""

    def __init__(self, asking: Asking) -> None:
        self._asking, self._context = asking, asking.context

    async def member_list(self, request: rpc_pb2.MemberListRequest, call: Call) -> rpc_pb2.MemberListResponse:
        """Every voter."""
        members = [
            rpc_pb2.Member(
                ID=voter.node_id,
                name=f"node-{voter.node_id}",
                peerURLs=[f"http://{voter.raft}"],
                clientURLs=[f"http://{voter.grpc}"] if voter.grpc else [],
            )
            for voter in self._context.voters
        ]
        if request.linearizable:
            await self._asking.view(call)
        return rpc_pb2.MemberListResponse(header=self._asking.header(), members=members)

    async def status(self, request: rpc_pb2.StatusRequest, call: Call) -> rpc_pb2.StatusResponse:
        """Of the node that is asked, as it is."""
        context = self._context
        leader = context.controller.leader_id
        index = context.machine.applied_index()
        return rpc_pb2.StatusResponse(
            header=self._asking.header(),
            version=f"{API_VERSION}+quorate.{context.version}",
            dbSize=context.disk_bytes(),
            dbSizeInUse=context.machine.sums.bytes,
            leader=leader or 0,
            raftIndex=index,
            raftAppliedIndex=index,
            raftTerm=context.controller.term,
            errors=[*(() if leader else (NO_LEADER[1],)), *context.no_space(), *context.corrupt()],
        )

    async def alarm(self, request: rpc_pb2.AlarmRequest, call: Call) -> rpc_pb2.AlarmResponse:
        """Those that stand. They are not set nor taken away by a client: each ends when its cause does."""
        if request.action != rpc_pb2.AlarmRequest.GET:
            raise CallError(StatusCode.UNIMPLEMENTED, "quorate: an alarm stands for as long as its cause; see status")
        alarms = [
            rpc_pb2.AlarmMember(memberID=node, alarm=kind)
            for kind, nodes in (
                (rpc_pb2.NOSPACE, self._context.short_of_space()),
                (rpc_pb2.CORRUPT, self._context.differing()),
            )
            if request.alarm in (rpc_pb2.NONE, kind)
            for node in nodes
        ]
        return rpc_pb2.AlarmResponse(header=self._asking.header(), alarms=alarms)

    async def hash_kv(self, request: rpc_pb2.HashKVRequest, call: Call) -> rpc_pb2.HashKVResponse:
        """A sum over all keys at a revision, the same on every node; not the number that etcd's own would have."""
        keys, now = await self._asking.keys_at(request.revision, call, stale=True)
        total = await self._sum(value for _, value in keys.items())
        return rpc_pb2.HashKVResponse(
            header=self._asking.header(now), hash=total, hash_revision=request.revision if request.revision > 0 else now
        )

    async def _sum(self, values: Iterable[KeyValue]) -> int:
        total, waiting = OF_NO_KEYS, iter(values)
        while chunk := list(islice(waiting, self._context.settings.keys_per_turn)):
            for one in chunk:
                facts = (
                    f"{one.key} {one.create_revision} {one.mod_revision} {one.version} {one.lease} {len(one.value)} "
                )
                total = crc32(one.value, crc32(facts.encode(), total))
            await asyncio.sleep(0)
        return total

    async def move_leader(self, request: rpc_pb2.MoveLeaderRequest, call: Call) -> rpc_pb2.MoveLeaderResponse:
        """The leader gives way to another; asked of a node that does not lead, it is refused, as by etcd."""
        self._asking.allowed("MoveLeader", "cluster")
        self._asking.time_for(call)
        context, target = self._context, request.targetID
        if not context.controller.is_leader:
            raise CallError(*NOT_LEADER)
        if target not in {voter.node_id for voter in context.voters}:
            raise CallError(*BAD_TRANSFEREE)
        if target != context.node_id:
            if not context.engine.transfer_leadership(NodeId(target)):
                raise CallError(*BAD_TRANSFEREE)
            await self._led_by(target)
        return rpc_pb2.MoveLeaderResponse(header=self._asking.header())

    async def _led_by(self, target: int) -> None:
        scheduler, settings = self._context.scheduler, self._context.settings
        until = scheduler.monotonic() + settings.answer_timeout_s
        while self._context.controller.leader_id != target:
            if scheduler.monotonic() > until:
                raise CallError(*TIMED_OUT)
            await asyncio.sleep(LOOK_S)

    async def meta_status(self, request: cluster_pb2.StatusRequest, call: Call) -> cluster_pb2.StatusResponse:
        """Who leads, who votes, how far this node is."""
        context = self._context
        unready = context.unready()
        return cluster_pb2.StatusResponse(
            cluster_id=context.cluster_id,
            node_id=context.node_id,
            leader_id=context.controller.leader_id or 0,
            term=context.controller.term,
            revision=context.controller.offset - 1,
            feature_level=context.controller.state.feature_level,
            ready=not unready,
            reason=unready,
            version=context.version,
            voters=[
                cluster_pb2.Voter(
                    node_id=voter.node_id,
                    zone=voter.zone,
                    connected=context.connected(voter.node_id),
                    grpc=voter.grpc,
                    http=voter.http,
                    kafka=voter.kafka,
                    rpc=voter.rpc,
                )
                for voter in context.voters
            ],
        )
