"""C3: what somebody wrote into the log reaches the terminal of who reads it, escape sequences and all."""

import subprocess
from pathlib import Path

from tests.findings.tree import Seen, cluster

ESCAPES = "\x1b]0;owned\x07"


def look(tree: Path) -> Seen:
    """A value of a setting, read with ``quorate config``."""
    with cluster(tree, 1) as alone:
        (node,) = alone.nodes
        alone.start()
        changes = {"changes": {"note": ESCAPES}}
        kept = node.ask("PUT", "/v1/config/cluster", changes).status == 200
        assert kept or node.ask("PUT", "/v1/config/cluster", {**changes, "unread": True}).status == 200
        words = ["config", "cluster", "--node", f"127.0.0.1:{node.ports['http']}"]
        shown = subprocess.run(
            [str(tree / ".venv/bin/python"), "-m", "quorate", *words], capture_output=True, text=True, check=False
        ).stdout
        told = [text for text in shown.splitlines() if "owned" in text]
        return Seen("\x1b]0" in shown, f"the terminal is sent {told}")
