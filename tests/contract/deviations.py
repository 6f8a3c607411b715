"""Where Quorate answers otherwise than Java, on purpose: deviations.toml, and how answers are compared under it.

Rules: every difference is one entry: ``case`` and ``step`` (shell patterns), ``path``, ``java`` and ``ours`` (the
texts; ``"absent"``), ``why``; several paths of a step may share an entry: ``answers``, path → [java, ours]. ``…`` ends
a beginning, on Java's side only: what we answer is written out. ``against`` restricts an entry to one kind of Java
controller; ``sometimes`` marks one that depends on who happens to lead when.
A difference without an entry fails; an entry without a difference fails too.
"""

import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.contract.speaker import Answer, Story

FILE = Path(__file__).with_name("deviations.toml")
ABSENT = "absent"
KEYS = {"case", "step", "why", "against", "sometimes"}
ANSWER = {"path", "java", "ours"}


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
            and path == self.path
            and (java.startswith(self.java[:-1]) if self.java.endswith("…") else java == self.java)
            and ours == self.ours
        )


def load() -> list[Deviation]:
    """The entries, each complete: one for each path."""
    return [one for entry in tomllib.loads(FILE.read_text())["deviation"] for one in read(entry)]


def read(entry: dict[str, Any]) -> list[Deviation]:
    """What an entry of the file says. Raises AssertionError when it leaves open what we answer."""
    answers = entry.get("answers") or {entry["path"]: (entry["java"], entry["ours"])}
    assert set(entry) - KEYS in ({"answers"}, ANSWER), entry
    assert entry["why"].strip(), entry
    assert not any("*" in path or "…" in ours for path, (_, ours) in answers.items()), entry
    rest = {name: value for name, value in entry.items() if name in KEYS}
    return [Deviation(**rest, path=path, java=java, ours=ours) for path, (java, ours) in answers.items()]


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
