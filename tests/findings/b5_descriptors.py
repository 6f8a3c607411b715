"""B5: idle connections use up the descriptors, and the node ends."""

import http.client
import json
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from tests.findings.lines import line
from tests.findings.tree import Seen, cluster, until

FILES, IDLE, WRITES = 288, 400, 40
"""So many writes ask for another file."""
LONG = {"changes": {f"k{key}": "x" * 2_000 for key in range(100)}}


def look(tree: Path) -> Seen:
    """A node that may open 288 files, 400 connections that stay, and writes that fill some files."""
    with cluster(tree, 1) as alone, ExitStack() as stack:
        (node,) = alone.nodes
        node.start(files_max=FILES)
        assert until(lambda: node.ready)
        unread = node.ask("PUT", "/v1/config/topic/t", LONG).status != 200
        body: dict[str, Any] = {**LONG, "unread": True} if unread else LONG
        kept = stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", node.ports["http"], timeout=6)))
        kept.connect()
        with suppress(OSError):
            for number in range(IDLE):
                stack.enter_context(line(node.ports[("http", "kafka", "rpc", "raft")[number % 4]]))
        with suppress(OSError, http.client.HTTPException):
            for number in range(WRITES):
                body["changes"] = {name: f"{number} {value}" for name, value in LONG["changes"].items()}
                kept.request("PUT", "/v1/config/topic/t", json.dumps(body), {"content-type": "application/json"})
                kept.getresponse().read()
        ended = until(lambda: not node.runs, 3.0)
        if not ended:
            return Seen(False, f"it runs, after {WRITES} writes beside {IDLE} connections")
        told = [text for text in node.said.splitlines() if "rror" in text or "critical" in text] or [node.said]
        return Seen(True, f"it ended: {told[0][:200]}")
