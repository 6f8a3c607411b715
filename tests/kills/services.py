"""Services that use a cluster as theirs: members, keys, leases, sessions, shards; and what each was told.

Rules: whoever writes keeps his pace whoever answers, with a bound on what is under way. What was acknowledged is
remembered. What nobody knows of is asked again where asking twice does no harm; a key or a session whose fate is
unknown is left alone from then on, so that what it may be stays a matter of two values. In the end everybody finishes
what he began: leases run out, sessions expire, shards that are to go are gone.
"""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from quorate.gateway.grpc.pb import journal_pb2, members_pb2, mqtt_pb2, rpc_pb2
from quorate.gateway.grpc.pb.journal_pb2_grpc import JournalStub
from quorate.gateway.grpc.pb.members_pb2_grpc import MembersStub
from quorate.gateway.grpc.pb.mqtt_pb2_grpc import MqttStub
from quorate.gateway.grpc.pb.rpc_pb2_grpc import KVStub, LeaseStub
from tests.kills.calls import AGAIN_S, Calls, Failed, Refused, Unknown, certain
from tests.kills.cluster import LostError

LASTING_S: Final = 86_400
BRIEF_S: Final = 2
LEASE_S: Final = 2
BEAT_S: Final = 1.0
MEMBER_TIMEOUT_MS: Final = 5_000
TXN_KEYS: Final = 100
FILLING: Final = 32
"""Calls under way while there is nothing yet."""
SETTLE_S: Final = 90.0


@dataclass(frozen=True)
class Size:
    """How much of everything there is; ``rate``: writes of keys a second, and a tenth of it of sessions."""

    members: int
    shards: int
    sessions: int
    keys: int
    leases: int
    rate: int


@dataclass
class Told:
    """What was acknowledged; of what is unknown, what it may be."""

    keys: dict[bytes, bytes | None] = field(default_factory=dict)
    doubtful: dict[bytes, set[bytes | None]] = field(default_factory=dict)
    sessions: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Of those that last: the session epoch, and who has the client."""
    subscriptions: dict[str, set[str]] = field(default_factory=dict)
    """Of all that last: the filters."""
    unsure: dict[str, set[str]] = field(default_factory=dict)
    """Clients of whom something is unknown, and of which filters."""
    given: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Every epoch that was told: what has it, and who."""
    brief: set[str] = field(default_factory=set)
    """Clients that were there and went."""
    beats: dict[int, float] = field(default_factory=dict)
    """Leases, and when their holder last asked and was answered (epoch seconds)."""
    members: dict[str, int] = field(default_factory=dict)
    shards: set[str] = field(default_factory=set)
    sets: set[tuple[str, int, frozenset[str]]] = field(default_factory=set)
    ends: dict[tuple[int, str], int] = field(default_factory=dict)
    """Where a segment ends, by the epoch of its shard and its name."""
    deletions: set[tuple[str, int]] = field(default_factory=set)
    copies: set[tuple[int, str, str]] = field(default_factory=set)
    """That are deleted: the epoch of the shard, the segment, the member."""
    answered: Counter[str] = field(default_factory=Counter)
    """How often each kind of change was."""

    def gives(self, epoch: int, what: str, who: str) -> None:
        """An answer says who has what in this epoch: all answers of all nodes say the same. Raises LostError."""
        if self.given.setdefault(epoch, (what, who)) != (what, who):
            raise LostError(f"epoch {epoch} is of {self.given[epoch]}, and of {what, who}")


class Services:
    """All of them."""

    def __init__(self, calls: Calls, size: Size, seed: int) -> None:
        self._calls, self._size = calls, size
        self._random = random.Random(seed)
        self.told = Told()
        self._living: dict[str, int] = {}
        """Members that are heard, by epoch."""
        self._idle_keys: deque[bytes] = deque(b"k/%06d" % number for number in range(size.keys))
        self._idle_clients: deque[str] = deque(f"c{number}" for number in range(size.sessions))
        self._number = 0
        self._created: set[str] = set()
        self._ending, self._over = asyncio.Event(), asyncio.Event()
        self._finishing: list[asyncio.Task[None]] = []
        """What ends by itself once it is to end."""

    # -- begin and end

    async def begin(self, group: asyncio.TaskGroup) -> None:
        """Members come, then all the rest, until everything is there; from then on it changes."""
        for number in range(self._size.members):
            group.create_task(self._member(f"m{number}"))
        await self._until(lambda: len(self._living) == self._size.members, "all members are there")
        await self._all(self._fill_keys, range(0, self._size.keys, TXN_KEYS))
        await self._all(self._fill_session, range(self._size.sessions))
        for number in range(self._size.shards):
            self._finishing.append(group.create_task(self._shard(f"s{number}")))
        await self._until(lambda: len(self._created) == self._size.shards, "all shards are there")
        for _ in range(self._size.leases):
            self._finishing.append(group.create_task(self._holder()))
        for rate, change in (
            (self._size.rate, self._change_key),
            (self._size.rate / 10, self._change_session),
            (self._size.rate / 20, self._brief_session),
        ):
            self._finishing.append(group.create_task(self._paced(group, rate, change)))

    async def settle(self) -> None:
        """One shard is deleted, whatever chance did; then nobody begins anything any more. Returns when all that was
        begun is done, and due.
        """
        await certain(self._delete_one, SETTLE_S)
        self._ending.set()
        async with asyncio.timeout(SETTLE_S):
            await asyncio.gather(*self._finishing)
            await certain(self._nothing_left, SETTLE_S)

    async def _nothing_left(self) -> None:
        leases = (await self._calls.ask(LeaseStub, "LeaseLeases", rpc_pb2.LeaseLeasesRequest())).leases
        brief = self.told.brief & {one.client for one in await self.sessions()}
        if leases or brief:
            raise Failed(f"{len(leases)} leases and {len(brief)} sessions are left")

    def stop(self) -> None:
        """The members fall silent."""
        self._ending.set()
        self._over.set()

    async def _until(self, true: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + SETTLE_S
        while not true():
            assert time.monotonic() < end, f"not within {SETTLE_S:.0f} s: {what}"
            await asyncio.sleep(0.05)

    async def _all(self, work: Callable[[int], Awaitable[None]], numbers: Sequence[int]) -> None:
        waiting = deque(numbers)

        async def worker() -> None:
            while waiting:
                await work(waiting.popleft())

        async with asyncio.TaskGroup() as group:
            for _ in range(FILLING):
                group.create_task(worker())

    async def _paced(self, group: asyncio.TaskGroup, rate: float, change: Callable[[], Awaitable[None]]) -> None:
        """So many a second, answered or not, as long as no more than a second's worth is under way."""
        under_way: set[asyncio.Task[None]] = set()
        due = time.monotonic()
        while not self._ending.is_set():
            due += 1 / rate
            await asyncio.sleep(max(due - time.monotonic(), 0))
            if len(under_way) < max(rate, 4):
                task = group.create_task(_run(change))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
        await asyncio.gather(*under_way)

    # -- members

    async def _member(self, name: str) -> None:
        """One life after the other; each but the last ends in silence."""
        life = 0
        while not self._over.is_set():
            life += 1
            said = members_pb2.RegisterMemberRequest(
                name=name, incarnation=str(life), roles=("journal", "mqtt"), timeout_ms=MEMBER_TIMEOUT_MS
            )
            epoch = (await certain(lambda: self._calls.ask(MembersStub, "Register", said), SETTLE_S)).epoch  # noqa: B023
            self.told.gives(epoch, name, str(life))
            self.told.members[name] = epoch
            await self._beat(name, epoch)

    async def _beat(self, name: str, epoch: int) -> None:
        """For a while; in the end until all is over."""
        revision, end = epoch, time.monotonic() + self._random.uniform(20, 100)
        while not self._over.is_set() and (self._ending.is_set() or time.monotonic() < end):
            beat = members_pb2.MemberHeartbeatRequest(name=name, epoch=epoch, applied_revision=revision)
            try:
                answer = await self._calls.ask(MembersStub, "Heartbeat", beat)
                revision = max(revision, answer.revision)
                self._living[name] = epoch
            except Refused as refusal:
                if "Member" in refusal.text:
                    raise LostError(f"{name} is nobody else's: {refusal.text}") from refusal
            except Unknown:
                pass
            await asyncio.sleep(BEAT_S)
        if not self._over.is_set():
            self._living.pop(name, None)

    def _any_member(self) -> tuple[str, int]:
        return self._random.choice(list(self._living.items()))

    # -- keys and leases

    async def _fill_keys(self, first: int) -> None:
        names = [b"k/%06d" % number for number in range(first, min(first + TXN_KEYS, self._size.keys))]
        puts = [rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(key=name, value=b"first")) for name in names]
        await certain(lambda: self._calls.ask(KVStub, "Txn", rpc_pb2.TxnRequest(success=puts)), SETTLE_S)
        self.told.keys.update(dict.fromkeys(names, b"first"))

    async def _change_key(self) -> None:
        """A key gets another value, or goes."""
        key = self._idle_keys.popleft()
        self._number += 1
        value = None if self._random.random() < 0.2 else b"%d" % self._number
        try:
            if value is None:
                await self._calls.ask(KVStub, "DeleteRange", rpc_pb2.DeleteRangeRequest(key=key))
            else:
                await self._calls.ask(KVStub, "Put", rpc_pb2.PutRequest(key=key, value=value))
        except Unknown:
            self.told.doubtful[key] = {self.told.keys.pop(key), value}
            return
        except Refused:
            pass
        else:
            self.told.keys[key] = value
            self.told.answered["keys"] += 1
        self._idle_keys.append(key)

    async def _holder(self) -> None:
        """One lease after the other, with a key that is there as long; each is kept for a while, then forgotten."""
        while not self._ending.is_set():
            self._number += 1
            lease, asked_s, has_key = self._number, time.time(), False
            await asyncio.sleep(self._random.random())
            with suppress(Failed):
                await self._calls.ask(LeaseStub, "LeaseGrant", rpc_pb2.LeaseGrantRequest(ID=lease, TTL=LEASE_S))
                self.told.beats[lease] = asked_s
                await self._calls.ask(KVStub, "Put", rpc_pb2.PutRequest(key=b"held/%d" % lease, lease=lease))
                has_key = True
            end = time.monotonic() + self._random.uniform(0, 4 * LEASE_S)
            while lease in self.told.beats and time.monotonic() < end and not self._ending.is_set():
                asked_s = time.time()
                with suppress(Failed):
                    keep = rpc_pb2.LeaseKeepAliveRequest(ID=lease)
                    if (await self._calls.ask_stream(LeaseStub, "LeaseKeepAlive", keep)).TTL > 0:
                        self.told.beats[lease] = asked_s
                    if has_key:
                        await self._look_at_held(lease)
                await asyncio.sleep(LEASE_S / 5)

    async def _look_at_held(self, lease: int) -> None:
        """Whoever answers within the time of a lease has its key. Raises Refused, Unknown, LostError."""
        found = await self._calls.ask(KVStub, "Range", rpc_pb2.RangeRequest(key=b"held/%d" % lease))
        if time.time() < self.told.beats[lease] + LEASE_S:
            if not found.kvs:
                raise LostError(f"lease {lease} lives, and its key is gone")
            self.told.answered["held"] += 1

    # -- sessions

    async def _open(self, client: str, expiry_s: int) -> int:
        """At any member that is heard; the session epoch. Raises Refused, Unknown."""
        member, epoch = self._any_member()
        opening = mqtt_pb2.OpenSessionRequest(client=client, expiry_s=expiry_s, member=member, member_epoch=epoch)
        found: int = (await self._calls.ask(MqttStub, "OpenSession", opening)).session_epoch
        self.told.gives(found, client, member)
        return found

    async def _fill_session(self, number: int) -> None:
        client = f"c{number}"
        epoch = await certain(lambda: self._open(client, LASTING_S), SETTLE_S)
        self.told.subscriptions[client] = set()
        self.told.sessions[client] = epoch, self.told.given[epoch][1]

    async def _change_session(self) -> None:
        """A client comes to another member, or subscribes to a filter, or no longer does."""
        client = self._idle_clients.popleft()
        epoch, _ = self.told.sessions[client]
        changed = set() if self._random.random() < 0.5 else {f"t/{self._random.randrange(4)}"}
        try:
            if not changed:
                epoch = await self._open(client, LASTING_S)
                self.told.sessions[client] = epoch, self.told.given[epoch][1]
            else:
                removed = changed & self.told.subscriptions[client]
                added = [mqtt_pb2.Subscription(filter=one, qos=1) for one in changed - removed]
                put = mqtt_pb2.PutSubscriptionsRequest(client=client, session_epoch=epoch, added=added, removed=removed)
                await self._calls.ask(MqttStub, "PutSubscriptions", put)
                self.told.subscriptions[client] ^= changed
            self.told.answered["subscribed" if changed else "moved"] += 1
        except Unknown:
            del self.told.sessions[client]
            self.told.unsure[client] = changed
            return
        except Refused as refusal:
            if "Session" in refusal.text:
                raise LostError(f"{client} is nobody else's: {refusal.text}") from refusal
        self._idle_clients.append(client)

    async def _brief_session(self) -> None:
        """A client comes, and goes without a word."""
        self._number += 1
        client = f"b{self._number}"
        while True:
            epoch = await certain(lambda: self._open(client, BRIEF_S), SETTLE_S)
            self.told.brief.add(client)
            try:
                closing = mqtt_pb2.CloseSessionRequest(client=client, session_epoch=epoch, with_will=True)
                await self._calls.ask(MqttStub, "CloseSession", closing)
            except Refused as refusal:
                if "UnknownSession" in refusal.text:  # An earlier word counted, and it has expired since.
                    return
            except Unknown:
                pass
            else:
                return
            await asyncio.sleep(AGAIN_S)

    async def sessions(self, node: int | None = None) -> list[mqtt_pb2.Session]:
        """All of them. Raises Refused, Unknown."""
        found: list[mqtt_pb2.Session] = []
        while True:
            asked = mqtt_pb2.ListSessionsRequest(after=found[-1].client if found else "")
            page = await self._calls.ask(MqttStub, "List", asked, node=node)
            found += page.sessions
            if not page.more:
                return found

    # -- shards

    async def _shard(self, name: str) -> None:
        """What its leaders do, and its administrator; and the members that are to delete."""
        while True:
            await asyncio.sleep(self._random.uniform(0.5, 1.5))
            try:
                found = await self.describe(name)
                if found.shard.deleting:
                    await self._delete_copies(found)
                elif self._ending.is_set():
                    return
                else:
                    await self._lead(found)
            except Refused as refusal:
                if "UnknownShard" in refusal.text:
                    await self._create(name)
            except Unknown:
                pass

    async def describe(self, name: str, node: int | None = None) -> journal_pb2.DescribeShardResponse:
        """A shard; who leads its segments is remembered. Raises Refused, Unknown, LostError."""
        asked = journal_pb2.DescribeShardRequest(shard=name)
        found: journal_pb2.DescribeShardResponse = await self._calls.ask(JournalStub, "Describe", asked, node=node)
        for segment in found.segments:
            self._led(segment)
        return found

    async def _create(self, name: str) -> None:
        self.told.shards.discard(name)
        with suppress(Failed):
            asked = journal_pb2.CreateShardRequest(shard=name, replication=min(3, self._size.members))
            self._led((await self._calls.ask(JournalStub, "CreateShard", asked)).segment)
            self.told.shards.add(name)
            self._created.add(name)

    def _led(self, segment: journal_pb2.Segment) -> None:
        if segment.leader.member:
            self.told.gives(segment.leader.leader_epoch, segment.name, segment.leader.member)

    async def _lead(self, found: journal_pb2.DescribeShardResponse) -> None:
        last, chance = found.segments[-1], self._random.random()
        if chance < 0.1:
            await self._delete(found)
        elif chance < 0.4:
            end = last.start_offset + 10
            following = journal_pb2.NextSegmentRequest(
                shard=found.shard.name, current=len(found.segments) - 1, end_offset=end, leader=last.leader
            )
            self._led((await self._calls.ask(JournalStub, "NextSegment", following)).segment)
            self.told.ends[found.shard.epoch, last.name] = end
        elif last.leader.member:
            beside = self._random.choice(last.copies)  # The leader itself: it is alone.
            heard = [one for one in last.copies if one in self._living and one in (beside, last.leader.member)]
            members = [journal_pb2.InSyncCopy(member=one, member_epoch=self._living[one]) for one in heard]
            altering = journal_pb2.AlterInSyncRequest(
                segment=last.name, leader=last.leader, set_epoch=last.set_epoch, in_sync=members
            )
            answer = await self._calls.ask(JournalStub, "AlterInSync", altering)
            if answer.set_epoch != last.set_epoch:
                self.told.sets.add((last.name, answer.set_epoch, frozenset(one.member for one in answer.in_sync)))

    async def _delete_one(self) -> None:
        """One that is to go already is answered so."""
        await self._delete(await self.describe("s0"))

    async def _delete(self, found: journal_pb2.DescribeShardResponse) -> None:
        asked = journal_pb2.DeleteShardRequest(shard=found.shard.name, epoch=found.shard.epoch)
        self.told.shards.discard(found.shard.name)
        await self._calls.ask(JournalStub, "DeleteShard", asked)
        self.told.deletions.add((found.shard.name, found.shard.epoch))

    async def _delete_copies(self, found: journal_pb2.DescribeShardResponse) -> None:
        for segment in found.segments:
            for member in segment.copies:
                if member in self._living:
                    deleted = journal_pb2.AckDeletedRequest(
                        segment=segment.name,
                        shard_epoch=found.shard.epoch,
                        member=member,
                        member_epoch=self._living[member],
                    )
                    await self._calls.ask(JournalStub, "AckDeleted", deleted)
                    self.told.copies.add((found.shard.epoch, segment.name, member))


async def _run(change: Callable[[], Awaitable[None]]) -> None:
    await change()
