"""A Quorate cluster as an operator starts it: ``quorate up``, and ``quorate serve`` to bring a node back."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.clusters import free_ports
from tests.contract.client import leader_of

START_S = 60.0
GROUP = "group1"
"""The cluster's name, and so what 1005 calls the group; the Java controllers of the tests are called the same."""


class QuorateCluster:
    """Nodes on loopback, with these settings of the environment; everything it starts it also ends, by pid."""

    def __init__(self, directory: Path, settings: Mapping[str, str] = MappingProxyType({}), *, nodes: int = 3) -> None:
        self.directory = directory
        self._environment = {"QUORATE_CLUSTER__NAME": GROUP, **settings}
        directory.mkdir(parents=True, exist_ok=True)
        self._log = (directory / "up.log").open("ab")
        base = free_ports(10 * nodes)
        command = ["up", "--nodes", str(nodes), "--data-dir", str(directory / "data"), "--base-port", str(base)]
        command += ["--feature-level", "1"]  # Some cases are recorded at it, others after ``raise_level``.
        self._up = self._start(command, stdout=subprocess.PIPE)
        self._served: dict[int, subprocess.Popen[bytes]] = {}
        self.nodes: dict[int, dict[str, Any]] = {}
        for node in self._ready()["nodes"]:
            self.nodes[node["id"]] = node

    def _start(self, arguments: list[str], stdout: Any = None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "quorate", *arguments],
            stdout=stdout or self._log,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **self._environment},
        )

    def _ready(self) -> dict[str, Any]:
        assert self._up.stdout is not None
        line = self._up.stdout.readline()
        if not line:
            self.stop()
            raise RuntimeError((self.directory / "up.log").read_text()[-4000:])
        ready: dict[str, Any] = json.loads(line)
        return ready

    @property
    def addresses(self) -> list[str]:
        """Remoting addresses, by node id."""
        return [self.nodes[number]["rpc"] for number in sorted(self.nodes)]

    def node_at(self, address: str) -> int:
        """The id of the node that serves an address."""
        return next(number for number, node in self.nodes.items() if node["rpc"] == address)

    def raise_level(self, level: int) -> None:
        """``quorate feature raise``, once every voter is known to allow it."""
        where = ",".join(node["http"] for node in self.nodes.values())
        command = [sys.executable, "-m", "quorate", "feature", "raise", str(level), "--node", where]
        end = time.monotonic() + START_S
        while subprocess.run(command, stdout=self._log, stderr=self._log, check=False, timeout=START_S).returncode:
            if time.monotonic() > end:
                raise TimeoutError(f"the feature level is not raised to {level}")
            time.sleep(0.1)

    def leader(self, *, without: int | None = None) -> int:
        """The node that leads, as every (remaining) node says."""
        addresses = [node["rpc"] for number, node in self.nodes.items() if number != without]
        end = time.monotonic() + START_S
        while (found := self.node_at(leader_of(addresses))) == without:
            if time.monotonic() > end:
                raise TimeoutError(f"node {without} is still named as the leader")
            time.sleep(0.02)
        return found

    def kill(self, number: int, how: signal.Signals = signal.SIGKILL) -> None:
        """End a node; it stays down."""
        pid = self.nodes[number]["pid"]
        os.kill(pid, how)
        served = self._served.pop(number, None)
        if served is not None:
            served.wait(30)
        else:
            _wait_gone(pid)

    def restart(self, number: int) -> None:
        """Bring a killed node back on its data and addresses."""
        config = self.directory / "data" / f"n{number}" / "node.toml"
        process = self._start(["serve", "--config", str(config)])
        self._served[number] = process
        self.nodes[number]["pid"] = process.pid
        host, _, port = self.nodes[number]["rpc"].rpartition(":")
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            try:
                socket.create_connection((host, int(port)), 0.5).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise TimeoutError(f"node {number} does not come back")

    def stop(self) -> None:
        """End everything."""
        for process in self._served.values():
            process.kill()
            process.wait(30)
        self._up.terminate()
        try:
            self._up.wait(30)
        except subprocess.TimeoutExpired:
            self._up.kill()
            self._up.wait(30)
        if self._up.stdout is not None:
            self._up.stdout.close()
        self._log.close()


def _wait_gone(pid: int, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.01)
    raise TimeoutError(f"process {pid} does not end")
