"""How storage is, rolled up from all segments: green, yellow or red, and what is at risk.

Rules: pure, of the state alone, so that it can be asked of any offset; works in steps. Red: a segment has no leader
that is there, or fewer copies in sync than its shard wants. Yellow: it has fewer copies in sync than it is to have.
What is to go is at no risk.
"""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from quorate.model.segments import fit, is_led
from quorate.model.state import Segment, Shard, State
from quorate.slices import Steps

Level = Literal["green", "yellow", "red"]
NO_LEADER: Final = "no leader"
BELOW_MIN: Final = "too few in sync"
UNDER_REPLICATED: Final = "fewer copies in sync than wanted"
AT_RISK_MAX: Final = 100
"""Segments that are named; the others are counted."""
PER_STEP: Final = 64


class AtRisk(msgspec.Struct, frozen=True, gc=False):
    """A segment, how bad it is, and why."""

    segment: str
    level: Level
    reasons: tuple[str, ...]


class StorageHealth(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    level: Level = "green"
    segments: int = 0
    leaderless: int = 0
    below_min_in_sync: int = 0
    under_replicated: int = 0
    deleting: int = 0
    """Copies that wait for their deletion."""
    at_risk: tuple[AtRisk, ...] = ()
    """The worst first, then by name."""


def storage_health(state: State) -> Steps[StorageHealth]:
    """The roll-up."""
    segments = deleting = 0
    reasons: dict[str, int] = {}
    found: list[AtRisk] = []
    for shard, segment in _all(state):
        segments += 1
        if shard.deleting:
            deleting += len(segment.copies)
        elif (risk := at_risk(state, shard, segment)) is not None:
            found.append(risk)
            for reason in risk.reasons:
                reasons[reason] = reasons.get(reason, 0) + 1
        if segments % PER_STEP == 0:
            yield
    found.sort(key=_worst)
    return StorageHealth(
        level=found[0].level if found else "green",
        segments=segments,
        leaderless=reasons.get(NO_LEADER, 0),
        below_min_in_sync=reasons.get(BELOW_MIN, 0),
        under_replicated=reasons.get(UNDER_REPLICATED, 0),
        deleting=deleting,
        at_risk=tuple(found[:AT_RISK_MAX]),
    )


def at_risk(state: State, shard: Shard, segment: Segment) -> AtRisk | None:
    """Is this one, and why?"""
    in_sync = sum(fit(state, copy.member, copy.member_epoch) for copy in segment.in_sync)
    reasons = []
    if not is_led(state, segment):
        reasons.append(NO_LEADER)
    if in_sync < shard.min_in_sync:
        reasons.append(BELOW_MIN)
    level: Level = "red" if reasons else "yellow"
    if in_sync < shard.replication:
        reasons.append(UNDER_REPLICATED)
    return AtRisk(segment.name, level, tuple(reasons)) if reasons else None


def _all(state: State) -> Iterator[tuple[Shard, Segment]]:
    for name, numbered in state.segments.items():
        shard = state.shards[name]
        for segment in numbered.values():
            yield shard, segment


def _worst(risk: AtRisk) -> tuple[bool, str]:
    return risk.level != "red", risk.segment
