"""Wills of MQTT's clients: who is to publish one that was decided, until somebody has (MQTT 5.0, section 3.1.2.5).

Rules: a will is decided once, in the decision that also hands it over. It goes to the member that has the session, or
had it last, if it lives; else to a living member with the role ``mqtt``, drawn by the client's name from all of them in
order (those that are to leave only where there are no others). It is a fact until it is acknowledged; while it is, the
loss of its member hands it on. So it is published at least once, and twice only if a member is lost between publishing
and saying so.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Final
from zlib import crc32

import msgspec

from quorate.events import Event, WillAcknowledged, WillDecided, WillHandedOver
from quorate.metadata.commands import Accepted, AcknowledgeWill, HandOverWills, Refusal
from quorate.metadata.context import Context, Decision
from quorate.metadata.members import checked
from quorate.metadata.refusals import refuse
from quorate.model.sessions import ROLE, living, owner
from quorate.model.state import HandedWill, Member, Session, State, Will

HANDED_BYTES_MAX: Final = 256 * 1024
"""Of wills that one decision hands on, after which the rest waits for the next."""


class Recipient(msgspec.Struct, frozen=True):
    """Who is to publish a will."""

    member: str
    member_epoch: int
    reason: str
    candidates: int


class Recipients:
    """Who could, looked for once for all wills of a decision, and only if somebody has to be found."""

    def __init__(self, state: State) -> None:
        self._state = state

    def opener(self, member: Member) -> Recipient:
        """Who opens the session anew."""
        return Recipient(member.name, member.epoch, f"{member.name} has the client now", len(self._living))

    def of(self, session: Session) -> Recipient:
        """Of a session that is not opened anew."""
        member = owner(self._state, session)
        if member is None:
            return self._drawn(session.client, session.member)
        return Recipient(member.name, member.epoch, f"{member.name} had the client", len(self._living))

    def instead(self, handed: HandedWill) -> Recipient:
        """Of a will whose member is lost, or that nobody could publish."""
        session = self._state.sessions.get(handed.client)
        member = None if session is None else owner(self._state, session)
        if member is None:
            return self._drawn(handed.client, handed.member)
        return Recipient(member.name, member.epoch, f"{member.name} has the client's session", len(self._living))

    def _drawn(self, client: str, lost: str) -> Recipient:
        names, why = self._living, f"{lost} is lost" if lost else "nobody could before"
        if not names:
            return Recipient("", 0, f"{why}, and no member with the role {ROLE} lives", 0)
        name = names[crc32(client.encode()) % len(names)]
        reason = f"{why}; {name} is drawn by the client's name from {len(names)} living members with the role {ROLE}"
        return Recipient(name, self._state.members[name].epoch, reason, len(names))

    @cached_property
    def _living(self) -> Sequence[str]:
        there = [one for one in self._state.members.values() if ROLE in one.roles and not one.fenced]
        staying = [one for one in there if not one.draining]
        return sorted(one.name for one in staying or there)


def will_bytes(will: Will) -> int:
    """What takes most of the events about it."""
    return len(will.topic.encode()) + len(will.payload)


def will_events(session: Session, will: Will, reason: str, due_ms: int, recipient: Recipient) -> tuple[Event, ...]:
    """A will is decided, and handed over."""
    decided = WillDecided(client=session.client, session_epoch=session.session_epoch, reason=reason, due_ms=due_ms)
    handed = HandedWill(session_epoch=session.session_epoch, client=session.client, will=will)
    return decided, _handed(handed, recipient)


def _handed(handed: HandedWill, recipient: Recipient) -> WillHandedOver:
    return WillHandedOver(
        session_epoch=handed.session_epoch,
        client=handed.client,
        topic=handed.will.topic,
        payload=handed.will.payload,
        qos=handed.will.qos,
        retain=handed.will.retain,
        member=recipient.member,
        member_epoch=recipient.member_epoch,
        taken_from=handed.member,
        reason=recipient.reason,
        candidates=recipient.candidates,
    )


def acknowledge_will(state: State, command: AcknowledgeWill, context: Context) -> Decision | Refusal:
    """Refuses UnknownMember, StaleMemberEpoch, UnknownWill, WillIsOthers."""
    member = checked(state, command.member, command.member_epoch)
    if isinstance(member, Refusal):
        return member
    handed = state.wills.get(command.will)
    if handed is None:
        return refuse("UnknownWill", f"There is no will {command.will} to publish: it was acknowledged, or never was")
    if (handed.member, handed.member_epoch) != (member.name, member.epoch):
        return refuse("WillIsOthers", f"The will {command.will} is for {handed.member or 'nobody'!r} to publish now")
    event = WillAcknowledged(
        session_epoch=handed.session_epoch, client=handed.client, member=member.name, member_epoch=member.epoch
    )
    return Decision((event,), Accepted())


def hand_over_wills(state: State, command: HandOverWills, context: Context) -> Decision | Refusal:
    """Of these wills those whose members are lost, as far as somebody can publish them."""
    events, size, recipients = list[Event](), 0, Recipients(state)
    for number in command.wills:
        handed = state.wills.get(number)
        if handed is None or living(state, handed.member, handed.member_epoch) is not None:
            continue
        recipient = recipients.instead(handed)
        if recipient.member or handed.member:
            events.append(_handed(handed, recipient))
            size += will_bytes(handed.will)
        if size > HANDED_BYTES_MAX:
            break
    return Decision(tuple(events), Accepted())
