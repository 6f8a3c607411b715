"""``etcdserverpb.Lease``: grant, revoke, keep alive, time to live, list.

Rules: whoever asks for any number gets a drawn one. A keep-alive is a command, so its answer is of a leader that still
leads; of a lease that is not there it says a TTL of 0, and asked for its time to live -1, as etcd does.
"""

import asyncio
from collections.abc import AsyncIterator
from itertools import islice

from quorate.gateway.grpc.asking import Asking, Call, in_turns
from quorate.gateway.grpc.codes import CallError, StatusCode
from quorate.gateway.grpc.pb import rpc_pb2
from quorate.gateway.grpc.pieces import KEY_BYTES
from quorate.metadata.commands import Accepted, AskLease, GrantLease, KeepLease, LeaseIs, RevokeLease
from quorate.slices import sorting

GONE_TTL = 0
UNKNOWN_TTL = -1


class LeaseService:
    """The handlers."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def grant(self, request: rpc_pb2.LeaseGrantRequest, call: Call) -> rpc_pb2.LeaseGrantResponse:
        """A lease begins."""
        number = request.ID or self._asking.context.chance.randrange(1, 1 << 63)
        command = GrantLease(lease=number, ttl_s=request.TTL)
        reply, revision = await self._asking.submit(command, call, _resource(number), LeaseIs)
        return rpc_pb2.LeaseGrantResponse(header=self._asking.header(revision), ID=reply.lease, TTL=reply.ttl_s)

    async def revoke(self, request: rpc_pb2.LeaseRevokeRequest, call: Call) -> rpc_pb2.LeaseRevokeResponse:
        """A lease ends, and its keys with it."""
        command = RevokeLease(lease=request.ID)
        _, revision = await self._asking.submit(command, call, _resource(request.ID), Accepted)
        return rpc_pb2.LeaseRevokeResponse(header=self._asking.header(revision))

    async def keep_alive(
        self, requests: AsyncIterator[rpc_pb2.LeaseKeepAliveRequest], call: Call
    ) -> AsyncIterator[rpc_pb2.LeaseKeepAliveResponse]:
        """One answer to each request, in their order."""
        async for request in requests:
            header = self._asking.header()  # As it was before: no client hears of a revision at which it was gone.
            try:
                reply, _ = await self._asking.submit(
                    KeepLease(lease=request.ID), call, _resource(request.ID), LeaseIs, applied_here=False
                )
                ttl_s = reply.ttl_s
            except CallError as error:
                if error.code is not StatusCode.NOT_FOUND:
                    raise
                ttl_s = GONE_TTL
            yield rpc_pb2.LeaseKeepAliveResponse(header=header, ID=request.ID, TTL=ttl_s)

    async def time_to_live(
        self, request: rpc_pb2.LeaseTimeToLiveRequest, call: Call
    ) -> rpc_pb2.LeaseTimeToLiveResponse:
        """What is left of a lease; its keys, if they are asked for."""
        command = AskLease(lease=request.ID, with_keys=request.keys)
        try:
            reply, revision = await self._asking.submit(command, call, _resource(request.ID), LeaseIs)
        except CallError as error:
            if error.code is not StatusCode.NOT_FOUND:
                raise
            return rpc_pb2.LeaseTimeToLiveResponse(header=self._asking.header(), ID=request.ID, TTL=UNKNOWN_TTL)
        return rpc_pb2.LeaseTimeToLiveResponse(
            header=self._asking.header(revision),
            ID=reply.lease,
            TTL=reply.left_s,
            grantedTTL=reply.ttl_s,
            keys=reply.keys,
        )

    async def leases(self, request: rpc_pb2.LeaseLeasesRequest, call: Call) -> rpc_pb2.LeaseLeasesResponse:
        """All of them."""
        self._asking.allowed("ListLeases", "lease")
        view = await self._asking.view(call)
        response = rpc_pb2.LeaseLeasesResponse(header=self._asking.header(max(view.offset - 1, 0)))
        waiting, settings = await in_turns(sorting(view.state.leases)), self._asking.context.settings
        while chunk := list(islice(waiting, settings.keys_per_turn)):
            if response.leases:
                await asyncio.sleep(0)
            call.hold(KEY_BYTES * len(chunk))
            response.leases.extend([rpc_pb2.LeaseStatus(ID=number) for number in chunk])
        return response


def _resource(lease: int) -> str:
    return f"lease/{lease:x}"
