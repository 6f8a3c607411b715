"""``quorate at N …`` and ``quorate diff A B``: what was, and what changed since.

Rules: the past is asked of a node, which replays its own log; ``at N`` is what every read command takes as ``--at N``.
"""

from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Iterable, Mapping

import msgspec

from quorate.cli.client import Node, add_node
from quorate.cli.command import DONE, Command
from quorate.cli.freshness import PATIENCE_S
from quorate.cli.output import add_output, columns, show
from quorate.errors import UsageError
from quorate.gateway.http.answers import Diff
from quorate.metadata.diff import Change

READS = ("status", "quorum", "brokers", "topics", "config", "elections", "why", "state-hash", "log")
"""The commands that can look at the past."""
PAGE = 200


def _at_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("offset", type=int, metavar="N", help="the events before this offset are reflected")
    parser.add_argument("words", nargs=REMAINDER, metavar="COMMAND …", help=", ".join(READS))


def at(options: Namespace) -> int:
    """Run a read command on the state at an offset."""
    from quorate.cli import program

    words = options.words
    if not words or words[0] not in READS:
        raise UsageError(f"at {options.offset}: expected one of {', '.join(READS)}")
    inner = program.parser(words[0]).parse_args([*words, "--at", str(options.offset)])
    status: int = inner.run(inner)
    return status


def _diff_arguments(parser: ArgumentParser) -> None:
    add_node(parser)
    add_output(parser)
    parser.add_argument("start", type=int, metavar="A", help="the earlier offset")
    parser.add_argument("stop", type=int, nargs="?", metavar="B", help="the later one (default: now)")


def diff(options: Namespace) -> int:
    """Entities added, removed and changed between two offsets."""
    node, after = Node(options.node, PATIENCE_S), None
    entities: list[Change] = []
    while True:
        question = {"from": options.start, "to": options.stop, "limit": PAGE, "after": after}
        page = node.get("/v1/diff", Diff, **question)
        entities += page.entities
        options.stop, after = page.offset, page.next
        if after is None:
            break
    answer = msgspec.structs.replace(page, entities=entities, next=None, events=[], events_next=None)
    plain = msgspec.to_builtins(answer)
    del plain["events"], plain["events_next"], plain["next"]
    show(plain, options.output, _table(answer))
    return DONE


def _table(answer: Diff) -> Iterable[str]:
    yield f"{answer.event_count} events from offset {answer.start} to {answer.offset}; {answer.entity_count} entities"
    rows = [(change.change, change.key, *row) for change in answer.entities for row in _fields(change)]
    if rows:
        yield ""
        yield from columns(("", "entity", "field", "before", "after"), rows)


def _fields(change: Change) -> Iterable[tuple[object, object, object]]:
    """One line a field that differs; an entity that came or went is one line."""
    if change.before is None or change.after is None:
        yield "", "", ""
        return
    for name in change.after:
        yield name, _short(change.before[name]), _short(change.after[name])


def _short(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={part}" for name, part in value.items())[:60]
    return "none" if value is None else str(value)[:60]


AT = Command(_at_arguments, at)
DIFF = Command(_diff_arguments, diff)
