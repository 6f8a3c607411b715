"""B1: brokers that applied for an id and are never heard make every pass longer, until leaders are deposed."""

import struct
import time
from pathlib import Path
from statistics import median

from tests.findings.lines import asked, line
from tests.findings.tree import Node, Seen, cluster, until

IDS, WINDOW, WRITES = 9_000, 64, 40
UNHEARD_S = 10.0
"""Until a broker that was never heard is missed."""
TIMES = 10
"""Slower than before by so much: the defect makes it hundreds of times, a busy machine two or three."""


def apply_for_ids(port: int) -> None:
    """So many ids, for brokers that nobody ever runs."""
    with line(port, 60.0) as client, client.makefile("rb") as answers:

        def answered() -> None:
            (size,) = struct.unpack(">I", answers.read(4))
            answers.read(size)

        for number in range(IDS):
            names = {"clusterName": "c", "brokerName": f"nobody-{number}"}
            client.sendall(asked(1013, number, **names, appliedBrokerId=1, registerCheckCode="h:1;1"))
            if number >= WINDOW:
                answered()
        for _ in range(WINDOW):
            answered()


def write_s(node: Node, tag: str) -> float:
    """Median seconds of a write, one after the other; one that is refused counts as long as it took."""
    took = []
    for number in range(WRITES):
        began = time.monotonic()
        node.put(f"{tag}-{number}")
        took.append(time.monotonic() - began)
    return median(took)


def look(tree: Path) -> Seen:
    """Writes of a client before, and while the ids are found missing."""
    with cluster(tree) as three:
        three.start()
        leader, _, _ = three.roles()
        before, term = write_s(leader, "before"), leader.get("/v1/status")["term"]
        apply_for_ids(leader.ports["rpc"])
        time.sleep(UNHEARD_S)
        beside = write_s(leader, "beside")
        led = until(lambda: leader.leader, 20.0)
        terms = int(leader.get("/v1/status").get("term", term)) - term
        told = f"a write takes {before * 1000:.0f} ms, {beside * 1000:.0f} beside {IDS:,} ids; new terms: {terms}"
        told += "" if led else "; nobody leads"
        return Seen(not led or terms > 0 or beside > TIMES * before, told)
