"""A member is fenced when it is not heard for its timeout, and only then, whoever leads."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.controller import Answered, Busy, Refused, controller, member_keeper
from quorate.controller.member_keeper import LATE_S
from quorate.controller.settings import ControllerSettings
from quorate.events import MemberFenced, MemberRegistered, MemberUnfenced
from quorate.metadata.commands import (
    AskMember,
    Command,
    DrainMember,
    FenceMember,
    HearMember,
    MemberDescribed,
    MemberIs,
    PutKey,
    RaiseFeatureLevel,
    RecordNodeStart,
    Refusal,
    RegisterMember,
    UnregisterMember,
)
from quorate.metadata.context import Context, Decision
from quorate.metadata.decide import decide
from quorate.metadata.refusals import refuse
from quorate.model.live import MemberHealth
from quorate.model.members import condition
from quorate.model.state import Member, State
from tests.unit.controller.bench import ADDRESSES, Bench
from tests.unit.controller.test_liveness import facts


def keeping(**settings: Any) -> Bench:
    """An open term of level 2."""
    bench = Bench(settings=ControllerSettings(**settings))
    bench.open()
    bench.done(RecordNodeStart(node_id=1, dir_uuid="u", version="1", addresses=ADDRESSES, feature_min=1, feature_max=2))
    bench.done(RaiseFeatureLevel(level=2))
    return bench


def passing(bench: Bench, seconds: float) -> None:
    """Let time pass, with whatever it brings committed."""
    for _ in range(round(seconds * 10)):
        bench.after(0.1)
        bench.engine.commit()
        bench.engine.confirm()


def registered(bench: Bench, name: str = "m", incarnation: str = "1", timeout_ms: int = 2_000) -> int:
    """A member that has caught up; its epoch."""
    outcome = bench.done(RegisterMember(name=name, incarnation=incarnation, timeout_ms=timeout_ms))
    assert isinstance(outcome, Answered), outcome
    assert isinstance(outcome.reply, MemberIs)
    epoch = outcome.reply.registered_epoch(outcome.offset)
    assert heard(bench, epoch, name) == MemberIs(name=name, epoch=epoch)
    return epoch


def heard(bench: Bench, epoch: int, name: str = "m", **said: Any) -> object:
    """What a heartbeat is answered."""
    outcome = bench.done(HearMember(name=name, epoch=epoch, applied_revision=epoch, **said))
    return outcome.reply if isinstance(outcome, Answered) else outcome


def fences(bench: Bench) -> list[MemberFenced]:
    """Of members, so far."""
    return [event for event in facts(bench, 0) if isinstance(event, MemberFenced)]


def test_a_member_that_is_not_heard_is_fenced() -> None:
    """Not before its timeout, and soon after it; the event says when it was heard last."""
    bench = keeping()
    epoch = registered(bench)
    last_ms = bench.loop.time_ms()
    passing(bench, 1.8)
    assert not fences(bench)
    passing(bench, 0.8)
    (fenced,) = fences(bench)
    assert (fenced.reason, fenced.evidence, fenced.epoch) == ("silent", "heartbeat expired", epoch)
    assert abs(fenced.last_heartbeat_ms - last_ms) <= 50
    passing(bench, 9)
    assert len(fences(bench)) == 1


def test_a_member_that_is_heard_is_left_alone_and_costs_no_event() -> None:
    """For as long as it beats; when it is silent and comes back it is unfenced, and watched again."""
    bench = keeping()
    epoch = registered(bench)
    end = bench.machine.offset
    for _ in range(5):
        passing(bench, 1.5)
        heard(bench, epoch)
    assert bench.machine.offset == end
    passing(bench, 3)
    assert len(fences(bench)) == 1
    heard(bench, epoch)
    assert isinstance(facts(bench, 0)[-1], MemberUnfenced)
    passing(bench, 3)
    assert len(fences(bench)) == 2


def test_a_member_has_one_turn_however_often_it_says_something_else_of_itself() -> None:
    """Else so many words of one member would be that many turns of the leader, up to ten minutes later. It is fenced
    by its last word: as soon as a shorter timeout is over, and not before a longer one.
    """
    bench = keeping()
    registered(bench, timeout_ms=60_000)
    waiting = bench.controller.members._agenda._items
    for number in range(100):
        said = RegisterMember(name="m", incarnation="1", timeout_ms=60_000, labels={"n": str(number)})
        assert isinstance(bench.done(said), Answered)
        assert len(waiting) == 1
    bench.done(RegisterMember(name="m", incarnation="1", timeout_ms=2_000))
    assert len(waiting) == 2
    passing(bench, 1)
    bench.done(RegisterMember(name="m", incarnation="1", timeout_ms=4_000))
    passing(bench, 3.5)
    assert not fences(bench)
    passing(bench, 1)
    assert len(fences(bench)) == 1
    bench.done(RegisterMember(name="m", incarnation="1", timeout_ms=3_000))
    passing(bench, 60)
    assert len(fences(bench)) == 1
    assert not waiting


def test_a_fencing_that_fails_is_tried_again_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not for ever that a rule fails; as long as it does, its log is not full of it."""
    bench, tries, fails = keeping(), list[Command](), [True]

    def decided(state: State, command: Command, context: Context) -> Decision | Refusal:
        if isinstance(command, FenceMember):
            tries.append(command)
            if fails[0]:
                return refuse("CallFailed", "a planted failure")
        return decide(state, command, context)

    monkeypatch.setattr("quorate.controller.deciding.decide", decided)
    registered(bench)
    passing(bench, 60)
    assert 5 <= len(tries) <= 8
    fails.clear()
    fails.append(False)
    passing(bench, 31)
    assert len(fences(bench)) == 1
    passing(bench, 31)
    assert len(fences(bench)) == 1


def test_a_new_leader_takes_up_a_few_members_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it stands still for nobody's heartbeats. All have a whole timeout from its beginning on; who is asked
    about or heard before its turn is known at once, and who went meanwhile is not looked for.
    """
    monkeypatch.setattr(member_keeper, "PER_TURN", 2)
    bench = keeping()
    epochs = {name: registered(bench, name, timeout_ms=4_000) for name in "abcdefgh"}
    bench.engine.lose(2)
    members, later = bench.controller.members, list[Callable[[], None]]()
    monkeypatch.setattr(bench.loop, "call_soon", later.append)
    bench.open(2)
    assert list(members._heard) == ["a", "b"]
    assert members.alive("g", epochs["g"])
    assert members.alive("g", epochs["g"] + 1) is members.alive("z", 1) is None
    bench.done(HearMember(name="h", epoch=epochs["h"], applied_revision=epochs["h"]))
    bench.done(UnregisterMember(name="d", epoch=epochs["d"], force=True))
    assert list(members._heard) == ["a", "b", "g", "h"]
    while later:
        later.pop(0)()
    assert sorted(members._heard) == list("abcefgh")
    assert not members._opening.under_way
    bench.engine.lose(2)
    bench.open(3)
    bench.engine.lose(2)
    while later:
        later.pop(0)()
    assert not members._heard


def test_a_heartbeat_is_answered_by_who_leads_still() -> None:
    """Not before its leadership is confirmed."""
    bench = keeping()
    epoch = registered(bench)
    outcomes = bench.submit(HearMember(name="m", epoch=epoch, applied_revision=epoch))
    bench.engine.commit()
    assert not outcomes
    bench.engine.confirm()
    assert len(outcomes) == 1


def test_a_heartbeat_does_not_wait_for_the_writes_of_others() -> None:
    """What is in flight says nothing of this member: it is answered of what is applied, once the leader leads still."""
    bench = keeping()
    epoch = registered(bench)
    applied = bench.machine.offset
    written = bench.submit(PutKey(key=b"k", value=b"v"))
    outcomes = bench.submit(HearMember(name="m", epoch=epoch, applied_revision=epoch))
    assert not outcomes
    bench.engine.confirm()
    assert not written
    assert outcomes == [Answered(MemberIs(name="m", epoch=epoch), applied)]


def test_a_heartbeat_waits_for_what_is_in_flight_about_its_member() -> None:
    """It is to leave, says the tip: told when that is sure, at the offset where it is so."""
    bench = keeping()
    epoch = registered(bench)
    drained = bench.submit(DrainMember(name="m", epoch=epoch))
    outcomes = bench.submit(HearMember(name="m", epoch=epoch, applied_revision=epoch))
    bench.engine.confirm()
    assert not outcomes
    bench.engine.commit()
    (told,) = outcomes
    assert told.reply == MemberIs(name="m", epoch=epoch, draining=True, may_leave=True)
    assert told.offset == drained[0].offset == bench.machine.offset


def test_who_is_fenced_and_heard_again_in_flight_is_told_when_both_are_sure() -> None:
    """What is applied has it as unfenced as the tip does, and between them its work may have gone to another: told now,
    it would take itself for unfenced all along.
    """
    bench = keeping()
    epoch = registered(bench)
    applied = bench.machine.offset
    for _ in range(26):  # Nothing is committed meanwhile.
        bench.after(0.1)
    back = bench.submit(HearMember(name="m", epoch=epoch, applied_revision=epoch))
    again = bench.submit(HearMember(name="m", epoch=epoch, applied_revision=epoch))
    bench.engine.confirm()
    assert (back, again) == ([], [])
    bench.engine.commit()
    bench.engine.confirm()
    assert [type(event) for event in facts(bench, applied)] == [MemberFenced, MemberUnfenced]
    assert [outcome.offset for outcome in (*back, *again)] == [bench.machine.offset] * 2


def test_a_stale_heartbeat_keeps_nobody_alive() -> None:
    """It is refused, and counts as no word of the member."""
    bench = keeping()
    epoch = registered(bench)
    for _ in range(3):
        passing(bench, 0.9)
        assert isinstance(heard(bench, epoch - 1), Refused)
    assert len(fences(bench)) == 1


def test_another_incarnation_is_taken_when_the_first_is_not_heard() -> None:
    """In the moment between its timeout and its fencing, too; then both are written, in this order."""
    bench = keeping(member_sweep_s=5.0)
    first = registered(bench)
    another = RegisterMember(name="m", incarnation="2", timeout_ms=2_000)
    outcome = bench.done(another)
    assert isinstance(outcome, Refused)
    assert outcome.refusal.code == "MemberExists"
    passing(bench, 2.5)
    assert not fences(bench)
    second = registered(bench, incarnation="2")
    told = [event for event in facts(bench, 0) if isinstance(event, MemberFenced | MemberRegistered)]
    assert [type(event) for event in told] == [MemberRegistered, MemberFenced, MemberRegistered]
    assert (fences(bench)[0].reason, fences(bench)[0].epoch) == ("replaced", first)
    for _ in range(8):
        passing(bench, 1)
        heard(bench, second)
    assert len(fences(bench)) == 1


def test_a_new_leader_gives_everybody_a_whole_timeout() -> None:
    """Whoever led before fences nobody any more, and knows of nobody."""
    bench = keeping()
    epoch = registered(bench)
    passing(bench, 1.5)
    bench.engine.lose(leader=2)
    passing(bench, 5)
    assert not fences(bench)
    assert bench.controller.members.alive("m", epoch) is None
    bench.open(term=2)
    assert bench.controller.members.alive("m", epoch)
    assert bench.controller.members.last_heard_ms("m", epoch) == 0
    passing(bench, 1.8)
    assert not fences(bench)
    passing(bench, 0.8)
    assert [fenced.last_heartbeat_ms for fenced in fences(bench)] == [0]


def test_a_node_that_stood_still_blames_nobody() -> None:
    """Who is looked at too late is given as long again: his words may wait to be read."""
    bench = keeping()
    epoch = registered(bench)
    bench.loop.pause()
    bench.after(2.0 + LATE_S + 0.5)
    bench.loop.resume()
    passing(bench, 1.5)
    assert not fences(bench)
    heard(bench, epoch)
    passing(bench, 1.5)
    assert not fences(bench)
    passing(bench, 1.5)
    assert len(fences(bench)) == 1


def test_a_node_that_stood_still_gives_no_name_away() -> None:
    """What another incarnation asks may be read before the first one's heartbeats, which wait as well."""
    bench = keeping()
    epoch = registered(bench)
    bench.loop.pause()
    bench.after(2.0 + LATE_S + 0.5)
    outcomes = bench.submit(RegisterMember(name="m", incarnation="2", timeout_ms=2_000))
    bench.loop.resume()
    bench.after(0.01)
    bench.engine.commit()
    bench.engine.confirm()
    (outcome,) = outcomes
    assert isinstance(outcome, Refused)
    assert outcome.refusal.code == "MemberExists"
    assert heard(bench, epoch) == MemberIs(name="m", epoch=epoch)


def test_who_is_heard_is_not_fenced_because_a_queue_is_full() -> None:
    """A heartbeat that writes nothing needs no place among those that do; one that would is told to come again."""
    bench = keeping(in_flight_max=1)
    epoch = registered(bench)
    bench.submit(PutKey(key=b"a"))
    told = []
    for _ in range(8):
        bench.after(0.5)
        told.append(bench.submit(HearMember(name="m", epoch=epoch, applied_revision=epoch)))
        bench.engine.confirm()
    bench.engine.commit()
    assert [type(outcome) for outcomes in told for outcome in outcomes] == [Answered] * 8
    passing(bench, 0.5)
    assert not fences(bench)
    passing(bench, 3.0)
    assert len(fences(bench)) == 1
    bench.submit(PutKey(key=b"b"))
    (outcome,) = bench.submit(HearMember(name="m", epoch=epoch, applied_revision=epoch))
    assert isinstance(outcome, Busy)


def test_a_shorter_timeout_holds_from_when_it_is_said() -> None:
    """The look that was planned for the longer one is no reason to wait."""
    bench = keeping()
    registered(bench, timeout_ms=60_000)
    bench.done(RegisterMember(name="m", incarnation="1", timeout_ms=1_000))
    passing(bench, 1.6)
    assert [fenced.timeout_ms for fenced in fences(bench)] == [1_000]


def test_who_is_gone_is_not_fenced() -> None:
    """And one that registers anew under the name is watched for its own time."""
    bench = keeping()
    first = registered(bench)
    passing(bench, 1.5)
    bench.done(UnregisterMember(name="m", epoch=first))
    passing(bench, 3)
    assert not fences(bench)
    second = registered(bench, incarnation="2")
    passing(bench, 3)
    assert [fenced.epoch for fenced in fences(bench)] == [second]


def test_a_fencing_that_could_not_be_decided_is_tried_again() -> None:
    """A full queue is no reason to give work to who is not there."""
    bench = keeping(in_flight_max=1)
    registered(bench, timeout_ms=1_000)
    bench.submit(PutKey(key=b"a"))
    bench.after(1.5)
    assert not fences(bench)
    passing(bench, 1.5)
    assert len(fences(bench)) == 1


def test_health_is_what_was_said_last() -> None:
    """To decisions, to whoever asks, and in the figures of the leader; a new leader knows none."""
    bench = keeping()
    epoch = registered(bench)
    said = MemberHealth(disk_used_bytes=90, disk_total_bytes=100, io_errors=2)
    heard(bench, epoch, health=said)
    outcome = bench.done(AskMember(name="m"))
    assert isinstance(outcome, Answered)
    assert isinstance(outcome.reply, MemberDescribed)
    assert outcome.reply.health == said
    assert outcome.reply.last_heard_ms == pytest.approx(bench.loop.time_ms(), abs=100)
    assert bench.controller.members.health("m", epoch + 1) is None
    gauges = {(gauge.name, *gauge.labels.values()): gauge.read() for gauge in bench.metrics.gauges}
    assert [gauges["members", word] for word in ("active", "fenced", "draining")] == [1, 0, 0]
    assert gauges["member_disk_used_percent_max",] == 90
    assert (gauges["member_io_errors",], gauges["member_heartbeats",]) == (2, 2)
    bench.engine.lose(leader=2)
    assert bench.controller.members.healths() == []


def test_a_scrape_looks_at_every_member_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many states are counted; and at none when nothing has changed since the last scrape."""
    bench, looked = keeping(), list[str]()
    registered(bench)

    def noted(member: Member) -> str:
        looked.append(member.name)
        return condition(member)

    monkeypatch.setattr(controller, "condition", noted)
    gauges = [gauge for gauge in bench.metrics.gauges if gauge.name == "members"]
    assert [gauge.read() for gauge in gauges] == [1, 0, 0]
    assert [gauge.read() for gauge in gauges] == [1, 0, 0]
    assert looked == ["m"]
