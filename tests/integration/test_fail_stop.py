"""A node whose disk fails: it stops serving, says why, and ends with status 1; the other two go on."""

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from quorate import node as server
from quorate.cli.client import Node, NodeError
from quorate.cli.cluster import NodePlace, found
from quorate.errors import StorageError
from quorate.gateway.http.answers import Status
from quorate.node.settings import read_settings
from tests.clusters import QUORATE, free_ports, quorate, until

END_S = 20.0


@contextmanager
def served(place: NodePlace, log: int, *, buffered: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A node by ``quorate serve``, its log at a file descriptor; ended afterwards if it has not ended."""
    command = [*QUORATE, "serve", "--config", str(place.config), "--die-with", str(os.getpid())]
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, env=environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=END_S)


def fail_disk(pid: int) -> None:
    """From now on no file of this process can grow or be written beyond its first byte: EFBIG."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, 1))


def leader(place: NodePlace) -> int | None:
    """Who leads, as this node believes; None also when it does not answer."""
    try:
        return Node(place.http, 1.0).get("/v1/status", Status, level="stale").leader
    except NodeError:
        return None


def answers(address: str) -> bool:
    """Does anybody listen there?"""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1.0).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("log_fails", [False, True], ids=["log to a pipe", "log on the same disk"])
@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_a_node_whose_disk_fails_stops_and_the_others_go_on(leads: bool, log_fails: bool, tmp_path: Path) -> None:
    """Its next write to the journal is its last act: no listener answers, the status is 1, the log names the failed
    write (if it can still be written: where it cannot, the node ends all the same). Two nodes elect, and commit.
    """
    places = found(tmp_path / "c", 3, free_ports(30))
    with ExitStack() as stack:
        logs = [stack.enter_context((place.folder / "node.log").open("wb")) for place in places]
        pipes = [os.pipe() for _ in places]
        for read, write in pipes:
            stack.callback(os.close, read)
            stack.callback(os.close, write)
        writes = [log.fileno() if log_fails else write for log, (_, write) in zip(logs, pipes, strict=True)]
        starts = [served(place, to, buffered=leads) for place, to in zip(places, writes, strict=True)]
        nodes = [stack.enter_context(start) for start in starts]
        until(lambda: all(Node(place.http, 1.0).serves() for place in places), "all nodes serve")
        first = leader(places[0])
        victim = next(i for i, place in enumerate(places) if (place.id == first) == leads)
        others = [place for i, place in enumerate(places) if i != victim]
        assert all(map(answers, places[victim].addresses().values()))

        fail_disk(nodes[victim].pid)
        asked = places[victim].http if leads else others[0].http
        written = quorate("config", "cluster", "note=now", "--unread", "--node", asked)
        assert leads or written.returncode == 0
        assert nodes[victim].wait(END_S) == 1
        assert not any(map(answers, places[victim].addresses().values()))
        if not log_fails:
            told = os.read(pipes[victim][0], 1 << 16).decode()
            [reason] = [line for line in map(json.loads, told.splitlines()) if line["event"] == "failed"]
            assert reason["error"].startswith("StorageError: ")
            assert "File too large" in reason["error"]

        until(lambda: leader(others[0]) not in (None, places[victim].id), "two nodes have a leader", END_S)
        until(
            lambda: quorate("config", "cluster", "note=after", "--unread", "--node", others[1].http).returncode == 0,
            "a write",
        )
        assert [node.poll() for i, node in enumerate(nodes) if i != victim] == [None, None]


def test_from_the_failure_on_nothing_is_served(tmp_path: Path) -> None:
    """In the very turn of the failure, before anything is taken down, it serves no more; the first reason stays."""
    asyncio.run(_fail(tmp_path))


async def _fail(folder: Path) -> None:
    [place] = found(folder / "c", 1, free_ports(10))
    node, ask = server.Node(read_settings(place.config, {}, {})), Node(place.http)
    await node.start()
    try:
        await asyncio.to_thread(until, ask.serves, "the node serves")
        node.fail(StorageError("the first"))
        assert not node.serving
        assert not await asyncio.to_thread(ask.serves)
        node.fail(StorageError("the second"))
        assert str(await node.wait_failed()) == "the first"
    finally:
        await node.stop(handover=False)
