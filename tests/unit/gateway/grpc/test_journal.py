"""Shards and segments over gRPC: what is answered, how each bad input is refused, what a watch tells."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from google.protobuf.message import Message

from quorate.gateway.grpc.codes import CallError, StatusCode
from quorate.gateway.grpc.journal import JournalService
from quorate.gateway.grpc.journal_watch import JournalWatches
from quorate.gateway.grpc.pb import journal_pb2 as pb
from quorate.metadata.commands import PutKey
from tests.unit.gateway.grpc.house import Caller, House
from tests.unit.gateway.grpc.test_members import Members

INVALID, STALE, MISSING = StatusCode.INVALID_ARGUMENT, StatusCode.FAILED_PRECONDITION, StatusCode.NOT_FOUND


class Journal:
    """The service of a house, with members to hold copies."""

    def __init__(self, *members: str, house: House | None = None) -> None:
        self.house = house or House()
        self.members = Members(self.house)
        self.epochs = {name: self.members.member(name, roles=["journal"]) for name in members}
        self.service = JournalService(self.house.asking)

    def ask(self, answer: Coroutine[Any, Any, Any]) -> Any:
        return self.house.run(answer)

    def created(self, shard: str = "orders", replication: int = 3, **more: Any) -> pb.Segment:
        request = pb.CreateShardRequest(shard=shard, replication=replication, **more)
        found: pb.SegmentResponse = self.ask(self.service.create_shard(request, self.house.call))
        return found.segment

    def next(self, last: pb.Segment, end_offset: int) -> pb.SegmentResponse:
        shard, _, number = last.name.rpartition("/")
        request = pb.NextSegmentRequest(shard=shard, current=int(number), end_offset=end_offset, leader=last.leader)
        found: pb.SegmentResponse = self.ask(self.service.next_segment(request, self.house.call))
        return found

    def copies(self, *names: str) -> list[pb.InSyncCopy]:
        return [pb.InSyncCopy(member=name, member_epoch=self.epochs[name]) for name in names]

    def altered(self, segment: pb.Segment, *names: str, set_epoch: int = 0) -> pb.AlterInSyncResponse:
        request = pb.AlterInSyncRequest(
            segment=segment.name, leader=segment.leader, set_epoch=set_epoch, in_sync=self.copies(*names)
        )
        found: pb.AlterInSyncResponse = self.ask(self.service.alter_in_sync(request, self.house.call))
        return found

    def described(self, shard: str = "orders", **page: Any) -> pb.DescribeShardResponse:
        request = pb.DescribeShardRequest(shard=shard, **page)
        found: pb.DescribeShardResponse = self.ask(self.service.describe(request, self.house.call))
        return found

    def health(self) -> pb.StorageHealthResponse:
        found: pb.StorageHealthResponse = self.ask(self.service.health(pb.StorageHealthRequest(), self.house.call))
        return found

    def deleted(self, shard: str = "orders") -> pb.DeleteShardResponse:
        request = pb.DeleteShardRequest(shard=shard)
        found: pb.DeleteShardResponse = self.ask(self.service.delete_shard(request, self.house.call))
        return found

    def acked(self, segment: str, member: str, shard_epoch: int) -> None:
        request = pb.AckDeletedRequest(
            segment=segment, shard_epoch=shard_epoch, member=member, member_epoch=self.epochs[member]
        )
        self.ask(self.service.ack_deleted(request, self.house.call))


def test_a_shard_lives_from_its_creation_to_its_end() -> None:
    """Created, changed, sealed, followed, led by another, deleted: each answer says what is, and at which revision."""
    journal = Journal("m1", "m2", "m3")
    first = journal.created(min_in_sync=2, require={})
    assert (first.name, first.leader.member, list(first.copies)) == ("orders/0", "m1", ["m1", "m2", "m3"])
    assert first.leader.leader_epoch == journal.house.revision
    assert first.leader.member_epoch == journal.epochs["m1"]
    answer = journal.altered(first, "m1", "m3")
    assert (answer.set_epoch, [one.member for one in answer.in_sync]) == (1, ["m1", "m3"])
    elect = pb.ElectLeaderRequest(segment="orders/0", member="m3")
    led: pb.SegmentResponse = journal.ask(journal.service.elect_leader(elect, journal.house.call))
    assert (led.segment.leader.member, led.segment.leader.leader_epoch) == ("m3", led.revision)
    after = journal.next(led.segment, 50)
    assert (after.segment.name, after.segment.start_offset) == ("orders/1", 50)
    assert journal.next(led.segment, 50).segment == after.segment, "a retry gets the same one"
    seal = pb.SealRequest(segment="orders/1", end_offset=70, leader=after.segment.leader)
    sealed: pb.SegmentResponse = journal.ask(journal.service.seal(seal, journal.house.call))
    assert (sealed.segment.sealed, sealed.segment.end_offset) == (True, 70)
    found = journal.described()
    assert (found.shard.min_in_sync, found.shard.segments, found.more) == (2, 2, False)
    assert [(one.name, one.sealed, one.end_offset) for one in found.segments] == [
        ("orders/0", True, 50),
        ("orders/1", True, 70),
    ]
    epoch = journal.deleted().epoch
    assert epoch == found.shard.epoch
    assert journal.described().shard.deleting
    for segment in ("orders/0", "orders/1"):
        for member in ("m1", "m2", "m3"):
            assert journal.health().deleting > 0
            journal.acked(segment, member, epoch)
    assert journal.house.refused(
        journal.service.describe(pb.DescribeShardRequest(shard="orders"), journal.house.call)
    ) == (MISSING, "quorate: UnknownShard: There is no shard 'orders'")


def test_lists_come_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards by name, segments by number, each page as long as is asked, or as an answer holds."""
    journal = Journal("m1")
    last = journal.created("b", 1)
    for number in range(4):
        last = journal.next(last, number).segment
    journal.created("a", 1)

    def listed(**page: Any) -> pb.ListShardsResponse:
        found: pb.ListShardsResponse = journal.ask(
            journal.service.listing(pb.ListShardsRequest(**page), journal.house.call)
        )
        return found

    assert ([one.name for one in listed().shards], listed().more) == (["a", "b"], False)
    assert ([one.name for one in listed(limit=1).shards], listed(limit=1).more) == (["a"], True)
    assert [one.segments for one in listed(after="a", stale=True).shards] == [5]
    page = journal.described("b", limit=2)
    assert ([one.name for one in page.segments], page.more) == (["b/0", "b/1"], True)
    page = journal.described("b", after=2)
    assert ([one.name for one in page.segments], page.more) == (["b/3", "b/4"], False)
    journal.deleted("b")
    assert [one.name for one in journal.described("b", after=2).segments] == ["b/3", "b/4"]
    monkeypatch.setattr("quorate.gateway.grpc.asking.PAGE_BYTES", 0)
    page = journal.described("b", after=2)
    assert ([one.name for one in page.segments], page.more) == (["b/3"], True)
    assert ([one.name for one in listed().shards], listed().more) == (["a"], True)
    assert ([one.name for one in listed(after="a").shards], listed(after="a").more) == (["b"], False)


def test_storage_health_says_what_is_at_risk() -> None:
    """Green, yellow with a copy missing, red without enough of them."""
    journal = Journal("m1", "m2", "m3")
    first = journal.created(min_in_sync=2)
    assert (journal.health().level, journal.health().segments) == (pb.STORAGE_LEVEL_GREEN, 1)
    journal.altered(first, "m1", "m2")
    found = journal.health()
    assert (found.level, found.under_replicated, found.below_min_in_sync) == (pb.STORAGE_LEVEL_YELLOW, 1, 0)
    assert [(one.segment, list(one.reasons)) for one in found.at_risk] == [
        ("orders/0", ["fewer copies in sync than wanted"])
    ]
    journal.altered(first, "m1", set_epoch=1)
    found = journal.health()
    assert (found.level, found.below_min_in_sync, found.leaderless) == (pb.STORAGE_LEVEL_RED, 1, 0)


def test_what_if_says_who_would_lead_and_changes_nothing() -> None:
    """By the election's own rules and reasons; of who leads nothing, nothing."""
    journal = Journal("m1", "m2", "m3")
    first = journal.created()
    state = journal.house.bench.machine.state

    def asked(*members: str) -> list[pb.SegmentAfter]:
        request = pb.JournalWhatIfRequest(members=members)
        found: pb.JournalWhatIfResponse = journal.ask(journal.service.whatif(request, journal.house.call))
        return list(found.segments)

    (row,) = asked("m1", "m2")
    assert (row.segment, row.leader, row.would_lead) == ("orders/0", "m1", "m3")
    assert "m1, which led it, is fenced" in row.explanation
    assert asked("m2") == asked() == []
    assert journal.house.bench.machine.state is state
    journal.altered(first, "m1")
    (row,) = asked("m1")
    assert (row.would_lead, row.explanation) == (
        "",
        "orders/0: m1 is fenced, m2 is not in sync, m3 is not in sync",
    )


class Held(Caller):
    """A call that counts what its answer takes."""

    def __init__(self, most: int = 1 << 20) -> None:
        super().__init__()
        self.held, self._most = list[int](), most

    def hold(self, count: int) -> None:
        self.held.append(count)
        if sum(self.held) > self._most:
            raise CallError(StatusCode.RESOURCE_EXHAUSTED, "no room")


def test_what_if_is_told_in_turns_and_held_to_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many segments a turn, by name; each is counted before the next ones are made, and where there is no room the
    call ends.
    """
    journal = Journal("m1", "m2")
    for shard in ("c", "a", "b", "e", "d"):
        journal.created(shard, 2)
    monkeypatch.setattr("quorate.gateway.grpc.journal.AFTER_PER_STEP", 2)
    request, call = pb.JournalWhatIfRequest(members=["m1", "m2"]), Held()
    found: pb.JournalWhatIfResponse = journal.ask(journal.service.whatif(request, call))
    assert [one.segment for one in found.segments] == ["a/0", "b/0", "c/0", "d/0", "e/0"]
    assert len(call.held) == 3
    assert found.ByteSize() <= sum(call.held)
    call = Held(most=call.held[0])
    assert journal.house.refused(journal.service.whatif(request, call)) == (StatusCode.RESOURCE_EXHAUSTED, "no room")
    assert len(call.held) == 2


def test_what_if_takes_a_bounded_number_of_members() -> None:
    """They are refused before any of them is looked for."""
    journal = Journal()
    for count, code in ((1_000, MISSING), (1_001, INVALID)):
        request = pb.JournalWhatIfRequest(members=[str(number) for number in range(count)])
        assert journal.house.refused(journal.service.whatif(request, journal.house.call))[0] is code


def by(journal: Journal, **other: Any) -> pb.SegmentLeader:
    """As the leader is; ``other`` overrides."""
    leader = journal.described().segments[0].leader
    said = {"member": leader.member, "leader_epoch": leader.leader_epoch, "member_epoch": leader.member_epoch}
    return pb.SegmentLeader(**{**said, **other})


def _alters(journal: Journal, *names: str, set_epoch: int = 0, **other: Any) -> pb.AlterInSyncRequest:
    return pb.AlterInSyncRequest(
        segment="orders/0", leader=by(journal, **other), set_epoch=set_epoch, in_sync=journal.copies(*names)
    )


def _creates(**other: Any) -> pb.CreateShardRequest:
    return pb.CreateShardRequest(**{"shard": "new", "replication": 1, **other})


def _goes_on(journal: Journal, current: int = 0, end_offset: int = 1, **other: Any) -> pb.NextSegmentRequest:
    leader = by(journal, **other)
    return pb.NextSegmentRequest(shard="orders", current=current, end_offset=end_offset, leader=leader)


def _acks(journal: Journal, shard_epoch: int = 1, **other: Any) -> pb.AckDeletedRequest:
    said = {"segment": "orders/0", "member": "m1", "member_epoch": journal.epochs["m1"], **other}
    return pb.AckDeletedRequest(shard_epoch=shard_epoch, **said)


Make = Callable[[Journal], Message]
BAD: list[tuple[str, Make, StatusCode, str]] = [
    ("create_shard", lambda _: pb.CreateShardRequest(), INVALID, "BadShardName"),
    ("create_shard", lambda _: _creates(shard="x" * 300), INVALID, "BadShardName"),
    ("create_shard", lambda _: _creates(shard="a/b"), INVALID, "BadShardName"),
    ("create_shard", lambda _: _creates(replication=0), INVALID, "BadReplication"),
    ("create_shard", lambda _: _creates(replication=-1), INVALID, "BadReplication"),
    ("create_shard", lambda _: _creates(replication=2**31 - 1), INVALID, "BadReplication"),
    ("create_shard", lambda _: _creates(min_in_sync=2), INVALID, "BadReplication"),
    ("create_shard", lambda _: _creates(spread="a b"), INVALID, "BadShardLabel"),
    ("create_shard", lambda _: _creates(replication=9), STALE, "NotEnoughMembers"),
    ("create_shard", lambda _: _creates(shard="orders"), StatusCode.ALREADY_EXISTS, "ShardExists"),
    ("next_segment", lambda _: pb.NextSegmentRequest(), INVALID, "BadSegmentName"),
    ("next_segment", lambda journal: _goes_on(journal, current=-1), INVALID, "BadSegmentName"),
    ("next_segment", lambda journal: _goes_on(journal, current=7), MISSING, "UnknownSegment"),
    ("next_segment", lambda journal: _goes_on(journal, current=2**62), MISSING, "UnknownSegment"),
    ("next_segment", lambda _: pb.NextSegmentRequest(shard="pay"), MISSING, "UnknownShard"),
    ("next_segment", lambda journal: _goes_on(journal, end_offset=-1), INVALID, "BadOffset"),
    ("next_segment", lambda journal: _goes_on(journal, member="m2"), STALE, "NotTheSegmentLeader"),
    ("next_segment", lambda journal: _goes_on(journal, leader_epoch=1), STALE, "StaleLeaderEpoch"),
    ("next_segment", lambda journal: _goes_on(journal, member_epoch=1), STALE, "StaleMemberEpoch"),
    ("next_segment", lambda _: pb.NextSegmentRequest(shard="orders"), STALE, "NotTheSegmentLeader"),
    ("seal", lambda _: pb.SealRequest(), INVALID, "BadSegmentName"),
    ("seal", lambda _: pb.SealRequest(segment="x" * 100_000), INVALID, "BadSegmentName"),
    ("seal", lambda _: pb.SealRequest(segment="orders/" + "9" * 5_000), INVALID, "BadSegmentName"),
    ("seal", lambda _: pb.SealRequest(segment="orders/" + "9" * 19), MISSING, "UnknownSegment"),
    ("seal", lambda _: pb.SealRequest(segment="orders/" + "9" * 20), INVALID, "BadSegmentName"),
    ("seal", lambda _: pb.SealRequest(segment="orders/\u0660"), INVALID, "BadSegmentName"),
    ("seal", lambda _: pb.SealRequest(segment="orders/0"), STALE, "NotTheSegmentLeader"),
    ("alter_in_sync", lambda _: pb.AlterInSyncRequest(), INVALID, "BadSegmentName"),
    ("alter_in_sync", lambda journal: _alters(journal, "m1", set_epoch=-1), STALE, "StaleInSyncEpoch"),
    ("alter_in_sync", lambda journal: _alters(journal, "m1", set_epoch=2**62), STALE, "StaleInSyncEpoch"),
    ("alter_in_sync", lambda journal: _alters(journal, "m1", leader_epoch=-1), STALE, "StaleLeaderEpoch"),
    ("alter_in_sync", lambda journal: _alters(journal, "m1", member_epoch=-1), STALE, "StaleMemberEpoch"),
    ("alter_in_sync", lambda journal: _alters(journal, "m1", member=""), STALE, "NotTheSegmentLeader"),
    ("alter_in_sync", _alters, INVALID, "EmptyInSyncSet"),
    ("alter_in_sync", lambda journal: _alters(journal, "m1", "m4"), INVALID, "NotACopy"),
    ("alter_in_sync", lambda journal: _alters(journal, "m1", "m1"), INVALID, "MemberNamedTwice"),
    ("alter_in_sync", lambda journal: _alters(journal, "m2"), INVALID, "LeaderNotInSync"),
    ("elect_leader", lambda _: pb.ElectLeaderRequest(), INVALID, "BadSegmentName"),
    ("elect_leader", lambda _: pb.ElectLeaderRequest(segment="orders/" + "9" * 5_000), INVALID, "BadSegmentName"),
    ("elect_leader", lambda _: pb.ElectLeaderRequest(segment="pay/0"), MISSING, "UnknownShard"),
    ("elect_leader", lambda _: pb.ElectLeaderRequest(segment="orders/0", member="m4"), STALE, "NoLeaderEligible"),
    ("delete_shard", lambda _: pb.DeleteShardRequest(), MISSING, "UnknownShard"),
    ("delete_shard", lambda _: pb.DeleteShardRequest(shard="orders", epoch=-1), STALE, "StaleShardEpoch"),
    ("ack_deleted", lambda _: pb.AckDeletedRequest(), MISSING, "UnknownMember"),
    ("ack_deleted", lambda journal: _acks(journal, member_epoch=1), STALE, "StaleMemberEpoch"),
    ("ack_deleted", _acks, STALE, "StaleShardEpoch"),
    ("ack_deleted", lambda journal: _acks(journal, segment="orders/" + "9" * 5_000), INVALID, "BadSegmentName"),
    ("ack_deleted", lambda journal: _acks(journal, segment=""), INVALID, "BadSegmentName"),
    (
        "ack_deleted",
        lambda journal: _acks(journal, journal.described().shard.epoch),
        STALE,
        "ShardNotDeleting",
    ),
    ("describe", lambda _: pb.DescribeShardRequest(), MISSING, "UnknownShard"),
    ("whatif", lambda _: pb.JournalWhatIfRequest(members=["m1", "nobody"]), MISSING, "UnknownMember"),
    ("describe", lambda _: pb.DescribeShardRequest(shard="x" * 100_000), MISSING, "UnknownShard"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "make", "code", "name"), BAD)
def test_bad_input_has_its_error_and_changes_nothing(call: str, make: Make, code: StatusCode, name: str) -> None:
    """Empty, huge, wrong, stale, unknown: each by its code, and its name in the text."""
    journal = Journal("m1", "m2", "m3", "m4")
    journal.created()
    request = make(journal)
    before = journal.house.bench.machine.state
    found, text = journal.house.refused(getattr(journal.service, call)(request, journal.house.call))
    assert (found, name in text) == (code, True), text
    assert journal.house.bench.machine.state is before


REQUESTS: dict[str, type[Message]] = {
    "create_shard": pb.CreateShardRequest,
    "next_segment": pb.NextSegmentRequest,
    "seal": pb.SealRequest,
    "alter_in_sync": pb.AlterInSyncRequest,
    "elect_leader": pb.ElectLeaderRequest,
    "delete_shard": pb.DeleteShardRequest,
    "ack_deleted": pb.AckDeletedRequest,
    "describe": pb.DescribeShardRequest,
    "listing": pb.ListShardsRequest,
    "health": pb.StorageHealthRequest,
    "whatif": pb.JournalWhatIfRequest,
}


@pytest.mark.parametrize("call", REQUESTS)
def test_a_call_that_may_not_or_comes_too_late_changes_nothing(call: str) -> None:
    """A quota, access, and a deadline that is over are asked before anything else."""
    journal = Journal()
    house, asked = journal.house, getattr(journal.service, call)
    before = house.bench.machine.state
    house.may = False
    assert house.refused(asked(REQUESTS[call](), house.call))[0] is StatusCode.PERMISSION_DENIED
    house.may, house.room = True, False
    assert house.refused(asked(REQUESTS[call](), house.call))[0] is StatusCode.RESOURCE_EXHAUSTED
    house.room = True
    assert house.refused(asked(REQUESTS[call](), Caller(left_s=0.0)))[0] is StatusCode.DEADLINE_EXCEEDED
    assert house.bench.machine.state is before


def test_below_their_level_there_are_no_shards() -> None:
    """The refusal says how to raise it."""
    journal = Journal(house=House(level=1))
    code, text = journal.house.refused(journal.service.create_shard(_creates(), journal.house.call))
    assert (code, "quorate feature raise" in text) == (STALE, True)


class Watch:
    """A watch whose answers a test takes when it likes."""

    def __init__(self, house: House, **said: Any) -> None:
        self.house, self.watches = house, JournalWatches(house.asking)
        self.watches.start()
        self.stream = self.watches.watch(pb.WatchJournalRequest(**said), house.call)
        self._next: asyncio.Future[pb.WatchJournalResponse] | None = None

    def take(self) -> list[pb.WatchJournalResponse]:
        """All that is told by now."""

        async def taken() -> list[pb.WatchJournalResponse]:
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


def told(answers: list[pb.WatchJournalResponse]) -> list[tuple[int, list[tuple[str, str | None]]]]:
    """Revisions, names, and what each is now: ``shard``, ``segment``, or gone."""
    return [(one.revision, [(each.name, _kind(each)) for each in one.changes]) for one in answers]


def _kind(change: pb.JournalChange) -> str | None:
    return next((kind for kind in ("shard", "segment") if change.HasField(kind)), None)


def test_a_watch_tells_each_change_once_and_whole_decisions_together() -> None:
    """From now on; the first answer says from where. Other facts are no changes of the journal."""
    journal = Journal("m1", "m2", "m3")
    house = journal.house
    watch = Watch(house)
    assert told(watch.take()) == [(house.revision, [])]
    first = journal.created()
    at = house.revision
    house.bench.done(PutKey(key=b"k"))
    journal.next(first, 9)
    assert told(watch.take()) == [
        (at, [("orders", "shard"), ("orders/0", "segment")]),
        (house.revision, [("orders/0", "segment"), ("orders/1", "segment")]),
    ]
    epoch = journal.deleted().epoch
    for segment in ("orders/0", "orders/1"):
        for member in journal.epochs:
            journal.acked(segment, member, epoch)
    answers = watch.take()
    assert answers[0].changes[0].shard.deleting
    assert told(answers)[-1] == (house.revision, [("orders/1", None), ("orders", None)])
    assert answers[-1].changes[1].what == "shard orders is gone: all its copies are deleted"


def test_a_member_watches_what_it_holds() -> None:
    """Its segments and all shards; what it has lost its copy of it hears of with that."""
    journal = Journal("m1", "m2")
    house = journal.house
    first = journal.created("orders", 2)
    mine, others = Watch(house, member="m2"), Watch(house, shard="pay")
    mine.take(), others.take()
    journal.created("pay", 1)
    assert [names for _, names in told(mine.take())] == [[("pay", "shard"), ("pay/0", "segment")]]
    journal.altered(first, "m1")
    assert [names for _, names in told(mine.take())] == [[("orders/0", "segment")]]
    epoch = journal.deleted("orders").epoch
    journal.acked("orders/0", "m2", epoch)
    journal.acked("orders/0", "m1", epoch)
    assert [names for _, names in told(mine.take())] == [
        [("orders", "shard")],
        [("orders/0", "segment")],
        [("orders", None)],
    ]
    assert [names for _, names in told(others.take())] == [[("pay", "shard"), ("pay/0", "segment")]]


def test_a_watch_from_a_revision_tells_what_was_and_goes_on() -> None:
    """Whole entries, also from before it was made."""
    journal = Journal("m1")
    first = journal.created("orders", 1)
    at = journal.house.revision
    second = journal.next(first, 4)
    watch = Watch(journal.house, start_revision=at)
    assert [one.revision for one in watch.take()][1:] == [at, second.revision]
    journal.next(second.segment, 5)
    assert [one.revision for one in watch.take()] == [journal.house.revision]
