"""``quorate.meta.v1.Mqtt``: sessions, subscriptions and wills of MQTT's clients, for the brokers that share them.

Rules: what a broker changes is a command, and names the epoch it knows. Match, Locate and the lists are reads as any
other, linearizable unless asked otherwise; a large answer is made in turns, and one that is too large is refused or has
more. A refusal's text begins with its name.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from quorate.controller import ReadView
from quorate.events import MqttSubscription
from quorate.gateway.grpc.asking import Asking, Call, in_turns, page, page_of
from quorate.gateway.grpc.codes import TIMED_OUT, CallError, StatusCode, at_most, refused
from quorate.gateway.grpc.pb import mqtt_pb2 as pb
from quorate.gateway.grpc.pieces import Pieces, field
from quorate.metadata.commands import (
    Accepted,
    AcknowledgeWill,
    CloseSession,
    OpenSession,
    PutSubscriptions,
    SessionIs,
)
from quorate.metadata.refusals import refuse
from quorate.metadata.sessions import SUBSCRIPTIONS_MAX
from quorate.model.names import following
from quorate.model.sessions import Subscriber, living, owner, since_ms, subscribers, waiting_wills
from quorate.model.state import HandedWill, Session, State, Subscription, Will
from quorate.model.topic_filters import QOS_MAX, effective_qos, shared, topic_fault

T = TypeVar("T")
PER_STEP = 64
"""Sessions of other members that are passed over before other work gets its turn."""
PIECE_BYTES = 64 * 1024
"""Of an answer: subscribers are put together until they are so many bytes."""
CHANGED_MAX = 2 * SUBSCRIPTIONS_MAX
"""Subscriptions of one change: all that a client may have go, and as many others come."""
_TOO_MANY = refuse("TooManySubscriptions", f"One request changes at most {CHANGED_MAX} subscriptions")


def will_told(will: Will) -> pb.Will:
    """A will as a message."""
    return pb.Will(topic=will.topic, payload=will.payload, qos=will.qos, retain=will.retain, delay_s=will.delay_s)


def handed_told(handed: HandedWill) -> pb.HandedWill:
    """One that a member is to publish."""
    return pb.HandedWill(
        will=handed.session_epoch,
        client=handed.client,
        message=will_told(handed.will),
        member=handed.member,
        member_epoch=handed.member_epoch,
    )


def subscription_told(one: Subscription | MqttSubscription) -> pb.Subscription:
    """A subscription as a message."""
    return pb.Subscription(
        filter=one.filter,
        qos=one.qos,
        no_local=one.no_local,
        retain_as_published=one.retain_as_published,
        retain_handling=one.retain_handling,
        identifier=one.identifier,
    )


def session_told(state: State, session: Session) -> pb.Session:
    """A session as a message."""
    since = since_ms(state, session)
    return pb.Session(
        client=session.client,
        member=session.member,
        member_epoch=session.member_epoch,
        session_epoch=session.session_epoch,
        connected=not since,
        disconnected_ms=since,
        expiry_s=session.expiry_s,
        opened_ms=session.opened_ms,
        has_will=session.will is not None,
        subscriptions=map(subscription_told, session.subscriptions),
    )


class MqttService:
    """The handlers."""

    def __init__(self, asking: Asking) -> None:
        self._asking, self._settings = asking, asking.context.settings

    async def open(self, request: pb.OpenSessionRequest, call: Call) -> pb.OpenSessionResponse:
        """A client connected."""
        will = request.will
        command = OpenSession(
            client=request.client,
            clean_start=request.clean_start,
            expiry_s=request.expiry_s,
            member=request.member,
            member_epoch=request.member_epoch,
            will=Will(topic=will.topic, payload=will.payload, qos=will.qos, retain=will.retain, delay_s=will.delay_s)
            if request.HasField("will")
            else None,
        )
        reply, revision = await self._asking.submit(
            command, call, _resource(request.client), SessionIs, request_id=request.request_id
        )
        return pb.OpenSessionResponse(
            revision=revision,
            session_epoch=reply.session_epoch(revision + 1),
            present=reply.present,
            taken_over_from=reply.taken_over_from,
            replaced_epoch=reply.replaced_epoch,
        )

    async def close(self, request: pb.CloseSessionRequest, call: Call) -> pb.CloseSessionResponse:
        """Its connection, or its session, ends."""
        command = CloseSession(
            client=request.client,
            session_epoch=request.session_epoch,
            end=request.end,
            with_will=request.with_will,
            expiry_s=request.expiry_s if request.HasField("expiry_s") else None,
            administrator=request.administrator,
        )
        _, revision = await self._asking.submit(command, call, _resource(request.client), Accepted)
        return pb.CloseSessionResponse(revision=revision)

    async def put_subscriptions(self, request: pb.PutSubscriptionsRequest, call: Call) -> pb.PutSubscriptionsResponse:
        """A client subscribed, or no longer does."""
        at_most(CHANGED_MAX, len(request.added) + len(request.removed), _TOO_MANY)
        command = PutSubscriptions(
            client=request.client,
            session_epoch=request.session_epoch,
            added=tuple(
                Subscription(
                    filter=one.filter,
                    qos=one.qos,
                    no_local=one.no_local,
                    retain_as_published=one.retain_as_published,
                    retain_handling=one.retain_handling,
                    identifier=one.identifier,
                )
                for one in request.added
            ),
            removed=tuple(request.removed),
        )
        _, revision = await self._asking.submit(command, call, _resource(request.client), Accepted)
        return pb.PutSubscriptionsResponse(revision=revision)

    async def acknowledge_will(self, request: pb.AcknowledgeWillRequest, call: Call) -> pb.AcknowledgeWillResponse:
        """A will is published."""
        command = AcknowledgeWill(will=request.will, member=request.member, member_epoch=request.member_epoch)
        _, revision = await self._asking.submit(command, call, f"will/{request.will}", Accepted)
        return pb.AcknowledgeWillResponse(revision=revision)

    async def match(self, request: pb.MatchRequest, call: Call) -> Pieces:
        """Whom a message is for, by member."""
        self._asking.allowed("MatchTopic", "session")
        fault = topic_fault(request.topic)
        if fault:
            raise refused(refuse("BadTopic", f"Nothing is published there: {fault}"))
        published = request.qos if request.HasField("qos") else None
        if published is not None and not 0 <= published <= QOS_MAX:
            raise CallError(StatusCode.INVALID_ARGUMENT, f"quorate: qos is from 0 to {QOS_MAX}")
        view = await self._asking.view_at(request.revision, call, stale=request.stale)
        matched = _Matched(view.state, published, call.hold, self._settings.answer_bytes_max)
        async for one in self._in_turns(subscribers(view.state, request.topic), call):
            matched.add(one)
        pieces = [pb.MatchResponse(revision=_revision(view)).SerializeToString()]
        async for member in self._in_turns(matched.members.values(), call):
            pieces += field(pb.MatchResponse.MEMBERS_FIELD_NUMBER, member.pieces())
        return pieces

    async def locate(self, request: pb.LocateRequest, call: Call) -> pb.LocateResponse:
        """Where a client is."""
        self._asking.allowed("LocateClient", _resource(request.client))
        view = await self._asking.view_at(request.revision, call, stale=request.stale)
        session = view.state.sessions.get(request.client)
        if session is None:
            raise refused(refuse("UnknownSession", f"Client {request.client!r} has no session"))
        return pb.LocateResponse(
            revision=_revision(view),
            session=session_told(view.state, session),
            addresses=_addresses(view.state, session),
        )

    async def listing(self, request: pb.ListSessionsRequest, call: Call) -> pb.ListSessionsResponse:
        """Sessions by client, a page at a time."""
        self._asking.allowed("ListSessions", "session")
        if request.limit < 0:
            raise CallError(StatusCode.INVALID_ARGUMENT, "quorate: a limit is not negative")
        view = await self._asking.view(call, stale=request.stale)
        told = _sessions(view.state, request.member, request.after)
        sessions, more = await in_turns(page(told, page_of(request.limit)))
        return pb.ListSessionsResponse(revision=_revision(view), sessions=sessions, more=more)

    async def wills(self, request: pb.ListWillsRequest, call: Call) -> pb.ListWillsResponse:
        """What a member is to publish, the oldest first."""
        self._asking.allowed("ListWills", f"member/{request.member}")
        view = await self._asking.view(call, stale=request.stale)
        waiting = await in_turns(waiting_wills(view.state, request.member))
        told = (
            handed_told(handed)
            for handed in waiting
            if not handed.member or living(view.state, handed.member, handed.member_epoch)  # Else soon another's.
        )
        wills, more = await in_turns(page(told, sys.maxsize))
        return pb.ListWillsResponse(revision=_revision(view), wills=wills, more=more)

    async def _in_turns(self, items: Iterable[T | None], call: Call) -> AsyncIterator[T]:
        """Each of them; other work gets its turn in between, and at each None. Raises CallError when time is up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._asking.time_for(call)
        for count, item in enumerate(items, start=1):
            if item is not None:
                yield item
            if item is None or not count % self._settings.keys_per_turn:
                if loop.time() > until:
                    raise CallError(*TIMED_OUT)
                await asyncio.sleep(0)


class _Matched:
    """Whom a message is for, serialised as they are found. ``hold`` is told of each, and may raise CallError."""

    def __init__(self, state: State, published: int | None, hold: Callable[[int], None], most: int) -> None:
        self._state, self._published, self._hold, self._most = state, published, hold, most
        self.members: dict[tuple[str, int], _MemberSubscribers] = {}
        self._size = 0

    def add(self, one: Subscriber) -> None:
        """One more. Raises CallError when there is no room for it."""
        session, subscription = one.session, one.subscription
        place = (session.member, session.member_epoch)
        found, size = self.members.get(place), 0
        if found is None:
            head = pb.MemberSubscribers(
                member=session.member, member_epoch=session.member_epoch, addresses=_addresses(self._state, session)
            )
            found = self.members[place] = _MemberSubscribers()
            size = found.add(head.SerializeToString())
        told = pb.Subscriber(
            client=session.client,
            session_epoch=session.session_epoch,
            connected=one.connected,
            subscription=subscription_told(subscription),
            group=shared(subscription.filter)[0],
            qos=None if self._published is None else effective_qos(self._published, subscription.qos),
        )
        size += found.add(*field(pb.MemberSubscribers.SUBSCRIBERS_FIELD_NUMBER, [told.SerializeToString()]))
        self._size += size
        if self._size > self._most:
            raise CallError(StatusCode.RESOURCE_EXHAUSTED, "quorate: more subscribers than an answer holds")
        self._hold(size)


class _MemberSubscribers:
    """Those of one member: whole pieces, and one that grows."""

    def __init__(self) -> None:
        self._pieces, self._last = Pieces(), bytearray()

    def add(self, *said: bytes) -> int:
        """Answers how many bytes that are."""
        more = b"".join(said)
        self._last += more
        if len(self._last) >= PIECE_BYTES:
            self._pieces.append(bytes(self._last))
            self._last.clear()
        return len(more)

    def pieces(self) -> Pieces:
        """All of it."""
        return [*self._pieces, bytes(self._last)]


def _sessions(state: State, member: str, after: str) -> Iterator[pb.Session | None]:
    """Of a member (empty: of all), by client; None: a step is over."""
    for count, client in enumerate(following(state.clients, after), start=1):
        session = state.sessions[client]
        if member in ("", session.member):
            yield session_told(state, session)
        elif not count % PER_STEP:
            yield None


def _revision(view: ReadView) -> int:
    return max(view.offset - 1, 0)


def _addresses(state: State, session: Session) -> Mapping[str, str]:
    """Of the member that has the client, if it lives."""
    member = owner(state, session)
    return {} if member is None else member.addresses


def _resource(client: str) -> str:
    return f"session/{client}"
