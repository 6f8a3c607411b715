"""A three-node cluster with some history, for tools that only read."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clusters import Started, up

TOPICS = 40


def http(cluster: Started, index: int, path: str, method: str = "GET", body: Any = None) -> Any:
    """JSON from a node."""
    data = None if body is None else json.dumps(body).encode()
    url, told = f"http://{cluster.nodes[index]['http']}{path}", {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, told, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


def put_topic(cluster: Started, index: int, name: str) -> int:
    """Make an event through a node; the next offset."""
    body = {"read_queues": 4, "write_queues": 4, "attributes": {"+message.type": "FIFO"}}
    offset: int = http(cluster, index, f"/v1/topics/{name}", "PUT", body)["offset"]
    return offset


def metric(cluster: Started, index: int, name: str) -> int:
    """One number of a node's ``/metrics``."""
    with urllib.request.urlopen(f"http://{cluster.nodes[index]['http']}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return int(float(next(line for line in lines if line.startswith(name + " ")).split()[1]))


def log(cluster: Started, index: int = 0) -> list[dict[str, Any]]:
    """All events, as a node's HTTP interface tells them."""
    events: list[dict[str, Any]] = []
    start: int | None = 0
    while start is not None:
        page = http(cluster, index, f"/v1/log?from={start}&limit=1000")
        events += page["events"]
        start = page["next"]
    return events


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Three nodes, with events made through each of them, applied everywhere."""
    with up(tmp_path_factory.mktemp("kafka") / "cluster") as started:
        end = max(put_topic(started, i % 3, f"topic-{i}") for i in range(TOPICS))
        for index in range(3):
            http(started, index, f"/v1/status?min_offset={end}")
        yield started
