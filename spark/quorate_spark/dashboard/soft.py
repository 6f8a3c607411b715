"""Asking nodes for what is in no event: who is reachable, how far each is, what brokers last reported.

Rules: only while somebody watches; at most one question per node at a time, each with a deadline. Brokers are asked of
the leader, for it decides by what it hears. What a node does not tell is unknown, and what it told once ages.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec

from quorate.model.words import lease_number, lease_of
from quorate_spark.dashboard.model import BrokerSet, State, said_priority
from quorate_spark.dashboard.settings import Settings
from quorate_spark.dashboard.soft_state import HealthSoft, HeardSoft, LeaseSoft, MemberSoft, NodeSoft, Soft

PAGE: Final = 500
PAGES_MAX: Final = 200
FSYNC: Final = "quorate_journal_sync_seconds_bucket"
FSYNC_WINDOW_MS: Final = 60_000

T = TypeVar("T")


class _Voter(msgspec.Struct, frozen=True):
    id: int
    connected: bool


class _Quorum(msgspec.Struct, frozen=True):
    offset: int
    cluster_id: str
    leader: int | None
    voters: list[_Voter]


class _Status(msgspec.Struct, frozen=True):
    sentence: str
    healthy: bool
    alarms: list[str] | None = None


class _Replica(msgspec.Struct, frozen=True):
    broker_id: int
    alive: bool | None = None
    last_heartbeat_ms: int | None = None
    epoch: int | None = None
    max_offset: int | None = None
    priority: int | None = None


class _BrokerSet(msgspec.Struct, frozen=True):
    broker_set: str
    replicas: list[_Replica]


class _Brokers(msgspec.Struct, frozen=True):
    time_ms: int
    brokers: list[_BrokerSet]
    next: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    lease: str
    left_ms: int | None = None


class _Leases(msgspec.Struct, frozen=True):
    leases: list[_Lease]


class _Heard(msgspec.Struct, frozen=True):
    name: str
    last_heard_ms: int | None = None
    health: HealthSoft | None = None


class _Members(msgspec.Struct, frozen=True):
    members: list[_Heard]


class AskError(Exception):
    """A node did not answer, or not what was asked; ``status`` is HTTP's, 0 when there was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class _Trouble(msgspec.Struct, frozen=True):
    message: str = ""


class _Failed(msgspec.Struct, frozen=True):
    error: _Trouble


def buckets(exposition: str, name: str = FSYNC) -> dict[float, float]:
    """The buckets of a histogram without labels: upper bound → count up to it."""
    counts = {}
    for line in exposition.splitlines():
        if line.startswith(name + "{"):
            labels, _, value = line.partition("} ")
            bound = labels.partition('le="')[2].partition('"')[0]
            try:
                counts[float(bound)] = float(value)
            except ValueError:
                continue
    return counts


def part(before: Mapping[float, float], after: Mapping[float, float], share: float) -> float | None:
    """The upper bound of the bucket that holds a share of what was counted between two readings."""
    counts = [(bound, count - before.get(bound, 0.0)) for bound, count in sorted(after.items())]
    total = counts[-1][1] if counts else 0.0
    if total <= 0:
        return None
    return next((bound for bound, count in counts if count >= share * total), None)


class SoftState:
    """The latest soft state; None until somebody watched."""

    def __init__(
        self,
        settings: Settings,
        state: Callable[[], State],
        clock_ms: Callable[[], int],
        zones: Callable[[], Mapping[int, str]],
    ) -> None:
        self._settings = settings
        self._state = state
        self._clock_ms = clock_ms
        self._zones = zones
        self._session: aiohttp.ClientSession | None = None
        self._fsync: dict[int, deque[tuple[int, dict[float, float]]]] = {}
        self._members: dict[str, dict[int, MemberSoft]] = {}
        self._members_at = 0
        self.latest: Soft | None = None
        self._others: dict[int, str] = {}
        """Nodes that said, when asked last, that they belong to another cluster, and which."""

    @property
    def foreign(self) -> str:
        """The id of another cluster, if all nodes belong to others; one address that was taken over proves nothing."""
        nodes = self._state().nodes
        everyone = bool(nodes) and all(number in self._others for number in nodes)
        return min(self._others.values()) if everyone else ""

    async def ask_all(self) -> Soft | None:
        """Ask every node once."""
        state = self._state()
        if not state.nodes:
            return None
        self._others = {}
        answers = await asyncio.gather(*(self._node(number) for number in state.nodes))
        reports = {number: (quorum, soft) for number, (quorum, soft) in zip(state.nodes, answers, strict=True)}
        nodes = self._joined(reports)
        up = [number for number, node in nodes.items() if node.reachable]
        leader = next((quorum.leader for quorum, _ in answers if quorum and quorum.leader is not None), None)
        whom = leader if leader in up else up[0] if up else None
        status = _Status("", healthy=False)
        if whom is not None:
            status = await self._status(whom) or status
            await self._brokers(whom)
        else:
            self._forget()
        healthy = status.healthy if status.sentence else None
        now = self._clock_ms()
        self.latest = Soft(
            polled=now,
            nodes=nodes,
            members=aged(self._members, now - self._members_at),
            status=status.sentence,
            healthy=healthy,
            alarms=tuple(status.alarms or ()),
        )
        return self.latest

    async def leases(self, numbers: Sequence[int]) -> dict[int, LeaseSoft]:
        """What is left of these, as the leader says; of none when it does not answer."""
        told = await self._leader(
            f"/v1/leases?level=stale&ids={','.join(map(lease_number, numbers))}", _Leases, numbers
        )
        if told is None:
            return {}
        now, left = self._clock_ms(), {}
        for one in told.leases:
            number = lease_of(one.lease)
            if number is not None and one.left_ms is not None:
                left[number] = LeaseSoft(left_ms=one.left_ms, polled=now)
        return left

    async def heard(self, names: Sequence[str]) -> dict[str, HeardSoft]:
        """When these members were heard, as the leader says; of none when it does not answer."""
        query = urlencode({"level": "stale", "names": ",".join(names)})
        told = await self._leader(f"/v1/members?{query}", _Members, names)
        return {
            one.name: HeardSoft(heard_ms=one.last_heard_ms, health=one.health)
            for one in (told.members if told is not None else ())
            if one.last_heard_ms is not None
        }

    async def _leader(self, path: str, kind: type[T], about: Sequence[object]) -> T | None:
        """What the leader says, if there is anything to ask it about and it answers."""
        state = self._state()
        if not about or state.leader is None or state.leader.node_id not in state.nodes:
            return None
        try:
            return await self.get(state.leader.node_id, path, kind)
        except AskError:
            return None

    async def close(self) -> None:
        """Let go of all connections."""
        if self._session is not None:
            await self._session.close()

    async def get(self, number: int, path: str, kind: type[T]) -> T:
        """A node's answer to a GET. Raises AskError."""
        return self._decoded(await self._fetch("GET", number, path), kind)

    async def ask_any(self, path: str, kind: type[T], body: bytes | None = None) -> tuple[int, T]:
        """Some node's answer to a GET, or with a body to a POST, and which node. Raises AskError: of the last one, or a
        refusal.
        """
        failed, method = AskError("no node is known"), "GET" if body is None else "POST"
        for number in self._by_load():
            try:
                return number, self._decoded(await self._fetch(method, number, path, body), kind)
            except AskError as error:
                failed = error
                if error.status in (400, 404):
                    break
        raise failed

    def _by_load(self) -> list[int]:
        """Nodes in the order they should be asked: followers that answer, the leader, the others."""
        state, soft = self._state(), self.latest.nodes if self.latest else {}
        leader = state.leader.node_id if state.leader else None
        silent = {number for number, node in soft.items() if not node.reachable}
        return sorted(state.nodes, key=lambda number: (number in silent, number == leader, number))

    async def _fetch(self, method: str, number: int, path: str, body: bytes | None = None) -> bytes:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._settings.node_timeout_ms / 1000)
            self._session = aiohttp.ClientSession(timeout=timeout, trust_env=False)
        address = self._state().nodes[number].addresses.http
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            async with self._session.request(method, f"http://{address}{path}", data=body, headers=headers) as response:
                reply = await response.content.read(-1)
                if response.status != 200:
                    raise AskError(f"node {number}: {_said(reply) or response.status}", response.status)
                return reply
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise AskError(f"node {number}: {str(error) or type(error).__name__}") from error

    @staticmethod
    def _decoded(body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            raise AskError(str(error)) from error

    async def _node(self, number: int) -> tuple[_Quorum | None, NodeSoft]:
        asked = self._clock_ms()
        begun = asyncio.get_running_loop().time()
        try:
            quorum = await self.get(number, "/v1/quorum", _Quorum)
            took = (asyncio.get_running_loop().time() - begun) * 1000
            metrics = (await self._fetch("GET", number, "/metrics?brokers=0")).decode(errors="replace")
        except AskError:
            return None, NodeSoft(reachable=False, polled=asked)
        cluster = self._state().model.cluster
        if cluster is not None and quorum.cluster_id != cluster.cluster_id:
            self._others[number] = quorum.cluster_id
            return None, NodeSoft(reachable=False, polled=asked)
        zone = self._zones().get(number)
        fsync = self._fsync_p99(number, asked, buckets(metrics))
        node = NodeSoft(
            reachable=True, polled=asked, zone=zone, end=quorum.offset, fsync_p99_ms=fsync, rtt_ms=round(took, 3)
        )
        return quorum, node

    def _fsync_p99(self, number: int, now: int, reading: dict[float, float]) -> float | None:
        """Of the last minute, as far as we have watched."""
        readings = self._fsync.setdefault(number, deque(maxlen=1 + FSYNC_WINDOW_MS // self._settings.poll_ms))
        if readings and reading and max(reading.values()) < max(readings[-1][1].values(), default=0):
            readings.clear()  # The node was started again, and counts from zero.
        while readings and now - readings[0][0] > FSYNC_WINDOW_MS:
            readings.popleft()
        before = readings[0][1] if readings else {}
        readings.append((now, reading))
        quantile = part(before, reading, 0.99)
        return None if quantile is None or quantile == float("inf") else round(quantile * 1000, 3)

    @staticmethod
    def _joined(reports: Mapping[int, tuple[_Quorum | None, NodeSoft]]) -> dict[int, NodeSoft]:
        """Each node with its distance from the leader, and whether the leader (else anybody) reaches it."""
        quorums = {number: quorum for number, (quorum, _) in reports.items() if quorum}
        leader = next((quorum.leader for quorum in quorums.values() if quorum.leader in quorums), None)
        word = quorums[leader] if leader is not None else next(iter(quorums.values()), None)
        connected = {voter.id: voter.connected for voter in word.voters} if word else {}
        ahead = max((quorum.offset for quorum in quorums.values()), default=0)
        end = quorums[leader].offset if leader is not None else ahead
        return {
            number: msgspec.structs.replace(
                soft,
                connected=connected.get(number),
                lag=None if soft.end is None else max(0, end - soft.end),
            )
            for number, (_, soft) in reports.items()
        }

    async def _status(self, number: int) -> _Status | None:
        try:
            return await self.get(number, "/v1/status", _Status)
        except AskError:
            return None

    async def _brokers(self, number: int) -> None:
        """Every set's members, a page at a time; less often where there are many."""
        now, state = self._clock_ms(), self._state()
        many = len(state.sets) > self._settings.sets_many
        if many and now - self._members_at < self._settings.poll_many_ms:
            return
        by_set: dict[str, dict[int, MemberSoft]] = {}
        after = ""
        try:
            for _ in range(PAGES_MAX):
                query = urlencode({"level": "stale", "limit": PAGE, "after": after})
                page = await self.get(number, f"/v1/brokers?{query}", _Brokers)
                for item in page.brokers:
                    by_set[item.broker_set] = members(item, state.sets.get(item.broker_set), now)
                if page.next is None:
                    break
                after = page.next
        except AskError:
            self._forget()
            return
        self._members, self._members_at = by_set, now

    def _forget(self) -> None:
        """Nobody tells of brokers any more; the next node that answers is asked at once."""
        self._members, self._members_at = {}, 0


def _said(body: bytes) -> str:
    """The message of a node's refusal."""
    try:
        return msgspec.json.decode(body, type=_Failed).error.message
    except msgspec.DecodeError:
        return ""


def aged(told: dict[str, dict[int, MemberSoft]], ms: int) -> dict[str, dict[int, MemberSoft]]:
    """What was told so long ago, as it is now: heartbeats are older by that."""
    if ms <= 0:
        return told
    return {name: {number: _aged(one, ms) for number, one in by_id.items()} for name, by_id in told.items()}


def _aged(one: MemberSoft, ms: int) -> MemberSoft:
    if one.heartbeat_age_ms is None:
        return one
    return msgspec.structs.replace(one, heartbeat_age_ms=one.heartbeat_age_ms + ms)


def members(item: _BrokerSet, broker_set: BrokerSet | None, now: int) -> dict[int, MemberSoft]:
    """The members as a node told them, each with how far it is behind."""
    ends = {
        one.broker_id: one.max_offset for one in item.replicas if one.max_offset is not None and one.max_offset >= 0
    }
    master = broker_set.master if broker_set else None
    end = ends.get(master) if master is not None else None
    if end is None:
        end = max(ends.values(), default=None)
    by_id = {}
    for one in item.replicas:
        mine = ends.get(one.broker_id)
        by_id[one.broker_id] = MemberSoft(
            alive=one.alive,
            max_offset=mine,
            behind=None if mine is None or end is None else max(0, end - mine),
            epoch=one.epoch,
            priority=said_priority(one.priority),
            heartbeat_age_ms=None if not one.last_heartbeat_ms else max(0, now - one.last_heartbeat_ms),
        )
    return by_id
