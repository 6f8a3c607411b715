"""``quorate mqtt``: the sessions of MQTT that brokers share: who has a client, and whom a message is for.

Rules: asked over gRPC; reads alone, for what happens to sessions is for the brokers to say. Names come from whoever
reaches a broker: eyes see them as ``visible`` shows them.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from quorate.cli.client import add_node
from quorate.cli.command import DONE, REFUSED, Command
from quorate.cli.facts import clock
from quorate.cli.output import Plain, add_output, columns, show
from quorate.cli.rpc import TIMEOUT_S, channel
from quorate.gateway.grpc.pb import mqtt_pb2 as pb
from quorate.gateway.grpc.pb.mqtt_pb2_grpc import MqttStub
from quorate.model.sessions import NEVER_S
from quorate.model.words import span

SESSIONS = ("client", "member", "session epoch", "client is", "expiry", "subscriptions")
MATCHES = ("member", "client", "client is", "qos", "filter")


def _arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="sessions|match|locate")
    sessions = _action(actions, "sessions", "Every persistent session, by client.")
    sessions.add_argument(
        "--member", default="", metavar="NAME", help="only those whose client this member has, or had"
    )
    match = _action(actions, "match", "Whom a message is for, by member; exit 1 when it is for nobody.")
    match.add_argument("topic", metavar="TOPIC")
    locate = _action(actions, "locate", "Where a client is; exit 1 when it has no session.")
    locate.add_argument("client", metavar="CLIENT")


def _action(actions: Any, name: str, summary: str) -> ArgumentParser:
    parser: ArgumentParser = actions.add_parser(name, help=summary, description=summary)
    parser.add_argument("--stale", action="store_true", help="as the asked node has it, without asking the leader")
    add_node(parser)
    add_output(parser)
    return parser


def _run(options: Namespace) -> int:
    run: dict[str, Callable[[Namespace, MqttStub], int]] = {"sessions": _sessions, "match": _match, "locate": _locate}
    with channel(options) as made:
        return run[options.action](options, MqttStub(made))


def _sessions(options: Namespace, stub: MqttStub) -> int:
    found = list(_listed(options, stub))
    rows = [
        (one.client, one.member, one.session_epoch, _connected(one), _expiry(one.expiry_s), len(one.subscriptions))
        for one in found
    ]
    show([_plain(one) for one in found], options.output, columns(SESSIONS, rows))
    return DONE


def _listed(options: Namespace, stub: MqttStub) -> Iterator[pb.Session]:
    after = ""
    while True:
        request = pb.ListSessionsRequest(member=options.member, after=after, stale=options.stale)
        page = stub.List(request, timeout=TIMEOUT_S)
        yield from page.sessions
        if not page.more:
            return
        after = page.sessions[-1].client


def _connected(one: pb.Session) -> str:
    return "connected" if one.connected else f"gone since {clock(one.disconnected_ms)}"


def _expiry(seconds: int) -> str:
    return "never" if seconds == NEVER_S else span(seconds * 1000)


def _plain(one: pb.Session) -> dict[str, Plain]:
    return {
        "client": one.client,
        "member": one.member,
        "member_epoch": one.member_epoch,
        "session_epoch": one.session_epoch,
        "connected": one.connected,
        "disconnected_ms": one.disconnected_ms,
        "expiry_s": one.expiry_s,
        "opened_ms": one.opened_ms,
        "has_will": one.has_will,
        "subscriptions": [_subscription(sub) for sub in one.subscriptions],
    }


def _subscription(one: pb.Subscription) -> dict[str, Plain]:
    return {
        "filter": one.filter,
        "qos": one.qos,
        "no_local": one.no_local,
        "retain_as_published": one.retain_as_published,
        "retain_handling": one.retain_handling,
        "identifier": one.identifier,
    }


def _match(options: Namespace, stub: MqttStub) -> int:
    answer = stub.Match(pb.MatchRequest(topic=options.topic, stale=options.stale), timeout=TIMEOUT_S)
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
    try:
        answer = stub.Locate(pb.LocateRequest(client=options.client, stale=options.stale), timeout=TIMEOUT_S)
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
        ("expiry", _expiry(session.expiry_s)),
        ("will", "yes" if session.has_will else "none"),
        *(("subscribed", f"{one.filter} (qos {one.qos})") for one in session.subscriptions),
    ]
    show(told, options.output, [f"{name:<14}  {value}" for name, value in rows])
    return DONE


COMMAND = Command(_arguments, _run)
