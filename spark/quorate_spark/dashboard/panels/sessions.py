"""Persistent sessions of MQTT: which clients there are, who has each, and what they subscribed to; and one of them.

Rules: everything stands in the log. A page costs what is on it; a search, and a state or a member that is asked for,
look at so many sessions, and say where they go on.
"""

from collections.abc import Iterator
from heapq import nsmallest
from itertools import islice
from typing import Final, Literal

import msgspec

from quorate.errors import UsageError
from quorate.model.names import following
from quorate.model.sessions import NEVER_S, ends_ms, living, owner, since_ms
from quorate.model.state import HandedWill, Session, State, Subscription
from quorate_spark.dashboard.panels.events import EventRow
from quorate_spark.dashboard.panels.events import row as event_row
from quorate_spark.dashboard.panels.values import Value, value
from quorate_spark.dashboard.panels.view import View

Where = Literal["connected", "away"]
WHERE: Final[tuple[Where, ...]] = ("connected", "away")
LIMIT_MAX: Final = 500
LOOKED_MAX: Final = 20_000
"""Sessions that one question looks at."""
WORDS_MAX: Final = 16
FILTERS: Final = 3
"""Of a session that are told in a list."""
WILL_BYTES: Final = 2_048
WAITING_MAX: Final = 20


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions; empty is no bound."""

    q: str = ""
    """Words, all of which a session holds in its client, its member or a filter."""
    state: str = ""
    member: str = ""
    start: str = ""
    """From this client on."""
    limit: int = 50


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session."""

    client: str
    state: Where
    member: str
    """Who has the client, or had it last."""
    there: bool
    """That member lives, in the life that had the client."""
    epoch: int
    """The event that opened it last."""
    opened: int
    since: int | None
    """When the client went; null: it is connected."""
    expiry_s: int | None
    """How long it outlives its connection; null: for ever."""
    ends: int | None
    """When it expires; null: it is connected, or never does."""
    subscriptions: int
    filters: list[str]
    """The first of them."""
    will: str | None
    """The topic of its will; null: there is none, or it was decided."""


class WaitingWill(msgspec.Struct, frozen=True, kw_only=True):
    """A will that is decided, and not known to be published."""

    will: int
    """The event that opened its session."""
    client: str
    topic: str
    member: str
    """Who is to publish it; empty: nobody can yet."""
    there: bool
    """That member lives, in the life that was given it."""
    since: int


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/sessions."""

    sessions: list[SessionRow]
    total: int
    """Of all."""
    states: dict[str, int]
    """Of all."""
    subscriptions: int
    """Of all."""
    wills: int
    """That are decided, and not known to be published."""
    waiting: list[WaitingWill]
    """The oldest of these."""
    next: str | None
    """``from`` of the next page."""
    looked: int | None
    """Sessions a search looked at for this page; null: nothing was searched."""


class SubscriptionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription."""

    filter: str
    qos: int
    options: list[str]
    """In MQTT's words."""


class WillRow(msgspec.Struct, frozen=True, kw_only=True):
    """A will."""

    topic: str
    qos: int
    retain: bool
    delay_s: int
    payload: Value


class SessionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """GET /api/session."""

    client: str
    session: SessionRow | None
    """Null: it is not there."""
    subscriptions: list[SubscriptionRow]
    will: WillRow | None
    changes: list[EventRow]
    """Events about it, newest first."""
    next: int | None
    """``before`` of the next page."""


def sessions(view: View, asked: SessionQuery) -> Sessions:
    """A page of them. Raises UsageError."""
    state, words = view.state.model, asked.q.lower().split()
    if len(words) > WORDS_MAX:
        raise UsageError(f"q: at most {WORDS_MAX} words")
    searched, looked, behind = bool(words or asked.state or asked.member), 0, None
    rows: list[SessionRow] = []
    for client in _from(state, asked.start):
        if len(rows) == asked.limit or (searched and looked == LOOKED_MAX):
            behind = client
            break
        looked += 1
        session = state.sessions[client]
        if asked.member in ("", session.member) and all(word in _text(session) for word in words):
            row = _row(state, session)
            if asked.state in ("", row.state):
                rows.append(row)
    connected = _connected(state)
    return Sessions(
        sessions=rows,
        total=len(state.sessions),
        states={"connected": connected, "away": len(state.sessions) - connected},
        subscriptions=len(state.subscriptions),
        wills=len(state.wills),
        waiting=[_waiting(state, state.wills[number]) for number in nsmallest(WAITING_MAX, state.wills)],
        next=behind,
        looked=looked if searched else None,
    )


def _waiting(state: State, handed: HandedWill) -> WaitingWill:
    return WaitingWill(
        will=handed.session_epoch,
        client=handed.client,
        topic=handed.will.topic,
        member=handed.member,
        there=living(state, handed.member, handed.member_epoch) is not None,
        since=handed.handed_ms,
    )


def _from(state: State, start: str) -> Iterator[str]:
    """From a client on, itself too."""
    if start in state.sessions:
        yield start
    yield from following(state.clients, start)


def _text(session: Session) -> str:
    return "\n".join((session.client, session.member, *(one.filter for one in session.subscriptions))).lower()


def _connected(state: State) -> int:
    """How many clients nobody said are gone, at members that are not lost."""
    return sum(len(clients) for epoch, clients in state.held.items() if epoch not in state.session_owners)


def _row(state: State, session: Session) -> SessionRow:
    since = since_ms(state, session)
    return SessionRow(
        client=session.client,
        state="away" if since else "connected",
        member=session.member,
        there=owner(state, session) is not None,
        epoch=session.session_epoch,
        opened=session.opened_ms,
        since=since or None,
        expiry_s=None if session.expiry_s == NEVER_S else session.expiry_s,
        ends=ends_ms(state, session),
        subscriptions=len(session.subscriptions),
        filters=[one.filter for one in session.subscriptions[:FILTERS]],
        will=None if session.will is None else session.will.topic,
    )


def session(view: View, client: str, before: int | None, limit: int) -> SessionDetail:
    """One of them, and the events about it before an offset."""
    state, spool = view.state.model, view.log.spool
    found = state.sessions.get(client)
    end = view.offset if before is None else min(before, view.offset)
    offsets = list(islice(spool.of_key(f"session/{client}", end), limit + 1))
    will = None if found is None else found.will
    return SessionDetail(
        client=client,
        session=None if found is None else _row(state, found),
        subscriptions=[] if found is None else [_subscription(one) for one in found.subscriptions],
        will=None
        if will is None
        else WillRow(
            topic=will.topic,
            qos=will.qos,
            retain=will.retain,
            delay_s=will.delay_s,
            payload=value(will.payload, WILL_BYTES),
        ),
        changes=[event_row(spool.fact(offset), spool) for offset in offsets[:limit]],
        next=offsets[limit - 1] if len(offsets) > limit else None,
    )


def _subscription(one: Subscription) -> SubscriptionRow:
    return SubscriptionRow(filter=one.filter, qos=one.qos, options=options(one)[1:])


def options(one: Subscription) -> list[str]:
    """What is said of a subscription beside its filter, in MQTT's words; its QoS first."""
    return [f"QoS {one.qos}"] + [
        words
        for words, said in (
            ("no local", one.no_local),
            ("retain as published", one.retain_as_published),
            (f"retain handling {one.retain_handling}", one.retain_handling),
            (f"identifier {one.identifier}", one.identifier),
        )
        if said
    ]
