"""Who leads a segment: its dialect of the one rule-set, ``replica_set.elect``.

Rules: those stand that hold everything acknowledged, in the life in which they hold it, that are not fenced and are not
to leave. Of these the first in the order of the copies wins. Who leads and may go on stays. A leader that is to leave
stays as well if nobody can follow; one that is not there any more stays written, and nothing is, until somebody can.
Unclean is never, unless a setting says so, and then only where the leader is not there.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from quorate.events import CopyCandidate, Event, InSyncCopy, SegmentLeaderElected
from quorate.metadata import replica_set
from quorate.metadata.commands import Accepted, ElectSegmentLeader, ElectSegmentLeaders, Refusal
from quorate.metadata.context import Context, Decision
from quorate.metadata.journal import found_in_use, is_now
from quorate.metadata.limits import UNCLEAN_SEGMENT_LEADERS, in_force
from quorate.metadata.placement import Wanted, unsuited
from quorate.metadata.refusals import refuse
from quorate.metadata.replica_set import Member, Outcome, elect
from quorate.model.segments import fit
from quorate.model.state import Segment, Shard, State

GONE: Final = "gone"
FENCED: Final = "fenced"
DRAINING: Final = "draining"
ANOTHER_LIFE: Final = "another life"
LATER_COPY: Final = "later copy"

_OUT_BY: Final[Mapping[str, str]] = {
    replica_set.NOT_IN_SYNC: "not in sync",
    replica_set.NOT_ASKED_FOR: "not asked for",
    replica_set.HIGHER_BROKER_ID: LATER_COPY,
}
_DECIDED_BY: Final[Mapping[str, str]] = {replica_set.DECIDED_BY[replica_set.HIGHER_BROKER_ID]: "earlier copy"}
"""The rule-set's words of broker ids, said of the order of the copies."""


class _Stand(msgspec.Struct, frozen=True, gc=False):
    """How it stands with one copy: ``unfit`` says why it cannot lead, whatever it holds."""

    member: str
    epoch: int
    unfit: str
    in_sync: bool
    outlived: bool
    """It was in sync in an earlier life, which is not this one."""


def elect_segment_leader(state: State, command: ElectSegmentLeader, context: Context) -> Decision | Refusal:
    """One that leads and may go on stays, and nothing is written. Refuses BadSegmentName, UnknownShard, UnknownSegment,
    ShardIsDeleting, NoLeaderEligible. For balance nobody is named who would be given no new copy either.
    """
    there = found_in_use(state, command.segment)
    if isinstance(there, Refusal):
        return there
    shard, found = there
    if command.trigger == "balance":
        refusal = _unsuited(state, shard, found, command.wanted, context)
        if refusal is not None:
            return refusal
    event = _election(state, found, command, context)
    if isinstance(event, Refusal):
        return event
    if event is None:
        return Decision((), is_now(found))
    reply = msgspec.structs.replace(
        is_now(found),
        leader=event.leader,
        member_epoch=event.member_epoch,
        leader_epoch=0,
        in_sync=event.in_sync,
        set_epoch=event.set_epoch,
    )
    return Decision((event,), reply)


def _unsuited(state: State, shard: Shard, found: Segment, wanted: str, context: Context) -> Refusal | None:
    member = state.members.get(wanted)
    reason = GONE
    if member is not None:
        reason = unsuited(member, Wanted(shard.replication, shard.spread, shard.require), context)
    return refuse("NoLeaderEligible", f"{found.name}: {wanted} is {reason}") if reason else None


def elect_segment_leaders(state: State, command: ElectSegmentLeaders, context: Context) -> Decision | Refusal:
    """Of each of these whose leader is not there, or is to leave, another one, if somebody can. Refuses nothing."""
    events: list[Event] = []
    for name in dict.fromkeys(command.segments):
        there = found_in_use(state, name)
        if isinstance(there, Refusal):
            continue
        event = _election(state, there[1], None, context)
        if isinstance(event, SegmentLeaderElected):
            events.append(event)
    return Decision(tuple(events), Accepted())


def _election(
    state: State, found: Segment, asked: ElectSegmentLeader | None, context: Context
) -> SegmentLeaderElected | Refusal | None:
    """None: who leads stays. Nobody asked: its leader is not there."""
    wanted = "" if asked is None else asked.wanted
    stands = [_stand(state, found, member) for member in found.copies]
    leads = fit(state, found.leader, found.member_epoch)
    if leads and found.leader == wanted:
        return None
    outcome = elect(
        [Member(broker_id=at, alive=not stand.unfit, in_sync=stand.in_sync) for at, stand in enumerate(stands)],
        incumbent=found.copies.index(found.leader) if leads else None,
        wanted=_place(found, wanted) if wanted else None,
        unclean=bool(in_force(state, UNCLEAN_SEGMENT_LEADERS)) and not leads,
    )
    if outcome.winner is None:
        return refuse("NoLeaderEligible", f"{found.name}: {_why_nobody(stands)}")
    winner = stands[outcome.winner]
    if leads and winner.member == found.leader:
        return None
    return _elected(found, asked, stands, winner, outcome)


def _lost(found: Segment, stands: list[_Stand]) -> str:
    """Why its leader leads no more."""
    old = next((stand for stand in stands if stand.member == found.leader), None)
    return GONE if old is None else old.unfit or ANOTHER_LIFE


def _place(found: Segment, member: str) -> int:
    """Of a copy among the others; of no copy: nobody's."""
    return found.copies.index(member) if member in found.copies else -1


def _stand(state: State, found: Segment, name: str) -> _Stand:
    member = state.members.get(name)
    held = next((one.member_epoch for one in found.in_sync if one.member == name), None)
    if member is None:
        return _Stand(name, 0, GONE, in_sync=False, outlived=held is not None)
    unfit = FENCED if member.fenced else DRAINING if member.draining else ""
    return _Stand(name, member.epoch, unfit, held == member.epoch, held not in (None, member.epoch))


def _elected(
    found: Segment, asked: ElectSegmentLeader | None, stands: list[_Stand], winner: _Stand, outcome: Outcome
) -> SegmentLeaderElected:
    """Those stay in sync whose life goes on, silent or not: the new leader takes them out when it must. An unclean
    winner begins alone.
    """
    kept = [stand for stand in stands if (stand is winner if outcome.unclean else stand.in_sync)]
    return SegmentLeaderElected(
        segment=found.name,
        trigger=_lost(found, stands) if asked is None else asked.trigger,
        old_leader=found.leader,
        leader=winner.member,
        member_epoch=winner.epoch,
        in_sync=tuple(InSyncCopy(member=stand.member, member_epoch=stand.epoch) for stand in sorted(kept, key=_member)),
        set_epoch=found.set_epoch + 1,
        candidates=_candidates(stands, outcome),
        decided_by=_DECIDED_BY.get(outcome.decided_by, outcome.decided_by),
        explanation=_why(found, asked, stands, winner, outcome),
        unclean=outcome.unclean,
    )


def _member(stand: _Stand) -> str:
    return stand.member


def _candidates(stands: list[_Stand], outcome: Outcome) -> tuple[CopyCandidate, ...]:
    return tuple(
        CopyCandidate(
            member=stand.member,
            member_epoch=stand.epoch,
            in_sync=stand.in_sync,
            verdict=candidate.verdict,
            out_by=_out_by(stand, candidate.out_by),
        )
        for stand, candidate in zip(stands, outcome.candidates, strict=True)
    )


def _out_by(stand: _Stand, rule: str) -> str:
    if rule == replica_set.NOT_ALIVE:
        return stand.unfit
    if rule == replica_set.NOT_IN_SYNC and stand.outlived:
        return ANOTHER_LIFE
    return _OUT_BY.get(rule, rule)


# -- the sentence


def _why(
    found: Segment, asked: ElectSegmentLeader | None, stands: list[_Stand], winner: _Stand, outcome: Outcome
) -> str:
    parts = [_occasion(found, asked, stands), _reason(stands, outcome)]
    if outcome.unclean:
        parts.append("it was not in sync and may lack acknowledged records")
    return f"Member {winner.member} leads segment {found.name}: {'; '.join(parts)}."


def _occasion(found: Segment, asked: ElectSegmentLeader | None, stands: list[_Stand]) -> str:
    if asked is not None and asked.wanted:
        named = "an operator asked for it" if asked.trigger == "operator" else "it was named for balance"
        return f"{named} ({asked.reason})" if asked.reason else named
    old = next((stand for stand in stands if stand.member == found.leader), None)
    if old is None:
        return "nobody led it"
    what = {GONE: "is gone", FENCED: "is fenced", DRAINING: "is to leave"}.get(old.unfit, "registered anew")
    return f"{found.leader}, which led it, {what}"


def _reason(stands: list[_Stand], outcome: Outcome) -> str:
    if outcome.decided_by == replica_set.DESIGNATED:
        return "it is in sync and was named"
    if outcome.decided_by == replica_set.ONLY_CANDIDATE:
        return f"of {len(stands)} copies only it could lead" if len(stands) > 1 else "it is the only copy"
    could = sum(
        candidate.verdict == replica_set.ELECTED or candidate.out_by in replica_set.DECIDED_BY
        for candidate in outcome.candidates
    )
    return f"of {could} that could lead it is the first in the order of the copies"


def _why_nobody(stands: list[_Stand]) -> str:
    """Of each copy, why it cannot lead."""
    return ", ".join(f"{stand.member} is {_cannot(stand)}" for stand in stands)


def _cannot(stand: _Stand) -> str:
    words = {GONE: "gone", FENCED: "fenced", DRAINING: "to leave"}
    if stand.unfit:
        return words[stand.unfit]
    if stand.in_sync:
        return "able to lead, but not the one that was named"
    return "another life than the one that was in sync" if stand.outlived else "not in sync"
