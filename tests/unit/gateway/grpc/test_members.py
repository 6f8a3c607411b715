"""Members over gRPC: what is answered, how each bad input is refused, what a watch tells."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from google.protobuf.message import Message

from quorate.gateway.grpc.asking import page_of
from quorate.gateway.grpc.codes import StatusCode
from quorate.gateway.grpc.member_watch import MemberWatches
from quorate.gateway.grpc.members import MemberService
from quorate.gateway.grpc.pb import members_pb2 as pb
from quorate.metadata.commands import PutKey, RegisterBroker
from tests.unit.controller.bench import Line
from tests.unit.gateway.grpc.house import Caller, House

INVALID, STALE, MISSING = StatusCode.INVALID_ARGUMENT, StatusCode.FAILED_PRECONDITION, StatusCode.NOT_FOUND


class Members:
    """The service of a house."""

    def __init__(self, house: House | None = None) -> None:
        self.house = house or House()
        self.service = MemberService(self.house.asking)

    def run(self, answer: Coroutine[Any, Any, Any]) -> Any:
        return self.house.run(answer)

    def register(self, name: str = "m", incarnation: str = "1", **said: Any) -> pb.RegisterMemberResponse:
        request = pb.RegisterMemberRequest(**{"timeout_ms": 9_000, **said, "name": name, "incarnation": incarnation})
        found: pb.RegisterMemberResponse = self.run(self.service.register(request, self.house.call))
        return found

    def beat(self, epoch: int, name: str = "m", **said: Any) -> pb.MemberHeartbeatResponse:
        request = pb.MemberHeartbeatRequest(**{"applied_revision": epoch, **said, "name": name, "epoch": epoch})
        found: pb.MemberHeartbeatResponse = self.run(self.service.heartbeat(request, self.house.call))
        return found

    def member(self, name: str = "m", **said: Any) -> int:
        """Registered, and caught up."""
        epoch = self.register(name, **said).epoch
        assert not self.beat(epoch, name).fenced
        return epoch

    def page(self, after: str, limit: int) -> tuple[list[str], bool]:
        """Names, and whether there are more."""
        request = pb.ListMembersRequest(after=after, limit=limit)
        found = self.run(self.service.listing(request, self.house.call))
        return [one.name for one in found.members], found.more

    def names(self, **selector: Any) -> list[str]:
        request = pb.ListMembersRequest(selector=pb.MemberSelector(**selector))
        return [one.name for one in self.run(self.service.listing(request, self.house.call)).members]


def test_a_member_registers_catches_up_and_leaves() -> None:
    """Its epoch is the revision of its registration; a heartbeat says who leads."""
    members = Members()
    answer = members.register(roles=["mqtt"], addresses={"grpc": "h:1"}, labels={"rack": "1"})
    assert (answer.epoch, answer.fenced) == (answer.revision, True)
    assert members.beat(answer.epoch, applied_revision=answer.epoch - 1).fenced
    beat = members.beat(answer.epoch)
    assert (beat.fenced, beat.leader_id, beat.leader, beat.revision) == (False, 1, "h:5", members.house.revision)
    again = members.register(roles=["mqtt"], addresses={"grpc": "h:1"}, labels={"rack": "1"})
    assert (again.epoch, again.fenced) == (answer.epoch, False)
    assert members.beat(answer.epoch, want_drain=True).may_leave
    members.run(
        members.service.unregister(pb.UnregisterMemberRequest(name="m", epoch=answer.epoch), members.house.call)
    )
    assert members.names() == []


@pytest.mark.parametrize(
    "many",
    [
        lambda count: {"roles": ["mqtt"] * count},
        lambda count: {"labels": {f"l{label}": "" for label in range(count)}},
        lambda count: {"states": [pb.MEMBER_STATE_ACTIVE] * count},
    ],
)
def test_a_selector_of_too_much_is_refused(many: Callable[[int], dict[str, Any]]) -> None:
    """Each member is compared with all of it: a list and a watch take 64 roles, labels or states, and no more."""
    members = Members()
    members.member("m", roles=["mqtt"], labels={f"l{label}": "" for label in range(64)})
    assert members.names(**many(64)) == ["m"]
    request = pb.ListMembersRequest(selector=pb.MemberSelector(**many(65)))
    code, text = members.house.refused(members.service.listing(request, members.house.call))
    assert (code, "at most 64 roles" in text) == (INVALID, True)
    code, text = members.house.refused(Watch(members.house, **many(65)).first())
    assert (code, "at most 64 roles" in text) == (INVALID, True)


def test_members_are_listed_a_page_at_a_time() -> None:
    """By name; an answer says whether there are more, and has a thousand at most, whatever is asked for."""
    members = Members()
    for name in ("c", "a", "b"):
        members.register(name)
    assert members.page("", 2) == (["a", "b"], True)
    assert members.page("b", 2) == (["c"], False)
    assert members.page("", 3) == (members.page("", 0)[0], False)
    assert members.page("z", 0) == ([], False)
    assert [page_of(limit) for limit in (-1, 0, 1, 1_000, 2_000)] == [1_000, 1_000, 1, 1_000, 1_000]


def test_a_page_fits_what_stock_clients_take() -> None:
    """They refuse 4 MiB: a page of members with long labels ends at 1 MiB, and says that there are more; with an item
    that has more than that alone it is not empty.
    """
    members = Members()
    for number in range(20):
        members.register(f"m{number:02}", labels={f"l{label}": "x" * 4_000 for label in range(64)})
    seen, after = list[str](), ""
    while True:
        found = members.run(members.service.listing(pb.ListMembersRequest(after=after), members.house.call))
        assert 0 < found.ByteSize() < 1.5 * (1 << 20)
        seen += [one.name for one in found.members]
        if not found.more:
            break
        after = seen[-1]
    assert seen == [f"m{number:02}" for number in range(20)]


def test_a_stream_of_heartbeats_is_answered_one_by_one() -> None:
    """In their order."""
    members = Members()
    first, second = members.register("a").epoch, members.register("b").epoch

    async def said() -> AsyncIterator[pb.MemberHeartbeatRequest]:
        yield pb.MemberHeartbeatRequest(name="b", epoch=second, applied_revision=second)
        yield pb.MemberHeartbeatRequest(name="a", epoch=first)

    async def answers() -> list[bool]:
        return [one.fenced async for one in members.service.heartbeats(said(), members.house.call)]

    assert members.run(answers()) == [False, True]


def test_a_list_selects_and_a_description_has_what_the_leader_hears() -> None:
    """RocketMQ's brokers are among them; health is as it was last said."""
    members = Members()
    members.house.bench.broker_set([Line(), Line()])
    epoch = members.member("m", roles=["mqtt"], labels={"rack": "1"})
    members.member("n", roles=["journal"])
    assert members.names() == ["a:1", "a:2", "m", "n"]
    assert members.names(roles=["mqtt"]) == members.names(labels={"rack": "1"}) == ["m"]
    assert members.names(states=[pb.MEMBER_STATE_DRAINING]) == []
    assert members.names(roles=["broker"]) == ["a:1", "a:2"]
    members.beat(epoch, health=pb.MemberHealth(disk_used_bytes=1, disk_total_bytes=2, io_errors=3))

    def described(name: str) -> pb.DescribeMemberResponse:
        answer: pb.DescribeMemberResponse = members.run(
            members.service.describe(pb.DescribeMemberRequest(name=name), members.house.call)
        )
        return answer

    found = described("m")
    assert (found.member.epoch, found.member.state) == (epoch, pb.MEMBER_STATE_ACTIVE)
    assert (found.health.disk_total_bytes, found.health.io_errors) == (2, 3)
    assert 0 <= members.house.bench.loop.time_ms() - found.last_heard_ms < 1_000
    broker = described("a:1")
    assert (list(broker.member.roles), broker.member.epoch, broker.HasField("health")) == (["broker"], 0, False)
    assert broker.last_heard_ms > 0


def test_a_broker_s_capabilities_are_told() -> None:
    """By a list, a description and a watch, as labels of the broker that told them; a selector means it by them."""
    members = Members()
    bench = members.house.bench
    bench.broker_set([Line(), Line()])
    watch = Watch(members.house, roles=["broker"])
    watch.take()
    bench.done(
        RegisterBroker(cluster="c", broker_set="a", broker_id=1, address="127.0.0.1:30001", capabilities={"rack": "r1"})
    )
    labels = {"rack": "r1", "cluster": "c", "broker-set": "a"}
    assert members.names(labels={"rack": "r1"}) == ["a:1"]
    described = members.run(members.service.describe(pb.DescribeMemberRequest(name="a:1"), members.house.call))
    assert described.member.labels == labels
    assert [dict(one.member.labels) for answer in watch.take() for one in answer.changes] == [labels]


Make = Callable[[int], Message]


def _asks(name: str = "m", **said: Any) -> Message:
    return pb.RegisterMemberRequest(**{"name": name, "incarnation": "2", "timeout_ms": 9_000, **said})


BAD: list[tuple[str, Make, StatusCode, str]] = [
    ("register", lambda _: pb.RegisterMemberRequest(), INVALID, "BadMemberName"),
    ("register", lambda _: _asks("x" * 300), INVALID, "BadMemberName"),
    ("register", lambda _: _asks("a:1"), INVALID, "BadMemberName"),
    ("register", lambda _: _asks(incarnation=""), INVALID, "BadMemberIncarnation"),
    ("register", lambda _: _asks(roles=["a b"]), INVALID, "BadMemberRole"),
    ("register", lambda _: _asks(addresses={"grpc": "x"}), INVALID, "BadMemberAddress"),
    ("register", lambda _: _asks(labels={"a b": ""}), INVALID, "BadMemberLabel"),
    ("register", lambda _: _asks(timeout_ms=-1), INVALID, "BadMemberTimeout"),
    ("register", lambda _: _asks(timeout_ms=2**62), INVALID, "BadMemberTimeout"),
    ("register", lambda _: _asks(), StatusCode.ALREADY_EXISTS, "MemberExists"),
    ("heartbeat", lambda _: pb.MemberHeartbeatRequest(), MISSING, "UnknownMember"),
    ("heartbeat", lambda _: pb.MemberHeartbeatRequest(name="x" * 100_000), MISSING, "UnknownMember"),
    ("heartbeat", lambda epoch: pb.MemberHeartbeatRequest(name="m", epoch=epoch - 1), STALE, "StaleMemberEpoch"),
    ("heartbeat", lambda _: pb.MemberHeartbeatRequest(name="m", epoch=2**62), STALE, "StaleMemberEpoch"),
    (
        "heartbeat",
        lambda epoch: pb.MemberHeartbeatRequest(name="m", epoch=epoch, applied_revision=2**62),
        StatusCode.OUT_OF_RANGE,
        "FutureRevision",
    ),
    (
        "heartbeat",
        lambda epoch: pb.MemberHeartbeatRequest(name="m", epoch=epoch, applied_revision=epoch + 3),
        StatusCode.OUT_OF_RANGE,
        "FutureRevision",
    ),
    ("drain", lambda _: pb.DrainMemberRequest(name="a:1"), MISSING, "only read here"),
    (
        "heartbeat",
        lambda epoch: pb.MemberHeartbeatRequest(
            name="m", epoch=epoch, want_drain=True, health=pb.MemberHealth(cpu_percent=101)
        ),
        INVALID,
        "BadMemberHealth",
    ),
    ("drain", lambda _: pb.DrainMemberRequest(), MISSING, "UnknownMember"),
    ("drain", lambda _: pb.DrainMemberRequest(name="a:1"), MISSING, "UnknownMember"),
    ("drain", lambda epoch: pb.DrainMemberRequest(name="m", epoch=epoch + 1), STALE, "StaleMemberEpoch"),
    ("unregister", lambda _: pb.UnregisterMemberRequest(), MISSING, "UnknownMember"),
    ("unregister", lambda _: pb.UnregisterMemberRequest(name="m", epoch=-1, force=True), STALE, "StaleMemberEpoch"),
    ("describe", lambda _: pb.DescribeMemberRequest(), MISSING, "UnknownMember"),
    ("describe", lambda _: pb.DescribeMemberRequest(name="nobody:7"), MISSING, "UnknownMember"),
    (
        "listing",
        lambda _: pb.ListMembersRequest(selector=pb.MemberSelector(states=[pb.MEMBER_STATE_UNSPECIFIED])),
        INVALID,
        "a selector of a state that is none",
    ),
]


@pytest.mark.parametrize(("call", "make", "code", "name"), BAD)
def test_bad_input_has_its_error_and_changes_nothing(call: str, make: Make, code: StatusCode, name: str) -> None:
    """Empty, huge, wrong, stale, unknown: each by its code, and its name in the text."""
    members = Members()
    epoch = members.member()
    before = members.house.bench.machine.state
    found, text = members.house.refused(getattr(members.service, call)(make(epoch), members.house.call))
    assert (found, name in text) == (code, True), text
    assert members.house.bench.machine.state is before


@pytest.mark.parametrize("call", ["register", "heartbeat", "drain", "unregister", "describe", "listing"])
def test_a_call_that_may_not_or_comes_too_late_changes_nothing(call: str) -> None:
    """Whatever it asks; a quota, access, and a deadline that is over are asked before anything else."""
    kinds: dict[str, Callable[..., Message]] = {
        "register": pb.RegisterMemberRequest,
        "heartbeat": pb.MemberHeartbeatRequest,
        "drain": pb.DrainMemberRequest,
        "unregister": pb.UnregisterMemberRequest,
        "describe": pb.DescribeMemberRequest,
    }
    members = Members()
    request = kinds[call](name="m") if call in kinds else pb.ListMembersRequest()
    before = members.house.bench.machine.state
    members.house.may = False
    asked = getattr(members.service, call)
    assert members.house.refused(asked(request, members.house.call))[0] is StatusCode.PERMISSION_DENIED
    members.house.may, members.house.room = True, False
    assert members.house.refused(asked(request, members.house.call))[0] is StatusCode.RESOURCE_EXHAUSTED
    members.house.room = True
    assert members.house.refused(asked(request, Caller(left_s=0.0)))[0] is StatusCode.DEADLINE_EXCEEDED
    assert members.house.bench.machine.state is before


def test_below_their_level_there_are_no_members() -> None:
    """The refusal says how to raise it."""
    members = Members(House(level=1))
    request = pb.RegisterMemberRequest(name="m", incarnation="1", timeout_ms=9_000)
    code, text = members.house.refused(members.service.register(request, members.house.call))
    assert (code, "quorate feature raise" in text) == (STALE, True)


class Watch:
    """A watch whose answers a test takes when it likes."""

    def __init__(self, house: House, start: int = 0, **selector: Any) -> None:
        self.house, self.watches = house, MemberWatches(house.asking)
        self.watches.start()
        request = pb.WatchMembersRequest(selector=pb.MemberSelector(**selector), start_revision=start)
        self.stream = self.watches.watch(request, house.call)
        self._next: asyncio.Future[pb.WatchMembersResponse] | None = None

    async def first(self) -> pb.WatchMembersResponse:
        """The first that is told."""
        return await anext(self.stream)

    def take(self) -> list[pb.WatchMembersResponse]:
        """All that is told by now."""

        async def taken() -> list[pb.WatchMembersResponse]:
            found = []
            for _ in range(60):
                self._next = self._next or asyncio.ensure_future(anext(self.stream))
                await asyncio.sleep(0)
                self.house.bench.settle(1)
                if self._next.done():
                    found.append(self._next.result())
                    self._next = None
            return found

        return self.house.run(taken())


def told(answers: list[pb.WatchMembersResponse]) -> list[tuple[int, list[tuple[str, int, bool]]]]:
    """Revisions, names, states and who left."""
    return [(one.revision, [(each.name, each.member.state, each.left) for each in one.changes]) for one in answers]


def test_a_watch_tells_each_change_once_from_now_on() -> None:
    """Its first answer says from where; other facts are no changes of members."""
    members = Members()
    house = members.house
    members.member("old")
    watch = Watch(house)
    assert told(watch.take()) == [(house.revision, [])]
    epoch = members.member("m")
    house.bench.done(PutKey(key=b"k"))
    assert told(watch.take()) == [
        (epoch, [("m", pb.MEMBER_STATE_FENCED, False)]),
        (epoch + 1, [("m", pb.MEMBER_STATE_ACTIVE, False)]),
    ]
    members.run(members.service.unregister(pb.UnregisterMemberRequest(name="m"), house.call))
    (gone,) = watch.take()
    assert told([gone]) == [(house.revision, [("m", pb.MEMBER_STATE_UNSPECIFIED, True)])]
    assert gone.changes[0].what == "member m is gone: forgotten"
    assert watch.take() == []


def test_a_watch_from_a_revision_tells_what_was_and_goes_on() -> None:
    """Whole entries, also those from before it was made; one that begins in the future waits for it."""
    members = Members()
    house = members.house
    first = members.member("m")
    second = members.member("n")
    watch = Watch(house, start=second)
    later = Watch(house, start=house.revision + 3)
    assert [one.revision for one in watch.take()] == [second - 1, second, second + 1]
    later.take()
    members.member("o")
    members.member("p")
    assert [revision for revision, _ in told(later.take())] == [house.revision - 1, house.revision]
    assert [revision for revision, _ in told(watch.take())] == list(range(house.revision - 3, house.revision + 1))
    assert first < second


def test_a_watch_of_a_selector_tells_who_comes_into_it_and_who_leaves() -> None:
    """A broker of RocketMQ too, when the roles may be its own."""
    members = Members()
    house = members.house
    epoch = members.member("m", roles=["mqtt"])
    active = Watch(house, states=[pb.MEMBER_STATE_ACTIVE], roles=["mqtt"])
    brokers = Watch(house, roles=["broker"])
    active.take(), brokers.take()
    members.beat(epoch, want_drain=True)
    members.register("m", "1", roles=["journal"])
    assert told(active.take()) == [(epoch + 2, [("m", pb.MEMBER_STATE_DRAINING, True)])]
    assert brokers.take() == []
    house.bench.broker_set([Line(), Line()])
    found = told(brokers.take())
    assert {name for _, changes in found for name, _, _ in changes} == {"a:1", "a:2"}
    assert active.take() == []


def test_watches_are_bounded_and_end_with_their_clients() -> None:
    """Who is gone is waited for no more."""
    watch = Watch(Members().house)
    watch.take()
    assert len(watch.watches) == 1

    async def ended() -> None:
        if watch._next is not None:
            watch._next.cancel()
            await asyncio.sleep(0)
        await watch.stream.aclose()  # type: ignore[attr-defined]

    watch.house.run(ended())
    assert len(watch.watches) == 0
