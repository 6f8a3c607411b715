"""``quorate at N …`` and ``quorate diff A B``: what was, and what changed since.

Rules: the past is asked of a node, which replays its own log; ``at N`` is what every read command takes as ``--at N``.
"""

from argparse import REMAINDER, ArgumentParser, Namespace
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from quorate.cli.client import Node, add_node
from quorate.cli.command import DONE, Command
from quorate.cli.facts import clock
from quorate.cli.freshness import PATIENCE_S
from quorate.cli.output import add_output, columns, show
from quorate.errors import UsageError
from quorate.gateway.http.answers import Diff
from quorate.model.diff import Change, Fields
from quorate.model.election_words import asker, rule_words
from quorate.model.words import lease_number, plural, span
from quorate.terminal import visible_bytes

READS = (
    *("status", "quorum", "brokers", "topics", "config", "elections", "why", "members", "state-hash", "log"),
    *("kv", "lease", "journal", "mqtt", "offsets", "schemas", "feature", "whatif"),
)
"""The commands that can look at the past."""
CHANGES = (
    *("create", "change", "delete", "elect", "transfer", "raise", "drain", "forget"),
    *("put", "del", "grant", "revoke", "keep-alive", "commit", "register"),
)
"""The words behind those that change something."""
PAGE = 200
SAID = {"trigger": asker, "decided_by": rule_words}
"""Fields of an election, and how all others say them."""
DURATIONS = ("timeout_ms",)
"""Fields in milliseconds that are no times. Of a time, 0 is none."""
CODES = ("failed_inputs",)
"""Fields that are no words: what a program keeps for itself."""


def _at_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("offset", type=int, metavar="N", help="the events before this offset are reflected")
    parser.add_argument("words", nargs=REMAINDER, metavar="COMMAND …", help=", ".join(READS))


def at(options: Namespace) -> int:
    """Run a read command on the state at an offset."""
    from quorate.cli import program

    words = options.words
    if not words or words[0] not in READS:
        raise UsageError(f"at {options.offset}: expected one of {', '.join(READS)}")
    parser = program.parser(words[0])
    typed = parser.parse_args(words)
    if _changes(typed):
        raise UsageError("the past cannot be changed")
    if not typed.parser.takes("--at"):
        raise UsageError(f"{typed.parser.prog.removeprefix('quorate ')} does not show the past")
    inner = parser.parse_args([*words, "--at", str(options.offset)])
    status: int = inner.run(inner)
    return status


def _changes(typed: Namespace) -> bool:
    """A level of compatibility is shown, or changed, by one word."""
    said = vars(typed)
    return said.get("action") in CHANGES or bool(said.get("set") or said.get("unset"))


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
    entities = plural(answer.entity_count, "entity", "entities")
    yield f"{plural(answer.event_count, 'event')} from offset {answer.start} to {answer.offset}; {entities}"
    rows = [(change.change, _entity(change), *row) for change in answer.entities for row in _fields(change)]
    if rows:
        yield ""
        yield from columns(("", "entity", "field", "before", "after"), rows)


def _entity(change: Change) -> str:
    return f"lease/{lease_number(int(change.name))}" if change.kind == "lease" else change.key


def _fields(change: Change) -> Iterable[tuple[str, str, str]]:
    """One line a value that differs, however deep; an entity that came or went was, or will be, nothing."""
    before, after = (_for_eyes(_stored(change.kind, side or {})) for side in (change.before, change.after))
    rows = list[tuple[str, str, str]]()
    for name, value in (after or before).items():
        absent = type(value)() if isinstance(value, (dict, list)) else None
        rows += differences(_spoken(name), before.get(name, absent), after.get(name, absent))
    yield from rows or [("", "", "")]


def _stored(kind: str, fields: Fields) -> Fields:
    """A key, a lease or an election as the commands about it show it; whatever else as it is."""
    if election := fields.get("election"):
        said = {name: SAID[name](value) if name in SAID else value for name, value in election.items()}
        return {**fields, "election": said}
    if kind not in ("key", "lease"):
        return fields
    leases = {name: lease_number(fields[name]) for name in ("lease", "lease_id") if fields.get(name)}
    value = {"value": visible_bytes(b64decode(fields["value"]))} if "value" in fields else {}
    return {**fields, **({"lease": None} if "lease" in fields else {}), **leases, **value}


def _for_eyes(fields: Fields) -> Fields:
    """The same without what is no words, and with times and durations as such."""
    return dict(_named(name, value) for name, value in fields.items() if name not in CODES)


def _named(name: str, value: object) -> tuple[str, object]:
    if not isinstance(value, int) or not name.endswith("_ms"):
        return name, _shown(value)
    if name in DURATIONS:
        return name.removesuffix("_ms"), span(value)
    return name.removesuffix("_ms"), clock(value) if value else None


def _shown(value: object) -> object:
    if isinstance(value, list):
        return [_shown(part) for part in value]
    return _for_eyes(value) if isinstance(value, dict) else value


def differences(name: str, before: object, after: object) -> Iterator[tuple[str, str, str]]:
    """The values that differ, in words: a replica by its id, an election by its parts."""
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for part in [*before, *(part for part in after if part not in before)]:
            yield from differences(f"{name} {_spoken(str(part))}", before.get(part), after.get(part))
    elif (old := _by_id(before)) is not None and (new := _by_id(after)) is not None:
        for number in sorted(old.keys() | new.keys()):
            yield from differences(f"{name.removesuffix('s')} {number}", old.get(number), new.get(number))
    elif (earlier := in_words(before)) != (later := in_words(after)):
        yield name, earlier, later


def _by_id(value: object) -> dict[int, object] | None:
    """Members of a list by the number each has; None where they have none."""
    if not isinstance(value, list):
        return None
    members = [member for member in value if isinstance(member, Mapping)]
    by_id: dict[int, object] = {member.get("broker_id", member.get("id")): member for member in members}
    return by_id if len(by_id) == len(value) and None not in by_id else None


def in_words(value: object) -> str:
    """A value as people say it."""
    if value is None or value in ("", [], {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{_spoken(str(name))} {in_words(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(in_words, value))
    return str(value)


def _spoken(name: str) -> str:
    return name.replace("_", " ")


AT = Command(_at_arguments, at)
DIFF = Command(_diff_arguments, diff)
