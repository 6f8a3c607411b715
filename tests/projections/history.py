"""A cluster's life made up from a seed: events of every kind, in an order that can be, as the records of its log.

The commands go through the controller's own ``decide``, so the events are such as a log can hold. The same seed makes
the same records, so whoever compares needs no copy of them.
"""

import itertools
import random
from collections.abc import Iterator
from functools import cache
from uuid import UUID

from quorate.events import Event, NodeAddresses, Stamp, Voter, decode, encode, key
from quorate.metadata import commands
from quorate.metadata.cluster import directory_of
from quorate.metadata.commands import Command
from quorate.metadata.context import Context, Decision
from quorate.metadata.decide import decide
from quorate.metadata.policy import PolicySettings
from quorate.model.evolve import evolve
from quorate.model.state import EMPTY, State, Subscription, Will
from tests.batches import Record
from tests.segments import plausible

ADDRESSES = NodeAddresses(rpc="127.0.0.1:1", raft="127.0.0.1:2", kafka="127.0.0.1:3", http="127.0.0.1:4")
START_MS = 1_700_000_000_000
PRINCIPALS = ("anonymous", "admin", "node/1", "")
SETS = ("a", "b", "c/ü", "d")


class History:
    """Commits without end. ``sets`` are the broker sets it plays with."""

    def __init__(self, seed: int, cluster_id: str = "cluster-of-tests", sets: tuple[str, ...] = SETS) -> None:
        self._chance = random.Random(seed)
        self._sets = sets
        self._state: State = EMPTY
        self._living: dict[tuple[str, str, int], bool] = {}
        self._offset = 0
        self._term = 1
        self._now_ms = START_MS
        self._live = _Live(self._living)
        self._unclean = PolicySettings(no_half_known_sets=False)
        self._plain = PolicySettings()
        self._first = iter(self._founding(cluster_id))

    def commit(self) -> list[tuple[Event, Stamp]]:
        """The next command that wrote something: its events with their stamps."""
        while True:
            command = next(self._first, None) or self._some()
            policy = self._unclean if self._chance.random() < 0.1 else self._plain
            context = Context(now_ms=self._now_ms, term=self._term, policy=policy, live=self._live)
            decision = decide(self._state, command, context)
            if isinstance(decision, Decision) and decision.events:
                return self._written(decision.events, type(command).__name__)

    def _written(self, events: tuple[Event, ...], cause: str) -> list[tuple[Event, Stamp]]:
        principal, written = self._chance.choice(PRINCIPALS), []
        self._now_ms += self._chance.randrange(3)
        for event in events:
            stamp = Stamp(
                offset=self._offset, term=self._term, time_ms=self._now_ms, principal=principal, cause=cause,
                request_id=f"r{self._offset}" if self._chance.random() < 0.3 else "",
            )  # fmt: skip
            self._state = evolve(self._state, decode(encode(event)), stamp)
            self._offset += 1
            written.append((event, stamp))
        return written

    def _founding(self, cluster_id: str) -> Iterator[Command]:
        voters = tuple(Voter(id=number, dir_uuid=f"u{number}", addresses=ADDRESSES) for number in (1, 2, 3))
        yield commands.CreateCluster(cluster_id=cluster_id, voters=voters, feature_level=1)
        yield commands.RecordLeader(node_id=1, cause="first start")
        for number in (1, 2, 3):
            yield self._node_start(number, feature_max=9)
        yield commands.RaiseFeatureLevel(level=2)

    def _node_start(self, number: int, feature_max: int) -> Command:
        return commands.RecordNodeStart(
            node_id=number, dir_uuid=directory_of(self._state, number), version="1", addresses=ADDRESSES,
            feature_min=1, feature_max=feature_max,
        )  # fmt: skip

    def _some(self) -> Command:
        chance = self._chance
        makers = {
            self._apply: 6, self._register: 10, self._elect: 14, self._alter: 16, self._fence: 10, self._unfence: 10,
            self._acknowledge: 8, self._clean: 2, self._topic: 12, self._config: 8, self._govern: 3, self._keys: 10,
            self._members: 8, self._schemas: 8, self._journal: 13, self._sessions: 12,
        }  # fmt: skip
        (maker,) = chance.choices(list(makers), list(makers.values()))
        name = chance.choice(self._sets)
        self._living["c", name, chance.randint(1, 4)] = chance.random() < 0.8
        return maker(name)

    def _apply(self, name: str) -> Command:
        found = self._state.broker_sets.get(name)
        number = found.next_broker_id if found else 1
        code = f"10.0.0.{number}:1;{self._chance.randint(1, 3)}"
        if found is not None and len(found.replicas) > 4:
            return self._elect(name)
        return commands.ApplyBrokerId(cluster="c", broker_set=name, broker_id=number, register_check_code=code)

    def _member(self, name: str) -> int:
        found = self._state.broker_sets.get(name)
        ids = [replica.broker_id for replica in found.replicas] if found else []
        return self._chance.choice(ids or [1])

    def _register(self, name: str) -> Command:
        number = self._member(name)
        address = f"10.0.0.{number}:{self._chance.randint(1, 2)}"
        found = self._state.broker_sets.get(name)
        # Who moves was silent before: a living broker keeps its address.
        self._living["c", name, number] = found is None or found.address(number) == address
        return commands.RegisterBroker(
            cluster="c", broker_set=name, broker_id=number, address=address,
            capabilities=self._chance.choice(({}, {"v": "5.3"})), topics=self._chance.choice(((), (), ("t1", "t2"))),
            registration_epoch=self._chance.choice((None, 0)),
        )  # fmt: skip

    def _elect(self, name: str) -> Command:
        lost = self._chance.random() < 0.5
        return commands.ElectMaster(
            broker_set=name, cluster="c", broker_id=None if lost else self._member(name),
            trigger="master lost" if lost else "broker", evidence="heartbeat expired" if lost else "",
            detected_ms=self._now_ms if lost else 0,
        )  # fmt: skip

    def _alter(self, name: str) -> Command:
        found = self._state.broker_sets.get(name)
        if found is None or found.master is None:
            return self._elect(name)
        others = {replica.broker_id for replica in found.replicas if self._chance.random() < 0.7}
        for number in others:
            self._living["c", name, number] = True
        return commands.AlterSyncStateSet(
            broker_set=name, master=found.master, master_epoch=found.master_epoch,
            sync_state_set=tuple(sorted(others | {found.master})), sync_state_set_epoch=found.sync_state_set_epoch,
        )  # fmt: skip

    def _fence(self, name: str) -> Command:
        number = self._member(name)
        self._living["c", name, number] = False
        return commands.FenceBroker(
            cluster="c", broker_set=name, broker_id=number, evidence="connection closed",
            last_heartbeat_ms=self._now_ms - 5, detected_ms=self._now_ms,
        )  # fmt: skip

    def _unfence(self, name: str) -> Command:
        number = self._member(name)
        self._living["c", name, number] = True
        return commands.UnfenceBroker(cluster="c", broker_set=name, broker_id=number, detected_ms=self._now_ms)

    def _acknowledge(self, name: str) -> Command:
        found = self._state.broker_sets.get(name)
        if found is None or found.election is None or found.master is None:  # One that failed is told to nobody.
            return self._elect(name)
        acks = tuple(
            commands.AcknowledgedBy(replica.broker_id, self._now_ms, self._now_ms + 1) for replica in found.replicas
        )
        delivery = commands.RoleChangeDelivery(
            broker_set=name, master_epoch=found.master_epoch, election_offset=found.election.offset,
            committed_ms=self._now_ms, acks=acks,
        )  # fmt: skip
        return commands.AcknowledgeRoleChanges(deliveries=(delivery,))

    def _clean(self, name: str) -> Command:
        ids = None if self._chance.random() < 0.3 else str(self._member(name))
        return commands.CleanBrokerData(cluster="c", broker_set=name, broker_ids=ids, clean_living=True)

    def _topic(self, _name: str) -> Command:
        topic = f"t{self._chance.randint(1, 30)}"
        if self._chance.random() < 0.2:
            return commands.DeleteTopic(topic=topic)
        return commands.PutTopic(
            topic=topic, read_queues=self._chance.choice((4, 8)), write_queues=self._chance.choice((4, 8)),
            permission=self._chance.choice((6, 4)), order=self._chance.random() < 0.3,
            attributes=self._chance.choice(({}, {"+message.type": "FIFO"})),
        )  # fmt: skip

    def _config(self, _name: str) -> Command:
        scope = self._chance.choice(("controller", "cluster", "node/1", "topic/t1", "broker-set/a"))
        names = self._chance.sample(("x", "y", "z"), self._chance.randint(1, 3))
        changes = {name: self._chance.choice((None, "1", "2")) for name in names}
        return commands.ChangeConfig(scope=scope, changes=changes)

    def _keys(self, _name: str) -> Command:
        """Keys and leases."""
        chance = self._chance
        key, lease = chance.choice((b"/a", b"/b/c", b"\x00", b"\xff~")), chance.randint(-1, 2)
        put = commands.PutKey(key=key, value=chance.randbytes(3), lease=lease if lease in self._state.leases else 0)
        others: tuple[Command, ...] = (
            commands.DeleteKeys(key=key, range_end=chance.choice((b"", b"\x00"))),
            commands.Transact(success=(commands.PutKey(key=b"/t"), put)),
            commands.GrantLease(lease=lease, ttl_s=chance.randint(1, 90)),
            commands.CheckpointLeases(leases=((lease, chance.randint(1, 9)),)),
            commands.RevokeLease(lease=lease),
            commands.ExpireLease(lease=lease, silent_ms=chance.randint(1, 90_000)),
        )
        return put if chance.random() < 0.4 else chance.choice(others)

    def _members(self, _name: str) -> Command:
        """Members."""
        chance = self._chance
        name = chance.choice(("store.1", "mqtt@h", "store.2"))
        found = self._state.members.get(name)
        if found is None or chance.random() < 0.3:
            return commands.RegisterMember(
                name=name, incarnation=chance.choice("ab"), roles=chance.choice((("journal",), ("mqtt", "journal"))),
                addresses={"grpc": "h:1"}, labels={"rack": chance.choice("xy")}, timeout_ms=9_000,
            )  # fmt: skip
        others: tuple[Command, ...] = (
            commands.HearMember(
                name=name, epoch=found.epoch, applied_revision=self._offset, want_drain=chance.random() < 0.2
            ),
            commands.FenceMember(
                name=name, epoch=found.epoch, evidence="heartbeat expired", last_heartbeat_ms=self._now_ms
            ),
            commands.DrainMember(name=name),
        )
        leaves = commands.UnregisterMember(name=name, epoch=chance.choice((None, found.epoch)))
        return leaves if chance.random() < 0.1 else chance.choice(others)

    def _schemas(self, _name: str) -> Command:
        """Schemas come, are hidden and go; refused below their level."""
        chance, subject = self._chance, self._chance.choice(("orders", "b/\u00fc"))
        if chance.random() < 0.7:
            fields = ",".join(f'{{"name":"{name}","type":"int","default":{chance.randint(0, 2)}}}' for name in "ab")
            return commands.RegisterSchema(
                subject=subject, schema=f'{{"type":"record","name":"R","fields":[{fields}]}}'
            )
        version = chance.choice((None, 1, 2, -1))
        return commands.DeleteSchema(subject=subject, version=version, permanent=chance.random() < 0.5)

    def _journal(self, _name: str) -> Command:
        """Shards and segments, and members to hold them; refused below their level."""
        return plausible(self._state, self._chance)

    def _sessions(self, _name: str) -> Command:
        """Sessions of MQTT, and their wills."""
        chance, state = self._chance, self._state
        client = chance.choice(("c", "sensor/1 ü", "d"))
        found = state.sessions.get(client)
        epoch = 0 if found is None else found.session_epoch
        name = chance.choice(sorted(state.members) or ("nobody",))
        member_epoch = state.members[name].epoch if name in state.members else 0
        will = Will(topic="gone/1", payload=chance.randbytes(3), qos=1, delay_s=chance.choice((0, 0, 1)))
        opening = commands.OpenSession(
            client=client, clean_start=chance.random() < 0.2, expiry_s=chance.choice((1, 1, 60)), member=name,
            member_epoch=member_epoch, will=will if chance.random() < 0.6 else None,
        )  # fmt: skip
        subscription = Subscription(filter=chance.choice(("t/+", "#", "$share/g/t/1")), qos=chance.randint(0, 2))
        number = min(state.wills, default=0)
        handed = state.wills.get(number)
        others: tuple[Command, ...] = (
            commands.CloseSession(client=client, session_epoch=epoch, with_will=chance.random() < 0.7),
            commands.CloseSession(client=client, session_epoch=epoch, end=True, with_will=chance.random() < 0.5),
            commands.PutSubscriptions(client=client, session_epoch=epoch, added=(subscription,)),
            commands.PutSubscriptions(client=client, session_epoch=epoch, removed=(subscription.filter,)),
            commands.SettleSessions(sessions=tuple((one.client, one.session_epoch) for one in state.sessions.values())),
            commands.HandOverWills(wills=tuple(state.wills)),
            commands.AcknowledgeWill(
                will=number, member="" if handed is None else handed.member,
                member_epoch=0 if handed is None else handed.member_epoch,
            ),
        )  # fmt: skip
        if chance.random() < 0.1:
            self._now_ms += 1_000
        return opening if chance.random() < 0.4 else chance.choice(others)

    def _govern(self, _name: str) -> Command:
        way = self._chance.random()
        if way < 0.4:
            self._term += self._chance.randint(1, 3)
            return commands.RecordLeader(
                node_id=self._chance.randint(1, 3), cause="silent", previous_leader=1, silent_for_ms=700
            )
        if way < 0.8:
            return self._node_start(self._chance.randint(1, 3), feature_max=9)
        if way < 0.9:
            fresh = str(UUID(int=self._chance.getrandbits(128), version=4))
            return commands.RebuildVoter(node_id=self._chance.randint(1, 3), dir_uuid=fresh, asked_by="admin")
        return commands.RaiseFeatureLevel(level=self._state.feature_level + 1)


class _Live:
    """Who is alive; nobody reports anything."""

    def __init__(self, living: dict[tuple[str, str, int], bool]) -> None:
        self._living = living

    def alive(self, cluster: str, broker_set: str, broker_id: int) -> bool | None:
        return self._living.get((cluster, broker_set, broker_id))

    def info(self, cluster: str, broker_set: str, broker_id: int) -> None:
        return None

    def suspect(self, cluster: str, broker_set: str, broker_id: int) -> bool:
        return False


def record(event: Event, stamp: Stamp) -> Record:
    """The record an event is in the log."""
    texts = {
        "offset": stamp.offset, "term": stamp.term, "time_ms": stamp.time_ms, "type": type(event).__name__,
        "principal": stamp.principal, "cause": stamp.cause, "request_id": stamp.request_id,
    }  # fmt: skip
    headers = tuple((name, str(text).encode()) for name, text in texts.items())
    return Record(key(event), encode(event), headers, stamp.time_ms, stamp.offset)


def commits(seed: int) -> Iterator[list[Record]]:
    """The records of one commit after the other, without end."""
    history = History(seed)
    while True:
        yield [record(event, stamp) for event, stamp in history.commit()]


@cache
def records(seed: int, count: int) -> tuple[Record, ...]:
    """The first ``count`` records."""
    return tuple(itertools.islice(itertools.chain.from_iterable(commits(seed)), count))
