"""G1: a Kafka request that is not served discards the answers before it."""

from pathlib import Path

from tests.findings.lines import kafka, told
from tests.findings.tree import Seen, cluster

PIPELINED = kafka(18, 0) + kafka(999, 0)
"""ApiVersions, and something that nobody has."""
TIMES = 20


def look(tree: Path) -> Seen:
    """Both in one write, as a client's probe does."""
    with cluster(tree, 1) as alone:
        alone.start()
        port = alone.nodes[0].ports["kafka"]
        came = sum(bool(told(port, PIPELINED)[0]) for _ in range(TIMES))
        return Seen(came < TIMES, f"{came} of {TIMES} answers that were ready came before the end")
