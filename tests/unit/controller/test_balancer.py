"""The leader evens out who leads, if it is told to."""

from quorate.controller.balancer import Balancer
from quorate.events import MasterElected
from quorate.metadata.balance_settings import BalanceSettings
from quorate.metadata.commands import ApplyBrokerId, ElectMaster, RegisterBroker
from tests.unit.controller.bench import Bench, Line
from tests.unit.controller.test_liveness import facts

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
