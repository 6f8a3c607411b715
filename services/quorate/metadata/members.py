"""Members: services that register, are heard, fenced when they are not, drained, and gone.

Rules: a registration is one life of a member; its epoch is the offset of its MemberRegistered, and so grows whoever
leads. Whatever a member says names its epoch, and an older one changes nothing. A member is fenced from the start: the
heartbeat that says that it knows the log up to its registration unfences it, in one decision. Another incarnation is
taken once the one before is fenced, or was not heard for its timeout, which is then written before it. Who is heard is
known to the leader alone (controller/member_keeper.py).
"""

import re
from collections.abc import Mapping
from typing import Final

from quorate.events import (
    Event,
    MemberAmended,
    MemberDraining,
    MemberFenced,
    MemberGone,
    MemberRegistered,
    MemberUnfenced,
)
from quorate.metadata.commands import (
    AskMember,
    DrainMember,
    Evidence,
    FenceMember,
    HearMember,
    MemberDescribed,
    MemberIs,
    Refusal,
    RegisterMember,
    UnregisterMember,
)
from quorate.metadata.context import Context, Decision
from quorate.metadata.policy import PolicySettings
from quorate.metadata.refusals import refuse
from quorate.metadata.texts import LONG_MAX, fits, parse_address
from quorate.model.members import LAST_COPY, broker_of, may_leave, named, stays_for
from quorate.model.segments import holds_last_copy
from quorate.model.state import Member, State

ROLES_MAX: Final = 16
ADDRESSES_MAX: Final = 16
LABELS_MAX: Final = 64
TIMEOUT_MS_MIN: Final = 500
TIMEOUT_MS_MAX: Final = 600_000
BAD_ROLES: Final = refuse("BadMemberRole", f"At most {ROLES_MAX} roles, each of letters, digits, . _ @ -")
BAD_ADDRESSES: Final = refuse("BadMemberAddress", f"At most {ADDRESSES_MAX} addresses, each a word and host:port")
BAD_LABELS: Final = refuse("BadMemberLabel", f"At most {LABELS_MAX} labels, each a word and printable text")

_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
"""Names, roles, and the names of addresses; no colon, which a broker's name has."""
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


def checked(state: State, name: str, epoch: int) -> Member | Refusal:
    """The member, if this is its epoch. Refuses UnknownMember, StaleMemberEpoch."""
    member = state.members.get(name)
    if member is None:
        remark = "only read here: it is RocketMQ's broker, or none" if ":" in name else "it registers first"
        return refuse("UnknownMember", f"There is no member {name!r}; {remark}")
    if member.epoch != epoch:
        remark = f"The epoch of member {name!r} is {member.epoch}, not {epoch}: another incarnation of it registered"
        return refuse("StaleMemberEpoch", remark)
    return member


def register_member(state: State, command: RegisterMember, context: Context) -> Decision | Refusal:
    """The same incarnation again keeps its epoch. Refuses MemberExists, and what it says of itself: BadMemberName,
    BadMemberIncarnation, BadMemberRole, BadMemberAddress, BadMemberLabel, BadMemberTimeout.
    """
    refusal = _bad(command, context.policy)
    if refusal is not None:
        return refusal
    roles, before = tuple(sorted(set(command.roles))), state.members.get(command.name)
    addresses, labels = dict(sorted(command.addresses.items())), dict(sorted(command.labels.items()))
    if before is not None and before.incarnation == command.incarnation:
        said = (roles, addresses, labels, command.timeout_ms)
        if said == (before.roles, before.addresses, before.labels, before.timeout_ms):
            return Decision((), _is(state, before, context))
        amended = MemberAmended(
            member=before.name,
            epoch=before.epoch,
            roles=roles,
            addresses=addresses,
            labels=labels,
            timeout_ms=command.timeout_ms,
        )
        return Decision((amended,), _is(state, before, context))
    fenced: tuple[Event, ...] = ()
    reason = "new" if before is None else "fenced"
    if before is not None and not before.fenced:
        if context.members.alive(before.name, before.epoch) is not False:
            remark = f"Member {before.name!r} is alive, in incarnation {before.incarnation!r}"
            return refuse("MemberExists", remark)
        heard_ms = context.members.last_heard_ms(before.name, before.epoch)
        reason, fenced = "not heard", (_fenced(before, "replaced", "heartbeat expired", heard_ms),)
    registered = MemberRegistered(
        member=command.name,
        incarnation=command.incarnation,
        roles=roles,
        addresses=addresses,
        labels=labels,
        timeout_ms=command.timeout_ms,
        reason=reason,
        replaced_epoch=0 if before is None else before.epoch,
        replaced_incarnation="" if before is None else before.incarnation,
    )
    return Decision((*fenced, registered), MemberIs(name=command.name, fenced=True))


def hear_member(state: State, command: HearMember, context: Context) -> Decision | Refusal:
    """A fenced one that has caught up is unfenced; one that wants to leave is to leave. Refuses UnknownMember,
    StaleMemberEpoch, BadMemberHealth.
    """
    member = checked(state, command.name, command.epoch)
    if isinstance(member, Refusal):
        return member
    health = command.health
    numbers = (health.disk_used_bytes, health.disk_total_bytes, health.io_errors)
    shares = (health.cpu_percent, health.memory_percent)
    if not all(0 <= number <= LONG_MAX for number in numbers) or not all(0 <= share <= 100 for share in shares):
        return refuse("BadMemberHealth", "Bytes and errors are not negative, and shares are from 0 to 100 percent")
    caught_up = member.fenced and command.applied_revision >= member.epoch
    drains = command.want_drain and not member.draining
    events: list[Event] = []
    if caught_up:
        events.append(_unfenced(member, command.applied_revision))
    if drains:
        events.append(MemberDraining(member=member.name, epoch=member.epoch, reason="asked by itself"))
    reply = MemberIs(
        name=member.name,
        epoch=member.epoch,
        fenced=member.fenced and not caught_up,
        draining=member.draining or drains,
        may_leave=(member.draining or drains) and not stays_for(state, member, context.members.last_copy),
    )
    return Decision(tuple(events), reply)


def ask_member(state: State, command: AskMember, context: Context) -> Decision | Refusal:
    """A broker too, by its set and id. Refuses UnknownMember."""
    member = named(state, command.name)
    if member is None:
        return refuse("UnknownMember", f"There is no member {command.name!r}")
    if not member.epoch:
        live = context.live.info(*broker_of(member))
        heard_ms = 0 if live is None else live.last_heartbeat_ms
        return Decision((), MemberDescribed(member=member, last_heard_ms=heard_ms))
    described = MemberDescribed(
        member=member,
        last_heard_ms=context.members.last_heard_ms(member.name, member.epoch),
        health=context.members.health(member.name, member.epoch),
        may_leave=may_leave(state, member, context.members.last_copy),
    )
    return Decision((), described)


def fence_member(state: State, command: FenceMember, context: Context) -> Decision | Refusal:
    """One that is fenced stays so, and nothing is written. Refuses UnknownMember, StaleMemberEpoch."""
    member = checked(state, command.name, command.epoch)
    if isinstance(member, Refusal):
        return member
    if member.fenced:
        return Decision((), _is(state, member, context))
    event = _fenced(member, "silent", command.evidence, command.last_heartbeat_ms)
    return Decision((event,), MemberIs(name=member.name, epoch=member.epoch, fenced=True, draining=member.draining))


def drain_member(state: State, command: DrainMember, context: Context) -> Decision | Refusal:
    """Refuses UnknownMember, StaleMemberEpoch."""
    member = _meant(state, command.name, command.epoch)
    if isinstance(member, Refusal):
        return member
    if member.draining:
        return Decision((), _is(state, member, context))
    who = "an operator" if command.epoch is None else "itself"
    event = MemberDraining(member=member.name, epoch=member.epoch, reason=f"asked by {who}")
    reply = MemberIs(
        name=member.name,
        epoch=member.epoch,
        fenced=member.fenced,
        draining=True,
        may_leave=not stays_for(state, member, context.members.last_copy),
    )
    return Decision((event,), reply)


def unregister_member(state: State, command: UnregisterMember, context: Context) -> Decision | Refusal:
    """One that is fenced leads nothing that counts, and its clients are lost; but it may come back with what only it
    has. All it holds is looked at once, now. Refuses UnknownMember, StaleMemberEpoch, MemberStillLeads.
    """
    member = _meant(state, command.name, command.epoch)
    if isinstance(member, Refusal):
        return member
    stays = "" if command.force else _kept_for(state, member)
    if stays:
        return refuse("MemberStillLeads", f"Member {member.name!r} {stays}")
    reason = "forgotten"
    if command.epoch is not None:
        last_copy = holds_last_copy if command.force else _has_none
        reason = "drained" if may_leave(state, member, last_copy) else "unregistered"
    event = MemberGone(member=member.name, epoch=member.epoch, incarnation=member.incarnation, reason=reason)
    return Decision((event,), MemberIs(name=member.name, epoch=member.epoch))


def _kept_for(state: State, member: Member) -> str:
    """Why it is not forgotten without force; empty: it is."""
    if member.fenced:
        return f"is fenced, and {LAST_COPY}: only force forgets it" if holds_last_copy(state, member) else ""
    stays = stays_for(state, member)
    return f"is drained first: {stays}" if stays else ""


def _has_none(state: State, member: Member) -> bool:
    """Of a last copy, as ``_kept_for`` found."""
    return False


def _meant(state: State, name: str, epoch: int | None) -> Member | Refusal:
    """Whom an operator names (no epoch), or a member itself."""
    member = state.members.get(name)
    return member if member is not None and epoch is None else checked(state, name, epoch or 0)


def _is(state: State, member: Member, context: Context) -> MemberIs:
    return MemberIs(
        name=member.name,
        epoch=member.epoch,
        fenced=member.fenced,
        draining=member.draining,
        may_leave=may_leave(state, member, context.members.last_copy),
    )


def _unfenced(member: Member, applied_revision: int) -> MemberUnfenced:
    return MemberUnfenced(member=member.name, epoch=member.epoch, applied_revision=applied_revision, reason="caught up")


def _fenced(member: Member, reason: str, evidence: Evidence, last_heartbeat_ms: int) -> MemberFenced:
    return MemberFenced(
        member=member.name,
        epoch=member.epoch,
        reason=reason,
        evidence=evidence,
        last_heartbeat_ms=last_heartbeat_ms,
        timeout_ms=member.timeout_ms,
    )


def _bad(command: RegisterMember, policy: PolicySettings) -> Refusal | None:
    """What a member may not say of itself."""
    name_max, text_max = policy.name_length_max, policy.text_length_max
    if not _is_word(command.name, name_max):
        return refuse("BadMemberName", f"A name is of letters, digits, . _ @ - and at most {name_max} long")
    if not fits(command.incarnation, name_max) or not command.incarnation.isprintable():
        return refuse("BadMemberIncarnation", f"An incarnation is printable text, at most {name_max} long")
    if len(command.roles) > ROLES_MAX or not all(_is_word(role, name_max) for role in command.roles):
        return BAD_ROLES
    if len(command.addresses) > ADDRESSES_MAX or not _are_addresses(command.addresses, policy):
        return BAD_ADDRESSES
    if len(command.labels) > LABELS_MAX or not all(
        len(name) <= name_max and _LABEL.fullmatch(name) and fits(value, text_max, empty=True) and value.isprintable()
        for name, value in command.labels.items()
    ):
        return BAD_LABELS
    if not TIMEOUT_MS_MIN <= command.timeout_ms <= TIMEOUT_MS_MAX:
        return refuse("BadMemberTimeout", f"A timeout is from {TIMEOUT_MS_MIN} to {TIMEOUT_MS_MAX} ms")
    return None


def _is_word(text: str, length_max: int) -> bool:
    return len(text) <= length_max and _WORD.fullmatch(text) is not None


def _are_addresses(addresses: Mapping[str, str], policy: PolicySettings) -> bool:
    return all(
        _is_word(name, policy.name_length_max)
        and len(address) <= policy.text_length_max
        and parse_address(address) is not None
        for name, address in addresses.items()
    )
