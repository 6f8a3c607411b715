"""Topics and masters changed from the command line: what HTTP does, with the same refusals.

Rules: ``create`` makes what is not there, ``change`` keeps what is not said; each asks first how it is. A topic that
is so already is done (exit 0); an election that nobody won exits 1.
"""

from argparse import ArgumentParser, Namespace
from urllib.parse import quote

import msgspec

from quorate.cli.client import Node, NodeError
from quorate.cli.command import DONE, REFUSED
from quorate.cli.freshness import asked_node, asks
from quorate.cli.output import show
from quorate.errors import UsageError
from quorate.gateway.http.answers import Done, TopicAnswer, TopicItem
from quorate.gateway.http.writing import ElectBody, TopicBody
from quorate.metadata.commands import MasterIs, TopicIs

QUEUES = 8


def topic_arguments(parser: ArgumentParser) -> None:
    """The settings of a topic that may be changed."""
    what = "default: show all; delete: exit 0 also where there is none"
    parser.add_argument("action", nargs="?", choices=("create", "change", "delete"), help=what)
    parser.add_argument("topic", nargs="?", metavar="TOPIC")
    parser.add_argument("--read-queues", type=int, metavar="N", help=f"of a new topic: {QUEUES}")
    parser.add_argument("--write-queues", type=int, metavar="N", help=f"of a new topic: {QUEUES}")
    parser.add_argument("--permission", type=int, metavar="N", help="2 write, 4 read, 6 both (of a new topic)")
    parser.add_argument("--order", choices=("yes", "no"), help="ordered messages")
    parser.add_argument("--attribute", action="append", default=[], metavar="KEY=VALUE", help="may be repeated")
    parser.add_argument("--without", action="append", default=[], metavar="KEY", help="an attribute that goes")


def change_topic(options: Namespace) -> int:
    """Create, change or delete one."""
    node = _changing(options)
    if not options.topic:
        raise UsageError(f"topics {options.action}: which topic?")
    path = f"/v1/topics/{quote(options.topic, safe='')}"
    if options.action == "delete":
        done = node.send("DELETE", path, None, Done)
    else:
        done = node.send("PUT", path, _topic_body(options, _topic(node, path)), Done)
    changed = not isinstance(done.reply, TopicIs) or done.reply.changed
    what = {"create": "created", "change": "changed", "delete": "deleted"}[options.action]
    line = f"topic {options.topic} is {what}; true from offset {done.offset}"
    if not changed:
        gone = options.action == "delete"
        line = f"there was no topic {options.topic}" if gone else f"topic {options.topic} was so already"
    show(msgspec.to_builtins(done), options.output, [line])
    return DONE


def _topic(node: Node, path: str) -> TopicItem | None:
    """As it is; None: there is none."""
    try:
        return node.get(path, TopicAnswer, level="linearizable").topic
    except NodeError as error:
        if error.status == 404:
            return None
        raise


def _topic_body(options: Namespace, now: TopicItem | None) -> TopicBody:
    """The topic as it is to be. Raises NodeError: there is one already, or none; UsageError."""
    if options.action == "create" and now is not None:
        raise NodeError(f"there is a topic {options.topic}: topics change")
    if options.action == "change" and now is None:
        raise NodeError(f"there is no topic {options.topic}: topics create")
    pairs = [text.partition("=") for text in options.attribute]
    if wrong := [name for name, equals, _ in pairs if not equals or not name]:
        raise UsageError(f"--attribute {wrong[0]}: expected KEY=VALUE")
    fields = {
        name: value
        for name, value in (
            ("read_queues", options.read_queues),
            ("write_queues", options.write_queues),
            ("permission", options.permission),
            ("order", None if options.order is None else options.order == "yes"),
        )
        if value is not None
    }
    attributes = {f"+{name}": value for name, _, value in pairs} | {f"-{name}": "" for name in options.without}
    if now is None:
        return TopicBody(**{"read_queues": QUEUES, "write_queues": QUEUES, **fields}, attributes=attributes)
    held = msgspec.to_builtins(now)
    kept = {name: held[name] for name in TopicBody.__struct_fields__ if name != "attributes"}
    return TopicBody(**{**kept, **fields}, attributes=attributes)


def election_arguments(parser: ArgumentParser) -> None:
    """An election that is asked for."""
    parser.add_argument("action", nargs="?", choices=("elect", "transfer"), help="default: show the latest of each set")
    parser.add_argument("broker_set", nargs="?", metavar="SET")
    parser.add_argument("broker", nargs="?", type=int, metavar="ID", help="transfer: who becomes the master")


def elect(options: Namespace) -> int:
    """Have a master elected by the rules, or that broker."""
    node = _changing(options)
    if not options.broker_set:
        raise UsageError(f"elections {options.action}: which broker set?")
    if (options.action == "transfer") != (options.broker is not None):
        raise UsageError("elections elect SET asks the rules, elections transfer SET ID names a broker")
    done = node.send("POST", "/v1/elections", ElectBody(broker_set=options.broker_set, broker_id=options.broker), Done)
    reply = done.reply
    won = isinstance(reply, MasterIs) and reply.master is not None
    outcome = f"nobody could be elected in {options.broker_set}; quorate why {options.broker_set} says why"
    if isinstance(reply, MasterIs) and won:
        outcome = f"broker {reply.master} leads {options.broker_set} in epoch {reply.master_epoch}"
    show(msgspec.to_builtins(done), options.output, [f"{outcome}; true from offset {done.offset}"])
    return DONE if won else REFUSED


def _changing(options: Namespace) -> Node:
    if options.at is not None:
        raise UsageError("the past cannot be changed")
    if asks(options):
        raise UsageError("--stale, --linearizable and --at-least are of reads, and this is a change")
    return asked_node(options)
