"""A2: a store that lost a file beside a sound journal has no way back."""

from pathlib import Path

from tests.findings.tree import Seen, cluster, until


def look(tree: Path) -> Seen:
    """A follower's CURRENT is gone, and it starts beside the other two."""
    with cluster(tree) as three:
        three.start()
        assert all(three.nodes[0].put(f"t{number}") for number in range(5))
        _, follower, other = three.roles()
        assert until(three.equal)
        follower.stop()
        (follower.data / "store/CURRENT").unlink()
        follower.start()
        until(lambda: (follower.ready and follower.topics() == other.topics()) or not follower.runs, 20.0)
        if not follower.runs:
            return Seen(True, f"it ends: {(follower.said.strip().splitlines() or [''])[-1][-160:]}")
        has = len(follower.topics())
        return Seen(
            not follower.ready or has != 5, f"after 20 s at most it is ready: {follower.ready}, with {has} of 5 topics"
        )
