"""A4: a node that has applied what the others' log contradicts replaces it after a restart, and serves."""

import shutil
from pathlib import Path

from tests.findings.tree import Cluster, Seen, cluster, put_back, until

FORK_S = 8.0


def fork(three: Cluster) -> str:
    """What L says of its state once it is back among two whose directories went back to before its last topics; empty
    when it does not serve.
    """
    leader, b, c = three.roles()
    three.stop()
    for node in (b, c):
        shutil.copytree(node.data, node.folder / "copy")
    three.start()
    assert all(three.nodes[0].put(f"old-{number}") for number in range(3))
    assert until(three.equal)
    three.stop()
    for node in (b, c):
        put_back(node.folder / "copy", node.data)
        node.start()
    until(lambda: b.put("new-0"), FORK_S)
    for number in range(1, 6):
        b.put(f"new-{number}")
    leader.start()
    until(lambda: leader.ready or not leader.runs, 20.0)
    until(lambda: leader.topics() == b.topics(), 5.0)
    if not (leader.ready and b.ready):
        return ""
    mine, theirs = leader.topics(), b.topics()
    if mine == theirs:
        return ""
    return f"{len(mine - theirs)} topics that the others have not, {len(theirs - mine)} missing"


def look(tree: Path) -> Seen:
    """The one that kept its directory stops, or the others wait; nobody serves another state."""
    with cluster(tree) as three:
        three.start()
        other = fork(three)
        if other:
            return Seen(True, f"a restarted node is ready with a state of its own: {other}")
        leader = next((node for node in three.nodes if not node.runs), None)
        how = f"node {leader.id} stopped by itself" if leader else "those that went back waited for it, all are equal"
        return Seen(False, f"no node serves a state that others contradict: {how}")
