"""kill -9 at any moment, of anybody, while brokers fail over: the rows are those of a plain replay, each once."""

import json
import random
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable

from tests.clusters import free_ports, running, until
from tests.spark.compare import differences
from tests.spark.postgres import server
from tests.spark.replay import replay
from tests.spark.story import row
from tests.spark.streams import Stream, log

pytestmark = pytest.mark.usefixtures("spark_is_possible")


@contextmanager
def busy_cluster(folder: Path) -> Iterator[str]:
    """Broker sets that fail over every second or two, topics and settings that change; the Kafka address."""
    ports = ["--base-port", str(free_ports(200))]
    words = [
        "demo",
        "--with",
        "none",
        "--nodes",
        "1",
        "--sets",
        "2",
        "--replicas",
        "2",
        "--every",
        "2",
        "--data-dir",
        str(folder),
    ]
    with running([*words, *ports, "-o", "json"], folder) as cluster:
        http, over = cluster.nodes[0]["http"], threading.Event()
        writer = threading.Thread(target=_write, args=(http, over))
        writer.start()
        try:
            yield cluster.nodes[0]["kafka"]
        finally:
            over.set()
            writer.join(30)


def _write(http: str, over: threading.Event) -> None:
    body = json.dumps({"read_queues": 4, "write_queues": 4}).encode()
    number = 0
    while not over.wait(0.2):
        number += 1
        url = f"http://{http}/v1/topics/topic-{number % 7}"
        method, data = ("DELETE", None) if number % 5 == 0 else ("PUT", body)
        try:
            request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
            urllib.request.urlopen(request, timeout=10).close()
        except OSError:
            continue  # A refusal, or a node that is busy: the next one will do.


def victims(stream: Stream, chance: random.Random) -> list[psutil.Process]:
    """Who is killed: the driver, its JVM, a Python worker, or all."""
    driver, *others = stream.family()
    java = [one for one in others if "java" in named(one)]
    workers = [one for one in others if "python" in named(one)]
    return chance.choice([[driver], [driver], java[:1] or [driver], [driver, *others], workers[-1:] or [driver]])


def named(process: psutil.Process) -> str:
    """The JVM's helpers (``chmod``) come and go: one that is gone has no name."""
    try:
        name: str = process.name()
    except psutil.NoSuchProcess:
        return ""
    return name


def survive(stream: Stream, nodes: str, kills: int, seed: int) -> None:
    """Kill so often, each time after some progress; then every table, and the archive, equals the log."""
    chance = random.Random(seed)
    stream.start()
    until(lambda: DeltaTable.is_deltatable(stream.archive), "the archive", 240)  # So that kills strike it too.
    for _ in range(kills):
        before = stream.position()
        stream.reach(before + 5)
        threading.Event().wait(chance.random() * 1.5)
        position, tables = stream.sample()
        assert differences(tables, replay(log(nodes, position))) == []
        stream.kill(victims(stream, chance))
        if stream.process is None or stream.process.poll() is not None or not _goes_on(stream):
            stream.end()
            stream.start()
    stream.reach(stream.position() + 20)
    assert stream.process is not None
    assert stream.stop() == 0
    position, tables = stream.sample()
    facts = log(nodes, position)
    assert differences(tables, replay(facts)) == []
    assert [name for name, found in tables.items() if not found] == []
    archived = DeltaTable(stream.archive).to_pyarrow_table().drop_columns(["date", "time"]).to_pylist()
    assert archived
    held = [_read(one) for one in sorted(archived, key=lambda one: int(one["offset"]))]
    assert held == [_read(row(*one)) for one in log(nodes, len(held))]


def _read(event: dict[str, Any]) -> dict[str, Any]:
    return event | {"event": json.loads(event["event"])}


def _goes_on(stream: Stream) -> bool:
    """A driver that lives has its queries again soon, or ends because Spark is gone."""
    before = stream.position()
    until(
        lambda: stream.process is None or stream.process.poll() is not None or stream.position() > before,
        f"progress, or the end: {stream.told()}",
        240,
    )
    return stream.process is not None and stream.process.poll() is None


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.timeout(1800)
def test_kills_change_nothing_in_postgresql(tmp_path: Path) -> None:
    """PostgreSQL: the same, and the server crashes and recovers in between, while the stream lives on."""
    with server() as postgres, busy_cluster(tmp_path / "cluster") as nodes:
        stream = Stream(tmp_path, nodes, postgres.database())
        try:
            stream.start()
            stream.reach(10)
            postgres.stop()
            threading.Event().wait(2)
            postgres.start()
            stream.reach(stream.position() + 10)
            assert stream.process is not None
            assert stream.process.poll() is None
            assert stream.stop() == 0
            survive(stream, nodes, kills=2, seed=3)
        finally:
            stream.end()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kills_change_nothing_in_sqlite(tmp_path: Path) -> None:
    """SQLite: kills of whoever, with events flowing; samples between them, the end, and the archive are exact."""
    with busy_cluster(tmp_path / "cluster") as nodes:
        stream = Stream(tmp_path, nodes, f"sqlite:///{tmp_path}/facts.db")
        try:
            survive(stream, nodes, kills=5, seed=1)
        finally:
            stream.end()
