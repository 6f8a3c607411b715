"""Shards and segments: placed, led, changed, sealed, followed by the next, deleted in two phases."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from immutables import Map

from quorate.errors import InvariantBrokenError
from quorate.events import (
    InSyncCopy,
    MemberGone,
    PlacedCopy,
    SegmentCopyDeleted,
    SegmentCreated,
    SegmentInSyncAltered,
    SegmentSealed,
    ShardCreated,
    ShardDeleting,
    ShardGone,
    Stamp,
)
from quorate.metadata import commands, journal
from quorate.metadata.commands import (
    Accepted,
    AckDeleted,
    AlterInSync,
    ByLeader,
    CreateShard,
    DeleteShard,
    FenceMember,
    ForgetCopies,
    InSyncIs,
    NextSegment,
    Refusal,
    SealSegment,
    SegmentIs,
    ShardIs,
    UnregisterMember,
)
from quorate.metadata.context import Decision
from quorate.metadata.decide import LEVELS, decide
from quorate.metadata.replica_set import Broken
from quorate.metadata.segment_whatif import PER_STEP, segments_whatif
from quorate.model import rows
from quorate.model.evolve import evolve
from quorate.model.segments import last, segment, with_segment
from quorate.model.state import Segment, Shard
from quorate.model.storage_health import NO_LEADER, storage_health
from quorate.model.storage_health import PER_STEP as HEALTH_PER_STEP
from quorate.slices import finished
from tests.segments import speaks
from tests.unit.metadata.kit import CREATE, World, counted
from tests.unit.metadata.test_keys import world


def storing(*names: str, **said: Any) -> World:
    """A cluster of level 2 with members of the journal."""
    made = world()
    for name in names:
        made.member(name, roles=("journal",), **said)
    return made


def led(made: World, name: str = "orders/0") -> Segment:
    """The segment."""
    found = segment(made.state, name)
    assert found is not None
    return found


@pytest.fixture
def made() -> World:
    """A shard of three copies at m1 (which leads), m2 and m3; m4 has none."""
    made = storing("m1", "m2", "m3", "m4")
    made.reply(CreateShard(shard="orders", replication=3, min_in_sync=2), SegmentIs)
    return made


def copies(made: World, *names: str) -> tuple[InSyncCopy, ...]:
    """Of these members, as they are registered now."""
    return tuple(InSyncCopy(member=name, member_epoch=made.state.members[name].epoch) for name in names)


def altering(made: World, *names: str, **other: Any) -> AlterInSync:
    """As the leader would ask that knows all; ``other`` overrides what it says of itself, or the set epoch."""
    found = led(made)
    by = {key: other[key] for key in ByLeader.__struct_fields__ if key in other}
    return AlterInSync(
        segment=found.name,
        by=msgspec.structs.replace(speaks(found), **by),
        set_epoch=other.get("set_epoch", found.set_epoch),
        new=other.get("new", copies(made, *names)),
    )


def following(made: World, end_offset: int, current: int = 0, **other: Any) -> NextSegment:
    """As the leader of the segment would ask; ``other`` overrides what it says of itself."""
    by = msgspec.structs.replace(speaks(led(made, f"orders/{current}")), **other)
    return NextSegment(shard="orders", current=current, end_offset=end_offset, by=by)


def fence(made: World, name: str) -> None:
    """It is not heard."""
    epoch = made.state.members[name].epoch
    made.do(FenceMember(name=name, epoch=epoch, evidence="heartbeat expired", last_heartbeat_ms=1))


# -- shards


def test_below_its_level_nothing_of_the_journal_is_done() -> None:
    """A voter of the build before could not read the events."""
    made = World()
    made.do(CREATE)
    assert made.refused(CreateShard(shard="orders", replication=1)).code == "UnsupportedFeatureLevel"
    assert {
        LEVELS[kind] for kind in (NextSegment, SealSegment, AlterInSync, DeleteShard, AckDeleted, ForgetCopies)
    } == {2}


def test_a_shard_begins_with_its_first_segment() -> None:
    """In one decision: its epoch is the offset of its first event, the leader's that of its last."""
    made = storing("m2", "m1", labels={"zone": "z"})
    at = made.offset
    epochs = {name: found.epoch for name, found in made.state.members.items()}
    command = CreateShard(shard="orders", replication=2, min_in_sync=2, spread="zone", require={"zone": "z", "a": ""})
    assert made.refused(command).code == "NotEnoughMembers"
    answer = made.reply(msgspec.structs.replace(command, require={"zone": ""}), SegmentIs)
    assert (answer.segment, answer.leader, answer.led_since(made.offset)) == ("orders/0", "m1", at + 1)
    created, first = (event for event, stamp in made.log if stamp.offset >= at)
    assert created == ShardCreated(shard="orders", replication=2, min_in_sync=2, spread="zone", require={"zone": ""})
    assert isinstance(first, SegmentCreated)
    assert first.copies == (
        PlacedCopy(member="m1", member_epoch=epochs["m1"], place="z", holds=0, leads=0),
        PlacedCopy(member="m2", member_epoch=epochs["m2"], place="z", holds=0, leads=0),
    )
    in_sync = (
        InSyncCopy(member="m1", member_epoch=epochs["m1"]),
        InSyncCopy(member="m2", member_epoch=epochs["m2"]),
    )
    assert made.state.shards["orders"] == Shard(
        name="orders", epoch=at, replication=2, min_in_sync=2, spread="zone", require={"zone": ""}
    )
    assert led(made) == Segment(
        name="orders/0", start_offset=0, copies=("m1", "m2"), leader="m1", member_epoch=epochs["m1"],
        leader_epoch=at + 1, in_sync=in_sync,
    )  # fmt: skip
    assert answer.in_sync == in_sync


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"shard": ""}, "BadShardName"),
        ({"shard": "a/b"}, "BadShardName"),
        ({"shard": "-a"}, "BadShardName"),
        ({"shard": "ü"}, "BadShardName"),
        ({"shard": "x" * 256}, "BadShardName"),
        ({"replication": 0, "min_in_sync": 0}, "BadReplication"),
        ({"replication": 65}, "BadReplication"),
        ({"min_in_sync": 0}, "BadReplication"),
        ({"min_in_sync": 3}, "BadReplication"),
        ({"spread": "no label"}, "BadShardLabel"),
        ({"spread": "x" * 256}, "BadShardLabel"),
        ({"require": {"": "a"}}, "BadShardLabel"),
        ({"require": {"a": "\n"}}, "BadShardLabel"),
        ({"require": {"a": "\ud800"}}, "BadShardLabel"),
        ({"require": {str(n): "" for n in range(65)}}, "BadShardLabel"),
        ({"shard": "orders"}, "ShardExists"),
        ({"replication": 5}, "NotEnoughMembers"),
    ],
)
def test_what_cannot_be_a_shard_is_refused(made: World, other: dict[str, Any], code: str) -> None:
    """Each by its name, and nothing of it is written: no shard without a segment."""
    command = {"shard": "new", "replication": 2, "min_in_sync": 1, **other}
    assert made.refused(CreateShard(**command)).code == code


# -- who is in sync


def test_a_leader_shrinks_and_grows_its_set(made: World) -> None:
    """Each change has the next set epoch, and says who was in sync before."""
    answer = made.reply(altering(made, "m1", "m3"), InSyncIs)
    assert (answer.set_epoch, [copy.member for copy in answer.in_sync]) == (1, ["m1", "m3"])
    found = led(made)
    assert made.events(altering(made, "m3", "m2", "m1")) == (
        SegmentInSyncAltered(
            segment="orders/0",
            leader="m1",
            leader_epoch=found.leader_epoch,
            old=("m1", "m3"),
            new=copies(made, "m1", "m2", "m3"),
            set_epoch=2,
        ),
    )
    assert made.events(altering(made, "m1", "m2", "m3")) == (), "it is so already"


def test_each_fence_of_a_change_has_its_name(made: World) -> None:
    """In the order of the one rule-set."""
    fence(made, "m3")
    made.do(altering(made, "m1", "m2"))
    foreign = copies(made, "m4")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"leader": "m2", "leader_epoch": 1}, "NotTheSegmentLeader"),
        ({"leader": "", "leader_epoch": 1}, "NotTheSegmentLeader"),
        ({"leader_epoch": led(made).leader_epoch - 1, "member_epoch": 0}, "StaleLeaderEpoch"),
        ({"leader_epoch": led(made).leader_epoch + 1}, "StaleLeaderEpoch"),
        ({"member_epoch": led(made).member_epoch - 1, "set_epoch": 0}, "StaleMemberEpoch"),
        ({"set_epoch": 0, "new": ()}, "StaleInSyncEpoch"),
        ({"set_epoch": 2}, "StaleInSyncEpoch"),
        ({"new": ()}, "EmptyInSyncSet"),
        ({"new": foreign}, "NotACopy"),
        ({"new": copies(made, "m1", "m3")}, "CopyNotReady"),
        ({"new": copies(made, "m2")}, "LeaderNotInSync"),
    ]
    for other, code in cases:
        assert made.refused(altering(made, "m1", **other)).code == code, other


def test_a_leader_s_next_life_is_not_the_leader(made: World) -> None:
    """Neither under the epoch that it had, nor under the one that it has now."""
    before = led(made).member_epoch
    fence(made, "m1")
    now = made.member("m1", "2", roles=("journal",))
    assert made.refused(altering(made, "m2", "m1", member_epoch=before)).code == "StaleMemberEpoch"
    assert made.refused(altering(made, "m2", "m1", member_epoch=now)).code == "StaleMemberEpoch"
    assert made.refused(following(made, 1)).code == "StaleMemberEpoch"
    seal = SealSegment(segment="orders/0", end_offset=1, by=speaks(led(made)))
    assert made.refused(seal).code == "StaleMemberEpoch"


def test_a_copy_is_added_in_the_life_that_the_leader_saw(made: World) -> None:
    """A member that lost what it held, and registered anew, is not added by a word about its former life."""
    late = altering(made, "m1", "m2", "m3")
    made.do(altering(made, "m1", "m2"))
    fence(made, "m3")
    made.member("m3", "2", roles=("journal",))
    late = msgspec.structs.replace(late, set_epoch=led(made).set_epoch)
    assert made.refused(late).code == "CopyNotReady"
    made.reply(altering(made, "m1", "m2", "m3"), InSyncIs)


def test_one_that_stays_by_its_former_life_stays_that(made: World) -> None:
    """The leader has not noticed yet: nothing of the new life is believed."""
    former = altering(made, "m1", "m3")
    fence(made, "m3")
    made.member("m3", "2", roles=("journal",))
    made.reply(former, InSyncIs)
    assert led(made).in_sync == former.new


def test_one_that_is_to_leave_is_not_added(made: World) -> None:
    """It would only have to be taken out again."""
    made.do(altering(made, "m1", "m2"))
    made.do(commands.DrainMember(name="m3"))
    assert made.refused(altering(made, "m1", "m2", "m3")).code == "CopyNotReady"


# -- the next segment


def test_the_next_segment_is_one_decision_and_one_however_often_it_is_asked(made: World) -> None:
    """Sealed where the leader says, and begun there; a retry, also by who leads no more, is told the same."""
    command = following(made, 120)
    at = made.offset
    answer = made.reply(command, SegmentIs)
    sealed, begun = (event for event, stamp in made.log if stamp.offset >= at)
    assert sealed == SegmentSealed(
        segment="orders/0", end_offset=120, leader="m1", leader_epoch=at - 1, reason="next segment"
    )
    assert isinstance(begun, SegmentCreated)
    assert (begun.segment, begun.start_offset) == ("orders/1", 120)
    assert led(made).end_offset == 120
    again = made.reply(command, SegmentIs)
    assert made.offset == at + 2
    assert again == msgspec.structs.replace(answer, leader_epoch=at + 1)
    fence(made, "m1")
    assert made.reply(command, SegmentIs) == again
    assert made.refused(following(made, 121)).code == "SegmentIsSealed"


def test_load_is_spread_over_segments(made: World) -> None:
    """The member without a copy gets one, and another one leads."""
    made.reply(following(made, 10), SegmentIs)
    found = led(made, "orders/1")
    assert (found.leader, set(found.copies)) == ("m4", {"m4", "m2", "m3"})


def test_only_the_leader_says_where_a_segment_ends(made: World) -> None:
    """A deposed one might not know what was acknowledged since."""
    assert made.refused(following(made, 1, leader="m2")).code == "NotTheSegmentLeader"
    assert made.refused(following(made, 1, leader_epoch=1)).code == "StaleLeaderEpoch"
    assert made.refused(following(made, 1, member_epoch=1)).code == "StaleMemberEpoch"
    by = speaks(led(made))
    assert made.refused(NextSegment(shard="orders", current=1, end_offset=1, by=by)).code == "UnknownSegment"
    assert made.refused(NextSegment(shard="pay", current=0, end_offset=1, by=by)).code == "UnknownShard"
    assert made.refused(following(made, -1)).code == "BadOffset"
    assert made.refused(following(made, 2**63)).code == "BadOffset"
    made.reply(following(made, 10), SegmentIs)
    assert made.refused(following(made, 9, 1)).code == "BadOffset", "it began at 10"


def test_a_segment_is_not_sealed_where_no_next_one_can_be_placed(made: World) -> None:
    """All or nothing; the leader may go on with the one it has."""
    fence(made, "m2")
    fence(made, "m3")
    assert made.refused(following(made, 10)).code == "NotEnoughMembers"
    assert led(made).end_offset is None


def test_a_sealed_segment_stays_sealed_and_can_be_followed(made: World) -> None:
    """At the one end that it has; the next one begins there."""
    seal = SealSegment(segment="orders/0", end_offset=7, by=speaks(led(made)))
    assert made.reply(seal, SegmentIs).end_offset == 7
    assert made.events(seal) == ()
    assert made.refused(msgspec.structs.replace(seal, end_offset=8)).code == "SegmentIsSealed"
    assert made.refused(following(made, 8)).code == "SegmentIsSealed"
    (begun,) = made.events(following(made, 7))
    assert isinstance(begun, SegmentCreated)
    assert begun.start_offset == 7
    assert last(made.state, "orders") == led(made, "orders/1")
    assert made.refused(msgspec.structs.replace(seal, segment="orders")).code == "BadSegmentName"
    assert made.refused(msgspec.structs.replace(seal, segment="orders/00")).code == "BadSegmentName"


# -- deletion


def test_a_shard_goes_in_two_phases(made: World) -> None:
    """First it is told, then each copy is waited for; with the last one the shard is gone, and its name is free."""
    made.reply(following(made, 5), SegmentIs)
    epoch = made.state.shards["orders"].epoch
    assert made.refused(DeleteShard(shard="orders", epoch=epoch + 1)).code == "StaleShardEpoch"
    assert made.refused(DeleteShard(shard="pay")).code == "UnknownShard"
    assert made.refused(acking(made, "orders/0", "m1")).code == "ShardNotDeleting"
    assert made.events(DeleteShard(shard="orders")) == (ShardDeleting(shard="orders", epoch=epoch, segments=2),)
    assert made.reply(DeleteShard(shard="orders", epoch=epoch), ShardIs) == ShardIs(
        shard="orders", epoch=epoch, deleting=True
    )
    assert made.refused(CreateShard(shard="orders", replication=1)).code == "ShardExists"
    assert made.refused(following(made, 9, 1)).code == "ShardIsDeleting"
    assert made.refused(altering(made, "m1")).code == "ShardIsDeleting"
    pairs = [(name, member) for name in ("orders/1", "orders/0") for member in led(made, name).copies]
    for name, member in pairs[:-1]:
        made.reply(acking(made, name, member), Accepted)
        assert made.events(acking(made, name, member)) == (), "it is so already"
    assert segment(made.state, "orders/1") is None
    name, member = pairs[-1]
    member_epoch = made.state.members[member].epoch
    assert made.events(acking(made, name, member)) == (
        SegmentCopyDeleted(segment=name, member=member, member_epoch=member_epoch, reason="deleted", left=0),
        ShardGone(shard="orders", epoch=epoch),
    )
    state = made.state
    assert not any((state.shards, state.segments, state.holding, state.leading))
    assert made.refused(acking(made, name, member, epoch)).code == "UnknownShard"
    made.reply(CreateShard(shard="orders", replication=1), SegmentIs)
    assert made.refused(acking(made, name, member, epoch)).code == "StaleShardEpoch", "that one was another"


def acking(made: World, name: str, member: str, shard_epoch: int | None = None) -> AckDeleted:
    """As the member would say."""
    shard = made.state.shards.get("orders")
    return AckDeleted(
        segment=name,
        shard_epoch=(shard.epoch if shard else 0) if shard_epoch is None else shard_epoch,
        member=member,
        member_epoch=made.state.members[member].epoch,
    )


def test_an_acknowledgement_is_one_life_s(made: World) -> None:
    """One of a life before, or of nobody, deletes nothing."""
    made.do(DeleteShard(shard="orders"))
    stale = msgspec.structs.replace(acking(made, "orders/0", "m1"), member_epoch=1)
    assert made.refused(stale).code == "StaleMemberEpoch"
    assert made.refused(msgspec.structs.replace(stale, member="m9")).code == "UnknownMember"
    assert made.refused(msgspec.structs.replace(acking(made, "orders/0", "m1"), segment="/")).code == "BadSegmentName"
    assert made.events(acking(made, "orders/0", "m4")) == (), "it has no copy"


def test_a_member_that_is_gone_is_not_waited_for(made: World) -> None:
    """One that is only silent is: it comes back with the data."""
    made.reply(following(made, 5), SegmentIs)
    assert made.events(ForgetCopies(shard="orders")) == ()
    made.do(DeleteShard(shard="orders"))
    fence(made, "m2")
    assert made.events(ForgetCopies(shard="orders")) == ()
    made.do(UnregisterMember(name="m2", force=True))
    assert made.events(ForgetCopies(shard="orders")) == (
        SegmentCopyDeleted(segment="orders/0", member="m2", member_epoch=0, reason="member gone", left=2),
        SegmentCopyDeleted(segment="orders/1", member="m2", member_epoch=0, reason="member gone", left=2),
    )
    for member in ("m1", "m3", "m4"):
        made.do(UnregisterMember(name=member, force=True))
    events = made.events(ForgetCopies(shard="orders"))
    assert [type(event) for event in events] == [SegmentCopyDeleted] * 4 + [ShardGone]
    assert not made.state.shards
    assert made.events(ForgetCopies(shard="orders")) == ()


def test_one_decision_forgets_so_many_copies(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops within a segment or between two. The next one goes on; the shard is gone with the last."""
    monkeypatch.setattr(journal, "FORGOTTEN_MAX", 2)
    made.reply(following(made, 5), SegmentIs)
    made.do(DeleteShard(shard="orders"))
    for member in ("m1", "m2", "m3", "m4"):
        made.do(UnregisterMember(name=member, force=True))
    kinds = [[type(event).__name__ for event in made.events(ForgetCopies(shard="orders"))] for _ in range(4)]
    assert kinds == [["SegmentCopyDeleted"] * 2] * 2 + [["SegmentCopyDeleted"] * 2 + ["ShardGone"], []]


class Looked(dict[int, Segment]):
    """The segments of a shard; counts those that are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[int]:
        self.looks += len(self)
        return super().__iter__()

    def __getitem__(self, number: int) -> Segment:
        self.looks += 1
        return super().__getitem__(number)


def test_what_is_forgotten_is_looked_for_among_what_the_gone_hold(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard may have very many segments, of which few copies are forgotten at once, and in the end none is left."""
    monkeypatch.setattr(journal, "FORGOTTEN_MAX", 2)
    for number in range(12):
        made.reply(following(made, 5, number), SegmentIs)
    made.do(DeleteShard(shard="orders"))
    made.do(UnregisterMember(name="m4", force=True))
    held, forgotten = len(made.state.holding["m4"]), list[int]()
    while not forgotten or forgotten[-1]:
        looked = Looked(made.state.segments["orders"])
        segments: Map[str, Any] = made.state.segments
        state = msgspec.structs.replace(made.state, segments=segments.set("orders", looked))
        decision = decide(state, ForgetCopies(shard="orders"), made.context())
        forgotten.append(len(made.events(ForgetCopies(shard="orders"))))
        assert isinstance(decision, Decision)
        assert (len(decision.events), looked.looks <= len(decision.events) + 1) == (forgotten[-1], True)
    assert (sum(forgotten), len(made.state.segments["orders"])) == (held, 13)


def test_who_leads_something_may_not_leave(made: World) -> None:
    """Members are asked for it: one that leads a segment is told to wait."""
    made.do(commands.DrainMember(name="m1"))
    made.do(commands.DrainMember(name="m2"))
    epochs = {name: made.state.members[name].epoch for name in ("m1", "m2")}
    answers = {
        name: made.reply(commands.HearMember(name=name, epoch=epoch, applied_revision=epoch), commands.MemberIs)
        for name, epoch in epochs.items()
    }
    assert (answers["m1"].may_leave, answers["m2"].may_leave) == (False, True)
    assert made.refused(UnregisterMember(name="m1", epoch=epochs["m1"])).code == "MemberStillLeads"


def test_who_is_fenced_with_the_last_copy_is_forgotten_with_force_only(made: World) -> None:
    """It may come back with it. While another copy is in sync and there, a fenced member is forgotten as any."""
    epochs = {name: made.state.members[name].epoch for name in ("m1", "m2", "m3")}
    fence(made, "m2")
    made.do(UnregisterMember(name="m2"))
    fence(made, "m3")
    fence(made, "m1")
    for name in ("m1", "m3"):
        for command in (UnregisterMember(name=name), UnregisterMember(name=name, epoch=epochs[name])):
            refusal = made.refused(command)
            assert (refusal.code, "only force" in refusal.remark) == ("MemberStillLeads", True)
    made.do(UnregisterMember(name="m1", force=True))
    assert "m1" not in made.state.members


def may_leave(made: World, name: str) -> bool:
    """As its heartbeat is answered."""
    epoch = made.state.members[name].epoch
    return made.reply(commands.HearMember(name=name, epoch=epoch, applied_revision=epoch), commands.MemberIs).may_leave


def test_who_has_the_last_copy_in_sync_may_not_leave(made: World) -> None:
    """It leads nothing, and yet what was acknowledged would go with it: the leader lost its disk, and nobody but it is
    in sync. Once another one is, it may.
    """
    made.reply(altering(made, "m1", "m2"), InSyncIs)
    made.do(commands.DrainMember(name="m2"))
    assert may_leave(made, "m2")
    fence(made, "m1")
    made.member("m1", incarnation="empty", roles=("journal",))
    assert not may_leave(made, "m2")
    refusal = made.refused(UnregisterMember(name="m2", epoch=made.state.members["m2"].epoch))
    assert refusal.code == "MemberStillLeads"
    assert "the last copy in sync" in refusal.remark
    found = led(made)
    back = msgspec.structs.replace(found, in_sync=(*found.in_sync, *copies(made, "m3")))
    assert not may_leave(made, "m2")
    made.state = with_segment(made.state, found, back)
    assert may_leave(made, "m2")


def test_of_several_that_are_to_leave_one_stays(made: World) -> None:
    """The leader, or where that is not there the first by name; each is told the same until it has left. A shard that
    is to go holds nobody.
    """
    for name in ("m2", "m3"):
        made.do(commands.DrainMember(name=name))
    fence(made, "m1")
    assert (may_leave(made, "m2"), may_leave(made, "m3")) == (False, True)
    assert made.events(UnregisterMember(name="m3", epoch=made.state.members["m3"].epoch))
    assert not may_leave(made, "m2")
    made.do(DeleteShard(shard="orders"))
    assert may_leave(made, "m2")


def test_an_event_about_what_is_not_there_is_refused(made: World) -> None:
    """No decision can have produced it."""
    stamp = Stamp(offset=made.offset, term=1, time_ms=1)
    for event in (
        ShardGone(shard="pay", epoch=1),
        SegmentCopyDeleted(segment="pay/0", member="m1", member_epoch=1, reason="deleted", left=0),
    ):
        with pytest.raises(Exception, match="which is not there"):
            evolve(made.state, event, stamp)


def test_what_is_refused_of_members_is_refused_here_alike(made: World) -> None:
    """One rule says which life of a member speaks."""
    made.do(DeleteShard(shard="orders"))
    gone = MemberGone(member="m1", epoch=made.state.members["m1"].epoch, incarnation="1", reason="forgotten")
    command = acking(made, "orders/0", "m1")
    made.state = evolve(made.state, gone, Stamp(offset=made.offset, term=1, time_ms=1))
    refusal = made.decide(command)
    assert isinstance(refusal, Refusal)
    assert refusal.code == "UnknownMember"


def test_fences_that_a_segment_has_not(made: World) -> None:
    """Its set has no last epoch in this life of the world, and one that is so already is no refusal."""
    by = ByLeader(leader="m1", member_epoch=1, leader_epoch=1)
    assert journal._broken(led(made), by, 1, Broken("exhausted")).code == "EpochsExhausted"
    with pytest.raises(InvariantBrokenError, match="is not refused"):
        journal._broken(led(made), by, 1, Broken("unchanged"))


def test_a_segment_of_no_number_is_none(made: World) -> None:
    """A name that no decision gives is an invariant that broke, in a row too; many segments are read in slices."""
    found = msgspec.structs.replace(led(made), name="orders")
    with pytest.raises(InvariantBrokenError, match="no segment's name"):
        with_segment(made.state, None, found)
    with pytest.raises(InvariantBrokenError, match="is no segment's"):
        rows.from_rows([(b"segment/default/orders", rows.encoded(found))])
    for number in range(rows.ROWS_PER_STEP):
        made.reply(CreateShard(shard=f"s{number}", replication=1), SegmentIs)
    assert rows.from_rows(rows.rows(made.state)).segments == made.state.segments


def test_many_segments_are_looked_at_in_slices(made: World) -> None:
    """Their health, and what would become of them: nobody waits for all of them. Who has no leader is at risk."""
    for number in range(HEALTH_PER_STEP):
        made.reply(CreateShard(shard=f"s{number}", replication=1), SegmentIs)
    alone = [name for name, held in made.state.holding.items() if len(held) > PER_STEP]
    assert alone
    for name in alone:
        fence(made, name)
    (health, turns), (after, others) = (
        counted(storage_health(made.state)),
        counted(segments_whatif(made.state, frozenset(alone), made.policy, 1)),
    )
    assert health.segments == HEALTH_PER_STEP + 1
    assert any(NO_LEADER in risk.reasons for risk in health.at_risk)
    assert turns and others
    assert {row.would_lead for row in after} >= {""}


def test_what_would_become_of_many_members_is_asked_in_slices() -> None:
    """Each that fails is looked at, also those that lead nothing."""
    made = storing(*(f"m{number}" for number in range(2 * PER_STEP)))
    assert counted(segments_whatif(made.state, frozenset(made.state.members), made.policy, 1)) == ([], 2)


def test_what_would_become_of_a_shard_that_is_to_go_is_not_told(made: World) -> None:
    """It needs no leader any more."""
    made.do(DeleteShard(shard="orders"))
    assert finished(segments_whatif(made.state, frozenset({"m1"}), made.policy, 1)) == []
