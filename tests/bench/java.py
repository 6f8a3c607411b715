"""The control of the protocol: the Java controllers, DLedger and JRaft, under the same loads in the same run."""

import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.bench.harness import Figure, Run, load
from tests.contract.client import Closed, Remoting
from tests.peers import PEERS, present
from tests.rocketmq.stock import JavaControllers, Stock

HEAP = ["-Xms256m", "-Xmx512m"]
"""And the JVM's own choice of compilers and collector: tests that only want it to start soon give it less."""
WARM_UP_S = 10
LEADER_S = 60.0
AGAIN_S = 2.0
KINDS = ("dledger", "jraft")
LOADS = (
    ("closed 1", "commits", 1),
    ("closed 16", "commits", 16),
    ("closed 64", "commits", 64),
    ("reads 16", "reads", 16),
    ("heartbeats pipelined", "beats", 64),
)


class Unhurried(Stock):
    """Its JVMs may compile what is hot."""

    def java(self, name: str, *arguments: str, heap: list[str], piped: bool = False) -> "subprocess.Popen[bytes]":
        """Start a JVM under a name."""
        return super().java(name, *arguments, heap=HEAP, piped=piped)


def java(run: Run) -> None:
    """Closed loops, reads and heartbeats, after a warm-up; a control that hangs up is a figure that failed."""
    if not present("rocketmq"):
        run.keep("dledger, jraft", {"failed": "absent: rocketmq (make peers)"})
        return
    run.take("java build", _build)
    for kind in KINDS:
        with tempfile.TemporaryDirectory(dir=run.folder) as folder:
            stock = Unhurried(Path(folder), PEERS / "rocketmq" / "lib")
            try:
                _loads(run, kind, stock)
            finally:
                stock.stop()


def _build() -> Figure:
    """Which JVM, and what it was told: nothing but the size of its heap, so it compiles with all it has."""
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    return {"version": "; ".join(said.splitlines()), "flags": " ".join(HEAP), "warm_up_s": WARM_UP_S}


def _loads(run: Run, kind: str, stock: Stock) -> None:
    found: list[str] = []

    def warm_up() -> Figure:
        found.extend(JavaControllers(stock, kind).addresses)
        return _load(run, found, "commits", 64, f"{kind}-warm-up", WARM_UP_S)

    run.take(f"{kind} warm-up", warm_up)
    for name, mode, clients in LOADS if found else ():
        file = f"{kind}-{name.replace(' ', '-')}"
        run.take(f"{kind} {name}", partial(_load, run, found, mode, clients, file))


def _load(run: Run, addresses: list[str], mode: str, clients: int, file: str, seconds: int = 0) -> Figure:
    """On whoever leads now; once more when that has just changed."""
    try:
        return load(run, mode, _leader(addresses), clients, 0, file, seconds)
    except RuntimeError:
        time.sleep(AGAIN_S)
        return load(run, mode, _leader(addresses), clients, 0, file, seconds)


def _leader(addresses: list[str]) -> int:
    """The port of the Java controller that leads."""
    end = time.monotonic() + LEADER_S
    while time.monotonic() < end:
        for address in addresses:
            try:
                with Remoting(address) as client:
                    if client.ask(1005).fields.get("isLeader") == "true":
                        return int(address.rpartition(":")[2])
            except (OSError, Closed):
                continue
        time.sleep(0.5)
    raise RuntimeError("no Java controller leads")
