"""The leader evens out who leads, if it is told to."""

from quorate.controller.balancer import Balancer
from quorate.events import MasterElected
from quorate.metadata.balance import plan
from quorate.metadata.balance_settings import BalanceSettings
from quorate.metadata.commands import ApplyBrokerId, ElectMaster, ElectSegmentLeader, RegisterBroker
from quorate.metadata.context import Context
from quorate.slices import finished
from tests.unit.controller.bench import Bench, Line
from tests.unit.controller.test_liveness import facts
from tests.unit.controller.test_member_keeper import passing
from tests.unit.controller.test_segment_keeper import Store

HOSTS = ("10.0.0.1", "10.0.0.2")


def uneven(settings: BalanceSettings) -> Bench:
    """Four sets of two, all led from one host, at a leader that balances like this."""
    bench = Bench()
    bench.listeners.add(Balancer(bench.controller, bench.loop, settings))
    bench.open()
    for name in "abcd":
        for broker_id, host in enumerate(HOSTS, start=1):
            code = f"{host}:10911;{name}"
            bench.done(ApplyBrokerId(cluster="c", broker_set=name, broker_id=broker_id, register_check_code=code))
            address = f"{host}:10911"
            bench.done(RegisterBroker(cluster="c", broker_set=name, broker_id=broker_id, address=address))
            bench.beat(Line(), broker_id, name=name)
        bench.done(ElectMaster(cluster="c", broker_set=name, broker_id=1))
        bench.in_sync(1, 2, name=name)
    return bench


def moved(bench: Bench) -> list[tuple[str, int]]:
    """By balance, so far."""
    events = [event for event in facts(bench, 0) if isinstance(event, MasterElected)]
    return [(event.broker_set, event.master) for event in events if event.trigger == "balance"]


def test_it_moves_what_a_plan_says_and_then_nothing() -> None:
    """One after the other; evened out, it stays so."""
    bench = uneven(BalanceSettings(period_s=1, rest_s=0))
    for _ in range(3):
        bench.after(1.0)
        bench.settle()
    assert moved(bench) == [("a", 2), ("b", 2)]


def test_it_is_off_unless_a_setting_says_otherwise() -> None:
    """An operator who set nothing sees no master move."""
    bench = uneven(BalanceSettings(rest_s=0))
    bench.after(8.0)
    bench.settle()
    assert moved(bench) == []


def test_who_leads_no_more_moves_nothing_more() -> None:
    """A plan of another term ends where it is."""
    bench = uneven(BalanceSettings(period_s=1, rest_s=0))
    bench.engine.lose(2)
    bench.after(3.0)
    bench.settle()
    assert moved(bench) == []


def test_leaders_of_segments_move_as_a_plan_says_them() -> None:
    """The events are those of the plan that anybody could have read just before, in its order; then there are none."""
    store = Store("m1", "m2")
    bench, settings = store.bench, BalanceSettings(period_s=1, rest_s=0)
    for name in ("a", "b", "c", "d"):
        store.shard(name, replication=2)
        bench.done(ElectSegmentLeader(segment=f"{name}/0", trigger="operator", wanted="m1"))
    controller = bench.controller
    context = Context(
        now_ms=bench.loop.time_ms(),
        term=1,
        policy=controller.policy_for(),
        live=controller.live_now(),
        members=controller.members,
    )
    found = finished(plan(controller.state, context, settings))
    assert len(found.segments) == 2
    balancer = Balancer(controller, bench.loop, settings)
    bench.listeners.add(balancer)
    balancer.opened(1)
    passing(bench, 5)
    moved = [event for event in store.elections() if event.trigger == "balance"]
    assert [(event.segment, event.old_leader, event.leader) for event in moved] == [
        (move.segment, move.old, move.new) for move in found.segments
    ]
