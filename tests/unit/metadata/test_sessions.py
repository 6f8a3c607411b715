"""Sessions of MQTT: opened, taken over, closed, expired; lost with their member in one event; subscriptions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.events import (
    Event,
    MemberFenced,
    MemberGone,
    MemberRegistered,
    MemberUnfenced,
    SessionDisconnected,
    SessionEnded,
    SessionOpened,
    SessionOwnerLost,
    SessionOwnerSettled,
    SubscriptionsChanged,
)
from quorate.metadata import commands
from quorate.metadata import sessions as rules
from quorate.metadata.commands import (
    Accepted,
    CloseSession,
    FenceMember,
    HearMember,
    OpenSession,
    PutSubscriptions,
    RegisterMember,
    SessionIs,
    SettleSessions,
    UnregisterMember,
)
from quorate.model.members import may_leave
from quorate.model.rows import from_rows, rows
from quorate.model.sessions import NEVER_S, due_ms, ends_ms, since_ms, subscribers
from quorate.model.state import Session, Subscription, Will
from quorate.model.topic_filters import matching
from tests.unit.metadata.kit import CREATE, World
from tests.unit.metadata.test_keys import world


class Brokers(World):
    """Two members that serve MQTT, ``a`` and ``b``, and what clients do there."""

    def __init__(self) -> None:
        super().__init__()
        base = world()
        self.state, self.offset, self.log = base.state, base.offset, base.log
        self.epochs = {name: self.member(name, roles=("mqtt",)) for name in ("a", "b")}

    def open(self, client: str = "c", member: str = "a", **more: Any) -> int:
        """A session is opened; its epoch."""
        reply = self.reply(self.opening(client, member, **more), SessionIs)
        return reply.session_epoch(self.offset)

    def opening(self, client: str = "c", member: str = "a", **more: Any) -> OpenSession:
        """An opening of which nothing is wrong, unless told otherwise."""
        fields = {"clean_start": False, "expiry_s": 60, "member_epoch": self.epochs.get(member, 1), **more}
        return OpenSession(client=client, member=member, **fields)

    def fence(self, member: str) -> tuple[Event, ...]:
        """The leader does not hear it; what that wrote."""
        return self.events(
            FenceMember(
                name=member, epoch=self.epochs[member], evidence="heartbeat expired", last_heartbeat_ms=self.now_ms
            )
        )

    def hear(self, member: str) -> tuple[Event, ...]:
        """It is heard again, caught up."""
        return self.events(HearMember(name=member, epoch=self.epochs[member], applied_revision=self.offset))

    def settle(self) -> tuple[Event, ...]:
        """The leader looks at every session."""
        found = tuple((session.client, session.session_epoch) for session in self.state.sessions.values())
        return self.events(SettleSessions(sessions=found))

    def session(self, client: str = "c") -> Session:
        """One that is there."""
        return self.state.sessions[client]

    def filters(self, client: str = "c") -> list[str]:
        """What it subscribed to."""
        return [one.filter for one in self.session(client).subscriptions]


def kinds(events: tuple[Event, ...]) -> list[str]:
    """Their names."""
    return [type(event).__name__ for event in events]


def test_below_its_level_nothing_of_sessions_is_done() -> None:
    """A voter of the build before could not read the events."""
    made = World()
    made.do(CREATE)
    opening = OpenSession(client="c", clean_start=False, expiry_s=1, member="a", member_epoch=1)
    assert made.refused(opening).code == "UnsupportedFeatureLevel"


def test_a_session_is_opened_and_its_epoch_is_the_offset() -> None:
    """Of a client that had none, nothing is present and nobody had it."""
    made = Brokers()
    base = made.offset
    reply = made.reply(made.opening(), SessionIs)
    assert reply == SessionIs(client="c", opened=True, present=False)
    assert reply.session_epoch(made.offset) == base
    assert made.session() == Session(
        client="c", member="a", member_epoch=made.epochs["a"], session_epoch=base, opened_ms=1_000, expiry_s=60
    )
    assert since_ms(made.state, made.session()) == 0


def test_a_take_over_keeps_the_subscriptions_and_fences_the_loser() -> None:
    """Whoever had the client is named; what comes late with his epoch changes nothing."""
    made = Brokers()
    first = made.open()
    made.do(PutSubscriptions(client="c", session_epoch=first, added=(Subscription(filter="t/+"),)))
    reply = made.reply(made.opening(member="b"), SessionIs)
    assert reply == SessionIs(client="c", opened=True, present=True, taken_over_from="a", replaced_epoch=first)
    assert made.filters() == ["t/+"]
    for late in (
        CloseSession(client="c", session_epoch=first),
        CloseSession(client="c", session_epoch=first, end=True),
        PutSubscriptions(client="c", session_epoch=first, removed=("t/+",)),
    ):
        assert made.refused(late).code == "StaleSessionEpoch"
    assert made.session().member == "b"


def test_a_clean_start_ends_what_there_was_in_one_decision() -> None:
    """The subscriptions go; the new session is not present; its SessionOpened is the last event."""
    made = Brokers()
    first = made.open()
    made.do(PutSubscriptions(client="c", session_epoch=first, added=(Subscription(filter="t"),)))
    base, opening = made.offset, made.opening(member="b", clean_start=True)
    ended, opened = made.events(opening)
    assert ended == SessionEnded(
        client="c", session_epoch=first, member="a", reason="clean start", disconnected_ms=0, subscriptions=1
    )
    assert isinstance(opened, SessionOpened)
    assert (opened.taken_over_from, opened.replaced_epoch) == ("a", 0)
    assert (made.session().session_epoch, made.filters()) == (base + 1, [])
    assert not made.state.subscriptions


def test_a_session_without_expiry_is_no_fact() -> None:
    """A new one leaves no trace; one that was there is resumed and ends with its connection; a clean start ends it."""
    made = Brokers()
    assert made.reply(made.opening(expiry_s=0), SessionIs).session_epoch(made.offset) == 0
    assert not made.state.sessions
    made.open()
    resumed = made.reply(made.opening(expiry_s=0), SessionIs)
    epoch = resumed.session_epoch(made.offset)
    assert (resumed.present, epoch) == (True, made.offset - 1)
    assert kinds(made.events(CloseSession(client="c", session_epoch=epoch))) == ["SessionEnded"]
    made.open()
    reply = made.reply(made.opening(expiry_s=0, clean_start=True), SessionIs)
    assert (reply.opened, reply.taken_over_from, len(made.state.sessions)) == (False, "a", 0)


def test_who_may_open_a_session() -> None:
    """A member that is known, in its present epoch, and not fenced."""
    made = Brokers()
    assert made.refused(made.opening(member="z")).code == "UnknownMember"
    assert made.refused(made.opening(member_epoch=made.epochs["a"] - 1)).code == "StaleMemberEpoch"
    made.fence("a")
    assert made.refused(made.opening()).code == "MemberIsFenced"
    made.hear("a")
    made.open()


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"client": ""}, "BadClient"),
        ({"client": "\0"}, "BadClient"),
        ({"client": "x" * (rules.CLIENT_BYTES_MAX + 1)}, "BadClient"),
        ({"expiry_s": -1}, "BadExpiry"),
        ({"expiry_s": NEVER_S + 1}, "BadExpiry"),
        ({"will": Will(topic="a/#", payload=b"")}, "BadWill"),
        ({"will": Will(topic="a", payload=b"x" * (rules.WILL_BYTES_MAX + 1))}, "BadWill"),
        ({"will": Will(topic="a", payload=b"", qos=3)}, "BadWill"),
        ({"will": Will(topic="a", payload=b"", delay_s=-1)}, "BadWill"),
    ],
)
def test_an_opening_that_cannot_be(wrong: dict[str, Any], code: str) -> None:
    """Each is refused by name."""
    assert Brokers().refused(Brokers().opening(**wrong)).code == code


def test_a_client_that_leaves_is_gone_since_then_and_its_session_ends_in_its_time() -> None:
    """Not before; a second word about it writes nothing; for ever is never."""
    made = Brokers()
    epoch = made.open()
    made.now_ms = 5_000
    assert made.events(CloseSession(client="c", session_epoch=epoch)) == (
        SessionDisconnected(
            client="c",
            session_epoch=epoch,
            member="a",
            reason="closed",
            disconnected_ms=5_000,
            expiry_s=60,
            will_waits=False,
        ),
    )
    made.now_ms = 64_999
    assert made.events(CloseSession(client="c", session_epoch=epoch)) == ()
    assert made.settle() == ()
    made.now_ms = 65_000
    assert made.settle() == (
        SessionEnded(
            client="c", session_epoch=epoch, member="a", reason="expired", disconnected_ms=5_000, subscriptions=0
        ),
    )
    epoch = made.open(expiry_s=NEVER_S)
    made.do(CloseSession(client="c", session_epoch=epoch))
    assert ends_ms(made.state, made.session()) is None
    assert due_ms(made.state, made.session()) is None


def test_a_disconnection_may_change_the_expiry() -> None:
    """To another time, or to none, which ends the session; never to what is none."""
    made = Brokers()
    epoch = made.open()
    assert made.refused(CloseSession(client="c", session_epoch=epoch, expiry_s=-1)).code == "BadExpiry"
    made.do(CloseSession(client="c", session_epoch=epoch, expiry_s=5))
    assert ends_ms(made.state, made.session()) == made.now_ms + 5_000
    epoch = made.open()
    assert kinds(made.events(CloseSession(client="c", session_epoch=epoch, expiry_s=0))) == ["SessionEnded"]


def test_a_session_ends_when_it_is_asked_to() -> None:
    """By its epoch, or by an administrator whatever the epoch; then nobody knows it."""
    made = Brokers()
    epoch = made.open()
    (ended,) = made.events(CloseSession(client="c", session_epoch=epoch, end=True))
    assert isinstance(ended, SessionEnded)
    assert ended.reason == "closed"
    made.open()
    (ended,) = made.events(CloseSession(client="c", session_epoch=0, administrator=True))
    assert isinstance(ended, SessionEnded)
    assert ended.reason == "administrator"
    for late in (
        CloseSession(client="c", session_epoch=epoch),
        CloseSession(client="c", session_epoch=0, administrator=True),
        PutSubscriptions(client="c", session_epoch=epoch),
    ):
        assert made.refused(late).code == "UnknownSession"


def test_a_session_that_is_due_has_ended_before_it_is_opened_again() -> None:
    """Whether or not the leader came to it: it is not present, and its subscriptions are gone."""
    made = Brokers()
    epoch = made.open(expiry_s=1)
    made.do(PutSubscriptions(client="c", session_epoch=epoch, added=(Subscription(filter="t"),)))
    made.do(CloseSession(client="c", session_epoch=epoch))
    made.now_ms += 1_000
    events = made.events(made.opening())
    assert kinds(events) == ["SessionEnded", "SessionOpened"]
    assert isinstance(events[0], SessionEnded)
    assert events[0].reason == "expired"
    assert made.filters() == []


def test_a_lost_member_is_one_event_for_all_its_clients() -> None:
    """They are gone from the log time of its loss, and each session ends by its own expiry."""
    made = Brokers()
    for number in range(300):
        made.open(f"c{number}", expiry_s=1 + number)
    made.now_ms = 10_000
    fenced, lost = made.fence("a")
    assert isinstance(fenced, MemberFenced)
    assert lost == SessionOwnerLost(member="a", member_epoch=made.epochs["a"], reason="fenced", sessions=300)
    assert {since_ms(made.state, session) for session in made.state.sessions.values()} == {10_000}
    made.now_ms = 10_000 + 200_000
    assert len(made.settle()) == 200
    made.now_ms = 10_000 + 300_000
    events = made.settle()
    assert events[0] == SessionOwnerSettled(
        member="a", member_epoch=made.epochs["a"], reason="no sessions left", sessions=0
    )
    assert not made.state.sessions
    assert not made.state.session_owners


def test_who_asks_for_subscribers_may_let_others_have_a_turn() -> None:
    """Where many filters part and none matches, there are pauses in between, and nobody is found."""
    made = Brokers()
    epoch = made.open()
    levels = [("a", "+")[number >> level & 1] for number in range(64) for level in range(6)]
    filters = ["/".join(levels[at : at + 6]) + "/zz" for at in range(0, len(levels), 6)]
    made.do(PutSubscriptions(client="c", session_epoch=epoch, added=tuple(Subscription(filter=one) for one in filters)))
    found = list(subscribers(made.state, "a/a/a/a/a/a/a"))
    assert found
    assert set(found) == {None}


def test_one_decision_ends_a_bounded_number_of_subscriptions() -> None:
    """Each is taken out of the index by itself, in the turn of the decision and of its execution on every node."""
    made = Brokers()
    for client in map(str, range(6)):
        epoch = made.open(client, expiry_s=1)
        many = tuple(Subscription(filter=f"{client}/{number}") for number in range(rules.SUBSCRIPTIONS_MAX))
        made.do(PutSubscriptions(client=client, session_epoch=epoch, added=many))
        made.do(CloseSession(client=client, session_epoch=epoch))
    made.now_ms += 2_000
    counts = []
    while events := made.settle():
        counts.append(kinds(events).count("SessionEnded"))
    assert counts == [3, 3]


def test_a_member_that_is_heard_again_has_its_clients() -> None:
    """Nothing expires of what is connected."""
    made = Brokers()
    made.open("here", expiry_s=1)
    gone = made.open("gone", expiry_s=1)
    made.do(CloseSession(client="gone", session_epoch=gone))
    made.fence("a")
    made.now_ms += 500
    unfenced, settled = made.hear("a")
    assert isinstance(unfenced, MemberUnfenced)
    assert settled == SessionOwnerSettled(member="a", member_epoch=made.epochs["a"], reason="unfenced", sessions=1)
    made.now_ms += 5_000
    made.settle()
    assert list(made.state.sessions) == ["here"]


def test_clients_of_a_lost_member_are_taken_over_one_by_one() -> None:
    """Nobody had them; with the last of them nothing hangs on the loss any more."""
    made = Brokers()
    for client in ("c", "d"):
        made.open(client)
    made.fence("a")
    reply = made.reply(made.opening("c", "b"), SessionIs)
    assert (reply.present, reply.taken_over_from) == (True, "")
    settled, opened = made.events(made.opening("d", "b"))
    assert isinstance(settled, SessionOwnerSettled)
    assert isinstance(opened, SessionOpened)
    assert not made.state.session_owners
    assert kinds(made.hear("a")) == ["MemberUnfenced"]


def test_another_incarnation_of_a_member_has_none_of_the_clients_before() -> None:
    """Its registration stays the last event, for that is its epoch; a stale member epoch opens nothing."""
    made = Brokers()
    made.open()
    made.members.living["a", made.epochs["a"]] = False
    events = made.events(RegisterMember(name="a", incarnation="2", roles=("mqtt",), timeout_ms=9_000))
    assert kinds(events) == ["MemberFenced", "SessionOwnerLost", "MemberRegistered"]
    assert isinstance(events[-1], MemberRegistered)
    assert since_ms(made.state, made.session()) == made.now_ms
    assert made.refused(made.opening()).code == "StaleMemberEpoch"


def test_a_member_that_left_has_no_clients() -> None:
    """One that is to leave may, when its clients are elsewhere; one that is forgotten loses them."""
    made = Brokers()
    made.open()
    member = commands.DrainMember(name="a")
    made.do(member)
    assert not may_leave(made.state, made.state.members["a"])
    assert made.refused(UnregisterMember(name="a", epoch=made.epochs["a"])).code == "MemberStillLeads"
    made.open(member="b")
    assert may_leave(made.state, made.state.members["a"])
    gone, lost = made.events(UnregisterMember(name="b", force=True))
    assert isinstance(gone, MemberGone)
    assert isinstance(lost, SessionOwnerLost)
    assert (lost.reason, lost.sessions) == ("gone", 1)


def test_subscriptions_are_put_and_taken_away() -> None:
    """What is as it was is not written; the later of two to one filter counts; a removal of none is none."""
    made = Brokers()
    epoch = made.open()
    put = PutSubscriptions(
        client="c",
        session_epoch=epoch,
        added=(Subscription(filter="b"), Subscription(filter="a/#", qos=1), Subscription(filter="b", qos=2)),
        removed=("nothing",),
    )
    (changed,) = made.events(put)
    assert isinstance(changed, SubscriptionsChanged)
    assert ([one.filter for one in changed.added], changed.removed) == (["b", "a/#"], ())
    assert made.session().subscriptions == (Subscription(filter="a/#", qos=1), Subscription(filter="b", qos=2))
    assert made.events(put) == ()
    made.do(
        PutSubscriptions(client="c", session_epoch=epoch, added=(Subscription(filter="b"),), removed=("a/#", "b", "x"))
    )
    assert made.session().subscriptions == (Subscription(filter="b"),)
    assert [found.subscription.filter for found in subscribers(made.state, "b") if found is not None] == ["b"]
    made.reply(PutSubscriptions(client="c", session_epoch=epoch, removed=("b",)), Accepted)
    assert not made.state.subscriptions


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (Subscription(filter=""), "BadTopicFilter"),
        (Subscription(filter="a#"), "BadTopicFilter"),
        (Subscription(filter="x" * (rules.FILTER_BYTES_MAX + 1)), "BadTopicFilter"),
        (Subscription(filter="a", qos=3), "BadSubscription"),
        (Subscription(filter="a", retain_handling=-1), "BadSubscription"),
        (Subscription(filter="a", identifier=rules.IDENTIFIER_MAX + 1), "BadSubscription"),
        (Subscription(filter="$share/g/a", no_local=True), "BadSubscription"),
    ],
)
def test_a_subscription_that_cannot_be(wanted: Subscription, code: str) -> None:
    """Each is refused by name, with all that came with it."""
    made = Brokers()
    epoch = made.open()
    put = PutSubscriptions(client="c", session_epoch=epoch, added=(Subscription(filter="fine"), wanted))
    assert made.refused(put).code == code


def test_a_client_has_a_bounded_number_of_subscriptions() -> None:
    """For they are one row; so have its filters a bounded number of bytes."""
    made = Brokers()
    epoch = made.open()
    many = tuple(Subscription(filter=f"t/{number}") for number in range(rules.SUBSCRIPTIONS_MAX + 1))
    assert made.refused(PutSubscriptions(client="c", session_epoch=epoch, added=many)).code == "TooManySubscriptions"
    made.do(PutSubscriptions(client="c", session_epoch=epoch, added=many[:-1]))
    one_more = PutSubscriptions(client="c", session_epoch=epoch, added=many[-1:], removed=("t/0",))
    assert isinstance(made.events(one_more)[0], SubscriptionsChanged)
    long = tuple(Subscription(filter=f"{number:04096}") for number in range(65))
    epoch = made.open("d")
    assert made.refused(PutSubscriptions(client="d", session_epoch=epoch, added=long)).code == "TooManySubscriptions"


CLIENTS, MEMBERS, FILTERS = ("c", "d", "ü"), ("a", "b"), ("#", "t/+", "t/1", "$share/g/t/+", "u")
STEP = st.one_of(
    st.tuples(st.just("open"), st.sampled_from(CLIENTS), st.sampled_from(MEMBERS), st.booleans(), st.integers(0, 3)),
    st.tuples(st.just("close"), st.sampled_from(CLIENTS), st.booleans(), st.booleans()),
    st.tuples(st.just("put"), st.sampled_from(CLIENTS), st.sets(st.sampled_from(FILTERS)), st.booleans()),
    st.tuples(st.just("fence"), st.sampled_from(MEMBERS)),
    st.tuples(st.just("hear"), st.sampled_from(MEMBERS)),
    st.tuples(st.just("settle"), st.integers(0, 3_000)),
)


def happen(made: Brokers, step: tuple[Any, ...]) -> None:
    """One of these, whatever comes of it."""
    what, client = step[0], step[1]
    session = made.state.sessions.get(client) if isinstance(client, str) else None
    epoch = 0 if session is None else session.session_epoch
    match what:
        case "open":
            will = Will(topic="w", payload=b"x", delay_s=step[4]) if step[3] else None
            made.do(made.opening(client, step[2], clean_start=step[4] == 3, expiry_s=step[4], will=will))
        case "close":
            made.do(CloseSession(client=client, session_epoch=epoch, end=step[2], with_will=step[3]))
        case "put":
            added = tuple(Subscription(filter=name, qos=1) for name in sorted(step[2]))
            names = tuple(sorted(step[2]))
            put = {"removed": names} if step[3] else {"added": added}
            made.do(PutSubscriptions(client=client, session_epoch=epoch, **put))
        case "fence":
            made.fence(step[1])
        case "hear":
            made.hear(step[1])
        case _:
            made.now_ms += step[1]
            made.settle()


@given(st.lists(STEP, max_size=40))
def test_what_follows_from_sessions_follows_from_their_rows(steps: list[tuple[Any, ...]]) -> None:
    """Subscriptions by filter and clients by member are the same, kept up event by event or made of all rows; no lost
    member is remembered without clients; nothing that is due is left once it was looked at; one opening, one owner.
    """
    made = Brokers()
    for step in steps:
        happen(made, step)
    again = from_rows(rows(made.state))
    assert again == made.state
    assert set(made.state.session_owners) <= set(made.state.held)
    told = {(one[0], one[1].filter) for one in matching(made.state.subscriptions, "t/1") if one is not None}
    assert told == {
        (session.client, one.filter)
        for session in made.state.sessions.values()
        for one in session.subscriptions
        if one.filter in ("#", "t/+", "t/1", "$share/g/t/+")
    }
    made.settle()
    assert all((due_ms(made.state, one) or made.now_ms + 1) > made.now_ms for one in made.state.sessions.values())
    opened = [(event.client, stamp.offset) for event, stamp in made.log if isinstance(event, SessionOpened)]
    assert all((one.client, one.session_epoch) in opened for one in made.state.sessions.values())


@pytest.mark.parametrize("delay_s", [0, 30])
def test_a_client_that_is_lost_while_its_member_is_stays_lost_when_the_member_is_heard_again(delay_s: int) -> None:
    """Its own end is a fact too, since the member was lost: the will is published, and the session ends in its time."""
    made = Brokers()
    epoch = made.open(will=Will(topic="w", payload=b"x", delay_s=delay_s))
    made.open("other")
    made.now_ms = lost_ms = 10_000
    made.fence("a")
    made.now_ms = 12_000
    closing = CloseSession(client="c", session_epoch=epoch, with_will=True)
    assert kinds(made.events(closing))[-1] == "SessionDisconnected"
    assert made.events(closing) == ()
    made.hear("a")
    assert (made.session().disconnected_ms, since_ms(made.state, made.session())) == (lost_ms, lost_ms)
    assert since_ms(made.state, made.session("other")) == 0
    made.now_ms = 1_000_000
    made.settle()
    assert list(made.state.sessions) == ["other"]
    assert [will.client for will in made.state.wills.values()] == ["c"]
