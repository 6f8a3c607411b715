"""Ask Java's controllers every case and keep what they answer: ``python -m tests.contract.record 5.3 5.5``.

Of 5.3.3 all of it is kept, of 5.5.1 what it answers otherwise: kind → case → step → path → [5.3.3, 5.5.1].
"""

import json
import sys
import tempfile
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Final

from quorate.wire.remoting import HeaderType
from tests.contract.cases import CASES, POISON
from tests.contract.deviations import ABSENT, differences
from tests.contract.speaker import Story, tell
from tests.peers import PEERS

GOLDEN = Path(__file__).parent / "golden"
KINDS: Final = ("dledger", "jraft")
JARS: Final = {"5.3": "rocketmq", "5.5": "rocketmq-controller-5.5"}
"""The peer that has a version's controllers."""
ENDED_BY: Final = {"jraft 5.5": frozenset({"questions"})}
"""Cases that end a newer version's controllers too (1006 about an object): nothing is recorded of them."""
NEWER = GOLDEN / "java-5.5.json"
Stories = dict[str, Story]
Changes = dict[str, dict[str, dict[str, list[str]]]]


def answers_of(
    kind: str, controllers: list[str], header_type: HeaderType = HeaderType.JSON, version: str = "5.3"
) -> Stories:
    """Every case through the leader's address."""
    return {
        name: tell(case, f"{name}-{header_type.name}", controllers, follower=False, header_type=header_type)
        for name, case in CASES.items()
        if name not in POISON[kind] | ended_by(kind, version)
    }


def ended_by(kind: str, version: str) -> frozenset[str]:
    """Cases that this version does not survive, and 5.3.3 does."""
    return ENDED_BY.get(f"{kind} {version}", frozenset())


def recorded(kind: str, version: str) -> Stories:
    """What a version's controllers of a kind answered."""
    stories: Stories = json.loads((GOLDEN / f"java-{kind}.json").read_text())
    kept = {case: story for case, story in stories.items() if case not in ended_by(kind, version)}
    return kept if version == "5.3" else changed(kept, json.loads(NEWER.read_text())[kind])


def changes(before: Mapping[str, Story], after: Mapping[str, Story]) -> Changes:
    """Where the newer answers otherwise."""
    assert before.keys() == after.keys()
    found: Changes = {}
    for case, story in before.items():
        assert story.keys() == after[case].keys(), case
        for step, answer in story.items():
            if differs := {path: [old, new] for path, old, new in differences(answer, after[case][step])}:
                found.setdefault(case, {})[step] = differs
    return found


def changed(stories: Stories, found: Changes) -> Stories:
    """The newer's answers, by the older's and where they differ."""
    newer = deepcopy(stories)
    for case, steps in found.items():
        for step, paths in steps.items():
            answer = dict(newer[case][step])
            for path, (old, new) in paths.items():
                assert answer.pop(path, ABSENT) == old, (case, step, path)
                if new != ABSENT:
                    answer[path] = new
            newer[case][step] = answer
    return newer


def asked(kind: str, version: str) -> Stories:
    """Start three controllers of a kind, and ask."""
    from tests.rocketmq.stock import JavaControllers, Stock

    with tempfile.TemporaryDirectory() as work:
        stock = Stock(Path(work), PEERS / JARS[version] / "lib")
        try:
            return answers_of(kind, JavaControllers(stock, kind).addresses, version=version)
        finally:
            stock.stop()


def main(versions: list[str]) -> None:
    """Write golden/java-<kind>.json, golden/java-5.5.json."""
    if "5.3" in versions:
        for kind in KINDS:
            _write(GOLDEN / f"java-{kind}.json", asked(kind, "5.3"))
    if "5.5" in versions:
        _write(NEWER, {kind: _changes_of(kind) for kind in KINDS})


def _changes_of(kind: str) -> Changes:
    newer = asked(kind, "5.5")
    return changes({case: story for case, story in recorded(kind, "5.3").items() if case in newer}, newer)


def _write(path: Path, found: object) -> None:
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
