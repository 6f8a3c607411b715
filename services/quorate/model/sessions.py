"""What is asked about sessions of MQTT: is a client connected, when does its session end, who is told of a message.

Rules: pure, and answered from the state alone. A client is gone since its member said so, or since its member was lost,
whichever is in the log; all times run from there. No event names each session of a lost member.
"""

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Final

import msgspec

from quorate.events import SessionOpened, WillHandedOver
from quorate.model.state import HandedWill, Member, Session, State, Subscription, Will
from quorate.model.topic_filters import matching
from quorate.slices import SORTED_PER_STEP, Steps

ROLE: Final = "mqtt"
"""Of members that serve clients: wills of lost members are handed to those."""
NEVER_S: Final = 0xFFFF_FFFF
"""The expiry of a session that never expires (MQTT 5.0, section 3.1.2.11.2)."""


class Subscriber(msgspec.Struct, frozen=True, gc=False):
    """One subscription that a message matches."""

    session: Session
    subscription: Subscription
    connected: bool


def since_ms(state: State, session: Session) -> int:
    """Since when its client is gone; 0: it is connected."""
    if session.disconnected_ms:
        return session.disconnected_ms
    lost = state.session_owners.get(session.member_epoch)
    return 0 if lost is None else lost.lost_ms


def ends_ms(state: State, session: Session) -> int | None:
    """When it expires; None: its client is connected, or it never does."""
    since = since_ms(state, session)
    return since + session.expiry_s * 1000 if since and session.expiry_s != NEVER_S else None


def will_due_ms(state: State, session: Session) -> int | None:
    """When its will is due: after its delay, and at the end of the session at the latest. None: never, as it stands."""
    since = since_ms(state, session)
    return since + min(session.will.delay_s, session.expiry_s) * 1000 if since and session.will is not None else None


def due_ms(state: State, session: Session) -> int | None:
    """When something is to be decided about it; None: nothing, as it stands."""
    times = [due for due in (ends_ms(state, session), will_due_ms(state, session)) if due is not None]
    return min(times, default=None)


def owner(state: State, session: Session) -> Member | None:
    """The member that has its client, or had it last, if it lives."""
    return living(state, session.member, session.member_epoch)


def living(state: State, name: str, epoch: int) -> Member | None:
    """The member of this name, if it is not fenced and registered with this epoch."""
    member = state.members.get(name)
    return member if member is not None and member.epoch == epoch and not member.fenced else None


def holds_clients(state: State, member: Member) -> bool:
    """Has it clients that would have to go elsewhere?"""
    return member.epoch in state.held


def waiting_wills(state: State, member: str) -> Steps[Iterator[HandedWill]]:
    """What this member is to publish (empty: what nobody can), the oldest first. Each step looks at some of all, and
    brings them into order; they are merged as they are read.
    """
    waiting, runs = iter(state.wills.values()), list[list[HandedWill]]()
    while some := list(islice(waiting, SORTED_PER_STEP)):
        runs.append(sorted((handed for handed in some if handed.member == member), key=_epoch_of))
        yield
    return merge(*runs, key=_epoch_of)


def _epoch_of(handed: HandedWill) -> int:
    return handed.session_epoch


def subscribers(state: State, topic: str) -> Iterator[Subscriber | None]:
    """Every subscription that matches the topic, with its session; it is found as it is read. None: a step is over."""
    for found in matching(state.subscriptions, topic):
        if found is None:
            yield None
            continue
        client, subscription = found
        session = state.sessions[client]
        yield Subscriber(session, subscription, connected=not since_ms(state, session))


def will_of(event: SessionOpened) -> Will | None:
    """The will a client came with."""
    if event.will_topic is None:
        return None
    return Will(
        topic=event.will_topic,
        payload=event.will_payload,
        qos=event.will_qos,
        retain=event.will_retain,
        delay_s=event.will_delay_s,
    )


def handed_will(event: WillHandedOver, handed_ms: int) -> HandedWill:
    """The will that an event of this time hands over. Its delay has passed."""
    return HandedWill(
        session_epoch=event.session_epoch,
        client=event.client,
        will=Will(topic=event.topic, payload=event.payload, qos=event.qos, retain=event.retain),
        member=event.member,
        member_epoch=event.member_epoch,
        handed_ms=handed_ms,
    )
