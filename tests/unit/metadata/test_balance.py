"""Who should give up which leadership."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import UsageError
from quorate.events import MasterElected
from quorate.metadata import balance, commands
from quorate.metadata.balance import SETS_PER_STEP, Plan, asked, plan
from quorate.metadata.balance_settings import BalanceSettings
from quorate.slices import finished
from tests.unit.metadata.kit import World, altering, applying, registering

NOW = BalanceSettings(rest_s=0)


def planned(world: World, settings: BalanceSettings = NOW) -> Plan:
    """Of this moment."""
    return finished(plan(world.state, world.context(), settings))


def made(world: World, found: Plan) -> list[MasterElected]:
    """Carry it out: each move is one election, of the broker it names."""
    elected = []
    for move in found.moves:
        (event,) = world.events(asked(move, "balance"))
        assert isinstance(event, MasterElected)
        assert (event.broker_set, event.old_master, event.master) == (move.broker_set, move.old, move.new)
        elected.append(event)
        all_in_sync(world, move.broker_set)
    return elected


def all_in_sync(world: World, name: str) -> None:
    """As the master reports it once all have caught up; of a lone master there is nothing to report."""
    broker_set = world.state.broker_sets[name]
    world.do(altering(broker_set, *(replica.broker_id for replica in broker_set.replicas)))


def add(world: World, name: str, *hosts: str, labels: tuple[str, ...] = (), priorities: tuple[int, ...] = ()) -> None:
    """A set with a replica on each of these hosts, all in sync; the first leads."""
    for broker_id, host in enumerate(hosts, start=1):
        capabilities = {"rack": labels[broker_id - 1]} if labels else {}
        world.reply(applying(broker_id, name), commands.BrokerIdApplied)
        announced = registering(broker_id, name, f"{host}:10911", capabilities=capabilities)
        world.reply(announced, commands.BrokerIsRegistered)
        priority = priorities[broker_id - 1] if priorities else 0
        world.heard(broker_id, name=name, alive=True, priority=priority)
    world.reply(commands.ElectMaster(broker_set=name, broker_id=1), commands.MasterIs)
    all_in_sync(world, name)


def test_masters_move_to_the_host_that_leads_least() -> None:
    """Four sets led from one host, with replicas on another: two move, and the sentence in the log says why."""
    world = World()
    for name in "abcd":
        add(world, name, "h1", "h2")
    found = planned(world)
    assert (found.before, found.after) == ({"h1": 4, "h2": 0}, {"h1": 2, "h2": 2})
    assert [(move.broker_set, move.old, move.new) for move in found.moves] == [("a", 1, 2), ("b", 1, 2)]
    first, _ = made(world, found)
    assert first.trigger == "balance"
    assert "for balance (h1 leads 4 sets, h2 leads 0)" in first.explanation
    assert planned(world).moves == ()


def test_a_step_looks_at_a_few_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is nothing to move: the leader makes a plan beside its heartbeats."""
    world = World()
    for number in range(2 * SETS_PER_STEP + 8):
        add(world, f"s{number:02}", *(("h1", "h2") if number % 2 else ("h2", "h1")))
    looks: list[int] = []

    def counting(led: balance.Led, loads: Mapping[str, int]) -> balance.Fit:
        looks[-1] += 1
        return emptiest(led, loads)

    emptiest = balance._emptiest
    monkeypatch.setattr(balance, "_emptiest", counting)
    steps = plan(world.state, world.context(), NOW)
    found: Plan | None = None
    while found is None:
        looks.append(0)
        try:
            next(steps)
        except StopIteration as end:
            found = end.value
    assert found.moves == ()
    assert sum(looks) == 2 * (2 * SETS_PER_STEP + 8)
    assert max(looks) <= SETS_PER_STEP


def test_a_difference_of_one_is_no_difference() -> None:
    """Three sets on two hosts are as even as they can be: nothing goes there and back."""
    world = World()
    for name in "abc":
        add(world, name, *(("h1", "h2") if name < "c" else ("h2", "h1")))
    assert planned(world).moves == ()
    with pytest.raises(UsageError, match="apart_min must be at least 2"):
        BalanceSettings(apart_min=1)


def test_only_who_is_alive_and_in_sync_and_no_learner_is_moved_to() -> None:
    """And a set whose master is not heard is the business of elections, not of balance."""
    world = World()
    for name in "abcdef":
        add(world, name, "h1", "h2")
    world.heard(2, name="a", alive=False)
    world.reply(altering(world.state.broker_sets["b"], 1), commands.SyncStateSetIs)
    world.do(commands.ChangeConfig(scope="broker-set/c", changes={"learners": "2"}))
    world.heard(1, name="d", alive=False)
    assert [move.broker_set for move in planned(world).moves] == ["e", "f"]


def test_a_better_priority_leads_and_is_not_moved_away() -> None:
    """What operators prefer comes first; evening out chooses among replicas of the best priority alone."""
    world = World()
    add(world, "a", "h1", "h2", priorities=(5, 1))
    for name in "bcd":
        add(world, name, "h1", "h2", priorities=(1, 5))
    (move,) = planned(world).moves
    assert (move.broker_set, move.new, move.rule) == ("a", 2, "a better priority")
    assert move.why == "broker 2 has priority 1, the master 5"


def test_a_label_names_the_place() -> None:
    """Two hosts in one rack are one place."""
    world = World()
    for name in "abcd":
        add(world, name, "h1", "h2", "h3", labels=("r1", "r1", "r2"))
    found = planned(world, BalanceSettings(rest_s=0, label="rack"))
    assert (found.before, found.after) == ({"r1": 4, "r2": 0}, {"r1": 2, "r2": 2})
    assert {move.new for move in found.moves} == {3}


def test_moves_are_few_and_a_set_rests_after_an_election() -> None:
    """At most so many in a plan; none of a set that was just elected."""
    world = World()
    for name in "abcdefgh":
        add(world, name, "h1", "h2")
    assert len(planned(world, BalanceSettings(rest_s=0, moves_max=3)).moves) == 3
    assert planned(world, BalanceSettings(rest_s=60)).moves == ()
    world.now_ms += 60_000
    assert len(planned(world, BalanceSettings(rest_s=60)).moves) == 4


HOSTS = st.lists(st.sampled_from(["h1", "h2", "h3", "h4"]), min_size=1, max_size=3, unique=True)


@given(sets=st.lists(st.tuples(HOSTS, st.lists(st.integers(0, 2), min_size=3, max_size=3)), max_size=12))
def test_plans_that_are_carried_out_end(sets: list[tuple[list[str], list[int]]]) -> None:
    """Whatever the sets are, each plan says what its moves bring, none of them is refused, and after a few plans there
    is nothing left to move; then no leadership could go to a place that leads two fewer without loss of priority.
    """
    world = World()
    for number, (hosts, priorities) in enumerate(sets):
        add(world, f"s{number:02}", *hosts, priorities=tuple(priorities[: len(hosts)]))
    for _ in range(2 * len(sets) + 1):
        found = planned(world)
        made(world, found)
        assert planned(world).before == found.after
        if not found.moves:
            break
    else:
        raise AssertionError("it never ends")
    for broker_set in world.state.broker_sets.values():
        place = {one.broker_id: one.address.partition(":")[0] for one in broker_set.replicas}
        said = {one.broker_id: world.live.infos["C", broker_set.name, one.broker_id] for one in broker_set.replicas}
        best = min(info.priority for info in said.values())
        assert broker_set.master is not None
        assert said[broker_set.master].priority == best
        mine = found.after[place[broker_set.master]]
        assert all(mine - found.after[place[one]] < 2 for one, info in said.items() if info.priority == best)


@pytest.mark.parametrize("barred", ["lags", "learner"])
def test_a_move_goes_past_who_may_not_lead(barred: str) -> None:
    """The emptiest place of all is no reason to pick a replica that lags, or a learner: the next one is taken."""
    world = World()
    for name in "ab":
        add(world, name, "h1", "h2", "h3")
    if barred == "lags":
        world.reply(altering(world.state.broker_sets["a"], 1, 3), commands.SyncStateSetIs)
    else:
        world.do(commands.ChangeConfig(scope="broker-set/a", changes={"learners": "2"}))
    found = planned(world)
    assert [(move.broker_set, move.new) for move in found.moves] == [("a", 3)]
    assert found.after == {"h1": 1, "h2": 0, "h3": 1}


def test_a_set_without_a_master_leads_nothing() -> None:
    """It is the business of elections; its brokers' places are none of the plan's."""
    world = World()
    world.broker(1, "new")
    assert planned(world) == Plan((), {}, {})
