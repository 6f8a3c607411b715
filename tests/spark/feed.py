"""A real node with real events: what the tests of the room read."""

import json
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quorate.events import Event, Stamp
from quorate.wire.avro import encode_events
from quorate_spark.source import SourceOptions
from tests.clusters import Started, until, up
from tests.kafka_tools.fakes import START_MS, ServedLog


class Feed:
    """A cluster of one node, its topic, and ways to make events."""

    def __init__(self, started: Started) -> None:
        self.started = started
        self.kafka: str = started.nodes[0]["kafka"]
        self.http: str = started.nodes[0]["http"]
        self.topics = 0

    def options(self, **more: Any) -> SourceOptions:
        """How to read it."""
        return SourceOptions(nodes=self.kafka, **more)

    def topic(self, name: str = "") -> int:
        """Make one event, ``TopicCreated``; the next offset."""
        self.topics += 1
        body = json.dumps({"read_queues": 4, "write_queues": 4, "attributes": {"+message.type": "FIFO"}}).encode()
        url = f"http://{self.http}/v1/topics/{name or f'topic-{self.topics}'}"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="PUT")
        with urllib.request.urlopen(request, timeout=10) as answer:
            offset: int = json.loads(answer.read())["offset"]
        return offset

    def burst(self, count: int) -> int:
        """Make some events; the next offset."""
        return max(self.topic() for _ in range(count))

    def get(self, path: str) -> Any:
        """JSON from the node."""
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=10) as answer:
            return json.loads(answer.read())

    def log(self) -> list[dict[str, Any]]:
        """All events, as the node's HTTP interface tells them: another reader of the same log."""
        found: list[dict[str, Any]] = []
        start: int | None = 0
        while start is not None:
            page = self.get(f"/v1/log?from={start}&limit=1000")
            found += page["events"]
            start = page["next"]
        return found

    def requests(self, api: str) -> int:
        """How many Kafka requests of an API (``list_offsets``, ``fetch`` …) the node has answered, all versions."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        mine = [line for line in lines if line.startswith("quorate_kafka_requests_total{") and f'api="{api}"' in line]
        return sum(int(float(line.split()[-1])) for line in mine)


@contextmanager
def feed(folder: Path, *more: str) -> Iterator[Feed]:
    """A node of its own, with the events of its start."""
    with up(folder, *more, nodes=1) as started:
        made = Feed(started)
        until(lambda: made.get("/v1/status"), "a node that serves")
        yield made


def put(served: ServedLog, made: Sequence[Event], term: int = 1, **stamp: Any) -> None:
    """Add one batch of these events to a served log, a second after the one before."""
    log = served.log
    if not log.term_starts or log.term_starts[-1][0] != term:
        log.term_starts.append((term, log.end_offset))
    time_ms = START_MS + 1000 * len(log.batches)
    log.batches.append(encode_events(made, Stamp(offset=log.end_offset, term=term, time_ms=time_ms, **stamp)))
    log.bases.append(log.end_offset)
    log.times.append(time_ms)
    log.end_offset += len(made)
