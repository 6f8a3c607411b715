"""A7: a lone node with an older journal beside its store starts, and never serves."""

import shutil
from pathlib import Path

from tests.findings.tree import Seen, cluster, put_back, until


def look(tree: Path) -> Seen:
    """Its journal goes back to a copy from before twenty topics."""
    with cluster(tree, 1) as alone:
        (node,) = alone.nodes
        alone.start()
        assert node.put("first")
        node.stop()
        copy = node.folder / "copy"
        shutil.copytree(node.data / "journal", copy)
        alone.start()
        assert all(node.put(f"t{number}") for number in range(20))
        node.stop()
        put_back(copy, node.data / "journal")
        node.start()
        serves = until(lambda: node.put("last") or not node.runs, 15.0)
        if node.runs and not serves:
            return Seen(True, "it runs for 15 s, takes no write and names no reason")
        if node.runs:
            return Seen(len(node.topics()) < 22, f"it serves {len(node.topics())} of 22 topics")
        return Seen(False, f"it refuses to start: {node.said.strip().splitlines()[-1][:160]}")
