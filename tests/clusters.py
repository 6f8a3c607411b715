"""Clusters for tests, started the way a user starts them: ``quorate up`` as a process, found by its ready line.

Rules: ports come from below the ephemeral range and are free when asked for; everything is ended by process id, and a
test that leaves a process behind fails.
"""

import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from quorate.cli.client import Node, NodeError
from quorate.gateway.http.answers import Status

QUORATE = (sys.executable, "-m", "quorate")
READY_TIMEOUT_S = 60.0
END_TIMEOUT_S = 30.0


def port_range() -> tuple[int, int]:
    """Ports of this run of tests, below the ephemeral ones: workers of one run have a part each, so that nobody takes
    what another has found free and not bound yet.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    part = 12_000 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    first = 20_000 + part * int(worker)
    return first, first + part


_given: Final[deque[range]] = deque(maxlen=16)
"""What was found free last: who asked may not have bound it yet."""


def free_ports(count: int, *, spread: int = 1) -> int:
    """The first of ``count`` ports, ``spread`` apart, that nobody listens on, nor was told of lately."""
    chance = random.Random(os.urandom(8))
    lowest, end = port_range()
    while True:
        first = chance.randrange(lowest, end - (count - 1) * spread, 10)
        found = range(first, first + count * spread, spread)
        if all(_free(port) and not any(port in given for given in _given) for port in found):
            _given.append(found)
            return first


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def until(true: Callable[[], object], what: str, timeout_s: float = READY_TIMEOUT_S) -> None:
    """Wait for something to become true, looking often; fails by its name."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.05)


def gone(pid: int) -> bool:
    """Has this process ended?"""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@dataclass
class Started:
    """A ``quorate up`` (or ``demo``) that said it is ready."""

    process: subprocess.Popen[bytes]
    ready: dict[str, Any]
    folder: Path
    stderr: Path
    later: list[str] = field(default_factory=list)

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """As the ready line has them."""
        found: list[dict[str, Any]] = self.ready["nodes"]
        return found

    def node(self, index: int = 0) -> Node:
        """The HTTP interface of a node."""
        return Node(self.nodes[index]["http"])

    def config(self, index: int) -> Path:
        """A node's settings file."""
        return self.folder / f"n{self.nodes[index]['id']}" / "node.toml"

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it; the exit status. Fails when a process of it is left."""
        family = [self.process.pid, *(child.pid for child in psutil.Process(self.process.pid).children(recursive=True))]
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=END_TIMEOUT_S)
        self.later = rest.decode().splitlines()
        until(lambda: all(map(gone, family)), f"the end of {family}", END_TIMEOUT_S)
        return self.process.returncode


def start(words: Sequence[str], folder: Path) -> Started:
    """Start ``quorate …`` and wait for its ready line. Fails with what it said when there is none."""
    stderr = folder.with_name(folder.name + ".stderr")
    with stderr.open("ab") as errors:
        process = subprocess.Popen([*QUORATE, *words], stdout=subprocess.PIPE, stderr=errors)
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        line = process.stdout.readline() if selector.select(READY_TIMEOUT_S) else b""
    if not line:
        process.kill()
        process.communicate()
        raise AssertionError(f"quorate {' '.join(words)} was not ready:\n{stderr.read_text()}")
    return Started(process, json.loads(line), folder, stderr)


@contextmanager
def running(words: Sequence[str], folder: Path) -> Iterator[Started]:
    """What ``start`` starts, ended afterwards if the test has not done so."""
    cluster = start(words, folder)
    try:
        yield cluster
    finally:
        if cluster.process.poll() is None:
            cluster.stop()


def up(folder: Path, *more: str, nodes: int = 3) -> AbstractContextManager[Started]:
    """A new cluster in ``folder``."""
    where = ["--nodes", str(nodes), "--data-dir", str(folder), "--base-port", str(free_ports(10 * nodes))]
    return running(["up", *where, *more], folder)


def resumed(folder: Path, *more: str) -> AbstractContextManager[Started]:
    """The cluster that is in ``folder``, on the ports it had."""
    return running(["up", "--resume", "--data-dir", str(folder), *more], folder)


def quorate(*words: str, timeout_s: float = 30.0) -> subprocess.CompletedProcess[str]:
    """Run a command of ``quorate`` to its end."""
    return subprocess.run([*QUORATE, *words], capture_output=True, text=True, timeout=timeout_s, check=False)


def said(cluster: Started, *words: str, node: int = 0) -> Any:
    """What a command prints in JSON; it must end well."""
    done = quorate(*words, "-o", "json", "--node", cluster.nodes[node]["http"])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def leader(cluster: Started) -> int:
    """Where in ``nodes`` it is, by its own word; all of them are there, also one that was killed and comes back."""
    found: list[Status] = []

    def all_there() -> bool:
        try:
            found[:] = [cluster.node(place).get("/v1/status", Status) for place in range(len(cluster.nodes))]
        except NodeError:
            return False
        return len({status.leader for status in found}) == 1 and found[0].leader is not None

    until(all_there, "all nodes with one leader")
    return next(at for at, node in enumerate(cluster.nodes) if node["id"] == found[0].leader)
