"""``GET /v1/sessions``: persistent sessions of MQTT, by client.

Rules: a page costs what is on it; one member's sessions are looked for among those that come next. A payload of a will
is not told here, only how long it is.
"""

from typing import Final

import msgspec

from quorate.controller import ReadView
from quorate.gateway.http.answers import SessionAnswer, SessionItem, Sessions, SubscriptionItem, WillItem
from quorate.gateway.http.asking import Asking
from quorate.gateway.http.reading import present
from quorate.gateway.http.routing import Call
from quorate.model.names import following
from quorate.model.sessions import NEVER_S, ends_ms, owner, since_ms
from quorate.model.state import Session, State
from quorate.slices import Steps

PER_STEP: Final = 64


def session_item(state: State, session: Session) -> SessionItem:
    """A session."""
    since, will = since_ms(state, session), session.will
    return SessionItem(
        client=session.client,
        member=session.member,
        member_epoch=session.member_epoch,
        member_lives=owner(state, session) is not None,
        session_epoch=session.session_epoch,
        opened_ms=session.opened_ms,
        connected=not since,
        disconnected_ms=since or None,
        expiry_s=None if session.expiry_s == NEVER_S else session.expiry_s,
        ends_ms=ends_ms(state, session),
        will=None
        if will is None
        else WillItem(
            topic=will.topic, payload_bytes=len(will.payload), qos=will.qos, retain=will.retain, delay_s=will.delay_s
        ),
        subscriptions=[msgspec.convert(one, SubscriptionItem, from_attributes=True) for one in session.subscriptions],
    )


class SessionHandlers:
    """The handlers."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def sessions(self, call: Call) -> None:
        """GET /v1/sessions."""
        limit, query = self._asking.limit(call), call.request.query
        after, prefix, member = (query.get(name, "") for name in ("after", "prefix", "member"))

        def make(view: ReadView) -> Steps[Sessions]:
            state, items, more = view.state, list[SessionItem](), None
            for count, client in enumerate(following(state.clients, after, prefix), start=1):
                session = state.sessions[client]
                if member in ("", session.member):
                    if len(items) == limit:
                        more = items[-1].client
                        break
                    items.append(session_item(state, session))
                if count % PER_STEP == 0:
                    yield
            return Sessions(**self._asking.stamp(view), sessions=items, next=more)

        self._asking.answered(call, "ReadSessions", make)

    def session(self, call: Call) -> None:
        """GET /v1/sessions/{client}."""

        def make(view: ReadView) -> Steps[SessionAnswer]:
            yield
            found = present(view.state.sessions.get(call.found["client"]), "there is no such session")
            return SessionAnswer(**self._asking.stamp(view), session=session_item(view.state, found))

        self._asking.answered(call, "ReadSessions", make)
