"""Ask Debian's etcd every case and keep what it answers: ``python -m tests.etcd.record`` writes ``recorded.json``."""

import json
import tempfile
from pathlib import Path
from typing import Final

from tests.etcd.cases import CASES
from tests.etcd.client import Client
from tests.etcd.oracle import started
from tests.etcd.teller import Story, tell
from tests.peers import PEERS

FILE: Final = Path(__file__).with_name("recorded.json")


def stories(address: str) -> dict[str, Story]:
    """Every case, told by one server."""
    with Client(address) as client:
        return {name: tell(case, name, client) for name, case in CASES.items()}


def both(addresses: list[str]) -> dict[str, dict[str, Story]]:
    """Told by the leader, and by a follower where that one says something else."""
    leader, follower = map(stories, addresses[:2])
    return {"leader": leader, "follower": {case: told for case, told in follower.items() if told != leader[case]}}


def load() -> dict[str, dict[str, Story]]:
    """What etcd answered: way → case → story, complete."""
    found: dict[str, dict[str, Story]] = json.loads(FILE.read_text())
    return {"leader": found["leader"], "follower": found["leader"] | found["follower"]}


def text(recorded: dict[str, dict[str, Story]]) -> str:
    """One line for each step, so that a change of one is a change of one line."""
    ways = (f"{json.dumps(way)}: {_cases(told)}" for way, told in recorded.items())
    return "{\n" + ",\n".join(ways) + "\n}\n"


def _cases(told: dict[str, Story]) -> str:
    cases = (
        f" {json.dumps(case, ensure_ascii=False)}: {{\n"
        + ",\n".join(
            f"  {json.dumps(step)}: {json.dumps(answer, ensure_ascii=False, sort_keys=True)}"
            for step, answer in story.items()
        )
        + "\n }"
        for case, story in told.items()
    )
    return "{\n" + ",\n".join(cases) + "\n}"


def main() -> None:
    """Write recorded.json."""
    with (
        tempfile.TemporaryDirectory() as folder,
        started(PEERS / "etcd-server" / "etcd-server", Path(folder)) as addresses,
    ):
        FILE.write_text(text(both(addresses)))


if __name__ == "__main__":
    main()
