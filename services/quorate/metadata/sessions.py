"""Sessions of MQTT: who has a client, what it subscribed to, and when its session ends (MQTT 5.0, sections 3.1, 4.1).

Rules: a session is a fact while it may outlive its client's connection (its expiry is not 0); no other is in the log. A
client has one session, and an opening takes it from whoever had it: the offset of SessionOpened, the last event of its
decision, is the session epoch, and whoever names an older one changes nothing. A client whose member is lost is gone
from that moment, which one event tells for all of them; each session then ends by its own time. What is due by the
log's time is due, whether or not the leader came to it; so is what the leader itself has counted the whole time of, for
the log's stands still now and then. Wills: ``metadata/wills.py``.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from quorate.events import (
    Event,
    MemberFenced,
    MemberGone,
    MemberUnfenced,
    MqttSubscription,
    SessionDisconnected,
    SessionEnded,
    SessionOpened,
    SessionOwnerLost,
    SessionOwnerSettled,
    SubscriptionsChanged,
)
from quorate.metadata.commands import (
    Accepted,
    CloseSession,
    OpenSession,
    PutSubscriptions,
    Refusal,
    SessionIs,
    SettleSessions,
)
from quorate.metadata.context import Context, Decision
from quorate.metadata.members import checked
from quorate.metadata.refusals import refuse
from quorate.metadata.wills import Recipients, will_bytes, will_events
from quorate.model.sessions import NEVER_S, due_ms, ends_ms, since_ms, will_due_ms
from quorate.model.state import Member, Session, State, Subscription, Will
from quorate.model.topic_filters import QOS_MAX, SHARE, filter_fault, text_fault, topic_fault

CLIENT_BYTES_MAX: Final = 1024
"""Of a client identifier (MQTT: 65,535)."""
FILTER_BYTES_MAX: Final = 4096
"""Of a topic filter (MQTT: 65,535)."""
SUBSCRIPTIONS_MAX: Final = 1000
"""Of one client."""
SUBSCRIPTION_BYTES_MAX: Final = 256 * 1024
"""Of all filters of one client: its session is one row."""
WILL_BYTES_MAX: Final = 65_535
"""Of what a will says: MQTT's own bound."""
IDENTIFIER_MAX: Final = 268_435_455
"""Of a subscription: MQTT's own bound."""
SETTLED_BYTES_MAX: Final = 256 * 1024
"""Of wills that one decision of the leader's own hands over, after which the rest waits for the next."""
SETTLED_SUBSCRIPTIONS_MAX: Final = 2000
"""The same of subscriptions that go with their sessions: each is taken out of the index by itself, on every node."""
_RETAIN_HANDLING_MAX: Final = 2
Decider = Callable[[State, Any, Context], Decision | Refusal]


def open_session(state: State, command: OpenSession, context: Context) -> Decision | Refusal:
    """A session that need not outlive its connection, and has none before it, is no fact; one before it whose expiry is
    0 ends with the connection that this one takes the place of (section 3.1.4). Refuses UnknownMember,
    StaleMemberEpoch, MemberIsFenced, BadClient, BadExpiry, BadWill.
    """
    member = _opener(state, command)
    if isinstance(member, Refusal):
        return member
    before, events = state.sessions.get(command.client), list[Event]()
    present, taken_over_from, cancelled = False, "", False
    if before is not None:
        since, ends, now_ms = since_ms(state, before), ends_ms(state, before), _time_of(state, before, context)
        expired = ends is not None and ends <= now_ms
        ended = expired or command.clean_start or not before.expiry_s
        taken_over_from = "" if since else before.member
        due = will_due_ms(state, before)
        if before.will is not None and (ended or (due is not None and due <= now_ms) or _undelayed(before, since)):
            reason = "session ended" if ended else "delay passed" if since else "taken over"
            at_ms = now_ms if due is None else min(due, now_ms)
            events += will_events(before, before.will, reason, at_ms, Recipients(state).opener(member))
        else:
            cancelled = before.will is not None
        if ended:
            reason = "expired" if expired else "clean start" if command.clean_start else "closed"
            events.append(_ended(before, since, reason))
        present = not ended
    opened = command.expiry_s > 0 or present
    if opened:
        events.append(_opened(command, before if present else None, taken_over_from, cancelled=cancelled))
    reply = SessionIs(
        client=command.client,
        opened=opened,
        present=present,
        taken_over_from=taken_over_from,
        replaced_epoch=0 if before is None else before.session_epoch,
    )
    return Decision(_settled(state, events), reply)


def _time_of(state: State, session: Session, context: Context) -> int:
    """What time it is for a session: the log's, or as much after its client went as the leader itself has counted."""
    since = since_ms(state, session)
    gone_ms = context.sessions.gone_ms(session.client, session.session_epoch, session.member_epoch, since)
    return max(context.now_ms, since + gone_ms)


def _undelayed(before: Session, since: int) -> bool:
    """Is a will published at once when its client is taken over (section 3.1.3.2.2)?"""
    return not since and before.will is not None and not before.will.delay_s


def _opener(state: State, command: OpenSession) -> Member | Refusal:
    fault = client_fault(command.client)
    if fault:
        return refuse("BadClient", f"A client identifier is needed: {fault}")
    if not 0 <= command.expiry_s <= NEVER_S:
        return refuse("BadExpiry", f"An expiry is from 0 to {NEVER_S} seconds")
    fault = "" if command.will is None else will_fault(command.will)
    if fault:
        return refuse("BadWill", f"A will cannot be like that: {fault}")
    member = checked(state, command.member, command.member_epoch)
    if isinstance(member, Member) and member.fenced:
        return refuse(
            "MemberIsFenced", f"Member {command.member!r} is fenced: it opens sessions once it is heard again"
        )
    return member


def client_fault(client: str) -> str:
    """Why nobody can be called so; empty when one can."""
    return text_fault(client) or _long(client, CLIENT_BYTES_MAX)


def _long(text: str, most: int) -> str:
    return f"it has more than {most} bytes" if len(text.encode()) > most else ""


def will_fault(will: Will) -> str:
    """Why a will cannot be published; empty when it can."""
    fault = topic_fault(will.topic)
    if fault:
        return f"its topic: {fault}"
    if len(will.payload) > WILL_BYTES_MAX:
        return f"it says more than {WILL_BYTES_MAX} bytes"
    if not 0 <= will.qos <= QOS_MAX:
        return f"its quality of service is not from 0 to {QOS_MAX}"
    return "" if 0 <= will.delay_s <= NEVER_S else f"its delay is not from 0 to {NEVER_S} seconds"


def _opened(command: OpenSession, before: Session | None, taken_over_from: str, *, cancelled: bool) -> SessionOpened:
    will = command.will
    return SessionOpened(
        client=command.client,
        member=command.member,
        member_epoch=command.member_epoch,
        clean_start=command.clean_start,
        expiry_s=command.expiry_s,
        will_topic=None if will is None else will.topic,
        will_payload=b"" if will is None else will.payload,
        will_qos=0 if will is None else will.qos,
        will_retain=will is not None and will.retain,
        will_delay_s=0 if will is None else will.delay_s,
        taken_over_from=taken_over_from,
        replaced_epoch=0 if before is None else before.session_epoch,
        will_cancelled=cancelled,
    )


def _ended(session: Session, since: int, reason: str) -> SessionEnded:
    return SessionEnded(
        client=session.client,
        session_epoch=session.session_epoch,
        member=session.member,
        reason=reason,
        disconnected_ms=since,
        subscriptions=len(session.subscriptions),
    )


def found_session(state: State, client: str, session_epoch: int) -> Session | Refusal:
    """The session, if this is its epoch. Refuses UnknownSession, StaleSessionEpoch."""
    session = state.sessions.get(client)
    if session is None:
        return refuse("UnknownSession", f"Client {client!r} has no session")
    if session.session_epoch != session_epoch:
        remark = f"The session epoch of client {client!r} is {session.session_epoch}, not {session_epoch}: "
        return refuse("StaleSessionEpoch", f"{remark}it was opened again at member {session.member!r}")
    return session


def close_session(state: State, command: CloseSession, context: Context) -> Decision | Refusal:
    """The client of a session is gone, or (``end``) the session is to end. One that is gone already stays gone since
    then; nothing is written for it. Refuses UnknownSession, StaleSessionEpoch, BadExpiry.
    """
    session = state.sessions.get(command.client)
    if not command.administrator or session is None:
        found = found_session(state, command.client, command.session_epoch)
        if isinstance(found, Refusal):
            return found
        session = found
    if command.expiry_s is not None and not 0 <= command.expiry_s <= NEVER_S:
        return refuse("BadExpiry", f"An expiry is from 0 to {NEVER_S} seconds")
    since, will = since_ms(state, session), session.will if command.with_will else None
    expiry_s = session.expiry_s if command.expiry_s is None or since else command.expiry_s
    recipients = Recipients(state)
    if command.end or command.administrator or not expiry_s:
        events = [] if will is None else [*_willed(session, will, "session ended", since, context, recipients)]
        events.append(_ended(session, since, "administrator" if command.administrator else "closed"))
        return Decision(_settled(state, events), Accepted())
    if session.disconnected_ms and (command.with_will or session.will is None):
        return Decision((), Accepted())
    events, waits = [], will is not None
    if will is not None and not will.delay_s:
        events, waits = [*_willed(session, will, "lost", since, context, recipients)], False
    gone = SessionDisconnected(
        client=session.client,
        session_epoch=session.session_epoch,
        member=session.member,
        reason="lost" if command.with_will else "closed",
        disconnected_ms=since or context.now_ms,
        expiry_s=expiry_s,
        will_waits=waits,
    )
    return Decision(_settled(state, [*events, gone]), Accepted())


def _willed(
    session: Session, will: Will, reason: str, since: int, context: Context, recipients: Recipients
) -> Sequence[Event]:
    return will_events(session, will, reason, since or context.now_ms, recipients.of(session))


def put_subscriptions(state: State, command: PutSubscriptions, context: Context) -> Decision | Refusal:
    """What is as it was is not written again. Refuses UnknownSession, StaleSessionEpoch, BadTopicFilter,
    BadSubscription, TooManySubscriptions.
    """
    session = found_session(state, command.client, command.session_epoch)
    if isinstance(session, Refusal):
        return session
    for wanted in command.added:
        refusal = _bad(wanted)
        if refusal is not None:
            return refusal
    before = {one.filter: one for one in session.subscriptions}
    wanted_now = {one.filter: one for one in command.added}
    added = [one for one in wanted_now.values() if before.get(one.filter) != one]
    removed = [name for name in dict.fromkeys(command.removed) if name in before and name not in wanted_now]
    after = (before.keys() | wanted_now.keys()) - set(removed)
    if len(after) > SUBSCRIPTIONS_MAX:
        return refuse("TooManySubscriptions", f"A client has at most {SUBSCRIPTIONS_MAX} subscriptions")
    if sum(len(name.encode()) for name in after) > SUBSCRIPTION_BYTES_MAX:
        return refuse("TooManySubscriptions", f"The filters of a client have at most {SUBSCRIPTION_BYTES_MAX} bytes")
    if not added and not removed:
        return Decision((), Accepted())
    changed = SubscriptionsChanged(
        client=session.client,
        session_epoch=session.session_epoch,
        added=tuple(map(_told, added)),
        removed=tuple(removed),
    )
    return Decision((changed,), Accepted())


def _bad(wanted: Subscription) -> Refusal | None:
    fault = filter_fault(wanted.filter) or _long(wanted.filter, FILTER_BYTES_MAX)
    if fault:
        return refuse("BadTopicFilter", f"Nobody can subscribe to that: {fault}")
    if not 0 <= wanted.qos <= QOS_MAX or not 0 <= wanted.retain_handling <= _RETAIN_HANDLING_MAX:
        return refuse("BadSubscription", "A quality of service and a retain handling are from 0 to 2")
    if not 0 <= wanted.identifier <= IDENTIFIER_MAX:
        return refuse("BadSubscription", f"An identifier is from 1 to {IDENTIFIER_MAX}, or 0 for none")
    if wanted.no_local and wanted.filter.startswith(SHARE):
        return refuse("BadSubscription", "A shared subscription leaves no messages of its client out")
    return None


def _told(one: Subscription) -> MqttSubscription:
    return MqttSubscription(
        filter=one.filter,
        qos=one.qos,
        no_local=one.no_local,
        retain_as_published=one.retain_as_published,
        retain_handling=one.retain_handling,
        identifier=one.identifier,
    )


def settle_sessions(state: State, command: SettleSessions, context: Context) -> Decision | Refusal:
    """Of these sessions, named with their epochs: what is due by now. The others are as they were."""
    events, size, subscriptions, recipients = list[Event](), 0, 0, Recipients(state)
    for client, session_epoch in command.sessions:
        session = state.sessions.get(client)
        due = None if session is None else due_ms(state, session)
        if session is None or session.session_epoch != session_epoch or due is None:
            continue
        now_ms = _time_of(state, session, context)
        if due > now_ms:
            continue
        if size > SETTLED_BYTES_MAX or subscriptions > SETTLED_SUBSCRIPTIONS_MAX:
            break
        ends, will_due = ends_ms(state, session), will_due_ms(state, session)
        ended = ends is not None and ends <= now_ms
        if session.will is not None and will_due is not None:
            reason = _overdue(session.will, session.expiry_s)
            size += will_bytes(session.will)
            events += will_events(session, session.will, reason, will_due, recipients.of(session))
        if ended:
            subscriptions += len(session.subscriptions)
            events.append(_ended(session, since_ms(state, session), "expired"))
    return Decision(_settled(state, events), Accepted())


def _overdue(will: Will, expiry_s: int) -> str:
    """Why a will is due whose client did not come back."""
    if not will.delay_s:
        return "lost"
    return "delay passed" if will.delay_s <= expiry_s else "session ended"


# -- members that are lost, and come back


def following(decider: Decider) -> Decider:
    """A rule about members, and what its events are to the sessions whose clients they have."""

    def decided(state: State, command: Any, context: Context) -> Decision | Refusal:
        decision = decider(state, command, context)
        if isinstance(decision, Refusal) or not (state.held or state.session_owners):
            return decision
        return Decision(with_sessions(state, decision.events), decision.reply)

    return decided


def with_sessions(state: State, events: Iterable[Event]) -> tuple[Event, ...]:
    """These events, and behind each what it is to sessions: what is last stays so, for an epoch is its offset."""
    all_events = list[Event]()
    for event in events:
        all_events.append(event)
        match event:
            case MemberFenced() | MemberGone():
                held = state.held.get(event.epoch)
                if held and event.epoch not in state.session_owners:
                    reason = "fenced" if isinstance(event, MemberFenced) else "gone"
                    all_events.append(
                        SessionOwnerLost(
                            member=event.member, member_epoch=event.epoch, reason=reason, sessions=len(held)
                        )
                    )
            case MemberUnfenced() if event.epoch in state.session_owners:
                count = len(state.held.get(event.epoch, ()))
                all_events.append(
                    SessionOwnerSettled(
                        member=event.member, member_epoch=event.epoch, reason="unfenced", sessions=count
                    )
                )
            case _:
                pass
    return tuple(all_events)


def _settled(state: State, events: list[Event]) -> tuple[Event, ...]:
    """These events, and before them that nothing hangs on the loss of a member any more, where that follows."""
    if not state.session_owners:
        return tuple(events)
    clients = {
        event.client: None for event in events if isinstance(event, SessionOpened | SessionEnded | SessionDisconnected)
    }
    before = [state.sessions[client] for client in clients if client in state.sessions]
    leaving = Counter(session.member_epoch for session in before if not session.disconnected_ms)
    settled = [
        SessionOwnerSettled(member=lost.member, member_epoch=lost.member_epoch, reason="no sessions left", sessions=0)
        for lost in map(state.session_owners.get, leaving)
        if lost is not None and leaving[lost.member_epoch] == len(state.held[lost.member_epoch])
    ]
    return (*settled, *events)
