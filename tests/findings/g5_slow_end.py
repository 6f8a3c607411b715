"""G5: a projections worker whose nodes are gone needs a minute to end."""

import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.clusters import free_ports
from tests.findings.tree import Seen, cluster, program

WITHIN_S, PATIENCE_S = 5.0, 90.0


def look(tree: Path) -> Seen:
    """The node is killed, and then the worker is told to end."""
    with cluster(tree, 1) as alone, tempfile.TemporaryDirectory() as folder:
        alone.start()
        (node,) = alone.nodes
        kafka, port = f"127.0.0.1:{node.ports['kafka']}", str(free_ports(1))
        with program(tree, "projections", "serve", "--nodes", kafka, "--data-dir", folder, "--port", port) as worker:
            node.stop(signal.SIGKILL)
            time.sleep(1.0)
            began = time.monotonic()
            worker.terminate()
            with suppress(subprocess.TimeoutExpired):
                worker.wait(PATIENCE_S)
            took = time.monotonic() - began
    return Seen(took > WITHIN_S, f"a worker without its node takes {took:.1f} s to end")
