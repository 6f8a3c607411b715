"""Mqtt on a real controller: what brokers are answered, how they are refused, what they are told as it happens."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from quorate.controller import Answered
from quorate.gateway.grpc.calls import CROWDED
from quorate.gateway.grpc.codes import CallError, StatusCode
from quorate.gateway.grpc.mqtt import MqttService
from quorate.gateway.grpc.pb import mqtt_pb2 as pb
from quorate.gateway.grpc.session_watch import SessionWatches
from quorate.gateway.grpc.settings import GrpcSettings
from quorate.metadata.commands import FenceMember, HearMember, MemberIs, RegisterMember
from quorate.metadata.refusals import refuse
from tests.unit.gateway.grpc.house import House

NEVER_S = 4_294_967_295


class Mqtt:
    """The service of a house with two members, called as if it were not a coroutine."""

    def __init__(self, settings: GrpcSettings | None = None) -> None:
        self.house = House(settings=settings)
        self.service = MqttService(self.house.asking)
        self.watches = SessionWatches(self.house.asking)
        self.watches.start()
        self.epochs = {name: self.member(name) for name in ("a", "b")}

    def member(self, name: str) -> int:
        register = RegisterMember(
            name=name, incarnation="1", roles=("mqtt",), addresses={"mqtt": f"{name}:1883"}, timeout_ms=600_000
        )
        outcome = self.house.bench.done(register)
        assert isinstance(outcome, Answered)
        assert isinstance(outcome.reply, MemberIs)
        epoch = outcome.reply.registered_epoch(outcome.offset)
        self.house.bench.done(HearMember(name=name, epoch=epoch, applied_revision=epoch))
        return epoch

    def fence(self, name: str) -> None:
        self.house.bench.done(
            FenceMember(name=name, epoch=self.epochs[name], evidence="heartbeat expired", last_heartbeat_ms=1)
        )

    def opening(self, client: str = "c", member: str = "a", **more: Any) -> pb.OpenSessionRequest:
        fields = {"expiry_s": 60, "member_epoch": self.epochs.get(member, 1), **more}
        return pb.OpenSessionRequest(client=client, member=member, **fields)

    def open(self, client: str = "c", member: str = "a", **more: Any) -> pb.OpenSessionResponse:
        return self.house.run(self.service.open(self.opening(client, member, **more), self.house.call))

    def close(self, client: str, epoch: int, **more: Any) -> pb.CloseSessionResponse:
        request = pb.CloseSessionRequest(client=client, session_epoch=epoch, **more)
        return self.house.run(self.service.close(request, self.house.call))

    def subscribe(self, client: str, epoch: int, *filters: str, **more: Any) -> None:
        added = [pb.Subscription(filter=one, **more) for one in filters]
        request = pb.PutSubscriptionsRequest(client=client, session_epoch=epoch, added=added)
        self.house.run(self.service.put_subscriptions(request, self.house.call))

    def locate(self, client: str = "c") -> pb.LocateResponse:
        return self.house.run(self.service.locate(pb.LocateRequest(client=client), self.house.call))

    def match(self, **request: Any) -> pb.MatchResponse:
        return pb.MatchResponse.FromString(b"".join(self.ask("match", pb.MatchRequest(**request))))

    def ask(self, name: str, request: Any) -> Any:
        return self.house.run(getattr(self.service, name)(request, self.house.call))

    def refused(self, name: str, request: Any) -> tuple[StatusCode, str]:
        return self.house.refused(getattr(self.service, name)(request, self.house.call))


def test_a_session_is_opened_taken_over_and_located() -> None:
    """Its epoch is its revision; the loser is named, and what he says late is refused by name."""
    mqtt = Mqtt()
    first = mqtt.open()
    assert (first.session_epoch, first.present, first.taken_over_from) == (first.revision, False, "")
    second = mqtt.open(member="b")
    assert (second.present, second.taken_over_from, second.replaced_epoch) == (True, "a", first.session_epoch)
    code, text = mqtt.refused("close", pb.CloseSessionRequest(client="c", session_epoch=first.session_epoch))
    assert (code, text.split(": ")[1]) == (StatusCode.FAILED_PRECONDITION, "StaleSessionEpoch")
    found = mqtt.locate()
    assert (found.session.member, found.session.member_epoch, found.session.session_epoch) == (
        "b",
        mqtt.epochs["b"],
        second.session_epoch,
    )
    assert found.session.connected
    assert dict(found.addresses) == {"mqtt": "b:1883"}
    mqtt.close("c", second.session_epoch, expiry_s=NEVER_S)
    found = mqtt.locate()
    assert (found.session.connected, found.session.disconnected_ms > 0, found.session.expiry_s) == (
        False,
        True,
        NEVER_S,
    )


def test_an_opening_that_is_asked_again_is_one_opening() -> None:
    """With its request id it is answered as it was and publishes no will of a client that is there; another opening
    under that id is refused, and without an id it is another opening.
    """
    mqtt = Mqtt()
    will, once = pb.Will(topic="w", payload=b"p"), f"{mqtt.house.bench.loop.time_ms()}-once"
    mqtt.open(member="b")
    opened = mqtt.open(will=will, request_id=once)
    assert (opened.present, opened.taken_over_from) == (True, "b")
    before = mqtt.house.revision
    assert mqtt.open(will=will, request_id=once) == opened
    assert mqtt.house.revision == before
    assert not mqtt.ask("wills", pb.ListWillsRequest(member="a")).wills
    assert mqtt.locate().session.session_epoch == opened.session_epoch
    for request_id, code, name in (
        (once, StatusCode.FAILED_PRECONDITION, "RequestIdReused"),
        ("x", StatusCode.INVALID_ARGUMENT, "InvalidRequestId"),
    ):
        found, text = mqtt.refused("open", mqtt.opening(request_id=request_id))
        assert (found, name in text) == (code, True), text
    assert mqtt.open(will=will).taken_over_from == "a"
    assert len(mqtt.ask("wills", pb.ListWillsRequest(member="a")).wills) == 1


def test_an_opening_that_is_asked_again_with_a_long_name_is_answered_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is not remembered, so it is made again; where it cannot be, the client is found where it is."""
    mqtt = Mqtt()
    client, once = "c" * 1024, f"{mqtt.house.bench.loop.time_ms()}-once"
    mqtt.open(client, "b")
    opened = mqtt.open(client, request_id=once)
    assert (opened.present, opened.taken_over_from) == (True, "b")
    mqtt.open("other")
    end = mqtt.house.revision
    assert mqtt.open(client, request_id=once) == opened
    monkeypatch.setattr("quorate.gateway.first_answers.decide", lambda *_: refuse("NoRoom", "for a test"))
    assert mqtt.refused("open", mqtt.opening(client, request_id=once))[0] is StatusCode.UNAVAILABLE
    assert mqtt.house.revision == end
    assert mqtt.locate(client).session.session_epoch == opened.session_epoch


def test_a_client_and_whom_a_message_is_for_are_found_as_they_were() -> None:
    """At a revision: before another member had the session, and though it has ended."""
    mqtt = Mqtt()
    mqtt.subscribe("c", mqtt.open().session_epoch, "t")
    then = mqtt.house.revision
    mqtt.close("c", mqtt.open(member="b").session_epoch, end=True)
    assert mqtt.refused("locate", pb.LocateRequest(client="c"))[0] is StatusCode.NOT_FOUND
    assert mqtt.ask("locate", pb.LocateRequest(client="c", revision=then)).session.member == "a"
    assert not mqtt.match(topic="t").members
    (member,) = mqtt.match(topic="t", revision=then).members
    assert [(member.member, one.client) for one in member.subscribers] == [("a", "c")]
    for name, request in (("locate", pb.LocateRequest(client="c")), ("match", pb.MatchRequest(topic="t"))):
        request.revision = 999
        assert mqtt.refused(name, request)[0] is StatusCode.OUT_OF_RANGE


def test_a_session_that_is_not_kept_has_no_epoch() -> None:
    """And nobody knows where its client is."""
    mqtt = Mqtt()
    assert mqtt.open(expiry_s=0).session_epoch == 0
    assert mqtt.refused("locate", pb.LocateRequest(client="c"))[0] is StatusCode.NOT_FOUND


def test_a_match_tells_the_subscribers_by_member() -> None:
    """With what each was granted and whether it is connected; groups are told, and who of them is told is the caller's
    choice; large answers come in turns.
    """
    mqtt = Mqtt(GrpcSettings(keys_per_turn=2))
    for client, member, filters in (
        ("c1", "a", ("t/+", "other")),
        ("c2", "b", ("t/1", "$share/g/t/1")),
        ("c3", "b", ("#", "$share/g/t/+")),
    ):
        mqtt.subscribe(client, mqtt.open(client, member).session_epoch, *filters, qos=1)
    mqtt.fence("a")
    response = mqtt.match(topic="t/1")
    found = {
        one.member: sorted((sub.client, sub.subscription.filter, sub.group, sub.connected) for sub in one.subscribers)
        for one in response.members
    }
    assert found == {
        "a": [("c1", "t/+", "", False)],
        "b": [
            ("c2", "$share/g/t/1", "g", True),
            ("c2", "t/1", "", True),
            ("c3", "#", "", True),
            ("c3", "$share/g/t/+", "g", True),
        ],
    }
    addresses = {one.member: dict(one.addresses) for one in response.members}
    assert addresses == {"a": {}, "b": {"mqtt": "b:1883"}}
    assert not mqtt.match(topic="$SYS/x", stale=True).members


def test_a_match_tells_at_which_quality_a_message_is_delivered() -> None:
    """The lower of its publisher's and the one granted; not told when the caller does not say its publisher's."""
    mqtt = Mqtt()
    epoch = mqtt.open("c").session_epoch
    for granted in range(3):
        mqtt.subscribe("c", epoch, *["+/" * granted + "#"], qos=granted)
    for published in range(3):
        response = mqtt.match(topic="a/b/c", qos=published)
        delivered = {one.subscription.qos: one.qos for one in response.members[0].subscribers}
        assert delivered == {granted: min(published, granted) for granted in range(3)}
    [member] = mqtt.match(topic="a/b/c").members
    assert not any(one.HasField("qos") for one in member.subscribers)


def test_a_match_that_is_too_large_is_refused() -> None:
    """It is not cut short without a word."""
    mqtt = Mqtt(GrpcSettings(answer_bytes_max=10))
    mqtt.subscribe("client", mqtt.open("client").session_epoch, "a", "+", "#")
    assert mqtt.refused("match", pb.MatchRequest(topic="a"))[0] is StatusCode.RESOURCE_EXHAUSTED


def test_a_match_that_is_being_made_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, as it will be sent, however many pieces that are; where there is no room nobody is told."""
    monkeypatch.setattr("quorate.gateway.grpc.mqtt.PIECE_BYTES", 100)
    mqtt, held = Mqtt(), list[int]()
    filters = ["+", "#", "a", "$share/g/a", "$share/h/a"]
    for client in ("c1", "c2"):
        mqtt.subscribe(client, mqtt.open(client, "a").session_epoch, *filters)
    monkeypatch.setattr(mqtt.house.call, "hold", held.append)
    pieces = mqtt.ask("match", pb.MatchRequest(topic="a"))
    assert len(held) == 10
    assert len(pieces) == 4
    assert 0 < sum(map(len, pieces)) - sum(held) < 20
    (member,) = pb.MatchResponse.FromString(b"".join(pieces)).members
    found = [(one.client, one.subscription.filter) for one in member.subscribers]
    assert sorted(found) == sorted((client, one) for client in ("c1", "c2") for one in filters)

    def full(count: int) -> None:
        raise CallError(*CROWDED)

    monkeypatch.setattr(mqtt.house.call, "hold", full)
    assert mqtt.refused("match", pb.MatchRequest(topic="a")) == CROWDED


def test_a_match_that_looks_at_much_lets_others_have_turns_and_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it finds nobody. Whoever waits no more is told so."""
    mqtt = Mqtt()
    looks, turns = 0, 0

    def vainly(*_: Any) -> Iterator[None]:
        nonlocal looks
        for looks in range(1, 101):  # noqa: B007
            yield None

    async def beside() -> None:
        nonlocal turns
        matched = asyncio.ensure_future(mqtt.service.match(pb.MatchRequest(topic="t", stale=True), mqtt.house.call))
        while not matched.done():
            turns += 1
            await asyncio.sleep(0)
        await matched

    monkeypatch.setattr("quorate.gateway.grpc.mqtt.subscribers", vainly)
    mqtt.house.run(beside())
    assert looks == 100
    assert turns >= looks
    mqtt.house.call.left_s = 1e-9
    assert mqtt.refused("match", pb.MatchRequest(topic="t", stale=True))[0] is StatusCode.UNAVAILABLE
    assert looks == 1


def test_sessions_are_listed_a_page_at_a_time() -> None:
    """By client, of one member or of all."""
    mqtt = Mqtt(GrpcSettings(keys_per_turn=2))
    for number in range(7):
        mqtt.open(f"c{number}", "ab"[number % 2])
    seen, after = list[str](), ""
    while True:
        page = mqtt.ask("listing", pb.ListSessionsRequest(limit=3, after=after))
        seen += [one.client for one in page.sessions]
        if not page.more:
            break
        after = page.sessions[-1].client
    assert seen == [f"c{number}" for number in range(7)]
    assert [one.client for one in mqtt.ask("listing", pb.ListSessionsRequest(member="b")).sessions] == [
        "c1",
        "c3",
        "c5",
    ]
    assert mqtt.refused("listing", pb.ListSessionsRequest(limit=-1))[0] is StatusCode.INVALID_ARGUMENT


def test_pages_end_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions and wills, whatever limit was asked for; each page has one at least and all of them have each once."""
    monkeypatch.setattr("quorate.gateway.grpc.asking.PAGE_BYTES", 100)
    mqtt = Mqtt()
    clients = [f"c{number}" for number in range(9)]
    for client in clients:
        mqtt.close(client, mqtt.open(client, will=pb.Will(topic="w", payload=b"x" * 60)).session_epoch, with_will=True)
    seen, after = list[str](), ""
    while True:
        page = mqtt.ask("listing", pb.ListSessionsRequest(after=after))
        assert 1 <= len(page.sessions) <= 4
        seen += [one.client for one in page.sessions]
        if not page.more:
            break
        after = seen[-1]
    assert seen == clients
    page = mqtt.ask("wills", pb.ListWillsRequest(member="a"))
    assert ([one.client for one in page.wills], page.more) == (clients[:2], True)


def test_a_will_is_listed_for_its_member_until_it_is_acknowledged() -> None:
    """By nobody else; a second acknowledgement finds nothing."""
    mqtt = Mqtt()
    will = pb.Will(topic="gone", payload=b"\xff", qos=1, retain=True)
    opened = mqtt.open(will=will)
    assert mqtt.locate().session.has_will
    mqtt.close("c", opened.session_epoch, with_will=True)
    (handed,) = mqtt.ask("wills", pb.ListWillsRequest(member="a")).wills
    assert (handed.will, handed.client, handed.message) == (opened.session_epoch, "c", will)
    assert not mqtt.ask("wills", pb.ListWillsRequest(member="b")).wills
    others = pb.AcknowledgeWillRequest(will=handed.will, member="b", member_epoch=mqtt.epochs["b"])
    assert mqtt.refused("acknowledge_will", others)[0] is StatusCode.FAILED_PRECONDITION
    mine = pb.AcknowledgeWillRequest(will=handed.will, member="a", member_epoch=mqtt.epochs["a"])
    mqtt.ask("acknowledge_will", mine)
    assert mqtt.refused("acknowledge_will", mine)[0] is StatusCode.NOT_FOUND
    assert not mqtt.ask("wills", pb.ListWillsRequest(member="a")).wills


BIG = "x" * 2_000_000
BAD: list[tuple[str, Any, StatusCode, str]] = [
    ("open", pb.OpenSessionRequest(), StatusCode.INVALID_ARGUMENT, "BadClient"),
    ("open", pb.OpenSessionRequest(client="a\0"), StatusCode.INVALID_ARGUMENT, "BadClient"),
    ("open", pb.OpenSessionRequest(client="c", member="z"), StatusCode.NOT_FOUND, "UnknownMember"),
    ("open", pb.OpenSessionRequest(client="c", member="a"), StatusCode.FAILED_PRECONDITION, "StaleMemberEpoch"),
    ("open", pb.OpenSessionRequest(client="c", will=pb.Will()), StatusCode.INVALID_ARGUMENT, "BadWill"),
    (
        "open",
        pb.OpenSessionRequest(client="c", will=pb.Will(topic="t", qos=-1)),
        StatusCode.INVALID_ARGUMENT,
        "BadWill",
    ),
    ("open", pb.OpenSessionRequest(client=BIG), StatusCode.INVALID_ARGUMENT, ""),
    ("close", pb.CloseSessionRequest(), StatusCode.NOT_FOUND, "UnknownSession"),
    ("close", pb.CloseSessionRequest(client="here", session_epoch=1), StatusCode.FAILED_PRECONDITION, "StaleSession"),
    ("put_subscriptions", pb.PutSubscriptionsRequest(), StatusCode.NOT_FOUND, "UnknownSession"),
    (
        "put_subscriptions",
        pb.PutSubscriptionsRequest(client="here", session_epoch=-1),
        StatusCode.FAILED_PRECONDITION,
        "StaleSessionEpoch",
    ),
    ("match", pb.MatchRequest(), StatusCode.INVALID_ARGUMENT, "BadTopic"),
    ("match", pb.MatchRequest(topic="a/#"), StatusCode.INVALID_ARGUMENT, "BadTopic"),
    ("match", pb.MatchRequest(topic=BIG), StatusCode.INVALID_ARGUMENT, "BadTopic"),
    ("match", pb.MatchRequest(topic="a", qos=3), StatusCode.INVALID_ARGUMENT, ""),
    ("match", pb.MatchRequest(topic="a", qos=-1), StatusCode.INVALID_ARGUMENT, ""),
    ("locate", pb.LocateRequest(), StatusCode.NOT_FOUND, "UnknownSession"),
    ("locate", pb.LocateRequest(client="\0"), StatusCode.NOT_FOUND, "UnknownSession"),
    ("acknowledge_will", pb.AcknowledgeWillRequest(), StatusCode.NOT_FOUND, "UnknownMember"),
]


@pytest.mark.parametrize(("name", "request_", "code", "reason"), BAD)
def test_what_cannot_be_is_refused_by_name_and_changes_nothing(
    name: str, request_: Any, code: StatusCode, reason: str
) -> None:
    """Empty, huge, of a stale epoch, of what is not known."""
    mqtt = Mqtt()
    mqtt.open("here")
    before = mqtt.house.revision
    found, text = mqtt.refused(name, request_)
    assert found is code, text
    assert reason in text
    assert mqtt.house.revision == before


@pytest.mark.parametrize("wrong", [{"filter": ""}, {"filter": "a#"}, {"filter": "a", "qos": 3}, {"filter": "$share/g"}])
def test_a_subscription_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    """With all that came with it."""
    mqtt = Mqtt()
    epoch = mqtt.open().session_epoch
    added = [pb.Subscription(filter="fine"), pb.Subscription(**wrong)]
    request = pb.PutSubscriptionsRequest(client="c", session_epoch=epoch, added=added)
    assert mqtt.refused("put_subscriptions", request)[0] is StatusCode.INVALID_ARGUMENT
    assert not mqtt.locate().session.subscriptions


def test_a_deadline_that_is_past_is_no_answer() -> None:
    """Nothing is begun for a caller who waits no more."""
    mqtt = Mqtt()
    before = mqtt.house.revision
    mqtt.house.call.left_s = 0.0
    assert mqtt.refused("open", mqtt.opening())[0] is StatusCode.DEADLINE_EXCEEDED
    assert mqtt.house.revision == before


def test_who_may_not_is_told_so() -> None:
    """Each call asks for access first, and for a place."""
    mqtt = Mqtt()
    mqtt.house.may = False
    for name, request in (
        ("open", mqtt.opening()),
        ("match", pb.MatchRequest(topic="t")),
        ("locate", pb.LocateRequest(client="c")),
        ("listing", pb.ListSessionsRequest()),
        ("wills", pb.ListWillsRequest()),
    ):
        assert mqtt.refused(name, request)[0] is StatusCode.PERMISSION_DENIED


class Watching:
    """One watch, whose answers a test takes when it likes."""

    def __init__(self, mqtt: Mqtt, member: str = "", start: int = 0) -> None:
        request = pb.WatchSessionsRequest(member=member, start_revision=start)
        self._house = mqtt.house
        self._answers: AsyncIterator[pb.WatchSessionsResponse] = mqtt.watches.sessions(request, mqtt.house.call)
        self.begins = self.next().revision

    def next(self) -> pb.WatchSessionsResponse:
        async def one() -> pb.WatchSessionsResponse:
            return await anext(self._answers)

        return self._house.run(one())

    def kinds(self) -> list[str]:
        """What the next answer tells."""
        return [str(change.WhichOneof("change")) for change in self.next().changes]


def test_everything_is_told_once_in_order_and_again_from_any_revision() -> None:
    """Whole decisions; a watch that begins before is told the same."""
    mqtt = Mqtt()
    begin = mqtt.house.revision
    live = Watching(mqtt)
    assert live.begins == begin
    opened = mqtt.open(will=pb.Will(topic="w"))
    mqtt.subscribe("c", opened.session_epoch, "t")
    mqtt.close("c", opened.session_epoch, with_will=True)
    mqtt.ask(
        "acknowledge_will",
        pb.AcknowledgeWillRequest(will=opened.session_epoch, member="a", member_epoch=mqtt.epochs["a"]),
    )
    mqtt.open("d", "b")
    mqtt.fence("b")
    mqtt.open("d", "a", clean_start=True)
    told = [live.next() for _ in range(7)]
    assert [[str(one.WhichOneof("change")) for one in answer.changes] for answer in told] == [
        ["opened"],
        ["subscriptions"],
        ["will", "closed"],
        ["will_acknowledged"],
        ["opened"],
        ["lost"],
        ["lost", "closed", "opened"],
    ]
    assert told[0].changes[0].opened.session_epoch == opened.session_epoch == told[0].revision
    again = Watching(mqtt, start=begin + 1)
    assert [again.next() for _ in range(7)] == told
    middle = Watching(mqtt, start=told[3].revision)
    assert [middle.next() for _ in range(4)] == told[3:]


def test_a_member_is_told_what_it_has_to_do() -> None:
    """Clients that were taken from it, sessions that ended, wills for it; nothing of others."""
    mqtt = Mqtt()
    watch = Watching(mqtt, "a")
    first = mqtt.open()
    mqtt.open("x", "b")
    mqtt.open(member="b")
    answer = watch.next()
    assert [change.opened.taken_over_from for change in answer.changes] == ["a"]
    assert answer.changes[0].opened.replaced_epoch == first.session_epoch
    mqtt.open("w", "b", will=pb.Will(topic="w"))
    mqtt.fence("b")
    mqtt.house.bench.after(0.3)
    mqtt.house.bench.settle()
    assert watch.kinds() == ["will"]


@pytest.mark.parametrize("clean", [False, True])
def test_a_member_is_told_whom_others_have_though_it_was_lost_meanwhile(*, clean: bool) -> None:
    """It may still hold the connection, whether the session went on or began anew. Of a client that it said itself is
    gone it hears nothing.
    """
    mqtt = Mqtt()
    watch = Watching(mqtt, "a")
    mqtt.open()
    mqtt.close("gone", mqtt.open("gone").session_epoch)
    mqtt.fence("a")
    assert watch.kinds() == ["lost"]
    mqtt.open("gone", "b")
    again = mqtt.open(member="b", clean_start=clean)
    assert again.taken_over_from == ""
    answer = watch.next()
    assert answer.revision == again.revision
    assert answer.changes[-1].opened.session_epoch == again.session_epoch
    assert answer.changes[-1].opened.member == "b"
