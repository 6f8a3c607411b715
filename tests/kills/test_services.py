"""Whatever services were told holds, and whatever they began ends, while nodes are killed as soon as all are ready
again. A stock producer and consumer of RocketMQ, with these nodes as name servers and controllers, go on meanwhile.
"""

import asyncio
import random
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from quorate.cli.client import Node, NodeError
from quorate.gateway.grpc.pb import journal_pb2, members_pb2, mqtt_pb2, rpc_pb2
from quorate.gateway.grpc.pb.journal_pb2_grpc import JournalStub
from quorate.gateway.grpc.pb.members_pb2_grpc import MembersStub
from quorate.gateway.grpc.pb.rpc_pb2_grpc import KVStub
from quorate.gateway.http.answers import Status
from tests.clusters import until
from tests.kills.calls import Calls
from tests.kills.ledger import Ledger, read_log
from tests.kills.services import LEASE_S, Services, Size, Told
from tests.rocketmq.world import World, begun

pytestmark = pytest.mark.peers
PATIENCE_S = 120.0
"""For a start on a machine with other work."""
PAGE = 5_000
CLOCK_MS = 2
"""By which two readings of one clock may differ, for they are rounded."""

DONE: Final = {"keys": 100, "moved": 5, "subscribed": 5, "held": 20, "sets": 3, "segments": 2, "messages": 10}
LEAST: Final = {**DONE, "kills": 3, "leases": 1, "brief": 1, "deletions": 1}
"""Of what is done and answered; a fraction of the usual."""
AT_LENGTH: Final = {"keys": 3_000, "held": 1_000, "kills": 20, "leases": 101, "brief": 101, "deletions": 21}
LEAST_AT_LENGTH: Final = {name: 10 * count for name, count in DONE.items()} | AT_LENGTH


def ready(world: World) -> bool:
    """Does every node serve?"""
    try:
        return all(Node(node["http"], 1.0).get("/v1/status", Status).ready for node in world.cluster.nodes.values())
    except NodeError:
        return False


def kill(world: World, seed: int, kills: int, seconds: float) -> int:
    """At least so many kills and for so long: the leader or anybody, as soon as all are ready; how many there were."""
    chance, count, end = random.Random(seed), 0, time.monotonic() + seconds
    while count < kills or time.monotonic() < end:
        victim = chance.choice([world.cluster.leader(), *world.cluster.nodes])
        world.cluster.kill(victim)
        world.cluster.restart(victim)
        count += 1
        until(lambda: ready(world), "all are ready again", PATIENCE_S)
    return count


class Trade:
    """A stock producer and a stock push consumer, without a name server."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._over = threading.Event()
        self.acked: set[int] = set()

    def begin(self) -> None:
        """Two brokers, a topic, a consumer that listens, messages."""
        for number in (1, 2):
            self._world.start_broker(number)
        self._world.until_in_sync(1, 2)
        assert self._world.ask(17, topic="story", readQueueNums=4, writeQueueNums=4, perm=6).code == 0
        addresses = self._world.cluster.addresses
        self._world.until(
            "the topic has a route", lambda: all("0" in self._world.route(at, "story")[1] for at in addresses)
        )
        self._world.peer.subscribe()
        self.acked |= self._world.peer.send(0, 5)

    def go_on(self) -> None:
        """A few messages a second until it is over."""
        while not self._over.wait(0.5):
            self.acked |= self._world.peer.send(max(self.acked) + 1, 2)

    def end(self) -> None:
        """No more."""
        self._over.set()


async def campaign(world: World, size: Size, *, kills: int, seconds: float) -> dict[str, int]:
    """All of it; what there was. Fails when something told does not hold."""
    world.cluster.raise_level(2)
    trade = Trade(world)
    await asyncio.to_thread(trade.begin)
    addresses = [node["grpc"] for node in world.cluster.nodes.values()]
    async with Calls(addresses, random.Random(1)) as calls:
        services = Services(calls, size, seed=1)
        async with asyncio.TaskGroup() as group:
            try:
                await services.begin(group)
                group.create_task(asyncio.to_thread(trade.go_on))
                killed = await asyncio.to_thread(kill, world, 1, kills, seconds)
                before = len(trade.acked)
                await services.settle()
            finally:
                services.stop()
                trade.end()
        trade.acked |= await asyncio.to_thread(world.peer.send, max(trade.acked) + 1, 5)
        assert len(trade.acked) > before
        world.until("the consumer has all", lambda: trade.acked <= world.peer.received())
        for node in range(len(addresses)):
            await holds_at(node, calls, services)
    ledger = Ledger()
    for offset, term, time_ms, event in read_log(",".join(node["kafka"] for node in world.cluster.nodes.values())):
        ledger.take(offset, term, time_ms, event)
    holds_in(ledger, services.told)
    told = services.told
    return {
        **told.answered,
        "kills": killed,
        "messages": len(trade.acked),
        "leases": len(ledger.ended_ms),
        "brief": len(told.brief),
        "sets": len(told.sets),
        "segments": len(told.ends),
        "deletions": len(told.deletions),
        "across terms": ledger.across,
        "unknown": calls.unknown,
        "doubtful keys": len(told.doubtful),
        "doubtful sessions": len(told.unsure),
    }


def enough(counts: Mapping[str, int], least: Mapping[str, int]) -> None:
    """So much was done and answered; and of keys and sessions at most a fifth of what was changed is unknown."""
    assert {what: counts.get(what, 0) for what, count in least.items() if counts.get(what, 0) < count} == {}
    assert counts["doubtful keys"] * 5 <= counts["keys"]
    assert counts["doubtful sessions"] * 5 <= counts["moved"] + counts["subscribed"]


async def holds_at(node: int, calls: Calls, services: Services) -> None:
    """What was told is what this node answers."""
    told, keys = services.told, await all_keys(node, calls)
    assert {key: value for key, value in told.keys.items() if value is not None} == {
        key: value for key, value in keys.items() if key in told.keys
    }
    assert {key for key, values in told.doubtful.items() if keys.get(key) not in values} == set()
    assert keys.keys() <= told.keys.keys() | told.doubtful.keys(), "what leases had is gone"
    sessions_hold(told, await services.sessions(node))
    members = await calls.ask(MembersStub, "List", members_pb2.ListMembersRequest(), node=node)
    found = {one.name: one.epoch for one in members.members if "mqtt" in one.roles}
    assert found == told.members
    shards = await calls.ask(JournalStub, "List", journal_pb2.ListShardsRequest(), node=node)
    assert told.shards <= {one.name for one in shards.shards if not one.deleting}
    segments_hold(told, [await services.describe(name, node) for name in sorted(told.shards)])


def sessions_hold(told: Told, sessions: Iterable[mqtt_pb2.Session]) -> None:
    """These are all there are: who has which client, and to what it has subscribed."""
    found = {one.client: one for one in sessions}
    assert told.subscriptions.keys() <= found.keys()
    assert {client: (found[client].session_epoch, found[client].member) for client in told.sessions} == told.sessions
    filters = {client: {one.filter for one in found[client].subscriptions} for client in told.subscriptions}
    assert {
        client: (filters[client], has)
        for client, has in told.subscriptions.items()
        if not filters[client] ^ has <= told.unsure.get(client, set())
    } == {}
    assert not told.brief & found.keys()


def segments_hold(told: Told, shards: Sequence[journal_pb2.DescribeShardResponse]) -> None:
    """Of these shards each segment ends where it was said."""
    epochs = {one.shard.epoch for one in shards}
    found = {(one.shard.epoch, seg.name): seg.end_offset for one in shards for seg in one.segments if seg.sealed}
    ends = {place: end for place, end in told.ends.items() if place[0] in epochs}
    assert {place: found.get(place) for place in ends} == ends


async def all_keys(node: int, calls: Calls) -> dict[bytes, bytes]:
    """Page by page."""
    found: dict[bytes, bytes] = {}
    start = b"\x00"
    while True:
        asked = rpc_pb2.RangeRequest(key=start, range_end=b"\x00", limit=PAGE)
        page = await calls.ask(KVStub, "Range", asked, node=node)
        found.update((one.key, one.value) for one in page.kvs)
        if not page.more:
            return found
        start = page.kvs[-1].key + b"\x00"


def holds_in(ledger: Ledger, told: Told) -> None:
    """What was told is what the log says; what was begun has ended."""
    assert {epoch: who for epoch, who in told.given.items() if ledger.given.get(epoch) != who} == {}
    assert {key: ledger.keys.get(key) for key in told.keys} == told.keys
    assert told.sets <= ledger.sets
    assert {place: ledger.ends.get(place) for place in told.ends} == told.ends
    assert told.copies <= ledger.copies
    assert told.deletions <= ledger.gone
    assert not ledger.deleting
    assert not ledger.leases
    early = {
        lease: ledger.ended_ms.get(lease)
        for lease, heard_s in told.beats.items()
        if ledger.ended_ms.get(lease, 0) < int((heard_s + LEASE_S) * 1000) - CLOCK_MS
    }
    assert early == {}, "a lease ends, and not within its time from a word that was answered"
    assert not told.brief & ledger.sessions.keys()


@pytest.mark.timeout(300)
def test_what_services_were_told_holds_through_kills(tmp_path: Path) -> None:
    """Three kills; ten members, four shards, 300 sessions, 2,000 keys."""
    size = Size(members=10, shards=4, sessions=300, keys=2_000, leases=5, rate=40)
    with begun(tmp_path, name_server=False) as world:
        counts = asyncio.run(campaign(world, size, kills=3, seconds=10))
    print(counts)
    enough(counts, LEAST)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_services_were_told_holds_through_five_minutes_of_kills(tmp_path: Path) -> None:
    """Five minutes of kills; fifty members, twenty shards, 10,000 sessions, 100,000 keys."""
    size = Size(members=50, shards=20, sessions=10_000, keys=100_000, leases=20, rate=100)
    with begun(tmp_path, name_server=False) as world:
        counts = asyncio.run(campaign(world, size, kills=20, seconds=300))
    print(counts)
    enough(counts, {**LEAST, **LEAST_AT_LENGTH})
