"""B3: a leader that hangs, its connections open, is replaced late."""

import signal
import time
from pathlib import Path
from statistics import median

from tests.findings.tree import Node, Seen, cluster, until

TRIALS, WITHIN_S = 5, 0.6


def replaced_s(leader: Node, others: list[Node]) -> float:
    """Seconds from its stop until another one leads; it goes on afterwards."""
    assert leader.process is not None
    began = time.monotonic()
    leader.process.send_signal(signal.SIGSTOP)
    try:
        while not any(node.leader == node.id for node in others):
            assert time.monotonic() < began + 30, "nobody leads"
            time.sleep(0.005)
        return time.monotonic() - began
    finally:
        leader.process.send_signal(signal.SIGCONT)


def look(tree: Path) -> Seen:
    """Some times in turn, of whoever leads then."""
    with cluster(tree) as three:
        three.start()
        took = []
        for _ in range(TRIALS):
            leader, *others = three.roles()
            took.append(replaced_s(leader, others))
            assert until(lambda: all(node.ready for node in three.nodes))
            assert until(lambda: len({node.leader for node in three.nodes}) == 1)
        told = f"a leader that hangs is replaced after {median(took) * 1000:.0f} ms (median of {TRIALS})"
        return Seen(median(took) > WITHIN_S, told)
