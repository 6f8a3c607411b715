"""A cluster under load with everything that reads it: nodes, brokers, a writer, a projection worker, Spark, the page.

Rules: every process is ours and ended by its id; whoever is killed is started again; nobody waits for anybody else.
"""

import http.client
import json
import random
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import psutil

from quorate.gateway.grpc.pb import rpc_pb2
from quorate.gateway.grpc.pb.rpc_pb2_grpc import KVStub, LeaseStub
from tests.clusters import QUORATE, Started, free_ports, until
from tests.clusters import up as cluster_up
from tests.equality.services import Services
from tests.projections.worker import Worker
from tests.spark.streams import Stream

SETS, REPLICAS = 2, 2
Row = dict[str, Any]


def ask(url: str, timeout_s: float = 10.0) -> Row | None:
    """JSON from somewhere; None when nobody answers there now."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            found: Row = json.loads(answer.read())
            return found
    except (OSError, http.client.HTTPException, urllib.error.URLError):
        return None


@dataclass
class Process:
    """A command of ``quorate`` that can be killed and started again."""

    words: list[str]
    log: Path
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """(Again.)"""
        with self.log.open("ab") as output:
            self.process = subprocess.Popen([*QUORATE, *self.words], stdout=output, stderr=output)

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(20)


@dataclass
class World:
    """Everything."""

    cluster: Started
    folder: Path
    chance: random.Random
    brokers: dict[tuple[str, int], Process] = field(default_factory=dict)
    services: Services = field(default_factory=Services)
    over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        kafka = ",".join(node["kafka"] for node in self.cluster.nodes)
        rpc = ";".join(node["rpc"] for node in self.cluster.nodes)
        self.kafka = kafka
        self.worker = Worker({"nodes": kafka}, self.folder / "worker")
        self.stream = Stream(self.folder, kafka, f"sqlite:///{self.folder}/facts.db")
        page = free_ports(1)
        self.page_url = f"http://127.0.0.1:{page}"
        words = ["dashboard", "--nodes", kafka, "--port", str(page)]
        self.page = Process(words, self.folder / "page.log")
        first = free_ports(SETS * REPLICAS)
        for number in range(SETS * REPLICAS):
            name, member = f"broker-{'ab'[number // REPLICAS]}", number % REPLICAS
            home = self.folder / f"{name}-{member}"
            home.mkdir()
            where = ["--broker-set", name, "--port", str(first + number), "--home", str(home)]
            words = ["simbroker", "--cluster", "C", "--controllers", rpc, *where]
            self.brokers[name, member] = Process(words, home / "broker.log")

    # -- the load

    def write(self) -> None:
        """Topics, settings, keys, leases, schemas, members and what they hold come, change and go, through every node,
        until it is over.
        """
        number = 0
        while not self.over.wait(0.1):
            number += 1
            if number % 4 == 0:
                address = self.cluster.nodes[number % len(self.cluster.nodes)]["grpc"]
                self._write_keys(address, number)
                self.services.go_on(address)
            node = self.cluster.nodes[number % len(self.cluster.nodes)]["http"]
            method, path, body = self._change(number)
            data = None if body is None else json.dumps(body).encode()
            told = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"http://{node}{path}", data, told, method=method)
            with suppress(OSError, http.client.HTTPException):  # A node that is dead now, or a refusal: the next one.
                urllib.request.urlopen(request, timeout=5).close()

    def _write_keys(self, address: str, number: int) -> None:
        """A lease, a key that it holds, one that it does not; some end at once, the others when twenty more have come,
        if the node that is asked for it is alive.
        """
        with suppress(grpc.RpcError), grpc.insecure_channel(address) as channel:
            keys, leases = KVStub(channel), LeaseStub(channel)
            leases.LeaseGrant(rpc_pb2.LeaseGrantRequest(ID=number, TTL=3600), timeout=5)
            keys.Put(rpc_pb2.PutRequest(key=b"/held/%d" % (number % 5), value=b"\xff", lease=number), timeout=5)
            keys.Put(rpc_pb2.PutRequest(key=b"/free/\x00%d" % (number % 5), value=b"%d" % number), timeout=5)
            ended = number if number % 12 == 0 else number - 80
            if ended > 0:
                leases.LeaseRevoke(rpc_pb2.LeaseRevokeRequest(ID=ended), timeout=5)

    def _change(self, number: int) -> tuple[str, str, Row | None]:
        if number % 50 == 1:
            return "PUT", "/v1/feature", {"level": 2}
        if number % 9 == 2:
            return self._schema(number)
        if number % 6 == 0:
            return "PUT", "/v1/config/cluster", {"changes": {f"key-{number % 5}": str(number)}, "unread": True}
        if number % 7 == 0:
            return "DELETE", f"/v1/topics/topic-{number % 11}", None
        return "PUT", f"/v1/topics/topic-{number % 11}", {"read_queues": 1 + number % 8, "write_queues": 4}

    def _schema(self, number: int) -> tuple[str, str, Row | None]:
        """Versions are registered, hidden, and go for good."""
        subject = f"/subjects/orders-{number % 2}"
        if number % 4 == 0:
            return "DELETE", f"{subject}?permanent={'true' if number % 8 else 'false'}", None
        fields = [{"name": f"f{number % 7}", "type": "int", "default": 0}]
        return "POST", f"{subject}/versions", {"schema": json.dumps({"type": "record", "name": "R", "fields": fields})}

    def fail_over(self) -> None:
        """A broker dies and comes back, now and then, until it is over."""
        while not self.over.wait(self.chance.uniform(3, 6)):
            broker = self.chance.choice(list(self.brokers.values()))
            broker.kill()
            self.over.wait(2.0)
            broker.start()

    # -- what a client of keys sees

    def keys_at(self, revision: int) -> list[Row] | None:
        """All keys at a revision, as any node has them; None when it does not answer now, or is not so far."""
        address = self.chance.choice(self.cluster.nodes)["grpc"]
        with suppress(grpc.RpcError), grpc.insecure_channel(address) as channel:
            everything = rpc_pb2.RangeRequest(key=b"\0", range_end=b"\0", revision=revision)
            return [
                {
                    "name": found.key,
                    "value": b64encode(found.value).decode(),
                    "create_revision": found.create_revision,
                    "mod_revision": found.mod_revision,
                    "version": found.version,
                }
                for found in KVStub(channel).Range(everything, timeout=10).kvs
            ]
        return None

    # -- the kills

    def kill_leader(self) -> str:
        """SIGKILL to the controller that leads; ``up --restart`` brings it back."""
        for node in self.cluster.nodes:
            found = ask(f"http://{node['http']}/v1/quorum")
            if found is not None and found["leader"] is not None:
                folder = f"n{found['leader']}/"
                for child in psutil.Process(self.cluster.process.pid).children():
                    if any(folder in word for word in child.cmdline()):
                        child.send_signal(signal.SIGKILL)
                        return "controller leader"
        return ""

    def kill_worker(self) -> str:
        """The Faust worker."""
        self.worker.kill()
        self.worker.start()
        return "Faust worker"

    def kill_driver(self) -> str:
        """The Spark driver, and what is left of its run."""
        self.stream.end()
        self.stream.start()
        return "Spark driver"

    def kill_page(self) -> str:
        """The web process."""
        self.page.kill()
        self.page.start()
        return "web process"


@contextmanager
def world(folder: Path, seed: int) -> Iterator[World]:
    """Everything runs, the views, the page and the store have begun; ended afterwards, whatever happened."""
    with cluster_up(folder / "cluster", "--restart") as cluster:
        made = World(cluster, folder, random.Random(seed))
        threads = [threading.Thread(target=work, daemon=True) for work in (made.write, made.fail_over)]
        try:
            for process in (*made.brokers.values(), made.page):
                process.start()
            made.worker.start()
            made.stream.start()
            for thread in threads:
                thread.start()
            made.worker.wait(ready=True)
            until(lambda: ask(f"{made.page_url}/api/health") is not None, "the page")
            made.stream.reach(1)
            yield made
        finally:
            made.over.set()
            for thread in threads:
                thread.join(30)
            made.stream.end()
            for process in (made.page, *made.brokers.values()):
                process.kill()
            if made.worker.process is not None and made.worker.process.poll() is None:
                made.worker.kill()
