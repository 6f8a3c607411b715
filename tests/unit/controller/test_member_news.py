"""The living members of a set are told of a broker that registers, until each has heard it."""

from quorate.controller import Liveness, MemberNews, RoleChange
from quorate.events import BrokerRegistered
from quorate.metadata.commands import (
    ApplyBrokerId,
    ChangeConfig,
    CleanBrokerData,
    ElectMaster,
    FenceBroker,
    RegisterBroker,
)
from tests.unit.controller.bench import Bench, Line

ADDRESSES = {number: f"127.0.0.1:{30000 + number}" for number in (1, 2, 3)}


def telling(*, acknowledge: bool | None, brokers: int = 2) -> tuple[Bench, MemberNews, list[Line]]:
    """An open term, and a set whose first broker is master; what was told until then is forgotten."""
    bench = Bench()
    liveness = Liveness(bench.controller, bench.loop, bench.brokers, bench.wire, bench.settings)
    news = MemberNews(bench.controller, bench.loop, bench.brokers, bench.settings)
    bench.controller.listeners.add(liveness, news)
    bench.brokers.acknowledge = True
    bench.open()
    lines = [Line() for _ in range(brokers)]
    bench.broker_set(lines)
    beating(bench, lines, 2)
    assert len(news) == 0
    bench.brokers.acknowledge = acknowledge
    bench.brokers.notified.clear()
    return bench, news, lines


def joins(bench: Bench, number: int = 3) -> None:
    """One more broker."""
    address = ADDRESSES[number]
    bench.done(ApplyBrokerId(cluster="c", broker_set="a", broker_id=number, register_check_code=f"{address};1"))
    bench.done(RegisterBroker(cluster="c", broker_set="a", broker_id=number, address=address))


def beating(bench: Bench, lines: list[Line], seconds: int) -> None:
    """Time passes, and these live."""
    for _ in range(seconds):
        for number, line in enumerate(lines, start=1):
            bench.beat(line, number)
        bench.after(1.0)


def test_each_living_member_is_told_who_is_in_its_set() -> None:
    """Not the new one itself, which is answered; with the epochs there are, so that nobody changes its role; once."""
    bench, news, lines = telling(acknowledge=True)
    joins(bench)
    beating(bench, lines, 3)
    assert sorted(address for address, _, _ in bench.brokers.notified) == [ADDRESSES[1], ADDRESSES[2]]
    known = bench.machine.state.broker_sets["a"]
    (change,) = {change.master_epoch: change for _, change, _ in bench.brokers.notified}.values()
    assert change == RoleChange(
        1, ADDRESSES[1], known.master_epoch, known.sync_state_set, known.sync_state_set_epoch, ADDRESSES
    )
    assert len(news) == 0


def test_who_did_not_hear_it_is_told_again() -> None:
    """With back-off, and what is true by then: an acknowledgement of less than that does not count."""
    bench, news, lines = telling(acknowledge=None, brokers=1)
    joins(bench, 2)
    beating(bench, lines, 1)
    _, _, refuse = bench.brokers.notified.pop()
    refuse(False)
    beating(bench, lines, 1)
    (told,) = bench.brokers.notified
    bench.brokers.notified.clear()
    joins(bench, 3)
    told[2](True)
    assert len(news) >= 1
    bench.brokers.acknowledge = True
    beating(bench, lines, 3)
    assert {address for address, _, _ in bench.brokers.notified} == {ADDRESSES[1]}
    assert bench.brokers.notified[-1][1].members == ADDRESSES
    assert len(news) == 0
    count = len(bench.brokers.notified)
    told[2](False)
    beating(bench, lines, 2)
    assert len(bench.brokers.notified) == count


def test_who_is_fenced_cleaned_or_silent_is_not_told() -> None:
    """Nothing waits for it either."""
    bench, news, _ = telling(acknowledge=False, brokers=2)
    joins(bench)
    assert len(news) == 2
    bench.done(
        FenceBroker(
            cluster="c", broker_set="a", broker_id=2, evidence="heartbeat expired", last_heartbeat_ms=0, detected_ms=0
        )
    )
    bench.done(CleanBrokerData(cluster="c", broker_set="a", broker_ids="1", clean_living=True))
    bench.brokers.notified.clear()
    bench.after(0.5)
    assert len(news) == 0
    assert bench.brokers.notified == []


def test_nobody_is_told_where_role_changes_are_not() -> None:
    """``notifyBrokerRoleChanged`` is off."""
    bench, news, lines = telling(acknowledge=True)
    bench.done(ChangeConfig(scope="controller", changes={"notifyBrokerRoleChanged": "false"}))
    joins(bench)
    beating(bench, lines, 2)
    assert bench.brokers.notified == []
    assert len(news) == 0


def test_a_set_without_a_master_is_told_when_it_has_one() -> None:
    """1008 names a master; until then its members wait."""
    bench = Bench()
    news = MemberNews(bench.controller, bench.loop, bench.brokers, bench.settings)
    bench.controller.listeners.add(news)
    bench.brokers.acknowledge = True
    bench.open()
    joins(bench, 1)
    line = Line()
    bench.beat(line, 1)
    joins(bench, 2)
    beating(bench, [line], 1)
    assert (len(news), bench.brokers.notified) == (1, [])
    bench.done(ElectMaster(cluster="c", broker_set="a", broker_id=1))
    beating(bench, [line], 3)
    assert [address for address, _, _ in bench.brokers.notified] == [ADDRESSES[1]]
    assert len(news) == 0


def test_only_the_leader_tells() -> None:
    """What it was about to tell is forgotten with its leadership, and an answer that comes late means nothing."""
    bench, news, lines = telling(acknowledge=None, brokers=1)
    joins(bench, 2)
    beating(bench, lines, 1)
    (told,) = bench.brokers.notified
    news.lost()
    told[2](False)
    news.committed([(0, BrokerRegistered(cluster="c", broker_set="a", broker_id=2, address=ADDRESSES[2]))])
    beating(bench, lines, 2)
    assert len(news) == 0
    assert len(bench.brokers.notified) == 1
