"""A3: a voter whose directory is put back from an older copy elects itself with one that was away."""

import shutil
from pathlib import Path

from tests.findings.tree import Seen, cluster, put_back, until

WRITES = {f"acknowledged-{number}" for number in range(3)}


def look(tree: Path) -> Seen:
    """B is copied while it is stopped, and comes back. L and B acknowledge three topics while C is away. B goes back to
    its copy and is alone with C; then L joins them.
    """
    with cluster(tree) as three:
        three.start()
        leader, b, c = three.roles()
        b.stop()
        copy = b.folder / "copy"
        shutil.copytree(b.data, copy)
        three.start(b)
        assert until(three.equal)
        c.stop()
        assert all(leader.put(name) for name in sorted(WRITES))
        assert until(lambda: leader.offset == b.offset)
        b.stop()
        leader.stop()
        put_back(copy, b.data)
        b.start()
        c.start()
        until(lambda: c.put("alone"), 8.0)
        if not c.topics() >= {"alone"}:
            leader.start()
            until(lambda: all(node.topics() >= WRITES for node in three.nodes), 20.0)
        lost = WRITES - c.topics()
        if lost:
            return Seen(True, f"the copy voted at once: {len(lost)} of 3 acknowledged topics are gone")
        return Seen(False, "the copy did not vote until the leader came: all 3 acknowledged topics are there")
