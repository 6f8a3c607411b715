"""Where Quorate answers otherwise than Java, on purpose: deviations.toml, and how answers are compared under it.

Rules: every difference is one entry: ``case``, ``step`` and ``path`` (shell patterns), ``java`` and ``ours`` (the
texts; ``"absent"``; ``…`` ends a beginning), ``why``; ``against`` restricts it to one kind of Java controller;
``sometimes`` marks one that depends on who happens to lead when.
A difference without an entry fails; an entry without a difference fails too.
"""

import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from tests.contract.speaker import Answer, Story

FILE = Path(__file__).with_name("deviations.toml")
ABSENT = "absent"
KEYS = {"case", "step", "path", "java", "ours", "why", "against", "sometimes"}


@dataclass
class Deviation:
    """One entry, and how often it was needed."""

    case: str
    step: str
    path: str
    java: str
    ours: str
    why: str
    against: str = "*"
    sometimes: bool = False
    used: int = field(default=0, compare=False)

    def covers(self, kind: str, case: str, step: str, path: str, java: str, ours: str) -> bool:
        """Is this difference the one meant?"""
        return (
            fnmatchcase(kind, self.against)
            and fnmatchcase(case, self.case)
            and fnmatchcase(step, self.step)
            and fnmatchcase(path, self.path)
            and _is(self.java, java)
            and _is(self.ours, ours)
        )


def _is(meant: str, said: str) -> bool:
    return said.startswith(meant[:-1]) if meant.endswith("…") else said == meant


def load() -> list[Deviation]:
    """The entries, each complete."""
    entries = tomllib.loads(FILE.read_text())["deviation"]
    for entry in entries:
        assert set(entry) <= KEYS, entry
        assert entry["why"].strip(), entry
    return [Deviation(**entry) for entry in entries]


def differences(java: Answer, ours: Answer) -> list[tuple[str, str, str]]:
    """(path, Java's text, ours), where they are not the same."""
    paths = sorted(java.keys() | ours.keys())
    found = [(path, java.get(path, ABSENT), ours.get(path, ABSENT)) for path in paths]
    return [(path, theirs, mine) for path, theirs, mine in found if theirs != mine]


def unexplained(kind: str, case: str, java: Story, ours: Story, entries: list[Deviation]) -> list[str]:
    """What no entry explains, in words; every entry that explains something is marked as used."""
    found = [f"step {step!r} on one side only" for step in sorted(java.keys() ^ ours.keys())]
    for step in sorted(java.keys() & ours.keys()):
        for path, theirs, mine in differences(java[step], ours[step]):
            covering = [entry for entry in entries if entry.covers(kind, case, step, path, theirs, mine)]
            for entry in covering:
                entry.used += 1
            if not covering:
                found.append(f"{kind} | {case} | {step} | {path} | java {theirs} | ours {mine}")
    return found
