"""A pass over facts and evidence costs what changed, never what is silent, and passes do not pile up."""

from collections.abc import Callable

import pytest

from quorate.clock import Timer
from quorate.controller import ControllerSettings, Liveness
from quorate.controller.live import LiveTable
from quorate.controller.watchlist import Watchlist
from quorate.events import BrokerFenced, BrokerUnfenced, MasterElected
from quorate.metadata.commands import ApplyBrokerId, CleanBrokerData
from tests.unit.controller.bench import Bench, Line
from tests.unit.controller.test_liveness import facts

STRANGERS = 600


class Crowd:
    """A leader with one set of three living brokers, and many ids applied for by nobody."""

    def __init__(self, strangers: int = STRANGERS, **settings: float) -> None:
        self.bench = Bench(settings=ControllerSettings(**settings))  # type: ignore[arg-type]
        bench = self.bench
        self.liveness = Liveness(bench.controller, bench.loop, bench.brokers, bench.wire, bench.settings)
        bench.controller.listeners.add(self.liveness)
        bench.open()
        self.liveness.start()
        self.lines = [Line() for _ in range(3)]
        bench.broker_set(self.lines)
        bench.in_sync(1, 2, 3)
        for one in range(strangers):
            self.apply(f"s{one}")

    def apply(self, name: str) -> None:
        """An id for somebody who will never be heard."""
        command = ApplyBrokerId(cluster="c", broker_set=name, broker_id=1, register_check_code="h:1;1")
        self.bench.done(command)

    def quiet(self, seconds: int, *, beating: int = 3) -> None:
        """Time passes; the first brokers of set a are heard each second."""
        for _ in range(seconds):
            for broker_id, line in enumerate(self.lines[:beating], start=1):
                self.bench.beat(line, broker_id)
            for _ in range(100):
                self.bench.settle(1)


def lookups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts what is asked of the live table from here on."""
    count, get = [0], LiveTable.get

    def counting(self: LiveTable, cluster: str, broker_set: str, broker_id: int) -> object:
        count[0] += 1
        return get(self, cluster, broker_set, broker_id)

    monkeypatch.setattr(LiveTable, "get", counting)
    return count


def test_a_pass_does_not_visit_who_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six hundred ids that nobody was ever heard of, all fenced: ten passes ask the live table for a fixed number of
    them in turn, and for what changed; not for each of them in each slice, nor once a pass.
    """
    crowd = Crowd(scan_round=2)
    crowd.quiet(30)
    assert sum(isinstance(event, BrokerFenced) for event in facts(crowd.bench, 0)) == STRANGERS
    count = lookups(monkeypatch)
    crowd.quiet(10)
    assert count[0] <= 10 * 10
    before = count[0]
    crowd.apply("one more")
    crowd.quiet(1)
    assert 0 < count[0] - before <= 30


def test_the_next_pass_begins_when_the_last_has_ended() -> None:
    """A leader whose leadership takes long to confirm asks for it once, not once a second; and what a pass has to ask
    for is asked with rests between, however many it finds.
    """
    crowd = Crowd(strangers=0)
    bench = crowd.bench
    bench.after(1.5)
    waiting = len(bench.engine.reads)
    bench.after(5.0)
    assert len(bench.engine.reads) == waiting == 1
    bench.engine.confirm(ok=False)
    bench.after(1.1)
    assert len(bench.engine.reads) == 1


def test_fencings_of_brokers_never_heard_leave_time_for_others() -> None:
    """Two hundred of them fall due at once: between two fencings the loop rests, and nobody else's waits for theirs."""
    crowd = Crowd(strangers=200, fencing_pause_s=0.02)
    bench = crowd.bench
    crowd.quiet(20)
    log = len(bench.engine.log)
    while len(bench.engine.log) == log:
        assert bench.world.now < 1040.0
        bench.settle(1)
    bench.settle(100)
    assert 10 <= len(bench.engine.log) - log <= 1.0 / 0.02 + 2
    bench.brokers.dial_result = "refused"
    bench.controller.channel_closed(crowd.lines[0])
    bench.settle(5)
    assert any(isinstance(e, BrokerFenced) and e.broker_set == "a" for e in facts(bench, 0))
    assert any(isinstance(e, MasterElected) and e.master in (2, 3) for e in facts(bench, 0))
    missed = {e.broker_set for e in facts(bench, 0) if isinstance(e, BrokerFenced)} - {"a"}
    assert len(missed) < 200


def test_every_change_finds_its_way_onto_the_list() -> None:
    """Without the round that looks at everything in turn: a broker that comes back is unfenced, one that was never
    heard is fenced after its timeout, one whose fencing could not be proposed is fenced later, and a set whose master
    is gone has one when somebody in sync is back.
    """
    crowd = Crowd(strangers=3, scan_round=0)
    bench = crowd.bench
    crowd.quiet(25, beating=0)
    fenced = {(e.broker_set, e.broker_id) for e in facts(bench, 0) if isinstance(e, BrokerFenced)}
    assert fenced == {("a", 1), ("a", 2), ("a", 3), ("s0", 1), ("s1", 1), ("s2", 1)}
    assert bench.machine.state.broker_sets["a"].master is None
    before = bench.controller.offset
    crowd.quiet(9, beating=1)
    back = facts(bench, before)
    assert [e.broker_id for e in back if isinstance(e, BrokerUnfenced)] == [1]
    in_sync = bench.machine.state.broker_sets["a"].sync_state_set
    assert [e.master for e in back if isinstance(e, MasterElected)] == [1] * (1 in in_sync)


def test_a_set_cleaned_and_applied_for_again_is_missed_anew() -> None:
    """What was kept of the silent goes with their set: nothing grows, and the next holder has its own timeout."""
    crowd = Crowd(strangers=50, scan_round=0)
    crowd.quiet(15)
    for one in range(50):
        crowd.bench.done(CleanBrokerData(cluster="c", broker_set=f"s{one}", clean_living=True))
    crowd.quiet(3)
    assert crowd.liveness._silent_since == {}
    crowd.quiet(10)
    assert len(crowd.liveness._watchlist) == 0


def test_a_lost_leadership_ends_the_pass() -> None:
    """Nothing of it goes on in the next term beside the new leader's own look at everything."""
    crowd = Crowd(strangers=100, scan_round=0)
    crowd.quiet(10)
    bench = crowd.bench
    bench.after(1.0)
    bench.engine.confirm()
    bench.after(0.05)
    bench.engine.lose(2)
    assert crowd.liveness._pass is None
    before = len(bench.engine.log)
    bench.after(3.0)
    assert len(bench.engine.log) == before
    bench.open(2)
    crowd.quiet(15)
    fenced = [e.broker_set for e in facts(bench, 0) if isinstance(e, BrokerFenced)]
    assert len(fenced) == len(set(fenced)) == 100


def test_a_set_is_on_the_list_once_and_comes_when_its_time_has_come() -> None:
    """The earliest time asked for holds; what changed comes at once; the round goes through all sets in turn."""
    sets = {f"s{number}": None for number in range(5)}
    watchlist = Watchlist(2)
    watchlist.at("a", 10.0)
    watchlist.at("a", 5.0)
    watchlist.at("a", 7.0)
    watchlist.changed("b")
    watchlist.changed("b")
    assert len(watchlist) == 2
    assert watchlist.take(sets, 1.0) == ["b"]
    assert watchlist.take(sets, 6.0) == ["a", "s0", "s1"]
    assert watchlist.take(sets, 11.0) == ["s2", "s3"]
    assert watchlist.take(sets, 11.0) == ["s4"]
    assert watchlist.take(sets, 11.0) == ["s0", "s1"]
    watchlist.changed("c")
    watchlist.clear()
    assert watchlist.take({}, 99.0) == ["s2", "s3"]


def test_a_controller_whom_nobody_asks_looks_at_no_deadlines() -> None:
    """Deadlines are looked at while a request waits for its end, and once more; at rest no timer is armed for it."""
    bench = Bench()
    bench.open()
    bench.engine.commit()
    bench.after(1.0)
    armed: list[float] = []
    call_later = bench.loop.call_later

    def counting(delay_s: float, callback: Callable[[], None]) -> Timer:
        if delay_s == bench.settings.deadline_sweep_s:
            armed.append(delay_s)
        return call_later(delay_s, callback)

    bench.loop.call_later = counting  # type: ignore[assignment,method-assign]
    bench.after(5.0)
    assert armed == []
    command = ApplyBrokerId(cluster="c", broker_set="a", broker_id=1, register_check_code="h:1;1")
    bench.submit(command)
    bench.engine.commit()
    bench.after(5.0)
    assert len(armed) == 1
