"""Members of the journal: they register, beat, copy, lead segments, acknowledge, lose disks, leave, and delete.

Rules: a store knows what a watch told it, which may be old, and what it asked and was answered. Whoever leads appends,
sends to the other copies, and acknowledges what every copy holds that is in sync as it knows it, or as it has asked for
it. A copy takes records of a reign no older than the newest it has seen. A store that comes back has what it had, and
knows where it said that a segment ends; one that lost its disk is another incarnation, and has nothing.

Theory: what was acknowledged is held by whoever the controllers may elect. It is looked at where it would be missed: a
store that begins to lead, in the life that was elected, must have all of it; a segment ends behind all of it; one store
acts in a reign.
"""

from collections.abc import Iterator
from functools import partial
from itertools import count
from random import Random
from typing import Final

from quorate.events import Event, InSyncCopy, MemberGone, SegmentLeaderElected, SegmentSealed, Stamp
from quorate.metadata.commands import (
    AckDeleted,
    AlterInSync,
    ByLeader,
    Command,
    CreateShard,
    DeleteShard,
    HearMember,
    NextSegment,
    RegisterMember,
    UnregisterMember,
)
from quorate.model.evolve import evolve
from quorate.model.members import may_leave
from quorate.model.segments import fit, parsed, segment, wants_leader
from quorate.model.state import EMPTY, Member, Segment, State
from tests.segments import of_shard
from tests.sim.clients import Answer, Done, Result, Service
from tests.sim.cluster import Cluster
from tests.sim.nodes import CoreNode
from tests.sim.world import ViolationError

KEPT: Final = "an acknowledged record is at whoever leads"
ENDS: Final = "a segment ends behind what was acknowledged"
ONE: Final = "one store acts in a reign"
LEFT: Final = "who leaves in order leaves no segment without a copy in sync"
TIMEOUT_MS: Final = 1_000
STEP_S: Final = 0.1
SLOW_S: Final = 0.4
"""A copy that has taken nothing for so long is taken out of the set."""
SHARDS: Final = ("a", "b")
SEGMENTS_MAX: Final = 6
"""Of one shard: then it goes."""


class _Copy:
    """What a store has of a segment."""

    def __init__(self) -> None:
        self.log: tuple[int, ...] = ()
        self.reign = 0
        """The newest of which it has taken something."""
        self.said = (0, 0)
        """As a leader, in which reign it has said that the segment ends, and where: that may yet come to be."""


class _Reign:
    """What a leader knows of the others."""

    def __init__(self, found: Segment, now: float) -> None:
        self.epoch = found.leader_epoch
        self.began = now
        self.copied: dict[str, tuple[int, int, float]] = {}
        """By store: how much it has, in which life of it, and when it said so."""
        self.asked = set(found.copies)
        """In sync, if what was asked for comes to be: a leader that restarted does not know what that was."""
        self.asked_at = found.set_epoch
        """In which set epoch."""
        self.end: int | None = None
        """Where it has said that the segment ends."""


class Store:
    """One member, through all its lives."""

    def __init__(self, stores: "Stores", name: str) -> None:
        self._stores, self.name = stores, name
        self._random = stores.random
        self.life = 1
        self.up = True
        self.leaves = False
        """It is to leave, and does when it may: with all it has."""
        self._view = EMPTY
        self.copies: dict[str, _Copy] = {}
        self._reigns: dict[str, _Reign] = {}

    @property
    def me(self) -> Member | None:
        """As it is registered, in this life, as far as it knows."""
        found = self._view.members.get(self.name)
        return found if found is not None and found.incarnation == str(self.life) else None

    # -- what befalls it

    def crash(self, down_s: float, *, lost: bool) -> None:
        """It stops, perhaps for good: then what comes up is another one."""
        self.up = False
        self._reigns.clear()
        if lost:
            self.life += 1
            self.copies.clear()
            self._view = EMPTY
            self._stores.cluster.counts["stores' disks lost"] += 1
        self._stores.cluster.world.after(down_s, self.rise)

    def rise(self) -> None:
        """It runs."""
        self.up = True

    # -- what it does

    def step(self) -> None:
        """Beat, lead, delete; and again."""
        stores = self._stores
        stores.cluster.world.after(STEP_S * (0.5 + self._random.random()), self.step)
        if not self.up or not stores.state.feature_level > 1:
            return
        if self._random.random() < 0.8:
            self._view = stores.state
        me = self.me
        if me is None:
            stores.ask(
                RegisterMember(name=self.name, incarnation=str(self.life), roles=("journal",), timeout_ms=TIMEOUT_MS)
            )
            return
        self._beat(me)
        for name, epoch in sorted(self._view.leading.get(self.name, {}).items()):
            found = segment(self._view, name)
            if epoch == me.epoch and found is not None:
                self._lead(found)
        self._delete(me)

    def _beat(self, me: Member) -> None:
        """And leave, once it asked for it and may. A refusal says that it may not, after all."""
        stores = self._stores
        self.leaves = self.leaves and not stores.stopped
        beat = HearMember(name=self.name, epoch=me.epoch, applied_revision=stores.offset - 1, want_drain=self.leaves)
        stores.ask(beat)
        if self.leaves and me.draining and may_leave(self._view, me):
            stores.ask(UnregisterMember(name=self.name, epoch=me.epoch))

    def gone(self) -> None:
        """The log says that it left: what it had is given away, and another one comes in its place."""
        self.life += 1
        self.leaves = False
        self.copies.clear()
        self._reigns.clear()
        self._view = EMPTY
        self._stores.cluster.counts["stores that left"] += 1

    def _delete(self, me: Member) -> None:
        for name in sorted(self._view.holding.get(self.name, ())):
            shard = self._view.shards.get((parsed(name) or ("", 0))[0])
            if shard is not None and shard.deleting:
                self.copies.pop(name, None)
                self._reigns.pop(name, None)
                command = AckDeleted(segment=name, shard_epoch=shard.epoch, member=self.name, member_epoch=me.epoch)
                self._stores.ask(command)

    def _lead(self, found: Segment) -> None:
        shard = self._view.shards.get((parsed(found.name) or ("", 0))[0])
        copy = self.copies.setdefault(found.name, _Copy())
        if shard is None or shard.deleting or copy.reign > found.leader_epoch:
            return
        reign = self._reigns.get(found.name)
        now = self._stores.cluster.world.now
        if reign is None or reign.epoch != found.leader_epoch:
            reign = self._reigns[found.name] = _Reign(found, now)
            copy.reign = found.leader_epoch
            if copy.said[0] == reign.epoch:
                reign.end = copy.said[1]
            self._stores.begins(found, self, copy.log)
        if reign.asked_at < found.set_epoch:
            reign.asked = set()
        if found.end_offset is None and reign.end is None:
            copy.log += (next(self._stores.numbers),)
        for other in found.copies:
            if other != self.name:
                self._stores.send(self, other, found.name, reign.epoch, copy.log)
        self._acknowledge(found.name)
        self._alter(found, reign, copy)
        if found.end_offset is None and (reign.end is not None or self._random.random() < 0.03):
            self._end(found, reign, copy)

    def take(self, leader: "Store", name: str, epoch: int, log: tuple[int, ...]) -> None:
        """Records of a reign; it says what it has then."""
        me = self.me
        if not self.up or me is None:
            return
        copy = self.copies.setdefault(name, _Copy())
        if copy.reign > epoch:
            return
        if copy.reign < epoch or len(log) >= len(copy.log):
            copy.log, copy.reign = log, epoch
        self._stores.later(partial(leader.taken, self.name, me.epoch, name, epoch, len(copy.log)))

    def taken(self, other: str, member_epoch: int, name: str, epoch: int, length: int) -> None:
        """Another copy has so much."""
        reign = self._reigns.get(name)
        if not self.up or reign is None or reign.epoch != epoch:
            return
        before = reign.copied.get(other)
        if before is None or before[:2] <= (length, member_epoch) or before[1] != member_epoch:
            reign.copied[other] = (length, member_epoch, self._stores.cluster.world.now)
        self._acknowledge(name)

    def _acknowledge(self, name: str) -> None:
        """What every one has that is in sync, as it is known and as it may be."""
        reign, copy, found = self._reigns[name], self.copies[name], segment(self._view, name)
        if found is None or found.leader_epoch != reign.epoch:
            return
        needed = {one.member for one in found.in_sync} | reign.asked
        lengths = [len(copy.log) if one == self.name else reign.copied.get(one, (0, 0, 0.0))[0] for one in needed]
        self._stores.acknowledged(found, copy.log[: min(lengths)])

    def _alter(self, found: Segment, reign: _Reign, copy: _Copy) -> None:
        """Take out who is slow, add who has all that was acknowledged; one thing at a time."""
        if reign.asked and self._random.random() < 0.7:
            return
        now, have = self._stores.cluster.world.now, self._stores.acked.get(found.name, ())
        in_sync = {one.member: one.member_epoch for one in found.in_sync}
        for other in found.copies:
            length, epoch, at = reign.copied.get(other, (0, 0, reign.began))
            if other == self.name:
                continue
            if other in in_sync and now - at > SLOW_S:
                del in_sync[other]
                break
            stands = in_sync.get(other)
            if epoch and stands != epoch and now - at < SLOW_S and len(copy.log) >= length >= len(have):
                in_sync[other] = epoch
                break
        else:
            return
        reign.asked |= set(in_sync)
        reign.asked_at = found.set_epoch
        new = tuple(InSyncCopy(member=one, member_epoch=in_sync[one]) for one in sorted(in_sync))
        self._stores.ask(AlterInSync(segment=found.name, by=_by(found), set_epoch=found.set_epoch, new=new))

    def _end(self, found: Segment, reign: _Reign, copy: _Copy) -> None:
        shard, number = parsed(found.name) or ("", 0)
        if reign.end is None:
            reign.end = found.start_offset + len(copy.log)
            copy.said = reign.epoch, reign.end
        self._stores.ask(NextSegment(shard=shard, current=number, end_offset=reign.end, by=_by(found)))


def _by(found: Segment) -> ByLeader:
    return ByLeader(leader=found.leader, leader_epoch=found.leader_epoch, member_epoch=found.member_epoch)


def _stays(state: State, copy: InSyncCopy) -> bool:
    """Could it lead, whoever else could?"""
    return fit(state, copy.member, copy.member_epoch) and not state.members[copy.member].draining


class Stores:
    """All of them, what the log says, and what was acknowledged to their clients."""

    def __init__(self, cluster: Cluster, seed: int, size: int) -> None:
        self.cluster = cluster
        self.random = Random(seed)
        """Dice of their own: seeds without stores are what they were."""
        self.state: State = EMPTY
        self.offset = 0
        self.numbers: Iterator[int] = count(1)
        self.acked: dict[str, tuple[int, ...]] = {}
        self._acting: dict[tuple[str, int], tuple[str, int]] = {}
        self.all = {f"s{number}": Store(self, f"s{number}") for number in range(1, size + 1)}
        self._asked = 0
        self.stopped = False

    def start(self) -> None:
        """Begin."""
        for store in self.all.values():
            self.cluster.world.after(self.random.random() * 0.3, store.step)
        if self.all:
            self.cluster.world.after(0.5, self._operate)
            self.cluster.world.after(1.0, self._trouble)

    def stop(self) -> None:
        """No trouble any more, and every shard is to go in the end."""
        self.stopped = True

    @property
    def settled(self) -> bool:
        """Has every deletion ended, and every segment a leader that could have one?"""
        state = self.state
        if not self.stopped or not self.all:
            return True
        if any(shard.deleting for shard in state.shards.values()):
            return False
        return not any(
            wants_leader(state, found) and any(_stays(state, one) for one in found.in_sync)
            for name in state.shards
            for found in of_shard(state, name)
        )

    def _operate(self) -> None:
        """Somebody creates shards, and has one deleted now and then."""
        state = self.state
        if state.feature_level > 1 and not self.stopped:
            for name in SHARDS:
                if name not in state.shards:
                    self.ask(CreateShard(shard=name, replication=self.random.choice((2, 3))))
                elif len(state.segments[name]) >= SEGMENTS_MAX or self.random.random() < 0.05:
                    self.ask(DeleteShard(shard=name))
        self.cluster.world.after(0.3 + self.random.random() * 0.4, self._operate)

    def _trouble(self) -> None:
        """A store stops for a while, or loses its disk, and is then perhaps declared gone."""
        if self.stopped:
            return
        store = self.all[self.random.choice(sorted(self.all))]
        if store.up and self.random.random() < 0.6:
            lost = self.random.random() < 0.3
            store.crash(0.1 + self.random.random() * 1.5, lost=lost)
            if lost and self.random.random() < 0.3:
                self.ask(UnregisterMember(name=store.name, force=True))
        elif store.up and self.state.feature_level > 1 and not any(one.leaves for one in self.all.values()):
            store.leaves = True
            self.cluster.counts["stores drained"] += 1
        self.cluster.world.after(0.3 + self.random.random(), self._trouble)

    # -- between stores

    def later(self, call: "partial[None]") -> None:
        """A message arrives, mostly."""
        if self.random.random() < 0.9:
            self.cluster.world.after(0.001 + self.random.random() * 0.05, call)

    def send(self, leader: Store, other: str, name: str, epoch: int, log: tuple[int, ...]) -> None:
        """Records on their way."""
        self.later(partial(self.all[other].take, leader, name, epoch, log))

    def ask(self, command: Command) -> None:
        """Of any node; what was answered is seen in the log."""
        self._asked += 1
        tag = f"store-{self._asked}"

        def call(service: Service, done: Answer) -> None:
            assert isinstance(service, CoreNode)
            service.submit(command, tag, "", done)

        node = self.random.choice(self.cluster.voters)
        self.cluster.ask(node, call, partial(self._heard, type(command).__name__), "segment")

    def _heard(self, name: str, result: Result) -> None:
        if isinstance(result, Done):
            self.cluster.counts[f"done: {name}"] += 1

    # -- what is looked at

    def committed(self, event: Event) -> None:
        """The next event of the log. Raises ViolationError."""
        before = self.state
        self.state = evolve(before, event, Stamp(offset=self.offset, term=0, time_ms=0))
        self.offset += 1
        for name in [name for name in self.acked if segment(self.state, name) is None]:
            del self.acked[name]
        if isinstance(event, MemberGone) and event.reason == "drained" and event.member in self.all:
            self._check_left(before, event)
            self.all[event.member].gone()
        if isinstance(event, SegmentLeaderElected) and event.trigger == "balance":
            self.cluster.counts["segments moved for balance"] += 1
        if isinstance(event, SegmentSealed):
            found = segment(self.state, event.segment)
            have = len(self.acked.get(event.segment, ()))
            if found is None or event.end_offset < found.start_offset + have:
                raise ViolationError(ENDS, f"{event}: {have} records were acknowledged")

    def _check_left(self, before: State, event: MemberGone) -> None:
        """Whatever it was in sync with is held by another one that is there. Raises ViolationError."""
        mine = InSyncCopy(member=event.member, member_epoch=event.epoch)
        for name in before.holding.get(event.member, ()):
            found = segment(before, name)
            shard = before.shards[(parsed(name) or ("", 0))[0]]
            if found is None or shard.deleting or mine not in found.in_sync:
                continue
            if not any(fit(self.state, one.member, one.member_epoch) for one in found.in_sync):
                raise ViolationError(LEFT, f"{event}: {found}")

    def begins(self, found: Segment, store: Store, log: tuple[int, ...]) -> None:
        """A store begins to lead. Raises ViolationError."""
        place = (found.name, found.leader_epoch)
        actor = (store.name, store.life)
        if self._acting.setdefault(place, actor) != actor:
            raise ViolationError(ONE, f"{found.name} in {found.leader_epoch}: {self._acting[place]} and {actor}")
        self.cluster.counts["segments led"] += 1
        acked = self.acked.get(found.name, ())
        if self._is_current(found) and log[: len(acked)] != acked:
            raise ViolationError(KEPT, f"{store.name} leads {found}: it has {len(log)} records of {len(acked)}")

    def acknowledged(self, found: Segment, log: tuple[int, ...]) -> None:
        """A client was told so much. Raises ViolationError."""
        acked = self.acked.get(found.name, ())
        there = segment(self.state, found.name)
        if len(log) <= len(acked) or there is None or self.state.shards[(parsed(found.name) or ("", 0))[0]].deleting:
            return
        if log[: len(acked)] != acked:
            raise ViolationError(KEPT, f"{found.name}: {acked} was acknowledged, and now {log}")
        if there.end_offset is not None and there.start_offset + len(log) > there.end_offset:
            raise ViolationError(ENDS, f"{found.name} ends at {there.end_offset}, {len(log)} records are acknowledged")
        self.acked[found.name] = log
        self.cluster.counts["records acknowledged"] += 1

    def _is_current(self, found: Segment) -> bool:
        """Is it this reign still? A store may learn of one after the next has begun."""
        there = segment(self.state, found.name)
        return there is not None and there.leader_epoch == found.leader_epoch
