"""Where the copies of a new segment go: the members that have least to do, spread over places.

Rules: pure; the same members and the same word of them give the same choice, in whatever order they come. Nobody is
chosen that is fenced, silent, to leave, whose disk is full, or that lacks a label. How full a disk is is soft: the
event says what was known of whoever was chosen. A new leader knows of no disk until the member beats: it is not chosen
until then, and where that leaves too few, whoever asks is to come again.

Theory: one after the other. Each time those are best whose place has the fewest copies of this segment so far, among
them those that have the fewest copies of all, then those that lead the fewest. Of the chosen the one that leads the
fewest leads.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from quorate.events import PlacedCopy
from quorate.metadata.commands import Refusal
from quorate.metadata.context import Context
from quorate.metadata.refusals import refuse
from quorate.model.state import Member, State
from quorate.model.words import plural

ROLE: Final = "journal"
"""What members do that store segments."""
UNHEARD: Final = "not heard yet"


class Wanted(msgspec.Struct, frozen=True, gc=False):
    """How many copies, the label over whose values they are spread, and the labels that a member needs."""

    copies: int
    spread: str
    require: Mapping[str, str]


class _Site(msgspec.Struct, frozen=True, gc=False):
    member: Member
    place: str
    holds: int
    leads: int


def place(state: State, segment: str, wanted: Wanted, context: Context) -> tuple[tuple[PlacedCopy, ...], str] | Refusal:
    """The copies, the leader first, and why these. Refuses NotEnoughMembers, MembersNotHeard."""
    sites, out = _sites(state, wanted, context)
    excluded = ", ".join(f"{count} {reason}" for reason, count in sorted(out.items()))
    if len(sites) < wanted.copies:
        among = f"; there are {excluded}" if excluded else ""
        remark = f"{plural(wanted.copies, 'copy', 'copies')} wanted, {plural(len(sites), 'member')} to take one{among}"
        enough_soon = len(sites) + out[UNHEARD] >= wanted.copies
        return refuse("MembersNotHeard" if enough_soon else "NotEnoughMembers", remark)
    chosen = _chosen(sites, wanted.copies)
    leader = min(chosen, key=lambda site: (site.leads, site.holds, site.member.name))
    chosen.sort(key=lambda site: site is not leader)  # The others in the order in which they were chosen.
    copies = tuple(
        PlacedCopy(
            member=site.member.name,
            member_epoch=site.member.epoch,
            place=site.place,
            holds=site.holds,
            leads=site.leads,
        )
        for site in chosen
    )
    return copies, _why(segment, copies, wanted, len(sites), excluded)


def _sites(state: State, wanted: Wanted, context: Context) -> tuple[list[_Site], Counter[str]]:
    """Who can take a copy, and of the others how many cannot for which reason."""
    sites: list[_Site] = []
    out: Counter[str] = Counter()
    for member in state.members.values():
        if ROLE not in member.roles:
            continue
        reason = unsuited(member, wanted, context) or _unheard(member, context)
        if reason:
            out[reason] += 1
            continue
        name = member.name
        holds, leads = len(state.holding.get(name, ())), len(state.leading.get(name, ()))
        sites.append(_Site(member, member.labels.get(wanted.spread, ""), holds, leads))
    return sites, out


def unsuited(member: Member, wanted: Wanted, context: Context) -> str:
    """Why it is given no copy; empty: it can be given one."""
    if member.fenced:
        return "fenced"
    if member.draining:
        return "draining"
    if any(
        name not in member.labels or value not in ("", member.labels[name]) for name, value in wanted.require.items()
    ):
        return "without a label"
    if context.members.alive(member.name, member.epoch) is False:
        return "silent"
    health = context.members.health(member.name, member.epoch)
    if health is not None and is_full(health.disk_used_bytes, health.disk_total_bytes, context):
        return "with a full disk"
    return ""


def _unheard(member: Member, context: Context) -> str:
    """Given time by this leader, which has no word of it yet?"""
    heard = context.members
    unheard = heard.alive(member.name, member.epoch) and heard.health(member.name, member.epoch) is None
    return UNHEARD if unheard else ""


def is_full(used_bytes: int, total_bytes: int, context: Context) -> bool:
    """Is a disk too full for new copies? One that is not told of is not."""
    return total_bytes > 0 and used_bytes * 100 >= total_bytes * context.policy.journal_disk_full_percent


def _chosen(sites: list[_Site], copies: int) -> list[_Site]:
    left = sorted(sites, key=lambda site: (site.holds, site.leads, site.member.name))
    taken: Counter[str] = Counter()
    chosen: list[_Site] = []
    for _ in range(copies):
        site = min(left, key=lambda one: taken[one.place])  # The first of them: the order is kept.
        left.remove(site)
        taken[site.place] += 1
        chosen.append(site)
    return chosen


def _why(segment: str, copies: tuple[PlacedCopy, ...], wanted: Wanted, could: int, excluded: str) -> str:
    others = ", ".join(copy.member for copy in copies[1:])
    parts = [f"of {plural(could, 'member')} that could take a copy these have the fewest"]
    if wanted.spread:
        places = len({copy.place for copy in copies})
        each = "each in another" if places == len(copies) else f"in {places} values of the label"
        parts.append(f"{each} {wanted.spread}")
    if excluded:
        parts.append(f"left out were {excluded}")
    also = f", with copies at {others}" if others else ", with no other copy"
    return f"Member {copies[0].member} leads segment {segment}{also}: {'; '.join(parts)}."
