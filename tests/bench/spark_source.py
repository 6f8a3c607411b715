"""How fast the log comes into Spark by either reader, beside librdkafka alone and decoding alone, on one node's log."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.harness import Run, load
from tests.clusters import up
from tests.peers import PEERS, present

EVENTS = 100_000
TURNS = 2
"""The better of these counts: the first one warms."""


def spark_source(run: Run) -> None:
    """Events a second from offset 0 to the end (``availableNow``): rows and time of the batches, as Spark counts them.

    ``whole_per_second`` is the same with the start of the query, which is seconds and not the source's.
    """
    from quorate_spark.session import session
    from quorate_spark.source import SourceOptions, events
    from quorate_spark.source.log import EventLog
    from quorate_spark.source.reader import row

    with tempfile.TemporaryDirectory(dir=run.folder) as folder, up(Path(folder) / "c", nodes=1) as cluster:
        node = cluster.nodes[0]
        log = EventLog(SourceOptions(nodes=node["kafka"]))
        end = log.end()
        for turn in range(12):
            if end >= EVENTS:
                break
            load(run, "commits", int(node["rpc"].rpartition(":")[2]), 64, 0, f"fill-{turn}", 10)
            end = log.end()
        records = list(log.records(0, end))
        size = round(sum(len(record.value) for record in records) / end)
        run.keep("log alone", _best(end, lambda: sum(1 for _ in log.records(0, end)), event_bytes=size))
        run.keep("decoding alone", _best(end, lambda: sum(1 for record in records if row(record))))
        log.close()
        jars = sorted((PEERS / "spark").glob("*.jar")) if present("spark") else ()
        spark = session("local[2]", "bench", jars)
        for source in ("quorate", "kafka") if jars else ("quorate",):

            def stream(source: Any = source) -> tuple[int, float]:
                frame = events(spark, SourceOptions(nodes=node["kafka"]), source)
                checkpoint = tempfile.mkdtemp(dir=folder)
                writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
                query = writer.trigger(availableNow=True).start()
                query.awaitTermination(300)
                batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
                took_s = sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1000
                return sum(batch["numInputRows"] for batch in batches), took_s

            run.keep(f"spark stream {source}", _best(end, stream))
        spark.stop()


def _best(events: int, work: Callable[[], int | tuple[int, float]], **more: Any) -> dict[str, Any]:
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
    return {"events": events, "per_second": round(best), "whole_per_second": round(whole), **more}
