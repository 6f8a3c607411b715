"""Shows who would lead segments if these members failed. Asks the election itself; changes nothing.

Rules: pure; works in steps. A member that fails is fenced, as it would be; what it leads, and nothing else, is looked
at.
"""

import msgspec

from quorate.events import SegmentLeaderElected
from quorate.metadata.commands import ElectSegmentLeader, Refusal
from quorate.metadata.context import Context
from quorate.metadata.policy import PolicySettings
from quorate.metadata.segment_elections import elect_segment_leader
from quorate.model.live import Silence
from quorate.model.state import State
from quorate.slices import Steps, sorting

PER_STEP = 16


class SegmentAfter(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one segment."""

    segment: str
    leader: str
    """Before."""
    would_lead: str
    """Empty: nobody could."""
    unclean: bool
    explanation: str


def segments_whatif(
    state: State, failed: frozenset[str], policy: PolicySettings, now_ms: int
) -> Steps[list[SegmentAfter]]:
    """By name of the segment; of shards that are to go none. ``failed`` are members."""
    members = state.members
    for count, name in enumerate(failed, start=1):
        members = members.set(name, msgspec.structs.replace(members[name], fenced=True))
        if count % PER_STEP == 0:
            yield
    after = msgspec.structs.replace(state, members=members)
    context = Context(now_ms=now_ms, term=1, policy=policy, live=Silence())
    rows: list[SegmentAfter] = []
    led = yield from sorting((segment, name) for name in failed for segment in state.leading.get(name, ()))
    for count, (segment, name) in enumerate(led, start=1):
        outcome = elect_segment_leader(after, ElectSegmentLeader(segment=segment, trigger="operator"), context)
        if isinstance(outcome, Refusal):
            if outcome.code == "NoLeaderEligible":
                row = SegmentAfter(
                    segment=segment, leader=name, would_lead="", unclean=False, explanation=outcome.remark
                )
                rows.append(row)
        else:
            rows += [
                SegmentAfter(
                    segment=segment,
                    leader=name,
                    would_lead=event.leader,
                    unclean=event.unclean,
                    explanation=event.explanation,
                )
                for event in outcome.events
                if isinstance(event, SegmentLeaderElected)
            ]
        if count % PER_STEP == 0:
            yield
    return rows
