"""Another checkout of the project beside this one, in turns: what a change brought, whatever the machine gives.

Rules: both run with the same interpreter, the same libraries and under the same load; three rounds of each, and of each
figure the median. The other's leaf is its own: build it first, if it has one.
"""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final
from unittest.mock import patch

from tests.bench.harness import LATENCIES, Figure, Ours, Run, measured, ours, rest, rss_mib

ROUNDS = 3
LOADS: Final = (
    ("1", "commits", 1, 0.0),
    ("64", "commits", 64, 0.0),
    ("reads 64", "reads", 64, 0.0),
    ("reads 500/s", "reads", 16, 500.0),
    ("heartbeats 10000/s", "beats", 500, 10_000.0),
)
"""Name, mode, clients, rate (0: closed loop)."""
COMPARED: Final = ("per_second", "p50_us", "p99_us", "leader_cpu_us", "follower_cpu_us")
AT_REST: Final = ("leader_pct", "follower_pct", "rss_mib")


def pairs(run: Run) -> None:
    """Commits, reads and heartbeats, and a cluster that nobody asks, at the other checkout and at this one."""
    rounds: dict[tuple[str, str], list[Figure]] = {}
    for number in range(1, ROUNDS + 1):
        for tree in ("other", "this"):
            with programs_of(run.beside if tree == "other" else ""), ours(run) as cluster:
                found = run.take(f"{tree} rest, {number}", partial(_at_rest, cluster))
                rounds.setdefault((tree, "rest"), []).append(found)
                for load, mode, clients, rate in LOADS:
                    name = f"{tree} {load}, {number}"
                    file = name.replace(" ", "-").replace("/", "-")
                    work = partial(measured, run, cluster, mode, clients, rate, file)
                    rounds.setdefault((tree, load), []).append(run.take(name, work))
    for load, mode, *_ in LOADS:
        names = [name for name in COMPARED if mode != "beats" or name not in LATENCIES]
        run.take(f"pairs {load}", partial(compared, rounds["other", load], rounds["this", load], names))
    run.take("pairs rest", partial(compared, rounds["other", "rest"], rounds["this", "rest"], AT_REST))


def _at_rest(cluster: Ours) -> Figure:
    return rest(cluster, 5.0) | {"rss_mib": round(rss_mib(cluster.leader()["pid"]), 1)}


def compared(other: list[Figure], this: list[Figure], names: Sequence[str]) -> Figure:
    """The medians of both, and ours to theirs. Raises RuntimeError when a round failed, with its reason."""
    if failed := [figure["failed"] for figure in [*other, *this] if "failed" in figure]:
        raise RuntimeError(f"a round failed: {failed[0]}")
    found: Figure = {}
    for name in names:
        theirs, its = (median(float(figure[name]) for figure in figures) for figures in (other, this))
        found |= {f"{name}_other": theirs, f"{name}_this": its, f"{name}_ratio": round(its / theirs, 3)}
    return found


def programs_of(checkout: str) -> AbstractContextManager[object]:
    """Programs that are started meanwhile are those of this checkout; of none: ours."""
    rooms = os.pathsep.join(str(Path(checkout, name)) for name in ("services", "projections", "spark"))
    return patch.dict(os.environ, {"PYTHONPATH": rooms} if checkout else {})
