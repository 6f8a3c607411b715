"""B4: connections that say nothing lock every probe out."""

from contextlib import ExitStack
from pathlib import Path

from tests.findings.lines import line
from tests.findings.tree import Seen, cluster

SILENT, PROBES = 600, 20


def look(tree: Path) -> Seen:
    """Silent connections to HTTP, then a supervisor's probes."""
    with cluster(tree, 1) as alone, ExitStack() as stack:
        (node,) = alone.nodes
        alone.start()
        for _ in range(SILENT):
            stack.enter_context(line(node.ports["http"]))
        answered = sum(node.ask("GET", "/livez").status == 200 for _ in range(PROBES))
        return Seen(answered < PROBES, f"{answered} of {PROBES} probes are answered beside {SILENT} silent connections")
