"""The one rule-set of a replicated thing: who may lead it, and who may count as in sync.

Rules: pure, and blind to where the members came from, so that broker sets now, and segments and partitions later, are
judged by the same code. The outcome does not depend on the order of the members. Every member gets a verdict.

Theory (RocketMQ ``DefaultElectPolicy``): the alive members of the in-sync set stand first; only where nobody of them
can be chosen, and the operator allows it, do all alive members stand ("unclean"). An incumbent that is still among
them stays, unless somebody else was asked for; who was asked for wins or nobody does; else the greatest
(epoch, max offset) wins, then the lowest priority value, then the lowest id.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from quorate.events import Candidate

NOT_ALIVE: Final = "not alive"
NOT_IN_SYNC: Final = "not in sync state set"
LEARNER: Final = "learner"
NOT_ASKED_FOR: Final = "not asked for"
LOWER_EPOCH: Final = "lower epoch"
LOWER_MAX_OFFSET: Final = "lower max offset"
LOWER_PRIORITY: Final = "lower priority"
HIGHER_BROKER_ID: Final = "higher broker id"

DECIDED_BY: Final = {
    LOWER_EPOCH: "higher epoch",
    LOWER_MAX_OFFSET: "higher max offset",
    LOWER_PRIORITY: "higher priority",
    HIGHER_BROKER_ID: "lower broker id",
}
"""Where the last rival fell, said of the winner; in the order the rules are asked."""

_INT32: Final = 1 << 32


class Member(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One member as an election sees it; offsets in bytes, -1 where nothing is known."""

    broker_id: int
    alive: bool
    in_sync: bool
    learner: bool = False
    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    priority: int = 2**31 - 1
    """The lower value is preferred."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """Who won, by which rule, and what became of each member; ``winner`` None: nobody could be chosen."""

    winner: int | None
    decided_by: str
    unclean: bool
    candidates: tuple[Candidate, ...]


def elect(
    members: Sequence[Member], *, incumbent: int | None, wanted: int | None, unclean: bool, wide_offsets: bool = True
) -> Outcome:
    """Choose a leader. ``wanted``: only this member will do. ``unclean``: members out of sync may stand if need be.

    ``wide_offsets`` False compares offsets as Java before issue 10578 was fixed.
    """
    ordered = sorted(members, key=_broker_id)
    eligible = [m for m in ordered if m.alive and not (m.learner and m.broker_id != incumbent)]
    pool = [m for m in eligible if m.in_sync]
    winner, rule = _choose(pool, incumbent, wanted, wide_offsets)
    widened = winner is None and unclean
    if widened:
        pool = eligible
        winner, rule = _choose(pool, incumbent, wanted, wide_offsets)
    by_order = winner is not None and not rule
    standing = {m.broker_id for m in pool}
    fallen = [_out_by(m, winner, m.broker_id in standing, by_order, widened) for m in ordered]
    candidates = tuple(map(_candidate, ordered, fallen))
    if winner is None:
        return Outcome(None, "", False, candidates)
    if by_order:
        rule = next((said for fell, said in reversed(DECIDED_BY.items()) if fell in fallen), "only candidate")
    return Outcome(winner.broker_id, rule, not winner.in_sync, candidates)


def appoint(members: Sequence[Member], broker_id: int, rule: str) -> Outcome:
    """Make this one leader without asking the rules (the first election of a set: there is no data to lose yet)."""
    ordered = sorted(members, key=_broker_id)
    fallen = ["" if m.broker_id == broker_id else NOT_ASKED_FOR for m in ordered]
    return Outcome(broker_id, rule, False, tuple(map(_candidate, ordered, fallen)))


def inputs(candidates: Sequence[Candidate]) -> str:
    """What an election that failed depended on, as text: it fails again until this changes.

    Offsets are left out on purpose: they move all the time, and cannot make anybody eligible.
    """
    return " ".join(f"{c.broker_id}{'a' * c.alive}{'s' * c.in_sync}{'l' * c.learner}" for c in candidates)


def _choose(
    pool: Sequence[Member], incumbent: int | None, wanted: int | None, wide_offsets: bool
) -> tuple[Member | None, str]:
    """The winner and the rule that made it win at once; the rule is empty if the order decided (Java ``tryElect``)."""
    ids = {m.broker_id: m for m in pool}
    if incumbent in ids and wanted in (None, incumbent):
        return ids[incumbent], "old master is alive"
    if wanted is not None:
        return ids.get(wanted), "designated"
    best: Member | None = None
    for member in pool:
        if best is None or _beats(member, best, wide_offsets):
            best = member
    return best, ""


def _beats(one: Member, other: Member, wide_offsets: bool) -> bool:
    """Is ``one`` strictly better? Members come by rising id, so that of two equal ones the lower id stays."""
    if one.epoch != other.epoch:
        return one.epoch > other.epoch
    if one.max_offset == other.max_offset:
        return one.priority < other.priority
    ahead = one.max_offset - other.max_offset
    return ahead > 0 if wide_offsets else _narrow(-ahead) < 0


def _narrow(value: int) -> int:
    """Java's ``(int) value``."""
    value %= _INT32
    return value - _INT32 if value >= _INT32 >> 1 else value


def _out_by(member: Member, winner: Member | None, standing: bool, by_order: bool, widened: bool) -> str:
    """The rule a member fell by; empty for the winner."""
    if member is winner:
        return ""
    if not member.alive:
        return NOT_ALIVE
    if not standing:
        return LEARNER if member.in_sync or widened else NOT_IN_SYNC
    if winner is None or not by_order:
        return NOT_ASKED_FOR
    if member.epoch != winner.epoch:
        return LOWER_EPOCH
    if member.max_offset != winner.max_offset:
        return LOWER_MAX_OFFSET
    return LOWER_PRIORITY if member.priority != winner.priority else HIGHER_BROKER_ID


def _candidate(member: Member, out_by: str) -> Candidate:
    return Candidate(
        broker_id=member.broker_id,
        alive=member.alive,
        in_sync=member.in_sync,
        epoch=member.epoch,
        max_offset=member.max_offset,
        confirm_offset=member.confirm_offset,
        priority=member.priority,
        learner=member.learner,
        verdict="out" if out_by else "elected",
        out_by=out_by,
    )


def _broker_id(member: Member) -> int:
    return member.broker_id
