"""Laws of the metadata rules, over random histories of a cluster whose brokers come, go and lie.

A history begins, most of the time, with a cluster of two sets of three; then come plain commands, changes of the live
table, and a few steps that are made to fit the state, so that deep states are reached. ``test_the_histories_reach_…``
holds the generator to it: laws about states nobody reaches are no laws.
"""

from collections import defaultdict
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.events import MasterElected, Stamp, SyncStateSetAltered, decode, encode, key
from quorate.metadata import commands
from quorate.metadata.commands import Command, Refusal
from quorate.metadata.context import Context, Decision
from quorate.metadata.decide import decide
from quorate.metadata.policy import PolicySettings
from quorate.metadata.requests import RequestSettings, RequestTable
from quorate.metadata.sums import RunningSums
from quorate.model import queries, rows
from quorate.model.evolve import evolve
from quorate.model.keys import RangeKeys
from quorate.model.state import EMPTY, BrokerSet, State, Subscription, Will
from quorate.slices import finished
from tests.facts import WRITTEN
from tests.plain_sums import plain_sums
from tests.policies import JAVA
from tests.segments import plausible
from tests.unit.metadata.kit import ADDRESSES, CREATE, Info, Live, applying, registering

NAMES = st.sampled_from(["a", "b/ü"])
IDS = st.sampled_from([1, 1, 2, 2, 3, 3, 4])
CLUSTERS = st.sampled_from(["C", "D"])
FLAGS = st.booleans()
DIRECTORY = "00000000-0000-4000-8000-000000000001"


def built(kind: type, **fields: st.SearchStrategy) -> st.SearchStrategy:
    """Commands of a kind."""
    return st.builds(kind, **fields)


COMMANDS = st.one_of(
    built(
        commands.ApplyBrokerId,
        cluster=CLUSTERS,
        broker_set=NAMES,
        broker_id=IDS,
        register_check_code=st.sampled_from(["h:1;1", "h:2;2"]),
    ),
    built(
        commands.RegisterBroker,
        cluster=CLUSTERS,
        broker_set=NAMES,
        broker_id=IDS,
        address=st.sampled_from(["h:1", "h:2"]),
        capabilities=st.sampled_from([{}, {"asyncLearner": "true"}]),
    ),
    built(
        commands.ElectMaster,
        broker_set=NAMES,
        broker_id=st.one_of(st.none(), IDS),
        designate=FLAGS,
        trigger=st.sampled_from(["broker", "admin", "master lost"]),
    ),
    built(
        commands.CleanBrokerData,
        cluster=CLUSTERS,
        broker_set=NAMES,
        broker_ids=st.sampled_from([None, "1", "2;3", "x"]),
        clean_living=FLAGS,
    ),
    built(
        commands.PutTopic,
        topic=st.sampled_from(["T", "T", "T", "%RETRY%g", "bad name"]),
        read_queues=st.integers(0, 3),
        write_queues=st.just(1),
        permission=st.just(6),
        attributes=st.sampled_from([{}, {"+message.type": "FIFO"}, {"-message.type": ""}]),
    ),
    built(commands.DeleteTopic, topic=st.sampled_from(["T", "%RETRY%g"])),
    built(
        commands.ChangeConfig,
        scope=st.sampled_from(["controller", "broker-set/a", "nowhere"]),
        changes=st.dictionaries(
            st.sampled_from(["enableElectUncleanMaster", "notifyBrokerRoleChanged"]),
            st.sampled_from(["true", "false", None, "odd"]),
        ),
    ),
    st.just(CREATE),
    built(commands.RecordLeader, node_id=st.integers(1, 2), cause=st.just("silent")),
    built(
        commands.RecordNodeStart,
        node_id=st.just(1),
        dir_uuid=st.sampled_from(["u1", "u1", DIRECTORY]),
        version=st.just("1"),
        addresses=st.just(ADDRESSES),
        feature_min=st.just(1),
        feature_max=st.integers(1, 3),
    ),
    built(commands.RaiseFeatureLevel, level=st.integers(0, 3)),
    built(commands.RebuildVoter, node_id=st.integers(1, 2), dir_uuid=st.just(DIRECTORY)),
)


KEYS = st.sampled_from([b"a", b"b", b"\x00", b"\xffz"])
LEASES = st.sampled_from([0, 1, 1, -5])
PUTS = built(
    commands.PutKey,
    key=KEYS,
    value=st.sampled_from([b"", b"v", b"\xff"]),
    lease=LEASES,
    previous=FLAGS,
    keep_lease=FLAGS,
)
DELETES = built(commands.DeleteKeys, key=KEYS, range_end=st.sampled_from([b"", b"\x00", b"c"]), previous=FLAGS)
OPERATIONS = st.lists(st.one_of(PUTS, DELETES, built(RangeKeys, key=KEYS, range_end=st.just(b"\x00"))), max_size=3).map(
    tuple
)
COMPARED = built(
    commands.CompareKeys,
    key=KEYS,
    target=st.sampled_from(["version", "create", "mod", "lease"]),
    result=st.sampled_from(["equal", "greater", "less", "not equal"]),
    number=st.integers(0, 3),
)
OF_KEYS = st.one_of(
    PUTS,
    PUTS,
    DELETES,
    built(commands.Transact, compare=st.lists(COMPARED, max_size=2).map(tuple), success=OPERATIONS, failure=OPERATIONS),
    built(commands.GrantLease, lease=LEASES, ttl_s=st.integers(-1, 70)),
    built(commands.RevokeLease, lease=LEASES),
    built(commands.ExpireLease, lease=LEASES, silent_ms=st.just(70_000)),
    built(commands.KeepLease, lease=LEASES),
    built(commands.AskLease, lease=LEASES, with_keys=FLAGS),
    built(commands.CheckpointLeases, leases=st.tuples(st.tuples(LEASES, st.integers(1, 9)))),
)


MEMBERS = st.sampled_from(["m", "m", "n"])
OF_MEMBERS = st.one_of(
    built(
        commands.RegisterMember,
        name=st.sampled_from(["m", "m", "n", "no:name"]),
        incarnation=st.sampled_from(["1", "1", "2"]),
        roles=st.sampled_from([(), ("b", "a", "b")]),
        labels=st.sampled_from([{}, {"rack": "r"}]),
        timeout_ms=st.sampled_from([900, 900, 1]),
    ),
    built(commands.DrainMember, name=MEMBERS),
    built(commands.UnregisterMember, name=MEMBERS, force=FLAGS),
)
SUBJECTS = st.sampled_from(["s", "b/\u00fc", ":.not", "quorate.events.X"])
OF_SCHEMAS = st.one_of(
    built(
        commands.RegisterSchema,
        subject=SUBJECTS,
        schema=st.sampled_from(
            [
                '"int"',
                '["null", "string"]',
                '{"type": "record", "name": "R", "fields": []}',
                '{"name": "R", "fields": [{"name": "a", "type": "int"}], "type": "record"}',
                '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long", "default": 1}]}',
                "{",
            ]
        ),
        schema_type=st.sampled_from(["AVRO", "AVRO", "AVRO", "JSON"]),
    ),
    built(
        commands.DeleteSchema,
        subject=SUBJECTS,
        version=st.sampled_from([None, -1, 1, 2, 3]),
        permanent=FLAGS,
    ),
    st.builds(
        commands.ChangeConfig,
        scope=st.sampled_from(["subject/s", "cluster"]),
        changes=st.dictionaries(
            st.sampled_from(["compatibility", "schemas.compatibility"]),
            st.sampled_from(["NONE", "FULL_TRANSITIVE", "x", None]),
        ),
    ),
)


class Alter(msgspec.Struct, frozen=True):
    """1001 as the present master would send it, off by ``stale`` in both epochs."""

    broker_set: str
    new: frozenset[int]
    stale: int

    def command(self, state: State) -> Command:
        found = state.broker_sets.get(self.broker_set, BrokerSet(name=self.broker_set, cluster="C"))
        master = found.master or 0
        return commands.AlterSyncStateSet(
            broker_set=self.broker_set,
            master=master,
            master_epoch=found.master_epoch - self.stale,
            sync_state_set=tuple(self.new | {master}),
            sync_state_set_epoch=found.sync_state_set_epoch - self.stale,
        )


class Acknowledge(msgspec.Struct, frozen=True):
    """The report about the last election, or (``stale``) about one before it."""

    broker_set: str
    stale: int

    def command(self, state: State) -> Command:
        found = state.broker_sets.get(self.broker_set)
        election = None if found is None else found.election
        delivery = commands.RoleChangeDelivery(
            broker_set=self.broker_set,
            master_epoch=0 if found is None else found.master_epoch,
            election_offset=(0 if election is None else election.offset) - self.stale,
            committed_ms=4,
            acks=(commands.AcknowledgedBy(1, 5, 6),),
        )
        return commands.AcknowledgeRoleChanges(deliveries=(delivery,))


class ByMember(msgspec.Struct, frozen=True):
    """What a member says, or the leader of it, in its epoch or (``stale``) another."""

    said: commands.HearMember | commands.FenceMember | commands.DrainMember
    stale: int

    def command(self, state: State) -> Command:
        found = state.members.get(self.said.name)
        return msgspec.structs.replace(self.said, epoch=(9 if found is None else found.epoch) - self.stale)


class OfSegments(msgspec.Struct, frozen=True):
    """Something plausible about shards and segments."""

    seed: int

    def command(self, state: State) -> Command:
        return plausible(state, Random(self.seed))


class ByClient(msgspec.Struct, frozen=True):
    """What happens to a client of MQTT at a member, or what is settled of it, in its epoch or (``stale``) another."""

    said: commands.OpenSession | commands.CloseSession | commands.PutSubscriptions | commands.AcknowledgeWill | None
    stale: int

    def command(self, state: State) -> Command:
        said, replace = self.said, msgspec.structs.replace
        match said:
            case None:
                return commands.SettleSessions(
                    sessions=tuple((s.client, s.session_epoch) for s in state.sessions.values())
                )
            case commands.AcknowledgeWill():
                number = min(state.wills, default=0)
                handed = state.wills.get(number)
                return replace(said, will=number, member_epoch=0 if handed is None else handed.member_epoch)
            case commands.OpenSession():
                found = state.members.get(said.member)
                return replace(said, member_epoch=(9 if found is None else found.epoch) - self.stale)
            case _:
                session = state.sessions.get(said.client)
                return replace(said, session_epoch=(9 if session is None else session.session_epoch) - self.stale)


class Heard(msgspec.Struct, frozen=True):
    """A broker is heard, or (None) forgotten; it may report epochs nobody gave it."""

    broker_set: str
    broker_id: int
    """0: all of the set."""
    alive: bool | None
    info: Info


STALE = st.sampled_from([0, 0, 0, 1])
BY_MEMBERS = st.builds(
    ByMember,
    said=st.one_of(
        built(
            commands.HearMember,
            name=MEMBERS,
            epoch=st.just(0),
            applied_revision=st.sampled_from([5, 99, 99]),
            want_drain=st.sampled_from([False, False, True]),
        ),
        built(
            commands.FenceMember,
            name=MEMBERS,
            epoch=st.just(0),
            evidence=st.just("heartbeat expired"),
            last_heartbeat_ms=st.just(1),
        ),
        built(commands.DrainMember, name=MEMBERS, epoch=st.just(0)),
    ),
    stale=STALE,
)
CLIENTS = st.sampled_from(["c", "c", "d/ü"])
FILTERS = st.sampled_from(["t/+", "#", "$share/g/t"])
BY_CLIENTS = st.builds(
    ByClient,
    said=st.one_of(
        built(
            commands.OpenSession,
            client=CLIENTS,
            clean_start=FLAGS,
            expiry_s=st.sampled_from([0, 1, 4_294_967_295]),
            member=st.just("m"),
            member_epoch=st.just(0),
            will=st.sampled_from([None, Will(topic="t", payload=b"w"), Will(topic="t", payload=b"", delay_s=1)]),
        ),
        built(commands.CloseSession, client=CLIENTS, session_epoch=st.just(0), end=FLAGS, with_will=FLAGS),
        built(
            commands.PutSubscriptions,
            client=CLIENTS,
            session_epoch=st.just(0),
            added=st.lists(st.builds(Subscription, filter=FILTERS, qos=st.integers(0, 2)), max_size=2).map(tuple),
            removed=st.lists(FILTERS, max_size=1).map(tuple),
        ),
        st.builds(commands.AcknowledgeWill, will=st.just(0), member=st.just("m"), member_epoch=st.just(0)),
        st.none(),
    ),
    stale=STALE,
)
LOST = st.builds(commands.ElectMaster, broker_set=NAMES, trigger=st.just("master lost"))
FITTING = st.one_of(
    st.builds(Heard, broker_set=NAMES, broker_id=st.just(0), alive=st.just(False), info=st.just(Info())),
    st.builds(Alter, broker_set=NAMES, new=st.frozensets(st.integers(1, 3), min_size=1), stale=STALE),
    st.builds(Acknowledge, broker_set=NAMES, stale=STALE),
    st.builds(Heard, broker_set=NAMES, broker_id=IDS, alive=st.just(True), info=st.just(Info(epoch=1, max_offset=9))),
    st.builds(
        Heard,
        broker_set=NAMES,
        broker_id=IDS,
        alive=st.sampled_from([False, False, None]),
        info=st.builds(
            Info,
            epoch=st.sampled_from([-1, 0, 3, 2_000_000]),
            max_offset=st.sampled_from([0, 7, 2**33]),
            priority=st.integers(0, 1),
        ),
    ),
    LOST,
    st.builds(
        commands.FenceBroker,
        cluster=CLUSTERS,
        broker_set=st.just("a"),
        broker_id=st.integers(1, 2),
        evidence=st.just("heartbeat expired"),
        last_heartbeat_ms=st.just(1),
        detected_ms=st.just(2),
    ),
    st.builds(
        commands.UnfenceBroker,
        cluster=CLUSTERS,
        broker_set=st.just("a"),
        broker_id=st.integers(1, 2),
        detected_ms=st.just(3),
    ),
)
Deferred = Alter | Acknowledge | ByMember | OfSegments | ByClient
Item = Command | Deferred | Heard
PROLOGUE: list[Item] = [
    CREATE,
    *(commands.PutTopic(topic="t", read_queues=1, write_queues=queues, permission=6) for queues in (1, 2)),
]
for _name in ("a", "b/ü"):
    for _id in (1, 2, 3):
        PROLOGUE += [
            applying(_id, _name, code=f"h:{_id};{_id}"),
            registering(_id, _name, address=f"h:{_id}"),
            Heard(_name, _id, True, Info(epoch=0, max_offset=_id)),
        ]
    PROLOGUE += [commands.ElectMaster(broker_set=_name, broker_id=1), Alter(_name, frozenset({1, 2, 3}), 0)]
LEVEL_2: list[Item] = [
    commands.RecordNodeStart(node_id=1, dir_uuid="u1", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2),
    commands.RaiseFeatureLevel(level=2),
    commands.GrantLease(lease=1, ttl_s=10),
]
MEMBER: list[Item] = [
    commands.RegisterMember(name="m", incarnation="1", timeout_ms=900),
    ByMember(said=commands.HearMember(name="m", epoch=0, applied_revision=9), stale=0),
]
OPENING = ByClient(
    said=commands.OpenSession(
        client="c", clean_start=True, expiry_s=1, member="m", member_epoch=0, will=Will(topic="t", payload=b"w")
    ),
    stale=0,
)
OF_BROKERS = st.builds(
    lambda prologue, rest: prologue + rest,
    st.sampled_from([PROLOGUE, PROLOGUE, []]),
    st.lists(st.booleans().flatmap(lambda fits: FITTING if fits else COMMANDS), min_size=15, max_size=60),
)
LIVES: list[Item] = [registering(1, registration_epoch=epoch) for epoch in (0, 0, 3)]
OF_ALL = st.builds(
    lambda prologue, rest: prologue + rest,
    st.sampled_from([PROLOGUE + LEVEL_2 + LIVES, [CREATE, *LEVEL_2]]),
    st.lists(st.one_of(OF_KEYS, OF_KEYS, OF_SCHEMAS, COMMANDS), min_size=15, max_size=60),
)
OF_MEMBERS_ALL = st.builds(
    lambda prologue, rest: prologue + rest,
    st.just([CREATE, *LEVEL_2, *MEMBER]),
    st.lists(st.one_of(OF_MEMBERS, BY_MEMBERS, BY_MEMBERS, OF_KEYS), min_size=15, max_size=60),
)
OF_SEGMENTS = st.builds(OfSegments, seed=st.integers(0, 2**16))
JOURNAL: list[Item] = [OfSegments(seed) for seed in range(20)]
OF_THE_JOURNAL = st.builds(
    lambda prologue, rest: prologue + rest,
    st.just([CREATE, *LEVEL_2, *JOURNAL]),
    st.lists(st.one_of(OF_SEGMENTS, OF_SEGMENTS, OF_SEGMENTS, BY_MEMBERS), min_size=15, max_size=60),
)
OF_SESSIONS = st.builds(
    lambda prologue, rest: prologue + rest,
    st.just([CREATE, *LEVEL_2, *MEMBER, OPENING]),
    st.lists(st.one_of(BY_CLIENTS, BY_CLIENTS, BY_CLIENTS, BY_CLIENTS, BY_MEMBERS), min_size=15, max_size=60),
)
HISTORIES = st.one_of(
    *(OF_BROKERS, OF_BROKERS, OF_BROKERS), OF_ALL, OF_MEMBERS_ALL, OF_THE_JOURNAL, *(OF_SESSIONS, OF_SESSIONS)
)
POLICIES = st.sampled_from([PolicySettings(), PolicySettings(), JAVA, PolicySettings(enable_elect_unclean_master=True)])


class Run:
    """A history played: the log, the state after each event, the stores kept from row changes."""

    def __init__(self, policy: PolicySettings) -> None:
        self.policy = policy
        self.live = Live()
        self.state = EMPTY
        self.requests = RequestTable(settings=RequestSettings(remembered_max=5))
        self.sums = RunningSums()
        self.log: list[tuple[Stamp, bytes]] = []
        self.store: dict[bytes, bytes] = {}
        self.request_store: dict[bytes, bytes] = {}

    def step(self, item: Item) -> Decision | Refusal | None:
        if isinstance(item, Heard):
            self.hear(item)
            return None
        command = item.command(self.state) if isinstance(item, Deferred) else item
        outcome = decide(self.state, command, self.context())
        assert outcome == decide(self.state, command, self.context()), "decide is not a function"
        if isinstance(outcome, Decision) and outcome.events:
            self.apply(outcome)
        return outcome

    def hear(self, item: Heard) -> None:
        for broker_id in (item.broker_id,) if item.broker_id else (1, 2, 3, 4):
            name = ("C", item.broker_set, broker_id)
            self.live.infos[name] = item.info
            self.live.living.pop(name, None)
            if item.alive is not None:
                self.live.living[name] = item.alive

    def context(self) -> Context:
        offset = len(self.log)
        term = 1 + offset // 10
        return Context(now_ms=1_000 + offset, term=term, policy=self.policy, live=self.live)

    def apply(self, decision: Decision) -> None:
        first = len(self.log)
        for event in decision.events:
            asked = self.context()
            stamp = Stamp(offset=len(self.log), term=asked.term, time_ms=asked.now_ms)
            before_it = self.state
            self.state = evolve(self.state, event, stamp)
            self.log.append((stamp, encode(event)))
            name = key(event)
            value = rows.row(self.state, name)
            self.sums.entity(before_it, name, value)
            if value is None:
                self.store.pop(name, None)
            else:
                self.store[name] = value
        before = self.requests
        self.requests, changes = before.remember("p", f"{first}-r", first, len(decision.events), b"r", first)
        self.sums.requests(before, self.requests, changes)
        for name, value in changes:
            if value is None:
                del self.request_store[name]
            else:
                self.request_store[name] = value


def played(history: list[Item], policy: PolicySettings) -> Run:
    """All of it."""
    run = Run(policy)
    for item in history:
        run.step(item)
    return run


def folded(state: State, log: list[tuple[Stamp, bytes]]) -> State:
    """The state after the events, read from their bytes."""
    for stamp, data in log:
        state = evolve(state, decode(data), stamp)
    return state


@settings(derandomize=True, max_examples=800, database=None)
@given(history=HISTORIES, policy=POLICIES)
def _every_event(seen: set[str], history: list[Item], policy: PolicySettings) -> None:
    run = played(history, policy)
    seen.update(type(decode(data)).__name__ for _, data in run.log)


def test_the_histories_reach_every_event() -> None:
    """Some hundred histories, the same ones every time, write every type of event that a decision writes."""
    seen: set[str] = set()
    _every_event(seen)
    assert seen == WRITTEN


@given(history=HISTORIES, policy=POLICIES)
def test_the_events_are_the_state(history: list[Item], policy: PolicySettings) -> None:
    """Folding the log from nothing gives the state; equal sums, equal rows."""
    run = played(history, policy)
    again = folded(EMPTY, run.log)
    assert again == run.state
    assert plain_sums(again, run.requests, ()) == plain_sums(run.state, run.requests, ())


@given(history=HISTORIES, policy=POLICIES, cut=st.integers(0, 120))
def test_a_snapshot_and_the_tail_are_a_full_replay(history: list[Item], policy: PolicySettings, cut: int) -> None:
    """Rows taken anywhere, read back, and the rest of the log folded on top."""
    run = played(history, policy)
    cut = min(cut, len(run.log))
    snapshot = list(rows.rows(folded(EMPTY, run.log[:cut])))
    assert folded(rows.from_rows(snapshot), run.log[cut:]) == run.state


@given(history=HISTORIES, policy=POLICIES)
def test_a_store_kept_row_by_row_is_the_state(history: list[Item], policy: PolicySettings) -> None:
    """Each event touches exactly the entity its key names, so writing that row is enough."""
    run = played(history, policy)
    assert run.store == dict(rows.rows(run.state))
    assert run.request_store == dict(run.requests.rows())
    restarted = finished(RequestTable.restoring(run.request_store.items(), run.requests.settings))
    assert restarted.replies == run.requests.replies
    assert plain_sums(rows.from_rows(run.store.items()), restarted, ()) == plain_sums(run.state, run.requests, ())


@given(history=HISTORIES, policy=POLICIES)
def test_the_sums_carried_along_are_those_of_the_rows(history: list[Item], policy: PolicySettings) -> None:
    """Whatever was written, replaced, taken away or forgotten on the way."""
    run = played(history, policy)
    assert (run.sums.rows, run.sums.whole) == plain_sums(run.state, run.requests, ())


@given(history=HISTORIES, policy=POLICIES)
def test_a_refusal_and_an_empty_decision_change_nothing(history: list[Item], policy: PolicySettings) -> None:
    """Whatever was asked, the state is the very same value, and the same command is answered the same."""
    run = Run(policy)
    for item in history:
        before, length = run.state, len(run.log)
        outcome = run.step(item)
        if not isinstance(outcome, Decision) or not outcome.events:
            assert run.state is before
            assert len(run.log) == length


@given(history=HISTORIES, policy=POLICIES)
def test_epochs_and_counters_only_rise_in_the_life_of_a_set(history: list[Item], policy: PolicySettings) -> None:
    """And a master epoch has one master."""
    run = played(history, policy)
    state, masters = EMPTY, defaultdict(set)
    life = 0
    for stamp, data in run.log:
        event = decode(data)
        after = evolve(state, event, stamp)
        for name, found in after.broker_sets.items():
            old = state.broker_sets.get(name)
            if old is None or not (old.sync_known and found.sync_known):
                life += 1
                continue
            assert found.master_epoch >= old.master_epoch
            assert found.sync_state_set_epoch >= old.sync_state_set_epoch
            assert found.next_broker_id >= old.next_broker_id
            assert (found.sync_state_set_epoch > old.sync_state_set_epoch) == isinstance(
                event, MasterElected | SyncStateSetAltered
            ) or event.broker_set != name  # type: ignore[union-attr]
        if isinstance(event, MasterElected):
            masters[event.broker_set, event.master_epoch, life].add(event.master)
        state = after
    assert all(len(found) == 1 for found in masters.values())


@given(history=HISTORIES)
def test_under_the_safe_policy_nobody_unfit_is_elected(history: list[Item]) -> None:
    """The winner is a member with an address; not a learner; alive and in sync, but for the first election, and for a
    master that moved and stays.
    """
    run = played(history, PolicySettings())
    for _, data in run.log:
        event = decode(data)
        if not isinstance(event, MasterElected):
            continue
        (winner,) = [candidate for candidate in event.candidates if candidate.verdict == "elected"]
        assert (winner.broker_id, winner.out_by) == (event.master, "")
        assert event.master_address
        assert event.explanation.startswith(f"Broker {event.master} is master of ")
        stays = event.decided_by == "address changed" and event.master == event.old_master
        assert event.decided_by == "first election" or stays or (winner.alive and winner.in_sync) or event.unclean
        believed = [c.epoch for c in event.candidates if c.epoch <= event.master_epoch + 1_000_000]
        assert event.master_epoch > max(believed, default=0)


@given(history=HISTORIES, policy=POLICIES)
def test_an_id_handed_out_was_never_handed_out_before(history: list[Item], policy: PolicySettings) -> None:
    """Brokers that apply for the id they are told get one nobody had, in the life of the set."""
    run = Run(msgspec.structs.replace(policy, no_half_known_sets=True))
    given_out: set[int] = set()
    for drawn in history:
        item = drawn
        if isinstance(item, commands.ApplyBrokerId):
            told = queries.answer(queries.NextBrokerId(cluster="C", broker_set="a"), run.state, run.live)
            assert isinstance(told, queries.NextBrokerIdIs)
            item = msgspec.structs.replace(
                item, broker_set="a", broker_id=told.next_broker_id, register_check_code=f"h:{len(run.log)};1"
            )
            if "a" not in run.state.broker_sets:
                given_out.clear()
            assert told.next_broker_id not in given_out
            given_out.add(told.next_broker_id)
        run.step(item)
