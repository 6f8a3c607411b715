"""A5: a leader's clock is a year ahead for a moment, and the log's time stays a year ahead."""

import time
from pathlib import Path

from tests.findings.tree import Node, Seen, cluster, until

YEAR_MS = 365 * 86_400_000
CLOCK = """
import pathlib, time
true, place = time.time_ns, pathlib.Path(__file__).with_name("ahead")
time.time_ns = lambda: true() + (31_536_000_000_000_000 if place.exists() else 0)
"""
"""Python reads it before anything else: the wall clock is a year ahead while a file is there."""


def last_time_ms(node: Node) -> int:
    """When the last event happened, as it says."""
    return int(node.get("/v1/log?from=-1&limit=1")["events"][-1]["time_ms"])


def look(tree: Path) -> Seen:
    """One second; then the clock is right again, two topics are written, one with an honest request id."""
    with cluster(tree) as three:
        for node in three.nodes:
            (node.folder / "sitecustomize.py").write_text(CLOCK)
            node.start(environment={"PYTHONPATH": str(node.folder)})
        assert until(lambda: all(node.ready for node in three.nodes))
        leader, other, _ = three.roles()
        ahead = leader.folder / "ahead"
        ahead.touch()
        leader.put("while-ahead")
        time.sleep(1.0)
        ahead.unlink()
        assert until(lambda: other.put("afterwards"))
        lead_ms = last_time_ms(other) - time.time_ns() // 1_000_000
        days = round(lead_ms / 86_400_000)
        told = f"a leader's clock was a year ahead for a second: events are {days} days ahead"
        return Seen(lead_ms > YEAR_MS / 2, told)
