"""A sample log of a cluster, made up but possible: the recorded log that the page is tested and pictured with.

Rules: the same seed gives the same bytes. Elections are decided by the rule-set of the controllers itself, so that
candidates, verdicts and deciding rules are what a real log would hold. Times never run backwards. The log ends
badly on purpose: one set without a master, one that flaps, one on its last replica, some shrunk.
"""

import heapq
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from quorate.events import (
    Acknowledgement,
    BrokerFenced,
    BrokerIdApplied,
    BrokerRegistered,
    BrokerUnfenced,
    ClusterCreated,
    ConfigChange,
    ConfigChanged,
    ControllerLeaderElected,
    ElectionFailed,
    Event,
    FeatureLevelChanged,
    KeyDeleted,
    KeyPut,
    LeaseEnded,
    LeaseGranted,
    MasterElected,
    MemberDraining,
    MemberGone,
    MemberRegistered,
    MemberUnfenced,
    NodeAddresses,
    NodeStarted,
    RoleChangeAcknowledged,
    SyncStateSetAltered,
    TopicCreated,
    TopicDeleted,
    TopicUpdated,
    Voter,
    ordered_name,
)
from quorate.metadata import replica_set
from quorate.metadata.commands import Command, FenceMember
from tests.browser import sample_held

START_MS = 1_795_132_080_000
"""2026-11-19 23:48:00 UTC."""
HEARTBEAT_TIMEOUT_MS = 10_000
ZONES = ("az-a", "az-b", "az-c")
CLUSTER = "prod"
PREFIXES = (("trade", 8), ("pay", 4), ("log", 6), ("push", 6))


@dataclass
class Broker:
    """A replica as the story has it."""

    broker_id: int
    address: str
    alive: bool = True
    epoch: int = 0
    behind: int = 0


@dataclass
class BrokerSet:
    """A set as the story has it."""

    name: str
    brokers: dict[int, Broker]
    master: int | None = None
    last_master: int | None = None
    epoch: int = 0
    sync: tuple[int, ...] = ()
    sync_epoch: int = 0
    written: int = 0


@dataclass
class SampleLog:
    """The teller: a clock, a heap of what happens when, and the events so far."""

    seed: int
    now_ms: int = START_MS
    facts: list[tuple[int, int, str, str, Event]] = field(default_factory=list)
    """(time, term, principal, cause, event)"""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.leases = random.Random(self.seed)
        self.sets: dict[str, BrokerSet] = {}
        self.term, self.leader, self.turn = 1, 1, 0
        self.controller = sample_held.Controller(self.facts)
        self.plan: list[tuple[int, int, Callable[[], object]]] = []

    # ── telling ───────────────────────────────────────────────────────────────────────────────────────────────────

    def emit(self, event: Event, principal: str = "", cause: str = "") -> int:
        """Append a fact; its offset."""
        self.facts.append((self.now_ms, self.term, principal or f"node/{self.leader}", cause, event))
        return len(self.facts) - 1

    def later(self, delay_ms: float, act: Callable[[], object]) -> None:
        """Let something happen after so long."""
        self.turn += 1
        heapq.heappush(self.plan, (self.now_ms + int(delay_ms), self.turn, act))

    def run(self, until_ms: int) -> None:
        """Tell on until then."""
        while self.plan and self.plan[0][0] <= until_ms:
            at, _, act = heapq.heappop(self.plan)
            self.now_ms = max(self.now_ms, at)
            act()
        self.now_ms = until_ms

    # ── the cluster comes up ──────────────────────────────────────────────────────────────────────────────────────

    def begin(self, names: list[str]) -> None:
        """Three controllers, then the sets, one after the other."""
        voters = tuple(Voter(id=i, dir_uuid=f"dir-{i}", addresses=_addresses(i)) for i in (1, 2, 3))
        self.emit(ClusterCreated(cluster_id="night-eu-1", voters=voters, feature_level=1), "node/1")
        self.emit(ControllerLeaderElected(node_id=1, cause="first start"), "node/1")
        for voter in voters:
            self.now_ms += 40
            self.emit(
                NodeStarted(
                    node_id=voter.id,
                    dir_uuid=voter.dir_uuid,
                    version="0.1.0",
                    addresses=voter.addresses,
                    feature_min=1,
                    feature_max=1,
                ),
                f"node/{voter.id}",
            )
        for number, name in enumerate(names):
            self.now_ms += 120
            self._register(number, name)

    def _register(self, number: int, name: str) -> None:
        size = 2 if name == "push-06" else 3
        zones = [(f"zone.{i}", ZONES[(number + i) % 3]) for i in range(1, size + 1)]
        hosts = [(f"host.{i}", f"b{(number * 3 + i) % 9 + 1:02d}") for i in range(1, size + 1)]
        changes = tuple(ConfigChange(name=key, new=value) for key, value in zones + hosts)
        self.emit(ConfigChanged(scope=f"broker-set/{name}", changes=changes), "user/deploy")
        found = self.sets[name] = BrokerSet(name=name, brokers={}, written=30_000_000_000 + number * 17_000_000)
        for i in range(1, size + 1):
            address = f"10.21.{number // 80}.{number % 80 * 3 + i}:10911"
            found.brokers[i] = Broker(i, address)
            code = f"{address};{self.now_ms}"
            applied = BrokerIdApplied(
                cluster=CLUSTER, broker_set=name, broker_id=i, address=address, register_check_code=code
            )
            self.emit(applied, "anonymous", "CONTROLLER_APPLY_BROKER_ID")
            self.emit(
                BrokerRegistered(cluster=CLUSTER, broker_set=name, broker_id=i, address=address),
                "anonymous",
                "CONTROLLER_REGISTER_BROKER",
            )
        self._take(found, replica_set.appoint(self._members(found), 1, "first election"), "broker", "", 0)
        self.sync(found, tuple(found.brokers))

    # ── what happens to a set ─────────────────────────────────────────────────────────────────────────────────────

    def sync(self, found: BrokerSet, new: tuple[int, ...]) -> None:
        """The master reports another sync state set."""
        if found.master is None or new == found.sync:
            return
        old, found.sync, found.sync_epoch = found.sync, new, found.sync_epoch + 1
        self.emit(
            SyncStateSetAltered(
                cluster=CLUSTER,
                broker_set=found.name,
                master=found.master,
                master_epoch=found.epoch,
                old=old,
                new=new,
                sync_state_set_epoch=found.sync_epoch,
            ),
            "anonymous",
            "CONTROLLER_ALTER_SYNC_STATE_SET",
        )

    def shrink(self, found: BrokerSet, broker_id: int, back_after_ms: float | None) -> None:
        """One replica falls behind, and catches up later."""
        if found.master in {None, broker_id} or broker_id not in found.sync:
            return
        found.brokers[broker_id].behind = self.chance.randrange(1 << 20, 1 << 31)
        self.sync(found, tuple(i for i in found.sync if i != broker_id))
        if back_after_ms is not None:
            self.later(back_after_ms, lambda: self.expand(found, broker_id))

    def expand(self, found: BrokerSet, broker_id: int) -> None:
        """It has caught up."""
        if found.brokers[broker_id].alive and found.master is not None:
            found.brokers[broker_id].behind, found.brokers[broker_id].epoch = 0, found.epoch
            self.sync(found, tuple(sorted({*found.sync, broker_id})))

    def kill(self, found: BrokerSet, broker_id: int, evidence: str, back_after_ms: float | None) -> None:
        """A broker dies; when it was the master, another is elected in the same breath."""
        broker = found.brokers[broker_id]
        if not broker.alive:
            return
        silent = evidence == "heartbeat expired"
        heard = self.now_ms - (HEARTBEAT_TIMEOUT_MS if silent else self.chance.randrange(20, 900))
        broker.alive = False
        self.emit(
            BrokerFenced(
                cluster=CLUSTER,
                broker_set=found.name,
                broker_id=broker_id,
                evidence=evidence,
                last_heartbeat_ms=heard,
                detected_ms=self.now_ms,
                proposed_ms=self.now_ms + 1,
            ),
            cause=evidence,
        )
        if found.master == broker_id:
            outcome = replica_set.elect(self._members(found), incumbent=broker_id, wanted=None, unclean=False)
            self._take(found, outcome, "master lost", evidence, heard)
        elif found.master is not None:
            self.later(5_000, lambda: self.sync(found, tuple(i for i in found.sync if found.brokers[i].alive)))
        if back_after_ms is not None:
            self.later(back_after_ms, lambda: self.revive(found, broker_id))

    def revive(self, found: BrokerSet, broker_id: int) -> None:
        """It is back; a set without a master tries again, and the replica catches up."""
        found.brokers[broker_id].alive = True
        at = self.now_ms
        self.emit(
            BrokerUnfenced(
                cluster=CLUSTER, broker_set=found.name, broker_id=broker_id, detected_ms=at, proposed_ms=at + 1
            ),
            cause="heartbeat",
        )
        if found.master is None:
            outcome = replica_set.elect(self._members(found), incumbent=None, wanted=None, unclean=False)
            self._take(found, outcome, "inactive master scan", "", 0)
        self.later(self.chance.uniform(4_000, 60_000), lambda: self.expand(found, broker_id))

    def hand_over(self, found: BrokerSet, broker_id: int) -> None:
        """An operator names another master."""
        if found.master is not None and broker_id in found.sync and found.brokers[broker_id].alive:
            outcome = replica_set.elect(self._members(found), incumbent=found.master, wanted=broker_id, unclean=False)
            self._take(found, outcome, "admin", "", 0, principal="user/k.meier")

    def _members(self, found: BrokerSet) -> list[replica_set.Member]:
        found.written += self.chance.randrange(1 << 16, 1 << 22)
        members = []
        for broker in found.brokers.values():
            lag = broker.behind + (0 if broker.broker_id == found.master else self.chance.choice((0, 18_432, 131_072)))
            members.append(
                replica_set.Member(
                    broker_id=broker.broker_id,
                    alive=broker.alive,
                    in_sync=broker.broker_id in found.sync,
                    epoch=broker.epoch,
                    max_offset=found.written - lag,
                    confirm_offset=found.written - lag - 4096,
                    priority=100,
                )
            )
        return members

    def _take(
        self,
        found: BrokerSet,
        outcome: replica_set.Outcome,
        trigger: str,
        evidence: str,
        heard: int,
        principal: str = "",
    ) -> None:
        """Write the outcome of an election, and later the acknowledgement."""
        found.epoch += 1
        old, before, at = found.master, found.sync, self.now_ms
        detected = at if trigger == "master lost" else 0
        if outcome.winner is None:
            found.master, found.last_master = None, old
            why = ", ".join(f"broker {c.broker_id} {c.out_by}" for c in outcome.candidates)
            self.emit(
                ElectionFailed(
                    cluster=CLUSTER,
                    broker_set=found.name,
                    trigger=trigger,
                    evidence=evidence,
                    old_master=old,
                    master_epoch=found.epoch,
                    candidates=outcome.candidates,
                    explanation=f"{found.name} has no master: {why}.",
                    last_heartbeat_ms=heard,
                    detected_ms=detected,
                    proposed_ms=at + 1,
                ),
                cause=evidence or trigger,
            )
            return
        winner = found.brokers[outcome.winner]
        found.master, found.sync, found.sync_epoch = winner.broker_id, (winner.broker_id,), found.sync_epoch + 1
        occasion = "the set had no master before" if old is None else f"broker {old} was not alive ({evidence})"
        election = self.emit(
            MasterElected(
                cluster=CLUSTER,
                broker_set=found.name,
                trigger=trigger,
                evidence=evidence,
                old_master=old,
                master=winner.broker_id,
                master_address=winner.address,
                master_epoch=found.epoch,
                sync_state_set=found.sync,
                sync_state_set_epoch=found.sync_epoch,
                old_sync_state_set=before,
                candidates=outcome.candidates,
                decided_by=outcome.decided_by,
                explanation=f"Broker {winner.broker_id} is master of {found.name} in epoch {found.epoch}: {occasion}.",
                unclean=outcome.unclean,
                last_heartbeat_ms=heard,
                detected_ms=detected,
                proposed_ms=at + 1,
            ),
            principal,
            evidence or trigger,
        )
        self._acknowledge(found, election, found.epoch)
        for broker in found.brokers.values():
            if broker.alive and broker.broker_id != winner.broker_id and broker.behind == 0 and before:
                self.later(self.chance.uniform(900, 9_000), partial(self.expand, found, broker.broker_id))

    def _acknowledge(self, found: BrokerSet, election: int, epoch: int) -> None:
        committed = self.now_ms + self.chance.randrange(2, 6)
        acks = []
        for broker in found.brokers.values():
            if broker.alive:
                broker.epoch = epoch
                took = self.chance.randrange(6, 40)
                acks.append(
                    Acknowledgement(
                        broker_id=broker.broker_id, notified_ms=committed + 1, acknowledged_ms=committed + 1 + took
                    )
                )
        told = RoleChangeAcknowledged(
            cluster=CLUSTER,
            broker_set=found.name,
            master_epoch=epoch,
            election_offset=election,
            committed_ms=committed,
            acks=tuple(acks),
        )
        self.later(60, lambda: self._told(found, told))

    def _told(self, found: BrokerSet, told: RoleChangeAcknowledged) -> None:
        self.emit(told)

    # ── what happens to the cluster ───────────────────────────────────────────────────────────────────────────────

    def lead(self, node_id: int, cause: str, silent_ms: int) -> None:
        """Another controller leads."""
        before, self.leader, self.term = self.leader, node_id, self.term + 1
        self.emit(
            ControllerLeaderElected(node_id=node_id, cause=cause, previous_leader=before, silent_for_ms=silent_ms)
        )

    def topic(self, name: str, what: str) -> None:
        """A topic comes, changes or goes."""
        if what == "delete":
            self.emit(TopicDeleted(topic=name), "user/k.meier")
            return
        kind = TopicCreated if what == "create" else TopicUpdated
        queues = self.chance.choice((4, 8, 16))
        self.emit(
            kind(
                topic=name,
                read_queues=queues,
                write_queues=queues,
                permission=6,
                filter_type="SINGLE_TAG",
                system_flags=0,
                order=False,
                attributes={},
            ),
            "user/k.meier",
        )

    def configure(self, name: str, value: str) -> None:
        """An operator changes a setting of the cluster."""
        self.emit(ConfigChanged(scope="cluster", changes=(ConfigChange(name=name, new=value),)), "user/a.silva")

    # ── keys and leases ───────────────────────────────────────────────────────────────────────────────────────────

    def put(self, key: bytes, value: bytes, lease: int = 0, by: str = "user/k.meier") -> None:
        """A key is given a value."""
        self.emit(KeyPut(key=ordered_name(key), value=value, lease=lease, following=0), by, "PutKey")

    def delete(self, key: bytes) -> None:
        """A key is deleted."""
        self.emit(KeyDeleted(key=ordered_name(key), lease=0, following=0), "user/k.meier", "DeleteKeys")

    def serve(self, key: bytes, lives_s: tuple[float, ...]) -> None:
        """A service holds a lease with its address under it for so long each time; the last time to the end."""
        lease = self.leases.getrandbits(63)
        self.emit(LeaseGranted(lease=lease, ttl_s=10), "anonymous", "GrantLease")
        self.put(key, b'{"addr": "10.21.4.%d:7070", "load": %d}' % (lease % 200, lease % 90), lease, "anonymous")
        if lives_s:
            self.later(lives_s[0] * 1_000, partial(self._expire, key, lease, lives_s[1:]))

    def _expire(self, key: bytes, lease: int, lives_s: tuple[float, ...]) -> None:
        self.emit(KeyDeleted(key=ordered_name(key), lease=lease, following=1), cause="lease")
        self.emit(LeaseEnded(lease=lease, reason="expired", keys=1, silent_ms=10_020), cause="lease")
        self.later(25_000, partial(self.serve, key, lives_s))

    # ── members ───────────────────────────────────────────────────────────────────────────────────────────────────

    def join(self, name: str, role: str, incarnation: str, replaced: int = 0) -> int:
        """A service registers, and has caught up soon after; its epoch."""
        number = int(name.rpartition("-")[2])
        epoch = self.emit(
            MemberRegistered(
                member=name, incarnation=incarnation, roles=(role,), addresses={"grpc": f"10.21.5.{number}:7070"},
                labels={"rack": ZONES[number % 3]}, timeout_ms=9_000, reason="fenced" if replaced else "new",
                replaced_epoch=replaced, replaced_incarnation="a" if replaced else "",
            ),
            "anonymous", "RegisterMember",
        )  # fmt: skip
        caught_up = MemberUnfenced(member=name, epoch=epoch, applied_revision=epoch + 1, reason="caught up")
        self.later(1_200, lambda: self.emit(caught_up, "anonymous", "HearMember"))
        return epoch

    def fall_silent(self, name: str, epoch: int) -> None:
        """A service is not heard any more."""
        heard = self.now_ms - 9_000
        fenced = FenceMember(name=name, epoch=epoch, evidence="heartbeat expired", last_heartbeat_ms=heard)
        self.decided(fenced, f"node/{self.leader}")

    # ── shards and sessions ───────────────────────────────────────────────────────────────────────────────────────

    def decided(self, command: Command, principal: str = "anonymous") -> None:
        """What a controller decides of it is told; of a refusal nothing."""
        for event in self.controller.events(command, self.now_ms, self.term):
            self.emit(event, principal, type(command).__name__)

    def all_decided(self, those: Iterable[Command]) -> None:
        """One after the other: the next one is asked for when the one before is told."""
        for command in those:
            self.decided(command)

    def lines(self) -> Iterator[bytes]:
        """As ``quorate log dump -o json`` writes them."""
        for offset, (time_ms, term, principal, cause, event) in enumerate(self.facts):
            yield msgspec.json.encode(
                {
                    "offset": offset,
                    "term": term,
                    "time_ms": time_ms,
                    "principal": principal,
                    "cause": cause,
                    "request_id": "",
                    "type": type(event).__name__,
                    "event": event,
                }
            )


def _addresses(node: int) -> NodeAddresses:
    host = f"10.21.0.{node}"
    return NodeAddresses(rpc=f"{host}:9870", raft=f"{host}:9871", kafka=f"{host}:9872", http=f"{host}:9873")


def names(count: int) -> list[str]:
    """Names of sets: 24 of four kinds, or as many as asked for of ever more kinds."""
    if count <= 24:
        return [f"{prefix}-{i:02d}" for prefix, n in PREFIXES for i in range(1, n + 1)][:count]
    kinds = [prefix for prefix, _ in PREFIXES] + [f"shard{k}" for k in range(1, count // 100 + 1)]
    return [f"{kinds[i % len(kinds)]}-{i // len(kinds) + 1:02d}" for i in range(count)]


def _troubles(sample: SampleLog, hours: float) -> None:
    """The ordinary bad luck of a night shift, spread over it."""
    chance, length, sets = sample.chance, hours * 3_600_000, list(sample.sets.values())
    weak = sets[:: max(1, len(sets) // 5)]
    spared = {"log-04", "push-03", "push-05"}
    for _ in range(int(hours * 130)):
        found = chance.choice(weak if chance.random() < 0.75 else sets)
        if found.name not in spared:
            which = chance.choice(list(found.brokers))
            back = chance.uniform(3_000, 240_000)
            sample.later(chance.uniform(0, length), partial(sample.shrink, found, which, back))
    for evidence, count in (("connection closed", 4), ("heartbeat expired", 2), ("shut down", 1)):
        for _ in range(int(hours * count)):
            found = chance.choice(sets)
            if found.name not in spared:
                back = chance.uniform(20_000, 200_000)
                sample.later(chance.uniform(0, length * 0.96), partial(_kill_master, sample, found, evidence, back))
    for i in range(int(hours * 12)):
        sample.later(chance.uniform(0, length), partial(_new_topic, sample, i))
    for i in range(int(hours * 2)):
        change = partial(sample.configure, "scanNotActiveBrokerInterval", str(5 + i))
        sample.later(chance.uniform(0, length), change)


def _kill_master(sample: SampleLog, found: BrokerSet, evidence: str, back_after_ms: float) -> None:
    sample.kill(found, found.master or 1, evidence, back_after_ms)


def _new_topic(sample: SampleLog, number: int) -> None:
    sample.topic(f"{sample.chance.choice(PREFIXES)[0]}.events.v{number}", "create")


def _ending(sample: SampleLog, hours: float) -> None:
    """How the log ends: log-04 without a master, push-03 flapping, push-05 on its last replica."""
    end = hours * 3_600_000
    log, push, last = (sample.sets.get(name) for name in ("log-04", "push-03", "push-05"))
    if log is not None:
        sample.later(end - 900_000, lambda: sample.shrink(log, 3, None))
        sample.later(end - 700_000, lambda: sample.kill(log, 2, "shut down", None))
        sample.later(end - 569_000, lambda: sample.kill(log, log.master or 1, "connection closed", None))
    if push is not None:
        for turn in range(6):
            act = lambda: sample.kill(push, push.master or 1, "heartbeat expired", 60_000)  # noqa: E731
            sample.later(end - 1_700_000 + turn * 260_000, act)
    if last is not None:
        sample.later(end - 300_000, lambda: sample.kill(last, 1 if last.master != 1 else 2, "connection closed", None))
        sample.later(end - 36_000, lambda: sample.shrink(last, 3, None))
    sample.later(end * 0.53, lambda: sample.lead(2, "silent", 1_500))
    if len(sample.sets) > 6:
        handed = list(sample.sets.values())[6]
        sample.later(end * 0.37, lambda: sample.hand_over(handed, 3))


def _keys(sample: SampleLog, hours: float) -> None:
    """Settings that change, services that come and go with their leases, and names and values that are no text."""
    length = hours * 3_600_000

    def at(share: float, act: Callable[[], object]) -> None:
        sample.later(length * share, act)

    at(0.1, lambda: sample.emit(FeatureLevelChanged(old=1, new=2), "user/a.silva"))
    for number in range(8):
        lives = (900.0, 2_400.0, 5_000.0)[: number % 4]
        at(0.11 + number / 200, partial(sample.serve, b"/services/pay/%d" % (number + 1), lives))
    for turn in range(6):
        limits = b'{\n\t"per_second": %d\n}' % (100 * (turn + 1))
        at(0.15 + turn / 10, partial(sample.put, b"/config/limits", limits))
    at(0.2, partial(sample.put, "/config/größe name".encode(), b"\xd0\x9f\xd1\x80"))
    at(0.2, partial(sample.put, b"/config/key.der", bytes(range(256)) * 300))
    at(0.21, partial(sample.put, b"/config/empty", b""))
    at(0.22, partial(sample.put, b"\xff\x00raw", "<b>left\u202eright</b>".encode()))
    at(0.3, partial(sample.put, b"/config/old", b"1"))
    at(0.5, partial(sample.delete, b"/config/old"))


def _members(sample: SampleLog, hours: float) -> None:
    """Services that join; one falls silent and comes again, one stays silent, one is to leave, one has left."""
    length = hours * 3_600_000

    def life(number: int, role: str) -> None:
        name = f"{role}-{number}"
        epoch = sample.join(name, role, "a")
        if number == 1:
            sample.later(2_000_000, lambda: sample.fall_silent(name, epoch))
            sample.later(2_060_000, lambda: sample.join(name, role, "b", epoch))
        elif number == 2:
            sample.later(4_000_000, lambda: sample.fall_silent(name, epoch))
        elif number in {3, 4}:
            draining = MemberDraining(member=name, epoch=epoch, reason="asked by an operator")
            sample.later(5_000_000, lambda: sample.emit(draining, "user/a.silva", "DrainMember"))
        if number == 4:
            gone = MemberGone(member=name, epoch=epoch, incarnation="a", reason="drained")
            sample.later(5_100_000, lambda: sample.emit(gone, "anonymous", "UnregisterMember"))

    for number in range(1, 7):
        sample.later(length * (0.12 + number / 300), partial(life, number, "journal"))
        sample.later(length * (0.13 + number / 300), partial(life, number, "mqtt"))


def make(sets: int = 24, hours: float = 6.4, seed: int = 20) -> SampleLog:
    """A whole log; ``hours`` of it after the cluster came up."""
    sample = SampleLog(seed)
    sample.begin(names(sets))
    until = sample.now_ms + int(hours * 3_600_000)
    _troubles(sample, hours)
    _ending(sample, hours)
    _keys(sample, hours)
    _members(sample, hours)
    sample_held.held(sample, hours)
    sample.run(until)
    return sample


def write(path: Path, sets: int = 24, hours: float = 6.4, seed: int = 20) -> int:
    """Write a sample log to a file; how many events it has."""
    sample = make(sets, hours, seed)
    path.write_bytes(b"".join(line + b"\n" for line in sample.lines()))
    return len(sample.facts)
