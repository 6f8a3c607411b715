"""A6: the journals of two voters are exchanged, and nobody notices."""

from pathlib import Path

from tests.findings.tree import Seen, cluster, until


def look(tree: Path) -> Seen:
    """All are stopped, the journals of nodes 1 and 2 change places, and both start beside node 3."""
    with cluster(tree) as three:
        three.start()
        assert three.nodes[0].put("t")
        assert until(three.equal)
        three.stop()
        one, two, _ = three.nodes
        (one.data / "journal").rename(one.folder / "aside")
        (two.data / "journal").rename(one.data / "journal")
        (one.folder / "aside").rename(two.data / "journal")
        for node in three.nodes:
            node.start()
        until(lambda: all(node.ready for node in three.nodes) or not (one.runs or two.runs), 15.0)
        voting = [node.id for node in (one, two) if node.get("/v1/quorum").get("voting")]
        if voting:
            return Seen(True, f"nodes {voting} vote with another voter's journal")
        return Seen(False, f"both refuse to start: {one.said.strip().splitlines()[-1][:160]}")
