"""A1: two of three voters lose their directories, and found an empty cluster under the old id."""

import shutil
from pathlib import Path

from tests.findings.tree import Seen, cluster, until

WATCHED_S = 12.0


def look(tree: Path) -> Seen:
    """Five topics are acknowledged; nodes 1 and 2 are wiped; all three start."""
    with cluster(tree) as three:
        three.start()
        assert all(three.nodes[0].put(f"t{number}") for number in range(5))
        assert until(three.equal)
        three.stop()
        wiped, left = three.nodes[:2], three.nodes[2]
        for node in wiped:
            shutil.rmtree(node.data)
        for node in three.nodes:
            node.start()
        refounded = until(lambda: any(node.ready for node in wiped), WATCHED_S)
        if not refounded:
            return Seen(False, f"two wiped voters founded nothing in {WATCHED_S:.0f} s; node 3 has its events")
        empty = next(node for node in wiped if node.ready)
        return Seen(
            empty.topics() != left.topics(),
            f"two wiped voters are ready with {len(empty.topics())} topics; node 3, alone with five, is shut out",
        )
