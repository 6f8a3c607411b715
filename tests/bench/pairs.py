"""Another checkout of the project beside this one, in turns: what a change brought, whatever the machine gives.

Rules: both run with the same interpreter, the same libraries and under the same load; three rounds of each, and of each
figure the median. The other's leaf is its own: build it first, if it has one.
"""

import os
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final
from unittest.mock import patch

from tests.bench.harness import Figure, Run, measured, ours

ROUNDS = 3
CLIENTS = (1, 64)
COMPARED: Final = ("per_second", "p50_us", "p99_us", "leader_cpu_us", "follower_cpu_us")


def pairs(run: Run) -> None:
    """Closed loops of one client and of 64, at the other checkout and at this one."""
    rounds: dict[tuple[str, int], list[Figure]] = {}
    for number in range(1, ROUNDS + 1):
        for tree in ("other", "this"):
            with programs_of(run.beside if tree == "other" else ""), ours(run) as cluster:
                for clients in CLIENTS:
                    name = f"{tree} closed {clients}, {number}"
                    work = partial(measured, run, cluster, "commits", clients, 0.0, name.replace(" ", "-"))
                    rounds.setdefault((tree, clients), []).append(run.take(name, work))
    for clients in CLIENTS:
        run.take(f"pairs {clients}", partial(compared, rounds["other", clients], rounds["this", clients]))


def compared(other: list[Figure], this: list[Figure]) -> Figure:
    """The medians of both, and ours to theirs. Raises RuntimeError when a round failed, with its reason."""
    if failed := [figure["failed"] for figure in [*other, *this] if "failed" in figure]:
        raise RuntimeError(f"a round failed: {failed[0]}")
    found: Figure = {}
    for name in COMPARED:
        theirs, its = (median(float(figure[name]) for figure in figures) for figures in (other, this))
        found |= {f"{name}_other": theirs, f"{name}_this": its, f"{name}_ratio": round(its / theirs, 3)}
    return found


def programs_of(checkout: str) -> AbstractContextManager[object]:
    """Programs that are started meanwhile are those of this checkout; of none: ours."""
    rooms = os.pathsep.join(str(Path(checkout, name)) for name in ("services", "projections", "spark"))
    return patch.dict(os.environ, {"PYTHONPATH": rooms} if checkout else {})
