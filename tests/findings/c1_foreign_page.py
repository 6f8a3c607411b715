"""C1: a page of another origin changes the cluster through the browser of whoever looks at it."""

from pathlib import Path

from tests.findings.tree import TOPIC, Seen, cluster

PAGE = {"origin": "http://evil.example", "content-type": "text/plain", "sec-fetch-site": "cross-site"}


def look(tree: Path) -> Seen:
    """What ``fetch`` with ``no-cors`` sends, and a name that was bound anew to this address."""
    with cluster(tree, 1) as alone:
        (node,) = alone.nodes
        alone.start()
        foreign = node.ask("PUT", "/v1/topics/foreign", TOPIC, PAGE).status
        rebound = node.ask("PUT", "/v1/topics/rebound", TOPIC, {"host": "evil.example"}).status
        return Seen(200 in (foreign, rebound), f"a foreign page gets {foreign}, a name bound anew {rebound}")
