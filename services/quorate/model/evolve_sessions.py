"""What events of MQTT make of the state: the part of ``evolve`` about sessions, lost members and wills.

Rules: as ``evolve``. Beside each entity the state keeps what follows from all of them: subscriptions by filter, clients
by member epoch; neither has rows.
"""

from typing import assert_never

import msgspec
from immutables import Map

from quorate.errors import InvariantBrokenError
from quorate.events import (
    MqttSubscription,
    SessionDisconnected,
    SessionEnded,
    SessionOpened,
    SessionOwnerLost,
    SessionOwnerSettled,
    Stamp,
    SubscriptionsChanged,
    WillAcknowledged,
    WillDecided,
    WillHandedOver,
)
from quorate.model.names import with_name, without_name
from quorate.model.sessions import handed_will, will_of
from quorate.model.state import HandedWill, Session, SessionOwner, State, Subscription, Subscriptions
from quorate.model.topic_filters import subscribed, unsubscribed

OfSession = SessionOpened | SubscriptionsChanged | SessionDisconnected | WillDecided | SessionEnded
OfOwner = SessionOwnerLost | SessionOwnerSettled
OfWill = WillHandedOver | WillAcknowledged
Clients = Map[int, Map[str, None]]

_replace = msgspec.structs.replace


def after_session(state: State, event: OfSession, stamp: Stamp) -> State:
    """What became of a session."""
    before = state.sessions.get(event.client)
    after = _session(before, event, stamp)
    subscriptions = state.subscriptions
    if isinstance(event, SubscriptionsChanged) and before is not None:
        for topic_filter in event.removed:
            subscriptions = unsubscribed(subscriptions, event.client, topic_filter)
        for one in event.added:
            subscriptions = subscribed(subscriptions, event.client, _subscription(one))
    elif after is None and before is not None:
        for gone in before.subscriptions:
            subscriptions = unsubscribed(subscriptions, event.client, gone.filter)
    sessions = state.sessions.delete(event.client) if after is None else state.sessions.set(event.client, after)
    held = with_client(without_client(state.held, before), after)
    clients = without_name(state.clients, event.client) if after is None else with_name(state.clients, event.client)
    return _replace(state, sessions=sessions, clients=clients, subscriptions=subscriptions, held=held)


def _session(before: Session | None, event: OfSession, stamp: Stamp) -> Session | None:
    if isinstance(event, SessionOpened):
        return Session(
            client=event.client,
            member=event.member,
            member_epoch=event.member_epoch,
            session_epoch=stamp.offset,
            opened_ms=stamp.time_ms,
            expiry_s=event.expiry_s,
            will=will_of(event),
            subscriptions=() if before is None else before.subscriptions,
        )
    if before is None or before.session_epoch != event.session_epoch:
        raise InvariantBrokenError(f"an event about a session of {event.client!r} that is not there")
    match event:
        case SubscriptionsChanged():
            return _replace(before, subscriptions=_changed(before, event))
        case SessionDisconnected():
            return _replace(
                before,
                disconnected_ms=event.disconnected_ms,
                expiry_s=event.expiry_s,
                will=before.will if event.will_waits else None,
            )
        case WillDecided():
            return _replace(before, will=None)
        case SessionEnded():
            return None
        case _:
            assert_never(event)


def _changed(before: Session, event: SubscriptionsChanged) -> tuple[Subscription, ...]:
    left = {one.filter: one for one in before.subscriptions}
    for topic_filter in event.removed:
        del left[topic_filter]
    left.update((one.filter, _subscription(one)) for one in event.added)
    return tuple(left[name] for name in sorted(left))


def _subscription(told: MqttSubscription) -> Subscription:
    return Subscription(
        filter=told.filter,
        qos=told.qos,
        no_local=told.no_local,
        retain_as_published=told.retain_as_published,
        retain_handling=told.retain_handling,
        identifier=told.identifier,
    )


def with_client(held: Clients, session: Session | None) -> Clients:
    """The clients by member epoch, and this one, unless it is said to be gone."""
    if session is None or session.disconnected_ms:
        return held
    clients = held.get(session.member_epoch, Map[str, None]())
    return held.set(session.member_epoch, clients.set(session.client, None))


def without_client(held: Clients, session: Session | None) -> Clients:
    """The clients by member epoch, and one less."""
    if session is None or session.disconnected_ms:
        return held
    left = held[session.member_epoch].delete(session.client)
    return held.set(session.member_epoch, left) if left else held.delete(session.member_epoch)


def with_subscriptions(index: Subscriptions, session: Session) -> Subscriptions:
    """Those of all sessions, and of one more."""
    for one in session.subscriptions:
        index = subscribed(index, session.client, one)
    return index


def after_owner(owners: Map[int, SessionOwner], event: OfOwner, stamp: Stamp) -> Map[int, SessionOwner]:
    """The members that were lost while they had clients."""
    if isinstance(event, SessionOwnerSettled):
        if event.member_epoch not in owners:
            raise InvariantBrokenError(f"the loss of {event.member!r} is settled, and was not told")
        return owners.delete(event.member_epoch)
    lost = SessionOwner(
        member=event.member, member_epoch=event.member_epoch, lost_ms=stamp.time_ms, reason=event.reason
    )
    return owners.set(event.member_epoch, lost)


def after_will(wills: Map[int, HandedWill], event: OfWill, stamp: Stamp) -> Map[int, HandedWill]:
    """The wills that are not known to be published."""
    if isinstance(event, WillAcknowledged):
        if event.session_epoch not in wills:
            raise InvariantBrokenError(f"the will {event.session_epoch} is acknowledged, and was not handed over")
        return wills.delete(event.session_epoch)
    return wills.set(event.session_epoch, handed_will(event, stamp.time_ms))
