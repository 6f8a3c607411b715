"""``GET /v1/sessions``: persistent sessions of MQTT, by client. ``GET /v1/wills``: wills that nobody acknowledged.

Rules: a page costs what is on it; one member's sessions are looked for among those that come next. A payload of a will
is not told here, only how long it is.
"""

from typing import Final

import msgspec

from quorate.controller import ReadView
from quorate.gateway.http.answers import (
    HandedWillItem,
    SessionAnswer,
    SessionItem,
    Sessions,
    SubscriptionItem,
    WillItem,
    Wills,
)
from quorate.gateway.http.asking import Asking
from quorate.gateway.http.reading import PAGE_BYTES, filled, present, sliced_page
from quorate.gateway.http.routing import Call
from quorate.model.names import following
from quorate.model.sessions import NEVER_S, ends_ms, living, owner, since_ms
from quorate.model.state import HandedWill, Session, State
from quorate.slices import Steps

PER_STEP: Final = 64
"""Sessions and subscriptions that one step looks at, but for those of its last session."""


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


def will_item(state: State, handed: HandedWill) -> HandedWillItem:
    """A will that was decided."""
    will = handed.will
    return HandedWillItem(
        will=handed.session_epoch,
        client=handed.client,
        topic=will.topic,
        payload_bytes=len(will.payload),
        qos=will.qos,
        retain=will.retain,
        member=handed.member,
        member_epoch=handed.member_epoch,
        member_lives=living(state, handed.member, handed.member_epoch) is not None,
        handed_ms=handed.handed_ms,
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
            size = looked_at = 0
            for client in following(state.clients, after, prefix):
                session = state.sessions[client]
                looked_at += 1
                if member in ("", session.member):
                    if len(items) == limit or size > PAGE_BYTES:
                        more = items[-1].client
                        break
                    items.append(item := session_item(state, session))
                    size += len(msgspec.json.encode(item))
                    looked_at += len(session.subscriptions)
                if looked_at >= PER_STEP:
                    looked_at = 0
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

    def wills(self, call: Call) -> None:
        """GET /v1/wills."""
        limit, after = self._asking.limit(call), call.integer("after", -1)
        member = call.request.query.get("member")

        def make(view: ReadView) -> Steps[Wills]:
            found = view.state.wills
            meant = (number for number, handed in found.items() if member in (None, handed.member))
            numbers, more = yield from sliced_page(meant, after, limit)
            made = (will_item(view.state, found[number]) for number in numbers)
            wills, more = yield from filled(numbers, more, made)
            return Wills(**self._asking.stamp(view), wills=wills, next=None if more is None else str(more))

        self._asking.answered(call, "ReadSessions", make)
