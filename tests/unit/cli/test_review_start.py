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


LISTENS = """
import sys
import quorate.gateway.grpc.server
import quorate.node.running
print(sorted(name for name in sys.modules if name.partition(".")[0] == "grpc"))
"""


def test_a_node_that_serves_grpc_does_not_load_the_library_of_its_clients() -> None:
    """It speaks HTTP/2 itself; thirteen megabytes are its clients'."""
    ended = subprocess.run([sys.executable, "-c", LISTENS], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == "[]"


NO_ADDRESS = """
import sys
import quorate.node.running
print(sorted(name for name in sys.modules if name.partition(".")[0] in ("grpc", "google")))
"""


def test_a_node_without_a_grpc_address_does_not_load_grpc() -> None:
    """What it takes is spent by those that listen."""
    ended = subprocess.run([sys.executable, "-c", NO_ADDRESS], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == "[]"
