"""What the tags on packets between voters cost a commit: real nodes with tags and without, second by second.

Rules: no setting leaves tags out, so the nodes' programs are changed from outside: in every second second of the clock
they send sixteen zeros, work no tag out, and take whatever comes. So the two ways share cluster, load, minute and
neighbours; each second with tags is compared with the one after it. What is left of chance is told as the error of the
mean. The packets of a commit are measured by themselves beside it (``bench_links``), where caches are warm.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean, median, stdev
from typing import Final
from unittest.mock import patch

from quorate.consensus.transport.packets import Tags
from tests.bench.bench_links import TURNS, NoTags, best_us, receiver
from tests.bench.harness import Figure, Run, cpu_s, finish_load, ours, start_load

CLIENTS: Final = (1, 64)
SECONDS: Final = 80
IN_TURNS = """\
import hmac
import time
import types

from quorate.consensus.transport import packets

tagged = packets.Tags.next
without, compare = bytes(packets.TAG_BYTES), hmac.compare_digest
packets.Tags.next = lambda self, *parts: tagged(self, *parts) if int(time.time()) % 2 else without
packets.hmac = types.SimpleNamespace(digest=hmac.digest, compare_digest=lambda *both: compare(*both) or True)
"""


def links(run: Run) -> None:
    """The packets, then closed loops of one client and of 64."""
    run.take("links packets", lambda: asyncio.run(packets()))
    with in_turns(run.folder):
        for clients in CLIENTS:
            run.take(f"links {clients}", partial(in_place, run, clients))


async def packets() -> Figure:
    """Microseconds of CPU for each kind of turn, both sides of the link, with tags and without. ``1_us``: what tags add
    to a lone commit at its leader, which sends two packets with it and is sent two that acknowledge it: one side of
    each. ``64_us``: the same for one of 64 that travel together.
    """
    ways = [receiver(Tags), receiver(NoTags)]
    found = {name: best_us(ways, TURNS[name]) for name in ("one commit", "an ack", "64 commits")}
    one, ack, many = (tagged - plain for tagged, plain in found.values())
    told: Figure = {name: [round(us, 2) for us in both] for name, both in found.items()}
    return told | {"1_us": round(one + ack, 2), "64_us": round((many + ack) / 64, 2)}


def in_place(run: Run, clients: int) -> Figure:
    """A closed loop, and what the leader spends on it in each second."""
    with ours(run) as cluster:
        leader, follower = cluster.leader(), cluster.follower()
        generator = start_load(run, "commits", cluster.rpc(leader), clients, 0.0, f"links-{clients}", SECONDS + 3)
        looks: list[tuple[int, float, float]] = []
        try:
            first = int(time.time()) + 2
            for second in range(first, first + SECONDS + 1):
                time.sleep(max(0.0, second - time.time()))
                looks.append((second, cpu_s(leader["pid"]), cluster.metric(follower, "quorate_commits_total")))
        finally:
            figure = finish_load(generator)
        if cluster.leader() is not leader:
            raise RuntimeError("the leader changed meanwhile")
    return priced(looks) | {"errors": figure["errors"], "per_second": figure["per_second"]}


def priced(looks: list[tuple[int, float, float]]) -> Figure:
    """From the second, CPU seconds used and commits made at each of these moments: the leader's CPU for a commit with
    tags and without, medians; and by how much a second with them differs from the one after it, with its error.
    """
    spent: dict[int, list[float]] = {0: [], 1: []}
    for (second, used, made), (_, used_then, made_then) in pairwise(looks[looks[0][0] % 2 == 0 :]):
        spent[second % 2].append((used_then - used) * 1e6 / max(1.0, made_then - made))
    added = [tagged - plain for tagged, plain in zip(spent[1], spent[0], strict=False)]
    tagged, plain = median(spent[1]), median(spent[0])
    return {
        "leader_cpu_us": round(tagged, 1),
        "without_us": round(plain, 1),
        "ratio": round(tagged / plain, 3),
        "added_us": round(mean(added), 1),
        "error_us": round(stdev(added) / len(added) ** 0.5, 1),
    }


@contextmanager
def in_turns(folder: Path) -> Iterator[None]:
    """Nodes that are started meanwhile tag their packets in the odd seconds of the clock only."""
    place = folder / "in-turns"
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text(IN_TURNS)
    with patch.dict(os.environ, {"PYTHONPATH": str(place)}):
        yield
