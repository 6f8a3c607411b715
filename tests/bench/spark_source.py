"""How fast the log comes into Spark by either reader, beside librdkafka alone and decoding alone, on one node's log."""

import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from quorate_spark.source.frames import Source
from tests.bench.harness import Figure, Run, load
from tests.clusters import up
from tests.peers import PEERS, present

EVENTS_PER_SECOND = 20_000
"""Of the length of loads: with the default of 5 s, 100,000 events."""
SOURCES: tuple[Source, ...] = ("quorate", "kafka")
TURNS = 2
"""The better of these counts: the first one warms."""


def spark_source(run: Run) -> None:
    """Events a second from offset 0 to the end (``availableNow``): rows and time of the batches, as Spark counts them.

    ``whole_per_second`` is the same with the start of the query, which is seconds and not the source's.
    """
    from quorate_spark.session import session

    with tempfile.TemporaryDirectory(dir=run.folder) as folder, up(Path(folder) / "c", nodes=1) as cluster:
        node = cluster.nodes[0]
        end = _without_spark(run, node)
        jars = sorted((PEERS / "spark").glob("*.jar")) if present("spark") else ()
        spark = session("local[2]", "bench", jars)
        try:
            for source in SOURCES:
                if source == "kafka" and not jars:
                    run.keep(f"spark stream {source}", {"failed": "absent: spark (make peers)"})
                    continue
                again = partial(_stream, spark, node["kafka"], source, folder)
                run.take(f"spark stream {source}", partial(_best, end, again))
        finally:
            with suppress(Exception):  # Its JVM may be what failed; that is told already.
                spark.stop()


def _without_spark(run: Run, node: dict[str, Any]) -> int:
    """Fill the log; reading and decoding it alone. Its length."""
    from quorate_spark.source import SourceOptions
    from quorate_spark.source.log import EventLog
    from quorate_spark.source.reader import row

    log = EventLog(SourceOptions(nodes=node["kafka"]))
    while (end := log.end()) < EVENTS_PER_SECOND * run.seconds:
        load(run, "commits", int(node["rpc"].rpartition(":")[2]), 64, 0, "fill", 5)
    records = list(log.records(0, end))
    size = round(sum(len(record.value) for record in records) / end)
    run.take("log alone", lambda: _best(end, lambda: sum(1 for _ in log.records(0, end))) | {"event_bytes": size})
    run.take(
        "decoding alone", lambda: _best(end, lambda: sum(1 for record in records if row(record, log.event(record))))
    )
    log.close()
    return end


def _stream(spark: Any, nodes: str, source: Source, folder: str) -> tuple[int, float]:
    """One query to the end of the log: rows, and the seconds of its batches."""
    from quorate_spark.source import SourceOptions, events

    frame = events(spark, SourceOptions(nodes=nodes), source)
    writer = frame.writeStream.format("noop").option("checkpointLocation", tempfile.mkdtemp(dir=folder))
    query = writer.trigger(availableNow=True).start()
    if not query.awaitTermination(120):
        query.stop()
        raise TimeoutError("the query did not end within 120 s")
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    took_s = sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1000
    return sum(batch["numInputRows"] for batch in batches), took_s


def _best(events: int, work: Callable[[], int | tuple[int, float]]) -> Figure:
    """The best of some turns; each must have had all events. ``work`` may say itself how many seconds it took."""
    best = whole = 0.0
    for _ in range(TURNS):
        began = time.perf_counter()
        done = work()
        took_s = time.perf_counter() - began
        done, own_s = done if isinstance(done, tuple) else (done, took_s)
        best, whole = max(best, done / own_s), max(whole, done / took_s)
        if done < events:  # A stream may meet a few more: the load's brokers are missed after a while.
            raise RuntimeError(f"{done} events of {events} came")
    return {"events": events, "per_second": round(best), "whole_per_second": round(whole)}
