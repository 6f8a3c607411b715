"""Deaths become facts only on evidence, and only the leader acts on them."""

from quorate.controller import Liveness, messages
from quorate.events import BrokerFenced, BrokerUnfenced, Event, MasterElected
from quorate.wire.avro import decode_events
from tests.unit.controller.bench import Bench, Line


def watched(brokers: int = 3) -> tuple[Bench, list[Line], Liveness]:
    """An open term, liveness watching, one broker set whose master is broker 1."""
    bench = Bench()
    liveness = Liveness(bench.controller, bench.loop, bench.brokers, bench.wire, bench.settings)
    bench.open()
    liveness.start()
    lines = [Line() for _ in range(brokers)]
    bench.broker_set(lines)
    return bench, lines, liveness


def facts(bench: Bench, since: int) -> list[Event]:
    """Events from an offset on."""
    found: list[Event] = []
    for _, batch in bench.store.scan("events"):
        found += [event for stamp, event in decode_events(batch) if stamp.offset >= since]
    return found


def test_a_close_confirmed_by_a_refused_dial_replaces_the_master() -> None:
    """Master killed: its connection closes, nobody listens at its address: fenced, and another one elected at once."""
    bench, lines, _ = watched()
    bench.in_sync(1, 2, 3)
    before = bench.controller.offset
    bench.brokers.dial_result = "refused"
    bench.controller.channel_closed(lines[0])
    bench.settle()
    fenced, elected = facts(bench, before)
    assert isinstance(fenced, BrokerFenced)
    assert (fenced.broker_id, fenced.evidence) == (1, "connection closed")
    assert isinstance(elected, MasterElected)
    assert elected.master in (2, 3)
    assert {c.broker_id: c.out_by for c in elected.candidates}[1] == "not alive"


def test_an_unconfirmed_close_waits_for_the_timeout() -> None:
    """A close that nothing confirms is no death; silence is, after the timeout."""
    bench, lines, _ = watched()
    before = bench.controller.offset
    bench.brokers.dial_result = "accepted"
    bench.controller.channel_closed(lines[0])
    for _ in range(8):
        bench.after(1.0)
        bench.beat(lines[1], 2)
        bench.beat(lines[2], 3)
        bench.settle()
    assert facts(bench, before) == []
    for _ in range(4):
        bench.after(1.0)
        bench.beat(lines[1], 2)
        bench.beat(lines[2], 3)
        bench.settle()
    (fenced, *_) = facts(bench, before)
    assert isinstance(fenced, BrokerFenced)
    assert (fenced.broker_id, fenced.evidence) == (1, "heartbeat expired")


def test_a_second_controller_whose_channel_closed_too_confirms() -> None:
    """Two independent closes since the last heartbeat are a death, in whichever order they are seen."""
    for witness_first in (False, True):
        bench, lines, _ = watched()
        bench.after(0.5)
        before = bench.controller.offset
        note = messages.encode(messages.BrokerClosed("c", "a", 1))
        if witness_first:
            bench.controller.receive(2, note)
            bench.controller.channel_closed(lines[0])
        else:
            bench.controller.channel_closed(lines[0])
            bench.controller.receive(2, note)
        bench.settle()
        assert isinstance(facts(bench, before)[0], BrokerFenced)


def test_a_witness_older_than_the_last_heartbeat_confirms_nothing() -> None:
    """What another controller lost before the broker was last heard here is history."""
    bench, lines, _ = watched()
    bench.after(0.5)
    bench.controller.receive(2, messages.encode(messages.BrokerClosed("c", "a", 1)))
    bench.after(0.5)
    bench.beat(lines[0], 1)
    before = bench.controller.offset
    bench.controller.channel_closed(lines[0])
    bench.settle()
    assert facts(bench, before) == []


def test_a_follower_witnesses_for_the_leader() -> None:
    """A follower that sees a close tells the leader, and decides nothing itself."""
    bench, lines, _ = watched()
    bench.engine.lose(2)
    bench.wire.sent.clear()
    bench.brokers.dial_result = "refused"
    bench.controller.channel_closed(lines[0])
    ((peer, payload),) = bench.wire.sent
    assert (peer, messages.decode(payload)) == (2, messages.BrokerClosed("c", "a", 1))
    assert bench.brokers.dials == []


def test_a_new_leader_acts_on_what_it_saw_as_a_follower() -> None:
    """A master that died while nobody led is replaced as soon as somebody does."""
    bench, lines, _ = watched()
    bench.engine.lose(None)
    bench.controller.channel_closed(lines[0])
    bench.brokers.dial_result = "refused"
    before = bench.controller.offset
    bench.open(2)
    bench.settle()
    kinds = [type(event).__name__ for event in facts(bench, before)]
    assert kinds == ["ControllerLeaderElected", "BrokerFenced", "ElectionFailed"]


def test_never_heard_is_neither_candidate_nor_fenced_for_one_timeout() -> None:
    """A fresh leader that has not heard a broker yet does not declare it dead."""
    bench, _, _ = watched()
    bench.engine.lose(None)
    fresh = Bench()
    for term, entry in bench.engine.log:
        fresh.engine.log.append((term, entry))
    fresh.engine.commit()
    liveness = Liveness(fresh.controller, fresh.loop, fresh.brokers, fresh.wire, fresh.settings)
    fresh.open(5)
    liveness.start()
    before = fresh.controller.offset
    for _ in range(9):
        fresh.after(1.0)
        fresh.settle()
    assert facts(fresh, before) == []
    for _ in range(12):
        fresh.after(1.0)
        fresh.settle()
    assert {type(event).__name__ for event in facts(fresh, before)} >= {"BrokerFenced"}


def test_a_fenced_broker_heard_again_is_unfenced_after_a_while() -> None:
    """Coming back is a fact too, once it has lasted."""
    bench, lines, _ = watched()
    bench.brokers.dial_result = "refused"
    bench.controller.channel_closed(lines[2])
    bench.settle()
    back = Line()
    before = bench.controller.offset
    for _ in range(4):
        for broker_id, line in ((1, lines[0]), (2, lines[1]), (3, back)):
            bench.beat(line, broker_id)
        bench.after(1.0)
        bench.settle()
    (unfenced,) = facts(bench, before)
    assert isinstance(unfenced, BrokerUnfenced)
    assert unfenced.broker_id == 3


def test_when_most_brokers_vanish_at_once_the_leader_first_proves_its_quorum() -> None:
    """If it is the leader that fell off the network, nobody is fenced."""
    bench, lines, _ = watched(brokers=5)
    before = bench.controller.offset
    bench.brokers.dial_result = "refused"
    for line in lines:
        bench.controller.channel_closed(line)
    bench.after(0.01)
    assert bench.engine.reads
    bench.engine.confirm(ok=False)
    bench.engine.commit()
    assert facts(bench, before) == []
