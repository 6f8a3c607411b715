"""How long nobody's write is acknowledged when the leader is killed, or stops, and when a bare death is seen."""

import itertools
import os
import signal
import socket
import time
from contextlib import suppress
from typing import Any

import psutil

from quorate.cli.client import NodeError
from quorate.gateway.http.answers import Status
from tests.bench.harness import Figure, Ours, Run, null_server, ours, quantiles
from tests.clusters import until
from tests.contract.client import Remoting

TRIALS = 20
PAUSES = 5
SETTLED_S = 1.0
RETRY_S = 0.002


def failover(run: Run) -> None:
    """SIGKILL (and, apart, SIGSTOP) of the leader → the next acknowledged write by a client of a survivor; ms."""
    for number, count in ((signal.SIGKILL, TRIALS), (signal.SIGSTOP, PAUSES)):
        name = f"failover {number.name}"

        def trials(number: signal.Signals = number, count: int = count, name: str = name) -> Figure:
            samples: list[float] = []
            with ours(run, "--restart") as cluster:
                for _ in range(count):
                    samples.append(_trial(cluster, number))
                    run.samples(name.replace(" ", "-"), samples)
                return quantiles(samples) | {"syncs": cluster.syncs()}  # Syncs of the nodes' present lives.

        run.take(name, trials)


def null_failover(run: Run) -> Figure:
    """SIGKILL of a server that does nothing → its client knows: no fail-over can be faster than that, in ms."""
    samples = []
    for _ in range(TRIALS):
        with null_server() as (port, process), socket.create_connection(("127.0.0.1", port)) as client:
            time.sleep(0.05)
            start = time.perf_counter()
            process.kill()
            with suppress(ConnectionResetError):
                client.recv(1)
            samples.append((time.perf_counter() - start) * 1000)
    run.samples("null-SIGKILL", samples)
    return quantiles(samples)


def _trial(cluster: Ours, number: signal.Signals) -> float:
    """A client of a survivor writes again and again, 2 ms after each answer that is no acknowledgement."""
    leader, survivor = cluster.leader(), cluster.follower()
    pid = _pid(leader)
    try:
        with Remoting(survivor["rpc"]) as client:
            client.ask(17, topic="before", readQueueNums=4, writeQueueNums=4, perm=6)
            start = time.perf_counter()
            os.kill(pid, number)
            for attempt in itertools.count():
                topic = f"t-{start:.6f}-{attempt}".replace(".", "-")
                if client.ask(17, topic=topic, readQueueNums=4, writeQueueNums=4, perm=6).code == 0:
                    break
                time.sleep(RETRY_S)
            took = (time.perf_counter() - start) * 1000
    finally:
        if number is signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)
    time.sleep(SETTLED_S)
    until(lambda: _whole(cluster), "every node back and connected", 30)
    return took


def _pid(node: dict[str, Any]) -> int:
    """The process that listens there now (a restarted node has a new one)."""
    port = int(node["rpc"].rpartition(":")[2])
    for process in psutil.process_iter(["cmdline"]):
        if "serve" not in (process.info["cmdline"] or []):
            continue
        with suppress(psutil.Error):
            if any(c.laddr.port == port for c in process.net_connections() if c.status == "LISTEN"):
                return int(process.pid)
    raise RuntimeError(f"nobody listens on {port}")


def _whole(cluster: Ours) -> bool:
    try:
        nodes = [cluster.started.node(index) for index in range(3)]
        return all(node.get("/v1/status", Status).voters_connected == 3 for node in nodes)
    except NodeError:
        return False
