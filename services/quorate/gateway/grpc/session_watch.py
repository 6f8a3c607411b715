"""``quorate.meta.v1.Mqtt.Watch``: what happens to sessions and wills, once, in order, from any revision of the log.

Rules: as ``log_watches`` has them. One that names a member hears what that member has to do: clients taken from it,
also while it counted as lost (it may still hold the connection), sessions of its clients that ended, and wills for it
to publish.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from quorate.events import (
    Event,
    SessionDisconnected,
    SessionEnded,
    SessionOpened,
    SessionOwnerLost,
    SessionOwnerSettled,
    SubscriptionsChanged,
    WillAcknowledged,
    WillHandedOver,
)
from quorate.gateway.grpc.asking import Call
from quorate.gateway.grpc.log_watches import LogWatches
from quorate.gateway.grpc.mqtt import handed_told, subscription_told
from quorate.gateway.grpc.pb import mqtt_pb2 as pb
from quorate.gateway.grpc.watch_log import WatchKinds
from quorate.model.sessions import handed_will
from quorate.model.state import State
from quorate.model.words import sentence

Happened = tuple[int, State, Sequence[Event]]
"""A revision, the state before it, and its events about sessions and wills."""


def _mqtt(state: State) -> State:
    return State(
        sessions=state.sessions,
        subscriptions=state.subscriptions,
        held=state.held,
        session_owners=state.session_owners,
        wills=state.wills,
    )


def _happened(revision: int, before: State, after: State, events: Sequence[Event], size: int) -> Happened:
    return revision, before, events


SESSIONS: Final = WatchKinds(("session", "session-owner", "will"), _mqtt, _happened)


class SessionWatches(LogWatches):
    """All watches of sessions of a node, and their handler."""

    async def sessions(self, request: pb.WatchSessionsRequest, call: Call) -> AsyncIterator[pb.WatchSessionsResponse]:
        """The first answer says from where on; then one for each revision that concerns the member."""
        self._asking.allowed("WatchSessions", "session")
        following = self.follow(SESSIONS, request.start_revision)
        try:
            yield pb.WatchSessionsResponse(revision=following.begins)
            async for revision, before, events in following.changes():
                changes = [told(event, request.member, revision, before) for event in events]
                answer = [change for change in changes if change is not None]
                if answer and revision >= request.start_revision:
                    yield pb.WatchSessionsResponse(revision=revision, changes=answer)
        finally:
            self.leave(following)


def told(event: Event, member: str, revision: int, before: State) -> pb.SessionChange | None:
    """What is told of an event to whoever watches all of it, or (named) what a member has to do; None: nothing."""
    change = _change(event, revision)
    if change is None or (member and not _concerns(event, member, before)):
        return None
    change.what = sentence(event)
    return change


def _concerns(event: Event, member: str, before: State) -> bool:
    match event:
        case SessionOpened():
            return member == event.taken_over_from or (member != event.member and _had(before, event.client, member))
        case SessionEnded() | WillHandedOver() | SessionOwnerLost() | SessionOwnerSettled():
            return event.member == member
        case _:
            return False


def _had(before: State, client: str, member: str) -> bool:
    """Had it this client, and did it not say that the client is gone?"""
    session = before.sessions.get(client)
    return session is not None and session.member == member and not session.disconnected_ms


def _change(event: Event, revision: int) -> pb.SessionChange | None:
    match event:
        case SessionOpened():
            opened = pb.SessionOpened(
                client=event.client,
                session_epoch=revision,  # It is the last event of its decision.
                member=event.member,
                member_epoch=event.member_epoch,
                taken_over_from=event.taken_over_from,
                replaced_epoch=event.replaced_epoch,
            )
            return pb.SessionChange(opened=opened)
        case SessionDisconnected() | SessionEnded():
            closed = pb.SessionClosed(
                client=event.client,
                session_epoch=event.session_epoch,
                member=event.member,
                ended=isinstance(event, SessionEnded),
                reason=event.reason,
            )
            return pb.SessionChange(closed=closed)
        case SubscriptionsChanged():
            put = pb.SubscriptionsPut(
                client=event.client,
                session_epoch=event.session_epoch,
                added=map(subscription_told, event.added),
                removed=event.removed,
            )
            return pb.SessionChange(subscriptions=put)
        case SessionOwnerLost() | SessionOwnerSettled():
            lost = pb.SessionOwnerLost(
                member=event.member,
                member_epoch=event.member_epoch,
                settled=isinstance(event, SessionOwnerSettled),
            )
            return pb.SessionChange(lost=lost)
        case WillHandedOver():
            return pb.SessionChange(will=handed_told(handed_will(event, 0)))  # When is not told.
        case WillAcknowledged():
            return pb.SessionChange(will_acknowledged=event.session_epoch)
        case _:  # WillDecided: what follows it says more.
            return None
