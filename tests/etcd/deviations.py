"""Where Quorate answers otherwise than Debian's etcd, on purpose: deviations.toml, and how stories are compared by it.

Rules: an entry is one line: ``case`` and ``step`` (shell patterns), ``path``, ``etcd`` and ``ours`` (JSON; ``absent``;
``…`` at the end of what etcd says is whatever follows), ``why``. ``way`` restricts it to ``leader`` or ``follower``. A
difference without an entry fails; an entry without a difference fails too. What docs/grpc.md says of differences has
an entry too: ``documented`` names the case that brings it out, ``untold`` says why none can.
"""

import json
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.etcd.teller import Story

FILE: Final = Path(__file__).with_name("deviations.toml")
ABSENT: Final = "absent"
NO_STEP: Final = {ABSENT: True}
WHOLE: Final = "whole"


class Deviation(msgspec.Struct, forbid_unknown_fields=True):
    """One line, and how often it was needed."""

    case: str
    step: str
    path: str
    etcd: str
    ours: str
    why: str
    way: str = "*"
    used: int = 0

    def covers(self, way: str, case: str, step: str, path: str, etcd: str, ours: str) -> bool:
        """Is this difference the one meant?"""
        return (
            fnmatchcase(way, self.way)
            and fnmatchcase(case, self.case)
            and fnmatchcase(step, self.step)
            and path == self.path
            and (etcd.startswith(self.etcd[:-1]) if self.etcd.endswith("…") else etcd == self.etcd)
            and ours == self.ours
        )


class Documented(msgspec.Struct, forbid_unknown_fields=True):
    """Words of docs/grpc.md about a difference, and the case that brings it out."""

    what: str
    case: str


class Untold(msgspec.Struct, forbid_unknown_fields=True):
    """The same about one that no case brings out, and why not."""

    what: str
    why: str


def of_the_docs() -> tuple[list[Documented], list[Untold]]:
    """The other two tables of deviations.toml."""
    found = tomllib.loads(FILE.read_text())
    return msgspec.convert(found["documented"], list[Documented]), msgspec.convert(found["untold"], list[Untold])


def load() -> list[Deviation]:
    """The lines of deviations.toml. Raises AssertionError when one leaves open why, or what we answer."""
    return [read(line) for line in tomllib.loads(FILE.read_text())["deviations"]]


def read(line: dict[str, Any]) -> Deviation:
    """One line."""
    found = msgspec.convert(line, Deviation)
    assert found.why.strip(), line
    assert "*" not in found.path and not found.ours.endswith("…") and not found.used, line
    return found


def flat(told: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Path and JSON of everything in an answer; what is empty stays visible."""
    if isinstance(told, dict) and told:
        for name, value in told.items():
            yield from flat(value, f"{path}.{name}" if path else name)
    elif isinstance(told, list) and told:
        for at, value in enumerate(told):
            yield from flat(value, f"{path}[{at}]")
    else:
        yield path, json.dumps(told, ensure_ascii=False)


def differences(etcd: Any, ours: Any) -> list[tuple[str, str, str]]:
    """(path, etcd's JSON, ours), where they are not the same. An answer of another kind (an error, the end of a watch)
    is one difference.
    """
    if any((word in etcd) != (word in ours) for word in ("error", "canceled", ABSENT)):
        return [(WHOLE, _brief(etcd), _brief(ours))]
    theirs, mine = dict(flat(etcd)), dict(flat(ours))
    paths = sorted(theirs.keys() | mine.keys())
    found = [(path, theirs.get(path, ABSENT), mine.get(path, ABSENT)) for path in paths]
    return [
        one
        for one in found
        if one[1] != one[2] and not (_empty(one[1], one[0], mine) or _empty(one[2], one[0], theirs))
    ]


def _empty(told: str, path: str, others: dict[str, str]) -> bool:
    """Is it an empty part that has something in it on the other side, where it is told?"""
    parts = (f"{path}.", f"{path}[") if path else ("",)
    return told in {"{}", "[]"} and any(other.startswith(parts) for other in others if other != path)


def _brief(told: Any) -> str:
    if told == NO_STEP:
        return ABSENT
    if "error" not in told:
        return json.dumps(told, ensure_ascii=False, sort_keys=True)
    return f"{told['error']['code']}: {told['error']['details']}"


def unexplained(way: str, case: str, etcd: Story, ours: Story, entries: list[Deviation]) -> list[str]:
    """What no entry explains, in words; every entry that explains something is marked as used.

    A step that is on one side only is a difference of the whole, for a story may go on from an error.
    """
    found = []
    for step in sorted(etcd.keys() | ours.keys()):
        for path, theirs, mine in differences(etcd.get(step, NO_STEP), ours.get(step, NO_STEP)):
            covering = [entry for entry in entries if entry.covers(way, case, step, path, theirs, mine)]
            for entry in covering:
                entry.used += 1
            if not covering:
                found.append(f"{way} | {case} | {step} | {path} | etcd {theirs} | ours {mine}")
    return found
