"""The data directories of a cluster that an old build ran: what is recorded of them, and how they were made.

``tests/data/469a1f7-of-3.txt`` is what ``quorate up`` of that commit left behind when it was stopped (settings, key and
data of three nodes: tar, xz, base64); ``469a1f7-of-3.jsonl`` is what its first node answered just before: a line of
answers, and a line for each event. Nothing later wrote a byte of them. They are made again, beside the same of a lone
node, by a checkout of that commit with an environment of its own:

    python -m tests.integration.old_directory OLD/.venv/bin/quorate

The questions are asked of the old build and of the one under test by the same functions.
"""

import base64
import hashlib
import json
import lzma
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, TopicPartition

from quorate.wire.kafka import Api
from tests.clusters import until
from tests.kafka_tools.fakes import TOPIC
from tests.kafka_tools.raw import Client, fetch, fetched

DATA = Path(__file__).resolve().parents[1] / "data"
BASE_PORTS = {1: 18_860, 3: 18_870}
"""By number of nodes. The nodes' settings say these, and a test must not change them: below what other tests take."""
SETS = {"orders": (18_901, 18_902, 18_903), "payments": (18_904,)}
GROUPS = {"readers": (5, ""), "writers": (7, "by hand")}
"""Committed: position and metadata."""
PAST = ("/v1/brokers", "/v1/topics", "/v1/config", "/v1/elections")
"""What is answered of any offset."""


def answer(address: str, path: str, body: object = None, method: str = "PUT") -> Any:
    """The JSON a node answers; a change when there is a body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{address}{path}", data, {"content-type": "application/json"})
    request.method = "GET" if body is None else method
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)


def wordless(told: Any) -> Any:
    """Without the sentences: each build has its own."""
    if isinstance(told, list):
        return [wordless(part) for part in told]
    if isinstance(told, dict):
        return {name: wordless(part) for name, part in told.items() if name != "explanation"}
    return told


def holds(told: Any, recorded: Any) -> bool:
    """Does an answer say all that was recorded, and nothing else of it? Newer builds have more fields."""
    if isinstance(recorded, dict):
        return isinstance(told, dict) and all(name in told and holds(told[name], recorded[name]) for name in recorded)
    if isinstance(recorded, list):
        return isinstance(told, list) and len(told) == len(recorded) and all(map(holds, told, recorded))
    return bool(told == recorded)


def state(address: str, offset: int) -> dict[str, Any]:
    """What was so at an offset, without what each answer says of itself."""
    found = {}
    for path in PAST:
        reply = answer(address, f"{path}?at={offset}")
        assert reply["next"] is None
        (name,) = reply.keys() - {"offset", "time_ms", "node", "past", "next"}
        found[name] = wordless(reply[name])
    return found


def log(address: str, end: int) -> list[dict[str, Any]]:
    """The events below an offset, as HTTP tells them."""
    told: list[dict[str, Any]] = answer(address, f"/v1/log?from=0&limit={end}")["events"]
    return told


def batches(kafka: str, end: int) -> bytes:
    """The record batches below an offset, byte for byte as Kafka serves them."""
    client = Client(int(kafka.rpartition(":")[2]))
    with client.socket:
        records: bytes = fetched(client.ask(Api.FETCH, 11, fetch(0)))["records"]
    at = 0
    while at < len(records) and int.from_bytes(records[at : at + 8], "big") < end:
        at += 12 + int.from_bytes(records[at + 8 : at + 12], "big")
    return records[:at]


def consumer(kafka: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": kafka, "group.id": group, "enable.auto.commit": False})


def positions(kafka: str) -> dict[str, Any]:
    """What a stock client is told that the groups have committed: offset and metadata."""
    found = {}
    for group in GROUPS:
        with closing(consumer(kafka, group)) as client:
            (at,) = client.committed([TopicPartition(TOPIC, 0)], timeout=20)
            found[group] = [at.offset, at.metadata]
    return found


def recorded_as(nodes: int) -> tuple[Path, Path]:
    """The files that keep the directories and the answers."""
    return DATA / f"469a1f7-of-{nodes}.txt", DATA / f"469a1f7-of-{nodes}.jsonl"


def unpack(nodes: int, folder: Path) -> None:
    """The recorded directories, in a folder."""
    folder.mkdir()
    whole = lzma.decompress(base64.b64decode(recorded_as(nodes)[0].read_text()))
    subprocess.run(["tar", "--extract", "--directory", str(folder)], input=whole, check=True)


# ── how they were made ────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs meanwhile; ended by SIGTERM."""
    running = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        yield running
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(30)


class Brokers:
    """The old build's simulated brokers, ended with the block."""

    def __init__(self, old: str, folder: Path, nodes: int) -> None:
        self._old, self._folder = old, folder
        self._rpc = ";".join(f"127.0.0.1:{BASE_PORTS[nodes] + 10 * node}" for node in range(nodes))
        self._running: dict[int, ExitStack] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for port in list(self._running):
            self.end(port)

    def start(self, name: str, port: int) -> None:
        home = self._folder / str(port)
        home.mkdir(exist_ok=True)
        words = ["--cluster", "C", "--broker-set", name, "--port", str(port), "--home", str(home)]
        self._running[port] = ExitStack()
        self._running[port].enter_context(process(self._old, "simbroker", *words, "--controllers", self._rpc))

    def end(self, port: int) -> None:
        self._running.pop(port).close()

    def live(self, http: str) -> None:
        """All of them come, an election is asked for, a master dies and comes back."""

        def found(name: str) -> dict[str, Any]:
            sets: list[dict[str, Any]] = answer(http, "/v1/brokers")["brokers"]
            return next((one for one in sets if one["broker_set"] == name), {"sync_state_set": [], "master": None})

        def in_sync(name: str, count: int) -> None:
            until(lambda: len(found(name)["sync_state_set"]) == count, f"{count} of {name} in sync")

        for name, ports in SETS.items():
            for count, port in enumerate(ports, 1):
                self.start(name, port)
                in_sync(name, count)
        first = found("orders")["master"]
        answer(http, "/v1/elections", {"broker_set": "orders", "broker_id": 2 if first == 1 else 1}, "POST")
        until(lambda: found("orders")["master"] not in {None, first}, "the election that was asked for")
        in_sync("orders", 3)
        dies = found("orders")["master"]
        replica = next(one for one in found("orders")["replicas"] if one["broker_id"] == dies)
        port = int(replica["address"].rpartition(":")[2])
        self.end(port)
        until(lambda: found("orders")["master"] not in {None, dies}, "the election after a death")
        self.start("orders", port)
        in_sync("orders", 3)


def change(http: str) -> None:
    """Topics and settings that come, change and go."""
    for number in range(4):
        answer(http, f"/v1/topics/topic-{number}", {"read_queues": 4 + number, "write_queues": 4})
    first_in_first_out = {"read_queues": 8, "write_queues": 8, "attributes": {"+message.type": "FIFO"}}
    answer(http, "/v1/topics/topic-1", first_in_first_out)
    answer(http, "/v1/topics/topic-2", {}, "DELETE")
    answer(http, "/v1/config/topic/topic-1", {"changes": {"retention.hours": "72", "owner": "Zürich – team a"}})
    answer(http, "/v1/config/topic/topic-1", {"changes": {"owner": None}})
    answer(http, "/v1/config/cluster", {"changes": {"owner": "Zürich – team b"}})
    answer(http, "/v1/config/broker-set/orders", {"changes": {"zone": "b"}})


def commit(kafka: str) -> None:
    """A position of each group, by a stock client."""
    for group, (offset, metadata) in GROUPS.items():
        with closing(consumer(kafka, group)) as client:
            at = TopicPartition(TOPIC, 0, offset, metadata)  # Typed without: the stubs are behind.
            client.commit(offsets=[at], asynchronous=False)


def ask(nodes: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is recorded beside the directories: of the first node, at its end of now."""
    http, kafka = nodes[0]["http"], nodes[0]["kafka"]
    end = answer(http, "/v1/status")["offset"]
    records = hashlib.sha256(batches(kafka, end)).hexdigest()
    return {"offset": end, "state": state(http, end), "positions": positions(kafka), "records": records}, log(http, end)


def packed(folder: Path, nodes: int) -> str:
    """Settings, key and data, without what the processes said."""
    wanted = ["cluster.key", *(f"n{node + 1}/{part}" for node in range(nodes) for part in ("node.toml", "data"))]
    sparse = ["--create", "--sparse", "--hole-detection=raw", "--format=gnu", "--sort=name"]
    tar = ["tar", *sparse, "--owner=0", "--group=0", "--numeric-owner", "--directory", str(folder), *wanted]
    whole = subprocess.run(tar, check=True, stdout=subprocess.PIPE).stdout
    return base64.encodebytes(lzma.compress(whole, preset=9 | lzma.PRESET_EXTREME)).decode()


def record(old: str, nodes: int) -> None:
    """Run the old build, write, ask, stop it while the brokers live, pack."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "c"
        where = ["--nodes", str(nodes), "--data-dir", str(folder), "--base-port", str(BASE_PORTS[nodes])]
        with Brokers(old, Path(name), nodes) as brokers, process(old, "up", *where) as cluster:
            assert cluster.stdout is not None
            ready = json.loads(cluster.stdout.readline())["nodes"]
            brokers.live(ready[0]["http"])
            change(ready[0]["http"])
            commit(",".join(node["kafka"] for node in ready))
            recorded, events = ask(ready)
        directory, answers = recorded_as(nodes)
        directory.write_text(packed(folder, nodes))
    lines = (json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in (recorded, *events))
    answers.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    for size in BASE_PORTS:
        record(sys.argv[1], size)
