"""The view ``sessions``: every persistent session of MQTT with its subscriptions, by client."""

import msgspec

from quorate.events import Stamp
from quorate.model.state import Session
from quorate_projections.views.view import row_of, showing


class SubscriptionRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a client wants."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int = 0


class SessionRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A session, and when it changed."""

    client: str = ""
    member: str = ""
    """Who has the client, or had it last."""
    member_epoch: int = 0
    session_epoch: int = 0
    """The offset of its last opening."""
    opened_ms: int = 0
    expiry_s: int = 0
    """4294967295: for ever."""
    disconnected_ms: int = 0
    """Since when its client is gone by its member's word; 0: none came. A member that is lost says nothing."""
    will_topic: str | None = None
    """Of a will that is not decided."""
    subscriptions: tuple[SubscriptionRow, ...] = ()
    """By filter."""
    changed_ms: int = 0


def show(session: Session, before: SessionRow, stamp: Stamp) -> SessionRow:
    """The session, and when something happened to it."""
    return SessionRow(
        client=session.client,
        member=session.member,
        member_epoch=session.member_epoch,
        session_epoch=session.session_epoch,
        opened_ms=session.opened_ms,
        expiry_s=session.expiry_s,
        disconnected_ms=session.disconnected_ms,
        will_topic=None if session.will is None else session.will.topic,
        subscriptions=tuple(row_of(SubscriptionRow, one) for one in session.subscriptions),
        changed_ms=stamp.time_ms,
    )


VIEW = showing("sessions", "Persistent sessions of MQTT, by client.", SessionRow(), {"session": ("", show)})
