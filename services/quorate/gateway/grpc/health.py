"""``grpc.health.v1.Health``: should clients come to this node?

Rules: one answer for the server (the empty name) and for each service on it: what ``/readyz`` says, and that the node
has caught up, which a linearizable read proves (so a node without a quorum does not serve; as etcd's own check).
A name that is not served is NOT_FOUND, and watched it is SERVICE_UNKNOWN, as the protocol has it. A watch hears of
changes only.
"""

import asyncio
from collections.abc import AsyncIterator, Collection

from grpc_health.v1 import health_pb2

from quorate.gateway.grpc.asking import Asking, Call
from quorate.gateway.grpc.codes import CallError, StatusCode

_Status = health_pb2.HealthCheckResponse


class HealthService:
    """The handlers. ``names``: the services that are served."""

    def __init__(self, asking: Asking, names: Collection[str]) -> None:
        self._asking, self._context = asking, asking.context
        self._names = {"", *names}

    async def _status(self, call: Call) -> health_pb2.HealthCheckResponse:
        try:
            if not self._context.unready():
                await self._asking.view(call)
                return _Status(status=_Status.SERVING)
        except CallError:
            pass
        return _Status(status=_Status.NOT_SERVING)

    async def check(self, request: health_pb2.HealthCheckRequest, call: Call) -> health_pb2.HealthCheckResponse:
        """As it is."""
        if request.service not in self._names:
            raise CallError(StatusCode.NOT_FOUND, f"quorate: no service {request.service[:80]!r} is here")
        return await self._status(call)

    async def listing(self, request: health_pb2.HealthListRequest, call: Call) -> health_pb2.HealthListResponse:
        """Of every service."""
        status = await self._status(call)
        return health_pb2.HealthListResponse(statuses=dict.fromkeys(sorted(self._names), status))

    async def watch(
        self, request: health_pb2.HealthCheckRequest, call: Call
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """As it is, and then whenever it changes."""
        last = None
        while True:
            known = request.service in self._names
            status = await self._status(call) if known else _Status(status=_Status.SERVICE_UNKNOWN)
            if status != last:
                last = status
                yield status
            await asyncio.sleep(self._context.settings.health_period_s)
