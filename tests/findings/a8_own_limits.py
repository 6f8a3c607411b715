"""A8: a limit that decides what is kept is each node's own, and the nodes keep different state."""

import time
from pathlib import Path

from tests.findings.tree import TOPIC, Seen, cluster, until


def look(tree: Path) -> Seen:
    """Node 1 is set to remember two requests; twenty with an id are made."""
    with cluster(tree) as three:
        for node in three.nodes:
            node.start("--set", f"requests.remembered_max={2 if node.id == 1 else 1000}")
        assert until(lambda: all(node.ready for node in three.nodes))
        for number in range(20):
            key = {"idempotency-key": f"{time.time_ns() // 1_000_000}-{number}"}
            assert three.nodes[0].ask("PUT", f"/v1/topics/t{number}", TOPIC, key).status == 200
        assert until(three.equal)
        hashes = {node.id: node.get("/v1/state-hash").get("hash", "")[:8] for node in three.nodes}
        return Seen(len(set(hashes.values())) > 1, f"state by node, at one offset: {hashes}")
