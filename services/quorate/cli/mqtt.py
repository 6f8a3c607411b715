"""``quorate mqtt``: the sessions of MQTT that brokers share: who has a client, and whom a message is for.

Rules: reads alone, for what happens to sessions is for the brokers to say: ``sessions`` and ``wills`` over HTTP, what
brokers ask over gRPC, all at any offset. Names come from whoever reaches a broker: eyes see them as ``visible`` shows
them.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator

import grpc
import msgspec

from quorate.cli.client import add_action
from quorate.cli.command import DONE, REFUSED, Command
from quorate.cli.facts import clock
from quorate.cli.freshness import add_freshness, add_revision, pages
from quorate.cli.output import Plain, columns, show
from quorate.cli.rpc import TIMEOUT_S, channel
from quorate.gateway.grpc.pb import mqtt_pb2 as pb
from quorate.gateway.grpc.pb.mqtt_pb2_grpc import MqttStub
from quorate.gateway.http.answers import HandedWillItem, SessionItem, Sessions, SubscriptionItem, Wills
from quorate.model.sessions import NEVER_S
from quorate.model.words import span

SESSIONS = ("client", "member", "session epoch", "client is", "expiry", "subscriptions")
WILLS = ("will", "client", "topic", "to be published by", "since")
MATCHES = ("member", "client", "client is", "qos", "filter")


def _arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="sessions|wills|match|locate")
    sessions = add_action(actions, "sessions", "Every persistent session, by client.")
    sessions.add_argument(
        "--member", default="", metavar="NAME", help="only those whose client this member has, or had"
    )
    wills = add_action(actions, "wills", "Wills that are to be published: decided, and acknowledged by nobody.")
    wills.add_argument("--member", metavar="NAME", help="only those that this member is to publish")
    for listing in (sessions, wills):
        add_freshness(listing)
    match = add_action(actions, "match", "Whom a message is for, by member; exit 1 when it is for nobody.")
    match.add_argument("topic", metavar="TOPIC")
    locate = add_action(actions, "locate", "Where a client is; exit 1 when it has no session.")
    locate.add_argument("client", metavar="CLIENT")
    for asking in (match, locate):
        add_revision(asking)
        asking.add_argument("--stale", action="store_true", help="as the asked node has it, without asking the leader")


def _run(options: Namespace) -> int:
    listings = {"sessions": _sessions, "wills": _wills}
    if listing := listings.get(options.action):
        return listing(options)
    run: dict[str, Callable[[Namespace, MqttStub], int]] = {"match": _match, "locate": _locate}
    with channel(options) as made:
        return run[options.action](options, MqttStub(made))


def _sessions(options: Namespace) -> int:
    found = list(_listed(options))
    rows = [
        (
            one.client,
            one.member,
            one.session_epoch,
            _connected(one),
            _expiry(one),
            len(one.subscriptions),
        )
        for one in found
    ]
    show([_plain(one) for one in found], options.output, columns(SESSIONS, rows))
    return DONE


def _listed(options: Namespace) -> Iterator[SessionItem]:
    for page in pages(options, "/v1/sessions", Sessions, "linearizable", member=options.member or None):
        yield from page.sessions


def _wills(options: Namespace) -> int:
    asked = pages(options, "/v1/wills", Wills, "linearizable", member=options.member)
    found = [one for page in asked for one in page.wills]
    rows = [(one.will, one.client, one.topic, _publisher(one), clock(one.handed_ms)) for one in found]
    show(msgspec.to_builtins(found), options.output, columns(WILLS, rows))
    return DONE


def _publisher(one: HandedWillItem) -> str:
    if not one.member:
        return "nobody yet"
    return one.member if one.member_lives else f"{one.member} (lost)"


def _connected(one: pb.Session | SessionItem) -> str:
    return "connected" if one.connected else f"gone since {clock(one.disconnected_ms or 0)}"


def _expiry(one: pb.Session | SessionItem) -> str:
    return "never" if one.expiry_s in (None, NEVER_S) else span(one.expiry_s * 1000)


def _plain(one: pb.Session | SessionItem) -> dict[str, Plain]:
    return {
        "client": one.client,
        "member": one.member,
        "member_epoch": one.member_epoch,
        "session_epoch": one.session_epoch,
        "connected": one.connected,
        "disconnected_ms": one.disconnected_ms or 0,
        "expiry_s": NEVER_S if one.expiry_s is None else one.expiry_s,
        "opened_ms": one.opened_ms,
        "has_will": one.will is not None if isinstance(one, SessionItem) else one.has_will,
        "subscriptions": [_subscription(sub) for sub in one.subscriptions],
    }


def _subscription(one: pb.Subscription | SubscriptionItem) -> dict[str, Plain]:
    return {
        "filter": one.filter,
        "qos": one.qos,
        "no_local": one.no_local,
        "retain_as_published": one.retain_as_published,
        "retain_handling": one.retain_handling,
        "identifier": one.identifier,
    }


def _match(options: Namespace, stub: MqttStub) -> int:
    request = pb.MatchRequest(topic=options.topic, revision=options.revision, stale=options.stale)
    answer = stub.Match(request, timeout=TIMEOUT_S)
    told: list[Plain] = [
        {
            "member": member.member,
            "member_epoch": member.member_epoch,
            "addresses": dict(member.addresses),
            "subscribers": [
                {
                    "client": one.client,
                    "session_epoch": one.session_epoch,
                    "connected": one.connected,
                    "group": one.group,
                    **_subscription(one.subscription),
                }
                for one in member.subscribers
            ],
        }
        for member in answer.members
    ]
    rows = [
        (
            member.member,
            one.client,
            "connected" if one.connected else "gone",
            one.subscription.qos,
            one.subscription.filter,
        )
        for member in answer.members
        for one in member.subscribers
    ]
    show(told, options.output, columns(MATCHES, rows))
    return DONE if rows else REFUSED


def _locate(options: Namespace, stub: MqttStub) -> int:
    request = pb.LocateRequest(client=options.client, revision=options.revision, stale=options.stale)
    try:
        answer = stub.Locate(request, timeout=TIMEOUT_S)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        show(None, options.output, [f"client {options.client} has no session"])
        return REFUSED
    session = answer.session
    told = {**_plain(session), "addresses": dict(answer.addresses)}
    rows: list[tuple[str, object]] = [
        ("client", session.client),
        ("member", f"{session.member} (epoch {session.member_epoch})"),
        *((f"address {name}", place) for name, place in sorted(answer.addresses.items())),
        ("client is", _connected(session)),
        ("session epoch", session.session_epoch),
        ("expiry", _expiry(session)),
        ("will", "yes" if session.has_will else "none"),
        *(("subscribed", f"{one.filter} (qos {one.qos})") for one in session.subscriptions),
    ]
    show(told, options.output, [f"{name:<14}  {value}" for name, value in rows])
    return DONE


COMMAND = Command(_arguments, _run)
