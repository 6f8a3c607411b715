"""``quorate schemas``: the schema registry from the command line, over the HTTP that Confluent's clients speak.

Rules: what changes a subject is refused by the registry, in its words, never here; a schema is read from a file or from
stdin and sent as it is. The log's own subjects are shown among the others; they cannot be changed.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from quorate.cli.client import TIMEOUT_S, Node, add_action
from quorate.cli.command import DONE, REFUSED, Command
from quorate.cli.freshness import add_freshness, asked_node, freshness
from quorate.cli.output import Plain, columns, show
from quorate.errors import UsageError
from quorate.model.subjects import LEVELS

PAGE: Final = 200


class _Item(msgspec.Struct):
    """A version of a subject."""

    subject: str
    version: int
    id: int
    schema: str


class _Registered(msgspec.Struct):
    id: int


class _Level(msgspec.Struct):
    """What GET, PUT and DELETE of a level answer."""

    level: str = msgspec.field(name="compatibilityLevel", default="")
    """PUT says it under another name, which is not read: it is what was sent."""


class _Judged(msgspec.Struct):
    is_compatible: bool
    messages: list[str] = []


def _arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|register|delete|compatibility")
    listing = add_action(actions, "list", "Every subject, with its latest version.")
    listing.add_argument("--prefix", default="", metavar="TEXT", help="only those that begin with it")
    listing.add_argument("--deleted", action="store_true", help="those too of which all versions are deleted")
    shown = add_action(actions, "show", "A schema, and which versions its subject has.")
    shown.add_argument("subject", metavar="SUBJECT")
    shown.add_argument("--version", default="latest", metavar="N", help="default: latest")
    shown.add_argument("--deleted", action="store_true", help="deleted versions too")
    for reading in (listing, shown):
        add_freshness(reading)
    register = add_action(actions, "register", "A new version of a subject; what is there already stays as it is.")
    register.add_argument("subject", metavar="SUBJECT")
    register.add_argument("file", metavar="FILE", help="an Avro schema; - is read from stdin")
    delete = add_action(actions, "delete", "Hide a version, or all; what is hidden goes for good with --permanent.")
    delete.add_argument("subject", metavar="SUBJECT")
    delete.add_argument("--version", default="", metavar="N", help="default: all")
    delete.add_argument("--permanent", action="store_true", help="for good, once it is hidden")
    level = add_action(
        actions,
        "compatibility",
        "The level in force of a subject, or of all; or judge a schema by it: exit 1 when it would not be taken.",
    )
    level.add_argument("subject", nargs="?", default="", metavar="SUBJECT")
    what = level.add_mutually_exclusive_group()
    what.add_argument("--set", type=str.upper, choices=LEVELS, metavar="LEVEL", help=", ".join(LEVELS))
    what.add_argument("--unset", action="store_true", help="without a level of its own")
    what.add_argument("--check", metavar="FILE", help="would this schema be taken? - is read from stdin")


def _run(options: Namespace) -> int:
    reads: dict[str, Callable[[Namespace], int]] = {"list": _list, "show": _show}
    if read := reads.get(options.action):
        return read(options)
    run: dict[str, Callable[[Namespace, Node], int]] = {
        "register": _register,
        "delete": _delete,
        "compatibility": _compatibility,
    }
    return run[options.action](options, Node(options.node, TIMEOUT_S))


def _list(options: Namespace) -> int:
    found = list(_latest(options))
    told: list[Plain] = [{"subject": one.subject, "version": one.version, "id": one.id} for one in found]
    rows = [(one.subject, one.version, one.id) for one in found]
    show(told, options.output, columns(("subject", "version", "id"), rows))
    return DONE


def _latest(options: Namespace) -> Iterator[_Item]:
    node, passed, page = asked_node(options), 0, PAGE
    while page == PAGE:
        items = node.get(
            "/schemas",
            list[_Item],
            latestOnly="true",
            deleted=_truth(options.deleted),
            subjectPrefix=options.prefix or None,
            offset=passed,
            limit=PAGE,
            **freshness(options),
        )
        yield from items
        page = len(items)
        passed += page


def _show(options: Namespace) -> int:
    node, path = asked_node(options), f"{_path(options.subject)}/versions"
    asked = {"deleted": _truth(options.deleted), **freshness(options)}
    item = node.get(f"{path}/{quote(options.version, safe='')}", _Item, **asked)
    versions = node.get(path, list[int], **asked)
    told = {**msgspec.to_builtins(item), "versions": versions}
    lines = [
        f"subject   {item.subject}",
        f"version   {item.version} of {', '.join(map(str, versions))}",
        f"id        {item.id}",
        *item.schema.splitlines(),
    ]
    show(told, options.output, lines)
    return DONE


def _register(options: Namespace, node: Node) -> int:
    body = {"schema": _text(options.file)}
    found = node.send("POST", f"{_path(options.subject)}/versions", body, _Registered)
    show({"id": found.id}, options.output, [f"{options.subject} has this schema; id {found.id}"])
    return DONE


def _delete(options: Namespace, node: Node) -> int:
    path, permanent = _path(options.subject), "?permanent=true" if options.permanent else ""
    if options.version:
        versions = [node.send("DELETE", f"{path}/versions/{quote(options.version, safe='')}{permanent}", None, int)]
    else:
        versions = node.send("DELETE", path + permanent, None, list[int])
    told = {"versions": versions, "permanent": options.permanent}
    how = "deleted for good" if options.permanent else "deleted"
    show(told, options.output, [f"{options.subject}: {how}: {', '.join(map(str, versions))}"])
    return DONE


def _compatibility(options: Namespace, node: Node) -> int:
    if options.check is not None:
        return _check(options, node)
    path = f"/config/{quote(options.subject, safe='')}" if options.subject else "/config"
    if options.set:
        node.send("PUT", path, {"compatibility": options.set}, _Level)
    elif options.unset:
        node.send("DELETE", path, None, _Level)
    level = node.get(path, _Level, defaultToGlobal="true").level
    show({"subject": options.subject or None, "level": level}, options.output, [level])
    return DONE


def _check(options: Namespace, node: Node) -> int:
    if not options.subject:
        raise UsageError("schemas compatibility --check: of which subject?")
    path = f"/compatibility{_path(options.subject)}/versions?verbose=true"
    judged = node.send("POST", path, {"schema": _text(options.check)}, _Judged)
    lines = ["it would be taken"] if judged.is_compatible else ["it would not be taken", *judged.messages]
    show({"compatible": judged.is_compatible, "messages": judged.messages}, options.output, lines)
    return DONE if judged.is_compatible else REFUSED


def _path(subject: str) -> str:
    if not subject:
        raise UsageError("a subject has a name")
    return f"/subjects/{quote(subject, safe='')}"


def _truth(said: bool) -> str | None:
    return "true" if said else None


def _text(file: str) -> str:
    """Raises UsageError, OSError."""
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8") from error


COMMAND = Command(_arguments, _run)
