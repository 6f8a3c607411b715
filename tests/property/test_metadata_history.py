"""Laws of the metadata rules, over random histories of a cluster whose brokers come, go and lie.

The history is a list of plain commands and live-table changes; nothing in it is made to fit the state, so most
commands are refused: the laws hold for those, too.
"""

from collections import defaultdict

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from quorate.events import MasterElected, Stamp, SyncStateSetAltered, decode, encode, key
from quorate.metadata import commands, queries, rows
from quorate.metadata.commands import Command, Refusal
from quorate.metadata.context import Context, Decision
from quorate.metadata.decide import decide
from quorate.metadata.evolve import evolve
from quorate.metadata.policy import JAVA, PolicySettings
from quorate.metadata.requests import RequestSettings, RequestTable
from quorate.metadata.state import EMPTY, State
from tests.unit.metadata.kit import ADDRESSES, CREATE, Info, Live

NAMES = st.sampled_from(["a", "b/ü"])
IDS = st.integers(1, 4)
EPOCHS = st.integers(0, 6)
CLUSTERS = st.sampled_from(["C", "D"])
FLAGS = st.booleans()


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
        commands.FenceBroker,
        cluster=CLUSTERS,
        broker_set=NAMES,
        broker_id=IDS,
        evidence=st.just("heartbeat expired"),
        last_heartbeat_ms=st.just(1),
        detected_ms=st.just(2),
    ),
    built(commands.UnfenceBroker, cluster=CLUSTERS, broker_set=NAMES, broker_id=IDS, detected_ms=st.just(3)),
    built(
        commands.AcknowledgeRoleChange,
        broker_set=NAMES,
        master_epoch=EPOCHS,
        election_offset=st.integers(0, 20),
        committed_ms=st.just(4),
        acks=st.just((commands.AcknowledgedBy(1, 5, 6),)),
    ),
    built(
        commands.PutTopic,
        topic=st.sampled_from(["T", "%RETRY%g", "bad name"]),
        read_queues=st.integers(0, 2),
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
        dir_uuid=st.just("u"),
        version=st.just("1"),
        addresses=st.just(ADDRESSES),
        feature_min=st.just(1),
        feature_max=st.integers(1, 3),
    ),
    built(commands.RaiseFeatureLevel, level=st.integers(0, 3)),
)


class Alter(msgspec.Struct, frozen=True):
    """1001 as the present master would send it, off by ``stale`` in both epochs."""

    broker_set: str
    new: frozenset[int]
    stale: int

    def command(self, state: State) -> Command:
        found = state.broker_sets.get(self.broker_set)
        return commands.AlterSyncStateSet(
            broker_set=self.broker_set,
            master=0 if found is None or found.master is None else found.master,
            master_epoch=(0 if found is None else found.master_epoch) - self.stale,
            sync_state_set=tuple(self.new),
            sync_state_set_epoch=(0 if found is None else found.sync_state_set_epoch) - self.stale,
        )


class Heard(msgspec.Struct, frozen=True):
    """A broker is heard, or (None) forgotten; it may report epochs nobody gave it."""

    cluster: str
    broker_set: str
    broker_id: int
    alive: bool | None
    info: Info


ALTERS = st.builds(Alter, broker_set=NAMES, new=st.frozensets(IDS, min_size=1), stale=st.sampled_from([0, 0, 0, 1]))
HEARD = st.builds(
    Heard,
    cluster=st.just("C"),
    broker_set=NAMES,
    broker_id=IDS,
    alive=st.sampled_from([True, True, True, False, None]),
    info=st.builds(
        Info,
        epoch=st.sampled_from([-1, 0, 1, 3, 2_000_000]),
        max_offset=st.sampled_from([0, 7, 2**33]),
        priority=st.integers(0, 1),
    ),
)
HISTORIES = st.lists(st.one_of(COMMANDS, ALTERS, ALTERS, HEARD), min_size=20, max_size=120)
POLICIES = st.sampled_from([PolicySettings(), PolicySettings(), JAVA, PolicySettings(enable_elect_unclean_master=True)])


class Run:
    """A history played: the log, the state after each event, the stores kept from row changes."""

    def __init__(self, policy: PolicySettings) -> None:
        self.policy = policy
        self.live = Live()
        self.state = EMPTY
        self.requests = RequestTable(settings=RequestSettings(remembered_max=5))
        self.log: list[tuple[Stamp, bytes]] = []
        self.store: dict[bytes, bytes] = {}
        self.request_store: dict[bytes, bytes] = {}

    def step(self, item: Command | Alter | Heard) -> Decision | Refusal | None:
        if isinstance(item, Heard):
            name = (item.cluster, item.broker_set, item.broker_id)
            self.live.infos[name] = item.info
            if item.alive is None:
                self.live.living.pop(name, None)
            else:
                self.live.living[name] = item.alive
            return None
        command = item.command(self.state) if isinstance(item, Alter) else item
        outcome = decide(self.state, command, self.context())
        assert outcome == decide(self.state, command, self.context()), "decide is not a function"
        if isinstance(outcome, Decision) and outcome.events:
            self.apply(outcome)
        return outcome

    def context(self) -> Context:
        offset = len(self.log)
        term = 1 + offset // 10
        return Context(now_ms=1_000 + offset, term=term, policy=self.policy, live=self.live, next_offset=offset)

    def apply(self, decision: Decision) -> None:
        first = len(self.log)
        for event in decision.events:
            asked = self.context()
            stamp = Stamp(offset=len(self.log), term=asked.term, time_ms=asked.now_ms)
            self.state = evolve(self.state, event, stamp)
            self.log.append((stamp, encode(event)))
            name = key(event)
            value = rows.row(self.state, name)
            if value is None:
                self.store.pop(name, None)
            else:
                self.store[name] = value
        self.requests, changes = self.requests.remember("p", f"{first}-r", first, len(decision.events), b"r", first)
        for name, value in changes:
            if value is None:
                del self.request_store[name]
            else:
                self.request_store[name] = value


def played(history: list[Command | Alter | Heard], policy: PolicySettings) -> Run:
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


@given(history=HISTORIES, policy=POLICIES)
def test_the_events_are_the_state(history: list, policy: PolicySettings) -> None:
    """Folding the log from nothing gives the state; equal hash, equal rows."""
    run = played(history, policy)
    again = folded(EMPTY, run.log)
    assert again == run.state
    assert rows.state_hash(again, run.requests) == rows.state_hash(run.state, run.requests)


@given(history=HISTORIES, policy=POLICIES, cut=st.integers(0, 120))
def test_a_snapshot_and_the_tail_are_a_full_replay(history: list, policy: PolicySettings, cut: int) -> None:
    """Rows taken anywhere, read back, and the rest of the log folded on top."""
    run = played(history, policy)
    cut = min(cut, len(run.log))
    snapshot = list(rows.rows(folded(EMPTY, run.log[:cut])))
    assert folded(rows.from_rows(snapshot), run.log[cut:]) == run.state


@given(history=HISTORIES, policy=POLICIES)
def test_a_store_kept_row_by_row_is_the_state(history: list, policy: PolicySettings) -> None:
    """Each event touches exactly the entity its key names, so writing that row is enough."""
    run = played(history, policy)
    assert run.store == dict(rows.rows(run.state))
    assert run.request_store == dict(run.requests.rows())
    restarted = RequestTable.from_rows(run.request_store.items(), run.requests.settings)
    assert restarted.replies == run.requests.replies
    assert rows.state_hash(rows.from_rows(run.store.items()), restarted) == rows.state_hash(run.state, run.requests)


@given(history=HISTORIES, policy=POLICIES)
def test_a_refusal_and_an_empty_decision_change_nothing(history: list, policy: PolicySettings) -> None:
    """Whatever was asked, the state is the very same value, and the same command is answered the same."""
    run = Run(policy)
    for item in history:
        before, length = run.state, len(run.log)
        outcome = run.step(item)
        if not isinstance(outcome, Decision) or not outcome.events:
            assert run.state is before
            assert len(run.log) == length


@given(history=HISTORIES, policy=POLICIES)
def test_epochs_and_counters_only_rise_in_the_life_of_a_set(history: list, policy: PolicySettings) -> None:
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
def test_under_the_safe_policy_nobody_unfit_is_elected(history: list) -> None:
    """The winner is a member with an address; not a learner; alive and in sync, but for the first election."""
    run = played(history, PolicySettings())
    for _, data in run.log:
        event = decode(data)
        if not isinstance(event, MasterElected):
            continue
        (winner,) = [candidate for candidate in event.candidates if candidate.verdict == "elected"]
        assert (winner.broker_id, winner.out_by) == (event.master, "")
        assert event.master_address
        assert event.explanation.startswith(f"Broker {event.master} is master of ")
        assert event.decided_by == "first election" or (winner.alive and winner.in_sync) or event.unclean
        believed = [c.epoch for c in event.candidates if c.epoch <= event.master_epoch + 1_000_000]
        assert event.master_epoch > max(believed, default=0)


@given(history=HISTORIES, policy=POLICIES)
def test_an_id_handed_out_was_never_handed_out_before(history: list, policy: PolicySettings) -> None:
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
