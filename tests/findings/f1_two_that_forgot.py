"""F: two voters of five that lost their journals wait for each other for ever."""

import shutil
from pathlib import Path

from tests.findings.tree import Seen, cluster, until

WATCHED_S = 20.0


def look(tree: Path) -> Seen:
    """Their journals are gone while both are stopped; both start beside the other three."""
    with cluster(tree, 5) as five:
        five.start()
        assert five.nodes[0].put("t")
        assert until(five.equal)
        led = five.nodes[0].leader
        forgetful = [node for node in five.nodes if node.id != led][:2]
        for node in forgetful:
            node.stop()
        for node in forgetful:
            shutil.rmtree(node.data / "journal")
            node.start()
        back = until(lambda: all(node.get("/v1/quorum").get("voting") for node in forgetful), WATCHED_S)
        voting = [node.id for node in forgetful if node.get("/v1/quorum").get("voting")]
        return Seen(
            not back, f"of nodes {[node.id for node in forgetful]} that forgot, after {WATCHED_S:.0f} s {voting} vote"
        )
