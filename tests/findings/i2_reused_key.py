"""I2: another request under a used idempotency key is answered with the first one's reply, and never runs."""

import time
from pathlib import Path

from tests.findings.tree import TOPIC, Seen, cluster


def look(tree: Path) -> Seen:
    """Two topics under one key."""
    with cluster(tree, 1) as alone:
        (node,) = alone.nodes
        alone.start()
        key = {"idempotency-key": f"{time.time_ns() // 1_000_000}-one"}
        assert node.ask("PUT", "/v1/topics/first", TOPIC, key).status == 200
        second = node.ask("PUT", "/v1/topics/second", TOPIC, key)
        kept = "second" in node.topics()
        return Seen(second.status == 200 and not kept, f"the second is answered {second.status}; is it there? {kept}")
