"""Segments get another leader when theirs is not there or is to leave, and deletions end, whoever leads."""

from itertools import pairwise
from typing import Any

import pytest

from quorate.controller import Refused
from quorate.controller.segment_keeper import BATCH
from quorate.events import InSyncCopy, MemberGone, SegmentCopyDeleted, SegmentLeaderElected, ShardGone
from quorate.metadata.commands import (
    AckDeleted,
    AlterInSync,
    AskMember,
    ChangeConfig,
    Command,
    CreateShard,
    DeleteShard,
    DrainMember,
    ElectSegmentLeaders,
    FenceMember,
    HearMember,
    MemberIs,
    PutKey,
    Refusal,
    RegisterMember,
    SegmentIs,
    UnregisterMember,
)
from quorate.metadata.context import Context, Decision
from quorate.metadata.decide import decide
from quorate.metadata.limits import UNCLEAN_SEGMENT_LEADERS
from quorate.metadata.refusals import refuse
from quorate.model import segments
from quorate.model.live import MemberHealth
from quorate.model.segments import PER_STEP, is_led, segment
from quorate.model.state import Segment, State
from quorate.slices import TURN_S
from tests.segments import speaks
from tests.unit.controller.bench import Bench
from tests.unit.controller.test_liveness import facts
from tests.unit.controller.test_member_keeper import keeping, passing

LONG_MS = 600_000


class Store:
    """A bench with members of the journal that stay alive by themselves."""

    def __init__(self, *names: str) -> None:
        self.bench: Bench = keeping()
        self.epochs: dict[str, int] = {}
        for name in names:
            self.register(name)

    def register(self, name: str, incarnation: str = "1") -> None:
        outcome = self.bench.done(
            RegisterMember(name=name, incarnation=incarnation, roles=("journal",), timeout_ms=LONG_MS)
        )
        assert isinstance(outcome.reply, MemberIs)
        self.epochs[name] = outcome.reply.registered_epoch(outcome.offset)
        self.back(name)

    def back(self, name: str) -> None:
        epoch = self.epochs[name]
        self.bench.done(HearMember(name=name, epoch=epoch, applied_revision=epoch))

    def fence(self, name: str) -> None:
        self.bench.done(
            FenceMember(name=name, epoch=self.epochs[name], evidence="heartbeat expired", last_heartbeat_ms=1)
        )

    def shard(self, name: str = "orders", replication: int = 3) -> Segment:
        outcome = self.bench.done(CreateShard(shard=name, replication=replication))
        assert isinstance(outcome.reply, SegmentIs), outcome
        return self.segment(f"{name}/0")

    def segment(self, name: str = "orders/0") -> Segment:
        found = segment(self.bench.machine.state, name)
        assert found is not None
        return found

    def alter(self, *names: str) -> None:
        found = self.segment()
        new = tuple(InSyncCopy(member=name, member_epoch=self.epochs[name]) for name in names)
        command = AlterInSync(segment=found.name, by=speaks(found), set_epoch=found.set_epoch, new=new)
        self.bench.done(command)

    def elections(self) -> list[SegmentLeaderElected]:
        return [event for event in facts(self.bench, 0) if isinstance(event, SegmentLeaderElected)]

    def kinds(self, *kinds: type[Any]) -> int:
        return sum(isinstance(event, kinds) for event in facts(self.bench, 0))


def test_a_fenced_leader_is_replaced_soon() -> None:
    """By the keeper itself, with the reason."""
    store = Store("m1", "m2", "m3")
    store.shard()
    store.fence("m1")
    passing(store.bench, 0.3)
    (event,) = store.elections()
    assert (event.leader, event.trigger) == ("m2", "fenced")
    passing(store.bench, 5)
    assert len(store.elections()) == 1


def test_a_member_that_is_to_leave_hands_over_and_then_may() -> None:
    """Its leaderships go first."""
    store = Store("m1", "m2")
    store.shard(replication=2)
    first = store.bench.done(DrainMember(name="m1"))
    assert not first.reply.may_leave
    passing(store.bench, 0.3)
    assert [event.trigger for event in store.elections()] == ["draining"]
    again = store.bench.done(HearMember(name="m1", epoch=store.epochs["m1"], applied_revision=store.epochs["m1"]))
    assert again.reply.may_leave
    store.bench.done(UnregisterMember(name="m1", epoch=store.epochs["m1"]))
    assert "m1" not in store.bench.machine.state.members


def test_the_copies_of_who_is_to_leave_are_looked_at_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold very many, and beats often: what it is told of last copies may be a second old, not older."""
    store, count = Store("m1", "m2"), 10
    for number in range(count):
        store.shard(f"s{number}", 2)
    store.bench.done(DrainMember(name="m1"))
    passing(store.bench, 0.3)
    looks = list[str]()

    def look(state: State, name: str) -> Segment | None:
        looks.append(name)
        return segment(state, name)

    def beat() -> bool:
        epoch = store.epochs["m1"]
        written = store.bench.submit(PutKey(key=b"k", value=b"v"))  # In flight: the applied state is judged too.
        told = store.bench.submit(HearMember(name="m1", epoch=epoch, applied_revision=epoch))
        passing(store.bench, 0.1)
        assert written
        reply: MemberIs = told[0].reply
        return reply.may_leave

    monkeypatch.setattr(segments, "segment", look)
    assert beat()
    assert len(looks) == count
    store.bench.submit(
        FenceMember(name="m2", epoch=store.epochs["m2"], evidence="heartbeat expired", last_heartbeat_ms=1)
    )
    store.bench.engine.commit()
    looks.clear()
    assert [beat() for _ in range(8)] == [True] * 8
    assert not looks
    passing(store.bench, 0.2)
    assert not beat()


def test_a_look_at_very_many_copies_takes_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is over nobody is told that he may leave. Who asks meanwhile begins no other look."""
    store, count = Store("m1", "m2"), 300
    for number in range(count):
        store.shard(f"s{number}", 2)
    store.bench.done(DrainMember(name="m1"))
    passing(store.bench, 2)
    looks = list[str]()

    def look(state: State, name: str) -> Segment | None:
        looks.append(name)
        store.bench.world.now += TURN_S / 100
        return segment(state, name)

    monkeypatch.setattr(segments, "segment", look)
    heard = store.bench.controller.members._heard["m1"]
    heard.looked, heard.last_copy = None, True
    seen = list[tuple[int, bool]]()
    for _ in range(9):
        told = store.bench.done(AskMember(name="m1"))
        seen.append((len(looks), told.reply.may_leave))
        store.bench.after(TURN_S)
    assert [may for _, may in seen] == [looked == count for looked, _ in seen]
    assert (seen[0], seen[-1]) == ((2 * PER_STEP, False), (count, True))
    assert max(after[0] - before[0] for before, after in pairwise(seen)) <= 2 * PER_STEP


def test_whoever_unregisters_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At all that it holds, with force or without: a leader that looked twice at very many would lose its term."""
    for force in (False, True):
        store, count, looks = Store("m1", "m2"), 10, list[str]()
        for number in range(count):
            store.shard(f"s{number}", 2)
        store.bench.done(DrainMember(name="m1"))
        passing(store.bench, 0.3)

        def look(state: State, name: str, looks: list[str] = looks) -> Segment | None:
            looks.append(name)
            return segment(state, name)

        monkeypatch.setattr(segments, "segment", look)
        store.bench.done(UnregisterMember(name="m1", epoch=store.epochs["m1"], force=force))
        monkeypatch.undo()
        assert [event.reason for event in facts(store.bench, 0) if isinstance(event, MemberGone)] == ["drained"]
        assert len(looks) == count


def test_another_life_and_one_that_is_gone_are_replaced() -> None:
    """Neither holds what the one before held."""
    store = Store("m1", "m2", "m3")
    store.shard()
    store.fence("m1")
    store.register("m1", "2")
    passing(store.bench, 0.3)
    assert store.segment().leader == "m2"
    store.bench.done(UnregisterMember(name="m2", force=True))
    passing(store.bench, 0.3)
    assert [(event.leader, event.trigger) for event in store.elections()][1:] == [("m3", "gone")]


def test_where_nobody_can_lead_it_is_tried_when_somebody_comes_back_and_not_before() -> None:
    """A member that returns, or a set that its leader changed; nothing is written in between."""
    store = Store("m1", "m2", "m3")
    store.shard()
    store.alter("m1", "m2")
    store.fence("m2")
    store.fence("m1")
    passing(store.bench, 0.3)
    end = store.bench.machine.offset
    assert list(store.bench.controller.segments.leaderless) == ["orders/0"]
    passing(store.bench, 5)
    assert store.bench.machine.offset == end
    store.back("m2")
    passing(store.bench, 0.3)
    assert [event.leader for event in store.elections()] == ["m2"]
    assert not store.bench.controller.segments.leaderless
    store.bench.done(DrainMember(name="m2"))
    passing(store.bench, 0.3)
    assert list(store.bench.controller.segments.leaderless) == ["orders/0"]
    store.alter("m2", "m3")
    passing(store.bench, 0.3)
    assert [event.leader for event in store.elections()] == ["m2", "m3"]


def test_a_shard_that_is_to_go_has_no_segment_without_a_leader() -> None:
    """Nor when all of it is gone."""
    store = Store("m1")
    store.shard(replication=1)
    store.bench.done(DrainMember(name="m1"))
    passing(store.bench, 0.3)
    assert list(store.bench.controller.segments.leaderless) == ["orders/0"]
    store.bench.done(DeleteShard(shard="orders"))
    passing(store.bench, 0.3)
    assert not store.bench.controller.segments.leaderless


def test_a_segment_without_a_leader_gets_one_when_who_is_not_in_sync_may_lead() -> None:
    """As soon as the setting is in the log; other settings change nothing."""
    store = Store("m1", "m2", "m3")
    store.shard()
    store.alter("m1")
    store.fence("m1")
    passing(store.bench, 0.3)
    assert list(store.bench.controller.segments.leaderless) == ["orders/0"]
    for scope, name, value in (
        ("cluster", "other", "true"),
        ("cluster", UNCLEAN_SEGMENT_LEADERS, "false"),
        ("topic/t", UNCLEAN_SEGMENT_LEADERS, "true"),
    ):
        store.bench.done(ChangeConfig(scope=scope, changes={name: value}))
        passing(store.bench, 0.3)
        assert list(store.bench.controller.segments.leaderless) == ["orders/0"]
    store.bench.done(ChangeConfig(scope="cluster", changes={UNCLEAN_SEGMENT_LEADERS: "true"}))
    passing(store.bench, 0.3)
    (event,) = store.elections()
    assert (event.leader, event.unclean) == ("m2", True)
    assert not store.bench.controller.segments.leaderless


def test_what_changes_while_an_election_is_decided_is_not_missed() -> None:
    """A decision that nobody can lead waits for a round of the quorum; the setting that comes meanwhile counts."""
    store = Store("m1", "m2", "m3")
    store.shard()
    store.alter("m1")
    store.fence("m1")
    bench = store.bench
    for _ in range(3):
        bench.after(0.1)
    assert bench.engine.reads
    bench.submit(ChangeConfig(scope="cluster", changes={UNCLEAN_SEGMENT_LEADERS: "true"}))
    bench.engine.commit()
    bench.engine.confirm()
    passing(bench, 5.0)
    assert [event.leader for event in store.elections()] == ["m2"]


def test_a_new_leader_looks_at_everything_once() -> None:
    """What the leader before had not done is done, elections and deletions."""
    store = Store("m1", "m2", "m3")
    store.shard()
    store.shard("pay", 2)
    gone = store.segment("pay/0")
    bench = store.bench
    for command in (
        FenceMember(name="m1", epoch=store.epochs["m1"], evidence="heartbeat expired", last_heartbeat_ms=1),
        DeleteShard(shard="pay"),
        UnregisterMember(name=gone.copies[1], force=True),
    ):
        bench.submit(command)
    bench.engine.commit()
    bench.engine.lose()
    bench.after(0.1)
    assert not store.elections()
    bench.open(2)
    passing(bench, 0.5)
    assert is_led(bench.machine.state, store.segment())
    assert store.kinds(SegmentCopyDeleted) == 1
    assert store.segment("pay/0").copies == gone.copies[:1]


def test_deletions_end_without_those_that_are_gone() -> None:
    """In either order: the member goes before the shard is to go, or after it."""
    for before in (True, False):
        store = Store("m1", "m2", "m3")
        first = store.shard()
        steps = [UnregisterMember(name="m2", force=True), DeleteShard(shard="orders")]
        for command in steps if before else reversed(steps):
            store.bench.done(command)
            passing(store.bench, 0.2)
        assert store.segment().copies == ("m1", "m3")
        shard = store.bench.machine.state.shards["orders"]
        for name in ("m1", "m3"):
            store.bench.done(
                AckDeleted(segment=first.name, shard_epoch=shard.epoch, member=name, member_epoch=store.epochs[name])
            )
        assert store.kinds(ShardGone) == 1
        assert not store.bench.machine.state.shards


def test_many_leaders_are_replaced_in_batches() -> None:
    """A member that led many is replaced everywhere, a bounded number in a decision."""
    store = Store("m1", "m2")
    count = BATCH + 10
    for number in range(2 * count):
        store.shard(f"s{number}", 2)
    led = dict(store.bench.machine.state.leading["m1"])
    assert len(led) == count
    entries = len(store.bench.engine.log)
    store.fence("m1")
    passing(store.bench, 0.5)
    assert {event.segment for event in store.elections()} == set(led)
    assert len(store.bench.engine.log) - entries == 3, "the fencing and two batches"
    assert not store.bench.controller.segments.leaderless


def test_an_election_that_fails_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a batch that is refused the parts are asked for, down to the one that fails; that waits for a change, and what
    comes later is asked for in whole batches again.
    """
    store, asked, failing = Store("m1", "m2"), list[int](), set[str]()

    def decided(state: State, command: Command, context: Context) -> Decision | Refusal:
        if isinstance(command, ElectSegmentLeaders):
            asked.append(len(command.segments))
            if failing & set(command.segments):
                return refuse("CallFailed", "a planted failure")
        return decide(state, command, context)

    monkeypatch.setattr("quorate.controller.deciding.decide", decided)
    for number in range(40):
        store.shard(f"s{number}", 2)
    led = dict(store.bench.machine.state.leading["m1"])
    failing.add(sorted(led)[7])
    store.fence("m1")
    passing(store.bench, 10)
    assert {event.segment for event in store.elections()} == set(led) - failing
    assert failing == set(store.bench.controller.segments.leaderless)
    assert len(asked) <= 16
    passing(store.bench, 10)
    failing.clear()
    count = len(asked)
    store.bench.done(ChangeConfig(scope="cluster", changes={UNCLEAN_SEGMENT_LEADERS: "true"}))
    passing(store.bench, 5)
    assert len(asked) == count + 1
    assert {event.segment for event in store.elections()} == set(led)
    assert not store.bench.controller.segments.leaderless


def test_who_leads_no_more_asks_for_nothing() -> None:
    """Another one does."""
    store = Store("m1", "m2", "m3")
    store.shard()
    store.bench.submit(
        FenceMember(name="m1", epoch=store.epochs["m1"], evidence="heartbeat expired", last_heartbeat_ms=1)
    )
    store.bench.engine.commit()
    store.bench.engine.lose(leader=2)
    entries = len(store.bench.engine.log)
    store.bench.after(2)
    assert len(store.bench.engine.log) == entries


def test_a_full_disk_gets_no_copy_after_a_change_of_leaders() -> None:
    """The new leader knows of none until the members beat, and says so; then the full one is left out as before."""
    store = Store("full", "free")
    full = MemberHealth(disk_used_bytes=95, disk_total_bytes=100)

    def beat(name: str, health: MemberHealth) -> None:
        epoch = store.epochs[name]
        store.bench.done(HearMember(name=name, epoch=epoch, applied_revision=epoch, health=health))

    def code(shard: str, replication: int) -> str:
        outcome = store.bench.done(CreateShard(shard=shard, replication=replication))
        return outcome.refusal.code if isinstance(outcome, Refused) else outcome.reply.leader

    beat("full", full)
    beat("free", MemberHealth())
    assert (code("one", 1), code("two", 2)) == ("free", "NotEnoughMembers")
    store.bench.engine.lose(leader=2)
    store.bench.open(term=3)
    assert (code("three", 1), code("four", 2)) == ("MembersNotHeard", "MembersNotHeard")
    beat("full", full)
    assert code("five", 1) == "MembersNotHeard"
    beat("free", MemberHealth())
    assert (code("six", 1), code("seven", 2)) == ("free", "NotEnoughMembers")
