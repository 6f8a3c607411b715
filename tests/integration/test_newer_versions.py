"""Readers of this build beside a node of a newer one, which writes a newer version of an event they know.

The newer build is made here: its ``TopicDeleted`` says why, and has bytes.
"""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("faust", reason="projections are not installed (make setup-all)")
pytest.importorskip("pyspark", reason="Spark is not installed (make setup-all)")

from quorate.cli.client import Node, NodeError
from quorate.cli.cluster import NodePlace, found
from quorate.events import SCHEMAS as KNOWN
from quorate.events import TopicDeleted, schema_id
from quorate.gateway.http.answers import Done, Status
from quorate.gateway.http.writing import TopicBody
from quorate_spark.source import COLUMNS, SourceOptions
from quorate_spark.source.reader import BatchReader
from tests.builds import SCHEMAS, other_build
from tests.clusters import END_TIMEOUT_S, QUORATE, free_ports, quorate, running, until
from tests.projections.worker import Worker, workers

REASON: Any = {"name": "reason", "type": "string", "default": "", "doc": "Why; empty = nobody said."}
PROOF: Any = {"name": "proof", "type": "bytes", "default": "", "doc": "What the caller handed over."}
CHANGES = {
    "metadata/topics.py": [
        ("TopicDeleted(topic=name)", 'TopicDeleted(topic=name, reason="asked", proof=b"\\xff\\x00")')
    ],
}


def newer_build(folder: Path) -> Path:
    """What PYTHONPATH must begin with."""
    avsc = json.loads((SCHEMAS / "TopicDeleted.avsc").read_text())
    avsc["fields"] = [REASON, *avsc["fields"], PROOF]
    return other_build(folder, {"TopicDeleted": json.dumps(avsc)}, CHANGES)


@contextmanager
def served(folder: Path) -> Iterator[NodePlace]:
    """A cluster of one node of the newer build."""
    build = newer_build(folder / "newer")
    (place,) = found(folder / "cluster", 1, free_ports(10))
    command = [*QUORATE, "serve", "--config", str(place.config), "--die-with", str(os.getpid())]
    with (folder / "node.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=log, env=os.environ | {"PYTHONPATH": str(build)}, cwd=folder
        )

    def leads() -> bool:
        assert process.poll() is None, (folder / "node.log").read_text()
        try:
            return bool(Node(place.http).get("/v1/status", Status, level="stale").ready)
        except NodeError:
            return False

    try:
        until(leads, "a node of the newer build")
        yield place
    finally:
        process.terminate()
        process.wait(END_TIMEOUT_S)


def json_of(address: str, path: str) -> Any:
    """What an HTTP interface answers."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
        return json.load(answer)


def deleted(node: Node, topic: str) -> int:
    """Make a topic and delete it; the offset after that."""
    node.send("PUT", f"/v1/topics/{topic}", TopicBody(read_queues=1, write_queues=1), Done)
    return node.send("DELETE", f"/v1/topics/{topic}", None, Done).offset


def spark_rows(place: NodePlace, **more: Any) -> list[dict[str, Any]]:
    """The log as the Spark source has it."""
    reader = BatchReader(SourceOptions(nodes=place.kafka, timeout_ms=5_000, **more), COLUMNS)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.timeout(120)
def test_readers_survive_an_upgrade_of_the_nodes(tmp_path: Path) -> None:
    """A worker that follows and one that catches up, the page, Spark's source and the command line read the newer
    version as their own: the topic is gone for all of them, and nobody stands still.
    """
    with served(tmp_path) as place:
        node, port = Node(place.http), free_ports(1)
        follows, catches_up = (Worker({"node": place.http}, tmp_path / name) for name in ("follows", "later"))
        page = ["dashboard", "--node", place.http, "--port", str(port), "-o", "json"]
        with workers(follows), running(page, tmp_path / "page"):
            follows.wait(ready=True)
            end = deleted(node, "first")
            assert follows.wait(ready=True, offset=end)["rewinds"] >= 1  # It read again, with the schema.
            end = deleted(node, "second")
            with workers(catches_up):
                for worker in (follows, catches_up):
                    assert worker.wait(ready=True, offset=end)["failed"] is None
                    assert worker.ask("/views/topics")[1]["rows"] == []
                    assert worker.row("audit", f"{end - 1:020d}")["row"]["type"] == "TopicDeleted"

            until(lambda: json_of(f"127.0.0.1:{port}", "/api/health")["offset"] == end, "the page at the end")
            shown = json_of(f"127.0.0.1:{port}", "/api/log?limit=1")["data"]["events"][0]
            assert (shown["text"], shown["value"]) == (
                "topic second was deleted", {"type": "TopicDeleted", "topic": "second"},
            )  # fmt: skip
            assert shown["schema"] not in KNOWN

            row = spark_rows(place, registry=place.http)[end - 1]
            assert (row["type"], json.loads(row["event"])) == ("TopicDeleted", {"topic": "second"})
            assert row["schema_id"] == shown["schema"] != schema_id(TopicDeleted)

            told = quorate("log", "dump", "-o", "json", "--from", str(end - 1), "--node", place.http)
            assert json.loads(told.stdout)["event"] == {"type": "TopicDeleted", "topic": "second"}
            (fact,) = json_of(place.http, f"/v1/log?from={end - 1}&limit=1")["events"]
            assert (fact["event"]["reason"], fact["event"]["proof"]) == ("asked", "/wA=")
