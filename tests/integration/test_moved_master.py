"""A master that comes back at another address, on a real node over remoting: who may move, and how its slave learns."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from quorate.cli.cluster import found
from quorate.node import Node
from quorate.node.settings import NodeSettings, read_settings
from quorate.wire.remoting import Response, RoleChangedRequest
from tests.clusters import free_ports
from tests.contract.client import Remoting
from tests.contract.speaker import NEVER_MS
from tests.unit.consensus.test_peers import until
from tests.unit.gateway.remoting.test_pusher import Broker

pytestmark = pytest.mark.integration

SET = {"clusterName": "C", "brokerName": "a"}
Heard = list[tuple[RoleChangedRequest, bytes]]


class Rpc:
    """Connections to the node's rpc address; blocking clients, beside the loop that the node runs on."""

    def __init__(self, settings: NodeSettings, ends: ExitStack) -> None:
        self._address = settings.me.rpc
        self._ends = ends

    async def connected(self) -> Remoting:
        client = await asyncio.to_thread(Remoting, self._address)
        return self._ends.enter_context(client)

    async def ask(self, code: int, body: dict[str, object] | bytes = b"", /, **fields: object) -> Response:
        client = await self.connected()
        return await asyncio.to_thread(client.ask, code, body, **fields)

    async def beat(self, broker_id: int, address: str, epoch: int) -> None:
        """A broker's channel: it lives as long as that is open."""
        channel = await self.connected()
        fields = {**SET, "brokerId": broker_id, "brokerAddr": address, "heartbeatTimeoutMills": NEVER_MS}
        answer = await asyncio.to_thread(channel.ask, 904, b"", **fields, epoch=epoch, maxOffset=0, confirmOffset=0)
        assert answer.code == 0

    async def register(self, broker_id: int, address: str) -> int:
        """1003."""
        return (await self.ask(1003, **SET, brokerId=broker_id, brokerAddress=address)).code


@asynccontextmanager
async def broker() -> AsyncIterator[tuple[str, Heard]]:
    """Where a broker listens, and the role changes (1008) it was told; it acknowledges them."""
    heard: Heard = []
    server = await asyncio.get_running_loop().create_server(lambda: Broker(heard, 0, []), "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", heard
    finally:
        server.close()


def told(heard: Heard) -> list[tuple[str | None, int | None]]:
    """Whom a broker was told is master, and the epoch."""
    return [(request.fields.master_address, request.fields.master_epoch) for request, _ in heard]


def test_a_slave_learns_where_its_master_moved(tmp_path: Path) -> None:
    """While the master is heard at its address, no other is taken. A leader that has not heard it yet takes it: in a
    new epoch, pushed to the slave (1008) and told to whoever asks (1004), for a slave follows no address of its epoch.
    """
    [place] = found(tmp_path, 1, free_ports(10))
    settings = read_settings(place.config, {}, {})

    async def scenario() -> None:
        async with broker() as (old, _), broker() as (new, _), broker() as (slave, heard):
            with ExitStack() as ends:
                rpc = Rpc(settings, ends)
                async with Node(settings) as node:
                    await node.ready()
                    for broker_id, address in ((1, old), (2, slave)):
                        code = f"{address};1"
                        applied = await rpc.ask(1013, **SET, appliedBrokerId=broker_id, registerCheckCode=code)
                        assert (applied.code, await rpc.register(broker_id, address)) == (0, 0)
                        await rpc.beat(broker_id, address, epoch=-1)
                    assert (await rpc.ask(1002, **SET, brokerId=1)).code == 0
                    await until(lambda: (old, 1) in told(heard))
                    assert await rpc.register(1, new) == 2014
                    assert (await rpc.ask(1004, brokerName="a")).fields["masterAddress"] == old
                async with Node(settings) as node:
                    await node.ready()
                    await rpc.beat(2, slave, epoch=1)
                    assert await rpc.register(1, new) == 0
                    await until(lambda: (new, 2) in told(heard))
                    now = (await rpc.ask(1004, brokerName="a")).fields
                    assert (now["masterAddress"], now["masterEpoch"]) == (new, "2")

    async def within() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(within())
