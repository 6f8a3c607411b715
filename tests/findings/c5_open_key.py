"""C5: a key that everybody on the machine may read starts without a word."""

from pathlib import Path

from tests.findings.tree import Seen, cluster, until


def look(tree: Path) -> Seen:
    """The cluster's key has mode 0666; the modes of the data are looked at, too."""
    with cluster(tree, 1) as alone:
        (node,) = alone.nodes
        (node.folder.parent / "cluster.key").chmod(0o666)
        node.start()
        until(lambda: node.ready or not node.runs)
        if not node.runs:
            return Seen(False, f"it refuses to start: {node.said.strip().splitlines()[-1][-120:]}")
        modes = sorted({f"{file.stat().st_mode & 0o777:o}" for file in node.data.rglob("*.sst")})
        return Seen(True, f"it serves with a key of 0666; its tables have {modes}")
