"""B11: nothing raises the feature level, so no new kind of event can ever be switched on."""

from pathlib import Path

from tests.findings.tree import Seen, cluster


def look(tree: Path) -> Seen:
    """A lone node is asked for it."""
    with cluster(tree, 1) as alone:
        alone.start()
        answer = alone.nodes[0].ask("GET", "/v1/feature")
        return Seen(answer.status != 200, f"GET /v1/feature is answered {answer.status}")
