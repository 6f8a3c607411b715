"""Silence on every listener of a real node: whoever asks gets in all the same."""

import http.client
import socket
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from quorate.wire.kafka import Api
from quorate.wire.remoting import FrameSplitter, decode_response, encode_request
from tests.clusters import Started, up
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
