"""Shards and segments: they are created, go on, are led, are sealed, and are deleted in two phases.

Rules: a shard has one segment that is not sealed at most, its last; sealing it and beginning the next one is one
decision, and asked again gives the same segment. What only a leader can know (where a segment ends, who is in sync) it
alone may say, behind the fences of ``replica_set.alter``: leader, leader epoch, member epoch, and for the set its
epoch. A leader epoch is the offset of the event that elected, so none is ever given twice. A shard that is to go is
state: its copies are waited for, one by one, except those whose member is gone; with the last copy the shard is gone.
"""

import re
from collections.abc import Mapping
from operator import attrgetter
from typing import Final, assert_never

import msgspec

from quorate.errors import InvariantBrokenError
from quorate.events import (
    Event,
    InSyncCopy,
    SegmentCopyDeleted,
    SegmentCreated,
    SegmentInSyncAltered,
    SegmentSealed,
    ShardCreated,
    ShardDeleting,
    ShardGone,
)
from quorate.metadata.commands import (
    Accepted,
    AckDeleted,
    AlterInSync,
    ByLeader,
    CreateShard,
    DeleteShard,
    ForgetCopies,
    InSyncIs,
    NextSegment,
    Refusal,
    SealSegment,
    SegmentIs,
    ShardIs,
)
from quorate.metadata.context import Context, Decision
from quorate.metadata.members import checked
from quorate.metadata.placement import Wanted, place
from quorate.metadata.refusals import refuse
from quorate.metadata.replica_set import Broken, InSync, alter
from quorate.metadata.texts import LONG_MAX, fits
from quorate.model.segments import fit, name_of, no_name, parsed, segment
from quorate.model.state import Segment, Shard, State

COPIES_MAX: Final = 64
"""Of one segment."""
REQUIRED_MAX: Final = 64
"""Labels that a shard may ask of its members."""
FORGOTTEN_MAX: Final = 256
"""Copies that one decision forgets."""
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_NOBODY: Final = -1
"""The member epoch of no life: under it nobody passes."""


# -- shards


def create_shard(state: State, command: CreateShard, context: Context) -> Decision | Refusal:
    """With its first segment. Refuses BadShardName, BadReplication, BadShardLabel, ShardExists, and what
    ``place`` refuses.
    """
    name = command.shard
    if len(name) > context.policy.name_length_max or not _WORD.fullmatch(name):
        return refuse(
            "BadShardName", f"A name is of letters, digits, . _ - and at most {context.policy.name_length_max}"
        )
    if not 1 <= command.min_in_sync <= command.replication <= COPIES_MAX:
        return refuse("BadReplication", f"There are 1 to {COPIES_MAX} copies, and of these 1 or more are to be in sync")
    longest = context.policy.name_length_max
    labels = [*command.require, command.spread] if command.spread else [*command.require]
    if len(labels) > REQUIRED_MAX or not all(len(one) <= longest and _LABEL.fullmatch(one) for one in labels):
        return refuse("BadShardLabel", f"At most {REQUIRED_MAX} labels, each a word of at most {longest}")
    if not all(fits(value, longest, empty=True) and value.isprintable() for value in command.require.values()):
        return refuse("BadShardLabel", f"The value of a label is printable text of at most {longest}")
    if name in state.shards:
        return refuse("ShardExists", f"There is a shard {name!r}")
    wanted = Wanted(command.replication, command.spread, command.require)
    first = _begun(state, name, 0, 0, wanted, context)
    if isinstance(first, Refusal):
        return first
    created = ShardCreated(
        shard=name,
        replication=command.replication,
        min_in_sync=command.min_in_sync,
        spread=command.spread,
        require=dict(sorted(command.require.items())),
    )
    return Decision((created, first), _is_new(first))


def _begun(
    state: State, shard: str, number: int, start_offset: int, wanted: Wanted, context: Context
) -> SegmentCreated | Refusal:
    name = name_of(shard, number)
    placed = place(state, name, wanted, context)
    if isinstance(placed, Refusal):
        return placed
    copies, why = placed
    return SegmentCreated(segment=name, start_offset=start_offset, copies=copies, explanation=why)


def delete_shard(state: State, command: DeleteShard, context: Context) -> Decision | Refusal:
    """One that is to go already is answered so. Refuses UnknownShard, StaleShardEpoch."""
    shard = _shard(state, command.shard, command.epoch)
    if isinstance(shard, Refusal):
        return shard
    reply = ShardIs(shard=shard.name, epoch=shard.epoch, deleting=True)
    if shard.deleting:
        return Decision((), reply)
    event = ShardDeleting(shard=shard.name, epoch=shard.epoch, segments=len(state.segments[shard.name]))
    return Decision((event,), reply)


def ack_deleted(state: State, command: AckDeleted, context: Context) -> Decision | Refusal:
    """The member's copy is deleted; asked again, it is so already. Refuses UnknownMember, StaleMemberEpoch,
    UnknownShard, StaleShardEpoch, ShardNotDeleting, BadSegmentName.
    """
    member = checked(state, command.member, command.member_epoch)
    if isinstance(member, Refusal):
        return member
    named = parsed(command.segment)
    if named is None:
        return refuse("BadSegmentName", no_name(command.segment))
    shard = _shard(state, named[0], command.shard_epoch)
    if isinstance(shard, Refusal):
        return shard
    if not shard.deleting:
        return refuse("ShardNotDeleting", f"The shard {shard.name!r} is not to go; nobody deletes its copies")
    found = segment(state, command.segment)
    if found is None or member.name not in found.copies:
        return Decision((), Accepted())
    left = len(found.copies) - 1
    event = SegmentCopyDeleted(
        segment=found.name, member=member.name, member_epoch=member.epoch, reason="deleted", left=left
    )
    ends = not left and len(state.segments[shard.name]) == 1
    gone = (ShardGone(shard=shard.name, epoch=shard.epoch),) if ends else ()
    return Decision((event, *gone), Accepted())


def forget_copies(state: State, command: ForgetCopies, context: Context) -> Decision | Refusal:
    """Of a shard that is to go: the copies whose member is gone; at most so many. Refuses nothing."""
    shard = state.shards.get(command.shard)
    if shard is None or not shard.deleting:
        return Decision((), Accepted())
    events: list[Event] = []
    ended = 0
    numbered: Mapping[int, Segment] = state.segments.get(shard.name, {})
    for number in _held_by_the_gone(state, shard.name):
        found = numbered[number]
        if len(events) >= FORGOTTEN_MAX:
            break
        left = len(found.copies)
        for member in found.copies:
            if member in state.members or len(events) >= FORGOTTEN_MAX:
                continue
            left -= 1
            forgotten = SegmentCopyDeleted(
                segment=found.name, member=member, member_epoch=0, reason="member gone", left=left
            )
            events.append(forgotten)
        ended += not left
    if ended == len(numbered):
        events.append(ShardGone(shard=shard.name, epoch=shard.epoch))
    return Decision(tuple(events), Accepted())


def _held_by_the_gone(state: State, shard: str) -> list[int]:
    """Numbers of a shard's segments that have a copy of a member that is gone, in order. It is asked for each few of
    very many copies, and each time there are fewer.
    """
    prefix = f"{shard}/"
    gone = [held for member, held in state.holding.items() if member not in state.members]
    return sorted({int(name[len(prefix) :]) for held in gone for name in held if name.startswith(prefix)})


def _shard(state: State, name: str, epoch: int | None) -> Shard | Refusal:
    """The shard, if this is its epoch (None: whichever there is)."""
    shard = state.shards.get(name)
    if shard is None:
        return refuse("UnknownShard", f"There is no shard {name!r}")
    if epoch is not None and epoch != shard.epoch:
        return refuse("StaleShardEpoch", f"The epoch of shard {name!r} is {shard.epoch}, not {epoch}")
    return shard


# -- what a leader says of its segment


def next_segment(state: State, command: NextSegment, context: Context) -> Decision | Refusal:
    """Seal a shard's last segment, if it is not, and begin the next one; asked again it is answered alike.

    Refuses UnknownShard, UnknownSegment, ShardIsDeleting, SegmentIsSealed (at another end), BadOffset,
    and what ``_fenced`` and ``place`` refuse.
    """
    there = found_in_use(state, name_of(command.shard, command.current))
    if isinstance(there, Refusal):
        return there
    shard, found = there
    following = segment(state, name_of(shard.name, command.current + 1))
    if following is not None:
        if found.end_offset == command.end_offset:
            return Decision((), is_now(following))
        return _is_sealed(found)
    refusal = _fenced(state, found, command.by)
    if refusal is not None:
        return refusal
    sealed = _sealed(found, command.end_offset, "next segment")
    if isinstance(sealed, Refusal):
        return sealed
    wanted = Wanted(shard.replication, shard.spread, shard.require)
    begun = _begun(state, shard.name, command.current + 1, command.end_offset, wanted, context)
    if isinstance(begun, Refusal):
        return begun
    return Decision((*sealed, begun), _is_new(begun))


def seal_segment(state: State, command: SealSegment, context: Context) -> Decision | Refusal:
    """One that is sealed there already is answered so. Refuses BadSegmentName, UnknownShard, UnknownSegment,
    ShardIsDeleting, SegmentIsSealed (at another end), BadOffset, and what ``_fenced`` refuses.
    """
    there = found_in_use(state, command.segment)
    if isinstance(there, Refusal):
        return there
    _, found = there
    if found.end_offset == command.end_offset:
        return Decision((), is_now(found))
    refusal = _fenced(state, found, command.by)
    if refusal is not None:
        return refusal
    sealed = _sealed(found, command.end_offset, "sealed")
    if isinstance(sealed, Refusal):
        return sealed
    return Decision(sealed, msgspec.structs.replace(is_now(found), end_offset=command.end_offset))


def alter_in_sync(state: State, command: AlterInSync, context: Context) -> Decision | Refusal:
    """The segment's dialect of ``replica_set.alter``. A member stays or is added in one life of it: one that registered
    anew is added again. A set that is so already is answered.

    Refuses BadSegmentName, UnknownShard, UnknownSegment, ShardIsDeleting, NotTheSegmentLeader, StaleLeaderEpoch,
    StaleMemberEpoch, StaleInSyncEpoch, EmptyInSyncSet, MemberNamedTwice, NotACopy, CopyNotReady, LeaderNotInSync,
    EpochsExhausted.
    """
    there = found_in_use(state, command.segment)
    if isinstance(there, Refusal):
        return there
    _, found = there
    claimed = {copy.member: copy.member_epoch for copy in command.new}
    if len(claimed) < len(command.new):
        return refuse("MemberNamedTwice", "Each member of a set is named once, in one life of it")
    now = InSync(
        leader=found.leader or None,
        leader_epoch=found.leader_epoch,
        member_epoch=_registered(state, found),
        set_epoch=found.set_epoch,
        ids=tuple(one.member for one in found.in_sync if claimed.get(one.member) == one.member_epoch),
    )
    asked = InSync(
        leader=command.by.leader,
        leader_epoch=command.by.leader_epoch,
        member_epoch=command.by.member_epoch,
        set_epoch=command.set_epoch,
        ids=tuple(sorted(claimed)),
    )
    altered = alter(now, asked, found.copies, lambda one: _ready(state, one, claimed[one]), epoch_max=LONG_MAX)
    if isinstance(altered, Broken):
        return _broken(found, command.by, command.set_epoch, altered)
    new = tuple(InSyncCopy(member=one, member_epoch=claimed[one]) for one in altered.ids)
    if new == found.in_sync:
        return Decision((), InSyncIs(segment=found.name, in_sync=new, set_epoch=found.set_epoch))
    event = SegmentInSyncAltered(
        segment=found.name,
        leader=found.leader,
        leader_epoch=found.leader_epoch,
        old=tuple(one.member for one in found.in_sync),
        new=new,
        set_epoch=altered.set_epoch,
    )
    return Decision((event,), InSyncIs(segment=found.name, in_sync=new, set_epoch=altered.set_epoch))


def found_in_use(state: State, name: str) -> tuple[Shard, Segment] | Refusal:
    """A segment, and its shard, which is not to go."""
    named = parsed(name)
    if named is None:
        return refuse("BadSegmentName", no_name(name))
    shard = _shard(state, named[0], None)
    if isinstance(shard, Refusal):
        return shard
    if shard.deleting:
        return refuse("ShardIsDeleting", f"The shard {shard.name!r} is to go")
    found = segment(state, name)
    return refuse("UnknownSegment", f"There is no segment {name!r}") if found is None else (shard, found)


def _fenced(state: State, found: Segment, by: ByLeader) -> Refusal | None:
    """Is it the leader that speaks, in this life and this reign of it? Refuses NotTheSegmentLeader, StaleLeaderEpoch,
    StaleMemberEpoch.
    """
    if not found.leader or by.leader != found.leader:
        return _broken(found, by, 0, Broken("not the leader"))
    if by.leader_epoch != found.leader_epoch:
        return _broken(found, by, 0, Broken("leader epoch"))
    if by.member_epoch != _registered(state, found):
        return _broken(found, by, 0, Broken("member epoch"))
    return None


def _registered(state: State, found: Segment) -> int:
    """Under which epoch the leader may speak: that in which it was elected, as long as it is its own."""
    member = state.members.get(found.leader)
    return found.member_epoch if member is not None and member.epoch == found.member_epoch else _NOBODY


def _ready(state: State, member: str, epoch: int) -> bool:
    """May this life of it be added?"""
    return fit(state, member, epoch) and not state.members[member].draining


def _broken(found: Segment, by: ByLeader, set_epoch: int, broken: Broken[str]) -> Refusal:
    match broken.fence:
        case "not the leader":
            leader = repr(found.leader) if found.leader else "nobody"
            return refuse("NotTheSegmentLeader", f"The leader of {found.name} is {leader}, not {by.leader!r}")
        case "leader epoch":
            remark = f"The leader epoch of {found.name} is {found.leader_epoch}, not {by.leader_epoch}"
            return refuse("StaleLeaderEpoch", remark)
        case "member epoch":
            remark = (
                f"{by.leader!r} leads {found.name} in its epoch {found.member_epoch} alone; this is {by.member_epoch}"
            )
            return refuse("StaleMemberEpoch", remark)
        case "set epoch":
            remark = f"The epoch of the in-sync set of {found.name} is {found.set_epoch}, not {set_epoch}"
            return refuse("StaleInSyncEpoch", remark)
        case "empty":
            return refuse("EmptyInSyncSet", f"Somebody is in sync with {found.name}: its leader")
        case "stranger":
            return refuse("NotACopy", f"{broken.member!r} has no copy of {found.name}")
        case "unfit":
            remark = f"{broken.member!r} is fenced, draining, gone, or another life than the one that was named"
            return refuse("CopyNotReady", remark)
        case "without the leader":
            return refuse("LeaderNotInSync", f"The leader of {found.name}, {found.leader!r}, is not in the new set")
        case "exhausted":
            return refuse("EpochsExhausted", f"The in-sync set of {found.name} has no epoch left")
        case "unchanged":
            raise InvariantBrokenError("a segment's set that is so already is not refused")
        case _:
            assert_never(broken.fence)


def _sealed(found: Segment, end_offset: int, reason: str) -> tuple[SegmentSealed, ...] | Refusal:
    """Its end; nothing if it is sealed there already. Refuses BadOffset, SegmentIsSealed."""
    if not found.start_offset <= end_offset <= LONG_MAX:
        return refuse("BadOffset", f"{found.name} begins at {found.start_offset:,} and cannot end at {end_offset:,}")
    if found.end_offset is not None:
        return () if found.end_offset == end_offset else _is_sealed(found)
    event = SegmentSealed(
        segment=found.name,
        end_offset=end_offset,
        leader=found.leader,
        leader_epoch=found.leader_epoch,
        reason=reason,
    )
    return (event,)


def _is_sealed(found: Segment) -> Refusal:
    return refuse("SegmentIsSealed", f"{found.name} is sealed at {found.end_offset:,}")


def is_now(found: Segment) -> SegmentIs:
    """The answer about a segment as it is."""
    return SegmentIs(
        segment=found.name,
        start_offset=found.start_offset,
        end_offset=found.end_offset,
        copies=found.copies,
        leader=found.leader,
        member_epoch=found.member_epoch,
        leader_epoch=found.leader_epoch,
        in_sync=found.in_sync,
        set_epoch=found.set_epoch,
    )


def _is_new(event: SegmentCreated) -> SegmentIs:
    """The answer about a segment that this decision begins: its leader's epoch is the offset of its last event."""
    in_sync = [InSyncCopy(member=copy.member, member_epoch=copy.member_epoch) for copy in event.copies]
    return SegmentIs(
        segment=event.segment,
        start_offset=event.start_offset,
        copies=tuple(copy.member for copy in event.copies),
        leader=event.copies[0].member,
        member_epoch=event.copies[0].member_epoch,
        in_sync=tuple(sorted(in_sync, key=attrgetter("member"))),
    )
