"""Plausible commands about shards, segments and the members that hold them, for histories made by chance."""

from random import Random

import msgspec

from quorate.events import InSyncCopy
from quorate.metadata import commands
from quorate.metadata.commands import ByLeader, Command
from quorate.model.segments import parsed
from quorate.model.state import Segment, State

MEMBERS = ("s1", "s2", "s3", "s4")
SHARDS = ("orders", "pay.ments")


def of_shard(state: State, shard: str) -> list[Segment]:
    """The segments of a shard, by number."""
    numbered = state.segments.get(shard)
    return [] if numbered is None else [numbered[number] for number in sorted(numbered)]


def plausible(state: State, chance: Random) -> Command:
    """One that mostly is as it should be; often a member's, so that there is somebody to hold copies."""
    member = chance.choice(MEMBERS)
    found = state.members.get(member)
    if found is None or chance.random() < 0.05:
        return commands.RegisterMember(
            name=member, incarnation=chance.choice("aab"), roles=("journal",), labels={"zone": chance.choice("xy")},
            timeout_ms=9_000,
        )  # fmt: skip
    if found.fenced and chance.random() < 0.9:
        return commands.HearMember(name=member, epoch=found.epoch, applied_revision=found.epoch)
    if chance.random() < 0.1:
        fences = commands.FenceMember(
            name=member, epoch=found.epoch, evidence="heartbeat expired", last_heartbeat_ms=1_000
        )
        goes = commands.UnregisterMember(name=member, force=True)
        return chance.choice((fences, fences, commands.DrainMember(name=member), goes))
    return _of_a_shard(state, chance)


def _of_a_shard(state: State, chance: Random) -> Command:
    shard = state.shards.get(name := chance.choice(SHARDS))
    if shard is None:
        return commands.CreateShard(
            shard=name, replication=chance.choice((1, 2, 3)), spread=chance.choice(("", "zone")),
            require=chance.choice(({}, {}, {"zone": ""})),
        )  # fmt: skip
    segments = [one for numbered in (state.segments[name],) for one in numbered.values()]
    segment = chance.choice(sorted(segments, key=lambda one: parsed(one.name) or ()))
    if shard.deleting:
        if chance.random() < 0.2:
            return commands.ForgetCopies(shard=name)
        holder = chance.choice(segment.copies)
        there = state.members.get(holder)
        return commands.AckDeleted(
            segment=segment.name, shard_epoch=shard.epoch, member=holder,
            member_epoch=9 if there is None else there.epoch,
        )  # fmt: skip
    if chance.random() < 0.08:
        return commands.DeleteShard(shard=name, epoch=chance.choice((None, shard.epoch)))
    return _of_its_leader(state, segment, chance)


def _of_its_leader(state: State, segment: Segment, chance: Random) -> Command:
    shard, number = parsed(segment.name) or ("", 0)
    by = speaks(segment, stale=chance.random() < 0.1)
    end = segment.end_offset if segment.end_offset is not None else segment.start_offset + chance.randint(0, 9)
    new = [
        InSyncCopy(member=one, member_epoch=state.members[one].epoch)
        for one in segment.copies
        if one in state.members and (one == segment.leader or chance.random() < 0.6)
    ]
    ways: dict[Command, int] = {
        commands.NextSegment(shard=shard, current=number, end_offset=end, by=by): 2,
        commands.SealSegment(segment=segment.name, end_offset=end, by=by): 1,
        commands.AlterInSync(segment=segment.name, by=by, set_epoch=segment.set_epoch, new=tuple(new)): 5,
        commands.ElectSegmentLeader(
            segment=segment.name, trigger="operator", wanted=chance.choice(("", "", *segment.copies))
        ): 6,
    }
    (command,) = chance.choices(list(ways), list(ways.values()))
    return command


def speaks(segment: Segment, *, stale: bool = False) -> ByLeader:
    """As its leader would; ``stale``: in the reign before."""
    by = ByLeader(leader=segment.leader, leader_epoch=segment.leader_epoch, member_epoch=segment.member_epoch)
    return msgspec.structs.replace(by, leader_epoch=by.leader_epoch - 1) if stale else by
