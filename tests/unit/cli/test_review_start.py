"""What starting a node costs: nothing is imported that a node does not use."""

import subprocess
import sys

LOADS = """
import sys
from quorate.cli.serve import load_structlog
load_structlog()
import quorate.node.running
print("rich" in sys.modules, "structlog" in sys.modules)
import rich.console
load_structlog()
print("rich" in sys.modules)
"""


def test_a_node_does_not_load_rich() -> None:
    """structlog is there without it, and whoever asks for rich afterwards still gets it."""
    ended = subprocess.run([sys.executable, "-c", LOADS], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.split() == ["False", "True", "True"]
