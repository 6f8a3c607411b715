"""``quorate members``: services that registered, and RocketMQ's brokers beside them.

Rules: ``list`` and ``describe`` read, at any offset; what the leader hears of a member is told by the leader alone,
so it is asked, whichever node is named, unless that node's own state is wanted (``--stale``).
``drain``, ``forget`` and ``watch`` go over gRPC.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from urllib.parse import quote

import msgspec

from quorate.cli.client import Node, add_node
from quorate.cli.command import DONE, Command, number
from quorate.cli.facts import clock
from quorate.cli.freshness import add_freshness, asked_node, asks, freshness, pages
from quorate.cli.output import Plain, add_output, columns, complain, show
from quorate.cli.rpc import TIMEOUT_S, channel, until_interrupted
from quorate.errors import UsageError
from quorate.gateway.grpc.pb import members_pb2
from quorate.gateway.grpc.pb.members_pb2_grpc import MembersStub
from quorate.gateway.http.answers import MemberAnswer, MemberItem, Members, Quorum
from quorate.model.words import size

STATES = ("active", "fenced", "draining")
HEADER = ("name", "state", "roles", "incarnation", "epoch", "addresses", "labels")


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=tuple(ACTIONS), default="list", help="default: list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the member; a broker is SET:ID")
    parser.add_argument("--role", metavar="ROLE", help="only those with this role; RocketMQ's brokers have broker")
    parser.add_argument("--state", choices=STATES, help="only those that are so")
    parser.add_argument("--label", metavar="NAME[=VALUE]", help="only those with this label")
    parser.add_argument("--force", action="store_true", help="forget: though it has what others still need")
    parser.add_argument("--revision", type=number(), default=0, metavar="N", help="watch: from this revision on")
    add_node(parser)
    add_output(parser)
    add_freshness(parser)


def _run(options: Namespace) -> int:
    if (options.action in NAMED) != bool(options.name):
        raise UsageError(f"members {options.action}: {'which member?' if options.action in NAMED else 'takes no name'}")
    if options.action not in READS and asks(options):
        raise UsageError(f"members {options.action}: how fresh an answer must be is asked of list and describe")
    if options.force and options.action != "forget":
        raise UsageError(f"members {options.action}: --force is of forget")
    return ACTIONS[options.action](options)


def _list(options: Namespace) -> int:
    asked = {"role": options.role, "state": options.state, "label": options.label}
    at = options if options.output == "table" else _hearing(options)  # The table has nothing of what is heard.
    items = [item for page in pages(at, "/v1/members", Members, **asked) for item in page.members]
    show([msgspec.to_builtins(item) for item in items], options.output, columns(HEADER, map(_row, items)))
    return DONE


def _hearing(options: Namespace) -> Namespace:
    """The same, asked of the leader; where it is not reached that is said, and they stay as they are."""
    if options.stale or options.at is not None:
        return options
    voters = asked_node(options).get("/v1/quorum", Quorum, level="stale").voters
    for leader in (voter.http for voter in voters if voter.leader):
        if Node(leader).serves():
            return Namespace(**{**vars(options), "node": leader})
    complain("the leader, which alone hears members, was not reached: when they were heard and how they are is missing")
    return options


def _row(item: MemberItem) -> tuple[object, ...]:
    state = "fenced, draining" if item.draining and item.state == "fenced" else item.state
    return (
        item.name,
        state,
        ", ".join(item.roles),
        item.incarnation,
        item.epoch or "",
        _pairs(item.addresses),
        _pairs(item.labels),
    )


def _pairs(table: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in table.items()]


def _describe(options: Namespace) -> int:
    path = f"/v1/members/{quote(options.name, safe='')}"
    item = asked_node(_hearing(options)).get(path, MemberAnswer, **freshness(options)).member
    show(msgspec.to_builtins(item), options.output, _lines(item))
    return DONE


def _lines(item: MemberItem) -> Iterable[str]:
    rows: list[tuple[str, object]] = [("name", item.name), ("state", _row(item)[1]), ("roles", ", ".join(item.roles))]
    if item.epoch:
        rows += [("incarnation", item.incarnation), ("epoch", item.epoch), ("timeout", f"{item.timeout_ms} ms")]
        rows += [("changed", clock(item.changed_ms))]
    rows += [(f"address {name}", value) for name, value in item.addresses.items()]
    rows += [(f"label {name}", value) for name, value in item.labels.items()]
    if item.draining:
        rows.append(("may leave", "yes" if item.may_leave else f"no: {item.stays_for}"))
    if item.last_heard_ms is not None:
        rows.append(("heard", clock(item.last_heard_ms)))
    if (health := item.health) is not None:
        if health.disk_total_bytes:
            rows.append(("disk", f"{size(health.disk_used_bytes)} of {size(health.disk_total_bytes)}"))
        rows += [("cpu, memory", f"{health.cpu_percent} %, {health.memory_percent} %"), ("io errors", health.io_errors)]
    yield from (f"{name:<12}  {value}" for name, value in rows)


def _drain(options: Namespace) -> int:
    request = members_pb2.DrainMemberRequest(name=options.name)
    with channel(options) as made:
        answer = MembersStub(made).Drain(request, timeout=TIMEOUT_S)
    told = {"name": options.name, "epoch": answer.epoch, "may_leave": answer.may_leave, "revision": answer.revision}
    may = "nothing keeps it, and it may" if answer.may_leave else "not yet: `quorate members describe` says why"
    show(told, options.output, [f"member {options.name} is to leave; {may}"])
    return DONE


def _forget(options: Namespace) -> int:
    request = members_pb2.UnregisterMemberRequest(name=options.name, force=options.force)
    with channel(options) as made:
        answer = MembersStub(made).Unregister(request, timeout=TIMEOUT_S)
    show({"name": options.name, "revision": answer.revision}, options.output, [f"member {options.name} is forgotten"])
    return DONE


def _selector(options: Namespace) -> members_pb2.MemberSelector:
    label, _, value = (options.label or "").partition("=")
    if options.label is not None and not label:
        raise UsageError(f"--label: {options.label[:40]!r} has no name")
    return members_pb2.MemberSelector(
        roles=[options.role] if options.role else [],
        labels={label: value} if label else {},
        states=[f"MEMBER_STATE_{options.state.upper()}"] if options.state else [],
    )


def _watch(options: Namespace) -> int:
    request = members_pb2.WatchMembersRequest(selector=_selector(options), start_revision=options.revision)
    with channel(options) as made:
        return until_interrupted(MembersStub(made).Watch(request), lambda answers: _tell(options, answers))


def _tell(options: Namespace, answers: Iterable[members_pb2.WatchMembersResponse]) -> int:
    for answer in answers:
        for change in answer.changes:
            told: Plain = {"revision": answer.revision, "name": change.name, "left": change.left, "what": change.what}
            show(told, options.output, [f"{answer.revision}  {change.what}"])
            sys.stdout.flush()
    return DONE


READS = ("list", "describe")
NAMED = ("describe", "drain", "forget")
ACTIONS: dict[str, Callable[[Namespace], int]] = {
    "list": _list,
    "describe": _describe,
    "drain": _drain,
    "forget": _forget,
    "watch": _watch,
}
COMMAND = Command(_arguments, _run)
