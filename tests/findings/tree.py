"""A checkout that is looked at from outside: its nodes are processes of its own .venv, its doors are its ports.

Rules: nothing of the checkout is imported, so one script judges any commit that has ``quorate up``, ``quorate serve``
and ``/v1``. Every process is ended by whoever started it.
"""

import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.clusters import free_ports

TOPIC = {"read_queues": 4, "write_queues": 4, "permission": 6}
WAIT_S = 60.0


class Seen(msgspec.Struct, frozen=True):
    """What a script saw."""

    defect: bool
    sentence: str


class Answer(msgspec.Struct, frozen=True):
    """Of one request; status 0: there was none."""

    status: int
    body: Any = None


def until(true: Callable[[], object], within_s: float = WAIT_S) -> bool:
    """Did it become true in time?"""
    deadline = time.monotonic() + within_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class Node:
    """One controller of a cluster: its directory, and its process if it has one."""

    def __init__(self, tree: Path, folder: Path, found: Mapping[str, Any]) -> None:
        self.tree, self.id = tree, int(found["id"])
        self.folder = folder / f"n{self.id}"
        self.data = self.folder / "data"
        self.ports = {door: int(str(found[door]).rpartition(":")[2]) for door in ("rpc", "raft", "kafka", "http")}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *settings: str, environment: Mapping[str, str] | None = None, files_max: int = 0) -> None:
        """Run it, whatever becomes of it; ``said`` has what it says."""
        words = [str(self.tree / ".venv/bin/python"), "-m", "quorate", "serve", "--config", "node.toml", *settings]
        if files_max:
            words = ["sh", "-c", f'ulimit -n {files_max}; exec "$@"', "sh", *words]
        with (self.folder / "said").open("wb") as said:
            self.process = subprocess.Popen(
                words, cwd=self.folder, env={**os.environ, **(environment or {})}, stdout=said, stderr=said
            )

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it, if it runs."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(WAIT_S)
            self.process = None

    @property
    def runs(self) -> bool:
        """Has it a process that did not end by itself?"""
        return self.process is not None and self.process.poll() is None

    @property
    def said(self) -> str:
        """Everything since its last start."""
        return (self.folder / "said").read_text(errors="replace")

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None, within_s: float = 6
    ) -> Answer:
        """One request on a connection of its own."""
        line = http.client.HTTPConnection("127.0.0.1", self.ports["http"], timeout=within_s)
        try:
            data = None if body is None else json.dumps(body)
            line.request(method, path, data, {"content-type": "application/json", **(headers or {})})
            reply = line.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException):
            return Answer(0)
        finally:
            line.close()
        try:
            return Answer(reply.status, json.loads(text))
        except ValueError:
            return Answer(reply.status)

    def get(self, path: str) -> Any:
        """What this node itself has, asking nobody; empty when it does not answer."""
        return self.ask("GET", f"{path}{'&' if '?' in path else '?'}level=stale").body or {}

    def put(self, topic: str) -> bool:
        """Write a topic: was it acknowledged?"""
        return self.ask("PUT", f"/v1/topics/{topic}", TOPIC).status == 200

    def topics(self) -> set[str]:
        """As this node has them, page after page."""
        found, after = set[str](), ""
        while page := self.get(f"/v1/topics?limit=200{after}"):
            found |= {topic["topic"] for topic in page["topics"]}
            if not page["next"]:
                break
            after = f"&after={page['next']}"
        return found

    @property
    def ready(self) -> bool:
        """Does it say that clients may come?"""
        return self.ask("GET", "/readyz").status == 200

    @property
    def offset(self) -> int:
        """Events it has applied; -1 when it does not answer."""
        return int(self.get("/v1/status").get("offset", -1))

    @property
    def leader(self) -> int | None:
        """Who leads, as it believes."""
        found: int | None = self.get("/v1/status").get("leader")
        return found


class Cluster:
    """Nodes that were founded and ended well, so that a script starts those it wants."""

    def __init__(self, tree: Path, folder: Path, size: int) -> None:
        self.tree = tree
        where = ["--nodes", str(size), "--data-dir", str(folder), "--base-port", str(free_ports(10 * size))]
        founding = subprocess.Popen(
            [str(tree / ".venv/bin/python"), "-m", "quorate", "up", *where],
            cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert founding.stdout is not None
        ready = json.loads(founding.stdout.readline())
        founding.terminate()
        founding.communicate(timeout=WAIT_S)
        self.nodes = [Node(tree, folder, found) for found in ready["nodes"]]

    def start(self, *nodes: Node) -> None:
        """These (all when none is named), and wait until they are ready."""
        for node in nodes or self.nodes:
            node.start()
        assert until(lambda: all(node.ready for node in nodes or self.nodes)), "the nodes are not ready"

    def roles(self) -> tuple[Node, Node, Node]:
        """The leader of three, and the two others."""
        assert until(lambda: self.nodes[0].leader), "nobody leads"
        led = self.nodes[0].leader
        first, second = (node for node in self.nodes if node.id != led)
        return next(node for node in self.nodes if node.id == led), first, second

    def equal(self) -> bool:
        """Are all at one offset?"""
        return len({node.offset for node in self.nodes}) == 1

    def stop(self) -> None:
        """End whatever runs."""
        for node in self.nodes:
            node.stop(signal.SIGKILL if node.runs else signal.SIGTERM)


@contextmanager
def cluster(tree: Path, size: int = 3) -> Iterator[Cluster]:
    """A new one, in a folder that goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="quorate-finding-"))
    made: Cluster | None = None
    try:
        made = Cluster(tree, folder / "c", size)
        yield made
    finally:
        if made is not None:
            made.stop()
        shutil.rmtree(folder)


@contextmanager
def program(tree: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another program of the checkout that says when it is ready; killed if it still runs at the end."""
    command = [str(tree / ".venv/bin/python"), "-m", "quorate", *words]
    process = subprocess.Popen(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), "it ended"
        yield process
    finally:
        process.kill()
        process.communicate()


def put_back(copy: Path, place: Path) -> None:
    """A copy in the place of a directory."""
    shutil.rmtree(place)
    shutil.copytree(copy, place)
