"""200 long-polling consumers on a follower, while the leader commits 50 events a second: what do they cost the leader?

The consumers are raw connections in a process of their own, so that they take as little of the machine as they can:
``python -m tests.bench.consumers PORT COUNT SECONDS`` prints ``ready`` when all of them wait, then one line of JSON.
"""

import asyncio
import json
import subprocess
import sys
from functools import partial
from typing import Any, cast

import uvloop

from quorate.gateway.kafka.settings import KafkaSettings
from quorate.wire.kafka_primitives import int16, int32, int64, string
from tests.bench.harness import ROUNDS, Figure, Ours, Run, ending, load, middle, ours, said

TOPIC = KafkaSettings().topic
COUNT = 200
RATE = 50
CLIENTS = 16
VERSION = 11
HIGH_WATERMARK_AT = 4 + 4 + 2 + 4 + 4 + 2 + len(TOPIC) + 4 + 4 + 2
"""Of a Fetch answer of one topic and one partition, after its length."""


def fetch(offset: int) -> bytes:
    """One long poll from ``offset`` on."""
    head = int16(1) + int16(VERSION) + int32(1) + string("bench")
    limits = int32(-1) + int32(5000) + int32(1) + int32(1 << 20) + b"\x00" + int32(0) + int32(-1)
    partition = int32(0) + int32(-1) + int64(offset) + int64(-1) + int32(1 << 20)
    frame = head + limits + int32(1) + string(TOPIC) + int32(1) + partition + int32(0) + string("")
    return int32(len(frame)) + frame


class Consumer(asyncio.Protocol):
    """One connection, always with one fetch under way."""

    def __init__(self) -> None:
        self.offset = 0
        self.events = 0
        self.answers = 0
        self._buffer = bytearray()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with the first event."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(fetch(0))

    def data_received(self, data: bytes) -> None:
        """Go on behind what came: an answer holds all there is, but at the start."""
        self._buffer += data
        while len(self._buffer) >= 4 and len(self._buffer) >= (size := int.from_bytes(self._buffer[:4], "big") + 4):
            high = int.from_bytes(self._buffer[4 + HIGH_WATERMARK_AT : 12 + HIGH_WATERMARK_AT], "big")
            del self._buffer[:size]
            self.answers += 1
            self.events += high - self.offset
            self.offset = high
            self._transport.write(fetch(high))


async def consume(port: int, count: int, seconds: float) -> dict[str, Any]:
    """All of them, for so long; what they got after the start."""
    loop = asyncio.get_running_loop()
    consumers = []
    for _ in range(count):
        _, consumer = await loop.create_connection(Consumer, "127.0.0.1", port)
        consumers.append(consumer)
    await asyncio.sleep(1.0)
    before = [(consumer.events, consumer.answers) for consumer in consumers]
    print("ready", flush=True)
    await asyncio.sleep(seconds)
    events = [consumer.events - had for consumer, (had, _) in zip(consumers, before, strict=True)]
    answers = sum(consumer.answers - had for consumer, (_, had) in zip(consumers, before, strict=True))
    return {"consumers": count, "events_min": min(events), "events_max": max(events), "answers": answers}


def consumers(run: Run) -> None:
    """The leader's commits at 50 a second: alone, and with 200 consumers waiting at a follower, in turn."""
    seconds = 2 * run.seconds
    with ours(run) as cluster:
        port = cluster.rpc(cluster.leader())
        load(run, "commits", port, CLIENTS, RATE, "commits-50-warm-up", 2)
        alone, there = [], []
        for number in range(1, ROUNDS + 1):
            by_itself = partial(load, run, "commits", port, CLIENTS, RATE, f"commits-50-{number}", seconds)
            alone.append(run.take(f"commits at 50/s, {number}", by_itself))
            beside = partial(_beside, run, cluster, port, f"commits-50-beside-{number}", seconds)
            there.append(run.take(f"200 consumers on a follower, {number}", beside))
        run.take("commits at 50/s", partial(middle, alone))
        run.take("200 consumers on a follower", lambda: _compared(middle(there), middle(alone)))


def _beside(run: Run, cluster: Ours, port: int, name: str, seconds: int) -> Figure:
    """The same commits; the consumers must have read them."""
    kafka = cluster.follower()["kafka"].rpartition(":")[2]
    command = [sys.executable, "-m", "tests.bench.consumers", kafka, str(COUNT), str(seconds)]
    with ending(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as process:
        said(process)
        syncs = cluster.syncs()
        figure = load(run, "commits", port, CLIENTS, RATE, name, seconds)
        figure["syncs"] = [after - earlier for after, earlier in zip(cluster.syncs(), syncs, strict=True)]
        figure |= json.loads(said(process))
    if figure["events_min"] < RATE * seconds / 2:
        raise RuntimeError(f"a consumer got {figure['events_min']} events only")
    return figure


def _compared(figure: Figure, alone: Figure) -> Figure:
    return figure | {f"p{q}_ratio": round(figure[f"p{q}_us"] / max(alone[f"p{q}_us"], 1), 3) for q in (50, 99)}


if __name__ == "__main__":
    print(json.dumps(uvloop.run(consume(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))), flush=True)
