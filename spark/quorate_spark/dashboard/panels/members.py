"""Members: services that registered, and RocketMQ's brokers beside them; and one of them with every event about it.

Rules: what a member is stands in the log. When it was heard, and how it says it is, is known to the leader, and only
now: it is laid over the facts (``View.soft``). A broker is shown as a member and told of as its broker set is.
"""

from collections import Counter
from itertools import islice
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from quorate.model.members import CONDITIONS, broker_of, condition, everyone, may_leave, named
from quorate.model.state import Member
from quorate.model.words import sentence
from quorate_spark.dashboard.model import State
from quorate_spark.dashboard.panels.events import EventRow
from quorate_spark.dashboard.panels.events import row as event_row
from quorate_spark.dashboard.panels.view import View
from quorate_spark.dashboard.soft_state import HeardSoft

LIMIT_MAX: Final = 100
"""As many as a node tells of at once."""


class MemberQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which members; empty is no bound."""

    q: str = ""
    """Words, all of which a member holds in its name, roles, addresses or labels."""
    state: str = ""
    role: str = ""
    start: str = ""
    """From this name on."""
    limit: int = 50


class MemberRow(msgspec.Struct, frozen=True, kw_only=True):
    """One member."""

    name: str
    broker: bool
    """A broker of RocketMQ, which the log tells of by its broker set; it has no epoch and no incarnation."""
    state: str
    """``active``, ``fenced`` or ``draining``."""
    incarnation: str
    epoch: int
    """The event that registered it; 0: a broker."""
    roles: tuple[str, ...]
    addresses: dict[str, str]
    labels: dict[str, str]
    timeout_ms: int
    draining: bool
    may_leave: bool
    """It is draining, and leads nothing any more."""
    since: int
    """When it came to be in this state, or registered."""
    why: str
    """The last word of the log about it; of a broker the evidence by which it is fenced."""
    why_offset: int | None
    live: HeardSoft | UnsetType


class Members(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/members."""

    members: list[MemberRow]
    total: int
    """Of those that were asked for."""
    states: dict[str, int]
    """Of all."""
    roles: dict[str, int]
    next: str | None
    """``from`` of the next page."""


class MemberDetail(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/member."""

    name: str
    member: MemberRow | None
    """Null: it is not there."""
    changes: list[EventRow]
    """Events about it, newest first; none of a broker: they are its set's."""
    next: int | None
    """``before`` of the next page."""


def chosen(state: State, asked: MemberQuery) -> tuple[list[Member], list[Member]]:
    """All, and in order those that are asked for."""
    all_of_them = list(everyone(state.model))
    words = asked.q.lower().split()
    found = [
        member
        for member in all_of_them
        if (not asked.state or condition(member) == asked.state)
        and (not asked.role or asked.role in member.roles)
        and (not words or _holds(member, words))
    ]
    found.sort(key=lambda member: member.name)
    return all_of_them, found


def _holds(member: Member, words: list[str]) -> bool:
    labels = (f"{name}={value}" for name, value in member.labels.items())
    text = "\n".join((member.name, *member.roles, *member.addresses.values(), *labels)).lower()
    return all(word in text for word in words)


def heard_of(state: State, asked: MemberQuery) -> list[str]:
    """Names of the members on a page of which the leader may be asked; brokers are asked for anyway."""
    page = (member for member in chosen(state, asked)[1] if member.name >= asked.start)
    return [member.name for member in islice(page, asked.limit) if member.epoch]


def members(view: View, asked: MemberQuery) -> Members:
    """A page of them."""
    all_of_them, found = chosen(view.state, asked)
    page = list(islice((member for member in found if member.name >= asked.start), asked.limit + 1))
    states = Counter(map(condition, all_of_them))
    roles = Counter(role for member in all_of_them for role in member.roles)
    return Members(
        members=[_row(view, member) for member in page[: asked.limit]],
        total=len(found),
        states={word: states[word] for word in CONDITIONS},
        roles=dict(sorted(roles.items())),
        next=page[asked.limit].name if len(page) > asked.limit else None,
    )


def _row(view: View, member: Member) -> MemberRow:
    broker = not member.epoch
    since, why, offset = _of_broker(view, member) if broker else _last_word(view, member)
    return MemberRow(
        name=member.name,
        broker=broker,
        state=condition(member),
        incarnation=member.incarnation,
        epoch=member.epoch,
        roles=member.roles,
        addresses=member.addresses,
        labels=member.labels,
        timeout_ms=member.timeout_ms,
        draining=member.draining,
        may_leave=may_leave(view.state.model, member),
        since=since,
        why=why,
        why_offset=offset,
        live=_heard(view, member),
    )


def _last_word(view: View, member: Member) -> tuple[int, str, int | None]:
    offset = next(view.log.spool.of_key(f"member/{member.name}", view.offset), None)
    why = "" if offset is None else sentence(view.log.spool.fact(offset).event)
    return member.changed_ms, why, offset


def _of_broker(view: View, member: Member) -> tuple[int, str, int | None]:
    _, name, broker_id = broker_of(member)
    broker_set = view.state.sets.get(name)
    found = None if broker_set is None else broker_set.member(broker_id)
    return (0, "", None) if found is None else (found.since, found.why, None)


def _heard(view: View, member: Member) -> HeardSoft | UnsetType:
    if view.soft is None:
        return UNSET
    if member.epoch:
        return view.soft.heard.get(member.name, UNSET)
    _, name, broker_id = broker_of(member)
    told = view.soft.members.get(name, {}).get(broker_id)
    if told is None or told.heartbeat_age_ms is None:
        return UNSET
    return HeardSoft(heard_ms=view.soft.polled - told.heartbeat_age_ms)


def member(view: View, name: str, before: int | None, limit: int) -> MemberDetail:
    """One of them, and the events about it before an offset."""
    end = view.offset if before is None else min(before, view.offset)
    spool = view.log.spool
    found = named(view.state.model, name)
    offsets = list(islice(spool.of_key(f"member/{name}", end), limit + 1))
    return MemberDetail(
        name=name,
        member=None if found is None else _row(view, found),
        changes=[event_row(spool.fact(offset), spool) for offset in offsets[:limit]],
        next=offsets[limit - 1] if len(offsets) > limit else None,
    )
