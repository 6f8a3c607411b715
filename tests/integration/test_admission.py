"""Silence on every listener of a real node: whoever asks gets in all the same."""

import http.client
import os
import socket
import statistics
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from quorate.cli.client import Node
from quorate.cli.cluster import found
from quorate.gateway.http.answers import Done
from quorate.wire.kafka import Api
from quorate.wire.remoting import FrameSplitter, decode_response, encode_request
from tests.clusters import QUORATE, Started, free_ports, running, until, up
from tests.kafka_tools.raw import Client

SILENT = 1_500


def port_of(node: dict[str, str], listener: str) -> int:
    return int(node[listener].rpartition(":")[2])


def silence(stack: ExitStack, port: int, count: int) -> None:
    """So many connections that say nothing, until the end of the stack."""
    for _ in range(count):
        stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))


def probe(port: int, path: str) -> None:
    """One GET on a connection of its own, as a supervisor does."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as client:
        client.request("GET", path)
        assert client.getresponse().status == 200


def remoting(port: int) -> None:
    """1005 on a connection of its own."""
    splitter = FrameSplitter()
    with socket.create_connection(("127.0.0.1", port), 5) as client:
        client.sendall(encode_request(1005, 1))
        while not (frames := splitter.feed(client.recv(65536))):
            pass
        assert decode_response(frames[0]).code == 0


def kafka(port: int) -> None:
    """Metadata on a connection of its own."""
    client = Client(port)
    with client.socket:
        assert client.ask(Api.METADATA, 1, {"topics": []})["topics"] == []


def seconds(ask: Callable[[], None]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def asks(cluster: Started) -> dict[str, Callable[[], None]]:
    node = cluster.nodes[0]
    web = port_of(node, "http")
    return {
        "livez": lambda: probe(web, "/livez"),
        "readyz": lambda: probe(web, "/readyz"),
        "metrics": lambda: probe(web, "/metrics"),
        "rpc": lambda: remoting(port_of(node, "rpc")),
        "kafka": lambda: kafka(port_of(node, "kafka")),
    }


@pytest.mark.integration
@pytest.mark.slow
def test_fifteen_hundred_silent_connections_on_each_listener_keep_nobody_out(tmp_path: Path) -> None:
    """Probes and a new client of each protocol are answered within a second, every time; a kept client stays."""
    with up(tmp_path / "cluster", nodes=1) as cluster, ExitStack() as stack:
        node = cluster.nodes[0]
        web = port_of(node, "http")
        kept = stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", web, timeout=5)))
        kept.request("GET", "/v1/status")
        assert kept.getresponse().read()
        quiet = {name: [seconds(ask) for _ in range(50)] for name, ask in asks(cluster).items()}
        for listener in ("rpc", "raft", "kafka", "http"):
            silence(stack, port_of(node, listener), SILENT)
        took = {name: [seconds(ask) for _ in range(50)] for name, ask in asks(cluster).items()}
        kept.request("GET", "/v1/status")
        assert kept.getresponse().status == 200
        told = {name: (statistics.median(quiet[name]), statistics.median(took[name]), max(took[name])) for name in took}
        assert all(slowest < 1.0 for _, _, slowest in told.values()), told


@pytest.mark.integration
@pytest.mark.slow
def test_fifteen_hundred_silent_connections_keep_nobody_from_the_page_and_the_views(tmp_path: Path) -> None:
    """Theirs are no probes of a node, but the same rule holds: every question is answered within a second."""
    with ExitStack() as stack:
        cluster = stack.enter_context(up(tmp_path / "cluster", nodes=1))
        page, views = free_ports(1), free_ports(1)
        nodes = ["--nodes", cluster.nodes[0]["kafka"]]
        stack.enter_context(running(["dashboard", *nodes, "--port", str(page), "-o", "json"], tmp_path / "page"))
        data = ["--data-dir", str(tmp_path / "views")]
        words = ["projections", "serve", *nodes, *data, "--port", str(views)]
        stack.enter_context(running(words, tmp_path / "views"))
        for port, path in ((page, "/api/health"), (views, "/views")):
            until(partial(answers, port, path), f"{path} of {port}")
            silence(stack, port, SILENT)
            took = [seconds(partial(probe, port, path)) for _ in range(50)]
            assert max(took) < 1.0, (path, took)


def answers(port: int, path: str) -> bool:
    """Does it answer 200 by now?"""
    try:
        probe(port, path)
    except (OSError, AssertionError):
        return False
    return True


@pytest.mark.integration
def test_a_leader_that_may_open_few_files_outlives_idle_connections_to_every_listener(tmp_path: Path) -> None:
    """``ulimit -n 256`` and 400 connections that stay: it serves, commits and opens the files of new segments, which
    are for nobody else, like all it keeps.
    """
    folder = tmp_path / "cluster"
    (place,) = found(folder, 1, free_ports(10))
    with (folder / "log").open("wb") as log, ExitStack() as stack:
        command = [*QUORATE, "serve", "--config", str(place.config), "--die-with", str(os.getpid())]
        command += ["--set", "storage.journal.segment_bytes=2097152"]
        process = subprocess.Popen(["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", *command], stderr=log)
        stack.callback(process.communicate, timeout=20)
        stack.callback(process.terminate)
        node = Node(place.http, 5.0)
        until(node.serves, "the node serves")
        for address in (place.http, place.kafka, place.rpc, place.raft):
            silence(stack, int(address.rpartition(":")[2]), 100)
        for number in range(40):
            changes = {f"k{key}": f"{number} " + "x" * 2_000 for key in range(100)}
            node.send("PUT", "/v1/config/topic/t", {"changes": changes, "unread": True}, Done)
        remoting(int(place.rpc.rpartition(":")[2]))
        kafka(int(place.kafka.rpartition(":")[2]))
        assert process.poll() is None, (folder / "log").read_text()
    data = place.folder / "data"
    assert [path for path in (data, *data.rglob("*")) if path.stat().st_mode & 0o077] == []
    told = (folder / "log").read_text()
    assert "few descriptors" in told
    assert "failed" not in told


@pytest.mark.integration
def test_a_node_that_may_open_too_few_files_does_not_start(tmp_path: Path) -> None:
    """It says how many it needs, and how to have them."""
    (place,) = found(tmp_path / "cluster", 1, free_ports(10))
    command = [*QUORATE, "serve", "--config", str(place.config)]
    ended = subprocess.run(
        ["sh", "-c", 'ulimit -n 100; exec "$@"', "sh", *command],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ended.returncode == 1
    assert "may open 100 files and needs at least" in ended.stderr
