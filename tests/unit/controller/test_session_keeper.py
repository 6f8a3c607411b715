"""Sessions of MQTT end in their time and wills find a member, whoever leads; nothing is written for each of many."""

from typing import Any

import msgspec
import pytest

from quorate.controller import Answered, session_keeper
from quorate.controller.session_keeper import BATCH_MAX, SessionKeeper
from quorate.events import (
    Event,
    SessionEnded,
    SessionOwnerLost,
    WillDecided,
    WillHandedOver,
)
from quorate.metadata.commands import (
    CloseSession,
    FenceMember,
    HearMember,
    MemberIs,
    OpenSession,
    PutKey,
    RegisterMember,
    SessionIs,
)
from quorate.model.state import Will
from quorate.model.topic_filters import TEXT_BYTES_MAX
from tests.unit.controller.bench import Bench
from tests.unit.controller.test_lease_keeper import keeping, passing
from tests.unit.controller.test_liveness import facts

WILL = Will(topic="gone", payload=b"bye")


class House:
    """A bench with members that serve MQTT."""

    def __init__(self, *members: str, **settings: Any) -> None:
        self.bench: Bench = keeping(**settings)
        self.epochs = {name: self.member(name) for name in members or ("a", "b")}

    def member(self, name: str) -> int:
        """It registers and has caught up; its epoch."""
        register = RegisterMember(name=name, incarnation="1", roles=("mqtt",), timeout_ms=600_000)
        outcome = self.bench.done(register)
        assert isinstance(outcome, Answered)
        assert isinstance(outcome.reply, MemberIs)
        epoch = outcome.reply.registered_epoch(outcome.offset)
        self.bench.done(HearMember(name=name, epoch=epoch, applied_revision=epoch))
        return epoch

    def open(self, client: str = "c", member: str = "a", **more: Any) -> int:
        """A session is opened; its epoch."""
        opening = OpenSession(
            client=client,
            member=member,
            member_epoch=self.epochs[member],
            **{"clean_start": False, "expiry_s": 2, **more},
        )
        outcome = self.bench.done(opening)
        assert isinstance(outcome, Answered)
        assert isinstance(outcome.reply, SessionIs)
        return outcome.reply.session_epoch(outcome.offset)

    def lose(self, client: str = "c", **more: Any) -> None:
        """Its connection ends without a word."""
        epoch = self.bench.machine.state.sessions[client].session_epoch
        self.bench.done(CloseSession(client=client, session_epoch=epoch, with_will=True, **more))

    def fence(self, member: str) -> None:
        """It is not heard any more."""
        self.bench.done(
            FenceMember(name=member, epoch=self.epochs[member], evidence="heartbeat expired", last_heartbeat_ms=1)
        )

    def hear(self, member: str) -> None:
        """It is heard again."""
        offset = self.bench.machine.offset
        self.bench.done(HearMember(name=member, epoch=self.epochs[member], applied_revision=offset))

    def jump(self, ahead_ms: int) -> None:
        """The node's clock is so far ahead from now on."""
        self.bench.loop.wall_skew_ms = ahead_ms
        self.bench.after(0.01)

    def told(self, kind: type[Event]) -> list[Any]:
        """Events of a kind, so far."""
        return [event for event in facts(self.bench, 0) if isinstance(event, kind)]


def test_a_session_ends_in_its_time() -> None:
    """Not before, and soon after; one whose client came back does not."""
    house = House()
    for client in ("gone", "back"):
        house.open(client)
        house.lose(client)
    passing(house.bench, 1.0)
    house.open("back")
    passing(house.bench, 0.8)
    assert not house.told(SessionEnded)
    passing(house.bench, 0.8)
    assert [ended.client for ended in house.told(SessionEnded)] == ["gone"]
    passing(house.bench, 3.0)
    assert list(house.bench.machine.state.sessions) == ["back"]


def test_a_delayed_will_is_decided_in_its_time_and_the_session_lives_on() -> None:
    """Both are looked after: what comes first, and what comes then."""
    house = House()
    house.open(will=Will(topic="gone", payload=b"bye", delay_s=1))
    house.lose()
    passing(house.bench, 0.8)
    assert not house.told(WillDecided)
    passing(house.bench, 0.6)
    assert [one.member for one in house.told(WillHandedOver)] == ["a"]
    assert not house.told(SessionEnded)
    passing(house.bench, 1.0)
    assert len(house.told(SessionEnded)) == 1
    assert len(house.told(WillDecided)) == 1


def test_a_member_with_many_clients_is_lost_in_one_event() -> None:
    """Each session then ends by its own time, many in one decision."""
    house = House()
    for number in range(700):
        house.open(f"c{number}", expiry_s=1 + number % 2)
    end = house.bench.machine.offset
    house.fence("a")
    passing(house.bench, 0.5)
    assert house.bench.machine.offset == end + 2
    assert [lost.sessions for lost in house.told(SessionOwnerLost)] == [700]
    commits = house.bench.metrics.commits
    passing(house.bench, 1.0)
    assert len(house.told(SessionEnded)) == 350
    assert house.bench.metrics.commits - commits < 10
    passing(house.bench, 1.2)
    assert len(house.told(SessionEnded)) == 700
    assert not house.bench.machine.state.session_owners


def test_a_new_leader_ends_what_is_due() -> None:
    """From the log's times: a change of leaders gives no session another life; who led before ends nothing."""
    house = House()
    house.open("c", expiry_s=3)
    house.open("d", expiry_s=3, will=WILL)
    house.lose("c")
    house.fence("a")
    passing(house.bench, 0.2)
    house.bench.engine.lose(leader=2)
    passing(house.bench, 5.0)
    assert not house.told(SessionEnded)
    house.bench.open(term=2)
    passing(house.bench, 0.6)
    assert sorted(ended.client for ended in house.told(SessionEnded)) == ["c", "d"]
    assert [one.member for one in house.told(WillHandedOver)] == ["b"]


def test_a_will_is_handed_on_until_somebody_lives() -> None:
    """When its member is lost, when one comes; and by a new leader, who finds it in the state."""
    house = House()
    house.open(will=WILL)
    house.lose()
    house.fence("b")
    house.fence("a")
    passing(house.bench, 0.3)
    assert [one.member for one in house.told(WillHandedOver)] == ["a", ""]
    house.hear("b")
    passing(house.bench, 0.3)
    assert [one.member for one in house.told(WillHandedOver)] == ["a", "", "b"]
    house.bench.engine.lose(leader=2)
    house.bench.open(term=2)
    passing(house.bench, 1.0)
    assert [one.member for one in house.told(WillHandedOver)] == ["a", "", "b"]


def test_a_will_that_waits_goes_to_a_member_that_takes_the_role() -> None:
    """One that lives, and registers again to serve MQTT too."""
    house = House()
    told = RegisterMember(name="other", incarnation="1", roles=("storage",), timeout_ms=600_000)
    outcome = house.bench.done(told)
    assert isinstance(outcome, Answered)
    assert isinstance(outcome.reply, MemberIs)
    house.epochs["other"] = outcome.reply.registered_epoch(outcome.offset)
    house.hear("other")
    house.open(will=WILL)
    house.lose()
    house.fence("b")
    house.fence("a")
    passing(house.bench, 0.3)
    assert [one.member for one in house.told(WillHandedOver)] == ["a", ""]
    house.bench.done(msgspec.structs.replace(told, roles=("storage", "mqtt")))
    passing(house.bench, 0.3)
    assert [one.member for one in house.told(WillHandedOver)] == ["a", "", "other"]


def test_many_wills_with_long_topics_are_decided_and_handed_on() -> None:
    """As many as are due at once: a topic may be as long as what is said, and an entry has a limit."""
    house = House()
    for number in range(BATCH_MAX):
        house.open(f"c{number}", will=Will(topic="t" * TEXT_BYTES_MAX, payload=b""))
    house.fence("b")
    house.fence("a")
    passing(house.bench, 6.0)
    assert len(house.told(SessionEnded)) == BATCH_MAX
    assert {one.member for one in house.told(WillHandedOver)} == {""}
    house.hear("b")
    passing(house.bench, 6.0)
    assert {one.member for one in house.bench.machine.state.wills.values()} == {"b"}
    assert len(house.bench.machine.state.wills) == BATCH_MAX


def test_a_member_that_is_lost_and_heard_again_loses_no_session() -> None:
    """What was due while it was lost is looked at anew."""
    house = House()
    house.open()
    house.fence("a")
    passing(house.bench, 1.0)
    house.hear("a")
    passing(house.bench, 3.0)
    assert not house.told(SessionEnded)
    house.fence("a")
    passing(house.bench, 1.5)
    assert not house.told(SessionEnded)
    passing(house.bench, 1.0)
    assert len(house.told(SessionEnded)) == 1


def test_what_could_not_be_decided_is_tried_again() -> None:
    """A full queue is no reason for a session, or a will, to live for ever."""
    house = House(in_flight_max=1)
    house.open(will=Will(topic="gone", payload=b"bye", delay_s=1))
    house.lose()
    house.bench.submit(PutKey(key=b"a"))
    house.bench.after(3.0)
    assert not house.told(SessionEnded)
    passing(house.bench, 2.0)
    assert len(house.told(SessionEnded)) == 1
    house.bench.submit(
        FenceMember(name="a", epoch=house.epochs["a"], evidence="heartbeat expired", last_heartbeat_ms=1)
    )
    house.bench.engine.commit()
    house.bench.submit(PutKey(key=b"a"))
    house.bench.after(0.3)
    passing(house.bench, 2.0)
    assert [one.member for one in house.told(WillHandedOver)] == ["a", "b"]


def test_a_session_ends_though_the_log_s_time_stands_still() -> None:
    """Clocks jumped ahead and were set back: the leader counts for itself, from when it saw that the client is gone."""
    house = House()
    house.jump(3_600_000)
    house.open("c", will=Will(topic="gone", payload=b"bye", delay_s=1))
    house.lose("c")
    house.open("d", member="b")
    house.fence("b")
    house.open("e", expiry_s=60)
    house.jump(0)
    passing(house.bench, 0.8)
    assert not house.told(WillDecided)
    passing(house.bench, 1.0)
    assert len(house.told(WillDecided)) == 1
    assert not house.told(SessionEnded)
    passing(house.bench, 0.8)
    assert sorted(ended.client for ended in house.told(SessionEnded)) == ["c", "d"]
    assert list(house.bench.machine.state.sessions) == ["e"]


def test_whoever_comes_back_too_late_for_what_the_leader_counted_has_a_new_session() -> None:
    """An opening is judged by the same time as the leader's own decisions, which come a little later."""
    house = House(session_sweep_s=60.0)
    house.jump(3_600_000)
    house.open("c")
    house.lose("c")
    house.jump(0)
    passing(house.bench, 1.9)
    assert not house.told(SessionEnded)
    passing(house.bench, 0.3)
    house.open("c")
    assert [ended.reason for ended in house.told(SessionEnded)] == ["expired"]


def test_a_member_s_second_loss_is_counted_from_itself() -> None:
    """Also while the log's time stands still, and both losses have one time; and a new leader counts from its own."""
    house = House()
    house.jump(3_600_000)
    house.open()
    house.fence("a")
    house.jump(0)
    passing(house.bench, 1.5)
    house.hear("a")
    house.fence("a")
    passing(house.bench, 1.5)
    house.bench.engine.lose(leader=2)
    house.bench.open(term=2)
    passing(house.bench, 1.5)
    assert not house.told(SessionEnded)
    passing(house.bench, 1.0)
    assert len(house.told(SessionEnded)) == 1


def test_a_full_queue_keeps_no_session_while_the_log_s_time_stands_still() -> None:
    """What could not be decided is tried again by the leader's own clock."""
    house = House(in_flight_max=1)
    house.jump(3_600_000)
    house.open()
    house.lose()
    house.jump(0)
    house.bench.submit(PutKey(key=b"a"))
    house.bench.after(3.0)
    assert not house.told(SessionEnded)
    passing(house.bench, 2.0)
    assert len(house.told(SessionEnded)) == 1


def test_of_sessions_that_ended_nothing_is_remembered() -> None:
    """A leader counts how long a client is gone only while there is a session to end."""
    house = House()
    (keeper,) = (one for one in house.bench.controller.listeners._all if isinstance(one, SessionKeeper))
    epochs = {f"c{number}": house.open(f"c{number}", expiry_s=1 + number % 2) for number in range(20)}
    for client in epochs:
        house.lose(client)
    since = {client: house.bench.machine.state.sessions[client].disconnected_ms for client in epochs}
    passing(house.bench, 0.5)

    def counted() -> list[str]:
        return [client for client, epoch in epochs.items() if keeper.gone_ms(client, epoch, 0, since[client])]

    assert counted() == list(epochs)
    passing(house.bench, 4.0)
    assert not house.bench.machine.state.sessions
    assert counted() == []


def test_of_clients_that_come_back_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their expiry: what was to be due of a former opening goes when there is too much of it; what is due of
    others stays, and so does what this leader has counted of them.
    """
    monkeypatch.setattr(session_keeper, "SPARE", 16)
    house = House(session_sweep_s=0.1)
    house.jump(3_600_000)
    house.open("gone", expiry_s=4)
    house.lose("gone")
    house.jump(0)
    passing(house.bench, 2.0)
    for _ in range(100):
        house.open(expiry_s=86_400)
        house.lose()
        house.bench.after(0.01)
    keeper: Any = house.bench.controller._decider._sessions
    assert max(len(keeper._due), len(keeper._counted), len(keeper._seen)) <= 2 * 2 + 16 + 1
    assert not keeper._before
    passing(house.bench, 0.5)
    assert not house.told(SessionEnded)
    passing(house.bench, 1.5)
    assert [ended.client for ended in house.told(SessionEnded)] == ["gone"]


def test_what_came_to_nothing_is_looked_through_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member's clients were all lost in one moment, and all came back: their times come in one moment too."""
    monkeypatch.setattr(session_keeper, "PER_TURN", 10)
    house = House(session_sweep_s=60.0)
    for number in range(25):
        house.open(f"c{number}", expiry_s=1)
        house.lose(f"c{number}")
    passing(house.bench, 0.5)
    for number in range(25):
        house.open(f"c{number}", expiry_s=1)
    house.bench.after(2.0)
    keeper: Any = house.bench.controller._decider._sessions
    before = len(keeper._due) + len(keeper._counted)
    assert keeper._next_batch() == ([], True)
    assert before - len(keeper._due) - len(keeper._counted) == 10
    while keeper._next_batch()[1]:
        pass
    assert (keeper._due, keeper._counted) == ([], [])
